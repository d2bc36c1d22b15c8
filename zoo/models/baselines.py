"""The two yardsticks: every task alone, and all tasks as one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, Run, as_in
from zoo.core.prior_density import standard_normal_density
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.inference.conjugate import linear_regression_draws
from zoo.latent.weights_mode import logistic_regression_draws
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.laws import NOISE_OF_ONE_ROW, InverseGammaOfSquare, Law
from zoo.likelihoods.logistic import Logistic
from zoo.support.checks import positive

__all__ = ["IndependentTasks", "PooledTasks", "data_for"]


def data_for(model: ModelFactory, data: MultiTaskData) -> MultiTaskData:
    """Data as a yardstick takes them: where it has no shared coefficients, every feature is one like the others."""
    return data if model.serves_shared or not data.shared_names else replace(data, shared_names=())


@dataclass(frozen=True, kw_only=True)
class _Regression(ModelFactory):
    """Bayesian linear or logistic regression, one for each group of rows."""

    paper: ClassVar[str] = "yardstick"
    constraints: ClassVar[dict[str, str]] = {"noise": "> 0"}
    by_task: ClassVar[bool]
    prior_order: ClassVar[tuple[str, ...]] = ("noise", "coefficients")

    likelihood_laws: ClassVar[dict[str, Law]] = {**ModelFactory.likelihood_laws, "noise": NOISE_OF_ONE_ROW}

    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.prior_scale, "prior_scale")

    @property
    def _in_units_of_noise(self) -> bool:
        """Whether the likelihood has a noise, in whose units the coefficients are."""
        return "noise" in self.likelihood.parameter_names

    def units(self, data: MultiTaskData) -> Units:
        """The units of the features and the response in which the law of the coefficients is, of prepared data."""
        own: Any = data.units
        default = next(f.default for f in fields(self) if f.name == "prior_scale")
        relative = own is not None and self.prior_scale == default and not dict(self.own_priors)
        if relative:
            return own
        return Units.of_size(data.n_features)

    @property
    def _noise_is_conjugate(self) -> bool:
        """Whether the prior of the noise, which a subclass may change, leaves the draws in closed form."""
        return not self._in_units_of_noise or isinstance(self.law_of("noise"), InverseGammaOfSquare)

    def parameter_dims(self, name: str) -> tuple[str, ...]:
        """Every task has its own, where tasks share nothing."""
        return ("task",) if self.by_task else super().parameter_dims(name)

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Coefficients with a learned scale; for real responses in units of the noise."""
        task = ("task",) if self.by_task else ()
        dims = ("feature", *task)
        if not self.by_task and (own := self.own_prior("coefficients", dims)) is not None:
            return {"coefficients": own, **self.add_parameters(data)}
        tau = pm.HalfNormal("shrinkage", self.prior_scale, dims=task)
        parameters = {**self.likelihood.fixed, **self.add_parameters(data)}
        scale = tau * parameters["noise"] if self._in_units_of_noise else tau
        units = self.units(data.source)
        # The noise has the unit of the response already.
        scale = scale / units.y_scale if self._in_units_of_noise and not units.plain else scale
        white = pm.Normal("_coefficients", dims=dims)
        coefficients = units.coefficients(white * scale)
        return {"coefficients": pm.Deterministic("coefficients", coefficients, dims=dims)}

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables by name, without a PyMC model of all rows, unless a subclass changed a hook."""
        if self.own_priors or not as_in(self, _Regression, (*self.hooks, "add_parameters", "parameter_dims")):
            return super().variable_dims(data, y)
        dims = {"coefficients": ("feature", "task") if self.by_task else ("feature",)}
        if self.by_task:
            dims["shrinkage"] = ("task",)
        return {**dims, **{name: of for name in self.likelihood.learned if (of := self.parameter_dims(name))}}

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Density of the coefficients given the noise."""
        if name != "coefficients":
            return None
        units = self.units(data)
        noise = {**self.likelihood.fixed, **values}.get("noise", 1.0) if self._in_units_of_noise else 1.0
        if self._in_units_of_noise and not units.plain:
            noise = noise / units.y_scale
        return standard_normal_density(units.white(values[name]), values["shrinkage"] * noise)

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        if self.likelihood not in (Gaussian(), Logistic()) or not self._noise_is_conjugate:
            return super().method_table()
        best = (
            Method(
                "exact",
                "independent draws from the exact posterior (conjugate, given a grid for one scale)",
                self._fit_exact,
                weights=True,
                independent=True,
            )
            if self.likelihood == Gaussian()
            else Method(
                "laplace",
                "approximation: Gaussian at the mode, prior scale by its evidence",
                self._fit_laplace,
                given_estimates=True,
                weights=True,
                independent=True,
            )
        )
        return [best, *super().method_table()]

    def _fit_exact(self, data: MultiTaskData, y: np.ndarray, run: Run) -> Result:
        names = ("coefficients", "noise", "shrinkage")
        law: Any = self.law_of("noise", data).scaled(1.0 / self.units(data).y_scale)
        draws = partial(linear_regression_draws, noise_prior=(law.shape, law.rate))
        return self._draw_chains(data, y, run, names, draws)

    def _fit_laplace(self, data: MultiTaskData, y: np.ndarray, run: Run) -> Result:
        def draws(
            X: np.ndarray, y: np.ndarray, n_draws: int, scale: float, rng: np.random.Generator, weight: Any
        ) -> tuple[np.ndarray, np.ndarray]:
            w, tau = logistic_regression_draws(X, y, n_draws, scale, rng, weight)
            return w, np.full(n_draws, tau)

        return self._draw_chains(data, y, run, ("coefficients", "shrinkage"), draws)

    def _draw_chains(
        self, data: MultiTaskData, y: np.ndarray, run: Run, names: tuple[str, ...], draws: Any
    ) -> Result:
        """Independent draws of every group, dealt out to the chains."""
        rng = np.random.default_rng(run.random_seed)
        units = self.units(data)
        # In units of the default priors, where numbers are near 1.
        X, y = (data.X, y) if units.plain else (units.apply_x(data.X), units.apply_y(y))
        groups = data.rows_by_task() if self.by_task else [np.arange(data.n_rows)]
        total = run.chains * run.draws
        posterior: dict[str, np.ndarray] = {}
        for t, at in enumerate(groups):
            weight = None if data.weight is None else data.weight[at]
            for name, values in zip(
                names, draws(X[at], y[at], total, self.prior_scale, rng, weight), strict=True
            ):
                if name == "coefficients" and not units.plain:
                    values = units.coefficients(values.T).T
                elif name == "noise":
                    values = values * units.y_scale
                # Filled task by task: a list of all would hold the draws twice.
                if name not in posterior:
                    posterior[name] = np.empty((*values.shape, len(groups)))
                posterior[name][..., t] = values
        for name, values in posterior.items():
            of_groups = values if self.by_task else values[..., 0]
            posterior[name] = of_groups.reshape(run.chains, run.draws, *of_groups.shape[1:])
        return Result(posterior, {"independent": np.ones((run.chains, run.draws), dtype=bool)})


@dataclass(frozen=True, kw_only=True)
class PooledTasks(_Regression):
    """One Bayesian regression for all tasks together.

    ``coefficients ~ N(0, noise^2 shrinkage^2 I)`` (``N(0, shrinkage^2 I)`` for labels), with
    ``shrinkage ~ HalfNormal(prior_scale)`` and ``noise^2 ~ InverseGamma(0.5, 0.005)``, of standardized features and
    responses. Of data that are not standardized the coefficients are reported in the units of the data.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of y given f: "gaussian" and "logistic" have methods of their own, others are sampled by NUTS.
    prior_scale : float
        Scale of the half-normal prior of ``shrinkage``. The default, 1, is in units of the data; another number, and a
        prior in ``own_priors``, is for coefficients of the features as they were handed over.
    own_priors : mapping of str to distribution
        As in :class:`zoo.ModelFactory`. A prior of ``coefficients`` replaces the one with a learned scale.
    """

    by_task: ClassVar[bool] = False
    # All of its coefficients are.
    serves_shared: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class IndependentTasks(_Regression):
    """A Bayesian regression for each task alone: nothing is shared.

    The model of :class:`PooledTasks` with its own ``coefficients``, ``noise`` and ``shrinkage`` for each task.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of y given f: "gaussian" and "logistic" have methods of their own, others are sampled by NUTS.
    prior_scale : float
        Scale of the half-normal prior of ``shrinkage``. The default, 1, is in units of the data; another number, and a
        prior in ``own_priors``, is for coefficients of the features as they were handed over.
    """

    by_task: ClassVar[bool] = True
    own_task_priors: ClassVar[tuple[str, ...]] = ("shrinkage",)

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """The posterior with a row of the data, whose units those of new tasks are."""
        return fit.posterior.assign_attrs(prepared=self.design(fit.data.take([0]), fit.context))

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draws from the prior: tasks that share nothing tell nothing of a new one.

        The prior of the noise has such tails that predictions have a centre, and no mean. So every second draw is the
        mirror image of the one before it, and averages are the centre: zero in units of the data.
        """
        prepared: MultiTaskData | None = posterior.attrs.get("prepared")
        n_features = posterior.sizes["feature"]
        units = Units.of_size(n_features) if prepared is None else self.units(prepared)
        size = (posterior.sizes["chain"], posterior.sizes["draw"], len(names))
        own = dict(self.own_priors).get("shrinkage")
        shrinkage = (
            np.abs(rng.normal(scale=self.prior_scale, size=size)) if own is None else own.random(size, rng)
        )
        scale = shrinkage
        draws = {"shrinkage": shrinkage}
        for name in self.likelihood.learned:
            draws[name] = self.law_of(name, prepared).random(size, rng)
        if self._in_units_of_noise:
            scale = shrinkage * {**self.likelihood.fixed, **draws}["noise"] / units.y_scale
        draws["coefficients"] = rng.standard_normal((*size[:2], n_features, size[2]))
        draws["coefficients"] *= scale[:, :, None]
        last = size[1] // 2 * 2
        for name, values in draws.items():
            sign = -1.0 if name == "coefficients" else 1.0
            values[:, 1:last:2] = sign * values[:, :last:2]
        draws["coefficients"] = np.moveaxis(
            units.coefficients(np.moveaxis(draws["coefficients"], 2, 0)), 0, 2
        )
        return draws

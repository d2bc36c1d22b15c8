"""Gaussian processes, one per task, that select features jointly (Srijith & Shevade 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.special import ndtri

from zoo.core.absolute_laws import warn_of_responses
from zoo.core.capabilities import Condition, Relevance
from zoo.core.context import Context
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, Run, UnsupportedMethodError, overridden_hooks
from zoo.data.multitask import MultiTaskData
from zoo.inference.ard.correlation import Parameters
from zoo.inference.run.progress import ClimbProgress
from zoo.likelihoods.gaussian import Gaussian
from zoo.models.multi_laplace import mode as mode
from zoo.models.multi_laplace import new_tasks
from zoo.models.multi_laplace.ard_gp import (
    GPRows,
    Processes,
    TaskProcesses,
    conditional_function,
    kernel_rows,
)
from zoo.models.multi_laplace.description import MultiLaplaceDescription
from zoo.models.multi_laplace.relevance import relevance_table
from zoo.models.multi_laplace.selection import selected_features

__all__ = ["MultiLaplaceGP"]

# Draws that stand for the predictive law of an estimate.
_POINT_DRAWS = 1000
# A noise floor below this, in standard deviations of y, is no statement about the noise.
_LOW_FLOOR = 0.1


class RelevanceFit(Condition, Relevance):
    """Fits with a relevance for each feature."""


@dataclass(frozen=True, kw_only=True)
class MultiLaplaceGP(MultiLaplaceDescription):
    r"""Gaussian processes, one per task, that select features jointly through a prior on their ARD parameters.

    .. math::

        y_n = m_{t(n)}(x_n) + f_{t(n)}(x_n) + \epsilon_n, \quad f_t \sim GP(0, a_t K_{\kappa^t}), \quad
        \epsilon_n \sim N(0, \sigma_{t(n)}^2)

    with :math:`K_\kappa(x, x') = \exp(-\tfrac12 \sum_i \kappa_i (x_i - x'_i)^2)` or :math:`\sum_i \kappa_i x_i x'_i`
    (eqs 4, 5), :math:`p(\kappa_i^1 \dots \kappa_i^T) \propto \exp(-C \lVert \kappa_i \rVert_2)` on the positive
    orthant (eq 7) and :math:`\sigma_t^2 \sim \mathrm{Exponential}(B)` (eq 9), where C is
    the field ``penalty`` and B ``noise_rate``. Functions are integrated out. A feature
    whose :math:`\kappa_i^t` are 0 in all tasks is irrelevant; its ``kappa`` are exactly 0 at the mode if C is large
    enough. Standardize the response first.

    Beside the hooks of :class:`zoo.ModelFactory` a subclass may override ``mean_function(data, priors)``, the mean of
    the response, and ``base_covariance(input_dim)``, which keeps every method.

    ``kappa`` (feature, task) are the ARD parameters, ``noise`` (task) the standard deviations :math:`\sigma_t`,
    ``kappa_scale`` (feature) the scale of each feature's kappa over tasks.

    Parameters
    ----------
    kernel : {"squared_exponential", "linear", "matern52", "matern32"} or pm.gp.cov.Covariance
        A covariance function with numbers for parameters (lengthscale 1) has ARD parameters by
        :math:`k(\sqrt\kappa x, \sqrt\kappa x')`.
    penalty : float or "learned"
        Rate of the multi-Laplace prior, 0 or more (0: no prior, for the mode alone). "learned": Gamma(2) with mean
        :math:`D \sqrt T`, by NUTS alone: at the mode there is none, choose it by :func:`zoo.select` or :meth:`path`.
    noise_rate : float or "learned"
        Rate of the priors of the noise variances. "learned": Gamma(2, 1), by NUTS alone.
    ard : {"group", "shared", "independent", "pooled"}
        Of the paper's table 2: GPMTFS; one kappa for all tasks (GPMTL); independent tasks with exponential priors
        (ITL); one process for the rows of all tasks (ATL). The last three have the prior Exponential(penalty).
    prior : {"multi_laplace", "horseshoe"}
        "horseshoe": :math:`\kappa_i^t = s_i |z_i^t|` with regularised half-Cauchy :math:`s_i` (Piironen and Vehtari
        2017), by NUTS alone. For many tasks the multi-Laplace law has little mass near zero (its norm is
        Gamma(T, C)): its posterior mode selects, its posterior does not. This prior's posterior does.
    mean : {"constant", "zero", "linear"}
        A constant per task, N(0, 1), integrated out; none, as in the paper; the constant and beside it one linear
        function for all tasks, with ``mean_coefficients`` N(0, 1).
    amplitude : {"one", "task"}
        1 as in the paper, or ``amplitude`` of each task, Exponential(1). A linear kernel has none.
    standardize : bool
        Centre and scale the features (over the rows of all tasks) before the kernel sees them.
    noise_floor : float
        Smallest noise standard deviation: :math:`\sigma_t^2` less its square is exponential.

    Notes
    -----
    Functions are integrated out of the model that ``build`` returns: what PyMC draws from it given a posterior are
    responses of new functions. ``fit.model`` and ``fit.to_pymc()`` have the functions given the responses.

    Constant features take no part, and are warned of (but for one called "intercept"). The prior is on ARD parameters
    of standardized features; :meth:`Fit.relevance` has them on the user's scale too. The posterior mode need not be
    the only one: see ``starts`` of method "map".

    References
    ----------
    Srijith, P. K. and Shevade, S. (2014). Gaussian process multi-task learning using joint feature selection. ECML
    PKDD. Normaliser of (7) and (8) corrected, see :class:`zoo.distributions.MultiLaplace`.
    """

    fit_class: ClassVar[type[Fit]] = RelevanceFit
    paper: ClassVar[str] = "srijith2014"
    shares_tasks: ClassVar[bool] = True
    constraints: ClassVar[dict[str, str]] = {"noise": "> 0", "kappa": ">= 0"}
    hooks: ClassVar[tuple[str, ...]] = (*ModelFactory.hooks, "mean_function")
    integrates_functions: ClassVar[bool] = True
    prior_order: ClassVar[tuple[str, ...]] = ("kappa", "kappa_scale", "noise")

    # ---------------------------------------------------------------- hooks

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; warns of responses far from the scale that the priors expect."""
        self._require_normal_noise()
        y = super().validate(data)
        warn_of_responses(y)
        if not isinstance(self.kernel, str):
            needed = getattr(self.base_covariance(data.n_features), "input_dim", None)
            varying = int((np.ptp(data.inputs, axis=0) > 0).sum())
            if needed is not None and needed != varying:
                raise ValueError(
                    f"kernel has input_dim {needed}, but the data have {varying} features that vary. Make them equal."
                )
        return y

    def _require_normal_noise(self) -> None:
        """Raise where a subclass has another likelihood: functions are integrated out under normal noise alone."""
        kind = type(self)
        own = kind.observe is not MultiLaplaceGP.observe and kind.latent is not MultiLaplaceGP.latent
        if self.likelihood != Gaussian() and not own:
            raise UnsupportedMethodError(
                f"likelihood is {self.likelihood!r}, but {kind.__name__} integrates its functions out, which needs "
                "Gaussian noise with the prior of the field noise_rate. Override the hooks `latent` and `observe`, so "
                "that functions are variables, or use another model (zoo.MultiTaskKernelMachine, "
                "zoo.VaryingCoefficientGP)."
            )

    def design(self, data: MultiTaskData, context: Context | None = None) -> GPRows:
        """The rows as the kernel sees them."""
        return kernel_rows(data, context, self.standardize)

    design.leaves_t = True  # type: ignore[attr-defined]

    def _of_tasks(self, priors: dict[str, Any], n_tasks: int) -> Parameters:
        """ARD parameters (T, D), noise variances (T,) and amplitudes (T,) in the model; T is 1 if tasks are pooled."""
        T = 1 if self.ard == "pooled" else n_tasks
        kappa, variance = priors["kappa"], priors["noise"] ** 2
        kappa = kappa.T if kappa.ndim == 2 else pt.broadcast_to(kappa, (T, kappa.shape[0]))
        amplitude = priors["amplitude"] if self.amplitude == "task" else pt.ones(T)
        return Parameters(kappa, pt.broadcast_to(variance, (T,)), pt.broadcast_to(amplitude, (T,)))

    def priors(self, data: ModelData) -> dict[str, Any]:
        """ARD parameters, noise, and what the fields ask for beside them."""
        T, D = data.source.n_tasks, data.source.n_features
        task = () if self.ard == "pooled" else ("task",)
        C, B = self.penalty, self.noise_rate
        if C == "learned" and self.prior == "multi_laplace":
            C = pm.Gamma("penalty", 2.0, 2.0 / (D * (np.sqrt(T) if self.ard == "group" else 1.0)))
        if B == "learned":
            B = pm.Gamma("noise_rate", 2.0, 1.0)
        result = {"kappa": self._ard_prior(C, D, task)}
        # Non-centred: few rows tell little of a task's noise, and all of them move with B.
        variance = pm.Exponential("_noise_variance", 1.0, dims=task) / B
        result["noise"] = pm.Deterministic("noise", pt.sqrt(self.noise_floor**2 + variance), dims=task)
        if self.amplitude == "task":
            result["amplitude"] = pm.Exponential("amplitude", mode.AMPLITUDE_RATE, dims=task)
        if self.mean == "linear":
            result["mean_coefficients"] = pm.Normal("mean_coefficients", dims="feature")
        return result

    # Derived for the hook `priors` of this class: a subclass is held against it.
    prior_density = MultiLaplaceDescription.prior_density

    def mean_function(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Mean of the response at every row, (N,), beside the constant of each task."""
        if self.mean != "linear":
            return pt.zeros(data.inputs.shape[0])
        return data.linear(priors["mean_coefficients"])

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Mean of every row; at rows to predict, a draw of the function given the known rows."""
        rows: Any = data.source
        mean = self.mean_function(data, priors)
        if rows.known is None:
            return mean
        known = ModelData.constant(rows.known)
        f, sd = conditional_function(
            self.correlation(rows.n_features),
            replace(rows.known, task_names=rows.task_names).task_inputs(self.ard == "pooled"),
            known.y - self.mean_function(known, priors),
            self._of_tasks(priors, rows.n_tasks),
            self.constant_variance,
            rows.X,
            np.zeros_like(rows.task) if self.ard == "pooled" else rows.task,
        )
        # One standard normal per draw, the same at all rows: right for each row, not for several jointly.
        innovation = pm.Normal("innovation")
        return mean + f + sd * innovation

    def observe(self, data: ModelData, f: Any) -> Any:
        """The marginal likelihood of all tasks; at rows to predict, noise around f."""
        rows: Any = data.source
        if rows.known is not None:
            return super().observe(data, f)
        model = pm.modelcontext(None)
        names = ("kappa", "noise", *(("amplitude",) if self.amplitude == "task" else ()))
        kernel = self.correlation(rows.n_features)
        fixed = Processes(
            kernel,
            self.base_covariance(rows.n_features),
            rows.task_inputs(self.ard == "pooled", kernel.linear),
            self.constant_variance,
        )
        numbers = self._of_tasks({name: model[name] for name in names}, rows.n_tasks)
        return TaskProcesses("y", f, *numbers, fixed=fixed, observed=data.y, dims="obs")

    observe.matches_likelihood = True  # type: ignore[attr-defined]
    observe.takes_weights = True  # type: ignore[attr-defined]  # the inputs of `Processes` hold them

    # ---------------------------------------------------------------- prediction

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """The posterior with ``innovation``, normal scores in random order; an estimate is repeated."""
        draws = fit.posterior
        if fit.is_point:
            draws = draws.isel(chain=0, draw=0, drop=True).expand_dims(chain=1, draw=_POINT_DRAWS)
        shape = (draws.sizes["chain"], draws.sizes["draw"])
        size = shape[0] * shape[1]
        scores = ndtri((np.arange(size) + 0.5) / size) if size > 1 else np.zeros(1)
        scores = scores / max(scores.std(), 1e-300) if size > 1 else scores
        innovation = rng.permutation(scores).reshape(shape)
        return draws.assign(innovation=(("chain", "draw"), innovation)).assign_attrs(point=fit.is_point)

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation (S, n) of f given each draw and the responses of the known rows."""
        return mode.function_moments(self, fit, rows)

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Parameters of unseen tasks: of some task of the data; ARD parameters by their prior where it is learned."""
        return new_tasks.of_some_task(posterior, len(names), rng)

    def new_task_moments(
        self, fit: Fit, rows: MultiTaskData
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]] | None:
        """Of a mode, the mixture over the tasks of the data, of which an unseen one is as any."""
        return new_tasks.mixture_over_tasks(self, fit, rows) if fit.is_point else None

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log densities (S, N) of rows given the other rows of their task, what leave-one-out needs."""
        self._require_own_hooks("compute_log_likelihood")
        return mode.leave_one_out_densities(self, data, y, posterior)

    # ---------------------------------------------------------------- engines

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        if "learned" in (self.penalty, self.noise_rate) or self.prior == "horseshoe":
            return super().method_table()
        return [
            Method(
                "map",
                "the posterior mode, with exact zeros, by proximal Newton steps",
                self._fit_map,
                law="point",
                weights=True,
            ),
            *super().method_table(),
        ]

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        if method == "map" and self.method_named("map") is None:
            field = 'prior="horseshoe"' if self.prior == "horseshoe" else 'penalty or noise_rate "learned"'
            raise UnsupportedMethodError(
                f"{type(self).__name__} with {field} has no useful mode: it is where all of kappa vanishes. "
                'Use method="nuts", or prior="multi_laplace" with numbers chosen by zoo.select or `path`.'
            )
        return super().choose_method(method, data)

    def check_method(self, method: str) -> None:
        """Raise where a method cannot do with the priors."""
        if method == "nuts" and 0 in (self.penalty, self.noise_rate):
            name = "penalty" if self.penalty == 0 else "noise_rate"
            raise ValueError(
                f'{name} is 0, which only method="map" can do without; NUTS draws from a posterior, which needs a '
                f'proper prior. Give {name} above 0, or "learned".'
            )

    def _fit_map(
        self,
        data: Any,
        y: np.ndarray,
        run: Run,
        start: Fit | None = None,
        starts: int = 1,
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> Result:
        """``start``: a fit to begin at. ``starts``: beginnings, all but the first at random; the best is kept.

        ``tol``: largest violation of the optimality conditions, in nats per unit of a parameter.
        """
        problem = mode.ModeProblem.of(self, data, y)
        with ClimbProgress(max_iter, run.progress, "mode", "objective") as bar:
            found, spread = problem.solve(
                start, starts, run.random_seed, max_iter=max_iter, tol=tol, progress=bar.report
            )
        posterior = problem.posterior(found)
        # A search over the penalty, which shows no progress, would say it for every point.
        if run.progress and self.noise_floor < _LOW_FLOOR:
            mode.say_if_noise_collapsed(posterior["noise"], self.noise_floor)
        return Result(posterior, mode.statistics(found, spread))

    def path(
        self,
        data: MultiTaskData,
        penalty: Sequence[float] | None = None,
        size: int = 20,
        ratio: float = 1e-3,
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> xr.Dataset:
        """Modes along a path of penalties, each from the one before it: which features enter when.

        Parameters
        ----------
        data : MultiTaskData
        penalty : sequence of float, optional
            Default: ``size`` values, evenly spaced in the logarithm, from the smallest one that keeps all features
            out down to ``ratio`` times that.
        size, ratio : int, float
        max_iter, tol
            As in method "map".

        Returns
        -------
        xarray.Dataset
            Dim ``penalty``, descending: ``relevance`` (penalty, feature), ``n_selected``, ``objective``, ``kkt``.
        """
        if "map" not in self.methods:
            raise ValueError(
                f'{self!r} has no method "map", which a path is made of. Give penalty and noise_rate as numbers.'
            )
        y, rows = self.validate(data), self.design(data)
        return mode.path(self, rows, y, penalty, size, ratio, max_iter, tol)

    # ---------------------------------------------------------------- reading the answer

    def relevance(self, fit: Fit, threshold: float = 0.01, ci_prob: float = 0.9) -> xr.Dataset:
        """What :meth:`Fit.relevance` does."""
        rows = self.design(fit.data, Context(fit.population_data))
        return relevance_table(self, rows, fit, threshold, ci_prob)

    def select_features(self, fit: Fit, *settings: Any) -> xr.Dataset:
        """What :meth:`Fit.select_features` does."""
        self._require_own_hooks("select_features")
        rows = self.design(fit.data, Context(fit.population_data))
        return selected_features(self, rows, self.validate(fit.data), fit, *settings)

    # ---------------------------------------------------------------- new tasks

    def condition(self, fit: Fit, task_data: MultiTaskData, random_seed: Any = None) -> Fit:
        """See :meth:`Fit.condition`: ARD parameters and noise of a new task given its rows and the other tasks."""
        self._require_own_hooks("condition")
        return new_tasks.condition(self, fit, task_data, random_seed)

    def _require_own_hooks(self, what: str) -> None:
        if hooks := overridden_hooks(self, self._fit_map):
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `{hooks[0]}`, and `{what}` was derived for the original."
            )

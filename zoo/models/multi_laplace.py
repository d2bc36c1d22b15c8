"""Gaussian processes, one a task, that select features jointly (Srijith & Shevade 2014)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.special import ndtri

from zoo.checks import flag, not_negative, one_of
from zoo.data import MultiTaskData
from zoo.distributions.multi_laplace import multi_laplace_mixture
from zoo.factory import Method, ModelFactory, Run, UnsupportedMethodError
from zoo.fit import Fit
from zoo.inference.ard_conditional import leave_one_out
from zoo.inference.ard_evidence import KERNELS
from zoo.inference.ard_objective import Correlation, Parameters
from zoo.inference.progress import ClimbProgress
from zoo.kernels import describe, from_word, restore
from zoo.likelihoods.gaussian import Gaussian
from zoo.model_data import ModelData
from zoo.models import multi_laplace_mode as mode
from zoo.models.ard_gp import (
    GPRows,
    Processes,
    TaskProcesses,
    conditional_function,
    correlation_of,
    kernel_rows,
)
from zoo.models.new_tasks import joined, new_rows
from zoo.models.prior_density import multi_laplace_densities
from zoo.models.relevance import relevance_table
from zoo.seeds import generator
from zoo.storage import to_datatree

__all__ = ["MultiLaplaceGP"]

# Draws that stand for the predictive law of an estimate.
_POINT_DRAWS = 1000
_LARGE_RESPONSE = 100.0
# A noise floor below this, in standard deviations of y, is no statement about the noise.
_LOW_FLOOR = 0.1
# Draws from the prior of a new task's ARD parameters, weighted by its rows, for each draw of the population.
_CANDIDATES = 64
# Range of the variances of noise that are proposed for a new task, in units of their prior's mean.
_PROPOSED = (1e-6, 40.0)


@dataclass(frozen=True, kw_only=True)
class MultiLaplaceGP(ModelFactory):
    r"""Gaussian processes, one a task, that select features jointly through a prior on their ARD parameters.

    .. math::

        y_n = m_{t(n)}(x_n) + f_{t(n)}(x_n) + \epsilon_n, \quad f_t \sim GP(0, a_t K_{\kappa^t}), \quad
        \epsilon_n \sim N(0, \sigma_{t(n)}^2)

    with :math:`K_\kappa(x, x') = \exp(-\tfrac12 \sum_i \kappa_i (x_i - x'_i)^2)` or :math:`\sum_i \kappa_i x_i x'_i`
    (eqs 4, 5), :math:`p(\kappa_i^1 \dots \kappa_i^T) \propto \exp(-C \lVert \kappa_i \rVert_2)` on the positive
    orthant (eq 7) and :math:`\sigma_t^2 \sim \mathrm{Exponential}(B)` (eq 9). Functions are integrated out. A feature
    whose :math:`\kappa_i^t` are 0 in all tasks is irrelevant; its ``kappa`` are exactly 0 at the mode if C is large
    enough. Standardize the response first.

    Beside the hooks of :class:`zoo.ModelFactory` a subclass may override ``mean_function(data, priors)``, the mean of
    the response, and ``base_covariance(input_dim)``, which keeps every method.

    ``kappa`` (feature, task) are the ARD parameters, ``noise`` (task) the standard deviations :math:`\sigma_t`,
    ``feature_scale`` (feature) the scale of each feature's kappa over tasks.

    Parameters
    ----------
    kernel : {"squared_exponential", "linear", "matern52", "matern32"} or pm.gp.cov.Covariance
        A covariance function with numbers for parameters (lengthscale 1) has ARD parameters by
        :math:`k(\sqrt\kappa x, \sqrt\kappa x')`.
    C : float or "learned"
        Rate of the multi-Laplace prior, 0 or more (0: no prior, for the mode alone). "learned": Gamma(2) with mean
        :math:`D \sqrt T`, by NUTS alone: at the mode there is none, choose C by :func:`zoo.select` or :meth:`path`.
    B : float or "learned"
        Rate of the priors of the noise variances. "learned": Gamma(2, 1), by NUTS alone.
    ard : {"group", "shared", "independent", "pooled"}
        Of the paper's table 2: GPMTFS; one kappa for all tasks (GPMTL); independent tasks with exponential priors
        (ITL); one process for the rows of all tasks (ATL). The last three have the prior Exponential(C).
    prior : {"multi_laplace", "horseshoe"}
        "horseshoe": :math:`\kappa_i^t = s_i |z_i^t|` with regularised half-Cauchy :math:`s_i` (Piironen and Vehtari
        2017), by NUTS alone. For many tasks the multi-Laplace law has little mass near zero (its norm is
        Gamma(T, C)): its posterior mode selects, its posterior does not. This prior's posterior does.
    mean : {"constant", "zero", "linear"}
        A constant a task, N(0, 1), integrated out; none, as in the paper; the constant and beside it one linear
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

    paper: ClassVar[str] = "srijith2014"
    shares_tasks: ClassVar[bool] = True
    constraints: ClassVar[dict[str, str]] = {"noise": "> 0", "kappa": ">= 0"}
    hooks: ClassVar[tuple[str, ...]] = (*ModelFactory.hooks, "mean_function")
    integrates_functions: ClassVar[bool] = True
    prior_order: ClassVar[tuple[str, ...]] = ("kappa", "feature_scale", "noise")

    kernel: Any = "squared_exponential"
    C: float | str = 1.0
    B: float | str = 1.0
    ard: str = "group"
    prior: str = "multi_laplace"
    mean: str = "constant"
    amplitude: str = "one"
    standardize: bool = True
    noise_floor: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.ard, ("group", "shared", "independent", "pooled"), "ard")
        one_of(self.prior, ("multi_laplace", "horseshoe"), "prior")
        one_of(self.mean, ("constant", "zero", "linear"), "mean")
        one_of(self.amplitude, ("one", "task"), "amplitude")
        flag(self.standardize, "standardize")
        not_negative(self.noise_floor, "noise_floor")
        for name in ("C", "B"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "learned":
                raise ValueError(f'{name} is {value!r}. Give a number, 0 or more, or "learned".')
            if not isinstance(value, str):
                not_negative(value, name)
        self._freeze_kernel()
        if self.kernel == "linear" and self.amplitude == "task":
            raise ValueError(
                'amplitude is "task", but a linear kernel has its amplitude in kappa. Use amplitude="one".'
            )
        if self.prior == "horseshoe" and self.ard != "group":
            raise ValueError(
                f'prior is "horseshoe", which ties features over tasks, but ard is {self.ard!r}. Use ard="group".'
            )

    def _freeze_kernel(self) -> None:
        kernel = self.kernel
        if isinstance(kernel, str):
            one_of(kernel, KERNELS, "kernel")
        elif isinstance(kernel, tuple | list):
            object.__setattr__(self, "kernel", describe(restore(kernel)))
        elif isinstance(kernel, pm.gp.cov.BaseCovariance):
            object.__setattr__(self, "kernel", describe(kernel, "kernel"))
        else:
            raise TypeError(
                f"kernel is a {type(kernel).__name__}. Give a word such as 'linear', or a covariance of pm.gp.cov."
            )

    def base_covariance(self, input_dim: int) -> Any:
        """The covariance function at features times the roots of their ARD parameters; override it for your own."""
        return from_word(self.kernel, input_dim) if isinstance(self.kernel, str) else restore(self.kernel)

    def correlation(self, n_features: int) -> Correlation:
        """The covariance function with its ARD parameters, in numbers."""
        own = type(self).base_covariance is not MultiLaplaceGP.base_covariance
        word = self.kernel if isinstance(self.kernel, str) and not own else ""
        return correlation_of(word, None if word else self.base_covariance(n_features))

    @property
    def constant_variance(self) -> float:
        """Prior variance of the constant of each task."""
        return 0.0 if self.mean == "zero" else 1.0

    # ---------------------------------------------------------------- hooks

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; warns of responses far from the scale that the priors expect."""
        self._require_normal_noise()
        y = super().validate(data)
        if np.mean(y**2) > _LARGE_RESPONSE:
            warnings.warn(
                f"y has mean {y.mean():.3g} and standard deviation {y.std():.3g}, and the priors expect values near 1. "
                "Use data.standardize().",
                UserWarning,
                stacklevel=4,
            )
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
                "Gaussian noise with the prior of the field B. Override the hooks `latent` and `observe`, so that "
                "functions are variables, or use another model (zoo.MultiTaskKernelMachine, zoo.VaryingCoefficientGP)."
            )

    def prepare(
        self, data: MultiTaskData, train: MultiTaskData | None = None, known: MultiTaskData | None = None
    ) -> GPRows:
        """The rows as the kernel sees them."""
        return kernel_rows(data, train, known, self.standardize)

    prepare.leaves_t = True  # type: ignore[attr-defined]

    def priors(self, data: ModelData) -> dict[str, Any]:
        """ARD parameters, noise, and what the fields ask for beside them."""
        T, D = data.source.n_tasks, data.source.n_features
        task = () if self.ard == "pooled" else ("task",)
        C, B = self.C, self.B
        if C == "learned" and self.prior == "multi_laplace":
            C = pm.Gamma("C", 2.0, 2.0 / (D * (np.sqrt(T) if self.ard == "group" else 1.0)))
        if B == "learned":
            B = pm.Gamma("B", 2.0, 1.0)
        result = {"kappa": self._ard_prior(C, D, task)}
        # Non-centred: few rows tell little of a task's noise, and all of them move with B.
        variance = pm.Exponential("_noise_variance", 1.0, dims=task) / B
        result["noise"] = pm.Deterministic("noise", pt.sqrt(self.noise_floor**2 + variance), dims=task)
        if self.amplitude == "task":
            result["amplitude"] = pm.Exponential("amplitude", mode.AMPLITUDE_RATE, dims=task)
        if self.mean == "linear":
            result["mean_coefficients"] = pm.Normal("mean_coefficients", dims="feature")
        return result

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Densities of the ARD parameters, of their scales given them, and of the noise."""
        if name == "noise":
            B = values.get("B", self.B)
            square = values[name] ** 2 - self.noise_floor**2
            return pt.sum(pt.log(B) - B * square + pt.log(values[name]))
        if self.prior != "multi_laplace" or self.ard != "group" or name not in ("kappa", "feature_scale"):
            return None
        own, given = multi_laplace_densities(
            values["kappa"], values.get("feature_scale"), values.get("C", self.C)
        )
        return own if name == "kappa" else given

    def _ard_prior(self, C: Any, D: int, task: tuple[str, ...]) -> Any:
        if self.prior == "horseshoe":
            # Centred: half-Cauchy scales only move along with their own in the logarithm, and the data tell those of
            # relevant features well.
            level = pm.HalfCauchy("_global_scale", 1.0)
            local = pm.HalfCauchy("_local_scale", level, dims="feature")
            slab = pm.InverseGamma("_slab", 2.0, 2.0)
            square = local**2
            scale = pm.Deterministic(
                "feature_scale", pt.sqrt(slab * square / (slab + square)), dims="feature"
            )
            normal = pm.HalfNormal("_kappa_normal", dims=("feature", "task"))
            return pm.Deterministic("kappa", scale[:, None] * normal, dims=("feature", "task"))
        if self.ard == "group":
            kappa = multi_laplace_mixture("kappa", C, dims=("feature", "task"))
            root = pt.sqrt(pm.modelcontext(None)["_kappa_scale"])
            pm.Deterministic("feature_scale", root / C, dims="feature")
            return kappa
        dims = ("feature", "task") if self.ard == "independent" else "feature"
        return pm.Exponential("kappa", C, dims=dims)

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
        # One standard normal a draw, the same at all rows: right for each row, not for several jointly.
        innovation = pm.Normal("innovation")
        return mean + f + sd * innovation

    def _of_tasks(self, priors: dict[str, Any], n_tasks: int) -> Parameters:
        """ARD parameters (T, D), noise variances (T,) and amplitudes (T,) in the model; T is 1 if tasks are pooled."""
        T = 1 if self.ard == "pooled" else n_tasks
        kappa, variance = priors["kappa"], priors["noise"] ** 2
        kappa = kappa.T if kappa.ndim == 2 else pt.broadcast_to(kappa, (T, kappa.shape[0]))
        amplitude = priors["amplitude"] if self.amplitude == "task" else pt.ones(T)
        return Parameters(kappa, pt.broadcast_to(variance, (T,)), pt.broadcast_to(amplitude, (T,)))

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
        by_task = [str(name) for name, v in posterior.items() if "task" in v.dims]
        result = {str(name): v.to_numpy() for name, v in posterior.items() if str(name) not in by_task}
        if not by_task:
            return result
        chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
        chosen = rng.integers(posterior.sizes["task"], size=(chains, draws, len(names)))
        for name in by_task:
            values = posterior[name].transpose("chain", "draw", ..., "task").to_numpy()
            index = chosen if values.ndim == 3 else chosen[:, :, None]
            result[name] = np.take_along_axis(values, index, axis=-1)
        if "feature_scale" in result and not posterior.attrs.get("point"):
            scale = result["feature_scale"][..., None]
            result["kappa"] = scale * np.abs(rng.standard_normal((*scale.shape[:3], len(names))))
        return result

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log densities (S, N) of rows given the other rows of their task, what leave-one-out needs."""
        self._require_own_hooks("compute_log_likelihood")
        rows: Any = data
        flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in posterior.items()}
        kernel, pooled = self.correlation(rows.n_features), self.ard == "pooled"
        task = np.zeros_like(rows.task) if pooled else rows.task
        result = np.empty((len(flat["noise"]), rows.n_rows))
        for s in range(len(result)):
            draw = {name: v[s] for name, v in flat.items()}
            residual = y if self.mean != "linear" else y - rows.X @ draw["mean_coefficients"]
            numbers = mode.of_tasks(draw, rows.n_tasks, pooled)
            result[s] = leave_one_out(
                kernel, rows.X, task, residual, numbers, self.constant_variance, rows.weight
            )
        return result

    def _require_own_hooks(self, what: str) -> None:
        if hooks := self._overridden_hooks("map"):
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `{hooks[0]}`, and `{what}` was derived for the original."
            )

    # ---------------------------------------------------------------- engines

    def _methods(self) -> list[Method]:
        if "learned" in (self.C, self.B) or self.prior == "horseshoe":
            return super()._methods()
        return [
            Method(
                "map",
                "the posterior mode, with exact zeros, by proximal Newton steps",
                point=True,
                weights=True,
            ),
            *super()._methods(),
        ]

    def _engine(self, method: str | None, data: MultiTaskData) -> str:
        if method == "map" and not any(m.name == "map" for m in self._methods()):
            field = 'prior="horseshoe"' if self.prior == "horseshoe" else 'C or B "learned"'
            raise UnsupportedMethodError(
                f"{type(self).__name__} with {field} has no useful mode: it is where all of kappa vanishes. "
                'Use method="nuts", or prior="multi_laplace" with numbers chosen by zoo.select or `path`.'
            )
        return super()._engine(method, data)

    def _check_method(self, method: str) -> None:
        if method == "nuts" and 0 in (self.C, self.B):
            name = "C" if self.C == 0 else "B"
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
    ) -> tuple[dict[str, np.ndarray], xr.Dataset]:
        """``start``: a fit to begin at. ``starts``: beginnings, all but the first at random; the best is kept.

        ``tol``: largest violation of the optimality conditions, in nats a unit of a parameter.
        """
        problem = mode.ModeProblem.of(self, data, y)
        with ClimbProgress(max_iter, run.progress, "mode", "objective") as bar:
            found, spread = problem.solve(
                start, starts, run.random_seed, max_iter=max_iter, tol=tol, progress=bar.report
            )
        posterior = problem.posterior(found)
        collapsed = np.mean(posterior["noise"] <= self.noise_floor * (1.0 + 1e-9))
        # A search over C, which shows no progress, would say it for every point.
        if run.progress and self.noise_floor < _LOW_FLOOR and collapsed > 0.5:
            logging.getLogger("zoo").warning(
                "The noise of most tasks is at noise_floor=%g: the mode fits their rows exactly, and its intervals "
                "are too narrow. Raise noise_floor (in standard deviations of y; zoo.select can choose it) or C, or "
                'use method="nuts".',
                self.noise_floor,
            )
        return posterior, mode.statistics(found, spread)

    def path(
        self,
        data: MultiTaskData,
        C: Sequence[float] | None = None,
        size: int = 20,
        ratio: float = 1e-3,
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> xr.Dataset:
        """Modes along a path of C, each from the one before it: which features enter when.

        Parameters
        ----------
        data : MultiTaskData
        C : sequence of float, optional
            Default: ``size`` values, evenly spaced in the logarithm, from the smallest one that keeps all features
            out down to ``ratio`` times that.
        size, ratio : int, float
        max_iter, tol
            As in method "map".

        Returns
        -------
        xarray.Dataset
            Dim ``C``, descending: ``relevance`` (C, feature), ``n_selected``, ``objective``, ``kkt``.
        """
        if "map" not in self.methods:
            raise ValueError(
                f'{self!r} has no method "map", which a path is made of. Give C and B as numbers.'
            )
        y, rows = self.validate(data), self.prepare(data)
        return mode.path(self, rows, y, C, size, ratio, max_iter, tol)

    # ---------------------------------------------------------------- reading the answer

    def relevance(self, fit: Fit, threshold: float = 0.01, ci_prob: float = 0.9) -> xr.Dataset:
        """What :meth:`Fit.relevance` does."""
        rows = self.prepare(fit.data, fit.population_data)
        transform = fit.data.transform
        kept = [fit.data.feature_names.index(name) for name in rows.feature_names]
        scale = rows.scale * (1.0 if transform is None else transform.x_scale[kept])
        factor = 1.0 if transform is None or self.kernel != "linear" else transform.y_scale**2
        return relevance_table(fit, factor / scale**2, threshold, ci_prob)

    # ---------------------------------------------------------------- new tasks

    def condition(self, fit: Fit, task_data: MultiTaskData, random_seed: Any = None) -> Fit:
        """See :meth:`Fit.condition`: ARD parameters and noise of a new task given its rows and the other tasks."""
        self._require_own_hooks("condition")
        if self.ard == "pooled":
            raise ValueError(
                'ard is "pooled": the model knows no tasks. Predict the new task by the name of any.'
            )
        rng = generator(random_seed)
        new = new_rows(fit, task_data)
        prepared = self.prepare(new, fit.population_data)
        posterior = fit.posterior
        if fit.is_point:
            added = mode.ModeProblem.of(self, prepared, new.y, fit).posterior_of_new_tasks()
        else:
            added = self._weighted_draws(fit, prepared, rng)
        grown = {
            str(name): np.concatenate([v.to_numpy(), added[str(name)]], axis=v.dims.index("task"))
            if "task" in v.dims
            else v.to_numpy()
            for name, v in posterior.items()
        }
        together = joined(fit.data, new)
        result = replace(fit, data=together, conditioned=(*fit.conditioned, *new.task_names))
        rows = self.prepare(together, result.population_data)
        stats = fit.idata["sample_stats"].to_dataset()
        idata = to_datatree(self, together, rows, rows.y, grown, stats, fit.method, random_seed)
        return replace(result, idata=idata)

    def _weighted_draws(self, fit: Fit, new: GPRows, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """For each draw, one of some draws from the new tasks' prior, chosen by the likelihood of their rows.

        Noises are proposed over all sizes, and weighed by their prior: those of old tasks may be far from the new.
        """
        draws = self.predictive_posterior(fit, rng)
        names = [str(name) for name, v in fit.posterior.items() if "task" in v.dims]
        problem = mode.ModeProblem.of(self, new, new.y)
        best = np.full((draws.sizes["chain"], draws.sizes["draw"], new.n_tasks), -np.inf)
        chosen: dict[str, np.ndarray] = {}
        for i in range(_CANDIDATES):
            candidate = self.new_task(draws, list(new.task_names), rng)
            score = rng.gumbel(size=best.shape)  # the largest sum with a log weight is a draw by weight
            noise, weight = self._proposed_noise(draws, best.shape, i, rng)
            candidate["noise"] = noise
            score += weight
            for at in np.ndindex(best.shape[:2]):
                score[at] += problem.evidence({name: v[at] for name, v in candidate.items()})
            better = score > best
            best = np.where(better, score, best)
            for name in names:
                taken = better if candidate[name].ndim == 3 else better[:, :, None]
                chosen[name] = np.where(taken, candidate[name], chosen.get(name, candidate[name]))
        return chosen

    def _proposed_noise(
        self, draws: xr.Dataset, shape: tuple[int, ...], number: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Noise standard deviations of candidates, and the log of their prior over what they are proposed with.

        What the variance exceeds the floor by, v, has the prior :math:`B e^{-B v}`. It is proposed with the density
        :math:`\propto 1 / v` over a range that holds all of the prior's mass; candidate ``number`` of all has a
        stratum of its own. So the log weight is :math:`\log v - B v` and a constant.
        """
        B = draws["B"].to_numpy()[..., None] if "B" in draws else np.asarray(float(self.B))
        place = (number + rng.random(shape)) / _CANDIDATES
        v = _PROPOSED[0] * (_PROPOSED[1] / _PROPOSED[0]) ** place / B
        return np.sqrt(self.noise_floor**2 + v), np.log(v) - B * v + np.log(B)

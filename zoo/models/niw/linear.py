"""Linear tasks from one population (Yu, Tresp & Schwaighofer 2005, model 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr

from zoo.core.drawn import draws_of
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.hooks import SHARED
from zoo.core.methods import Method, as_in
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.distributions.lkj import lkj_factor
from zoo.kernels import LearnedKernel
from zoo.likelihoods.laws import NOISE_OF_ONE_ROW, Law
from zoo.models.niw.base import NIWBase
from zoo.models.niw.hierarchy import Population
from zoo.models.niw.known_tasks import drawn_again, functions_given_population
from zoo.support.checks import covariance, finite_matrix, one_of, positive
from zoo.support.words import counted

__all__ = ["NIWLinear"]

# What predictions of single tasks are derived from: a subclass that changes one of these needs all tasks.
_REDRAWN = ("priors", "latent", "shared_part", "observe", "design", "coords", "predictive_posterior")


@dataclass(frozen=True, kw_only=True)
class NIWLinear(NIWBase):
    r"""Linear regressions whose coefficients come from one normal population, which is learned.

    .. math::

        y_n = x_n' w_{t(n)} + \epsilon_n, \quad w_t \sim N(\mu, C), \quad \mu \mid C \sim N(0, C / \pi), \quad
        C \sim IW(\delta, C_0)

    (yu2005 eq 4 and model 1.) ``coefficients`` (dims feature, task) holds :math:`w_t`, ``population_mean`` is
    :math:`\mu` and ``feature_cov`` :math:`C`. Standardize the data first, and add an intercept where tasks differ in
    level.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of y given f, "gaussian" as in the paper, or any other one. The prior of ``noise`` is
        ``InverseGammaOfSquare(0.5, 0.005)``: an inverse-gamma law of the variance, which counts like one row with an
        error of 0.1. With ``Gaussian(per_task=("noise",))`` every task has a noise of its own;
        ``Gaussian(noise=Flat())`` is for the paper's EM, which has no prior of it.
    pi : float or "learned"
        How many tasks the prior of the mean is worth, above 0; large values hold the mean at zero, as in the paper's
        section 6. "learned": it is the variable ``pi`` of the posterior, with the prior Gamma(1/2, rate 1/2), under
        which :math:`\mu \mid C` has the multivariate Cauchy law with scale matrix C. Methods ``gibbs`` and ``nuts``
        have it, ``em`` has not.
    delta : float
        Dawid's degrees of freedom of the inverse-Wishart prior, above 0: :math:`\nu = \delta + D - 1`. Full Bayes
        reads it. At 3 the prior mean of C is ``scale_matrix``.
    tau : float or "prior"
        The paper's precision of the prior in EM, eq (8), above 0. Only EM reads it: the paper's tau = 1 stands for
        :math:`\nu = \tau - D - 2` and scale :math:`\tau C_0`, which is no proper prior. "prior": the mode under the
        prior of full Bayes.
    scale_matrix : float or (D, D) array_like, optional
        :math:`C_0`; a number multiplies the identity. The default is 1/D, with D the number of features: with
        standardized features it expects functions of variance 1, however many there are. The paper has 1.
    covariance_prior : {"inverse_wishart", "half_t", "lkj"}
        On features whitened by ``scale_matrix``. "half_t": every feature has a scale of its own, which is learned,
        :math:`C \mid g \sim IW(\delta, \operatorname{diag}(g^2))` with :math:`g_d \sim N(0, \delta)`: standard
        deviations over tasks are half-t with ``delta`` degrees of freedom and scale 1 (Huang & Wand 2013).
        Methods ``gibbs`` and ``nuts`` have it. "lkj": half-normal standard deviations and an LKJ(2) correlation matrix;
        where ``scale_matrix`` is a number, the former are ``feature_sd`` (dim feature) of the posterior.
    own_priors : mapping of str to distribution
        As in :class:`zoo.ModelFactory`. A prior of ``population_mean`` makes it independent of C, and then ``pi`` is
        not read; "learned" is refused beside it. With "lkj" there may be one of ``feature_sd``.

    Notes
    -----
    A sweep of the Gibbs sampler takes O(T D^3), and a draw D^2 numbers: more than 500 features that outnumber the
    inputs are refused. :class:`NIWGaussianProcess` with ``base_kernel="linear"`` is the same law of the functions with
    ``scale_matrix=1`` (Dawid's delta is the same on every subspace), and takes O(T n^3) for n distinct inputs.

    References
    ----------
    Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple tasks. ICML.
    """

    constraints: ClassVar[dict[str, str]] = {"feature_cov": "positive definite", "noise": "> 0"}
    extra_dims: ClassVar[dict[str, tuple[str, ...]]] = {
        "coefficients_cov": ("task", "feature", "feature_bis")
    }
    sparse_levels: ClassVar[bool] = True
    likelihood_laws: ClassVar[dict[str, Law]] = {**NIWBase.likelihood_laws, "noise": NOISE_OF_ONE_ROW}
    names: ClassVar[tuple[str, str, str]] = ("coefficients", "population_mean", "feature_cov")
    dim: ClassVar[str] = "feature"

    scale_matrix: Any = None
    covariance_prior: str = "inverse_wishart"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.covariance_prior, ("inverse_wishart", "half_t", "lkj"), "covariance_prior")
        if np.ndim(self.scale_matrix) == 0:
            if self.scale_matrix is not None:
                positive(self.scale_matrix, "scale_matrix")
        else:
            matrix = covariance(self.scale_matrix, "scale_matrix")
            object.__setattr__(self, "scale_matrix", tuple(tuple(float(v) for v in row) for row in matrix))

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where the scale matrix does not fit the data."""
        y = super().validate(data)
        D = data.n_features
        if isinstance(self.scale_matrix, tuple) and len(self.scale_matrix) != D:
            raise ValueError(
                f"scale_matrix is {len(self.scale_matrix)} x {len(self.scale_matrix)}, but the data have "
                f"{counted(D, 'feature')}. Give a {D} x {D} matrix or a number."
            )
        return y

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables by name, without a PyMC model of all rows, unless a subclass changed a hook."""
        if self.own_priors or not as_in(self, NIWLinear, (*self.hooks, "add_parameters", "parameter_dims")):
            return super().variable_dims(data, y)
        values, mean, cov = self.names
        shared = {} if data.shared is None else {SHARED: ("shared_feature",)}
        if data.effects:
            shared["effect_scale"] = ("effect",)
        return {
            **self.extra_dims,
            values: ("feature", "task"),
            mean: ("feature",),
            cov: ("feature", "feature_bis"),
            **({"feature_sd": ("feature",)} if self._learns_deviations else {}),
            **{name: dims for name in self.likelihood.learned if (dims := self.parameter_dims(name))},
            **shared,
        }

    def refuses_keep(self, method: str, data: MultiTaskData) -> str:
        """Why the coefficients of tasks cannot be drawn again from the population alone; empty where they can."""
        name = type(self).__name__
        if method == "em":
            return "method 'em' gives one estimate, and no draws."
        if method != "gibbs":
            return (
                f"method {method!r} of {name} keeps what it has drawn of every task; method 'gibbs' need not."
            )
        if not self._conjugate:
            return (
                f"with likelihood={self.likelihood!r} the coefficients of a task are not normal given the population, "
                "so that they could not be drawn again; with Gaussian noise that has an inverse-gamma prior they are."
            )
        if self.noise_by_task:
            return "every task has a noise of its own, which the draws of the population do not say."
        changed = [name for name in (*_REDRAWN, "gibbs_kernel") if not as_in(self, NIWLinear, (name,))]
        if changed:
            return f"{name} overrides `{changed[0]}`, and drawing coefficients again was derived for the original."
        return ""

    def draws_of_tasks(
        self, fit: Fit, names: tuple[str, ...]
    ) -> Callable[[np.random.Generator], xr.Dataset] | None:
        """Draws of these tasks alone: picked, drawn given an estimate, or drawn again given the population."""
        if not as_in(self, NIWLinear, _REDRAWN):
            return None
        if fit.keep != "draws":
            return partial(drawn_again, self, fit, names)
        if fit.method == "em":
            return partial(self.draws_at_estimate, fit, names)
        return lambda rng: draws_of(fit, names)

    def _rows_of(self, fit: Fit, names: tuple[str, ...]) -> MultiTaskData:
        """The rows of these tasks of a fit: those of others say nothing more, given the population."""
        return fit.data if names == fit.data.task_names else fit.data.select_tasks(names)

    def _tasks_of(self, fit: Fit, rows: MultiTaskData) -> tuple[tuple[str, ...], np.ndarray]:
        """Names of the tasks of prepared rows, and which of them each row has."""
        if not as_in(self, NIWLinear, _REDRAWN):
            return super()._tasks_of(fit, rows)
        asked, task = np.unique(rows.task, return_inverse=True)
        return tuple(rows.task_names[t] for t in asked), task

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Of a fit that kept its population, and of an EM fit, the law of f given the population and the known rows."""
        if fit.keep != "draws":
            return functions_given_population(self, fit, rows)
        return super().conditional_moments(fit, rows, rng)

    def population(self, data: MultiTaskData) -> Population:
        """Features times the Cholesky factor of ``scale_matrix``."""
        half = self._half(data.n_features)
        return Population(inputs=data.inputs @ half, half=half, back=np.linalg.inv(half))

    def _factor(self, rank: int) -> Any:
        if self.covariance_prior == "inverse_wishart":
            return super()._factor(rank)
        if self.covariance_prior == "half_t":
            return pm.HalfNormal("_basis_scale", self.scale_sd, dims="basis")[:, None] * super()._factor(rank)
        if not self._learns_deviations:
            deviation = pm.HalfNormal("_basis_deviation", 1.0, dims="basis")
        else:
            unit = self._half(rank)[0, 0]
            deviation = pm.HalfNormal("feature_sd", unit, dims="feature") / unit
        return deviation[:, None] * lkj_factor("_basis_partial", rank)

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        if self._has_inverse_wishart:
            return super().method_table()
        return ModelFactory.method_table(self)

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        name = super().choose_method(method, data)
        require_narrow(
            data,
            "the covariance of all features (feature_cov)",
            'Use NIWGaussianProcess(base_kernel="linear"), the same model of these functions with scale_matrix=1, '
            "held in the span of the inputs.",
        )
        return name

    @property
    def _has_inverse_wishart(self) -> bool:
        return self.covariance_prior != "lkj"

    @property
    def _learns_deviations(self) -> bool:
        """Whether the standard deviations of the coefficients over tasks are a variable of their own."""
        return self.covariance_prior == "lkj" and not isinstance(self.scale_matrix, tuple)

    @property
    def scale_sd(self) -> float | None:
        """Standard deviation of the normal law of learned scales; None where scales are given."""
        return float(np.sqrt(self.delta)) if self.covariance_prior == "half_t" else None

    def learned_kernel(self, fit: Fit, combine: bool = True) -> LearnedKernel:
        """``x' C x'`` with the posterior mean of C; combined, EM's C is shrunk towards the prior's scale (eq 19)."""
        draws = fit.posterior
        cov = self._combined(fit, combine).mean(axis=(0, 1))
        D = len(cov)
        return LearnedKernel(
            pm.gp.cov.Linear(D, c=np.zeros(D)),
            inputs=np.eye(D),
            half=np.linalg.cholesky(cov),
            mean=draws["population_mean"].mean(("chain", "draw")).to_numpy(),
        )

    def learned_kernel_draws(self, fit: Fit, X: Any, combine: bool = True) -> xr.DataArray:
        """``x' C x'`` of each draw."""
        inputs = finite_matrix(X, "X", None)
        if inputs.shape[1] != fit.data.n_features:
            raise ValueError(
                f"X has {counted(inputs.shape[1], 'column')}, but the fit has "
                f"{counted(fit.data.n_features, 'feature')}. Give all of them."
            )
        return self._kernel_draws(inputs @ self._combined(fit, combine) @ inputs.T)

    def _combined(self, fit: Fit, combine: bool) -> np.ndarray:
        """Draws of C; of an EM fit combined with the scale as in eq (19)."""
        cov = fit.posterior["feature_cov"].to_numpy()
        if not combine or fit.method != "em":
            return cov
        tau, weight = self.em_prior(cov.shape[-1])
        half, T = self._half(cov.shape[-1]), fit.population_data.n_tasks
        return np.asarray((T * cov + weight * half @ half.T) / (tau + T))

    def _half(self, D: int) -> np.ndarray:
        """Lower factor of the scale matrix."""
        if isinstance(self.scale_matrix, tuple):
            return np.linalg.cholesky(np.array(self.scale_matrix))
        return np.sqrt(1.0 / D if self.scale_matrix is None else float(self.scale_matrix)) * np.eye(D)

"""Functions from one population (Yu, Tresp & Schwaighofer 2005, models 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr

from zoo.core.absolute_laws import warn_of_responses
from zoo.core.context import Context
from zoo.core.fit import Fit
from zoo.core.hooks import SHARED, ModelData
from zoo.data.multitask import MultiTaskData
from zoo.kernels import Basis, LearnedKernel, describe, from_word, kernel_diagonal, kernel_matrix, restore
from zoo.kernels.basis import distinct_rows
from zoo.models.niw.base import NIWBase
from zoo.models.niw.hierarchy import Population
from zoo.models.niw.tied_mean import TiedMean
from zoo.support.checks import positive
from zoo.support.words import counted

__all__ = ["FunctionData", "NIWGaussianProcess"]

# Inputs up to which `fit` draws from the posterior if no method is named: a draw costs T n^3.
_GIBBS_INPUTS = 150
# Of kappa(x, x), what the inputs of the fit leave open: less is rounding.
_RESIDUAL = 1e-8


@dataclass(frozen=True, eq=False)
class FunctionData(MultiTaskData):
    """Rows as weights of the function values at the distinct inputs of the fit.

    ``inputs`` (m, n + 1): ``kappa(x, X0) kappa^+`` (yu2005 eq 17 in function values), and last the standard deviation
    that X0 leaves open of the base kernel at x, which is 0 at X0.
    """

    basis: Any = None


@dataclass(frozen=True, kw_only=True)
class NIWGaussianProcess(TiedMean):
    r"""Gaussian processes, one per task, whose mean and covariance function are learned from all tasks.

    .. math::

        y_n = f_{t(n)}(x_n) + \epsilon_n, \quad f_t \sim N(\mu, K), \quad \mu \mid K \sim N(0, K / \pi), \quad
        K \sim IW(\delta, \kappa)

    on the union of all inputs (yu2005 eq 10, model 2), with :math:`\kappa` the base kernel there. In Dawid's
    parametrisation this is the same law for every set of inputs, so predictions elsewhere follow from it (model 3).
    Inputs whose labels are missing in all tasks may be among the data and change nothing.

    ``function_values`` (dims input, task) holds :math:`f_t`, ``function_mean`` is :math:`\mu`, ``function_cov`` K;
    the dim ``input`` counts the distinct inputs in the order of the data. Standardize the response first.

    Parameters
    ----------
    base_kernel : str or pm.gp.cov.Covariance
        "linear", "squared_exponential" (lengthscale 1), "matern32", "matern52", or any covariance function; its
        input dimension is the number of features. It need not be positive definite at the data.
    likelihood, pi, delta, tau
        As in :class:`NIWLinear`, with K for C and kappa for its scale. The prior of ``noise`` is
        ``InverseGammaOfSquare(1, 0.1)``: functions can pass through all rows, and a weaker one lets them do so.

    Notes
    -----
    Exact draws cost T n^3 for n distinct inputs, EM 4 n^3 an iteration: ``fit`` without a method takes Gibbs up to
    150 inputs, and EM above.

    References
    ----------
    Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple tasks. ICML.
    """

    sparse_inputs: ClassVar[bool] = True
    serves_gaps: ClassVar[bool] = False
    allows_empty_tasks: ClassVar[bool] = True
    extra_dims: ClassVar[dict[str, tuple[str, ...]]] = {"function_values_cov": ("task", "input", "input_bis")}
    jitter: ClassVar[float] = _RESIDUAL
    names: ClassVar[tuple[str, str, str]] = ("function_values", "function_mean", "function_cov")
    dim: ClassVar[str] = "input"

    base_kernel: Any = "squared_exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        kernel = self.base_kernel
        if isinstance(kernel, str):
            from_word(kernel, 1)
        elif isinstance(kernel, tuple | list):
            object.__setattr__(self, "base_kernel", describe(restore(kernel)))
        elif isinstance(kernel, pm.gp.cov.BaseCovariance):
            try:
                object.__setattr__(self, "base_kernel", describe(kernel))
            except TypeError:
                # A covariance of the user's own: it serves, but no file can describe it (`to_spec` says so).
                return
        else:
            raise TypeError(
                f"base_kernel is a {type(kernel).__name__}. Give a word such as 'linear', or a covariance of pm.gp.cov."
            )

    def to_spec(self) -> dict[str, Any]:
        """See :meth:`ModelFactory.to_spec`; raises for a covariance of the user's own class."""
        if isinstance(self.base_kernel, pm.gp.cov.BaseCovariance):
            describe(self.base_kernel)
        return super().to_spec()

    def base_covariance(self, input_dim: int) -> Any:
        """The base kernel, a ``pm.gp.cov.Covariance``; override it for one that no field can describe."""
        if isinstance(self.base_kernel, str):
            return from_word(self.base_kernel, input_dim)
        if isinstance(self.base_kernel, tuple):
            return restore(self.base_kernel)
        return self.base_kernel

    def _basis(self, data: MultiTaskData) -> Basis:
        """Features of the base kernel at the inputs of these data."""
        data = self.set_apart(data)
        return Basis.of(self.base_covariance(data.n_features), data.inputs)

    def _fitted_basis(self, context: Context) -> Basis:
        """The same at the inputs of the fit, whose eigenvalues are computed once for all predictions."""
        return context.once("basis", lambda: self._basis(context.train))

    # ---------------------------------------------------------------- hooks

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where the base kernel is for other inputs, and warns of responses far from its scale."""
        y = super().validate(data)
        if not self.own_priors and self.likelihood.responses == "real":
            warn_of_responses(y)
        data = self.set_apart(data)
        dim = getattr(self.base_covariance(data.n_features), "input_dim", data.n_features)
        if dim != data.n_features:
            raise ValueError(
                f"base_kernel has input_dim {dim}, but the data have "
                f"{counted(data.n_features, 'feature')}. Make them equal."
            )
        return y

    def design(self, data: MultiTaskData, context: Context | None = None) -> FunctionData:
        """Rows as weights of the function values at the inputs of the fit, or at their own."""
        data = super().design(data, context)
        basis = self._basis(data) if context is None else self._fitted_basis(context)
        n = basis.inputs.shape[0]
        if context is None:
            values = basis.half_inverse * basis.eigenvalues
            weights = np.eye(n) if basis.rank == n else values @ basis.half_inverse.T
            left, row = np.zeros(n), basis.position[data.row]
        else:
            features = basis.features(data.inputs)
            weights = features @ basis.half_inverse.T
            variance = kernel_diagonal(basis.covariance, data.inputs)
            left = variance - np.sum(features**2, axis=1)
            left[left < _RESIDUAL * variance] = 0.0
            row = data.row
        return data.seen_as(
            FunctionData,
            inputs=np.column_stack([weights, np.sqrt(left)]),
            row=row,
            feature_names=(*(f"input {i}" for i in range(n)), "residual"),
            units=None,  # the base kernel has none: all laws are absolute
            shared_units=None,
            basis=basis,
        )

    design.leaves_t = True  # type: ignore[attr-defined]

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims; inputs are counted."""
        n = data.n_features - 1
        return {**super().coords(data), "input": np.arange(n), "input_bis": np.arange(n)}

    def population(self, data: MultiTaskData) -> Population:
        """Features of the base kernel at the rows, eq (17)."""
        basis = data.basis  # type: ignore[attr-defined]
        half = basis.half_inverse * basis.eigenvalues
        return Population(inputs=data.inputs[:, :-1] @ half, half=half, back=basis.half_inverse.T)

    # Its hooks are those that the engines were derived for: a subclass is held against this class.
    _fit_gibbs = NIWBase._fit_gibbs
    _fit_em = NIWBase._fit_em

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Function values at the rows; at new inputs with what the inputs of the fit leave open of the base kernel."""
        left = data.inputs[:, -1]
        f = replace(data, inputs=data.inputs[:, :-1]).linear(priors["function_values"])
        if not data.source.inputs[:, -1].any():
            return f
        # Only predictions come here, and they put draws in its place (`predictive_posterior`).
        residual = pm.Normal("residual", dims="task")
        return f + (left if data.row is None else left[data.row]) * residual[data.task]

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Function values of unseen tasks from each draw of the population."""
        result = super().new_task(posterior, names, rng)
        back, point = posterior.attrs["back"], posterior.attrs["point"]
        pi = self.pi_of(posterior)
        result["residual"] = self._residual(result["function_values"], pi, back, point, rng)
        return result

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """Draws with ``residual``: each task's deviation in base-kernel units where the fit's inputs say nothing.

        It is the same at all inputs of a draw: right for each input by itself, not for several jointly.
        """
        draws = super().predictive_posterior(fit, rng)
        back = self._fitted_basis(fit.context).half_inverse.T
        values = draws["function_values"].transpose("chain", "draw", "input", "task").to_numpy()
        residual = self._residual(values, self.pi_of(draws), back, fit.method == "em", rng)
        draws = draws.assign(residual=(("chain", "draw", "task"), residual))
        return draws.assign_attrs(back=back, point=fit.method == "em")

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation of f: of an EM fit (1, n), else (S, n) given the function values."""
        left = np.asarray(rows.inputs[:, -1])[rows.row]
        if fit.method == "em":
            mean, variance = self._em_moments(fit, rows)
            tau, weight = self.em_prior(self._fitted_basis(fit.context).rank)
            return mean[None], np.sqrt(variance + weight / tau * left**2)[None]
        values = fit.posterior["function_values"].transpose("chain", "draw", "input", "task").to_numpy()
        back = self._fitted_basis(fit.context).half_inverse.T
        # Where no row has more to say than the inputs of the fit, nothing is drawn.
        pi = self.pi_of(fit.posterior)
        sd = self._residual_sd(values, pi, back, rng) if left.any() else np.zeros(values[..., 0, :].shape)
        sd = sd.reshape(-1, values.shape[-1])
        flat = values.reshape(-1, *values.shape[2:])
        weights = np.asarray(rows.inputs[:, :-1])[rows.row]
        mean = np.empty((len(flat), rows.n_rows))
        for t in np.unique(rows.task):
            at = np.flatnonzero(rows.task == t)
            mean[:, at] = flat[:, :, t] @ weights[at].T
        if rows.shared is not None:
            mean += fit.posterior[SHARED].to_numpy().reshape(len(flat), -1) @ rows.shared.T
        return mean, left * sd[:, rows.task]

    def new_task_moments(
        self, fit: Fit, rows: MultiTaskData
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]] | None:
        """The same with what the inputs of the fit leave open of the base kernel."""
        found = super().new_task_moments(fit, rows)
        if found is None:
            return None
        mean, sd, parameters = found
        tau, weight = self.em_prior(self._fitted_basis(fit.context).rank)
        left = np.asarray(rows.inputs[:, -1])[rows.row]
        return mean, np.sqrt(sd**2 + weight / tau * left**2), parameters

    def _residual(
        self, values: np.ndarray, pi: Any, back: np.ndarray, point: bool, rng: np.random.Generator
    ) -> np.ndarray:
        r"""Draws (chain, draw, task) of what multiplies the residual standard deviation of the base kernel.

        In whitened features :math:`w` of rank r, one more feature extends the covariance by :math:`s \sim IG((\delta
        + r)/2, 1/2)` and :math:`b \sim N(0, s I)` (Dawid's delta kept), so its coefficient is :math:`b'w_t + \sqrt{s}
        (z / \sqrt{\pi} + z_t)`: normal with variance :math:`s (|w_t|^2 + 1/\pi + 1)` given w and s. EM's covariance
        there stays at the base kernel's, in the prior's units: variance 1 with the paper's tau.
        """
        chains, draws, _, n_tasks = values.shape
        z = rng.standard_normal((chains, draws, n_tasks))
        if point:
            tau, weight = self.em_prior(len(back))
            return np.asarray(np.sqrt(weight / tau) * (z - z.mean(axis=(0, 1))))
        return self._residual_sd(values, pi, back, rng) * z

    def _residual_sd(
        self, values: np.ndarray, pi: Any, back: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Standard deviations (chain, draw, task) of the same given draws of s, and pi or its draws (chain, draw)."""
        squares = np.sum((back @ values) ** 2, axis=2)
        s = self._innovation(len(back), rng, (*values.shape[:2], 1))
        return np.asarray(np.sqrt(s * (squares + 1.0 / np.asarray(pi)[..., None] + 1.0)))

    def _innovation(self, rank: int, rng: np.random.Generator, size: Any = None) -> Any:
        return 0.5 / rng.gamma((self.delta + rank) / 2.0, size=size)

    def _residual_features(
        self, data: MultiTaskData, prepared: MultiTaskData, inputs: np.ndarray
    ) -> np.ndarray:
        """A root of what the features leave of the base kernel between new inputs; (n, k), zero at the fit's own."""
        new = np.flatnonzero(prepared.inputs[:, -1])
        if not len(new):
            return np.empty((len(inputs), 0))
        data = self.set_apart(data)
        left = kernel_matrix(self.base_covariance(data.n_features), data.inputs[new])
        left -= inputs[new] @ inputs[new].T
        d, U = np.linalg.eigh((left + left.T) / 2)
        kept = d > _RESIDUAL * d[-1]
        root = np.zeros((len(inputs), int(kept.sum())))
        root[new] = U[:, kept] * np.sqrt(d[kept])
        return root

    def _residual_variance(
        self, fit: Fit, mean: np.ndarray, cov: np.ndarray, draw: Any, rng: np.random.Generator
    ) -> float:
        """As in :meth:`_residual`, with the expected square of the new task's coefficients."""
        if fit.method == "em":
            tau, weight = self.em_prior(len(mean))
            return weight / tau
        squares = float(mean @ mean + np.trace(cov))
        return float(self._innovation(len(mean), rng) * (squares + 1.0 / float(self.pi_of(draw)) + 1.0))

    def default_method(self, data: MultiTaskData) -> str:
        """Gibbs for few inputs, EM for many."""
        methods = self.methods
        data = self.set_apart(data)
        if "em" in methods and data.shared is None and distinct_rows(data.inputs)[0].shape[0] > _GIBBS_INPUTS:
            return "em"
        return next(iter(methods))

    # ---------------------------------------------------------------- learned kernel

    def learned_kernel(self, fit: Fit, combine: bool = True) -> LearnedKernel:
        r"""Eq (18), or combined eq (19); of a full-Bayes fit the posterior mean of K at any inputs.

        There ``combine`` adds the exact counterpart of eq (19): with V the covariance of the r whitened features and
        :math:`b, s` as in the prior's extension, :math:`E[b'Vb + s] = (tr V + 1) / (\delta + r - 2)` times what the
        inputs of the fit leave open of the base kernel.
        """
        basis = self._fitted_basis(fit.context)
        back = basis.half_inverse.T
        draws = fit.posterior.mean(("chain", "draw"))
        V = back @ draws["function_cov"].to_numpy() @ back.T
        weight, base, residual = self._kernel_weights(fit, combine, np.trace(V), len(V))
        d, U = np.linalg.eigh((V + V.T) / 2)
        half = basis.half_inverse @ (U * np.sqrt(np.maximum(d, 0.0)))
        return LearnedKernel(
            basis.covariance,
            inputs=basis.inputs,
            half=half,
            weight=weight,
            base_weight=base,
            residual_weight=float(residual),
            mean=basis.half_inverse @ (back @ draws["function_mean"].to_numpy()),
        )

    def learned_kernel_draws(self, fit: Fit, X: Any, combine: bool = True) -> xr.DataArray:
        """Draws of K between inputs; see :meth:`Fit.learned_kernel_draws`."""
        basis = self._fitted_basis(fit.context)
        back = basis.half_inverse.T
        features = basis.features(X)
        V = back @ fit.posterior["function_cov"].to_numpy() @ back.T
        trace = np.trace(V, axis1=2, axis2=3)[..., None, None]
        weight, base, residual = self._kernel_weights(fit, combine, trace, len(back))
        K = weight * (features @ V @ features.T)
        if combine:
            kappa = kernel_matrix(basis.covariance, X)
            K = K + base * kappa + residual * (kappa - features @ features.T)
        return self._kernel_draws(K)

    def _kernel_weights(self, fit: Fit, combine: bool, trace: Any, rank: int) -> tuple[float, float, Any]:
        """Weights of the learned part, of the base kernel, and of what the inputs leave open of it."""
        if not combine:
            return 1.0, 0.0, 0.0
        if fit.method == "em":
            tau, scale = self.em_prior(rank)
            T = fit.population_data.n_tasks
            return T / (tau + T), scale / (tau + T), 0.0
        positive(self.delta + rank - 2.0, "delta + rank - 2")
        return 1.0, 0.0, (trace + 1.0) / (self.delta + rank - 2.0)

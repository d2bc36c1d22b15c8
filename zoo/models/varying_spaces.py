"""The functions of a varying-coefficient model as numbers: at the rows, at inducing points, or as weights of fixed
features.

A space gives the evidence with its derivatives at hyper-parameters z; a state, what is known of the functions there;
the moments of f at rows; and draws of the variable that holds the functions in the posterior.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.gradient import grad
from scipy.linalg import solve_triangular

from zoo.inference.basis_regression import BasisRegression, Gram, basis_evidence, gaussian_evidence
from zoo.inference.function_conditional import covariance_root
from zoo.inference.inducing_points import choose_inducing
from zoo.inference.latent_gaussian import Dense, LowRank, evidence
from zoo.inference.responses import NormalResponses
from zoo.likelihoods.derivatives import DifferentiatedResponses
from zoo.likelihoods.gaussian import Gaussian
from zoo.models.kernel_hyper import Coordinates
from zoo.models.varying_rows import VaryingRows

if TYPE_CHECKING:
    from zoo.models.varying_coefficient import VaryingCoefficientGP
    from zoo.models.varying_kernel import VaryingKernel

__all__ = [
    "FunctionSpace",
    "InducingSpace",
    "State",
    "WeightSpace",
    "inducing_inputs",
    "inputs_of",
    "space_of",
]

# Entries of a block of a covariance matrix, of which several copies are made.
_ENTRIES = 4_000_000
# Weights from which the search for the evidence begins with the lower half of the frequencies.
_MANY = 600
_QUICK = Mode("py", "fast_compile")


class State(NamedTuple):
    """Hyper-parameters in free coordinates, the evidence there, and what the space knows of the functions."""

    z: np.ndarray
    log_evidence: float
    known: Any
    converged: bool


def inputs_of(rows: VaryingRows) -> np.ndarray:
    """The rows as inputs [x, t, task] of the covariance, (N, D + P + 1)."""
    return np.column_stack([rows.inputs, rows.times, rows.task.astype(np.float64)])


def inducing_inputs(factory: VaryingCoefficientGP, rows: VaryingRows) -> np.ndarray:
    """The inducing points of the fit (m, D + P + 1): the same for the same data and fields."""
    return choose_inducing(rows.points, factory.n_inducing, factory.placement, factory.inducing_seed)


def space_of(factory: VaryingCoefficientGP, rows: VaryingRows, y: np.ndarray) -> _Space:
    """The space of the factory's ``approximation``."""
    if factory.approximation == "vecchia":
        from zoo.models.varying_vecchia import VecchiaSpace  # which rests on this module

        return VecchiaSpace(factory, rows, y)
    kinds = {"none": FunctionSpace, "hsgp": WeightSpace, "fitc": InducingSpace, "vfe": InducingSpace}
    kind = kinds[factory.approximation]
    if factory.approximation == "none" and factory.kernel_of(rows).basis_is_exact:
        kind = WeightSpace
    return kind(factory, rows, y)


def _responses_of(
    factory: VaryingCoefficientGP, y: np.ndarray, weight: np.ndarray | None
) -> NormalResponses | DifferentiatedResponses:
    """The responses with their density; a subclass of the normal one may have another."""
    likelihood = factory.likelihood
    if type(likelihood) is Gaussian:
        return NormalResponses(y, likelihood.fixed.get("noise"), weight)
    return DifferentiatedResponses(likelihood, y, weight)


class _Space:
    """What the spaces share: hyper-parameters and responses."""

    values_name: ClassVar[str]
    short_lengthscales: ClassVar[tuple[float, ...]] = ()
    """Lengthscales, in standard deviations of t, at which the search may start too."""

    def forget(self) -> None:
        """Drop the last mode, from which the search for the next one starts."""
        vars(self).pop("_last", None)

    def __init__(self, factory: VaryingCoefficientGP, rows: VaryingRows, y: np.ndarray):
        self.factory, self.rows = factory, rows
        self.kernel = factory.kernel_of(rows)
        self.coordinates = Coordinates(factory.hyperparameters(rows))
        self.y = y - factory.offset(rows)
        self.responses = _responses_of(factory, self.y, rows.weight)

    @cached_property
    def _positions(self) -> np.ndarray:
        """Where the likelihood's own parameters stand in z, in the order of the responses."""
        found = [self.coordinates.position(name) for name in self.responses.learned]
        return np.array([i for s in found for i in range(s.start, s.stop)], dtype=np.int64)

    def _pulled(self, slopes: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        gradient[self._positions] += slopes
        return gradient

    def values_at(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyper-parameters by name."""
        return self.coordinates.unpack(z)

    def recorded(self, posterior: Any) -> np.ndarray:
        """Z of the posterior of a fit whose hyper-parameters are one point."""
        names = self.coordinates.hypers
        return self.coordinates.pack({name: posterior[name].to_numpy() for name in names})

    def lost(self, kernel: VaryingKernel, z: np.ndarray, rows: VaryingRows) -> np.ndarray:
        """Variance (n,) that rows outside the range of the data have, and the sines of a kernel have not."""
        result = np.zeros(rows.n_rows)
        values = self.factory.values_of(self.values_at(z), self.rows)
        for part in kernel.parts:
            at = np.flatnonzero(part.beyond(rows.times))
            if len(at):
                tensors = {name: pt.as_tensor(value) for name, value in values.items()}
                result[at] += pytensor.function([], part.lost_variance(tensors, rows, at), mode=_QUICK)()
        return result

    def log_variances(self, kernel: VaryingKernel) -> tuple[Any, Any]:
        """Of the weights of a kernel's features: a function of z, and one of z and ``pull`` that gives the slope."""
        z, pull = pt.dvector("z"), pt.dvector("pull")
        logs = kernel.log_variances(self.factory.values_of(self.coordinates.symbolic(z), self.rows))
        slope = grad(pt.sum(pull * logs), z, disconnected_inputs="ignore", return_disconnected="zero")
        return (
            pytensor.function([z], logs, mode=_QUICK, on_unused_input="ignore"),
            pytensor.function([z, pull], slope, mode=_QUICK, on_unused_input="ignore"),
        )

    def evidence(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its derivative in z."""
        raise NotImplementedError

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        raise NotImplementedError

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        raise NotImplementedError

    def draws(self, state: State, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws (n, ...) of the variable that holds the functions."""
        raise NotImplementedError


# ---------------------------------------------------------------- weights


class WeightSpace(_Space):
    """Weights of fixed features."""

    values_name = "basis_weights"

    @cached_property
    def _variances(self) -> tuple[Any, Any]:
        return self.log_variances(self.kernel)

    @cached_property
    def _regression(self) -> BasisRegression:
        def features(block: slice) -> np.ndarray:
            return self.kernel.features(self.rows, block)

        return BasisRegression(features, self.rows.n_rows, self.kernel.n_weights, self.responses)

    @cached_property
    def gram(self) -> Gram:
        """The sums over rows that Gaussian noise needs."""
        regression = self._regression
        p, weight = self.kernel.n_weights, self.rows.weight
        G, h = np.zeros((p, p), order="F"), np.zeros(p)
        for rows, block in regression.blocks(keep=False):
            weighted = block if weight is None else weight[rows, None] * block
            G += weighted.T @ block
            h += weighted.T @ self.y[rows]
        square, size = (1.0, len(self.y)) if weight is None else (weight, float(weight.sum()))
        return Gram(G, h, float((square * self.y) @ self.y), size)

    @cached_property
    def coarse(self) -> np.ndarray | None:
        """Weights of the lower half of all frequencies, to be searched first; None where that would save little."""
        index = self.kernel.low_frequencies()
        many = self.kernel.n_weights >= _MANY
        return index if many and len(index) <= 0.6 * self.kernel.n_weights else None

    @cached_property
    def _coarse_regression(self) -> BasisRegression:
        index = self.coarse
        assert index is not None

        def features(block: slice) -> np.ndarray:
            return self.kernel.features(self.rows, block)[:, index]

        return BasisRegression(features, self.rows.n_rows, len(index), self.responses)

    @cached_property
    def _coarse_gram(self) -> Gram:
        G, h, yy, n = self.gram
        assert self.coarse is not None
        return Gram(np.asfortranarray(G[np.ix_(self.coarse, self.coarse)]), h[self.coarse], yy, n)

    def _residual(self, f: np.ndarray) -> np.ndarray:
        """Responses less f, times the roots of the weights of the rows."""
        left = self.y - f
        return left if self.rows.weight is None else np.sqrt(self.rows.weight) * left

    def _evaluate(self, z: np.ndarray, coarse: bool = False) -> Any:
        logs = np.asarray(self._variances[0](z))
        if isinstance(self.responses, NormalResponses):
            log_noise = self.responses.log_noise(z[self._positions])
            gram, regression = self.gram, self._regression
            if coarse:
                gram, regression, logs = self._coarse_gram, self._coarse_regression, logs[self.coarse]
            found = gaussian_evidence(gram, logs, log_noise, lambda w: self._residual(regression.times(w)))
            return found if self.responses.learned else found._replace(parameter_slopes=np.zeros(0))
        index = self.coarse if coarse else np.arange(len(logs))
        assert index is not None
        regression = self._coarse_regression if coarse else self._regression
        # From the last mode, as far out as the prior at this z lets weights be.
        bound = 5.0 * np.exp(0.5 * logs)
        start = np.clip(self._last, -bound, bound)[index]
        found = basis_evidence(regression, logs[index], z[self._positions], start)
        self._last[index] = found.mode.w
        return found

    @cached_property
    def _last(self) -> np.ndarray:
        """Weights of the last mode."""
        return np.zeros(self.kernel.n_weights)

    def evidence(self, z: np.ndarray, coarse: bool = False) -> tuple[float, np.ndarray]:
        """Log evidence and its derivative in z; with ``coarse`` those of the weights of low frequencies alone."""
        found = self._evaluate(z, coarse)
        slopes = found.variance_slopes
        if coarse:
            slopes = np.zeros(self.kernel.n_weights)
            slopes[self.coarse] = found.variance_slopes
        gradient = np.asarray(self._variances[1](z, slopes))
        return found.value, self._pulled(found.parameter_slopes, gradient)

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        found = self._evaluate(z)
        return State(z, found.value, found.mode, found.mode.converged)

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        mean, variance = np.empty(rows.n_rows), np.empty(rows.n_rows)
        step = max(1, _ENTRIES // self.kernel.n_weights)
        for start in range(0, rows.n_rows, step):
            block = slice(start, start + step)
            features = self.kernel.features(rows, block)
            mean[block] = features @ state.known.w
            variance[block] = np.sum(state.known.half(features.T) ** 2, axis=0)
        return mean, variance + self.lost(self.kernel, state.z, rows)

    def draws(self, state: State, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of the variable that holds the functions."""
        return np.asarray(state.known.draws(rng, n))


# ---------------------------------------------------------------- covariances


class _Covariances(_Space):
    """What the two spaces of covariances share: matrices between inputs at z, and their derivatives, block by block."""

    def _graph(self, form: str) -> tuple[list[Any], Any]:
        z, A, B = pt.dvector("z"), pt.dmatrix("A"), pt.dmatrix("B")
        function = self.kernel.at(self.factory.values_of(self.coordinates.symbolic(z), self.rows))
        if form == "diagonal":
            return [z, A], function(A, diag=True)
        return [z, A, B], function(A, B)

    def _call(self, name: str, *values: np.ndarray) -> Any:
        """The value of ``matrix`` or ``diagonal``, or of ``*_slope``, made at the first call: each takes seconds."""
        if name not in self._compiled:
            self._compiled[name] = self._compile(name)
        return self._compiled[name](*values)

    @cached_property
    def _compiled(self) -> dict[str, Any]:
        return {}

    def _compile(self, name: str) -> Any:
        inputs, value = self._graph(name.removesuffix("_slope"))
        if name.endswith("_slope"):
            pull = value.type("pull")
            total = pt.sum(pull * value)
            value = grad(total, inputs[0], disconnected_inputs="ignore", return_disconnected="zero")
            inputs = [*inputs, pull]
        return pytensor.function(inputs, value, mode=_QUICK, on_unused_input="ignore")

    def matrix(self, z: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Covariances (n, m) of the function at inputs."""
        result = np.empty((len(A), len(B)))
        for block in _blocks(len(A), len(B)):
            result[block] = self._call("matrix", z, A[block], B)
        return result

    def diagonal(self, z: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Variances (n,)."""
        return np.asarray(self._call("diagonal", z, A))

    def _matrix_slope(self, z: np.ndarray, A: np.ndarray, B: np.ndarray, pull: np.ndarray) -> np.ndarray:
        total = np.zeros(len(z))
        for block in _blocks(len(A), len(B)):
            total += self._call("matrix_slope", z, A[block], B, pull[block])
        return total

    @cached_property
    def inputs(self) -> np.ndarray:
        """The rows as inputs."""
        return inputs_of(self.rows)

    def _covariance(self, z: np.ndarray) -> Any:
        raise NotImplementedError

    def _slopes(self, z: np.ndarray, slopes: dict[str, np.ndarray]) -> np.ndarray:
        raise NotImplementedError

    def evidence(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its derivative in z."""
        found = evidence(
            self._covariance(z), self.responses, z[self._positions], getattr(self, "_last", None)
        )
        self._last = found.mode.a
        return found.value, self._pulled(found.parameter_slopes, self._slopes(z, found.slopes))

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        K = self._covariance(z)
        found = evidence(K, self.responses, z[self._positions], getattr(self, "_last", None))
        return State(z, found.value, (K, found.mode), found.mode.converged)


def _blocks(n: int, m: int) -> list[slice]:
    step = max(1, _ENTRIES // max(1, m))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


class FunctionSpace(_Covariances):
    """Function values at the rows, exactly."""

    values_name = "function_values"

    def _covariance(self, z: np.ndarray) -> Dense:
        return Dense(self.matrix(z, self.inputs, self.inputs))

    def _slopes(self, z: np.ndarray, slopes: dict[str, np.ndarray]) -> np.ndarray:
        return self._matrix_slope(z, self.inputs, self.inputs, slopes["K"])

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        _, mode = state.known
        new = inputs_of(rows)
        mean, variance = np.empty(len(new)), self.diagonal(state.z, new)
        for block in _blocks(len(new), len(self.inputs)):
            cross = self.matrix(state.z, new[block], self.inputs)
            mean[block] = cross @ mode.a
            variance[block] -= mode.solver.reduction(cross)
        return mean, np.maximum(variance, 0.0)

    def draws(self, state: State, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of the variable that holds the functions."""
        _, mode = state.known
        points = self.rows.points
        cross = self.matrix(state.z, points, self.inputs)
        own = self.matrix(state.z, points, points)
        half = solve_triangular(
            mode.solver.factor, (cross * mode.solver.root).T, lower=True, check_finite=False
        )
        root = covariance_root(own - half.T @ half)
        return np.asarray(cross @ mode.a + rng.standard_normal((n, root.shape[1])) @ root.T)


class InducingSpace(_Covariances):
    """Function values at inducing points, whitened: ``L^-1 u`` with the factor of their covariance."""

    values_name = "inducing_values"

    @cached_property
    def inducing(self) -> np.ndarray:
        """The inducing points, (m, D + P + 1)."""
        return inducing_inputs(self.factory, self.rows)

    def _covariance(self, z: np.ndarray) -> LowRank:
        U = self.inducing
        return LowRank(
            self.matrix(z, U, U),
            self.matrix(z, self.inputs, U).T,
            self.diagonal(z, self.inputs),
            residual=self.factory.approximation == "fitc",
        )

    def _slopes(self, z: np.ndarray, slopes: dict[str, np.ndarray]) -> np.ndarray:
        U = self.inducing
        total = self._matrix_slope(z, U, U, slopes["Kuu"])
        total += self._matrix_slope(z, self.inputs, U, slopes["Kuf"].T)
        return total + self._call("diagonal_slope", z, self.inputs, slopes["diagonal"])

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        K, mode = state.known
        new, white = inputs_of(rows), K.whitened(mode)
        mean, variance = np.empty(len(new)), self.diagonal(state.z, new)
        for block in _blocks(len(new), len(self.inducing)):
            V = solve_triangular(
                K.factor, self.matrix(state.z, new[block], self.inducing).T, lower=True, check_finite=False
            )
            half = solve_triangular(mode.solver.factor, V, lower=True, check_finite=False)
            mean[block] = white @ V
            variance[block] += np.sum(half**2, axis=0) - np.sum(V**2, axis=0)
        return mean, np.maximum(variance, 0.0)

    def draws(self, state: State, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of the variable that holds the functions."""
        K, mode = state.known
        white = rng.standard_normal((len(self.inducing), n))
        spread = solve_triangular(mode.solver.factor, white, lower=True, trans=1, check_finite=False)
        return np.asarray(K.whitened(mode)[None] + spread.T)

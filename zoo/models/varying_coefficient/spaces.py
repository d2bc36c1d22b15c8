"""The functions of a varying-coefficient model as numbers: at the rows, at inducing points, or as weights of fixed
features.

A space gives the evidence with its derivatives at hyper-parameters z; a state, what is known of the functions there;
the moments of f at rows; and draws of the variable that holds the functions in the posterior.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import grad
from scipy.linalg import solve_triangular

from zoo.latent.function_conditional import covariance_root
from zoo.latent.inducing_points import choose_inducing
from zoo.latent.latent_gaussian import Dense, LowRank, evidence
from zoo.likelihoods.gaussian import Gaussian
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.space import ENTRIES, Space, State, inputs_of
from zoo.models.varying_coefficient.vecchia import VecchiaSpace
from zoo.models.varying_coefficient.vecchia_latent import LatentVecchiaSpace
from zoo.models.varying_coefficient.weights import WeightSpace
from zoo.support.quick import QUICK

__all__ = ["FunctionSpace", "InducingSpace", "inducing_inputs", "space_of"]


def inducing_inputs(factory: VaryingDescription, rows: VaryingRows) -> np.ndarray:
    """The inducing points of the fit (m, D + P + 1): the same for the same data and fields."""
    return choose_inducing(rows.points, factory.n_inducing, factory.placement, factory.design_seed)


def space_of(factory: VaryingDescription, rows: VaryingRows, y: np.ndarray) -> Space:
    """The space of the factory's ``approximation``."""
    if factory.approximation == "vecchia":
        return (VecchiaSpace if type(factory.likelihood) is Gaussian else LatentVecchiaSpace)(
            factory, rows, y
        )
    kinds = {"none": FunctionSpace, "hsgp": WeightSpace, "fitc": InducingSpace, "vfe": InducingSpace}
    kind = kinds[factory.approximation]
    if factory.approximation == "none" and factory.kernel_of(rows).basis_is_exact:
        kind = WeightSpace
    return kind(factory, rows, y)


# ---------------------------------------------------------------- weights


# ---------------------------------------------------------------- covariances


class _Covariances(Space):
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
        return pytensor.function(inputs, value, mode=QUICK, on_unused_input="ignore")

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
        found = evidence(self._covariance(z), self.responses, z[self._positions], self._last)
        self._last = found.mode.a
        return found.value, self._pulled(found.parameter_slopes, self._slopes(z, found.slopes))

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        K = self._covariance(z)
        found = evidence(K, self.responses, z[self._positions], self._last)
        return State(z, found.value, (K, found.mode), found.mode.converged)


def _blocks(n: int, m: int) -> list[slice]:
    step = max(1, ENTRIES // max(1, m))
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

"""The prior of a kernel machine as numbers, in whichever of three forms its kernel has.

- :class:`WeightSpace`: linear in x, ``B (x) Q``: coefficients of the tasks, never an N x N matrix
  (:mod:`zoo.models.kernel_machine.sides` has its other sides, for more features than rows);
- :class:`AlignedSpace`: ``B (x) k`` where every task has all inputs, with Gaussian noise: eigenvalues of B and k;
- :class:`FunctionSpace`: any kernel: function values at the distinct rows.

Each is a :class:`zoo.latent.function_prior.FunctionPrior`, with the derivative of the evidence in the free
coordinates, and predictions. Graphs of PyTensor give the numbers, so a kernel of the user's own serves too.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from threadpoolctl import threadpool_limits

from zoo.latent.function_conditional import AlignedConditional, FunctionConditional
from zoo.latent.function_prior import PointFunctions
from zoo.latent.task_weights import Loadings, WeightConditional, WeightSums, row_values, weight_sums
from zoo.models.kernel_machine.space import Compiled, Space, weight_graph

if TYPE_CHECKING:
    from zoo.models.kernel_machine.rows import KernelRows

__all__ = ["LARGE", "AlignedSpace", "FunctionSpace", "WeightSpace", "is_complete"]

# Rows of a matrix from which several threads pay.
LARGE = 500
# Distinct rows up to which their covariance matrix is made: a dozen of its size are in use at a time.
_MOST_POINTS = 12_000


class WeightSpace(Space):
    """Coefficients (D, T) of a linear kernel."""

    values_name = "coefficients"

    def adopt(self, old: Space) -> None:
        """The loadings too are those of the kernel alone."""
        super().adopt(old)
        if isinstance(old, WeightSpace) and "_loadings" in vars(old):
            vars(self)["_loadings"] = vars(old)["_loadings"]

    def moved(self, values: np.ndarray, sign: float = 1.0) -> np.ndarray:
        """Coefficients with those of the level, or without them."""
        if self.y_level == 0.0:
            return values
        offset = self.factory.offset(self.data)
        return values + sign * offset.reshape(-1, *(1,) * (values.ndim - 1))

    def threads(self) -> Any:
        """One thread, unless many columns are shared: the matrices of the tasks are small."""
        r, D = self.numbers(self.coordinates.start).W.shape[1], self.data.n_features
        return threadpool_limits(1) if r * D < LARGE else nullcontext()

    @cached_property
    def _graph(self) -> tuple[Any, Any, Any, Any]:
        """The vector z and the loadings as graphs in it; the root may be None, for the identity."""
        z, amplitude, kernel = self._symbolic
        return z, *weight_graph(self.factory.linear_form(kernel, self.data), amplitude)

    @property
    def learns_root(self) -> bool:
        """Whether the root of Q depends on what is learned."""
        z, _, _, R = self._graph
        return R is not None and z in ancestors([R])

    @cached_property
    def _loadings(self) -> tuple[Compiled, bool, bool]:
        """Loadings at z, whether R is known beforehand, and whether it depends on z."""
        z, d, W, R = self._graph
        learned = self.learns_root
        return Compiled([z], [d, W, R] if learned else [d, W], self.fast), not learned, learned

    @cached_property
    def known_root(self) -> np.ndarray | None:
        """R where it is known beforehand; None for the identity. No compiled function need hold its numbers."""
        R = self._graph[3]
        return None if R is None or self.learns_root else np.asarray(R.eval())

    @cached_property
    def _pull(self) -> Compiled:
        z, d, W, R = self._graph
        by_d, by_W, by_R = pt.vector("by_d"), pt.matrix("by_W"), pt.matrix("by_R")
        total = (by_d * d).sum() + (by_W * W).sum() + ((by_R * R).sum() if self.learns_root else 0.0)
        gradient = pytensor.grad(total, z, disconnected_inputs="ignore")
        return Compiled([z, by_d, by_W, by_R], gradient)

    def numbers(self, z: np.ndarray) -> Loadings:
        """Loadings of the weights at z."""
        compiled, known, _ = self._loadings
        found = compiled(z)
        return Loadings(found[0], found[1], self.known_root if known else found[2])

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> WeightSums:
        """Sums over the rows of each task."""
        data = self.data
        return weight_sums(data.inputs, data.row, data.task, data.n_tasks, omega, nu)

    def condition(self, numbers: Loadings, sums: WeightSums) -> WeightConditional:
        """The law of the coefficients."""
        return WeightConditional.of(sums, numbers)

    def mean_variance(self, numbers: Loadings) -> float:
        """Prior variance of f, averaged over the rows by their weights."""
        S = self.unit_sums.S if numbers.R is None else numbers.R.T @ self.unit_sums.S @ numbers.R
        B = numbers.d + np.sum(numbers.W**2, axis=1)
        return float(B @ np.trace(S, axis1=1, axis2=2)) / self.size

    def gaussian(self, numbers: Loadings, variance: float) -> WeightConditional:
        """The law given the responses."""
        return WeightConditional.of(self.unit_sums.scaled(1.0 / variance), numbers)

    def pull(self, z: np.ndarray, conditional: WeightConditional) -> np.ndarray:
        """Derivative of log Z in z through the prior."""
        # A root of numbers may be singular, and nothing is learned there.
        return np.asarray(self._pull(z, *conditional.gradient(of_root=self._loadings[2])))

    def draws(self, conditional: WeightConditional, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws (size, D, T)."""
        return conditional.draw(rng, size)

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows."""
        return _linear(self.data, values)

    def predict(
        self, z: np.ndarray, conditional: WeightConditional, rows: KernelRows
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at rows of known tasks."""
        return conditional.predict(rows.X, rows.task)


def _linear(data: KernelRows, coefficients: np.ndarray) -> np.ndarray:
    # Where most pairs of inputs and tasks are rows, all at once; else each row alone.
    if data.shares_inputs and data.n_inputs * data.n_tasks <= 2 * data.n_rows:
        return np.asarray((data.inputs @ coefficients)[data.row, data.task])
    inputs, by_task = np.ascontiguousarray(data.inputs), np.ascontiguousarray(coefficients.T)
    return np.asarray(row_values(inputs, data.row, data.task, by_task))


class FunctionSpace(PointFunctions, Space):
    """Function values (n,) at the distinct rows, with any kernel."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        n = len(self.data.points)
        if n > _MOST_POINTS:
            raise ValueError(
                f"data have {n:,} distinct rows, and a kernel that is not linear in x takes at most {_MOST_POINTS:,}: "
                "its time grows with their cube. Use a kernel with base=None, or fewer rows."
            )

    @cached_property
    def _matrix(self) -> Compiled:
        z, amplitude, kernel = self._symbolic
        return Compiled([z], amplitude**2 * kernel(pt.constant(self.data.points)), self.fast)

    @cached_property
    def _pull(self) -> Compiled:
        z, amplitude, kernel = self._symbolic
        by_K = pt.matrix("by_K")
        total = (by_K * (amplitude**2 * kernel(pt.constant(self.data.points)))).sum()
        return Compiled([z, by_K], pytensor.grad(total, z, disconnected_inputs="ignore"))

    @cached_property
    def _cross(self) -> Compiled:
        z, amplitude, kernel = self._symbolic
        new = pt.matrix("new", dtype="float64", shape=(None, self.data.points.shape[1]))
        cross = kernel(new, pt.constant(self.data.points))
        return Compiled([z, new], [amplitude**2 * cross, amplitude**2 * kernel(new, diag=True)])

    def numbers(self, z: np.ndarray) -> np.ndarray:
        """The covariance matrix of the points."""
        return np.asarray(self._matrix(z))

    def mean_variance(self, numbers: np.ndarray) -> float:
        """Prior variance of f, averaged over the rows."""
        return float(np.average(np.diag(numbers)[self.data.point], weights=self.data.weight))

    def pull(self, z: np.ndarray, conditional: FunctionConditional) -> np.ndarray:
        """Derivative of log Z in z through the prior."""
        return np.asarray(self._pull(z, conditional.gradient()))

    def predict(
        self, z: np.ndarray, conditional: FunctionConditional, rows: KernelRows
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at rows of known tasks."""
        cross, diagonal = self._cross(z, rows.points)
        mean, variance = conditional.predict(cross, np.broadcast_to(diagonal, len(rows.points)))
        return mean[rows.point], variance[rows.point]


class AlignedSpace(Space):
    """Function values at the inputs that all tasks share; Gaussian noise alone."""

    @cached_property
    def _factors(self) -> Compiled:
        z, amplitude, kernel = self._symbolic
        return Compiled(
            [z], [amplitude**2 * kernel.task_matrix(), kernel.base(pt.constant(self.data.inputs))]
        )

    @cached_property
    def _pull(self) -> Compiled:
        z, amplitude, kernel = self._symbolic
        by_B, by_k = pt.matrix("by_B"), pt.matrix("by_k")
        base = kernel.base(pt.constant(self.data.inputs))
        total = (by_B * (amplitude**2 * kernel.task_matrix())).sum() + (by_k * base).sum()
        return Compiled([z, by_B, by_k], pytensor.grad(total, z, disconnected_inputs="ignore"))

    @cached_property
    def _cross(self) -> Compiled:
        z, _, kernel = self._symbolic
        new = pt.matrix("new", dtype="float64", shape=(None, self.data.inputs.shape[1]))
        cross = kernel.base(new, pt.constant(self.data.inputs))
        return Compiled([z, new], [cross, kernel.base(new, diag=True)])

    @cached_property
    def Y(self) -> np.ndarray:
        """Responses (n, T)."""
        Y = np.empty((self.data.n_inputs, self.data.n_tasks))
        Y[self.data.row, self.data.task] = self.y
        return Y

    def numbers(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Covariances of tasks and of inputs."""
        B, k = self._factors(z)
        return B, k

    def mean_variance(self, numbers: tuple[np.ndarray, np.ndarray]) -> float:
        """Prior variance of f, averaged over the rows."""
        return float(np.mean(np.diag(numbers[0])) * np.mean(np.diag(numbers[1])))

    def gaussian(self, numbers: tuple[np.ndarray, np.ndarray], variance: float) -> AlignedConditional:
        """The law given the responses."""
        return AlignedConditional(*numbers, self.Y, variance)

    def pull(self, z: np.ndarray, conditional: AlignedConditional) -> np.ndarray:
        """Derivative of log Z in z through the prior."""
        return np.asarray(self._pull(z, *conditional.gradient()))

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values (n, T) at the rows."""
        return np.asarray(values[self.data.row, self.data.task])

    def draws(self, conditional: AlignedConditional, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws (size, n) at the distinct rows."""
        first = np.unique(self.data.point, return_index=True)[1]
        return conditional.draw(rng, size)[:, self.data.row[first], self.data.task[first]]

    def predict(
        self, z: np.ndarray, conditional: AlignedConditional, rows: KernelRows
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at rows of known tasks."""
        cross, diagonal = self._cross(z, rows.X)
        diagonal = np.diag(conditional.B)[rows.task] * np.broadcast_to(diagonal, rows.n_rows)
        return conditional.predict(conditional.B[rows.task], cross, diagonal)


def is_complete(data: KernelRows) -> bool:
    """Whether every task has all inputs, once each and without weight, and no two inputs are the same."""
    n, T = data.n_inputs, data.n_tasks
    return data.weight is None and data.shares_inputs and len(data.y) == n * T == len(data.points)

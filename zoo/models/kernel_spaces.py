"""The prior of a kernel machine as numbers, in whichever of three forms its kernel has.

- :class:`WeightSpace`: linear in x, ``B (x) Q``: coefficients of the tasks, never an N x N matrix
  (:mod:`zoo.models.kernel_sides` has its other sides, for more features than rows);
- :class:`AlignedSpace`: ``B (x) k`` where every task has all inputs, with Gaussian noise: eigenvalues of B and k;
- :class:`FunctionSpace`: any kernel: function values at the distinct rows.

Each is a :class:`zoo.inference.kernel_gibbs.FunctionPrior`, with the derivative of the evidence in the free
coordinates, and predictions. Graphs of PyTensor give the numbers, so a kernel of the user's own serves too.
"""

from __future__ import annotations

import copy
import threading
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors
from threadpoolctl import threadpool_limits

from zoo.inference.function_conditional import (
    JITTER,
    AlignedConditional,
    FunctionConditional,
    covariance_root,
)
from zoo.inference.task_weights import Loadings, WeightConditional, WeightSums, weight_sums
from zoo.kernels.evaluate import fixed_number
from zoo.models.kernel_hyper import Coordinates

if TYPE_CHECKING:
    from zoo.models.multitask_kernel import KernelRows, MultiTaskKernelMachine

__all__ = [
    "LARGE",
    "AlignedSpace",
    "FunctionSpace",
    "Space",
    "WeightSpace",
    "is_complete",
    "matrix_root",
    "weight_graph",
]

# Hyper-parameters whose posterior has another name.
_REPORTED = {"Q": "feature_cov"}
# Rows of a matrix from which several threads pay.
LARGE = 500
# Distinct rows up to which their covariance matrix is made: a dozen of its size are in use at a time.
_MOST_POINTS = 12_000


def matrix_root(matrix: Any) -> Any:
    """A graph L with ``L L'`` the covariance matrix; of numbers the symmetric one, which may be singular."""
    number = fixed_number(matrix)
    if number is None:
        size = matrix.shape[0]
        return pt.linalg.cholesky(matrix + JITTER * pt.trace(matrix) / size * pt.eye(size))
    d, U = np.linalg.eigh((number + number.T) / 2.0)
    return pt.constant((U * np.sqrt(np.where(d > JITTER * d[-1], d, 0.0))) @ U.T)


def weight_graph(form: Any, amplitude: Any) -> tuple[Any, Any, Any]:
    """Graphs of d (T,), W (T, r) and R (D, D), or None for the identity, of a linear kernel times amplitude squared."""
    if form.loadings is None:
        W = matrix_root(form.task_matrix)
        d = pt.zeros(W.shape[0])
    else:
        d, W = (pt.as_tensor(part) for part in form.loadings)
    return amplitude**2 * d, amplitude * W, None if form.Q is None else matrix_root(form.Q)


class _Compiled:
    """A compiled function that several threads may call; ``fast`` takes seconds to compile and saves milliseconds."""

    def __init__(self, inputs: list[Any], outputs: Any, fast: bool = False):
        self._lock = threading.Lock()
        mode = "NUMBA" if fast else Mode("py", "fast_compile")
        self._function = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")

    def __call__(self, *values: Any) -> Any:
        with self._lock:
            found = self._function(*values)
        many = isinstance(found, list)
        return [np.array(v) for v in found] if many else np.array(found)


class Space:
    """What the three forms share.

    Parameters
    ----------
    factory : MultiTaskKernelMachine
    data : KernelRows
        Rows as the factory's ``prepare`` makes them.
    y : (N,) array
        Coded responses.
    fast : bool
        Compile for thousands of evaluations.
    """

    values_name = "function_values"

    def __init__(self, factory: MultiTaskKernelMachine, data: KernelRows, y: np.ndarray, fast: bool = False):
        self.factory, self.data, self.y, self.fast = factory, data, y, fast
        self.coordinates = Coordinates(factory.hyperparameters(data))

    def __reduce__(self) -> Any:  # compiled functions stay behind: another process makes its own
        return type(self), (self.factory, self.data, self.y, self.fast)

    def adopt(self, old: Space) -> None:
        """Take over the compiled functions of a space of the same kernel, where they do not depend on the rows."""
        for name in ("_symbolic", "_task_matrix"):
            if name in vars(old):
                vars(self)[name] = vars(old)[name]

    def with_response(self, y: np.ndarray) -> Any:
        """The same rows with other coded responses; what is compiled is shared."""
        other = copy.copy(self)
        other.y = y
        for name in ("unit_sums", "Y"):
            vars(other).pop(name, None)
        return other

    def threads(self) -> Any:
        """A context in which linear algebra of this size is fastest."""
        return nullcontext()

    @property
    def size(self) -> float:
        """Sum of the weights of the rows: how many they are worth."""
        return float(len(self.y) if self.data.weight is None else self.data.weight.sum())

    def log_marginal(self, conditional: Any, variance: float) -> float:
        r"""Log density of Gaussian responses.

        By the misfit and the norm of the mean, whose sum is :math:`y' \Sigma^{-1} y`: no difference of large numbers if
        the noise is small. With weights h the density of the rows is :math:`\prod_n N(y_n; f_n, \sigma^2)^{h_n}`, whose
        normaliser counts :math:`\sum_n h_n` times.
        """
        square = self.misfit(conditional) / variance + conditional.norm()
        volume = 0.5 * self.size * np.log(2.0 * np.pi * variance) + conditional.half_log_det
        return float(-0.5 * square - volume)

    def misfit(self, conditional: Any) -> float:
        """Sum of squared residuals at the mean, by their weights."""
        squares = (self.y - self.mean_functions(conditional)) ** 2
        return float(np.sum(squares if self.data.weight is None else self.data.weight * squares))

    # ---------------------------------------------------------------- functions

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> Any:
        """What rows of weights ``omega`` and linear terms ``nu`` (N,) say."""
        raise NotImplementedError

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows."""
        raise NotImplementedError

    def draws(self, conditional: Any, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws of the values that are recorded, (size, ...)."""
        raise NotImplementedError

    @cached_property
    def unit_sums(self) -> Any:
        """The rows with noise of variance 1."""
        h = np.ones(len(self.y)) if self.data.weight is None else self.data.weight
        return self.sums(h, h * self.y)

    def mean_functions(self, conditional: Any) -> np.ndarray:
        """The mean at the rows."""
        return self.functions(conditional.mean)

    def draw(self, conditional: Any, rng: np.random.Generator) -> np.ndarray:
        """One draw of the values that are recorded."""
        return np.asarray(self.draws(conditional, rng, 1)[0])

    # ---------------------------------------------------------------- hyper-parameters

    def values_at(self, z: np.ndarray) -> dict[str, Any]:
        """All parameters by name, learned and fixed."""
        return {**self.factory.fixed_parameters(), **self.coordinates.unpack(z)}

    def ridges(self) -> np.ndarray | None:
        """Directions of z that the rows say little of: lam up and the amplitude down, a task's own variance held."""
        learned = self.coordinates.hypers
        if not isinstance(self.factory.kernel, str) or not {"lam", "amplitude"} <= set(learned):
            return None
        ridge = np.zeros((1, self.coordinates.size))
        ridge[0, self.coordinates.position("lam")] = 1.0
        ridge[0, self.coordinates.position("amplitude")] = -0.5
        return ridge

    def noise_variance(self, z: np.ndarray) -> float:
        """Of the Gaussian likelihood."""
        return float(self.values_at(z)["noise"]) ** 2

    def log_prior(self, z: np.ndarray) -> float:
        """Log prior density of z."""
        return self.coordinates.log_prior(z)

    @cached_property
    def _symbolic(self) -> tuple[Any, Any, Any]:
        """The vector z, the amplitude and the kernel at z."""
        z = pt.vector("z", dtype="float64", shape=(self.coordinates.size,))
        values = {**self.factory.fixed_parameters(), **self.coordinates.symbolic(z)}
        return z, values["amplitude"], self.factory.covariance_function(values, self.data)

    @cached_property
    def _task_matrix(self) -> _Compiled | None:
        z, amplitude, kernel = self._symbolic
        matrix = self.factory.task_matrix(kernel, self.data)
        return None if matrix is None else _Compiled([z], amplitude**2 * matrix, self.fast)

    def located(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The vector z and the functions of recorded variables: the inverse of :meth:`record`."""
        names = self.coordinates.hypers
        z = self.coordinates.pack({name: values[_REPORTED.get(name, name)] for name in names})
        return z, np.array(values[self.values_name], dtype=np.float64)

    def recorded(self, draw: Any) -> np.ndarray:
        """The vector z of one draw of the posterior, a Dataset: what :meth:`parameters` reported."""
        names = self.coordinates.hypers
        return self.coordinates.pack({name: draw[_REPORTED.get(name, name)].to_numpy() for name in names})

    def record(self, z: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior variables by name."""
        return {self.values_name: values, **self.parameters(z)}

    def parameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Those that do not depend on the rows: learned hyper-parameters and the covariance of tasks."""
        result = {_REPORTED.get(name, name): value for name, value in self.coordinates.unpack(z).items()}
        if self._task_matrix is not None:
            result["task_cov"] = self._task_matrix(z)
        return result


class WeightSpace(Space):
    """Coefficients (D, T) of a linear kernel."""

    values_name = "coefficients"

    def adopt(self, old: Space) -> None:
        """The loadings too are those of the kernel alone."""
        super().adopt(old)
        if isinstance(old, WeightSpace) and "_loadings" in vars(old):
            vars(self)["_loadings"] = vars(old)["_loadings"]

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
    def _loadings(self) -> tuple[_Compiled, bool, bool]:
        """Loadings at z, whether R is the identity, and whether it depends on z."""
        z, d, W, R = self._graph
        compiled = _Compiled([z], [d, W] if R is None else [d, W, R], self.fast)
        return compiled, R is None, self.learns_root

    @cached_property
    def _pull(self) -> _Compiled:
        z, d, W, R = self._graph
        by_d, by_W, by_R = pt.vector("by_d"), pt.matrix("by_W"), pt.matrix("by_R")
        total = (by_d * d).sum() + (by_W * W).sum() + (0.0 if R is None else (by_R * R).sum())
        gradient = pytensor.grad(total, z, disconnected_inputs="ignore")
        return _Compiled([z, by_d, by_W, by_R], gradient)

    def numbers(self, z: np.ndarray) -> Loadings:
        """Loadings of the weights at z."""
        compiled, identity, _ = self._loadings
        found = compiled(z)
        return Loadings(found[0], found[1], None if identity else found[2])

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
        X, mean, variance = rows.X, np.empty(rows.n_rows), np.empty(rows.n_rows)
        for t in np.unique(rows.task):
            at = rows.task == t
            mean[at] = X[at] @ conditional.mean[:, t]
            variance[at] = np.sum((X[at] @ conditional.covariance[t]) * X[at], axis=1)
        return mean, np.maximum(variance, 0.0)


def _linear(data: KernelRows, coefficients: np.ndarray) -> np.ndarray:
    if data.shares_inputs:
        return np.asarray((data.inputs @ coefficients)[data.row, data.task])
    return np.einsum("nd,nd->n", data.inputs, coefficients.T[data.task])


class FunctionSpace(Space):
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
    def _matrix(self) -> _Compiled:
        z, amplitude, kernel = self._symbolic
        return _Compiled([z], amplitude**2 * kernel(pt.constant(self.data.points)), self.fast)

    @cached_property
    def _pull(self) -> _Compiled:
        z, amplitude, kernel = self._symbolic
        by_K = pt.matrix("by_K")
        total = (by_K * (amplitude**2 * kernel(pt.constant(self.data.points)))).sum()
        return _Compiled([z, by_K], pytensor.grad(total, z, disconnected_inputs="ignore"))

    @cached_property
    def _cross(self) -> _Compiled:
        z, amplitude, kernel = self._symbolic
        new = pt.matrix("new", dtype="float64", shape=(None, self.data.points.shape[1]))
        cross = kernel(new, pt.constant(self.data.points))
        return _Compiled([z, new], [amplitude**2 * cross, amplitude**2 * kernel(new, diag=True)])

    def numbers(self, z: np.ndarray) -> np.ndarray:
        """The covariance matrix of the points."""
        return np.asarray(self._matrix(z))

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the rows of each point."""
        point, n = self.data.point, len(self.data.points)
        return np.bincount(point, omega, n), np.bincount(point, nu, n)

    def condition(self, numbers: np.ndarray, sums: tuple[np.ndarray, np.ndarray]) -> FunctionConditional:
        """The law of the function values."""
        return FunctionConditional.of(numbers, *sums)

    def mean_variance(self, numbers: np.ndarray) -> float:
        """Prior variance of f, averaged over the rows."""
        return float(np.average(np.diag(numbers)[self.data.point], weights=self.data.weight))

    def gaussian(self, numbers: np.ndarray, variance: float) -> FunctionConditional:
        """The law given the responses."""
        omega, nu = self.unit_sums
        return FunctionConditional.of(numbers, omega / variance, nu / variance)

    def pull(self, z: np.ndarray, conditional: FunctionConditional) -> np.ndarray:
        """Derivative of log Z in z through the prior."""
        return np.asarray(self._pull(z, conditional.gradient()))

    def draws(self, conditional: FunctionConditional, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws (size, n)."""
        return conditional.draw(rng, covariance_root(conditional.K), size)

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows."""
        return np.asarray(values[self.data.point])

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
    def _factors(self) -> _Compiled:
        z, amplitude, kernel = self._symbolic
        return _Compiled(
            [z], [amplitude**2 * kernel.task_matrix(), kernel.base(pt.constant(self.data.inputs))]
        )

    @cached_property
    def _pull(self) -> _Compiled:
        z, amplitude, kernel = self._symbolic
        by_B, by_k = pt.matrix("by_B"), pt.matrix("by_k")
        base = kernel.base(pt.constant(self.data.inputs))
        total = (by_B * (amplitude**2 * kernel.task_matrix())).sum() + (by_k * base).sum()
        return _Compiled([z, by_B, by_k], pytensor.grad(total, z, disconnected_inputs="ignore"))

    @cached_property
    def _cross(self) -> _Compiled:
        z, _, kernel = self._symbolic
        new = pt.matrix("new", dtype="float64", shape=(None, self.data.inputs.shape[1]))
        cross = kernel.base(new, pt.constant(self.data.inputs))
        return _Compiled([z, new], [cross, kernel.base(new, diag=True)])

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

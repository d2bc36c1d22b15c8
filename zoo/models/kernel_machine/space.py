"""What the forms of the functions of a kernel machine share."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from zoo.kernels.evaluate import fixed_number
from zoo.latent.coordinates import Coordinates
from zoo.latent.function_conditional import JITTER
from zoo.latent.function_prior import RowFunctions
from zoo.models.kernel_machine.description import KernelMachineDescription
from zoo.support.quick import QUICK

if TYPE_CHECKING:
    from zoo.models.kernel_machine.rows import KernelRows

__all__ = ["Compiled", "Space", "matrix_root", "weight_graph"]

# Hyper-parameters whose posterior has another name.
_REPORTED = {"Q": "feature_cov"}


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
    R = None if form.Q is None else matrix_root(form.Q)
    if form.half is not None:
        R = pt.constant(form.half) if R is None else pt.dot(pt.constant(form.half), R)
    return amplitude**2 * d, amplitude * W, R


class Compiled:
    """A compiled function that several threads may call; ``fast`` takes seconds to compile and saves milliseconds."""

    def __init__(self, inputs: list[Any], outputs: Any, fast: bool = False):
        self._lock = threading.Lock()
        mode = "NUMBA" if fast else QUICK
        self._function = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")

    def __call__(self, *values: Any) -> Any:
        """Its outputs at these values, as arrays."""
        with self._lock:
            found = self._function(*values)
        many = isinstance(found, list)
        return [np.array(v) for v in found] if many else np.array(found)


class Space(RowFunctions):
    """What the three forms share.

    Parameters
    ----------
    factory : MultiTaskKernelMachine
    data : KernelRows
        Rows as the factory's ``design`` makes them.
    y : (N,) array
        Coded responses.
    fast : bool
        Compile for thousands of evaluations.
    """

    of_response = ("unit_sums", "Y")

    def __init__(
        self, factory: KernelMachineDescription, data: KernelRows, y: np.ndarray, fast: bool = False
    ):
        self.factory, self.data, self.fast = factory, data, fast
        self.y = y - factory.level(data)
        self.coordinates = Coordinates(factory.hyperparameters(data))

    def __reduce__(self) -> Any:  # compiled functions stay behind: another process makes its own
        return type(self), (self.factory, self.data, self.y + self.factory.level(self.data), self.fast)

    def adopt(self, old: Space) -> None:
        """Take over the compiled functions of a space of the same kernel, where they do not depend on the rows."""
        for name in ("_symbolic", "_task_matrix"):
            if name in vars(old):
                vars(self)[name] = vars(old)[name]

    @property
    def seen_rows(self) -> KernelRows:
        """The rows, as the model sees them."""
        return self.data

    def threads(self) -> Any:
        """A context in which linear algebra of this size is fastest."""
        return nullcontext()

    def variances(self, z: np.ndarray, conditional: Any) -> np.ndarray:
        """Variances (N,) of f at the rows, given z."""
        found: np.ndarray = self.predict(z, conditional, self.data)[1]
        return found

    def predict(self, z: np.ndarray, conditional: Any, rows: KernelRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at rows of known tasks."""
        raise NotImplementedError

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

    @cached_property
    def _symbolic(self) -> tuple[Any, Any, Any]:
        """The vector z, the amplitude and the kernel at z."""
        z = pt.vector("z", dtype="float64", shape=(self.coordinates.size,))
        values = {**self.factory.fixed_parameters(), **self.coordinates.symbolic(z)}
        return z, values["amplitude"], self.factory.covariance_function(values, self.data)

    @cached_property
    def _task_matrix(self) -> Compiled | None:
        """The covariance of tasks at z, or None where it is not reported."""
        z, amplitude, kernel = self._symbolic
        matrix = self.factory.reported_task_matrix(kernel, self.data)
        return None if matrix is None else Compiled([z], amplitude**2 * matrix, self.fast)

    def located(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The vector z and the functions of recorded variables: the inverse of :meth:`record`."""
        names = self.coordinates.hypers
        z = self.coordinates.pack({name: values[_REPORTED.get(name, name)] for name in names})
        return z, self.moved(np.array(values[self.values_name], dtype=np.float64), -1.0)

    def recorded(self, draw: Any) -> np.ndarray:
        """The vector z of one draw of the posterior, a Dataset: what :meth:`parameters` reported."""
        names = self.coordinates.hypers
        return self.coordinates.pack({name: draw[_REPORTED.get(name, name)].to_numpy() for name in names})

    def record(self, z: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior variables by name."""
        return {self.values_name: self.moved(values), **self.parameters(z)}

    def moved(self, values: np.ndarray, sign: float = 1.0) -> np.ndarray:
        """Functions (feature or point, ...) with the level that they have beside the kernel, or without it."""
        return values if self.y_level == 0.0 else values + sign * self.y_level

    @property
    def y_level(self) -> float:
        """What functions are where the kernel's are 0."""
        return float(self.factory.level(self.data))

    def with_response(self, y: np.ndarray) -> Any:
        """The prior of the same rows with other coded responses."""
        return super().with_response(y - self.y_level)

    def parameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Those that do not depend on the rows: learned hyper-parameters and the covariance of tasks."""
        result = {_REPORTED.get(name, name): value for name, value in self.coordinates.unpack(z).items()}
        if self._task_matrix is not None:
            result["task_cov"] = self._task_matrix(z)
        return result

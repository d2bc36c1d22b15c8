r"""The base of covariance functions on (x, task), evgeniou2005 section 3: a matrix of the tasks times a kernel of x.

.. math:: K((x, \ell), (t, q)) = B_{\ell q}\, k(x, t)

The inputs hold the features, and the number of the task, 0 .. T - 1, in the last column. Sums, products and slices are
PyMC's own.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pymc.gp import cov
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import psd_matrix, tensor
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.regulariser import Regulariser
from zoo.kernels.task_column import features_and_task
from zoo.support.checks import names, whole_number
from zoo.support.words import counted

__all__ = ["TaskKernel", "known_kernel", "named_task_matrix"]

# Tasks from which entries are made of loadings: of fewer their matrix is faster.
_MANY = 2_000
_KNOWN: dict[str, type[TaskKernel]] = {}


class TaskKernel(cov.Covariance):
    """A kernel ``B_lq k(x, t)``. A subclass says B: override :meth:`task_matrix`, or :meth:`loadings`, or both.

    A subclass that names its parameters in ``parameters``, keeps each under its name and takes it by that name has a
    description (``zoo.kernels.describe``), and its parameters can be learned.

    Parameters
    ----------
    input_dim : int, optional
        Number of columns of the inputs, the task's included. Inputs of ``input_dim`` features and the task are taken
        too: the task is always the last column. Left out: that of ``base`` or ``Q``, or else any number; sums and
        products with other covariances need it.
    n_tasks : int
        T.
    base : pm.gp.cov.Covariance, optional
        k, a covariance of the features. Left out: the linear kernel ``x'Qt``.
    Q : (D, D) array or tensor, optional
        Metric of the linear kernel, eq (25): symmetric, positive semi-definite. Left out: the identity.
    task_names : sequence of str, optional
        Left out: "task 0", "task 1", ...
    active_dims : sequence of int, optional
        Columns in use, the task's last.
    """

    parameters: ClassVar[dict[str, str]] = {}
    """Kind of each parameter, "unit" (in (0, 1)), "positive", "nonnegative", "real", or "fixed" (never learned).

    A number 0 that is also the default switches its part of the kernel off, and is left out of the description.
    """
    covariances: ClassVar[tuple[str, ...]] = ("base",)
    """Arguments that are covariances themselves."""

    def __init_subclass__(cls, **arguments: Any):
        super().__init_subclass__(**arguments)
        known = _KNOWN.get(cls.__name__)
        # The names of this package stay its own.
        if known is None or not known.__module__.startswith("zoo."):
            _KNOWN[cls.__name__] = cls
        if "loadings" in vars(cls) and "task_matrix" not in vars(cls):
            _let_loadings_say_the_matrix(cls)

    def __init__(
        self,
        input_dim: int | None,
        n_tasks: int,
        *,
        base: Any = None,
        Q: Any = None,
        task_names: Any = None,
        active_dims: Any = None,
    ):
        given = _n_features(base, Q) if input_dim is None else whole_number(input_dim, "input_dim") - 1
        self.any_width = given is None
        super().__init__(2 if given is None else given + 1, active_dims)
        self.n_tasks = whole_number(n_tasks, "n_tasks")
        self.task_names = _task_names(task_names, self.n_tasks)
        self.base = base
        if base is not None and not isinstance(base, cov.BaseCovariance):
            raise TypeError(f"base is a {type(base).__name__}. Give a covariance of pm.gp.cov.")
        if base is not None and Q is not None:
            raise ValueError("Q is of the linear kernel, and base takes its place. Give one of the two.")
        self.Q = None if Q is None else psd_matrix(Q, "Q")
        if base is not None:
            self._require_features(getattr(base, "input_dim", None), "base")
        elif self.Q is not None:
            self._require_features(self.Q.type.shape[0] if isinstance(self.Q, Variable) else len(self.Q), "Q")
        else:
            self._require_features(None, "")

    # ---------------------------------------------------------------- hooks

    def task_matrix(self) -> Any:
        """B, a (T, T) tensor."""
        loadings = self.loadings()
        if loadings is None:
            raise NotImplementedError(f"{type(self).__name__} has no task matrix. Override task_matrix.")
        d, W = loadings
        return pt.diag(d) + W @ W.T

    def loadings(self) -> tuple[Any, Any] | None:
        """Tensors d (T,) and W (T, r) with ``B = diag(d) + W W'``, or None where B has no such cheap form."""
        return None

    def matching_loadings(self) -> tuple[Any, Any] | None:
        """:meth:`loadings`, or None where a subclass overrides :meth:`task_matrix` alone: they are of another B."""
        said = next(cls for cls in type(self).__mro__ if {"loadings", "task_matrix"} & set(vars(cls)))
        return self.loadings() if "loadings" in vars(said) else None

    def entries(self, task: Any, other: Any) -> Any:
        """Entries of B between tasks (n,) and others (m,), (n, m); ``other`` None: (n,), of each with itself.

        A class whose B follows a simple rule says them without the (T, T) tensor, and so do loadings of many tasks.
        """
        found = self.matching_loadings() if self.n_tasks > _MANY else None
        if found is not None:
            d, W = (pt.as_tensor_variable(part) for part in found)
            if other is None:
                return d[task] + pt.sum(W[task] ** 2, axis=1)
            return d[task][:, None] * pt.eq(task[:, None], other[None]) + W[task] @ W[other].T
        B = self.task_matrix()
        return pt.diagonal(B)[task] if other is None else B[task][:, other]

    def _matching_entries(self) -> Any:
        """:meth:`entries`, or those of the matrix where a subclass overrides :meth:`task_matrix` alone."""
        said = next(cls for cls in type(self).__mro__ if {"entries", "task_matrix"} & set(vars(cls)))
        return self.entries if "entries" in vars(said) else partial(TaskKernel.entries, self)

    # ---------------------------------------------------------------- PyMC

    def full(self, X: Any, Xs: Any = None) -> Any:
        """Covariance of the rows of ``X`` (and ``Xs``) as a PyTensor variable, (n, m)."""
        x, task = self.split(X)
        t, other = (None, task) if Xs is None else self.split(Xs)
        return self._matching_entries()(task, other) * self._between(x, t)

    def diag(self, X: Any) -> Any:
        """Variance of the rows of ``X`` as a PyTensor variable, (n,)."""
        x, task = self.split(X)
        if self.base is not None:
            variance = self.base(x, diag=True)
        else:
            variance = pt.sum((x if self.Q is None else x @ tensor(self.Q)) * x, axis=1)
        return self._matching_entries()(task, None) * variance

    def _between(self, x: Any, t: Any) -> Any:
        if self.base is not None:
            return self.base(x, t)
        return (x if self.Q is None else x @ tensor(self.Q)) @ (x if t is None else t).T

    def split(self, X: Any) -> tuple[Any, Any]:
        """Features (n, D) and tasks (n,) of the inputs, as tensors; wrong tasks raise."""
        columns = self.active_dims if self._selects else None
        return features_and_task(X, self._widths, columns, self.n_tasks, type(self).__name__)

    # ---------------------------------------------------------------- numbers

    def task_covariance(self) -> xr.DataArray:
        """B as numbers, with the tasks' names.

        Raises
        ------
        TypeError
            A parameter is random or symbolic.
        """
        return named_task_matrix(self.task_matrix(), self.task_names, type(self).__name__)

    def regulariser(self) -> Regulariser:
        """The penalty J(u) of coefficients that is equivalent to this kernel, proposition 1."""
        Q = None if self.Q is None else fixed_number(self.Q)
        if self.Q is not None and Q is None:
            raise TypeError("Q is random or symbolic, and so has no numbers. Give numbers.")
        return Regulariser(self.task_covariance(), Q, self.formula(), linear=self.base is None)

    def formula(self) -> str:
        """J in words."""
        return f"J(u) = sum_lq G_lq {self._product()}, G the inverse of the task matrix (eq 19)"

    def _product(self) -> str:
        if self.base is not None:
            return "<f_l, f_q>"
        return "u_l' u_q" if self.Q is None else "u_l' Q^+ u_q"

    def __repr__(self) -> str:
        shown = "".join(
            f", {name}={value:g}"
            for name in self.parameters
            if isinstance(value := getattr(self, name), float | int) and not isinstance(value, bool)
        )
        return f"{type(self).__name__}({counted(self.n_tasks, 'task')}{shown})"

    # ---------------------------------------------------------------- columns

    @property
    def is_product(self) -> bool:
        """Whether it is the task matrix times a kernel of all features, and no subclass says otherwise."""
        own, hooks = type(self), ("full", "diag", "split", "_between")
        return not self._selects and all(getattr(own, h) is getattr(TaskKernel, h) for h in hooks)

    @property
    def _selects(self) -> bool:
        """Whether only some columns are in use."""
        return not np.array_equal(self.active_dims, np.arange(self.input_dim))

    def _require_features(self, n_features: int | None, argument: str) -> None:
        """Set the widths of the inputs; raise where an argument is of another number of features."""
        self._widths: tuple[int, ...] | None = None
        if self.any_width and n_features is None:
            return
        widths: tuple[int, ...] = (self.input_dim, self.input_dim + 1)
        if self._selects:
            possible = [len(self.active_dims) - 1]
            widths = tuple(w for w in widths if w > self.active_dims.max())
        else:
            possible = [w - 1 for w in widths]
            widths = widths if n_features is None else (n_features + 1,)
        if n_features is not None and n_features not in possible:
            raise ValueError(
                f"{argument} is of {counted(n_features, 'feature')}, and the inputs have "
                f"{possible[0]} beside the task. "
                f"Give {argument} for {possible[0]}, or another input_dim."
            )
        self._widths = widths


def _let_loadings_say_the_matrix(cls: type[TaskKernel]) -> None:
    """Of a subclass that overrides the loadings alone: B is of these, not the one that a class above it says."""

    def task_matrix(self: TaskKernel) -> Any:
        loadings = self.loadings()
        if loadings is None:
            return super(cls, self).task_matrix()
        d, W = loadings
        return pt.diag(d) + W @ W.T

    task_matrix.__doc__ = "B of the loadings."
    cls.task_matrix = task_matrix  # type: ignore[method-assign]


def _n_features(base: Any, Q: Any) -> int | None:
    """The number of features that a base or a metric is for, where one says it."""
    if base is not None:
        return getattr(base, "input_dim", None)
    shape = Q.type.shape if isinstance(Q, Variable) else np.shape(Q)
    return int(shape[0]) if Q is not None and len(shape) == 2 and shape[0] is not None else None


def named_task_matrix(matrix: Any, task_names: tuple[str, ...], kernel: str) -> xr.DataArray:
    """A (T, T) tensor as numbers with names."""
    numbers = fixed_number(matrix)
    if numbers is None:
        raise TypeError(
            f"{kernel} has a parameter that is random or symbolic, so its task matrix has no numbers. Give "
            "numbers (zoo.kernels.with_parameters puts them in), or draw from `task_matrix()` with pm.draw."
        )
    coords = {"task": list(task_names), "task_bis": list(task_names)}
    return xr.DataArray(numbers, dims=("task", "task_bis"), coords=coords, name="task_covariance")


def known_kernel(name: str) -> type[TaskKernel] | None:
    """The class of task kernels that a description means by this name: zoo's own, or the last that was defined."""
    return _KNOWN.get(name)


def _task_names(values: Any, n_tasks: int) -> tuple[str, ...]:
    if values is None:
        return names(None, "task_names", n_tasks, "task ")
    if len(values) != n_tasks:
        raise ValueError(
            f"task_names has {counted(len(values), 'name')} for {counted(n_tasks, 'task')}. Give one per task."
        )
    if type(values) is tuple and all(type(name) is str for name in values):
        return _checked_names(values)
    return names(values, "task_names")


@lru_cache(maxsize=4)
def _checked_names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names that are checked once: a fit makes its kernel many times, and may have very many tasks."""
    return names(values, "task_names")

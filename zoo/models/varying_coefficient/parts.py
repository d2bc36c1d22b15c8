r"""Components of a varying-coefficient model at given data: their covariance, and their fixed features.

A part has the covariance :math:`k(t, t')\, x' A x'` (theorem 3 of bussas2015, with the metric A of its features: a
multiple of the identity in the paper). In weights it is a sum over basis functions of t times features,

.. math:: f(x, t) = \sum_d x_d \sum_j \phi_j(t) w_{jd}, \quad w_{jd} \sim N(0, a_d^2 s_j)

where only the variances depend on hyper-parameters: s is the spectral density at the frequencies of sines for a
stationary covariance of t (an approximation); for a tree the squared steps of its nodes, whose functions say which
nodes are above a task (exact: definition 1 of the paper); for a covariance of tasks without parameters its own factor
(exact).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt

from zoo.kernels import TaskTree, kernel_parameters, with_parameters
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.tree import Tree
from zoo.latent.function_conditional import covariance_root
from zoo.latent.hilbert_basis import HilbertBasis
from zoo.models.varying_coefficient.component import VaryingComponent
from zoo.models.varying_coefficient.part_description import PartDescription
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.stationary import (
    _TINY,
    has_density,
    log_density,
    squared_distances,
    stationary,
)
from zoo.support.words import counted

__all__ = ["Part", "parts_of"]

# Basis functions per column, by the number of columns; for one feature, and for several.
_SIZES = {1: (60, 30), 2: (24, 12), 3: (10, 7)}


class Part(PartDescription):
    """A component at data.

    Parameters
    ----------
    component : VaryingComponent
    rows : VaryingRows
        Those of the fit.
    prefix : str
        Stands before the names of its hyper-parameters.
    amplitude : str or float
        The component's, or the factory's.
    """

    def lengthscale_numbers(self, values: dict[str, Any]) -> Any:
        """Lengthscales of a word, in standardized units: those learned, or the numbers given."""
        if self.component.lengthscale == "learned":
            return values[self.name("lengthscale")]
        scale = self.rows.scale
        assert scale is not None
        given = np.broadcast_to(np.asarray(self.component.lengthscale, dtype=np.float64), len(self.columns))
        return given / scale.t_scale[self.columns]

    def _lengthscale(self, values: dict[str, Any]) -> Any:
        return pt.as_tensor(self.lengthscale_numbers(values))

    def _kernel(self, values: dict[str, Any]) -> Any:
        component = self.component
        if component.is_tree:
            if component.lengthscale != "learned":
                return self.tree
            return self.tree_with(values[self.name("level_sigma")])
        learned = {
            name: values[self.name(name)]
            for name in kernel_parameters(component.kernel)
            if self.name(name) in values
        }
        kernel = with_parameters(component.kernel, learned)
        if component.on_tasks:
            self._require_tasks(kernel)
        return kernel

    def tree_with(self, level_sigma: Any) -> Tree:
        """The tree with these steps per level."""
        tree = self.tree
        return Tree(parent=tree.parent, level_sigma=level_sigma, tasks=tree.tasks, task_names=tree.task_names)

    def task_covariance(self, values: dict[str, Any], t: Any, s: Any = None, diag: bool = False) -> Any:
        """k(t, s) of standardized t (n, P), and of tasks in a last column more: (n, m), or (n,) with ``diag``."""
        component = self.component
        if component.is_word:
            if diag:
                return pt.ones_like(t[:, 0])
            square = squared_distances(t, t if s is None else s, self.columns, self._lengthscale(values))
            return stationary(component.kernel, square)
        kernel = self._kernel(values)
        if component.on_tasks:
            B = kernel.task_matrix()
            task = pt.cast(t[:, -1], "int64")
            if diag:
                return pt.diagonal(B)[task]
            return B[task][:, task if s is None else pt.cast(s[:, -1], "int64")]
        t = t[:, self.columns]
        if diag:
            return kernel(t, diag=True)
        return kernel(t, None if s is None else s[:, self.columns])

    def instance_covariance(self, values: dict[str, Any], x: Any, z: Any = None, diag: bool = False) -> Any:
        """The bilinear form x'Az of its features: (n, m), or (n,) with ``diag``."""
        x = x[:, self.features]
        z = x if z is None else z[:, self.features]
        square = pt.square(self.amplitudes(values))
        scaled, outside = (x * square, 1.0) if square.ndim else (x, square)
        if self.amplitude == "covariance":
            scaled = pt.dot(x, values[self.name("coefficient_cov")])
        return outside * (pt.sum(scaled * x, axis=1) if diag else pt.dot(scaled, z.T))

    def amplitudes(self, values: dict[str, Any]) -> Any:
        """Standard deviations of the coefficients, a scalar or one per feature."""
        if self._amplitude_is_in_the_kernel:
            return pt.constant(1.0)
        return pt.as_tensor(
            values[self.name("amplitude")] if isinstance(self.amplitude, str) else self.amplitude,
            dtype="float64",
        )

    # ---------------------------------------------------------------- weights

    @property
    def has_basis(self) -> bool:
        """Whether it has fixed features with independent weights, as stationary kernels and trees have."""
        if self.amplitude == "covariance":
            return False
        if not self.component.on_tasks:
            return self.component.is_word or has_density(self.component.restored())
        return self.component.is_tree or not self._kernel_hyperparameters

    @property
    def is_exact(self) -> bool:
        """Whether the features give its covariance exactly."""
        return self.component.on_tasks

    @cached_property
    def basis(self) -> Any:
        """Sines on the box of the data; for tasks a matrix (T, m) of functions."""
        if not self.component.on_tasks:
            t = self.rows.times[:, self.columns]
            return HilbertBasis.around(t, self._basis_size, self.component.boundary)
        if self.component.is_tree:
            return self.tree._ancestors[self.tree.tasks].astype(np.float64)
        return covariance_root(np.asarray(fixed_number(self._kernel({}).task_matrix())))

    @property
    def _basis_size(self) -> tuple[int, ...]:
        given, P = self.component.n_basis, len(self.columns)
        if given is None:
            if P not in _SIZES:
                raise ValueError(
                    f"task_kernel is over {P} columns of t at once, for which a basis of sines is too large. Use "
                    f"several components of fewer "
                    'columns each, or method "inducing".'
                )
            alone, several = _SIZES[P]
            given = alone if len(self.features) == 1 else several
        sizes = (given,) * P if isinstance(given, int) else given
        if len(sizes) != P:
            raise ValueError(
                f"n_basis has {counted(len(sizes), 'number')}, and the component {counted(P, 'column')}. Give one each."
            )
        return sizes

    @property
    def n_functions(self) -> int:
        """Number of basis functions of t or of the tasks."""
        return self.basis.shape[1] if self.component.on_tasks else self.basis.count

    def low_frequencies(self) -> np.ndarray:
        """Which of its functions have the lower half of the frequencies of every column, (m,) bool; of tasks all."""
        if self.component.on_tasks:
            return np.ones(self.n_functions, dtype=bool)
        grids = np.meshgrid(*(np.arange(m) < (m + 1) // 2 for m in self.basis.size), indexing="ij")
        return np.asarray(np.all([grid.ravel() for grid in grids], axis=0))

    def functions(self, times: np.ndarray, task: np.ndarray, task_names: tuple[str, ...]) -> np.ndarray:
        """The basis functions at standardized t (n, P) and tasks (n,) of these names: (n, m)."""
        if not self.component.on_tasks:
            return np.asarray(self.basis.features(times[:, self.columns]))
        if task_names == self.rows.task_names:
            return np.asarray(self.basis[task])
        return self._above(task_names)[task]

    # ---------------------------------------------------------------- beyond the data

    def beyond(self, times: np.ndarray) -> np.ndarray:
        """Which places (n, P) lie outside the range of the data, where sines lose the process: (n,) bool."""
        if self.component.on_tasks:
            return np.zeros(len(times), dtype=bool)
        known, new = self.rows.times[:, self.columns], times[:, self.columns]
        return np.any((new < known.min(axis=0)) | (new > known.max(axis=0)), axis=1)

    def lost_variance(self, values: dict[str, Any], rows: VaryingRows, at: np.ndarray) -> Any:
        """Prior variance of f that the sines leave out at some rows (n,): that of the process less theirs, a tensor."""
        functions = pt.constant(self.functions(rows.times[at], rows.task[at], rows.task_names) ** 2)
        own = self.task_covariance(values, pt.constant(rows.times[at]), diag=True)
        lost = pt.maximum(own - pt.dot(functions, pt.exp(self._log_spectrum(values))), 0.0)
        return lost * self.instance_covariance(values, pt.constant(rows.inputs[at]), diag=True)

    # ---------------------------------------------------------------- new leaves of a tree

    def _above(self, task_names: tuple[str, ...]) -> np.ndarray:
        """Which known nodes are above each of these tasks, as 0 and 1: (T, m)."""
        result = np.zeros((len(task_names), self.n_functions))
        for i, name in enumerate(task_names):
            result[i] = self.tree._ancestors[self._parent_of(name)]
        return result

    def _parent_of(self, name: str) -> int:
        """The node above a new leaf: the deepest known one of its path, "north / Leeds / new", or the root."""
        tree = self.component.restored()
        if isinstance(tree, TaskTree):
            steps = name.split(" / ")
            for length in range(len(steps) - 1, 0, -1):
                for above in (" / ".join(steps[:length]), steps[length - 1]):
                    if above in tree.names:
                        return tree.names.index(above)
        return int(np.flatnonzero(self.tree.depth == 0)[0])

    def new_variance(self, values: dict[str, Any], task_names: tuple[str, ...]) -> Any:
        """Variance of the steps below known nodes that new leaves take, in units of the amplitude: a tensor (T,).

        A level's step is the mean of the squares of its nodes'.
        """
        kernel, depth = self._kernel(values), self.tree.depth
        squares = pt.square(kernel.steps())
        levels = [pt.mean(squares[np.flatnonzero(depth == level)]) for level in range(int(depth.max()) + 1)]
        parents = [int(depth[self._parent_of(name)]) for name in task_names]
        return pt.stack([sum(levels[parent + 1 :], pt.constant(0.0)) for parent in parents])

    # ---------------------------------------------------------------- their variances

    def log_variances(self, values: dict[str, Any]) -> Any:
        """Logarithms of the prior variances of its weights, features first: a tensor (F m,)."""
        spectrum = self._log_spectrum(values)
        scale = 2.0 * pt.log(self.amplitudes(values)) + pt.zeros(len(self.features))
        return (scale[:, None] + spectrum[None, :]).ravel()

    def _log_spectrum(self, values: dict[str, Any]) -> Any:
        component = self.component
        if component.on_tasks:
            if not self.component.is_tree:
                return pt.zeros(self.n_functions)
            kernel = self._kernel(values)
            return 2.0 * pt.log(pt.maximum(kernel.steps(), 1e-150))
        omega = pt.constant(self.basis.frequencies)
        if component.is_word:
            return log_density(component.kernel, omega, self._lengthscale(values), len(self.columns))
        return pt.log(pt.maximum(self._kernel(values).power_spectral_density(omega), _TINY))


def parts_of(
    components: tuple[VaryingComponent, ...], rows: VaryingRows, amplitude: str | float
) -> list[Part]:
    """The components at data; several are told apart by their names, which are numbered where they repeat."""
    names = [c.name or ("task" if c.on_tasks else "_".join(c.columns or ("t",))) for c in components]
    unique = [n if names.count(n) == 1 else f"{n}_{names[: i + 1].count(n)}" for i, n in enumerate(names)]
    return [
        Part(
            component,
            rows,
            prefix=f"{name}_" if len(components) > 1 or component.name else "",
            amplitude=amplitude if component.amplitude is None else component.amplitude,
        )
        for component, name in zip(components, unique, strict=True)
    ]

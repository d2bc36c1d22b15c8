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
import pymc as pm
import pytensor.tensor as pt

from zoo.inference.function_conditional import covariance_root
from zoo.inference.hilbert_basis import HilbertBasis
from zoo.inference.weighted_moments import weighted_sd
from zoo.kernels import TaskTree, kernel_parameters, with_parameters
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.tree import Tree
from zoo.models.kernel_hyper import Hyper
from zoo.models.varying_component import VaryingComponent
from zoo.models.varying_rows import VaryingRows, constant_name

__all__ = ["Part", "parts_of", "stationary"]

_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
# Basis functions a column, by the number of columns; for one feature, and for several.
_SIZES = {1: (60, 30), 2: (24, 12), 3: (10, 7)}
_TINY = 1e-280
# Lengthscale, in standard deviations of t, that is its prior median.
_START_OF_LENGTHSCALE = 0.7
# Added to squared distances in lengthscales, so that their root has a derivative.
_NEAR = 1e-24


def stationary(word: str, square: Any) -> Any:
    """The covariance that a word names, of squared distances in lengthscales.

    Written out, and not PyMC's: near places have exact distances, and there is a derivative at distance 0.
    """
    if word == "squared_exponential":
        return pt.exp(-0.5 * square)
    r = float(np.sqrt(2.0 * _SMOOTHNESS[word])) * pt.sqrt(square + _NEAR)
    if word == "matern12":
        return pt.exp(-r)
    return (1.0 + r) * pt.exp(-r) if word == "matern32" else (1.0 + r + pt.square(r) / 3.0) * pt.exp(-r)


def _squared_distances(t: Any, s: Any, columns: list[int], lengthscale: Any) -> Any:
    """In lengthscales, (n, m), column by column: of few columns one pass over the matrix, once compiled."""
    terms = [
        pt.square((t[:, column][:, None] - s[:, column][None, :]) / lengthscale[i])
        for i, column in enumerate(columns)
    ]
    return sum(terms[1:], terms[0])


class Part:
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

    def __init__(self, component: VaryingComponent, rows: VaryingRows, prefix: str, amplitude: str | float):
        self.component, self.prefix, self.amplitude = component, prefix, amplitude
        self.rows = rows
        self.columns = self._columns(rows)
        self.features = self._features(rows)

    # ---------------------------------------------------------------- what it is over

    def _columns(self, rows: VaryingRows) -> list[int]:
        component = self.component
        if component.on_tasks:
            return []
        if rows.t is None or rows.t_names is None:
            raise ValueError(
                "t is missing: coefficients that vary over place or time need it. Make the data with t=[...], or give "
                "a kernel of tasks "
                "(zoo.kernels.Tree, zoo.kernels.TaskTree) as task_kernel."
            )
        if component.columns is None:
            return list(range(rows.t.shape[1]))
        for name in component.columns:
            if name not in rows.t_names:
                raise ValueError(
                    f"columns holds {name!r}, which is no column of t. Choose from {', '.join(rows.t_names)}."
                )
        return [rows.t_names.index(name) for name in component.columns]

    def _features(self, rows: VaryingRows) -> list[int]:
        wanted, names = self.component.features, rows.feature_names
        if wanted == "all":
            return list(range(len(names)))
        wanted = (constant_name(names),) if wanted == "intercept" else wanted
        for name in wanted:
            if name not in names:
                raise ValueError(
                    f"features holds {name!r}, which the data do not have. Choose from {', '.join(names)}."
                )
        return [names.index(name) for name in wanted]

    @property
    def column_names(self) -> list[str]:
        """Names of its columns of t."""
        return [(self.rows.t_names or ())[i] for i in self.columns]

    def check(self) -> None:
        """Raise where the kernel is for other tasks, or has another number of lengthscales."""
        component = self.component
        if component.is_tree:
            _ = self.tree
        elif component.on_tasks:
            self._require_tasks(component.restored())
        elif not component.is_word:
            given = getattr(component.restored(), "input_dim", None)
            if given not in (None, len(self.columns)):
                raise ValueError(
                    f"task_kernel has input_dim={given}, and varies over {len(self.columns)} columns of t. "
                    "Make it for as many, or name its columns in zoo.VaryingComponent(columns=...)."
                )
        elif isinstance(component.lengthscale, tuple) and len(component.lengthscale) != len(self.columns):
            raise ValueError(
                f"lengthscale has {len(component.lengthscale)} numbers, and the component {len(self.columns)} columns "
                f"of t. Give one each."
            )

    # ---------------------------------------------------------------- hyper-parameters

    def name(self, parameter: str) -> str:
        """The name of one of its hyper-parameters in the model."""
        return f"{self.prefix}{parameter}"

    def hyperparameters(self) -> dict[str, Hyper]:
        """What is learned of it, by full name."""
        scale = self.rows.scale
        assert scale is not None
        result = {}
        if not self._amplitude_is_in_the_kernel:
            start = 0.3 * scale.y_scale
            if self.amplitude == "per_feature":
                result[self.name("amplitude")] = Hyper(
                    np.full(len(self.features), start), dims=(self.feature_dim,)
                )
            elif isinstance(self.amplitude, str):
                result[self.name("amplitude")] = Hyper(start)
            if self.amplitude == "covariance":
                result[self.name("coefficient_cov")] = Hyper(
                    np.eye(len(self.features)),
                    "covariance",
                    dims=(self.feature_dim, f"{self.feature_dim}_bis"),
                )
        return {**result, **self._kernel_hyperparameters}

    @property
    def feature_dim(self) -> str:
        """Dim of what it has one of for each of its features."""
        return "feature" if len(self.features) == self.rows.n_features else f"{self.prefix}varying_feature"

    @property
    def column_dim(self) -> str:
        """Dim of what it has one of for each of its columns of t."""
        whole = self.rows.t is not None and len(self.columns) == self.rows.t.shape[1]
        return "t_column" if whole else f"{self.prefix}column"

    def coords(self) -> dict[str, list[str]]:
        """Names along its own dims."""
        features = [self.rows.feature_names[i] for i in self.features]
        result = {self.feature_dim: features, f"{self.feature_dim}_bis": features}
        if self.columns:
            result[self.column_dim] = self.column_names
        if self.component.is_tree:
            result[self.name("level")] = list(self._tree_levels)
        return result

    @cached_property
    def _kernel_hyperparameters(self) -> dict[str, Hyper]:
        component = self.component
        if component.lengthscale != "learned":
            return {}
        if component.is_word:
            fitted = self.rows.fitted
            spread = weighted_sd(fitted.times[:, self.columns], fitted.weight)  # 1 where t is standardized
            start = np.where(spread > 0.0, _START_OF_LENGTHSCALE * spread, _START_OF_LENGTHSCALE)
            return {self.name("lengthscale"): Hyper(start, dims=(self.column_dim,))}
        if self.component.is_tree:
            scale = self.rows.scale
            assert scale is not None
            start = np.full(len(self._tree_levels), 0.3 * scale.y_scale)
            return {self.name("level_sigma"): Hyper(start, dims=(self.name("level"),))}
        kinds = {"nonnegative": "positive"}
        return {
            self.name(name): Hyper(p.value, kinds.get(p.kind, p.kind))
            for name, p in kernel_parameters(component.kernel).items()
        }

    @property
    def _amplitude_is_in_the_kernel(self) -> bool:
        """The steps of a tree have the scale of the coefficients, where they are learned."""
        return (
            self.component.is_tree and self.component.lengthscale == "learned" and self.amplitude == "shared"
        )

    @cached_property
    def tree(self) -> Tree:
        """The kernel of a tree, for the tasks of the fitted data."""
        kernel = self.component.restored()
        if isinstance(kernel, TaskTree):
            return kernel.kernel(tasks=self.rows.task_names)
        self._require_tasks(kernel)
        return kernel

    @property
    def _tree_levels(self) -> tuple[str, ...]:
        kernel = self.component.restored()
        if isinstance(kernel, TaskTree):
            return kernel.level_names
        return tuple(f"level {i}" for i in range(int(self.tree.depth.max()) + 1))

    def _require_tasks(self, kernel: Any) -> None:
        names = self.rows.task_names
        if kernel.n_tasks != len(names):
            raise ValueError(
                f"task_kernel is for {kernel.n_tasks} tasks, but the data have {len(names)}. Make it for the tasks of "
                f"data."
            )
        numbered = tuple(f"task {i}" for i in range(kernel.n_tasks))
        if kernel.task_names not in (numbered, names):
            wrong = next(i for i, name in enumerate(kernel.task_names) if name != names[i])
            raise ValueError(
                f"task {wrong} of task_kernel is {kernel.task_names[wrong]!r}, and of the data {names[wrong]!r}. Put "
                f"them into one order."
            )

    # ---------------------------------------------------------------- covariance

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
        """The tree with these steps a level."""
        tree = self.tree
        return Tree(parent=tree.parent, level_sigma=level_sigma, tasks=tree.tasks, task_names=tree.task_names)

    def task_covariance(self, values: dict[str, Any], t: Any, s: Any = None, diag: bool = False) -> Any:
        """k(t, s) of standardized t (n, P), and of tasks in a last column more: (n, m), or (n,) with ``diag``."""
        component = self.component
        if component.is_word:
            if diag:
                return pt.ones_like(t[:, 0])
            square = _squared_distances(t, t if s is None else s, self.columns, self._lengthscale(values))
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
        """Standard deviations of the coefficients, a scalar or one a feature."""
        if self._amplitude_is_in_the_kernel:
            return pt.constant(1.0)
        return pt.as_tensor(
            values[self.name("amplitude")] if isinstance(self.amplitude, str) else self.amplitude,
            dtype="float64",
        )

    # ---------------------------------------------------------------- weights

    @property
    def has_basis(self) -> bool:
        """Whether it has fixed features with independent weights: stationary, a tree, or a fixed matrix of tasks."""
        if self.amplitude == "covariance":
            return False
        if not self.component.on_tasks:
            return self.component.is_word or _has_density(self.component.restored())
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
                f"n_basis has {len(sizes)} numbers, and the component {P} columns. Give one each."
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
            return _log_density(component.kernel, omega, self._lengthscale(values), len(self.columns))
        return pt.log(pt.maximum(self._kernel(values).power_spectral_density(omega), _TINY))


def _has_density(kernel: Any) -> bool:
    """Whether PyMC's spectral density serves: of stationary covariances over all columns, multiples and sums."""
    cov = pm.gp.cov
    factors = getattr(kernel, "_factor_list", None)
    if factors is None:
        known = getattr(type(kernel), "power_spectral_density", cov.Stationary.power_spectral_density)
        own = known is not cov.Stationary.power_spectral_density
        return own and len(kernel.active_dims) == kernel.input_dim
    covariances = [factor for factor in factors if isinstance(factor, cov.BaseCovariance)]
    if isinstance(kernel, cov.Add):  # a number that is added would be a density of its own, that of noise
        right = len(covariances) == len(factors)
    else:
        right = isinstance(kernel, cov.Prod) and len(covariances) == 1
    return right and all(_has_density(factor) for factor in covariances)


def _log_density(word: str, omega: Any, lengthscale: Any, P: int) -> Any:
    """Logarithm of the spectral density of a unit covariance at frequencies (m, P)."""
    from scipy.special import gammaln

    square = pt.sum(pt.square(omega * lengthscale), axis=1)
    volume = pt.sum(pt.log(lengthscale))
    if word == "squared_exponential":
        return 0.5 * P * np.log(2.0 * np.pi) + volume - 0.5 * square
    nu = _SMOOTHNESS[word]
    constant = P * np.log(2.0) + 0.5 * P * np.log(np.pi) + gammaln(nu + 0.5 * P) - gammaln(nu)
    return float(constant + nu * np.log(2.0 * nu)) + volume - (nu + 0.5 * P) * pt.log(2.0 * nu + square)


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

"""How coefficients vary: over which variables, with which covariance, and which of them (bussas2015 eq 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from zoo.kernels import TaskTree, describe, restore
from zoo.kernels.arguments import unnamed
from zoo.kernels.task_kernel import TaskKernel
from zoo.kernels.tree import Tree
from zoo.support.checks import one_of, positive, whole_number
from zoo.support.frames import as_pandas, by_name

__all__ = ["AMPLITUDES", "KERNELS", "VaryingComponent", "as_component"]

KERNELS = ("matern12", "matern32", "matern52", "squared_exponential")
AMPLITUDES = ("shared", "per_feature", "covariance")


@dataclass(frozen=True, kw_only=True)
class VaryingComponent:
    """A part of the coefficients: ``w_d(t) ~ GP(0, a_d^2 k(t, t'))`` for some of the features.

    Parameters
    ----------
    kernel : str, pm.gp.cov.Covariance, zoo.kernels.TaskKernel or zoo.kernels.TaskTree
        Covariance k. A word ("matern12", "matern32", "matern52", "squared_exponential") or a covariance of PyMC: over
        columns of t. A kernel of tasks without a base (:class:`zoo.kernels.Tree`, ``GraphLaplacian``,
        ``MeanRegularised``...), or a tree of names: over the tasks.
    columns : sequence of str, optional
        Columns of t, by their names in ``data.t_names``. Left out: all.
    features : "all", "intercept" or sequence of str
        Features whose coefficients have this part; "intercept" is the constant one.
    amplitude : "shared", "per_feature" or float, optional
        ``a``: one for all features, one each, or a number. Left out: what the factory says.
    lengthscale : "learned", float, sequence of float, or dict of float
        Of a word: one learned for each column, or numbers in the units of t, by name where ``columns`` are given. Of a
        covariance of PyMC, or a kernel of tasks: "learned" learns every parameter that may be learned, starting from
        its own values (of a tree the steps of each level); "fixed" none.
    n_basis : int, sequence of int, or dict of int, optional
        Basis functions per column by method "hsgp". Left out: 30 for one column, 12 for each of two, 7 for each of
        three, and twice as many for the intercept alone.
    boundary : float
        Half width of the box of these functions, in those of the data; above 1.
    name : str, optional
        Stands before the names of its parameters where there are several components. Left out: its columns, or "task".
    """

    kernel: Any = "matern32"
    columns: tuple[str, ...] | None = None
    features: Any = "all"
    amplitude: str | float | None = None
    lengthscale: Any = "learned"
    n_basis: Any = None
    boundary: float = 1.5
    name: str | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "kernel", _kernel(self.kernel))
        if self.columns is not None:
            set_field(self, "columns", _names(self.columns, "columns"))
            if self.on_tasks:
                raise ValueError("columns is given, but the kernel is over tasks. Leave columns out.")
        if self.features not in ("all", "intercept"):
            set_field(self, "features", _names(self.features, "features"))
        if isinstance(self.amplitude, str):
            one_of(self.amplitude, AMPLITUDES, "amplitude")
        elif self.amplitude is not None:
            positive(self.amplitude, "amplitude")
            set_field(self, "amplitude", float(self.amplitude))
        self._freeze_lengthscale()
        self._freeze_basis()

    def _freeze_lengthscale(self) -> None:
        value = self.lengthscale
        if isinstance(value, str):
            one_of(value, ("learned",) if self.is_word else ("learned", "fixed"), "lengthscale")
            return
        if not self.is_word:
            raise ValueError(
                'lengthscale is a number, but the kernel has its own. Give "fixed" to keep them, or "learned".'
            )
        value = self._by_column("lengthscale")
        values = np.atleast_1d(np.asarray(value, dtype=np.float64))
        for one in values:
            positive(float(one), "lengthscale")
        object.__setattr__(
            self, "lengthscale", tuple(float(v) for v in values) if np.ndim(value) else float(values[0])
        )

    def _freeze_basis(self) -> None:
        if not self.boundary > 1.0:
            raise ValueError(
                f"boundary is {self.boundary!r}. Give a number above 1, for instance 1.5: the box must reach past the "
                f"data."
            )
        object.__setattr__(self, "boundary", float(self.boundary))
        if self.n_basis is None:
            return
        value = self._by_column("n_basis")
        sizes = np.atleast_1d(value).tolist()
        for size in sizes:
            whole_number(size, "n_basis", 1)
        object.__setattr__(self, "n_basis", tuple(int(s) for s in sizes) if np.ndim(value) else int(sizes[0]))

    def _by_column(self, field: str) -> Any:
        """The numbers of a field in the order of the columns, which those of a dict or a Series have by name."""
        value = as_pandas(getattr(self, field), field)
        if self.columns is not None:
            value = by_name(value, field, self.columns)
        elif isinstance(value, Mapping | pd.Series) and list(value.keys()) != list(range(len(value))):
            named = [str(name) for name in value.keys()]
            raise ValueError(
                f"{field} has the names {', '.join(named)}, and nothing says to which columns of t the component "
                f"belongs. Give columns={named} too, or a list in the order of the columns of t."
            )
        return unnamed(value, field, "the order of the columns")

    @property
    def is_word(self) -> bool:
        """Whether the covariance is named by a word."""
        return isinstance(self.kernel, str)

    @property
    def on_tasks(self) -> bool:
        """Whether it is a covariance of tasks, and not of t."""
        return not self.is_word and (
            isinstance(self.kernel, TaskTree) or isinstance(self.restored(), TaskKernel)
        )

    @property
    def is_tree(self) -> bool:
        """Whether tasks are nodes of a tree."""
        return self.on_tasks and (isinstance(self.kernel, TaskTree) or isinstance(self.restored(), Tree))

    def restored(self) -> Any:
        """The covariance object of a kernel that is not a word."""
        return self.kernel if isinstance(self.kernel, TaskTree) else restore(self.kernel)

    def to_spec(self) -> dict[str, Any]:
        """Its fields as JSON-ready data."""
        spec = {f.name: getattr(self, f.name) for f in fields(self)}
        if isinstance(self.kernel, TaskTree):
            spec["kernel"] = {"tree": {f.name: getattr(self.kernel, f.name) for f in fields(self.kernel)}}
        return spec


def as_component(value: Any) -> VaryingComponent:
    """A component from itself, its spec, or a kernel."""
    if isinstance(value, VaryingComponent):
        return value
    if isinstance(value, dict):
        unknown = set(value) - {f.name for f in fields(VaryingComponent)}
        if unknown:
            raise ValueError(
                f"task_kernel has the unknown entry {sorted(unknown)[0]!r}. Give a VaryingComponent."
            )
        return VaryingComponent(**value)
    return VaryingComponent(kernel=value)


def _kernel(value: Any) -> Any:
    if isinstance(value, str):
        one_of(value, KERNELS, "task_kernel")
        return value
    if isinstance(value, TaskTree):
        return value
    if isinstance(value, dict) and set(value) == {"tree"}:
        return TaskTree(**{name: tuple(part) for name, part in value["tree"].items()})
    if isinstance(value, tuple | list):
        value = restore(value)
    if isinstance(value, TaskKernel) and value.base is not None:
        raise ValueError(
            f"task_kernel is a {type(value).__name__} with a base. Leave base out: the kernel of the features is "
            f"instance_kernel."
        )
    if not isinstance(value, pm.gp.cov.BaseCovariance):
        raise TypeError(
            f"task_kernel is a {type(value).__name__}. Give one of {', '.join(KERNELS)}, a covariance of pm.gp.cov "
            f"over t, a kernel of "
            "tasks, or zoo.VaryingComponent."
        )
    return describe(value, "task_kernel")


def _names(value: Any, field: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(str(v) for v in value)
    if not names:
        raise ValueError(f"{field} is empty. Name at least one, or leave it out.")
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"{field} holds {twice!r} twice. Name each once.")
    return names

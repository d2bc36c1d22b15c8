"""What a component of varying coefficients is over, and its hyper-parameters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from zoo.inference.weighted_moments import weighted_sd
from zoo.kernels import TaskTree, kernel_parameters
from zoo.kernels.tree import Tree
from zoo.latent.coordinates import Hyper
from zoo.models.varying_coefficient.component import VaryingComponent
from zoo.models.varying_coefficient.rows import VaryingRows, constant_name
from zoo.support.words import counted

__all__ = ["PartDescription"]

# Lengthscale, in standard deviations of t, that is its prior median.
_START_OF_LENGTHSCALE = 0.7


class PartDescription:
    """Columns, features, names and hyper-parameters of a component."""

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
                f"lengthscale has {counted(len(component.lengthscale), 'number')}, and the component "
                f"{counted(len(self.columns), 'column')} "
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

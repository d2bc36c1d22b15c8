"""Rows of many tasks: what they hold, how they are seen, and whether models can reckon with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pandas as pd

from zoo.data.further_groups import changed_columns, dense_columns
from zoo.data.gaps import gaps_of
from zoo.support.checks import is_sparse, names
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from zoo.data.categories import CategoryDesign
    from zoo.data.formula import FormulaDesign
    from zoo.data.learned_mean import LearnedMean

__all__ = ["TaskRows", "Transform", "location_and_scale"]

Seen = TypeVar("Seen", bound="TaskRows")

# Of its mean: a standard deviation below it is rounding, of a constant column.
_ROUNDING = 1e-12
# Sizes that a model takes: engines form fourth powers of features, and squares of what is divided by.
_LARGEST, _SMALLEST = 1e20, 1e-100


@dataclass(frozen=True, eq=False)
class Transform:
    """Affine map from the user's scale to the standardised one, ``(value - mean) / scale``.

    Parameters
    ----------
    x_mean, x_scale : (D,) float64
        Location and scale of each feature; 0 and 1 where a feature was left alone.
    y_mean, y_scale : float
        Location and scale of the response; 0 and 1 for labels.
    """

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: float = 0.0
    y_scale: float = 1.0

    def of_features(self, positions: list[int]) -> Transform:
        """The map of these features alone, and of the response."""
        return replace(self, x_mean=self.x_mean[positions], x_scale=self.x_scale[positions])

    def apply_x(self, X: Any) -> Any:
        """Features on the user's scale to the model's; of a sparse matrix the columns that were moved."""
        if not is_sparse(X):
            return (X - self.x_mean) / self.x_scale
        at = self._moved
        return changed_columns(X, at, (dense_columns(X, at) - self.x_mean[at]) / self.x_scale[at])

    def restore_x(self, X: Any) -> Any:
        """Features on the model's scale to the user's."""
        if not is_sparse(X):
            return X * self.x_scale + self.x_mean
        at = self._moved
        return changed_columns(X, at, dense_columns(X, at) * self.x_scale[at] + self.x_mean[at])

    @property
    def _moved(self) -> np.ndarray:
        return np.flatnonzero((self.x_mean != 0.0) | (self.x_scale != 1.0))

    def apply_y(self, y: np.ndarray) -> np.ndarray:
        """Responses on the user's scale to the model's."""
        return (y - self.y_mean) / self.y_scale

    def restore_y(self, y: np.ndarray) -> np.ndarray:
        """Responses or predictions on the model's scale to the user's."""
        return y * self.y_scale + self.y_mean


@dataclass(frozen=True, eq=False)
class TaskRows:
    """The fields of :class:`zoo.MultiTaskData`, views of them, and checks."""

    inputs: np.ndarray | csr_matrix
    row: np.ndarray
    y: np.ndarray
    task: np.ndarray
    task_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    t: np.ndarray | None = None
    transform: Transform | None = None
    weight: np.ndarray | None = None
    t_names: tuple[str, ...] | None = None
    task_column: str | None = None
    intercept: str | None = None
    shared_names: tuple[str, ...] = ()
    shared: np.ndarray | csr_matrix | None = None
    design: FormulaDesign | CategoryDesign | None = None
    learned_mean: LearnedMean | None = None
    grades: tuple[str, ...] = ()
    incomplete: bool = False
    choice: np.ndarray | None = None
    choice_column: str | None = None
    stands_for: int = 0
    units: Any = None
    shared_units: Any = None
    task_left_out: bool = False

    def __post_init__(self) -> None:
        t_names = None if self.t is None else names(self.t_names, "t_names", self.t.shape[1], prefix="t")
        object.__setattr__(self, "t_names", t_names)

    def seen_as(self, cls: type[Seen], **changes: Any) -> Seen:
        """The rows as a class of a model's own, with all that they hold but the changes; ``changes`` has its fields."""
        held = {f.name: getattr(self, f.name) for f in fields(TaskRows)}
        return cls(**{**held, **changes})

    @property
    def X(self) -> np.ndarray | csr_matrix:
        """Features of each observation, (N, D); a csr_matrix where ``inputs`` is one."""
        if self.shares_inputs:
            return self.inputs[self.row]
        return self.inputs

    @property
    def shares_inputs(self) -> bool:
        """Whether several observations (of different tasks) point to one row of ``inputs``."""
        return self.n_inputs != len(self.row) or not np.array_equal(self.row, np.arange(len(self.row)))

    @property
    def is_sparse(self) -> bool:
        """Whether ``inputs`` is a scipy.sparse.csr_matrix."""
        return is_sparse(self.inputs)

    @property
    def gaps(self) -> np.ndarray | None:
        """Where ``inputs`` are missing, as a mask; None where they are complete."""
        return gaps_of(self.inputs) if self.incomplete else None

    @property
    def effects(self) -> dict[str, str]:
        """Shared features that are levels of a further group, each with its effect, ``1|clinic[a]`` to ``1|clinic``."""
        known = {} if self.design is None else self.design.effects
        return {name: known[name] for name in self.shared_names if name in known}

    @property
    def constant_features(self) -> np.ndarray:
        """Which features have one value in all rows, (D,)."""
        if self.is_sparse:
            X: Any = self.inputs
            high, low = (np.ravel(part.toarray()) for part in (X.max(axis=0), X.min(axis=0)))
            return np.asarray(high == low)
        return np.asarray(np.ptp(self.inputs, axis=0) == 0.0)

    def features_to_explain(self) -> list[str]:
        """All features but constants, which say nothing, and levels of further groups, which have their own prior."""
        left = {self.intercept, *self.effects}
        pairs = zip(self.feature_names, self.constant_features, strict=True)
        return [name for name, still in pairs if not still and name not in left]

    @property
    def n_inputs(self) -> int:
        """Number of rows of ``inputs``, ``n``."""
        return self.inputs.shape[0]

    @property
    def n_tasks(self) -> int:
        """Number of tasks, ``T``."""
        return len(self.task_names)

    @property
    def n_features(self) -> int:
        """Number of features, ``D``."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Number of observations, ``N``."""
        return len(self.y)

    @property
    def task_sizes(self) -> pd.Series:
        """Rows of each task, ``N_t``, by name."""
        return pd.Series(np.bincount(self.task, minlength=self.n_tasks), index=pd.Index(self.task_names))

    def __repr__(self) -> str:
        sizes = self.task_sizes
        low, high = sizes.min(), sizes.max()
        rows = f"{counted(low, 'row')} each" if low == high else f"{low}-{counted(high, 'row')} each"
        sparse = "sparse " if self.is_sparse else ""
        scaled = ", standardized" if self.transform is not None else ""
        columns = 0 if self.t is None else self.t.shape[1]
        effects = self.effects
        own = len(self.shared_names) - len(effects)
        sharing = f", of which all tasks share {own}" if own else ""
        sharing += (
            f" and {len(effects)} are levels of {', '.join(sorted(set(effects.values())))}" if effects else ""
        )
        gaps = self.gaps
        scaled += "" if self.choice is None else f", {counted(len(np.unique(self.choice)), 'choice')}"
        scaled += "" if gaps is None else f", {counted(int(gaps.sum()), 'value')} missing"
        place = f", t of {counted(columns, 'column')}" if columns else ""
        rows = f"{counted(self.n_rows, 'row', ',')} ({rows})"
        if self.stands_for:
            rows = (
                f"a summary of {counted(self.stands_for, 'row', ',')} by {counted(self.n_rows, 'row', ',')}"
            )
        return (
            f"MultiTaskData({counted(self.n_tasks, 'task')}, {rows}, "
            f"{counted(self.n_features, f'{sparse}feature')}{sharing}{place}{scaled})"
        )

    def to_frame(self) -> pd.DataFrame:
        """The data as a table, on the model's scale: features, ``t``, ``task``, ``y``; ``weight``, ``choice`` if there.

        ``MultiTaskData.from_frame(frame, y="y", task="task", t=data.t_names, weight="weight")`` reads it; without
        its arguments ``t``, ``weight`` and ``choice`` those columns would be features. Sparse features are refused.
        """
        self._refuse_sparse("a table of it")
        frame = pd.DataFrame(self.X, columns=list(self.feature_names))
        beside = {"weight": self.weight, "choice": self.choice}
        own = ("task", "y", *(name for name, values in beside.items() if values is not None))
        for argument, taken, what in (
            ("feature_names", self.feature_names, "feature"),
            ("t_names", self.t_names or (), "column of t"),
        ):
            for column in own if what == "feature" else (*own, *self.feature_names):
                if column in taken:
                    raise ValueError(
                        f"{argument} holds {column!r}, which to_frame needs for a column of its own. "
                        f"Rename the {what}."
                    )
        if self.t is not None:
            frame[list(self.t_names or ())] = self.t
        frame["task"] = pd.Categorical.from_codes(self.task, dtype=pd.CategoricalDtype(list(self.task_names)))
        frame["y"] = self.y
        for name, values in beside.items():
            if values is not None:
                frame[name] = values
        return frame

    def original_y(self) -> np.ndarray:
        """The response on the user's scale, (N,)."""
        return self.y if self.transform is None else self.transform.restore_y(self.y)

    def original_X(self) -> np.ndarray | csr_matrix:
        """The features on the user's scale, (N, D); a csr_matrix where ``inputs`` is one."""
        return self.X if self.transform is None else self.transform.restore_x(self.X)

    def _refuse_sparse(self, result: str, otherwise: str = "") -> None:
        if self.is_sparse:
            raise ValueError(
                f"X is sparse, and {result} would be dense. Make the data from X.toarray(), "
                f"if that fits into memory{otherwise}."
            )

    def first_tasks(self, n_tasks: int) -> Self:
        """The data of the first tasks, whose rows and inputs came first; inputs without rows stay."""
        old = self.task < n_tasks
        return replace(
            self,
            inputs=self.inputs[: self.inputs.shape[0] - int(np.sum(~old))],
            row=self.row[old],
            y=self.y[old],
            task=self.task[old],
            task_names=self.task_names[:n_tasks],
            t=None if self.t is None else self.t[old],
            weight=None if self.weight is None else self.weight[old],
            choice=None if self.choice is None else self.choice[old],
        )

    def rows_by_task(self) -> list[np.ndarray]:
        """Positions of each task's observations, in task order."""
        order = np.argsort(self.task, kind="stable")
        return np.split(order, np.cumsum(self.task_sizes.to_numpy())[:-1])

    def require_single_rows(self, what: str) -> None:
        """Raise where the rows are a summary: ``what``, the subject of a sentence, would take them for observations."""
        if self.stands_for:
            raise ValueError(
                f"{what} looks at single rows, and the data are a summary of {counted(self.stands_for, 'row', ',')}, "
                "whose rows are no observations. Use the rows themselves."
            )

    def require_rows_in_every_task(self, only_warn: bool = False) -> None:
        """Raise, or warn, where a task has no row: its coefficients could not be learned from it."""
        sizes = self.task_sizes
        if (sizes == 0).any():
            empty = sizes.index[int(np.flatnonzero(sizes.to_numpy() == 0)[0])]
            if only_warn:
                warn_user(f"task {empty!r} has no rows. It is predicted from the population of the others.")
                return
            raise ValueError(
                f"task {empty!r} has no rows. Leave it out with data.select_tasks(...), "
                "and predict it as a new task."
            )

    def column_sizes(self) -> np.ndarray:
        """Largest absolute value of each feature, (D,)."""
        return _sizes(self.inputs)

    def require_workable_scale(self, fitted: bool = True) -> None:
        """Raise where a column is so large, or so small, that powers of it leave float64 or lose all its digits.

        Parameters
        ----------
        fitted : bool
            Whether these are rows to fit. Of rows to predict only features and ``t`` count, and only large ones.
        """
        parts: list[tuple[str, Any, tuple[str, ...]]] = [("X", self.inputs, self.feature_names)]
        if self.t is not None:
            parts.append(("t", self.t, self.t_names or ()))
        if fitted:
            parts.append(("y", self.y[:, None], ("y",)))
            if self.weight is not None:  # each of them, where of other columns the largest counts
                extremes = np.array([[self.weight.min(), self.weight.max()]])
                parts.append(("weight", extremes, ("weight", "weight")))
            if self.transform is not None:
                self._require_workable_units(self.transform)
        for argument, values, labels in parts:
            sizes = _sizes(values)
            bad = np.flatnonzero((sizes > _LARGEST) | ((sizes > 0.0) & (sizes < _SMALLEST) & fitted))
            if len(bad):
                advice = (
                    "Use data.standardize(), or other units." if fitted else "Check the units of these rows."
                )
                raise ValueError(
                    f"{argument} column {labels[bad[0]]!r} has values of size {sizes[bad[0]]:.3g}, and models reckon "
                    f"with {_SMALLEST:g} to {_LARGEST:g}. {advice}"
                )

    def _require_workable_units(self, transform: Transform) -> None:
        scales = np.append(transform.x_scale, transform.y_scale)
        means = np.abs(np.append(transform.x_mean, transform.y_mean))
        bad = (scales < _SMALLEST) | (np.maximum(scales, means) > 1.0 / _SMALLEST)
        if bad.any():
            column = int(np.flatnonzero(bad)[0])
            name = (*self.feature_names, "y")[column]
            raise ValueError(
                f"column {name!r} had standard deviation {scales[column]:.3g} and mean {means[column]:.3g} before "
                "data.standardize(), beyond what results in its units can hold. Give it in other units."
            )

    def warn_about_single_class_tasks(self) -> None:
        """Warn of tasks whose labels are all equal; raise when that is so in every task."""
        low = np.full(self.n_tasks, np.inf)
        high = np.full(self.n_tasks, -np.inf)
        np.minimum.at(low, self.task, self.y)
        np.maximum.at(high, self.task, self.y)
        single = np.flatnonzero(low == high)
        if len(single) == self.n_tasks:
            raise ValueError("y has one class in every task. Check the label column.")
        if len(single):
            shown = ", ".join(repr(self.task_names[i]) for i in single[:5])
            warn_user(
                f"y has one class in {len(single)} of {counted(self.n_tasks, 'task')} ({shown}). "
                "They are fitted from the other tasks' information."
            )


def _sizes(values: np.ndarray | csr_matrix) -> np.ndarray:
    """Largest absolute value of each column."""
    if is_sparse(values):
        return np.ravel(abs(values).max(axis=0).toarray())
    # fmax leaves gaps aside; a column of nothing else has no size.
    return np.nan_to_num(np.fmax.reduce(np.abs(values), axis=0)) if len(values) else np.zeros(values.shape[1])


def location_and_scale(
    values: np.ndarray,
    column_names: Sequence[str],
    argument: str,
    gaps: bool = False,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of (N, m), in any units; the deviation is 0 of a constant column.

    Where there may be gaps, they are those of the other values. ``weight`` (N,) counts each row so many times.
    """
    lowest, highest = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)  # gaps aside
    average, spread = (np.nanmean, np.nanstd) if gaps else (np.mean, np.std)
    _, exponent = np.frexp(np.fmax(-lowest, highest))  # a power of two is exact, and squares do not overflow
    scaled = np.ldexp(values, -exponent)
    if weight is None:
        mean, scale = average(scaled, axis=0), spread(scaled, axis=0)
    else:  # around the first row, so that a constant column has its own value for a mean
        mean = scaled[0] + np.average(scaled - scaled[0], axis=0, weights=weight)
        scale = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weight))
    scale[scale <= _ROUNDING * np.abs(mean)] = 0.0
    reach = np.maximum(np.ldexp(highest, -exponent) - mean, mean - np.ldexp(lowest, -exponent))
    with np.errstate(over="ignore"):
        far = np.flatnonzero(np.isinf(np.ldexp(reach, exponent)))
    if len(far):
        raise ValueError(
            f"{argument} column {column_names[far[0]]!r} spans more than float64 holds. Divide it by a power of ten."
        )
    return np.ldexp(mean, exponent), np.ldexp(scale, exponent)

r"""Features whose coefficient all tasks share, beside those of which every task has its own.

.. math:: f_n = x_n' w_{t(n)} + s_n' \beta, \quad \beta_j \sim N(0, \tau^2)

A mixed model calls :math:`\beta` fixed effects, and what is varying about :math:`w_t` random ones. The feature
of a task that stands still within tasks (the age of a patient) needs such a coefficient: the rows of
one task do not tell what it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from zoo.core.context import Context
from zoo.core.factory import ModelFactory
from zoo.core.hooks import SHARED, ModelData
from zoo.core.separation import separated_levels
from zoo.data.further_groups import dense_columns
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.data.within_tasks import range_within_tasks
from zoo.inference.gibbs.shared_coefficients import SharedFeatures
from zoo.support.checks import is_sparse, one_of, positive
from zoo.support.memory import require_memory
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["SharedCoefficients"]

CONSTANT = "constant within tasks"
LEARNED = "learned"
# Scale of the half-normal prior of a learned scale.
_SPREAD = 2.5
# Of the standard deviation of a column over all rows, what is rounding within a task; and the square
# of a singular value, of columns of length 1, that is no more than rounding.
_ROUNDING, _DEPENDENT = 1e-9, 1e-10


@dataclass(frozen=True, kw_only=True)
class SharedCoefficients(ModelFactory):
    """The fields ``shared`` and ``shared_scale``, for models whose tasks have coefficients or functions of their own.

    Parameters
    ----------
    shared : sequence of str, "constant within tasks", or None
        Features whose coefficient is the same in all tasks: their names, or those that stand still within every
        task and differ between tasks. None: those that the data name (``data.shared_names``, as
        ``MultiTaskData.from_formula`` does), else none. They are ``shared_coefficients`` in the posterior (dim
        ``shared_feature``), and ``coefficients`` holds the other ones.
    shared_scale : float or "learned"
        Standard deviation of their normal prior, in units of y per unit of the feature: of the standard deviations of
        both, which are 1 of standardized data. "learned" gives it a half-normal prior of scale 2.5, and
        ``shared_scale`` in the posterior.

    Notes
    -----
    Levels of a further group, as ``(1 | clinic)`` of ``MultiTaskData.from_formula``, are shared features too. Each
    effect has a standard deviation of its own, ``effect_scale`` in the posterior (dim ``effect``), with a half-normal
    prior of scale 2.5 in units of y.
    """

    serves_shared: ClassVar[bool] = True
    # Whether the features that differ between tasks are looked at without levels of further groups; and whether these
    # may stay in a sparse matrix.
    leaves_out_levels: ClassVar[bool] = True
    sparse_levels: ClassVar[bool] = False

    shared: Any = None
    shared_scale: float | str = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.shared
        if isinstance(value, str):
            if value != CONSTANT:
                raise ValueError(f"shared is the string {value!r}. Give a list of features, or {CONSTANT!r}.")
        elif value is not None:
            listed = value.tolist() if isinstance(value, np.ndarray | pd.Index) else value
            if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
                raise TypeError(
                    f"shared is a {type(value).__name__}. Give names of features, {CONSTANT!r}, or None."
                )
            twice = [name for i, name in enumerate(listed) if name in listed[:i]]
            if twice:
                raise ValueError(f"shared names the feature {twice[0]!r} twice.")
            object.__setattr__(self, "shared", tuple(listed))
        if isinstance(self.shared_scale, str):
            if self.shared_scale != LEARNED:
                raise ValueError(
                    f"shared_scale is {self.shared_scale!r}. Give a number above 0, or {LEARNED!r}."
                )
        else:
            positive(self.shared_scale, "shared_scale")

    # ---------------------------------------------------------------- which features

    def shared_features(self, data: MultiTaskData) -> tuple[str, ...]:
        """Names of the features whose coefficient all tasks share, of data as users hand them in."""
        if self.shared is None:
            return data.shared_names
        if self.shared == CONSTANT:
            steady = _steady_within_tasks(data)
            return tuple(name for name, still in zip(data.feature_names, steady, strict=True) if still)
        for name in self.shared:
            one_of(name, data.feature_names, "shared")
        return tuple(self.shared)

    def set_apart(self, data: MultiTaskData, train: MultiTaskData | None = None) -> MultiTaskData:
        """The data with those features in ``shared`` instead of ``inputs``; as they are where that was done.

        ``train``: the data that were fitted, where ``data`` are rows to predict.
        """
        if data.shared is not None:
            return data
        fitted = data if train is None else train
        names, effects = self.shared_features(fitted), fitted.effects
        if not names:
            return replace(data, shared_names=()) if data.shared_names else data
        known, apart = {name: i for i, name in enumerate(data.feature_names)}, set(names)
        own = [i for i, name in enumerate(data.feature_names) if name not in apart]
        columns: Any = data.inputs[:, [known[name] for name in names]]
        inputs: Any = data.inputs[:, own]
        if is_sparse(columns) and not (self.sparse_levels and effects):
            columns = _dense(columns, "NIWLinear with its levels as shared features takes so many of them.")
        if is_sparse(inputs) and effects:
            inputs = _dense(inputs, "Leave levels of further groups among the shared features.")
        return replace(
            data,
            inputs=inputs,
            feature_names=tuple(data.feature_names[i] for i in own),
            transform=None if data.transform is None else data.transform.of_features(own),
            units=None if data.units is None else data.units.of_features(own),
            shared_units=None if data.units is None else data.units.of_features([known[n] for n in names]),
            shared_names=names,
            shared=columns[data.row] if is_sparse(columns) else np.ascontiguousarray(columns[data.row]),
        )

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises or warns where the data do not tell the shared coefficients."""
        y = super().validate(data)
        names = self.shared_features(data)
        if names:
            if len(names) == data.n_features:
                raise ValueError(
                    "all features are shared, so that nothing differs between tasks. Leave one of them out of shared, "
                    "or give each task a level of its own with data.add_intercept()."
                )
            self._look_at_columns(data, names)
            if self.likelihood.responses in ("labels", "grades"):
                _name_separated(data, names)
        return y

    def _look_at_columns(self, data: MultiTaskData, names: tuple[str, ...]) -> None:
        """Raise where a shared feature is no shared one; warn where the data do not tell it from others."""
        effects = data.effects
        names = tuple(name for name in names if name not in effects)
        X = dense_columns(data.X, [data.feature_names.index(name) for name in names])
        varies = range_within_tasks(X, data.task, data.n_tasks) > 0.0
        for name, column, in_tasks in zip(names, X.T, varies.T, strict=True):
            varying = np.flatnonzero(in_tasks)
            outside = column[data.task != varying[0]] if len(varying) == 1 and data.n_tasks > 2 else column
            if len(varying) == 1 and np.ptp(outside) == 0.0:
                raise ValueError(
                    f"the shared feature {name!r} varies in the task {data.task_names[varying[0]]!r} alone, so that "
                    "its coefficient is that task's. Leave it out of shared, or out of the data."
                )
        # The levels of a further group always add up to a column; their own prior tells them apart.
        fixed = [i for i, name in enumerate(data.feature_names) if name not in effects]
        dependent: list[str] = []
        if effects or not data.is_sparse:
            everything = dense_columns(data.X, fixed)
            if data.gaps is not None:
                everything = everything[~data.gaps.any(axis=1)]
            dependent = _dependent_columns(everything, [data.feature_names[i] for i in fixed], names)
        if dependent:
            warn_user(
                f"the columns {', '.join(map(repr, dependent))} are linearly dependent, so that the priors alone tell "
                "their mean coefficients apart. Drop one of them."
            )

    # ---------------------------------------------------------------- hooks

    def default_units(self, data: MultiTaskData) -> Units:
        """The units of default priors, with a level only where every task has a constant of its own."""
        return super().default_units(replace(data, shared_names=self.shared_features(data)))

    def design(self, data: MultiTaskData, context: Context | None = None) -> MultiTaskData:
        """The data with the shared features set apart."""
        train = None if context is None else context.train
        return self.set_apart(super().design(data, context), train)

    design.leaves_t = True  # type: ignore[attr-defined]

    def shared_part(self, data: ModelData) -> Any:
        """Shared features times their coefficients."""
        return None if data.shared is None else data.of_shared(self.shared_variable(data))

    shared_part.is_linear = True  # type: ignore[attr-defined]

    def shared_variable(self, data: ModelData) -> Any:
        """The coefficients (S,) that all tasks share, which are added to the model where it has them not yet."""
        model = pm.modelcontext(None)
        if SHARED in model.named_vars:
            return model[SHARED]
        scale: Any = self.shared_scale
        effects, index = _effects(data.source)
        unit = _units_of_shared(data.source)
        fixed = np.any(index == 0)
        if scale == LEARNED and fixed:
            scale = pm.HalfNormal("shared_scale", _SPREAD)
        if effects:
            of_level = unit[np.flatnonzero(index)[0]]
            of_effects = pm.HalfNormal("effect_scale", _SPREAD * of_level, dims="effect")
            of_fixed = pt.as_tensor(scale if fixed else 1.0, dtype="float64")
            scale = pt.concatenate([pt.atleast_1d(of_fixed), of_effects])[index]
            unit = np.where(index == 0, unit, 1.0)
        return pm.Normal(SHARED, 0.0, scale * unit, dims="shared_feature")

    def engine_shared(self, data: MultiTaskData) -> SharedFeatures | None:
        """The shared features of prepared data, as engines take them."""
        if data.shared is None:
            return None
        effects, index = _effects(data)
        learned = self.shared_scale == LEARNED and bool(np.any(index == 0))
        scale = _SPREAD if self.shared_scale == LEARNED else float(self.shared_scale)
        unit = _units_of_shared(data)
        if np.all(unit == 1.0):
            return SharedFeatures(data.shared, scale, learned, index, len(effects), _SPREAD)
        shared: Any = data.shared
        rows = shared.multiply(unit).tocsr() if is_sparse(shared) else shared * unit
        return SharedFeatures(rows, scale, learned, index, len(effects), _SPREAD, unit)

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims of the model."""
        effects, _ = _effects(data)
        return {**super().coords(data), **({"effect": effects} if effects else {})}


def _name_separated(data: MultiTaskData, names: tuple[str, ...]) -> None:
    """Warn of shared levels whose rows all have the lowest response, or all the highest one."""
    levels = separated_levels(data, names)
    if levels:
        named = ", ".join(
            f"{level.name!r} (all of its {counted(level.rows, 'row')} the {'highest' if level.highest else 'lowest'})"
            for level in levels[:3]
        )
        warn_user(
            f"{counted(len(levels), 'shared level')} lie at one end of y: {named}. The rows bound such a coefficient "
            "on one side alone, and the prior decides how far it goes to the other: read it as a direction. Join "
            "levels that mean the same, or give shared_scale a number that you believe in."
        )


def _units_of_shared(data: MultiTaskData) -> np.ndarray:
    """The unit (S,) of each shared coefficient of prepared data."""
    if data.shared_units is None:
        return np.ones(len(data.shared_names))
    return data.shared_units.y_scale / data.shared_units.x_scale


def _dense(columns: Any, advice: str) -> np.ndarray:
    """The columns of a sparse matrix, dense, where they fit into memory."""
    require_memory({"levels of further groups": columns.shape[0] * columns.shape[1]}, 2, "the data", advice)
    return np.asarray(columns.toarray())


def _effects(data: MultiTaskData) -> tuple[list[str], np.ndarray]:
    """Effects of further groups, and for every shared feature 0, or 1 and the position of its effect."""
    of = data.effects
    effects = list(dict.fromkeys(of.values()))
    return effects, np.array(
        [1 + effects.index(of[n]) if n in of else 0 for n in data.shared_names], dtype=int
    )


def _steady_within_tasks(data: MultiTaskData) -> np.ndarray:
    """Which features (D,) stand still within every task, up to rounding, and differ between tasks."""
    if data.is_sparse or data.gaps is not None:
        raise ValueError(
            f"X {'is sparse' if data.is_sparse else 'has gaps'}, and shared={CONSTANT!r} looks at its columns. Name "
            "the shared features."
        )
    X = np.asarray(data.X)
    spread = X.std(axis=0)
    within = range_within_tasks(X, data.task, data.n_tasks).max(axis=0)
    return (within <= _ROUNDING * spread) & (spread > _ROUNDING * np.abs(X).max(axis=0))


def _dependent_columns(X: np.ndarray, names: Sequence[str], shared: tuple[str, ...]) -> list[str]:
    """Columns of a linear dependence in which a shared one takes part; empty where there is none."""
    length = np.linalg.norm(X, axis=0)
    U = X / np.where(length > 0.0, length, 1.0)
    values, vectors = np.linalg.eigh(U.T @ U)
    for k in np.flatnonzero(values < _DEPENDENT):
        taking = [name for name, v in zip(names, vectors[:, k], strict=True) if abs(v) > 1e-3]
        if set(taking) & set(shared):
            return taking
    return []

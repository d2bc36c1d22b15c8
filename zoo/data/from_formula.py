"""Multi-task data by the formula of a mixed model, and of further tables that are read alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from zoo.data.columns import require_one_column, task_column
from zoo.data.formula import FormulaDesign
from zoo.data.formula_checks import (
    refuse_numbers_as_levels,
    refuse_offsets,
    refuse_response_beside,
    refuse_single_levels,
    warn_of_crossed,
    warn_of_means,
    warn_of_two_bars,
)
from zoo.data.formula_table import readable
from zoo.data.further_groups import beside_levels
from zoo.data.gaps import without_gaps
from zoo.support.checks import one_of
from zoo.support.frames import as_pandas

__all__ = ["data_from_formula", "data_of_design", "require_same_design"]


def _grouping(design: FormulaDesign) -> str:
    """The column behind the first bar; raises where what is behind a bar is no column."""
    if not design.groups:
        raise ValueError(
            f"formula {design.formula!r} has no group. Say what differs between which tasks, for instance "
            "'(1 + time | patient)'."
        )
    return design.groups[0]


def data_from_formula(
    cls: Any,
    formula: str,
    df: Any,
    t: str | Sequence[str] | None,
    weight: str | None,
    missing: str,
) -> tuple[Any, FormulaDesign]:
    """See :meth:`zoo.MultiTaskData.from_formula`; the data, and the design that they are to remember."""
    if not isinstance(formula, str):
        raise TypeError(f"formula is a {type(formula).__name__}. Give a string, 'y ~ age + (1 | patient)'.")
    if missing == "model":
        raise ValueError(
            "missing='model' is for the features of from_frame and from_arrays: a formula makes its columns of the "
            "values themselves. Fill the gaps in, or leave these rows out with missing='drop'."
        )
    one_of(missing, ("refuse", "drop"), "missing")
    df = as_pandas(df, "df")
    if not isinstance(df, pd.DataFrame):
        raise TypeError(f"df is a {type(df).__name__}. Give a DataFrame of pandas, polars or Arrow.")
    named = FormulaDesign(formula, df, "")
    if named.described.response is None:
        raise ValueError(f"formula {formula!r} has no response. Write it before '~'.")
    task = _grouping(named)
    of_response = named.response_columns
    beside = [*([] if weight is None else [weight]), *([t] if isinstance(t, str) else t or ())]
    used = list(dict.fromkeys([*of_response, *named.variables, task]))
    for column in [*used, *beside]:
        require_one_column(df, column)
    df = readable(without_gaps(df, [*used, *beside], missing), [*named.variables, *of_response], of_response)
    design = FormulaDesign(formula, df[used].reset_index(drop=True), task)
    refuse_response_beside(design, weight, t)
    refuse_offsets(design)
    refuse_numbers_as_levels(design)
    refuse_single_levels(design)
    warn_of_means(design)
    warn_of_crossed(design)
    warn_of_two_bars(design)
    return data_of_design(cls, design, df, t, weight), design


def data_of_design(cls: Any, design: Any, df: pd.DataFrame, t: Any, weight: str | None) -> Any:
    """Data from the rows of a table without gaps, coded by a design."""
    beside = [*([] if weight is None else [weight]), *([t] if isinstance(t, str) else t or ())]
    features = design.features(df)
    if design.many_levels:
        return _of_many_levels(cls, design, df, features, t, weight)
    y = "".join(map(str, features.columns)) + "y"  # a name that no feature has
    made = {y: design.response(df)} | (
        {} if design.task is None else {design.task: df[design.task].to_numpy()}
    )
    frame = features.assign(**made, **{column: df[column].to_numpy() for column in beside})
    return cls.from_frame(frame, y=y, task=design.task, features=list(features.columns), t=t, weight=weight)


def _of_many_levels(
    cls: Any, design: FormulaDesign, df: pd.DataFrame, features: pd.DataFrame, t: Any, weight: str | None
) -> Any:
    """Data whose features are one sparse matrix."""
    labels, task = task_column(df[design.task])
    columns = [*features.columns, *design.effects]
    data = cls.from_arrays(
        X=beside_levels(features, design.level_columns(df), list(design.effects), columns),
        y=pd.Series(design.response(df)),
        task=task,
        t=None if t is None else df[[t] if isinstance(t, str) else list(t)].reset_index(drop=True),
        task_names=labels,
        feature_names=columns,
        weight=None if weight is None else df[weight].reset_index(drop=True),
    )
    return replace(data, task_column=design.task)


def require_same_design(rows: Any, data: Any) -> None:
    """Raise where the features of rows were made of their table otherwise than those of ``data``.

    Categories and transformations such as ``scale`` depend on the table that they were made of.
    """
    own, known = rows.design, data.design
    if own is None or known is None or own is known:
        return
    if own.kind != known.kind:
        raise ValueError(
            "X and the fit were made otherwise, one by a formula. Make these rows with data.like(df)."
        )
    if own.many_levels and own.levels != known.levels:
        raise ValueError(
            "X has other levels of further groups than the data of the fit. Make these rows with data.like(df), where "
            "data are those of the fit, or pass the table."
        )
    first, second = own.features(own.table), known.features(own.table)
    for name in second.columns:
        if name not in first.columns or not np.allclose(first[name], second[name], rtol=1e-9, atol=0.0):
            raise ValueError(
                f"the feature {name!r} was made of another table than that of the fit, and means something else "
                "there. Make these rows with data.like(df), where data are those of the fit, or pass the table."
            )

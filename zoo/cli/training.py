"""The data that ``zoo fit`` reads from a CSV file, by columns or by a formula."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.tables import (
    NUMBER,
    TASK_ATTRIBUTE,
    TEXT_ATTRIBUTE,
    WEIGHT_ATTRIBUTE,
    Y_ATTRIBUTE,
    read_csv,
    require_columns,
)

if TYPE_CHECKING:
    import pandas as pd

    from zoo.data.multitask import MultiTaskData

__all__ = ["training_data"]


def training_data(
    path: Path,
    y: str | None,
    task: str | None,
    features: list[str] | None,
    t: Sequence[str],
    weight: str | None,
    formula: str | None,
    missing: str,
    choice: str | None = None,
) -> tuple[MultiTaskData, dict[str, Any]]:
    """The data of a CSV file by the options of ``zoo fit``, and what a file of the fit remembers of them."""
    if formula is not None:
        if choice is not None:
            raise ValueError(
                "--choice and --formula are given, and formulas know no choices. Give --y, --task and --features."
            )
        return _by_formula(
            path, formula, {"--y": y, "--task": task, "--features": features}, t, weight, missing
        )
    if y is None:
        raise ValueError("--y is missing. Name the column of the response, or give a formula by --formula.")
    from zoo.data.columns import LEFT_OUT
    from zoo.data.multitask import MultiTaskData

    left_out, task = task is None, task or None
    table = read_csv(path, [task], [*(features or ()), *t])
    columns = {"--y": [y], "--task": [task] if task else None, "--t": list(t)}
    columns |= {"--weight": [weight] if weight else None, "--choice": [choice] if choice else None}
    require_columns(table, path, {**columns, "--features": features})
    remembered = _told(y, task, weight, table)
    others = {y, task, weight, choice, *t}
    data = MultiTaskData.from_frame(
        _with_ordered_tasks(table, task),
        y=y,
        task=LEFT_OUT if left_out else task,
        # No features where other options have taken all columns: the model may have a constant of its own.
        features=[] if features is None and set(table.columns) <= others else features,
        t=list(t) or None,
        weight=weight,
        missing=missing,
        choice=choice,
    )
    return data, remembered


def _by_formula(
    path: Path, formula: str, others: dict[str, Any], t: Sequence[str], weight: str | None, missing: str
) -> tuple[MultiTaskData, dict[str, Any]]:
    import pandas as pd

    from zoo.data.formula import FormulaDesign
    from zoo.data.multitask import MultiTaskData

    for option, value in others.items():
        if value is not None:
            raise ValueError(
                f"{option} and --formula are given, and the formula says it all. Leave {option} out."
            )
    groups = FormulaDesign(formula, pd.DataFrame(), "").groups
    table = read_csv(path, groups, list(t))
    require_columns(
        table, path, {"--formula": groups, "--t": list(t), "--weight": [weight] if weight else None}
    )
    first = groups[0] if groups else None
    data = MultiTaskData.from_formula(
        formula, _with_ordered_tasks(table, first), t=list(t) or None, weight=weight, missing=missing
    )
    return data, _told(data.design.response_name if data.design else "", first, weight, table)


def _with_ordered_tasks(table: pd.DataFrame, task: str | None) -> pd.DataFrame:
    """The table with task names as categories in their order: numbers by their size, or else by the alphabet."""
    import pandas as pd

    if task is None or pd.api.types.is_numeric_dtype(table[task]):
        return table
    found = [str(name) for name in table[task].dropna().unique()]
    numbers = all(NUMBER.fullmatch(name) for name in found)
    ordered = sorted(found, key=(lambda name: (float(name), name)) if numbers else None)
    return table.assign(**{task: table[task].astype(pd.CategoricalDtype(ordered))})


def _told(y: str, task: str | None, weight: str | None, table: pd.DataFrame) -> dict[str, Any]:
    """What a file remembers: which columns, and that tasks were read as text."""
    import pandas as pd

    found = {Y_ATTRIBUTE: y, TASK_ATTRIBUTE: task, WEIGHT_ATTRIBUTE: weight}
    attributes: dict[str, Any] = {name: column for name, column in found.items() if column}
    if task and not pd.api.types.is_numeric_dtype(table[task]):
        attributes[TEXT_ATTRIBUTE] = 1
    return attributes

"""Tables of the commands: what a CSV file says to a fit, to predictions, and to a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.support.text_tables import read_text_table

if TYPE_CHECKING:
    import pandas as pd

    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData

__all__ = [
    "INTERCEPT",
    "NUMBER",
    "TASK_ATTRIBUTE",
    "TEXT_ATTRIBUTE",
    "WEIGHT_ATTRIBUTE",
    "Y_ATTRIBUTE",
    "predictions",
    "read_csv",
    "read_rows_of",
    "require_columns",
    "task_column",
    "test_data",
]

INTERCEPT = "intercept"
TASK_ATTRIBUTE = "zoo_task_column"
Y_ATTRIBUTE = "zoo_y_column"
WEIGHT_ATTRIBUTE = "zoo_weight_column"
# Set where tasks were read as text, so that their names are exactly what the file has.
TEXT_ATTRIBUTE = "zoo_task_is_text"
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def read_csv(
    path: Path,
    names: Sequence[str | None] = (),
    numbers: Sequence[str] = (),
    option: str = "--data",
) -> pd.DataFrame:
    """The table of a CSV file, with messages that name it.

    The columns ``names`` hold names, of tasks or grades, and stay the text that they are: "01" is not "1", and "NA" is
    a name. Only an empty cell is missing. A column that is one of ``numbers`` too, a feature, is read as numbers.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{option} {str(path)!r} is no file. Give a CSV file.")
    as_text = [name for name in names if name is not None and name not in numbers]
    try:
        table = kept = read_text_table(path)
        as_text = [name for name in as_text if name in table]
        if as_text:  # read once more, as pandas knows no "NA" for some columns alone
            how: Any = {"dtype": dict.fromkeys(as_text, str), "keep_default_na": False}
            kept = read_text_table(path, usecols=as_text, **how)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from error
    if table.empty:
        raise ValueError(f"{option} {str(path)!r} has no rows. Give at least one below the header.")
    return table.assign(**{name: _text_of(kept[name]) for name in as_text})


def _text_of(cells: pd.Series) -> pd.Series:
    """Cells as they stand; numbers without the blanks that align them, and empty ones missing."""
    values = cells.unique()
    bare = {cell: cell.strip() if NUMBER.fullmatch(cell.strip()) else cell for cell in values if cell}
    return cells.map(bare)


def read_rows_of(
    fitted: Fit, path: Path, column: str, names: Sequence[str] = (), option: str = "--data"
) -> pd.DataFrame:
    """Rows for a fit, with what it adds itself; the tasks of ``column`` are text, unless they are a feature too.

    Of a fit by formula so are all columns that held no numbers when it was made.
    """
    import pandas as pd

    data = fitted.data
    numbers = {*data.feature_names, *(data.t_names or ())}
    if data.design is not None:
        seen = data.design.table
        words = [name for name in seen.columns if not pd.api.types.is_numeric_dtype(seen[name])]
        names = [*names, *words]
        numbers |= {name for name in data.design.variables if name not in words}
    table = read_csv(path, [column, *names], sorted(numbers), option)
    return _with_intercept(_with_only_task(table, fitted, column), fitted)


def require_columns(table: pd.DataFrame, path: Path, wanted: dict[str, list[str] | None]) -> None:
    """Raise where an option names a column that the table has not."""
    for option, columns in wanted.items():
        for column in columns or []:
            if column not in table.columns:
                raise ValueError(
                    f"{option} names {column!r}, which is no column of {str(path)!r}. "
                    f"Its columns are {', '.join(map(str, table.columns))}."
                )


def _with_only_task(table: pd.DataFrame, fitted: Fit, column: str) -> pd.DataFrame:
    """The table with a column of the task, where the fit has one task only and the file does not name it."""
    if column in table.columns or fitted.data.n_tasks > 1:
        return table
    return table.assign(**{column: fitted.data.task_names[0]})


def task_column(fitted: Fit) -> str:
    """The column that holds the task of a row, as `zoo fit` was told."""
    return str(fitted.idata.attrs.get(TASK_ATTRIBUTE) or fitted.data.task_column or "task")


def test_data(fitted: Fit, path: Path, y: str | None) -> MultiTaskData:
    """Held-out rows of a CSV file, with the features, tasks, grades and weights of a fit."""
    from zoo.data.multitask import MultiTaskData

    column, data = task_column(fitted), fitted.data
    design = data.design
    left = None if design is None else design.response_name
    if design is not None and y not in (None, left):
        raise ValueError(
            f"--y is {y!r}, and the {design.kind} of the fit reads {left!r}. Leave --y out, and give the columns of "
            "the file the names that they had."
        )
    response = left or y or str(fitted.idata.attrs.get(Y_ATTRIBUTE, "y"))
    table = read_rows_of(fitted, path, column, [response] if data.grades else [], "--test")
    t, features = list(data.t_names or ()), list(data.feature_names)
    if design is None:
        choices = [] if data.choice_column is None else [data.choice_column]
        require_columns(table, path, {"--y": [response], "the fit": [column, *t, *features, *choices]})
    else:
        wanted = [*design.response_columns, *design.variables, column, *t]
        require_columns(table, path, {f"the {design.kind} of the fit": wanted})
    table = table.assign(**{column: _task_names(table, column, fitted)})
    if data.grades:
        table = table.assign(**{response: _as_grades(table[response], data.grades)})
    if design is not None:
        rows = data.like(table)
    else:
        rows = MultiTaskData.from_frame(
            table, y=response, task=column, features=features, t=t or None, choice=data.choice_column
        )
    return _weighted(rows, table, fitted)


def _as_grades(column: pd.Series, grades: tuple[str, ...]) -> pd.Series:
    """A column of the names of grades as ordered categories, which a CSV file cannot hold."""
    import pandas as pd

    unknown = ~column.isin(grades).to_numpy()
    if unknown.any():
        row = int(unknown.argmax())
        said = "is missing" if pd.isna(column.iloc[row]) else f"is {column.iloc[row]!r}"
        raise ValueError(
            f"column {column.name!r} {said} in row {row}, and the grades of the fit are {', '.join(grades)}. "
            "Correct it, or leave the row out."
        )
    return column.astype(pd.CategoricalDtype(list(grades), ordered=True))


def _weighted(rows: MultiTaskData, table: pd.DataFrame, fitted: Fit) -> MultiTaskData:
    """Test rows with the weights that the fit had; a warning where the file does not tell them."""
    from dataclasses import replace

    from zoo.data.columns import weights
    from zoo.support.warning_types import warn_user

    if fitted.data.weight is None:
        return rows
    name = fitted.idata.attrs.get(WEIGHT_ATTRIBUTE)
    if name in table:
        return replace(rows, weight=weights(table[name], len(table)))
    which = (
        "from a column that the file of the fit does not name" if name is None else f"from column {name!r}"
    )
    warn_user(
        f"the fit has weights of rows, {which}, and the test rows have none: they count alike. "
        + ("Use fit.report(test=...) for others." if name is None else "Add it to the file of --test.")
    )
    return rows


def _with_intercept(table: pd.DataFrame, fitted: Fit) -> pd.DataFrame:
    """The table with the column of ones that ``zoo fit`` added, whatever the file has of that name."""
    names = fitted.data.feature_names
    if INTERCEPT == fitted.data.intercept:
        return table.assign(**{INTERCEPT: 1.0})
    if INTERCEPT in table.columns or INTERCEPT not in names:
        return table
    from zoo.data.further_groups import dense_columns

    # A column of that name in the user's own training data may hold anything: only ones are filled in.
    ones = bool((dense_columns(fitted.data.inputs, [names.index(INTERCEPT)]) == 1.0).all())
    return table.assign(**{INTERCEPT: 1.0}) if ones else table


def predictions(
    fitted: Fit, table: pd.DataFrame, column: str, new_task: bool, ci_prob: float, seed: int | None
) -> pd.DataFrame:
    """Predictions by row of the file; with ``new_task``, known tasks are predicted as known ones."""
    import pandas as pd

    labels = _task_names(table, column, fitted)
    if column == fitted.data.task_column and column not in fitted.data.feature_names:
        # The names as the fit has them, which the file may write otherwise.
        table = table.assign(**{column: labels})
    known = labels.isin(fitted.data.task_names)
    groups = [(known, False), (~known, True)] if new_task else [(known | True, False)]
    parts = [
        fitted.predict(
            table[rows],
            task=labels[rows],
            new_task=unseen,
            ci_prob=ci_prob,
            random_seed=seed,
            output="pandas",
        )
        for rows, unseen in groups
        if rows.any()
    ]
    result = pd.concat(parts).sort_index().rename_axis("row")
    label = result.get("label")
    if label is not None and pd.api.types.is_numeric_dtype(label) and (label % 1 == 0).all():
        # Classes are 0 and 1 in the user's file, not 0.000 and 1.000.
        result["label"] = label.astype(int)
    return result


def _task_names(table: pd.DataFrame, column: str, fitted: Fit) -> pd.Series:
    """Name of the task of each row, as the fit has them.

    A fit that was not made of text by ``zoo fit`` may have the name "1" for what the file writes as "01": where the
    text is no name of a task, the number is looked for.
    """
    import pandas as pd

    from zoo.data.task_labels import column_labels

    labels = table[column]
    if labels.isna().any():
        row = int(labels.isna().to_numpy().argmax())
        raise ValueError(f"column {column!r} is missing in row {row}. Name the task of every row.")
    known = fitted.data.task_names
    if pd.api.types.is_numeric_dtype(labels):
        return pd.Series(column_labels(labels.to_numpy(), known), table.index, dtype=object)
    as_text = TEXT_ATTRIBUTE in fitted.idata.attrs
    names = {text: _known_name(str(text), known, as_text) for text in labels.unique()}
    return labels.map(names).astype(object)


def _known_name(text: str, known: tuple[str, ...], as_text: bool) -> str:
    """The name of a task that a text stands for; the text itself where it is none."""
    import numpy as np

    from zoo.data.task_labels import column_labels

    if text in known or not NUMBER.fullmatch(text):
        return text
    whole = text.removesuffix(".0")  # which pandas writes for whole numbers beside a gap
    if as_text:
        return whole if whole in known else text
    number = int(whole) if whole.lstrip("+-").isdigit() else float(text)
    (name,) = column_labels(np.array([number], dtype=object), known)
    return name if name in known else text

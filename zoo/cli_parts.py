"""Parts of the commands: factories from settings, data from files, messages."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from zoo.core.factory import ModelFactory
    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData

__all__ = [
    "TASK_ATTRIBUTE",
    "Y_ATTRIBUTE",
    "Interrupted",
    "check_data",
    "console_of",
    "experiments_of",
    "factory_of",
    "has_a_scale",
    "kept_jobs",
    "options_of",
    "plain_warnings",
    "predictions",
    "read_csv",
    "require_columns",
    "split_names",
    "task_column",
    "test_data",
    "training_data",
    "with_constant",
    "with_intercept",
    "with_only_task",
]

PAPERS = ("bussas2015", "evgeniou2005", "li2014", "srijith2014", "yu2005")

_INTERCEPT = "intercept"
TASK_ATTRIBUTE = "zoo_task_column"
Y_ATTRIBUTE = "zoo_y_column"


class Interrupted(Exception):
    """Ctrl-C in a command that keeps what is done; typer would turn KeyboardInterrupt into a bare exit code."""


def experiments_of(paper: str) -> Any:
    """The module of a paper's experiments: it has TABLES, FIGURES and ``reproduce``."""
    from importlib import import_module

    from zoo.support.checks import one_of

    one_of(paper, PAPERS, "paper")
    return import_module(f"zoo.experiments.{paper}")


def options_of(function: Any, paper: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; one that the function does not take is refused."""
    from inspect import signature

    taken = signature(function).parameters
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in taken:
            others = [f"--{known}" for known in given if known in taken]
            raise ValueError(
                f"--{name} says nothing about {paper}, which takes {' and '.join(others)}. Leave it out."
            )
    return options


def console_of() -> Console:
    """A console as wide as the terminal."""
    from rich.console import Console

    return Console(highlight=False)


def factory_of(model: str, settings: Sequence[str]) -> ModelFactory:
    """The model with the fields of ``--set``."""
    import json

    from zoo.core.fields import changed
    from zoo.registry import get_factory

    cls = get_factory(model)
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r} has no '='. Write --set field=value.")
        try:
            values[name] = json.loads(text)
        except json.JSONDecodeError:
            values[name] = text
    with _settings_of_the_right_kind(model):
        return changed(cls(), values)


@contextmanager
def _settings_of_the_right_kind(model: str) -> Iterator[None]:
    """A value of a kind that a field's check did not expect is bad input too."""
    try:
        yield
    except TypeError as error:
        raise ValueError(f"--set gives {model} a value it cannot use: {error}.") from error


def check_data(factory: ModelFactory, data: MultiTaskData) -> None:
    """Hold the fields against the data; what it warns of, the fit warns of again."""
    with _settings_of_the_right_kind(type(factory).__name__), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factory.validate(data)


def has_a_scale(factory: ModelFactory) -> bool:
    """Whether y may be scaled: it is no label, and its mean is f itself, not a function of it as that of counts."""
    from zoo.likelihoods.base import Likelihood

    return factory.likelihood.responses == "real" and type(factory.likelihood).mean is Likelihood.mean


def split_names(names: str | None) -> list[str] | None:
    """Names that commas separate."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def read_csv(path: Path) -> pd.DataFrame:
    """The table of a CSV file, with messages that name it."""
    import pandas as pd

    if not path.is_file():
        raise FileNotFoundError(f"--data {str(path)!r} is no file. Give a CSV file.")
    try:
        table = pd.read_csv(path)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"--data {str(path)!r} cannot be read as CSV ({error}).") from error
    if table.empty:
        raise ValueError(f"--data {str(path)!r} has no rows. Give at least one below the header.")
    return table


def require_columns(table: pd.DataFrame, path: Path, wanted: dict[str, list[str] | None]) -> None:
    """Raise where an option names a column that the table has not."""
    for option, columns in wanted.items():
        for column in columns or []:
            if column not in table.columns:
                raise ValueError(
                    f"{option} names {column!r}, which is no column of {str(path)!r}. "
                    f"Its columns are {', '.join(map(str, table.columns))}."
                )


def training_data(
    table: pd.DataFrame,
    y: str,
    task: str | None,
    features: list[str] | None,
    t: list[str] | None,
    weight: str | None,
) -> MultiTaskData:
    """The data of a table, by the options of ``zoo fit``."""
    from zoo.data.multitask import MultiTaskData

    return MultiTaskData.from_frame(
        table,
        y=y,
        task=task,
        features=_features_left(table, features, [y, task, weight, *(t or ())]),
        t=t,
        weight=weight,
    )


def _features_left(table: pd.DataFrame, features: list[str] | None, taken: list[Any]) -> list[str] | None:
    """No features where other options have taken all columns: the model may have a constant of its own."""
    return [] if features is None and set(table.columns) <= set(taken) else features


def with_constant(data: MultiTaskData, factory: ModelFactory) -> MultiTaskData:
    """The data with a feature that is 1 everywhere, unless the model has one, or a column has its name."""
    if getattr(factory, "intercept", False):
        return data
    if _INTERCEPT in data.feature_names:
        typer.echo(f"The data have a column {_INTERCEPT!r}: none is added.")
        return data
    return data.add_intercept(_INTERCEPT)


def with_only_task(table: pd.DataFrame, fitted: Fit, column: str) -> pd.DataFrame:
    """The table with a column of the task, where the fit has one task only and the file does not name it."""
    if column in table.columns or fitted.data.n_tasks > 1:
        return table
    return table.assign(**{column: fitted.data.task_names[0]})


def task_column(fitted: Fit) -> str:
    """The column that holds the task of a row, as `zoo fit` was told."""
    return str(fitted.idata.attrs.get(TASK_ATTRIBUTE) or fitted.data.task_column or "task")


def test_data(fitted: Fit, path: Path, y: str | None) -> MultiTaskData:
    """Held-out rows of a CSV file, with the features and tasks of a fit."""
    from zoo.data.multitask import MultiTaskData

    table, column = read_csv(path), task_column(fitted)
    response = y or str(fitted.idata.attrs.get(Y_ATTRIBUTE, "y"))
    features = list(fitted.data.feature_names)
    t = list(fitted.data.t_names or ())
    table = with_intercept(with_only_task(table, fitted, column), fitted)
    require_columns(table, path, {"--y": [response], "the fit": [column, *t, *features]})
    return MultiTaskData.from_frame(table, y=response, task=column, features=features, t=t or None)


def with_intercept(table: pd.DataFrame, fitted: Fit) -> pd.DataFrame:
    """The table with the column of ones that ``zoo fit`` added, where the file has none."""
    names = fitted.data.feature_names
    if _INTERCEPT in table.columns or _INTERCEPT not in names:
        return table
    # A column of that name in the user's own training data may hold anything: only ones are filled in.
    ones = bool((fitted.data.inputs[:, names.index(_INTERCEPT)] == 1.0).all())
    return table.assign(**{_INTERCEPT: 1.0}) if ones else table


def predictions(
    fitted: Fit, table: pd.DataFrame, column: str, new_task: bool, ci_prob: float, seed: int | None
) -> pd.DataFrame:
    """Predictions by row of the file; with ``new_task``, known tasks are predicted as known ones."""
    import pandas as pd

    from zoo.data.new_rows import column_labels

    if table[column].isna().any():
        row = int(table[column].isna().to_numpy().argmax())
        raise ValueError(f"column {column!r} is missing in row {row}. Name the task of every row.")
    known_names = fitted.data.task_names
    labels = pd.Series(column_labels(table[column].to_numpy(), known_names), table.index, dtype=object)
    known = labels.isin(known_names)
    groups = [(known, False), (~known, True)] if new_task else [(known | True, False)]
    parts = []
    for rows, unseen in groups:
        if rows.any():
            predicted = fitted.predict(
                table[rows], task=labels[rows], new_task=unseen, ci_prob=ci_prob, random_seed=seed
            )
            parts.append(predicted.to_dataframe().set_index(table.index[rows]))
    result = pd.concat(parts).sort_index().rename_axis("row")
    if "label" in result and (result["label"] % 1 == 0).all():
        # Classes are 0 and 1 in the user's file, not 0.000 and 1.000.
        result["label"] = result["label"].astype(int)
    return result[["task", *(name for name in result.columns if name != "task")]]


@contextmanager
def kept_jobs(out: Path) -> Iterator[None]:
    """Say of an interrupted run where its finished jobs are."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted. Finished jobs stay in {out}: run the command again.") from None


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line, without the place in the source that raised them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield

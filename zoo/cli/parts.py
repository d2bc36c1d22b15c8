"""Parts of the commands: factories from settings, messages."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.cli.tables import INTERCEPT

if TYPE_CHECKING:
    from rich.console import Console

    from zoo.core.factory import ModelFactory
    from zoo.data.multitask import MultiTaskData

__all__ = [
    "Chains",
    "Draws",
    "FitFile",
    "Interrupted",
    "Model",
    "Seed",
    "Tune",
    "check_data",
    "complete_model",
    "console_of",
    "experiments_of",
    "factory_of",
    "has_a_scale",
    "kept_jobs",
    "options_of",
    "plain_warnings",
    "split_names",
    "with_constant",
]

PAPERS = ("bussas2015", "evgeniou2005", "li2014", "srijith2014", "yu2005")


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


def complete_model(incomplete: str) -> list[str]:
    """Names of models that begin so, for the shell."""
    from zoo.registry import factories

    return [name for name in factories() if name.lower().startswith(incomplete.lower())]


# ---------------------------------------------------------------- options of several commands

Seed = Annotated[int | None, typer.Option(min=0, help="Same seed, same output.")]
Draws = Annotated[
    int | None,
    typer.Option(
        min=1, help="Kept draws of each chain. Default: 1000, or up to 4000 where these have not converged."
    ),
]
Tune = Annotated[int, typer.Option(min=0, help="Warm-up of each chain.")]
Chains = Annotated[int, typer.Option(min=1, help="Number of chains.")]
FitFile = Annotated[Path, typer.Argument(metavar="FIT.nc", help="A file of `zoo fit` or fit.save.")]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A name of `zoo list`.", autocompletion=complete_model)
]


# ---------------------------------------------------------------- what commands work with


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
        raise ValueError(f"--set gives {model} a value it cannot use: {str(error).rstrip('.')}.") from error


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


def with_constant(data: MultiTaskData, factory: ModelFactory) -> MultiTaskData:
    """The data with a feature that is 1 everywhere, unless there is one, or choices, which need none."""
    if getattr(factory, "intercept", False) or data.choice is not None:
        return data
    if INTERCEPT in data.feature_names:
        typer.echo(f"The data have a column {INTERCEPT!r}: none is added.")
        return data
    return data.add_intercept(INTERCEPT)


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

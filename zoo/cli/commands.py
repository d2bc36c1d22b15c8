"""The command ``zoo``. Thin: each command imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo._version import __version__
from zoo.cli.parts import (
    Chains,
    Draws,
    FitFile,
    Interrupted,
    Model,
    Seed,
    Tune,
    check_data,
    console_of,
    experiments_of,
    factory_of,
    has_a_scale,
    kept_jobs,
    options_of,
    plain_warnings,
    split_names,
    with_constant,
)
from zoo.cli.tables import (
    predictions,
    read_rows_of,
    require_columns,
    task_column,
    test_data,
)
from zoo.cli.training import training_data
from zoo.support.words import counted

__all__ = ["app", "main"]

_BAD_INPUT = 2
_INTERRUPTED = 130
_SHOWN_ROWS = 10
# typer carries its own copy of click in some versions: its exceptions are found through typer's names.
_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(name="zoo", rich_markup_mode=None, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zoo {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error came from.")] = False,
) -> None:
    """Bayesian multi-task learning on PyMC."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# -------------------------------------------------------------------- commands


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the posterior, tables and pictures.")],
    data: Annotated[
        str,
        typer.Option(
            help="simulated: tasks in groups. grunfeld: 11 firms, 20 years. school: 139 schools, downloaded."
        ),
    ] = "simulated",
    seed: Seed = 1,
    draws: Annotated[int, typer.Option(min=1, help="Kept draws of each chain.")] = 1000,
    tune: Tune = 500,
    chains: Chains = 4,
) -> None:
    """Show what sharing buys: fit, compare, draw."""
    from zoo.demo import run_demo

    run_demo(out, data=data, draws=draws, tune=tune, chains=chains, seed=seed, console=console_of())


@app.command("list")
def list_models() -> None:
    """List the models with every method."""
    from zoo.cli.text import model_list
    from zoo.registry import list_models

    typer.echo(model_list(list_models()))


@app.command()
def describe(model: Model) -> None:
    """Describe a model: what it is, its fields with defaults, its methods, its paper."""
    from dataclasses import MISSING, fields

    from zoo.cli.text import plain_text, wrapped
    from zoo.registry import get_factory

    factory = get_factory(model)
    typer.echo(f"{model}\n\n{plain_text(factory.__doc__ or '')}\nFields")
    for field in fields(factory):
        default = "(required)" if field.default is MISSING else repr(field.default)
        typer.echo(wrapped(f"- {field.name} = {default}", 4))
    typer.echo("\nMethods, best first")
    for name, computes in factory().methods.items():
        typer.echo(wrapped(f"- {name}: {computes}", 4))
    typer.echo(f"\nPaper\n  {factory.paper}")


@app.command()
def fit(
    model: Model,
    data: Annotated[Path, typer.Option(help="CSV file with a header, one row per observation.")],
    out: Annotated[Path, typer.Option(help="NetCDF file to write, a new one.")],
    y: Annotated[str | None, typer.Option(help="Column of the response or label.")] = None,
    task: Annotated[
        str | None, typer.Option(help='Column of the task; "" where all rows are one task.')
    ] = None,
    t: Annotated[
        list[str] | None,
        typer.Option(
            "--t", help="Column over which coefficients vary, such as a place or a day; repeatable."
        ),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of the weight of a row.")] = None,
    choice: Annotated[str | None, typer.Option(help="Column that numbers the choices of a task.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Feature columns, comma-separated. Default: all others.")
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(help="'y ~ age + time + (1 + time | patient)', instead of --y, --task, --features."),
    ] = None,
    missing: Annotated[
        str, typer.Option(help="refuse, drop or model: what becomes of missing values.")
    ] = "refuse",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="A field of the model, also likelihood.C=0.3; repeatable."
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Inference method. Default: the model's best.")] = None,
    draws: Draws = None,
    tune: Tune = 1000,
    chains: Chains = 4,
    seed: Seed = None,
    keep: Annotated[
        str | None,
        typer.Option(help="draws, moments or population: what is kept of the tasks. Default: by the memory."),
    ] = None,
    standardize: Annotated[
        bool, typer.Option(help="Scale features, and a real response (no labels, no counts).")
    ] = True,
    intercept: Annotated[
        bool, typer.Option(help="Add a feature that is 1 everywhere, where the model has none of its own.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
) -> None:
    """Fit a model to a CSV file."""
    from zoo.report import complete, print_diagnostics
    from zoo.support.files import require_new, staged_file

    require_new(out, overwrite, "--out", "pass --overwrite")
    factory = factory_of(model, set_ or [])
    with staged_file(out) as temporary:
        training, remembered = training_data(
            data, y, task, split_names(features), t or [], weight, formula, missing, choice
        )
        training = with_constant(training, factory) if intercept and formula is None else training
        if standardize:
            training = training.standardize(y=has_a_scale(factory))
        check_data(factory, training)
        typer.echo(f"{factory!r}\n{training!r}")
        result = factory.fit(
            training, method, draws=draws, tune=tune, chains=chains, random_seed=seed, keep=keep
        )
        complete(result)
        result.idata.attrs.update(remembered)
        result.save(temporary, overwrite=True)
    print_diagnostics(console_of(), result, warned=True)
    typer.echo(f"Written to {out}")


@app.command()
def predict(
    fit: FitFile,
    data: Annotated[Path, typer.Option(help="CSV file with the feature columns and the task column.")],
    task: Annotated[str | None, typer.Option(help="Column of the task. Default: that of `zoo fit`.")] = None,
    new_task: Annotated[
        bool, typer.Option("--new-task", help="Predict tasks that were not in the data from the population.")
    ] = False,
    ci_prob: Annotated[float, typer.Option(help="Probability of the interval.")] = 0.9,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write. Default: print the first rows.")
    ] = None,
    seed: Seed = None,
) -> None:
    """Predict the rows of a CSV file: mean, sd, and interval; for labels their probability too."""
    from zoo.registry import load
    from zoo.report import print_frame, write_csv
    from zoo.support.files import staged_file

    fitted = load(fit)
    column = task or task_column(fitted)
    table = read_rows_of(fitted, data, column)
    require_columns(table, data, {"--task": [column]})
    if out is None:
        predicted = predictions(fitted, table, column, new_task, ci_prob, seed)
        title = f"First {min(_SHOWN_ROWS, len(predicted))} of {len(predicted):,} rows (--out writes all)"
        print_frame(console_of(), predicted.head(_SHOWN_ROWS), title)
        return
    with staged_file(out) as temporary:
        predicted = predictions(fitted, table, column, new_task, ci_prob, seed)
        write_csv(predicted, temporary)
    typer.echo(f"{counted(len(predicted), 'row', ',')} written to {out}")


@app.command()
def report(
    fit: FitFile,
    out: Annotated[Path, typer.Option(help="Folder for the page, tables, and pictures.")],
    test: Annotated[
        Path | None, typer.Option(help="CSV file of held-out rows, to compare with the yardsticks.")
    ] = None,
    y: Annotated[
        str | None, typer.Option(help="Its column of the response. Default: that of `zoo fit`.")
    ] = None,
) -> None:
    """Write a page about a fit, with its tables and pictures, into a folder."""
    from zoo.registry import load
    from zoo.report import run_report

    fitted = load(fit)
    rows = None if test is None else test_data(fitted, test, y)
    files = run_report(fitted, out, console_of(), rows, fit)
    typer.echo(f"{', '.join(files)} written to {out}")


@app.command()
def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="bussas2015: Bussas, Sawade, Scheffer & Landwehr, arXiv 1508.07192. "
            "evgeniou2005: Evgeniou, Micchelli & Pontil, JMLR 2005. li2014: Li, Zhu & Chen, ICML 2014. "
            "srijith2014: Srijith & Shevade, ECML PKDD 2014. yu2005: Yu, Tresp & Schwaighofer, ICML 2005.",
        ),
    ],
    table: Annotated[
        list[int] | None,
        typer.Option(
            help="evgeniou2005: 1 or 2. li2014: 2, 3 or 4. srijith2014: 2, 3, 4 or 5. yu2005: 1. Repeatable."
        ),
    ] = None,
    figure: Annotated[
        list[int] | None,
        typer.Option(
            help="bussas2015: 2, 3 or 4. evgeniou2005: 1, 2 or 3. li2014: 2 or 3. srijith2014: 2, 3 or 4. "
            "yu2005: 1 or 2. Repeatable."
        ),
    ] = None,
    splits: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="bussas2015: windows and folds, 20 at most. Default: 10. evgeniou2005: of School. Default: 10. "
            "li2014: splits of each set. Default: 5, and 10 of School. "
            "srijith2014: partitions. Default: 10.",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="evgeniou2005: panels of simulated customers. Default: 2, and 20 draws of the tasks of table 2. "
            "yu2005: random repeats of table 1. Default: 10.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    cv: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 3,
    sets: Annotated[
        str | None,
        typer.Option(
            help="bussas2015: of county, county-log, county-labels, rents, rents-log, rents-labels; comma-separated. "
            "evgeniou2005: of customers, computers, school, structures. "
            "li2014: of emotions, CAL500, scene, yeast, School. "
            "srijith2014: of computers, school, high, low, computers-survey, high-noisy, low-noisy, high-swapped, "
            "computers-profiles."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes: small sets, few draws.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and finished jobs.")] = Path(
        "results"
    ),
) -> None:
    """Run a paper's experiments and set the numbers beside the printed ones.

    Without --table and --figure all of them. Jobs that the folder holds already are not run again.
    """
    experiments = experiments_of(paper)
    everything = not table and not figure
    given = {"splits": splits, "repeats": repeats, "sets": split_names(sets)}
    options = options_of(experiments.reproduce, paper, given)
    with kept_jobs(out):
        outcome = experiments.reproduce(
            out,
            tables=experiments.TABLES if everything else table or (),
            figures=experiments.FIGURES if everything else figure or (),
            cv=cv,
            n_jobs=jobs,
            quick=quick,
            console=console_of(),
            **options,
        )
    _require_all(outcome)


def _require_all(outcome: Any) -> None:
    """End with 1 where a job failed."""
    if outcome.failures:
        failed = counted(len(outcome.failures), "job")
        raise typer.Exit(_fail(f"{failed} failed: {', '.join(outcome.failures)}.", 1))


@app.command()
def benchmark(
    sets: Annotated[str | None, typer.Option(help="Names of --list, comma-separated. Default: all.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="The same of the methods, the part of a name too.")
    ] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Folds of each set at most.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    list_: Annotated[bool, typer.Option("--list", help="Print sets and methods, and run nothing.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the table and finished jobs.")] = Path("results"),
) -> None:
    """Compare models at their defaults with what people use instead, on the same folds.

    Jobs that the folder holds already are not run again.
    """
    from zoo.experiments.scoreboard import methods_named, print_scoreboard, run_scoreboard

    if list_:
        print_scoreboard(console_of())
        return
    with kept_jobs(out):
        chosen = methods_named(split_names(methods))
        outcome = run_scoreboard(out, split_names(sets), chosen, folds, jobs, console_of())
    _require_all(outcome)


# -------------------------------------------------------------------- entry point


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0, 2 for bad input, 130 for Ctrl-C, 1 for a failed run.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with plain_warnings():
        try:
            code = app(given, standalone_mode=False, prog_name="zoo") or 0
        except (KeyboardInterrupt, typer.Abort):
            code = _INTERRUPTED
        except Interrupted as error:
            return _fail(str(error), _INTERRUPTED)
        except _USAGE_ERROR as error:
            return _fail(f"{error.format_message()} Try 'zoo --help'.", _BAD_INPUT)
        except (ValueError, KeyError, OSError, ArithmeticError, ImportError) as error:
            if "--traceback" in given:
                traceback.print_exc()
            message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
            failed_run = isinstance(error, ArithmeticError)
            return _fail(message or type(error).__name__, 1 if failed_run else _BAD_INPUT)
    # typer turns Ctrl-C into this code by itself, without a word.
    return _fail("interrupted, nothing was written.", code) if code == _INTERRUPTED else code


def _fail(message: str, code: int) -> int:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    return code

"""Fields of a model chosen by cross-validation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from zoo.core.completeness import shortfall
from zoo.core.factory import ModelFactory
from zoo.core.fields import changed, field_value
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics import compare
from zoo.diagnostics.scores import LOWER_IS_BETTER
from zoo.selection_arguments import Score, folds_of, grid_points, readable_score, started_variables
from zoo.support.checks import whole_number
from zoo.support.seeds import sequence
from zoo.support.warning_types import collected, warn_of_convergence
from zoo.support.words import counted

__all__ = ["Selection", "select"]


@dataclass(frozen=True, eq=False)
class Selection:
    """What :func:`select` found.

    Parameters
    ----------
    best : ModelFactory
        The factory with the fields of the best grid point, the first of equals.
    score_name : str
        The score that chose it.
    scores : pandas.DataFrame
        One row per grid point, in grid order: its fields; ``mean``, ``sd`` and ``se`` of the score over the folds;
        ``fold 0``, ``fold 1``, ... the score on each held-out part.
    best_row : int
        Row of ``scores`` that ``best`` comes from.
    details : pandas.DataFrame or None
        One row per grid point: its fields and all scores of :func:`zoo.diagnostics.compare`, averaged over the folds.
        None where the score was a function.
    """

    best: ModelFactory
    score_name: str
    scores: pd.DataFrame
    best_row: int
    details: pd.DataFrame | None = None

    def __repr__(self) -> str:
        folds = self.scores.filter(regex="^fold ").to_numpy()[self.best_row]
        return (
            f"Selection(best={self.best!r}, {self.score_name} {folds.mean():.4g}, "
            f"{counted(len(self.scores), 'grid point')}, {counted(len(folds), 'fold')})"
        )


class _Plan(NamedTuple):
    """What is the same in every fold."""

    points: list[ModelFactory]
    shown: list[str]
    methods: list[str]
    warm: list[bool]  # whether a grid point starts from the fit before it
    score: Score
    settings: dict[str, Any]


class _FoldResult(NamedTuple):
    scores: list[float]
    details: list[dict[str, float]]
    warned: list[tuple[str, type[Warning], str, int]]
    not_converged: list[str]


def select(
    factory: ModelFactory,
    data: MultiTaskData,
    grid: Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]],
    cv: int | Sequence[tuple[MultiTaskData, MultiTaskData]] = 5,
    score: Score | None = None,
    method: str | None = None,
    draws: int = 200,
    tune: int = 200,
    chains: int = 1,
    random_seed: Any = None,
    n_jobs: int | None = None,
    progress: bool = True,
    **method_options: Any,
) -> Selection:
    """Choose fields of a model by cross-validation.

    Every grid point is fitted to the training part of every fold and scored on the held-out part. In a fold all
    grid points share their random numbers, so that scores differ by the fields and not by luck; and where the
    inference method has an option ``start``, each fit starts from the one before it, if its model has the same
    variables.

    Parameters
    ----------
    factory : ModelFactory
        The fields that ``grid`` does not name stay as they are here.
    data : MultiTaskData
        Standardized or not: the folds are made of it as it is.
    grid : dict of str to list, or list of dict
        Values to try for each field; all combinations, the first field varying slowest. Fields of the likelihood have a
        dot, as ``"likelihood.C"``. A list holds the grid points themselves.
    cv : int or list of (train, held_out) pairs
        Number of folds of :meth:`zoo.MultiTaskData.folds`, which is given ``random_seed``; or the folds.
    score : str or callable, optional
        A column of :func:`zoo.diagnostics.compare`; default ``"explained variance %"`` for real responses,
        ``"micro F1 %"`` for labels and ``"log loss"`` for grades. RMSE, MAE, log loss and RPS are better when lower. Or
        a function ``score(test, predicted)`` of the held-out data and what ``fit.predict(test)`` gave, higher being
        better. Predictions are on the user's scale: compare them with ``test.original_y()``.
    method, draws, tune, chains
        As in :meth:`zoo.ModelFactory.fit`, for every fit.
    random_seed : int, optional
        Same seed, same folds and scores, whatever ``n_jobs``.
    n_jobs : int, optional
        Folds at a time, each in a process of its own. Default: what an enclosing ``joblib.parallel_config``
        says, else as many as there are cores.
    progress : bool
        Show a progress bar over all fits.
    **method_options
        Options of the method, for instance ``thin``. With ``chains`` above 1, ``cores=1`` keeps folds from
        competing for the cores.

    Returns
    -------
    Selection

    Raises
    ------
    ValueError
        Before anything is fitted: a field, a value, the score or an option is unknown or does not fit the data.
        An error in a fit is raised as it is, with a note that says in which fold and at which grid point.

    Examples
    --------
    >>> found = zoo.select(zoo.MaxMargin(), train, {"likelihood.C": [0.1, 1.0, 10.0]})  # doctest: +SKIP
    >>> fit = found.best.fit(train)  # doctest: +SKIP
    """
    if not isinstance(factory, ModelFactory):
        raise TypeError(
            f"factory is {factory!r}. Give a model with its fields, for instance zoo.MaxMargin()."
        )
    settings: dict[str, Any] = {
        "draws": whole_number(draws, "draws", 1),
        "tune": whole_number(tune, "tune", 0),
        "chains": whole_number(chains, "chains", 1),
        **method_options,
    }
    changes = grid_points(factory, grid)
    points = [changed(factory, change, "grid: ") for change in changes]
    score = readable_score(points, score)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fits warn again
        for point in points:
            point.validate(data)
        # By all the data: a default that depends on their size is then the same in all folds.
        methods = [point.choose_method(method, data) for point in points]
        started = [
            started_variables(point, name, data, method_options)
            for point, name in zip(points, methods, strict=True)
        ]
    folds = folds_of(data, cv, random_seed)

    named = list(dict.fromkeys(field for change in changes for field in change))
    shown = [", ".join(f"{field}={value!r}" for field, value in change.items()) for change in changes]
    warm = [False] + [now is not None and now == before for before, now in pairwise(started)]
    plan = _Plan(points, shown, methods, warm, score, settings)
    results = _run(plan, folds, sequence(random_seed).spawn(len(folds)), n_jobs, progress)

    name = score if isinstance(score, str) else getattr(score, "__name__", type(score).__name__)
    by_fold = pd.DataFrame({f"fold {k}": result.scores for k, result in enumerate(results)})
    mean, sd = by_fold.mean(axis=1, skipna=False), by_fold.std(axis=1, ddof=1, skipna=False)
    if mean.isna().all():
        raise ValueError(f"score {name!r} is NaN at every grid point. Choose another score, or larger folds.")
    lower = isinstance(score, str) and score in LOWER_IS_BETTER
    best = int(np.nanargmin(mean) if lower else np.nanargmax(mean))  # the first of equals
    values = {field: [field_value(point, field) for point in points] for field in named}
    left = pd.DataFrame(values, index=by_fold.index)
    summary = pd.DataFrame({"mean": mean, "sd": sd, "se": sd / np.sqrt(len(folds))})
    details = None
    if isinstance(score, str):
        tables = [pd.DataFrame(result.details) for result in results]
        averaged = sum(tables[1:], start=tables[0]) / len(tables)
        details = pd.concat([left, averaged], axis=1)
    return Selection(
        best=points[best],
        score_name=name,
        scores=pd.concat([left, summary, by_fold], axis=1),
        best_row=best,
        details=details,
    )


# ---------------------------------------------------------------- arguments


# ---------------------------------------------------------------- running


def _run(
    plan: _Plan,
    folds: list[tuple[MultiTaskData, MultiTaskData]],
    seeds: list[np.random.SeedSequence],
    n_jobs: int | None,
    progress: bool,
) -> list[_FoldResult]:
    backend, configured = joblib.parallel.get_active_backend()
    if n_jobs is None and configured is None:
        n_jobs = min(joblib.cpu_count(), len(folds))
    here = getattr(backend, "supports_sharedmem", False) or (n_jobs or configured) == 1
    bar = _bar(len(folds) * len(plan.points)) if progress else None
    advance = (lambda fits: bar.advance(bar.task_ids[0], fits)) if bar is not None else (lambda fits: None)
    # Arrays go to the processes as copies: a read-only memory map would be another type to compiled code.
    parallel = joblib.Parallel(
        n_jobs=n_jobs,
        max_nbytes=None,
        return_as="generator" if getattr(backend, "supports_return_generator", False) else "list",
    )
    jobs = (
        joblib.delayed(_run_fold)(plan, k, train, test, seed, os.getpid(), advance if here else None)
        for k, ((train, test), seed) in enumerate(zip(folds, seeds, strict=True))
    )
    results: list[_FoldResult] = []
    try:
        with bar or nullcontext():
            for result in parallel(jobs):
                results.append(result)
                if not here:
                    advance(len(plan.points))
    finally:
        for text, category, filename, line in dict.fromkeys(w for result in results for w in result.warned):
            warnings.warn_explicit(text, category, filename, line)
        _warn_once(
            [said for result in results for said in result.not_converged], len(results) * len(plan.points)
        )
    return results


def _warn_once(messages: list[str], n_fits: int) -> None:
    """One warning for all fits that have not converged."""
    if messages:
        warn_of_convergence(
            f"{len(messages)} of {n_fits} fits of the cross-validation have not converged. Their scores are rougher "
            "for it, and the model that they choose deserves more draws and chains. The first of them, in "
            f"{messages[0]}"
        )


def _bar(fits: int) -> Progress:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("fits"),
        TimeRemainingColumn(),
    )
    bar.add_task("cross-validation", total=fits)
    return bar


def _run_fold(
    plan: _Plan,
    number: int,
    train: MultiTaskData,
    test: MultiTaskData,
    seed: np.random.SeedSequence,
    parent: int,
    advance: Callable[[int], None] | None,
) -> _FoldResult:
    """Fit and score the grid points in order, each from the one before it."""
    # The draws of a fit and those of its predictions would be the same numbers if they shared a seed.
    fit_seed, predict_seed = (int(word) for word in seed.generate_state(2))
    scores: list[float] = []
    details: list[dict[str, float]] = []
    fit: Fit | None = None
    # In another process nobody would see the warnings; in this one they take their usual way, and catching them
    # would not be safe among threads.
    not_converged: list[str] = []
    with (
        warnings.catch_warnings(record=True) if os.getpid() != parent else nullcontext([]) as caught,
        collected() as messages,
    ):
        if os.getpid() != parent:
            warnings.simplefilter("default")
        for point, shown, method, warm in zip(plan.points, plan.shown, plan.methods, plan.warm, strict=True):
            try:
                settings = {**plan.settings, "start": fit} if warm else plan.settings
                fit = point.fit(train, method=method, random_seed=fit_seed, progress=False, **settings)
                where = f"fold {number} at {shown or 'the only grid point'}"
                not_converged += [f"{where}: {message}" for message in messages]
                messages.clear()
                if shortfall(fit.idata):
                    # Samplers keep what they have on Ctrl-C, but the score of a cut fit compares with no other.
                    raise KeyboardInterrupt(f"fold {number} was interrupted at grid point {shown}")
                if callable(plan.score):
                    scores.append(float(plan.score(test, fit.predict(test, random_seed=predict_seed))))
                else:
                    row = compare({"fit": fit}, test, random_seed=predict_seed).iloc[0]
                    details.append({str(column): float(value) for column, value in row.items()})
                    scores.append(details[-1][plan.score])
            except Exception as error:
                error.add_note(f"in zoo.select, fold {number}, grid point {shown or 'without changes'}")
                for warning in caught or []:
                    error.add_note(f"after the warning: {warning.message}")
                raise
            if advance is not None:
                advance(1)
    warned = [(str(w.message), w.category, w.filename, w.lineno) for w in caught or []]
    return _FoldResult(scores, details, list(dict.fromkeys(warned)), not_converged)

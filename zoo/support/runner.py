"""Run independent jobs in processes, and keep each one's result in a file as soon as it is done."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from zoo.support.checks import whole_number
from zoo.support.files import staged_file
from zoo.support.warning_types import collected, warn_of_convergence

__all__ = ["Job", "Outcome", "run_jobs"]


@dataclass(frozen=True)
class Job:
    """A function whose numbers are worth keeping.

    Parameters
    ----------
    name : str
        Identifies the job, and is the name of its file: letters, digits, ``-``, ``_`` and ``.``.
    run : callable
        Called with ``settings`` as keywords; returns a dict of numbers, or of lists of them.
    settings : dict
        What JSON can hold.
    """

    name: str
    run: Callable[..., Mapping[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name, re.ASCII):
            raise ValueError(
                f"name is {self.name!r}, which is no file name. Use letters, digits, '-', '_' and '.'."
            )


@dataclass(frozen=True)
class Outcome:
    """Numbers of the finished jobs and tracebacks of the failed ones, by the jobs' names."""

    results: dict[str, dict[str, Any]]
    failures: dict[str, str]


def run_jobs(
    jobs: Sequence[Job],
    folder: str | Path,
    n_jobs: int = 1,
    title: str = "jobs",
    console: Console | None = None,
    progress: bool = True,
) -> Outcome:
    """Run the jobs that have no result in the folder yet.

    A result appears whole, by a rename, the moment its job is done: after a kill the same call goes on where
    it stopped. A job that fails does not stop the others, leaves no file, and is tried again by the next call.

    Parameters
    ----------
    jobs : sequence of Job
        With different names.
    folder : path
        One JSON file per job: its settings and its numbers. Made if it is missing.
    n_jobs : int
        Processes at a time, each with one thread for linear algebra; 1 runs the jobs in this process.
    title : str
        What the progress bar says.
    console : rich.console.Console, optional
    progress : bool

    Returns
    -------
    Outcome
        Results in the order of ``jobs``.

    Raises
    ------
    ValueError
        Two jobs have one name; or the folder holds a result of a job of this name with other settings, which
        would be mixed with those of this run.
    """
    n_jobs = whole_number(n_jobs, "n_jobs", 1)
    names = [job.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"jobs holds the name {name!r} twice. Give every job a name of its own.")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    results = {job.name: stored for job in jobs if (stored := _stored(job, place)) is not None}
    missing = [job for job in jobs if job.name not in results]
    failures: dict[str, str] = {}
    not_converged: dict[str, str] = {}
    with _bar(title, len(jobs), len(results), console, progress) as bar:
        for name, numbers, failure, messages in _finished(missing, place, n_jobs):
            if messages:
                not_converged[name] = messages[0]
            if failure is None:
                results[name] = numbers
            else:
                failures[name] = failure
            bar.advance(bar.task_ids[0])
    if not_converged:
        first, message = next(iter(not_converged.items()))
        warn_of_convergence(
            f"{len(not_converged)} of {len(missing)} jobs made fits that have not converged: "
            f"{', '.join(not_converged)}. In {first}: {message}"
        )
    return Outcome({name: results[name] for name in names if name in results}, failures)


def _finished(jobs: list[Job], folder: Path, n_jobs: int) -> Any:
    """Name, numbers, traceback, and words on convergence of each job, as they end."""
    if not jobs:
        return iter(())
    with joblib.parallel_config("loky" if n_jobs > 1 else "sequential"):
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        return parallel(joblib.delayed(_run)(job, folder) for job in jobs)


def _run(job: Job, folder: Path) -> tuple[str, dict[str, Any], str | None, list[str]]:
    messages: list[str] = []
    try:
        with threadpool_limits(1), collected() as messages:
            numbers = dict(job.run(**job.settings))
        # Here and not in the parent: a parent that is killed loses no finished job.
        with staged_file(_path(job, folder)) as temporary:
            content = {"job": job.name, "settings": dict(job.settings), "numbers": numbers}
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except Exception:
        return job.name, {}, traceback.format_exc(), messages
    return job.name, numbers, None, messages


def _path(job: Job, folder: Path) -> Path:
    return folder / f"{job.name}.json"


def _stored(job: Job, folder: Path) -> dict[str, Any] | None:
    """Numbers of an earlier run of the job, None if there is none."""
    path = _path(job, folder)
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    # Through JSON, so that a tuple compares equal to the list that it became.
    settings = json.loads(json.dumps(dict(job.settings)))
    if content["settings"] != settings:
        changed = sorted(
            key
            for key in settings.keys() | content["settings"].keys()
            if settings.get(key) != content["settings"].get(key)
        )
        raise ValueError(
            f"{str(path)!r} is the result of a run with other settings ({', '.join(changed)}). "
            "Give another output folder, or remove that file to run the job again."
        )
    numbers: dict[str, Any] = content["numbers"]
    return numbers


def _bar(title: str, total: int, done: int, console: Console | None, shown: bool) -> Progress:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs"),
        TimeRemainingColumn(),
        console=console,
        disable=not shown,
    )
    bar.add_task(title, total=total, completed=done)
    return bar

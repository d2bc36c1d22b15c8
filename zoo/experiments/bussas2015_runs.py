"""What is run for the figures of Bussas et al. (2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.experiments import housing
from zoo.experiments.varying_methods import Effort, gelfand_bound, installed, measure
from zoo.support.runner import Job

if TYPE_CHECKING:
    pass

__all__ = ["NOISELESS", "Settings"]

SETS = tuple(housing.SETS)
SHOWN = {3: ("county", "county-labels", "county-log"), 4: ("rents", "rents-labels", "rents-log")}

_PAPER = ("isovcm-lin", "isovcm-mat", "x-lin", "x-mat", "xt-lin", "xt-mat", "local-lin", "local-mat")
_FURTHER = ("regression", "xt-mat-ard", "gwr", "gpboost")
# Rows beyond which a method is left out: of regressions, and of labels. Local smoothing of labels solves a problem for
# each test row, and with a Matern kernel did not end in the paper either.
_MOST_ROWS = {"local-mat": (1000, 0), "local-lin": (4000, 250), "xt-mat-ard": (1000, 500), "gwr": (1000, 0)}
# Logarithms are no part of the paper: what its main comparison needs.
_OF_LOGARITHMS = tuple(method for method in _PAPER if method != "local-mat")
NOISELESS = 1e-12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    sets : tuple of str
        Of ``SETS``.
    splits : int
        Windows and folds, of 20; evenly spread over them.
    sizes : tuple of int
        Training rows.
    log_sizes, label_sizes : tuple of int
        The same where the logarithm of the price is modelled, and for labels.
    methods : tuple of str
        Of ``METHODS``.
    test_rows : int, optional
        Test rows of a split at most.
    exact_up_to, n_inducing, cv : int
        See :class:`zoo.experiments.varying_methods.Effort`.
    bound_sizes, gelfand_sizes : tuple of int
        Training rows of the lower bound of figure 2, and of the fits of the non-isotropic model.
    """

    sets: tuple[str, ...] = SETS
    splits: int = 10
    sizes: tuple[int, ...] = (125, 250, 500, 1000, 2000, 4000)
    log_sizes: tuple[int, ...] = (1000,)
    label_sizes: tuple[int, ...] = (125, 250, 500, 1000)
    methods: tuple[str, ...] = (*_PAPER, *_FURTHER)
    test_rows: int | None = None
    exact_up_to: int = 1000
    n_inducing: int = 500
    cv: int = 3
    bound_sizes: tuple[int, ...] = (125, 250, 500)
    gelfand_sizes: tuple[int, ...] = (125, 250)

    @classmethod
    def look(cls) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            splits=2, sizes=(60, 120), log_sizes=(60,), methods=_PAPER, test_rows=100, exact_up_to=60, n_inducing=30,
            cv=2, bound_sizes=(10, 20), gelfand_sizes=(40,),
        )  # fmt: skip

    def numbers(self, fewer: bool) -> list[int]:
        """Windows or folds, evenly spread; with ``fewer`` every second one of these, where they are four or more."""
        spread = np.unique(np.linspace(0, housing.FOLDS - 1, self.splits).round().astype(int)).tolist()
        return spread[::2] if fewer and len(spread) >= 4 else spread

    def sizes_of(self, name: str) -> tuple[int, ...]:
        """Training rows on a set."""
        kind = housing.SETS[name].kind
        return {"log": self.log_sizes, "label": self.label_sizes}.get(kind, self.sizes)


def _is_slow(name: str, method: str, n: int) -> bool:
    """Whether a cell takes so long that it is run on every second split."""
    if n >= 2000 and method not in ("x-lin", "xt-lin", "regression"):
        return True
    if name.endswith("-labels") or method == "gwr":
        return True
    return n >= 1000 and method in ("local-mat", "xt-mat-ard", "gpboost")


def _is_run(name: str, method: str, n: int) -> bool:
    kind = housing.SETS[name].kind
    labels = kind == "label"
    if kind == "log" and method not in _OF_LOGARITHMS:
        return False
    most = _MOST_ROWS.get(method, (np.inf, np.inf))[labels]
    return n <= most


def _run_cell(
    name: str,
    number: int,
    n: int,
    method: str,
    test_rows: int | None,
    exact_up_to: int,
    n_inducing: int,
    cv: int,
) -> dict[str, Any]:
    """Job: a method on a split with n training rows; nothing where there are fewer."""
    part = housing.split(name, number, n, test_rows)
    if part is None:
        return {}
    return measure(method, part, Effort(cv, exact_up_to, n_inducing, number))


def _run_bound(n: int) -> dict[str, Any]:
    """Job: the lower bound of the sampler of Gelfand et al.; a constant feature is one of m."""
    m = housing.county()[0].n_features + 1
    return {"seconds": gelfand_bound(n, m), "m": m}


def _cell_name(name: str, method: str, n: int, number: int) -> str:
    return f"{name}-n{n:04d}-split{number:02d}-{method}"


def _urgency(job: Job) -> tuple[bool, bool, int]:
    """What the paper's claim is about, regressions of many rows, before the rest; the slowest last."""
    name, n = job.settings["name"], job.settings["n"]
    return n > 2000, name.endswith("-labels"), abs(n - 1000) if n < 2000 else 1


def jobs_of(settings: Settings, figures: Sequence[int]) -> list[Job]:
    effort = {
        "test_rows": settings.test_rows,
        "exact_up_to": settings.exact_up_to,
        "n_inducing": settings.n_inducing,
        "cv": settings.cv,
    }

    def cell(name: str, method: str, n: int, number: int) -> Job:
        given = {"name": name, "number": number, "n": n, "method": method, **effort}
        return Job(_cell_name(name, method, n, number), _run_cell, given)

    wanted = [name for figure in figures for name in SHOWN.get(figure, ()) if name in settings.sets]
    # A window of King County has 2,950 rows.
    jobs = [
        cell(name, method, n, number)
        for name in wanted
        for n in settings.sizes_of(name)
        if not (name.startswith("county") and n > 2950)
        for method in settings.methods
        if installed(method) and _is_run(name, method, n)
        for number in settings.numbers(_is_slow(name, method, n))
    ]
    jobs.sort(key=_urgency)
    if 2 in figures and "county" in settings.sets:
        jobs += [Job(f"bound-n{n:04d}", _run_bound, {"n": n}) for n in settings.bound_sizes]
        jobs += [cell("county", "gelfand", n, 0) for n in settings.gelfand_sizes]
    return jobs

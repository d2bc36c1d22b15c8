"""House prices and rents by place and time: the rows, labels and splits of the experiments of Bussas et al. (2015)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from zoo import datasets
from zoo.data.multitask import MultiTaskData
from zoo.support.checks import one_of, whole_number

__all__ = [
    "BLOCKS",
    "FOLDS",
    "SETS",
    "WINDOW",
    "Problem",
    "Split",
    "county",
    "rents",
    "score",
    "split",
    "values",
]

BLOCKS, WINDOW, FOLDS = 25, 5, 20

# Off-market sales, as in the paper: dollars, and square feet of the house and of the lot; bounds included.
_ON_MARKET = {"sqft_living": (500.0, 5_000.0), "sqft_lot": (500.0, 10_000.0)}
_PRICES = (100_000.0, 1_000_000.0)


class Problem(NamedTuple):
    """What is predicted on which rows.

    ``place``: "county" or "rents"; ``kind``: "price" (in dollars, as in the paper), "log" or "label".
    """

    place: str
    kind: str


SETS = {
    "county": Problem("county", "price"),
    "county-log": Problem("county", "log"),
    "county-labels": Problem("county", "label"),
    "rents": Problem("rents", "price"),
    "rents-log": Problem("rents", "log"),
    "rents-labels": Problem("rents", "label"),
}


@dataclass(frozen=True)
class Split:
    """Training and test rows; ``train.y`` and ``test.y`` are what a model sees: dollars, their logarithm, or -1/+1.

    ``least`` is the smallest price in dollars of the training rows that a split draws from.
    """

    train: MultiTaskData
    test: MultiTaskData
    problem: Problem
    least: float


# ---------------------------------------------------------------- rows


def county() -> tuple[MultiTaskData, float]:
    """Sales in King County within the paper's brackets, sorted by day, and the share of all sales that these are.

    One task; ``t`` is longitude, latitude and day. Sales of one day are in the order of the file.
    """
    every = datasets.load_king_county()
    keep = (every.y >= _PRICES[0]) & (every.y <= _PRICES[1])
    for name, (low, high) in _ON_MARKET.items():
        values = every.X[:, every.feature_names.index(name)]
        keep &= (values >= low) & (values <= high)
    kept = _one_task(every.take(keep), "King County")
    assert kept.t is not None
    return kept.take(np.argsort(kept.t[:, 2], kind="stable")), float(keep.mean())


def rents() -> MultiTaskData:
    """Advertised rents in New York; ``t`` is longitude and latitude."""
    return datasets.load_nyc_rents()


def _one_task(data: MultiTaskData, name: str) -> MultiTaskData:
    return replace(data, task=np.zeros(data.n_rows, dtype=np.int64), task_names=(name,))


# ---------------------------------------------------------------- splits


def _county_rows(data: MultiTaskData, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Five consecutive blocks of sales, and the next one."""
    blocks = np.array_split(np.arange(data.n_rows), BLOCKS)
    return np.concatenate(blocks[number : number + WINDOW]), blocks[number + WINDOW]


def _rents_rows(data: MultiTaskData, number: int) -> tuple[np.ndarray, np.ndarray]:
    """All folds but one, and that one; folds are the same in every call."""
    folds = np.array_split(np.random.default_rng(2015).permutation(data.n_rows), FOLDS)
    return np.concatenate([fold for i, fold in enumerate(folds) if i != number]), folds[number]


def split(name: str, number: int, n: int, test_rows: int | None = None) -> Split | None:
    """Rows of a window of blocks (King County) or of a fold (rents); None where there are fewer than n to learn from.

    Parameters
    ----------
    name : str
        Of ``SETS``.
    number : int
        0 .. 19.
    n : int
        Training rows, drawn at random. Those of a smaller n are among those of a larger one.
    test_rows : int, optional
        The first rows of the test block or fold alone.
    """
    one_of(name, SETS, "name")
    whole_number(number, "number", 0)
    if number >= FOLDS:
        raise ValueError(f"number is {number}. There are {FOLDS} windows and folds: give 0 .. {FOLDS - 1}.")
    whole_number(n, "n", 2)
    problem = SETS[name]
    data = county()[0] if problem.place == "county" else rents()
    rows: Callable[[MultiTaskData, int], tuple[np.ndarray, np.ndarray]] = (
        _county_rows if problem.place == "county" else _rents_rows
    )
    pool, test = rows(data, number)
    if n > len(pool):
        return None
    drawn = np.random.default_rng([2015, number]).permutation(pool)[:n]
    prices = data.y[pool]
    modelled = replace(data, y=_modelled(data.y, problem.kind, float(np.median(prices))))
    return Split(modelled.take(drawn), modelled.take(test[:test_rows]), problem, float(prices.min()))


def _modelled(price: np.ndarray, kind: str, median: float) -> np.ndarray:
    """What a model sees: the price, its logarithm, or whether it is above the median (of the rows to draw from)."""
    if kind == "label":
        return np.where(price > median, 1.0, -1.0)
    return np.log(price) if kind == "log" else price


# ---------------------------------------------------------------- errors


def values(part: Split) -> np.ndarray:
    """Prices in dollars of the test rows of a regression."""
    return np.exp(part.test.y) if part.problem.kind == "log" else part.test.y


def score(part: Split, predicted: np.ndarray) -> dict[str, float]:
    """Errors of predictions of ``test.y``; of labels the decision value is predicted, and its sign counts.

    Regression: mean absolute error in dollars (``mae``) and of the logarithm (``log``). A price predicted from its
    logarithm is the exponential, a median; one that is predicted below all training prices counts as the lowest of
    these where its logarithm is taken. Labels: the share of wrong ones (``error``).
    """
    if part.problem.kind == "label":
        return {"error": float(np.mean(np.where(predicted > 0.0, 1.0, -1.0) != part.test.y))}
    truth = values(part)
    dollars = np.exp(predicted) if part.problem.kind == "log" else predicted
    logs = np.log(np.maximum(dollars, part.least))
    return {
        "mae": float(np.mean(np.abs(dollars - truth))),
        "log": float(np.mean(np.abs(logs - np.log(truth)))),
    }

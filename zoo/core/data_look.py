"""What the data leave unsaid about a coefficient for each task and feature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.special import fdtrc  # scipy.stats would take half a second of every import

from zoo.data.multitask import MultiTaskData
from zoo.data.within_tasks import by_group, variance_within_tasks

__all__ = ["level_without_constant", "look_at_data"]

_MOST_FEATURES = 2_000
# Of the variance of a feature, what it varies by within a task.
_NEXT_TO_NOTHING = 0.01
_ALIKE = 0.995
_EQUAL = 1.0 - 1e-10
# Multiplications for the correlations of all features.
_MOST_MULTIPLICATIONS = 2e9
_LEAST_ROWS_TO_CORRELATE = 1_000
# Of linear dependence: features and rows that are looked at, sets that are looked for, and the part of a feature that
# rounding leaves of it, or that a coefficient of size 0 is.
_MOST_DEPENDENT, _ROWS_TO_DEPEND, _SETS, _NOTHING = 500, 100_000, 20, 1e-8
# Fewer rows than that are often separated by chance.
_LEAST_ROWS, _LEAST_OF_A_CLASS = 10, 3
_SHOWN = 4
# Rows that say whether a constant is missing, the probability of what is no chance, and the part of a constant outside
# the span of features below which they hold it.
_MOST_ROWS, _BY_CHANCE, _IN_SPAN = 20_000, 1e-6, 1e-6


def look_at_data(data: MultiTaskData, labels: np.ndarray | None = None) -> str:
    """What to say of data for a model with a coefficient for each task and feature.

    Samplers usually cope with what is found here, and slow chains are often explained by it.

    Parameters
    ----------
    data : MultiTaskData
        Dense features; of sparse ones and of more than 2,000 nothing is said.
    labels : (N,) array of -1 and 1, optional
        Where the response is a class.

    Returns
    -------
    str
        Whole sentences; empty where there is nothing to say. They name

        - two or more features that vary, within every task, by less than one hundredth of their
          variance over all rows: a task then tells the sum of their contributions, and not the coefficient of each;
        - pairs of features with a correlation above 0.995 in size;
        - sets of three features or more of which each is an exact linear function of the others, of at most 500
          features and fewer than rows. A constant counts as one of them where the features have one;
        - tasks whose classes one feature separates, of at least ten rows.
    """
    if data.is_sparse or data.n_features > _MOST_FEATURES or data.gaps is not None:
        return ""
    X = np.asarray(data.X)
    still = _still_within_tasks(X, data.task, data.n_tasks)
    sentences = []
    names = data.feature_names
    if still.sum() > 1:
        sentences.append(
            f"features {_listed([names[j] for j in np.flatnonzero(still)])} are constant, or nearly so, within every "
            "task, so that the rows of a task do not tell their coefficients apart: give them one coefficient for all "
            "tasks (shared='constant within tasks' of NIWLinear and MaxMargin), or keep one of them."
        )
    pairs = _alike(X)
    if pairs:
        shown = [
            f"{names[i]!r} and {names[j]!r} ({'equal up to scale' if abs(r) > _EQUAL else f'correlation {r:.4f}'})"
            for i, j, r in pairs[:_SHOWN]
        ]
        more = f" and {len(pairs) - _SHOWN} more pairs" if len(pairs) > _SHOWN else ""
        sentences.append(f"features {', '.join(shown)}{more} say the same: drop one of each pair.")
    dependent = [members for members in _dependent(X) if not still[members].all()]
    if dependent:
        shown = [_listed([names[j] for j in members]) for members in dependent[:_SHOWN]]
        more = f", and {len(dependent) - _SHOWN} more such sets" if len(dependent) > _SHOWN else ""
        sentences.append(
            f"features {'; and '.join(shown)}{more} are linearly dependent: each is an exact linear function of the "
            "others, so that no row tells their coefficients apart. Drop one feature of each set. Of the columns of a "
            "category, the one that is dropped is the level that the others are compared with."
        )
    if labels is not None:
        separated = _separated(X, data.task, data.n_tasks, labels)
        if separated:
            shown = [f"{data.task_names[t]!r} by {names[j]!r}" for t, j in separated[:_SHOWN]]
            more = f" and {len(separated) - _SHOWN} more tasks" if len(separated) > _SHOWN else ""
            sentences.append(
                f"the classes of task {', '.join(shown)}{more} are separated by one feature, so that the prior alone "
                "bounds its coefficient: standardize the features, and choose the prior with care."
            )
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}" for sentence in sentences)


def level_without_constant(X: np.ndarray, y: np.ndarray, task: np.ndarray, n_tasks: int) -> float:
    """How much a constant in each task explains of what the tasks' regressions without one leave of y, from 0 to 1.

    It is the share of the sum of squares, corrected for chance, and 0 where chance explains it: the F statistic of the
    constants is asked for a probability below one in a million. Tasks with too few rows for a regression are left out;
    where all are, it is 0.

    Parameters
    ----------
    X, y, task : (N, D), (N,), (N,)
    n_tasks : int
    """
    order, sizes = np.argsort(task, kind="stable"), np.bincount(task, minlength=n_tasks)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    enough = np.flatnonzero(sizes >= X.shape[1] + 2)
    if not len(enough):
        return 0.0
    most = min(len(enough), max(1, int(_MOST_ROWS / sizes[enough].mean())))
    some = enough[np.linspace(0, len(enough) - 1, most).astype(np.int64)]
    before, gained, constants, free = 0.0, 0.0, 0, 0
    for t in some:
        at = order[starts[t] : starts[t + 1]]
        beside = np.column_stack([y[at], np.ones(len(at))])
        rest, one = (beside - X[at] @ np.linalg.lstsq(X[at], beside)[0]).T
        before += float(rest @ rest)
        free += len(at) - X.shape[1] - 1
        if one @ one > _IN_SPAN * len(at):  # else the features of the task hold a constant
            gained += float(one @ rest) ** 2 / float(one @ one)
            constants += 1
    after = before - gained
    if not constants or free < 1 or before <= 1e-20 * float(y @ y):
        return 0.0
    if fdtrc(constants, free, (gained / constants) / (max(after, 1e-300) / free)) > _BY_CHANCE:
        return 0.0
    return float(max(0.0, 1.0 - after / before * (free + constants) / free))


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[: 2 * _SHOWN]]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}" if more else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _still_within_tasks(X: np.ndarray, task: np.ndarray, n_tasks: int) -> np.ndarray:
    """Which features vary by next to nothing within every task, other than columns of zeros."""
    total = X.var(axis=0)
    within = variance_within_tasks(X, task, n_tasks).max(axis=0)
    rounding = 1e-24 * np.square(X).mean(axis=0)
    return (within <= np.maximum(_NEXT_TO_NOTHING * total, rounding)) & (np.abs(X).max(axis=0) > 0.0)


def _alike(X: np.ndarray) -> list[tuple[int, int, float]]:
    """Pairs of features with their correlation, the most alike first.

    Some rows propose, all rows decide.
    """
    n_features = X.shape[1]
    if n_features < 2:
        return []
    most = max(_LEAST_ROWS_TO_CORRELATE, int(_MOST_MULTIPLICATIONS / n_features**2))
    scores, varies = _scores(_some_rows(X, most))
    correlation = np.abs(scores.T @ scores)
    i, j = np.nonzero(np.triu(correlation > _ALIKE, 1) & varies & varies[:, None])
    pairs = [(int(a), int(b)) for a, b in zip(i, j, strict=True)][: 100 * _SHOWN]
    found = [(a, b, _correlation(X[:, a], X[:, b])) for a, b in pairs]
    return sorted((pair for pair in found if abs(pair[2]) > _ALIKE), key=lambda pair: -abs(pair[2]))


def _dependent(X: np.ndarray) -> list[list[int]]:
    """Sets of at least three features of which each is an exact linear function of the others.

    Some rows propose, all rows decide. A QR factorisation with pivots takes as many features as are independent; each
    other one is a function of these, in one way only, and the features that it needs make a set with it.
    """
    n_rows, n_features = X.shape
    if not 3 <= n_features <= _MOST_DEPENDENT or n_rows <= n_features:
        return []
    varies = _scores(X)[1]
    has_constant = bool((~varies & (np.abs(X).max(axis=0) > 0.0)).any())
    candidates = np.flatnonzero(varies)
    Z = _scores(_some_rows(X, _ROWS_TO_DEPEND)[:, candidates], has_constant)[0]
    R, order = qr(Z, mode="r", pivoting=True, check_finite=False)
    rank = int((np.abs(np.diag(R)) > _NOTHING).sum())
    found = []
    for k in range(rank, min(rank + _SETS, len(order))):
        weights = solve_triangular(R[:rank, :rank], R[:rank, k])
        members = sorted([candidates[order[k]], *candidates[order[:rank][np.abs(weights) > _NOTHING]]])
        Z = _scores(X[:, members], has_constant)[0]
        if len(members) > 2 and np.linalg.svd(np.linalg.qr(Z, mode="r"), compute_uv=False)[-1] < _NOTHING:
            found.append([int(j) for j in members])
    return sorted(found)


def _some_rows(X: np.ndarray, most: int) -> np.ndarray:
    """All rows, or so many of them that lie evenly among all."""
    return X if len(X) <= most else X[np.linspace(0, len(X) - 1, most).round().astype(np.int64)]


def _scores(X: np.ndarray, without_mean: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Columns of length 1, less their means unless told otherwise, and which columns vary."""
    centred = X - X.mean(axis=0) if without_mean else X
    length = np.linalg.norm(centred, axis=0)
    varies = length > 1e-10 * np.linalg.norm(X, axis=0)
    return centred / np.where(varies, length, 1.0), varies


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    scores, varies = _scores(np.column_stack([x, y]))
    return float(scores[:, 0] @ scores[:, 1]) if varies.all() else 0.0


def _separated(X: np.ndarray, task: np.ndarray, n_tasks: int, labels: np.ndarray) -> list[tuple[int, int]]:
    """Tasks and the first feature by which a threshold tells their classes apart."""
    group = 2 * task + (labels > 0.0)
    low = by_group(np.minimum, X, group, 2 * n_tasks, np.nan)
    high = by_group(np.maximum, X, group, 2 * n_tasks, np.nan)
    sizes = np.bincount(group, minlength=2 * n_tasks).reshape(n_tasks, 2)
    enough = (sizes.sum(axis=1) >= _LEAST_ROWS) & (sizes.min(axis=1) >= _LEAST_OF_A_CLASS)
    splits = enough[:, None] & ((low[1::2] > high[::2]) | (high[1::2] < low[::2]))
    return [(int(t), int(np.argmax(splits[t]))) for t in np.flatnonzero(splits.any(axis=1))]

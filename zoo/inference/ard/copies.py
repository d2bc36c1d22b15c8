r"""Copies of a feature that have nothing to do with the response, given the other features.

A feature is written as

.. math:: x_{nj} = a + b^\top x_{n,-j} + u_{t(n)} + e_n,

a regression on the other features, a level of each task, and a rest. A copy keeps the first two parts and permutes the
rest over rows, so that it goes with the other features and with the tasks as the feature does. Where the response has
nothing to do with the feature given the others, the feature and its copies are exchangeable, up to errors of the
regression. That is the conditional randomisation of Candès, Fan, Janson & Lv (2018, JRSS B 80:551-577), with
permuted rests in place of a law of the rest.

The spread of the rest may differ from task to task, as where classes are mixed or drawn from one kind of pupil. The
rest is divided by it before it is permuted, and a copy takes the spread of the row that it comes to: permuted as it is,
a wide rest would come to narrow tasks, where no feature of this law ever is. The spread of a task is the root mean
square of its rests, whose logarithm is shrunk towards that of all rows by the share of the differences that chance
explains: of k rows it has a variance of about 2 / k. Regression and spreads follow each other for three rounds.

The levels are the means of the rest over the rows of each task, shrunk by :math:`1 - 1 / F`, where F is the ratio of
the mean squares between and within tasks; features without levels have F near 1, and then none are taken off. The rest
is divided by the square root of what least squares and levels leave of its variance at that row, one minus the
leverage.

Tasks may have the same rows: labels of one song have its features, and persons rate the same products. Wherever rows
agree in the other features they then agree in the feature as well, and what is permuted are the distinct rows. Rows
that agree by chance, as those of a few binary features do, differ in the feature here and there, and stay rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["FeatureCopies"]

# A rest below this share of the feature's spread is rounding: the other features determine the feature.
_DETERMINED = 1e-8
_REGRESSIONS = 3
_MOST_LEVERAGE = 1.0 - 1e-6
# Variance of a task's rests, as a share of that of all, below which it counts as this: a feature may be absent there.
_NARROWEST = 1e-8


@dataclass(frozen=True, eq=False)
class FeatureCopies:
    """What copies of one feature are made of.

    Parameters
    ----------
    kept : (U,) array
        What all copies have in common, of each unit: a row, or distinct rows of several tasks.
    rest : (U,) array
        What they permute, in units of ``spread``.
    spread : (U,) array
        What the rest is multiplied by where it comes to.
    unit : (N,) array
        The unit of each row.
    """

    kept: np.ndarray
    rest: np.ndarray
    spread: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, j: int, task: np.ndarray) -> FeatureCopies:
        """For column j of X (N, D); ``task`` (N,): numbers of tasks."""
        first, unit = _units(X, j)
        spread_over_tasks = np.any(task[first][unit] != task)
        X, own = X[first], None if spread_over_tasks else task[first]
        x = X[:, j]
        design = np.column_stack([np.ones(len(x)), np.delete(X, j, axis=1)])
        spread = np.ones(len(x))
        for _ in range(_REGRESSIONS):  # what is wide must not decide the regression of what is narrow
            kept, rest = _parts(x, design, spread, own)
            before, spread = spread, spread if own is None else _spreads(rest, own)
            if np.array_equal(before, spread):
                break
        rest = rest / spread
        return cls(kept, rest - rest.mean(), spread, unit)

    @property
    def determined(self) -> bool:
        """Whether the other features determine the feature, so that its copies are the feature itself."""
        return bool(
            np.std(self.spread * self.rest) <= _DETERMINED * np.std(self.kept + self.spread * self.rest)
        )

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Copies, (size, N)."""
        permuted = rng.permuted(np.broadcast_to(self.rest, (size, len(self.rest))), axis=1)
        return (self.kept + self.spread * permuted)[:, self.unit]


def _parts(
    x: np.ndarray, design: np.ndarray, spread: np.ndarray, task: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """What least squares, with rests of this spread, and levels of tasks say of x (U,); and the rest, unshrunk."""
    left, sizes, _ = np.linalg.svd(design / spread[:, None], full_matrices=False)
    basis = left[:, sizes > sizes[0] * 1e-10]
    kept = spread * (basis @ (basis.T @ (x / spread)))
    rest = x - kept
    leverage = np.einsum("nk,nk->n", basis, basis)
    if task is not None:
        levels, share, count = _levels(rest, task)
        kept, rest = kept + share * levels, rest - share * levels
        leverage = leverage + share * (2.0 - share) / count
    return kept, rest / np.sqrt(1.0 - np.minimum(leverage, _MOST_LEVERAGE))


def _units(X: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each unit (U,), and the unit of each row (N,)."""
    _, first, unit = np.unique(np.delete(X, j, axis=1), axis=0, return_index=True, return_inverse=True)
    unit = unit.ravel()
    if X.shape[1] > 1 and len(first) < len(X) and np.array_equal(X[first, j][unit], X[:, j]):
        return first, unit
    return np.arange(len(X)), np.arange(len(X))


def _levels(rest: np.ndarray, task: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Mean of each row's task (N,), the share of it that is no chance, and the number of rows of its task (N,)."""
    _, task, count = np.unique(task, return_inverse=True, return_counts=True)
    means = np.bincount(task, rest) / count
    K, N = len(count), len(rest)
    if K < 2 or N <= K:
        return means[task], 0.0, count[task]
    between = np.sum(count * (means - rest.mean()) ** 2) / (K - 1)
    within = np.sum((rest - means[task]) ** 2) / (N - K)
    share = max(0.0, 1.0 - within / between) if between > 0.0 else 0.0
    return means[task], float(share), count[task]


def _spreads(rest: np.ndarray, task: np.ndarray) -> np.ndarray:
    """The spread of each row's task (N,), as a multiple of that of all rows; ones where tasks differ by chance."""
    _, task, count = np.unique(task, return_inverse=True, return_counts=True)
    pooled = float(np.mean(rest**2))
    if len(count) < 2 or not pooled > 0.0:
        return np.ones(len(rest))
    squares = np.bincount(task, rest**2) / count
    chance = 2.0 / count
    # The logarithm of a mean of k squares is 1 / k too small in the mean.
    logs = np.log(np.maximum(squares / pooled, _NARROWEST)) + 1.0 / count
    centre = np.average(logs, weights=count)
    between = max(0.0, float(np.average((logs - centre) ** 2 - chance, weights=count)))
    if between == 0.0:
        return np.ones(len(rest))
    logs = centre + (logs - centre) * between / (between + chance)
    return np.asarray(np.exp(0.5 * logs))[task]

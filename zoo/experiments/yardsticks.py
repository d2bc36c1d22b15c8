"""Linear yardsticks of the papers' tables: one model per task, one for all, and multi-task feature learning.

All minimise ``C * loss + |w|^2 / 2`` in the columns that the data have, an intercept among them, so that they see
and shrink what the Bayesian models see and shrink. A fit is a matrix of coefficients (D, T). They need scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.support.checks import one_of, positive

__all__ = [
    "FeatureLearning",
    "Learned",
    "Moments",
    "PooledLinear",
    "SeparateLinear",
    "Yardstick",
    "choose",
    "choose_among",
    "decision",
    "independent_columns",
    "moments",
    "require_sklearn",
    "symmetric_root",
]

_LOSSES = ("squared", "logistic", "squared hinge")
_MAX_ITER = 2000

Score = Callable[[MultiTaskData, np.ndarray], float]


class Yardstick(Protocol):
    """What :func:`choose` tunes."""

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T) for a weight ``C`` of the loss."""
        ...


class Moments(NamedTuple):
    """All that the square loss knows of the rows of each task."""

    gram: np.ndarray  # (T, D, D), X' X
    cross: np.ndarray  # (T, D), X' y
    square: np.ndarray  # (T,), y' y
    n_rows: np.ndarray  # (T,)


def require_sklearn() -> None:
    """Raise where scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "The yardsticks of the experiments need scikit-learn. "
            'Install it with: pip install "multitask-zoo[experiments]"'
        ) from error


def independent_columns(X: np.ndarray) -> list[int]:
    """Positions of columns, the first ones, of which none is a combination of others."""
    kept: list[int] = []
    left = X.copy()
    for i in range(X.shape[1]):
        if np.linalg.norm(left[:, i]) > 1e-6 * max(1.0, np.linalg.norm(X[:, i])):
            kept.append(i)
            q = left[:, i] / np.linalg.norm(left[:, i])
            left = left - np.outer(q, q @ left)
    return kept


@dataclass(frozen=True)
class SeparateLinear:
    """A model of its own for each task.

    Parameters
    ----------
    loss : {"squared", "logistic", "squared hinge"}
        Ridge regression, logistic regression, linear support vector machine.
    """

    loss: str

    def __post_init__(self) -> None:
        one_of(self.loss, _LOSSES, "loss")

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T)."""
        return np.column_stack([_solve(self.loss, X, y, C) for X, y in _tasks(train, self.loss)])


@dataclass(frozen=True)
class PooledLinear:
    """One model for the rows of all tasks.

    Parameters
    ----------
    loss : {"squared", "logistic", "squared hinge"}
    """

    loss: str

    def __post_init__(self) -> None:
        one_of(self.loss, _LOSSES, "loss")

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T), the same for every task."""
        y = _coded(train, self.loss)
        # Where tasks share inputs, equal rows are counted and not repeated: 174 labels would be 174 times the work.
        pairs, count = np.unique(np.column_stack([train.row, y]), axis=0, return_counts=True)
        w = _solve(self.loss, train.inputs[pairs[:, 0].astype(int)], pairs[:, 1], C, count)
        return np.repeat(w[:, None], train.n_tasks, axis=1)


class Learned(NamedTuple):
    """Multi-task features that were learned."""

    coefficients: np.ndarray  # (D, T)
    metric: np.ndarray  # (D, D), the matrix D of the paper, trace 1
    objective: list[float]  # after each alternation


@dataclass(frozen=True)
class FeatureLearning:
    r"""Multi-task feature learning (Argyriou, Evgeniou & Pontil, NIPS 2006).

    Minimises :math:`C \sum_t L(y_t, X_t w_t) + \tfrac12 \operatorname{tr} M^{-1} (W W' + \epsilon I)` over W and M of
    trace 1 by turns: given M, a ridge or logistic regression per task in the features :math:`M^{1/2} x`; given W,
    :math:`M = (W W' + \epsilon I)^{1/2} / \operatorname{tr}(\cdot)`.

    Parameters
    ----------
    loss : {"squared", "logistic"}
    eps : float
        Keeps M invertible.
    max_alternations : int
    tolerance : float
        Stop where the objective falls by less than this fraction.

    References
    ----------
    Argyriou, A., Evgeniou, T. and Pontil, M. (2006). Multi-task feature learning. NIPS 19.
    """

    loss: str
    eps: float = 1e-6
    max_alternations: int = 20
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        one_of(self.loss, ("squared", "logistic"), "loss")
        positive(self.eps, "eps")

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T)."""
        return self.learn(train, C).coefficients

    def learn(self, train: MultiTaskData, C: float) -> Learned:
        """Coefficients, metric, and the objective after each alternation."""
        tasks = _tasks(train, self.loss)
        metric = np.eye(train.n_features) / train.n_features
        objective: list[float] = []
        for _ in range(self.max_alternations):
            W = self.coefficients(tasks, metric, C)
            metric = self._metric(W)
            objective.append(self._objective(tasks, W, metric, C))
            if len(objective) > 1 and objective[-2] - objective[-1] <= self.tolerance * abs(objective[-2]):
                break
        return Learned(W, metric, objective)

    def coefficients(
        self, tasks: Sequence[tuple[np.ndarray, np.ndarray]], metric: np.ndarray, C: float
    ) -> np.ndarray:
        """Coefficients (D, T) for a given metric."""
        root = symmetric_root(metric)
        return root @ np.column_stack([_solve(self.loss, X @ root, y, C) for X, y in tasks])

    def _metric(self, W: np.ndarray) -> np.ndarray:
        root = symmetric_root(W @ W.T + self.eps * np.eye(len(W)))
        return root / np.trace(root)

    def _objective(
        self, tasks: Sequence[tuple[np.ndarray, np.ndarray]], W: np.ndarray, metric: np.ndarray, C: float
    ) -> float:
        loss = sum(_loss(self.loss, y, X @ w) for (X, y), w in zip(tasks, W.T, strict=True))
        smoothed = W @ W.T + self.eps * np.eye(len(W))
        return float(C * loss + 0.5 * np.trace(np.linalg.solve(metric, smoothed)))


# -------------------------------------------------------------------- tuning and prediction


def choose(
    yardstick: Yardstick,
    folds: Iterable[tuple[MultiTaskData, MultiTaskData]],
    grid: Sequence[float],
    score: Score,
) -> float:
    """The ``C`` of the grid with the best mean score on the held-out parts, the first of equals.

    Parameters
    ----------
    yardstick : Yardstick
    folds : iterable of (train, held_out)
        Those of the models that it is compared with.
    grid : sequence of float
    score : callable
        ``score(held_out, decision values)``, higher being better.
    """
    return choose_among([yardstick], folds, grid, score)[1]


def choose_among(
    yardsticks: Sequence[Yardstick],
    folds: Iterable[tuple[MultiTaskData, MultiTaskData]],
    grid: Sequence[float],
    score: Score,
) -> tuple[Yardstick, float]:
    """The yardstick and the ``C`` with the best mean score, as :func:`choose`, where the grid has two dimensions."""
    tried = [(yardstick, C) for yardstick in yardsticks for C in grid]
    scores = [
        [score(held_out, decision(yardstick.fit(train, C), train, held_out)) for yardstick, C in tried]
        for train, held_out in folds
    ]
    yardstick, C = tried[int(np.argmax(np.mean(scores, axis=0)))]
    return yardstick, float(C)


def decision(coefficients: np.ndarray, train: MultiTaskData, rows: MultiTaskData) -> np.ndarray:
    """Linear predictor of rows of the tasks of ``train``, on the scale before ``standardize``; tasks go by name."""
    if rows.feature_names != train.feature_names:
        raise ValueError("rows has other feature_names than train, in whose order the coefficients are.")
    for name in rows.task_names:
        one_of(name, train.task_names, "rows: task")
    task = np.array([train.task_names.index(name) for name in rows.task_names])[rows.task]
    X = rows.original_X()
    if train.transform is not None:
        X = train.transform.apply_x(X)
    f = np.einsum("nd,dn->n", X, coefficients[:, task])
    return f if train.transform is None else train.transform.restore_y(f)


# -------------------------------------------------------------------- parts


def _coded(data: MultiTaskData, loss: str) -> np.ndarray:
    """The response as a loss takes it; raises where rows have weights, for nothing here reads them."""
    if data.weight is not None:
        raise ValueError(
            "weight is given, and yardsticks take no weights of rows. Make the data without weight."
        )
    return data.y if loss == "squared" else np.where(data.y > 0, 1.0, -1.0)


def _tasks(data: MultiTaskData, loss: str) -> list[tuple[np.ndarray, np.ndarray]]:
    X, y = data.X, _coded(data, loss)
    return [(X[rows], y[rows]) for rows in data.rows_by_task()]


def moments(data: MultiTaskData) -> Moments:
    """Moments of the rows of each task; raises where rows have weights."""
    tasks = _tasks(data, "squared")
    return Moments(
        np.array([X.T @ X for X, _ in tasks]),
        np.array([X.T @ y for X, y in tasks]),
        np.array([y @ y for _, y in tasks]),
        np.array([len(y) for _, y in tasks], dtype=float),
    )


def _solve(loss: str, X: np.ndarray, y: np.ndarray, C: float, weight: np.ndarray | None = None) -> np.ndarray:
    """The minimiser of ``C * loss + |w|^2 / 2``, the loss of row n counted ``weight[n]`` times."""
    require_sklearn()
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if loss == "squared":
        return np.asarray(Ridge(alpha=0.5 / C, fit_intercept=False).fit(X, y, sample_weight=weight).coef_)
    if np.ptp(y) == 0.0:
        # scikit-learn wants two classes: a row of zeros adds a constant to the loss, whatever its label.
        X, y = np.vstack([X, np.zeros(X.shape[1])]), np.append(y, -y[0])
        weight = None if weight is None else np.append(weight, 1.0)
    model: Any
    if loss == "logistic":
        model = LogisticRegression(C=C, fit_intercept=False, max_iter=_MAX_ITER)
    else:
        model = LinearSVC(C=C, fit_intercept=False, max_iter=_MAX_ITER, random_state=0)
    return np.asarray(model.fit(X, y, sample_weight=weight).coef_)[0]


def _loss(loss: str, y: np.ndarray, f: np.ndarray) -> float:
    return float(((y - f) ** 2).sum() if loss == "squared" else np.logaddexp(0.0, -y * f).sum())


def symmetric_root(matrix: np.ndarray) -> np.ndarray:
    """Symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

r"""Linear yardsticks that learn a covariance of tasks: task relationships, and Gaussian processes.

Both are for the square loss alone, and their steps need no more than the moments of the rows of each task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from zoo.data.multitask import MultiTaskData
from zoo.experiments.yardsticks import Moments, moments, symmetric_root
from zoo.support.checks import not_negative, positive, whole_number

__all__ = [
    "Expected",
    "Factors",
    "Fitted",
    "Related",
    "TaskProcesses",
    "TaskRelationships",
    "expected",
    "maximised",
]

# Of the mean square of a task's responses: less is no noise, but the sign of rows that are fitted without error.
_LEAST_NOISE = 1e-8


class Related(NamedTuple):
    """Coefficients, the covariance of tasks, and the objective after each alternation."""

    coefficients: np.ndarray  # (D, T), W
    covariance: np.ndarray  # (T, T), Omega, trace 1
    objective: list[float]


@dataclass(frozen=True)
class TaskRelationships:
    r"""Multi-task relationship learning (Zhang & Yeung, UAI 2010), with the square loss.

    Minimises

    .. math:: C \sum_{tn} (y_{tn} - x_{tn}' w_t)^2 + \tfrac12 \operatorname{tr} W W'
              + \tfrac{\rho}{2} \operatorname{tr} W \Omega^{-1} W'

    over W (D, T) and a positive semi-definite :math:`\Omega` (T, T) of trace 1. The paper's :math:`\lambda_1` is
    :math:`1 / C` here, and its :math:`\lambda_2` is :math:`\rho / C`. Here the losses of all rows count alike, and an
    intercept is a column as any other; the paper averages the losses of each task, and does not shrink the intercept.

    Given W, the paper's :math:`\Omega = (W'W)^{1/2} / \operatorname{tr}(\cdot)` leaves
    :math:`\operatorname{tr} W \Omega^{-1} W' = \|W\|_*^2`, the square of the sum of the singular values. So does
    :math:`M = (WW')^{1/2} / \operatorname{tr}(\cdot)` in :math:`\operatorname{tr} M^{-1} W W'`: both are the same
    function of W, with the same minimiser. Alternating with M (D, D) instead of :math:`\Omega` (T, T), a step in W is a
    ridge regression for each task, where :math:`\Omega` would couple all DT coefficients in one system. This also says
    that without its ridge term the method is :class:`~zoo.experiments.yardsticks.FeatureLearning`.

    Parameters
    ----------
    rho : float
        Weight of the relationships, 0 or more. 0 is a ridge regression for each task.
    eps : float
        :math:`WW' + \epsilon I` is in the place of :math:`WW'`, so that M is invertible. It begins at the mean square
        of W and is halved in each alternation down to this value: a small one from the start would keep W near the
        directions of the first step, for M is almost 0 in all others.
    max_alternations : int
    tolerance : float
        Stop where, at the last epsilon, the objective falls by less than this fraction.

    References
    ----------
    Zhang, Y. and Yeung, D.-Y. (2010). A convex formulation for learning task relationships in multi-task learning.
    UAI 26.
    """

    rho: float = 1.0
    eps: float = 1e-6
    max_alternations: int = 300
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        not_negative(self.rho, "rho")
        positive(self.eps, "eps")
        whole_number(self.max_alternations, "max_alternations", 1)

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T)."""
        return self.learn(train, C).coefficients

    def learn(self, train: MultiTaskData, C: float) -> Related:
        """Coefficients, covariance of tasks, and the objective; raises where C is not positive or rows have weights."""
        positive(C, "C")
        rows = moments(train)
        D = rows.gram.shape[1]
        inverse = D * np.eye(D)
        objective: list[float] = []
        eps = np.inf
        for _ in range(self.max_alternations):
            precision = np.eye(D) + self.rho * inverse
            W = np.linalg.solve(2.0 * C * rows.gram + precision, 2.0 * C * rows.cross[..., None])[..., 0].T
            before, eps = eps, max(self.eps, min(0.5 * eps, float((W**2).mean())))
            values, vectors = np.linalg.eigh(W @ W.T)
            singular = np.sqrt(np.maximum(values, 0.0) + eps)
            inverse = singular.sum() * (vectors / singular) @ vectors.T
            objective.append(self._objective(W, rows, C, float(singular.sum())))
            if eps == before and objective[-2] - objective[-1] <= self.tolerance * abs(objective[-2]):
                break
        root = symmetric_root(W.T @ W)
        trace = np.trace(root)
        # Where all coefficients are 0 every covariance is as good.
        return Related(W, root / trace if trace > 0.0 else np.eye(W.shape[1]) / W.shape[1], objective)

    def _objective(self, W: np.ndarray, rows: Moments, C: float, nuclear: float) -> float:
        """At the best M: of W, with ``nuclear`` the sum of the smoothed singular values."""
        fitted = np.einsum("tde,et->td", rows.gram, W)
        loss = rows.square.sum() + ((fitted - 2.0 * rows.cross) * W.T).sum()
        return float(C * loss + 0.5 * (W**2).sum() + 0.5 * self.rho * nuclear**2)


class Factors(NamedTuple):
    """Parameters of the processes."""

    loading: np.ndarray  # (T, P), L: the covariance of tasks is L L'
    noise: np.ndarray  # (T,), variances


class Expected(NamedTuple):
    """What the E step gives, of the P shared functions A (D, P) whose combinations are the tasks' functions."""

    log_likelihood: float
    mean: np.ndarray  # (D, P)
    covariance: np.ndarray  # (D, P, D, P)


class Fitted(NamedTuple):
    """A fit: parameters, the E step under them, and the log likelihood after each step."""

    factors: Factors
    expected: Expected
    trace: list[float]

    @property
    def coefficients(self) -> np.ndarray:
        """Posterior means (D, T)."""
        return np.asarray(self.expected.mean @ self.factors.loading.T)


@dataclass(frozen=True)
class TaskProcesses:
    r"""Multi-task Gaussian processes (Bonilla, Chai & Williams, NIPS 2007) with a linear kernel, by EM.

    The covariance of :math:`f_t(x)` and :math:`f_s(z)` is :math:`K_{ts}\, x \cdot z`, and each task has a noise of its
    own. As in the paper K is free but for its rank P, :math:`K = LL'`, and P is what is tuned. With a linear kernel
    :math:`W = A L'`, where A (D, P) has standard normal entries, so that EM over A has closed steps.

    **E step.** Given the rows, the entries of A, row by row, are normal with precision
    :math:`\sum_t G_t \otimes l_t l_t' / s_t^2 + I`, and their mean is its inverse times
    :math:`\sum_t X_t' y_t \otimes l_t / s_t^2`. Here :math:`G_t = X_t' X_t`, and :math:`l_t` is row t of L.

    **M step.** Task t is a regression on :math:`X_t A`: :math:`l_t = E[A' G_t A]^{-1} E[A]' X_t' y_t`, and
    :math:`n_t s_t^2 = |y_t|^2 - l_t' E[A]' X_t' y_t`. EM is slow where the scale of A and that of L are one. So rows of
    A get a covariance :math:`\Phi = E[A'A] / D` in the same step, and then A is made standard again by
    :math:`L \Phi^{1/2}` in the place of L: this is EM of the larger model that has :math:`\Phi`, whose likelihood is
    that of :math:`L \Phi^{1/2}` (Liu, Rubin & Wu, Biometrika 1998).

    Parameters
    ----------
    max_steps : int
    tolerance : float
        Stop where a step raises the log likelihood by less than this.
    random_seed : int
        Of the start of L beyond its first column.

    References
    ----------
    Bonilla, E. V., Chai, K. M. and Williams, C. K. I. (2007). Multi-task Gaussian process prediction. NIPS 20.
    """

    max_steps: int = 500
    tolerance: float = 0.05
    random_seed: int = 1

    def __post_init__(self) -> None:
        whole_number(self.max_steps, "max_steps", 1)
        positive(self.tolerance, "tolerance")

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T) with a covariance of tasks of rank ``C``."""
        return self.learn(train, C).coefficients

    def learn(self, train: MultiTaskData, C: float) -> Fitted:
        """Loadings and noises of maximal likelihood.

        Raises
        ------
        ValueError
            ``C`` is no whole number from 1 to the number of tasks; or rows have weights; or a task is fitted without
            error.
        """
        # The search over a grid gives floats.
        rank = whole_number(int(C) if float(C).is_integer() else C, "C, the rank,", 1)
        if rank > train.n_tasks:
            raise ValueError(
                f"C, the rank, is {rank}, and train has {train.n_tasks} tasks. Give a rank that is not larger."
            )
        rows = moments(train)
        factors = self._first(rows, rank)
        now = expected(factors, rows)
        trace = [now.log_likelihood]
        for _ in range(self.max_steps):
            factors = maximised(now, rows, train.task_names)
            now = expected(factors, rows)
            trace.append(now.log_likelihood)
            if trace[-1] - trace[-2] < self.tolerance:
                break
        return Fitted(factors, now, trace)

    def _first(self, rows: Moments, rank: int) -> Factors:
        """All tasks alike in the first function, and apart at random in the others; half of the variance is noise."""
        T = len(rows.cross)
        noise = np.maximum(0.5 * rows.square / rows.n_rows, np.finfo(float).tiny)
        scale = np.sqrt(
            noise.mean() * rows.n_rows.sum() / max(np.einsum("tdd->", rows.gram), np.finfo(float).tiny)
        )
        rng = np.random.default_rng(self.random_seed)
        loading = 0.3 * scale * rng.normal(size=(T, rank))
        loading[:, 0] = scale
        return Factors(loading, noise)


def expected(factors: Factors, rows: Moments) -> Expected:
    """The E step: log likelihood of all rows, and moments of A."""
    L, noise = factors
    D, P = rows.cross.shape[1], L.shape[1]
    outer = np.einsum("tp,tq->tpq", L, L) / noise[:, None, None]
    precision = np.einsum("tde,tpq->dpeq", rows.gram, outer, optimize=True).reshape(D * P, D * P) + np.eye(
        D * P
    )
    right = (rows.cross.T @ (L / noise[:, None])).ravel()
    factor = cho_factor(precision, lower=True)
    mean = cho_solve(factor, right)
    log_det = 2.0 * np.log(np.diag(factor[0])).sum()
    value = -0.5 * (
        (rows.n_rows * np.log(2.0 * np.pi * noise) + rows.square / noise).sum() + log_det - right @ mean
    )
    covariance = cho_solve(factor, np.eye(D * P)).reshape(D, P, D, P)
    return Expected(float(value), mean.reshape(D, P), covariance)


def maximised(now: Expected, rows: Moments, names: tuple[str, ...]) -> Factors:
    """The M step; ``names`` of the tasks are for messages."""
    mean, covariance = now.mean, now.covariance
    second = np.einsum("tde,dpeq->tpq", rows.gram, covariance, optimize=True)
    second += np.einsum("dp,tde,eq->tpq", mean, rows.gram, mean, optimize=True)
    cross = rows.cross @ mean  # (T, P)
    # A task whose inputs are all 0 says nothing of its loading, which is 0 then.
    L = np.array([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(second, cross, strict=True)])
    noise = (rows.square - (L * cross).sum(axis=1)) / rows.n_rows
    exact = ~(noise > _LEAST_NOISE * rows.square / rows.n_rows)
    if exact.any():
        raise ValueError(
            f"train: task {names[int(np.argmax(exact))]!r} is fitted without error, so that its noise has no estimate. "
            "Give it more rows, or take a smaller C, the rank."
        )
    spread = (np.einsum("dpdq->pq", covariance) + mean.T @ mean) / len(mean)
    return Factors(L @ symmetric_root(spread), noise)

r"""Task clustering of Bakker & Heskes (2003) with linear tasks: a mixture of normal laws of coefficients, by EM.

Task t has inputs :math:`X_t` (n_t, D), responses :math:`y_t`, and a cluster :math:`z_t`:

.. math:: z_t \sim q, \qquad w_t \mid z_t = k \sim N(m_k, \Sigma_k), \qquad y_t \mid w_t \sim N(X_t w_t, s^2 I).

In the paper the tasks share the hidden units of a neural network, and :math:`w_t` are the weights from these to the
output. Here the features themselves are in the place of the hidden units. The paper's variant whose q depends on
features of tasks ("gating") is not here.

**E step.** With :math:`G_t = X_t' X_t`, a symmetric root :math:`\Sigma_k = L_k L_k`,
:math:`A_{tk} = I + L_k G_t L_k / s^2` and :math:`u_{tk} = L_k X_t' (y_t - X_t m_k) / s^2`, the law of :math:`w_t` in
cluster k given the rows is normal with

.. math:: \mu_{tk} = m_k + L_k A_{tk}^{-1} u_{tk}, \qquad V_{tk} = L_k A_{tk}^{-1} L_k.

The rows' marginal law in cluster k is :math:`N(X_t m_k, s^2 I + X_t \Sigma_k X_t')`. By the determinant lemma and the
Woodbury identity its log density is

.. math:: \ell_{tk} = -\tfrac{n_t}{2} \log 2 \pi s^2 - \tfrac12 \log |A_{tk}|
          - \tfrac12 \big( |y_t - X_t m_k|^2 / s^2 - u_{tk}' A_{tk}^{-1} u_{tk} \big),

and the task is in cluster k with probability :math:`r_{tk} \propto q_k e^{\ell_{tk}}`. No step divides by
:math:`\Sigma_k`, which may be singular.

**M step.** The expected complete log likelihood is a sum of one part of q, one of each :math:`(m_k, \Sigma_k)` and one
of :math:`s^2`, which are largest at

.. math::

   q_k = \frac1T \sum_t r_{tk}, \quad m_k = \frac{\sum_t r_{tk} \mu_{tk}}{\sum_t r_{tk}}, \quad
   \Sigma_k = \frac{\sum_t r_{tk} \{ V_{tk} + (\mu_{tk} - m_k)(\mu_{tk} - m_k)' \}}{\sum_t r_{tk}}, \quad
   s^2 = \frac{\sum_{tk} r_{tk} \{ |y_t - X_t \mu_{tk}|^2 + \operatorname{tr} G_t V_{tk} \}}{\sum_t n_t}.

The noise is the same in all clusters, so that the likelihood has no infinite peak at one task's rows, unless all tasks
can be fitted without error at once. Prediction is by :math:`E[w_t \mid y] = \sum_k r_{tk} \mu_{tk}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from zoo.data.multitask import MultiTaskData
from zoo.experiments.yardsticks import Moments, moments, symmetric_root
from zoo.support.checks import positive, whole_number

__all__ = ["Clusters", "Expected", "Fitted", "TaskClustering", "expected", "maximised"]

# Of the largest variance of a response: less is no noise, but the sign of rows that are fitted without error.
_LEAST_NOISE = 1e-10


class Clusters(NamedTuple):
    """The law of tasks."""

    share: np.ndarray  # (K,), q
    mean: np.ndarray  # (K, D), m
    covariance: np.ndarray  # (K, D, D), Sigma
    noise: float  # s^2


class Expected(NamedTuple):
    """What the E step gives."""

    log_likelihood: float
    membership: np.ndarray  # (T, K), r
    mean: np.ndarray  # (T, K, D), mu
    covariance: np.ndarray  # (T, K, D, D), V

    @property
    def coefficients(self) -> np.ndarray:
        """Posterior means (D, T)."""
        return np.einsum("tk,tkd->dt", self.membership, self.mean)


class Fitted(NamedTuple):
    """A fit: clusters, the E step under them, and the log likelihood after each step."""

    clusters: Clusters
    expected: Expected
    trace: list[float]


@dataclass(frozen=True)
class TaskClustering:
    """A mixture of normal laws of the coefficients, of maximal likelihood; what is tuned is the number of clusters.

    Parameters
    ----------
    starts : int
        With more than one cluster: searches from random tasks as centres, of which the best after ``short`` steps goes
        on.
    short, max_steps : int
        Steps of EM of each start, and at most of the one that goes on.
    tolerance : float
        Stop where a step raises the log likelihood by less than this.
    random_seed : int
        Of the centres.

    References
    ----------
    Bakker, B. and Heskes, T. (2003). Task clustering and gating for Bayesian multitask learning. JMLR 4:83-99.
    """

    starts: int = 3
    short: int = 15
    max_steps: int = 500
    tolerance: float = 0.2
    random_seed: int = 1

    def __post_init__(self) -> None:
        for name in ("starts", "short", "max_steps"):
            whole_number(getattr(self, name), name, 1)
        positive(self.tolerance, "tolerance")

    def fit(self, train: MultiTaskData, C: float) -> np.ndarray:
        """Coefficients (D, T) with ``C`` clusters."""
        return self.learn(train, C).expected.coefficients

    def learn(self, train: MultiTaskData, C: float) -> Fitted:
        """Clusters, and what they say of the tasks.

        Raises
        ------
        ValueError
            ``C`` is no whole number from 1 to the number of tasks; or rows have weights; or all tasks can be fitted
            without error, where the likelihood has no maximum.
        """
        # The search over a grid gives floats.
        K = whole_number(int(C) if float(C).is_integer() else C, "C, the number of clusters,", 1)
        if train.n_tasks < K:
            raise ValueError(
                f"C, the number of clusters, is {K}, and train has {train.n_tasks} tasks. "
                "Give a number of clusters that is not larger."
            )
        rows = moments(train)
        one = self._climb(_first(rows), rows, self.max_steps)
        if K == 1:
            return one
        rng = np.random.default_rng(self.random_seed)
        found = [self._climb(_around(one, K, rng), rows, self.short) for _ in range(self.starts)]
        best = max(found, key=lambda fitted: fitted.trace[-1])
        more = self._climb(best.clusters, rows, self.max_steps)
        return more._replace(trace=best.trace + more.trace[1:])

    def _climb(self, clusters: Clusters, rows: Moments, steps: int) -> Fitted:
        now = expected(clusters, rows)
        trace = [now.log_likelihood]
        for _ in range(steps):
            clusters = maximised(now, rows)
            now = expected(clusters, rows)
            trace.append(now.log_likelihood)
            if trace[-1] - trace[-2] < self.tolerance:
                break
        return Fitted(clusters, now, trace)


def expected(clusters: Clusters, rows: Moments) -> Expected:
    """The E step: log likelihood, memberships, and moments of coefficients by task and cluster."""
    identity = np.eye(rows.gram.shape[1])
    log_joint, means, covariances = [], [], []
    for share, mean, covariance in zip(clusters.share, clusters.mean, clusters.covariance, strict=True):
        root = symmetric_root(covariance)
        A = identity + root @ rows.gram @ root / clusters.noise
        inverse = np.linalg.inv(A)
        fitted = rows.gram @ mean  # (T, D)
        u = (rows.cross - fitted) @ root / clusters.noise
        solved = np.einsum("tde,te->td", inverse, u)
        residual = rows.square - 2.0 * rows.cross @ mean + fitted @ mean
        quadratic = residual / clusters.noise - np.einsum("td,td->t", u, solved)
        constant = rows.n_rows * np.log(2.0 * np.pi * clusters.noise) + np.linalg.slogdet(A)[1]
        with np.errstate(divide="ignore"):  # an empty cluster has log 0
            log_joint.append(np.log(share) - 0.5 * (constant + quadratic))
        means.append(mean + solved @ root)
        covariances.append(root @ inverse @ root)
    joint = np.column_stack(log_joint)
    each = logsumexp(joint, axis=1, keepdims=True)
    return Expected(
        float(each.sum()), np.exp(joint - each), np.stack(means, axis=1), np.stack(covariances, axis=1)
    )


def maximised(now: Expected, rows: Moments) -> Clusters:
    """The M step."""
    r = now.membership
    weight = np.maximum(r.sum(axis=0), np.finfo(float).tiny)  # a cluster without tasks stays without
    mean = np.einsum("tk,tkd->kd", r, now.mean) / weight[:, None]
    apart = now.mean - mean
    second = np.einsum("tk,tkde->kde", r, now.covariance) + np.einsum("tk,tkd,tke->kde", r, apart, apart)
    error = (
        rows.square[:, None]
        - 2.0 * np.einsum("tkd,td->tk", now.mean, rows.cross)
        + np.einsum("tkd,tde,tke->tk", now.mean, rows.gram, now.mean, optimize=True)
        + np.einsum("tde,tkde->tk", rows.gram, now.covariance)
    )
    noise = float((r * error).sum() / rows.n_rows.sum())
    if not noise > _LEAST_NOISE * rows.square.sum() / rows.n_rows.sum():
        raise ValueError(
            "train: all tasks are fitted without error, so that the noise has no estimate. "
            "Give more rows per task, or fewer features."
        )
    return Clusters(r.mean(axis=0), mean, second / weight[:, None, None], noise)


def _first(rows: Moments) -> Clusters:
    """One cluster around the pooled regression, as wide as the response, with half of its variance as noise."""
    D = rows.gram.shape[1]
    variance = rows.square.sum() / rows.n_rows.sum()
    if not variance > 0.0:
        raise ValueError("train: y is 0 in every row, so that there is nothing to fit. Give other responses.")
    scale = max(np.trace(rows.gram.sum(axis=0)) / rows.n_rows.sum(), np.finfo(float).tiny)
    pooled = np.linalg.lstsq(rows.gram.sum(axis=0), rows.cross.sum(axis=0), rcond=None)[0]
    return Clusters(np.ones(1), pooled[None], (0.5 * variance / scale * np.eye(D))[None], 0.5 * variance)


def _around(one: Fitted, K: int, rng: np.random.Generator) -> Clusters:
    """K clusters of equal shares around tasks that were drawn, as wide as all tasks together."""
    centres = rng.choice(one.expected.mean.shape[0], size=K, replace=False)
    return Clusters(
        np.full(K, 1.0 / K),
        one.expected.mean[centres, 0],
        np.repeat(one.clusters.covariance, K, axis=0),
        one.clusters.noise,
    )

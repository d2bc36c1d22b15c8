"""The compiled parts of a sweep of the matrix-normal sampler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.collapsed_covariance import collapsed_moves, collapsed_task_moves
from zoo.inference.gibbs.collapsed_rows import draw_tasks, gram_of_tasks
from zoo.inference.gibbs.draws import wishart
from zoo.inference.gibbs.group_moves import feature_moves, task_moves
from zoo.inference.gibbs.task_precision import times
from zoo.inference.gibbs.task_rows import Rows
from zoo.inference.gibbs.triangular import draw_by_precision

__all__ = [
    "Work",
    "draw_feature_precision",
    "draw_task_precision",
    "sums_over_rows",
    "sweep_covariances",
]

_LARGE_TASK = 2e5


class Work(NamedTuple):
    """Per row (N,) weight, linear term and a standard normal draw, and what they sum to in each task.

    ``S`` (T, D, D) and ``r`` (T, D) are the quadratic and the linear term, ``noise`` (T, D) rows drawn from
    ``N(0, S_t)``. Where no move asks for these rows, the normal draws are (0,).
    """

    w: np.ndarray
    v: np.ndarray
    z: np.ndarray
    S: np.ndarray
    r: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, n_rows: int, n_tasks: int, n_features: int, drawn: bool) -> Work:
        """Work space; ``drawn`` where moves ask for the rows of ``noise``."""
        N, T, D = n_rows, n_tasks, n_features
        z = np.empty(N if drawn else 0)
        return cls(np.empty(N), np.empty(N), z, np.empty((T, D, D)), np.empty((T, D)), np.empty((T, D)))


@njit(cache=True, nogil=True)
def _weight_rows(rows, work, t, block):
    """Rows ``sqrt(w_n) x_n`` of task t into ``block``; ``r_t = X_t' (v - W_t o)`` and ``X_t' W_t^1/2 z``."""
    r, noise, drawn = work.r[t], work.noise[t], len(work.z) > 0
    r[:] = 0.0
    noise[:] = 0.0
    first = rows.starts[t]
    for n in range(first, rows.starts[t + 1]):
        x = rows.inputs[rows.row[n]]
        weighted = block[n - first]
        root = np.sqrt(work.w[n])
        linear = work.v[n] - work.w[n] * rows.offset[n]
        for d in range(len(x)):
            weighted[d] = root * x[d]
            r[d] += linear * x[d]
        if drawn:
            z = work.z[n]
            for d in range(len(x)):
                noise[d] += z * weighted[d]


@njit(cache=True, nogil=True)
def _sums_of_small_tasks(rows, work, block, first_task, last_task):
    for t in range(first_task, last_task):
        _weight_rows(rows, work, t, block)
        size = rows.starts[t + 1] - rows.starts[t]
        work.S[t] = block[:size].T @ block[:size]


def sums_over_rows(rows: Rows, work: Work, block: np.ndarray, tasks: tuple[int, int]) -> None:
    """``S_t = X_t' W_t X_t``, ``r_t`` and ``noise_t`` of a range of tasks."""
    D = work.r.shape[1]
    if len(work.w) * D * D < _LARGE_TASK * len(work.r):
        _sums_of_small_tasks(rows, work, block, *tasks)
        return
    for t in range(*tasks):
        _weight_rows(rows, work, t, block)
        weighted = block[: rows.starts[t + 1] - rows.starts[t]]
        # NumPy sees a matrix times its own transpose and computes one triangle, which Numba does not.
        np.matmul(weighted.T, weighted, out=work.S[t])


@njit(cache=True, nogil=True)
def _draw_rows(rng, S, r, H, P, O):
    """Each task's coefficients given the others' (li2014 eq 7 and 14, corrected).

    Precision ``S_t + P_tt O`` and linear term ``r_t - O sum_{s != t} P_ts h_s``: the prior's share is the
    (t, t) entry of the inverse of R, and the cross term has no factor 1/2.
    """
    for t in range(len(H)):
        if P.shape[0] == 0:
            factor = np.linalg.cholesky(S[t] + O)
            draw = r[t].copy()
        else:
            others = H.T @ P[t] - P[t, t] * H[t]
            factor = np.linalg.cholesky(S[t] + P[t, t] * O)
            draw = r[t] - O @ others
        draw_by_precision(rng, factor, draw)
        H[t] = draw


@njit(cache=True, nogil=True)
def sweep_covariances(
    rng, work, H, P, O,
    nu_task, nu_feature, scale, scale_chol, scale_inverse, learn_task, learn_feature, group_moves, collapses,
):  # fmt: skip
    """One scan over coefficients and covariances given the weights; all arrays change in place.

    What is conditioned on what, S and r given throughout:

    1. Where it ``collapses``: H given O, task by task, with P integrated out; then (H, O) along
       features, which leaves the law of H and O without P as it is. Nothing looks at P before step 3.
       Else: H given P and O, task by task; then (H, O) along features given P, and (H, P) along tasks
       given O.
    2. Where both covariances are learned, the smaller one moves given H alone, the other one
       integrated out. The larger one is drawn right after it or, where it is O that is integrated
       out, P moves after its own draw and O is drawn next. Nothing looks at the covariance that was
       integrated out before it is drawn anew.
    3. P given H and O, and O given H and P.
    4. H and O once more on the new covariances, the cheapest cure of what is left.
    """
    n_tasks, n_features = H.shape
    S, r = work.S, work.r
    ones = np.ones(n_tasks)
    both = group_moves and learn_task and learn_feature
    if collapses:
        draw_tasks(rng, S, r, H, O, nu_task, scale_inverse)
    else:
        _draw_rows(rng, S, r, H, P, O)
    if group_moves and learn_feature:
        feature_moves(rng, S, r, ones, H, O, nu_feature)
    if group_moves and learn_task and not collapses:
        task_moves(rng, work.noise, S, r, H, P, nu_task, scale, scale_chol)
    if both and n_features <= n_tasks:
        collapsed_moves(rng, gram_of_tasks(H, scale_inverse), O, nu_feature, nu_task, n_tasks, n_features)
    if learn_task:
        draw_task_precision(rng, H, P, O, nu_task, scale)
    if both and n_features > n_tasks:
        collapsed_task_moves(rng, H, P, nu_task, nu_feature, scale_chol)
    if learn_feature:
        draw_feature_precision(rng, H, P, O, nu_feature)
    if group_moves and learn_feature:
        _draw_rows(rng, S, r, H, P, O)
        feature_moves(rng, S, r, ones, H, O, nu_feature)
        draw_feature_precision(rng, H, P, O, nu_feature)


@njit(cache=True, nogil=True)
def draw_task_precision(rng, H, P, O, nu_task, scale):
    """Draw the precision P of the tasks given H and the precision O of the features (li2014 eq 8)."""
    n_tasks, n_features = H.shape
    prior = np.eye(n_tasks) if scale.shape[0] == 0 else scale
    P[:] = wishart(rng, nu_task + n_features, prior + H @ O @ H.T)


@njit(cache=True, nogil=True)
def draw_feature_precision(rng, H, P, O, nu_feature):
    """Draw the precision O of the features given the coefficients H and the precision P of the tasks."""
    n_tasks, n_features = H.shape
    O[:] = wishart(rng, nu_feature + n_tasks, np.eye(n_features) + H.T @ times(P, H))

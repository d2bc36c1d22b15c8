r"""What the rows of each task say: sums over them, and least squares, for as many tasks as there are.

For task t with features :math:`X_t` and responses :math:`y_t`, times the roots of their weights where they have some,
these are :math:`S_t = X_t' X_t`, :math:`r_t = X_t' y_t`, the least-squares coefficients :math:`\hat w_t` of smallest
norm, and :math:`e_t = |y_t - X_t \hat w_t|^2`. They are all that a Gaussian likelihood knows of the rows:

.. math:: |y_t - X_t w|^2 = e_t + (w - \hat w_t)' S_t (w - \hat w_t).

This holds because :math:`X_t' (y_t - X_t \hat w_t) = 0`. A solution of the normal equations by a Cholesky factor has
that up to rounding, also where its error is large, since the method is backward stable; one more solution for the
residuals of the rows then removes most of the error. It is taken for the tasks whose factor has no small pivot. The
others, which have few rows or features that nearly determine each other, go through singular values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.triangular import solve_lower, solve_transposed
from zoo.inference.stacks import equal_sizes, smallest_least_squares

__all__ = ["TaskSums", "task_sums"]

# Share of a squared column that a pivot of the Cholesky factor must keep.
_LEAST_PIVOT = 1e-6


class TaskSums(NamedTuple):
    """Sums over the rows of each of T tasks, in D features.

    ``S`` (T, D, D); ``linear`` (T, D); ``centre`` (T, D), least squares; ``sse`` (T,), squared errors there; ``size``
    (T,), rows or the sum of their weights.
    """

    S: np.ndarray
    linear: np.ndarray
    centre: np.ndarray
    sse: np.ndarray
    size: np.ndarray


def task_sums(
    inputs: np.ndarray,
    row: np.ndarray,
    y: np.ndarray,
    task: np.ndarray,
    n_tasks: int,
    weight: np.ndarray | None = None,
    padded: int | None = None,
) -> TaskSums:
    """The sums of the tasks.

    Parameters
    ----------
    inputs, row : (n, D), (N,)
        Distinct inputs, and which of them each row has.
    y, task : (N,), (N,)
        Rows in any order.
    n_tasks : int
        Tasks; one without rows has sums of zero.
    weight : (N,), optional
        Weights of the rows.
    padded : int, optional
        Length of ``S``, ``linear`` and ``centre``, of which what lies behind the tasks is zero; default ``n_tasks``.

    Returns
    -------
    TaskSums
    """
    D, T = inputs.shape[1], n_tasks
    length = T if padded is None else padded
    order = np.argsort(task, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=T))])
    root = np.ones(1) if weight is None else np.sqrt(weight)
    sums = TaskSums(
        np.zeros((length, D, D)),
        np.zeros((length, D)),
        np.zeros((length, D)),
        np.zeros(T),
        np.bincount(task, weight, minlength=T).astype(np.float64),
    )
    inputs = np.ascontiguousarray(inputs, dtype=np.float64)
    hard = np.zeros(T, dtype=np.bool_)
    _sums(inputs, row, y, order, starts, root, sums.S, sums.linear, sums.centre, sums.sse, hard, _LEAST_PIVOT)
    for some, place in equal_sizes(starts, D, np.flatnonzero(hard)):
        at = order[place]
        scale = root[at] if weight is not None else root
        X, response = inputs[row[at]] * scale[..., None], y[at] * scale
        sums.centre[some] = smallest_least_squares(X, response[..., None])[..., 0]
        gap = response - np.einsum("tnd,td->tn", X, sums.centre[some])
        sums.sse[some] = np.sum(gap**2, axis=1)
    return sums


@njit(cache=True, nogil=True)
def _sums(inputs, row, y, order, starts, root, S, linear, centre, sse, hard, least_pivot):
    """Fill the sums; ``hard`` says of which tasks least squares are left to singular values."""
    D = inputs.shape[1]
    L, v = np.empty((D, D)), np.empty(D)
    for t in range(len(starts) - 1):
        first, last = starts[t], starts[t + 1]
        A, r, w = S[t], linear[t], centre[t]
        for k in range(first, last):
            n = order[k]
            h = root[n] if len(root) > 1 else root[0]
            x = inputs[row[n]]
            for i in range(D):
                xi = h * x[i]
                r[i] += xi * (h * y[n])
                for j in range(i + 1):
                    A[i, j] += xi * (h * x[j])
        for i in range(D):
            for j in range(i):
                A[j, i] = A[i, j]
        if first == last:
            continue
        hard[t] = last - first < D or not _factorised(A, L, least_pivot)
        if hard[t]:
            continue
        for i in range(D):
            w[i] = r[i]
        _solve(L, w)
        for again in range(2):  # residuals of the rows: a correction, and then their squares
            v[:] = 0.0
            total = 0.0
            for k in range(first, last):
                n = order[k]
                h = root[n] if len(root) > 1 else root[0]
                x = inputs[row[n]]
                gap = y[n]
                for i in range(D):
                    gap -= x[i] * w[i]
                gap *= h
                total += gap * gap
                for i in range(D):
                    v[i] += h * x[i] * gap
            if again == 0:
                _solve(L, v)
                for i in range(D):
                    w[i] += v[i]
        sse[t] = total


@njit(cache=True, nogil=True)
def _factorised(A, L, least_pivot):
    """Fill ``L`` with the lower Cholesky factor; whether no pivot is small."""
    D = A.shape[0]
    for j in range(D):
        pivot = A[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if not pivot > least_pivot * A[j, j]:
            return False
        L[j, j] = np.sqrt(pivot)
        for i in range(j + 1, D):
            value = A[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = value / L[j, j]
    return True


@njit(cache=True, nogil=True)
def _solve(L, b):
    """Solve ``L L' x = b`` in place."""
    solve_lower(L, b)
    solve_transposed(L, b)

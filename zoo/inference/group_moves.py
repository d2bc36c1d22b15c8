r"""Linear group moves for matrix-normal hierarchies.

Coefficients ``H`` (T x D, a row a task) have the prior log density, with ``P`` the inverse task covariance
and ``O`` the inverse feature covariance,

.. math:: \tfrac D2 \log|P| + \tfrac T2 \log|O| - \tfrac12 \operatorname{tr}(P H O H'),

the covariances are inverse-Wishart with identity scale, and given the augmentation of the likelihood each task
contributes :math:`-\tfrac12 h_t' S_t h_t + r_t' h_t`.

For an invertible ``E``, :math:`(H, R) \to (E H, E R E')` with :math:`R = P^{-1}` leaves the prior measure of
``H`` given ``R`` unchanged, and so does :math:`(H, \Omega) \to (H F', F \Omega F')` with :math:`\Omega = O^{-1}`.
Drawing the group element from [likelihood at the moved H] x [inverse-Wishart density at the moved covariance]
x [Jacobian of the move on the covariance] x [Haar measure] therefore keeps the posterior (Liu & Sabatti 2000,
Biometrika 87:353). Three families have closed or one-dimensional draws: shears, scales and the Kronecker swap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["feature_moves", "kronecker_swap", "task_moves"]


@njit(cache=True, nogil=True)
def _log_scale_density(s, linear, down, up, slope):
    # -down e^{-2s}/2 - up e^{2s}/2 + slope e^{s} + linear s: the law of a log scale in both families.
    return linear * s - 0.5 * down * np.exp(-2.0 * s) - 0.5 * up * np.exp(2.0 * s) + slope * np.exp(s)


@njit(cache=True, nogil=True)
def _slice_scale(rng, linear, down, up, slope):
    """One slice-sampling update (Neal 2003, stepping out and shrinkage) of a log scale from 0."""
    width = 0.5
    level = _log_scale_density(0.0, linear, down, up, slope) - rng.standard_exponential()
    left = -width * rng.random()
    right = left + width
    while _log_scale_density(left, linear, down, up, slope) > level:
        left -= width
    while _log_scale_density(right, linear, down, up, slope) > level:
        right += width
    while True:
        s = left + (right - left) * rng.random()
        if _log_scale_density(s, linear, down, up, slope) > level:
            return s
        if s < 0.0:
            left = s
        else:
            right = s


@njit(cache=True, nogil=True)
def _shear_precision(precision, index, c):
    """``(I - c e') P (I - e c')`` in place, with ``e`` the unit vector of ``index`` and ``c[index] = 0``."""
    n = len(c)
    row = precision[index].copy()
    diagonal = row[index]
    for i in range(n):
        ci = c[i]
        shift = diagonal * ci - row[i]
        for j in range(n):
            precision[i, j] += shift * c[j] - ci * row[j]


@njit(cache=True, nogil=True)
def _scale_precision(precision, index, factor):
    """Precision after the covariance's row and column ``index`` were multiplied by ``factor``."""
    n = precision.shape[0]
    for j in range(n):
        precision[index, j] /= factor
        precision[j, index] /= factor


@njit(cache=True, nogil=True)
def _strike(matrix, index):
    """Replace a row and column by the unit vector's, so that a solve leaves that entry alone."""
    for j in range(matrix.shape[0]):
        matrix[index, j] = 0.0
        matrix[j, index] = 0.0
    matrix[index, index] = 1.0


@njit(cache=True, nogil=True)
def task_moves(rng, weighted, starts, S, r, H, P, nu):
    r"""Shear and scale every task (row of ``H``), changing ``H`` and ``P`` in place.

    Shear of task t, :math:`h_t \to h_t + G c` with ``G`` the other tasks' rows as columns: unimodular, and
    :math:`\operatorname{tr} P` becomes :math:`\operatorname{tr} P - 2 P_{t,-t} c + P_{tt} c'c`, so ``c`` is
    Gaussian with precision :math:`P_{tt} I + G' S_t G` and linear term
    :math:`P_{-t,t} + G'(r_t - S_t h_t)`. It is drawn by perturbation (linear term plus noise with covariance
    equal to the precision, then one solve), in D dimensions where D < T (Woodbury).

    Scale of task t by :math:`e^s`: log density
    :math:`-\nu s - P_{tt} e^{-2s}/2 - (h_t' S_t h_t) e^{2s}/2 + (r_t' h_t) e^s`, by slice sampling.

    Parameters
    ----------
    weighted : (N, D)
        Rows ``sqrt(w_n) x_n`` sorted by task; task t holds rows ``starts[t]:starts[t + 1]``.
    S, r : (T, D, D), (T, D)
        Quadratic and linear term of each task.
    nu : float
        Degrees of freedom of the inverse-Wishart prior of the task covariance.
    """
    n_tasks, n_features = H.shape
    gram = H.T @ H
    for t in range(n_tasks):
        p = P[t, t]
        block = weighted[starts[t] : starts[t + 1]]
        noise = block.T @ rng.standard_normal(block.shape[0])
        h = H[t].copy()
        # u: linear term of c plus a draw with the precision as covariance; entry t is no part of c.
        u = P[t] + np.sqrt(p) * rng.standard_normal(n_tasks) + H @ (r[t] - S[t] @ h + noise)
        u[t] = 0.0
        if n_features < n_tasks:
            inner = S[t] @ (gram - np.outer(h, h))
            for d in range(n_features):
                inner[d, d] += p
            c = (u - H @ np.linalg.solve(inner, S[t] @ (H.T @ u))) / p
        else:
            inner = H @ S[t] @ H.T
            for s in range(n_tasks):
                inner[s, s] += p
            _strike(inner, t)
            c = np.linalg.solve(inner, u)
        c[t] = 0.0
        H[t] += H.T @ c
        _shear_precision(P, t, c)
        a = np.exp(_slice_scale(rng, -nu, P[t, t], H[t] @ (S[t] @ H[t]), r[t] @ H[t]))
        H[t] *= a
        _scale_precision(P, t, a)
        gram += np.outer(H[t], H[t]) - np.outer(h, h)


@njit(cache=True, nogil=True)
def feature_moves(rng, S, r, H, O, nu):
    r"""Shear and scale every feature (column of ``H``), changing ``H`` and ``O`` in place.

    Shear of feature d, :math:`h_{td} \to h_{td} + c' g_t` with :math:`g_t` the task's other coefficients:
    precision :math:`O_{dd} I + \sum_t (S_t)_{dd} g_t g_t'`, linear term
    :math:`O_{-d,d} + \sum_t (r_t - S_t h_t)_d g_t`; solved in T dimensions where T < D.
    Scale of feature d by :math:`e^s`: as for tasks with :math:`q = \sum_t (S_t)_{dd} h_{td}^2` and
    :math:`l = q + \sum_t h_{td} (r_t - S_t h_t)_d`.
    """
    n_tasks, n_features = H.shape
    residual = np.empty((n_tasks, n_features))
    for t in range(n_tasks):
        residual[t] = r[t] - S[t] @ H[t]
    curvature = np.empty(n_tasks)
    for d in range(n_features):
        o = O[d, d]
        for t in range(n_tasks):
            curvature[t] = max(S[t, d, d], 0.0)
        root = np.sqrt(curvature)
        u = O[d] + np.sqrt(o) * rng.standard_normal(n_features)
        u += H.T @ (residual[:, d] + root * rng.standard_normal(n_tasks))
        u[d] = 0.0
        B = H * root.reshape(-1, 1)
        B[:, d] = 0.0
        if n_tasks < n_features:
            inner = B @ B.T
            for t in range(n_tasks):
                inner[t, t] += o
            c = (u - B.T @ np.linalg.solve(inner, B @ u)) / o
        else:
            inner = B.T @ B
            for k in range(n_features):
                inner[k, k] += o
            _strike(inner, d)
            c = np.linalg.solve(inner, u)
        c[d] = 0.0
        change = H @ c
        _shear_precision(O, d, c)
        q = 0.0
        slope = 0.0
        for t in range(n_tasks):
            h = H[t, d] + change[t]
            q += curvature[t] * h * h
            slope += h * (residual[t, d] - curvature[t] * change[t])
        a = np.exp(_slice_scale(rng, -nu, O[d, d], q, q + slope))
        _scale_precision(O, d, a)
        for t in range(n_tasks):
            moved = a * (H[t, d] + change[t])
            step = moved - H[t, d]
            H[t, d] = moved
            for k in range(n_features):
                residual[t, k] -= S[t, k, d] * step


@njit(cache=True, nogil=True)
def kronecker_swap(rng, P, O, nu_task, nu_feature):
    r"""Move scale between the covariances, :math:`(\Omega, R) \to (c\,\Omega, R / c)`, in place.

    The prior of ``H`` and the likelihood do not change; the two inverse-Wisharts and the Jacobians give
    :math:`\log c = s` the log density
    :math:`(T \nu_R - D \nu_\Omega) s / 2 - e^{-s} \operatorname{tr}(O) / 2 - e^{s} \operatorname{tr}(P) / 2`.
    """
    n_tasks, n_features = P.shape[0], O.shape[0]
    linear = n_tasks * nu_task - n_features * nu_feature
    # With s = 2 s' the density is of the scales' form.
    c = np.exp(2.0 * _slice_scale(rng, linear, np.trace(O), np.trace(P), 0.0))
    P *= c
    O /= c

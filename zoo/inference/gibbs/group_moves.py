r"""Linear group moves for matrix-normal hierarchies.

Coefficients ``H`` (T x D, a row per task) have the prior log density, with ``P`` the inverse task covariance
and ``O`` the inverse feature covariance,

.. math:: \tfrac D2 \log|P| + \tfrac T2 \log|O| - \tfrac12 \operatorname{tr}(P H O H'),

the covariances are inverse-Wishart, that of tasks with scale :math:`\Psi` and that of features with identity scale
(a caller with another scale whitens its features), and given the augmentation of the likelihood each task
contributes :math:`-\tfrac12 h_t' S_t h_t + r_t' h_t`.

For an invertible ``E``, :math:`(H, R) \to (E H, E R E')` with :math:`R = P^{-1}` leaves the prior measure of
``H`` given ``R`` unchanged, and so does :math:`(H, \Omega) \to (H F', F \Omega F')` with :math:`\Omega = O^{-1}`.
Drawing the group element from [likelihood at the moved H] x [inverse-Wishart density at the moved covariance]
x [Jacobian of the move on the covariance] x [Haar measure] therefore keeps the posterior (Liu & Sabatti 2000,
Biometrika 87:353). Two families have closed or one-dimensional draws: shears and scales.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.slice_move import slice_move

__all__ = ["feature_moves", "slice_log_scale", "task_moves"]


@njit(cache=True, nogil=True)
def _log_scale_density(s, linear, down, up, slope, cross):
    # The law of a log scale: linear s - down e^{-2s}/2 - up e^{2s}/2 + slope e^{s} - cross e^{-s}.
    grown = np.exp(s)
    shrunk = 1.0 / grown
    return (
        linear * s - 0.5 * down * shrunk * shrunk - 0.5 * up * grown * grown + slope * grown - cross * shrunk
    )


@njit(cache=True, nogil=True)
def slice_log_scale(rng, linear, down, up, slope, cross):
    """A slice-sampling update of a log scale."""
    return slice_move(rng, _log_scale_density, (linear, down, up, slope, cross), 0.5, True)


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


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _solve_positive(A, b):
    """Solve with a positive definite matrix, whose lower triangle is used up.

    Two to three times as fast as LAPACK's general solve at the sizes of features and tasks. Where a
    pivot is not positive in float64, that general solve takes over, from the upper triangle.
    """
    n = len(b)
    diagonal = np.empty(n)
    for j in range(n):
        diagonal[j] = A[j, j]
    for j in range(n):
        for i in range(j, n):
            total = 0.0
            for k in range(j):
                total += A[i, k] * A[j, k]
            A[i, j] -= total
        if not A[j, j] > 0.0:
            for i in range(n):
                A[i, i] = diagonal[i]
                for k in range(i):
                    A[i, k] = A[k, i]
            return np.linalg.solve(A, b)
        inverse = 1.0 / np.sqrt(A[j, j])
        for i in range(j, n):
            A[i, j] *= inverse
    x = b.copy()
    for i in range(n):
        total = 0.0
        for k in range(i):
            total += A[i, k] * x[k]
        x[i] = (x[i] - total) / A[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= A[i, i]
        for k in range(i):
            x[k] -= A[i, k] * x[i]
    return x


@njit(cache=True, nogil=True)
def task_moves(rng, noise, S, r, H, P, nu, scale, scale_chol):
    r"""Shear and scale every task (row of ``H``), changing ``H`` and ``P`` in place.

    Shear of task t, :math:`h_t \to h_t + G c` with ``G`` the other tasks' rows as columns: unimodular, and
    :math:`\operatorname{tr} \Psi P` becomes
    :math:`\operatorname{tr} \Psi P - 2 (\Psi P)_{-t,t}' c + P_{tt}\, c' \Psi_{-t,-t} c`, so ``c`` is
    Gaussian with precision :math:`P_{tt} \Psi_{-t,-t} + G' S_t G` and linear term
    :math:`(\Psi P)_{-t,t} + G'(r_t - S_t h_t)`. It is drawn by perturbation (linear term plus noise with covariance
    equal to the precision, then one solve). That takes O(T^3) for each task, so it is for fewer tasks than features.

    Scale of task t by :math:`e^s`: log density :math:`-\nu s - \Psi_{tt} P_{tt} e^{-2s}/2
    - \sum_{j \ne t} \Psi_{tj} P_{tj} e^{-s} - (h_t' S_t h_t) e^{2s}/2 + (r_t' h_t) e^s`, by slice sampling.

    Parameters
    ----------
    noise : (T, D)
        Rows drawn from ``N(0, S_t)``, used up by this call.
    S, r : (T, D, D), (T, D)
        Quadratic and linear term of each task.
    nu : float
        Degrees of freedom of the inverse-Wishart prior of the task covariance.
    scale, scale_chol : (T, T), or (0, 0) for the identity
        Its scale matrix, and that matrix's lower Cholesky factor.
    """
    n_tasks, n_features = H.shape
    identity = scale.shape[0] == 0
    residual = np.empty(n_features)
    for t in range(n_tasks):
        p = P[t, t]
        h = H[t]
        residual[:] = r[t] + noise[t] - S[t] @ h
        # u: linear term of c plus a draw with the precision as covariance; entry t is no part of c.
        u = H @ residual
        root = np.sqrt(p)
        if identity:
            for s in range(n_tasks):
                u[s] += P[t, s] + root * rng.standard_normal()
        else:
            u += scale @ P[t] + root * (scale_chol @ rng.standard_normal(n_tasks))
        u[t] = 0.0
        inner = H @ S[t] @ H.T
        if identity:
            for s in range(n_tasks):
                inner[s, s] += p
        else:
            inner += p * scale
        _strike(inner, t)
        c = _solve_positive(inner, u)
        c[t] = 0.0
        moved = h + H.T @ c
        _shear_precision(P, t, c)
        down, cross = P[t, t], 0.0
        if not identity:
            down = scale[t, t] * P[t, t]
            cross = scale[t] @ P[t] - down
        a = np.exp(slice_log_scale(rng, -nu, down, moved @ (S[t] @ moved), r[t] @ moved, cross))
        _scale_precision(P, t, a)
        H[t] = a * moved


@njit(cache=True, nogil=True)
def feature_moves(rng, S, r, weight, H, O, nu):
    r"""Shear and scale every feature (column of ``H``), changing ``H`` and ``O`` in place.

    Shear of feature d, :math:`h_{td} \to h_{td} + c' g_t` with :math:`g_t` the task's other coefficients:
    precision :math:`O_{dd} I + \sum_t (S_t)_{dd} g_t g_t'`, linear term
    :math:`O_{-d,d} + \sum_t (r_t - S_t h_t)_d g_t`; solved in T dimensions where T < D.
    Scale of feature d by :math:`e^s`: as for tasks with :math:`q = \sum_t (S_t)_{dd} h_{td}^2` and
    :math:`l = q + \sum_t h_{td} (r_t - S_t h_t)_d`.

    The quadratic and the linear term of a task are ``S[t]`` and ``r[t]`` times ``weight[t]``.
    """
    n_tasks, n_features = H.shape
    residual = np.empty((n_tasks, n_features))
    for t in range(n_tasks):
        residual[t] = weight[t] * (r[t] - S[t] @ H[t])
    curvature = np.empty(n_tasks)
    target = np.empty(n_tasks)
    B = np.empty((n_tasks, n_features))
    for d in range(n_features):
        o = O[d, d]
        for t in range(n_tasks):
            curvature[t] = max(weight[t] * S[t, d, d], 0.0)
            root = np.sqrt(curvature[t])
            target[t] = residual[t, d] + root * rng.standard_normal()
            for k in range(n_features):
                B[t, k] = root * H[t, k]
            B[t, d] = 0.0
        u = O[d] + H.T @ target
        root = np.sqrt(o)
        for k in range(n_features):
            u[k] += root * rng.standard_normal()
        u[d] = 0.0
        if n_tasks < n_features:
            inner = B @ B.T
            for t in range(n_tasks):
                inner[t, t] += o
            c = (u - B.T @ _solve_positive(inner, B @ u)) / o
        else:
            inner = B.T @ B
            for k in range(n_features):
                inner[k, k] += o
            _strike(inner, d)
            c = _solve_positive(inner, u)
        c[d] = 0.0
        change = H @ c
        _shear_precision(O, d, c)
        q = 0.0
        slope = 0.0
        for t in range(n_tasks):
            h = H[t, d] + change[t]
            q += curvature[t] * h * h
            slope += h * (residual[t, d] - curvature[t] * change[t])
        a = np.exp(slice_log_scale(rng, -nu, O[d, d], q, q + slope, 0.0))
        _scale_precision(O, d, a)
        for t in range(n_tasks):
            moved = a * (H[t, d] + change[t])
            step = weight[t] * (moved - H[t, d])
            H[t, d] = moved
            for k in range(n_features):  # S is symmetric: its row d lies together in memory
                residual[t, k] -= S[t, d, k] * step

r"""Moves of one covariance of a matrix-normal hierarchy, the other covariance integrated out.

The hierarchy is that of :mod:`zoo.inference.gibbs.group_moves`: coefficients ``H`` (T x D),
:math:`R \sim IW(\nu_R, \Psi)` of tasks, :math:`\Omega \sim IW(\nu_\Omega, I)` of features, and

.. math:: p(H \mid \Omega, R) \propto |R|^{-D/2} |\Omega|^{-T/2} e^{-\frac12
    \operatorname{tr}(R^{-1} H \Omega^{-1} H')} .

Given H the likelihood says nothing more of either covariance, but they still hold each other: each
inverse-Wishart draw sees the other covariance at its last value, and what one direction of
:math:`\Omega` gains a direction of R has to lose. So R is integrated out. With
:math:`G = H' \Psi^{-1} H`,

.. math:: \int |R|^{-(\nu_R + T + D + 1)/2} e^{-\frac12 \operatorname{tr} R^{-1}(\Psi + H \Omega^{-1} H')} dR
    \propto |\Psi + H \Omega^{-1} H'|^{-(\nu_R + D)/2}
    \propto |\Omega|^{(\nu_R + D)/2}\, |\Omega + G|^{-(\nu_R + D)/2},

and, with the two other factors that hold :math:`\Omega`,

.. math:: p(\Omega \mid H) \propto |\Omega|^{-(\nu_\Omega + T + 1 - \nu_R)/2}\,
    e^{-\frac12 \operatorname{tr} \Omega^{-1}}\, |\Omega + G|^{-(\nu_R + D)/2} . \quad (C1)

A move is :math:`\Omega \to F \Omega F'` with :math:`F = I + a\, p q'`. A scale has p = q, a unit
vector, and :math:`a = e^s - 1`; a shear has p orthogonal to q and a = s. Both are one-parameter
groups with the Haar measure ds, so drawing s from (C1) at :math:`F \Omega F'` times the Jacobian
:math:`|F|^{D+1}` of the move keeps (C1) (Liu & Sabatti 2000, Biometrika 87:353). With
:math:`w = \Omega q`, :math:`m = q'w`, :math:`F^{-1} = I + c\, p q'` (:math:`c = e^{-s} - 1` or -s),
:math:`v = \Omega^{-1} p`, :math:`k = p'v` and :math:`N = (\Omega + G)^{-1}`,

.. math::

    F \Omega F' &= \Omega + a (p w' + w p') + a^2 m\, p p' , \\
    \operatorname{tr} (F \Omega F')^{-1} - \operatorname{tr} \Omega^{-1} &= 2 c\, q'v + c^2 k , \\
    \frac{|F \Omega F' + G|}{|\Omega + G|} &= \left| I_2 + \begin{pmatrix} a^2 m & a \\ a & 0
    \end{pmatrix} \begin{pmatrix} p'Np & p'Nw \\ w'Np & w'Nw \end{pmatrix} \right| , \quad (C2)

so that the density of s costs a few operations, and s is drawn by slice sampling. Then
:math:`\Omega`, :math:`\Omega^{-1}` and N change by rank two.

The directions are eigenvectors of G: they hang on H alone, which the moves leave as it is. In that
basis p and q are coordinate axes.

The sweep has to draw R given H and the new :math:`\Omega` before anything else looks at R. With the
roles of tasks and features exchanged, whitened by :math:`\Psi`, the same function moves R with
:math:`\Omega` integrated out.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.slice_move import slice_move

__all__ = ["collapsed_moves", "collapsed_task_moves", "log_density_of_move"]


@njit(cache=True, nogil=True)
def log_density_of_move(s, shear, law):
    """Log density of a move, 0 at ``s = 0``: (C1), (C2) and the Jacobian.

    ``law`` holds the coefficient of s of a scale, ``nu_R + D``, then ``k``, ``q'v``, ``m``,
    ``p'Np``, ``p'Nw`` and ``w'Nw``.
    """
    linear, power, k, qv, m, pp, pw, ww = law
    a, c = (s, -s) if shear else (np.exp(s) - 1.0, np.exp(-s) - 1.0)
    b = a * a * m
    determinant = (1.0 + b * pp + a * pw) * (1.0 + a * pw) - (b * pw + a * ww) * a * pp
    if not determinant > 0.0:
        return -np.inf
    jacobian = 0.0 if shear else linear * s
    return jacobian - 0.5 * (2.0 * c * qv + c * c * k) - 0.5 * power * np.log(determinant)


@njit(cache=True, nogil=True)
def _move(rng, i, j, linear, power, cov, precision, inverse):
    """Scale axis ``i`` (``i == j``), or shear with ``p`` axis i and ``q`` axis j; all change in place.

    ``inverse`` is N.
    """
    n = len(cov)
    shear = i != j
    w = cov[:, j].copy()
    v = precision[:, i].copy()
    Np = inverse[:, i].copy()
    Nw = inverse @ w
    law = (linear, power, v[i], v[j], w[j], Np[i], Nw[i], w @ Nw)
    # A shear is as wide as its prior law given the rest; a scale changes by a factor of some two.
    width = 1.0 / np.sqrt(v[i]) if shear else 0.5
    s = slice_move(rng, log_density_of_move, (shear, law), width, True)
    if s == 0.0:
        return
    a, c = (s, -s) if shear else (np.exp(s) - 1.0, np.exp(-s) - 1.0)
    b = a * a * law[4]
    # (I + B U'NU)^-1 B, with B and U'NU as in (C2).
    e00, e01 = 1.0 + b * law[5] + a * law[6], b * law[6] + a * law[7]
    e10, e11 = a * law[5], 1.0 + a * law[6]
    determinant = e00 * e11 - e01 * e10
    k00 = (e11 * b - e01 * a) / determinant
    k01 = e11 * a / determinant
    k11 = -e10 * a / determinant
    for r in range(n):
        left, right = k00 * Np[r] + k01 * Nw[r], k01 * Np[r] + k11 * Nw[r]
        for t in range(n):
            inverse[r, t] -= left * Np[t] + right * Nw[t]
    for r in range(n):
        cov[i, r] += a * w[r]
        precision[j, r] += c * v[r]
    for r in range(n):
        cov[r, i] += a * w[r]
        precision[r, j] += c * v[r]
    cov[i, i] += b
    precision[j, j] += c * c * law[2]


@njit(cache=True, nogil=True)
def collapsed_moves(rng, gram, precision, nu, nu_other, n_other, shears):
    """Scale every direction of a covariance and shear random pairs, the other one integrated out.

    Parameters
    ----------
    rng : numpy.random.Generator
    gram : (n, n) float64
        G: for features ``H' Psi^-1 H``, for tasks ``H H'`` of whitened rows.
    precision : (n, n) float64
        Inverse of the covariance that moves, whose prior has the identity for its scale matrix.
        Changed in place.
    nu, nu_other : float
        Degrees of freedom of its prior, and of the prior of the other covariance.
    n_other : int
        Size of the other covariance.
    shears : int
        How many random pairs.
    """
    n = len(gram)
    basis = np.ascontiguousarray(np.linalg.eigh(gram)[1])
    turned = basis.T @ precision @ basis
    cov = np.linalg.inv(turned)
    cov = 0.5 * (cov + cov.T)
    inverse = np.linalg.inv(cov + basis.T @ gram @ basis)
    inverse = 0.5 * (inverse + inverse.T)
    power = nu_other + n
    linear = -(nu + n_other + 1.0 - nu_other) + (n + 1.0)
    for i in range(n):
        _move(rng, i, i, linear, power, cov, turned, inverse)
    if n > 1:
        for _ in range(shears):
            i = rng.integers(0, n)
            j = (i + 1 + rng.integers(0, n - 1)) % n
            _move(rng, i, j, linear, power, cov, turned, inverse)
    moved = basis @ turned @ basis.T
    precision[:] = 0.5 * (moved + moved.T)


@njit(cache=True, nogil=True)
def collapsed_task_moves(rng, H, P, nu_task, nu_feature, scale_chol):
    """The same of the task covariance, on tasks that its scale matrix whitens; changes ``P`` in place."""
    n_tasks, n_features = H.shape
    if scale_chol.shape[0] == 0:
        collapsed_moves(rng, H @ H.T, P, nu_task, nu_feature, n_features, n_tasks)
        return
    back = np.linalg.inv(scale_chol)
    white = back @ H
    turned = scale_chol.T @ P @ scale_chol
    collapsed_moves(rng, white @ white.T, turned, nu_task, nu_feature, n_features, n_tasks)
    P[:] = back.T @ turned @ back

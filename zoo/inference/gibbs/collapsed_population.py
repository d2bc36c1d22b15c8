r"""Moves of the population's covariance with the coefficients that tasks hardly know integrated
out.

Where few tasks determine a combination of the coefficients, as where features are constant or
nearly so within tasks, its coefficients given the population are drawn from the prior, and the
population given them hardly moves: the plain sweep of :mod:`zoo.inference.gibbs.normal_inverse_wishart`
crawls. The cure is to move the population while these coefficients are integrated out. The features
here are those of that kernel, whitened and turned so that the last m coefficients z are loose
(:mod:`zoo.inference.gibbs.loose_directions` finds them) and the first r = D - m are known: :math:`w_t =
(u_t, z_t)`.

**The population as a regression.** With :math:`P = C^{-1}`, :math:`\Pi = P_{zz}`, :math:`R =
\Pi^{-1}`, :math:`B = -R P_{zu}`, :math:`c = \mu_z - B \mu_u`, :math:`\Theta = (c, B)` and
:math:`x_t = (1, u_t)`,

.. math:: z_t \mid u_t \sim N(\Theta x_t, R), \qquad u_t \sim N(\mu_u, C_{uu}) \tag{1}

and the prior, :math:`C \sim IW(\nu, I)` and :math:`\mu \mid C \sim N(0, C / \pi)`, is (Dawid 1981;
:math:`\nu` textbook)

.. math::

    R \sim IW(\nu, I_m), \quad \Theta \mid R \sim N(0, \Lambda^{-1} \otimes R), \quad
    \Lambda = \operatorname{diag}(\pi, 1, \dots, 1), \tag{2}

independent of :math:`(\mu_u, C_{uu})`. The map from :math:`(\mu, C)` to :math:`(\mu_u, C_{uu}, R,
\Theta)` has a Jacobian that depends on :math:`C_{uu}` alone, which no move changes.

**The coefficients integrated out.** With :math:`S_t = X_t' W_t X_t / \sigma_t^2`, :math:`M_t = \Pi
+ (S_t)_{zz}` and :math:`e_t = (X_t' W_t (y_t - X_t (u_t, \Theta x_t)))_z / \sigma_t^2`, up to a
constant

.. math::

    \log p(y \mid u, R, \Theta, \sigma) = \tfrac12 \sum_t \left( \log|\Pi| - \log|M_t| + e_t' M_t^{-1} e_t \right).
    \tag{3}

**Scales and shears, given** :math:`u, \mu_u, C_{uu}, \Theta, \sigma`. :math:`R \to F R F'` with
:math:`F = I + a p q'`, where ``p`` and ``q`` are axes: a scale for p = q, with :math:`a = e^s - 1`
and Jacobian :math:`e^{(m + 1) s}`; a shear for :math:`p \perp q`, with :math:`a = s` and Jacobian
1. Both are groups in s, so s is drawn from [target at the moved R] x [Jacobian] (Liu & Sabatti
2000, Biometrika 87:353). As :math:`F^{-1} = I + b p q'` with :math:`b = e^{-s} - 1` or :math:`-s`,

.. math:: \Pi \to \Pi + b (q v' + v q') + b^2 k\, q q', \qquad v = \Pi p, \quad k = p' \Pi p, \tag{4}

that is :math:`U E U'` with :math:`U = (q, v)`, :math:`E = \begin{pmatrix} b^2 k & b \\ b & 0
\end{pmatrix}`. With :math:`H_t = U' M_t^{-1} U` and :math:`h_t = U' M_t^{-1} e_t` determinant and
quadratic form of each task are 2 x 2 (:math:`|I + E H_t| = (1 + b H_{12})^2 + b^2 H_{11} (k - H_{22})`,
a sum of two terms that are not negative):

.. math::

    |M_t| \to |M_t|\, |I + E H_t|, \qquad
    e_t' M_t^{-1} e_t \to e_t' M_t^{-1} e_t - h_t' (I + E H_t)^{-1} E\, h_t, \tag{5}

and with :math:`\Psi = I + \Theta \Lambda \Theta'` the log density of s from (2), (3) and the
Jacobian is

.. math::

    -(\nu + r + 1 + T)\, s\, [\text{scale}] - b\, q' \Psi v - \tfrac12 b^2 k\, q' \Psi q
    - \tfrac12 \sum_t \left( \log|I + E H_t| + h_t' (I + E H_t)^{-1} E\, h_t \right): \tag{6}

:math:`\log|R|` grows by 2s and has the factor :math:`-(\nu + m + 1 + r + 1 + T) / 2`, of which the
Jacobian takes :math:`m + 1` back. A slice finds s. Half of the slices begin with an interval of
width 0.5 that steps out, half with one of a random width that does not: it also reaches a second
mode (Neal 2003, Annals of Statistics 31:705).

**Learned scales.** Where :math:`\Psi` is :math:`\operatorname{diag}(g^2)` with unknown g
(:mod:`zoo.inference.gibbs.feature_scales`), scales and shears are taken with g integrated out as
well: held, it would keep C near its size. In place of :math:`e^{-\frac12 \operatorname{tr} P}` the
prior of C then has :math:`\prod_d (P_{dd} + h_d)^{-(\nu + 1) / 2}`, where :math:`h_d = g_d^2 / s^2` in
features whitened by the g that is left behind. So :math:`\Psi` of (6) keeps :math:`\pi c c'` alone,
and (6) has :math:`-\tfrac12 (\nu + 1) \sum_d \log(P_{dd} + h_d)` in addition. By (4) the move changes
:math:`P_{qq}` of the loose coefficients, and of the known ones, with column :math:`B_d` of B, as
:math:`P_{dd} = (C_{uu}^{-1})_{dd} + B_d' \Pi B_d`,

.. math:: P_{dd} \to P_{dd} + 2 b\, B_{qd}\, B_d' v + b^2 k\, B_{qd}^2. \tag{9}

Reflections are taken with g integrated out too, since with g held no two features could exchange
the roles that their scales give them. There only c is integrated out of :math:`\Theta`, whose law has
no g, and B is held: then (8) has k = 1, and the prior of R is that of P above. After that c is drawn,
then g given C, and then all of :math:`\Theta` given g.

**Reflections, given** :math:`u, \mu_u, C_{uu}, \sigma`, **with** :math:`\Theta` **integrated out
too.** Where each task belongs to one of two groups that a feature tells apart, the data know the
variance of the effects in either group, and nothing of their correlation: the posterior has a mode
near either sign, which no small step joins. With p a direction that tasks of one group cannot see
and q what those of the other do see, :math:`q'p = 1`, :math:`F = I - 2 p q' = F^{-1}` changes the
sign of the correlation and neither variance. ``p`` and ``q`` come from the data alone, :math:`|\det
F| = 1`, so it is a Metropolis step. Given R, :math:`\Theta` is Gaussian: with :math:`K_t = \Pi -
\Pi M_t^{-1} \Pi` and :math:`e_t` at :math:`\Theta = 0`,

.. math::

    Q = \Lambda \otimes \Pi + \sum_t x_t x_t' \otimes K_t, \quad l = \sum_t x_t \otimes \Pi M_t^{-1} e_t, \quad
    \operatorname{vec} \Theta \sim N(Q^{-1} l, Q^{-1}), \tag{7}

.. math::

    \log p(y \mid u, R, \sigma) = \tfrac12 \sum_t \left( \log|\Pi| - \log|M_t| + e_t' M_t^{-1} e_t \right)
    + \tfrac12 \left( (r + 1) \log|\Pi|\, [\text{of the prior}] - \log|Q| + l' Q^{-1} l \right). \tag{8}

**The mean and the regression**, :math:`\Theta` given :math:`u, R, \sigma`: one draw from (7). Where
it has more than 120 numbers, only its first columns are moved, c before all, and the others are
held: they stay in :math:`e_t`, and in the prior of R, which has :math:`\Psi` of them for I.

**What is conditioned on what.** All steps here keep the law of :math:`(\mu, C, u, \sigma)` given y
with z integrated out, so z of the state is stale after them. The next step of the sweep draws all
of w given :math:`(\mu, C, \sigma)`, before anything conditions on z; the noise and :math:`(\mu, C)`
are drawn given that w. Reflections come after the scales and shears and just before the draw of
:math:`\Theta`, because they leave :math:`\Theta` stale in turn.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.collapsed_regression import draw_regression
from zoo.inference.gibbs.loose_space import invert, residuals, times
from zoo.inference.gibbs.population_steps import LANES
from zoo.inference.gibbs.slice_move import slice_move

__all__ = ["collapsed_moves", "moves_without_scales", "regression_given_scales"]

# Logarithms of the narrowest and the widest first interval of a slice that does not step out.
_NARROW, _WIDE = -2.0, 4.0
_SCALE, _SHEAR = 0, 1
# A scale that changes variances by more than the square of exp(12) is no move: of a direction that no task sees the
# determinant shrinks as much, and float64 has no digits left for it.
_FAR = 12.0
# Scales, and as many shears, in a sweep.
_MOST_AXES = 6


@njit(cache=True, nogil=True, error_model="numpy")
def _shrink(space, axis, v):
    """Fill ``solved`` and ``small`` for U = (q, v), with q the unit vector of ``axis``."""
    m = len(v)
    space.small[:] = 0.0
    for block in range(space.small.shape[0]):
        A, e, h = space.inverse[block], space.residual[block], space.small[block]
        x, z = space.solved[block, 0], space.solved[block, 1]
        for j in range(m):
            for b in range(LANES):
                x[j, b] = A[max(axis, j), min(axis, j), b]
        times(A, v, z)
        for b in range(LANES):
            h[0, b] = x[axis, b]
        for i in range(m):
            for b in range(LANES):
                h[1, b] += v[i] * x[i, b]
                h[2, b] += v[i] * z[i, b]
                h[3, b] += e[i, b] * x[i, b]
                h[4, b] += e[i, b] * z[i, b]


@njit(cache=True, nogil=True, error_model="numpy")
def _log_density(s, kind, law, small, power, diagonal):
    """Equation (6); ``law`` holds :math:`-(nu + r + 1 + T), q' Psi v, q' Psi q, k`.

    ``power`` is :math:`nu + 1` where scales are learned, and ``diagonal`` (3, n) holds their :math:`P_{dd} + h_d`, and
    what (9) adds to them.
    """
    if kind == _SCALE and np.abs(s) > _FAR:
        return -np.inf
    b = np.expm1(-s) if kind == _SCALE else -s
    square = b * b * law[3]
    total = -b * law[1] - 0.5 * square * law[2]
    if kind == _SCALE:
        total += law[0] * s
    for d in range(diagonal.shape[1]):
        now = diagonal[0, d] + 2.0 * b * diagonal[1, d] + square * diagonal[2, d]
        if not now > 0.0:
            return -np.inf
        total -= 0.5 * power * np.log(now)
    gain = 0.0
    for block in range(small.shape[0]):
        h = small[block]
        product, least = 1.0, 1.0
        for t in range(LANES):
            first, seen = 1.0 + b * h[1, t], b * b * (law[3] - h[2, t])
            det = first * first + h[0, t] * seen
            least = min(least, det)
            product *= det
            gain += (
                seen * h[3, t] * h[3, t]
                + 2.0 * first * b * h[3, t] * h[4, t]
                - b * b * h[0, t] * h[4, t] * h[4, t]
            ) / det
        # A product that has left the range of float64 is no density either.
        if not (least > 0.0 and product > 0.0):
            return -np.inf
        total -= 0.5 * np.log(product)
    return total - 0.5 * gain


@njit(cache=True, nogil=True, error_model="numpy")
def _diagonal(theta, v, q, values):
    """What (9) changes, as :func:`_log_density` wants it: of the known coefficients, and of the loose one ``q``."""
    m, known = theta.shape[0], theta.shape[1] - 1
    if len(values) == 0:
        return np.empty((3, 0))
    found = np.empty((3, known + 1))
    for d in range(known):
        pull = 0.0
        for i in range(m):
            pull += theta[i, 1 + d] * v[i]
        found[0, d], found[1, d], found[2, d] = values[d], theta[q, 1 + d] * pull, theta[q, 1 + d] ** 2
    found[0, known], found[1, known], found[2, known] = values[known + q], v[q], 1.0
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _law_of_scales(theta, nu, pi, tied, lanes, learned):
    r"""Factor of s in equation (6), with T for all lanes, since an empty one takes 1 back; :math:`\Psi`; the power."""
    m, known = theta.shape[0], theta.shape[1] - 1
    psi = pi * np.outer(theta[:, 0], theta[:, 0])
    if not learned:
        B = np.ascontiguousarray(theta[:, 1:])
        psi += np.eye(m) + B @ B.T
    return -(nu + known + tied + lanes), psi, nu + 1.0 if learned else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _move(rng, space, precision, psi, p, q, linear, power, theta, values):
    """Scale (p = q) or shear along axes: changes ``precision``, the inverses in ``space`` and ``values`` (D,)."""
    m, known = precision.shape[0], theta.shape[1] - 1
    kind = _SCALE if p == q else _SHEAR
    v = precision[p].copy()
    k = v[p]
    _shrink(space, q, v)
    law = (linear, psi[q] @ v, psi[q, q], k)
    steps_out = rng.random() < 0.5
    width = 0.5 if steps_out else np.exp(_NARROW + (_WIDE - _NARROW) * rng.random())
    diagonal = _diagonal(theta, v, q, values)
    s = slice_move(rng, _log_density, (kind, law, space.small, power, diagonal), width, steps_out)
    if s == 0.0:
        return
    b = np.expm1(-s) if kind == _SCALE else -s
    square = b * b * k
    for j in range(diagonal.shape[1]):
        at = j if j < known else known + q
        values[at] += 2.0 * b * diagonal[1, j] + square * diagonal[2, j]
    for i in range(m):
        precision[q, i] += b * v[i]
        precision[i, q] += b * v[i]
    precision[q, q] += square
    c, d = np.empty((m, LANES)), np.empty((m, LANES))
    for block in range(space.small.shape[0]):
        A, h = space.inverse[block], space.small[block]
        x, z = space.solved[block, 0], space.solved[block, 1]
        for t in range(LANES):
            first, seen = 1.0 + b * h[1, t], b * b * (k - h[2, t])
            det = first * first + h[0, t] * seen
            for i in range(m):
                c[i, t] = (seen * x[i, t] + first * b * z[i, t]) / det
                d[i, t] = (first * b * x[i, t] - b * b * h[0, t] * z[i, t]) / det
        for i in range(m):
            for j in range(i + 1):
                for t in range(LANES):
                    A[i, j, t] -= c[i, t] * x[j, t] + d[i, t] * z[j, t]


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(space, W, mu, P, tied, n_tasks):
    """The precision of the loose coefficients and their regression; fills the regressors."""
    D, (m, k) = len(mu), (space.residual.shape[1], space.regressors.shape[1])
    known = D - m
    precision = P[known:, known:].copy()
    theta = np.zeros((m, 1 + known))
    theta[:, 0] = mu[known:]
    if known > 0:
        theta[:, 1:] = -np.linalg.solve(precision, np.ascontiguousarray(P[known:, :known]))
        theta[:, 0] -= np.ascontiguousarray(theta[:, 1:]) @ mu[:known]
    for t in range(n_tasks):
        space.regressors[t, 0] = tied
        for i in range(1, k):
            space.regressors[t, i] = W[t // LANES, i - 1, t % LANES]
    return precision, theta


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(precision, theta, mu, P, C):
    """Put both into ``mu`` and ``P``; of ``C`` only the part of the known coefficients is read."""
    known = theta.shape[1] - 1
    mu[known:] = theta[:, 0]
    P[known:, known:] = precision
    if known > 0:
        B = np.ascontiguousarray(theta[:, 1:])
        mu[known:] += B @ mu[:known]
        cross = -precision @ B
        P[known:, :known] = cross
        P[:known, known:] = cross.T
        P[:known, :known] = np.linalg.inv(np.ascontiguousarray(C[:known, :known])) - B.T @ cross


@njit(cache=True, nogil=True, error_model="numpy")
def _scales_and_shears(rng, tasks, space, W, inverse_noise, precision, theta, nu, pi, tied, values):
    """Changes ``precision``, and ``values`` (D,) where scales are learned."""
    m, lanes = theta.shape[0], space.residual.shape[0] * LANES
    residuals(tasks, inverse_noise, W, theta, space.residual)
    linear, psi, power = _law_of_scales(theta, nu, pi, tied, lanes, len(values) > 0)
    invert(tasks, inverse_noise, precision, space.inverse)
    start = rng.integers(0, m)
    for i in range(min(m, _MOST_AXES)):
        axis = (start + i) % m
        _move(rng, space, precision, psi, axis, axis, linear, power, theta, values)
        if m > 1:
            q = rng.integers(0, m)
            _move(rng, space, precision, psi, (q + rng.integers(1, m)) % m, q, linear, power, theta, values)


@njit(cache=True, nogil=True, error_model="numpy")
def collapsed_moves(rng, tasks, space, W, mu, P, C, inverse_noise, nu, pi, tied, n_tasks, reflections, tries):
    """All steps above, changing ``mu`` and ``P``; ``C`` and the loose coefficients in ``W`` are stale afterwards.

    ``tied``: 1, or 0 where coefficients are those around a mean with a law of its own. Then there is no constant c:
    ``mu`` is 0, and what it becomes means nothing.
    """
    precision, theta = _enter(space, W, mu, P, tied, n_tasks)
    _scales_and_shears(rng, tasks, space, W, inverse_noise, precision, theta, nu, pi, tied, np.empty(0))
    given = (reflections, tries, 0.0, np.empty(0))
    draw_regression(rng, tasks, inverse_noise, space, W, precision, theta, pi, *given)
    _leave(precision, theta, mu, P, C)


@njit(cache=True, nogil=True, error_model="numpy")
def moves_without_scales(
    rng, tasks, space, constant, W, mu, P, C, inverse_noise, nu, pi, tied, n_tasks, reflections, tries, ridge
):  # fmt: skip
    """Scales, shears, reflections and c with learned scales of features integrated out; ``ridge`` (D,) is h.

    ``constant`` is ``space`` with the constant as its only regressor.
    """
    precision, theta = _enter(space, W, mu, P, tied, n_tasks)
    values = np.diag(P) + ridge
    _scales_and_shears(rng, tasks, space, W, inverse_noise, precision, theta, nu, pi, tied, values)
    B = np.ascontiguousarray(theta[:, 1:])
    known = B.shape[1]
    values[:known] -= np.sum(B * (precision @ B), axis=0)
    values[known:] = ridge[known:]
    law = (reflections, tries, nu + 1.0, values)
    draw_regression(rng, tasks, inverse_noise, constant, W, precision, theta, pi, *law)
    _leave(precision, theta, mu, P, C)


@njit(cache=True, nogil=True, error_model="numpy")
def regression_given_scales(rng, tasks, space, W, mu, P, C, inverse_noise, pi, tied, n_tasks, reflections):
    """The regression after these, without reflections."""
    precision, theta = _enter(space, W, mu, P, tied, n_tasks)
    given = (reflections, 0, 0.0, np.empty(0))
    draw_regression(rng, tasks, inverse_noise, space, W, precision, theta, pi, *given)
    _leave(precision, theta, mu, P, C)

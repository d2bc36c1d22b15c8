r"""Coefficients that all tasks share, beside those of each task.

.. math:: f_n = x_n' w_{t(n)} + s_n' \beta, \quad \beta \sim N(0, \tau^2 I)

with :math:`\tau` given, or half-normal. Given what makes the likelihood Gaussian, row n adds
:math:`-\tfrac12 k_n f_n^2 + v_n f_n` to the log density. A feature that stands still within tasks
competes with the coefficients of these: given :math:`w_t`, of which many rows tell, :math:`\beta`
hardly moves. The two hierarchies get over it in two ways.

**Normal-inverse-Wishart: coefficients integrated out.** With :math:`K_t = X_t' k X_t`,
:math:`B_t = X_t' k S_t`, :math:`F_t = S_t' k S_t`, :math:`r_t = X_t' v`, :math:`g_t = S_t' v`,
:math:`P = C^{-1}` and :math:`M_t = K_t + P`, the log density of task t is

.. math::

    -\tfrac12 w' K_t w + w'(r_t - B_t \beta) - \tfrac12 \beta' F_t \beta + g_t' \beta
    - \tfrac12 (w - \mu)' P (w - \mu) .

With :math:`V_t = [P, -B_t]` and :math:`\theta = (\mu, \beta)`, :math:`w_t` has the precision
:math:`M_t` and the linear term :math:`r_t + V_t \theta`. Integrated out it leaves :math:`\theta` normal with

.. math::

    \Lambda = \mathrm{diag}(\pi P, \tau^{-2} I) + \sum_t \mathrm{diag}(P, F_t) - V_t' M_t^{-1} V_t,
    \qquad h = \sum_t (0, g_t) + V_t' M_t^{-1} r_t .

A draw of :math:`\theta`, and of every :math:`w_t` right after it, is one joint draw of
:math:`(\mu, \beta, w)` given C, the noise and the auxiliary variables.

**Matrix normal: two parametrisations in turn** (Yu & Meng 2011). The coefficients of all tasks
depend on each other, so they are not integrated out. :math:`\beta` is drawn once given :math:`h_t`,
and once given :math:`\tilde h_t = h_t + A_t \beta`, where :math:`A_t` holds the least-squares
coefficients of :math:`S_t` on :math:`X_t`. There :math:`f_n = x_n' \tilde h_t + e_n' \beta` with the residuals
:math:`e_n = s_n - A_t' x_n`, which are 0 for a feature that stands still where tasks have an
intercept. The prior of :math:`h_t = \tilde h_t - A_t \beta` then tells of :math:`\beta`: with the precisions P of tasks
and O of features it adds :math:`\sum_{tu} P_{tu} A_t' O A_u` to the precision of :math:`\beta`, and
:math:`\sum_{tu} P_{tu} A_t' O \tilde h_u` to its linear term. Both draws condition on the same auxiliary variables.
:math:`A_t` depends on the features alone.

A learned covariance R of the tasks is drawn given all H, and then holds H, and :math:`\beta` with it, where they are.
So where R is learned the second draw has it integrated out: with :math:`H(\beta) = \tilde H - A \beta` (T, D)
and :math:`R \sim IW(\nu, \Psi)` the prior part of its log density is

.. math:: -\tfrac{\nu + D}{2} \log |\Psi + H(\beta) O H(\beta)'|
    = -\tfrac{\nu + D}{2} \log |O^{-1} + H(\beta)' \Psi^{-1} H(\beta)| + \text{const},

in which each entry of :math:`\beta` moves by a slice. R given H and O is drawn right after it, before anything looks
at R (a partially collapsed sampler, van Dyk & Park 2008).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.draws import wishart
from zoo.inference.gibbs.slice_move import slice_move
from zoo.inference.gibbs.task_rows import Rows
from zoo.inference.run.chains import put_back

__all__ = [
    "SharedFeatures",
    "SharedState",
    "draw_scale",
    "draw_with_coefficients",
    "draw_with_population",
    "draw_without_task_cov",
    "regressions_of_shared",
]

# Width of the first interval of the slice for the logarithm of a learned scale.
_WIDTH = 1.0


class SharedFeatures(NamedTuple):
    """Features whose coefficient all tasks share, as a factory hands them to an engine.

    Parameters
    ----------
    rows : (N, S)
        In the order of the responses.
    scale : float
        Standard deviation of the prior; where it is learned, the scale of its half-normal law.
    learned : bool
        Whether it is.
    """

    rows: np.ndarray
    scale: float
    learned: bool = False

    def start(self, rng: np.random.Generator) -> SharedState:
        """A dispersed starting state."""
        spread = 0.1 * min(self.scale, 1.0)
        beta = np.asarray(spread * rng.standard_normal(self.rows.shape[1]))
        return SharedState(beta, np.array([self.scale]))


class SharedState(NamedTuple):
    """The current coefficients (S,), and the standard deviation (1,) of their prior."""

    beta: np.ndarray
    scale: np.ndarray

    def record(self, features: SharedFeatures) -> dict[str, Any]:
        """What a draw of the chain holds of them."""
        draw = {"shared_coefficients": self.beta.copy()}
        return {**draw, "shared_scale": self.scale[0]} if features.learned else draw

    def put(self, values: dict[str, Any]) -> None:
        """Fill them from a draw."""
        self.beta[:] = values["shared_coefficients"]
        if "shared_scale" in values:
            self.scale[:] = values["shared_scale"]

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of both."""
        return {"shared beta": self.beta.copy(), "shared scale": self.scale.copy()}

    def restore(self, snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        own = {"shared beta": self.beta, "shared scale": self.scale}
        put_back(own, snapshot, own)


@njit(cache=True, nogil=True)
def _log_density_of_scale(u, n, squares, now, spread):
    """Log density of the scale ``now * exp(u)``, with the Jacobian of its logarithm."""
    scale = now * np.exp(u)
    return (1.0 - n) * u - 0.5 * squares / (scale * scale) - 0.5 * (scale / spread) ** 2


@njit(cache=True, nogil=True)
def draw_scale(rng, beta, scale, spread):
    """Move the learned standard deviation of the prior, ``scale`` (1,), by one slice of its logarithm."""
    arguments = (float(len(beta)), np.sum(beta * beta), scale[0], spread)
    scale[0] *= np.exp(slice_move(rng, _log_density_of_scale, arguments, _WIDTH, True))


@njit(cache=True, nogil=True)
def _draw_normal(rng, precision, linear):
    """A draw with this precision and linear term."""
    factor = np.linalg.cholesky(precision)
    z = np.linalg.solve(factor, linear)
    for i in range(len(z)):
        z[i] += rng.standard_normal()
    return np.linalg.solve(factor.T, z)


@njit(cache=True, nogil=True)
def _solve_lower(L, B):
    """Replace the columns of ``B`` by those of ``L^-1 B``."""
    for i in range(len(L)):
        for j in range(i):
            for k in range(B.shape[1]):
                B[i, k] -= L[i, j] * B[j, k]
        for k in range(B.shape[1]):
            B[i, k] /= L[i, i]


@njit(cache=True, nogil=True)
def draw_with_population(
    rng, S, linear, cross, square, slope, W, mu, beta, scale, P, inverse_noise, pi, n_tasks
):  # fmt: skip
    """Draw coefficients, their mean and ``beta`` jointly; ``W``, ``mu`` and ``beta`` change in place.

    Parameters
    ----------
    S, linear : (blocks, D, D, lanes), (blocks, D, lanes)
        ``X'kX`` and ``X'v`` of the tasks, in lanes, without the part of ``beta``.
    cross, square, slope : (T, D, S), (T, S, S), (T, S)
        ``X'kS``, ``S'kS`` and ``S'v`` of the tasks.
    W : (blocks, D, lanes)
    scale : (1,)
        Prior standard deviation of ``beta``.
    inverse_noise : (blocks, lanes)
        What multiplies all these sums.
    """
    D, n_shared, lanes = len(mu), len(beta), W.shape[2]
    size = D + n_shared
    precision, total = np.zeros((size, size)), np.zeros(size)
    precision[:D, :D] = (pi + n_tasks) * P
    for i in range(n_shared):
        precision[D + i, D + i] = 1.0 / (scale[0] * scale[0])
    factors, solved, own = np.empty((n_tasks, D, D)), np.empty((n_tasks, D, size)), np.empty((n_tasks, D, 1))
    for t in range(n_tasks):
        block, lane = t // lanes, t % lanes
        k = inverse_noise[block, lane]
        M, U, u = factors[t], solved[t], own[t]
        for i in range(D):
            for j in range(D):
                M[i, j] = k * S[block, i, j, lane] + P[i, j]
                U[i, j] = P[i, j]
            for j in range(n_shared):
                U[i, D + j] = -k * cross[t, i, j]
            u[i, 0] = k * linear[block, i, lane]
        M[:] = np.linalg.cholesky(M)
        _solve_lower(M, U)
        _solve_lower(M, u)
        for i in range(size):
            for d in range(D):
                total[i] += U[d, i] * u[d, 0]
                for j in range(size):
                    precision[i, j] -= U[d, i] * U[d, j]
        for i in range(n_shared):
            total[D + i] += k * slope[t, i]
            for j in range(n_shared):
                precision[D + i, D + j] += k * square[t, i, j]
    theta = _draw_normal(rng, precision, total)
    mu[:] = theta[:D]
    beta[:] = theta[D:]
    for t in range(n_tasks):
        L, w = factors[t], solved[t] @ theta
        for i in range(D):
            w[i] += own[t, i, 0] + rng.standard_normal()
        for i in range(D - 1, -1, -1):
            w[i] /= L[i, i]
            for j in range(i):
                w[j] -= L[i, j] * w[i]
            W[t // lanes, i, t % lanes] = w[i]


def regressions_of_shared(rows: Rows, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals (N, S) of shared features on the features of their task, and the coefficients (S, T, D)."""
    X, residual = rows.inputs[rows.row], np.empty_like(shared)
    A = np.empty((shared.shape[1], len(rows.starts) - 1, X.shape[1]))
    for t, (a, b) in enumerate(pairwise(rows.starts)):
        fitted = np.linalg.lstsq(X[a:b], shared[a:b], rcond=None)[0]
        residual[a:b] = shared[a:b] - X[a:b] @ fitted
        A[:, t] = fitted.T
    return residual, A


@njit(cache=True, nogil=True)
def _add_rows(rows, side, w, v, H, precision, linear):
    """Add what rows with ``f = x' h + side' beta`` say of ``beta``."""
    n_shared = side.shape[1]
    for t in range(len(H)):
        for n in range(rows.starts[t], rows.starts[t + 1]):
            x = rows.inputs[rows.row[n]]
            f = 0.0
            for d in range(len(x)):
                f += x[d] * H[t, d]
            for i in range(n_shared):
                linear[i] += (v[n] - w[n] * f) * side[n, i]
                for j in range(n_shared):
                    precision[i, j] += w[n] * side[n, i] * side[n, j]


@njit(cache=True, nogil=True)
def draw_with_coefficients(rng, rows, shared, residual, A, w, v, H, P, O, beta, scale, both):
    """Draw ``beta`` in the first or in both parametrisations; ``beta``, ``H`` and ``rows.offset`` change in place.

    Parameters
    ----------
    rows : Rows
        Sorted by task; their offset is the part of ``beta``.
    shared, residual : (N, S)
        The shared features of these rows, and what the features of their task do not explain of them.
    A : (S, T, D)
        Coefficients of that regression.
    w, v : (N,)
        Weights and linear terms of the rows.
    H, P, O : (T, D), (T, T), (D, D)
        Coefficients, and the precisions of tasks and of features.
    """
    n_shared = shared.shape[1]
    prior = np.eye(n_shared) / (scale[0] * scale[0])
    for centred in range(2 if both else 1):
        side = residual if centred else shared
        precision, linear = prior.copy(), np.zeros(n_shared)
        if centred:
            for s in range(n_shared):
                H += beta[s] * A[s]
            pulled = P @ (H @ O)
            for s in range(n_shared):
                linear[s] = np.sum(A[s] * pulled)
                pull = P @ (A[s] @ O)
                for u in range(n_shared):
                    precision[u, s] += np.sum(A[u] * pull)
        _add_rows(rows, side, w, v, H, precision, linear)
        beta[:] = _draw_normal(rng, precision, linear)
        if centred:
            for s in range(n_shared):
                H -= beta[s] * A[s]
    rows.offset[:] = shared @ beta


@njit(cache=True, nogil=True)
def _log_density_of_step(step, base, first, second, power, slope, curvature):
    """Of a step along one entry of ``beta``, with R integrated out."""
    factor = np.linalg.cholesky(base + step * first + step * step * second)
    log_det = 0.0
    for d in range(len(factor)):
        log_det += 2.0 * np.log(factor[d, d])
    return slope * step - 0.5 * curvature * step * step - 0.5 * power * log_det


@njit(cache=True, nogil=True)
def draw_without_task_cov(rng, rows, shared, residual, A, w, v, H, P, O, beta, scale, nu, Psi, Psi_inverse):
    """Move ``beta`` given ``H + A beta``, the covariance of tasks integrated out, and draw this one.

    ``beta``, ``H``, ``P`` and ``rows.offset`` change in place. Arguments as in :func:`draw_with_coefficients`; ``nu``,
    ``Psi`` and ``Psi_inverse`` (T, T), or (0, 0) for the identity, are those of the prior of R.
    """
    n_shared, (n_tasks, D) = len(beta), H.shape
    for s in range(n_shared):
        H += beta[s] * A[s]
    precision, linear = np.eye(n_shared) / (scale[0] * scale[0]), np.zeros(n_shared)
    _add_rows(rows, residual, w, v, H, precision, linear)
    for s in range(n_shared):
        H -= beta[s] * A[s]
    outer = np.linalg.inv(O)
    for s in range(n_shared):
        white = A[s].copy() if Psi.shape[0] == 0 else Psi_inverse @ A[s]
        cross = H.T @ white
        second = A[s].T @ white
        own = H if Psi.shape[0] == 0 else Psi_inverse @ H
        slope = linear[s] - precision[s] @ beta
        # The width must not depend on beta: of a step that the prior alone would take, with a typical R.
        width = 2.0 / np.sqrt(precision[s, s] + np.sum(O * second))
        arguments = (outer + H.T @ own, -(cross + cross.T), second, nu + D, slope, precision[s, s])
        step = slice_move(rng, _log_density_of_step, arguments, width, True)
        beta[s] += step
        H -= step * A[s]
    rows.offset[:] = shared @ beta
    prior = np.eye(n_tasks) if Psi.shape[0] == 0 else Psi
    P[:] = wishart(rng, nu + D, prior + H @ O @ H.T)

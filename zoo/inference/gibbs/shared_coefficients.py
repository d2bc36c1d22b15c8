r"""Coefficients that all tasks share, beside those of each task.

.. math:: f_n = x_n' w_{t(n)} + s_n' \beta, \quad \beta \sim N(0, \tau^2 I)

with :math:`\tau` given, or half-normal. Levels of a further group are such features too; those of one effect have a
:math:`\tau` of their own, half-normal. Given what makes the likelihood Gaussian, row n adds
:math:`-\tfrac12 k_n f_n^2 + v_n f_n` to the log density. A feature that stands still within tasks
competes with the coefficients of these: given :math:`w_t`, of which many rows tell, :math:`\beta`
hardly moves. The two hierarchies get over it in two ways.

**Normal-inverse-Wishart: coefficients integrated out.** :mod:`zoo.inference.gibbs.shared_population` has this draw.

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
from zoo.inference.gibbs.task_precision import times
from zoo.inference.gibbs.task_rows import Rows
from zoo.inference.gibbs.triangular import draw_by_precision
from zoo.inference.run.kernel import put_back

__all__ = [
    "ScalesOfShared",
    "SharedFeatures",
    "SharedState",
    "draw_normal",
    "draw_scale",
    "draw_with_coefficients",
    "draw_without_task_cov",
    "line_without_task_cov",
    "log_density_of_step",
    "regressions_of_shared",
]

# Width of the first interval of the slice for the logarithm of a learned scale.
_WIDTH = 1.0


class SharedFeatures(NamedTuple):
    """Features whose coefficient all tasks share, as a factory hands them to an engine.

    Parameters
    ----------
    rows : (N, S)
        In the order of the responses; a sparse matrix where a row has a few of very many.
    scale : float
        Standard deviation of the prior; where it is learned, the scale of its half-normal law.
    learned : bool
        Whether it is.
    effect : (S,) int, optional
        0, or for a level of a further group 1 and the number of its effect; default: there are none.
    n_effects : int
        How many effects there are.
    effect_spread : float
        Scale of the half-normal laws of their standard deviations.
    unit : (S,), optional
        The rows are those of the user times these numbers, so that coefficients, and standard deviations of effects,
        are reported times them; default: 1.
    moved : (p, S), optional
        How far coefficients of tasks move by a reported coefficient, since the rows are centred; default: not at all.
    """

    rows: Any
    scale: float
    learned: bool = False
    effect: np.ndarray | None = None
    n_effects: int = 0
    effect_spread: float = 1.0
    unit: np.ndarray | None = None
    moved: np.ndarray | None = None

    def start(self, rng: np.random.Generator) -> SharedState:
        """A dispersed starting state."""
        spread = 0.1 * min(self.scale, 1.0)
        n_shared = self.rows.shape[1]
        beta = np.asarray(spread * rng.standard_normal(n_shared))
        effect = np.zeros(n_shared, dtype=np.int64) if self.effect is None else self.effect
        sizes = np.exp(rng.normal(-1.0, 0.5, self.n_effects)) * self.effect_spread
        return SharedState(beta, np.array([self.scale, *sizes]), effect)

    @property
    def effect_unit(self) -> float:
        """The unit of the effects of further groups, whose levels are all alike."""
        if self.unit is None or self.effect is None or not self.n_effects:
            return 1.0
        return float(self.unit[np.flatnonzero(self.effect)[0]])

    @property
    def learns(self) -> bool:
        """Whether any standard deviation is learned."""
        return self.learned or self.n_effects > 0


class ScalesOfShared(NamedTuple):
    """Prior standard deviations of coefficients (1 + effects,), which one each has (S,), and the learned ones.

    These begin at ``first`` and have half-normal laws with the scales ``spread``.
    """

    scale: np.ndarray
    effect: np.ndarray
    spread: np.ndarray
    first: int


class SharedState(NamedTuple):
    """The current coefficients (S,), standard deviations (1 + effects,) of priors, and which one each has (S,)."""

    beta: np.ndarray
    scale: np.ndarray
    effect: np.ndarray

    @property
    def sd(self) -> np.ndarray:
        """The prior standard deviation of each coefficient, (S,)."""
        return np.asarray(self.scale[self.effect])

    def scales(self, features: SharedFeatures) -> ScalesOfShared:
        """What a draw with the population takes; ``scale`` is that of this state, and changes with it."""
        spread = np.full(len(self.scale), float(features.effect_spread))
        spread[0] = features.scale
        return ScalesOfShared(self.scale, self.effect, spread, 0 if features.learned else 1)

    def draw_scales(self, rng: np.random.Generator, features: SharedFeatures, end: int | None = None) -> None:
        """Move the standard deviations that are learned; with ``end`` the first ones alone."""
        for k in range(0 if features.learned else 1, len(self.scale) if end is None else end):
            spread = features.effect_spread if k else features.scale
            draw_scale(rng, self.beta[self.effect == k], self.scale[k : k + 1], float(spread))

    def record(self, features: SharedFeatures) -> dict[str, Any]:
        """What a draw of the chain holds of them."""
        unit = np.ones(len(self.beta)) if features.unit is None else features.unit
        draw: dict[str, Any] = {"shared_coefficients": self.beta * unit}
        if features.learned:
            draw["shared_scale"] = self.scale[0]
        if features.n_effects:
            draw["effect_scale"] = self.scale[1:] * features.effect_unit
        return draw

    def put(self, values: dict[str, Any], features: SharedFeatures) -> None:
        """Fill them from a draw."""
        unit = 1.0 if features.unit is None else features.unit
        self.beta[:] = values["shared_coefficients"] / unit
        if "shared_scale" in values:
            self.scale[0] = values["shared_scale"]
        if "effect_scale" in values:
            self.scale[1:] = values["effect_scale"] / features.effect_unit

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
def draw_normal(rng, precision, linear):
    """A draw with this precision and linear term."""
    draw = linear.copy()
    draw_by_precision(rng, np.linalg.cholesky(precision), draw)
    return draw


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
def draw_with_coefficients(rng, rows, shared, residual, A, w, v, H, P, O, beta, sd, both):
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
    prior = np.diag(1.0 / (sd * sd))
    for centred in range(2 if both else 1):
        side = residual if centred else shared
        precision, linear = prior.copy(), np.zeros(n_shared)
        if centred:
            for s in range(n_shared):
                H += beta[s] * A[s]
            pulled = times(P, H @ O)
            for s in range(n_shared):
                linear[s] = np.sum(A[s] * pulled)
                pull = times(P, A[s] @ O)
                for u in range(n_shared):
                    precision[u, s] += np.sum(A[u] * pull)
        _add_rows(rows, side, w, v, H, precision, linear)
        beta[:] = draw_normal(rng, precision, linear)
        if centred:
            for s in range(n_shared):
                H -= beta[s] * A[s]
    rows.offset[:] = shared @ beta


@njit(cache=True, nogil=True)
def log_density_of_step(step, base, first, second, power, slope, curvature):
    """Of a step along one entry of ``beta``, with R integrated out."""
    factor = np.linalg.cholesky(base + step * first + step * step * second)
    log_det = 0.0
    for d in range(len(factor)):
        log_det += 2.0 * np.log(factor[d, d])
    return slope * step - 0.5 * curvature * step * step - 0.5 * power * log_det


@njit(cache=True, nogil=True)
def line_without_task_cov(H, O, A, slope, curvature, nu, Psi_inverse):
    """What :func:`log_density_of_step` takes, of steps along one entry of ``beta`` that take ``A`` (T, D) from H.

    ``slope`` and ``curvature``: of the log density of the rows and of the prior of ``beta`` at no step.
    """
    white, own = A.copy(), H.copy()
    if Psi_inverse.shape[0]:
        white, own = Psi_inverse @ A, Psi_inverse @ H
    cross = H.T @ white
    return np.linalg.inv(O) + H.T @ own, -(cross + cross.T), A.T @ white, nu + H.shape[1], slope, curvature


@njit(cache=True, nogil=True)
def draw_without_task_cov(rng, rows, shared, residual, A, w, v, H, P, O, beta, sd, nu, Psi, Psi_inverse):
    """Move ``beta`` given ``H + A beta``, the covariance of tasks integrated out, and draw this one.

    ``beta``, ``H``, ``P`` and ``rows.offset`` change in place. Arguments as in :func:`draw_with_coefficients`; ``nu``,
    ``Psi`` and ``Psi_inverse`` (T, T), or (0, 0) for the identity, are those of the prior of R.
    """
    n_shared, (n_tasks, D) = len(beta), H.shape
    for s in range(n_shared):
        H += beta[s] * A[s]
    precision, linear = np.diag(1.0 / (sd * sd)), np.zeros(n_shared)
    _add_rows(rows, residual, w, v, H, precision, linear)
    for s in range(n_shared):
        H -= beta[s] * A[s]
    for s in range(n_shared):
        slope = linear[s] - precision[s] @ beta
        line = line_without_task_cov(H, O, A[s], slope, precision[s, s], nu, Psi_inverse)
        # The width must not depend on beta: of a step that the prior alone would take, with a typical R.
        width = 2.0 / np.sqrt(precision[s, s] + np.sum(O * line[2]))
        step = slice_move(rng, log_density_of_step, line, width, True)
        beta[s] += step
        H -= step * A[s]
    rows.offset[:] = shared @ beta
    prior = np.eye(n_tasks) if Psi.shape[0] == 0 else Psi
    P[:] = wishart(rng, nu + D, prior + H @ O @ H.T)

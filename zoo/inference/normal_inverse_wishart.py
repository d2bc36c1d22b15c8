r"""Gibbs sampling of a normal-inverse-Wishart hierarchy of linear regressions (yu2005, model 1).

.. math::

    y_n = x_n' w_{t(n)} + N(0, \sigma_t^2), \quad w_t \sim N(\mu, C), \quad \mu \mid C \sim N(0, C / \pi), \quad
    C \sim IW(\nu, \Psi), \quad \sigma_t^2 \sim IG(a, b)

With :math:`S_t = X_t' X_t` and :math:`P = C^{-1}` a sweep draws

1. :math:`w_t` with precision :math:`S_t / \sigma_t^2 + P` and linear term :math:`X_t' y_t / \sigma_t^2 + P \mu` (eqs
   5, 6);
2. :math:`\sigma_t^2 \sim IG(a + N_t / 2,\; b + \tfrac12 |y_t - X_t w_t|^2)`, with
   :math:`|y_t - X_t w|^2 = e_t + (w - \hat w_t)' S_t (w - \hat w_t)` around least squares, which does not cancel; one
   variance for all tasks sums both over tasks;
3. the translation :math:`(w_t + d, \mu + d)`, which leaves :math:`w_t \mid \mu` alone: ``d`` is Gaussian with precision
   :math:`\sum_t S_t / \sigma_t^2 + \pi P` and linear term
   :math:`\sum_t (X_t' y_t - S_t w_t) / \sigma_t^2 - \pi P \mu`;
4. optionally the shears and scales of :mod:`zoo.inference.group_moves` on :math:`(w_t, \mu, C)`: the law of
   :math:`(w_t, \mu)` given C is invariant under :math:`(F w_t, F \mu, F C F')`, so :math:`\mu` is one more row that
   has no data;
5. :math:`C \sim IW(\nu + T, \Psi + \sum_t (w_t - \bar w)(w_t - \bar w)' + \tfrac{\pi T}{\pi + T} \bar w \bar w')` and
   :math:`\mu \sim N(\tfrac{T}{\pi + T} \bar w, C / (\pi + T))`.

The features that the engine sees are whitened, so that :math:`\Psi = I`: with :math:`\Psi = G G'` the caller gives
:math:`X G` and ``half`` G, and gets coefficients, mean and covariance multiplied by G. A singular :math:`\Psi`, as of a
Gaussian process on a finite set of inputs, has a G with fewer columns than rows. The engine turns the features into
the eigenbasis of :math:`X'X`, under which the prior does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.chains import copies, put_back
from zoo.inference.compiled import njit
from zoo.inference.group_moves import feature_moves
from zoo.inference.weighted_moments import weighted_sd

__all__ = ["NormalInverseWishartKernel", "least_squares"]

# Tasks whose small matrices are factorised side by side, one in each lane of a vector instruction.
_LANES = 8


class _Tasks(NamedTuple):
    """What the data say, in blocks of ``_LANES`` tasks; tasks without data fill the last block.

    ``S`` (blocks, D, D, lanes) with :math:`S_t`; ``centre`` (blocks, D, lanes) least squares; ``linear`` (blocks, D,
    lanes) :math:`X_t' y_t`; ``sse`` (T,) squared errors at least squares; ``size`` (T,) rows, or their weights.
    """

    S: np.ndarray
    centre: np.ndarray
    linear: np.ndarray
    sse: np.ndarray
    size: np.ndarray


class _Space(NamedTuple):
    """Work space of a sweep: a block's factors and vectors, and sums over tasks."""

    factor: np.ndarray  # (D, D, lanes)
    vector: np.ndarray  # (D, lanes)
    matrix: np.ndarray  # (D, D)


@njit(cache=True, nogil=True)
def _factorise(A):
    """Lower Cholesky factors of the matrices in the lanes of ``A`` (D, D, lanes), in place; inverse diagonal."""
    for j in range(A.shape[0]):
        for k in range(j):
            for b in range(_LANES):
                A[j, j, b] -= A[j, k, b] * A[j, k, b]
        for b in range(_LANES):
            A[j, j, b] = 1.0 / np.sqrt(A[j, j, b])
        for i in range(j + 1, A.shape[0]):
            for k in range(j):
                for b in range(_LANES):
                    A[i, j, b] -= A[i, k, b] * A[j, k, b]
            for b in range(_LANES):
                A[i, j, b] *= A[j, j, b]


@njit(cache=True, nogil=True)
def _draw_block(rng, A, u, W):
    """Fill ``W`` (D, lanes) with draws of precision ``A`` and linear term ``u``; both are used up."""
    D = A.shape[0]
    _factorise(A)
    for i in range(D):
        for k in range(i):
            for b in range(_LANES):
                u[i, b] -= A[i, k, b] * u[k, b]
        for b in range(_LANES):
            u[i, b] *= A[i, i, b]
    for i in range(D):
        for b in range(_LANES):
            u[i, b] += rng.standard_normal()
    for i in range(D - 1, -1, -1):
        for b in range(_LANES):
            u[i, b] *= A[i, i, b]
            W[i, b] = u[i, b]
        for k in range(i):
            for b in range(_LANES):
                u[k, b] -= A[i, k, b] * u[i, b]


@njit(cache=True, nogil=True)
def _draw_coefficients(rng, tasks, space, W, mu, P, inverse_noise):
    """Step 1, for all tasks; ``W`` is (blocks, D, lanes) and ``inverse_noise`` (blocks, lanes)."""
    D = P.shape[0]
    prior = P @ mu
    A, u = space.factor, space.vector
    for block in range(W.shape[0]):
        S, r, scale = tasks.S[block], tasks.linear[block], inverse_noise[block]
        for i in range(D):
            for j in range(i + 1):
                for b in range(_LANES):
                    A[i, j, b] = S[i, j, b] * scale[b] + P[i, j]
            for b in range(_LANES):
                u[i, b] = r[i, b] * scale[b] + prior[i]
        _draw_block(rng, A, u, W[block])


@njit(cache=True, nogil=True)
def _draw_noise(rng, tasks, space, W, inverse_noise, a, b, by_task):
    """Step 2: the inverse variances, one a task or the same for all."""
    n_tasks, D = len(tasks.size), W.shape[1]
    apart, total = space.vector, np.empty(_LANES)
    shape, rate = a, b
    for block in range(W.shape[0]):
        S, centre, w = tasks.S[block], tasks.centre[block], W[block]
        for i in range(D):
            for k in range(_LANES):
                apart[i, k] = w[i, k] - centre[i, k]
        total[:] = 0.0
        for i in range(D):
            for k in range(_LANES):
                total[k] += S[i, i, k] * apart[i, k] * apart[i, k]
            for j in range(i):
                for k in range(_LANES):
                    total[k] += 2.0 * S[i, j, k] * apart[i, k] * apart[j, k]
        for k in range(_LANES):
            t = block * _LANES + k
            if t < n_tasks:
                half = 0.5 * (tasks.sse[t] + max(total[k], 0.0))
                if by_task:
                    inverse_noise[block, k] = rng.standard_gamma(a + 0.5 * tasks.size[t]) / (b + half)
                else:
                    shape += 0.5 * tasks.size[t]
                    rate += half
    if not by_task:
        inverse_noise[:] = rng.standard_gamma(shape) / rate


@njit(cache=True, nogil=True)
def _translate(rng, tasks, space, W, mu, P, inverse_noise, pi):
    """Step 3: move all coefficients and their mean by the same vector."""
    D = len(mu)
    precision = space.matrix
    linear = np.zeros(D)
    precision[:] = pi * P
    for block in range(W.shape[0]):
        S, r, w, scale = tasks.S[block], tasks.linear[block], W[block], inverse_noise[block]
        for i in range(D):
            residual = 0.0
            for b in range(_LANES):
                residual += r[i, b] * scale[b]
            for j in range(D):
                curvature, cross = 0.0, 0.0
                for b in range(_LANES):
                    weighted = S[i, j, b] * scale[b]
                    curvature += weighted
                    cross += weighted * w[j, b]
                precision[i, j] += curvature
                residual -= cross
            linear[i] += residual
    linear -= pi * (P @ mu)
    factor = np.linalg.cholesky(precision)
    step = _draw_with_factor(rng, factor, linear)
    mu += step
    for block in range(W.shape[0]):
        for i in range(D):
            for b in range(_LANES):
                W[block, i, b] += step[i]


@njit(cache=True, nogil=True)
def _draw_with_factor(rng, factor, linear):
    """Draw with precision ``factor factor'`` and this linear term, which is used up."""
    D = len(linear)
    for i in range(D):
        for j in range(i):
            linear[i] -= factor[i, j] * linear[j]
        linear[i] /= factor[i, i]
    for i in range(D):
        linear[i] += rng.standard_normal()
    for i in range(D - 1, -1, -1):
        linear[i] /= factor[i, i]
        for j in range(i):
            linear[j] -= factor[i, j] * linear[i]
    return linear


@njit(cache=True, nogil=True)
def _draw_population(rng, W, n_tasks, mu, P, C, nu, pi):
    r"""Step 5; fills ``mu``, ``P`` and ``C``.

    With :math:`L L' = \Psi_T` and Bartlett's lower triangular A, :math:`P = L^{-T} A A' L^{-1}`, so that
    :math:`M = L A^{-T}` has :math:`M M' = C`.
    """
    D = len(mu)
    mean, scatter = np.zeros(D), np.eye(D)
    rows = np.empty((n_tasks, D))
    for t in range(n_tasks):
        for i in range(D):
            rows[t, i] = W[t // _LANES, i, t % _LANES]
            mean[i] += rows[t, i]
    mean /= n_tasks
    weight = pi * n_tasks / (pi + n_tasks)
    for t in range(n_tasks):
        rows[t] -= mean
    scatter += rows.T @ rows + weight * np.outer(mean, mean)
    L = np.linalg.cholesky(scatter)
    # Rows of A^-1, by forward substitution in the identity; M' = A^-1 L'.
    inverse, M = np.zeros((D, D)), np.zeros((D, D))
    A = np.zeros(D)
    for i in range(D):
        for j in range(i):
            A[j] = rng.standard_normal()
        diagonal = np.sqrt(2.0 * rng.standard_gamma(0.5 * (nu + n_tasks - i)))
        inverse[i, i] = 1.0 / diagonal
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += A[k] * inverse[k, j]
            inverse[i, j] = -total / diagonal
    M[:] = L @ inverse.T
    C[:] = M @ M.T
    # M^-1 = A' L^-1, and P = M^-T M^-1.
    solved = np.linalg.inv(M)
    P[:] = solved.T @ solved
    z = np.empty(D)
    for i in range(D):
        z[i] = rng.standard_normal()
    mu[:] = mean * (n_tasks / (pi + n_tasks)) + (M @ z) / np.sqrt(pi + n_tasks)


@njit(cache=True, nogil=True)
def _sweep(rng, tasks, space, W, mu, P, C, inverse_noise, nu, pi, a, b, by_task, n_tasks):
    """Steps 1, 2, 3 and 5."""
    _draw_coefficients(rng, tasks, space, W, mu, P, inverse_noise)
    _draw_noise(rng, tasks, space, W, inverse_noise, a, b, by_task)
    _translate(rng, tasks, space, W, mu, P, inverse_noise, pi)
    _draw_population(rng, W, n_tasks, mu, P, C, nu, pi)


@njit(cache=True, nogil=True)
def _group_moves(rng, tasks, W, mu, P, inverse_noise, nu, n_tasks):
    """Step 4: shears and scales, with the mean as a last task that has no rows."""
    D = len(mu)
    S, r, H = np.zeros((n_tasks + 1, D, D)), np.zeros((n_tasks + 1, D)), np.empty((n_tasks + 1, D))
    for t in range(n_tasks):
        block, lane = t // _LANES, t % _LANES
        scale = inverse_noise[block, lane]
        for i in range(D):
            r[t, i] = scale * tasks.linear[block, i, lane]
            H[t, i] = W[block, i, lane]
            for j in range(D):
                S[t, i, j] = scale * tasks.S[block, i, j, lane]
    H[n_tasks] = mu
    feature_moves(rng, S, r, H, P, nu)
    for t in range(n_tasks):
        for i in range(D):
            W[t // _LANES, i, t % _LANES] = H[t, i]
    mu[:] = H[n_tasks]


@njit(cache=True, nogil=True)
def _leave(W, mu, C, basis, n_tasks):
    """Coefficients (p, T), mean and covariance in the caller's coordinates."""
    rows = np.empty((basis.shape[1], n_tasks))
    for t in range(n_tasks):
        for i in range(basis.shape[1]):
            rows[i, t] = W[t // _LANES, i, t % _LANES]
    return basis @ rows, basis @ mu, basis @ C @ basis.T


def least_squares(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """``X'X``, ``X'y``, the least-squares coefficients of smallest norm, and their squared error."""
    S, r = X.T @ X, X.T @ y
    centre = np.linalg.lstsq(X, y, rcond=None)[0]
    return S, r, centre, float(np.sum((y - X @ centre) ** 2))


@dataclass(frozen=True, eq=False)
class NormalInverseWishartKernel:
    """Markov kernel of the hierarchy above, for :func:`zoo.inference.chains.run_chains`.

    Parameters
    ----------
    inputs, row : (n, D), (N,)
        Distinct inputs, whitened, and which of them each row has.
    y, task : (N,), (N,)
        Rows in any order.
    n_tasks : int
    pi, nu : float
        Weight of the prior of the mean; degrees of freedom (textbook) of the covariance.
    half : (p, D), optional
        ``G`` with ``G G'`` the scale matrix; default the identity.
    names : (str, str, str)
        What the draws of coefficients, mean and covariance are called.
    noise_shape, noise_rate : float
        Of the inverse-gamma prior of the noise variance.
    noise_by_task : bool
        One noise variance a task, or one for all.
    group_moves : bool
        Whether to take step 4.
    weight : (N,), optional
        Weights of the rows, above 0: the log density of a row counts so many times. Sums over rows are then weighted,
        and :math:`N_t` is the sum of the weights.
    """

    inputs: np.ndarray
    row: np.ndarray
    y: np.ndarray
    task: np.ndarray
    n_tasks: int
    pi: float
    nu: float
    half: np.ndarray | None = None
    names: tuple[str, str, str] = ("coefficients", "population_mean", "feature_cov")
    noise_shape: float = 1.0
    noise_rate: float = 0.1
    noise_by_task: bool = False
    group_moves: bool = False
    weight: np.ndarray | None = None

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state, with the sums over rows that never change."""
        D, T = self.inputs.shape[1], self.n_tasks
        blocks = -(-T // _LANES)
        rotation = self._rotation()
        tasks = self._sums(self.inputs @ rotation, blocks)
        spread = np.exp(rng.normal())
        state = {
            "tasks": tasks,
            "basis": np.ascontiguousarray(rotation if self.half is None else self.half @ rotation),
            "space": _Space(np.zeros((D, D, _LANES)), np.zeros((D, _LANES)), np.zeros((D, D))),
            "W": 0.1 * rng.standard_normal((blocks, D, _LANES)),
            "mu": 0.1 * rng.standard_normal(D),
            "P": np.eye(D) / spread,
            "C": np.eye(D) * spread,
            "inverse_noise": np.full(
                (blocks, _LANES),
                np.exp(rng.normal()) / max(float(weighted_sd(self.y, self.weight)) ** 2, 1e-300),
            ),
        }
        return state

    def _rotation(self) -> np.ndarray:
        """Eigenvectors of ``X'X`` over all rows."""
        uses = np.bincount(self.row, self.weight, minlength=len(self.inputs)).astype(np.float64)
        return np.linalg.eigh(self.inputs.T @ (uses[:, None] * self.inputs))[1]

    def _sums(self, inputs: np.ndarray, blocks: int) -> _Tasks:
        D, T = inputs.shape[1], self.n_tasks
        S, r, centre = (np.zeros((blocks * _LANES, *shape)) for shape in ((D, D), (D,), (D,)))
        sse = np.zeros(T)
        order = np.argsort(self.task, kind="stable")
        size = np.bincount(self.task, minlength=T)
        for t, rows in enumerate(np.split(order, np.cumsum(size)[:-1])):
            X, y = inputs[self.row[rows]], self.y[rows]
            if self.weight is not None:
                root = np.sqrt(self.weight[rows])
                X, y = root[:, None] * X, root * y
            S[t], r[t], centre[t], sse[t] = least_squares(X, y)
        worth = np.bincount(self.task, self.weight, minlength=T).astype(np.float64)
        return _Tasks(_lanes(S), _lanes(centre), _lanes(r), sse, worth)

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        back, T = np.linalg.pinv(state["basis"]), self.n_tasks
        coefficients, mean, cov = (values[name] for name in self.names)
        W = np.zeros((state["inverse_noise"].size, len(back)))
        W[:T] = (back @ coefficients).T
        state["W"][:] = _lanes(W)
        state["mu"][:] = back @ mean
        state["C"][:] = back @ cov @ back.T
        state["P"][:] = np.linalg.inv(state["C"])
        inverse = np.zeros(state["inverse_noise"].size)
        inverse[:T] = np.broadcast_to(values["noise"], T) ** -2.0
        state["inverse_noise"][:] = inverse.reshape(state["inverse_noise"].shape)

    def with_response(self, y: np.ndarray) -> NormalInverseWishartKernel:
        """The kernel of the same rows with other responses."""
        return replace(self, y=y)

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients, population and noise; the rest follows from the data."""
        return copies(state, ("W", "mu", "P", "C", "inverse_noise"))

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        put_back(state, snapshot, ("W", "mu", "P", "C", "inverse_noise"))

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One scan."""
        s = state
        if self.group_moves:
            _group_moves(
                rng, s["tasks"], s["W"], s["mu"], s["P"], s["inverse_noise"], float(self.nu), self.n_tasks
            )
        _sweep(
            rng, s["tasks"], s["space"], s["W"], s["mu"], s["P"], s["C"], s["inverse_noise"], float(self.nu),
            float(self.pi), float(self.noise_shape), float(self.noise_rate), self.noise_by_task, self.n_tasks,
        )  # fmt: skip

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients (p, T), population mean (p,), covariance (p, p), and ``noise`` () or (T,)."""
        noise = state["inverse_noise"].ravel()[: self.n_tasks] ** -0.5
        parts = _leave(state["W"], state["mu"], state["C"], state["basis"], self.n_tasks)
        return {
            **dict(zip(self.names, parts, strict=True)),
            "noise": noise if self.noise_by_task else noise[0],
        }

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: sizes of the mean, of the covariance and of the inverse noise."""
        return {
            "squared_mean": float(state["mu"] @ state["mu"]),
            "trace_feature_cov": float(state["C"].trace()),
            "mean_precision": float(state["inverse_noise"].ravel()[: self.n_tasks].mean()),
        }


def _lanes(array: np.ndarray) -> np.ndarray:
    """An array of tasks (blocks * lanes, ...) as (blocks, ..., lanes)."""
    split = array.reshape(-1, _LANES, *array.shape[1:])
    return np.ascontiguousarray(np.moveaxis(split, 1, -1))

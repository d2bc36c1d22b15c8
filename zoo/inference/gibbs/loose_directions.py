r"""Which combinations of the coefficients the tasks hardly know: those that collapsed moves of the
population pay for.

Features that hardly vary within tasks, such as the age of a patient beside an intercept, are the
common case: each task knows one combination of their coefficients. Where there are at least two,
all their coefficients are loose.

Others show in the data. Given the population's covariance :math:`C = L L'`, task t's posterior
covariance of its coefficients is :math:`V_t = (C^{-1} + S_t / \sigma^2)^{-1}`, and the mean over
tasks of :math:`L^{-1} V_t L^{-T}` has eigenvalues between 0, where every task knows that direction
of its coefficients, and 1, where none does. Such an eigenvalue is the share of the information
about C that is missing with the coefficients, and about the lag-one autocorrelation of a plain
Gibbs sampler in that direction (Liu 1994, JASA 89:958). C and the noise are estimates after a few
steps of EM, so that the choice depends on the data alone; of more than 10,000 tasks, an even sample of
them says as much.

The mean of the shares over the directions that are left says how much tasks know of their other coefficients.
Where it is large, as with noisy responses and many features, nearly every direction is a slow one, and moves of a
few are not what the sampler lacks.
"""

from __future__ import annotations

import numpy as np

__all__ = ["FEW_FEATURES", "loose_axes", "loose_basis", "spread_directions", "steady_features"]

# Share of missing information above which a direction is loose.
_LEAST_SHARE = 0.95
# Part of a direction that must not be loose already.
_LEAST_REST = 0.5
_STEPS = 8
# Tasks that these steps look at.
_MOST_TASKS = 10_000
# With more features a step of EM costs too much.
_MOST_FEATURES = 100
# Share of a feature's sum of squares within tasks, below which it hardly varies there.
_WITHIN = 0.1
# The same of up to so many features, whose moves cost little: there all may be loose.
_SLOW_SHARE, FEW_FEATURES = 0.6, 16
# Part of the largest entry of a direction, below which it does not touch an axis.
_TOUCHED = 1e-9


def steady_features(
    rows: np.ndarray, weight: np.ndarray | None, task: np.ndarray, n_tasks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which features hardly vary within tasks (f,), and their means in the tasks (T, f); none where it is only one.

    Parameters
    ----------
    rows : (N, p)
        The features as the user has them.
    weight, task : (N,) or None, (N,)
        Weights of the rows, and their tasks.
    """
    mass = np.ones(len(rows)) if weight is None else weight
    total = np.bincount(task, mass, minlength=n_tasks)
    total[total == 0.0] = 1.0
    found: dict[int, np.ndarray] = {}
    for j, x in enumerate(rows.T):  # one by one: the rows may fill much of the memory
        mean = np.bincount(task, mass * x, minlength=n_tasks) / total
        if mass @ (x - mean[task]) ** 2 <= _WITHIN * (mass @ x**2):
            found[j] = mean
    if len(found) < 2:
        return np.empty(0, dtype=np.int64), np.empty((n_tasks, 0))
    return np.array(list(found)), np.ascontiguousarray(np.stack(list(found.values()), axis=1))


def loose_basis(
    S: np.ndarray,
    centre: np.ndarray,
    sse: np.ndarray,
    size: np.ndarray,
    prior: tuple[float, float, float],
    steady: np.ndarray,
    wanted: int | None = None,
) -> tuple[np.ndarray, int, float]:
    """An orthogonal matrix (D, D), how many of its last columns are loose, and the mean share missing in the others.

    The mean is 0 where there are no others, or too many features to ask.

    Parameters
    ----------
    S, centre : (T, D, D), (T, D)
        Of each task ``X'X`` and least squares, in whitened features.
    sse, size : (T,)
        Squared errors at least squares; rows or their weights.
    prior : (float, float, float)
        Weight of the prior of the mean, degrees of freedom of the covariance, rate of the noise variance.
    steady : (D, k) array
        Directions that are loose in any case, as coefficients of the whitened features.
    wanted : int, optional
        How many columns shall be loose; default: those whose share is large, unless these are more than half.
    """
    D = centre.shape[1]
    pooled = S.sum(axis=0)
    loose = np.linalg.qr(steady)[0][:, : min(D, steady.shape[1])]
    if wanted is None and D > _MOST_FEATURES:
        directions, share = pooled[:0], np.zeros(1)
    else:
        half, inner = _missing(S, centre, sse, size, *prior)
        share, vectors = np.linalg.eigh(inner)
        directions, share = np.linalg.qr(half @ vectors[:, ::-1])[0].T, share[::-1]
    if wanted is None:
        few = D <= FEW_FEATURES
        found = _joined(loose, directions[: int(np.sum(share > (_SLOW_SHARE if few else _LEAST_SHARE)))])
        loose = found if few or 2 * found.shape[1] <= D else loose
    else:
        loose = _joined(loose, directions, 1e-6)[:, :wanted]
    known = np.linalg.svd(loose, full_matrices=True)[0][:, loose.shape[1] :]
    parts = [basis @ np.linalg.eigh(basis.T @ pooled @ basis)[1] for basis in (known, loose) if basis.size]
    left = np.sort(share)[: known.shape[1]]
    return np.hstack(parts), loose.shape[1], float(left.mean()) if len(left) else 0.0


def loose_axes(
    S: np.ndarray,
    centre: np.ndarray,
    sse: np.ndarray,
    size: np.ndarray,
    prior: tuple[float, float, float],
    scale_sd: float,
    steady: np.ndarray,
    wanted: int | None = None,
) -> tuple[np.ndarray, int, float]:
    """The same with axes in the place of directions, for learned scales: a permutation, how many, the mean share.

    ``scale_sd`` is s of :mod:`zoo.inference.gibbs.feature_scales`; the other arguments are those of
    :func:`loose_basis`. The share of an axis is the variance of its coefficient that is left given the rows of a task.
    Scales let unimportant features have small variances, about which no task tells much, and these hold the others.
    So all axes are loose where some are slow and there are not too many for it.
    """
    D = centre.shape[1]
    chosen = np.any(np.abs(steady) > _TOUCHED * np.abs(steady).max(axis=0, initial=1e-300), axis=1)
    if wanted is None and D > _MOST_FEATURES:
        share = np.zeros(D)
    else:
        half, inner = _missing(S, centre, sse, size, *prior, scale_sd)
        share = np.diag(half @ inner @ half.T) / np.sum(half * half, axis=1)
    if wanted is None:
        found = chosen | (share > _LEAST_SHARE)
        if D <= FEW_FEATURES and (chosen.any() or np.any(share > _SLOW_SHARE)):
            chosen = np.ones(D, dtype=np.bool_)
        elif 2 * found.sum() <= D:
            chosen = found
        m = int(chosen.sum())
    else:
        m = wanted
    order = np.argsort(share + 2.0 * chosen, kind="stable")
    known = share[order[: D - m]]
    return np.eye(D)[:, order], m, float(known.mean()) if len(known) else 0.0


def spread_directions(
    S: np.ndarray,
    centre: np.ndarray,
    sse: np.ndarray,
    size: np.ndarray,
    prior: tuple[float, float, float],
    scale_sd: float,
) -> np.ndarray:
    """Principal axes (D, D) of the estimated covariance of coefficients, the smallest first, as columns.

    Arguments are those of :func:`loose_axes`.
    """
    half, _ = _missing(S, centre, sse, size, *prior, scale_sd)
    axes = np.linalg.svd(half)[0][:, ::-1]
    largest = axes[np.argmax(np.abs(axes), axis=0), np.arange(len(axes))]
    return np.asarray(axes * np.sign(largest))  # else rounding would choose the signs


def _joined(basis: np.ndarray, directions: np.ndarray, least: float = _LEAST_REST) -> np.ndarray:
    """Orthonormal columns ``basis``, and what the rows of ``directions`` have outside their span."""
    for vector in directions:
        rest = vector - basis @ (basis.T @ vector)
        rest -= basis @ (basis.T @ rest)
        if rest @ rest > least:
            basis = np.hstack([basis, rest[:, None] / np.sqrt(rest @ rest)])
    return basis


def _missing(
    S: np.ndarray,
    centre: np.ndarray,
    sse: np.ndarray,
    size: np.ndarray,
    pi: float,
    nu: float,
    rate: float,
    scale_sd: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """A factor L of the estimated covariance, and the mean over tasks of :math:`L^{-1} V_t L^{-T}`."""
    some = np.unique(np.linspace(0, len(S) - 1, min(len(S), _MOST_TASKS)).astype(np.int64))
    S, centre, sse, size = S[some], centre[some], sse[some], size[some]
    T, D = centre.shape
    mean, C, eye = np.zeros(D), np.eye(D), np.eye(D)
    scale, rows = eye, max(float(size.sum()), 1.0)
    noise = (2.0 * rate + sse.sum() + np.einsum("ti,tij,tj->", centre, S, centre)) / rows
    for step in range(_STEPS + 1):
        half = np.linalg.cholesky(C)
        inner = np.linalg.inv(eye + half.T @ S @ half / noise)  # V in coordinates in which C = I
        if step == _STEPS:
            break
        V = half @ inner @ half.T
        found = mean + np.einsum("tij,tjk,tk->ti", V, S, centre - mean) / noise
        mean = found.sum(axis=0) / (T + pi)
        apart, error = found - mean, found - centre
        C = (scale + V.sum(axis=0) + apart.T @ apart + pi * np.outer(mean, mean)) / (nu + T + D + 2.0)
        if scale_sd is not None:
            scale = np.diag((nu + 1.0) / (np.diag(np.linalg.inv(C)) + scale_sd**-2.0))
        noise = (2.0 * rate + sse.sum() + np.einsum("ti,tij,tj->", error, S, error) + np.sum(S * V)) / rows
    return half, inner.mean(axis=0)

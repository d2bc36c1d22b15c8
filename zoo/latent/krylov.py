r"""Conjugate gradients and stochastic Lanczos quadrature for matrices that are known by their products alone.

For a symmetric positive definite A (n, n) and a probe z, k steps of Lanczos give an orthonormal V (n, k) with
:math:`V'AV = T` tridiagonal and :math:`z = |z| v_1`. With :math:`T = S \Lambda S'` and :math:`c = |z| S' e_1`

.. math:: z' \log(A)\, z \approx \sum_i c_i^2 \log \lambda_i,

whose mean over probes of independent signs is :math:`\log \det A` (Ubaru, Chen & Saad 2017). The derivative of the
left side itself, and not of its mean, is

.. math:: \sum_{ab} M_{ab}\, v_a' dA\, v_b, \quad M = S (c c' \circ \Delta) S', \quad
    \Delta_{ij} = \frac{\log \lambda_i - \log \lambda_j}{\lambda_i - \lambda_j}, \quad \Delta_{ii} = 1 / \lambda_i,

so that with the same probes value and derivative belong together, and a search by both comes to rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["Quadrature", "conjugate_gradients", "log_quadrature"]

Product = Callable[[np.ndarray], np.ndarray]

# Steps of Lanczos and of conjugate gradients at most; and every how many the quadrature looks at its value.
_MOST_LANCZOS, _MOST_STEPS, _EVERY = 300, 2000, 4
# A Krylov space whose next direction is this short, in units of the product, has ended.
_ENDED = 1e-10


def conjugate_gradients(product: Product, right: np.ndarray, tolerance: float) -> tuple[np.ndarray, bool]:
    """Solutions (n, k) of ``A x = right`` column by column, and whether all have residuals below the tolerance.

    Parameters
    ----------
    product : callable
        ``A`` times columns (n, k), all its eigenvalues above 0.
    right : (n, k) array
    tolerance : float
        Length of a residual as a share of that of its right side.
    """
    x, r = np.zeros_like(right), right.copy()
    d, square = r.copy(), np.einsum("ij,ij->j", r, r)
    goal = tolerance**2 * square
    for _ in range(_MOST_STEPS):
        left = square > goal
        if not left.any():
            return x, True
        Ad = product(d)
        curvature = np.einsum("ij,ij->j", d, Ad)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=left & (curvature > 0.0))
        x += step * d
        r -= step * Ad
        new = np.where(left, np.einsum("ij,ij->j", r, r), square)
        d *= np.divide(new, square, out=np.zeros_like(square), where=square > 0.0)
        d += r
        square = new
    return x, bool(np.all(square <= goal))


class Quadrature(NamedTuple):
    """``z' log(A) z`` of k probes, with what its derivative is made of."""

    value: np.ndarray
    """(k,)."""
    basis: np.ndarray
    """(J, n, k): the vectors of Lanczos."""
    weight: np.ndarray
    """(k, J, J): M."""


def log_quadrature(product: Product, probes: np.ndarray, tolerance: float) -> Quadrature:
    """``z' log(A) z`` for the columns of ``probes`` (n, k), with all vectors of Lanczos made orthogonal.

    Parameters
    ----------
    product : callable
        ``A`` times columns (n, k).
    probes : (n, k) array
    tolerance : float
        Steps end where some more have changed the sum of the values by this share.

    Raises
    ------
    numpy.linalg.LinAlgError
        A has eigenvalues that are not above 0, to rounding.
    """
    n, k = probes.shape
    most = min(_MOST_LANCZOS, n)
    basis = np.empty((min(32, most), n, k))
    length = np.sqrt(np.einsum("ij,ij->j", probes, probes))
    basis[0] = probes / length
    diagonal, beside = np.zeros((most, k)), np.zeros((most, k))
    last, J = np.inf, 0
    while True:
        w = product(basis[J])
        alive = np.einsum("ij,ij->j", basis[J], basis[J]) > 0.5
        # Where the space has ended, a 1 that is joined to nothing adds nothing.
        diagonal[J] = np.where(alive, np.einsum("ij,ij->j", basis[J], w), 1.0)
        J += 1
        if J % _EVERY == 0 or J == most:
            values, *_ = _ritz(diagonal[:J], beside[: J - 1], length)
            total = float(values.sum())
            if abs(total - last) <= tolerance * abs(total) or J == most:
                break
            last = total
        _orthogonalise(basis, J, w)
        size = np.sqrt(np.einsum("ij,ij->j", w, w))
        go_on = alive & (size > _ENDED * np.abs(diagonal[J - 1]))
        beside[J - 1] = np.where(go_on, size, 0.0)
        if J == len(basis):
            basis = np.concatenate([basis, np.empty((min(len(basis), most - J), n, k))])
        basis[J] = np.where(go_on, w / np.where(size > 0.0, size, 1.0), 0.0)
    values, eigenvalues, vectors, c = _ritz(diagonal[:J], beside[: J - 1], length)
    logs = np.log(eigenvalues)
    gap = eigenvalues[:, :, None] - eigenvalues[:, None, :]
    mean = 0.5 * (eigenvalues[:, :, None] + eigenvalues[:, None, :])
    near = np.abs(gap) < 1e-5 * mean
    # Near each other: the series of the logarithm, to the square of the gap.
    ratio = np.where(near, gap / mean, 0.0)
    delta = np.where(
        near,
        (1.0 + ratio**2 / 12.0) / mean,
        (logs[:, :, None] - logs[:, None, :]) / np.where(near, 1.0, gap),
    )
    weight = vectors @ (c[:, :, None] * c[:, None, :] * delta) @ np.swapaxes(vectors, 1, 2)
    return Quadrature(values, basis[:J], weight)


def _ritz(
    diagonal: np.ndarray, beside: np.ndarray, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values (k,), Ritz values (k, J) and vectors (k, J, J), and the probes' parts along these."""
    J, k = diagonal.shape
    T = np.zeros((k, J, J))
    at = np.arange(J)
    T[:, at, at] = diagonal.T
    T[:, at[1:], at[:-1]] = beside.T
    eigenvalues, vectors = np.linalg.eigh(T)
    if not np.all(eigenvalues > 0.0):
        raise np.linalg.LinAlgError("a matrix of latent functions is not positive definite to rounding.")
    c = length[:, None] * vectors[:, 0, :]
    return np.sum(c**2 * np.log(eigenvalues), axis=1), eigenvalues, vectors, c


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _orthogonalise(basis: np.ndarray, J: int, w: np.ndarray) -> None:
    """Take from each column of w (n, k) what it shares with the first J vectors of its own; the last two first."""
    n, k = w.shape
    dots = np.zeros(k)
    for back in range(J):
        v = basis[J - 1 - back]
        for s in range(k):
            dots[s] = 0.0
        for i in range(n):
            for s in range(k):
                dots[s] += v[i, s] * w[i, s]
        for i in range(n):
            for s in range(k):
                w[i, s] -= dots[s] * v[i, s]

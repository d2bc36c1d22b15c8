r"""Local ridge regressions at very many places, compiled: values of the functions there, and what they are made of.

At each place :math:`t_0` the rows of its window have the weights :math:`k_n`. With
:math:`H = \sum_n k_n x_n x_n' + \lambda I = L L'` the function at a row x there is
:math:`x' H^{-1} \sum_n k_n x_n y_n`, and its variance in units of the noise :math:`|L^{-1} x|^2`
(:mod:`zoo.inference.local.fits`). Sums over the rows of a window go feature by feature, along the rows, so that the
compiler takes eight rows at once. Every place looks at all N rows of the fit: for some ten thousand rows this is faster
than a tree.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.triangular import factorise, solve_lower, solve_transposed

__all__ = ["ridge_values"]

_FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _distances(z, centre, width, square):
    """Squared distances of places (P, N) from a centre, in widths."""
    for n in range(square.shape[0]):
        square[n] = 0.0
    for p in range(len(z)):
        for n in range(square.shape[0]):
            gap = (z[p, n] - centre[p]) / width
            square[n] += gap * gap


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _dot(a, b):
    total = 0.0
    for n in range(len(a)):
        total += a[n] * b[n]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def ridge_values(X, y, z, weight, centres, widths, gaussian, cut, degree, lam, starts, asked, value, spread):
    """Fill ``value`` and ``spread`` (n,) of rows ``asked`` (n, M), of which centre i has those from starts[i] on.

    X (M, N), y (N,), z (P, N) and weight (N,) are the rows of the fit; centres (m, P), widths (m,); rows further off
    than ``cut`` widths have no weight. Returned is the smallest share that :func:`factorise` has found.
    """
    M, N, P = len(X), len(y), len(z)
    K = M * (1 + P) if degree else M
    square, index = np.empty(N), np.empty(N, dtype=np.int64)
    features, weighted, response = np.empty((K, N)), np.empty((K, N)), np.empty(N)
    H, mean, x = np.empty((K, K)), np.empty(K), np.empty(K)
    least = 1.0
    for c in range(len(centres)):
        if starts[c] == starts[c + 1]:
            continue
        _distances(z, centres[c], widths[c], square)
        size = 0
        for n in range(N):
            index[size] = n
            size += square[n] <= cut * cut
        for i in range(size):
            n = index[i]
            k = np.exp(-0.5 * square[n]) if gaussian else max(0.0, 1.0 - square[n])
            response[i] = y[n]
            square[i] = k * weight[n]
        for d in range(M):
            for i in range(size):
                features[d, i] = X[d, index[i]]
        if degree:
            for p in range(P):
                for i in range(size):
                    gap = (z[p, index[i]] - centres[c, p]) / widths[c]
                    for d in range(M):
                        features[M * (1 + p) + d, i] = features[d, i] * gap
        for j in range(K):
            for i in range(size):
                weighted[j, i] = features[j, i] * square[i]
            for d in range(j + 1):
                H[j, d] = _dot(weighted[j, :size], features[d, :size])
            H[j, j] += lam
            mean[j] = _dot(weighted[j, :size], response[:size])
        least = min(least, factorise(H))
        solve_lower(H, mean)
        solve_transposed(H, mean)
        for r in range(starts[c], starts[c + 1]):
            total = 0.0
            for d in range(K):
                x[d] = asked[r, d] if d < M else 0.0
                total += x[d] * mean[d]
            solve_lower(H, x)
            value[r] = total
            total = 0.0
            for d in range(K):
                total += x[d] * x[d]
            spread[r] = total
    return least

r"""Draws of a normal vector from rows: precision :math:`Q = J' W J`, linear term :math:`h = J' u`.

Q is dense, or sparse with a Cholesky factor in an order of small fill (George & Liu 1981, *Computer
Solution of Large Sparse Positive Definite Systems*): blocks by task, arrows and chains cost what
they hold.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from zoo.inference.compiled import njit
from zoo.steps.iterative_normal import IterativeNormal

__all__ = [
    "MOST_DENSE",
    "MOST_FILLED",
    "DenseNormal",
    "SparseNormal",
    "add_products",
    "block_normal",
    "subtract_products",
]

MOST_DENSE = 6_000
"""Entries of a block, above which its precision is not worked on densely."""

MOST_FILLED = 20_000_000
"""Entries of a sparse factor, above which it is not made."""

# Steps of conjugate gradients that a draw without a factor is expected to take.
_STEPS = 200
# A factor with more of its entries than this is worked on densely.
_FILLED = 0.25
_SMALL = 24


Base = tuple[np.ndarray, np.ndarray | None]


class _Factor(NamedTuple):
    """Pattern of a sparse lower Cholesky factor, by columns and by rows."""

    order: np.ndarray  # (K,) the variable at each place
    place: np.ndarray  # (K,) the place of each variable
    indptr: np.ndarray  # (K + 1,), columns: the diagonal first, then ascending
    indices: np.ndarray
    row_indptr: np.ndarray  # (K + 1,), entries left of the diagonal of each row: ...
    row_columns: np.ndarray  # ... their column
    row_entries: np.ndarray  # ... and where they are among the entries by columns


def block_normal(
    indptr: np.ndarray, indices: np.ndarray, size: int
) -> DenseNormal | SparseNormal | IterativeNormal:
    """The cheapest one for rows with these entries."""
    if size <= _SMALL:
        return DenseNormal(size, indptr)
    large = size > MOST_DENSE
    factor = _symbolic(
        indptr, indices, size, MOST_FILLED if large else int(_FILLED * 0.5 * size * (size + 1))
    )
    if not large:
        return DenseNormal(size, indptr) if factor is None else SparseNormal(factor, indptr, indices)
    if factor is None or np.sum(np.diff(factor.indptr) ** 2.0) > _STEPS * 4.0 * len(indices):
        return IterativeNormal(size)
    return SparseNormal(factor, indptr, indices)


def _adjacency(indptr: np.ndarray, indices: np.ndarray, size: int, most: int) -> list[set[int]] | None:
    """With which columns each one shares a row; None where more than ``most`` pairs do, as far as rows tell alone."""
    longest = int(np.diff(indptr).max(initial=0))
    if longest * (longest - 1) // 2 > most:
        return None
    rows = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(indptr) - 1, size))
    together = sparse.csr_array(rows.T @ rows)
    found = [set(together.indices[together.indptr[k] : together.indptr[k + 1]].tolist()) for k in range(size)]
    for k, others in enumerate(found):
        others.discard(k)
    return found


def _symbolic(indptr: np.ndarray, indices: np.ndarray, size: int, most: int) -> _Factor | None:
    """Pattern of the factor, the variable of least degree eliminated first; None where it has more than ``most``."""
    together = _adjacency(indptr, indices, size, most)
    if together is None:
        return None
    queue = [(len(others), k) for k, others in enumerate(together)]
    heapify(queue)
    left = np.ones(size, dtype=bool)
    order, columns, filled = np.empty(size, dtype=np.int64), [], 0
    for j in range(size):
        degree, k = heappop(queue)
        while not left[k] or degree != len(together[k]):  # an entry of before its degree changed
            degree, k = heappop(queue)
        if degree == size - j - 1:  # all that are left depend on each other
            rest = np.flatnonzero(left)
            order[j:], filled = rest, filled + len(rest) * (len(rest) + 1) // 2
            columns += [rest[i + 1 :] for i in range(len(rest))]
            break
        order[j], left[k] = k, False
        neighbours = together[k]
        columns.append(np.fromiter(neighbours, dtype=np.int64, count=len(neighbours)))
        filled += 1 + len(neighbours)
        if filled > most:
            return None
        for other in neighbours:
            theirs = together[other]
            before = len(theirs)
            theirs |= neighbours
            theirs -= {k, other}
            if len(theirs) != before:
                heappush(queue, (len(theirs), other))
        together[k] = set()
    if filled > most:
        return None
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    below = [np.sort(place[c]) for c in columns]
    indptr = np.concatenate([[0], np.cumsum([1 + len(b) for b in below])]).astype(np.int64)
    indices = np.concatenate([np.concatenate([[j], b]) for j, b in enumerate(below)]).astype(np.int64)
    column = np.repeat(np.arange(size), np.diff(indptr))
    entries = np.flatnonzero(indices != column)
    by_row = entries[np.lexsort((column[entries], indices[entries]))]
    counts = np.bincount(indices[entries], minlength=size)
    row_indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return _Factor(order, place, indptr, indices, row_indptr, column[by_row].astype(np.int64), by_row)


class DenseNormal:
    """Draws by a dense factor.

    Parameters
    ----------
    size : int
        K.
    indptr : (N + 1,) array
        Of the rows of J. The last ones, which have all K entries each, go through one product of
        matrices.
    """

    def __init__(self, size: int, indptr: np.ndarray):
        self.size = size
        self._matrix = np.empty((size, size))
        self._linear = np.empty(size)
        self._every = np.arange(size)
        short = np.flatnonzero(np.diff(indptr) != size)
        self._first_full = int(short[-1]) + 1 if len(short) else 0

    def draw(
        self, rng: np.random.Generator, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray,
        w: np.ndarray, u: np.ndarray, base: Base | None = None, base_from: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """One draw (K,) of N(Q^-1 h, Q^-1).

        Parameters
        ----------
        rng : numpy.random.Generator
        indptr, indices, data : (N + 1,), (E,), (E,) arrays
            Rows of J.
        w, u : (N,) arrays
            Diagonal of W, and what J' is multiplied with.
        base : pair, optional
            What :meth:`sums` gave for the rows from ``base_from`` on: their part of Q, which is not summed anew, and
            their part of h, or None where it is to be summed.

        Raises
        ------
        numpy.linalg.LinAlgError
            Where Q is not positive definite.
        """
        if base is None:
            self._fill(indptr, indices, data, w, u, len(w), True)
        else:
            self._fill(indptr, indices, data, w, u, base_from, base[1] is None)
            self._matrix += base[0]
            if base[1] is not None:
                self._linear += base[1]
        factor = np.linalg.cholesky(self._matrix)
        half = solve_triangular(factor, self._linear, lower=True, check_finite=False)
        half += rng.standard_normal(self.size)
        drawn: np.ndarray = solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
        return drawn

    def sums(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        data: np.ndarray,
        w: np.ndarray,
        u: np.ndarray,
        base_from: int,
    ) -> Base:
        """What the rows from ``base_from`` on add to Q and h, as ``draw`` takes it."""
        counts = np.arange(len(w)) >= base_from
        self._fill(indptr, indices, data, np.where(counts, w, 0.0), np.where(counts, u, 0.0), len(w), True)
        return self._matrix.copy(), self._linear.copy()

    def _fill(
        self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, w: np.ndarray, u: np.ndarray, stop: int,
        linear_of_all: bool,
    ) -> None:  # fmt: skip
        """Q of the rows before ``stop``, and h of these or of all."""
        first = min(self._first_full, stop)
        _dense_sums(indptr[: first + 1], indices, data, w[:first], u, self._matrix, self._linear)
        if first < stop:
            full = data[indptr[first] : indptr[stop]].reshape(-1, self.size)
            self._matrix += (full * w[first:stop, None]).T @ full
            self._linear += full.T @ u[first:stop]
        if not linear_of_all or stop == len(w):
            return
        begin = max(stop, self._first_full)
        _add_linear(indptr, indices, data, u, stop, begin, self._every, self._linear)
        if begin < len(w):
            self._linear += data[indptr[begin] :].reshape(-1, self.size).T @ u[begin:]


@njit(cache=True, nogil=True)
def _add_linear(indptr, indices, data, u, first, last, place, linear):
    """``linear += J' u`` of some rows."""
    for n in range(first, last):
        for e in range(indptr[n], indptr[n + 1]):
            linear[place[indices[e]]] += data[e] * u[n]


@njit(cache=True, nogil=True)
def _dense_sums(indptr, indices, data, w, u, matrix, linear):
    matrix[:] = 0.0
    linear[:] = 0.0
    for n in range(len(w)):
        for a in range(indptr[n], indptr[n + 1]):
            i, x = indices[a], w[n] * data[a]
            linear[i] += data[a] * u[n]
            for b in range(indptr[n], a + 1):
                matrix[i, indices[b]] += x * data[b]


class SparseNormal:
    """Draws by a sparse factor; arguments of ``draw`` as those of :class:`DenseNormal`."""

    def __init__(self, factor: _Factor, indptr: np.ndarray, indices: np.ndarray):
        self.size = len(factor.order)
        self._factor = factor
        self._pairs = _pair_places(indptr, indices, factor.place, factor.indptr, factor.indices)
        self._matrix = np.empty(len(factor.indices))
        self._linear = np.empty(self.size)

    def draw(
        self, rng: np.random.Generator, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray,
        w: np.ndarray, u: np.ndarray, base: Base | None = None, base_from: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """One draw (K,)."""
        f = self._factor
        stop = len(w) if base is None else base_from
        self._sum(indptr, indices, data, w[:stop], u)
        if base is not None:
            self._matrix += base[0]
            if base[1] is None:
                _add_linear(indptr, indices, data, u, stop, len(w), f.place, self._linear)
            else:
                self._linear += base[1]
        if not _factorise(f.indptr, f.indices, f.row_indptr, f.row_columns, f.row_entries, self._matrix):
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        _solve_and_draw(f.indptr, f.indices, self._matrix, rng.standard_normal(self.size), self._linear)
        return self._linear[f.place]

    def sums(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        data: np.ndarray,
        w: np.ndarray,
        u: np.ndarray,
        base_from: int,
    ) -> Base:
        """What the rows from ``base_from`` on add to Q and h, as ``draw`` takes it."""
        counts = np.arange(len(w)) >= base_from
        self._sum(indptr, indices, data, np.where(counts, w, 0.0), np.where(counts, u, 0.0))
        return self._matrix.copy(), self._linear.copy()

    def _sum(
        self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, w: np.ndarray, u: np.ndarray
    ) -> None:
        """Q and h of the first rows, as many as ``w`` has."""
        _sparse_sums(indptr, indices, data, w, u, self._pairs, self._factor.place, self._matrix, self._linear)


@njit(cache=True, nogil=True)
def _pair_places(indptr, indices, place, factor_indptr, factor_indices):
    """Where the product of every pair of entries of a row goes among the entries of the factor."""
    total = 0
    for n in range(len(indptr) - 1):
        m = indptr[n + 1] - indptr[n]
        total += m * (m + 1) // 2
    found = np.empty(total, dtype=np.int32)
    t = 0
    for n in range(len(indptr) - 1):
        for a in range(indptr[n], indptr[n + 1]):
            for b in range(indptr[n], a + 1):
                i, j = place[indices[a]], place[indices[b]]
                if i < j:
                    i, j = j, i
                column = factor_indices[factor_indptr[j] : factor_indptr[j + 1]]
                found[t] = factor_indptr[j] + np.searchsorted(column, i)
                t += 1
    return found


@njit(cache=True, nogil=True)
def _sparse_sums(indptr, indices, data, w, u, pairs, place, matrix, linear):
    matrix[:] = 0.0
    linear[:] = 0.0
    t = 0
    for n in range(len(w)):
        for a in range(indptr[n], indptr[n + 1]):
            x = w[n] * data[a]
            linear[place[indices[a]]] += data[a] * u[n]
            for b in range(indptr[n], a + 1):
                matrix[pairs[t]] += x * data[b]
                t += 1


@njit(cache=True, nogil=True)
def _factorise(indptr, indices, row_indptr, row_columns, row_entries, matrix):
    """The factor in place of the matrix, column by column; false where a pivot is not positive."""
    size = len(indptr) - 1
    work = np.zeros(size)
    for j in range(size):
        start, stop = indptr[j], indptr[j + 1]
        for e in range(start, stop):
            work[indices[e]] = matrix[e]
        for r in range(row_indptr[j], row_indptr[j + 1]):
            first = row_entries[r]
            x = matrix[first]
            for e in range(first, indptr[row_columns[r] + 1]):
                work[indices[e]] -= x * matrix[e]
        pivot = work[j]
        if not pivot > 0.0:
            return False
        root = np.sqrt(pivot)
        for e in range(start, stop):
            matrix[e] = work[indices[e]] / root
            work[indices[e]] = 0.0
        matrix[start] = root
    return True


@njit(cache=True, nogil=True)
def _solve_and_draw(indptr, indices, factor, noise, x):
    """``x <- L'^-1 (L^-1 x + noise)``, in place."""
    size = len(x)
    for j in range(size):
        x[j] /= factor[indptr[j]]
        for e in range(indptr[j] + 1, indptr[j + 1]):
            x[indices[e]] -= factor[e] * x[j]
    for j in range(size - 1, -1, -1):
        total = x[j] + noise[j]
        for e in range(indptr[j] + 1, indptr[j + 1]):
            total -= factor[e] * x[indices[e]]
        x[j] = total / factor[indptr[j]]


@njit(cache=True, nogil=True)
def subtract_products(indptr, indices, data, x, out):
    """``out -= J x``, in place."""
    for n in range(len(out)):
        total = 0.0
        for e in range(indptr[n], indptr[n + 1]):
            total += data[e] * x[indices[e]]
        out[n] -= total


@njit(cache=True, nogil=True)
def add_products(indptr, indices, data, x, rows, out):
    """``out[rows] += J x``, in place, of rows of J that stand at the places ``rows`` of ``out``."""
    for n in range(len(rows)):
        total = 0.0
        for e in range(indptr[n], indptr[n + 1]):
            total += data[e] * x[indices[e]]
        out[rows[n]] += total

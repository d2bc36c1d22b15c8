"""Parts of a block that are moved at once, and their components, which no row connects given the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from zoo.steps.block_normal import block_normal
from zoo.steps.term_rows import TermRows

__all__ = ["LARGEST_COMPONENT", "Part", "find_parts"]

LARGEST_COMPONENT = 50
"""Entries of a component, above which a normal law is seldom close enough to be accepted."""


class Part(NamedTuple):
    """Columns that are proposed at once, given all others.

    Parameters
    ----------
    columns : (m,) int array
    component : (m,) int array
        Of each column.
    rows : (r,) int array
        Which rows read them, those of priors first.
    n_prior : int
        How many of these are of priors.
    indptr, indices, entries : arrays
        Of these rows: ``entries`` says where the data are among those of J.
    row_component : (r,) int array
    n_components : int
    normal : DenseNormal, SparseNormal or IterativeNormal
    """

    columns: np.ndarray
    component: np.ndarray
    rows: np.ndarray
    n_prior: int
    indptr: np.ndarray
    indices: np.ndarray
    entries: np.ndarray
    row_component: np.ndarray
    n_components: int
    normal: Any

    @property
    def observed(self) -> bool:
        """Whether observed rows read them."""
        return self.n_prior < len(self.rows)


def _part(rows: TermRows, columns: np.ndarray) -> Part:
    size, n = int(rows.starts[-1]), len(rows.indptr) - 1
    at = np.arange(1, len(rows.indices) + 1)  # 0 is no entry
    J = sparse.csr_array((at, rows.indices, rows.indptr), shape=(n, size))[:, columns]
    read = np.flatnonzero(np.diff(J.indptr))
    J = J[read]
    J.sort_indices()
    component = _components(J)
    indptr, indices = J.indptr.astype(np.int64), J.indices.astype(np.int64)
    return Part(
        columns, component, read, int(np.searchsorted(read, rows.n_prior)), indptr, indices,
        J.data.astype(np.int64) - 1, component[indices[indptr[:-1]]], int(component.max()) + 1,
        block_normal(indptr, indices, len(columns)),
    )  # fmt: skip


def _components(J: Any) -> np.ndarray:
    """The component (K,) of each column of a sparse matrix: columns that share a row are in one."""
    size = J.shape[1]
    pattern = sparse.csr_array((np.ones(len(J.data)), J.indices, J.indptr), shape=J.shape)
    both = sparse.block_array([[None, pattern.T], [pattern, None]], format="csr")
    found: np.ndarray = connected_components(both, directed=False)[1][:size]
    return np.unique(found, return_inverse=True)[1]


def find_parts(rows: TermRows) -> list[Part]:
    """What is moved at once: all that observed rows read, or one variable of the block after the other."""
    size = int(rows.starts[-1])
    n = len(rows.indptr) - 1
    J = sparse.csr_array((np.ones(len(rows.indices)), rows.indices, rows.indptr), shape=(n, size))
    seen = np.zeros(size, dtype=bool)
    seen[rows.indices[rows.indptr[rows.n_prior] :]] = True
    groups = [np.flatnonzero(seen)]
    if not _small(J, groups[0]):
        variables = [np.arange(a, b) for a, b in zip(rows.starts[:-1], rows.starts[1:], strict=True)]
        variables = [c[seen[c]] for c in variables if seen[c].any()]
        few = [c for c in variables if len(c) <= LARGEST_COMPONENT // 2]
        groups = [c for c in variables if len(c) > LARGEST_COMPONENT // 2 and _small(J, c)]
        if few and sum(map(len, few)) <= LARGEST_COMPONENT:
            groups.append(np.concatenate(few))
    if groups and not seen.all():
        groups.append(np.flatnonzero(~seen))
    return [_part(rows, columns) for columns in groups]


def _small(J: Any, columns: np.ndarray) -> bool:
    return int(np.bincount(_components(J[:, columns])).max()) <= LARGEST_COMPONENT

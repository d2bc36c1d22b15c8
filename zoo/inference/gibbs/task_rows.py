"""The rows of all tasks, sorted by task, and their function values, for compiled samplers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["Rows", "function_values"]


class Rows(NamedTuple):
    """The rows of all tasks, sorted by task, for compiled functions.

    ``inputs`` (n, D) distinct inputs; ``row`` (N,) which of them each row has; ``starts`` (T + 1,) where tasks
    begin; ``offset`` (N,) what is added to ``x'h``.
    """

    inputs: np.ndarray
    row: np.ndarray
    starts: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(
        cls,
        inputs: np.ndarray,
        row: np.ndarray,
        order: np.ndarray,
        sizes: np.ndarray,
        offset: np.ndarray | None,
    ) -> Rows:
        """Rows in any order, of which ``order`` (N,) sorts them by task; ``sizes`` (T,) are the rows of each task."""
        return cls(
            inputs=np.ascontiguousarray(inputs),
            row=np.ascontiguousarray(row[order]),
            starts=np.concatenate([[0], np.cumsum(sizes)]),
            offset=np.zeros(len(row)) if offset is None else np.ascontiguousarray(offset[order]),
        )


@njit(cache=True, nogil=True)
def function_values(rows, H, first, last, f):
    """Fill f (N,) in the rows of the tasks ``first`` to ``last``, whose coefficients are H (T, D).

    ``rows`` has the fields of :class:`Rows`.
    """
    n_features = H.shape[1]
    for t in range(first, last):
        for n in range(rows.starts[t], rows.starts[t + 1]):
            x = rows.inputs[rows.row[n]]
            total = rows.offset[n]
            for d in range(n_features):
                total += x[d] * H[t, d]
            f[n] = total

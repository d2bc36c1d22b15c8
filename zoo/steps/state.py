"""A block in the course of a sweep: its predictors, and the log densities of observed rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.steps.block_normal import add_products
from zoo.steps.row_densities import DENSITIES, SLOPES
from zoo.steps.term_rows import TermRows

__all__ = ["State"]

Point = dict[str, np.ndarray]

# Of predictors, over their size, that are summed up change by change.
_ROUNDING = 1e-10


class State:
    """A block in the course of a sweep, with its predictors and the log densities of observed rows.

    Parameters
    ----------
    rows : TermRows
    point : dict
    data : (E,) array
        Entries of J at this point.
    last : State, optional
        Of the sweep before.

    Attributes
    ----------
    continued : bool
        Whether the observed rows are as ``last`` left them: then their log densities are too, and their offsets.
    """

    def __init__(self, rows: TermRows, point: Point, data: np.ndarray, last: State | None = None):
        self.rows, self.data, self.block = rows, data, rows.block_of(point)
        self.e, self.parameters = rows.read(point)
        self._densities: np.ndarray | None = None
        self.continued = last is not None and self._continues(last)
        if self.continued:
            self._densities = last._densities  # type: ignore[union-attr]

    def _continues(self, last: State) -> bool:
        """Whether observed rows are the same, up to roundings of predictors that were moved by what was added."""
        first, k = self.rows.n_prior, len(self.rows.names)
        e = self.e[first:]
        if not np.all(np.abs(e - last.e[first:]) <= _ROUNDING * (1.0 + np.abs(e))):
            return False
        pairs = zip(self.parameters[k:], last.parameters[k:], strict=True)
        return all(np.array_equal(a, b) for now, then in pairs for a, b in zip(now, then, strict=True))

    @property
    def densities(self) -> np.ndarray:
        """Log densities (m,) of the observed rows, up to constants."""
        if self._densities is None:
            self._densities = self.log_densities(self.e)
        return self._densities

    def log_densities(self, e: np.ndarray) -> np.ndarray:
        """Those of the observed rows (m,), where the predictors are ``e`` (n,)."""
        return self._of_observed(DENSITIES, e)

    def slopes(self) -> np.ndarray:
        """Their derivatives (m,) at the predictors now."""
        return self._of_observed(SLOPES, self.e)

    def _of_observed(self, functions: Mapping[str, Any], e: np.ndarray) -> np.ndarray:
        begin, k = self.rows.n_prior, len(self.rows.names)
        found = np.empty(len(e) - begin)
        terms = zip(self.rows.kinds[k:], self.rows.spans[k:], self.parameters[k:], strict=True)
        for kind, (first, last), parameters in terms:
            functions[kind](e[first:last], found[first - begin : last - begin], *parameters)
        return found

    def set_block(self, block: np.ndarray) -> None:
        """Put another block in place."""
        rows = self.rows
        add_products(rows.indptr, rows.indices, self.data, block - self.block, rows.every, self.e)
        self.block, self._densities = block, None

    def take(self, block: np.ndarray, e: np.ndarray, densities: np.ndarray | None) -> None:
        """The same, with predictors (n,) and log densities (m,), which None leaves as they are."""
        self.block, self.e = block, e
        if densities is not None:
            self._densities = densities

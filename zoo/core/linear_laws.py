r"""Functions that are linear in the features given a posterior draw, at new rows by products of matrices.

With the coefficients :math:`W_t` (S, D) of the S draws of task t, the functions at its rows X are :math:`X W_t'`, one
product of matrices for all draws. The model's own graph says the same, draw by draw, and holds all of them at once.

This is for models whose hook ``latent`` is the linear one of :class:`zoo.ModelFactory`, or is it where the prior has
"coefficients", whose ``shared_part`` is linear too, and whose prior gives the variable "coefficients" itself to
``latent``, which is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from zoo.core.factory_model import FactoryModel
from zoo.core.hooks import SHARED, ModelData
from zoo.core.row_laws import Block, RowLaws
from zoo.data.multitask import MultiTaskData
from zoo.support.checks import is_sparse

__all__ = ["LinearLaws", "linear_laws"]

_COEFFICIENTS = "coefficients"
# Coefficients that are put in order at once.
_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class LinearLaws(RowLaws):
    """f at prepared rows given each draw: a point.

    Parameters
    ----------
    data : MultiTaskData
        The rows.
    coefficients : (S, D, T) or (S, D, 1) array
        Of each task, or of all.
    shared : (S, J) array, optional
        Coefficients of the features that all tasks share.
    """

    data: MultiTaskData
    coefficients: np.ndarray
    shared: np.ndarray | None = None

    @property
    def n_draws(self) -> int:  # type: ignore[override]
        """S."""
        return len(self.coefficients)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """How many rows."""
        return self.data.n_rows

    def blocks(self) -> Iterator[Callable[[], Block]]:
        """Rows of a task lie together, so that they share the product."""
        S, D, T = self.coefficients.shape
        task = self.data.task if T > 1 else np.zeros(self.n_rows, dtype=int)
        order = np.argsort(task, kind="stable")
        asked, first = np.unique(task[order], return_index=True)
        ends = np.append(first[1:], self.n_rows)
        step = max(1, _NUMBERS // (S * max(D, 1)))
        for at in range(0, len(asked), step):
            some = asked[at : at + step]
            W = np.ascontiguousarray(self.coefficients[:, :, some].transpose(2, 1, 0))
            low, high = first[at], ends[at + len(some) - 1]
            for start in range(low, high, self.rows_at_once):
                rows = order[start : min(start + self.rows_at_once, high)]
                yield partial(self._block, rows, np.searchsorted(some, task[rows]), W)

    def _block(self, rows: np.ndarray, task: np.ndarray, W: np.ndarray) -> Block:
        X = np.asarray(self.data.inputs[self.data.row[rows]], dtype=np.float64)
        mean = np.empty((len(rows), W.shape[2]))
        edges = np.flatnonzero(np.diff(task)) + 1
        for start, end in zip([0, *edges], [*edges, len(rows)], strict=True):
            np.dot(X[start:end], W[task[start]], out=mean[start:end])
        if self.shared is not None:
            assert self.data.shared is not None
            mean += np.asarray(self.data.shared[rows] @ self.shared.T)
        return Block(rows, mean, np.zeros((1, W.shape[2])))


def linear_laws(model: Any, rows: MultiTaskData, posterior: Mapping[str, np.ndarray]) -> LinearLaws | None:
    """The functions at prepared rows by draws (chain, draw, ...) of the variables; None where they are not linear."""
    marks = (type(model).latent, "linear_given_coefficients"), (type(model).shared_part, "is_linear")
    if not all(getattr(hook, mark, False) for hook, mark in marks):
        return None
    if rows.gaps is not None or is_sparse(rows.inputs) or _COEFFICIENTS not in posterior:
        return None
    if not _passes_coefficients(model, rows.take([0])):
        return None
    values = posterior[_COEFFICIENTS]
    W = values.reshape(-1, *values.shape[2:])
    beta = None
    if rows.shared is not None:
        if SHARED not in posterior:
            return None
        beta = posterior[SHARED].reshape(len(W), -1)
    return LinearLaws(rows, W if W.ndim == 3 else W[:, :, None], beta)


def _passes_coefficients(model: Any, row: MultiTaskData) -> bool:
    """Whether the hook ``priors`` hands the variable of that name on as it is."""
    with FactoryModel(
        coords=model.coords(row),
        model=None,
        own_priors=dict(model.own_priors),
        own_task_priors=model.own_task_priors,
    ) as built:
        priors = model.priors(ModelData.in_model(row, row.y))
    known = built.named_vars.get(_COEFFICIENTS)
    return known is not None and isinstance(priors, dict) and priors.get(_COEFFICIENTS) is known

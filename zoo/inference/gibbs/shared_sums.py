r"""Sums over the rows of each task, less what shared coefficients say of the responses.

The sampler of the normal-inverse-Wishart hierarchy sees the responses of a task through sums alone.
With shared coefficients :math:`\beta` these are the sums of :math:`y_t - S_t \beta`, which change
with :math:`\beta` and are kept up to date without a look at the rows. Let :math:`A_t` and
:math:`\hat w_t` be the least-squares coefficients of :math:`S_t` and :math:`y_t` on
:math:`X_t`, and :math:`E_t` and :math:`e_t` their residuals. Then

.. math::

    X_t'(y_t - S_t \beta) = X_t' y_t - X_t' S_t \beta, \qquad
    \hat w_t(\beta) = \hat w_t - A_t \beta, \qquad
    |e_t - E_t \beta|^2 = |e_t - E_t b_t|^2 + |E_t (\beta - b_t)|^2

with :math:`b_t` the least-squares coefficients of :math:`e_t` on :math:`E_t`. Written like that the
squared error does not cancel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.gibbs.population_steps import LANES, Tasks
from zoo.inference.stacks import equal_sizes, smallest_least_squares

__all__ = ["SharedSums"]


class SharedSums(NamedTuple):
    r"""What stands still of these sums.

    ``cross`` (T, D, S) with :math:`X_t' S_t`, ``square`` (T, S, S) with :math:`S_t' S_t`, ``slope`` (T, S) with
    :math:`S_t' y_t`; ``linear`` and ``centre`` (blocks, D, lanes) at :math:`\beta = 0`, and how they change,
    ``by_beta`` and ``centre_by_beta`` (blocks, D, lanes, S); ``least`` (T,), ``best`` (T, S) and ``curvature``
    (T, S, S): the squared errors.
    """

    cross: np.ndarray
    square: np.ndarray
    slope: np.ndarray
    linear: np.ndarray
    centre: np.ndarray
    by_beta: np.ndarray
    centre_by_beta: np.ndarray
    least: np.ndarray
    best: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of(
        cls,
        tasks: Tasks,
        inputs: np.ndarray,
        shared: np.ndarray,
        y: np.ndarray,
        task: np.ndarray,
        weight: np.ndarray | None,
    ) -> SharedSums:
        """Of rows in any order: features (N, D), shared ones (N, S), tasks (N,); ``tasks`` are the sums at 0."""
        T, D, n_shared = len(tasks.size), inputs.shape[1], shared.shape[1]
        cross, square = np.zeros((T, D, n_shared)), np.zeros((T, n_shared, n_shared))
        slope, A = np.zeros((T, n_shared)), np.zeros((T, D, n_shared))
        least, best, curvature = np.zeros(T), np.zeros((T, n_shared)), np.zeros((T, n_shared, n_shared))
        order = np.argsort(task, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=T))])
        for some, place in equal_sizes(starts, D + n_shared + 1):
            at = order[place]
            root = np.ones((*at.shape, 1)) if weight is None else np.sqrt(weight[at])[..., None]
            X, s, y_t = root * inputs[at], root * shared[at], root * y[at][..., None]
            transposed = s.transpose(0, 2, 1)
            cross[some], square[some] = X.transpose(0, 2, 1) @ s, transposed @ s
            slope[some] = (transposed @ y_t)[..., 0]
            fitted = smallest_least_squares(X, np.concatenate([s, y_t], axis=2))
            E, e = s - X @ fitted[..., :-1], y_t - X @ fitted[..., -1:]
            A[some], curvature[some] = fitted[..., :-1], E.transpose(0, 2, 1) @ E
            found = smallest_least_squares(E, e)
            best[some] = found[..., 0]
            least[some] = np.sum((e - E @ found) ** 2, axis=(1, 2))
        return cls(
            cross, square, slope, tasks.linear.copy(), tasks.centre.copy(), _lanes(cross), _lanes(A), least, best,
            curvature,
        )  # fmt: skip

    def put(self, tasks: Tasks, beta: np.ndarray) -> None:
        """Make the sums those of the responses less the part of ``beta`` (S,), in place."""
        tasks.linear[:] = self.linear - self.by_beta @ beta
        tasks.centre[:] = self.centre - self.centre_by_beta @ beta
        apart = beta - self.best
        tasks.sse[:] = self.least + np.einsum("ts,tsu,tu->t", apart, self.curvature, apart)


def _lanes(values: np.ndarray) -> np.ndarray:
    """Values of tasks (T, D, S) as (blocks, D, lanes, S)."""
    T, D, n_shared = values.shape
    padded = np.zeros((-(-T // LANES) * LANES, D, n_shared))
    padded[:T] = values
    return np.ascontiguousarray(np.moveaxis(padded.reshape(-1, LANES, D, n_shared), 1, 2))

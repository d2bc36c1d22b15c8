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

Of the levels of a further group a task has rows of a few only. So each task has its sums for the shared features that
are not 0 in all of its rows, its active ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import LANES, Tasks
from zoo.inference.gibbs.shared_population import draw_with_population
from zoo.inference.stacks import equal_sizes, smallest_least_squares

__all__ = ["ActiveSums", "SharedSums", "subtract_shared"]

# Of the size of the shared features of a task, what is left of them where its own features explain them.
_ROUNDING = 1e-10


class ActiveSums(NamedTuple):
    r"""Sums of the rows of each task for its active shared features, those of all tasks one after the other.

    ``feature`` (A,) says which features they are, and those of task t stand from ``starts[t]`` (T + 1,) on. ``cross``
    (A, D) holds :math:`X_t' S_t`, ``slope`` (A,) :math:`S_t' y_t`, and ``square``, from ``square_starts[t]`` (T + 1,)
    on, the rows of :math:`S_t' S_t`.
    """

    starts: np.ndarray
    feature: np.ndarray
    square_starts: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    slope: np.ndarray

    @classmethod
    def empty(cls, shared: np.ndarray, task: np.ndarray, n_tasks: int, n_features: int) -> ActiveSums:
        """Of rows in any order, with the sums at 0; ``shared`` (N, S), ``task`` (N,)."""
        mask = np.zeros((n_tasks, shared.shape[1]), dtype=np.bool_)
        _mark(np.ascontiguousarray(shared), task, mask)
        sizes = mask.sum(axis=1)
        starts, squares = (np.concatenate([[0], np.cumsum(n)]) for n in (sizes, sizes**2))
        shapes = ((starts[-1], n_features), (squares[-1],), (starts[-1],))
        return cls(starts, np.nonzero(mask)[1], squares, *(np.zeros(shape) for shape in shapes))

    def stacks(self, some: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Of these tasks, positions among them (t,) of as many active features each, and the places in ``feature``
        (t, k) and in ``square`` (t, k, k) of these.
        """
        sizes = np.diff(self.starts)[some]
        for k in np.unique(sizes):
            same = np.flatnonzero(sizes == k)
            tasks = some[same]
            squares = self.square_starts[tasks][:, None, None] + np.arange(k * k).reshape(k, k)
            yield same, self.starts[tasks][:, None] + np.arange(k), squares


@njit(cache=True, nogil=True)
def _mark(shared, task, mask):
    """Set what is not 0 in some row of a task."""
    for n in range(len(task)):
        for i in range(shared.shape[1]):
            if shared[n, i] != 0.0:
                mask[task[n], i] = True


@njit(cache=True, nogil=True)
def subtract_shared(starts, index, by_beta, beta, values):
    """Take ``by_beta' beta`` of each task from ``values`` (blocks, D, lanes); ``by_beta`` (A, D)."""
    for t in range(len(starts) - 1):
        block, lane = t // LANES, t % LANES
        for j in range(starts[t], starts[t + 1]):
            b = beta[index[j]]
            for d in range(by_beta.shape[1]):
                values[block, d, lane] -= by_beta[j, d] * b


@njit(cache=True, nogil=True)
def _squared_errors(starts, index, square_starts, least, best, curvature, beta, sse):
    """Fill the squared errors of the tasks."""
    for t in range(len(starts) - 1):
        first, k = starts[t], starts[t + 1] - starts[t]
        total = least[t]
        for i in range(k):
            apart = beta[index[first + i]] - best[first + i]
            for j in range(k):
                other = beta[index[first + j]] - best[first + j]
                total += apart * curvature[square_starts[t] + i * k + j] * other
        sse[t] = total


class SharedSums(NamedTuple):
    """What stands still of these sums.

    ``active``: with the shared features; ``linear`` and ``centre`` (blocks, D, lanes) at no shared coefficients, and
    ``centre_by_beta`` (A, D), how the latter changes; ``least`` (T,), ``best`` (A,) and ``curvature``, as ``square``
    in ``active``: the squared errors.
    """

    active: ActiveSums
    linear: np.ndarray
    centre: np.ndarray
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
        T, D = len(tasks.size), inputs.shape[1]
        active = ActiveSums.empty(shared, task, T, D)
        A, least = np.zeros_like(active.cross), np.zeros(T)
        best, curvature = np.zeros_like(active.slope), np.zeros_like(active.square)
        order = np.argsort(task, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=T))])
        most = int(np.diff(active.starts).max(initial=0))
        for some, place in equal_sizes(starts, D + most + 1):
            for same, at_index, at_square in active.stacks(some):
                at = order[place[same]]
                root = np.ones((*at.shape, 1)) if weight is None else np.sqrt(weight[at])[..., None]
                X, y_t = root * inputs[at], root * y[at][..., None]
                s = root * shared[at[:, :, None], active.feature[at_index][:, None, :]]
                transposed = s.transpose(0, 2, 1)
                active.cross[at_index] = transposed @ X
                active.square[at_square] = transposed @ s
                active.slope[at_index] = (transposed @ y_t)[..., 0]
                fitted = smallest_least_squares(X, np.concatenate([s, y_t], axis=2))
                E, e = s - X @ fitted[..., :-1], y_t - X @ fitted[..., -1:]
                A[at_index] = fitted[..., :-1].transpose(0, 2, 1)
                curvature[at_square] = E.transpose(0, 2, 1) @ E
                # Of a shared feature that those of the task explain, E is rounding of its own size.
                size = np.sqrt(np.sum(s * s, axis=(1, 2)))[:, None]
                found = smallest_least_squares(E, e, _ROUNDING * size)
                best[at_index] = found[..., 0]
                least[some[same]] = np.sum((e - E @ found) ** 2, axis=(1, 2))
        return cls(active, tasks.linear.copy(), tasks.centre.copy(), A, least, best, curvature)

    def put(self, tasks: Tasks, beta: np.ndarray) -> None:
        """Make the sums those of the responses less the part of ``beta`` (S,), in place."""
        known = self.active
        tasks.linear[:] = self.linear
        tasks.centre[:] = self.centre
        subtract_shared(known.starts, known.feature, known.cross, beta, tasks.linear)
        subtract_shared(known.starts, known.feature, self.centre_by_beta, beta, tasks.centre)
        errors = (self.least, self.best, self.curvature, beta, tasks.sse)
        _squared_errors(known.starts, known.feature, known.square_starts, *errors)

    @property
    def known(self) -> tuple[Any, ...]:
        """The function that draws, and what it takes of the responses."""
        return draw_with_population, self.linear, self.active

    def scaled(self, scales: np.ndarray) -> SharedSums:
        """With ``linear`` and ``cross``, which a joint draw reads, for features multiplied by ``scales`` (D,)."""
        active = self.active._replace(cross=self.active.cross * scales)
        return self._replace(active=active, linear=self.linear * scales[:, None])

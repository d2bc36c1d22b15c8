r"""A part of many tasks, which draws its coefficients and tells sums over them: what a worker of a cluster does.

A sweep of :mod:`zoo.inference.gibbs.normal_inverse_wishart` needs of the tasks sums alone. Given :math:`(\mu, P,
\sigma^{-2})` each :math:`w_t` is drawn by step 1, and with :math:`a_t = w_t - \hat w_t`, what it is apart from least
squares,

.. math:: n, \quad \sum_t (w_t - \mu), \quad \sum_t (w_t - \mu)(w_t - \mu)', \quad
          \sum_t S_t a_t, \quad \sum_t (e_t + a_t' S_t a_t)

are all that steps 2, 3 and 5 read. The last one is the sum of squares that the noise reads. Least squares leave
residuals that are orthogonal to :math:`X_t`, so that :math:`\sum_t (X_t' y_t - S_t w_t) = -\sum_t S_t a_t`. The
translation of step 3 moves all :math:`w_t` alike: their scatter stays, and their mean moves with it. The coefficients
themselves are forgotten, and the next sweep draws them anew.

Tasks are counted off in chunks of ``CHUNK``. Each has random numbers of its own in each sweep, made of the sweep's key
and of its number, and sums of its own. So the draws do not depend on how the chunks are dealt to workers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import LANES, Tasks, draw_block

__all__ = ["CHUNK", "Shard", "Sums", "chunks_of"]

CHUNK = 4096
"""Tasks that share a stream of random numbers, a multiple of ``LANES``."""


class Sums(NamedTuple):
    """Sums over the tasks of each chunk.

    ``apart`` (chunks, D) and ``scatter`` (chunks, D, D), of coefficients around the mean; ``pull`` (chunks, D), of
    :math:`S_t a_t`; ``squares`` (chunks,).
    """

    apart: np.ndarray
    scatter: np.ndarray
    pull: np.ndarray
    squares: np.ndarray


def chunks_of(n_tasks: int) -> int:
    """How many chunks as many tasks are."""
    return -(-n_tasks // CHUNK)


class Shard:
    """Consecutive chunks of tasks.

    Parameters
    ----------
    tasks : Tasks
        Their sums over rows, in lanes.
    first : int
        Number of the first chunk among those of all tasks.
    """

    def __init__(self, tasks: Tasks, first: int):
        self.tasks = tasks
        self.first = first

    @classmethod
    def part(cls, tasks: Tasks, first: int, stop: int) -> Shard:
        """Chunks ``first`` to ``stop`` of tasks that were not divided yet."""
        blocks, own = (slice(first * n, stop * n) for n in (CHUNK // LANES, CHUNK))
        S, centre, linear = (part[blocks] for part in (tasks.S, tasks.centre, tasks.linear))
        return cls(Tasks(S, centre, linear, tasks.sse[own], tasks.size[own]), first)

    def sums(self, key: tuple[int, ...], mu: np.ndarray, P: np.ndarray, inverse_noise: float) -> Sums:
        """Draw coefficients given the population, and add them up.

        Parameters
        ----------
        key : tuple of int
            Of this sweep of this chain.
        mu, P : (D,), (D, D)
            Mean and precision of the coefficients.
        inverse_noise : float
            Inverse of the noise variance.
        """
        D, n = len(mu), chunks_of(len(self.tasks.size))
        found = Sums(np.zeros((n, D)), np.zeros((n, D, D)), np.zeros((n, D)), np.zeros(n))
        # What comes from another process may lie in memory that nobody may write to.
        mu, P = np.array(mu), np.array(P)
        for i in range(n):
            seed = np.random.SeedSequence(key, spawn_key=(self.first + i,))
            chunk = Shard.part(self.tasks, i, i + 1).tasks
            rng, filled = np.random.default_rng(seed), (found.apart[i], found.scatter[i], found.pull[i])
            found.squares[i] = _add_up(rng, chunk, mu, P, inverse_noise, *filled)
        return found


@njit(cache=True, nogil=True)
def _add_up(rng, tasks, mu, P, inverse_noise, apart, scatter, pull):
    """Fill the sums of one chunk; the sum of squares is returned."""
    D, n_tasks = len(mu), len(tasks.size)
    A, u = np.empty((D, D, LANES)), np.empty((D, LANES))
    w, Sa = np.empty((D, LANES)), np.empty((D, LANES))
    prior = P @ mu
    squares = 0.0
    for block in range(tasks.S.shape[0]):
        S, r, centre = tasks.S[block], tasks.linear[block], tasks.centre[block]
        for i in range(D):
            for j in range(i + 1):
                for b in range(LANES):
                    A[i, j, b] = S[i, j, b] * inverse_noise + P[i, j]
            for b in range(LANES):
                u[i, b] = r[i, b] * inverse_noise + prior[i]
        draw_block(rng, A, u, w)
        for i in range(D):  # what lies behind the last task has no data, and its draw must not count
            for b in range(min(LANES, n_tasks - block * LANES), LANES):
                w[i, b] = mu[i]
        for i in range(D):
            for b in range(LANES):
                u[i, b] = w[i, b] - centre[i, b]
        for i in range(D):
            for b in range(LANES):
                Sa[i, b] = 0.0
            for j in range(D):
                for b in range(LANES):
                    Sa[i, b] += S[i, j, b] * u[j, b]
        for i in range(D):
            total, gap = 0.0, 0.0
            for b in range(LANES):
                total += Sa[i, b]
                gap += u[i, b] * Sa[i, b]
            pull[i] += total
            squares += gap
        for i in range(D):
            for b in range(LANES):
                u[i, b] = w[i, b] - mu[i]
        for i in range(D):
            total = 0.0
            for b in range(LANES):
                total += u[i, b]
            apart[i] += total
            for j in range(i + 1):
                total = 0.0
                for b in range(LANES):
                    total += u[i, b] * u[j, b]
                scatter[i, j] += total
    for i in range(D):
        for j in range(i):
            scatter[j, i] = scatter[i, j]
    for t in range(n_tasks):
        squares += tasks.sse[t]
    return squares

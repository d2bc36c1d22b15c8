r"""EM step with the covariance at the inputs: two large products, and one factor per group of alike tasks.

With K the covariance at the inputs and :math:`B = \sum_t E_t (K_{tt} + \sigma^2 I)^{-1} E_t'`,
:math:`\sum_t \mathrm{Cov}_t = T K - K B K`, see :mod:`zoo.inference.em.algorithm`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack
from threadpoolctl import ThreadpoolController

from zoo.inference.compiled import njit
from zoo.inference.em.parts import (
    LOG_2PI,
    SMALL_ORDER,
    Expectations,
    Penalty,
    Population,
    Rows,
    Step,
    cholesky_factor,
    log_diagonal,
)

__all__ = ["Functions"]


class _Group(NamedTuple):
    """Tasks of the same inputs and noise: ``repeats`` sums the weights of the rows at an input, ``y`` is their mean."""

    inputs: np.ndarray
    repeats: np.ndarray
    tasks: np.ndarray
    y: np.ndarray


class Functions:
    """E-step by the n x n covariance at the inputs; ``features`` None: the coordinates are the functions."""

    def __init__(self, features: np.ndarray | None, n: int, rows: Rows, prior: Penalty, by_task: bool):
        self.features, self.n, self.prior, self.counts = features, n, prior, rows.counts
        self.within, self.merged, self.constant = np.zeros(len(rows.sizes)), np.zeros(len(rows.sizes)), 0.0
        members: dict[tuple, list] = {}
        for t in np.flatnonzero(rows.sizes).tolist():
            h = rows.weights_of(t)
            index, place = np.unique(rows.of(t)[0], return_inverse=True)
            repeats = np.bincount(place, h)
            y = np.bincount(place, h * rows.of(t)[1]) / repeats
            self.within[t] = (h * (rows.of(t)[1] - y[place]) ** 2).sum()
            self.merged[t] = (repeats - 1).sum()
            self.constant -= 0.5 * float(np.log(repeats).sum())
            key = (index.tobytes(), repeats.tobytes(), t if by_task else -1)
            members.setdefault(key, []).append((index, repeats, t, y))
        self.groups = [
            _Group(
                g[0][0],
                g[0][1].astype(float),
                np.array([m[2] for m in g]),
                np.stack([m[3] for m in g], axis=1),
            )
            for g in members.values()
        ]
        # Tasks may be small where the matrix over all inputs is large, so their threads are limited apart.
        self.threads = ThreadpoolController()
        self.task_threads = 1 if max(len(g.inputs) for g in self.groups) <= SMALL_ORDER else None

    def step(self, population: Population) -> Step:
        """One EM map."""
        mean, cov, _, variance = population
        F, T = self.features, len(self.counts)
        variances = np.broadcast_to(variance, T)
        cross = cov if F is None else blas.dgemm(1.0, F, cov)  # covariance of functions with coordinates
        kernel = cov if F is None else blas.dgemm(1.0, cross, F, trans_b=1)
        level = mean if F is None else F @ mean
        squares = self.within.copy()
        weights, B = np.zeros((self.n, T), order="F"), np.zeros((self.n, self.n), order="F")
        log_likelihood = self.constant - 0.5 * float(
            (self.within / variances).sum() + self.merged @ (LOG_2PI + np.log(variances))
        )
        with self.threads.limit(limits=self.task_threads):
            for index, repeats, tasks, y in self.groups:
                s2 = float(variances[tasks[0]])
                root = np.empty((len(index), len(index)), order="F")
                _gather(kernel, index, s2 / repeats, root)
                root = cholesky_factor(root, "K + sigma^2 I of a task", overwrite=True)
                white = lapack.dtrtrs(root, y - level[index, None], lower=1)[0]
                log_likelihood -= (
                    len(tasks) * (log_diagonal(root) + 0.5 * len(index) * LOG_2PI) + 0.5 * (white**2).sum()
                )
                a = lapack.dtrtrs(root, white, lower=1, trans=1)[0]
                inverse = lapack.dpotri(root, lower=1, overwrite_c=1)[0]
                weights[index[:, None], tasks] = a
                _scatter(inverse, index, float(len(tasks)), B)
                trace = s2 * (len(index) - s2 * (inverse.diagonal() / repeats).sum())
                squares[tasks] += trace + s2**2 * (a**2 / repeats[:, None]).sum(axis=0)
        coordinates = mean[:, None] + blas.dgemm(1.0, cross, weights, trans_a=1)
        # sum_t Cov_t = T C - W W' with W = cross' B^1/2: B is positive definite, as every input has a row.
        half = cholesky_factor(B, "the sum of the tasks' precisions", overwrite=True)
        W = blas.dtrmm(1.0, half, cross.T, side=1, lower=1)
        cov_sum = blas.dsyrk(-1.0, W, beta=float(T), c=cov, lower=1)
        new = self.prior.maximise(population, Expectations(coordinates, cov_sum, squares, self.counts))
        return Step(new, float(log_likelihood), coordinates)


@njit(cache=True, nogil=True)
def _gather(kernel, index, diagonal, out):
    """Lower triangle of the kernel at these inputs, plus a diagonal."""
    for j in range(len(index)):
        for i in range(j, len(index)):
            out[i, j] = kernel[index[i], index[j]]
        out[j, j] += diagonal[j]


@njit(cache=True, nogil=True)
def _scatter(part, index, weight, out):
    """Add a lower triangle at these inputs; the index is sorted."""
    for j in range(len(index)):
        for i in range(j, len(index)):
            out[index[i], index[j]] += weight * part[i, j]

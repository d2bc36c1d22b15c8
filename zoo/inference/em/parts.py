"""What the two E-steps of EM share: parameters, rows, the penalty with its M-step, factors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from zoo.inference.compiled import njit
from zoo.inference.stacks import equal_sizes

__all__ = [
    "LOG_2PI",
    "SMALLEST",
    "SMALL_ORDER",
    "Expectations",
    "NoisePenalty",
    "Penalty",
    "Population",
    "Prior",
    "Rows",
    "Step",
    "cholesky_factor",
    "log_diagonal",
    "make_population",
    "mirror",
    "sort_rows",
]

LOG_2PI = float(np.log(2.0 * np.pi))
SMALLEST = 1e-280  # of a variance
# Largest order of matrices that get one BLAS thread. OpenBLAS shares out even a dpotri of order 8, and on a machine
# with other work the threads then wait for each other far longer than they compute.
SMALL_ORDER = 256


class Population(NamedTuple):
    """Parameters in the coordinates of the computation; ``cov`` is ``root root'``, ``variance`` () or (T,)."""

    mean: np.ndarray
    cov: np.ndarray
    root: np.ndarray
    variance: np.ndarray


class Expectations(NamedTuple):
    """An E-step for the M-step: posterior means (q, T) and the lower triangle of the sum of covariances (q, q).

    ``squares`` (T,) are E||y - Xw||^2, ``counts`` (T,) the rows of each task. An M-step overwrites ``cov_sum``.
    """

    coordinates: np.ndarray
    cov_sum: np.ndarray
    squares: np.ndarray
    counts: np.ndarray


class Step(NamedTuple):
    """The M-step from an E-step, with the log-likelihood before it; ``coordinates`` (q, T) are the posterior means."""

    population: Population
    log_likelihood: float
    coordinates: np.ndarray


class Rows(NamedTuple):
    """Rows sorted by task: task t has those from ``starts[t]`` to ``starts[t + 1]``; ``weight`` None is 1 each."""

    input: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    weight: np.ndarray | None = None

    def of(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (by number) and responses of a task."""
        rows = slice(self.starts[t], self.starts[t + 1])
        return self.input[rows], self.y[rows]

    def weights_of(self, t: int) -> np.ndarray:
        """Weights of its rows."""
        rows = slice(self.starts[t], self.starts[t + 1])
        return np.ones(rows.stop - rows.start) if self.weight is None else self.weight[rows]

    def scaled(self, t: int, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its features and responses times the roots of their weights: noise of these has the variance of weight 1."""
        index, y = self.of(t)
        if self.weight is None:
            return inputs[index], y
        root = np.sqrt(self.weights_of(t))
        return root[:, None] * inputs[index], root * y

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each task."""
        return np.diff(self.starts)

    @property
    def counts(self) -> np.ndarray:
        """Sum of the weights of each task, so how many rows it is worth."""
        if self.weight is None:
            return self.sizes
        T = len(self.starts) - 1
        return np.bincount(np.repeat(np.arange(T), self.sizes), self.weight, minlength=T)

    def stacks(
        self, inputs: np.ndarray, at_a_time: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Tasks with as many rows as each other (t,), with their features (t, n, q) and responses (t, n) as ``scaled``.

        A stack holds at most ``at_a_time`` features, or one task.
        """
        for some, at in equal_sizes(self.starts, inputs.shape[1], None, at_a_time):
            X, y = inputs[self.input[at]], self.y[at]
            if self.weight is not None:
                root = np.sqrt(self.weight[at])
                X, y = root[..., None] * X, root * y
            yield some, X, y


class NoisePenalty(NamedTuple):
    """Inverse-gamma law (a, b) of the noise variance, flat where it is None, and the smallest variance's root."""

    law: tuple[float, float] | None
    floor: float

    def value(self, variance: np.ndarray) -> float:
        """Log-penalty."""
        if self.law is None:
            return 0.0
        a, b = self.law
        return -float(np.sum((a + 1.0) * np.log(variance) + b / variance))

    def step(self, squares: np.ndarray, counts: np.ndarray, old: np.ndarray) -> np.ndarray:
        """M-step (9) from the expected squared errors (T,) of tasks with so many rows."""
        if old.ndim == 0:
            squares, counts = squares.sum(), counts.sum()
        a, b = (-1.0, 0.0) if self.law is None else self.law
        weight = counts + 2.0 * (a + 1.0)
        known = weight > 0.0  # a task without rows or prior keeps its noise
        new = np.where(known, (squares + 2.0 * b) / np.where(known, weight, 1.0), old)
        return np.maximum(new, self.floor**2)


class Penalty(Protocol):
    """A penalty of mean, covariance and noise, with its M-step."""

    @property
    def pi(self) -> float:
        """Weight of a prior mean of zero, in tasks."""
        ...

    @property
    def tau(self) -> float:
        """Weight of the prior of the covariance, in tasks."""
        ...

    @property
    def noise(self) -> NoisePenalty:
        """The part of the noise."""
        ...

    def value(self, population: Population) -> float:
        """Log-penalty."""
        ...

    def maximise(self, old: Population, expected: Expectations) -> Population:
        """M-step (7)-(9) from the expectations of an E-step."""
        ...


class Prior(NamedTuple):
    """The penalty in the coordinates of the computation: ``scale`` stands for a multiple of I where it is a number."""

    pi: float
    tau: float
    scale: float | np.ndarray
    constant: float
    noise: NoisePenalty

    def value(self, population: Population) -> float:
        """Log-penalty of mean, covariance and noise."""
        root = population.root
        if isinstance(self.scale, float):
            inverse = lapack.dtrtri(root, lower=1)[0]
            trace = self.scale * np.vdot(inverse, inverse)
        else:
            inverse = lapack.dpotri(root, lower=1)[0]  # its lower triangle
            trace = 2.0 * np.vdot(self.scale, inverse) - np.diag(self.scale) @ np.diag(inverse)
        mean = solve_triangular(root, population.mean, lower=True, check_finite=False)
        value = self.constant - 0.5 * (self.pi * (mean @ mean) + trace) - self.tau * log_diagonal(root)
        return float(value) + self.noise.value(population.variance)

    def maximise(self, old: Population, expected: Expectations) -> Population:
        """M-step (7)-(9)."""
        coordinates, cov_sum, squares, counts = expected
        T = coordinates.shape[1]
        mean = coordinates.sum(axis=1) / (self.pi + T)
        gaps = np.column_stack([coordinates - mean[:, None], np.sqrt(self.pi) * mean])
        cov = blas.dsyrk(1.0, gaps.T, trans=1, beta=1.0, c=cov_sum, lower=1, overwrite_c=1)
        if isinstance(self.scale, float):
            cov[np.diag_indices_from(cov)] += self.scale
        else:
            add_lower(self.scale, cov)
        cov /= self.tau + T
        mirror(cov)
        return make_population(mean, cov, self.noise.step(squares, counts, old.variance))


def make_population(mean: np.ndarray, cov: np.ndarray, variance: np.ndarray) -> Population:
    """Population with the root of its covariance, whose variances are checked."""
    if not np.min(variance) > SMALLEST:
        raise FloatingPointError(
            "the noise variance fell to zero in float64: a noise_floor keeps it above, or a prior of the noise, such "
            "as InverseGammaOfSquare(1, 0.1)."
        )
    return Population(mean, cov, cholesky_factor(cov, "the covariance of the population"), variance)


def sort_rows(
    row: np.ndarray, task: np.ndarray, y: np.ndarray, n_tasks: int, weight: np.ndarray | None = None
) -> Rows:
    """Rows in the order of their tasks."""
    order = np.argsort(task, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=n_tasks))])
    return Rows(
        np.asarray(row)[order],
        np.asarray(y, dtype=np.float64)[order],
        starts,
        None if weight is None else weight[order],
    )


@njit(cache=True, nogil=True)
def add_lower(part, out):
    """Add a lower triangle."""
    for j in range(len(part)):
        for i in range(j, len(part)):
            out[i, j] += part[i, j]


@njit(cache=True, nogil=True)
def mirror(square):
    """Copy the lower triangle to the upper one, in blocks that stay in the cache."""
    n, block = len(square), 64
    for first in range(0, n, block):
        for second in range(first, n, block):
            for j in range(first, min(first + block, n)):
                for i in range(max(second, j + 1), min(second + block, n)):
                    square[j, i] = square[i, j]


def cholesky_factor(square: np.ndarray, what: str, overwrite: bool = False) -> np.ndarray:
    """Lower Cholesky factor, in column order."""
    root, info = lapack.dpotrf(square, lower=1, clean=1, overwrite_a=overwrite)
    if info != 0 or not np.isfinite(root[-1, -1]):
        raise FloatingPointError(
            f"{what} is not positive definite in float64: a larger noise_floor, inputs of a similar scale, or a "
            "base kernel with some jitter on its diagonal help."
        )
    return root


def log_diagonal(root: np.ndarray) -> float:
    """Half the log-determinant of the matrix with this Cholesky factor."""
    return float(np.log(root.diagonal()).sum())

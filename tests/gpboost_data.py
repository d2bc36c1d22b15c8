"""The data of GPBoost's own tests, made again: its generator of numbers, and the places, groups and responses made of
it.

Source: R-package/tests/testthat/test_GPModel_*.R of https://github.com/fabsig/GPBoost at commit c93fa49. Names are
theirs, where they have one.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist


def uniform(n: int, start: float, a: float = 22695477.0, b: float = 1.0, m: float = 2.0**32) -> np.ndarray:
    """Numbers (n,) of a linear congruential generator, in the float64 arithmetic of R, which rounds ``a * state``."""
    state = float(np.floor(start * m))
    numbers = []
    for _ in range(n):
        numbers.append(state / m)
        state = (a * state + b) % m
    return np.array(numbers)


def normal(n: int, start: float) -> np.ndarray:
    """Standard normal numbers (n,): quantiles at those of :func:`uniform`."""
    return stats.norm.ppf(uniform(n, start))


def places_of(n: int, columns: int, start: float) -> np.ndarray:
    """A matrix (n, columns), filled by columns."""
    return uniform(n * columns, start).reshape(columns, n).T


def distances(places: np.ndarray) -> np.ndarray:
    """Between all rows of places (n, P), (n, n)."""
    return cdist(places, places)


def exponential_root(places: np.ndarray, jitter: float = 1e-20) -> np.ndarray:
    """Lower Cholesky factor of ``exp(-distance)``."""
    return np.linalg.cholesky(np.exp(-distances(places)) + jitter * np.eye(len(places)))


@cache
def data() -> SimpleNamespace:
    """What the files for Gaussian, non-Gaussian and combined models share: 100 rows."""
    n = 100
    i = np.arange(1.0, n + 1.0)
    s = SimpleNamespace(n=n, coords=places_of(n, 2, 0.1), Z=places_of(n, 2, 0.6))
    s.L = exponential_root(s.coords / 0.1)
    s.gp = s.L @ normal(n, 0.8)
    s.svc = s.gp + s.Z[:, 0] * (s.L @ normal(n, 0.17)) + s.Z[:, 1] * (s.L @ normal(n, 0.42))
    s.coords_multiple = np.vstack([places_of(n // 4, 2, 0.1)] * 4)
    s.gp_multiple = exponential_root(s.coords_multiple / 0.1, 1e-10) @ normal(n, 0.8)
    s.xi = normal(n, 0.1) / 5.0
    s.wave = np.sin((i - n / 2) ** 2 * 2.0 * np.pi / n)
    s.x = np.cos((i - n / 2) ** 2 * 5.5 * np.pi / n)
    s.group, s.group2 = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
    s.cluster = np.repeat([1.0, 2.0], [40, 60])
    s.b_gr_2, s.b_gr_3 = normal(10, 0.36), normal(10, 0.5678)
    return s


@cache
def grouped() -> SimpleNamespace:
    """The file for grouped effects: 1000 rows, 100 and 50 levels, and another generator."""

    def numbers(n: int, start: float) -> np.ndarray:
        return stats.norm.ppf(uniform(n, start, 8121.0, 28411.0, 134456.0))

    n = 1000
    i = np.arange(1.0, n + 1.0)
    s = SimpleNamespace(n=n, group=np.repeat(np.arange(100), 10), group2=np.tile(np.arange(50), 20))
    s.x = np.cos((i - n / 2) ** 2 * 5.5 * np.pi / n)
    s.one = numbers(100, 0.546)[s.group] + np.sqrt(0.5) * numbers(n, 0.1)
    s.three = s.one + numbers(50, 0.46)[s.group2] + s.x * numbers(100, 0.69)[s.group]
    return s


@cache
def space_time() -> tuple[np.ndarray, np.ndarray]:
    """Time and place (100, 3), and real responses."""
    s = data()
    # Their loop names the twentieth of the unit interval in which each number lies.
    time = np.floor(20.0 * uniform(s.n, 0.6418)) + 1.0
    places = np.column_stack([time, s.coords])
    f = exponential_root(places / [2.0, 0.1, 0.1]) @ normal(s.n, 0.688)
    return places, f + 2.0 + 2.0 * s.wave + s.xi


@cache
def space_time_labels() -> tuple[np.ndarray, np.ndarray]:
    """Time and place (100, 3), and labels."""
    s = data()
    places = np.column_stack([np.arange(1.0, s.n + 1.0) / s.n, s.coords])
    return places, labels(exponential_root(places / 0.1) @ normal(s.n, 0.86574), 0.165)


@cache
def three_ranges() -> tuple[np.ndarray, np.ndarray]:
    """Places (100, 3) with a range for each column, and real responses."""
    s = data()
    places = places_of(s.n, 3, 0.981)
    f = exponential_root(places / [0.2, 0.4, 0.3]) @ normal(s.n, 0.978688)
    return places, f + 2.0 + 2.0 * s.wave + s.xi


@cache
def labels_of_three_ranges() -> tuple[np.ndarray, np.ndarray]:
    """Places (100, 3) with a range for each column, and labels."""
    s = data()
    places = places_of(s.n, 3, 0.48231)
    f = 0.75 * exponential_root(places / [0.1, 0.2, 0.1]) @ normal(s.n, 0.4658)
    return places, labels(f, 0.18354)


def labels(f: np.ndarray, start: float) -> np.ndarray:
    """Labels 0 and 1 with the probabilities of a probit link."""
    return (uniform(len(f), start) < stats.norm.cdf(f)).astype(np.float64)


def counts(f: np.ndarray, start: float, size: float | None = None) -> np.ndarray:
    """Counts with mean ``exp(f)``: Poisson, or negative binomial of a size."""
    u, mean = uniform(len(f), start), np.exp(f)
    return stats.poisson.ppf(u, mean) if size is None else stats.nbinom.ppf(u, size, size / (size + mean))


def positive(f: np.ndarray, start: float, shape: float = 1.0, scale: float = 1.0) -> np.ndarray:
    """Gamma variables with the mean ``shape * scale * exp(f)``."""
    return stats.gamma.ppf(uniform(len(f), start), shape, scale=scale * np.exp(f))

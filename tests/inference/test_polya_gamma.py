"""Pólya-Gamma draws against the law's moments, Laplace transform and distribution function.

Null: the draws follow the law. Moments and transforms: abs(z) < 5.5 each, which one comparison exceeds with
probability 4e-8 and all 150 of them with 6e-6. Distribution functions: Kolmogorov-Smirnov, p > 1e-6 over the number
of laws. The gamma series is no exact law, but misses it by 2e-4 at most, which 40,000 draws do not see.
"""

from __future__ import annotations

import functools
import math

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.interpolate import PchipInterpolator

from zoo.inference.gibbs import polya_gamma as module
from zoo.inference.gibbs.polya_gamma import polya_gamma, polya_gamma_one, rest_sums

ONE = [0.0, 0.3, 1.0, 2.5, 3.3, 8.0, -20.0, 37.0, 39.0, 300.0]
ANY = [
    (0.02, 0.5),
    (0.05, 3.0),
    (0.3, 0.0),
    (0.3, 12.0),
    (0.5, -1.0),
    (0.5, 19.0),
    (1.0, 2.0),
    (1.7, 30.0),
    (2.0, 0.0),
    (2.5, -4.0),
    (3.0, 6.0),
    (7.3, 0.1),
    (7.3, 10.0),
    (150.0, 2.0),
]
LAWS = [pytest.param(None, z, id=f"one, z = {z}") for z in ONE] + [
    pytest.param(h, z, id=f"h = {h}, z = {z}") for h, z in ANY
]


@njit
def _ones(rng, z, out):
    for i in range(len(out)):
        out[i] = polya_gamma_one(rng, z)


@njit
def _any(rng, h, z, out):
    for i in range(len(out)):
        out[i] = polya_gamma(rng, h, z)


@functools.cache
def draws(h: float | None, z: float, n: int) -> np.ndarray:
    rng, out = np.random.default_rng(7), np.empty(n)
    if h is None:
        _ones(rng, z, out)
    else:
        _any(rng, h, z, out)
    return out


def mean_and_variance(h: float, z: float) -> tuple[float, float]:
    if z == 0.0:
        return h / 4, h / 24
    with mp.workdps(40):
        z = mp.mpf(z)
        mean = h / (2 * z) * mp.tanh(z / 2)
        variance = h / (4 * z**3) * (mp.sinh(z) - z) / mp.cosh(z / 2) ** 2
        return float(mean), float(variance)


def log_laplace(h: float, z: float, t):
    """Log E exp(-t w), eq (3) of the paper tilted, with no large cosh."""

    def log_cosh(q):
        return q + mp.log1p(mp.exp(-2 * q))

    z = mp.mpf(z)
    return h * (log_cosh(abs(z) / 2) - log_cosh(mp.sqrt(z * z / 4 + t / 2)))


def cdf(h: float, z: float):
    """Distribution function by Talbot's inversion of the Laplace transform (Abate & Valko 2004), interpolated."""
    mean, variance = mean_and_variance(h, z)
    sd = math.sqrt(variance)
    if sd > 0.7 * mean:
        x = mean * (np.logspace(-4, 2.5, 130) if h < 0.2 else np.logspace(-2.5, 1.6, 110))
    else:
        x = np.linspace(max(mean - 6 * sd, 0.03 * mean), mean + 14 * sd, 100)
    values = []
    terms = 40 if sd > 0.3 * mean else 60 if sd > 0.1 * mean else 110
    with mp.workdps(terms):
        angles = [k * mp.pi / terms for k in range(1, terms)]
        cots = [mp.cot(a) for a in angles]
        for point in x:
            r = mp.mpf(2 * terms) / (5 * mp.mpf(point))
            total = mp.exp(r * point + log_laplace(h, z, r)) / r / 2
            for angle, cot in zip(angles, cots, strict=True):
                s = r * angle * (cot + 1j)
                slope = 1 + 1j * (angle + (angle * cot - 1) * cot)
                total += (mp.exp(point * s + log_laplace(h, z, s)) / s * slope).real
            values.append(float(total * r / terms))
    values = np.array(values)
    assert np.all(np.diff(values) > -1e-9), "the inversion lost its digits"
    assert abs(values[-1] - 1.0) < 1e-6
    inside = PchipInterpolator(np.log(x), values)
    return lambda v: np.where(
        v < x[0], 0.0, np.where(v > x[-1], 1.0, inside(np.log(np.clip(v, x[0], x[-1]))))
    )


@pytest.mark.parametrize(("h", "z"), LAWS)
def test_mean_and_variance(h, z):
    w = draws(h, z, 200_000)
    mean, variance = mean_and_variance(h or 1.0, z)
    square = (w - mean) ** 2
    assert abs(w.mean() - mean) < 5.5 * math.sqrt(variance / len(w))
    assert abs(square.mean() - variance) < 5.5 * square.std() / math.sqrt(len(w))


@pytest.mark.parametrize(("h", "z"), LAWS)
def test_laplace_transform(h, z):
    w = draws(h, z, 200_000)
    mean, _ = mean_and_variance(h or 1.0, z)
    for times in (0.3, 1.0, 4.0, 30.0):
        t = times / mean
        value = np.exp(-t * w)
        expected = float(mp.exp(log_laplace(h or 1.0, z, mp.mpf(t))))
        assert abs(value.mean() - expected) < 5.5 * value.std() / math.sqrt(len(w)), f"t = {t}"


@pytest.mark.parametrize(("h", "z"), LAWS[::2])
def test_distribution_function(h, z):
    assert stats.kstest(draws(h, z, 200_000)[:40_000], cdf(h or 1.0, z)).pvalue > 1e-6 / len(LAWS)


def test_series_at_zero_is_that_of_the_paper():
    # Inversion of the transform and the alternating series of the density of PG(1, 0) are two roads to one law.
    x = np.array([0.05, 0.1, 0.25, 0.6])
    n = np.arange(60)[:, None]
    series = 2.0 * np.sum((-1.0) ** n * _erfc((2 * n + 1) / np.sqrt(8.0 * x)), axis=0)
    assert np.allclose(cdf(1.0, 0.0)(x), series, atol=1e-5)


def _erfc(x):
    from scipy.special import erfc

    return erfc(x)


def test_series_that_accepts():
    # Below the split r is so small that no number of draws would see a wrong later term: here it is large.
    n = np.arange(40)
    rng = np.random.default_rng(0)
    for r in (0.3, 0.1, 1e-3):
        limit = np.sum((-1.0) ** n * (2 * n + 1) * r ** (n * (n + 1) / 2))
        for u in np.r_[rng.random(200), limit - 1e-9, limit + 1e-9]:
            assert module._below_series(u, r) == (u < limit)
    # What is accepted without the series would be accepted by it: r is largest at the split.
    largest = max(math.exp(-4.0 / module._SPLIT), math.exp(-module._SPLIT * math.pi**2))
    assert 3.0 * largest <= module._SHARE


@pytest.mark.parametrize("K", [10, 25, 400])
@pytest.mark.parametrize("c", [0.0, 1e-9, 0.7, 0.99, 1.01, 2.49, 2.51, 39.0, 41.0, 1e3, 1e7])
def test_sums_of_the_rest(K, c):
    with mp.workdps(30):
        exact = [
            mp.nsum(
                lambda k, p=p: 1 / ((k + K + mp.mpf(0.5)) ** 2 + mp.mpf(c) ** 2) ** p, [0, mp.inf], method="e"
            )
            for p in (1, 2)
        ]
    assert rest_sums(c, K) == pytest.approx([float(v) for v in exact], rel=1e-6 if K == 10 else 1e-8)


@pytest.mark.parametrize("h", [0.3, 1.0, 2.0, 2.5, 1e8])
def test_extremes(h):
    def mean(z: float) -> float:
        out = np.empty(200)
        _any(np.random.default_rng(0), h, z, out)
        return out.mean()

    assert math.isnan(mean(math.nan))
    assert mean(math.inf) == 0.0
    for z in (1e3, 1e9, 1e150):
        assert mean(z) == pytest.approx(0.5 * h / z, rel=1.0 if z < 1e9 else 1e-2)
    for bad in (0.0, -1.0, math.nan, math.inf):
        out = np.empty(1)
        _any(np.random.default_rng(0), bad, 1.0, out)
        assert math.isnan(out[0])


def test_draws_follow_the_seed():
    first, second = np.empty(50), np.empty(50)
    for out in (first, second):
        _any(np.random.default_rng(3), 2.5, 1.0, out)
    assert np.array_equal(first, second)

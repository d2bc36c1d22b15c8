"""Summaries of mixtures against SciPy's distribution functions and root finding, and against sorted points."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from zoo.inference.mixtures import summarise_mixtures

LEVELS = np.array([0.05, 0.5, 0.95, 0.999])


def _laws(kind, size, rng):
    """Means (3, S) and standard deviations (3 or 1, S)."""
    mean, sd = rng.standard_normal((3, size)), 1.0 + 0.05 * rng.uniform(size=(1, size))
    if kind == "noise is most":
        mean *= 0.2
    elif kind == "functions are most":
        mean *= 30.0
    elif kind == "every row its own":
        sd = rng.uniform(0.01, 2.0, (3, size))
    elif kind == "heavy tails":
        mean, sd = rng.standard_t(2.0, (3, size)), 1.0 / np.sqrt(rng.gamma(1.0, 1.0, (3, size)))
    elif kind == "two heaps":
        mean = 0.1 * mean + np.where(rng.random((3, size)) < 0.3, 50.0, 0.0)
    elif kind == "far away":
        mean = 1e6 + 1e-3 * mean
    elif kind == "some points":
        sd = np.where(rng.random((3, size)) < 0.3, 0.0, 0.5)
    return mean, sd


@pytest.mark.parametrize("size", [2, 40, 4000])
@pytest.mark.parametrize(
    "kind",
    [
        "alike",
        "noise is most",
        "functions are most",
        "every row its own",
        "heavy tails",
        "two heaps",
        "far away",
        "some points",
    ],
)
def test_quantiles_are_roots_of_the_distribution_function(kind, size):
    mean, sd = _laws(kind, size, np.random.default_rng(size))
    found = summarise_mixtures(mean, sd, LEVELS)
    by_row = np.broadcast_to(sd, mean.shape)
    spread = np.sqrt(mean.var(axis=1) + np.mean(by_row**2, axis=1))
    np.testing.assert_allclose(found[:, 0], mean.mean(axis=1), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found[:, 1], spread, rtol=1e-10)
    for row, (m, s) in enumerate(zip(mean, by_row, strict=True)):
        for i, p in enumerate(LEVELS):
            reach = 6.0 * max(s.max(), 1e-3)

            def gap(x, m=m, s=s, p=p):
                below = np.where(s > 0.0, norm.cdf(x, m, np.where(s > 0.0, s, 1.0)), x >= m)
                return below.mean() - p

            root = brentq(gap, m.min() - reach, m.max() + reach, xtol=1e-14 * max(1.0, np.abs(m).max()))
            x = found[row, 2 + i]
            # In a valley between heaps the root is wherever the function has the value, up to its rounding.
            flat = abs(gap(x)) < 1e-11
            assert flat or x == pytest.approx(root, abs=5e-9 * spread[row])


@pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 65, 66, 1000, 4001])
@pytest.mark.parametrize("kind", ["normal", "rounded", "two values", "zero and large", "skewed"])
def test_quantiles_of_points_are_those_of_numpy(kind, size):
    points = np.random.default_rng(size).standard_normal((20, size))
    if kind == "rounded":
        points = np.round(points, 1)
    elif kind == "two values":
        points = np.sign(points)
    elif kind == "zero and large":
        points = np.where(points < 0.0, 0.0, 1e6 * points)
    elif kind == "skewed":
        points = np.exp(4.0 * points)
    levels = np.array([1e-4, 0.05, 0.25, 0.5, 0.77, 0.95, 0.9999])
    found = summarise_mixtures(points, np.zeros((1, size)), levels)
    np.testing.assert_allclose(found[:, 2:], np.quantile(points, levels, axis=1).T, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found[:, 0], points.mean(axis=1), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found[:, 1], points.std(axis=1), rtol=1e-10, atol=1e-13)


def test_one_law_is_summarised_by_its_formulas():
    found = summarise_mixtures(np.array([[3.0]]), np.array([[2.0]]), LEVELS)
    np.testing.assert_allclose(found[0], [3.0, 2.0, *norm.ppf(LEVELS, 3.0, 2.0)])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(bad):
    """A caller looks at it: an answer must not hide it, and the search must end."""
    mean = np.random.default_rng(1).standard_normal((3, 2000))
    mean[1, 7] = bad
    sd = np.ones((3, 2000))
    sd[2, 5] = bad
    found = summarise_mixtures(mean, sd, LEVELS)
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1:, 1:]).any()

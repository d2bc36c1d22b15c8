"""Stationary covariances by their words: values and derivatives, at distance 0 too."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

from zoo.models.varying_coefficient.covariance import _squared_distances
from zoo.models.varying_coefficient.stationary import stationary
from zoo.support.quick import QUICK

# Above 0, and on both sides of the places where Matern 3/2 and 5/2 change their form.
SQUARES = np.concatenate(
    [10.0 ** np.arange(-9.0, 3.0), [0.99e-5 / 3.0, 1.01e-5 / 3.0, 0.99e-5 / 5.0, 1.01e-5 / 5.0]]
)


def by_formula(word: str, square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance, and its derivative in the squared distance, with the cancelling terms left out by hand."""
    if word == "squared_exponential":
        return np.exp(-0.5 * square), -0.5 * np.exp(-0.5 * square)
    r = np.sqrt({"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[word] * square)
    if word == "matern12":
        return np.exp(-r), -0.5 * np.exp(-r) / r
    if word == "matern32":
        return (1.0 + r) * np.exp(-r), -1.5 * np.exp(-r)
    return (1.0 + r + r**2 / 3.0) * np.exp(-r), -5.0 / 6.0 * (1.0 + r) * np.exp(-r)


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("word", ["matern12", "matern32", "matern52", "squared_exponential"])
def test_values_and_derivatives(word, products):
    s = pt.dvector("s")
    value = stationary(word, s, products)
    found = pytensor.function([s], [value, pytensor.grad(pt.sum(value), s)], mode=QUICK)(SQUARES)
    expected = by_formula(word, SQUARES)
    assert_allclose(found[0], expected[0], rtol=1e-13)
    assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-14)
    assert_allclose(pytensor.function([s], value, mode=QUICK)(np.zeros(2)), 1.0, atol=1e-11)


@pytest.mark.parametrize("word", ["matern32", "matern52", "squared_exponential"])
def test_no_lengthscale_changes_a_variance(word):
    """Distances of features are differences of products, and of a row to itself rounding alone.

    A variance of 500 times a derivative that has lost its digits would be nats, in a search for the evidence.
    """
    x = np.random.default_rng(0).normal(size=(200, 15))
    A, B, lengthscale = pt.dmatrix("A"), pt.dmatrix("B"), pt.dscalar("lengthscale")
    K = 500.0 * stationary(word, _squared_distances(A / lengthscale, B, lengthscale), products=True)
    slope = pytensor.function(
        [A, B, lengthscale], pytensor.grad(pt.sum(pt.diagonal(K)), lengthscale), mode=QUICK
    )
    for value in (0.5, 1.0, 2.0, 4.0, 8.0, 26.0):
        assert abs(slope(x, x, value)) < 1e-7

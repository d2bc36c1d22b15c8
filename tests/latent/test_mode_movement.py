"""Laplace's evidence has the gradient of its differences, whatever the information is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import zoo
from tests.daily import daily
from zoo.latent.mode_movement import solve_near
from zoo.models.varying_coefficient.spaces import space_of


def test_a_system_that_is_much_like_another():
    rng = np.random.default_rng(0)
    A = np.eye(20) * 3.0 + rng.normal(size=(20, 20))
    near = np.linalg.inv(A + 0.3 * rng.normal(size=(20, 20)))
    right = rng.normal(size=20)
    found = solve_near(lambda b: A @ b, lambda b: near @ b, right)
    np.testing.assert_allclose(found, np.linalg.solve(A, right), rtol=1e-6)


LIKELIHOODS = (
    "negative_binomial",
    "zero_inflated_poisson",
    "zero_inflated_negative_binomial",
    "student_t",
    "ordinal",
)
WAYS = ("none", "fitc", "hsgp", "vecchia")
PAIRS = [(word, way) for word in LIKELIHOODS for way in WAYS]
# Each likelihood and each approximation at least once.
DAILY = set(zip(LIKELIHOODS, (*WAYS, "none"), strict=True))


@pytest.mark.parametrize(("likelihood", "approximation"), daily(PAIRS, DAILY))
def test_gradient_is_that_of_differences(likelihood, approximation):
    """Of zero-inflated counts the slope was wrong by up to 4 % as long as the mode moved by the information."""
    rng = np.random.default_rng(0)
    n = 60
    t = rng.uniform(0.0, 3.0, (n, 2))
    f = 1.0 + np.sin(2.0 * t[:, 0])
    y = rng.poisson(np.exp(f)).astype(float)
    if likelihood.startswith("zero"):
        y[rng.random(n) < 0.3] = 0.0
    elif likelihood == "student_t":
        y = f + 0.2 * rng.standard_t(3, n)
    elif likelihood == "ordinal":
        y = np.minimum(y, 4.0) + 1.0
    data = zoo.MultiTaskData.from_arrays(None, y, t=t)
    factory = zoo.VaryingCoefficientGP(likelihood=likelihood, approximation=approximation, n_inducing=20)
    space = space_of(factory, factory.design(data), factory.likelihood.encode(data))

    def evidence(z):
        space.forget()  # weights start from the mode before
        return space.evidence(z)

    z = space.coordinates.start + 0.1
    _, gradient = evidence(z)
    expected = approx_fprime(z, lambda at: evidence(at)[0], 1e-5)
    np.testing.assert_allclose(gradient, expected, atol=1e-4 * np.abs(expected).max())

"""Compiled weights of neighbours: by dense algebra, their derivatives by differences."""

from __future__ import annotations

import numpy as np
from scipy.optimize import approx_fprime

from zoo.latent.vecchia_terms import CONSTANT, KINDS, LINEAR, Terms
from zoo.latent.vecchia_weights import weights, weights_adjoint

RNG = np.random.default_rng(0)
T = RNG.uniform(0.0, 2.0, (9, 2))
SETS = np.array([[1, -1, 2, 0], [3, 4, 5, 1], [-1, -1, -1, 7], [0, 8, 6, 2]])
THETA = np.array([0.1, -0.3, 0.4, -0.5])
NOISE = RNG.uniform(0.1, 0.4, 9)
# A Matern 3/2 of both columns and a constant.
TERMS = Terms(
    np.array([KINDS["matern32"], CONSTANT]),
    np.array([0, 2, 2]),
    np.array([0, 1]),
    np.array([1, 2]),
    np.arange(3),
    np.zeros(2, dtype=np.int64),
    np.array([0, 3]),
    np.ones(2, dtype=bool),
    LINEAR,
    np.empty(0, dtype=np.int64),
    0,
)


def covariance(theta: np.ndarray, noise: np.ndarray) -> np.ndarray:
    scaled = T / np.exp(theta[1:3])
    r = np.sqrt(3.0) * np.sqrt(((scaled[:, None] - scaled[None]) ** 2).sum(axis=-1))
    return np.exp(2 * theta[0]) * (1 + r) * np.exp(-r) + np.exp(2 * theta[3]) + np.diag(noise)


def test_weights_are_those_of_kriging_from_who_is_there():
    b, v = weights(TERMS, THETA, NOISE, T, SETS)
    K = covariance(THETA, NOISE)
    for own, variance, members in zip(b, v, SETS, strict=True):
        there = members[:-1] >= 0
        near, i = members[:-1][there], members[-1]
        expected = np.linalg.solve(K[np.ix_(near, near)], K[near, i])
        np.testing.assert_allclose(own[there], expected, rtol=1e-10)
        assert (own[~there] == 0.0).all()
        np.testing.assert_allclose(variance, K[i, i] - expected @ K[near, i], rtol=1e-10)


def test_derivatives_in_parameters_and_noise():
    of_b, of_v = RNG.normal(size=(4, 3)), RNG.normal(size=4)

    def total(both):
        b, v = weights(TERMS, both[:4], both[4:], T, SETS)
        return (of_b * b).sum() + of_v @ v

    b, _ = weights(TERMS, THETA, NOISE, T, SETS)
    found = np.concatenate(weights_adjoint(TERMS, THETA, NOISE, T, SETS, b, of_b, of_v))
    expected = approx_fprime(np.concatenate([THETA, NOISE]), total, 1e-7)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_singular_covariance_gives_nan_for_its_row():
    same = np.zeros((9, 2))
    b, v = weights(TERMS, THETA, np.zeros(9), same, SETS)
    assert np.isnan(b[0]).all() and np.isnan(v[1]) and np.isfinite(v[2])

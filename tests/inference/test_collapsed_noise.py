"""The density of a noise that all tasks share, with the coefficients integrated out, against the dense one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from zoo.inference.gibbs.collapsed_noise import laws, log_noise_density, roots_of, rows_are_few
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.run.mixing import mixing

D, T = 4, 5
TASK = np.repeat([0, 1, 2, 3], [2, 3, 9, 1])  # fewer rows than coefficients, more, one row, and none


def _kernel(X, y, task=TASK, n_tasks=T, weight=None):
    more = {"weight": weight, "group_moves": True}
    return NormalInverseWishartKernel(X, np.arange(len(y)), y, task, n_tasks, 1.0, 6.0, **more)


def _roots(kernel):
    return roots_of(kernel.inputs @ kernel._basis[0], kernel.row, kernel.task, kernel.n_tasks, kernel.weight)


def _rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((15, D)), rng.standard_normal(15)


def _population():
    rng = np.random.default_rng(2)
    factor = rng.standard_normal((D, D))
    return rng.standard_normal(D), factor @ factor.T + 0.1 * np.eye(D)


def _ours(kernel, mu, C, value):
    state = kernel.initialise(np.random.default_rng(0))
    back, roots = np.linalg.inv(state["basis"]), _roots(kernel)
    K, apart = laws(roots, state["tasks"], back @ mu, back @ C @ back.T)
    space = np.empty_like(K), np.empty_like(apart)
    at = (np.log(value), 1.0, roots.start, state["tasks"], K, apart, space, 1.5, 0.2)
    return log_noise_density(*at) - log_noise_density(0.0, *at[1:])


def _dense(X, y, mu, C, value, task=TASK):
    def density(value):
        total = 1.5 * np.log(value) - 0.2 * value
        for t in np.unique(task):
            x = X[task == t]
            total += multivariate_normal.logpdf(y[task == t], x @ mu, np.eye(len(x)) / value + x @ C @ x.T)
        return total

    return density(value) - density(1.0)


@pytest.mark.parametrize("value", [1e-3, 0.5, 7.0, 1e4])
def test_the_density_is_the_dense_one(value):
    X, y = _rows()
    ours = _ours(_kernel(X, y), *_population(), value)
    np.testing.assert_allclose(ours, _dense(X, y, *_population(), value), rtol=1e-9)


@pytest.mark.parametrize("value", [0.1, 30.0])
def test_all_levels_of_a_category_beside_an_intercept(value):
    """Least squares are huge in directions in which the rows are rounding errors, and count for what they are."""
    rng = np.random.default_rng(0)
    task, level = np.repeat(np.arange(6), 6), rng.integers(2, size=36)
    X = np.column_stack([np.ones(36), level == 0, level == 1, rng.standard_normal(36)]).astype(float)
    y = rng.standard_normal(36)
    ours = _ours(_kernel(X, y, task, 6), *_population(), value)
    np.testing.assert_allclose(ours, _dense(X, y, *_population(), value, task), rtol=1e-6)


@pytest.mark.parametrize("value", [0.1, 30.0])
def test_features_of_very_different_sizes(value):
    X, y = _rows()
    (mu, C), scales = _population(), np.array([1.0, 1e9, 1e-3, 1.0])
    ours = _ours(_kernel(X * scales, y), mu / scales, C / np.outer(scales, scales), value)
    np.testing.assert_allclose(ours, _dense(X, y, mu, C, value), rtol=1e-6)


def test_whole_weights_are_copies_of_rows():
    X, y = _rows()
    weight = np.random.default_rng(1).integers(1, 4, 15)
    again = np.repeat(np.arange(15), weight)
    weighted = _ours(_kernel(X, y, weight=weight.astype(float)), *_population(), 3.0)
    copied = _ours(_kernel(X[again], y[again], TASK[again]), *_population(), 3.0)
    np.testing.assert_allclose(weighted, copied, rtol=1e-9)


def test_scaled_roots_are_those_of_scaled_features():
    kernel, scales = _kernel(*_rows()), np.array([0.3, 2.0, 1.0, 5.0])
    sums, roots = kernel.initialise(np.random.default_rng(0))["tasks"], _roots(kernel).scaled(scales)
    for t in range(T):
        R = roots.rows[roots.start[t] : roots.start[t + 1]]
        S = sums.S[0, :, :, t] * np.outer(scales, scales)
        np.testing.assert_allclose(R.T @ R, S, atol=1e-10 * (1.0 + np.abs(S).max()))


def test_rows_are_few_from_three_rows_for_two_coefficients_downwards():
    rng = np.random.default_rng(0)
    for rows, few in ((2, True), (6, True), (7, False)):
        task = np.repeat(np.arange(3), rows)
        X = rng.standard_normal((len(task), D))
        assert rows_are_few(_kernel(X, X[:, 0], task, 3).initialise(rng)["tasks"]) == few


def test_the_noise_of_tasks_with_two_rows_mixes():
    """Given the coefficients, 500 draws are worth 2 to 28 on four seeds; with these integrated out 125 to 173."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(200), 2)
    X = np.column_stack([np.ones(400), rng.standard_normal((400, 2))])
    y = np.einsum("nd,nd->n", X, rng.standard_normal((200, 3))[task]) + 0.5 * rng.standard_normal(400)
    kernel = _kernel(X, y, task, 200)
    state, draws = kernel.initialise(rng), []
    for _ in range(600):
        kernel.sweep(rng, state)
        draws.append(np.log(kernel.record_population(state)["noise"]))
    assert mixing(np.array(draws[100:])[None, None]).ess_bulk.min() > 60.0

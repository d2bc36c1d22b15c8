"""Coefficients of single tasks with the task covariance integrated out, against dense formulas and quadrature.

Statistical tests: the null is that a function keeps the law that it should keep, and each test rejects a true null
with probability 1e-5.
"""

import numpy as np
import pytest
from scipy.stats import kstest

import zoo
from zoo.inference.gibbs.collapsed_rows import centre_of_task, draw_tasks, gram_of_tasks, leave_out, put_in
from zoo.inference.gibbs.collapsed_rows_loss import _prior_draw, collapsed_loss_moves, scale_all_tasks
from zoo.inference.gibbs.task_precision import NO_MATRIX
from zoo.inference.gibbs.task_rows import Rows

T, D = 5, 3
# Few degrees of freedom, so that a power of the law counts.
NU_OF_ONE = 1.5
ALPHA = 1e-5


def _example(seed=0, scaled=True):
    """Coefficients, the feature covariance, the task scale matrix and its inverse as the functions take it."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((T, D))
    half = rng.standard_normal((D, D))
    psi = 0.6 * np.ones((T, T)) + np.diag(np.linspace(0.3, 1.0, T)) if scaled else np.eye(T)
    return H, half @ half.T + np.eye(D), psi, np.linalg.inv(psi) if scaled else NO_MATRIX


@pytest.mark.parametrize("scaled", [False, True])
def test_law_of_a_task_against_the_determinant(scaled):
    H, omega, psi, phi = _example(scaled=scaled)
    t, m = 2, np.empty(D)
    c = centre_of_task(H, phi, t, m)
    inverse = np.linalg.inv(omega + gram_of_tasks(H, phi))
    A = leave_out(inverse, omega, H, phi, t, m, c)
    assert put_in(A, H[t] - m, c) == pytest.approx(inverse, rel=1e-10)

    def dense(h):
        moved = H.copy()
        moved[t] = h
        return np.linalg.slogdet(psi + moved @ np.linalg.solve(omega, moved.T))[1]

    def by_law(h):
        return np.log1p(c * (h - m) @ A @ (h - m))

    one, other = np.random.default_rng(1).standard_normal((2, D))
    assert by_law(one) - by_law(other) == pytest.approx(dense(one) - dense(other), rel=1e-10)


def test_a_task_that_is_all_of_the_scatter_is_left_out_without_cancellation():
    H, omega, _, phi = _example(scaled=False)
    H[1] *= 1e7
    m = np.zeros(D)
    inverse = np.linalg.inv(omega + gram_of_tasks(H, phi))
    A = leave_out(inverse, omega, H, phi, 1, m, 1.0)
    rest = np.delete(H, 1, axis=0)
    assert pytest.approx(np.linalg.inv(omega + rest.T @ rest), rel=1e-9) == A


def _grid_law(log_density):
    """Draws and distribution function of a law of one number on a fine grid."""
    grid = np.linspace(-12.0, 12.0, 40_001)
    values = np.array([log_density(h) for h in grid])
    weights = np.exp(values - values.max())
    total = np.cumsum((weights[1:] + weights[:-1]) / 2.0)
    total = np.concatenate([[0.0], total / total[-1]])
    return (lambda u: np.interp(u, total, grid)), (lambda h: np.interp(h, grid, total))


def _one_feature(scaled):
    H, _, psi, phi = _example(seed=4, scaled=scaled)
    return np.ascontiguousarray(H[:, :1]), np.array([[0.7]]), psi, phi


def _log_prior(H, omega, psi, t):
    """Of one coefficient of a task, by the determinant."""

    def log_density(h):
        moved = H.copy()
        moved[t] = h
        return -0.5 * (NU_OF_ONE + 1) * np.linalg.slogdet(psi + moved @ moved.T / omega[0, 0])[1]

    return log_density


@pytest.mark.parametrize("scaled", [False, True])
def test_draws_keep_the_law_of_a_coefficient(scaled):
    # All other tasks have so much data that their draws stay where they are.
    H, omega, psi, phi = _one_feature(scaled)
    t, rng = 0, np.random.default_rng(5)
    S, r = np.full((T, 1, 1), 1e14), 1e14 * H
    S[t], r[t] = 0.3, 0.2
    prior = _log_prior(H, omega, psi, t)
    draw, distribution = _grid_law(lambda h: prior(h) - 0.15 * h * h + 0.2 * h)
    found = []
    for u in rng.random(4000):
        now = H.copy()
        now[t] = draw(u)
        for _ in range(4):
            draw_tasks(rng, S, r, now, 1.0 / omega, NU_OF_ONE, phi)
        found.append(now[t, 0])
    assert kstest(found, distribution).pvalue > ALPHA


@pytest.mark.parametrize("scaled", [False, True])
def test_moves_under_the_loss_keep_the_law_of_a_coefficient(scaled):
    H, omega, psi, phi = _one_feature(scaled)
    t, rng = 0, np.random.default_rng(6)
    X = np.concatenate([[1.0, -0.5, 0.8], np.ones(T - 1)])[:, None]
    task = np.concatenate([[0, 0, 0], np.arange(1, T)])
    rows = Rows(X, np.arange(len(X)), np.searchsorted(task, np.arange(T + 1)), np.linspace(-0.3, 0.3, len(X)))
    label = np.concatenate([[1.0, -1.0, -1.0], np.ones(T - 1)])
    hinges = np.stack([np.ones(len(X)), label])
    cost = np.full(len(X), 0.4)
    direction = np.ones(1)

    def loss(h):
        f = rows.offset[:3] + X[:3, 0] * h
        return -2.0 * np.sum(cost[:3] * np.maximum(0.0, hinges[0, :3] - hinges[1, :3] * f))

    prior = _log_prior(H, omega, psi, t)
    draw, distribution = _grid_law(lambda h: prior(h) + loss(h))
    first = Rows(X[:3], np.arange(3), np.array([0, 3] + [3] * (T - 1)), rows.offset[:3])
    found = []
    for u in rng.random(4000):
        now = H.copy()
        now[t] = draw(u)
        f = first.offset + first.inputs[:, 0] * now[t, 0]
        arguments = (hinges[:, :3], cost[:3], first, f, first.inputs[:, 0].copy(), direction)
        # The first task moves first, while all others are where they were.
        collapsed_loss_moves(rng, *arguments, now, 1.0 / omega, NU_OF_ONE, phi)
        found.append(now[t, 0])
        assert f == pytest.approx(first.offset + first.inputs[:, 0] * now[t, 0])
    assert kstest(found, distribution).pvalue > ALPHA


@pytest.mark.parametrize("scaled", [False, True])
def test_the_ellipse_is_drawn_with_the_covariance_of_the_task(scaled):
    H, omega, _, phi = _example(scaled=scaled)
    t, m = 3, np.empty(D)
    c = centre_of_task(H, phi, t, m)
    A = leave_out(np.linalg.inv(omega + gram_of_tasks(H, phi)), omega, H, phi, t, m, c)
    rng, O = np.random.default_rng(7), np.linalg.inv(omega)
    half = np.linalg.cholesky(A)
    white = np.array(
        [half.T @ _prior_draw(rng, H, A, np.linalg.cholesky(O), t, not scaled) for _ in range(4000)]
    )
    for values in white.T:
        assert kstest(values, "norm").pvalue > ALPHA / D
    assert np.corrcoef(white.T) == pytest.approx(np.eye(D), abs=5.0 / np.sqrt(len(white)))


def test_the_scale_of_all_tasks_keeps_its_law():
    # H, Omega and f are held but for their scale, of which the law is known up to a constant.
    H, omega, _, _ = _example(scaled=False)
    rng, nu = np.random.default_rng(8), 5.0
    n = 4
    rows = Rows(
        rng.standard_normal((n, D)), np.arange(n), np.array([0, n] + [n] * (T - 1)), np.linspace(-0.2, 0.2, n)
    )
    hinges, cost = np.stack([np.ones(n), np.array([1.0, -1.0, 1.0, 1.0])]), np.full(n, 0.5)
    step = rows.inputs @ H[0]

    def log_density(s):
        f = rows.offset + np.exp(s) * step
        loss = -2.0 * np.sum(cost * np.maximum(0.0, hinges[0] - hinges[1] * f))
        return loss - nu * D * s - 0.5 * np.exp(-2.0 * s) * np.trace(np.linalg.inv(omega))

    draw, distribution = _grid_law(log_density)
    found = []
    for u in rng.random(4000):
        size = np.exp(draw(u))
        now, O, f = size * H, np.linalg.inv(omega) / size**2, rows.offset + size * step
        scale_all_tasks(rng, hinges, cost, rows, f, now, O, nu)
        found.append(np.log(now[0, 0] / H[0, 0]))
        assert pytest.approx(np.linalg.inv(omega) / np.exp(2.0 * found[-1])) == O
        assert f == pytest.approx(rows.offset + np.exp(found[-1]) * step)
    assert kstest(found, distribution).pvalue > ALPHA


@pytest.mark.parametrize("shared", [None, ["x1"]])
def test_the_task_covariance_is_drawn_anew_before_shared_coefficients_look_at_it(shared):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 5)
    X = rng.standard_normal((20, 3))
    data = zoo.MultiTaskData.from_arrays(X, np.where(rng.random(20) < 0.5, 1, -1), task).standardize()
    model = zoo.MaxMargin(shared=shared) if shared else zoo.MaxMargin()
    prepared = model.design(data)
    kernel = model.gibbs_kernel(prepared, model.validate(data))
    state = kernel.initialise(rng)
    before, coefficients = state["P"].copy(), state["H"].copy()
    kernel._move_under_the_loss(rng, state)
    assert not np.array_equal(state["H"], coefficients)
    assert np.array_equal(state["P"], before) == (shared is None)

"""EM of normal populations of linear models against the printed equations, the likelihood itself and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from zoo.inference.em.algorithm import conditional_covariances, conditional_draws, expectation_maximisation
from zoo.inference.em.conditional import conditional_variances


def _problem(seed, n=12, r=4, T=5, by_task=False, repeats=True, **options):
    """Ragged tasks: one without rows, one with a single row, and an input twice in a task unless told otherwise."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, r))
    sizes = np.concatenate([[0, 1], rng.integers(2, n, T - 2)])
    row = np.concatenate([rng.choice(n, size, replace=repeats) for size in sizes])
    task = np.repeat(np.arange(T), sizes)
    order = rng.permutation(len(row))
    row, task = row[order], task[order]
    w = rng.normal(size=(r, 1)) + rng.normal(size=(r, T))
    y = np.einsum("ir,ri->i", inputs[row], w[:, task]) + 0.5 * rng.normal(size=len(row))
    return dict(inputs=inputs, row=row, task=task, y=y, n_tasks=T, noise_by_task=by_task, **options)


def _start(seed, r, T=None):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(r, r))
    return rng.normal(size=r), A @ A.T + 0.5 * np.eye(r), 0.7 if T is None else rng.uniform(0.5, 1.5, T)


def _scale(seed, r):
    A = np.random.default_rng(seed).normal(size=(r, r))
    return A @ A.T + np.eye(r)


def _as_printed(problem, mean, cov, noise):
    """One EM map by equations (5)-(9), with the trace of (9) inside the sum."""
    p = {"scale": None, "noise_prior": None, **problem}
    r, T = len(mean), p["n_tasks"]
    variance = np.broadcast_to(noise, T) ** 2
    w, covs, squares, counts = np.zeros((r, T)), np.zeros((T, r, r)), np.zeros(T), np.zeros(T)
    for t in range(T):
        X, y = p["inputs"][p["row"][p["task"] == t]], p["y"][p["task"] == t]
        covs[t] = np.linalg.inv(X.T @ X / variance[t] + np.linalg.inv(cov))
        w[:, t] = covs[t] @ (X.T @ y / variance[t] + np.linalg.inv(cov) @ mean)
        squares[t] = ((y - X @ w[:, t]) ** 2).sum() + np.trace(X @ covs[t] @ X.T)
        counts[t] = len(y)
    new_mean = w.sum(axis=1) / (p["pi"] + T)
    scale = p["tau"] * np.eye(r) if p["scale"] is None else p["scale"]
    gaps = w - new_mean[:, None]
    new_cov = p["pi"] * np.outer(new_mean, new_mean) + scale + covs.sum(axis=0) + gaps @ gaps.T
    a, b = (-1.0, 0.0) if p["noise_prior"] is None else p["noise_prior"]
    if not p["noise_by_task"]:
        squares, counts = squares.sum(), counts.sum()
    with np.errstate(invalid="ignore"):
        new = (squares + 2.0 * b) / (counts + 2.0 * a + 2.0)
    return (
        new_mean,
        new_cov / (p["tau"] + T),
        np.sqrt(np.where(np.isnan(new), variance if p["noise_by_task"] else 0, new)),
        w,
    )


def _objective(problem, mean, cov, noise):
    """Log-likelihood by scipy's density, and with the penalty."""
    p = {"scale": None, "noise_prior": None, **problem}
    noises, value = np.broadcast_to(noise, p["n_tasks"]), 0.0
    for t in np.unique(p["task"]):
        X, y = p["inputs"][p["row"][p["task"] == t]], p["y"][p["task"] == t]
        value += stats.multivariate_normal(X @ mean, X @ cov @ X.T + noises[t] ** 2 * np.eye(len(y))).logpdf(
            y
        )
    scale = p["tau"] * np.eye(len(mean)) if p["scale"] is None else p["scale"]
    penalty = -0.5 * p["pi"] * mean @ np.linalg.solve(cov, mean) - 0.5 * p["tau"] * np.linalg.slogdet(cov)[1]
    penalty -= 0.5 * np.trace(np.linalg.solve(cov, scale))
    if p["noise_prior"] is not None:
        a, b = p["noise_prior"]
        penalty -= np.sum((a + 1.0) * np.log(np.square(noise)) + b / np.square(noise))
    return value, value + penalty


def _after(steps, **problem):
    return expectation_maximisation(**problem, max_iter=steps + 1, accelerate=False)


CASES = {
    "plain": dict(pi=0.5, tau=2.0),
    "flat mean": dict(pi=0.0, tau=2.0),
    "noise prior": dict(pi=0.5, tau=2.0, noise_prior=(2.0, 0.3)),
    "noise per task": dict(pi=0.5, tau=2.0, by_task=True),
    "noise per task with prior": dict(pi=0.5, tau=2.0, by_task=True, noise_prior=(2.0, 0.3)),
    "scale": dict(pi=1.5, tau=3.0, scale=_scale(3, 4)),
    "as many inputs as features": dict(pi=1.0, tau=2.0, n=4, scale=_scale(4, 4), noise_prior=(1.0, 0.2)),
    "no repeats": dict(pi=1.0, tau=1.0, n=4, repeats=False),
}


@pytest.mark.parametrize("space", ["weights", "functions"])
@pytest.mark.parametrize("case", CASES)
def test_one_map_is_the_printed_one(case, space):
    problem = _problem(1, **CASES[case])
    start = _start(2, 4, problem["n_tasks"] if problem["noise_by_task"] else None)
    fit = _after(1, **problem, space=space, start=start)
    assert fit.space == space
    mean, cov, noise, w = _as_printed(problem, *start)
    np.testing.assert_allclose(fit.mean, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(fit.cov, cov, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(fit.noise, noise, rtol=1e-10)
    _, _, _, w = _as_printed(problem, mean, cov, noise)
    np.testing.assert_allclose(fit.coefficients, w, rtol=1e-9, atol=1e-10)
    for k, parameters in enumerate([start, (mean, cov, noise)]):
        likelihood, penalised = _objective(problem, *parameters)
        np.testing.assert_allclose(fit.log_likelihood[k], likelihood, rtol=1e-10)
        np.testing.assert_allclose(fit.penalised_log_likelihood[k], penalised, rtol=1e-10)


@pytest.mark.parametrize("n, r", [(5, 8), (9, 9), (12, 3)])
@pytest.mark.parametrize("scaled", [False, True])
def test_spaces_agree_also_where_features_outnumber_inputs(n, r, scaled):
    problem = _problem(5, n=n, r=r, pi=1.0, tau=1.0, scale=_scale(6, r) if scaled else None)
    problem["inputs"][2] = problem["inputs"][1]  # a duplicated point
    weights = _after(20, **problem, space="weights")
    functions = _after(20, **problem, space="functions")
    np.testing.assert_allclose(
        functions.penalised_log_likelihood, weights.penalised_log_likelihood, rtol=1e-8
    )
    for name in ("mean", "cov", "noise", "coefficients"):
        np.testing.assert_allclose(getattr(functions, name), getattr(weights, name), rtol=1e-8, atol=1e-10)
    start = np.zeros(r), (np.eye(r) if problem["scale"] is None else problem["scale"]), weights.noise
    likelihood, penalised = _objective(problem, weights.mean, weights.cov, weights.noise)
    np.testing.assert_allclose(weights.log_likelihood[-1], likelihood, rtol=1e-9)
    np.testing.assert_allclose(weights.penalised_log_likelihood[-1], penalised, rtol=1e-9)
    printed = _as_printed(problem, *start)
    for ours, theirs in zip(vars(_after(1, **problem, start=start)).values(), printed[:3], strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def test_tasks_in_chunks(monkeypatch):
    problem = _problem(7, T=9, pi=1.0, tau=1.0)
    whole = _after(3, **problem, space="weights")
    monkeypatch.setattr("zoo.inference.em.algorithm._CHUNK", 32)
    np.testing.assert_allclose(_after(3, **problem, space="weights").cov, whole.cov, rtol=1e-12)


def _random_problem(seed):
    rng = np.random.default_rng(1000 + seed)
    n, T = int(rng.integers(3, 15)), int(rng.integers(3, 8))
    r = int(rng.integers(1, 2 * n))
    problem = _problem(
        seed, n=n, r=r, T=T, by_task=bool(rng.random() < 0.3), pi=float(rng.choice([0.0, 0.1, 1.0, 1e6])),
        tau=float(rng.choice([0.3, 1.0, 10.0])), scale=_scale(seed, r) if rng.random() < 0.3 else None,
        noise_prior=(1.0, 0.1) if rng.random() < 0.3 else None, noise_floor=float(rng.choice([0.01, 0.3])),
    )  # fmt: skip
    if rng.random() < 0.5:
        problem["inputs"][-1] = problem["inputs"][0]
    if rng.random() < 0.3:
        problem["inputs"][:, -1] = problem["inputs"][:, 0]
    return problem


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("space", ["weights", "functions"])
def test_penalised_likelihood_never_decreases(space, accelerate):
    for seed in range(100):
        problem = _random_problem(seed)
        fit = expectation_maximisation(**problem, max_iter=40, space=space, accelerate=accelerate)
        trace = fit.penalised_log_likelihood
        assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all(), seed
        assert np.isfinite(fit.cov).all() and (fit.noise >= problem["noise_floor"]).all()
        assert len(trace) == len(fit.log_likelihood) == len(fit.accelerated) <= fit.n_maps <= 40
        assert accelerate or not fit.accelerated.any()


@pytest.mark.parametrize("space", ["weights", "functions"])
def test_fixed_point(space):
    """It satisfies the M-step, is reached with and without acceleration, and the likelihood is flat there."""
    problem = _problem(
        11, n=30, r=3, T=20, pi=1.0, tau=4.0, scale=4.0 * _scale(12, 3), noise_prior=(1.0, 0.2)
    )
    options = dict(max_iter=5000, tol=1e-11, min_gain=0.0, space=space)
    fit = expectation_maximisation(**problem, **options)
    plain = expectation_maximisation(**problem, **options, accelerate=False)
    assert fit.converged and fit.residual < 1e-11 and fit.accelerated.any()
    assert fit.n_maps < plain.n_maps
    for name in ("mean", "cov", "noise", "coefficients"):
        np.testing.assert_allclose(getattr(fit, name), getattr(plain, name), rtol=1e-7, atol=1e-8)
    mean, cov, noise, w = _as_printed(problem, fit.mean, fit.cov, fit.noise)
    np.testing.assert_allclose(fit.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(fit.cov, cov, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(fit.noise, noise, rtol=1e-8)
    np.testing.assert_allclose(fit.coefficients, w, rtol=1e-8, atol=1e-9)

    def at(x):
        cov = np.zeros((3, 3))
        cov[np.tril_indices(3)] = x[3:9]
        return _objective(problem, x[:3], cov + np.tril(cov, -1).T, x[9])[1]

    x, step = np.concatenate([fit.mean, fit.cov[np.tril_indices(3)], [fit.noise]]), 1e-5
    gradient = [(at(x + step * e) - at(x - step * e)) / (2 * step) for e in np.eye(10)]
    # Central differences: rounding 1e-13 * 1e3 / 1e-5, truncation of order step^2.
    np.testing.assert_allclose(gradient, 0.0, atol=2e-5)


def test_unlabelled_inputs_change_nothing():
    """Theorem 5.3, with the features of a base kernel and its multiple as scale.

    Of plain steps: those of the acceleration divide differences of steps, and have rounding grow a millionfold.
    """
    rng = np.random.default_rng(13)
    points = rng.normal(size=(25, 2))
    kernel = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))
    features = np.linalg.cholesky(kernel + 1e-6 * np.eye(25))
    problem = _problem(14, n=15, r=15, T=6, pi=1.0, tau=1.0, noise_floor=0.1)
    options = dict(max_iter=60, accelerate=False)
    few = expectation_maximisation(**{**problem, "inputs": features[:15, :15]}, **options)
    many = expectation_maximisation(**{**problem, "inputs": features}, **options)
    X, Z = features[:15, :15], features[:15]
    np.testing.assert_allclose(Z @ many.coefficients, X @ few.coefficients, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(Z @ many.mean, X @ few.mean, atol=1e-10)
    np.testing.assert_allclose(Z @ many.cov @ Z.T, X @ few.cov @ X.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(many.noise, few.noise, rtol=1e-10)


def test_conditional_covariances_against_the_inverse():
    problem = _problem(15, pi=1.0, tau=1.0)
    _, cov, noise = _start(16, 4, 5)
    ours = conditional_covariances(problem["inputs"], problem["row"], problem["task"], 5, cov, noise)
    for t in range(5):
        X = problem["inputs"][problem["row"][problem["task"] == t]]
        direct = np.linalg.inv(X.T @ X / noise[t] ** 2 + np.linalg.inv(cov))
        np.testing.assert_allclose(ours[t], direct, rtol=1e-9, atol=1e-11)


def test_conditional_draws_have_their_mean_and_covariance():
    # 20,000 draws. 20 means, 50 entries of covariances: |error| below 5.5 standard errors each, so a correct sampler
    # fails with probability 70 * 4e-8 = 3e-6. A product of normals has variance S_ii S_jj + S_ij^2.
    problem, n_draws = _problem(17, pi=1.0, tau=1.0), 20_000
    start = _start(18, 4, 5)
    columns = [problem[name] for name in ("inputs", "row", "task", "y")]
    draws = conditional_draws(*columns, 5, *start, n_draws, np.random.default_rng(19))
    assert draws.shape == (n_draws, 4, 5)
    covs = conditional_covariances(*columns[:3], 5, *start[1:])
    means = _as_printed({**problem, "noise_by_task": True}, *start)[3]
    for t in range(5):
        sd = np.sqrt(np.diag(covs[t]))
        assert (np.abs(draws[:, :, t].mean(axis=0) - means[:, t]) < 5.5 * sd / np.sqrt(n_draws)).all()
        error = np.sqrt((np.outer(sd, sd) ** 2 + covs[t] ** 2) / n_draws)
        assert (np.abs(np.cov(draws[:, :, t].T) - covs[t]) < 5.5 * error + 1e-3 * error).all()


def test_warm_start_stays():
    problem = _problem(21, n=20, T=10, pi=1.0, tau=3.0, noise_prior=(1.0, 0.2))
    fit = expectation_maximisation(**problem, tol=1e-9, min_gain=0.0)
    again = expectation_maximisation(**problem, tol=1e-8, start=(fit.mean, fit.cov, fit.noise))
    assert again.converged and again.n_maps == 1
    np.testing.assert_allclose(
        again.penalised_log_likelihood[0], fit.penalised_log_likelihood[-1], rtol=1e-12
    )


def test_flat_climbs_stop_and_progress_is_called():
    problem, seen = _problem(22, pi=1.0, tau=1.0), []
    fit = expectation_maximisation(**problem, min_gain=0.1, progress=lambda n, value: seen.append((n, value)))
    assert fit.converged and fit.residual > 1e-8
    assert [value for _, value in seen] == list(fit.penalised_log_likelihood) and seen[-1][0] == fit.n_maps


def test_wrong_arguments_raise():
    problem = _problem(23, pi=1.0, tau=1.0)
    indefinite = np.diag([1.0, 1.0, -1.0, 1.0])
    for change, message in [
        (dict(start=(np.zeros(4), indefinite, 1.0)), "start"),
        (dict(start=(np.zeros(4), np.eye(4), 0.0)), "noise of start"),
        (dict(start=(np.zeros(3), np.eye(4), 1.0)), "mean of start"),
        (dict(scale=indefinite), "scale"),
        (dict(tau=0.0), "tau"),
        (dict(noise_prior=(-1.0, 1.0)), "noise_prior"),
        (dict(space="both"), "space"),
        (dict(task=problem["task"] + 1), "task"),
        (dict(y=problem["y"] * np.nan), "finite"),
        (dict(inputs=problem["inputs"][0]), "inputs"),
    ]:
        with pytest.raises(ValueError, match=message):
            expectation_maximisation(**{**problem, **change})


def test_noise_that_vanishes_raises_instead_of_nan():
    # Responses that a linear model fits without error: the noise falls by half a step, to zero.
    problem = _problem(24, n=30, T=30, pi=0.0, tau=1.0)
    problem["y"] = np.zeros(len(problem["y"]))
    with pytest.raises(FloatingPointError, match="noise_floor"):
        expectation_maximisation(
            **problem, start=(np.zeros(4), np.eye(4), 1e-135), space="weights", tol=1e-300, min_gain=-1.0
        )
    assert expectation_maximisation(**problem, noise_floor=1e-3).noise >= 1e-3


@pytest.mark.parametrize("r", [4, 40], ids=["a stack of tasks", "task by task"])
def test_a_row_of_weight_two_is_two_rows(r):
    p = _problem(9, n=12, r=r)
    _, cov, noise = _start(9, r, 5)
    places, new = np.array([0, 1, 2, 3, 4, 4]), np.random.default_rng(1).normal(size=(6, r))
    twice = {name: np.concatenate([p[name], p[name][3:]]) for name in ("row", "task", "y")}
    weight = np.where(np.arange(len(p["y"])) < 3, 1.0, 2.0)
    X = p["inputs"]
    np.testing.assert_allclose(
        conditional_covariances(X, p["row"], p["task"], 5, cov, noise, weight),
        conditional_covariances(X, twice["row"], twice["task"], 5, cov, noise),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        conditional_variances(X, p["row"], p["task"], 5, cov, noise, new, places, weight),
        conditional_variances(X, twice["row"], twice["task"], 5, cov, noise, new, places),
        rtol=1e-9,
    )
    whole = conditional_covariances(X, p["row"], p["task"], 5, cov, noise, weight)
    np.testing.assert_allclose(
        conditional_variances(X, p["row"], p["task"], 5, cov, noise, new, places, weight),
        np.einsum("mi,mij,mj->m", new, whole[places], new),
        rtol=1e-8,
    )

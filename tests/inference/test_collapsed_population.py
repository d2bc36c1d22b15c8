"""Moves of a population with loose coefficients integrated out: their densities against dense ones, what is loose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import zoo
from zoo.inference.gibbs import collapsed_population as moves
from zoo.inference.gibbs import collapsed_regression as regression
from zoo.inference.gibbs import normal_inverse_wishart
from zoo.inference.gibbs.loose_directions import steady_features
from zoo.inference.gibbs.loose_space import invert, residuals
from zoo.inference.gibbs.population_steps import LANES


class _Small:
    """Four tasks, one without rows, with weights and a noise each, in the sampler's coordinates."""

    def __init__(self, D: int, m: int, pi: float = 0.7, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.rng, self.D, self.m, self.pi, self.nu = rng, D, m, pi, D + 1.5
        self.task = np.repeat(np.arange(3), 4)
        self.weight = rng.uniform(0.5, 2.0, 12)
        X, y = rng.standard_normal((12, D)), rng.standard_normal(12)
        data = zoo.MultiTaskData.from_arrays(X, y, [f"t{t}" for t in self.task], weight=self.weight)
        data = replace(data, task_names=(*data.task_names, "empty"))
        model = zoo.NIWLinear(
            likelihood=zoo.Gaussian(per_task=("noise",)), pi=pi, delta=2.5, scale_matrix=1.0
        )
        self.kernel = model.gibbs_kernel(data, y, loose=m)
        self.state = self.kernel.initialise(rng)
        self.X, self.y = X @ self.kernel._basis[0], y
        s = self.state
        s["inverse_noise"][:] = rng.uniform(0.5, 2.0, s["inverse_noise"].shape)
        A = rng.standard_normal((D, D))
        s["C"][:] = A @ A.T + 0.3 * np.eye(D)
        s["P"][:] = np.linalg.inv(s["C"])
        s["mu"][:] = rng.standard_normal(D)
        s["W"][:] = rng.standard_normal(s["W"].shape)
        self.known = D - m
        self.w = s["W"][0].T[:4]
        # Equation (1).
        self.Cuu = s["C"][: self.known, : self.known]
        self.precision = s["P"][self.known :, self.known :].copy()
        B = -np.linalg.solve(self.precision, s["P"][self.known :, : self.known])
        c = s["mu"][self.known :] - B @ s["mu"][: self.known]
        self.theta = np.ascontiguousarray(np.column_stack([c, B]))

    def x(self) -> np.ndarray:
        return np.column_stack([np.ones(4), self.w[:, : self.known]])

    def noise(self) -> np.ndarray:
        return 1.0 / (self.state["inverse_noise"].ravel()[self.task] * self.weight)

    def joint(self, R: np.ndarray, ridge: np.ndarray) -> float:
        """Log density of (C, mu) at another R, and of y with the loose coefficients integrated out, all dense.

        ``ridge`` (D,) is h of learned scales; an empty one stands for scales of 1.
        """
        B, c = self.theta[:, 1:], self.theta[:, 0]
        known, mu_u = self.known, self.state["mu"][: self.known]
        C = np.empty((self.D, self.D))
        C[:known, :known] = self.Cuu
        C[known:, :known] = B @ self.Cuu
        C[:known, known:] = C[known:, :known].T
        C[known:, known:] = R + B @ self.Cuu @ B.T
        mu = np.concatenate([mu_u, c + B @ mu_u])
        total = stats.invwishart(self.nu, np.eye(self.D)).logpdf(C)
        if len(ridge):  # the trace in it makes way for the integral over the scales
            diagonal = np.diag(np.linalg.inv(C))
            total += 0.5 * diagonal.sum() - 0.5 * (self.nu + 1.0) * np.log(diagonal + ridge).sum()
        total += stats.multivariate_normal(np.zeros(self.D), C / self.pi).logpdf(mu)
        for t in range(3):
            at = self.task == t
            Z = self.X[at][:, known:]
            mean = self.X[at][:, :known] @ self.w[t, :known] + Z @ self.theta @ self.x()[t]
            cov = Z @ R @ Z.T + np.diag(self.noise()[at])
            total += stats.multivariate_normal(mean, cov).logpdf(self.y[at])
        return float(total)

    def without_regression(self, R: np.ndarray) -> float:
        """Log density of y with loose coefficients and regression integrated out, as one normal law of all rows."""
        known, x = self.known, self.x()
        same = self.task[:, None] == self.task
        weight = 1.0 / np.concatenate([[self.pi], np.ones(known)])
        alike = (x * weight) @ x.T
        Z = self.X[:, known:]
        cov = Z @ R @ Z.T * (alike[np.ix_(self.task, self.task)] + same) + np.diag(self.noise())
        mean = np.einsum("nd,nd->n", self.X[:, :known], self.w[self.task, :known])
        return float(stats.multivariate_normal(mean, cov).logpdf(self.y))


def _moved(R, p, q, s):
    """F R F' of a scale or shear."""
    F = np.eye(len(R))
    F[p, q] += np.expm1(s) if p == q else s
    return F @ R @ F.T


def _log_jacobian(R, p, q, s):
    """Of R -> F R F', by differences: the map is linear."""
    rows, columns = np.tril_indices(len(R))
    J = np.empty((len(rows), len(rows)))
    for i, (a, b) in enumerate(zip(rows, columns, strict=True)):
        unit = np.zeros_like(R)
        unit[a, b] = unit[b, a] = 1.0
        J[:, i] = _moved(unit, p, q, s)[rows, columns]
    return np.linalg.slogdet(J)[1]


@pytest.mark.parametrize("learned", [False, True], ids=["scales given", "scales learned"])
@pytest.mark.parametrize(("D", "m"), [(4, 2), (3, 3), (3, 1), (1, 1)])
def test_the_density_of_scales_and_shears_is_the_dense_one(D, m, learned):
    """Equation (6) is the log density of (C, mu, y) at the moved point with the Jacobian, up to a constant."""
    small = _Small(D, m)
    s, R = small.state, np.linalg.inv(small.precision)
    space = s["loose"]
    invert(s["tasks"], s["inverse_noise"], small.precision, space.inverse)
    residuals(s["tasks"], s["inverse_noise"], s["W"], small.theta, space.residual)
    ridge = np.linspace(0.3, 1.5, D) if learned else np.empty(0)
    values = np.diag(s["P"]) + ridge if learned else ridge
    lanes = space.residual.shape[0] * LANES
    linear, psi, power = moves._law_of_scales(small.theta, small.nu, small.pi, 1.0, lanes, learned)
    start = small.joint(R, ridge)
    for p in range(m):
        for q in range(m):
            v = small.precision[p].copy()
            moves._shrink(space, q, v)
            kind = moves._SCALE if p == q else moves._SHEAR
            law = (linear, psi[q] @ v, psi[q, q], v[p])
            beside = (space.small, power, moves._diagonal(small.theta, v, q, values))
            zero = moves._log_density(0.0, kind, law, *beside)
            for step in (-1.3, 0.4, 2.1):
                dense = small.joint(_moved(R, p, q, step), ridge) - start + _log_jacobian(R, p, q, step)
                found = moves._log_density(step, kind, law, *beside) - zero
                np.testing.assert_allclose(found, dense, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("D", "m"), [(4, 2), (3, 3)])
def test_a_move_changes_the_inverses_with_the_precision(D, m):
    small = _Small(D, m)
    s, space = small.state, small.state["loose"]
    precision, values = small.precision.copy(), np.diag(s["P"]) + 0.2
    rest = values[D - m :] - np.diag(precision)
    invert(s["tasks"], s["inverse_noise"], precision, space.inverse)
    residuals(s["tasks"], s["inverse_noise"], s["W"], small.theta, space.residual)
    for p in range(m):
        for q in range(m):
            moves._move(small.rng, space, precision, np.eye(m), p, q, -10.0, 1.5, small.theta, values)
    assert np.abs(precision - small.precision).max() > 1e-3
    np.testing.assert_allclose(values[D - m :], np.diag(precision) + rest, rtol=1e-9)
    B = small.theta[:, 1:]
    change = np.sum(B * ((precision - small.precision) @ B), axis=0)
    np.testing.assert_allclose(values[: D - m], np.diag(s["P"])[: D - m] + 0.2 + change, rtol=1e-9)
    found = np.tril(np.moveaxis(space.inverse, -1, 1).reshape(-1, m, m))
    invert(s["tasks"], s["inverse_noise"], precision, space.inverse)
    np.testing.assert_allclose(
        found, np.tril(np.moveaxis(space.inverse, -1, 1).reshape(-1, m, m)), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize(("D", "m"), [(4, 2), (3, 3), (3, 1)])
def test_the_evidence_without_the_regression_is_the_dense_one(D, m):
    """Equation (8), up to a constant."""
    small = _Small(D, m)
    s, space = small.state, small.state["loose"]
    space.regressors[:4] = small.x()
    residuals(s["tasks"], s["inverse_noise"], s["W"], np.zeros_like(small.theta), space.residual)
    k = space.regressors.shape[1]
    L, J, u = np.empty((m, m)), np.empty((m * k, m * k)), np.empty(m * k)
    found, dense = [], []
    for factor in (1.0, 0.3, 5.0):
        precision = small.precision / factor + 0.1 * np.eye(m)
        found.append(
            regression._log_evidence(s["tasks"], s["inverse_noise"], space, precision, small.pi, L, J, u)
        )
        dense.append(small.without_regression(np.linalg.inv(precision)))
    np.testing.assert_allclose(np.diff(found), np.diff(dense), rtol=1e-8)


def _twin(seed: int = 0) -> zoo.MultiTaskData:
    """Tasks with two features that are constant within them beside an intercept."""
    rng = np.random.default_rng(seed)
    T, n = 30, 10
    task = np.repeat(np.arange(T), n)
    age, sex = rng.normal(size=T)[task], rng.integers(0, 2, T)[task] - 0.5
    time = rng.uniform(size=T * n)
    y = rng.normal(size=T)[task] + 0.5 * age - 0.3 * sex + 0.1 * rng.normal(size=T * n)
    return zoo.MultiTaskData.from_arrays(np.column_stack([age, sex, time, np.ones(T * n)]), y, task)


def test_features_that_are_constant_within_tasks_are_loose():
    data = _twin()
    found, means = steady_features(data.X, None, data.task, data.n_tasks)
    assert found.tolist() == [0, 1, 3]
    assert means.shape == (30, 3)
    kernel = zoo.NIWLinear().gibbs_kernel(data, data.y)
    assert kernel._basis[1] == 3
    # The axes of the three features lie in the span of the last three columns.
    assert np.abs(kernel._basis[0][2, -3:]).max() < 1e-12
    assert zoo.NIWLinear().gibbs_kernel(data, data.y, group_moves=False)._basis[1] == 0


def test_tasks_that_know_their_coefficients_have_none_loose():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 15)
    X = rng.standard_normal((300, 4))
    X[:, 0] = 1.0
    y = (X * rng.standard_normal((20, 4))[task]).sum(axis=1) + 0.2 * rng.standard_normal(300)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    assert zoo.NIWLinear().gibbs_kernel(data, y)._basis[1] == 0


@pytest.mark.parametrize(
    ("noise", "D", "moves", "shares"),
    [
        (0.2, 4, None, (0.0, 1.0)),
        (4.0, 4, None, (1.0, 1.0)),
        (4.0, 20, None, normal_inverse_wishart._SHARES),
        (4.0, 20, True, (1.0, 1.0)),
        (4.0, 20, False, (0.0, 1.0)),
    ],
)
def test_how_many_sweeps_take_which_moves(noise, D, moves, shares):
    """Shears and scales of all coefficients come in where the data tell little of them, though rows are many."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 45)
    X = rng.standard_normal((900, D))
    y = (X * 0.2 * rng.standard_normal((20, D))[task]).sum(axis=1) + noise * rng.standard_normal(900)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    kernel = zoo.NIWLinear().gibbs_kernel(data, y, group_moves=moves)
    assert kernel._shares == shares
    state = kernel.initialise(rng)
    assert (state["whole"] is None) == (shares[0] == 0.0)
    kernel.sweep(rng, state)


def test_features_that_stand_still_are_moved_in_every_sweep():
    """They hide most of the information about C, but the data tell the other coefficients."""
    data = _twin()
    kernel = zoo.NIWLinear(scale_matrix=0.1).gibbs_kernel(data, data.y)
    assert kernel._shares[1] == 1.0


@pytest.mark.statistical
def test_both_modes_of_a_group_effect_are_visited():
    """Four chains agree on a correlation that data do not know, whose law has a mode near either sign.

    Without the moves each chain stays in the mode where it began, one of them near the negative sign: R-hat is 1.5. The
    seed is fixed; with effective sizes of 600 an R-hat of 1.05 is 7 standard errors away.
    """
    data = _twin()
    fit = zoo.NIWLinear(scale_matrix=0.1).fit(
        data, "gibbs", draws=1500, tune=500, random_seed=1, progress=False
    )
    C = fit.posterior["feature_cov"].to_numpy()
    a, b = np.array([0.0, -0.5, 0.0, 1.0]), np.array([0.0, 0.5, 0.0, 1.0])
    negative = (np.einsum("i,cdij,j->cd", a, C, b) < 0.0).mean(axis=1)
    assert np.ptp(negative) < 0.3
    for i, j in ((0, 0), (1, 1), (3, 3)):
        assert array_stats.rhat(np.log(C[:, :, i, j]), chain_axis=0, draw_axis=1) < 1.05

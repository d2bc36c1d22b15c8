"""Yardsticks that learn a covariance of tasks, against optimality, densities of scipy, and each other."""

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import zoo
from zoo.experiments.task_covariances import (
    Factors,
    TaskProcesses,
    TaskRelationships,
    expected,
    maximised,
)
from zoo.experiments.yardsticks import FeatureLearning, SeparateLinear, moments


def _data(n_tasks=6, n=15, D=4, rank=2, noise=0.5, seed=1):
    """Tasks whose coefficients are combinations of a few, and these coefficients."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(D, rank)) @ rng.normal(size=(rank, n_tasks))
    task = np.repeat(np.arange(n_tasks), n)
    X = rng.normal(size=(len(task), D))
    y = np.einsum("nd,dn->n", X, W[:, task]) + noise * rng.normal(size=len(task))
    return zoo.MultiTaskData.from_arrays(X, y, task), W


def _loss(W, data):
    return sum(
        ((data.y[rows] - data.X[rows] @ w) ** 2).sum()
        for w, rows in zip(W.T, data.rows_by_task(), strict=True)
    )


class TestRelationships:
    def test_the_objective_never_rises(self):
        data, _ = _data()
        objective = TaskRelationships(3.0, tolerance=-1.0, max_alternations=40).learn(data, 0.7).objective
        assert len(objective) == 40
        assert (np.diff(objective) <= 1e-9 * objective[0]).all() and objective[-1] < 0.99 * objective[0]

    @pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
    @pytest.mark.parametrize(("rho", "atol"), [(0.2, 2e-4), (2.0, 3e-3)])
    def test_optimum_of_the_papers_objective(self, shape, rho, atol):
        """The paper's alternation over W and Omega (T, T), one system for all coefficients, ends at the same place.

        With the larger rho singular values vanish, where the two smoothings differ a little.
        """
        T, D = shape
        C, eps = 0.7, 1e-7
        data, _ = _data(T, 15, D, rank=min(shape))
        learned = TaskRelationships(rho, tolerance=1e-14, max_alternations=5000, eps=eps).learn(data, C)
        rows = moments(data)
        omega = np.eye(T) / T
        for step in range(2000):
            inverse = np.linalg.inv(omega)
            system = np.kron(rho * inverse + np.eye(T), np.eye(D))
            for t in range(T):
                system[t * D : (t + 1) * D, t * D : (t + 1) * D] += 2.0 * C * rows.gram[t]
            W = np.linalg.solve(system, 2.0 * C * rows.cross.ravel()).reshape(T, D).T
            root = np.real(sqrtm(W.T @ W + max(eps, 0.9**step) * np.eye(T)))
            omega = root / np.trace(root)
        np.testing.assert_allclose(learned.coefficients, W, atol=atol)
        np.testing.assert_allclose(learned.covariance, omega, atol=atol)
        value = C * _loss(W, data) + 0.5 * (W**2).sum() + 0.5 * rho * np.trace(W @ np.linalg.inv(omega) @ W.T)
        assert learned.objective[-1] == pytest.approx(value, rel=5e-4)

    def test_optimality_by_finite_differences(self):
        """Where all singular values are positive, so that the objective of W has derivatives."""
        C, rho = 0.7, 0.2
        data, _ = _data(rank=4)
        learned = TaskRelationships(rho, tolerance=1e-15, max_alternations=5000, eps=1e-12).learn(data, C)

        def objective(flat):
            W = flat.reshape(4, 6)
            nuclear = np.linalg.svd(W, compute_uv=False).sum()
            return C * _loss(W, data) + 0.5 * (W**2).sum() + 0.5 * rho * nuclear**2

        assert np.linalg.svd(learned.coefficients, compute_uv=False).min() > 0.1
        best, h = learned.coefficients.ravel(), 1e-5
        slope = [(objective(best + h * e) - objective(best - h * e)) / (2.0 * h) for e in np.eye(24)]
        np.testing.assert_allclose(slope, 0.0, atol=1e-4 * objective(best))
        found = minimize(objective, np.zeros(24) + 0.1, method="BFGS", options={"maxiter": 2000})
        assert objective(best) == pytest.approx(found.fun, rel=1e-6)
        np.testing.assert_allclose(best, found.x, atol=1e-3)

    def test_singular_values_that_vanish(self):
        """The smoothed objective, against a general optimiser, where the penalty leaves tasks few directions."""
        C, rho, eps = 0.7, 2.0, 1e-3
        data, _ = _data(rank=4)
        learned = TaskRelationships(rho, tolerance=1e-14, max_alternations=5000, eps=eps).learn(data, C)

        def smoothed(flat):
            W = flat.reshape(4, 6)
            nuclear = np.sqrt(np.linalg.eigvalsh(W @ W.T + eps * np.eye(4))).sum()
            return C * _loss(W, data) + 0.5 * (W**2).sum() + 0.5 * rho * nuclear**2

        found = minimize(
            smoothed, learned.coefficients.ravel() + 0.1, method="BFGS", options={"maxiter": 2000}
        )
        assert np.linalg.svd(learned.coefficients, compute_uv=False).min() < 0.03
        assert smoothed(learned.coefficients.ravel()) == pytest.approx(learned.objective[-1], rel=1e-12)
        assert learned.objective[-1] == pytest.approx(found.fun, rel=1e-6)

    def test_the_covariance_has_trace_one_and_is_that_of_the_coefficients(self):
        data, _ = _data()
        learned = TaskRelationships(1.0).learn(data, 1.0)
        assert np.trace(learned.covariance) == pytest.approx(1.0)
        square = learned.covariance @ learned.covariance
        product = learned.coefficients.T @ learned.coefficients
        np.testing.assert_allclose(square / np.trace(square), product / np.trace(product), atol=1e-8)

    def test_without_relationships_it_is_ridge(self):
        data, _ = _data()
        expected = SeparateLinear("squared").fit(data, 0.3)
        np.testing.assert_allclose(TaskRelationships(0.0).fit(data, 0.3), expected, rtol=1e-8)

    def test_without_ridge_it_is_feature_learning(self):
        """With rho very large, the ridge term vanishes beside it."""
        data, _ = _data(rank=4)
        rho, C = 1e5, 10.0
        W = TaskRelationships(rho, tolerance=1e-12, max_alternations=300).fit(data, C * rho)
        expected = FeatureLearning("squared", tolerance=1e-12, max_alternations=300).fit(data, C)
        np.testing.assert_allclose(W, expected, atol=1e-3)

    def test_responses_of_zero(self):
        data, _ = _data()
        none = zoo.MultiTaskData.from_arrays(data.X, 0.0 * data.y, data.task)
        learned = TaskRelationships(1.0).learn(none, 1.0)
        np.testing.assert_array_equal(learned.coefficients, np.zeros((4, 6)))
        np.testing.assert_allclose(learned.covariance, np.eye(6) / 6)

    def test_what_is_refused(self):
        data, _ = _data()
        with pytest.raises(ValueError, match="rho"):
            TaskRelationships(-1.0)
        with pytest.raises(ValueError, match="C is 0"):
            TaskRelationships(1.0).fit(data, 0.0)


def _factors(T, P, seed=3):
    rng = np.random.default_rng(seed)
    return Factors(rng.normal(size=(T, P)), rng.uniform(0.3, 1.0, size=T))


def _log_density(factors, data):
    """Of all rows together, by the covariance of the processes."""
    K = factors.loading @ factors.loading.T
    covariance = K[np.ix_(data.task, data.task)] * (data.X @ data.X.T)
    covariance += np.diag(factors.noise[data.task])
    return multivariate_normal(np.zeros(data.n_rows), covariance).logpdf(data.y), covariance


class TestProcesses:
    @pytest.mark.parametrize("rank", [1, 3])
    def test_likelihood_and_mean(self, rank):
        """Against the Gaussian process on all rows."""
        data, _ = _data()
        factors = _factors(6, rank)
        now = expected(factors, moments(data))
        value, covariance = _log_density(factors, data)
        assert now.log_likelihood == pytest.approx(value, rel=1e-10)
        K = factors.loading @ factors.loading.T
        weights = np.linalg.solve(covariance, data.y)
        W = np.array([(K[t, data.task] * weights) @ data.X for t in range(6)]).T
        np.testing.assert_allclose(now.mean @ factors.loading.T, W, atol=1e-8)

    def test_no_step_lowers_the_likelihood(self):
        data, _ = _data()
        rows, factors, values = moments(data), _factors(6, 3), []
        for _ in range(60):
            now = expected(factors, rows)
            values.append(now.log_likelihood)
            factors = maximised(now, rows, data.task_names)
        assert (np.diff(values) > -1e-8).all() and values[-1] > values[0] + 20

    def test_maximum_by_an_optimiser(self):
        data, _ = _data(3, 10, 3, rank=1)
        fitted = TaskProcesses(tolerance=1e-10, max_steps=20_000).learn(data, 1)

        def minus(theta):
            return -_log_density(Factors(theta[:3, None], np.exp(theta[3:])), data)[0]

        found = minimize(minus, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], method="BFGS")
        other = minimize(minus, [1.0, -1.0, 1.0, 0.0, 0.0, 0.0], method="BFGS")
        assert fitted.trace[-1] == pytest.approx(-min(found.fun, other.fun), abs=1e-4)

    def test_recovers_a_covariance_of_rank_one(self):
        data, W = _data(8, 40, 30, rank=1, noise=0.3)
        fitted = TaskProcesses().learn(data, 1)
        K = fitted.factors.loading @ fitted.factors.loading.T
        truth = W.T @ W / 30
        assert np.linalg.norm(K - truth) < 0.15 * np.linalg.norm(truth)
        np.testing.assert_allclose(np.sqrt(fitted.factors.noise), 0.3, atol=0.12)
        alone = SeparateLinear("squared").fit(data, 1.0)
        assert np.linalg.norm(fitted.coefficients - W) < 0.5 * np.linalg.norm(alone - W)

    def test_what_is_refused(self):
        data, _ = _data()
        for C, message in ((0, "the rank, is 0"), (2.5, "the rank, is 2.5"), (7, "has 6 tasks")):
            with pytest.raises(ValueError, match=message):
                TaskProcesses().fit(data, C)
        names = [f"town {t}" for t in range(6)]
        y = np.where(data.task == 4, data.X.sum(axis=1), data.y)
        exact = zoo.MultiTaskData.from_arrays(data.X, y, data.task, task_names=names)
        with pytest.raises(ValueError, match="task 'town 4' is fitted without error"):
            TaskProcesses(tolerance=1e-9, max_steps=50_000).fit(exact, 4)

"""Gaussian conditionals behind the kernel machines, against dense algebra and differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from zoo.latent.function_conditional import AlignedConditional, FunctionConditional, covariance_root
from zoo.latent.function_mode import LogisticResponses, find_mode
from zoo.latent.latent_gaussian import Dense, evidence
from zoo.latent.slice_hyper import slice_step
from zoo.latent.support_vectors import support_vector_machine, task_coefficients, task_features
from zoo.latent.task_weights import Loadings, WeightConditional, weight_sums
from zoo.likelihoods.derivatives import DifferentiatedResponses
from zoo.likelihoods.resolve import resolve

STEP = 1e-6


def _dense(K, omega, nu):
    """Covariance and mean of f by the plain formula, and log Z by a determinant."""
    n = len(omega)
    cov = K - K @ (omega[:, None] * np.linalg.solve(np.eye(n) + K * omega, K))
    return cov, cov @ nu, 0.5 * nu @ cov @ nu - 0.5 * np.linalg.slogdet(np.eye(n) + K * omega)[1]


class _Tasks:
    """Rows of four tasks, one without an own part, with two shared columns and a metric."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.T, self.D, N = 4, 3, 30
        self.X, self.task = rng.normal(size=(N, self.D)), rng.integers(0, self.T, N)
        self.omega, self.nu = rng.gamma(2.0, size=N), rng.normal(size=N)
        d = rng.gamma(1.0, size=self.T)
        d[1] = 0.0
        self.loadings = Loadings(d, rng.normal(size=(self.T, 2)), rng.normal(size=(self.D, self.D)))
        self.sums = weight_sums(self.X, np.arange(N), self.task, self.T, self.omega, self.nu)
        B = np.diag(d) + self.loadings.W @ self.loadings.W.T
        Q = self.loadings.R @ self.loadings.R.T
        self.K = B[np.ix_(self.task, self.task)] * (self.X @ Q @ self.X.T)


def test_weights_are_the_dense_conditional():
    tasks = _Tasks()
    law = WeightConditional.of(tasks.sums, tasks.loadings)
    cov, mean, log_evidence = _dense(tasks.K, tasks.omega, tasks.nu)
    assert law.log_evidence == pytest.approx(log_evidence, abs=1e-10)
    assert np.allclose(np.sum(tasks.X * law.mean.T[tasks.task], axis=1), mean, atol=1e-10)
    variance = np.einsum("ni,nij,nj->n", tasks.X, law.covariance[tasks.task], tasks.X)
    assert np.allclose(variance, np.diag(cov), atol=1e-10)
    assert law.dof() == pytest.approx(np.sum(tasks.omega * np.diag(cov)), abs=1e-9)
    assert law.norm() == pytest.approx(mean @ np.linalg.pinv(tasks.K, rcond=1e-10) @ mean, rel=1e-6)


def test_sums_read_shared_inputs_once():
    rng = np.random.default_rng(1)
    inputs, row, task = rng.normal(size=(5, 2)), rng.integers(0, 5, 12), rng.integers(0, 3, 12)
    omega, nu = rng.random(12), rng.random(12)
    one = weight_sums(inputs, row, task, 3, omega, nu)
    two = weight_sums(inputs[row], np.arange(12), task, 3, omega, nu)
    assert np.array_equal(one.S, two.S)
    assert np.array_equal(one.b, two.b)
    assert np.allclose(one.scaled(2.0).S, (one + two).S)


def test_derivatives_of_the_evidence_in_the_loadings():
    tasks = _Tasks()
    gradient = WeightConditional.of(tasks.sums, tasks.loadings).gradient()
    for position, expected in enumerate(gradient):
        for index in np.ndindex(expected.shape):
            if position == 0 and tasks.loadings.d[index] == 0.0:
                continue

            def moved(by, position=position, index=index):
                parts = [part.copy() for part in tasks.loadings]
                parts[position][index] += by
                return WeightConditional.of(tasks.sums, Loadings(*parts)).log_evidence

            difference = (moved(STEP) - moved(-STEP)) / (2 * STEP)
            assert expected[index] == pytest.approx(difference, rel=1e-5, abs=1e-6), (position, index)


def test_draws_of_weights_have_the_moments():
    """Largest of 15 + 5 standardised errors, 40,000 independent draws: above 4.5 once in 7,000 runs."""
    tasks = _Tasks()
    law = WeightConditional.of(tasks.sums, tasks.loadings)
    cov, mean, _ = _dense(tasks.K, tasks.omega, tasks.nu)
    u = law.draw(np.random.default_rng(2), 40_000)
    f = np.einsum("ni,sin->sn", tasks.X[:5], u[:, :, tasks.task[:5]])
    assert np.abs((f.mean(axis=0) - mean[:5]) / np.sqrt(np.diag(cov)[:5] / len(f))).max() < 4.5
    centred = f - mean[:5]
    for i, j in np.ndindex(5, 5):
        products = centred[:, i] * centred[:, j]
        assert abs(products.mean() - cov[i, j]) < 4.5 * products.std() / np.sqrt(len(f))


def test_function_values_with_singular_covariance_and_rows_without_weight():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(7, 4))
    K, omega, nu = A @ A.T, rng.gamma(2.0, size=7), rng.normal(size=7)
    omega[2] = 0.0
    law = FunctionConditional.of(K, omega, nu)
    cov, mean, log_evidence = _dense(K, omega, nu)
    assert np.allclose(law.mean, mean, atol=1e-12)
    assert law.log_evidence == pytest.approx(log_evidence, abs=1e-12)
    assert law.dof() == pytest.approx(np.sum(omega * np.diag(cov)), abs=1e-12)
    predicted = law.predict(K[:3], np.diag(K)[:3])
    assert np.allclose(predicted, (mean[:3], np.diag(cov)[:3]), atol=1e-12)
    f = law.draw(np.random.default_rng(4), covariance_root(K), 40_000)
    centred = f - mean
    for i, j in np.ndindex(7, 7):
        products = centred[:, i] * centred[:, j]  # 49 of them: above 5 once in 35,000 runs
        assert abs(products.mean() - cov[i, j]) < 5 * products.std() / np.sqrt(len(f)) + 1e-8


def test_growing_is_starting_again():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(8, 8))
    K, omega, nu = A @ A.T, rng.gamma(2.0, size=8), rng.normal(size=8)
    whole = FunctionConditional.of(K, omega, nu)
    part = FunctionConditional.of(K[:5, :5], omega[:5], nu[:5])
    grown = part.grown(K[5:, :5], K[5:, 5:], omega[5:], nu[5:])
    assert np.allclose(grown.factor, whole.factor, atol=1e-10)
    assert np.allclose(grown.mean, whole.mean, atol=1e-10)


def test_aligned_tasks_are_the_kronecker_product():
    rng = np.random.default_rng(6)
    n, T, noise = 6, 3, 0.3
    A, C = rng.normal(size=(n, n)), rng.normal(size=(T, T))
    k, B, Y = A @ A.T + np.eye(n), C @ C.T + np.eye(T), rng.normal(size=(n, T))
    law = AlignedConditional(B, k, Y, noise)
    y, K = Y.T.ravel(), np.kron(B, k)
    dense = FunctionConditional.of(K, np.full(n * T, 1.0 / noise), y / noise)
    assert law.log_evidence == pytest.approx(dense.log_evidence, abs=1e-10)
    assert np.allclose(law.mean.T.ravel(), dense.mean, atol=1e-10)
    assert law.dof() == pytest.approx(dense.dof(), abs=1e-10)
    assert law.norm() == pytest.approx(dense.norm(), abs=1e-10)
    rows = np.array([0, 2 * n + 1])  # input 0 of task 0, input 1 of task 2
    one = law.predict(B[[0, 2]], k[:2], np.diag(K)[rows])
    two = dense.predict(K[rows], np.diag(K)[rows])
    assert np.allclose(one, two, atol=1e-10)
    by_B, by_k = law.gradient()
    full = dense.gradient().reshape(T, n, T, n)
    assert np.allclose(by_B, np.einsum("tiqj,ij->tq", full, k), atol=1e-9)
    assert np.allclose(by_k, np.einsum("tiqj,tq->ij", full, B), atol=1e-9)
    f = law.draw(np.random.default_rng(7), 40_000).transpose(0, 2, 1).reshape(40_000, -1)
    cov = K - K @ np.linalg.solve(K + noise * np.eye(n * T), K)
    z = (f.mean(axis=0) - dense.mean) / np.sqrt(np.diag(cov) / len(f))
    assert np.abs(z).max() < 4.5
    spread = (f.var(axis=0) / np.diag(cov) - 1.0) * np.sqrt(len(f) / 2.0)
    assert np.abs(spread).max() < 4.5


def test_derivative_of_the_evidence_in_the_covariance():
    rng = np.random.default_rng(8)
    A = rng.normal(size=(5, 5))
    K, omega, nu = A @ A.T + np.eye(5), rng.gamma(2.0, size=5), rng.normal(size=5)
    gradient = FunctionConditional.of(K, omega, nu).gradient()
    for i, j in np.ndindex(5, 5):
        E = np.zeros((5, 5))
        E[i, j] += STEP / 2
        E[j, i] += STEP / 2
        up, down = (FunctionConditional.of(K + s * E, omega, nu).log_evidence for s in (1, -1))
        assert gradient[i, j] == pytest.approx((up - down) / (2 * STEP), abs=1e-6)


class _Points:
    """Function values at points as a prior of :mod:`zoo.latent.function_mode`."""

    def sums(self, omega, nu):
        return omega, nu

    def condition(self, numbers, sums):
        return FunctionConditional.of(numbers, *sums)

    def mean_functions(self, conditional):
        return conditional.mean


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_logistic_mode_and_evidence_by_another_optimiser(scale):
    """The mode of a concave function is one: L-BFGS in whitened values finds it too, and the Hessian gives log Z."""
    rng = np.random.default_rng(9)
    A = rng.normal(size=(6, 6))
    K = scale * (A @ A.T + 0.1 * np.eye(6))
    y = np.where(rng.random(6) < 0.5, -1.0, 1.0)
    L = np.linalg.cholesky(K)

    def objective(w):
        f = L @ w
        return -log_expit(y * f).sum() + 0.5 * w @ w, -L.T @ (y * expit(-y * f)) + w

    found = minimize(objective, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-10})
    mode = find_mode(_Points(), K, LogisticResponses(y), np.zeros(0))
    f = L @ found.x
    assert np.allclose(mode.conditional.mean, f, atol=1e-6)
    assert mode.log_joint == pytest.approx(-found.fun, abs=1e-9)
    weight = expit(f) * expit(-f)
    hessian = np.eye(6) + L.T @ (weight[:, None] * L)
    assert mode.log_evidence == pytest.approx(-found.fun - 0.5 * np.linalg.slogdet(hessian)[1], abs=1e-6)


@pytest.mark.parametrize("word", ["logistic", "probit", "poisson", "negative_binomial", "student_t"])
def test_mode_and_evidence_of_other_responses_as_in_the_engine_of_varying_coefficients(word):
    """Two engines in other coordinates find the same mode and the same evidence, with weights of rows too."""
    rng = np.random.default_rng(12)
    likelihood = resolve(word)
    A = rng.normal(size=(8, 8))
    K = 0.5 * (A @ A.T) / 8 + 0.1 * np.eye(8)
    f = np.linalg.cholesky(K) @ rng.standard_normal(8)
    y = {
        "labels": np.sign(f),
        "counts": rng.poisson(np.exp(f)).astype(float),
        "real": f + rng.standard_t(3, 8),
    }[likelihood.responses]
    weight = rng.uniform(0.5, 2.0, 8)
    parameters = np.log(np.full(len(likelihood.learned), 1.5))
    own = DifferentiatedResponses(likelihood, y, weight)
    found = find_mode(_Points(), K, own, parameters)
    expected = evidence(Dense(K), own, parameters)
    assert np.allclose(found.conditional.mean, expected.mode.f, atol=1e-5)
    assert found.log_evidence == pytest.approx(expected.value, abs=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_machine_on_task_features_reaches_the_dual_optimum(loss):
    """The objective is the maximum of the dual, eq (18) without an equality constraint, to 1e-6 relative."""
    tasks = _Tasks(seed=10)
    rng = np.random.default_rng(11)
    f = 2.0 * rng.normal(size=len(tasks.task))
    y = np.sign(f) if loss == "hinge" else f
    C, epsilon = 0.4, 0.1
    features = task_features(tasks.X, tasks.task, tasks.loadings)
    assert np.allclose((features @ features.T).toarray(), tasks.K, atol=1e-10)
    found = support_vector_machine(features, y, loss, C, epsilon, None, 1e-9, 1_000_000, 0)
    assert found.converged
    dual = _dual(tasks.K, y, loss, 2.0 * C, epsilon)
    assert found.objective == pytest.approx(dual, rel=1e-6)
    coefficients = task_coefficients(found.weights, tasks.D, tasks.loadings)
    assert np.allclose(
        np.sum(tasks.X * coefficients.T[tasks.task], axis=1), features @ found.weights, atol=1e-10
    )


def _dual(K, y, loss, C, epsilon):
    """Maximum of the dual over its box, by L-BFGS-B."""
    n = len(y)
    if loss == "hinge":
        Q = y[:, None] * K * y

        def objective(c):
            return 0.5 * c @ Q @ c - c.sum(), Q @ c - 1.0

        bounds, start = [(0.0, C)] * n, np.full(n, C / 2)
    else:

        def objective(c):
            beta = c[:n] - c[n:]
            pull = K @ beta
            gradient = np.append(pull - y + epsilon, -pull + y + epsilon)
            return 0.5 * beta @ pull - y @ beta + epsilon * c.sum(), gradient

        bounds, start = [(0.0, C)] * (2 * n), np.zeros(2 * n)
    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-15, "gtol": 1e-10}
    return -minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options).fun


def test_slice_steps_leave_their_law():
    """Mean and variance of a normal coordinate, 20,000 steps: 4.5 errors by batch means, false alarm 2e-5."""
    rng = np.random.default_rng(12)

    def log_density(x):
        return -0.5 * (x[1] - 2.0) ** 2 / 0.25

    x, value, draws = np.zeros(2), log_density(np.zeros(2)), []
    for _ in range(20_000):
        x, value = slice_step(rng, log_density, x, np.array([0.0, 1.0]), value)
        draws.append(x[1])
    assert x[0] == 0.0
    for statistic, expected in ((np.array(draws), 2.0), ((np.array(draws) - 2.0) ** 2, 0.25)):
        batches = statistic.reshape(100, 200).mean(axis=1)
        assert abs(batches.mean() - expected) < 4.5 * batches.std(ddof=1) / 10.0

"""Laplace's evidence, inducing points and fixed features: against dense formulas and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import expit

from zoo.inference.responses import NormalResponses
from zoo.latent import basis_regression
from zoo.latent.basis_regression import BasisRegression, Gram, basis_evidence, gaussian_evidence
from zoo.latent.hilbert_basis import HilbertBasis
from zoo.latent.inducing_points import choose_inducing
from zoo.latent.latent_gaussian import Dense, LowRank, evidence, find_mode
from zoo.likelihoods.derivatives import DifferentiatedResponses
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.logistic import Logistic
from zoo.likelihoods.negative_binomial import NegativeBinomial
from zoo.likelihoods.poisson import Poisson
from zoo.likelihoods.probit import Probit
from zoo.likelihoods.student_t import StudentT

N, M = 14, 5
RNG = np.random.default_rng(11)
PLACES = np.sort(RNG.uniform(-2.0, 2.0, N))[:, None]
INDUCING = np.linspace(-2.0, 2.0, M)[:, None]
FUNCTION = 1.2 * np.sin(2.0 * PLACES[:, 0])


def covariance(a: np.ndarray, b: np.ndarray, lengthscale: float = 0.8) -> np.ndarray:
    return 1.5 * np.exp(-0.5 * cdist(a, b, "sqeuclidean") / lengthscale**2)


K = covariance(PLACES, PLACES)
KUU, KUF = covariance(INDUCING, INDUCING), covariance(INDUCING, PLACES)


class Law:
    """A response by formulas of its own: log density, slope and information of every row."""

    def __init__(self, likelihood: Any, y: np.ndarray, parameters: tuple[float, ...], rows: Any):
        self.y, self.rows = y, rows
        self.z = np.log(np.array(parameters))
        self.engine = NormalResponses(y) if likelihood is None else DifferentiatedResponses(likelihood, y)

    def at(self, f: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.rows(self.y, f, *np.exp(z))


def normal_rows(y, f, s):
    return stats.norm.logpdf(y, f, s), (y - f) / s**2, np.full(len(y), s**-2)


def student_rows(y, f, s, nu):
    r = y - f
    expected = np.full(len(y), (nu + 1) / ((nu + 3) * s**2))
    return stats.t.logpdf(r / s, nu) - np.log(s), (nu + 1) * r / (nu * s**2 + r**2), expected


def probit_rows(y, f):
    ratio = np.exp(stats.norm.logpdf(f) - stats.norm.logcdf(y * f))
    return stats.norm.logcdf(y * f), y * ratio, ratio * (ratio + y * f)


def logistic_rows(y, f):
    return -np.logaddexp(0.0, -y * f), y * expit(-y * f), expit(f) * expit(-f)


def poisson_rows(y, f):
    return stats.poisson.logpmf(y, np.exp(f)), y - np.exp(f), np.exp(f)


def binomial_rows(y, f, d):
    mu = np.exp(f)
    return (
        stats.nbinom.logpmf(y, d, d / (d + mu)),
        y - (y + d) * mu / (d + mu),
        (y + d) * d * mu / (d + mu) ** 2,
    )


NOISY = FUNCTION + 0.4 * RNG.standard_normal(N)
NOISY[3] += 3.0  # an outlier
COUNTS = RNG.poisson(np.exp(FUNCTION)).astype(np.float64)
LAWS = {
    "normal": Law(None, NOISY, (0.4,), normal_rows),
    "normal_by_newton": Law(Gaussian(), NOISY, (0.4,), normal_rows),
    "student_t": Law(StudentT(), NOISY, (0.3, 4.0), student_rows),
    "logistic": Law(Logistic(), np.where(RNG.random(N) < expit(FUNCTION), 1.0, -1.0), (), logistic_rows),
    "probit": Law(Probit(), np.where(RNG.random(N) < expit(FUNCTION), 1.0, -1.0), (), probit_rows),
    "poisson": Law(Poisson(), COUNTS, (), poisson_rows),
    "negative_binomial": Law(NegativeBinomial(), COUNTS, (1.7,), binomial_rows),
}
each_law = pytest.mark.parametrize("name", LAWS)


def laplace(law: Law, cov: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Evidence, mode and posterior covariance by dense formulas; the mode by a general optimiser in whitened values."""
    root = np.linalg.cholesky(cov + 1e-13 * np.eye(len(cov)))

    def objective(v):
        value, slope, _ = law.at(root @ v, z)
        return 0.5 * v @ v - value.sum(), v - root.T @ slope

    found = minimize(objective, np.zeros(len(cov)), jac=True, method="BFGS", options={"gtol": 1e-10})
    v = found.x
    value, _, W = law.at(root @ v, z)
    determinant = np.linalg.slogdet(np.eye(len(cov)) + cov * W)[1]
    posterior = cov - cov @ np.linalg.solve(cov + np.diag(1.0 / W), cov)
    return value.sum() - 0.5 * v @ v - 0.5 * determinant, root @ v, posterior


def difference(function: Any, step: float = 1e-5) -> float:
    return (function(step) - function(-step)) / (2.0 * step)


# ---------------------------------------------------------------- the density


@each_law
def test_density_and_its_derivatives(name):
    law, f = LAWS[name], FUNCTION
    value, slope, information = law.at(f, law.z)
    found = law.engine.density(f, law.z)
    assert found.value == pytest.approx(value.sum(), rel=1e-12)
    curvature = -difference(lambda h: law.at(f + h, law.z)[1])
    assert (curvature.min() < 0.0) == (name == "student_t")
    np.testing.assert_allclose(found.curvature, np.maximum(curvature, 0.0), atol=1e-7)
    np.testing.assert_allclose(found.slope, slope, rtol=1e-10)
    np.testing.assert_allclose(found.information, information, rtol=1e-10)
    moved = difference(lambda h: law.at(f + h, law.z)[2])
    np.testing.assert_allclose(found.information_slope, moved, atol=1e-8)
    for i, parts in enumerate(law.engine.parameter_slopes(f, law.z)):
        step = np.eye(len(law.z))[i]
        for position, part in enumerate(parts):
            moved = difference(lambda h, s=step, p=position: law.at(f, law.z + h * s)[p])
            np.testing.assert_allclose(part, moved.sum() if position == 0 else moved, rtol=1e-6, atol=1e-7)
    assert law.engine.constant_information == (np.ptp(information) == 0.0)


# ---------------------------------------------------------------- dense


@each_law
def test_dense_evidence_mode_and_moments(name):
    law = LAWS[name]
    expected, mode, posterior = laplace(law, K, law.z)
    found = evidence(Dense(K), law.engine, law.z)
    assert found.mode.converged
    assert found.value == pytest.approx(expected, abs=1e-7)
    np.testing.assert_allclose(found.mode.f, mode, atol=1e-6)
    # At the mode K^-1 f is the slope of the log density.
    np.testing.assert_allclose(K @ law.at(found.mode.f, law.z)[1], found.mode.f, atol=1e-7)
    np.testing.assert_allclose(found.mode.solver.variance(), np.diag(posterior), atol=1e-6)
    new = covariance(np.array([[0.3], [5.0]]), PLACES)
    W = law.at(mode, law.z)[2]
    reduction = np.diag(new @ np.linalg.solve(K + np.diag(1.0 / W), new.T))
    np.testing.assert_allclose(found.mode.solver.reduction(new), reduction, atol=1e-6)
    np.testing.assert_allclose(found.mode.solver.R_diagonal(), np.diag(found.mode.solver.R_matrix))


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_mode_knows_no_units(unit):
    """A bound on slopes, which are one over the unit of y, would end the steps at once in large units."""
    y = LAWS["student_t"].engine.y
    laws = [StudentT(noise=0.3 * scale, degrees=4.0) for scale in (1.0, unit)]
    one = find_mode(Dense(K), DifferentiatedResponses(laws[0], y), np.zeros(0))
    many = find_mode(Dense(K * unit**2), DifferentiatedResponses(laws[1], y * unit), np.zeros(0))
    assert one.converged and many.converged
    np.testing.assert_allclose(many.f / unit, one.f, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("engine", ["functions", "inducing points", "weights"])
@pytest.mark.parametrize("degrees", [1.0, 4.0])
@pytest.mark.parametrize("noise", [1.0, 0.02])
def test_a_mode_with_responses_far_out(engine, degrees, noise):
    """An outlier of 30 to 1,500 times the noise: a general optimiser climbs no further, and the slope is 0.

    Steps of the expected information would move its row by (degrees + 3) noise^2 / 30 each.
    """
    y = NOISY.copy()
    y[5] += 30.0
    rough = 1.5 * np.exp(-cdist(PLACES, PLACES) / 0.8)
    root = np.linalg.cholesky(rough)
    responses = DifferentiatedResponses(StudentT(noise=noise, degrees=degrees), y)
    if engine == "weights":
        found = basis_evidence(
            BasisRegression(lambda rows: root[rows], N, N, responses), np.zeros(N), np.zeros(0)
        )
        f = root @ found.mode.w
    else:
        K = Dense(rough) if engine == "functions" else LowRank(rough, rough, np.diag(rough), residual=True)
        found = evidence(K, responses, np.zeros(0))
        f = found.mode.f

    def objective(v):
        values, slope, _ = student_rows(y, root @ v, noise, degrees)
        return 0.5 * v @ v - values.sum(), v - root.T @ slope

    v = np.linalg.solve(root, f)
    value, slope = objective(v)
    assert found.mode.converged
    assert np.max(np.abs(slope)) < 1e-6 / noise  # of terms of the size of 1 / noise
    climbed = minimize(objective, v, jac=True, method="BFGS", options={"gtol": 1e-8})
    assert climbed.fun == pytest.approx(value, abs=1e-7)
    W = (degrees + 1.0) / ((degrees + 3.0) * noise**2)
    expected = -value - 0.5 * np.linalg.slogdet(np.eye(N) + W * rough)[1]
    assert found.value == pytest.approx(expected, abs=1e-6)


def test_sums_over_rows_are_made_once_for_responses_far_out(monkeypatch):
    """Newton's steps sum over the rows for each factor, far longer than the slopes that L-BFGS takes to the mode."""
    rng = np.random.default_rng(11)
    features = rng.standard_normal((400, 12))
    y = features @ rng.standard_normal(12) + 0.1 * rng.standard_t(2.0, 400)
    y[::50] += 20.0
    responses = DifferentiatedResponses(StudentT(noise=0.1, degrees=2.0), y)
    sums, made = BasisRegression._sums, []
    monkeypatch.setattr(BasisRegression, "_sums", lambda rows, root: made.append(1) or sums(rows, root))
    regression = BasisRegression(lambda rows: features[rows], 400, 12, responses)
    found = basis_evidence(regression, np.zeros(12), np.zeros(0))
    _, slope, _ = student_rows(y, features @ found.mode.w, 0.1, 2.0)
    assert found.mode.converged
    assert len(made) == 1
    scale = np.sqrt(400) / 0.1  # of the slope: 400 terms of the size of one over the noise
    np.testing.assert_allclose(features.T @ slope, found.mode.w, rtol=0.0, atol=1e-6 * scale)


def test_dense_evidence_is_the_normal_density():
    law = LAWS["normal"]
    expected = stats.multivariate_normal(cov=K + 0.16 * np.eye(N)).logpdf(law.y)
    assert evidence(Dense(K), law.engine, law.z).value == pytest.approx(expected, abs=1e-10)


@each_law
def test_dense_slopes(name):
    law = LAWS[name]
    found = evidence(Dense(K), law.engine, law.z)
    rng = np.random.default_rng(5)
    for _ in range(3):
        root = rng.standard_normal((N, N)) / N
        E = root @ root.T
        moved = difference(lambda h, E=E: evidence(Dense(K + h * E), law.engine, law.z).value, 1e-4)
        assert np.sum(found.slopes["K"] * E) == pytest.approx(moved, rel=1e-5, abs=1e-6)
    for i in range(len(law.z)):
        step = np.eye(len(law.z))[i]
        moved = difference(lambda h, s=step: evidence(Dense(K), law.engine, law.z + h * s).value, 1e-4)
        assert found.parameter_slopes[i] == pytest.approx(moved, rel=1e-5, abs=1e-6)


@each_law
def test_a_bad_start_is_not_taken(name):
    """From values at which counts overflow the answer is that of a start at 0."""
    law = LAWS[name]
    cold = find_mode(Dense(K), law.engine, law.z)
    for start in (np.full(N, 1e4), np.full(N, -1e4), cold.a):
        warm = find_mode(Dense(K), law.engine, law.z, start)
        assert warm.converged
        np.testing.assert_allclose(warm.f, cold.f, atol=1e-6)


# ---------------------------------------------------------------- inducing points


def low_rank(residual: bool) -> LowRank:
    return LowRank(KUU, KUF, np.diag(K), residual)


Q = KUF.T @ np.linalg.solve(KUU, KUF)


@each_law
def test_fitc_is_laplace_with_its_covariance(name):
    law = LAWS[name]
    cov = Q + np.diag(np.diag(K - Q))
    expected, mode, posterior = laplace(law, cov, law.z)
    found = evidence(low_rank(True), law.engine, law.z)
    assert found.value == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(found.mode.f, mode, atol=1e-5)
    np.testing.assert_allclose(found.mode.solver.variance(), np.diag(posterior), atol=1e-6)
    W = law.at(found.mode.f, law.z)[2]
    R = np.linalg.inv(cov + np.diag(1.0 / W))
    np.testing.assert_allclose(found.mode.solver.R_diagonal(), np.diag(R), atol=1e-7)
    np.testing.assert_allclose(found.mode.solver.R(NOISY), R @ NOISY, atol=1e-6)


def test_vfe_is_the_bound_of_titsias():
    law = LAWS["normal"]
    density = stats.multivariate_normal(cov=Q + 0.16 * np.eye(N)).logpdf(law.y)
    expected = density - 0.5 * np.trace(K - Q) / 0.16
    found = evidence(low_rank(False), law.engine, law.z).value
    assert found == pytest.approx(expected, abs=1e-6)
    for noise in (0.05, 0.4, 2.0):  # and a bound it is
        z = np.log([noise])
        exact = evidence(Dense(K), law.engine, z).value
        assert evidence(low_rank(False), law.engine, z).value < exact


@pytest.mark.parametrize("name, residual", [*((name, True) for name in LAWS), ("normal", False)])
def test_inducing_slopes(name, residual):
    law = LAWS[name]
    rng = np.random.default_rng(6)
    root = rng.standard_normal((M, M)) / M
    moves = {
        "Kuu": root @ root.T * 0.1,
        "Kuf": rng.standard_normal((M, N)) / N,
        "diagonal": rng.standard_normal(N) * 0.1,
    }
    # Well inside: no row's own variance is 0.
    parts = {"Kuu": KUU, "Kuf": KUF, "diagonal": np.diag(K) + 0.1}
    found = evidence(LowRank(**parts, residual=residual), law.engine, law.z)

    def moved(part, h):
        at = {**parts, part: parts[part] + h * moves[part]}
        return evidence(LowRank(**at, residual=residual), law.engine, law.z).value

    for part, move in moves.items():
        expected = difference(lambda h, part=part: moved(part, h))
        assert np.sum(found.slopes[part] * move) == pytest.approx(expected, rel=1e-4, abs=1e-5), part
    for i in range(len(law.z)):
        step = np.eye(len(law.z))[i]
        expected = difference(
            lambda h, s=step: evidence(LowRank(**parts, residual=residual), law.engine, law.z + h * s).value,
            1e-4,
        )
        assert found.parameter_slopes[i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


@each_law
def test_all_points_are_the_exact_model(name):
    """A rougher covariance, of which ten digits of jitter do not show."""
    law = LAWS[name]
    rough = 1.5 * np.exp(-cdist(PLACES, PLACES) / 0.8)
    exact = evidence(Dense(rough), law.engine, law.z)
    for residual in (True, False) if name == "normal" else (True,):
        found = evidence(LowRank(rough, rough, np.diag(rough), residual), law.engine, law.z)
        assert found.value == pytest.approx(exact.value, abs=1e-7)
        np.testing.assert_allclose(found.mode.f, exact.mode.f, atol=1e-7)
        np.testing.assert_allclose(found.mode.solver.variance(), exact.mode.solver.variance(), atol=1e-8)


# ---------------------------------------------------------------- fixed features

P = 8
PHI = np.column_stack([PLACES[:, 0] ** k / 2.0**k for k in range(P)])
LOG_V = np.linspace(0.5, -1.0, P)


def basis_rows(law: Law) -> BasisRegression:
    return BasisRegression(lambda block: PHI[block], N, P, law.engine)


def gram(y: np.ndarray, rows: slice = slice(None)) -> Gram:
    phi, y = PHI[rows], y[rows]
    return Gram(phi.T @ phi, phi.T @ y, float(y @ y), len(y))


@each_law
def test_weights_are_the_dense_model(name):
    law = LAWS[name]
    cov = (PHI * np.exp(LOG_V)) @ PHI.T
    expected, mode, _ = laplace(law, cov, law.z)
    found = basis_evidence(basis_rows(law), LOG_V, law.z)
    assert found.mode.converged
    assert found.value == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(PHI @ found.mode.w, mode, atol=1e-5)
    dense = evidence(Dense(cov), law.engine, law.z)
    np.testing.assert_allclose(found.parameter_slopes, dense.parameter_slopes, atol=1e-5)
    slopes = [np.sum(dense.slopes["K"] * np.outer(c, c)) for c in PHI.T] * np.exp(LOG_V)
    np.testing.assert_allclose(found.variance_slopes, slopes, atol=1e-5)
    # The mode's optimality, and the covariance of the weights, by dense formulas.
    _, slope, W = law.at(PHI @ found.mode.w, law.z)
    np.testing.assert_allclose(np.exp(LOG_V) * (PHI.T @ slope), found.mode.w, atol=1e-5)
    posterior = np.linalg.inv((PHI.T * W) @ PHI + np.diag(np.exp(-LOG_V)))
    half = found.mode.half(np.eye(P))
    np.testing.assert_allclose(half.T @ half, posterior, atol=1e-6)


@each_law
def test_weights_slopes(name):
    law, rows = LAWS[name], basis_rows(LAWS[name])
    found = basis_evidence(rows, LOG_V, law.z)
    for j in (0, 3, 7):
        step = np.eye(P)[j]
        moved = difference(lambda h, s=step: basis_evidence(rows, LOG_V + h * s, law.z).value, 1e-4)
        assert found.variance_slopes[j] == pytest.approx(moved, rel=1e-5, abs=1e-6)
    for i in range(len(law.z)):
        step = np.eye(len(law.z))[i]
        moved = difference(lambda h, s=step: basis_evidence(rows, LOG_V, law.z + h * s).value, 1e-4)
        assert found.parameter_slopes[i] == pytest.approx(moved, rel=1e-5, abs=1e-6)
    far = basis_evidence(rows, LOG_V, law.z, np.full(P, 1e3))
    assert far.value == pytest.approx(found.value, abs=1e-7)


def test_sums_say_all_of_normal_noise():
    law = LAWS["normal"]
    cov = (PHI * np.exp(LOG_V)) @ PHI.T + 0.16 * np.eye(N)
    found = gaussian_evidence(gram(law.y), LOG_V, float(law.z[0]))
    assert found.value == pytest.approx(stats.multivariate_normal(cov=cov).logpdf(law.y), abs=1e-9)
    other = basis_evidence(basis_rows(law), LOG_V, law.z)
    np.testing.assert_allclose(found.variance_slopes, other.variance_slopes, atol=1e-8)
    np.testing.assert_allclose(found.parameter_slopes, other.parameter_slopes, atol=1e-8)
    np.testing.assert_allclose(found.mode.w, other.mode.w, atol=1e-8)
    both = gram(law.y, slice(6)) + gram(law.y, slice(6, None))
    for part, expected in zip(both, gram(law.y), strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-12)


class _Units:
    """A generator of unit vectors in place of normal numbers."""

    def standard_normal(self, shape):
        return np.eye(*shape)


def test_draws_of_weights_have_the_posterior_covariance():
    law = LAWS["poisson"]
    mode = basis_evidence(basis_rows(law), LOG_V, law.z).mode
    steps = mode.draws(_Units(), P) - mode.w
    half = mode.half(np.eye(P))
    np.testing.assert_allclose(steps.T @ steps, half.T @ half, atol=1e-10)


@each_law
def test_blocks_of_rows_change_nothing(name, monkeypatch):
    law = LAWS[name]
    whole = basis_evidence(basis_rows(law), LOG_V, law.z)
    monkeypatch.setattr(basis_regression, "_BLOCK", 3 * P)  # three rows at a time
    for kept in (0, 10**6):
        monkeypatch.setattr(basis_regression, "_KEPT", kept)
        rows = basis_rows(law)
        assert len(list(rows.blocks())) == 5
        found = basis_evidence(rows, LOG_V, law.z)
        assert found.value == pytest.approx(whole.value, abs=1e-9)
        np.testing.assert_allclose(found.variance_slopes, whole.variance_slopes, atol=1e-8)
        np.testing.assert_allclose(found.mode.w, whole.mode.w, atol=1e-8)
        np.testing.assert_allclose(
            rows.variance(found.mode.half), np.sum(whole.mode.half(PHI.T) ** 2, axis=0)
        )


# ---------------------------------------------------------------- sines


def test_sines_are_orthonormal():
    basis = HilbertBasis(np.array([1.0, -2.0]), np.array([2.0, 3.0]), (4, 3))
    node, weight = np.polynomial.legendre.leggauss(40)
    first, second = np.meshgrid(1.0 + 2.0 * node, -2.0 + 3.0 * node, indexing="ij")
    features = basis.features(np.column_stack([first.ravel(), second.ravel()]))
    products = (features.T * np.outer(2.0 * weight, 3.0 * weight).ravel()) @ features
    np.testing.assert_allclose(products, np.eye(12), atol=1e-10)
    # In one order with the frequencies: each is an eigenfunction of the Laplacian, by differences.
    at, h = np.array([[0.3, -1.1]]), 1e-4
    moves = [np.array([h, 0.0]), np.array([0.0, h])]
    laplacian = (
        sum(basis.features(at + m) + basis.features(at - m) - 2.0 * basis.features(at) for m in moves) / h**2
    )
    expected = -np.sum(basis.frequencies**2, axis=1) * basis.features(at)
    np.testing.assert_allclose(laplacian, expected, atol=1e-5)


def test_box_of_the_data():
    t = np.array([[0.0, 5.0], [2.0, 7.0], [1.0, 6.5]])
    basis = HilbertBasis.around(t, (3, 2), 1.5)
    np.testing.assert_allclose(basis.centre, [1.0, 6.0])
    np.testing.assert_allclose(basis.half_width, [1.5, 1.5])
    assert basis.count == 6


# ---------------------------------------------------------------- where inducing points stand


def test_inducing_points():
    rng = np.random.default_rng(3)
    points = np.column_stack([rng.normal(size=(200, 2)), rng.integers(0, 4, 200)])
    assert choose_inducing(points, 200, "kmeans", 0) is points
    drawn = choose_inducing(points, 20, "random", 1)
    assert len(np.unique(drawn, axis=0)) == 20
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in points}
    centres = choose_inducing(points, 20, "kmeans", 1)
    np.testing.assert_array_equal(centres, choose_inducing(points, 20, "kmeans", 1))
    assert not np.array_equal(centres, choose_inducing(points, 20, "kmeans", 2))
    assert set(centres[:, -1]) <= {0.0, 1.0, 2.0, 3.0}
    spread = {
        name: np.mean(np.min(cdist(points, c, "sqeuclidean"), axis=1))
        for name, c in (("random", drawn), ("kmeans", centres))
    }
    assert spread["kmeans"] < 0.8 * spread["random"]

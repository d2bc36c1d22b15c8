"""Expectation propagation and the variational bound against integrals, general optimisers, chains and differences."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import expit, log_expit, logsumexp

from zoo.latent import gaussian_sites
from zoo.latent.expectation_propagation import propagated_evidence
from zoo.latent.latent_gaussian import Dense, evidence
from zoo.latent.logistic_labels import LogisticLabels, Tilted
from zoo.latent.variational_bound import bounded_evidence

METHODS = {"ep": propagated_evidence, "variational": bounded_evidence}
each_method = pytest.mark.parametrize("name", METHODS)

N = 50
RNG = np.random.default_rng(4)
PLACES = np.sort(RNG.uniform(-3.0, 3.0, N))[:, None]
K = 6.0 * np.exp(-cdist(PLACES, PLACES) / 1.5)
Y = np.where(RNG.random(N) < expit(2.5 * np.sin(2.0 * PLACES[:, 0])), 1.0, -1.0)
WEIGHT = RNG.gamma(2.0, 0.6, N)
LABELS = LogisticLabels(Y)


def difference(function: Any, step: float) -> float:
    return (function(step) - function(-step)) / (2.0 * step)


# ---------------------------------------------------------------- one row under a normal law

# Mean, variance and weight: ordinary ones, narrow, wide against the link, far on either side, and heavy.
ONE = [
    (0.3, 1.0, 1.0),
    (-2.0, 1e-6, 1.0),
    (1.0, 0.0, 2.0),
    (5.0, 1e6, 1.0),
    (-800.0, 1e6, 1.0),
    (-30.0, 4.0, 1.0),
    (30.0, 4.0, 0.2),
    (2.0, 9.0, 7.5),
    (-3.0, 100.0, 300.0),
]


def integral(function: Any, mean: float, sd: float, peak: float) -> float:
    """Over the line, with the places where something happens told to the adaptive rule."""
    marks = np.array([-40.0, -15.0, -5.0, 0.0, 5.0, 15.0, 40.0])
    ends = np.unique(np.concatenate([marks, mean + sd * np.arange(-11, 12), peak + sd * np.arange(-11, 12)]))
    # Ends that all but coincide would ask for digits that there are not.
    ends = ends[np.diff(ends, append=np.inf) > 1e-3 * sd]
    return sum(quad(function, a, b, epsabs=1e-16, epsrel=1e-10)[0] for a, b in pairwise(ends))


def density(f: Any, y: float, mean: float, variance: float, weight: float) -> Any:
    return weight * log_expit(y * f) - 0.5 * (f - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)


def moments_by_quadrature(
    y: float, mean: float, variance: float, weight: float
) -> tuple[float, float, float]:
    """Log normaliser, mean and variance of the normal law times the density of the label."""
    grid = np.linspace(mean, mean + y * weight * variance, 200_001)
    peak = grid[np.argmax(density(grid, y, mean, variance, weight))]
    top = density(peak, y, mean, variance, weight)

    def of(power: int, centre: float = 0.0) -> float:
        def at(f: float) -> float:
            return (f - centre) ** power * np.exp(density(f, y, mean, variance, weight) - top)

        return integral(at, mean, np.sqrt(variance), peak)

    total = of(0)
    first = of(1, peak) / total + peak
    return np.log(total) + top, first, of(2, first) / total


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("mean, variance, weight", ONE)
def test_tilted_moments(mean, variance, weight, y):
    labels = LogisticLabels(np.array([y]), np.array([weight]))
    found = labels.tilted(np.array([mean]), np.array([variance]))
    if variance == 0.0:
        p = expit(y * mean)
        log_z, slope, curvature, share = (
            weight * np.log(p), y * weight * (1.0 - p), weight * p * (1.0 - p), 1.0
        )  # fmt: skip
    else:
        log_z, first, second = moments_by_quadrature(y, mean, variance, weight)
        # By Bonnet's identities, which have few digits for the narrow law.
        slope, curvature, share = (
            (first - mean) / variance, (1.0 - second / variance) / variance, second / variance
        )  # fmt: skip
    rough = 1e-3 if 0.0 < variance < 1e-3 else 1e-7
    assert found.log_z[0] == pytest.approx(log_z, rel=1e-9, abs=1e-12)
    assert found.slope[0] == pytest.approx(slope, rel=rough, abs=1e-12)
    assert found.share[0] == pytest.approx(share, rel=1e-8)
    assert found.curvature[0] == pytest.approx(curvature, rel=rough, abs=1e-10 if rough < 1e-3 else 1e-2)
    narrow = LogisticLabels(np.array([y]), np.array([weight])).tilted(np.array([mean]), np.array([0.0]))
    if rough == 1e-3:  # where the quadrature has no digits, the law of no width has them
        assert found.curvature[0] == pytest.approx(narrow.curvature[0], rel=1e-5)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("mean, variance, weight", [case for case in ONE if case[1] > 0.0])
def test_means_under_a_normal_law(mean, variance, weight, y):
    labels = LogisticLabels(np.array([y]), np.array([weight]))
    found = labels.expected(np.array([mean]), np.array([variance]))
    sd = np.sqrt(variance)

    def under(function: Any) -> float:
        return integral(lambda f: stats.norm.pdf(f, mean, sd) * function(f), mean, sd, mean)

    assert found.value[0] == pytest.approx(weight * under(lambda f: log_expit(y * f)), rel=1e-8)
    slope = weight * y * under(lambda f: expit(-y * f))
    assert found.slope[0] == pytest.approx(slope, rel=1e-8, abs=1e-15)
    curvature = weight * under(lambda f: expit(f) * expit(-f))
    assert found.curvature[0] == pytest.approx(curvature, rel=1e-8, abs=1e-15)


def test_labels_are_responses():
    """What Newton's method and Laplace's evidence ask for."""
    labels = LogisticLabels(Y, WEIGHT)
    f = RNG.normal(size=N)
    found = labels.density(f, np.zeros(0))
    assert labels.size == N and labels.parameter_slopes(f, np.zeros(0)) == []
    assert found.value == pytest.approx(np.sum(WEIGHT * log_expit(Y * f)))
    assert evidence(Dense(K), labels, np.zeros(0)).mode.converged


# ---------------------------------------------------------------- small numbers of rows


@pytest.mark.parametrize("variance, weight", [(0.3, 1.0), (4.0, 1.0), (50.0, 0.4), (1e6, 1.0)])
def test_one_row_is_exact_by_expectation_propagation(variance, weight):
    labels = LogisticLabels(np.array([1.0]), np.array([weight]))
    found = propagated_evidence(Dense(np.array([[variance]])), labels)
    log_z, mean, second = moments_by_quadrature(1.0, 0.0, variance, weight)
    assert found.mode.converged
    assert found.value == pytest.approx(log_z, abs=1e-8)
    assert found.mode.f[0] == pytest.approx(mean, rel=1e-7)
    assert found.mode.solver.variance()[0] == pytest.approx(second, rel=1e-7)


PAIR = np.array([[5.0, 3.2], [3.2, 2.6]])


def two_rows(y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, mean and covariance for the covariance PAIR, on a grid of the whitened plane."""
    node = np.linspace(-9.0, 9.0, 1001)
    white = np.stack(np.meshgrid(node, node), axis=-1).reshape(-1, 2)
    f = white @ np.linalg.cholesky(PAIR).T
    log_mass = stats.norm.logpdf(white).sum(axis=1) + log_expit(y * f).sum(axis=1)
    value = logsumexp(log_mass) + 2.0 * np.log(node[1] - node[0])
    mass = np.exp(log_mass - logsumexp(log_mass))
    mean = mass @ f
    return value, mean, (f - mean).T @ (mass[:, None] * (f - mean))


@pytest.mark.parametrize("y", [[1.0, 1.0], [1.0, -1.0]])
def test_two_rows_by_expectation_propagation(y):
    """Nearly exact; Laplace's law is not, with ten times the errors and more."""
    value, mean, covariance = two_rows(np.array(y))
    found = propagated_evidence(Dense(PAIR), LogisticLabels(np.array(y)))
    assert found.value == pytest.approx(value, abs=2e-3)
    np.testing.assert_allclose(found.mode.f, mean, atol=1e-2)
    np.testing.assert_allclose(found.mode.solver.variance(), np.diag(covariance), rtol=1e-2)


NODE, NODE_WEIGHT = np.polynomial.hermite_e.hermegauss(120)


def bound_of(y: np.ndarray, cov: np.ndarray, m: np.ndarray, root: np.ndarray) -> float:
    """The bound at N(m, root root'), by the textbook's divergence and a Gauss-Hermite rule."""
    V = root @ root.T
    f = m[:, None] + np.sqrt(np.diag(V))[:, None] * NODE
    gain = np.sum(log_expit(y[:, None] * f) @ NODE_WEIGHT) / np.sqrt(2.0 * np.pi)
    inverse = np.linalg.inv(cov)
    logs = np.linalg.slogdet(cov)[1] - np.linalg.slogdet(V)[1]
    return gain - 0.5 * (np.trace(inverse @ V) + m @ inverse @ m - len(m) + logs)


@pytest.mark.parametrize("y", [[1.0], [1.0, 1.0], [1.0, -1.0]])
def test_no_normal_law_has_a_larger_bound(y):
    """A general optimiser over means and factors, whose law has no sites, comes to the same law."""
    y = np.array(y)
    n = len(y)
    cov = PAIR[:n, :n]
    below = np.tril_indices(n)

    def parts(v):
        root = np.zeros((n, n))
        root[below] = v[n:]
        return v[:n], root

    start = np.concatenate([np.zeros(n), np.eye(n)[below]])
    climbed = minimize(lambda v: -bound_of(y, cov, *parts(v)), start, method="BFGS", options={"gtol": 1e-7})
    m, root = parts(climbed.x)
    found = bounded_evidence(Dense(cov), LogisticLabels(y))
    assert found.mode.converged
    assert found.value == pytest.approx(-climbed.fun, abs=1e-8)
    np.testing.assert_allclose(found.mode.f, m, atol=1e-4)
    np.testing.assert_allclose(found.mode.solver.variance(), np.sum(root**2, axis=1), rtol=1e-4)
    if n == 2:
        assert found.value < two_rows(y)[0] - 1e-4


def test_the_bound_is_above_that_of_jaakkola_and_jordan():
    """Theirs at its best, by its own fixed point; the difference is what choosing the other one gains."""
    xi = np.ones(N)
    for _ in range(500):
        lam = np.tanh(0.5 * xi) / (4.0 * xi)
        V = np.linalg.inv(np.linalg.inv(K) + 2.0 * np.diag(lam))
        m = V @ (0.5 * Y)
        xi = np.sqrt(m**2 + np.diag(V))
    own = np.sum(log_expit(xi) - 0.5 * xi + lam * xi**2)
    theirs = own + 0.5 * m @ (0.5 * Y) - 0.5 * np.linalg.slogdet(np.eye(N) + 2.0 * K * lam)[1]
    assert bounded_evidence(Dense(K), LABELS).value > theirs + 0.1


class ProbitLabels(LogisticLabels):
    """Moments of the probit link in closed form (Rasmussen & Williams 2006, eq 3.58)."""

    def tilted(self, mean, variance):
        z = self.y * mean / np.sqrt(1.0 + variance)
        ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
        curvature = ratio * (z + ratio) / (1.0 + variance)
        slope = self.y * ratio / np.sqrt(1.0 + variance)
        return Tilted(stats.norm.logcdf(z), slope, curvature, 1.0 - curvature * variance)


def algorithm_3_5(cov: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """One site after the other, and eq 3.65, as printed: log evidence, mean and covariance with the probit link."""
    n = len(y)
    nu, tau, Sigma, mu = np.zeros(n), np.zeros(n), cov.copy(), np.zeros(n)
    for _ in range(60):
        for i in range(n):
            tau_cavity = 1.0 / Sigma[i, i] - tau[i]
            nu_cavity = mu[i] / Sigma[i, i] - nu[i]
            m, v = nu_cavity / tau_cavity, 1.0 / tau_cavity
            z = y[i] * m / np.sqrt(1.0 + v)
            ratio = stats.norm.pdf(z) / stats.norm.cdf(z)
            mean = m + y[i] * v * ratio / np.sqrt(1.0 + v)
            variance = v - v**2 * ratio / (1.0 + v) * (z + ratio)
            change = 1.0 / variance - tau_cavity - tau[i]
            tau[i] += change
            nu[i] = mean / variance - nu_cavity
            s = Sigma[:, i]
            Sigma = Sigma - change * np.outer(s, s) / (1.0 + change * Sigma[i, i])
            mu = Sigma @ nu
        Sigma = np.linalg.inv(np.linalg.inv(cov) + np.diag(tau))
        mu = Sigma @ nu
    tau_cavity = 1.0 / np.diag(Sigma) - tau
    m = (mu / np.diag(Sigma) - nu) / tau_cavity
    sites = nu / tau
    normal = stats.multivariate_normal(cov=cov + np.diag(1.0 / tau)).logpdf(sites)
    value = (
        normal
        + np.sum(stats.norm.logcdf(y * m / np.sqrt(1.0 + 1.0 / tau_cavity)))
        + 0.5 * np.sum(np.log(2.0 * np.pi) + np.log(1.0 / tau_cavity + 1.0 / tau))
        + 0.5 * np.sum((m - sites) ** 2 / (1.0 / tau_cavity + 1.0 / tau))
    )
    return value, mu, Sigma


def test_the_fixed_point_is_that_of_sites_one_after_the_other():
    value, mean, Sigma = algorithm_3_5(K, Y)
    found = propagated_evidence(Dense(K), ProbitLabels(Y))
    assert found.mode.converged
    assert found.value == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(found.mode.f, mean, atol=1e-8)
    np.testing.assert_allclose(found.mode.solver.variance(), np.diag(Sigma), rtol=1e-8)


# ---------------------------------------------------------------- fifty rows


@pytest.fixture(scope="module")
def chains() -> np.ndarray:
    """Draws (draws, 200, n) of 200 elliptical slice samplers (Murray, Adams & MacKay 2010), from the prior on."""
    rng, root = np.random.default_rng(8), np.linalg.cholesky(K)
    f = rng.standard_normal((200, N)) @ root.T
    kept = []
    for step in range(1500):
        turn = rng.standard_normal(f.shape) @ root.T
        height = log_expit(Y * f).sum(axis=1) + np.log(rng.random(len(f)))
        angle = rng.uniform(0.0, 2.0 * np.pi, len(f))
        low, high = angle - 2.0 * np.pi, angle.copy()
        new, open_ = f.copy(), np.ones(len(f), dtype=bool)
        while open_.any():
            tried = f[open_] * np.cos(angle[open_])[:, None] + turn[open_] * np.sin(angle[open_])[:, None]
            good = log_expit(Y * tried).sum(axis=1) > height[open_]
            at = np.flatnonzero(open_)
            new[at[good]] = tried[good]
            bad = at[~good]
            low[bad], high[bad] = (
                np.where(angle[bad] < 0.0, angle[bad], low[bad]), np.where(angle[bad] < 0.0, high[bad], angle[bad])
            )  # fmt: skip
            angle[bad] = rng.uniform(low[bad], high[bad])
            open_[at[good]] = False
        f = new
        if step >= 300 and step % 5 == 0:
            kept.append(f)
    return np.array(kept)


def of_chains(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over draws and chains, and its standard error by the chains, which are independent."""
    by_chain = values.mean(axis=0)
    return by_chain.mean(axis=0), by_chain.std(axis=0) / np.sqrt(len(by_chain))


def test_moments_against_long_chains(chains):
    mean, error = of_chains(chains)
    sd = chains.std(axis=(0, 1))
    assert np.max(error / sd) < 0.02
    p, p_error = of_chains(expit(chains))
    found = {name: method(Dense(K), LABELS).mode for name, method in METHODS.items()}
    found["laplace"] = evidence(Dense(K), LABELS, np.zeros(0)).mode
    off, off_p = {}, {}
    for name, mode in found.items():
        v = mode.solver.variance()
        off[name] = np.max(np.abs(mode.f - mean) / sd)
        said = expit(mode.f[:, None] + np.sqrt(v)[:, None] * NODE) @ NODE_WEIGHT / np.sqrt(2.0 * np.pi)
        off_p[name] = np.max(np.abs(said - p))
    assert off["ep"] < 4.0 * np.max(error / sd) + 0.02
    assert off_p["ep"] < 4.0 * np.max(p_error) + 0.003
    np.testing.assert_allclose(np.sqrt(found["ep"].solver.variance()), sd, rtol=0.03)
    assert off["ep"] < 0.3 * off["laplace"] and off["variational"] < 0.6 * off["laplace"]


def test_evidence_against_importance_sampling():
    """From a Student-t law about Laplace's, which has no part in the others."""
    mode = evidence(Dense(K), LABELS, np.zeros(0)).mode
    V = K - K @ mode.solver.R_matrix @ K
    proposal = stats.multivariate_t(mode.f, 1.15 * V, df=60, seed=3)
    prior = stats.multivariate_normal(cov=K)
    f = proposal.rvs(400_000)
    log_w = prior.logpdf(f) + log_expit(Y * f).sum(axis=1) - proposal.logpdf(f)
    value = logsumexp(log_w) - np.log(len(log_w))
    error = np.std(np.exp(log_w - value)) / np.sqrt(len(log_w))
    assert error < 0.01
    ep, bound = (method(Dense(K), LABELS).value for method in (propagated_evidence, bounded_evidence))
    assert abs(ep - value) < 4.0 * error + 0.02
    assert bound < value - 4.0 * error


@each_method
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weights"])
def test_slopes(name, weight):
    method, labels = METHODS[name], LogisticLabels(Y, weight)
    slopes = method(Dense(K), labels).slopes["K"]
    rng = np.random.default_rng(5)
    for _ in range(3):
        root = rng.standard_normal((N, N)) / N
        E = root @ root.T
        moved = difference(lambda h, E=E: method(Dense(K + h * E), labels).value, 1e-2)
        assert np.sum(slopes * E) == pytest.approx(moved, rel=1e-5, abs=1e-8)


@each_method
def test_the_mode_is_the_law_of_the_sites(name):
    """What predictions are made of: f, ``a``, and the solver's reductions, by dense formulas."""
    found = METHODS[name](Dense(K), LABELS)
    mode, tau = found.mode, found.mode.solver.root**2
    R = np.linalg.inv(K + np.diag(1.0 / tau))
    np.testing.assert_allclose(mode.f, K @ mode.a, atol=1e-8)
    np.testing.assert_allclose(mode.solver.variance(), np.diag(K - K @ R @ K), rtol=1e-7)
    new = np.exp(-cdist(np.array([[0.3], [5.0]]), PLACES))
    np.testing.assert_allclose(mode.solver.reduction(new), np.diag(new @ R @ new.T), rtol=1e-7)
    np.testing.assert_allclose(found.slopes["K"], 0.5 * np.outer(mode.a, mode.a) - 0.5 * R, atol=1e-7)
    np.testing.assert_allclose(mode.density.slope, Y * expit(-Y * mode.f))


@each_method
def test_a_weight_of_two_is_a_row_twice(name):
    """Terms of the bound add up over rows; by expectation propagation the row has a site for each copy."""
    method = METHODS[name]
    twice = np.concatenate([np.arange(N), np.arange(10)])
    weight = np.where(np.arange(N) < 10, 2.0, 1.0)
    rows = method(Dense(K[np.ix_(twice, twice)]), LogisticLabels(Y[twice]))
    weights = method(Dense(K), LogisticLabels(Y, weight))
    assert weights.value == pytest.approx(rows.value, abs=1e-8)
    np.testing.assert_allclose(weights.mode.f, rows.mode.f[:N], atol=1e-6)
    plain = method(Dense(K), LABELS)
    assert abs(weights.value - plain.value) > 1.0


@each_method
def test_a_start_changes_nothing(name):
    """From what was found at another covariance, and from a law that is wrong by far."""
    method = METHODS[name]
    cold = method(Dense(K), LABELS)
    for other in (1.3 * K, 1e4 * K, 1e-6 * K):
        warm = method(Dense(K), LABELS, method(Dense(other), LABELS).mode)
        assert warm.mode.converged
        assert warm.value == pytest.approx(cold.value, abs=1e-8)
        np.testing.assert_allclose(warm.mode.f, cold.mode.f, atol=1e-6)


# ---------------------------------------------------------------- hostile

SMOOTH = np.exp(-0.5 * cdist(PLACES, PLACES, "sqeuclidean"))
HOSTILE = {
    "rough": (np.exp(-cdist(PLACES, PLACES)), Y, None),
    "nearly singular": (SMOOTH, Y, None),
    "all equal": (SMOOTH, np.ones(N), None),
    "separable": (PLACES @ PLACES.T, np.where(PLACES[:, 0] > 0.1, 1.0, -1.0), None),
    "one function value": (np.ones((N, N)), Y, None),
    "independent": (np.eye(N), Y, None),
    "weights": (SMOOTH, Y, WEIGHT**4 + 1e-3),
}


@each_method
@pytest.mark.parametrize("amplitude", [1e-8, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_rows(name, case, amplitude, caplog):
    """The method comes to rest, its law is the one of its sites, and its value is that of its formula."""
    cov, y, weight = HOSTILE[case]
    cov = amplitude**2 * cov
    with caplog.at_level(logging.WARNING, "zoo"):
        found = METHODS[name](Dense(cov), LogisticLabels(y, weight))
    assert found.mode.converged and not caplog.records
    assert np.isfinite(found.value) and found.value < 0.0
    assert np.all(np.isfinite(found.slopes["K"]))
    v = found.mode.solver.variance()
    assert np.all(v >= 0.0) and np.all(v <= np.diag(cov) * (1.0 + 1e-9))
    h = np.ones(N) if weight is None else weight
    if name == "variational":  # a bound; and at rest a is the mean of the slope
        mean = LogisticLabels(y, weight).expected(found.mode.f, np.maximum(v, 0.0)).slope
        np.testing.assert_allclose(np.sqrt(v) * found.mode.a, np.sqrt(v) * mean, atol=1e-4)
    if case == "one function value":
        right = np.sum(h * (y > 0.0))

        def mass(z: float) -> float:
            f = amplitude * z
            return np.exp(stats.norm.logpdf(z) + right * log_expit(f) + (N - right) * log_expit(-f) + 30.0)

        ends = np.unique(np.concatenate([np.linspace(-9.0, 9.0, 19), np.linspace(-5.0, 5.0, 11) / amplitude]))
        ends = ends[np.abs(ends) < 10.0]
        total = sum(quad(mass, a, b, epsabs=0.0)[0] for a, b in pairwise(ends))
        exact = np.log(total) - 30.0
        assert found.value == pytest.approx(exact, abs=0.01)
        assert name == "ep" or found.value < exact + 1e-7
    if case == "independent":  # a label is as likely as the other one, whatever the variance
        exact = N * np.log(0.5)
        assert found.value <= exact + 1e-6
        assert name == "variational" or found.value == pytest.approx(exact, abs=1e-6)


@each_method
def test_rows_that_do_not_vary(name):
    found = METHODS[name](Dense(np.zeros((N, N))), LABELS)
    assert found.value == pytest.approx(N * np.log(0.5))
    np.testing.assert_array_equal(found.mode.f, np.zeros(N))
    mixed = np.zeros((N, N))
    mixed[:20, :20] = K[:20, :20]
    part = METHODS[name](Dense(K[:20, :20]), LogisticLabels(Y[:20]))
    found = METHODS[name](Dense(mixed), LABELS)
    assert found.value == pytest.approx(part.value + (N - 20) * np.log(0.5), abs=1e-8)


@pytest.mark.parametrize(
    "name, words", [("ep", "Expectation propagation"), ("variational", "The variational bound")]
)
def test_no_rest_is_said(name, words, monkeypatch, caplog):
    monkeypatch.setattr(gaussian_sites, "_MOST_STEPS", 1)
    with caplog.at_level(logging.WARNING, "zoo"):
        found = METHODS[name](Dense(30.0 * K), LABELS)
    assert not found.mode.converged
    (record,) = caplog.records
    assert f"{words} did not converge: after 2 steps" in record.getMessage()
    assert 'method "laplace"' in record.getMessage()

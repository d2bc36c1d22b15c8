"""Vecchia's approximation of latent functions: mode, evidence, gradient and posterior against dense algebra."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tests.daily import daily
from tests.latent.test_vecchia import (
    CASES,
    FEATURES,
    LOGS,
    THETA,
    N,
    differences,
    each_case,
    points,
)
from zoo.latent.krylov import conjugate_gradients, log_quadrature
from zoo.latent.latent_gaussian import Dense
from zoo.latent.latent_gaussian import evidence as dense_evidence
from zoo.latent.vecchia import Rows
from zoo.latent.vecchia_coordinates import GroupedResponses, preconditioner_of
from zoo.latent.vecchia_factor import factor_of
from zoo.latent.vecchia_latent import latent_evidence, latent_mode, posterior_root
from zoo.latent.vecchia_neighbours import nearest_before
from zoo.likelihoods import (
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
    ZeroInflatedPoisson,
)
from zoo.likelihoods.derivatives import DifferentiatedResponses

NUGGET = 1e-8
AT = np.append(THETA[:7], 0.5 * np.log(NUGGET))
NONE, NO_LOGS = np.empty((N, 0)), np.zeros(0)


def labels(f, rng):
    return np.where(rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)


LIKELIHOODS = {
    "logistic": (Logistic(), labels, []),
    "probit": (Probit(), labels, []),
    "poisson": (Poisson(), lambda f, rng: rng.poisson(np.exp(f)), []),
    "negative binomial": (NegativeBinomial(), lambda f, rng: rng.poisson(np.exp(f)), [0.4]),
    "student": (StudentT(), lambda f, rng: f + 0.3 * rng.standard_t(3.0, len(f)), [-0.6, 1.1]),
    # Its information is an expectation that moves with f.
    "zero inflated": (ZeroInflatedPoisson(), lambda f, rng: rng.poisson(np.exp(f)) * (rng.random(N) < 0.8), [-1.0]),
}  # fmt: skip
each_likelihood = pytest.mark.parametrize("kind", LIKELIHOODS)


class Case(NamedTuple):
    """Latents in an order, and what they say of the responses."""

    rows: Rows
    responses: DifferentiatedResponses
    parameters: np.ndarray


@cache
def responses_of(kind, n, seed) -> DifferentiatedResponses:
    """The same for all cases: a graph of a likelihood takes seconds."""
    likelihood, draw, _ = LIKELIHOODS[kind]
    y = draw(1.5 * np.sin(2.0 * points(n, seed)[1][:, 0]), np.random.default_rng(3))
    return DifferentiatedResponses(likelihood, np.asarray(y, dtype=np.float64))


@cache
def case_of(kind="logistic", case="linear", n=N, seed=1) -> Case:
    x, t = points(n, seed)
    rows = Rows(CASES[case][0], x, t, np.zeros(n))
    return Case(rows, responses_of(kind, n, seed), np.array(LIKELIHOODS[kind][2]))


def found(c, theta, parameters, near, features=NONE, logs=NO_LOGS, probes=None, C=None, **options):
    options.setdefault("threads", 1)
    mode = latent_mode(
        c.rows, c.responses, theta, parameters, near, features, logs, C, None, options["threads"]
    )
    return mode, latent_evidence(c.rows, c.responses, theta, parameters, mode, probes, **options)


def preconditioner(c, near, features=NONE, logs=NO_LOGS, drift=0.1):
    """At other hyper-parameters, with another information, than those at which it serves."""
    W = np.linspace(0.5, 1.5, len(c.rows))
    theta = AT + drift * (np.arange(len(AT)) < 7)
    return preconditioner_of(c.rows, theta, near, features, logs, W)


def signs(n, count, seed=0):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (n, count))


def covariance(c, case="linear", theta=AT):
    points = (c.rows.x, c.rows.t)
    return CASES[case][1](theta, points, points) + NUGGET * np.eye(len(c.rows))


# ---------------------------------------------------------------- evidence


@each_case
@pytest.mark.parametrize("kind", daily(LIKELIHOODS, ["logistic", "student", "zero inflated"]))
def test_all_latents_before_give_laplace_of_the_exact_prior(case, kind):
    c = case_of(kind, case)
    mode, ours = found(c, AT, c.parameters, nearest_before(c.rows.t, N - 1))

    def exact(theta):
        return dense_evidence(Dense(covariance(c, case, theta)), c.responses, c.parameters)

    theirs = exact(AT)
    assert ours.value == pytest.approx(theirs.value, abs=1e-8)
    assert_allclose(mode.f, theirs.mode.f, atol=1e-8)
    if kind != "zero inflated":  # where dense algebra moves the mode by the expected information
        assert_allclose(ours.parameter_slopes, theirs.parameter_slopes, atol=1e-8)
    expected = differences(lambda theta: exact(theta).value, AT)[:7]
    assert_allclose(ours.slopes[:7], expected, atol=3e-7 * max(1.0, np.abs(expected).max()))


def test_shared_features_are_exact_with_all_latents_before():
    c = case_of("poisson")
    K = covariance(c) + FEATURES @ np.diag(np.exp(LOGS)) @ FEATURES.T
    theirs = dense_evidence(Dense(K), c.responses, c.parameters)
    mode, ours = found(c, AT, c.parameters, nearest_before(c.rows.t, N - 1), FEATURES, LOGS)
    assert ours.value == pytest.approx(theirs.value, abs=1e-8)
    assert_allclose(mode.f, theirs.mode.f, atol=1e-8)
    assert_allclose(mode.near + FEATURES @ mode.weights, mode.f, atol=1e-12)


def test_few_neighbours_by_the_precision_matrix():
    """The evidence by Q and W as the papers write it, with Q made of conditional laws by hand."""
    c = case_of("logistic")
    near, K = nearest_before(c.rows.t, 5), covariance(c)
    B, D = np.eye(N), np.empty(N)
    for i, row in enumerate(near):
        p = row[row >= 0]
        B[i, p] = -np.linalg.solve(K[np.ix_(p, p)], K[p, i])
        D[i] = K[i, i] + B[i, p] @ K[p, i]
    mode, ours = found(c, AT, c.parameters, near)
    Q, f = B.T @ np.diag(1.0 / D) @ B, mode.f
    density = c.responses.density(f, c.parameters)
    assert_allclose(density.slope, Q @ f, atol=1e-6)
    log_det = np.linalg.slogdet(Q + np.diag(density.information))[1] + np.sum(np.log(D))
    assert ours.value == pytest.approx(density.value - 0.5 * f @ Q @ f - 0.5 * log_det, abs=1e-7)


@each_likelihood
@pytest.mark.parametrize("how", ["dense", "probes"])
def test_gradient_is_that_of_differences(kind, how):
    """Of the value itself, also where it is an estimate by probes: both belong together."""
    c = case_of(kind)
    near = nearest_before(c.rows.t, 6)
    logs = np.array([0.3, -1.0, -3.0, 1.2])
    probes, C = (None, None) if how == "dense" else (signs(N, 5), preconditioner(c, near, FEATURES, logs))

    def value(v):
        theta = np.append(v[:7], AT[7])
        return found(c, theta, v[11:], near, FEATURES, v[7:11], probes, C, gradient=False)[1].value

    _, ours = found(c, AT, c.parameters, near, FEATURES, logs, probes, C)
    slopes = np.concatenate([ours.slopes[:7], ours.variance_slopes, ours.parameter_slopes])
    expected = differences(value, np.concatenate([AT[:7], logs, c.parameters]))
    assert_allclose(slopes, expected, atol=2e-6)


def test_quadrature_estimates_the_determinant():
    """400 probes in 20 lots: the mean is within 4 standard errors of the exact value, which is below 0.5 nats."""
    c = case_of("logistic", n=300)
    near, none = nearest_before(c.rows.t, 10), np.empty((300, 0))
    _, exact = found(c, AT, c.parameters, near, none)
    C = preconditioner(c, near, none, drift=0.0)
    lots = [
        found(c, AT, c.parameters, near, none, probes=signs(300, 20, s), C=C, gradient=False)[1].value
        for s in range(20)
    ]
    error = np.std(lots, ddof=1) / np.sqrt(20)
    assert error < 0.5
    assert abs(np.mean(lots) - exact.value) < 4.0 * error


def test_latents_of_several_rows():
    """Rows that are alike share a latent: the exact law, whose covariance is singular there, says the same."""
    rng = np.random.default_rng(2)
    latent = np.concatenate([np.arange(N), rng.integers(0, N, 30), np.full(40, 3)])
    one = case_of("poisson")
    y = rng.poisson(1.5, len(latent)).astype(float)
    weight = rng.uniform(0.5, 2.0, len(latent))
    responses = DifferentiatedResponses(Poisson(), y, weight)
    c = Case(one.rows, GroupedResponses(responses, latent, N), one.parameters)
    K = covariance(one)[np.ix_(latent, latent)]
    theirs = dense_evidence(Dense(K), responses, one.parameters)
    for probes, C in (
        (None, None),
        (np.sqrt(N) * np.eye(N), preconditioner(c, nearest_before(c.rows.t, N - 1))),
    ):
        mode, ours = found(c, AT, c.parameters, nearest_before(c.rows.t, N - 1), probes=probes, C=C)
        assert ours.value == pytest.approx(theirs.value, abs=1e-6)
        assert_allclose(mode.f[latent], theirs.mode.f, atol=1e-6)


# ---------------------------------------------------------------- posterior


def test_posterior_root():
    c = case_of("poisson")
    near = nearest_before(c.rows.t, N - 1)
    mode, _ = found(c, AT, c.parameters, near, FEATURES, LOGS)
    S, W = np.diag(np.exp(LOGS)), np.diag(mode.density.information)
    both = np.hstack([np.eye(N), FEATURES])
    prior = np.block([[covariance(c), np.zeros((N, 4))], [np.zeros((4, N)), S]])
    solved = np.linalg.solve(np.eye(N) + both @ prior @ both.T @ W, both @ prior)
    expected = prior - prior @ both.T @ W @ solved
    root = np.vstack(posterior_root(mode, None)[:2])
    assert_allclose(root @ root.T, expected, atol=1e-7)
    # 4,000 draws: variances within 4.5 standard errors, which 44 of them pass by chance once in 3,000 times.
    C = preconditioner(c, near, FEATURES, LOGS)
    again, _ = found(c, AT, c.parameters, near, FEATURES, LOGS, signs(N, 2), C, gradient=False)
    assert_allclose(again.coordinates, mode.coordinates, atol=1e-6)
    *parts, reached = posterior_root(again, 4000, (5,))
    assert reached
    ratio = np.sum(np.vstack(parts) ** 2, axis=1) / np.diag(expected)
    assert np.all(np.abs(ratio - 1.0) < 4.5 * np.sqrt(2.0 / 4000))


def test_threads_change_no_bit():
    c = case_of("logistic", n=700)
    near, none = nearest_before(c.rows.t, 10), np.empty((700, 0))
    probes, C = signs(700, 20), preconditioner(c, near, none)
    one, two = (
        found(c, AT, c.parameters, near, none, probes=probes, C=C, threads=threads) for threads in (1, 2)
    )
    assert one[1].value == two[1].value
    assert np.array_equal(one[1].slopes, two[1].slopes)
    roots = [posterior_root(mode, 20, (1,), threads)[0] for (mode, _), threads in ((one, 1), (two, 2))]
    assert np.array_equal(*roots)


# ---------------------------------------------------------------- its parts


def test_products_of_the_factor():
    c = case_of()
    near = nearest_before(c.rows.t, N - 1)
    factor = factor_of(c.rows, AT, near, threads=2)
    L = factor.times(np.eye(N))
    assert_allclose(L @ L.T, covariance(c), atol=1e-12)
    v = np.random.default_rng(0).standard_normal((N, 3))
    assert_allclose(factor.sd[:, None] * factor.transposed(v), L.T @ v, atol=1e-10)
    assert_allclose(factor.solve(L @ v), v, atol=1e-7)
    assert_allclose(factor.solve_transposed(L.T @ v), v, atol=1e-7)


def test_the_preconditioner_is_the_inverse_root_with_all_latents_before():
    c = case_of("poisson")
    near = nearest_before(c.rows.t, N - 1)
    mode, _ = found(c, AT, c.parameters, near, FEATURES, LOGS)
    W = mode.density.information
    C = preconditioner_of(c.rows, AT, near, FEATURES, LOGS, W)
    K = covariance(c) + FEATURES @ np.diag(np.exp(LOGS)) @ FEATURES.T
    A = np.eye(N) + np.sqrt(W)[:, None] * K * np.sqrt(W)
    dense = C.times(np.eye(N))
    assert_allclose(dense @ A @ dense.T, np.eye(N), atol=1e-5)  # the nugget stands in A alone
    assert_allclose(C.transposed(np.eye(N)), dense.T, atol=1e-12)
    assert C.log_det == pytest.approx(np.linalg.slogdet(A)[1], abs=1e-5)


def test_conjugate_gradients_and_quadrature_of_a_matrix():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 30))
    A = root @ root.T + np.eye(30)
    right = np.column_stack([rng.standard_normal((30, 3)), np.zeros(30)])
    x, reached = conjugate_gradients(lambda v: A @ v, right, 1e-12)
    assert reached
    assert_allclose(A @ x, right, atol=1e-9)
    # The unit vectors give the diagonal of the logarithm; the space of an eigenvector ends after a step.
    values, vectors = np.linalg.eigh(A)
    logs = vectors @ np.diag(np.log(values)) @ vectors.T
    assert_allclose(log_quadrature(lambda v: A @ v, np.eye(30), 0.0).value, np.diag(logs), atol=1e-9)
    few = log_quadrature(
        lambda v: A @ v, np.column_stack([3.0 * vectors[:, 4], rng.standard_normal(30)]), 0.0
    )
    assert few.value[0] == pytest.approx(9.0 * np.log(values[4]), abs=1e-8)
    change = rng.standard_normal((30, 30))
    change = change + change.T
    pulled = np.einsum(
        "sab,ias,ij,jbs->s", few.weight, few.basis.transpose(1, 0, 2), change, few.basis.transpose(1, 0, 2)
    )

    def at(step):
        moved = A + step * change
        values, vectors = np.linalg.eigh(moved)
        z = few.basis[0] * np.array([3.0, np.linalg.norm(few.basis[0, :, 1])])
        return np.einsum("is,ij,js->s", z, vectors @ np.diag(np.log(values)) @ vectors.T, z)

    slope = (at(1e-5) - at(-1e-5)) / 2e-5
    length = few.value[1] / at(0.0)[1]
    assert_allclose(pulled, slope * np.array([1.0, length]), rtol=1e-5)


def test_a_matrix_that_is_not_positive_definite_raises():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        log_quadrature(lambda v: -v, np.ones((5, 1)), 1e-9)


def test_log_density_at_the_mode_is_least_far_from_flat():
    """The mode is one: the log joint density falls from it in random directions."""
    c = case_of("student", n=200)
    near, none = nearest_before(c.rows.t, 10), np.empty((200, 0))
    C = preconditioner(c, near, none)
    mode, _ = found(c, AT, c.parameters, near, none, probes=signs(200, 2), C=C, gradient=False)
    assert mode.converged

    def joint(coordinates):
        f = mode.latents.function(coordinates)
        return c.responses.density(f, c.parameters).value + np.sum(stats.norm.logpdf(coordinates))

    best = joint(mode.coordinates)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert joint(mode.coordinates + 0.01 * rng.standard_normal(200)) < best

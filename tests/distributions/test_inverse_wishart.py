"""The inverse-Wishart family against scipy, closed forms and quadrature."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.logprob.utils import ParameterValueError
from scipy import integrate, special, stats

from tests.daily import daily
from tests.distributions.numerics import assert_moments, log_jacobian, unconstrained
from zoo.distributions import (
    InverseWishart,
    InverseWishartCholesky,
    NormalInverseWishart,
    ScaledInverseWishart,
)

ALARM = 1e-5


def covariance(p: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p + 2))
    return root @ root.T / p


S = covariance(3)
X = covariance(3, seed=1)


# ---------------------------------------------------------------- density


@pytest.mark.parametrize("p", [1, 2, 5, 28])
def test_logp_against_scipy(p):
    scale, value, nu = covariance(p), covariance(p, seed=1), p + 0.3
    expected = stats.invwishart.logpdf(value, nu, scale)
    by_nu = InverseWishart.dist(nu, scale)
    by_delta = InverseWishart.dist(delta=1.3, scale_chol=np.linalg.cholesky(scale))
    for variable in (by_nu, by_delta):
        assert pm.logp(variable, value).eval() == pytest.approx(expected, rel=1e-11)
    factor = np.linalg.cholesky(value)
    jacobian = p * np.log(2) + np.sum((p - np.arange(p)) * np.log(np.diag(factor)))
    on_factor = pm.logp(InverseWishartCholesky.dist(nu, scale), factor).eval()
    assert on_factor == pytest.approx(expected + jacobian, rel=1e-11)


def test_logp_of_a_batch():
    nu, scales, values = [5.3, 7.0], np.stack([S, 2 * S]), np.stack([X, X + S])
    ours = pm.logp(InverseWishart.dist(nu, scales), values).eval()
    np.testing.assert_allclose(
        ours, [stats.invwishart.logpdf(values[i], nu[i], scales[i]) for i in range(2)], rtol=1e-12
    )
    repeated = pm.logp(InverseWishart.dist(5.3, S, size=(2,)), values).eval()
    np.testing.assert_allclose(repeated, [stats.invwishart.logpdf(v, 5.3, S) for v in values], rtol=1e-12)


def test_wishart_of_the_inverse():
    # X ~ IW(nu, S) if and only if X^-1 ~ W(nu, S^-1); the Jacobian of the inversion is |X|^-(p+1).
    ours = pm.logp(InverseWishart.dist(6.7, S), X).eval()
    wishart = stats.wishart.logpdf(np.linalg.inv(X), 6.7, np.linalg.inv(S))
    assert ours == pytest.approx(wishart - 4 * np.linalg.slogdet(X)[1], rel=1e-12)


def test_off_the_support():
    assert pm.logp(InverseWishart.dist(5, S), -X).eval() == -np.inf
    assert pm.logp(InverseWishart.dist(5, S), np.zeros((3, 3))).eval() == -np.inf
    factor = np.linalg.cholesky(X)
    for wrong in (-factor, factor.T, X):
        assert pm.logp(InverseWishartCholesky.dist(5, S), wrong).eval() == -np.inf


# ---------------------------------------------------------------- draws


@pytest.mark.statistical
@pytest.mark.compiled
def test_draws_have_the_moments():
    nu, n = 12.5, 20_000
    draws = pm.draw(InverseWishart.dist(nu, S), n, random_seed=1)
    # The docstring's table; scipy knows the mean and the variance too.
    delta = nu - 2
    mean = S / (nu - 4)
    diagonal = np.diag(S)
    variance = (delta * S**2 + (delta - 2) * np.outer(diagonal, diagonal)) / (
        (delta - 1) * (delta - 2) ** 2 * (delta - 4)
    )
    np.testing.assert_allclose(variance, stats.invwishart(nu, S).var(), rtol=1e-10)
    lower = np.tril_indices(3)
    assert_moments(draws[:, *lower], mean[lower], variance[lower])


@pytest.mark.statistical
@pytest.mark.compiled
@pytest.mark.parametrize("nu", daily([2.2, 5.0, 40.5], [5.0]))
def test_draws_against_scipy(nu):
    # Null: the same law. Two-sample Kolmogorov-Smirnov on 5,000 draws each, three statistics; false alarm 1e-5 each.
    ours = pm.draw(InverseWishart.dist(nu, S), 5000, random_seed=2)
    factors = pm.draw(InverseWishartCholesky.dist(nu, S), 5000, random_seed=3)
    theirs = stats.invwishart(nu, S).rvs(5000, random_state=np.random.default_rng(4))
    for sample in (ours, factors @ factors.swapaxes(1, 2)):
        for statistic in (
            lambda m: np.linalg.slogdet(m)[1],
            lambda m: m[:, 1, 1],
            lambda m: m[:, 0, 2] / np.sqrt(m[:, 0, 0] * m[:, 2, 2]),
        ):
            assert stats.ks_2samp(statistic(sample), statistic(theirs)).pvalue > ALARM


@pytest.mark.scheduled
@pytest.mark.compiled
def test_delta_is_consistent_under_subsetting():
    # Any block of IW(delta, S) is IW(delta, block of S) (Dawid 1981). Null: exact laws of a diagonal entry
    # (inverse gamma) and of the log determinant of a 2 x 2 block; false alarm 1e-5 each. With nu it would fail.
    delta, n = 1.5, 10_000
    draws = pm.draw(InverseWishart.dist(delta=delta, scale=S), n, random_seed=5)
    for i in range(3):
        law = stats.invgamma(delta / 2, scale=S[i, i] / 2)
        assert stats.kstest(draws[:, i, i], law.cdf).pvalue > ALARM
    for block in ([0, 1], [0, 2], [1, 2]):
        ours = np.linalg.slogdet(draws[:, block][:, :, block])[1]
        theirs = stats.invwishart(delta + 1, S[np.ix_(block, block)]).rvs(
            n, random_state=np.random.default_rng(6)
        )
        assert stats.ks_2samp(ours, np.linalg.slogdet(theirs)[1]).pvalue > ALARM
    with_nu = stats.invgamma((delta + 2) / 2, scale=S[0, 0] / 2)
    assert stats.kstest(draws[:, 0, 0], with_nu.cdf).pvalue < ALARM


@pytest.mark.compiled
def test_a_matrix_of_one_entry():
    draws = pm.draw(InverseWishart.dist(3.0, [[2.0]]), 5000, random_seed=7)
    assert draws.shape == (5000, 1, 1)
    assert stats.kstest(draws[:, 0, 0], stats.invgamma(1.5, scale=1.0).cdf).pvalue > ALARM


def test_batches_of_draws():
    variable = InverseWishart.dist(np.array([5, 70]), np.stack([S, S]), size=(4, 2))
    draws = pm.draw(variable, random_seed=8)
    assert draws.shape == (4, 2, 3, 3)
    assert np.all(np.linalg.eigvalsh(draws) > 0)
    factors = pm.draw(InverseWishartCholesky.dist(delta=2, scale=S, shape=(6, 3, 3)), random_seed=9)
    assert np.all(np.triu(factors, 1) == 0) and np.all(np.diagonal(factors, axis1=1, axis2=2) > 0)


# ---------------------------------------------------------------- transforms


@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("kind", [InverseWishart, InverseWishartCholesky])
def test_jacobian_by_differences(kind, p):
    with pm.Model() as model:
        kind("x", p + 1.5, covariance(p))
    value, with_jacobian, without = unconstrained(model, "x")
    at = np.random.default_rng(10).normal(size=p * (p + 1) // 2)
    lower = np.tril_indices(p)
    expected = log_jacobian(lambda u: value(u)[lower], at)
    assert with_jacobian(at) - without(at) == pytest.approx(expected, abs=1e-7)


def test_transform_there_and_back():
    scale = np.stack([S, covariance(3, seed=3)])
    with pm.Model() as model:
        x = InverseWishartCholesky("x", delta=2.0, scale=scale)
    draws = pm.draw(x, random_seed=11)
    transform = model.rvs_to_transforms[x]
    there = transform.forward(draws, *x.owner.inputs)
    np.testing.assert_allclose(transform.backward(there, *x.owner.inputs).eval(), draws, rtol=1e-11)


@pytest.mark.parametrize("factor", [1e-4, 1.0, 1e6])
def test_sampler_sees_independent_variables(factor):
    # Non-centred: on the unconstrained scale the density is that of log chi and normal variables, whatever the scale.
    nu, p = 6.4, 3
    with pm.Model() as model:
        InverseWishartCholesky("x", nu, factor * S)
    _, logp, _ = unconstrained(model, "x")
    u = np.random.default_rng(12).normal(size=6)
    rows, columns = np.tril_indices(p)
    diagonal = rows == columns
    degrees = nu - p + 1 + np.arange(p)
    chi = stats.chi.logpdf(np.exp(u[diagonal]), degrees) + u[diagonal]
    assert logp(u) == pytest.approx(chi.sum() + stats.norm.logpdf(u[~diagonal]).sum(), rel=1e-12)


@pytest.mark.compiled
@pytest.mark.statistical
@pytest.mark.parametrize(
    "kind", [InverseWishart, pytest.param(InverseWishartCholesky, marks=pytest.mark.scheduled)]
)
def test_nuts_finds_the_conjugate_posterior(kind):
    # Null: the posterior of a covariance given normal rows is IW(nu + n, S + x'x). Means of log determinant and
    # entries by their Monte-Carlo errors, 7 comparisons; |z| < 5 has a false alarm below 1e-5.
    from tests.comparisons import mean_and_error

    rows = np.random.default_rng(13).multivariate_normal(np.zeros(3), X, size=12)
    with pm.Model():
        x = kind("x", 6.5, S)
        chol = pm.math.dot(x, np.eye(3)) if kind is InverseWishartCholesky else pm.math.cholesky(x)
        pm.MvNormal("rows", np.zeros(3), chol=chol, observed=rows)
        tree = pm.sample(
            4000, tune=1000, chains=2, cores=1, nuts_sampler="nutpie", random_seed=14, progressbar=False
        )
    draws = tree["posterior"]["x"].to_numpy()
    if kind is InverseWishartCholesky:
        draws = draws @ draws.swapaxes(-1, -2)
    posterior = stats.invwishart(18.5, S + rows.T @ rows)
    log_det = np.linalg.slogdet(S + rows.T @ rows)[1] - 3 * np.log(2)
    log_det -= special.digamma((18.5 - np.arange(3)) / 2).sum()
    mean, error = mean_and_error(np.linalg.slogdet(draws)[1])
    assert abs(mean - log_det) < 5 * error
    for i in range(3):
        for j in range(i + 1):
            mean, error = mean_and_error(draws[:, :, i, j])
            assert abs(mean - posterior.mean()[i, j]) < 5 * error


# ---------------------------------------------------------------- half-t


def test_scaled_is_half_t_in_one_dimension():
    # The variance of a half-t standard deviation: density of s at sqrt(x), times ds/dx.
    x = np.array([0.01, 0.7, 30.0])
    ours = pm.logp(ScaledInverseWishart.dist(2.5, [1.4]), x[:, None, None]).eval()
    expected = np.log(2) + stats.t.logpdf(np.sqrt(x), 2.5, scale=1.4) - np.log(2 * np.sqrt(x))
    np.testing.assert_allclose(ours, expected, rtol=1e-10)


@pytest.mark.statistical
def test_scaled_against_its_mixture():
    # Quadrature over the mixing variables of the docstring, in the logs of them.
    df, sigma = 2.0, np.array([0.8, 1.7])
    value = np.array([[1.1, 0.4], [0.4, 2.3]])

    def integrand(u, v):
        a = np.exp([u, v])
        mixing = stats.invgamma.pdf(a, 0.5, scale=sigma**-2)
        return stats.invwishart.pdf(value, df + 1, 2 * df * np.diag(1 / a)) * np.prod(mixing * a)

    expected, _ = integrate.dblquad(integrand, -12, 15, -12, 15, epsabs=1e-12, epsrel=1e-8)
    assert pm.logp(ScaledInverseWishart.dist(df, sigma), value).eval() == pytest.approx(
        np.log(expected), abs=1e-6
    )


@pytest.mark.statistical
@pytest.mark.compiled
def test_scaled_draws():
    # Null: deviations are half-t, and correlations uniform for df = 2. Kolmogorov-Smirnov, 10,000 draws; false
    # alarm 1e-5 each.
    sigma = np.array([0.5, 1.0, 3.0])
    draws = pm.draw(ScaledInverseWishart.dist(2.0, sigma), 10_000, random_seed=15)
    deviations = np.sqrt(np.diagonal(draws, axis1=1, axis2=2))
    for k in range(3):
        half_t = stats.kstest(deviations[:, k], lambda s, k=k: 2 * stats.t.cdf(s / sigma[k], 2) - 1)
        assert half_t.pvalue > ALARM
    correlation = draws[:, 0, 2] / (deviations[:, 0] * deviations[:, 2])
    assert stats.kstest(correlation, stats.uniform(-1, 2).cdf).pvalue > ALARM


def test_scaled_transform():
    with pm.Model() as model:
        ScaledInverseWishart("x", 2.0, np.array([0.5, 1.0]))
    value, with_jacobian, without = unconstrained(model, "x")
    at = np.array([0.3, -0.8, -0.2])
    lower = np.tril_indices(2)
    expected = log_jacobian(lambda u: value(u)[lower], at)
    assert with_jacobian(at) - without(at) == pytest.approx(expected, abs=1e-7)


# ---------------------------------------------------------------- normal-inverse-Wishart


def test_joint_logp():
    mu0, mean = np.array([0.1, -1.0, 2.0]), np.array([0.4, 0.0, 1.0])
    ours = NormalInverseWishart.logp(mean, X, mu0, 2.5, delta=1.7, scale=S).eval()
    expected = stats.invwishart.logpdf(X, 3.7, S) + stats.multivariate_normal.logpdf(mean, mu0, X / 2.5)
    assert ours == pytest.approx(expected, rel=1e-12)


def test_conjugate_update():
    # log prior + log likelihood - log posterior is the same at every (mean, covariance): the evidence.
    rng = np.random.default_rng(16)
    rows, mu0, pi, nu = rng.normal(size=(7, 3)), np.array([0.5, 0.0, -1.0]), 1.5, 4.2
    centred = rows - rows.mean(axis=0)
    gap = rows.mean(axis=0) - mu0
    posterior = (
        (pi * mu0 + rows.sum(axis=0)) / (pi + 7),
        pi + 7,
        nu + 7,
        S + centred.T @ centred + pi * 7 / (pi + 7) * np.outer(gap, gap),
    )
    evidence = []
    for seed in range(3):
        mean, cov = rng.normal(size=3), covariance(3, seed=20 + seed)
        likelihood = stats.multivariate_normal.logpdf(rows, mean, cov).sum()
        prior, after = (
            float(NormalInverseWishart.logp(mean, cov, *parameters).eval())
            for parameters in ((mu0, pi, nu, S), posterior)
        )
        evidence.append(prior + likelihood - after)
    np.testing.assert_allclose(evidence, evidence[0], rtol=1e-10)


@pytest.mark.statistical
@pytest.mark.compiled
@pytest.mark.parametrize("how", daily(["model", "dist"], ["model"]))
def test_marginal_mean_is_student_t(how):
    # Null: (mean - mu0) / sqrt(S_ii / (pi delta)) is t with delta degrees of freedom. 10,000 draws; false alarm
    # 1e-5 each.
    delta, pi, mu0 = 1.5, 2.5, np.array([1.0, 0.0, -3.0])
    if how == "model":
        with pm.Model(coords={"a": range(3), "b": range(3)}) as model:
            mean, _ = NormalInverseWishart("pop", mu0, pi, delta=delta, scale=S, dims=("a", "b"))
        cov = model["pop_cov"]
    else:
        mean, cov = NormalInverseWishart.dist(mu0, pi, delta=delta, scale=S)
    means, covs = pm.draw([mean, cov], 10_000, random_seed=17)
    for i in range(3):
        t = (means[:, i] - mu0[i]) / np.sqrt(S[i, i] / (pi * delta))
        assert stats.kstest(t, stats.t(delta).cdf).pvalue > ALARM
        assert stats.kstest(covs[:, i, i], stats.invgamma(delta / 2, scale=S[i, i] / 2).cdf).pvalue > ALARM
        z = (means[:, i] - mu0[i]) / np.sqrt(covs[:, i, i] / pi)  # the same randomness in both
        assert stats.kstest(z, stats.norm.cdf).pvalue > ALARM


# ---------------------------------------------------------------- in a model, and wrong input


def test_in_a_model():
    coords = {"feature": list("abc"), "feature_bis": list("abc")}
    with pm.Model(coords=coords) as model:
        cov = InverseWishart("cov", delta=2, scale=S.astype("float32"), dims=("feature", "feature_bis"))
        InverseWishartCholesky("chol", nu=5, scale=S, dims=("feature", "feature_bis"))
        ScaledInverseWishart("scaled", sigma=np.ones(3), dims=("feature", "feature_bis"))
        pm.MvNormal("x", np.zeros(3), cov=cov, observed=np.zeros(3))
        prior = pm.sample_prior_predictive(5, random_seed=18)
    assert all(np.isfinite(v) for v in model.point_logps().values())
    assert cov.dtype == "float64"
    assert prior["prior"]["chol"].dims == ("chain", "draw", "feature", "feature_bis")
    gradient = model.compile_dlogp()(model.initial_point())
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nu": 5}, "Give exactly one of scale, scale_chol; got none"),
        ({"scale": S}, "Give exactly one of nu, delta; got none"),
        ({"nu": 5, "delta": 2, "scale": S}, "got nu and delta"),
        ({"nu": 5, "scale": np.ones((2, 3))}, "scale is 2 x 3"),
        ({"nu": 5, "scale": np.triu(S)}, "not symmetric"),
        ({"nu": 5, "scale_chol": S}, "scale_chol is not lower triangular"),
        ({"nu": 5, "scale": 2.0}, "scale has 0 dimensions"),
        ({"nu": 5, "scale": S, "shape": (4, 4)}, r"\(4, 4\), but one draw is \(3, 3\)"),
    ],
)
@pytest.mark.parametrize("kind", [InverseWishart, InverseWishartCholesky])
def test_bad_shapes(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind.dist(**arguments)


def test_dims_of_the_wrong_length():
    with (
        pm.Model(coords={"a": range(4), "b": range(4)}),
        pytest.raises(ValueError, match=r"\(4, 4\), but one"),
    ):
        InverseWishart("x", 5, S, dims=("a", "b"))
    with pytest.raises(ValueError, match="length 2, but the scale has length 3"):
        pm.logp(InverseWishart.dist(5, S), np.eye(2))
    with pytest.raises(ValueError, match="mu0 has length 2"):
        NormalInverseWishart.dist(np.zeros(2), 1.0, delta=1, scale=S)


@pytest.mark.parametrize(
    "variable",
    [
        InverseWishart.dist(2.0, S),
        InverseWishart.dist(delta=0.0, scale=S),
        InverseWishart.dist(5.0, -S),
        InverseWishartCholesky.dist(1.9, S),
    ],
)
def test_bad_parameters(variable):
    with pytest.raises(ParameterValueError, match="nu > p - 1"):
        pm.draw(variable)
    with pytest.raises(ParameterValueError, match="nu > p - 1"):
        pm.logp(variable, np.linalg.cholesky(X)).eval()


def test_bad_parameters_of_the_others():
    scaled = ScaledInverseWishart.dist(2.0, [1.0, -1.0])
    with pytest.raises(ParameterValueError, match="sigma > 0"):
        pm.draw(scaled)
    with pytest.raises(ParameterValueError, match="sigma > 0"):
        pm.logp(scaled, np.eye(2)).eval()
    with pytest.raises(ValueError, match="sigma is missing"):
        ScaledInverseWishart.dist(2.0)
    with pytest.raises(ValueError, match="sigma is a number"):
        ScaledInverseWishart.dist(2.0, 1.0)
    mean, _ = NormalInverseWishart.dist(0.0, -1.0, delta=1, scale=S)
    with pytest.raises(ParameterValueError, match="pi > 0"):
        pm.draw(mean)

"""Nonparametric max-margin model: contract, density, posterior against enumeration and quadrature, new tasks, steps.

Statistical comparisons: |z| < 5 a quantity with Monte-Carlo errors from the effective sample size, which one quantity
exceeds with probability 6e-7 under the null, the 19 of a test with 1e-5.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import logsumexp

from tests.comparisons import mean_and_error
from tests.losses import loss_of
from tests.models.test_max_margin import _data
from zoo.distributions.indian_buffet import IndianBuffet, ibp_logp
from zoo.distributions.matrix_normal import MatrixNormal
from zoo.inference.gibbs.buffet_step import IndianBuffetGibbs
from zoo.likelihoods import EpsilonInsensitive
from zoo.models.max_margin.indian_buffet import NonparametricMaxMargin
from zoo.testing import FactoryTestCase

_INTERPRETED = Mode("py", "fast_compile")


class TestContractWithGivenFields(FactoryTestCase):
    supports_new_task = False

    def make_factory(self):
        R = [[1.0, 0.2, 0.0], [0.2, 1.0, 0.1], [0.0, 0.1, 2.0]]
        return NonparametricMaxMargin(
            likelihood=EpsilonInsensitive(epsilon=0.1), alpha=1.5, task_cov=R, K_max=3
        )


# -------------------------------------------------------------------- the model


def _log_buffet(Z, alpha):
    """Beta-Bernoulli columns with the weights integrated out, by the beta function."""
    from scipy.special import betaln

    (D, K), m = Z.shape, Z.sum(axis=0)
    a = alpha / K
    return np.sum(np.log(a) + betaln(m + a, D - m + 1))


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_density_is_the_papers(loss):
    rng = np.random.default_rng(1)
    R = np.array([[1.0, 0.4, 0.1], [0.4, 2.0, 0.0], [0.1, 0.0, 0.5]])
    factory = NonparametricMaxMargin(
        likelihood=loss_of(loss, 0.7, 0.2, 1.5), task_cov=R, alpha_prior=(3.0, 2.0), K_max=4
    )
    data = _data(loss)
    model = factory.build(data)
    logp = model.compile_logp(jacobian=False, mode=_INTERPRETED)
    for _ in range(3):
        Z, alpha = (rng.random((2, 4)) < 0.5).astype(np.int64), rng.gamma(2.0)
        eta = rng.standard_normal((2, 3))
        chol = np.linalg.cholesky(R)
        point = {"Z": Z, "alpha_log__": np.log(alpha), "_coefficients": eta @ np.linalg.inv(chol).T}
        f = np.einsum("nd,dn->n", data.X, eta[:, data.task])
        slack = 1.5 - data.y * f if loss == "hinge" else np.abs(data.y - f) - 0.2
        exact = (
            stats.gamma(3.0, scale=0.5).logpdf(alpha)
            + _log_buffet(Z, alpha)
            + stats.matrix_normal(rowcov=np.eye(2) + Z @ Z.T, colcov=R).logpdf(eta)
            + 2 * np.linalg.slogdet(chol)[1]  # from eta to whitened eta, D = 2
            - 2 * 0.7 * np.maximum(0, slack).sum()
        )
        assert np.isclose(logp(point), exact, rtol=1e-10)


def test_learned_task_covariance_and_number_of_columns():
    scale = np.diag([1.0, 2.0, 3.0])
    model = NonparametricMaxMargin(task_scale_matrix=scale, task_nu=7.0, K_max=5).build(_data("hinge"))
    names = ["_task_chol", "_coefficients", "task_cov", "coefficients", "Z", "n_latent"]
    draws = dict(
        zip(
            names,
            pm.draw([model[name] for name in names], 2000, random_seed=1, mode=_INTERPRETED),
            strict=True,
        )
    )
    chol = draws["_task_chol"]
    assert np.allclose(draws["task_cov"], chol @ np.swapaxes(chol, 1, 2))
    assert np.allclose(draws["coefficients"], draws["_coefficients"] @ np.swapaxes(chol, 1, 2))
    assert np.array_equal(draws["n_latent"], draws["Z"].any(axis=1).sum(axis=1))
    # IW(7, scale) of dimension 3: a diagonal entry is inverse gamma((7 - 2) / 2, scale / 2).
    for t in range(3):
        law = stats.invgamma(2.5, scale=scale[t, t] / 2)
        assert stats.kstest(draws["task_cov"][:, t, t], law.cdf).pvalue > 1e-6


# -------------------------------------------------------------------- the posterior


def _exact(factory, data):
    """Probabilities of all Z, and posterior means of alpha and of the two coefficients and their squares."""
    grid = np.linspace(-25, 25, 401)
    eta = np.stack(np.meshgrid(grid, grid, indexing="ij")).reshape(2, -1)
    f = data.X @ eta
    log_likelihood = factory.likelihood.minus_loss(f, data.y[:, None]).sum(axis=0)
    if factory.alpha is None:
        log_alpha = np.linspace(-12, 4, 400)
        shape, rate = factory.alpha_prior
        log_weight = stats.gamma(shape, scale=1 / rate).logpdf(np.exp(log_alpha)) + log_alpha
    else:
        log_alpha, log_weight = np.log([factory.alpha]), np.zeros(1)
    matrices = [np.array(bits).reshape(2, -1) for bits in itertools.product((0, 1), repeat=2 * factory.K_max)]
    log_joint, moments = [], []
    for Z in matrices:
        density = stats.multivariate_normal(np.zeros(2), np.eye(2) + Z @ Z.T).logpdf(eta.T) + log_likelihood
        prior = log_weight + np.array([_log_buffet(Z, a) for a in np.exp(log_alpha)])
        log_joint.append(logsumexp(density) + logsumexp(prior))
        at_eta, at_alpha = np.exp(density - logsumexp(density)), np.exp(prior - logsumexp(prior))
        moments.append([at_alpha @ np.exp(log_alpha), *(eta @ at_eta), *(eta**2 @ at_eta)])
    probabilities = np.exp(log_joint - logsumexp(log_joint))
    return matrices, probabilities, probabilities @ np.array(moments)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"alpha": 1.3}, id="fixed alpha", marks=pytest.mark.scheduled),
        pytest.param({}, id="learned alpha", marks=pytest.mark.statistical),
        pytest.param(
            {"likelihood": EpsilonInsensitive(epsilon=0.1)}, id="regression", marks=pytest.mark.scheduled
        ),
    ],
)
def test_nuts_draws_from_the_enumerated_posterior(fields):
    factory = NonparametricMaxMargin(task_cov="identity", K_max=2, **fields)
    data = _data(factory.likelihood.word, n_tasks=1, n_features=2, n_rows=6)
    matrices, probabilities, means = _exact(factory, data)
    fit = factory.fit(
        data,
        "nuts",
        draws=4000,
        tune=500,
        chains=4,
        random_seed=1,
        progress=False,
        nuts={"target_accept": 0.9},
    )
    Z = fit.posterior["Z"].to_numpy()
    worst = {}
    for matrix, exact in zip(matrices, probabilities, strict=True):
        worst[str(matrix.tolist())] = _z((Z == matrix).all(axis=(2, 3)).astype(float), exact)
    eta = fit.posterior["coefficients"].to_numpy()[..., 0]
    if factory.alpha is None:
        worst["alpha"] = _z(fit.posterior["alpha"].to_numpy(), means[0])
    for d in range(2):
        worst[f"eta {d}"] = _z(eta[..., d], means[1 + d])
        worst[f"square {d}"] = _z(eta[..., d] ** 2, means[3 + d])
    where = max(worst, key=lambda name: worst[name])
    assert worst[where] < 5, f"{where} differs by {worst[where]:.1f} Monte-Carlo errors"


@pytest.mark.statistical
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_gibbs_draws_from_the_posterior_without_truncation(loss):
    # Two features: matrices up to the order of columns are counts of the columns (1, 0), (0, 1) and (1, 1).
    factory = NonparametricMaxMargin(task_cov="identity", alpha=1.3, likelihood=loss_of(loss, epsilon=0.1))
    data = _data(loss, n_tasks=1, n_features=2, n_rows=6)
    grid = np.linspace(-30, 30, 301)
    eta = np.stack(np.meshgrid(grid, grid, indexing="ij")).reshape(2, -1)
    log_likelihood = factory.likelihood.minus_loss(data.X @ eta, data.y[:, None]).sum(axis=0)
    classes = list(itertools.product(range(10), repeat=3))
    log_joint, squares = [], []
    for first, second, both in classes:
        Q = np.array([[1 + first + both, both], [both, 1 + second + both]])
        columns = [[1, 0]] * first + [[0, 1]] * second + [[1, 1]] * both
        density = stats.multivariate_normal(np.zeros(2), Q).logpdf(eta.T) + log_likelihood
        Z = np.array(columns, dtype=int).reshape(-1, 2).T
        log_joint.append(logsumexp(density) + ibp_logp(Z, 1.3))
        squares.append(eta**2 @ np.exp(density - logsumexp(density)))
    p = np.exp(log_joint - logsumexp(log_joint))
    counts = np.array(classes)
    assert p[(counts == 9).any(axis=1)].sum() < 1e-6  # what is left out does not matter
    fit = factory.fit(data, "gibbs", draws=8000, tune=200, random_seed=1, progress=False)
    Z = fit.posterior["Z"].to_numpy()
    both = (Z.sum(axis=2) == 2).sum(axis=2)
    draws = fit.posterior["coefficients"].to_numpy()[..., 0]
    n_latent = fit.posterior["n_latent"].to_numpy()
    assert np.array_equal(n_latent, Z.any(axis=2).sum(axis=2))
    scores = {
        "columns": _z(n_latent.astype(float), p @ counts.sum(axis=1)),
        "none": _z((n_latent == 0).astype(float), p[counts.sum(axis=1) == 0].sum()),
        "shared": _z(both.astype(float), p @ counts[:, 2]),
        "no shared": _z((both == 0).astype(float), p[counts[:, 2] == 0].sum()),
        **{f"square {d}": _z(draws[..., d] ** 2, p @ np.array(squares)[:, d]) for d in range(2)},
    }
    where = max(scores, key=lambda name: scores[name])
    assert scores[where] < 5, f"{where} differs by {scores[where]:.1f} Monte-Carlo errors"


@pytest.mark.statistical
def test_learned_alpha_follows_its_conditional():
    # Given the number of columns, alpha is gamma(shape + K, rate + 1 + 1/2) for two features: the mean of the
    # draws is the mean of the conditional means.
    factory = NonparametricMaxMargin(alpha_prior=(3.0, 2.0))
    fit = factory.fit(_data("hinge"), "gibbs", draws=4000, tune=200, random_seed=1, progress=False)
    expected = (3.0 + fit.posterior["n_latent"].to_numpy()) / (2.0 + 1.5)
    assert _z(fit.posterior["alpha"].to_numpy() - expected, 0.0) < 5


def test_gibbs_starts_from_another_fit():
    data, factory = _data("hinge"), NonparametricMaxMargin()
    options: dict[str, Any] = dict(tune=0, chains=1, progress=False)
    first = factory.fit(data, "gibbs", draws=50, random_seed=1, **options)
    second = factory.fit(data, "gibbs", draws=2, random_seed=2, start=first, **options)
    assert second.posterior["Z"].dims == ("chain", "draw", "feature", "latent")


def _z(values, exact):
    mean, error = mean_and_error(values)
    return abs(mean - exact) / error


# -------------------------------------------------------------------- new tasks


@pytest.mark.parametrize("task_cov", ["learned", "identity"])
def test_new_task_follows_the_extended_prior(task_cov):
    # The joint law of (eta, eta_new) must be that of T + 1 tasks under IW(nu + 1, I) (Dawid's delta kept).
    # Null: both samples come from one law; three Kolmogorov-Smirnov tests at 1e-6.
    rng = np.random.default_rng(5)
    T, D, K, S = 3, 2, 4, 20_000
    Z = (rng.random((S, D, K)) < 0.5).astype(np.int64)
    R = stats.invwishart(T + 2, np.eye(T + 1)).rvs(S, random_state=rng)
    if task_cov == "identity":
        R = np.broadcast_to(np.eye(T + 1), R.shape)
    omega = np.eye(D) + Z @ np.swapaxes(Z, 1, 2)
    white = rng.standard_normal((S, D, T + 1))
    eta = np.linalg.cholesky(omega) @ white @ np.swapaxes(np.linalg.cholesky(R), 1, 2)
    posterior = xr.Dataset(
        {
            "coefficients": (("chain", "draw", "feature", "task"), eta[None, :, :, :T]),
            "Z": (("chain", "draw", "feature", "latent"), Z[None]),
        }
    )
    new = NonparametricMaxMargin(task_cov=task_cov).new_task(posterior, ["new"], rng)["coefficients"][
        0, :, :, 0
    ]
    shared = Z[:, 0, :] @ np.ones(K)

    def cosine(e):
        return (e * eta[:, :, 0]).sum(1) / np.linalg.norm(e, axis=1) / np.linalg.norm(eta[:, :, 0], axis=1)

    for statistic in (
        lambda e: np.log(np.abs(e[:, 0])) - 0.3 * shared,
        lambda e: e[:, 0] * e[:, 1] / (e**2).sum(axis=1),
        cosine,
    ):
        half = S // 2  # the two samples share eta and Z, so compare disjoint halves
        assert stats.ks_2samp(statistic(new)[:half], statistic(eta[:, :, T])[half:]).pvalue > 1e-6


def test_a_given_matrix_has_no_new_task():
    factory = NonparametricMaxMargin(task_cov=np.eye(3))
    with pytest.raises(ValueError, match="task_cov was given"):
        factory.new_task(xr.Dataset(), ["new"], np.random.default_rng(1))


# -------------------------------------------------------------------- the step method


def test_step_reads_the_mass_and_leaves_the_rest():
    model = NonparametricMaxMargin(K_max=3).build(_data("hinge"))
    step = IndianBuffetGibbs([model["Z"]], model=model)
    step.setup_chain(np.random.default_rng(1), 0, 10)
    assert [v.name for v in step.vars] == ["Z"]
    point = model.initial_point(1)
    point["alpha_log__"] = np.array(0.4)
    assert np.isclose(step._mass(*(point[name] for name in step._mass_inputs)), np.exp(0.4))
    before = {name: value.copy() for name, value in point.items()}
    seen = set()
    for _ in range(50):
        after, [statistics] = step.step(point)
        assert statistics == {}
        assert after["Z"].dtype == point["Z"].dtype
        assert all(np.array_equal(point[name], value) for name, value in before.items())
        assert all(after[name] is point[name] for name in point if name != "Z")
        seen.add(after["Z"].tobytes())
    assert len(seen) > 5


@pytest.mark.parametrize("where", ["likelihood", "potential", "covariance", "prior"])
def test_step_refuses_another_model(where):
    with pm.Model() as model:
        Z = IndianBuffet("Z", 1.0, shape=(3, 2)) if where != "prior" else pm.Bernoulli("Z", 0.5, shape=(3, 2))
        row_cov = np.eye(3) + (2.0 if where == "covariance" else 1.0) * (Z @ Z.T)
        W = MatrixNormal("_coefficients", row_cov=row_cov, col_cov=np.eye(2))
        pm.Normal("y", W.sum() + (Z.sum() if where == "likelihood" else 0.0), observed=1.0)
        if where == "potential":
            pm.Potential("few", -Z.sum())
        with pytest.raises(ValueError, match="another step method"):
            IndianBuffetGibbs([Z])
        with pytest.raises(ValueError, match="no variable 'other'"):
            IndianBuffetGibbs([Z], coefficients="other")
    assert model["Z"] is Z


@dataclass(frozen=True, kw_only=True)
class _WithOffset(NonparametricMaxMargin):
    """A subclass with variables of its own."""

    def latent(self, data, priors):
        return super().latent(data, priors) + pm.Normal("offset", dims="task")[data.task]


class _WithoutMatrix(NonparametricMaxMargin):
    """A subclass with another prior."""

    def priors(self, data):
        return {"coefficients": pm.Normal("coefficients", dims=("feature", "task"))}


@pytest.mark.statistical
def test_subclasses_keep_nuts():
    options: dict[str, Any] = dict(draws=4, tune=4, chains=1, random_seed=1, progress=False)
    assert set(_WithOffset().methods) == {"nuts"}
    fit = _WithOffset(K_max=3).fit(_data("hinge"), **options)
    assert {"offset", "Z", "alpha", "coefficients"} <= set(fit.posterior.data_vars)
    fit = _WithoutMatrix().fit(_data("hinge"), **options)
    assert set(fit.posterior.data_vars) == {"coefficients"}
    with pytest.raises(ValueError, match="Override `new_task`"):
        fit.predict(np.zeros((1, 2)), "new", new_task=True)


@pytest.mark.statistical
def test_chains_in_processes():
    options: dict[str, Any] = dict(draws=20, tune=20, chains=2, random_seed=1, progress=False)
    factory = NonparametricMaxMargin(K_max=3)
    fit = factory.fit(_data("hinge"), "nuts", cores=2, **options)
    assert fit.posterior.sizes["chain"] == 2
    assert len(np.unique(fit.posterior["Z"].to_numpy().reshape(40, -1), axis=0)) > 3


# -------------------------------------------------------------------- bad input

BAD_FIELDS = [
    ({"likelihood": "squared"}, "likelihood"),
    ({"alpha": 0.0}, "alpha"),
    ({"alpha": "learned"}, "alpha"),
    ({"alpha_prior": 2.0}, "alpha_prior"),
    ({"alpha_prior": (2.0, 0.0)}, "rate in alpha_prior"),
    ({"alpha_prior": (-1.0, 1.0)}, "shape in alpha_prior"),
    ({"task_cov": "diagonal"}, "task_cov"),
    ({"task_cov": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
    ({"task_scale_matrix": [[1.0, 0.5]]}, "task_scale_matrix"),
    ({"task_nu": -2.0}, "task_nu"),
    ({"K_max": 0}, "K_max"),
    ({"K_max": 2.5}, "K_max"),
]


@pytest.mark.parametrize(("fields", "message"), BAD_FIELDS, ids=str)
def test_bad_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        NonparametricMaxMargin(**fields)


def test_data_that_do_not_fit_the_fields_are_named():
    data = _data("hinge")
    for field in ("task_cov", "task_scale_matrix"):
        matrix: dict[str, Any] = {field: np.eye(2)}
        with pytest.raises(ValueError, match=f"{field} is 2 x 2"):
            NonparametricMaxMargin(**matrix).build(data)
    with pytest.raises(ValueError, match="task_nu is 2"):
        NonparametricMaxMargin(task_nu=2.0).build(data)
    with pytest.raises(ValueError, match="labels must be -1/\\+1 or 0/1"):
        NonparametricMaxMargin().build(_data("epsilon_insensitive"))


def test_coords_count_the_columns():
    assert NonparametricMaxMargin(K_max=3).coords(_data("hinge"))["latent"] == [0, 1, 2]

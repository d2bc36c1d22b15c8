"""Choices: derivatives, moves and the kernel against what knows nothing of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import invwishart, multivariate_normal

import zoo
from tests.comparisons import largest_z
from tests.statistical.test_choice_kernels import panel
from zoo.inference.gibbs.choice_likelihood import Choices, add_derivatives, log_density
from zoo.inference.gibbs.choice_moves import ChoiceMoves, _densities, _move_tasks, reference_of
from zoo.inference.gibbs.choice_population import _log_prior, _prior_gradient, move_population
from zoo.inference.gibbs.own_mean import MeanLaw

LOGIT = zoo.MultinomialLogit()


def choices(seed=0, n_features=3):
    """Five choices of two to four alternatives, of two tasks, with offsets and weights."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, 3, 2, 4, 3, 2])
    return Choices(
        inputs=rng.standard_normal((starts[-1], n_features)),
        offset=rng.standard_normal(starts[-1]),
        starts=starts,
        chosen=starts[:-1] + np.array([2, 0, 3, 1, 1]),
        tasks=np.array([0, 2, 5]),
        weight=np.array([1.0, 2.0, 0.5, 1.0, 3.0]),
    )


def by_softmax(given, first, last, w):
    f = given.offset + given.inputs @ w
    total = 0.0
    for c in range(first, last):
        a, b = given.starts[c], given.starts[c + 1]
        total += given.weight[c] * log_softmax(f[a:b])[given.chosen[c] - a]
    return total


def test_density_and_derivatives():
    given, w = choices(), np.array([0.4, -1.2, 0.7])
    for first, last in ((0, 5), (2, 5), (1, 2)):
        assert log_density(given, first, last, w) == pytest.approx(
            by_softmax(given, first, last, w), rel=1e-12
        )
        gradient, curvature = np.zeros(3), np.zeros((3, 3))
        add_derivatives(given, first, last, w, gradient, curvature, True)
        h, steps = 1e-5, np.eye(3)
        at = lambda move: by_softmax(given, first, last, w + move)  # noqa: E731, B023
        slope = [(at(h * e) - at(-h * e)) / (2 * h) for e in steps]
        np.testing.assert_allclose(gradient, slope, atol=1e-8)
        h = 1e-3
        second = [
            [
                (at(h * (a + b)) - at(h * (a - b)) - at(h * (b - a)) + at(-h * (a + b))) / (4 * h * h)
                for b in steps
            ]
            for a in steps
        ]
        np.testing.assert_allclose(curvature, -np.tril(second), atol=1e-5)


def test_utilities_of_any_size():
    """The largest is taken out of the exponentials."""
    given = choices()._replace(offset=np.full(14, 800.0))
    assert log_density(given, 0, 5, np.zeros(3)) == pytest.approx(by_softmax(given, 0, 5, np.zeros(3)))
    far = given._replace(inputs=1e4 * given.inputs)
    assert np.isfinite(log_density(far, 0, 5, np.ones(3)))


# The prior of the mean: tied to the covariance, or of precisions of its own.
LAWS = pytest.mark.parametrize(
    ("pi", "own"), [(0.8, np.zeros(3)), (0.0, np.array([0.5, 2.0, 1.0]))], ids=["tied", "own"]
)


@LAWS
def test_the_prior_of_the_factor_has_its_gradient(pi, own):
    rng = np.random.default_rng(1)
    L = np.tril(rng.standard_normal((3, 3)))
    np.fill_diagonal(L, [0.7, 1.2, 0.4])
    mu, nu, h = rng.standard_normal(3), 6.0, 1e-6
    of_L, of_mu = _prior_gradient(L, mu, nu, pi, own)
    for i in range(3):
        step = h * np.eye(3)[i]
        slope = (_log_prior(L, mu + step, nu, pi, own) - _log_prior(L, mu - step, nu, pi, own)) / (2 * h)
        assert of_mu[i] == pytest.approx(slope, rel=1e-6)
        for j in range(i + 1):
            step = np.zeros((3, 3))
            step[i, j] = h
            slope = (_log_prior(L + step, mu, nu, pi, own) - _log_prior(L - step, mu, nu, pi, own)) / (2 * h)
            assert of_L[i, j] == pytest.approx(slope, rel=1e-5)


def test_the_reference_is_near_the_posterior_of_each_task():
    """Its points are posterior means under its own population, by importance sampling."""
    given = choices()
    found = reference_of(given, 1.0, 5.0)
    rng = np.random.default_rng(0)
    draws = multivariate_normal(found.mean, found.cov).rvs(50_000, random_state=rng)
    for t, (first, last) in enumerate(((0, 2), (2, 5))):
        weight = np.exp([log_density(given, first, last, w) for w in draws])
        expected = weight @ draws / weight.sum()
        # An average of 50 dependent draws, for which a tenth of a standard deviation would be asked too much.
        spread = np.sqrt(np.diag(found.cov))
        assert np.max(np.abs(found.point[t] - expected) / spread) < 0.6
    again = reference_of(given, 1.0, 5.0)
    np.testing.assert_array_equal(found.cov, again.cov)  # chains that go on need the same one


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_one_coefficient_against_quadrature():
    """One task and one feature: the posterior of its coefficient on a grid, mean and covariance integrated out."""
    data = panel(tasks=1, sizes=(2, 3, 4, 2), n_features=1)
    factory = zoo.NIWLinear(likelihood=LOGIT, delta=5.0, scale_matrix=1.0, pi=0.5)
    fit = factory.fit(data, "gibbs", draws=4000, tune=500, chains=4, random_seed=1, progress=False)
    w = np.linspace(-15.0, 15.0, 6001)
    f, log = np.multiply.outer(w, data.X[:, 0]), np.zeros(len(w))
    for c in range(4):
        log += log_softmax(f[:, data.choice == c], axis=1)[:, 0]
    # w | C ~ N(0, C (1 + 1/pi)), C ~ IG(nu / 2, 1 / 2), nu = 5: a t law.
    log -= 0.5 * (5.0 + 1.0) * np.log1p(w**2 / (1.0 + 1.0 / 0.5))
    p = np.exp(log - log.max())
    p /= p.sum()
    mean = p @ w
    exact = {"mean": mean, "second": p @ w**2}
    draws = fit.posterior["coefficients"].to_numpy().reshape(4, -1)
    for name, values in (("mean", draws), ("second", draws**2)):
        # Of so many draws the error is that of the means of the chains; a right sampler is off by six of them once in
        # ten million tests.
        error = values.mean(axis=1).std(ddof=1) / 2.0 + 1e-9
        ess_error = values.std() / np.sqrt(values.size / 10)
        assert abs(values.mean() - exact[name]) < 6.0 * max(error, ess_error), name


def quantities(posterior):
    """Means, coefficients and log variances, each (chain, draw)."""
    found = {}
    for name in ("population_mean", "coefficients"):
        values = posterior[name].to_numpy()
        found |= {f"{name} {at}": values[:, :, *at] for at in np.ndindex(values.shape[2:])}
    variances = np.diagonal(posterior["feature_cov"].to_numpy(), axis1=2, axis2=3)
    return found | {f"log variance {d}": np.log(variances[..., d]) for d in range(variances.shape[2])}


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_gibbs_agrees_with_nuts():
    """z scores of means, with weights; of some 20 entries a right pair exceeds 5 less than once in 10,000 tests."""
    data = panel(tasks=6, sizes=(2, 3, 3, 2, 4), seed=5)
    data = replace(data, weight=np.repeat(np.tile([1.0, 2.0, 1.0, 1.5, 1.0], 6), np.bincount(data.choice)))
    factory = zoo.NIWLinear(likelihood=LOGIT, delta=5.0)
    options = {"draws": 1500, "tune": 700, "chains": 2, "random_seed": 1, "progress": False}
    gibbs, nuts = (factory.fit(data, method, **options).posterior for method in ("gibbs", "nuts"))
    worst, where = largest_z(quantities(gibbs), quantities(nuts))
    assert worst < 5.0, where


def test_a_killed_run_goes_on(tmp_path):
    """From its checkpoint, with the draws that nothing would have changed."""
    factory, data = zoo.NIWLinear(likelihood=LOGIT), panel()
    options = {"draws": 20, "tune": 10, "chains": 2, "random_seed": 3, "progress": False}
    whole = factory.fit(data, "gibbs", **options)
    stored = factory.fit(data, "gibbs", **options, checkpoint=tmp_path / "run.zarr")
    np.testing.assert_array_equal(whole.posterior["coefficients"], stored.posterior["coefficients"])


def test_order_of_rows_means_nothing():
    """The same rows in another order have the same posterior: modes and population agree."""
    data, factory = panel(tasks=4, sizes=(3, 2, 4)), zoo.NIWLinear(likelihood=LOGIT, scale_matrix=1.0)
    order = np.random.default_rng(0).permutation(data.n_rows)
    kernels = [factory.gibbs_kernel(d, np.where(d.y > 0, 1.0, -1.0)) for d in (data, data.take(order))]
    first, second = (kernel._reference for kernel in kernels)
    covs = [
        kernel._basis[0] @ ref.cov @ kernel._basis[0].T
        for kernel, ref in zip(kernels, (first, second), strict=True)
    ]
    # Stochastic EM draws other numbers for tasks in another basis: near, and not equal.
    np.testing.assert_allclose(covs[0], covs[1], rtol=0.5, atol=0.15)
    w = np.ones(2)
    dense = [
        log_density(kernel._choices, 0, 12, kernel._basis[0].T @ w) for kernel in kernels
    ]  # fmt: skip
    assert dense[0] == pytest.approx(dense[1], rel=1e-12)


@pytest.mark.parametrize("informed", [True, False])
def test_the_conditional_law_of_a_task_by_importance_sampling(informed):
    """A task given its population: mean by the kernel's moves and by draws of the prior weighted by the likelihood."""
    given = choices()
    moves = ChoiceMoves(given, reference_of(given, 1.0, 5.0))
    rng, mu, cov = np.random.default_rng(2), np.array([0.3, -0.2, 0.1]), np.diag([1.0, 0.5, 2.0])
    W, kept, density = np.zeros((2, 3)), [], np.empty(2)
    _densities(given, W, density)
    for turn in range(20_000):
        _move_tasks(
            rng, given, moves.reference, mu, np.linalg.inv(cov), W, density, informed and turn % 5 > 0
        )
        kept.append(W.copy())
    found = np.mean(kept, axis=0)
    draws = multivariate_normal(mu, cov).rvs(100_000, random_state=rng)
    for t, (first, last) in enumerate(((0, 2), (2, 5))):
        weight = np.exp([log_density(given, first, last, w) for w in draws])
        expected = weight @ draws / weight.sum()
        # Standard errors are about 0.01 on both sides: a right move is off by 0.08 once in a million tests.
        np.testing.assert_allclose(found[t], expected, atol=0.08)


@LAWS
def test_the_prior_of_the_factor_is_that_of_the_covariance(pi, own):
    """Densities of C and of the mean, with the Jacobian of C = L L' by differences."""
    rng, nu, at = np.random.default_rng(4), 7.0, np.tril_indices(3)

    def by_scipy(L, mu):
        columns = []
        for i, j in zip(*at, strict=True):
            step = np.zeros((3, 3))
            step[i, j] = 1e-6
            columns.append((((L + step) @ (L + step).T - (L - step) @ (L - step).T) / 2e-6)[at])
        C = L @ L.T
        of_mean = multivariate_normal(np.zeros(3), C / pi if pi else np.diag(1.0 / own))
        density = invwishart(7.0, np.eye(3)).logpdf(C) + of_mean.logpdf(mu)
        return density + np.linalg.slogdet(np.array(columns))[1]

    draws = []
    for _ in range(3):
        L = np.tril(rng.standard_normal((3, 3)))
        np.fill_diagonal(L, rng.uniform(0.4, 1.5, 3))
        draws.append((L, rng.standard_normal(3)))
    gaps = [_log_prior(L, mu, nu, pi, own) - by_scipy(L, mu) for L, mu in draws]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6)


def test_densities_are_those_of_the_coefficients():
    given, rng = choices(), np.random.default_rng(5)
    moves = ChoiceMoves(given, reference_of(given, 1.0, 5.0))
    W, mean, P = np.zeros((2, 3)), np.zeros(3), np.eye(3)
    for _ in range(5):
        moves.population(rng, W, mean, P, 5.0, MeanLaw(1.0, np.zeros(3)))
        move_population(
            rng, given, np.zeros(3), np.eye(3), W, mean, P, 5.0, MeanLaw(1.0, np.zeros(3)), moves.density
        )
        fresh = np.empty(2)
        _densities(given, W, fresh)
        np.testing.assert_array_equal(moves.density, fresh)

"""Vecchia's approximation as an engine: evidence, gradient, neighbours, moments and draws against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from zoo.latent.vecchia import Rows, evidence, in_blocks
from zoo.latent.vecchia_conditional import joint_law, moments
from zoo.latent.vecchia_features import evidence_with_features
from zoo.latent.vecchia_neighbours import nearest_before, nearest_rows, spread_ties
from zoo.latent.vecchia_order import order_rows
from zoo.latent.vecchia_terms import CONSTANT, KINDS, LINEAR, Terms, _exponentials

N, D = 40, 3


def correlation(word, r):
    u = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}.get(word, 0.0) ** 0.5 * r
    return {
        "matern12": np.exp(-u),
        "matern32": (1 + u) * np.exp(-u),
        "matern52": (1 + u + u**2 / 3) * np.exp(-u),
        "squared_exponential": np.exp(-0.5 * r**2),
    }[word]


def ints(*values):
    return np.array(values, dtype=np.int64)


# Two stationary terms over different columns and features, one with an amplitude per feature, and a constant one.
def linear_terms(first="matern32", second="matern52"):
    return Terms(
        ints(KINDS[first], KINDS[second], CONSTANT), ints(0, 2, 3, 3), ints(0, 1, 1), ints(0, 1, 2), ints(0, 2, 4, 7),
        ints(0, 2, 0, 1, 0, 1, 2), ints(3, 4, 5, 5, 6, 6, 6), np.array([False, True, True]), LINEAR, ints(), 7,
    )  # fmt: skip


def linear_covariance(theta, a, b, first="matern32", second="matern52"):
    (x, t), (z, s), v = a, b, np.exp(theta)
    k1 = correlation(first, cdist(t / v[:2], s / v[:2]))
    k2 = correlation(second, cdist(t[:, 1:] / v[2], s[:, 1:] / v[2]))
    own = v[3] ** 2 * np.outer(x[:, 0], z[:, 0]) + v[4] ** 2 * np.outer(x[:, 2], z[:, 2])
    return k1 * own + v[5] ** 2 * k2 * (x[:, :2] @ z[:, :2].T) + v[6] ** 2 * x @ z.T


# One term over t and a constant one, times a correlation of the features with a lengthscale each.
def product_terms(inner="matern52"):
    return Terms(
        ints(KINDS["matern32"], CONSTANT), ints(0, 2, 2), ints(0, 1), ints(0, 1), ints(0, 1, 2), ints(0, 0), ints(2, 3),
        np.array([True, True]), KINDS[inner], ints(4, 5, 6), 7,
    )  # fmt: skip


def product_covariance(theta, a, b, inner="matern52"):
    (x, t), (z, s), v = a, b, np.exp(theta)
    over_t = v[2] ** 2 * correlation("matern32", cdist(t / v[:2], s / v[:2])) + v[3] ** 2
    return over_t * correlation(inner, cdist(x / v[4:7], z / v[4:7]))


CASES = {
    "linear": (linear_terms(), linear_covariance),
    "rough": (
        linear_terms("matern12", "squared_exponential"),
        lambda *v: linear_covariance(*v, "matern12", "squared_exponential"),
    ),
    "product": (product_terms(), product_covariance),
    "smooth product": (
        product_terms("squared_exponential"),
        lambda *v: product_covariance(*v, "squared_exponential"),
    ),
}
each_case = pytest.mark.parametrize("case", CASES)
THETA = np.array([-0.6, -0.3, -0.5, -0.2, 0.1, -0.4, -0.9, -0.7])


def points(n=N, seed=3):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, D - 1))])
    return x, rng.uniform(0.0, 2.0, (n, 2))


def rows_of(case="linear", n=N, seed=3, weight=None):
    x, t = points(n, seed)
    y = np.random.default_rng(seed + 1).standard_normal(n)
    return Rows(CASES[case][0], x, t, y, weight)


def dense(case, theta, rows):
    points = (rows.x, rows.t)
    return CASES[case][1](theta, points, points) + np.diag(np.exp(2 * theta[7]) / rows.weight)


def differences(function, theta, step=1e-5):
    unit = np.eye(len(theta))
    return np.array([(function(theta + step * e) - function(theta - step * e)) / (2 * step) for e in unit])


# ---------------------------------------------------------------- evidence


def test_exponentials():
    u = np.concatenate([np.linspace(0.0, 60.0, 5001), [0.0, 1e-300, 699.0]])
    found = u.copy()
    _exponentials(found, np.zeros(len(u), dtype=np.int64), 0, len(u))
    assert_allclose(found, np.exp(-u), rtol=2e-15)


@each_case
def test_all_rows_before_give_the_exact_evidence_and_gradient(case):
    rows = rows_of(case)
    value, gradient = evidence(rows, THETA, nearest_before(rows.t, N - 1))

    def exact(theta):
        return stats.multivariate_normal(cov=dense(case, theta, rows)).logpdf(rows.y)

    assert value == pytest.approx(exact(THETA), abs=1e-10)
    assert_allclose(gradient, differences(exact, THETA), atol=1e-7)


def by_hand(case, theta, rows, neighbours):
    K, total = dense(case, theta, rows), 0.0
    for i, near in enumerate(neighbours):
        c = near[near >= 0]
        w = np.linalg.solve(K[np.ix_(c, c)], K[c, i])
        total += stats.norm.logpdf(rows.y[i], w @ rows.y[c], np.sqrt(K[i, i] - w @ K[c, i]))
    return total


@each_case
def test_few_neighbours_are_the_product_of_conditional_laws(case):
    rows = rows_of(case)
    near = nearest_before(rows.t, 6)
    value, gradient = evidence(rows, THETA, near)
    assert value == pytest.approx(by_hand(case, THETA, rows, near), abs=1e-10)
    expected = differences(lambda theta: by_hand(case, theta, rows, near), THETA)
    assert_allclose(gradient, expected, atol=1e-7)


def test_weights_are_powers_of_the_density():
    """Of a row of weight h the density counts h times: two rows alike are one of weight 2."""
    weight = np.ones(N)
    weight[[3, 7]] = 2.0
    rows = rows_of("linear", weight=weight)
    again = np.concatenate([np.arange(N), [3, 7]])
    double = Rows(rows.terms, rows.x[again], rows.t[again], rows.y[again])
    value, gradient = evidence(rows, THETA, nearest_before(rows.t, N - 1))
    other, slopes = evidence(double, THETA, nearest_before(double.t, N + 1))
    assert value == pytest.approx(other, abs=1e-8)
    assert_allclose(gradient, slopes, atol=1e-7)


def test_divergence_falls_with_the_number_of_neighbours():
    """KL(exact, approximation) is the difference of the entropy terms: it falls with nested neighbours, to 0."""
    rng = np.random.default_rng(5)
    n = 150
    t = rng.uniform(0.0, 4.0, (n, 2))
    terms = linear_terms()
    rows = Rows(terms, np.ones((n, D)), t, np.zeros(n))
    K = dense("linear", THETA, rows)
    exact = -0.5 * np.linalg.slogdet(K)[1]
    found = []
    for m in (1, 2, 4, 8, 16, 32, n - 1):
        # With y = 0 the evidence is minus half the logarithm of the determinant, which is all that KL needs.
        value, _ = evidence(rows, THETA, nearest_before(t, m))
        found.append(exact - value - 0.5 * n * np.log(2 * np.pi))
    assert np.all(np.diff(found) < 0.0)
    assert found[0] > 1.0
    assert abs(found[-1]) < 1e-9


def test_terms_of_some_rows_are_unbiased():
    rows = rows_of()
    near = nearest_before(rows.t, 6)
    parts = [evidence(rows, THETA, near, np.arange(s, N, 4)) for s in range(4)]
    whole = evidence(rows, THETA, near)
    assert np.mean([part[0] for part in parts]) == pytest.approx(whole[0])
    assert_allclose(np.mean([part[1] for part in parts], axis=0), whole[1])


def test_threads_change_no_bit():
    rows = rows_of(n=700)
    near = nearest_before(rows.t, 10)
    one, two = evidence(rows, THETA, near, threads=1), evidence(rows, THETA, near, threads=2)
    assert one[0] == two[0]
    assert np.array_equal(one[1], two[1])
    t = np.ascontiguousarray(points(100, 6)[1])
    places = nearest_rows(cKDTree(rows.t), t, 9)
    laws = [
        joint_law(rows, THETA, points(100, 6)[0], t, places, nearest_before(t, 8), threads)
        for threads in (1, 2)
    ]
    white = np.random.default_rng(0).standard_normal((2, 100))
    assert np.array_equal(laws[0].draws(white), laws[1].draws(white))
    features = np.random.default_rng(1).standard_normal((700, 3))
    shared = [evidence_with_features(rows, THETA, near, features, np.zeros(3), threads=n) for n in (1, 2)]
    assert shared[0].value == shared[1].value
    assert np.array_equal(shared[0].slopes, shared[1].slopes)
    assert in_blocks(300, lambda a, b: (a, b), 3) == [(0, 128), (128, 256), (256, 300)]


def test_a_singular_matrix_raises():
    rows = Rows(linear_terms(), np.ones((5, D)), np.zeros((5, 2)), np.arange(5.0))
    theta = THETA.copy()
    theta[7] = -40.0
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        evidence(rows, theta, nearest_before(spread_ties(rows.t, np.random.default_rng(0)), 4))


# ---------------------------------------------------------------- features that all rows share

FEATURES = np.random.default_rng(8).standard_normal((N, 4))
LOGS = np.array([0.3, -1.0, -30.0, 1.2])


def with_features(theta, logs, rows):
    return dense("linear", theta, rows) + FEATURES @ np.diag(np.exp(logs)) @ FEATURES.T


@pytest.mark.parametrize("weighted", [False, True])
def test_shared_features_are_exact_with_all_rows_before(weighted):
    weight = np.random.default_rng(4).uniform(0.5, 3.0, N) if weighted else None
    rows = rows_of("linear", weight=weight)

    def exact(theta, logs):
        # The density to the power of its weight: a normal law of smaller variance, less its surplus.
        value = stats.multivariate_normal(cov=with_features(theta, logs, rows)).logpdf(rows.y)
        return value - rows.beyond(theta)

    found = evidence_with_features(rows, THETA, nearest_before(rows.t, N - 1), FEATURES, LOGS, threads=2)
    assert found.value == pytest.approx(exact(THETA, LOGS), abs=1e-9)
    assert_allclose(found.slopes, differences(lambda v: exact(v, LOGS), THETA), atol=1e-6)
    assert_allclose(found.variance_slopes, differences(lambda v: exact(THETA, v), LOGS), atol=1e-6)
    K = with_features(THETA, LOGS, rows)
    assert_allclose(found.mode.w, np.exp(LOGS) * (FEATURES.T @ np.linalg.solve(K, rows.y)), atol=1e-9)


@pytest.mark.parametrize("some", [None, np.arange(1, N, 3)])
def test_gradient_with_shared_features_is_that_of_differences(some):
    rows = rows_of()
    near = nearest_before(rows.t, 5)

    def value(theta, logs):
        return evidence_with_features(rows, theta, near, FEATURES, logs, some, gradient=False).value

    found = evidence_with_features(rows, THETA, near, FEATURES, LOGS, some)
    assert_allclose(found.slopes, differences(lambda v: value(v, LOGS), THETA), atol=1e-6)
    assert_allclose(found.variance_slopes, differences(lambda v: value(THETA, v), LOGS), atol=1e-6)


def test_features_without_variance_change_nothing():
    rows = rows_of()
    near = nearest_before(rows.t, 5)
    found = evidence_with_features(rows, THETA, near, FEATURES, np.full(4, -200.0))
    value, gradient = evidence(rows, THETA, near)
    assert found.value == pytest.approx(value, abs=1e-10)
    assert_allclose(found.slopes, gradient, atol=1e-9)


def test_moments_and_draws_with_shared_features():
    """Of r with its neighbours, plus the weights: with all rows the law of a process with both covariances."""
    rows, (x, t) = rows_of(), points(6, 12)
    new = np.random.default_rng(9).standard_normal((6, 4))
    mode = evidence_with_features(rows, THETA, nearest_before(rows.t, N - 1), FEATURES, LOGS).mode
    left = Rows(rows.terms, rows.x, rows.t, rows.y - FEATURES @ mode.w)
    near = nearest_rows(cKDTree(rows.t), t, N)
    mean, variance, explained = moments(left, THETA, x, t, np.arange(7), near, features=FEATURES)
    mean = mean + new @ mode.w
    variance = variance + np.sum(mode.half((new - explained).T) ** 2, axis=0)

    S = np.diag(np.exp(LOGS))
    cross = linear_covariance(THETA, (x, t), (rows.x, rows.t)) + new @ S @ FEATURES.T
    solved = np.linalg.solve(with_features(THETA, LOGS, rows), cross.T).T
    cov = linear_covariance(THETA, (x, t), (x, t)) + new @ S @ new.T - solved @ cross.T
    assert_allclose(mean, solved @ rows.y, atol=1e-9)
    assert_allclose(variance, np.diag(cov), atol=1e-9)

    law = joint_law(left, THETA, x, t, near, nearest_before(t, 5), features=FEATURES)
    # Draws are linear in all standard normal numbers: the columns of a root of their covariance.
    white = np.eye(10)
    moved = mode.spread(np.ascontiguousarray(white[:, 6:].T)).T
    root = law.draws(white[:, :6], moved) + moved @ new.T - law.draws(np.zeros((1, 6)))
    assert_allclose(root.T @ root, cov, atol=1e-6)


# ---------------------------------------------------------------- neighbours and orders


@pytest.mark.parametrize("n, m", [(1, 3), (2, 3), (9, 8), (60, 7), (500, 20), (500, 1)])
def test_nearest_before(n, m):
    t = np.random.default_rng(n).standard_normal((n, 2))
    found = nearest_before(t, m)
    assert found.shape == (n, min(m, n - 1))
    for i in range(n):
        expected = np.argsort(np.sum((t[:i] - t[i]) ** 2, axis=1))[:m]
        assert_allclose(found[i, : len(expected)], expected)
        assert np.all(found[i, len(expected) :] == -1)


HOSTILE = {
    "all equal": lambda rng: np.zeros((3000, 2)),
    "a line": lambda rng: np.column_stack([np.arange(3000.0), np.zeros(3000)]),
    "many duplicates": lambda rng: rng.integers(0, 3, (3000, 2)).astype(float),
    "one far point": lambda rng: np.vstack([rng.standard_normal((2999, 2)), [[1e9, -1e9]]]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_places(name):
    """Neighbours are rows before each, all different, and none further than another row that is left out."""
    rng = np.random.default_rng(1)
    t = HOSTILE[name](rng)[rng.permutation(3000)]
    found = nearest_before(spread_ties(t, rng), 10)
    for i in (1, 5, 12, 300, 1500, 2999):
        near = found[i][found[i] >= 0]
        assert len(set(near)) == min(i, 10)
        assert np.all(near < i)
        distances = np.linalg.norm(t[:i] - t[i], axis=1)
        assert np.max(distances[near]) <= np.sort(distances)[len(near) - 1] + 1e-6
    rows = Rows(linear_terms(), np.ones((3000, D)), t, rng.standard_normal(3000))
    value, gradient = evidence(rows, THETA, found)
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


def test_a_million_equal_places_take_no_longer_than_others():
    """A tree of equal places would be one leaf: this test would run for hours."""
    places = spread_ties(np.zeros((200_000, 2)), np.random.default_rng(0))
    assert nearest_before(places, 5).shape == (200_000, 5)


def test_maxmin_order_is_as_far_as_can_be_from_the_rows_before():
    rng = np.random.default_rng(2)
    t = rng.uniform(size=(80, 2))
    order = order_rows(t, "maxmin", rng)
    assert sorted(order) == list(range(80))
    for i in range(1, 80):
        gaps = cdist(t[order[i:]], t[order[:i]]).min(axis=1)
        assert gaps[0] == pytest.approx(gaps.max())


def test_orders():
    t = np.random.default_rng(0).uniform(size=(30, 2))
    first, again, other = (order_rows(t, "random", np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(ValueError, match='Use ordering="random"'):
        order_rows(np.zeros((100_001, 1)), "maxmin", np.random.default_rng(0))


# ---------------------------------------------------------------- functions at new rows


def _moments(*arguments, **options):
    mean, variance, explained = moments(*arguments, **options)
    assert explained.shape == (len(mean), 0)
    return mean, variance


def exact_law(case, rows, new):
    old = (rows.x, rows.t)
    K, cross = dense(case, THETA, rows), CASES[case][1](THETA, new, old)
    solved = np.linalg.solve(K, cross.T).T
    return solved @ rows.y, CASES[case][1](THETA, new, new) - solved @ cross.T


@each_case
def test_moments_are_exact_with_all_rows(case):
    rows, (x, t) = rows_of(case), points(9, 11)
    t[4:6] = t[3]  # three rows of one place
    places = np.array([0, 1, 2, 3, 6, 7, 8, 9])
    near = nearest_rows(cKDTree(rows.t), t[places[:-1]], N)
    found = _moments(rows, THETA, x, t, places, near, threads=2)
    mean, cov = exact_law(case, rows, (x, t))
    assert_allclose(found, [mean, np.diag(cov)], atol=1e-10)


@each_case
def test_moments_of_few_neighbours(case):
    rows, (x, t) = rows_of(case), points(5, 11)
    near = nearest_rows(cKDTree(rows.t), t, 7)
    found = _moments(rows, THETA, x, t, np.arange(6), near)
    for i, c in enumerate(near):
        part = Rows(rows.terms, rows.x[c], rows.t[c], rows.y[c])
        mean, cov = exact_law(case, part, (x[i : i + 1], t[i : i + 1]))
        assert_allclose([found[0][i], found[1][i]], [mean[0], cov[0, 0]], atol=1e-10)


@each_case
def test_joint_draws_have_the_exact_law_with_all_rows(case):
    rows, (x, t) = rows_of(case), points(8, 12)
    near = nearest_rows(cKDTree(rows.t), t, N)
    law = joint_law(rows, THETA, x, t, near, nearest_before(t, 7), threads=2)
    mean, cov = exact_law(case, rows, (x, t))
    base = law.draws(np.zeros((1, 8)))[0]
    root = law.draws(np.eye(8)) - base  # the recursion is linear: these are the columns of a root
    assert_allclose(base, mean, atol=1e-6)
    assert_allclose(root.T @ root, cov, atol=1e-6)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage(level):
    """Intervals from 15 neighbours at the true parameters, of 2,000 responses that played no part.

    Null: an interval covers with its probability; responses of one field are dependent, so the number that is covered
    is that of 500 independent ones at least. False-alarm rate 0.001 a level.
    """
    rng = np.random.default_rng(17)
    x, t = points(4000, 21)
    t *= 8.0
    near = nearest_before(t, 40)
    rows = Rows(linear_terms(), x, t, np.zeros(4000))
    # A field of the approximation itself with 40 neighbours: nearly the exact law, at the cost of N.
    law = joint_law(
        Rows(linear_terms(), x[:1], t[:1] + 1e6, np.zeros(1)), THETA, x, t, np.zeros((4000, 1), dtype=np.int64), near
    )  # fmt: skip
    y = law.draws(rng.standard_normal((1, 4000)))[0] + np.exp(THETA[7]) * rng.standard_normal(4000)
    rows = Rows(linear_terms(), x[:2000], t[:2000], y[:2000])
    new_x, new_t = np.ascontiguousarray(x[2000:]), np.ascontiguousarray(t[2000:])
    mean, variance = _moments(
        rows, THETA, new_x, new_t, np.arange(2001), nearest_rows(cKDTree(t[:2000]), new_t, 15)
    )
    z = np.abs(y[2000:] - mean) / np.sqrt(variance + np.exp(2 * THETA[7]))
    covered = int(np.mean(z < stats.norm.ppf(0.5 + level / 2)) * 500)
    assert stats.binomtest(covered, 500, level).pvalue > 0.001

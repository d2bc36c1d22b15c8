"""The simulators against their laws.

The statistical checks have a fixed seed, and a false-alarm rate of at most 1e-6 each for a fresh one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zoo import datasets

FALSE_ALARM = 1e-6
Z_LIMIT = stats.norm.isf(FALSE_ALARM / 2)


# ---------------------------------------------------------------- simulators


def random_covariance(rng, dim):
    root = rng.standard_normal((dim, dim + 5))
    return root @ root.T / dim


def assert_one_seed_gives_one_set(simulate):
    """The same seed, as a number or as a generator, gives the same data and truth; another seed gives others."""
    first, truth = simulate(random_seed=7)
    second, again = simulate(random_seed=np.random.default_rng(7))
    other, _ = simulate(random_seed=8)
    np.testing.assert_array_equal(first.y, second.y)
    assert truth.identical(again)
    assert not np.array_equal(first.y, other.y)


def test_simulated_shapes_and_names():
    data, truth = datasets.simulate_matrix_normal(
        n_tasks=3, n_features=2, n_per_task=[4, 1, 7], intercept=True, random_seed=1
    )
    assert data.task_sizes.tolist() == [4, 1, 7]
    assert data.feature_names == ("x0", "x1", "intercept")
    np.testing.assert_array_equal(data.X[:, 2], 1.0)
    assert truth["coefficients"].dims == ("feature", "task") and truth["coefficients"].shape == (3, 3)
    assert truth["feature_cov"].dims == ("feature", "feature_bis")
    assert truth["task_cov"].dims == ("task", "task_bis")
    assert tuple(truth["feature"].values) == tuple(truth["feature_bis"].values) == data.feature_names
    assert tuple(truth["task"].values) == tuple(truth["task_bis"].values) == data.task_names
    for name in ("feature_cov", "task_cov"):
        assert np.linalg.eigvalsh(truth[name].values)[0] > 0


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "hinge"])
@pytest.mark.parametrize("dims", [(1, 1), (1, 3), (4, 1)])
def test_simulated_with_one_task_or_feature(loss, dims):
    data, truth = datasets.simulate_matrix_normal(*dims, loss=loss, random_seed=0)
    assert truth["coefficients"].shape == (dims[1], dims[0])
    assert data.n_rows == 30 * dims[0]


def test_same_seed_same_data():
    assert_one_seed_gives_one_set(datasets.simulate_matrix_normal)


def test_coefficients_are_matrix_normal():
    rng = np.random.default_rng(1)
    D, T = 30, 40
    feature_cov, task_cov = random_covariance(rng, D), random_covariance(rng, T)
    _, truth = datasets.simulate_matrix_normal(
        T, D, n_per_task=1, feature_cov=feature_cov, task_cov=task_cov, random_seed=rng
    )
    np.testing.assert_allclose(truth["feature_cov"], feature_cov)
    np.testing.assert_allclose(truth["task_cov"], task_cov)
    left, right = np.linalg.cholesky(feature_cov), np.linalg.cholesky(task_cov)
    white = np.linalg.solve(right, np.linalg.solve(left, truth["coefficients"].values).T).T
    assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
    # ||white||^2 is chi-square with D T degrees of freedom; a misplaced factor would inflate it.
    assert stats.chi2(D * T).sf(np.sum(white**2)) > FALSE_ALARM / 2
    assert stats.chi2(D * T).cdf(np.sum(white**2)) > FALSE_ALARM / 2


def test_default_covariances_have_identity_mean():
    """The diagonal entry of an inverse-Wishart draw is inverse-gamma((nu - dim + 1) / 2, scale / 2)."""
    entries = [
        datasets.simulate_matrix_normal(2, 3, 1, random_seed=seed)[1]["feature_cov"].values[0, 0]
        for seed in range(300)
    ]
    assert stats.kstest(entries, stats.invgamma(2.0, scale=1.0).cdf).pvalue > FALSE_ALARM


def tube_cdf(e, C, epsilon):
    mass = 2 * epsilon + 1 / C
    tail = np.exp(-2 * C * np.maximum(0.0, np.abs(e) - epsilon)) / (2 * C)
    middle = 0.5 + np.clip(e, -epsilon, epsilon) / mass
    return np.where(np.abs(e) <= epsilon, middle, np.where(e > 0, 1 - tail / mass, tail / mass))


@pytest.mark.parametrize(("C", "epsilon"), [(1.0, 0.1), (0.5, 2.0), (3.0, 0.0)])
def test_tube_noise_follows_its_density(C, epsilon):
    n = 100_000
    data, truth = datasets.simulate_matrix_normal(2, 3, n // 2, C=C, epsilon=epsilon, random_seed=3)
    noise = data.y - np.sum(data.X * truth["coefficients"].values[:, data.task].T, axis=1)
    inside = 2 * epsilon / (2 * epsilon + 1 / C)
    second = inside * epsilon**2 / 3 + (1 - inside) * (epsilon**2 + epsilon / C + 1 / (2 * C**2))
    assert abs(noise.mean()) < Z_LIMIT * np.sqrt(second / n)
    assert abs((noise**2).mean() - second) < Z_LIMIT * (noise**2).std() / np.sqrt(n)
    assert stats.kstest(noise, tube_cdf, args=(C, epsilon)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("C", "margin"), [(1.0, 1.0), (0.2, 2.0)])
def test_hinge_labels_follow_their_law(C, margin):
    n = 100_000
    data, truth = datasets.simulate_matrix_normal(2, 3, n // 2, "hinge", C=C, margin=margin, random_seed=4)
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    f = np.sum(data.X * truth["coefficients"].values[:, data.task].T, axis=1)
    plus = np.exp(-2 * C * np.maximum(0, margin - f))
    minus = np.exp(-2 * C * np.maximum(0, margin + f))
    p = plus / (plus + minus)
    for low, high in [(-np.inf, -1), (-1, -0.3), (-0.3, 0.3), (0.3, 1), (1, np.inf)]:
        chosen = (f > low) & (f <= high)
        assert chosen.sum() > 1000
        excess = np.sum((data.y[chosen] == 1) - p[chosen]) / np.sqrt(np.sum((p * (1 - p))[chosen]))
        assert abs(excess) < Z_LIMIT


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_tasks", 0),
        ("n_tasks", 2.0),
        ("n_features", True),
        ("n_per_task", 0),
        ("n_per_task", [3, 4]),
        ("n_per_task", [3, 4, 0]),
        ("n_per_task", "many"),
        ("loss", "logistic"),
        ("C", 0.0),
        ("C", np.nan),
        ("epsilon", -0.1),
        ("epsilon", "wide"),
        ("margin", -1.0),
        ("feature_cov", np.eye(3)),
        ("feature_cov", -np.eye(2)),
        ("task_cov", np.ones((3, 3))),
        ("task_cov", [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ],
)
def test_bad_argument_is_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        datasets.simulate_matrix_normal(**({"n_tasks": 3, "n_features": 2} | {argument: value}))


# ---------------------------------------------------------------- joint selection


def test_joint_selection_shapes_and_names():
    data, truth = datasets.simulate_joint_selection(3, 4, variances=[1.0, 2.0], n_per_task=[4, 1, 7])
    assert data.task_sizes.tolist() == [4, 1, 7]
    assert data.feature_names == tuple(truth["feature"].values) == ("x0", "x1", "x2", "x3")
    assert data.task_names == tuple(truth["task"].values) == ("task 0", "task 1", "task 2")
    assert truth["coefficients"].dims == ("feature", "task") and truth.attrs == {"noise": 0.04}
    assert truth["relevant"].dtype == bool and truth["relevant"].values.tolist() == [True, True, False, False]
    zero = truth["coefficients"].values == 0.0
    assert zero[2:].all() and not zero[:2].any()


def test_joint_selection_defaults_are_the_papers():
    data, truth = datasets.simulate_joint_selection(random_seed=1)
    assert (data.n_tasks, data.n_features, data.n_rows) == (10, 10, 250)
    assert truth["relevant"].sum() == 5
    assert data.transform is None


def test_joint_selection_has_the_same_data_for_the_same_seed():
    assert_one_seed_gives_one_set(datasets.simulate_joint_selection)


@pytest.mark.parametrize("noise", [0.0, 0.04, 1.0])
def test_joint_selection_follows_its_law(noise):
    variances = np.array([4.0, 0.01])
    data, truth = datasets.simulate_joint_selection(2000, 3, variances, 2, noise, random_seed=5)
    coefficients = truth["coefficients"].values
    for row, variance in zip(coefficients, variances, strict=False):
        assert stats.kstest(row / np.sqrt(variance), "norm").pvalue > FALSE_ALARM
    assert abs(np.corrcoef(coefficients[:2])[0, 1]) < Z_LIMIT / np.sqrt(2000)
    for column in data.X.T:
        assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM
    residual = data.y - np.sum(data.X * coefficients[:, data.task].T, axis=1)
    if noise == 0.0:
        np.testing.assert_allclose(residual, 0.0, atol=1e-14)
    else:
        assert stats.kstest(residual / noise, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_tasks", 0),
        ("n_features", 2.0),
        ("n_per_task", [3, 4]),
        ("variances", 1.0),
        ("variances", []),
        ("variances", [1.0] * 4),
        ("variances", [1.0, 0.0]),
        ("variances", [1.0, np.nan]),
        ("variances", ["large"]),
        ("noise", -0.1),
        ("noise", np.inf),
        ("noise", "loud"),
    ],
)
def test_bad_argument_of_joint_selection_is_named(argument, value):
    settings = {"n_tasks": 3, "n_features": 3, "variances": [1.0]} | {argument: value}
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        datasets.simulate_joint_selection(**settings)


# ---------------------------------------------------------------- conjoint


def test_conjoint_shapes_and_names():
    data, truth = datasets.simulate_conjoint(3, 10, levels=(2, 3), random_seed=1)
    assert (data.n_tasks, data.n_features, data.task_sizes.tolist()) == (3, 5, [10, 10, 10])
    assert data.task_names == tuple(truth["task"].values) == ("customer 1", "customer 2", "customer 3")
    assert data.feature_names == tuple(truth["feature"].values)
    assert data.feature_names[1:3] == ("attribute 1, level 2", "attribute 2, level 1")
    assert set(data.y) == {-1.0, 1.0}
    # One level of each attribute.
    assert set(np.unique(data.X)) == {0.0, 1.0}
    np.testing.assert_array_equal(data.X[:, :2].sum(axis=1), 1.0)
    np.testing.assert_array_equal(data.X[:, 2:].sum(axis=1), 1.0)


def test_conjoint_defaults_are_the_papers_sizes():
    data, truth = datasets.simulate_conjoint(random_seed=1)
    assert (data.n_tasks, data.n_features, data.n_rows) == (200, 20, 24_000)
    assert data.transform is None
    assert truth.attrs["noise"] == 1.0 and 0.1 < truth.attrs["smallest_error"] < 0.17


def test_conjoint_has_the_same_data_for_the_same_seed():
    first, truth = datasets.simulate_conjoint(20, random_seed=7)
    second, again = datasets.simulate_conjoint(20, random_seed=np.random.default_rng(7))
    other, _ = datasets.simulate_conjoint(20, random_seed=8)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    assert truth.identical(again)
    assert not np.array_equal(first.y, other.y)


def test_conjoint_follows_its_law():
    levels, T, n = (3, 4), 4000, 20
    data, truth = datasets.simulate_conjoint(
        T, n, levels, common=1.5, rank=2, own=0.5, noise=0.7, random_seed=5
    )
    u, mu, covariance = (truth[name].values for name in ("coefficients", "mean", "covariance"))
    for part in (u, mu[:, None], covariance):
        np.testing.assert_allclose(part[:3].sum(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(part[3:].sum(axis=0), 0.0, atol=1e-12)
    assert np.sqrt(np.mean(mu**2)) == pytest.approx(0.85)
    assert np.trace(covariance) == pytest.approx(7 * 1.5**2 + 5 * 0.5**2)
    assert np.linalg.matrix_rank(covariance, tol=1e-8) == 5
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance)[2:5], 0.25, atol=1e-10)
    # Whitened part-worths are standard normal, and independent.
    values, vectors = np.linalg.eigh(covariance)
    z = (vectors[:, 2:] / np.sqrt(values[2:])).T @ (u - mu[:, None])
    for row in z:
        assert stats.kstest(row, "norm").pvalue > FALSE_ALARM
    correlation = np.corrcoef(z)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < Z_LIMIT / np.sqrt(T)
    assert stats.chisquare(data.X[:, :3].sum(axis=0)).pvalue > FALSE_ALARM
    assert stats.chisquare(data.X[:, 3:].sum(axis=0)).pvalue > FALSE_ALARM
    f = np.einsum("nd,dn->n", data.X, u[:, data.task])
    p = 1.0 / (1.0 + np.exp(-f / 0.7))
    # In bands of the probability, as many are bought as should be.
    bands = np.digitize(p, [0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
    for band in np.unique(bands):
        rows = bands == band
        spread = np.sqrt(np.sum(p[rows] * (1 - p[rows])))
        assert abs(np.sum(data.y[rows] > 0) - p[rows].sum()) < Z_LIMIT * spread
    wrong = np.sign(f) != data.y
    assert abs(wrong.mean() - truth.attrs["smallest_error"]) < Z_LIMIT * 0.5 / np.sqrt(data.n_rows)


def test_conjoint_without_differences():
    _, truth = datasets.simulate_conjoint(5, 8, mean=0.0, common=0.0, own=0.0, random_seed=1)
    assert not truth["coefficients"].values.any() and truth.attrs["smallest_error"] == 0.5


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_customers", 0),
        ("n_choices", 1.5),
        ("levels", 7),
        ("levels", []),
        ("levels", [3, 1]),
        ("mean", -1.0),
        ("common", np.nan),
        ("own", "large"),
        ("rank", 0),
        ("noise", 0.0),
    ],
)
def test_bad_argument_of_conjoint_is_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        datasets.simulate_conjoint(**({"n_customers": 3, "n_choices": 4} | {argument: value}))


def test_sizes_go_to_their_tasks_and_unused_parameters_are_refused():
    """A Series in another order was read by position; a tube of the hinge was accepted, and nothing depended on it."""
    for sizes in ({"task 1": 3, "task 0": 9}, pd.Series({"task 1": 3, "task 0": 9}), [9, 3]):
        data, _ = datasets.simulate_matrix_normal(2, 2, sizes, random_seed=1)
        assert np.bincount(data.task).tolist() == [9, 3]
    with pytest.raises(ValueError, match=r"epsilon is 0\.3, and the loss 'hinge'"):
        datasets.simulate_matrix_normal(loss="hinge", epsilon=0.3)
    with pytest.raises(ValueError, match=r"margin is 2\.0, and the loss 'epsilon_insensitive'"):
        datasets.simulate_matrix_normal(margin=2.0)

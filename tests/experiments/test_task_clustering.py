"""Task clustering: EM against densities of scipy, planted clusters, and an optimiser of another kind."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import zoo
from zoo.experiments.task_clustering import Clusters, TaskClustering, expected, maximised
from zoo.experiments.yardsticks import moments


def _simulated(n_tasks=40, n=12, D=3, K=2, apart=3.0, noise=0.5, seed=1):
    """Tasks of K clusters, their data, and the cluster of each."""
    rng = np.random.default_rng(seed)
    cluster = np.arange(n_tasks) % K
    centre = apart * rng.normal(size=(K, D))
    W = centre[cluster] + 0.3 * rng.normal(size=(n_tasks, D))
    task = np.repeat(np.arange(n_tasks), n)
    X = rng.normal(size=(len(task), D))
    y = np.einsum("nd,nd->n", X, W[task]) + noise * rng.normal(size=len(task))
    return zoo.MultiTaskData.from_arrays(X, y, task), centre, cluster, W


@pytest.fixture(scope="module")
def planted():
    return _simulated()


def _clusters(K, D, seed=2):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(K, D, D))
    roots[0, :, -1] = 0.0  # a singular covariance
    return Clusters(rng.dirichlet(np.ones(K)), rng.normal(size=(K, D)), roots @ np.swapaxes(roots, 1, 2), 0.7)


def _log_density(clusters, data):
    """Of the rows of each task in each cluster, (T, K), by the covariance of the rows."""
    return np.array(
        [
            [
                multivariate_normal(
                    data.X[rows] @ mean,
                    clusters.noise * np.eye(len(rows)) + data.X[rows] @ S @ data.X[rows].T,
                ).logpdf(data.y[rows])
                for mean, S in zip(clusters.mean, clusters.covariance, strict=True)
            ]
            for rows in data.rows_by_task()
        ]
    )


class TestSteps:
    def test_likelihood_and_memberships(self, planted):
        data = planted[0]
        clusters = _clusters(3, 3)
        now = expected(clusters, moments(data))
        joint = np.log(clusters.share) + _log_density(clusters, data)
        value = np.logaddexp.reduce(joint, axis=1)
        assert now.log_likelihood == pytest.approx(value.sum(), rel=1e-10)
        np.testing.assert_allclose(now.membership, np.exp(joint - value[:, None]), atol=1e-9)

    def test_moments_of_coefficients(self, planted):
        """By conditioning of the joint normal law of coefficients and rows."""
        data, clusters = planted[0], _clusters(3, 3)
        now = expected(clusters, moments(data))
        for t in (0, 7):
            rows = data.rows_by_task()[t]
            X, y = data.X[rows], data.y[rows]
            for k in range(3):
                S = clusters.covariance[k]
                gain = S @ X.T @ np.linalg.inv(X @ S @ X.T + clusters.noise * np.eye(len(rows)))
                mean = clusters.mean[k] + gain @ (y - X @ clusters.mean[k])
                np.testing.assert_allclose(now.mean[t, k], mean, atol=1e-8)
                np.testing.assert_allclose(now.covariance[t, k], S - gain @ X @ S, atol=1e-8)
        mixed = sum(now.membership[7, k] * now.mean[7, k] for k in range(3))
        np.testing.assert_allclose(now.coefficients[:, 7], mixed)

    def test_the_m_step_is_the_maximum(self, planted):
        """Of the expected complete log likelihood, whose parts are written out here: no other value is better."""
        data = planted[0]
        clusters = _clusters(2, 3)
        clusters = clusters._replace(covariance=clusters.covariance + 0.5 * np.eye(3))
        now = expected(clusters, moments(data))
        best = maximised(now, moments(data))

        def complete(clusters):
            value = 0.0
            for t, rows in enumerate(data.rows_by_task()):
                X, y = data.X[rows], data.y[rows]
                for k in range(2):
                    mu, V = now.mean[t, k], now.covariance[t, k]
                    inverse = np.linalg.inv(clusters.covariance[k])
                    apart = mu - clusters.mean[k]
                    error = ((y - X @ mu) ** 2).sum() + np.trace(X @ V @ X.T)
                    value += now.membership[t, k] * (
                        np.log(clusters.share[k])
                        - 0.5 * np.linalg.slogdet(clusters.covariance[k])[1]
                        - 0.5 * (np.trace(inverse @ V) + apart @ inverse @ apart)
                        - 0.5 * len(rows) * np.log(clusters.noise)
                        - 0.5 * error / clusters.noise
                    )
            return value

        top, h = complete(best), 1e-4
        rng = np.random.default_rng(3)
        for _ in range(5):
            turn = rng.normal(size=(2, 3, 3))
            for sign in (h, -h):
                for other in (
                    best._replace(share=best.share + np.array([sign, -sign])),
                    best._replace(mean=best.mean + sign * rng.normal(size=(2, 3))),
                    best._replace(covariance=best.covariance + sign * (turn + np.swapaxes(turn, 1, 2))),
                    best._replace(noise=best.noise + sign),
                ):
                    assert complete(other) < top

    def test_no_step_lowers_the_likelihood(self, planted):
        rows = moments(planted[0])
        clusters = _clusters(4, 3, seed=5)
        values = []
        for _ in range(40):
            now = expected(clusters, rows)
            values.append(now.log_likelihood)
            clusters = maximised(now, rows)
        assert (np.diff(values) > -1e-8).all() and values[-1] > values[0] + 100


class TestFits:
    def test_planted_clusters(self, planted):
        data, centre, cluster, _ = planted
        fitted = TaskClustering(tolerance=1e-6).learn(data, 2)
        found = fitted.expected.membership.argmax(axis=1)
        found = found if found[0] == cluster[0] else 1 - found
        np.testing.assert_array_equal(found, cluster)
        first = int(fitted.expected.membership[0].argmax())
        means = fitted.clusters.mean[[first, 1 - first]]
        np.testing.assert_allclose(means, centre, atol=0.35)
        np.testing.assert_allclose(fitted.clusters.share, 0.5, atol=1e-6)
        assert fitted.clusters.noise == pytest.approx(0.25, rel=0.2)
        one = TaskClustering(tolerance=1e-6).learn(data, 1)
        assert fitted.trace[-1] > one.trace[-1] + 20
        assert (np.diff(fitted.trace) > -1e-8).all()

    def test_clusters_help_where_rows_are_few(self):
        """Neighbours in a cluster tell more of a task than the law of all tasks does."""
        data, _, _, W = _simulated(n=4, n_tasks=80)
        error = [np.linalg.norm(TaskClustering().fit(data, K).T - W) for K in (1, 2)]
        assert error[1] < 0.85 * error[0]

    def test_one_cluster_by_an_optimiser(self):
        """The same maximum of the likelihood of rows, by gradients of scipy over a Cholesky factor."""
        data, *_ = _simulated(n_tasks=15, n=6, D=2, K=1)
        fitted = TaskClustering(tolerance=1e-10, max_steps=5000).learn(data, 1)

        def minus(theta):
            factor = np.array([[theta[2], 0.0], [theta[3], theta[4]]])
            clusters = Clusters(np.ones(1), theta[None, :2], (factor @ factor.T)[None], np.exp(theta[5]))
            return -_log_density(clusters, data).sum()

        found = minimize(minus, [0.0, 0.0, 1.0, 0.0, 1.0, 0.0], method="BFGS")
        assert fitted.trace[-1] == pytest.approx(-found.fun, abs=1e-4)
        np.testing.assert_allclose(fitted.clusters.mean[0], found.x[:2], atol=2e-3)
        factor = np.array([[found.x[2], 0.0], [found.x[3], found.x[4]]])
        np.testing.assert_allclose(fitted.clusters.covariance[0], factor @ factor.T, atol=5e-3)
        assert fitted.clusters.noise == pytest.approx(np.exp(found.x[5]), rel=1e-2)

    def test_shrinks_to_the_mean_where_tasks_have_few_rows(self, planted):
        data, _, _, W = planted
        few = data.take(np.arange(data.n_rows) % 12 < 2)  # fewer rows than features
        fit = TaskClustering().fit(few, 2.0)
        assert fit.shape == (3, 40)
        assert np.abs(fit.T - W).mean() < 0.5

    def test_what_is_refused(self, planted):
        data = planted[0]
        for C, message in (
            (0, "number of clusters, is 0"),
            (1.5, "number of clusters, is 1.5"),
            (41, "has 40 tasks"),
        ):
            with pytest.raises(ValueError, match=message):
                TaskClustering().fit(data, C)
        with pytest.raises(ValueError, match="starts is 0"):
            TaskClustering(starts=0)
        exact = zoo.MultiTaskData.from_arrays(data.X, data.X.sum(axis=1), data.task)
        with pytest.raises(ValueError, match="train: all tasks are fitted without error"):
            TaskClustering(tolerance=1e-12, max_steps=10_000).fit(exact, 1)
        with pytest.raises(ValueError, match="y is 0 in every row"):
            TaskClustering().fit(zoo.MultiTaskData.from_arrays(data.X, 0.0 * data.y, data.task), 1)
        heavy = zoo.MultiTaskData.from_arrays(data.X, data.y, data.task, weight=np.ones(data.n_rows))
        with pytest.raises(ValueError, match="weight"):
            TaskClustering().fit(heavy, 1)

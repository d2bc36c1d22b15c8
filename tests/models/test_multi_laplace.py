"""Gaussian processes with sparse relevances: modes, predictions, new tasks and the posterior."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import zoo
from tests.comparisons import mean_and_error
from tests.models.laplace_evidence import WORDS, covariance, direct
from zoo.inference.ard.correlation import Parameters
from zoo.inference.ard.evidence import KERNELS, TaskInputs, evidence
from zoo.inference.ard.proximal_conditions import kkt_residual

# ---------------------------------------------------------------- the mode


@pytest.fixture(scope="module")
def ratings():
    """Six tasks, two of four features matter."""
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(6), 12)
    X = rng.standard_normal((72, 4)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 1.0, 5.0, -1.0]
    w = np.zeros((6, 4))
    w[:, :2] = rng.standard_normal((6, 2)) * [1.0, 0.4]
    y = 3.0 + 2.0 * (np.einsum("nd,nd->n", X, w[task]) + 0.3 * rng.standard_normal(72))
    return zoo.MultiTaskData.from_arrays(X, y, task, feature_names=list("abcd"))


def penalised(theta, data, factory, word):
    """Eq (11) written out: -log evidence + B noise + C sum of norms, of kappa (D, T) and noise variances."""
    kappa, noise = theta
    parameters = Parameters(kappa.T, noise, np.ones(len(noise)))
    value = -direct(word, data.X, data.task, data.y, parameters, factory.constant_variance).sum()
    return value + factory.noise_rate * noise.sum() + factory.penalty * np.linalg.norm(kappa, axis=1).sum()


@pytest.mark.parametrize("word", WORDS)
def test_mode_satisfies_the_conditions(word, ratings):
    factory = zoo.MultiLaplaceGP(kernel=word, penalty=3.0, noise_rate=2.0)
    data = ratings.standardize()
    fit = factory.fit(data, "map", progress=False)
    stats, point = fit.idata["sample_stats"], fit.posterior.isel(chain=0, draw=0)
    assert stats.attrs["converged"] == 1
    assert stats.attrs["kkt"] < 1e-6
    trace = stats["objective"].to_numpy()[0]
    assert np.all(np.diff(trace) <= 1e-9)
    kappa, noise = point["kappa"].to_numpy(), point["noise"].to_numpy() ** 2
    reached = penalised((kappa, noise), data, factory, word)
    np.testing.assert_allclose(reached, trace[-1], rtol=1e-9)
    # The conditions again, from derivatives of the function written out.
    step, slope = 1e-5, np.empty((6, 5))
    smooth = replace(factory, penalty=0.0)
    theta = np.column_stack([kappa.T, noise])
    for at in np.ndindex(6, 5):
        # Three-point formulas; at zero one-sided, for there is nothing below.
        points, weights = ((0, 1, 2), (-1.5, 2.0, -0.5)) if theta[at] == 0.0 else ((-1, 1), (-0.5, 0.5))
        values = []
        for k in points:
            moved = theta.copy()
            moved[at] += k * step
            values.append(penalised((moved[:, :4].T, moved[:, 4]), data, smooth, word))
        slope[at] = np.dot(weights, values) / step
    lower = np.array([0.0, 0.0, 0.0, 0.0, 1e-4])
    assert kkt_residual(theta, slope, 3.0, 4, True, lower) < 1e-3  # what differences can tell
    assert np.all(kappa[2:].sum(axis=1) < 0.3 * kappa[:2].sum(axis=1).max())


def test_zeros_and_independence(ratings):
    """A huge C leaves nothing; without one every task is alone, here against L-BFGS task by task."""
    data = ratings.standardize()
    none = zoo.MultiLaplaceGP(kernel="linear", penalty=1e6).fit(data, "map", progress=False)
    assert np.all(none.posterior["kappa"] == 0.0)
    assert not none.relevance()["included"].any()
    factory = zoo.MultiLaplaceGP(kernel="linear", penalty=0.0, noise_rate=2.0, noise_floor=0.1)
    fit = factory.fit(data, "map", progress=False)
    for t, rows in enumerate(data.rows_by_task()):
        X, y, task = data.X[rows], data.y[rows], np.zeros(len(rows), dtype=int)

        def alone(theta, X=X, y=y, task=task):
            parameters = Parameters(theta[None, :4], theta[4:], np.ones(1))
            return 2.0 * theta[4] - direct("linear", X, task, y, parameters, 1.0)[0]

        point = fit.posterior.isel(chain=0, draw=0)
        reached = np.append(point["kappa"].to_numpy()[:, t], point["noise"].to_numpy()[t] ** 2)
        bounds = [(0.0, None)] * 4 + [(0.01, None)]
        best = minimize(alone, reached, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14})
        assert alone(reached) - best.fun < 1e-6  # no descent from there
        start = np.append(np.full(4, 0.25), 0.5)
        again = minimize(alone, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14})
        assert abs(again.fun - alone(reached)) < 1e-4
    independent = replace(factory, ard="independent").fit(data, "map", progress=False)
    np.testing.assert_allclose(independent.posterior["kappa"], fit.posterior["kappa"], rtol=1e-4, atol=1e-6)


def test_random_starts_agree_where_the_penalty_is_large(ratings):
    factory = zoo.MultiLaplaceGP(kernel="linear", penalty=10.0)
    fit = factory.fit(ratings.standardize(), "map", starts=20, random_seed=1, progress=False)
    objectives = fit.idata["sample_stats"].attrs["objectives_of_starts"]
    assert len(objectives) == 20
    assert np.ptp(objectives) < 1e-6 * abs(objectives[0])


def test_path(ratings):
    data = ratings.standardize()
    factory = zoo.MultiLaplaceGP(kernel="linear")
    path = factory.path(data, size=12)
    largest = path.attrs["largest_penalty"]
    assert path["penalty"][0] == largest
    assert path["n_selected"][0] == 0
    assert path["n_selected"][-1] >= 2
    assert float(path["kkt"].max()) < 1e-6
    below = factory.path(data, penalty=[0.99 * largest, 1.01 * largest])
    assert list(below["n_selected"].to_numpy()) == [0, 1]
    first = str(path["feature"][int(np.argmax(path["relevance"].to_numpy()[3]))].to_numpy())
    assert first in "ab"
    with pytest.raises(ValueError, match="penalty is"):
        factory.path(data, penalty=[-1.0])
    with pytest.raises(ValueError, match='no method "map"'):
        zoo.MultiLaplaceGP(prior="horseshoe").path(data)


def test_selection_starts_from_the_fit_before(ratings):
    found = zoo.select(
        zoo.MultiLaplaceGP(kernel="linear"), ratings.standardize(), {"penalty": [100.0, 3.0, 0.1]}, cv=2, method="map",
        n_jobs=1, random_seed=1, progress=False,
    )  # fmt: skip
    assert found.best.penalty in (3.0, 0.1)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_shared_mean_is_at_its_minimum(mean, ratings):
    data = ratings.standardize()
    factory = zoo.MultiLaplaceGP(kernel="linear", penalty=3.0, mean=mean)
    fit = factory.fit(data, "map", progress=False)
    assert fit.idata["sample_stats"].attrs["converged"] == 1
    if mean == "zero":
        assert "mean_coefficients" not in fit.posterior
        return
    point = fit.posterior.isel(chain=0, draw=0)
    found = point["mean_coefficients"].to_numpy()
    parameters = Parameters(
        point["kappa"].to_numpy().T, point["noise"].to_numpy() ** 2, np.ones(data.n_tasks)
    )

    def objective(beta):
        value = direct("linear", data.X, data.task, data.y - data.X @ beta, parameters, 1.0).sum()
        return 0.5 * beta @ beta - value

    assert np.abs(minimize(objective, found).x - found).max() < 1e-4


# ---------------------------------------------------------------- the answer


@pytest.mark.filterwarnings("ignore:no feature is constant")  # of the model of each task alone
def test_relevance_is_told_on_both_scales(ratings):
    """A feature in other units: its kappa on the user's scale follows, nothing else changes."""
    factory = zoo.MultiLaplaceGP(penalty=3.0)
    fit = factory.fit(ratings.standardize(), "map", progress=False)
    scaled = replace(ratings, inputs=ratings.inputs * [1.0, 1000.0, 1.0, 1.0] + [0.0, 5.0, 0.0, 0.0])
    other = factory.fit(scaled.standardize(), "map", progress=False)
    raw = factory.fit(
        replace(scaled.standardize(), transform=None, inputs=scaled.inputs), "map", progress=False
    )
    table, moved = fit.relevance(), other.relevance()
    np.testing.assert_allclose(moved["relevance"], table["relevance"], rtol=1e-5, atol=1e-9)
    factor = np.array([1.0, 1e-6, 1.0, 1.0])[:, None]
    np.testing.assert_allclose(moved["kappa"], table["kappa"] * factor, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(raw.relevance()["kappa"], moved["kappa"], rtol=1e-5, atol=1e-12)
    assert list(table["feature"]) == list("abcd")
    assert table["share"].sum() == pytest.approx(1.0)
    zero = table["relevance"] == 0.0
    assert np.array_equal(table["inclusion"], np.where(zero, 0.0, 1.0))
    # kappa of a linear kernel is a variance of slopes: in squared units of y over those of x.
    linear = zoo.MultiLaplaceGP(kernel="linear", penalty=3.0).fit(
        ratings.standardize(), "map", progress=False
    )
    kept = linear.relevance()
    unit = ratings.standardize().transform
    expected = kept["kappa_standardized"] * (unit.y_scale / unit.x_scale[:, None]) ** 2
    np.testing.assert_allclose(kept["kappa"], expected)
    with pytest.raises(ValueError, match="fits have no `relevance`"):
        zoo.IndependentTasks().fit(ratings.standardize(), draws=2, chains=1, progress=False).relevance()


@pytest.mark.parametrize("word", ["linear", "matern52"])
@pytest.mark.parametrize("ard", ["group", "shared", "pooled"])
def test_predictions_are_the_conditional_law(word, ard, ratings):
    train, test = ratings.take(np.arange(72) % 12 < 9), ratings.take(np.arange(72) % 12 >= 9)
    data = train.standardize()
    factory = zoo.MultiLaplaceGP(kernel=word, penalty=1.0, ard=ard, mean="linear")
    fit = factory.fit(data, "map", progress=False)
    predicted = fit.predict(test, random_seed=1)
    point = fit.posterior.isel(chain=0, draw=0)
    X, beta = data.transform.apply_x(test.X), point["mean_coefficients"].to_numpy()
    for t in range(6):
        new, old = test.task == t, data.task == t if ard != "pooled" else slice(None)
        kappa, sigma = point["kappa"].to_numpy(), point["noise"].to_numpy()
        kappa, sigma = (
            kappa[:, t] if kappa.ndim == 2 else kappa,
            float(sigma[t] if sigma.ndim else sigma),
        )
        A = covariance(word, data.X[old], data.X[old], kappa) + 1.0
        A += sigma**2 * np.eye(len(A))
        k = covariance(word, X[new], data.X[old], kappa) + 1.0
        mean = X[new] @ beta + k @ np.linalg.solve(A, data.y[old] - data.X[old] @ beta)
        prior = np.diag(covariance(word, X[new], X[new], kappa)) + 1.0
        variance = prior - np.diag(k @ np.linalg.solve(A, k.T)) + sigma**2
        scale = data.transform
        np.testing.assert_allclose(predicted["mean"][new], scale.restore_y(mean), rtol=1e-6)
        # 1,000 draws of the noise: relative standard error 2.2%, six of them.
        np.testing.assert_allclose(predicted["sd"][new], np.sqrt(variance) * scale.y_scale, rtol=0.14)


def test_leave_one_out_densities(ratings):
    data = ratings.standardize()
    fit = zoo.MultiLaplaceGP(penalty=3.0).fit(data, "map", progress=False)
    found = fit.compute_log_likelihood()["log_likelihood"]["y"].to_numpy()[0, 0]
    point = fit.posterior.isel(chain=0, draw=0)
    kappa, noise = point["kappa"].to_numpy().T, point["noise"].to_numpy() ** 2
    for row in (0, 17, 71):
        t = data.task[row]
        own = np.flatnonzero(data.task == t)
        others = own[own != row]

        def joint(rows, t=t):
            parameters = Parameters(kappa[[t]], noise[[t]], np.ones(1))
            zeros = np.zeros(len(rows), dtype=int)
            return direct("squared_exponential", data.X[rows], zeros, data.y[rows], parameters, 1.0)[0]

        assert found[row] == pytest.approx(joint(own) - joint(others), rel=1e-8)


# ---------------------------------------------------------------- new tasks


def test_condition_at_a_mode(ratings):
    """The new task's parameters minimise what its rows add to eq (11); the other tasks stay."""
    data = ratings.take(ratings.task < 5)
    data = replace(data, task_names=data.task_names[:5]).standardize()
    new = replace(ratings.take(ratings.task == 5), task=np.zeros(12, dtype=int), task_names=("newcomer",))
    factory = zoo.MultiLaplaceGP(kernel="linear", penalty=3.0, noise_rate=2.0, noise_floor=0.1)
    fit = factory.fit(data, "map", progress=False)
    grown = fit.condition(new.take(np.arange(7)))
    assert grown.data.task_names[-1] == "newcomer"
    before, after = fit.posterior, grown.posterior.isel(task=slice(0, 5))
    np.testing.assert_array_equal(before["kappa"], after["kappa"])
    norms = np.linalg.norm(before["kappa"].to_numpy()[0, 0], axis=1)
    X, y = data.transform.apply_x(new.X[:7]), data.transform.apply_y(new.y[:7])

    def objective(theta):
        parameters = Parameters(theta[None, :4], theta[4:], np.ones(1))
        value = direct("linear", X, np.zeros(7, dtype=int), y, parameters, 1.0)[0]
        return 2.0 * theta[4] + 3.0 * np.sqrt(norms**2 + theta[:4] ** 2).sum() - value

    last = grown.posterior.isel(chain=0, draw=0, task=-1)
    reached = np.append(last["kappa"].to_numpy(), last["noise"].to_numpy() ** 2)
    best = minimize(objective, reached, bounds=[(0.0, None)] * 4 + [(0.01, None)])
    assert objective(reached) - best.fun < 1e-7
    rest = new.take(np.arange(7, 12))
    blind = fit.predict(rest.X, "newcomer", new_task=True, random_seed=1)
    told = grown.predict(rest.X, "newcomer", random_seed=1)
    error = [np.sqrt(np.mean((p["mean"].to_numpy() - rest.y) ** 2)) for p in (blind, told)]
    assert error[1] < error[0]
    assert float(told["sd"].mean()) < float(blind["sd"].mean())


@pytest.mark.statistical
@pytest.mark.parametrize("ard", ["shared", "independent"])
def test_condition_with_other_ties(ard, ratings):
    data = ratings.standardize()
    fit = zoo.MultiLaplaceGP(kernel="linear", ard=ard).fit(data, "map", progress=False)
    newcomer = replace(ratings.take(ratings.task == 0), task=np.zeros(12, dtype=int), task_names=("copy",))
    grown = fit.condition(newcomer)
    known, copied = (
        grown.predict(ratings.X[:12], name, random_seed=1)["mean"].to_numpy()
        for name in (ratings.task_names[0], "copy")
    )
    np.testing.assert_allclose(known, copied, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="pooled"):
        zoo.MultiLaplaceGP(ard="pooled").fit(data, "map", progress=False).condition(newcomer)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"noise_rate": "some"}, "noise_rate is 'some'"),
        ({"kernel": "periodic"}, "kernel"),
        ({"kernel": "linear", "amplitude": "task"}, "amplitude"),
        ({"ard": "pooled", "prior": "horseshoe"}, "horseshoe"),
        ({"noise_floor": -0.1}, "noise_floor"),
        ({"mean": "cubic"}, "mean"),
    ],
)
def test_fields_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        zoo.MultiLaplaceGP(**fields)


def test_methods_say_what_they_need(ratings):
    data = ratings.standardize()
    with pytest.raises(ValueError, match="no useful mode"):
        zoo.MultiLaplaceGP(penalty="learned").fit(data, "map")
    with pytest.raises(ValueError, match="penalty is 0"):
        zoo.MultiLaplaceGP(penalty=0.0).fit(data, "nuts")
    assert list(zoo.MultiLaplaceGP().methods) == ["map", "nuts"]
    assert list(zoo.MultiLaplaceGP(noise_rate="learned").methods) == ["nuts"]
    with pytest.raises(TypeError, match="kernel is a int"):
        zoo.MultiLaplaceGP(kernel=3)


def test_constant_features_take_no_part(ratings):
    constant = replace(ratings, inputs=ratings.inputs.copy()).standardize()
    constant.inputs[:, 2] = 7.0
    with pytest.warns(UserWarning, match="'c' is constant"):
        fit = zoo.MultiLaplaceGP(kernel="linear").fit(constant, "map", progress=False)
    assert list(fit.relevance()["feature"]) == ["a", "b", "d"]
    assert np.all(np.isfinite(fit.predict(constant)["mean"]))
    silent = zoo.MultiLaplaceGP().fit(ratings.add_intercept().standardize(), "map", progress=False)
    assert "intercept" not in silent.relevance()["feature"]
    zero = replace(constant, inputs=np.zeros_like(constant.inputs))
    with pytest.raises(ValueError, match="constant in every feature"):
        zoo.MultiLaplaceGP().build(zero)


def test_awkward_rows(ratings):
    """Tasks of one row, a constant response, scales far apart, a covariance for other inputs."""
    few = ratings.take(np.r_[0:1, 12:72])
    fit = zoo.MultiLaplaceGP().fit(few.standardize(), "map", progress=False)
    assert np.all(np.isfinite(fit.predict(few)["mean"]))
    flat = ratings.standardize()
    flat.y[:12] = flat.y[0]
    fit = zoo.MultiLaplaceGP(kernel="linear").fit(flat, "map", progress=False)
    assert float(fit.posterior["noise"][0, 0, 0]) == pytest.approx(0.01)
    wild = replace(ratings.standardize(), inputs=ratings.inputs * [1.0, 1e6, 1.0, 1.0], transform=None)
    with pytest.warns(UserWarning, match="'b' has"):
        zoo.MultiLaplaceGP(standardize=False).build(wild)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zoo.MultiLaplaceGP().build(wild)
    with pytest.raises(ValueError, match="input_dim 3"):
        zoo.MultiLaplaceGP(kernel=pm.gp.cov.ExpQuad(3, ls=1.0)).build(ratings.standardize())
    with pytest.warns(UserWarning, match=r"Use data\.standardize"):
        zoo.MultiLaplaceGP().build(replace(ratings, y=ratings.y * 100.0))


# ---------------------------------------------------------------- subclasses


@pytest.mark.statistical
def test_a_covariance_of_the_users_own(ratings):
    """It keeps every method and gives what the word gives."""

    @dataclass(frozen=True, kw_only=True)
    class Own(zoo.MultiLaplaceGP):
        def base_covariance(self, input_dim):
            return pm.gp.cov.ExpQuad(input_dim, ls=1.0)

    data = ratings.standardize()
    own, word = (kind(penalty=3.0).fit(data, "map", progress=False) for kind in (Own, zoo.MultiLaplaceGP))
    np.testing.assert_allclose(own.posterior["kappa"], word.posterior["kappa"], atol=1e-4)
    np.testing.assert_allclose(own.predict(ratings)["mean"], word.predict(ratings)["mean"], rtol=1e-3)


@pytest.mark.statistical
@pytest.mark.scheduled
def test_a_mean_of_the_users_own(ratings):
    """NUTS is left, and predictions follow the mean at known and at new rows."""

    @dataclass(frozen=True, kw_only=True)
    class Steep(zoo.MultiLaplaceGP):
        def mean_function(self, data, priors):
            return 100.0 * data.inputs[:, 0]

    data = ratings.standardize()
    data = replace(data, y=data.y + 100.0 * (data.X[:, 0] - data.X[:, 0].mean()) / data.X[:, 0].std())
    factory = Steep(noise_rate=10.0)
    assert list(factory.methods) == ["nuts"]
    with pytest.warns(UserWarning, match="standardize"):
        fit = factory.fit(data, "nuts", draws=5, tune=20, chains=1, random_seed=1, progress=False)
    error = fit.predict(data)["mean"] - data.original_y()
    assert np.abs(error).max() < 20.0 * data.transform.y_scale


# ---------------------------------------------------------------- the posterior


@pytest.mark.statistical
@pytest.mark.parametrize("word", [pytest.param("linear", marks=pytest.mark.scheduled), "squared_exponential"])
def test_nuts_against_draws_from_the_prior(word):
    """Self-normalised importance sampling from the exact multi-Laplace prior: another engine, another form of it.

    Null: both have the same posterior means. z-scores of 14 quantities, |z| < 5 each: false alarms below 1e-5.
    """
    rng = np.random.default_rng(7)
    task, X = np.repeat(np.arange(3), 4), rng.standard_normal((12, 2))
    y = 0.8 * X[:, 0] * np.array([1.0, -1.0, 0.5])[task] + 0.4 * rng.standard_normal(12)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    factory = zoo.MultiLaplaceGP(kernel=word, penalty=2.0, noise_rate=3.0, standardize=False, noise_floor=0.1)
    fit = factory.fit(data, "nuts", draws=4000, tune=1000, chains=4, random_seed=1, progress=False)
    size = 200_000
    radius = rng.gamma(3.0, 0.5, (size, 2))  # |kappa_i| ~ Gamma(T, C), in a uniform direction of the orthant
    normal = np.abs(rng.standard_normal((size, 2, 3)))
    kappa = radius[..., None] * normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    noise = 0.01 + rng.exponential(1.0 / 3.0, (size, 3))
    inputs = TaskInputs.of(X, task, 3, word == "linear")
    log_weight = np.array(
        [
            evidence(KERNELS[word], *inputs, y, np.ascontiguousarray(k.T), v, np.ones(3), 1.0)[0].sum()
            for k, v in zip(kappa, noise, strict=True)
        ]
    )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 1000
    quantities = np.concatenate(
        [kappa.reshape(size, -1), np.sqrt(noise), np.linalg.norm(kappa, axis=-1), np.log(noise)], axis=1
    )
    mean = weight @ quantities
    error = np.sqrt(weight**2 @ (quantities - mean) ** 2)
    posterior = fit.posterior
    draws = np.concatenate(
        [
            posterior["kappa"].to_numpy().reshape(4, 4000, -1),
            posterior["noise"].to_numpy(),
            np.linalg.norm(posterior["kappa"].to_numpy(), axis=-1),
            2.0 * np.log(posterior["noise"].to_numpy()),
        ],
        axis=2,
    )
    ours = np.array([mean_and_error(draws[..., k]) for k in range(draws.shape[2])])
    z = (ours[:, 0] - mean) / np.hypot(ours[:, 1], error)
    assert np.abs(z).max() < 5.0


@pytest.mark.statistical
def test_condition_of_draws_follows_the_rows(ratings):
    """A task told many rows of one of the data's tasks is predicted as that one; its parameters come from the prior."""
    data = ratings.standardize()
    factory = zoo.MultiLaplaceGP(kernel="linear", prior="horseshoe")
    fit = factory.fit(data, "nuts", draws=40, tune=100, chains=2, random_seed=1, progress=False)
    newcomer = replace(ratings.take(ratings.task == 0), task=np.zeros(12, dtype=int), task_names=("copy",))
    grown = fit.condition(newcomer, random_seed=2)
    assert grown.posterior["kappa"].sizes["task"] == 7
    np.testing.assert_array_equal(grown.posterior["kappa"][..., :6], fit.posterior["kappa"])
    known, copied = (
        grown.predict(ratings.X[:12], name, random_seed=1)["mean"].to_numpy()
        for name in (ratings.task_names[0], "copy")
    )
    assert np.corrcoef(known, copied)[0, 1] > 0.95
    again = fit.condition(newcomer, random_seed=2)
    assert again.posterior.equals(grown.posterior)
    table = fit.relevance()
    assert float(table["inclusion"][:2].min()) > float(table["inclusion"][2:].max()) - 0.2
    assert np.all(table["lower"] <= table["upper"])


def test_collapsed_noise_is_told(caplog):
    """As many parameters as rows: the mode puts all noise at the floor, and says so where it shows its progress."""
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.standard_normal((12, 5)), rng.standard_normal(12), np.repeat(range(4), 3)
    )
    factory = zoo.MultiLaplaceGP(kernel="linear", penalty=0.1, noise_rate=10.0)
    factory.fit(data, "map", progress=False)
    assert not caplog.records
    factory.fit(data, "map")
    assert "is at noise_floor=0.01" in caplog.text


def test_report_of_a_mode(ratings, tmp_path, capsys):
    """The file of a fit gives its report: relevances and the descent."""
    from zoo.cli import main

    fit = zoo.MultiLaplaceGP(kernel="linear", penalty=3.0).fit(ratings.standardize(), "map", progress=False)
    fit.save(tmp_path / "mode.nc")
    assert main(["report", str(tmp_path / "mode.nc"), "--out", str(tmp_path / "report")]) == 0
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"objective_trace.png", "relevance.png", "report.html", "summary.csv"} <= names
    assert "do not apply" in capsys.readouterr().out
    line = zoo.plots.objective_trace(fit).axes[0].lines[0].get_ydata()
    assert np.all(np.diff(line) <= 1e-9)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_condition_draws_the_noise_that_the_labels_tell(scale):
    """The noise of a new task against quadrature, where its functions are constants: kappa vanishes.

    Old tasks have a noise of 0.1 each. The candidates are 64 for each of 600 draws, so the mean of log noise has a
    standard error of 0.02 and what is left of the candidates' coarseness; 0.15 is beyond 6 of them.
    """
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.normal(size=(30, 2)), rng.normal(size=30), np.repeat(["a", "b", "c"], 10)
    )
    factory = zoo.MultiLaplaceGP(mean="zero", noise_rate=0.5, noise_floor=0.05, standardize=False)
    shape = (1, 600)
    posterior = {
        "kappa": np.full((*shape, 2, 3), 1e-12), "kappa_scale": np.full((*shape, 2), 1e-12),
        "noise": np.full((*shape, 3), 0.1),
    }  # fmt: skip
    rows, stats = factory.design(data), {"lp": np.zeros(shape)}
    idata = zoo.core.storage.to_datatree(factory, data, rows, data.y, posterior, stats, "nuts", 0)
    fit = factory.fit_class(factory=factory, data=data, idata=idata, method="nuts")
    y = scale * rng.normal(size=8)
    new = zoo.MultiTaskData.from_arrays(rng.normal(size=(8, 2)), y, ["newcomer"] * 8)
    noise = fit.condition(new, random_seed=1).posterior["noise"].isel(task=3).to_numpy().ravel()
    excess = np.exp(
        np.linspace(np.log(1e-6), np.log(100.0), 4000)
    )  # of the variance over the floor; even in the log
    sigma = np.sqrt(0.05**2 + excess)
    density = np.array([multivariate_normal(cov=1.0 + s**2 * np.eye(8)).logpdf(y) for s in sigma])
    weight = np.exp(density - density.max() - 0.5 * excess) * excess
    expected = np.sum(weight * np.log(sigma)) / weight.sum()
    assert abs(np.log(noise).mean() - expected) < 0.15
    assert abs(expected - np.log(0.1)) > 0.5  # what the old tasks have is far off

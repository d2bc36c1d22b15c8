"""Kernel machines of many tasks: evidence, predictions and modes against formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.stats import multivariate_normal

import zoo
from tests.losses import loss_of
from tests.models.kernel_machines import DRAWS, MACHINES, Machine, points_of, simulated_tasks, smooth_kernel
from zoo.kernels import FeatureMap, MeanRegularised, kernel_matrix
from zoo.likelihoods import Gaussian, Hinge
from zoo.models.kernel_machine.methods import log_evidence
from zoo.models.kernel_machine.sides import space_of


def _space(name):
    machine, make, kind = MACHINES[name]
    data = make()
    space = space_of(machine, machine.design(data), machine.validate(data), aligned=True)
    assert type(space) is kind
    return machine, data, space


def _matrix(machine, data, space, z):
    """The kernel matrix of the rows at hyper-parameters z, by the covariance itself."""
    values = space.values_at(z)
    kernel = machine.covariance_function(values, data)
    return float(values["amplitude"]) ** 2 * kernel_matrix(kernel, points_of(data))


# ---------------------------------------------------------------- evidence


@pytest.mark.parametrize("name", MACHINES)
def test_evidence_is_the_normal_density_and_its_derivative(name):
    machine, data, space = _space(name)
    rng = np.random.default_rng(3)
    z = space.coordinates.start + 0.3 * rng.standard_normal(space.coordinates.size)
    value, gradient = log_evidence(space, z)
    K = _matrix(machine, data, space, z)
    expected = multivariate_normal(cov=K + space.noise_variance(z) * np.eye(len(K))).logpdf(data.y)
    assert value == pytest.approx(expected, abs=1e-7)
    for i in range(len(z)):
        step = 1e-5 * np.eye(len(z))[i]
        difference = (log_evidence(space, z + step)[0] - log_evidence(space, z - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(difference, rel=1e-5, abs=1e-5), i


@pytest.mark.parametrize("name", MACHINES)
def test_exact_predictions_are_the_gaussian_process(name):
    machine, data, space = _space(name)
    fit = machine.fit(data, "exact", **DRAWS)
    draw = fit.posterior.isel(chain=0, draw=0)
    z = space.coordinates.pack(
        {n: draw["feature_cov" if n == "Q" else n].to_numpy() for n in space.coordinates.hypers}
    )
    variance = space.noise_variance(z)
    rng = np.random.default_rng(4)
    X, task = rng.normal(size=(5, data.n_features)), rng.integers(0, data.n_tasks, 5)
    both = np.vstack([points_of(data), np.column_stack([X, task])])
    values = space.values_at(z)
    K = float(values["amplitude"]) ** 2 * kernel_matrix(machine.covariance_function(values, data), both)
    n = data.n_rows
    weights = np.linalg.solve(K[:n, :n] + variance * np.eye(n), K[:n, n:])
    predicted = fit.predict(X, task)
    assert np.allclose(predicted["mean"], weights.T @ data.y, atol=1e-7)
    sd = np.sqrt(np.diag(K)[n:] - np.sum(weights * K[:n, n:], axis=0) + variance)
    assert np.allclose(predicted["sd"], sd, atol=1e-7)
    assert np.allclose(predicted["upper"] - predicted["mean"], 1.6448536 * sd, atol=1e-6)
    # The evidence is at its maximum: no direction of a difference climbs.
    at_most = max(log_evidence(space, z + s * v)[0] for s in (0.05, -0.05) for v in np.eye(len(z)))
    assert at_most <= fit.idata["sample_stats"]["log_evidence"].to_numpy().max() + 1e-6


def test_predictive_draws_are_the_closed_form():
    """Means of 2,000 independent draws at 6 rows against the closed form: 4.5 errors, false alarm 4e-5."""
    for name in ("mean", "smooth"):
        machine, data, _ = _space(name)
        fit = machine.fit(data, "exact", draws=2000, chains=1, random_seed=1, progress=False)
        rng = np.random.default_rng(5)
        X, task = rng.normal(size=(6, data.n_features)), rng.integers(0, 4, 6)
        y = fit.predict_draws(X, task, random_seed=2)["y"].to_numpy()[0]
        expected = fit.predict(X, task)
        z = (y.mean(axis=0) - expected["mean"].to_numpy()) / (y.std(axis=0) / np.sqrt(len(y)))
        assert np.abs(z).max() < 4.5
        assert np.allclose(y.std(axis=0) / expected["sd"], 1.0, atol=4.5 / np.sqrt(2 * len(y)))


@pytest.mark.parametrize("learn", [(), ("ls",)])
def test_draws_at_new_rows_are_joint(learn):
    """Correlations of f between four new rows, near and far, 2,000 draws: standard errors below 0.0224, 5 of them."""
    data = simulated_tasks()
    machine = Machine(
        kernel=smooth_kernel(4, 3, lam=0.4), learn=learn, amplitude=1.0, likelihood=Gaussian(noise=0.5)
    )
    fit = machine.fit(data, "exact", draws=2000, chains=1, random_seed=1, progress=False)
    X = np.array([[0.0, 0.0, 1.0], [0.3, 0.0, 1.0], [6.0, 6.0, 1.0], [-6.0, -6.0, 1.0]])
    f = fit.predict_draws(X, "task 0", random_seed=2)["f"].to_numpy()[0]
    numbers = {name: fit.posterior[name][0, 0].item() for name in learn}
    kernel = zoo.kernels.with_parameters(machine.kernel, numbers)
    both = np.vstack([points_of(data), np.column_stack([X, np.zeros(4)])])
    K, n = kernel_matrix(kernel, both), data.n_rows
    cov = K[n:, n:] - K[n:, :n] @ np.linalg.solve(K[:n, :n] + 0.25 * np.eye(n), K[:n, n:])
    root = np.sqrt(np.diag(cov))
    assert np.abs(np.corrcoef(f.T) - cov / np.outer(root, root)).max() < 0.112
    assert np.allclose(f.std(axis=0) / root, 1.0, atol=0.08)


@pytest.mark.parametrize("scale", [1e-9, 1e10])
def test_any_scale_of_the_response(scale):
    data = simulated_tasks()
    one, two = (
        Machine().fit(replace(data, y=s * data.y), "exact", **DRAWS).predict(data) for s in (1.0, scale)
    )
    assert np.allclose(two["mean"] / scale, one["mean"], atol=1e-4)
    assert np.allclose(two["sd"] / scale, one["sd"], rtol=1e-4)


def test_standardized_data_come_back_on_their_scale():
    data = simulated_tasks()
    large = replace(data, y=100.0 + 20.0 * data.y)
    one = Machine().fit(data.standardize(), **DRAWS).predict(data)
    two = Machine().fit(large.standardize(), **DRAWS).predict(large)
    assert np.allclose(two["mean"], 100.0 + 20.0 * one["mean"], atol=1e-4)
    assert np.allclose(two["sd"], 20.0 * one["sd"], atol=1e-4)


@pytest.mark.parametrize("name", ["mean", "metric", "smooth"])
def test_model_has_the_kernel_as_prior_covariance(name):
    """f is linear in its white variables: its Jacobian times its transpose is the kernel matrix."""
    machine, data, space = _space(name)
    prepared = machine.design(data)
    model, f = machine.assemble(prepared, data.y)
    white = [v for v in model.free_RVs if v.name in ("_own", "_shared", "_values")]
    point = model.initial_point()
    flat = pytensor.tensor.concatenate([v.ravel() for v in white])
    size = int(sum(np.prod(point[v.name].shape) for v in white))
    x = pytensor.tensor.vector("x", dtype="float64")
    replaced, start = {}, 0
    for v in white:
        shape = point[v.name].shape
        n = int(np.prod(shape))
        replaced[v] = x[start : start + n].reshape(shape)
        start += n
    assert flat.ndim == 1
    others = {v: v.type(v.name) for v in model.free_RVs if v not in white}
    graph = pytensor.graph.replace.clone_replace(f, {**replaced, **others})
    function = pytensor.function([x, *others.values()], graph, mode="FAST_COMPILE", on_unused_input="ignore")
    values = {n: h.value for n, h in space.coordinates.hypers.items()}
    given = [
        np.eye(3) if v.name == "_Q_chol" else np.asarray(values[v.name], dtype=np.float64) for v in others
    ]
    columns = np.stack([function(e, *given) for e in np.eye(size)], axis=1)
    K = _matrix(machine, data, space, space.coordinates.start)
    assert np.allclose(columns @ columns.T, K, atol=1e-7)


# ---------------------------------------------------------------- modes


def test_hinge_mode_is_the_machine_on_augmented_features():
    from sklearn.svm import LinearSVC

    data = simulated_tasks("hinge")
    lam, amplitude, C = 0.3, 1.5, 0.7
    fit = Machine(likelihood=Hinge(C=C), lam=lam, amplitude=amplitude).fit(data, "map", tol=1e-9, **DRAWS)
    D, T, X = data.n_features, data.n_tasks, data.X
    blocks = [np.sqrt(1 - lam) * X, *(np.sqrt(lam * T) * X * (data.task == t)[:, None] for t in range(T))]
    Z = amplitude * np.hstack(blocks)
    machine = LinearSVC(C=2 * C, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=1_000_000)
    machine.fit(Z, data.y)
    w = machine.coef_.ravel()
    objective = 2 * C * np.maximum(0, 1 - data.y * (Z @ w)).sum() + 0.5 * w @ w
    assert fit.idata["sample_stats"]["objective"].item() == pytest.approx(objective, rel=1e-6)
    assert np.allclose(fit.predict(data)["mean"], Z @ w, atol=1e-3)
    assert fit.posterior["coefficients"].shape == (1, 1, D, T)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_mode_is_the_same_in_weights_and_in_functions(loss):
    """Kernel (22) written as a feature map has the same values, and no task matrix: another computation."""
    data = simulated_tasks(loss)
    lam, D, T = 0.3, data.n_features, data.n_tasks
    maps = np.zeros((T, (T + 1) * D, D))
    for t in range(T):
        maps[t, :D] = np.sqrt(1 - lam) * np.eye(D)
        maps[t, (t + 1) * D : (t + 2) * D] = np.sqrt(lam * T) * np.eye(D)
    common = {"likelihood": loss_of(loss, epsilon=0.1), "amplitude": 0.8}
    one = Machine(lam=lam, **common).fit(data, "map", tol=1e-9, **DRAWS)
    two = Machine(kernel=FeatureMap(D + 1, maps), **common).fit(data, "map", tol=1e-9, **DRAWS)
    assert "coefficients" in one.posterior
    assert "function_values" in two.posterior
    objectives = [f.idata["sample_stats"]["objective"].item() for f in (one, two)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)
    assert np.allclose(one.predict(data)["mean"], two.predict(data)["mean"], atol=2e-3)


def test_mode_of_the_square_loss_minimises_the_regularised_risk():
    """The corrected eq (15), (K + gamma N I) c = y, with gamma N = noise^2 / amplitude^2."""
    data = simulated_tasks()
    lam, amplitude, noise = 0.4, 0.9, 0.6
    fit = Machine(lam=lam, amplitude=amplitude, likelihood=Gaussian(noise=noise)).fit(data, "exact", **DRAWS)
    K = kernel_matrix(MeanRegularised(data.n_features + 1, data.n_tasks, lam=lam), points_of(data))
    c = np.linalg.solve(K + (noise / amplitude) ** 2 * np.eye(len(K)), data.y)
    assert np.allclose(fit.predict(data)["mean"], K @ c, atol=1e-10)


def test_row_weights_count_rows_more_than_once():
    data = simulated_tasks("hinge")
    whole = np.random.default_rng(6).integers(1, 4, data.n_rows)
    machine = Machine(likelihood="hinge", lam=0.3, amplitude=1.0)
    one = machine.fit(replace(data, weight=whole.astype(float)), "map", tol=1e-9, **DRAWS)
    again = data.take(np.repeat(np.arange(data.n_rows), whole))
    two = machine.fit(again, "map", tol=1e-9, **DRAWS)
    values = [f.idata["sample_stats"]["objective"].item() for f in (one, two)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


# ---------------------------------------------------------------- bad input


def test_evidence_is_never_below_a_special_case():
    """The first of these data sets once led the search to the plateau of amplitude 0, 80 nats below lam = 1."""
    for seed in range(6, 10):
        rng = np.random.default_rng(seed)
        group, centre = np.repeat([0, 1, 2], 10), rng.standard_normal((3, 6))
        u = centre[group] + 0.4 * rng.standard_normal((30, 6))
        task = np.repeat(np.arange(30), 8)
        X = rng.standard_normal((240, 6))
        y = np.sum(X * u[task], axis=1) + rng.standard_normal(240)
        for factor in (1.0, 1e3, 1e-3):
            data = zoo.MultiTaskData.from_arrays(X, factor * y, task)
            found = []
            for machine in (Machine(), Machine(lam=1.0), Machine(lam=0.1)):
                fit = machine.fit(data, "exact", **DRAWS)
                found.append(fit.idata["sample_stats"]["log_evidence"].to_numpy().max())
            assert found[0] >= max(found) - 1e-3


def test_extreme_numbers_end_in_an_answer():
    """The search for the evidence goes far out before it turns: no factorisation may end it."""
    data = simulated_tasks(rows=(40, 40, 40, 40))
    for lam in (1e-7, 1e-6, 3e-6, 1.0):
        fit = Machine(lam=lam).fit(data, "exact", **DRAWS)
        assert np.all(np.isfinite(fit.predict(data)["mean"]))


def test_functions_without_noise_are_interpolated():
    """Between 60 points of a smooth function; noise goes to its bound, and rounding must not decide."""
    x = np.linspace(0.0, 1.0, 60)
    data = zoo.MultiTaskData.from_arrays(x[:, None], np.sin(3.0 * x), np.arange(60) % 2)
    kernel = MeanRegularised(2, 2, lam=0.3, base=pm.gp.cov.ExpQuad(1, ls=0.5))
    machine = Machine(kernel=kernel, learn=("ls",))
    fit = machine.fit(data, "exact", **DRAWS)
    new = np.linspace(0.1, 0.9, 7)
    assert np.abs(fit.predict(new[:, None], "task 0")["mean"] - np.sin(3.0 * new)).max() < 1e-3
    assert np.all(np.isfinite(machine.fit(data, "gibbs", **DRAWS).posterior["noise"]))


def test_few_rows_and_little_noise_in_closed_form():
    """Ten rows of forty features: the evidence is the dense one with little noise too, and learning it ends well.

    Rounding enters with the inverse of the noise variance: 0.06 nats at 1e-5, where the search does not go.
    """
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(10, 40)), np.arange(10) % 2
    X /= np.sqrt(np.mean(X**2, axis=0))  # in units of the default priors
    y = X[:, 0] + 0.1 * rng.normal(size=10)
    data = zoo.MultiTaskData.from_arrays(X, y / np.sqrt(np.mean(y**2)), task)
    K = kernel_matrix(MeanRegularised(n_tasks=2, lam=0.3), points_of(data))
    for noise, error in ((1e-1, 1e-6), (1e-3, 1e-4), (1e-4, 1e-2), (1e-5, 0.5)):
        fit = Machine(lam=0.3, amplitude=1.0, likelihood=Gaussian(noise=noise)).fit(data, "exact", **DRAWS)
        dense = multivariate_normal(cov=K + noise**2 * np.eye(10)).logpdf(data.y)
        assert fit.idata["sample_stats"]["log_evidence"].to_numpy().max() == pytest.approx(dense, abs=error)
    learned = Machine().fit(data, "exact", **DRAWS)
    draw = learned.posterior.isel(chain=0, draw=0)
    K = draw["amplitude"].item() ** 2 * kernel_matrix(
        MeanRegularised(n_tasks=2, lam=draw["lam"].item()), points_of(data)
    )
    dense = multivariate_normal(cov=K + draw["noise"].item() ** 2 * np.eye(10)).logpdf(data.y)
    assert learned.idata["sample_stats"]["log_evidence"].to_numpy().max() == pytest.approx(dense, abs=0.05)

"""Kernel machines of many tasks: against formulas, quadrature, other engines, and a refit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytensor
import pytest
from scipy.stats import multivariate_normal

import zoo
from tests.comparisons import largest_z, mean_and_error
from tests.losses import loss_of
from zoo.datasets import simulate_matrix_normal
from zoo.kernels import ICM, FeatureMap, GraphLaplacian, MeanRegularised, TaskKernel, kernel_matrix
from zoo.latent.coordinates import Hyper
from zoo.latent.task_weights import WeightConditional
from zoo.likelihoods import Gaussian, Hinge
from zoo.likelihoods.resolve import resolve
from zoo.models.kernel_machine.methods import log_evidence
from zoo.models.kernel_machine.sides import space_of
from zoo.models.kernel_machine.spaces import AlignedSpace, FunctionSpace, WeightSpace

Machine = zoo.MultiTaskKernelMachine
DRAWS = {"draws": 20, "tune": 5, "chains": 1, "random_seed": 1, "progress": False}


def _tasks(loss="epsilon_insensitive", T=4, D=2, seed=8, rows=(8, 6, 9, 7)):
    cov = 0.5 * np.eye(D + 1)
    return simulate_matrix_normal(
        T, D, list(rows), loss=loss, intercept=True, feature_cov=cov, task_cov=np.eye(T), random_seed=seed
    )[0]


def _aligned(seed=2):
    rng = np.random.default_rng(seed)
    return zoo.MultiTaskData.from_multilabel(rng.normal(size=(9, 2)), rng.normal(size=(9, 3)).cumsum(axis=1))


def _points(data):
    return np.column_stack([data.X, data.task])


def _smooth(T, D, **parameters):
    return MeanRegularised(D + 1, T, base=pm.gp.cov.Matern52(D, ls=1.5), **parameters)


MACHINES = {
    "mean": (Machine(), _tasks, WeightSpace),
    "metric": (Machine(Q="learned"), _tasks, WeightSpace),
    "graph": (
        Machine(
            kernel=GraphLaplacian(4, np.ones((4, 4)) - np.eye(4), regularisation=0.3),
            learn=("regularisation",),
        ),
        _tasks,
        WeightSpace,
    ),
    "smooth": (Machine(kernel=_smooth(4, 3, lam=0.4), learn=("lam", "ls")), _tasks, FunctionSpace),
    "aligned": (Machine(kernel=_smooth(3, 2, lam=0.4), learn=("lam", "ls")), _aligned, AlignedSpace),
}


def _space(name):
    machine, make, kind = MACHINES[name]
    data = make()
    space = space_of(machine, machine.prepare(data), machine.validate(data), aligned=True)
    assert type(space) is kind
    return machine, data, space


def _matrix(machine, data, space, z):
    """The kernel matrix of the rows at hyper-parameters z, by the covariance itself."""
    values = space.values_at(z)
    kernel = machine.covariance_function(values, data)
    return float(values["amplitude"]) ** 2 * kernel_matrix(kernel, _points(data))


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
    both = np.vstack([_points(data), np.column_stack([X, task])])
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
    data = _tasks()
    machine = Machine(
        kernel=_smooth(4, 3, lam=0.4), learn=learn, amplitude=1.0, likelihood=Gaussian(noise=0.5)
    )
    fit = machine.fit(data, "exact", draws=2000, chains=1, random_seed=1, progress=False)
    X = np.array([[0.0, 0.0, 1.0], [0.3, 0.0, 1.0], [6.0, 6.0, 1.0], [-6.0, -6.0, 1.0]])
    f = fit.predict_draws(X, "task 0", random_seed=2)["f"].to_numpy()[0]
    numbers = {name: fit.posterior[name][0, 0].item() for name in learn}
    kernel = zoo.kernels.with_parameters(machine.kernel, numbers)
    both = np.vstack([_points(data), np.column_stack([X, np.zeros(4)])])
    K, n = kernel_matrix(kernel, both), data.n_rows
    cov = K[n:, n:] - K[n:, :n] @ np.linalg.solve(K[:n, :n] + 0.25 * np.eye(n), K[:n, n:])
    root = np.sqrt(np.diag(cov))
    assert np.abs(np.corrcoef(f.T) - cov / np.outer(root, root)).max() < 0.112
    assert np.allclose(f.std(axis=0) / root, 1.0, atol=0.08)


@pytest.mark.parametrize("scale", [1e-9, 1e10])
def test_any_scale_of_the_response(scale):
    data = _tasks()
    one, two = (
        Machine().fit(replace(data, y=s * data.y), "exact", **DRAWS).predict(data) for s in (1.0, scale)
    )
    assert np.allclose(two["mean"] / scale, one["mean"], atol=1e-4)
    assert np.allclose(two["sd"] / scale, one["sd"], rtol=1e-4)


def test_standardized_data_come_back_on_their_scale():
    data = _tasks()
    large = replace(data, y=100.0 + 20.0 * data.y)
    one = Machine().fit(data.standardize(), **DRAWS).predict(data)
    two = Machine().fit(large.standardize(), **DRAWS).predict(large)
    assert np.allclose(two["mean"], 100.0 + 20.0 * one["mean"], atol=1e-4)
    assert np.allclose(two["sd"], 20.0 * one["sd"], atol=1e-4)


@pytest.mark.parametrize("name", ["mean", "metric", "smooth"])
def test_model_has_the_kernel_as_prior_covariance(name):
    """f is linear in its white variables: its Jacobian times its transpose is the kernel matrix."""
    machine, data, space = _space(name)
    prepared = machine.prepare(data)
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

    data = _tasks("hinge")
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
    data = _tasks(loss)
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
    data = _tasks()
    lam, amplitude, noise = 0.4, 0.9, 0.6
    fit = Machine(lam=lam, amplitude=amplitude, likelihood=Gaussian(noise=noise)).fit(data, "exact", **DRAWS)
    K = kernel_matrix(MeanRegularised(data.n_features + 1, data.n_tasks, lam=lam), _points(data))
    c = np.linalg.solve(K + (noise / amplitude) ** 2 * np.eye(len(K)), data.y)
    assert np.allclose(fit.predict(data)["mean"], K @ c, atol=1e-10)


def test_row_weights_count_rows_more_than_once():
    data = _tasks("hinge")
    whole = np.random.default_rng(6).integers(1, 4, data.n_rows)
    machine = Machine(likelihood="hinge", lam=0.3, amplitude=1.0)
    one = machine.fit(replace(data, weight=whole.astype(float)), "map", tol=1e-9, **DRAWS)
    again = data.take(np.repeat(np.arange(data.n_rows), whole))
    two = machine.fit(again, "map", tol=1e-9, **DRAWS)
    values = [f.idata["sample_stats"]["objective"].item() for f in (one, two)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


# ---------------------------------------------------------------- draws


@pytest.mark.statistical
def test_gibbs_of_the_square_loss_against_quadrature():
    """Hyper-parameters on a grid of evidence times prior; 3 means, 2 chains of 1,000: |z| < 4.5, false alarm 2e-5."""
    machine, data, space = Machine(amplitude=0.8), _tasks(), None
    space = space_of(machine, machine.prepare(data), data.y)
    axes = [np.linspace(-7, 7, 61), np.linspace(-2.0, 1.0, 61)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = np.array([log_evidence(space, z)[0] + space.log_prior(z) for z in grid])
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    fit = machine.fit(data, "gibbs", draws=1000, tune=100, chains=2, random_seed=3, progress=False)
    lam, noise = (fit.posterior[name].to_numpy() for name in ("lam", "noise"))
    quantities = {
        "lam": (lam, 1 / (1 + np.exp(-grid[:, 0]))),
        "log noise": (np.log(noise), grid[:, 1]),
        "square": (np.log(noise) ** 2, grid[:, 1] ** 2),
    }
    for name, (draws, values) in quantities.items():
        mean, error = mean_and_error(draws)
        assert abs(mean - weight @ values) < 4.5 * error, name


@pytest.mark.statistical
def test_gibbs_of_the_hinge_against_importance_sampling():
    """Four rows, everything fixed: moments of f by 400,000 draws from the prior; |z| < 4.5 over 8, false alarm 5e-5."""
    data = _tasks("hinge", T=2, D=1, rows=(2, 2))
    data = replace(data, y=np.array([1.0, -1.0, -1.0, 1.0]))
    machine = Machine(likelihood=Hinge(C=0.8), lam=0.5, amplitude=1.0)
    K = kernel_matrix(machine.covariance_function({"lam": 0.5}, data), _points(data))
    rng = np.random.default_rng(7)
    d, U = np.linalg.eigh(K)
    f = rng.standard_normal((400_000, 4)) @ (U * np.sqrt(np.maximum(d, 0.0))).T
    weight = np.exp(-2 * 0.8 * np.maximum(0, 1 - data.y * f).sum(axis=1))
    weight /= weight.sum()
    for kernel in ("mean_regularised", MeanRegularised(3, 2, lam=0.5) * FeatureOne(3)):
        own = machine if isinstance(kernel, str) else replace(machine, kernel=kernel, lam="learned")
        fit = own.fit(data, "gibbs", draws=3000, tune=100, chains=2, random_seed=4, progress=False)
        drawn = fit.predict_draws(data, random_seed=1)["f"].to_numpy()
        for i in range(4):
            for power in (1, 2):
                exact = weight @ f[:, i] ** power
                own_error = np.sqrt(np.sum(weight**2 * (f[:, i] ** power - exact) ** 2))
                mean, error = mean_and_error(drawn[..., i] ** power)
                assert abs(mean - exact) < 4.5 * np.hypot(error, own_error), (kernel, i, power)


class FeatureOne(pm.gp.cov.Covariance):
    """The constant covariance 1, which makes a product of no special form."""

    def full(self, X, Xs=None):
        return pytensor.tensor.ones((X.shape[0], (X if Xs is None else Xs).shape[0]))

    def diag(self, X):
        return pytensor.tensor.ones(X.shape[0])


@pytest.mark.scheduled
@pytest.mark.parametrize(
    ("name", "loss"),
    [("mean", "gaussian"), ("mean", "hinge"), ("mean", "epsilon_insensitive"), ("smooth", "hinge")],
)
def test_gibbs_agrees_with_nuts(name, loss):
    """All hyper-parameters learned; largest |z| of some 20 quantities below 4.5: false alarm 1e-4."""
    machine = replace(
        MACHINES[name][0], likelihood="gaussian" if loss == "gaussian" else loss_of(loss, epsilon=0.1)
    )
    data = _tasks("hinge" if loss == "hinge" else "epsilon_insensitive")
    first = machine.fit(data, "gibbs", draws=6000, tune=500, chains=2, random_seed=5, progress=False)
    second = machine.fit(data, "nuts", draws=3000, tune=1000, chains=2, random_seed=6, progress=False)
    z, where = largest_z(_quantities(first), _quantities(second))
    assert z < 4.5, where


def _quantities(fit):
    """Hyper-parameters (positive ones as logarithms) and probabilities that functions are above a level."""
    values = {}
    for name, v in fit.posterior.items():
        draws = v.to_numpy()
        if draws.ndim == 2:
            values[name] = draws if name == "lam" else np.log(draws)
        elif name in ("coefficients", "function_values"):
            flat = draws.reshape(*draws.shape[:2], -1)[..., :8]
            values |= {f"{name} {i}": np.tanh(flat[..., i]) for i in range(flat.shape[-1])}
    return values


@pytest.mark.statistical
def test_laplace_is_near_long_nuts():
    """200 rows per task: means of f within 0.2 and standard deviations within 10% of the exact posterior's.

    With 60 rows the means are 0.24 standard deviations apart: the posterior leans away from its mode.
    """
    data = _tasks("hinge", T=2, D=1, rows=(200, 200))
    machine = Machine(likelihood="logistic", lam=0.4, amplitude=1.0)
    laplace = machine.fit(data, "laplace", draws=4000, chains=2, random_seed=1, progress=False)
    exact = machine.fit(data, "nuts", draws=4000, tune=1000, chains=4, random_seed=2, progress=False)
    one, two = (f.posterior["coefficients"] for f in (laplace, exact))
    dims = ("chain", "draw")
    assert np.abs((one.mean(dims) - two.mean(dims)) / two.std(dims)).max() < 0.2
    assert np.abs(one.std(dims) / two.std(dims) - 1.0).max() < 0.1


def test_laplace_evidence_is_at_its_maximum():
    from zoo.models.kernel_machine.methods import mode_at

    data = _tasks("hinge", rows=(20, 15, 18, 22))
    machine = Machine(likelihood="logistic")
    fit = machine.fit(data, "laplace", **DRAWS)
    space = space_of(machine, machine.prepare(data), machine.validate(data))
    draw = fit.posterior.isel(chain=0, draw=0)
    z = space.coordinates.pack({n: draw[n].to_numpy() for n in space.coordinates.hypers})
    best = fit.idata["sample_stats"]["log_evidence"].to_numpy().max()
    for v in np.eye(len(z)):
        for step in (0.1, -0.1):
            assert mode_at(space, z + step * v).log_evidence <= best + 1e-8


def test_laplace_predictions_count_rows_by_their_weights():
    """A row of weight 2 is the row twice, in predictions of a fit in closed form as in the fit."""
    data = _tasks("hinge", rows=(20, 15, 18, 22))
    twice = np.arange(data.n_rows) % 3 == 0
    weighted = replace(data, weight=np.where(twice, 2.0, 1.0))
    doubled = data.take(np.concatenate([np.arange(data.n_rows), np.flatnonzero(twice)]))
    machine = Machine(likelihood="logistic", lam=0.4, amplitude=1.0)
    one, two = (machine.fit(d, "laplace", **DRAWS).predict(data)["probability"] for d in (weighted, doubled))
    np.testing.assert_allclose(one, two, atol=1e-8)
    plain = machine.fit(data, "laplace", **DRAWS).predict(data)["probability"]
    assert np.abs(one - plain).max() > 1e-3


@pytest.mark.parametrize(
    "word", ["student_t", "negative_binomial", "probit", pytest.param("poisson", marks=pytest.mark.scheduled)]
)
def test_laplace_of_other_likelihoods_is_near_their_posterior(word):
    """Coefficients by Laplace's approximation against a long Gibbs sampler, or NUTS, given the same numbers."""
    rng = np.random.default_rng(3)
    data = _tasks(rows=(40, 45, 50, 35))
    f = 0.7 * data.y / data.y.std()
    kind = resolve(word).responses
    y = {"real": f + 0.2 * rng.standard_t(3.0, len(f)), "counts": rng.poisson(np.exp(f)).astype(float),
         "labels": np.where(f + rng.standard_normal(len(f)) > 0.0, 1.0, -1.0)}[kind]  # fmt: skip
    numbers = {
        "student_t": zoo.StudentT(noise=0.3, degrees=4.0),
        "negative_binomial": zoo.NegativeBinomial(dispersion=5.0),
    }
    machine = Machine(likelihood=numbers.get(word, word), lam=0.4, amplitude=1.0)
    data = replace(data, y=y)
    fit = machine.fit(data, "laplace", draws=4000, chains=1, random_seed=1, progress=False)
    exact = machine.fit(
        data,
        "nuts" if word == "poisson" else "gibbs",
        draws=2000,
        tune=500,
        chains=2,
        random_seed=2,
        progress=False,
    )
    dims = ("chain", "draw")
    one, two = (f.posterior["coefficients"] for f in (fit, exact))
    assert np.abs((one.mean(dims) - two.mean(dims)) / two.std(dims)).max() < 0.3
    assert np.abs(one.std(dims) / two.std(dims) - 1.0).max() < 0.2
    assert np.isfinite(fit.predict(data).to_array()).all()


# ---------------------------------------------------------------- new tasks and rows


def test_new_task_is_a_task_without_rows():
    """Mean and variance of its coefficients against the kernel of five tasks, one of them without rows."""
    data = _tasks()
    lam, amplitude, noise, T = 0.3, 0.9, 0.6, 4
    machine = Machine(lam=lam, amplitude=amplitude, likelihood=Gaussian(noise=noise))
    fit = machine.fit(data, "exact", draws=20_000, chains=1, random_seed=1, progress=False)
    drawn = machine.new_task(fit.posterior, ["a", "b"], np.random.default_rng(1))["coefficients"][0]
    space = space_of(machine, machine.prepare(data), data.y)
    sums = space.unit_sums.scaled(noise**-2)
    empty = type(sums)(
        np.concatenate([sums.S, np.zeros((1, *sums.S.shape[1:]))]),
        np.concatenate([sums.b, np.zeros((1, sums.b.shape[1]))]),
    )
    loadings = space.numbers(space.coordinates.start)
    longer = type(loadings)(np.full(T + 1, loadings.d[0]), np.full((T + 1, 1), loadings.W[0, 0]), None)
    law = WeightConditional.of(empty, longer)
    for task in (0, 1):
        u = drawn[:, :, task]
        z = (u.mean(axis=0) - law.mean[:, T]) / np.sqrt(np.diag(law.covariance[T]) / len(u))
        assert np.abs(z).max() < 4.5
        spread = u.var(axis=0) / np.diag(law.covariance[T])
        assert np.allclose(spread, 1.0, atol=4.5 * np.sqrt(2 / len(u)))


def _refit(fit):
    """A fit of all rows with the hyper-parameters of ``fit`` as numbers."""
    draw, machine = fit.posterior.isel(chain=0, draw=0), fit.factory
    numbers = {n: float(draw[n]) for n in ("lam", "amplitude") if n in draw and not machine.learn}
    if machine.learn:
        known = {n: draw[n].to_numpy() for n in machine.learn}
        kernel = zoo.kernels.with_parameters(machine.kernel, known)
        numbers = {
            "kernel": kernel,
            "learn": (),
            "amplitude": float(draw["amplitude"]),
        }
    if "noise" in draw:
        numbers["likelihood"] = Gaussian(noise=float(draw["noise"]))
    if "feature_cov" in draw:
        numbers["Q"] = draw["feature_cov"].to_numpy()
    return replace(machine, **numbers).fit(fit.data, "exact", **DRAWS)


@pytest.mark.parametrize("name", ["mean", "metric", "smooth", "aligned"])
def test_added_rows_are_a_refit(name):
    machine, make, _ = MACHINES[name]
    data = make()
    rng = np.random.default_rng(8)
    first = data if name == "aligned" else data.take(np.arange(data.n_rows) % 3 > 0)
    more = data.take(np.arange(data.n_rows) % 3 == 0)
    more = replace(more, y=more.y + rng.normal(size=more.n_rows))  # of "aligned": rows that repeat inputs
    grown = machine.fit(first, "exact", **DRAWS).add_rows(more)
    assert grown.data.n_rows == first.n_rows + more.n_rows
    one, two = grown.predict(data), _refit(grown).predict(data)
    assert abs(one - two).max().to_array().max() < 1e-8
    again = grown.add_rows(more)
    assert abs(again.predict(data) - _refit(again).predict(data)).max().to_array().max() < 1e-8


def test_added_tasks_are_a_refit(tmp_path):
    data = _tasks(T=5, rows=(8, 6, 9, 7, 5))
    old, new = data.select_tasks(data.task_names[:4]), data.select_tasks(data.task_names[4:])
    for machine in (Machine(), Machine(lam=0.4, amplitude=0.7)):
        fit = machine.fit(old, "exact", **DRAWS)
        grown = fit.add_task(new)
        assert abs(grown.predict(data) - _refit(grown).predict(data)).max().to_array().max() < 1e-8
        B = grown.posterior["task_cov"].isel(chain=0, draw=0)
        assert np.allclose(B[:4, :4], fit.posterior["task_cov"].isel(chain=0, draw=0), atol=1e-12)
        path = grown.save(tmp_path / "grown.nc")
        assert np.allclose(zoo.load(path).predict(data)["mean"], grown.predict(data)["mean"], atol=1e-10)
        path.unlink()
    four, five = (_smooth(T, 3, lam=0.4) for T in (4, 5))
    fit = Machine(kernel=four).fit(old, "exact", **DRAWS)
    grown = fit.add_task(new, kernel=five)
    assert abs(grown.predict(data) - _refit(grown).predict(data)).max().to_array().max() < 1e-8
    with pytest.raises(ValueError, match="kernel is missing"):
        fit.add_task(new)


def test_rows_and_tasks_are_added_to_exact_fits_only():
    data = _tasks()
    fit = Machine().fit(data, "gibbs", **DRAWS)
    with pytest.raises(ValueError, match="method 'gibbs'"):
        fit.add_rows(data)
    exact = Machine().fit(data, "exact", **DRAWS)
    with pytest.raises(ValueError, match="add_task"):
        exact.add_rows(replace(data, task_names=("a", *data.task_names[1:])))
    with pytest.raises(ValueError, match="in the fit already"):
        exact.add_task(data)
    with pytest.raises(ValueError, match="new fit of all rows"):
        zoo.PooledTasks().fit(data, **DRAWS).add_rows(data)


# ---------------------------------------------------------------- subclasses


@dataclass(frozen=True, kw_only=True)
class TwoDials(Machine):
    """A user's kernel with hyper-parameters of its own."""

    weight: float = 2.0

    def hyperparameters(self, data: Any) -> dict[str, Hyper]:
        return {**super().hyperparameters(data), "ratio": Hyper(self.weight)}

    def covariance_function(self, parameters: dict[str, Any], data: Any) -> Any:
        ones = np.ones((data.n_tasks, data.n_tasks))
        return OwnKernel(data.n_features + 1, data.n_tasks, np.eye(data.n_tasks) + parameters["ratio"] * ones)


class OwnKernel(TaskKernel):
    def __init__(self, input_dim, n_tasks, matrix):
        super().__init__(input_dim, n_tasks)
        self.matrix = matrix

    def task_matrix(self):
        return pytensor.tensor.as_tensor(self.matrix)


def test_a_subclass_with_its_own_kernel_keeps_every_method():
    data = _tasks()
    machine = TwoDials(lam=1.0)
    assert list(machine.methods) == list(Machine().methods)
    space = space_of(machine, machine.prepare(data), data.y)
    gradient = log_evidence(space, space.coordinates.start)[1]
    for i, step in enumerate(1e-5 * np.eye(space.coordinates.size)):
        up, down = (log_evidence(space, space.coordinates.start + s * step)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-4)
    fit = machine.fit(data, "gibbs", **DRAWS)
    assert fit.posterior["ratio"].to_numpy().std() > 0.0
    exact = machine.fit(data, "exact", **DRAWS)
    assert exact.add_rows(data).data.n_rows == 2 * data.n_rows
    assert np.isfinite(
        machine.build(data).compile_logp(mode="FAST_COMPILE")(machine.build(data).initial_point())
    )


def test_a_kernel_of_the_users_own_serves_without_a_description():
    data = _tasks()
    machine = Machine(kernel=FeatureOne(4) * MeanRegularised(4, 4, lam=0.5))
    fit = machine.fit(data, "exact", **DRAWS)
    same = Machine(lam=0.5).fit(data, "exact", **DRAWS)
    assert np.allclose(fit.predict(data)["mean"], same.predict(data)["mean"], atol=1e-5)
    with pytest.raises(TypeError, match="FeatureOne"):
        machine.to_spec()


def test_fields_are_chosen_by_cross_validation():
    data = _tasks("hinge", rows=(20, 20, 20, 20))
    found = zoo.select(
        Machine(likelihood="hinge", amplitude=1.0, lam=0.5), data, {"lam": [0.05, 1.0], "likelihood.C": [0.1, 1.0]},
        method="map", cv=2, n_jobs=1, random_seed=1, progress=False,
    )  # fmt: skip
    assert len(found.scores) == 4
    assert found.best.lam in (0.05, 1.0)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"likelihood": "squared"}, "likelihood"),
        ({"lam": 1.5}, "lam is 1.5"),
        ({"lam": 0.0}, "lam is 0"),
        ({"lam": 0.5, "kernel": MeanRegularised(3, 2)}, "lam is for"),
        ({"lam": "large"}, "lam"),
        ({"amplitude": -1.0}, "amplitude"),
        ({"likelihood": zoo.StudentT(per_task="noise")}, "one noise for all tasks"),
        ({"Q": [[1.0, 2.0], [0.0, 1.0]]}, "Q"),
        ({"Q": 5.0}, "Q is 5.0"),
        ({"kernel": "linear"}, "kernel"),
        ({"kernel": MeanRegularised(3, 2), "Q": np.eye(2)}, "Q is for"),
        ({"kernel": MeanRegularised(3, 2), "learn": ("lamda",)}, "learn"),
        ({"learn": ("lam",)}, "learn"),
    ],
)
def test_bad_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Machine(**fields)


def test_a_kernel_of_another_class_is_refused():
    with pytest.raises(TypeError, match="kernel is a int"):
        Machine(kernel=3)
    with pytest.raises(TypeError, match="learn is 3"):
        Machine(learn=3)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (MeanRegularised(4, 3), "3 tasks.*4"),
        (MeanRegularised(7, 4), "input_dim 7"),
        (MeanRegularised(4, 4, task_names=["a", "b", "c", "d"]), "task 0 of kernel is 'a'"),
        (pm.gp.cov.ExpQuad(6, ls=1.0), "input_dim 6"),
        (MeanRegularised(n_tasks=4, base=pm.gp.cov.ExpQuad(4, ls=1.0)), "input_dim 5, but the data have 3"),
    ],
)
def test_a_kernel_for_other_data_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        Machine(kernel=kernel).build(_tasks())


def test_a_metric_of_other_features_is_refused():
    with pytest.raises(ValueError, match="Q"):
        Machine(Q=np.eye(5)).build(_tasks())


def test_a_metric_with_names_is_refused():
    """It was read by position, whatever features its rows and columns named."""
    Q = pd.DataFrame(np.diag([1.0, 9.0]), ["b", "a"], ["b", "a"])
    for named in (Q, Q.rename(index={"b": 0, "a": 1}), pl.from_pandas(Q)):
        with pytest.raises(ValueError, match=r"Q has names, .*Put it into the order of the features"):
            Machine(Q=named)
    assert Machine(Q=Q.to_numpy()) == Machine(Q=pd.DataFrame(Q.to_numpy()))


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
    data = _tasks(rows=(40, 40, 40, 40))
    for lam in (1e-7, 1e-6, 3e-6, 1.0):
        fit = Machine(lam=lam).fit(data, "exact", **DRAWS)
        assert np.all(np.isfinite(fit.predict(data)["mean"]))


def test_aligned_tasks_use_the_columns_of_their_kernel():
    """active_dims: the base is of feature 1 alone, whatever the form."""
    data = _aligned()
    W = np.array([[1.0], [0.5], [-0.3]])
    kernel = ICM(3, W, kappa=0.2, base=pm.gp.cov.ExpQuad(1, ls=0.7), active_dims=[1, 2])
    machine = Machine(kernel=kernel, amplitude=1.0, likelihood=Gaussian(noise=0.5))
    fit = machine.fit(data, "exact", **DRAWS)
    K = kernel_matrix(kernel, _points(data))
    expected = multivariate_normal(cov=K + 0.25 * np.eye(len(K))).logpdf(data.y)
    assert fit.idata["sample_stats"]["log_evidence"].to_numpy().max() == pytest.approx(expected, abs=1e-8)


def test_random_parameters_are_refused():
    data = _tasks()
    with pm.Model():
        kernel = MeanRegularised(4, 4, lam=pm.Uniform("lam"))
    with pytest.raises(TypeError, match="name it in `learn`"):
        Machine(kernel=kernel).fit(data, "exact", **DRAWS)


@pytest.mark.parametrize(
    ("kernel", "learn"),
    [
        (ICM(4, np.array([[1.0], [0.5], [-0.3], [0.2]]), kappa=0.2), ("W", "kappa")),
        (MeanRegularised(4, 4, base=pm.gp.cov.ExpQuad(3, ls=[1.0, 2.0, 0.5])), ("ls", "lam")),
        (FeatureMap(4, np.random.default_rng(0).normal(size=(4, 2, 3))), ("B",)),
    ],
)
def test_vectors_and_matrices_are_learned(kernel, learn):
    data = _tasks()
    machine = Machine(kernel=kernel, learn=learn)
    assert np.isfinite(
        machine.build(data).compile_logp(mode="FAST_COMPILE")(machine.build(data).initial_point())
    )
    space = space_of(machine, machine.prepare(data), data.y)
    _, gradient = log_evidence(space, space.coordinates.start)
    for i, step in enumerate(1e-5 * np.eye(space.coordinates.size)):
        up, down = (log_evidence(space, space.coordinates.start + s * step)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-4), i
    fit = machine.fit(data, "exact", **DRAWS)
    assert fit.posterior[learn[0]].shape[2:] == np.shape(
        zoo.kernels.kernel_parameters(machine.kernel)[learn[0]].value
    )
    assert np.all(np.isfinite(fit.predict_draws(data, random_seed=1)["f"]))


@pytest.mark.parametrize("lam", [1.0, "learned"])
def test_a_task_is_added_to_tasks_that_share_nothing(lam):
    """lam = 1, or next to it: rounding must not lead out of (0, 1]."""
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(12), 6)
    X = rng.standard_normal((72, 2))
    y = np.sum(X * rng.standard_normal((12, 2))[task], axis=1)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    old, new = data.select_tasks(data.task_names[:11]), data.select_tasks(data.task_names[11:])
    for amplitude in (1.3, 0.7, 1.1):
        fit = Machine(lam=lam, amplitude=amplitude, likelihood=Gaussian(noise=0.3)).fit(old, "exact", **DRAWS)
        assert np.all(np.isfinite(fit.add_task(new).predict(data)["mean"]))


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
    data = zoo.MultiTaskData.from_arrays(X, X[:, 0] + 0.1 * rng.normal(size=10), task)
    K = kernel_matrix(MeanRegularised(n_tasks=2, lam=0.3), _points(data))
    for noise, error in ((1e-1, 1e-6), (1e-3, 1e-4), (1e-4, 1e-2), (1e-5, 0.5)):
        fit = Machine(lam=0.3, amplitude=1.0, likelihood=Gaussian(noise=noise)).fit(data, "exact", **DRAWS)
        dense = multivariate_normal(cov=K + noise**2 * np.eye(10)).logpdf(data.y)
        assert fit.idata["sample_stats"]["log_evidence"].to_numpy().max() == pytest.approx(dense, abs=error)
    learned = Machine().fit(data, "exact", **DRAWS)
    draw = learned.posterior.isel(chain=0, draw=0)
    K = draw["amplitude"].item() ** 2 * kernel_matrix(
        MeanRegularised(n_tasks=2, lam=draw["lam"].item()), _points(data)
    )
    dense = multivariate_normal(cov=K + draw["noise"].item() ** 2 * np.eye(10)).logpdf(data.y)
    assert learned.idata["sample_stats"]["log_evidence"].to_numpy().max() == pytest.approx(dense, abs=0.05)


def test_a_kernel_of_a_hook_says_nothing_of_new_tasks():
    data = _tasks(T=5, rows=(8, 6, 9, 7, 5))
    old, new = data.select_tasks(data.task_names[:4]), data.select_tasks(data.task_names[4:])
    fit = TwoDials().fit(old, "exact", **DRAWS)
    for call in (lambda: fit.predict(new, new_task=True), lambda: fit.add_task(new)):
        with pytest.raises(ValueError, match=r"kernel says nothing|covariance_function"):
            call()


def test_numbers_of_numpy_are_saved(tmp_path):
    machine = Machine(lam=np.float32(0.5), amplitude=np.int64(1))
    fit = machine.fit(_tasks(), "exact", **DRAWS)
    assert zoo.load(fit.save(tmp_path / "fit.nc")).factory == machine


def test_map_says_that_it_learns_nothing():
    with pytest.raises(ValueError, match="numbers for lam"):
        Machine(likelihood="hinge").fit(_tasks("hinge"), "map", **DRAWS)

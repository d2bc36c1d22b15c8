"""Draws of kernel machines and Laplace's method against quadrature, importance sampling and NUTS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import zoo
from tests.comparisons import largest_z, mean_and_error
from tests.daily import daily
from tests.losses import loss_of
from tests.models.kernel_machines import DRAWS, MACHINES, FeatureOne, Machine, points_of, simulated_tasks
from zoo.kernels import MeanRegularised, kernel_matrix
from zoo.likelihoods import Hinge
from zoo.likelihoods.resolve import resolve
from zoo.models.kernel_machine import methods as engine
from zoo.models.kernel_machine.methods import log_evidence
from zoo.models.kernel_machine.sides import space_of


@pytest.mark.statistical
def test_gibbs_of_the_square_loss_against_quadrature():
    """Hyper-parameters on a grid of evidence times prior; 3 means, 2 chains of 1,000: |z| < 4.5, false alarm 2e-5."""
    machine, data, space = Machine(amplitude=0.8), simulated_tasks(), None
    space = space_of(machine, machine.design(data), data.y)
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
    data = simulated_tasks("hinge", T=2, D=1, rows=(2, 2))
    data = replace(data, y=np.array([1.0, -1.0, -1.0, 1.0]))
    machine = Machine(likelihood=Hinge(C=0.8), lam=0.5, amplitude=1.0)
    K = kernel_matrix(machine.covariance_function({"lam": 0.5}, data), points_of(data))
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
    data = simulated_tasks("hinge" if loss == "hinge" else "epsilon_insensitive")
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
    data = simulated_tasks("hinge", T=2, D=1, rows=(200, 200))
    machine = Machine(likelihood="logistic", lam=0.4, amplitude=1.0)
    laplace = machine.fit(data, "laplace", draws=4000, chains=2, random_seed=1, progress=False)
    exact = machine.fit(data, "nuts", draws=4000, tune=1000, chains=4, random_seed=2, progress=False)
    one, two = (f.posterior["coefficients"] for f in (laplace, exact))
    dims = ("chain", "draw")
    assert np.abs((one.mean(dims) - two.mean(dims)) / two.std(dims)).max() < 0.2
    assert np.abs(one.std(dims) / two.std(dims) - 1.0).max() < 0.1


def test_laplace_evidence_is_at_its_maximum():
    from zoo.models.kernel_machine.methods import mode_at

    data = simulated_tasks("hinge", rows=(20, 15, 18, 22))
    machine = Machine(likelihood="logistic")
    fit = machine.fit(data, "laplace", **DRAWS)
    space = space_of(machine, machine.design(data), machine.validate(data))
    draw = fit.posterior.isel(chain=0, draw=0)
    z = space.coordinates.pack({n: draw[n].to_numpy() for n in space.coordinates.hypers})
    best = fit.idata["sample_stats"]["log_evidence"].to_numpy().max()
    for v in np.eye(len(z)):
        for step in (0.1, -0.1):
            assert mode_at(space, z + step * v).log_evidence <= best + 1e-8


@pytest.mark.parametrize(
    ("word", "kernel"),
    [("logistic", "word"), ("logistic", "matern"), ("student_t", "matern"), ("negative_binomial", "word")],
)
def test_the_derivative_of_laplace_evidence_is_its_difference_quotient(word, kernel):
    """For coefficients and function values, with weights, and where the information is an expectation (student_t)."""
    rng = np.random.default_rng(0)
    task, X = np.repeat([0, 1, 2], 12), rng.standard_normal((36, 2))
    f = X[:, 0] + 0.5 * task
    y = {
        "logistic": np.where(f + rng.logistic(size=36) > 0.5, 1.0, -1.0),
        "student_t": f + rng.standard_t(3.0, 36),
        "negative_binomial": rng.poisson(np.exp(0.5 * f)).astype(float),
    }[word]
    data = zoo.MultiTaskData.from_arrays(X, y, task, weight=rng.uniform(0.5, 2.0, 36))
    matern = zoo.kernels.MeanRegularised(n_tasks=3, lam=0.4, base=pm.gp.cov.Matern52(2, ls=1.0))
    fields = {"kernel": matern, "learn": ("lam", "ls")} if kernel == "matern" else {}
    machine = zoo.MultiTaskKernelMachine(likelihood=word, **fields)
    space = space_of(machine, machine.design(data), machine.validate(data))
    z = space.coordinates.start + 0.1 * np.arange(space.coordinates.size)
    _, gradient = engine._laplace_evidence(space, z)
    step = 1e-4
    expected = [
        (engine.mode_at(space, z + step * e).log_evidence - engine.mode_at(space, z - step * e).log_evidence)
        / (2.0 * step)
        for e in np.eye(len(z))
    ]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_laplace_predictions_count_rows_by_their_weights():
    """A row of weight 2 is the row twice, in predictions of a fit in closed form as in the fit."""
    data = simulated_tasks("hinge", rows=(20, 15, 18, 22))
    twice = np.arange(data.n_rows) % 3 == 0
    weighted = replace(data, weight=np.where(twice, 2.0, 1.0))
    doubled = data.take(np.concatenate([np.arange(data.n_rows), np.flatnonzero(twice)]))
    machine = Machine(likelihood="logistic", lam=0.4, amplitude=1.0)
    one, two = (machine.fit(d, "laplace", **DRAWS).predict(data)["probability"] for d in (weighted, doubled))
    np.testing.assert_allclose(one, two, atol=1e-8)
    plain = machine.fit(data, "laplace", **DRAWS).predict(data)["probability"]
    assert np.abs(one - plain).max() > 1e-3


@pytest.mark.parametrize(
    "word", daily(["student_t", "negative_binomial", "probit", "poisson"], ["student_t", "probit"])
)
def test_laplace_of_other_likelihoods_is_near_their_posterior(word):
    """Coefficients by Laplace's approximation against a long Gibbs sampler, or NUTS, given the same numbers."""
    rng = np.random.default_rng(3)
    data = simulated_tasks(rows=(40, 45, 50, 35))
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

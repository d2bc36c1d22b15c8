"""The step against closed forms, exact draws of prior and data, and NUTS."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import zoo
from tests.comparisons import largest_z
from tests.daily import daily
from tests.steps import models
from zoo.diagnostics import sequential_test
from zoo.steps import augmentations, gibbs, term_rows

pytestmark = pytest.mark.filterwarnings(
    "ignore:Data in y contains missing values",
    "ignore:PyTensor could not link",  # of PyMC's initial points of LKJCholeskyCov
    "ignore:pytensor.tensor.linalg.trace",  # of pm.MatrixNormal
)
QUIET = dict(progressbar=False, quiet=True, compute_convergence_checks=False, cores=1)


# ---------------------------------------------------------------- closed forms


def _normal_model(X, y):
    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 2.0)
        b = pm.MvNormal("b", mu * np.ones(2), cov=np.array([[1.0, 0.3], [0.3, 0.5]]))
        data = pm.Data("X", X)
        pm.Normal("y", 0.5 + data @ b, np.linspace(0.5, 1.5, len(y)), observed=y)
    return model


def _exact(X, y):
    """Mean and covariance of (mu, b), by the joint normal law."""
    link = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    inner = np.zeros((3, 3))
    inner[0, 0], inner[1:, 1:] = 4.0, [[1.0, 0.3], [0.3, 0.5]]
    prior, mean = link @ inner @ link.T, np.ones(3)
    A = np.hstack([np.zeros((len(y), 1)), X])
    noise = np.linspace(0.5, 1.5, len(y)) ** 2
    gain = prior @ A.T @ np.linalg.inv(A @ prior @ A.T + np.diag(noise))
    return mean + gain @ (y - 0.5 - A @ mean), prior - gain @ A @ prior


@pytest.mark.usefixtures("uncompiled")
def test_normal_model_gives_independent_exact_draws():
    # Means of 4,000 independent draws: |z| above 5 has probability 6e-7 for each of 3; of variances likewise.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    y = rng.normal(size=12)
    model = _normal_model(X, y)
    with model:
        step = zoo.augmented_step(rng=2)
    point, found = model.initial_point(0), []
    for _ in range(4000):
        point, _ = step.step(point)
        found.append([point["mu"], *point["b"]])
    mean, cov = _exact(X, y)
    white = np.linalg.solve(np.linalg.cholesky(cov), (np.array(found) - mean).T)
    assert np.abs(white.mean(axis=1)).max() * np.sqrt(4000) < 5
    assert np.abs(np.cov(white) - np.eye(3)).max() * np.sqrt(4000 / 2) < 5
    assert np.abs((white[:, 1:] * white[:, :-1]).mean(axis=1)).max() * np.sqrt(4000) < 5


@pytest.mark.usefixtures("uncompiled")
def test_changed_data_are_refused():
    X = np.random.default_rng(1).normal(size=(12, 2))
    model = _normal_model(X, np.zeros(12))
    with model:
        step = zoo.augmented_step()
        step.setup_chain(np.random.default_rng(0), 1, 1)
        step.step(model.initial_point(0))
        pm.set_data({"X": 2.0 * X})
        step.setup_chain(np.random.default_rng(0), 1, 1)
        with pytest.raises(ValueError, match="data of the model have changed"):
            step.step(model.initial_point(0))


@pytest.mark.usefixtures("uncompiled")
def test_changed_groups_are_refused_where_rows_move():
    with pm.Model() as model:
        sd = pm.HalfNormal("sd")
        group = pm.Data("group", np.array([0, 1, 1, 0]))
        pm.Normal("y", (sd * pm.Normal("z", shape=2))[group], 1.0, observed=np.zeros(4))
        step = zoo.augmented_step()
        for values, allowed in ([0, 1, 1, 0], True), ([1, 1, 1, 0], False), ([0, 1], False):
            pm.set_data({"group": np.array(values)})
            step.setup_chain(np.random.default_rng(0), 1, 1)
            if allowed:
                step.step(model.initial_point(0))
            else:
                with pytest.raises(ValueError, match="data of the model have changed"):
                    step.step(model.initial_point(0))


@pytest.mark.usefixtures("uncompiled")
def test_scales_that_are_no_numbers_are_refused_in_words():
    with models.eight_schools_not_centred() as model:
        step = zoo.augmented_step()
        point = {**model.initial_point(0), "tau_log__": np.array(np.nan)}
        with pytest.raises(ValueError, match=r"draw of the block \(mu, z\) is not finite"):
            step.step(point)


@pytest.mark.usefixtures("uncompiled")
def test_step_says_what_it_holds_and_travels():
    with models.eight_schools():
        step = zoo.augmented_step()
    assert repr(step) == "AugmentedGibbs of mu, theta"
    spoilt = step.table()
    spoilt.loc[0, "sampler"] = "spoilt"
    assert step.table()["sampler"].tolist() == ["augmented Gibbs", "NUTS", "augmented Gibbs"]
    again = pickle.loads(pickle.dumps(step.table()))
    assert again.equals(step.table())


# ---------------------------------------------------------------- exact draws of prior and data


def _joint(kind):
    """A block in centred and not centred form beside a scale, and one observed variable."""
    group, X = np.arange(8) % 3, np.random.default_rng(3).normal(size=8)
    with pm.Model() as model:
        mu, sd = pm.Normal("mu", 0.3, 0.7), pm.HalfNormal("sd", 1.0)
        z = pm.Normal("z", shape=3)
        L = pt.stack([pt.stack([sd, 0.0]), pt.stack([0.3, 0.8])])
        b = pm.MvNormal("b", pt.stack([mu, 0.2]), chol=L, shape=(3, 2))
        f = mu + sd * z[group] + b[group, 0] + b[group, 1] * X
        y = pm.Data("data", np.zeros(8))
        _OBSERVED[kind](f, sd, y)
    return model


def _asymmetric(f, sd, y):
    return pm.AsymmetricLaplace("y", mu=f, b=1.3, q=0.8, observed=y)


_OBSERVED = {
    "normal": lambda f, sd, y: pm.Normal("y", f, 0.3 + sd, observed=y),
    "student_t": lambda f, sd, y: pm.StudentT("y", nu=3.0, mu=f, sigma=0.3 + sd, observed=y),
    "laplace": lambda f, sd, y: pm.Laplace("y", f, 0.3 + sd, observed=y),
    "asymmetric": _asymmetric,
    "bernoulli": lambda f, sd, y: pm.Bernoulli("y", logit_p=f, observed=y),
    "probit": lambda f, sd, y: pm.Bernoulli("y", p=pm.math.invprobit(f), observed=y),
    "binomial": lambda f, sd, y: pm.Binomial("y", n=np.arange(8), logit_p=f, observed=y),
    "negative binomial": lambda f, sd, y: pm.NegativeBinomial("y", mu=2.0 * pt.exp(f), alpha=1.0 + sd, observed=y),
    "tube": lambda f, sd, y: zoo.distributions.EpsilonInsensitivePseudoLikelihood("y", f, 1.3, 0.3, observed=y),
}  # fmt: skip


# Of the kinds of augmentation; the others in the scheduled run.
DAILY = {"normal", "student_t", "bernoulli", "tube", "negative binomial"}


def _numbers(values):
    block, y = np.concatenate([np.ravel(values[n]) for n in ("mu", "z", "b")]), values["y"]
    found = {f"entry {i}": x for i, x in enumerate(block)}
    found |= {f"square {i}": x * x for i, x in enumerate(block)}
    found |= {f"product {i}": block[4 + i] * y[i] for i in range(6)}
    found["with sd"] = (block[1] ** 2) * values["sd"]
    return found


def _sample_pairs(model, step, sweeps):
    return models.joint_pairs(model, step, sweeps, ("mu", "z", "b"), ("sd",), _numbers)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", daily(_OBSERVED, DAILY))
def test_kernel_keeps_the_joint_law(kind):
    # Null: parameters after three sweeps and y have the law of draws from prior and likelihood. False alarms: 1e-5.
    model = _joint(kind)
    with model:
        step = zoo.augmented_step(rng=1)
    result = sequential_test(_sample_pairs(model, step, 3), alpha=1e-5, size=500, random_seed=2)
    assert not result.rejected, str(result)


def _without_offset(indptr, indices, data, x, out):
    out[:] = 0.0


def _wrong(kind, change):
    right = augmentations.DRAWS[kind]

    def draw(rng, e, w, v, *parameters):
        right(rng, e, w, v, *parameters)
        change(e, w, v)

    return {**augmentations.DRAWS, kind: draw}


def _double(e, w, v):
    w[:] *= 1.5


def _shift(e, w, v):
    v[:] += 0.3


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("bernoulli", "DRAWS", _wrong("polya_gamma", _double)),
        ("negative binomial", "DRAWS", _wrong("polya_gamma", _shift)),
        ("student_t", "DRAWS", _wrong("student_t", _double)),
        ("asymmetric", "DRAWS", _wrong("laplace", _shift)),
        ("tube", "DRAWS", _wrong("tube", _double)),
        ("probit", "DRAWS", _wrong("probit", _shift)),
        ("normal", "DRAWS", _wrong("known", _double)),
        ("laplace", "refresh_rows", lambda rows, apply: np.ones(len(rows.indices))),
        ("binomial", "subtract_products", _without_offset),
    ],
)
def test_planted_mistakes_are_found(kind, name, value, monkeypatch):
    model = _joint(kind)
    with model:
        step = zoo.augmented_step(rng=1)
    monkeypatch.setattr(term_rows if name == "refresh_rows" else gibbs, name, value)
    result = sequential_test(_sample_pairs(model, step, 5), alpha=1e-5, size=1000, random_seed=2)
    assert result.rejected, str(result)


# ---------------------------------------------------------------- against NUTS


def _quantities(posterior: xr.Dataset):
    found = {}
    for name, values in posterior.data_vars.items():
        flat = values.to_numpy().reshape(*values.shape[:2], -1)
        for i in range(flat.shape[-1]):
            x = flat[..., i]
            if x.std() > 1e-9:
                # A bounded, increasing function of heavy tails has a variance.
                found[f"{name} {i}"] = np.arctan(x)
                found[f"{name} {i}, spread"] = np.arctan(x) ** 2
    return found


@pytest.mark.scheduled
@pytest.mark.statistical
@pytest.mark.parametrize("name", models.MODELS)
def test_agrees_with_nuts(name):
    # Null: equal means. The largest of some dozens of z scores is above 5 with a probability below 1e-4.
    model = models.MODELS[name]()
    ours = zoo.sample(
        model,
        draws=1500,
        tune=500,
        chains=2,
        method="gibbs",
        random_seed=1,
        progress=False,
        target_accept=0.95,
    )
    nuts = zoo.sample(
        model,
        draws=1500,
        tune=1000,
        chains=2,
        method="nuts",
        random_seed=2,
        progress=False,
        target_accept=0.95,
    )
    names = [rv.name for rv in model.free_RVs if rv.name in nuts["posterior"]]
    z, where = largest_z(*(_quantities(t["posterior"].to_dataset()[names]) for t in (ours, nuts)))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"

"""Scales that are moved with their coefficients: which ones, and that the move keeps the joint law."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import zoo
from tests.steps import models
from zoo.diagnostics import sequential_test
from zoo.inference.run.mixing import mixing
from zoo.steps import interweaving

# ---------------------------------------------------------------- which scales


def _moved(model):
    with model:
        step = zoo.augmented_step()
    table = step.table().set_index("variable")["why"]
    return {name: why.rsplit("; moved with ", 1)[1] for name, why in table.items() if "; moved with " in why}


def _two_groups(second=None, noise=1.0, potential=None, scale=None):
    group = np.arange(6) % 3
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau", 1.0)
        u = pm.Normal("u", mu, tau if scale is None else scale(tau), shape=3)
        f = u[group]
        if second is not None:
            f = f + second(mu, tau, u)[group]
        if potential is not None:
            pm.Potential("also", potential(tau))
        pm.Normal("y", f, noise(tau) if callable(noise) else noise, observed=np.arange(6.0))
    return model


@pytest.mark.usefixtures("uncompiled")
def test_scales_that_only_set_a_spread_are_moved():
    assert _moved(models.eight_schools()) == {"tau": "'theta' as well"}
    assert _moved(_two_groups()) == {"tau": "'u' as well"}
    both = _two_groups(lambda mu, tau, u: pm.Normal("v", 0.0, tau, shape=3))
    assert _moved(both) == {"tau": "'u' and 'v' as well"}
    # A child of a child moves with it, where its own scale is another one.
    below = _two_groups(lambda mu, tau, u: pm.Normal("v", u, pm.Exponential("sd", 1.0), shape=3))
    assert _moved(below) == {"tau": "'u' as well", "sd": "'v' as well"}
    with _two_groups():
        assert "moved with" not in "".join(zoo.augmented_step(interweave=False).table()["why"])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "build",
    [
        models.eight_schools_not_centred,
        lambda: _two_groups(noise=lambda tau: 1.0 + tau),
        lambda: _two_groups(potential=lambda tau: -tau),
        lambda: _two_groups(scale=lambda tau: 2.0 * tau),
        lambda: _two_groups(lambda mu, tau, u: pm.Normal("v", tau, 1.0, shape=3)),
        lambda: _two_groups(lambda mu, tau, u: pm.Normal("v", u, tau, shape=3)),
        lambda: _two_groups(lambda mu, tau, u: pm.Normal("v", 0.0, pm.HalfNormal("sd", tau), shape=3)),
        lambda: _two_groups(scale=lambda tau: tau * pt.ones(3)),
    ],
)
def test_scales_that_do_more_are_left(build):
    assert "tau" not in _moved(build())


@pytest.mark.usefixtures("uncompiled")
def test_scales_of_other_kinds_are_left():
    with pm.Model() as model:
        bounded, many = pm.Uniform("bounded", 0.0, 5.0), pm.HalfNormal("many", 1.0, shape=3)
        u, v = pm.Normal("u", 0.0, bounded, shape=3), pm.Normal("v", 0.0, many, shape=3)
        pm.Normal("y", u + v, 1.0, observed=np.arange(3.0))
    assert _moved(model) == {}


# ---------------------------------------------------------------- the joint law

GROUP, X = np.arange(9) % 3, np.random.default_rng(3).normal(size=9)


def _joint(kind, noise=False):
    """A scale of two variables, one of which has a mean that is learned; a child of one of them; an offset."""
    with pm.Model() as model:
        mu, tau, sd = pm.Normal("mu", 0.3, 0.7), pm.HalfNormal("tau", 1.0), pm.Exponential("sd", 1.5)
        u, v = pm.Normal("u", mu + 0.2, tau, shape=3), pm.Normal("v", 0.0, tau)
        w = pm.Normal("w", u, sd, shape=3)
        f = 0.4 + w[GROUP] + v * X
        y = pm.Data("data", np.zeros(9))
        if kind == "normal":
            pm.Normal("y", f, tau if noise else 0.7, observed=y)
        else:
            pm.Bernoulli("y", logit_p=f, observed=y)
    return model


def _numbers(values):
    block, y = np.concatenate([np.ravel(values[n]) for n in ("mu", "u", "v", "w")]), values["y"]
    found = {f"entry {i}": x for i, x in enumerate(block)}
    found |= {"tau": values["tau"], "sd": values["sd"]}
    found |= {f"spread {i}": x * x for i, x in enumerate(block)}
    found |= {"tau and v": values["tau"] * abs(values["v"]), "sd and w": values["sd"] * block[-1] ** 2}
    found |= {f"tau and y {i}": values["tau"] * y[i] for i in (0, 4)}
    return found


def _sample_pairs(model, step, sweeps):
    return models.joint_pairs(model, step, sweeps, ("mu", "u", "v", "w"), ("tau", "sd"), _numbers)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["normal", "bernoulli"])
def test_moves_keep_the_joint_law(kind):
    # Null: parameters after three sweeps and y have the law of draws from prior and likelihood. False alarms: 1e-5.
    model = _joint(kind)
    with model:
        step = zoo.augmented_step(rng=1)
    result = sequential_test(_sample_pairs(model, step, 3), alpha=1e-5, size=500, random_seed=2)
    assert not result.rejected, str(result)


def _jacobian_twice(rng, scale, point, slope, curvature):
    """The Jacobian of the logarithm counts twice."""
    density = lambda at: [scale.log_prior(at)[0] + at[scale.value_name]]  # noqa: E731
    return _RIGHT(rng, scale._replace(log_prior=density), point, slope, curvature)


def _without_slope(rng, scale, point, slope, curvature):
    return _RIGHT(rng, scale, point, 0.0, curvature)


_RIGHT = interweaving._step


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "value", "noise"),
    [
        ("_step", _jacobian_twice, False),
        ("_step", _without_slope, False),
        ("_sets_spread_alone", lambda model, scale, children: True, True),
    ],
)
def test_planted_mistakes_are_found(name, value, noise, monkeypatch):
    monkeypatch.setattr(interweaving, name, value)
    model = _joint("normal", noise)
    with model:
        step = zoo.augmented_step(rng=1)
    result = sequential_test(_sample_pairs(model, step, 5), alpha=1e-5, size=1000, random_seed=2)
    assert result.rejected, str(result)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_a_scale_of_groups_with_few_rows_mixes():
    """Five times the effective draws of the sampler without the move, where it was thirty times at length."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(100), 3)
    y = (rng.random(300) < 1 / (1 + np.exp(-0.5 * rng.normal(size=100)[group]))).astype(int)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        u = pm.Normal("u", 0.0, tau, shape=100)
        pm.Bernoulli("y", logit_p=u[group], observed=y)
    sizes = []
    for interweave in (False, True):
        with model:
            step = zoo.augmented_step(rng=1, interweave=interweave)
            tree = pm.sample(
                step=step, draws=600, tune=300, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
                compute_convergence_checks=False,
            )  # fmt: skip
        sizes.append(float(mixing(np.log(tree["posterior"]["tau"].to_numpy())[None]).ess_bulk[0]))
    assert sizes[1] > 5.0 * sizes[0], sizes

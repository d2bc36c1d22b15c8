"""Which blocks are found, what is refused, and what the table says."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import zoo
from tests.steps import models
from zoo.steps.plan import make_plan

pytestmark = pytest.mark.filterwarnings("ignore:Data in y contains missing values")


@pytest.mark.parametrize(
    ("name", "block"),
    {
        "eight schools": {"mu", "theta"},
        "eight schools, not centred": {"mu", "z"},
        "correlated slopes": {"mu", "beta"},
        "negative binomial panel": {"mu", "z", "b"},
        "robust regression": {"a", "b"},
        "quantile regression": {"a", "b"},
        "max-margin": {"H"},
        "matrix normal, tube": {"H"},
        "several likelihoods": {"a", "b"},
        "missing responses": {"b", "y_unobserved"},
        "item response": {"theta", "difficulty"},
        "affine": {"a", "b"},
        "nonlinear": {"a"},
    }.items(),
)
def test_block_of_each_model(name, block):
    table = make_plan(models.MODELS[name]()).table().set_index("variable")
    assert set(table.index[table["sampler"] == "augmented Gibbs"]) == block
    assert set(table["sampler"]) <= {"augmented Gibbs", "NUTS"}


def test_table_says_why():
    table = make_plan(models.one_line(True)).table().set_index("variable")["why"]
    assert "'y' (Bernoulli, logit)" in table["a"]
    assert "the predictor of 'y' is not affine in it" in table["b"]
    assert "Exp of 'b'" in table["b"]
    with pm.Model() as model:
        a, log_scale, c = pm.Normal("a"), pm.Normal("log_scale"), pm.Normal("c")
        tau = pm.HalfNormal("tau", pt.exp(c))
        d = pm.Normal("d", 0.0, pt.exp(log_scale) * tau, shape=3)
        e = pm.Normal("e")
        pm.Normal("y", a + d, 1.0, observed=np.zeros(3))
        pm.Poisson("counts", pt.exp(e), observed=np.arange(3))
        g, h = pm.Normal("g"), pm.Normal("h")
        pm.Normal("z", a + g, pt.exp(h), observed=np.zeros(3))
    why = make_plan(model).table().set_index("variable")["why"]
    assert "the scale of 'd'" in why["log_scale"]
    assert "the law of 'tau', which is not in the block" in why["c"]
    assert "HalfNormal, not normal" in why["tau"]
    assert "'counts' (Poisson), which has no augmentation" in why["e"]
    assert "a parameter of 'z'" in why["h"]
    assert list(why.index) == [v.name for v in model.free_RVs]


def test_direct_parameters_are_seen():
    # Without an operation between a variable and what it enters.
    with pm.Model() as model:
        a, s, t, u = (pm.Normal(name) for name in "astu")
        pm.HalfNormal("w", t)
        pm.Normal("v", 0.0, u)
        pm.Normal("y", a, s, observed=np.zeros(3))
        pm.Poisson("counts", pm.Normal("c"), observed=[1])
        pm.Potential("p", 2.0 * pm.Normal("d"))
    table = make_plan(model).table().set_index("variable")
    assert table.index[table["sampler"] == "augmented Gibbs"].tolist() == ["a", "v"]
    assert "a parameter of 'y'" in table.loc["s", "why"]
    assert "the law of 'w'" in table.loc["t", "why"]
    assert "the scale of 'v'" in table.loc["u", "why"]
    assert "'counts' (Poisson)" in table.loc["c", "why"]
    assert "potential 'p'" in table.loc["d", "why"]
    with pm.Model() as same:
        b = pm.Normal("b")
        pm.Normal("y", b, b, observed=np.zeros(3))
    with pytest.raises(ValueError, match="'b': it enters a parameter of 'y'"):
        make_plan(same)


def test_bilinear_predictor_is_refused_as_a_whole_and_taken_by_one_side():
    model = models.item_response(slopes=True)
    with pytest.raises(ValueError, match=r"no Gaussian block.*not affine in it: see Mul of"):
        make_plan(model)
    with pytest.raises(ValueError, match=r"'theta' cannot be drawn.*Mul"):
        make_plan(model, ["theta", "slope"])
    assert [v.name for v in make_plan(model, ["theta", "difficulty"]).block] == ["theta", "difficulty"]
    assert [v.name for v in make_plan(model, [model["slope"]]).block] == ["slope"]


def _discrete():
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.3)
        pm.Normal("y", pm.Normal("a") * k, 1.0, observed=[0.0, 1.0])
    return model


def _potential():
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Potential("penalty", -pt.abs(a))
        pm.Normal("y", a, 1.0, observed=[0.0, 1.0])
    return model


def _not_augmented():
    with pm.Model() as model:
        pm.Poisson("y", pt.exp(pm.Normal("a")), observed=[0, 1])
    return model


def _missing_counts():
    with pm.Model() as model:
        a = pm.Normal("a")
        y = np.ma.masked_array([0.1, 1.2, 0.4], mask=[True, False, False])
        pm.Laplace("y", a, 1.0, observed=y)
    return model


def _no_normal():
    with pm.Model() as model:
        pm.Normal("y", pm.HalfNormal("a"), 1.0, observed=[0.0])
    return model


def _rounded():
    # The derivative of floor is zero everywhere, so that no derivative shows what is wrong with it.
    with pm.Model() as model:
        pm.Normal("y", pt.floor(pm.Normal("a")), 1.0, observed=[0.0])
    return model


def _chosen_by_a_free_variable():
    with pm.Model() as model:
        s = pm.HalfNormal("s")
        a = pm.Normal("a")
        pm.Normal("y", pt.switch(s > 1.0, a, 0.0), 1.0, observed=[0.0])
    return model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_discrete, "free variable 'k' is discrete"),
        (_potential, "potential 'penalty' depends on it"),
        (_not_augmented, r"'a': it enters 'y' \(Poisson\), which has no augmentation"),
        (_missing_counts, "law of 'y_unobserved', which is not in the block"),
        (_no_normal, "'a': its law is HalfNormal, not normal"),
        (_rounded, "'a': the predictor of 'y' is not affine in it: see Floor of 'a'"),
        (_chosen_by_a_free_variable, "Switch of 'a', 's', which chooses by 's'"),
    ],
)
def test_refusals_name_what_is_wrong(build, message):
    with build(), pytest.raises(ValueError, match=message):
        zoo.augmented_step()


def test_vars_are_free_variables():
    model = models.one_line(False)
    with pytest.raises(ValueError, match="vars holds 'y', which is no free variable"):
        make_plan(model, [model["y"]])
    with pytest.raises(ValueError, match="vars is empty"):
        make_plan(model, [])
    with pytest.raises(
        ValueError, match="'scale' cannot be drawn in a Gaussian block: its law is HalfNormal"
    ):
        make_plan(models.several_likelihoods(), ["scale"])
    assert make_plan(model, "b").table()["why"][0] == "it is not among vars"

"""``zoo.sample`` and what it expects of the step."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest
from scipy import sparse

import zoo
from tests.steps import models
from zoo.steps import gibbs
from zoo.steps.advice import (
    estimated_condition,
    estimated_informed_share,
    information_share,
    informed_share,
    scaled_condition,
)
from zoo.steps.run import conditional_nuts


def _correlated(rows=300):
    """A straight line in a time that is far from 0, so that the two coefficients are nearly one."""
    time = 2000.0 + np.arange(rows) / rows
    y = 0.1 * (time - 2000.0) + np.random.default_rng(0).standard_t(4, rows)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1e4), pm.Normal("b", 0.0, 10.0)
        pm.StudentT("y", nu=4.0, mu=a + b * time, sigma=1.0, observed=y)
    return model


@pytest.mark.usefixtures("uncompiled")
def test_outlook_tells_a_badly_conditioned_block_from_a_good_one():
    step = zoo.augmented_step(_correlated())
    assert step.outlook().condition > 1e6
    assert step.outlook().words() == ""
    before = step.rng.bit_generator.state
    easy = zoo.augmented_step(models.one_line(False))
    assert easy.outlook().condition < 10.0
    assert "NUTS is expected to draw more" in easy.outlook().words()
    assert "know 100 % of" in easy.outlook().words()
    assert step.rng.bit_generator.state == before
    moving = zoo.augmented_step(models.eight_schools_not_centred()).outlook()
    assert moving.moves
    assert "without centring" in moving.words()
    # A scale that is moved with its effects does not crawl.
    centred = zoo.augmented_step(models.eight_schools(), interweave=False).outlook()
    assert not centred.moves
    assert 0.0 < centred.informed < 1.0
    assert zoo.augmented_step(models.eight_schools()).outlook().informed == 1.0


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
def test_outlook_counts_rows_and_what_is_accepted_under_the_likelihood():
    outlook = zoo.augmented_step(models.correlated_slopes()).outlook()
    assert (outlook.size, outlook.rows, outlook.shared) == (10, 24, False)
    assert 0.3 < outlook.accepted <= 1.0
    assert zoo.augmented_step(models.robust_regression()).outlook().shared
    assert zoo.augmented_step(models.eight_schools()).outlook().accepted == 0.0
    # Each gradient of NUTS reads all rows, and a sweep of the step less than so many times.
    more = outlook._replace(rows=100 * outlook.rows)
    assert more.gain > 5.0 * outlook.gain
    assert outlook._replace(shared=True).gain < outlook.gain
    assert outlook._replace(condition=100.0 * outlook.condition).gain == pytest.approx(10.0 * outlook.gain)
    assert outlook._replace(accepted=0.5 * outlook.share).gain == pytest.approx(
        outlook.gain * outlook.share / max(outlook.share, outlook.accepted)
    )


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
def test_outlook_of_a_large_block_is_estimated(monkeypatch):
    exact = zoo.augmented_step(models.correlated_slopes(), interweave=False).outlook()
    monkeypatch.setattr(gibbs, "LARGEST", 3)
    found = zoo.augmented_step(models.correlated_slopes(), interweave=False).outlook()
    assert exact.condition / 2.0 < found.condition < 2.0 * exact.condition
    assert found.informed == pytest.approx(exact.informed, abs=0.15)
    assert found._replace(condition=0.0, informed=0.0) == exact._replace(condition=0.0, informed=0.0)


def test_estimates_from_draws_come_near_with_their_number():
    rng = np.random.default_rng(0)
    J = sparse.csr_array(rng.normal(size=(80, 30)) * (rng.random((80, 30)) < 0.3) * np.logspace(0, 1.5, 30))
    prior = sparse.csr_array(sparse.diags_array(np.linspace(0.5, 2.0, 30)))
    precision = sparse.csr_array(J.T @ J + prior)
    learned = np.arange(30) < 8  # those of which the rows say least
    exact = scaled_condition(precision.toarray())
    share = informed_share(precision.toarray(), prior.toarray(), learned)
    draws = rng.multivariate_normal(np.zeros(30), np.linalg.inv(precision.toarray()), size=20_000)
    assert estimated_condition(precision, draws) == pytest.approx(exact, rel=0.1)
    assert estimated_informed_share(prior, draws, learned) == pytest.approx(share, abs=0.02)
    assert estimated_informed_share(prior, draws, learned & False) == 1.0


def test_shares():
    # Curvature of the logistic likelihood over the mean of PG(1, f), at 0 and far out.
    own, augmented = information_share("polya_gamma", np.zeros(3), [np.ones(3)])
    assert own == augmented == 0.75
    own, augmented = information_share("polya_gamma", np.full(2, 4.0), [np.ones(2)])
    p = 1.0 / (1.0 + np.exp(-4.0))
    assert own == pytest.approx(2 * p * (1 - p))
    assert augmented == pytest.approx(2 * np.tanh(2.0) / 8.0)
    assert information_share("student_t", np.zeros(1), [np.zeros(1), np.array([4.0])])[0] == pytest.approx(
        5 / 7
    )
    own, augmented = information_share("probit", np.zeros(1), [np.ones(1)])
    assert own / augmented == pytest.approx(2 / np.pi)
    assert informed_share(np.eye(2) * 4.0, np.eye(2), np.array([True, True])) == pytest.approx(0.75)
    assert informed_share(np.eye(2), np.eye(2), np.zeros(2, dtype=bool)) == 1.0
    assert scaled_condition(np.diag([1.0, 100.0])) == pytest.approx(1.0)


@pytest.mark.usefixtures("uncompiled")
def test_nuts_beside_the_step_has_the_gradient_of_the_whole_model():
    model = models.several_likelihoods()
    step = zoo.augmented_step(model)
    [nuts] = conditional_nuts(model, step, 0.9)
    point = model.initial_point(0)
    value = model["scale"]
    expected = model.compile_dlogp(vars=[value])(point)
    _, gradient = nuts._logp_dlogp_func._pytensor_function(np.atleast_1d(point["scale_log__"]))
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)
    alone = models.max_margin()
    assert conditional_nuts(alone, zoo.augmented_step(alone), 0.9) == []


@pytest.mark.usefixtures("uncompiled")
def test_nuts_beside_the_step_reads_no_row_that_its_variables_do_not_enter():
    model = models.eight_schools()
    [nuts] = conditional_nuts(model, zoo.augmented_step(model), 0.9)
    names = {v.name for v in nuts._logp_dlogp_func._extra_vars}
    assert names == {"mu", "theta"}
    terms = nuts._logp_dlogp_func._pytensor_function.maker.fgraph.toposort()
    assert not any("28." in str(getattr(v, "data", "")) for node in terms for v in node.inputs)


def test_sample_takes_what_is_expected_to_be_faster():
    model = models.one_line(False)
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        tree = zoo.sample(draws=20, tune=20, chains=2, random_seed=1, progress=False)
        again = zoo.sample(draws=20, tune=20, chains=2, random_seed=1, progress=False, method="gibbs")
        third = zoo.sample(draws=20, tune=20, chains=2, random_seed=1, progress=False, method="gibbs")
    assert tree["sample_stats"].attrs["method"] == "nuts"
    assert "NUTS is expected" in tree["sample_stats"].attrs["why"]
    assert again["sample_stats"].attrs["method"] == "gibbs"
    assert again["posterior"]["a"].shape == (2, 20)
    np.testing.assert_array_equal(again["posterior"]["a"], third["posterior"]["a"])


def test_sample_warns_of_chains_that_have_not_converged():
    with pytest.warns(zoo.ConvergenceWarning, match=r"zoo.sample by 'gibbs': .*Take more draws"):
        zoo.sample(_correlated(30), draws=50, tune=1, chains=2, random_seed=1, progress=False)


def test_sample_refuses_in_words():
    model = models.one_line(False)
    with pytest.raises(ValueError, match="method: 'hmc' is unknown"):
        zoo.sample(model, method="hmc")
    with pytest.raises(ValueError, match="draws"):
        zoo.sample(model, draws=0)
    with pm.Model() as poisson:
        pm.Poisson("y", pm.math.exp(pm.Normal("a")), observed=[0, 1])
    with pytest.raises(ValueError, match="no Gaussian block was found"):
        zoo.sample(poisson, method="gibbs")
    with pytest.raises(ValueError, match=r"method='nuts' has no block. Leave vars out"):
        zoo.sample(model, method="nuts", vars=["a"])
    with pytest.raises(
        ValueError, match=r"vars holds 'typo', which is no free variable of the model. Those are"
    ):
        zoo.sample(model, vars=["typo"])
    with pm.Model() as discrete:
        pm.Normal("y", pm.Normal("a") + pm.Poisson("k", 3.0), observed=[0.0, 1.0])
    for method in ("auto", "gibbs", "nuts"):
        with pytest.raises(
            ValueError, match=r"'k' is discrete, .* or take pm.sample, which has a step for it"
        ):
            zoo.sample(discrete, method=method)


def test_sample_takes_the_block_that_vars_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        tree = zoo.sample(
            models.one_line(False), vars=["b"], draws=20, tune=20, chains=2, random_seed=1, progress=False
        )
    assert tree["sample_stats"].attrs["method"] == "gibbs"
    assert tree["sample_stats"].attrs["why"] == "vars names the block"

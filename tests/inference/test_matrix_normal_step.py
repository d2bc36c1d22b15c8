"""The Gibbs sampler as a step of pm.sample: the same posterior as NUTS, refused where it would not be.

Statistical comparisons: |z| < 5 a quantity with Monte-Carlo errors from the effective sample size; under the null the
some 45 of a test exceed it with probability 3e-5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import pytest

import zoo
from tests.comparisons import largest_z, max_margin_quantities
from tests.models.test_max_margin import _data


@dataclass(frozen=True, kw_only=True)
class RandomIntercepts(zoo.MaxMargin):
    """A random intercept per task beside the paper's coefficients, and a second, logistic likelihood of it."""

    second: bool = False

    def priors(self, data):
        found = super().priors(data)
        sd = pm.HalfNormal("intercept_sd", 1.0)
        white = pm.Normal("_intercept", dims="task")
        found["intercept"] = pm.Deterministic("intercept", sd * white, dims="task")
        if self.second:
            pm.Bernoulli("closed", logit_p=found["intercept"], observed=[0, 1, 1], dims="task")
        return found

    def latent(self, data, priors):
        return super().latent(data, priors) + data.per_row(priors["intercept"])


def _quantities(fit):
    found = max_margin_quantities(fit.posterior)
    found["intercept_sd"] = np.log(fit.posterior["intercept_sd"].to_numpy())
    for t in range(3):
        found[f"intercept {t}"] = fit.posterior["intercept"].to_numpy()[..., t]
    return found


@pytest.mark.scheduled
@pytest.mark.parametrize(
    "fields",
    [
        {"second": True, "task_scale_matrix": np.diag([0.5, 1.0, 2.0])},
        pytest.param(
            {"loss": "epsilon_insensitive", "epsilon": 0.1, "C": "learned"}, marks=pytest.mark.statistical
        ),
    ],
    ids=["hinge, second likelihood", "regression, learned C"],
)
def test_step_and_nuts_draw_from_one_posterior(fields):
    model = RandomIntercepts(**{"C": 0.8, **fields})
    data = _data(model.loss)
    data = replace(data, weight=np.random.default_rng(2).gamma(4.0, 0.25, data.n_rows))
    options = dict(progress=False, nuts={"target_accept": 0.95})
    step = model.fit(data, "nuts", block="gibbs", draws=600, tune=300, random_seed=1, **options)
    nuts = model.fit(data, "nuts", draws=600, tune=500, random_seed=2, **options)
    assert step.posterior.sizes == nuts.posterior.sizes
    z, where = largest_z(_quantities(step), _quantities(nuts))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


@pytest.mark.statistical
@pytest.mark.scheduled
def test_step_alone_is_the_gibbs_sampler():
    data = _data("hinge")
    model = zoo.MaxMargin(feature_cov="identity")
    with model.build(data):
        tree = pm.sample(
            draws=1000, tune=300, step=[model.step(data)], cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    gibbs = model.fit(data, "gibbs", draws=5000, tune=300, random_seed=2, progress=False)
    ours = max_margin_quantities(tree["posterior"].to_dataset())
    z, where = largest_z(max_margin_quantities(gibbs.posterior), ours)
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


class OtherPrior(zoo.MaxMargin):
    """Coefficients of another scale under the same names."""

    def priors(self, data):
        task = self._factor("task", len(data.task_names))
        white = pm.Normal("_coefficients", 0.0, 2.0, dims=("feature", "task"))
        return {"coefficients": pm.Deterministic("coefficients", white @ task.T, dims=("feature", "task"))}


class OtherLatent(zoo.MaxMargin):
    """A function that is not linear in the coefficients."""

    def latent(self, data, priors):
        return 2.0 * super().latent(data, priors)


class OtherLikelihood(zoo.MaxMargin):
    """Another law of the labels."""

    def observe(self, data, f):
        return pm.Bernoulli("y", logit_p=f, observed=(data.y > 0).astype("int64"), dims="obs")


class Penalised(zoo.MaxMargin):
    """A term that sees the coefficients beside the likelihood."""

    def observe(self, data, f):
        pm.Potential("penalty", -(pm.modelcontext(None)["coefficients"].sum() ** 2))
        return super().observe(data, f)


@pytest.mark.parametrize(
    ("subclass", "message"),
    [
        (OtherPrior, "prior of the coefficients"),
        (OtherLatent, "function values are not"),
        (OtherLikelihood, "another likelihood"),
        (Penalised, "'penalty' depends on the coefficients"),
    ],
)
@pytest.mark.usefixtures("uncompiled")
def test_step_refuses_a_model_it_was_not_derived_for(subclass, message):
    data, model = _data("hinge"), subclass(feature_cov="identity")
    with model.build(data), pytest.raises(ValueError, match=message):
        model.step(data)


def test_no_step_for_labels_with_a_learned_C():
    data, model = _data("hinge"), zoo.MaxMargin(likelihood="normalised_hinge")
    with model.build(data), pytest.raises(ValueError, match="the Gibbs step is for the hinge"):
        model.step(data)

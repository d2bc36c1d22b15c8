"""Collapsed moves with learned scales against the sampler without them: two kernels of one posterior.

Null: both draw from one law. Means and standard deviations of functions of the population are compared by z-scores with
the Monte-Carlo errors of both sides; |z| > 5 has probability 6e-7 for each, some 2e-5 for all of the 40. Draws from
the prior, as in test_kernels.py, have too little power here: two of the planted mistakes passed there.
"""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from tests.statistical.references import moments
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.run.chains import run_chains


@pytest.fixture(scope="module")
def data():
    """Eight tasks of four rows; one feature stands still in a task, beside an intercept."""
    rng, T, n = np.random.default_rng(0), 8, 4
    task = np.repeat(np.arange(T), n)
    sex, x = rng.integers(0, 2, T)[task] - 0.4, rng.normal(size=T * n)
    w = 0.5 + 0.3 * rng.normal(size=T)
    y = rng.normal(size=T)[task] + 0.5 * sex + w[task] * x + 0.5 * rng.normal(size=T * n)
    return zoo.MultiTaskData.from_arrays(np.column_stack([sex, x, np.ones(T * n)]), y, task)


def _moments(data, seed, loose, shares):
    factory = zoo.NIWLinear(covariance_prior="half_t", scale_matrix=1.0)
    prepared = factory.design(data)
    kernel = factory.gibbs_kernel(prepared, prepared.y, loose=loose, sweep_shares=shares)
    draws = run_chains(kernel, draws=8000, tune=300, chains=4, random_seed=seed, progress=False, cores=1)[0]
    C, mean = draws["feature_cov"], draws["population_mean"]
    sd = np.sqrt(np.diagonal(C, axis1=2, axis2=3))
    found = {"noise": draws["noise"]}
    for i in range(3):
        found |= {f"log sd {i}": np.log(sd[..., i]), f"mean {i}": np.tanh(mean[..., i])}
        found |= {f"correlation {i}, {j}": C[..., i, j] / (sd[..., i] * sd[..., j]) for j in range(i)}
    return {name: moments(values) for name, values in found.items()}


@pytest.mark.scheduled
@pytest.mark.statistical
def test_collapsed_moves_keep_the_posterior(data):
    plain = _moments(data, 1, 0, (1.0, 0.0))
    for loose in (1, 2):
        found = _moments(data, 2 + loose, loose, (0.0, 1.0))
        scores = {
            f"{moment} of {name}": (found[name][moment] - expected[moment])
            / np.hypot(found[name][f"{moment}_error"], expected[f"{moment}_error"])
            for name, expected in plain.items()
            for moment in ("mean", "sd")
        }
        worst = max(scores, key=lambda name: abs(scores[name]))
        assert abs(scores[worst]) < 5.0, f"{loose} loose axes, {worst}: z = {scores[worst]:.1f}"


def test_em_refuses_learned_scales(data):
    with pytest.raises(UnsupportedMethodError, match="method 'em' knows no learned scales of features"):
        zoo.NIWLinear(covariance_prior="half_t").fit(data, "em", progress=False)

"""Models by NumPyro's NUTS, which ``pm.sample`` calls: the posterior of the default sampler."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest
from arviz_stats.base import array_stats

import zoo


def _rows(labels: bool) -> zoo.MultiTaskData:
    """Six tasks of 25 rows, whose coefficients scatter about a common mean."""
    rng = np.random.default_rng(3)
    task, X = np.repeat(np.arange(6), 25), rng.normal(size=(150, 3))
    W = np.array([1.0, -1.0, 0.5]) + 0.5 * rng.normal(size=(6, 3))
    y = np.sum(X * W[task], axis=1) + 0.5 * rng.normal(size=150)
    return zoo.MultiTaskData.from_arrays(X, np.sign(y) if labels else y, [f"task {t}" for t in task])


def _moments(model: pm.Model, sampler: str, names: list[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means of all entries of variables, and the squares of their Monte Carlo errors."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX about the devices, of PyMC about two chains
        found = pm.sample(
            draws=500, tune=500, chains=2, random_seed=1, nuts_sampler=sampler, progressbar=False, cores=1
        )
    result = {}
    for name in names:
        draws = found["posterior"][name].to_numpy().reshape(2, 500, -1)
        ess = np.array([array_stats.ess(entry, method="mean") for entry in np.moveaxis(draws, -1, 0)])
        result[name] = draws.mean(axis=(0, 1)), draws.var(axis=(0, 1)) / ess
    return result


@pytest.mark.scheduled
@pytest.mark.parametrize(
    ("factory", "labels", "names"),
    [
        (zoo.NIWLinear(), False, ["coefficients", "population_mean", "feature_cov", "noise"]),
        (zoo.MaxMargin(), True, ["coefficients", "feature_cov"]),
    ],
    ids=["NIWLinear", "MaxMargin, hinge"],
)
def test_numpyro_draws_from_the_posterior_of_the_default_sampler(factory, labels, names):
    """Means within five standard errors of their difference; 31 entries at most, false alarms 2e-5."""
    pytest.importorskip("numpyro", reason="NumPyro is not installed: pip install 'multitask-zoo[jax]'")
    model = factory.build(_rows(labels))
    expected, found = _moments(model, "nutpie", names), _moments(model, "numpyro", names)
    for name in names:
        (mean, error), (other, other_error) = expected[name], found[name]
        scores = np.abs(mean - other) / np.sqrt(error + other_error)
        assert scores.max() < 5.0, f"{name}: z = {scores.max():.1f}"

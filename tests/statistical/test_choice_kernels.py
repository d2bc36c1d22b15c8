"""Gibbs sweeps of choices keep the posterior: draws of prior and data, and what they are after some sweeps.

The null of each test is that the kernel leaves the joint law as it is; a right one is rejected once in 500,000, all
five together once in 100,000.
"""

import numpy as np
import pytest

import zoo
from tests.daily import daily
from zoo.diagnostics.sequential import kernel_test

pytestmark = pytest.mark.statistical

ALPHA, SWEEPS = 1e-5 / 5, 10
LOGIT = {"likelihood": "multinomial_logit"}


def panel(tasks=3, sizes=(2, 3), n_features=2, seed=3):
    """Each task has a choice of each size; the first alternative was chosen."""
    rng = np.random.default_rng(seed)
    size = np.tile(sizes, tasks)
    task = np.repeat(np.repeat(np.arange(tasks), len(sizes)), size)
    choice = np.repeat(np.arange(len(size)), size)
    first = np.concatenate([[1.0], np.diff(choice)]) > 0
    X = 1.5 * rng.standard_normal((len(task), n_features))
    return zoo.MultiTaskData.from_arrays(X, first, task, choice=choice)


CASES = {
    "plain": (zoo.NIWLinear, {**LOGIT, "delta": 4.0, "pi": 0.7}, {}),
    "learned pi": (zoo.NIWLinear, {**LOGIT, "delta": 4.0, "pi": "learned"}, {}),
    "one task, one feature": (zoo.NIWLinear, {**LOGIT, "delta": 4.0}, {"tasks": 1, "n_features": 1}),
    "some rows of the factor": (zoo.NIWLinear, {**LOGIT, "delta": 5.0}, {"n_features": 8}),
    "half-t": (zoo.NIWLinear, {**LOGIT, "delta": 4.0, "covariance_prior": "half_t"}, {}),
}


@pytest.mark.filterwarnings("ignore:ks_2samp.*Exact calculation unsuccessful")  # of ties
@pytest.mark.parametrize("case", daily(CASES, ["learned pi", "half-t"]))
def test_against_joint_draws(case):
    kind, fields, shape = CASES[case]
    result = kernel_test(
        kind(**fields), panel(**shape), sweeps=SWEEPS, size=1000, alpha=ALPHA, random_seed=1
    )  # fmt: skip
    assert not result.rejected, str(result)


@pytest.mark.scheduled
def test_successive_conditionals():
    """Geweke's simulator: choices are made anew after each sweep."""
    factory = zoo.NIWLinear(**LOGIT, delta=4.0)
    result = kernel_test(
        factory, panel(), sweeps=SWEEPS, resimulate=True, size=500, alpha=ALPHA, random_seed=1
    )
    assert not result.rejected, str(result)

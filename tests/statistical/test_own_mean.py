"""Gibbs sweeps of a population whose mean has a prior of its own keep the posterior.

The null of each test is that the kernel leaves the joint law of parameters and responses as it is; a right one is
rejected once in 100,000 runs of all of them together, whatever the seed.
"""

from dataclasses import replace

import numpy as np
import pytest

import zoo
from tests.daily import daily
from tests.statistical.test_choice_kernels import panel
from tests.statistical.test_kernels import AUGMENTED, GROUPS, NOISE_BY_TASK, SHARED, crossed_rows, rows
from zoo.diagnostics import kernel_test

pytestmark = pytest.mark.statistical

NARROW = {"delta": 4.0, "mean_scale": 0.8, "sd_scale": 0.5}
WIDE = {**NARROW, "mean_scale": 1.5}
CASES = {
    "plain": ({}, {}, {"loose": 0, "sweep_shares": (0.0, 0.0)}),
    "one task": ({}, {"n_tasks": 1}, {}),
    "group moves, noise by task": (NOISE_BY_TASK, {}, {"group_moves": True}),
    "loose": ({}, {"n_features": 3, "n_rows": 4}, {"loose": 1, "sweep_shares": (0.5, 0.7)}),
    "all loose": ({}, {"n_features": 3}, {"loose": 3}),
    "loose, groups": ({}, {**GROUPS, "n_features": 4}, {"loose": 2, "sweep_shares": (0.0, 1.0)}),
    "in units": ({}, {"n_features": 3, "constant": True, "moved": True}, {}),
    "shared, in units": ({**SHARED, "shared_scale": 0.7}, {**GROUPS, "n_features": 4, "moved": True}, {}),
    "shared, learned scale": (
        {**SHARED, "shared_scale": "learned"},
        {**GROUPS, "moved": True},
        {"group_moves": True},
    ),
    "crossed": ({}, {"crossed": "few"}, {}),
    "crossed, many": ({}, {"crossed": "many"}, {}),
    "student t": ({"likelihood": AUGMENTED["student t"]}, {"constant": True, "moved": True}, {}),
    "logistic, rare": (
        {**WIDE, "likelihood": "logistic"},
        {"constant": True, "n_tasks": 3, "n_features": 3},
        {"likelihood_moves": True, "group_moves": True},
    ),
    "logistic, rare, shared": (
        {**WIDE, **SHARED, "likelihood": "logistic"},
        {**GROUPS, "n_features": 4, "moved": True},
        {"likelihood_moves": True},
    ),
    "logistic, crossed, many": (
        {**WIDE, "likelihood": "logistic"},
        {"crossed": "many"},
        {"group_moves": True},
    ),
    "ordinal": (
        {**WIDE, "likelihood": AUGMENTED["ordinal"]},
        {"constant": True, "n_tasks": 3, "n_features": 3},
        {"likelihood_moves": True, "group_moves": True},
    ),
    "ordinal by task": (
        {**WIDE, "likelihood": AUGMENTED["ordinal by task"]},
        {"constant": True, "n_tasks": 3},
        {"likelihood_moves": False},
    ),
    "negative binomial": ({"likelihood": AUGMENTED["negative binomial"]}, {"constant": True}, {}),
    "choices": ({**WIDE, "likelihood": "multinomial_logit"}, {"choices": True}, {}),
    "choices, some rows of the factor": (
        {**WIDE, "delta": 6.0, "likelihood": "multinomial_logit"},
        {"choices": True, "n_features": 8},
        {},
    ),
}
DAILY = {
    "group moves, noise by task", "loose", "shared, in units", "logistic, rare", "choices",
}  # fmt: skip


def data_of(factory, shape):
    """Rows, moved away from mean 0 and standard deviation 1 where the case says so."""
    shape = dict(shape)
    if shape.pop("choices", False):
        return panel(**shape)
    crossed, moved = shape.pop("crossed", None), shape.pop("moved", False)
    data = rows(**shape, labels=False) if crossed is None else crossed_rows(crossed == "many")
    data = replace(data, units=None)
    responses = factory.likelihood.responses
    if responses != "real":
        lower = {"labels": -1.0, "counts": 0.0, "grades": 2.0}[responses]
        return replace(data, y=np.where(np.arange(data.n_rows) % 2, 1.0, lower))
    y = 5.0 + 3.0 * data.y if moved else data.y
    inputs = np.array(data.inputs) if moved else data.inputs
    if moved:
        inputs[:, 1:] = 4.0 - 2.5 * inputs[:, 1:]
    return replace(data, inputs=inputs, y=y)


@pytest.mark.filterwarnings("ignore:ks_2samp.*Exact calculation unsuccessful")  # of ties
@pytest.mark.parametrize("case", daily(CASES, DAILY))
def test_against_joint_draws(case):
    fields, shape, options = CASES[case]
    factory = zoo.HierarchicalLinear(**{**NARROW, **fields})
    data = data_of(factory, shape)
    result = kernel_test(
        factory, data, sweeps=10 if "choices" in case else 4, size=1000, alpha=1e-5 / len(CASES), random_seed=1,
        **options,
    )  # fmt: skip
    assert not result.rejected, str(result)

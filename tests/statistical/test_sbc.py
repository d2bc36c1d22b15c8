"""Every factory of the registry with each exact method: fifty replications of simulation-based calibration.

Null: uniform ranks. A case fails with probability 1e-4 at most (Bonferroni over its quantities), one of the
some 25 with 0.0025. tests/statistical/run_sbc.py runs the same at full length.
"""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from tests.statistical.cases import FIELDS, LEFT_OUT, NO_SIMULATION, Case, all_cases, small_data
from tests.statistical.run_sbc import settings
from zoo.diagnostics import sbc
from zoo.models.baselines import PooledTasks
from zoo.registry import FACTORIES, get_factory

pytestmark = pytest.mark.statistical
# The joint law of the kernels of the others is tested in test_kernels.py and test_own_mean.py with every change.
_DAILY = (
    "HierarchicalLinear-gibbs-delta_4.0-mean_scale_0.8-sd_scale_0.5",
    "NIWGaussianProcess-gibbs",
    "MultiTaskKernelMachine-gibbs",
    "MaxMargin-gibbs-likelihood_EpsilonInsensitive(epsilon_0.3)",
    "IndependentTasks-exact",
    "PooledTasks-exact",
)
_CASES = [
    pytest.param(
        case,
        marks=[pytest.mark.scheduled] * (case.name not in _DAILY),
    )
    for case in all_cases()
]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_calibrated(case: Case):
    found = sbc(
        case.factory, case.data, case.method, replications=50, random_seed=1, progress=False, **settings(case),
    )  # fmt: skip
    table = found.summary(prob=1.0 - 1e-4)
    assert not found.failures, next(iter(found.failures.values()))
    assert table["uniform"].all(), table.sort_values("p").to_string()


@pytest.mark.parametrize("model", FACTORIES)
def test_every_factory_is_looked_at(model):
    """Each is calibrated by some exact method, or refused for the reason that is written down."""
    if model in NO_SIMULATION:
        factory = get_factory(model)()
        with pytest.raises(ValueError, match="potential"):
            sbc(factory, small_data(factory), "nuts", replications=2, random_seed=1, progress=False)
        return
    methods = {case.method for case in all_cases() if case.model == model}
    assert methods, f"{model} is not calibrated: give it fields in tests/statistical/cases.py"
    for fields in FIELDS.get(model, [{}]):
        exact = {m.name for m in get_factory(model)(**fields).method_table() if m.exact}
        assert exact <= methods | {method for name, method in LEFT_OUT if name == model}


class TooNarrow(PooledTasks):
    """Draws 20% too near their mean."""

    def _fit_exact(self, data, y, run):
        result = super()._fit_exact(data, y, run)
        posterior = result.posterior
        for name in ("coefficients", "noise"):
            centre = posterior[name].mean(axis=(0, 1))
            posterior[name] = centre + 0.8 * (posterior[name] - centre)
        return result


def test_narrow_draws_are_found():
    """A rank below a tenth then has probability 0.15: 5.6 standard errors of 1000 replications, and some 3.7 count."""
    data = small_data(zoo.PooledTasks())
    found = sbc(TooNarrow(), data, "exact", replications=1000, draws=49, random_seed=1, progress=False)
    table = found.summary()
    assert not found.failures
    assert not table.loc[["coefficients[x0]", "coefficients[x1]", "noise"], "uniform"].all(), (
        table.to_string()
    )
    # Too many ranks at both ends.
    ranks = found.ranks["rank"].sel(quantity="coefficients[x0]").to_numpy()
    assert np.mean((ranks < 5) | (ranks > 44)) > 0.22

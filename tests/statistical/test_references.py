"""Samplers against stored posteriors of other engines (tests/statistical/references.py makes them).

Null: both draw from one law. Means and standard deviations are compared by z-scores with the Monte-Carlo errors of both
sides; |z| > 5 has probability 6e-7 for each, some 2e-4 for all of the some 300.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.statistical import references
from tests.statistical.references import FOLDER, NO_REFERENCE, Reference, all_references
from zoo.registry import FACTORIES

# The joint law of the kernels of the others is tested in test_kernels.py with every change.
DAILY = {"NIWLinear", "MaxMargin-likelihood_Hinge_C_0.3", "IndependentTasks", "PooledTasks"}
CASES = [
    pytest.param(case, method, marks=[pytest.mark.scheduled] * (case.name not in DAILY))
    for case in all_references()
    for method in case.tested
]


@pytest.mark.statistical
@pytest.mark.parametrize(("case", "method"), CASES, ids=lambda value: getattr(value, "name", value))
def test_moments(case: Reference, method: str):
    stored = json.loads((FOLDER / f"{case.name}.json").read_text(encoding="utf-8"))["quantities"]
    draws = 300 if case.model == "MultiTaskKernelMachine" else 2000  # its sweep is a hundred times as long
    fit = case.factory.fit(case.data, method, draws=draws, chains=4, random_seed=2, progress=False)
    found = references.quantities(fit.idata["posterior"].to_dataset())
    assert set(stored) <= set(found)
    scores = {}
    for name, expected in stored.items():
        own = references.moments(found[name])
        for moment in ("mean", "sd"):
            error = np.hypot(own[f"{moment}_error"], expected[f"{moment}_error"])
            scores[f"{moment} of {name}"] = (own[moment] - expected[moment]) / error
    worst = max(scores, key=lambda name: abs(scores[name]))
    assert abs(scores[worst]) < 5.0, f"{worst}: z = {scores[worst]:.1f}"


@pytest.mark.parametrize("model", FACTORIES)
def test_every_factory_has_a_reference(model):
    cases = [case for case in all_references() if case.model == model]
    assert bool(cases) != (model in NO_REFERENCE)
    for case in cases:
        stored = json.loads((FOLDER / f"{case.name}.json").read_text(encoding="utf-8"))
        assert not references.faults(stored)
        assert stored["engine"] == case.engine

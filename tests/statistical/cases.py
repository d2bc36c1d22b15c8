"""What is calibrated: of every factory small data, and fields under which its prior is not too wide to simulate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.registry import FACTORIES, get_factory


@dataclass(frozen=True)
class Case:
    """A factory, its method, and options of ``zoo.diagnostics.sbc``.

    ``rows`` names other data than the small ones, by the keys of ``ROWS``.
    """

    model: str
    method: str
    fields: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    rows: str = ""

    @property
    def name(self) -> str:
        notes = [f"{k}={v}" for k, v in self.fields.items()]
        rows = [self.rows.replace(" ", "-")] if self.rows else []
        return "-".join([self.model, self.method, *notes, *rows]).replace("=", "_")

    @property
    def factory(self) -> ModelFactory:
        return get_factory(self.model)(**self.fields)

    @property
    def data(self) -> MultiTaskData:
        return ROWS[self.rows]() if self.rows else small_data(self.factory)


def small_data(factory: ModelFactory) -> MultiTaskData:
    """Two tasks of five rows with two features, and a place on a line where the model needs one."""
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1], 5)
    X = rng.standard_normal((10, 2))
    t = np.column_stack([rng.random(10)]) if factory.needs_t else None
    y = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    return MultiTaskData.from_arrays(X, y, task, t=t)


def steady_data() -> MultiTaskData:
    """Three tasks of six rows: a feature that varies, one with a value for each task, and an intercept."""
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], 6)
    X = np.column_stack([rng.standard_normal(18), np.array([-1.0, 0.3, 1.2])[task], np.ones(18)])
    return MultiTaskData.from_arrays(X, np.where(np.arange(18) % 2 == 0, 1.0, -1.0), task)


def crossed_data(many: bool = False) -> MultiTaskData:
    """Three tasks of six rows that meet the four levels of a second group; held as very ``many`` levels are."""
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], 6)
    frame = pd.DataFrame({"task": task, "x": rng.standard_normal(18), "y": rng.standard_normal(18)})
    frame["clinic"] = np.array([*"abcd"])[rng.integers(0, 4, 18)]
    with pytest.MonkeyPatch.context() as patch:
        if many:
            patch.setattr("zoo.data.formula.MOST_DENSE", 0)
        return MultiTaskData.from_formula("y ~ x + (1 + x | task) + (1 | clinic)", frame)


def choice_data() -> MultiTaskData:
    """Two people who choose four times each among three alternatives of two attributes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((24, 2)), columns=["u", "v"])
    frame["person"], frame["question"] = np.repeat([0, 1], 12), np.repeat(np.arange(8), 3)
    frame["chosen"] = np.tile([1.0, 0.0, 0.0], 8)
    return MultiTaskData.from_frame(frame, y="chosen", task="person", choice="question")


ROWS: dict[str, Callable[[], MultiTaskData]] = {
    "features constant within tasks": steady_data,
    "crossed groups": crossed_data,
    "crossed groups, of many levels": lambda: crossed_data(many=True),
    "choices": choice_data,
}

# Beside the defaults: a likelihood that is a density of y, where the default is none, and other likelihoods.
_TUBE = {"likelihood": zoo.EpsilonInsensitive(C=1.0, epsilon=0.3)}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "MaxMargin": [
        _TUBE,
        {"likelihood": zoo.EpsilonInsensitive(C="learned", epsilon=0.3)},
        {"likelihood": "normalised_hinge"},
    ],
    # The finite process of the model is that of the Gibbs sampler in the limit of many columns.
    "NonparametricMaxMargin": [{**_TUBE, "K_max": 400}],
    # Half-t laws of the default have no mean, and most of their draws say nothing of a sampler.
    "HierarchicalLinear": [
        {"delta": 4.0, "mean_scale": 0.8, "sd_scale": 0.5},
        {"delta": 4.0, "mean_scale": 1.5, "sd_scale": 0.5, "likelihood": "logistic"},
    ],
    "NIWLinear": [{}, {"likelihood": "logistic"}],
    "MultiTaskKernelMachine": [
        {},
        {"lam": 0.5, "amplitude": 1.0, "likelihood": zoo.Gaussian(noise=0.5)},
        {"likelihood": "logistic"},
    ],
}
# One sweep of the collapsed sampler is many, and takes as long.
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("MultiTaskKernelMachine", "gibbs"): {"tune": 30, "draws": 49, "thin": 2},
}
_STEADY = "features constant within tasks"
OTHER_ROWS = [
    # Where the moves are at work that integrate coefficients or a covariance out.
    Case("NIWLinear", "gibbs", rows=_STEADY),
    Case("MaxMargin", "gibbs", _TUBE, rows=_STEADY),
    Case(
        "MaxMargin", "gibbs", {"likelihood": zoo.EpsilonInsensitive(C="learned", epsilon=0.3)}, rows=_STEADY
    ),
    Case("NIWLinear", "gibbs", {"shared": ("x1",)}, rows=_STEADY),
    Case("NIWLinear", "gibbs", rows="crossed groups"),
    Case("NIWLinear", "gibbs", rows="crossed groups, of many levels"),
    Case("NIWLinear", "gibbs", {"likelihood": "multinomial_logit"}, rows="choices"),
]
# Pairs that are not calibrated, and why.
_COMPILED_ANEW = "steps of PyMC are compiled anew for every y; test_buffet_step has the step"
LEFT_OUT = {("NonparametricMaxMargin", "nuts"): _COMPILED_ANEW}
NO_SIMULATION = {"KernelLocalSmoothing": "its composite likelihood is no law of y, and `sbc` refuses it"}


def all_cases() -> list[Case]:
    """Every factory of the registry with each of its methods that draws from the exact posterior."""
    found = []
    for model in FACTORIES:
        if model in NO_SIMULATION:
            continue
        for fields in FIELDS.get(model, [{}]):
            factory = get_factory(model)(**fields)
            exact = [m.name for m in factory.method_table() if m.exact and m.name in factory.methods]
            for method in exact:
                if (model, method) not in LEFT_OUT:
                    found.append(Case(model, method, fields, OPTIONS.get((model, method), {})))
    return found + OTHER_ROWS

"""A model whose chains are good or bad as a test wants them, and its fits with their warnings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

import zoo
import zoo.core.factory
from zoo.core.factory import ModelFactory
from zoo.core.methods import Method, Result


@dataclass(frozen=True, kw_only=True)
class Walks(ModelFactory):
    """A model whose sampler is an autoregression with a planted fault."""

    fault: str = ""

    def priors(self, data):
        pm.Normal("noise", 0.0, 1.0)
        return {"coefficients": pm.Normal("coefficients", 0.0, 1.0, dims=("feature", "task"))}

    def observe(self, data, f):
        pm.Normal("y", f, 1.0, observed=data.y)

    def method_table(self):
        return [
            Method("walk", "an autoregression", self._fit_walk),
            Method("alone", "independent draws", self._fit_alone, independent=True),
        ]

    def _fit_alone(self, data, y, run):
        return self._fit_walk(data, y, run)

    def _fit_walk(self, data, y, run) -> Any:
        rng = np.random.default_rng(run.random_seed)
        shape = (run.chains, run.draws, data.n_features, data.n_tasks)
        coefficients = rng.standard_normal(shape)
        if self.fault == "stuck":
            coefficients[-1, :, 1, 2] = 0.7
        if self.fault == "modes":
            coefficients[: run.chains // 2, :, 1, 2] += 6.0
        posterior = {"coefficients": coefficients, "noise": rng.standard_normal(shape[:2])}
        diverging = np.zeros(shape[:2], dtype=bool)
        diverging[0, :3] = self.fault == "diverging"
        return Result(posterior, {"diverging": diverging})


def fit_and_warnings(rows, factory, **options):
    options = {"draws": 500, "chains": 4, "random_seed": 1, "progress": False} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = factory.fit(rows, **options)
    return fit, [w for w in caught if issubclass(w.category, zoo.ConvergenceWarning)]

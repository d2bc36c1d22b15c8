"""Tests that predictions do not depend on the units in which features and responses are given."""

from __future__ import annotations

import unittest
from dataclasses import fields, replace
from typing import Any

import numpy as np

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData

__all__ = ["PENDING_UNITS", "UnitTests"]

PENDING_UNITS = frozenset({"NIWLinear", "NIWGaussianProcess", "MultiLaplaceGP", "KernelLocalSmoothing"})
"""Models of this package whose default priors are not yet in units of the data.

Those of NIWLinear are, and its test stands in tests/models/test_niw_em.py: draws differ by the signs of a basis.
"""
# Of the standard deviation of predictions, and of the spread of their means: a search ends near its optimum, and not
# at it.
_OF_SD, _OF_SPREAD = 0.01, 2e-4


class UnitTests:
    """Part of :class:`zoo.testing.FactoryTestCase`, for the models of this package."""

    def make_factory(self) -> ModelFactory:
        """The factory under test."""
        raise NotImplementedError

    def make_data(self) -> MultiTaskData:
        """Rows that the factory accepts."""
        raise NotImplementedError

    def fit(self, method: str | None = None, seed: int = 1, factory: Any = None, data: Any = None) -> Fit:
        """A fit of few draws."""
        raise NotImplementedError

    def test_units_of_the_data(self) -> None:
        """Predictions and their spread follow the units of the response, and do not depend on those of features.

        Skipped for models of other packages, and where a field holds numbers, which are in units of the data.
        """
        factory, data = self.make_factory(), self.make_data()
        self._require_defaults(factory)
        if factory.default_method(data) == "nuts":
            raise unittest.SkipTest("few draws of NUTS say nothing here: chains part by rounding")
        if (
            factory.likelihood.responses == "real"
        ):  # functions through all rows have a noise that nothing tells
            data = replace(
                data, y=data.y + data.y.std() * np.random.default_rng(0).standard_normal(data.n_rows)
            )
        varies = ~data.constant_features
        shifted = 100.0 * varies * (np.arange(data.n_features) == np.argmax(varies))
        scale = np.where(varies, np.where(np.arange(data.n_features) % 2, 1e-3, 1e3), 1.0)
        changes: list[tuple[float, float, Any, Any]] = [(1e-6, 0.0, scale, 0.0)]
        if not varies.all():
            changes.append((1.0, 1e4, 1.0, shifted))
        if real := factory.likelihood.responses == "real":
            changes.append((1e6, 0.0, 1.0, 0.0))
        wanted = self._moments(factory, data, 1.0, 0.0)
        tolerance = _OF_SD * wanted[1].mean() + _OF_SPREAD * wanted[0].std()
        for unit, level, times, plus in changes:
            unit, level = (unit, level) if real else (1.0, 0.0)
            other = replace(
                data, y=data.y * unit + level if real else data.y, inputs=data.inputs * times + plus
            )
            found = self._moments(factory, other, unit, level)
            for what, one, two in zip(("mean", "standard deviation"), wanted, found, strict=True):
                np.testing.assert_allclose(
                    two,
                    one,
                    rtol=0.0,
                    atol=tolerance,
                    err_msg=f"{what} of predictions, y x {unit:g} + {level:g}, X x {times} + {plus}",
                )

    def _moments(
        self, factory: ModelFactory, data: MultiTaskData, unit: float, level: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of predictions at the rows, in units of a change of the response."""
        fit = self.fit(factory=factory, data=data)
        predicted = fit.predict(data.X, data.task, data.t, random_seed=1)
        return (predicted["mean"].to_numpy() - level) / unit, predicted["sd"].to_numpy() / unit

    @staticmethod
    def _require_defaults(factory: ModelFactory) -> None:
        name, default = type(factory).__name__, type(factory)()
        if not type(factory).__module__.startswith("zoo."):
            raise unittest.SkipTest(f"{name} is no model of zoo, and may have priors in units of the data")
        if name in PENDING_UNITS:
            raise unittest.SkipTest(f"default priors of {name} are not yet in units of the data")
        changed = [f.name for f in fields(factory) if getattr(factory, f.name) != getattr(default, f.name)]
        if set(changed) - {"likelihood"} or factory.likelihood != type(factory.likelihood)():
            raise unittest.SkipTest(f"{name} has fields of its own, whose numbers are in units of the data")

"""The part of the factories' contract that is about weights: a row of weight 2 is two rows alike, or is refused."""

from __future__ import annotations

import unittest
import warnings
from dataclasses import replace

import numpy as np
import pymc as pm

from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.support.quick import QUICK

__all__ = ["WeightTests"]

_POINTS = 2


class WeightTests:
    """Tests that :class:`zoo.testing.FactoryTestCase` inherits."""

    def make_factory(self) -> ModelFactory:
        """The factory under test."""
        raise NotImplementedError

    def make_data(self) -> MultiTaskData:
        """Rows that the factory accepts."""
        raise NotImplementedError

    def make_weighted_factory(self) -> ModelFactory:
        """The factory whose density is compared: override it where a field is chosen by folds of rows, and give it.

        Copies of a row may be parted by folds, so that the number that they choose is another one.
        """
        return self.make_factory()

    def test_a_weight_is_a_number_of_rows(self) -> None:
        """The built model has the log density of the model in which each row stands as often as its weight says.

        Skipped where the factory refuses weights by name, and where rows have variables of their own: the two models
        then have no density in common.
        """
        factory, data = self.make_weighted_factory(), self.make_data()
        weight = 1.0 + np.arange(data.n_rows) % 3
        weighted = replace(data, weight=weight)
        repeated = data.take(np.repeat(np.arange(data.n_rows), weight.astype(int)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # scales, and tasks of one class
            models = [_built(factory, weighted), factory.build(repeated)]
        start = models[0].initial_point(random_seed=1)
        other = models[1].initial_point(random_seed=1)
        if {n: np.shape(v) for n, v in start.items()} != {n: np.shape(v) for n, v in other.items()}:
            raise unittest.SkipTest("rows have variables of their own, so repeated rows have more of them")
        functions = [model.compile_logp(mode=QUICK) for model in models]
        continuous = {v.name for v in models[0].continuous_value_vars}
        rng = np.random.default_rng(1)
        for _ in range(_POINTS):
            point = {
                name: value + 0.1 * rng.standard_normal(np.shape(value)) if name in continuous else value
                for name, value in start.items()
            }
            values = [float(function(point)) for function in functions]
            np.testing.assert_allclose(
                values[0],
                values[1],
                rtol=1e-6,
                atol=1e-6,
                err_msg="log density with weights, and with every row repeated so many times",
            )


def _built(factory: ModelFactory, weighted: MultiTaskData) -> pm.Model:
    try:
        return factory.build(weighted)
    except ValueError as error:
        if "weight" not in str(error):
            raise
        raise unittest.SkipTest(f"{type(factory).__name__} refuses weights: {error}") from None

"""The part of the factories' contract that is about likelihoods: each one counts, or is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
from pymc.pytensorf import inputvars

from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.hinge import Hinge, NormalisedHinge
from zoo.likelihoods.laplace_noise import LaplaceNoise
from zoo.likelihoods.logistic import Logistic
from zoo.likelihoods.multinomial_logit import MultinomialLogit
from zoo.likelihoods.negative_binomial import NegativeBinomial
from zoo.likelihoods.ordinal import Ordinal
from zoo.likelihoods.poisson import Poisson
from zoo.likelihoods.probit import Probit
from zoo.likelihoods.student_t import StudentT
from zoo.likelihoods.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from zoo.likelihoods.zero_inflated_poisson import ZeroInflatedPoisson
from zoo.support.quick import QUICK

__all__ = ["LikelihoodTests"]

_LIKELIHOODS: tuple[Likelihood, ...] = (
    Gaussian(),
    Gaussian(noise=0.3),
    StudentT(),
    LaplaceNoise(),
    Logistic(),
    Probit(),
    Ordinal(),
    Ordinal(grades=3, width=0.8),
    Hinge(C=0.7),
    NormalisedHinge(),
    EpsilonInsensitive(C=0.7, epsilon=0.1),
    EpsilonInsensitive(C="learned"),
    Poisson(),
    NegativeBinomial(),
    MultinomialLogit(),
    ZeroInflatedPoisson(),
    ZeroInflatedNegativeBinomial(extra_zeros=0.2),
)


class LikelihoodTests:
    """Tests that :class:`zoo.testing.FactoryTestCase` inherits."""

    def make_factory(self) -> ModelFactory:
        """The factory under test."""
        raise NotImplementedError

    def make_data(self) -> MultiTaskData:
        """Rows that the factory accepts."""
        raise NotImplementedError

    def test_every_likelihood_counts(self) -> None:
        """With another likelihood y has the density that it says, or an error names the field."""
        for likelihood in _LIKELIHOODS:
            data = _suited(self.make_data(), likelihood)
            try:
                other = replace(self.make_factory(), likelihood=likelihood)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # scales, and tasks of one class
                    y = other.validate(data)
                    model, f = other.assemble(other.design(data), y)
            except ValueError as error:
                assert "likelihood" in str(error), f"{likelihood!r} is refused without a reason: {error}"
                continue
            if other.integrates_functions:
                assert likelihood == Gaussian(), f"{likelihood!r} is ignored: functions are integrated out"
                continue
            found, expected = _densities(model, f, y, likelihood)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=repr(likelihood))
            assert "nuts" in other.methods


def _suited(data: MultiTaskData, likelihood: Likelihood) -> MultiTaskData:
    """The rows with responses of the likelihood's kind, on the scale of the user."""
    data = replace(data, transform=None)
    if likelihood.of_choices:
        return _pairs(data)
    if likelihood.labels:
        return replace(data, y=np.where(np.arange(data.n_rows) % 3 > 0, 1.0, -1.0))
    if isinstance(likelihood, Ordinal):
        return replace(data, y=1.0 + np.arange(data.n_rows) % likelihood.n_grades)
    if likelihood.responses == "counts":
        return replace(data, y=np.floor(np.abs(data.y)))
    spread = float(np.std(data.y))
    return replace(data, y=(data.y - data.y.mean()) / (spread if spread > 0.0 else 1.0))


def _pairs(data: MultiTaskData) -> MultiTaskData:
    """The rows of each task as choices between two, of which the first one was chosen; a last one alone is left out."""
    rows = np.concatenate([rows[: len(rows) // 2 * 2] for rows in data.rows_by_task()])
    kept = data.take(rows)
    place = np.arange(kept.n_rows)
    return replace(kept, choice=place // 2, y=np.where(place % 2 == 0, 1.0, -1.0))


def _densities(
    model: pm.Model, f: Any, y: np.ndarray, likelihood: Likelihood
) -> tuple[np.ndarray, np.ndarray]:
    """Log density (N,) of y at a point of the model: by its observed variable, and by the likelihood's own term."""
    observed = model["y"]
    rows = pm.logp(observed, model.rvs_to_values[observed])
    wanted = [f, rows, *(model[name] for name in likelihood.learned)]
    # Values of the variables before any transform; auxiliary ones too.
    graphs = model.replace_rvs_by_values(wanted)
    function = model.compile_fn(graphs, mode=QUICK)
    needed = {variable.name for variable in inputvars(graphs)}
    point = {name: value for name, value in model.initial_point().items() if name in needed}
    values, found, *parameters = function(point)
    index = model["task_index"].get_value() if "task_index" in model.named_vars else None
    own = {
        name: np.asarray(value)[index] if np.ndim(value) == 1 and index is not None else np.asarray(value)
        for name, value in zip(likelihood.learned, parameters, strict=True)
    }
    if likelihood.of_choices:
        own["choice"] = np.arange(len(y)) // 2
    with pm.Model(coords={"obs": np.arange(len(y))}, model=None):
        term = likelihood.term(np.asarray(values), y, **own)
    return np.asarray(found), np.asarray(pm.logp(term, y).eval(mode=QUICK))

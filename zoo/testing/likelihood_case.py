"""The contract of a likelihood as pytest tests, for the package's own and for a user's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.resolve import resolve
from zoo.support.quick import QUICK

__all__ = ["LikelihoodTestCase"]

_F = np.array([-1.3, 0.0, 0.4, 2.1])
_MOST_COUNTS, _POINTS = 2000, 200_001
# Draws of y at one f, and the largest distance of their distribution function from the density's: by
# the bound of Dvoretzky, Kiefer and Wolfowitz a right one is further off once in 10^7 tests.
_DRAWS = 4000
_LARGEST_DISTANCE = float(np.sqrt(np.log(2.0 / 1e-7) / (2.0 * _DRAWS)))


class LikelihoodTestCase:
    """Tests of one likelihood: subclass it and override :meth:`make_likelihood`.

    The density is looked at with every learned parameter at ``parameter`` (0.7). A likelihood of choices
    is looked at in choices between two rows: one has the function value f, and the other one has 0.
    """

    parameter: float = 0.7

    def make_likelihood(self) -> Likelihood:
        """The likelihood under test."""
        raise NotImplementedError("override make_likelihood to return the likelihood under test")

    # ---------------------------------------------------------------- helpers

    def log_density(self, y: Any, f: Any, weight: Any = None) -> np.ndarray:
        """Log density of coded y (n,) at f (n,)."""
        likelihood = self.make_likelihood()
        y, f = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64))
        if likelihood.of_choices:
            return self._log_density_of_pairs(y, f, weight)
        parameters = {name: np.float64(self.parameter) for name in likelihood.learned}
        with pm.Model(coords={"obs": np.arange(len(y))}, model=None):
            term = likelihood.term(f.copy(), y.copy(), weight, **parameters)
        return np.asarray(pm.logp(term, y.copy()).eval(mode=QUICK))

    def _log_density_of_pairs(self, y: np.ndarray, f: np.ndarray, weight: Any) -> np.ndarray:
        """Of choices between a row with f and one with 0."""
        likelihood: Any = self.make_likelihood()
        both = {"y": np.concatenate([y, -y]), "f": np.concatenate([f, np.zeros(len(f))])}
        with pm.Model(coords={"obs": np.arange(2 * len(y))}, model=None):
            twice = None if weight is None else np.tile(weight, 2)
            term = likelihood.term(both["f"], both["y"], twice, choice=np.tile(np.arange(len(y)), 2))
        rows = np.asarray(pm.logp(term, both["y"]).eval(mode=QUICK))
        return rows[: len(y)] + rows[len(y) :]

    def draws(self, f: float) -> np.ndarray:
        """Draws of y (n,) at one f."""
        likelihood = self.make_likelihood()
        if likelihood.of_choices:
            choice: dict[str, Any] = {"choice": np.tile(np.arange(_DRAWS), 2)}
            values = np.concatenate([np.full(_DRAWS, f), np.zeros(_DRAWS)])
            with pm.Model(coords={"obs": np.arange(2 * _DRAWS)}, model=None):
                term = likelihood.term(values, np.ones(2 * _DRAWS), **choice)
                return np.asarray(pm.draw(term, random_seed=1))[:_DRAWS]
        parameters = {name: np.float64(self.parameter) for name in likelihood.learned}
        with pm.Model(coords={"obs": np.arange(_DRAWS)}, model=None):
            term = likelihood.term(np.full(_DRAWS, f), np.ones(_DRAWS), **parameters)
            return np.asarray(pm.draw(term, random_seed=1))

    def masses(self, f: float) -> tuple[np.ndarray, np.ndarray]:
        """Real y on a fine grid in the tangent of an angle, and the probability around each."""
        angle = (np.arange(_POINTS) + 0.5) / _POINTS * np.pi - np.pi / 2
        y = f + np.tan(angle)
        return y, np.exp(self.log_density(y, f)) / np.cos(angle) ** 2 * np.pi / _POINTS

    def support(self) -> np.ndarray:
        """Values of y, where these are labels or counts."""
        likelihood: Any = self.make_likelihood()
        if likelihood.responses == "grades":
            return np.arange(1.0, likelihood.n_grades + 1.0)
        return np.array([-1.0, 1.0]) if likelihood.labels else np.arange(float(_MOST_COUNTS))

    # ---------------------------------------------------------------- tests

    def test_spec_round_trip(self) -> None:
        """Word and fields give the likelihood back."""
        likelihood = self.make_likelihood()
        spec = likelihood.to_spec()
        assert spec.pop("word") == likelihood.word
        assert type(likelihood)(**spec) == likelihood
        assert resolve(likelihood) is likelihood
        assert hash(likelihood) == hash(type(likelihood)(**spec))

    def test_the_density_is_one_of_y(self) -> None:
        """It sums or integrates to 1 over y, for a likelihood that says that it is proper."""
        likelihood = self.make_likelihood()
        if not likelihood.proper:
            return
        for f in _F[::3]:
            if likelihood.responses == "real":
                total = self.masses(f)[1].sum()
                assert abs(total - 1.0) < 1e-4, f"the density at f = {f:g} integrates to {total:g} over y"
            else:
                total = np.exp(self.log_density(self.support(), f)).sum()
                assert abs(total - 1.0) < 1e-8, f"the density at f = {f:g} sums to {total:g} over y"

    def test_draws_follow_the_density(self) -> None:
        """Their distribution function is that of the density; a right one fails once in 10^7 tests."""
        likelihood = self.make_likelihood()
        if not likelihood.proper:
            return
        for f in _F[::3]:
            y = np.sort(self.draws(f))
            if likelihood.responses == "real":
                grid, mass = self.masses(f)
                cdf = np.interp(y, grid, np.cumsum(mass) / mass.sum())
                ranks = (np.arange(_DRAWS) + 0.5) / _DRAWS
                distance = np.max(np.abs(cdf - ranks))
            else:
                values = self.support()
                cdf = np.cumsum(np.exp(self.log_density(values, f)))
                found = np.searchsorted(y, values, side="right") / _DRAWS
                distance = np.max(np.abs(cdf - found))
            assert distance < _LARGEST_DISTANCE, f"draws at f = {f:g} have another law than the density"

    def test_a_weight_counts_rows(self) -> None:
        """The log density of a row of weight 2 is twice its own."""
        likelihood = self.make_likelihood()
        if not likelihood.weights:
            return
        y = self.draws(0.4)[: len(_F)]
        once, twice = self.log_density(y, _F), self.log_density(y, _F, np.full(len(_F), 2.0))
        np.testing.assert_allclose(twice, 2.0 * once, rtol=1e-10)

    def test_predictions(self) -> None:
        """Probabilities of classes and grades are those of the density; other responses have a mean."""
        likelihood = self.make_likelihood()
        parameters: dict[str, Any] = {name: np.full((1, 1), self.parameter) for name in likelihood.learned}
        if likelihood.of_choices:
            pairs = np.stack([_F, np.zeros(len(_F))])
            parameters["choice"] = np.tile(np.arange(len(_F)), 2)
            found = np.asarray(likelihood.probability(pairs.reshape(1, -1), **parameters)).reshape(2, -1)
            np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
            np.testing.assert_allclose(found[0], np.exp(self.log_density(np.ones(len(_F)), _F)), rtol=1e-8)
        elif likelihood.labels:
            if likelihood.proper:
                expected = np.exp(self.log_density(np.ones(len(_F)), _F))
                found = np.asarray(likelihood.probability(_F[None], **parameters))[0]
                np.testing.assert_allclose(found, expected, rtol=1e-8)
        else:
            if likelihood.responses == "grades":
                graded: Any = likelihood
                expected = np.exp([self.log_density(np.full(len(_F), k), _F) for k in self.support()])
                found = np.asarray(graded.grade_probabilities(_F[None], **parameters))[:, 0]
                np.testing.assert_allclose(found, expected, rtol=1e-8)
            assert np.shape(likelihood.mean(_F[None], **parameters)) == (1, len(_F))

    def test_responses_are_checked(self) -> None:
        """Labels, counts and grades that are none are refused, with the row."""
        likelihood = self.make_likelihood()
        graded = likelihood.responses == "grades"
        data = MultiTaskData.from_arrays(np.ones((3, 1)), np.array([1.0, 2.0 if graded else 0.0, 2.5]))
        if likelihood.responses == "real":
            np.testing.assert_array_equal(likelihood.encode(data), data.y)
            return
        try:
            likelihood.encode(data)
        except ValueError as error:
            assert "row 2" in str(error)
        else:
            raise AssertionError("y of 2.5 was taken for a label, a count or a grade")

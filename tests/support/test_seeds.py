"""Seeds of every kind work alike for every method, and others are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytest

import zoo
from tests.daily import daily
from zoo.support.seeds import ChainSeeds, described, generator, integer_seed, random_number_source, sequence


def made(labels: bool = False) -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(24, 2)), np.ones(24)])
    y = X[:, 0] + rng.normal(size=24)
    return zoo.MultiTaskData.from_arrays(
        X, np.where(y > 0, 1.0, -1.0) if labels else y, np.repeat(np.arange(3), 8)
    )


CASES = {
    "gibbs": (zoo.MaxMargin(likelihood="epsilon_insensitive"), made()),
    "exact": (zoo.PooledTasks(), made()),
    "laplace": (zoo.IndependentTasks(likelihood="logistic"), made(True)),
    "nuts": (zoo.PooledTasks(), made()),
}


def draws(method: str, random_seed: Any) -> np.ndarray:
    factory, data = CASES[method]
    options = {"nuts": {"nuts_sampler": "pymc", "max_treedepth": 3}} if method == "nuts" else {}
    # PyMC's NUTS takes the mode of some of its functions from the flag alone.
    with pytensor.config.change_flags(mode="FAST_COMPILE" if method == "nuts" else pytensor.config.mode):
        fit = factory.fit(
            data, method, draws=3, tune=3, chains=2, random_seed=random_seed, progress=False, **options
        )
    return fit.posterior["coefficients"].to_numpy()


@pytest.mark.parametrize("method", daily(CASES, [name for name in CASES if name != "nuts"]))
def test_every_kind_of_seed_works_alike(method):
    whole = draws(method, 1)
    assert np.array_equal(draws(method, np.int64(1)), whole)
    assert not np.array_equal(draws(method, None), whole)
    seeds = np.random.SeedSequence(1)
    assert np.array_equal(draws(method, seeds), draws(method, seeds))
    one, other = np.random.default_rng(4), np.random.default_rng(4)
    first, second = draws(method, one), draws(method, one)
    assert np.array_equal(draws(method, other), first)
    assert not np.array_equal(first, second)
    assert np.array_equal(draws(method, [5, 6]), draws(method, (5, 6)))
    assert not np.array_equal(draws(method, [5, 6]), draws(method, [5, 7]))


def test_one_number_per_chain():
    both = draws("gibbs", [5, 6])
    assert np.array_equal(both[::-1], draws("gibbs", [6, 5]))


@pytest.mark.parametrize("wrong", ["1", 1.5, True, -1, {}, [1.5, 2], [True, 1], [1, 2, 3], [], [[1, 2]]])
@pytest.mark.parametrize("method", ["gibbs", "exact"])
def test_other_seeds_are_refused_by_name(method, wrong):
    with pytest.raises((TypeError, ValueError), match="random_seed"):
        draws(method, wrong)


def test_predictions_take_every_kind_of_seed():
    fit = zoo.MaxMargin(likelihood="epsilon_insensitive").fit(
        made(), draws=5, tune=5, chains=2, random_seed=1, progress=False
    )

    def y(random_seed: Any) -> np.ndarray:
        return fit.predict_draws(made(), random_seed=random_seed)["y"].to_numpy()

    for make in (
        lambda: 1,
        lambda: np.random.SeedSequence(1),
        lambda: np.random.default_rng(1),
        lambda: [1, 2],
    ):
        assert np.array_equal(y(make()), y(make()))
    with pytest.raises(TypeError, match="random_seed"):
        fit.predict(made(), random_seed="one")
    with pytest.raises(TypeError, match="random_seed"):
        fit.to_pymc(random_seed=0.5)


def test_other_functions_take_every_kind_of_seed():
    data, factory = made(), zoo.PooledTasks()
    for make in (
        lambda: 1,
        lambda: np.random.SeedSequence(1),
        lambda: np.random.default_rng(1),
        lambda: [1, 2],
    ):
        assert np.array_equal(data.split(random_seed=make())[0].y, data.split(random_seed=make())[0].y)
        assert np.array_equal(data.folds(3, make())[0][0].y, data.folds(3, make())[0][0].y)
        assert np.array_equal(factory.simulate(data, make())[0].y, factory.simulate(data, make())[0].y)
        simulated = [
            zoo.datasets.simulate_matrix_normal(2, 2, [5, 5], random_seed=make())[0].y for _ in range(2)
        ]
        assert np.array_equal(*simulated)
    for call in (
        data.split,
        lambda random_seed: data.folds(3, random_seed),
        lambda random_seed: factory.simulate(data, random_seed),
    ):
        with pytest.raises(TypeError, match="random_seed"):
            call(random_seed="one")


def test_parts():
    assert isinstance(random_number_source([1, 2]), ChainSeeds)
    assert described([1, 2]) == "[1, 2]"
    assert described(random_number_source([1, 2])) == "[1, 2]"
    assert described(np.random.default_rng(1)) == "Generator"
    assert "\n" not in described(np.random.SeedSequence(1))
    assert described(None) == "None"
    with pytest.raises(ValueError, match="3 chains"):
        random_number_source([1, 2], 3)
    state = np.random.RandomState(1)
    assert integer_seed(state) != integer_seed(state)
    assert integer_seed(7) == 7
    bits = np.random.PCG64(3)
    assert sequence(bits).entropy != sequence(bits).entropy
    rng = np.random.default_rng(1)
    assert generator(rng) is rng
    assert generator(5).random() == np.random.default_rng(5).random()

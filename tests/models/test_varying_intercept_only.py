"""Varying coefficients of data without features: the constant feature of the model serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import zoo

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"east": RNG.uniform(0, 5, 150), "north": RNG.uniform(0, 5, 150)})
TABLE["y"] = 7.0 + np.sin(TABLE["east"]) + RNG.normal(0.0, 0.1, 150)
PLACES = ["east", "north"]
DATA = zoo.MultiTaskData.from_frame(TABLE, y="y", features=[], t=PLACES)


def _fit(data: Any, method: str | None, **fields: Any) -> Any:
    return zoo.VaryingCoefficientGP(**fields).fit(
        data, method, draws=20, chains=2, random_seed=1, progress=False
    )


@pytest.mark.parametrize("method", ["exact", "hsgp", "inducing", "vecchia", None])
def test_tables_and_arrays_are_fitted_and_predicted_alike(method: str | None, tmp_path: Path) -> None:
    fit = _fit(DATA, method)
    mean = np.asarray(fit.predict(TABLE.drop(columns="y"))["mean"])
    assert np.sqrt(np.mean((mean - 7.0 - np.sin(TABLE["east"])) ** 2)) < 0.1
    t = TABLE[PLACES].to_numpy()
    for empty in (None, np.empty((len(TABLE), 0))):
        other = _fit(zoo.MultiTaskData.from_arrays(empty, TABLE["y"], t=TABLE[PLACES]), method)
        np.testing.assert_array_equal(np.asarray(other.predict(empty, t=t)["mean"]), mean)
    level = fit.coefficients(TABLE[PLACES].head(3))["mean"].sel(feature="intercept")
    np.testing.assert_allclose(level, mean[:3], rtol=1e-10)
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.n_features == 0
    np.testing.assert_array_equal(np.asarray(loaded.predict(None, t=t)["mean"]), mean)


def test_it_is_the_model_of_a_feature_that_is_one() -> None:
    # Without an intercept nothing is centred, so the responses are centred here.
    centred = zoo.MultiTaskData.from_arrays(
        np.ones((len(TABLE), 1)), TABLE["y"] - TABLE["y"].mean(), t=TABLE[PLACES]
    )
    other = _fit(centred, "exact", intercept=False)
    mean = np.asarray(other.predict(np.ones((5, 1)), t=TABLE[PLACES].head())["mean"]) + TABLE["y"].mean()
    own = np.asarray(_fit(DATA, "exact").predict(TABLE.head())["mean"])
    np.testing.assert_allclose(own, mean, atol=1e-4)


def test_counts_and_standardized_responses_need_no_features_either() -> None:
    counts = zoo.MultiTaskData.from_arrays(None, np.arange(60) % 4, t=TABLE[PLACES].head(60))
    fit = _fit(counts, "laplace", likelihood="poisson")
    assert fit.predict(None, t=TABLE[PLACES].head(2)).sizes["obs"] == 2
    scaled = _fit(DATA.standardize(), "exact")
    np.testing.assert_allclose(
        np.asarray(scaled.predict(TABLE.head())["mean"]),
        np.asarray(_fit(DATA, "exact").predict(TABLE.head())["mean"]),
        atol=1e-4,
    )


def test_rows_that_nothing_numbers_are_refused() -> None:
    fit = _fit(DATA, "exact")
    with pytest.raises(ValueError, match="Give t or task, one entry per row"):
        fit.predict(None)
    with pytest.raises(ValueError, match="X has 1 column, but the fit has 0 features"):
        fit.predict(np.ones((2, 1)), t=np.ones((2, 2)))


@pytest.mark.parametrize("name", sorted(zoo.list_models().index))
def test_other_models_say_why_they_refuse(name: str) -> None:
    if name == "VaryingCoefficientGP":
        return
    with pytest.raises(ValueError, match="the data have no features, of which"):
        getattr(zoo, name)().fit(DATA, draws=5, progress=False)


@pytest.mark.parametrize(
    "fields", [{"intercept": False}, {"instance_kernel": "matern32"}, {"amplitude": "covariance"}]
)
def test_without_a_constant_feature_of_its_own_it_refuses_too(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the data have no features, of which"):
        _fit(DATA, None, **fields)

"""Coefficients in the units of the data."""

import arviz as az
import numpy as np
import pandas as pd
import pytest

import zoo

_FEW = {"draws": 40, "tune": 40, "chains": 2, "random_seed": 1, "progress": False}


def table() -> pd.DataFrame:
    """Heights in metres and ages in years of three clinics; pressure in mmHg."""
    rng = np.random.default_rng(4)
    df = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, 90),
            "height": rng.normal(1.7, 0.1, 90),
            "clinic": rng.choice(["a", "b", "c"], 90),
        }
    )
    df["sex"] = rng.choice(["f", "m"], 90)
    df["pressure"] = 80 + 0.6 * df["age"] + 5.0 * (df["sex"] == "m") + 2.0 * rng.normal(size=90)
    return df


def functions(units, rows: pd.DataFrame, task: str, columns: dict[str, pd.Series]):
    """``constant + sum of coefficient times feature`` of each draw, by hand."""
    w = units["coefficients"]
    w = w.sel(task=task) if "task" in w.dims else w
    f = units["constant"].sel(task=task) if "constant" in units else 0.0
    for name in w["feature"].to_numpy():
        f = f + w.sel(feature=name) * xr_rows(columns[str(name)])
    for name in units["shared_feature"].to_numpy() if "shared_coefficients" in units else []:
        f = f + units["shared_coefficients"].sel(shared_feature=name) * xr_rows(columns[str(name)])
    return f


def xr_rows(values):
    import xarray as xr

    return xr.DataArray(np.asarray(values, dtype=float), dims="obs")


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
@pytest.mark.parametrize("shared", [None, ["age", "sex[m]"]])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("factory", [zoo.NIWLinear, zoo.MaxMargin])
def test_functions_of_raw_features_are_those_of_the_fit(factory, intercept, shared):
    df = table()
    data = zoo.MultiTaskData.from_frame(df, y="pressure", task="clinic").standardize()
    data = data.add_intercept() if intercept else data
    model = factory(likelihood="gaussian", shared=shared)
    with pytest.warns(UserWarning) if not intercept else contextless():
        fit = model.fit(data, method="gibbs", **_FEW)
    units = fit.in_data_units()
    rows = df[df["clinic"] == "b"].head(5)
    columns = {**rows, "sex[m]": rows["sex"] == "m", "intercept": pd.Series(np.ones(5))}
    f = functions(units, rows, "b", columns).transpose("chain", "draw", "obs")
    np.testing.assert_allclose(f, fit.predict_draws(rows, random_seed=1)["f"], rtol=1e-8)
    assert ("constant" in units) == (not intercept)
    np.testing.assert_allclose(units["noise"], fit.posterior["noise"] * data.transform.y_scale)


class contextless:
    """A context that does nothing."""

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return False


def test_units_of_the_population_are_those_of_its_tasks():
    """The law of coefficients in units is the law of the coefficients, mapped: checked on a Gibbs fit's own draws."""
    data = zoo.MultiTaskData.from_frame(table(), y="pressure", task="clinic").standardize().add_intercept()
    with pytest.warns(zoo.ConvergenceWarning):
        fit = zoo.NIWLinear().fit(data, **_FEW)
    units, posterior = fit.in_data_units(), fit.posterior
    # Squared distances from the population are the same in all units.
    for found in (units, posterior):
        found["_d"] = found["coefficients"] - found["population_mean"]
    wanted, got = (
        np.einsum(
            "cdft,cdfg,cdgt->cdt",
            v["_d"].transpose("chain", "draw", "feature", "task"),
            np.linalg.inv(v["feature_cov"].to_numpy()),
            v["_d"].transpose("chain", "draw", "feature", "task"),
        )
        for v in (posterior, units)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_known_effect_comes_back_in_its_units_and_arviz_prints_it():
    data = zoo.MultiTaskData.from_frame(table(), y="pressure", task="clinic").standardize().add_intercept()
    fit = zoo.PooledTasks().fit(data, random_seed=1, progress=False)
    units = fit.in_data_units()
    effect = units["coefficients"].sel(feature="sex[m]")
    assert abs(float(effect.mean()) - 5.0) < 4.0 * float(effect.std())
    assert "coefficients[sex[m]]" in "".join(map(str, az.summary(units).index))


def test_data_that_were_not_standardized_are_left_alone_and_kernels_are_refused():
    data = zoo.MultiTaskData.from_frame(table(), y="pressure", task="clinic").add_intercept()
    data = data.take(np.arange(30))
    fit = zoo.PooledTasks().fit(data, random_seed=1, progress=False)
    np.testing.assert_array_equal(fit.in_data_units()["coefficients"], fit.posterior["coefficients"])
    machine = zoo.MultiTaskKernelMachine().fit(data.standardize(), random_seed=1, progress=False)
    with pytest.raises(ValueError, match="MultiTaskKernelMachine has no coefficients"):
        machine.in_data_units()

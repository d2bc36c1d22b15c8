"""Missing features as variables of the model, drawn by NUTS with all else."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
from scipy.stats import chi2, multivariate_normal, norm

import zoo
from zoo.core import predictive
from zoo.core.missing_features import MISSING, draw_gaps

_PYMC = {"nuts": {"nuts_sampler": "pymc", "max_treedepth": 3}}


def table(n: int = 24, share: float = 0.15) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of three tasks with gaps in a, b and c, which are correlated; and the features without gaps."""
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky([[1.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 1.0]])
    X = rng.normal(size=(n, 3)) @ root.T * [1.0, 3.0, 0.5] + [2.0, 0.0, -1.0]
    y = X @ [1.0, -0.5, 2.0] + 0.3 * rng.normal(size=n)
    seen = np.where(rng.random(X.shape) < share, np.nan, X)
    df = pd.DataFrame(seen, columns=list("abc")).assign(y=y, g=list("uvw") * (n // 3))
    return df, X


def data_of(df: pd.DataFrame) -> zoo.MultiTaskData:
    return zoo.MultiTaskData.from_frame(df, y="y", task="g", missing="model")


def quickly(factory: zoo.ModelFactory, data: zoo.MultiTaskData, **options) -> zoo.Fit:
    """A fit of few draws, which has not converged and need not have."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"), warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        few = {"draws": 20, "tune": 20, "chains": 2, "progress": False, "random_seed": 1}
        return factory.fit(data, **{**few, **_PYMC, **options})


def test_the_density_is_that_of_rows_of_features_and_of_responses_given_them():
    df, _ = table()
    data = data_of(df)
    model = zoo.PooledTasks(likelihood=zoo.Gaussian(noise=0.7)).build(data)
    gaps = data.gaps
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        density = model.compile_logp(vars=[model[MISSING], model["complete_features"], model["y"]])
        located = pm.pytensorf.compile(
            [v for v in model.value_vars if v.name != MISSING],
            model.replace_rvs_by_values([model["column_mean"], model["column_chol"], model["coefficients"]]),
            on_unused_input="ignore",
        )
    rng = np.random.default_rng(2)
    for _ in range(3):
        point = {k: v + 0.3 * rng.normal(size=v.shape) for k, v in model.initial_point().items()}
        mean, chol, w = located(**{k: v for k, v in point.items() if k != MISSING})
        filled = np.array(data.X)
        filled[gaps] = point[MISSING]
        expected = multivariate_normal(mean, chol @ chol.T).logpdf(filled).sum()
        expected += norm(filled @ np.ravel(w)[:3], 0.7).logpdf(data.y).sum()
        np.testing.assert_allclose(density(point), expected, rtol=1e-9)


def test_gaps_of_rows_to_predict_are_drawn_given_the_known_features_of_the_row():
    """Moments of 40,000 draws against the normal law given a part; 4.5 standard errors each, false alarms 1e-4."""
    mean = np.array([1.0, -2.0, 0.5])
    chol = np.linalg.cholesky([[2.0, 0.9, 0.3], [0.9, 1.0, 0.2], [0.3, 0.2, 0.7]])
    cov, size = chol @ chol.T, 40_000
    rows = np.array([[np.nan, 0.0, np.nan], [0.5, -1.0, 0.0], [np.nan] * 3, [2.0, np.nan, 1.0]])
    law = np.broadcast_to(mean, (size, 3)), np.broadcast_to(chol, (size, 3, 3))
    draws = draw_gaps(*law, rows, np.random.default_rng(1))
    assert draws.shape == (size, 6)
    for row, places in ((0, [0, 1]), (2, [2, 3, 4]), (3, [5])):
        m = np.isnan(rows[row])
        gain = cov[np.ix_(m, ~m)] @ np.linalg.inv(cov[np.ix_(~m, ~m)]) if (~m).any() else np.zeros((3, 0))
        centre = mean[m] + gain @ (rows[row, ~m] - mean[~m])
        left = cov[np.ix_(m, m)] - gain @ cov[np.ix_(~m, m)]
        off = draws[:, places] - centre
        distance = size * off.mean(axis=0) @ np.linalg.solve(left, off.mean(axis=0))
        assert distance < chi2(m.sum()).isf(1e-5)
        spread = np.sqrt((left**2 + np.outer(np.diag(left), np.diag(left))) / size)
        assert np.all(np.abs(off.T @ off / size - left) < 4.5 * spread)


@pytest.fixture(scope="module")
def fit() -> zoo.Fit:
    """Of rows with gaps, standardized."""
    return quickly(zoo.PooledTasks(), data_of(table()[0]).standardize().add_intercept())


def test_a_fit_predicts_complete_rows_rows_with_gaps_and_its_own(fit, tmp_path):
    df, X = table()
    data = fit.data
    assert fit.method == "nuts"
    assert fit.posterior[MISSING].sizes["gap"] == int(data.gaps.sum())
    first = tuple(np.argwhere(data.gaps)[0])
    assert fit.posterior["gap"].values[0] == f"{'abc'[first[1]]}[{first[0]}]"
    own = fit.predict(df.drop(columns="y"), random_seed=3)
    # The rows of the fit, as a table and as data: of its own gaps the posterior knows what the response says.
    np.testing.assert_allclose(own["mean"], fit.predict(data, random_seed=3)["mean"], rtol=1e-9)
    full = pd.DataFrame(X, columns=list("abc")).assign(g=df["g"])
    complete = fit.predict(full, random_seed=3)
    some = full.copy()
    some.loc[[0, 5], "a"] = np.nan
    with_gaps = fit.predict(some, random_seed=3)
    others = np.setdiff1d(np.arange(len(df)), [0, 5])
    np.testing.assert_allclose(with_gaps["mean"][others], complete["mean"][others], rtol=1e-9)
    assert np.all(with_gaps["mean"][[0, 5]] != complete["mean"][[0, 5]])
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.gaps.sum() == data.gaps.sum()
    np.testing.assert_array_equal(loaded.predict(some, random_seed=3)["mean"], with_gaps["mean"])
    assert fit.compute_log_likelihood()["log_likelihood"]["y"].shape == (2, 20, len(df))


def test_blocks_of_rows_take_their_own_gaps(fit, monkeypatch):
    """Predictions of many rows are made in blocks, each of which has a part of the gaps."""
    draws = {k: v.to_numpy() for k, v in fit.posterior.items()}
    rows = fit.factory.design(fit.data)
    rng = np.random.default_rng(0)
    whole, _ = predictive.predictive_draws(fit.factory, rows, draws, rng)
    monkeypatch.setattr(
        predictive, "_VALUES_PER_BLOCK", 7 * draws[MISSING].shape[0] * draws[MISSING].shape[1]
    )
    parts, _ = predictive.predictive_draws(fit.factory, rows, draws, rng)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_shared_features_may_have_gaps():
    df, _ = table()
    data = data_of(df)
    factory = zoo.NIWLinear(shared=["b"])
    model = factory.build(data)
    assert list(model.coords["column"]) == ["a", "c", "b"]
    with pytest.raises(ValueError, match="has gaps, and shared='constant within tasks' looks at its columns"):
        zoo.NIWLinear(shared="constant within tasks").build(data)


def test_methods_and_models_that_make_numbers_of_features_are_refused_by_name():
    df, _ = table()
    data = data_of(df)
    with pytest.raises(ValueError, match=r"feature 'a' has gaps.*method 'gibbs' does not draw them"):
        zoo.NIWLinear().fit(data, method="gibbs", progress=False)
    with pytest.raises(ValueError, match="feature 'a' has gaps, and NIWGaussianProcess makes numbers"):
        zoo.NIWGaussianProcess().fit(data, progress=False)
    with pytest.raises(ValueError, match="features have gaps, whose law is learned of the known ones"):
        zoo.diagnostics.sbc(zoo.PooledTasks(), data, method="nuts", replications=2, progress=False)


def test_a_fit_of_complete_rows_knows_no_law_of_gaps():
    df, _ = table()
    complete = zoo.MultiTaskData.from_frame(df.dropna(), y="y", task="g").add_intercept()
    fit = zoo.PooledTasks().fit(complete, progress=False)
    with pytest.raises(ValueError, match="nan"):
        fit.predict(df)
    with pytest.raises(ValueError, match="X has gaps, and the data of the fit had none"):
        fit.predict(data_of(df).add_intercept())


@dataclass(frozen=True, kw_only=True)
class OfNumbers(zoo.PooledTasks):
    """A model of a user's, whose hook reads the numbers behind the variables."""

    def latent(self, data, priors):
        return pm.math.dot(data.source.X, priors["coefficients"].flatten()[:3])


@dataclass(frozen=True, kw_only=True)
class OfVariables(zoo.PooledTasks):
    """The same of the variables."""

    def latent(self, data, priors):
        return pm.math.dot(data.X, priors["coefficients"].flatten()[:3])


def test_a_subclass_draws_gaps_or_is_told_that_it_cannot():
    df, _ = table()
    with pytest.raises(
        ValueError, match=r"hooks of OfNumbers compute with numbers of the features \(data.source\)"
    ):
        OfNumbers().build(data_of(df))
    assert MISSING in OfVariables().build(data_of(df)).named_vars


def test_a_mask_without_gaps_is_a_model_without_them():
    df, _ = table()
    complete = zoo.MultiTaskData.from_frame(df.dropna(), y="y", task="g", missing="model")
    assert MISSING not in zoo.PooledTasks().build(complete).named_vars
    assert MISSING not in zoo.PooledTasks().build(replace(complete, incomplete=True)).named_vars

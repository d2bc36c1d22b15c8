"""Predictions by products of matrices and by blocks, against the draws that the model's own graph makes."""

from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import zoo
from zoo.core import function_law, row_laws
from zoo.core.linear_laws import linear_laws

QUIET = {"progress": False, "random_seed": 1, "draws": 30, "tune": 20, "chains": 2}


def _data(responses="real"):
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(4), 15)
    X = np.column_stack([rng.standard_normal((60, 2)), np.repeat(rng.standard_normal(4), 15)])
    f = X @ [1.0, -0.5, 0.3] + 0.3 * task
    y = f + 0.4 * rng.standard_normal(60)
    if responses == "labels":
        y = np.where(y > 0.3, 1.0, -1.0)
    return zoo.MultiTaskData.from_arrays(X, y, task)


def _fit(model, data):
    method = next((m for m in ("gibbs", "exact", "laplace") if m in model.methods), None)
    return model.fit(data, method, **{k: v for k, v in QUIET.items() if method == "gibbs" or k != "tune"})


def _asked(new):
    rng = np.random.default_rng(5)
    names = ["u", "v", "w"] if new else ["task 2", "task 0", "task 3"]
    return {
        "X": rng.standard_normal((25, 3)),
        "task": [names[i] for i in rng.integers(3, size=25)],
        "new_task": new,
    }


MODELS = {
    "MaxMargin": lambda word: zoo.MaxMargin(likelihood=word),
    "NIWLinear": lambda word: zoo.NIWLinear(likelihood=word),
    "NIWLinear with shared features": lambda word: zoo.NIWLinear(
        likelihood=word, shared="constant within tasks"
    ),
    "NonparametricMaxMargin": lambda word: zoo.NonparametricMaxMargin(likelihood=word),
    "IndependentTasks": lambda word: zoo.IndependentTasks(likelihood=word),
    "PooledTasks": lambda word: zoo.PooledTasks(likelihood=word),
    "MultiTaskKernelMachine": lambda word: zoo.MultiTaskKernelMachine(likelihood=word),
}


# The kernel machine has one normal law at rows of known tasks.
CASES = [(name, new) for name in MODELS for new in (False, True) if new or "Kernel" not in name]


@pytest.mark.parametrize(("name", "new"), CASES)
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_labels_are_predicted_as_by_the_graph(name, new):
    fit = _fit(MODELS[name]("logistic"), _data("labels"))
    f = fit.predict_draws(**_asked(new), random_seed=2)["f"].to_numpy().reshape(-1, 25)
    found = fit.predict(**_asked(new), random_seed=2, ci_prob=0.8)
    for column, expected in {
        "mean": f.mean(axis=0),
        "sd": f.std(axis=0),
        "lower": np.quantile(f, 0.1, axis=0),
        "upper": np.quantile(f, 0.9, axis=0),
        "probability": expit(f).mean(axis=0),
    }.items():
        np.testing.assert_allclose(found[column], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "new"), CASES)
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_real_responses_are_mixtures_around_the_draws_of_the_graph(name, new):
    data = _data().standardize()
    fit = _fit(MODELS[name]("gaussian"), data)
    asked = _asked(new)
    f = fit.predict_draws(**asked, random_seed=2)["f"].to_numpy().reshape(-1, 25)
    found = fit.predict(**asked, random_seed=2, ci_prob=0.9)
    if new and name == "IndependentTasks":
        assert np.isfinite(found["upper"]).all()
        return
    noise = fit.posterior["noise"].to_numpy().reshape(len(f), -1) * data.transform.y_scale
    if noise.shape[1] > 1:
        noise = noise[:, [int(task[-1]) for task in asked["task"]]]
    sd = np.broadcast_to(noise, f.shape)
    np.testing.assert_allclose(found["mean"], f.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found["sd"], np.sqrt(f.var(axis=0) + np.mean(sd**2, axis=0)), rtol=1e-9)
    for i in range(0, 25, 6):
        root = brentq(lambda x, i=i: norm.cdf(x, f[:, i], sd[:, i]).mean() - 0.95, -40.0, 40.0, xtol=1e-13)
        assert float(found["upper"][i]) == pytest.approx(root, abs=1e-8)


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "logistic", "ordinal"])
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_blocks_and_threads_change_nothing(likelihood, monkeypatch):
    data = _data("labels" if likelihood == "logistic" else "real")
    if likelihood == "ordinal":
        data = replace(data, y=1.0 + (data.y > 0.0) + (data.y > 0.8)).add_intercept()
    model = zoo.NIWLinear(likelihood=zoo.Ordinal(grades=3) if likelihood == "ordinal" else likelihood)
    fit = model.fit(data, "gibbs", **QUIET)
    asked = _asked(False)
    if likelihood == "ordinal":
        asked["X"] = np.column_stack([asked["X"], np.ones(25)])
    whole = fit.predict(**asked, random_seed=2)
    monkeypatch.setattr(row_laws, "_NUMBERS", 3 * 60)
    monkeypatch.setattr(row_laws, "_MANY", 1)
    parts = fit.predict(**asked, random_seed=2)
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_formulas_of_a_factory_are_used_some_rows_at_a_time(monkeypatch):
    """What is drawn beside them is the same for all rows: the residual of inputs that the fit has not."""
    data = _data().take(np.arange(0, 60, 3))
    fit = zoo.NIWGaussianProcess().fit(data, "gibbs", **QUIET)
    whole = fit.predict(**_asked(False), random_seed=2)
    monkeypatch.setattr(function_law, "_NUMBERS", 60 * 4)
    parts = fit.predict(**_asked(False), random_seed=2)
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, rtol=1e-9, atol=1e-12)


@dataclass(frozen=True, kw_only=True)
class _Doubled(zoo.PooledTasks):
    """Hands on something else than the variable of that name."""

    def priors(self, data):
        return {"coefficients": 2.0 * pm.Normal("coefficients", dims="feature"), **self.add_parameters(data)}


@dataclass(frozen=True, kw_only=True)
class _Bent(zoo.PooledTasks):
    """Not linear."""

    def latent(self, data, priors):
        return super().latent(data, priors) ** 2


@pytest.mark.parametrize("kind", [_Doubled, _Bent])
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_a_hook_of_the_users_is_evaluated_as_it_stands(kind):
    fit = kind().fit(_data(), "nuts", **QUIET, nuts={"nuts_sampler": "pymc", "max_treedepth": 4})
    asked = _asked(False)
    rows, posterior, _ = fit.rows_to_predict(asked["X"], asked["task"], None, False, 2)
    assert linear_laws(fit.factory, rows, posterior) is None
    f = asked["X"] @ fit.posterior["coefficients"].to_numpy().reshape(60, 3).T
    expected = 2.0 * f if kind is _Doubled else f**2
    np.testing.assert_allclose(fit.predict(**asked)["mean"], expected.mean(axis=1), rtol=1e-9)

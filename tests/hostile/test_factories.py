"""Every factory and method on hostile data: a finite answer, or one error that says what is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from math import ceil

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pytensor.compile.mode import Mode

import zoo
from tests.hostile import strategies
from tests.hostile.outcome import CASES, attempt, require_finite
from zoo.core.breakdown import breakdown_explained
from zoo.inference.gibbs.group_moves import slice_log_scale
from zoo.latent.slice_hyper import slice_step
from zoo.likelihoods.student_t import FEWEST_DEGREES
from zoo.registry import FACTORIES, get_factory

# Small graphs that run twice: compiling them costs more than running them slowly.
QUICK = Mode("py", "fast_compile")
FACTORY_CASES = {name: get_factory(name)() for name in FACTORIES} | {
    "MaxMarginRegression": zoo.MaxMargin(likelihood="epsilon_insensitive"),
    "NonparametricRegression": zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive"),
    "IndependentTasksLogistic": zoo.IndependentTasks(likelihood="logistic"),
    "PooledTasksLogistic": zoo.PooledTasks(likelihood="logistic"),
    "KernelHinge": zoo.MultiTaskKernelMachine(likelihood="hinge"),
    "KernelLogistic": zoo.MultiTaskKernelMachine(likelihood="logistic"),
    "NIWLinearStudentT": zoo.NIWLinear(likelihood=zoo.StudentT(per_task=("noise",))),
    "VaryingCoefficientLabels": zoo.VaryingCoefficientGP(likelihood="logistic"),
    "VaryingCoefficientCounts": zoo.VaryingCoefficientGP(likelihood="poisson"),
    "VaryingCoefficientOutliers": zoo.VaryingCoefficientGP(likelihood="student_t"),
    "LocalLogistic": zoo.KernelLocalSmoothing(likelihood="logistic"),
}
METHODS = [
    (name, method)
    for name, factory in FACTORY_CASES.items()
    for method in factory.methods
    if method != "nuts"
]
# A factory's cases are shared out among its variants and methods.
_PAIRS = Counter(type(FACTORY_CASES[name]) for name, _ in METHODS)
SHARE = {name: ceil(CASES / _PAIRS[type(FACTORY_CASES[name])]) for name, _ in METHODS}
# What compiles, and fits, in a moment: these are in the default run.
FAST = {"IndependentTasks", "PooledTasks", "IndependentTasksLogistic", "PooledTasksLogistic"}
# Compiled anew for every shape of the data, up to ten seconds a case: these are in the scheduled run alone.
SLOW = {"VaryingCoefficientCounts", "VaryingCoefficientOutliers"}
_LATER = [pytest.mark.statistical, pytest.mark.scheduled]
# Shrinking fits a model hundreds of times: a case is small as it is.
SETTINGS = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def response_of(factory):
    """Kind of response that the factory is for."""
    return factory.likelihood.responses


def fit_and_predict(factory, method, data):
    """A fit with few draws, and its predictions; both finite."""
    fit = factory.fit(data, method, draws=2, tune=2, chains=1, random_seed=1, progress=False)
    require_finite(fit.posterior, "posterior")
    require_finite(fit.predict(data, random_seed=1), "predictions")
    return fit


def _outcome(name, method, data):
    factory = FACTORY_CASES[name]
    words = tuple(field.name for field in fields(factory))
    return attempt(lambda: fit_and_predict(factory, method, data), words)


def _data(name):
    factory = FACTORY_CASES[name]
    return strategies.data(response_of(factory), with_t=bool(factory.needs_t))


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(
            n,
            m,
            # Of each factory the first method with every change, and the others in the scheduled run.
            marks=[pytest.mark.statistical if m == dict(reversed(METHODS))[n] else pytest.mark.scheduled]
            * (n not in FAST),
        )
        for n, m in METHODS
        if n not in SLOW
    ],
)
def test_few_hostile_cases(name, method):
    @settings(SETTINGS, max_examples=15 if name in FAST else 5)
    @given(_data(name))
    def run(data):
        _outcome(name, method, data)

    run()


def predict_by_pymc(factory, method, data):
    """Draws of y by PyMC's own function, finite and of every free variable from the posterior."""
    fit = factory.fit(data, method, draws=2, tune=2, chains=1, random_seed=1, progress=False)
    model, idata = fit.to_pymc(random_seed=1) if fit.is_point else (fit.model, fit.idata)
    assert {v.name for v in model.free_RVs} <= set(idata["posterior"].data_vars)
    drawn = pm.sample_posterior_predictive(
        idata, model=model, var_names=["y"], random_seed=1, progressbar=False, compile_kwargs={"mode": QUICK}
    )
    predictions = drawn["posterior_predictive"].to_dataset()
    if idata["posterior"].get("degrees", xr.DataArray(np.inf)).min() < FEWEST_DEGREES:
        # Such a law has draws beyond all floats. PyMC hands them on, and `fit.predict` names the cause.
        predictions = predictions.where(np.isfinite(predictions) | np.isnan(predictions), 0.0)
    require_finite(predictions, "predictions")
    return fit


@pytest.mark.parametrize(
    ("name", "method"),
    [pytest.param(n, m, marks=_LATER * (n not in FAST)) for n, m in METHODS if n not in SLOW],
)
def test_few_hostile_cases_in_pymc(name, method):
    @settings(SETTINGS, max_examples=max(3, min(CASES, SHARE[name]) // 8))
    @given(_data(name))
    def run(data):
        factory = FACTORY_CASES[name]
        attempt(
            lambda: predict_by_pymc(factory, method, data), tuple(field.name for field in fields(factory))
        )

    run()


@pytest.mark.scheduled
@pytest.mark.parametrize(("name", "method"), METHODS)
def test_many_hostile_cases(name, method):
    answered = []

    @settings(SETTINGS, max_examples=SHARE[name])
    @given(_data(name))
    def run(data):
        answered.append(_outcome(name, method, data) is not None)

    run()
    # An engine that refuses all that it is given would pass.
    assert len(answered) < 20 or sum(answered) > 0.1 * len(answered)


@pytest.mark.scheduled
@pytest.mark.parametrize("name", FACTORY_CASES)
def test_models_start_at_finite_density(name):
    """What NUTS starts from: a model, or an error; its compilation is too dear for more."""

    @settings(SETTINGS, max_examples=min(CASES, 10))
    @given(_data(name))
    def run(data):
        factory = FACTORY_CASES[name]
        model = attempt(lambda: factory.build(data), tuple(field.name for field in fields(factory)))
        if model is not None:
            assert np.isfinite(model.compile_logp(jacobian=False)(model.initial_point()))

    run()


# -------------------------------------------------------------------- single cases


def test_ten_thousand_tasks():
    """Of one row each, through all that is done with them by name."""
    n = 10_000
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(rng.standard_normal((n, 2)), rng.standard_normal(n), np.arange(n))
    assert data.select_tasks(data.task_names[::-1]).task_names == data.task_names[::-1]
    fit = fit_and_predict(zoo.IndependentTasks(), "exact", data)
    assert fit.posterior.sizes["task"] == n


def test_columns_too_large_for_a_model_are_named():
    X = np.random.default_rng(0).standard_normal((6, 2))
    data = zoo.MultiTaskData.from_arrays(X * [1.0, 1e50], X[:, 0], feature_names=["kg", "m"])
    for factory in (zoo.PooledTasks(), zoo.NIWLinear(), zoo.MaxMargin(likelihood="epsilon_insensitive")):
        with pytest.raises(ValueError, match=r"X column 'm' has values of size .* Use data.standardize\(\)"):
            factory.fit(data, draws=2, chains=1, progress=False)
    fit = zoo.PooledTasks().fit(data.standardize(y=True), draws=2, chains=1, progress=False)
    with pytest.raises(
        ValueError, match=r"X column 'kg' has values of size .* Check the units of these rows"
    ):
        fit.predict(np.array([[1e200, 1.0]]))


def test_a_breakdown_of_linear_algebra_names_columns():
    data = zoo.MultiTaskData.from_arrays(
        np.array([[1.0, 1e9], [2.0, 3.0]]), [0.0, 1.0], feature_names=["a", "b"]
    )
    with pytest.raises(
        ValueError, match=r"method 'em' lost all its digits.*column 'a' to 1e\+09 in column 'b'"
    ) as caught:
        with breakdown_explained("method 'em'", data):
            np.linalg.cholesky(-np.eye(2))
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
    assert not isinstance(caught.value, np.linalg.LinAlgError)


def test_slices_end_where_the_density_is_no_number():
    rng, point = np.random.default_rng(0), np.array([3.0])
    assert slice_log_scale(rng, np.nan, 1.0, 1.0, 0.0, 0.0) == 0.0
    found, value = slice_step(rng, lambda x: np.nan, point, np.ones(1), np.nan)
    assert found is point and np.isnan(value)
    # Weights and units so far apart that the moves of a task find no digits.
    X = np.column_stack([1e7 * rng.standard_normal(8), np.ones(8)])
    data = zoo.MultiTaskData.from_arrays(
        X, np.arange(8) % 2, np.repeat([0, 1], 4), weight=10.0 ** np.arange(-14, 18, 4)
    )
    _outcome("MaxMargin", "gibbs", data)


def test_draws_and_predictions_that_are_not_finite_are_refused(monkeypatch):
    data = zoo.MultiTaskData.from_arrays(np.eye(2), [0.0, 1.0], feature_names=["a", "b"])
    fit = zoo.PooledTasks().fit(data, draws=2, chains=1, progress=False)
    fit.posterior["noise"][:] = np.nan
    for predict in (fit.predict, fit.predict_draws):
        with pytest.raises(ValueError, match=r"the prediction lost all its digits.*column 'a'"):
            predict(data)
    draw = zoo.PooledTasks._fit_exact

    def broken(self, data, y, run):
        result = draw(self, data, y, run)
        lost = {**result.posterior, "noise": result.posterior["noise"] * np.nan}
        return result._replace(posterior=lost)

    monkeypatch.setattr(zoo.PooledTasks, "_fit_exact", broken)
    with pytest.raises(ValueError, match=r"method 'exact' lost all its digits.*column 'a'"):
        zoo.PooledTasks().fit(data, draws=2, chains=1, progress=False)


def test_responses_that_are_all_zero():
    """The evidence has no maximum: noise and amplitude go towards zero, and stop before products overflow."""
    X = np.random.default_rng(0).standard_normal((4, 3))
    data = zoo.MultiTaskData.from_arrays(X * [1.0, 1e-3, 1e-3], np.zeros(4), [0, 0, 1, 1])
    fit = fit_and_predict(zoo.MultiTaskKernelMachine(), "exact", data)
    np.testing.assert_allclose(fit.predict(data, random_seed=1)["mean"], 0.0, atol=1e-6)


# -------------------------------------------------------------------- fields

# Of fields of descriptions: what somebody, or a file, may write there.
VALUES = st.sampled_from(
    [None, True, 0, -1, 1e-300, 1e300, np.nan, np.inf, "", "learned", "identity", "nothing", "\0", [], [1.0], [[1.0]],
     [[np.nan]], [[1.0, 2.0], [3.0, 4.0]], {}, {"a": 1}, 1j, b"x", object(), np.zeros((0, 0)), np.eye(2), -np.eye(2),
     (1, 2, 3)]
)  # fmt: skip


def _field_property(name, field, value):
    kind = type(FACTORY_CASES[name])
    known = tuple(f.name for f in fields(kind))
    factory = attempt(lambda: kind(**{field: value}), known)
    if factory is not None:
        attempt(lambda: (hash(factory), repr(factory), factory.methods, factory.likelihood), known)


@pytest.mark.parametrize("name", FACTORIES)
def test_fields_of_any_kind(name):
    """A description is made, or refuses the field by a message about a field."""

    @settings(SETTINGS, max_examples=15)
    @given(st.sampled_from([f.name for f in fields(get_factory(name))]), VALUES)
    def run(field, value):
        _field_property(name, field, value)

    run()


@pytest.mark.scheduled
@pytest.mark.parametrize("name", FACTORIES)
def test_fields_of_any_kind_many(name):
    for field in fields(get_factory(name)):

        @SETTINGS
        @given(st.just(field.name), VALUES)
        def run(field, value):
            _field_property(name, field, value)

        run()


def test_a_breakdown_by_large_responses_names_them():
    """Of features of size 1 alone the message would say nothing."""
    data = zoo.MultiTaskData.from_arrays(np.eye(2), [0.0, 2e6], feature_names=["a", "b"])
    with (
        pytest.raises(
            ValueError, match=r"lost all its digits.*, and those of y to 2e\+06\. Use data.standard"
        ),
        breakdown_explained("the fit", data),
    ):
        raise np.linalg.LinAlgError("not positive definite")


@pytest.mark.parametrize("weight", [[1e8, 1e8], [1e-5, 1.0]], ids=["large", "far from each other"])
def test_a_breakdown_by_weights_names_them(weight):
    """Of features of size 1 the message would blame what is not at fault."""
    data = zoo.MultiTaskData.from_arrays(np.eye(2), [0.0, 1.0], feature_names=["a", "b"], weight=weight)
    for X, words in (
        (np.eye(2), "orders\\.$"),
        (1e5 * np.eye(2), "orders\\. Besides, .*1e\\+05 in column 'a'"),
    ):
        with (
            pytest.raises(
                ValueError, match=f"lost all its digits: the weights of the rows reach from .*{words}"
            ),
            breakdown_explained("the fit", replace(data, inputs=X)),
        ):
            raise np.linalg.LinAlgError("not positive definite")
    with pytest.raises(ValueError, match="the values of X reach from") as caught:
        with breakdown_explained("the fit", replace(data, weight=np.array([0.5, 2.0]))):
            raise np.linalg.LinAlgError("not positive definite")
    assert "weights" not in str(caught.value)

"""Coefficients that all tasks share: which features, predictions, files, and what is refused."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import zoo
from tests.comparisons import largest_z
from zoo.core.methods import UnsupportedMethodError

T, N = 8, 6
_rng = np.random.default_rng(3)
TASK = np.repeat(np.arange(T), N)
AGE, TIME = _rng.normal(50.0, 9.0, T)[TASK], _rng.normal(size=T * N)
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "time": TIME,
        "patient": [f"p{t}" for t in TASK],
        "y": 10.0 + _rng.normal(size=T)[TASK] + 0.08 * AGE + 0.5 * TIME + 0.2 * _rng.normal(size=T * N),
    }
)


def make_data(frame=FRAME):
    return zoo.MultiTaskData.from_frame(frame, y="y", task="patient").standardize().add_intercept()


DATA = make_data()
MARKED = replace(DATA, shared_names=("age",))
QUICK = {"draws": 60, "tune": 60, "chains": 2, "random_seed": 1, "progress": False}


def quick_fit(factory, data=DATA, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return factory.fit(data, **{**QUICK, **options})


@pytest.fixture(scope="module")
def fit():
    return quick_fit(zoo.NIWLinear(scale_matrix=0.3, shared=["age"]))


def test_the_posterior_names_them(fit):
    posterior = fit.posterior
    assert posterior["shared_coefficients"].dims == ("chain", "draw", "shared_feature")
    assert list(posterior["shared_feature"].to_numpy()) == ["age"]
    assert list(posterior["feature"].to_numpy()) == ["time", "intercept"]


def test_predictions_add_them_up(fit):
    """By hand: own coefficients and shared ones, on the user's scale."""
    draws = fit.posterior.stack(s=("chain", "draw"))
    x = (FRAME["time"].to_numpy() - TIME.mean()) / TIME.std()
    age = (AGE - AGE.mean()) / AGE.std()
    own = draws["coefficients"].transpose("s", "feature", "task").to_numpy()
    f = own[:, 0, TASK] * x + own[:, 1, TASK] + draws["shared_coefficients"].to_numpy().T * age
    mean = fit.data.transform.restore_y(f.mean(axis=0))
    found = fit.predict(FRAME, random_seed=1)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(fit.predict(FRAME[::-1])["mean"][::-1], mean, rtol=1e-9)


def test_new_tasks_have_them_too(fit):
    """Two new patients that differ in age alone differ by the shared coefficient times their ages."""
    new = pd.DataFrame({"age": [40.0, 60.0], "time": 0.0, "patient": "new"})
    found = fit.predict_draws(new, new_task=True, random_seed=2)["f"]
    apart = (found.isel(obs=1) - found.isel(obs=0)).to_numpy()
    slope = fit.posterior["shared_coefficients"].isel(shared_feature=0).to_numpy()
    np.testing.assert_allclose(apart, fit.data.transform.y_scale * 20.0 / AGE.std() * slope, rtol=1e-9)


def test_condition_takes_them_from_the_responses(fit):
    """A new patient's level is what is left of its responses when its age has had its say."""
    rng = np.random.default_rng(0)
    time = rng.normal(size=200)
    of_age = 0.08 * 90.0
    rows = pd.DataFrame({"age": 90.0, "time": time, "patient": "old", "y": 10.0 + of_age + 0.5 * time})
    conditioned = fit.condition(zoo.MultiTaskData.from_frame(rows, y="y", task="patient"), random_seed=1)
    residual = conditioned.predict(rows)["mean"] - rows["y"]
    assert np.abs(residual).max() < 0.1


def test_files_bring_them_back(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.factory == fit.factory
    np.testing.assert_array_equal(loaded.predict(FRAME)["mean"], fit.predict(FRAME)["mean"])


def test_names_in_the_data_are_the_default(tmp_path):
    assert "all tasks share 1" in repr(MARKED)
    fit = quick_fit(zoo.NIWLinear(scale_matrix=0.3), MARKED)
    assert list(fit.posterior["shared_feature"].to_numpy()) == ["age"]
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.shared_names == ("age",)
    np.testing.assert_array_equal(loaded.predict(FRAME)["mean"], fit.predict(FRAME)["mean"])
    assert (
        "shared_coefficients" not in quick_fit(zoo.NIWLinear(scale_matrix=0.3, shared=()), MARKED).posterior
    )
    assert zoo.PooledTasks().build(MARKED)
    with pytest.raises(ValueError, match=r"share \('age'\), and IndependentTasks has no such coefficients"):
        zoo.IndependentTasks().build(MARKED)


def test_constant_within_tasks():
    """Not the constant itself, which does not differ between tasks."""
    factory = zoo.NIWLinear(shared="constant within tasks")
    assert factory.shared_features(DATA) == ("age",)
    assert list(factory.build(DATA).coords["shared_feature"]) == ["age"]
    with pytest.raises(ValueError, match="X is sparse, and shared='constant within tasks' looks at"):
        sparse = pytest.importorskip("scipy.sparse").csr_matrix(DATA.X)
        zoo.NIWGaussianProcess(shared="constant within tasks").build(
            zoo.MultiTaskData.from_arrays(sparse, DATA.y, TASK)
        )


@pytest.mark.parametrize(
    "factory",
    [
        zoo.MaxMargin(likelihood="epsilon_insensitive", shared=["age"], shared_scale="learned"),
        zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive", shared=["age"]),
        zoo.NIWGaussianProcess(shared=["age"]),
        zoo.NIWLinear(likelihood="student_t", shared=["age"]),
    ],
    ids=lambda factory: type(factory).__name__,
)
def test_other_models_have_them(factory):
    fit = quick_fit(factory)
    mean = float(fit.posterior["shared_coefficients"].mean())
    assert 0.2 < mean * fit.data.transform.y_scale / AGE.std() / 0.08 < 3.0
    assert np.sqrt(np.mean((fit.predict(FRAME)["mean"] - FRAME["y"]) ** 2)) < 0.35


def test_they_count_at_inputs_that_the_fit_has_not():
    """There the functions of this model have a formula of their own, which has to know of them."""
    fit = quick_fit(zoo.NIWGaussianProcess(shared=["age"]))
    new = FRAME.assign(time=TIME + 0.01)
    f = fit.predict_draws(new, random_seed=1)["f"]
    gap = fit.predict(new, random_seed=1)["mean"] - f.mean(("chain", "draw"))
    assert np.sqrt(np.mean(gap**2)) < 0.2 * float(f.std(("chain", "draw")).mean())


def test_a_subclass_keeps_them():
    """Hooks of the user's own leave the shared part alone, and NUTS samples it."""

    class Twice(zoo.NIWLinear):
        def latent(self, data, priors):
            return 2.0 * super().latent(data, priors)

    model = Twice(shared=["age"])
    assert list(model.methods) == ["nuts"]
    assert "shared_coefficients" in model.build(DATA).named_vars
    assert "gibbs" in zoo.NIWLinear(shared=["age"]).methods


def test_own_shared_part_leaves_nuts_alone():
    class Shrunk(zoo.NIWLinear):
        def shared_part(self, data):
            return 0.5 * super().shared_part(data)

    assert list(Shrunk(shared=["age"]).methods) == ["nuts"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shared": "age"}, r"shared is the string 'age'. Give a list of features"),
        ({"shared": ["age", "age"]}, "shared names the feature 'age' twice"),
        ({"shared": 3}, r"shared is a int\. Give names of features"),
        ({"shared_scale": np.eye(2)}, "shared_scale"),
        ({"shared_scale": "wide"}, "shared_scale is 'wide'. Give a number above 0"),
        ({"shared_scale": 0.0}, "shared_scale"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises((TypeError, ValueError), match=message):
        zoo.NIWLinear(**fields)


def test_names_of_any_kind():
    for names in (["age"], ("age",), np.array(["age"]), pd.Index(["age"])):
        assert zoo.NIWLinear(shared=names).shared == ("age",)


def test_bad_data():
    with pytest.raises(ValueError, match=r"shared: 'sex' is unknown\. Choose from 'age'"):
        zoo.NIWLinear(shared=["sex"]).build(DATA)
    with pytest.raises(ValueError, match="all features are shared, so that nothing differs between tasks"):
        zoo.NIWLinear(shared=["age", "time", "intercept"]).build(DATA)
    dose = pd.Series(np.where(TASK == 2, TIME, 0.0), FRAME.index)
    with pytest.raises(
        ValueError, match="'dose' varies in the task 'p2' alone, so that its coefficient is that"
    ):
        zoo.NIWLinear(shared=["dose"]).build(make_data(FRAME.assign(dose=dose)))
    with pytest.warns(UserWarning, match="columns 'age', 'months' are linearly dependent"):
        zoo.NIWLinear(shared=["age", "months"]).build(make_data(FRAME.assign(months=12.0 * AGE)))


def test_em_has_none():
    """Whether the factory names them or the data do."""
    assert "em" not in zoo.NIWLinear(shared=["age"]).methods
    for factory, data in ((zoo.NIWLinear(shared=["age"]), DATA), (zoo.NIWLinear(), MARKED)):
        with pytest.raises(UnsupportedMethodError, match="method 'em' knows no shared coefficients"):
            factory.fit(data, "em")


@pytest.mark.statistical
@pytest.mark.parametrize(
    "factory",
    [
        zoo.NIWLinear(scale_matrix=0.3, shared=["age"], shared_scale="learned"),
        pytest.param(
            zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C=2.0), shared=["age"]),
            marks=pytest.mark.scheduled,
        ),
    ],
    ids=lambda factory: type(factory).__name__,
)
@pytest.mark.scheduled
def test_gibbs_agrees_with_nuts(factory):
    """|z| < 5 for shared coefficients and function values: by chance once in 10^5 runs, of some 60 numbers."""

    def quantities(method):
        fit = factory.fit(DATA, method, draws=1500, chains=4, random_seed=5, progress=False)
        f = fit.predict_draws(FRAME.iloc[::5], random_seed=1)["f"].to_numpy()
        values = {f"f {i}": f[..., i] for i in range(f.shape[-1])}
        shared = fit.posterior["shared_coefficients"].to_numpy()[..., 0]
        return {**values, "shared": shared, "square": shared**2}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        z, worst = largest_z(quantities("gibbs"), quantities("nuts"))
    assert z < 5.0, worst

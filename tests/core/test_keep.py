"""What of the draws a fit keeps: the same chains whatever it is, predictions without draws of tasks, and refusals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray as xr

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.support import memory
from zoo.support.memory import InsufficientMemoryError

RUN = {"draws": 60, "tune": 20, "chains": 2, "random_seed": 1, "progress": False}
SHORT = {**RUN, "draws": 5, "tune": 5}


def make_data(T=12, n=6, D=3, seed=0, weight=True):
    rng = np.random.default_rng(seed)
    task = np.concatenate([np.repeat(np.arange(T), n), [0, 3, 3]])
    X = 5.0 + 2.0 * rng.standard_normal((len(task), D))
    w = rng.standard_normal((T, D))
    y = 10.0 + np.sum(X * w[task], axis=1) + rng.standard_normal(len(task))
    h = rng.gamma(3.0, 0.5, len(task)) if weight else None
    return zoo.MultiTaskData.from_arrays(X, y, task, weight=h).standardize().add_intercept()


MODELS = {
    "plain": zoo.NIWLinear(),
    "scale matrix": zoo.NIWLinear(scale_matrix=np.diag([1.0, 2.0, 0.5, 1.0]) + 0.1),
    "shared": zoo.NIWLinear(shared=("x1",)),
    "shared, learned scale": zoo.NIWLinear(shared=("x1", "x2"), shared_scale="learned"),
}


@pytest.fixture(scope="module", params=MODELS, name="fits")
def fits_of_each_kind(request):
    data, model = make_data(), MODELS[request.param]
    return {keep: model.fit(data, keep=keep, **RUN) for keep in ("draws", "moments", "population")}


def test_the_chains_are_the_same_and_coefficients_are_left_out(fits):
    every = fits["draws"].posterior
    for keep in ("moments", "population"):
        fit = fits[keep]
        assert fit.keep == keep and f"keep={keep!r}" in repr(fit)
        assert set(every.data_vars) - set(fit.posterior.data_vars) == {"coefficients"}
        for name in fit.posterior.data_vars:
            np.testing.assert_array_equal(fit.posterior[name], every[name])
        assert not fit.diagnostics().empty
    assert fits["draws"].keep == "draws" and "keep" not in repr(fits["draws"])
    assert "moments" not in fits["population"].idata


def test_moments_are_those_of_the_draws(fits):
    draws, found = fits["draws"].posterior["coefficients"], fits["moments"].idata["moments"].to_dataset()
    over = ("chain", "draw")
    xr.testing.assert_allclose(found["coefficients_mean"], draws.mean(over), rtol=0.0, atol=1e-10)
    xr.testing.assert_allclose(found["coefficients_sd"], draws.std(over), rtol=0.0, atol=1e-10)


def test_predictions_are_the_exact_mixture_over_the_population(fits):
    """Against Bayes' rule for each draw by the rows of the task, with the inverse of their covariance."""
    fit, keep = fits["population"], fits["draws"]
    rows = fit.factory.design(fit.data)
    rng = np.random.default_rng(3)
    X = 5.0 + 2.0 * rng.standard_normal((4, 3))
    tasks = ["task 3", "task 0", "task 3", "task 11"]
    found = fit.predict(X, tasks)
    new = fit.data.transform.apply_x(np.column_stack([X, np.ones(4)]))
    shared = [fit.data.feature_names.index(name) for name in rows.shared_names]
    own = [i for i in range(4) if i not in shared]
    posterior = {n: v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in fit.posterior.items()}
    mean, variance = np.zeros((120, 4)), np.zeros((120, 4))
    for s in range(120):
        mu, C, noise = (posterior[n][s] for n in ("population_mean", "feature_cov", "noise"))
        beta = posterior["shared_coefficients"][s] if shared else np.zeros(0)
        for i, name in enumerate(tasks):
            at = rows.task == rows.task_names.index(name)
            A = rows.inputs[rows.row[at]]
            y = rows.y[at] - (rows.shared[at] @ beta if shared else 0.0)
            K = A @ C @ A.T + np.diag(noise**2 / rows.weight[at])
            gain = C @ A.T @ np.linalg.inv(K)
            x = new[i, own]
            mean[s, i] = x @ (mu + gain @ (y - A @ mu)) + new[i, shared] @ beta
            variance[s, i] = x @ (C - gain @ A @ C) @ x + noise**2
    scale, shift = fit.data.transform.y_scale, fit.data.transform.y_mean
    np.testing.assert_allclose(found["mean"], shift + scale * mean.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        found["sd"], scale * np.sqrt(mean.var(axis=0) + variance.mean(axis=0)), rtol=1e-9
    )
    # Draws of f beside each draw of the population: five standard errors of their mean.
    drawn = fit.predict_draws(X, tasks, random_seed=1)["f"].to_numpy().reshape(120, 4)
    spread = scale * np.sqrt((variance - posterior["noise"][:, None] ** 2).mean(axis=0) / 120)
    assert np.all(np.abs(drawn.mean(axis=0) - found["mean"].to_numpy()) < 5.0 * spread)
    # And of a fit that kept all draws, with those of its own chain.
    kept = keep.predict(X, tasks)
    assert np.all(np.abs(kept["mean"] - found["mean"]) < 10.0 * spread)


def test_new_tasks_and_files_and_more_tasks(fits, tmp_path):
    for keep in ("moments", "population"):
        fit = fits[keep]
        X = np.ones((2, 3))
        new = fit.predict(X, "elsewhere", new_task=True, random_seed=1)
        xr.testing.assert_allclose(new, fits["draws"].predict(X, "elsewhere", new_task=True, random_seed=1))
        back = zoo.load(fit.save(tmp_path / f"{keep}.nc"))
        assert back.keep == keep and back.predict(X, "task 1").equals(fit.predict(X, "task 1"))
        assert ("moments" in back.idata) == (keep == "moments")
        grown = fit.condition(zoo.MultiTaskData.from_arrays(X, [9.0, 11.0], ["new", "new"]), random_seed=2)
        assert grown.keep == keep and grown.data.n_tasks == 13
        assert grown.predict(X, "task 1").equals(fit.predict(X, "task 1"))
        other = fits["draws"].condition(
            zoo.MultiTaskData.from_arrays(X, [9.0, 11.0], ["new", "new"]), random_seed=2
        )
        gap = np.abs(grown.predict(X, "new")["mean"] - other.predict(X, "new")["mean"])
        assert np.all(gap < 5.0 * other.predict(X, "new")["sd"] / np.sqrt(120))
        if keep == "moments":
            assert grown.idata["moments"].sizes["task"] == 13
            assert np.isfinite(grown.idata["moments"]["coefficients_sd"]).all()
        zoo.load(grown.save(tmp_path / f"grown {keep}.nc"))
        model, idata = fit.to_pymc(X, "task 1", random_seed=1)
        assert idata["posterior"]["coefficients"].sizes["task"] == 1 and "y" in model.named_vars


def test_what_needs_draws_of_tasks_says_so(fits, tmp_path):
    from zoo import plots

    fit = fits["population"]
    for what, call in {
        "fit.model": lambda: fit.model,
        "the log likelihood": fit.compute_log_likelihood,
        "fit.model needs": lambda: fit.extend("posterior_predictive"),
        "a picture of coefficients": lambda: plots.coefficient_forest(fit),
        "a map of the tasks": lambda: plots.task_map(fit),
    }.items():
        with pytest.raises(ValueError, match=rf"{what}.*kept less \(keep='population'\).*keep='draws'"):
            call()


def test_calibration_ranks_all_variables():
    with pytest.raises(ValueError, match=r"keep is 'moments', and ranks are of all variables"):
        zoo.diagnostics.sbc(zoo.NIWLinear(), make_data(weight=False), "gibbs", 2, keep="moments")


@pytest.mark.parametrize("keep", ["moments", "population"])
def test_a_report(keep, tmp_path):
    fit = zoo.NIWLinear().fit(make_data(weight=False), keep=keep, **SHORT)
    fit.report(tmp_path)
    assert f"keep=&#x27;{keep}&#x27;" in (tmp_path / "report.html").read_text()


def test_a_checkpoint_goes_on_with_the_moments(tmp_path, monkeypatch):
    from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel as Kernel
    from zoo.inference.run import chain_record

    monkeypatch.setattr(chain_record, "_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(chain_record, "_SHARE_OF_TIME", 0.0)
    data, model, sweep = make_data(), zoo.NIWLinear(), Kernel.sweep
    run = {**RUN, "keep": "moments", "checkpoint": tmp_path / "run.zarr", "cores": 1}
    whole = model.fit(data, **{**RUN, "keep": "moments"})
    sweeps = []

    def killed(self, rng, state):
        sweeps.append(0)
        if len(sweeps) == 50:
            raise RuntimeError("killed")
        sweep(self, rng, state)

    monkeypatch.setattr(Kernel, "sweep", killed)
    with pytest.raises(RuntimeError, match="killed"):
        model.fit(data, **run)
    monkeypatch.setattr(Kernel, "sweep", sweep)
    with pytest.raises(ValueError, match="keep"):
        model.fit(data, **{**run, "keep": "population"})
    for _ in range(2):  # it goes on, and is read when it is finished
        again = model.fit(data, **run)
        xr.testing.assert_identical(again.idata["moments"].to_dataset(), whole.idata["moments"].to_dataset())
        np.testing.assert_array_equal(again.posterior["noise"], whole.posterior["noise"])


def test_chains_that_go_on_take_their_moments_along():
    data, model = make_data(), zoo.NIWLinear()
    auto = {**RUN, "draws": "auto", "max_draws": 700}
    kept, lean = model.fit(data, **auto), model.fit(data, keep="moments", **{**RUN, "draws": 500})
    more = model.fit(data, keep="moments", **auto)
    wanted = kept if more.posterior.sizes["draw"] == kept.posterior.sizes["draw"] else lean
    if wanted is kept:
        draws = kept.posterior["coefficients"]
        xr.testing.assert_allclose(
            more.idata["moments"]["coefficients_mean"], draws.mean(("chain", "draw")), atol=1e-10
        )
    else:
        xr.testing.assert_identical(more.idata["moments"].to_dataset(), lean.idata["moments"].to_dataset())


REFUSED = {
    "by nuts": (zoo.NIWLinear(), "nuts", "method 'nuts' of NIWLinear keeps"),
    "an estimate": (zoo.NIWLinear(), "em", "method 'em' gives one estimate"),
    "another likelihood": (zoo.NIWLinear(likelihood="student_t"), None, "not normal given the population"),
    "noise by task": (
        zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))), None, "every task has a noise of its own"
    ),
    "another model": (zoo.MaxMargin(likelihood="gaussian"), None, "MaxMargin by 'gibbs' has no way"),
    "independent draws": (zoo.IndependentTasks(), None, "IndependentTasks by 'exact' has no way"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_who_cannot_do_without_draws_says_why(case):
    model, method, why = REFUSED[case]
    for keep in ("moments", "population"):
        with pytest.raises(UnsupportedMethodError, match=rf"keep='{keep}' is not .*{why}.*Use keep='draws'"):
            model.fit(make_data(), method, keep=keep, **RUN)
    with pytest.raises(ValueError, match=r"keep: 'all' is unknown\. Choose from 'draws', 'moments'"):
        model.fit(make_data(), method, keep="all", **RUN)


@dataclass(frozen=True, kw_only=True)
class Doubled(zoo.NIWLinear):
    """A subclass whose rows are not those of the user."""

    def design(self, data, context=None):
        rows = super().design(data, context)
        return replace(rows, inputs=2.0 * rows.inputs)


def test_a_subclass_with_hooks_of_its_own_keeps_all_draws(tmp_path):
    data = make_data()
    with pytest.raises(UnsupportedMethodError, match="Doubled overrides `design`"):
        Doubled().fit(data, keep="population", **SHORT)
    assert Doubled().fit(data, **SHORT).predict(np.ones((1, 3)), "task 1")["mean"].notnull().all()


class OwnKernel(zoo.NIWLinear):
    """A subclass whose sampler may be of another law."""

    def gibbs_kernel(self, data, y, **options):
        return super().gibbs_kernel(data, y, **options)


class OwnEngine(zoo.NIWLinear):
    """A subclass whose engine knows no ``keep``."""

    def _fit_gibbs(self, data, y, run):
        return super()._fit_gibbs(data, y, run)


@pytest.mark.parametrize(
    ("cls", "why"),
    [(OwnKernel, "OwnKernel overrides `gibbs_kernel`"), (OwnEngine, "of OwnEngine has no option `keep`")],
)
def test_a_subclass_with_a_sampler_of_its_own_keeps_all_draws(cls, why):
    data = make_data()
    with pytest.raises(UnsupportedMethodError, match=why):
        cls().fit(data, keep="population", **SHORT)
    assert cls().fit(data, **SHORT).keep == "draws"


class Renamed(zoo.NIWLinear):
    """A subclass that changes nothing."""


def test_a_subclass_that_changes_no_hook_does_without():
    fit = Renamed().fit(make_data(), keep="population", **SHORT)
    assert fit.predict(np.ones((1, 3)), "task 1")["mean"].notnull().all()


# ---------------------------------------------------------------- memory


def many_tasks(T=2000):
    rng = np.random.default_rng(0)
    return zoo.MultiTaskData.from_arrays(
        rng.standard_normal((2 * T, 3)), rng.standard_normal(2 * T), np.repeat(np.arange(T), 2)
    )


@pytest.fixture(name="free")
def set_free_memory(monkeypatch):
    def is_free(size):
        monkeypatch.setattr(memory, "available_memory", lambda: int(size))
        monkeypatch.setattr("zoo.core.keep.available_memory", lambda: int(size))

    return is_free


ASKED = {"draws": 2000, "tune": 0, "chains": 2, "random_seed": 1, "progress": False}
# Draws of 2,000 tasks x 3 features by 4,000 draws take 192 MB; their moments 0.3 MB; the sampler 0.7 MB.
NEEDED = 8 * 4000 * (3 * 2000)


def stopped(monkeypatch):
    """Engines that stop when they are reached, with what they were told to keep."""
    told = []

    def engine(self, data, y, run, keep="draws", thin=1, cores=None, group_moves=None):
        told.append(keep)
        raise StopIteration

    monkeypatch.setattr(zoo.NIWLinear, "_fit_gibbs", engine)
    return told


def test_what_is_kept_by_default_depends_on_the_memory(free, monkeypatch):
    told, data = stopped(monkeypatch), many_tasks()
    free(3 * NEEDED)
    with pytest.raises(StopIteration):
        zoo.NIWLinear().fit(data, **ASKED)
    free(1.5 * NEEDED)
    with (
        pytest.warns(UserWarning, match=r"all draws of 2,000 tasks would need 0\.193 GB.*keep='moments'"),
        pytest.raises(StopIteration),
    ):
        zoo.NIWLinear().fit(data, **ASKED)
    free(2.5e6)
    with (
        pytest.warns(UserWarning, match=r"population are kept alone \(keep='population'"),
        pytest.raises(StopIteration),
    ):
        zoo.NIWLinear().fit(data, **ASKED)
    assert told == ["draws", "moments", "population"]
    free(1e5)
    with pytest.raises(InsufficientMemoryError, match="keep='population' for draws=2000"):
        zoo.NIWLinear().fit(data, **ASKED)


def test_too_much_that_was_asked_for_is_refused_before_sampling(free, monkeypatch):
    told, data = stopped(monkeypatch), many_tasks()
    free(1.1 * NEEDED)
    with pytest.raises(
        InsufficientMemoryError,
        match=r"keep='draws' for draws=2000 with chains=2 .*0\.193 GB .*'coefficients'.*keep='population'",
    ):
        zoo.NIWLinear().fit(data, keep="draws", **ASKED)
    assert told == []
    free(1.3 * NEEDED)  # four fifths of it suffice
    with pytest.raises(StopIteration):
        zoo.NIWLinear().fit(data, keep="draws", **ASKED)
    assert told == ["draws"]


def test_a_checkpoint_needs_to_be_told(free, tmp_path):
    free(1.5 * NEEDED)
    with (
        pytest.warns(UserWarning, match="keep='moments'"),
        pytest.raises(ValueError, match=r"say what it keeps, as keep='moments'"),
    ):
        zoo.NIWLinear().fit(many_tasks(), checkpoint=tmp_path / "run.zarr", **ASKED)


def test_requirements_estimate_the_memory(free):
    free(5e9)
    table = zoo.NIWLinear().requirements(many_tasks())
    assert table.loc["coefficients", "memory"] == "0.192 GB"
    assert table.loc["_coefficients", "memory"] == "" and table.loc["y", "memory"] == ""
    said = table.attrs["memory"]
    assert (
        "keep='draws' 0.192 GB" in said and "keep='population' 0.384 MB" in said and "5 GB are free" in said
    )
    assert (
        "keep='population'"
        not in zoo.MaxMargin(likelihood="gaussian").requirements(make_data()).attrs["memory"]
    )


def test_predictions_of_too_many_tasks_are_refused(free):
    data = many_tasks(300)
    fit = zoo.NIWLinear().fit(data, keep="population", **SHORT)
    free(1000)
    with pytest.raises(InsufficientMemoryError, match="predictions of 600 rows by 10 draws"):
        fit.predict(data)
    with pytest.raises(InsufficientMemoryError, match="the coefficients of 300 tasks by 10 draws"):
        fit.predict_draws(data)


def test_a_file_that_was_changed_is_refused(tmp_path):
    fit = zoo.NIWLinear().fit(make_data(), keep="moments", **SHORT)
    fit.idata["moments"]["coefficients_mean"][0, 0] = 7.0
    fit.save(tmp_path / "a.nc")
    import h5py

    with h5py.File(tmp_path / "a.nc", "r+") as file:
        file["moments/coefficients_mean"][0, 0] = 8.0
    with pytest.raises(ValueError, match=r"changed after fit\.save"):
        zoo.load(tmp_path / "a.nc")


def test_draws_that_do_not_fit_are_refused_with_numbers_that_do(monkeypatch):
    monkeypatch.setattr("zoo.core.keep.available_memory", lambda: 2e7)
    monkeypatch.setattr("zoo.support.memory.available_memory", lambda: 2e7)
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(400), 3)
    X = rng.standard_normal((len(task), 3))
    data = zoo.MultiTaskData.from_arrays(X, np.where(np.arange(len(task)) % 3 == 0, -1.0, 1.0), task)
    with pytest.raises(
        InsufficientMemoryError, match="draws=250, and a thin that is 4 times as large, thin=4"
    ):
        zoo.NIWLinear(likelihood="logistic").fit(data, progress=False)
    with pytest.raises(InsufficientMemoryError, match="NIWLinear"):
        zoo.MaxMargin().fit(data, progress=False)

"""Checkpoints are gone on from, bit for bit, by every engine, and refused where they do not fit."""

from __future__ import annotations

import _thread
import contextlib
import json
import shutil
import threading
from dataclasses import replace

import joblib
import numpy as np
import pytest

import zoo
from tests.inference.checkpoints import (
    ENGINES,
    QUICK,
    Killed,
    OwnMaxMargin,
    assert_same_fit,
    fit_engine,
    kill_at,
    no_space,
    save_always,
    simulated_rows,
    whole_fit,
)
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.run.chains import run_chains
from zoo.inference.run.checkpoint import open_checkpoint
from zoo.support.warning_types import collected

# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_kernel_goes_on_bit_for_bit(engine, tmp_path, monkeypatch):
    rng = np.random.default_rng(sum(map(ord, engine)))
    save_always(monkeypatch)
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        kill_at(patch, int(rng.integers(5, 300)))
        with pytest.raises(Killed):
            fit_engine(engine, path, cores=1)
    assert_same_fit(fit_engine(engine, path), whole_fit(engine))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90])
def test_killed_at_each_step_of_a_save(step, tmp_path, monkeypatch):
    engine, path = "NIWLinear", tmp_path / "run.zarr"
    save_always(monkeypatch)
    with monkeypatch.context() as patch:
        kill_at(patch, step)
        with pytest.raises(Killed):
            fit_engine(engine, path, cores=1)
    assert_same_fit(fit_engine(engine, path), whole_fit(engine))


def test_the_moments_of_writing_have_no_influence(tmp_path, monkeypatch):
    engine = "NonparametricMaxMargin, hinge"
    assert_same_fit(fit_engine(engine, tmp_path / "seldom.zarr"), whole_fit(engine))
    save_always(monkeypatch)
    assert_same_fit(fit_engine(engine, tmp_path / "always.zarr"), whole_fit(engine))


def test_a_finished_run_is_read_and_not_sampled(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    first = fit_engine("MaxMargin, hinge", path)
    monkeypatch.setattr(zoo.inference.gibbs.matrix_normal.MatrixNormalKernel, "sweep", None)
    assert_same_fit(fit_engine("MaxMargin, hinge", str(path), progress=True), first)


def test_without_a_seed_the_streams_go_on(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    save_always(monkeypatch)
    with monkeypatch.context() as patch:
        kill_at(patch, 100)
        with contextlib.suppress(Killed):
            fit_engine("NIWLinear", path, random_seed=None, cores=1)
    entropy = json.loads((path / "manifest.json").read_text())["drawn"]["entropy"]
    resumed = fit_engine("NIWLinear", path, random_seed=None)
    assert resumed.posterior.equals(fit_engine("NIWLinear", random_seed=entropy).posterior)
    assert not resumed.posterior.equals(fit_engine("NIWLinear", random_seed=None).posterior)


@pytest.mark.parametrize("then", [dict(cores=2), dict(threads=2), dict(cores=1)], ids=str)
def test_cores_and_threads_may_change(then, tmp_path, monkeypatch):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    save_always(monkeypatch)
    with monkeypatch.context() as patch:
        kill_at(patch, 200)
        with contextlib.suppress(Killed):
            fit_engine(engine, path, cores=1)
    assert_same_fit(fit_engine(engine, path, **then), whole_fit(engine))


@pytest.mark.statistical  # processes start for seconds
def test_processes_write_the_same(tmp_path):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    with joblib.parallel_config(backend="loky", n_jobs=2):
        first = fit_engine(engine, path)
    assert_same_fit(first, whole_fit(engine))
    shutil.rmtree(path / "chain-1")
    assert_same_fit(fit_engine(engine, path), first)


def test_thinned_chains_and_starts_from_a_fit(tmp_path, monkeypatch):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    before = whole_fit(engine)
    save_always(monkeypatch)
    with monkeypatch.context() as patch:
        kill_at(patch, 250)
        with contextlib.suppress(Killed):
            fit_engine(engine, path, thin=3, start=before, cores=1)
    assert_same_fit(fit_engine(engine, path, thin=3, start=before), fit_engine(engine, thin=3, start=before))
    with pytest.raises(ValueError, match=r"options\.start differs"):
        fit_engine(engine, path, thin=3, start=fit_engine(engine, random_seed=4))


def test_other_programs_read_the_draws(tmp_path):
    import zarr

    fit = fit_engine("MaxMargin, hinge", tmp_path / "run.zarr")
    chain = zarr.open_group(tmp_path / "run.zarr", mode="r")["chain-1/posterior"]
    assert np.array_equal(chain["coefficients"][...], fit.posterior["coefficients"][1])


# ---------------------------------------------------------------- another run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(draws=41), "draws was 40, is 41"),
        (dict(tune=21), "tune was 20, is 21"),
        (dict(chains=3), "chains was 2, is 3"),
        (dict(random_seed=4), "random_seed.entropy was 3, is 4"),
        (dict(random_seed=None), "random_seed.entropy was 3, is absent"),
        (dict(thin=2), "options.thin was 1, is 2"),
        (dict(group_moves=False), "options.group_moves was true, is false"),
    ],
    ids=str,
)
def test_another_call_is_refused(options, message, tmp_path):
    path = tmp_path / "run.zarr"
    fit_engine("MaxMargin, hinge", path)
    fit_engine("MaxMargin, hinge", path, thin=1, group_moves=True)  # the defaults
    with pytest.raises(ValueError, match=f"of another run: .*{message}.* give another path"):
        fit_engine("MaxMargin, hinge", path, **options)


def test_other_data_fields_and_versions_are_refused(tmp_path, monkeypatch):
    path, data = tmp_path / "run.zarr", simulated_rows(False)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    model.fit(data, "gibbs", checkpoint=path, **QUICK)
    y = data.y.copy()
    y[3] = np.nextafter(y[3], 9.0)
    changed = {
        "data.y differs": (model, replace(data, y=y)),
        "data.weight": (model, replace(data, weight=np.ones(data.n_rows))),
        "data.names differs": (model, replace(data, task_names=("a", "b", "c"))),
        "data.X differs": (model, replace(data, inputs=data.inputs * 2.0)),
        'factory.fields.likelihood.C was "learned", is 2.0': (
            replace(model, likelihood=zoo.EpsilonInsensitive(C=2.0)),
            data,
        ),
        "factory.factory": (OwnMaxMargin(likelihood="epsilon_insensitive"), data),
    }
    for message, (factory, rows) in changed.items():
        with pytest.raises(ValueError, match=message):
            factory.fit(rows, "gibbs", checkpoint=path, **QUICK)
    monkeypatch.setattr("zoo.core.manifest.__version__", "99.0")
    with pytest.raises(ValueError, match=r"versions\.zoo was"):
        model.fit(data, "gibbs", checkpoint=path, **QUICK)


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("method", ["exact", "laplace"])
def test_methods_without_chains_refuse(method, tmp_path):
    factory = zoo.PooledTasks(likelihood="logistic") if method == "laplace" else zoo.PooledTasks()
    with pytest.raises(UnsupportedMethodError, match=f"'{method}'.* no checkpoint .* fit.save"):
        factory.fit(
            simulated_rows(method == "laplace"), method, checkpoint=tmp_path / "run.zarr", progress=False
        )
    assert not (tmp_path / "run.zarr").exists()


def test_a_kernel_without_snapshot_is_told(tmp_path):
    class Walk:
        def initialise(self, rng, threads=1):
            return {}

    with (
        open_checkpoint(tmp_path / "run.zarr", {}) as opened,
        pytest.raises(TypeError, match="Walk has no methods `snapshot` and `restore`"),
    ):
        run_chains(Walk(), draws=2, tune=0, chains=1, checkpoint=opened)


def test_options_that_cannot_be_described_are_refused(tmp_path):
    with pytest.raises(ValueError, match="option nuts holds a function, which a checkpoint cannot describe"):
        zoo.PooledTasks().fit(
            simulated_rows(False), "nuts", checkpoint=tmp_path / "run.zarr", nuts={"callback": no_space}
        )


# ---------------------------------------------------------------- NUTS


@pytest.mark.statistical  # nutpie compiles for half a minute
def test_nuts_keeps_finished_chains(tmp_path, monkeypatch):
    options = dict(draws=60, tune=60, chains=3, random_seed=1, progress=False)
    path, data, model = tmp_path / "run.zarr", simulated_rows(False), zoo.PooledTasks()
    whole = model.fit(data, "nuts", checkpoint=path, cores=2, **options)
    plain = model.fit(data, "nuts", **options)
    assert {n: v.dims for n, v in plain.posterior.items()} == {n: v.dims for n, v in whole.posterior.items()}
    for chain in (0, 1):  # each chain has a stream of its own
        assert not np.array_equal(*(whole.posterior["noise"][c] for c in (chain, 2)))
    shutil.rmtree(path / "chain-1")
    again = model.fit(data, "nuts", checkpoint=path, cores=1, **options)
    kept = dict(chain=[0, 2])
    assert again.posterior.isel(kept).identical(whole.posterior.isel(kept))
    # Drawn anew by the same code in the same process: the last bits agree too.
    assert again.posterior.identical(whole.posterior)
    monkeypatch.setattr("nutpie.compile_pymc_model", None)  # a finished run compiles nothing
    assert_same_fit(model.fit(data, "nuts", checkpoint=path, **options), again)
    again.save(tmp_path / "fit.nc")
    assert zoo.load(tmp_path / "fit.nc").posterior.equals(again.posterior)


@pytest.mark.statistical
@pytest.mark.usefixtures("interruptible")
def test_nuts_interrupted(tmp_path, monkeypatch):
    import nutpie

    options = dict(draws=500_000, tune=100, chains=2, random_seed=1, progress=False)
    model = zoo.PooledTasks()
    compile_model = nutpie.compile_pymc_model

    def compile_and_set_the_clock(*args, **kwargs):
        compiled = compile_model(*args, **kwargs)
        threading.Timer(2.0, _thread.interrupt_main).start()
        return compiled

    monkeypatch.setattr("nutpie.compile_pymc_model", compile_and_set_the_clock)
    with pytest.warns(UserWarning, match="interrupted: "):
        part = model.fit(simulated_rows(False), "nuts", checkpoint=tmp_path / "run.zarr", cores=2, **options)
    assert 0 < part.posterior.sizes["draw"] < 500_000
    assert not list((tmp_path / "run.zarr").glob("chain-*/state"))


def test_steps_beside_nuts_refuse(tmp_path):
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    with pytest.raises(ValueError, match='block="gibbs" cannot write a checkpoint'):
        model.fit(simulated_rows(False), "nuts", block="gibbs", checkpoint=tmp_path / "run.zarr", **QUICK)


# ---------------------------------------------------------------- a subclass of the user's


def _with_scale(scale: float) -> type:
    """A class whose hook differs from another one's by a number alone."""
    if scale == 1.0:

        class Scaled(zoo.NIWLinear):
            def coords(self, data):
                return {**super().coords(data), "scale": [1.0]}

    else:

        class Scaled(zoo.NIWLinear):
            def coords(self, data):
                return {**super().coords(data), "scale": [2.0]}

    return Scaled


def test_a_checkpoint_of_changed_hooks_is_refused(tmp_path):
    """Name and fields of the class were all that was compared: a changed hook went on with draws of the old one."""
    data = zoo.datasets.simulate_matrix_normal(2, 2, 8, random_seed=1)[0]
    path = tmp_path / "run.zarr"
    settings = {"draws": 4, "tune": 2, "chains": 1, "random_seed": 1, "progress": False, "checkpoint": path}
    with collected():
        first = _with_scale(1.0)().fit(data, "gibbs", **settings)
        again = _with_scale(1.0)().fit(data, "gibbs", **settings)
    assert again.posterior.equals(first.posterior)
    with pytest.raises(ValueError, match="code"):
        _with_scale(2.0)().fit(data, "gibbs", **settings)
    with pytest.raises(ValueError, match="code"):
        zoo.NIWLinear().fit(data, "gibbs", **settings)

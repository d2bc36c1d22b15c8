"""Running chains: reproducible whatever runs them, interruptible, never NaN in silence."""

from __future__ import annotations

import _thread
import threading
import time

import joblib
import numpy as np
import pytest

import zoo
from zoo.inference.run.chains import run_chains


class Walk:
    """A Gaussian autoregression; optionally slow or broken."""

    def __init__(self, seconds: float = 0.0, broken_at: int | None = None):
        self.seconds, self.broken_at = seconds, broken_at

    def initialise(self, rng, threads=1):
        return {"x": rng.normal(), "step": 0}

    def set_values(self, state, values):
        state["x"] = values["x"][0]

    def sweep(self, rng, state):
        time.sleep(self.seconds)
        state["x"] = 0.5 * state["x"] + rng.normal()
        state["step"] += 1
        if state["step"] == self.broken_at:
            state["x"] = np.nan

    def record(self, state):
        return {"x": np.array([state["x"]])}

    def monitor(self, state):
        return {"size": abs(state["x"])}


def test_shapes_and_independent_streams():
    posterior, stats = run_chains(Walk(), draws=7, tune=3, chains=3, random_seed=1, progress=False)
    assert posterior["x"].shape == (3, 7, 1)
    assert stats["size"].shape == (3, 7)
    assert len(np.unique(posterior["x"])) == 21


def test_thinning_keeps_every_other_draw():
    every, _ = run_chains(Walk(), draws=12, tune=2, chains=2, random_seed=1, progress=False)
    some, _ = run_chains(Walk(), draws=4, tune=2, chains=2, thin=3, random_seed=1, progress=False)
    assert np.array_equal(some["x"], every["x"][:, 2::3])
    with pytest.raises(ValueError, match="thin is 0"):
        run_chains(Walk(), draws=4, tune=2, chains=2, thin=0, progress=False)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_draws_do_not_depend_on_cores(cores):
    one, _ = run_chains(Walk(), draws=5, tune=2, chains=3, random_seed=1, progress=False)
    other, _ = run_chains(Walk(), draws=5, tune=2, chains=3, random_seed=1, cores=cores, progress=False)
    assert np.array_equal(one["x"], other["x"])


@pytest.mark.statistical
def test_processes_draw_the_same_as_threads():
    data, _ = zoo.datasets.simulate_matrix_normal(3, 2, 8, random_seed=1)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    options = dict(draws=5, tune=5, chains=2, random_seed=1, progress=False)
    threads = model.fit(data, "gibbs", **options)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        processes = model.fit(data, "gibbs", **options)
    assert threads.posterior.equals(processes.posterior)


def test_progress_bar_shows_diagnostics(capsys):
    run_chains(Walk(), draws=200, tune=10, chains=2, random_seed=1, progress=True)
    shown = capsys.readouterr().out
    assert "420/420" in shown
    assert "ESS" in shown
    assert "R-hat" in shown


@pytest.mark.usefixtures("interruptible")
def test_interrupt_keeps_the_draws_so_far():
    threading.Timer(1.0, _thread.interrupt_main).start()
    posterior, _ = run_chains(
        Walk(seconds=0.01), draws=10_000, tune=5, chains=2, random_seed=1, progress=False
    )
    chains, draws, _ = posterior["x"].shape
    assert chains == 2
    assert 10 < draws < 1000
    whole, _ = run_chains(Walk(), draws=draws, tune=5, chains=2, random_seed=1, progress=False)
    assert np.array_equal(posterior["x"], whole["x"])


@pytest.mark.usefixtures("interruptible")
def test_interrupt_in_warm_up_is_an_interrupt():
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run_chains(Walk(seconds=0.01), draws=10, tune=10_000, chains=2, random_seed=1, progress=False)


def test_nan_is_never_returned():
    with pytest.raises(FloatingPointError, match="chain 0 drew a value of x that is not finite, at draw 3"):
        run_chains(Walk(broken_at=6), draws=10, tune=2, chains=1, random_seed=1, progress=False)

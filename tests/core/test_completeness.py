"""A fit that Ctrl-C has shortened says so: at once, in its attributes, when printed, in the report and the file."""

from __future__ import annotations

import signal
import threading
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import zoo
from zoo.core.completeness import shortfall
from zoo.inference import acceleration
from zoo.report import complete, run_report


def made() -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(24, 2)), np.ones(24)])
    return zoo.MultiTaskData.from_arrays(X, X[:, 0] + rng.normal(size=24), np.repeat(np.arange(3), 8))


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_a_mark(tmp_path):
    asked = 3_000_000
    timer = threading.Timer(2.0, signal.raise_signal, [signal.SIGINT])
    # Wide enough that the draws asked for take minutes, and small enough that they fit into memory.
    factory = zoo.MaxMargin(likelihood="epsilon_insensitive", feature_cov="identity", task_cov="identity")
    factory.fit(
        made(), draws=5, tune=5, chains=2, random_seed=1, progress=False
    )  # compiled before the clock runs
    timer.start()
    with pytest.warns(
        UserWarning, match=r"interrupted: \d+ of 3000000 draws, \d of 2 chains\. .*checkpoint="
    ):
        fit = factory.fit(made(), draws=asked, tune=5, chains=2, random_seed=1, progress=False)
    timer.join()
    assert 0 < fit.posterior.sizes["draw"] < asked
    fit.idata["posterior"] = fit.idata["posterior"].to_dataset().isel(draw=slice(20))
    fit.idata["sample_stats"] = fit.idata["sample_stats"].to_dataset().isel(draw=slice(20))
    assert fit.posterior.attrs["interrupted"] == 1
    assert fit.posterior.attrs["draws_asked"] == asked
    assert "interrupted: 20 of 3000000 draws, 2 of 2 chains" in repr(fit)
    loaded = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert shortfall(loaded.idata) == shortfall(fit.idata) != ""
    out = StringIO()
    run_report(fit, tmp_path / "report", Console(file=out, width=200))
    assert "The fit was interrupted: 20 of 3000000 draws" in out.getvalue()
    with pytest.raises(KeyboardInterrupt):
        complete(fit)


def test_a_whole_fit_has_no_mark():
    fit = zoo.PooledTasks().fit(made(), draws=5, chains=2, random_seed=1, progress=False)
    assert "interrupted" not in fit.posterior.attrs
    assert "interrupted" not in repr(fit)
    complete(fit)


def test_the_mark_survives_condition_and_added_rows():
    fit = zoo.NIWLinear().fit(made(), draws=6, tune=5, chains=2, random_seed=1, progress=False)
    fit.idata["sample_stats"].attrs.update(interrupted=1, draws_asked=10, chains_asked=2)
    new = zoo.MultiTaskData.from_arrays(made().X[:4], made().y[:4], ["a newcomer"] * 4)
    assert "6 of 10 draws" in repr(fit.condition(new, random_seed=1))


def test_an_interrupted_search_leaves_a_mark(monkeypatch):
    original, calls = acceleration._accept, []

    def interrupt(*arguments: Any) -> bool:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(acceleration, "_accept", interrupt)
    with pytest.warns(UserWarning, match="before the search for the estimate had come to its end"):
        fit = zoo.NIWLinear().fit(made(), "em", tol=1e-12, progress=False)
    assert "interrupted" in repr(fit)

"""Whether chains have converged: the numbers, the warning, and what shows it."""

from __future__ import annotations

import math
import threading
import warnings
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from rich.console import Console

import zoo
import zoo.core.factory
from tests.core.walks import Walks, fit_and_warnings
from zoo.core.convergence import LARGEST_R_HAT, LEAST_ESS, diagnose
from zoo.core.verdict import Verdict, verdict_of, warning_text
from zoo.inference.run.chains import run_chains
from zoo.inference.run.draw_store import Store
from zoo.inference.run.mixing import mixing
from zoo.inference.run.progress import ChainProgress
from zoo.support.runner import Job, run_jobs
from zoo.support.warning_types import collected


def autoregressions(rng, n_entries, chains, draws, phi):
    """(E, chains, draws) of stationary Gaussian chains whose autocorrelations are phi (E,)."""
    x = rng.standard_normal((n_entries, chains, draws))
    root = np.sqrt(1.0 - np.square(phi))[:, None]
    for i in range(1, draws):
        x[:, :, i] = phi[:, None] * x[:, :, i - 1] + root * x[:, :, i]
    return x


# ---------------------------------------------------------------- the numbers


def _by_arviz(values):
    from arviz_stats.base import array_stats

    axes = dict(chain_axis=1, draw_axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            array_stats.rhat(values, method="rank", **axes),
            array_stats.ess(values, method="bulk", **axes),
            array_stats.ess(values, method="tail", prob=(0.05, 0.95), **axes),
        )


@pytest.mark.parametrize(
    ("chains", "draws"), [(4, 400), (4, 301), (2, 101), (1, 100), (3, 4), (3, 5), (2, 9)]
)
def test_the_numbers_are_those_of_arviz(chains, draws):
    rng = np.random.default_rng(draws)
    values = autoregressions(rng, 12, chains, draws, rng.uniform(-0.9, 0.999, 12))
    for ours, theirs in zip(mixing(values), _by_arviz(values), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("draw", [np.round, lambda x: (x > 1.0).astype(float)])
def test_ties_are_those_of_arviz(draw):
    rng = np.random.default_rng(3)
    values = draw(autoregressions(rng, 12, 4, 200, rng.uniform(-0.5, 0.97, 12)))
    for ours, theirs in zip(mixing(values), _by_arviz(values), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_slow_chains_need_more_lags_than_are_summed_directly():
    rng = np.random.default_rng(5)
    values = autoregressions(rng, 3, 2, 2000, np.full(3, 0.99))
    np.testing.assert_allclose(mixing(values).ess_bulk, _by_arviz(values)[1], rtol=1e-6)


def test_chains_that_stand_still_apart():
    values = np.repeat(np.arange(3.0)[None, :, None], 100, axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mixing(values)
    assert found.r_hat[0] > 1e6
    assert found.ess_bulk[0] <= 4.0


def test_independent_draws_of_the_default_size_are_within_the_limits():
    """Null: independent normal draws, 4 x 1,000, 500 entries; the largest of 40,000 was 1.0046, so alarms are
    rarer than one in 10,000."""
    found = mixing(np.random.default_rng(1).standard_normal((500, 4, 1000)))
    assert found.r_hat.max() < LARGEST_R_HAT
    assert min(found.ess_bulk.min(), found.ess_tail.min()) > 4 * LEAST_ESS


# ---------------------------------------------------------------- the entries


def _posterior(**variables):
    return xr.Dataset({name: (("chain", "draw", *dims), v) for name, (dims, v) in variables.items()})


def test_what_is_left_out_and_how_entries_are_called():
    rng = np.random.default_rng(0)
    cov = rng.standard_normal((2, 50, 3, 3))
    cov = cov + cov.swapaxes(2, 3)
    cov[..., range(3), range(3)] = 1.0 + 1e-16 * rng.standard_normal((2, 50, 3))
    lower = np.triu(rng.standard_normal((2, 50, 3, 3)))
    sparse = rng.standard_normal((2, 50, 2))
    sparse[..., 0] = 0.0
    broken = rng.standard_normal((2, 50, 2))
    broken[0, 3, 0] = np.nan
    posterior = _posterior(
        cov=(("task", "task_bis"), cov),
        upper=(("task", "task_bis"), lower),
        sparse=(("feature",), sparse),
        broken=(("feature",), broken),
        flag=((), rng.standard_normal((2, 50)) > 0),
    ).assign_coords(task=["a", "task 2", "c"], feature=["x", "y"])
    names = set(diagnose(posterior).table().index)
    assert {n for n in names if n.startswith("cov")} == {
        "cov[task 2, task a]", "cov[task c, task a]", "cov[task c, task 2]"
    }  # fmt: skip
    # No symmetric matrix, whatever the dims say.
    assert "upper[task a, task c]" in names
    assert {"sparse[feature y]", "broken[feature y]", "flag"} <= names
    assert not {"sparse[feature x]", "broken[feature x]"} & names


def test_blocks_are_put_together_in_order(monkeypatch):
    posterior = _posterior(
        a=(("k",), autoregressions(np.random.default_rng(1), 7, 2, 50, np.full(7, 0.3)).transpose(1, 2, 0))
    )
    whole = diagnose(posterior).table()
    monkeypatch.setattr("zoo.core.convergence._NUMBERS_AT_A_TIME", 200)
    assert diagnose(posterior).table().equals(whole)


def test_columns_that_change_places_are_no_fault():
    """Two columns that swap in one chain: the columns themselves have a large R-hat, their product has none."""
    rng = np.random.default_rng(2)
    Z = np.zeros((4, 500, 3, 2), dtype=np.int8)
    Z[:, :, 0, 0] = rng.random((4, 500)) < 0.9
    Z[:, :, 1, 1] = rng.random((4, 500)) < 0.1
    Z[2] = Z[2][..., ::-1]
    posterior = _posterior(Z=(("feature", "latent"), Z)).assign_coords(feature=["x", "y", "z"])
    assert diagnose(posterior).table()["r_hat"].max() > 1.2
    table = diagnose(posterior, ("latent",)).table()
    assert set(table.index) == {"Z Z'[feature x, feature x]", "Z Z'[feature y, feature y]"}
    assert table["r_hat"].max() < LARGEST_R_HAT
    # Of other kinds: one sum of squares; and left out where there is no telling.
    weights = _posterior(w=(("latent",), rng.standard_normal((4, 500, 2))))
    assert list(diagnose(weights, ("latent",)).table().index) == ["w w'"]
    cube = _posterior(c=(("latent", "i", "j"), rng.standard_normal((4, 500, 2, 2, 2))))
    assert diagnose(cube, ("latent",)).size == 0


# ---------------------------------------------------------------- fits


def test_good_chains_are_not_warned_of(rows):
    fit, caught = fit_and_warnings(rows, Walks())
    assert not caught
    attrs = fit.idata["sample_stats"].attrs
    assert attrs["convergence_entries"] == 9
    assert attrs["convergence_out_of_bounds"] == attrs["convergence_divergences"] == 0
    assert 1.0 <= attrs["convergence_r_hat"] < LARGEST_R_HAT
    assert "worst R-hat 1.00" in repr(fit) and "not converged" not in repr(fit)


@pytest.mark.parametrize("fault", ["stuck", "modes"])
def test_one_bad_entry_is_named(rows, fault):
    fit, caught = fit_and_warnings(rows, Walks(fault=fault))
    [warning] = caught
    text = str(warning.message)
    assert "1 of 9 entries" in text
    assert "(coefficients[feature x1, task 2])" in text
    assert "More draws alone" in text
    assert warning.filename == fit_and_warnings.__code__.co_filename  # where `fit` is called
    assert "not converged" in repr(fit)
    table = fit.diagnostics()
    assert list(table.columns) == ["r_hat", "ess_bulk", "ess_tail"]
    assert table.index[0].startswith("coefficients[") and table["r_hat"].iloc[0] > 1.09
    assert (table["r_hat"].iloc[1:] < 1.02).all()
    assert set(fit.diagnostics("noise").index) == {"noise"}


def test_divergences(rows):
    fit, [warning] = fit_and_warnings(rows, Walks(fault="diverging"))
    assert "3 of 2,000 transitions" in str(warning.message)
    assert "target_accept" in str(warning.message)
    assert "has not converged" not in str(warning.message)
    assert "3 divergences" in repr(fit)


def test_few_draws_and_one_chain(rows):
    _, [warning] = fit_and_warnings(rows, Walks(), draws=3)
    assert "3 draws per chain are too few" in str(warning.message)
    fit, [warning] = fit_and_warnings(rows, Walks(), draws=50)
    assert "About " in str(warning.message) and "draws=" in str(warning.message)
    fit, [warning] = fit_and_warnings(rows, Walks(), draws=50, chains=1)
    assert "R-hat needs two chains" in str(warning.message)
    assert fit.diagnostics()["r_hat"].isna().all()
    fit, caught = fit_and_warnings(rows, Walks(), draws=500, chains=1)
    assert not caught and "R-hat" not in repr(fit)


def test_independent_draws_are_not_judged(rows):
    fit, caught = fit_and_warnings(rows, Walks(), draws=3, method="alone")
    assert not caught
    assert verdict_of(fit) is None
    assert "convergence_r_hat" not in fit.idata["sample_stats"].attrs
    for model in (zoo.IndependentTasks(), zoo.PooledTasks()):
        assert not fit_and_warnings(rows, model, draws=3)[1]


def test_estimates_have_no_diagnostics(rows):
    fit, caught = fit_and_warnings(rows, zoo.NIWLinear(), method="em")
    assert not caught
    with pytest.raises(ValueError, match="one estimate"):
        fit.diagnostics()


def test_bad_names_and_too_few_draws_are_refused(rows):
    fit, _ = fit_and_warnings(rows, Walks(), draws=3)
    with pytest.raises(ValueError, match="var_names: 'eta'"):
        fit.diagnostics(["eta"])
    with pytest.raises(ValueError, match="3 draws per chain"):
        fit.diagnostics()


@pytest.mark.parametrize("chains", [1, 2])
def test_the_verdict_survives_a_file(rows, tmp_path, chains):
    fit, _ = fit_and_warnings(rows, Walks(fault="stuck"), chains=chains)
    back = zoo.load(fit.save(tmp_path / "fit.nc"), factory=Walks)
    assert repr(back) == repr(fit)
    before, after = verdict_of(fit), verdict_of(back)
    for old, new in zip(before, after, strict=True):
        assert old == new or (math.isnan(old) and math.isnan(new))
    assert back.diagnostics().equals(fit.diagnostics())
    # A file from before, or one with another's attributes.
    back.idata["sample_stats"].attrs["convergence_r_hat"] = "none"
    assert verdict_of(back).out_of_bounds == before.out_of_bounds
    assert "R-hat" not in repr(back)


def test_a_checkpoint_is_judged_too(rows, tmp_path):
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    options = dict(draws=20, tune=20, chains=2, method="gibbs", checkpoint=tmp_path / "run.zarr")
    first, [warning] = fit_and_warnings(rows, model, **options)
    again, [repeated] = fit_and_warnings(rows, model, **options)
    assert str(warning.message) == str(repeated.message)
    assert verdict_of(first) == verdict_of(again)


def test_a_good_fit_of_few_rows_is_quiet_and_a_subclass_is_judged(rows):
    class Mine(zoo.MaxMargin):
        def coords(self, data):
            return {**super().coords(data), "mine": ["a"]}

    fit, caught = fit_and_warnings(
        rows, zoo.MaxMargin(likelihood="epsilon_insensitive"), draws=1000, tune=300
    )
    assert not caught, str(caught[0].message)
    assert verdict_of(fit).converged
    _, caught = fit_and_warnings(rows, Mine(likelihood="epsilon_insensitive"), draws=10, tune=5)
    assert len(caught) == 1 and "Mine by 'gibbs'" in str(caught[0].message)


def test_the_buffet_is_judged_by_what_has_an_order(rows):
    fit, _ = fit_and_warnings(
        rows, zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive"), draws=30, tune=10
    )
    names = [name.split("[")[0] for name in fit.diagnostics().index]
    assert "Z" not in names
    assert {"coefficients", "task_cov"} <= set(names)


def test_many_fits_speak_once(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with collected() as messages:
            Walks(fault="stuck").fit(rows, progress=False)
    assert len(messages) == 1
    others: list[int] = []

    def elsewhere():
        with collected() as found:
            others.append(len(found))

    with collected() as messages:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert others == [0] and messages == []


def test_extrapolation():
    base = Verdict(10, 1, 1.03, "a", 500.0, "a", 250.0, "b", 0, 0, 4, 1000)
    fit = SimpleNamespace(factory=Walks(), method="walk")
    assert "About 3,000 draws" in warning_text(fit, base)
    assert "About 8,000 draws" in warning_text(fit, base._replace(ess_tail=50.0))
    assert "About 1,100 draws" in warning_text(fit, base._replace(r_hat=1.0101, ess_tail=900.0))
    assert "More draws alone" in warning_text(fit, base._replace(r_hat=1.6))
    assert "has not fallen" in warning_text(fit, base._replace(stalled=1))
    assert "cause lies in the data: X." in warning_text(fit, base, "X.")


# ---------------------------------------------------------------- where it is shown


def test_report_and_trace(rows, tmp_path):
    from zoo.report import run_report

    fit, _ = fit_and_warnings(rows, Walks(fault="stuck"))
    console = Console(record=True, width=300)
    written = run_report(fit, tmp_path / "report", console)
    assert "diagnostics.csv" in written
    said = console.export_text()
    assert "1 of 9 entries" in said and "More draws alone may not help" in said
    figure = zoo.plots.trace_rank(fit)
    assert figure.axes[0].get_title() == fit.diagnostics().index[0]
    titles = [axes.get_title() for axes in figure.axes[::2]]
    assert len(titles) == len(set(titles)) and "noise" in titles
    plt.close("all")


class Stuck:
    """Independent draws of many entries; one stands still in each chain."""

    def initialise(self, rng, threads=1):
        return {"x": rng.normal(size=30), "own": rng.normal()}

    def sweep(self, rng, state):
        state["x"] = rng.normal(size=30)
        state["x"][17] = state["own"] + 1e-3 * rng.normal()

    def record(self, state):
        return {"x": state["x"], "same": np.zeros(2)}

    def monitor(self, state):
        return {"size": float(state["x"][0])}


def test_the_bar_follows_what_is_worst():
    bar = ChainProgress(2, 210, 10)
    bar._start -= 1000.0  # as if the run had taken long
    runs: dict[int, Any] = {}

    def keep(run, sweeps):
        runs[run.number] = run

    kernel = Stuck()
    # The chains as the bar sees them, without waiting for its clock.
    from zoo.inference.run import chains as module

    stores = (Store(2, 200), Store(2, 200))
    seeds = np.random.SeedSequence(1).spawn(2)
    for i in range(2):
        chain = module._Chain(kernel, i, module._Plan(200, 10, 1, 1), seeds[i], None, stores, None)
        chain.run(keep, threading.Event())
    bar._runs = runs
    health = bar._health()
    assert 17 in bar._watched["x"]
    assert "same" not in bar._watched
    assert float(health.split("R-hat ")[1]) > 1.5
    # A short run has no time for a look.
    quick = ChainProgress(2, 210, 10)
    quick._runs = runs
    quick._start += 1000.0
    assert float(quick._health().split("R-hat ")[1]) < 1.1


def test_the_bar_leaves_columns_without_order_alone(rows):
    model = zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive")
    kernel = model.gibbs_kernel(model.design(rows), model.validate(rows))
    assert kernel.unordered == ("Z",)
    assert "Z" in run_chains(kernel, draws=2, tune=1, chains=1, random_seed=1, progress=False)[0]


# ---------------------------------------------------------------- the data


def test_a_selection_warns_once(rows):
    grid = {"fault": ["stuck", ""]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        zoo.select(Walks(), rows, grid, cv=2, draws=500, chains=4, random_seed=1, n_jobs=1, progress=False)
    [warning] = [w for w in caught if issubclass(w.category, zoo.ConvergenceWarning)]
    assert "2 of 4 fits" in str(warning.message) and "fault='stuck'" in str(warning.message)


def _job(fault):
    data = zoo.datasets.simulate_matrix_normal(4, 2, 6, random_seed=1)[0]
    fit = Walks(fault=fault).fit(data, draws=500, chains=4, random_seed=1, progress=False)
    return {"draws": fit.posterior.sizes["draw"]}


def test_jobs_warn_once(tmp_path):
    jobs = [Job(f"job-{i}", _job, {"fault": fault}) for i, fault in enumerate(("stuck", "", "modes"))]
    with pytest.warns(zoo.ConvergenceWarning, match="2 of 3 jobs") as caught:
        outcome = run_jobs(jobs, tmp_path, progress=False)
    assert len(caught) == 1 and len(outcome.results) == 3

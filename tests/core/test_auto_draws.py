"""Fits that draw until their chains have converged."""

from __future__ import annotations

import joblib
import pytest

import zoo
import zoo.core.factory
from tests.core.walks import fit_and_warnings
from zoo.core.convergence import LARGEST_R_HAT
from zoo.core.verdict import verdict_of


@pytest.mark.parametrize("model", [zoo.MaxMargin(likelihood="epsilon_insensitive"), zoo.NIWLinear()])
def test_chains_go_on_until_they_have_converged(rows, model, monkeypatch):
    """The draws are, bit for bit, those of a plain fit of the number that was reached."""
    monkeypatch.setattr("zoo.core.auto_draws.FIRST_ROUND", 40)
    fit, caught = fit_and_warnings(rows, model, method="gibbs", draws="auto", tune=100)
    assert not caught
    reached = fit.posterior.sizes["draw"]
    assert reached in {40 * 2**k for k in range(2, 10)}
    table = fit.diagnostics()
    assert table["r_hat"].max() <= LARGEST_R_HAT and table["ess_bulk"].min() >= 400
    plain, _ = fit_and_warnings(rows, model, method="gibbs", draws=reached, tune=100)
    assert plain.posterior.equals(fit.posterior)
    assert plain.idata["sample_stats"].equals(fit.idata["sample_stats"])
    half, _ = fit_and_warnings(rows, model, method="gibbs", draws=reached // 2, tune=100)
    assert not verdict_of(half).converged or half.diagnostics()["ess_bulk"].min() < 400


def test_a_fit_that_is_given_no_number_goes_on_for_a_while(rows, monkeypatch, tmp_path):
    """Where chains cannot go on, and where the first draws have converged, they are as many as by default."""
    monkeypatch.setattr("zoo.core.auto_draws.DEFAULT_DRAWS", 10)
    monkeypatch.setattr("zoo.core.auto_draws.MOST_BY_DEFAULT", 40)
    monkeypatch.setattr("zoo.core.fitting.DEFAULT_DRAWS", 10)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    fit, [warning] = fit_and_warnings(rows, model, draws=None, tune=5)
    assert fit.posterior.sizes["draw"] == 40
    assert "stopped at 40 draws each" in str(warning.message)
    plain, _ = fit_and_warnings(rows, model, draws=40, tune=5)
    assert plain.posterior.equals(fit.posterior)
    for other in ({"chains": 1}, {"checkpoint": tmp_path / "run.zarr"}):
        fit, _ = fit_and_warnings(rows, model, **{"draws": None, "tune": 5, **other})
        assert fit.posterior.sizes["draw"] == 10
    monkeypatch.setattr("zoo.core.auto_draws.DEFAULT_DRAWS", 600)
    monkeypatch.setattr("zoo.core.auto_draws.MOST_BY_DEFAULT", 2400)
    fit, caught = fit_and_warnings(rows, zoo.NIWLinear(), draws=None, tune=100)
    assert fit.posterior.sizes["draw"] == 600 and not caught


def test_where_the_chains_stop(rows, monkeypatch):
    model = zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive")
    monkeypatch.setattr("zoo.core.auto_draws.FIRST_ROUND", 10)
    options = dict(method="gibbs", draws="auto", tune=5)
    fit, [warning] = fit_and_warnings(rows, model, max_draws=25, thin=2, **options)
    assert fit.posterior.sizes["draw"] == 25
    assert "stopped at 25 draws each" in str(warning.message)
    assert "interrupted" not in fit.idata["posterior"].attrs
    plain, _ = fit_and_warnings(rows, model, method="gibbs", draws=25, tune=5, thin=2)
    assert plain.posterior.equals(fit.posterior)
    fit, [warning] = fit_and_warnings(rows, model, max_seconds=1e-6, **options)
    assert fit.posterior.sizes["draw"] == 10
    assert "longer than max_seconds" in str(warning.message)

    from zoo.support.memory import InsufficientMemoryError

    def full(model, data, y, method, run, keep, draws=None):
        if draws is not None:
            raise InsufficientMemoryError("it is full")
        return "draws"

    monkeypatch.setattr("zoo.core.fitting.choose_keep", full)
    fit, [warning] = fit_and_warnings(rows, model, **options)
    assert fit.posterior.sizes["draw"] == 10
    assert "do not fit into memory: it is full" in str(warning.message)


def test_the_bar_grows_with_the_rounds(rows, monkeypatch, capsys):
    monkeypatch.setattr("zoo.core.auto_draws.FIRST_ROUND", 10)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    fit_and_warnings(rows, model, method="gibbs", draws="auto", tune=5, max_draws=40, chains=2, progress=True)
    assert "90/90" in capsys.readouterr().out


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_a_later_round_says_so(rows, monkeypatch):
    from zoo.core.auto_draws import AutoDraws

    asked = []
    decide = AutoDraws.__call__

    def then_interrupt(self, posterior, done):
        if asked:
            raise KeyboardInterrupt
        asked.append(decide(self, posterior, done))
        return asked[0]

    monkeypatch.setattr(AutoDraws, "__call__", then_interrupt)
    monkeypatch.setattr("zoo.core.auto_draws.FIRST_ROUND", 10)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    fit, _ = fit_and_warnings(rows, model, method="gibbs", draws="auto", tune=5)
    # The round was finished, so that nothing is short.
    assert fit.posterior.sizes["draw"] == asked[0] == 20


def test_where_chains_cannot_go_on(rows, tmp_path):
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    refused = zoo.core.methods.UnsupportedMethodError
    with pytest.raises(refused, match=r"'nuts' of MaxMargin.*give a number of draws.*or use method 'gibbs'"):
        model.fit(rows, "nuts", draws="auto")
    with pytest.raises(refused, match=r"'exact' of PooledTasks.*no Markov chains"):
        zoo.PooledTasks().fit(rows, draws="auto")
    with pytest.raises(refused, match="'em' of NIWLinear"):
        zoo.NIWLinear().fit(rows, "em", draws="auto")
    with pytest.raises(refused, match="`checkpoint`"):
        model.fit(rows, draws="auto", checkpoint=tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="chains=1 has no R-hat"):
        model.fit(rows, draws="auto", chains=1)
    with pytest.raises(ValueError, match="draws: 'many'"):
        model.fit(rows, draws="many")
    with pytest.raises(ValueError, match="max_draws is given with draws=1000"):
        model.fit(rows, draws=1000, max_draws=5)
    with pytest.raises(ValueError, match="max_seconds"):
        model.fit(rows, draws="auto", max_seconds=-1.0)
    with pytest.raises(ValueError, match="max_draws is 3"):
        model.fit(rows, draws="auto", max_draws=3)
    with (
        joblib.parallel_config(backend="loky", n_jobs=2),
        pytest.raises(ValueError, match="threads of this process"),
    ):
        model.fit(rows, draws="auto", random_seed=1, progress=False)

"""A fit comes back from its first kept draw on, whatever happens later, and says which method it took."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import zoo

RNG = np.random.default_rng(5)
DATA = zoo.MultiTaskData.from_arrays(
    RNG.normal(size=(60, 2)), RNG.normal(size=60), task=np.repeat(np.arange(6), 10)
)


def fit(**options):
    return zoo.NIWLinear().fit(DATA, tune=20, chains=2, random_seed=1, progress=False, **options)


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", ["zoo.core.fitting.judge", "zoo.core.verdict.diagnosis_of"])
def test_ctrl_c_while_convergence_is_judged_ends_the_judging(monkeypatch, place):
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupted)
        with pytest.warns(UserWarning, match=r"Ctrl-C ended the look at the draws.*fit\.diagnostics\(\)"):
            found = fit(draws=200)
    assert found.posterior.sizes["draw"] == 200
    assert np.isfinite(found.diagnostics()["r_hat"]).all()


def test_ctrl_c_while_draws_are_put_together_loses_none(monkeypatch):
    from zoo.core import fitting

    calls, whole = [], fitting.to_datatree

    def once(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(fitting, "to_datatree", once)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        assert fit(draws=200).posterior.sizes["draw"] == 200


def test_ctrl_c_between_rounds_keeps_the_rounds(monkeypatch):
    monkeypatch.setattr("zoo.core.auto_draws.diagnose", interrupted)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit()
    assert found.posterior.sizes["draw"] == 1000
    assert not said or "Ctrl-C stopped the chains" in str(said[-1].message)


def test_a_warning_that_is_an_error_brings_the_fit_along():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(zoo.ConvergenceWarning) as raised:
            fit(draws=10)
    assert raised.value.fit.posterior.sizes["draw"] == 10
    assert "No draw is lost" in raised.value.__notes__[0]


def test_a_subclass_hears_why_it_has_another_method(monkeypatch, capsys):
    class SamePriors(zoo.NIWLinear):
        def priors(self, data):
            return super().priors(data)

    class Stopped(Exception):
        pass

    def stop(*_):
        raise Stopped

    monkeypatch.setattr("zoo.core.fitting.data_look", stop)
    for model, said in (
        (SamePriors(), "SamePriors is fitted by 'nuts': it overrides priors, and 'gibbs' is derived for"),
        (zoo.NIWLinear(), ""),
    ):
        with pytest.raises(Stopped):
            model.fit(DATA)
        assert said in capsys.readouterr().out if said else capsys.readouterr().out == ""

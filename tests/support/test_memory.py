"""The memory that draws need is estimated before anything runs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import zoo
from zoo.models.varying_coefficient import model as varying_coefficient
from zoo.registry import FACTORIES, get_factory
from zoo.support import memory
from zoo.support.memory import InsufficientMemoryError
from zoo.testing import FactoryTestCase


def many_tasks(T: int) -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    return zoo.MultiTaskData.from_arrays(
        rng.normal(size=(2 * T, 3)), rng.normal(size=2 * T), np.repeat(np.arange(T), 2)
    )


def test_a_large_covariance_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 24_000_000_000)
    with pytest.raises(
        InsufficientMemoryError, match=r"draws=1000 with chains=4 .* 72\.1 GB .*'task_cov'.*thin"
    ) as error:
        zoo.MaxMargin(likelihood="epsilon_insensitive").fit(many_tasks(1500), progress=False)
    assert isinstance(error.value, MemoryError)
    assert isinstance(error.value, ValueError)


def test_what_fits_is_not_refused(monkeypatch):
    data, factory = many_tasks(60), zoo.MaxMargin(likelihood="epsilon_insensitive")
    asked = {"draws": 3000, "tune": 0, "chains": 4, "random_seed": 1, "progress": False}
    # 12,000 draws of 60 x 60, 3 x 60 and 3 x 3 numbers: 364 million bytes, of which four fifths may be taken.
    needed = 8 * 12_000 * (60 * 60 + 3 * 60 + 9)
    monkeypatch.setattr(memory, "available_memory", lambda: int(needed / 0.8) - 1000)
    with pytest.raises(InsufficientMemoryError):
        factory.fit(data, **asked)
    monkeypatch.setattr(memory, "available_memory", lambda: int(needed / 0.8) + 1000)
    monkeypatch.setattr(zoo.MaxMargin, "_fit_gibbs", lambda *a, **k: (_ for _ in ()).throw(StopIteration))
    with pytest.raises(StopIteration):  # the engine is reached
        factory.fit(data, **asked)


@pytest.mark.parametrize("name", [*FACTORIES])
def test_estimates_are_what_fits_hold(name, monkeypatch):
    """The numbers of one draw, for every factory: what the first method's posterior holds."""

    class Case(FactoryTestCase):
        def make_factory(self):
            return get_factory(name)()

    import zoo.core.keep as module

    asked: list[dict[str, int]] = []
    count = module.numbers_of_a_draw

    def noted(*arguments):
        numbers = count(*arguments)
        asked.append({**numbers.of_tasks, **numbers.others})
        return numbers

    monkeypatch.setattr(module, "_SMALL_POSTERIOR", 0.0)
    monkeypatch.setattr(module, "numbers_of_a_draw", noted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = Case().fit()
    if fit.is_point:
        assert asked == []
        return
    held = {str(n): int(np.prod(v.shape[2:])) for n, v in fit.posterior.items()}
    [sizes] = asked
    for variable, size in held.items():
        if variable == "Z":
            assert size >= sizes[variable]  # grows with the columns in use
        elif variable in fit.factory.representations:
            assert size <= max(sizes.get(r, 0) for r in fit.factory.representations)
        else:
            assert sizes.get(variable, 1) == size, variable  # numbers without dims do not count


def test_a_point_is_never_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1)
    data = many_tasks(4)
    zoo.NIWLinear().fit(data, "em", progress=False)


def test_predictions_and_log_likelihoods_too(monkeypatch):
    data = many_tasks(4)
    fit = zoo.MaxMargin(likelihood="epsilon_insensitive").fit(
        data, draws=5, tune=5, chains=1, random_seed=1, progress=False
    )
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    with pytest.raises(InsufficientMemoryError, match="predictions of 8 rows by 5 draws"):
        fit.predict_draws(data)
    with pytest.raises(InsufficientMemoryError, match="log likelihood of 8 rows"):
        fit.compute_log_likelihood()


@pytest.mark.parametrize("inside", ["", "batch", "batch/job/step"])
def test_the_limit_of_a_container_counts(tmp_path, monkeypatch, inside):
    """Or of a job in a service in it: the process is in the group ``batch/job/step``."""
    groups = tmp_path / "cgroup"
    groups.write_text("3:cpuset,cpu:/other\n0::/batch/job/step\n")
    monkeypatch.setattr(memory, "_GROUPS", groups)
    monkeypatch.setattr(memory, "_SECOND", (tmp_path, "memory.max", "memory.current"))
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    limit, usage = tmp_path / inside / "memory.max", tmp_path / inside / "memory.current"
    without = memory.available_memory()
    limit.write_text("max\n")
    usage.write_text("700\n")
    assert memory.available_memory() > 1_000_000
    limit.write_text("1000\n")
    assert memory.available_memory() == 300
    limit.write_text("500\n")
    assert memory.available_memory() == 0
    assert without > 1_000_000


def test_varying_coefficients_count_one_representation():
    sizes = memory.sizes_of_variables(
        {"basis_weights": ("basis",), "function_values": ("point",), "noise": (), "_values": ("point",)},
        {"basis": range(7), "point": range(5)},
        varying_coefficient.VaryingCoefficientGP.representations,
    )
    assert sizes == {"noise": 1, "basis_weights": 7}


def test_what_is_estimated_once_counts_once(monkeypatch):
    data = many_tasks(300)
    # A covariance of 300 x 300 tasks once, and 3 x 300 coefficients and few more in each of 4,000 draws.
    monkeypatch.setattr(memory, "available_memory", lambda: int(8 * 4000 * (3 * 300 + 10) / 0.8))
    monkeypatch.setattr("zoo.core.keep._SMALL_POSTERIOR", 0.0)
    model = zoo.MultiTaskKernelMachine(kernel="mean_regularised")
    monkeypatch.setattr(type(model), "_fit_exact", lambda *a, **k: (_ for _ in ()).throw(StopIteration))
    with pytest.raises(StopIteration):  # the engine is reached
        model.fit(data, "exact", progress=False)
    with pytest.raises(InsufficientMemoryError, match="'task_cov'"):
        model.fit(data, "gibbs", progress=False)


def test_the_peak_of_work_counts_what_it_gave_back_and_not_what_was_there_before():
    held = np.ones(40_000_000)
    memory.with_peak(lambda: np.ones(30_000_000).sum())
    total, peak = memory.with_peak(lambda: np.ones(10_000_000).sum())
    assert total == 1e7 and held.size
    if peak is None:
        pytest.skip("this system does not say how much a process has held at most")
    assert 79_000_000 < peak < 120_000_000


def test_without_a_reset_of_the_peak_nothing_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_RESET", tmp_path / "missing" / "file")
    assert memory.with_peak(lambda: 3) == (3, None)


def test_a_reset_that_changes_nothing_says_nothing(monkeypatch, tmp_path):
    status = tmp_path / "status"
    status.write_text("VmHWM:\t  320000 kB\nVmRSS:\t  100000 kB\n")
    monkeypatch.setattr(memory, "_PEAK", status)
    monkeypatch.setattr(memory, "_RESET", tmp_path / "clear_refs")
    assert memory.with_peak(lambda: 3) == (3, None)

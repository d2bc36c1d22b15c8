"""The torture cases are what they say, and some of them are fitted: within bounds, or warned of."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zoo
from tests.statistical import torture
from tests.statistical.torture import SUBJECTS, Job, Subject, all_jobs, run_job, tells_the_truth
from tests.statistical.torture_cases import CASES, simulate
from zoo.registry import FACTORIES

_KINDS = [(case, kind) for case, (_, kinds) in CASES.items() for kind in kinds]


def within(sample, feature: str) -> np.ndarray:
    """Largest range of a feature within the tasks, in units of its spread over all rows."""
    x = sample.train.X[:, sample.train.feature_names.index(feature)]
    ranges = [np.ptp(x[rows]) for rows in sample.train.rows_by_task()]
    return np.array(ranges) / x.std()


@pytest.mark.parametrize("places", [False, True], ids=["tasks", "places"])
@pytest.mark.parametrize(("case", "kind"), _KINDS, ids=lambda value: value)
def test_a_sample_is_fit_for_use(case, kind, places):
    sample = simulate(case, kind, places=places)
    train, test = sample.train, sample.test
    assert train.task_names == test.task_names
    assert (train.task_sizes > 0).all()
    assert train.feature_names[-1] == "intercept" and (train.X[:, -1] == 1.0).all()
    assert (train.transform is None) == (case == "large_units")
    assert (train.t is not None) == places
    if kind == "labels":
        assert set(np.unique(train.y)) == {-1.0, 1.0}
        assert sample.probability.shape == test.y.shape
        # The labels have the law that is said: a z-score of their number, false alarm 6e-7.
        p = sample.probability
        spread = np.sqrt((p * (1.0 - p)).sum())
        assert abs((test.y > 0.0).sum() - p.sum()) <= 5.0 * spread
    again = simulate(case, kind, places=places)
    np.testing.assert_array_equal(train.y, again.train.y)
    assert not np.array_equal(train.y, simulate(case, kind, seed=2, places=places).train.y)


def test_features_are_what_they_say():
    assert max(within(simulate("task_constant", "real"), x).max() for x in ("x0", "x1")) == 0.0
    twin = simulate("twin", "real")
    assert max(within(twin, x).max() for x in ("x0", "x1")) == 0.0
    assert twin.train.n_tasks == 40 and set(twin.train.task_sizes) == {20}
    copies = np.corrcoef(twin.train.X[:, 3:6].T)
    assert 0.99 < copies[0, 1] < 1.0

    X = simulate("duplicates", "real").train.X
    np.testing.assert_array_equal(X[:, :2], X[:, 3:5])
    X = simulate("near_duplicates", "real").train.X
    for j in (0, 1):
        assert 0.99 < np.corrcoef(X[:, j], X[:, 3 + j])[0, 1] < 1.0

    sample = simulate("near_constant", "real")
    assert sample.train.transform.x_scale[2] == pytest.approx(1e-3, rel=0.2)
    assert (within(sample, "x3") > 0.0).tolist() == [True, True, *[False] * 18]

    raw = simulate("one_hots", "real").train.original_X()[:, :10]
    for group in (slice(0, 3), slice(3, 6), slice(6, 10)):
        np.testing.assert_allclose(raw[:, group].sum(axis=1), 1.0, rtol=1e-12)


def test_sizes_are_what_they_say():
    assert simulate("huge_and_tiny", "real").train.task_sizes.tolist() == [2000, *[3] * 30]
    assert simulate("two_tasks", "real").train.n_tasks == 2
    assert simulate("many_tasks", "labels").train.task_sizes.tolist() == [2] * 300
    data = simulate("wide_in_tasks", "real").train
    assert data.task_sizes.max() < data.n_features < data.n_rows
    data = simulate("wide", "real").train
    assert data.n_rows < data.n_features
    thinned = simulate("huge_and_tiny", "real", most_rows=60)
    assert thinned.train.n_rows <= 60 and thinned.train.task_names == thinned.test.task_names


def test_responses_are_what_they_say():
    data = simulate("large_units", "real").train
    assert 1e5 < data.y.std() < 1e7

    def left_over(case):
        """What a regression of each task leaves, all tasks together."""
        data = simulate(case, "real").train
        parts = [(data.X[r], data.original_y()[r]) for r in data.rows_by_task()]
        return np.concatenate([y - X @ np.linalg.lstsq(X, y, rcond=None)[0] for X, y in parts])

    # Noise of 0.3: of what is left the most extreme of 300 values is within 5 standard deviations.
    assert np.abs(left_over("common_mean")).max() < 1.5
    assert np.abs(left_over("outliers")).max() > 2.0
    assert np.abs(left_over("heavy_tails")).max() > 5.0

    data = simulate("common_mean", "real").train
    slopes = [
        np.linalg.lstsq(data.original_X()[r], data.original_y()[r], rcond=None)[0][:4]
        for r in data.rows_by_task()
    ]
    assert np.std(slopes, axis=0).max() < 0.5 < 4.5 < np.mean(slopes)

    sample = simulate("separable", "labels")
    for rows in sample.train.rows_by_task():
        x, y = sample.train.X[rows, 0], sample.train.y[rows]
        assert x[y > 0.0].min(initial=np.inf) > x[y < 0.0].max(initial=-np.inf)
    assert set(sample.probability) == {0.0, 1.0}

    design = CASES["rare_class"][0](np.random.default_rng(1))
    assert design.probability.mean() == pytest.approx(0.01, abs=1e-9)
    share = (simulate("rare_class", "labels").train.y > 0.0).mean()
    assert 0.001 < share < 0.025


def test_outliers_are_one_in_fifty():
    design = CASES["outliers"][0](np.random.default_rng(1))
    for rows in (design.held_out, ~design.held_out):
        assert (np.abs(design.errors[rows]) > 3.0).mean() == pytest.approx(0.02)


def test_every_factory_has_jobs():
    assert {s.model for s in SUBJECTS} == set(FACTORIES)
    jobs = list(all_jobs())
    assert len({job.file for job in jobs}) == len(jobs)
    for subject in SUBJECTS:
        assert subject.methods() or subject.model in ("IndependentTasks", "PooledTasks")


def test_out_of_bounds_without_a_word_is_a_failure():
    fine = {"outcome": "fitted", "out_of_bounds": 0, "divergences": 0, "warned": False}
    assert tells_the_truth(fine)
    for fault in ({"out_of_bounds": 1}, {"divergences": 1}):
        assert not tells_the_truth({**fine, **fault})
        assert tells_the_truth({**fine, **fault, "warned": True})
    assert not tells_the_truth({"outcome": "failed"})
    assert tells_the_truth({"outcome": "refused"}) and tells_the_truth({"outcome": "too slow"})


def test_a_run_keeps_results_and_says_what_failed(tmp_path, monkeypatch, capsys):
    """No job is run: of two there are results, of one the process fails."""
    monkeypatch.setattr(
        "sys.argv",
        ["torture", "--folder", str(tmp_path), "--only", "two_tasks-NIWLinear()-", "two_tasks-Poo"],
    )
    monkeypatch.setattr(torture.sys, "executable", "false")
    kept = [j for j in all_jobs() if j.name.startswith("two_tasks-NIWLinear()-")]
    (tmp_path / kept[0].file).write_text(json.dumps({"outcome": "too slow", "seconds": 500.0}))
    (tmp_path / kept[1].file).write_text(json.dumps({"outcome": "refused", "error": "ValueError: no"}))
    assert torture.main() == 1
    shown = capsys.readouterr().out
    assert "more than 500 seconds" in shown and "refused: ValueError: no" in shown
    assert "exit status 1" in shown and shown.count("\n- two_tasks-PooledTasks") == 4 - 1


@pytest.mark.scheduled
@pytest.mark.parametrize(
    ("case", "subject"),
    [
        ("twin", Subject("MaxMargin", {"likelihood": zoo.EpsilonInsensitive(C=3.0)}, "real")),
        ("separable", Subject("MaxMargin", {"likelihood": "hinge"}, "labels")),
        ("one_hots", Subject("NIWLinear", {}, "real")),
        ("near_duplicates", Subject("MultiTaskKernelMachine", {}, "real")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.model,
)
def test_within_bounds_or_warned(case, subject):
    result = run_job(Job(case, subject, "gibbs", {"draws": 300, "tune": 300, "chains": 4, "random_seed": 1}))
    assert result["outcome"] == "fitted", result
    assert tells_the_truth(result), result

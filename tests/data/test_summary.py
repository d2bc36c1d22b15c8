"""A summary of rows says what the rows say, for linear models with Gaussian noise, and refuses all else."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.data.summary import TaskSummary


def _rows(rng, n=400, n_tasks=30):
    """Columns of very different sizes, a constant, one that is constant within tasks; tasks of 1, 2, ... rows."""
    task = np.concatenate([np.repeat([0, 1, 2, 3], [1, 2, 3, 9]), rng.integers(4, n_tasks, n)])
    values = rng.standard_normal((len(task), 6)) * [1e9, 1e-9, 1.0, 1.0, 1.0, 10.0] + [1e9, 0, 0, 0, 0, 5]
    values[:, 2], values[:, 4] = 1.0, np.sin(task)
    return values, task


def _scatter(values, weight):
    centred = np.sqrt(weight)[:, None] * (values - np.average(values, axis=0, weights=weight))
    return centred.T @ centred


@pytest.mark.parametrize("weighted", [False, True])
def test_the_rows_of_a_summary_have_the_moments_of_all_rows(weighted):
    rng = np.random.default_rng(3)
    values, task = _rows(rng)
    weight = rng.uniform(0.2, 3.0, len(task)) if weighted else np.ones(len(task))
    summary = TaskSummary(6)
    order = np.concatenate([np.unique(task, return_index=True)[1], rng.permutation(len(task))])
    first, later = order[:30], order[30:][~np.isin(order[30:], order[:30])]
    for part in [first, *np.array_split(later, 6)]:
        summary.add(values[part], task[part], weight[part] if weighted else None)
    few, its_task, its_weight = summary.rows()
    assert summary.n_rows == len(task)
    assert len(few) == np.minimum(np.bincount(task), 7).sum()
    for t in range(30):
        own, made = task == t, its_task == t
        total = weight[own].sum()
        assert its_weight[made].sum() == pytest.approx(total, rel=1e-13)
        mean = np.average(values[own], axis=0, weights=weight[own])
        np.testing.assert_allclose(np.average(few[made], axis=0, weights=its_weight[made]), mean, rtol=1e-12)
        vary = [0, 1, 3, 5]
        root = np.sqrt(np.diag(_scatter(values[own][:, vary], weight[own])))
        apart = _scatter(few[made][:, vary], its_weight[made]) - _scatter(values[own][:, vary], weight[own])
        rounding = 1e-12 * root + 1e-15 * np.abs(mean[vary])
        assert np.all(np.abs(apart) <= np.outer(root, rounding) + np.outer(rounding, root) + 1e-30)
        assert np.ptp(few[made][:, 4]) == 0.0  # constant within the task: so bit for bit
    assert np.all(few[:, 2] == 1.0)


def test_a_sum_of_squares_would_have_lost_the_digits():
    rng = np.random.default_rng(0)
    x = 1e8 + rng.standard_normal(50)
    summary = TaskSummary(1)
    summary.add(x[:20, None], np.zeros(20, dtype=int))
    summary.add(x[20:, None], np.zeros(30, dtype=int))
    few, _, weight = summary.rows()
    spread = np.average((few[:, 0] - few[:, 0].mean()) ** 2, weights=weight)
    assert spread == pytest.approx(np.var(x), rel=1e-7)
    assert np.mean(x**2) - np.mean(x) ** 2 != pytest.approx(np.var(x), rel=1e-2)


def _data(n_tasks=12, rows=15):
    simulate = zoo.datasets.simulate_matrix_normal
    return simulate(n_tasks=n_tasks, n_features=3, n_per_task=rows, random_seed=1)[0].add_intercept()


_LINEAR = [zoo.NIWLinear(), zoo.MaxMargin(likelihood="gaussian"), zoo.IndependentTasks(), zoo.PooledTasks()]


@pytest.mark.parametrize("factory", _LINEAR, ids=lambda f: type(f).__name__)
def test_the_posterior_of_a_linear_model_is_the_same(factory):
    """The densities of two PyMC models differ by a constant, wherever their parameters are."""
    data = _data()
    every, few = (factory.build(rows.standardize()) for rows in (data, data.summarise()))
    densities, start = [m.compile_logp() for m in (every, few)], every.initial_point()
    rng = np.random.default_rng(0)
    apart = []
    for _ in range(6):
        point = {name: value + 0.3 * rng.standard_normal(np.shape(value)) for name, value in start.items()}
        apart.append(float(densities[0](point)) - float(densities[1](point)))
    assert np.ptp(apart) < 1e-9


def test_standardize_takes_the_moments_of_all_rows():
    data = _data()
    few, every = data.summarise().standardize().transform, data.standardize().transform
    np.testing.assert_allclose(few.x_mean, every.x_mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(few.x_scale, every.x_scale, rtol=1e-12)
    assert (few.y_mean, few.y_scale) == pytest.approx((every.y_mean, every.y_scale), rel=1e-12)


def test_em_and_predictions_are_the_same():
    data = _data(rows=40)
    new = np.random.default_rng(1).standard_normal((4, 4))
    names = list(data.task_names[:4])
    predicted = [
        zoo.NIWLinear()
        .fit(rows, method="em", progress=False)
        .predict(new, names, random_seed=1)["mean"]
        .values
        for rows in (data, data.summarise())
    ]
    np.testing.assert_allclose(predicted[1], predicted[0], rtol=1e-6)


def test_gibbs_draws_of_a_summary_are_those_of_the_rows(tmp_path):
    """Sums over rows are the same up to rounding, so that the chains stay together for some sweeps."""
    data = _data()
    fits = [
        zoo.NIWLinear().fit(rows, draws=5, tune=5, chains=2, random_seed=1, progress=False)
        for rows in (data, data.summarise())
    ]
    for name, values in fits[0].posterior.items():
        np.testing.assert_allclose(fits[1].posterior[name], values, rtol=1e-6, atol=1e-9, err_msg=str(name))
    fits[1].save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.stands_for == 180


def test_conditioning_a_summary_counts_the_rows_of_both():
    data = _data().summarise()
    fit = zoo.NIWLinear().fit(
        data, draws=20, tune=20, chains=2, random_seed=1, progress=False, keep="population"
    )
    new = zoo.MultiTaskData.from_arrays(
        np.ones((3, 4)), np.zeros(3), ["new"] * 3, feature_names=data.feature_names
    )
    assert fit.condition(new, random_seed=1).data.stands_for == 183


def _batches(frame, size=70):
    return [frame.iloc[i : i + size] for i in range(0, len(frame), size)]


@pytest.fixture
def frame():
    rng = np.random.default_rng(5)
    n = 500
    return pd.DataFrame(
        {
            "x": rng.standard_normal(n) + 100,
            "z": rng.standard_normal(n),
            "one": 1.0,
            "who": rng.integers(0, 40, n) * 3,
            "y": rng.standard_normal(n),
            "w": rng.uniform(0.5, 2, n),
            "city": rng.choice(["Bonn", "Rome", "Wien"], n),
        }
    )


def _same(one, other):
    assert one.task_names == other.task_names
    assert (one.stands_for, one.n_rows) == (other.stands_for, other.n_rows)
    for t in range(one.n_tasks):
        parts = []
        for data in (one, other):
            at = data.task == t
            values = np.column_stack([data.inputs, data.y])[at]
            mean = np.average(values, axis=0, weights=data.weight[at])
            scatter = _scatter(values, data.weight[at])
            parts.append(np.vstack([scatter, mean, np.full(len(mean), data.weight[at].sum())]))
        np.testing.assert_allclose(parts[1], parts[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weight", [None, "w"])
def test_batches_make_the_summary_of_all_rows(frame, weight):
    columns = ["x", "z", "one"]
    whole = zoo.MultiTaskData.from_frame(frame, "y", "who", columns, weight=weight)
    made = zoo.MultiTaskData.from_batches(_batches(frame), "y", "who", columns, weight=weight)
    assert made.task_names[:3] == ("0", "3", "6")  # numbers in their order, as from_frame has them
    assert made.task_column == "who"
    _same(made, whole.summarise())


def test_batches_are_coded_like_other_data(frame):
    formula = "y ~ x + scale(z) + city + (1 + x | who)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        like = zoo.MultiTaskData.from_formula(formula, frame[:150])
        whole = like.like(frame)
        made = zoo.MultiTaskData.from_batches(_batches(frame), like=like)
    _same(made, whole.summarise())
    assert made.shared_names == like.shared_names
    with pytest.raises(ValueError, match="like is standardized"):
        zoo.MultiTaskData.from_batches(_batches(frame), like=like.standardize())
    other = zoo.MultiTaskData.from_frame(frame, "y", "who", ["x", "city"]).add_intercept()
    again = zoo.MultiTaskData.from_batches(_batches(frame), like=other)
    assert again.feature_names == other.feature_names
    _same(again, other.summarise())
    fit = zoo.NIWLinear().fit(made, draws=20, tune=20, chains=2, random_seed=1, progress=False)
    assert np.isfinite(fit.predict(frame[:3], random_seed=1)["mean"]).all()


def test_sources_of_batches(frame, tmp_path):
    import polars
    import pyarrow
    from pyarrow import dataset, parquet

    frame = frame.drop(columns="city")
    whole = zoo.MultiTaskData.from_frame(frame, "y", "who").summarise()
    table = pyarrow.Table.from_pandas(frame)
    (tmp_path / "parts").mkdir()
    for i, part in enumerate(_batches(frame, 200)):
        parquet.write_table(pyarrow.Table.from_pandas(part), tmp_path / "parts" / f"{i}.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    sources = {
        "folder": tmp_path / "parts",
        "pattern": str(tmp_path / "parts" / "*.parquet"),
        "list of paths": sorted((tmp_path / "parts").iterdir()),
        "csv": tmp_path / "rows.csv",
        "chunks of pandas": pd.read_csv(tmp_path / "rows.csv", chunksize=99),
        "generator": (part for part in _batches(frame)),
        "table of pandas": frame,
        "table of Arrow": table,
        "dataset": dataset.dataset(tmp_path / "parts"),
        "reader": table.to_reader(max_chunksize=77),
        "polars": polars.from_pandas(frame),
        "dict": {name: frame[name].to_numpy() for name in frame},
    }
    lazy = polars.scan_parquet(tmp_path / "parts" / "*.parquet")
    if hasattr(lazy, "collect_batches"):
        sources["lazy frame"] = lazy
    for what, source in sources.items():
        made = zoo.MultiTaskData.from_batches(source, "y", "who")
        columns = [name for name in made.feature_names if name != "__index_level_0__"]
        assert columns == list(whole.feature_names), what
        assert made.stands_for == 500, what
        if len(columns) == made.n_features:
            _same(made, whole)


def test_a_gap_is_an_error_with_its_batch_or_left_out_and_counted(frame):
    frame.loc[75, "x"] = np.nan
    columns = ["x", "z", "one"]
    with pytest.raises(ValueError, match=r"batch 1: .*5"):
        zoo.MultiTaskData.from_batches(_batches(frame), "y", "who", columns)
    with pytest.warns(UserWarning, match="1 row with a missing value left out"):
        made = zoo.MultiTaskData.from_batches(_batches(frame), "y", "who", columns, missing="drop")
    _same(made, zoo.MultiTaskData.from_frame(frame.drop(75), "y", "who", columns).summarise())


def test_batches_that_do_not_fit_together_are_refused(frame):
    make = zoo.MultiTaskData.from_batches
    parts = _batches(frame.drop(columns="city"))
    with pytest.raises(ValueError, match=r"batch 1: .*'extra'"):
        make([parts[0], parts[1].assign(extra=1.0)], "y", "who")
    with pytest.raises(ValueError, match=r"batch 1: .*'z'"):
        make([parts[0], parts[1].drop(columns="z")], "y", "who")
    with pytest.raises(ValueError, match="batch 1: task column 'who' holds labels"):
        make([parts[0], parts[1].assign(who=parts[1].who.astype(str))], "y", "who")
    with pytest.raises(ValueError, match="batch 0: column 'city' holds categories"):
        make(_batches(frame), "y", "who")
    with pytest.raises(ValueError, match="task is not given"):
        make(parts, "y")
    with pytest.raises(ValueError, match="Leave these out"):
        make(parts, "y", "who", like=_data())
    with pytest.raises(ValueError, match="no rows"):
        make([frame[:0]], "y", "who")
    with pytest.raises(TypeError, match="batches is a int"):
        make(3, "y", "who")
    with pytest.raises(FileNotFoundError, match=r"nothing\.parquet"):
        make("nothing.parquet", "y", "who")


def test_what_looks_at_single_rows_refuses_a_summary():
    data = _data().summarise()
    fit = zoo.NIWLinear().fit(data, draws=200, tune=100, chains=2, random_seed=1, progress=False)
    for call in (
        lambda: data.split(),
        lambda: data.folds(),
        lambda: data.take([0, 1]),
        lambda: zoo.NIWLinear().simulate(data),
        lambda: fit.predict(data),
        lambda: fit.compute_log_likelihood(),
        lambda: fit.extend("posterior_predictive"),
        lambda: zoo.diagnostics.loo(fit),
        lambda: zoo.plots.predictive_by_task(fit),
    ):
        with pytest.raises(ValueError, match="summary of 180 rows"):
            call()
    assert data.select_tasks(list(data.task_names[:2])).n_tasks == 2


def test_other_models_likelihoods_and_hooks_refuse_a_summary():
    data = _data().summarise()

    class Squared(zoo.NIWLinear):
        def latent(self, data, priors):
            return super().latent(data, priors) ** 2

    class Prepared(zoo.NIWLinear):
        def design(self, data, context=None):
            return super().design(data, context)

    for factory, reason in (
        (zoo.NIWLinear(likelihood="student_t"), "StudentT needs each"),
        (zoo.MaxMargin(likelihood="epsilon_insensitive"), "needs each"),
        (zoo.PooledGP(), "not linear"),
        (zoo.MultiTaskKernelMachine(), "not linear"),
        (Squared(), "not linear"),
        (Prepared(), "hook `design`"),
    ):
        with pytest.raises(ValueError, match=reason):
            factory.build(data)


def test_data_that_no_summary_holds_are_refused():
    data = _data()
    at = zoo.MultiTaskData.from_arrays(data.X, data.y, t=np.arange(data.n_rows) * 1.0)
    with pytest.raises(ValueError, match="task variable t"):
        at.summarise()
    X = data.X.copy()
    X[3, 0] = np.nan
    with pytest.raises(ValueError, match="missing values"):
        zoo.MultiTaskData.from_arrays(X, data.y, missing="model").summarise()


def test_the_report_of_a_summary_says_so(tmp_path):
    fit = zoo.NIWLinear().fit(_data().summarise(), draws=50, tune=50, chains=2, random_seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.report(tmp_path)
    assert "a summary of 180 rows" in (tmp_path / "report.html").read_text()


def test_gaps_may_fill_a_batch_or_stand_among_tasks(frame):
    frame = frame.drop(columns="city")
    frame.loc[140:209, "x"] = np.nan  # all rows of the third batch
    tasks = frame["who"].astype(float)
    tasks[3] = np.nan  # pandas makes its batch one of numbers with a point
    parts = _batches(frame)
    parts[0] = parts[0].assign(who=tasks[:70])
    with pytest.warns(UserWarning, match="71 rows with a missing value left out"):
        made = zoo.MultiTaskData.from_batches(parts, "y", "who", missing="drop")
    kept = frame.drop([3, *range(140, 210)])
    _same(made, zoo.MultiTaskData.from_frame(kept, "y", "who").summarise())


def test_the_pattern_says_what_it_cannot_hand_on(frame):
    make = zoo.MultiTaskData.from_batches
    weighted = zoo.MultiTaskData.from_frame(frame, "y", "who", ["x", "city"], weight="w")
    with pytest.raises(ValueError, match="like has weights"):
        make(_batches(frame), like=weighted)
    _same(make(_batches(frame), like=weighted, weight="w"), weighted.summarise())
    with pytest.raises(ValueError, match="neither by from_formula nor of categories"):
        make(_batches(frame), like=zoo.MultiTaskData.from_frame(frame, "y", "who", ["x"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = zoo.MultiTaskData.from_formula("scale(y) ~ x + (1 | who)", frame)
    with pytest.raises(ValueError, match="takes its scale from the rows"):
        own.like(frame)
    with pytest.raises(ValueError, match="takes its scale from the rows"):
        make(_batches(frame), like=own)


def test_files_keep_their_columns_and_the_names_of_tasks(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"who": ["01", "1", "2", "10"] * 5, "x": np.arange(20), "y": rng.standard_normal(20)}
    )
    whole = zoo.MultiTaskData.from_frame(table, "y", "who").summarise()
    make = zoo.MultiTaskData.from_batches
    folder = tmp_path / "csv"
    folder.mkdir()
    table[:10].to_csv(folder / "a.csv", index=False)
    table[10:].assign(x=table.x + 0.5).to_csv(folder / "b.csv.gz", index=False)  # whole numbers first
    made = make(folder, "y", "who")
    assert made.task_names == ("01", "1", "10", "2") == whole.task_names
    assert made.stands_for == 20
    table[10:].assign(extra=1.0).to_csv(folder / "c.csv", index=False)
    with pytest.raises(ValueError, match="'extra', which the first batch has not"):
        make(folder, "y", "who")
    numbers = table.assign(who=[9, 10, 100, 2] * 5)
    numbers.to_csv(tmp_path / "numbers.csv", index=False)
    assert make(tmp_path / "numbers.csv", "y", "who").task_names == ("2", "9", "10", "100")
    for key, part in table.groupby("who"):
        (tmp_path / "hive" / f"who={key}").mkdir(parents=True)
        part.drop(columns="who").to_parquet(tmp_path / "hive" / f"who={key}" / "part.parquet")
    _same(make(tmp_path / "hive", "y", "who"), whole)
    (tmp_path / "rows.feather").touch()
    with pytest.raises(ValueError, match=r"neither \.parquet nor \.csv"):
        make(tmp_path / "rows.feather", "y", "who")


def test_a_summary_of_some_tasks_stands_for_their_rows_and_large_numbers_are_refused():
    data = _data().summarise()
    assert data.select_tasks(list(data.task_names[:2])).stands_for == 30
    huge = zoo.MultiTaskData.from_arrays(np.array([[1.5e308], [-1.5e308]] * 3), np.arange(6.0), ["a"] * 6)
    with pytest.raises(ValueError, match="'x0' has values so large"), np.errstate(all="ignore"):
        huge.summarise()

"""Pictures: what they show, not how they look."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

import zoo
from zoo import plots


def _fit(model, data):
    return model.fit(data, draws=20, tune=20, chains=2, random_seed=1, progress=False)


@pytest.fixture(scope="module")
def real():
    """Six tasks in two opposite groups of three, listed alternately."""
    sign = np.tile([1.0, -1.0], 3)
    task_cov = 0.95 * np.outer(sign, sign) + 0.05 * np.eye(6)
    data, _ = zoo.datasets.simulate_matrix_normal(
        6, 4, 40, C=5.0, task_cov=task_cov, feature_cov=np.eye(5), intercept=True, random_seed=2
    )
    return data.split(0.4, random_seed=1)


@pytest.fixture(scope="module")
def fit(real):
    return _fit(zoo.MaxMargin(likelihood="epsilon_insensitive"), real[0].standardize())


@pytest.fixture(scope="module")
def pooled(real):
    return _fit(zoo.PooledTasks(), real[0])


@pytest.fixture(autouse=True)
def _leave_nothing_behind():
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def _labels(ticks):
    return [tick.get_text() for tick in ticks]


class TestTaskCorrelation:
    def test_names_scale_and_title(self, fit, real):
        figure = plots.task_correlation(fit, order="data")
        axes, bar = figure.axes
        names = list(real[0].task_names)
        assert _labels(axes.get_xticklabels()) == _labels(axes.get_yticklabels()) == names
        (image,) = axes.get_images()
        between = image.get_array()
        assert image.get_clim() == pytest.approx((-abs(between).max(), abs(between).max()))
        assert axes.get_title() == "Correlation of 6 tasks, posterior mean,\nin the order of the data"
        assert bar.get_ylabel() == "correlation between different tasks"

    def test_correlation_is_averaged_draw_by_draw(self, fit):
        draws = fit.posterior["task_cov"].to_numpy().reshape(-1, 6, 6)
        expected = np.mean([c / np.sqrt(np.outer(np.diag(c), np.diag(c))) for c in draws], axis=0)
        (image,) = plots.task_correlation(fit, order="data").axes[0].get_images()
        assert np.asarray(image.get_array()) == pytest.approx(expected)

    def test_clusters_stand_together(self, fit):
        axes = plots.task_correlation(fit).axes[0]
        order = [int(name.split()[1]) % 2 for name in _labels(axes.get_xticklabels())]
        assert order in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])

    def test_names_are_kept_apart_with_many_tasks(self, many):
        axes = plots.task_correlation(many).axes[0]
        axes.figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        assert len(boxes) == 139
        assert all(upper.y0 >= lower.y1 - 1.0 for upper, lower in pairwise(boxes))

    def test_the_title_is_inside_with_many_tasks(self, many):
        figure = plots.task_correlation(many)
        figure.draw_without_rendering()
        title = figure.axes[0].title.get_window_extent()
        assert figure.bbox.y0 <= title.y0 and title.y1 <= figure.bbox.y1

    def test_without_task_cov(self, pooled):
        with pytest.raises(ValueError, match=r"no 'task_cov'.*task_cov=\"learned\""):
            plots.task_correlation(pooled)

    def test_unknown_order(self, fit):
        with pytest.raises(ValueError, match="order: 'size'"):
            plots.task_correlation(fit, order="size")

    def test_some_tasks(self, fit):
        names = [str(name) for name in fit.data.task_names[:2]]
        axes = plots.task_correlation(fit, order="data", tasks=names[::-1]).axes[0]
        assert [label.get_text() for label in axes.get_xticklabels()] == names[::-1]
        cov = fit.posterior["task_cov"].to_numpy()
        expected = np.mean(cov[..., 0, 1] / np.sqrt(cov[..., 0, 0] * cov[..., 1, 1]))
        assert np.isclose(axes.get_images()[0].get_array()[0, 1], expected)
        with pytest.raises(ValueError, match="tasks: 'nobody'"):
            plots.task_correlation(fit, tasks=["nobody"])

    def test_draws_into_a_panel(self, fit):
        figure, (left, right) = plt.subplots(1, 2)
        assert plots.task_correlation(fit, ax=left) is figure
        assert left.get_images() and not right.get_images()


@pytest.fixture(scope="module")
def many():
    """139 tasks, few rows and features: what counts is the number of names."""
    data, _ = zoo.datasets.simulate_matrix_normal(139, 2, 4, task_cov=np.eye(139), random_seed=1)
    return _fit(zoo.MaxMargin(likelihood="epsilon_insensitive"), data)


class TestCoefficientForest:
    def test_one_line_a_task_sorted_by_mean(self, fit):
        axes = plots.coefficient_forest(fit, feature="x1").axes[0]
        names = _labels(axes.get_yticklabels())
        means = fit.posterior["coefficients"].sel(feature="x1").mean(("chain", "draw"))
        assert names == [str(name) for name in means.sortby(means)["task"].to_numpy()]
        assert axes.get_title() == "Coefficient of 'x1' by task"
        assert "90%" in axes.get_xlabel() and "in the units of the data" in axes.get_xlabel()

    def test_intervals_are_those_of_the_posterior(self, fit):
        axes = plots.coefficient_forest(fit, feature="x0", tasks=["task 2"], ci_prob=0.5).axes[0]
        segment = axes.collections[0].get_segments()[0]
        transform = fit.data.transform
        draws = fit.posterior["coefficients"].sel(feature="x0", task="task 2").to_numpy()
        draws = draws * transform.y_scale / transform.x_scale[0]
        assert segment[:, 0] == pytest.approx(np.quantile(draws, [0.25, 0.75]))

    def test_default_is_the_largest_feature_but_not_the_intercept(self, fit, real):
        shifted = zoo.MultiTaskData.from_arrays(
            real[0].X,
            real[0].y + 100.0,
            real[0].task,
            task_names=real[0].task_names,
            feature_names=real[0].feature_names,
        )
        alone = _fit(zoo.IndependentTasks(), shifted)
        size = np.abs(alone.posterior["coefficients"].mean(("chain", "draw"))).mean("task")
        assert str(size.idxmax().item()) == "intercept"
        largest = str(size.drop_sel(feature="intercept").idxmax().item())
        assert plots.coefficient_forest(alone).axes[0].get_title() == f"Coefficient of {largest!r} by task"

    def test_pooled_models_show_features(self, pooled, real):
        axes = plots.coefficient_forest(pooled).axes[0]
        assert sorted(_labels(axes.get_yticklabels())) == sorted(real[0].feature_names)
        assert "same in all tasks" in axes.get_title()
        assert "standardized" not in axes.get_xlabel()
        with pytest.raises(ValueError, match="tasks was given"):
            plots.coefficient_forest(pooled, tasks=["task 1"])

    def test_names_are_kept_apart_with_many_tasks(self, many):
        axes = plots.coefficient_forest(many).axes[0]
        axes.figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        assert len(boxes) == 139
        assert all(upper.y0 >= lower.y1 - 1.0 for lower, upper in pairwise(boxes))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"feature": "x9"}, "feature: 'x9'"),
            ({"tasks": ["task 9"]}, "tasks: 'task 9'"),
            ({"tasks": []}, "tasks is empty"),
            ({"ci_prob": 1.0}, "ci_prob is 1.0"),
        ],
    )
    def test_bad_input(self, fit, options, message):
        with pytest.raises(ValueError, match=message):
            plots.coefficient_forest(fit, **options)


class TestTraceRank:
    def test_log_determinants_by_chain(self, fit):
        figure = plots.trace_rank(fit)
        # Four entries that converge worst; the third and fourth scalar are C and the scale of both covariances.
        assert len(figure.axes) == 16
        worst = list(fit.diagnostics().index[:4])
        assert [axes.get_title() for axes in figure.axes[:8:2]] == worst
        assert figure.axes[8].get_title() == "log|feature_cov|"
        assert figure.axes[11].get_title() == "ranks of log|task_cov|"
        assert len(figure.axes[0].get_lines()) == 2
        (legend,) = figure.legends
        assert _labels(legend.get_texts()) == ["chain 0", "chain 1"]

    def test_ranks_count_every_draw_once(self, fit):
        ranks = plots.trace_rank(fit, ["feature_cov"]).axes[1]
        assert [patch.get_data().values.sum() for patch in ranks.patches[-2:]] == [20, 20]

    def test_band_holds_independent_draws(self):
        import xarray as xr

        rng = np.random.default_rng(1)
        outside = 0
        for _ in range(20):
            values = xr.DataArray(rng.normal(size=(2, 200)), dims=("chain", "draw"))
            fit = SimpleNamespace(posterior=xr.Dataset({"a": values}))
            axes = plots.trace_rank(fit, ["a"]).axes[1]
            low, high = axes.patches[0].get_y(), axes.patches[0].get_y() + axes.patches[0].get_height()
            counts = axes.patches[-1].get_data().values
            outside += int(np.sum((counts < low) | (counts > high)))
            plt.close("all")
        # 200 bins at 1% or less each, by discreteness: 2 expected at most.
        assert outside <= 6

    def test_without_covariances(self, pooled):
        titles = [axes.get_title() for axes in plots.trace_rank(pooled).axes[::2]]
        assert titles == ["noise", "shrinkage", *(f"coefficients[x{i}]" for i in range(4))]

    def test_bad_input(self, fit):
        with pytest.raises(ValueError, match="var_names: 'eta'"):
            plots.trace_rank(fit, ["eta"])


class TestPredictedVsObserved:
    def test_real_responses(self, fit, real):
        axes = plots.predicted_vs_observed(fit, real[1], random_seed=1).axes[0]
        predicted = fit.predict(real[1], random_seed=1)
        points = np.asarray(axes.collections[1].get_offsets())
        assert points[:, 0] == pytest.approx(predicted["mean"].to_numpy())
        assert points[:, 1] == pytest.approx(real[1].y)
        table = zoo.diagnostics.compare({"fit": fit}, real[1], random_seed=1).loc["fit"]
        expected = (
            f"Explained variance {table.iloc[0]:.1f}% (pooled), 90% intervals cover {table.iloc[-1]:.1f}%"
        )
        assert axes.get_title() == expected
        assert len(axes.collections[0].get_segments()) == len(real[1].y)

    def test_many_rows_show_some_intervals(self, fit, real):
        test = real[1].take(np.resize(np.arange(real[1].n_rows), 900))
        axes = plots.predicted_vs_observed(fit, test).axes[0]
        assert len(axes.collections[0].get_segments()) == 200
        assert len(axes.collections[1].get_offsets()) == 900

    def test_labels_are_calibrated_by_bin(self):
        data, _ = zoo.datasets.simulate_matrix_normal(3, 3, 60, loss="hinge", random_seed=3)
        train, test = data.split(0.5, random_seed=1)
        fit = _fit(zoo.MaxMargin(), train)
        axes = plots.predicted_vs_observed(fit, test, random_seed=1).axes[0]
        assert axes.get_title().startswith("Calibration: accuracy ")
        assert sum(int(text.get_text()) for text in axes.texts) == test.n_rows
        frequency = axes.get_lines()[1].get_ydata()
        counts = [int(text.get_text()) for text in axes.texts]
        assert np.dot(frequency, counts) == pytest.approx(np.sum(test.y > 0))

    def test_bad_input(self, fit, real):
        with pytest.raises(ValueError, match="ci_prob is 0"):
            plots.predicted_vs_observed(fit, real[1], ci_prob=0.0)
        with pytest.raises(TypeError, match=r"test is a DataFrame\. Give MultiTaskData"):
            plots.predicted_vs_observed(fit, real[1].to_frame())


def test_objective_trace_shows_the_climb(real, fit):
    """The trace in the sample statistics; a fit by draws is refused."""
    em = zoo.NIWLinear().fit(real[0].standardize(), "em", progress=False)
    line = plots.objective_trace(em).axes[0].lines[0].get_ydata()
    assert np.array_equal(line, em.idata["sample_stats"]["penalised_log_likelihood"].to_numpy()[0])
    with pytest.raises(ValueError, match="trace_rank"):
        plots.objective_trace(fit)


def test_estimates_have_no_interval_and_no_chains(real, pooled):
    """One draw made a posterior mean of the estimate, an interval of width 0 and a trace of one point."""
    em = zoo.NIWLinear().fit(real[0].standardize(), "em", progress=False)
    axes = plots.coefficient_forest(em).axes[0]
    assert axes.get_xlabel() == "estimate, in the units of the data"
    assert not axes.collections
    assert plots.coefficient_forest(pooled).axes[0].collections
    with pytest.raises(ValueError, match="fit was made by method 'em', an estimate without draws"):
        plots.trace_rank(em)


def test_one_task_by_its_name(fit):
    """The letters of a name were read as tasks."""
    name = str(fit.data.task_names[0])
    assert _labels(plots.task_correlation(fit, tasks=name).axes[0].get_xticklabels()) == [name]
    with pytest.raises(ValueError, match="tasks is empty"):
        plots.task_correlation(fit, tasks=[])


@pytest.mark.filterwarnings("ignore:y has one class")
def test_pictures_of_weighted_rows_are_those_of_repeated_rows(real, fit):
    test = real[1]
    weight = np.where(np.arange(test.n_rows) % 5 == 0, 30.0, 1.0)
    repeated = test.take(np.repeat(np.arange(test.n_rows), weight.astype(int)))
    weighted = replace(test, weight=weight)
    titles = [
        plots.predicted_vs_observed(fit, rows, random_seed=1).axes[0].get_title().split(" (pooled)")[0]
        for rows in (weighted, repeated, test)
    ]
    assert titles[0] == titles[1] != titles[2]

    labels = [
        replace(rows, y=(rows.original_y() > 0.0).astype(float)) for rows in (real[0], weighted, repeated)
    ]
    model = _fit(zoo.PooledTasks(likelihood="logistic"), labels[0])
    points = []
    for rows in labels[1:]:
        axes = plots.predicted_vs_observed(model, rows, random_seed=1).axes[0]
        points.append(
            (axes.get_lines()[1].get_xydata(), [text.get_text() for text in axes.texts], axes.get_title())
        )
    np.testing.assert_allclose(points[0][0], points[1][0])
    assert points[0][1:] == points[1][1:]

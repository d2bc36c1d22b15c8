"""Pictures of relevance: what they show, not how they look. The Datasets are made by hand."""

from itertools import pairwise
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

mpl.use("Agg")

import matplotlib.pyplot as plt

from zoo import plots

FEATURES = ["price", "RAM", "CPU", "hot line", "colour"]


def _table(features=FEATURES, n_tasks=3, zeros=2, draws=False):
    """Relevance of a mode with exact zeros in the last features, or of draws."""
    rng = np.random.default_rng(1)
    kappa = rng.uniform(0.5, 2.0, size=(len(features), n_tasks))
    kappa[len(features) - zeros :] = 0.0
    if draws:
        kappa += 0.001
    size = np.linalg.norm(kappa, axis=1)
    wide = 1.3 if draws else 1.0
    share = size / max(size.sum(), 1e-300)
    return xr.Dataset(
        {
            "relevance": ("feature", size),
            "lower": ("feature", size / wide),
            "upper": ("feature", size * wide),
            "share": ("feature", share),
            "inclusion": ("feature", (share > 0.01).astype(float)),
            "included": ("feature", share > 0.01),
            "kappa": (("feature", "task"), kappa),
            "kappa_standardized": (("feature", "task"), kappa),
        },
        coords={"feature": list(features), "task": [f"person {i + 1}" for i in range(n_tasks)]},
        attrs={"threshold": 0.01, "ci_prob": 0.8, "method": "nuts" if draws else "map"},
    )


def _path(n_features=4, n_penalties=20):
    """Feature i enters below the penalty 10^(1 - i / 2)."""
    C = np.logspace(2, -2, n_penalties)
    enters = 10.0 ** (1.0 - np.arange(n_features) / 2.0)
    values = np.maximum(0.0, 1.0 - C[:, None] / enters) * np.linspace(3.0, 1.0, n_features)
    return xr.Dataset(
        {
            "relevance": (("penalty", "feature"), values),
            "n_selected": ("penalty", (values > 0.0).sum(axis=1)),
            "objective": ("penalty", np.sqrt(C)),
        },
        coords={"penalty": C, "feature": [f"feature {i}" for i in range(n_features)]},
    )


@pytest.fixture(autouse=True)
def _leave_nothing_behind():
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def _labels(ticks):
    return [tick.get_text() for tick in ticks]


def _boxes(texts):
    texts[0].figure.draw_without_rendering()
    return [text.get_window_extent() for text in texts]


class TestRelevanceBars:
    @staticmethod
    def _heights(axes):
        bars = sorted(axes.patches, key=lambda bar: bar.get_x())
        return [bar.get_height() for bar in bars]

    def test_heights_labels_and_title(self):
        table = _table()
        axes = plots.relevance_bars(table).axes[0]
        assert self._heights(axes) == pytest.approx(table["relevance"].to_numpy())
        assert _labels(axes.get_xticklabels()) == FEATURES
        assert axes.get_title() == "Relevance of 5 features, 3 included"
        assert axes.get_ylabel() == "relevance"
        assert not axes.collections

    def test_exact_zeros_are_marked(self):
        axes = plots.relevance_bars(_table()).axes[0]
        (cross,) = axes.get_lines()
        assert cross.get_xydata().tolist() == [[3.0, 0.0], [4.0, 0.0]]
        assert "exactly zero" in _labels(axes.get_legend().get_texts())

    def test_features_that_are_not_selected_are_grey(self):
        table = _table(zeros=0)
        table["included"] = ("feature", [True, False, True, True, False])
        axes = plots.relevance_bars(table).axes[0]
        bars = sorted(axes.patches, key=lambda bar: bar.get_x())
        grey = [bar.get_facecolor() == mpl.colors.to_rgba("0.75") for bar in bars]
        assert grey == [False, True, False, False, True]
        assert _labels(axes.get_legend().get_texts()) == ["included", "not included"]
        assert not axes.get_lines()

    def test_no_legend_where_all_are_selected(self):
        assert plots.relevance_bars(_table(zeros=0)).axes[0].get_legend() is None

    def test_nothing_selected(self):
        axes = plots.relevance_bars(_table(zeros=5)).axes[0]
        assert axes.get_title() == "Relevance of 5 features, 0 included"
        assert len(axes.get_lines()[0].get_xydata()) == 5

    def test_intervals_are_those_of_the_posterior(self):
        table = _table(draws=True)
        axes = plots.relevance_bars(table).axes[0]
        segments = np.array(axes.collections[0].get_segments())
        assert segments[:, 0, 1] == pytest.approx(table["lower"].to_numpy())
        assert segments[:, 1, 1] == pytest.approx(table["upper"].to_numpy())
        assert axes.get_ylabel() == "relevance, 80% interval"

    def test_names_choose_and_order(self):
        table = _table()
        axes = plots.relevance_bars(table, names=["colour", "price"]).axes[0]
        assert _labels(axes.get_xticklabels()) == ["colour", "price"]
        assert self._heights(axes) == pytest.approx([0.0, float(table["relevance"][0])])
        axes = plots.relevance_bars(table, names="RAM").axes[0]
        assert axes.get_title() == "Relevance of 1 feature, 1 included"

    def test_takes_a_fit(self):
        fit = SimpleNamespace(relevance=_table)
        assert _labels(plots.relevance_bars(fit).axes[0].get_xticklabels()) == FEATURES

    def test_names_are_kept_apart_with_many_features(self):
        axes = plots.relevance_bars(_table([f"feature {i}" for i in range(120)])).axes[0]
        boxes = _boxes(axes.get_xticklabels())
        assert len(boxes) == 120
        assert all(left.x1 <= right.x0 + 1.0 for left, right in pairwise(boxes))

    def test_draws_into_a_panel(self):
        figure, (left, right) = plt.subplots(1, 2)
        assert plots.relevance_bars(_table(), ax=left) is figure
        assert left.patches and not right.patches

    @pytest.mark.parametrize(
        ("table", "options", "message"),
        [
            (_table(), {"names": ["modem"]}, "names: 'modem' is unknown"),
            (_table(), {"names": []}, "names is empty"),
            (_table().drop_vars("upper"), {}, r"no 'upper'.*fit\.relevance"),
            (_table().rename(feature="x"), {}, "'relevance' has dims .*feature"),
            (_path(), {}, "path over the penalty.*relevance_path"),
            (SimpleNamespace(), {}, r"SimpleNamespace and has no relevance\(\)"),
        ],
    )
    def test_bad_input(self, table, options, message):
        with pytest.raises(ValueError, match=message):
            plots.relevance_bars(table, **options)


class TestRelevanceMap:
    def test_values_names_and_scale(self):
        table = _table(draws=True)
        axes, bar = plots.relevance_map(table).axes
        (image,) = axes.get_images()
        assert np.asarray(image.get_array()) == pytest.approx(table["kappa_standardized"].to_numpy())
        assert image.get_clim() == (0.0, float(table["kappa_standardized"].max()))
        assert _labels(axes.get_yticklabels()) == FEATURES
        assert _labels(axes.get_xticklabels()) == ["person 1", "person 2", "person 3"]
        assert axes.get_title() == "Relevance of 5 features in 3 tasks"
        assert bar.get_ylabel() == "ARD parameter"

    def test_exact_zeros_stand_out(self):
        axes, bar = plots.relevance_map(_table()).axes
        (image,) = axes.get_images()
        assert np.ma.getmaskarray(image.get_array()).tolist() == 3 * [3 * [False]] + 2 * [3 * [True]]
        assert bar.get_ylabel().endswith("grey: exactly zero")
        assert mpl.colors.to_hex(image.get_cmap().get_bad()) == mpl.colors.to_hex("0.85")

    def test_order_of_dims_does_not_matter(self):
        table = _table()
        (image,) = plots.relevance_map(table.transpose("task", "feature")).axes[0].get_images()
        assert np.ma.getdata(image.get_array()) == pytest.approx(table["kappa_standardized"].to_numpy())

    def test_nothing_selected(self):
        (image,) = plots.relevance_map(_table(zeros=5)).axes[0].get_images()
        assert image.get_clim() == (0.0, 1.0)

    def test_of_many_tasks_some_are_named(self):
        axes = plots.relevance_map(_table(n_tasks=190)).axes[0]
        names = _labels(axes.get_xticklabels())
        assert names == [f"person {i}" for i in range(1, 190, 10)]
        assert axes.get_xticks().tolist() == list(range(0, 190, 10))
        assert all(left.x1 < right.x0 for left, right in pairwise(_boxes(axes.get_xticklabels())))
        assert axes.figure.get_size_inches()[0] < 10.0

    def test_takes_a_fit_and_a_panel(self):
        figure, (left, right) = plt.subplots(1, 2)
        assert plots.relevance_map(SimpleNamespace(relevance=_table), ax=left) is figure
        assert left.get_images() and not right.get_images()

    def test_tasks_that_share_their_parameters(self):
        table = _table()
        table["kappa_standardized"] = table["relevance"]
        with pytest.raises(ValueError, match=r"for all tasks.*relevance_bars"):
            plots.relevance_map(table)

    def test_bad_input(self):
        with pytest.raises(ValueError, match="no 'kappa_standardized'"):
            plots.relevance_map(_table().drop_vars("kappa_standardized"))
        with pytest.raises(ValueError, match="relevance_path"):
            plots.relevance_map(_path())


class TestRelevancePath:
    def test_a_line_for_each_feature(self):
        path = _path()
        axes = plots.relevance_path(path).axes[0]
        lines = axes.get_lines()
        assert [line.get_label() for line in lines] == [f"feature {i}" for i in range(4)]
        for line in lines:
            values = path["relevance"].sel(feature=line.get_label()).sortby("penalty")
            assert line.get_xdata() == pytest.approx(values["penalty"].to_numpy())
            assert line.get_ydata() == pytest.approx(values.to_numpy())
        assert axes.get_xscale() == "log"
        assert axes.get_xlim() == pytest.approx((100.0, 0.01))  # the penalty falls
        assert axes.get_title() == "Relevance of 4 features by penalty"

    def test_lines_are_named_at_their_ends(self):
        axes = plots.relevance_path(_path()).axes[0]
        lines = {line.get_label(): line for line in axes.get_lines()}
        for text in axes.texts:
            line = lines[text.get_text()]
            assert text.xy == pytest.approx((0.01, line.get_ydata()[0]))
            assert text.get_color() == line.get_color()
        assert len(axes.texts) == 4

    def test_numbers_selected_stand_above(self):
        path = _path().sortby("penalty")  # ascending is taken too
        axes = plots.relevance_path(path).axes[0]
        (above,) = axes.child_axes
        ticks, names = above.get_xticks(), _labels(above.get_xticklabels())
        assert ticks[0] == path["penalty"][0] and ticks[-1] == path["penalty"][-1]
        assert [int(name) for name in names] == path["n_selected"].sel(penalty=ticks).to_numpy().tolist()
        assert above.get_xlabel() == "features selected"

    @pytest.mark.parametrize("n_features", [10, 30])
    def test_names_are_kept_apart(self, n_features):
        axes = plots.relevance_path(_path(n_features, n_penalties=50)).axes[0]
        axes.figure.draw_without_rendering()
        places = sorted(text.xyann[1] for text in axes.texts)
        height = axes.get_window_extent().height
        size = axes.texts[0].get_fontsize() * axes.figure.dpi / 72.0
        assert len(places) == n_features
        assert all((upper - lower) * height >= 0.99 * size for lower, upper in pairwise(places))
        assert 0.0 <= places[0] and places[-1] <= 1.0

    def test_of_many_features_the_largest_are_named(self):
        path = _path(45).isel(feature=slice(None, None, -1))  # the largest come last
        path["relevance"] = path["relevance"] + np.linspace(0.1, 0.5, 45)
        axes = plots.relevance_path(path).axes[0]
        assert [text.get_text() for text in axes.texts] == [f"feature {i}" for i in reversed(range(30))]
        assert [line.get_color() == "0.8" for line in axes.get_lines()] == 15 * [True] + 30 * [False]

    def test_one_penalty_and_nothing_selected(self):
        axes = plots.relevance_path(_path().isel(penalty=[0])).axes[0]
        assert axes.get_ylim() == (0.0, 1.0)
        axes.figure.draw_without_rendering()

    def test_draws_into_a_panel(self):
        figure, (left, right) = plt.subplots(1, 2)
        assert plots.relevance_path(_path(), ax=left) is figure
        assert left.get_lines() and not right.get_lines()

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            (_table(), "'relevance' has dims .*penalty and feature"),
            (_path().drop_vars("n_selected"), r"no 'n_selected'.*factory\.path"),
            (_path().assign_coords(penalty=np.arange(20.0)), "a penalty of 0, which a log axis"),
            (SimpleNamespace(), "of type SimpleNamespace"),
        ],
    )
    def test_bad_input(self, path, message):
        with pytest.raises(ValueError, match=message):
            plots.relevance_path(path)

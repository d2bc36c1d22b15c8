"""Pictures of coefficients over places and of variograms: what they show, not how they look."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.collections import PathCollection, QuadMesh
from scipy.spatial.distance import cdist

import zoo
from zoo import plots
from zoo.diagnostics import variogram

NAMES = ("long", "lat", "day")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    t = rng.normal(size=(200, 3)) * [0.2, 0.1, 100.0] + [-122.2, 47.5, 200.0]
    return zoo.MultiTaskData.from_arrays(np.ones((200, 1)), np.arange(200.0), t=t, t_names=NAMES)


@pytest.fixture(autouse=True)
def _leave_nothing_behind():
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def _coefficients(t, features=("intercept", "x"), names=NAMES):
    """As of fit.coefficients(t): feature k has mean (k + 1) (t0 - its average) at each place, sd 0.1."""
    deviation = t[:, 0] - t[:, 0].mean() + 0.01 * (t[:, -1] - t[:, -1].mean())
    mean = np.outer(np.arange(1, len(features) + 1), deviation)
    variables = {"mean": mean, "sd": np.full_like(mean, 0.1), "lower": mean - 0.2, "upper": mean + 0.2}
    places = {name: ("place", column) for name, column in zip(names, t.T, strict=True)}
    return xr.Dataset(
        {name: (("feature", "place"), values) for name, values in variables.items()},
        coords={"feature": list(features), **places},
        attrs={"ci_prob": 0.9},
    )


# ---------------------------------------------------------------- grid


class TestGrid:
    def test_covers_the_box(self, data):
        t = plots.grid(data, n=(5, 4))
        assert t.shape == (20, 3)
        for k, n in ((0, 5), (1, 4)):
            expected = np.linspace(data.t[:, k].min(), data.t[:, k].max(), n)
            np.testing.assert_array_equal(np.unique(t[:, k]), expected)
        assert (np.diff(t[:5, 0]) > 0).all() and (t[:5, 1] == t[0, 1]).all()
        assert (t[:, 2] == np.median(data.t[:, 2])).all()
        assert len(np.unique(t, axis=0)) == 20
        assert plots.grid(data).shape == (2_500, 3)

    def test_other_columns(self, data):
        t = plots.grid(data, n=3, columns=("day", "lat"), at={"long": -122.0})
        assert (t[:, 0] == -122.0).all() and len(np.unique(t[:, 1])) == len(np.unique(t[:, 2])) == 3
        assert (np.diff(t[:3, 2]) > 0).all()
        line = plots.grid(data, n=7, columns="day")
        assert line.shape == (7, 3)
        assert (line[:, :2] == np.median(data.t[:, :2], axis=0)).all()

    def test_near_leaves_out_what_is_far(self, data):
        whole, some = plots.grid(data, n=20), plots.grid(data, n=20, near=0.3)
        sd = data.t[:, :2].std(axis=0)
        nearest = cdist(whole[:, :2] / sd, data.t[:, :2] / sd).min(axis=1)
        assert 10 < len(some) < 390
        np.testing.assert_array_equal(some, whole[nearest <= 0.3])

    def test_errors(self, data):
        for arguments, message in (
            (dict(columns=("long", "height")), "columns: 'height' is unknown"),
            (dict(columns=("long", "long")), "columns holds 'long' twice"),
            (dict(columns=()), "columns is empty"),
            (dict(at={"height": 1.0}), "at: 'height' is unknown"),
            (dict(at={"lat": 1.0}), "at: 'lat' is unknown"),
            (dict(at={"day": np.nan}), r"at\['day'\] is nan"),
            (dict(n=1), "n is 1"),
            (dict(n=(3, 3, 3)), "n has 3 numbers for 2 columns"),
            (dict(near=-1.0), "near is -1"),
            (dict(near=1e-9), "near is 1e-09, and no place"),
        ):
            with pytest.raises(ValueError, match=message):
                plots.grid(data, **arguments)
        without = zoo.MultiTaskData.from_arrays(data.X, data.y)
        with pytest.raises(ValueError, match="data has no continuous task variable"):
            plots.grid(without)
        flat = zoo.MultiTaskData.from_arrays(data.X, data.y, t=data.t * [1.0, 0.0, 1.0])
        with pytest.raises(ValueError, match="t column 't1' is constant"):
            plots.grid(flat)


# ---------------------------------------------------------------- map


class TestMap:
    def test_grid_is_an_image(self, data):
        t = plots.grid(data, n=(6, 5))
        figure = plots.coefficient_map(_coefficients(t), "x", fade=False)
        axes, bar = figure.axes
        (mesh,) = axes.collections
        assert isinstance(mesh, QuadMesh)
        cells = np.asarray(mesh.get_array())
        assert cells.shape == (5, 6)
        np.testing.assert_allclose(cells.ravel(), _coefficients(t)["mean"][1])
        assert axes.get_xlabel() == "long" and axes.get_ylabel() == "lat"
        assert axes.get_title() == "Coefficient of 'x' by place"
        assert bar.get_ylabel() == "mean"
        low, high = mesh.get_clim()
        assert low == -high and high == pytest.approx(np.abs(cells).max())

    def test_places_that_are_left_out_are_blank(self, data):
        t = plots.grid(data, n=(8, 7))
        keep = np.ones(56, dtype=bool)
        keep[[3, 10]] = False
        keep[16:24] = False  # a whole row of the grid
        (mesh,) = plots.coefficient_map(_coefficients(t[keep]), "x", fade=False).axes[0].collections
        cells = mesh.get_array()
        assert cells.shape == (7, 8)
        np.testing.assert_array_equal(np.ma.getmaskarray(cells).ravel(), ~keep)
        corners = mesh.get_coordinates()[..., 1]
        np.testing.assert_allclose(np.diff(corners[:, 0]), np.diff(corners[:2, 0])[0])

    def test_mask(self, data):
        t = plots.grid(data, n=(8, 7))
        hidden = t[:, 1] < np.median(data.t[:, 1])
        (mesh,) = plots.coefficient_map(_coefficients(t), "x", mask=hidden, fade=False).axes[0].collections
        assert mesh.get_array().count() == (~hidden).sum()

    def test_order_of_places_does_not_matter(self, data):
        t = plots.grid(data, n=(6, 5))
        shuffled = np.random.default_rng(1).permutation(t)
        one, other = (
            plots.coefficient_map(_coefficients(places), "x", fade=False).axes[0].collections[0].get_array()
            for places in (t, shuffled)
        )
        np.testing.assert_allclose(one, other, atol=1e-12)

    def test_scattered_places_are_points(self, data):
        coefficients = _coefficients(data.t)
        (points,) = plots.coefficient_map(coefficients, "x", fade=False).axes[0].collections
        assert isinstance(points, PathCollection)
        np.testing.assert_array_equal(points.get_offsets(), data.t[:, :2])
        np.testing.assert_array_equal(points.get_array(), coefficients["mean"][1])

    @pytest.mark.parametrize("centre", [0.0, 0.3, "average"])
    def test_uncertain_places_are_faded(self, data, centre):
        coefficients = _coefficients(data.t)
        axes, bar = plots.coefficient_map(coefficients, "x", centre=centre).axes
        points, white = axes.collections
        mean = coefficients["mean"].to_numpy()[1]
        middle = mean.mean() if centre == "average" else centre
        faded = np.abs(mean - middle) < 0.1
        assert 0 < faded.sum() < 200
        np.testing.assert_array_equal(white.get_offsets(), data.t[faded, :2])
        assert "grey where |mean" in bar.get_ylabel()
        assert np.mean(points.get_clim()) == pytest.approx(middle, abs=1e-12)

    def test_statistics(self, data):
        coefficients = _coefficients(data.t)
        (points,) = plots.coefficient_map(coefficients, "x", statistic="sd").axes[0].collections
        assert points.get_clim() == (0.1, pytest.approx(0.2)) and set(points.get_array()) == {0.1}
        points = plots.coefficient_map(coefficients, "x", statistic="lower").axes[0].collections[0]
        np.testing.assert_array_equal(points.get_array(), coefficients["lower"][1])

    def test_columns_and_panel(self, data):
        figure, axes = plt.subplots()
        assert plots.coefficient_map(_coefficients(data.t), "x", x="day", y="long", ax=axes) is figure
        assert axes.get_xlabel() == "day" and axes.get_ylabel() == "long"
        assert axes.get_aspect() == "auto"
        degrees = plots.coefficient_map(_coefficients(data.t), "x").axes[0]
        assert degrees.get_aspect() == pytest.approx(1.0 / np.cos(np.radians(data.t[:, 1].mean())))
        assert plots.coefficient_map(_coefficients(data.t), "x", y="day").axes[0].get_xlabel() == "long"

    def test_errors(self, data):
        coefficients = _coefficients(data.t)
        for arguments, message in (
            (dict(feature="z"), "feature: 'z' is unknown"),
            (dict(x="height"), "x: 'height' is unknown"),
            (dict(x="lat", y="lat"), "x and y are both 'lat'"),
            (dict(statistic="median"), "statistic: 'median' is unknown"),
            (dict(centre="global"), "centre: 'global' is unknown"),
            (dict(centre=np.nan), "centre is nan"),
            (dict(mask=np.ones(3, dtype=bool)), r"mask has shape \(3,\)"),
            (dict(mask=np.ones(200)), "mask has shape .* type float64"),
            (dict(mask=np.ones(200, dtype=bool)), "mask leaves no place"),
        ):
            with pytest.raises(ValueError, match=message):
                plots.coefficient_map(coefficients, **{"feature": "x", **arguments})
        twice = _coefficients(np.concatenate([data.t, data.t + np.array([0.0, 0.0, 1.0])]))
        with pytest.raises(
            ValueError, match=r"several places at one point of long, lat \(they differ in day"
        ):
            plots.coefficient_map(twice, "x")
        by_task = coefficients.drop_vars(NAMES).assign_coords(
            task=("place", [f"task {i}" for i in range(200)])
        )
        with pytest.raises(ValueError, match="x is missing: t has too few columns"):
            plots.coefficient_map(by_task, "x")
        for wrong in (coefficients["mean"], coefficients.drop_vars("mean"), coefficients.isel(feature=0)):
            with pytest.raises(ValueError, match=r"Hand over what fit.coefficients\(t\) returned"):
                plots.coefficient_map(wrong, "x")


# ---------------------------------------------------------------- curve


class TestCurve:
    def test_mean_and_interval_in_order(self, data):
        t = plots.grid(data, n=9, columns="day")[::-1]
        coefficients = _coefficients(t)
        axes = plots.coefficient_curve(coefficients, "x").axes[0]
        zero, line = axes.get_lines()
        assert set(zero.get_ydata()) == {0.0}
        np.testing.assert_array_equal(line.get_xdata(), t[::-1, 2])
        np.testing.assert_array_equal(line.get_ydata(), coefficients["mean"][1][::-1])
        (band,) = axes.collections
        corners = band.get_paths()[0].vertices
        assert corners[:, 1].min() == coefficients["lower"][1].min()
        assert corners[:, 1].max() == coefficients["upper"][1].max()
        assert axes.get_xlabel() == "day" and axes.get_ylabel() == "mean and 90% interval"
        assert axes.get_title().startswith("Coefficient of 'x', at long = -122")

    def test_features(self, data):
        t = plots.grid(data, n=9, columns="day")
        axes = plots.coefficient_curve(_coefficients(t, ("intercept", "a", "b"))).axes[0]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
        many = plots.coefficient_curve(_coefficients(t, ("intercept", *"abcdefgh"))).axes[0]
        assert [text.get_text() for text in many.get_legend().get_texts()] == list("cdefgh")  # vary most
        assert many.get_title().startswith("Coefficients of the 6 of 8 features that vary most")
        figure, axes = plt.subplots()
        assert plots.coefficient_curve(_coefficients(t), ["x", "intercept"], over="day", ax=axes) is figure
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["x", "intercept"]
        alone = plots.coefficient_curve(_coefficients(t, ("intercept",))).axes[0]
        assert alone.get_title().startswith("Coefficient of 'intercept'")

    def test_along_a_line_through_places(self):
        t = np.column_stack([np.linspace(0.0, 1.0, 5), np.linspace(2.0, 3.0, 5)])
        axes = plots.coefficient_curve(_coefficients(t, names=("a", "b")), "x", over="b").axes[0]
        assert axes.get_title() == "Coefficient of 'x' over b"

    def test_errors(self, data):
        coefficients = _coefficients(data.t)
        with pytest.raises(ValueError, match="over is missing, and long, lat, day of t varies"):
            plots.coefficient_curve(coefficients)
        with pytest.raises(ValueError, match="over: 'height' is unknown"):
            plots.coefficient_curve(coefficients, over="height")
        with pytest.raises(ValueError, match="feature: 'z' is unknown"):
            plots.coefficient_curve(coefficients, "z", over="day")
        with pytest.raises(ValueError, match="feature is empty"):
            plots.coefficient_curve(coefficients, [], over="day")
        with pytest.raises(ValueError, match="several places at one point of long"):
            plots.coefficient_curve(_coefficients(plots.grid(data, n=4)), over="long")


# ---------------------------------------------------------------- variogram


@pytest.fixture(scope="module")
def dataset(data):
    z = np.sin(10.0 * data.t[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(200)
    return variogram(z, pd.DataFrame(data.t[:, :2], columns=["long", "lat"]), random_seed=1)


class TestVariogram:
    def test_shows_both_estimators_band_and_variance(self, dataset):
        axes = plots.variogram(dataset).axes[0]
        lines = {line.get_label(): line for line in axes.get_lines()}
        np.testing.assert_array_equal(lines["Matheron"].get_ydata(), dataset["semivariance"])
        np.testing.assert_array_equal(lines["robust"].get_ydata(), dataset["robust"])
        assert set(lines["variance"].get_ydata()) == {dataset.attrs["variance"]}
        (band,) = axes.collections
        assert band.get_paths()[0].vertices[:, 1].max() == dataset["upper"].max()
        assert (
            axes.get_title() == f"Variogram of {int(dataset['pairs'].sum()):,} pairs, no structure: p = 0.01"
        )
        assert axes.get_ylim()[0] == 0.0 and axes.get_ylim()[1] > dataset["upper"].max()

    def test_without_band_and_with_empty_bins(self, data):
        dataset = variogram(
            data.y, data.t[:, :2], bins=[0.0, 1e-12, 1.0, 2.0], permutations=0, max_pairs=5_000, random_seed=1
        )
        figure, axes = plt.subplots()
        assert plots.variogram(dataset, ax=axes) is figure
        assert not axes.collections
        line = {line.get_label(): line for line in axes.get_lines()}["Matheron"]
        np.testing.assert_array_equal(line.get_ydata(), dataset["semivariance"][1:])
        assert axes.get_title().endswith("pairs drawn")

    def test_errors(self, dataset):
        for wrong in (dataset["semivariance"], dataset.drop_vars("robust"), dataset.rename(distance="h")):
            with pytest.raises(ValueError, match=r"Hand over what zoo.diagnostics.variogram returned"):
                plots.variogram(wrong)


# ---------------------------------------------------------------- by name


def test_points_of_a_grid_go_to_their_columns(data):
    """A Series in another order than the columns was read by position."""
    wanted = plots.grid(data, n=(5, 4), columns=("long", "lat"))
    for n in ({"lat": 4, "long": 5}, pd.Series({"lat": 4, "long": 5}), pd.Series([5, 4])):
        np.testing.assert_array_equal(plots.grid(data, n=n, columns=("long", "lat")), wanted)
    with pytest.raises(ValueError, match="n has the names lat, day"):
        plots.grid(data, n={"lat": 4, "day": 5}, columns=("long", "lat"))


def test_a_mask_of_other_rows_is_refused(data):
    t = plots.grid(data, n=3)
    hidden = np.arange(9) < 3
    coefficients = _coefficients(t)
    wanted = plots.coefficient_map(coefficients, "x", mask=hidden).axes[0].collections[0].get_array()
    for mask in (pd.Series(hidden), xr.DataArray(hidden, dims="place")):
        shown = plots.coefficient_map(coefficients, "x", mask=mask).axes[0].collections[0].get_array()
        np.testing.assert_array_equal(shown.mask, wanted.mask)
    backwards = np.arange(9)[::-1]
    for mask in (
        pd.Series(hidden, backwards),
        xr.DataArray(hidden, dims="place", coords={"place": backwards}),
    ):
        with pytest.raises(ValueError, match="mask has another index"):
            plots.coefficient_map(coefficients, "x", mask=mask)

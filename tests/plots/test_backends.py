"""Pictures by other backends, of the predictive law by task, of kernels, and the map in one file."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import zoo
from zoo import plots
from zoo.datasets import simulate_groups
from zoo.diagnostics.calibration import Calibration


@pytest.fixture(scope="module")
def fit() -> zoo.Fit:
    """Twelve tasks whose chains are short and good enough for a picture."""
    data, _ = simulate_groups(tasks_per_group=4, n_features=3, n_per_task=12, random_seed=1)
    with pytest.warns(zoo.ConvergenceWarning):
        return zoo.NIWLinear().fit(data, draws=60, tune=60, chains=2, random_seed=1, progress=False)


@pytest.fixture(scope="module")
def surface() -> xr.Dataset:
    """Coefficients on a grid of 5 by 4 places, of which those in the west are uncertain."""
    east, north = (v.ravel() for v in np.meshgrid(np.linspace(0, 10, 5), np.linspace(0, 3, 4)))
    mean = np.stack([east / 10.0, np.ones(20)])
    return xr.Dataset(
        {
            name: (("feature", "place"), values)
            for name, values in (
                ("mean", mean), ("sd", np.full((2, 20), 0.3)), ("lower", mean - 0.5), ("upper", mean + 0.5)
            )
        },
        coords={"feature": ["x", "intercept"], "east": ("place", east), "north": ("place", north)},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _leave_nothing_behind():
    yield
    plt.close("all")


@pytest.mark.parametrize("backend", ["plotly", "bokeh"])
def test_forests_traces_and_replications_by_other_backends(fit, backend):
    pytest.importorskip(backend)
    forest = plots.coefficient_forest(fit, feature="x1", backend=backend)
    traces = plots.trace_rank(fit, backend=backend)
    replications = plots.predictive_by_task(fit, tasks="A1", num_samples=5, random_seed=1, backend=backend)
    for figure in (forest, traces, replications):
        assert type(figure).__module__.partition(".")[0] in (backend, "arviz_plots")


def _lines(figure) -> list[tuple[str, str, np.ndarray]]:
    """Title of the panel, colour, and heights of each line of the ranks' picture by plotly or bokeh."""
    if type(figure).__module__.startswith("plotly"):
        titles = [note.text for note in figure.layout.annotations if note.text.strip()]
        traces = [trace for trace in figure.data if trace.line.color]
        return [(titles[int(t.xaxis[1:] or 1) - 1], t.line.color, np.asarray(t.y)) for t in traces]
    return [
        (panel.title.text, shown.glyph.line_color, np.asarray(shown.data_source.data["y"]))
        for panel, _, _ in figure.children
        for shown in panel.renderers
        if type(shown.glyph).__name__ == "Line"
    ]


@pytest.mark.parametrize("backend", ["plotly", "bokeh"])
def test_ranks_by_other_backends_are_the_lines_of_matplotlib(backend):
    """The second quantity has ranks that are too small by far: its line alone is red."""
    pytest.importorskip(backend)
    rng = np.random.default_rng(0)
    ranks = rng.integers(0, 20, size=(200, 3))
    ranks[:, 1] = 20 * rng.random(200) ** 2
    quantities = ["noise", "coefficients[x1, t_2]", "log|cov|"]
    found = Calibration(
        xr.Dataset(
            {"rank": (("replication", "quantity"), ranks), "ess": (("replication", "quantity"), ranks + 0.0)},
            coords={"quantity": quantities},
            attrs={"draws": 19},
        ),
        {}, "PooledTasks()", "nuts",
    )  # fmt: skip
    expected = {a.get_title(): a.get_lines()[0] for a in plots.rank_ecdf(found).axes if a.get_title()}
    drawn = {title: (colour, y) for title, colour, y in _lines(plots.rank_ecdf(found, backend=backend))}
    assert list(expected) == quantities and set(drawn) == set(quantities)
    for name, (_, y) in drawn.items():
        np.testing.assert_allclose(y, expected[name].get_ydata())
    assert (
        len({drawn["noise"][0], drawn["log|cov|"][0]}) == 1 and drawn[quantities[1]][0] != drawn["noise"][0]
    )
    with pytest.raises(ValueError, match="figsize is for backend='matplotlib'"):
        plots.rank_ecdf(found, figsize=(3.0, 3.0), backend=backend)


def test_arguments_of_matplotlib_and_unknown_backends_are_refused(fit, monkeypatch):
    with pytest.raises(ValueError, match="figsize is for backend='matplotlib'"):
        plots.coefficient_forest(fit, figsize=(3.0, 3.0), backend="plotly")
    with pytest.raises(ValueError, match="backend: 'ggplot' is unknown"):
        plots.trace_rank(fit, backend="ggplot")
    monkeypatch.setattr("zoo.plots.backends.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'multitask-zoo\[interactive\]'"):
        plots.coefficient_forest(fit, backend="bokeh")


def test_replications_stand_beside_the_responses_of_each_task(fit):
    figure = plots.predictive_by_task(fit, random_seed=1)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert len(titles) == 9 and set(titles) <= set(fit.data.task_names)
    some = plots.predictive_by_task(fit, tasks=["A1", "C2"], num_samples=7, random_seed=1)
    lines = [len(axes.get_lines()) for axes in some.axes if axes.get_title()]
    assert lines == [8, 8]  # seven replications and the responses
    with pytest.raises(ValueError, match="tasks: 'Z' is unknown"):
        plots.predictive_by_task(fit, tasks=["Z"])


def test_counts_have_distribution_functions_and_labels_are_refused(fit):
    X, task = fit.data.X, np.arange(fit.data.n_rows) % 12
    counts = np.random.default_rng(1).poisson(3.0, len(task)).astype(float)
    data = zoo.MultiTaskData.from_arrays(X, counts, task)
    pooled = zoo.PooledTasks(likelihood="negative_binomial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        quick = {"nuts_sampler": "pymc", "max_treedepth": 3}
        few = pooled.fit(data, draws=20, tune=20, chains=2, random_seed=1, progress=False, nuts=quick)
    figure = plots.predictive_by_task(few, tasks="task 3", num_samples=5, random_seed=1)
    (axes,) = [a for a in figure.axes if a.get_title()]
    heights = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()])
    assert heights.min() >= 0.0 and heights.max() == pytest.approx(1.0)
    labels = zoo.PooledTasks(likelihood="logistic").fit(
        zoo.MultiTaskData.from_arrays(X, (counts > 2.5).astype(float), task),
        method="laplace", random_seed=1, progress=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match="y holds labels"):
        plots.predictive_by_task(labels)


def test_a_kernel_is_its_matrix():
    X = np.linspace(0.0, 3.0, 6)[:, None]
    covariance = 4.0 * pm.gp.cov.ExpQuad(1, ls=1.0)
    (image,) = plots.kernel(covariance, X).axes[0].get_images()
    expected = 4.0 * np.exp(-0.5 * (X - X.T) ** 2)
    np.testing.assert_allclose(image.get_array(), expected, rtol=1e-9)
    assert image.get_clim() == (0.0, pytest.approx(4.0))
    figure = plots.kernel(pm.gp.cov.Linear(1, c=0.0), X - 1.5, names=list("abcdef"), correlation=True)
    (image,) = figure.axes[0].get_images()
    assert image.get_clim() == (-1.0, 1.0) and set(np.unique(np.sign(image.get_array()))) == {-1.0, 1.0}
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list("abcdef")
    with pytest.raises(ValueError, match="names has 2 entries and X has 6 rows"):
        plots.kernel(covariance, X, names=["a", "b"])


def test_a_map_is_to_scale_with_the_rows_and_uncertain_places_in_grey(surface):
    rows = zoo.MultiTaskData.from_arrays(
        np.ones((3, 1)),
        np.ones(3),
        t=np.array([[1.0, 1.0], [2.0, 2.0], [9.0, 0.5]]),
        t_names=["east", "north"],
    )
    axes = plots.coefficient_map(surface, "x", rows=rows).axes[0]
    assert axes.get_aspect() == 1.0
    _, cover, dots = axes.collections
    np.testing.assert_array_equal(dots.get_offsets(), rows.t)
    uncertain = np.abs(surface["mean"][0]) < surface["sd"][0]
    assert cover.get_array().count() == int(uncertain.sum()) > 0
    red, green, blue, _ = cover.cmap(0.0)
    assert red == green == blue < 0.7
    assert plots.coefficient_map(surface, "x", aspect="auto").axes[0].get_aspect() == "auto"
    table = rows.to_frame()
    np.testing.assert_array_equal(
        plots.coefficient_map(surface, "x", rows=table).axes[0].collections[-1].get_offsets(), rows.t
    )
    with pytest.raises(ValueError, match="rows: 'east' is unknown"):
        plots.coefficient_map(surface, "x", rows=table.rename(columns={"east": "e"}))


def test_a_map_in_one_file(surface, tmp_path):
    pytest.importorskip("plotly")
    path = plots.interactive_map(surface, tmp_path / "map.html")
    page = path.read_text(encoding="utf-8")
    assert "<html>" in page[:40] and "Coefficient of x by place" in page and "intercept" in page
    assert 'src="http' not in page  # nothing is fetched
    with pytest.raises(FileExistsError, match="is a file already"):
        plots.interactive_map(surface, path)
    plots.interactive_map(surface, path, x="north", y="east", overwrite=True)
    with pytest.raises(ValueError, match="x: 'up' is unknown"):
        plots.interactive_map(surface, tmp_path / "other.html", x="up")

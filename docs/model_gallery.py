"""Draw the pictures of docs/models.md: ``python docs/model_gallery.py [MODEL ...]``.

Each function simulates small data, fits one model to them, and draws what the model is for. Without names on the
command line all pictures are drawn. A run of all takes some minutes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

import zoo

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "pictures" / "models"
SEED = 1
STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
}
SHORT = {"draws": 200, "tune": 200, "chains": 2, "random_seed": SEED, "progress": False}


def max_margin(axes: Axes) -> None:
    """Tasks of three groups, which the model is not told, on a map by their learned correlation."""
    data, _ = zoo.datasets.simulate_groups(n_per_task=30, random_seed=SEED)
    fit = zoo.MaxMargin(likelihood="epsilon_insensitive").fit(data.standardize(), **SHORT)
    zoo.plots.task_map(fit, names=[], ax=axes)
    points = axes.lines[-1].get_xydata()
    axes.lines[-1].remove()
    names = np.array([name[0] for name in fit.data.task_names])
    for group in np.unique(names):
        axes.plot(*points[names == group].T, "o", markersize=4.5, label=f"group {group}")
    axes.set(title="map of tasks", xlabel="first direction", ylabel="second direction")
    axes.legend(frameon=False, loc="best", handletextpad=0.1, borderaxespad=0.1)


def nonparametric_max_margin(axes: Axes) -> None:
    """The binary matrix Z of the last draw, whose columns have no order of their own."""
    rng = np.random.default_rng(SEED)
    Z = np.repeat(np.eye(3), 4, axis=0)
    coefficients = Z @ rng.normal(0.0, 2.0, (3, 15)) + 0.2 * rng.standard_normal((12, 15))
    task = np.repeat(np.arange(15), 25)
    X = rng.standard_normal((len(task), 12))
    y = np.einsum("nd,dn->n", X, coefficients[:, task]) + 0.5 * rng.standard_normal(len(task))
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    # Not standardized: C = 1 is about right for noise of 0.5, and the prior for coefficients of size 2.
    fit = zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive").fit(data, **SHORT)
    drawn = fit.posterior["Z"].isel(chain=0, draw=-1).transpose("feature", "latent").to_numpy()
    columns = sorted((column for column in drawn.T if column.any()), key=lambda c: (-c).tolist())
    axes.imshow(np.array(columns).T, cmap="Blues", vmin=0.0, vmax=1.2, aspect="auto")
    axes.set(title="latent features Z, one draw", xlabel="latent feature", ylabel="feature")
    axes.set(xticks=range(len(columns)), yticks=range(0, 12, 2))
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(13) - 0.5, minor=True)
    axes.grid(which="minor", color="0.85", linewidth=0.6)
    axes.tick_params(which="minor", length=0)


def hierarchical_linear(axes: Axes) -> None:
    """Lines of tasks with few rows, and the line of the population."""
    _lines(axes, zoo.HierarchicalLinear())


def niw_linear(axes: Axes) -> None:
    """Lines of tasks with few rows, and the line of the population, under the paper's prior."""
    _lines(axes, zoo.NIWLinear())


def _lines(axes: Axes, model: zoo.ModelFactory) -> None:
    """Lines of tasks from one population, as a model finds them."""
    rng = np.random.default_rng(SEED)
    task = np.repeat(np.arange(12), 4)
    lines = rng.multivariate_normal([1.0, 0.8], [[0.6, 0.2], [0.2, 0.15]], 12)
    x = rng.uniform(-2.0, 2.0, len(task))
    y = lines[task, 0] + lines[task, 1] * x + 0.3 * rng.standard_normal(len(task))
    data = zoo.MultiTaskData.from_arrays(x[:, None], y, task, feature_names=["x"]).add_intercept()
    posterior = model.fit(data, **SHORT).posterior.mean(("chain", "draw"))
    ends = np.array([-2.0, 2.0])
    for number in range(12):
        own = posterior["coefficients"].isel(task=number)
        colour = plt.get_cmap("viridis")(number / 13.0)
        axes.plot(
            ends, float(own.sel(feature="intercept")) + float(own.sel(feature="x")) * ends, color=colour, lw=1
        )
        axes.plot(x[task == number], y[task == number], ".", color=colour, markersize=3.5)
    mean = posterior["population_mean"]
    level, slope = float(mean.sel(feature="intercept")), float(mean.sel(feature="x"))
    axes.plot(ends, level + slope * ends, color="C3", lw=2.5, label="population")
    axes.set(title="lines from one population", xlabel="x", ylabel="y")
    axes.legend(frameon=False, loc="upper left")


def niw_gaussian_process(axes: Axes) -> None:
    """Curves of tasks with few rows, and the mean function of the population."""
    rng = np.random.default_rng(SEED)
    grid = np.linspace(-2.0, 2.0, 33)
    task = np.repeat(np.arange(6), 8)
    x = rng.choice(grid, len(task))
    height, shift = rng.normal(1.0, 0.35, 6), rng.normal(0.0, 0.35, 6)
    y = height[task] * np.sin(2.0 * x + shift[task]) + 0.1 * rng.standard_normal(len(task))
    data = zoo.MultiTaskData.from_arrays(x[:, None], y, task, feature_names=["x"])
    fit = zoo.NIWGaussianProcess().fit(data, **SHORT)
    everywhere = np.zeros(len(grid))
    for number in range(6):
        colour = plt.get_cmap("viridis")(number / 7.0)
        mean = fit.predict(grid[:, None], task=number, random_seed=SEED)["mean"].to_numpy()
        everywhere += mean / 6.0
        axes.plot(grid, mean, color=colour, lw=1)
        axes.plot(x[task == number], y[task == number], ".", color=colour, markersize=3.5)
    axes.plot(grid, everywhere, color="C3", lw=2.5, label="mean of the tasks")
    axes.set(title="curves from one population", xlabel="x", ylabel="y", ylim=(None, 2.6))
    axes.legend(frameon=False, loc="upper left")


def multi_laplace(axes: Axes) -> None:
    """Relevance of ten features, of which five count."""
    data, truth = zoo.datasets.simulate_joint_selection(n_tasks=40, n_per_task=8, random_seed=SEED)
    model = zoo.MultiLaplaceGP(kernel="linear", noise_floor=0.1, penalty=100.0)
    table = model.fit(data.standardize(), "map", progress=False).relevance()
    height, counts = table["relevance"].to_numpy(), truth["relevant"].to_numpy()
    places = np.arange(len(height))
    axes.bar(places[counts], height[counts], color="C0", label="counts in the truth")
    axes.bar(places[~counts], height[~counts], color="0.6", label="does not")
    axes.set(title="relevance of features", ylabel="relevance", xlabel="feature", xticks=places)
    axes.legend(frameon=False)


def kernel_machine(axes: Axes) -> None:
    """Covariance of ten tasks that stand in a ring, each near its two neighbours."""
    rng = np.random.default_rng(SEED)
    n_tasks = 10
    ring = np.roll(np.eye(n_tasks), 1, axis=0) + np.roll(np.eye(n_tasks), -1, axis=0)
    angle = 2.0 * np.pi * np.arange(n_tasks) / n_tasks
    task = np.repeat(np.arange(n_tasks), 15)
    X = rng.standard_normal((len(task), 2))
    y = np.cos(angle[task]) * X[:, 0] + np.sin(angle[task]) * X[:, 1] + 0.3 * rng.standard_normal(len(task))
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    kernel = zoo.kernels.GraphLaplacian(3, ring, regularisation=0.3)
    model = zoo.MultiTaskKernelMachine(kernel=kernel, learn=("regularisation",))
    fit = model.fit(data, draws=200, random_seed=SEED, progress=False)
    covariance = fit.posterior["task_cov"].mean(("chain", "draw")).to_numpy()
    image = axes.imshow(covariance, cmap="viridis", vmin=0.0)
    axes.set(title="covariance of tasks in a ring", xlabel="task", ylabel="task")
    axes.set(xticks=range(0, n_tasks, 2), yticks=range(0, n_tasks, 2))
    axes.figure.colorbar(image, ax=axes)


def _series() -> tuple[pd.DataFrame, zoo.MultiTaskData]:
    """A slope and a level that change over time together."""
    rng = np.random.default_rng(SEED)
    day = np.sort(rng.uniform(0.0, 10.0, 200))
    table = pd.DataFrame({"x": rng.standard_normal(200), "day": day})
    table["y"] = 1.5 + np.sin(day) + (1.0 + np.sin(day)) * table["x"] + 0.4 * rng.standard_normal(200)
    return table, zoo.MultiTaskData.from_frame(table, y="y", features=["x"], t=["day"])


def _over_days(axes: Axes, model: zoo.ModelFactory, features: dict[str, str]) -> None:
    """Coefficients of a fit to the series with their intervals, and their truth."""
    _, data = _series()
    days = np.linspace(0.0, 10.0, 101)
    found = model.fit(data, random_seed=SEED, progress=False).coefficients(pd.DataFrame({"day": days}))
    for number, (feature, label) in enumerate(features.items()):
        curve = found.sel(feature=feature)
        axes.fill_between(days, curve["lower"], curve["upper"], color=f"C{number}", alpha=0.25, lw=0)
        axes.plot(days, curve["mean"], color=f"C{number}", label=label)
        truth = (1.0 if feature == "x" else 1.5) + np.sin(days)
        axes.plot(days, truth, "--", color="0.3", lw=0.9, label="truth" if number == 0 else None)
    axes.set(xlabel="day", ylabel="coefficient")
    axes.set_ylim(top=axes.get_ylim()[1] + 0.8)
    axes.legend(frameon=False, loc="upper right", ncols=3, columnspacing=1.0)


def local_smoothing(axes: Axes) -> None:
    """A slope over time, of regressions on the rows nearby."""
    _over_days(axes, zoo.KernelLocalSmoothing(), {"x": "slope"})
    axes.set_title("slope from the rows nearby")


def nonisotropic(axes: Axes) -> None:
    """Two coefficients over time, whose covariance is learned."""
    model = zoo.NonisotropicVaryingCoefficients()
    _over_days(axes, model, {"x": "slope", "intercept": "level"})
    axes.set_title("slope and level vary together")


def varying_coefficient(axes: Axes) -> None:
    """A slope over places, as a map."""
    rng = np.random.default_rng(SEED)
    table = pd.DataFrame(rng.uniform(0.0, 4.0, (300, 2)), columns=["east", "north"])
    table["size"] = rng.standard_normal(300)
    slope = 1.0 + np.sin(1.5 * table["east"]) * np.cos(1.2 * table["north"])
    table["price"] = slope * table["size"] + 0.3 * rng.standard_normal(300)
    data = zoo.MultiTaskData.from_frame(table, y="price", features=["size"], t=["east", "north"])
    fit = zoo.VaryingCoefficientGP().fit(data, random_seed=SEED, progress=False)
    found = fit.coefficients(zoo.plots.grid(data, 30)).sel(feature="size")
    east, north = np.unique(found["east"]), np.unique(found["north"])
    at = found["mean"].to_pandas()
    values = pd.DataFrame({"e": found["east"], "n": found["north"], "v": at.to_numpy()})
    image = axes.pcolormesh(east, north, values.pivot(index="n", columns="e", values="v"), cmap="viridis")
    axes.plot(table["east"], table["north"], ".", color="white", markersize=1.2)
    axes.set(title="coefficient of size by place", xlabel="east", ylabel="north")
    axes.figure.colorbar(image, ax=axes)


def pooled_gp(axes: Axes) -> None:
    """One function for the rows of all places."""
    rng = np.random.default_rng(SEED)
    x, place = rng.uniform(-2.0, 2.0, 90), rng.integers(0, 3, 90)
    y = np.sin(2.0 * x) + 0.5 * (place - 1.0) + 0.2 * rng.standard_normal(90)
    data = zoo.MultiTaskData.from_arrays(x[:, None], y, feature_names=["x"])
    model = zoo.PooledGP(instance_kernel="matern52")
    grid = np.linspace(-2.0, 2.0, 80)
    found = model.fit(data, random_seed=SEED, progress=False).predict(grid[:, None], random_seed=SEED)
    for number in range(3):
        axes.plot(x[place == number], y[place == number], ".", ms=4, label=f"place {number + 1}")
    axes.fill_between(grid, found["lower"], found["upper"], color="0.6", alpha=0.3, lw=0)
    axes.plot(grid, found["mean"], color="0.2", lw=2)
    axes.set(title="one function for all places", xlabel="x", ylabel="y", ylim=(-2.7, 2.4))
    axes.legend(frameon=False, ncols=3, loc="lower center", handletextpad=0.1, columnspacing=1.0)


def _against_truth(axes: Axes, model: zoo.ModelFactory) -> None:
    """90 % intervals of a slope in twelve tasks, and the truth."""
    data, truth = zoo.datasets.simulate_groups(tasks_per_group=4, n_per_task=10, random_seed=SEED)
    fit = model.fit(data, draws=500, random_seed=SEED, progress=False)
    feature, tasks = data.feature_names[0], list(data.task_names)
    low, middle, high = fit.posterior["coefficients"].sel(feature=feature).quantile(
        [0.05, 0.5, 0.95], dim=("chain", "draw")
    ).to_numpy().reshape(3, -1) * np.ones((1, len(tasks)))  # fmt: skip
    places = np.arange(len(tasks))
    axes.vlines(places, low, high, color="C0", lw=2, label="90 % interval")
    axes.plot(places, middle, "o", color="C0", markersize=3.5)
    true = truth["coefficients"].sel(feature=feature, task=tasks)
    axes.plot(places, true, "x", color="C3", markersize=4.5, label="truth")
    axes.set(xlabel="task", ylabel="coefficient", xticks=places, ylim=(-2.0, 2.2))
    axes.set_xticklabels(tasks, fontsize=6.5)
    axes.legend(frameon=False, ncols=2, loc="upper right")


def independent_tasks(axes: Axes) -> None:
    """A coefficient in each task, estimated from the rows of that task alone."""
    _against_truth(axes, zoo.IndependentTasks())
    axes.set_title("each task alone")


def pooled_tasks(axes: Axes) -> None:
    """The one coefficient of all tasks."""
    _against_truth(axes, zoo.PooledTasks())
    axes.set_title("one regression for all tasks")


PICTURES: dict[str, Callable[[Axes], None]] = {
    "MaxMargin": max_margin,
    "NonparametricMaxMargin": nonparametric_max_margin,
    "HierarchicalLinear": hierarchical_linear,
    "NIWLinear": niw_linear,
    "NIWGaussianProcess": niw_gaussian_process,
    "MultiLaplaceGP": multi_laplace,
    "MultiTaskKernelMachine": kernel_machine,
    "KernelLocalSmoothing": local_smoothing,
    "VaryingCoefficientGP": varying_coefficient,
    "NonisotropicVaryingCoefficients": nonisotropic,
    "PooledGP": pooled_gp,
    "IndependentTasks": independent_tasks,
    "PooledTasks": pooled_tasks,
}


def main(names: list[str]) -> None:
    """Draw the pictures of these models, or all."""
    # Fits for a picture are short on purpose, and the data are not scaled as those of a user would be.
    warnings.simplefilter("ignore", UserWarning)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(figsize=(3.6, 2.4), layout="constrained")
            PICTURES[name](axes)
            figure.savefig(FOLDER / f"{name}.png", dpi=100, metadata={"Software": None})
            plt.close(figure)
        print(f"docs/pictures/models/{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])

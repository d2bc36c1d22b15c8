"""Parameters of kernels by the names of tasks and nodes; what names do not say is refused, not taken by position."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
import xarray as xr

import zoo
from zoo.kernels import (
    ICM,
    Clustered,
    GraphLaplacian,
    LearnedKernel,
    MeanRegularised,
    TaskGraph,
    TaskPrecision,
    TaskTree,
    linear_form,
)

TASKS = ["a", "b", "c"]
OTHER = ["c", "a", "b"]
MATRIX = pd.DataFrame([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 4.0]], TASKS, TASKS)
EDGES = MATRIX * (1.0 - np.eye(3))


def _in_order(kernel, order=TASKS):
    return kernel.task_covariance().sel(task=list(order), task_bis=list(order)).to_numpy()


def _named(values):
    """A frame or Series whose rows (and columns) are in another order, and a DataArray of the same."""
    if isinstance(values, pd.Series):
        return values[OTHER], xr.DataArray(values[OTHER].to_numpy(), dims="task", coords={"task": OTHER})
    mixed = values.loc[OTHER, ["b", "c", "a"]]
    coords = {"task": list(mixed.index), "task_bis": list(mixed.columns)}
    return mixed, xr.DataArray(mixed.to_numpy(), dims=("task", "task_bis"), coords=coords)


KERNELS = {
    "clusters": (lambda v, **k: Clustered(clusters=v, **k), pd.Series(["x", "y", "y"], TASKS)),
    "W": (lambda v, **k: ICM(W=v, kappa=1.0, **k), pd.Series([1.0, 2.0, 3.0], TASKS)),
    "precision": (lambda v, **k: TaskPrecision(precision=v, **k), MATRIX),
    "adjacency": (lambda v, **k: GraphLaplacian(adjacency=v, regularisation=0.5, **k), EDGES),
}


@pytest.mark.parametrize("argument", KERNELS)
def test_names_of_tasks_count_and_not_their_order(argument):
    make, values = KERNELS[argument]
    wanted = _in_order(make(values.to_numpy(), task_names=TASKS))
    for named in _named(values):
        for given in ({}, {"task_names": TASKS}, {"task_names": ["b", "a", "c"]}):
            kernel = make(named, **given)
            np.testing.assert_allclose(_in_order(kernel), wanted, rtol=1e-12)
            assert kernel.task_names == tuple(given.get("task_names", OTHER))
    with pytest.raises(ValueError, match=f"{argument} has the names"):
        make(_named(values)[0], task_names=["a", "b", "d"])


def test_a_dict_goes_by_its_names():
    kernel = Clustered(clusters={"c": "y", "a": "x", "b": "y"}, task_names=TASKS)
    expected = Clustered(clusters=["x", "y", "y"], task_names=TASKS)
    np.testing.assert_allclose(_in_order(kernel), _in_order(expected))
    assert Clustered(clusters={"c": "y", "a": "x"}).task_names == ("c", "a")
    with pytest.raises(ValueError, match="clusters has the names a, b"):
        Clustered(clusters={"a": "x", "b": "y"}, task_names=TASKS)


def test_numbered_rows_go_by_position():
    kernel = ICM(W=pd.Series([1.0, 2.0, 3.0]), task_names=TASKS)
    np.testing.assert_allclose(_in_order(kernel), np.outer([1, 2, 3], [1, 2, 3]))


def test_kappa_goes_to_its_tasks():
    kernel = ICM(W=np.zeros(3), kappa=pd.Series([3.0, 1.0, 2.0], OTHER), task_names=TASKS)
    np.testing.assert_allclose(_in_order(kernel), np.diag([1.0, 2.0, 3.0]))


def test_names_beside_a_graph_are_an_order():
    """They renamed the nodes of the graph."""
    graph = TaskGraph.from_edges([("a", "b", 0.9), ("b", "c", 0.2)], TASKS)
    wanted = _in_order(GraphLaplacian(adjacency=graph, regularisation=1.0))
    kernel = GraphLaplacian(adjacency=graph, task_names=OTHER, regularisation=1.0)
    assert kernel.task_names == tuple(OTHER)
    np.testing.assert_allclose(_in_order(kernel), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="'c' is not both"):
        GraphLaplacian(adjacency=graph, task_names=["a", "b", "d"])


def test_names_of_what_has_no_tasks_are_refused():
    metric = pd.DataFrame(np.diag([1.0, 2.0]), ["p", "q"], ["p", "q"])
    with pytest.raises(ValueError, match="Q has names, 'p' say"):
        MeanRegularised(n_tasks=3, Q=metric)
    np.testing.assert_allclose(MeanRegularised(n_tasks=3, Q=metric.to_numpy()).Q, metric)


def test_steps_of_a_tree_go_to_their_nodes():
    tree = TaskTree.from_parents({"x": "r", "y": "r", "b": "x", "c": "x", "a": "y"})
    steps = pd.Series(np.arange(1.0, 7.0), ["b", "a", "c", "x", "y", "r"])
    wanted = tree.kernel(sigma=steps[list(tree.names)].to_numpy()).task_covariance()
    for given in (steps, dict(steps)):
        np.testing.assert_allclose(tree.kernel(sigma=given).task_covariance(), wanted)
    levels = pd.Series([3.0, 2.0, 1.0], ["level 2", "level 1", "level 0"])
    np.testing.assert_allclose(
        tree.kernel(level_sigma=levels).task_covariance(),
        tree.kernel(level_sigma=[1.0, 2.0, 3.0]).task_covariance(),
    )
    with pytest.raises(ValueError, match="sigma has no 'r'"):
        tree.kernel(sigma=steps[:-1])


# ---------------------------------------------------------------- graphs and penalties


def test_weights_of_a_dict_of_edges_are_not_dropped():
    with pytest.raises(ValueError, match="edges is a dict"):
        TaskGraph.from_edges({("a", "b"): 0.5}, ["a", "b"])


def test_correlations_go_by_their_names():
    """With rows in another order their columns were correlated, as if they were coefficients."""
    r = pd.DataFrame([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]], TASKS, TASKS)
    wanted = TaskGraph.correlation(r.to_numpy()).adjacency
    for given in _named(r):
        graph = TaskGraph.correlation(given)
        at = [graph.task_names.index(name) for name in TASKS]
        np.testing.assert_allclose(graph.adjacency[np.ix_(at, at)], wanted)
    covariance = xr.DataArray(4.0 * r.to_numpy(), dims=("task", "task_bis"), coords={"task": TASKS})
    with pytest.raises(ValueError, match="no correlation matrix"):
        TaskGraph.correlation(covariance)


def test_a_penalty_goes_by_the_names_of_tasks():
    J = TaskPrecision(precision=MATRIX).regulariser()
    u = pd.DataFrame(np.arange(6.0).reshape(2, 3) ** 2, columns=TASKS)
    wanted = J(u.to_numpy())
    array = xr.DataArray(u.to_numpy(), dims=("feature", "task"), coords={"task": TASKS})
    for given in (u, u[OTHER], array, array.T, array.isel(task=[2, 0, 1])):
        assert J(given) == pytest.approx(wanted)
    square = xr.DataArray(np.arange(9.0).reshape(3, 3), dims=("task", "feature"))
    assert J(square) == pytest.approx(J(square.to_numpy().T))
    with pytest.raises(ValueError, match="the task 'a'"):
        J(u.rename(columns={"c": "d"}))


def test_parts_of_a_sum_have_one_order():
    with pytest.raises(ValueError, match="different orders"):
        linear_form(ICM(3, W=np.ones(3), task_names=TASKS) + ICM(3, W=np.ones(3), task_names=OTHER), 2)
    named = ICM(3, W=np.ones(3), task_names=TASKS) + MeanRegularised(3, n_tasks=3)
    assert linear_form(named, 2) is not None


def test_a_learned_kernel_takes_rows_of_one_order():
    X = pd.DataFrame(np.arange(6.0).reshape(3, 2), TASKS)
    base = pm.gp.cov.ExpQuad(2, ls=1.0)
    kernel = LearnedKernel(
        base, inputs=X, half=pd.DataFrame(np.eye(3), TASKS), mean=pd.Series(np.ones(3), TASKS)
    )
    assert kernel.half.shape == (3, 3)
    with pytest.raises(ValueError, match="half has another index than inputs"):
        LearnedKernel(base, inputs=X, half=pd.DataFrame(np.eye(3), OTHER))
    with pytest.raises(ValueError, match="mean has another index than inputs"):
        LearnedKernel(base, inputs=X, half=np.eye(3), mean=pd.Series(np.ones(3), OTHER))


# ---------------------------------------------------------------- hooks of a subclass


class Tenfold(ICM):
    """Overrides the matrix alone; the loadings it inherits are of another one."""

    def task_matrix(self):
        return 10.0 * super().task_matrix()


class TenfoldLoadings(MeanRegularised):
    """Overrides the loadings alone; the matrix it inherits is another one."""

    def loadings(self):
        d, W = super().loadings()
        return 10.0 * d, np.sqrt(10.0) * W


class Without(MeanRegularised):
    """Says that there are no loadings."""

    def loadings(self):
        return None


def _number(value):
    return pytensor.function([], value)()


def test_one_overridden_hook_says_the_matrix():
    tenfold, icm = Tenfold(3, W=[1.0, 2.0], kappa=1.0), ICM(3, W=[1.0, 2.0], kappa=1.0)
    form = linear_form(tenfold, 2)
    assert form.loadings is None
    np.testing.assert_allclose(_number(form.task_matrix), 10.0 * icm.task_covariance())

    mean = MeanRegularised(3, n_tasks=2, lam=0.3)
    loaded = TenfoldLoadings(3, n_tasks=2, lam=0.3)
    form = linear_form(loaded, 2)
    d, W = (_number(part) for part in form.loadings)
    for B in (loaded.task_covariance(), _number(form.task_matrix), np.diag(d) + W @ W.T):
        np.testing.assert_allclose(B, 10.0 * mean.task_covariance())

    without = Without(3, n_tasks=2, lam=0.3)
    assert linear_form(without, 2).loadings is None
    np.testing.assert_allclose(without.task_covariance(), mean.task_covariance())


def test_a_machine_learns_with_the_overridden_matrix():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((20, 2)), np.arange(20) % 2
    data = zoo.MultiTaskData.from_arrays(X, rng.standard_normal(20), task)
    fits = [
        zoo.MultiTaskKernelMachine(kernel=kernel, amplitude=1.0, likelihood=zoo.Gaussian(noise=0.5)).fit(
            data, "exact", random_seed=1, progress=False, draws=2, chains=1
        )
        for kernel in (
            Tenfold(3, W=[1.0, 2.0], kappa=1.0),
            ICM(3, W=np.sqrt(10.0) * np.array([1.0, 2.0]), kappa=10.0),
        )
    ]
    means = [fit.predict(X, task)["mean"].to_numpy() for fit in fits]
    np.testing.assert_allclose(means[0], means[1], rtol=1e-6)

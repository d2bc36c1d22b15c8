"""Graphs of tasks: constructors against sums by hand, bad input by name, weights as random variables."""

import pickle

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy.sparse.csgraph import laplacian
from scipy.stats import beta

from zoo.kernels.task_graph import TaskGraph

A = np.array([[0.0, 0.5, 0.0, 0.0], [0.5, 0.0, 0.2, 0.0], [0.0, 0.2, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
NAMES = ("a", "b", "c", "d")


@pytest.fixture
def graph():
    return TaskGraph(A, NAMES)


class TestGraph:
    def test_what_it_says(self, graph):
        assert graph.n_tasks == 4 and graph.n_components == 2
        assert graph.components.to_dict() == {"a": 0, "b": 0, "c": 0, "d": 1}
        assert graph.degree.to_dict() == pytest.approx({"a": 0.5, "b": 0.7, "c": 0.2, "d": 0.0})
        assert graph.edges.to_dict("index") == {
            "a - b": {"task": "a", "task_bis": "b", "weight": 0.5},
            "b - c": {"task": "b", "task_bis": "c", "weight": 0.2},
        }
        assert repr(graph) == "TaskGraph(4 tasks, 2 edges, 2 components: a, b, c, ...)"

    def test_is_frozen_and_a_copy(self):
        given = A.copy()
        graph = TaskGraph(given, NAMES)
        given[0, 1] = 0.9
        assert graph.adjacency[0, 1] == 0.5
        with pytest.raises(ValueError, match="read-only"):
            graph.adjacency[0, 1] = 0.1
        with pytest.raises(AttributeError):
            graph.task_names = ()

    def test_equality_and_pickling(self, graph):
        again = pickle.loads(pickle.dumps(graph))
        assert again == graph and hash(again) == hash(graph)
        assert graph != TaskGraph(A) and graph != TaskGraph(A / 2, NAMES) and graph != 1
        assert TaskGraph(A).task_names == ("task 0", "task 1", "task 2", "task 3")

    @pytest.mark.parametrize("normalised", [False, True])
    def test_laplacian(self, graph, normalised):
        L = graph.laplacian(normalised)
        assert L.dims == ("task", "task_bis") and L["task"].to_numpy().tolist() == list(NAMES)
        np.testing.assert_allclose(L, laplacian(A, normed=normalised), atol=1e-15)
        # As many zero eigenvalues as components.
        assert (np.linalg.eigvalsh(L) < 1e-12).sum() == graph.n_components

    def test_laplacian_is_the_regulariser(self, graph):
        u = np.random.default_rng(1).normal(size=(3, 4))
        J = 0.5 * sum(A[i, j] * np.sum((u[:, i] - u[:, j]) ** 2) for i in range(4) for j in range(4))
        assert np.trace(u @ graph.laplacian().to_numpy() @ u.T) == pytest.approx(J)

    def test_one_task(self):
        graph = TaskGraph([[0.0]], ["only"])
        assert graph.n_components == 1 and graph.edges.empty and graph.laplacian().item() == 0.0


class TestAdjacency:
    def test_frame_is_read_by_names(self, graph):
        frame = pd.DataFrame(A, NAMES, NAMES)
        assert TaskGraph.from_adjacency(frame) == graph == TaskGraph.from_adjacency(A, NAMES)
        assert TaskGraph.from_adjacency(frame.loc[:, ["d", "b", "a", "c"]]) == graph
        moved = TaskGraph.from_adjacency(frame, ["d", "c", "b", "a"])
        assert moved.task_names == ("d", "c", "b", "a") and moved.adjacency[2, 3] == 0.5

    def test_rounding_is_mended(self):
        noisy = A.copy()
        noisy[0, 1] = 0.5 + 1e-14
        noisy[2, 3] = -1e-15
        graph = TaskGraph(noisy)
        np.testing.assert_array_equal(graph.adjacency, graph.adjacency.T)
        assert graph.adjacency.min() == 0.0 and len(graph.edges) == 2

    @pytest.mark.parametrize(
        ("at", "value", "match"),
        [
            ((0, 1), 0.4, "not symmetric: 0.4 from 'a' to 'b', 0.5 back"),
            ((0, 1), 1.5, "1.5 between 'a' and 'b', outside"),
            ((1, 2), -0.2, "-0.2 between 'b' and 'c', outside"),
            ((2, 2), 1.0, "joins 'c' to itself, weight 1"),
            ((0, 1), np.nan, "adjacency is nan"),
        ],
    )
    def test_bad_matrix_names_the_tasks(self, at, value, match):
        bad = A.copy()
        bad[at] = value
        if "not symmetric" not in match:
            bad[at[::-1]] = value
        with pytest.raises(ValueError, match=match):
            TaskGraph(bad, NAMES)

    def test_bad_shapes_and_names(self):
        with pytest.raises(ValueError, match=r"adjacency has shape \(3, 4\)"):
            TaskGraph(A[:3], NAMES)
        with pytest.raises(ValueError, match="task_names has 3 names for 4 tasks"):
            TaskGraph(A, NAMES[:3])
        with pytest.raises(ValueError, match="task_names holds 'a' twice"):
            TaskGraph(A, ("a", "a", "b", "c"))
        frame = pd.DataFrame(A, NAMES, ["a", "b", "c", "e"])
        with pytest.raises(ValueError, match="task 'd' is not in all of the rows"):
            TaskGraph.from_adjacency(frame)
        with pytest.raises(ValueError, match="task 'd' is not in all of the rows"):
            TaskGraph.from_adjacency(pd.DataFrame(A, NAMES, NAMES), ["a", "b", "c"])


class TestEdges:
    def test_pairs_and_triples(self, graph):
        assert TaskGraph.from_edges([("a", "b", 0.5), ("c", "b", 0.2)], NAMES) == graph
        assert TaskGraph.from_edges([("a", "b")], NAMES).adjacency[1, 0] == 1.0
        assert TaskGraph.from_edges([], NAMES).n_components == 4
        assert TaskGraph.from_edges([[1, 2]], [1, 2]).task_names == ("1", "2")
        table = graph.edges
        assert TaskGraph.from_edges(table.itertuples(index=False), NAMES) == graph

    @pytest.mark.parametrize(
        ("edge", "match"),
        [
            (("a", "x"), "'x' of .* is not in task_names"),
            (("a", "a"), "joins 'a' to itself"),
            (("b", "a"), "joins 'b' and 'a' twice"),
            (("a", "c", 0.0), "weight of edge 'a' - 'c' is 0.0"),
            (("a", "c", 2.0), "adjacency is 2 between 'a' and 'c'"),
            (("a",), "Give"),
            ("ab", "edges holds 'ab'"),
        ],
    )
    def test_bad_edge(self, edge, match):
        with pytest.raises(ValueError, match=match):
            TaskGraph.from_edges([("a", "b"), edge], NAMES)


class TestNearest:
    def test_by_hand(self):
        place = pd.DataFrame({"x": [0.0, 1.0, 3.0, 10.0]}, index=list(NAMES))
        graph = TaskGraph.nearest(place, k=1)
        assert list(graph.edges.index) == ["a - b", "b - c", "c - d"]
        assert (graph.edges["weight"] == 1.0).all()
        soft = TaskGraph.nearest(place, k=1, weight="gaussian", scale=False)
        np.testing.assert_allclose(soft.edges["weight"], np.exp(-0.5 * (np.array([1, 2, 7]) / (10 / 3)) ** 2))
        assert TaskGraph.nearest(place, k=3).n_components == 1
        assert len(TaskGraph.nearest(place, k=3).edges) == 6

    def test_scale(self):
        """In metres and kilometres alike; a constant column says nothing."""
        rng = np.random.default_rng(1)
        X = rng.normal(size=(12, 2))
        graph = TaskGraph.nearest(X, k=3, weight="gaussian")
        again = TaskGraph.nearest(
            np.column_stack([X * [1000.0, 0.1] + 5.0, np.full(12, 0.1)]), k=3, weight="gaussian"
        )
        np.testing.assert_allclose(again.adjacency, graph.adjacency)
        assert TaskGraph.nearest(X * [1000.0, 0.1], k=3, scale=False) != TaskGraph.nearest(X, k=3)
        assert (graph.adjacency > 0).sum(axis=1).min() >= 3

    def test_repeated_places(self):
        graph = TaskGraph.nearest(np.ones((4, 2)), k=1, weight="gaussian")
        assert set(graph.edges["weight"]) == {1.0}

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"k": 4}, "k is 4, and there are 4 tasks"),
            ({"k": 0}, "k is 0"),
            ({"weight": "cubic"}, "weight: 'cubic'"),
            ({"task_names": ["a"]}, "task_names has 1 name for 4"),
        ],
    )
    def test_bad_input(self, settings, match):
        with pytest.raises(ValueError, match=match):
            TaskGraph.nearest(np.eye(4), **settings)


class TestCorrelation:
    U = np.random.default_rng(3).normal(size=(6, 4))

    def test_from_coefficients(self):
        r = np.corrcoef(self.U, rowvar=False)
        graph = TaskGraph.correlation(self.U)
        expected = np.maximum(r, 0.0) - np.eye(4)
        np.testing.assert_allclose(graph.adjacency, expected, atol=1e-12)
        assert (r < 0).any()
        np.testing.assert_allclose(TaskGraph.correlation(r).adjacency, expected, atol=1e-12)
        both = TaskGraph.correlation(self.U, threshold=0.3, absolute=True).adjacency
        np.testing.assert_allclose(both, np.where(np.abs(r) > 0.3, np.abs(r), 0.0) - np.eye(4), atol=1e-12)

    def test_named(self):
        array = xr.DataArray(
            np.stack([self.U + 1, self.U - 1])[None],
            dims=("chain", "draw", "feature", "task"),
            coords={"task": list(NAMES)},
        )
        graph = TaskGraph.correlation(array)
        assert graph.task_names == NAMES
        np.testing.assert_allclose(graph.adjacency, TaskGraph.correlation(self.U).adjacency, atol=1e-12)
        r = xr.DataArray(
            np.corrcoef(self.U, rowvar=False), dims=("task", "task_bis"), coords={"task": list(NAMES)}
        )
        np.testing.assert_allclose(TaskGraph.correlation(r).adjacency, graph.adjacency, atol=1e-12)
        frame = pd.DataFrame(self.U, columns=list(NAMES))
        assert TaskGraph.correlation(frame).task_names == NAMES

    @pytest.mark.parametrize(
        ("coefficients", "settings", "match"),
        [
            (U, {"threshold": 1.0}, "threshold is 1.0"),
            (U, {"threshold": -0.1}, "threshold is -0.1"),
            (U[:1], {}, "coefficients has one row"),
            (np.column_stack([U, np.ones(6)]), {}, "coefficients of 'task 4' are the same for every feature"),
            (xr.DataArray(U, dims=("feature", "school")), {}, "no dim 'task'"),
            (xr.DataArray(U[0], dims="task"), {}, "no dim beside 'task'"),
        ],
    )
    def test_bad_input(self, coefficients, settings, match):
        with pytest.raises(ValueError, match=match):
            TaskGraph.correlation(coefficients, **settings)


class TestHierarchy:
    frame = pd.DataFrame(
        {"country": ["x", "x", "x", "y"], "town": ["p", "p", None, "p"], "size": [1, 2, 3, 4]},
        index=list(NAMES),
    )

    def test_by_hand(self):
        graph = TaskGraph.hierarchy(self.frame, ["country", "town"])
        assert graph.edges["weight"].to_dict() == {
            "a - b": 1.0,
            "a - c": 0.5,
            "a - d": 0.5,
            "b - c": 0.5,
            "b - d": 0.5,
        }
        np.testing.assert_allclose(TaskGraph.hierarchy(self.frame).adjacency * 3 / 2, graph.adjacency)
        assert TaskGraph.hierarchy(self.frame, "country").n_components == 2

    @pytest.mark.parametrize(
        ("frame", "levels", "match"),
        [
            (frame, ["region"], "levels: 'region' is unknown"),
            (frame, [], "levels is empty"),
            (frame, ["town", "town"], "a column twice"),
            (frame.to_numpy(), None, "frame is a ndarray"),
            (frame.iloc[[0, 0]], None, "frame.index holds 'a' twice"),
        ],
    )
    def test_bad_input(self, frame, levels, match):
        with pytest.raises(ValueError, match=match):
            TaskGraph.hierarchy(frame, levels)


class TestEdgeWeights:
    def test_matrix(self, graph):
        with pm.Model() as model:
            W = graph.edge_weights(alpha=2.0, beta=3.0)
        assert model.coords["edge"] == ("a - b", "b - c")
        assert model.named_vars_to_dims["edge_weight"] == ("edge",)
        value = W.eval({model["edge_weight"]: [0.3, 0.9]})
        expected = np.zeros((4, 4))
        expected[0, 1] = expected[1, 0] = 0.3
        expected[1, 2] = expected[2, 1] = 0.9
        np.testing.assert_array_equal(value, expected)
        assert W.type.shape == (4, 4) and W.dtype == "float64"
        density = pm.logp(model["edge_weight"], np.array([0.3, 0.9])).eval()
        np.testing.assert_allclose(density, beta(2, 3).logpdf([0.3, 0.9]))

    def test_several_in_a_model(self, graph):
        other = TaskGraph.from_edges([("c", "d")], NAMES)
        with pm.Model() as model:
            graph.edge_weights()
            other.edge_weights("second")
            with pytest.raises(ValueError, match="dim 'edge' with other edges"):
                other.edge_weights()
        assert model.coords["second_edge"] == ("c - d",)

    def test_in_a_kernel(self, graph):
        """The pseudo-inverse of the Laplacian of the weights, with a gradient in them."""
        graph_laplacian = pytest.importorskip("zoo.kernels.graph_laplacian")
        with pm.Model() as model:
            kernel = graph_laplacian.GraphLaplacian(
                2,
                adjacency=graph.edge_weights(),
                support=graph.adjacency,
                task_names=graph.task_names,
                active_dims=[0, 1],
            )
        matrix = kernel.task_matrix()
        value = matrix.eval({model["edge_weight"]: [0.5, 0.2]})
        np.testing.assert_allclose(value, np.linalg.pinv(graph.laplacian().to_numpy()), atol=1e-10)
        slope = pt.grad(pt.trace(matrix), model["edge_weight"])
        assert np.isfinite(slope.eval({model["edge_weight"]: [0.5, 0.2]})).all()

    def test_bad_input(self, graph):
        with pytest.raises(TypeError):
            graph.edge_weights()
        with pm.Model():
            with pytest.raises(ValueError, match="alpha is 0"):
                graph.edge_weights(alpha=0)
            with pytest.raises(ValueError, match="no edge that could have a weight"):
                TaskGraph(np.zeros((2, 2))).edge_weights()

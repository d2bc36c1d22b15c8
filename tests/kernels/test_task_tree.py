"""Hierarchies of tasks: names and parents from tables, the kernel against recursions, bad trees by name."""

import pickle

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest

import zoo
from zoo.kernels import TaskTree, Tree, kernel_matrix

FRAME = pd.DataFrame(
    {
        "region": ["north", "north", "north", "south", "south", "south"],
        "city": ["Leeds", "York", "Leeds", "Bath", "Wells", "Bath"],
        "district": ["east", "west", "centre", "east", "park", "abbey"],
    }
)
LEVELS = ["region", "city", "district"]
LEAVES = (
    "abbey",
    "centre",
    "north / Leeds / east",
    "park",
    "south / Bath / east",
    "west",
)


@pytest.fixture
def tree():
    return TaskTree.from_frame(FRAME, LEVELS)


def _by_parents(tree):
    return {name: tree.ancestors(name)[:1] for name in tree.names}


def _recursion(parent, sigma):
    """Covariance of u_j = u_parent(j) + sigma_j epsilon_j, node by node; parents before children."""
    C = np.zeros((len(parent), len(parent)))
    for j, above in enumerate(parent):
        if above >= 0:
            C[j, :j] = C[:j, j] = C[above, :j]
        C[j, j] = sigma[j] ** 2 + (C[above, above] if above >= 0 else 0.0)
    return C


# ---------------------------------------------------------------- what it says


class TestTree:
    def test_from_frame(self, tree):
        assert tree.n_nodes == 13 and tree.root == "all"
        assert tree.leaves == LEAVES
        assert _by_parents(tree) == {
            "all": (),
            "north": ("all",),
            "south": ("all",),
            "Leeds": ("north",),
            "York": ("north",),
            "Bath": ("south",),
            "Wells": ("south",),
            "west": ("York",),
            "centre": ("Leeds",),
            "north / Leeds / east": ("Leeds",),
            "park": ("Wells",),
            "abbey": ("Bath",),
            "south / Bath / east": ("Bath",),
        }
        assert tree.ancestors("abbey") == ("Bath", "south", "all")
        assert tree.depth == (0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3)
        assert tree.levels == tuple(LEVELS) and tree.level_names == ("root", *LEVELS)
        assert all(tree.parent[i] < i for i in range(tree.n_nodes))

    def test_one_value_on_top_is_the_root(self):
        north = TaskTree.from_frame(FRAME[:3], LEVELS)
        assert north.root == "north" and north.n_levels == 3 and north.level_names == tuple(LEVELS)
        assert north.ancestors("west") == ("York", "north")
        assert north.leaf_of(FRAME[:3]).tolist() == ["east", "west", "centre"]
        assert TaskTree.from_frame(FRAME, "region").ancestors("south") == ("all",)

    def test_a_value_at_several_levels_is_named_by_its_path(self):
        frame = pd.DataFrame(
            {"state": ["New York", "New York", "Ohio"], "city": ["New York", "Troy", "Troy"]}
        )
        tree = TaskTree.from_frame(frame, ["state", "city"])
        assert tree.leaves == ("New York / New York", "New York / Troy", "Ohio / Troy")
        assert tree.ancestors("New York / Troy") == ("New York", "all")
        assert tree.leaf_of(frame).tolist() == list(tree.leaves)

    def test_numbers_are_names(self):
        frame = pd.DataFrame({0: [1, 1, 2], 1: [98101, 98102, 98103]})
        tree = TaskTree.from_frame(frame, [0, 1])
        assert tree.leaves == ("98101", "98102", "98103") and tree.levels == ("0", "1")
        assert tree.leaf_of(frame[::-1]).tolist() == ["98103", "98102", "98101"]

    def test_from_parents(self):
        parents = {"Leeds": "north", "York": "north", "Bath": "all", "north": "all"}
        tree = TaskTree.from_parents(parents)
        assert tree.names == ("all", "Bath", "north", "Leeds", "York") and tree.parent == (-1, 0, 0, 2, 2)
        assert tree.leaves == ("Bath", "Leeds", "York") and tree.level_names == (
            "level 0",
            "level 1",
            "level 2",
        )
        assert (
            tree
            == TaskTree.from_parents({**parents, "all": None})
            == TaskTree.from_parents(pd.Series(parents))
        )

    def test_repr(self, tree):
        assert repr(tree) == "TaskTree(13 nodes, 6 leaves, 4 levels: region > city > district)"
        assert repr(TaskTree.from_parents({"a": "b"})) == "TaskTree(2 nodes, 1 leaf, 2 levels)"

    def test_equality_hash_and_pickling(self, tree):
        again = TaskTree.from_frame(pd.concat([FRAME[::-1], FRAME]), LEVELS)
        assert again == tree and hash(again) == hash(tree)
        copy = pickle.loads(pickle.dumps(tree))
        assert copy == tree and hash(copy) == hash(tree)
        others = [
            TaskTree.from_frame(FRAME, LEVELS[:2]),
            TaskTree.from_frame(FRAME, LEVELS, root="England"),
            TaskTree(tree.names, tree.parent),
            tree.with_leaf("new", "Bath"),
        ]
        assert len({tree, *others}) == 5
        with pytest.raises(AttributeError):
            tree.names = ()

    def test_leaf_of(self, tree):
        shuffled = FRAME.sample(frac=1.0, random_state=1)
        leaf = tree.leaf_of(shuffled)
        for (_, row), name in zip(shuffled.iterrows(), leaf, strict=True):
            assert tree.values[tree.names.index(name)] == row.district
            assert [tree.values[tree.names.index(up)] for up in tree.ancestors(name)] == [
                row.city,
                row.region,
                "all",
            ]
        data = zoo.MultiTaskData.from_arrays(np.ones((6, 1)), np.arange(6.0), task=leaf)
        assert data.task_names == tree.leaves

    def test_with_leaf(self, tree):
        more = tree.with_leaf("south / Bath / centre", "Bath").with_leaf("quay", "York")
        assert tree.n_nodes == 13 and more.n_nodes == 15
        assert more.ancestors("south / Bath / centre") == ("Bath", "south", "all")
        assert set(more.leaves) - set(tree.leaves) == {"south / Bath / centre", "quay"}
        new = pd.DataFrame(
            [["south", "Bath", "centre"], ["north", "York", "quay"], ["north", "Leeds", "centre"]],
            columns=LEVELS,
        )
        assert more.leaf_of(new).tolist() == ["south / Bath / centre", "quay", "centre"]
        by_parent = tree.with_leaf("Bath / centre", "Bath")
        assert by_parent.leaf_of(new[:1]).tolist() == ["Bath / centre"]
        for name in tree.names:
            assert more.ancestors(name) == tree.ancestors(name)


# ---------------------------------------------------------------- the kernel


class TestKernel:
    SIGMA = (0.5, 1.0, 0.7, 0.3)

    def test_is_the_recursion(self, tree):
        kernel = tree.kernel(level_sigma=self.SIGMA)
        assert isinstance(kernel, Tree) and kernel.task_names == LEAVES
        steps = np.array(self.SIGMA)[list(tree.depth)]
        full = _recursion(tree.parent, steps)
        at = [tree.names.index(name) for name in LEAVES]
        B = kernel.task_matrix().eval()
        np.testing.assert_allclose(B, full[np.ix_(at, at)], rtol=1e-14)
        # The same from the matrix of edges, A[parent(j), j] = 1: (I - A')^-1 S (I - A)^-1, not its transposes.
        A = np.zeros((tree.n_nodes, tree.n_nodes))
        for j, above in enumerate(tree.parent):
            if above >= 0:
                A[above, j] = 1.0
        inverse = np.linalg.inv(np.eye(tree.n_nodes) - A)
        np.testing.assert_allclose(inverse.T @ np.diag(steps**2) @ inverse, full, atol=1e-14)
        assert not np.allclose(inverse @ np.diag(steps**2) @ inverse.T, full)

    def test_is_the_sum_over_common_ancestors(self, tree):
        B = tree.kernel(level_sigma=self.SIGMA, tasks=tree.names).task_matrix().eval()
        step = dict(zip(tree.names, np.array(self.SIGMA)[list(tree.depth)], strict=True))
        for i, one in enumerate(tree.names):
            for j, other in enumerate(tree.names):
                common = {one, *tree.ancestors(one)} & {other, *tree.ancestors(other)}
                assert B[i, j] == pytest.approx(sum(step[name] ** 2 for name in common), rel=1e-13)

    def test_is_the_covariance_of_simulated_steps(self, tree):
        """Null: the steps' covariance is B. Each entry within 5 standard errors: false alarm below 3e-5 in all."""
        n = 100_000
        rng = np.random.default_rng(1)
        u = np.zeros((tree.n_nodes, n))
        for j, above in enumerate(tree.parent):
            u[j] = (u[above] if above >= 0 else 0.0) + self.SIGMA[tree.depth[j]] * rng.standard_normal(n)
        B = tree.kernel(level_sigma=self.SIGMA, tasks=tree.names).task_matrix().eval()
        error = np.sqrt((np.outer(np.diag(B), np.diag(B)) + B**2) / n)
        assert (np.abs(u @ u.T / n - B) < 5.0 * error).all()

    def test_tasks_in_the_order_of_the_data(self, tree):
        order = [LEAVES[i] for i in (3, 0, 5)]
        assert [tree.names[i] for i in tree.for_tasks(order)] == order
        some = tree.kernel(level_sigma=self.SIGMA, tasks=order)
        assert some.task_names == tuple(order)
        B = tree.kernel(level_sigma=self.SIGMA).task_matrix().eval()
        np.testing.assert_array_equal(some.task_matrix().eval(), B[np.ix_((3, 0, 5), (3, 0, 5))])
        assert tree.for_tasks("park").tolist() == [tree.names.index("park")]

    def test_a_new_leaf_changes_nothing_among_the_others(self, tree):
        more = tree.with_leaf("new", "Bath")
        tasks = [*LEAVES, "new"]
        B = more.kernel(level_sigma=self.SIGMA, tasks=tasks).task_matrix().eval()
        np.testing.assert_array_equal(B[:6, :6], tree.kernel(level_sigma=self.SIGMA).task_matrix().eval())
        np.testing.assert_array_equal(B[6, [0, 4]], B[0, [4, 4]])  # as its sisters in Bath to each other

    def test_steps_by_name_of_the_level_and_as_random_variables(self, tree):
        named = dict(zip(("root", *LEVELS), self.SIGMA, strict=True))
        X = np.column_stack([np.linspace(-1.0, 1.0, 6), np.arange(6.0)])
        expected = kernel_matrix(tree.kernel(2, level_sigma=self.SIGMA), X)
        np.testing.assert_array_equal(kernel_matrix(tree.kernel(2, level_sigma=named), X), expected)
        with pm.Model():
            city = pm.HalfNormal("city")
            kernel = tree.kernel(2, level_sigma={**named, "city": city})
            B = kernel.task_matrix()
        value = B.eval({city: np.float64(named["city"])})
        np.testing.assert_allclose(value, tree.kernel(level_sigma=self.SIGMA).task_matrix().eval())
        assert tree.kernel(sigma=0.5).task_matrix().eval()[0, 0] == 4 * 0.25
        assert tree.kernel(level_sigma=pt.as_tensor(self.SIGMA)).task_names == LEAVES

    def test_serves_a_kernel_machine(self, tree):
        rng = np.random.default_rng(3)
        frame = pd.concat([FRAME] * 4, ignore_index=True)
        data = zoo.MultiTaskData.from_arrays(
            rng.standard_normal((24, 2)), rng.standard_normal(24), tree.leaf_of(frame)
        )
        kernel = tree.kernel(3, level_sigma=self.SIGMA, tasks=data.task_names)
        zoo.MultiTaskKernelMachine(kernel=kernel).build(data)
        assert zoo.kernels.restore(zoo.kernels.describe(kernel)).task_names == data.task_names


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "the parents of 'a' lead back to it"),
        ({"a": "root", "b": "c", "c": "b"}, "the parents of '[bc]' lead back to it"),
        ({"a": "a"}, "the parents of 'a' lead back to it"),
        ({"a": "b", "c": "d"}, "'b' and 'd' have no parent"),
        ({"a": None, "b": None}, "'a' and 'b' have no parent"),
        ({}, "parents is empty"),
        ({1: "b", "1": "c"}, "parents holds '1' twice"),
        (pd.Series({"x": "b"}).rename({"x": "a"}).reindex(["a", "a"]), "parents.index holds 'a' twice"),
    ],
)
def test_bad_parents(parents, message):
    with pytest.raises(ValueError, match=message):
        TaskTree.from_parents(parents)


def test_bad_nodes():
    for names, parent, message in (
        ((), (), "names is empty"),
        (("a", "a"), (-1, 0), "names holds 'a' twice"),
        (("a", "b"), (-1,), "names has 2 entries, parent 1"),
        (("a", "b"), (-1, 2), "parent of 'b' is 2, outside"),
    ):
        with pytest.raises(ValueError, match=message):
            TaskTree(names, parent)


def test_bad_tables(tree):
    with pytest.raises(ValueError, match=r"df has no column 'town'. Its columns are region, city, district"):
        TaskTree.from_frame(FRAME, ["region", "town"])
    with pytest.raises(ValueError, match="levels is empty"):
        TaskTree.from_frame(FRAME, [])
    with pytest.raises(ValueError, match="levels holds 'city' twice"):
        TaskTree.from_frame(FRAME, ["city", "city"])
    with pytest.raises(TypeError, match="df is a dict"):
        TaskTree.from_frame({}, ["city"])
    with pytest.raises(ValueError, match="df has no rows"):
        TaskTree.from_frame(FRAME[:0], LEVELS)
    missing = FRAME.set_index(pd.Index(list("abcdef")))
    missing.loc["d", "city"] = None
    with pytest.raises(ValueError, match="df column 'city' is missing in row d"):
        TaskTree.from_frame(missing, LEVELS)
    with pytest.raises(ValueError, match="df column 'city' is missing in row d"):
        tree.leaf_of(missing)
    with pytest.raises(ValueError, match="df has a value 'north', which is the name of the root"):
        TaskTree.from_frame(FRAME, LEVELS, root="north")
    clash = pd.DataFrame({"a": ["p / q", "p", "p", "r"], "b": ["u", "q", "w", "q"]})
    with pytest.raises(ValueError, match="two nodes of the name 'p / q'"):
        TaskTree.from_frame(clash, ["a", "b"])


def test_bad_leaves(tree):
    new = pd.DataFrame([["north", "York", "quay"]], columns=LEVELS, index=["row 7"])
    with pytest.raises(ValueError, match="df has 'north / York / quay' in row row 7, which is no leaf"):
        tree.leaf_of(new)
    with pytest.raises(ValueError, match="df has no column 'district'"):
        tree.leaf_of(FRAME[["region", "city"]])
    with pytest.raises(ValueError, match="the tree has no levels"):
        TaskTree.from_parents({"a": "b"}).leaf_of(FRAME)
    with pytest.raises(ValueError, match=r"name 'centre' is a node of the tree already.*'Bath / centre' say"):
        tree.with_leaf("centre", "Bath")
    with pytest.raises(ValueError, match="is the node 'south / Bath / east' below 'Bath'"):
        tree.with_leaf("Bath / east", "Bath")
    with pytest.raises(ValueError, match="parent 'park' is a leaf"):
        tree.with_leaf("bench", "park")
    with pytest.raises(ValueError, match="parent: 'Hull' is unknown"):
        tree.with_leaf("dock", "Hull")
    with pytest.raises(ValueError, match="name: 'Hull' is unknown"):
        tree.ancestors("Hull")
    with pytest.raises(ValueError, match="task_names: 'Hull' is unknown"):
        tree.kernel(tasks=["park", "Hull"])
    with pytest.raises(ValueError, match="tasks: 'roots' is unknown"):
        tree.kernel(tasks="roots")
    with pytest.raises(ValueError, match="level_sigma has no 'city'"):
        tree.kernel(level_sigma={"root": 1.0, "region": 1.0, "district": 1.0})
    with pytest.raises(ValueError, match="level_sigma: 'town' is unknown"):
        tree.kernel(level_sigma={"town": 1.0})
    with pytest.raises(ValueError, match="level_sigma has 2 entries, and the tree 4 levels"):
        tree.kernel(level_sigma=[1.0, 2.0])

"""Covariances on (x, task): the contract and the formula of each, against other libraries, and in PyMC."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph

from tests.kernels.task_kernels import (
    CHAIN,
    MAPS,
    PAIRS,
    PARENT,
    PRECISION,
    SOFT,
    TASK,
    WIDE_MAPS,
    D,
    Q,
    T,
    X,
    cov,
    evaluated,
)
from zoo.kernels import (
    ICM,
    LMC,
    Clustered,
    FeatureMap,
    GraphLaplacian,
    MeanRegularised,
    TaskKernel,
    TaskPrecision,
    Tree,
    describe,
    kernel_diagonal,
    kernel_matrix,
    restore,
)
from zoo.testing import KernelTestCase

RNG = np.random.default_rng(11)


def loop(kernel, B, k):
    """The formula itself, pair by pair."""
    return np.array(
        [
            [B[a, b] * k(x, t) for t, b in zip(X[:, :-1], TASK, strict=True)]
            for x, a in zip(X[:, :-1], TASK, strict=True)
        ]
    )


# ---------------------------------------------------------------- the contract


class TestMeanRegularised(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=0.3, task_names=list("abcd"))


class TestMeanRegularisedWithMetric(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=1.0, Q=Q)


class TestMeanRegularisedWithSingularMetric(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, Q=np.ones((D, D)))


class TestMeanRegularisedWithBase(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=0.3, base=cov.Matern52(D, ls=[0.7, 1.3]) * 2.0)


class TestIntercepts(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=0.3, base=cov.Constant(0.5))


class TestTaskPrecision(KernelTestCase):
    def make_kernel(self):
        return TaskPrecision(D + 1, PRECISION)


class TestHardClusters(KernelTestCase):
    def make_kernel(self):
        return Clustered(D + 1, ["north", "south", "north", "west"], rho=0.7)


class TestSoftClusters(KernelTestCase):
    def make_kernel(self):
        return Clustered(D + 1, SOFT, rho=0.7)


class TestGraph(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, CHAIN)


class TestGraphOfTwoComponents(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, PAIRS)


class TestRegularisedGraph(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, PAIRS, regularisation=0.2)


class TestNormalisedGraph(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, CHAIN, normalised=True)


class TestTree(KernelTestCase):
    def make_kernel(self):
        return Tree(D + 1, PARENT, sigma=np.linspace(0.5, 1.5, 7), tasks="leaves")


class TestTreeByLevel(KernelTestCase):
    def make_kernel(self):
        return Tree(D + 1, PARENT, level_sigma=[0.3, 0.5, 1.0])


class TestTreeOfInnerNodes(KernelTestCase):
    def make_kernel(self):
        return Tree(D + 1, PARENT, sigma=0.8, tasks=[1, 3, 6])


class TestFeatureMap(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, WIDE_MAPS)


class TestFeatureMapOfFewFeatures(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, MAPS)


class TestPolynomialFeatureMap(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, MAPS, degree=3)


class TestGaussianFeatureMap(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, MAPS, kernel=cov.ExpQuad(3, ls=2.0))


class TestDomains(KernelTestCase):
    def make_kernel(self):
        return FeatureMap.from_domains([1, 3, 2], [np.ones((2, 1)), np.eye(2, 3), -np.eye(2)])


class TestICM(KernelTestCase):
    def make_kernel(self):
        return ICM(D + 1, MAPS[:, :2, 0], kappa=[0.1, 0.0, 0.3, 1.0])


class TestICMWithBase(KernelTestCase):
    def make_kernel(self):
        return ICM(D + 1, MAPS[:, 0, 0], base=cov.ExpQuad(D, ls=0.7))


class TestLMC(KernelTestCase):
    def make_kernel(self):
        rough = ICM(D + 1, MAPS[:, :1, 1], kappa=0.2, base=cov.Matern32(D, ls=0.7))
        return LMC(D + 1, [TestICMWithBase().make_kernel(), rough])


class TestActiveColumns(KernelTestCase):
    """The task stands in the second column of four."""

    def make_kernel(self):
        return MeanRegularised(4, T, lam=0.3, active_dims=[3, 0, 1])


class _Decay(TaskKernel):
    """What a user writes: tasks in a row, less alike the further apart."""

    parameters = {"rate": "positive"}

    def __init__(self, input_dim, n_tasks, rate=1.0, **arguments):
        super().__init__(input_dim, n_tasks, **arguments)
        self.rate = rate

    def task_matrix(self):
        steps = np.abs(np.subtract.outer(np.arange(self.n_tasks), np.arange(self.n_tasks)))
        return pt.exp(-self.rate * steps)


class TestOwnKernel(KernelTestCase):
    def make_kernel(self):
        return _Decay(D + 1, T, rate=0.4, base=cov.ExpQuad(D, ls=1.0))


# ---------------------------------------------------------------- formulas


def test_the_formulas_pair_by_pair():
    lam = 0.3
    same = np.eye(T)
    mean = (1 - lam) + lam * T * same
    np.testing.assert_allclose(
        kernel_matrix(MeanRegularised(3, T, lam), X), loop(0, mean, lambda x, t: x @ t)
    )
    metric = MeanRegularised(3, T, lam, Q=Q)
    np.testing.assert_allclose(kernel_matrix(metric, X), loop(0, mean, lambda x, t: x @ Q @ t))
    rbf = MeanRegularised(3, T, lam, base=cov.ExpQuad(2, ls=np.float64(0.7)))
    gauss = loop(0, mean, lambda x, t: np.exp(-np.sum((x - t) ** 2) / (2 * 0.7**2)))
    np.testing.assert_allclose(kernel_matrix(rbf, X), gauss, rtol=1e-10)
    inverse = np.linalg.inv(PRECISION)
    np.testing.assert_allclose(
        kernel_matrix(TaskPrecision(3, PRECISION), X), loop(0, inverse, lambda x, t: x @ t)
    )
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.0, 0.3, 1.0])
    rank = W @ W.T + np.diag(kappa)
    np.testing.assert_allclose(
        kernel_matrix(ICM(3, W, kappa), X), loop(0, rank, lambda x, t: x @ t), atol=1e-12
    )


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_feature_maps_pair_by_pair(degree):
    z = np.einsum("npd,nd->np", MAPS[TASK], X[:, :-1])
    K = (z @ z.T) ** degree
    np.testing.assert_allclose(
        kernel_matrix(FeatureMap(3, MAPS, degree=degree), X), K, rtol=1e-10, atol=1e-12
    )


def test_gaussian_of_mapped_features():
    z = np.einsum("npd,nd->np", MAPS[TASK], X[:, :-1])
    squared = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    beta = 0.3
    kernel = FeatureMap(3, MAPS, kernel=cov.ExpQuad(3, ls=np.sqrt(1 / (2 * beta))))
    np.testing.assert_allclose(kernel_matrix(kernel, X), np.exp(-beta * squared), rtol=1e-10, atol=1e-12)


def test_tasks_with_domains_of_their_own():
    maps = [RNG.standard_normal((2, d)) for d in (1, 3, 2)]
    kernel = FeatureMap.from_domains([1, 3, 2], maps)
    own = [RNG.standard_normal(d) for d in (1, 3, 2)]
    rows = []
    for task, x in enumerate(own):
        row = RNG.standard_normal(7)  # what the other domains' columns hold does not matter
        row[[0, 1, 4][task] : [1, 4, 6][task]], row[-1] = x, task
        rows.append(row)
    z = np.array([D_l @ x for D_l, x in zip(maps, own, strict=True)])
    np.testing.assert_allclose(kernel_matrix(kernel, np.array(rows)), z @ z.T, rtol=1e-10)


def test_lmc_is_the_sum_of_its_parts():
    parts = [TestICM().make_kernel(), TestICMWithBase().make_kernel()]
    both = LMC(3, parts)
    np.testing.assert_allclose(kernel_matrix(both, X), sum(kernel_matrix(p, X) for p in parts), rtol=1e-12)
    np.testing.assert_allclose(both.task_covariance(), sum(p.task_covariance().to_numpy() for p in parts))
    assert kernel_matrix(both + parts[0], X).shape == (11, 11)
    assert repr(both) == "LMC(4 tasks, 2 parts)"


def test_feature_map_task_covariance_is_the_covariance_of_the_coefficients():
    B = FeatureMap(3, MAPS).task_covariance()
    expected = np.einsum("lpd,qpd->lq", MAPS, MAPS) / D
    np.testing.assert_allclose(B, expected, rtol=1e-12)


# ---------------------------------------------------------------- trees


def test_without_input_dim_any_number_of_features_is_taken():
    adjacency = np.ones((3, 3)) - np.eye(3)
    kernels = [
        GraphLaplacian(adjacency=adjacency, regularisation=0.5),
        Tree(parent=[-1, 0, 0], sigma=1.0),
        MeanRegularised(n_tasks=3, lam=0.4),
        Clustered(clusters=[0, 0, 1]),
        ICM(W=np.ones((3, 1))),
        TaskPrecision(precision=np.eye(3)),
    ]
    for kernel in kernels:
        B = kernel.task_covariance().to_numpy()
        for width in (1, 4):
            x, task = RNG.random((5, width)), RNG.integers(0, 3, 5)
            K = kernel_matrix(kernel, np.column_stack([x, task]))
            np.testing.assert_allclose(K, B[np.ix_(task, task)] * (x @ x.T), rtol=1e-12)
        assert describe(restore(describe(kernel))) == describe(kernel)
    based = Tree(parent=[-1, 0, 0], base=cov.ExpQuad(2, ls=1.0))
    assert based.input_dim == 3
    assert (kernels[0] + GraphLaplacian(adjacency=adjacency)).input_dim == kernels[0].input_dim
    with pytest.raises(TypeError, match="adjacency is missing"):
        GraphLaplacian(3)


# ---------------------------------------------------------------- other libraries


def test_pymc_coregion_is_icm():
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.2, 0.3, 1.0])
    theirs = cov.Coregion(3, W=W, kappa=kappa, active_dims=[2]) * cov.ExpQuad(3, ls=0.7, active_dims=[0, 1])
    ours = ICM(3, W, kappa, base=cov.ExpQuad(2, ls=0.7))
    np.testing.assert_allclose(kernel_matrix(ours, X), kernel_matrix(theirs, X), rtol=1e-12)


@pytest.mark.filterwarnings("default")  # of PyTorch about its sparse tensors
def test_gpytorch():
    gpytorch = pytest.importorskip("gpytorch")
    torch = pytest.importorskip("torch")
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.2, 0.3, 1.0])
    index = gpytorch.kernels.IndexKernel(num_tasks=T, rank=2).double()
    index.covar_factor.data = torch.tensor(W)
    index.var = torch.tensor(kappa)
    theirs = index(torch.tensor(TASK)[:, None]).to_dense().detach().numpy()
    x = X[:, :-1]
    np.testing.assert_allclose(kernel_matrix(ICM(3, W, kappa), X), theirs * (x @ x.T), rtol=1e-6, atol=1e-8)
    multi = gpytorch.kernels.MultitaskKernel(gpytorch.kernels.RBFKernel(), num_tasks=T, rank=2).double()
    multi.data_covar_module.lengthscale = 0.7
    multi.task_covar_module.covar_factor.data = torch.tensor(W)
    multi.task_covar_module.var = torch.tensor(kappa)
    theirs = multi(torch.tensor(x)).to_dense().detach().numpy()
    every = np.column_stack([np.repeat(x, T, axis=0), np.tile(np.arange(T), len(x))])
    ours = kernel_matrix(ICM(3, W, kappa, base=cov.ExpQuad(2, ls=0.7)), every)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------- in PyMC


def test_hand_written_model_with_a_random_parameter():
    y = RNG.standard_normal(11)
    with pm.Model() as model:
        lam = pm.Beta("lam", 2.0, 2.0)
        rho = pm.Gamma("rho", 2.0, 1.0)
        kernel = MeanRegularised(3, T, lam) + Clustered(3, [0, 0, 1, 1], rho, base=cov.ExpQuad(2, ls=1.0))
        gp = pm.gp.Marginal(cov_func=kernel)
        gp.marginal_likelihood("y", X=pm.Data("X", X), y=y, sigma=0.3)
    point = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(point))
    assert np.all(np.isfinite(model.compile_dlogp(mode="FAST_COMPILE")(point)))
    with model:
        f = gp.conditional("f", X[:3])
    assert np.all(np.isfinite(pm.draw(f, mode="FAST_COMPILE", random_seed=1)))


def test_default_backend_never_reads_beyond_the_matrix():
    """Compiled by Numba, which checks no index: a wrong task raises and is not read."""
    inputs = pt.matrix("inputs")
    kernel = MeanRegularised(3, T, 0.3)
    function = pytensor.function([inputs], kernel(inputs))
    np.testing.assert_allclose(function(X), kernel_matrix(kernel, X), rtol=1e-12)
    for wrong in (-1.0, 4.0, 1e9, -1e9, 0.5, np.nan, np.inf):
        bad = X.copy()
        bad[3, 2] = wrong
        with pytest.raises(ValueError, match=r"does not have\. Give whole numbers 0 \.\. 3"):
            function(bad)
    with pytest.raises(ValueError, match="has not the 3 or 4 columns"):
        function(np.zeros((2, 2)))


def test_shared_inputs_are_checked_now_and_when_they_change():
    kernel = MeanRegularised(3, T, 0.3)
    with pm.Model():
        data = pm.Data("X", X)
        bad = pm.Data("bad", X + 0.5)
    with pytest.raises(ValueError, match=r"X has task \d\.5 in row 0"):
        kernel(bad)
    function = pytensor.function([], kernel(data), mode="FAST_COMPILE")
    np.testing.assert_allclose(function(), kernel_matrix(kernel, X), rtol=1e-12)
    data.set_value(X + 1)
    with pytest.raises(ValueError, match="has a task that the kernel MeanRegularised does not have"):
        function()


def test_graphs_of_known_inputs_hold_no_check():
    K = MeanRegularised(3, T, 0.3)(pt.as_tensor_variable(X))
    ops = {
        type(node.op).__name__ for node in pytensor.graph.FunctionGraph(outputs=[K], clone=True).apply_nodes
    }
    assert "CheckAndRaise" not in ops


def test_it_vectorizes_over_inputs():
    inputs, batch = pt.matrix("inputs"), pt.tensor3("batch")
    K = vectorize_graph(MeanRegularised(3, T, 0.3)(inputs), {inputs: batch})
    found = pytensor.function([batch], K, mode="FAST_COMPILE")(np.stack([X, X[::-1]]))
    expected = kernel_matrix(MeanRegularised(3, T, 0.3), X)
    np.testing.assert_allclose(found, [expected, expected[::-1, ::-1]], rtol=1e-12)


def test_input_dim_may_count_the_features():
    counted = MeanRegularised(2, T, 0.3)
    expected = kernel_matrix(MeanRegularised(3, T, 0.3), X)
    assert np.array_equal(kernel_matrix(counted, X), expected)
    assert np.array_equal(evaluated(counted(X.astype(object).astype(float).tolist())), expected)
    base = MeanRegularised(2, T, 0.3, base=cov.ExpQuad(2, ls=1.0))
    assert kernel_matrix(base, X).shape == (11, 11)
    with pytest.raises(ValueError, match="X has 2 columns, and the kernel MeanRegularised takes 3"):
        base(X[:, 1:])
    with pytest.raises(ValueError, match=r"X has 5 columns, and the kernel MeanRegularised takes 2 or 3\."):
        counted(np.zeros((3, 5)))
    with pytest.raises(ValueError, match=r"X has 1 dimension\(s\)"):
        counted(X[0])


def test_white_noise_as_a_base_belongs_to_the_inputs():
    kernel = MeanRegularised(3, T, 0.5, base=cov.WhiteNoise(2.0))
    np.testing.assert_allclose(kernel_matrix(kernel, X), 4.0 * 2.5 * np.eye(11))
    assert not kernel_matrix(kernel, X, X).any()
    np.testing.assert_allclose(kernel_diagonal(kernel, X), 10.0)


# ---------------------------------------------------------------- the page


def test_the_page_runs_and_every_picture_is_there():
    docs = Path(__file__).resolve().parents[2] / "docs"
    page = (docs / "kernels.md").read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if "pm.sample(" not in block:
            exec(compile(block, "kernels.md", "exec", dont_inherit=True), namespace)
    pictures = re.findall(r"\]\(kernels/(\w+)\.png\)", page)
    assert len(pictures) == 11
    for name in pictures:
        assert namespace[name].n_tasks == 6
        assert (docs / "kernels" / f"{name}.png").is_file()
    case = namespace["TestInARow"]()
    for name in [name for name in dir(case) if name.startswith("test_")]:
        if "pickle" not in name:  # classes of no module have no pickles
            getattr(case, name)()


# ---------------------------------------------------------------- the rest


class TwiceTheMean(MeanRegularised):
    """A subclass that says its matrix alone."""

    def task_matrix(self):
        return 2.0 * super().task_matrix()


@pytest.mark.parametrize("cls", [MeanRegularised, TwiceTheMean])
def test_entries_are_those_of_the_matrix(cls):
    kernel = cls(D, T, lam=0.3)
    B, X = kernel.task_matrix().eval(), np.column_stack([RNG.standard_normal((7, D)), RNG.integers(0, T, 7)])
    Y = np.column_stack([RNG.standard_normal((5, D)), RNG.integers(0, T, 5)])
    for given in (X, Y):
        entries = B[np.ix_(X[:, -1].astype(int), given[:, -1].astype(int))]
        np.testing.assert_allclose(
            kernel_matrix(kernel, X, given), entries * (X[:, :-1] @ given[:, :-1].T), rtol=1e-12
        )
    own = B.diagonal()[X[:, -1].astype(int)]
    np.testing.assert_allclose(kernel_diagonal(kernel, X), own * np.sum(X[:, :-1] ** 2, axis=1), rtol=1e-12)


def test_a_kernel_of_many_tasks_makes_no_matrix_of_them(monkeypatch):
    kernel = MeanRegularised(D, 100_000, lam=0.3)  # whose matrix would take 80 GB
    X = np.array([[1.0, 2.0, 99_999.0], [1.0, 0.0, 3.0]])
    np.testing.assert_allclose(kernel_matrix(kernel, X), [[5.0 * 30_000.7, 0.7], [0.7, 30_000.7]])

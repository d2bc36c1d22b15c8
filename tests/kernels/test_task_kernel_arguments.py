"""Arguments and inputs of covariances on (x, task) that are refused, and how they print."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from tests.kernels.task_kernels import MAPS, PAIRS, PARENT, T, X, cov
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
)


def test_repr():
    assert repr(MeanRegularised(3, T, 0.25)) == "MeanRegularised(4 tasks, lam=0.25)"
    assert repr(Tree(3, PARENT)) == "Tree(7 tasks, sigma=1)"
    assert repr(ICM(3, pt.matrix("W", shape=(T, 2)), kappa=pt.scalar())) == "ICM(4 tasks)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MeanRegularised(3, T, 0.0),
            r"lam is 0\. Give a number above 0 and at most 1: .*one function",
        ),
        (lambda: MeanRegularised(3, T, 1.1), r"lam is 1\.1"),
        (lambda: MeanRegularised(3, T, np.nan), r"lam is nan"),
        (lambda: MeanRegularised(3, T, [0.1, 0.2]), r"lam has 1 dimension"),
        (lambda: MeanRegularised(3, 0), r"n_tasks is 0"),
        (lambda: MeanRegularised(3, T, task_names=["a"]), r"task_names has 1 name for 4 tasks"),
        (lambda: MeanRegularised(3, T, task_names=["a", "b", "a", "c"]), r"task_names holds 'a' twice"),
        (lambda: MeanRegularised(3, T, Q=[[1, 2], [0, 1]]), r"Q is not symmetric: 2 and 0 between 0 and 1"),
        (lambda: MeanRegularised(3, T, Q=[[1, 2], [2, 1]]), r"Q is not positive semi-definite"),
        (lambda: MeanRegularised(3, T, Q=np.eye(4)), r"Q is of 4 features, and the inputs have 2"),
        (lambda: MeanRegularised(3, T, Q=np.eye(2), base=cov.Constant(1.0)), r"Q is of the linear kernel"),
        (lambda: MeanRegularised(3, T, base=cov.ExpQuad(5, ls=1.0)), r"base is of 5 features"),
        (lambda: TaskPrecision(3, [[1, 2], [2, 1]]), r"precision is not positive definite"),
        (lambda: TaskPrecision(3, np.ones((2, 2))), r"precision is not positive definite"),
        (lambda: TaskPrecision(3, np.ones((2, 3))), r"precision has shape \(2, 3\)\. Give a square"),
        (lambda: TaskPrecision(3, [1.0, 2.0]), r"precision has 1 dimension"),
        (lambda: TaskPrecision(3, pt.matrix()), r"precision is a tensor of unknown length\. Say n_tasks"),
        (lambda: Clustered(3, [0, 1], rho=0.0), r"rho is 0\.0\. Give a finite number above 0"),
        (
            lambda: Clustered(3, [[1, 0], [0, 0]], task_names=["a", "b"]),
            r"gives task 'b' no membership above 0",
        ),
        (lambda: Clustered(3, [[1, 0], [0, -1]]), r"clusters\[1, 1\] is -1\.0"),
        (lambda: Clustered(3, ["a", None]), r"clusters is empty or leaves a task without a label"),
        (lambda: Clustered(3, np.zeros((2, 2, 2))), r"clusters has 3 dimension"),
        (lambda: Clustered(3, [0, 1], n_tasks=3), r"clusters is of 2 tasks and n_tasks is 3"),
        (
            lambda: GraphLaplacian(3, [[0, 1], [0.5, 0]], task_names=["a", "b"]),
            r"1 and 0\.5 between 'a' and 'b'",
        ),
        (lambda: GraphLaplacian(3, [[0, 2], [2, 0]]), r"adjacency is 2 between 'task 0' and 'task 1'"),
        (lambda: GraphLaplacian(3, [[0, -1], [-1, 0]]), r"adjacency is -1 between .* divide by the largest"),
        (lambda: GraphLaplacian(3, PAIRS, regularisation=-1.0), r"regularisation is -1\.0"),
        (lambda: GraphLaplacian(3, PAIRS, support=[[1]]), r"support is not a symmetric \(4, 4\)"),
        (lambda: GraphLaplacian(3, [["a"]]), r"adjacency is \[\['a'\]\]\. Give numbers"),
        (lambda: Tree(3, [1, 2, 0]), r"parent leads from node 0 back to it"),
        (lambda: Tree(3, [-1, 2, 1]), r"parent leads from node 1 back to it"),
        (lambda: Tree(3, [-1, -1, 0]), r"parent is -1 for node 0 and for node 1"),
        (lambda: Tree(3, [-1, 0, 7]), r"parent of node 2 is 7, outside 0 \.\. 2"),
        (lambda: Tree(3, [-1, 0, -2]), r"parent of node 2 is -2"),
        (lambda: Tree(3, [-1, 0.5]), r"parent is \[-1, 0\.5\]"),
        (lambda: Tree(3, PARENT, sigma=[1.0, 2.0]), r"sigma has 2 entries, and the tree 7 nodes"),
        (
            lambda: Tree(3, PARENT, level_sigma=[1.0, 2.0]),
            r"level_sigma has 2 entries, and the tree 3 levels",
        ),
        (lambda: Tree(3, PARENT, sigma=-1.0), r"sigma is -1\.0"),
        (lambda: Tree(3, PARENT, sigma=1.0, level_sigma=[1, 1, 1]), r"sigma and level_sigma are both given"),
        (lambda: Tree(3, PARENT, tasks=[3, 9]), r"tasks holds node 9, outside 0 \.\. 6"),
        (lambda: Tree(3, PARENT, tasks=[3, 3]), r"tasks holds node 3 twice"),
        (lambda: Tree(3, PARENT, tasks=[]), r"tasks is \[\]"),
        (lambda: FeatureMap(3, np.ones((2, 3))), r"B has 2 dimension"),
        (lambda: FeatureMap(3, np.ones((2, 3, 5))), r"B is of 5 features, and the inputs have 2"),
        (lambda: FeatureMap(3, MAPS, degree=0), r"degree is 0"),
        (
            lambda: FeatureMap(3, MAPS, degree=2, kernel=cov.ExpQuad(3, ls=1.0)),
            r"degree is of the polynomial",
        ),
        (
            lambda: FeatureMap(3, MAPS, kernel=cov.ExpQuad(2, ls=1.0)),
            r"kernel has input_dim 2, and B maps to 3",
        ),
        (
            lambda: FeatureMap.from_domains([1, 2], [np.ones((2, 1))]),
            r"maps has 1 matrices, and dims 2 tasks",
        ),
        (lambda: FeatureMap.from_domains([1, 2], [np.ones((2, 1))] * 2), r"maps\[1\] has shape \(2, 1\)"),
        (lambda: ICM(3, MAPS[:, 0], kappa=[1.0]), r"kappa has 1 entry, and W 4 rows"),
        (lambda: ICM(3, MAPS[:, 0], kappa=-1.0), r"kappa is -1\.0"),
        (lambda: LMC(3, []), r"parts is empty"),
        (lambda: LMC(4, [ICM(3, [1.0, 2.0])]), r"parts\[0\] has input_dim 3, not 4"),
        (lambda: LMC(3, [ICM(3, [1.0, 2.0]), ICM(3, [1.0])]), r"parts\[1\] has other tasks"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MeanRegularised(3, T, "much"), r"lam is 'much'\. Give numbers"),
        (lambda: MeanRegularised(3, T, base="rbf"), r"base is a str"),
        (lambda: FeatureMap(3, MAPS, kernel=2.0), r"kernel is a float"),
        (lambda: LMC(3, [cov.ExpQuad(3, ls=1.0)]), r"parts\[0\] is a ExpQuad"),
        (lambda: FeatureMap(3, MAPS, degree=2).regulariser(), r"Use degree=1"),
        (lambda: FeatureMap(3, pt.tensor3(), n_tasks=2).regulariser(), r"B is random"),
        (lambda: MeanRegularised(3, T, Q=pt.matrix()).regulariser(), r"Q is random"),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_bad_inputs():
    from scipy.sparse import csr_matrix

    kernel = MeanRegularised(3, T, 0.3)
    with pytest.raises(ValueError, match=r"X is sparse.*toarray"):
        kernel(csr_matrix(X))
    with pytest.raises(ValueError, match="X has task 4 in row 0, and the kernel MeanRegularised has 4 tasks"):
        kernel(X, np.array([[0.0, 0.0, 4.0]]))
    with pytest.raises(NotImplementedError, match="Override task_matrix"):
        TaskKernel(3, T).task_matrix()

"""Parameters of kernels that are listed and replaced, and descriptions of kernels."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from tests.kernels.task_kernels import CHAIN, MAPS, PARENT, TASK, T, X, cov
from zoo.kernels import (
    ICM,
    Clustered,
    GraphLaplacian,
    MeanRegularised,
    TaskKernel,
    Tree,
    describe,
    kernel_matrix,
    kernel_parameters,
    restore,
    with_parameters,
)


def test_parameters_are_listed_and_replaced():
    rough = ICM(3, MAPS[:, 0, 0], base=cov.Matern32(2, ls=[1.0, 2.0]))
    smooth = MeanRegularised(3, T, 0.3, base=cov.RatQuad(2, alpha=0.7, ls=3.0))
    kernel = 0.5 * rough + 2.0 * smooth + cov.WhiteNoise(0.1) + GraphLaplacian(3, CHAIN) + 1.5
    description = describe(kernel)
    found = kernel_parameters(description)
    kinds = {name: parameter.kind for name, parameter in found.items()}
    assert kinds == {
        "scale_1": "positive",
        "W": "real",
        "ls_1": "positive",
        "scale_2": "positive",
        "lam": "unit",
        "alpha": "positive",
        "ls_2": "positive",
        "sigma": "positive",
        "c": "positive",
    }
    assert found["lam"].value == 0.3
    assert np.array_equal(found["ls_1"].value, [1.0, 2.0])
    assert "adjacency" in kernel_parameters(description, fixed=True)
    changed = with_parameters(description, {"lam": 0.6, "scale_2": 7.0, "ls_2": 1.1})
    expected = describe(
        0.5 * rough
        + 7.0 * MeanRegularised(3, T, 0.6, base=cov.RatQuad(2, alpha=0.7, ls=1.1))
        + cov.WhiteNoise(0.1)
        + GraphLaplacian(3, CHAIN)
        + 1.5
    )
    assert describe(changed) == expected
    with pytest.raises(ValueError, match="values: 'ls' is unknown"):
        with_parameters(description, {"ls": 1.0})


def test_replaced_parameters_are_double_and_may_be_random():
    description = describe(MeanRegularised(3, T, 0.5, base=cov.ExpQuad(2, ls=3.0)))
    squared = ((X[:, None, :-1] - X[None, :, :-1]) ** 2).sum(axis=2)
    expected = (0.5 + 2.0 * np.equal.outer(TASK, TASK)) * np.exp(-squared / 18.0)
    # Of ls=3.0 PyTensor makes single precision, good for seven digits.
    np.testing.assert_allclose(kernel_matrix(with_parameters(description, {}), X), expected, rtol=1e-13)
    lam = pt.scalar("lam")
    kernel = with_parameters(description, {"lam": lam})
    assert kernel.lam is lam
    with pytest.raises(TypeError, match="lam is random or symbolic"):
        describe(kernel)
    with pytest.raises(TypeError, match="MeanRegularised has a parameter that is random or symbolic"):
        kernel.task_covariance()
    graph = describe(GraphLaplacian(3, CHAIN))
    A = pt.matrix("A", shape=(T, T))
    assert with_parameters(graph, {"adjacency": A}).adjacency is A


def test_equal_kernels_have_equal_descriptions():
    assert describe(Clustered(3, ["b", "a", "b"])) == describe(Clustered(3, [7, 1, 7], rho=1))
    assert describe(MeanRegularised(3, T, 0.3, active_dims=[0, 1, 2])) == describe(MeanRegularised(3, T, 0.3))
    assert describe(Tree(3, PARENT)) == describe(Tree(3, np.array(PARENT, dtype=float), sigma=1.0))
    assert describe(MeanRegularised(3, T, 0.3)) != describe(MeanRegularised(3, T, 0.4))
    assert describe(ICM(3, [1.0, 2.0])) == ("ICM", ("input_dim", 3), ("W", (1.0, 2.0)))


def test_a_class_of_the_same_name_is_refused():
    def define():
        class Twin(TaskKernel):
            def task_matrix(self):
                return pt.eye(self.n_tasks)

        return Twin

    first, second = define(), define()
    assert type(restore(describe(second(3, T)))) is second
    with pytest.raises(TypeError, match="another class has that name"):
        describe(first(3, T))
    impostor = type("Tree", (TaskKernel,), {"task_matrix": lambda self: pt.eye(self.n_tasks)})
    with pytest.raises(TypeError, match="another class has that name"):
        describe(impostor(3, T))
    assert type(restore(describe(Tree(3, PARENT)))) is Tree


@pytest.mark.parametrize(
    "description",
    [
        ("MeanRegularised", ("input_dim", 3), ("n_tasks", 2), ("theta", 1.0)),
        ("MeanRegularised", ("input_dim", 3), ("n_tasks", 2), ("lam", 2.0)),
        ("MeanRegularised", ("input_dim", 3)),
        ("Unheard", ("input_dim", 3)),
    ],
)
def test_wrong_descriptions(description):
    with pytest.raises(ValueError, match=r"describes no covariance .*zoo\.kernels\.describe"):
        restore(description)

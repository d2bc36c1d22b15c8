"""Linear parts against the functions themselves, operation by operation."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from zoo.steps.affine import NotAffine, linear_part, reads

PYTHON = Mode("py", "fast_compile")
A = np.random.default_rng(0).normal(size=(3, 3))
INDEX = np.array([2, 0, 0, 1])

AFFINE = {
    "sums": lambda x, M: 3.0 + x - (1.0 - x) + (-x),
    "products": lambda x, M: 2.0 * x * pt.exp(M[0, 0]) / 3.0,
    "switch": lambda x, M: pt.switch(np.array([True, False, True]), 2.0 * x, 1.0),
    "index": lambda x, M: x[INDEX] + x[1] + x[::-1][0],
    "two indices": lambda x, M: (M[0, 0] * x[:, None] + A)[INDEX, INDEX[::-1]],
    "matrix product": lambda x, M: A @ x + (x @ pt.exp(M))[0],
    "sum and mean": lambda x, M: x.sum() + (x[:, None] * A).mean(axis=0),
    "join and stack": lambda x, M: pt.concatenate([x, pt.ones(2)]) + pt.stack([x[0], 1.0, x[1], 0.0, x[2]]),
    "set": lambda x, M: pt.set_subtensor(pt.ones(5)[1:4], x),
    "increase": lambda x, M: pt.inc_subtensor(pt.zeros(3)[INDEX], x[INDEX]),
    "solve": lambda x, M: pt.linalg.solve_triangular(np.tril(A) + 3.0 * np.eye(3), x, lower=True),
    "cumulated": lambda x, M: pt.cumsum(x),
    "reshape": lambda x, M: pt.tile(x, 2).reshape((3, 2)).T,
    "broadcast": lambda x, M: pt.broadcast_arrays(x[:, None], pt.ones((3, 4)))[0],
    "einsum": lambda x, M: pt.einsum("ij,j->i", A, x),
    "log of exponentials": lambda x, M: pt.log(2.0 * pt.exp(x) * pt.exp(M[0]) / pt.exp(1.0 - x)),
    "cast": lambda x, M: x.astype("float64") + pt.specify_shape(x, (3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", AFFINE)
def test_linear_part(name):
    x, d, M = pt.vector("x", shape=(3,)), pt.vector("d", shape=(3,)), pt.matrix("M", shape=(3, 3))
    f = AFFINE[name](x, M)
    part = linear_part(f, {x: d})
    assert not reads(part, [x])
    mode = "NUMBA" if name == "einsum" else PYTHON  # PyTensor calls C for it otherwise
    both = pytensor.function([x, d, M], [f, part], mode=mode, on_unused_input="ignore")
    rng = np.random.default_rng(1)
    first, step, matrix = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3))
    before, moved = both(first, step, matrix)
    after, again = both(first + step, step, matrix)
    np.testing.assert_array_equal(moved, again)
    np.testing.assert_allclose(np.broadcast_to(moved, after.shape), after - before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("build", "node"),
    [
        (lambda x: pt.exp(x), "Exp of 'x'"),
        (lambda x: x * x.sum(), "Mul of 'x'"),
        (lambda x: 1.0 / x, "TrueDiv of 'x'"),
        (lambda x: pt.floor(x), "Floor"),
        (lambda x: pt.maximum(x, 0.0), "Maximum"),
        (lambda x: pt.abs(x), "Abs"),
        (lambda x: pt.switch(x > 0, x, 0.0), "Switch"),
        (lambda x: x[pt.argmax(x)], "AdvancedSubtensor|Subtensor"),
        (lambda x: pt.sqr(x), "Sqr"),
        (lambda x: x.prod(), "Prod"),
        (lambda x: pt.sort(x), "Sort"),
        (lambda x: pt.log(x), "Log"),
        (lambda x: pt.log(1.0 + pt.exp(x)), "Log"),
        (lambda x: pt.linalg.solve(pt.eye(3) * x, np.ones(3)), "Solve"),
        (lambda x: pt.outer(x, x), "Mul|Dot"),
    ],
)
def test_what_is_not_affine_is_named(build, node):
    x = pt.vector("x", shape=(3,))
    with pytest.raises(NotAffine, match=node) as error:
        linear_part(build(x), {x: x.type("d")})
    assert error.value.roots == {x}


def test_no_linear_part_without_the_variable():
    x, y = pt.vector("x"), pt.vector("y")
    assert linear_part(pt.exp(y), {x: x.type()}) is None
    # A shape is no value.
    assert linear_part(y * x.shape[0], {x: x.type()}) is None

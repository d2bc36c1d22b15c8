"""The mode that compiles nothing."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.elemwise import Elemwise

from zoo.support.quick import QUICK

x, y, v = pt.dmatrix("x"), pt.lmatrix("y"), pt.dvector("v")
INPUTS = [x, y, v]
OUTPUTS = [x * y * v * 3.0, pt.exp(x + y + v + 1.0), pt.grad((pt.exp(v) * x * y * x).sum(), v)]


def test_no_operation_has_three_terms():
    """PyTensor 3.2 took hundreds of times as long for sums and products of three terms as for those of two."""
    for function in (
        pytensor.function(INPUTS, OUTPUTS, mode=QUICK),
        pm.pytensorf.compile(INPUTS, OUTPUTS, mode=QUICK, random_seed=1),
    ):
        nodes = function.maker.fgraph.toposort()
        assert {len(node.inputs) for node in nodes if isinstance(node.op, Elemwise)} == {1, 2}


def test_values():
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(4, 3)), rng.integers(0, 5, size=(4, 3)), rng.normal(size=3)
    found = pytensor.function(INPUTS, OUTPUTS, mode=QUICK)(a, b, c)
    expected = [a * b * c * 3.0, np.exp(a + b + c + 1.0), (np.exp(c) * a * b * a).sum(axis=0)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("ends", [(0.0, np.inf), (-1, 1), (-np.inf, 0.5), (0.0, 0.0), (2.0, 1.0)])
def test_clipping(ends):
    """Entry by entry in Python it took most of the time of a covariance matrix; ends the wrong way round stay as is."""
    function = pytensor.function([x], pt.clip(x, *ends), mode=QUICK)
    given = np.array([[np.nan, -3.0, -0.5, 0.0, 0.3, 0.7, 5.0, np.inf, -np.inf]])
    expected = pytensor.function([x], pt.clip(x, *ends), mode="FAST_COMPILE")(given)
    np.testing.assert_array_equal(function(given), expected)
    loops = any("Clip" in str(node.op) for node in function.maker.fgraph.toposort())
    assert loops == (ends[0] > ends[1])

"""Operations on rows and their neighbours: values by dense algebra, derivatives by differences, backends."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import verify_grad

from tests.inference.test_neighbour_recursion import small
from zoo.ops.neighbour_recursion import neighbour_recursion
from zoo.ops.neighbour_weights import neighbour_weights


def covariances(N: int = 4, n: int = 4) -> np.ndarray:
    root = np.random.default_rng(0).normal(size=(N, n, n + 2))
    return np.asarray(root @ root.transpose(0, 2, 1))


def of_symmetric(K):
    """Its two triangles must share their derivatives, as a covariance function gives both."""
    b, v = neighbour_weights(0.5 * (K + K.transpose(0, 2, 1)))
    return pt.concatenate([b, pt.log(v)[:, None]], axis=1)


def test_weights_are_those_of_kriging():
    K = covariances()
    b, v = (out.eval() for out in neighbour_weights(pt.constant(K)))
    for own, weights, variance in zip(K, b, v, strict=True):
        expected = np.linalg.solve(own[:-1, :-1], own[:-1, -1])
        np.testing.assert_allclose(weights, expected, rtol=1e-10)
        np.testing.assert_allclose(variance, own[-1, -1] - expected @ own[:-1, -1], rtol=1e-10)


def test_derivatives_of_weights():
    verify_grad(of_symmetric, [covariances()], rng=np.random.default_rng(1))


def test_derivatives_where_one_of_both_is_used():
    K = pt.tensor3("K", shape=(4, 4, 4))
    b, v = neighbour_weights(K)
    for out in (b.sum(), pt.log(v).sum()):
        found = pytensor.function([K], pytensor.grad(out, K))(covariances())
        assert np.isfinite(found).all() and np.abs(found).max() > 0.1


def test_a_gap_has_no_weight():
    K = covariances()
    K[:, 1, :] = K[:, :, 1] = 0.0
    K[:, 1, 1] = 1.0
    b, v = (out.eval() for out in neighbour_weights(pt.constant(K)))
    without, variance = (
        out.eval() for out in neighbour_weights(pt.constant(K[:, [0, 2, 3]][:, :, [0, 2, 3]]))
    )
    assert (b[:, 1] == 0.0).all()
    np.testing.assert_allclose(b[:, [0, 2]], without, rtol=1e-12)
    np.testing.assert_allclose(v, variance, rtol=1e-12)


def test_a_singular_covariance_gives_nan_and_no_error():
    b, v = (out.eval() for out in neighbour_weights(pt.constant(np.zeros((2, 3, 3)))))
    assert np.isnan(b).all() and np.isnan(v).all()


def test_recursion_and_its_derivatives():
    weights, before, order, dense = small()
    shift = np.random.default_rng(1).normal(size=12)
    found = neighbour_recursion(pt.constant(shift), pt.constant(weights), before, order).eval()
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(12) - dense, shift), rtol=1e-12)
    verify_grad(
        lambda s, w: neighbour_recursion(s, w, before, order), [shift, weights], rng=np.random.default_rng(2)
    )


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE", "JAX"])
def test_backends_agree(mode):
    if mode == "JAX":
        pytest.importorskip("jax")
    weights, before, order, _ = small()
    K, shift = pt.tensor3("K", shape=(4, 4, 4)), pt.vector("shift", shape=(12,))
    total = of_symmetric(K).sum()
    outputs = [total, pytensor.grad(total, K)]
    f = neighbour_recursion(shift, pt.constant(weights), before, order)
    if mode != "JAX":  # the recursion is compiled by Numba, and runs in Python
        outputs += [f, pytensor.grad((f**2).sum(), shift)]
    values = covariances(), np.random.default_rng(3).normal(size=12)
    ours = pytensor.function([K, shift], outputs, mode=mode, on_unused_input="ignore")(*values)
    expected = pytensor.function([K, shift], outputs, on_unused_input="ignore")(*values)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10)

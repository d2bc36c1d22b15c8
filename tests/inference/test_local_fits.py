"""Compiled local regressions against normal equations written out at each place."""

import numpy as np
import pytest

from zoo.inference.local.fits import LocalRegressions


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_values_and_variances_are_those_of_dense_algebra(kernel, degree, weighted):
    rng = np.random.default_rng(0)
    X, z = rng.standard_normal((300, 3)), np.round(rng.standard_normal((300, 2)), 1)
    y, weight = rng.standard_normal(300), rng.uniform(0.5, 2.0, 300) if weighted else None
    local = LocalRegressions(X, y, z, False, kernel, degree, weight)
    # Rows at places of the fit, some of which share one, and elsewhere; far away windows are widened.
    places = np.vstack([z[:40], rng.standard_normal((40, 2)), [[30.0, 30.0]]])
    asked, h, lam = rng.standard_normal((81, 3)), 0.8, 0.3
    value, spread = local.at_rows(asked, places, h, lam)
    for i in range(80):
        offset = (z - places[i]) / h
        square = np.sum(offset**2, axis=1)
        k = np.exp(-0.5 * square) if kernel == "gaussian" else np.maximum(0.0, 1.0 - square)
        k = k if weight is None else k * weight
        A = np.column_stack([X, *(X * offset[:, [p]] for p in range(2))]) if degree else X
        x = np.append(asked[i], np.zeros(A.shape[1] - 3))
        inverse = np.linalg.inv((A * k[:, None]).T @ A + lam * np.eye(A.shape[1]))
        assert value[i] == pytest.approx(x @ inverse @ (A.T @ (k * y)), rel=1e-8, abs=1e-11)
        assert spread[i] == pytest.approx(x @ inverse @ x, rel=1e-8)
    [fit] = next(local.fits(places[80:], h, [lam]))
    assert value[80] == pytest.approx(asked[80] @ fit.mean[:3])
    assert spread[80] == pytest.approx(fit.spread(asked[80:])[0])


def test_features_that_no_penalty_tells_apart_are_refused():
    X = np.ones((60, 2))
    local = LocalRegressions(X, X[:, 0], np.linspace(0.0, 1.0, 60)[:, None], False, "gaussian", 0)
    with pytest.raises(ValueError, match="ridge is 0, too small for features that are nearly collinear"):
        local.at_rows(X[:5], np.linspace(0.0, 1.0, 5)[:, None], 0.5, 0.0)

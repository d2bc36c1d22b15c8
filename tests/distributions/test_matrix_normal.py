"""The matrix normal against scipy and against MvNormal on the Kronecker product."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.shape_utils import change_dist_size
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.traversal import ancestors
from scipy import stats

from tests.daily import daily
from tests.distributions.numerics import assert_moments
from zoo.distributions import MatrixNormal

KINDS = ("cov", "chol", "prec")


def problem(m: int, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    row, column = (rng.normal(size=(k, k + 3)) for k in (m, n))
    return {
        "value": rng.normal(size=(m, n)),
        "mu": rng.normal(size=(m, n)),
        "row": row @ row.T / m,
        "col": column @ column.T / n,
    }


def forms(side: str, covariance: np.ndarray, kind: str) -> dict[str, np.ndarray]:
    form = {"cov": lambda c: c, "chol": np.linalg.cholesky, "prec": np.linalg.inv}[kind]
    return {f"{side}_{kind}": form(covariance)}


@pytest.mark.statistical
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("row_kind", "col_kind"),
    daily(list(itertools.product(KINDS, KINDS)), list(zip(KINDS, KINDS[1:] + KINDS[:1], strict=True))),
)
def test_logp_and_draws_in_every_form(row_kind, col_kind):
    p = problem(3, 2)
    variable = MatrixNormal.dist(
        p["mu"], **forms("row", p["row"], row_kind), **forms("col", p["col"], col_kind)
    )
    expected = stats.matrix_normal.logpdf(p["value"], p["mu"], p["row"], p["col"])
    assert pm.logp(variable, p["value"]).eval() == pytest.approx(expected, rel=1e-11)
    # Null: mean mu, covariance of the stacked columns V (x) U. Entries and products; false alarm 1e-5 each set.
    n = 20_000
    draws = pm.draw(change_dist_size(variable, (n,)), random_seed=1)
    assert_moments(draws, p["mu"], np.outer(np.diag(p["row"]), np.diag(p["col"])))
    stacked = (draws - p["mu"]).swapaxes(1, 2).reshape(n, -1)
    covariance = np.kron(p["col"], p["row"])
    products = stacked[:, :, None] * stacked[:, None, :]
    variance = covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))
    upper = np.triu_indices(6)
    assert_moments(products[:, *upper], covariance[upper], variance[upper])


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 4), (5, 3)])
def test_value_and_gradient_against_the_kronecker_product(m, n):
    p = problem(m, n, seed=2)
    x, row, column = pt.dmatrix("x"), pt.dmatrix("row"), pt.dmatrix("column")
    ours = pm.logp(MatrixNormal.dist(p["mu"], row_cov=row, col_cov=column), x)
    kron = pt.linalg.kron(column, row)
    theirs = pm.logp(pm.MvNormal.dist(p["mu"].T.ravel(), cov=kron), x.T.ravel())
    both = [[logp, *pt.grad(logp, [x, row, column])] for logp in (ours, theirs)]
    evaluate = pytensor.function([x, row, column], [*both[0], *both[1]])
    values = evaluate(p["value"], p["row"], p["col"])
    for first, second in zip(values[:4], values[4:], strict=True):
        # A gradient with respect to a symmetric matrix is fixed up to its antisymmetric part.
        if np.shape(first) and np.shape(first)[0] == np.shape(first)[1] and np.shape(first) != (m, n):
            first, second = first + first.T, second + second.T
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


def test_nothing_of_the_size_of_the_product():
    m, n = 4, 6
    p = problem(m, n)
    x = pt.matrix("x", shape=(m, n))
    logp = pm.logp(MatrixNormal.dist(row_cov=p["row"], col_chol=np.linalg.cholesky(p["col"])), x)
    gradient = pt.grad(logp, x)
    sizes = [
        np.prod([s or 1 for s in variable.type.shape])
        for variable in ancestors([logp, gradient])
        if hasattr(variable.type, "shape")
    ]
    assert max(sizes) <= max(m, n) ** 2


def test_batches():
    p = problem(3, 2)
    variable = MatrixNormal.dist(
        row_cov=np.stack([p["row"], 2 * p["row"]]), col_prec=np.stack([np.linalg.inv(p["col"])] * 4)[:, None]
    )
    assert pm.draw(variable, random_seed=3).shape == (4, 2, 3, 2)
    logp = pm.logp(variable, p["value"]).eval()
    expected = [stats.matrix_normal.logpdf(p["value"], None, c * p["row"], p["col"]) for c in (1, 2)]
    np.testing.assert_allclose(logp, [expected] * 4, rtol=1e-11)
    resized = MatrixNormal.dist(row_prec=np.linalg.inv(p["row"]), col_cov=p["col"], size=(5,))
    assert pm.logp(resized, np.zeros((5, 3, 2))).eval().shape == (5,)


@pytest.mark.parametrize("mu", [1.5, np.array([1.0, -2.0]), np.array([[1.0], [2.0], [3.0]])])
def test_mean_is_broadcast(mu):
    p = problem(3, 2)
    ours = pm.logp(MatrixNormal.dist(mu, row_cov=p["row"], col_cov=p["col"]), p["value"]).eval()
    full = np.broadcast_to(mu, (3, 2))
    assert ours == pytest.approx(stats.matrix_normal.logpdf(p["value"], full, p["row"], p["col"]), rel=1e-11)


def test_in_a_model():
    p = problem(3, 2)
    with pm.Model(coords={"feature": list("abc"), "task": list("xy")}) as model:
        scale = pm.HalfNormal("scale")
        rows = scale * p["row"].astype("float32")
        w = MatrixNormal("w", row_cov=rows, col_cov=p["col"], dims=("feature", "task"))
        pm.Normal("y", w, 1.0, observed=p["value"], dims=("feature", "task"))
        prior = pm.sample_prior_predictive(4, random_seed=4)
    assert prior["prior"]["w"].dims == ("chain", "draw", "feature", "task")
    assert w.dtype == "float64"
    assert np.all(np.isfinite(model.compile_dlogp()(model.initial_point())))


GOOD = problem(3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Give exactly one of row_cov, row_chol, row_prec; got none"),
        ({"row_cov": GOOD["row"]}, "Give exactly one of col_cov, col_chol, col_prec"),
        ({"row_cov": GOOD["row"], "row_prec": GOOD["row"]}, "got row_cov and row_prec"),
        ({"row_cov": GOOD["value"], "col_cov": GOOD["col"]}, "row_cov is 3 x 2"),
        (
            {"mu": np.zeros((2, 3)), "row_cov": GOOD["row"], "col_cov": GOOD["col"]},
            "length 3, but the cov.* length 2",
        ),
        (
            {"row_cov": GOOD["row"], "col_cov": GOOD["col"], "shape": (2, 3)},
            r"\(2, 3\), but one draw is \(3, 2\)",
        ),
        ({"row_chol": GOOD["row"], "col_cov": GOOD["col"]}, "row_chol is not lower triangular"),
    ],
)
def test_bad_shapes(arguments, message):
    with pytest.raises(ValueError, match=message):
        MatrixNormal.dist(**arguments)


def test_bad_values():
    good = MatrixNormal.dist(row_cov=GOOD["row"], col_cov=GOOD["col"])
    with pytest.raises(ValueError, match="rows axis of the value has length 2"):
        pm.logp(good, GOOD["value"].T)
    for wrong in (
        {"row_cov": -GOOD["row"], "col_cov": GOOD["col"]},
        {"row_cov": GOOD["row"], "col_prec": -GOOD["col"]},
    ):
        variable = MatrixNormal.dist(**wrong)
        with pytest.raises(ParameterValueError, match="positive definite"):
            pm.draw(variable)
        with pytest.raises(ParameterValueError, match="positive definite"):
            pm.logp(variable, GOOD["value"]).eval()

"""What every distribution must do in a model: random parameters, more draws, copies."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.distributions.distribution import support_point
from pymc.distributions.shape_utils import change_dist_size
from pymc.model.transform.optimization import freeze_dims_and_data
from scipy import stats

from tests.daily import daily
from zoo import distributions as zd

S = np.array([[1.0, 0.3], [0.3, 2.0]])
Z = np.array([[1, 0], [1, 1], [0, 0]])


def scale(C):
    return C * pm.Data("S", S)  # of no static shape


# Each with a random parameter C, and as a free variable where NUTS can sample it.
FREE = {
    "InverseWishart": lambda C: zd.InverseWishart("x", 4.5, scale(C)),
    "InverseWishartCholesky": lambda C: zd.InverseWishartCholesky("x", delta=1.5, scale=scale(C)),
    "ScaledInverseWishart": lambda C: zd.ScaledInverseWishart("x", 2.0, C * np.ones(2)),
    "NormalInverseWishart": lambda C: zd.NormalInverseWishart("x", 0, C, delta=2, scale=S)[0],
    "MatrixNormal": lambda C: zd.MatrixNormal("x", C, row_cov=scale(C), col_prec=np.eye(3)),
    "MultiLaplace": lambda C: zd.MultiLaplace("x", C, 3),
    "MultiLaplace, signed": lambda C: zd.MultiLaplace("x", C, 3, positive=False),
    "multi_laplace_mixture": lambda C: zd.multi_laplace_mixture("x", C, shape=(2, 3)),
    "indian_buffet_sticks": lambda C: zd.indian_buffet_sticks("x", C, K_max=4),
    "InverseGaussian": lambda C: zd.InverseGaussian("x", C, 2.0, shape=3),
    "GeneralisedInverseGaussian": lambda C: zd.GeneralisedInverseGaussian("x", 1.0, C),
    "GeneralisedInverseGaussian, b = 0": lambda C: zd.GeneralisedInverseGaussian("x", C, 0.0),
    "EpsilonInsensitivePseudoLikelihood": lambda C: zd.EpsilonInsensitivePseudoLikelihood("x", C, 1.0),
    "NormalisedEpsilonInsensitive": lambda C: zd.NormalisedEpsilonInsensitive("x", 0.5, C),
}
OBSERVED = {
    "HingePseudoLikelihood": lambda C: zd.HingePseudoLikelihood("x", C, observed=[1, -1]),
    "NormalisedHinge": lambda C: zd.NormalisedHinge("x", 0.5, C, observed=[1, -1]),
    "IndianBuffet": lambda C: zd.IndianBuffet("x", C, observed=Z),
}


@pytest.mark.parametrize("name", [*FREE, *OBSERVED])
def test_with_random_parameters(name):
    with pm.Model() as model:
        {**FREE, **OBSERVED}[name](pm.HalfNormal("C"))
    start = model.initial_point()
    logp, gradient = model.compile_logp(), model.compile_dlogp()
    assert np.isfinite(logp(start)) and np.all(np.isfinite(gradient(start)))
    for copy in (
        cloudpickle.loads(cloudpickle.dumps(model)),
        freeze_dims_and_data(model),
        pm.do(model, {"C": 0.7}),
    ):
        assert np.isfinite(copy.compile_logp()(copy.initial_point()))
    assert cloudpickle.loads(cloudpickle.dumps(model)).compile_logp()(start) == pytest.approx(logp(start))
    with model:
        prior = pm.sample_prior_predictive(3, random_seed=1)
    group = "prior" if "x" in prior["prior"] or name not in OBSERVED else "prior_predictive"
    assert all(np.all(np.isfinite(values)) for values in prior[group].to_dataset().data_vars.values())


# With matrices, a product of variables, and a scalar; the others in the scheduled run.
DAILY = {"MatrixNormal", "multi_laplace_mixture", "GeneralisedInverseGaussian"}


@pytest.mark.compiled
@pytest.mark.parametrize("name", daily(FREE, DAILY))
@pytest.mark.statistical
def test_nuts_samples_the_prior(name):
    # Few draws: no warning, nothing that is not finite, no divergence at the start of every chain.
    with pm.Model() as model:
        FREE[name](pm.Gamma("C", 5.0, 4.0))
        tree = pm.sample(
            50, tune=100, chains=1, cores=1, nuts_sampler="nutpie", random_seed=2, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert all(np.all(np.isfinite(v)) for v in tree["posterior"].to_dataset().data_vars.values())
    assert {v.name for v in model.deterministics + model.free_RVs} == set(tree["posterior"].data_vars)


VARIABLES = [
    zd.InverseWishart.dist([4.0, 5.0], S),
    zd.InverseWishartCholesky.dist([4.0, 5.0], S),
    zd.ScaledInverseWishart.dist([2.0, 3.0], np.ones(2)),
    zd.MatrixNormal.dist(row_cov=np.stack([S, S]), col_cov=np.eye(3)),
    zd.MultiLaplace.dist([1.0, 2.0], 3),
    zd.IndianBuffet.dist([1.0, 2.0], 3, 2),
    zd.InverseGaussian.dist([1.0, 2.0]),
    zd.GeneralisedInverseGaussian.dist([1.0, 2.0], 1.0),
    zd.NormalisedHinge.dist([0.0, 0.1]),
    zd.EpsilonInsensitivePseudoLikelihood.dist([1.0, 2.0]),
    zd.NormalisedEpsilonInsensitive.dist([1.0, 2.0]),
]
FEW = ("inverse_wishart_cholesky", "matrix_normal", "inverse_gaussian")  # seconds of compiling each


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.owner.op.name)
def test_dimensions_are_added_in_front_of_the_batch(variable):
    larger = change_dist_size(variable, (5,), expand=True)
    assert larger.type.shape[:2] in ((5, 2), (None, None), (5, None))
    draw, one = pm.draw([larger, variable], random_seed=3)
    assert draw.shape == (5, *one.shape)
    assert len(np.unique(draw.reshape(10, -1), axis=0)) > 1
    assert pytensor.function([], pm.logp(larger, draw))().shape == (5, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: zd.InverseGaussian.dist(np.ones(3), np.ones(2)),
            r"mu has shape \(3,\), but lam has shape \(2,\)",
        ),
        (lambda: zd.GeneralisedInverseGaussian.dist(np.ones(3), np.ones(2)), r"a has shape \(3,\), but b"),
        (
            lambda: zd.NormalisedHinge.dist(np.ones(3), np.ones(2)),
            r"f has shape \(3,\), but C has shape \(2,\)",
        ),
        (
            lambda: zd.EpsilonInsensitivePseudoLikelihood.dist(np.ones(3), 1.0, np.ones(2)),
            "f has .* but epsilon has",
        ),
        (
            lambda: zd.InverseWishart.dist([4.0, 5.0, 6.0], np.stack([S, S])),
            r"nu has .*\(3,\), but scale has .*\(2, 2, 2\)",
        ),
        (
            lambda: zd.InverseWishartCholesky.dist([4.0, 5.0], S, size=(3,)),
            r"nu has shape \(2,\), but .* \(3\)",
        ),
        (lambda: zd.ScaledInverseWishart.dist([4.0, 5.0, 6.0], np.ones((2, 2))), "df has .* but sigma has"),
        (lambda: zd.MatrixNormal.dist(row_cov=[S, S], col_cov=[S] * 3), "rows has .* but columns has"),
        (lambda: zd.InverseGaussian.dist(np.ones(3), shape=4), r"mu has shape \(3,\), but .* of shape \(4\)"),
        (
            lambda: zd.InverseGaussian.dist(np.ones((2, 3)), shape=3),
            r"mu has shape \(2, 3\), but .* of shape \(3\)",
        ),
    ],
)
def test_batches_that_do_not_match(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rows_that_do_not_match():
    with pm.Model():
        f = pm.Normal("f", shape=3)
        with pytest.raises(ValueError, match=r"f has shape \(3,\), but .* observed data ask .* \(2\)"):
            zd.HingePseudoLikelihood("y", f, observed=[1, -1])


@pytest.mark.statistical
@pytest.mark.compiled
@pytest.mark.parametrize(
    "variable",
    [
        pytest.param(v, marks=[pytest.mark.scheduled] * (v.owner.op.name not in FEW), id=v.owner.op.name)
        for v in VARIABLES
    ],
)
def test_one_call_draws_as_many_do(variable):
    # Null: 4,000 draws by one call have the law of 4,000 calls, so nothing random is shared over a batch. Two-sample
    # Kolmogorov-Smirnov on each entry that varies (conservative where it is discrete); false alarm 1e-5 each.
    at_once = pm.draw(change_dist_size(variable, (4000,), expand=True), random_seed=4)
    one_by_one = pm.draw(variable, 4000, random_seed=5)
    assert at_once.shape == one_by_one.shape
    assert len(np.unique(at_once, axis=0)) > 1
    for first, second in zip(at_once.reshape(4000, -1).T, one_by_one.reshape(4000, -1).T, strict=True):
        assert stats.ks_2samp(first, second, method="asymp").pvalue > 1e-5
    # Null: the two members of the batch are independent; Fisher's z of rank correlations, false alarm 1e-5 each.
    for first, second in zip(*at_once.reshape(4000, 2, -1).transpose(1, 2, 0), strict=True):
        if len(np.unique(first)) > 1 and len(np.unique(second)) > 1:
            correlation = stats.spearmanr(first, second).statistic
            assert abs(np.arctanh(correlation)) * np.sqrt(4000 - 3) < stats.norm.isf(0.5e-5) * 1.06


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (zd.InverseWishart.dist(4.0, S), S / 7.0),
        (zd.InverseWishartCholesky.dist(4.0, S), np.linalg.cholesky(S / 7.0)),
        (zd.ScaledInverseWishart.dist(2.0, [1.0, 3.0]), np.diag([1.0, 9.0])),
        (zd.MatrixNormal.dist([1.0, 2.0], row_cov=S, col_cov=S), [[1.0, 2.0], [1.0, 2.0]]),
        (zd.GeneralisedInverseGaussian.dist(4.0, 9.0), 1.75),
        (zd.NormalisedHinge.dist([-0.3, 0.2]), [-1, 1]),
        (zd.HingePseudoLikelihood.dist([-0.3, 0.2]), [-1, 1]),
        (zd.EpsilonInsensitivePseudoLikelihood.dist([-0.3, 0.2]), [-0.3, 0.2]),
    ],
    ids=lambda v: v.owner.op.name if hasattr(v, "owner") else "",
)
def test_support_point(variable, expected):
    np.testing.assert_allclose(support_point(variable).eval(), expected, rtol=1e-12)

"""Pseudo-log-likelihoods and their augmentations: identities, gradients, and the same numbers on every backend."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import verify_grad
from scipy import integrate

from tests.daily import daily
from zoo import distributions as zd
from zoo.ops import (
    augmented_epsilon_insensitive_logp,
    augmented_hinge_logp,
    epsilon_insensitive_logp,
    hinge_logp,
)

MARGINS = np.concatenate([-(10.0 ** np.arange(6, -13, -2)), [0.0], 10.0 ** np.arange(-12, 7, 2)])


# ---------------------------------------------------------------- the augmentation


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_augmentation_identity_of_the_hinge(C):
    # log p(y, lambda | f) - log p(lambda | y, f) is the pseudo-log-likelihood at every lambda, relative to the
    # largest term: lambda runs over the bulk of its conditional, around |C s| and its square root.
    f, lam, y, margin = pt.dvector("f"), pt.dvector("lam"), 1.0, 0.75
    joint = augmented_hinge_logp(f, y, lam, C, margin)
    conditional = pm.logp(zd.hinge_lambda(f, y, C, margin), lam)
    evaluate = pytensor.function([f, lam], [joint, conditional, hinge_logp(f, y, C, margin)])
    for z in (-3.0, -0.5, 0.1, 2.0):
        slack = C * np.abs(MARGINS)
        values = slack + z * np.sqrt(slack)
        lam_values = np.where(values > 0, values, slack / (1 + z**2)) + (slack < 1e-3) * z**2 + 1e-12
        first, second, expected = evaluate(margin - MARGINS, lam_values)
        scale = 1.0 + np.abs(first) + np.abs(second)
        assert np.max(np.abs(first - second - expected) / scale) < 1e-10


@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.5])
def test_augmentation_identity_of_the_tube(epsilon):
    C, y = 1.3, 0.2
    f, lam, omega = pt.dvector("f"), pt.dvector("lam"), pt.dvector("omega")
    joint = augmented_epsilon_insensitive_logp(f, y, lam, omega, C, epsilon)
    of_lam, of_omega = zd.epsilon_insensitive_lambda_omega(f, y, C, epsilon)
    conditional = pm.logp(of_lam, lam) + pm.logp(of_omega, omega)
    evaluate = pytensor.function(
        [f, lam, omega], [joint, conditional, epsilon_insensitive_logp(f, y, C, epsilon)]
    )
    for factor in (0.3, 1.0, 2.5):
        f_values = y - MARGINS
        above, below = C * np.abs(MARGINS - epsilon), C * np.abs(MARGINS + epsilon)
        first, second, expected = evaluate(f_values, factor * above + 1e-12, below / factor + 1e-12)
        scale = 1.0 + np.abs(first) + np.abs(second)
        assert np.max(np.abs(first - second - expected) / scale) < 1e-10


@pytest.mark.parametrize("f", [-2.0, 0.5, 1.7])
def test_augmentation_integrates_to_the_pseudo_likelihood(f):
    # The substitution lambda = r^2 takes the pole at zero away.
    lam, C = pt.dscalar("lam"), 0.8
    density = pytensor.function([lam], pt.exp(augmented_hinge_logp(f, -1.0, lam, C, 0.6)))
    value, _ = integrate.quad(lambda r: 2 * r * density(r * r), 0, 12, epsabs=1e-12)
    assert value == pytest.approx(np.exp(-2 * C * max(0, 0.6 + f)), rel=1e-8)


def test_augmentation_is_gaussian_in_f():
    # Second derivative -C^2 / lambda and third zero, so the weights of the Gibbs sampler are those of the density.
    f, lam, C = pt.dscalar("f"), pt.dscalar("lam"), 1.7
    second = pt.grad(pt.grad(augmented_hinge_logp(f, -1.0, lam, C), f), f)
    assert second.eval({f: 0.3, lam: 0.6}) == pytest.approx(-(C**2) / 0.6, rel=1e-12)
    assert second.eval({f: -5.0, lam: 0.6}) == pytest.approx(-(C**2) / 0.6, rel=1e-12)


# ---------------------------------------------------------------- gradients


def test_gradients_away_from_the_kink():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(12) < 0.5, 1.0, -1.0)
    f = np.where(rng.random(12) < 0.5, 1.0, -1.0) * (1.0 + rng.uniform(0.1, 0.9, 12))
    verify_grad(lambda f, C, m: hinge_logp(f, y, C, m), [f, np.array(1.3), np.array(1.0)], rng=rng)
    verify_grad(
        lambda f, C, e: epsilon_insensitive_logp(f, y, C, e), [f, np.array(1.3), np.array(0.01)], rng=rng
    )
    lam = rng.gamma(2.0, size=12)
    verify_grad(lambda f, lam: augmented_hinge_logp(f, y, lam, 1.3), [f, lam], rng=rng)


def test_subgradient_at_the_kink_is_zero():
    f = pt.dvector("f")
    hinge = pytensor.function([f], pt.grad(hinge_logp(f, 1.0, 2.0, 1.0).sum(), f))
    np.testing.assert_array_equal(hinge([1.0, 1.0 + 1e-9, 1.0 - 1e-9]), [0.0, 0.0, 4.0])
    for epsilon in (0.0, 0.25):
        tube = pytensor.function([f], pt.grad(epsilon_insensitive_logp(f, 1.0, 2.0, epsilon).sum(), f))
        kinks = [1.0 - epsilon, 1.0, 1.0 + epsilon]
        np.testing.assert_array_equal(tube(kinks), 0.0)


# ---------------------------------------------------------------- backends


def _covariance(x):
    return x @ x.mT + pt.eye(3)


A = np.random.default_rng(2).normal(size=(3, 3))
GRAPHS = {
    "hinge": (lambda f, C: hinge_logp(f, np.array([1.0, -1.0, 1.0]), C), [A[0], np.array(1.3)]),
    "tube": (lambda f, C: epsilon_insensitive_logp(f, np.array([1.0, -1.0, 1.0]), C), [A[0], np.array(1.3)]),
    "augmented hinge": (lambda f, lam: augmented_hinge_logp(f, 1.0, lam), [A[0], np.exp(A[1])]),
    "augmented tube": (
        lambda f, lam, omega: augmented_epsilon_insensitive_logp(f, 0.3, lam, omega),
        [A[0], np.exp(A[1]), np.exp(A[2])],
    ),
    "NormalisedHinge": (
        lambda f, C: pm.logp(zd.NormalisedHinge.dist(f, C), np.array([1, -1, 1])), [A[0], np.array(1.3)],
    ),
    "InverseGaussian": (lambda x, mu: pm.logp(zd.InverseGaussian.dist(mu, 2.0), x), [np.exp(A[0]), np.exp(A[1])]),
    "GeneralisedInverseGaussian": (
        lambda x, b: pm.logp(zd.GeneralisedInverseGaussian.dist(1.0, b), x), [np.exp(A[0]), np.exp(A[1])],
    ),
    "InverseWishart": (
        lambda x, nu, s: pm.logp(zd.InverseWishart.dist(nu, _covariance(s)), _covariance(x)),
        [A, np.array(4.5), A.T.copy()],
    ),
    "InverseWishartCholesky": (
        lambda x, s: pm.logp(zd.InverseWishartCholesky.dist(4.5, _covariance(s)), pt.linalg.cholesky(_covariance(x))),
        [A, A.T.copy()],
    ),
    "ScaledInverseWishart": (
        lambda x, s: pm.logp(zd.ScaledInverseWishart.dist(2.0, s), _covariance(x)), [A, np.exp(A[0])],
    ),
    "MatrixNormal": (
        lambda x, u, v: pm.logp(zd.MatrixNormal.dist(row_cov=_covariance(u), col_prec=_covariance(v)), x),
        [A, A.T.copy(), A + 1.0],
    ),
    "MultiLaplace": (lambda x, C: pm.logp(zd.MultiLaplace.dist(C, 3), x), [np.exp(A[0]), np.array(1.3)]),
    "IndianBuffet": (
        lambda alpha: pm.logp(zd.IndianBuffet.dist(alpha, 3, 2), np.array([[1, 0], [1, 1], [0, 0]])), [np.array(1.3)],
    ),
}  # fmt: skip


# Of each kind of graph one; the others in the scheduled run.
DAILY = {"hinge", "InverseWishartCholesky"}


@pytest.mark.statistical
@pytest.mark.parametrize("name", daily(GRAPHS, DAILY))
def test_backends_agree(name):
    # Value and gradient from Python, Numba and JAX, to 1e-10. Warnings are errors: no fallback to Python inside Numba.
    build, values = GRAPHS[name]
    inputs = [pt.tensor(f"x{i}", dtype="float64", shape=v.shape) for i, v in enumerate(values)]
    total = build(*inputs).sum()
    outputs = [total, *pt.grad(total, inputs)]
    expected = pytensor.function(inputs, outputs, mode=pytensor.compile.mode.Mode("py", "fast_compile"))(
        *values
    )
    modes = ["NUMBA"]
    if _has_jax():
        modes.append("JAX")
    for mode in modes:
        # As PyMC compiles: parameter checks become minus infinity, since JAX cannot raise.
        ours = pm.compile(inputs, outputs, mode=mode)(*values)
        for got, wanted in zip(ours, expected, strict=True):
            np.testing.assert_allclose(
                np.asarray(got), wanted, rtol=1e-10, atol=1e-10, err_msg=f"{name}, {mode}"
            )


def _has_jax() -> bool:
    import importlib.util

    return importlib.util.find_spec("jax") is not None


def test_import_brings_no_jax():
    code = "import sys, zoo, zoo.ops, zoo.distributions; zoo.MaxMargin; print('jax' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize("labels", [[1.0, 0.0], np.array([0, 1]), 0.0, pt.constant([1.0, 0.0])])
@pytest.mark.parametrize(
    "density", [hinge_logp, lambda f, y: augmented_hinge_logp(f, y, 1.0)], ids=["hinge", "augmented"]
)
def test_labels_are_checked_as_distributions_check_them(density, labels):
    with pytest.raises(ValueError, match=r"y is 0\S* at \[\d\]. Labels must be -1 or \+1: recode 0/1 labels"):
        density(np.array([1.0, -1.0]), labels)
    assert np.isfinite(density(np.array([1.0, -1.0]), [1, -1]).eval()).all()
    density(np.array([1.0, -1.0]), pt.vector("y"))  # what it will hold is not known yet

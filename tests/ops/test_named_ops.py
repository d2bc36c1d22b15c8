"""Operations that have a name: graphs show them, the compiler sees through them, and draws are compiled."""

from __future__ import annotations

import io

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from scipy import stats

from zoo import distributions as zd
from zoo import ops

PYTHON = Mode("py", "fast_compile")
RNG = np.random.default_rng(0)
F, LAM, OMEGA = RNG.normal(size=6), RNG.gamma(1.0, size=6), RNG.gamma(1.0, size=6)
Y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])

# Name, the call, and the formula as NumPy has it.
LOGP = {
    "HingeLogp": (lambda f: ops.hinge_logp(f, Y, 1.3, 0.8), lambda f: -2.6 * np.maximum(0.0, 0.8 - Y * f)),
    "EpsilonInsensitiveLogp": (
        lambda f: ops.epsilon_insensitive_logp(f, Y, 1.3, 0.2),
        lambda f: -2.6 * np.maximum(0.0, np.abs(Y - f) - 0.2),
    ),
    "AugmentedHingeLogp": (
        lambda f: ops.augmented_hinge_logp(f, Y, LAM, 1.3, 0.8),
        lambda f: -0.5 * np.log(2 * np.pi * LAM) - 0.5 * (LAM + 1.3 * (0.8 - Y * f)) ** 2 / LAM,
    ),
    "AugmentedEpsilonInsensitiveLogp": (
        lambda f: ops.augmented_epsilon_insensitive_logp(f, Y, LAM, OMEGA, 1.3, 0.2),
        lambda f: (
            -0.5 * np.log(4 * np.pi**2 * LAM * OMEGA)
            - 0.5 * (LAM + 1.3 * (Y - f - 0.2)) ** 2 / LAM
            - 0.5 * (OMEGA + 1.3 * (f - Y - 0.2)) ** 2 / OMEGA
        ),
    ),
}


def _printed(graph, **options):
    out = io.StringIO()
    pytensor.dprint(graph, file=out, **options)
    return out.getvalue()


@pytest.mark.parametrize("name", LOGP)
def test_graph_shows_the_name_and_the_formula_is_the_papers(name):
    build, formula = LOGP[name]
    f = pt.dvector("f")
    graph = build(f)
    assert isinstance(graph.owner.op, getattr(ops, name))
    assert _printed(graph).startswith(name)
    np.testing.assert_allclose(graph.eval({f: F}, mode=PYTHON), formula(F), rtol=1e-12)


@pytest.mark.parametrize("name", LOGP)
def test_compiler_leaves_no_call_behind(name):
    # What is inlined is fused with the sum and its gradient, as the composed graph is.
    f = pt.dvector("f")
    total = LOGP[name][0](f).sum()
    function = pytensor.function([f], [total, pt.grad(total, f)], mode=Mode("py", "fast_run"))
    assert not any(isinstance(node.op, OpFromGraph) for node in function.maker.fgraph.toposort())


def test_model_shows_the_loss():
    with pm.Model() as model:
        f = pm.Normal("f", shape=6)
        zd.HingePseudoLikelihood("y", f, 1.3, 0.8, observed=Y.astype(int))
    assert "HingeLogp" in _printed(model.logp())


@pytest.mark.parametrize("name", LOGP)
def test_batches(name):
    f, batch = pt.dvector("f"), pt.dmatrix("batch")
    graph = vectorize_graph(LOGP[name][0](f), {f: batch})
    assert isinstance(graph.owner.op, getattr(ops, name))
    values = RNG.normal(size=(3, 6))
    np.testing.assert_allclose(
        graph.eval({batch: values}, mode=PYTHON), np.stack([LOGP[name][1](v) for v in values]), rtol=1e-12
    )


def test_batched_parameters_are_aligned():
    f, C, many = pt.dvector("f"), pt.dscalar("C"), pt.dvector("many")
    graph = vectorize_graph(ops.hinge_logp(f, Y, C, 0.8), {C: many})
    found = graph.eval({f: F, many: np.array([0.5, 2.0, 3.0])}, mode=PYTHON)
    expected = [-2.0 * C * np.maximum(0.0, 0.8 - Y * F) for C in (0.5, 2.0, 3.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# ---------------------------------------------------------------- random variables

N = 20_000
# Name, the variable, its distribution function.
DRAWS = {
    "InverseGaussianRV": (
        lambda n: ops.inverse_gaussian(1.7, 0.6, size=n), stats.invgauss(1.7 / 0.6, scale=0.6).cdf,
    ),
    "HingeLambdaRV": (
        lambda n: ops.hinge_lambda(0.3, -1.0, 1.3, 0.8, size=n),
        lambda x: stats.invgauss(1.0 / (1.3 * 1.1)).sf(1.0 / x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_their_law(name):
    # Null: the law is that of scipy. A p value below 1e-6 comes once in a million runs.
    build, cdf = DRAWS[name]
    variable = build(N)
    assert isinstance(variable.owner.op, getattr(ops, name))
    draws = pm.draw(variable, random_seed=1)
    assert stats.kstest(draws, cdf).pvalue > 1e-6


def test_polya_gamma_has_its_law():
    # Null: the Laplace transform is cosh(z/2)^h / cosh(sqrt(z^2/4 + t/2))^h. |z score| above 5: 6e-7 for each of 4.
    for h, z in ((1.0, 0.7), (2.5, -1.0)):
        draws = pm.draw(ops.polya_gamma(h, z, size=N), random_seed=2)
        for t in (0.5, 3.0):
            values = np.exp(-t * draws)
            exact = (np.cosh(z / 2) / np.cosh(np.sqrt(z * z / 4 + t / 2))) ** h
            assert abs(values.mean() - exact) < 5 * values.std() / np.sqrt(N)


def test_lambda_and_omega_are_those_of_two_hinges():
    # Null: the marginals are those of zoo's own auxiliary variables. A p value below 1e-6 comes once in a million runs.
    pair = pm.draw(ops.epsilon_lambda_omega(0.3, 0.9, 1.3, 0.2, size=N), random_seed=3)
    assert pair.shape == (N, 2)
    for column, gap in ((0, 0.9 - 0.3 - 0.2), (1, 0.3 - 0.9 - 0.2)):
        law = stats.invgauss(1.0 / (1.3 * abs(gap)))
        assert stats.kstest(1.0 / pair[:, column], law.cdf).pvalue > 1e-6
    # Given f the two are independent.
    assert abs(stats.spearmanr(pair[:, 0], pair[:, 1])[0]) < 5 / np.sqrt(N)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ops.inverse_gaussian(np.array([0.5, np.inf]), np.array([[1.0], [2.0]])),
        lambda: ops.polya_gamma(np.array([1.0, 2.0, 0.5]), 0.3, size=(2, 3)),
        lambda: ops.hinge_lambda(F, Y, 1.3, 0.8),
        lambda: ops.epsilon_lambda_omega(F, Y, 1.3, 0.2),
        lambda: ops.hinge_lambda(Y, Y, 1.0, 1.0),  # the margin is met exactly
    ],
)
def test_python_and_compiled_draws_are_the_same_numbers(build):
    compiled, python = (pm.draw(build(), random_seed=4, **mode) for mode in ({}, {"mode": PYTHON}))
    np.testing.assert_allclose(compiled, python, rtol=1e-12)
    assert np.all(compiled > 0.0) and np.isfinite(compiled).all()
    assert compiled.shape == tuple(build().type.shape)


def test_no_draws_at_all():
    assert pm.draw(ops.epsilon_lambda_omega(np.zeros(0), 0.0, 1.0, 0.1), mode=PYTHON).shape == (0, 2)
    assert pm.draw(ops.polya_gamma(np.ones(0), 0.0), mode=PYTHON).shape == (0,)

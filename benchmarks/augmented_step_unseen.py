"""Models that nobody had looked at when the rule of ``step.outlook()`` was chosen (``augmented_step.py --unseen``), and
models of more coefficients than that rule looks at (``--large``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["LARGE", "UNSEEN"]


def _labels(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    return (rng.random(len(f)) < 1.0 / (1.0 + np.exp(-f))).astype(int)


def crossed_few_rows() -> pm.Model:
    rng = np.random.default_rng(21)
    P, Q, N = 200, 150, 1_200
    p, q, x = rng.integers(0, P, N), rng.integers(0, Q, N), rng.normal(size=N)
    y = _labels(rng, -0.5 + 0.5 * x + rng.normal(size=P)[p] + 0.7 * rng.normal(size=Q)[q])
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 1.0)
        u = pm.Normal("u", 0.0, pm.HalfNormal("sp", 1.0), shape=P)
        v = pm.Normal("v", 0.0, pm.HalfNormal("sq", 1.0), shape=Q)
        pm.Bernoulli("y", logit_p=a + b * x + u[p] + v[q], observed=y)
    return model


def many_groups() -> pm.Model:
    rng = np.random.default_rng(22)
    G, N = 1_500, 9_000
    g, x = rng.integers(0, G, N), rng.normal(size=N)
    y = _labels(rng, -1.0 + rng.normal(0.0, 0.8, G)[g] + 0.4 * x)
    with pm.Model() as model:
        mu, b = pm.Normal("mu", 0.0, 2.0), pm.Normal("b", 0.0, 1.0)
        u = pm.Normal("u", mu, pm.HalfNormal("sd", 1.0), shape=G)
        pm.Bernoulli("y", logit_p=u[g] + b * x, observed=y)
    return model


def three_groups() -> pm.Model:
    rng = np.random.default_rng(23)
    G, N = 3, 600
    g, X = rng.integers(0, G, N), rng.normal(size=(N, 2))
    y = _labels(rng, np.array([-0.5, 0.3, 1.0])[g] + X @ np.array([0.6, -0.4]))
    with pm.Model() as model:
        mu, sd = pm.Normal("mu", 0.0, 1.5), pm.HalfNormal("sd", 1.0)
        u, b = pm.Normal("u", mu, sd, shape=G), pm.Normal("b", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=u[g] + X @ b, observed=y)
    return model


def item_response() -> pm.Model:
    rng = np.random.default_rng(24)
    P, Q = 200, 25
    p, q = np.repeat(np.arange(P), Q), np.tile(np.arange(Q), P)
    y = _labels(rng, np.exp(rng.normal(0.0, 0.3, Q))[q] * (rng.normal(size=P)[p] - rng.normal(size=Q)[q]))
    with pm.Model() as model:
        ability, difficulty = pm.Normal("theta", shape=P), pm.Normal("difficulty", 0.0, 1.5, shape=Q)
        slope = pm.LogNormal("slope", 0.0, 0.5, shape=Q)
        pm.Bernoulli("y", logit_p=slope[q] * (ability[p] - difficulty[q]), observed=y)
    return model


def count_panel() -> pm.Model:
    rng = np.random.default_rng(25)
    G, N = 400, 6_000
    g, X = rng.integers(0, G, N), rng.normal(size=(N, 3))
    mean = np.exp(1.0 + rng.normal(0.0, 0.6, G)[g] + X @ np.array([0.3, -0.2, 0.1]))
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    with pm.Model() as model:
        mu, tau, alpha = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0), pm.Exponential("alpha", 0.5)
        a, b = pm.Normal("a", mu, tau, shape=G), pm.Normal("b", shape=3)
        pm.NegativeBinomial("y", mu=pt.exp(a[g] + X @ b), alpha=alpha, observed=y)
    return model


def student_t_groups() -> pm.Model:
    rng = np.random.default_rng(26)
    G, N = 100, 3_000
    g, x = rng.integers(0, G, N), rng.normal(size=N)
    y = 1.0 + rng.normal(0.0, 0.7, G)[g] + 0.5 * x + 0.8 * rng.standard_t(4, N)
    with pm.Model() as model:
        mu, tau, sigma = pm.Normal("mu", 0.0, 3.0), pm.HalfNormal("tau", 1.0), pm.HalfNormal("sigma", 1.0)
        u, b = pm.Normal("u", mu, tau, shape=G), pm.Normal("b")
        pm.StudentT("y", nu=4.0, mu=u[g] + b * x, sigma=sigma, observed=y)
    return model


def binomial_slopes() -> pm.Model:
    rng = np.random.default_rng(27)
    G, N = 120, 1_500
    g, x, n = rng.integers(0, G, N), rng.normal(size=N), rng.integers(5, 30, N)
    B = np.array([-1.0, 0.5]) + rng.normal(size=(G, 2)) * [0.6, 0.4]
    y = rng.binomial(n, 1.0 / (1.0 + np.exp(-B[g, 0] - B[g, 1] * x)))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.5, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
        beta = pm.MvNormal("beta", mu, chol=chol, shape=(G, 2))
        pm.Binomial("y", n=n, logit_p=beta[g, 0] + beta[g, 1] * x, observed=y)
    return model


def probit() -> pm.Model:
    rng = np.random.default_rng(28)
    N, D = 3_000, 12
    X = rng.normal(size=(N, D))
    y = (X @ rng.normal(0.0, 0.3, D) + rng.normal(size=N) > 0.8).astype(int)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, pm.HalfNormal("tau", 1.0), shape=D)
        pm.Bernoulli("y", p=pm.math.invprobit(a + X @ b), observed=y)
    return model


def many_crossed() -> pm.Model:
    rng = np.random.default_rng(31)
    P, Q, N = 8_000, 2_000, 60_000
    p, q = rng.integers(0, P, N), rng.integers(0, Q, N)
    y = 2.0 + 0.5 * rng.normal(size=P)[p] + 0.7 * rng.normal(size=Q)[q] + rng.normal(size=N)
    with pm.Model() as model:
        a, sigma = pm.Normal("a", 0.0, 5.0), pm.HalfNormal("sigma", 1.0)
        u = pm.Normal("u", 0.0, pm.HalfNormal("sp", 1.0), shape=P)
        v = pm.Normal("v", 0.0, pm.HalfNormal("sq", 1.0), shape=Q)
        pm.Normal("y", a + u[p] + v[q], sigma, observed=y)
    return model


def many_slopes() -> pm.Model:
    rng = np.random.default_rng(32)
    G, N = 5_000, 50_000
    g, x = rng.integers(0, G, N), rng.normal(size=N)
    y = _labels(rng, 0.8 * rng.normal(size=G)[g] + (0.5 + 0.4 * rng.normal(size=G))[g] * x)
    with pm.Model() as model:
        mu, sd = pm.Normal("mu", 0.0, 2.0, shape=2), pm.HalfNormal("sd", 1.0, shape=2)
        u = pm.Normal("u", mu[0], sd[0], shape=G)
        b = pm.Normal("b", mu[1], sd[1], shape=G)
        pm.Bernoulli("y", logit_p=u[g] + b[g] * x, observed=y)
    return model


LARGE: dict[str, Callable[[], pm.Model]] = {
    "crossed effects, 8,000 x 2,000, N = 60,000": many_crossed,
    "logistic with slopes, 5,000 groups, N = 50,000": many_slopes,
}
"""More than 6,000 coefficients."""

UNSEEN: dict[str, Callable[[], pm.Model]] = {
    "crossed effects, 200 x 150, N = 1,200": crossed_few_rows,
    "logistic, 1,500 groups, N = 9,000": many_groups,
    "logistic, 3 groups, N = 600": three_groups,
    "item responses, 200 x 25": item_response,
    "negative binomial panel, 400 groups, N = 6,000": count_panel,
    "Student-t, 100 groups, N = 3,000": student_t_groups,
    "binomial with correlated slopes, 120 groups, N = 1,500": binomial_slopes,
    "probit, D = 13, N = 3,000": probit,
}
"""Models by what they are."""

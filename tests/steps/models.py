"""Plain PyMC models, written as their users write them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo import distributions as zd

GROUPS, ROWS = 4, 24
RNG = np.random.default_rng(0)
GROUP = np.arange(ROWS) % GROUPS
X = RNG.normal(size=(ROWS, 2))
LABELS = (RNG.random(ROWS) < 0.6).astype(int)
COUNTS = RNG.negative_binomial(2.0, 0.4, ROWS)
REAL = RNG.normal(size=ROWS) + X[:, 0]


def eight_schools():
    """Rubin (1981): the numbers of the eight schools, centred."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sd = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, sd, observed=y)
    return model


def eight_schools_not_centred():
    """The same with white effects."""
    model = eight_schools()
    y = model.rvs_to_values[model["y"]].data
    sd = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        z = pm.Normal("z", shape=8)
        theta = pm.Deterministic("theta", mu + tau * z)
        pm.Normal("y", theta, sd, observed=y)
    return model


def correlated_slopes():
    """Intercepts and slopes that are correlated, with labels."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
        beta = pm.MvNormal("beta", mu, chol=chol, shape=(GROUPS, 2))
        pm.Bernoulli("y", logit_p=beta[GROUP, 0] + beta[GROUP, 1] * X[:, 1], observed=LABELS)
    return model


def negative_binomial_panel():
    """Counts with exposure, group effects not centred."""
    exposure = np.exp(RNG.normal(size=ROWS) * 0.3)
    with pm.Model() as model:
        mu, tau, alpha = pm.Normal("mu"), pm.HalfNormal("tau", 1.0), pm.Exponential("alpha", 0.5)
        z, b = pm.Normal("z", shape=GROUPS), pm.Normal("b")
        mean = exposure * pt.exp(mu + (tau * z)[GROUP] + b * X[:, 0])
        pm.NegativeBinomial("y", mu=mean, alpha=alpha, observed=COUNTS)
    return model


def robust_regression():
    """Student-t errors of learned scale and degrees of freedom."""
    with pm.Model() as model:
        sigma, nu = pm.HalfNormal("sigma", 1.0), pm.Gamma("nu", 2.0, 0.2)
        a, b = pm.Normal("a"), pm.Normal("b", shape=2)
        pm.StudentT("y", nu=nu, mu=a + X @ b, sigma=sigma, observed=REAL)
    return model


def quantile_regression():
    """The quantile of 0.8."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 2.0)
        a, b = pm.Normal("a"), pm.Normal("b", shape=2)
        pm.AsymmetricLaplace("y", mu=a + X @ b, b=rate, q=0.8, observed=REAL)
    return model


def max_margin():
    """The hinge written out, with a covariance of the tasks that is given."""
    tasks = np.array([[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.3], [0.0, 0.0, 0.3, 1.0]])
    with pm.Model() as model:
        C = 0.7
        H = zd.MatrixNormal("H", mu=np.zeros((2, 4)), row_cov=np.eye(2), col_cov=tasks)
        zd.HingePseudoLikelihood("y", (X * H.T[GROUP]).sum(-1), C, observed=2 * LABELS - 1)
    return model


def matrix_normal_tube():
    """PyMC's own matrix-normal law with a learned scale, under the epsilon-insensitive loss."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1.0)
        H = pm.MatrixNormal(
            "H", mu=np.zeros((GROUPS, 2)), rowcov=np.eye(GROUPS), colcov=s * np.array([[1.0, 0.4], [0.4, 1.0]]),
            shape=(GROUPS, 2),
        )  # fmt: skip
        zd.EpsilonInsensitivePseudoLikelihood("y", (X * H[GROUP]).sum(-1), 1.2, 0.2, observed=REAL)
    return model


def several_likelihoods():
    """One intercept under a binomial, a probit, a Laplace and a normal law."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        a, b = pm.Normal("a"), pm.Normal("b", shape=2)
        f = a + X @ b
        pm.Binomial("trials", n=COUNTS, logit_p=f, observed=COUNTS // 2)
        pm.Bernoulli("probit", p=pm.math.invprobit(f), observed=LABELS)
        pm.Laplace("laplace", mu=f, b=scale, observed=REAL)
        pm.Normal("normal", f[:5], scale, observed=REAL[:5])
    return model


def missing_responses():
    """Normal responses, two of them missing."""
    y = np.ma.masked_array(REAL, mask=np.arange(ROWS) < 2)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        b = pm.Normal("b", shape=2)
        pm.Normal("y", X @ b, sigma, observed=y)
    return model


def item_response(slopes: bool = False):
    """Two-parameter item response model: bilinear where slopes are normal."""
    person, item = np.repeat(np.arange(6), 4), np.tile(np.arange(4), 6)
    with pm.Model() as model:
        theta, difficulty = pm.Normal("theta", shape=6), pm.Normal("difficulty", shape=4)
        slope = pm.Normal("slope", 1.0, 0.3, shape=4) if slopes else pm.LogNormal("slope", 0.0, 0.3, shape=4)
        f = slope[item] * (theta[person] - difficulty[item])
        pm.Bernoulli("y", logit_p=f, observed=LABELS)
    return model


def one_line(nonlinear: bool):
    """A model that is changed in one line: the second coefficient, or its exponential."""
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b", 0.0, 0.5)
        slope = pt.exp(b) if nonlinear else b
        pm.Bernoulli("y", logit_p=a + slope * X[:, 0], observed=LABELS)
    return model


MODELS = {
    "eight schools": eight_schools,
    "eight schools, not centred": eight_schools_not_centred,
    "correlated slopes": correlated_slopes,
    "negative binomial panel": negative_binomial_panel,
    "robust regression": robust_regression,
    "quantile regression": quantile_regression,
    "max-margin": max_margin,
    "matrix normal, tube": matrix_normal_tube,
    "several likelihoods": several_likelihoods,
    "missing responses": missing_responses,
    "item response": item_response,
    "affine": lambda: one_line(False),
    "nonlinear": lambda: one_line(True),
}


def joint_pairs(model, step, sweeps, block, scales, numbers):
    """Draws of parameters and y moved by sweeps of a step, and fresh ones, for a sequential test.

    ``block`` and ``scales`` name the variables of the model, of which the step sees scales by their logarithms.
    The observed variable ``y`` is bound to the data container ``data``. ``numbers(values)`` says what is compared.
    """
    names, observed = (*block, *scales), model["y"]

    def draw(rng, n):
        seed = int(rng.integers(2**31))
        drawn = pm.draw([*(model[name] for name in names), observed], draws=2 * n, random_seed=seed)
        every = [dict(zip((*names, "y"), row, strict=True)) for row in zip(*drawn, strict=True)]
        first = []
        for values in every[:n]:
            model["data"].set_value(np.asarray(values["y"], dtype=np.float64))
            point = {name: values[name] for name in block}
            point |= {f"{name}_log__": np.log(values[name]) for name in scales}
            for _ in range(sweeps):
                point, _ = step.step(point)
            moved = {**point, **{name: np.exp(point[f"{name}_log__"]) for name in scales}}
            first.append(numbers({**moved, "y": values["y"]}))
        second = [numbers(values) for values in every[n:]]
        return tuple(
            {k: np.array([float(one[k]) for one in part]) for k in part[0]} for part in (first, second)
        )

    return draw

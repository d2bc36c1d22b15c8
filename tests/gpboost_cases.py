"""Models at given parameters, and the evidence and predictions that GPBoost's own tests print for them.

Source: R-package/tests/testthat/test_GPModel_*.R of https://github.com/fabsig/GPBoost at commit c93fa49. Nothing is
learned here, so the optimisers of both packages play no part. What one package names otherwise than the other:

- Their range is our lengthscale, of the Matern kernels too: both scale distances by ``sqrt(2 * smoothness) / range``.
  Their "gaussian" kernel is ``exp(-(distance / range)^2)``, so that our lengthscale is their range over ``sqrt(2)``.
- Their parameters are variances, ours standard deviations.
- A level of a group is a place so far from all other levels that the covariance between two of them is 0 in float64;
  so are their clusters. A random slope is the coefficient of a feature.

Left out are their models with coefficients that have a flat prior, which ours do not have, and what they print of
predicted responses other than normal ones and labels: they have moments in closed form where ours are draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import gammaln

import zoo
from tests.gpboost_data import (
    counts,
    data,
    grouped,
    labels,
    labels_of_three_ranges,
    normal,
    positive,
    space_time,
    space_time_labels,
    three_ranges,
    uniform,
)
from zoo.likelihoods import Gaussian, NegativeBinomial, StudentT

# Levels are whole numbers: exp(-1 / _APART) is 0 in float64.
_APART = 1e-3
_FIT: dict[str, Any] = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}


@dataclass(frozen=True, kw_only=True, repr=False)
class GammaResponses(zoo.Likelihood):
    """Positive responses with mean ``exp(f)``: theirs, which this package does not have."""

    parameter_names: ClassVar = ("shape",)

    shape: Any = 1.0

    def log_density(self, f, y, shape):
        return (
            shape * pt.log(shape)
            - pt.gammaln(shape)
            + (shape - 1.0) * pt.log(y)
            - shape * (f + y * pt.exp(-f))
        )

    def random(self, f, size, shape):
        return pm.Gamma.dist(shape, shape * pt.exp(-f), size=size)


# ---------------------------------------------------------------- models at given parameters


def _as_given(places: np.ndarray, word: str, rng: np.random.Generator) -> np.ndarray:
    """Their ordering "none", which ours do not offer: the rows as they are."""
    return np.arange(len(places))


def part(
    variance: float, scale: Any, kernel: str = "matern12", columns: Any = None, feature: str = "x0"
) -> Any:
    """Return a component: it multiplies the feature by a random function, or by one random level per group."""
    name = f"{feature} {'all' if columns is None else ' '.join(columns)}"
    return zoo.VaryingComponent(
        kernel=kernel, amplitude=float(np.sqrt(variance)), lengthscale=scale, columns=columns, features=[feature],
        name=name,
    )  # fmt: skip


def level(variance: float, column: str, feature: str = "x0") -> Any:
    """Return a component that multiplies the feature by one random level per group."""
    return part(variance, _APART, columns=[column], feature=feature)


def place(variance: float, scale: Any, feature: str = "x0", kernel: str = "matern12") -> Any:
    """Return a component that multiplies the feature by a random function of the first two columns of t."""
    return part(variance, scale, kernel, ["t0", "t1"], feature)


class Given(NamedTuple):
    """A model whose parameters are all numbers, and data; ``constant`` is what its log likelihood leaves out."""

    parts: tuple[Any, ...]
    likelihood: Any
    y: np.ndarray
    t: np.ndarray
    X: np.ndarray | None = None
    weight: np.ndarray | None = None
    constant: float = 0.0
    method: str = ""
    near: int = 30

    def fit(self) -> Any:
        likelihood = self.likelihood
        gaussian = isinstance(likelihood, float)
        factory = zoo.VaryingCoefficientGP(
            task_kernel=self.parts, likelihood=Gaussian(noise=float(np.sqrt(likelihood))) if gaussian else likelihood,
            intercept=False, standardize=False, global_coefficients=False,
            n_neighbours=self.near, n_neighbours_predict=self.near, n_inducing=len(self.y),
        )  # fmt: skip
        X = np.ones((len(self.y), 1)) if self.X is None else self.X
        rows = zoo.MultiTaskData.from_arrays(X=X, y=self.y, t=self.t, weight=self.weight)
        method = self.method or ("exact" if gaussian else "laplace")
        with patch("zoo.models.varying_coefficient.vecchia.order_rows", _as_given):
            return factory.fit(rows, method=method, **_FIT)


class Machine(NamedTuple):
    """A kernel machine with a linear kernel, its tasks independent: levels are tasks."""

    variance: float
    noise: float
    X: np.ndarray
    y: np.ndarray
    task: np.ndarray

    constant = 0.0

    def fit(self) -> Any:
        T = len(np.unique(self.task))
        factory = zoo.MultiTaskKernelMachine(
            kernel=zoo.kernels.MeanRegularised(n_tasks=T, lam=1.0),  # T times the identity
            amplitude=float(np.sqrt(self.variance / T)), likelihood=Gaussian(noise=float(np.sqrt(self.noise))),
        )  # fmt: skip
        rows = zoo.MultiTaskData.from_arrays(self.X, self.y, [f"level {i:03d}" for i in self.task])
        return factory.fit(rows, method="exact", **_FIT)


def negative_log_evidence(model: Given | Machine, fit: Any) -> float:
    """That of all responses, with what the log likelihood leaves out."""
    return -float(fit.idata["sample_stats"]["log_evidence"].to_numpy()[0, 0]) - model.constant


def coefficients_over_place() -> tuple[Any, ...]:
    """An intercept and two coefficients, each with a range of its own."""
    return place(1.0, 0.1), place(0.8, 0.15, "x1"), place(1.1, 0.08, "x2")


def with_one(*columns: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(columns[0])), *columns])


def gp(kernel: str = "matern12", scale: float = 0.2, **changes: Any) -> Given:
    s = data()
    return Given((part(1.6, scale, kernel),), 0.1, s.gp + s.xi, s.coords)._replace(**changes)


def varying(**changes: Any) -> Given:
    s = data()
    return Given(coefficients_over_place(), 0.1, s.svc + s.xi, s.coords, with_one(s.Z))._replace(**changes)


def clusters() -> Given:
    s = data()
    t = np.column_stack([s.coords, s.cluster])
    return Given((part(1.0, [0.15, 0.15, _APART], columns=["t0", "t1", "t2"]),), 0.1, s.gp + s.xi, t)


def three(kernel: str, factor: float = 1.0, **changes: Any) -> Given:
    places, y = three_ranges()
    return Given((part(1.6, factor * np.array([0.1, 0.2, 0.15]), kernel),), 0.1, y, places)._replace(
        **changes
    )


def over_time(kernel: str, **changes: Any) -> Given:
    places, y = space_time()
    return Given((part(1.6, [1.0, 0.2, 0.2], kernel),), 0.1, y, places)._replace(**changes)


def three_doubled() -> Given:
    model = three("matern12")
    places = model.t.copy()
    places[:5] = places[-5:]
    return model._replace(t=places)


def multiple() -> Given:
    s = data()
    return Given((part(1.0, 0.15),), 0.1, s.gp_multiple + s.xi, s.coords_multiple)


def linear() -> Machine:
    s = data()
    X = uniform(50 * s.n, 0.1156).reshape(50, s.n).T
    y = X @ normal(50, 0.1234) + 0.1 + 2.0 * s.wave + 0.1 * normal(s.n, 0.2224)
    return Machine(0.9, 0.5, X, y, np.zeros(s.n, dtype=int))


def tasks() -> Machine:
    s = grouped()
    return Machine(1.0, 0.1, np.ones((s.n, 1)), s.one, s.group)


def one_group() -> Given:
    s = grouped()
    return Given((level(1.0, "t0"),), 0.1, s.one, s.group[:, None].astype(float))


def crossed_groups() -> Given:
    s = grouped()
    parts = level(1.0, "t0"), level(2.0, "t1"), level(1.5, "t0", "x1")
    return Given(parts, 0.1, s.three, np.column_stack([s.group, s.group2]).astype(float), with_one(s.x))


def place_and_group(doubled: bool = False, **changes: Any) -> Given:
    s = data()
    t = np.column_stack([s.coords, s.group])
    if doubled:
        t[1:10, :2] = t[0, :2]
    y = s.gp + normal(10, 0.56)[s.group] + s.xi
    return Given((level(0.9, "t2"), place(1.6, 0.2)), 0.1, y, t)._replace(**changes)


def everything(b_gr_1: np.ndarray, response: Callable[[np.ndarray], np.ndarray], likelihood: Any) -> Given:
    """Coefficients over place, two crossed groups and a random slope."""
    s = data()
    f = s.svc + b_gr_1[s.group] + s.b_gr_2[s.group2] + s.x * s.b_gr_3[s.group]
    parts = level(0.9, "t2"), level(0.8, "t3"), level(1.2, "t2", "x3"), *coefficients_over_place()
    t = np.column_stack([s.coords, s.group, s.group2])
    return Given(parts, likelihood, response(f), t, with_one(s.Z, s.x))


def everything_normal() -> Given:
    return everything(normal(10, 0.56), lambda f: f + data().xi, 0.1)


def everything_probit() -> Given:
    return everything(normal(10, 0.565), lambda f: labels(f, 0.9867234), "probit")


def latent(
    likelihood: Any, y: np.ndarray, variance: float = 0.9, scale: float = 0.2, **changes: Any
) -> Given:
    return Given((part(variance, scale),), likelihood, y, data().coords)._replace(**changes)


def levels(likelihood: Any, response: Callable[[np.ndarray], np.ndarray], variance: float = 0.9) -> Given:
    s = data()
    y = response(normal(10, 0.565)[s.group])
    return Given((level(variance, "t0"),), likelihood, y, s.group[:, None].astype(float))


def logit(f: np.ndarray, start: float) -> np.ndarray:
    return (uniform(len(f), start) < 1.0 / (1.0 + np.exp(-f))).astype(np.float64)


def gamma_levels(variance: float) -> Given:
    return levels(GammaResponses(), lambda f: positive(f, 0.04532), variance)


def probit_clusters() -> Given:
    s = data()
    parts = (part(1.5, [0.15, 0.15, _APART], columns=["t0", "t1", "t2"]),)
    return Given(parts, "probit", labels(s.gp, 0.2341), np.column_stack([s.coords, s.cluster]))


def crossed_probit() -> Given:
    s = data()
    f = normal(10, 0.565)[s.group] + s.b_gr_2[s.group2] + s.x * s.b_gr_3[s.group]
    t = np.column_stack([s.group, s.group2]).astype(float)
    parts = level(0.9, "t0"), level(0.8, "t1"), level(1.2, "t0", "x1")
    return Given(parts, "probit", labels(f, 0.57341), t, with_one(s.x))


def probit_other() -> Given:
    return latent("probit", labels(data().gp, 0.19341), 1.0, 0.2)


def probit_with_group() -> Given:
    s = data()
    y = labels(s.gp + normal(10, 0.565)[s.group], 0.67341)
    return Given((level(1.1, "t2"), place(0.9, 0.2)), "probit", y, np.column_stack([s.coords, s.group]))


def gamma_with_group() -> Given:
    y = positive(data().gp + normal(10, 0.56)[data().group], 0.234, shape=0.5)
    return place_and_group(likelihood=GammaResponses(shape=1.25), y=y)


def binomial(link: str) -> Given:
    """Successes and failures of each row are two rows of labels, whose weights are their numbers."""
    s = data()
    f = normal(10, 0.565)[s.group] + 0.5 * (0.1 + 2.0 * s.wave)
    p = 1.0 / (1.0 + np.exp(-f)) if link == "logistic" else stats.norm.cdf(f)
    trials = stats.poisson.ppf(uniform(s.n, 0.9146), 5.0)
    k = stats.binom.ppf(uniform(s.n, 0.146), trials, p)
    weight, y = np.concatenate([k, trials - k]), np.repeat([1.0, 0.0], s.n)
    t, kept = np.tile(s.group, 2)[:, None].astype(float), weight > 0.0
    choices = float(np.sum(gammaln(trials + 1.0) - gammaln(k + 1.0) - gammaln(trials - k + 1.0)))
    return Given((level(0.9, "t0"),), link, y[kept], t[kept], weight=weight[kept], constant=choices)


def labels_over_ranges(**changes: Any) -> Given:
    places, y = labels_of_three_ranges()
    return Given((part(0.7, [0.05, 0.1, 0.05]),), "logistic", y, places)._replace(**changes)


def labels_over_time() -> Given:
    places, y = space_time_labels()
    return Given((part(1.6, [0.07, 0.2, 0.2]),), "logistic", y, places)


def varying_probit() -> Given:
    s = data()
    return Given(coefficients_over_place(), "probit", labels(s.svc, 0.543), s.coords, with_one(s.Z))


def multiple_probit(variance: float = 0.9, scale: float = 0.2, start: float = 0.9341, f: Any = 0.0) -> Given:
    s = data()
    return latent("probit", labels(s.gp_multiple + f, start), variance, scale, t=s.coords_multiple)


def t_responses(**changes: Any) -> Given:
    s = data()
    return latent(StudentT(noise=1.0, degrees=3.0), s.gp + s.xi, 1.0, 0.2)._replace(**changes)


def negative_binomial() -> Given:
    return latent(NegativeBinomial(dispersion=1.093074798), counts(data().gp, 0.546, 1.8))


def moments(fit: Any, t: np.ndarray, X: np.ndarray | None, latent: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance at rows, of the response, or of the function of a model with the constant feature alone.

    What predictions call the mean and the sd of labels are those of the function.
    """
    if latent and X is None:
        law = fit.coefficients(t).isel(feature=0)
    else:
        law = fit.predict(np.ones((len(t), 1)) if X is None else X, t=t, random_seed=1)
    return law["mean"].to_numpy(), law["sd"].to_numpy() ** 2

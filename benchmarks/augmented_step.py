"""Block Gibbs by ``zoo.augmented_step`` against NUTS by nutpie, on plain PyMC models, within one run.

    python benchmarks/augmented_step.py [--draws 1000] [--model NAME ...] [--unseen | --large]

Prints a Markdown table: effective draws per second, of the entry that has fewest (bulk ESS, every free
variable on the model's own scale), with and without the seconds of compilation, and the ratio of the two.
One core, two chains, the same number of draws, by ``zoo.sample``. Seconds are those of the processor, so that other
work of the machine changes them little. The last column is what ``step.outlook()`` expects of the first ratio.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt
from augmented_step_unseen import LARGE, UNSEEN
from threadpoolctl import threadpool_limits

import zoo
from zoo.core.convergence import diagnose
from zoo.steps import AugmentedGibbs


def hierarchical_logistic(groups: int = 200, columns: int = 5, rows: int = 20_000) -> pm.Model:
    rng = np.random.default_rng(1)
    g, X = rng.integers(0, groups, rows), rng.normal(size=(rows, columns))
    B = rng.normal(0.3, 0.7, size=(groups, columns))
    y = rng.random(rows) < 1.0 / (1.0 + np.exp(-(X * B[g]).sum(1)))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=columns)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=columns, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
        beta = pm.MvNormal("beta", mu, chol=chol, shape=(groups, columns))
        pm.Bernoulli("y", logit_p=(beta[g] * X).sum(-1), observed=y.astype(int))
    return model


def rare_labels() -> pm.Model:
    rng = np.random.default_rng(2)
    N, D = 10_000, 8
    X = rng.normal(size=(N, D))
    y = rng.random(N) < 1.0 / (1.0 + np.exp(5.0 - X @ rng.normal(0.0, 0.4, D)))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        a, b = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, tau, shape=D)
        pm.Bernoulli("y", logit_p=a + X @ b, observed=y.astype(int))
    return model


def radon() -> pm.Model:
    rng = np.random.default_rng(3)
    G, N = 85, 919
    g, floor = rng.choice(G, N, p=rng.dirichlet(np.full(G, 0.7))), (rng.random(N) < 0.17).astype(float)
    truth = np.array([1.5, -0.7]) + rng.normal(size=(G, 2)) * [0.35, 0.3]
    y = truth[g, 0] + truth[g, 1] * floor + rng.normal(0.0, 0.75, N)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        z = pm.Normal("z", shape=(G, 2))
        beta = pm.Deterministic("beta", mu + z @ chol.T)
        sigma = pm.Exponential("sigma", 1.0)
        pm.Normal("y", beta[g, 0] + beta[g, 1] * floor, sigma, observed=y)
    return model


def student_t() -> pm.Model:
    rng = np.random.default_rng(4)
    N, D = 2_000, 20
    X = rng.normal(size=(N, D))
    y = X @ rng.normal(size=D) + rng.standard_t(3, N)
    with pm.Model() as model:
        tau, sigma = pm.HalfNormal("tau", 2.0), pm.HalfNormal("sigma", 2.0)
        nu = pm.Gamma("nu", 2.0, 0.1)
        b = pm.Normal("b", 0.0, tau, shape=D)
        pm.StudentT("y", nu=nu, mu=X @ b, sigma=sigma, observed=y)
    return model


def negative_binomial() -> pm.Model:
    rng = np.random.default_rng(5)
    G, N = 60, 3_000
    g, x = rng.integers(0, G, N), rng.normal(size=N)
    mean = np.exp(0.5 + rng.normal(0.0, 0.5, G)[g] + 0.3 * x)
    y = rng.negative_binomial(3.0, 3.0 / (3.0 + mean))
    with pm.Model() as model:
        mu, tau, alpha = pm.Normal("mu"), pm.HalfNormal("tau", 1.0), pm.Exponential("alpha", 0.2)
        a, b = pm.Normal("a", mu, tau, shape=G), pm.Normal("b")
        pm.NegativeBinomial("y", mu=pt.exp(a[g] + b * x), alpha=alpha, observed=y)
    return model


def quantile_regression() -> pm.Model:
    rng = np.random.default_rng(6)
    N, D = 2_000, 10
    X = rng.normal(size=(N, D))
    y = X @ rng.normal(size=D) + rng.gamma(2.0, 1.0, N)
    with pm.Model() as model:
        a, b, rate = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, 2.0, shape=D), pm.Exponential("rate", 1.0)
        pm.AsymmetricLaplace("y", mu=a + X @ b, b=rate, q=0.8, observed=y)
    return model


def collinear() -> pm.Model:
    rng = np.random.default_rng(7)
    N, D = 2_000, 30
    X = rng.normal(size=(N, 1)) + 0.1 * rng.normal(size=(N, D))
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-X @ rng.normal(0.0, 0.3, D)))
    with pm.Model() as model:
        tau, a = pm.HalfNormal("tau", 1.0), pm.Normal("a", 0.0, 2.0)
        b = pm.Normal("b", 0.0, tau, shape=D)
        pm.Bernoulli("y", logit_p=a + X @ b, observed=y.astype(int))
    return model


def polynomial() -> pm.Model:
    rng = np.random.default_rng(8)
    N, D = 1_000, 8
    x = rng.uniform(0.0, 1.0, N)
    X = np.stack([x ** (i + 1) for i in range(D)], axis=1)
    y = np.sin(6.0 * x) + 0.3 * rng.standard_t(3, N)
    with pm.Model() as model:
        sigma, a = pm.HalfNormal("sigma", 1.0), pm.Normal("a", 0.0, 5.0)
        b = pm.Normal("b", 0.0, 20.0, shape=D)
        pm.StudentT("y", nu=4.0, mu=a + X @ b, sigma=sigma, observed=y)
    return model


def crossed() -> pm.Model:
    rng = np.random.default_rng(9)
    P, Q, N = 300, 100, 10_000
    p, q = rng.integers(0, P, N), rng.integers(0, Q, N)
    f = 0.5 + rng.normal(size=P)[p] + rng.normal(size=Q)[q]
    with pm.Model() as model:
        a, sp, sq = pm.Normal("a", 0.0, 2.0), pm.HalfNormal("sp", 1.0), pm.HalfNormal("sq", 1.0)
        u, v = pm.Normal("u", 0.0, sp, shape=P), pm.Normal("v", 0.0, sq, shape=Q)
        observed = (rng.random(N) < 1.0 / (1.0 + np.exp(-f))).astype(int)
        pm.Bernoulli("y", logit_p=a + u[p] + v[q], observed=observed)
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "hierarchical logistic, 200 x 5, N = 20,000": hierarchical_logistic,
    "rare labels, 1 %, D = 9, N = 10,000": rare_labels,
    "radon with correlated slopes, non-centred, N = 919": radon,
    "Student-t, D = 20, N = 2,000": student_t,
    "negative binomial panel, 60 groups, N = 3,000": negative_binomial,
    "quantile regression, D = 11, N = 2,000": quantile_regression,
    "logistic, 30 columns correlated by 0.99, N = 2,000": collinear,
    "Student-t, polynomial of degree 8, N = 1,000": polynomial,
    "crossed effects, 300 x 100, N = 10,000": crossed,
}


def smallest_ess(posterior: Any) -> float:
    """Bulk ESS of the entry that has least; names with an end on ``stds`` or ``corr`` say the same again."""
    again = [n for n in posterior.data_vars if str(n).endswith(("_stds", "_corr"))]
    return float(np.nanmin(diagnose(posterior.drop_vars(again)).mixing.ess_bulk))


class Clock:
    """Seconds of the processor from the first sweep of a step to its last one."""

    def __enter__(self) -> Clock:
        self.first, self.last, self._step = None, 0.0, AugmentedGibbs.step

        def step(own: AugmentedGibbs, point: Any) -> Any:
            self.first = time.process_time() if self.first is None else self.first
            made = self._step(own, point)
            self.last = time.process_time()
            return made

        AugmentedGibbs.step = step  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        AugmentedGibbs.step = self._step  # type: ignore[method-assign]


def by_step(build: Callable[[], pm.Model], draws: int) -> tuple[float, float, float]:
    """Smallest ESS, seconds of sampling, and seconds in all."""
    started = time.process_time()
    with Clock() as clock:
        tree = zoo.sample(
            build(), draws=draws, tune=draws, chains=2, method="gibbs", random_seed=1, progress=False
        )
    total = time.process_time() - started
    return smallest_ess(tree["posterior"].to_dataset()), clock.last - (clock.first or 0.0), total


def by_nutpie(build: Callable[[], pm.Model], draws: int) -> tuple[float, float, float]:
    """The same of NUTS."""
    started = time.process_time()
    with build() as model:
        compiled_model = nutpie.compile_pymc_model(model)
    compiled = time.process_time()
    tree = nutpie.sample(
        compiled_model, draws=draws, tune=draws, chains=2, cores=1, seed=1, progress_bar=False
    )
    ended = time.process_time()
    return smallest_ess(tree["posterior"].to_dataset()), ended - compiled, ended - started


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--model", nargs="*", help="a part of the name of each model to run")
    parser.add_argument(
        "--unseen", action="store_true", help="run the models that the outlook's rule has not seen"
    )
    parser.add_argument("--large", action="store_true", help="run the models of more than 6,000 coefficients")
    arguments = parser.parse_args()
    models = LARGE if arguments.large else UNSEEN if arguments.unseen else MODELS
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(
        "| model | ESS/s, step | nutpie | ratio | with compilation, step | nutpie | ratio | expected |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    warnings.simplefilter("ignore")
    with threadpool_limits(1), np.errstate(all="ignore"):
        for name, build in models.items():
            if arguments.model and not any(part in name for part in arguments.model):
                continue
            numbers = []
            for run in (by_step, by_nutpie):
                ess, sampling, total = run(build, arguments.draws)
                numbers.append((ess / sampling, ess / total))
            outlook = zoo.augmented_step(build()).outlook()
            expected = f"NUTS, {outlook.gain:.2g}" if outlook.words() else f"step, {outlook.gain:.2g}"
            (step, step_all), (nuts, nuts_all) = numbers
            print(
                f"| {name} | {step:.3g} | {nuts:.3g} | {step / nuts:.2g} "
                f"| {step_all:.3g} | {nuts_all:.3g} | {step_all / nuts_all:.2g} | {expected} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

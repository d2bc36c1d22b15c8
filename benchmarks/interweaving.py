"""Gibbs steps in models of a user's own, with and without interweaving of scales.

    python benchmarks/interweaving.py [--only WORD]

Hierarchical logistic regressions in the centred form: 300 groups of 4 rows, where the rows say little of each group; 40
groups of 200 rows, where they say much; and 300 customers crossed with 100 products, 10,000 rows. Two chains of 1,000
draws after 500 of warm-up, one after the other. The smallest bulk ESS is that of any number of the posterior; seconds
are those of sampling, warm-up included and compilation not.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

import arviz as az
import numpy as np
import pymc as pm

import zoo
from zoo.steps.run import conditional_nuts


def groups(n_groups: int, n_rows: int) -> pm.Model:
    """A level for each group, and one slope."""
    rng = np.random.default_rng(2)
    group, x = np.repeat(np.arange(n_groups), n_rows), rng.normal(size=n_groups * n_rows)
    logit = -0.3 + 0.8 * x + 0.5 * rng.normal(size=n_groups)[group]
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-logit))).astype(int)
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, 2.0), pm.Normal("slope", 0.0, 1.0)
        u = pm.Normal("u", 0.0, pm.HalfNormal("sd", 1.0), shape=n_groups)
        pm.Bernoulli("y", logit_p=level + slope * x + u[group], observed=y)
    return model


def crossed(n_first: int, n_second: int, n_rows: int) -> pm.Model:
    """Effects of two kinds."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, n_first, n_rows), rng.integers(0, n_second, n_rows)
    x = rng.uniform(-1.0, 1.0, n_rows)
    logit = -0.5 + 0.8 * x + rng.normal(size=n_first)[first] + 0.7 * rng.normal(size=n_second)[second]
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(int)
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, 2.0), pm.Normal("slope", 0.0, 1.0)
        u = pm.Normal("u", 0.0, pm.HalfNormal("sd", 1.0), shape=n_first)
        v = pm.Normal("v", 0.0, pm.HalfNormal("sd_second", 1.0), shape=n_second)
        pm.Bernoulli("y", logit_p=level + slope * x + u[first] + v[second], observed=y)
    return model


CASES = {
    "weak: 300 groups of 4 rows": lambda: groups(300, 4),
    "strong: 40 groups of 200 rows": lambda: groups(40, 200),
    "crossed: 300 x 100, 10,000 rows": lambda: crossed(300, 100, 10_000),
}


def measured(model: pm.Model, interweave: bool) -> tuple[float, float, float]:
    """Smallest ESS, that of the scale of the groups, and seconds."""
    with model:
        step = zoo.augmented_step(interweave=interweave)
        steps: list[Any] = [step, *conditional_nuts(model, step, 0.9)]
        tree = pm.sample(
            draws=1000, tune=500, chains=2, cores=1, step=steps, random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    sizes = az.ess(tree["posterior"].to_dataset())
    smallest = min(float(v.min()) for v in sizes.data_vars.values())
    return smallest, float(sizes["sd"]), float(tree["posterior"].attrs["sampling_time"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of the name of a case")
    only = parser.parse_args().only
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print("| model | interwoven | smallest ESS | ESS of the scale | s | ESS/s |")
    print("|---|---|---|---|---|---|")
    for name, make in CASES.items():
        if only not in name:
            continue
        for interweave in (False, True):
            smallest, scale, seconds = measured(make(), interweave)
            print(
                f"| {name} | {'yes' if interweave else 'no'} | {smallest:.0f} | {scale:.0f} | {seconds:.1f} | "
                f"{smallest / seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

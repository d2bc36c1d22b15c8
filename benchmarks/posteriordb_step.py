"""Plain PyMC models sampled by ``zoo.augmented_step``, against the reference draws of posteriordb.

    git clone https://github.com/stan-dev/posteriordb
    python benchmarks/posteriordb_step.py --database posteriordb/posterior_database

Those of its posteriors with reference draws whose coefficients have normal priors: the step draws these, and NUTS the
rest. The numbers are those of benchmarks/posteriordb.py.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from posteriordb import moments, read
from scipy.special import ndtri

import zoo

Named = Callable[[Any], dict[str, np.ndarray]]


def _entries(name: str, variable: str) -> Named:
    """A vector of the posterior, (chain, draw, K), by posteriordb's names of its entries."""
    return lambda post: {
        f"{name}[{k + 1}]": post[variable].values[..., k] for k in range(post[variable].shape[-1])
    }


def _numbers(*names: str) -> Named:
    return lambda post: {name: post[name].values for name in names}


def eight_schools(d: dict[str, Any]) -> tuple[pm.Model, list[Named]]:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=d["J"])
        pm.Normal("y", theta, np.array(d["sigma"], dtype=float), observed=np.array(d["y"], dtype=float))
    return model, [_entries("theta", "theta"), _numbers("mu", "tau")]


def regression(d: dict[str, Any]) -> tuple[pm.Model, list[Named]]:
    X = np.array(d["X"], dtype=float)
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0.0, 10.0, shape=X.shape[1]), pm.HalfNormal("sigma", 10.0)
        pm.Normal("y", X @ beta, sigma, observed=np.array(d["y"], dtype=float))
    return model, [_entries("beta", "beta"), _numbers("sigma")]


def temperatures(d: dict[str, Any]) -> tuple[pm.Model, list[Named]]:
    with pm.Model() as model:
        alpha = pm.Normal("alpha", d["pmualpha"], d["psalpha"])
        beta, sigma = pm.Normal("beta", d["pmubeta"], d["psbeta"]), pm.HalfFlat("sigma")
        pm.Normal(
            "y", alpha + beta * np.array(d["x"], dtype=float), sigma, observed=np.array(d["y"], dtype=float)
        )
    return model, [_numbers("alpha", "beta", "sigma")]


def autoregression(d: dict[str, Any]) -> tuple[pm.Model, list[Named]]:
    K, y = d["K"], np.array(d["y"], dtype=float)
    past = np.column_stack([y[K - k : len(y) - k] for k in range(1, K + 1)])
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha", 0.0, 10.0), pm.Normal("beta", 0.0, 10.0, shape=K)
        pm.Normal("y", alpha + past @ beta, pm.HalfCauchy("sigma", 2.5), observed=y[K:])
    return model, [_entries("beta", "beta"), _numbers("alpha", "sigma")]


POSTERIORS: dict[str, Callable[[dict[str, Any]], tuple[pm.Model, list[Named]]]] = {
    "eight_schools-eight_schools_noncentered": eight_schools,
    "sblrc-blr": regression,
    "sblri-blr": regression,
    "kilpisjarvi_mod-kilpisjarvi": temperatures,
    "arK-arK": autoregression,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--database", type=Path, required=True, help="the folder posterior_database of a checkout"
    )
    parser.add_argument("--draws", type=int, default=4000, help="of each of four chains")
    given = parser.parse_args()
    print(f"{'posterior':45} {'parameters':>10} {'z of mean':>10} {'z of sd':>8} {'R-hat':>6}")
    total, largest = 0, 0.0
    for posterior, build in POSTERIORS.items():
        path = given.database / "reference_posteriors" / "draws" / "draws" / f"{posterior}.json.zip"
        reference = read(path)
        model, readers = build(read(given.database / "data" / "data" / f"{posterior.split('-')[0]}.json.zip"))
        with model, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = zoo.augmented_step()
            idata = pm.sample(
                draws=given.draws, tune=1000, chains=4, cores=1, step=step, random_seed=1, progressbar=False
            )
        ours = {name: draws for read_them in readers for name, draws in read_them(idata["posterior"]).items()}
        z = []
        for name, values in ours.items():
            here, there = moments(values), moments(np.array([chain[name] for chain in reference]))
            z.append((here[:, 0] - there[:, 0]) / np.hypot(here[:, 1], there[:, 1]))
        mean, sd = np.abs(z).max(axis=0)
        r_hat = max(float(v.max()) for v in az.rhat(idata["posterior"]).values())
        total, largest = total + 2 * len(ours), max(largest, mean, sd)
        print(f"{posterior:45} {len(ours):10d} {mean:10.2f} {sd:8.2f} {r_hat:6.3f}", flush=True)
    chance = -ndtri((1.0 - 0.95 ** (1.0 / total)) / 2.0)
    print(f"{total} comparisons: largest |z| {largest:.2f}; by chance up to {chance:.2f} in 95 of 100 runs")


if __name__ == "__main__":
    main()

"""How often intervals of the population's parameters hold: tables of known truth, by the defaults.

    python benchmarks/variance_components.py --tables 200
    python benchmarks/variance_components.py --tables 24 --model NIWLinear
    python benchmarks/variance_components.py --tables 100 --design counts --fields '{"delta": 3}'

Each design is a population with given standard deviations and correlations of levels and slopes. Printed are, for the
standard deviations and the correlations, the share of 90 % intervals that hold the truth over all tables, and beside
the truth the average of the posterior means.
"""

import argparse
import json
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

import zoo


@dataclass(frozen=True)
class Design:
    """A population: mean (D,), standard deviations (D,), correlations, groups, rows of each, noise; the level first."""

    mean: tuple[float, ...]
    sd: tuple[float, ...]
    correlation: float
    groups: int
    rows: int
    noise: float
    likelihood: str = "gaussian"
    balanced: bool = True
    drawn: bool = False  # features drawn at random, in place of equal steps in time

    @property
    def corr(self):
        """All correlations are the same."""
        D = len(self.sd)
        return np.full((D, D), self.correlation) + (1.0 - self.correlation) * np.eye(D)

    def table(self, seed):
        """A table with its columns y, x1 ..., g."""
        rng = np.random.default_rng(seed)
        D, m = len(self.mean), self.groups
        sizes = np.full(m, self.rows)
        if not self.balanced:
            sizes = rng.integers(2, 2 * self.rows - 1, m)
        g = np.repeat(np.arange(m), sizes)
        if self.drawn:
            X = rng.normal(size=(len(g), D - 1))
        else:
            X = np.concatenate([np.arange(n) for n in sizes])[:, None] * np.ones(D - 1)
        effects = np.array(self.mean) + rng.normal(size=(m, D)) @ np.linalg.cholesky(self.corr).T * self.sd
        f = effects[g, 0] + np.sum(X * effects[g, 1:], axis=1)
        if self.likelihood == "gaussian":
            y = f + self.noise * rng.normal(size=len(g))
        elif self.likelihood == "logistic":
            y = (rng.random(len(g)) < 1.0 / (1.0 + np.exp(-f))).astype(float)
        else:  # counts around exp(f), of the dispersion 1 / noise
            shape = 1.0 / self.noise
            y = rng.poisson(np.exp(f) * rng.gamma(shape, 1.0 / shape, len(g))).astype(float)
        columns = {f"x{j + 1}": X[:, j] for j in range(D - 1)}
        return pd.DataFrame({"y": y, **columns, "g": [f"g{i}" for i in g]})


DESIGNS = {
    "large mean": Design((15.0, 7.0), (4.0, 0.6), 0.0, 60, 12, 2.5),
    "small mean": Design((0.0, 0.3), (1.0, 0.3), 0.4, 60, 8, 0.7),
    "few groups": Design((15.0, 7.0), (4.0, 0.6), 0.0, 12, 10, 2.5),
    "no level": Design((15.0, 7.0), (0.0, 0.6), 0.0, 46, 12, 2.5),
    "five features": Design(
        (3.0, 1.0, -1.0, 0.5, 0.0), (1.0, 0.6, 0.4, 0.3, 0.5), 0.3, 50, 15, 1.0, drawn=True
    ),
    "unbalanced": Design((50.0, -2.0), (6.0, 1.0), -0.5, 60, 7, 4.0, balanced=False),
    "counts": Design((1.0, 0.3), (0.6, 0.25), 0.3, 50, 12, 0.3, "negative_binomial", drawn=True),
    "labels": Design((0.3, 0.8), (0.8, 0.6), 0.3, 60, 20, 0.0, "logistic", drawn=True),
}


def one_table(design, model, fields, seed, draws):
    """Whether intervals of standard deviations and correlations hold, the posterior means, and the largest R-hat."""
    D = len(design.sd)
    slopes = " + ".join(f"x{j}" for j in range(1, D))
    data = zoo.MultiTaskData.from_formula(f"y ~ {slopes} + ({slopes} | g)", design.table(seed))
    factory = getattr(zoo, model)(likelihood=design.likelihood, **fields)
    fit = factory.fit(data, draws=draws, tune=500, chains=2, random_seed=seed, progress=False)
    names = ["Intercept", *(f"x{j}" for j in range(1, D))]
    C = fit.in_data_units()["feature_cov"].sel(feature=names, feature_bis=names)
    C = C.stack(z=("chain", "draw")).transpose("z", ...).to_numpy()
    sd = np.sqrt(np.diagonal(C, axis1=1, axis2=2))
    corr = C / sd[:, :, None] / sd[:, None, :]
    pairs = np.tril_indices(D, -1)
    values = np.hstack([sd, corr[:, pairs[0], pairs[1]]])
    truth = np.concatenate([design.sd, design.corr[pairs]])
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    return (low <= truth) & (truth <= high), values.mean(axis=0), truth, float(fit.diagnostics().r_hat.max())


def main():
    """Prints a line for each design."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=24)
    parser.add_argument("--design", nargs="*", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--model", default="HierarchicalLinear")
    parser.add_argument("--fields", type=json.loads, default={})
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.design:
        seeds = range(asked.first_seed, asked.first_seed + asked.tables)
        found = [one_table(DESIGNS[name], asked.model, asked.fields, seed, asked.draws) for seed in seeds]
        hold, means = (np.mean([f[i] for f in found], axis=0) for i in (0, 1))
        truth, r_hat = found[0][2], max(f[3] for f in found)
        D = len(DESIGNS[name].sd)
        for what, part in (("sd", slice(0, D)), ("correlation", slice(D, None))):
            print(
                f"{name:14s} {what:11s} truth {np.round(truth[part], 2)} mean {np.round(means[part], 2)} "
                f"holds {np.round(100 * hold[part]).astype(int)} %  R-hat {r_hat:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

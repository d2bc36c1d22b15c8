"""Mixed models of public tables: the default posterior beside restricted maximum likelihood.

    python benchmarks/public_mixed.py                         the ten tables of the page of mixed models
    python benchmarks/public_mixed.py --tables Gcsemv cake    some of all that the script knows
    python benchmarks/public_mixed.py --folder FOLDER         read FOLDER/dietox.csv and so on, download nothing

The tables come from Rdatasets. For every component of the population (standard deviations over groups, correlations,
the noise) a row has the estimate, the median and the standard deviation of the posterior, and the distance of both in
posterior standard deviations. Estimates are by restricted maximum likelihood: of ``MixedLM`` of statsmodels for one
group, the best of three searches, and by a script of ours for groups within groups. For labels they are by maximum
likelihood, with levels integrated out by quadrature. The script needs statsmodels.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from crossed import reml
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp

import zoo

COMMIT = "1dcc2bf5f955cc1224a3e1307256e1fe86b68dae"
URL = f"https://raw.githubusercontent.com/vincentarelbundock/Rdatasets/{COMMIT}/csv"


@dataclass(frozen=True)
class Table:
    """A table of Rdatasets, its formula, and what is done to it before."""

    package: str
    common: str  # terms of all groups, as in a formula
    varying: str  # terms of each group, without the bar
    group: str
    second: str = ""  # a further group of levels
    labels: bool = False
    change: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame

    @property
    def formula(self) -> str:
        """The formula of zoo."""
        further = f" + (1 | {self.second})" if self.second else ""
        return f"{self.common} + ({self.varying} | {self.group}){further}"


def persons(frame: pd.DataFrame) -> pd.DataFrame:
    """One row of cbpp per cow, in place of one per herd and period."""
    times = np.repeat(np.arange(len(frame)), frame["size"])
    sick = np.concatenate([np.arange(n) < k for k, n in zip(frame["incidence"], frame["size"], strict=True)])
    long = frame.iloc[times].reset_index(drop=True)
    return long.assign(sick=sick.astype(float), period=long["period"].map("p{}".format))


def yes(column: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Adds labels y, which are 1 where the column says Y."""
    return lambda frame: frame.assign(y=(frame[column] == "Y").astype(float))


TABLES = {
    "dietox": Table("geepack", "Weight ~ Time", "Time", "Pig"),
    "Hsb82": Table("mlmRev", "mAch ~ cses", "cses", "school"),
    "Exam": Table("mlmRev", "normexam ~ standLRT", "standLRT", "school"),
    "sleepstudy": Table("lme4", "Reaction ~ Days", "Days", "Subject"),
    "Orthodont": Table("nlme", "distance ~ age", "age", "Subject"),
    "Oxboys": Table("nlme", "height ~ age", "age", "Subject"),
    "Machines": Table("nlme", "score ~ Machine", "Machine", "Worker"),
    "Pastes": Table("lme4", "strength ~ 1", "1", "sample", "batch"),
    "cbpp": Table("lme4", "sick ~ period", "1", "herd", labels=True, change=persons),
    "VerbAgg": Table(
        "lme4",
        "y ~ btype + situ + mode + Anger + Gender",
        "1",
        "id",
        labels=True,
        change=yes("r2"),
    ),
    # A last look: nothing was chosen by these.
    "Gcsemv": Table("mlmRev", "course ~ written", "written", "school", change=pd.DataFrame.dropna),
    "BodyWeight": Table("nlme", "weight ~ Time + Diet", "Time", "Rat"),
    "Early": Table("mlmRev", "cog ~ age", "age", "id"),
    "sitka89": Table("geepack", "size ~ time + treat", "time", "tree"),
    "cake": Table("lme4", "angle ~ temp + recipe", "1", "replicate"),
    "ergoStool": Table("nlme", "effort ~ Type", "1", "Subject"),
    "Penicillin": Table("lme4", "diameter ~ 1", "1", "plate", "sample"),
    "Contraception": Table(
        "mlmRev",
        "y ~ age + urban + livch",
        "1",
        "district",
        labels=True,
        change=yes("use"),
    ),
}
PAGE = tuple(TABLES)[:10]


def read(name: str, folder: str | None) -> pd.DataFrame:
    """The table, with text for its groups."""
    table = TABLES[name]
    frame = pd.read_csv(f"{folder or f'{URL}/{table.package}'}/{name}.csv")
    for column in (table.group, table.second, "Diet", "treat"):
        if column in frame:
            frame[column] = frame[column].map("g{}".format)
    return table.change(frame).reset_index(drop=True)


def by_quadrature(y: np.ndarray, X: np.ndarray, group: np.ndarray, nodes: int = 61) -> float:
    """Standard deviation of levels over groups by maximum likelihood; labels 0 and 1."""
    z, weight = np.polynomial.hermite_e.hermegauss(nodes)
    log_weight = np.log(weight / weight.sum())
    sign, groups = 2.0 * y - 1.0, group.max() + 1

    def loss(parameters: np.ndarray) -> float:
        f = (X @ parameters[1:])[:, None] + np.exp(parameters[0]) * z
        logp = np.zeros((groups, nodes))
        np.add.at(logp, group, log_expit(sign[:, None] * f))
        return -float(logsumexp(logp + log_weight, axis=1).sum())

    found = minimize(loss, np.zeros(1 + X.shape[1]), method="BFGS")
    return float(np.exp(found.x[0]))


def estimates(table: Table, frame: pd.DataFrame) -> dict[str, float]:
    """Components by (restricted) maximum likelihood, on the scale of the data."""
    from formulaic import model_matrix
    from statsmodels.regression.mixed_linear_model import MixedLM

    y, X = (np.asarray(part, float) for part in model_matrix(table.common, frame))
    group = pd.factorize(frame[table.group])[0]
    if table.labels:
        return {"sd Intercept": by_quadrature(y[:, 0], X, group)}
    if table.second:
        found = reml(y[:, 0], X, frame[table.group], frame[table.second])
        return {"sd Intercept": found[0], f"sd {table.second}": found[1], "noise": found[2]}
    Z = model_matrix(table.varying, frame)
    shift = np.asarray(Z, float).mean(axis=0) * (np.arange(Z.shape[1]) > 0)
    scale = np.where(np.arange(Z.shape[1]) > 0, np.asarray(Z, float).std(axis=0), 1.0)
    inner = (np.asarray(Z, float) - shift) / scale
    size = y.std()
    span = np.linalg.qr(X - X.mean(axis=0) * (np.arange(X.shape[1]) > 0))[0] * np.sqrt(len(X))
    model, found = MixedLM(y[:, 0] / size, span, group, exog_re=inner), None
    for method in ("bfgs", "lbfgs", "powell"):  # each stops below the maximum on some table
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = model.fit(reml=True, method=[method])
        if np.isfinite(tried.llf) and (found is None or tried.llf > found.llf):
            found = tried
    assert found is not None
    back = np.diag(1.0 / scale)
    back[0] = np.where(np.arange(len(shift)) > 0, -shift / scale, 1.0)
    C = size**2 * back @ np.asarray(found.cov_re) @ back.T
    named = components(C[None], [name.replace("[T.", "[") for name in Z.columns])
    return {name: float(value[0]) for name, value in named.items()} | {"noise": size * found.scale**0.5}


def components(C: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
    """Standard deviations and correlations of draws (draws, D, D) of a covariance."""
    sd = np.sqrt(np.diagonal(C, axis1=1, axis2=2))
    named = {f"sd {name}": sd[:, i] for i, name in enumerate(names)}
    for i, first in enumerate(names):
        for j in range(i):
            corr = C[:, i, j] / np.maximum(sd[:, i] * sd[:, j], 1e-300)
            named["corr " + " ".join(sorted((names[j], first)))] = corr
    return named


def posterior(table: Table, frame: pd.DataFrame, model: str, settings: dict[str, Any]) -> tuple[Any, ...]:
    """Draws of the components, the largest R-hat, and seconds."""
    data = zoo.MultiTaskData.from_formula(table.formula, frame)
    factory = getattr(zoo, model)(likelihood="logistic" if table.labels else "gaussian")
    start = time.perf_counter()
    fit = factory.fit(data, progress=False, **settings)
    seconds = time.perf_counter() - start
    cov = fit.posterior["feature_cov"]
    names = [str(name).replace("[T.", "[") for name in cov["feature"].values]
    C = cov.stack(z=("chain", "draw")).transpose("z", "feature", "feature_bis").to_numpy()
    draws = components(C, names)
    if table.second:
        draws[f"sd {table.second}"] = fit.posterior["effect_scale"].to_numpy().ravel()
    if not table.labels:
        draws["noise"] = fit.posterior["noise"].to_numpy().ravel()
    return draws, float(fit.diagnostics().r_hat.max()), seconds


def main() -> None:
    """Print one row of the table for each component of each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="*", default=list(PAGE), choices=list(TABLES))
    parser.add_argument("--folder")
    parser.add_argument("--model", default="HierarchicalLinear")
    parser.add_argument("--draws", type=int, default=1000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", zoo.ConvergenceWarning)
    warnings.simplefilter("ignore", zoo.PriorWarning)
    settings = {"draws": asked.draws, "tune": 500, "chains": 2, "random_seed": 1}
    print("| table | component | estimate | posterior median ± sd | distance |\n|---|---|---|---|---|")
    distances = []
    for name in asked.tables:
        frame = read(name, asked.folder)
        found = estimates(TABLES[name], frame)
        draws, r_hat, seconds = posterior(TABLES[name], frame, asked.model, settings)
        missed = set(found) ^ set(draws)
        if missed:
            raise SystemExit(f"{name}: components differ: {sorted(missed)}")
        for component, estimate in found.items():
            middle, sd = float(np.median(draws[component])), float(np.std(draws[component]))
            distances.append(abs(estimate - middle) / sd)
            print(
                f"| {name} | {component} | {estimate:.3g} | {middle:.3g} ± {sd:.2g} | {distances[-1]:.2f} |",
                flush=True,
            )
        print(f"# {name}: R-hat {r_hat:.3f}, {seconds:.0f} s", flush=True)
    near = np.mean(np.array(distances) <= 0.7)
    print(f"Within 0.7 posterior standard deviations: {near:.0%} of {len(distances)} components.")


if __name__ == "__main__":
    main()

"""Features constant within tasks: a coefficient per task, a shared one, and a linear mixed model.

    python benchmarks/mixed.py [--seeds 1 2 3 4 5]

The longitudinal twin: 40 patients with 20 rows to fit and 10 to predict; age and sex stand still within a patient, the
level and the slope of time differ between patients, and three columns are noisy copies of one. Ten more patients are
new. For every seed the table has the worst R-hat and the smallest ESS of all entries of the posterior, seconds
(compiled before), and the root mean squared error and the cover of 90 % intervals for the rows held out of known
patients and for those of new ones. The formula says, as in the truth, that intercept and slope of time alone
differ between patients. ``MixedLM`` of statsmodels (restricted maximum likelihood, if it is installed) has the same
terms, and its intervals add the variance of the patient's effects given the estimates to that of the noise.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd

import zoo

PATIENTS, NEW, ROWS, HELD_OUT = 40, 10, 20, 10


def simulate(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Rows to fit, rows of the same patients, and rows of new ones."""
    rng = np.random.default_rng(seed)
    T, n = PATIENTS + NEW, ROWS + HELD_OUT
    level, slope = rng.normal(size=T), 0.3 * rng.normal(size=T)
    age, sex = rng.normal(size=T), rng.integers(0, 2, T)
    task, hidden = np.repeat(np.arange(T), n), rng.normal(size=T * n)
    frame = pd.DataFrame({"age": age[task], "sex": 1.0 * sex[task], "time": rng.normal(size=T * n)})
    for j in range(3):
        frame[f"copy{j}"] = hidden + 0.05 * rng.normal(size=T * n)
    for j in range(3):
        frame[f"noise{j}"] = rng.normal(size=T * n)
    mean = level[task] + 0.5 * frame["age"] - 0.3 * frame["sex"] + slope[task] * frame["time"]
    frame["y"] = mean + 0.1 * rng.normal(size=T * n)
    frame["patient"] = [f"p{t}" for t in task]
    known, fitted = task < PATIENTS, np.tile(np.arange(n) < ROWS, T)
    return frame[known & fitted], frame[known & ~fitted], frame[~known]


def score(rows: pd.DataFrame, mean: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[float, float]:
    """Root mean squared error, and share of the rows that their intervals cover."""
    y = rows["y"].to_numpy()
    return float(np.sqrt(np.mean((y - mean) ** 2))), float(np.mean((lower <= y) & (y <= upper)))


def terms(train: pd.DataFrame) -> str:
    """Both sides of the formula without the bar."""
    return "y ~ " + " + ".join(name for name in train.columns if name not in ("y", "patient"))


def by_zoo(
    factory: zoo.ModelFactory, formula: bool, train: pd.DataFrame, tests: list[pd.DataFrame]
) -> tuple[float, ...]:
    """Worst R-hat, smallest ESS, seconds, and two scores for each set of rows."""
    if formula:
        data = zoo.MultiTaskData.from_formula(f"{terms(train)} + (1 + time | patient)", train).standardize()
    else:
        data = zoo.MultiTaskData.from_frame(train, y="y", task="patient").standardize().add_intercept()
    factory.fit(data, draws=5, tune=5, progress=False)
    start = time.perf_counter()
    fit = factory.fit(data, random_seed=1, progress=False)
    seconds = time.perf_counter() - start
    table = fit.diagnostics()
    scores = []
    for rows, new in zip(tests, (False, True), strict=True):
        found = fit.predict(rows, new_task=new, random_seed=1)
        scores += score(rows, *(found[name].to_numpy() for name in ("mean", "lower", "upper")))
    return table["r_hat"].max(), table[["ess_bulk", "ess_tail"]].min().min(), seconds, *scores


def by_mixedlm(train: pd.DataFrame, tests: list[pd.DataFrame]) -> tuple[float, ...]:
    """The same by restricted maximum likelihood, without what draws alone have."""
    import statsmodels.formula.api as smf

    start = time.perf_counter()
    model = smf.mixedlm(terms(train), train, groups=train["patient"], re_formula="~time")
    found = model.fit()
    seconds = time.perf_counter() - start
    scores = []
    effects, cov = found.random_effects, found.random_effects_cov
    for rows, new in zip(tests, (False, True), strict=True):
        mean = found.predict(rows).to_numpy()
        Z = np.column_stack([np.ones(len(rows)), rows["time"]])
        if new:
            variance = np.einsum("ni,ij,nj->n", Z, found.cov_re.to_numpy(), Z)
        else:
            b = np.array([effects[p] for p in rows["patient"]])
            V = np.array([np.asarray(cov[p]) for p in rows["patient"]])
            mean = mean + np.sum(Z * b, axis=1)
            variance = np.einsum("ni,nij,nj->n", Z, V, Z)
        half = 1.645 * np.sqrt(variance + found.scale)
        scores += score(rows, mean, mean - half, mean + half)
    return float("nan"), float("nan"), seconds, *scores


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    seeds = parser.parse_args().seeds
    tube = zoo.EpsilonInsensitive(C=3.0)
    contenders = {
        "`NIWLinear()`": (zoo.NIWLinear(), False),
        "`NIWLinear()`, `shared=`": (zoo.NIWLinear(shared=["age", "sex"]), False),
        "`NIWLinear()`, by the formula": (zoo.NIWLinear(), True),
        '`MaxMargin("epsilon_insensitive", C=3)`': (zoo.MaxMargin(likelihood=tube), False),
        "`MaxMargin`, `shared=`": (zoo.MaxMargin(likelihood=tube, shared=["age", "sex"]), False),
    }
    print("| model | seed | R-hat | ESS | s | RMSE | cover | RMSE, new | cover, new |")
    print("|---|---|---|---|---|---|---|---|---|")
    for seed in seeds:
        train, *tests = simulate(seed)
        rows = {name: by_zoo(*how, train, tests) for name, how in contenders.items()}
        try:
            rows["`MixedLM` (statsmodels)"] = by_mixedlm(train, tests)
        except ImportError:
            print("| `MixedLM` | statsmodels is not installed |", flush=True)
        for name, (r_hat, ess, seconds, rmse, cover, rmse_new, cover_new) in rows.items():
            print(
                f"| {name} | {seed} | {r_hat:.3f} | {ess:,.0f} | {seconds:.1f} | {rmse:.4f} | {100 * cover:.0f} % | "
                f"{rmse_new:.3f} | {100 * cover_new:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

"""Features with gaps, `missing="model"` beside leaving rows out, on data of which the deleted values are known.

    python benchmarks/missing.py [--seeds 1 2 3] [--sets simulated diabetes grunfeld logs houses] [--draws 500]

None of the sets played a part when the model of gaps was written: the diabetes study of scikit-learn (tasks are decades
of age by sex), investment of eleven firms (Grunfeld), as it is and in logarithms, and 600 houses of 20 postal codes of
King County (logarithm of the price; the file must be there, see ``zoo.datasets.load_king_county``). The rows of
"simulated" have the law that the model supposes: there the intervals must hold what they promise. A fifth of the rows
is held out, complete. Of the others, 15 % of the values of one or two features are deleted, in one of three ways:
"random"; "by feature", where the probability rises with a feature that has no gaps; and "by response", where it rises
with y. The last two are missing at random in Rubin's sense, and leaving rows out is biased in the last one alone.

``NIWLinear`` by NUTS is fitted to the complete rows, by ``missing="drop"``, and by ``missing="model"``. Printed for
each set and way, means over the seeds: the share of the rows that have a gap; the distance of posterior means of
slopes from those of the complete fit (root mean square over tasks and features, of slopes in standard deviations of
feature and response of the complete rows); the root mean squared error for the held-out rows in standard deviations
of y; of the imputed values, the root mean squared error of their posterior means in standard deviations of the
feature and the share of the deleted values in their 90 % intervals; the worst R-hat; and seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

import zoo

SHARE, HELD_OUT = 0.15, 0.2
WAYS = ("random", "by feature", "by response")


class Set(NamedTuple):
    """A table without gaps, what is what in it, which features get gaps, and the feature that gaps may follow."""

    frame: pd.DataFrame
    y: str
    task: str
    gappy: tuple[str, ...]
    driver: str

    @property
    def features(self) -> list[str]:
        """The other columns."""
        return [name for name in self.frame.columns if name not in (self.y, self.task)]


def diabetes() -> Set:
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True, scaled=False).frame
    decade = (frame["age"] // 10).clip(3, 6).astype(int) * 10
    frame["group"] = [f"{d}s, sex {s:g}" for d, s in zip(decade, frame["sex"], strict=True)]
    return Set(frame.drop(columns=["age", "sex"]), "target", "group", ("bmi", "s5"), "bp")


def grunfeld() -> Set:
    frame = zoo.datasets.load_grunfeld().to_frame().drop(columns="intercept")
    return Set(frame, "y", "task", ("capital",), "value")


def logs() -> Set:
    chosen = grunfeld()
    return chosen._replace(
        frame=chosen.frame.assign(**{c: np.log(chosen.frame[c]) for c in ("y", "value", "capital")})
    )


def simulated() -> Set:
    rng = np.random.default_rng(0)
    task, root = np.repeat(np.arange(20), 40), rng.normal(size=(4, 4))
    frame = pd.DataFrame(rng.normal(size=(len(task), 4)) @ root, columns=["a", "b", "c", "d"])
    W = rng.normal(size=4) + 0.5 * rng.normal(size=(20, 4))
    frame["y"] = np.sum(frame.to_numpy() * W[task], axis=1) + rng.normal(size=len(task))
    frame["task"] = [f"task {t}" for t in task]
    return Set(frame, "y", "task", ("a", "b"), "c")


def houses() -> Set:
    frame = zoo.datasets.load_king_county().to_frame()
    names = ["bedrooms", "bathrooms", "sqft_living", "floors", "condition", "grade", "yr_built"]
    frame = frame[["task", "y", *names]].assign(y=np.log(frame["y"]))
    rng = np.random.default_rng(0)
    codes = rng.choice(sorted(frame["task"].unique()), 20, replace=False)
    rows = [rng.choice(np.flatnonzero(frame["task"] == code), 30, replace=False) for code in codes]
    return Set(frame.iloc[np.concatenate(rows)], "y", "task", ("sqft_living", "grade"), "bathrooms")


SETS = {"simulated": simulated, "diabetes": diabetes, "grunfeld": grunfeld, "logs": logs, "houses": houses}


def split(chosen: Set, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to fit and rows held out, of every task."""
    frame = chosen.frame.reset_index(drop=True)
    order = pd.Series(rng.random(len(frame)))
    held_out = order.groupby(frame[chosen.task]).rank(pct=True) <= HELD_OUT
    return frame[~held_out].reset_index(drop=True), frame[held_out].reset_index(drop=True)


def delete(chosen: Set, train: pd.DataFrame, way: str, rng: np.random.Generator) -> pd.DataFrame:
    """The rows with gaps: a share of the values of each feature that gets some."""
    if way == "random":
        odds = np.ones(len(train))
    else:
        driver = train[chosen.driver if way == "by feature" else chosen.y]
        odds = np.exp(4.0 * driver.rank(pct=True).to_numpy())
    holes = train.astype({name: float for name in chosen.gappy})
    for name in chosen.gappy:
        rows = rng.choice(len(train), round(SHARE * len(train)), replace=False, p=odds / odds.sum())
        holes.loc[rows, name] = np.nan
    return holes


def fitted(chosen: Set, train: pd.DataFrame, draws: int, missing: str = "refuse") -> tuple[zoo.Fit, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how many rows were dropped, and R-hat, are columns of the table
        data = zoo.MultiTaskData.from_frame(
            train, y=chosen.y, task=chosen.task, features=chosen.features, missing=missing
        )
        data = data.standardize().add_intercept()
        start = time.perf_counter()
        fit = zoo.NIWLinear().fit(
            data, "nuts", draws=draws, tune=draws, chains=2, random_seed=1, progress=False
        )
    return fit, time.perf_counter() - start


def slopes(chosen: Set, fit: zoo.Fit, complete: pd.DataFrame) -> np.ndarray:
    """Posterior means (task, feature) in standard deviations of feature and response of the complete rows."""
    found = fit.in_data_units()["coefficients"].mean(("chain", "draw")).sel(feature=chosen.features)
    tasks = sorted(complete[chosen.task].unique())
    scale = complete[chosen.features].std().to_numpy() / complete[chosen.y].std()
    return found.sel(task=tasks).transpose("task", "feature").to_numpy() * scale


def imputed(chosen: Set, fit: zoo.Fit, train: pd.DataFrame, holes: pd.DataFrame) -> tuple[float, float]:
    """Error of posterior means of deleted values, in standard deviations of their feature, and cover."""
    draws = fit.posterior["missing_features"].stack(sample=("chain", "draw"))
    error, inside = [], []
    for name in chosen.gappy:
        j = fit.data.feature_names.index(name)
        known = holes[name].dropna()
        for row in np.flatnonzero(holes[name].isna()):
            truth = (train[name][row] - fit.data.transform.x_mean[j]) / fit.data.transform.x_scale[j]
            own = draws.sel(gap=f"{name}[{row}]").to_numpy()
            error.append((own.mean() - truth) * fit.data.transform.x_scale[j] / known.std())
            low, high = np.quantile(own, [0.05, 0.95])
            inside.append(low <= truth <= high)
    return float(np.sqrt(np.mean(np.square(error)))), float(np.mean(inside))


def rmse(chosen: Set, fit: zoo.Fit, test: pd.DataFrame) -> float:
    found = fit.predict(test[chosen.features], test[chosen.task].tolist(), random_seed=1)
    return float(np.sqrt(np.mean((test[chosen.y] - found["mean"].to_numpy()) ** 2)) / test[chosen.y].std())


def one(chosen: Set, seed: int, draws: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    train, test = split(chosen, rng)
    complete, seconds = fitted(chosen, train, draws)
    truth = slopes(chosen, complete, train)
    rows = [("", "complete", 0.0, 0.0, rmse(chosen, complete, test), np.nan, np.nan, complete, seconds)]
    for way in WAYS:
        holes = delete(chosen, train, way, rng)
        share = float(holes.isna().any(axis=1).mean())
        for missing in ("drop", "model"):
            fit, seconds = fitted(chosen, holes, draws, missing)
            away = float(np.sqrt(np.mean((slopes(chosen, fit, train) - truth) ** 2)))
            of_gaps = imputed(chosen, fit, train, holes) if missing == "model" else (np.nan, np.nan)
            rows.append((way, missing, share, away, rmse(chosen, fit, test), *of_gaps, fit, seconds))
    names = ["way", "missing", "rows with gaps", "distance", "RMSE", "RMSE of gaps", "cover", "R-hat", "s"]
    return pd.DataFrame(
        [(*row[:-2], row[-2].diagnostics()["r_hat"].max(), row[-1]) for row in rows], columns=names
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--draws", type=int, default=500)
    arguments = parser.parse_args()
    print(
        "| set | deleted | `missing=` | rows with gaps | distance | RMSE | RMSE of gaps | cover | R-hat | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        chosen = SETS[name]()
        runs = pd.concat([one(chosen, seed, arguments.draws) for seed in arguments.seeds])
        for (way, missing), row in runs.groupby(["way", "missing"], sort=False).mean().iterrows():
            gaps, away, error, of_gaps, cover, r_hat, seconds = row
            imputation = "| | |" if np.isnan(cover) else f"| {of_gaps:.2f} | {cover:.2f} |"
            print(
                f"| {name} | {way} | {missing} | {gaps:.2f} | {away:.3f} | {error:.3f} {imputation} {r_hat:.3f} "
                f"| {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

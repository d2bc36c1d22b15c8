"""A learned mean beside the levels of tasks, on tables with many groups whose folds were published.

    python benchmarks/mean.py FOLDER [--sets wages spotify imdb] [--folds 1 2 3 4 5] [--effects album_id]

FOLDER holds ``data`` and ``cv_folds`` of github.com/fabsig/Compare_ML_HighCardinality_Categorical_Variables (Sigrist
2023; commit ed7b764). Each file of folds lists the rows to train on, counted from 1. The task is the group with the
most levels. ``NIWLinear`` has an intercept and the mean, and of the panel (wages) time and its square, as the published
mixed-effects models have. All else is default. The mean is scikit-learn's gradient boosting without any tuning, fitted
out of fold by ``add_mean``. It sees the columns that the published models see, and of each further group the mean
response of its levels (``TargetEncoder`` of scikit-learn). Rows of groups that are not among those to train on are
predicted as new tasks.

``--effects`` names further groups of the set that also get an effect for each of their levels, as ``(1 | album_id)``
of a formula; levels that are not among the rows to train on are drawn from the law of their group.

Printed: mean squared error on the test rows, that of the boosting alone, the best published one of the same fold, the
cover of 90 % intervals, seconds, worst R-hat.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import TargetEncoder

import zoo

# Response, groups (the first is the task), and columns that are no features.
SETS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "wages": ("ln_wage", ("idcode",), ()),
    "spotify": (
        "danceability",
        ("artist_id", "album_id", "playlist_id", "subgenre_id"),
        (
            "track_id",
            "track_artist",
            "track_album_id",
            "track_album_release_date",
            "pl_subgenres",
            "playlist_ids",
        ),
    ),
    "imdb": ("score", ("director_id", "type_id"), ()),
}


def boosting(groups: list[int]) -> Pipeline:
    """Boosting that sees the mean response of levels in the place of these columns, if there are any."""
    levels = make_column_transformer(
        (TargetEncoder(target_type="continuous"), groups), remainder="passthrough"
    )
    return make_pipeline(levels, HistGradientBoostingRegressor(random_state=0))


def published(folder: Path, name: str, fold: int) -> tuple[float, str]:
    """The smallest published error of this fold, and whose it is."""
    found = []
    for file in sorted((folder / "results").glob(f"res_{name}_*.csv")):
        table = pd.read_csv(file)
        if not {"experiment", "exp_type", "error"} <= set(table.columns):
            continue  # another layout
        row = table[table["experiment"].astype(str) == str(fold - 1)]
        found += [(float(e), f"{t}") for e, t in zip(row["error"], row["exp_type"], strict=True)]
    return min(found)


def with_effects(
    train: pd.DataFrame, response: str, features: list[str], effects: list[str]
) -> tuple[zoo.MultiTaskData, dict[str, str]]:
    """Data with an intercept of tasks and an effect of each level of these groups, and new names of features."""
    names = {column: f"f{i}" for i, column in enumerate(features)}
    table = train.rename(columns={**names, response: "y"})
    terms = [*names.values(), "(1 | task)", *(f"(1 | of_{group})" for group in effects)]
    return zoo.MultiTaskData.from_formula(f"y ~ {' + '.join(terms)}", table), names


def one(folder: Path, name: str, fold: int, effects: list[str]) -> None:
    response, groups, dropped = SETS[name]
    frame = pd.read_csv(folder / "data" / f"{name}.csv.gz").drop(columns=list(dropped), errors="ignore")
    train_rows = np.array(json.loads((folder / "cv_folds" / f"{name}.json").read_text())[fold - 1]) - 1
    held = np.ones(len(frame), dtype=bool)
    held[train_rows] = False
    frame["task"] = "g" + frame.pop(groups[0]).astype(str)
    of_groups = {f"of_{group}": group + frame[group].astype(str) for group in effects}
    features = [c for c in frame.columns if c not in (response, "task")]
    frame[features] = frame[features].astype(float)
    seen = [c for c in features if c != "t"]
    if "t" in frame:
        frame["t squared"] = frame["t"] ** 2
        features = [*features, "t squared"]
    frame = frame.assign(**of_groups)
    train, test = frame[~held], frame[held]
    start = time.perf_counter()
    estimator = boosting([seen.index(group) for group in groups[1:]])
    if effects:
        data, names = with_effects(train, response, features, effects)
        data = data.add_mean(estimator, [names[column] for column in seen], random_seed=1).standardize()
        test = test.rename(columns=names)
    else:
        data = zoo.MultiTaskData.from_frame(train, y=response, task="task", features=features)
        data = data.add_mean(estimator, seen, random_seed=1).standardize().add_intercept()
    fit = zoo.NIWLinear().fit(data, random_seed=1, progress=False)
    r_hat = fit.diagnostics()["r_hat"].max()
    if effects:
        fit = fit.with_new_levels(test, random_seed=1)
    known = test["task"].isin(set(train["task"])).to_numpy()
    parts = [(known, False), (~known, True)]
    mean, lower, upper = (np.empty(len(test)) for _ in range(3))
    for rows, new in parts:
        if rows.any():
            found = fit.predict(test[rows], new_task=new, random_seed=1)
            mean[rows], lower[rows], upper[rows] = (found[n].to_numpy() for n in ("mean", "lower", "upper"))
    seconds = time.perf_counter() - start
    y = test[response].to_numpy()
    alone = fit.data.learned_mean.estimator.predict(test[list(fit.data.learned_mean.seen)].to_numpy())
    best, whose = published(folder, name, fold)
    errors = f"{np.mean((y - mean) ** 2):.5f} | {np.mean((y - alone) ** 2):.5f} | {best:.5f} ({whose})"
    cover = f"{100 * np.mean((lower <= y) & (y <= upper)):.0f} %"
    print(f"| {name} | {fold} | {errors} | {cover} | {seconds:.0f} | {r_hat:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--folds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--effects", nargs="+", default=[])
    arguments = parser.parse_args()
    print(
        "| set | fold | MSE | boosting alone | best published | cover | s | R-hat |\n|---|---|---|---|---|---|---|---|"
    )
    for name in arguments.sets:
        for fold in arguments.folds:
            one(arguments.folder, name, fold, arguments.effects)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

"""``VaryingCoefficientGP.choose_structure``: which coefficients vary, and errors with and without the choice.

    python benchmarks/structure.py [--fields] [--repeats 10] [--maps FOLDER] [--names NAME ...]

--fields: simulated fields of 400 rows and six features with the truth known. The script prints the share of features
with coefficients that vary which the choice found, that of the others which it said to vary, and the errors of the
function at 1,000 new rows (root mean squares) of the model as given and of the model chosen.
--maps: log rents in New York, log prices in King County, and, of FOLDER, log prices of houses in Ames and Sacramento
(files ames.csv and Sacramento.csv of github.com/vincentarelbundock/Rdatasets, csv/modeldata); yields of corn, wind of
storms, and temperatures (csv/agridat/lasrosas.corn, csv/dplyr/storms, csv/openintro/us_temperature). A fifth of the
rows is held out. Beside both models stand scikit-learn's gradient boosting of 500 trees on features and places, and two
models by hand. ``--names`` takes some of the maps.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import zoo

Data = zoo.MultiTaskData
SETTINGS: dict[str, Any] = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}
FEATURES = [f"x{i}" for i in range(6)]
# Smoothness, lengthscale on the unit square, amplitude of the level and of the coefficients of six features.
FIELDS = {
    "two of six vary": ("matern32", 0.3, (1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)),
    "all vary alike": ("matern32", 0.3, (0.5,) * 7),
    "two of six, rough": ("matern12", 0.3, (1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)),
    "only the level": ("matern52", 0.2, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
}


def simulated(name: str, seed: int) -> tuple[Data, Data, np.ndarray]:
    """Rows to learn from, new rows, and the function there."""
    word, lengthscale, amplitudes = FIELDS[name]
    rng = np.random.default_rng(seed)
    n = 1400
    t, X = rng.uniform(size=(n, 2)), rng.standard_normal((n, 6))
    r = np.sqrt(np.sum((t[:, None, :] - t[None, :, :]) ** 2, axis=2)) / lengthscale
    K = {
        "matern12": lambda: np.exp(-r),
        "matern32": lambda: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        "matern52": lambda: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    }[word]()
    root = np.linalg.cholesky(K + 1e-9 * np.eye(n))
    fixed = rng.normal(0.0, 0.5, 6)
    coefficients = root @ rng.standard_normal((n, 7)) * np.array(amplitudes)
    f = coefficients[:, 0] + np.sum(X * (coefficients[:, 1:] + fixed), axis=1)
    y = f + rng.normal(0.0, 0.3, n)
    data = Data.from_arrays(X=X, y=y, t=t, feature_names=FEATURES)
    return data.take(np.arange(400)), data.take(np.arange(400, n)), f[400:]


def varying(factory: Any, features: list[str]) -> set[str]:
    """Features whose coefficients vary in a factory."""
    result: set[str] = set()
    for component in factory.components:
        names = features if component.features == "all" else component.features
        result |= set(names if component.features != "intercept" else ())
    return result & set(features)


def fields(repeats: int) -> None:
    """Run and print."""
    print("| field | found | others said to vary | error as given | error chosen | ratio | s |")
    print("|---|---|---|---|---|---|---|")
    for name, (_, _, amplitudes) in FIELDS.items():
        true = {f for f, a in zip(FEATURES, amplitudes[1:], strict=True) if a > 0.0}
        rows = []
        for seed in range(repeats):
            train, test, f = simulated(name, seed)
            started = time.perf_counter()
            chosen = zoo.VaryingCoefficientGP().choose_structure(train, progress=False).factory
            seconds = time.perf_counter() - started
            said = varying(chosen, FEATURES)
            errors = [
                np.sqrt(np.mean((model.fit(train, **SETTINGS).predict(test)["mean"].to_numpy() - f) ** 2))
                for model in (zoo.VaryingCoefficientGP(), chosen)
            ]
            others = set(FEATURES) - true
            rows.append(
                (
                    len(said & true) / len(true) if true else np.nan,
                    len(said & others) / len(others) if others else np.nan,
                    *errors,
                    seconds,
                )
            )
        found, false, given, own, seconds = np.mean(rows, axis=0)
        print(
            f"| {name} | {100 * found:.0f} % | {100 * false:.0f} % | {given:.4f} | {own:.4f} | {own / given:.3f} | "
            f"{seconds:.0f} |",
            flush=True,
        )


# ---------------------------------------------------------------- maps


def _rents(_: Path) -> Data:
    data = zoo.datasets.load_nyc_rents()
    return replace(data, y=np.log(data.y))


def _houses(_: Path) -> Data:
    data = zoo.datasets.load_king_county()
    return replace(data, y=np.log(data.y), task=np.zeros(data.n_rows, dtype=np.int64), task_names=("all",))


def _ames(folder: Path) -> Data:
    table = pd.read_csv(folder / "ames.csv")
    table["log_price"], table["log_area"] = np.log(table["Sale_Price"]), np.log(table["Gr_Liv_Area"])
    features = ["log_area", "Year_Built", "Lot_Area", "Total_Bsmt_SF", "Garage_Cars", "Fireplaces"]
    return Data.from_frame(table, y="log_price", features=features, t=["Longitude", "Latitude"])


def _sacramento(folder: Path) -> Data:
    table = pd.read_csv(folder / "Sacramento.csv")
    table["log_price"], table["log_area"] = np.log(table["price"]), np.log(table["sqft"])
    return Data.from_frame(
        table, y="log_price", features=["beds", "baths", "log_area"], t=["longitude", "latitude"]
    )


def _corn(folder: Path) -> Data:
    """Yields of a field in two years (Anselin, Bongiovanni & Lowenberg-DeBoer 2004)."""
    table = pd.read_csv(folder / "lasrosas.corn.csv")
    table["second_year"] = (table["year"] == 2001).astype(float)
    kinds = [f"topo_{kind}" for kind in ("E", "HT", "LO")]
    for name in kinds:
        table[name] = (table["topo"] == name[5:]).astype(float)
    features = ["nitro", "bv", "second_year", *kinds]
    return Data.from_frame(table, y="yield", features=features, t=["long", "lat"])


def _storms(folder: Path) -> Data:
    table = pd.read_csv(folder / "storms.csv").dropna(subset=["wind", "pressure", "lat", "long"])
    return Data.from_frame(table, y="wind", features=["pressure", "month", "year"], t=["long", "lat"])


def _temperatures(folder: Path) -> Data:
    table = pd.read_csv(folder / "us_temperature.csv").dropna(subset=["tmax", "elevation"])
    angle = 2.0 * np.pi * pd.to_datetime(table["date"]).dt.dayofyear / 365.25
    table["winter"], table["spring"] = np.cos(angle), np.sin(angle)
    features = ["elevation", "winter", "spring", "year"]
    return Data.from_frame(table, y="tmax", features=features, t=["longitude", "latitude"])


MAPS: dict[str, Callable[[Path], Data]] = {
    "rents": _rents,
    "King County": _houses,
    "Ames": _ames,
    "Sacramento": _sacramento,
    "corn": _corn,
    "storms": _storms,
    "temperatures": _temperatures,
}


def maps(folder: Path, names: list[str]) -> None:
    """Run and print."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    Part = zoo.VaryingComponent
    by_hand = {
        "by hand, a scale each": zoo.VaryingCoefficientGP(task_kernel="matern12", amplitude="per_feature"),
        "by hand, level apart": zoo.VaryingCoefficientGP(
            task_kernel=[
                Part(features="intercept", kernel="matern12", name="level"),
                Part(kernel="matern12", amplitude="per_feature", name="slopes"),
            ]
        ),
    }
    print(
        "| map | model | MAE | RMSE | 90 % intervals cover | choice s | fit s |\n|---|---|---|---|---|---|---|"
    )
    for name in names or MAPS:
        data = MAPS[name](folder)
        order, held = np.random.default_rng(0).permutation(data.n_rows), data.n_rows // 5
        test, train = data.take(order[:held]), data.take(order[held:])
        boosted = HistGradientBoostingRegressor(max_iter=500, learning_rate=0.05, random_state=0)
        boosted.fit(np.column_stack([train.X, train.t]), train.y)
        error = boosted.predict(np.column_stack([test.X, test.t])) - test.y
        print(
            f"| {name} | boosting | {np.mean(np.abs(error)):.4f} | {np.sqrt(np.mean(error**2)):.4f} | | | |",
            flush=True,
        )
        models: dict[str, Any] = {"as given": zoo.VaryingCoefficientGP(), **by_hand}
        for words in ("chosen", "chosen, curved", *models):
            started = time.perf_counter()
            model = models.get(words)
            if model is None:
                model = zoo.VaryingCoefficientGP().choose_structure(
                    train, curved=words == "chosen, curved", progress=False
                )
                print(f"<!-- {words}: {'; '.join(model.changes)} -->")
                model = model.factory
            chosen = time.perf_counter()
            fit = model.fit(
                train, None if words == "as given" or train.n_rows <= 2000 else "vecchia", **SETTINGS
            )
            ended = time.perf_counter()
            p = fit.predict(test)
            error = p["mean"].to_numpy() - test.y
            cover = np.mean((test.y >= p["lower"].to_numpy()) & (test.y <= p["upper"].to_numpy()))
            print(
                f"| {name} | {words} | {np.mean(np.abs(error)):.4f} | {np.sqrt(np.mean(error**2)):.4f} | "
                f"{100 * cover:.1f} % | {chosen - started:.0f} | {ended - chosen:.0f} |",
                flush=True,
            )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fields", action="store_true")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--maps", type=Path)
    parser.add_argument("--names", nargs="*", default=[])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.fields:
        fields(asked.repeats)
    if asked.maps:
        maps(asked.maps, asked.names)


if __name__ == "__main__":
    main()

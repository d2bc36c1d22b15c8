"""Vecchia's approximation: accuracy on fields and maps that it was not made for, and cost over the number of rows.

    python benchmarks/vecchia.py [--fields] [--heaton FOLDER] [--king-county] [--splits 3] [--rents] [--speed]
        [--largest 100000] [--labels] [--rows 20000] [--names vecchia GPBoost]

--fields: simulated fields of short and of long range with the truth known; default sines, Vecchia and, of few rows, the
exact process. Root mean squared errors of the function, as ratios to the best possible one, that of the process which
made the field, and coverage of 90% intervals.
--heaton: satellite temperatures and a simulated field of the comparison of Heaton et al. (2019), its split:
105,569 rows to learn from. FOLDER holds AllSatelliteTemps.RData and AllSimulatedTemps.RData of
github.com/finnlindgren/heatoncomparison (folder Data). Plain kriging from 25 neighbours is the yardstick of the ratios.
--king-county: log price of all sales, as benchmarks/varying_coefficient.py has it, by sines, by neighbours and by both.
--rents: log rents in New York, beside scikit-learn's gradient boosting.
--labels: simulated fields of labels and of counts with the truth known: neighbours, default sines and, of up to 5,000
rows, inducing points by Laplace's method, and GPBoost's neighbours, each in a process of its own. --names takes some of
them. The errors are those of the function on the scale of its link; memory is the largest that the process held.
--speed: seconds of an evidence with its gradient, over rows, neighbours and threads.
Times are of one run each on a machine that does nothing else; compilation is left out.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import norm

import zoo
from zoo.latent.vecchia import Rows, evidence
from zoo.latent.vecchia_neighbours import nearest_before
from zoo.latent.vecchia_terms import KINDS, LINEAR, Terms

Data = zoo.MultiTaskData
SETTINGS: dict[str, Any] = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}


def intercept(trend: bool) -> zoo.VaryingCoefficientGP:
    """An intercept that varies, with a plane below it, and if asked for a trend of 10 x 10 sines."""
    local = zoo.VaryingComponent(features="intercept", kernel="matern12", name="local")
    slow = zoo.VaryingComponent(features="intercept", n_basis=10, name="trend")
    return zoo.VaryingCoefficientGP(task_kernel=[local, slow] if trend else [local])


# ---------------------------------------------------------------- fields


def simulated(n: int, lengthscale: float, seed: int) -> tuple[Data, Data, np.ndarray]:
    """Rows of a field with two slopes that vary, half to learn from, and its values without noise at the others.

    By 2,000 random frequencies of the spectrum of a Matern 3/2 process, for each of three coefficients.
    """
    rng = np.random.default_rng(seed)
    t, X = rng.uniform(0.0, 1.0, (n, 2)), rng.standard_normal((n, 2))
    f = np.zeros(n)
    for x, amplitude in zip(np.column_stack([np.ones(n), X]).T, (1.0, 0.5, 0.5), strict=True):
        omega = rng.standard_normal((2000, 2))
        omega /= np.sqrt(rng.chisquare(3.0, (2000, 1)) / 3.0) * lengthscale
        phase = rng.uniform(0.0, 2.0 * np.pi, 2000)
        f += amplitude * x * np.cos(t @ omega.T + phase).sum(axis=1) * np.sqrt(2.0 / 2000)
    y = f + rng.normal(0.0, 0.3, n)
    data, half = Data.from_arrays(X=X, y=y, t=t), n // 2
    return data.take(np.arange(half)), data.take(np.arange(half, n)), f[half:]


def fields() -> None:
    """The table of simulated fields."""
    print("| rows | lengthscale | method | RMSE of f | ratio to the true process | cover of y | fit s |")
    print("|---|---|---|---|---|---|---|")
    for n, lengthscale in ((3000, 0.3), (3000, 0.05), (20_000, 0.3), (20_000, 0.03)):
        train, test, truth = simulated(n, lengthscale, 3)
        learned = zoo.VaryingComponent(amplitude="per_feature")
        true = zoo.VaryingComponent(lengthscale=lengthscale, features="intercept", amplitude=1.0)
        slopes = zoo.VaryingComponent(lengthscale=lengthscale, features=["x0", "x1"], amplitude=0.5)
        best = zoo.VaryingCoefficientGP(
            task_kernel=[true, slopes], likelihood=zoo.Gaussian(noise=0.3), global_coefficients=False
        )
        found = {"true process": (best, "exact" if n < 5000 else "vecchia")}
        found["default"] = (zoo.VaryingCoefficientGP(), "exact" if n < 5000 else "hsgp")
        found["sines"] = (zoo.VaryingCoefficientGP(task_kernel=learned), "hsgp")
        found["vecchia"] = (zoo.VaryingCoefficientGP(task_kernel=learned), "vecchia")
        least = None
        for name, (model, method) in found.items():
            started = time.perf_counter()
            fit = model.fit(train, method, **SETTINGS)
            seconds = time.perf_counter() - started
            p = fit.predict(test)
            error = float(np.sqrt(np.mean((p["mean"].to_numpy() - truth) ** 2)))
            least = error if least is None else least
            cover = np.mean((test.y >= p["lower"].to_numpy()) & (test.y <= p["upper"].to_numpy()))
            print(
                f"| {n // 2:,} | {lengthscale} | {name} ({method}) | {error:.4f} | {error / least:.2f} | "
                f"{100 * cover:.1f}% | {seconds:.1f} |",
                flush=True,
            )


# ---------------------------------------------------------------- Heaton et al. (2019)


def r_columns(path: Path) -> list[np.ndarray]:
    """The four columns of 150,000 numbers of a data frame of R, in its binary format."""
    raw, size = gzip.decompress(path.read_bytes()), 150_000
    mark = struct.pack(">ii", 14, size)  # a vector of numbers, and its length
    result, at = [], 0
    while (at := raw.find(mark, at)) >= 0:
        result.append(np.frombuffer(raw, ">f8", size, at + 8).astype(np.float64))
        at += 8 + 8 * size
    return result


def scores(y: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> tuple[float, float, float, float]:
    """Mean absolute error, root mean squared error, CRPS and coverage of 95% intervals."""
    z = (y - mean) / sd
    crps = sd * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    error = np.abs(y - mean)
    return error.mean(), np.sqrt(np.mean(error**2)), crps.mean(), np.mean(np.abs(z) < norm.ppf(0.975))


def kriging(places: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ordinary kriging from 25 neighbours with an exponential covariance, fitted to 2,000 rows by a grid."""
    rng, tree = np.random.default_rng(0), cKDTree(places)
    rest = y - y.mean()

    def predict(at: np.ndarray, near: np.ndarray, scale: float, nugget: float) -> tuple[Any, Any]:
        d = np.linalg.norm(places[near][:, :, None] - places[near][:, None], axis=-1)
        K = np.exp(-d / scale) + nugget * np.eye(near.shape[1])
        k = np.exp(-np.linalg.norm(places[near] - at[:, None], axis=-1) / scale)
        solved = np.linalg.solve(K, np.stack([k, np.ones_like(k), rest[near]], axis=-1))
        mu = solved[..., 2].sum(1) / solved[..., 1].sum(1)
        mean = np.sum(k * (solved[..., 2] - mu[:, None] * solved[..., 1]), axis=1) + mu
        lost = 1.0 - np.sum(k * solved[..., 0], axis=1)
        lost += (1.0 - solved[..., 0].sum(1)) ** 2 / solved[..., 1].sum(1)
        return mean, lost + nugget

    rows = rng.permutation(len(y))[:2000]
    near = tree.query(places[rows], 26)[1][:, 1:]
    best: tuple[float, ...] = (np.inf,)
    for scale in np.geomspace(0.02, 5.0, 12):
        for nugget in (1e-4, 1e-3, 1e-2, 0.05, 0.2):
            mean, v = predict(places[rows], near, scale, nugget)
            variance = np.mean((rest[rows] - mean) ** 2 / v)
            best = min(best, (float(np.log(variance) + np.mean(np.log(v))), scale, nugget, variance))
    _, scale, nugget, variance = best
    found = [
        predict(new[part], tree.query(new[part], 25)[1], scale, nugget)
        for part in np.array_split(np.arange(len(new)), 40)
    ]
    mean, v = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return mean + y.mean(), np.sqrt(variance * v)


def heaton(folder: Path) -> None:
    """The tables of both sets."""
    print("| set | method | MAE | RMSE | ratio of RMSE to kriging | CRPS | cover of 95% | s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, file in (("satellite", "AllSatelliteTemps"), ("simulated", "AllSimulatedTemps")):
        lon, lat, masked, truth = r_columns(folder / f"{file}.RData")
        known, hidden = ~np.isnan(masked), np.isnan(masked) & ~np.isnan(truth)
        places = np.column_stack([lon, lat])
        data = Data.from_arrays(X=places[known], y=masked[known], t=places[known])
        new = places[hidden]
        least = None
        for method in ("kriging", "neighbours", "both"):
            started = time.perf_counter()
            if method == "kriging":
                mean, sd = kriging(places[known], masked[known], new)
            else:
                p = intercept(method == "both").fit(data, "vecchia", **SETTINGS).predict(new, t=new)
                mean, sd = p["mean"].to_numpy(), p["sd"].to_numpy()
            seconds = time.perf_counter() - started
            mae, rmse, crps, cover = scores(truth[hidden], mean, sd)
            least = rmse if least is None else least
            print(
                f"| {name} | {method} | {mae:.3f} | {rmse:.3f} | {rmse / least:.2f} | {crps:.3f} | {cover:.3f} | "
                f"{seconds:.0f} |",
                flush=True,
            )


# ---------------------------------------------------------------- King County


def king_county(splits: int) -> None:
    """Sines, neighbours, both, and neighbours with a kernel of the features that is not linear."""
    from sklearn.model_selection import train_test_split

    place, Part = ("long", "lat"), zoo.VaryingComponent
    slow = Part(columns=place, amplitude="per_feature", n_basis=5, boundary=1.2, name="space")
    day = Part(columns=("day",), features="intercept", n_basis=12, name="time")
    local = Part(columns=place, features="intercept", kernel="matern12", name="local")
    models = {
        "sines": (
            [replace(local, kernel="matern32", n_basis=50, boundary=1.2), replace(slow, n_basis=9), day],
            "hsgp",
        ),
        "neighbours": ([local, replace(slow, n_basis=None), replace(day, n_basis=None)], "vecchia"),
        "both": ([local, slow, day], "vecchia"),
    }
    wide = [
        Part(columns=place, kernel="matern12", name="place"),
        Part(columns=place, name="wide"),
        Part(columns=("day",)),
    ]
    curved = {"instance_kernel": "matern32", "instance_lengthscale": "per_feature"}
    data = zoo.datasets.load_king_county()
    data = replace(data, y=np.log(data.y), task=np.zeros(data.n_rows, dtype=np.int64), task_names=("all",))
    print("| method | MAE of log price | ratio to sines | cover of 90% | fit s | predict s |")
    print("|---|---|---|---|---|---|")
    least = None
    settings: dict[str, tuple[dict[str, Any], str | None]] = {
        **{name: ({"task_kernel": parts}, method) for name, (parts, method) in models.items()},
        "features in a kernel too": ({"task_kernel": wide, **curved}, "vecchia"),
        "nothing set": ({}, None),
        "nothing set, sines": ({}, "hsgp"),
        "structure chosen": ({"structure": "curved"}, "vecchia"),
    }
    for name, (fields, method) in settings.items():
        found = []
        for seed in range(splits):
            kept, held = train_test_split(np.arange(data.n_rows), test_size=0.2, random_state=seed)
            test = data.take(held)
            started = time.perf_counter()
            fit = zoo.VaryingCoefficientGP(**fields).fit(data.take(kept), method, **SETTINGS)
            fitted = time.perf_counter()
            p = fit.predict(test)
            ended = time.perf_counter()
            cover = np.mean((test.y >= p["lower"].to_numpy()) & (test.y <= p["upper"].to_numpy()))
            error = np.mean(np.abs(p["mean"].to_numpy() - test.y))
            found.append((error, cover, fitted - started, ended - fitted))
        error, cover, fit_seconds, seconds = np.mean(found, axis=0)
        least = error if least is None else least
        each = " ".join(f"{row[0]:.4f}" for row in found)
        print(
            f"| {name} | {error:.4f} ({each}) | {error / least:.3f} | {100 * cover:.1f}% | {fit_seconds:.1f} | "
            f"{seconds:.1f} |",
            flush=True,
        )


# ---------------------------------------------------------------- rents


def rents() -> None:
    """Log rents in New York, a fifth held out: boosting, what a fit chooses, sines, and models of neighbours."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    from zoo.experiments.housing import rents as rows

    data = rows()
    data = replace(data, y=np.log(data.y))
    order, held = np.random.default_rng(0).permutation(data.n_rows), data.n_rows // 5
    test, train = data.take(order[:held]), data.take(order[held:])
    Part = zoo.VaryingComponent
    local = Part(features="intercept", kernel="matern12", name="local")
    slopes = Part(amplitude="per_feature", name="space")
    curved = {"instance_kernel": "matern12", "instance_lengthscale": "per_feature"}
    models = {
        "nothing set": (zoo.VaryingCoefficientGP(), None),
        "nothing set, sines": (zoo.VaryingCoefficientGP(), "hsgp"),
        "slopes by sines": (
            zoo.VaryingCoefficientGP(task_kernel=[local, replace(slopes, n_basis=8, boundary=1.2)]),
            "vecchia",
        ),
        "slopes by neighbours": (zoo.VaryingCoefficientGP(task_kernel=[local, slopes]), "vecchia"),
        "process of features and place": (zoo.PooledGP(inputs="xt", **curved), None),
    }
    print(
        "| model | method | MAE of log rent | ratio to boosting | cover of 90% | fit s |\n|---|---|---|---|---|---|"
    )
    boosted = HistGradientBoostingRegressor(max_iter=500, learning_rate=0.05, random_state=0)
    boosted.fit(np.column_stack([train.X, train.t]), train.y)
    least = float(np.mean(np.abs(boosted.predict(np.column_stack([test.X, test.t])) - test.y)))
    print(f"| boosting of 500 trees | | {least:.4f} | 1.00 | | |", flush=True)
    for name, (model, method) in models.items():
        started = time.perf_counter()
        fit = model.fit(train, method, **SETTINGS)
        seconds = time.perf_counter() - started
        p = fit.predict(test)
        cover = np.mean((test.y >= p["lower"].to_numpy()) & (test.y <= p["upper"].to_numpy()))
        error = float(np.mean(np.abs(p["mean"].to_numpy() - test.y)))
        print(
            f"| {name} | {fit.method} | {error:.4f} | {error / least:.2f} | {100 * cover:.1f}% | {seconds:.1f} |",
            flush=True,
        )


# ---------------------------------------------------------------- labels and counts


def latent_field(
    n: int, lengthscale: float, kind: str, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places (n, 2), the linear predictor (n,), and labels 0/1 or counts (n,), of a Matern 3/2 field."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 1.0, (n, 2))
    omega = rng.standard_normal((2000, 2))
    omega /= np.sqrt(rng.chisquare(3.0, (2000, 1)) / 3.0) * lengthscale
    phase = rng.uniform(0.0, 2.0 * np.pi, 2000)
    f = np.zeros(n)
    for part in np.array_split(np.arange(n), 20):
        f[part] = np.cos(t[part] @ omega.T + phase).sum(axis=1) * np.sqrt(2.0 / 2000)
    if kind == "poisson":
        f += 0.5
        return t, f, rng.poisson(np.exp(f)).astype(float)
    f *= 1.5
    return t, f, (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-f))).astype(float)


def gpboost_moments(
    t: np.ndarray, y: np.ndarray, new: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the linear predictor by GPBoost, with a constant and one range."""
    import gpboost

    model = gpboost.GPModel(
        gp_coords=t, cov_function="matern", cov_fct_shape=1.5, gp_approx="vecchia", num_neighbors=30,
        likelihood="poisson" if kind == "poisson" else "bernoulli_logit", matrix_inversion_method="iterative", seed=1,
    )  # fmt: skip
    model.fit(y=y, X=np.ones((len(y), 1)))
    found = model.predict(
        gp_coords_pred=new, X_pred=np.ones((len(new), 1)), predict_var=True, predict_response=False
    )
    return np.asarray(found["mu"]), np.asarray(found["var"])


def zoo_moments(
    t: np.ndarray, y: np.ndarray, new: np.ndarray, kind: str, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the linear predictor by a method of this library, with all else as it comes."""
    from zoo.models.varying_coefficient.methods import latent_moments

    approximation = {"vecchia": "vecchia", "sines": "hsgp", "inducing points": "fitc"}[name]
    model = zoo.VaryingCoefficientGP(likelihood=kind, approximation=approximation)
    fit = model.fit(Data.from_arrays(None, y, t=t), "vecchia" if name == "vecchia" else "laplace", **SETTINGS)
    some = Data.from_arrays(None, np.resize(y, len(new)), t=new)
    found = latent_moments(fit, fit.factory.design(some, fit.context))
    assert found is not None
    return found[0], found[1] ** 2


def latent_scores(name: str, n: int, lengthscale: float, kind: str, seed: int) -> tuple[float, ...]:
    """RMSE of the linear predictor, the excess of the log loss over that of the truth, cover, seconds, GB."""
    import resource

    t, f, y = latent_field(n + 5000, lengthscale, kind, seed)
    warm = slice(0, 300)  # what is compiled once is not counted
    for part in (warm, slice(0, n)):
        started = time.perf_counter()
        if name == "GPBoost":
            mean, variance = gpboost_moments(t[part], y[part], t[n:], kind)
        else:
            mean, variance = zoo_moments(t[part], y[part], t[n:], kind, name)
        seconds = time.perf_counter() - started
    truth, sd = f[n:], np.sqrt(variance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    at = mean[:, None] + sd[:, None] * nodes
    if kind == "poisson":
        rate, expected = np.exp(mean + 0.5 * variance), np.exp(truth)
        loss = np.sqrt(np.mean((rate - expected) ** 2))
    else:
        p = (1.0 / (1.0 + np.exp(-at))) @ weights / np.sqrt(2.0 * np.pi)
        own = 1.0 / (1.0 + np.exp(-truth))
        loss = np.mean(own * np.log(own / p) + (1.0 - own) * np.log((1.0 - own) / (1.0 - p)))
    cover = np.mean(np.abs(truth - mean) < norm.ppf(0.95) * sd)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return float(np.sqrt(np.mean((mean - truth) ** 2))), float(loss), float(cover), seconds, memory


_NAMES = ("vecchia", "GPBoost", "sines", "inducing points")


def labels(n: int, names: list[str]) -> None:
    """The table of labels and counts."""
    import multiprocessing

    print(
        "| responses | lengthscale | method | RMSE of f | nats lost, or RMSE of rate | cover of f | s | GB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind, lengthscale in (("poisson", 0.03), ("logistic", 0.05), ("logistic", 0.3)):
        for name in names or _NAMES[: 4 if n <= 5000 else 3]:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                error, loss, cover, seconds, memory = pool.apply(
                    latent_scores, (name, n, lengthscale, kind, 5)
                )
            print(
                f"| {kind} | {lengthscale} | {name} | {error:.4f} | {loss:.5f} | {100 * cover:.1f}% | {seconds:.0f} | "
                f"{memory:.1f} |",
                flush=True,
            )


# ---------------------------------------------------------------- cost


def speed(largest: int) -> None:
    """Seconds of an evidence with its gradient; 11 components, each with an amplitude and a lengthscale."""
    C = 11
    terms = Terms(
        np.full(C, KINDS["matern32"]), 2 * np.arange(C + 1), np.tile([0, 1], C), np.repeat(np.arange(C), 2) + C,
        np.arange(C + 1), np.arange(C), np.arange(C), np.ones(C, dtype=np.bool_), LINEAR, np.zeros(0, dtype=np.int64),
        2 * C,
    )  # fmt: skip
    theta = np.concatenate([np.full(C, -1.0), np.full(C, -1.5), [-1.0]])
    print(
        "| rows | neighbours | threads | neighbours found s | evidence s | microseconds per row | ratio to first |"
    )
    print("|---|---|---|---|---|---|---|")
    first = None
    for n, m, threads in (
        (20_000, 30, 1),
        (20_000, 30, 2),
        (20_000, 15, 2),
        (100_000, 30, 2),
        (1_000_000, 30, 2),
    ):
        if n > largest:
            continue
        rng = np.random.default_rng(0)
        x = np.column_stack([np.ones(n), rng.standard_normal((n, C - 1))])
        rows = Rows(terms, x, rng.uniform(size=(n, 2)), rng.standard_normal(n))
        started = time.perf_counter()
        near = nearest_before(rows.t, m, threads)
        searched = time.perf_counter() - started
        evidence(rows, theta, near, np.arange(200))
        started = time.perf_counter()
        evidence(rows, theta, near, threads=threads)
        seconds = time.perf_counter() - started
        first = seconds / n if first is None else first
        print(
            f"| {n:,} | {m} | {threads} | {searched:.2f} | {seconds:.2f} | {1e6 * seconds / n:.1f} | "
            f"{seconds / n / first:.2f} |",
            flush=True,
        )


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fields", action="store_true")
    parser.add_argument("--heaton", type=Path)
    parser.add_argument("--rents", action="store_true")
    parser.add_argument("--king-county", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--largest", type=int, default=1_000_000)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.speed:
        speed(chosen.largest)
    if chosen.labels:
        labels(chosen.rows, chosen.names)
    if chosen.fields:
        fields()
    if chosen.heaton is not None:
        heaton(chosen.heaton)
    if chosen.rents:
        rents()
    if chosen.king_county:
        king_county(chosen.splits)


if __name__ == "__main__":
    main()

"""Varying coefficients at full size: accuracy beside other models, and cost over the number of rows.

    python benchmarks/varying_coefficient.py [--king-county] [--splits 3] [--only NAME ...] [--scaling] [--sines]
        [--nuts]

--king-county: log price of all 21,613 sales, 15 features, random 80/20 splits (scikit-learn's
``train_test_split`` with ``random_state`` 0 and on). Mean absolute error of log price, coverage of 90%
intervals, seconds of fit and of predictions, and peak memory, each model in a process of its own. GPBoost and mgwr
where they are installed (``pip install gpboost mgwr``), on as many rows as they take in a minute or so; scikit-learn's
gradient boosting on (x, t).
--scaling: simulated rows, 10^3 to 10^6, at a fixed basis: seconds and peak memory beyond those of the data.
--sines: how far the basis of sines is from the exact process, over its size and its box.
--nuts: NUTS with the white variables seen given the responses, as the package has it, and without, on a few sales.
Imports are left out, compilation is not. Times are of one run each, ratios of the same run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import zoo

Data = zoo.MultiTaskData


# ---------------------------------------------------------------- King County


def county() -> Data:
    """Log prices; one task."""
    data = zoo.datasets.load_king_county()
    return replace(data, y=np.log(data.y), task=np.zeros(data.n_rows, dtype=np.int64), task_names=("all",))


def split(data: Data, seed: int) -> tuple[Data, Data]:
    """80% of the rows, and the others."""
    from sklearn.model_selection import train_test_split

    kept, held = train_test_split(np.arange(data.n_rows), test_size=0.2, random_state=seed)
    return data.take(kept), data.take(held)


def components(local: int = 50, space: int = 9) -> list[zoo.VaryingComponent]:
    """Every coefficient over place, on the scale of the county; the intercept over place in detail, and over time."""
    place = ("long", "lat")
    return [
        zoo.VaryingComponent(columns=place, features="intercept", n_basis=local, boundary=1.2, name="local"),
        zoo.VaryingComponent(
            columns=place, amplitude="per_feature", n_basis=space, boundary=1.2, name="space"
        ),
        zoo.VaryingComponent(columns=("day",), features="intercept", n_basis=12, name="time"),
    ]


Prediction = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]


def varying(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """Varying coefficients, normal noise."""
    model = zoo.VaryingCoefficientGP(task_kernel=components())
    fit = model.fit(train, "hsgp", draws=250, random_seed=1, progress=False)
    return _ours(fit, test), f"converged {bool(fit.idata['sample_stats']['converged'][0, 0])}"


def varying_student_t(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """The same with Student-t noise, by Laplace's approximation."""
    model = zoo.VaryingCoefficientGP(
        task_kernel=components(30, 8), likelihood="student_t", approximation="hsgp"
    )
    fit = model.fit(train, "laplace", draws=250, random_seed=1, progress=False)
    return _ours(fit, test), f"degrees {float(fit.posterior['degrees'][0, 0]):.1f}"


def varying_small(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """Varying coefficients with fewer functions."""
    model = zoo.VaryingCoefficientGP(task_kernel=components(30, 7))
    fit = model.fit(train, "hsgp", draws=250, random_seed=1, progress=False)
    return _ours(fit, test), ""


def local_smoothing(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """Fan & Zhang's local ridge regressions over place, bandwidth and penalty by cross-validation."""
    place = [0, 1]
    near, far = (
        replace(d, t=d.t[:, place], t_names=tuple(d.t_names[i] for i in place)) for d in (train, test)
    )
    return _ours(zoo.KernelLocalSmoothing().fit(near.standardize(), progress=False), far), ""


def _ours(fit: zoo.Fit, test: Data) -> Callable[[], Prediction]:
    def predict() -> Prediction:
        found = fit.predict(test, random_seed=1)
        return tuple(found[name].to_numpy() for name in ("mean", "lower", "upper"))  # type: ignore[return-value]

    return predict


def least_squares(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """Least squares on the 15 features."""
    weights = np.linalg.lstsq(_with_one(train.X), train.y, rcond=None)[0]
    sd = float(np.std(train.y - _with_one(train.X) @ weights))
    return lambda: _normal(_with_one(test.X) @ weights, sd), ""


def boosting(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """scikit-learn's histogram gradient boosting on (x, t), 500 trees at rate 0.05; no intervals."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(max_iter=500, learning_rate=0.05, random_state=0)
    model.fit(np.column_stack([train.X, train.t]), train.y)
    return lambda: (model.predict(np.column_stack([test.X, test.t])), None, None), ""


def gpboost_intercept(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """GPBoost: a Gaussian process over place as intercept, Vecchia's approximation, and 15 fixed effects; all rows."""
    return _gpboost(train, test, n_rows=train.n_rows, varying=0)


def gpboost_coefficients(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """GPBoost: 3 coefficients vary too; 4,000 rows."""
    return _gpboost(train, test, n_rows=4000, varying=3)


def _gpboost(train: Data, test: Data, n_rows: int, varying: int) -> tuple[Callable[[], Prediction], str]:
    import gpboost

    X, Z = _standardized(train, test)
    chosen = [train.feature_names.index(f) for f in ("sqft_living", "grade", "yr_built")][:varying]
    settings: dict[str, Any] = {} if not varying else {"gp_rand_coef_data": X[:n_rows, chosen]}
    place, elsewhere = train.t[:, :2], test.t[:, :2]
    centre, width = place.mean(axis=0), place.std(axis=0)
    model = gpboost.GPModel(
        gp_coords=((place - centre) / width)[:n_rows],
        cov_function="matern",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        likelihood="gaussian",
        **settings,
    )
    model.fit(y=train.y[:n_rows], X=_with_one(X)[:n_rows])
    new: dict[str, Any] = {} if not varying else {"gp_rand_coef_data_pred": Z[:, chosen]}

    def predict() -> Prediction:
        found = model.predict(
            gp_coords_pred=(elsewhere - centre) / width, X_pred=_with_one(Z), predict_var=True, **new
        )
        return _normal(found["mu"], np.sqrt(found["var"]))

    return predict, f"{n_rows:,} rows"


def gwr(train: Data, test: Data) -> tuple[Callable[[], Prediction], str]:
    """Geographically weighted regression of mgwr: 5 features, 3,000 rows, golden search of the bandwidth."""
    from mgwr.gwr import GWR
    from mgwr.sel_bw import Sel_BW

    n_rows = 3000
    names = ("sqft_living", "grade", "yr_built", "bathrooms", "condition")
    X, Z = _standardized(train, test)
    columns = [train.feature_names.index(name) for name in names]
    place, y = train.t[:n_rows, :2], train.y[:n_rows, None]
    bandwidth = Sel_BW(place, y, X[:n_rows, columns]).search()
    model = GWR(place, y, X[:n_rows, columns], bandwidth)
    fitted = model.fit()

    def predict() -> Prediction:
        # No more rows at a time than it was fitted to: beyond, it fails.
        parts = np.array_split(np.arange(len(Z)), -(-len(Z) // n_rows))
        found = [
            model.predict(
                test.t[part, :2], Z[part][:, columns], fitted.scale, fitted.resid_response
            ).predictions
            for part in parts
        ]
        return np.concatenate([np.ravel(part) for part in found]), None, None

    return predict, f"{n_rows:,} rows, bandwidth {bandwidth:.0f}"


def _standardized(train: Data, test: Data) -> tuple[Any, Any]:
    mean, scale = train.X.mean(axis=0), train.X.std(axis=0)
    return (train.X - mean) / scale, (test.X - mean) / scale


def _with_one(X: Any) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def _normal(mean: np.ndarray, sd: Any) -> Prediction:
    return mean, mean - 1.6449 * sd, mean + 1.6449 * sd


MODELS: dict[str, Callable[[Data, Data], tuple[Callable[[], Prediction], str]]] = {
    "varying coefficients": varying,
    "varying coefficients, smaller basis": varying_small,
    "varying coefficients, Student-t": varying_student_t,
    "local smoothing": local_smoothing,
    "GPBoost, intercept": gpboost_intercept,
    "GPBoost, coefficients": gpboost_coefficients,
    "GWR": gwr,
    "gradient boosting": boosting,
    "least squares": least_squares,
}


def _one_model(name: str, seed: int, answers: Any) -> None:
    warnings.simplefilter("ignore")
    data = county()
    train, test = split(data, seed)
    before = _peak()
    try:
        started = time.perf_counter()
        predict, remark = MODELS[name](train, test)
        fitted = time.perf_counter()
        mean, low, high = predict()
        ended = time.perf_counter()
    except ImportError as error:
        answers.put({"skipped": f"{error.name} is not installed"})
        return
    except np.linalg.LinAlgError as error:
        answers.put({"skipped": f"fails: {error}"})
        return
    covered = np.nan if low is None else float(np.mean((test.y >= low) & (test.y <= high)))  # type: ignore[operator]
    answers.put(
        {
            "error": float(np.mean(np.abs(mean - test.y))),
            "covered": covered,
            "fit": fitted - started,
            "predict": ended - fitted,
            "peak": _peak(),
            "before": before,
            "remark": remark,
        }
    )


def king_county(splits: int, only: list[str] | None) -> None:
    """The table of models."""
    print("| model | MAE of log price | 90% intervals cover | fit s | predict s | peak memory GB | |")
    print("|---|---|---|---|---|---|---|")
    for name in MODELS if only is None else [n for n in MODELS if n in only]:
        found = [in_process(_one_model, name, seed) for seed in range(splits)]
        if "skipped" in found[0]:
            print(f"| {name} | {found[0]['skipped']} | | | | | |", flush=True)
            continue
        means = {
            key: np.mean([f[key] for f in found]) for key in ("error", "covered", "fit", "predict", "peak")
        }
        each = " ".join(f"{f['error']:.4f}" for f in found)
        covered = "" if np.isnan(means["covered"]) else f"{100 * means['covered']:.1f}%"
        print(
            f"| {name} | {means['error']:.4f} ({each}) | {covered} | {means['fit']:.1f} | {means['predict']:.1f} | "
            f"{means['peak']:.2f} | {found[0]['remark']} |",
            flush=True,
        )


# ---------------------------------------------------------------- cost


def _one_size(n_rows: int, answers: Any) -> None:
    rng = np.random.default_rng(1)
    t, X = rng.uniform(0.0, 1.0, size=(n_rows, 2)), rng.standard_normal((n_rows, 5))
    slopes = np.column_stack([np.sin((d + 1.0) * t[:, 0]) + t[:, 1] for d in range(5)])
    data = Data.from_arrays(X=X, y=np.sum(X * slopes, axis=1) + rng.normal(0.0, 0.3, n_rows), t=t)
    del X, slopes
    model = zoo.VaryingCoefficientGP(task_kernel=zoo.VaryingComponent(n_basis=8))
    model.fit(data.take(np.arange(200)), "hsgp", draws=1, chains=1, progress=False)
    before, started = _peak(), time.perf_counter()
    fit = model.fit(data, "hsgp", draws=250, random_seed=1, progress=False)
    answers.put(
        {"fit": time.perf_counter() - started, "before": before, "after": _peak(), "method": fit.method}
    )


def scaling() -> None:
    """Seconds and memory over the number of rows; 6 coefficients of 64 functions."""
    print(
        "| rows | fit s | microseconds per row | peak memory before the fit GB | and after |\n|---|---|---|---|---|"
    )
    for n_rows in (1000, 10_000, 100_000, 1_000_000):
        found = in_process(_one_size, n_rows)
        print(
            f"| {n_rows:,} | {found['fit']:.2f} | {1e6 * found['fit'] / n_rows:.1f} | {found['before']:.2f} | "
            f"{found['after']:.2f} |",
            flush=True,
        )


def sines() -> None:
    """Largest difference of predictions and of the log evidence from the exact process, hyper-parameters held."""
    rng = np.random.default_rng(2)
    n = 300
    t, X = rng.uniform(0.0, 1.0, size=(n, 1)), rng.standard_normal((n, 2))
    y = np.sin(6.0 * t[:, 0]) * X[:, 0] + 0.5 * X[:, 1] + rng.normal(0.0, 0.3, n)
    data = Data.from_arrays(X=X, y=y, t=t)

    def fitted(method: str, **settings: Any) -> tuple[float, Any]:
        part = zoo.VaryingComponent(kernel="matern52", lengthscale=0.3, amplitude=1.0, **settings)
        model = zoo.VaryingCoefficientGP(
            task_kernel=part, likelihood=zoo.Gaussian(noise=0.3), global_coefficients=False
        )
        fit = model.fit(data, method, draws=1, chains=1, progress=False)
        return float(fit.idata["sample_stats"]["log_evidence"][0, 0]), fit.predict(X, t=t)

    exact, reference = fitted("exact")
    print("| box | functions | log evidence, difference | largest difference of a mean |\n|---|---|---|---|")
    for boundary in (1.2, 2.0, 4.0):
        for size in (10, 20, 40, 80, 160):
            value, predicted = fitted("hsgp", n_basis=size, boundary=boundary)
            gap = float(np.max(np.abs(predicted["mean"] - reference["mean"])))
            print(f"| {boundary} | {size} | {value - exact:.2e} | {gap:.2e} |")


def nuts() -> None:
    """Effective draws and divergences of the hyper-parameters, by both maps of the white variables."""
    from arviz_stats import summary

    from zoo.models.varying_coefficient import white as varying_white

    rows, place = county(), zoo.VaryingComponent(columns=("long", "lat"))
    data = rows.take(np.random.default_rng(1).permutation(rows.n_rows)[:150])
    names = ["amplitude", "lengthscale", "global_scale", "noise"]
    print("| white variables | seconds | smallest ESS | ESS/s | largest R-hat | divergent draws of 1,000 |")
    print("|---|---|---|---|---|---|")
    given = varying_white._conditions
    for title, conditions in (("given y", given), ("as they are", lambda *arguments: False)):
        varying_white._conditions = conditions
        started = time.perf_counter()
        fit = zoo.VaryingCoefficientGP(task_kernel=place).fit(
            data, "nuts", draws=500, tune=500, chains=2, random_seed=1, progress=False
        )
        seconds = time.perf_counter() - started
        table = summary(fit.idata, var_names=names, round_to="none")
        ess = min(table["ess_bulk"].min(), table["ess_tail"].min())
        diverged = int(fit.idata["sample_stats"]["diverging"].sum())
        print(
            f"| {title} | {seconds:.0f} | {ess:.0f} | {ess / seconds:.2f} | {table['r_hat'].max():.3f} | {diverged} |",
            flush=True,
        )
    varying_white._conditions = given


def _peak() -> float:
    """Peak resident memory of this process, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def in_process(work: Callable[..., None], *arguments: Any) -> dict[str, Any]:
    """What a function puts into its last argument, a queue, run in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=work, args=(*arguments, answers))
    process.start()
    found: dict[str, Any] = answers.get()
    process.join()
    return found


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--king-county", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--sines", action="store_true")
    parser.add_argument("--nuts", action="store_true")
    chosen = parser.parse_args()
    if chosen.nuts:
        nuts()
    if chosen.sines:
        sines()
    if chosen.scaling:
        scaling()
    if chosen.king_county:
        king_county(chosen.splits, chosen.only)


if __name__ == "__main__":
    main()

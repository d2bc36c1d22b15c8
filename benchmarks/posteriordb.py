"""Posteriors of other people: models of posteriordb written as factories, against its reference draws.

    git clone https://github.com/stan-dev/posteriordb
    python benchmarks/posteriordb.py --database posteriordb/posterior_database [--only eight_schools ...]

posteriordb (Magnusson et al. 2025) has data, Stan programs, and 10 x 1,000 reference draws. Programs that a factory
says with ``own_priors`` are fitted here by "nuts" with ``target_accept=0.95``. Nothing is standardized, as there. For
every parameter z is the difference of the means over its Monte Carlo standard error, of both sides; likewise for the
standard deviations. The table has the largest of both, and the last line how large that would be by chance: the 95 %
quantile of the largest of as many independent normal variables.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import ndtri

import zoo
from zoo.likelihoods import Law


def read(path: Path) -> Any:
    """The content of a zipped JSON file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


# ---------------------------------------------------------------- linear regressions


def columns(*parts: Any) -> np.ndarray:
    """A design matrix with a constant column before these."""
    return np.column_stack([np.ones(len(parts[0])), *parts])


def earnings(name: str, d: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gelman & Hill: earnings of 1,192 persons."""
    z = (d["height"] - d["height"].mean()) / d["height"].std(ddof=1)
    log = np.log(d["earn"])
    return {
        "earn_height": (columns(d["height"]), d["earn"]),
        "log10earn_height": (columns(d["height"]), log / np.log(10.0)),
        "logearn_height": (columns(d["height"]), log),
        "logearn_height_male": (columns(d["height"], d["male"]), log),
        "logearn_interaction": (columns(d["height"], d["male"], d["height"] * d["male"]), log),
        "logearn_interaction_z": (columns(z, d["male"], z * d["male"]), log),
        "logearn_logheight_male": (columns(np.log(d["height"]), d["male"]), log),
    }[name]


def kidiq(name: str, d: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gelman & Hill: scores of 434 children."""
    iq, y, hs = d["mom_iq"], d["kid_score"], d["mom_hs"]
    if name == "kidscore_mom_work":
        return columns(*(d["mom_work"] == level for level in (2, 3, 4))), y
    if name == "kidscore_momhs":
        return columns(hs), y
    if name == "kidscore_momiq":
        return columns(iq), y
    if name == "kidscore_momhsiq":
        return columns(hs, iq), y
    if name == "kidscore_interaction_c":
        hs, iq = hs - hs.mean(), iq - iq.mean()
    elif name == "kidscore_interaction_c2":
        hs, iq = hs - 0.5, iq - 100.0
    elif name == "kidscore_interaction_z":
        hs, iq = ((v - v.mean()) / (2.0 * v.std(ddof=1)) for v in (hs, iq))
    return columns(hs, iq, hs * iq), y


def mesquite(name: str, d: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gelman & Hill: 46 bushes."""
    if name == "mesquite":
        names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
        return columns(*(d[n] for n in names)), d["weight"]
    log = {n: np.log(v) for n, v in d.items() if n not in ("group", "N")}
    area, y = log["diam1"] + log["diam2"], log["weight"]
    volume, shape = area + log["canopy_height"], log["diam1"] - log["diam2"]
    sizes = (log[n] for n in ("diam1", "diam2", "canopy_height", "total_height", "density"))
    return {
        "logmesquite": columns(*sizes, d["group"]),
        "logmesquite_logva": columns(volume, area, d["group"]),
        "logmesquite_logvas": columns(volume, area, shape, log["total_height"], log["density"], d["group"]),
        "logmesquite_logvash": columns(volume, area, shape, log["total_height"], d["group"]),
        "logmesquite_logvolume": columns(volume),
    }[name], y  # fmt: skip


def nes(name: str, d: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gelman & Hill: party identification in eight years."""
    ages = (d["age_discrete"] == level for level in (2, 3, 4))
    return columns(d["real_ideo"], d["race_adj"], *ages, d["educ1"], d["gender"], d["income"]), d["partyid7"]


@dataclass
class Case:
    """A posterior of the database as a factory, its data, and our names of its parameters."""

    factory: zoo.ModelFactory
    data: zoo.MultiTaskData
    read: Callable[[Any], dict[str, np.ndarray]]


def regression(X: np.ndarray, y: np.ndarray, coefficients: Any, noise: Any, names: list[str]) -> Case:
    """One regression of all rows with given priors."""
    factory = zoo.PooledTasks(own_priors={"coefficients": coefficients}, likelihood=zoo.Gaussian(noise=noise))

    def found(posterior: Any) -> dict[str, np.ndarray]:
        values = posterior["coefficients"].to_numpy()
        by_name = {name: values[..., i] for i, name in enumerate(names)}
        return {**by_name, "sigma": posterior["noise"].to_numpy()}

    data = zoo.MultiTaskData.from_arrays(
        np.asarray(X, dtype=float), np.asarray(y, dtype=float), task=["all"] * len(y)
    )
    return Case(factory, data, found)


# ---------------------------------------------------------------- the other models


class HalfNormalVariance(Law):
    """The square of the noise is half-normal: what gp_regr calls sigma is a variance."""

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`zoo.likelihoods.Law`."""
        return pm.Deterministic(name, pm.HalfNormal(f"_{name}_variance", 1.0) ** 0.5)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`zoo.likelihoods.Law`."""
        return np.asarray(np.log(2.0 * np.sqrt(2.0 / np.pi) * x) - 0.5 * np.asarray(x) ** 4)

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`zoo.likelihoods.Law`."""
        return np.sqrt(np.abs(rng.standard_normal(size)))

    @property
    def typical(self) -> float:
        """About the median."""
        return 0.8


def gaussian_process(d: dict[str, np.ndarray], counts: bool) -> Case:
    """gp_regr and gp_pois_regr: one Gaussian process at eleven points."""
    factory = zoo.PooledGP(
        instance_kernel="squared_exponential",
        intercept=False,
        standardize=False,
        likelihood="poisson" if counts else zoo.Gaussian(noise=HalfNormalVariance()),
        own_priors={"instance_lengthscale": pm.Gamma.dist(25, 4), "global_scale": pm.HalfNormal.dist(2)},
    )
    y = d["k"] if counts else d["y"]
    data = zoo.MultiTaskData.from_arrays(
        d["x"][:, None].astype(float), y.astype(float), task=["all"] * len(y)
    )

    def found(posterior: Any) -> dict[str, np.ndarray]:
        result = {
            "rho": posterior["instance_lengthscale"].to_numpy(),
            "alpha": posterior["global_scale"].to_numpy(),
        }
        if not counts:
            return {**result, "sigma": posterior["noise"].to_numpy() ** 2}
        order = {float(x): i for i, x in enumerate(np.unique(d["x"]))}
        f = posterior["function_values"].to_numpy()
        return {**result, **{f"f[{n + 1}]": f[..., order[float(x)]] for n, x in enumerate(d["x"])}}

    return Case(factory, data, found)


def eight_schools(d: dict[str, np.ndarray]) -> Case:
    """Rubin (1981): the effect of eight schools, each with a known standard error, the weight of its row."""
    factory = zoo.NIWLinear(
        covariance_prior="lkj",
        own_priors={"population_mean": pm.Normal.dist(0, 5), "feature_sd": pm.HalfCauchy.dist(5)},
        likelihood=zoo.Gaussian(noise=1.0),
    )
    data = zoo.MultiTaskData.from_arrays(
        np.ones((8, 1)),
        d["y"].astype(float),
        task=[f"school {j}" for j in range(8)],
        weight=1.0 / d["sigma"] ** 2.0,
    )

    def found(posterior: Any) -> dict[str, np.ndarray]:
        theta = posterior["coefficients"].to_numpy()[:, :, 0]
        return {
            **{f"theta[{j + 1}]": theta[..., j] for j in range(8)},
            "mu": posterior["population_mean"].to_numpy()[..., 0],
            "tau": posterior["feature_sd"].to_numpy()[..., 0],
        }

    return Case(factory, data, found)


def case(posterior: str, database: Path) -> Case:
    """The factory of a posterior."""
    data_name, name = posterior.split("-")
    raw = read(database / "data" / "data" / f"{data_name}.json.zip")
    d = {key: np.asarray(value) for key, value in raw.items()}
    flat, positive = pm.Flat.dist(), pm.HalfFlat.dist()
    if name == "eight_schools_noncentered":
        return eight_schools(d)
    if data_name == "gp_pois_regr":
        return gaussian_process(d, counts=name == "gp_pois_regr")
    if name == "blr":
        names = [f"beta[{i + 1}]" for i in range(d["X"].shape[1])]
        return regression(d["X"], d["y"], pm.Normal.dist(0, 10), pm.HalfNormal.dist(10), names)
    if name == "kilpisjarvi":
        prior = pm.Normal.dist([d["pmualpha"], d["pmubeta"]], [d["psalpha"], d["psbeta"]])
        return regression(columns(d["x"]), d["y"], prior, positive, ["alpha", "beta"])
    if name == "diamonds":
        centred = d["X"][:, 1:] - d["X"][:, 1:].mean(axis=0)
        # A Student t law for the constant and normal ones for the others: of infinitely many degrees of freedom.
        K = centred.shape[1]
        prior = pm.StudentT.dist(nu=[3.0] + K * [1e9], mu=[8.0] + K * [0.0], sigma=[10.0] + K * [1.0])
        names = ["Intercept", *(f"b[{i + 1}]" for i in range(K))]
        return regression(columns(centred), d["Y"], prior, pm.HalfStudentT.dist(3, 10), names)
    source = {"earnings": earnings, "mesquite": mesquite}.get(
        data_name, kidiq if data_name.startswith("kidiq") else nes
    )
    X, y = source(name, d)
    program = (database / "models" / "stan" / f"{name}.stan").read_text()
    noise = pm.HalfCauchy.dist(2.5) if "cauchy(0, 2.5)" in program else positive
    return regression(X, y, flat, noise, [f"beta[{i + 1}]" for i in range(X.shape[1])])


_YEARS = (1972, 1976, 1980, 1984, 1988, 1992, 1996, 2000)
POSTERIORS = (
    "eight_schools-eight_schools_noncentered",
    "gp_pois_regr-gp_regr",
    "gp_pois_regr-gp_pois_regr",
    "kilpisjarvi_mod-kilpisjarvi",
    "sblrc-blr",
    "sblri-blr",
    *(f"earnings-{n}" for n in ("earn_height", "log10earn_height", "logearn_height", "logearn_height_male",
      "logearn_interaction", "logearn_interaction_z", "logearn_logheight_male")),
    *(f"kidiq-kidscore_{n}" for n in ("interaction", "momhs", "momhsiq", "momiq")),
    *(f"kidiq_with_mom_work-kidscore_{n}" for n in ("interaction_c", "interaction_c2", "interaction_z", "mom_work")),
    *(f"mesquite-{n}" for n in ("mesquite", "logmesquite", "logmesquite_logva", "logmesquite_logvas",
      "logmesquite_logvash", "logmesquite_logvolume")),
    *(f"nes{year}-nes" for year in _YEARS),
    "diamonds-diamonds",  # last, as it takes longest
)  # fmt: skip


def moments(draws: np.ndarray) -> np.ndarray:
    """Mean and standard deviation of draws (chain, draw), and their Monte Carlo standard errors, (2, 2)."""
    return np.array(
        [
            [draws.mean(), float(az.mcse(draws, method="mean"))],
            [draws.std(), float(az.mcse(draws, method="sd"))],
        ]
    )


def compare(posterior: str, database: Path, draws: int, seed: int) -> tuple[int, float, float, float, float]:
    """Parameters, largest z of a mean and of a standard deviation, worst R-hat, seconds."""
    given = case(posterior, database)
    path = database / "reference_posteriors" / "draws" / "draws" / f"{posterior}.json.zip"
    reference = read(path)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = given.factory.fit(
            given.data,
            draws=draws,
            tune=1000,
            chains=4,
            random_seed=seed,
            progress=False,
            nuts={"target_accept": 0.95},
        )
    seconds = time.perf_counter() - started
    ours = given.read(fit.posterior)
    if set(ours) != set(reference[0]):
        raise ValueError(
            f"{posterior}: parameters {sorted(set(ours) ^ set(reference[0]))} are on one side alone."
        )
    z = []
    for name, values in ours.items():
        here, there = moments(values), moments(np.array([chain[name] for chain in reference]))
        z.append((here[:, 0] - there[:, 0]) / np.hypot(here[:, 1], there[:, 1]))
    largest = np.abs(z).max(axis=0)
    worst = float(fit.diagnostics()["r_hat"].max())
    return len(ours), float(largest[0]), float(largest[1]), worst, seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--database", type=Path, required=True, help="the folder posterior_database of a checkout"
    )
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--draws", type=int, default=2000, help="of each of four chains")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chosen = [p for p in POSTERIORS if not given.only or any(part in p for part in given.only)]
    print(f"{'posterior':45} {'parameters':>10} {'z of mean':>10} {'z of sd':>8} {'R-hat':>6} {'s':>5}")
    total, largest = 0, 0.0
    for posterior in chosen:
        n, mean, sd, worst, seconds = compare(posterior, given.database, given.draws, given.seed)
        total, largest = total + 2 * n, max(largest, mean, sd)
        print(f"{posterior:45} {n:10d} {mean:10.2f} {sd:8.2f} {worst:6.3f} {seconds:5.0f}", flush=True)
    chance = -ndtri((1.0 - 0.95 ** (1.0 / total)) / 2.0)
    print(
        f"{len(chosen)} posteriors, {total} comparisons: largest |z| {largest:.2f}; by chance up to {chance:.2f}"
    )


if __name__ == "__main__":
    main()

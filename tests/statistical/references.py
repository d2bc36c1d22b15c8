"""Reference posteriors: ``python -m tests.statistical.references --folder tests/statistical/references``.

Of every factory with a sampler of its own a small posterior by another engine: rejection from the prior where the
likelihood is a pseudo-likelihood, or all but covariance and noise can be integrated out; else NUTS. Of NUTS ten chains
of 20,000 draws are thinned to 10,000 draws in all. As posteriordb asks, a reference is stored if R-hat is below 1.01,
the autocorrelation at lag one is below 0.05, and no transition diverged; otherwise the reason is printed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats

import zoo
from tests.statistical import exact, exact_population
from tests.statistical.cases import small_data
from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.registry import FACTORIES, get_factory
from zoo.support.files import staged_file

Dims = dict[str, tuple[str, ...]]

FOLDER = Path(__file__).parent / "references"
CHAINS, DRAWS, TUNE, KEPT = 10, 20_000, 2_000, 1_000
LARGEST_R_HAT, LARGEST_LAG = 1.01, 0.05

# Few draws of the prior are kept by rejection with a large C.
_TUBE = {"likelihood": zoo.EpsilonInsensitive(C=0.4, epsilon=0.3)}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "MaxMargin": [{"likelihood": zoo.Hinge(C=0.3)}, _TUBE],
    "NonparametricMaxMargin": [{"likelihood": zoo.Hinge(C=0.3)}, _TUBE],
    "NIWLinear": [{}, {"likelihood": zoo.Gaussian(per_task=("noise",))}, {"covariance_prior": "half_t"}],
    "MultiTaskKernelMachine": [{}, {"likelihood": zoo.Hinge(C=0.4)}],
}
NUTS = {"target_accept": 0.999}
# NUTS is the only method of these that draws from the posterior of all variables; what it is held against instead.
NO_REFERENCE = {
    "HierarchicalLinear": "quadrature, in tests/models, and joint draws, in test_own_mean.py",
    "KernelLocalSmoothing": "the closed form, in tests/models",
    "MultiLaplaceGP": "importance sampling from the prior, in tests/models",
    "NonisotropicVaryingCoefficients": "the closed form given hyper-parameters, in tests/models",
    "PooledGP": "the closed form given hyper-parameters, in tests/models",
    "VaryingCoefficientGP": "the closed form given hyper-parameters, in tests/models",
}


@dataclass(frozen=True)
class Reference:
    """A factory on small data, what is tested on it, and what it is compared with."""

    model: str
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        parts = [f"{k}_{v}" for k, v in self.fields.items()]
        return "-".join([self.model, *(re.sub(r"\W*[^\w.]+\W*", "_", part).strip("_") for part in parts)])

    @property
    def factory(self) -> ModelFactory:
        return get_factory(self.model)(**self.fields)

    @property
    def data(self) -> MultiTaskData:
        """Rows under priors in absolute numbers, as the references were made."""
        rows = self._rows
        return replace(rows, units=Units.of_size(rows.n_features))

    @property
    def _rows(self) -> MultiTaskData:
        if self.model == "NIWGaussianProcess":
            return repeated_inputs()
        if self.model == "NIWLinear":
            data = four_tasks(self.factory)
            return data.select_tasks(data.task_names[:2])
        if self.engine == "rejection":
            return small_data(self.factory).take([0, 1, 2, 5, 6, 7])
        return four_tasks(self.factory)

    @property
    def tested(self) -> list[str]:
        """Methods but NUTS that draw from the exact posterior."""
        known = self.factory.methods
        return [
            m.name for m in self.factory.method_table() if m.exact and m.name in known and m.name != "nuts"
        ]

    @property
    def engine(self) -> str:
        """Where the reference comes from."""
        by_nuts = self.name in ("IndependentTasks", "PooledTasks", "MultiTaskKernelMachine")
        return "nuts" if by_nuts else "rejection"


def four_tasks(factory: ModelFactory) -> MultiTaskData:
    """Four tasks of six rows, of coefficients that differ: with fewer, posteriors of hierarchies have a neck."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 6)
    X, t = rng.standard_normal((24, 2)), rng.random((24, 1))
    w = np.array([1.0, -0.5]) + 0.5 * rng.standard_normal((4, 2))
    y = np.sum(X * w[task], axis=1) + 0.5 * rng.standard_normal(24)
    y = np.where(y > 0.0, 1.0, -1.0) if factory.likelihood.labels else y
    return MultiTaskData.from_arrays(X, y, task, t=t if factory.needs_t else None)


def repeated_inputs() -> MultiTaskData:
    """Two tasks with two rows at each of three inputs: what they differ by bounds the likelihood."""
    rng = np.random.default_rng(0)
    at = np.tile(np.repeat(np.arange(3), 2), 2)
    X = np.array([[-1.0, 0.2], [0.3, -0.5], [1.1, 0.8]])[at]
    y = X[:, 0] + 0.5 * rng.standard_normal(12)
    return MultiTaskData.from_arrays(X, y, np.repeat([0, 1], 6))


def all_references() -> list[Reference]:
    """At least one of every factory of the registry."""
    return [
        Reference(model, fields)
        for model in FACTORIES
        if model not in NO_REFERENCE
        for fields in FIELDS.get(model, [{}])
    ]


# ---------------------------------------------------------------- what is compared


def quantities(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """Scalars (chain, draw) whose moments are finite: covariance entries have none under few degrees of freedom.

    Logarithms of what is positive; of covariances those of variances and determinants, and the correlations. Of a
    binary matrix, whose columns have no order, its product with its transpose.
    """
    found: dict[str, np.ndarray] = {}
    for name, variable in posterior.data_vars.items():
        array = variable.transpose("chain", "draw", ...)
        values, dims = array.to_numpy().astype(np.float64), array.dims[2:]
        if "latent" in dims:
            values, dims = values @ np.swapaxes(values, 2, 3), ("feature", "product")
        if len(dims) == 2 and dims[1] == f"{dims[0]}_bis":
            found.update(_of_covariance(str(name), values))
            continue
        # Of the whole variable: one entry may be positive in all draws though it need not be.
        label = str(name)
        if np.all(values > 0.0):
            label, values = f"log {name}", np.log(values)
        for place in np.ndindex(values.shape[2:]):
            entry = values[(slice(None), slice(None), *place)]
            found[f"{label}{list(place)}" if place else label] = entry
    return {name: values for name, values in found.items() if np.ptp(values) > 1e-12}


def _of_covariance(name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    sign, determinant = np.linalg.slogdet(values)
    if np.all(sign > 0.0) and np.linalg.cond(values).max() < 1e12:
        yield f"log|{name}|", determinant
    variance = np.diagonal(values, axis1=2, axis2=3)
    for i in range(variance.shape[-1]):
        yield f"log {name}[{i}, {i}]", np.log(variance[..., i])
        for j in range(i):
            yield (
                f"correlation {name}[{i}, {j}]",
                values[..., i, j] / np.sqrt(variance[..., i] * variance[..., j]),
            )


def moments(values: np.ndarray) -> dict[str, float]:
    """Mean and standard deviation of (chain, draw) values with their Monte-Carlo errors."""
    errors = [float(array_stats.mcse(values, chain_axis=0, draw_axis=1, method=m)) for m in ("mean", "sd")]
    return {
        "mean": float(values.mean()),
        "mean_error": errors[0],
        "sd": float(values.std()),
        "sd_error": errors[1],
    }


# ---------------------------------------------------------------- how it is made


def _by_rejection(case: Reference, seed: int) -> tuple[xr.Dataset, int]:
    """Independent draws from the posterior of few rows, whatever PyMC's model of it."""
    make = _population if case.model.startswith("NIW") else _pseudo_posterior
    draws, dims = make(case, np.random.default_rng(seed), CHAINS * KEPT)
    variables = {
        name: (("chain", "draw", *dims.get(name, ())), v.reshape(CHAINS, KEPT, *v.shape[1:]))
        for name, v in draws.items()
    }
    return xr.Dataset(variables), 0


def _pseudo_posterior(case: Reference, rng: np.random.Generator, n: int) -> tuple[exact.Draws, Dims]:
    factory, data = case.factory, case.data
    D, T = data.n_features, data.n_tasks

    def prior(rng: np.random.Generator, n: int) -> exact.Draws:
        if case.model == "MultiTaskKernelMachine":
            return exact.kernel_machine_prior(rng, n, D, T)
        task = exact.covariance_prior(factory, "task", T)
        if case.model == "MaxMargin":
            feature = exact.covariance_prior(factory, "feature", D)
            return exact.max_margin_prior(rng, n, D, T, feature, task)
        return exact.latent_feature_prior(rng, n, D, T, factory.alpha, task)

    draws = exact.accepted(rng, n, prior, exact.loss_of(factory, data))
    dims = {
        "coefficients": ("feature", "task"),
        "Z": ("feature", "latent"),
        "task_cov": ("task", "task_bis"),
        "feature_cov": ("feature", "feature_bis"),
    }
    return exact.recorded(exact.with_matrices(draws)), dims


def _population(case: Reference, rng: np.random.Generator, n: int) -> tuple[exact.Draws, Dims]:
    factory, data = case.factory, case.data
    values, mean, cov = factory.names
    X, scale = data.X, np.eye(data.n_features) / data.n_features
    if case.model == "NIWGaussianProcess":
        inputs, at = np.unique(X, axis=0, return_inverse=True)  # in the order of the data here
        X = np.eye(len(inputs))[at]
        scale = np.exp(-0.5 * np.sum((inputs[:, None] - inputs) ** 2, axis=2))
    found = exact_population.posterior_draws(rng, n, factory, (X, data.y, data.task), scale)
    name_of = {"coefficients": values, "mean": mean, "cov": cov, "noise": "noise"}
    dims = {
        values: (factory.dim, "task"),
        mean: (factory.dim,),
        cov: (factory.dim, f"{factory.dim}_bis"),
        "noise": ("task",) if factory.noise_by_task else (),
    }
    return {name_of[name]: v for name, v in found.items()}, dims


def _by_nuts(case: Reference, seed: int) -> tuple[xr.Dataset, int]:
    fit = case.factory.fit(
        case.data, "nuts", draws=DRAWS, tune=TUNE, chains=CHAINS, cores=2, random_seed=seed, progress=False,
        nuts=NUTS,
    )  # fmt: skip
    posterior = fit.idata["posterior"].to_dataset().isel(draw=slice(None, None, DRAWS // KEPT))
    return posterior, int(fit.idata["sample_stats"]["diverging"].sum())


def make(case: Reference, seed: int) -> dict[str, Any]:
    """The reference, with what posteriordb's rules look at."""
    posterior, divergences = (_by_rejection if case.engine == "rejection" else _by_nuts)(case, seed)
    found = quantities(posterior)
    r_hat = {name: float(array_stats.rhat(v, chain_axis=0, draw_axis=1)) for name, v in found.items()}
    lag = {name: _lag_one(v) for name, v in found.items()}
    return {
        "model": case.model,
        "fields": {k: repr(v) if isinstance(v, zoo.Likelihood) else v for k, v in case.fields.items()},
        "engine": case.engine,
        "seed": seed,
        "versions": {name: version(name) for name in ("numpy", "pymc", "pytensor", "nutpie")},
        "draws": f"{CHAINS} chains x {DRAWS} draws, thinned to {CHAINS * KEPT}"
        if case.engine != "rejection"
        else f"{CHAINS * KEPT} independent draws",
        "divergences": divergences,
        "largest_r_hat": max(r_hat.values()),
        "largest_lag_one": max(lag.values()),
        "quantities": {name: moments(v) for name, v in found.items()},
    }


def _lag_one(values: np.ndarray) -> float:
    """Autocorrelation at lag one of (chain, draw) values about their common mean."""
    centred = values - values.mean()
    return float((centred[:, 1:] * centred[:, :-1]).mean() / centred.var())


def faults(reference: dict[str, Any]) -> list[str]:
    """Why it is no reference; empty where it is one."""
    found = []
    if reference["divergences"]:
        found.append(f"{reference['divergences']} divergences")
    if reference["largest_r_hat"] >= LARGEST_R_HAT:
        found.append(f"R-hat {reference['largest_r_hat']:.4f}")
    if reference["largest_lag_one"] >= LARGEST_LAG:
        found.append(f"autocorrelation {reference['largest_lag_one']:.3f} at lag one")
    return found


def main() -> None:
    """Make what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for case in all_references():
        if arguments.only and not any(part in case.name for part in arguments.only):
            continue
        reference = make(case, arguments.seed)
        reference["command"] = (
            f"python -m tests.statistical.references --only {case.name!r} --seed {arguments.seed}"
        )
        wrong = faults(reference)
        print(case.name, f"zoo {zoo.__version__}", ", ".join(wrong) or "stored", flush=True)
        if not wrong:
            with staged_file(arguments.folder / f"{case.name}.json") as staged:
                staged.write_text(json.dumps(reference, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

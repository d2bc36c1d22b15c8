"""One replication of simulation-based calibration: data from the prior, a fit, ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.factory import ModelFactory
from zoo.core.manifest import describe_data
from zoo.core.predictive import PointwiseLogLikelihood
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics.quantities import scalar_quantities, varying
from zoo.inference.run.chains import run_chains
from zoo.support.digest import code_digest

__all__ = ["THIN", "Quantities", "Replication", "require_simulated", "require_simulated_rows"]

Quantities = Callable[[xr.Dataset], dict[str, np.ndarray]]
# Sweeps from one kept draw to the next: what most chains of small data forget within.
THIN = {"gibbs": 10, "nuts": 10}
_LOG_LIKELIHOOD = "log likelihood"


def require_simulated(factory: ModelFactory, data: MultiTaskData, y: np.ndarray, truth: xr.Dataset) -> None:
    """Raise where what was drawn is not what the model says of y."""
    bad = next(
        (str(n) for n, v in [("y", y), *truth.items()] if not np.isfinite(np.asarray(v, float)).all()), None
    )
    if bad is not None:
        raise ValueError(
            f"{bad} was drawn as not finite: the prior is too wide. Give the factory narrower fields."
        )
    require_simulated_rows(factory, data, y[:2])


def require_simulated_rows(factory: ModelFactory, data: MultiTaskData, y: Any) -> None:
    """Raise where draws of y do not have the law that the model says of these rows; ``y`` holds two of them."""
    prepared = [factory.design(replace(data, y=values)) for values in y]
    if factory.assemble(prepared[0], y[0])[0].potentials:
        raise ValueError(
            f"the model of {type(factory).__name__} has a potential, which no simulated y follows. There is nothing to "
            "calibrate."
        )
    if data.gaps is not None:
        raise ValueError(
            "features have gaps, whose law is learned of the known ones. Fill them in to calibrate."
        )
    weights = [p.weight for p in prepared if p.weight is not None]
    if any(not np.array_equal(w, weights[0]) for w in weights):
        raise ValueError("the weights of the rows depend on y. Leave class_weight out to calibrate.")
    if any((w != 1.0).any() for w in weights):
        raise ValueError(
            "weight is given: a row of weight 2 counts as two rows alike, and a y that is drawn for it has another "
            "law. Make the data without weight to calibrate."
        )


class Replication:
    """Ranks of one truth; a callable that processes can be sent. What is compiled is kept for the next one."""

    def __init__(
        self,
        *,
        factory: ModelFactory,
        data: MultiTaskData,
        method: str,
        y: np.ndarray,
        truth: xr.Dataset,
        draws: int,
        tune: int,
        chains: int,
        thin: int,
        seeds: np.random.SeedSequence,
        options: dict[str, Any],
        quantities: Quantities | None,
    ):
        self.factory, self.data, self.method, self.y, self.truth = factory, data, method, y, truth
        self.draws, self.tune, self.chains, self.thin = draws, tune, chains, thin
        self.seeds, self.options, self.quantities = seeds, options, quantities
        self._names = varying(self._scalars(truth))
        self._made: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    @property
    def settings(self) -> dict[str, Any]:
        """What a stored replication must have in common with this run."""
        rows = describe_data(self.data)
        del rows["y"]  # is simulated
        if not self.data.units.plain:
            units = self.data.units
            rows["units"] = [*units.x_mean.tolist(), *units.x_scale.tolist(), units.y_mean, units.y_scale]
        return {
            "model": repr(self.factory),
            **({} if (code := code_digest(type(self.factory))) is None else {"code": code}),
            "rows": rows,
            "method": self.method,
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "thin": self.thin,
            "options": repr(sorted(self.options.items())),
            "entropy": str(self.seeds.entropy),
            "quantities": self._names,
        }

    def _scalars(self, draws: xr.Dataset) -> dict[str, np.ndarray]:
        if self.quantities is not None:
            return self.quantities(draws)
        return scalar_quantities(draws, self.factory.unordered_dims)

    def __call__(self, number: int, **settings: Any) -> dict[str, Any]:
        """Ranks and effective sample sizes by quantity."""
        seed, order = np.random.SeedSequence(
            self.seeds.entropy, spawn_key=(*self.seeds.spawn_key, number)
        ).spawn(2)
        y = self.y[number]
        posterior = self._posterior(y, seed)
        flat = _one_after_another(posterior)
        truth = self.truth[list(posterior.data_vars)].isel(draw=[number])
        here, there = self._scalars(truth), self._scalars(flat)
        absent = next((name for name in self._names if name not in there), None)
        if self.quantities is not None and absent is not None:
            raise ValueError(
                f"quantities has {absent!r} of the draws from the prior, and not of those from the posterior. Return "
                "the same names of both."
            )
        here[_LOG_LIKELIHOOD], there[_LOG_LIKELIHOOD] = self._log_likelihoods([truth, flat], y)
        rng, ranks, sizes = np.random.default_rng(order), {}, {}
        for name in [*(n for n in self._names if n in there), _LOG_LIKELIHOOD]:
            value, drawn = here[name][0], there[name]
            if not (np.isfinite(value) and np.isfinite(drawn).all()):
                raise FloatingPointError(f"{name} is not finite.")
            ties = int(np.sum(drawn == value))
            ranks[name] = int(np.sum(drawn < value)) + int(rng.integers(ties + 1))
            by_chain = drawn.reshape(self.chains, self.draws).astype(np.float64)
            sizes[name] = _effective_size(by_chain)
        return {"rank": ranks, "ess": sizes}

    def _posterior(self, y: np.ndarray, seed: np.random.SeedSequence) -> xr.Dataset:
        """Thinned draws of all variables."""
        own_kernel = type(self.factory).gibbs_kernel is not ModelFactory.gibbs_kernel
        if self.method == "gibbs" and own_kernel:
            return self._by_kernel(y, seed)
        integer = int(seed.generate_state(1)[0])
        if self.method == "nuts" and not self.options and self._continuous:
            found = self._by_nutpie(y, integer)
        else:
            with warnings.catch_warnings():
                # Of the scale of y, of a class that is not there: y comes from a wide prior.
                warnings.simplefilter("ignore")
                rows = replace(self.data, y=self.factory.likelihood.decode(y))
                fit = self.factory.fit(
                    rows, self.method, draws=self.draws * self.thin, tune=self.tune,
                    chains=self.chains, random_seed=integer, progress=False, **self.options,
                )  # fmt: skip
            found = fit.posterior
        found = found.isel(draw=slice(self.thin - 1, None, self.thin))
        return found[[v for v in found.data_vars if v in self.truth]]

    @property
    def _placeholder(self) -> np.ndarray:
        return self.y[0]

    def _once(self, what: str, make: Callable[[], Any]) -> Any:
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    @property
    def _prepared(self) -> MultiTaskData:
        # A prior may look at y, as that of a level at its mean: it is the one of `data`, from which truths are drawn.
        return self._once("prepared", lambda: self.factory.design(self.data))

    def _by_kernel(self, y: np.ndarray, seed: np.random.SeedSequence) -> xr.Dataset:
        kernel = self._once(
            "kernel", lambda: self.factory.gibbs_kernel(self._prepared, self._placeholder, **self.options)
        )
        found, _ = run_chains(
            kernel.with_response(y), draws=self.draws, tune=self.tune, chains=self.chains, random_seed=seed,
            thin=self.thin, cores=1, progress=False,
        )  # fmt: skip
        variables = {
            name: (("chain", "draw", *self.truth[name].dims[1:]), values)
            for name, values in found.items()
            if name in self.truth
        }
        # Columns of a matrix without truncation may be more than the model's.
        sizes = {
            dim: n for dims, values in variables.values() for dim, n in zip(dims, values.shape, strict=True)
        }
        coords = {dim: v for dim, v in self.truth.coords.items() if sizes.get(str(dim)) == len(v)}
        return xr.Dataset(variables, coords=coords)

    @property
    def _model(self) -> Any:
        return self._once("model", lambda: self.factory.assemble(self._prepared, self._placeholder)[0])

    @property
    def _continuous(self) -> bool:
        return all(rv.dtype.startswith("float") for rv in self._model.free_RVs)

    def _by_nutpie(self, y: np.ndarray, seed: int) -> xr.Dataset:
        import nutpie

        compiled = self._once("nutpie", lambda: nutpie.compile_pymc_model(self._model))
        tree = nutpie.sample(
            compiled.with_data(y_observed=y), draws=self.draws * self.thin, tune=self.tune, chains=self.chains,
            cores=1, seed=seed, progress_bar=False,
        )  # fmt: skip
        return tree["posterior"].to_dataset()

    def _log_likelihoods(self, draws: list[xr.Dataset], y: np.ndarray) -> list[np.ndarray]:
        """Sums over the rows, (S,), of each set of draws."""
        posteriors = [
            {str(n): v.transpose("draw", ...).to_numpy()[None] for n, v in d.items()} for d in draws
        ]
        own = type(self.factory).pointwise_log_likelihood is not ModelFactory.pointwise_log_likelihood
        if own:
            of_rows = [self.factory.pointwise_log_likelihood(self._prepared, y, p) for p in posteriors]
        else:
            function = self._once(
                "log likelihood",
                lambda: PointwiseLogLikelihood(
                    self.factory, self._prepared, self._placeholder, list(posteriors[0])
                ),
            )
            function.set_response(y)
            of_rows = [function(p) for p in posteriors]
        return [rows.sum(axis=1) for rows in of_rows]


def _one_after_another(posterior: xr.Dataset) -> xr.Dataset:
    """The draws of all chains along one dim ``draw``."""
    variables: dict[str, Any] = {}
    for name, variable in posterior.data_vars.items():
        array = variable.transpose("chain", "draw", ...)
        values = array.to_numpy()
        variables[str(name)] = (("draw", *array.dims[2:]), values.reshape(-1, *values.shape[2:]))
    coords = {str(k): v for k, v in posterior.coords.items() if k not in ("chain", "draw")}
    return xr.Dataset(variables, coords=coords)


def _effective_size(values: np.ndarray) -> float:
    """Of the mean, of draws (chain, draw); at most their number, which ranks cannot exceed."""
    from arviz_stats.base import array_stats

    if values.size < 8 or np.ptp(values) == 0.0:
        return float(values.size)
    return float(min(values.size, array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean")))

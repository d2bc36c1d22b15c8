"""What the normal-inverse-Wishart models of Yu, Tresp & Schwaighofer (2005) share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr

from zoo.core.capabilities import Condition, LearnedKernel
from zoo.core.context import Context
from zoo.core.drawn import as_arrays, draws_of
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.hooks import SHARED
from zoo.core.joining import joined, new_rows
from zoo.core.methods import UnsupportedMethodError, overridden_hooks
from zoo.core.storage import to_datatree
from zoo.data.multitask import MultiTaskData
from zoo.inference.em.algorithm import (
    conditional_covariances,
    conditional_draws,
    conditional_means,
)
from zoo.inference.em.conditional import conditional_variances
from zoo.inference.gibbs.noise_conditional import NoiseConditional
from zoo.likelihoods.laws import InverseGammaOfSquare, Law
from zoo.models.niw.engines import NIWEngines
from zoo.models.niw.hierarchy import Population
from zoo.support.seeds import generator
from zoo.support.warning_types import warn_user

__all__ = ["NIWBase"]

# Draws that stand for the conditional posterior of an EM fit in predictions.
_POINT_DRAWS = 1000
# Share of the smallest noise variance of a fit down to which the mode of a new task's is looked for.
_SMALLEST_SHARE = 1e-6


class KnownRows(NamedTuple):
    """Rows of tasks as the model sees them, the population at them, and its features with those of the residual."""

    rows: MultiTaskData
    population: Population
    inputs: np.ndarray


class PopulationFit(Condition, LearnedKernel):
    """Fits of a population of tasks."""


@dataclass(frozen=True, kw_only=True)
class NIWBase(NIWEngines):
    """Fields, hierarchy and engines; see the subclasses."""

    fit_class: ClassVar[type[Fit]] = PopulationFit
    paper: ClassVar[str] = "yu2005"
    shares_tasks: ClassVar[bool] = True
    constraints: ClassVar[dict[str, str]] = {"noise": "> 0"}
    likelihood_laws: ClassVar[dict[str, Law]] = {
        **ModelFactory.likelihood_laws, "noise": InverseGammaOfSquare(1.0, 0.1)
    }  # fmt: skip

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """The posterior's draws; of an EM fit draws of the coefficients given the population."""
        return fit.posterior if fit.method != "em" else self.draws_at_estimate(fit, fit.data.task_names, rng)

    def draws_at_estimate(self, fit: Fit, names: tuple[str, ...], rng: np.random.Generator) -> xr.Dataset:
        """Draws of the coefficients of these tasks given the estimate of an EM fit."""
        values, _, _ = self.names
        point = draws_of(fit, names).isel(chain=0, draw=0, drop=True)
        known = self._known_rows(fit, self._rows_of(fit, names))
        draws = self._draws_given(known, fit, as_arrays(point), _POINT_DRAWS, rng)
        draws += point[values].to_numpy() - draws.mean(axis=0)  # their mean is known exactly
        variables = {
            str(name): (
                ("chain", "draw", *v.dims),
                np.broadcast_to(v.to_numpy(), (1, _POINT_DRAWS, *v.shape)),
            )
            for name, v in point.items()
            if name != f"{values}_cov"
        }
        variables[values] = (("chain", "draw", *point[values].dims), draws[None])
        return xr.Dataset(variables, coords=point.coords)

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Of an EM fit the mean and standard deviation (1, n) of f given the population and the known rows."""
        if fit.method != "em":
            return None
        mean, variance = self._em_moments(fit, rows)
        return mean[None], np.sqrt(variance)[None]

    def new_task_moments(
        self, fit: Fit, rows: MultiTaskData
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]] | None:
        """Of an EM fit the law of a further task's functions in the population; else its draws make a mixture."""
        if fit.method != "em" or self.noise_by_task:
            return None
        point = as_arrays(fit.posterior.isel(chain=0, draw=0))
        population = self.population(rows)
        whitened = population.inputs[rows.row]
        mean, cov = population.enter(point[self.names[1]], point[self.names[2]])
        variance = np.sum((whitened @ cov) * whitened, axis=1)
        f = (whitened @ mean)[None], np.sqrt(np.maximum(variance, 0.0))[None]
        return *f, {"noise": np.full((1, 1), point["noise"])} if "noise" in point else {}

    def _em_moments(self, fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of what the population's features say of f."""
        whitened = self.population(rows).inputs[rows.row]
        names, task = self._tasks_of(fit, rows)
        known = self._known_rows(fit, self._rows_of(fit, names))
        point = as_arrays(draws_of(fit, names).isel(chain=0, draw=0))
        _, cov = self._enter(known, fit, point, np.random.default_rng(0))
        extra = known.inputs.shape[1] - whitened.shape[1]
        new = np.hstack([whitened, np.zeros((len(whitened), extra))])
        old = known.rows
        variance = conditional_variances(
            known.inputs, old.row, old.task, old.n_tasks, cov, point["noise"], new, task, old.weight
        )
        coefficients = known.population.back @ point[self.names[0]]
        return np.sum(whitened * coefficients[:, task].T, axis=1), variance

    def _rows_of(self, fit: Fit, names: tuple[str, ...]) -> MultiTaskData:
        """The rows of these tasks of a fit; here of all, since the inputs of others may say what functions are."""
        return fit.data

    def _tasks_of(self, fit: Fit, rows: MultiTaskData) -> tuple[tuple[str, ...], np.ndarray]:
        """Names of the tasks that predictions of prepared rows look at, and which of them each row has."""
        return fit.data.task_names, rows.task

    def _known_rows(self, fit: Fit, data: MultiTaskData) -> KnownRows:
        """Rows of tasks, on the model's scale, for draws of their coefficients given a population."""
        if data is not fit.data:
            return self._rows_known(data, self.design(data, Context(fit.population_data)))
        own = Context(fit.population_data) if fit.conditioned else None
        return fit.context.once("known rows", lambda: self._rows_known(data, self.design(data, own)))

    def _rows_known(self, data: MultiTaskData, prepared: MultiTaskData) -> KnownRows:
        population = self.population(prepared)
        residual = self._residual_features(data, prepared, population.inputs)
        return KnownRows(prepared, population, np.hstack([population.inputs, residual]))

    def _residual_features(
        self, data: MultiTaskData, prepared: MultiTaskData, inputs: np.ndarray
    ) -> np.ndarray:
        """Features (n, k) of what the population's features (n, r) cannot express at new rows; here nothing."""
        return np.empty((len(inputs), 0))

    def _residual_variance(
        self, fit: Fit, mean: np.ndarray, cov: np.ndarray, draw: Any, rng: np.random.Generator
    ) -> float:
        """Variance of their coefficients given one draw, whose population is given in whitened features."""
        return 1.0

    def _enter(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of one draw in the features of the rows."""
        mean, cov = known.population.enter(draw[self.names[1]], draw[self.names[2]])
        rank, size = len(mean), known.inputs.shape[1]
        if size == rank:
            return mean, cov
        grown = self._residual_variance(fit, mean, cov, draw, rng) * np.eye(size)
        grown[:rank, :rank] = cov
        return np.append(mean, np.zeros(size - rank)), grown

    def _draws_given(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], size: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (size, p, T) of the coefficients of the tasks given one draw of the population."""
        rows, half = known.rows, known.population.half
        mean, cov = self._enter(known, fit, draw, rng)
        v = conditional_draws(
            known.inputs,
            rows.row,
            rows.task,
            _less_shared(rows, draw),
            rows.n_tasks,
            mean,
            cov,
            draw["noise"],
            size,
            rng,
            rows.weight,
        )
        return np.asarray(half @ v[:, : half.shape[1]])

    def _moments_given(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (p, T) and covariances (T, p, p) of the same."""
        rows, half = known.rows, known.population.half
        mean, cov = self._enter(known, fit, draw, rng)
        noise, rank = draw["noise"], half.shape[1]
        means = conditional_means(
            known.inputs, rows.row, rows.task, rows.y, rows.n_tasks, mean, cov, noise, rows.weight
        )
        covariances = conditional_covariances(
            known.inputs, rows.row, rows.task, rows.n_tasks, cov, noise, rows.weight
        )
        return half @ means[:rank], half @ covariances[:, :rank, :rank] @ half.T

    def _noise_given(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], least: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Noise (T,) of new tasks given their rows and one draw of the population, coefficients integrated out.

        A draw by the prior of the noise, or, of an EM fit, the value of largest density. Without a prior the noise of
        few rows would be zero: then it is at least that of the quietest task of the fit, ``least`` as a variance.
        """
        rows = known.rows
        mean, cov = self._enter(known, fit, draw, rng)
        root = np.linalg.cholesky(cov)
        result, y, prior = np.empty(rows.n_tasks), _less_shared(rows, draw), self.noise_prior(rows)
        for t, at in enumerate(rows.rows_by_task()):
            weight = None if rows.weight is None else rows.weight[at]
            law = NoiseConditional.of(known.inputs[rows.row[at]], y[at], weight, mean, root)
            if fit.method == "em":
                result[t] = law.mode(prior, least if prior is None else _SMALLEST_SHARE * least)
            else:
                assert prior is not None
                result[t] = law.draw(*prior, rng)
        return np.sqrt(result)

    def _kernel_draws(self, draws: np.ndarray) -> xr.DataArray:
        return xr.DataArray(draws, dims=("chain", "draw", "point", "point_bis"), name="kernel")

    def condition(self, fit: Fit, task_data: MultiTaskData, random_seed: Any = None) -> Fit:
        """See :meth:`Fit.condition`; for real responses with Gaussian noise."""
        if hooks := overridden_hooks(self, self._fit_gibbs):
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `{hooks[0]}`, and `condition` was derived for the original. "
                "Fit all tasks together."
            )
        if not self._conjugate:
            raise UnsupportedMethodError(
                f"`condition` integrates coefficients out, which needs Gaussian noise with an inverse-gamma prior, and "
                f"likelihood is {self.likelihood!r}. Fit all tasks together."
            )
        rng = generator(random_seed)
        new = new_rows(fit, task_data)
        together = joined(fit.data, new)
        posterior = fit.posterior
        kept_all = fit.keep == "draws"
        added = self._values_of_new(fit, new, rng) if kept_all else {}
        grown = {
            str(name): np.concatenate([v.to_numpy(), added[str(name)]], axis=v.dims.index("task"))
            if name in added
            else v.to_numpy()
            for name, v in posterior.items()
        }
        names = (*fit.conditioned, *new.task_names)
        result = replace(fit, data=together, conditioned=names)
        prepared = self.design(together, Context(result.population_data))
        stats = fit.idata["sample_stats"].to_dataset()
        result = replace(
            result,
            idata=to_datatree(
                self, together, prepared, prepared.y, grown, stats, fit.method, random_seed, fit.keep
            ),
        )
        if fit.keep == "moments":
            result.idata["moments"] = self._moments_with(fit, result, new.task_names, rng)
        return result

    def _moments_with(
        self, fit: Fit, result: Fit, names: tuple[str, ...], rng: np.random.Generator
    ) -> xr.Dataset:
        """Moments of the tasks of a fit, and of new ones by one draw beside each draw of the population."""
        old, values = fit.idata["moments"].to_dataset(), self.names[0]
        draw = self.draws_of_tasks(result, names)
        assert draw is not None  # a fit that keeps moments has no hooks of its own
        drawn = draw(rng)[values]
        parts = {"mean": drawn.mean(("chain", "draw")), "sd": drawn.std(("chain", "draw"))}
        new = xr.Dataset({f"{values}_{what}": part for what, part in parts.items()})
        return xr.concat([old, new], "task")

    def _values_of_new(self, fit: Fit, new: MultiTaskData, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The variables of new tasks given their rows, (chain, draw, ...)."""
        values, mean, cov = self.names
        posterior = fit.posterior
        chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
        noise = posterior["noise"].to_numpy()
        result = {}
        known = self._known_rows(fit, new)
        least = float(noise.min()) ** 2
        if self.noise_by_task:
            noise = result["noise"] = np.empty((chains, draws, new.n_tasks))
        if known.inputs.shape[1] > known.population.half.shape[1]:
            warn_user(
                "task_data has inputs that the fit has not: what their labels say beyond its inputs is lost in "
                "predictions. Give these inputs to the fit without labels (NaN in Y of from_multilabel) to keep it."
            )
        parts = {name: posterior[name].to_numpy() for name in (mean, cov)} | {"noise": noise}
        if self.learns_pi:
            parts["pi"] = posterior["pi"].to_numpy()
        if SHARED in posterior:
            parts[SHARED] = posterior[SHARED].to_numpy()
        result[values] = np.empty((chains, draws, posterior.sizes[self.dim], new.n_tasks))
        for at in np.ndindex(chains, draws):
            draw = {name: array[at] for name, array in parts.items()}
            if self.noise_by_task:
                draw["noise"] = noise[at] = self._noise_given(known, fit, draw, least, rng)
            if fit.method == "em":
                result[values][at], covariances = self._moments_given(known, fit, draw, rng)
                if f"{values}_cov" in posterior:
                    result[f"{values}_cov"] = covariances[None, None]
            else:
                result[values][at] = self._draws_given(known, fit, draw, 1, rng)[0]
        return result


def _less_shared(rows: MultiTaskData, draw: dict[str, np.ndarray]) -> np.ndarray:
    """Responses (N,) less what the shared features of prepared rows say of them."""
    return rows.y if rows.shared is None else rows.y - rows.shared @ draw[SHARED]

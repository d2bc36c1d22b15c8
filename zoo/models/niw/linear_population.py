"""The linear population of tasks: its dims, its predictions of single tasks, its learned kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr

from zoo.core.drawn import draws_of
from zoo.core.fit import Fit
from zoo.core.hooks import SHARED
from zoo.core.methods import as_in
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.kernels import LearnedKernel
from zoo.likelihoods.laws import NOISE_OF_ONE_ROW, Law
from zoo.models.niw.base import NIWBase
from zoo.models.niw.hierarchy import Population
from zoo.models.niw.known_tasks import drawn_again, functions_given_population
from zoo.support.checks import finite_matrix
from zoo.support.words import counted

__all__ = ["LinearPopulation"]

# What predictions of single tasks are derived from: a subclass that changes one of these needs all tasks.
_REDRAWN = ("priors", "latent", "shared_part", "observe", "design", "coords", "predictive_posterior")


@dataclass(frozen=True, kw_only=True)
class LinearPopulation(NIWBase):
    """Linear regressions whose coefficients come from one normal population.

    See :class:`zoo.HierarchicalLinear` and :class:`zoo.NIWLinear`, which differ in the prior of the population.
    """

    constraints: ClassVar[dict[str, str]] = {"feature_cov": "positive definite", "noise": "> 0"}
    extra_dims: ClassVar[dict[str, tuple[str, ...]]] = {
        "coefficients_cov": ("task", "feature", "feature_bis")
    }
    sparse_levels: ClassVar[bool] = True
    likelihood_laws: ClassVar[dict[str, Law]] = {**NIWBase.likelihood_laws, "noise": NOISE_OF_ONE_ROW}
    names: ClassVar[tuple[str, str, str]] = ("coefficients", "population_mean", "feature_cov")
    dim: ClassVar[str] = "feature"

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables by name, without a PyMC model of all rows, unless a subclass changed a hook."""
        if self.own_priors or not as_in(
            self, LinearPopulation, (*self.hooks, "add_parameters", "parameter_dims")
        ):
            return super().variable_dims(data, y)
        values, mean, cov = self.names
        shared = {} if data.shared is None else {SHARED: ("shared_feature",)}
        if data.effects:
            shared["effect_scale"] = ("effect",)
        return {
            **self.extra_dims,
            values: ("feature", "task"),
            mean: ("feature",),
            cov: ("feature", "feature_bis"),
            **self.scale_dims,
            **{name: dims for name in self.likelihood.learned if (dims := self.parameter_dims(name))},
            **shared,
        }

    def refuses_keep(self, method: str, data: MultiTaskData) -> str:
        """Why the coefficients of tasks cannot be drawn again from the population alone; empty where they can."""
        name = type(self).__name__
        if method == "em":
            return "method 'em' gives one estimate, and no draws."
        if method != "gibbs":
            return (
                f"method {method!r} of {name} keeps what it has drawn of every task; method 'gibbs' need not."
            )
        if not self._conjugate:
            return (
                f"with likelihood={self.likelihood!r} the coefficients of a task are not normal given the population, "
                "so that they could not be drawn again; with Gaussian noise that has an inverse-gamma prior they are."
            )
        if self.noise_by_task:
            return "every task has a noise of its own, which the draws of the population do not say."
        changed = [name for name in (*_REDRAWN, "gibbs_kernel") if not as_in(self, LinearPopulation, (name,))]
        if changed:
            return f"{name} overrides `{changed[0]}`, and drawing coefficients again was derived for the original."
        return ""

    def draws_of_tasks(
        self, fit: Fit, names: tuple[str, ...]
    ) -> Callable[[np.random.Generator], xr.Dataset] | None:
        """Draws of these tasks alone: picked, drawn given an estimate, or drawn again given the population."""
        if not as_in(self, LinearPopulation, _REDRAWN):
            return None
        if fit.keep != "draws":
            return partial(drawn_again, self, fit, names)
        if fit.method == "em":
            return partial(self.draws_at_estimate, fit, names)
        return lambda rng: draws_of(fit, names)

    def _rows_of(self, fit: Fit, names: tuple[str, ...]) -> MultiTaskData:
        """The rows of these tasks of a fit: those of others say nothing more, given the population."""
        return fit.data if names == fit.data.task_names else fit.data.select_tasks(names)

    def _tasks_of(self, fit: Fit, rows: MultiTaskData) -> tuple[tuple[str, ...], np.ndarray]:
        """Names of the tasks of prepared rows, and which of them each row has."""
        if not as_in(self, LinearPopulation, _REDRAWN):
            return super()._tasks_of(fit, rows)
        asked, task = np.unique(rows.task, return_inverse=True)
        return tuple(rows.task_names[t] for t in asked), task

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Of a fit that kept its population, and of an EM fit, the law of f given the population and the known rows."""
        if fit.keep != "draws":
            return functions_given_population(self, fit, rows)
        return super().conditional_moments(fit, rows, rng)

    def population(self, data: MultiTaskData) -> Population:
        """Features times a root of the scale matrix, and the maps between both coordinates."""
        half = self._half(data)
        return Population(inputs=data.inputs @ half, half=half, back=np.linalg.inv(half))

    def moved(self, data: MultiTaskData) -> tuple[np.ndarray, np.ndarray | None] | None:
        """The level of the responses, and what centred shared features take of the constant coefficient."""
        units = data.units
        if units is None or units.level is None or not self._in_units(data):
            return None
        by_shared, offset = None, units.offset
        if data.shared_units is not None and data.shared_units.x_mean.any():
            by_shared = np.zeros((data.n_features, len(data.shared_units.x_mean)))
            position, value = units.level
            by_shared[position] = data.shared_units.x_mean / value
        return None if by_shared is None and not offset.any() else (offset, by_shared)

    def _in_units(self, data: MultiTaskData) -> bool:
        """Whether the prior of coefficients is stated in units of the data."""
        return data.units is not None

    def _half(self, data: MultiTaskData) -> np.ndarray:
        """A root (D, D) of the scale matrix of the coefficients."""
        return data.units.back if data.units is not None and self._in_units(data) else np.eye(data.n_features)

    @property
    def scale_dims(self) -> dict[str, tuple[str, ...]]:
        """Dims of further variables of the population."""
        return {}

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        name = super().choose_method(method, data)
        require_narrow(
            data,
            "the covariance of all features (feature_cov)",
            'Use NIWGaussianProcess(base_kernel="linear"), a model of these functions that is held in the span of the '
            "inputs.",
        )
        return name

    def learned_kernel(self, fit: Fit, combine: bool = True) -> LearnedKernel:
        """``x' C x'`` with the posterior mean of C; ``combine`` matters to EM fits of :class:`zoo.NIWLinear`."""
        draws = fit.posterior
        cov = self._combined(fit, combine).mean(axis=(0, 1))
        D = len(cov)
        return LearnedKernel(
            pm.gp.cov.Linear(D, c=np.zeros(D)),
            inputs=np.eye(D),
            half=np.linalg.cholesky(cov),
            mean=draws["population_mean"].mean(("chain", "draw")).to_numpy(),
        )

    def learned_kernel_draws(self, fit: Fit, X: Any, combine: bool = True) -> xr.DataArray:
        """``x' C x'`` of each draw."""
        inputs = finite_matrix(X, "X", None)
        if inputs.shape[1] != fit.data.n_features:
            raise ValueError(
                f"X has {counted(inputs.shape[1], 'column')}, but the fit has "
                f"{counted(fit.data.n_features, 'feature')}. Give all of them."
            )
        return self._kernel_draws(inputs @ self._combined(fit, combine) @ inputs.T)

    def _combined(self, fit: Fit, combine: bool) -> np.ndarray:
        """Draws of C."""
        return fit.posterior["feature_cov"].to_numpy()

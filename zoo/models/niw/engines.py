"""Engines of the normal-inverse-Wishart hierarchy: Gibbs sampling, and EM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from zoo.core.methods import Method, Result, Run, UnsupportedMethodError
from zoo.core.separation import separated_levels
from zoo.data.multitask import MultiTaskData
from zoo.inference.em.algorithm import (
    conditional_covariances,
    expectation_maximisation,
)
from zoo.inference.gibbs.augmented_population import AugmentedPopulationKernel
from zoo.inference.gibbs.choice_kernel import ChoicePopulationKernel
from zoo.inference.gibbs.likelihood_moves import moves_pay
from zoo.inference.gibbs.many_shared import few_of_many
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.gibbs.sharded_population import ShardedPopulationKernel, shards_of
from zoo.inference.run.chains import run_chains
from zoo.inference.run.lean import LeanKernel, pooled_moments
from zoo.inference.run.progress import ClimbProgress
from zoo.inference.run.workers import n_workers_of, put_on_workers
from zoo.models.niw.hierarchy import NIWHierarchy
from zoo.support.words import first_names

__all__ = ["NIWEngines"]

# EM stops where twenty steps gain less log-likelihood than this, if no tolerance is given.
_MIN_GAIN = 1e-3
# Group moves pay where tasks have fewer rows per coefficient than this, in their mean or, beside a few large tasks, in
# their median (benchmarks/niw.py). The second number is for likelihoods that are not
# Gaussian: a label tells at most a quarter of what a row with a noise of 1 tells.
_FEW_ROWS, _FEW_LABELS = 2, 8
# Of choices, fewer tasks for each entry of mean and covariance than this are left to NUTS, which then mixes better.
_PEOPLE_PER_ENTRY = 2
# Numbers in the covariances of all tasks, above which EM leaves them out.
_MOST_COVARIANCES = 2e7


@dataclass(frozen=True, kw_only=True)
class NIWEngines(NIWHierarchy):
    """Methods of a population of tasks."""

    em_estimate: ClassVar[str]
    """What method "em" computes."""

    def em_penalty(self, rank: int) -> dict[str, Any]:
        """The prior of mean and covariance as :func:`expectation_maximisation` takes it, of ``rank`` features."""
        raise NotImplementedError(f"{type(self).__name__} has no estimate by EM.")

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        # Functions have as many coefficients as inputs: the sampler of choices would move in short steps.
        choices = self.likelihood.of_choices and self.dim == "feature"
        if not self.augmented and not choices:
            return super().method_table()
        gibbs = self._gibbs("draws from the exact posterior by a compiled Gibbs sampler", self._fit_gibbs)
        # Of a mean that is tied to the covariance, EM knows neither a learned weight nor learned scales.
        partly = self.mean_sd is None and (self.scale_sd is not None or self.learns_pi)
        if not self._conjugate or self.shared or partly:
            return [gibbs, *super().method_table()]
        return [
            gibbs,
            Method(
                "em",
                self.em_estimate,
                self._fit_em,
                law="point",
                weights=True,
            ),
            *super().method_table(),
        ]

    def unserved(self, method: str) -> str:
        """Why a method that others have cannot do with these fields; nothing where that is not the reason."""
        if method == "em" and self._conjugate and self.shared:
            return "method 'em' knows no shared coefficients, and shared names such ones."
        if method == "em" and self._conjugate and self.mean_sd is None and self.scale_sd is not None:
            return "method 'em' knows no learned scales of features, and covariance_prior='half_t' asks for them."
        if method == "em" and self._conjugate and self.learns_pi:
            return "method 'em' has no estimate of pi, and pi is 'learned'. Give pi a number, or use method='gibbs'."
        return super().unserved(method)

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where it has no shared coefficients."""
        name = super().choose_method(method, data)
        if name == "gibbs" and method is None and self.likelihood.sticks_at_ends:
            if separated_levels(data, self.shared_features(data)):
                return "nuts"
        if name == "gibbs" and self.likelihood.of_choices:
            names, entries = self.shared_features(data), data.n_features * (data.n_features + 3) // 2
            if method is None and (names or data.n_tasks < _PEOPLE_PER_ENTRY * entries):
                return "nuts"
            if names:
                raise UnsupportedMethodError(
                    f"method 'gibbs' of choices knows no shared coefficients, and {first_names(names)} have "
                    "such ones. Use method='nuts'."
                )
        if name == "em" and (names := self.shared_features(data)):
            raise UnsupportedMethodError(
                f"method 'em' knows no shared coefficients, and {first_names(names)} have such ones. Use "
                "method='gibbs', or shared=()."
            )
        return name

    def check_method(self, method: str) -> None:
        """Raise where a method cannot do with the priors."""
        for name in self.likelihood.learned:
            if method != "em" and not self.law_of(name).proper:
                raise ValueError(
                    f'{name} has the prior Flat(), which only method="em" can do with; method {method!r} draws from a '
                    f"posterior, which needs a proper prior. Give the likelihood {name}=InverseGammaOfSquare(shape, "
                    "rate)."
                )

    def _fit_gibbs(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        thin: int = 1,
        group_moves: bool | None = None,
        keep: str = "draws",
        executor: Any = None,
    ) -> Result:
        """``group_moves``: moves of the population beyond the plain sweep; default: those that the data call for.

        ``keep``: as ``fit`` has chosen. ``executor``: where the coefficients of tasks are drawn, a
        ``dask.distributed.Client`` or a ``concurrent.futures.ThreadPoolExecutor``; default: here.
        """
        if executor is not None:
            return self._fit_on_workers(data, y, run, cores, thin, group_moves, executor)
        kernel = self.gibbs_kernel(data, y, group_moves=group_moves)
        kernel.look_at_rows()
        if keep == "draws":
            return Result(*run_chains(kernel, cores=cores, thin=thin, **run._asdict()))
        lean, followed = LeanKernel(kernel, keep == "moments"), list[Any]()
        drawn = run_chains(lean, cores=cores, thin=thin, summaries=followed, **run._asdict())
        return Result(*drawn, moments=pooled_moments(followed))

    def _fit_on_workers(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None,
        thin: int,
        group_moves: bool | None,
        executor: Any,
    ) -> Result:
        """By plain sweeps, whose sums over tasks workers make; the draws do not depend on how many there are."""
        for used, what in (
            (group_moves, "group_moves, which need the coefficients of all tasks in one place"),
            (self.scale_sd is not None and self.mean_sd is None, "learned scales of features"),
            (bool(self.shared_features(data)), "coefficients that tasks share"),
        ):
            if used:
                raise UnsupportedMethodError(f"executor knows no {what}. Leave one of the two out.")
        kernel = self.gibbs_kernel(data, y, group_moves=False)
        workers = put_on_workers(executor, shards_of(kernel, n_workers_of(executor)))
        # A chain waits for its workers most of the time, so that all of them may run at once.
        asked = {"cores": cores or run.chains, "thin": thin, **run._asdict()}
        return Result(*run_chains(ShardedPopulationKernel(kernel, workers), **asked))

    def sampler_numbers(self, method: str, data: MultiTaskData, chains: int) -> int:
        """Sums over the rows of each task, twice while they are made, and the coefficients of each chain, twice."""
        D = data.n_features
        return data.n_tasks * (2 * D * (D + 2) + 2 * chains * (D + 1)) if method == "gibbs" else 0

    def gibbs_kernel(
        self, data: MultiTaskData, y: np.ndarray, group_moves: bool | None = None, **options: Any
    ) -> NormalInverseWishartKernel:
        """The Markov kernel of the Gibbs sampler, for prepared data and coded y.

        ``group_moves``: True takes the shears and scales of :mod:`zoo.inference.gibbs.group_moves` in every
        sweep, as is done by default where tasks have few rows or a label is rare. False leaves out those, the
        moves under the likelihood of :mod:`zoo.inference.gibbs.likelihood_moves`, by default taken where a
        label is rare, and the collapsed moves, by default taken where tasks hardly know some of their
        coefficients. Where they know little of all of them, shears and scales are by default taken in one
        sweep of three, and collapsed moves in one of twenty
        (:mod:`zoo.inference.gibbs.normal_inverse_wishart` has the rule). Where the likelihood is not
        Gaussian, there are no collapsed moves.
        """
        population, shared = self.population(data), self.engine_shared(data)
        moved = self.moved(data)
        offset = None if moved is None or not moved[0].any() else moved[0]
        if offset is not None:
            y = y - (data.inputs @ offset)[data.row]
        if moved is not None and moved[1] is not None and shared is not None:
            assert data.shared_units is not None
            unit = np.ones(shared.rows.shape[1]) if shared.unit is None else shared.unit
            shared = shared._replace(rows=shared.rows - data.shared_units.x_mean * unit, moved=moved[1])
        if self.likelihood.of_choices and group_moves is not None:
            raise ValueError(
                "group_moves is given, and the sampler of choices has moves of its own. Leave it out."
            )
        off = group_moves is False
        if off:
            options = {"loose": 0, **options}
        if group_moves is None:
            least = _FEW_ROWS if self._conjugate else _FEW_LABELS
            counted = data.weight if data.stands_for else None  # what a summary's rows stand for
            size = np.bincount(data.task, counted, minlength=data.n_tasks)
            few = min(size.mean(), np.median(size)) < least * population.inputs.shape[1]
            group_moves = True if few or self._crawls(data, y) else None
        hierarchy: dict[str, Any] = {
            "inputs": population.inputs,
            "row": data.row,
            "y": y,
            "task": data.task,
            "n_tasks": data.n_tasks,
            "pi": None if self.learns_pi else 0.0 if self.mean_sd is not None else self.pi_of({}),
            "mean_sd": self.mean_sd,
            "nu": self.delta + population.inputs.shape[1] - 1.0,
            "half": population.half,
            "names": self.names,
            "group_moves": group_moves,
            "weight": data.weight,
            "shared": None if shared is None else shared._replace(rows=few_of_many(shared.rows)),
            "scale_sd": self.scale_sd,
            "offset": offset,
        }
        if self.likelihood.of_choices:
            return ChoicePopulationKernel(**{**hierarchy, "group_moves": False}, choice=data.choice)
        if not self._conjugate:
            options.pop("loose", None)
            if off:
                options = {"likelihood_moves": False, **options}
            return AugmentedPopulationKernel(**hierarchy, augmentation=self.augmentation(data), **options)
        prior = self.noise_prior(data)
        assert prior is not None
        shape, rate = prior
        noise: dict[str, Any] = {
            "noise_shape": shape,
            "noise_rate": rate,
            "noise_by_task": self.noise_by_task,
        }
        return NormalInverseWishartKernel(**hierarchy, **noise, **options)

    def _crawls(self, data: MultiTaskData, y: np.ndarray) -> bool:
        """Whether augmentation alone hardly moves, for prepared data and coded y."""
        if self._conjugate or self.likelihood.of_choices:
            return False
        weight = np.ones(len(y)) if data.weight is None else data.weight
        return moves_pay(self.augmentation(data), None, y, weight)

    def _fit_em(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        max_iter: int = 1000,
        tol: float | None = None,
        accelerate: bool = True,
        noise_floor: float = 0.0,
    ) -> Result:
        """``tol``: relative change of a step at which to stop; default: as soon as steps gain little.

        ``noise_floor``: smallest noise standard deviation. ``accelerate=False``: the paper's plain iteration.
        """
        population = self.population(data)
        moved = self.moved(data)
        offset = np.zeros(len(population.half)) if moved is None else moved[0]
        y = y - (data.inputs @ offset)[data.row] if offset.any() else y
        rank = population.inputs.shape[1]
        with ClimbProgress(max_iter, run.progress) as bar:
            found = expectation_maximisation(
                population.inputs,
                data.row,
                data.task,
                y,
                data.n_tasks,
                **self.em_penalty(rank),
                noise_prior=self.noise_prior(data),
                noise_by_task=self.noise_by_task,
                weight=data.weight,
                noise_floor=noise_floor,
                max_iter=max_iter,
                tol=1e-8 if tol is None else tol,
                min_gain=_MIN_GAIN if tol is None else 0.0,
                accelerate=accelerate,
                progress=bar.report,
            )
        half = population.half
        parts = (
            half @ found.coefficients + offset[:, None],
            half @ found.mean + offset,
            half @ found.cov @ half.T,
        )
        posterior = {**dict(zip(self.names, parts, strict=True)), "noise": np.asarray(found.noise)}
        if data.n_tasks * len(half) ** 2 <= _MOST_COVARIANCES:
            cov = conditional_covariances(
                population.inputs, data.row, data.task, data.n_tasks, found.cov, found.noise, data.weight
            )
            posterior[f"{self.names[0]}_cov"] = half @ cov @ half.T
        traces = {
            "penalised_log_likelihood": found.penalised_log_likelihood,
            "log_likelihood": found.log_likelihood,
            "accelerated": found.accelerated,
        }
        stats = xr.Dataset(
            {name: (("chain", "iteration"), np.asarray(v)[None]) for name, v in traces.items()}
        )
        stats = stats.assign_coords(chain=[0], iteration=np.arange(stats.sizes["iteration"]))
        stats.attrs.update(
            converged=int(found.converged),
            interrupted=int(found.interrupted),
            maps=int(found.n_maps),
            residual=float(found.residual),
        )
        return Result({name: value[None, None] for name, value in posterior.items()}, stats)

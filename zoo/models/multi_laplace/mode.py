"""The mode of :class:`zoo.MultiLaplaceGP`: parameters as blocks of the minimiser, and back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from zoo.core.fit import Fit
from zoo.core.wide_data import require_features_of_mode
from zoo.data.multitask import MultiTaskData
from zoo.inference.ard.conditional import conditional_moments, leave_one_out
from zoo.inference.ard.correlation import Parameters
from zoo.inference.ard.objective import EvidenceObjective, LinearEvidenceObjective
from zoo.inference.ard.proximal import minimise
from zoo.inference.ard.proximal_conditions import Minimum
from zoo.inference.weighted_moments import weighted_sd
from zoo.models.multi_laplace.ard_gp import GPRows
from zoo.models.multi_laplace.description import MultiLaplaceDescription
from zoo.support.checks import positive, whole_number
from zoo.support.seeds import generator

__all__ = [
    "Mode",
    "ModeProblem",
    "function_moments",
    "leave_one_out_densities",
    "of_tasks",
    "path",
    "say_if_noise_collapsed",
    "statistics",
]

# A penalty that keeps every feature out.
_HUGE = 1e12
# Rate of the exponential prior of amplitudes.
AMPLITUDE_RATE = 1.0


class Mode(NamedTuple):
    """A minimum and the coefficients of the shared mean there."""

    minimum: Minimum
    mean_coefficients: np.ndarray

    @property
    def objective(self) -> float:
        """Negative log posterior density, up to a constant."""
        return float(self.minimum.objective[-1])


def of_tasks(draw: Mapping[str, np.ndarray], n_tasks: int, pooled: bool) -> Parameters:
    """Parameters (T, D), (T,), (T,) from variables of the model; T is 1 if tasks are pooled."""
    T = 1 if pooled else n_tasks
    kappa = (
        draw["kappa"].T
        if draw["kappa"].ndim == 2
        else np.broadcast_to(draw["kappa"], (T, len(draw["kappa"])))
    )
    noise = np.broadcast_to(draw["noise"] ** 2, (T,))
    amplitude = np.broadcast_to(draw.get("amplitude", np.ones(1)), (T,))
    return Parameters(*(np.ascontiguousarray(v, dtype=np.float64) for v in (kappa, noise, amplitude)))


@dataclass(frozen=True, eq=False)
class ModeProblem:
    """The objective of eq (11) for prepared rows, with what the fields of the model say."""

    factory: MultiLaplaceDescription
    data: GPRows
    objective: EvidenceObjective
    C: float
    grouped: bool

    @classmethod
    def of(
        cls, factory: MultiLaplaceDescription, data: GPRows, y: np.ndarray, fit: Fit | None = None
    ) -> ModeProblem:
        """``fit``: the data are new tasks, and the ARD parameters of others are known."""
        require_features_of_mode(data.n_features, 1 if factory.ard == "pooled" else data.n_tasks)
        kernel = factory.correlation(data.n_features)
        C = 0.0 if isinstance(factory.penalty, str) else float(factory.penalty)
        design, penalty, known = (data.X if factory.mean == "linear" else None), None, None
        grouped = factory.ard == "group"
        if fit is not None:
            if design is not None:
                y = y - design @ fit.posterior["mean_coefficients"].to_numpy()[0, 0]
                design = None
            kappa = fit.posterior["kappa"].to_numpy()[0, 0]
            if factory.ard == "shared":
                known = kappa
            else:
                penalty = (np.linalg.norm(kappa, axis=1) if grouped else np.zeros(len(kappa)), C)
            C = 0.0
        kind = LinearEvidenceObjective if kernel.linear else EvidenceObjective
        objective = kind(
            kernel,
            data.task_inputs(factory.ard == "pooled", kernel.linear),
            np.asarray(y, dtype=np.float64),
            B=0.0 if isinstance(factory.noise_rate, str) else float(factory.noise_rate),
            constant=factory.constant_variance,
            shared=factory.ard == "shared" and known is None,
            amplitude_rate=AMPLITUDE_RATE if factory.amplitude == "task" else None,
            design=design,
            penalty=penalty,
            known_kappa=known,
        )
        return cls(factory, data, objective, C, grouped)

    # ---------------------------------------------------------------- solving

    def _lower(self, theta: np.ndarray) -> np.ndarray:
        D, T = self.objective.n_kappa, self.objective.inputs.n_tasks
        lower = np.zeros(theta.shape[1])
        lower[D : D + (T if self.objective.shared else 1)] = max(self.factory.noise_floor**2, 1e-12)
        return lower

    def start(self, fit: Fit | None = None, rng: np.random.Generator | None = None) -> np.ndarray:
        """Blocks to begin at: of a fit, at random, or one over the number of features for every kappa."""
        T, D = self.objective.inputs.n_tasks, self.objective.n_features
        if fit is not None:
            draw = fit.posterior.mean(("chain", "draw"))
            known = {str(name): v.to_numpy() for name, v in draw.items()}
            theta = self.objective.pack(of_tasks(known, self.data.n_tasks, self.factory.ard == "pooled"))
        else:
            kappa = np.full((T, D), 1.0 / D) if rng is None else rng.exponential(1.0 / D, (T, D))
            if self.objective.shared:
                kappa = np.broadcast_to(kappa[0], (T, D))
            noise = np.full(
                T, 0.5 * max(float(weighted_sd(self.objective.y, self.objective.inputs.weight)) ** 2, 1e-6)
            )
            if rng is not None:
                noise = noise * rng.uniform(0.1, 2.0, T)
            theta = self.objective.pack(Parameters(kappa, noise, np.ones(T)))
        return np.maximum(theta, self._lower(theta))

    def minimise(self, theta: np.ndarray, C: float | None = None, **options: Any) -> Mode:
        """Descend from these blocks."""
        found = minimise(
            self.objective,
            theta,
            C=self.C if C is None else C,
            penalised=self.objective.n_kappa,
            grouped=self.grouped,
            lower=self._lower(theta),
            **options,
        )
        return Mode(found, self.objective.mean_coefficients.copy())

    def solve(
        self, fit: Fit | None, starts: int, random_seed: Any, **options: Any
    ) -> tuple[Mode, list[float]]:
        """The best of several descents, and the objectives of all."""
        whole_number(starts, "starts", 1)
        rng = generator(random_seed)
        found = [self.minimise(self.start(fit), **options)]
        found += [self.minimise(self.start(rng=rng), **options) for _ in range(starts - 1)]
        objectives = [mode.objective for mode in found]
        return found[int(np.argmin(objectives))], objectives

    # ---------------------------------------------------------------- results

    def posterior(self, mode: Mode) -> dict[str, np.ndarray]:
        """The variables of the model, (1, 1, ...)."""
        kappa, noise, amplitude = self.objective.unpack(mode.minimum.theta)
        tied = self.factory.ard in ("shared", "pooled")
        pooled = self.factory.ard == "pooled"
        result = {"kappa": kappa[0] if tied else kappa.T, "noise": np.sqrt(noise[0] if pooled else noise)}
        if self.grouped and self.factory.prior == "multi_laplace":
            result["kappa_scale"] = np.sqrt(np.mean(kappa**2, axis=0))
        if self.factory.amplitude == "task":
            result["amplitude"] = amplitude[0] if pooled else amplitude
        if self.factory.mean == "linear":
            result["mean_coefficients"] = mode.mean_coefficients
        return {name: np.asarray(value)[None, None] for name, value in result.items()}

    def posterior_of_new_tasks(self) -> dict[str, np.ndarray]:
        """The mode of the tasks that :meth:`of` was given beside a fit, where the others stay as they are."""
        return self.posterior(self.minimise(self.start()))

    def evidence(self, draw: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log marginal likelihood of each task, (T,), at variables of the model."""
        residual = self.objective.y
        if self.factory.mean == "linear":
            residual = residual - self.data.X @ draw["mean_coefficients"]
        return self.objective.evidence(of_tasks(draw, self.data.n_tasks, False), residual)[0]


def statistics(mode: Mode, objectives: Sequence[float]) -> xr.Dataset:
    """Sample statistics of a mode: traces of the objective and of the residual of the optimality conditions."""
    found = mode.minimum
    traces = {"objective": found.objective, "kkt": found.kkt}
    stats = xr.Dataset({name: (("chain", "iteration"), np.asarray(v)[None]) for name, v in traces.items()})
    stats = stats.assign_coords(chain=[0], iteration=np.arange(stats.sizes["iteration"]))
    return stats.assign_attrs(
        converged=int(found.converged),
        interrupted=int(found.interrupted),
        kkt=float(found.kkt[-1]),
        evaluations=int(found.evaluations),
        objectives_of_starts=[float(v) for v in objectives],
    )


# ---------------------------------------------------------------- predictions


def function_moments(
    factory: MultiLaplaceDescription, fit: Fit, rows: MultiTaskData
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (S, n) of the functions at rows of known tasks, given each draw."""
    assert isinstance(rows, GPRows) and rows.known is not None
    kernel, pooled = factory.correlation(rows.n_features), factory.ard == "pooled"
    known = replace(rows.known, task_names=rows.task_names)
    inputs, task = known.task_inputs(pooled), np.zeros_like(rows.task) if pooled else rows.task
    posterior = fit.posterior
    flat = {str(n): v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in posterior.items()}
    size = posterior.sizes["chain"] * posterior.sizes["draw"]
    mean, sd = np.empty((size, rows.n_rows)), np.empty((size, rows.n_rows))
    for s in range(size):
        draw = {name: v[s] for name, v in flat.items()}
        shared: Any = draw["mean_coefficients"] if factory.mean == "linear" else np.zeros(rows.n_features)
        mean[s], sd[s] = conditional_moments(
            kernel,
            inputs,
            known.y - known.X @ shared,
            of_tasks(draw, rows.n_tasks, pooled),
            factory.constant_variance,
            rows.X,
            task,
        )
        mean[s] += rows.X @ shared
    return mean, sd


# ---------------------------------------------------------------- path


def largest_penalty(problem: ModeProblem, **options: Any) -> tuple[float, np.ndarray]:
    """The smallest penalty at which no feature is in, and the blocks there."""
    theta = problem.minimise(problem.start(), C=_HUGE, **options).minimum.theta
    kappa = -problem.objective.gradient(theta)[1][:, : problem.objective.n_features]
    uphill = np.maximum(kappa, 0.0)
    largest = np.linalg.norm(uphill, axis=0).max() if problem.grouped else uphill.max()
    return float(largest), theta


def path(
    factory: MultiLaplaceDescription,
    data: GPRows,
    y: np.ndarray,
    penalty: Sequence[float] | None,
    size: int,
    ratio: float,
    max_iter: int,
    tol: float,
    report: Callable[[int], None] | None = None,
) -> xr.Dataset:
    """See :meth:`zoo.MultiLaplaceGP.path`."""
    problem = ModeProblem.of(factory, data, y)
    options = {"max_iter": max_iter, "tol": tol}
    largest, theta = largest_penalty(problem, **options)
    if penalty is None:
        whole_number(size, "size", 2)
        positive(ratio, "ratio")
        values = np.geomspace(largest, largest * ratio, size)
    else:
        values = np.sort(np.asarray(penalty, dtype=np.float64))[::-1]
        if values.ndim != 1 or not len(values) or not np.all(np.isfinite(values) & (values >= 0)):
            raise ValueError(f"penalty is {penalty!r}. Give a sequence of numbers, 0 or more.")
    rows: dict[str, list[Any]] = {"relevance": [], "n_selected": [], "objective": [], "kkt": []}
    for value in values:
        mode = problem.minimise(theta, C=float(value), **options)
        theta = mode.minimum.theta
        kappa = problem.objective.unpack(theta).kappa
        norms = kappa[0] if problem.objective.shared else np.linalg.norm(kappa, axis=0)
        rows["relevance"].append(norms)
        rows["n_selected"].append(int(np.sum(norms > 0)))
        rows["objective"].append(mode.objective)
        rows["kkt"].append(float(mode.minimum.kkt[-1]))
    dims = {"relevance": ("penalty", "feature")}
    return xr.Dataset(
        {name: (dims.get(name, ("penalty",)), np.asarray(v)) for name, v in rows.items()},
        coords={"penalty": values, "feature": list(data.feature_names)},
        attrs={"largest_penalty": largest},
    )


def leave_one_out_densities(
    factory: MultiLaplaceDescription, rows: Any, y: np.ndarray, posterior: dict[str, np.ndarray]
) -> np.ndarray:
    """Log density (S, N) of each row given the other rows of its task."""
    flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in posterior.items()}
    kernel, pooled = factory.correlation(rows.n_features), factory.ard == "pooled"
    task = np.zeros_like(rows.task) if pooled else rows.task
    result = np.empty((len(flat["noise"]), rows.n_rows))
    for s in range(len(result)):
        draw = {name: v[s] for name, v in flat.items()}
        residual = y if factory.mean != "linear" else y - rows.X @ draw["mean_coefficients"]
        numbers = of_tasks(draw, rows.n_tasks, pooled)
        result[s] = leave_one_out(
            kernel, rows.X, task, residual, numbers, factory.constant_variance, rows.weight
        )
    return result


def say_if_noise_collapsed(noise: np.ndarray, floor: float) -> None:
    """Say so where the noise of most tasks stands at its floor."""
    if np.mean(noise <= floor * (1.0 + 1e-9)) > 0.5:
        logging.getLogger("zoo").warning(
            "The noise of most tasks is at noise_floor=%g: the mode fits their rows exactly, and its intervals "
            "are too narrow. Raise noise_floor (in standard deviations of y; zoo.select can choose it) or penalty, or "
            'use method="nuts".',
            floor,
        )

"""What the methods of :class:`zoo.MultiTaskKernelMachine` do: maximal evidence, draws, modes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pymc.gp import cov
from scipy.optimize import minimize
from scipy.special import logit

from zoo.core.fit import Fit
from zoo.core.methods import Run
from zoo.core.observed import unit_of_y
from zoo.data.multitask import MultiTaskData
from zoo.inference.run.progress import ClimbProgress
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.task_kernel import TaskKernel
from zoo.latent.function_conditional import covariance_root
from zoo.latent.function_mode import LogisticResponses, Mode, find_mode
from zoo.latent.function_mode import evidence as laplace_evidence
from zoo.latent.support_vectors import support_vector_machine, task_coefficients, task_features
from zoo.likelihoods.derivatives import DifferentiatedResponses
from zoo.likelihoods.logistic import Logistic
from zoo.models.kernel_machine.description import KernelMachineDescription
from zoo.models.kernel_machine.spaces import WeightSpace
from zoo.support.seeds import integer_seed
from zoo.support.words import counted

__all__ = [
    "Found",
    "exact_draws",
    "laplace_draws",
    "maximal_evidence",
    "maximal_laplace_evidence",
    "mode",
    "mode_at",
    "require_numbers",
    "require_same_tasks",
    "with_innovation",
]

# Where a search for the largest evidence may start: shares of the variance that are the functions', and values of lam.
_SHARES, _LAM = (0.1, 0.5, 0.9), (0.01, 0.5, 0.97)
_TINY = 1e-300
# Stored features above which a sparse matrix for liblinear would not fit.
_MOST_FEATURES = 200_000_000


# ---------------------------------------------------------------- checks


def require_same_tasks(kernel: Any, data: MultiTaskData) -> None:
    """Raise where a part of the kernel is for another number of tasks or features, or for other task names."""
    width = data.n_features + 1
    for part in _parts(kernel):
        wanted = isinstance(part, cov.Covariance) and not getattr(part, "any_width", False)
        if wanted and part.input_dim not in (width, data.n_features):
            raise ValueError(
                f"kernel has input_dim {part.input_dim}, but the data have "
                f"{counted(data.n_features, 'feature')} and the task. "
                f"Use input_dim={width}."
            )
        if not isinstance(part, TaskKernel):
            continue
        needed = getattr(part.base, "input_dim", None)
        if needed is not None and needed != len(part.active_dims) - 1:
            raise ValueError(
                f"base of {type(part).__name__} has input_dim {needed}, but sees "
                f"{counted(len(part.active_dims) - 1, 'feature')}: "
                "the task is not among them. Make it for these."
            )
        if part.n_tasks != data.n_tasks:
            raise ValueError(
                f"kernel is for {counted(part.n_tasks, 'task')}, but the data have {data.n_tasks}. "
                f"Make it for the tasks of data."
            )
        numbered = tuple(f"task {i}" for i in range(part.n_tasks))
        if part.task_names not in (numbered, data.task_names):
            wrong = next(i for i, name in enumerate(part.task_names) if name != data.task_names[i])
            raise ValueError(
                f"task {wrong} of kernel is {part.task_names[wrong]!r}, and of the data {data.task_names[wrong]!r}. "
                "Give the kernel the tasks in the order of data.task_names."
            )


def require_numbers(kernel: Any, data: MultiTaskData) -> None:
    """Raise where the kernel holds a random variable: an engine would draw it anew at every look."""
    first = np.append(np.asarray(data.inputs[0], dtype=np.float64), float(data.task[0]))
    if fixed_number(kernel(pt.constant(first[None]))) is None:
        raise TypeError(
            "kernel has a parameter that is random or symbolic. Give it a number and name it in `learn`, or write the "
            "pm.Model yourself with pm.gp."
        )


def _parts(kernel: Any) -> list[Any]:
    if isinstance(kernel, cov.Combination):
        return [leaf for part in kernel._factor_list for leaf in _parts(part)]
    if isinstance(kernel, cov.Exponentiated):
        return _parts(kernel.kernel)
    return [kernel]


# ---------------------------------------------------------------- evidence


class Found(NamedTuple):
    """Hyper-parameters in free coordinates, and whether the search came to its end."""

    z: np.ndarray
    converged: bool


def maximal_evidence(space: Any, progress: bool, max_iter: int) -> Found:
    """Hyper-parameters that maximise the marginal likelihood of Gaussian responses, times priors that the user gave."""
    start = _best_start(space, lambda z: _evidence_at(space, z) + space.coordinates.given_prior(z)[0])
    return _climb(space, log_evidence, start, progress, max_iter)


def maximal_laplace_evidence(space: Any, progress: bool, max_iter: int) -> Found:
    """Hyper-parameters that maximise the Laplace evidence times priors that the user gave."""
    given = space.coordinates.given_prior
    start = _best_start(space, lambda z: mode_at(space, z).log_evidence + given(z)[0])
    return _climb(space, _laplace_evidence, start, progress, max_iter)


def _climb(
    space: Any,
    evidence: Callable[[Any, np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    progress: bool,
    max_iter: int,
) -> Found:
    """From a start to a maximum of the evidence times priors that the user gave."""
    coordinates = space.coordinates
    if coordinates.size == 0:
        return Found(start, True)
    with ClimbProgress(max_iter, progress, "evidence", "negative log evidence") as bar:
        scale = 1.0 / space.size  # so that the first step of the search is no leap
        last: list[Any] = [0.0, np.zeros(coordinates.size)]

        def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
            try:
                value, gradient = evidence(space, z)
                prior, slope = coordinates.given_prior(z)
            except np.linalg.LinAlgError:
                # So far out that rounding wins: worse than all before, and downhill is back.
                return abs(float(last[0])) * 10.0 + 1.0, np.asarray(last[1])
            last[:] = -scale * (value + prior), -scale * (gradient + slope)
            return float(last[0]), np.asarray(last[1])

        steps = iter(range(1, max_iter + 1))
        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=coordinates.bounds(start),
            callback=lambda intermediate_result: bar.report(
                next(steps, max_iter), intermediate_result.fun / scale
            ),
            options={"maxiter": max_iter, "ftol": 1e-13, "gtol": 1e-8},
        )
    if progress and found.status == 1:
        logging.getLogger("zoo").warning(
            "The search for the evidence stopped after max_iter=%d steps, before its end. Give a larger max_iter; with "
            'Q="learned" and many features its end is far away, and little is won there.',
            max_iter,
        )
    return Found(np.asarray(found.x), found.status != 1)


def _best_start(space: Any, evidence: Callable[[np.ndarray], float]) -> np.ndarray:
    """The best of some points at which the functions hold a share of the responses' variance.

    The evidence has a plateau where the amplitude vanishes, so a search starts on the other side.
    """
    coordinates = space.coordinates
    start, learned = coordinates.start, coordinates.hypers
    if not learned:
        return np.asarray(start)
    square = (
        float(np.average(space.y**2, weights=space.data.weight)) or 1.0
    )  # responses that are all zero have no size
    candidates = []
    for lam in _LAM if "lam" in learned and learned["lam"].kind == "unit" else [None]:
        for share in _SHARES:
            z = start.copy()
            if lam is not None:
                z[coordinates.position("lam")] = logit(lam)
            if "noise" in learned:
                z[coordinates.position("noise")] = 0.5 * np.log((1.0 - share) * square + _TINY)
            if "amplitude" in learned:
                signal = share * square if "noise" in learned else share / (1.0 - share)
                now = space.mean_variance(space.numbers(z))
                z[coordinates.position("amplitude")] += 0.5 * np.log((signal + _TINY) / (now + _TINY))
            candidates.append(z)
    return max([start, *candidates], key=evidence)


def _evidence_at(space: Any, z: np.ndarray) -> float:
    try:
        variance = space.noise_variance(z)
        return float(space.log_marginal(space.gaussian(space.numbers(z), variance), variance))
    except np.linalg.LinAlgError:
        return -np.inf


def log_evidence(space: Any, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Log marginal likelihood of Gaussian responses and its derivative in z."""
    variance, n = space.noise_variance(z), space.size
    conditional = space.gaussian(space.numbers(z), variance)
    value = float(space.log_marginal(conditional, variance))
    gradient = space.pull(z, conditional)
    if "noise" in space.coordinates.hypers:
        # Of log sigma: variance times a'a - tr Sigma^-1 with a = (y - mean) / variance.
        gradient[space.coordinates.position("noise")] = (
            space.misfit(conditional) / variance - n + conditional.dof()
        )
    return value, gradient


def mode_at(space: Any, z: np.ndarray) -> Mode:
    """The mode of the functions at z, for labels or other smooth responses."""
    responses, own = _responses_at(space)
    return find_mode(space, space.numbers(z), responses, z[own])


def _laplace_evidence(space: Any, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Laplace's evidence and its derivative in z."""
    responses, own = _responses_at(space)
    value, gradient, slopes = laplace_evidence(space, z, responses, z[own])
    gradient[own] += slopes
    return value, gradient


def _responses_at(space: Any) -> tuple[Any, list[int]]:
    """The responses, and where their own parameters stand in z."""
    if "_responses" not in vars(space):
        vars(space)["_responses"] = _responses_of(space)
    responses = vars(space)["_responses"]
    return responses, [space.coordinates.position(name).start for name in responses.learned]


def _responses_of(space: Any) -> LogisticResponses | DifferentiatedResponses:
    likelihood, weight = space.factory.likelihood, space.data.weight
    if type(likelihood) is Logistic:
        return LogisticResponses(space.y, weight)
    return DifferentiatedResponses(likelihood, space.y, weight)


# ---------------------------------------------------------------- draws and modes


def exact_draws(
    space: Any, found: Found, conditional: Any, run: Run, keep: str = "draws"
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any] | None]:
    """Independent draws of the functions given hyper-parameters and Gaussian responses, or less (``keep``).

    ``conditional`` is the law of the functions given the responses at ``found.z``. The third is the mean and standard
    deviation of what is not kept, for "moments": those of the law itself, which draws only come near.
    """
    evidence = float(space.log_marginal(conditional, space.noise_variance(found.z)))
    if keep == "draws":
        return *_independent(space, found, conditional, run, evidence), None
    shape = (run.chains, run.draws)
    once = space.parameters(found.z)
    task_cov = once.pop("task_cov", None)
    moments = None
    if keep == "moments":
        moments = {space.values_name: (space.moved(conditional.mean), conditional.deviations)}
        if task_cov is not None:
            moments["task_cov"] = (task_cov, np.zeros_like(task_cov))
    return _broadcast(once, shape), _stats(found, evidence, shape), moments


def laplace_draws(space: Any, found: Found, run: Run) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Independent draws from the Gaussian at the mode."""
    at_mode = mode_at(space, found.z)
    return _independent(space, found, at_mode.conditional, run, at_mode.log_evidence)


def _independent(
    space: Any, found: Found, conditional: Any, run: Run, evidence: float
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(run.random_seed)
    shape = (run.chains, run.draws)
    values = np.moveaxis(space.draws(conditional, rng, run.chains * run.draws), 0, -1)
    values = np.moveaxis(space.moved(values), -1, 0)
    posterior = {space.values_name: values.reshape(*shape, *values.shape[1:])}
    posterior |= _broadcast(space.parameters(found.z), shape)
    return posterior, _stats(found, evidence, shape)


def _broadcast(values: dict[str, np.ndarray], shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Estimates as draws that are all the same, without a copy of each."""
    return {name: np.broadcast_to(value, (*shape, *np.shape(value))) for name, value in values.items()}


def _stats(found: Found, evidence: float, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    return {
        "log_evidence": np.full(shape, evidence),
        "independent": np.ones(shape, dtype=bool),
        "converged": np.full(shape, found.converged),
    }


def mode(
    factory: KernelMachineDescription, space: Any, run: Run, tol: float, max_iter: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The posterior mode of labels or of responses under the epsilon-insensitive loss."""
    z = space.coordinates.start
    numbers = space.numbers(z)
    if factory.likelihood.word == "logistic":
        found = mode_at(space, z)
        values, objective, converged = found.conditional.mean, -found.log_joint, True
    else:
        values, objective, converged = _support_vectors(factory, space, numbers, run, tol, max_iter)
    posterior = {space.values_name: space.moved(values), **space.parameters(z)}
    stats = {"objective": objective, "converged": converged}
    return (
        {name: np.asarray(value)[None, None] for name, value in posterior.items()},
        {name: np.full((1, 1), value) for name, value in stats.items()},
    )


def _support_vectors(
    factory: KernelMachineDescription, space: Any, numbers: Any, run: Run, tol: float, max_iter: int
) -> tuple[np.ndarray, float, bool]:
    data = space.data
    if isinstance(space, WeightSpace):
        stored = data.n_rows * data.n_features * (1 + int((numbers.W != 0.0).sum(axis=1).max(initial=0)))
        if stored > _MOST_FEATURES:
            raise ValueError(
                f"kernel shares {numbers.W.shape[1]} columns among {data.n_tasks} tasks, and liblinear would hold "
                f"{stored:,} numbers. Use method='gibbs', or a kernel with fewer shared columns."
            )
        features = task_features(data.X, data.task, numbers)
    else:
        root = covariance_root(numbers)
        features = root[data.point]
    loss: Any = factory.likelihood.of_unit(unit_of_y(data))
    epsilon = getattr(loss, "tube", 0.0)
    found = support_vector_machine(
        features, space.y, loss.word, loss.C, epsilon, data.weight, tol, max_iter,
        integer_seed(run.random_seed),
    )  # fmt: skip
    if isinstance(space, WeightSpace):
        return task_coefficients(found.weights, data.n_features, numbers), found.objective, found.converged
    return root @ found.weights, found.objective, found.converged


# ---------------------------------------------------------------- predictions


def with_innovation(fit: Fit) -> xr.Dataset:
    """The posterior with ``innovation``, 1, or 0 at a mode: its functions elsewhere are the kernel's interpolation."""
    draws = fit.posterior
    if "function_values" not in draws:
        return draws
    shape = (draws.sizes["chain"], draws.sizes["draw"])
    return draws.assign(innovation=(("chain", "draw"), np.full(shape, float(not fit.is_point))))

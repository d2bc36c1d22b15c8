"""One Gaussian process per task, integrated out: the part of a model below the priors of its ARD parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import Continuous, SymbolicRandomVariable, _support_point
from pymc.logprob.abstract import _logprob
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.core.context import Context
from zoo.data.multitask import MultiTaskData
from zoo.inference.ard.conditional import conditional_moments
from zoo.inference.ard.correlation import CompiledCorrelation, Correlation, Parameters
from zoo.inference.ard.evidence import KERNELS, TaskInputs
from zoo.inference.weighted_moments import weighted_mean, weighted_sd
from zoo.kernels.ard import ScaledCovariance, batched_covariance, scaled_inputs
from zoo.ops.ard_conditional import ARDConditional
from zoo.ops.ard_evidence import ard_evidence
from zoo.support.warning_types import warn_user

__all__ = ["GPRows", "Processes", "TaskProcesses", "conditional_function", "correlation_of", "kernel_rows"]

# The feature that `add_intercept` adds: the models of this module have a constant of their own.
_INTERCEPT = "intercept"
# Spread of a feature, over its size, below which it is constant.
_CONSTANT = 1e-12
_WILD = 1e3
# Added to the variances of functions that are drawn, so that singular matrices have a factor.
_JITTER = 1e-8


@dataclass(frozen=True, eq=False)
class GPRows(MultiTaskData):
    """Rows with the features as the kernel sees them: constant ones left out, the others on its scale.

    ``centre`` and ``scale`` (D,) led there; ``known``: for rows to predict, those whose responses are known.
    """

    centre: Any = None
    scale: Any = None
    known: GPRows | None = None

    def task_inputs(self, pooled: bool, linear: bool = False) -> TaskInputs:
        """Distinct inputs of each task, or of all tasks as one; ``linear``: with their Gram matrices."""
        task = np.zeros_like(self.task) if pooled else self.task
        return TaskInputs.of(self.X, task, 1 if pooled else self.n_tasks, linear, self.weight)


def kernel_rows(data: MultiTaskData, context: Context | None, standardize: bool) -> GPRows:
    """``data`` on the scale of the fit (or their own); warns of constant features, which no kernel can weigh."""
    source = data if context is None else context.train
    fitted = source.X
    centre, scale = weighted_mean(fitted, source.weight), weighted_sd(fitted, source.weight)
    varies = scale > _CONSTANT * np.maximum(np.abs(fitted).max(axis=0), 1e-300)
    dropped = [name for name, used in zip(data.feature_names, varies, strict=True) if not used]
    if len(dropped) == data.n_features:
        raise ValueError("X is constant in every feature. Give features that vary.")
    if context is None:
        _warn(dropped, data, scale, varies, standardize)
    if not standardize:
        centre, scale = np.zeros_like(centre), np.ones_like(scale)
    centre, scale = centre[varies], scale[varies]

    def rows(part: MultiTaskData, names: tuple[str, ...], task: np.ndarray, own: GPRows | None) -> GPRows:
        return part.seen_as(
            GPRows,
            inputs=(part.X[:, varies] - centre) / scale,
            row=np.arange(part.n_rows),
            task=task,
            task_names=names,
            feature_names=tuple(n for n, used in zip(part.feature_names, varies, strict=True) if used),
            centre=centre,
            scale=scale,
            known=own,
        )

    names = data.task_names
    known = None if context is None else context.known
    if known is None:
        return rows(data, names, data.task, None)
    position = {name: i for i, name in enumerate(names)}
    task = np.array([position.get(name, -1) for name in known.task_names])[known.task]
    used = task >= 0
    other = known.take(used)
    return rows(data, names, data.task, rows(other, names, task[used], None))


def _warn(
    dropped: list[str], data: MultiTaskData, scale: np.ndarray, varies: np.ndarray, standardize: bool
) -> None:
    if named := [name for name in dropped if name != _INTERCEPT]:
        warn_user(
            f"feature {', '.join(map(repr, named))} is constant and takes no part in the selection. "
            "Drop it, or call a constant added on purpose 'intercept'."
        )
    if not standardize and scale[varies].max() > _WILD * scale[varies].min():
        names = [name for name, used in zip(data.feature_names, varies, strict=True) if used]
        low, high = names[scale[varies].argmin()], names[scale[varies].argmax()]
        warn_user(
            f"feature {high!r} has {scale.max() / scale[varies].min():.3g} times the spread of {low!r}, and all ARD "
            "parameters have the same prior. Set standardize=True, or scale the features."
        )


def correlation_of(kernel: str, covariance: Any) -> Correlation:
    """The compiled form of a kernel with a word, or any covariance function."""
    return CompiledCorrelation(kernel) if kernel in KERNELS else ScaledCovariance(covariance)


# ---------------------------------------------------------------- the law of the responses


class Processes(NamedTuple):
    """What is fixed: the kernel in numbers and as a covariance of PyMC, inputs, variance of a constant of each task."""

    kernel: Correlation
    covariance: Any
    inputs: TaskInputs
    constant: float


class TaskProcessesRV(SymbolicRandomVariable):
    """Draws of the responses of all tasks; the fixed part is held by the operation."""

    name = "task_processes"
    extended_signature = "[rng],[size],(n),(t,d),(t),(t)->[rng],(n)"
    _print_name = ("TaskProcesses", "\\operatorname{TaskProcesses}")

    def __init__(self, *args: Any, fixed: Processes, **kwargs: Any):
        self.fixed = fixed
        super().__init__(*args, **kwargs)

    def rebuild_rv(self, *args: Any, **kwargs: Any) -> Any:
        """The same law with other parameters."""
        return self.rv_op(*args, fixed=self.fixed, **kwargs)

    @classmethod
    def rv_op(
        cls,
        mean: Any,
        kappa: Any,
        noise: Any,
        amplitude: Any,
        *,
        fixed: Processes,
        size: Any = None,
        rng: Any = None,
    ) -> Any:
        """Graph of a draw: functions by a Cholesky factor, then noise."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        mean, kappa, noise, amplitude = (pt.as_tensor(v) for v in (mean, kappa, noise, amplitude))
        next_rng, draw = _draw_graph(fixed, Parameters(kappa, noise, amplitude), rng)
        inputs = [rng, size, mean, kappa, noise, amplitude]
        return cls(inputs=inputs, outputs=[next_rng, mean + draw], fixed=fixed)(*inputs)


class TaskProcesses(Continuous):
    """Responses (N,) of one Gaussian process per task, functions integrated out (srijith2014 eq 6).

    Parameters
    ----------
    mean : (N,) tensor
    kappa : (T, D) tensor
        ARD parameters.
    noise, amplitude : (T,) tensor
        Noise variances and amplitudes.
    fixed : Processes
    """

    rv_type = TaskProcessesRV
    rv_op = TaskProcessesRV.rv_op

    @classmethod
    def dist(
        cls, mean: Any, kappa: Any, noise: Any, amplitude: Any, *, fixed: Processes, **kwargs: Any
    ) -> Any:
        """Unregistered variable."""
        return super().dist([mean, kappa, noise, amplitude], fixed=fixed, **kwargs)


@_support_point.register(TaskProcessesRV)
def _task_processes_support_point(op: Any, rv: Any, rng: Any, size: Any, mean: Any, *parameters: Any) -> Any:
    return mean


@_logprob.register(TaskProcessesRV)
def _task_processes_logp(
    op: Any,
    values: Any,
    rng: Any,
    size: Any,
    mean: Any,
    kappa: Any,
    noise: Any,
    amplitude: Any,
    **kwargs: Any,
) -> Any:
    kernel, _, inputs, constant = op.fixed
    residual = values[0] - mean
    if isinstance(kernel, CompiledCorrelation):
        return ard_evidence(KERNELS[kernel.name], inputs, residual, kappa, noise, amplitude, constant).sum()
    return _evidence_graph(op.fixed, residual, Parameters(kappa, noise, amplitude))


def _evidence_graph(fixed: Processes, residual: Any, parameters: Parameters) -> Any:
    """The marginal likelihood by PyTensor's own operations, one batch for the tasks of each size."""
    inputs, noise = fixed.inputs, parameters.noise
    counts, slot = inputs.counts, inputs.slot
    sizes = np.diff(inputs.starts)
    task = np.repeat(np.arange(inputs.n_tasks), sizes)
    h = inputs.weight
    mean = pt.inc_subtensor(pt.zeros(len(counts))[slot], h * residual / counts[slot])
    left = np.bincount(task[slot], h, minlength=inputs.n_tasks) - sizes
    result = (
        -0.5 * (h.sum() * np.log(2.0 * np.pi) + np.log(counts).sum())
        - 0.5 * (left * pt.log(noise)).sum()
        - 0.5 * (h * (residual - mean[slot]) ** 2 / noise[task[slot]]).sum()
    )
    for tasks, at, K in _covariances(fixed, parameters):
        own = noise[tasks][:, None, None] * (np.eye(at.shape[1]) / counts[at][:, :, None])
        L = pt.linalg.cholesky(K + own)
        white = pt.linalg.solve_triangular(L, mean[at][..., None], lower=True, b_ndim=2)
        log_root = pt.log(pt.diagonal(L, axis1=-2, axis2=-1))
        result += -0.5 * (white**2).sum() - log_root.sum()
    return result


def _covariances(fixed: Processes, parameters: Parameters) -> Iterator[tuple[np.ndarray, np.ndarray, Any]]:
    """For each size of tasks these (g,), where their inputs are (g, n), and their covariances (g, n, n)."""
    inputs = fixed.inputs
    sizes = np.diff(inputs.starts)
    for n in np.unique(sizes[sizes > 0]):
        tasks = np.flatnonzero(sizes == n)
        at = inputs.starts[tasks][:, None] + np.arange(n)
        Z = scaled_inputs(pt.constant(inputs.X[at]), parameters.kappa[tasks])
        K = batched_covariance(fixed.covariance, Z)
        yield tasks, at, parameters.amplitude[tasks][:, None, None] * K + fixed.constant


def _draw_graph(fixed: Processes, parameters: Parameters, rng: Any) -> tuple[Any, Any]:
    """The generator after it, and responses drawn from the prior, less their mean, (N,)."""
    inputs = fixed.inputs
    slot, f = inputs.slot, pt.zeros(len(inputs.X))
    for tasks, at, K in _covariances(fixed, parameters):
        L = pt.linalg.cholesky(K + _JITTER * np.eye(at.shape[1]))
        size = (len(tasks), at.shape[1], 1)
        rng, white = pm.Normal.dist(0.0, 1.0, size=size, rng=rng).owner.outputs
        f = pt.set_subtensor(f[at.ravel()], (L @ white).ravel())
    task = np.repeat(np.arange(inputs.n_tasks), np.diff(inputs.starts))[slot]
    rng, white = pm.Normal.dist(0.0, 1.0, size=len(slot), rng=rng).owner.outputs
    return rng, f[slot] + pt.sqrt(parameters.noise[task]) * white


def conditional_function(
    kernel: Correlation,
    known: TaskInputs,
    residual: Any,
    parameters: Parameters,
    constant: float,
    X: np.ndarray,
    task: np.ndarray,
) -> tuple[Any, Any]:
    """Mean and standard deviation (n,) of the functions at rows ``X`` of tasks, given residuals of known rows."""

    def moments(
        residual: np.ndarray, kappa: np.ndarray, noise: np.ndarray, amplitude: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers = Parameters(kappa, noise, amplitude)
        return conditional_moments(kernel, known, residual, numbers, constant, X, task)

    mean, sd = ARDConditional(moments)(residual, *parameters)
    return mean, sd

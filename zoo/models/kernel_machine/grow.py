"""Fits of methods "exact" and "laplace" in closed form; of the first, new rows or tasks without starting again.

The hyper-parameters stay; the sums over rows, or the factor of the kernel matrix, grow by what is new. So the result is
that of a fit to all rows with these hyper-parameters (section 5.2 of Evgeniou, Micchelli & Pontil 2005 asks for it).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from zoo.core.fit import Fit
from zoo.core.joining import joined, more_rows, new_rows
from zoo.core.methods import Run, UnsupportedMethodError
from zoo.core.storage import to_datatree
from zoo.data.multitask import MultiTaskData
from zoo.models.kernel_machine.description import KernelMachineDescription
from zoo.models.kernel_machine.methods import Found, exact_draws, mode_at
from zoo.models.kernel_machine.rows import KernelRows
from zoo.models.kernel_machine.sides import space_of
from zoo.models.kernel_machine.spaces import FunctionSpace, WeightSpace
from zoo.models.kernel_machine.tasks import has_own_population, positions
from zoo.support.seeds import random_number_source

__all__ = ["State", "add_rows", "add_task", "moments", "state_at", "state_of"]


class State(NamedTuple):
    """The rows of a fit as its engine holds them, hyper-parameters, and the law of the functions."""

    space: Any
    z: np.ndarray
    conditional: Any


def state_of(fit: Fit) -> Any:
    """The state of a fit by "exact", or by "laplace" with the normal law at its mode."""
    factory: Any = fit.factory
    prepared, y = factory.design(fit.data), factory.validate_quietly(fit.data)
    space = space_of(factory, prepared, y, aligned=fit.method == "exact")
    z = space.recorded(fit.posterior.isel(chain=0, draw=0))
    if fit.method == "laplace":
        return State(space, z, mode_at(space, z).conditional)
    return state_at(space, z)


def state_at(space: Any, z: np.ndarray) -> State:
    """The state at these hyper-parameters."""
    return State(space, z, space.gaussian(space.numbers(z), space.noise_variance(z)))


def moments(fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n,) of f at prepared rows of known tasks, of all or of some."""
    state = fit.state
    if rows.task_names != fit.data.task_names:
        task = positions(fit.data, rows.task_names)[rows.task]
        rows = replace(rows, task=task, task_names=fit.data.task_names)
    mean, variance = state.space.predict(state.z, state.conditional, rows)
    return mean + state.space.y_level, np.sqrt(variance)


# ---------------------------------------------------------------- growing


def add_rows(fit: Fit, rows: MultiTaskData, random_seed: Any = None) -> Fit:
    """See :meth:`Fit.add_rows`."""
    _require_exact(fit)
    together = joined(fit.data, more_rows(fit, rows))
    factory: Any = fit.factory
    # The units are those of the fit, as the hyper-parameters are.
    return _grown(fit, factory, factory.with_units(together, fit.context), fit.state.z, random_seed)


def add_task(fit: Fit, task_data: MultiTaskData, kernel: Any = None, random_seed: Any = None) -> Fit:
    """See :meth:`Fit.add_task`."""
    _require_exact(fit)
    together = joined(fit.data, new_rows(fit, task_data))
    old = fit.state
    factory: Any = fit.factory
    values = old.space.values_at(old.z)
    if has_own_population(factory) and kernel is None:
        factory, values = _same_population(factory, values, fit.data.n_tasks, together.n_tasks)
    elif isinstance(factory.kernel, str) and kernel is None:
        raise UnsupportedMethodError(
            f"{type(factory).__name__} overrides the hook `covariance_function`, which says nothing of further tasks. "
            "Fit all tasks together."
        )
    elif kernel is None or isinstance(factory.kernel, str):
        raise ValueError(
            f"kernel is {'missing' if kernel is None else 'given'}. A kernel that was handed to the factory knows its "
            'tasks alone, so give one for all tasks; "mean_regularised" grows by itself, so give none.'
        )
    else:
        factory = replace(factory, kernel=kernel)
    together = factory.with_units(together, fit.context)
    space = space_of(factory, factory.design(together), factory.validate(together), aligned=True)
    z = space.coordinates.pack({name: values[name] for name in space.coordinates.hypers})
    return _grown(fit, factory, together, z, random_seed)


def _same_population(
    factory: Any, values: dict[str, Any], old: int, new: int
) -> tuple[KernelMachineDescription, dict[str, Any]]:
    r"""The factory and parameters whose kernel (22) for more tasks has the old one's values.

    Its two entries, :math:`c = a^2 (1 - \lambda)` and :math:`d = a^2 \lambda T`, are kept.
    """
    square, lam = float(values["amplitude"]) ** 2, float(values["lam"])
    c, d = square * (1.0 - lam), square * lam * old
    amplitude = float(np.sqrt(c + d / new))
    changed = {"amplitude": amplitude, "lam": min(1.0, d / new / amplitude**2)}
    fixed = {name: value for name, value in changed.items() if not isinstance(getattr(factory, name), str)}
    return replace(factory, **fixed), {**values, **changed}


def _grown(fit: Fit, factory: Any, data: MultiTaskData, z: np.ndarray, random_seed: Any) -> Fit:
    """The fit of all rows at z, from the old state and the new rows, which come last."""
    old = fit.state
    prepared, y = factory.design(data), factory.validate(data)
    space = space_of(factory, prepared, y)
    if factory is fit.factory and data.task_names == fit.data.task_names:
        space.adopt(old.space)
    if type(space) is type(old.space) is WeightSpace:
        _add_sums(space, old.space, factory.design(data.take(np.arange(fit.data.n_rows, data.n_rows))))
        state = state_at(space, z)
    elif isinstance(space, FunctionSpace) and _extends(old, prepared, z, factory is fit.factory):
        state = State(space, z, _extended(space, old, prepared, z))
    else:
        state = state_at(space_of(factory, prepared, y, aligned=True), z)
    sizes = fit.posterior.sizes
    run = Run(sizes["draw"], 0, sizes["chain"], random_number_source(random_seed), False)
    posterior, stats, of_tasks = exact_draws(state.space, Found(z, True), state.conditional, run, fit.keep)
    idata = to_datatree(
        factory, data, prepared, y, posterior, stats, fit.method, random_seed, fit.keep, of_tasks
    )
    result = fit.__class__(
        factory=factory, data=data, idata=idata, method=fit.method, conditioned=fit.conditioned
    )
    result.hand_over(state=state)
    return result


def _add_sums(space: WeightSpace, old: WeightSpace, new: KernelRows) -> None:
    """Put the sums over all rows into a space: the old ones, and those over the new rows."""
    new_space = WeightSpace(space.factory, new, new.y)
    added, known = new_space.unit_sums, old.unit_sums
    extra = len(added.b) - len(known.b)
    if extra:
        known = type(known)(
            np.concatenate([known.S, np.zeros((extra, *known.S.shape[1:]))]),
            np.concatenate([known.b, np.zeros((extra, known.b.shape[1]))]),
        )
    vars(space)["unit_sums"] = known + added


def _extends(old: State, prepared: KernelRows, z: np.ndarray, same_kernel: bool) -> bool:
    """Whether the points of the fit come first among all, and their kernel is the same."""
    points = old.space.data.points
    fresh = len(prepared.points) - len(points) == prepared.n_rows - old.space.data.n_rows
    return isinstance(old.space, FunctionSpace) and same_kernel and fresh and np.array_equal(old.z, z)


def _extended(space: FunctionSpace, old: State, prepared: KernelRows, z: np.ndarray) -> Any:
    n = len(old.space.data.points)
    K = space.numbers(z)
    omega, nu = space.unit_sums
    variance = space.noise_variance(z)
    return old.conditional.grown(K[n:, :n], K[n:, n:], omega[n:] / variance, nu[n:] / variance)


def _require_exact(fit: Fit) -> None:
    if fit.method != "exact":
        raise UnsupportedMethodError(
            f"The fit is of method {fit.method!r}, and rows can be added to one of method 'exact'. Fit all rows again."
        )

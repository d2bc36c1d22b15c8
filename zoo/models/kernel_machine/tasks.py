r"""Tasks of a kernel machine one by one: those of a fit that kept no coefficients, and tasks that no fit has seen.

Kernel (22) is :math:`u_t = \sqrt c\, R v + \sqrt d\, R e_t` with independent normal v and :math:`e_t` in D dimensions,
where c is the covariance of two tasks, c + d the variance of one, and :math:`Q = R R'`. With hyper-parameters that are
numbers, the rows of all tasks say of v what :class:`~zoo.latent.task_weights.WeightConditional` holds in D numbers and
a D x D factor, and given v a task's coefficients depend on the task's own rows alone. So

- coefficients of any tasks are drawn again as they were drawn in the fit: v, which they share, then each alone;
- an unseen task, whose rows are none, is a draw of :math:`\sqrt c\, R v` given all rows plus :math:`\sqrt d\, R e`.

Where the coefficients of the T known tasks are held, the second is the same by their mean: v given u is normal, and so
:math:`u_{new} \mid u` has mean :math:`c T \bar u / (d + c T)`; two new tasks have covariance
:math:`c d / (d + c T)` (times Q), and one has d more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from zoo.core.methods import UnsupportedMethodError, as_in
from zoo.core.prior_density import coefficients_density, low_rank_density
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.latent.function_conditional import covariance_root
from zoo.models.kernel_machine.description import KernelMachineDescription
from zoo.models.kernel_machine.space import weight_graph
from zoo.support.memory import require_memory
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = [
    "density_of_coefficients",
    "drawn_again",
    "has_own_population",
    "new_task",
    "positions",
    "refusal",
    "with_common_part",
]

# What stands for coefficients that are not kept where unseen tasks are drawn: sqrt(c) R v, and d.
_COMMON, _OWN_VARIANCE = "common_part", "own_variance"
# Hooks that the coefficients of some tasks alone are derived from.
_REDRAWN = (
    "priors", "latent", "shared_part", "observe", "design", "coords", "predictive_posterior", "conditional_moments",
    "new_task", "restore", "linear_form",
)  # fmt: skip


def has_own_population(factory: KernelMachineDescription) -> bool:
    """Whether the kernel is (22), which says what a further task is, and no subclass says otherwise."""
    hook = type(factory).covariance_function is KernelMachineDescription.covariance_function
    return isinstance(factory.kernel, str) and hook


def refusal(factory: Any, cls: type, method: str, data: MultiTaskData) -> str:
    """Why a fit of prepared data by a method cannot do without the draws of its tasks; empty where it can.

    ``cls`` is the class whose hooks the engines were derived from.
    """
    name = type(factory).__name__
    if method != "exact":
        return f"method {method!r} of {name} keeps what it has drawn of every task; method 'exact' need not."
    if not has_own_population(factory):
        return (
            f'{name} has a kernel of its own, which knows all tasks together; with kernel="mean_regularised" the '
            "coefficients of a task are drawn again from what all tasks share."
        )
    if not factory.hyperparameters(data):
        return "amplitude, lam and noise are numbers, so that there are no draws of a population to keep."
    if data.n_features > data.n_inputs:
        return "there are fewer rows than features, and coefficients are drawn by the rows of all tasks together."
    changed = [hook for hook in _REDRAWN if not as_in(factory, cls, (hook,))]
    if changed:
        return (
            f"{name} overrides `{changed[0]}`, and drawing coefficients again was derived for the original."
        )
    return ""


def drawn_again(fit: Fit, names: tuple[str, ...], rng: np.random.Generator) -> xr.Dataset:
    """The posterior of a fit that kept no coefficients, with draws of those of these tasks."""
    posterior = fit.posterior
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    n_draws = sizes[0] * sizes[1]
    require_memory(
        {"coefficients": len(names) * fit.data.n_features},
        2 * n_draws,
        f"the coefficients of {counted(len(names), 'task', ',')} by {counted(n_draws, 'draw', ',')}",
        "Predict rows of fewer tasks at a time.",
    )
    drawn = fit.state.conditional.select(positions(fit.data, names)).draw(rng, n_draws)
    drawn = np.moveaxis(fit.state.space.moved(np.moveaxis(drawn, 0, -1)), -1, 0)
    variable = (("chain", "draw", "feature", "task"), drawn.reshape(*sizes, *drawn.shape[1:]))
    return posterior.assign(coefficients=variable).assign_coords(task=list(names))


def positions(data: MultiTaskData, names: tuple[str, ...]) -> np.ndarray:
    """Where tasks stand among those of the data."""
    if names == data.task_names:
        return np.arange(data.n_tasks)
    position = {name: t for t, name in enumerate(data.task_names)}
    return np.array([position[name] for name in names], dtype=np.int64)


def with_common_part(fit: Fit, rng: np.random.Generator) -> xr.Dataset:
    """The posterior of a fit that kept no coefficients, with draws of what all tasks share, for unseen tasks."""
    posterior, conditional = fit.posterior, fit.state.conditional
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    v = conditional.draw_shared(rng, shape[0] * shape[1])[0]
    common = (conditional.W[0, 0] * conditional.R @ v).T.reshape(*shape, -1)
    own = np.broadcast_to(conditional.d[0], shape)
    return posterior.assign(
        {_COMMON: (("chain", "draw", "feature"), common), _OWN_VARIANCE: (("chain", "draw"), own)}
    )


def new_task(
    factory: KernelMachineDescription, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Coefficients of unseen tasks given those of the others, or what these share; under kernel (22)."""
    if not has_own_population(factory) or "function_values" in posterior:
        raise UnsupportedMethodError(
            "kernel says nothing of a task that it does not know. Use fit.add_task with rows of the task and a kernel "
            'for all of them, or kernel="mean_regularised".'
        )
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    units = posterior.attrs.get("units") or Units.of_size(posterior.sizes["feature"])
    offset = units.coefficients(np.zeros(posterior.sizes["feature"]))
    result = {str(name): v.to_numpy() for name, v in posterior.items() if "task" not in v.dims}
    if _COMMON in posterior:  # of a fit that kept no coefficients
        common, d = result.pop(_COMMON), result.pop(_OWN_VARIANCE)
        shape = common.shape
        shared = np.zeros(shape)
    else:
        u = posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()
        u = u - offset[:, None] if offset.any() else u
        T = u.shape[-1]
        c, d = _variances(factory, posterior, T)
        common = (c * T / (d + c * T))[..., None] * u.mean(axis=-1)
        shape = common.shape
        shared = np.sqrt(c * d / (d + c * T))[..., None] * rng.standard_normal(shape)
    white = shared[..., None] + np.sqrt(d)[..., None, None] * rng.standard_normal((*shape, len(names)))
    if "feature_cov" in posterior:
        white = np.linalg.cholesky(posterior["feature_cov"].to_numpy()) @ white
    elif isinstance(factory.Q, tuple):
        white = covariance_root(np.array(factory.Q)) @ white
    if not units.plain:
        white = np.moveaxis(units.turned(np.moveaxis(white, 2, 0)) / units.y_scale, 0, 2)
    if "task_cov" in posterior:
        # Only its shape is looked at.
        result["task_cov"] = np.zeros((chains, draws, len(names), len(names)))
    drawn = common[..., None] + white
    return {**result, "coefficients": drawn + offset[:, None] if offset.any() else drawn}


def _variances(
    factory: KernelMachineDescription, posterior: xr.Dataset, n_tasks: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""What two tasks share under kernel (22) and what one has more, each (chain, draw): a^2 (1 - lam), a^2 lam T."""
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    numbers = factory.fixed_parameters()
    numbers |= {name: posterior[name].to_numpy() for name in ("amplitude", "lam") if name in posterior}
    square, lam = np.square(numbers["amplitude"]), np.asarray(numbers["lam"])
    return np.broadcast_to(square * (1.0 - lam), shape), np.broadcast_to(square * lam * n_tasks, shape)


def density_of_coefficients(factory: Any, data: MultiTaskData, values: dict[str, Any]) -> Any:
    """Log prior density of the coefficients under the word's kernel, as a graph; None of other kernels."""
    if not isinstance(factory.kernel, str):
        return None
    numbers, units, white = (
        {**factory.fixed_parameters(), **values},
        factory.units(data),
        values["coefficients"],
    )
    if not units.plain:
        white = units.white(white) * units.y_scale
    form = factory.linear_form(factory.covariance_function(numbers, data), data)
    Q = pt.eye(data.n_features) if form.Q is None else form.Q
    if has_own_population(factory):
        d, W, _ = weight_graph(form, numbers["amplitude"])
        return low_rank_density(white, Q, d, W)
    return coefficients_density(white, Q, numbers["amplitude"] ** 2 * form.task_matrix)

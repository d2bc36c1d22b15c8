r"""The Gibbs sampler of a matrix-normal hierarchy as one step of ``pm.sample``.

The step claims the coefficients and covariances of a max-margin model. What a user's subclass adds (a random
intercept, a second likelihood) is left to NUTS or to any other step. To the block these variables are an offset: the
function values are :math:`f_n = x_n' h_{t(n)} + o_n`, and given ``o`` the engine of
:mod:`zoo.inference.gibbs.matrix_normal` keeps the conditional law of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator
from pytensor.graph.traversal import ancestors
from scipy.linalg import solve_triangular

from zoo.inference.gibbs.matrix_normal import MatrixNormalKernel

__all__ = ["BLOCK", "MatrixNormalGibbs"]

Point = dict[str, np.ndarray]

# The block's variables where they are learned; C only under a likelihood that can be Gaussian given an augmentation.
BLOCK = ("_coefficients", "_feature_chol", "_task_chol", "C")
_POSITION_OF_F = 2  # among the inputs of a likelihood: after the generator and the size


class MatrixNormalGibbs(BlockedStep):
    """Draws coefficients and covariances of a max-margin model given all its other variables.

    Parameters
    ----------
    vars : list
        The block: ``_coefficients``, and of ``_feature_chol``, ``_task_chol`` and ``C`` those that the model has.
    kernel : MatrixNormalKernel
        Of the same data and fields.
    reference : pm.Model
        The model that the kernel was derived for, with no other variables.
    model : pm.Model, optional
        By default that on the context stack.
    units : optional
        Of the kernel's features and responses, where these are others than the model's: what has ``inwards`` and
        ``outwards`` for variables by name, and ``own.apply_y`` for functions.
    sweeps : int
        Sweeps per step.
    rng : optional
        ``pm.sample`` seeds the step itself.

    Raises
    ------
    ValueError
        Where the model changes the block, so that the step would sample from the wrong posterior: another prior,
        another likelihood, a block that enters elsewhere than as ``x'h`` in f.
    """

    name = "matrix_normal_gibbs"
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any,
        *,
        kernel: MatrixNormalKernel,
        reference: Any,
        model: Any = None,
        units: Any = None,
        sweeps: int = 1,
        rng: Any = None,
        blocked: bool = True,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ):
        model = pm.modelcontext(model)
        block = [model.values_to_rvs.get(variable, variable) for variable in vars]
        self.vars = [model.rvs_to_values[variable] for variable in block]
        self.sweeps = sweeps
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self._names = {str(rv.name): str(model.rvs_to_values[rv].name) for rv in block}
        self._kernel, self._units = kernel, None if units is None or units.plain else units
        self._f, self._f_inputs = _function_of_point(model, [_function_values_of(model)])
        factors = [model[name] for name in ("_feature_chol", "_task_chol") if name in self._names]
        self._values, self._value_inputs = _function_of_point(model, [model["coefficients"], *factors])
        self._forward = {str(rv.name): _forward(model, rv) for rv in factors}
        _require_block(self, model, reference, block)
        self._state = kernel.initialise(np.random.default_rng(0))

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """A few sweeps of the block; the rest of the point stays."""
        state = self._state
        self._kernel.set_values(state, self._block_values(point))
        f = self._functions(point)
        state["rows"].offset[:] += f[state["order"]] - state["f"]
        state["f"][:] = f[state["order"]]
        for _ in range(self.sweeps):
            self._kernel.sweep(self.rng, state)
        return {**point, **self._point_of(self._kernel.raw(state))}, [{}]

    def _functions(self, point: Point) -> np.ndarray:
        """Function values at a point, as the kernel has them."""
        [f] = self._f(*(point[name] for name in self._f_inputs))
        return np.asarray(f if self._units is None else self._units.own.apply_y(f))

    def _block_values(self, point: Point) -> dict[str, np.ndarray]:
        """Coefficients and covariances at a point, as the kernel has them."""
        coefficients, *factors = self._values(*(point[name] for name in self._value_inputs))
        values = {"coefficients": coefficients}
        if "C" in self._names:
            values["C"] = np.exp(point[self._names["C"]])
        values = values if self._units is None else self._units.inwards(values)
        for name, factor in zip(self._forward, factors, strict=True):
            values[name.removeprefix("_").replace("chol", "cov")] = factor @ factor.T
        return values

    def _point_of(self, values: dict[str, np.ndarray]) -> Point:
        """The block's unconstrained variables at these coefficients and covariances."""
        moved: Point = {}
        white = values["coefficients"]
        for which, given in (
            ("feature", self._kernel.feature_prior.given),
            ("task", self._kernel.task_prior.given),
        ):
            if given is not None and not given.size:  # the identity
                white = white.T
                continue
            factor = np.linalg.cholesky(values[f"{which}_cov"] if given is None else given)
            if given is None:
                name = f"_{which}_chol"
                moved[self._names[name]] = self._forward[name](factor)
            white = solve_triangular(factor, white, lower=True).T  # twice: L_f^-1 eta L_t^-T
        moved[self._names["_coefficients"]] = white
        if "C" in self._names:
            C = {"C": values["C"]}
            moved[self._names["C"]] = np.asarray(
                np.log((C if self._units is None else self._units.outwards(C))["C"])
            )
        return moved


def _function_of_point(model: pm.Model, graphs: list[Any]) -> tuple[Callable[..., Any], list[str]]:
    """``graphs`` as a function of the sampler's variables, which may be transformed, and their names."""
    graphs = model.replace_rvs_by_values(graphs)
    reached = set(ancestors(graphs))
    inputs = [value for value in model.value_vars if value in reached]
    return pm.pytensorf.compile(inputs, graphs), [str(value.name) for value in inputs]


def _forward(model: pm.Model, rv: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The variable's transform to the sampler's coordinates, compiled."""
    transform = model.rvs_to_transforms[rv]
    value = rv.type("factor")
    return pm.pytensorf.compile([value], transform.forward(value, *rv.owner.inputs))


def _function_values_of(model: pm.Model) -> Any:
    """The graph of f in the likelihood."""
    return model["y"].owner.inputs[_POSITION_OF_F]


def _require_block(step: MatrixNormalGibbs, model: pm.Model, reference: pm.Model, block: list[Any]) -> None:
    """Raise unless the block's law given the rest is the one that the kernel draws from."""
    y = model["y"]
    if type(y.owner.op) is not type(reference["y"].owner.op):
        raise ValueError(
            "the model's 'y' has another likelihood than the Gibbs step was derived for. Leave the step out."
        )
    for variable in [*model.free_RVs, *model.observed_RVs, *model.potentials]:
        if variable is not y and variable not in block and set(block) & set(ancestors([variable])):
            raise ValueError(
                f"{variable.name!r} depends on the coefficients or covariances, of which the Gibbs step sees "
                "the likelihood of 'y' alone. Leave the step out, or make it depend on other variables."
            )
    rng = np.random.default_rng(0)
    start = {name: np.asarray(value, dtype=np.float64) for name, value in model.initial_point(0).items()}
    other = {
        **start,
        **{v.name: start[v.name] + 0.3 * rng.standard_normal(start[v.name].shape) for v in step.vars},
    }
    points = [start, other]
    here, there = _prior_gaps(model, reference, block, points)
    if not np.isclose(here, there, rtol=1e-8, atol=1e-6):
        raise ValueError(
            "the prior of the coefficients and covariances is not the one that the Gibbs step was derived for. "
            "Leave the step out."
        )
    first, second = (_function_gap(step, point) for point in points)
    if not np.allclose(first, second, rtol=1e-8, atol=1e-8 * (1.0 + np.abs(first).max())):
        raise ValueError(
            "the function values are not x'coefficients plus terms without them, which the Gibbs step was derived "
            "for. Leave the step out."
        )


def _prior_gaps(model: pm.Model, reference: pm.Model, block: list[Any], points: list[Point]) -> list[float]:
    """Log prior of the block in the model minus that in the reference, at each point."""
    ours, names = _function_of_point(model, [model.logp(vars=block)])
    theirs, their_names = _function_of_point(
        reference, [reference.logp(vars=[reference[v.name] for v in block])]
    )
    return [
        float(ours(*(p[n] for n in names))[0]) - float(theirs(*(p[n] for n in their_names))[0])
        for p in points
    ]


def _function_gap(step: MatrixNormalGibbs, point: Point) -> np.ndarray:
    """What f holds beside ``x'h``, (N,)."""
    kernel = step._kernel
    f = step._functions(point)
    eta = step._block_values(point)["coefficients"]
    linear: np.ndarray = np.einsum("nd,nd->n", kernel.inputs[kernel.row], eta.T[kernel.task])
    return np.asarray(f - linear)

"""Gibbs steps for the binary matrix of a finite Indian buffet process inside ``pm.sample``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors

from zoo.inference.gibbs.buffet import finite_buffet_sweep

__all__ = ["IndianBuffetGibbs"]

Point = dict[str, np.ndarray]


class IndianBuffetGibbs(BlockedStep):
    r"""Draws Z, an ``IndianBuffet`` variable, entry by entry from its exact conditional.

    Z may enter the model through the coefficients alone, whose law given Z must be
    :math:`MN(0, I + Z Z', I)`: see :mod:`zoo.inference.gibbs.buffet`. Their likelihood may be any.

    Parameters
    ----------
    vars : list of one variable
        Z (D, K), the random variable or its value variable.
    coefficients : str
        Name of the whitened coefficients (D, T).
    model : pm.Model, optional
        By default that on the context stack.
    rng : optional
        ``pm.sample`` seeds the step itself.

    Raises
    ------
    ValueError
        Where the model is another, so that these steps would sample from the wrong posterior.
    """

    name = "indian_buffet_gibbs"
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any,
        *,
        coefficients: str = "_coefficients",
        model: Any = None,
        rng: Any = None,
        blocked: bool = True,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ):
        model = pm.modelcontext(model)
        [Z] = vars if isinstance(vars, list | tuple) else [vars]
        Z = model.values_to_rvs.get(Z, Z)
        if coefficients not in model.named_vars:
            raise ValueError(f"the model has no variable {coefficients!r}. Name the whitened coefficients.")
        white = model[coefficients]
        _require_conditional(model, Z, white)
        self.vars = [model.rvs_to_values[Z]]
        self.coefficients = model.rvs_to_values[white].name
        [alpha] = model.replace_rvs_by_values([Z.owner.inputs[-1]])
        self._mass, self._mass_inputs = _function_of_point(model, alpha)
        self.blocked = blocked
        self.rng = get_random_generator(rng)

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """One scan of Z; the rest of the point stays."""
        alpha = float(self._mass(*(point[name] for name in self._mass_inputs)))
        Z = np.array(point[self.vars[0].name], order="C")
        W = np.ascontiguousarray(point[self.coefficients], dtype=np.float64)
        finite_buffet_sweep(self.rng, W, Z, alpha)
        return {**point, self.vars[0].name: Z}, [{}]


def _function_of_point(model: pm.Model, graph: Any) -> tuple[Callable[..., Any], list[str]]:
    """``graph`` as a function of the sampler's variables, which may be transformed, and their names."""
    reached = set(ancestors([graph]))
    inputs = [value for value in model.value_vars if value in reached]
    # Interpreted: the graphs are tiny, or evaluated a few times only.
    function = pm.pytensorf.compile(inputs, graph, mode=Mode("py", "fast_compile"))
    return function, [value.name for value in inputs]


def _require_conditional(model: pm.Model, Z: Any, white: Any) -> None:
    """Raise unless Z is free, under the finite buffet prior, and enters through the law of ``white`` alone."""
    if Z not in model.free_RVs or getattr(Z.owner.op, "name", None) != "indian_buffet":
        raise ValueError(f"{Z.name!r} is no free IndianBuffet variable. Give another step method for it.")
    for variable in [*model.free_RVs, *model.observed_RVs, *model.potentials]:
        if variable is not Z and variable is not white and Z in ancestors([variable], blockers=[white]):
            raise ValueError(
                f"{Z.name!r} enters {variable.name!r} other than through {white.name!r}, so the Gibbs step for "
                f"{Z.name!r} would sample from another posterior. Give another step method for {Z.name!r}."
            )
    if not _is_matrix_normal(model, model.rvs_to_values[Z].name, white):
        raise ValueError(
            f"the law of {white.name!r} given {Z.name!r} is not MN(0, I + ZZ', I), which the Gibbs step for "
            f"{Z.name!r} was derived for. Give another step method for {Z.name!r}."
        )


def _is_matrix_normal(model: pm.Model, matrix: str, white: Any) -> bool:
    """Whether log density and formula differ by the same at two matrices and two values."""
    density, names = _function_of_point(model, model.logp(vars=[white], jacobian=False))
    point, rng, gaps = model.initial_point(0), np.random.default_rng(0), []
    value = model.rvs_to_values[white].name
    for ones in (0.2, 0.7):
        Z = (rng.random(point[matrix].shape) < ones).astype(point[matrix].dtype)
        point[matrix], W = Z, rng.standard_normal(point[value].shape)
        point[value] = W
        precision = np.linalg.inv(np.eye(len(W)) + Z @ Z.T)
        formula = 0.5 * W.shape[1] * np.linalg.slogdet(precision)[1] - 0.5 * np.sum(W * (precision @ W))
        gaps.append(float(density(*(point[name] for name in names))) - formula)
    return bool(np.isclose(gaps[0], gaps[1], rtol=1e-9, atol=1e-6))

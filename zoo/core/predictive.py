"""Predictive draws by the model's own graph, so that every hook of a subclass counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from scipy.special import ndtri

from zoo.core.context import Context
from zoo.core.hooks import ModelData
from zoo.core.missing_features import MISSING, gap_slices
from zoo.core.protocols import Model
from zoo.data.multitask import MultiTaskData
from zoo.support.memory import require_memory
from zoo.support.quick import QUICK
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.likelihoods.base import Likelihood

__all__ = [
    "PointwiseLogLikelihood",
    "at_draws",
    "depends_on",
    "draws_by_block",
    "hidden_variables",
    "joint_draws",
    "normal_summary",
    "pointwise_log_likelihood",
    "predictive_draws",
    "responses_given",
]

_VALUES_PER_BLOCK = 20_000_000


def predictive_draws(
    factory: Model, rows: MultiTaskData, posterior: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of f and y at new rows, each (S, n) for S posterior draws.

    Parameters
    ----------
    rows : MultiTaskData
        New rows on the model's scale; their ``y`` is a placeholder.
    posterior : dict of (chain, draw, ...) arrays
    """
    n_draws = _n_draws(posterior)
    require_memory(
        {"f": rows.n_rows, "y": rows.n_rows},
        n_draws,
        f"predictions of {counted(rows.n_rows, 'row', ',')} by {counted(n_draws, 'draw', ',')}",
        "Predict fewer rows at a time.",
    )
    f = np.empty((n_draws, rows.n_rows))
    y = np.empty((n_draws, rows.n_rows))
    for block, of_f, of_y in draws_by_block(factory, rows, posterior, rng):
        f[:, block], y[:, block] = of_f, of_y
    return f, y


def draws_by_block(
    factory: Model, rows: MultiTaskData, posterior: Mapping[str, np.ndarray], rng: np.random.Generator
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """The same for some rows at a time: which ones, f and y.

    The model is assembled on the new rows, its posterior variables become inputs, and f and y are evaluated
    draw by draw.
    """
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in posterior.items()}
    n_draws = _n_draws(posterior)
    # Alternatives of one choice cannot be drawn apart.
    step = max(1, _VALUES_PER_BLOCK // n_draws) if rows.choice is None else rows.n_rows
    gaps = gap_slices(rows)
    for start in range(0, rows.n_rows, step):
        block = slice(start, min(start + step, rows.n_rows))
        function, inputs = _compile(factory, rows.take(block), list(flat), int(rng.integers(2**31)))
        of_block = dict(flat)
        if MISSING in flat:
            of_block[MISSING] = flat[MISSING][:, gaps[block.start] : gaps[block.stop]]
        f, y = np.empty((2, n_draws, block.stop - block.start))
        for s in range(n_draws):
            f[s], y[s] = function(*(of_block[name][s] for name in inputs))
        yield block, f, y


def _n_draws(posterior: Mapping[str, np.ndarray]) -> int:
    return int(np.prod(next(iter(posterior.values())).shape[:2]))


def at_draws(
    factory: Model,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    outputs: Callable[[ModelData, dict[str, Any]], list[Any]],
) -> list[np.ndarray]:
    """What ``outputs(data, priors)`` makes of the model's variables at prepared rows, evaluated at each posterior draw.

    Returns
    -------
    list of (S, ...) arrays
        One for each output.
    """
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in posterior.items()}
    with pm.Model(coords=factory.coords(rows), model=None) as model:
        view = ModelData.in_model(rows, rows.y)
        wanted = outputs(view, factory.priors(view))
    replaced, inputs = _at_draws(model, wanted, list(flat))
    function = pm.pytensorf.compile(list(inputs.values()), replaced, mode=QUICK)
    values = [function(*(flat[name][s] for name in inputs)) for s in range(len(next(iter(flat.values()))))]
    return [np.stack(part) for part in zip(*values, strict=True)]


def depends_on(factory: Model, rows: MultiTaskData, name: str) -> bool:
    """Whether f or y of the model on these prepared rows depends on a variable of the model."""
    model, f = factory.assemble(rows, rows.y)
    return name in model.named_vars and model[name] in set(ancestors([f, model["y"]]))


def pointwise_log_likelihood(
    factory: Model, data: MultiTaskData, y: np.ndarray, posterior: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Log density of every row of the data at every posterior draw, (S, N), by the model's own likelihood term.

    Parameters
    ----------
    data : MultiTaskData
        Rows on the model's scale.
    y : (N,) array
        Their coded responses.
    posterior : dict of (chain, draw, ...) arrays
    """
    return PointwiseLogLikelihood(factory, data, y, list(posterior))(posterior)


class PointwiseLogLikelihood:
    """The same for many posteriors of the same rows, compiled once.

    Parameters
    ----------
    factory, data, y
        As above.
    names : list of str
        Variables that the posteriors hold.
    """

    def __init__(self, factory: Model, data: MultiTaskData, y: np.ndarray, names: list[str]):
        self._model, _ = factory.assemble(data, y)
        observed = self._model["y"]
        [term], inputs = _at_draws(self._model, [observed], names)
        density = pm.logp(term, self._model.rvs_to_values[observed])
        self._names, self._n_rows = list(inputs), data.n_rows
        self._function = pm.pytensorf.compile(list(inputs.values()), density, mode=QUICK)

    def set_response(self, y: np.ndarray) -> None:
        """Take other coded responses (N,)."""
        self._model.set_data("y_observed", y)

    def __call__(self, posterior: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log densities (S, N) at posterior draws (chain, draw, ...)."""
        flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in posterior.items()}
        n_draws = len(next(iter(flat.values())))
        require_memory(
            {"log_likelihood": self._n_rows},
            n_draws,
            f"the log likelihood of {counted(self._n_rows, 'row', ',')} by {counted(n_draws, 'draw', ',')}",
            "Fit with fewer draws.",
        )
        result = np.empty((n_draws, self._n_rows))
        for s in range(n_draws):
            result[s] = self._function(*(flat[name][s] for name in self._names))
        return result


def joint_draws(
    factory: Model, data: MultiTaskData, size: int, random_seed: Any = None
) -> tuple[np.ndarray, xr.Dataset]:
    """Independent draws of y (size, N) and of the variables of the model, from their joint law.

    Of ``data`` only features and tasks are used, and y where the prior looks at it. Auxiliary variables are left out.

    Returns
    -------
    y : (size, N) array
        Coded responses.
    truth : xarray.Dataset
        Dims ``draw`` and those of each variable.
    """
    data.require_single_rows("a draw of responses")
    coded = np.where(np.arange(data.n_rows) % 2 == 0, -1.0, 1.0)
    model, _ = factory.assemble(factory.design(replace(data, y=coded), Context(data)), coded)
    wanted = [v.name for v in model.free_RVs + model.deterministics if not v.name.startswith("_")]
    function = pm.pytensorf.compile(
        [], [model[name] for name in [*wanted, "y"]], mode=QUICK, random_seed=random_seed
    )
    draws = [function() for _ in range(size)]
    *values, y = (np.stack(column) for column in zip(*draws, strict=True))
    dims = model.named_vars_to_dims
    truth = xr.Dataset(
        {
            n: (("draw", *dims.get(n, [f"{n}_dim_{i}" for i in range(v.ndim - 1)])), v)
            for n, v in zip(wanted, values, strict=True)
        },
        coords={k: list(v) for k, v in model.coords.items() if k != "obs" and v is not None},
    )
    return np.asarray(y, dtype=np.float64), truth


def responses_given(
    likelihood: Likelihood, f: np.ndarray, parameters: dict[str, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """A response for every draw of f (S, n), by the likelihood's own law with these parameters."""
    flat, y = f.ravel(), np.empty(f.size)
    for start in range(0, f.size, _VALUES_PER_BLOCK):
        block = slice(start, start + _VALUES_PER_BLOCK)
        size = len(flat[block])
        with pm.Model(coords={"obs": np.arange(size)}, model=None):
            term = likelihood.term(pt.constant(flat[block]), np.ones(size), **parameters)
        draw = pm.pytensorf.compile([], term, mode=QUICK, random_seed=int(rng.integers(2**31)))
        y[block] = draw()
    return y.reshape(f.shape)


def _compile(factory: Model, rows: MultiTaskData, available: list[str], seed: int) -> tuple[Any, list[str]]:
    model, f = factory.assemble(rows, rows.y)
    replaced, inputs = _at_draws(model, [f, model["y"]], available)
    function = pm.pytensorf.compile(list(inputs.values()), replaced, mode=QUICK, random_seed=seed)
    return function, list(inputs)


def hidden_variables(model: pm.Model, outputs: list[Any], held: list[Any]) -> list[Any]:
    """Free variables on which the outputs depend, given the variables that are held."""
    reached = set(ancestors(outputs, blockers=held))
    return [v for v in model.free_RVs if v in reached and v not in held]


def _at_draws(model: pm.Model, outputs: list[Any], available: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Outputs as functions of the posterior's variables, and these inputs by name."""
    drawn = [model[name] for name in available if name in model.named_vars]
    # The graph is cut where it first meets a variable that the posterior holds.
    reached = set(ancestors(outputs, blockers=drawn))
    hidden = hidden_variables(model, outputs, drawn)
    if hidden:
        raise ValueError(
            f"prediction needs {hidden[0].name!r}, which the posterior does not hold. "
            "Take the leading underscore from its name, pass it on through a pm.Deterministic, "
            "or, for a new task, return it from the hook `new_task`."
        )
    inputs = {v.name: v.type(f"{v.name}_draw") for v in drawn if v in reached}
    return clone_replace(outputs, {model[name]: value for name, value in inputs.items()}), inputs


def normal_summary(mean: np.ndarray, sd: np.ndarray, ci_prob: float) -> dict[str, np.ndarray]:
    """Mean, standard deviation and central interval of normal laws."""
    z = ndtri(0.5 + ci_prob / 2.0)
    return {"mean": mean, "sd": sd, "lower": mean - z * sd, "upper": mean + z * sd}

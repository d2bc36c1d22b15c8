"""The PyMC model of a fit: what PyMC's own functions need to read a posterior that holds no auxiliary variables.

The model that NUTS samples is non-centred: most of its free variables are auxiliary, and a posterior, whatever the
method, holds what they stand for (``coefficients``, ``feature_cov``). PyMC's ``sample_posterior_predictive`` draws
every free variable that it misses from the prior, without a word. There are two guards against that:

* :class:`~zoo.core.factory_model.FactoryModel`, which ``factory.build`` returns, tells PyMC that a named quantity
  which a trace holds is to be taken from the trace, and not to be computed anew from free variables that the trace has
  not.
* :func:`model_of_fit` makes a model whose free variables are those of the posterior. Their prior is the density of the
  named variables themselves, where the factory says it (:meth:`zoo.ModelFactory.prior_density`).
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Constant, clone_get_equiv
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise

from zoo.core.context import Context
from zoo.core.keep import require_draws
from zoo.core.missing_features import MISSING
from zoo.core.predictive import hidden_variables
from zoo.core.protocols import Fitted, Model
from zoo.data.multitask import MultiTaskData
from zoo.support.warning_types import warn_user

__all__ = ["FitModel", "model_of_fit", "to_pymc"]

_ROWS = ("X", "row", "task_index", "t")
"""Data variables that say which rows a model is at."""


class FitModel(pm.Model):
    """A model whose free variables are those of a posterior.

    Parameters
    ----------
    rows_are_fixed : str
        Why the rows cannot be changed by ``set_data``; empty where they can.
    standardized : bool
        Whether features and responses are on the scale of ``data.standardize()``.
    """

    def __init__(self, *args: Any, rows_are_fixed: str = "", standardized: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.rows_are_fixed, self.standardized = rows_are_fixed, standardized

    def set_data(self, name: str, values: Any, coords: dict[str, Any] | None = None) -> None:
        """Change the rows; see :meth:`pymc.Model.set_data`.

        Features and responses are on the model's scale, which is another than the user's where the data were
        standardized: a warning says so. ``fit.to_pymc(X, task=...)`` reads rows on the user's scale.

        Raises
        ------
        ValueError
            The functions of this model are numbers at its own rows: other rows would have no effect.
        """
        if name in _ROWS and self.rows_are_fixed:
            raise ValueError(
                f"{name!r} cannot be set: {self.rows_are_fixed}. "
                "Use `model, idata = fit.to_pymc(X, task=..., t=...)`, a model at the new rows."
            )
        if name in ("X", "t") and self.standardized:
            warn_user(
                f"{name!r} is on the scale of data.standardize(), on which the model is. "
                "`fit.to_pymc(X, task=...)` reads rows on your scale."
            )
        super().set_data(name, values, coords=coords)


# ---------------------------------------------------------------- the models of a fit


def model_of_fit(fit: Fitted) -> FitModel:
    """The model of the fitted rows, for the posterior as ``fit.idata`` holds it; see :attr:`zoo.Fit.model`."""
    factory = fit.factory
    if fit.is_point:
        raise ValueError(
            f"method {fit.method!r} gives one estimate, of which predictive draws need more than fit.idata holds. "
            "Use `model, idata = fit.to_pymc()`, whose idata holds draws given the estimate."
        )
    require_draws(fit, "fit.model", "fit.to_pymc(X, task=...) draws those of the rows that it is given.")
    held = fit.posterior
    y = factory.validate_quietly(fit.data)
    context = Context(fit.population_data) if fit.conditioned else None
    rows = factory.design(fit.data, context)
    model, _ = factory.assemble(rows, y)
    if factory.integrates_functions or hidden_variables(model, [model["y"]], _held(model, held)):
        # y given the variables of the posterior is another law than y given these and the responses: predictions
        # are made by the model of new rows, as `predict` makes them.
        rows = _at_known_rows(fit)
        model, _ = factory.assemble(rows, y)
    return _cut(factory, fit, model, rows, held)


def to_pymc(
    fit: Fitted, X: Any, task: Any, t: Any, new_task: bool, random_seed: Any
) -> tuple[FitModel, xr.DataTree]:
    """A model at any rows, and the draws for it; see :meth:`zoo.Fit.to_pymc`."""
    factory = fit.factory
    known = X is None
    if known and (task is not None or t is not None or new_task):
        raise ValueError(
            "X is missing. Give the features of the rows, or leave task, t and new_task out too."
        )
    rows, draws, _ = fit.rows_to_predict(fit.data if known else X, task, t, new_task, random_seed)
    y = factory.validate_quietly(fit.data) if known else rows.y
    model, _ = factory.assemble(rows, y)
    dims = {str(n): v.dims[2:] for n, v in fit.posterior.items()}
    dims |= {name: tuple(model.named_vars_to_dims.get(name, ())) for name in draws if name not in dims}
    coords = factory.coords(rows)
    variables = {
        name: xr.Variable(("chain", "draw", *dims[name]), values)
        for name, values in draws.items()
        if values.ndim == 2 + len(dims[name])
    }
    used = {dim for v in variables.values() for dim in v.dims}
    chains, n_draws = next(iter(draws.values())).shape[:2]
    posterior = xr.Dataset(
        variables,
        coords={
            "chain": np.arange(chains),
            "draw": np.arange(n_draws),
            **{d: list(c) for d, c in coords.items() if d in used and len(c) == _size(variables, d)},
        },
    )
    served = _cut(factory, fit, model, rows, posterior)
    groups = {"posterior": posterior}
    if known:
        groups["observed_data"] = xr.Dataset(
            {"y": ("obs", fit.data.y)}, coords={"obs": np.arange(rows.n_rows)}
        )
    return served, xr.DataTree.from_dict(groups)


def _size(variables: dict[str, xr.Variable], dim: str) -> int:
    return next(v.sizes[dim] for v in variables.values() if dim in v.dims)


def _at_known_rows(fit: Fitted) -> MultiTaskData:
    """The rows of the fit as rows to predict."""
    rows = fit.factory.design(fit.data, fit.context)
    return replace(rows, weight=None) if rows.weight is not None else rows


# ---------------------------------------------------------------- cutting a model at the posterior's variables


def _held(model: pm.Model, posterior: xr.Dataset) -> list[Any]:
    """Variables of the model that the posterior holds."""
    return [model[name] for name in map(str, posterior.data_vars) if name in model.named_vars]


def _cut(
    factory: Model,
    fit: Fitted,
    old: pm.Model,
    rows: MultiTaskData,
    held: xr.Dataset,
) -> FitModel:
    """The old model with the posterior's variables as its free ones, and y as it follows from them."""
    scaled = fit.data.transform is not None
    coords = {d: list(range(held.sizes[d])) if _counts(old, d, held) else c for d, c in old.coords.items()}
    with FitModel(coords=coords, model=None, standardized=scaled) as new:
        # Only rows may change. Along other dims PyMC would ask whether draws should be drawn anew.
        replaced: dict[Any, Any] = {
            length: new.dim_lengths[dim]
            if dim in ("obs", "input_row")
            else pt.constant(int(length.eval()), dtype=length.dtype)
            for dim, length in old.dim_lengths.items()
        }
        for variable in old.data_vars:
            replaced[variable] = pm.Data(
                variable.name, variable.get_value(), dims=old.named_vars_to_dims.get(variable.name)
            )
        for variable in _in_order(factory, old, _held(old, held)):
            replaced[variable] = _free(factory, old, variable, held, replaced, rows)
        # What is left are innovations of rows to predict: their law is that of the model.
        observed = old["y"]
        value = old.rvs_to_values[observed]
        for variable in hidden_variables(old, [observed], _held(old, held)):
            if variable.name.startswith("_"):
                raise ValueError(
                    f"y needs {variable.name!r}, which the posterior does not hold. Take the leading underscore from "
                    "its name, or pass it on through a pm.Deterministic."
                )
        y = _copy(observed, replaced)
        new.register_rv(y, "y", observed=replaced.get(value, value), dims=("obs",))
    new.rows_are_fixed = _why_fixed(new, rows, fit)
    return new


def _copy(variable: Any, replaced: dict[Any, Any]) -> Any:
    """The graph of a variable with parts replaced, by those very variables: `clone_replace` would copy them too."""
    memo = dict(replaced)
    clone_get_equiv(list(replaced), [variable], copy_inputs=False, copy_orphans=False, memo=memo)
    return memo[variable]


def _in_order(factory: Model, old: pm.Model, held: list[Any]) -> list[Any]:
    """The variables, each behind those that its law depends on."""
    order = factory.prior_order
    free = [v for v in old.free_RVs if v in held and v.name not in order]
    first = sorted((v for v in held if v.name in order), key=lambda v: order.index(v.name))
    return free + first + [v for v in old.deterministics if v in held and v.name not in order]


def _free(
    factory: Model,
    old: pm.Model,
    variable: Any,
    held: xr.Dataset,
    replaced: dict[Any, Any],
    rows: MultiTaskData,
) -> Any:
    """One variable of the posterior in the new model."""
    name, dims = variable.name, old.named_vars_to_dims.get(variable.name)
    others = [v for v in _held(old, held) if v is not variable]
    hidden = [v for v in hidden_variables(old, [variable], others) if v is not variable]
    model = pm.modelcontext(None)
    # A dim that is merely counted may have become longer than the model says, as the columns of a binary matrix.
    longer = any(_counts(old, d, held) for d in dims or ())
    if not hidden and not longer and not _follows_longer(old, variable, held):
        copy = _copy(variable, replaced)
        if variable in old.free_RVs:
            return model.register_rv(copy, name, dims=dims)
        return pm.Deterministic(name, copy, dims=dims)
    before = {v.name: w for v, w in replaced.items() if v in [*old.free_RVs, *old.deterministics]}
    return _opaque(factory, name, held[name], dims, before, rows)


def _opaque(
    factory: Model, name: str, like: xr.DataArray, dims: Any, given: dict[str, Any], rows: Any
) -> Any:
    """A variable that the original model reaches through auxiliary ones: its density is the factory's.

    Parameters
    ----------
    like : xarray.DataArray
        Draws (chain, draw, ...) of it.
    given : dict
        Variables before it, by name.
    """
    sizes = pt.constant(np.array(like.shape[2:], dtype=np.int64))
    refuse = CheckAndRaise(
        ValueError,
        f"{name!r} has to be among the draws: the model of a fit has no draws of its prior. "
        "Use factory.build(data) for draws from the prior.",
    )

    def logp(value: Any, *parameters: Any) -> Any:
        # Behind the parameters stands the size, where PyMC hands it over.
        known = dict(zip(given, parameters, strict=False))
        return _density(factory, name, {**known, name: value}, rows)

    def dist(*parameters: Any) -> Any:
        drawn = pm.Normal.dist(0.0, 1.0, size=sizes)
        return refuse(pt.cast(drawn, like.dtype), pt.constant(False))

    letters = [",".join(f"p{i}q{j}" for j in range(v.ndim)) for i, v in enumerate(given.values())]
    core = ",".join(f"d{j}" for j in range(like.ndim - 2))
    return pm.CustomDist(
        name,
        *given.values(),
        logp=logp,
        dist=dist,
        signature=",".join(f"({entry})" for entry in letters) + f"->({core})",
        dims=dims,
        class_name="PosteriorVariable",
    )


def _follows_longer(old: pm.Model, variable: Any, held: xr.Dataset) -> bool:
    """Whether a deterministic is made of a variable of the posterior that has become longer."""
    above = set(ancestors([variable]))
    return variable in old.deterministics and any(
        _counts(old, d, held)
        for other in _held(old, held)
        if other in above
        for d in old.named_vars_to_dims.get(other.name) or ()
    )


def _counts(old: pm.Model, dim: str, held: xr.Dataset) -> bool:
    """Whether the posterior is longer along this dim than the model."""
    known = old.coords.get(dim)
    return known is not None and dim in held.sizes and held.sizes[dim] > len(known)


def _density(factory: Model, name: str, values: dict[str, Any], rows: MultiTaskData) -> Any:
    """Log prior density of one variable given those before it."""
    owner = next(cls for cls in type(factory).__mro__ if "prior_density" in vars(cls))
    same = inspect.getattr_static(type(factory), "priors") is inspect.getattr_static(owner, "priors")
    density = factory.prior_density(name, rows, values) if same else None
    if density is None and same and name in factory.likelihood.learned:
        density = factory.law_of(name, rows).density_of_deterministic(values[name])
    if density is not None:
        return density
    # PyMC makes the graphs of all densities, also where it evaluates that of y alone.
    refuse = CheckAndRaise(
        NotImplementedError,
        f"{type(factory).__name__} does not say the prior density of {name!r}, so there is no log prior. "
        "Override the hook `prior_density`, or name other variables in var_names.",
    )
    return refuse(pt.sum(pt.cast(values[name], "float64")), pt.constant(False))


def _why_fixed(new: FitModel, rows: MultiTaskData, fit: Fitted) -> str:
    """Why other rows would have no effect, or a wrong one; empty where y follows the data variables."""
    if rows.feature_names != fit.data.feature_names:
        return "the columns of X are not the features of the data but what the model makes of them"
    reached = set(ancestors([new["y"]]))
    if MISSING in new.named_vars:
        return "values that are missing in its own rows are variables of this model"
    if new["X"] not in reached:
        return "the functions of this model are numbers at its own rows"
    free = set(new.named_vars.values())
    for variable in reached - free:
        if isinstance(variable, Constant) and rows.n_rows in np.shape(variable.data) and rows.n_rows > 1:
            return "parts of this model are numbers at its own rows"
    return ""

"""The DataTree of a fit, and how it is written to a NetCDF file: at once or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo._version import __version__
from zoo.core.protocols import Fitted, Model
from zoo.data.formula import FormulaDesign
from zoo.data.multitask import MultiTaskData, Transform
from zoo.support.arrays import as_name
from zoo.support.digest import tree_digest
from zoo.support.files import require_new, staged_file
from zoo.support.seeds import described
from zoo.support.untrusted import seal

__all__ = [
    "ATTRIBUTES",
    "GROUPS",
    "OPTIONAL",
    "SCHEMA_VERSION",
    "WITHOUT_ONCE",
    "digest_of_tree",
    "for_every_draw",
    "save",
    "to_datatree",
]

# Version 3 has a copy for every draw of what all draws share; both are read.
SCHEMA_VERSION, WITHOUT_ONCE = 4, 3
# What a file says of a variable of the posterior that it holds once, because all draws share it.
_ONCE = "same_in_all_draws"
_DATA_INTEGER = np.int32
ATTRIBUTES = ("zoo_schema_version", "zoo_spec", "zoo_method", "zoo_transform")
OPTIONAL = (
    "zoo_conditioned",
    "zoo_task_name",
    "zoo_own_class",
    "zoo_shared",
    "zoo_intercept",
    "zoo_formula",
    "zoo_mean",
    "zoo_grades",
    "zoo_choice_column",
    "zoo_stands_for",
    "zoo_units",
)
GROUPS = ("posterior", "observed_data", "constant_data")
OPTIONAL_GROUPS = ("moments",)


def to_datatree(
    factory: Model,
    data: MultiTaskData,
    prepared: MultiTaskData,
    y: np.ndarray,
    posterior: Any,
    stats: Any,
    method: str,
    random_seed: Any,
    keep: str = "draws",
    moments: Any = None,
) -> xr.DataTree:
    """The DataTree of a fit; ``posterior`` and ``stats`` are Datasets or dicts of (chain, draw, ...) arrays.

    ``prepared`` are the data as the model sees them; ``moments`` holds the mean and standard deviation of variables
    whose draws are not kept, by name.
    """
    coords = factory.coords(prepared)
    dims = factory.variable_dims(prepared, y) if moments or not isinstance(posterior, xr.Dataset) else {}
    if not isinstance(posterior, xr.Dataset):
        posterior = _dataset(posterior, {name: dims.get(name, ()) for name in posterior}, coords)
    if not isinstance(stats, xr.Dataset):
        stats = _dataset(stats, {name: () for name in stats}, {})
    shared = data.shares_inputs
    # Integers as PyMC's data variables hold them, which compares them type by type.
    constant = {**_inputs_to_variables(data), "task_index": ("obs", data.task.astype(_DATA_INTEGER))}
    if shared:
        constant["row"] = ("obs", data.row.astype(_DATA_INTEGER))
    if data.t is not None:
        constant["t"] = (("obs", "t_column"), data.t)
        constant["t_column"] = ("t_column", list(data.t_names or ()))
    if data.weight is not None:
        constant["weight"] = ("obs", data.weight)
    if data.choice is not None:
        constant["choice"] = ("obs", data.choice.astype(_DATA_INTEGER))
    if isinstance(data.design, FormulaDesign):
        columns = enumerate(_with_named_levels(data.design).columns())
        constant |= {f"formula_column_{i}": ("formula_row", values) for i, values in columns}
    attrs = {
        "inference_library": "zoo",
        "inference_library_version": __version__,
        "sampling_method": method,
        "random_seed": described(random_seed),
        "jitter": factory.jitter,
        **({} if keep == "draws" else {"keep": keep}),
    }
    names_only = {
        "task": list(data.task_names), "feature": list(data.feature_names), "obs": pd.RangeIndex(data.n_rows)
    }  # fmt: skip
    return xr.DataTree.from_dict(
        {
            "posterior": posterior.assign_attrs(attrs),
            "sample_stats": stats.assign_attrs(attrs),
            "observed_data": xr.Dataset({"y": ("obs", data.y)}, coords={"obs": names_only["obs"]}),
            "constant_data": xr.Dataset(constant, coords=names_only),
            **({"moments": _moments(moments, dims, coords)} if moments else {}),
        }
    )


def _with_named_levels(design: FormulaDesign) -> FormulaDesign:
    """The design with moments and durations of further groups as their names, which a file holds."""
    groups = [group for group in design.levels if design.table[group].dtype.kind in "mM"]
    named = {group: design.table[group].map(as_name) for group in groups}
    return replace(design, table=design.table.assign(**named))


def _moments(values: dict[str, tuple[np.ndarray, np.ndarray]], dims: Any, coords: Any) -> xr.Dataset:
    """``name_mean`` and ``name_sd`` of each variable."""
    variables = {
        f"{name}_{what}": (dims[name], array)
        for name, parts in values.items()
        for what, array in zip(("mean", "sd"), parts, strict=True)
    }
    used = {dim: list(coords[dim]) for name in values for dim in dims[name]}
    return xr.Dataset(variables, coords=used)


def _inputs_to_variables(data: MultiTaskData) -> dict[str, Any]:
    """The distinct feature rows as ``X``, or as the three parts of a csr_matrix, whose dims are their own."""
    inputs: Any = data.inputs
    if not data.is_sparse:
        return {"X": (("input_row" if data.shares_inputs else "obs", "feature"), inputs)}
    return {
        "X_data": ("X_nonzero", inputs.data),
        "X_indices": ("X_nonzero", inputs.indices),
        "X_indptr": ("X_pointer", inputs.indptr),
    }


def _dataset(values: dict[str, np.ndarray], dims: dict[str, Any], coords: dict[str, Any]) -> xr.Dataset:
    variables = {name: (("chain", "draw", *dims[name]), array) for name, array in values.items()}
    chain, draw = next(iter(values.values())).shape[:2]
    sizes = {d: n for name, array in values.items() for d, n in zip(dims[name], array.shape[2:], strict=True)}
    used = {d: _counted(list(coords[d]), n) for d, n in sizes.items() if d in coords}
    return xr.Dataset(variables, coords={"chain": np.arange(chain), "draw": np.arange(draw), **used})


def _counted(names: list[Any], size: int) -> list[Any]:
    """Names along a dim; a dim that is merely counted may have become longer than the description says."""
    longer = len(names) < size and names == list(range(len(names)))
    return list(range(size)) if longer else names


def _transform_to_json(transform: Transform | None) -> dict[str, Any] | None:
    if transform is None:
        return None
    return {
        "x_mean": transform.x_mean.tolist(),
        "x_scale": transform.x_scale.tolist(),
        "y_mean": transform.y_mean,
        "y_scale": transform.y_scale,
    }


def _units_to_json(units: Any) -> dict[str, Any] | None:
    """Units that were given, as those of a fit that has grown; None where they follow from the data."""
    numbers = _transform_to_json(units)
    return None if numbers is None else {**numbers, "level": units.level}


def save(fit: Fitted, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Write a fit to a NetCDF file under a temporary name, then rename it; see :meth:`Fit.save`."""
    require_new(path, overwrite)
    if fit.data.design is not None and fit.data.design.new_levels:
        raise ValueError(
            "the fit has levels that with_new_levels drew. Save the fit as it was before, and draw them again from the "
            "loaded one."
        )
    tree, some_once = _once(fit.idata)
    tree.attrs.update(
        zoo_schema_version=SCHEMA_VERSION if some_once else WITHOUT_ONCE,
        zoo_spec=json.dumps(fit.factory.to_spec()),
        zoo_method=fit.method,
        zoo_transform=json.dumps(_transform_to_json(fit.data.transform)),
        # Without it a file is of a time when default priors were on the scale of the data.
        zoo_units=json.dumps(_units_to_json(fit.data.units)),
        zoo_conditioned=json.dumps(fit.conditioned),
        **({} if fit.data.task_column is None else {"zoo_task_name": json.dumps(fit.data.task_column)}),
        **(
            {}
            if fit.data.learned_mean is None
            else {"zoo_mean": json.dumps(fit.data.learned_mean.description())}
        ),
        **({} if fit.data.design is None else {"zoo_formula": json.dumps(fit.data.design.description())}),
        **({} if fit.data.intercept is None else {"zoo_intercept": json.dumps(fit.data.intercept)}),
        **(
            {}
            if fit.data.choice_column is None
            else {"zoo_choice_column": json.dumps(fit.data.choice_column)}
        ),
        **({"zoo_stands_for": json.dumps(fit.data.stands_for)} if fit.data.stands_for else {}),
        **({"zoo_grades": json.dumps(fit.data.grades)} if fit.data.grades else {}),
        **({"zoo_shared": json.dumps(fit.data.shared_names)} if fit.data.shared_names else {}),
        **_own_class(type(fit.factory)),
    )
    tree.attrs["zoo_digest"] = digest_of_tree(tree)
    with staged_file(path) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf")
        seal(Path(temporary))
    return Path(path)


def _once(tree: xr.DataTree) -> tuple[xr.DataTree, bool]:
    """The tree with arrays of the posterior that all draws share held once, and whether there are some.

    Estimates that stand for all draws, as a covariance of tasks, are one array in memory: a file would have a copy of
    it for each draw.
    """
    tree, posterior = tree.copy(), tree["posterior"].to_dataset()
    held = {
        name: v.isel(chain=0, draw=0, drop=True).assign_attrs({_ONCE: 1})
        for name, v in posterior.data_vars.items()
        if _is_shared(v)
    }
    if held:
        tree["posterior"].dataset = posterior.assign(held)
    return tree, bool(held)


def _is_shared(variable: xr.DataArray) -> bool:
    """Whether an array (chain, draw, ...) is one that stands for all draws."""
    if variable.dims[:2] != ("chain", "draw") or variable.ndim == 2 or variable.sizes["chain"] == 0:
        return False
    n_draws, steps = variable.shape[:2], variable.to_numpy().strides[:2]
    return n_draws != (1, 1) and all(step == 0 or n == 1 for n, step in zip(n_draws, steps, strict=True))


def for_every_draw(tree: xr.DataTree) -> xr.DataTree:
    """The inverse: what a file holds once stands for every draw again, without a copy."""
    posterior = tree["posterior"].to_dataset()
    held = {name: v for name, v in posterior.data_vars.items() if _ONCE in v.attrs}
    if not held:
        return tree
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    tree = tree.copy()
    tree["posterior"].dataset = posterior.assign(
        {
            name: (("chain", "draw", *v.dims), np.broadcast_to(v.to_numpy(), (*shape, *v.shape)))
            for name, v in held.items()
        }
    )
    return tree


def _own_class(cls: type) -> dict[str, str]:
    """What a file says of a class that is not zoo's: one that is installed under its name may be another."""
    own = cls.__module__.partition(".")[0] != "zoo"
    return {"zoo_own_class": json.dumps(f"{cls.__module__}.{cls.__qualname__}")} if own else {}


def digest_of_tree(tree: xr.DataTree) -> str:
    """SHA-256 of what a file says of a fit: its groups and its description."""
    texts = [str(tree.attrs[name]) for name in (*ATTRIBUTES, *OPTIONAL) if name in tree.attrs]
    groups = (*GROUPS, *(group for group in OPTIONAL_GROUPS if group in tree.children))
    return tree_digest(tree, groups, texts)

"""The DataTree of a fit, and its NetCDF file: written at once or not at all, read without executing anything."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from zoo.checks import names
from zoo.data import MultiTaskData, Transform
from zoo.files import staged_file

if TYPE_CHECKING:
    from zoo.factory import ModelFactory
    from zoo.fit import Fit

__all__ = ["load", "save", "to_datatree"]

SCHEMA_VERSION = 1
_ATTRIBUTES = ("zoo_schema_version", "zoo_spec", "zoo_method", "zoo_transform")


def to_datatree(
    factory: ModelFactory,
    data: MultiTaskData,
    prepared: MultiTaskData,
    y: np.ndarray,
    posterior: Any,
    stats: Any,
    method: str,
    random_seed: Any,
) -> xr.DataTree:
    """The DataTree of a fit; ``posterior`` and ``stats`` are Datasets or dicts of (chain, draw, ...) arrays.

    ``prepared`` are the data as the model sees them.
    """
    import zoo

    coords = {k: list(v) for k, v in factory.coords(prepared).items()}
    if not isinstance(posterior, xr.Dataset):
        dims = factory.variable_dims(prepared, y)
        posterior = _dataset(posterior, {name: dims.get(name, ()) for name in posterior}, coords)
    if not isinstance(stats, xr.Dataset):
        stats = _dataset(stats, {name: () for name in stats}, {})
    shared = data.shares_inputs
    constant = {**_inputs_to_variables(data), "task_index": ("obs", data.task)}
    if shared:
        constant["row"] = ("obs", data.row)
    if data.t is not None:
        constant["t"] = (("obs", "t_column"), data.t)
        constant["t_column"] = ("t_column", list(data.t_names or ()))
    if data.weight is not None:
        constant["weight"] = ("obs", data.weight)
    attrs = {
        "inference_library": "zoo",
        "inference_library_version": zoo.__version__,
        "sampling_method": method,
        "random_seed": "None" if random_seed is None else str(random_seed),
    }
    names_only = {
        "task": list(data.task_names), "feature": list(data.feature_names), "obs": np.arange(data.n_rows)
    }  # fmt: skip
    return xr.DataTree.from_dict(
        {
            "posterior": posterior.assign_attrs(attrs),
            "sample_stats": stats.assign_attrs(attrs),
            "observed_data": xr.Dataset({"y": ("obs", data.y)}, coords={"obs": names_only["obs"]}),
            "constant_data": xr.Dataset(constant, coords=names_only),
        }
    )


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


def _inputs_from_variables(constant: Any) -> Any:
    if "X" in constant:
        return constant["X"].to_numpy()
    from scipy.sparse import csr_matrix

    data, indices, indptr = (constant[f"X_{part}"].to_numpy() for part in ("data", "indices", "indptr"))
    return csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, constant.sizes["feature"]))


def _dataset(values: dict[str, np.ndarray], dims: dict[str, Any], coords: dict[str, Any]) -> xr.Dataset:
    variables = {name: (("chain", "draw", *dims[name]), array) for name, array in values.items()}
    chain, draw = next(iter(values.values())).shape[:2]
    sizes = {d: n for name, array in values.items() for d, n in zip(dims[name], array.shape[2:], strict=True)}
    used = {d: _counted(coords[d], n) for d, n in sizes.items() if d in coords}
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


def save(fit: Fit, path: str | os.PathLike[str]) -> Path:
    """Write a fit to a NetCDF file under a temporary name, then rename it."""
    tree = fit.idata.copy()
    tree.attrs.update(
        zoo_schema_version=SCHEMA_VERSION,
        zoo_spec=json.dumps(fit.factory.to_spec()),
        zoo_method=fit.method,
        zoo_transform=json.dumps(_transform_to_json(fit.data.transform)),
        zoo_conditioned=json.dumps(fit.conditioned),
    )
    with staged_file(path) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf")
    return Path(path)


def load(path: str | os.PathLike[str], factory: type[ModelFactory] | None = None) -> Fit:
    """Read a fit that :meth:`Fit.save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : path
    factory : type, optional
        The class of a model of your own, which the package does not know by name.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged, or no fit of this package, or of another schema version.
    """
    from zoo.fit import Fit
    from zoo.registry import FACTORIES, get_factory

    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path {str(source)!r} is no file. Give the file that fit.save wrote.")
    try:
        with xr.open_datatree(source, engine="h5netcdf") as opened:
            tree = opened.load()
    except Exception as error:  # h5py, h5netcdf and xarray each raise their own kinds on a damaged file
        raise ValueError(
            f"path {str(source)!r} cannot be read as NetCDF ({type(error).__name__}). "
            "It is damaged, or no file of fit.save."
        ) from error
    absent = [name for name in _ATTRIBUTES if name not in tree.attrs] + [
        group for group in ("posterior", "observed_data", "constant_data") if group not in tree.children
    ]
    if absent:
        raise ValueError(f"path {str(source)!r} holds no fit of zoo: {absent[0]!r} is missing. Use fit.save.")
    version = int(tree.attrs["zoo_schema_version"])
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"path {str(source)!r} has schema version {version}, this zoo reads {SCHEMA_VERSION}. Fit the model again."
        )
    spec = _json_attribute(tree, "zoo_spec", source)
    if (
        not isinstance(spec, dict)
        or set(spec) != {"factory", "fields"}
        or not isinstance(spec["fields"], dict)
    ):
        raise ValueError(f"path {str(source)!r} has a damaged zoo_spec. Fit the model again.")
    if factory is None and spec["factory"] not in FACTORIES:
        raise ValueError(
            f"path {str(source)!r} holds a fit of {spec['factory']!r}, which is unknown. "
            "Pass your own class: zoo.load(path, factory=...)."
        )
    cls = factory or get_factory(spec["factory"])
    if cls.__name__ != spec["factory"]:
        raise ValueError(
            f"path {str(source)!r} holds a fit of {spec['factory']}, not of {cls.__name__}. Pass that class."
        )
    method = tree.attrs["zoo_method"]
    data = _data_from_tree(tree, _json_attribute(tree, "zoo_transform", source))
    conditioned = tuple(json.loads(tree.attrs.pop("zoo_conditioned", "[]")))
    for name in _ATTRIBUTES:
        del tree.attrs[name]
    return Fit(factory=cls.from_spec(spec), data=data, idata=tree, method=method, conditioned=conditioned)


def _json_attribute(tree: xr.DataTree, name: str, source: Path) -> Any:
    try:
        return json.loads(tree.attrs[name])
    except (TypeError, ValueError):
        raise ValueError(f"path {str(source)!r} has a damaged {name}. Fit the model again.") from None


def _t_names(constant: Any) -> tuple[str, ...] | None:
    """Names of the columns of t; None for a file that was written before they had names."""
    if "t" not in constant or "t_column" not in constant.coords:
        return None
    return names([str(v) for v in constant["t_column"].to_numpy()], "t_column")


def _data_from_tree(tree: xr.DataTree, saved: dict[str, Any] | None) -> MultiTaskData:
    constant = tree["constant_data"]
    inputs = _inputs_from_variables(constant)
    transform = None
    if saved is not None:
        transform = Transform(
            np.array(saved["x_mean"]), np.array(saved["x_scale"]), saved["y_mean"], saved["y_scale"]
        )
    data = MultiTaskData(
        inputs=inputs,
        row=constant["row"].to_numpy() if "row" in constant else np.arange(inputs.shape[0]),
        y=tree["observed_data"]["y"].to_numpy(),
        task=constant["task_index"].to_numpy(),
        task_names=names([str(v) for v in constant["task"].to_numpy()], "task"),
        feature_names=names([str(v) for v in constant["feature"].to_numpy()], "feature"),
        t=constant["t"].to_numpy() if "t" in constant else None,
        t_names=_t_names(constant),
        weight=constant["weight"].to_numpy() if "weight" in constant else None,
    )
    return replace(data, transform=transform)

"""Reads the NetCDF file of a fit, which may come from anywhere, without executing anything in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.fit import Fit
from zoo.core.keep import KEEP
from zoo.core.missing_features import MISSING
from zoo.core.protocols import Model
from zoo.core.storage import (
    ATTRIBUTES,
    GROUPS,
    OPTIONAL,
    SCHEMA_VERSION,
    WITHOUT_ONCE,
    digest_of_tree,
    for_every_draw,
)
from zoo.data.categories import CategoryDesign
from zoo.data.formula import FormulaDesign
from zoo.data.learned_mean import LearnedMean
from zoo.data.multitask import MultiTaskData, Transform
from zoo.data.units import Units
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.resolve import likelihood_class, likelihoods
from zoo.support.checks import finite_inputs, finite_matrix, finite_vector, names, whole_number
from zoo.support.untrusted import require_plain_file, require_seal

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
    find: Callable[[str], type[Model] | None],
    factory: type[Model] | None = None,
    likelihood: type[Likelihood] | None = None,
) -> Fit:
    """See :func:`zoo.load`; ``find`` gives the class of a name among those that are installed, or None."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path {str(source)!r} is no file. Give the file that fit.save wrote.")
    try:
        require_seal(source)
        require_plain_file(source)
        with xr.open_datatree(source, engine="h5netcdf") as opened:
            tree = opened.load()
    except Exception as error:  # h5py, h5netcdf and xarray each raise their own kinds on a damaged file
        reason = str(error) if type(error) is ValueError else type(error).__name__
        raise ValueError(
            f"path {str(source)!r} cannot be read as NetCDF ({reason}). It is damaged, or no file of fit.save."
        ) from error
    absent = [name for name in ATTRIBUTES if name not in tree.attrs] + [
        group for group in GROUPS if group not in tree.children
    ]
    if absent:
        raise ValueError(f"path {str(source)!r} holds no fit of zoo: {absent[0]!r} is missing. Use fit.save.")
    version = tree.attrs["zoo_schema_version"]
    if not isinstance(version, int | np.integer) or version not in (WITHOUT_ONCE, SCHEMA_VERSION):
        raise ValueError(
            f"path {str(source)!r} has schema version {str(version)[:20]}, this zoo reads {WITHOUT_ONCE} "
            f"and {SCHEMA_VERSION}. "
            "Fit the model again."
        )
    spec = _json_attribute(tree, "zoo_spec", source)
    if (
        not isinstance(spec, dict)
        or set(spec) != {"factory", "fields"}
        or not isinstance(spec["fields"], dict)
        or not isinstance(spec["factory"], str)
    ):
        raise ValueError(f"path {str(source)!r} has a damaged zoo_spec. Fit the model again.")
    cls = find(spec["factory"]) if factory is None else factory
    if cls is None:
        raise ValueError(
            f"path {str(source)!r} holds a fit of {spec['factory']!r}, which is unknown. "
            "Pass your own class: zoo.load(path, factory=...), or install the package that has it."
        )
    if not isinstance(cls, type):
        raise TypeError(
            f"factory is a {type(cls).__name__} with its fields. Give the class itself, which reads them."
        )
    if cls.__name__ != spec["factory"]:
        raise ValueError(
            f"path {str(source)!r} holds a fit of {spec['factory']}, not of {cls.__name__}. Pass that class."
        )
    spec["fields"] = {
        **spec["fields"],
        "likelihood": _likelihood(spec["fields"].get("likelihood"), likelihood, source),
    }
    (
        transform,
        conditioned,
        task_column,
        own_class,
        shared,
        intercept,
        formula,
        mean,
        grades,
        choices,
        rows,
        units,
    ) = (
        _json_attribute(tree, name, source) if name in tree.attrs else None
        for name in ("zoo_transform", *OPTIONAL)
    )
    if factory is None and (own_class is not None) and not _same_package(own_class, cls):
        raise ValueError(
            f"path {str(source)!r} holds a fit of {str(own_class)!r}, a class of its own under the name of one that "
            "is installed. Pass it: zoo.load(path, factory=...)."
        )
    stored = tree
    try:
        tree = for_every_draw(stored)
        model = cls.from_spec(spec)
        data = _data_from_tree(tree, transform)
        data = replace(
            data,
            task_column=_column(task_column, "zoo_task_name"),
            choice_column=_column(choices, "zoo_choice_column"),
            units=_units(units, len(data.feature_names), "zoo_units" in tree.attrs),
            stands_for=0 if rows is None else whole_number(rows, "zoo_stands_for", 1),
            shared_names=_known_names(shared or (), data.feature_names, "zoo_shared"),
            design=_design(formula, tree["constant_data"]),
            grades=() if grades is None else names(grades, "zoo_grades"),
            learned_mean=None if mean is None else LearnedMean.of_description(mean, data.feature_names),
            intercept=None
            if intercept is None
            else _known_names([intercept], data.feature_names, "zoo_intercept")[0],
        )
        method = _method(tree, model)
        conditioned = _conditioned(conditioned, data)
        _require_draws(tree["posterior"].to_dataset(), data)
        _require_kept(tree, data)
    # What a description or a variable of another kind than expected leads to is not to be foreseen.
    except Exception as error:
        raise ValueError(
            f"path {str(source)!r} is damaged, or was changed after fit.save ({type(error).__name__}: {error}). "
            "Fit the model again."
        ) from error
    # A file that was written before there was a digest has none.
    if "zoo_digest" in tree.attrs and tree.attrs.pop("zoo_digest") != digest_of_tree(stored):
        raise ValueError(
            f"path {str(source)!r} is damaged, or was changed after fit.save: its digest is another. "
            "Fit the model again, or load the file with xarray.open_datatree."
        )
    for name in (*ATTRIBUTES, *OPTIONAL):
        tree.attrs.pop(name, None)
    found: Fit = model.fit_class(factory=model, data=data, idata=tree, method=method, conditioned=conditioned)
    return found


def _same_package(own_class: Any, cls: type) -> bool:
    """Whether a class that is recorded as no class of zoo's is of the package that is installed."""
    return str(own_class).partition(".")[0] == cls.__module__.partition(".")[0]


def _likelihood(described: Any, own: type[Likelihood] | None, source: Path) -> Any:
    """What the field of this name becomes: a likelihood of the user's own needs its class."""
    word = described.get("word") if isinstance(described, dict) else None
    if not isinstance(word, str):
        raise ValueError(f"path {str(source)!r} has a damaged zoo_spec. Fit the model again.")
    if own is None:
        if word in likelihoods():
            likelihood_class(word)  # a broken package is no fault of the file
            return described
        raise ValueError(
            f"path {str(source)!r} holds a fit with the likelihood {word[:40]!r}, which is unknown. "
            "Pass your own class: zoo.load(path, likelihood=...), or install the package that has it."
        )
    if own.word != word:
        raise ValueError(
            f"path {str(source)!r} has the likelihood {word[:40]!r}, not {own.word!r}. Pass that class."
        )
    return own(**{name: value for name, value in described.items() if name != "word"})


def _json_attribute(tree: xr.DataTree, name: str, source: Path) -> Any:
    try:
        return json.loads(tree.attrs[name])
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"path {str(source)!r} has a damaged {name}. Fit the model again.") from None


def _method(tree: xr.DataTree, model: Model) -> str:
    """The name of the method. It may be one that a later version no longer has."""
    method = tree.attrs["zoo_method"]
    if not isinstance(method, str):
        raise ValueError(f"zoo_method is {method!r}, which is no name")
    return method


def _conditioned(saved: Any, data: MultiTaskData) -> tuple[str, ...]:
    """Tasks that came after the fit: they are the last ones."""
    conditioned = tuple(saved or ())
    if conditioned and conditioned != data.task_names[-len(conditioned) :]:
        raise ValueError("zoo_conditioned does not name the last tasks")
    return conditioned


def _column(saved: Any, attribute: str) -> str | None:
    """The column that tasks or choices came from; None where there was none, or where it was not remembered yet."""
    if saved is not None and not isinstance(saved, str):
        raise ValueError(f"{attribute} is {saved!r}, which is no name")
    return saved


def _design(saved: Any, constant: Any) -> FormulaDesign | CategoryDesign | None:
    """The design of a formula, with the columns that it was made of, or that of categories."""
    if saved is None:
        return None
    if "formula" not in saved:
        return CategoryDesign.of_description(saved)
    columns = [constant[f"formula_column_{i}"].to_numpy() for i in range(len(saved["columns"]))]
    design = FormulaDesign.of_description(saved, columns)
    design.features(design.table)  # raises where the two do not fit
    return design


def _known_names(saved: Any, feature_names: tuple[str, ...], attribute: str) -> tuple[str, ...]:
    """Names of features that an attribute holds."""
    found = tuple(saved)
    if not all(isinstance(name, str) for name in found) or not set(found) <= set(feature_names):
        raise ValueError(f"{attribute} does not name features")
    return found


def _require_draws(posterior: xr.Dataset, data: MultiTaskData) -> None:
    """Raise unless the variables are draws (chain, draw, ...) for the tasks of the data."""
    if not posterior.data_vars:
        raise ValueError("the posterior has no variable")
    for name, values in posterior.data_vars.items():
        if values.dims[:2] != ("chain", "draw") or values.dtype.kind not in "biuf" or not values.size:
            raise ValueError(f"variable {name!r} of the posterior holds no draws")
    for dim in {"task", "task_bis"} & set(posterior.sizes):
        if posterior.sizes[dim] != data.n_tasks:
            raise ValueError(f"the posterior has {posterior.sizes[dim]} tasks, the data {data.n_tasks}")


def _require_kept(tree: xr.DataTree, data: MultiTaskData) -> None:
    """Raise unless what the file says that it keeps is known, and moments are those of the tasks of the data."""
    keep = tree["posterior"].attrs.get("keep", "draws")
    if keep not in KEEP or (keep == "moments") != ("moments" in tree.children):
        raise ValueError(f"keep is {str(keep)[:20]!r}, and the file holds other things")
    if keep == "moments":
        moments = tree["moments"].to_dataset()
        if moments.sizes.get("task") != data.n_tasks or any(
            v.dtype.kind != "f" for v in moments.data_vars.values()
        ):
            raise ValueError("the moments are not numbers of the tasks of the data")


def _t_names(constant: Any) -> tuple[str, ...] | None:
    """Names of the columns of t; None for a file that was written before they had names."""
    if "t" not in constant or "t_column" not in constant.coords:
        return None
    return names([str(v) for v in constant["t_column"].to_numpy()], "t_column")


def _transform_from_json(saved: Any, n_features: int) -> Transform | None:
    if saved is None:
        return None
    x_mean, x_scale = (
        finite_vector(saved[name], f"the transform's {name}", n_features) for name in ("x_mean", "x_scale")
    )
    y_mean, y_scale = (
        float(finite_vector([saved[name]], f"the transform's {name}", 1)[0]) for name in ("y_mean", "y_scale")
    )
    if (x_scale <= 0.0).any() or y_scale <= 0.0:
        raise ValueError("the transform has a scale that is not above 0")
    return Transform(x_mean, x_scale, y_mean, y_scale)


def _units(saved: Any, n_features: int, said: bool) -> Units | None:
    """Units of default priors: of a file, None where they follow from the data; of old files, those of the data."""
    if not said:
        return Units.of_size(n_features)
    numbers = _transform_from_json(saved, n_features)
    if numbers is None:
        return None
    level = saved["level"]
    if level is not None:
        at, value = level
        level = whole_number(at, "the level of zoo_units", 0), float(value)
    return Units(numbers.x_mean, numbers.x_scale, numbers.y_mean, numbers.y_scale, level)


def _positions(values: Any, name: str, n_rows: int, size: int) -> np.ndarray:
    """Integers (n_rows,) from 0 to size - 1."""
    index = values.to_numpy()
    if index.dtype.kind not in "iu" or index.shape != (n_rows,) or not np.all((index >= 0) & (index < size)):
        raise ValueError(f"{name} does not hold a position below {size} for each of {n_rows} rows")
    return index.astype(np.int64)


def _data_from_tree(tree: xr.DataTree, saved: Any) -> MultiTaskData:
    """The data of a file, checked as those that a user hands in."""
    constant = tree["constant_data"]
    y = tree["observed_data"]["y"].to_numpy()
    n_rows = y.shape[0]
    feature_names = names([str(v) for v in constant["feature"].to_numpy()], "feature")
    task_names = names([str(v) for v in constant["task"].to_numpy()], "task")
    gaps = MISSING in tree["posterior"]
    inputs = finite_inputs(
        _inputs_from_variables(constant), "X", feature_names, allow_none=True, allow_missing=gaps
    )
    if inputs.shape[1] != len(feature_names) or ("row" not in constant and inputs.shape[0] != n_rows):
        raise ValueError(f"X has shape {inputs.shape}, for {n_rows} rows of {len(feature_names)} features")
    t = finite_matrix(constant["t"].to_numpy(), "t", None) if "t" in constant else None
    if t is not None and len(t) != n_rows:
        raise ValueError(f"t has {len(t)} rows, y has {n_rows}")
    weight = finite_vector(constant["weight"].to_numpy(), "weight", n_rows) if "weight" in constant else None
    if weight is not None and (weight <= 0.0).any():
        raise ValueError("weight is not above 0")
    shared = "row" in constant
    return MultiTaskData(
        inputs=inputs,
        row=_positions(constant["row"], "row", n_rows, inputs.shape[0]) if shared else np.arange(n_rows),
        y=finite_vector(y, "y", n_rows),
        task=_positions(constant["task_index"], "task_index", n_rows, len(task_names)),
        task_names=task_names,
        feature_names=feature_names,
        t=t,
        t_names=_t_names(constant),
        weight=weight,
        transform=_transform_from_json(saved, len(feature_names)),
        incomplete=gaps,
        choice=_positions(constant["choice"], "choice", n_rows, n_rows) if "choice" in constant else None,
    )


def _inputs_from_variables(constant: Any) -> Any:
    if "X" in constant:
        return constant["X"].to_numpy()
    from scipy.sparse import csr_matrix

    data, indices, indptr = (constant[f"X_{part}"].to_numpy() for part in ("data", "indices", "indptr"))
    return csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, constant.sizes["feature"]))

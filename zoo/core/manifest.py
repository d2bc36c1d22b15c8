"""What a run is, as JSON: factory, data, method, options, seed, versions. A checkpoint is of one such run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from zoo._version import __version__
from zoo.core.fit import Fit
from zoo.core.methods import Method, Run
from zoo.core.protocols import Model
from zoo.data.multitask import MultiTaskData
from zoo.inference.run.chains import seed_sequence
from zoo.support.checks import is_sparse
from zoo.support.digest import add_array, code_digest

__all__ = ["describe_data", "describe_run"]

# What has no influence on the draws.
_FREE_OPTIONS = ("cores", "threads")
# Packages that compute the draws, whose next version may round otherwise.
_ENGINES = ("numpy", "scipy", "numba")
_NUTS_ENGINES = ("nutpie", "pymc", "pytensor")


def describe_run(
    factory: Model,
    data: MultiTaskData,
    method: Method,
    run: Run,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that the draws depend on, JSON-ready; large things by their SHA-256.

    Parameters
    ----------
    factory, data, method, run
        Of the call; the seed as it was given.
    options : mapping

    Raises
    ------
    ValueError
        An option or field is of a kind that cannot be described.
    """
    packages = (*_ENGINES, *(_NUTS_ENGINES if method.name == "nuts" else ()))
    every = {
        name: value
        for name, value in {**method.options, **options}.items()
        if name not in _FREE_OPTIONS and (name, value) != ("keep", "draws")
    }
    if every.get("executor") is not None:
        every["executor"] = "workers"  # whichever they are
    return {
        "versions": {"zoo": __version__, **{name: version(name) for name in packages}},
        "factory": _plain(factory.to_spec(), "factory"),
        # A subclass of the user's may have the name of another class, or hooks that were changed since.
        **({} if (code := code_digest(type(factory))) is None else {"code": code}),
        "method": method.name,
        "draws": run.draws,
        "tune": run.tune,
        "chains": run.chains,
        "random_seed": _describe_seed(run.random_seed),
        "options": {name: _plain(value, f"option {name}") for name, value in every.items()},
        "data": describe_data(data),
    }


def _describe_seed(random_seed: Any) -> Any:
    if random_seed is None:
        return None
    seed = seed_sequence(random_seed)
    return {
        "entropy": _plain(seed.entropy, "random_seed"),
        "spawn_key": [int(k) for k in seed.spawn_key],
        "children": seed.n_children_spawned,
    }


def describe_data(data: MultiTaskData) -> dict[str, Any]:
    """Checksums of the parts of the data, by their names, JSON-ready."""
    transform = data.transform
    scale = None
    if transform is not None:
        numbers = np.array([transform.y_mean, transform.y_scale])
        scale = _digest(transform.x_mean, transform.x_scale, numbers)
    inputs: Any = data.inputs
    parts = (inputs.data, inputs.indices, inputs.indptr) if is_sparse(inputs) else (inputs,)
    names = [list(data.task_names), list(data.feature_names), list(data.t_names or ())]
    if data.shared_names:
        names.append(list(data.shared_names))
    if data.choice is not None:
        names.append(["choice", _digest(data.choice)["sha256"]])
    if data.grades:
        names.append(["grades", *data.grades])
    return {
        "rows": data.n_rows,
        "X": _digest(*parts, data.row),
        "y": _digest(data.y),
        "task": _digest(data.task),
        "t": None if data.t is None else _digest(data.t),
        "weight": None if data.weight is None else _digest(data.weight),
        "names": _digest_of_bytes(json.dumps(names).encode()),
        "scale": scale,
    }


def _plain(value: Any, what: str) -> Any:
    """The value as JSON-ready data; arrays and fits by their checksum."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): _plain(v, what) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, what) for v in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return _digest(value)
    if isinstance(value, Fit):
        posterior = value.posterior
        return _digest(*(posterior[name].to_numpy() for name in sorted(map(str, posterior.data_vars))))
    raise ValueError(
        f"{what} holds a {type(value).__name__}, which a checkpoint cannot describe. Leave `checkpoint` out."
    )


def _digest(*arrays: np.ndarray) -> dict[str, str]:
    total = hashlib.sha256()
    for array in arrays:
        add_array(total, (), array)
    return {"sha256": total.hexdigest()}


def _digest_of_bytes(data: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(data).hexdigest()}

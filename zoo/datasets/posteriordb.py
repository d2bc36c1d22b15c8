"""Reference posteriors of models of this package, in the format of posteriordb (Magnusson et al. 2025).

The format and the rules of a reference posterior are those of the database: ten thousand draws, R-hat below 1.01, no
divergent transitions, and an autocorrelation at lag 1 below 0.05 in absolute value.
"""

from __future__ import annotations

import json
import os
import zipfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo._version import __version__
from zoo.data.multitask import MultiTaskData
from zoo.support.checks import whole_number
from zoo.support.files import staged_file

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["to_posteriordb"]

_DRAWS, _R_HAT, _LAG_ONE = 10_000, 1.01, 0.05
# Effective sizes of independent draws lie within this share of their number.
_ESS = 0.2


def to_posteriordb(
    factory: Any,
    data: MultiTaskData,
    folder: str | os.PathLike[str],
    name: str,
    *,
    title: str,
    added_by: str,
    method: str | None = None,
    chains: int = 10,
    thin: int = 10,
    random_seed: int = 4711,
    progress: bool = False,
    **method_options: Any,
) -> list[Path]:
    """Sample a reference posterior and write it, with data and description, into a folder of posteriordb's layout.

    Each chain takes ``10,000 / chains`` draws, one in ``thin`` of those that are sampled, and as long a warm-up as
    that takes. Stan's indices count from 1, and so do those of tasks and of entries here.

    Parameters
    ----------
    factory : ModelFactory
    data : MultiTaskData
        Written on the scale of the model, as the factory sees it.
    folder : path
        For instance ``posterior_database`` of a checkout. Files that stand there are never replaced.
    name : str
        Of data, model and posterior: letters, digits, underscores.
    title, added_by : str
        What the database shows.
    method, random_seed, progress, **method_options
        As in ``factory.fit``.
    chains, thin : int
        At least four chains.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    FileExistsError
        A file of this name stands there.
    ValueError
        The draws are no reference posterior: the message says which rule they miss, and by which entry.
    """
    if not name.replace("_", "").isalnum():
        raise ValueError(f"name is {name!r}. Give letters, digits and underscores.")
    whole_number(chains, "chains", 4)
    whole_number(thin, "thin")
    if _DRAWS % chains:
        raise ValueError(f"chains is {chains}, by which 10,000 draws cannot be divided. Give 4, 5, 8 or 10.")
    files = _places(Path(folder), name)
    taken = next((path for path in files.values() if path.exists()), None)
    if taken is not None:
        raise FileExistsError(f"{taken} exists. Choose another name, or remove it.")
    kept = _DRAWS // chains
    fit = factory.fit(
        data,
        method,
        draws=kept * thin,
        tune=kept * thin,
        chains=chains,
        random_seed=random_seed,
        progress=progress,
        **method_options,
    )
    draws = _by_entry(fit.posterior.isel(draw=slice(thin - 1, None, thin)))
    found = _diagnostics(draws, fit.idata["sample_stats"].to_dataset())
    _require_reference(found)
    stamp = {"added_by": added_by, "added_date": date.today().isoformat()}
    independent = "independent" in fit.idata["sample_stats"].data_vars
    content: dict[str, Any] = {
        "posterior": {
            "name": f"{name}-{name}",
            "model_name": name,
            "data_name": name,
            "reference_posterior_name": f"{name}-{name}",
            "dimensions": {str(v): int(np.prod(a.shape[2:])) for v, a in fit.posterior.items()},
            "keywords": ["multi-task learning"],
            **stamp,
        },
        "data": _columns(fit.data),
        "data info": {
            "name": name,
            "title": title,
            "data_file": f"data/data/{name}.json",
            "keywords": [],
            "references": [],
            **stamp,
        },
        "model": factory.to_spec(),
        "model info": {
            "name": name,
            "title": title,
            "description": (type(factory).__doc__ or "").strip().splitlines()[0],
            "model_implementations": {"zoo": {"model_code": f"models/zoo/{name}.json", "zoo_version": __version__}},
            "keywords": [],
            "references": [],
            **stamp,
        },
        "draws": [{entry: values[chain].tolist() for entry, values in draws.items()} for chain in range(chains)],
        "draws info": {
            "name": f"{name}-{name}",
            "inference": {
                "method": "analytical" if independent else f"zoo_{fit.method}",
                "method_arguments": {"chains": chains, "draws": kept * thin, "thin": thin, "seed": random_seed},
            },
            "diagnostics": found,
            "checks_made": {
                "ndraws_is_10k": True,
                "nchains_is_gte_4": True,
                "ess_within_bounds": True,
                "r_hat_below_1_01": True,
                "abs_mean_lag1_ac_below_0_05": True,
            },
            "comments": None,
            "versions": {"zoo_version": __version__},
            **stamp,
        },
    }  # fmt: skip
    for part, path in files.items():
        _write(path, content[part])
    return list(files.values())


def _places(folder: Path, name: str) -> dict[str, Path]:
    draws = folder / "reference_posteriors" / "draws"
    return {
        "data": folder / "data" / "data" / f"{name}.json.zip",
        "data info": folder / "data" / "info" / f"{name}.info.json",
        "model": folder / "models" / "zoo" / f"{name}.json",
        "model info": folder / "models" / "info" / f"{name}.info.json",
        "draws": draws / "draws" / f"{name}-{name}.json.zip",
        "draws info": draws / "info" / f"{name}-{name}.info.json",
        "posterior": folder / "posteriors" / f"{name}-{name}.json",
    }


def _by_entry(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """Draws (chain, draw) of every entry, named as Stan names them: ``coefficients[1,2]``."""
    found = {}
    for name, variable in posterior.items():
        values = variable.to_numpy()
        for at in np.ndindex(values.shape[2:]):
            place = f"[{','.join(str(i + 1) for i in at)}]" if at else ""
            found[f"{name}{place}"] = values[(slice(None), slice(None), *at)]
    return found


def _diagnostics(draws: dict[str, np.ndarray], stats: xr.Dataset) -> dict[str, Any]:
    """What posteriordb holds of reference draws; entries that never change have neither R-hat nor size."""
    from arviz_stats.base import array_stats  # importing data sets stays light

    found: dict[str, Any] = {"names": [], "bulk": [], "tail": [], "r_hat": [], "lag": []}
    for name, values in draws.items():
        found["names"].append(name)
        if np.ptp(values) == 0.0:
            for key in ("bulk", "tail", "r_hat", "lag"):
                found[key].append(None)
            continue
        found["bulk"].append(float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")))
        found["tail"].append(
            float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)))
        )
        found["r_hat"].append(float(array_stats.rhat(values, chain_axis=0, draw_axis=1)))
        centred = values - values.mean(axis=1, keepdims=True)
        products = np.mean(centred[:, 1:] * centred[:, :-1], axis=1) / np.mean(centred**2, axis=1)
        found["lag"].append(float(products.mean()))
    chains, size = next(iter(draws.values())).shape
    diverged = stats["diverging"].sum("draw").to_numpy().tolist() if "diverging" in stats else [0] * chains
    return {
        "diagnostic_information": {"names": found["names"]},
        "ndraws": chains * size,
        "nchains": chains,
        "effective_sample_size_bulk": found["bulk"],
        "effective_sample_size_tail": found["tail"],
        "r_hat": found["r_hat"],
        "divergent_transitions": [int(n) for n in diverged],
        "mean_lag1_ac": found["lag"],
    }


def _require_reference(found: dict[str, Any]) -> None:
    """Raise where the draws miss a rule of reference posteriors."""
    names = found["diagnostic_information"]["names"]
    if sum(found["divergent_transitions"]):
        raise ValueError(
            f"{sum(found['divergent_transitions'])} transitions diverged, and reference draws have none. Give "
            'nuts={"target_accept": 0.99}.'
        )
    bulk = np.array(found["effective_sample_size_bulk"], dtype=float)
    for what, values, far in (
        ("R-hat", np.array(found["r_hat"], dtype=float), lambda v: v - _R_HAT),
        ("autocorrelation at lag 1", np.array(found["mean_lag1_ac"], dtype=float), lambda v: np.abs(v) - _LAG_ONE),
        ("effective sample size", bulk, lambda v: (1.0 - _ESS) * _DRAWS - v),
    ):  # fmt: skip
        excess = np.where(np.isnan(values), -np.inf, far(values))
        worst = int(np.argmax(excess))
        if excess[worst] >= 0.0:
            raise ValueError(
                f"these are no reference draws: {names[worst]} has the {what} {values[worst]:.4g}. Give a larger thin, "
                "with which chains are as many times longer."
            )


def _columns(data: MultiTaskData) -> dict[str, Any]:
    """Rows as Stan reads them."""
    result: dict[str, Any] = {
        "N": data.n_rows,
        "D": data.n_features,
        "T": data.n_tasks,
        "X": np.asarray(data.X).tolist(),
        "y": data.y.tolist(),
        "task": (data.task + 1).tolist(),
        "feature_names": list(data.feature_names),
        "task_names": list(data.task_names),
    }
    for name, values in (("t", data.t), ("weight", data.weight)):
        if values is not None:
            result[name] = values.tolist()
    return result


def _write(path: Path, content: Any) -> None:
    """JSON, or a zipped one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content)
    with staged_file(path) as temporary:
        if path.suffix == ".zip":
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(path.stem, text)
        else:
            temporary.write_text(text, encoding="utf-8")

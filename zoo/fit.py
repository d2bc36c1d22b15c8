"""What ``factory.fit`` returns: the posterior as a DataTree, predictions, and a file that never unpickles."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo.checks import finite_matrix, names
from zoo.data import MultiTaskData, Transform

if TYPE_CHECKING:
    from zoo.factory import ModelFactory

__all__ = ["Fit", "load", "to_datatree"]

SCHEMA_VERSION = 1
_ATTRIBUTES = ("zoo_schema_version", "zoo_spec", "zoo_method", "zoo_transform")


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model.

    Parameters
    ----------
    factory : ModelFactory
        The description that was fitted.
    data : MultiTaskData
        The training data.
    idata : xarray.DataTree
        Groups ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data``; ArviZ reads it.
    method : str
        The inference method that made the draws.
    """

    factory: ModelFactory
    data: MultiTaskData
    idata: xr.DataTree
    method: str

    @property
    def posterior(self) -> xr.Dataset:
        """The posterior group as a Dataset."""
        return self.idata["posterior"].to_dataset()

    def __repr__(self) -> str:
        sizes = self.idata["posterior"].sizes
        return (
            f"Fit({self.factory!r}, method={self.method!r}, {sizes['chain']} chains x {sizes['draw']} draws, "
            f"{self.data.n_tasks} tasks)"
        )

    # ---------------------------------------------------------------- prediction

    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: int | None = None,
    ) -> xr.Dataset:
        """Posterior predictive summaries of new rows, on the scale of the data that the user handed in.

        Parameters
        ----------
        X : (n, D) array_like, DataFrame or MultiTaskData
            Features on the user's scale; a DataFrame is read by column names; MultiTaskData brings its tasks.
        task : str, int or sequence, optional
            Task of the rows: one for all, or one a row. Strings are task names; whole numbers are positions in
            ``fit.data.task_names``. May be left out where the data have one task.
        t : (n, P) array_like, optional
            Continuous task variable of the rows.
        new_task : bool
            Predict tasks that were not in the data, from the population; names not yet known are new tasks.
        ci_prob : float
            Probability of the central interval.
        random_seed : int, optional
            For the predictive draws behind ``sd`` and the interval.

        Returns
        -------
        xarray.Dataset
            Dim ``obs``. Real responses: ``mean``, ``sd``, ``lower``, ``upper`` of y, noise included.
            Labels: the same of the decision value f, ``probability`` of the positive class, and ``label``, the
            class by the sign of the posterior mean of f, coded as in the data.
        """
        if not 0.0 < ci_prob < 1.0:
            raise ValueError(f"ci_prob is {ci_prob}. Give a probability between 0 and 1.")
        rows, posterior, rng = self._prepare(X, task, t, new_task, random_seed)
        f, y = self._draws(rows, posterior, rng)
        tail = (1.0 - ci_prob) / 2.0
        labels = self.factory.observation.labels
        shown = f if labels else y
        mean = y.mean(axis=0) if self._likelihood_overridden() and not labels else f.mean(axis=0)
        result = {
            "mean": mean,
            "sd": shown.std(axis=0),
            "lower": np.quantile(shown, tail, axis=0),
            "upper": np.quantile(shown, 1.0 - tail, axis=0),
        }
        if labels:
            positive = y == 1.0 if self._likelihood_overridden() else self.factory.observation.probability(f)
            result["probability"] = positive.mean(axis=0)
            result["label"] = self._user_labels(result["mean"])
        dataset = xr.Dataset(
            {k: ("obs", v) for k, v in result.items()}, coords={"obs": np.arange(rows.n_rows)}
        )
        dataset = dataset.assign_coords(task=("obs", np.asarray(rows.task_names, dtype=object)[rows.task]))
        dataset.attrs["ci_prob"] = ci_prob
        return dataset

    def predict_draws(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        random_seed: int | None = None,
    ) -> xr.Dataset:
        """Predictive draws behind :meth:`predict`: ``f`` and ``y``, dims ``chain, draw, obs``."""
        rows, posterior, rng = self._prepare(X, task, t, new_task, random_seed)
        f, y = self._draws(rows, posterior, rng)
        if self.factory.observation.labels:
            y = self._user_labels(y)
        sizes = self.idata["posterior"].sizes
        shape = (sizes["chain"], sizes["draw"], rows.n_rows)
        return xr.Dataset(
            {
                "f": (("chain", "draw", "obs"), f.reshape(shape)),
                "y": (("chain", "draw", "obs"), y.reshape(shape)),
            }
        )

    def _prepare(
        self, X: Any, task: Any, t: Any, new_task: bool, random_seed: int | None
    ) -> tuple[MultiTaskData, dict[str, np.ndarray], np.random.Generator]:
        rng = np.random.default_rng(random_seed)
        labels, features, t_values = _read_rows(X, task, t, self.data)
        posterior = {str(name): values.to_numpy() for name, values in self.posterior.items()}
        known = self.data.task_names
        unknown = sorted(set(labels) - set(known))
        if unknown and not new_task:
            raise ValueError(
                f"task {unknown[0]!r} is not among the {len(known)} tasks of the data. "
                "Check its name, or pass new_task=True to predict it from the population."
            )
        if new_task:
            overlap = sorted(set(labels) & set(known))
            if overlap:
                raise ValueError(
                    f"task {overlap[0]!r} is in the data, but new_task=True asks for new tasks. "
                    "Predict known and new tasks in two calls."
                )
            known = tuple(unknown)
            posterior = self.factory.new_task(self.posterior, list(known), rng)
        position = {name: i for i, name in enumerate(known)}
        rows = MultiTaskData(
            inputs=features if self.data.transform is None else self.data.transform.apply_x(features),
            row=np.arange(len(features)),
            y=np.ones(len(features)),
            task=np.array([position[label] for label in labels], dtype=np.int64),
            task_names=known,
            feature_names=self.data.feature_names,
            t=t_values,
        )
        return rows, posterior, rng

    def _draws(
        self, rows: MultiTaskData, posterior: dict[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws (S, n) of f and y on the user's scale (labels stay -1/+1)."""
        from zoo.predictive import predictive_draws

        f, y = predictive_draws(self.factory, rows, posterior, rng)
        if self.data.transform is not None and not self.factory.observation.labels:
            f, y = self.data.transform.restore_y(f), self.data.transform.restore_y(y)
        return f, y

    def _likelihood_overridden(self) -> bool:
        # A user's own likelihood term need not have mean f, or the class probability of `observation`.
        from zoo.factory import ModelFactory

        return type(self.factory).likelihood is not ModelFactory.likelihood

    def _user_labels(self, sign: np.ndarray) -> np.ndarray:
        from zoo.likelihoods.base import label_values

        negative, positive = label_values(self.data.y)
        return np.where(sign > 0.0, positive, negative)

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fit to a NetCDF file: posterior, data and description, under a temporary name first."""
        target = Path(path)
        if not target.parent.is_dir():
            raise FileNotFoundError(
                f"path {str(target)!r} lies in a folder that does not exist. Make it first."
            )
        tree = self.idata.copy()
        tree.attrs.update(
            zoo_schema_version=SCHEMA_VERSION,
            zoo_spec=json.dumps(self.factory.to_spec()),
            zoo_method=self.method,
            zoo_transform=json.dumps(_transform_to_json(self.data.transform)),
        )
        try:
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        except OSError as error:
            raise PermissionError(
                f"folder {str(target.parent)!r} cannot be written to ({error.strerror}). Choose another."
            ) from None
        os.close(handle)
        try:
            tree.to_netcdf(temporary, engine="h5netcdf")
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return target


def _read_rows(
    X: Any, task: Any, t: Any, data: MultiTaskData
) -> tuple[list[str], np.ndarray, np.ndarray | None]:
    """Task label of each row, features on the user's scale, and t."""
    if isinstance(X, MultiTaskData):
        if X.feature_names != data.feature_names:
            raise ValueError("X has other feature_names than the fitted data. Use the same features.")
        labels = [X.task_names[code] for code in X.task]
        return labels, X.original_X(), X.t if t is None else np.asarray(t, dtype=np.float64)
    if isinstance(X, pd.DataFrame):
        missing = [name for name in data.feature_names if name not in map(str, X.columns)]
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}, a feature of the fitted data. Add it.")
        X = X.rename(columns=str)[list(data.feature_names)]
    features = finite_matrix(X, "X", data.feature_names if np.shape(X)[-1:] == (data.n_features,) else None)
    if features.shape[1] != data.n_features:
        raise ValueError(f"X has {features.shape[1]} columns, but the fit has {data.n_features} features.")
    if (t is None) != (data.t is None):
        raise ValueError("t must be given exactly where the fitted data have a continuous task variable.")
    t_values = None if t is None else finite_matrix(np.reshape(t, (len(features), -1)), "t", None)
    return _task_labels(task, len(features), data.task_names), features, t_values


def _task_labels(task: Any, n_rows: int, known: tuple[str, ...]) -> list[str]:
    if task is None:
        if len(known) > 1:
            raise ValueError(f"task is missing. Name the task of each row, for instance task={known[0]!r}.")
        return [known[0]] * n_rows
    values = np.asarray(task)
    if values.ndim == 0:
        values = np.repeat(values[None], n_rows)
    if values.shape != (n_rows,):
        raise ValueError(f"task has shape {values.shape} and X has {n_rows} rows. Give one task a row.")
    if values.dtype.kind not in "iu":
        return [str(v) for v in values]
    # Names that are themselves numbers could be confused with positions: never guess.
    plain = [str(i) for i in range(len(known))]
    if isinstance(task, pd.Series | pd.Index) or (
        all(n.lstrip("-").isdigit() for n in known) and list(known) != plain
    ):
        by_name = [str(v) for v in values]
        if isinstance(task, pd.Series | pd.Index):
            return by_name
        raise ValueError(
            "task holds whole numbers, and the task names are numbers too, so names and positions could be "
            "confused. Pass names as strings, a pandas Series of names, or the MultiTaskData itself as X."
        )
    bad = (values < 0) | (values >= len(known))
    if bad.any():
        raise ValueError(
            f"task {int(values[bad][0])} is not among the {len(known)} tasks of the data (0 .. {len(known) - 1}). "
            "Check it, or pass new_task=True with a name."
        )
    return [known[int(v)] for v in values]


def to_datatree(
    factory: ModelFactory,
    data: MultiTaskData,
    y: np.ndarray,
    posterior: Any,
    stats: Any,
    method: str,
    random_seed: Any,
) -> xr.DataTree:
    """The DataTree of a fit; ``posterior`` and ``stats`` are Datasets or dicts of (chain, draw, ...) arrays."""
    import zoo

    coords = {k: list(v) for k, v in factory.coords(data).items()}
    if not isinstance(posterior, xr.Dataset):
        model, _ = factory.assemble(data, y)
        dims = model.named_vars_to_dims
        posterior = _dataset(posterior, {name: dims[name] for name in posterior}, coords)
        stats = _dataset(stats, {name: () for name in stats}, {})
    shared = data.shares_inputs
    constant = {
        "X": (("input_row" if shared else "obs", "feature"), data.inputs),
        "task_index": ("obs", data.task),
    }
    if shared:
        constant["row"] = ("obs", data.row)
    if data.t is not None:
        constant["t"] = (("obs", "t_column"), data.t)
    attrs = {
        "inference_library": "zoo",
        "inference_library_version": zoo.__version__,
        "sampling_method": method,
        "random_seed": "None" if random_seed is None else str(random_seed),
    }
    names_only = {k: coords[k] for k in ("task", "feature", "obs")}
    return xr.DataTree.from_dict(
        {
            "posterior": posterior.assign_attrs(attrs),
            "sample_stats": stats.assign_attrs(attrs),
            "observed_data": xr.Dataset({"y": ("obs", data.y)}, coords={"obs": coords["obs"]}),
            "constant_data": xr.Dataset(constant, coords=names_only),
        }
    )


def _dataset(values: dict[str, np.ndarray], dims: dict[str, Any], coords: dict[str, Any]) -> xr.Dataset:
    variables = {name: (("chain", "draw", *dims[name]), array) for name, array in values.items()}
    chain, draw = next(iter(values.values())).shape[:2]
    used = {d for name in values for d in dims[name]}
    return xr.Dataset(
        variables,
        coords={
            "chain": np.arange(chain),
            "draw": np.arange(draw),
            **{k: v for k, v in coords.items() if k in used},
        },
    )


def _transform_to_json(transform: Transform | None) -> dict[str, Any] | None:
    if transform is None:
        return None
    return {
        "x_mean": transform.x_mean.tolist(),
        "x_scale": transform.x_scale.tolist(),
        "y_mean": transform.y_mean,
        "y_scale": transform.y_scale,
    }


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
    from zoo.registry import get_factory

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
    cls = factory or get_factory(spec["factory"])
    if cls.__name__ != spec["factory"]:
        raise ValueError(
            f"path {str(source)!r} holds a fit of {spec['factory']}, not of {cls.__name__}. Pass that class."
        )
    method = tree.attrs["zoo_method"]
    data = _data_from_tree(tree, _json_attribute(tree, "zoo_transform", source))
    for name in _ATTRIBUTES:
        del tree.attrs[name]
    return Fit(factory=cls.from_spec(spec), data=data, idata=tree, method=method)


def _json_attribute(tree: xr.DataTree, name: str, source: Path) -> Any:
    try:
        return json.loads(tree.attrs[name])
    except (TypeError, ValueError):
        raise ValueError(f"path {str(source)!r} has a damaged {name}. Fit the model again.") from None


def _data_from_tree(tree: xr.DataTree, saved: dict[str, Any] | None) -> MultiTaskData:
    constant = tree["constant_data"]
    inputs = constant["X"].to_numpy()
    transform = None
    if saved is not None:
        transform = Transform(
            np.array(saved["x_mean"]), np.array(saved["x_scale"]), saved["y_mean"], saved["y_scale"]
        )
    data = MultiTaskData(
        inputs=inputs,
        row=constant["row"].to_numpy() if "row" in constant else np.arange(len(inputs)),
        y=tree["observed_data"]["y"].to_numpy(),
        task=constant["task_index"].to_numpy(),
        task_names=names([str(v) for v in constant["task"].to_numpy()], "task"),
        feature_names=names([str(v) for v in constant["feature"].to_numpy()], "feature"),
        t=constant["t"].to_numpy() if "t" in constant else None,
    )
    return replace(data, transform=transform)

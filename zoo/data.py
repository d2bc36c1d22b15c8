"""Multi-task data: ragged tasks in long form, with names.

Notation used everywhere in the package: ``T`` tasks, ``N`` rows in all, ``N_t`` rows of task ``t``,
``D`` features, ``P`` columns of a continuous task variable ``t``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.arrays import as_array
from zoo.checks import (
    finite_inputs,
    finite_matrix,
    finite_vector,
    is_sparse,
    names,
    one_of,
    probability,
    task_codes,
    whole_number,
)
from zoo.columns import (
    listed,
    require_one_column,
    require_same_rows,
    task_column,
    task_variable,
    weights,
    weights_of_entries,
)
from zoo.folds import folds_of_inputs, folds_of_rows
from zoo.frames import as_pandas, in_order_of_names, read_column, read_table
from zoo.seeds import generator

if TYPE_CHECKING:
    import xarray as xr
    from scipy.sparse import csr_matrix

__all__ = ["MultiTaskData", "Transform"]

# Of its mean: a standard deviation below it is rounding, of a constant column.
_ROUNDING = 1e-12
# Sizes that a model takes: engines form fourth powers of features, and squares of what is divided by.
_LARGEST, _SMALLEST = 1e20, 1e-100


@dataclass(frozen=True, eq=False)
class Transform:
    """Affine map from the user's scale to the standardised one, ``(value - mean) / scale``.

    Parameters
    ----------
    x_mean, x_scale : (D,) float64
        Location and scale of each feature; 0 and 1 where a feature was left alone.
    y_mean, y_scale : float
        Location and scale of the response; 0 and 1 for labels.
    """

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: float = 0.0
    y_scale: float = 1.0

    def apply_x(self, X: np.ndarray) -> np.ndarray:
        """Features on the user's scale to the model's."""
        return (X - self.x_mean) / self.x_scale

    def apply_y(self, y: np.ndarray) -> np.ndarray:
        """Responses on the user's scale to the model's."""
        return (y - self.y_mean) / self.y_scale

    def restore_y(self, y: np.ndarray) -> np.ndarray:
        """Responses or predictions on the model's scale to the user's."""
        return y * self.y_scale + self.y_mean


@dataclass(frozen=True, eq=False)
class MultiTaskData:
    """Rows of many tasks, one below the other.

    Build it with :meth:`from_frame`, :meth:`from_arrays` or :meth:`from_multilabel`.

    Parameters
    ----------
    inputs : (n, D) float64
        The distinct feature rows. Multi-label data share one input among many tasks: it is stored once. A
        scipy.sparse.csr_matrix where the features were handed in sparse; they are never made dense here.
    row : (N,) int
        Position in ``inputs`` of each observation.
    y : (N,) float64
        Response or label of each observation.
    task : (N,) int
        Task of each observation, ``0 .. T-1``.
    task_names, feature_names : tuple of str
        Names of the ``T`` tasks and ``D`` features.
    t : (N, P) float64, optional
        Continuous task variable (space, time), for varying-coefficient models.
    transform : Transform, optional
        What :meth:`standardize` did; predictions are returned on the user's scale with it.
    weight : (N,) float64, optional
        Weight of each observation in the likelihood, finite and above 0: its log density counts that many times.
    t_names : tuple of P str, optional
        Names of the columns of ``t``; left out: "t0", "t1", ... None where there is no ``t``.
    task_column : str, optional
        Name of the column that the tasks came from: predictions read the tasks of a table there.
    """

    inputs: np.ndarray | csr_matrix
    row: np.ndarray
    y: np.ndarray
    task: np.ndarray
    task_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    t: np.ndarray | None = None
    transform: Transform | None = None
    weight: np.ndarray | None = None
    t_names: tuple[str, ...] | None = None
    task_column: str | None = None

    def __post_init__(self) -> None:
        t_names = None if self.t is None else names(self.t_names, "t_names", self.t.shape[1], prefix="t")
        object.__setattr__(self, "t_names", t_names)

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        task: Any = None,
        t: Any = None,
        task_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        weight: Any = None,
        t_names: Sequence[str] | None = None,
    ) -> MultiTaskData:
        """Data from arrays in long form.

        Parameters
        ----------
        X : (N, D) array_like of float, table, or scipy.sparse matrix
            Features, one row an observation. Sparse ones stay sparse, for the models that take them. A table is one
            of pandas, polars, Arrow or another library that narwhals knows, a DataArray or Dataset of xarray, a
            structured array, or a dict of columns.
        y : (N,) array_like of float, int or bool
            Responses or labels.
        task : (N,) array_like, optional
            Task of each row: names, or integers 0 .. T-1 when ``task_names`` is given. Left out: one task. The name
            of a named column is remembered as ``task_column``, unless a feature has it.
        t : (N, P) or (N,) array_like of float, or table, optional
            Continuous task variable.
        task_names : sequence of T str, optional
            Name of each task code. Default: ``"task <label>"`` for numbers, the labels themselves for strings.
        feature_names : sequence of D str, optional
            Default: the columns of a table ``X``, else ``"x0", "x1", ...``. Of a table that has these columns in
            another order each name keeps its column.
        weight : (N,) array_like of float, optional
            Weight of each observation in the likelihood, finite and above 0.
        t_names : sequence of P str, optional
            Default: the columns of a table ``t`` or the name of a Series, else ``"t0", "t1", ...``.

        Raises
        ------
        TypeError
            A table is lazy.
        ValueError
            Names the argument and the first offending row, task or column; or the rows of two arguments have
            different labels (an index of pandas, a coordinate of xarray).
        """
        beside = (X, y, task, t, weight)
        rows_of = {
            "X": read_table(X, "X", _texts(feature_names), _others(beside, X)),
            "y": read_column(y, "y"),
            "task": read_column(task, "task"),
            "t": read_table(t, "t", _texts(t_names), _others(beside, t)),
            "weight": read_column(weight, "weight"),
        }
        require_same_rows(**rows_of)
        X, y, task, t, weight = (part.values for part in rows_of.values())
        X, feature_names = in_order_of_names(X, feature_names, "X", "feature_names")
        inputs = finite_inputs(X, "X", feature_names)
        n_rows = inputs.shape[0]
        y_ = finite_vector(y, "y", n_rows)
        codes, task_labels = task_codes(task, n_rows, task_names)
        features = names(feature_names, "feature_names", inputs.shape[1], prefix="x")
        column = task.name if isinstance(task, pd.Series) and isinstance(task.name, str) else None
        t_, t_labels = task_variable(t, n_rows, t_names)
        return cls(
            inputs=inputs,
            row=np.arange(n_rows),
            y=y_,
            task=codes,
            task_names=names(task_labels, "task_names"),
            feature_names=features,
            t=t_,
            weight=None if weight is None else weights(weight, n_rows),
            t_names=t_labels,
            # A column of features would be read as tasks.
            task_column=None if column in (*features, *(t_labels or ())) else column or None,
        )

    @classmethod
    def from_frame(
        cls,
        df: Any,
        y: str,
        task: str | None = None,
        features: Sequence[str] | None = None,
        t: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> MultiTaskData:
        """Data from a table with one row an observation.

        Parameters
        ----------
        df : pandas.DataFrame, or a table of polars, Arrow or another library that narwhals knows
        y, task : str
            Columns with the response and the task. Task values become task names, in sorted order, and the column's
            name is remembered: predictions read it in tables.
        features : sequence of str, optional
            Columns to use as features; default: every other column.
        t : str or sequence of str, optional
            Columns of a continuous task variable; their names become ``t_names``.
        weight : str, optional
            Column with the weight of each observation in the likelihood, finite and above 0.

        Raises
        ------
        ValueError
            Names the column that ``df`` lacks, or the first offending row.
        """
        df = as_pandas(df, "df")
        if not isinstance(df, pd.DataFrame):
            raise TypeError(
                f"df is a {type(df).__name__}. Give a DataFrame of pandas, polars or Arrow, or use from_arrays or "
                "from_xarray."
            )
        if isinstance(df.columns, pd.MultiIndex):
            raise ValueError("df has columns of several levels. Give them one name each.")
        if isinstance(features, str):
            raise ValueError(f"features is the string {features!r}. Give a list of columns, [{features!r}].")
        t_columns = [] if t is None else list(t) if isinstance(t, list | tuple | pd.Index) else [t]
        special = [y, *(c for c in (task, weight) if c is not None), *t_columns]
        features = (
            [c for c in df.columns if c not in special] if features is None else listed(features, "features")
        )
        for column in [*special, *features]:
            require_one_column(df, column)
        if not len(features):
            raise ValueError("features is empty. Name at least one column of df.")
        task_labels, task_values = None, None
        if task is not None:
            task_labels, task_values = task_column(df[task])
        for argument, columns in (
            ("task", [task]),
            ("weight", [weight]),
            ("t", t_columns),
            ("features", features),
        ):
            if y in columns:
                raise ValueError(f"{argument} holds {y!r}, which is the response. Name another column.")
        data = cls.from_arrays(
            X=df[features],
            y=df[y],
            task=task_values,
            t=df[t_columns] if t_columns else None,
            task_names=task_labels,
            feature_names=features,
            weight=None if weight is None else df[weight],
        )
        return data if task is None else replace(data, task_column=str(task))

    @classmethod
    def from_multilabel(
        cls,
        X: Any,
        Y: Any,
        task_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        weight: Any = None,
    ) -> MultiTaskData:
        """Data whose tasks share their inputs: column ``l`` of ``Y`` is the response of task ``l``.

        Parameters
        ----------
        X : (n, D) array_like of float, or scipy.sparse matrix
            Inputs, stored once whatever the number of tasks. Sparse ones stay sparse, for the models that take them.
        Y : (n, T) array_like of float, int or bool
            Responses or labels; NaN marks a missing one.
        task_names, feature_names : sequence of str, optional
            Default: the columns of a table, else ``"task 0"`` ... and ``"x0"`` ...
        weight : (n, T) or (n,) array_like of float, optional
            Weight of each entry of ``Y`` in the likelihood, or of each input in all tasks alike; finite and above 0.
            What stands where ``Y`` is NaN is not looked at.

        Raises
        ------
        ValueError
            Names the argument and the first offending row, task or column.
        """
        beside = (X, Y, weight)
        rows_of = {
            "X": read_table(X, "X", _texts(feature_names), _others(beside, X)),
            "Y": read_table(Y, "Y", _texts(task_names), _others(beside, Y)),
        }
        rows_of["weight"] = read_table(weight, "weight", (), _others(beside, weight))
        require_same_rows(**rows_of)
        X, Y, weight = (part.values for part in rows_of.values())
        X, feature_names = in_order_of_names(X, feature_names, "X", "feature_names")
        Y, task_names = in_order_of_names(Y, task_names, "Y", "task_names")
        inputs = finite_inputs(X, "X", feature_names)
        Y_ = finite_matrix(Y, "Y", task_names, allow_missing=True)
        if len(Y_) != inputs.shape[0]:
            raise ValueError(f"Y has {len(Y_)} rows and X has {inputs.shape[0]}. Give both the same rows.")
        labels = names(task_names, "task_names", Y_.shape[1], prefix="task ")
        observed = ~np.isnan(Y_)
        if not observed.any(axis=0).all():
            empty = labels[int(np.flatnonzero(~observed.any(axis=0))[0])]
            raise ValueError(f"task {empty!r} has no observed label in Y. Drop that column.")
        task, row = np.nonzero(observed.T)
        W = None if weight is None else weights_of_entries(weight, observed, labels)
        return cls(
            inputs=inputs,
            row=row,
            y=Y_[row, task],
            task=task,
            task_names=labels,
            feature_names=names(feature_names, "feature_names", inputs.shape[1], prefix="x"),
            weight=None if W is None else W[row, task],
        )

    @classmethod
    def from_xarray(
        cls,
        dataset: xr.Dataset,
        X: str = "X",
        y: str = "y",
        task: str | None = "task",
        t: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> MultiTaskData:
        """Data from a Dataset in long form.

        Parameters
        ----------
        dataset : xarray.Dataset
        X : str
            Variable or coordinate (obs, feature); the labels of its second dim become feature names.
        y, task : str
            Variables or coordinates (obs,) with the response and the task.
        t : str or sequence of str, optional
            Variables or coordinates (obs,) of a continuous task variable; their names become ``t_names``.
        weight : str, optional
            Variable or coordinate (obs,) with the weight of each observation in the likelihood.

        Raises
        ------
        TypeError
            ``dataset`` is none.
        ValueError
            Names the variable that is absent, or whose dims do not fit.
        """
        import xarray as xr

        if not isinstance(dataset, xr.Dataset):
            raise TypeError(f"dataset is a {type(dataset).__name__}. Give an xarray.Dataset.")
        places = [] if t is None else [t] if isinstance(t, str) else listed(t, "t")
        columns = [column for column in (y, task, weight, *places) if column is not None]
        for name in (X, *columns):
            one_of(name, [str(v) for v in dataset.variables], "the variables of dataset")
        features = dataset[X]
        if features.ndim != 2:
            raise ValueError(
                f"X has dims {features.dims}. Give a variable of two dims, observation and feature."
            )
        row = dataset[y].dims[0] if dataset[y].ndim == 1 else None
        for name in columns:
            if dataset[name].dims != (row,) or row not in features.dims:
                raise ValueError(
                    f"{name} has dims {dataset[name].dims} and {X} has {features.dims}. "
                    f"Give {name} the dim of observations of {X} alone."
                )
        features = features.transpose(row, ...)
        column = features.dims[1]
        data = cls.from_arrays(
            X=features.to_numpy(),
            y=dataset[y].to_numpy(),
            task=None if task is None else dataset[task].to_numpy(),
            t=np.column_stack([dataset[place].to_numpy() for place in places]) if places else None,
            t_names=places or None,
            weight=None if weight is None else dataset[weight].to_numpy(),
            feature_names=[str(v) for v in features[column].to_numpy()]
            if column in features.coords
            else None,
        )
        return data if task is None or task in data.feature_names else replace(data, task_column=task)

    # ---------------------------------------------------------------- views

    @property
    def X(self) -> np.ndarray | csr_matrix:
        """Features of each observation, (N, D); a csr_matrix where ``inputs`` is one."""
        if self.shares_inputs:
            return self.inputs[self.row]
        return self.inputs

    @property
    def shares_inputs(self) -> bool:
        """Whether several observations (of different tasks) point to one row of ``inputs``."""
        return self.n_inputs != len(self.row) or not np.array_equal(self.row, np.arange(len(self.row)))

    @property
    def is_sparse(self) -> bool:
        """Whether ``inputs`` is a scipy.sparse.csr_matrix."""
        return is_sparse(self.inputs)

    @property
    def n_inputs(self) -> int:
        """Number of rows of ``inputs``, ``n``."""
        return self.inputs.shape[0]

    @property
    def n_tasks(self) -> int:
        """Number of tasks, ``T``."""
        return len(self.task_names)

    @property
    def n_features(self) -> int:
        """Number of features, ``D``."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Number of observations, ``N``."""
        return len(self.y)

    @property
    def task_sizes(self) -> pd.Series:
        """Rows of each task, ``N_t``, by name."""
        return pd.Series(np.bincount(self.task, minlength=self.n_tasks), index=pd.Index(self.task_names))

    def __repr__(self) -> str:
        sizes = self.task_sizes
        low, high = sizes.min(), sizes.max()
        rows = f"{low} rows each" if low == high else f"{low}-{high} rows each"
        sparse = "sparse " if self.is_sparse else ""
        scaled = ", standardized" if self.transform is not None else ""
        columns = 0 if self.t is None else self.t.shape[1]
        place = f", t of {columns} column{'s' if columns > 1 else ''}" if columns else ""
        return (
            f"MultiTaskData({self.n_tasks} tasks, {self.n_rows} rows ({rows}), "
            f"{self.n_features} {sparse}features{place}{scaled})"
        )

    def to_frame(self) -> pd.DataFrame:
        """The data as a table, on the model's scale: features, ``t``, ``task``, ``y``, and ``weight`` if there is one.

        ``MultiTaskData.from_frame(frame, y="y", task="task", t=data.t_names, weight="weight")`` reads it; without
        its arguments ``t`` and ``weight`` those columns would be features. Sparse features are refused.
        """
        self._refuse_sparse("a table of it")
        frame = pd.DataFrame(self.X, columns=list(self.feature_names))
        own = ("task", "y", *(() if self.weight is None else ("weight",)))
        for argument, taken, what in (
            ("feature_names", self.feature_names, "feature"),
            ("t_names", self.t_names or (), "column of t"),
        ):
            for column in own if what == "feature" else (*own, *self.feature_names):
                if column in taken:
                    raise ValueError(
                        f"{argument} holds {column!r}, which to_frame needs for a column of its own. "
                        f"Rename the {what}."
                    )
        if self.t is not None:
            frame[list(self.t_names or ())] = self.t
        frame["task"] = pd.Categorical.from_codes(self.task, dtype=pd.CategoricalDtype(list(self.task_names)))
        frame["y"] = self.y
        if self.weight is not None:
            frame["weight"] = self.weight
        return frame

    # ---------------------------------------------------------------- new data from old

    def take(self, rows: Any) -> MultiTaskData:
        """The observations at these positions (integers or a boolean mask); tasks and names stay."""
        try:
            index = np.atleast_1d(
                np.arange(self.n_rows)[rows if isinstance(rows, slice) else _positions(rows)]
            )
        except IndexError as error:
            raise ValueError(
                f"rows do not fit the {self.n_rows} rows of the data ({error}). Give positions, or one bool a row."
            ) from None
        if self.shares_inputs:
            used, row = np.unique(self.row[index], return_inverse=True)
        else:
            used, row = self.row[index], np.arange(len(index))
        return replace(
            self,
            inputs=self.inputs[used],
            row=row,
            y=self.y[index],
            task=self.task[index],
            t=None if self.t is None else self.t[index],
            weight=None if self.weight is None else self.weight[index],
        )

    def split(self, test_size: float = 0.25, random_seed: Any = None) -> tuple[MultiTaskData, MultiTaskData]:
        """Training and test data, the test rows drawn at random inside each task.

        Every task keeps at least one training row. Observations that share an input (multi-label data)
        go to the same side, so no test input is seen in training.
        """
        probability(test_size, "test_size")
        rng = generator(random_seed)
        if self.shares_inputs:
            chosen = rng.permutation(self.n_inputs)[: round(test_size * self.n_inputs)]
            test = np.isin(self.row, chosen)
        else:
            test = np.zeros(self.n_rows, dtype=bool)
            for rows in self.rows_by_task():
                n_test = min(round(test_size * len(rows)), len(rows) - 1)
                test[rng.permutation(rows)[: max(n_test, 0)]] = True
        return self.take(~test), self.take(test)

    def folds(self, n: int = 5, random_seed: Any = None) -> list[tuple[MultiTaskData, MultiTaskData]]:
        """Training and held-out data of ``n``-fold cross-validation; every task keeps training rows in every fold.

        The rows of each task are dealt at random, so that the sizes of folds differ by at most one, in all and
        inside a task; a task with fewer rows than ``n`` is held out in as many folds as it has rows. Where
        observations share inputs (multi-label data), the inputs are dealt, so that no held-out input is seen in
        training. A task's only row, or with shared inputs its only input, stays in training always. All else is
        held out exactly once.

        Parameters
        ----------
        n : int
            Number of folds, 2 or more.
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        list of n pairs (train, held_out)

        Raises
        ------
        ValueError
            ``n`` is no whole number of 2 or more; there are fewer rows (inputs) to hold out than folds; the
            inputs of a task, which is named, cannot be dealt so that it keeps a training row in every fold.
        """
        n = whole_number(n, "n", 2)
        rng = generator(random_seed)
        fold = folds_of_inputs(self, n, rng)[self.row] if self.shares_inputs else folds_of_rows(self, n, rng)
        return [(self.take(fold != k), self.take(fold == k)) for k in range(n)]

    def select_tasks(self, tasks: Sequence[str]) -> MultiTaskData:
        """The data of these tasks only, in the order given."""
        if not len(tasks):
            raise ValueError("tasks is empty. Name at least one task.")
        tasks = names(tasks, "tasks")
        position = {name: i for i, name in enumerate(self.task_names)}
        for name in tasks:
            if name not in position:
                one_of(name, self.task_names, "tasks")
        order = [position[name] for name in tasks]
        kept = self.take(np.isin(self.task, order))
        code = np.full(self.n_tasks, -1)
        code[order] = np.arange(len(order))
        return replace(kept, task=code[kept.task], task_names=tasks)

    def standardize(self, y: bool | None = None) -> MultiTaskData:
        """Data with features (and a real response) at mean 0 and standard deviation 1.

        Constant columns, an intercept among them, are left as they are. ``y=None`` scales the response
        unless it holds labels (two values). Predictions of a fit come back on the user's scale. Weights do not
        count in the means and standard deviations. Sparse features are refused.
        """
        if self.transform is not None:
            raise ValueError("the data are standardized already. Use them as they are.")
        self._refuse_sparse("centred features", ", or scale its columns (without a mean) and y before")
        mean, scale = _location_and_scale(self.X, self.feature_names, "X")
        constant = scale == 0.0
        mean, scale = np.where(constant, 0.0, mean), np.where(constant, 1.0, scale)
        y_mean, y_scale = 0.0, 1.0
        scale_y = len(np.unique(self.y)) > 2 if y is None else y
        if scale_y:
            of_y = _location_and_scale(self.y[:, None], ("y",), "y")
            y_mean, y_scale = float(of_y[0][0]), float(of_y[1][0])
            if y_scale == 0.0:
                raise ValueError("y is constant. There is nothing to learn: check the response column.")
        transform = Transform(mean, scale, y_mean, y_scale)
        return replace(
            self,
            inputs=transform.apply_x(self.inputs),
            y=transform.apply_y(self.y),
            transform=transform,
        )

    def add_intercept(self, name: str = "intercept") -> MultiTaskData:
        """Data with a last feature that is 1 everywhere."""
        (name,) = names([name], "name")
        if name in self.feature_names or name == self.task_column:
            what = "a feature already" if name in self.feature_names else "the column of the tasks"
            raise ValueError(f"name {name!r} is {what}. Choose another name.")
        transform = self.transform
        if transform is not None:
            transform = replace(
                transform, x_mean=np.append(transform.x_mean, 0.0), x_scale=np.append(transform.x_scale, 1.0)
            )
        return replace(
            self,
            inputs=_with_ones(self.inputs),
            feature_names=(*self.feature_names, name),
            transform=transform,
        )

    def original_y(self) -> np.ndarray:
        """The response on the user's scale, (N,)."""
        return self.y if self.transform is None else self.transform.restore_y(self.y)

    def original_X(self) -> np.ndarray | csr_matrix:
        """The features on the user's scale, (N, D); a csr_matrix where ``inputs`` is one."""
        if self.transform is None:
            return self.X
        return self.X * self.transform.x_scale + self.transform.x_mean

    def _refuse_sparse(self, result: str, otherwise: str = "") -> None:
        if self.is_sparse:
            raise ValueError(
                f"X is sparse, and {result} would be dense. Make the data from X.toarray(), "
                f"if that fits into memory{otherwise}."
            )

    def rows_by_task(self) -> list[np.ndarray]:
        """Positions of each task's observations, in task order."""
        order = np.argsort(self.task, kind="stable")
        return np.split(order, np.cumsum(self.task_sizes.to_numpy())[:-1])

    def require_rows_in_every_task(self, only_warn: bool = False) -> None:
        """Raise, or warn, where a task has no row: its coefficients could not be learned from it."""
        sizes = self.task_sizes
        if (sizes == 0).any():
            empty = sizes.index[int(np.flatnonzero(sizes.to_numpy() == 0)[0])]
            if only_warn:
                warnings.warn(
                    f"task {empty!r} has no rows. It is predicted from the population of the others.",
                    UserWarning,
                    stacklevel=3,
                )
                return
            raise ValueError(
                f"task {empty!r} has no rows. Leave it out with data.select_tasks(...), "
                "and predict it as a new task."
            )

    def column_sizes(self) -> np.ndarray:
        """Largest absolute value of each feature, (D,)."""
        return _sizes(self.inputs)

    def require_workable_scale(self, fitted: bool = True) -> None:
        """Raise where a column is so large, or so small, that powers of it leave float64 or lose all its digits.

        Parameters
        ----------
        fitted : bool
            Whether these are rows to fit. Of rows to predict only features and ``t`` count, and only large ones.
        """
        parts: list[tuple[str, Any, tuple[str, ...]]] = [("X", self.inputs, self.feature_names)]
        if self.t is not None:
            parts.append(("t", self.t, self.t_names or ()))
        if fitted:
            parts.append(("y", self.y[:, None], ("y",)))
            if self.weight is not None:  # each of them, where of other columns the largest counts
                extremes = np.array([[self.weight.min(), self.weight.max()]])
                parts.append(("weight", extremes, ("weight", "weight")))
            if self.transform is not None:
                self._require_workable_units(self.transform)
        for argument, values, labels in parts:
            sizes = _sizes(values)
            bad = np.flatnonzero((sizes > _LARGEST) | ((sizes > 0.0) & (sizes < _SMALLEST) & fitted))
            if len(bad):
                advice = (
                    "Use data.standardize(), or other units." if fitted else "Check the units of these rows."
                )
                raise ValueError(
                    f"{argument} column {labels[bad[0]]!r} has values of size {sizes[bad[0]]:.3g}, and models reckon "
                    f"with {_SMALLEST:g} to {_LARGEST:g}. {advice}"
                )

    def _require_workable_units(self, transform: Transform) -> None:
        scales = np.append(transform.x_scale, transform.y_scale)
        means = np.abs(np.append(transform.x_mean, transform.y_mean))
        bad = (scales < _SMALLEST) | (np.maximum(scales, means) > 1.0 / _SMALLEST)
        if bad.any():
            column = int(np.flatnonzero(bad)[0])
            name = (*self.feature_names, "y")[column]
            raise ValueError(
                f"column {name!r} had standard deviation {scales[column]:.3g} and mean {means[column]:.3g} before "
                "data.standardize(), beyond what results in its units can hold. Give it in other units."
            )

    def warn_about_single_class_tasks(self) -> None:
        """Warn of tasks whose labels are all equal; raise when that is so in every task."""
        low = np.full(self.n_tasks, np.inf)
        high = np.full(self.n_tasks, -np.inf)
        np.minimum.at(low, self.task, self.y)
        np.maximum.at(high, self.task, self.y)
        single = np.flatnonzero(low == high)
        if len(single) == self.n_tasks:
            raise ValueError("y has one class in every task. Check the label column.")
        if len(single):
            shown = ", ".join(repr(self.task_names[i]) for i in single[:5])
            warnings.warn(
                f"y has one class in {len(single)} of {self.n_tasks} tasks ({shown}). "
                "They are fitted from the other tasks' information.",
                UserWarning,
                stacklevel=3,
            )


def _location_and_scale(
    values: np.ndarray, column_names: Sequence[str], argument: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of (N, m), in any units; the deviation is 0 of a constant column."""
    # A power of two is exact. Without it squares overflow, or vanish, beyond 1e154 and below 1e-154.
    _, exponent = np.frexp(np.abs(values).max(axis=0))
    scaled = np.ldexp(values, -exponent)
    mean, scale = scaled.mean(axis=0), scaled.std(axis=0)
    scale[scale <= _ROUNDING * np.abs(mean)] = 0.0
    reach = np.abs(scaled - mean).max(axis=0)
    with np.errstate(over="ignore"):
        far = np.flatnonzero(np.isinf(np.ldexp(reach, exponent)))
    if len(far):
        raise ValueError(
            f"{argument} column {column_names[far[0]]!r} spans more than float64 holds. Divide it by a power of ten."
        )
    return np.ldexp(mean, exponent), np.ldexp(scale, exponent)


def _sizes(values: np.ndarray | csr_matrix) -> np.ndarray:
    """Largest absolute value of each column."""
    if is_sparse(values):
        return np.ravel(abs(values).max(axis=0).toarray())
    return np.abs(values).max(axis=0) if len(values) else np.zeros(values.shape[1])


def _texts(names_given: Any) -> tuple[str, ...]:
    """Names as text, where a list of them is given; what else it may be is refused later."""
    return tuple(map(str, names_given)) if isinstance(names_given, list | tuple | pd.Index) else ()


def _others(arguments: tuple[Any, ...], one: Any) -> list[Any]:
    return [value for value in arguments if value is not one]


def _positions(rows: Any) -> np.ndarray:
    index = as_array(rows, "rows")
    return index.astype(np.int64) if index.size == 0 else index


def _with_ones(inputs: np.ndarray | csr_matrix) -> np.ndarray | csr_matrix:
    ones = np.ones((inputs.shape[0], 1))
    if not is_sparse(inputs):
        return np.column_stack([inputs, ones])
    from scipy.sparse import csr_matrix, hstack

    return hstack([inputs, csr_matrix(ones)], format="csr")

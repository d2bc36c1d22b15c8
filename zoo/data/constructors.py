"""Multi-task data from what users have: arrays, tables, matrices of labels, xarray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from zoo.data.categories import CategoryDesign, is_category
from zoo.data.choices import choice_codes
from zoo.data.columns import (
    LEFT_OUT,
    as_table,
    graded,
    listed,
    others,
    refuse_response,
    require_names,
    require_one_column,
    require_same_rows,
    rows_at,
    task_column,
    task_variable,
    texts,
    weights,
    weights_of_entries,
)
from zoo.data.gaps import MISSING, complete_rows, gaps_of, require_known_values, without_gaps
from zoo.data.group_numbers import warn_of_group_numbers
from zoo.data.rows import TaskRows
from zoo.support.checks import (
    finite_inputs,
    finite_matrix,
    finite_vector,
    names,
    one_of,
    task_codes,
)
from zoo.support.frames import in_order_of_names, read_column, read_table
from zoo.support.words import counted

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Constructed"]


@dataclass(frozen=True, eq=False, repr=False)
class Constructed(TaskRows):
    """The constructors of :class:`zoo.MultiTaskData`."""

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        task: Any = LEFT_OUT,
        t: Any = None,
        task_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        weight: Any = None,
        t_names: Sequence[str] | None = None,
        missing: str = "refuse",
        choice: Any = None,
    ) -> Self:
        """Data from arrays in long form.

        Parameters
        ----------
        X : (N, D) array_like of float, table, or scipy.sparse matrix, or None
            Features, one row per observation. None, or no column: no features, for models with an intercept of their
            own (:class:`zoo.VaryingCoefficientGP`). Sparse ones stay sparse, for the models that take them. A table
            is one of pandas, polars, Arrow or another library that narwhals knows, a DataArray or Dataset of xarray,
            a structured array, or a dict of columns.
        y : (N,) array_like of float, int or bool, or column of ordered categories
            Responses or labels. Categories that have names become grades 1, 2, ... in their order, for
            :class:`zoo.Ordinal`.
        task : (N,) array_like, optional
            Task of each row: names, or integers 0 .. T-1 when ``task_names`` is given. None: one task. Left out: one
            task too, which models of what tasks have in common refuse. The name of a named column is remembered as
            ``task_column``, unless a feature has it.
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
        missing : {"refuse", "drop", "model"}
            What becomes of missing values: an error names the first one; or rows with a gap in any argument are left
            out, and a warning counts them; or gaps in ``X`` stay, and method "nuts" draws them with the rest of the
            model, from a normal law of the features (see :mod:`zoo.core.missing_features`).
        choice : (N,) array_like, optional
            Rows of a task with the same label are alternatives of one choice, of which y says which one was chosen
            (1 or True there, 0 elsewhere), for :class:`zoo.MultinomialLogit`.

        Raises
        ------
        TypeError
            A table is lazy.
        ValueError
            Names the argument and the first offending row, task or column; or the rows of two arguments have
            different labels (an index of pandas, a coordinate of xarray).
        """
        left_out, task = task is LEFT_OUT and task_names is None, None if task is LEFT_OUT else task
        beside = (X, y, task, t, weight, choice)
        rows_of = {
            "X": read_table(X, "X", texts(feature_names), others(beside, X)),
            "y": read_column(y, "y"),
            "task": read_column(task, "task"),
            "t": read_table(t, "t", texts(t_names), others(beside, t)),
            "weight": read_column(weight, "weight"),
            "choice": read_column(choice, "choice"),
        }
        require_same_rows(**rows_of)
        values: dict[str, Any] = {name: part.values for name, part in rows_of.items()}
        kept = complete_rows(missing, values)
        if kept is not None:
            values = {name: rows_at(part, kept) for name, part in values.items()}
        X, y, task, t, weight, choice = values.values()
        if X is None:
            X = np.empty((np.size(y), 0))
        X, feature_names = in_order_of_names(X, feature_names, "X", "feature_names")
        inputs = finite_inputs(X, "X", feature_names, allow_none=True, allow_missing=missing == "model")
        gaps = gaps_of(inputs) if missing == "model" else None
        if gaps is not None:
            require_known_values(inputs, gaps, feature_names)
        n_rows = inputs.shape[0]
        y, grades = graded(y)
        y_ = finite_vector(y, "y", n_rows)
        codes, task_labels = task_codes(task, n_rows, task_names)
        features = names(feature_names, "feature_names", inputs.shape[1], prefix="x")
        column = task.name if isinstance(task, pd.Series) and isinstance(task.name, str) else None
        t_, t_labels = task_variable(t, n_rows, t_names)
        chosen_from = getattr(choice, "name", None) if isinstance(choice, pd.Series) else None
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
            grades=grades,
            # A column of features would be read as tasks.
            task_column=None if column in (*features, *(t_labels or ())) else column or None,
            incomplete=gaps is not None,
            choice=None if choice is None else choice_codes(choice, codes, n_rows),
            choice_column=None if chosen_from in (None, *features) else str(chosen_from),
            task_left_out=left_out,
        )

    @classmethod
    def from_frame(
        cls,
        df: Any,
        y: str,
        task: str | None = LEFT_OUT,
        features: Sequence[str] | None = None,
        t: str | Sequence[str] | None = None,
        weight: str | None = None,
        missing: str = "refuse",
        task_features: Sequence[str] = (),
        choice: str | None = None,
    ) -> Self:
        """Data from a table with one row per observation.

        Parameters
        ----------
        df : pandas.DataFrame, or a table of polars, Arrow or another library that narwhals knows
            Also a Dataset of xarray whose variables have one dim, a dict of columns, or a structured array.
        y, task : str
            Columns with the response and the task. Task values become task names, in sorted order, and the column's
            name is remembered: predictions read it in tables. None, or left out: as in :meth:`from_arrays`.
        features : sequence of str, optional
            Columns to use as features. Default: every other column, with a warning of whole numbers that look like
            names of groups, by the rule of :func:`zoo.data.group_numbers.numbers_of_groups`. An empty list: none, for
            models with an intercept of their own (:class:`zoo.VaryingCoefficientGP`). A column of categories or of
            text becomes one feature of 0 and 1 for each level but the first, ``city[Rome]``; tables of rows to predict
            are coded alike.
        t : str or sequence of str, optional
            Columns of a continuous task variable; their names become ``t_names``.
        weight : str, optional
            Column with the weight of each observation in the likelihood, finite and above 0.
        missing : {"refuse", "drop", "model"}
            What becomes of rows with a gap in a column that is used: an error names the first one; or they are left
            out, and a warning counts them; or gaps in features that are numbers stay, and method "nuts" draws them
            with the rest of the model, from a normal law of the features (see :mod:`zoo.core.missing_features`).
        task_features : sequence of str
            Characteristics of tasks, columns with one value per task, such as the size of a school. The mean of the
            coefficients of a task follows them linearly: each characteristic, and its product with each other
            feature (``size:hours``), gets a coefficient that all tasks share. Models with shared coefficients
            (:class:`zoo.NIWLinear`, :class:`zoo.MaxMargin` and others) then predict new tasks from theirs. See
            :mod:`zoo.data.categories`.
        choice : str, optional
            Column that numbers choices, of which each alternative is a row: rows of a task with the same label are
            alternatives of each other, and y is 1 where one was chosen. For :class:`zoo.MultinomialLogit`.

        Raises
        ------
        ValueError
            Names the column that ``df`` lacks, or the first offending row.
        """
        left_out, task = task is LEFT_OUT, None if task is LEFT_OUT else task
        df = as_table(df)
        if not isinstance(df, pd.DataFrame):
            raise TypeError(
                f"df is a {type(df).__name__}. Give a DataFrame of pandas, polars or Arrow, or use from_arrays or "
                "from_xarray."
            )
        if isinstance(df.columns, pd.MultiIndex):
            raise ValueError("df has columns of several levels. Give them one name each.")
        if isinstance(features, str):
            raise ValueError(f"features is the string {features!r}. Give a list of columns, [{features!r}].")
        require_names(y=y, task=task, weight=weight, choice=choice)
        t_columns = [] if t is None else list(t) if isinstance(t, list | tuple | pd.Index) else [t]
        others = features is None
        special: list[Any] = [y, *(c for c in (task, weight, choice) if c is not None), *t_columns]
        features = (
            [c for c in df.columns if c not in special] if features is None else listed(features, "features")
        )
        of_tasks = listed(task_features, "task_features")
        features = [*features, *(name for name in of_tasks if name not in features)]
        for column in [*special, *features]:
            require_one_column(df, column)
        if others and not features:
            raise ValueError(
                "df has no other columns for features. Add some, or give features=[] for a model with an intercept of "
                "its own, such as VaryingCoefficientGP."
            )
        one_of(missing, MISSING, "missing")
        if of_tasks and missing == "model":
            raise ValueError(
                "missing='model' draws gaps of features, and task_features makes products of them, which would be "
                "drawn apart. Fill the gaps in, or leave these rows out with missing='drop'."
            )
        numeric = [name for name in features if not is_category(df[name])]
        of_choice = [] if choice is None else [c for c in (task, choice) if c is not None]
        df = without_gaps(df, [*special, *features], missing, may_miss=numeric, choice=of_choice)
        design = CategoryDesign.of(
            df, features, y, task, of_tasks, choice is not None
        )  # of the rows that stay: each level has one
        task_labels, task_values = None, None
        if task is not None:
            task_labels, task_values = task_column(df[task])
        refuse_response(y, task=[task], weight=[weight], choice=[choice], t=t_columns, features=features)
        if others:
            warn_of_group_numbers(df, [c for c in numeric if c not in of_tasks], y, task is not None)
        X = df[features] if design is None else design.features(df.rename(columns=str))
        data = cls.from_arrays(
            X=X,
            y=df[y],
            task=LEFT_OUT if left_out else task_values,
            t=df[t_columns] if t_columns else None,
            task_names=task_labels,
            feature_names=list(X.columns),
            weight=None if weight is None else df[weight],
            missing="model" if missing == "model" else "refuse",
            choice=None if choice is None else df[choice].rename(str(choice)),
        )
        data = data if design is None else replace(data, design=design, shared_names=design.shared_names)
        return data if task is None else replace(data, task_column=str(task))

    @classmethod
    def from_multilabel(
        cls,
        X: Any,
        Y: Any,
        task_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        weight: Any = None,
    ) -> Self:
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
            "X": read_table(X, "X", texts(feature_names), others(beside, X)),
            "Y": read_table(Y, "Y", texts(task_names), others(beside, Y)),
        }
        rows_of["weight"] = read_table(weight, "weight", (), others(beside, weight))
        require_same_rows(**rows_of)
        X, Y, weight = (part.values for part in rows_of.values())
        X, feature_names = in_order_of_names(X, feature_names, "X", "feature_names")
        Y, task_names = in_order_of_names(Y, task_names, "Y", "task_names")
        inputs = finite_inputs(X, "X", feature_names)
        Y_ = finite_matrix(Y, "Y", task_names, allow_missing=True)
        if len(Y_) != inputs.shape[0]:
            raise ValueError(
                f"Y has {counted(len(Y_), 'row')} and X has {inputs.shape[0]}. Give both the same rows."
            )
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
    ) -> Self:
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

"""Multi-task data inside a PyMC model: the view that a factory's hooks work with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.core.missing_features import completed
from zoo.data.multitask import MultiTaskData
from zoo.inference.gibbs.many_shared import SharedRows
from zoo.support.checks import is_sparse

__all__ = ["SHARED", "ModelData"]

SHARED = "shared_coefficients"
"""What the posterior calls coefficients that all tasks share."""


@dataclass(frozen=True, eq=False)
class ModelData:
    """The rows as ``pm.Data`` variables.

    Parameters
    ----------
    source : MultiTaskData
        The numbers and names.
    inputs : TensorVariable
        (N, D) features of the rows, or (n, D) distinct inputs where tasks share them (see ``row``).
    row : TensorVariable or None
        (N,) position of each observation in ``inputs``; None when ``inputs`` are the rows themselves.
    y, task : TensorVariable
        (N,) coded response and task number.
    t : TensorVariable or None
        (N, P) continuous task variable.
    weight : TensorVariable or None
        (N,) weight of each row's log likelihood.
    shared : TensorVariable or None
        (N, S) features whose coefficient all tasks share; ``inputs`` are then the other ones.
    shared_index : TensorVariable or None
        None, unless the shared features are very many and each row has K of them at most, as with levels of further
        groups. It then says which features each row has, (N, K), and ``shared`` holds their values, (N, K).
    """

    source: MultiTaskData
    inputs: Any
    row: Any
    y: Any
    task: Any
    t: Any
    weight: Any = None
    shared: Any = None
    shared_index: Any = None

    @classmethod
    def in_model(cls, data: MultiTaskData, y: np.ndarray) -> ModelData:
        """Register the data in the PyMC model on the context stack."""
        shared = data.shares_inputs
        if data.gaps is not None and shared:
            raise ValueError("tasks share inputs that have gaps, which no model takes. Fill them in.")
        if shared:
            pm.modelcontext(None).add_coord("input_row", np.arange(data.n_inputs))
        view = cls(
            source=data,
            inputs=pm.Data(
                "X", _without_nan(data, data.inputs), dims=("input_row" if shared else "obs", "feature")
            ),
            row=pm.Data("row", data.row, dims="obs") if shared else None,
            y=pm.Data("y_observed", y, dims="obs"),
            task=pm.Data("task_index", data.task, dims="obs"),
            t=None if data.t is None else pm.Data("t", data.t, dims=("obs", "t_column")),
            weight=None if data.weight is None else pm.Data("weight", data.weight, dims="obs"),
            **_shared_in_model(data),
        )
        inputs, of_all_tasks = completed(data, view.inputs, view.shared)
        return view if inputs is view.inputs else replace(view, inputs=inputs, shared=of_all_tasks)

    @classmethod
    def constant(cls, data: MultiTaskData) -> ModelData:
        """The rows as constants, outside the variables of any model."""
        return cls(
            source=data,
            inputs=pt.constant(data.inputs),
            row=pt.constant(data.row) if data.shares_inputs else None,
            y=pt.constant(data.y),
            task=pt.constant(data.task),
            t=None if data.t is None else pt.constant(data.t),
            weight=None if data.weight is None else pt.constant(data.weight),
            **{name: pt.constant(values) for name, values in _shared_values(data).items()},
        )

    @property
    def X(self) -> Any:
        """Features of each observation, (N, D)."""
        return self.inputs if self.row is None else self.inputs[self.row]

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the T tasks."""
        return self.source.task_names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the D features."""
        return self.source.feature_names

    def linear(self, coefficients: Any) -> Any:
        """``f_n = x_n' coefficients[:, task_n]``, (N,); coefficients (D, T), or (D,) for all tasks alike."""
        if coefficients.ndim == 1:
            f = pt.dot(self.inputs, coefficients)
            return f if self.row is None else f[self.row]
        if self.row is None:
            return (self.inputs * coefficients.T[self.task]).sum(axis=-1)
        return pt.dot(self.inputs, coefficients)[self.row, self.task]

    def of_shared(self, coefficients: Any) -> Any:
        """What the features that all tasks share say of each row, (N,), with these coefficients (S,)."""
        if self.shared_index is None:
            return pt.dot(self.shared, coefficients)
        return (self.shared * coefficients[self.shared_index]).sum(axis=1)

    def per_row(self, parameter: Any) -> Any:
        """A parameter of the tasks (T,) as one value per row; a scalar stays as it is."""
        return parameter if parameter.ndim == 0 else parameter[self.task]


def _shared_values(data: MultiTaskData) -> dict[str, np.ndarray]:
    """The fields of a view that hold the shared features."""
    if data.shared is None:
        return {}
    if not is_sparse(data.shared):
        return {"shared": _without_nan(data, data.shared)}
    rows = SharedRows.of(data.shared, np.arange(data.n_rows))
    return {"shared": rows.value, "shared_index": rows.feature}


def _shared_in_model(data: MultiTaskData) -> dict[str, Any]:
    """The same, registered in the model."""
    values = _shared_values(data)
    if "shared_index" not in values:
        dims = ("obs", "shared_feature")
        return {name: pm.Data("X_shared", array, dims=dims) for name, array in values.items()}
    pm.modelcontext(None).add_coord("shared_entry", np.arange(values["shared"].shape[1]))
    names, dims = {"shared": "X_shared", "shared_index": "shared_index"}, ("obs", "shared_entry")
    return {name: pm.Data(names[name], array, dims=dims) for name, array in values.items()}


def _without_nan(data: MultiTaskData, values: Any) -> Any:
    """Features with zeros for gaps, which PyMC does not take as data; variables of the model replace them."""
    return np.nan_to_num(values) if data.incomplete else values

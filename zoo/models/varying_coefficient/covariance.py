r"""The covariance of a varying-coefficient model, theorem 3 of bussas2015 with more than one component:

.. math:: K((x, t), (x', t')) = \sum_c k_c(t, t')\, k_{Xc}(x, x') + g^2\, k_X(x, x')

The last term are global coefficients, which do not vary: a constant added to the task kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.kernels import kernel_parameters, with_parameters
from zoo.latent.coordinates import Hyper
from zoo.models.varying_coefficient.parts import Part
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.stationary import stationary

__all__ = ["InstanceKernel", "VaryingKernel"]

_INSTANCE = "instance_"


class InstanceKernel:
    """A covariance of the features that is not linear.

    Parameters
    ----------
    kernel : str or tuple
        A word, or the description of a covariance of PyMC.
    lengthscale : "shared", "per_feature", "fixed" or float
        What is learned: of a word one lengthscale, or one per feature; of a covariance all that may be learned.
    rows : VaryingRows
    """

    def __init__(self, kernel: Any, lengthscale: Any, rows: VaryingRows):
        self.kernel, self.lengthscale, self.rows = kernel, lengthscale, rows

    def hyperparameters(self) -> dict[str, Hyper]:
        """What is learned of it, by full name."""
        if isinstance(self.lengthscale, float) or self.lengthscale == "fixed":
            return {}
        if isinstance(self.kernel, str):
            D = self.rows.n_features
            start = float(np.sqrt(D))  # about the distance of two standardized rows
            if self.lengthscale == "per_feature":
                return {f"{_INSTANCE}lengthscale": Hyper(np.full(D, start), dims=("feature",))}
            return {f"{_INSTANCE}lengthscale": Hyper(start)}
        kinds = {"nonnegative": "positive"}
        return {
            f"{_INSTANCE}{name}": Hyper(p.value, kinds.get(p.kind, p.kind))
            for name, p in kernel_parameters(self.kernel).items()
        }

    def covariance(self, values: dict[str, Any], x: Any, z: Any = None, diag: bool = False) -> Any:
        """The matrix (n, m), or (n,) with ``diag``."""
        if isinstance(self.kernel, str):
            if diag:
                return pt.ones_like(x[:, 0])
            lengthscale = pt.as_tensor(
                values.get(f"{_INSTANCE}lengthscale", self.lengthscale), dtype="float64"
            )
            square = _squared_distances(x / lengthscale, x if z is None else z, lengthscale)
            return stationary(self.kernel, square, products=True)
        known = kernel_parameters(self.kernel)
        learned = {n: values[f"{_INSTANCE}{n}"] for n in known if f"{_INSTANCE}{n}" in values}
        function = with_parameters(self.kernel, learned)
        return function(x, diag=True) if diag else function(x, z)


def _squared_distances(x: Any, z: Any, lengthscale: Any) -> Any:
    """Between scaled rows x (n, D) and rows z (m, D), by one product: of many columns it is the quicker way."""
    z = z / lengthscale
    squares = pt.sum(pt.square(x), axis=1)[:, None] + pt.sum(pt.square(z), axis=1)[None, :]
    return pt.maximum(squares - 2.0 * pt.dot(x, z.T), 0.0)


class VaryingKernel:
    """The covariance of the function at points [x, t, task], all standardized.

    Parameters
    ----------
    rows : VaryingRows
        Those of the fit.
    parts : list of Part
    instance : InstanceKernel or None
        None: linear.
    with_global : bool
        Whether there are global coefficients, with the standard deviation ``global_scale``.
    """

    def __init__(
        self, rows: VaryingRows, parts: list[Part], instance: InstanceKernel | None, with_global: bool
    ):
        self.rows, self.parts, self.instance, self.with_global = rows, parts, instance, with_global

    @property
    def is_linear(self) -> bool:
        """Whether coefficients of the features make the function."""
        return self.instance is None

    @property
    def has_basis(self) -> bool:
        """Whether the function is a sum of fixed features with independent weights."""
        return self.is_linear and all(part.has_basis for part in self.parts)

    @property
    def basis_is_exact(self) -> bool:
        """Whether these features give the covariance exactly."""
        return self.has_basis and all(part.is_exact for part in self.parts)

    def hyperparameters(self) -> dict[str, Hyper]:
        """What is learned, by name."""
        result: dict[str, Hyper] = {}
        for part in self.parts:
            result.update(part.hyperparameters())
        if self.instance is not None:
            result.update(self.instance.hyperparameters())
        if self.with_global:
            scale = self.rows.scale
            assert scale is not None
            result["global_scale"] = Hyper(0.5 * scale.y_scale)
        return result

    def at(self, values: dict[str, Any]) -> Callable[..., Any]:
        """The covariance at hyper-parameters: a function of points (n, .), (m, .), or of one and ``diag=True``."""
        D = self.rows.n_features

        def covariance(a: Any, b: Any = None, diag: bool = False) -> Any:
            x, t = a[:, :D], a[:, D:]
            z, s = (None, None) if b is None else (b[:, :D], b[:, D:])
            terms = [
                part.task_covariance(values, t, s, diag) * self._of_features(part, values, x, z, diag)
                for part in self.parts
            ]
            if self.with_global:
                terms.append(pt.square(values["global_scale"]) * self._plain(values, x, z, diag))
            return sum(terms[1:], terms[0])

        return covariance

    def _of_features(self, part: Part, values: dict[str, Any], x: Any, z: Any, diag: bool) -> Any:
        if self.instance is None:
            return part.instance_covariance(values, x, z, diag)
        return pt.square(part.amplitudes(values)) * self.instance.covariance(values, x, z, diag)

    def _plain(self, values: dict[str, Any], x: Any, z: Any, diag: bool) -> Any:
        if self.instance is not None:
            return self.instance.covariance(values, x, z, diag)
        return pt.sum(pt.square(x), axis=1) if diag else pt.dot(x, (x if z is None else z).T)

    # ---------------------------------------------------------------- weights

    @property
    def n_weights(self) -> int:
        """Number of fixed features."""
        size = sum(len(part.features) * part.n_functions for part in self.parts)
        return size + (self.rows.n_features if self.with_global else 0)

    def low_frequencies(self) -> np.ndarray:
        """Positions of the weights that belong to the lower half of each component's frequencies, or to no sine."""
        kept = [np.ones(self.rows.n_features, dtype=bool)] if self.with_global else []
        for part in self.parts:
            kept += [part.low_frequencies()] * len(part.features)
        return np.flatnonzero(np.concatenate(kept))

    def features(self, rows: VaryingRows, block: slice | np.ndarray) -> np.ndarray:
        """The fixed features of a block of rows, (k, p): global ones first, then each component's."""
        X, times, task = rows.inputs[block], rows.times[block], rows.task[block]
        result = np.empty((len(X), self.n_weights))
        at = 0
        if self.with_global:
            at = X.shape[1]
            result[:, :at] = X
        for part in self.parts:
            functions = part.functions(times, task, rows.task_names)
            for d in part.features:
                end = at + functions.shape[1]
                np.multiply(X[:, d : d + 1], functions, out=result[:, at:end])
                at = end
        return result

    def task_features(self, rows: VaryingRows) -> np.ndarray:
        """The features of every coefficient of every task, (D, T, p): what makes coefficients of weights."""
        D, T = rows.n_features, len(rows.task_names)
        tasks = np.tile(np.arange(T), D)
        of_one = replace(
            rows,
            inputs=np.repeat(np.eye(D), T, axis=0),
            row=np.arange(D * T),
            y=np.zeros(D * T),
            task=tasks,
            t=None if rows.t is None else np.zeros((D * T, rows.t.shape[1])),
            weight=None,
        )
        return self.features(of_one, slice(0, D * T)).reshape(D, T, -1)

    def log_variances(self, values: dict[str, Any]) -> Any:
        """Logarithms of the prior variances of their weights, a tensor (p,)."""
        terms = [part.log_variances(values) for part in self.parts]
        if self.with_global:
            own = 2.0 * pt.log(values["global_scale"]) + pt.zeros(self.rows.n_features)
            terms.insert(0, own)
        return pt.concatenate(terms) if len(terms) > 1 else terms[0]


def beyond_the_data(kernel: Any, rows: VaryingRows, values: dict[str, Any], f: Any) -> Any:
    """The function at new rows, with the variance that sines lose outside the range of the data; independent by row."""
    if rows.known is None:
        return f
    for part in kernel.parts:
        at = np.flatnonzero(part.beyond(rows.times))
        if len(at):
            sd = pt.sqrt(part.lost_variance(values, rows, at))
            f = pt.inc_subtensor(f[at], sd * pm.Normal.dist(0.0, 1.0, size=len(at)))
    return f

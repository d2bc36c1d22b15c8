r"""The regulariser that a multi-task kernel is equivalent to, evgeniou2005 proposition 1.

With a kernel :math:`B_{\ell q}\, x' Q t` the penalty of the coefficients :math:`u_\ell` is, eq (19),

.. math:: J(u) = \sum_{\ell q} G_{\ell q}\, u_\ell' Q^+ u_q, \qquad G = B^+.

Where B or Q is singular, J is infinite for coefficients outside their range: no function of the kernel has these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo.support.checks import finite_matrix
from zoo.support.frames import read_table
from zoo.support.words import counted

__all__ = ["MapRegulariser", "Regulariser", "pseudo_inverse"]

# Eigenvalues below this share of the largest count as zero.
_TOLERANCE = 1e-13
# Coefficients leave the range where this share of their length lies outside.
_OUTSIDE = 1e-7


def pseudo_inverse(matrix: np.ndarray, argument: str) -> tuple[np.ndarray, np.ndarray]:
    """H with ``H H'`` the pseudo-inverse of a psd matrix, and an orthonormal basis of its null space."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    largest = np.abs(values).max(initial=0.0)
    if values[0] < -1e-8 * largest:
        raise ValueError(
            f"{argument} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}. "
            "Then there is no regulariser; mend the kernel."
        )
    kept = values > len(values) * _TOLERANCE * largest
    return vectors[:, kept] / np.sqrt(values[kept]), vectors[:, ~kept]


class Regulariser:
    """The penalty J(u) of task coefficients. Make it with ``kernel.regulariser()``.

    Parameters
    ----------
    task_matrix : (T, T) DataArray
        B, the kernel's matrix of the tasks.
    Q : (D, D) array, optional
        Metric of the features, eq (25). Left out: the identity.
    formula : str
        J in words.
    linear : bool
        Whether the tasks' functions have coefficients: the kernel is linear in x.
    """

    def __init__(
        self, task_matrix: xr.DataArray, Q: np.ndarray | None = None, formula: str = "", linear: bool = True
    ):
        self._half, self._null = pseudo_inverse(task_matrix.to_numpy(), "the task matrix")
        self._metric = None if Q is None else pseudo_inverse(Q, "Q")
        self.matrix = task_matrix.copy(data=self._half @ self._half.T)
        self.formula = formula
        self.linear = linear

    def __call__(self, coefficients: Any) -> float:
        """J of coefficients (D, T), one column per task; ``inf`` outside the range of a singular kernel.

        Of a frame or DataArray the columns go by the names of the tasks, where it has them.
        """
        if not self.linear:
            raise TypeError(
                "the kernel is not linear in x, so its functions have no coefficients. "
                "Use `matrix`, G: J is the sum of G_lq times the base kernel's inner product of f_l and f_q."
            )
        u = self._read(coefficients)
        n_tasks = self.matrix.shape[0]
        n_features = None if self._metric is None else len(self._metric[0])
        if u.shape != (n_features or u.shape[0], n_tasks):
            raise ValueError(
                f"coefficients has shape {u.shape}. Give (D, T) = ({n_features or 'D'}, {n_tasks})."
            )
        outside = [np.linalg.norm(u @ self._null)]
        if self._metric is not None:
            half, null = self._metric
            outside.append(np.linalg.norm(null.T @ u))
            energy = half.T @ u @ self._half
        else:
            energy = u @ self._half
        return np.inf if max(outside) > _OUTSIDE * np.linalg.norm(u) else float(np.sum(energy**2))

    def _read(self, coefficients: Any) -> np.ndarray:
        """Coefficients (D, T), the tasks in the order of the matrix."""
        tasks = [str(name) for name in self.matrix["task"].to_numpy()]
        if hasattr(coefficients, "dims") and "task" in coefficients.dims:
            coefficients = coefficients.transpose(..., "task")
            if "task" in coefficients.indexes and coefficients.ndim == 2:
                coefficients = pd.DataFrame(
                    coefficients.to_numpy(), columns=list(coefficients.indexes["task"])
                )
        elif hasattr(coefficients, "columns"):
            coefficients = read_table(coefficients, "coefficients").values
        if isinstance(coefficients, pd.DataFrame):
            given = [str(name) for name in coefficients.columns]
            if set(given) == set(tasks) and len(given) == len(tasks):
                coefficients = coefficients.iloc[:, [given.index(name) for name in tasks]]
            elif odd := sorted(set(given) & set(tasks)):
                raise ValueError(
                    f"coefficients has the task {odd[0]!r} of the kernel, and not all of its tasks: "
                    f"{', '.join(tasks[:5])}. Give one column for each, by these names."
                )
        return finite_matrix(coefficients, "coefficients", None)

    def __repr__(self) -> str:
        return f"<Regulariser of {counted(self.matrix.shape[0], 'task')}: {self.formula}>"


class MapRegulariser(Regulariser):
    r"""J(u) = u' E u with :math:`E = (B'B)^+`, proposition 1; ``matrix`` is E, (task, feature, task_bis, feature_bis).

    Parameters
    ----------
    maps : (T, p, D) array
        The feature maps :math:`B_\ell`.
    names : sequence of str
        Names of the tasks.
    formula : str
        J in words.
    """

    def __init__(self, maps: np.ndarray, names: Any, formula: str):
        T, _, D = maps.shape
        stacked = maps.transpose(1, 0, 2).reshape(-1, T * D)
        self._half, self._null = pseudo_inverse(stacked.T @ stacked, "B'B")
        self.matrix = xr.DataArray(
            (self._half @ self._half.T).reshape(T, D, T, D),
            dims=("task", "feature", "task_bis", "feature_bis"),
            coords={"task": list(names), "task_bis": list(names)},
        )
        self.formula = formula
        self.linear = True

    def __call__(self, coefficients: Any) -> float:
        """J of coefficients (D, T), one column per task; ``inf`` where no weights w give them."""
        u = self._read(coefficients)
        T, D = self.matrix.shape[:2]
        if u.shape != (D, T):
            raise ValueError(f"coefficients has shape {u.shape}. Give (D, T) = {(D, T)}.")
        stacked = u.T.ravel()
        if np.linalg.norm(stacked @ self._null) > _OUTSIDE * np.linalg.norm(stacked):
            return np.inf
        return float(np.sum((stacked @ self._half) ** 2))

r"""Coregionalisation, by the names of Alvarez, Rosasco & Lawrence (2012): low rank plus diagonal, and sums of these."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pymc.gp import cov
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import by_task, number_of_tasks, parameter, required, tensor
from zoo.kernels.task_kernel import TaskKernel, named_task_matrix
from zoo.support.words import counted

__all__ = ["ICM", "LMC"]


class ICM(TaskKernel):
    r"""The intrinsic coregionalisation model: :math:`(W W' + \mathrm{diag}(\kappa))_{\ell q}\, k(x, t)`.

    Parameters
    ----------
    input_dim, base, Q, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    W : (T, r) array or tensor
        Loadings of the tasks on r shared functions; (T,) is one column. Of a pandas Series or frame, here and for
        ``kappa``, the names of the index count, not their order.
    kappa : float, (T,) array or tensor
        Variance of each task's own function, 0 or above.
    n_tasks : int, optional
        T, where ``W`` is a tensor of unknown shape.
    """

    parameters: ClassVar[dict[str, str]] = {"W": "real", "kappa": "nonnegative"}

    def __init__(
        self,
        input_dim: int | None = None,
        W: Any = None,
        kappa: Any = 0.0,
        *,
        n_tasks: int | None = None,
        **arguments: Any,
    ):
        W, arguments["task_names"] = by_task(required(W, "W"), "W", arguments.get("task_names"))
        self.W = parameter(W, "W", ndim=(1, 2))
        n_tasks = number_of_tasks(self.W, n_tasks, "W", arguments.get("task_names"))
        super().__init__(input_dim, n_tasks, **arguments)
        kappa = by_task(kappa, "kappa", self.task_names)[0]
        self.kappa = parameter(kappa, "kappa", ndim=(0, 1), least=0.0)
        if not isinstance(self.kappa, float | Variable) and len(self.kappa) != n_tasks:
            raise ValueError(
                f"kappa has {counted(len(self.kappa), 'entry')}, and W {counted(n_tasks, 'row')}. Give one per task."
            )

    def loadings(self) -> tuple[Any, Any]:
        """``kappa`` and ``W``."""
        W = tensor(self.W)
        return tensor(self.kappa) * np.ones(self.n_tasks), W if W.ndim == 2 else W[:, None]


class LMC(cov.Add):
    r"""The linear model of coregionalisation: a sum of task kernels, :math:`\sum_i B^{(i)}_{\ell q}\, k_i(x, t)`.

    Parameters
    ----------
    input_dim : int
        That of every part.
    parts : sequence of TaskKernel
        As a rule :class:`ICM` with a base each.
    """

    def __init__(self, input_dim: int, parts: Any):
        parts = list(parts)
        if not parts:
            raise ValueError("parts is empty. Give task kernels, as ICM(...).")
        for i, part in enumerate(parts):
            if not isinstance(part, TaskKernel):
                raise TypeError(f"parts[{i}] is a {type(part).__name__}. Give task kernels, as ICM(...).")
            if part.input_dim != input_dim:
                raise ValueError(
                    f"parts[{i}] has input_dim {part.input_dim}, not {input_dim}. Make them equal."
                )
            if part.task_names != parts[0].task_names:
                raise ValueError(f"parts[{i}] has other tasks than parts[0]. Give all the same.")
        super().__init__(parts)

    @property
    def n_tasks(self) -> int:
        """T."""
        return int(self._factor_list[0].n_tasks)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(self._factor_list[0].task_names)

    def task_matrix(self) -> Any:
        """The sum of the parts' matrices, a (T, T) tensor: each part's base counts as 1."""
        return pt.sum(pt.stack([part.task_matrix() for part in self._factor_list]), axis=0)

    def task_covariance(self) -> xr.DataArray:
        """The same as numbers, with the tasks' names."""
        return named_task_matrix(self.task_matrix(), self.task_names, "LMC")

    def __repr__(self) -> str:
        return f"LMC({counted(self.n_tasks, 'task')}, {counted(len(self._factor_list), 'part')})"

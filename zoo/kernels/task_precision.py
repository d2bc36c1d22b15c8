"""Tasks by the matrix of their regulariser: evgeniou2005 eqs (19) and (20)."""

from __future__ import annotations

from typing import Any, ClassVar

import pytensor.tensor as pt

from zoo.kernels.arguments import by_task, number_of_tasks, psd_matrix, required, tensor
from zoo.kernels.task_kernel import TaskKernel

__all__ = ["TaskPrecision"]


class TaskPrecision(TaskKernel):
    r"""The kernel :math:`(G^{-1})_{\ell q}\, x' Q t`, eq (20), of the penalty :math:`\sum G_{\ell q} u_\ell' u_q`.

    Parameters
    ----------
    input_dim, base, Q, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    precision : (T, T) array or tensor
        G: symmetric, positive definite. Of a frame or DataArray the names of rows and columns count, not their order.
    n_tasks : int, optional
        T, where ``precision`` is a tensor of unknown shape.
    """

    parameters: ClassVar[dict[str, str]] = {"precision": "fixed"}

    def __init__(
        self,
        input_dim: int | None = None,
        precision: Any = None,
        *,
        n_tasks: int | None = None,
        **arguments: Any,
    ):
        named = by_task(
            required(precision, "precision"), "precision", arguments.get("task_names"), square=True
        )
        precision, arguments["task_names"] = named
        self.precision = psd_matrix(precision, "precision", definite=True)
        n_tasks = number_of_tasks(self.precision, n_tasks, "precision", arguments.get("task_names"))
        super().__init__(input_dim, n_tasks, **arguments)

    def task_matrix(self) -> Any:
        """The inverse of G."""
        return pt.linalg.inv(tensor(self.precision))

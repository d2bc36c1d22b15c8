r"""Tasks near their mean: one dial from independent to pooled, evgeniou2005 eqs (22) and (25)."""

from __future__ import annotations

from typing import Any, ClassVar

import pytensor.tensor as pt

from zoo.kernels.arguments import parameter, required, tensor
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.task_kernel import TaskKernel

__all__ = ["MeanRegularised"]


class MeanRegularised(TaskKernel):
    r"""Every task near the mean of all, eq (22): :math:`(1 - \lambda + \lambda T \delta_{\ell q})\, x' Q t`.

    With ``lam = 1`` the tasks are independent; as ``lam`` goes to 0 they become one function. The regulariser is
    eq (23), corrected: the paper drops the difference between a task and the mean,

    .. math:: J(u) = \frac1T \Big( \sum_\ell |u_\ell|^2
              + \frac{1 - \lambda}{\lambda} \sum_\ell \big| u_\ell - \tfrac1T \textstyle\sum_q u_q \big|^2 \Big).

    Parameters
    ----------
    input_dim, n_tasks, base, Q, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    lam : float or tensor
        Above 0, at most 1.
    """

    parameters: ClassVar[dict[str, str]] = {"lam": "unit"}

    def __init__(
        self, input_dim: int | None = None, n_tasks: int | None = None, lam: Any = 0.5, **arguments: Any
    ):
        super().__init__(input_dim, required(n_tasks, "n_tasks"), **arguments)
        self.lam = parameter(lam, "lam")
        number = fixed_number(self.lam)
        if number is not None and not 0.0 < number <= 1.0:
            raise ValueError(
                f"lam is {float(number):g}. Give a number above 0 and at most 1: 1 makes the tasks independent, and "
                "towards 0 they become one function, which a kernel of the features alone gives."
            )

    def task_matrix(self) -> Any:
        """``(1 - lam) 11' + lam T I``."""
        # Graphs, not arrays: it is asked for often, and mostly for its presence alone.
        lam, T = tensor(self.lam), self.n_tasks
        return (1.0 - lam) * pt.ones((T, T)) + lam * T * pt.eye(T)

    def entries(self, task: Any, other: Any) -> Any:
        """``1 - lam``, and ``lam T`` more where the tasks are the same: no (T, T) tensor of many tasks."""
        lam, T = tensor(self.lam), self.n_tasks
        same = pt.ones_like(task) if other is None else pt.eq(task[:, None], other[None])
        return (1.0 - lam) + lam * T * same

    def loadings(self) -> tuple[Any, Any]:
        """``lam T`` for each task, and one shared column ``sqrt(1 - lam)``."""
        lam = tensor(self.lam)
        return pt.full((self.n_tasks,), lam * self.n_tasks), pt.full((self.n_tasks, 1), pt.sqrt(1.0 - lam))

    def formula(self) -> str:
        """Eq (23), corrected."""
        return "J(u) = (1/T) (sum_l |u_l|^2 + ((1 - lam)/lam) sum_l |u_l - (1/T) sum_q u_q|^2) (eq 23, corrected)"

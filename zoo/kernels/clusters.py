r"""Tasks in clusters, each task near the mean of its cluster or clusters: evgeniou2005 eqs (26) and (27)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import by_task, number_of_tasks, parameter, required, tensor
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.task_kernel import TaskKernel

__all__ = ["Clustered"]


class Clustered(TaskKernel):
    r"""Tasks near the means :math:`u_{0k}` of their clusters, eq (26):

    .. math:: J(u) = \min_{u_0} \sum_k \Big( \sum_\ell \rho_k^{(\ell)} |u_\ell - u_{0k}|^2 + \rho\, |u_{0k}|^2 \Big).

    With one cluster per task this is eq (27), :math:`(\delta_{\ell q} + \theta_{\ell q}/\rho)\, x' Q t` with
    :math:`\theta_{\ell q} = 1` within a cluster. One cluster of all tasks is
    :class:`~zoo.kernels.mean_regularised.MeanRegularised` over :math:`\lambda T`, with
    :math:`\rho = \lambda T / (1 - \lambda)`; the paper prints the reciprocal.

    Parameters
    ----------
    input_dim, base, Q, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    clusters : sequence of T names or numbers, or (T, c) array or tensor
        The cluster of each task; or its memberships :math:`\rho_k^{(\ell)}`, 0 or above, one of them positive. Of a
        pandas Series or frame the names of the index count, not their order, and of a dict of cluster by task too.
    rho : float or tensor
        Positive: how strongly the means of the clusters are drawn to 0. A large one makes the tasks independent.
    n_tasks : int, optional
        T, where ``clusters`` is a tensor of unknown shape.
    """

    parameters: ClassVar[dict[str, str]] = {"clusters": "fixed", "rho": "positive"}

    def __init__(
        self,
        input_dim: int | None = None,
        clusters: Any = None,
        rho: Any = 1.0,
        *,
        n_tasks: int | None = None,
        **arguments: Any,
    ):
        clusters, named = by_task(required(clusters, "clusters"), "clusters", arguments.get("task_names"))
        arguments["task_names"] = named
        self.clusters = _clusters(clusters)
        n_tasks = number_of_tasks(self.clusters, n_tasks, "clusters", arguments.get("task_names"))
        super().__init__(input_dim, n_tasks, **arguments)
        self.rho = parameter(rho, "rho", least=0.0, above=True)
        memberships = fixed_number(self.clusters) if self.soft else None
        if memberships is not None and not memberships.any(axis=1).all():
            name = self.task_names[int(np.argmin(memberships.any(axis=1)))]
            raise ValueError(f"clusters gives task {name!r} no membership above 0. Put it into a cluster.")

    @property
    def soft(self) -> bool:
        """Whether tasks have memberships, and not one cluster each."""
        return self.clusters.ndim == 2

    def task_matrix(self) -> Any:
        """The inverse of the matrix G below eq (26)."""
        if self.soft:
            d, W = self.loadings()
            return pt.diag(d) + W @ W.T
        same = self.clusters[:, None] == self.clusters
        return np.eye(self.n_tasks) + same / tensor(self.rho)

    def loadings(self) -> tuple[Any, Any]:
        """Each task's own part, and one column per cluster."""
        rho = tensor(self.rho)
        if not self.soft:
            member = self.clusters[:, None] == np.arange(self.clusters.max() + 1)
            return pt.as_tensor_variable(np.ones(self.n_tasks)), member.astype(np.float64) / pt.sqrt(rho)
        # G = diag(s) - V V', so by Woodbury G^-1 = 1/s + (V/s) (I - V'(V/s))^-1 (V/s)'.
        memberships = tensor(self.clusters)
        s = memberships.sum(axis=1)
        V = memberships / pt.sqrt(rho + memberships.sum(axis=0))
        scaled = V / s[:, None]
        root = pt.linalg.cholesky(pt.eye(V.shape[1]) - V.T @ scaled)
        return 1.0 / s, pt.linalg.solve_triangular(root, scaled.T, lower=True).T

    def formula(self) -> str:
        """Eq (26)."""
        return "J(u) = min_u0 sum_k (sum_l rho_kl |u_l - u0_k|^2 + rho |u0_k|^2) (eq 26)"


def _clusters(value: Any) -> Any:
    """Numbers of the clusters in their order of appearance, (T,) int; or memberships (T, c)."""
    ndim = value.ndim if isinstance(value, Variable) else np.ndim(value)
    if ndim != 1 or isinstance(value, Variable):
        return parameter(value, "clusters", ndim=(2,), least=0.0)
    labels = np.asarray(value).tolist()
    if not labels or any(label is None or label != label for label in labels):
        raise ValueError("clusters is empty or leaves a task without a label. Give each task its cluster.")
    order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([order[label] for label in labels])

r"""Tasks that are the nodes of a graph, neighbours alike: evgeniou2005 eqs (28) to (30)."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import by_task, number_of_tasks, parameter, required, symmetric, tensor
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.task_kernel import TaskKernel

__all__ = ["GraphLaplacian"]

_LOG = logging.getLogger("zoo")


class GraphLaplacian(TaskKernel):
    r"""Tasks near their neighbours in a graph, eq (30): :math:`L^+_{\ell q}\, x' Q t`, with L the graph's Laplacian.

    .. math:: J(u) = \tfrac12 \sum_{\ell q} A_{\ell q} |u_\ell - u_q|^2

    does not see the mean of a connected component. So without regularisation the kernel holds only functions whose sum
    over the tasks of each component is 0, and a task without neighbours has the function 0: it says how tasks differ.
    Add what they share, as in ``GraphLaplacian(...) + MeanRegularised(...)``, or give ``regularisation``: the
    kernel is then :math:`(L + \epsilon I)^{-1}`, and J has the term :math:`\epsilon \sum_\ell |u_\ell|^2` besides.

    Parameters
    ----------
    input_dim, base, Q, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    adjacency : (T, T) array or tensor, or an object that has one
        A, symmetric, in [0, 1]; its diagonal is ignored. An object's ``adjacency`` and ``task_names`` are taken. Where
        it has names (a graph, a frame or a DataArray), ``task_names`` say their order.
    regularisation : float or tensor
        epsilon, 0 or above. A tensor is taken to be above 0.
    normalised : bool
        Whether L is the normalised Laplacian :math:`D^{-1/2} (D - A) D^{-1/2}`; then the sums over a component have
        the roots of the degrees as weights.
    support : (T, T) array of bool, optional
        Where a tensor ``adjacency`` has edges, which says what is connected. Left out: all tasks are connected.
    n_tasks : int, optional
        T, where ``adjacency`` is a tensor of unknown shape.

    Attributes
    ----------
    n_components : int
        Number of connected components.
    """

    parameters: ClassVar[dict[str, str]] = {
        "adjacency": "fixed",
        "regularisation": "positive",
        "normalised": "fixed",
        "support": "fixed",
    }

    def __init__(
        self,
        input_dim: int | None = None,
        adjacency: Any = None,
        regularisation: Any = 0.0,
        *,
        normalised: bool = False,
        support: Any = None,
        n_tasks: int | None = None,
        task_names: Any = None,
        **arguments: Any,
    ):
        required(adjacency, "adjacency")
        plain = isinstance(adjacency, np.ndarray | Variable | pd.DataFrame)
        if not plain and hasattr(adjacency, "adjacency"):
            tasks = getattr(adjacency, "task_names", None)
            adjacency = adjacency.adjacency
            if tasks and not isinstance(adjacency, Variable):
                adjacency = pd.DataFrame(np.asarray(adjacency), index=list(tasks), columns=list(tasks))
        adjacency, task_names = by_task(adjacency, "adjacency", task_names, square=True)
        adjacency = parameter(adjacency, "adjacency", ndim=(2,))
        n_tasks = number_of_tasks(adjacency, n_tasks, "adjacency", task_names)
        super().__init__(input_dim, n_tasks, task_names=task_names, **arguments)
        self.adjacency = _adjacency(adjacency, self.task_names)
        self.regularisation = parameter(regularisation, "regularisation", least=0.0)
        self.normalised = bool(normalised)
        support = None if support is None else by_task(support, "support", self.task_names, square=True)[0]
        self.support = None if support is None else _support(support, n_tasks)
        self._component = self._components()
        self.n_components = int(self._component.max()) + 1
        self._explain()

    def task_matrix(self) -> Any:
        """The pseudo-inverse of the Laplacian, or the inverse of the regularised one."""
        L, null = self._laplacian()
        if not self._singular:
            return pt.linalg.inv(L + tensor(self.regularisation) * np.eye(self.n_tasks))
        # With P the projector on the null space, L + P is regular and (L + P)^-1 = L^+ + P: no eigenvalues, and so
        # a derivative where the smallest is repeated.
        projector = null @ null.T
        return pt.linalg.inv(L + projector) - projector

    def formula(self) -> str:
        """Eq (28)."""
        ridge = "" if self._singular else " + eps sum_l |u_l|^2"
        roots = " with u_l over the root of its degree" if self.normalised else ""
        return f"J(u) = (1/2) sum_lq A_lq |u_l - u_q|^2{ridge}{roots} (eq 28)"

    @property
    def _singular(self) -> bool:
        return not isinstance(self.regularisation, Variable) and self.regularisation == 0.0

    def _laplacian(self) -> tuple[Any, Any]:
        """L, and an orthonormal basis (T, components) of its null space."""
        A = tensor(self.adjacency) * (1.0 - np.eye(self.n_tasks))
        degree = A.sum(axis=1)
        member = (self._component[:, None] == np.arange(self.n_components)).astype(np.float64)
        if not self.normalised:
            return pt.diag(degree) - A, pt.as_tensor_variable(member / np.sqrt(member.sum(axis=0)))
        # A task without neighbours has degree 0: its row of L is 0 whatever its degree is taken to be.
        root = pt.sqrt(degree + np.isin(self._component, np.flatnonzero(member.sum(axis=0) == 1)))
        L = (pt.diag(degree) - A) / (root[:, None] * root)
        null = member * root[:, None]
        return L, null / pt.sqrt((null**2).sum(axis=0))

    def _components(self) -> np.ndarray:
        """Number of the connected component of each task."""
        edges = self.support if self.support is not None else fixed_number(self.adjacency, constant=True)
        if edges is None:
            return np.zeros(self.n_tasks, dtype=np.int64)
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        return connected_components(csr_matrix(np.asarray(edges) != 0), directed=False)[1]

    def _explain(self) -> None:
        if self.n_components == 1 or not self._singular:
            return
        alone = np.flatnonzero(np.bincount(self._component)[self._component] == 1)
        who = (
            f" Task {self.task_names[alone[0]]!r} has no neighbour, so its function is 0."
            if len(alone)
            else ""
        )
        _LOG.info(
            "GraphLaplacian: the graph has %d connected components, which share nothing, and over each of them the "
            "functions sum to 0.%s Give `regularisation`, or add a kernel of what all tasks share.",
            self.n_components,
            who,
        )


def _adjacency(value: Any, task_names: tuple[str, ...]) -> Any:
    """A with diagonal 0; its numbers checked, with the names of the tasks."""
    symmetric(value, "adjacency", task_names)
    numbers = fixed_number(value)
    if numbers is not None:
        off = numbers * (1.0 - np.eye(len(numbers)))
        wrong = (off < 0.0) | (off > 1.0)
        if wrong.any():
            i, j = (int(k) for k in np.argwhere(wrong)[0])
            raise ValueError(
                f"adjacency is {off[i, j]:g} between {task_names[i]!r} and {task_names[j]!r}. "
                "Give weights between 0 and 1; divide by the largest."
            )
    return value if isinstance(value, Variable) or numbers is None else off


def _support(value: Any, n_tasks: int) -> np.ndarray:
    support = np.asarray(value) != 0
    if support.shape != (n_tasks, n_tasks) or not np.array_equal(support, support.T):
        raise ValueError(
            f"support is not a symmetric ({n_tasks}, {n_tasks}) array. Give True where edges may be."
        )
    return support

r"""Tasks that are nodes of a tree, each a step away from its parent, as in hierarchical models.

With :math:`u_j = u_{pa(j)} + \sigma_j \epsilon_j`, the root's step from 0, the covariance of two tasks is the sum of
:math:`\sigma_j^2` over the ancestors that they share. In the convention of bussas2015, :math:`A_{pa(j), j} = 1`, it is
:math:`(I - A')^{-1} S (I - A)^{-1}` with S the diagonal of the :math:`\sigma_j^2`: their propositions 2 and 6,
corrected, which print the transposes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import parameter, required, tensor, unnamed
from zoo.kernels.task_kernel import TaskKernel
from zoo.support.checks import one_of

__all__ = ["Tree"]


class Tree(TaskKernel):
    """Tasks that share the steps from the root to where their branches part.

    Parameters
    ----------
    input_dim, base, Q, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    parent : (n_nodes,) int
        Parent of each node; -1 for the root.
    sigma : float, (n_nodes,) array or tensor, optional
        Standard deviation of the step from the parent to each node, 0 or above; the root's step is from 0. Left out: 1.
    level_sigma : (n_levels,) array or tensor, optional
        In place of ``sigma``: one for the nodes of each depth, the root's first.
    tasks : "leaves" or sequence of int, optional
        Nodes that are the tasks; "leaves" in the order of the nodes. Left out: every node, as in bussas2015.

    Attributes
    ----------
    depth : (n_nodes,) int array
        Steps from the root to each node.
    """

    parameters: ClassVar[dict[str, str]] = {
        "parent": "fixed",
        "sigma": "nonnegative",
        "level_sigma": "nonnegative",
        "tasks": "fixed",
    }

    def __init__(
        self,
        input_dim: int | None = None,
        parent: Any = None,
        sigma: Any = None,
        *,
        level_sigma: Any = None,
        tasks: Any = None,
        **arguments: Any,
    ):
        self.parent = _parents(required(parent, "parent"))
        self.depth = _depths(self.parent)
        self.tasks = _tasks(tasks, self.parent)
        super().__init__(input_dim, len(self.tasks), **arguments)
        if sigma is not None and level_sigma is not None:
            raise ValueError("sigma and level_sigma are both given. Give one: a node's, or a level's.")
        self.sigma = self.level_sigma = None
        if level_sigma is None:
            sigma = 1.0 if sigma is None else sigma
            self.sigma = parameter(sigma, "sigma", ndim=(0, 1), least=0.0)
            _length(self.sigma, "sigma", len(self.parent), "node")
        else:
            self.level_sigma = parameter(level_sigma, "level_sigma", ndim=(1,), least=0.0)
            _length(self.level_sigma, "level_sigma", int(self.depth.max()) + 1, "level")

    def steps(self) -> Any:
        """Standard deviation of each node's step, an (n_nodes,) tensor."""
        if self.level_sigma is not None:
            return tensor(self.level_sigma)[self.depth]
        return tensor(self.sigma) * np.ones(len(self.parent))

    @cached_property
    def _ancestors(self) -> np.ndarray:
        """Whether node j is node i or above it, (n_nodes, n_nodes) bool."""
        result = np.zeros((len(self.parent), len(self.parent)), dtype=bool)
        for node, above in self._upwards(np.arange(len(self.parent))):
            result[node, above] = True
        return result

    def _upwards(self, nodes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions in ``nodes`` and nodes: these, then their parents, and so on to the root, each pair once."""
        position, above = np.arange(len(nodes)), nodes
        while len(above):
            yield position, above
            above = self.parent[above]
            inside = above != -1
            position, above = position[inside], above[inside]

    def task_matrix(self) -> Any:
        """Sums of squared steps over common ancestors."""
        above = self._ancestors[self.tasks].astype(np.float64)
        return (above * self.steps() ** 2) @ above.T

    def loadings(self) -> tuple[Any, Any]:
        """The steps that a task takes alone, and one column for every other node above tasks."""
        pairs = list(self._upwards(self.tasks))
        task, above = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
        below = np.bincount(above, minlength=len(self.parent))
        steps, shared = self.steps(), np.flatnonzero(below > 1)
        alone = below[above] == 1
        own = pt.zeros(self.n_tasks)
        own = pt.inc_subtensor(own[task[alone]], pt.square(steps[above[alone]]))
        column = np.zeros((self.n_tasks, len(shared)))
        column[task[~alone], np.searchsorted(shared, above[~alone])] = 1.0
        return own, column * steps[shared]

    def formula(self) -> str:
        """The steps' lengths."""
        return (
            "J(u) = min over the other nodes of sum_j |u_j - u_parent(j)|^2 / sigma_j^2, the root's parent 0"
        )


def _parents(value: Any) -> np.ndarray:
    raw = np.asarray(unnamed(value, "parent", "the order of the nodes"))
    if raw.ndim != 1 or not len(raw) or raw.dtype.kind not in "iuf" or not np.array_equal(raw, np.round(raw)):
        raise ValueError(f"parent is {value!r}. Give the number of each node's parent, -1 for the root.")
    parent = raw.astype(np.int64)
    wrong = np.flatnonzero((parent < -1) | (parent >= len(parent)))
    if len(wrong):
        node = int(wrong[0])
        raise ValueError(f"parent of node {node} is {parent[node]}, outside 0 .. {len(parent) - 1}. Mend it.")
    roots = np.flatnonzero(parent == -1)
    if len(roots) > 1:
        raise ValueError(
            f"parent is -1 for node {roots[0]} and for node {roots[1]}. Give one root, a parent of both."
        )
    return parent


def _depths(parent: np.ndarray) -> np.ndarray:
    """Steps from the root to each node; raises where the parents lead in a circle."""
    depth = np.zeros(len(parent), dtype=np.int64)
    node, above = np.arange(len(parent)), parent
    for _ in range(len(parent)):
        inside = above != -1
        node, above = node[inside], above[inside]
        if not len(node):
            return depth
        depth[node] += 1
        above = parent[above]
    # Whoever still goes up goes round.
    raise ValueError(f"parent leads from node {above[above != -1].min()} back to it. Break the cycle.")


def _tasks(value: Any, parent: np.ndarray) -> np.ndarray:
    if value is None:
        return np.arange(len(parent))
    if isinstance(value, str):
        one_of(value, ("leaves",), "tasks")
        return np.setdiff1d(np.arange(len(parent)), parent)
    tasks = np.asarray(unnamed(value, "tasks", "the order of the tasks"))
    if tasks.ndim != 1 or tasks.dtype.kind not in "iu" or not len(tasks):
        raise ValueError(f"tasks is {value!r}. Give the numbers of the nodes that are tasks.")
    wrong = np.flatnonzero((tasks < 0) | (tasks >= len(parent)))
    if len(wrong):
        raise ValueError(f"tasks holds node {tasks[wrong[0]]}, outside 0 .. {len(parent) - 1}. Take it out.")
    if len(np.unique(tasks)) < len(tasks):
        node = next(int(i) for i in tasks if np.sum(tasks == i) > 1)
        raise ValueError(f"tasks holds node {node} twice. Name each node once.")
    return tasks.astype(np.int64)


def _length(value: Any, argument: str, expected: int, what: str) -> None:
    if isinstance(value, float) or value.ndim == 0:
        return
    length = value.type.shape[0] if isinstance(value, Variable) else len(value)
    if length not in (None, expected):
        raise ValueError(
            f"{argument} has {length} entries, and the tree {expected} {what}s. Give one a {what}."
        )

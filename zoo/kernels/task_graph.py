"""Graphs of tasks: which tasks are related, and how strongly, for the graph Laplacian (evgeniou2005 section 3.1.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.kernels.graph_inputs import (
    _rows_by_name,
    by_names,
    checked_adjacency,
    columns_of_tasks,
    correlated,
    is_correlation,
    named_matrix,
    names_of_tasks,
)
from zoo.support.checks import finite_matrix, names, one_of, positive, whole_number
from zoo.support.frames import read_table
from zoo.support.words import counted

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["TaskGraph"]

_WEIGHTS = ("binary", "gaussian")


@dataclass(frozen=True, eq=False)
class TaskGraph:
    r"""Undirected graph whose nodes are tasks.

    An edge of weight :math:`A_{lq}` draws the coefficients of tasks l and q together: the regulariser is
    :math:`\tfrac12 \sum_{l,q} A_{lq} \|u_l - u_q\|^2` (evgeniou2005 eq 28). Weight 0 is no edge.

    Parameters
    ----------
    adjacency : (T, T) array_like or pandas.DataFrame
        Symmetric, in [0, 1], with zeros on the diagonal. Of a frame the names of rows and columns count, not their
        order.
    task_names : sequence of T str, optional
        Default: those of the frame, else ``"task 0"``, ``"task 1"``, ... With a frame, its tasks in the order wanted.

    Raises
    ------
    ValueError
        Names the tasks at fault.
    """

    adjacency: np.ndarray
    task_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: Any = named_matrix(self.adjacency)
        if isinstance(given, pd.DataFrame):
            given, found = by_names(given, self.task_names)
            object.__setattr__(self, "task_names", found)
        matrix = finite_matrix(given, "adjacency", None)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"adjacency has shape {matrix.shape}. Give a square matrix, one row and column per task."
            )
        task_names = names_of_tasks(self.task_names, len(matrix))
        matrix = checked_adjacency(matrix, task_names)
        matrix.flags.writeable = False
        object.__setattr__(self, "adjacency", matrix)
        object.__setattr__(self, "task_names", task_names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskGraph):
            return NotImplemented
        return self.task_names == other.task_names and np.array_equal(self.adjacency, other.adjacency)

    def __hash__(self) -> int:
        return hash((self.task_names, self.adjacency.tobytes()))

    def __repr__(self) -> str:
        sizes = zip(
            (self.n_tasks, len(self._pairs[0]), self.n_components), ("task", "edge", "component"), strict=True
        )
        return (
            f"TaskGraph({', '.join(counted(n, what) for n, what in sizes)}: "
            f"{', '.join(self.task_names[:3])}{', ...' if self.n_tasks > 3 else ''})"
        )

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[Any]], task_names: Sequence[str]) -> TaskGraph:
        """Graph of given edges.

        Parameters
        ----------
        edges : iterable of (task, task) or (task, task, weight)
            Tasks by name; an edge without weight has weight 1. Each pair once, in either order.
        task_names : sequence of str
            All tasks, those without edges among them.
        """
        known = names(task_names, "task_names")
        if isinstance(edges, Mapping):
            raise ValueError(
                "edges is a dict, whose values would be left out. Give (task, task, weight) for each edge."
            )
        index = {name: i for i, name in enumerate(known)}
        adjacency = np.zeros((len(known), len(known)))
        seen: set[frozenset[str]] = set()
        for edge in edges:
            if isinstance(edge, str) or len(edge) not in (2, 3):
                raise ValueError(f"edges holds {edge!r}. Give (task, task) or (task, task, weight).")
            first, second = str(edge[0]), str(edge[1])
            for name in (first, second):
                if name not in index:
                    raise ValueError(
                        f"edges: {name!r} of {tuple(edge)!r} is not in task_names. Add it, or mend the name."
                    )
            if first == second:
                raise ValueError(f"edges joins {first!r} to itself. Leave it out: a task is itself already.")
            if frozenset((first, second)) in seen:
                raise ValueError(f"edges joins {first!r} and {second!r} twice. Give each pair once.")
            seen.add(frozenset((first, second)))
            weight = edge[2] if len(edge) == 3 else 1.0
            positive(weight, f"weight of edge {first!r} - {second!r}")
            i, j = index[first], index[second]
            adjacency[i, j] = adjacency[j, i] = weight
        return cls(adjacency, known)

    @classmethod
    def from_adjacency(cls, adjacency: Any, task_names: Sequence[str] | None = None) -> TaskGraph:
        """Graph of a matrix of weights; the same as ``TaskGraph(adjacency, task_names)``."""
        return cls(adjacency, tuple(task_names or ()))

    @classmethod
    def nearest(
        cls,
        features: Any,
        k: int = 5,
        task_names: Sequence[str] | None = None,
        weight: str = "binary",
        scale: bool = True,
    ) -> TaskGraph:
        """Join each task to the k that are nearest to it; an edge stands if either end asks for it.

        Parameters
        ----------
        features : (T, P) array_like or pandas.DataFrame
            What is known of each task: its place, size, ... The index of a frame names the tasks.
        k : int
            Below T. Of tasks at the same distance the first ones count.
        task_names : sequence of T str, optional
            With a pandas frame, its tasks in the order wanted, or names that are all new.
        weight : {"binary", "gaussian"}
            1, or exp(-(d / s)^2 / 2) of the distance d, with s the mean distance of the edges.
        scale : bool
            Divide each column by its standard deviation first; constant columns then say nothing.
        """
        one_of(weight, _WEIGHTS, "weight")
        labels = features.index if isinstance(features, pd.DataFrame) else None
        features = read_table(features, "features").values
        if task_names is not None and labels is not None:
            features = _rows_by_name(features, task_names)
        if task_names is None and isinstance(features, pd.DataFrame):
            task_names = [str(name) for name in features.index]
        columns = [str(c) for c in features.columns] if isinstance(features, pd.DataFrame) else None
        table = finite_matrix(features, "features", columns)
        n_tasks = len(table)
        known = names_of_tasks(task_names, n_tasks)
        k = whole_number(k, "k")
        if k >= n_tasks:
            raise ValueError(
                f"k is {k}, and there are {n_tasks} tasks. Give at most {n_tasks - 1}, the number of other tasks."
            )
        if scale:
            sd = table.std(axis=0)
            # Rounding leaves a constant column a tiny spread.
            varies = sd > 1e-12 * np.abs(table).max(axis=0)
            table = (table[:, varies] - table[:, varies].mean(axis=0)) / sd[varies]
        square = ((table[:, None, :] - table[None, :, :]) ** 2).sum(axis=2)
        np.fill_diagonal(square, np.inf)
        near = np.argsort(square, axis=1, kind="stable")[:, :k]
        joined = np.zeros((n_tasks, n_tasks), dtype=bool)
        joined[np.arange(n_tasks)[:, None], near] = True
        joined |= joined.T
        adjacency = joined.astype(float)
        if weight == "gaussian":
            distance = np.sqrt(square[joined])
            # All at one place: as near as can be.
            spread = float(distance.mean()) or 1.0
            adjacency[joined] = np.exp(-0.5 * (distance / spread) ** 2)
        return cls(adjacency, known)

    @classmethod
    def correlation(cls, coefficients: Any, threshold: float = 0.0, absolute: bool = False) -> TaskGraph:
        """Graph of the correlations between tasks.

        Parameters
        ----------
        coefficients : (D, T) array_like, or xarray.DataArray with a dim ``task``
            Coefficients of each task, from independent fits say, correlated over the D features. A DataArray may
            have chains and draws: their mean counts. With dims ``task`` and ``task_bis``, or as a (T, T)
            correlation matrix, the correlations themselves: of a frame or DataArray by the names of rows and columns.
        threshold : float
            Correlations up to it are no edges; in [0, 1).
        absolute : bool
            Join tasks that are opposite, too. Otherwise negative correlations are no edges.
        """
        if isinstance(threshold, bool) or not 0.0 <= threshold < 1.0:
            raise ValueError(f"threshold is {threshold!r}. Give a number of 0 or more, below 1.")
        values, known = columns_of_tasks(coefficients)
        table = finite_matrix(values, "coefficients", known)
        task_names = names_of_tasks(known, table.shape[1])
        r = table if is_correlation(table) else correlated(table, task_names)
        r = np.abs(r) if absolute else r
        # Rounding may leave a correlation above 1.
        adjacency = np.where(r > threshold, np.clip(r, 0.0, 1.0), 0.0)
        np.fill_diagonal(adjacency, 0.0)
        return cls((adjacency + adjacency.T) / 2, task_names)

    @classmethod
    def hierarchy(cls, frame: pd.DataFrame, levels: Sequence[str] | None = None) -> TaskGraph:
        """Join tasks that share the value of a column: the weight is the part of the columns that they share.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per task, named by the index. A missing value is shared with nobody.
        levels : sequence of str, optional
            Columns, from country to town say. Default: all.
        """
        if not isinstance(frame, pd.DataFrame):
            raise ValueError(
                f"frame is a {type(frame).__name__}. Give a DataFrame with one row per task, named by its index."
            )
        known = names([str(name) for name in frame.index], "frame.index")
        used = (
            list(frame.columns) if levels is None else [levels] if isinstance(levels, str) else list(levels)
        )
        if not used:
            raise ValueError("levels is empty. Name at least one column of frame.")
        for level in used:
            one_of(level, frame.columns, "levels")
        if len(set(used)) < len(used):
            raise ValueError(f"levels is {used}, with a column twice. Name each column once.")
        shared = np.zeros((len(known), len(known)))
        for level in used:
            codes = pd.factorize(frame[level])[0]  # missing: -1
            shared += (codes[:, None] == codes[None, :]) & (codes >= 0)[:, None]
        np.fill_diagonal(shared, 0.0)
        return cls(shared / len(used), known)

    # ---------------------------------------------------------------- what it says

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.task_names)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the edges, the first before the second."""
        first, second = np.nonzero(np.triu(self.adjacency))
        return first, second

    @property
    def edges(self) -> pd.DataFrame:
        """One row per edge with ``task``, ``task_bis`` and ``weight``; the index is the name of the edge."""
        first, second = self._pairs
        name = np.array(self.task_names, dtype=object)
        table = {"task": name[first], "task_bis": name[second], "weight": self.adjacency[first, second]}
        return pd.DataFrame(table, index=pd.Index(self._edge_names(), name="edge", dtype=object))

    def _edge_names(self) -> list[str]:
        return [f"{self.task_names[i]} - {self.task_names[j]}" for i, j in zip(*self._pairs, strict=True)]

    @cached_property
    def _components(self) -> tuple[int, np.ndarray]:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        count, labels = connected_components(csr_matrix(self.adjacency), directed=False)
        return int(count), labels

    @property
    def n_components(self) -> int:
        """Number of parts that no edge connects."""
        return self._components[0]

    @property
    def components(self) -> pd.Series:
        """Number of the part that each task belongs to, from 0, by task."""
        return self._series(self._components[1], "component")

    @property
    def degree(self) -> pd.Series:
        """Sum of the weights of each task's edges."""
        return self._series(self.adjacency.sum(axis=1), "degree")

    def _series(self, values: np.ndarray, name: str) -> pd.Series:
        return pd.Series(values, index=pd.Index(self.task_names, name="task"), name=name)

    def laplacian(self, normalised: bool = False) -> xr.DataArray:
        r"""Graph Laplacian :math:`L = D - A`, with D the degrees on the diagonal.

        Parameters
        ----------
        normalised : bool
            :math:`D^{-1/2} L D^{-1/2}` instead; rows of tasks without edges stay 0.

        Returns
        -------
        xarray.DataArray
            Dims ``task`` and ``task_bis``.
        """
        import xarray as xr

        degree = self.adjacency.sum(axis=1)
        L = np.diag(degree) - self.adjacency
        if normalised:
            root = np.sqrt(np.where(degree > 0.0, degree, 1.0))
            L = L / np.outer(root, root)
        tasks = list(self.task_names)
        return xr.DataArray(
            L, dims=("task", "task_bis"), coords={"task": tasks, "task_bis": tasks}, name="laplacian"
        )

    # ---------------------------------------------------------------- in a model

    def edge_weights(self, name: str = "edge_weight", alpha: float = 1.0, beta: float = 1.0) -> Any:
        """Weights of the edges as random variables: call it inside a ``pm.Model``.

        Each edge of the graph gets a weight ``name`` with a Beta prior, dim ``edge``, whose coordinate ``"a - b"``
        is added to the model; what is no edge stays none. The graph's own weights are not used.

        Parameters
        ----------
        name : str
            Of the random variable. The dim of a name other than the default is ``"{name}_edge"``, so that one model
            takes several graphs.
        alpha, beta : float
            Of the Beta distribution; both 1: uniform.

        Returns
        -------
        tensor
            The matrix of weights (T, T), symmetric with zeros on the diagonal.
        """
        import pymc as pm
        import pytensor.tensor as pt

        positive(alpha, "alpha")
        positive(beta, "beta")
        model = pm.modelcontext(None)
        first, second = self._pairs
        if len(first) == 0:
            raise ValueError("The graph has no edge that could have a weight. Give a graph with edges.")
        dim = "edge" if name == "edge_weight" else f"{name}_edge"
        labels = self._edge_names()
        known = model.coords.get(dim)
        if known is None:
            model.add_coord(dim, labels)
        elif list(known) != labels:
            raise ValueError(
                f"The model has a dim {dim!r} with other edges already. Give a name of its own to this graph's weights."
            )
        weights = pm.Beta(name, alpha=alpha, beta=beta, dims=dim)
        empty = pt.zeros((self.n_tasks, self.n_tasks))
        upper = pt.set_subtensor(empty[first, second], weights)
        return upper + upper.T


# -------------------------------------------------------------------- parts

"""Hierarchies of tasks by name, country - city - district say: what :class:`zoo.kernels.Tree` needs, from a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from zoo.kernels.tree import Tree
from zoo.support.checks import names, one_of
from zoo.support.frames import as_pandas, require_one_each
from zoo.support.words import counted

__all__ = ["TaskTree"]

_STEP = " / "


@dataclass(frozen=True, repr=False)
class TaskTree:
    """A tree whose nodes have names; its leaves are tasks.

    Build it with :meth:`from_frame` or :meth:`from_parents`.

    Parameters
    ----------
    names : sequence of n_nodes str
        Distinct.
    parent : sequence of n_nodes int
        Position of each node's parent; -1 for the root.
    levels : sequence of str, optional
        Columns of the table that the tree was made from; the last one's values are the leaves.
    values : sequence of n_nodes str, optional
        Value of each node in its column. Left out: the names.

    Attributes
    ----------
    names, parent, levels, values : tuple
        Nodes run from the root downwards, those of one depth by name, whatever their order was. So trees that say
        the same are equal.
    """

    names: tuple[str, ...]
    parent: tuple[int, ...]
    levels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = names(self.names, "names")
        if not known:
            raise ValueError("names is empty. Give at least one node.")
        if not len(known) == len(self.parent) == len(self.values or known):
            raise ValueError(
                f"names has {len(known)} entries, parent {len(self.parent)} and values {len(self.values)}. "
                "Give one of each a node."
            )
        values = tuple(str(v) for v in self.values or known)
        depth = _depths(known, self.parent)
        order = sorted(range(len(known)), key=lambda i: (depth[i], known[i]))
        position = {old: new for new, old in enumerate(order)} | {-1: -1}
        object.__setattr__(self, "names", tuple(known[i] for i in order))
        object.__setattr__(self, "parent", tuple(position[int(self.parent[i])] for i in order))
        object.__setattr__(self, "values", tuple(values[i] for i in order))
        object.__setattr__(self, "levels", tuple(str(level) for level in self.levels))

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_frame(cls, df: pd.DataFrame, levels: Sequence[str], root: str = "all") -> TaskTree:
        """Tree of the values of some columns.

        A node is a value of a column below the values of the columns before it. It is named by its value; where the
        value stands at several nodes, each of these is named by its path, ``"region A / city 1"``.

        Parameters
        ----------
        df : pandas.DataFrame
            Any number of rows; those that repeat add nothing.
        levels : sequence of str
            Columns from the top down, ``["region", "city", "district"]`` say.
        root : str
            Name of the root, which is made where the first column has several values; its one value is the root
            otherwise.

        Raises
        ------
        ValueError
            Names the column that ``df`` lacks, or the row with a missing value.
        """
        columns = _columns(levels)
        table = _paths(df, columns).drop_duplicates()
        paths = {tuple(row[:length]) for row in table.to_numpy() for length in range(1, len(columns) + 1)}
        made = table[columns[0]].nunique() > 1
        times = Counter(path[-1] for path in paths)
        name = {path: path[-1] if times[path[-1]] == 1 else _STEP.join(path) for path in paths}
        twice = [node for node, times_used in Counter(name.values()).items() if times_used > 1]
        if twice:
            raise ValueError(
                f"df has values that make two nodes of the name {twice[0]!r}. Rename one of the values."
            )
        if made:
            if root in name.values():
                raise ValueError(
                    f"df has a value {root!r}, which is the name of the root. Give another root=..."
                )
            name[()] = root
        nodes = list(name)
        position = {path: i for i, path in enumerate(nodes)}
        return cls(
            names=tuple(name[path] for path in nodes),
            parent=tuple(position.get(path[:-1], -1) if path else -1 for path in nodes),
            levels=tuple(columns),
            values=tuple(path[-1] if path else root for path in nodes),
        )

    @classmethod
    def from_parents(cls, parents: Mapping[str, str | None] | pd.Series) -> TaskTree:
        """Tree of the parent of each node.

        Parameters
        ----------
        parents : dict or pandas.Series
            Parent of each child, ``{"north": "all", "Leeds": "north"}``. The root may be left out, or have the parent
            None.
        """
        if isinstance(parents, pd.Series):
            names([str(child) for child in parents.index], "parents.index")
            parents = {str(child): None if pd.isna(above) else str(above) for child, above in parents.items()}
        if not parents:
            raise ValueError("parents is empty. Give the parent of at least one node.")
        given = {str(child): None if above is None else str(above) for child, above in parents.items()}
        if len(given) < len(parents):
            names([str(child) for child in parents], "parents")
        known = list(dict.fromkeys([*given, *(above for above in given.values() if above is not None)]))
        position = {name: i for i, name in enumerate(known)}
        above = [given.get(name) for name in known]
        return cls(tuple(known), tuple(-1 if name is None else position[name] for name in above))

    # ---------------------------------------------------------------- what it says

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @property
    def root(self) -> str:
        """Name of the root."""
        return self.names[0]

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Steps from the root to each node."""
        return tuple(_depths(self.names, self.parent))

    @property
    def n_levels(self) -> int:
        """Number of depths with the root's, which is the length of ``level_sigma``."""
        return self.depth[-1] + 1

    @property
    def level_names(self) -> tuple[str, ...]:
        """Name of each depth. These are the columns, after ``"root"`` where one was made, or ``"level 0"``, ..."""
        if not self.levels:
            return tuple(f"level {depth}" for depth in range(self.n_levels))
        return (*(("root",) if self._made_root else ()), *self.levels)

    @property
    def _made_root(self) -> bool:
        return self.n_levels > len(self.levels)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Names of the nodes without children, sorted, as :class:`zoo.MultiTaskData` sorts the names of tasks."""
        inner = set(self.parent)
        return tuple(sorted(name for i, name in enumerate(self.names) if i not in inner))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __repr__(self) -> str:
        sizes = zip((self.n_nodes, len(self.leaves), self.n_levels), ("node", "leaf", "level"), strict=True)
        levels = f": {' > '.join(self.levels)}" if self.levels else ""
        return f"TaskTree({', '.join(counted(n, what) for n, what in sizes)}{levels})"

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Names of the nodes above a node, its parent first and the root last."""
        return tuple(self.names[i] for i in self._up(self._node(name, "name"))[1:])

    def _up(self, node: int) -> list[int]:
        """The node and those above it."""
        result = []
        while node != -1:
            result.append(node)
            node = self.parent[node]
        return result

    def _node(self, name: str, argument: str) -> int:
        if not isinstance(name, str) or name not in self._position:  # one look at all names takes long
            one_of(name, self.names, argument)
        return self._position[name]

    def _path(self, node: int) -> tuple[str, ...]:
        """Values from the first column down to the node."""
        path = [self.values[i] for i in reversed(self._up(node))]
        return tuple(path[1:] if self._made_root else path)

    def leaf_of(self, df: pd.DataFrame) -> np.ndarray:
        """Name of the leaf that each row belongs to, (N,) str: ``task=`` of :class:`zoo.MultiTaskData`.

        Parameters
        ----------
        df : pandas.DataFrame
            With the columns ``levels``.

        Raises
        ------
        ValueError
            The tree was made without columns; ``df`` lacks one, or a value is missing; the first row of a path that
            the tree does not have is named.
        """
        if not self.levels:
            raise ValueError(
                "the tree has no levels. Make it with TaskTree.from_frame, or name the tasks yourself."
            )
        table = _paths(df, self.levels)
        leaf = {self._path(self._position[name]): name for name in self.leaves}
        paths = list(table.itertuples(index=False, name=None))
        for label, path in zip(table.index, paths, strict=True):
            if path not in leaf:
                raise ValueError(
                    f"df has {_STEP.join(path)!r} in row {label}, which is no leaf of the tree. "
                    "Add it with tree.with_leaf(name, parent), or make the tree of all rows."
                )
        return np.array([leaf[path] for path in paths])

    # ---------------------------------------------------------------- in a model

    def for_tasks(self, task_names: Iterable[str]) -> np.ndarray:
        """Numbers of the nodes of these names, in their order: the ``tasks`` of :class:`zoo.kernels.Tree`."""
        known = [task_names] if isinstance(task_names, str) else task_names
        return np.array([self._node(name, "task_names") for name in known], dtype=np.int64)

    def kernel(
        self,
        input_dim: int | None = None,
        *,
        sigma: Any = None,
        level_sigma: Any = None,
        tasks: str | Sequence[str] = "leaves",
        **arguments: Any,
    ) -> Tree:
        """The covariance function of tasks that are nodes of this tree.

        Parameters
        ----------
        input_dim, sigma, base, Q, active_dims
            As for :class:`zoo.kernels.Tree`; ``sigma`` a node in the order of ``names``, or a dict or pandas Series by
            these names.
        level_sigma : (n_levels,) array or tensor, or dict, optional
            In place of ``sigma``: standard deviation of the steps to the nodes of each depth, the root's first; a
            dict or pandas Series has them by ``level_names``.
        tasks : "leaves" or sequence of str
            Names of the nodes that are the tasks, ``data.task_names`` say; "leaves" in the order of ``leaves``, which
            is that of data with a row in every leaf.

        Returns
        -------
        zoo.kernels.Tree
            With the names as ``task_names``.
        """
        if isinstance(tasks, str):
            one_of(tasks, ("leaves",), "tasks")
            tasks = self.leaves
        sigma = _by_name(sigma, "sigma", self.names)
        level_sigma = _by_name(level_sigma, "level_sigma", self.level_names)
        return Tree(
            input_dim,
            parent=np.array(self.parent),
            sigma=sigma,
            level_sigma=level_sigma,
            tasks=self.for_tasks(tasks),
            task_names=list(tasks),
            **arguments,
        )

    def with_leaf(self, name: str, parent: str) -> TaskTree:
        """The tree with one leaf more, for a task that was not in the data.

        Parameters
        ----------
        name : str
            Of the new leaf. Where its value has a namesake, its path: ``"region A / city 1"``.
        parent : str
            A node that is no leaf. Of a tree with ``levels``, :meth:`leaf_of` finds leaves of the last level only.

        Returns
        -------
        TaskTree
        """
        above = self._node(parent, "parent")
        name = str(name)
        if name in self._position:
            raise ValueError(
                f"name {name!r} is a node of the tree already. Give another, {parent + _STEP + name!r} say."
            )
        if parent in self.leaves:
            raise ValueError(f"parent {parent!r} is a leaf, a task of its own. Name a node above it.")
        value = name
        for prefix in (_STEP.join((*self._path(above), "")), parent + _STEP):
            if self.levels and name.startswith(prefix):
                value = name.removeprefix(prefix)
        for i, node in enumerate(self.parent):
            if node == above and self.values[i] == value:
                raise ValueError(f"name {name!r} is the node {self.names[i]!r} below {parent!r}. Use that.")
        return TaskTree((*self.names, name), (*self.parent, above), self.levels, (*self.values, value))


# -------------------------------------------------------------------- parts


def _by_name(values: Any, argument: str, known: Sequence[str]) -> Any:
    """The values of a dict or of a Series with names in the order of ``known``; anything else as it is."""
    if isinstance(values, pd.Series) and list(values.index) != list(range(len(values))):
        names([str(name) for name in values.index], f"{argument}.index")
        values = {str(name): value for name, value in values.items()}
    if not isinstance(values, Mapping):
        return values
    for name in values:
        one_of(name, known, argument)
    absent = [name for name in known if name not in values]
    if absent:
        raise ValueError(f"{argument} has no {absent[0]!r}. Give one for each of {', '.join(known)}.")
    ordered = [values[name] for name in known]
    return pt.stack(ordered) if any(isinstance(value, Variable) for value in ordered) else ordered


def _depths(known: Sequence[str], parent: Sequence[int]) -> list[int]:
    """Steps from the root to each node; raises where the nodes are no tree."""
    for name, above in zip(known, parent, strict=True):
        if not -1 <= above < len(known):
            raise ValueError(f"parent of {name!r} is {above}, outside -1 .. {len(known) - 1}. Mend it.")
    roots = [name for name, above in zip(known, parent, strict=True) if above == -1]
    if len(roots) > 1:
        raise ValueError(
            f"{roots[0]!r} and {roots[1]!r} have no parent. A tree has one root: give both a parent."
        )
    result = [-1] * len(known)
    for start in range(len(known)):
        trail, node = [], start
        while node != -1 and result[node] == -1:
            if node in trail:
                raise ValueError(f"the parents of {known[node]!r} lead back to it. Break the cycle.")
            trail.append(node)
            node = int(parent[node])
        above = -1 if node == -1 else result[node]
        for steps, passed in enumerate(reversed(trail), 1):
            result[passed] = above + steps
    return result


def _columns(levels: Sequence[str]) -> list[str]:
    columns = [levels] if isinstance(levels, str) else list(levels)
    if not columns:
        raise ValueError("levels is empty. Name at least one column of df.")
    return list(names(columns, "levels"))


def _paths(df: Any, columns: Sequence[str]) -> pd.DataFrame:
    """The columns as strings; raises where one is not there or lacks a value."""
    df = as_pandas(df, "df")
    if not isinstance(df, pd.DataFrame):
        raise TypeError(
            f"df is a {type(df).__name__}. Give a DataFrame with the columns {', '.join(map(str, columns))}."
        )
    df = df.rename(columns=str)
    for column in columns:
        if column not in df.columns:
            raise ValueError(
                f"df has no column {column!r}. Its columns are {', '.join(map(str, df.columns))}."
            )
    require_one_each(df, columns, "df")
    if not len(df):
        raise ValueError("df has no rows. Give at least one.")
    table = df[list(columns)]
    missing = table.isna().to_numpy()
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"df column {columns[column]!r} is missing in row {table.index[row]}. Drop the row or fill it in."
        )
    return table.astype(str)

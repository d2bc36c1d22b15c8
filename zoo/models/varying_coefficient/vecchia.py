"""Vecchia's approximation of a varying-coefficient model: its space, and draws at new rows.

The functions are integrated out, so the posterior holds hyper-parameters alone; what is said of the functions at a row
is made of the nearest responses.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import joblib
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.spatial import cKDTree

from zoo.kernels.basis import distinct_rows
from zoo.latent.basis_regression import BasisMode
from zoo.latent.vecchia import Rows, evidence
from zoo.latent.vecchia_conditional import JointLaw, joint_law, moments
from zoo.latent.vecchia_features import evidence_with_features
from zoo.latent.vecchia_neighbours import nearest_before, nearest_rows, spread_ties
from zoo.latent.vecchia_order import order_rows
from zoo.latent.vecchia_terms import CONSTANT, LINEAR
from zoo.models.varying_coefficient.covariance import beyond_the_data
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.space import ENTRIES, Space, State
from zoo.models.varying_coefficient.vecchia_terms import in_two, terms_of
from zoo.ops.vecchia_functions import VecchiaFunctions

__all__ = ["VecchiaSpace", "functions_at"]

# Terms of random rows that the search for the evidence begins with.
_PILOT = 2000
# Streams of random numbers: of the order of the rows, what parts equal places, the pilot's rows, and the draws.
_ORDER, _TIES, _SUBSET, _NEW = range(4)


# ---------------------------------------------------------------- the space


class Known(NamedTuple):
    """What a state holds: parameters, a tree of the rows, these with what the shared weights leave of the responses,
    the features of these weights, and their law.
    """

    theta: np.ndarray
    tree: cKDTree
    rows: Rows
    fixed: np.ndarray | None
    mode: BasisMode | None


class JointFunctions(NamedTuple):
    """The joint law of f at n rows: their order, the law of what neighbours know, and shared features with theirs."""

    order: np.ndarray
    law: JointLaw
    features: np.ndarray | None
    mode: BasisMode | None

    def draw(self, white: np.ndarray) -> np.ndarray:
        """A draw (n,) of standard normal numbers (n + p,)."""
        n = len(self.order)
        f = np.empty(n)
        if self.features is None or self.mode is None:
            f[self.order] = self.law.draws(white[None])[0]
            return f
        moved = self.mode.spread(white[n:, None]).T
        own = self.law.draws(white[None, :n], moved)[0]
        f[self.order] = own + self.features @ (self.mode.w + moved[0])
        return f


class VecchiaSpace(Space):
    """Functions that are integrated out, each row given its nearest rows."""

    values_name = ""
    nugget: float | None = None
    """Standard deviation of what is added to the functions, where they are not integrated out."""
    several_optima = True
    # Nearest rows show what sines would not, and from far above a short range the evidence has no way down to it.
    short_lengthscales = (0.01, 0.03, 0.1)

    def __init__(self, factory: VaryingDescription, rows: VaryingRows, y: np.ndarray):
        super().__init__(factory, rows, y)
        near, self.shared = in_two(self.kernel)
        self.terms, self._position, self._number = terms_of(factory, near, self.coordinates, self.nugget)
        self._near: dict[str, np.ndarray] = {}
        self.threads = joblib.cpu_count()

    def forget(self) -> None:
        """Drop the neighbours, which the next evaluation chooses anew."""
        self._near.clear()

    def start_afresh(self) -> None:
        """Drop the neighbours: with those of another start the evidence may be far too low."""
        self.forget()

    _ordered_by = "_order"  # what says in which order rows are conditioned on each other

    def conditioned(self) -> tuple[Any, dict[str, np.ndarray]]:
        """The order of the rows, and those that each is given, as they were chosen last."""
        return getattr(self, self._ordered_by), dict(self._near)

    def condition(self, order: Any, near: dict[str, np.ndarray]) -> None:
        """Take the order and the neighbours of another space of the same rows."""
        setattr(self, self._ordered_by, order)
        self._near = dict(near)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.factory.ordering_seed, stream])

    def theta(self, z: np.ndarray) -> np.ndarray:
        """Logarithms of all parameters at z."""
        learned = self._position >= 0
        theta = self._number.copy()
        theta[learned] = z[self._position[learned]]
        return theta

    # ------------------------------------------------------------ where rows are near each other

    @cached_property
    def _order(self) -> np.ndarray:
        places = self._unparted(self.rows.inputs, self.rows.times, self.theta(self.coordinates.start))
        return order_rows(places, self.factory.ordering, self._rng(_ORDER))

    @cached_property
    def ordered(self) -> Rows:
        """The rows in their order."""
        at, weight = self._order, self.rows.weight
        return Rows(
            self.terms,
            self.rows.inputs[at],
            self.rows.times[at],
            self.y[at],
            None if weight is None else weight[at],
        )

    def _unparted(self, x: np.ndarray, t: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Rows as places (n, .) whose distance says how far their functions are from each other.

        Columns of t count in lengthscales, those of several components by the components' shares in the variance; with
        an instance kernel that is not linear features count in theirs.
        """
        terms = self.terms
        square, total = np.zeros(t.shape[1]), 0.0
        mean_square = np.mean(self.rows.inputs**2, axis=0)
        for c in np.flatnonzero(terms.kind != CONSTANT):
            own = slice(terms.features[c], terms.features[c + 1])
            variances = np.exp(2.0 * theta[terms.amplitude[own]])
            if terms.instance == LINEAR:
                variances = variances * mean_square[terms.feature[own]]
            share = float(np.sum(variances))
            total += share
            for j in range(terms.columns[c], terms.columns[c + 1]):
                square[terms.column[j]] += share * np.exp(-2.0 * theta[terms.lengthscale[j]])
        used = square > 0.0
        parts = [t[:, used] * np.sqrt(square[used] / max(total, 1e-300))]
        if terms.instance != LINEAR:
            parts.append(x * np.exp(-theta[terms.instance_lengthscale]))
        elif not used.any():
            parts.append(x)
        return np.column_stack(parts)

    def _places(self, theta: np.ndarray) -> np.ndarray:
        """The rows in their order as places, of which no two are the same."""
        return spread_ties(self._unparted(self.ordered.x, self.ordered.t, theta), self._rng(_TIES))

    def _neighbours(self, theta: np.ndarray, stage: str) -> np.ndarray:
        """Of every row the rows that it is conditioned on, chosen at the first ``theta`` of a stage of the search."""
        if stage not in self._near:
            self._near.clear()
            some = self.coarse if stage == "coarse" else None
            self._near[stage] = nearest_before(
                self._places(theta), self.factory.n_neighbours, self.threads, some
            )
        return self._near[stage]

    # ------------------------------------------------------------ evidence

    @cached_property
    def coarse(self) -> np.ndarray | None:
        """Random rows whose terms are searched first; None where every row is conditioned on all before it."""
        n = len(self.y)
        if self.factory.n_neighbours >= n - 1:
            return None
        return np.sort(self._rng(_SUBSET).permutation(n)[:_PILOT])

    def evidence(self, z: np.ndarray, coarse: bool = False) -> tuple[float, np.ndarray]:
        """Log evidence and its derivative in z; with ``coarse`` estimated by the terms of some rows."""
        theta = self.theta(z)
        neighbours = self._neighbours(theta, "coarse" if coarse else "all")
        some = self.coarse if coarse else None
        gradient, learned = np.zeros(len(z)), self._position >= 0
        if self.shared is None:
            value, slopes = evidence(self.ordered, theta, neighbours, some, self.threads)
        else:
            logs = np.asarray(self._variances[0](z))
            found = evidence_with_features(
                self.ordered, theta, neighbours, self._fixed, logs, some, self.threads
            )
            value, slopes = found.value, found.slopes
            gradient += np.asarray(self._variances[1](z, found.variance_slopes))
        np.add.at(gradient, self._position[learned], slopes[learned])
        return value, gradient

    @cached_property
    def _variances(self) -> tuple[Any, Any]:
        assert self.shared is not None
        return self.log_variances(self.shared)

    @cached_property
    def _fixed(self) -> np.ndarray:
        """The features (N, p) that all rows share, in the order of the rows."""
        assert self.shared is not None
        return np.asarray(self.shared.features(self.rows, slice(0, self.rows.n_rows))[self._order])

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z: the evidence, a tree of the rows, and the law of shared weights."""
        theta = self.theta(z)
        tree, neighbours = cKDTree(self._places(theta)), self._neighbours(theta, "all")
        if self.shared is None:
            value, _ = evidence(self.ordered, theta, neighbours, None, self.threads)
            return State(z, value, Known(theta, tree, self.ordered, None, None), True)
        logs = np.asarray(self._variances[0](z))
        found = evidence_with_features(
            self.ordered, theta, neighbours, self._fixed, logs, None, self.threads, gradient=False
        )
        left = Rows(
            self.terms,
            self.ordered.x,
            self.ordered.t,
            self.ordered.y - self._fixed @ found.mode.w,
            self.ordered.weight,
        )
        return State(z, found.value, Known(theta, tree, left, self._fixed, found.mode), True)

    # ------------------------------------------------------------ functions at rows

    def _near_new(self, state: State, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        tree = state.known.tree
        places = self._unparted(x, t, state.known.theta)
        # In the column that parts equal rows, new ones stand in the middle of them.
        middle = np.full(len(places), float(np.median(tree.data[:, -1])))
        most = min(self.factory.n_neighbours_predict, len(self.y))
        return nearest_rows(tree, np.column_stack([places, middle]), most, self.threads)

    def of_neighbours(
        self, state: State, rows: VaryingRows, left: Rows, fixed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance (n,) of what has neighbours, whose values are ``left.y``; and of fixed features of these
        (N, p) what they explain of those of the rows (n, p).
        """
        theta = state.known.theta
        places = self._unparted(rows.inputs, rows.times, theta)
        _, position = distinct_rows(places)
        order = np.argsort(position, kind="stable")
        starts = np.searchsorted(position[order], np.arange(position.max() + 2))
        x, t = np.ascontiguousarray(rows.inputs[order]), np.ascontiguousarray(rows.times[order])
        near = self._near_new(state, x[starts[:-1]], t[starts[:-1]])
        found = moments(left, theta, x, t, starts, near, self.threads, fixed)
        back = np.argsort(order)
        return found[0][back], found[1][back], found[2][back]

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        _, _, left, fixed, mode = state.known
        mean, variance, explained = self.of_neighbours(state, rows, left, fixed)
        if self.shared is None:
            return mean, variance
        step = max(1, ENTRIES // self.shared.n_weights)
        for start in range(0, len(mean), step):
            block = slice(start, start + step)
            features = self.shared.features(rows, block)
            mean[block] += features @ mode.w
            variance[block] += np.sum(mode.half((features - explained[block]).T) ** 2, axis=0)
        return mean, variance + self.lost(self.shared, state.z, rows)

    @property
    def n_shared(self) -> int:
        """How many standard normal numbers a joint draw takes beside one for each row."""
        return 0 if self.shared is None else self.shared.n_weights

    def joint_law(
        self, state: State, rows: VaryingRows, left: Rows, fixed: np.ndarray | None
    ) -> tuple[np.ndarray, JointLaw]:
        """An order (n,) of rows, no two of them alike, and the joint law of what has neighbours in it."""
        theta = state.known.theta
        rng, x, t = self._rng(_NEW), rows.inputs, rows.times
        order = order_rows(np.zeros((len(x), 1)), "random", rng)
        x, t = np.ascontiguousarray(x[order]), np.ascontiguousarray(t[order])
        places = spread_ties(self._unparted(x, t, theta), rng)
        before = nearest_before(places, self.factory.n_neighbours, self.threads)
        near = self._near_new(state, x, t)
        return order, joint_law(left, theta, x, t, near, before, self.threads, fixed)

    def joint(self, state: State, rows: VaryingRows) -> Any:
        """The joint law of f at rows, no two of them alike."""
        _, _, left, fixed, mode = state.known
        order, law = self.joint_law(state, rows, left, fixed)
        features = None if self.shared is None else self.shared.features(rows, order)
        return JointFunctions(order, law, features, mode)


# ---------------------------------------------------------------- the model at new rows


def functions_at(space: VecchiaSpace, rows: VaryingRows, values: dict[str, Any]) -> Any:
    """F at new rows (n,) as a PyTensor graph: joint draws given the nearest of the rows of the fit, of the space."""
    points, position = distinct_rows(np.column_stack([rows.inputs, rows.times]))
    first = np.empty(len(points), dtype=np.int64)
    first[position[::-1]] = np.arange(rows.n_rows)[::-1]
    distinct: Any = rows.take(first)
    names = list(space.coordinates.hypers)

    def law(*learned: np.ndarray) -> Any:
        z = space.coordinates.pack(dict(zip(names, learned, strict=True)))
        space.forget()
        return space.joint(space.state(z), distinct)

    white = pm.Normal.dist(0.0, 1.0, size=len(points) + space.n_shared)
    f = VecchiaFunctions(law, len(points))(white, *(pt.as_tensor(values[name]) for name in names))[position]
    return f if space.shared is None else beyond_the_data(space.shared, rows, values, f)

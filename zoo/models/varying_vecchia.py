"""Vecchia's approximation of a varying-coefficient model: its covariance as arrays, its space, draws at new rows.

The functions are integrated out, so the posterior holds hyper-parameters alone; what is said of the functions at a row
is made of the nearest responses.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.spatial import cKDTree

from zoo.inference.vecchia import Rows, available_threads, evidence
from zoo.inference.vecchia_conditional import JointLaw, joint_law, moments
from zoo.inference.vecchia_neighbours import nearest_before, nearest_rows, spread_ties
from zoo.inference.vecchia_order import order_rows
from zoo.inference.vecchia_terms import CONSTANT, KINDS, LINEAR, Terms
from zoo.kernels.basis import distinct_rows
from zoo.models.varying_rows import VaryingRows
from zoo.models.varying_spaces import State, _Space
from zoo.ops.vecchia_functions import VecchiaFunctions

if TYPE_CHECKING:
    from zoo.models.kernel_hyper import Coordinates
    from zoo.models.varying_coefficient import VaryingCoefficientGP
    from zoo.models.varying_kernel import VaryingKernel

__all__ = ["VecchiaSpace", "functions_at", "refusal", "terms_of"]

# Terms of random rows that the search for the evidence begins with.
_PILOT = 2000
# Streams of random numbers: of the order of the rows, what parts equal places, the pilot's rows, and the draws.
_ORDER, _TIES, _SUBSET, _NEW = range(4)


def refusal(factory: VaryingCoefficientGP) -> str:
    """Why method "vecchia" does not serve the fields of a factory, and which one does; nothing where it serves."""
    name = type(factory.likelihood).__name__
    if not factory._gaussian:
        other = "'laplace'" if factory.likelihood.smooth else "'nuts'"
        return f"method 'vecchia' integrates functions out, which needs likelihood='gaussian', not {name}. Use {other}."
    for component in factory.components:
        if component.on_tasks:
            return (
                "method 'vecchia' takes the nearest rows in t, and the kernel of a component is over tasks. Use "
                "'exact', which holds trees as weights."
            )
        if not component.is_word:
            return (
                "method 'vecchia' knows the covariances that have a word, and a component has one of pm.gp.cov. Use "
                "'hsgp' or 'inducing', or a word such as \"matern32\"."
            )
    if "covariance" in (factory.amplitude, *(c.amplitude for c in factory.components)):
        return "method 'vecchia' knows no covariance of the coefficients. Use 'exact', or amplitude=\"per_feature\"."
    if not isinstance(factory.instance_kernel, str) or factory.instance_lengthscale == "fixed":
        return (
            "method 'vecchia' knows the instance kernels that have a word. Use 'exact' or 'inducing', or a word such "
            'as "matern52".'
        )
    return ""


# ---------------------------------------------------------------- the covariance as arrays


class _Parameters:
    """Logarithms that terms point to: coordinates of the search, or numbers."""

    def __init__(self, coordinates: Coordinates):
        self.coordinates = coordinates
        self.position: list[int] = []
        self.number: list[float] = []

    def add(self, name: str, given: Any = None) -> list[int]:
        """Where the entries of a parameter stand: of one that is learned, or else the numbers given."""
        first = len(self.position)
        if name in self.coordinates.hypers:
            where = self.coordinates.position(name)
            self.position += range(where.start, where.stop)
            self.number += [0.0] * (where.stop - where.start)
        else:
            numbers = np.log(np.atleast_1d(np.asarray(given, dtype=np.float64)))
            self.position += [-1] * len(numbers)
            self.number += numbers.tolist()
        return list(range(first, len(self.position)))


def terms_of(
    factory: VaryingCoefficientGP, kernel: VaryingKernel, coordinates: Coordinates
) -> tuple[Terms, np.ndarray, np.ndarray]:
    """The covariance as arrays; where in z its parameters stand (-1: nowhere), and the numbers of those that do not."""
    found, D = _Parameters(coordinates), kernel.rows.n_features
    kinds, columns, features = [], [0], [0]
    column: list[int] = []
    lengthscale: list[int] = []
    feature: list[int] = []
    amplitude: list[int] = []
    shared: list[bool] = []

    def close(kind: int, own: list[int], scales: list[int]) -> None:
        """End a term over some features."""
        if kernel.instance is not None:
            own = own[:1]  # the features have one correlation, and the term one amplitude
        kinds.append(kind)
        shared.append(len(scales) == 1)
        feature.extend(own)
        amplitude.extend(scales * len(own) if len(scales) == 1 else scales)
        columns.append(len(column))
        features.append(len(feature))

    for part in kernel.parts:
        scales = found.add(
            part.name("amplitude"), part.amplitude if not isinstance(part.amplitude, str) else 1.0
        )
        own = part.name("lengthscale")
        lengths = found.add(own, None if own in coordinates.hypers else part.lengthscale_numbers({}))
        column.extend(part.columns)
        lengthscale.extend(lengths if len(lengths) == len(part.columns) else lengths * len(part.columns))
        close(KINDS[part.component.kernel], part.features, scales)
    if kernel.with_global:
        close(CONSTANT, list(range(D)), found.add("global_scale"))
    instance, inner = LINEAR, []
    if kernel.instance is not None:
        instance = KINDS[kernel.instance.kernel]
        inner = found.add("instance_lengthscale", kernel.instance.lengthscale)
        inner = inner if len(inner) == D else inner * D
    (noise,) = found.add("noise", factory.likelihood.fixed.get("noise"))

    def integers(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    terms = Terms(
        integers(kinds), integers(columns), integers(column), integers(lengthscale), integers(features),
        integers(feature), integers(amplitude), np.array(shared, dtype=np.bool_), instance, integers(inner), noise,
    )  # fmt: skip
    return terms, integers(found.position), np.array(found.number)


# ---------------------------------------------------------------- the space


class VecchiaSpace(_Space):
    """Functions that are integrated out, each row given its nearest rows."""

    values_name = ""

    def __init__(self, factory: VaryingCoefficientGP, rows: VaryingRows, y: np.ndarray):
        super().__init__(factory, rows, y)
        self.terms, self._position, self._number = terms_of(factory, self.kernel, self.coordinates)
        self.threads = available_threads()

    def forget(self) -> None:
        """Drop the neighbours, which the next evaluation chooses anew."""
        vars(self).pop("_near", None)

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
        near: dict[str, np.ndarray] = vars(self).setdefault("_near", {})
        if stage not in near:
            near.clear()
            near[stage] = nearest_before(self._places(theta), self.factory.n_neighbours, self.threads)
        return near[stage]

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
        value, slopes = evidence(self.ordered, theta, neighbours, some, self.threads)
        gradient, learned = np.zeros(len(z)), self._position >= 0
        np.add.at(gradient, self._position[learned], slopes[learned])
        return value, gradient

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z: the evidence, and a tree of the rows."""
        value, _ = self.evidence(z)
        theta = self.theta(z)
        return State(z, value, (theta, cKDTree(self._places(theta))), True)

    # ------------------------------------------------------------ functions at rows

    def _near_new(self, state: State, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        theta, tree = state.known
        places = self._unparted(x, t, theta)
        # In the column that parts equal rows, new ones stand in the middle of them.
        middle = np.full(len(places), float(np.median(tree.data[:, -1])))
        most = min(self.factory.n_neighbours_predict, len(self.y))
        return nearest_rows(tree, np.column_stack([places, middle]), most, self.threads)

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        theta = state.known[0]
        places = self._unparted(rows.inputs, rows.times, theta)
        _, position = distinct_rows(places)
        order = np.argsort(position, kind="stable")
        starts = np.searchsorted(position[order], np.arange(position.max() + 2))
        x, t = np.ascontiguousarray(rows.inputs[order]), np.ascontiguousarray(rows.times[order])
        near = self._near_new(state, x[starts[:-1]], t[starts[:-1]])
        found = moments(self.ordered, theta, x, t, starts, near, self.threads)
        mean, variance = np.empty(len(x)), np.empty(len(x))
        mean[order], variance[order] = found
        return mean, variance

    def joint(self, state: State, x: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, JointLaw]:
        """The joint law of f at rows, no two of them alike: an order of the rows, and the law in that order."""
        theta = state.known[0]
        rng = self._rng(_NEW)
        order = order_rows(np.zeros((len(x), 1)), "random", rng)
        x, t = np.ascontiguousarray(x[order]), np.ascontiguousarray(t[order])
        places = spread_ties(self._unparted(x, t, theta), rng)
        before = nearest_before(places, self.factory.n_neighbours, self.threads)
        return order, joint_law(self.ordered, theta, x, t, self._near_new(state, x, t), before, self.threads)


# ---------------------------------------------------------------- the model at new rows


def functions_at(factory: VaryingCoefficientGP, rows: VaryingRows, values: dict[str, Any]) -> Any:
    """F at new rows (n,) as a PyTensor graph: joint draws given the nearest responses of the rows of the fit."""
    fitted = rows.fitted
    points, position = distinct_rows(np.column_stack([rows.inputs, rows.times]))
    D = rows.n_features
    space = VecchiaSpace(factory, replace(fitted, known=None), fitted.y)
    names = list(space.coordinates.hypers)

    def law(*learned: np.ndarray) -> tuple[np.ndarray, JointLaw]:
        z = space.coordinates.pack(dict(zip(names, learned, strict=True)))
        theta = space.theta(z)
        state = State(z, 0.0, (theta, cKDTree(space._places(theta))), True)
        return space.joint(state, points[:, :D], points[:, D:])

    white = pm.Normal.dist(0.0, 1.0, size=len(points))
    return VecchiaFunctions(law)(white, *(pt.as_tensor(values[name]) for name in names))[position]

"""Vecchia's approximation of a varying-coefficient model with other than normal responses, by Laplace's method.

Rows of the same features and t share a latent; each latent is given its nearest ones. Hyper-parameters are learned by
the evidence of :mod:`zoo.latent.vecchia_latent`. What is known of the functions is then a mode and a root of their
covariance: exact where latents are few, and else made of some hundred posterior draws. A function at a new row is
normal given the latents nearest to it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from zoo.kernels.basis import distinct_rows
from zoo.latent.vecchia import Rows
from zoo.latent.vecchia_conditional import JointLaw
from zoo.latent.vecchia_coordinates import GroupedResponses, Preconditioner, preconditioner_of
from zoo.latent.vecchia_latent import LatentMode, latent_evidence, latent_mode, posterior_root
from zoo.latent.vecchia_neighbours import nearest_before
from zoo.latent.vecchia_order import order_rows
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.space import ENTRIES, State, responses_of
from zoo.models.varying_coefficient.vecchia import VecchiaSpace

__all__ = ["LatentVecchiaSpace"]

# Standard deviation that is added to the functions, in units of the responses: the covariance of latents at one place
# with different features has the rank of these, and that of a smooth kernel has no factor either.
_NUGGET = 1e-4
# Latents up to which all algebra is dense, and exact; and those of the first search.
_DENSE, _PILOT = 1000, 2000
# Probes of the determinant, of which the first search takes half, and posterior draws of which variances are made. The
# error of 48 probes moved the maximum of the evidence by a fifth of a posterior standard deviation or less.
_PROBES, _DRAWS = 32, 400
# Streams of random numbers, after those of the other space.
_ORDER, _SIGNS, _POSTERIOR = 0, 4, 5


class Part(NamedTuple):
    """The first latents in the order, all of them or some: what they are, and what the rows say of them."""

    rows: Rows
    responses: GroupedResponses
    features: np.ndarray
    probes: np.ndarray | None
    factor: float
    """Rows of all latents for each of these."""


class KnownLatents(NamedTuple):
    """What a state holds: parameters, a tree of the latents, these with their mode for responses, and a root of the
    covariance of these (N, S) and of the shared weights (p, S), whose mode stands before it.
    """

    theta: np.ndarray
    tree: cKDTree
    rows: Rows
    root: np.ndarray
    weights: np.ndarray
    weights_root: np.ndarray


class JointLatents(NamedTuple):
    """The joint law of f at n rows: their order, the law of what neighbours know, and the mean (n,) and a root (n, S)
    of what shared weights add.
    """

    order: np.ndarray
    law: JointLaw
    mean: np.ndarray
    root: np.ndarray

    def draw(self, white: np.ndarray) -> np.ndarray:
        """A draw (n,) of standard normal numbers (n + S,)."""
        n = len(self.order)
        f, common = np.empty(n), white[n:]
        f[self.order] = self.law.draws(white[None, :n], -common[None])[0] + self.mean + self.root @ common
        return f


class LatentVecchiaSpace(VecchiaSpace):
    """Functions whose posterior is normal at the mode, each latent given its nearest ones."""

    _ordered_by = "_latents"
    several_optima = False  # a search takes a minute
    dear_far_away = True  # from where the preconditioner was made

    def __init__(self, factory: VaryingDescription, rows: VaryingRows, y: np.ndarray):
        scale = factory.design(rows).fitted.scale
        assert scale is not None
        self.nugget = _NUGGET * scale.y_scale
        super().__init__(factory, rows, y)
        self._preconditioner: dict[str, Preconditioner | None] = {}
        self._start: dict[str, np.ndarray] = {}

    def forget(self) -> None:
        """Drop the neighbours, the preconditioner and the last mode, which the next evaluation makes anew."""
        super().forget()
        self._preconditioner.clear()
        self._start.clear()

    # ------------------------------------------------------------ latents

    @cached_property
    def _latents(self) -> tuple[np.ndarray, np.ndarray]:
        """A row of each latent (N,), in the order in which latents are conditioned on each other; that of each row."""
        points, position = distinct_rows(np.column_stack([self.rows.inputs, self.rows.times]))
        first = np.empty(len(points), dtype=np.int64)
        first[position[::-1]] = np.arange(self.rows.n_rows)[::-1]
        start = self.theta(self.coordinates.start)
        places = self._unparted(self.rows.inputs[first], self.rows.times[first], start)
        order = order_rows(places, self.factory.ordering, self._rng(_ORDER))
        number = np.empty(len(points), dtype=np.int64)
        number[order] = np.arange(len(points))
        return first[order], number[position]

    @property
    def n_latents(self) -> int:
        """Number of latents."""
        return len(self._latents[0])

    @cached_property
    def ordered(self) -> Rows:
        """The latents in their order."""
        at = self._latents[0]
        return Rows(self.terms, self.rows.inputs[at], self.rows.times[at], np.zeros(len(at)))

    def _part(self, n: int) -> Part:
        """The first n latents."""
        (first, latent), all_rows = self._latents, self.ordered
        rows = Rows(self.terms, all_rows.x[:n], all_rows.t[:n], all_rows.y[:n])
        own = np.flatnonzero(latent < n)
        weight = self.rows.weight
        responses: Any = self.responses
        if n < len(first):
            responses = responses_of(self.factory, self.y[own], None if weight is None else weight[own])
        features = np.empty((n, 0)) if self.shared is None else self.shared.features(self.rows, first[:n])
        count = _PROBES if n == len(first) else _PROBES // 2
        probes = None if n <= _DENSE else self._rng(_SIGNS).choice([-1.0, 1.0], (n, count))
        grouped = GroupedResponses(responses, latent[own], n)
        return Part(rows, grouped, np.ascontiguousarray(features), probes, len(self.y) / len(own))

    @cached_property
    def _all(self) -> Part:
        return self._part(self.n_latents)

    @cached_property
    def _some(self) -> Part:
        return self._part(_PILOT)

    @property
    def coarse(self) -> np.ndarray | None:
        """The latents that the search begins with, which are the first, random ones; None where all are few."""
        return np.arange(_PILOT) if self.n_latents > 2 * _PILOT else None

    def _neighbours(self, theta: np.ndarray, stage: str) -> np.ndarray:
        if stage not in self._near:
            self.forget()
            n = _PILOT if stage == "coarse" else self.n_latents
            places = self._places(theta)[:n]
            self._near[stage] = nearest_before(places, self.factory.n_neighbours, self.threads)
        return self._near[stage]

    # ------------------------------------------------------------ evidence

    def _log_variances(self, z: np.ndarray) -> np.ndarray:
        return np.zeros(0) if self.shared is None else np.asarray(self._variances[0](z))

    def _mode(self, z: np.ndarray, stage: str) -> LatentMode:
        """The mode at z, with the neighbours and the preconditioner that are chosen at the first z of a stage."""
        part = self._some if stage == "coarse" else self._all
        theta, logs = self.theta(z), self._log_variances(z)
        near, parameters = self._neighbours(theta, stage), z[self._positions]

        def mode(preconditioner: Preconditioner | None) -> LatentMode:
            return latent_mode(
                part.rows, part.responses, theta, parameters, near, part.features, logs, preconditioner,
                self._start.get(stage), self.threads,
            )  # fmt: skip

        def preconditioner(f: np.ndarray) -> Preconditioner:
            W = part.responses.density(f, parameters).information
            return preconditioner_of(part.rows, theta, near, part.features, logs, W, self.threads)

        if stage not in self._preconditioner:
            chosen = None
            if part.probes is not None:
                # At the information of the mode, which takes one of its own.
                first = mode(preconditioner(np.zeros(len(part.rows))))
                self._start[stage] = first.coordinates
                chosen = preconditioner(first.f)
            self._preconditioner[stage] = chosen
        found = mode(self._preconditioner[stage])
        self._start[stage] = found.coordinates
        return found

    def evidence(self, z: np.ndarray, coarse: bool = False) -> tuple[float, np.ndarray]:
        """Laplace's log evidence and its derivative in z; with ``coarse`` that of some latents, times their share."""
        stage = "coarse" if coarse else "all"
        mode, part = self._mode(z, stage), self._some if coarse else self._all
        found = latent_evidence(
            part.rows, part.responses, self.theta(z), z[self._positions], mode, part.probes, self.threads
        )
        gradient, learned = np.zeros(len(z)), self._position >= 0
        if self.shared is not None:
            gradient += np.asarray(self._variances[1](z, found.variance_slopes))
        np.add.at(gradient, self._position[learned], found.slopes[learned])
        return part.factor * found.value, part.factor * self._pulled(found.parameter_slopes, gradient)

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z: the evidence, the mode, and a root of the posterior covariance."""
        theta, mode, part = self.theta(z), self._mode(z, "all"), self._all
        found = latent_evidence(
            part.rows, part.responses, theta, z[self._positions], mode, part.probes, self.threads, gradient=False
        )  # fmt: skip
        draws = None if part.probes is None else _DRAWS
        seed = (self.factory.ordering_seed, _POSTERIOR)
        root, weights_root, reached = posterior_root(mode, draws, seed, self.threads)
        rows = Rows(self.terms, part.rows.x, part.rows.t, mode.near)
        known = KnownLatents(theta, cKDTree(self._places(theta)), rows, root, mode.weights, weights_root)
        return State(z, found.value, known, mode.converged and reached)

    # ------------------------------------------------------------ functions at rows

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        known = state.known
        mean, variance = np.empty(rows.n_rows), np.empty(rows.n_rows)
        step = max(1, ENTRIES // known.root.shape[1])
        for start in range(0, rows.n_rows, step):
            at = np.arange(start, min(start + step, rows.n_rows))
            some: Any = rows if len(at) == rows.n_rows else rows.take(at)
            mean[at], variance[at], root = self.of_neighbours(state, some, known.rows, known.root)
            if self.shared is not None:
                features = self.shared.features(some, slice(0, len(at)))
                mean[at] += features @ known.weights
                root = root + features @ known.weights_root
            variance[at] += np.sum(root**2, axis=1)
        return mean, variance if self.shared is None else variance + self.lost(self.shared, state.z, rows)

    @property
    def n_shared(self) -> int:
        """How many standard normal numbers a joint draw takes beside one for each row."""
        if self.n_latents > _DENSE:
            return _DRAWS
        return self.n_latents + super().n_shared

    def joint(self, state: State, rows: VaryingRows) -> JointLatents:
        """The joint law of f at rows, no two of them alike."""
        known = state.known
        order, law = self.joint_law(state, rows, known.rows, known.root)
        mean, root = np.zeros(len(order)), np.zeros((len(order), known.root.shape[1]))
        if self.shared is not None:
            features = self.shared.features(rows, order)
            mean, root = features @ known.weights, features @ known.weights_root
        return JointLatents(order, law, mean, root)

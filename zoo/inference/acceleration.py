r"""Monotone Anderson acceleration of a fixed-point map that climbs an objective, as EM does.

From the last few points x with images g(x) and steps f = g(x) - x, the next point is

.. math::

    g(x) - \sum_j \gamma_j \Delta g_j, \quad \gamma = \arg\min \| W (f - \sum_j \gamma_j \Delta f_j) \|^2,

in which :math:`\Delta` are differences between neighbouring points: type II of Walker and Ni (2011). As in Henderson
and Varadhan (2019), it is kept only if the objective has not fallen; otherwise the map's own step is taken, which never
falls, and the memory starts anew. After refusals in a row it rests for 1, 2, 4, 8 more steps: at worst one evaluation
in ten is wasted in the long run. W is a metric: without it the answer would depend on the units of the coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Climb", "Evaluation", "Memory", "climb"]

_MEMORY = 5
_RIDGE = 1e-8  # against differences that are nearly parallel; relative, as their lengths are scaled to one
_ROUNDING = 1e-12
_PATIENCE = 20
_LONGEST_PAUSE = 8


class Evaluation(NamedTuple):
    """The map at a point: its objective, the image, the step's relative size; a note to keep; what else came out."""

    objective: float
    image: Any
    change: float
    note: float
    extra: Any


@dataclass
class Climb:
    """The end of a climb; the lists have one entry per kept evaluation."""

    point: Any
    last: Evaluation
    objectives: list[float] = field(default_factory=list)
    notes: list[float] = field(default_factory=list)
    accelerated: list[bool] = field(default_factory=list)
    n_maps: int = 0
    converged: bool = False
    interrupted: bool = False


class Memory:
    """The last differences of steps (scaled by the metric when used) and images."""

    def __init__(self) -> None:
        self.steps: list[np.ndarray] = []
        self.images: list[np.ndarray] = []
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, step: np.ndarray, image: np.ndarray) -> None:
        """Another step (p,) and where it led (p,)."""
        if self.last is not None:
            self.steps = [*self.steps, step - self.last[0]][-_MEMORY:]
            self.images = [*self.images, image - self.last[1]][-_MEMORY:]
        self.last = step, image

    def forget(self) -> None:
        """Keep the last point alone, from which the next difference is taken."""
        self.steps, self.images = [], []

    def propose(self, metric: np.ndarray) -> np.ndarray | None:
        """The extrapolation, or None without differences."""
        if not self.steps or self.last is None:
            return None
        squares = metric * metric
        gram = np.array([[a @ (squares * b) for a in self.steps] for b in self.steps])
        right = np.array([a @ (squares * self.last[0]) for a in self.steps])
        length = np.sqrt(np.diag(gram))
        if not (length > 0.0).all():
            return None
        correlation = gram / np.outer(length, length) + _RIDGE * np.eye(len(gram))
        gamma = np.linalg.solve(correlation, right / length) / length
        proposal = self.last[1].copy()
        for weight, image in zip(gamma, self.images, strict=True):
            proposal -= weight * image
        return proposal


def climb(
    evaluate: Callable[[Any], Evaluation],
    start: Any,
    *,
    pack: Callable[[Any], np.ndarray],
    unpack: Callable[[np.ndarray], Any],
    metric: Callable[[Any], np.ndarray],
    tol: float,
    min_gain: float,
    max_iter: int,
    accelerate: bool,
    progress: Callable[[int, float], None] | None = None,
) -> Climb:
    """Apply the map until its step is small; Ctrl-C keeps what was reached.

    Parameters
    ----------
    evaluate : callable
        The map at a point. Raises FloatingPointError where the point is not feasible.
    start : object
        A point.
    pack, unpack : callable
        A point to a vector of unconstrained coordinates, and back. ``unpack`` may raise FloatingPointError.
    metric : callable
        Weights of the coordinates' changes, at a point.
    tol, min_gain : float
        Stop where ``change`` is below ``tol``, or where the last 20 kept evaluations have raised the objective by
        less than ``min_gain``.
    max_iter : int
        Largest number of evaluations.
    accelerate : bool
        Without it, the plain map.
    progress : callable, optional
        Called with the number of evaluations and the objective, at each that is kept.

    Returns
    -------
    Climb

    Raises
    ------
    FloatingPointError
        The map's own step, or the start, is not feasible.
    """
    result = Climb(start, evaluate(start), n_maps=1)
    memory, extrapolated = Memory(), False
    rest, pause = 0, 1  # plain steps still to take; how many after the next refusal
    try:
        while True:
            now = result.last
            result.objectives.append(now.objective)
            result.notes.append(now.note)
            result.accelerated.append(extrapolated)
            if progress is not None:
                progress(result.n_maps, now.objective)
            result.converged = now.change < tol or _is_flat(result.objectives, min_gain)
            if result.converged or result.n_maps >= max_iter:
                return result
            extrapolated = False
            if accelerate:
                image = pack(now.image)
                memory.add(image - pack(result.point), image)
                proposal = memory.propose(metric(result.point)) if rest == 0 else None
                rest = max(rest - 1, 0)
                if proposal is not None:
                    result.n_maps += 1
                    point, evaluation = _attempt(evaluate, unpack, proposal)
                    if evaluation is not None and _accept(evaluation, now):
                        result.point, result.last, extrapolated = point, evaluation, True
                        pause = 1
                        continue
                    memory.forget()
                    rest, pause = pause, min(2 * pause, _LONGEST_PAUSE)
                    if result.n_maps >= max_iter:
                        return result
            result.point, result.last = now.image, evaluate(now.image)
            result.n_maps += 1
    except KeyboardInterrupt:  # what was reached stays
        result.converged, result.interrupted = False, True
        return result


def _attempt(evaluate: Callable, unpack: Callable, proposal: np.ndarray) -> tuple[Any, Evaluation | None]:
    """Evaluate an extrapolation, which may lie anywhere; None where it is not feasible."""
    try:
        with np.errstate(all="ignore"):
            point = unpack(proposal)
            return point, evaluate(point)
    except FloatingPointError:
        return None, None


def _accept(new: Evaluation, old: Evaluation) -> bool:
    """The objective has not fallen; within its rounding error, the step must have become smaller."""
    if not np.isfinite(new.objective):
        return False
    fall = old.objective - new.objective
    return fall <= 0.0 or (fall <= _ROUNDING * abs(old.objective) and new.change < old.change)


def _is_flat(objectives: list[float], min_gain: float) -> bool:
    return len(objectives) > _PATIENCE and objectives[-1] - objectives[-1 - _PATIENCE] < min_gain

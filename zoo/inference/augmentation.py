"""The seam between a likelihood and a Gibbs engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.run.kernel import put_back

__all__ = [
    "Augmentation",
    "JointMoves",
    "Parameters",
    "restore_parameters",
    "snapshot_of",
    "sums_of_losses",
]

Parameters = Any
"""A named tuple of arrays by name, each (1,), one value for all rows, or (T,), one per task."""

_PREFIX = "parameter "


class JointMoves(NamedTuple):
    """Compiled moves of f together with learned parameters, in groups of rows that are sorted by task.

    The first arguments are ``rng``, ``f``, ``y`` and ``weight`` (N,), ``starts`` (G + 1,) where groups of rows begin,
    the column of the first group in the parameters, the parameters, and their laws. f and the parameters change in
    place. Each move draws a number s per group under its likelihood, the laws, the Jacobian of the change of the
    parameters and ``prior``, the share of s in the log density of the rest.

    Parameters
    ----------
    scale : callable ``(..., offset, prior, factor)``
        f without ``offset`` (N,) grows by ``e^s``, which is written into ``factor`` (G,). ``prior`` (G, 4) are p of
        ``p0 s + p1 e^s + p2 e^(2 s) + p3 e^(-2 s)``.
    shift : callable ``(..., prior, shift)``
        f grows by s, which is written into ``shift`` (G,). ``prior`` (G, 2) are p of ``p0 s + p1 s^2``.
    """

    scale: Callable[..., None]
    shift: Callable[..., None]


class Augmentation(NamedTuple):
    """What makes a likelihood Gaussian in f, as compiled functions.

    The functions share their first arguments: ``f``, ``y`` and ``weight`` (N,), the task (N,) of each row, and
    the parameters.

    Parameters
    ----------
    draw : callable ``(rng, f, y, weight, task, parameters, w, v)``
        Draws the auxiliary variables given f and writes, for every row, ``w`` and ``v`` with
        ``log p(y, auxiliary | f) = -w f^2 / 2 + v f + const``. ``weight`` multiplies the log likelihood.
    parameters : named tuple of arrays
        Where the parameters of the likelihood start.
    learned : tuple of str
        Those that ``update`` draws, and a draw of the chain holds.
    per_task : tuple of str
        Those of which every task has its own.
    laws : named tuple of (3,) arrays
        Their priors, as numbers of :mod:`zoo.inference.gibbs.parameter_laws`.
    update : callable ``(rng, f, y, weight, task, parameters, laws)``, optional
        Draws the parameters that are learned, given f and with the auxiliary variables integrated out, in place. So it
        comes right before ``draw``, which draws these anew: the two together are one draw of both given f.
    log_density : callable ``(f, y, weight, task, parameters, total)``, optional
        Writes the log density of the rows, up to a constant without f, into ``total``: the sum over all of them (1,),
        or over those of each task (T,).
    slopes : callable ``(f, y, weight, task, parameters, slope, curvature)``, optional
        Writes the derivative of the log density of every row in f, and minus the second one, or 0 where that is
        negative.
    crawls : callable ``(y, weight) -> bool``, optional
        Whether responses are such that draws given the auxiliary variables hardly move, and
        :mod:`zoo.inference.gibbs.likelihood_moves` pay.
    hinges : callable ``(y, parameters) -> (2, N)``, optional
        ``a`` and ``b`` of ``log p(y | f) = -2 C weight max(0, a - b f)``, for moves without
        augmentation where they pay.
    rows_of : mapping of str to (str, int), optional
        Learned parameters that are rows of one array of ``parameters``, with its name: (1,) or (T,) each.
    joint : JointMoves, optional
        Moves of f together with the parameters, for hierarchies of coefficients
        (:mod:`zoo.inference.gibbs.joint_moves`).
    """

    draw: Callable[..., None]
    parameters: Parameters
    learned: tuple[str, ...] = ()
    per_task: tuple[str, ...] = ()
    laws: Any = None
    update: Callable[..., None] | None = None
    hinges: Callable[[np.ndarray, Parameters], np.ndarray] | None = None
    log_density: Callable[..., None] | None = None
    slopes: Callable[..., None] | None = None
    crawls: Callable[[np.ndarray, np.ndarray], bool] | None = None
    rows_of: Mapping[str, tuple[str, int]] | None = None
    joint: JointMoves | None = None

    def start(self) -> Parameters:
        """The parameters of a chain, which may be changed in place."""
        return type(self.parameters)(*(np.array(values) for values in self.parameters))

    def values(self, parameters: Parameters, name: str) -> np.ndarray:
        """The array of a learned parameter, (1,) or (T,), which may be changed in place."""
        field, row = (self.rows_of or {}).get(name, (name, None))
        found: np.ndarray = getattr(parameters, field)
        return found if row is None else found[row]

    def record(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """What a draw holds of the parameters: a number, or one per task."""
        found = {name: self.values(parameters, name) for name in self.learned}
        return {name: (v if name in self.per_task else v[0]).copy() for name, v in found.items()}

    def put(self, parameters: Parameters, values: Mapping[str, Any]) -> None:
        """Fill the learned parameters from a draw."""
        for name in self.learned:
            if name in values:
                self.values(parameters, name)[:] = values[name]


def snapshot_of(parameters: Parameters) -> dict[str, np.ndarray]:
    """Copies of the parameters, for ``snapshot``."""
    return {_PREFIX + name: np.array(getattr(parameters, name)) for name in parameters._fields}


def restore_parameters(parameters: Parameters, snapshot: dict[str, np.ndarray]) -> None:
    """Fill the parameters from a snapshot, in place."""
    own = {_PREFIX + name: getattr(parameters, name) for name in parameters._fields}
    put_back(own, snapshot, own)


def sums_of_losses(
    minus_loss: Callable[[np.ndarray, np.ndarray, Any], np.ndarray],
    f: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    task: np.ndarray,
    parameters: Parameters,
    total: np.ndarray,
) -> None:
    """``log_density`` of a likelihood that is a loss of rows, ``minus_loss(f, y, C)`` (N,)."""
    C = parameters.C
    rows = minus_loss(f, y, C[task] if len(C) > 1 else C[0])
    total[:] = weight @ rows if len(total) == 1 else np.bincount(task, weight * rows, len(total))

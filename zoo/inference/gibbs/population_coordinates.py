"""The coordinates in which the sampler of a population works: which coefficients are loose, and along which axes.

:mod:`zoo.inference.gibbs.normal_inverse_wishart` has the model, and :mod:`zoo.inference.gibbs.loose_directions` the
rule.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.inference.gibbs.collapsed_regression import Reflections
from zoo.inference.gibbs.loose_directions import (
    FEW_FEATURES,
    loose_axes,
    loose_basis,
    spread_directions,
    steady_features,
)
from zoo.inference.gibbs.population_lanes import population_group_moves, turned_group_moves
from zoo.inference.gibbs.task_sums import task_sums

__all__ = ["PopulationCoordinates"]


class PopulationCoordinates:
    """The coordinates of :class:`~zoo.inference.gibbs.normal_inverse_wishart.NormalInverseWishartKernel`."""

    if TYPE_CHECKING:
        inputs: np.ndarray
        row: np.ndarray
        y: np.ndarray
        task: np.ndarray
        n_tasks: int
        pi: float | None
        nu: float
        half: np.ndarray | None
        noise_rate: float
        weight: np.ndarray | None
        loose: int | None
        scale_sd: float | None
        mean_sd: float | None

    @property
    def _from_features(self) -> np.ndarray | None:
        """The map (p, D) from whitened features to those that are looked at one by one, or None where they are these.

        Beside a mean of its own, features are whitened one by one, and a constant takes up where they are centred.
        """
        return self.half if self.mean_sd is None else None

    @cached_property
    def _steady(self) -> tuple[np.ndarray, np.ndarray]:
        """Features that hardly vary within tasks, and their means there."""
        half = self._from_features
        rows = self.inputs if half is None else self.inputs @ np.linalg.pinv(half)
        own = len(self.row) == len(rows) and np.array_equal(self.row, np.arange(len(rows)))
        return steady_features(rows if own else rows[self.row], self.weight, self.task, self.n_tasks)

    @cached_property
    def _basis(self) -> tuple[np.ndarray, int, float]:
        """The sampler's basis of the whitened features, how many of its last directions are loose, the mean share."""
        if self.loose == 0:
            return self._rotation() if self.scale_sd is None else np.eye(self.inputs.shape[1]), 0, 0.0
        sums = task_sums(self.inputs, self.row, self.y, self.task, self.n_tasks, self.weight)
        half = self._from_features
        axes = np.eye(self.inputs.shape[1]) if half is None else np.linalg.pinv(half)
        prior = 1.0 if self.pi is None else self.pi, self.nu, self.noise_rate
        known = (sums.S, sums.centre, sums.sse, sums.size, prior)
        steady = axes[:, self._steady[0]]
        if self.scale_sd is not None:
            return loose_axes(*known, self.scale_sd, steady, self.loose)
        return loose_basis(*known, steady, self.loose)

    @cached_property
    def _principal_axes(self) -> np.ndarray | None:
        """Axes (D, D) of the estimated covariance for scales of 1, or None where moves along them are not taken.

        Where scales of features are learned these hold to the features, and a combination of coefficients that hardly
        differs between tasks lies across them: as levels at the origin of a feature that is centred far from it.
        """
        D = self.inputs.shape[1]
        if self.mean_sd is None or self.scale_sd is None or not 1 < D <= FEW_FEATURES:
            return None
        sums = task_sums(self.inputs @ self._basis[0], self.row, self.y, self.task, self.n_tasks, self.weight)
        prior = 0.0, self.nu, self.noise_rate
        return spread_directions(sums.S, sums.centre, sums.sse, sums.size, prior, self.scale_sd)

    @cached_property
    def _unscaled(self) -> tuple[np.ndarray, Reflections | None]:
        """From the sampler's coordinates to the coefficients (p, D), and what reflections choose from; scales of 1."""
        rotation, m, _ = self._basis
        half = np.array(rotation if self.half is None else self.half @ rotation, order="C")
        if not m:
            return half, None
        chosen, values = self._steady
        seen = half if self._from_features is self.half else rotation
        axes = np.linalg.pinv(seen)[-m:, chosen].T
        return half, Reflections(np.ascontiguousarray(axes), np.ascontiguousarray(seen[chosen, -m:]), values)

    def _rotation(self) -> np.ndarray:
        """Eigenvectors of ``X'X`` over all rows."""
        uses = np.bincount(self.row, self.weight, minlength=len(self.inputs)).astype(np.float64)
        return np.linalg.eigh(self.inputs.T @ (uses[:, None] * self.inputs))[1]

    def _group_moves(self, rng: np.random.Generator, s: dict[str, Any], mu: np.ndarray) -> None:
        """Step 4, for sums over rows that are in their place; in one sweep of two along the principal axes."""
        now = (s["whole"], s["W"], mu, s["P"], s["inverse_noise"], float(self.nu), self.n_tasks)
        axes = self._principal_axes
        if axes is None or rng.random() < 0.5:
            population_group_moves(rng, *now)
        else:
            turned_group_moves(rng, *now, np.linalg.qr(s["scales"][:, None] * axes)[0])

r"""Gibbs sampling of a matrix-normal hierarchy whose feature covariance is that of latent binary features.

The engine of :mod:`zoo.inference.gibbs.matrix_normal` with :math:`\Omega = Q = I + Z Z'` and Z under the Indian buffet
process (li2014 section 4). Given Q, coefficients, augmentation and task covariance are drawn as before; the moves of
tasks hold Q fixed and stay valid. Given coefficients and task covariance, Z is drawn by
:mod:`zoo.inference.gibbs.buffet`, without truncation. Moves of features have no place: Q has no free scale
and no free direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zoo.inference.gibbs.buffet import buffet_sweep, draw_alpha
from zoo.inference.gibbs.matrix_normal import MatrixNormalKernel

__all__ = ["LatentFeatureKernel"]

_PRIOR_SWEEPS = 5


@dataclass(frozen=True, eq=False)
class LatentFeatureKernel(MatrixNormalKernel):
    """Markov kernel of that hierarchy.

    ``feature_prior`` is that of no latent features, the identity as a given covariance.

    Parameters
    ----------
    alpha : float or None
        Mass of the process; None draws it under ``alpha_prior``.
    alpha_prior : (float, float)
        Shape and rate of its gamma prior.
    least_columns : int
        Columns of a stored Z at least; there are more where the posterior has more.
    """

    # Variables whose columns change places: the progress bar does not follow them.
    unordered: ClassVar[tuple[str, ...]] = ("Z",)

    alpha: float | None = None
    alpha_prior: tuple[float, float] = (2.0, 1.0)
    least_columns: int = 1

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state, Z and alpha drawn near their prior."""
        state = super().initialise(rng, threads)
        D = state["H"].shape[1]
        shape, rate = self.alpha_prior
        state["alpha"] = rng.gamma(shape) / rate if self.alpha is None else self.alpha
        Z = np.zeros((D, 0), dtype=np.int8)
        for _ in range(_PRIOR_SWEEPS):  # of no tasks, whose likelihood is flat
            Z = buffet_sweep(rng, np.empty((D, 0)), Z, state["alpha"])
        _put_Z(state, Z)
        return state

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put coefficients (D, T), Z and what is learned of the rest into the state."""
        super().set_values(state, values)
        if "alpha" in values and self.alpha is None:
            state["alpha"] = float(values["alpha"])
        if "Z" in values:
            Z = np.asarray(values["Z"], dtype=np.int8)
            _put_Z(state, np.ascontiguousarray(Z[:, Z.any(axis=0)]))

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """As the base class, with Z and alpha."""
        return {**super().snapshot(state), "Z": state["Z"].copy(), "alpha": np.array(float(state["alpha"]))}

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        super().restore(state, snapshot)
        Z = np.ascontiguousarray(snapshot["Z"])
        if Z.dtype != np.int8 or Z.ndim != 2 or len(Z) != len(state["O"]) or not np.isin(Z, (0, 1)).all():
            raise ValueError(f"Z is no binary matrix of {len(state['O'])} rows")
        state["Z"], state["alpha"] = Z, float(snapshot["alpha"])

    def _scan(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        super()._scan(rng, state)
        # Whitened coefficients: eta F with F F' the inverse of the task covariance.
        W = np.ascontiguousarray(state["H"].T @ np.linalg.cholesky(state["P"]))
        _put_Z(state, buffet_sweep(rng, W, state["Z"], state["alpha"]))
        if self.alpha is None:
            state["alpha"] = draw_alpha(rng, state["Z"].shape[1], len(W), *self.alpha_prior)

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients, task covariance, alpha, Z with its largest columns first, and their number."""
        draw = self.raw(state)
        Z = state["Z"]
        padded = np.zeros((len(Z), max(self.least_columns, Z.shape[1])), dtype=np.int64)
        padded[:, : Z.shape[1]] = Z[:, np.argsort(-Z.sum(axis=0), kind="stable")]
        draw["Z"] = padded
        draw["n_latent"] = np.array(Z.shape[1])
        if self.alpha is None:
            draw["alpha"] = np.array(state["alpha"])
        return draw

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """As the base class, and the number of latent features."""
        return {**super().monitor(state), "n_latent": float(state["Z"].shape[1])}


def _put_Z(state: dict[str, Any], Z: np.ndarray) -> None:
    """Z and ``Q^-1 = I - Z (I + Z'Z)^-1 Z'``."""
    state["Z"] = Z
    dense = Z.astype(np.float64)
    inner = np.eye(Z.shape[1]) + dense.T @ dense
    state["O"][:] = np.eye(len(Z)) - dense @ np.linalg.solve(inner, dense.T)

"""What the minimiser asks of an objective, and when it has found a minimum."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from zoo.inference.ard.proximal_columns import residual_of

__all__ = ["Constraints", "Minimum", "Objective", "kkt_residual"]


class Objective(Protocol):
    r"""The smooth part, :math:`g_b`, and parameters outside theta that it keeps to itself (a shared mean).

    It may also have ``hessian(theta)``, of shape (B, p, p): it then replaces the Fisher information wherever it is
    positive definite on a block's coordinates above their bounds, and convergence is quadratic.
    """

    def value(self, theta: np.ndarray) -> np.ndarray:
        """The :math:`g_b`, (B,); +inf where a block is not defined."""
        ...

    def gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The :math:`g_b` and their gradients, (B,) and (B, p)."""
        ...

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Positive semi-definite matrices that resemble the Hessians, (B, p, p): Fisher information."""
        ...

    def refresh(self, theta: np.ndarray) -> None:
        """Minimise over the parameters outside theta."""
        ...


class Minimum(NamedTuple):
    """Where the minimiser stopped, and how it went there."""

    theta: np.ndarray  # (B, p)
    objective: (
        np.ndarray
    )  # (iterations,): F at the start and after each step; it does not rise, but by rounding
    kkt: np.ndarray  # (iterations,): the residual there
    converged: bool  # the last residual is within tol
    evaluations: int  # points at which the objective was evaluated
    interrupted: bool = False  # by Ctrl-C


class Constraints(NamedTuple):
    """The penalty of the first columns, and the lower bounds of all, (B, p)."""

    C: float
    penalised: int
    grouped: bool
    lower: np.ndarray  # (B, p)

    def penalty(self, theta: np.ndarray) -> float:
        """The penalty at theta."""
        kappa = theta[:, : self.penalised]
        return self.C * float(np.linalg.norm(kappa, axis=0).sum() if self.grouped else kappa.sum())

    def penalty_curvature(self, theta: np.ndarray) -> np.ndarray:
        """Second derivatives by single entries, (B, p)."""
        answer = np.zeros_like(theta)
        kappa = theta[:, : self.penalised]
        norm = np.linalg.norm(kappa, axis=0)
        if self.grouped:
            inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0.0)
            answer[:, : self.penalised] = self.C * inverse * (1.0 - (kappa * inverse) ** 2)
        return answer

    def residual(self, theta: np.ndarray, gradient: np.ndarray) -> float:
        """By how much the conditions of a minimum are missed."""
        return residual_of(theta, gradient, self.lower, self.C, self.penalised, self.grouped)


def kkt_residual(
    theta: Any, gradient: Any, C: float, penalised: int, grouped: bool, lower: Any = 0.0
) -> float:
    r"""How far a point is from the conditions of a minimum, in units of the gradient.

    Parameters
    ----------
    theta : (B, p) array_like of float
    gradient : (B, p) array_like of float
        Of the smooth part.
    C : float
        Weight of the penalty, 0 or more.
    penalised : int
        Number of columns, from the first, that bear the penalty.
    grouped : bool
        Whether the penalty is the sum of the norms of these columns; otherwise of their entries.
    lower : array_like of float
        Bounds; broadcasts to (B, p). Zero in the penalised columns.

    Returns
    -------
    float
        Largest distance of zero from an entry of the subdifferential, the normal cone of the bounds included; for a
        column of zeros, the distance of the vector: :math:`(\lVert (-\nabla)_+ \rVert - C)_+`.

    Raises
    ------
    ValueError
        For an argument that is out of range or does not fit the others.
    """
    theta, bounds = check_start(theta, C, penalised, grouped, lower)
    gradient = np.ascontiguousarray(gradient, dtype=np.float64)
    if gradient.shape != theta.shape:
        raise ValueError(f"gradient has shape {gradient.shape}, but theta has shape {theta.shape}.")
    return bounds.residual(theta, gradient)


def check_start(
    theta: Any, C: float, penalised: int, grouped: bool, lower: Any
) -> tuple[np.ndarray, Constraints]:
    theta = np.array(theta, dtype=np.float64, order="C")
    if theta.ndim != 2 or theta.size == 0 or not np.isfinite(theta).all():
        raise ValueError(f"theta is a finite matrix, one row per block; it has shape {theta.shape}.")
    if not 0.0 <= C < np.inf:
        raise ValueError(f"C is {C}. Give a finite number, 0 or more.")
    if not 0 <= penalised <= theta.shape[1]:
        raise ValueError(f"penalised is {penalised}; theta has {theta.shape[1]} columns.")
    try:
        lower = np.ascontiguousarray(np.broadcast_to(np.asarray(lower, dtype=np.float64), theta.shape))
    except ValueError:
        raise ValueError(f"lower of shape {np.shape(lower)} does not broadcast to {theta.shape}.") from None
    if (lower[:, :penalised] != 0.0).any():
        raise ValueError("lower is not zero in the penalised columns.")
    if not (theta >= lower).all():
        block, column = np.argwhere(~(theta >= lower))[0]
        raise ValueError(
            f"theta is below its bound in block {block}, column {column}: "
            f"{theta[block, column]} < {lower[block, column]}."
        )
    return theta, Constraints(float(C), int(penalised), bool(grouped), lower)

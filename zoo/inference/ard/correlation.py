"""Covariance functions with ARD parameters, as the evidence and its derivatives need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

__all__ = ["CompiledCorrelation", "Correlation", "Parameters"]


class Parameters(NamedTuple):
    """ARD parameters kappa (T, D), noise variances (T,) and amplitudes (T,) of all tasks."""

    kappa: np.ndarray
    noise: np.ndarray
    amplitude: np.ndarray


class Correlation(Protocol):
    """A covariance function with ARD parameters kappa (D,), of amplitude 1."""

    @property
    def linear(self) -> bool:
        """Whether it is the linear kernel."""

    def matrix(self, X: np.ndarray, Y: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """Between inputs (n, D) and (m, D): (n, m)."""

    def diagonal(self, X: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """At each input, (n,)."""

    def slopes(self, X: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """Derivatives of the matrix at X in kappa, (D, n, n)."""

    def pull(self, X: np.ndarray, kappa: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Derivative in kappa of the sum of G (n, n) times the matrix at X, (D,)."""


@dataclass(frozen=True)
class CompiledCorrelation:
    """The covariance functions of :data:`zoo.inference.ard.evidence.KERNELS`."""

    name: str

    @property
    def linear(self) -> bool:
        """Whether it is the linear kernel."""
        return self.name == "linear"

    def matrix(self, X: np.ndarray, Y: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """See :class:`Correlation`."""
        if self.linear:
            return np.asarray((X * kappa) @ Y.T)
        return self._of_squares(_squares(X, Y, kappa))[0]

    def diagonal(self, X: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """See :class:`Correlation`."""
        return np.asarray(X**2 @ kappa) if self.linear else np.ones(len(X))

    def slopes(self, X: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """See :class:`Correlation`."""
        if self.linear:
            return np.asarray(X.T[:, :, None] * X.T[:, None, :])
        gaps = (X.T[:, :, None] - X.T[:, None, :]) ** 2
        return gaps * self._of_squares(np.tensordot(kappa, gaps, 1))[1]

    def with_column(self, X: np.ndarray, kappa: np.ndarray, columns: np.ndarray, own: float) -> np.ndarray:
        """The matrix at X with one more feature of ARD parameter ``own``, for each of columns (b, n): (b, n, n)."""
        gaps = (columns[:, :, None] - columns[:, None, :]) ** 2
        return self._of_squares(_squares(X, X, kappa) + own * gaps)[0]

    def _of_squares(self, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Correlations at squared scaled distances, and derivatives in these."""
        if self.name == "squared_exponential":
            k = np.exp(-0.5 * squares)
            return k, -0.5 * k
        r = np.sqrt(squares)
        if self.name == "matern52":
            e = np.exp(-np.sqrt(5.0) * r)
            linear = 1.0 + np.sqrt(5.0) * r
            return (linear + 5.0 * squares / 3.0) * e, -5.0 / 6.0 * linear * e
        e = np.exp(-np.sqrt(3.0) * r)
        return (1.0 + np.sqrt(3.0) * r) * e, -1.5 * e

    def pull(self, X: np.ndarray, kappa: np.ndarray, G: np.ndarray) -> np.ndarray:
        """See :class:`Correlation`."""
        return np.asarray(np.tensordot(self.slopes(X, kappa), G, 2))


def _squares(X: np.ndarray, Y: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    used = kappa > 0.0  # few features are relevant: the others cost nothing
    gaps = X[:, None, used] - Y[None, :, used]
    return np.asarray(gaps**2 @ kappa[used])

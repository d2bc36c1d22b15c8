"""Responses of latent functions: what their density says of f, and normal ones in closed form."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

__all__ = ["Density", "NormalResponses", "Responses"]


class Density(NamedTuple):
    """The log density of the responses at f: its sum, and of each row (n,) slope, information W and slope of W.

    ``curvature`` is minus the second derivative, or 0 where that is negative.
    """

    value: float
    slope: np.ndarray
    information: np.ndarray
    information_slope: np.ndarray
    curvature: np.ndarray


class Responses(Protocol):
    """The responses, and the density that they have given f and parameters of their own (logarithms)."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def density(self, f: np.ndarray, parameters: np.ndarray) -> Density:
        """The density and its derivatives in f."""

    def parameter_slopes(
        self, f: np.ndarray, parameters: np.ndarray
    ) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Of each parameter: the derivatives of the sum, of the slope (n,) and of the information (n,)."""


class NormalResponses:
    """Responses ``y ~ N(f, noise^2)``; the log density of each row counts by its weight.

    Parameters
    ----------
    y : (n,) array
        Responses.
    noise : float, optional
        Standard deviation; learned if left out, and handed over as a logarithm then.
    weight : (n,) array, optional
        Weights of the rows, above 0; 1 if left out.
    """

    def __init__(self, y: np.ndarray, noise: float | None = None, weight: np.ndarray | None = None):
        self.y, self.weight = y, weight
        self.total = float(len(y) if weight is None else weight.sum())
        self.fixed = {} if noise is None else {"noise": float(noise)}
        self.learned = ("noise",) if noise is None else ()

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def constant_information(self) -> bool:
        """Whether it is the same number for every row, whatever f."""
        return self.weight is None

    def log_noise(self, parameters: np.ndarray) -> float:
        """Logarithm of the standard deviation."""
        if self.fixed:
            return float(np.log(self.fixed["noise"]))
        (log_noise,) = parameters
        return float(log_noise)

    def information(self, parameters: np.ndarray) -> np.ndarray:
        """Weight over the variance of every row (n,)."""
        precision = np.exp(-2.0 * self.log_noise(parameters))
        return np.full(self.size, precision) if self.weight is None else self.weight * precision

    def density(self, f: np.ndarray, parameters: np.ndarray) -> Density:
        """See :class:`Responses`."""
        residual = self.y - f
        return self._density(residual, residual * self.information(parameters), parameters)

    def at_mode(self, a: np.ndarray, f: np.ndarray, parameters: np.ndarray) -> tuple[np.ndarray, Density]:
        """F (n,) and the density at the mode, of ``a = (K + noise^2 I)^{-1} y``, the slope there, and ``f = K a``;
        with weights their inverse takes the place of I.

        The smaller of f and the residual ``noise^2 a`` is taken as it is, and the other one is what y leaves: the
        difference of two large numbers would have no digits.
        """
        residual = a / self.information(parameters)
        if np.linalg.norm(residual) < np.linalg.norm(f):
            f = self.y - residual
        else:
            residual = self.y - f
        return f, self._density(residual, a, parameters)

    def parameter_slopes(
        self, f: np.ndarray, parameters: np.ndarray
    ) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """See :class:`Responses`."""
        if self.fixed:
            return []
        slope, information = self.density(f, parameters)[1:3]
        return [(float((self.y - f) @ slope) - self.total, -2.0 * slope, -2.0 * information)]

    def _density(self, residual: np.ndarray, slope: np.ndarray, parameters: np.ndarray) -> Density:
        constant = self.total * (self.log_noise(parameters) + 0.5 * np.log(2.0 * np.pi))
        value = -0.5 * float(residual @ slope) - constant
        information = self.information(parameters)
        return Density(value, slope, information, np.zeros(self.size), information)

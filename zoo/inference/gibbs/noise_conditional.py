r"""The noise of a task given its rows and the population of coefficients, with the coefficients integrated out.

With :math:`w \sim N(\mu, C)`, rows of weights h and :math:`\sigma^2 \sim IG(a, b)`, let :math:`e = H^{1/2} (y - X \mu)`
and :math:`A = H^{1/2} X R` with :math:`C = R R'` have the singular values :math:`\sqrt{d_i}` and left vectors
:math:`u_i`. A row of weight h has the density :math:`N(y; f, \sigma^2)^h`, so that

.. math::

    \log p(\sigma^2 \mid y) = - (a + 1) \log \sigma^2 - \frac{b}{\sigma^2}
    - \tfrac12 \Big(\sum_n h_n - k\Big) \log \sigma^2 - \frac{|e|^2 - \sum_i (u_i'e)^2}{2 \sigma^2}
    - \tfrac12 \sum_{i=1}^k \Big( \log (d_i + \sigma^2) + \frac{(u_i'e)^2}{d_i + \sigma^2} \Big) + \text{const}

for the k vectors: one factorisation, then a function of one number, which is drawn by inverting its distribution
function on a grid of its logarithm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

__all__ = ["NoiseConditional"]

# Points of the first grid, which finds where the mass is, and of the second, which is inverted.
_COARSE, _FINE = 240, 400
# Density below this share of the largest, in logarithms, has no mass.
_NEGLIGIBLE = 32.0
# Least shape of the tail that the grid must reach, so that its end is finite.
_LEAST_SHAPE = 0.4


class NoiseConditional(NamedTuple):
    """What rows say of their noise: squares along the singular vectors, those values, and the rest.

    ``squares``, ``values`` (k,); ``left``: the sum of squares that no vector spans; ``size``: the sum of weights.
    """

    squares: np.ndarray
    values: np.ndarray
    left: float
    size: float

    @classmethod
    def of(
        cls, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, root: np.ndarray
    ) -> NoiseConditional:
        """Of rows ``X`` (n, r) and ``y`` (n,), given the mean (r,) and a root (r, q) of the covariance."""
        h = np.ones(len(y)) if weight is None else weight
        e = np.sqrt(h) * (y - X @ mean)
        U, s, _ = np.linalg.svd(np.sqrt(h)[:, None] * (X @ root), full_matrices=False)
        along = U.T @ e
        return cls(along**2, s**2, float(np.sum((e - U @ along) ** 2)), float(h.sum()))

    def log_likelihood(self, variance: np.ndarray) -> np.ndarray:
        """Log density of the rows at noise variances (m,), without the factor that does not depend on them."""
        total = self.values + variance[:, None]
        rest = self.size - len(self.values)
        return np.asarray(
            -0.5 * rest * np.log(variance)
            - 0.5 * self.left / variance
            - 0.5 * np.sum(np.log(total) + self.squares / total, axis=1)
        )

    def draw(self, shape: float, rate: float, rng: np.random.Generator) -> float:
        """A draw of the variance under the inverse-gamma prior with this shape and rate."""

        def log_density(x: np.ndarray) -> np.ndarray:  # of the logarithm
            variance = np.exp(x)
            return np.asarray(self.log_likelihood(variance) - shape * x - rate / variance)

        low = np.log(rate) - np.log(200.0)
        tail = max(shape, _LEAST_SHAPE)
        high = np.log(rate + self.left + self.squares.sum()) + _NEGLIGIBLE / tail
        x = np.linspace(low, high, _COARSE)
        value = log_density(x)
        kept = np.flatnonzero(value > value.max() - _NEGLIGIBLE)
        x = np.linspace(x[max(kept[0] - 1, 0)], x[min(kept[-1] + 1, _COARSE - 1)], _FINE)
        value = log_density(x)
        density = np.exp(value - value.max())
        mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
        return float(np.exp(np.interp(rng.random() * mass[-1], mass, x)))

    def mode(self, prior: tuple[float, float] | None, least: float) -> float:
        """The variance of largest density, at least ``least``; the prior None is flat."""
        a, b = (-1.0, 0.0) if prior is None else prior

        def objective(x: float) -> float:
            variance = np.exp(np.array([x]))
            return float(-self.log_likelihood(variance)[0] + (a + 1.0) * x + b / variance[0])

        low = np.log(least)
        high = max(np.log(least + 2.0 * b + self.left + self.squares.sum()), low) + 1.0
        x = np.linspace(low, high, _COARSE)
        values = [objective(v) for v in x]
        best = int(np.argmin(values))
        ends = x[max(best - 1, 0)], x[min(best + 1, _COARSE - 1)]
        found = minimize_scalar(objective, bounds=ends, method="bounded", options={"xatol": 1e-10})
        return float(np.exp(found.x if found.fun < values[best] else x[best]))

r"""Sines on a box: a basis in which any stationary covariance is nearly diagonal (Solin & Sarkka 2020).

On the box :math:`[-L_p, L_p]` around the centre of the data, with :math:`\omega_{jp} = \pi j / (2 L_p)`,

.. math::

    \phi_j(t) = \prod_p L_p^{-1/2} \sin(\omega_{j_p p} (t_p - c_p + L_p)), \quad k(t, t') \approx \sum_j S(\omega_j)
    \phi_j(t) \phi_j(t')

with S the spectral density of k. The weights of the features are independent, with variances :math:`S(\omega_j)`; only
these know the lengthscales. The sum converges to k inside the box as the number of functions grows and the box does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

__all__ = ["HilbertBasis"]


@dataclass(frozen=True, eq=False)
class HilbertBasis:
    """Products of sines.

    Parameters
    ----------
    centre, half_width : (P,) arrays
        The box; ``half_width`` reaches past the data.
    size : tuple of P int
        Number of functions of each column.
    """

    centre: np.ndarray
    half_width: np.ndarray
    size: tuple[int, ...]

    @classmethod
    def around(cls, t: np.ndarray, size: tuple[int, ...], boundary: float) -> HilbertBasis:
        """The box around data t (n, P), ``boundary`` times as wide."""
        low, high = t.min(axis=0), t.max(axis=0)
        return cls((low + high) / 2.0, boundary * np.maximum((high - low) / 2.0, 1e-12), size)

    @property
    def count(self) -> int:
        """Number of functions, m."""
        return prod(self.size)

    @property
    def frequencies(self) -> np.ndarray:
        """Angular frequencies of every function, (m, P)."""
        columns = [
            np.arange(1, m + 1) * np.pi / (2.0 * L) for m, L in zip(self.size, self.half_width, strict=True)
        ]
        return np.stack([grid.ravel() for grid in np.meshgrid(*columns, indexing="ij")], axis=1)

    @property
    def finest(self) -> np.ndarray:
        """Distance of the zeros of the finest sine of each column, (P,). Shorter lengthscales are all alike to it."""
        return 2.0 * self.half_width / np.array(self.size)

    def features(self, t: np.ndarray) -> np.ndarray:
        """The functions at t (n, P), as (n, m). Outside the box there is no prior: t is moved to its edge."""
        result = np.ones((len(t), 1))
        for p, (m, c, L) in enumerate(zip(self.size, self.centre, self.half_width, strict=True)):
            place = np.clip(t[:, p] - c + L, 0.0, 2.0 * L)
            sines = np.sin(np.outer(place, np.arange(1, m + 1) * np.pi / (2.0 * L))) / np.sqrt(L)
            result = (result[:, :, None] * sines[:, None, :]).reshape(len(t), -1)
        return result

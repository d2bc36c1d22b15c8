r"""The units in which default priors are stated, and coefficients of features in these units and in those of the data.

With :math:`x_d = (u_d - m_d) / s_d` and :math:`y = (v - a) / b` as in :mod:`zoo.data.standardizing`, coefficients
:math:`w` of such features and :math:`\beta` of those of the data say the same functions where

.. math:: \beta_d = \frac{b}{s_d} w_d, \quad
    \beta_c = \frac{1}{c} \Big(b\, w_c\, \mathrm{sign}(c) + a - \sum_d m_d \beta_d\Big),

the second for a feature with the value c in all rows, whose own scale is :math:`|c|`. Without such a feature there is
no location: m and a are 0. Everything here takes arrays and graphs alike, with the features along their first axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zoo.data.rows import Transform

__all__ = ["Units"]


@dataclass(frozen=True, eq=False)
class Units(Transform):
    """Location and scale of features and responses, and the constant feature that takes up locations.

    Parameters
    ----------
    level : (int, float), optional
        Position and value of that feature; None where it is not among these.
    """

    level: tuple[int, float] | None = None

    @property
    def plain(self) -> bool:
        """Whether these are the units of the data themselves."""
        moved = np.any(self.x_mean != 0.0) or np.any(self.x_scale != 1.0)
        return not moved and self.y_mean == 0.0 and self.y_scale == 1.0

    def of_features(self, positions: list[int]) -> Units:
        """The units of these features alone, and of the response."""
        level = self.level
        if level is not None:
            level = (positions.index(level[0]), level[1]) if level[0] in positions else None
        return replace(self, x_mean=self.x_mean[positions], x_scale=self.x_scale[positions], level=level)

    @classmethod
    def of_size(cls, n_features: int) -> Units:
        """The units of the data themselves, for so many features."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @property
    def slope(self) -> np.ndarray:
        """What the coefficients of features in these units are multiplied by, (D,)."""
        return np.asarray(self.y_scale / self.x_scale)

    @property
    def back(self) -> np.ndarray:
        """The matrix (D, D) of :meth:`turned`."""
        return np.asarray(self.turned(np.eye(len(self.x_scale))))

    @property
    def offset(self) -> np.ndarray:
        """What :meth:`coefficients` makes of zeros, (D,)."""
        return np.asarray(self.coefficients(np.zeros(len(self.x_scale))))

    def _at_level(self, like: Any) -> tuple[Any, float]:
        """One at the constant feature, in the shape of an array of coefficients, and its value."""
        assert self.level is not None
        one = np.zeros(len(self.x_scale))
        one[self.level[0]] = 1.0
        return _column(one, like), self.level[1]

    def turned(self, white: Any) -> Any:
        """The linear part of :meth:`coefficients`, which has no location of the response."""
        if self.plain:
            return white
        turned = white * _column(self.slope, white)
        if self.level is None or not self.x_mean.any():
            return turned
        one, value = self._at_level(turned)
        return turned - one * (turned * _column(self.x_mean, turned)).sum(axis=0) / value

    def turned_back(self, turned: Any) -> Any:
        """The inverse of :meth:`turned`."""
        if self.plain:
            return turned
        if self.level is not None and self.x_mean.any():
            one, value = self._at_level(turned)
            turned = turned + one * (turned * _column(self.x_mean, turned)).sum(axis=0) / value
        return turned / _column(self.slope, turned)

    def coefficients(self, white: Any) -> Any:
        """Coefficients (D, ...) of the features of the data, from those of features in these units."""
        turned = self.turned(white)
        if self.level is None or self.y_mean == 0.0:
            return turned
        one, value = self._at_level(turned)
        return turned + one * (self.y_mean / value)

    def white(self, coefficients: Any) -> Any:
        """The inverse of :meth:`coefficients`."""
        if self.level is not None and self.y_mean != 0.0:
            one, value = self._at_level(coefficients)
            coefficients = coefficients - one * (self.y_mean / value)
        return self.turned_back(coefficients)

    def covariance(self, white: Any) -> Any:
        """Covariance (D, D, ...) of coefficients of the features of the data, from that in these units."""
        return self.turned(self.turned(white).swapaxes(0, 1)).swapaxes(0, 1)

    def white_covariance(self, covariance: Any) -> Any:
        """The inverse of :meth:`covariance`."""
        return self.turned_back(self.turned_back(covariance).swapaxes(0, 1)).swapaxes(0, 1)


def _column(values: np.ndarray, like: Any) -> np.ndarray:
    """Numbers (D,) as they are multiplied with an array (D, ...)."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))

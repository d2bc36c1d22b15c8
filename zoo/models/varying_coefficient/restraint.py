r"""What keeps the evidence of a basis of sines from running away: a prior that is flat where sines show the process.

Without it hyper-parameters run away in two places, of which neither the process nor its exact evidence knows.

**Detail that no sine shows.** The box is wider than the data, so sums of sines that nearly cancel on the data follow
detail which no single sine shows. With many rows the evidence pays for that: the amplitude grows a thousandfold, and in
a gap, where nothing cancels, so do predictions. Of two rows that are drawn from the data, f differs by a variance of
which the half has the prior mean

.. math:: V = \sum_d a_d^2 \Big( \frac1N \sum_n x_{nd}^2 - \frac1{N^2} \sum_{nm} x_{nd} x_{md} k(t_n, t_m) \Big)

and that of the responses is their variance :math:`s_y^2`. The density of the hyper-parameters has the factor
:math:`\exp\{-\tfrac12 N \log_+^2(V / 4 s_y^2)\}`, which is 1 up to four times the variance. It counts as often as there
are rows, since what it stands against does.

**Lengthscales beyond the box.** Sines are 0 at the edge of the box, so they lack the constant by which the data tell
one amplitude from the other: with a long lengthscale :math:`\ell` they show :math:`a^2 \ell^{-2 \nu}` alone. The
evidence is flat along that ridge. There each column has the factor :math:`\exp\{-\tfrac12 \log_+^2(\ell_p / L_p)\}`,
with :math:`L_p` the half width of the box: the upper half of a lognormal law.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.parts import Part

__all__ = ["Restraint"]

# How many times the variance of the responses the prior variance of the functions may be.
_RATIO = 4.0
# Rows of which every two are compared.
_ROWS = 200


class Restraint:
    """Log density of that prior in free coordinates, up to a constant: 0 where sines show the process.

    Components whose covariance has a word are restrained, in what is learned of them. The variance is that of real
    responses; the functions of labels and counts have none to be held against.

    Parameters
    ----------
    space : Space
        Of weights of sines.
    """

    def __init__(self, space: Any):
        self.factory, self.rows, self.coordinates = space.factory, space.rows, space.coordinates
        self.parts: list[Part] = [p for p in space.kernel.parts if p.component.is_word]
        self.real = self.factory.likelihood.responses == "real"
        some = np.sort(np.random.default_rng(0).permutation(self.rows.n_rows)[:_ROWS])
        self.x, self.t = self.rows.inputs[some], self.rows.times[some]

    @classmethod
    def of(cls, space: Any) -> Restraint | None:
        """That of a space; None where its functions are no sines."""
        factory: VaryingDescription = space.factory
        return cls(space) if factory.approximation == "hsgp" else None

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its derivative in z."""
        values = self.coordinates.unpack(z)
        value, gradient = 0.0, np.zeros(len(z))
        total, slope = 0.0, np.zeros(len(z))
        for part in self.parts:
            name = part.name("lengthscale")
            learned = name in values
            if not learned and part.component.lengthscale == "learned":
                continue  # a subclass makes it of something else
            lengthscale = np.broadcast_to(part.lengthscale_numbers(values), len(part.columns))
            if learned:
                beyond = np.maximum(np.log(lengthscale / part.basis.half_width), 0.0)
                value -= 0.5 * float(beyond @ beyond)
                gradient[self.coordinates.position(name)] -= beyond
            if self.real and part.name("amplitude") in values:
                spread, by_lengthscale = self._spread(part, lengthscale)
                square = np.square(values[part.name("amplitude")])
                own = square * spread
                total += float(own.sum())
                at = self.coordinates.position(part.name("amplitude"))
                slope[at] += 2.0 * own if np.ndim(square) else 2.0 * own.sum()
                if learned:
                    slope[self.coordinates.position(name)] += np.sum(square * by_lengthscale, axis=1)
        assert self.rows.scale is not None
        limit = _RATIO * self.rows.scale.y_scale**2
        if total > limit:
            n, excess = self.rows.total_weight, float(np.log(total / limit))
            value -= 0.5 * n * excess**2
            gradient -= n * excess / total * slope
        return value, gradient

    def _spread(self, part: Part, lengthscale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V of each feature (F,) at amplitude 1, and its derivative in the logarithm of each lengthscale (P, F)."""
        x, t = self.x[:, part.features], self.t[:, part.columns] / lengthscale
        squares = np.square(t[:, None, :] - t[None, :, :])
        k, half_slope = _correlation(part.component.kernel, squares.sum(axis=2))
        n = len(x)
        spread = np.mean(x**2, axis=0) - np.sum(x * (k @ x), axis=0) / n**2
        by_column = [np.sum(x * ((half_slope * s) @ x), axis=0) / n**2 for s in np.moveaxis(squares, 2, 0)]
        return np.maximum(spread, 0.0), -np.array(by_column)


def _correlation(word: str, square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A correlation of squared distances in lengthscales, and minus twice its derivative in these."""
    if word == "squared_exponential":
        k = np.exp(-0.5 * square)
        return k, k
    r = np.sqrt({"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[word] * square)
    decay = np.exp(-r)
    if word == "matern12":
        return decay, decay / np.maximum(r, 1e-12)
    if word == "matern32":
        return (1.0 + r) * decay, 3.0 * decay
    return (1.0 + r + r**2 / 3.0) * decay, 5.0 / 3.0 * (1.0 + r) * decay

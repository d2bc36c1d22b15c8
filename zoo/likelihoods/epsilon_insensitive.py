r"""Epsilon-insensitive pseudo-likelihood of Li, Zhu & Chen (2014), section 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoo.distributions.epsilon_insensitive import (
    EpsilonInsensitivePseudoLikelihood,
    NormalisedEpsilonInsensitive,
    epsilon_insensitive_quantile,
)
from zoo.inference.augmentation import Augmentation, sums_of_losses
from zoo.inference.compiled import njit
from zoo.inference.gibbs.draws import inverse_gaussians
from zoo.inference.gibbs.parameter_laws import at, log_law, sums_by_group
from zoo.inference.gibbs.slice_move import slice_move
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.weighted import observed
from zoo.support.checks import not_negative

__all__ = ["EpsilonInsensitive"]

# Half width of the tube in units of the response.
_TUBE = 0.001


class TubeParameters(NamedTuple):
    """``C`` (1,) or (T,), and ``epsilon`` (1,)."""

    C: np.ndarray
    epsilon: np.ndarray


class TubeLaws(NamedTuple):
    """Prior of ``C``, (3,)."""

    C: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def _augment(rng, f, y, weight, task, parameters, w, v):
    # li2014 eq (15): 1 / lambda and 1 / omega are inverse Gaussian with means 1 / (C |y - f -+ epsilon|).
    epsilon = parameters.epsilon[0]
    for n in range(len(f)):
        C = at(parameters.C, task[n]) * weight[n]
        w[n] = 1.0 / (C * abs(y[n] - f[n] - epsilon))
        v[n] = 1.0 / (C * abs(y[n] - f[n] + epsilon))
    inverse_gaussians(rng, w, w)
    inverse_gaussians(rng, v, v)
    for n in range(len(f)):
        square = (at(parameters.C, task[n]) * weight[n]) ** 2
        above, below = w[n], v[n]
        w[n] = square * (above + below)
        v[n] = square * ((y[n] - epsilon) * above + (y[n] + epsilon) * below)


@njit(cache=True, nogil=True)
def _log_posterior_of_log_C(s, loss, rows, epsilon, law):
    # Of log C under the normalised density C / (1 + 2 C epsilon) exp(-2 C loss_n), to the power of the weight of each
    # row, and the prior of C: `loss` and `rows` are sums over rows by their weights.
    C = np.exp(s)
    return rows * (s - np.log1p(2.0 * C * epsilon)) - 2.0 * C * loss + log_law(law, s)


@njit(cache=True, nogil=True)
def _update_C(rng, f, y, weight, task, parameters, laws):
    """Slice-sampling update (Neal 2003) of each learned C given f."""
    C, epsilon = parameters.C, parameters.epsilon[0]
    rows = sums_by_group(task, weight, len(C))
    loss = sums_by_group(task, weight * np.maximum(0.0, np.abs(y - f) - epsilon), len(C))
    for g in range(len(C)):
        C[g] = np.exp(_slice_of_log_C(rng, np.log(C[g]), loss[g], rows[g], epsilon, laws.C))


@njit(cache=True, nogil=True)
def _log_posterior_of_a_move(move, start, loss, rows, epsilon, law):
    return _log_posterior_of_log_C(start + move, loss, rows, epsilon, law)


@njit(cache=True, nogil=True)
def _slice_of_log_C(rng, start, loss, rows, epsilon, law):
    width = 2.0 / np.sqrt(max(rows, 1.0))
    return start + slice_move(rng, _log_posterior_of_a_move, (start, loss, rows, epsilon, law), width, True)


@dataclass(frozen=True, kw_only=True, repr=False)
class EpsilonInsensitive(Likelihood):
    r"""Real responses with :math:`\exp(-2C \max(0, |y - f| - \epsilon))`.

    Up to the constant :math:`2\epsilon + 1/C` this is a proper density in y, so simulation and predictive
    intervals follow it: the width of the intervals is set by ``C``.

    Parameters
    ----------
    C : float, "learned" or Law
        Weight of the loss, above 0. By default it is learned, under the normalised density, which alone can tell one C
        from another: it is to this loss what the noise is to normal responses. A number is per unit of y: choose it by
        cross-validation, as the paper does (:func:`zoo.select`).
    epsilon : float, optional
        Half width of the tube without loss, 0 or more, in units of y. The default is a thousandth of the standard
        deviation of y, or of its root mean square where the data have no constant feature.
    """

    word: ClassVar[str] = "epsilon_insensitive"
    augmented: ClassVar[bool] = True
    smooth: ClassVar[bool] = False
    parameter_names: ClassVar[tuple[str, ...]] = ("C",)
    in_units_of_y: ClassVar[dict[str, int]] = {"C": -1}

    C: float | str | Law = "learned"
    epsilon: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            not_negative(self.epsilon, "epsilon")
            object.__setattr__(self, "epsilon", float(self.epsilon))

    @property
    def tube(self) -> float:
        """The half width of the tube, of responses of unit 1 where it is not given."""
        return _TUBE if self.epsilon is None else self.epsilon

    def of_unit(self, unit: float) -> EpsilonInsensitive:
        """The likelihood with a tube for responses of this unit."""
        return self if self.epsilon is not None or unit == 1.0 else replace(self, epsilon=_TUBE * unit)

    def divided(self, unit: float) -> EpsilonInsensitive:
        """The likelihood of ``y / unit``, its tube too."""
        changed: Any = super().divided(unit)
        return changed if self.epsilon is None else replace(changed, epsilon=self.epsilon / unit)

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The (pseudo-)likelihood as an observed variable, so that pointwise log densities exist."""
        if self.learned:
            return observed(
                NormalisedEpsilonInsensitive, y, weight, f=f, C=parameters["C"], epsilon=self.tube
            )
        return observed(EpsilonInsensitivePseudoLikelihood, y, weight, f=f, C=self.C, epsilon=self.tube)

    def minus_loss(self, f: np.ndarray, y: np.ndarray, C: Any = None) -> np.ndarray:
        """``-2C max(0, |y - f| - epsilon)``, without the constant."""
        return np.asarray(-2.0 * self.value_of("C", C) * np.maximum(0.0, np.abs(y - f) - self.tube))

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws of the normalised density."""
        return f + epsilon_insensitive_quantile(
            rng.uniform(-1.0, 1.0, f.shape), self.value_of("C", None), self.tube, np
        )

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """Two inverse-Gaussian weights per row, li2014 eqs (14) and (15)."""
        parameters = partial(TubeParameters, epsilon=np.array([self.tube]))
        functions = _augment, _update_C, partial(sums_of_losses, self.minus_loss)
        return self._augmented(laws, n_tasks, parameters, TubeLaws, *functions)

r"""Hinge pseudo-likelihood of Li, Zhu & Chen (2014), eq (3): :math:`\exp(-2C \max(0, m - y f))`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from zoo.distributions import hinge as distributions
from zoo.inference.augmentation import Augmentation, sums_of_losses
from zoo.inference.compiled import njit
from zoo.inference.gibbs.draws import inverse_gaussians
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.logistic import logistic
from zoo.likelihoods.weighted import observed
from zoo.support.checks import positive

__all__ = ["Hinge", "NormalisedHinge"]


class HingeParameters(NamedTuple):
    """``C`` and ``margin``, (1,)."""

    C: np.ndarray
    margin: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def _augment(rng, f, y, weight, task, parameters, w, v):
    # 1 / lambda_n ~ inverse Gaussian(mean 1 / (C |m - y f|), shape 1): li2014 eq (10).
    # Expanding -(C (m - y f) + lambda)^2 / (2 lambda) in f gives the weight and the linear term.
    margin = parameters.margin[0]
    for n in range(len(f)):
        w[n] = 1.0 / (parameters.C[0] * weight[n] * abs(margin - y[n] * f[n]))
    inverse_gaussians(rng, w, w)
    for n in range(len(f)):
        C = parameters.C[0] * weight[n]
        v[n] = C * y[n] * (C * margin * w[n] + 1.0)
        w[n] *= C * C


def _hinges(y: np.ndarray, parameters: HingeParameters) -> np.ndarray:
    return np.array([np.full_like(y, parameters.margin[0]), y])


@dataclass(frozen=True, kw_only=True, repr=False)
class _HingeLoss(Likelihood):
    """What the hinge and its normalised form share."""

    responses: ClassVar[Literal["real", "labels", "counts"]] = "labels"
    smooth: ClassVar[bool] = False

    margin: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.margin, "margin")
        object.__setattr__(self, "margin", float(self.margin))

    def minus_loss(self, f: np.ndarray, y: np.ndarray, C: Any = None) -> np.ndarray:
        """``-2C max(0, m - y f)``."""
        return np.asarray(-2.0 * self.value_of("C", C) * np.maximum(0.0, self.margin - y * f))

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Normalised probability of +1."""
        # max(0, m + f) - max(0, m - f) = f + f, but for one of them beyond the margin.
        return logistic(
            2.0 * self.value_of("C", parameters.get("C")) * (f + np.clip(f, -self.margin, self.margin))
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Hinge(_HingeLoss):
    r"""Labels -1/+1 under the hinge loss.

    Its density is a pseudo-likelihood: it does not sum to one over the labels. Where a proper density is
    needed (simulation, class probability) the normalised form
    :math:`p(y \mid f) = e^{-2C \max(0, m - yf)} / \sum_{y'} e^{-2C \max(0, m - y'f)}` is used.

    Between the margins, where :math:`|f| < m`, that is :math:`1 / (1 + e^{-4C y f})`. With the default C = 1/4 it is
    the likelihood of logistic regression there, so that a row counts about as much against the prior as in a logistic
    model. With C = 1 the slope is four times as steep: where tasks have few rows, decisions and probabilities are worse
    (docs/max-margin.md, "The weight C of the hinge").

    Parameters
    ----------
    C : float
        Weight of the loss, above 0. :func:`zoo.select` chooses it by cross-validation, as the paper does.
    margin : float
        ``m`` (the paper's t or, in its text, the cost of a wrong prediction), above 0.
    """

    word: ClassVar[str] = "hinge"
    augmented: ClassVar[bool] = True
    parameter_names: ClassVar[tuple[str, ...]] = ("C",)

    C: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learned:
            raise ValueError(
                "C of Hinge cannot be learned: the hinge is no density of labels, so no C is likelier than another. "
                'Use NormalisedHinge(C="learned").'
            )

    @property
    def proper(self) -> bool:
        """No, since over the two labels the pseudo-likelihood sums to a function of f."""
        return False

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The pseudo-likelihood as an observed variable, so that pointwise log densities exist."""
        law = distributions.HingePseudoLikelihood
        return observed(law, y, weight, f=f, C=self.C, margin=self.margin)

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Labels from the normalised form."""
        return np.where(rng.random(f.shape) < self.probability(f), 1.0, -1.0)

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """Inverse-Gaussian weights, li2014 eqs (7) and (10)."""
        parameters = HingeParameters(np.array([self.C]), np.array([self.margin]))
        density = partial(sums_of_losses, self.minus_loss)
        return Augmentation(_augment, parameters, hinges=_hinges, log_density=density)


@dataclass(frozen=True, kw_only=True, repr=False)
class NormalisedHinge(_HingeLoss):
    r"""Labels -1/+1 with :math:`p(y \mid f) = e^{-2C \max(0, m - yf)} / \sum_{y'} e^{-2C \max(0, m - y'f)}`.

    The proper density that belongs to the hinge loss: it alone can tell one C from another.

    Parameters
    ----------
    C : float, "learned" or Law
        Weight of the loss, above 0.
    margin : float
        ``m``, above 0.
    """

    word: ClassVar[str] = "normalised_hinge"
    parameter_names: ClassVar[tuple[str, ...]] = ("C",)

    C: float | str | Law = "learned"

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        law, C = distributions.NormalisedHinge, self.value_of("C", parameters.get("C"))
        return observed(law, y, weight, f=f, C=C, margin=self.margin)

r"""Whether a Gibbs step is expected to draw more than NUTS in the same time.

NUTS needs the more gradients for a draw the worse the block is conditioned: about the root of the
condition number :math:`\kappa` of its precision, scaled to unit variances as NUTS scales it. A joint
draw does not see that. What the Gibbs step pays is the augmentation: where it adds more information
than the responses hold, chains crawl. A scale and coefficients that know each other alone crawl
together as well.

Let s be the share of the information of the rows that the responses have themselves, and r the
share of the coefficients of learned scale that the data know. Then the gain is about
:math:`r s \sqrt{\kappa}`, up to a factor that ``benchmarks/augmented_step.py`` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

__all__ = [
    "LARGEST",
    "LEAST_GAIN",
    "Outlook",
    "information_share",
    "informed_share",
    "scaled_condition",
]

LEAST_GAIN = 10.0
"""Where the gain was above, the step won in the benchmark, and below it lost."""

LARGEST = 2000
"""Entries of a block whose condition number is looked at."""


class Outlook(NamedTuple):
    """What is expected of a step.

    Parameters
    ----------
    condition : float
        Of the block's precision, scaled to unit variances; NaN where it is too large to look at.
    share : float
        Information of the responses over that of responses and augmentation variables.
    informed : float
        Of coefficients whose scale is learned, the share that the data know; 1 where no scale is
        learned.
    moves : bool
        Whether observed rows depend on the block by way of other variables: the form without
        centring.
    """

    condition: float
    share: float
    informed: float
    moves: bool

    @property
    def gain(self) -> float:
        """``share`` and ``informed`` times the root of ``condition``."""
        return float(self.share * self.informed * np.sqrt(self.condition))

    def words(self) -> str:
        """Why NUTS is expected to draw better; empty where nothing is known against the step."""
        if np.isnan(self.condition):
            return f"the block has more than {LARGEST:,} entries, too many to look at how NUTS would do"
        numbers = (
            f"The condition number of the block is {self.condition:.3g}, and NUTS pays its root. The responses hold "
            f"{100.0 * self.share:.3g} % of the information that they have with the augmentation, and know "
            f"{100.0 * self.informed:.3g} % of the coefficients of learned scale: Gibbs pays what is missing."
        )
        if self.moves:
            return (
                "scales enter observed variables beside the block (the form without centring), and mix slowly given "
                f"it. {numbers}"
            )
        if self.gain < LEAST_GAIN:
            return f"NUTS is expected to draw more in the same time. {numbers}"
        return ""


def scaled_condition(precision: np.ndarray) -> float:
    """Condition number of a precision matrix (K, K), scaled to unit variances."""
    scale = np.sqrt(np.diag(np.linalg.inv(precision)))
    values = np.linalg.eigvalsh(precision * np.outer(scale, scale))
    return float(values[-1] / max(values[0], np.finfo(float).tiny))


def informed_share(precision: np.ndarray, prior: np.ndarray, learned: np.ndarray) -> float:
    """Of the coefficients whose scale is ``learned`` (K,) bool, the share that the prior (K, K)
    does not determine.
    """
    if not learned.any():
        return 1.0
    known = np.diag(np.linalg.solve(precision, prior))
    return float(np.clip(1.0 - known[learned].mean(), 0.0, 1.0))


def information_share(kind: str, e: np.ndarray, parameters: Sequence[Any]) -> tuple[float, float]:
    """Information of the responses, and that with augmentation variables: sums over the rows.

    Of Laplace, hinge and tube the second is infinite where a row is met exactly; a third is what
    chains show.
    """
    n = float(len(e))
    if kind == "polya_gamma":
        h = np.asarray(parameters[0], dtype=np.float64)
        half = 0.5 * np.abs(e)
        weight = np.where(half > 1e-6, 0.25 * np.tanh(half) / np.maximum(half, 1e-6), 0.25)
        return float(np.sum(h * 0.25 / np.cosh(np.minimum(half, 300.0)) ** 2)), float(np.sum(h * weight))
    if kind == "student_t":
        nu = np.asarray(parameters[1], dtype=np.float64)
        return float(np.sum((nu + 1.0) / (nu + 3.0))), n
    if kind == "probit":
        logs = -(e**2) - np.log(2.0 * np.pi) - log_ndtr(e) - log_ndtr(-e)
        return float(np.sum(np.exp(logs))), n
    return (n, n) if kind == "known" else (n / 3.0, n)

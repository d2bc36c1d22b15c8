r"""Whether a Gibbs step is expected to draw more than NUTS in the same time.

NUTS needs the more gradients for a draw the worse the block is conditioned: about the root of the condition number
:math:`\kappa` of its precision, scaled to unit variances as NUTS scales it, and the fourth root of its size K (Beskos
et al. 2013). Each gradient reads all N rows. A sweep of the step reads them a few times whatever :math:`\kappa` is, but
pays for what PyMC does around it; and for gradients by PyMC's NUTS where other variables enter the rows as well.

A sweep is worth less than a draw of NUTS where chains crawl. Let s be the share of proposals under the likelihood that
are accepted, or the share of the information of the rows that the responses have themselves, if that is larger; and r
the share of the coefficients of learned scale that the data know, of scales that are not moved with their coefficients.
Then

.. math:: \text{gain} = \tfrac12 \, s \, r \,
          \frac{3.5 \sqrt\kappa K^{1/4} (0.003 + 0.000035\,N)}{1.2 + 0.00013\,N + m (1 + 0.0003\,N)} ,

with m = 1 where other variables enter the rows, and 0 else: milliseconds over milliseconds. The constants come from the
nine models of ``benchmarks/augmented_step.py`` on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg, eigsh
from scipy.special import log_ndtr

__all__ = [
    "LARGEST",
    "LEAST_GAIN",
    "Outlook",
    "estimated_condition",
    "estimated_informed_share",
    "information_share",
    "informed_share",
    "scaled_condition",
]

LEAST_GAIN = 1.0
"""Gain above which the step is taken."""

LARGEST = 2000
"""Entries of a block that is looked at densely; of a larger one, draws and iterations tell."""

# Rounds of inverse iteration for the smallest eigenvalue, and what is left of each system.
_ROUNDS, _RESIDUAL = 6, 1e-3


class Outlook(NamedTuple):
    """What is expected of a step.

    Parameters
    ----------
    condition : float
        Of the block's precision, scaled to unit variances.
    share : float
        Information of the responses over that of responses and augmentation variables.
    informed : float
        Of coefficients whose scale is learned and not moved with them, the share that the data know; 1 where there
        are none.
    moves : bool
        Whether observed rows depend on the block by way of other variables: the form without
        centring.
    accepted : float
        Share of proposals under the likelihood that are accepted; 0 where there are none.
    size, rows : int
        Entries of the block, and observed rows.
    shared : bool
        Whether other variables enter the observed rows as well.
    """

    condition: float
    share: float
    informed: float
    moves: bool
    accepted: float
    size: int
    rows: int
    shared: bool

    @property
    def gain(self) -> float:
        """Expected effective draws in a second, over those of NUTS, by the formula above."""
        gradients = 3.5 * np.sqrt(self.condition) * self.size**0.25
        by_nuts = gradients * (0.003 + 3.5e-5 * self.rows)
        by_step = 1.2 + 1.3e-4 * self.rows + self.shared * (1.0 + 3e-4 * self.rows)
        return float(0.5 * max(self.share, self.accepted) * self.informed * by_nuts / by_step)

    def words(self) -> str:
        """Why NUTS is expected to draw better; empty where nothing is known against the step."""
        numbers = (
            f"The condition number of the block is {self.condition:.3g}, and NUTS pays its root for each of "
            f"{self.rows:,} rows. The responses hold {100.0 * self.share:.3g} % of the information that they have with "
            f"the augmentation, {100.0 * self.accepted:.3g} % of proposals without it are accepted, and the data know "
            f"{100.0 * self.informed:.3g} % of the coefficients whose learned scale is not moved with them."
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


def estimated_condition(precision: sparse.csr_array, draws: np.ndarray) -> float:
    """The same of a sparse matrix, from draws (S, K) of the normal law with mean zero that it gives.

    The draws tell the variances; the smallest eigenvalue comes by inverse iteration, whose systems conjugate gradients
    solve, and is not below the true one.
    """
    scale = sparse.diags_array(np.sqrt(np.mean(draws**2, axis=0)))
    scaled = scale @ precision @ scale
    largest = float(eigsh(scaled, k=1, which="LA", tol=0.05, return_eigenvectors=False)[0])
    x = np.random.default_rng(0).normal(size=len(precision.indptr) - 1)
    for _ in range(_ROUNDS):
        x, _ = cg(scaled, x / np.linalg.norm(x), rtol=_RESIDUAL)
    return largest / float(x @ (scaled @ x) / (x @ x))


def estimated_informed_share(prior: sparse.csr_array, draws: np.ndarray, learned: np.ndarray) -> float:
    """The same as :func:`informed_share` from draws (S, K): the prior determines the mean of ``b * (prior @ b)``."""
    if not learned.any():
        return 1.0
    known = np.mean(draws * (prior @ draws.T).T, axis=0)
    return float(np.clip(1.0 - known[learned].mean(), 0.0, 1.0))


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

r"""Any covariance function with ARD parameters: at features scaled by their square roots.

.. math:: K_\kappa(x, x') = k(\sqrt{\kappa} \odot x, \sqrt{\kappa} \odot x')

With lengthscale 1 this is srijith2014 eq (4) of the squared-exponential kernel, and eq (5) of the linear one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

__all__ = ["ScaledCovariance", "batched_covariance", "scaled_inputs"]

# Added to kappa, so that the square root has a derivative where a feature is irrelevant.
_TINY = 1e-12
# Relative step of the finite differences of the slopes, which the curvature alone needs.
_STEP = 1e-6
_X, _Y, _G = (pt.matrix(name, dtype="float64") for name in ("X", "Y", "G"))
_KAPPA = pt.vector("kappa", dtype="float64")


def scaled_inputs(X: Any, kappa: Any) -> Any:
    """Features (..., n, D) times the square roots of kappa (..., D)."""
    return X * pt.sqrt(kappa + _TINY)[..., None, :]


def batched_covariance(covariance: Any, Z: Any) -> Any:
    """Matrices (..., n, n) of a ``pm.gp.cov.Covariance`` at inputs (..., n, D)."""
    single = pt.matrix("Z", dtype="float64", shape=Z.type.shape[-2:])
    return vectorize_graph(covariance(single), {single: Z})


class ScaledCovariance:
    """Numbers of a covariance with ARD parameters, its slopes by differences, its gradient by PyTensor.

    Parameters
    ----------
    covariance : pm.gp.cov.Covariance
        Its input dimension is the number of features; its parameters are numbers.
    """

    linear = False

    def __init__(self, covariance: Any):
        self.covariance = covariance

    # Each is compiled when it is first asked for: a model that NUTS samples asks for none.
    @cached_property
    def _matrix(self) -> Any:
        return pytensor.function([_X, _KAPPA], self.covariance(scaled_inputs(_X, _KAPPA)))

    @cached_property
    def _cross(self) -> Any:
        cross = self.covariance(scaled_inputs(_X, _KAPPA), scaled_inputs(_Y, _KAPPA))
        return pytensor.function([_X, _Y, _KAPPA], cross)

    @cached_property
    def _diagonal(self) -> Any:
        diagonal = self.covariance(scaled_inputs(_X, _KAPPA), diag=True)
        return pytensor.function([_X, _KAPPA], diagonal, on_unused_input="ignore")

    @cached_property
    def _pull(self) -> Any:
        total = (_G * self.covariance(scaled_inputs(_X, _KAPPA))).sum()
        return pytensor.function([_X, _KAPPA, _G], pt.grad(total, _KAPPA))

    def matrix(self, X: np.ndarray, Y: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """Between inputs (n, D) and (m, D), (n, m)."""
        return np.asarray(self._matrix(X, kappa) if Y is X else self._cross(X, Y, kappa))

    def diagonal(self, X: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """At each input, (n,)."""
        return np.broadcast_to(self._diagonal(X, kappa), len(X))

    def slopes(self, X: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """Derivatives of the matrix at X in kappa (D,), (D, n, n); forward differences, for curvatures."""
        base = self._matrix(X, kappa)
        result = np.empty((len(kappa), *base.shape))
        for i, value in enumerate(kappa):
            step = _STEP * max(value, 1.0)
            moved = kappa.copy()
            moved[i] += step
            result[i] = (self._matrix(X, moved) - base) / step
        return result

    def pull(self, X: np.ndarray, kappa: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Derivative (D,) in kappa of the sum of G times the matrix at X."""
        return np.asarray(self._pull(X, kappa, G))

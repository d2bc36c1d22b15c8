"""Log densities of responses with their derivatives in f, for modes and Laplace's evidence, by PyTensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.replace import clone_replace

from zoo.inference.responses import Density
from zoo.likelihoods.base import Likelihood
from zoo.support.quick import QUICK

__all__ = ["DifferentiatedResponses", "log_density"]


def log_density(likelihood: Likelihood, f: Any, y: Any, parameters: dict[str, Any]) -> Any:
    """Log density (n,) of coded responses y (n,) given f (n,) by the term of a likelihood, as a PyTensor graph.

    It adds nothing to a model on the context stack.
    """
    y = np.asarray(y, dtype=np.float64)
    with pm.Model(coords={"obs": np.arange(len(y))}, model=None):
        term = likelihood.term(f, y, **parameters)
    return pm.logp(term, pt.constant(y))


class DifferentiatedResponses:
    """Responses with the density of a likelihood.

    Parameters
    ----------
    likelihood : Likelihood
        Its ``term`` gives the log density, its ``information`` the expected information where that serves. Its learned
        parameters are handed over in the order of ``learned``: as logarithms, or as logits where they lie between 0 and
        1 (``unit_parameters``).
    y : (n,) array
        Coded responses.
    weight : (n,) array, optional
        Weights of the rows, above 0, which multiply their log densities.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        y: np.ndarray,
        weight: np.ndarray | None = None,
    ):
        self.y, self.weight = y, weight
        self.learned = likelihood.learned
        self._likelihood = likelihood
        self._density, self._slopes = self._compile()

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def constant_information(self) -> bool:
        """Whether the information of every row is the same number, whatever f."""
        f = np.linspace(-1.0, 1.0, len(self.y))
        W = self._density(f, *np.zeros(len(self.learned)))[2]
        return bool(np.ptp(W) == 0.0 and not np.any(self._density(f, *np.zeros(len(self.learned)))[3]))

    def density(self, f: np.ndarray, parameters: np.ndarray) -> Density:
        """See :class:`zoo.inference.responses.Responses`."""
        value, *rows = self._density(f, *parameters)
        return Density(float(value), *rows)

    def parameter_slopes(
        self, f: np.ndarray, parameters: np.ndarray
    ) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """See :class:`zoo.inference.responses.Responses`."""
        if not self.learned:
            return []
        flat = self._slopes(f, *parameters)
        return [(float(flat[i]), flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]

    def _times_weight(self, rows: Any) -> Any:
        return rows if self.weight is None else self.weight * rows

    def _compile(self) -> tuple[Any, Any]:
        f = pt.dvector("f")
        free = [pt.dscalar(f"free_{name}") for name in self.learned]
        unit = self._likelihood.unit_parameters
        values = {
            name: pt.sigmoid(z) if name in unit else pt.exp(z)
            for name, z in zip(self.learned, free, strict=True)
        }
        rows = self._times_weight(log_density(self._likelihood, f, self.y, values))
        total = pt.sum(rows)
        slope = _gradient(total, f)
        second = _gradient(pt.sum(slope), f)
        information = self._likelihood.information(f, **values)
        information = (-second if information is None else self._times_weight(information)) + pt.zeros_like(f)
        outputs = [
            total, slope, information, _gradient(pt.sum(information), f), pt.maximum(-second, 0.0) + pt.zeros_like(f),
        ]  # fmt: skip
        inner = [
            part
            for z in free
            for part in (_gradient(total, z), _gradient_of_rows(slope, f, z), _gradient_of_rows(information, f,
            z))
        ]  # fmt: skip
        inputs = [f, *free]
        density = pytensor.function(inputs, outputs, mode=QUICK, on_unused_input="ignore")
        return density, pytensor.function(
            inputs, inner, mode=QUICK, on_unused_input="ignore"
        ) if free else None


def _gradient(cost: Any, wrt: Any) -> Any:
    return grad(cost, wrt, disconnected_inputs="ignore", return_disconnected="zero")


def _gradient_of_rows(rows: Any, f: Any, scalar: Any) -> Any:
    """Derivatives (n,) of the entries of a vector, entry by entry functions of f, in a scalar."""
    weights = pt.ones_like(f).type("weights")
    # The derivative of the weighted sum is linear in the weights: its gradient in them is what is asked for.
    pulled = grad(pt.sum(weights * rows), scalar, disconnected_inputs="ignore", return_disconnected="zero")
    back = grad(pulled, weights, disconnected_inputs="ignore", return_disconnected="zero")
    return clone_replace(back, {weights: pt.ones_like(f)}) + pt.zeros_like(f)

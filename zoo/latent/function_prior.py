"""Functions with a Gaussian prior whose hyper-parameters are learned, seen through rows: what a sampler asks of them,
and what they share whatever holds them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from zoo.latent.coordinates import Coordinates
from zoo.latent.function_conditional import FunctionConditional, covariance_root

__all__ = ["FunctionPrior", "PointFunctions", "RowFunctions"]


class FunctionPrior(Protocol):
    """What a sampler asks of functions with a Gaussian prior given hyper-parameters z (k,), seen through rows."""

    y: np.ndarray
    """Responses (N,), less what the model adds to f."""

    def numbers(self, z: np.ndarray) -> Any:
        """What the prior is at z: covariance, or loadings of weights."""
        ...

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> Any:
        """What rows of weights ``omega`` and linear terms ``nu`` (N,) say."""
        ...

    def condition(self, numbers: Any, sums: Any) -> Any:
        """The law of the functions given both, with ``log_evidence``."""
        ...

    def gaussian(self, numbers: Any, variance: float) -> Any:
        """The law given the responses with Gaussian noise."""
        ...

    def log_marginal(self, conditional: Any, variance: float) -> float:
        """Log density of the responses with Gaussian noise."""
        ...

    def draw(self, conditional: Any, rng: np.random.Generator) -> np.ndarray:
        """One draw of the values that are recorded."""
        ...

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows (N,)."""
        ...

    def mean_functions(self, conditional: Any) -> np.ndarray:
        """The mean of the law at the rows (N,)."""
        ...

    def log_prior(self, z: np.ndarray) -> float:
        """Log prior density of z."""
        ...

    def record(self, z: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior variables by name."""
        ...

    def located(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates z and values of what :meth:`record` gave."""
        ...

    def with_response(self, y: np.ndarray) -> FunctionPrior:
        """The same rows with other responses."""
        ...

    def noise_variance(self, z: np.ndarray) -> float:
        """Of the Gaussian likelihood."""
        ...


class RowFunctions:
    """What the forms share: Gaussian noise, and draws.

    A form has ``coordinates`` and the coded responses ``y``; and says ``seen_rows``, ``sums``, ``functions``,
    ``draws`` and ``values_at``.
    """

    values_name: ClassVar[str] = "function_values"
    coordinates: Coordinates
    y: np.ndarray
    of_response: ClassVar[tuple[str, ...]] = ("unit_sums",)
    """What is kept and depends on the responses."""

    @property
    def seen_rows(self) -> Any:
        """The rows, as the model sees them."""
        raise NotImplementedError

    @property
    def row_weight(self) -> np.ndarray | None:
        """Weights of the rows."""
        weight: np.ndarray | None = self.seen_rows.weight
        return weight

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> Any:
        """What rows of weights ``omega`` and linear terms ``nu`` (N,) say."""
        raise NotImplementedError

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows."""
        raise NotImplementedError

    def draws(self, conditional: Any, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws of the values that are recorded, (size, ...)."""
        raise NotImplementedError

    def values_at(self, z: np.ndarray) -> dict[str, Any]:
        """All parameters by name, learned and fixed."""
        raise NotImplementedError

    def with_response(self, y: np.ndarray) -> Any:
        """The same rows with other coded responses; what is compiled is shared."""
        other = object.__new__(type(self))  # a copy as pickle makes it would compile anew
        vars(other).update(vars(self))
        other.y = y
        for name in self.of_response:
            vars(other).pop(name, None)
        return other

    @property
    def size(self) -> float:
        """Sum of the weights of the rows, so how many they are worth."""
        return float(len(self.y) if self.row_weight is None else self.row_weight.sum())

    @cached_property
    def unit_sums(self) -> Any:
        """The rows with noise of variance 1."""
        h = np.ones(len(self.y)) if self.row_weight is None else self.row_weight
        return self.sums(h, h * self.y)

    def log_marginal(self, conditional: Any, variance: float) -> float:
        r"""Log density of Gaussian responses.

        By the misfit and the norm of the mean, whose sum is :math:`y' \Sigma^{-1} y`: no difference of large numbers if
        the noise is small. With weights h the density of the rows is :math:`\prod_n N(y_n; f_n, \sigma^2)^{h_n}`, whose
        normaliser counts :math:`\sum_n h_n` times.
        """
        square = self.misfit(conditional) / variance + conditional.norm()
        volume = 0.5 * self.size * np.log(2.0 * np.pi * variance) + conditional.half_log_det
        return float(-0.5 * square - volume)

    def misfit(self, conditional: Any) -> float:
        """Sum of squared residuals at the mean, by their weights."""
        squares = (self.y - self.mean_functions(conditional)) ** 2
        return float(np.sum(squares if self.row_weight is None else self.row_weight * squares))

    def mean_functions(self, conditional: Any) -> np.ndarray:
        """The mean at the rows."""
        return self.functions(conditional.mean)

    def draw(self, conditional: Any, rng: np.random.Generator) -> np.ndarray:
        """One draw of the values that are recorded."""
        return np.asarray(self.draws(conditional, rng, 1)[0])

    def noise_variance(self, z: np.ndarray) -> float:
        """Of the Gaussian likelihood."""
        return float(self.values_at(z)["noise"]) ** 2

    def log_prior(self, z: np.ndarray) -> float:
        """Log prior density of z."""
        return self.coordinates.log_prior(z)


class PointFunctions(RowFunctions):
    """Function values at the n distinct rows; numbers are their covariance matrix (n, n).

    The rows say ``points``, which are distinct, and ``point`` (N,), which of them each row is.
    """

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the rows of each point."""
        point, n = self.seen_rows.point, len(self.seen_rows.points)
        return np.bincount(point, omega, n), np.bincount(point, nu, n)

    def condition(self, numbers: np.ndarray, sums: tuple[np.ndarray, np.ndarray]) -> FunctionConditional:
        """The law of the function values."""
        return FunctionConditional.of(numbers, *sums)

    def gaussian(self, numbers: np.ndarray, variance: float) -> FunctionConditional:
        """The law given the responses."""
        omega, nu = self.unit_sums
        return FunctionConditional.of(numbers, omega / variance, nu / variance)

    def draws(self, conditional: FunctionConditional, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws (size, n)."""
        return conditional.draw(rng, covariance_root(conditional.K), size)

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows."""
        return np.asarray(values[self.seen_rows.point])

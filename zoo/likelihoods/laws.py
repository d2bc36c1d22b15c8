"""Priors of the parameters of a likelihood: one-dimensional laws of positive numbers, and of probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import betaln, gammaln, xlog1py, xlogy

from zoo.inference.gibbs.parameter_laws import gamma, inverse_gamma_of_square, log_normal
from zoo.support.checks import positive

__all__ = ["NOISE_OF_ONE_ROW", "Beta", "Flat", "Gamma", "InverseGammaOfSquare", "Law", "LogNormal"]


@dataclass(frozen=True)
class Law(ABC):
    """The prior of one positive number, for instance of the noise, or of one between 0 and 1."""

    proper = True
    """Whether the density has a finite integral; only EM can do without."""

    positive = True
    """Whether it is a law of positive numbers."""

    unit = False
    """Whether it is a law of numbers between 0 and 1."""

    def __post_init__(self) -> None:
        for field in fields(self):
            positive(getattr(self, field.name), field.name)
            object.__setattr__(self, field.name, float(getattr(self, field.name)))

    @abstractmethod
    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """Add a variable with this law to the PyMC model on the context stack, and return it."""

    @abstractmethod
    def log_density(self, x: Any) -> np.ndarray:
        """Log density at positive numbers ``x``, of any shape."""

    @abstractmethod
    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws of a shape."""

    @property
    def compiled(self) -> bool:
        """Whether compiled samplers know it."""
        return type(self).numbers is not Law.numbers

    def numbers(self) -> np.ndarray:
        """The law as compiled samplers read it, (3,): see :mod:`zoo.inference.gibbs.parameter_laws`."""
        raise ValueError(
            f"{type(self).__name__}() is no law that a Gibbs sampler could use. Give another prior."
        )

    @property
    @abstractmethod
    def typical(self) -> float:
        """A number in the middle of the law, where searches start."""

    def scaled(self, unit: float) -> Law:
        """The law of ``unit`` times the number; of laws that know no unit, the law itself."""
        return self

    def density_of_deterministic(self, value: Any) -> Any:
        """Log density of the variable as a graph, where :meth:`variable` makes it of another one.

        None where the variable is a random variable itself, whose density PyMC knows.
        """
        return None

    def to_spec(self) -> dict[str, Any]:
        """Name and numbers, as JSON-ready data."""
        return {"law": type(self).__name__, **{f.name: getattr(self, f.name) for f in fields(self)}}


@dataclass(frozen=True)
class LogNormal(Law):
    """The logarithm is ``N(mu, sigma^2)``, so that the median is ``exp(mu)``."""

    mu: float = 0.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.mu, int | float | np.number) or not np.isfinite(self.mu):
            raise ValueError(f"mu is {self.mu!r}. Give a number, the logarithm of the median.")
        positive(self.sigma, "sigma")
        for name in ("mu", "sigma"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`Law`."""
        return pm.LogNormal(name, self.mu, self.sigma, dims=dims or None)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`Law`."""
        z = (np.log(x) - self.mu) / self.sigma
        return np.asarray(-0.5 * z**2 - np.log(x) - np.log(self.sigma * np.sqrt(2.0 * np.pi)))

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`Law`."""
        return np.exp(rng.normal(self.mu, self.sigma, size))

    def numbers(self) -> np.ndarray:
        """See :class:`Law`."""
        return log_normal(self.mu, self.sigma)

    def scaled(self, unit: float) -> LogNormal:
        """See :class:`Law`."""
        return LogNormal(self.mu + float(np.log(unit)), self.sigma)

    @property
    def typical(self) -> float:
        """The median."""
        return float(np.exp(self.mu))


@dataclass(frozen=True)
class Gamma(Law):
    """The gamma law with mean ``shape / rate``."""

    shape: float
    rate: float

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`Law`."""
        return pm.Gamma(name, self.shape, self.rate, dims=dims or None)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`Law`."""
        constant = self.shape * np.log(self.rate) - gammaln(self.shape)
        return np.asarray(constant + (self.shape - 1.0) * np.log(x) - self.rate * np.asarray(x))

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`Law`."""
        return rng.gamma(self.shape, 1.0 / self.rate, size)

    def numbers(self) -> np.ndarray:
        """See :class:`Law`."""
        return gamma(self.shape, self.rate)

    def scaled(self, unit: float) -> Gamma:
        """See :class:`Law`."""
        return Gamma(self.shape, self.rate / unit)

    @property
    def typical(self) -> float:
        """The mean."""
        return self.shape / self.rate


@dataclass(frozen=True)
class InverseGammaOfSquare(Law):
    r"""The square has an inverse-gamma law: the conjugate prior of a noise, given as a standard deviation.

    .. math:: s^2 \sim \text{InverseGamma}(a, b), \quad
       \log p(s) = \log 2 + a \log b - \log \Gamma(a) - (2a + 1) \log s - b / s^2

    with a = ``shape`` and b = ``rate``.
    """

    shape: float
    rate: float

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`Law`; the square is an auxiliary variable, ``_<name>_variance``."""
        variance = pm.InverseGamma(f"_{name}_variance", self.shape, self.rate, dims=dims)
        return pm.Deterministic(name, variance**0.5, dims=dims)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`Law`."""
        constant = np.log(2.0) + self.shape * np.log(self.rate) - gammaln(self.shape)
        return np.asarray(constant - (2.0 * self.shape + 1.0) * np.log(x) - self.rate / np.asarray(x) ** 2)

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`Law`."""
        return np.sqrt(self.rate / rng.gamma(self.shape, size=size))

    def numbers(self) -> np.ndarray:
        """See :class:`Law`."""
        return inverse_gamma_of_square(self.shape, self.rate)

    def scaled(self, unit: float) -> InverseGammaOfSquare:
        """See :class:`Law`."""
        return InverseGammaOfSquare(self.shape, self.rate * unit**2)

    @property
    def typical(self) -> float:
        """The root of the mode of the square."""
        return float(np.sqrt(self.rate / (self.shape + 1.0)))

    def density_of_deterministic(self, value: Any) -> Any:
        """See :class:`Law`; summed over entries, up to a constant."""
        return pt.sum(-(2.0 * self.shape + 1.0) * pt.log(value) - self.rate / value**2)


NOISE_OF_ONE_ROW = InverseGammaOfSquare(0.5, 0.005)
"""Prior of a noise that counts like one row with an error of 0.1, for responses of unit variance. Panels of logarithms
may have a noise of a hundredth of their spread, and this prior does not say that theirs is more."""


@dataclass(frozen=True)
class Beta(Law):
    """The beta law of a number between 0 and 1, with mean ``a / (a + b)``: as if ``a + b`` draws had been seen."""

    unit = True

    a: float = 1.0
    b: float = 1.0

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`Law`."""
        return pm.Beta(name, self.a, self.b, dims=dims or None)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`Law`; minus infinity outside of the interval."""
        x = np.asarray(x, dtype=np.float64)
        inside = (x > 0.0) & (x < 1.0)
        at = np.where(inside, x, 0.5)
        value = xlogy(self.a - 1.0, at) + xlog1py(self.b - 1.0, -at) - betaln(self.a, self.b)
        return np.where(inside, value, -np.inf)

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`Law`."""
        return rng.beta(self.a, self.b, size)

    @property
    def typical(self) -> float:
        """The mean."""
        return self.a / (self.a + self.b)


@dataclass(frozen=True)
class Flat(Law):
    """No prior: every positive number alike. For the maximum that EM finds; no sampler can use it."""

    proper = False

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`Law`."""
        return pm.HalfFlat(name, dims=dims)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`Law`."""
        return np.zeros(np.shape(x))

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`Law`."""
        raise ValueError("Flat() is no law that numbers could be drawn from. Give a proper prior.")

    @property
    def typical(self) -> float:
        """1, for want of anything better."""
        return 1.0

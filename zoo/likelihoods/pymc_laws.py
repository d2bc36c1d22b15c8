"""Priors that a user gives as distributions of PyMC or PreliZ: ``pm.HalfNormal.dist(2)``, ``pz.HalfNormal(2)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from zoo.likelihoods.laws import Beta, Flat, Gamma, InverseGammaOfSquare, Law, LogNormal
from zoo.support.checks import one_of

__all__ = ["PyMCLaw", "as_law", "is_distribution", "law_from_spec"]

# Draws whose median is where searches start, where a distribution has no quantile function.
_DRAWS = 2_001
# Values below 0 and above 1 at which a law of positive numbers, or of probabilities, has no density.
_BELOW, _ABOVE = (-1e-6, -0.1, -1.0, -10.0, -1e3), (1.0 + 1e-6, 2.0, 10.0, 1e3)


@dataclass(frozen=True)
class PyMCLaw(Law):
    """A univariate distribution of PyMC whose parameters are numbers.

    Make it of ``pm.HalfNormal.dist(2)`` by :func:`as_law`. Method "nuts" takes it; the compiled samplers take those
    that are laws of :mod:`zoo.likelihoods` as well (``pm.LogNormal``, ``pm.Gamma``).

    Parameters
    ----------
    distribution : str
        Its class in PyMC.
    parameters : sequence of float, or of a sequence of float
        As the operation behind it has them, which may be others than those of ``dist``: scales for rates. A sequence
        has one value for each entry of the variable.
    """

    distribution: str
    parameters: tuple[Any, ...]

    def __post_init__(self) -> None:
        if getattr(getattr(pm, self.distribution, None), "rv_op", None) is None:
            raise ValueError(f"{self.distribution!r} is no univariate distribution of PyMC.")
        parameters = tuple(
            float(p) if np.ndim(p) == 0 else tuple(float(v) for v in p) for p in self.parameters
        )
        object.__setattr__(self, "parameters", parameters)

    def __repr__(self) -> str:
        return f"{self.distribution}({', '.join(map(_short, self.parameters))})"

    @property
    def proper(self) -> bool:  # type: ignore[override]
        """Whether the density has a finite integral."""
        return self.distribution not in ("Flat", "HalfFlat")

    @cached_property
    def positive(self) -> bool:  # type: ignore[override]
        """Whether it is a law of positive numbers."""
        return bool(np.all(np.isneginf(self.log_density(self._points(_BELOW)))))

    @cached_property
    def unit(self) -> bool:  # type: ignore[override]
        """Whether it is a law of numbers between 0 and 1."""
        return self.positive and bool(np.all(np.isneginf(self.log_density(self._points(_ABOVE)))))

    @property
    def size(self) -> int | None:
        """How many entries a variable with this law has; None where any number."""
        return next((len(p) for p in self.parameters if isinstance(p, tuple)), None)

    def _points(self, values: tuple[float, ...]) -> np.ndarray:
        return np.array(values) if self.size is None else np.repeat(values, self.size).reshape(-1, self.size)

    def dist(self, shape: Any = None) -> Any:
        """The distribution as an unregistered variable of PyMC."""
        parameters = [pt.as_tensor(np.asarray(p, dtype=np.float64)) for p in self.parameters]
        # Below the method of the class, which would read the parameters as users give them.
        make: Any = vars(pm.Distribution)["dist"].__func__
        return make(getattr(pm, self.distribution), parameters, shape=shape)

    def variable(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """See :class:`Law`."""
        model = pm.modelcontext(None)
        lengths = [model.dim_lengths[dim] for dim in dims]
        if self.size is None:
            return model.register_rv(self.dist(lengths if dims else None), name, dims=dims or None)
        if len(dims) != 1 or int(lengths[0].eval()) != self.size:
            raise ValueError(
                f"the prior {self!r} has {self.size} entries, and {name!r} has the dims "
                f"{dims or 'of one number'}. Give a prior with one number for each parameter, or as many as that."
            )
        return model.register_rv(self.dist(), name, dims=dims)

    def log_density(self, x: Any) -> np.ndarray:
        """See :class:`Law`."""
        at = pt.as_tensor(np.asarray(x, dtype=np.float64))
        return np.asarray(pm.logp(self.dist(), at).eval(mode="FAST_COMPILE"))

    def random(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """See :class:`Law`."""
        if not self.proper:
            raise ValueError(f"{self!r} is no law that numbers could be drawn from. Give a proper prior.")
        return np.asarray(pm.draw(self.dist(size), random_seed=int(rng.integers(2**31)), mode="FAST_COMPILE"))

    @property
    def typical(self) -> float:
        """The median."""
        return float(np.median(self.random((_DRAWS,), np.random.default_rng(0)))) if self.proper else 1.0


_LAWS: dict[str, type[Law]] = {
    cls.__name__: cls for cls in (LogNormal, Gamma, InverseGammaOfSquare, Beta, Flat, PyMCLaw)
}


def law_from_spec(spec: Mapping[str, Any]) -> Law:
    """The law that :meth:`Law.to_spec` described."""
    numbers = dict(spec)
    name = numbers.pop("law", None)
    one_of(name, _LAWS, "law")
    return _LAWS[name](**numbers)


def is_distribution(value: Any) -> bool:
    """Whether it is a distribution of PyMC (``pm.X.dist(...)``) or PreliZ."""
    return isinstance(value, Variable) or callable(getattr(value, "to_pymc", None))


def as_law(value: Any, what: str) -> Any:
    """A law of a prior that is given as a distribution or as its description; other values as they are.

    Laws that compiled samplers know are made of ``pm.LogNormal``, ``pm.Gamma``, ``pm.Beta`` and ``pm.HalfFlat``.

    Parameters
    ----------
    value : Law, mapping, ``pm.X.dist(...)``, PreliZ distribution, or anything else
    what : str
        What the prior is of, for messages.

    Raises
    ------
    ValueError
        The distribution is discrete or multivariate, or a parameter of it is random, as in
        ``pm.HalfNormal.dist(pm.HalfNormal.dist(1))``.
    """
    if isinstance(value, Mapping):  # as a file has it
        return law_from_spec(value)
    if not is_distribution(value):
        return value
    if not isinstance(value, Variable):
        if not getattr(value, "is_frozen", True):
            raise ValueError(f"the prior of {what} has parameters without values. Give all of them.")
        value = value.to_pymc()
    op: Any = value.owner.op if value.owner is not None else None
    kind = _class_of(op)
    if kind is None or op.ndim_supp or value.dtype != "float64" or value.name is not None:
        shown = "a variable of a model" if value.name is not None else f"a {value.type}"
        raise ValueError(
            f"the prior of {what} is {shown}, which is no continuous univariate distribution. Give one without a name, "
            "as pm.HalfNormal.dist(1)."
        )
    inputs = op.dist_params(value.owner)
    if any(v.owner is not None and hasattr(v.owner.op, "dist_params") for v in ancestors(inputs)):
        raise ValueError(
            f"a parameter of the prior of {what} is random itself. Give numbers: "
            "a hierarchy is a subclass with a hook `priors` of its own."
        )
    if value.ndim > 1 or (value.ndim == 1 and not inputs):
        raise ValueError(
            f"the prior of {what} has the shape {tuple(value.shape.eval().tolist())}. Give it without a shape, or with "
            "lists of numbers as its parameters, one for each entry of the variable."
        )
    numbers = tuple(
        np.broadcast_to(np.asarray(p.eval(), dtype=np.float64), value.shape.eval()).tolist() for p in inputs
    )
    return _known(kind, numbers)


def _class_of(op: Any) -> str | None:
    """Name in PyMC of the distribution of an operation."""
    if op is None or not hasattr(op, "dist_params"):
        return None
    for name in pm.distributions.__all__:
        if getattr(getattr(pm, name), "rv_type", None) is type(op):
            return str(name)
    return None


def _known(kind: str, numbers: tuple[Any, ...]) -> Law:
    """The law of compiled samplers where there is one."""
    if not any(isinstance(number, list) for number in numbers):
        if kind == "LogNormal":
            return LogNormal(*numbers)
        if kind == "Gamma":  # the operation has a shape and a scale
            return Gamma(numbers[0], 1.0 / numbers[1])
        if kind == "Beta":
            return Beta(*numbers)
        if kind == "HalfFlat":
            return Flat()
    return PyMCLaw(kind, numbers)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f"[{', '.join(f'{v:g}' for v in value)}]"

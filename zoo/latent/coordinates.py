"""Hyper-parameters of a kernel machine: names, priors, and free coordinates for optimisers and samplers.

A positive one has the prior LogNormal(log value, 1): the value given is its median. One in (0, 1) is uniform, a real
one N(value, 1). A covariance of features, scaled to trace D, comes of an inverse-Wishart law.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit, log_expit, logit

from zoo.distributions import InverseWishartCholesky
from zoo.likelihoods.laws import Law

__all__ = [
    "Coordinates",
    "Hyper",
    "parameter_hypers",
    "require_one_value_for_all_tasks",
    "scaled_covariance",
]

# Free coordinates further out than this are at their bound for every purpose; factors of Q keep an inverse.
_BOUND, _BOUND_OF_COVARIANCE = 15.0, 6.0
# Noise of e^-9 times where the search begins is none: rounding would decide.
_BOUND_OF_NOISE = 9.0
# Of the difference quotient of a prior's log density.
_STEP = 1e-5


def _logit(value: np.ndarray) -> np.ndarray:
    return np.asarray(logit(np.clip(value, 1e-300, 1.0 - 2.0**-53)))


_FREE: dict[str, Any] = {"unit": _logit, "positive": np.log, "real": np.asarray}
_VALUE: dict[str, Any] = {"unit": expit, "positive": np.exp, "real": np.asarray}


class Hyper(NamedTuple):
    """A hyper-parameter that is learned: where it starts (number or vector), and its kind."""

    value: Any
    kind: str = "positive"
    """"positive", "unit" for (0, 1), "real", or "covariance"."""
    dims: tuple[str, ...] | None = None
    """Its dims in the model, of which the factory gives the coords. Left out, it has dims of its own, counted."""
    law: Law | None = None
    """Its prior, where that is not the usual one; of a positive number, or of one in (0, 1)."""
    given: bool = False
    """Whether the user gave that prior. Then searches for the largest evidence count it."""


def parameter_hypers(factory: Any, starts: dict[str, float]) -> dict[str, Hyper]:
    """The learned parameters of the factory's likelihood, by name.

    ``starts`` are where they start, and their prior medians, where the user gives no prior.
    """
    result = {}
    for name in factory.likelihood.learned:
        law = getattr(factory.likelihood, name)
        given = isinstance(law, Law)
        if not given:
            law = None if name in starts else factory.law_of(name)
        if law is not None and not law.proper:
            raise ValueError(f"{name} has the prior Flat(), which is for EM alone. Give it a proper prior.")
        kind = "unit" if name in factory.likelihood.unit_parameters else "positive"
        result[name] = (
            Hyper(starts[name], kind) if law is None else Hyper(law.typical, kind, law=law, given=given)
        )
    return result


def require_one_value_for_all_tasks(factory: Any) -> None:
    """Raise where a parameter of the likelihood has a value for each task, which no evidence here knows."""
    if factory.likelihood.per_task:
        raise ValueError(
            f"per_task={factory.likelihood.per_task!r} is for NIWLinear, NIWGaussianProcess, MaxMargin, "
            f"NonparametricMaxMargin and IndependentTasks. {type(factory).__name__} has one "
            f"{factory.likelihood.per_task[0]} for all tasks."
        )


def scaled_covariance(root: Any) -> Any:
    """``L L'`` with its trace set to the number of rows, as a PyTensor graph."""
    Q = pt.dot(root, root.T)
    return Q * (root.shape[0] / pt.trace(Q))


class Coordinates:
    """Hyper-parameters as one vector z: logarithms, logits, and log-Cholesky factors."""

    def __init__(self, hypers: dict[str, Hyper]):
        for name, hyper in hypers.items():
            if hyper.kind == "positive" and not np.all(np.asarray(hyper.value) > 0.0):
                raise ValueError(
                    f"{name} starts at {hyper.value}, but it is learned as positive. Start above 0."
                )
        self.hypers = hypers
        self._shape = {name: np.shape(h.value) for name, h in hypers.items()}
        sizes = [self._size(name) for name in hypers]
        ends = np.cumsum([0, *sizes])
        self._slice = {
            name: slice(int(a), int(b)) for name, a, b in zip(hypers, ends, ends[1:], strict=False)
        }
        self.size = int(ends[-1])

    def _size(self, name: str) -> int:
        shape = self._shape[name]
        if self.hypers[name].kind == "covariance":
            return shape[0] * (shape[0] + 1) // 2
        return int(np.prod(shape))

    @property
    def start(self) -> np.ndarray:
        """The vector at the values given."""
        return self.pack({name: h.value for name, h in self.hypers.items()})

    def bounds(self, z: np.ndarray) -> list[tuple[float, float]]:
        """Of each coordinate of a search from z: far enough out to be no bound."""
        width = np.full(self.size, _BOUND)
        for name, hyper in self.hypers.items():
            if hyper.kind == "covariance":
                width[self._slice[name]] = _BOUND_OF_COVARIANCE
            elif name == "noise":
                width[self._slice[name]] = _BOUND_OF_NOISE
        return list(zip(z - width, z + width, strict=True))

    def position(self, name: str) -> slice:
        """Where a hyper-parameter stands in z."""
        return self._slice[name]

    def unit_vector(self, *names: str) -> np.ndarray:
        """A direction: 1 at the coordinates of these hyper-parameters, and 0 elsewhere."""
        result = np.zeros(self.size)
        for name in names:
            result[self._slice[name]] = 1.0
        return result

    def pack(self, values: dict[str, Any]) -> np.ndarray:
        """The vector of given values."""
        z = np.empty(self.size)
        for name, hyper in self.hypers.items():
            value = np.asarray(values[name], dtype=np.float64)
            if hyper.kind == "covariance":
                L = np.linalg.cholesky(value)
                L[np.diag_indices_from(L)] = np.log(np.diag(L))
                z[self._slice[name]] = L[np.tril_indices_from(L)]
            else:
                z[self._slice[name]] = _FREE[hyper.kind](value).ravel()
        return z

    def unpack(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Values by name."""
        result = {}
        for name, hyper in self.hypers.items():
            part = z[self._slice[name]]
            if hyper.kind == "covariance":
                D = self._shape[name][0]
                L = np.zeros((D, D))
                L[np.tril_indices(D)] = part
                L[np.diag_indices(D)] = np.exp(np.diag(L))
                Q = L @ L.T
                result[name] = Q * (D / np.trace(Q))
            else:
                result[name] = _VALUE[hyper.kind](part).reshape(self._shape[name])
        return result

    def symbolic(self, z: Any) -> dict[str, Any]:
        """The same of a PyTensor vector."""
        result = {}
        for name, hyper in self.hypers.items():
            part, shape = z[self._slice[name]], self._shape[name]
            if hyper.kind == "covariance":
                D = shape[0]
                L = pt.set_subtensor(pt.zeros((D, D))[np.tril_indices(D)], part)
                diagonal = pt.exp(pt.diagonal(L))
                result[name] = scaled_covariance(pt.set_subtensor(L[np.diag_indices(D)], diagonal))
            else:
                value = {"unit": pt.sigmoid, "positive": pt.exp, "real": pt.identity}[hyper.kind](part)
                result[name] = value[0] if shape == () else value.reshape(shape)
        return result

    def log_prior(self, z: np.ndarray) -> float:
        """Log prior density of z, its Jacobian included; not for covariances, which no sampler of z draws."""
        total = 0.0
        for name, hyper in self.hypers.items():
            part = z[self._slice[name]]
            if hyper.law is not None:
                slope = log_expit(part) + log_expit(-part) if hyper.kind == "unit" else part
                total += float(np.sum(hyper.law.log_density(_VALUE[hyper.kind](part)) + slope))
            elif hyper.kind == "unit":
                total += float(np.sum(log_expit(part) + log_expit(-part)))
            else:
                centre = _FREE[hyper.kind](np.asarray(hyper.value, dtype=np.float64)).ravel()
                total += float(-0.5 * np.sum((part - centre) ** 2))
        return total

    def given_prior(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density at z of the priors that the user gave, its Jacobian included, and its derivative."""
        value, gradient = 0.0, np.zeros(self.size)
        for name, hyper in self.hypers.items():
            if hyper.law is None or not hyper.given:
                continue
            # A law is of one number: all steps of the difference quotient at once.
            part = z[self._slice[name]] + np.array([[0.0], [_STEP], [-_STEP]])
            slope = log_expit(part) + log_expit(-part) if hyper.kind == "unit" else part
            here, above, below = hyper.law.log_density(_VALUE[hyper.kind](part)) + slope
            value += float(here.sum())
            gradient[self._slice[name]] = (above - below) / (2.0 * _STEP)
        return value, gradient

    def random(self) -> dict[str, Any]:
        """Variables with these priors, in the PyMC model on the context stack."""
        result = {}
        model = pm.modelcontext(None)
        for name, hyper in self.hypers.items():
            shape = self._shape[name]
            if hyper.kind == "covariance":
                D = shape[0]
                root = InverseWishartCholesky(f"_{name}_chol", D + 2.0, scale_chol=np.eye(D))
                result[name] = scaled_covariance(root)
                continue
            dims = hyper.dims or tuple(f"{name}_{i}" for i in range(len(shape)))
            if hyper.dims is None:
                for dim, n in zip(dims, shape, strict=True):
                    model.add_coord(dim, np.arange(n))
            if hyper.law is not None:
                variable = hyper.law.variable(name, dims)
            elif hyper.kind == "unit":
                variable = pm.Uniform(name, 0.0, 1.0, dims=dims)
            elif hyper.kind == "real":
                variable = pm.Normal(name, np.asarray(hyper.value), 1.0, dims=dims)
            else:
                variable = pm.LogNormal(name, np.log(np.asarray(hyper.value)), 1.0, dims=dims)
            # Dims leave the length open, and a kernel may read the number of tasks off it.
            result[name] = pt.specify_shape(variable, shape) if shape else variable
        return result

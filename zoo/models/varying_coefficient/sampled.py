"""Functions of varying coefficients for a Gibbs sampler that integrates them out while it moves hyper-parameters.

Each form is a :class:`zoo.latent.function_prior.FunctionPrior`: :class:`SampledValues` holds function values at the
distinct rows, :class:`SampledWeights` the weights of fixed features, those of trees or of a basis of sines. The
posterior is that of method "nuts" with the same field ``approximation``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt

from zoo.inference.augmentation import Augmentation
from zoo.latent.basis_regression import BasisConditional, BasisSums
from zoo.latent.coordinates import Coordinates
from zoo.latent.function_prior import PointFunctions, RowFunctions
from zoo.latent.slice_hyper import KernelGibbs
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.laws import LogNormal
from zoo.models.kernel_machine.space import Compiled
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.rows import VaryingRows

__all__ = ["SampledValues", "SampledWeights", "gibbs_kernel", "gibbs_refusal"]

# Of Matern covariances; a squared exponential is one without end, and moves as the smoothest of them.
_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "squared_exponential": 2.5}


class SampledFunctions(RowFunctions):
    """What the two forms share.

    Parameters
    ----------
    factory : VaryingDescription
    rows : VaryingRows
    y : (N,) array
        Coded responses, less the offset of the model.
    """

    def __init__(self, factory: VaryingDescription, rows: VaryingRows, y: np.ndarray):
        self.factory, self.rows, self.y = factory, rows, y
        self.kernel = factory.kernel_of(rows)
        self.coordinates = Coordinates(factory.hyperparameters(rows))

    def __reduce__(self) -> Any:  # compiled functions stay behind: another process makes its own
        return type(self), (self.factory, self.rows, self.y)

    def with_response(self, y: np.ndarray) -> Any:
        """The same rows with other coded responses."""
        return super().with_response(y - self.factory.offset(self.rows))

    @property
    def seen_rows(self) -> VaryingRows:
        """The rows, as the model sees them."""
        return self.rows

    def values_at(self, z: np.ndarray) -> dict[str, Any]:
        """All parameters by name, learned and fixed."""
        return self.factory.values_of(self.coordinates.unpack(z), self.rows)

    @cached_property
    def numbers_at(self) -> Compiled:
        """The numbers of the prior at z, compiled for thousands of evaluations."""
        z = pt.vector("z", dtype="float64", shape=(self.coordinates.size,))
        return Compiled(
            [z], self._graph(self.factory.values_of(self.coordinates.symbolic(z), self.rows)), True
        )

    def _graph(self, values: dict[str, Any]) -> Any:
        raise NotImplementedError

    def numbers(self, z: np.ndarray) -> np.ndarray:
        """What the prior is at z."""
        return np.asarray(self.numbers_at(z))

    def scales_together(self) -> np.ndarray | None:
        """The direction of z in which the function grows as a whole; None where one of its scales is no coordinate."""
        names = [part.name("amplitude") for part in self.kernel.parts]
        names += ["global_scale"] if self.kernel.with_global else []
        if not names or not set(names) <= set(self.coordinates.hypers):
            return None
        return self.coordinates.unit_vector(*names)

    def ridges(self) -> np.ndarray | None:
        r"""Directions of z that the rows say little of: an amplitude a up, and its lengthscales l with it.

        Rows tell :math:`a^2 / l^{2 \nu}` of a Matern process well, and each of the two badly (Zhang 2004, theorem 2).
        Slices along the axes alone leave chains with a tenth of the effective draws.
        """
        found, z = [], self.coordinates
        for part in self.kernel.parts:
            amplitude, lengthscale = part.name("amplitude"), part.name("lengthscale")
            if part.component.is_word and {amplitude, lengthscale} <= set(z.hypers):
                smoothness = _SMOOTHNESS[part.component.kernel]
                found.append(smoothness * z.unit_vector(amplitude) + z.unit_vector(lengthscale))
        return np.array(found) if found else None

    def record(self, z: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior variables by name."""
        fixed = {name: np.asarray(value) for name, value in self.factory.fixed_parameters().items()}
        return {**fixed, **self.coordinates.unpack(z), self.values_name: values}

    def located(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The vector z and the functions of recorded variables: the inverse of :meth:`record`."""
        z = self.coordinates.pack({name: values[name] for name in self.coordinates.hypers})
        return z, np.array(values[self.values_name], dtype=np.float64)


class SampledValues(SampledFunctions, PointFunctions):
    """Function values (n,) at the distinct rows; numbers are their covariance matrix."""

    def _graph(self, values: dict[str, Any]) -> Any:
        return self.kernel.at(values)(pt.constant(self.rows.points))


class SampledWeights(SampledFunctions):
    """Weights (p,) of fixed features; numbers are the logarithms of their prior variances."""

    values_name = "basis_weights"

    def _graph(self, values: dict[str, Any]) -> Any:
        return self.kernel.log_variances(values)

    @cached_property
    def _features(self) -> BasisSums:
        def features(block: slice) -> np.ndarray:
            return self.kernel.features(self.rows, block)

        return BasisSums(features, self.rows.n_rows, self.kernel.n_weights)

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the rows: of products of features by ``omega``, and of features by ``nu``."""
        return self._features.gram(omega), self._features.transposed(nu)

    def condition(self, numbers: np.ndarray, sums: tuple[np.ndarray, np.ndarray]) -> BasisConditional:
        """The law of the weights."""
        return BasisConditional.of(*sums, numbers)

    def gaussian(self, numbers: np.ndarray, variance: float) -> BasisConditional:
        """The law given the responses."""
        G, h = self.unit_sums
        return BasisConditional.of(G, h, numbers, 1.0 / variance)

    def draws(self, conditional: BasisConditional, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws (size, p)."""
        return conditional.draws(rng, size)

    def functions(self, values: np.ndarray) -> np.ndarray:
        """Function values at the rows."""
        return self._features.times(values)

    @cached_property
    def _of_tasks(self) -> np.ndarray | None:
        """What makes coefficients of tasks of the weights, (D, T, p), where all components are over tasks."""
        return self.kernel.task_features(self.rows) if self.kernel.basis_is_exact else None

    def record(self, z: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior variables by name; with the coefficients, where all components are over tasks."""
        found = super().record(z, values)
        return found if self._of_tasks is None else {**found, "coefficients": self._of_tasks @ values}


def gibbs_refusal(factory: VaryingDescription) -> str:
    """Why method "gibbs" does not serve these fields, and what does; nothing where it serves."""
    if factory.has_covariance:
        return (
            "method 'gibbs' knows no covariance of the coefficients. Use 'nuts', or "
            'amplitude="per_feature".'
        )
    if factory.approximation in ("fitc", "vfe"):
        return (
            f"method 'gibbs' knows no inducing points, and approximation is {factory.approximation!r}. Use 'nuts', or "
            'approximation="none" or "hsgp".'
        )
    return ""


def _augmentation(factory: VaryingDescription, functions: SampledFunctions) -> Augmentation | None:
    """What makes the likelihood Gaussian, with the priors that its parameters have in the model."""
    hypers, laws = functions.coordinates.hypers, {}
    for name in factory.likelihood.learned:
        law, value = hypers[name].law, hypers[name].value
        laws[name] = LogNormal(float(np.log(value)), 1.0) if law is None else law
    return factory.augmentation(functions.rows, laws)


def gibbs_kernel(factory: VaryingDescription, rows: VaryingRows, y: np.ndarray) -> KernelGibbs:
    """The Markov kernel of method "gibbs", for prepared rows and coded y."""
    form = SampledWeights if factory.in_weights(factory.kernel_of(rows)) else SampledValues
    functions = form(factory, rows, y - factory.offset(rows))
    functions.numbers(functions.coordinates.start)  # compiled here, once: chains in threads would each do it
    augmented = type(factory.likelihood) is not Gaussian
    own = factory.likelihood.learned if augmented else ()
    return KernelGibbs(
        prior=functions,
        start=functions.coordinates.start,
        y=functions.y,
        weight=np.ones(len(y)) if rows.weight is None else rows.weight,
        task=rows.task,
        augmentation=_augmentation(factory, functions) if augmented else None,
        own={name: functions.coordinates.position(name).start for name in own},
        amplitude=functions.scales_together(),
        ridges=functions.ridges(),
    )

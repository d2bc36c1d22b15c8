"""The normal-inverse-Wishart hierarchy as a model: fields, hooks, new tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.core.hooks import SHARED, ModelData
from zoo.core.joining import of_some_task
from zoo.core.methods import UnsupportedMethodError
from zoo.core.prior_density import (
    coefficients_density,
    covariance_density,
    half_t_density,
    standard_normal_density,
)
from zoo.core.shared import SharedCoefficients
from zoo.data.multitask import MultiTaskData
from zoo.distributions.inverse_wishart_cholesky import InverseWishartCholesky
from zoo.inference.gibbs.matrix_normal import CovariancePrior
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.laws import Flat, InverseGammaOfSquare
from zoo.support.checks import positive

__all__ = ["NIWHierarchy"]


@dataclass(frozen=True, kw_only=True)
class NIWHierarchy(SharedCoefficients):
    """The prior of a population of tasks; see :class:`zoo.NIWLinear` and
    :class:`zoo.NIWGaussianProcess`.
    """

    names: ClassVar[tuple[str, str, str]]
    """What coefficients, their mean and their covariance are called."""
    dim: ClassVar[str]
    """The dim of the coefficients."""

    delta: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.delta, "delta")

    @property
    def mean_sd(self) -> float | None:
        """Standard deviation of the mean in whitened features, by a prior that does not depend on the covariance.

        None where the prior of the mean is tied to the covariance.
        """
        return None

    @property
    def learns_pi(self) -> bool:
        """Whether the weight of a prior of the mean that is tied to the covariance is a variable of the posterior."""
        return False

    def pi_of(self, values: Mapping[Any, Any]) -> Any:
        """The weight of the prior of the mean: that of ``values``, as of a posterior, where it is learned."""
        raise NotImplementedError(f"the prior of the mean of {type(self).__name__} has no weight.")

    @property
    def _conjugate(self) -> bool:
        """Whether y is Gaussian with a noise that EM and the Gibbs sampler of this hierarchy know."""
        return type(self.likelihood) is Gaussian and (
            "noise" in self.likelihood.learned
            and isinstance(self.law_of("noise"), InverseGammaOfSquare | Flat)
        )

    def noise_prior(self, data: MultiTaskData) -> tuple[float, float] | None:
        """Shape and rate of the inverse-gamma prior of the noise variance; None where it has none.

        ``data`` are the rows of the fit as the model sees them.
        """
        law = self.law_of("noise", data)
        return (law.shape, law.rate) if isinstance(law, InverseGammaOfSquare) else None

    @property
    def noise_by_task(self) -> bool:
        """Whether every task has a noise of its own."""
        return "noise" in self.likelihood.per_task

    # ---------------------------------------------------------------- hooks

    def population(self, data: MultiTaskData) -> Population:
        """Whitened features of prepared data."""
        raise NotImplementedError(f"{type(self).__name__} must override `population`.")

    def moved(self, data: MultiTaskData) -> tuple[np.ndarray, np.ndarray | None] | None:
        """How coefficients in units of the data lie beside those that the prior is stated of; None: not at all.

        The vector (p,) that is added to coefficients and mean, and what a shared coefficient takes of them (p, S), if
        anything.
        """
        return None

    def _moved_in_model(self, data: ModelData) -> Any:
        """The vector that is added to coefficients and mean, of numbers or of the model's variables."""
        moved = self.moved(data.source)
        if moved is None:
            return 0.0
        offset, by_shared = moved
        return offset if by_shared is None else offset - pt.dot(by_shared, self.shared_variable(data))

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Population and coefficients, all non-centred."""
        values, mean, cov = self.names
        half = pt.as_tensor(self.population(data.source).half)
        model = pm.modelcontext(None)
        rank = half.type.shape[1]
        model.add_coords({"basis": range(rank), "basis_bis": range(rank)})
        moved = self._moved_in_model(data)
        chol = self._factor(rank, data.source)
        # Beside a learned pi an own prior of the mean is refused, so that none is offered.
        own_mean = None if self.learns_pi else self.own_prior(mean, (self.dim,))
        if own_mean is None:
            white_mean = pm.Normal(f"_{mean}", dims="basis")
            centre = self._centre(chol, white_mean)
        else:
            centre = pt.as_tensor(self.population(data.source).back) @ (own_mean - moved)
        white = pm.Normal(f"_{values}", dims=("basis", "task"))
        pm.Deterministic(cov, half @ chol @ chol.T @ half.T, dims=(self.dim, f"{self.dim}_bis"))
        if own_mean is None:
            pm.Deterministic(mean, half @ centre + moved, dims=self.dim)
        drawn = half @ (centre[:, None] + chol @ white)
        if not isinstance(moved, float):
            drawn = drawn + pt.as_tensor(moved)[:, None]
        result = {values: pm.Deterministic(values, drawn, dims=(self.dim, "task"))}
        return {**result, **self.add_parameters(data)}

    @property
    def prior_order(self) -> tuple[str, ...]:  # type: ignore[override]
        """Covariance, mean, coefficients, noise."""
        values, mean, cov = self.names
        return cov, mean, values, "noise"

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Densities of the population in whitened features, and of the coefficients given it."""
        if not self._has_inverse_wishart:
            return None
        back = self.population(data).back
        coefficients, mean, cov = self.names
        if name not in self.names:
            return None
        white_cov = back @ values[cov] @ back.T
        if name == cov:
            nu = self.delta + len(back) - 1.0
            if self.scale_sd is not None:
                return half_t_density(white_cov, nu, self.scale_sd)
            return covariance_density(white_cov, CovariancePrior(nu=nu))
        moved = self._moved_by(data, values)
        white_mean = pt.dot(back, values[mean] - moved)[:, None]
        if name == mean and self.mean_sd is not None:
            return standard_normal_density(white_mean, self.mean_sd)
        if name == mean:
            return coefficients_density(white_mean, white_cov / self.pi_of(values), np.eye(1))
        white = pt.dot(back, values[coefficients] - (0.0 if isinstance(moved, float) else moved[:, None]))
        return coefficients_density(white, white_cov, np.eye(data.n_tasks), white_mean)

    def _moved_by(self, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """The vector that is added to coefficients and mean at these values of the variables."""
        moved = self.moved(data)
        if moved is None:
            return 0.0
        offset, by_shared = moved
        return offset if by_shared is None else offset - pt.dot(by_shared, values[SHARED])

    def _centre(self, chol: Any, white: Any) -> Any:
        """The mean in whitened features, made of standard normals; ``chol`` is a root of the covariance."""
        return self.mean_sd * white

    @property
    def _has_inverse_wishart(self) -> bool:
        """Whether the covariance of the population has this prior, given scales of features where these are learned."""
        return True

    @property
    def scale_sd(self) -> float | None:
        """Standard deviation of the normal law of learned scales of features; None where scales are given."""
        return None

    def _factor(self, rank: int, data: MultiTaskData) -> Any:
        """A lower factor of the whitened covariance, for the rows as the model sees them."""
        chol = InverseWishartCholesky(
            "_basis_chol", delta=self.delta, scale_chol=np.eye(rank), dims=("basis", "basis_bis")
        )
        if self.scale_sd is None:
            return chol
        return pm.HalfNormal("_basis_scale", self.scale_sd, dims="basis")[:, None] * chol

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Coefficients of unseen tasks from each draw of the population; their noise as of some task of the data.

        Under the model the noise of a task without rows has its prior, which knows nothing of the tasks of the data: by
        default an inverse-gamma law without a mean, and so intervals of no use. So the noises that were found stand for
        the law of a further one. Where a task has rows, :meth:`Fit.condition` draws its noise given these.
        """
        if type(self).priors is not NIWHierarchy.priors:
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `priors`. Override `new_task` to match it."
            )
        values, mean, cov = self.names
        centre, covariance = posterior[mean].to_numpy(), posterior[cov].to_numpy()
        chains, draws, p = centre.shape
        # Innovations whose mean over the draws is exactly zero: the prediction's mean has less noise.
        z = rng.standard_normal((chains, draws, p, len(names)))
        if draws > 1:
            z -= z.mean(axis=(0, 1))
        result = {values: centre[..., None] + roots(covariance) @ z}
        for name in self.likelihood.learned:
            array = posterior[name].to_numpy()
            result[name] = of_some_task(array, len(names), rng) if array.ndim == 3 else array
        return result

    # ---------------------------------------------------------------- engines


class Population(NamedTuple):
    """The hierarchy in whitened features: those of the rows (n, r), ``half`` (p, r) that leads out, ``back`` (r, p) in.

    ``w_t = half @ v_t`` with ``v_t ~ N(m, V)`` and ``V ~ IW(delta, I)``.
    """

    inputs: np.ndarray
    half: np.ndarray
    back: np.ndarray

    def enter(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (p,) and covariance (p, p) in whitened features."""
        return self.back @ mean, self.back @ cov @ self.back.T


def roots(covariance: np.ndarray) -> np.ndarray:
    """Symmetric square roots of covariances (chain, draw, p, p), singular ones too; one where all are the same."""
    if covariance.strides[:2] == (0, 0):
        covariance = covariance[:1, :1]
    d, U = np.linalg.eigh(covariance)
    return np.asarray((U * np.sqrt(np.maximum(d, 0.0))[..., None, :]) @ np.swapaxes(U, -1, -2))

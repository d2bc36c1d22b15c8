"""What the multi-Laplace model is made of: its fields, its covariance, and its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pymc as pm
import pytensor.tensor as pt

from zoo.core.factory import ModelFactory
from zoo.core.prior_density import multi_laplace_densities
from zoo.data.multitask import MultiTaskData
from zoo.distributions.multi_laplace import multi_laplace_mixture
from zoo.inference.ard.correlation import Correlation
from zoo.inference.ard.evidence import KERNELS
from zoo.kernels import describe, from_word, restore
from zoo.models.multi_laplace.ard_gp import (
    correlation_of,
)
from zoo.support.checks import flag, not_negative, one_of

__all__ = ["MultiLaplaceDescription"]


@dataclass(frozen=True, kw_only=True)
class MultiLaplaceDescription(ModelFactory):
    """Fields of :class:`zoo.MultiLaplaceGP`, and what they make of the data. That class infers."""

    serves_gaps: ClassVar[bool] = False

    kernel: Any = "squared_exponential"
    penalty: float | str = 1.0
    noise_rate: float | str = 1.0
    ard: str = "group"
    prior: str = "multi_laplace"
    mean: str = "constant"
    amplitude: str = "one"
    standardize: bool = True
    noise_floor: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.ard, ("group", "shared", "independent", "pooled"), "ard")
        one_of(self.prior, ("multi_laplace", "horseshoe"), "prior")
        one_of(self.mean, ("constant", "zero", "linear"), "mean")
        one_of(self.amplitude, ("one", "task"), "amplitude")
        flag(self.standardize, "standardize")
        not_negative(self.noise_floor, "noise_floor")
        for name in ("penalty", "noise_rate"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "learned":
                raise ValueError(f'{name} is {value!r}. Give a number, 0 or more, or "learned".')
            if not isinstance(value, str):
                not_negative(value, name)
        self._freeze_kernel()
        if self.kernel == "linear" and self.amplitude == "task":
            raise ValueError(
                'amplitude is "task", but a linear kernel has its amplitude in kappa. Use amplitude="one".'
            )
        if self.prior == "horseshoe" and self.ard != "group":
            raise ValueError(
                f'prior is "horseshoe", which ties features over tasks, but ard is {self.ard!r}. Use ard="group".'
            )

    def _freeze_kernel(self) -> None:
        kernel = self.kernel
        if isinstance(kernel, str):
            one_of(kernel, KERNELS, "kernel")
        elif isinstance(kernel, tuple | list):
            object.__setattr__(self, "kernel", describe(restore(kernel)))
        elif isinstance(kernel, pm.gp.cov.BaseCovariance):
            object.__setattr__(self, "kernel", describe(kernel, "kernel"))
        else:
            raise TypeError(
                f"kernel is a {type(kernel).__name__}. Give a word such as 'linear', or a covariance of pm.gp.cov."
            )

    def base_covariance(self, input_dim: int) -> Any:
        """The covariance function at features times the roots of their ARD parameters; override it for your own."""
        return from_word(self.kernel, input_dim) if isinstance(self.kernel, str) else restore(self.kernel)

    def correlation(self, n_features: int) -> Correlation:
        """The covariance function with its ARD parameters, in numbers."""
        own = type(self).base_covariance is not MultiLaplaceDescription.base_covariance
        word = self.kernel if isinstance(self.kernel, str) and not own else ""
        return correlation_of(word, None if word else self.base_covariance(n_features))

    @property
    def constant_variance(self) -> float:
        """Prior variance of the constant of each task."""
        return 0.0 if self.mean == "zero" else 1.0

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Densities of the ARD parameters, of their scales given them, and of the noise."""
        if name == "noise":
            B = values.get("noise_rate", self.noise_rate)
            square = values[name] ** 2 - self.noise_floor**2
            return pt.sum(pt.log(B) - B * square + pt.log(values[name]))
        if self.prior != "multi_laplace" or self.ard != "group" or name not in ("kappa", "kappa_scale"):
            return None
        own, given = multi_laplace_densities(
            values["kappa"], values.get("kappa_scale"), values.get("penalty", self.penalty)
        )
        return own if name == "kappa" else given

    def _ard_prior(self, C: Any, D: int, task: tuple[str, ...]) -> Any:
        if self.prior == "horseshoe":
            # Centred: half-Cauchy scales only move along with their own in the logarithm, and the data tell those of
            # relevant features well. What the data tell is the size of a feature's kappa over tasks, so this is what
            # stands for its scale: the scale times the root mean square of the normals.
            level = pm.HalfCauchy("_global_scale", 1.0)
            normal = pm.HalfNormal("_kappa_normal", dims=("feature", "task"))
            size = pt.sqrt(pt.mean(normal**2, axis=1))
            local = pm.HalfCauchy("_local_size", level * size, dims="feature") / size
            slab = pm.InverseGamma("_slab", 2.0, 2.0)
            square = local**2
            scale = pm.Deterministic("kappa_scale", pt.sqrt(slab * square / (slab + square)), dims="feature")
            return pm.Deterministic("kappa", scale[:, None] * normal, dims=("feature", "task"))
        if self.ard == "group":
            kappa = multi_laplace_mixture("kappa", C, dims=("feature", "task"))
            root = pt.sqrt(pm.modelcontext(None)["_kappa_scale"])
            pm.Deterministic("kappa_scale", root / C, dims="feature")
            return kappa
        dims = ("feature", "task") if self.ard == "independent" else "feature"
        return pm.Exponential("kappa", C, dims=dims)

"""What a model of varying coefficients is made of: its fields, its components, and its data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm

from zoo.core.context import Context
from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.kernels import describe, restore
from zoo.latent.coordinates import (
    Hyper,
    parameter_hypers,
    require_one_value_for_all_tasks,
)
from zoo.latent.vecchia_order import ORDERS
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.logistic import Logistic
from zoo.models.varying_coefficient.component import AMPLITUDES, KERNELS, VaryingComponent, as_component
from zoo.models.varying_coefficient.covariance import InstanceKernel, VaryingKernel
from zoo.models.varying_coefficient.parts import parts_of
from zoo.models.varying_coefficient.rows import VaryingRows, varying_rows
from zoo.support.checks import flag, one_of, positive, whole_number

__all__ = ["VaryingDescription"]

_STRUCTURES = ("given", "chosen", "curved")
_APPROXIMATIONS = ("none", "hsgp", "fitc", "vfe", "vecchia")


@dataclass(frozen=True, kw_only=True)
class VaryingDescription(ModelFactory):
    """Fields of :class:`zoo.VaryingCoefficientGP`, and what they make of the data. That class infers."""

    task_kernel: Any = "matern32"
    instance_kernel: Any = "linear"
    instance_lengthscale: Any = "shared"
    amplitude: str | float = "shared"
    intercept: bool = True
    global_coefficients: bool = True
    standardize: bool = True
    approximation: str = "none"
    n_inducing: int = 1000
    placement: str = "kmeans"
    design_seed: int = 0
    n_neighbours: int = 30
    n_neighbours_predict: int = 100
    ordering: str = "random"
    ordering_seed: int = 0
    structure: str = "given"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_value_for_all_tasks(self)
        one_of(self.approximation, _APPROXIMATIONS, "approximation")
        one_of(self.placement, ("kmeans", "random"), "placement")
        one_of(self.structure, _STRUCTURES, "structure")
        for name in ("standardize", "intercept", "global_coefficients"):
            flag(getattr(self, name), name)
        one_of(self.ordering, ORDERS, "ordering")
        for name in ("n_inducing", "design_seed", "n_neighbours", "n_neighbours_predict", "ordering_seed"):
            object.__setattr__(
                self, name, whole_number(getattr(self, name), name, 1 if name.startswith("n_") else 0)
            )
        self._freeze_scale("amplitude", AMPLITUDES)
        self._freeze_task_kernel()
        self._freeze_instance_kernel()
        if not self.components and not self.global_coefficients:
            raise ValueError(
                "task_kernel is empty and global_coefficients is False: no coefficient is left. Give a kernel."
            )
        if self.approximation == "vfe" and not self.is_gaussian:
            raise ValueError(
                f'approximation "vfe" is a bound for Gaussian noise, and likelihood is {self.likelihood!r}. Use "fitc".'
            )
        if self.approximation == "hsgp" and (why := self.basis_refusal()):
            raise ValueError(f'approximation is "hsgp", but {why}')
        if self.approximation == "vecchia" and (why := self.vecchia_refusal()):
            raise ValueError(f'approximation is "vecchia", but {why}')

    def basis_refusal(self) -> str:
        """Why a basis of sines does not serve these fields, and what does; nothing where it serves."""
        if self.is_linear and not self.has_covariance:
            return ""
        return (
            'a basis of sines is for coefficients: instance_kernel="linear", and an amplitude that is not '
            '"covariance". For functions that are not linear "vecchia" takes as many rows; so does '
            "VaryingCoefficientGP with up to three of their columns as t."
        )

    def _freeze_scale(self, name: str, words: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if isinstance(value, str):
            one_of(value, words, name)
            return
        positive(value, name)
        object.__setattr__(self, name, float(value))

    def _freeze_task_kernel(self) -> None:
        given = self.task_kernel
        if isinstance(given, str):
            one_of(given, KERNELS, "task_kernel")
            return
        several = isinstance(given, list | tuple) and not (
            given and isinstance(given[0], str) and given[0] not in KERNELS
        )
        object.__setattr__(
            self, "task_kernel", tuple(as_component(g) for g in (given if several else (given,)))
        )

    def _freeze_instance_kernel(self) -> None:
        kernel, lengthscale = self.instance_kernel, self.instance_lengthscale
        if isinstance(kernel, tuple | list):
            kernel = restore(kernel)
        if isinstance(kernel, str):
            one_of(kernel, ("linear", *KERNELS), "instance_kernel")
        elif isinstance(kernel, pm.gp.cov.BaseCovariance):
            kernel = describe(kernel, "instance_kernel")
        else:
            raise TypeError(
                f'instance_kernel is a {type(kernel).__name__}. Give "linear", one of {", ".join(KERNELS)}, or a '
                f"covariance of pm.gp.cov."
            )
        object.__setattr__(self, "instance_kernel", kernel)
        if isinstance(lengthscale, str):
            one_of(lengthscale, ("shared", "per_feature", "fixed"), "instance_lengthscale")
        else:
            positive(lengthscale, "instance_lengthscale")
            object.__setattr__(self, "instance_lengthscale", float(lengthscale))
        if kernel == "linear":
            return
        for component in self.components:
            if component.features != "all" or "per_feature" in (component.amplitude, self.amplitude):
                raise ValueError(
                    f"instance_kernel is {kernel if isinstance(kernel, str) else kernel[0]!r}, which has no "
                    f"coefficients per feature. Use "
                    'features="all" and amplitude="shared", or instance_kernel="linear".'
                )
        if self.has_covariance:
            raise ValueError('amplitude "covariance" is of coefficients. Use instance_kernel="linear".')

    def to_spec(self) -> dict[str, Any]:
        """See :meth:`ModelFactory.to_spec`."""
        spec = super().to_spec()
        if not isinstance(self.task_kernel, str):
            spec["fields"]["task_kernel"] = [component.to_spec() for component in self.task_kernel]
        return spec

    # ---------------------------------------------------------------- what the model is made of

    @property
    def components(self) -> tuple[VaryingComponent, ...]:
        """How coefficients vary."""
        if isinstance(self.task_kernel, str):
            return (VaryingComponent(kernel=self.task_kernel),)
        return tuple(self.task_kernel)

    @property
    def has_covariance(self) -> bool:
        """Whether the coefficients of a component have a learned covariance between them."""
        return "covariance" in (self.amplitude, *(c.amplitude for c in self.components))

    @property
    def needs_t(self) -> bool:  # type: ignore[override]
        """Whether the data must have t."""
        return any(not component.on_tasks for component in self.components)

    @property
    def advice_for_tasks(self) -> str:  # type: ignore[override]
        """What to do with several tasks, unless a component is over tasks."""
        if any(component.on_tasks for component in self.components):
            return ""
        return (
            "Give each task a level of its own by a component over tasks, beside the others in task_kernel: "
            'zoo.VaryingComponent(kernel=zoo.kernels.TaskTree.from_frame(df, [{column}]), features="intercept").'
        )

    @property
    def needs_features(self) -> bool:  # type: ignore[override]
        """Whether the data must have features. The constant one serves where coefficients are independent."""
        return self.has_covariance or not self.has_constant

    @property
    def is_gaussian(self) -> bool:
        """Whether functions can be integrated out in closed form."""
        return type(self.likelihood) is Gaussian

    @property
    def is_linear(self) -> bool:
        """Whether the instance kernel is linear, so that there are coefficients."""
        return self.instance_kernel == "linear"

    @property
    def has_constant(self) -> bool:
        """Whether the constant feature is put before the others."""
        return self.intercept and self.is_linear

    def kernel_of(self, rows: VaryingRows) -> VaryingKernel:
        """The covariance at data: that of theorem 3."""
        fitted = rows.fitted
        instance = None
        if not self.is_linear:
            instance = InstanceKernel(self.instance_kernel, self.instance_lengthscale, fitted)
        parts = parts_of(self.components, fitted, self.amplitude)
        return VaryingKernel(fitted, parts, instance, self.global_coefficients)

    def fixed_parameters(self) -> dict[str, float]:
        """Parameters of the likelihood that are numbers, by name."""
        return dict(self.likelihood.fixed)

    def hyperparameters(self, rows: VaryingRows) -> dict[str, Hyper]:
        """What is learned, by name: where it starts and its kind."""
        fitted = rows.fitted
        assert fitted.scale is not None
        starts = {"noise": 0.5 * fitted.scale.y_scale, "degrees": 5.0, "dispersion": 2.0, "C": 1.0}
        return {**self.kernel_of(fitted).hyperparameters(), **parameter_hypers(self, starts)}

    def values_of(self, learned: dict[str, Any], rows: VaryingRows) -> dict[str, Any]:
        """Learned values and those that are fixed, by name, as numbers or tensors."""
        return {**self.fixed_parameters(), **learned}

    def offset(self, rows: VaryingRows) -> float:
        """What is added to every f: the mean of real responses; nothing, without an intercept."""
        scale = rows.fitted.scale
        assert scale is not None
        return scale.y_mean if self.intercept else 0.0

    # ---------------------------------------------------------------- data

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where t does not serve."""
        y = super().validate(data)
        rows = self.design(data)
        used = {i for part in self.kernel_of(rows).parts for i in part.columns}
        if data.t is not None and used:
            constant = [i for i in sorted(used) if np.ptp(data.t[:, i]) == 0.0]
            if constant:
                name = (data.t_names or ())[constant[0]]
                raise ValueError(
                    f"t has the constant column {name!r}, over which nothing can vary. Leave it out, or name the "
                    f"columns that vary "
                    "in zoo.VaryingComponent(columns=...)."
                )
        for part in self.kernel_of(rows).parts:
            part.check()
            if self.approximation == "hsgp" and not part.has_basis:
                raise ValueError(
                    "task_kernel has no basis of sines: that is for words, for stationary covariances of pm.gp.cov "
                    "whose spectral density PyMC knows, and for kernels of tasks without learned parameters. "
                    'Use approximation "fitc".'
                )
        return y

    def design(self, data: MultiTaskData, context: Context | None = None) -> VaryingRows:
        """The rows with standardized features and t, the constant feature first."""
        # f is on the scale of y, and starts from its mean, where y has mean f.
        real = self.likelihood.responses == "real" and type(self.likelihood).mean is Likelihood.mean
        settings = (self.standardize, self.has_constant, real)
        if context is None:
            return varying_rows(data, None, *settings)
        fitted = context.once("rows", lambda: varying_rows(context.train, None, *settings))
        rows = varying_rows(data, fitted, *settings)
        return rows if context.known is not None else replace(rows, known=None)

    # The library's own models that use t say so by `needs_t`.
    design.leaves_t = True  # type: ignore[attr-defined]

    def sites_refusal(self) -> str:
        """Why expectation propagation and the variational bound cannot do with these fields."""
        if type(self.likelihood) is not Logistic:
            name = type(self.likelihood).__name__
            return f"methods 'ep' and 'variational' are for likelihood='logistic', not {name}."
        return ""

    def vecchia_refusal(self) -> str:
        """Why method "vecchia" does not serve these fields, and which one does; nothing where it serves."""
        name = type(self.likelihood).__name__
        if not self.likelihood.smooth:
            return (
                "method 'vecchia' integrates functions out, exactly or by Laplace's method, which needs a smooth "
                f"likelihood, and {name} has corners. Use 'nuts'."
            )
        exact = "'exact'" if self.is_gaussian else "'laplace'"
        for component in self.components:
            if component.on_tasks:
                return (
                    "method 'vecchia' takes the nearest rows in t, and the kernel of a component is over tasks. Use "
                    f"{exact}, which holds trees as weights."
                )
            if not component.is_word:
                return (
                    "method 'vecchia' knows the covariances that have a word, and a component has one of pm.gp.cov. "
                    "Use 'hsgp' or 'inducing', or a word such as \"matern32\"."
                )
        if self.has_covariance:
            return (
                f"method 'vecchia' knows no covariance of the coefficients. Use {exact}, or "
                'amplitude="per_feature".'
            )
        if not isinstance(self.instance_kernel, str) or self.instance_lengthscale == "fixed":
            return (
                f"method 'vecchia' knows the instance kernels that have a word. Use {exact} or 'inducing', or a word "
                'such as "matern52".'
            )
        return ""

    # ---------------------------------------------------------------- the covariance as arrays

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims."""
        rows = self.design(data)
        fitted = rows.fitted
        names = super().coords(rows)
        kernel = self.kernel_of(fitted)
        for part in kernel.parts:
            names.update(part.coords())
        if self.in_weights(kernel):
            names["basis"] = np.arange(kernel.n_weights)
        elif self.approximation == "none":
            names["point"] = np.arange(len(fitted.points))
        elif self.approximation == "vecchia":
            if rows.known is None:  # elsewhere functions are integrated out
                names["point"] = np.arange(len(fitted.points))
        else:
            names["inducing"] = np.arange(min(self.n_inducing, len(fitted.points)))
        return names

    def in_weights(self, kernel: VaryingKernel) -> bool:
        """Whether the functions are held as weights of fixed features."""
        return self.approximation == "hsgp" or (self.approximation == "none" and kernel.basis_is_exact)

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables, without the model: its matrices may be large."""
        rows = self.design(data)
        result = {name: hyper.dims or () for name, hyper in self.hyperparameters(rows).items()}
        if self.approximation == "vecchia":
            return {**result, **dict.fromkeys(self.fixed_parameters(), ())}
        return {
            **result,
            "function_values": ("point",),
            "basis_weights": ("basis",),
            "inducing_values": ("inducing",),
            "coefficients": ("feature", "task"),
            **dict.fromkeys(self.fixed_parameters(), ()),
        }

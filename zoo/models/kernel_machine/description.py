"""What a kernel machine is made of: its fields, its kernel, and the hyper-parameters of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm

from zoo.core.factory import ModelFactory
from zoo.core.observed import unit_of_y
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.kernels import describe, restore
from zoo.kernels.arguments import psd_matrix, unnamed
from zoo.kernels.linear_form import linear_form
from zoo.kernels.mean_regularised import MeanRegularised
from zoo.kernels.parameters import kernel_parameters, with_parameters
from zoo.kernels.task_kernel import TaskKernel
from zoo.latent.coordinates import (
    Hyper,
    parameter_hypers,
    require_one_value_for_all_tasks,
)
from zoo.likelihoods.laws import Law, LogNormal
from zoo.support.arrays import as_array
from zoo.support.checks import finite_matrix, one_of, positive

__all__ = ["MOST_REPORTED", "KernelMachineDescription"]

# Tasks up to which posteriors report their covariance whatever the kernel: of 2,000 tasks it takes 32 MB.
MOST_REPORTED = 2_000

# Features up to which a matrix turns coefficients into those of other units.
_MOST_IN_UNITS = 2_000
# Where the parameters of likelihoods start, and their prior medians.
_STARTS = {"noise": 1.0, "degrees": 5.0, "dispersion": 2.0, "C": 1.0}


@dataclass(frozen=True, kw_only=True)
class KernelMachineDescription(ModelFactory):
    """Fields of :class:`zoo.MultiTaskKernelMachine`, and what they make of the data. That class infers."""

    kernel: Any = "mean_regularised"
    lam: float | str = "learned"
    Q: Any = "identity"
    learn: tuple[str, ...] = ()
    amplitude: float | str = "learned"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_value_for_all_tasks(self)
        for name in ("amplitude", "lam"):
            value = getattr(self, name)
            if isinstance(value, str):
                one_of(value, ("learned",), name)
            elif np.ndim(value) == 0 and value == 0 and name == "lam":
                raise ValueError(
                    "lam is 0, where all tasks are one. Give a small number, as 1e-6, with an amplitude that is held; "
                    "or use PooledTasks."
                )
            else:
                positive(value, name)
        if not isinstance(self.lam, str) and self.lam > 1.0:
            raise ValueError(
                f'lam is {self.lam:g}. Give a number above 0 and at most 1 (1 learns each task alone), or "learned".'
            )
        for name in ("lam", "amplitude"):
            if not isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, float(value))
        self._freeze_Q()
        self._freeze_kernel()

    def _freeze_Q(self) -> None:
        if isinstance(self.Q, str):
            one_of(self.Q, ("identity", "learned"), "Q")
            return
        if np.ndim(as_array(self.Q, "Q")) != 2:
            raise ValueError(f'Q is {self.Q!r}. Give "identity", "learned", or a matrix (feature, feature).')
        matrix = finite_matrix(unnamed(self.Q, "Q", "the order of the features"), "Q", None)
        psd_matrix(matrix, "Q")  # it may be singular, of principal components
        object.__setattr__(self, "Q", tuple(tuple(float(v) for v in row) for row in matrix))

    def _freeze_kernel(self) -> None:
        kernel = self.kernel
        learn = (self.learn,) if isinstance(self.learn, str) else self.learn
        if not isinstance(learn, tuple | list):
            raise TypeError(f"learn is {learn!r}. Give names of parameters of the kernel, as ('lam', 'ls').")
        learn = tuple(learn)
        object.__setattr__(self, "learn", learn)
        if isinstance(kernel, str):
            one_of(kernel, ("mean_regularised",), "kernel")
            if learn:
                raise ValueError('learn is for a kernel handed in. Use lam="learned" for "mean_regularised".')
            return
        if self.lam != "learned":
            raise ValueError(
                'lam is for kernel="mean_regularised". Give it to the kernel that you hand in, or name it in `learn`.'
            )
        if self.Q != "identity":
            raise ValueError('Q is for kernel="mean_regularised". Give it to the kernel that you hand in.')
        if isinstance(kernel, tuple | list):
            kernel = restore(kernel)
        if not isinstance(kernel, pm.gp.cov.BaseCovariance):
            raise TypeError(
                f'kernel is a {type(kernel).__name__}. Give "mean_regularised", a kernel of zoo.kernels, or a '
                "covariance of pm.gp.cov on [x, task]."
            )
        try:
            object.__setattr__(self, "kernel", describe(kernel, "kernel"))
        except TypeError:
            if learn:
                raise
            # A covariance of the user's own: it serves, but no file can describe it (`to_spec` says so).
            return
        known = kernel_parameters(self.kernel)
        for name in learn:
            one_of(name, known, "learn")

    def to_spec(self) -> dict[str, Any]:
        """See :meth:`ModelFactory.to_spec`; raises for a covariance of the user's own class."""
        if isinstance(self.kernel, pm.gp.cov.BaseCovariance):
            try:
                describe(self.kernel, "kernel")
            except TypeError as error:
                raise TypeError(
                    f"{str(error).split('. ', maxsplit=1)[0]}. A file cannot hold it: make it in the hook "
                    "`covariance_function(parameters, data)` of a subclass."
                ) from None
        return super().to_spec()

    # ---------------------------------------------------------------- the kernel

    # ---------------------------------------------------------------- units

    def units(self, data: MultiTaskData) -> Units:
        """The units of features and responses in which the word's kernel is; those of the data of any other kernel.

        A metric Q, or an amplitude, that was handed over is for the features of the data; and where these are very
        many, they are taken as they are.
        """
        own: Any = data.units
        default = all(isinstance(value, str) for value in (self.kernel, self.Q, self.amplitude))
        changed = type(self).covariance_function is not KernelMachineDescription.covariance_function
        if own is None or not default or changed or data.n_features > _MOST_IN_UNITS:
            return Units.of_size(data.n_features)
        return own

    def offset(self, data: MultiTaskData) -> np.ndarray:
        """Coefficients (D,) of the level, around which the kernel's functions are."""
        found: np.ndarray = self.units(data).coefficients(np.zeros(data.n_features))
        return found

    def level(self, data: MultiTaskData) -> float:
        """What all functions are where those of the kernel are 0, in every row."""
        units = self.units(data)
        return 0.0 if units.level is None else units.y_mean

    def hyperparameters(self, data: MultiTaskData) -> dict[str, Hyper]:
        """What is learned, by name: where it starts and its kind."""
        result = {}
        if isinstance(self.kernel, str):
            if self.lam == "learned":
                result["lam"] = Hyper(0.5, "unit")
            if self.Q == "learned":
                result["Q"] = Hyper(np.eye(data.n_features), "covariance")
        elif self.learn:
            known = kernel_parameters(self.kernel)
            kinds = {"nonnegative": "positive"}
            result = {
                name: Hyper(known[name].value, kinds.get(known[name].kind, known[name].kind))
                for name in self.learn
            }
        if self.amplitude == "learned":
            result["amplitude"] = Hyper(unit_of_y(data))
        return {**result, **parameter_hypers(self, self._starts(data))}

    def _starts(self, data: MultiTaskData | None) -> dict[str, float]:
        """Where parameters of likelihoods start: in units of the response."""
        unit, powers = 1.0 if data is None else unit_of_y(data), self.likelihood.in_units_of_y
        return {name: value * unit ** powers.get(name, 0) for name, value in _STARTS.items()}

    def law_of(self, name: str, data: MultiTaskData | None = None) -> Law:
        """Prior of a learned parameter of the likelihood: that of the other hyper-parameters, if none is given."""
        given = getattr(self.likelihood, name)
        if given == "learned" and name in _STARTS:
            return LogNormal(np.log(self._starts(data)[name]), 1.0)
        return super().law_of(name, data)

    def fixed_parameters(self) -> dict[str, Any]:
        """Fields that are numbers, by name."""
        names = ["amplitude", "lam"] if isinstance(self.kernel, str) else ["amplitude"]
        result = {name: getattr(self, name) for name in names if not isinstance(getattr(self, name), str)}
        result.update(self.likelihood.fixed)
        if isinstance(self.Q, tuple):
            result["Q"] = np.array(self.Q)
        return result

    def covariance_function(self, parameters: dict[str, Any], data: MultiTaskData) -> Any:
        """The kernel on [x, task], without the amplitude; ``parameters`` are numbers or tensors by name."""
        if isinstance(self.kernel, str):
            return MeanRegularised(
                data.n_features + 1,
                data.n_tasks,
                lam=parameters["lam"],
                Q=parameters.get("Q"),
                task_names=data.task_names,
            )
        if isinstance(self.kernel, tuple):
            return with_parameters(self.kernel, {name: parameters[name] for name in self.learn})
        return self.kernel

    def _kernel_at_start(self, data: MultiTaskData) -> Any:
        start = {name: h.value for name, h in self.hyperparameters(data).items()}
        return self.covariance_function({**self.fixed_parameters(), **start}, data)

    def linear_form(self, kernel: Any, data: MultiTaskData) -> Any:
        """The kernel as ``B (x) Q`` where it is linear in the features, else None."""
        form, units = linear_form(kernel, data.n_features), self.units(data)
        if form is None or units.plain:
            return form
        # The unit of the response is that of the amplitude.
        half = units.turned(np.eye(data.n_features)) / units.y_scale
        return replace(form, half=half)

    def is_linear(self, data: MultiTaskData) -> bool:
        """Whether coefficients of the features represent the functions."""
        return self.linear_form(self._kernel_at_start(data), data) is not None

    def is_product(self, data: MultiTaskData) -> bool:
        """Whether the kernel is a task matrix times a kernel of the features."""
        kernel = self._kernel_at_start(data)
        return isinstance(kernel, TaskKernel) and kernel.is_product and kernel.base is not None

    def task_matrix(self, kernel: Any, data: MultiTaskData) -> Any:
        """The matrix B of the tasks (T, T), or None where the kernel has none."""
        form = self.linear_form(kernel, data)
        if form is not None:
            return form.task_matrix
        return kernel.task_matrix() if isinstance(kernel, TaskKernel) and kernel.is_product else None

    def reported_task_matrix(self, kernel: Any, data: MultiTaskData) -> Any:
        """The matrix of :meth:`task_matrix` where posteriors report the covariance of tasks, else None.

        Of more than 2,000 tasks they do not, where loadings and hyper-parameters say the same without T x T numbers.
        """
        form = self.linear_form(kernel, data)
        if data.n_tasks > MOST_REPORTED and form is not None and form.loadings is not None:
            return None
        return self.task_matrix(kernel, data)

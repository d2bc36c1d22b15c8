"""What the max-margin models of Li, Zhu & Chen (2014) share: losses, weights of rows, the covariance of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from zoo.core.context import Context
from zoo.core.fit import Fit
from zoo.core.hooks import SHARED, ModelData
from zoo.core.joining import of_some_task
from zoo.core.methods import Result, Run, UnsupportedMethodError
from zoo.core.prior_density import coefficients_density, covariance_density, scale_density
from zoo.core.shared import SharedCoefficients
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.distributions.inverse_wishart_cholesky import InverseWishartCholesky
from zoo.inference.gibbs.matrix_normal import CovariancePrior, MatrixNormalKernel
from zoo.inference.run.chains import run_chains
from zoo.kernels.arguments import unnamed
from zoo.likelihoods.coding import encode_labels
from zoo.models.max_margin.units import KernelInUnits, UnitsOfTasks
from zoo.support.checks import covariance, one_of, positive

__all__ = ["MaxMarginBase"]

_WORDS = ("learned", "identity")


@dataclass(frozen=True, kw_only=True)
class MaxMarginBase(SharedCoefficients):
    """Fields, likelihood and task covariance; see the subclasses."""

    paper: ClassVar[str] = "li2014"
    prior_order: ClassVar[tuple[str, ...]] = ("covariance_scale", "feature_cov", "task_cov", "coefficients")
    shares_tasks: ClassVar[bool] = True
    for_many_tasks: ClassVar[str] = (
        "A covariance of tasks grows with their square: NIWLinear(likelihood='hinge') learns a law of the tasks in its "
        "place, at a cost in proportion to them."
    )

    likelihood: Any = "hinge"
    class_weight: Any = None
    task_cov: Any = "learned"
    task_nu: float | None = None
    task_correlation: float | None = None
    task_scale_matrix: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._freeze_class_weight()
        self._check_prior("task")

    def _check_prior(self, which: str) -> None:
        """Checks of the fields of one covariance's prior."""
        self._freeze_covariance(f"{which}_cov", _WORDS)
        if getattr(self, f"{which}_nu") is not None:
            positive(getattr(self, f"{which}_nu"), f"{which}_nu")
        number, array = f"{which}_correlation", f"{which}_scale_matrix"
        correlation, scale = getattr(self, number), getattr(self, array)
        if correlation is not None and scale is not None:
            raise ValueError(f"{number} and {array} both say what the prior expects. Give one of them.")
        if correlation is not None:
            alone = isinstance(correlation, int | float | np.number)
            if not alone or not 0 <= correlation < 1:
                matrix = f" A matrix is for {array}." if np.ndim(correlation) else ""
                raise ValueError(
                    f"{number} is {correlation!r}. Give a number, at least 0 and below 1.{matrix}"
                )
            object.__setattr__(self, number, float(correlation))
        if scale is not None:
            if np.ndim(scale) == 0:
                raise ValueError(f"{array} is {scale!r}. Give a matrix; a number is for {number}.")
            rows = tuple(tuple(float(v) for v in row) for row in covariance(scale, array))
            object.__setattr__(self, array, rows)

    def _freeze_class_weight(self) -> None:
        """Turn ``class_weight`` into None, "balanced" or the pair (negative, positive)."""
        value = self.class_weight
        if value is None:
            return
        if not self.likelihood.labels:
            raise ValueError(
                f"class_weight is for labels, and {type(self.likelihood).__name__} is for other responses. "
                "Use weights of rows in the data."
            )
        if isinstance(value, str):
            one_of(value, ("balanced",), "class_weight")
            return
        if isinstance(value, Mapping | pd.Series):
            known: dict[Any, int] = {-1: 0, 0: 0, 1: 1}
            pair = [1.0, 1.0]
            given: set[int] = set()
            for label, weight in value.items():
                one_of(label, known, "the labels of class_weight")
                if known[label] in given:
                    raise ValueError(
                        f"class_weight names the class of {label!r} twice. Give each class one weight."
                    )
                given.add(known[label])
                pair[known[label]] = weight
        else:
            pair = (
                list(unnamed(value, "class_weight", "the order (negative, positive)"))
                if np.ndim(value) == 1
                else []
            )
        if len(pair) != 2:
            raise ValueError(
                f"class_weight is {value!r}. "
                'Give "balanced", a pair (negative, positive), or a dict of label to weight.'
            )
        for weight in pair:
            positive(weight, "class_weight")
        object.__setattr__(self, "class_weight", (float(pair[0]), float(pair[1])))

    def weight_argument(self, data: MultiTaskData) -> str:
        """The argument that gives the rows weights, or nothing."""
        return super().weight_argument(data) or ("" if self.class_weight is None else "class_weight")

    def design(self, data: MultiTaskData, context: Context | None = None) -> MultiTaskData:
        """The data with ``class_weight`` in the weights of their rows, and shared features set apart."""
        data = super().design(data, context)
        if self.class_weight is None or context is not None:
            return data
        positives = encode_labels(data) > 0
        if self.class_weight == "balanced":
            n = np.bincount(data.task, minlength=data.n_tasks)
            n_positive = np.bincount(data.task, weights=positives, minlength=data.n_tasks)
            of_class = np.where(positives, n_positive[data.task], (n - n_positive)[data.task])
            weight = n[data.task] / (2.0 * of_class)
        else:
            weight = np.where(positives, self.class_weight[1], self.class_weight[0])
        return replace(data, weight=weight if data.weight is None else weight * data.weight)

    design.leaves_t = True  # type: ignore[attr-defined]

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where a given covariance, scale or nu does not fit the data."""
        y = super().validate(data)
        self._require_fitting_prior("task", data.n_tasks)
        return y

    def _require_fitting_prior(self, which: str, size: int) -> None:
        for field in (f"{which}_cov", f"{which}_scale_matrix"):
            value = getattr(self, field)
            if isinstance(value, tuple) and len(value) != size:
                raise ValueError(
                    f"{field} is {len(value)} x {len(value)}, but the data have {size} {which}s. "
                    f"Give a {size} x {size} matrix."
                )
        nu = self._nu(which, size)
        if nu <= size - 1:  # finite since __post_init__
            raise ValueError(f"{which}_nu is {nu:g}, but with {size} {which}s it must be above {size - 1}.")

    def _kernel_fields(self, data: MultiTaskData, y: np.ndarray) -> dict[str, Any]:
        """What an engine takes of prepared data, coded y and these fields."""
        return {
            "inputs": data.inputs,
            "row": data.row,
            "y": y,
            "task": data.task,
            "weight": data.weight,
            "augmentation": self.augmentation(data),
            "n_tasks": data.n_tasks,
            "task_prior": self._engine_task_prior(data.n_tasks),
        }

    def _require_new_task(self, priors: Any) -> None:
        """Raise where the extension to a new task was derived for other priors, or none is defined."""
        if type(self).priors is not priors:
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `priors`. Override `new_task` to match it."
            )
        if not isinstance(self.task_cov, str):
            raise UnsupportedMethodError(
                "task_cov was given as a matrix, which says nothing of a new task. "
                'Use task_cov="learned" or "identity".'
            )

    # ---------------------------------------------------------------- inference

    def gibbs_kernel(self, data: MultiTaskData, y: np.ndarray, **options: Any) -> Any:
        """The Markov kernel of the Gibbs sampler, for prepared data and coded y."""
        units = self.units(data)
        if units.plain:
            return self.kernel_of(data, y, **options)
        inside = replace(self, likelihood=self.likelihood.divided(units.own.y_scale))
        return KernelInUnits(inside.kernel_of(units.rows(data), units.own.apply_y(y), **options), units)

    def kernel_of(self, data: MultiTaskData, y: np.ndarray, **options: Any) -> MatrixNormalKernel:
        """The same for data whose units are those of the default priors."""
        raise NotImplementedError

    # ---------------------------------------------------------------- units

    def units(self, data: MultiTaskData) -> UnitsOfTasks:
        """The units in which the laws of the coefficients are, of prepared data.

        Numbers for the covariance of features are in units of the data, and so are those for the covariance of tasks,
        in which the unit of the response is.
        """
        own: Any = data.units
        if own is None or any(
            _is_given(getattr(self, f"feature_{n}", None)) for n in ("cov", "scale_matrix")
        ):
            own = Units.of_size(data.n_features)
        elif any(_is_given(getattr(self, f"task_{n}")) for n in ("cov", "scale_matrix")):
            own = replace(own, y_mean=0.0, y_scale=1.0)
        shared: Any = None
        if data.shared is not None and data.units is not None:
            unit, scale, level = data.units.y_scale, data.shared_units.x_scale, data.shared_units.level
            default = next(f.default for f in fields(self) if f.name == "shared_scale")
            if not isinstance(self.shared_scale, str) and self.shared_scale != default:
                scale = np.where([name in data.effects for name in data.shared_names], scale, unit)
            shared = Units(np.zeros(len(scale)), scale, own.y_mean, unit, level)
        return UnitsOfTasks(own, shared, self.likelihood.in_units_of_y)

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> Any:
        """The posterior with the units that the coefficients of new tasks have."""
        units = self.units(self.design(fit.data.take([0]), fit.context))
        return fit.posterior.assign_attrs(units=units)

    def shared_part(self, data: ModelData) -> Any:
        """Shared features times their coefficients, in the units of the data."""
        units = self.units(data.source)
        if units.plain or units.shared is None:
            return super().shared_part(data)
        features: Any = self.engine_shared(data.source)
        scale: Any = features.scale
        if features.learned:
            scale = pm.HalfNormal("shared_scale", features.scale)
        scale = units.shared.slope * scale
        if features.n_effects:
            spread = features.effect_spread * units.shared.y_scale
            of_effects = pm.HalfNormal("effect_scale", spread, dims="effect")
            scale = pt.where(features.effect == 0, scale, of_effects[np.maximum(features.effect - 1, 0)])
        centre = units.shared.coefficients(np.zeros(len(units.shared.slope)))
        return data.of_shared(pm.Normal(SHARED, centre, scale, dims="shared_feature"))

    shared_part.is_linear = True  # type: ignore[attr-defined]

    def _fit_gibbs(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        threads: int | None = None,
        thin: int = 1,
        start: Fit | None = None,
        group_moves: bool = True,
        paper_scaling: bool = False,
    ) -> Result:
        """``paper_scaling``: the paper's rescaling of the task covariance; the draws are then of no posterior."""
        kernel = self.gibbs_kernel(
            data, y, group_moves=group_moves and not paper_scaling, paper_scaling=paper_scaling
        )
        starts = None if start is None else _last_draws(start, data)
        return Result(
            *run_chains(kernel, starts=starts, cores=cores, threads=threads, thin=thin, **run._asdict())
        )

    # ---------------------------------------------------------------- priors

    def _nu(self, which: str, size: int) -> float:
        given = getattr(self, f"{which}_nu")
        return size + 1.0 if given is None else float(given)

    def _given(self, which: str, size: int) -> np.ndarray | None:
        value = getattr(self, f"{which}_cov")
        if isinstance(value, str):
            return None if value == "learned" else np.eye(size)
        return np.array(value)

    def _prior(self, which: str, size: int) -> CovariancePrior:
        """The covariance's prior, as the engine takes it."""
        correlation, scale = getattr(self, f"{which}_correlation"), getattr(self, f"{which}_scale_matrix")
        if correlation is not None:
            scale = _exchangeable(correlation, size)
        return CovariancePrior(
            nu=self._nu(which, size),
            scale=None if scale is None else np.array(scale),
            given=self._given(which, size),
        )

    def _engine_task_prior(self, n_tasks: int) -> CovariancePrior:
        """That of tasks, for the engine."""
        return self._prior("task", n_tasks)

    def _factor(self, which: str, size: int) -> Any:
        """A matrix ``L`` with ``L L'`` the covariance, added to the model where it is learned."""
        prior = self._prior(which, size)
        if prior.given is not None:
            return pt.as_tensor(np.linalg.cholesky(prior.given))
        scale_chol = np.eye(size) if prior.scale is None else np.linalg.cholesky(prior.scale)
        dims = (which, f"{which}_bis")
        return InverseWishartCholesky(f"_{which}_chol", prior.nu, scale_chol=scale_chol, dims=dims)

    def _parameters_of_new(
        self, posterior: Any, size: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Parameters of the likelihood for unseen tasks: those that were found, of some task where each has its own."""
        found = {name: posterior[name].to_numpy() for name in self.likelihood.learned}
        return {name: v if v.ndim == 2 else of_some_task(v, size, rng) for name, v in found.items()}

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Densities of the covariances and of the coefficients given them."""
        D, T = data.n_features, data.n_tasks
        values = self.units(data).inwards(values)
        scale = values.get("covariance_scale", 1.0)
        if name == "covariance_scale":
            return scale_density(scale, D, T)
        if name == "feature_cov":
            return covariance_density(values[name], self._prior("feature", D), scale)
        if name == "task_cov":
            return covariance_density(values[name], self._prior("task", T), 1.0 / scale)
        if name == "coefficients":
            columns = values["task_cov"] if "task_cov" in values else self._given("task", T)
            return coefficients_density(values[name], self._row_cov(data, values), columns)
        return None

    def _row_cov(self, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Covariance of features, as a graph of named variables."""
        return values["feature_cov"] if "feature_cov" in values else self._given("feature", data.n_features)

    def _new_coefficients(
        self, eta: np.ndarray, omega: np.ndarray, size: int, rng: np.random.Generator, units: Units
    ) -> np.ndarray:
        r"""Coefficients of unseen tasks under the prior's extension by one task.

        With Dawid's parametrisation of the inverse-Wishart (delta = nu - T + 1 kept) and the scale extended by one
        task to blocks :math:`\Psi, \psi_{12}, \psi_{22}`, the extended covariance has
        :math:`R_{22 \cdot 1} = s \sim IG((\nu_R + 1)/2, \psi_{22 \cdot 1}/2)` and
        :math:`R_{11}^{-1} R_{12} = b \sim N(\Psi^{-1} \psi_{12}, s \Psi^{-1})` independent of :math:`R_{11}`, so that
        :math:`\eta_{new} \sim N(\eta b, s\, \Omega)`.

        ``task_correlation`` extends to the new task, whose mean is then near the average task's. Without
        it, :math:`\psi_{12} = 0` and :math:`\psi_{22}` is the average scale: the mean is zero. The paper's prior has
        no population mean, so such a task is predicted at the mean of standardized data, with wide intervals.

        Parameters
        ----------
        eta : (chain, draw, D, T)
        omega : (chain, draw, D, D)
            Covariance of features on the scale of the priors.
        size : int
            How many new tasks.
        units : Units
            Those in which the priors are, where the coefficients are for features of the data.

        Returns
        -------
        (chain, draw, D, size)
        """
        chains, draws, D, T = eta.shape
        factor = np.linalg.cholesky(omega)[:, :, None]
        shape = (chains, draws, size)
        own = np.squeeze(factor @ rng.standard_normal((*shape, D, 1)), -1)
        if self.task_cov == "learned":
            prior = self._prior("task", T)
            matrix = np.eye(T) if prior.scale is None else prior.scale
            correlation = self.task_correlation or 0.0
            towards = np.linalg.solve(matrix, np.full(T, correlation))
            own_scale = np.mean(np.diag(matrix)) - correlation * towards.sum()
            scale = 0.5 * own_scale / rng.gamma((prior.nu + 1.0) / 2.0, size=shape)[..., None]
            root = np.linalg.cholesky(np.linalg.inv(matrix))
            shared = towards + np.sqrt(scale) * (rng.standard_normal((*shape, T)) @ root.T)
            known = np.moveaxis(units.white(np.moveaxis(eta, 2, 0)), 0, 2)
            own = np.sqrt(scale) * own + np.einsum("cdft,cdnt->cdnf", known, shared)
        return np.moveaxis(units.coefficients(np.moveaxis(own, 3, 0)), 0, 2)


def _is_given(value: Any) -> bool:
    """Whether a field holds numbers of the user's: a word, or None, is a default law."""
    return value is not None and not isinstance(value, str)


def _exchangeable(correlation: float, size: int) -> np.ndarray:
    """Unit variances and one correlation."""
    return (1.0 - correlation) * np.eye(size) + correlation


def _last_draws(fit: Fit, data: MultiTaskData) -> list[dict[str, np.ndarray]]:
    """Last draw of each chain of a fit of the same tasks and features, as starting values."""
    before = fit.factory.design(fit.data)
    if before.task_names != data.task_names or before.feature_names != data.feature_names:
        raise ValueError("start is a fit of other tasks or features. Give one with the same names.")
    posterior = fit.posterior.isel(draw=-1)
    names = [str(name) for name in posterior.data_vars]
    return [
        {name: posterior[name].isel(chain=i).to_numpy() for name in names}
        for i in range(posterior.sizes["chain"])
    ]

"""Varying-coefficient models with isotropic Gaussian-process priors (Bussas, Sawade, Scheffer & Landwehr 2015)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.checks import flag, one_of, positive, whole_number
from zoo.data import MultiTaskData
from zoo.factory import Method, ModelFactory, Run
from zoo.fit import Fit
from zoo.inference.function_conditional import JITTER
from zoo.inference.vecchia_order import ORDERS
from zoo.kernels import describe, restore
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.gaussian import Gaussian
from zoo.model_data import ModelData
from zoo.models import varying_fit as engine
from zoo.models.kernel_hyper import (
    Coordinates,
    Hyper,
    parameter_hypers,
    require_one_value_for_all_tasks,
)
from zoo.models.kernel_rows import conditional_function, function_moments
from zoo.models.kernel_spaces import matrix_root
from zoo.models.prior_density import standard_normal_density
from zoo.models.varying_component import AMPLITUDES, KERNELS, VaryingComponent, as_component
from zoo.models.varying_kernel import InstanceKernel, VaryingKernel
from zoo.models.varying_parts import parts_of
from zoo.models.varying_rows import VaryingRows, varying_rows
from zoo.models.varying_vecchia import functions_at
from zoo.models.varying_vecchia_terms import refusal
from zoo.models.varying_white import white_values, white_weights
from zoo.models.wide_data import require_narrow

__all__ = ["VaryingCoefficientGP"]

_APPROXIMATIONS = ("none", "hsgp", "fitc", "vfe", "vecchia")
_SETTINGS = (
    "approximation",
    "n_inducing",
    "placement",
    "inducing_seed",
    "n_neighbours",
    "n_neighbours_predict",
    "ordering",
    "ordering_seed",
)


@dataclass(frozen=True, kw_only=True)
class VaryingCoefficientGP(ModelFactory):
    r"""Linear or kernel models whose coefficients vary over place, time, or the nodes of a tree, as Gaussian processes.

    .. math::

        y_n \sim p(y | f_n), \quad f_n = x_n' w(t_n) + x_n' g, \quad w_d \sim GP(0, a_d^2 k_T(t, t')), \quad g_d \sim
        N(0, s^2)

    so that f is a Gaussian process with the product kernel :math:`k_T(t, t') x'x'` (theorem 3 and 4 of the paper;
    there ``g`` is absent, and the a_d are one). With another ``instance_kernel`` than "linear" the product is
    :math:`k_T(t, t') k_X(x, x')`. Features and t are standardized inside, by the rows of the fit, and a constant
    feature, "intercept", is put before them; real responses are centred at their mean. ``fit.coefficients(t)`` gives
    the coefficients on the user's scale.

    Parameters
    ----------
    task_kernel : str, pm.gp.cov.Covariance, kernel of tasks, zoo.VaryingComponent, or a sequence of these
        How coefficients vary: a word ("matern12", "matern32", "matern52", "squared_exponential") or a covariance over
        all columns of t; a kernel of tasks (:class:`zoo.kernels.TaskTree`, ``Tree``, ``GraphLaplacian``, ...) over
        ``task``. Several are added up, place and time say; :class:`zoo.VaryingComponent` says which columns, and which
        features vary.
    instance_kernel : "linear", word or pm.gp.cov.Covariance
        Covariance of the features.
    instance_lengthscale : "shared", "per_feature", "fixed" or float
        What is learned of an instance kernel that is a word: one lengthscale, or one a feature. Of a covariance:
        everything, or "fixed".
    likelihood : str or Likelihood
        Law of y given f; counts have a logarithmic link.
    amplitude : "shared", "per_feature", "covariance"
        Whether the coefficients have one prior scale (isotropic, as in the paper) or one each; or a full covariance of
        the coefficients, the model of Gelfand et al. (2003), for few rows.
    intercept : bool
        Whether there is a constant feature. Without it neither features nor responses are centred. Of an instance
        kernel that is not linear it is no part.
    global_coefficients : bool
        Whether to add coefficients that do not vary, with a learned scale. False: the paper's model.
    standardize : bool
        Whether features and t are standardized.
    approximation : {"none", "hsgp", "fitc", "vfe", "vecchia"}
        Prior of the functions that ``build`` makes, and that methods "laplace" and "nuts" take: exact, a basis of
        sines, or inducing points. Methods "exact", "hsgp", "inducing" and "vecchia" bring their own; the model that
        ``build`` makes for "vecchia" is the exact one.
    n_inducing, placement, inducing_seed : int, "kmeans" or "random", int
        Inducing points.
    n_neighbours, n_neighbours_predict : int
        Of method "vecchia": rows that each row is conditioned on in the evidence, and that predictions are made of.
    ordering, ordering_seed : "random" or "maxmin", int
        Of method "vecchia": the order in which rows are conditioned on each other. "maxmin", each row as far as can be
        from those before it, takes time with the square of the rows.

    Notes
    -----
    Posterior variables: hyper-parameters (``amplitude``, ``lengthscale`` in units of standardized t, ``noise``,
    ``global_scale``...; with several components their names stand before them), and the functions: ``function_values``
    (point) at the distinct rows, ``basis_weights`` (basis), or ``inducing_values`` (inducing), whitened; none by
    method "vecchia", which integrates them out. Where all components are over tasks, ``coefficients`` (feature, task)
    too. Methods other than "nuts" give independent draws of the functions at hyper-parameters of maximal evidence.

    References
    ----------
    Bussas, M., Sawade, C., Scheffer, T. and Landwehr, N. (2015). Varying-coefficient models with isotropic Gaussian
    process priors. arXiv 1508.07192; Machine Learning 106 (2017). Propositions 2 and 6 corrected: the tree's
    covariance is printed transposed.
    """

    closed_leave_one_out: ClassVar[tuple[str, ...]] = ("exact", "hsgp")
    paper: ClassVar[str] = "bussas2015"
    allows_empty_tasks: ClassVar[bool] = True
    jitter: ClassVar[float] = JITTER
    representations: ClassVar[tuple[str, ...]] = (
        "function_values",
        "basis_weights",
        "inducing_values",
        "coefficients",
    )

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
    inducing_seed: int = 0
    n_neighbours: int = 30
    n_neighbours_predict: int = 100
    ordering: str = "random"
    ordering_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_value_for_all_tasks(self)
        one_of(self.approximation, _APPROXIMATIONS, "approximation")
        one_of(self.placement, ("kmeans", "random"), "placement")
        for name in ("standardize", "intercept", "global_coefficients"):
            flag(getattr(self, name), name)
        one_of(self.ordering, ORDERS, "ordering")
        for name in ("n_inducing", "inducing_seed", "n_neighbours", "n_neighbours_predict", "ordering_seed"):
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
        if self.approximation == "vfe" and not self._gaussian:
            raise ValueError(
                f'approximation "vfe" is a bound for Gaussian noise, and likelihood is {self.likelihood!r}. Use "fitc".'
            )
        if self.approximation == "hsgp":
            self._require_basis()
        if self.approximation == "vecchia" and (why := refusal(self)):
            raise ValueError(f'approximation is "vecchia", but {why}')

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
                    f"coefficients a feature. Use "
                    'features="all" and amplitude="shared", or instance_kernel="linear".'
                )
        if "covariance" in (self.amplitude, *(c.amplitude for c in self.components)):
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
    def needs_t(self) -> bool:  # type: ignore[override]
        """Whether the data must have t."""
        return any(not component.on_tasks for component in self.components)

    @property
    def _gaussian(self) -> bool:
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
        """What is added to every f: the mean of real responses; nothing, where a linear model has no intercept."""
        scale = rows.fitted.scale
        assert scale is not None
        return scale.y_mean if self.has_constant or not self.is_linear else 0.0

    # ---------------------------------------------------------------- data

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where t does not serve."""
        y = super().validate(data)
        rows = self.prepare(data)
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

    def prepare(
        self, data: MultiTaskData, train: MultiTaskData | None = None, known: MultiTaskData | None = None
    ) -> VaryingRows:
        """The rows with standardized features and t, the constant feature first."""
        # f is on the scale of y, and starts from its mean, where y has mean f.
        real = self.likelihood.responses == "real" and type(self.likelihood).mean is Likelihood.mean
        return varying_rows(
            data, train if known is not None else None, self.standardize, self.has_constant, real
        )

    # The library's own models that use t say so by `needs_t`.
    prepare.leaves_t = True  # type: ignore[attr-defined]

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims."""
        rows = self.prepare(data)
        fitted = rows.fitted
        names = super().coords(rows)
        kernel = self.kernel_of(fitted)
        for part in kernel.parts:
            names.update(part.coords())
        if self._in_weights(kernel):
            names["basis"] = np.arange(kernel.n_weights)
        elif self.approximation == "none":
            names["point"] = np.arange(len(fitted.points))
        elif self.approximation == "vecchia":
            if rows.known is None:  # elsewhere functions are integrated out
                names["point"] = np.arange(len(fitted.points))
        else:
            names["inducing"] = np.arange(min(self.n_inducing, len(fitted.points)))
        return names

    def _in_weights(self, kernel: VaryingKernel) -> bool:
        """Whether the functions are held as weights of fixed features."""
        return self.approximation == "hsgp" or (self.approximation == "none" and kernel.basis_is_exact)

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables, without the model: its matrices may be large."""
        rows = self.prepare(data)
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

    # ---------------------------------------------------------------- hooks

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Hyper-parameters, and what holds the functions, non-centred."""
        source: Any = data.source
        rows: VaryingRows = source.fitted
        learned = Coordinates(self.hyperparameters(rows)).random()
        for name, value in self.fixed_parameters().items():
            pm.Deterministic(name, pt.constant(value, dtype="float64"))
        kernel = self.kernel_of(rows)
        for part in kernel.parts:
            name = part.name("coefficient_cov")
            if name in learned:
                dims = (part.feature_dim, f"{part.feature_dim}_bis")
                learned[name] = pm.Deterministic(name, learned[name], dims=dims)
        values = self.values_of(learned, rows)
        result: dict[str, Any] = {
            "kernel": kernel.at(values), "amplitude": pt.constant(1.0), "values": values
        }  # fmt: skip
        if self._in_weights(kernel):
            root = pt.exp(0.5 * kernel.log_variances(values))
            white = white_weights(self, data, kernel, root, values.get("noise"))
            weights = pm.Deterministic("basis_weights", root * white, dims="basis")
            if kernel.basis_is_exact:
                by_task = pt.dot(pt.constant(kernel.task_features(rows)), weights)
                pm.Deterministic("coefficients", by_task, dims=("feature", "task"))
            return {**result, "basis_weights": weights}
        if self.approximation == "vecchia" and source.known is not None:
            return result
        if self.approximation in ("none", "vecchia"):
            root = matrix_root(result["kernel"](pt.constant(rows.points)))
            white = white_values(self, data, root, values.get("noise"))
            return {
                **result,
                "function_values": pm.Deterministic("function_values", pt.dot(root, white), dims="point"),
            }
        return {**result, "inducing_values": pm.Normal("inducing_values", dims="inducing")}

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Density of the weights of basis functions; that of function values needs a matrix that may be singular."""
        if name != "basis_weights":
            return None
        rows: Any = data
        numbers = self.values_of(dict(values), rows.fitted)
        sd = pt.exp(0.5 * self.kernel_of(rows.fitted).log_variances(numbers))
        return standard_normal_density(values[name], sd)

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Function value of every row; elsewhere than at the rows of the fit, a draw given what holds the functions."""
        rows: Any = data.source
        offset = self.offset(rows)
        if "basis_weights" in priors:
            kernel = self.kernel_of(rows)
            f = pt.dot(pt.constant(kernel.features(rows, slice(0, rows.n_rows))), priors["basis_weights"])
            f = engine.with_new_leaves(kernel, rows, priors["values"], f)
            return offset + engine.beyond_the_data(kernel, rows, priors["values"], f)
        if "inducing_values" in priors:
            return offset + engine.from_inducing(self, rows, priors)
        if self.approximation == "vecchia" and rows.known is not None:
            return offset + functions_at(self, rows, priors["values"])
        if rows.known is None:
            return offset + priors["function_values"][rows.point]
        return offset + conditional_function(rows, priors)

    # ---------------------------------------------------------------- predictions

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation of f: (1, n) where hyper-parameters are a point, else given each draw."""
        found = engine.latent_moments(fit, rows)
        if found is not None:
            return found[0][None], found[1][None]
        if "function_values" not in fit.posterior:
            return None
        assert isinstance(rows, VaryingRows)
        mean, sd = function_moments(fit, rows)
        return self.offset(rows) + mean, sd

    def coefficients(
        self, fit: Fit, t: Any = None, task: Any = None, ci_prob: float = 0.9, random_seed: Any = None
    ) -> xr.Dataset:
        """What :meth:`Fit.coefficients` does."""
        from zoo.models.varying_reading import coefficients

        return coefficients(fit, t, task, ci_prob, random_seed)

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draws for tasks that were not in the data; where nothing varies over tasks, they are as any other."""
        return engine.new_task(self, posterior, names, rng)

    # ---------------------------------------------------------------- engines

    def _methods(self) -> list[Method]:
        point = "hyper-parameters of maximal evidence"
        nuts = super()._methods()
        basis = self.is_linear and "covariance" not in (
            self.amplitude,
            *(c.amplitude for c in self.components),
        )
        if self._gaussian:
            found = [
                Method("exact", f"independent draws from the exact posterior given {point}", estimates=True),
                Method("hsgp", f"approximation: a basis of sines; independent draws given {point}", approximates=True),
                Method("inducing", f"approximation: inducing points (FITC or VFE); independent draws given {point}",
                approximates=True),
            ]  # fmt: skip
            if not refusal(self):
                law = "approximation: each row given its nearest ones, functions integrated out"
                found.append(Method("vecchia", f"{law}, given {point}", approximates=True))
        elif not self.likelihood.smooth:
            found = []
        else:
            found = [
                Method("laplace", f"approximation: normal at the mode of the functions, given {point}", estimates=True),
                Method("inducing", "approximation: the same with inducing points (FITC)", approximates=True),
                Method("hsgp", "approximation: a basis of sines; draws from its exact posterior by NUTS",
                approximates=True),
            ]  # fmt: skip
        given = [m for m in found if basis or m.name != "hsgp"]
        by_nuts = "" if self._gaussian else "hsgp"
        return [*(m._replace(weights=True, independent=m.name != by_nuts) for m in given), *nuts]

    def _engine(self, method: str | None, data: MultiTaskData) -> str:
        name = super()._engine(method, data)
        if "covariance" in (self.amplitude, *(c.amplitude for c in self.components)):
            require_narrow(data, 'amplitude="covariance"', 'Use VaryingCoefficientGP(amplitude="shared").')
        return name

    def _unserved(self, method: str) -> str:
        if method == "vecchia":
            return refusal(self)
        return super()._unserved(method)

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log density (S, N) at posterior draws; by method "vecchia" at functions that are drawn given these."""
        rows: Any = data
        if self.approximation == "vecchia" and rows.known is None:
            data = replace(rows, known=rows)
        return super().pointwise_log_likelihood(data, y, posterior)

    def _require_basis(self) -> None:
        if not self.is_linear or "covariance" in (self.amplitude, *(c.amplitude for c in self.components)):
            raise ValueError(
                'approximation "hsgp" needs coefficients of their own: instance_kernel="linear", and an amplitude '
                "that is not "
                '"covariance". Use "fitc".'
            )

    def default_method(self, data: MultiTaskData) -> str:
        """The method for these data: exact while the rows are few, then a basis, or else inducing points."""
        return engine.choose(self, data).method

    def fit(
        self,
        data: MultiTaskData,
        method: str | None = None,
        draws: int | str = 1000,
        tune: int = 1000,
        chains: int = 4,
        random_seed: Any = None,
        progress: bool = True,
        checkpoint: Any = None,
        **method_options: Any,
    ) -> Fit:
        """Infer the posterior, as :meth:`ModelFactory.fit`.

        The method is chosen by the number of rows, the columns of t and the response, if none is named; what was
        chosen and why is printed with the progress, and stands in ``fit.idata["posterior"].attrs["chosen"]``.

        Other options than those of the method: ``approximation``, ``n_inducing``, ``placement``, ``inducing_seed``, in
        place of the fields (``fit.factory`` has them).
        """
        changed = {name: method_options.pop(name) for name in _SETTINGS if name in method_options}
        factory = replace(self, **changed) if changed else self
        self._require_call(data, method)
        chosen = None
        if method is None:
            if data.is_sparse:
                factory.validate(data)  # raises, with the reason
            chosen = engine.choose(factory, data)
            method = chosen.method
            factory = (
                factory
                if chosen.approximation == factory.approximation
                else replace(factory, approximation=chosen.approximation)
            )
            if progress:
                print(f"method {method!r}: {chosen.reason}")
        factory._engine(method, data)
        factory = factory._for_method(method)
        result = ModelFactory.fit(
            factory, data, method, draws, tune, chains, random_seed, progress, checkpoint, **method_options
        )
        if chosen is not None:
            result.idata["posterior"].attrs["chosen"] = f"{method}: {chosen.reason}"
        return result

    def _for_method(self, method: str) -> VaryingCoefficientGP:
        """The factory with the prior that a method brings."""
        now = self.approximation
        wanted = {
            "exact": "none",
            "hsgp": "hsgp",
            "inducing": now if now in ("fitc", "vfe") else "fitc",
            "vecchia": "vecchia",
            # Its functions are variables of the model.
            "nuts": "none" if now == "vecchia" else now,
        }.get(method, now)
        return self if wanted == now else replace(self, approximation=wanted)

    def _fit_exact(
        self, data: Any, y: np.ndarray, run: Run, max_iter: int = 200, tol: float = 1e-7
    ) -> engine.PointFit:
        return engine.fit_point(self, data, y, run, max_iter, tol)

    def _fit_inducing(
        self, data: Any, y: np.ndarray, run: Run, max_iter: int = 200, tol: float = 1e-7
    ) -> engine.PointFit:
        return engine.fit_point(self, data, y, run, max_iter, tol)

    def _fit_vecchia(
        self, data: Any, y: np.ndarray, run: Run, max_iter: int = 200, tol: float = 1e-6
    ) -> engine.PointFit:
        return engine.fit_point(self, data, y, run, max_iter, tol)

    def _fit_laplace(
        self, data: Any, y: np.ndarray, run: Run, max_iter: int = 200, tol: float = 1e-7
    ) -> engine.PointFit:
        return engine.fit_point(self, data, y, run, max_iter, tol)

    def _fit_hsgp(
        self,
        data: Any,
        y: np.ndarray,
        run: Run,
        max_iter: int = 200,
        tol: float = 1e-7,
        cores: int | None = None,
        nuts: dict[str, Any] | None = None,
    ) -> Any:
        if self._gaussian:
            return engine.fit_point(self, data, y, run, max_iter, tol)
        return self._fit_nuts(data, y, run, cores, nuts)

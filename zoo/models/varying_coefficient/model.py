"""Varying-coefficient models with isotropic Gaussian-process priors (Bussas, Sawade, Scheffer & Landwehr 2015)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.core.capabilities import CoefficientSurface
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.hooks import ModelData
from zoo.core.methods import Method
from zoo.core.prior_density import standard_normal_density
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.latent.coordinates import Coordinates
from zoo.latent.function_conditional import JITTER
from zoo.latent.slice_hyper import KernelGibbs
from zoo.models.kernel_machine.rows import conditional_function, function_moments
from zoo.models.kernel_machine.space import matrix_root
from zoo.models.varying_coefficient import methods as engine
from zoo.models.varying_coefficient.covariance import beyond_the_data
from zoo.models.varying_coefficient.engines import methods_of
from zoo.models.varying_coefficient.reading import coefficients
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.sampled import gibbs_kernel, gibbs_refusal
from zoo.models.varying_coefficient.sites import SITES
from zoo.models.varying_coefficient.spaces import space_of
from zoo.models.varying_coefficient.structure import ChoosesStructure
from zoo.models.varying_coefficient.vecchia import functions_at
from zoo.models.varying_coefficient.white import white_values, white_weights

__all__ = ["VaryingCoefficientGP"]

_SETTINGS = (
    "approximation",
    "n_inducing",
    "placement",
    "design_seed",
    "n_neighbours",
    "n_neighbours_predict",
    "ordering",
    "ordering_seed",
)


@dataclass(frozen=True, kw_only=True)
class VaryingCoefficientGP(ChoosesStructure):
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
        What is learned of an instance kernel that is a word: one lengthscale, or one per feature. Of a covariance:
        everything, or "fixed".
    likelihood : str or Likelihood
        Law of y given f; counts have a logarithmic link.
    amplitude : "shared", "per_feature", "covariance"
        Whether the coefficients have one prior scale (isotropic, as in the paper) or one each; or a full covariance of
        the coefficients, the model of Gelfand et al. (2003), for few rows.
    intercept : bool
        Whether there is a constant feature. Without it neither features nor responses are centred. An instance kernel
        that is not linear has no such feature; there False leaves the responses as they are.
    global_coefficients : bool
        Whether to add coefficients that do not vary, with a learned scale. False: the paper's model.
    standardize : bool
        Whether features and t are standardized.
    approximation : {"none", "hsgp", "fitc", "vfe", "vecchia"}
        Prior of the functions that ``build`` makes, and that methods "laplace", "gibbs" (no inducing points) and
        "nuts" take: exact, a basis of sines, or inducing points. Methods "exact", "hsgp", "inducing" and "vecchia"
        bring their own; the model that ``build`` makes for "vecchia" is the exact one.
    n_inducing, placement, design_seed : int, "kmeans" or "random", int
        Inducing points.
    n_neighbours, n_neighbours_predict : int
        Of method "vecchia": rows that each row is conditioned on in the evidence, and that predictions are made of.
    ordering, ordering_seed : "random" or "maxmin", int
        Of method "vecchia": the order in which rows are conditioned on each other. "maxmin", each row as far as can be
        from those before it, takes time with the square of the rows.
    structure : {"given", "chosen", "curved"}
        What ``fit`` fits: this model, or the one that ``choose_structure`` makes of it on the rows of the fit. With
        "curved", functions of the features that are not linear count too.

    Notes
    -----
    Posterior variables: hyper-parameters (``amplitude``, ``lengthscale`` in units of standardized t, ``noise``,
    ``global_scale``...; with several components their names stand before them), and the functions: ``function_values``
    (point) at the distinct rows, ``basis_weights`` (basis), or ``inducing_values`` (inducing), whitened; none by
    method "vecchia", which integrates them out. Where all components are over tasks, ``coefficients`` (feature, task)
    too. Methods other than "gibbs" and "nuts" give independent draws of the functions at hyper-parameters of maximal
    evidence.

    References
    ----------
    Bussas, M., Sawade, C., Scheffer, T. and Landwehr, N. (2015). Varying-coefficient models with isotropic Gaussian
    process priors. arXiv 1508.07192; Machine Learning 106 (2017). Propositions 2 and 6 corrected: the tree's
    covariance is printed transposed.
    """

    closed_leave_one_out: ClassVar[tuple[str, ...]] = ("exact", "hsgp")
    fit_class: ClassVar[type[Fit]] = CoefficientSurface
    paper: ClassVar[str] = "bussas2015"
    serves_gaps: ClassVar[bool] = False
    allows_empty_tasks: ClassVar[bool] = True
    jitter: ClassVar[float] = JITTER
    representations: ClassVar[tuple[str, ...]] = (
        "function_values",
        "basis_weights",
        "inducing_values",
        "coefficients",
    )

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
        if self.in_weights(kernel):
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
            return offset + beyond_the_data(kernel, rows, priors["values"], f)
        if "inducing_values" in priors:
            return offset + engine.from_inducing(self, rows, priors)
        if self.approximation == "vecchia" and rows.known is not None:
            space: Any = space_of(self, rows.fitted, self.likelihood.encode(rows.fitted))
            return offset + functions_at(space, rows, priors["values"])
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
        return coefficients(fit, t, task, ci_prob, random_seed)

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draws for tasks that were not in the data; where nothing varies over tasks, they are as any other."""
        return engine.new_task(self, posterior, names, rng)

    def restore(self, fit: Fit) -> Any:
        """The functions of a fit given estimates of hyper-parameters, made again."""
        return engine.state_of(fit)

    def gibbs_kernel(self, data: Any, y: np.ndarray, **options: Any) -> KernelGibbs:
        """The Markov kernel of method "gibbs", for prepared data and coded y."""
        return gibbs_kernel(self, data, y, **options)

    # ---------------------------------------------------------------- engines

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        return [*methods_of(self, VaryingCoefficientGP), *super().method_table()]

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        name = super().choose_method(method, data)
        engine.require_sites(self, data, name)
        if self.has_covariance:
            require_narrow(data, 'amplitude="covariance"', 'Use VaryingCoefficientGP(amplitude="shared").')
        return name

    def unserved(self, method: str) -> str:
        """Why a method that others have cannot do with these fields."""
        if method == "vecchia":
            return self.vecchia_refusal()
        if method == "gibbs" and self.augmented:
            return gibbs_refusal(self)
        if method == "hsgp":
            return f"method 'hsgp' does not serve: {why}" if (why := self.basis_refusal()) else ""
        if method in SITES:
            return self.sites_refusal()
        return super().unserved(method)

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log density (S, N) at posterior draws; by method "vecchia" at functions that are drawn given these."""
        rows: Any = data
        if self.approximation == "vecchia" and rows.known is None:
            data = replace(rows, known=rows)
        return super().pointwise_log_likelihood(data, y, posterior)

    def default_method(self, data: MultiTaskData) -> str:
        """The method for these data: exact while the rows are few, then a basis, or else inducing points."""
        return "nuts" if self.own_priors else engine.choose(self, data).method

    def fit(
        self,
        data: MultiTaskData,
        method: str | None = None,
        draws: int | str | None = None,
        tune: int = 1000,
        chains: int = 4,
        random_seed: Any = None,
        progress: bool = True,
        checkpoint: Any = None,
        **method_options: Any,
    ) -> Fit:
        """Infer the posterior, as :meth:`ModelFactory.fit`.

        The method is chosen by the number of rows, the columns of t and the response, if none is named; what was
        chosen and why is printed with the progress, and stands in ``fit.idata["posterior"].attrs["chosen"]``; where
        the field ``structure`` asks for a choice, the changes stand in ``attrs["structure"]``.

        Other options than those of the method: ``approximation``, ``n_inducing``, ``placement``, ``design_seed``, in
        place of the fields (``fit.factory`` has them).
        """
        self.require_call(data, method)
        if self.structure != "given":
            arguments = (method, draws, tune, chains, random_seed, progress, checkpoint)
            return self.fit_chosen(data, arguments, progress, method_options)
        changed = {name: method_options.pop(name) for name in _SETTINGS if name in method_options}
        factory = replace(self, **changed) if changed else self
        chosen = None
        if method is None and self.own_priors:
            method = "nuts"
        if method is None:
            if data.is_sparse:
                factory.validate(data)  # raises, with the reason
            chosen = engine.choose(factory, data)
            method = chosen.method
            factory = replace(factory, approximation=chosen.approximation)
            if progress:
                print(f"method {method!r}: {chosen.reason}")
        factory.choose_method(method, data)
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
            **dict.fromkeys(SITES, "none"),
            "laplace": "none" if now == "vecchia" else now,
            # Their functions are variables of the model.
            "nuts": "none" if now == "vecchia" else now,
            "gibbs": "none" if now == "vecchia" else now,
        }.get(method, now)
        return self if wanted == now else replace(self, approximation=wanted)

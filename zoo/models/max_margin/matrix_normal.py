"""Bayesian max-margin multi-task learning (Li, Zhu & Chen, ICML 2014)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr

from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, Run, UnsupportedMethodError
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.inference.gibbs.matrix_normal import CovariancePrior, MatrixNormalKernel
from zoo.inference.gibbs.matrix_normal_span import SpanKernel
from zoo.inference.gibbs.matrix_normal_step import BLOCK, MatrixNormalGibbs
from zoo.inference.gibbs.task_precision import NO_MATRIX
from zoo.inference.run.nuts import sample_with_steps
from zoo.models.max_margin.base import MaxMarginBase
from zoo.models.max_margin.units import units_of_new
from zoo.support.checks import one_of, whole_number

__all__ = ["MaxMargin"]


@dataclass(frozen=True, kw_only=True)
class MaxMargin(MaxMarginBase):
    r"""Max-margin tasks whose coefficients share a matrix-normal prior.

    .. math::

        \eta \sim MN(0, \Omega, R), \quad \Omega \sim IW(\nu_\Omega, I), \quad R \sim IW(\nu_R, I),
        \quad f_n = x_n' \eta_{t(n)}

    with the pseudo-likelihood :math:`\exp(-2C \max(0, m - y f))` for labels (li2014 eqs 3, 5 and 6) or
    :math:`\exp(-2C \max(0, |y - f| - \epsilon))` for real responses (section 5). ``coefficients`` is the
    paper's eta (dims feature, task), ``feature_cov`` its Omega, ``task_cov`` its R.

    The data fix only :math:`\Omega \otimes R`. So where both covariances are learned, ``feature_cov`` is reported with
    trace D and ``task_cov`` with the scale of both; ``covariance_scale`` is the factor that was moved, of which only
    the priors speak: Omega is ``covariance_scale * feature_cov`` and R is ``task_cov / covariance_scale``.

    Parameters
    ----------
    likelihood : str or Likelihood
        The paper's two losses are "hinge" (:class:`zoo.Hinge`) for labels (-1/+1, 0/1 or bool) and
        "epsilon_insensitive" (:class:`zoo.EpsilonInsensitive`) for real responses. C, the weight of the loss, is 1/4
        for the hinge, and learned for the other. The paper chooses both by cross-validation, as :func:`zoo.select` does
        (``{"likelihood.C": [0.1, 1.0]}``). Standardize real responses. Any other likelihood serves too.
    class_weight : None, "balanced", pair or dict
        For labels: what multiplies the loss of negative and positive rows, ``(1, 3)`` or ``{-1: 1, 1: 3}``;
        "balanced" gives both classes of each task the same total weight. Weights of single rows are part of the data.
    feature_cov, task_cov : {"learned", "identity"} or array_like
        Omega (D, D) and R (T, T): under an inverse-Wishart prior, the identity, or a given matrix.
    feature_nu, task_nu : float, optional
        Degrees of freedom of the inverse-Wishart priors, above D - 1 and T - 1; default D + 1 and T + 1. The
        paper does not give them.
    feature_scale_matrix, task_scale_matrix : array_like, optional
        Their scale matrices, the paper's Psi_1 (D, D) and Psi_2 (T, T); default the identity, as in the paper.
    feature_correlation, task_correlation : float, optional
        In place of a scale matrix, one with this number beside a diagonal of ones: ``task_correlation=0.8`` expects
        tasks to resemble each other, and a new task to resemble them. At least 0 and below 1.

    Notes
    -----
    A sweep of the Gibbs sampler takes O(N D^2) for the sums over rows, and O(T D^3 + T^3) beside them, of which the
    covariance of tasks has T^3. With ``feature_cov`` learned, more than 500 features that outnumber the inputs are
    refused; with it given, r inputs that are fewer than the features count in the place of D, as the sampler works in
    their span.

    References
    ----------
    Li, C., Zhu, J. and Chen, J. (2014). Bayesian max-margin multi-task learning with data augmentation. ICML.
    """

    paper: ClassVar[str] = "li2014"
    constraints: ClassVar[dict[str, str]] = {
        "feature_cov": "positive definite",
        "task_cov": "positive definite",
    }

    feature_cov: Any = "learned"
    feature_nu: float | None = None
    feature_correlation: float | None = None
    feature_scale_matrix: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_prior("feature")

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where a given covariance, scale or nu does not fit the data."""
        y = super().validate(data)
        self._require_fitting_prior("feature", self.set_apart(data).n_features)
        return y

    # ---------------------------------------------------------------- hooks

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Covariances and coefficients, both non-centred."""
        feature = self._factor("feature", len(data.feature_names))
        # The identity is no factor: of many tasks it would fill the memory.
        task = None if self.task_cov == "identity" else self._factor("task", len(data.task_names))
        scale = 1.0
        if self.feature_cov == "learned" and self.task_cov == "learned":
            scale = pm.Deterministic("covariance_scale", (feature**2).sum() / len(data.feature_names))
        units = self.units(data.source).own
        if self.feature_cov == "learned":
            cov = units.covariance(feature @ feature.T / scale)
            pm.Deterministic("feature_cov", cov, dims=("feature", "feature_bis"))
        if task is not None and self.task_cov == "learned":
            pm.Deterministic("task_cov", task @ task.T * scale, dims=("task", "task_bis"))
        self.add_parameters(data)
        white = pm.Normal("_coefficients", dims=("feature", "task"))
        own = feature @ white
        coefficients = units.coefficients(own if task is None else own @ task.T)
        return {"coefficients": pm.Deterministic("coefficients", coefficients, dims=("feature", "task"))}

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Coefficients of unseen tasks under the prior's extension by one task.

        Their mean is zero unless ``task_correlation`` is given: the paper's prior has no population mean, so an
        unseen task is predicted at the mean of standardized data, with wide intervals.
        """
        self._require_new_task(MaxMargin.priors)
        eta = posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()
        chains, draws, D, _ = eta.shape
        given, units = self._given("feature", D), units_of_new(posterior, D)
        if given is None:
            omega = posterior["feature_cov"].transpose("feature", "feature_bis", "chain", "draw").to_numpy()
            omega = np.moveaxis(units.white_covariance(omega), (0, 1), (2, 3))
            if "covariance_scale" in posterior:
                omega = omega * posterior["covariance_scale"].to_numpy()[..., None, None]
        else:
            omega = np.broadcast_to(given, (chains, draws, D, D))
        result = {"coefficients": self._new_coefficients(eta, omega, len(names), rng, units)}
        return {**result, **self._parameters_of_new(posterior, len(names), rng)}

    # Derived for the hook `priors` of this class: a subclass is held against it.
    prior_density = MaxMarginBase.prior_density

    # ---------------------------------------------------------------- engines

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        if not self.augmented:
            return super().method_table()
        return [
            self._gibbs(
                "draws from the exact posterior by a compiled Gibbs sampler with group moves", self._fit_gibbs
            ),
            *super().method_table(),
        ]

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        name = super().choose_method(method, data)
        if isinstance(self.feature_cov, str) and self.feature_cov == "learned":
            require_narrow(
                data,
                'feature_cov="learned"',
                'Use feature_cov="identity", which works in the span of the inputs, or MultiTaskKernelMachine with '
                "this loss.",
            )
        return name

    # Derived for the hooks of this class: a subclass is held against it.
    _fit_gibbs = MaxMarginBase._fit_gibbs

    def step(self, data: MultiTaskData, model: pm.Model | None = None, sweeps: int = 1) -> MatrixNormalGibbs:
        """A step method that claims coefficients and covariances, for ``pm.sample`` on a model with more in it.

        NUTS, or whatever you name, takes the variables that your subclass adds:

        >>> model = my_factory.build(data)
        >>> with model:
        ...     trace = pm.sample(step=[my_factory.step(data)])

        Parameters
        ----------
        data : MultiTaskData
            The data that the model was built on.
        model : pm.Model, optional
            Default: that on the context stack.
        sweeps : int
            Sweeps of the Gibbs sampler per step.

        Raises
        ------
        ValueError
            Where the model changes the block's prior, its likelihood, or how it enters f.
        """
        if self.likelihood.word not in ("hinge", "epsilon_insensitive"):
            raise UnsupportedMethodError(
                f"the Gibbs step is for the hinge and the epsilon-insensitive loss, and likelihood is "
                f"{self.likelihood!r}. Sample the model with NUTS alone."
            )
        model = pm.modelcontext(model)
        known = {f.name: getattr(self, f.name) for f in fields(MaxMargin)}
        prepared, y = self.design(data), self.validate(data)
        units = self.units(prepared)
        rows, y = (prepared, y) if units.plain else (units.rows(prepared), units.own.apply_y(y))
        inside = replace(self, likelihood=self.likelihood.divided(units.own.y_scale))
        block = [model[name] for name in BLOCK if name in model.named_vars]
        return MatrixNormalGibbs(
            block,
            kernel=MatrixNormalKernel(
                **inside._kernel_fields(rows, y),
                feature_prior=self._prior("feature", prepared.n_features),
            ),
            units=units,
            reference=MaxMargin(**known).build(data),
            model=model,
            sweeps=whole_number(sweeps, "sweeps"),
        )

    def _fit_nuts(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        nuts: dict[str, Any] | None = None,
        block: str = "nuts",
    ) -> Result:
        """``block="gibbs"``: :meth:`step` for coefficients and covariances, NUTS for what a subclass adds."""
        one_of(block, ("nuts", "gibbs"), "block")
        if block == "nuts":
            return super()._fit_nuts(data, y, run, cores=cores, nuts=nuts)
        if run.checkpoint is not None:  # before the step is compiled
            raise UnsupportedMethodError(
                'block="gibbs" cannot write a checkpoint. Leave `checkpoint` out, or use method="gibbs".'
            )
        model, _ = self.assemble(data, y)
        steps = [self.step(data, model)]
        return Result(*sample_with_steps(model, steps, cores=cores, nuts=nuts, **run._asdict()))

    def _engine_task_prior(self, n_tasks: int) -> CovariancePrior:
        if self.task_cov == "identity":  # of which nothing need be held, however many the tasks are
            return CovariancePrior(nu=self._nu("task", n_tasks), given=NO_MATRIX)
        return super()._engine_task_prior(n_tasks)

    def kernel_of(
        self, data: MultiTaskData, y: np.ndarray, paper_scaling: bool = False, **options: Any
    ) -> MatrixNormalKernel:
        """The Markov kernel of the Gibbs sampler, for prepared data in the units of the priors and coded y.

        With a covariance of features that is given, and more features than inputs, it works in the span of the inputs.
        """
        prior = self._prior("feature", data.n_features)
        fields = {**self._kernel_fields(data, y), "shared": self.engine_shared(data), **options}
        if not prior.learned and data.n_features > data.n_inputs and not paper_scaling:
            return SpanKernel.of(feature_prior=prior, **fields)
        return MatrixNormalKernel(feature_prior=prior, paper_scaling=paper_scaling, **fields)

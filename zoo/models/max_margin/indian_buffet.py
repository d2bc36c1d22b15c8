"""Nonparametric Bayesian max-margin multi-task learning (Li, Zhu & Chen, ICML 2014, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, Run
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.distributions.indian_buffet import IndianBuffet
from zoo.distributions.matrix_normal import MatrixNormal
from zoo.inference.gibbs.buffet_step import IndianBuffetGibbs
from zoo.inference.gibbs.latent_features import LatentFeatureKernel
from zoo.inference.gibbs.matrix_normal import CovariancePrior
from zoo.inference.run.nuts import sample_nuts, sample_with_steps
from zoo.models.max_margin.base import MaxMarginBase
from zoo.models.max_margin.units import units_of_new
from zoo.support.checks import positive, whole_number

__all__ = ["NonparametricMaxMargin"]


@dataclass(frozen=True, kw_only=True)
class NonparametricMaxMargin(MaxMarginBase):
    r"""Max-margin tasks whose features share as many latent features as the data ask for.

    .. math::

        \eta \sim MN(0, I + Z Z', R), \quad Z \sim IBP(\alpha), \quad R \sim IW(\nu, \Psi),
        \quad f_n = x_n' \eta_{t(n)}

    with the pseudo-likelihoods of :class:`~zoo.models.max_margin.matrix_normal.MaxMargin`. This is the paper's
    :math:`\eta \sim MN(Z V, I, R)` with :math:`V \sim MN(0, I, R)` integrated out (section 4.1). ``coefficients`` is
    eta (dims feature, task), ``Z`` the binary matrix (dims feature, latent), ``n_latent`` the number of its columns
    with a one, ``task_cov`` R. The order of the columns of Z means nothing: summarise :math:`Z Z'` or ``n_latent``.

    Method ``"nuts"`` holds :class:`~zoo.distributions.indian_buffet.IndianBuffet`, the approximation of the process
    with ``K_max`` columns, whose error falls like 1 / ``K_max``: in an example with 10 features, 5 tasks and alpha = 2
    the posterior mean of ``n_latent`` was 6.1 with 20 columns, 6.7 with 50, and 7.0 under the process itself.

    Parameters
    ----------
    likelihood, class_weight
        As for :class:`~zoo.models.max_margin.matrix_normal.MaxMargin`.
    alpha : float, optional
        Mass of the process: a feature has about alpha latent features, all D together about
        :math:`\alpha (1 + 1/2 + \dots + 1/D)`. None (the default) learns it.
    alpha_prior : (float, float)
        Shape and rate of the gamma prior of a learned alpha. The default (2, 1) has mean 2 and vanishes at 0, where no
        latent feature is left. The paper fixes alpha, and tries 1 to 16.
    task_cov : {"learned", "identity"} or array_like
        R (T, T): under an inverse-Wishart prior, the identity, or a given matrix.
    task_nu : float, optional
        Degrees of freedom of that prior, above T - 1; default T + 1. The paper does not give them.
    task_scale_matrix : (T, T) array_like, optional
        Its scale Psi; default the identity, as in the paper.
    task_correlation : float, optional
        In place of a scale matrix, one with this number beside a diagonal of ones. At least 0 and below 1.
    K_max : int
        Columns of Z. Give more than alpha, and more than you expect to have a one, which may be more than D.

    Notes
    -----
    A sweep of the Gibbs sampler takes O(N D^2 + T D^3 + T^3): more than 500 features that outnumber the inputs are
    refused.

    References
    ----------
    Li, C., Zhu, J. and Chen, J. (2014). Bayesian max-margin multi-task learning with data augmentation. ICML.
    """

    constraints: ClassVar[dict[str, str]] = {
        "Z": "0 or 1",
        "n_latent": "0 to K_max",
        "task_cov": "positive definite",
    }

    unordered_dims: ClassVar[tuple[str, ...]] = ("latent",)

    alpha: float | None = None
    alpha_prior: tuple[float, float] = (2.0, 1.0)
    K_max: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is not None:
            positive(self.alpha, "alpha")
        object.__setattr__(self, "alpha_prior", _shape_and_rate(self.alpha_prior))
        whole_number(self.K_max, "K_max")

    # ---------------------------------------------------------------- hooks

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims of the model; ``latent`` counts the columns of Z."""
        return {**super().coords(data), "latent": list(range(self.K_max))}

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Mass, binary matrix, covariance of tasks and coefficients, these non-centred in R but not in Q."""
        D, T = len(data.feature_names), len(data.task_names)
        alpha = self.alpha
        if alpha is None:
            shape, rate = self.alpha_prior
            alpha = pm.Gamma("alpha", alpha=shape, beta=rate)
        Z = IndianBuffet("Z", alpha, dims=("feature", "latent"))
        pm.Deterministic("n_latent", pt.any(pt.eq(Z, 1), axis=0).sum())
        # Whitened by Q as well, they would not inform the Gibbs steps for Z, which see them and Z alone.
        feature_cov = pt.eye(D) + pt.dot(pt.cast(Z, "float64"), pt.cast(Z.T, "float64"))
        dims = ("feature", "task")
        white = MatrixNormal("_coefficients", row_cov=feature_cov, col_chol=np.eye(T), dims=dims)
        task_chol = self._factor("task", T)
        if self.task_cov == "learned":
            pm.Deterministic("task_cov", task_chol @ task_chol.T, dims=("task", "task_bis"))
        self.add_parameters(data)
        coefficients = self.units(data.source).own.coefficients(pt.dot(white, task_chol.T))
        return {"coefficients": pm.Deterministic("coefficients", coefficients, dims=dims)}

    def _row_cov(self, data: MultiTaskData, values: dict[str, Any]) -> Any:
        Z = pt.cast(values["Z"], "float64")
        return pt.eye(data.n_features) + pt.dot(Z, Z.T)

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Coefficients of unseen tasks under the prior's extension by one task, as for ``MaxMargin`` with I + ZZ'."""
        self._require_new_task(NonparametricMaxMargin.priors)
        eta = posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()
        Z = posterior["Z"].transpose("chain", "draw", "feature", "latent").to_numpy().astype(np.float64)
        omega = np.eye(eta.shape[2]) + Z @ np.swapaxes(Z, 2, 3)
        units = units_of_new(posterior, eta.shape[2])
        result = {"coefficients": self._new_coefficients(eta, omega, len(names), rng, units)}
        return {**result, **self._parameters_of_new(posterior, len(names), rng)}

    # Derived for the hook `priors` of this class: a subclass is held against it.
    prior_density = MaxMarginBase.prior_density

    # ---------------------------------------------------------------- engines

    def step(self, model: pm.Model) -> IndianBuffetGibbs:
        """The step method of Z, for ``pm.sample`` on ``build(data)``; NUTS takes the other variables.

        Override it in a subclass whose ``Z`` enters elsewhere than in the prior of the coefficients.
        """
        return IndianBuffetGibbs([model["Z"]], coefficients="_coefficients", model=model)

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        nuts = Method(
            "nuts",
            f"draws from the posterior with the finite approximation of the buffet process by {self.K_max} "
            "columns: exact Gibbs steps for Z, the no-U-turn sampler (PyMC) for the rest",
            self._fit_nuts,
            weights=True,
        )
        if not self.augmented:
            return [nuts]
        return [
            self._gibbs(
                "draws from the exact posterior by a compiled Gibbs sampler, without truncation",
                self._fit_gibbs,
            ),
            nuts,
        ]

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        name = super().choose_method(method, data)
        require_narrow(
            data,
            "the covariance I + ZZ' of all features",
            'Use MaxMargin(feature_cov="identity"), which works in the span of the inputs, or MultiTaskKernelMachine '
            "with this loss.",
        )
        return name

    # Derived for the hooks of this class: a subclass is held against it.
    _fit_gibbs = MaxMarginBase._fit_gibbs

    def kernel_of(self, data: MultiTaskData, y: np.ndarray, **options: Any) -> LatentFeatureKernel:
        """The Markov kernel of the Gibbs sampler, for prepared data in the units of the priors and coded y."""
        return LatentFeatureKernel(
            **self._kernel_fields(data, y),
            shared=self.engine_shared(data),
            feature_prior=CovariancePrior(nu=0.0, given=np.eye(data.n_features)),
            alpha=self.alpha,
            alpha_prior=self.alpha_prior,
            least_columns=self.K_max,
            **options,
        )

    def _fit_nuts(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        nuts: dict[str, Any] | None = None,
    ) -> Result:
        model, _ = self.assemble(data, y)
        Z = next((variable for variable in model.free_RVs if variable.name == "Z"), None)
        if Z is None:  # a subclass with another prior
            return Result(*sample_nuts(model, cores=cores, nuts=nuts, **run._asdict()))
        # The mode of Z is the empty matrix, from which chains would all start alike.
        options: dict[str, Any] = {"cores": cores, "nuts": nuts, "initvals": {Z: "prior"}}
        return Result(*sample_with_steps(model, [self.step(model)], **options, **run._asdict()))


def _shape_and_rate(value: Any) -> tuple[float, float]:
    try:
        shape, rate = value
    except (TypeError, ValueError):
        raise ValueError(f"alpha_prior is {value!r}. Give two numbers: shape and rate.") from None
    positive(shape, "the shape in alpha_prior")
    positive(rate, "the rate in alpha_prior")
    return float(shape), float(rate)

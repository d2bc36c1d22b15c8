"""Bayesian max-margin multi-task learning (Li, Zhu & Chen, ICML 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.checks import one_of, positive
from zoo.data import MultiTaskData
from zoo.distributions.inverse_wishart_cholesky import InverseWishartCholesky
from zoo.factory import Method, ModelFactory, Run, UnsupportedMethodError
from zoo.inference.chains import run_chains
from zoo.inference.matrix_normal import MatrixNormalKernel
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
from zoo.likelihoods.hinge import Hinge
from zoo.model_data import ModelData

__all__ = ["MaxMargin"]

Covariance = str | Any
_WORDS = ("learned", "identity")


@dataclass(frozen=True, kw_only=True)
class MaxMargin(ModelFactory):
    r"""Max-margin tasks whose coefficients share a matrix-normal prior.

    .. math::

        \eta \sim MN(0, \Omega, R), \quad \Omega \sim IW(\nu_\Omega, I), \quad R \sim IW(\nu_R, I),
        \quad f_n = x_n' \eta_{t(n)}

    with the pseudo-likelihood :math:`\exp(-2C \max(0, m - y f))` for labels (li2014 eqs 3, 5 and 6) or
    :math:`\exp(-2C \max(0, |y - f| - \epsilon))` for real responses (section 5). ``coefficients`` is the
    paper's eta (dims feature, task), ``feature_cov`` its Omega, ``task_cov`` its R. The posterior fixes
    only :math:`\Omega \otimes R`: the scale shared between the two covariances is set by their priors alone, so
    report correlations.

    Parameters
    ----------
    loss : {"hinge", "epsilon_insensitive"}
        Labels (-1/+1, 0/1 or bool) or real responses.
    C : float
        Weight of the loss. Per unit of y: standardize real responses.
    margin : float
        Margin of the hinge.
    epsilon : float
        Half width of the tube without loss (the paper's 0.001).
    feature_cov, task_cov : {"learned", "identity"} or array_like
        Omega (D, D) and R (T, T): under an inverse-Wishart prior, the identity, or a given matrix.
    feature_nu, task_nu : float, optional
        Degrees of freedom of the inverse-Wishart priors, above D - 1 and T - 1; default D + 1 and T + 1. The
        paper does not give them.

    References
    ----------
    Li, C., Zhu, J. and Chen, J. (2014). Bayesian max-margin multi-task learning with data augmentation. ICML.
    """

    paper: ClassVar[str] = "li2014"
    constraints: ClassVar[dict[str, str]] = {
        "feature_cov": "positive definite",
        "task_cov": "positive definite",
    }

    loss: str = "hinge"
    C: float = 1.0
    margin: float = 1.0
    epsilon: float = 0.001
    feature_cov: Covariance = "learned"
    task_cov: Covariance = "learned"
    feature_nu: float | None = None
    task_nu: float | None = None

    def __post_init__(self) -> None:
        one_of(self.loss, ("hinge", "epsilon_insensitive"), "loss")
        # Their checks of C, margin and epsilon hold whatever the loss.
        Hinge(C=self.C, margin=self.margin)
        EpsilonInsensitive(C=self.C, epsilon=self.epsilon)
        for field in ("feature_cov", "task_cov"):
            self._freeze_covariance(field, _WORDS)
        for field in ("feature_nu", "task_nu"):
            if getattr(self, field) is not None:
                positive(getattr(self, field), field)

    @property
    def observation(self) -> Likelihood:
        """Hinge or epsilon-insensitive pseudo-likelihood."""
        if self.loss == "hinge":
            return Hinge(C=self.C, margin=self.margin)
        return EpsilonInsensitive(C=self.C, epsilon=self.epsilon)

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where a given covariance or nu does not fit the data."""
        y = super().validate(data)
        for field, size in (("feature", data.n_features), ("task", data.n_tasks)):
            value = getattr(self, f"{field}_cov")
            if not isinstance(value, str) and len(value) != size:
                raise ValueError(
                    f"{field}_cov is {len(value)} x {len(value)}, but the data have {size} {field}s. "
                    f"Give a {size} x {size} matrix."
                )
            nu = self._nu(field, size)
            if nu <= size - 1:  # finite since __post_init__
                raise ValueError(
                    f"{field}_nu is {nu:g}, but with {size} {field}s it must be above {size - 1}."
                )
        return y

    def _nu(self, which: str, size: int) -> float:
        given = getattr(self, f"{which}_nu")
        return size + 1.0 if given is None else float(given)

    # ---------------------------------------------------------------- hooks

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Covariances and coefficients, both non-centred."""
        feature = self._factor("feature", len(data.feature_names))
        task = self._factor("task", len(data.task_names))
        white = pm.Normal("_coefficients", dims=("feature", "task"))
        coefficients = pm.Deterministic("coefficients", feature @ white @ task.T, dims=("feature", "task"))
        return {"coefficients": coefficients}

    def _factor(self, which: str, size: int) -> Any:
        """A matrix ``L`` with ``L L'`` the covariance."""
        given = self._given(which, size)
        if given is not None:
            return pt.as_tensor(np.linalg.cholesky(given))
        dims = (which, f"{which}_bis")
        chol = InverseWishartCholesky(
            f"_{which}_chol", self._nu(which, size), scale_chol=np.eye(size), dims=dims
        )
        pm.Deterministic(f"{which}_cov", chol @ chol.T, dims=dims)
        return chol

    def _given(self, which: str, size: int) -> np.ndarray | None:
        value = getattr(self, f"{which}_cov")
        if isinstance(value, str):
            return None if value == "learned" else np.eye(size)
        return np.array(value)

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        r"""Coefficients of unseen tasks under the prior's extension by one task.

        With Dawid's parametrisation of the inverse-Wishart (delta = nu - T + 1 kept), the extended covariance
        has :math:`R_{22 \cdot 1} = s \sim IG((\nu_R + 1)/2, 1/2)` and
        :math:`R_{11}^{-1} R_{12} = b \sim N(0, s I)` independent of :math:`R_{11}`, so that
        :math:`\eta_{new} \sim N(\eta b, s\, \Omega)`. Its mean is zero: the paper's prior has no
        population mean, so an unseen task is predicted at the mean of standardized data, with wide intervals.
        """
        if type(self).priors is not MaxMargin.priors:
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `priors`. Override `new_task` to match it."
            )
        eta = posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()
        chains, draws, D, T = eta.shape
        given = self._given("feature", D)
        omega = (
            posterior["feature_cov"].to_numpy()
            if given is None
            else np.broadcast_to(given, (chains, draws, D, D))
        )
        factor = np.linalg.cholesky(omega)[:, :, None]
        size = (chains, draws, len(names))
        own = np.squeeze(factor @ rng.standard_normal((*size, D, 1)), -1)
        if not isinstance(self.task_cov, str):
            raise UnsupportedMethodError(
                "task_cov was given as a matrix, which says nothing of a new task. "
                'Use task_cov="learned" or "identity".'
            )
        if self.task_cov == "learned":
            scale = 0.5 / rng.gamma((self._nu("task", T) + 1.0) / 2.0, size=size)[..., None]
            shared = np.sqrt(scale) * rng.standard_normal((*size, T))
            own = np.sqrt(scale) * own + np.einsum("cdft,cdnt->cdnf", eta, shared)
        return {"coefficients": np.swapaxes(own, 2, 3)}

    # ---------------------------------------------------------------- engines

    def _methods(self) -> list[Method]:
        return [
            Method("gibbs", "draws from the exact posterior by a compiled Gibbs sampler with group moves"),
            *super()._methods(),
        ]

    def _fit_gibbs(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        thin: int = 1,
        group_moves: bool = True,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        augmentation = self.observation.augmentation()
        assert augmentation is not None
        kernel = MatrixNormalKernel(
            X=data.X,
            y=y,
            task=data.task,
            augment=augmentation.draw,
            parameters=augmentation.parameters,
            n_tasks=data.n_tasks,
            task_cov=self._given("task", data.n_tasks),
            feature_cov=self._given("feature", data.n_features),
            nu_task=self._nu("task", data.n_tasks),
            nu_feature=self._nu("feature", data.n_features),
            group_moves=group_moves,
        )
        return run_chains(kernel, cores=cores, thin=thin, **run._asdict())

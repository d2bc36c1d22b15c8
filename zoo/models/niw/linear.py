"""Linear tasks from one population (Yu, Tresp & Schwaighofer 2005, model 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.methods import Method
from zoo.data.multitask import MultiTaskData
from zoo.distributions.lkj import lkj_factor
from zoo.models.niw.linear_population import LinearPopulation
from zoo.models.niw.tied_mean import TiedMean
from zoo.support.checks import covariance, one_of, positive
from zoo.support.warning_types import PriorWarning, warn_user
from zoo.support.words import counted

__all__ = ["NIWLinear"]

# Shares of a covariance that are the prior's, above which it is no description of the tasks: that of the mean in one
# direction, and that of the scale in one variance.
_BENT, _MOSTLY = 0.2, 0.5


@dataclass(frozen=True, kw_only=True)
class NIWLinear(LinearPopulation, TiedMean):
    r"""Linear regressions whose coefficients come from one normal population, which is learned.

    .. math::

        y_n = x_n' w_{t(n)} + \epsilon_n, \quad w_t \sim N(\mu, C), \quad \mu \mid C \sim N(0, C / \pi), \quad
        C \sim IW(\delta, C_0)

    (yu2005 eq 4 and model 1.) ``coefficients`` (dims feature, task) holds :math:`w_t`, ``population_mean`` is
    :math:`\mu` and ``feature_cov`` :math:`C`. Standardize the data first, and add an intercept where tasks differ in
    level.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of y given f, "gaussian" as in the paper, or any other one. The prior of ``noise`` is
        ``InverseGammaOfSquare(0.5, 0.005)``: an inverse-gamma law of the variance, which counts like one row with an
        error of 0.1. With ``Gaussian(per_task=("noise",))`` every task has a noise of its own;
        ``Gaussian(noise=Flat())`` is for the paper's EM, which has no prior of it.
    pi : float or "learned"
        How many tasks the prior of the mean is worth, above 0; large values hold the mean at zero, as in the paper's
        section 6. "learned": it is the variable ``pi`` of the posterior, with the prior Gamma(1/2, rate 1/2), under
        which :math:`\mu \mid C` has the multivariate Cauchy law with scale matrix C. Methods ``gibbs`` and ``nuts``
        have it, ``em`` has not.
    delta : float
        Dawid's degrees of freedom of the inverse-Wishart prior, above 0: :math:`\nu = \delta + D - 1`. Full Bayes
        reads it. At 3 the prior mean of C is ``scale_matrix``.
    tau : float or "prior"
        The paper's precision of the prior in EM, eq (8), above 0. Only EM reads it: the paper's tau = 1 stands for
        :math:`\nu = \tau - D - 2` and scale :math:`\tau C_0`, which is no proper prior. "prior": the mode under the
        prior of full Bayes.
    scale_matrix : float or (D, D) array_like, optional
        :math:`C_0`; a number multiplies the identity. The default is 1/D, with D the number of features: with
        standardized features it expects functions of variance 1, however many there are. The paper has 1.
    covariance_prior : {"inverse_wishart", "half_t", "lkj"}
        On features whitened by ``scale_matrix``. "half_t": every feature has a scale of its own, which is learned,
        :math:`C \mid g \sim IW(\delta, \operatorname{diag}(g^2))` with :math:`g_d \sim N(0, \delta)`: standard
        deviations over tasks are half-t with ``delta`` degrees of freedom and scale 1 (Huang & Wand 2013).
        Methods ``gibbs`` and ``nuts`` have it. "lkj": half-normal standard deviations and an LKJ(2) correlation matrix;
        where ``scale_matrix`` is a number, the former are ``feature_sd`` (dim feature) of the posterior.
    own_priors : mapping of str to distribution
        As in :class:`zoo.ModelFactory`. A prior of ``population_mean`` makes it independent of C, and then ``pi`` is
        not read; "learned" is refused beside it. With "lkj" there may be one of ``feature_sd``.

    Notes
    -----
    A sweep of the Gibbs sampler takes O(T D^3), and a draw D^2 numbers: more than 500 features that outnumber the
    inputs are refused. :class:`NIWGaussianProcess` with ``base_kernel="linear"`` is the same law of the functions with
    ``scale_matrix=1`` (Dawid's delta is the same on every subspace), and takes O(T n^3) for n distinct inputs.

    References
    ----------
    Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple tasks. ICML.
    """

    scale_matrix: Any = None
    covariance_prior: str = "inverse_wishart"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.covariance_prior, ("inverse_wishart", "half_t", "lkj"), "covariance_prior")
        if np.ndim(self.scale_matrix) == 0:
            if self.scale_matrix is not None:
                positive(self.scale_matrix, "scale_matrix")
        else:
            matrix = covariance(self.scale_matrix, "scale_matrix")
            object.__setattr__(self, "scale_matrix", tuple(tuple(float(v) for v in row) for row in matrix))

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where the scale matrix does not fit the data."""
        y = super().validate(data)
        D = data.n_features
        if isinstance(self.scale_matrix, tuple) and len(self.scale_matrix) != D:
            raise ValueError(
                f"scale_matrix is {len(self.scale_matrix)} x {len(self.scale_matrix)}, but the data have "
                f"{counted(D, 'feature')}. Give a {D} x {D} matrix or a number."
            )
        return y

    def _factor(self, rank: int, data: MultiTaskData) -> Any:
        if self._has_inverse_wishart:
            return super()._factor(rank, data)
        if not self._learns_deviations:
            deviation = pm.HalfNormal("_basis_deviation", 1.0, dims="basis")
        else:
            unit = self._half(data)[0, 0]
            deviation = pm.HalfNormal("feature_sd", unit, dims="feature") / unit
        return deviation[:, None] * lkj_factor("_basis_partial", rank)

    def look_at(self, fit: Fit) -> None:
        r"""Warn where the prior has bent the population.

        Given the coefficients, C has the mean :math:`(\Psi + \sum_t (w_t - \bar w)(w_t - \bar w)' + \tfrac{\pi T}{\pi
        + T} \bar w \bar w') / (\nu + T)`, up to a constant. So :math:`q\, \tfrac{\pi T}{(\pi + T)(\nu + T)}`, with
        :math:`q = \mu' C^{-1} \mu`, is the share of C that makes up for the mean, in the direction where it is
        largest, and :math:`\Psi_{dd} / ((\nu + T) C_{dd})` is that of the scale matrix in a variance.
        """
        if self.own_priors or not self._has_inverse_wishart or "feature_cov" not in fit.posterior:
            return
        rows = self.design(fit.population_data)
        back, moved = self.population(rows).back, self.moved(rows)
        draws = fit.posterior.mean(("chain", "draw"))
        mean, cov = draws["population_mean"].to_numpy(), draws["feature_cov"].to_numpy()
        mean, cov = back @ (mean - (0.0 if moved is None else moved[0])), back @ cov @ back.T
        T, degrees = rows.n_tasks, self.delta + len(mean) - 1.0 + rows.n_tasks
        weight = 0.0 if self.learns_pi else float(self.pi) * T / (float(self.pi) + T)
        of_mean = weight * float(mean @ np.linalg.solve(cov, mean)) / degrees
        found = []
        if of_mean > _BENT:
            found.append(
                f"{of_mean:.0%} of feature_cov, in the direction of the mean, make up for a population_mean that is "
                f"large against the spread of the tasks: the prior N(0, C / pi) counts pi={self.pi:g} tasks at zero"
            )
        share = 1.0 / (degrees * np.diag(cov))
        if self.scale_sd is None and share.max() > _MOSTLY:
            d = int(np.argmax(share))
            found.append(
                f"{share[d]:.0%} of the variance of {rows.feature_names[d]!r} over tasks are the scale of its prior"
            )
        if found:
            warn_user(
                f"the prior of NIWLinear has bent the population: {'; and '.join(found)}. Predictions are hardly "
                "affected. To describe the population, use zoo.HierarchicalLinear, whose mean and scales have priors "
                "of their own.",
                PriorWarning,
            )

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        if self._has_inverse_wishart:
            return super().method_table()
        return ModelFactory.method_table(self)

    @property
    def _has_inverse_wishart(self) -> bool:
        return self.covariance_prior != "lkj"

    @property
    def _learns_deviations(self) -> bool:
        """Whether the standard deviations of the coefficients over tasks are a variable of their own."""
        return self.covariance_prior == "lkj" and not isinstance(self.scale_matrix, tuple)

    @property
    def scale_dims(self) -> dict[str, tuple[str, ...]]:
        """Dims of the standard deviations, where they are a variable of their own."""
        return {"feature_sd": ("feature",)} if self._learns_deviations else {}

    @property
    def scale_sd(self) -> float | None:
        """Standard deviation of the normal law of learned scales; None where scales are given."""
        return float(np.sqrt(self.delta)) if self.covariance_prior == "half_t" else None

    def _in_units(self, data: MultiTaskData) -> bool:
        """So by default; a scale matrix, and standard deviations by LKJ, are meant as they are."""
        return super()._in_units(data) and self.scale_matrix is None and self._has_inverse_wishart

    def _half(self, data: MultiTaskData) -> np.ndarray:
        """A root of the scale matrix."""
        D = data.n_features
        if isinstance(self.scale_matrix, tuple):
            return np.linalg.cholesky(np.array(self.scale_matrix))
        return np.sqrt(1.0 / D if self.scale_matrix is None else float(self.scale_matrix)) * super()._half(
            data
        )

    def _combined(self, fit: Fit, combine: bool) -> np.ndarray:
        """Draws of C; of an EM fit combined with the scale as in eq (19)."""
        cov = super()._combined(fit, combine)
        if not combine or fit.method != "em":
            return cov
        tau, weight = self.em_prior(cov.shape[-1])
        half, T = self._half(self.design(fit.population_data)), fit.population_data.n_tasks
        return np.asarray((T * cov + weight * half @ half.T) / (tau + T))

r"""Linear tasks from one population, as mixed models have it: a mean with a prior of its own, a learned scale each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units
from zoo.inference.gibbs.task_sums import task_sums
from zoo.models.niw.least_spread import input_of_least_spread
from zoo.models.niw.linear_population import LinearPopulation
from zoo.support.checks import positive

__all__ = ["HierarchicalLinear"]


@dataclass(frozen=True, kw_only=True)
class HierarchicalLinear(LinearPopulation):
    r"""Linear regressions whose coefficients come from one population: the model of ``y ~ x + (x | group)``.

    .. math::

        y_n = x_n' w_{t(n)} + \epsilon_n, \quad w_t \sim N(\mu, C), \quad \mu \sim N(0, m^2 I), \quad
        C \mid g \sim IW(\delta, \operatorname{diag}(g^2)), \quad g_d \sim N(0, \delta s^2)

    for features and responses of mean 0 and standard deviation 1, whatever the units of the data are. Standard
    deviations over tasks are half-t with :math:`\delta` degrees of freedom and scale s (Huang & Wand 2013), and
    correlations have a density in proportion to :math:`(1 - \rho^2)^{\delta / 2 - 1}`, which prefers no sign. The mean
    :math:`\mu` does not depend on the covariance C, so that C says how tasks differ, and nothing else.

    ``coefficients`` (dims feature, task) holds :math:`w_t`, ``population_mean`` is :math:`\mu` and ``feature_cov`` C,
    all on the scale of the data that are handed over. Add an intercept where tasks differ in level: the prior then
    speaks of the level at that row at which tasks differ least (:mod:`zoo.models.niw.least_spread`), and of labels and
    counts of that at the mean of the features. Without an intercept features are divided by their root mean square.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of y given f, "gaussian" or any other one. The prior of ``noise`` is ``InverseGammaOfSquare(0.5, 0.005)`` in
        units of y, which counts like one row with an error of a tenth of its standard deviation. With
        ``Gaussian(per_task=("noise",))`` every task has a noise of its own.
    delta : float
        Degrees of freedom, above 0. At 2 correlations are uniform and standard deviations have heavy tails.
    mean_scale : float
        m, above 0: the standard deviation of the prior of the mean, in standard deviations of y per standard deviation
        of the feature. That of the constant feature lies around the mean of y.
    sd_scale : float
        s, above 0: the scale of the half-t law of standard deviations over tasks, in the same units.
    own_priors : mapping of str to distribution
        As in :class:`zoo.ModelFactory`. A prior of ``population_mean`` is on the scale of the data.

    Notes
    -----
    :class:`zoo.NIWLinear` is the same engine with the prior of Yu, Tresp & Schwaighofer (2005), whose mean is tied to
    the covariance. It predicts as well, and its covariance takes up a mean that is large against the spread of the
    tasks.

    A sweep of the Gibbs sampler takes O(T D^3), and a draw D^2 numbers: more than 500 features that outnumber the
    inputs are refused.

    References
    ----------
    Huang, A. and Wand, M. P. (2013). Simple marginally noninformative prior distributions for covariance matrices.
    Bayesian Analysis.
    """

    delta: float = 2.0
    mean_scale: float = 2.5
    sd_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.mean_scale, "mean_scale")
        positive(self.sd_scale, "sd_scale")

    def default_units(self, data: MultiTaskData) -> Units:
        """The units of default priors, with the level stated at the input where tasks differ least."""
        units = super().default_units(data)
        rows = self.set_apart(replace(data, units=units))
        own: Units = rows.units
        if own.level is None or rows.n_features < 2 or rows.incomplete or not self.likelihood.in_units_of_y:
            return units
        inputs = rows.inputs @ own.back / own.y_scale
        y = (rows.y - (rows.inputs @ own.offset)[rows.row]) / own.y_scale
        if isinstance(rows.shared, np.ndarray):
            shared = rows.shared / rows.shared_units.x_scale
            both = np.hstack([inputs[rows.row], shared])
            y = y - shared @ np.linalg.lstsq(both, y)[0][rows.n_features :]
        at = input_of_least_spread(
            inputs, task_sums(inputs, rows.row, y, rows.task, rows.n_tasks, rows.weight)
        )
        if at is None:
            return units
        location = dict(zip(rows.feature_names, rows.inputs[at], strict=True))
        location[rows.feature_names[own.level[0]]] = 0.0
        pairs = zip(data.feature_names, units.x_mean, strict=True)
        return replace(units, x_mean=np.array([location.get(name, mean) for name, mean in pairs]))

    em_estimate: ClassVar[str] = (
        "the mode of mean, log covariance and noise, and the coefficients' posterior given it"
    )

    def em_penalty(self, rank: int) -> dict[str, Any]:
        """The prior of mean and covariance, with the scales integrated out."""
        assert self.mean_sd is not None and self.scale_sd is not None
        nu = float(self.delta) + rank - 1.0
        return {"pi": 0.0, "tau": nu, "learned": (self.mean_sd, self.scale_sd)}

    @property
    def mean_sd(self) -> float | None:
        """Standard deviation of the mean in units of the data."""
        return float(self.mean_scale)

    @property
    def scale_sd(self) -> float | None:
        """Standard deviation of the normal law of the scales of features."""
        return float(self.sd_scale) * float(self.delta) ** 0.5

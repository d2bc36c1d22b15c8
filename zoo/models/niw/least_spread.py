r"""The input at which tasks differ least, where the prior of a population states their level.

A level and slopes from one population with covariance C differ at the input x with variance :math:`x' C x`. Which level
the prior speaks of is a choice: the one at the origin of the features depends on where their zero lies, and the one at
their mean makes a population whose lines meet elsewhere one of correlation :math:`\pm 1`, to which a prior of
correlations gives hardly any mass. At the input where tasks differ least, levels and slopes are nearly uncorrelated,
and it moves along when the origin of a feature does.

C comes from least squares :math:`\hat w_t` of the tasks that have more rows than coefficients. Given the noise
:math:`\sigma^2`, :math:`\hat w_t` has the covariance :math:`C + \sigma^2 S_t^{-1}` with :math:`S_t = X_t' X_t`, so that

.. math:: \hat C = \frac{\sum_t a_t (\hat w_t - m)(\hat w_t - m)'}{1 - \sum_t a_t^2}
    - \hat\sigma^2 \sum_t a_t S_t^{-1}, \quad m = \sum_t a_t \hat w_t, \quad \sum_t a_t = 1

estimates it without bias for nearly balanced tasks. Weights :math:`a_t` fall with the variance of the estimates.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.gibbs.task_sums import TaskSums

__all__ = ["input_of_least_spread"]

# Share of a squared column that its part beside the other columns of a task must have.
_LEAST_OWN = 1e-8
# Variance of coefficients of size 1 that is no more than rounding: there is nothing to choose by.
_ROUNDING = 1e-20


def input_of_least_spread(inputs: np.ndarray, sums: TaskSums) -> int | None:
    """Position of that one of the inputs; None where fewer than three tasks tell their coefficients.

    Parameters
    ----------
    inputs : (n, D)
        Features of size 1, with their constant one.
    sums : TaskSums
        Least squares of the tasks in these features.

    Returns
    -------
    int or None
    """
    D = inputs.shape[1]
    told = sums.size > D
    told[told] &= np.linalg.eigvalsh(sums.S[told])[:, 0] > _LEAST_OWN * sums.size[told]
    if told.sum() < 3:
        return None
    inverse, centre = np.linalg.inv(sums.S[told]), sums.centre[told]
    noise = sums.sse[told].sum() / (sums.size[told] - D).sum()
    variance = np.trace(np.cov(centre.T)) + noise * np.trace(inverse, axis1=1, axis2=2)
    if variance.min() < _ROUNDING:
        return None
    a = 1.0 / variance
    a /= a.sum()
    gap = centre - a @ centre
    cov = (gap * a[:, None]).T @ gap / (1.0 - a @ a) - noise * np.einsum("t,tij->ij", a, inverse)
    size, axes = np.linalg.eigh(cov)
    root = inputs @ (axes * np.sqrt(np.maximum(size, 0.0)))
    return int(np.argmin(np.sum(root**2, axis=1)))

"""The marginal likelihood of one Gaussian process per task, written out."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from zoo.inference.ard.evidence import KERNELS

WORDS = list(KERNELS)


def covariance(word, X, Y, kappa):
    """Written out, independently of the package."""
    if word == "linear":
        return (X * kappa) @ Y.T
    square = ((X[:, None] - Y[None]) ** 2 * kappa).sum(axis=-1)
    r = np.sqrt(square)
    if word == "squared_exponential":
        return np.exp(-0.5 * square)
    if word == "matern52":
        return (1 + np.sqrt(5) * r + 5 / 3 * square) * np.exp(-np.sqrt(5) * r)
    return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)


def direct(word, X, task, y, parameters, constant):
    """Log marginal likelihood of each task by scipy, all rows one by one."""
    result = []
    for t, (kappa, noise, amplitude) in enumerate(zip(*parameters, strict=True)):
        own = task == t
        A = amplitude * covariance(word, X[own], X[own], kappa) + constant + noise * np.eye(own.sum())
        result.append(multivariate_normal(np.zeros(own.sum()), A).logpdf(y[own]) if own.any() else 0.0)
    return np.array(result)

"""Comparison of Monte-Carlo answers by their own errors."""

from __future__ import annotations

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of (chain, draw) values and its Monte-Carlo standard error."""
    ess = float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean"))
    return float(values.mean()), float(values.std() / np.sqrt(ess))


def largest_z(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> tuple[float, str]:
    """Largest |z| between the means of two samples over all shared quantities, and where."""
    scores = {}
    for name, values in first.items():
        m1, s1 = mean_and_error(values)
        m2, s2 = mean_and_error(second[name])
        scores[name] = abs(m1 - m2) / np.hypot(s1, s2)
    worst = max(scores, key=lambda name: scores[name])
    return scores[worst], worst


def max_margin_quantities(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """First and second moments of the coefficients; log determinants and correlations of the covariances.

    Covariance entries themselves have no finite variance under the default degrees of freedom.
    """
    quantities = {}
    eta = posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()
    for d in range(eta.shape[2]):
        for t in range(eta.shape[3]):
            quantities[f"coefficient {d},{t}"] = eta[:, :, d, t]
            quantities[f"square {d},{t}"] = eta[:, :, d, t] ** 2
    for name in {"C", "covariance_scale"} & set(posterior.data_vars):
        quantities[f"log {name}"] = np.log(posterior[name].to_numpy())
    for name in {"feature_cov", "task_cov"} & set(posterior.data_vars):
        cov = posterior[name].to_numpy()
        quantities[f"log det {name}"] = np.linalg.slogdet(cov)[1]
        for i in range(cov.shape[-1]):
            quantities[f"log {name} {i}"] = np.log(cov[..., i, i])
            for j in range(i):
                scale = np.sqrt(cov[..., i, i] * cov[..., j, j])
                quantities[f"correlation {name} {i},{j}"] = cov[..., i, j] / scale
    return quantities

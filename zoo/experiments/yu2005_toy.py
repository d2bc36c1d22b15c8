"""Figure 1 of Yu, Tresp & Schwaighofer (2005): a learned kernel and its truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm

from zoo.data.multitask import MultiTaskData
from zoo.experiments.topics import (
    ZERO_MEAN,
)
from zoo.likelihoods import Flat, Gaussian, InverseGammaOfSquare
from zoo.models.niw.gaussian_process import NIWGaussianProcess
from zoo.report import complete

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["nearness", "neural_network_kernel", "toy_data"]

_GRID = np.linspace(-1.0, 1.0, 41)
_FUNCTIONS = 20
_POINTS = 10
_TOY_NOISE = 0.1
_BIAS_VARIANCE, _SLOPE_VARIANCE = 4.0, 50.0
_LENGTHSCALE = 0.5


def neural_network_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Covariance (n, m) of a network of infinitely many sigmoid units (Williams 1998); inputs (n,) and (m,)."""

    def product_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 2.0 * (_BIAS_VARIANCE + _SLOPE_VARIANCE * a * b)

    x, y = x[:, None], y[None, :]
    return np.asarray(
        2.0
        / np.pi
        * np.arcsin(product_of(x, y) / np.sqrt((1.0 + product_of(x, x)) * (1.0 + product_of(y, y))))
    )


def toy_data(seed: int) -> MultiTaskData:
    """Noisy functions from :func:`neural_network_kernel`, each at its own random points."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=(_FUNCTIONS, _POINTS))
    f = [rng.multivariate_normal(np.zeros(_POINTS), neural_network_kernel(row, row)) for row in x]
    y = np.array(f) + _TOY_NOISE * rng.standard_normal(x.shape)
    return MultiTaskData.from_arrays(x.reshape(-1, 1), y.ravel(), np.repeat(np.arange(_FUNCTIONS), _POINTS))


def _toy(seed: int, draws: int) -> dict[str, Any]:
    """Job: kernels on the grid, and how near they come to the true one."""
    data, grid = toy_data(seed), _GRID[:, None]
    base = pm.gp.cov.ExpQuad(1, ls=_LENGTHSCALE)
    factory = NIWGaussianProcess(base_kernel=base, pi=ZERO_MEAN, likelihood=Gaussian(noise=Flat()))
    em = factory.fit(data, "em", progress=False)
    gibbs = replace(factory, likelihood=Gaussian(noise=InverseGammaOfSquare(1.0, 0.01))).fit(
        data, "gibbs", draws=draws, tune=draws // 2, chains=1, random_seed=seed, progress=False, cores=1
    )
    complete(gibbs)
    kernels = {
        "true": neural_network_kernel(_GRID, _GRID),
        "base": np.exp(-0.5 * ((_GRID[:, None] - _GRID) / _LENGTHSCALE) ** 2),
        "learned, EM": em.learned_kernel(combine=False).kernel_matrix(grid),
        "learned, full Bayes": gibbs.learned_kernel().kernel_matrix(grid),
    }
    return {
        "kernels": {name: matrix.tolist() for name, matrix in kernels.items()},
        "scores": {name: nearness(matrix, kernels["true"]) for name, matrix in kernels.items()},
        "noise": {
            "learned, EM": float(em.posterior["noise"].mean()),
            "learned, full Bayes": float(gibbs.posterior["noise"].mean()),
        },
    }


def nearness(matrix: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Correlation of the entries; Frobenius error over the norm of the truth, as it is and best scaled."""
    scale = np.vdot(matrix, truth) / np.vdot(matrix, matrix)
    size = np.linalg.norm(truth)
    return {
        "correlation": float(np.corrcoef(matrix.ravel(), truth.ravel())[0, 1]),
        "relative error": float(np.linalg.norm(matrix - truth) / size),
        "relative error, scaled": float(np.linalg.norm(scale * matrix - truth) / size),
    }


def _figure1(kernels: Mapping[str, Any]) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 1 + len(kernels), figsize=(3.1 * (1 + len(kernels)), 3.1), layout="constrained"
    )
    data = toy_data(1)
    for rows in data.rows_by_task():
        rows = rows[np.argsort(data.X[rows, 0])]
        axes[0].plot(data.X[rows, 0], data.y[rows], "o-", markersize=2.5, linewidth=0.7)
    axes[0].set_title("toy data", fontsize=10)
    limit = max(np.abs(matrix).max() for matrix in kernels.values())
    for ax, (name, matrix) in zip(axes[1:], kernels.items(), strict=True):
        image = ax.imshow(matrix, extent=(-1, 1, 1, -1), vmin=-limit, vmax=limit, cmap="RdBu_r")
        ax.set_title(f"{name} kernel" if name in ("true", "base") else name, fontsize=10)
    figure.colorbar(image, ax=axes[1:].tolist(), shrink=0.8)
    return figure

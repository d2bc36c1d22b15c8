r"""Exact draws from the posterior of a normal-inverse-Wishart hierarchy of few rows, by rejection.

Given the covariance C and the noise variances the coefficients and their mean are integrated out (yu2005 eq 4):
:math:`y \sim N(0, K)`, with :math:`K_{nm} = x_n' C x_m (1 / \pi + [t_n = t_m]) + \sigma_{t_n}^2 [n = m]`. C and the
noise are drawn from their prior and kept with probability :math:`p(y \mid C, \sigma^2) / \max p`; the coefficients
follow in closed form. The maximum exists where rows leave a residual; it is searched for, and no draw may lie above it.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from tests.statistical.exact import Draws, accepted, inverse_wishart
from zoo.models.niw.base import NIWBase

__all__ = ["posterior_draws"]


class _Rows:
    """Rows X (N, p), their tasks and y; ``pi`` as in the factory."""

    def __init__(self, X: np.ndarray, y: np.ndarray, task: np.ndarray, pi: float):
        self.X, self.y, self.task, self.pi = X, y, task, pi
        self.of_tasks = 1.0 / pi + (task[:, None] == task)

    def covariance(self, C: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """K (S, N, N) of draws C (S, p, p) and of noise variances (S, T)."""
        noise = np.eye(len(self.y)) * variance[:, self.task][:, None, :]
        return (self.X @ C @ self.X.T) * self.of_tasks + noise

    def log_density(self, C: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """log p(y | C, noise), (S,), up to a constant."""
        root = np.linalg.cholesky(self.covariance(C, variance))
        white = np.linalg.solve(root, np.broadcast_to(self.y[:, None], (len(C), len(self.y), 1)))[..., 0]
        log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return -0.5 * np.sum(white**2, axis=1) - log_root

    def maximum(self, n_noises: int) -> float:
        """Of the log density over all C and noise variances: the best of a few searches."""
        p, n_tasks = self.X.shape[1], self.task.max() + 1
        lower = np.tril_indices(p)

        def loss(z: np.ndarray) -> float:
            root = np.zeros((p, p))
            root[lower] = z[n_noises:]
            variance = np.broadcast_to(np.exp(z[:n_noises]), (1, n_tasks))
            return -float(self.log_density((root @ root.T)[None], variance)[0])

        rng = np.random.default_rng(0)
        starts = rng.standard_normal((8, n_noises + len(lower[0])))
        bounds = [(-20.0, 5.0)] * n_noises + [(None, None)] * len(lower[0])
        return max(-minimize(loss, z, method="L-BFGS-B", bounds=bounds).fun for z in starts)


def posterior_draws(
    rng: np.random.Generator, n: int, factory: NIWBase, rows: tuple[np.ndarray, ...], scale: np.ndarray
) -> Draws:
    """``n`` independent draws of the population's mean and covariance, the coefficients (p, T) and the noise.

    Parameters
    ----------
    rows : X (N, p), y (N,), task (N,)
    scale : (p, p) array
        Of the inverse-Wishart prior; diagonal where scales are learned, which multiply it.
    """
    X, y, task = rows
    at, p, n_tasks = _Rows(X, y, task, factory.pi), len(scale), task.max() + 1
    shape, rate = factory.noise_prior
    n_noises = n_tasks if factory.noise_by_task else 1

    def prior(rng: np.random.Generator, size: int) -> Draws:
        variance = rate / rng.standard_gamma(shape, (size, n_noises))
        cov = inverse_wishart(rng, size, factory.delta + p - 1, scale)
        if factory.scale_sd is not None:
            g = factory.scale_sd * rng.standard_normal((size, p))
            cov = cov * g[:, :, None] * g[:, None, :]
        return {"cov": cov, "variance": variance}

    def everywhere(variance: np.ndarray) -> np.ndarray:
        return np.broadcast_to(variance, (len(variance), n_tasks))

    highest = at.maximum(n_noises) + 1e-6
    kept = accepted(rng, n, prior, lambda d: highest - at.log_density(d["cov"], everywhere(d["variance"])))
    noise = np.sqrt(kept["variance"])
    return {
        **_coefficients(rng, at, kept["cov"], everywhere(kept["variance"]), n_tasks),
        "cov": kept["cov"],
        "noise": noise if factory.noise_by_task else noise[:, 0],
    }


def _coefficients(
    rng: np.random.Generator, at: _Rows, C: np.ndarray, variance: np.ndarray, n_tasks: int
) -> Draws:
    """Draws of mean (S, p) and coefficients (S, p, T): from their prior, moved by what the rows say beyond it."""
    S, p = C.shape[:2]
    root = np.linalg.cholesky(C)
    mean = root @ rng.standard_normal((S, p, 1)) / np.sqrt(at.pi)
    w = mean + root @ rng.standard_normal((S, p, n_tasks))
    noise = np.sqrt(variance[:, at.task]) * rng.standard_normal((S, len(at.y)))
    simulated = np.einsum("np,spn->sn", at.X, w[:, :, at.task]) + noise
    ahead = np.linalg.solve(at.covariance(C, variance), (at.y - simulated)[..., None])[..., 0]
    reach = C @ at.X.T  # (S, p, N)
    mean = mean[..., 0] + np.einsum("spn,sn->sp", reach, ahead) / at.pi
    own = np.eye(n_tasks)[at.task]
    w = w + np.einsum("spn,nt,sn->spt", reach, 1.0 / at.pi + own, ahead)
    return {"mean": mean, "coefficients": w}

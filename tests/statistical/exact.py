"""Exact draws from pseudo-posteriors of few rows, by rejection from priors that are written down here once more.

Each row multiplies the posterior by a factor, ``exp(-2 C w loss)`` or a probability to the power w, and no factor
exceeds 1. So a draw from the prior that is kept with probability equal to the product of the factors is a draw from
the posterior. The priors use nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

Draws = dict[str, np.ndarray]


def inverse_wishart(rng: np.random.Generator, n: int, nu: float, scale: np.ndarray) -> np.ndarray:
    """Draws (n, p, p), by Bartlett's decomposition of their inverses."""
    p = len(scale)
    A = np.tril(rng.standard_normal((n, p, p)), -1)
    A[:, np.arange(p), np.arange(p)] = np.sqrt(rng.chisquare(nu - np.arange(p), (n, p)))
    root = np.linalg.cholesky(np.linalg.inv(scale)) @ A
    return np.linalg.inv(root @ np.swapaxes(root, 1, 2))


def matrix_normal(rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Draws of coefficients (n, D, T) with covariances (n, D, D) and (n, T, T)."""
    z = rng.standard_normal((len(rows), rows.shape[1], columns.shape[1]))
    return np.linalg.cholesky(rows) @ z @ np.swapaxes(np.linalg.cholesky(columns), 1, 2)


def max_margin_prior(rng: np.random.Generator, n: int, D: int, T: int, feature: dict, task: dict) -> Draws:
    """``feature`` and ``task`` hold ``nu`` and ``scale``, or ``given``."""
    result, parts = {}, []
    for name, size, prior in (("feature_cov", D, feature), ("task_cov", T, task)):
        if "given" in prior:
            parts.append(np.broadcast_to(prior["given"], (n, size, size)))
        else:
            parts.append(inverse_wishart(rng, n, prior["nu"], prior["scale"]))
            result[name] = parts[-1]
    return {**result, "coefficients": matrix_normal(rng, *parts)}


def population_prior(
    rng: np.random.Generator, n: int, T: int, pi: float, nu: float, scale: np.ndarray
) -> Draws:
    """A normal-inverse-Wishart hierarchy, nu as in textbooks."""
    C = inverse_wishart(rng, n, nu, scale)
    root = np.linalg.cholesky(C)
    mean = root @ rng.standard_normal((n, len(scale), 1)) / np.sqrt(pi)
    w = mean + root @ rng.standard_normal((n, len(scale), T))
    return {"coefficients": w, "population_mean": mean[..., 0], "feature_cov": C}


def _patterns(D: int) -> np.ndarray:
    """All columns (2^D - 1, D) with a one."""
    return (np.arange(1, 2**D)[:, None] >> np.arange(D)) & 1


def latent_feature_prior(
    rng: np.random.Generator, n: int, D: int, T: int, alpha: float | None, task: dict
) -> Draws:
    """Z as the number of columns of each pattern; a learned alpha is Gamma(2, 1).

    Under the process the number of columns equal to h is Poisson with mean
    ``alpha (|h| - 1)! (D - |h|)! / D!``, independently of the others (Griffiths & Ghahramani 2011).
    """
    mass = rng.gamma(2.0, 1.0, n) if alpha is None else np.full(n, alpha)
    patterns = _patterns(D)
    ones = patterns.sum(axis=1)
    share = np.exp(gammaln(ones) + gammaln(D - ones + 1.0) - gammaln(D + 1.0))
    counts = rng.poisson(mass[:, None] * share)
    gram = np.einsum("nh,hi,hj->nij", counts, patterns, patterns)
    learned = {} if "given" in task else {"task_cov": inverse_wishart(rng, n, task["nu"], task["scale"])}
    R = np.broadcast_to(task["given"], (n, T, T)) if "given" in task else learned["task_cov"]
    eta = matrix_normal(rng, np.eye(D) + gram, R)
    own = {"alpha": mass} if alpha is None else {}
    return {"coefficients": eta, "counts": counts, **learned, **own}


def kernel_machine_prior(rng: np.random.Generator, n: int, D: int, T: int) -> Draws:
    """Kernel (22) of evgeniou2005: (1 - lam) for all tasks, lam T more for each."""
    lam, amplitude = rng.random(n), np.exp(rng.standard_normal(n))
    of_tasks = (1.0 - lam)[:, None, None] + (lam * T)[:, None, None] * np.eye(T)
    B = amplitude[:, None, None] ** 2 * of_tasks
    eta = matrix_normal(rng, np.broadcast_to(np.eye(D), (n, D, D)), B)
    return {"coefficients": eta, "lam": lam, "amplitude": amplitude, "task_cov": B}


def with_matrices(draws: Draws) -> Draws:
    """Z (n, D, K), padded with columns of zeros, in place of the counts of its patterns."""
    if "counts" not in draws:
        return draws
    counts = draws["counts"]
    patterns = _patterns(draws["coefficients"].shape[1])
    Z = np.zeros((len(counts), patterns.shape[1], max(1, counts.sum(axis=1).max())), dtype=np.int64)
    for i, own in enumerate(counts):
        columns = np.repeat(patterns, own, axis=0)
        Z[i, :, : len(columns)] = columns.T
    return {**{name: v for name, v in draws.items() if name != "counts"}, "Z": Z}


def accepted(
    rng: np.random.Generator,
    n: int,
    prior: Callable[[np.random.Generator, int], Draws],
    loss: Callable[[Draws], np.ndarray],
) -> Draws:
    """``n`` draws from prior(theta) exp(-loss(theta)), with loss (batch,) of 0 or more."""
    kept: list[Draws] = []
    while sum(len(next(iter(part.values()))) for part in kept) < n:
        proposed = prior(rng, 4 * n)
        exponent = loss(proposed)
        assert np.all(exponent >= 0.0)
        keep = rng.standard_exponential(len(exponent)) > exponent
        kept.append({name: values[keep] for name, values in proposed.items()})
    return {name: np.concatenate([part[name] for part in kept])[:n] for name in kept[0]}


def covariance_prior(factory: Any, name: str, size: int) -> dict[str, Any]:
    """Degrees of freedom and scale of a factory's covariance of features or tasks, or the given matrix."""
    prior = factory._prior(name, size)
    if prior.given is not None:
        return {"given": prior.given}
    return {"nu": prior.nu, "scale": np.eye(size) if prior.scale is None else prior.scale}


def loss_of(factory: Any, data: Any, offset: Any = 0.0) -> Callable[[Draws], np.ndarray]:
    """Exponent (S,) of a factory's pseudo-likelihood at draws of the coefficients."""
    weight = np.ones(data.n_rows) if data.weight is None else data.weight

    def loss(draws: Draws) -> np.ndarray:
        f = offset + np.einsum("nd,sdn->sn", data.X, draws["coefficients"][:, :, data.task])
        if factory.likelihood.word == "logistic":
            return np.asarray(np.logaddexp(0.0, -data.y * f) @ weight)
        if factory.likelihood.labels:
            missed = np.maximum(0.0, factory.likelihood.margin - data.y * f)
        else:
            missed = np.maximum(0.0, np.abs(data.y - f) - factory.likelihood.tube)
        return 2.0 * factory.likelihood.C * missed @ weight

    return loss


def recorded(draws: Draws) -> Draws:
    """Covariances as the models report them: where both are learned, that of features with trace D."""
    if not {"feature_cov", "task_cov"} <= set(draws):
        return draws
    scale = np.trace(draws["feature_cov"], axis1=1, axis2=2) / draws["feature_cov"].shape[1]
    of = scale[:, None, None]
    moved = {"feature_cov": draws["feature_cov"] / of, "task_cov": draws["task_cov"] * of}
    return {**draws, **moved, "covariance_scale": scale}


def statistics(draws: Draws, X: np.ndarray, y: np.ndarray, task: np.ndarray, offset: np.ndarray) -> Draws:
    """Scalars (n,): entries and squares, log determinants, function values, and the sum of y f."""
    result: Draws = {}
    for name, values in draws.items():
        if name == "Z":
            gram = values @ np.swapaxes(values, 1, 2)
            result |= {f"ZZ'[{i},{j}]": gram[:, i, j] for i in range(gram.shape[1]) for j in range(i + 1)}
            result["n_latent"] = values.any(axis=1).sum(axis=1)
            continue
        flat = values.reshape(len(values), -1)
        result |= {f"{name}[{i}]": flat[:, i] for i in range(flat.shape[1]) if np.ptp(flat[:, i]) > 0.0}
        if name == "coefficients":
            result |= {f"{name}[{i}]^2": flat[:, i] ** 2 for i in range(flat.shape[1])}
        if name.endswith("_cov"):
            result[f"log|{name}|"] = np.linalg.slogdet(values)[1]
    f = offset + np.einsum("nd,sdn->sn", X, draws["coefficients"][:, :, task])
    result |= {f"f[{n}]": f[:, n] for n in range(len(y))}
    result |= {"y'f": f @ y, "f'f": np.sum(f**2, axis=1)}
    return result

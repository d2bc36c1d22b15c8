r"""Kernel machines by liblinear: the mode of functions under the hinge or the epsilon-insensitive loss.

.. math:: \min_w \; 2C \sum_n c_n L(y_n, w' \phi_n) + \tfrac12 w'w

with features :math:`\phi_n` whose products are the kernel: those of the tasks' weights (:math:`W_{tk} x_n` shared,
:math:`\sqrt{d_t} x_n` of its own), or a root of the kernel matrix. No intercept: the dual is eq (18) of Evgeniou,
Micchelli & Pontil (2005), which has no equality constraint (libsvm's always has).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoo.latent.task_weights import Loadings

__all__ = ["Machine", "support_vector_machine", "task_coefficients", "task_features"]


class Machine(NamedTuple):
    """Weights of the features, value of the objective, whether the tolerance was reached."""

    weights: np.ndarray
    objective: float
    converged: bool


def support_vector_machine(
    features: Any,
    y: np.ndarray,
    loss: str,
    C: float,
    epsilon: float,
    weight: np.ndarray | None,
    tol: float,
    max_iter: int,
    random_seed: int | None,
) -> Machine:
    """The minimum by liblinear's dual coordinate descent.

    ``loss`` is "hinge" (labels -1/+1) or "epsilon_insensitive"; ``features`` (N, p) dense or sparse.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC, LinearSVR
    except ImportError as error:
        raise ImportError(
            "method 'map' of this loss needs scikit-learn. Install it with pip install 'zoo[experiments]'."
        ) from error
    options = {
        "C": 2.0 * C, "tol": tol, "max_iter": max_iter, "fit_intercept": False, "dual": True, "loss": loss,
        "random_state": random_seed,
    }  # fmt: skip
    machine = LinearSVC(**options) if loss == "hinge" else LinearSVR(epsilon=epsilon, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(features, y, sample_weight=weight)
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
    w = np.ravel(machine.coef_)
    f = features @ w
    missed = np.maximum(0.0, 1.0 - y * f) if loss == "hinge" else np.maximum(0.0, np.abs(y - f) - epsilon)
    total = float(np.sum(missed if weight is None else weight * missed))
    return Machine(w, 2.0 * C * total + 0.5 * float(w @ w), converged)


def task_features(X: np.ndarray, task: np.ndarray, loadings: Loadings) -> sparse.csr_matrix:
    """Features (N, (r + T) D) whose products are the kernel of the loadings; zeros are not stored."""
    white = X if loadings.R is None else X @ loadings.R
    N, D = white.shape
    T, r = loadings.W.shape
    parts = [sparse.csr_matrix(white * loadings.W[task, k][:, None]) for k in range(r)]
    if np.any(loadings.d > 0.0):
        own = (white * np.sqrt(loadings.d)[task][:, None]).ravel()
        columns = (task[:, None] * D + np.arange(D)).ravel()
        parts.append(sparse.csr_matrix((own, columns, np.arange(0, N * D + 1, D)), shape=(N, T * D)))
    result = sparse.hstack(parts, format="csr")
    result.eliminate_zeros()
    return result


def task_coefficients(weights: np.ndarray, D: int, loadings: Loadings) -> np.ndarray:
    """Coefficients (D, T) of the tasks that these weights of :func:`task_features` are."""
    T, r = loadings.W.shape
    white = weights[: r * D].reshape(r, D).T @ loadings.W.T
    if np.any(loadings.d > 0.0):
        white = white + weights[r * D :].reshape(T, D).T * np.sqrt(loadings.d)
    return white if loadings.R is None else loadings.R @ white

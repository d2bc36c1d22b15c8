"""Coefficients of local fits at any place, on the user's scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zoo.core.fit import Fit
from zoo.core.methods import UnsupportedMethodError, overridden_hooks
from zoo.models.local_smoothing.rows import Choice, KnownRows, LocalRows
from zoo.support.checks import finite_matrix
from zoo.support.words import counted

__all__ = ["LocalCoefficients", "choice_of", "coefficients_at", "fits_at", "local_values"]


class LocalCoefficients(NamedTuple):
    """Names of D features, and the mean and standard deviation (n, D) of their coefficients at n places."""

    feature_names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray


def coefficients_at(fit: Fit, t: np.ndarray) -> LocalCoefficients:
    """Coefficients at places, on the user's scale of features and response.

    Parameters
    ----------
    fit : Fit
        Of a :class:`KernelLocalSmoothing` with linear instance kernel.
    t : (n, P) array
        Places, on the user's scale.

    Returns
    -------
    LocalCoefficients
        In closed form; for labels the mode, and standard deviations by Laplace's approximation. "intercept" comes
        last where the data were standardized and have no constant feature.
    """
    factory: Any = fit.factory
    if factory.instance_kernel != "linear":
        raise UnsupportedMethodError(
            f"instance_kernel is {factory.instance_kernel!r}: its features have no coefficients to look at. "
            'Use instance_kernel="linear".'
        )
    if overridden_hooks(factory, factory._fit_map):
        raise UnsupportedMethodError(
            f"{type(factory).__name__} overrides a hook, and local fits were derived for the original."
        )
    known = _known_of(fit)
    places = finite_matrix(t, "t", fit.data.t_names if np.shape(t)[1:] == known.places.shape[1:] else None)
    if places.shape[1] != known.places.shape[1]:
        raise ValueError(
            f"t has {counted(places.shape[1], 'column')}, but the data have {known.places.shape[1]}."
        )
    A, shift, names = _to_users_scale(known)
    M, choice = known.X.shape[1], choice_of(fit)
    distinct, position = np.unique(places, axis=0, return_inverse=True)
    mean, sd = np.empty((len(distinct), len(names))), np.empty((len(distinct), len(names)))
    for i, (local,) in enumerate(fits_at(known, distinct, choice)):
        mean[i] = A @ local.mean[:M] + shift
        variance = np.einsum("ij,jk,ik->i", A, local.covariance()[:M, :M], A)
        sd[i] = choice.noise * np.sqrt(variance)
    return LocalCoefficients(names, mean[position.ravel()], sd[position.ravel()])


def _to_users_scale(known: KnownRows) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Matrix and vector that take coefficients to the user's scale, and the names of those."""
    names, M = known.feature_names, known.X.shape[1]
    transform = known.data.transform
    if transform is None:
        return np.eye(M), np.zeros(M), names
    added = M - len(transform.x_mean)
    centre = np.concatenate([transform.x_mean, np.zeros(added)])
    A = np.diag(transform.y_scale / np.concatenate([transform.x_scale, np.ones(added)]))
    constant = known.intercept
    if constant is None:
        A, names, constant = np.vstack([A, np.zeros(M)]), (*names, "intercept"), M
    # Of a constant feature with value c, the coefficient takes up 1 / c of what centring left.
    value = 1.0 if constant == M else float(known.X[0, constant])
    shift = np.zeros(len(A))
    shift[constant] = transform.y_mean / value
    A[constant] -= centre @ A[:M] / value
    return A, shift, names


def _known_of(fit: Fit) -> KnownRows:
    """The rows of a fit, made once."""
    known: KnownRows = fit.state
    return known


def choice_of(fit: Fit) -> Choice:
    """Bandwidth, ridge and noise of a fit."""
    first = fit.posterior.isel(chain=0, draw=0)
    noise = float(first["noise"]) if "noise" in first else 1.0
    return Choice(float(first["bandwidth"]), float(first["lam"]), noise)


def fits_at(known: KnownRows, t: np.ndarray, choice: Choice) -> Any:
    """Local fits at places on the user's scale."""
    with known.regressions.threads():
        yield from known.regressions.fits(known.standard(t), choice.bandwidth, [choice.lam])


def local_values(rows: LocalRows, bandwidth: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Value of the local function and its variance in units of the noise, (n,)."""
    assert rows.t is not None
    return rows.known.regressions.at_rows(rows.inputs, rows.known.standard(rows.t), bandwidth, lam)

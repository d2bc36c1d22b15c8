"""Rows of kernel-local smoothing: features, places, and what is chosen from the rows of the fit."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.spatial.distance import pdist

from zoo.data.multitask import MultiTaskData
from zoo.inference.local.fits import LocalRegressions, cross_validation
from zoo.inference.weighted_moments import weighted_mean, weighted_sd
from zoo.kernels.basis import Basis, distinct_rows
from zoo.likelihoods.coding import label_values
from zoo.models.local_smoothing.description import LocalDescription

__all__ = ["Choice", "KnownRows", "LocalRows", "require_places"]

# Rows whose distances give the median one.
_FOR_MEDIAN = 1000


class Choice(NamedTuple):
    """Bandwidth, penalty and noise (1 for labels), and the held-out losses (bandwidth, lam) behind the first two."""

    bandwidth: float
    lam: float
    noise: float
    losses: np.ndarray | None = None


def require_places(data: MultiTaskData, model: str) -> np.ndarray:
    """The continuous task variable, (N, P); raises where there is none or a column is constant."""
    if data.t is None:
        raise ValueError(
            f"t is missing: {model} smooths over a continuous task variable. "
            "Give t to MultiTaskData.from_frame or .from_arrays."
        )
    constant = np.ptp(data.t, axis=0) == 0.0
    if constant.any():
        name = (data.t_names or ())[int(np.flatnonzero(constant)[0])]
        raise ValueError(f"t column {name!r} is constant: nothing varies along it. Leave it out.")
    return data.t


class KnownRows:
    """The rows of a fit.

    Parameters
    ----------
    factory : KernelLocalSmoothing
    data : MultiTaskData
        On the model's scale.

    Attributes
    ----------
    places : (K, P) array
        Distinct t of the rows, on the user's scale.
    place : (N,) int
        Which of them each row has.
    intercept : int or None
        Position of the constant feature.
    """

    def __init__(self, factory: LocalDescription, data: MultiTaskData):
        t = require_places(data, type(factory).__name__)
        self.factory, self.data = factory, data
        self.places, place = np.unique(t, axis=0, return_inverse=True)
        self.place = place.ravel()
        self._centre, self._scale = weighted_mean(t, data.weight), weighted_sd(t, data.weight)
        X: Any = data.X
        if factory.instance_kernel == "matern":
            self._basis: Basis | None = self._nystroem(X)
            names = tuple(f"basis {i}" for i in range(self._basis.rank))
            self._adds = factory.intercept
        else:
            self._basis, names = None, data.feature_names
            self._adds = factory.intercept and _constant_feature(X) is None
        if self._adds and "intercept" in names:
            raise ValueError("feature 'intercept' is not constant. Rename it, or give intercept=False.")
        self.feature_names = (*names, "intercept") if self._adds else names
        self.X = self.features(X)
        self.intercept = _constant_feature(self.X)

    # ---------------------------------------------------------------- maps

    def features(self, X: np.ndarray) -> np.ndarray:
        """Features (n, M) of inputs (n, D) on the model's scale."""
        mapped = X if self._basis is None else self._basis.features(X)
        return np.column_stack([mapped, np.ones(len(mapped))]) if self._adds else np.ascontiguousarray(mapped)

    def standard(self, t: np.ndarray) -> np.ndarray:
        """Places (n, P) with each column at mean 0 and standard deviation 1 over the rows of the fit."""
        return (t - self._centre) / self._scale

    def position(self, t: np.ndarray) -> np.ndarray:
        """Which of ``places`` each place is, (n,); -1 for another."""
        K = len(self.places)
        _, inverse = np.unique(np.concatenate([self.places, t]), axis=0, return_inverse=True)
        inverse = inverse.ravel()
        result = np.full(K + len(t), -1)
        result[inverse[:K]] = np.arange(K)
        return result[inverse[K:]]

    def _nystroem(self, X: np.ndarray) -> Basis:
        """Features of the Matern kernel at random rows."""
        rng = np.random.default_rng(self.factory.design_seed)
        distinct, _ = distinct_rows(X)
        chosen = distinct[np.sort(rng.permutation(len(distinct))[: max(self.factory.n_basis, _FOR_MEDIAN)])]
        lengthscale = self.factory.lengthscale
        if isinstance(lengthscale, str):
            distances = pdist(chosen[rng.permutation(len(chosen))[:_FOR_MEDIAN]])
            lengthscale = float(np.median(distances)) if len(distances) else 1.0
        centres = chosen[np.sort(rng.permutation(len(chosen))[: self.factory.n_basis])]
        return Basis.of(pm.gp.cov.Matern52(X.shape[1], ls=lengthscale), centres)

    # ---------------------------------------------------------------- local fits

    @cached_property
    def regressions(self) -> LocalRegressions:
        """The rows, ready for local fits."""
        labels = self.factory.likelihood.labels
        y = np.where(self.data.y == label_values(self.data.y)[1], 1.0, -1.0) if labels else self.data.y
        z = self.standard(self.places)[self.place]
        return LocalRegressions(
            self.X, y, z, labels, self.factory.window, self.factory.degree, self.data.weight
        )

    @cached_property
    def choice(self) -> Choice:
        """Bandwidth, penalty and noise, which are the fields, or what the rows say where these leave it open."""
        factory, rows = self.factory, self.regressions
        rng = np.random.default_rng(factory.design_seed)
        bandwidths = _candidates(factory.bandwidth, factory.bandwidth_grid)
        lams = _candidates(factory.ridge, factory.ridge_grid)
        losses, best = None, (0, 0)
        if len(bandwidths) * len(lams) > 1:
            folds = min(factory.cv_folds, len(rows.y))
            losses = cross_validation(rows, bandwidths, lams, folds, factory.cv_max_rows, rng)
            best = np.unravel_index(int(losses.argmin()), losses.shape)  # type: ignore[assignment]
        bandwidth, lam = bandwidths[best[0]], lams[best[1]]
        if len(bandwidths) > 1 and bandwidth in (min(bandwidths), max(bandwidths)):
            logging.getLogger("zoo").warning(
                "bandwidth %g was chosen, which is an end of bandwidth_grid: a grid that goes further may do better.",
                bandwidth,
            )
        noise = 1.0
        if not factory.likelihood.labels:
            noise = factory.likelihood.fixed.get("noise", 0.0)
            if not noise:
                # The same rows whether or not folds were dealt before.
                rng = np.random.default_rng(factory.design_seed)
                some = np.sort(rng.permutation(len(rows.y))[: factory.cv_max_rows])
                noise = max(rows.noise_variance(bandwidth, lam, some) ** 0.5, 1e-10)
        return Choice(bandwidth, lam, noise, losses)


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalRows(MultiTaskData):
    """Rows seen from places, with the features of local fits.

    Parameters
    ----------
    known : KnownRows
        The rows of the fit.
    place : (N,) int
        Place that each row is seen from; -1 for one that no row of the fit has.
    offset : (N, P) array
        The row's place less that one, in bandwidths; 0 for a row at its own place.
    predicted : bool
        Whether these are rows to predict.
    """

    known: KnownRows
    place: np.ndarray
    offset: np.ndarray
    predicted: bool

    @classmethod
    def of(cls, data: MultiTaskData, known: KnownRows, predicted: bool) -> LocalRows:
        """Rows at their own places."""
        t = data.t
        assert t is not None
        return data.seen_as(
            cls,
            inputs=known.features(data.X) if predicted else known.X,
            row=np.arange(data.n_rows),
            y=data.y if predicted else known.regressions.y,
            feature_names=known.feature_names,
            known=known,
            place=known.position(t) if predicted else known.place,
            offset=np.zeros(t.shape),
            predicted=predicted,
        )

    def take(self, rows: Any) -> LocalRows:
        """The observations at these positions."""
        index = np.arange(self.n_rows)[rows]
        return self.seen(index, self.place[index], self.offset[index])

    def seen(self, rows: np.ndarray, place: np.ndarray, offset: np.ndarray) -> LocalRows:
        """Rows, which may repeat, seen from places."""
        assert self.t is not None
        return replace(
            self,
            inputs=self.inputs[rows],
            row=np.arange(len(rows)),
            y=self.y[rows],
            task=self.task[rows],
            t=self.t[rows],
            place=place,
            offset=offset,
            weight=None if self.weight is None else self.weight[rows],
        )

    def neighbours(self, bandwidth: float, most: int) -> tuple[LocalRows, np.ndarray]:
        """Every row of the fit as seen from every other place in whose window it lies, and its weight there.

        Raises
        ------
        ValueError
            They are more than ``most``.
        """
        known = self.known
        rows, places, weights, offsets, total = [], [], [], [], 0
        for i, window in enumerate(known.regressions.windows(known.standard(known.places), bandwidth)):
            index = np.arange(self.n_rows)[window.rows]
            other = (known.place[index] != i) & (window.weight > 0.0)
            total += int(other.sum())
            if total > most:
                raise ValueError(
                    f"the model as a PyMC model would hold more than {most} pairs of rows and places with bandwidth "
                    f'{bandwidth:g}. Use method "map" or "exact", a smaller bandwidth, or fewer rows.'
                )
            rows.append(index[other])
            places.append(np.full(int(other.sum()), i))
            weights.append(window.weight[other])
            offsets.append(window.offset[other])
        seen = self.seen(np.concatenate(rows), np.concatenate(places), np.concatenate(offsets))
        weight = np.concatenate(weights)
        return seen, weight if seen.weight is None else weight * seen.weight


def _candidates(value: float | str, grid: tuple[float, ...]) -> tuple[float, ...]:
    return grid if isinstance(value, str) else (float(value),)


def _constant_feature(X: np.ndarray) -> int | None:
    """Position of a feature that is the same number other than 0 in all rows."""
    found = np.flatnonzero((np.ptp(X, axis=0) == 0.0) & (X[0] != 0.0))
    return int(found[0]) if len(found) else None

"""Functions of varying coefficients as weights of fixed features."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from zoo.inference.responses import NormalResponses
from zoo.latent.basis_regression import BasisRegression, Gram, basis_evidence, gaussian_evidence
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.space import ENTRIES, MANY, Space, State

__all__ = ["WeightSpace"]


class WeightSpace(Space):
    """Weights of fixed features."""

    values_name = "basis_weights"

    @cached_property
    def _variances(self) -> tuple[Any, Any]:
        return self.log_variances(self.kernel)

    @cached_property
    def _regression(self) -> BasisRegression:
        def features(block: slice) -> np.ndarray:
            return self.kernel.features(self.rows, block)

        return BasisRegression(features, self.rows.n_rows, self.kernel.n_weights, self.responses)

    @cached_property
    def gram(self) -> Gram:
        """The sums over rows that Gaussian noise needs."""
        regression = self._regression
        p, weight = self.kernel.n_weights, self.rows.weight
        G, h = np.zeros((p, p), order="F"), np.zeros(p)
        for rows, block in regression.blocks(keep=False):
            weighted = block if weight is None else weight[rows, None] * block
            G += weighted.T @ block
            h += weighted.T @ self.y[rows]
        square, size = (1.0, len(self.y)) if weight is None else (weight, float(weight.sum()))
        return Gram(G, h, float((square * self.y) @ self.y), size)

    @cached_property
    def coarse(self) -> np.ndarray | None:
        """Weights of the lower half of all frequencies, to be searched first; None where that would save little."""
        index = self.kernel.low_frequencies()
        many = self.kernel.n_weights >= MANY
        return index if many and len(index) <= 0.6 * self.kernel.n_weights else None

    @cached_property
    def _coarse_regression(self) -> BasisRegression:
        index = self.coarse
        assert index is not None

        def features(block: slice) -> np.ndarray:
            return self.kernel.features(self.rows, block)[:, index]

        return BasisRegression(features, self.rows.n_rows, len(index), self.responses)

    @cached_property
    def _coarse_gram(self) -> Gram:
        G, h, yy, n = self.gram
        assert self.coarse is not None
        return Gram(np.asfortranarray(G[np.ix_(self.coarse, self.coarse)]), h[self.coarse], yy, n)

    def _residual(self, f: np.ndarray) -> np.ndarray:
        """Responses less f, times the roots of the weights of the rows."""
        left = self.y - f
        return left if self.rows.weight is None else np.sqrt(self.rows.weight) * left

    def _evaluate(self, z: np.ndarray, coarse: bool = False) -> Any:
        logs = np.asarray(self._variances[0](z))
        if isinstance(self.responses, NormalResponses):
            log_noise = self.responses.log_noise(z[self._positions])
            gram, regression = self.gram, self._regression
            if coarse:
                gram, regression, logs = self._coarse_gram, self._coarse_regression, logs[self.coarse]
            found = gaussian_evidence(gram, logs, log_noise, lambda w: self._residual(regression.times(w)))
            return found if self.responses.learned else found._replace(parameter_slopes=np.zeros(0))
        index = self.coarse if coarse else np.arange(len(logs))
        assert index is not None
        regression = self._coarse_regression if coarse else self._regression
        # From the last mode, as far out as the prior at this z lets weights be.
        bound = 5.0 * np.exp(0.5 * logs)
        start = np.clip(self._last, -bound, bound)[index]
        found = basis_evidence(regression, logs[index], z[self._positions], start)
        self._last[index] = found.mode.w
        return found

    @cached_property
    def _last(self) -> np.ndarray:
        """Weights of the last mode."""
        return np.zeros(self.kernel.n_weights)

    def evidence(self, z: np.ndarray, coarse: bool = False) -> tuple[float, np.ndarray]:
        """Log evidence and its derivative in z; with ``coarse`` those of the weights of low frequencies alone."""
        found = self._evaluate(z, coarse)
        slopes = found.variance_slopes
        if coarse:
            slopes = np.zeros(self.kernel.n_weights)
            slopes[self.coarse] = found.variance_slopes
        gradient = np.asarray(self._variances[1](z, slopes))
        return found.value, self._pulled(found.parameter_slopes, gradient)

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        found = self._evaluate(z)
        return State(z, found.value, found.mode, found.mode.converged)

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        mean, variance = np.empty(rows.n_rows), np.empty(rows.n_rows)
        step = max(1, ENTRIES // self.kernel.n_weights)
        for start in range(0, rows.n_rows, step):
            block = slice(start, start + step)
            features = self.kernel.features(rows, block)
            mean[block] = features @ state.known.w
            variance[block] = np.sum(state.known.half(features.T) ** 2, axis=0)
        return mean, variance + self.lost(self.kernel, state.z, rows)

    def draws(self, state: State, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of the variable that holds the functions."""
        return np.asarray(state.known.draws(rng, n))

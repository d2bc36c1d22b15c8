r"""How well models predict rows that they have not seen.

Where a response is normal, :math:`N(m, s^2)`, the score is minus the continuous ranked probability score (Gneiting &
Raftery 2007, eq (21)), with :math:`z = (y - m) / s`:

.. math:: -s \Big( z (2 \Phi(z) - 1) + 2 \varphi(z) - \frac{1}{\sqrt\pi} \Big).

It is largest on average for the true law, as the log density is, but grows with the distance of an outlier and not with
its square, so that no few rows decide. Of other responses the score is the log probability or log density.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.special import logsumexp, ndtr, ndtri

from zoo.core.fit import Fit
from zoo.core.function_law import function_law
from zoo.core.predictive_law import has_normal_noise, parameters_beside
from zoo.core.responses import of_rows
from zoo.core.row_laws import NormalMixture
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.derivatives import log_density
from zoo.support.quick import QUICK

__all__ = ["held_out_score", "scores"]

# Folds that the rows are dealt to, and held-out rows that are enough to compare models by. With 3,000 rows of one fold,
# of prices with outliers, chance decided between models.
_FOLDS, _ENOUGH = 5, 10_000
# Of a function that is normal at a row, for responses whose density given it is not normal.
_QUANTILES = 200


def held_out_score(factories: Sequence[Any], data: MultiTaskData, seed: int) -> np.ndarray:
    """Mean score (factory,) of rows that were held out of the fit, on the user's scale; higher is better.

    The rows are dealt to five folds at random. Of many rows, folds that hold 10,000 are enough. Weights of rows count.
    Each fit gives every row its nearest ones (method "vecchia"), which takes seconds.
    """
    order = np.random.default_rng(seed).permutation(data.n_rows)
    fold = np.empty(data.n_rows, dtype=np.int64)
    fold[order] = np.arange(data.n_rows) % _FOLDS
    total, rows, weights = np.zeros(len(factories)), 0, 0.0
    for k in range(_FOLDS):
        train, test = data.take(fold != k), data.take(fold == k)
        weight = np.ones(test.n_rows) if test.weight is None else test.weight
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows warns again
            for i, factory in enumerate(factories):
                fit = factory.fit(train, "vecchia", draws=2, chains=1, random_seed=seed, progress=False)
                total[i] += weight @ scores(fit, test)
        rows, weights = rows + test.n_rows, weights + float(weight.sum())
        if rows >= _ENOUGH:
            break
    return total / weights


def scores(fit: Fit, test: MultiTaskData) -> np.ndarray:
    """Score (n,) of what a fit says of each response of known tasks, where all draws share one law of the functions."""
    if has_normal_noise(fit):
        said = fit.predict(test, random_seed=1)
        mean, sd = said["mean"].to_numpy(), said["sd"].to_numpy()
        z = (test.original_y() - mean) / sd
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        spread = z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi)
        return np.asarray(-sd * spread)
    rows, _, rng = fit.rows_to_predict(test, None, None, False, 1)
    known = function_law(fit, rows, rng)
    if not isinstance(known, NormalMixture):
        raise TypeError(
            f"{type(fit.factory).__name__} has no normal law of its functions by method {fit.method!r}."
        )
    parameters = {name: v[0] for name, v in of_rows(parameters_beside(fit, rows, known), rows.task).items()}
    f, likelihood = pt.dvector("f"), fit.factory.likelihood
    density = pytensor.function(
        [f], log_density(likelihood, f, likelihood.encode(test), parameters), mode=QUICK
    )
    quantiles = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    found = np.array([density(known.mean[0] + known.sd[0] * z) for z in quantiles])
    return np.asarray(logsumexp(found, axis=0) - np.log(_QUANTILES))

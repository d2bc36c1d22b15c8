r"""How alike values are at places a distance apart: the empirical semivariogram, with a band of no spatial structure.

.. math:: \hat\gamma(h) = \frac{1}{2 |N(h)|} \sum_{(i, j) \in N(h)} (z_i - z_j)^2

with :math:`N(h)` the pairs of a distance in the bin of h (Matheron 1962). The robust estimator of Cressie and Hawkins
(1980), as in Cressie (1993), section 2.4, eq (2.4.12), gives outliers less weight:

.. math:: \bar\gamma(h) = \frac12 \Big(\frac{1}{|N(h)|} \sum_{N(h)} |z_i - z_j|^{1/2}\Big)^4
    \Big/ \Big(0.457 + \frac{0.494}{|N(h)|}\Big)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo.data.columns import require_same_rows
from zoo.support.checks import finite_matrix, positive, probability, whole_number
from zoo.support.frames import by_name, read_column, read_table
from zoo.support.seeds import generator
from zoo.support.words import counted

__all__ = ["variogram"]

# Pairs that are looked at together.
_BLOCK = 200_000
# Part of the diagonal of the box of all places that distances reach by default.
_REACH = 1.0 / 3.0


def variogram(
    values: Any,
    t: Any,
    bins: Any = 15,
    max_distance: float | None = None,
    max_pairs: int | None = 2_000_000,
    random_seed: Any = None,
    *,
    scale: Any = "sd",
    permutations: int = 99,
    ci_prob: float = 0.95,
) -> xr.Dataset:
    """Empirical semivariogram of values at places, residuals of a fit say.

    Parameters
    ----------
    values : (n,) array_like
        Finite, not all the same.
    t : (n, P) or (n,) array_like or DataFrame
        Place of each value, ``data.t`` say.
    bins : int or sequence of float
        Number of bins of one width from 0 to ``max_distance``, or the edges of the bins. A bin holds its upper edge;
        the first, where it starts from 0, also the pairs at one place.
    max_distance : float, optional
        Default: a third of the diagonal of the box that holds all places.
    max_pairs : int, optional
        Where there are more pairs, this many are drawn at random, with replacement. None: all of them; the time
        grows with n^2 times the permutations, memory does not.
    random_seed : int or numpy.random.Generator, optional
        For the pairs and the permutations.
    scale : "sd", float, sequence of P float, or dict
        What each column of ``t`` is divided by: its standard deviation; or numbers (a dict or a pandas Series has them
        by the names of the columns, those of an array being t0, t1, ...), so that distances have the
        unit that you want. ``scale=(1 / 75, 1 / 111)`` makes kilometres of longitude and latitude in degrees at 47
        degrees north.
    permutations : int
        Times that the values are dealt to the places anew, for the band. 0: no band.
    ci_prob : float
        Probability that the whole curve of values without spatial structure lies in the band.

    Returns
    -------
    xarray.Dataset
        Dim ``distance``: mean distance of the pairs of each bin (the middle of one without pairs). ``semivariance``
        (Matheron) and ``robust`` (Cressie and Hawkins), NaN in bins without pairs; ``pairs``, how many of those looked
        at; ``lower`` and ``upper``, the band. Attributes: ``variance`` of the values, which is the
        semivariance of values without structure; ``p_value`` of that hypothesis; ``scale``; ``max_distance``;
        ``ci_prob``; ``permutations``; ``sampled``, 1 where pairs were drawn.

    Raises
    ------
    ValueError
        Names the argument, and the row or column.

    Notes
    -----
    The band holds for all bins together: the mean of the permuted curves, plus and minus as many of their standard
    deviations as the largest deviation over bins exceeds in a share ``1 - ci_prob`` of them. If the order of the values
    says nothing of their places, the curve leaves it somewhere with a probability of about ``1 - ci_prob``, and then
    ``p_value`` is ``1 - ci_prob`` or less. Residuals of a fit with many parameters are not quite exchangeable.
    """
    read, read_values = read_table(t, "t"), read_column(values, "values")
    require_same_rows(t=read, values=read_values)
    t, values = read.values, read_values.values
    places, names = _places(t)
    z = _values(values, len(places))
    divisor = _divisors(by_name(scale, "scale", names), places, names)
    places = places / divisor
    edges = _edges(bins, max_distance, places)
    permutations = whole_number(permutations, "permutations", 0)
    probability(ci_prob, "ci_prob")
    rank = math.ceil(round(ci_prob * (permutations + 1), 9))
    if permutations and rank > permutations:
        raise ValueError(
            f"permutations is {permutations}, and a band of ci_prob {ci_prob:g} needs "
            f"{math.ceil(round(ci_prob / (1.0 - ci_prob), 9))} or more. Give more, or 0 for no band."
        )
    rng = generator(random_seed)
    total = len(z) * (len(z) - 1) // 2
    drawn = max_pairs is not None and total > whole_number(max_pairs, "max_pairs")
    blocks = _drawn(total, max_pairs or 0, rng) if drawn else _all(total)
    dealt = np.array([z, *(rng.permutation(z) for _ in range(permutations))])
    pairs, distance, squares, roots = _sums(blocks, places, dealt, edges)
    if not pairs.any():
        raise ValueError(
            f"max_distance is {edges[-1]:g}, and no pair that was looked at is so near. Give a larger one."
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        curves = squares / (2.0 * pairs)
        robust = 0.5 * (roots / pairs) ** 4 / (0.457 + 0.494 / pairs)
        middle = np.where(pairs > 0, distance / pairs, (edges[:-1] + edges[1:]) / 2.0)
    result = {
        "semivariance": ("distance", curves[0]),
        "robust": ("distance", robust),
        "pairs": ("distance", pairs.astype(np.int64)),
    }
    attrs: dict[str, Any] = {
        "variance": float(z.var(ddof=1)),
        "scale": divisor.tolist(),
        "max_distance": float(edges[-1]),
        "permutations": permutations,
        "ci_prob": ci_prob,
        "sampled": int(drawn),
    }
    if permutations:
        lower, upper, attrs["p_value"] = _band(curves, rank)
        result |= {"lower": ("distance", lower), "upper": ("distance", upper)}
    return xr.Dataset(result, coords={"distance": middle}, attrs=attrs)


# -------------------------------------------------------------------- pairs


def _all(total: int) -> Iterator[np.ndarray]:
    """Numbers of all pairs, in blocks."""
    for start in range(0, total, _BLOCK):
        yield np.arange(start, min(start + _BLOCK, total))


def _drawn(total: int, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Numbers of pairs drawn at random, in blocks."""
    for start in range(0, count, _BLOCK):
        yield rng.integers(total, size=min(_BLOCK, count - start))


def _ends(number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pair (i, j), j < i, of the number i (i - 1) / 2 + j."""
    i = ((1.0 + np.sqrt(1.0 + 8.0 * number)) / 2.0).astype(np.int64)
    # The square root is rounded: i may be one off.
    i -= i * (i - 1) // 2 > number
    i += i * (i + 1) // 2 <= number
    return i, number - i * (i - 1) // 2


def _sums(
    blocks: Iterator[np.ndarray], places: np.ndarray, dealt: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs in each bin; sums over them of distances, squared differences of each deal, and roots for the first."""
    n_bins = len(edges) - 1
    pairs, distance, roots = (np.zeros(n_bins) for _ in range(3))
    squares = np.zeros((len(dealt), n_bins))
    for number in blocks:
        i, j = _ends(number)
        d = np.sqrt(((places[i] - places[j]) ** 2).sum(axis=1))
        near = (d <= edges[-1]) & ((d > edges[0]) | (edges[0] == 0.0))
        i, j, d = i[near], j[near], d[near]
        at = np.maximum(np.searchsorted(edges, d) - 1, 0)
        pairs += np.bincount(at, minlength=n_bins)
        distance += np.bincount(at, d, n_bins)
        for row, own in enumerate(dealt):
            difference = own[i] - own[j]
            squares[row] += np.bincount(at, difference**2, n_bins)
            if row == 0:
                roots += np.bincount(at, np.sqrt(np.abs(difference)), n_bins)
    return pairs, distance, squares, roots


def _band(curves: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Band around the permuted curves ``curves[1:]`` that ``rank`` of them stay in, and the p-value of the first."""
    dealt = curves[1:]
    mean, sd = dealt.mean(axis=0), dealt.std(axis=0)
    varies = sd > 0.0  # false in bins without pairs, which are NaN
    largest = np.max(np.abs(curves - mean)[:, varies] / sd[varies], axis=1, initial=0.0)
    width = np.sort(largest[1:])[rank - 1] * sd
    p_value = (1 + int(np.sum(largest[1:] >= largest[0]))) / len(curves)
    return np.maximum(mean - width, 0.0), mean + width, p_value


# -------------------------------------------------------------------- arguments


def _places(t: Any) -> tuple[np.ndarray, list[str]]:
    raw: Any = t if isinstance(t, pd.DataFrame) else np.asarray(t)
    if raw.ndim == 1:
        raw = raw[:, None]
    names = (
        [str(c) for c in raw.columns]
        if isinstance(raw, pd.DataFrame)
        else [f"t{i}" for i in range(raw.shape[-1])]
    )
    return finite_matrix(raw, "t", names), names


def _values(values: Any, n: int) -> np.ndarray:
    raw = np.asarray(values)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.shape != (n,):
        raise ValueError(
            f"values has shape {raw.shape}, and t has {counted(n, 'row')}. Give one value per place."
        )
    z = finite_matrix(raw[:, None], "values", ["values"])[:, 0]
    if np.ptp(z) == 0.0:
        raise ValueError("values are all the same. Give values that vary.")
    return z


def _divisors(scale: Any, places: np.ndarray, names: list[str]) -> np.ndarray:
    if isinstance(scale, str):
        if scale != "sd":
            raise ValueError(f"scale is {scale!r}. Give 'sd', a number, or one per column of t.")
        sd = places.std(axis=0)
        for name, column, spread in zip(names, places.T, sd, strict=True):
            if spread <= 1e-12 * np.abs(column).max():
                raise ValueError(f"t column {name!r} is constant. Leave it out, or give scale as numbers.")
        return sd
    divisor = np.asarray(scale)
    if divisor.shape not in ((), (len(names),)) or divisor.dtype.kind not in "iuf":
        raise ValueError(
            f"scale is {scale!r}. Give 'sd', a number, or one for each of the {len(names)} columns of t."
        )
    if not (np.isfinite(divisor) & (divisor > 0.0)).all():
        raise ValueError(f"scale is {scale!r}. Give finite numbers above 0.")
    return np.broadcast_to(divisor.astype(np.float64), len(names)).copy()


def _edges(bins: Any, max_distance: float | None, places: np.ndarray) -> np.ndarray:
    """Edges of the bins."""
    if np.ndim(bins) == 0:
        n_bins = whole_number(bins, "bins")
        if max_distance is None:
            max_distance = _REACH * float(np.linalg.norm(np.ptp(places, axis=0)))
            if max_distance == 0.0:
                raise ValueError("t has one place only. Give places that differ.")
        positive(max_distance, "max_distance")
        return np.linspace(0.0, max_distance, n_bins + 1)
    if max_distance is not None:
        raise ValueError(
            "max_distance is given, and bins has edges: the last one says it. Leave max_distance out."
        )
    edges = finite_matrix(np.asarray(bins)[None], "bins", None)[0] if np.ndim(bins) == 1 else np.zeros(0)
    if len(edges) < 2 or edges[0] < 0.0 or not (np.diff(edges) > 0.0).all():
        raise ValueError(f"bins is {bins!r}. Give a whole number, or ascending edges of 0 or more.")
    return edges

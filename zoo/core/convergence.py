"""Whether chains have converged: R-hat and effective sample sizes of every entry of a posterior."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import xarray as xr

from zoo.core.protocols import Fitted
from zoo.inference.run.mixing import LEAST_DRAWS, Mixing, mixing
from zoo.support.checks import one_of
from zoo.support.words import counted

__all__ = [
    "LARGEST_R_HAT",
    "LEAST_ESS",
    "Diagnosis",
    "diagnose",
    "diagnosis_of",
    "diagnostics_table",
    "has_chains",
    "is_independent",
]

LARGEST_R_HAT = 1.01
"""Limit of R-hat, after Vehtari et al. (2021).

It is the largest of many entries that is held against it. Perfect chains of the default size keep
below: of independent draws, 4 x 1,000, the largest of 40,000 entries was 1.0046, and of 1,000
entries typically 1.0028. Fewer draws do not: of 2 x 500 independent draws one entry in 850 was
above 1.01, and the largest of 40,000 was 1.017; of 4 x 500 it was 1.007.
"""

LEAST_ESS = 100
"""Limit of bulk and tail ESS for each chain, after the same. Independent draws are far above it; of
4 x 1,000 draws the smallest of 40,000 entries was 2,749, where 400 are asked for."""

# Draws that are looked at at a time, by each thread: some copies of them are held.
_NUMBERS_AT_A_TIME = 1e6
_MOST_THREADS = 4
# A range that is rounding, over the largest value.
_ROUNDING = 1e-12
# Entries of Z Z' that stand for a variable whose columns have no order.
_MOST_PRODUCTS = 5_000


class Diagnosis(NamedTuple):
    """R-hat, bulk and tail ESS of the entries of a posterior, one number per entry.

    Parameters
    ----------
    groups : tuple
        What the entries are of, one after the other.
    group, place : (E,) arrays of int
        Group of each entry, and its place among those of the group.
    mixing : Mixing
        Its numbers.
    chains, draws : int
        How many there are.
    """

    groups: tuple[_Entries, ...]
    group: np.ndarray
    place: np.ndarray
    mixing: Mixing
    chains: int
    draws: int

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.group)

    def name(self, i: int) -> str:
        """Variable and coordinates of entry i."""
        return self.groups[self.group[i]].names(self.place[i : i + 1])[0]

    def values(self, i: int) -> np.ndarray:
        """Draws of entry i, (chain, draw)."""
        return self.groups[self.group[i]].draws(self.place[i : i + 1])[0]

    def worst_first(self) -> np.ndarray:
        """Positions of all entries, by the larger of what R-hat and what the ESS miss by."""
        r_hat, bulk, tail = (np.asarray(values) for values in self.mixing)
        with np.errstate(divide="ignore", invalid="ignore"):
            ess = np.fmin(bulk, tail)
            lacking = np.fmax((r_hat - 1.0) / (LARGEST_R_HAT - 1.0), LEAST_ESS * self.chains / ess)
        return np.argsort(-np.where(np.isnan(lacking), -np.inf, lacking), kind="stable")

    def table(self, var_names: Sequence[str] | None = None) -> pd.DataFrame:
        """The numbers as a table, worst first."""
        order = self.worst_first()
        if var_names is not None:
            kept = [g.variable in var_names for g in self.groups]
            order = order[np.array(kept, dtype=bool)[self.group[order]]] if kept else order
        names = np.empty(self.size, dtype=object)
        for k, group in enumerate(self.groups):
            own = self.group == k
            names[own] = group.names(self.place[own])
        columns = zip(("r_hat", "ess_bulk", "ess_tail"), self.mixing, strict=True)
        return pd.DataFrame({c: v[order] for c, v in columns}, index=pd.Index(names[order], name="name"))


@dataclass(frozen=True, eq=False)
class _Entries:
    """Entries of one variable, or of its product with itself over a dim that has no order.

    Parameters
    ----------
    variable, label : str
        Name of the variable, and what the entries are called by.
    values : (chain, draw, ...) array
    dims : tuple of str
        Of the entries.
    labels : tuple
        Names along these dims.
    index : tuple of (n,) arrays
        Coordinates of the entries.
    product : bool
        Whether ``values`` (chain, draw, K, n) is to be multiplied with itself over K, for the entry
        (i, j).
    """

    variable: str
    label: str
    values: np.ndarray
    dims: tuple[str, ...]
    labels: tuple[Sequence[Any], ...]
    index: tuple[np.ndarray, ...]
    product: bool = False

    def names(self, places: np.ndarray) -> list[str]:
        """``variable[task a, feature b]`` of some entries."""
        if not self.dims:
            return [self.label] * len(places)
        parts = [
            [_named(dim, labels[i]) for i in index[places]]
            for dim, labels, index in zip(self.dims, self.labels, self.index, strict=True)
        ]
        return [f"{self.label}[{', '.join(words)}]" for words in zip(*parts, strict=True)]

    def draws(self, places: np.ndarray) -> np.ndarray:
        """Draws of some entries, (entry, chain, draw)."""
        at = tuple(index[places] for index in self.index)
        if not self.product:
            found = self.values[(slice(None), slice(None), *at)]
        else:
            left, right = (self.values[..., i] for i in at)
            found = np.einsum("cdke,cdke->cde", left, right, dtype=np.float64)
        if found.ndim == 2:  # a scalar
            found = found[..., None]
        return np.moveaxis(found, 2, 0).astype(np.float64)

    @property
    def size(self) -> int:
        return len(self.index[0]) if self.index else 1


def _named(dim: str, label: Any) -> str:
    """Dim and label; a label that says the dim itself, as "task 3", stands alone."""
    plain, text = dim.removesuffix("_bis"), str(label)
    return text if text.startswith(plain) else f"{plain} {text}"


def diagnose(posterior: xr.Dataset, unordered_dims: Iterable[str] = ()) -> Diagnosis:
    """R-hat, bulk and tail ESS of every entry of a posterior that is not the same at all draws.

    Of a symmetric matrix one triangle is looked at. A variable whose dim has no order, as that of
    the columns of a binary matrix Z that may change their places from draw to draw, is left out;
    its product with itself over that dim, ``Z Z'``, stands for it. Entries that are not finite at a
    draw are left out too: they have no ranks.

    The posterior is read in blocks, so that the memory that is needed does not grow with it.

    Parameters
    ----------
    posterior : xarray.Dataset
        Dims ``chain``, ``draw`` and others.
    unordered_dims : iterable of str

    Returns
    -------
    Diagnosis
    """
    groups = tuple(_groups(posterior, set(unordered_dims)))
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    at_a_time = max(1, int(_NUMBERS_AT_A_TIME / (chains * draws)))
    blocks = [
        (k, np.arange(first, min(first + at_a_time, group.size)))
        for k, group in enumerate(groups)
        for first in range(0, group.size, at_a_time)
    ]

    def look(block: tuple[int, np.ndarray]) -> tuple[np.ndarray, Mixing]:
        values = groups[block[0]].draws(block[1])
        varies = _varies(values)
        return block[1][varies], mixing(values[varies])

    threads = max(1, min(joblib.cpu_count(), _MOST_THREADS, len(blocks)))
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(look, blocks))
    numbers = [np.concatenate([m[i] for _, m in found] or [np.empty(0)]) for i in range(3)]
    group = [np.full(len(places), k) for (k, _), (places, _) in zip(blocks, found, strict=True)]
    empty = np.empty(0, dtype=np.int64)
    return Diagnosis(
        groups,
        np.concatenate(group or [empty]),
        np.concatenate([places for places, _ in found] or [empty]),
        Mixing(*numbers),
        chains,
        draws,
    )


def _varies(values: np.ndarray) -> np.ndarray:
    """Which of the entries (E, chain, draw) are finite, and vary by more than rounding."""
    flat = values.reshape(len(values), -1)
    low, high = flat.min(axis=1), flat.max(axis=1)
    finite = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
    return high - low > _ROUNDING * np.maximum(np.abs(low), np.abs(high))


# -------------------------------------------------------------------- the entries of a posterior


def _groups(posterior: xr.Dataset, unordered: set[str]) -> Iterator[_Entries]:
    for name, variable in posterior.data_vars.items():
        if variable.dtype.kind not in "biuf" or not variable.size:
            continue
        array = variable.transpose("chain", "draw", ...)
        dims = tuple(str(dim) for dim in array.dims[2:])
        without_order = unordered & set(dims)
        if without_order:
            if len(without_order) == 1 and len(dims) <= 2:
                yield _products(str(name), array, without_order.pop())
            continue
        index: tuple[np.ndarray, ...]
        if _is_symmetric(array.to_numpy(), dims):
            index = np.tril_indices(array.shape[2])
        else:
            index = tuple(i.ravel() for i in np.indices(array.shape[2:], dtype=np.int64))
        yield _Entries(
            str(name), str(name), array.to_numpy(), dims, tuple(_labels(array, d) for d in dims), index
        )


def _is_symmetric(values: np.ndarray, dims: tuple[str, ...]) -> bool:
    """Whether the draws are symmetric matrices: the dims say so, and the first and the last draw."""
    if len(dims) != 2 or dims[1] != f"{dims[0]}_bis" or values.shape[2] != values.shape[3]:
        return False
    ends = values[:, [0, -1]]
    return bool(np.array_equal(ends, ends.swapaxes(2, 3), equal_nan=ends.dtype.kind == "f")) or bool(
        np.allclose(ends, ends.swapaxes(2, 3), rtol=1e-9, atol=1e-12 * float(np.abs(ends).max()))
    )


def _products(name: str, array: xr.DataArray, dim: str) -> _Entries:
    """``Z Z'`` over a dim: one triangle, evenly thinned where it is large, or one sum of squares."""
    others = [str(d) for d in array.dims[2:] if d != dim]
    values = array.transpose("chain", "draw", dim, ...).to_numpy()
    label = f"{name} {name}'"
    if not others:
        zero = (np.zeros(1, dtype=np.int64),) * 2
        return _Entries(name, label, values[..., None], (), (), zero, product=True)
    [other] = others
    i, j = np.tril_indices(values.shape[3])
    if len(i) > _MOST_PRODUCTS:
        some = np.linspace(0, len(i) - 1, _MOST_PRODUCTS).round().astype(np.int64)
        i, j = i[some], j[some]
    labels = _labels(array, other)
    return _Entries(name, label, values, (other, f"{other}_bis"), (labels, labels), (i, j), product=True)


def _labels(array: xr.DataArray, dim: str) -> Sequence[Any]:
    known = next((d for d in (dim, dim.removesuffix("_bis")) if d in array.coords), None)
    return range(array.sizes[dim]) if known is None else array.coords[known].to_numpy()


# -------------------------------------------------------------------- fits


def is_independent(fit: Fitted) -> bool:
    """Whether the method gives independent draws, which converge by construction."""
    method = fit.factory.method_named(fit.method)
    return method is not None and method.independent


def has_chains(fit: Fitted) -> bool:
    """Whether the fit has chains that must converge, and that are long enough to tell."""
    return not (fit.is_point or is_independent(fit)) and fit.posterior.sizes["draw"] >= LEAST_DRAWS


def diagnosis_of(fit: Fitted) -> Diagnosis:
    """The diagnosis of a fit, computed once."""
    posterior, unordered = fit.posterior, fit.factory.unordered_dims
    found: Diagnosis = fit.diagnosis
    return found._replace(groups=tuple(_groups(posterior, set(unordered))))


def diagnostics_table(fit: Fitted, var_names: str | Sequence[str] | None = None) -> pd.DataFrame:
    """What :meth:`zoo.Fit.diagnostics` returns."""
    if fit.is_point:
        raise ValueError(
            f"the fit is one estimate, by method {fit.method!r}: it has no draws to diagnose. "
            'Fit by a method that draws, as method="nuts".'
        )
    names = [var_names] if isinstance(var_names, str) else var_names
    known = [str(v) for v in fit.posterior.data_vars]
    for name in names or ():
        one_of(name, known, "var_names")
    found = diagnosis_of(fit)
    if found.draws < LEAST_DRAWS:
        raise ValueError(
            f"the fit has {counted(found.draws, 'draw')} per chain, and R-hat and ESS need "
            f"{LEAST_DRAWS}. Take more draws."
        )
    return found.table(names)

"""Covariances of many small sets of rows at once, by any covariance function of PyMC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

__all__ = ["joined", "of_sets", "without_gaps"]


def of_sets(function: Any, first: Any, second: Any = None) -> Any:
    """Covariances (N, n, n) of the rows of each set, or (N, n, k) of theirs with those of a second set.

    Parameters
    ----------
    function : pymc.gp.cov.BaseCovariance
        It is called once, on one set; its graph is then repeated over the sets.
    first, second : (N, n, D) and (N, k, D) array or tensor

    Raises
    ------
    NotImplementedError
        The graph of the function cannot be repeated over sets.
    """
    sets = [pt.as_tensor(v) for v in (first, second) if v is not None]
    single = [pt.matrix(dtype="float64", shape=v.type.shape[1:]) for v in sets]
    try:
        return vectorize_graph(function(*single), dict(zip(single, sets, strict=True)))
    except (NotImplementedError, TypeError, ValueError) as error:
        raise NotImplementedError(
            f"cov_func is a {type(function).__name__}, whose graph PyTensor cannot repeat over sets of neighbours "
            f"({error}). Write it with operations of pytensor.tensor alone."
        ) from error


def without_gaps(K: Any, there: np.ndarray) -> Any:
    """K with zeros in the rows and columns of members that are not there, and ones on their diagonal.

    Parameters
    ----------
    K : (N, n, n) tensor
    there : (N, n) bool
    """
    if there.all():
        return K
    pairs = there[:, :, None] & there[:, None, :]
    empty = np.eye(there.shape[1]) * ~there[:, :, None]
    return pt.where(pairs, K, empty)


def joined(K: Any, across: Any, of_new: Any) -> Any:
    """The covariance of two sets together, (N, m + k, m + k), from its blocks."""
    above = pt.concatenate([K, across], axis=2)
    below = pt.concatenate([across.transpose(0, 2, 1), of_new], axis=2)
    return pt.concatenate([above, below], axis=1)

"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["lkj_factor"]

ETA = 2.0
"""Parameter of the LKJ law, by which correlations near 0 are a little likelier than others."""


def lkj_factor(name: str, size: int) -> Any:
    r"""Cholesky factor of an LKJ(2) correlation matrix from independent partial correlations.

    Those of the canonical vine are symmetric beta variables on (-1, 1) with parameter :math:`\eta + (p - 2 - j) / 2` in
    column j = 0, 1, ...; row i of the factor is a unit vector by stick-breaking (Lewandowski, Kurowicka & Joe 2009).
    PyMC's own variable draws its starting values by a scan, which warns where its C backend finds no BLAS.

    Parameters
    ----------
    name : str
        Of the vector of partial correlations, as beta variables on (0, 1), in the model on the context stack.
    size : int

    Returns
    -------
    (size, size) TensorVariable
    """
    if size == 1:
        return pt.ones((1, 1))
    rows, columns = np.tril_indices(size, -1)
    shape = ETA + (size - 2 - columns) / 2.0
    partial = pt.zeros((size, size))[rows, columns].set(2.0 * pm.Beta(name, shape, shape) - 1.0)
    left = pt.cumprod(pt.sqrt(1.0 - partial**2), axis=1)
    before = pt.concatenate([pt.ones((size, 1)), left[:, :-1]], axis=1)
    return (partial + pt.eye(size)) * before

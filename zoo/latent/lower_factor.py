"""Lower Cholesky factors of dense matrices, with an error that names the matrix that has none."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

__all__ = ["lower_factor"]


def lower_factor(matrix: np.ndarray, what: str) -> np.ndarray:
    """The factor L (n, n) of ``L L' = matrix``, with zeros above its diagonal.

    Parameters
    ----------
    matrix : (n, n) array
        Symmetric; its lower triangle is read. A matrix in column order is overwritten by its factor.
    what : str
        What the matrix is, for the error.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite to rounding.
    """
    factor, info = lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    if info != 0 or not np.all(np.isfinite(np.diag(factor))):
        raise np.linalg.LinAlgError(f"{what} has no Cholesky factor")
    return np.asarray(factor)

"""Parameters of distributions: read as float64, factorised, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.pytensorf import rvs_in_graph
from pytensor.graph.basic import Constant

__all__ = [
    "as_float64",
    "exactly_one",
    "log_determinant",
    "lower_factor",
    "multigammaln",
    "require",
    "require_or_nan",
    "square",
]


def as_float64(value: Any, name: str) -> Any:
    """Tensor of dtype float64: float32 and integers are cast up, what is not a real number is refused."""
    try:
        tensor = pt.as_tensor_variable(value)
    except (TypeError, NotImplementedError) as error:
        raise TypeError(f"{name} is {value!r}, which is no tensor of real numbers.") from error
    if tensor.type.dtype.startswith("complex"):
        raise TypeError(f"{name} has dtype {tensor.type.dtype}. Give real numbers.")
    return tensor if tensor.type.dtype == "float64" else pt.cast(tensor, "float64")


def square(value: Any, name: str) -> Any:
    """Square matrix, or a batch of them, as float64."""
    tensor = as_float64(value, name)
    if tensor.type.ndim < 2:
        raise ValueError(
            f"{name} has {tensor.type.ndim} dimensions. Give a square matrix, or a batch of them."
        )
    rows, columns = tensor.type.shape[-2:]
    if rows is not None and columns is not None and rows != columns:
        raise ValueError(f"{name} is {rows} x {columns}. Give a square matrix.")
    return tensor


def lower_factor(**options: Any) -> Any:
    """Lower Cholesky factor, from exactly one of a matrix and its factor.

    The keywords are their names as the user knows them, the matrix first. NaN where it is not positive definite.
    """
    (name, value), (chol_name, chol) = options.items()
    if exactly_one(**options) == chol_name:
        factor = square(chol, chol_name)
        if isinstance(factor, Constant) and np.triu(factor.data, 1).any():
            raise ValueError(
                f"{chol_name} is not lower triangular. Give the lower Cholesky factor of {name}."
            )
        return factor
    tensor = square(value, name)
    if isinstance(tensor, Constant):
        # A factorisation reads one triangle only: what is not symmetric would be changed in silence.
        gap = np.abs(tensor.data - np.swapaxes(tensor.data, -1, -2)).max(initial=0.0)
        if gap > 1e-8 * np.abs(tensor.data).max(initial=0.0):
            raise ValueError(
                f"{name} is not symmetric (entries differ by up to {gap:.3g}). Give a symmetric matrix."
            )
    return pt.linalg.cholesky(tensor)


def exactly_one(**options: Any) -> str:
    """Name of the one option that is not None; raises for none or several."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"Give exactly one of {', '.join(options)}; got {' and '.join(given) or 'none'}.")
    return given[0]


def require(x: Any, *conditions: Any, message: str) -> Any:
    """``x``, with PyMC's ``ParameterValueError`` where a condition fails, in draws too."""
    return check_parameters(x, *conditions, msg=message, can_be_replaced_by_ninf=False)


def log_determinant(factor: Any) -> Any:
    """``log|L L'|`` of triangular ``L``, over the last two axes."""
    return 2.0 * pt.sum(pt.log(pt.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def multigammaln(a: Any, p: Any) -> Any:
    """Log of the multivariate gamma function of order ``p`` at each ``a``."""
    return 0.25 * p * (p - 1) * np.log(np.pi) + pt.sum(pt.gammaln(a[..., None] - 0.5 * pt.arange(p)), axis=-1)


def require_or_nan(parameter: Any, condition: Any, *, message: str) -> Any:
    """``parameter`` where the condition holds; elsewhere ParameterValueError, or NaN if it is random.

    For parameters of deterministics. A random one may underflow in the steps of a sampler, which rejects NaN but
    would stop at an error.
    """
    if rvs_in_graph([parameter]):
        return pt.switch(condition, parameter, np.nan)
    return require(parameter, condition, message=message)

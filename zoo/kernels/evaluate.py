"""Covariance functions as numbers: the matrix and the diagonal of any ``pm.gp.cov.Covariance``.

At dense inputs PyMC's own graph is compiled and run. At sparse inputs the tree of the covariance is walked, and its
leaves are computed from sparse products, so that no ``n x D`` array is ever made dense::

    linear       (x - c)'(x' - c) = x'x' - x'c - x''c + c'c
    stationary   |x - x'|^2       = |x|^2 + |x'|^2 - 2 x'x',   each column divided by its lengthscale

A covariance with methods ``kernel_matrix(X, Y)`` and ``kernel_diagonal(X)`` of its own is asked for its numbers.
"""

from __future__ import annotations

from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.gp import cov
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.type import RandomType

from zoo.support.checks import finite_inputs, finite_sparse, is_sparse
from zoo.support.quick import QUICK
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["fixed_number", "kernel_diagonal", "kernel_matrix"]


def kernel_matrix(covariance: Any, X: Any, Y: Any = None) -> np.ndarray:
    """The numbers ``kappa(x_i, y_j)``.

    Parameters
    ----------
    covariance : pm.gp.cov.Covariance
        Its parameters are numbers or shared variables, never random.
    X : (n, D) array_like or scipy.sparse matrix
        Inputs. Sparse ones serve Linear, Polynomial, Constant, WhiteNoise, the stationary covariances other than
        Periodic, and sums, products and powers of these.
    Y : (m, D) array_like or scipy.sparse matrix, optional
        Left out: ``X``. As in PyMC, white noise stands on the diagonal only where ``Y`` is left out.

    Returns
    -------
    (n, m) float64 array

    Raises
    ------
    TypeError
        A parameter is random, or has no value.
    ValueError
        ``X`` has too few columns; ``X`` is sparse and the covariance has no sparse form.
    """
    if _evaluates_itself(covariance):
        return np.asarray(covariance.kernel_matrix(X, Y))
    X, Y = _same_kind(X, Y)
    _require_columns(covariance, X)
    if is_sparse(X):
        return np.asarray(_sparse(covariance, X, X if Y is None else Y, diagonal=False, same=Y is None))
    given = [X] if Y is None else [X, Y]
    inputs = [pt.tensor(name, dtype="float64", shape=(None, X.shape[1])) for name in ("X", "Y")[: len(given)]]
    matrix = _computed(covariance(*inputs), covariance, inputs, given)
    return np.array(np.broadcast_to(matrix, (len(X), len(given[-1]))))


def kernel_diagonal(covariance: Any, X: Any) -> np.ndarray:
    """The numbers ``kappa(x_i, x_i)``, (n,); arguments as for :func:`kernel_matrix`."""
    if _evaluates_itself(covariance):
        return np.asarray(covariance.kernel_diagonal(X))
    X = finite_inputs(X, "X", None)
    _require_columns(covariance, X)
    if is_sparse(X):
        return np.asarray(_sparse(covariance, X, X, diagonal=True, same=True))
    inputs = [pt.tensor("X", dtype="float64", shape=(None, X.shape[1]))]
    diagonal = _computed(covariance(*inputs, diag=True), covariance, inputs, [X])
    return np.array(np.broadcast_to(diagonal, len(X)))


def fixed_number(value: Any, constant: bool = False) -> np.ndarray | None:
    """The number or array behind a parameter; None where it is random or has no value.

    With ``constant`` a shared variable counts as having none, for its value may change.
    """
    if not isinstance(value, Variable):
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "biuf" else None
    for source in graph_inputs([value]):
        if isinstance(source, Constant):
            continue
        if constant or not _has_value(source):
            return None
    if isinstance(value, Constant):
        return np.asarray(value.data, dtype=np.float64)
    return np.asarray(pytensor.function([], value, mode=QUICK)(), dtype=np.float64)


def _evaluates_itself(covariance: Any) -> bool:
    return callable(getattr(covariance, "kernel_matrix", None))


def _has_value(source: Any) -> bool:
    shared = isinstance(source, SharedVariable) and not isinstance(source.type, RandomType)
    return isinstance(source, Constant) or shared


def _same_kind(X: Any, Y: Any) -> tuple[Any, Any]:
    """Both inputs checked, and both sparse where one of them is."""
    X, Y = finite_inputs(X, "X", None), None if Y is None else finite_inputs(Y, "Y", None)
    if Y is None:
        return X, None
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"Y has {counted(Y.shape[1], 'column')} and X has {X.shape[1]}. Give both the same features."
        )
    if is_sparse(X) != is_sparse(Y):
        X, Y = finite_sparse(X, "X", None), finite_sparse(Y, "Y", None)
    return X, Y


def _require_columns(covariance: Any, X: Any) -> None:
    if not isinstance(covariance, cov.BaseCovariance):
        raise TypeError(f"covariance is a {type(covariance).__name__}. Give a covariance of pm.gp.cov.")
    if isinstance(covariance, cov.Covariance):
        needed = max(covariance.input_dim, int(covariance.active_dims.max()) + 1)
        if X.shape[1] < needed:
            raise ValueError(
                f"X has {counted(X.shape[1], 'column')}, but the covariance {type(covariance).__name__} has input_dim "
                f"{needed}. Give inputs with that many columns."
            )


def _computed(output: Any, covariance: Any, inputs: list[Any], values: list[Any]) -> np.ndarray:
    output = pt.as_tensor_variable(output)
    if not all(source in inputs or _has_value(source) for source in graph_inputs([output])):
        raise TypeError(
            f"the covariance {type(covariance).__name__} has a parameter that is random or symbolic, and so no "
            "value. Give numbers for its parameters."
        )
    function = pytensor.function(inputs, output, mode=QUICK, on_unused_input="ignore")
    return np.asarray(function(*values), dtype=np.float64)


# ---------------------------------------------------------------- sparse inputs


def _sparse(covariance: Any, X: csr_matrix, Y: csr_matrix, diagonal: bool, same: bool) -> Any:
    """Matrix (n, m), or diagonal (n,), of a covariance at sparse inputs; ``same``: no other inputs were given."""
    if _evaluates_itself(covariance):
        if diagonal:
            return covariance.kernel_diagonal(X)
        return covariance.kernel_matrix(X, None if same else Y)
    kind = type(covariance)
    if kind in (cov.Add, cov.Prod):
        parts = [
            _sparse(factor, X, Y, diagonal, same)
            if isinstance(factor, cov.BaseCovariance)
            else _scalar(factor)
            for factor in covariance._factor_list
        ]
        return reduce(add if kind is cov.Add else mul, parts)
    if kind is cov.Exponentiated:
        return _sparse(covariance.kernel, X, Y, diagonal, same) ** _scalar(covariance.power)
    shape = X.shape[:1] if diagonal else (X.shape[0], Y.shape[0])
    if kind is cov.Constant:
        return np.full(shape, _scalar(covariance.c))
    if kind is cov.WhiteNoise:
        ones = np.ones(shape) if diagonal else np.eye(*shape) * same
        return _scalar(covariance.sigma) ** 2 * ones
    if kind in (cov.Linear, cov.Polynomial):
        linear = _linear(covariance, X, Y, diagonal)
        if kind is cov.Linear:
            return linear
        return (linear + _scalar(covariance.offset)) ** _scalar(covariance.d)
    if isinstance(covariance, cov.Stationary) and _depends_on_distance_alone(kind):
        return np.ones(shape) if diagonal else _stationary(covariance, X, Y)
    raise ValueError(f"X is sparse, and the covariance {kind.__name__} has no sparse form. Give X.toarray().")


def _depends_on_distance_alone(kind: type) -> bool:
    return all(
        getattr(kind, hook) is getattr(cov.Stationary, hook)
        for hook in ("full", "diag", "square_dist", "__call__")
    )


def _active(covariance: Any, X: csr_matrix) -> csr_matrix:
    columns = covariance.active_dims
    return X if np.array_equal(columns, np.arange(X.shape[1])) else X[:, columns]


def _products(X: csr_matrix, Y: csr_matrix, diagonal: bool) -> np.ndarray:
    if diagonal:
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return (X @ Y.T).toarray()


def _linear(covariance: Any, X: csr_matrix, Y: csr_matrix, diagonal: bool) -> np.ndarray:
    X, Y = _active(covariance, X), _active(covariance, Y)
    products = _products(X, Y, diagonal)
    centre = np.broadcast_to(_array(covariance.c), X.shape[1])
    if not centre.any():
        return products
    along_x, along_y = X @ centre, Y @ centre
    if diagonal:
        return products - 2.0 * along_x + centre @ centre
    return products - along_x[:, None] - along_y[None, :] + centre @ centre


def _stationary(covariance: Any, X: csr_matrix, Y: csr_matrix) -> np.ndarray:
    from scipy.sparse import diags

    X, Y = _active(covariance, X), _active(covariance, Y)
    scale = diags(1.0 / np.broadcast_to(_array(covariance.ls), X.shape[1]))
    X, Y = X @ scale, Y @ scale
    norms = _products(X, X, True)[:, None] + _products(Y, Y, True)[None, :]
    squared = np.clip(norms - 2.0 * _products(X, Y, False), 0.0, None)
    distance = pt.dmatrix("squared_distance")
    return _computed(covariance.full_from_distance(distance, squared=True), covariance, [distance], [squared])


def _array(value: Any) -> np.ndarray:
    number = fixed_number(value)
    if number is None:
        raise TypeError(
            "a parameter of the covariance is random or symbolic, and so has no value. "
            "Give numbers for its parameters."
        )
    return number


def _scalar(value: Any) -> float:
    number = _array(value)
    if number.size != 1:
        raise ValueError(
            f"X is sparse, and the covariance has a factor or parameter of shape {number.shape} where a sparse "
            "form needs a number. Give X.toarray()."
        )
    return float(number.reshape(()))

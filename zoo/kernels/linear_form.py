r"""Covariances on (x, task) that are linear in x, as :math:`B_{\ell q}\, x' Q t`: their models have a primal form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.gp import cov
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import tensor
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.task_kernel import TaskKernel

__all__ = ["LinearForm", "linear_form"]


@dataclass(frozen=True, eq=False)
class LinearForm:
    """The tensors of a covariance ``B_lq x'Qt``.

    Parameters
    ----------
    matrix : callable
        Makes B, a (T, T) tensor: of very many tasks only where somebody needs it.
    loadings : tuple of tensors, optional
        d (T,) and W (T, r) with ``B = diag(d) + W W'``, where B has such a form.
    Q : (D, D) tensor, optional
        Left out: the identity.
    half : (D, D) array, optional
        Where Q is the metric of coefficients in other units: what makes of these coefficients of the features x.
    """

    matrix: Callable[[], Any]
    loadings: tuple[Any, Any] | None = None
    Q: Any = None
    half: Any = None

    @property
    def task_matrix(self) -> Any:
        """B, a (T, T) tensor."""
        return self.matrix()


def linear_form(covariance: Any, n_features: int) -> LinearForm | None:
    """The covariance as ``B_lq x'Qt`` of inputs with ``n_features`` features and the task, or None where it is not so.

    Task kernels without a base have this form, multiples of them, and sums of these with one Q; so do PyMC's own
    ``Linear(..., c=0) * Coregion(...)`` on the features and the task.

    Raises
    ------
    ValueError
        Parts of a sum have the same tasks in different orders.
    """
    if isinstance(covariance, TaskKernel):
        return _of_task_kernel(covariance, n_features)
    if isinstance(covariance, cov.Add):
        _require_one_order(covariance._factor_list)
        return _sum([linear_form(part, n_features) for part in covariance._factor_list])
    if isinstance(covariance, cov.Prod):
        return _product(covariance._factor_list, n_features)
    return None


def _of_task_kernel(kernel: TaskKernel, n_features: int) -> LinearForm | None:
    fits = kernel._widths is None or n_features + 1 in kernel._widths
    if kernel.base is not None or not kernel.is_product or not fits:
        return None
    Q = None if kernel.Q is None else tensor(kernel.Q)
    return LinearForm(kernel.task_matrix, kernel.matching_loadings(), Q)


def _sum(parts: list[LinearForm | None]) -> LinearForm | None:
    forms = [part for part in parts if part is not None]
    if len(forms) < len(parts) or not all(_same(forms[0].Q, form.Q) for form in forms[1:]):
        return None
    loadings = forms[0].loadings
    for form in forms[1:]:
        both = loadings is not None and form.loadings is not None
        loadings = _joined(loadings, form.loadings) if both else None
    return LinearForm(lambda: reduce(add, [form.task_matrix for form in forms]), loadings, forms[0].Q)


def _require_one_order(parts: list[Any]) -> None:
    """Raise where parts name the same tasks in different orders: their matrices would be added by position."""
    found = [part.task_names for part in parts if isinstance(part, TaskKernel)]
    for names in found:
        if names != found[0] and set(names) == set(found[0]):
            raise ValueError(
                f"parts of the sum have the tasks in different orders: {', '.join(found[0][:3])}, ... and "
                f"{', '.join(names[:3])}, ... Give all the same task_names."
            )


def _joined(one: Any, other: Any) -> tuple[Any, Any]:
    return one[0] + other[0], pt.concatenate([one[1], other[1]], axis=1)


def _same(Q: Any, other: Any) -> bool:
    if Q is other:
        return True
    if Q is None or other is None:
        return False
    one, two = fixed_number(Q, constant=True), fixed_number(other, constant=True)
    return one is not None and two is not None and np.array_equal(one, two)


def _product(factors: list[Any], n_features: int) -> LinearForm | None:
    scales = [s for s in map(_scale, factors) if s is not None]
    kernels = [f for f in factors if _scale(f) is None]
    if len(kernels) == 1 and isinstance(kernels[0], cov.Covariance):
        form = linear_form(kernels[0], n_features)
    else:
        form = _coregionalised(kernels, n_features)
    if form is None or not scales:
        return form
    scale = tensor(1.0)
    for s in scales:
        scale = scale * s
    loadings = form.loadings
    if loadings is not None:
        loadings = (scale * loadings[0], pt.sqrt(scale) * loadings[1])
    return LinearForm(lambda: scale * form.task_matrix, loadings, form.Q)


def _scale(factor: Any) -> Any:
    """A factor that is one number, as a tensor; None for all others."""
    if isinstance(factor, cov.Constant):
        factor = factor.c
    if isinstance(factor, cov.BaseCovariance):
        return None
    if isinstance(factor, Variable):
        return tensor(factor) if factor.ndim == 0 else None
    return tensor(np.squeeze(factor)) if np.size(factor) == 1 else None


def _coregionalised(factors: list[Any], n_features: int) -> LinearForm | None:
    """PyMC's own product, with the task in the last column."""
    kinds = {type(factor): factor for factor in factors}
    if len(factors) != 2 or set(kinds) != {cov.Linear, cov.Coregion}:
        return None
    linear, coregion = kinds[cov.Linear], kinds[cov.Coregion]
    columns = (linear.active_dims.tolist(), coregion.active_dims.tolist())
    centre = fixed_number(linear.c, constant=True)
    if columns != (list(range(n_features)), [n_features]) or centre is None or centre.any():
        return None
    loadings = (tensor(coregion.kappa), tensor(coregion.W)) if hasattr(coregion, "W") else None
    return LinearForm(lambda: tensor(coregion.B), loadings)

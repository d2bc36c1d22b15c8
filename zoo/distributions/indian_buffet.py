r"""Indian buffet process: finite approximation, stick-breaking weights, exact probabilities and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Discrete, SymbolicRandomVariable, _support_point
from pymc.distributions.shape_utils import maybe_resize
from pymc.logprob.abstract import _logprob
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param
from scipy.special import gammaln

from zoo.distributions.parameters import as_float64, exactly_one, require, require_or_nan
from zoo.distributions.shapes import (
    draw_size,
    fixed_core,
    full_batch,
    match_draw,
    static_lengths,
)
from zoo.support.checks import positive, whole_number

__all__ = ["IndianBuffet", "ibp_draw", "ibp_logp", "indian_buffet_sticks", "left_ordered_form"]

_CONDITION = "alpha > 0, finite"


class IndianBuffetRV(SymbolicRandomVariable):
    """Draws through the weights of the columns."""

    name = "indian_buffet"
    extended_signature = "[rng],[size],()->[rng],(d,k)"
    _print_name = ("IndianBuffet", "\\operatorname{IndianBuffet}")

    def __init__(self, *args, D, K_max, **kwargs):
        self.D, self.K_max = D, K_max
        super().__init__(*args, **kwargs)

    def rebuild_rv(self, *args, **kwargs):
        """The same law with other inputs."""
        return self.rv_op(*args, D=self.D, K_max=self.K_max, **kwargs)

    @classmethod
    def rv_op(cls, alpha, *, D, K_max, size=None, rng=None):
        """Graph of a draw: pi = u^(K/alpha) is Beta(alpha/K, 1) for a uniform u."""
        rng, size, alpha = normalize_rng_param(rng), normalize_size_param(size), pt.as_tensor(alpha)
        size = draw_size(size, (alpha,), (0,))
        checked = require(alpha, alpha > 0, alpha < np.inf, message=_CONDITION)
        next_rng, u = pm.Uniform.dist(0.0, 1.0, size=(*size, 1, K_max), rng=rng).owner.outputs
        next_rng, v = pm.Uniform.dist(0.0, 1.0, size=(*size, D, K_max), rng=next_rng).owner.outputs
        draws = pt.cast(v < u ** (K_max / checked)[..., None, None], "int64")
        return cls(inputs=[rng, size, alpha], outputs=[next_rng, draws], D=D, K_max=K_max)(rng, size, alpha)


class IndianBuffet(Discrete):
    r"""Finite approximation of the Indian buffet process: a binary matrix with K_max exchangeable columns.

    .. math::

        P(Z \mid \alpha) = \prod_{k=1}^{K} a\,
            \frac{\Gamma(m_k + a)\, \Gamma(D - m_k + 1)}{\Gamma(D + 1 + a)},
        \quad a = \alpha / K, \quad m_k = \sum_{d=1}^{D} z_{dk}

    ========  =======================================
    Support   :math:`Z \in \{0, 1\}^{D \times K}`
    Mean      :math:`a / (1 + a)` each
    Variance  :math:`a / (1 + a)^2` each
    ========  =======================================

    These are Bernoulli entries with weights :math:`\pi_k \sim \mathrm{Beta}(\alpha / K, 1)` integrated out, as in
    li2014 section 4.1 (Griffiths and Ghahramani 2011, JMLR 12, "A Finite Feature Model"). As K grows, the
    probability of all matrices with the same left-ordered form tends to :func:`ibp_logp`, with an error of order
    1/K. Given the rest, :math:`z_{dk} = 1` has probability :math:`(m_{-d,k} + a) / (D + a)`, which tends to that of
    li2014 eq (12).

    Parameters
    ----------
    alpha : tensor_like of float
        Mass, above 0 and finite; any batch shape. A row has :math:`\alpha / (1 + \alpha / K)` ones on average.
    D : int, optional
        Number of rows. By default that of the last but one of ``shape`` or ``dims``; fixed from then on.
    K_max : int, optional
        Number of columns. By default that of the last of ``shape`` or ``dims``; fixed from then on.

    Raises
    ------
    ValueError
        For a D or K_max below 1, and shapes that do not fit (alpha, the matrix, ``shape``).
    ParameterValueError
        For another alpha, in draws and in the log probability.

    Notes
    -----
    Other values than 0 and 1 have log probability minus infinity. NUTS does not sample Z. Where it is not observed,
    ``pm.sample`` gives it Metropolis, which proposes other values too: pass ``step=pm.BinaryMetropolis([Z])``, or
    write a Gibbs step.

    Examples
    --------
    >>> import pymc as pm
    >>> from zoo.distributions.indian_buffet import IndianBuffet
    >>> with pm.Model(coords={"feature": range(4), "column": range(10)}):
    ...     Z = IndianBuffet("Z", 2.0, dims=("feature", "column"))
    """

    rv_type = IndianBuffetRV
    rv_op = IndianBuffetRV.rv_op

    @classmethod
    def dist(cls, alpha, D=None, K_max=None, **kwargs):
        """Unregistered variable."""
        D, K_max = static_lengths(kwargs.get("shape"), D=D, K_max=K_max)
        alpha = as_float64(alpha, "alpha")
        match_draw(kwargs, alpha, (D, K_max), "IndianBuffet draw")
        return super().dist([alpha], D=D, K_max=K_max, **kwargs)


# PyMC hands the methods `logp` and `support_point` no op, which holds D and K_max: hence functions.
@_support_point.register(IndianBuffetRV)
def _indian_buffet_support_point(op, rv, rng, size, alpha):
    # The mode: the log probability is convex in every m_k, and higher at 0 than at D for alpha < K_max.
    mode = pt.cast(alpha > op.K_max, "int64")[..., None, None]
    return full_batch(pt.tile(mode, (op.D, op.K_max)), size, 2)


@_logprob.register(IndianBuffetRV)
def _indian_buffet_logp(op, values, rng, size, alpha, **kwargs):
    value = fixed_core(values[0], (op.D, op.K_max), "IndianBuffet draw")
    binary = pt.all(pt.eq(value, 0) | pt.eq(value, 1), axis=(-2, -1))
    m = pt.clip(pt.sum(value, axis=-2), 0, op.D)
    a = (alpha / op.K_max)[..., None]
    # Gamma(m + a) / Gamma(D + 1 + a) as a product over j from m to D: differences of log gamma cancel for large a.
    j = np.arange(op.D + 1)
    tail = pt.sum(pt.switch(j >= m[..., None], pt.log(a[..., None] + j), 0.0), axis=-1)
    columns = pt.log(a) - tail + pt.gammaln(op.D - m + 1.0)
    density = pt.switch(binary, pt.sum(columns, axis=-1), -np.inf)
    return maybe_resize(check_parameters(density, alpha > 0, alpha < np.inf, msg=_CONDITION), size)


def indian_buffet_sticks(name: str, alpha: Any, *, K_max: int | None = None, dims: str | None = None) -> Any:
    r"""Weights of the columns of the Indian buffet process in decreasing order, truncated, for NUTS.

    .. math:: \pi_k = \prod_{l=1}^{k} \nu_l, \quad \nu_l \sim \mathrm{Beta}(\alpha, 1), \quad k = 1 \dots K

    the stick-breaking construction of Teh, Gorur and Ghahramani (2007, AISTATS), in which
    :math:`E\, \pi_k = \{\alpha / (1 + \alpha)\}^k`. The truncation drops
    :math:`\alpha \{\alpha / (1 + \alpha)\}^K` ones per row on average. Since
    :math:`-\alpha \log \nu_l` is Exponential(1),

    .. math:: \pi_k = \exp\{-(e_1 + \dots + e_k) / \alpha\}, \quad e_l \sim \mathrm{Exponential}(1)

    has independent variables whose law does not depend on alpha. Adds to the PyMC model on the context stack the
    auxiliary variable ``_{name}_sticks`` (e), and the weights as the deterministic ``name``. Unlike the columns of
    :class:`IndianBuffet`, these are not exchangeable.

    Parameters
    ----------
    name : str
    alpha : tensor_like of float
        Mass, above 0 and finite; a scalar, which may be a random variable.
    K_max : int, optional
        Number of columns kept.
    dims : str, optional
        Dim of the columns kept, in place of ``K_max``.

    Returns
    -------
    (K,) TensorVariable
        The deterministic ``name``.

    Raises
    ------
    ValueError
        Unless exactly one of ``K_max`` and ``dims`` is given, and alpha is a scalar.
    ParameterValueError
        For another alpha, wherever the weights are evaluated. If alpha is random they are NaN there instead, which
        a sampler rejects.

    Examples
    --------
    >>> import pymc as pm
    >>> from zoo.distributions.indian_buffet import indian_buffet_sticks
    >>> with pm.Model(coords={"feature": range(4), "column": range(10)}):
    ...     pi = indian_buffet_sticks("pi", 2.0, dims="column")
    ...     Z = pm.Bernoulli("Z", p=pi, dims=("feature", "column"))
    """
    exactly_one(K_max=K_max, dims=dims)
    alpha = as_float64(alpha, "alpha")
    if alpha.type.ndim > 0:
        raise ValueError(f"alpha has {alpha.type.ndim} dimensions. Give a scalar.")
    each = {"dims": dims} if K_max is None else {"shape": whole_number(K_max, "K_max")}
    sticks = pm.Exponential(f"_{name}_sticks", 1.0, **each)
    mass = require_or_nan(alpha, (alpha > 0) & (alpha < np.inf), message=_CONDITION)
    return pm.Deterministic(name, pt.exp(-pt.cumsum(sticks) / mass), dims=dims)


def left_ordered_form(Z: Any) -> np.ndarray:
    """Columns of a binary matrix in decreasing order of the binary number they spell, first row first.

    Parameters
    ----------
    Z : (D, K) array_like of 0 and 1

    Returns
    -------
    (D, K) numpy.ndarray of int64
        Zero columns stand at the right.

    Raises
    ------
    ValueError
        For another Z.
    """
    matrix = _binary(Z)
    return matrix[:, np.lexsort(matrix[::-1])[::-1]]


def ibp_logp(Z: Any, alpha: float) -> float:
    r"""Log probability under the Indian buffet process of all matrices with the left-ordered form of Z.

    .. math::

        \log P([Z]) = K_+ \log \alpha - \sum_h \log K_h! - \alpha H_D
            + \sum_{k=1}^{K_+} \log \frac{(D - m_k)!\, (m_k - 1)!}{D!}

    over the :math:`K_+` columns with a one: :math:`m_k` ones stand in column k, :math:`K_h` columns are equal to the
    h-th distinct one, and :math:`H_D = \sum_{d=1}^{D} 1/d` (Griffiths and Ghahramani 2011, JMLR 12, "Taking the
    Infinite Limit"; the prior of li2014 section 4.1). Zero columns and the order of the columns do not matter.

    Parameters
    ----------
    Z : (D, K) array_like of 0 and 1
        K may be 0.
    alpha : float
        Mass, above 0 and finite.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For another Z or alpha.
    """
    positive(alpha, "alpha")
    matrix = _binary(Z)
    active = matrix[:, matrix.any(axis=0)]
    (D, K), m = active.shape, active.sum(axis=0)
    repeats = np.unique(active, axis=1, return_counts=True)[1]
    harmonic = np.sum(1.0 / np.arange(1, D + 1))
    columns = gammaln(D - m + 1) + gammaln(m) - gammaln(D + 1)
    return float(K * np.log(alpha) - gammaln(repeats + 1).sum() - alpha * harmonic + columns.sum())


def ibp_draw(alpha: float, D: int, rng: np.random.Generator) -> np.ndarray:
    r"""Exact draw from the Indian buffet process.

    Row i takes each column with m ones so far with probability m/i, and Poisson(:math:`\alpha / i`) new ones
    (Griffiths and Ghahramani 2011, JMLR 12, "The Indian Buffet Process"; li2014 section 6.3.2).

    Parameters
    ----------
    alpha : float
        Mass, above 0 and finite.
    D : int
        Number of rows.
    rng : numpy.random.Generator

    Returns
    -------
    (D, K_+) numpy.ndarray of int64
        In left-ordered form, without zero columns; :math:`K_+` is Poisson(:math:`\alpha H_D`).

    Raises
    ------
    ValueError
        For another alpha or D.
    TypeError
        For an ``rng`` that is no generator.
    """
    positive(alpha, "alpha")
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng is {rng!r}. Give a generator, such as numpy.random.default_rng(1).")
    Z = np.zeros((whole_number(D, "D"), 0), dtype=np.int64)
    for i in range(len(Z)):
        Z[i] = rng.random(Z.shape[1]) < Z[:i].sum(axis=0) / (i + 1)
        new = np.zeros((len(Z), rng.poisson(alpha / (i + 1))), dtype=np.int64)
        new[i] = 1
        Z = np.hstack([Z, new])
    return left_ordered_form(Z)


def _binary(Z: Any) -> np.ndarray:
    """``Z`` as an int64 matrix of zeros and ones."""
    matrix = np.asarray(Z)
    if matrix.ndim != 2 or len(matrix) == 0:
        raise ValueError(f"Z has shape {matrix.shape}. Give a (D, K) matrix with at least one row.")
    wrong = np.argwhere(~np.isin(matrix, (0, 1)))
    if len(wrong):
        row, column = (int(i) for i in wrong[0])
        raise ValueError(f"Z is {matrix[row, column]} in row {row}, column {column}. Give zeros and ones.")
    return matrix.astype(np.int64)

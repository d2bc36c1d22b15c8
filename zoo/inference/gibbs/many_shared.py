r"""Very many shared features of which a row has a few, as the levels of further groups: a joint draw at linear cost.

The model, and the names of all parts, are those of :mod:`zoo.inference.gibbs.shared_coefficients`. There a draw of
:math:`\theta = (\mu, \beta)`, with the coefficients :math:`w_t` of all tasks integrated out, factorises
:math:`\Lambda`, at a cost of S cubed. Here no matrix of that size is formed.

**Perturb and solve** (Papandreou & Yuille 2010). Given what makes the likelihood Gaussian, the log density of
:math:`(\theta, w)` is a sum of quadratic forms, :math:`\tfrac12 |R_i (\theta, w) - c_i|^2`, one for each row, one for
each :math:`w_t`, and one for each prior. Its precision is :math:`Q = \sum_i R_i' R_i`. With independent standard normal
:math:`z_i`

.. math:: \xi = \sum_i R_i' z_i \sim N(0, Q), \qquad Q (\theta, w) = \sum_i R_i' c_i + \xi

makes :math:`(\theta, w)` a draw from the law with precision Q and that linear term. A row adds
:math:`k_n f_n^2 / 2 - v_n f_n`, so that its :math:`v_n` becomes :math:`v_n + \sqrt{k_n} z_n`. With :math:`P = L L'` the
law of :math:`w_t` adds :math:`L z_t` to the linear term of :math:`w_t` and takes it from that of :math:`\mu`.

**Conjugate gradients.** The :math:`w_t` are eliminated task by task, by factors of :math:`M_t`. What is left is
:math:`\Lambda \theta = \tilde h`, with the :math:`\Lambda` of that module, of which products with a vector
:math:`(m, b)` are taken by one pass over the rows:

.. math::

    c_t = M_t^{-1} (P m - B_t b), \qquad
    \Lambda (m, b) = \Bigl( K m + \sum_t P (m - c_t), \;\;
    \tau^{-2} b + \sum_n s_n k_n (s_n' b + x_n' c_{t(n)}) \Bigr) .

Preconditioned by the block of :math:`\mu` and by :math:`\tau^{-2} + \sum_n k_n s_n^2`, few steps do: where groups cross
at random the eigenvalues lie close together, whatever the numbers of rows and levels (Pandolfi, Papaspiliopoulos &
Zanella 2024). Levels within tasks, or in few of them, take more. Steps end where the squared residual, in the norm of
the preconditioner, is 1e-10 for each entry of :math:`\theta`: about 1e-5 of its standard deviation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.population_steps import LANES, Tasks
from zoo.inference.gibbs.task_rows import Rows
from zoo.inference.gibbs.triangular import factorise, solve_lower, solve_transposed

__all__ = ["ManySums", "SharedRows", "draw_by_steps", "few_of_many", "shared_values"]

# Squared size of the residual at which steps end: for each entry, and as a share of that of the linear term. The most
# steps.
_CLOSE, _ROUNDING, _STEPS = 1e-10, 1e-26, 2000
# A factor takes so much less time for the cube of the number of shared features than all steps for a row.
_ROWS_PER_CUBE = 1000


def few_of_many(shared: Any) -> Any:
    """Shared features (N, S) as a csr_array where they are so many, or so many zeros, that this joint draw pays."""
    from scipy.sparse import csr_array, issparse

    rows, columns = shared.shape
    pays = columns**3 > _ROWS_PER_CUBE * rows
    return csr_array(shared) if issparse(shared) or pays else shared


class SharedRows(NamedTuple):
    """Of each of N rows the shared features that are not 0, and their values; ``feature`` and ``value`` (N, K)."""

    feature: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, shared: Any, order: np.ndarray) -> SharedRows:
        """Of a csr_array (N, S), its rows in this order; rows with fewer entries than others get entries of 0."""
        sizes = np.diff(shared.indptr)
        most = int(sizes.max(initial=0))
        feature, value = np.zeros((len(sizes), most), dtype=np.int32), np.zeros((len(sizes), most))
        used = np.arange(most) < sizes[:, None]
        feature[used], value[used] = shared.indices, shared.data
        return cls(feature[order], value[order])


@njit(cache=True, nogil=True)
def shared_values(side, beta, offset):
    """Fill ``offset`` (N,) with what the shared coefficients say of each row."""
    feature, value = side.feature, side.value
    for n in range(len(offset)):
        total = 0.0
        for j in range(feature.shape[1]):
            total += value[n, j] * beta[feature[n, j]]
        offset[n] = total


@njit(cache=True, nogil=True)
def _pulled(rows, w, factors, inverse_noise, pulled, at, t, c):
    """Fill ``c`` (D,) with the coefficients of task t that follow from ``P mu`` and from what ``at`` says of rows."""
    inputs, row, k = rows.inputs, rows.row, inverse_noise[t // LANES, t % LANES]
    c[:] = pulled
    for n in range(rows.starts[t], rows.starts[t + 1]):
        i, by = row[n], k * w[n] * at[n]
        for d in range(len(c)):
            c[d] -= by * inputs[i, d]
    solve_lower(factors[t], c)
    solve_transposed(factors[t], c)


@njit(cache=True, nogil=True)
def _product(rows, side, w, factors, inverse_noise, prior, P, law, mu, beta, at, of_mu, of_beta):
    r"""Fill ``of_mu`` and ``of_beta`` with :math:`\Lambda (\mu, \beta)`; ``at`` (N,) is work space."""
    T, D, K = len(factors), len(mu), side.feature.shape[1]
    inputs, row, feature, value = rows.inputs, rows.row, side.feature, side.value
    pulled, total, c = P @ mu, np.zeros(D), np.empty(D)
    of_beta[:] = prior * beta
    shared_values(side, beta, at)
    for t in range(T):
        k = inverse_noise[t // LANES, t % LANES]
        _pulled(rows, w, factors, inverse_noise, pulled, at, t, c)
        for d in range(D):
            total[d] += c[d]
        for n in range(rows.starts[t], rows.starts[t + 1]):
            i, f = row[n], at[n]
            for d in range(D):
                f += inputs[i, d] * c[d]
            f *= k * w[n]
            for j in range(K):
                of_beta[feature[n, j]] += value[n, j] * f
    of_mu[:] = P @ ((law.pi + T) * mu - total) + law.own * mu


@njit(cache=True, nogil=True)
def _perturbed(
    rng, rows, side, S, w, v, P, inverse_noise, prior, law, factors, own, of_mu, of_beta, block, diagonal
):
    r"""Fill factors of :math:`M_t`, its solutions ``own`` (T, D), :math:`\tilde h`, and the preconditioner.

    The preconditioner has a factor, ``block``, for the mean, and a diagonal for the shared coefficients.
    """
    T, D, L = len(factors), len(P), np.linalg.cholesky(P)
    inputs, row, feature, value, K = rows.inputs, rows.row, side.feature, side.value, side.feature.shape[1]
    noise, solved, total = np.empty(D), np.empty((D, D)), np.zeros(D)
    block[:] = (law.pi + T) * P
    for d in range(D):
        block[d, d] += law.own[d]
    diagonal[:] = prior
    for j in range(len(prior)):
        of_beta[j] = np.sqrt(prior[j]) * rng.standard_normal()
    for d in range(D):
        noise[d] = rng.standard_normal()
    # One of the two is zero: the law of the mean is tied to C, or its own.
    of_mu[:] = np.sqrt(law.pi) * (L @ noise) + np.sqrt(law.own) * noise
    for t in range(T):
        lane, place = t % LANES, t // LANES
        k, M, r = inverse_noise[place, lane], factors[t], own[t]
        for i in range(D):
            noise[i] = rng.standard_normal()
            for j in range(D):
                M[i, j] = k * S[place, i, j, lane] + P[i, j]
        factorise(M)
        for i in range(D):
            r[i] = 0.0
            for j in range(i + 1):
                r[i] += L[i, j] * noise[j]
            of_mu[i] -= r[i]
        for n in range(rows.starts[t], rows.starts[t + 1]):
            i, e = row[n], k * v[n] + np.sqrt(k * w[n]) * rng.standard_normal()
            for d in range(D):
                r[d] += e * inputs[i, d]
            for j in range(K):
                s, at = value[n, j], feature[n, j]
                of_beta[at] += e * s
                diagonal[at] += k * w[n] * s * s
        solve_lower(M, r)
        solve_transposed(M, r)
        total += r
        for n in range(rows.starts[t], rows.starts[t + 1]):
            i, f = row[n], 0.0
            for d in range(D):
                f += inputs[i, d] * r[d]
            f *= k * w[n]
            for j in range(K):
                of_beta[feature[n, j]] -= value[n, j] * f
        for i in range(D):
            solved[i] = P[i]
            solve_lower(M, solved[i])
            for j in range(i + 1):
                for d in range(D):
                    block[i, j] -= solved[i, d] * solved[j, d]
    of_mu += P @ total
    factorise(block)


@njit(cache=True, nogil=True)
def _preconditioned(factor, diagonal, r_mu, r_beta, z_mu, z_beta):
    """Fill z with the preconditioned residual, and give the squared size of this."""
    z_mu[:] = r_mu
    solve_lower(factor, z_mu)
    solve_transposed(factor, z_mu)
    z_beta[:] = r_beta / diagonal
    return np.dot(r_mu, z_mu) + np.dot(r_beta, z_beta)


@njit(cache=True, nogil=True)
def _draw_by_steps(rng, S, rows, side, w, v, W, mu, beta, sd, P, inverse_noise, law, n_tasks):
    """What :func:`draw_by_steps` does; the steps that were taken, or -1 where they were not enough."""
    D, prior = len(mu), 1.0 / (sd * sd)
    factors, own, at = np.empty((n_tasks, D, D)), np.empty((n_tasks, D)), np.empty(len(w))
    block, diagonal = np.empty((D, D)), np.empty_like(beta)
    r_mu, r_beta, z_mu, z_beta = np.empty(D), np.empty_like(beta), np.empty(D), np.empty_like(beta)
    q_mu, q_beta, m, b = np.empty(D), np.empty_like(beta), mu.copy(), beta.copy()
    _perturbed(
        rng, rows, side, S, w, v, P, inverse_noise, prior, law, factors, own, r_mu, r_beta, block, diagonal
    )
    # Where the noise is next to nothing, no residual is smaller than the rounding of what it is of.
    end = _ROUNDING * _preconditioned(block, diagonal, r_mu, r_beta, z_mu, z_beta)
    end = max(end, _CLOSE * (D + len(beta)))
    _product(rows, side, w, factors, inverse_noise, prior, P, law, m, b, at, q_mu, q_beta)
    r_mu -= q_mu
    r_beta -= q_beta
    size = _preconditioned(block, diagonal, r_mu, r_beta, z_mu, z_beta)
    d_mu, d_beta, steps = z_mu.copy(), z_beta.copy(), 0
    while not size <= end:
        steps += 1
        if steps > _STEPS or not np.isfinite(size):
            return -1
        _product(rows, side, w, factors, inverse_noise, prior, P, law, d_mu, d_beta, at, q_mu, q_beta)
        length = size / (np.dot(d_mu, q_mu) + np.dot(d_beta, q_beta))
        m += length * d_mu
        b += length * d_beta
        r_mu -= length * q_mu
        r_beta -= length * q_beta
        before, size = size, _preconditioned(block, diagonal, r_mu, r_beta, z_mu, z_beta)
        d_mu = z_mu + (size / before) * d_mu
        d_beta = z_beta + (size / before) * d_beta
    mu[:] = m
    beta[:] = b
    shared_values(side, beta, at)
    pulled, c = P @ mu, np.empty(D)
    for t in range(n_tasks):
        _pulled(rows, w, factors, inverse_noise, pulled, at, t, c)
        for d in range(D):
            W[t // LANES, d, t % LANES] = own[t, d] + c[d]
    return steps


def draw_by_steps(
    rng: np.random.Generator,
    S: np.ndarray,
    rows: Rows,
    side: SharedRows,
    w: np.ndarray,
    v: np.ndarray,
    W: np.ndarray,
    mu: np.ndarray,
    beta: np.ndarray,
    sd: np.ndarray,
    P: np.ndarray,
    inverse_noise: np.ndarray,
    law: MeanLaw,
    n_tasks: int,
) -> int:
    """Draw coefficients, their mean and ``beta`` jointly; ``W``, ``mu`` and ``beta`` change in place.

    Parameters
    ----------
    S : (blocks, D, D, lanes)
        ``X'wX`` of the tasks, in lanes.
    rows : Rows
        Sorted by task.
    side : SharedRows
        In the same order.
    w, v : (N,)
        Weights and linear terms of the rows.
    W : (blocks, D, lanes)
    sd : (S,)
        Prior standard deviations of ``beta``.
    inverse_noise : (blocks, lanes)
        What multiplies S, w and v.
    law : MeanLaw

    Raises
    ------
    numpy.linalg.LinAlgError
        The steps do not come to an end; nothing has changed.
    """
    steps = int(_draw_by_steps(rng, S, rows, side, w, v, W, mu, beta, sd, P, inverse_noise, law, n_tasks))
    if steps < 0:
        raise np.linalg.LinAlgError("the steps of conjugate gradients do not come to an end")
    return steps


@njit(cache=True, nogil=True)
def _less_shared(rows, side, inverses, y, weight, beta, linear, centre, sse):
    """Fill sums of the rows less the part of ``beta``: with the features, least squares, and squared errors there."""
    D, z, inputs, row = linear.shape[1], np.empty(len(y)), rows.inputs, rows.row
    shared_values(side, beta, z)
    r, c = np.empty(D), np.empty(D)
    for t in range(len(sse)):
        c[:] = 0.0
        # Least squares by the pseudo-inverse of X'X, and once more for what that leaves: then the error is rounding.
        for again in range(2):
            r[:] = 0.0
            for n in range(rows.starts[t], rows.starts[t + 1]):
                i, left = row[n], y[n] - z[n]
                for d in range(D):
                    left -= inputs[i, d] * c[d]
                left *= weight[n]
                for d in range(D):
                    r[d] += left * inputs[i, d]
            if again == 0:
                for d in range(D):
                    linear[t // LANES, d, t % LANES] = r[d]
            for i in range(D):
                for j in range(D):
                    c[i] += inverses[t, i, j] * r[j]
        total = 0.0
        for n in range(rows.starts[t], rows.starts[t + 1]):
            i, left = row[n], y[n] - z[n]
            for d in range(D):
                left -= inputs[i, d] * c[d]
            total += weight[n] * left * left
        sse[t] = total
        for d in range(D):
            centre[t // LANES, d, t % LANES] = c[d]


class ManySums(NamedTuple):
    """Rows sorted by task, of which sums are taken anew for each draw of the shared coefficients.

    ``rows`` and ``side`` as above; ``y`` and ``weight`` (N,); ``inverses`` (T, D, D) of the ``X'X`` of tasks.
    """

    rows: Rows
    side: SharedRows
    y: np.ndarray
    weight: np.ndarray
    inverses: np.ndarray

    @classmethod
    def of(
        cls,
        tasks: Tasks,
        inputs: np.ndarray,
        shared: Any,
        y: np.ndarray,
        task: np.ndarray,
        weight: np.ndarray | None,
    ) -> ManySums:
        """Of rows in any order: features (N, D), a csr_array (N, S) of shared ones, tasks (N,)."""
        n_tasks, D = len(tasks.size), inputs.shape[1]
        order, sizes = np.argsort(task, kind="stable"), np.bincount(task, minlength=n_tasks)
        rows = Rows.of(inputs[order], np.arange(len(y)), np.arange(len(y)), sizes, None)
        gram = np.moveaxis(tasks.S, 3, 1).reshape(-1, D, D)[:n_tasks]
        inverses = np.linalg.pinv(gram, rcond=D * np.finfo(np.float64).eps, hermitian=True)
        weights = np.ones(len(y)) if weight is None else weight[order]
        return cls(rows, SharedRows.of(shared, order), np.ascontiguousarray(y[order]), weights, inverses)

    def put(self, tasks: Tasks, beta: np.ndarray) -> None:
        """Make the sums those of the responses less the part of ``beta`` (S,), in place."""
        seen = (self.rows, self.side, self.inverses, self.y, self.weight, beta)
        _less_shared(*seen, tasks.linear, tasks.centre, tasks.sse)

    @property
    def known(self) -> tuple[Any, ...]:
        """The function that draws, and what it takes of the responses."""
        return draw_by_steps, self.rows, self.side, self.weight, self.weight * self.y

    def scaled(self, scales: np.ndarray) -> ManySums:
        """The rows with features multiplied by ``scales`` (D,), which a joint draw reads."""
        return self._replace(rows=self.rows._replace(inputs=self.rows.inputs * scales))

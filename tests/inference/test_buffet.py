"""Sweeps over the binary matrix of the Indian buffet process: against brute force, enumeration and the prior.

Statistical tests. Null: the sweep leaves the exact law unchanged, and the chain forgets itself within one thinning
interval, so that the kept matrices are independent draws: chi-square tests, which then fail with probability 1e-6 each.
Where draws depend on each other: |z| < 6 with errors from the effective sample size, 2e-9 a quantity.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import logsumexp

from tests.comparisons import mean_and_error
from zoo.distributions.indian_buffet import ibp_logp
from zoo.inference.gibbs import buffet

_P = 1e-6


def _log_density(W, Z):
    """Log density of whitened coefficients by SciPy: MN(0, I + ZZ', I)."""
    return stats.matrix_normal(rowcov=np.eye(len(Z)) + Z @ Z.T, colcov=np.eye(W.shape[1])).logpdf(W)


def _example(D=6, T=4, K=5, seed=0):
    rng = np.random.default_rng(seed)
    return 2.0 * rng.standard_normal((D, T)), (rng.random((D, K)) < 0.5).astype(np.int8)


# -------------------------------------------------------------------- the likelihood of a row


@pytest.mark.parametrize("T", [1, 4])
def test_row_likelihood_is_that_of_the_matrix_normal(T):
    W, Z = _example(T=T)
    for d in range(len(Z)):
        M, E = buffet._moments(W, Z)
        buffet._leave_out(M, E, Z[d], W[d])
        v, r, s = buffet._row_state(M, E, Z[d], W[d])
        now = buffet._log_density(s, r @ r, T)
        for k in range(Z.shape[1]):
            flipped = Z.copy()
            flipped[d, k] = 1 - flipped[d, k]
            change = buffet._log_density(*buffet._flipped(M, E, Z[d], v, r, s, k), T) - now
            assert np.isclose(change, _log_density(W, flipped) - _log_density(W, Z), rtol=0, atol=1e-10)
        for n in (1, 3):
            own = np.zeros((len(Z), n))
            own[d] = 1
            change = buffet._log_density(s + n, r @ r, T) - now
            exact = _log_density(W, np.hstack([Z, own])) - _log_density(W, Z)
            assert np.isclose(change, exact, rtol=0, atol=1e-10)


def test_row_likelihood_without_columns():
    W, Z = _example(K=0)
    M, E = buffet._moments(W, Z)
    _, r, s = buffet._row_state(M, E, Z[2], W[2])
    own = np.zeros((len(Z), 2))
    own[2] = 1
    change = buffet._log_density(s + 2, r @ r, 4) - buffet._log_density(s, r @ r, 4)
    assert np.isclose(change, _log_density(W, own) - _log_density(W, Z.astype(float)), rtol=0, atol=1e-10)


def test_prior_odds_of_the_finite_sweep_are_those_of_the_distribution():
    # The sweep has m + a : D - m for a bit of a column whose other rows hold m ones.
    import pymc as pm
    from pytensor.compile.mode import Mode

    from zoo.distributions.indian_buffet import IndianBuffet

    D, K, alpha = 5, 3, 1.7
    model = IndianBuffet.dist(alpha, D=D, K_max=K)
    value = model.type()
    density = pm.pytensorf.compile([value], pm.logp(model, value), mode=Mode("py", "fast_compile"))
    for m in range(D):
        zero, one = np.zeros((D, K), dtype=np.int64), np.zeros((D, K), dtype=np.int64)
        zero[1 : 1 + m, 0] = one[1 : 1 + m, 0] = one[0, 0] = 1
        expected = np.log((m + alpha / K) / (D - m))
        assert np.isclose(density(one) - density(zero), expected, rtol=1e-12)


# -------------------------------------------------------------------- bookkeeping


def test_sweep_returns_a_compact_matrix_and_keeps_its_argument():
    rng = np.random.default_rng(1)
    W, Z = _example(D=12, T=3, K=4)
    Z = Z[:, Z.any(axis=0)]
    before, sizes = Z.copy(), set()
    for _ in range(300):
        new = buffet.buffet_sweep(rng, W, Z, 1.5)
        assert new.dtype == np.int8
        assert new.flags.c_contiguous
        assert new.shape[1] == 0 or new.any(axis=0).all()
        assert set(np.unique(new)) <= {0, 1}
        sizes.add(new.shape[1])
    assert np.array_equal(Z, before)
    assert len(sizes) > 2


def test_sweep_survives_no_columns():
    rng = np.random.default_rng(2)
    W = np.zeros((5, 2))  # favours few columns
    Z, sizes = np.zeros((5, 0), dtype=np.int8), []
    for _ in range(500):
        Z = buffet.buffet_sweep(rng, W, Z, 0.3)
        sizes.append(Z.shape[1])
    assert min(sizes) == 0
    assert max(sizes) > 0


def test_same_seed_same_matrix():
    W, Z = _example(D=8, T=3, K=3)
    first, second = (buffet.buffet_sweep(np.random.default_rng(4), W, Z, 2.0) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_numbers_do_not_drift(scale):
    # Forty passes over all rows without a fresh start, where a sweep makes one; columns appear and vanish.
    rng = np.random.default_rng(3)
    D, T, alpha = 60, 4, 3.0
    W = scale * rng.standard_normal((D, T))
    Z = (rng.random((D, 12)) < 0.3).astype(np.int8)
    M, E = buffet._moments(W, Z)
    for _ in range(40):
        sums = buffet._column_sums(Z)
        for d in range(D):
            buffet._leave_out(M, E, Z[d], W[d])
            sums -= Z[d]
            kept = np.flatnonzero(sums)
            Z, M, E, sums = buffet._select(Z, M, E, sums, kept)
            v, r, s = buffet._row_state(M, E, Z[d], W[d])
            s = buffet._draw_bits(rng, M, E, Z[d], v, r, s, sums, D - sums)
            n = rng.poisson(alpha / D)
            buffet._put_back(M, E, v, r, s + n)
            sums += Z[d]
            Z, M, E, sums = buffet._append(Z, M, E, sums, d, n, v, r, s + n)
    fresh_M, fresh_E = buffet._moments(W, Z)
    assert np.abs(M - fresh_M).max() < 1e-11
    assert np.abs(E - fresh_E).max() < 1e-11 * max(1.0, np.abs(W).max())


# -------------------------------------------------------------------- number of new columns


@pytest.mark.parametrize(
    ("s", "squared", "T", "rate"), [(1.0, 4.0, 3, 0.5), (2.5, 400.0, 1, 0.02), (1.0, 90.0, 50, 2.0)]
)
def test_new_columns_follow_equation_13(s, squared, T, rate):
    # Independent draws against the weights summed far beyond any that matters.
    k = np.arange(400)
    log_weight = stats.poisson(rate).logpmf(k) - 0.5 * T * np.log(s + k) - 0.5 * squared / (s + k)
    exact = np.exp(log_weight - logsumexp(log_weight))
    rng, n = np.random.default_rng(5), 100_000
    draws = np.array([buffet._draw_new(rng, s, squared, T, rate) for _ in range(n)])
    counts = np.bincount(draws, minlength=len(k))
    assert _chi_square(counts, exact) > _P


def _chi_square(counts, probabilities):
    """P-value; cells that expect fewer than 10 are merged, from the smallest on."""
    order = np.argsort(probabilities)[::-1]
    counts, expected = counts[order], probabilities[order] / probabilities.sum() * counts.sum()
    rest = np.cumsum(expected[::-1])[::-1]  # what a cell and all smaller ones expect
    n = int(np.sum((expected >= 10) & (rest - expected >= 10)))
    assert n >= 1
    counts = np.append(counts[:n], counts[n:].sum())
    return stats.chisquare(counts, np.append(expected[:n], rest[n])).pvalue


# -------------------------------------------------------------------- enumeration


@njit
def _sizes_of_classes(rng, W, alpha, kept, thin):
    """Number of columns of each kind: (kept, 2^D), by the binary number that the column spells."""
    Z = np.zeros((len(W), 0), np.int8)
    sizes = np.zeros((kept, 2 ** len(W)), np.int64)
    for i in range(-100, kept * thin):
        Z = buffet.buffet_sweep(rng, W, Z, alpha)
        if i >= 0 and i % thin == 0:
            for k in range(Z.shape[1]):
                kind = 0
                for d in range(len(W)):
                    kind = 2 * kind + Z[d, k]
                sizes[i // thin, kind] += 1
    return sizes


def _classes(D, most):
    """The same numbers of all classes with at most ``most`` columns."""
    for n in range(most + 1):
        for kinds in itertools.combinations_with_replacement(range(1, 2**D), n):
            yield np.bincount(np.array(kinds, dtype=int), minlength=2**D)


def _matrix(sizes, D):
    kinds = np.repeat(np.arange(2**D), sizes)
    return (kinds >> np.arange(D - 1, -1, -1)[:, None]) & 1


# The first two rows are alike, so that shared columns carry mass.
_W = np.array([[1.6, -0.9], [2.1, -1.4], [-0.3, 0.8]])


@pytest.mark.statistical
@pytest.mark.parametrize(("alpha", "most"), [(0.5, 5), (1.5, 6)])
def test_truncation_free_sweep_draws_from_the_enumerated_posterior(alpha, most):
    # Given at most so many columns: then no class is left out, and none needs a bound.
    D, T = _W.shape
    classes = np.array(list(_classes(D, most)))
    log_joint = np.empty(len(classes))
    for i, sizes in enumerate(classes):
        Z = _matrix(sizes, D)
        precision = np.linalg.inv(np.eye(D) + Z @ Z.T)
        log_density = 0.5 * T * np.linalg.slogdet(precision)[1] - 0.5 * np.sum(_W * (precision @ _W))
        log_joint[i] = ibp_logp(Z, alpha) + log_density
    exact = np.exp(log_joint - logsumexp(log_joint))
    drawn = _sizes_of_classes(np.random.default_rng(6), _W, alpha, 150_000, 8)
    drawn = drawn[drawn.sum(axis=1) <= most]
    both, inverse = np.unique(np.vstack([classes, drawn]), axis=0, return_inverse=True)
    assert len(both) == len(classes)
    counts = np.bincount(inverse[len(classes) :], minlength=len(classes))[inverse[: len(classes)]]
    assert _chi_square(counts, exact) > _P


@njit
def _finite_counts(rng, W, K, alpha, kept, thin):
    """How often each matrix is drawn, by the binary number that its entries spell."""
    D = len(W)
    Z, counts = np.zeros((D, K), np.int64), np.zeros(2 ** (D * K))
    for i in range(-100, kept * thin):
        buffet.finite_buffet_sweep(rng, W, Z, alpha)
        if i >= 0 and i % thin == 0:
            number = 0
            for d in range(D):
                for k in range(K):
                    number = 2 * number + Z[d, k]
            counts[number] += 1
    return counts


def _all_binary(D, K):
    return [np.array(bits, dtype=np.int64).reshape(D, K) for bits in itertools.product((0, 1), repeat=D * K)]


@pytest.mark.statistical
@pytest.mark.parametrize(("K_max", "alpha"), [(2, 1.5), (3, 0.7)])
def test_finite_sweep_draws_from_the_enumerated_posterior(K_max, alpha):
    import pymc as pm
    from pytensor.compile.mode import Mode

    from zoo.distributions.indian_buffet import IndianBuffet

    model = IndianBuffet.dist(alpha, D=3, K_max=K_max)
    value = model.type()
    prior = pm.pytensorf.compile([value], pm.logp(model, value), mode=Mode("py", "fast_compile"))
    matrices = _all_binary(3, K_max)
    log_joint = np.array([prior(Z) + _log_density(_W, Z) for Z in matrices])
    exact = np.exp(log_joint - logsumexp(log_joint))
    counts = _finite_counts(np.random.default_rng(7), _W, K_max, alpha, 100_000, 10)
    assert _chi_square(counts, exact) > _P


# -------------------------------------------------------------------- the prior, through the likelihood


@njit
def _successive(rng, D, T, alpha, shape, rate, learn, draws):
    """Z under alternating draws of W given Z and Z given W: its law is the prior.

    Number of columns with j ones, (draws, D + 1); alpha stands in the column j = 0.
    """
    Z = np.zeros((D, 0), np.int8)
    sizes = np.zeros((draws, D + 1))
    for i in range(draws):
        W = np.empty((D, T))
        for t in range(T):
            V = np.array([rng.standard_normal() for _ in range(Z.shape[1])])
            for d in range(D):
                W[d, t] = rng.standard_normal() + np.sum(Z[d] * V)
        Z = buffet.buffet_sweep(rng, W, Z, alpha)
        if learn:
            alpha = buffet.draw_alpha(rng, Z.shape[1], D, shape, rate)
        sizes[i, 0] = alpha
        for k in range(Z.shape[1]):
            sizes[i, np.sum(Z[:, k])] += 1
    return sizes


def _chains(D, T, alpha, shape=1.0, rate=1.0, learn=False, draws=100_000):
    rngs = [np.random.default_rng(seed) for seed in range(4)]
    return np.stack([_successive(rng, D, T, alpha, shape, rate, learn, draws) for rng in rngs])


@pytest.mark.statistical
@pytest.mark.parametrize("T", [1, 3])
def test_sweep_and_likelihood_together_keep_the_prior(T):
    D, alpha = 5, 1.2
    sizes = _chains(D, T, alpha)
    n_columns = sizes[..., 1:].sum(axis=-1)
    harmonic = np.sum(1.0 / np.arange(1, D + 1))
    for k in range(7):
        _agrees(n_columns == k, stats.poisson(alpha * harmonic).pmf(k))
    for j in range(1, D + 1):  # the number of columns with j ones is Poisson(alpha / j)
        _agrees(sizes[..., j], alpha / j)
        _agrees(sizes[..., j] ** 2, alpha / j + (alpha / j) ** 2)


@pytest.mark.statistical
def test_alpha_keeps_its_prior():
    D, shape, rate = 4, 3.0, 2.0
    sizes = _chains(D, 2, 1.0, shape, rate, learn=True)
    _agrees(sizes[..., 0], shape / rate)
    _agrees(sizes[..., 0] ** 2, shape * (shape + 1) / rate**2)
    _agrees(sizes[..., 1:] @ np.arange(1, D + 1), D * shape / rate)


def test_draw_of_alpha():
    rng = np.random.default_rng(8)
    draws = np.array([buffet.draw_alpha(rng, 7, 3, 1.5, 0.5) for _ in range(20_000)])
    assert stats.kstest(draws, stats.gamma(8.5, scale=1 / (0.5 + 1 + 1 / 2 + 1 / 3)).cdf).pvalue > _P


def _agrees(values, exact):
    mean, error = mean_and_error(np.asarray(values, dtype=float))
    assert abs(mean - exact) < 6 * error, f"{mean} is {(mean - exact) / error:.1f} errors from {exact}"

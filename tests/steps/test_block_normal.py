"""Draws of the block against dense linear algebra, and rows against the map that they are read off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from zoo.steps import block_normal as module
from zoo.steps import iterative_normal
from zoo.steps.block_normal import DenseNormal, SparseNormal, block_normal, subtract_products
from zoo.steps.iterative_normal import IterativeNormal
from zoo.steps.rows import colour_columns, find_rows, refresh_rows


class _Noise:
    """Hands out one vector in place of a generator's draws."""

    def __init__(self, noise):
        self.noise = noise

    def standard_normal(self, size):
        return np.array(self.noise, dtype=np.float64)


def _arrow(rng):
    """A hierarchy: three means, and forty groups of three."""
    group = rng.integers(0, 40, 300)
    X = rng.normal(size=(300, 3))

    def apply(b):
        B = b[3:].reshape(40, 3)
        return np.concatenate([(B[group] * X).sum(1), (B - b[:3]).ravel(), b[:3]])

    return apply, 123


def _chain(rng):
    """A random walk that is observed here and there."""
    return lambda b: np.concatenate([np.diff(b), b[::5]]), 60


def _filled(rng):
    """Every row has every column, beside a prior of each."""
    X = rng.normal(size=(80, 30))
    return lambda b: np.concatenate([b, X @ b]), 30


@pytest.mark.parametrize(
    ("build", "kind"), [(_arrow, SparseNormal), (_chain, SparseNormal), (_filled, DenseNormal)]
)
def test_mean_and_covariance(build, kind):
    rng = np.random.default_rng(0)
    apply, size = build(rng)
    rows = find_rows(apply, size, fixed=True)
    J = np.stack([apply(e) for e in np.eye(size)], axis=1)
    np.testing.assert_array_equal(
        sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=J.shape).toarray(), J
    )
    w, u = rng.gamma(1.0, size=len(J)), rng.normal(size=len(J))
    normal = block_normal(rows.indptr, rows.indices, size)
    assert type(normal) is kind

    def draw(noise, linear):
        return normal.draw(_Noise(noise), rows.indptr, rows.indices, rows.data, w, linear)

    Q = J.T @ (w[:, None] * J)
    np.testing.assert_allclose(draw(np.zeros(size), u), np.linalg.solve(Q, J.T @ u), rtol=1e-9, atol=1e-9)
    root = np.stack([draw(e, np.zeros_like(u)) for e in np.eye(size)], axis=1)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(Q), rtol=1e-9, atol=1e-9)
    x, out = rng.normal(size=size), rng.normal(size=len(J))
    expected = out - J @ x
    subtract_products(rows.indptr, rows.indices, rows.data, x, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("build", [_arrow, _chain, _filled])
def test_without_a_factor_a_draw_solves_the_system_of_noisy_rows(build):
    """By conjugate gradients; known sums of the last rows do not change it."""
    rng = np.random.default_rng(0)
    apply, size = build(rng)
    rows = find_rows(apply, size, fixed=True)
    J = np.stack([apply(e) for e in np.eye(size)], axis=1)
    w, u, noise = rng.gamma(1.0, size=len(J)), rng.normal(size=len(J)), rng.normal(size=len(J))
    pattern = rows.indptr, rows.indices, rows.data
    normal = IterativeNormal(size)
    found = normal.draw(_Noise(noise), *pattern, w, u)
    Q = J.T @ (w[:, None] * J)
    np.testing.assert_allclose(
        found, np.linalg.solve(Q, J.T @ (u + np.sqrt(w) * noise)), rtol=1e-6, atol=1e-7
    )
    start = len(J) // 3
    known = normal.sums(*pattern, w, u, start)
    stale = np.where(np.arange(len(J)) < start, w, 99.0), np.where(np.arange(len(J)) < start, u, 99.0)
    np.testing.assert_allclose(normal.draw(_Noise(noise), *pattern, *stale, known, start), found, rtol=1e-6)
    without = normal.draw(_Noise(noise), *pattern, stale[0], u, (known[0], None), start)
    np.testing.assert_allclose(without, found, rtol=1e-6)


def test_a_system_that_is_not_solved_is_an_error(monkeypatch):
    monkeypatch.setattr(iterative_normal, "_MOST_STEPS", 2)
    apply, size = _chain(None)
    rows = find_rows(apply, size, fixed=True)
    ones = np.ones(len(rows.indptr) - 1)
    with pytest.raises(np.linalg.LinAlgError, match=r"conjugate gradients left .* singular or nearly so"):
        IterativeNormal(size).draw(_Noise(ones), rows.indptr, rows.indices, rows.data, ones, 0.0 * ones)


def test_a_variable_in_no_row_is_an_error():
    ends, ones = (np.array([0, 1, 2]), np.array([0, 2])), np.ones(2)
    with pytest.raises(np.linalg.LinAlgError, match="one of its variables is in no row"):
        IterativeNormal(3).draw(np.random.default_rng(0), *ends, ones, ones, ones)


def _pattern(rows):
    return np.concatenate([[0], np.cumsum([len(r) for r in rows])]), np.concatenate(rows)


def test_large_blocks_are_drawn_by_what_costs_less(monkeypatch):
    rng = np.random.default_rng(0)
    groups = [[0, 1 + g, 4_001 + g] for g in rng.integers(0, 4_000, 9_000)] + [[k] for k in range(8_001)]
    assert isinstance(block_normal(*_pattern(groups), 8_001), SparseNormal)
    pairs = zip(rng.integers(0, 5_000, 20_000), 5_000 + rng.integers(0, 2_000, 20_000), strict=True)
    crossed = [list(pair) for pair in pairs] + [[k] for k in range(7_000)]
    assert isinstance(block_normal(*_pattern(crossed), 7_000), IterativeNormal)
    monkeypatch.setattr(module, "MOST_FILLED", 10_000)
    assert isinstance(block_normal(*_pattern(groups), 8_001), IterativeNormal)


@pytest.mark.parametrize("build", [_arrow, _chain, _filled])
def test_entries_come_from_few_calls(build):
    apply, size = build(np.random.default_rng(1))
    fixed, moving = (find_rows(apply, size, fixed) for fixed in (True, False))
    given = []

    def of_all(directions):
        given.append(len(directions))
        return np.array([apply(d) for d in directions])

    np.testing.assert_allclose(refresh_rows(moving, of_all)[: len(fixed.data)].sum(), fixed.data.sum())
    assert given == [{_arrow: 4, _chain: 2, _filled: 30}[build]]


@pytest.mark.parametrize("build", [_arrow, _chain, _filled])
@pytest.mark.parametrize("linear", [False, True])
def test_sums_of_rows_that_stay_are_used_again(build, linear):
    """A draw that is given what the last rows add is the draw that sums them itself."""
    rng = np.random.default_rng(4)
    apply, size = build(rng)
    rows = find_rows(apply, size, fixed=True)
    n = len(rows.indptr) - 1
    w, u, first = rng.uniform(0.5, 2.0, n), rng.normal(size=n), n - n // 3
    normal = block_normal(rows.indptr, rows.indices, size)
    base = normal.sums(rows.indptr, rows.indices, rows.data, w, u, first)
    if not linear:
        base = (base[0], None)
    given = rows.indptr, rows.indices, rows.data
    expected = normal.draw(np.random.default_rng(0), *given, w, u)
    late = np.arange(n) >= first
    spoilt = (np.where(late, np.nan, w), np.where(late & linear, np.nan, u))
    np.testing.assert_allclose(
        normal.draw(np.random.default_rng(0), *given, *spoilt, base, first), expected, rtol=1e-8, atol=1e-10
    )


def test_entries_that_are_zero_now_are_kept_where_they_may_move():
    scale = [0.0]
    rows = find_rows(lambda b: np.array([scale[0] * b[0], b[1]]), 2, fixed=False)
    scale[0] = 3.0
    np.testing.assert_array_equal(rows.indices, [0, 1])
    np.testing.assert_array_equal(refresh_rows(rows, lambda b: b * [scale[0], 1.0]), [3.0, 1.0])


def test_colours_share_no_row():
    rng = np.random.default_rng(2)
    matrix = sparse.random_array((50, 30), density=0.1, rng=rng, format="csr")
    matrix.sort_indices()
    colour = colour_columns(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), 30)
    for row in matrix.toarray() != 0:
        assert len(set(colour[row])) == row.sum()


def test_what_is_not_positive_definite_is_refused():
    for size in (3, 60):
        indptr, indices = np.arange(size + 1), np.arange(size)
        normal = block_normal(indptr, indices, size)
        with pytest.raises(np.linalg.LinAlgError):
            normal.draw(
                np.random.default_rng(0), indptr, indices, np.ones(size), -np.ones(size), np.ones(size)
            )
    with pytest.raises(np.linalg.LinAlgError):
        ends = np.arange(4), np.arange(3)
        IterativeNormal(3).draw(np.random.default_rng(0), *ends, np.ones(3), -np.ones(3), np.ones(3))

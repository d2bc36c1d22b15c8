"""Moves of one covariance with the other integrated out, against dense formulas."""

import numpy as np
import pytest
from scipy.stats import invwishart, ks_2samp

from zoo.inference.gibbs.collapsed_covariance import collapsed_moves, log_density_of_move

T, D = 4, 3
NU, NU_OTHER = D + 1.5, T + 2.5


def _joint(rng, n):
    """Draws of (H, feature covariance) from the prior, the task covariance integrated out."""
    task = invwishart(NU_OTHER, np.eye(T)).rvs(n, random_state=rng).reshape(n, T, T)
    feature = invwishart(NU, np.eye(D)).rvs(n, random_state=rng).reshape(n, D, D)
    rows, columns = np.linalg.cholesky(task), np.linalg.cholesky(feature)
    H = rows @ rng.standard_normal((n, T, D)) @ columns.transpose(0, 2, 1)
    return list(zip(H, feature, strict=True))


def _log_density(H, cov):
    """Log density of the feature covariance given H, up to a constant, without determinant lemmas."""
    inner = np.eye(T) + H @ np.linalg.solve(cov, H.T)
    return (
        invwishart(NU, np.eye(D)).logpdf(cov)
        - 0.5 * T * np.linalg.slogdet(cov)[1]
        - 0.5 * (NU_OTHER + D) * np.linalg.slogdet(inner)[1]
    )


def _log_jacobian(F):
    """Of F cov F' in the free entries of cov, by differences, which are exact for a linear map."""
    upper = np.triu_indices(D)
    columns = []
    for i, j in zip(*upper, strict=True):
        unit = np.zeros((D, D))
        unit[i, j] = unit[j, i] = 1.0
        columns.append((F @ unit @ F.T)[upper])
    return np.linalg.slogdet(np.array(columns).T)[1]


@pytest.mark.parametrize("shear", [False, True])
@pytest.mark.parametrize("s", [-1.3, 0.4, 2.0])
def test_density_of_a_move_against_dense_formulas(shear, s):
    rng = np.random.default_rng(3)
    [(H, cov)] = _joint(rng, 1)
    directions = np.linalg.eigh(H.T @ H)[1]
    p, q = directions[:, 0], directions[:, 1 if shear else 0]
    a = s if shear else np.exp(s) - 1.0
    F = np.eye(D) + a * np.outer(p, q)
    expected = _log_density(H, F @ cov @ F.T) - _log_density(H, cov) + _log_jacobian(F)

    w, v = cov @ q, np.linalg.solve(cov, p)
    N = np.linalg.inv(cov + H.T @ H)
    linear = -(NU + T + 1.0 - NU_OTHER) + (D + 1.0)
    law = (linear, NU_OTHER + D, p @ v, q @ v, q @ w, p @ N @ p, p @ N @ w, w @ N @ w)
    assert log_density_of_move(s, shear, law) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("shears", [0, 6])
def test_moves_keep_the_law_of_the_covariance(shears):
    """Exact joint draws of H and the covariance, moved: two samples of one law.

    Null: the moves keep the conditional law. Each of 7 Kolmogorov-Smirnov tests is held to 1e-6, so
    a right sampler fails with a probability below 1.4e-5 over both cases.
    """
    rng = np.random.default_rng(17 + shears)
    size = 3000

    def scalars(pairs):
        entries = np.array([[c[0, 0], c[1, 1], c[0, 1], c[0, 2], np.linalg.slogdet(c)[1]] for _, c in pairs])
        cross = [[np.trace(np.linalg.solve(c, H.T @ H)), H[0] @ np.linalg.solve(c, H[1])] for H, c in pairs]
        return np.column_stack([entries, cross])

    moved = []
    for H, cov in _joint(rng, size):
        precision = np.linalg.inv(cov)
        for _ in range(2):
            collapsed_moves(rng, H.T @ H, precision, NU, NU_OTHER, T, shears)
        moved.append((H, np.linalg.inv(precision)))
    first, second = scalars(moved), scalars(_joint(rng, size))
    for i in range(first.shape[1]):
        assert ks_2samp(first[:, i], second[:, i]).pvalue > 1e-6, i


def test_moves_go_somewhere():
    rng = np.random.default_rng(0)
    [(H, cov)] = _joint(rng, 1)
    precision = np.linalg.inv(cov)
    before = precision.copy()
    collapsed_moves(rng, H.T @ H, precision, NU, NU_OTHER, T, 3)
    assert np.abs(precision - before).max() > 1e-3
    assert np.array_equal(precision, precision.T) and np.linalg.eigvalsh(precision).min() > 0.0


def test_one_direction_and_no_coefficients():
    """A covariance of one feature, and coefficients of zero: the law is then the prior times what R leaves."""
    rng = np.random.default_rng(1)
    precision = np.ones((1, 1))
    for _ in range(50):
        collapsed_moves(rng, np.zeros((1, 1)), precision, 2.0, 5.0, 4, 3)
    assert np.isfinite(precision).all() and precision[0, 0] > 0.0

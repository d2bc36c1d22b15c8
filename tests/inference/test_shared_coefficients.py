"""The moves of shared coefficients in a matrix-normal hierarchy keep the prior where rows say nothing.

Null: the moves leave the joint law of shared coefficients, coefficients and covariance of tasks unchanged. States that
were exact draws are compared with fresh ones after many moves, by two-sample Kolmogorov-Smirnov tests at 1e-6 each, so
that a run fails by chance once in 10^5.
"""

import numpy as np
import pytest
from scipy import stats

from zoo.inference.gibbs.shared_coefficients import (
    draw_with_coefficients,
    draw_without_task_cov,
    line_without_task_cov,
    log_density_of_step,
)
from zoo.inference.gibbs.task_rows import Rows

T, D, NU, SCALE, SIZE, MOVES = 3, 2, 6.0, 1.5, 3000, 10
PSI = np.eye(T) + 0.4
O = np.array([[1.3, 0.3], [0.3, 0.8]])
ROOT = np.linalg.cholesky(np.linalg.inv(O))
A = np.random.default_rng(0).normal(size=(1, T, D))
X = np.ones((T, D))
NOTHING = np.zeros(T)


def exact(rng, size, psi):
    """Draws of beta, of H (T, D), and of the precision P of tasks, given the precision O of features."""
    R = stats.invwishart(NU, psi).rvs(size, random_state=rng)
    z = rng.standard_normal((size, T, D))
    H = np.linalg.cholesky(R) @ z @ ROOT.T
    return SCALE * rng.standard_normal((size, 1)), H, np.linalg.inv(R)


def statistics(beta, H, P):
    return {
        "beta": beta[:, 0],
        "log |P|": np.linalg.slogdet(P)[1],
        "tr P H O H'": np.einsum("nij,njk,kl,nil->n", P, H, O, H),
        "h": H[:, 0, 0],
        "log h'h": np.log(np.sum(H**2, axis=(1, 2))),
        "beta h": beta[:, 0] * H[:, 0, 0],
    }


def move(rng, beta, H, P, psi):
    rows = Rows(X, np.arange(T), np.arange(T + 1), np.zeros(T))
    known = (
        rng,
        rows,
        np.ones((T, 1)),
        np.zeros((T, 1)),
        A,
        NOTHING,
        NOTHING,
        H,
        P,
        O,
        beta,
        np.array([SCALE]),
    )
    if psi is None:
        draw_with_coefficients(*known, True)
        return
    none = np.empty((0, 0))
    given = (none, none) if np.array_equal(psi, np.eye(T)) else (psi, np.linalg.inv(psi))
    draw_without_task_cov(*known, NU, *given)


@pytest.mark.parametrize("psi", [np.eye(T), PSI, None], ids=["identity", "scale", "task covariance given"])
def test_the_prior_is_kept(psi):
    rng = np.random.default_rng(1)
    scale = np.eye(T) if psi is None else psi
    beta, H, P = exact(rng, SIZE, scale)
    start = beta.copy()
    for i in range(SIZE):
        for _ in range(MOVES):
            move(rng, beta[i], H[i], P[i], psi)
    assert np.abs(np.corrcoef(start[:, 0], beta[:, 0])[0, 1]) < 0.9  # it does move
    moved, fresh = statistics(beta, H, P), statistics(*exact(rng, SIZE, scale))
    worst = min(stats.ks_2samp(moved[name], fresh[name]).pvalue for name in fresh)
    assert worst > 1e-6


def log_density(H, psi):
    """Of H given the precision of features, by Bayes' rule at any one covariance of tasks, here 2 I."""
    R, U = 2.0 * np.eye(T), np.linalg.inv(O)
    of_H = stats.matrix_normal(np.zeros((T, D)), R, U).logpdf(H)
    return of_H + stats.invwishart(NU, psi).logpdf(R) - stats.invwishart(NU + D, psi + H @ O @ H.T).logpdf(R)


@pytest.mark.parametrize("psi", [np.eye(T), PSI], ids=["identity", "scale"])
def test_the_density_without_the_covariance_of_tasks(psi):
    H = np.random.default_rng(2).normal(size=(T, D))
    inverse = np.empty((0, 0)) if np.array_equal(psi, np.eye(T)) else np.linalg.inv(psi)
    line = line_without_task_cov(H, O, A[0], 0.3, 0.7, NU, inverse)
    for step in (-2.0, -0.1, 0.5, 3.0):
        found = log_density_of_step(step, *line) - log_density_of_step(0.0, *line)
        wanted = log_density(H - step * A[0], psi) - log_density(H, psi) + 0.3 * step - 0.35 * step**2
        assert found == pytest.approx(wanted, rel=1e-9)

"""The covariance updates of the engines in float64 against 60 digits, over the condition number of what they are given.

``python -m tests.conditioning`` prints the table of docs/verification.md. Both sides get the same float64 numbers and
the same random variates, so that the difference is the rounding of the update alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pymc as pm

from zoo.distributions import InverseWishart, MatrixNormal
from zoo.inference.em import conditional as em_conditional
from zoo.inference.em import parts as em_parts
from zoo.inference.gibbs import matrix_normal, matrix_normal_sweep, population_steps
from zoo.inference.gibbs.draws import wishart
from zoo.inference.responses import NormalResponses
from zoo.latent.basis_regression import Gram, gaussian_evidence
from zoo.latent.function_conditional import FunctionConditional
from zoo.latent.latent_gaussian import Dense, LowRank, evidence
from zoo.latent.task_weights import Loadings, WeightConditional, WeightSums

__all__ = ["CONDITIONS", "UPDATES", "spectrum"]

CONDITIONS = (1e0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12, 1e14)
_D, _NU = 5, 9.0
_LANES = population_steps.LANES


def spectrum(condition: float, size: int = _D, seed: int = 0) -> np.ndarray:
    """Symmetric (size, size) with eigenvalues from 1 down to 1 / condition, evenly spread in logs, in random axes."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]
    A = (Q * np.logspace(0.0, -np.log10(condition), size)) @ Q.T
    return (A + A.T) / 2.0


def _exact(value: np.ndarray) -> mp.matrix:
    return mp.matrix(np.atleast_2d(value).tolist())


def _column(value: np.ndarray) -> mp.matrix:
    return mp.matrix(np.asarray(value).tolist())


def _apart(found: np.ndarray | float, exact: mp.matrix) -> float:
    """Frobenius norm of the error over that of the exact result."""
    other = _exact(np.atleast_2d(found)) if exact.cols > 1 else _column(np.ravel(found))
    return float(mp.norm(other - exact, 2) / mp.norm(exact, 2))


def _bartlett(rng: np.random.Generator, degrees: float, size: int, scale: str = "chisquare") -> mp.matrix:
    """Bartlett's lower triangle, with the variates in the order of the compiled code."""
    A = mp.zeros(size)
    for i in range(size):
        if scale == "chisquare":
            A[i, i] = mp.sqrt(mp.mpf(rng.chisquare(degrees - i)))
            for j in range(i):
                A[i, j] = mp.mpf(rng.standard_normal())
        else:
            for j in range(i):
                A[i, j] = mp.mpf(rng.standard_normal())
            A[i, i] = mp.sqrt(2 * mp.mpf(rng.standard_gamma(0.5 * (degrees - i))))
    return A


# ---------------------------------------------------------------- Gibbs


def wishart_draw(condition: float) -> float:
    """Precision drawn from a Wishart law, with the inverse of its scale given (li2014 eq 8)."""
    S = spectrum(condition)
    P = wishart(np.random.default_rng(1), _NU, S)
    B = mp.inverse(mp.cholesky(_exact(S))).T * _bartlett(np.random.default_rng(1), _NU, _D)
    return _apart(P, B * B.T)


def covariance_reported(condition: float) -> float:
    """Covariance of such a precision, as the fit reports it."""
    P = wishart(np.random.default_rng(1), _NU, spectrum(condition))
    return _apart(matrix_normal._inverse(P), mp.inverse(_exact(P)))


def matrix_normal_rows(condition: float) -> float:
    """Coefficients of a task given the others, by their precision (li2014 eq 7)."""
    O, T = spectrum(condition), 2
    P = np.array([[1.0, 0.3], [0.3, 0.5]])
    rng = np.random.default_rng(2)
    H, r, S = rng.standard_normal((T, _D)), rng.standard_normal((T, _D)), np.zeros((T, _D, _D))
    start, replay = H.copy(), np.random.default_rng(3)
    matrix_normal_sweep._draw_rows(np.random.default_rng(3), S, r, H, P, O)
    Omega = _exact(O)
    z = _column(replay.standard_normal(_D))
    L = mp.cholesky(mp.mpf(P[0, 0]) * Omega)
    draw = _column(r[0]) - Omega * (mp.mpf(P[0, 1]) * _column(start[1]))
    draw = mp.inverse(L.T) * (mp.inverse(L) * draw + z)
    return _apart(H[0], draw)


def niw_population(condition: float, which: int = 2) -> float:
    """Covariance of the population given the coefficients: drawn from its factor (yu2005 eq 9)."""
    T, pi = 12, 1.5
    rng = np.random.default_rng(4)
    # Scale matrix I, so that coefficients of size sqrt(condition) make a scatter of that condition.
    W = np.sqrt(condition) * rng.standard_normal((T, _D)) @ np.linalg.cholesky(spectrum(condition)).T
    lanes = np.zeros((2, _D, _LANES))
    for t in range(T):
        lanes[t // _LANES, :, t % _LANES] = W[t]
    mu, P, C = np.zeros(_D), np.zeros((_D, _D)), np.zeros((_D, _D))
    population_steps.draw_population(np.random.default_rng(5), lanes, T, mu, P, C, _NU, pi)
    rows, n = _exact(W), mp.mpf(T)
    mean = mp.matrix([mp.fsum(rows[:, i]) / n for i in range(_D)])
    scatter = mp.eye(_D) + rows.T * rows - n * mean * mean.T + (mp.mpf(pi) * n / (pi + n)) * mean * mean.T
    A = _bartlett(np.random.default_rng(5), _NU + T, _D, "gamma")
    M = mp.cholesky(scatter) * mp.inverse(A.T)
    cov = M * M.T
    return _apart(C, cov) if which == 2 else _apart(P, mp.inverse(cov))


def niw_precision(condition: float) -> float:
    """Its inverse, which the next sweep uses."""
    return niw_population(condition, which=1)


def niw_coefficients(condition: float) -> float:
    """Coefficients of a task given the population, by their precision (yu2005 eq 5)."""
    A = np.repeat(spectrum(condition)[:, :, None], _LANES, axis=2)
    u = np.repeat(np.random.default_rng(6).standard_normal(_D)[:, None], _LANES, axis=1)
    precision, linear = _exact(A[:, :, 0]), _column(u[:, 0])
    out, z = np.empty((_D, _LANES)), np.random.default_rng(7).standard_normal((_D, _LANES))
    population_steps.draw_block(np.random.default_rng(7), A, u, out)
    L = mp.cholesky(precision)
    return _apart(out[:, 0], mp.inverse(L.T) * (mp.inverse(L) * linear + _column(z[:, 0])))


# ---------------------------------------------------------------- EM


def em_step(condition: float) -> float:
    """M-step of the covariance (yu2005 eq 8)."""
    prior = em_parts.Prior(1.5, 2.0, 1e-3 / condition, 0.0, em_parts.NoisePenalty(None, 0.0))
    rng = np.random.default_rng(8)
    u = np.linalg.cholesky(spectrum(condition)) @ rng.standard_normal((_D, 7))
    total = spectrum(condition, seed=9)
    one = np.ones(())
    old = em_parts.Population(np.zeros(_D), np.eye(_D), np.eye(_D), one)
    found = prior.maximise(old, em_parts.Expectations(u, np.asfortranarray(total), np.ones(7), np.ones(7)))
    U, n = _exact(u), mp.mpf(7)
    mean = mp.matrix([mp.fsum(U[i, :]) for i in range(_D)]) / (prior.pi + n)
    gaps = U - mean * mp.ones(1, 7)
    # The engine reads the lower triangle.
    both = _exact(np.tril(total) + np.tril(total, -1).T)
    cov = gaps * gaps.T + mp.mpf(prior.pi) * mean * mean.T + both + mp.mpf(prior.scale) * mp.eye(_D)
    return _apart(found.cov, cov / (mp.mpf(prior.tau) + n))


def _em_posterior(condition: float, n_rows: int) -> float:
    X = np.random.default_rng(10).standard_normal((n_rows, _D))
    C, s = spectrum(condition), 0.3
    found = em_conditional.conditional_covariances(X, np.arange(n_rows), np.zeros(n_rows, int), 1, C, s)[0]
    inputs, cov = _exact(X), _exact(C)
    return _apart(found, mp.inverse(mp.inverse(cov) + inputs.T * inputs / mp.mpf(s) ** 2))


def em_posterior_many_rows(condition: float) -> float:
    """Posterior covariance of coefficients in the E-step (yu2005 eq 6), more rows than coefficients."""
    return _em_posterior(condition, 3 * _D)


def em_posterior_few_rows(condition: float) -> float:
    """The same with fewer rows."""
    return _em_posterior(condition, 2)


# ---------------------------------------------------------------- closed forms


def _weights(condition: float) -> tuple[WeightConditional, mp.matrix, mp.matrix, mp.matrix]:
    T = 2
    S = np.stack([spectrum(condition, seed=k) for k in range(T)])
    # Linear terms that rows can have: b = S u.
    b = np.einsum("tij,tj->ti", S, np.random.default_rng(11).standard_normal((T, _D)))
    d, W = np.array([0.7, 1.2]), np.array([[0.5], [-0.4]])
    conditional = WeightConditional.of(WeightSums(1e4 * S, 1e4 * b), Loadings(d, W))
    B = mp.diag(d.tolist()) + _exact(W) * _exact(W).T
    prior, precision, linear = mp.zeros(T * _D), mp.zeros(T * _D), mp.zeros(T * _D, 1)
    for t in range(T):
        for i in range(_D):
            linear[t * _D + i] = mp.mpf(1e4 * b[t, i])
            for j in range(_D):
                precision[t * _D + i, t * _D + j] = mp.mpf(1e4 * S[t, i, j])
            for s in range(T):
                prior[t * _D + i, s * _D + i] = B[t, s]
    return conditional, prior, precision, linear


def kernel_machine_weights(condition: float) -> float:
    """Posterior mean of coefficients of related tasks (evgeniou2005 eq 20)."""
    conditional, prior, precision, linear = _weights(condition)
    exact = mp.lu_solve(mp.inverse(prior) + precision, linear)
    return _apart(conditional.mean.T.ravel(), exact)


def kernel_machine_evidence(condition: float) -> float:
    """Logarithm of their evidence, relative to its size."""
    conditional, prior, precision, linear = _weights(condition)
    posterior = mp.inverse(prior) + precision
    exact = (linear.T * mp.lu_solve(posterior, linear))[0] / 2
    exact -= mp.log(mp.det(prior) * mp.det(posterior)) / 2
    return float(abs((mp.mpf(float(conditional.log_evidence)) - exact) / exact))


def gp_weights(condition: float) -> float:
    """Weights of the covariance functions in the mean of a Gaussian process with an ill-conditioned kernel matrix."""
    K = spectrum(condition)
    omega, nu = np.array([4.0, 1.0, 0.5, 2.0, 0.0]), np.array([1.0, -2.0, 0.5, 0.1, 0.0])
    found = FunctionConditional.of(K, omega, nu).alpha
    inner = mp.eye(_D) + mp.diag(omega.tolist()) * _exact(K)
    return _apart(found, mp.lu_solve(inner, _column(nu)))


_RESPONSES = np.random.default_rng(13).standard_normal(_D)


def _normal_evidence(form: Dense | LowRank, condition: float) -> float:
    """Error of the log evidence and of its slope in the noise, relative to the sizes of the sums that they are."""
    log_noise = -0.5 * np.log(condition)
    found = evidence(form, NormalResponses(_RESPONSES), np.array([log_noise]))
    # The bound of Titsias (2009) takes off what inducing points lose.
    bound = isinstance(form, LowRank) and not form.residual
    lost = form.lost if bound else np.zeros(1)  # type: ignore[union-attr]
    return _from_exact(found, _prior_covariance(form), log_noise, lost)


def _from_exact(found: Any, covariance: mp.matrix, log_noise: float, lost: np.ndarray) -> float:
    variance = mp.exp(2 * mp.mpf(float(log_noise)))
    total = covariance + variance * mp.eye(_D)
    y = _column(_RESPONSES)
    a = mp.lu_solve(total, y)
    square, half_log_det = (y.T * a)[0], mp.log(mp.det(total)) / 2
    taken = mp.fsum(lost.tolist()) / variance
    exact = -square / 2 - half_log_det - mp.mpf(_D) / 2 * mp.log(2 * mp.pi) - taken / 2
    inverse = mp.inverse(total)
    moved, trace = variance * (a.T * a)[0], variance * mp.fsum(inverse[i, i] for i in range(_D))
    slope_error = abs(mp.mpf(float(found.parameter_slopes[0])) - (moved - trace + taken))
    return float(
        max(
            abs(mp.mpf(found.value) - exact) / (square / 2 + abs(half_log_det) + taken / 2 + _D),
            slope_error / (moved + trace + taken + _D),
        )
    )


def _prior_covariance(form: Dense | LowRank) -> mp.matrix:
    """Covariance of the functions, of the numbers that the form has."""
    if isinstance(form, Dense):
        return _exact(form.K)
    V = _exact(form.V)
    return V.T * V + mp.diag(form.own.tolist())


def _induced(residual: bool, size: int = 3) -> LowRank:
    """Functions with inducing points at the first rows."""
    K = spectrum(10.0)
    return LowRank(K[:size, :size], K[:size], np.diag(K), residual)


def function_evidence(condition: float) -> float:
    """Log evidence of functions whose noise has a variance of one over this number, and its slope"""
    return _normal_evidence(Dense(spectrum(10.0)), condition)


def weights_evidence(condition: float) -> float:
    """The same of weights of fixed features, as many as rows, from sums over rows"""
    root = np.linalg.cholesky(spectrum(10.0))
    gram = Gram(root.T @ root, root.T @ _RESPONSES, float(_RESPONSES @ _RESPONSES), _D)
    log_noise = -0.5 * np.log(condition)
    found = gaussian_evidence(gram, np.zeros(_D), log_noise, lambda w: _RESPONSES - root @ w)
    return _from_exact(found, _exact(root) * _exact(root).T, log_noise, np.zeros(1))


def inducing_evidence(condition: float) -> float:
    """The same through inducing points at some of the rows, exact for their covariance (FITC)"""
    return _normal_evidence(_induced(True), condition)


def variational_evidence(condition: float) -> float:
    """The same as a bound (VFE)"""
    return _normal_evidence(_induced(False), condition)


def inducing_mean(condition: float) -> float:
    """Posterior mean at the inducing points, whitened, FITC and VFE"""
    errors, log_noise = [], -0.5 * np.log(condition)
    for form in (_induced(True), _induced(False)):
        mode = evidence(form, NormalResponses(_RESPONSES), np.array([log_noise])).mode
        total = _prior_covariance(form) + mp.exp(2 * mp.mpf(float(log_noise))) * mp.eye(_D)
        errors.append(_apart(form.whitened(mode), _exact(form.V) * mp.lu_solve(total, _column(_RESPONSES))))
    return max(errors)


# ---------------------------------------------------------------- densities


def inverse_wishart_density(condition: float) -> float:
    """Log density of an inverse-Wishart law, at and around matrices of this condition."""
    V, Psi = spectrum(condition), spectrum(condition, seed=1)
    found = float(pm.logp(InverseWishart.dist(nu=_NU, scale=Psi), V).eval())
    p, nu = mp.mpf(_D), mp.mpf(_NU)
    exact = nu / 2 * mp.log(mp.det(_exact(Psi))) - (nu + p + 1) / 2 * mp.log(mp.det(_exact(V)))
    trace = mp.fsum((_exact(Psi) * mp.inverse(_exact(V)))[i, i] for i in range(_D))
    exact -= trace / 2 + nu * p / 2 * mp.log(2) + _log_gamma(nu / 2)
    return float(abs((mp.mpf(found) - exact) / exact))


def _log_gamma(a: mp.mpf) -> mp.mpf:
    """Logarithm of the multivariate gamma function of order D."""
    return mp.mpf(_D * (_D - 1)) / 4 * mp.log(mp.pi) + mp.fsum(
        mp.loggamma(a - mp.mpf(j) / 2) for j in range(_D)
    )


def matrix_normal_density(condition: float) -> float:
    """Log density of a matrix-normal law with such covariances."""
    rowcov, colcov = spectrum(condition), spectrum(condition, size=3, seed=1)
    value = np.random.default_rng(12).standard_normal((_D, 3))
    found = float(pm.logp(MatrixNormal.dist(0.0, row_cov=rowcov, col_cov=colcov), value).eval())
    x, U, V = _exact(value), _exact(rowcov), _exact(colcov)
    square = mp.inverse(V) * x.T * mp.inverse(U) * x
    exact = -mp.fsum(square[i, i] for i in range(3)) / 2 - mp.mpf(3 * _D) / 2 * mp.log(2 * mp.pi)
    exact -= mp.mpf(3) / 2 * mp.log(mp.det(U)) + mp.mpf(_D) / 2 * mp.log(mp.det(V))
    return float(abs((mp.mpf(found) - exact) / exact))


UPDATES: dict[str, Callable[[float], float]] = {
    function.__name__: function
    for function in (
        wishart_draw, covariance_reported, matrix_normal_rows, niw_population, niw_precision, niw_coefficients,
        em_step, em_posterior_many_rows, em_posterior_few_rows, kernel_machine_weights, kernel_machine_evidence,
        gp_weights, function_evidence, weights_evidence, inducing_evidence, variational_evidence, inducing_mean,
        inverse_wishart_density, matrix_normal_density,
    )
}  # fmt: skip


def main() -> None:
    """Print the table."""
    print("| update | " + " | ".join(f"{c:.0e}" for c in CONDITIONS) + " |")
    print("|---" * (len(CONDITIONS) + 1) + "|")
    with mp.workdps(60):
        for function in UPDATES.values():
            found = [f"{function(c):.0e}" for c in CONDITIONS]
            print(f"| {function.__doc__.rstrip('.')} | " + " | ".join(found) + " |")  # type: ignore[union-attr]


if __name__ == "__main__":
    main()

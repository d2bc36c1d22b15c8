r"""EM step with the weights as coordinates: a q x q matrix per task.

With :math:`C = R R'` and :math:`M_t = I + R' X_t' X_t R / \sigma^2`, :math:`\mathrm{Cov}_t = R M_t^{-1} R'`, see
:mod:`zoo.inference.em.algorithm`.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.em.parts import LOG_2PI, Expectations, Penalty, Population, Rows, Step

__all__ = ["Weights"]


class Weights:
    """E-step by a q x q matrix per task; a batch of them holds at most ``chunk`` numbers."""

    def __init__(self, features: np.ndarray, rows: Rows, prior: Penalty, chunk: int):
        T, q = len(rows.counts), features.shape[1]
        self.prior, self.counts = prior, rows.counts
        depth = min(int(rows.sizes.max()), q)
        self.X, self.z, self.within = np.zeros((T, depth, q)), np.zeros((T, depth)), np.zeros(T)
        for some, scaled, y in rows.stacks(features, chunk):
            joint = np.concatenate([scaled, y[..., None]], axis=2)
            if y.shape[1] > q:
                # [X, y] = Q [R, z; 0, e], so ||y - X w||^2 = ||z - R w||^2 + e^2.
                joint = np.linalg.qr(joint, mode="r")
                self.within[some] = joint[:, q, q] ** 2
                joint = joint[:, :q]
            length = joint.shape[1]
            self.X[some, :length], self.z[some, :length] = joint[..., :-1], joint[..., -1]
        self.chunk = max(1, chunk // (q * q))

    def step(self, population: Population) -> Step:
        """One EM map."""
        mean, _, root, variance = population
        T, q = len(self.counts), len(mean)
        variances = np.broadcast_to(variance, T)
        whole, squares, coordinates = np.zeros((q, q)), np.empty(T), np.empty((q, T))
        log_likelihood = -0.5 * float(self.counts @ (LOG_2PI + np.log(variances)))
        for start in range(0, T, self.chunk):
            part = slice(start, start + self.chunk)
            s2 = variances[part]
            X, z = self.X[part], self.z[part]
            XR = X @ root
            M = XR.transpose(0, 2, 1) @ XR / s2[:, None, None]
            M[:, np.arange(q), np.arange(q)] += 1.0
            factor = _factors(M)
            inverse = np.linalg.inv(factor)
            right = np.einsum("tkq,tk->tq", XR, z - X @ mean) / s2[:, None]
            v = np.einsum("tpq,tp->tq", inverse, np.einsum("tpq,tq->tp", inverse, right))
            w = mean + v @ root.T
            residual = ((z - np.einsum("tkq,tq->tk", X, w)) ** 2).sum(axis=1) + self.within[part]
            flat = inverse.reshape(-1, q)
            whole += flat.T @ flat
            coordinates[:, part] = w.T
            squares[part] = residual + s2 * (q - np.einsum("tpq,tpq->t", inverse, inverse))
            diagonal = factor[:, np.arange(q), np.arange(q)]
            log_likelihood -= float(np.log(diagonal).sum() + 0.5 * ((residual / s2).sum() + (v**2).sum()))
        cov_sum = np.asfortranarray(root @ whole @ root.T)
        new = self.prior.maximise(population, Expectations(coordinates, cov_sum, squares, self.counts))
        return Step(new, log_likelihood, coordinates)


def _factors(squares: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors of a stack."""
    try:
        return np.linalg.cholesky(squares)
    except np.linalg.LinAlgError:
        raise FloatingPointError(
            "the posterior precision of a task is not positive definite in float64: a larger noise_floor or inputs of "
            "a similar scale help."
        ) from None

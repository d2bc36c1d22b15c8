r"""What the mode of a Gaussian-process model with ARD parameters minimises, block by block (srijith2014 eq 11).

A block holds the parameters :math:`\theta_t = (\kappa^t, \sigma_t^2, a_t)` of a task; with shared ARD parameters one
block holds :math:`(\kappa, \sigma_1^2 \dots \sigma_T^2, a_1 \dots a_T)`. Its smooth part is

.. math:: g_t = -\log N(y^t - H^t \beta; 0, A) + B \sigma_t^2 + r_a a_t

Curvature: the average information :math:`\tfrac12 y^\top A^{-1} V_i A^{-1} V_j A^{-1} y` with :math:`V_i = \partial A /
\partial \theta_i` (Gilmour, Thompson and Cullis 1995): where A is linear in the parameters, the mean of the Hessian and
of the Fisher information, and without a product of matrices. A linear kernel has the Hessian too: with :math:`P =
Z^\top A^{-1} Z` and :math:`q = Z^\top A^{-1} y`, the two are :math:`\tfrac12 q_i q_j P_{ij}` and :math:`q_i q_j P_{ij}
- \tfrac12 P_{ij}^2`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from zoo.inference.ard.correlation import CompiledCorrelation, Correlation, Parameters
from zoo.inference.ard.evidence import KERNELS, TaskInputs, evidence

__all__ = ["EvidenceObjective", "LinearEvidenceObjective", "matrix_evidence"]

_LOG_2PI = float(np.log(2.0 * np.pi))


def matrix_evidence(
    kernel: Correlation, inputs: TaskInputs, residual: np.ndarray, parameters: Parameters, constant: float
) -> tuple[np.ndarray, ...]:
    """As :func:`zoo.inference.ard.evidence.evidence`, from the matrices and slopes of any covariance function."""
    kappa, noise, amplitude = parameters
    mean, squares, sizes = inputs.means(residual)
    value, d_kappa = np.zeros(len(noise)), np.zeros(kappa.shape)
    d_noise, d_amplitude, pull = np.zeros(len(noise)), np.zeros(len(noise)), np.zeros(len(mean))
    for t in range(inputs.n_tasks):
        rows = inputs.rows(t)
        X, counts, y = inputs.X[rows], inputs.counts[rows], mean[rows]
        if not len(X):
            continue
        K = kernel.matrix(X, X, kappa[t])
        inverse, log_det = _inverse(amplitude[t] * K + constant + np.diag(noise[t] / counts))
        if inverse is None:
            value[t] = -np.inf
            continue
        alpha = inverse @ y
        left = sizes[t] - len(X)
        value[t] = -0.5 * (
            y @ alpha + log_det + np.log(counts).sum() + sizes[t] * _LOG_2PI
            + left * np.log(noise[t]) + squares[t] / noise[t]
        )  # fmt: skip
        G = 0.5 * (np.outer(alpha, alpha) - inverse)
        d_kappa[t] = amplitude[t] * kernel.pull(X, kappa[t], G)
        d_amplitude[t] = np.sum(G * K)
        d_noise[t] = (np.diag(G) / counts).sum() + 0.5 * (squares[t] / noise[t] - left) / noise[t]
        pull[rows] = -alpha
    task = np.repeat(np.arange(inputs.n_tasks), np.diff(inputs.starts))
    slot = inputs.slot
    d_residual = inputs.weight * (
        pull[slot] / inputs.counts[slot] - (residual - mean[slot]) / noise[task[slot]]
    )
    return value, d_kappa, d_noise, d_amplitude, d_residual


def _inverse(A: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Inverse and log determinant; (None, inf) where A is not positive definite in floating point."""
    factor, info = lapack.dpotrf(A, lower=True)
    if info != 0:
        return None, np.inf
    inverse, _ = lapack.dpotri(factor, lower=True)
    return np.tril(inverse) + np.tril(inverse, -1).T, 2.0 * float(np.log(np.diag(factor)).sum())


@dataclass
class EvidenceObjective:
    r"""The smooth part of eq (11), as :func:`zoo.inference.ard.proximal.minimise` takes it.

    Parameters
    ----------
    kernel : Correlation
    inputs : TaskInputs
    y : (N,) array
    B : float
        Rate of the exponential priors of the noise variances.
    constant : float
        Prior variance of a constant of each task, 0 for none.
    shared : bool
        One vector kappa for all tasks, in one block.
    amplitude_rate : float, optional
        Rate of the exponential priors of the amplitudes; None: they are 1.
    design : (N, P) array, optional
        Features of a mean that all tasks share, with coefficients N(0, 1).
    penalty : (D,) array and float, optional
        Norms :math:`h_i` over other tasks whose ARD parameters are known, and C: adds :math:`C \sum_i
        \sqrt{h_i^2 + \kappa_i^2}`, what the group norm becomes for one more task.
    known_kappa : (D,) array, optional
        ARD parameters of all tasks, which are then no part of the blocks.
    """

    kernel: Correlation
    inputs: TaskInputs
    y: np.ndarray
    B: float
    constant: float = 0.0
    shared: bool = False
    amplitude_rate: float | None = None
    design: np.ndarray | None = None
    penalty: tuple[np.ndarray, float] | None = None
    known_kappa: np.ndarray | None = None
    mean_coefficients: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.mean_coefficients = np.zeros(0 if self.design is None else self.design.shape[1])

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.inputs.X.shape[1])

    @property
    def n_kappa(self) -> int:
        """Number of ARD parameters in a block."""
        return self.n_features if self.known_kappa is None else 0

    @property
    def residual(self) -> np.ndarray:
        """Responses less the shared mean, (N,)."""
        return self.y if self.design is None else self.y - self.design @ self.mean_coefficients

    # ---------------------------------------------------------------- theta

    def pack(self, parameters: Parameters) -> np.ndarray:
        """Parameters as blocks."""
        kappa, noise, amplitude = parameters
        free = [noise] if self.amplitude_rate is None else [noise, amplitude]
        if self.shared:
            return np.concatenate([kappa[0], *free])[None]
        return np.column_stack([kappa[:, : self.n_kappa], *free])

    def unpack(self, theta: np.ndarray) -> Parameters:
        """Blocks as parameters of all tasks."""
        T, D = self.inputs.n_tasks, self.n_kappa
        if self.known_kappa is not None:
            kappa, rest = np.broadcast_to(self.known_kappa, (T, self.n_features)), theta.T
        elif self.shared:
            kappa = np.broadcast_to(theta[0, :D], (T, D))
            rest = theta[0, D:].reshape(-1, T)
        else:
            kappa, rest = theta[:, :D], theta[:, D:].T
        amplitude = np.ones(T) if self.amplitude_rate is None else rest[1]
        return Parameters(*(np.ascontiguousarray(v) for v in (kappa, rest[0], amplitude)))

    # ---------------------------------------------------------------- values

    def value(self, theta: np.ndarray) -> np.ndarray:
        """Smooth part of each block."""
        return self.gradient(theta)[0]

    def gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smooth part of each block, and its gradient."""
        parameters = self.unpack(theta)
        value, d_kappa, d_noise, d_amplitude, _ = self.evidence(parameters, self.residual)
        value = self.B * parameters.noise - value
        parts = Parameters(-d_kappa, self.B - d_noise, -d_amplitude)
        if self.amplitude_rate is not None:
            value = value + self.amplitude_rate * parameters.amplitude
            parts = parts._replace(amplitude=self.amplitude_rate - d_amplitude)
        # Independent of theta, so in no gradient, but a part of what `refresh` lowers.
        value = value + 0.5 * (self.mean_coefficients @ self.mean_coefficients) / len(value)
        if self.penalty is not None:
            norms, C = self.penalty
            root = np.sqrt(norms**2 + parameters.kappa**2)
            value = value + C * root.sum(axis=1)
            slope = np.divide(parameters.kappa, root, out=np.ones_like(root), where=root > 0)
            parts = parts._replace(kappa=parts.kappa + C * slope)
        if self.shared:
            summed = parts._replace(kappa=parts.kappa.sum(axis=0, keepdims=True))
            return value.sum(keepdims=True), self.pack(summed)
        return value, self.pack(parts)

    def evidence(self, parameters: Parameters, residual: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log marginal likelihoods and their derivatives, as :func:`zoo.inference.ard.evidence.evidence`."""
        if isinstance(self.kernel, CompiledCorrelation):
            # Of one layout: each other one would be compiled for seconds.
            rows = (np.ascontiguousarray(v) for v in (residual, *parameters))
            return tuple(evidence(KERNELS[self.kernel.name], *self.inputs, *rows, self.constant))
        return matrix_evidence(self.kernel, self.inputs, residual, parameters, self.constant)

    # ---------------------------------------------------------------- the shared mean

    def refresh(self, theta: np.ndarray) -> None:
        """Generalised least squares for the shared mean, where there is one."""
        if self.design is None:
            return
        parameters = self.unpack(theta)
        H = self.design
        solved = np.column_stack([-self.evidence(parameters, column)[4] for column in H.T.copy()])
        factor = cho_factor(np.eye(H.shape[1]) + H.T @ solved)
        self.mean_coefficients = cho_solve(factor, solved.T @ self.y)

    # ---------------------------------------------------------------- curvature

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Average information of each block, positive semi-definite."""
        return self._blocks(self._information(self.unpack(theta), False), theta)

    def _information(self, parameters: Parameters, observed: bool) -> np.ndarray:
        """Of each task, (T, D + 2, D + 2): kappa, noise, amplitude."""
        mean, squares, sizes = self.inputs.means(self.residual)
        left = sizes - np.diff(self.inputs.starts)
        if self.kernel.linear:
            information = _linear_information(
                self.inputs, mean, parameters.kappa, parameters.noise, self.constant, observed
            )
        else:
            information = np.stack(
                [
                    _average_information(self.kernel, self.inputs, mean, t, parameters, self.constant)
                    for t in range(self.inputs.n_tasks)
                ]
            )
        D = self.n_features
        replicates = 0.5 * squares / parameters.noise**3
        if observed:
            replicates = 2.0 * replicates - 0.5 * left / parameters.noise**2
        information[:, D, D] += replicates
        if self.penalty is not None:
            norms, C = self.penalty
            root = np.sqrt(norms**2 + parameters.kappa**2)
            bend = np.divide(C * norms**2, root**3, out=np.zeros_like(root), where=root > 0)
            information[:, range(D), range(D)] += bend
        return information

    def _blocks(self, information: np.ndarray, theta: np.ndarray) -> np.ndarray:
        T, D = len(information), self.n_features
        if not self.shared:
            first = D - self.n_kappa
            used = slice(first, first + theta.shape[1])
            return information[:, used, used]
        n_own = (theta.shape[1] - D) // T
        block = np.zeros((theta.shape[1],) * 2)
        block[:D, :D] = information[:, :D, :D].sum(axis=0)
        for k in range(n_own):
            own = D + k * T + np.arange(T)
            block[:D, own] = information[:, :D, D + k].T
            block[own, :D] = information[:, :D, D + k]
            for other in range(n_own):
                block[own, D + other * T + np.arange(T)] = information[:, D + k, D + other]
        return block[None]


@dataclass
class LinearEvidenceObjective(EvidenceObjective):
    """The same with the Hessian, which a linear kernel has in closed form."""

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Hessian of each block."""
        return self._blocks(self._information(self.unpack(theta), True), theta)


def _average_information(
    kernel: Correlation, inputs: TaskInputs, mean: np.ndarray, t: int, parameters: Parameters, constant: float
) -> np.ndarray:
    rows = inputs.rows(t)
    X, counts = inputs.X[rows], inputs.counts[rows]
    D = X.shape[1]
    if not len(X):
        return np.zeros((D + 2, D + 2))
    kappa, noise, amplitude = (v[t] for v in parameters)
    K = kernel.matrix(X, X, kappa)
    inverse, _ = _inverse(amplitude * K + constant + np.diag(noise / counts))
    if inverse is None:
        return np.eye(D + 2)
    alpha = inverse @ mean[rows]
    working = np.vstack([amplitude * (kernel.slopes(X, kappa) @ alpha), alpha / counts, K @ alpha])
    return np.asarray(0.5 * working @ inverse @ working.T)


def _linear_information(
    inputs: TaskInputs,
    mean: np.ndarray,
    kappa: np.ndarray,
    noise: np.ndarray,
    constant: float,
    observed: bool,
) -> np.ndarray:
    r"""Average information or Hessian of a linear kernel, of all tasks at once.

    From :math:`A^{-1} Z = Z (I - W P) / \sigma^2`: :math:`Z^\top A^{-2} Z = P (I - W P) / \sigma^2`, and the like for
    vectors and traces. Amplitudes are 1: the last row and column are 0.
    """
    T, D = kappa.shape
    gram, variance = inputs.gram, noise[:, None]
    task = np.repeat(np.arange(T), np.diff(inputs.starts))
    weighted = inputs.counts * mean
    b = np.zeros((T, D + 1))
    np.add.at(b, task, np.column_stack([inputs.X, np.ones(len(mean))]) * weighted[:, None])
    yy = np.bincount(task, weights=weighted * mean, minlength=T)
    weights = np.column_stack([kappa, np.full(T, constant)])
    root = np.sqrt(weights)
    M = root[:, :, None] * gram * root[:, None, :] + variance[..., None] * np.eye(D + 1)
    solved = np.linalg.solve(M, root[:, :, None] * np.concatenate([gram, b[..., None]], axis=2))
    explained = (root[:, :, None] * gram).transpose(0, 2, 1) @ solved
    P = (gram - explained[..., :-1]) / variance[..., None]
    q = (b - explained[..., -1]) / variance
    g = root * solved[..., -1]
    Wq = weights * q
    P2 = (P - P @ (weights[..., None] * P)) / variance[..., None]
    trace = (np.diff(inputs.starts) - np.einsum("ti,tii->t", weights, P)) / noise
    trace2 = (trace - np.einsum("ti,tii->t", weights, P2)) / noise
    q2 = (q - np.einsum("tij,tj->ti", P, Wq)) / variance
    squares = (yy - 2.0 * np.sum(g * b, axis=1) + np.einsum("ti,tij,tj->t", g, gram, g)) / noise**2
    cubes = (squares - np.sum(Wq * q2, axis=1)) / noise
    information = np.zeros((T, D + 2, D + 2))
    own = slice(0, D)
    information[:, own, own] = (0.5 * q[:, :, None] * q[:, None, :] * P)[:, own, own]
    information[:, own, D] = information[:, D, own] = (0.5 * q * q2)[:, own]
    information[:, D, D] = 0.5 * cubes
    if observed:  # twice that, less the Fisher information
        information *= 2.0
        information[:, own, own] -= 0.5 * P[:, own, own] ** 2
        information[:, own, D] -= 0.5 * np.einsum("tii->ti", P2)[:, own]
        information[:, D, own] = information[:, own, D]
        information[:, D, D] -= 0.5 * trace2
    return information

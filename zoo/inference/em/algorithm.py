r"""Penalised maximum likelihood of a normal population of linear models, by EM.

The model of Yu, Tresp and Schwaighofer (2005): row i of task t has inputs :math:`x_i` and

.. math::

    y_i = x_i' w_t + e_i, \quad e_i \sim N(0, \sigma^2), \quad w_t \sim N(\mu, C),

and EM climbs the log-likelihood with the penalty of their normal-inverse-Wishart prior (4),

.. math::

    \sum_t \log N(y_t \mid X_t \mu, X_t C X_t' + \sigma^2 I) - \tfrac{\pi}{2} \mu' C^{-1} \mu
    - \tfrac{\tau}{2} \log |C| - \tfrac12 \mathrm{tr}(\Psi C^{-1}) \; [- (a + 1) \log \sigma^2 - b / \sigma^2].

Their E-step is (5)-(6), the M-step (7)-(9) with the trace of (9) inside the sum over tasks. Models 2 and 3 are this
one in features whose inner products are the base kernel (theorems 5.1 and 5.2), so (12)-(16) need no code.

Three facts keep it fast and safe.

- Theorem 5.3: directions of w that no row sees stay at :math:`\mu = 0, C = \Psi / \tau`, uncorrelated with the rest.
  So all is computed in the span of the inputs that have rows, of dimension q, and a singular kernel is no special case.
- In weights: with :math:`C = R R'` and :math:`M_t = I + R' X_t' X_t R / \sigma^2`,
  :math:`\mathrm{Cov}_t = R M_t^{-1} R'`, so :math:`\sum_t \mathrm{Cov}_t = R (\sum_t M_t^{-1}) R'`; the quadratic form
  of y is a sum of squares at the mode. Tasks enter through the triangular factor of :math:`[X_t, y_t]`, so no sum
  of squares is a difference.
- In functions: with K the covariance at the inputs and :math:`B = \sum_t E_t (K_{tt} + \sigma^2 I)^{-1} E_t'`, where
  :math:`E_t` places a task's rows, :math:`\sum_t \mathrm{Cov}_t = T K - K B K`: two
  large products per step, not one per task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from zoo.inference.acceleration import Evaluation, climb
from zoo.inference.em.conditional import conditional_covariances, conditional_draws, conditional_means
from zoo.inference.em.functions import Functions
from zoo.inference.em.learned_scales import LearnedScales
from zoo.inference.em.parts import (
    SMALL_ORDER,
    NoisePenalty,
    Penalty,
    Population,
    Rows,
    make_population,
    sort_rows,
)
from zoo.inference.em.span import LogCholesky, Span, merge_equal
from zoo.inference.em.weights import Weights

__all__ = [
    "EMResult",
    "conditional_covariances",
    "conditional_draws",
    "conditional_means",
    "expectation_maximisation",
]

_CHUNK = 2**22  # numbers in one batch of task matrices: 32 MB
_MOST_INPUTS = 6000  # in function space unless forced: it holds about seven matrices of this size


@dataclass(frozen=True)
class EMResult:
    """Where EM stopped, and how it went there.

    Attributes
    ----------
    mean, cov : (r,), (r, r)
        Of the population of coefficients.
    noise : () or (T,)
        Standard deviation(s).
    coefficients : (r, T)
        Posterior means, at these parameters.
    log_likelihood, penalised_log_likelihood : (I,)
        One entry per kept EM map evaluation, the start first. The second never decreases.
    accelerated : (I,) of bool
        Whether the parameters of this entry came from an extrapolation.
    n_maps : int
        EM maps evaluated, refused extrapolations included.
    residual : float
        Largest relative change that one more EM step would make.
    converged : bool
        ``residual`` is below ``tol``.
    interrupted : bool
        Ctrl-C ended it.
    space : {"weights", "functions"}
        Where it was computed.
    """

    mean: np.ndarray
    cov: np.ndarray
    noise: np.ndarray
    coefficients: np.ndarray
    log_likelihood: np.ndarray
    penalised_log_likelihood: np.ndarray
    accelerated: np.ndarray
    n_maps: int
    residual: float
    converged: bool
    interrupted: bool
    space: str


def expectation_maximisation(
    inputs: np.ndarray,
    row: np.ndarray,
    task: np.ndarray,
    y: np.ndarray,
    n_tasks: int,
    *,
    pi: float,
    tau: float,
    scale: np.ndarray | None = None,
    learned: tuple[float, float] | None = None,
    noise_prior: tuple[float, float] | None = None,
    noise_by_task: bool = False,
    weight: np.ndarray | None = None,
    noise_floor: float = 0.0,
    start: tuple[np.ndarray, np.ndarray, np.ndarray | float] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-8,
    min_gain: float = 1e-3,
    accelerate: bool = True,
    space: Literal["weights", "functions"] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> EMResult:
    """Maximise the penalised likelihood.

    Parameters
    ----------
    inputs : (n, r)
        Features of the distinct inputs.
    row, task, y : (N,)
        Number of a row's input, number of its task, response. A task may lack rows, and may repeat an input.
    n_tasks : int
    pi : float
        Not negative. Weight of the zero prior mean, in tasks.
    tau : float
        Positive. Weight of the prior covariance, in tasks.
    scale : (r, r), optional
        ``Psi``, positive definite; ``tau`` times I when left out.
    learned : (m, s), optional
        The penalty of :mod:`zoo.inference.em.learned_scales`, with ``tau`` for its nu; ``pi`` and ``scale`` are then
        left out.
    noise_prior : (a, b), optional
        Inverse-gamma law of the noise variance; flat when left out.
    noise_by_task : bool
        One noise per task.
    weight : (N,), optional
        Weights of the rows, above 0: the log density of a row counts so many times.
    noise_floor : float
        Smallest noise standard deviation. The M-step for the variance is then the larger of (9) and the floor squared,
        which is still the maximum, as its objective has one peak: the climb stays monotone.
    start : (mean, cov, noise), optional
        Otherwise mean 0, covariance ``scale / tau`` and half the mean square of y as noise variance. What the rows do
        not see of a start is set to its maximum at once.
    max_iter : int
        Largest number of EM maps. The last one measures ``residual``, so one map leaves the parameters at the start.
    tol : float
        Stop where one more EM step would change the mean by less than this (in standard deviations of ``cov``), the
        covariance (relative, Frobenius) and the log variance.
    min_gain : float
        Stop also where 20 kept maps have raised the penalised log-likelihood by less than this. Where the noise goes
        to zero, EM's steps shrink as 1/k, and ``tol`` is out of reach. Zero switches it off.
    accelerate : bool
        Extrapolate, see :mod:`zoo.inference.acceleration`. The climb stays monotone.
    space : {"weights", "functions"}, optional
        The cheaper one when left out.
    progress : callable, optional
        Called with the number of EM maps and the penalised log-likelihood.

    Returns
    -------
    EMResult

    Raises
    ------
    ValueError
        An argument is wrong.
    FloatingPointError
        A matrix is not positive definite in float64, or the noise fell to zero.
    """
    inputs = np.asarray(inputs, dtype=np.float64)
    row, task, y = np.asarray(row), np.asarray(task), np.asarray(y, dtype=np.float64)
    _check_rows(inputs, row, task, y, n_tasks)
    _check_penalty(inputs.shape[1], pi, tau, scale, noise_prior, noise_floor)
    if space not in (None, "weights", "functions"):
        raise ValueError(f"space is {space!r}; it is 'weights', 'functions' or None")
    used, row = np.unique(row, return_inverse=True)  # theorem 5.3
    distinct, number = merge_equal(inputs[used])
    rows = sort_rows(number[row], task, y, n_tasks, weight)
    span = Span(distinct, tau, scale)
    if learned is not None and span.q < span.r:
        raise ValueError(
            "EM learns a scale of every feature, and the rows do not tell all features apart. Use method='gibbs', "
            "or leave a feature out of the data."
        )
    space = space or ("weights" if learned is not None else _cheaper(rows, span))
    span.as_functions = space == "functions" and span.invertible
    noise_law = NoisePenalty(noise_prior, noise_floor)
    prior: Penalty = span.prior(pi, noise_law)
    if learned is not None:
        prior = LearnedScales(span.V, tau, *learned, noise_law)
    engine: Weights | Functions
    if space == "weights":
        engine = Weights(span.features, rows, prior, _CHUNK)
    else:
        features = None if span.as_functions else span.features
        engine = Functions(features, len(distinct), rows, prior, noise_by_task)

    def evaluate(population: Population) -> Evaluation:
        step = engine.step(population)
        objective = step.log_likelihood + prior.value(population)
        if not np.isfinite(objective):
            raise FloatingPointError(
                "the penalised log-likelihood is not finite in float64: scale inputs and y."
            )
        change = _change(population, step.population)
        return Evaluation(objective, step.population, change, step.log_likelihood, step.coordinates)

    vectors = LogCholesky(span.q, prior, rows.counts, noise_by_task)
    mean, cov, noise = _check_start(start, inputs.shape[1], n_tasks, noise_by_task) or _default_start(
        inputs.shape[1], tau, scale, y, weight, n_tasks if noise_by_task else None
    )
    variance = np.maximum(noise, noise_floor) ** 2
    order = span.q if space == "weights" else len(distinct)
    with threadpool_limits(1 if order <= SMALL_ORDER else None):
        end = climb(
            evaluate,
            make_population(*span.enter(mean, cov), variance),
            pack=vectors.pack,
            unpack=vectors.unpack,
            metric=vectors.metric,
            tol=tol,
            min_gain=min_gain,
            max_iter=max_iter,
            accelerate=accelerate,
            progress=progress,
        )
    mean, cov, coefficients = span.leave(end.point.mean, end.point.cov, end.last.extra)
    return EMResult(
        mean=mean,
        cov=cov,
        noise=np.sqrt(end.point.variance),
        coefficients=coefficients,
        log_likelihood=np.array(end.notes),
        penalised_log_likelihood=np.array(end.objectives),
        accelerated=np.array(end.accelerated),
        n_maps=end.n_maps,
        residual=end.last.change,
        converged=end.converged,
        interrupted=end.interrupted,
        space=space,
    )


def _check_rows(inputs: np.ndarray, row: np.ndarray, task: np.ndarray, y: np.ndarray, n_tasks: int) -> None:
    if inputs.ndim != 2 or 0 in inputs.shape or not np.isfinite(inputs).all():
        raise ValueError(f"inputs is a finite matrix with rows and columns, not of shape {inputs.shape}")
    if not (row.shape == task.shape == y.shape == (y.size,)) or y.size == 0 or not np.isfinite(y).all():
        raise ValueError("row, task and y are vectors of one length, not empty, and y is finite")
    for name, values, bound in (("row", row, len(inputs)), ("task", task, n_tasks)):
        if not np.issubdtype(values.dtype, np.integer) or values.min() < 0 or values.max() >= bound:
            raise ValueError(f"{name} holds whole numbers from 0 to {bound - 1}")


def _check_penalty(
    r: int, pi: float, tau: float, scale: np.ndarray | None, noise_prior, noise_floor: float
) -> None:
    if not (0.0 <= pi < np.inf and 0.0 < tau < np.inf and 0.0 <= noise_floor < np.inf):
        raise ValueError(
            f"pi = {pi} and noise_floor = {noise_floor} are not negative, tau = {tau} is positive"
        )
    if scale is not None:
        _check_positive_definite(scale, r, "scale")
    if noise_prior is not None and not (len(noise_prior) == 2 and min(noise_prior) >= 0.0):
        raise ValueError(f"noise_prior is a pair of numbers (a, b), not negative; it is {noise_prior}")


def _check_positive_definite(square: np.ndarray, r: int, name: str) -> None:
    square = np.asarray(square)
    if (
        square.shape != (r, r)
        or not np.allclose(square, square.T, rtol=1e-8, atol=0.0)
        or (lapack.dpotrf(square, lower=1)[1] != 0)
    ):
        raise ValueError(f"{name} is a symmetric positive definite matrix of shape {(r, r)}")


def _check_start(
    start, r: int, n_tasks: int, by_task: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    if start is None:
        return None
    mean, cov, noise = (np.asarray(part, dtype=np.float64) for part in start)
    _check_positive_definite(cov, r, "the covariance of start")
    if mean.shape != (r,) or not np.isfinite(mean).all():
        raise ValueError(f"the mean of start is a finite vector of length {r}")
    if (
        noise.shape not in ((), (n_tasks,) if by_task else ())
        or not (noise > 0.0).all()
        or not np.isfinite(noise).all()
    ):
        raise ValueError(
            "the noise of start is a positive standard deviation, or one per task with noise_by_task"
        )
    return mean, cov, np.broadcast_to(noise, n_tasks) if by_task else noise


def _default_start(
    r: int,
    tau: float,
    scale: np.ndarray | None,
    y: np.ndarray,
    weight: np.ndarray | None,
    n_noises: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    noise = np.sqrt(0.5 * np.average(y**2, weights=weight)) or 1.0
    cov = np.eye(r) if scale is None else np.asarray(scale) / tau
    return np.zeros(r), cov, np.asarray(noise) if n_noises is None else np.full(n_noises, noise)


def _cheaper(rows: Rows, span: Span) -> Literal["weights", "functions"]:
    """By floating-point operations of a step."""
    n, q = span.features.shape
    depth = min(int(rows.sizes.max()), q)
    weights = len(rows.counts) * (4.0 * depth * q**2 + 4.5 * q**3)
    shared = 3.4 * n**3 if span.invertible else 3.0 * n**2 * q + 3.0 * n * q**2 + n**3 / 3.0
    functions = shared + (np.minimum(rows.sizes, n).astype(float) ** 3).sum()
    return "functions" if functions < weights and n <= _MOST_INPUTS else "weights"


def _change(old: Population, new: Population) -> float:
    """Largest relative change of mean, covariance and noise."""
    return max(
        float(np.max(np.abs(new.mean - old.mean) / np.sqrt(np.diag(old.cov)))),
        float(np.linalg.norm(new.cov - old.cov) / np.linalg.norm(old.cov)),
        float(np.max(np.abs(np.log(new.variance / old.variance)))),
    )

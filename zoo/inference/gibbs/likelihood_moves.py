r"""Moves under the likelihood itself, for labels of which one is rare.

Augmentation crawls there. Given its Pólya-Gamma variable each row has the precision
:math:`E w = \tanh(f / 2) / (2 f)`, where the likelihood has only :math:`p (1 - p)`. With a share p of positive labels
one sweep then has the autocorrelation :math:`1 - 2 p \log(1 / p)` in every direction that the rows tell of. The moves
here see the likelihood without auxiliary variables.

**Why they keep the posterior.** They come after the parameters of the likelihood are drawn and before the auxiliary
variables are, and each leaves the posterior of coefficients, population and parameters unchanged, in which the
auxiliary variables are integrated out. These are then drawn given all the rest. So the two together are a draw of
both (a partially collapsed sampler, van Dyk & Park 2008), as long as nothing before the draw of the auxiliary variables
looks at older ones.

**One step.** Let a vector b of size D have the prior :math:`N(m, (k Q)^{-1})`, and rows
:math:`f_n = o_n + x_n' b`. Newton's method, from a start that does not depend on b, has some steps towards the mode
of :math:`\log p(y \mid f) - \tfrac k2 (b - m)' Q (b - m)`. With the point :math:`\hat b` where it ends, and the
curvature A before its last step, :math:`b^\star` is drawn from the t law of 8 degrees of freedom with
location :math:`\hat b` and scale matrix :math:`A^{-1}`, and taken with probability
:math:`\min(1, r)` (Metropolis & Hastings):

.. math::

    \log r = \log \frac{p(y \mid b^\star)}{p(y \mid b)}
    - \tfrac k2 \left( |b^\star - m|_Q^2 - |b - m|_Q^2 \right)
    + \tfrac{8 + D}{2} \log \frac{1 + |b^\star - \hat b|_A^2 / 8}{1 + |b - \hat b|_A^2 / 8} .

The proposal is the same wherever b is now, so that neither the steps need to converge nor the curvature to be exact:
that costs acceptance alone.

**The coefficients of a task.** Given the population, b is :math:`w_t`, with :math:`m = \mu` and :math:`k Q = C^{-1}`.
In a matrix-normal hierarchy with the precisions P of tasks and O of features it is
:math:`h_t` given all other tasks, with :math:`k = P_{tt}`, :math:`Q = O` and
:math:`m = -\sum_{s \ne t} P_{ts} h_s / P_{tt}`.

**All tasks together.** Few rare labels in each task say little of it, and together they say much of all. So all
tasks also move by one vector.

- Normal-inverse-Wishart: given C and all :math:`z_t = w_t - \mu`, b is :math:`\mu`, with :math:`m = 0`, :math:`k =
  \pi` and :math:`Q = C^{-1}`, or with the precision of a prior of its own. Rows have :math:`f_n = x_n' (z_t + b)`.
- Matrix normal: let :math:`b = H' P 1 / (1' P 1)`, and :math:`Z = H - 1 b'`. Since :math:`1' P Z = 0`,
  :math:`tr(P H O H') = tr(P Z O Z') + (1' P 1)\, b' O b`. So b and Z are independent a priori given the precisions, and
  b has :math:`m = 0`, :math:`k = 1' P 1`, :math:`Q = O`. Rows have :math:`f_n = o_n + x_n' (z_t + b)`.

The start of the first kind is m, that of the second one the mode for tasks that are all alike, which is found once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from zoo.inference.augmentation import Augmentation, Parameters
from zoo.inference.compiled import njit
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.t_proposal import draw_from_t, log_proposal
from zoo.inference.gibbs.task_precision import total
from zoo.inference.gibbs.task_rows import Rows, function_values
from zoo.inference.gibbs.triangular import factorise, solve_lower, solve_transposed

__all__ = ["Block", "LikelihoodMoves", "mode_of_block", "moves_pay"]

# Steps of Newton's method, and how far one may move the function value of a row: the curvature of labels changes
# over such distances.
STEPS = 5
FAR = 3.0
# A step that moves no row by more than this is the last one.
CLOSE = 0.3
_FIRST_STEPS = 50
# Rows that are summed at a time.
_ROWS = 128


class Block(NamedTuple):
    """Rows of groups, each with a vector of its own, for compiled functions; and work space.

    ``inputs``, ``row``, ``starts`` and ``offset`` are those of :class:`~zoo.inference.gibbs.task_rows.Rows`,
    groups in the place of tasks. ``point`` (G, D) and ``factor`` (G, D, D): where Newton's method is, and the
    lower factor of the curvature. ``f``, ``slope``, ``curvature`` (N,): there, or at the proposal.
    """

    inputs: np.ndarray
    row: np.ndarray
    starts: np.ndarray
    offset: np.ndarray
    point: np.ndarray
    factor: np.ndarray
    f: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> Block:
        """With work space."""
        G, D, N = len(rows.starts) - 1, rows.inputs.shape[1], len(rows.row)
        space = (np.empty((G, D)), np.empty((G, D, D)), np.empty(N), np.empty(N), np.empty(N))
        return cls(*rows, *space)


class Prior(NamedTuple):
    """Normal laws of the vectors of groups: ``mean`` (G, D), and precisions ``scale`` (G,) times ``matrix`` (D, D)."""

    mean: np.ndarray
    scale: np.ndarray
    matrix: np.ndarray


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(a, b):
    """By vector instructions, which need leave to change the order of the sum."""
    total = 0.0
    for n in range(len(a)):
        total += a[n] * b[n]
    return total


@njit(cache=True, nogil=True)
def _add_rows(block, a, b, step, A, space):
    """Add gradient and curvature of the rows ``a:b`` to ``step`` (D,) and the lower triangle of ``A`` (D, D)."""
    D = len(step)
    for first in range(a, b, _ROWS):
        stop = min(b, first + _ROWS)
        m = stop - first
        for n in range(m):
            x = block.inputs[block.row[first + n]]
            for d in range(D):
                space[d, n] = x[d]
        slope, curvature, weighted = block.slope[first:stop], block.curvature[first:stop], space[D, :m]
        for i in range(D):
            column = space[i, :m]
            step[i] += _dot(column, slope)
            for n in range(m):
                weighted[n] = column[n] * curvature[n]
            for j in range(i + 1):
                A[i, j] += _dot(weighted, space[j, :m])


@njit(cache=True, nogil=True)
def _newton(block, prior, first, last):
    """A step from where slope and curvature are those of ``f``; how far it moves the function value of any row.

    A step beyond ``FAR`` is shortened. ``f`` is not changed.
    """
    D = block.point.shape[1]
    farthest = 0.0
    space = np.empty((D + 1, _ROWS))
    for g in range(first, last):
        a, b = block.starts[g], block.starts[g + 1]
        point = block.point[g]
        step = prior.scale[g] * (prior.matrix @ (prior.mean[g] - point))
        factor = block.factor[g]
        factor[:] = prior.scale[g] * prior.matrix
        _add_rows(block, a, b, step, factor, space)
        factorise(factor)
        solve_lower(factor, step)
        solve_transposed(factor, step)
        far = 0.0
        for n in range(a, b):
            far = max(far, abs(_dot(block.inputs[block.row[n]], step)))
        point += step * min(1.0, FAR / max(far, 1e-300))
        farthest = max(farthest, far)
    return farthest


@njit(cache=True, nogil=True)
def _log_prior(prior, g, b):
    apart = b - prior.mean[g]
    return -0.5 * prior.scale[g] * (apart @ (prior.matrix @ apart))


@njit(cache=True, nogil=True)
def _propose(rng, block, prior, now, first, last, ratio):
    """Replace ``point`` by proposals; fill ``ratio``, the log ratio without the likelihood; ``now`` (G, D)."""
    for g in range(first, last):
        factor, point = block.factor[g], block.point[g]
        step = draw_from_t(rng, factor)
        ratio[g - first] = log_proposal(factor, now[g] - point) - log_proposal(factor, step)
        point += step
        ratio[g - first] += _log_prior(prior, g, point) - _log_prior(prior, g, now[g])


@njit(cache=True, nogil=True)
def _accept(rng, block, now, f, first, last, ratio):
    """Take proposals into ``now`` and ``f``; how many."""
    taken = 0
    for g in range(first, last):
        if ratio[g - first] > -rng.standard_exponential():
            now[g] = block.point[g]
            a, b = block.starts[g], block.starts[g + 1]
            f[a:b] = block.f[a:b]
            taken += 1
    return taken


@njit(cache=True, nogil=True)
def _mean_given_others(H, P, t, mean):
    """Of task t in the matrix-normal hierarchy."""
    mean[:] = 0.0
    for s in range(len(P)):
        if s != t:
            mean -= P[t, s] / P[t, t] * H[s]


@njit(cache=True, nogil=True)
def _leave_out(block, vector, f, offset):
    """Function values without ``x'vector``."""
    for n in range(len(f)):
        x = block.inputs[block.row[n]]
        total = f[n]
        for d in range(len(vector)):
            total -= x[d] * vector[d]
        offset[n] = total


class Likelihood(NamedTuple):
    """Responses with compiled functions of :class:`~zoo.inference.augmentation.Augmentation`."""

    augmentation: Augmentation
    y: np.ndarray
    weight: np.ndarray
    task: np.ndarray
    parameters: Parameters

    def rows(self, first: int, stop: int) -> Likelihood:
        """Of the rows ``first:stop`` alone."""
        part = slice(first, stop)
        return self._replace(y=self.y[part], weight=self.weight[part], task=self.task[part])

    def slopes(self, f: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> None:
        """Fill slope and curvature of the log density."""
        assert self.augmentation.slopes is not None
        self.augmentation.slopes(f, self.y, self.weight, self.task, self.parameters, slope, curvature)

    def log_density(self, f: np.ndarray, groups: int) -> np.ndarray:
        """Sums over the rows of tasks, or of all rows where ``groups`` is 1."""
        assert self.augmentation.log_density is not None
        total = np.empty(groups)
        self.augmentation.log_density(f, self.y, self.weight, self.task, self.parameters, total)
        return total


def mode_of_block(
    likelihood: Likelihood, block: Block, prior: Prior, first: int, last: int, steps: int = STEPS
) -> None:
    """Newton's steps from ``block.point``, of the groups ``first`` to ``last``; ``likelihood`` is of their rows.

    Leaves where it ended in ``block.point``, and the curvature before the last step in ``block.factor``.
    """
    part = slice(block.starts[first], block.starts[last])
    f, slope, curvature = block.f[part], block.slope[part], block.curvature[part]
    for _ in range(steps):
        function_values(block, block.point, first, last, block.f)
        likelihood.slopes(f, slope, curvature)
        if _newton(block, prior, first, last) < CLOSE:
            break


def moves_pay(augmentation: Augmentation, wanted: bool | None, y: np.ndarray, weight: np.ndarray) -> bool:
    """Whether a chain takes the moves: as ``wanted`` says, and by default where the augmentation crawls."""
    if augmentation.slopes is None or augmentation.log_density is None or wanted is False:
        return False
    return bool(wanted) or (augmentation.crawls is not None and augmentation.crawls(y, weight))


class LikelihoodMoves:
    """The moves of one chain.

    Parameters
    ----------
    augmentation : Augmentation
        With ``slopes`` and ``log_density``.
    parameters : named tuple of arrays
        The current parameters of the likelihood, which the chain changes in place.
    rows : Rows
    y, weight, task : (N,)
        Responses, weights and tasks of the rows.
    """

    def __init__(
        self,
        augmentation: Augmentation,
        parameters: Parameters,
        rows: Rows,
        y: np.ndarray,
        weight: np.ndarray,
        task: np.ndarray,
    ):
        self.likelihood = Likelihood(augmentation, y, weight, task, parameters)
        self.tasks = Block.of(rows)
        everything = np.array([0, len(rows.row)])
        self.all = Block.of(rows._replace(starts=everything, offset=np.array(rows.offset)))
        self.by_task = [self.likelihood.rows(a, b) for a, b in pairwise(rows.starts)]
        T, D = self.tasks.point.shape
        self.space = Prior(np.zeros((T, D)), np.ones(T), np.eye(D))
        self.start = self._first = self._start()

    def _start(self) -> np.ndarray:
        """The mode where tasks are all alike, under a prior of one observation."""
        D = self.all.point.shape[1]
        self.all.point[:] = 0.0
        prior = Prior(np.zeros((1, D)), np.ones(1), np.eye(D))
        mode_of_block(self.likelihood, self.all, prior, 0, 1, _FIRST_STEPS)
        return self.all.point.copy()

    def rescale(self, scales: np.ndarray) -> None:
        """Follow inputs that are those of the beginning, multiplied by ``scales`` (D,)."""
        self.start = self._first / scales

    def _step(
        self,
        rng: np.random.Generator,
        likelihood: Likelihood,
        block: Block,
        prior: Prior,
        now: np.ndarray,
        f: np.ndarray,
        first: int,
        last: int,
    ) -> int:
        """One step for each of the groups ``first`` to ``last``, from the start in ``block.point``; how many moved."""
        part, groups = slice(block.starts[first], block.starts[last]), last - first
        mode_of_block(likelihood, block, prior, first, last)
        ratio = np.empty(groups)
        _propose(rng, block, prior, now, first, last, ratio)
        function_values(block, block.point, first, last, block.f)
        ratio += likelihood.log_density(block.f[part], groups) - likelihood.log_density(f[part], groups)
        return int(_accept(rng, block, now, f, first, last, ratio))

    def together(
        self,
        rng: np.random.Generator,
        W: np.ndarray,
        shared: np.ndarray,
        scale: float,
        Q: np.ndarray,
        f: np.ndarray,
    ) -> np.ndarray:
        """Move all coefficients W (T, D) and ``f`` (N,) in place; how far (D,).

        ``shared`` (D,) is b, of prior precision ``scale * Q``.
        """
        _leave_out(self.all, shared, f, self.all.offset)
        prior = Prior(np.zeros((1, len(shared))), np.full(1, scale), Q)
        now = shared[None].copy()
        self.all.point[:] = self.start
        self._step(rng, self.likelihood, self.all, prior, now, f, 0, 1)
        moved: np.ndarray = now[0] - shared
        W += moved
        return moved

    def population(
        self,
        rng: np.random.Generator,
        W: np.ndarray,
        mu: np.ndarray,
        P: np.ndarray,
        law: MeanLaw,
        f: np.ndarray,
    ) -> None:
        """Both moves of a normal-inverse-Wishart hierarchy, W (T, D), mu (D,) and f (N,) in place; P is C^-1."""
        mu += self.together(rng, W, mu, 1.0, law.precision(P), f)
        prior = self.space._replace(matrix=P)
        prior.mean[:] = mu
        self.tasks.point[:] = mu
        self._step(rng, self.likelihood, self.tasks, prior, W, f, 0, len(W))

    def matrix_normal(
        self, rng: np.random.Generator, H: np.ndarray, P: np.ndarray, O: np.ndarray, f: np.ndarray
    ) -> None:
        """Both moves of a matrix-normal hierarchy, H (T, D) and f (N,) in place."""
        pull = total(P, len(H))
        self.together(rng, H, pull @ H / pull.sum(), float(pull.sum()), O, f)
        prior = self.space._replace(matrix=O, scale=np.diag(P).copy() if P.size else pull)
        for t, likelihood in enumerate(self.by_task):
            _mean_given_others(H, P, t, prior.mean[t])
            self.tasks.point[t] = prior.mean[t]
            self._step(rng, likelihood, self.tasks, prior, H, f, t, t + 1)

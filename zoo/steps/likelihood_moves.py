r"""Moves of a block under the likelihood itself, without auxiliary variables.

An augmentation crawls where its variables hold more information than the responses, as with rare labels, and its draws
cost most of a sweep. The moves here propose from a normal law that looks like the posterior and are corrected by
Metropolis and Hastings, so that they see the likelihood alone.

**The surrogate.** While the chain tunes, the log density :math:`\ell_n` of each observed row is replaced by a parabola
:math:`-\bar w_n e^2 / 2 + \bar v_n e` in its predictor e. Its slope is the straight line that fits :math:`\ell_n'(e)`
best over the draws so far, by least squares, but a tenth less steep: a proposal with lighter tails than the posterior
would hold the chain where it is far out. At the mean of these draws line and slope agree, so that the surrogate's
posterior has the mean of the draws. After tuning the parabolas stay as they are. Of normal rows they are the log
density itself, whatever the noise is now.

**One move.** A part P of the block is drawn given the rest, from the normal law that is proportional to its prior
times the parabolas. The prior is that of this sweep, and it cancels: with the rows n that read a component of P,

.. math:: \log r = \sum_n \bigl( \rho_n(e_n^\star) - \rho_n(e_n) \bigr) , \qquad
          \rho_n(e) = \ell_n(e) + \tfrac12 \bar w_n e^2 - \bar v_n e ,

and a component is taken with probability :math:`\min(1, r)`. Components are the columns that no row connects given the
rest, such as the coefficients of one group: each is accepted on its own. The proposal does not depend on where P is
now. Variables of the block that no observed row reads, as the means of populations, have no such rows and are drawn
from their law.

The posterior is kept as long as the parabolas do not follow the chain: they are fixed before the first draw that
counts. A sweep with auxiliary variables comes between, once in some, which moves all parts together and a component
that is far out in a tail of its surrogate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zoo.inference.compiled import njit
from zoo.steps.block_normal import add_products
from zoo.steps.likelihood_parts import Part, find_parts
from zoo.steps.state import State
from zoo.steps.term_rows import TermRows

__all__ = ["LEAST_ACCEPTANCE", "LikelihoodMoves"]

LEAST_ACCEPTANCE = 0.2
"""Share of accepted proposals, below which a part is left to the sweeps with auxiliary variables."""

# One sweep in so many has auxiliary variables.
_PERIOD = 10
# The same where parts are moved one by one, and the sweep moves them against each other.
_PERIOD_OF_PARTS = 2
# Passes over the parts in each other sweep: NUTS of the other variables costs as much as two of them.
_PASSES = 2
# Shares of tuning: where draws are first looked at, and where parabolas are fitted.
_LOOK, _FITS = 0.05, (0.15, 0.6)
# How much flatter parabolas are than the lines: chains stay long where a proposal has lighter tails than the posterior.
_WIDER = 1.1
# Of sweeps that a fit rests on.
_FEWEST = 20


class _Fit:
    """Straight lines of slopes in predictors, by least squares over the draws that came by."""

    def __init__(self, n: int):
        self.count = 0
        self._sums = np.zeros((4, n))

    def add(self, e: np.ndarray, slope: np.ndarray) -> None:
        """One draw: predictors and slopes (m,)."""
        if not self.count:
            self._first = e.copy()
        d, sums = e - self._first, self._sums
        sums[0] += d
        sums[1] += slope
        sums[2] += d * d
        sums[3] += d * slope
        self.count += 1

    def lines(self) -> tuple[np.ndarray, np.ndarray]:
        """``w`` and ``v`` (m,) of parabolas that are nowhere convex, and wider than the lines say."""
        d, slope, square, product = self._sums / self.count
        spread = np.maximum(square - d * d, np.finfo(float).tiny)
        w = np.maximum(-(product - d * slope) / spread, 0.0) / _WIDER
        return w, slope + w * (self._first + d)


class LikelihoodMoves:
    """When and how a block is moved under the likelihood.

    Parameters
    ----------
    rows : TermRows

    Attributes
    ----------
    complete : bool
        Whether the parts hold all that observed rows read.
    """

    def __init__(self, rows: TermRows):
        self._rows = rows
        observed = rows.kinds[len(rows.names) :]
        # Normal responses are drawn exactly without any of this.
        self.parts = find_parts(rows) if set(observed) != {"known"} else []
        moving = set(rows.moving_terms.tolist()) & set(range(len(rows.names), len(rows.kinds)))
        self._base_stays = not moving and "known" not in observed
        seen = np.unique(rows.indices[rows.indptr[rows.n_prior] :])
        joined = np.concatenate(
            [part.columns for part in self.parts if part.observed] or [np.empty(0, dtype=int)]
        )
        self.complete = bool(len(joined)) and np.array_equal(np.sort(joined), seen)
        self._period = _PERIOD if sum(part.observed for part in self.parts) < 2 else _PERIOD_OF_PARTS
        self._alone = sum(part.observed for part in self.parts) == 1
        moves = np.zeros(len(rows.indices), dtype=bool)
        moves[rows.moving_entries] = True
        self._moving = [np.flatnonzero(moves[part.entries]) for part in self.parts]
        self.restart(0)

    def restart(self, tune: int) -> None:
        """Forget what was learned, before a chain that tunes for so many sweeps."""
        self._tune, self._sweep = tune, 0
        self._look = int(_LOOK * tune)
        self._fits = [int(share * tune) for share in _FITS]
        if not self.parts or self._fits[0] - self._look < _FEWEST:
            self._fits = []
        self.on = [True] * len(self.parts)
        self._lines: tuple[np.ndarray, np.ndarray] | None = None
        self._fit = _Fit(len(self._rows.indptr) - 1 - self._rows.n_prior)
        self._forget()

    def _forget(self) -> None:
        self._moved, self._proposed = np.zeros(len(self.parts)), np.zeros(len(self.parts))
        self._bases: list[Any] = [None] * len(self.parts)
        self._data: list[Any] = [None] * len(self.parts)

    @property
    def acceptance(self) -> list[float]:
        """Of each part, the share of its entries that moved since the last fit; NaN before."""
        with np.errstate(invalid="ignore"):
            return list(map(float, self._moved / self._proposed))

    def turn(self) -> bool:
        """Whether this sweep is one under the likelihood. To be called once in each."""
        t, self._sweep = self._sweep, self._sweep + 1
        if t in self._fits and self._fit.count >= _FEWEST:
            self.set_lines(*self._fit.lines())
            self._fit = _Fit(len(self._lines[0]))  # type: ignore[index]
        if t == self._tune and self._lines is not None:
            self._choose()
        return self._lines is not None and t % self._period != 0

    def _choose(self) -> None:
        """Leave out parts that were seldom accepted."""
        pairs = list(zip(self.acceptance, self.parts, strict=True))
        self.on = [accepted >= LEAST_ACCEPTANCE or not part.observed for accepted, part in pairs]
        if not any(on and part.observed for on, part in zip(self.on, self.parts, strict=True)):
            self._lines = None

    def set_lines(self, w: np.ndarray, v: np.ndarray) -> None:
        """Take these parabolas of the observed rows, (m,) each."""
        self._lines = w, v
        self._forget()

    @property
    def learns(self) -> bool:
        """Whether the draw of this sweep is to be looked at."""
        return bool(self._fits) and self._look < self._sweep <= self._fits[-1]

    def learn(self, state: State) -> None:
        """Look at a draw."""
        self._fit.add(state.e[self._rows.n_prior :], state.slopes())

    def tried(self, rng: np.random.Generator, state: State, sweeps: int = 10) -> float:
        """The share of entries that some sweeps move, by parabolas of the draws that were learned from; 0 where no
        observed row reads a part, or a variable of the block that observed rows read is in none.
        """
        if not self.complete or self._fit.count < _FEWEST:
            return 0.0
        self.set_lines(*self._fit.lines())
        for _ in range(sweeps):
            self.move(rng, state)
        own = np.array([part.observed for part in self.parts])
        return float(self._moved[own].sum() / self._proposed[own].sum())

    def move(self, rng: np.random.Generator, state: State) -> tuple[np.ndarray, np.ndarray]:
        """One sweep over the parts, in place.

        Returns
        -------
        w, v : (n,) arrays
            Of the parabolas of all rows.
        """
        w, v = self._all_lines(state)
        if not state.continued:
            self._bases = [base and (base[0], None) for base in self._bases]
        for _ in range(_PASSES):
            for i, part in enumerate(self.parts):
                if self.on[i]:
                    self._move(rng, state, i, part, w, v)
        return w, v

    def _all_lines(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """The parabolas of all rows: of normal ones, the density itself."""
        w, v = np.empty(len(state.e)), np.empty(len(state.e))
        w[self._rows.n_prior :], v[self._rows.n_prior :] = self._lines  # type: ignore[misc]
        terms: Sequence[Any] = list(zip(self._rows.kinds, self._rows.spans, state.parameters, strict=True))
        for kind, (first, last), parameters in terms:
            if kind == "known":
                w[first:last], v[first:last] = parameters
        return w, v

    def _move(
        self, rng: np.random.Generator, state: State, i: int, part: Part, w: np.ndarray, v: np.ndarray
    ) -> None:
        data = self._data_of(i, part, state)
        before, n_prior = state.block[part.columns], state.rows.n_prior
        base = self._bases[i]
        # What observed rows add to the law stays as long as neither they nor other parts that they read move.
        known = base is not None and base[1] is not None
        rows = part.rows[: part.n_prior] if known else part.rows
        own, u = _conditional(part.indptr, part.indices, data, before, rows, state.e, w, v)
        if self._base_stays and not known:
            base = part.normal.sums(part.indptr, part.indices, data, own, u, part.n_prior)
            self._bases[i] = base if self._alone else (base[0], None)
        drawn = part.normal.draw(rng, part.indptr, part.indices, data, own, u, base, part.n_prior)
        block, e = state.block.copy(), state.e.copy()
        add_products(part.indptr, part.indices, data, drawn - before, part.rows, e)
        taken = np.ones(part.n_components, dtype=bool)
        if part.observed:
            densities, log_ratio = state.log_densities(e), np.zeros(part.n_components)
            now = state.e, state.densities
            _add_ratios(
                part.rows, part.n_prior, n_prior, part.row_component, w, v, e, densities, *now, log_ratio
            )
            taken = -rng.standard_exponential(part.n_components) < log_ratio
            _put_back(part.rows, part.n_prior, n_prior, part.row_component, taken, e, densities, *now)
        moved = taken[part.component]
        block[part.columns] = np.where(moved, drawn, before)
        state.take(block, e, densities if part.observed else None)
        self._moved[i] += moved.sum()
        self._proposed[i] += len(moved)

    def _data_of(self, i: int, part: Part, state: State) -> np.ndarray:
        """Entries of the rows of a part: those that depend on other variables are read anew."""
        if self._data[i] is None:
            self._data[i] = state.data[part.entries]
        moving = self._moving[i]
        data = self._data[i]
        data[moving] = state.data[part.entries[moving]]
        return data


@njit(cache=True, nogil=True)
def _conditional(indptr, indices, data, x, rows, e, w, v):
    """Of the rows of a part, ``w``, and ``v - w c`` where the predictor is ``J x + c``."""
    own, u = np.empty(len(rows)), np.empty(len(rows))
    for n in range(len(rows)):
        offset = e[rows[n]]
        for a in range(indptr[n], indptr[n + 1]):
            offset -= data[a] * x[indices[a]]
        own[n] = w[rows[n]]
        u[n] = v[rows[n]] - own[n] * offset
    return own, u


@njit(cache=True, nogil=True)
def _add_ratios(rows, first, n_prior, component, w, v, e, densities, old, old_densities, out):
    """The sums of the formula above, by component."""
    for n in range(first, len(rows)):
        r = rows[n]
        change = e[r] - old[r]
        gain = densities[r - n_prior] - old_densities[r - n_prior]
        out[component[n]] += gain + change * (0.5 * w[r] * (e[r] + old[r]) - v[r])


@njit(cache=True, nogil=True)
def _put_back(rows, first, n_prior, component, taken, e, densities, old, old_densities):
    """Predictors and log densities of components that were not taken."""
    for n in range(len(rows)):
        if not taken[component[n]]:
            e[rows[n]] = old[rows[n]]
            if n >= first:
                densities[rows[n] - n_prior] = old_densities[rows[n] - n_prior]

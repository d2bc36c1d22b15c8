r"""Block Gibbs for any PyMC model: augmentation variables, then all coefficients in one Gaussian
draw.

The step is one exact draw of the block given everything else and auxiliary variables. These are
drawn anew each time and never kept, so that other steps of the same ``pm.sample`` see the likelihood
itself. Most sweeps after the first ones of tuning move the block under the likelihood without them
(:mod:`zoo.steps.likelihood_moves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator
from scipy import sparse

from zoo.steps.advice import (
    LARGEST,
    Outlook,
    estimated_condition,
    estimated_informed_share,
    information_share,
    informed_share,
    scaled_condition,
)
from zoo.steps.augmentations import DRAWS
from zoo.steps.block_normal import block_normal, subtract_products
from zoo.steps.interweaving import Interweaving, interwoven_scales
from zoo.steps.likelihood_moves import LikelihoodMoves
from zoo.steps.plan import Plan, make_plan
from zoo.steps.state import State
from zoo.steps.term_rows import TermRows

__all__ = ["AugmentedGibbs", "augmented_step"]

# Draws from which the conditioning of a large block is estimated.
_DRAWS = 60

Point = dict[str, np.ndarray]


def augmented_step(
    model: pm.Model | None = None,
    vars: Sequence[Any] | None = None,
    *,
    rng: Any = None,
    interweave: bool = True,
) -> AugmentedGibbs:
    """A Gibbs step for the regression coefficients of any PyMC model, found by reading its graph.

    The block is made of free variables with normal, multivariate normal or matrix normal laws that
    enter observed variables affinely: the operations between them are read one by one, and one that
    is not affine keeps its variables out. What is observed needs an augmentation: normal,
    Student-t, Laplace and asymmetric Laplace responses, Bernoulli (logit or probit), binomial and
    negative binomial counts by their logits, and the hinge and epsilon-insensitive terms of
    :mod:`zoo.distributions`.

    ::

        with model:
            step = zoo.augmented_step()
            print(step.table())
            idata = pm.sample(step=step)

    Parameters
    ----------
    model : pm.Model, optional
        By default that on the context stack.
    vars : sequence of variables or names, optional
        Exactly what the block shall hold. By default all that can be proved; the rest is left to
        NUTS, and ``step.table()`` says why.
    rng : optional
        ``pm.sample`` seeds the step itself.
    interweave : bool
        Whether learned scales that only set the spread of variables of the block are moved with these
        as well, in the parametrisation without centring (Yu & Meng 2011): where groups have few rows,
        they mix many times faster. NUTS draws them in any case.

    Returns
    -------
    AugmentedGibbs

    Raises
    ------
    ValueError
        Where no block is found, where one of ``vars`` cannot be proved to fit (the node or the
        variable is named), and where free variables are discrete.

    Notes
    -----
    Priors of the block are read off the graph at each sweep, so that scales and correlations may be
    learned by NUTS. Missing responses of a normal law are free variables of the model, and belong
    to the block. A chain that tunes for some hundreds of sweeps learns proposals under the likelihood
    itself, which need no auxiliary variables; they are fixed before the first draw that counts
    (:mod:`zoo.steps.likelihood_moves`). Called outside of ``pm.sample``, the step has auxiliary
    variables in every sweep. Data that change after the step was made (``pm.set_data``) are refused: make a new
    step.
    """
    model = pm.modelcontext(model)
    plan = make_plan(model, vars)
    with model:
        values = [model.rvs_to_values[rv] for rv in plan.block]
        return AugmentedGibbs(values, plan=plan, model=model, rng=rng, interweave=interweave)


class AugmentedGibbs(BlockedStep):
    """What :func:`augmented_step` returns.

    Parameters
    ----------
    vars : list of value variables
        The block.
    plan : Plan
        Of the same model.
    model : pm.Model, optional
        By default that on the context stack.
    rng : optional
        ``pm.sample`` seeds the step itself.
    interweave : bool
        Whether scales that only set the spread of the block are moved with it
        (:mod:`zoo.steps.interweaving`).
    """

    name = "augmented_gibbs"
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any,
        *,
        plan: Plan,
        model: Any = None,
        rng: Any = None,
        blocked: bool = True,
        interweave: bool = True,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ):
        model = pm.modelcontext(model)
        self.vars = list(vars)
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self._table = plan.table()
        start = self._start = model.initial_point(0)
        self._outlook: Outlook | None = None
        self._rows = TermRows(model, plan, start, compile_kwargs)
        self._names = self._rows.names
        self._normal = block_normal(self._rows.indptr, self._rows.indices, int(self._rows.starts[-1]))
        self._moves = LikelihoodMoves(self._rows)
        scales = interwoven_scales(model, plan.block, compile_kwargs) if interweave else []
        self._interweaving = Interweaving(scales, self._rows.starts, self._rows.spans)
        for scale in scales:
            children = " and ".join(repr(self._names[i]) for i in scale.children)
            self._table.loc[self._table["variable"] == scale.name, "why"] += (
                f"; moved with {children} as well"
            )
        self._checked = True
        self._last: State | None = None
        if not self._rows.consistent(start):
            raise ValueError(
                "the predictors do not move as their linear parts say, so that the Gibbs step would draw from "
                "another posterior. Please report the model; pm.sample() without this step is right."
            )

    # ------------------------------------------------------------ what a user sees

    def table(self) -> pd.DataFrame:
        """Every free variable of the model: its sampler, and why."""
        return self._table.copy()

    def __repr__(self) -> str:
        return f"AugmentedGibbs of {', '.join(self._names)}"

    def outlook(self, sweeps: int = 30) -> Outlook:
        """What is expected of this step against NUTS, after some sweeps from the initial point;
        looked at once.

        ``step.outlook().words()`` says why NUTS is expected to draw better, and is empty where it
        is not.
        """
        if self._outlook is None:
            own, self.rng = self.rng, np.random.default_rng(0)
            try:
                self._outlook = self._look(sweeps)
            finally:
                self.rng = own
        return self._outlook

    def _look(self, sweeps: int) -> Outlook:
        point, rows = self._start, self._rows
        self._moves.restart(0)
        for i in range(sweeps):
            point = self._swept(point, whole=False)  # scales stay where NUTS would start
            if i >= sweeps // 4:
                self._moves.learn(self._last)  # type: ignore[arg-type]
        accepted = self._moves.tried(self.rng, State(rows, point, rows.entries(point)))
        self._moves.restart(0)
        state = State(rows, point, rows.entries(point))
        w, _ = self._weights(state)
        J = sparse.csr_array((state.data, rows.indices, rows.indptr), shape=(len(w), int(rows.starts[-1])))
        own, augmented, k = 0.0, 0.0, len(self._names)  # the first terms are priors of the block
        for kind, (begin, end), known in zip(
            rows.kinds[k:], rows.spans[k:], state.parameters[k:], strict=True
        ):
            first, second = information_share(kind, state.e[begin:end], known)
            own, augmented = own + first, augmented + second
        moves = bool(np.any(rows.moving_terms >= k))
        rest = accepted, J.shape[1], len(w) - rows.n_prior, rows.shared
        moved = {i for scale in self._interweaving.scales for i in scale.children}
        alone = [is_learned and i not in moved for i, is_learned in enumerate(rows.learned)]
        learned = np.repeat(alone, np.diff(rows.starts))
        precision = sparse.csr_array(J.T @ sparse.diags_array(w) @ J)
        of_prior = J[: rows.n_prior]
        prior = sparse.csr_array(of_prior.T @ sparse.diags_array(w[: rows.n_prior]) @ of_prior)
        if J.shape[1] > LARGEST:
            pattern, zero = (rows.indptr, rows.indices, state.data), np.zeros(len(w))
            draws = np.stack([self._normal.draw(self.rng, *pattern, w, zero) for _ in range(_DRAWS)])
            informed = estimated_informed_share(prior, draws, learned)
            return Outlook(estimated_condition(precision, draws), own / augmented, informed, moves, *rest)
        informed = informed_share(precision.toarray(), prior.toarray(), learned)
        return Outlook(scaled_condition(precision.toarray()), own / augmented, informed, moves, *rest)

    # ------------------------------------------------------------ the step

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Seed the step, and look whether the data are those that it was made for."""
        super().setup_chain(rng, tune, draws)
        self._checked = False
        self._moves.restart(tune)
        self._last = None

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """Draw the augmentation variables, then the block, and move its scales with it; the rest stays."""
        if not self._checked:
            self._require_same_data(point)
        return self._swept(point), [{}]

    def _swept(self, point: Point, whole: bool = True) -> Point:
        """The point after a sweep; after a draw of the block alone where it is not to be ``whole``."""
        rows = self._rows
        data = rows.entries(point)
        state = self._last = State(rows, point, data, self._last)
        corrected = whole and self._moves.turn()
        try:
            if corrected:
                weights = self._moves.move(self.rng, state)
            else:
                weights = self._weights(state)
                state.set_block(self._drawn(state, *weights))
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"the precision of the block ({', '.join(self._names)}) is not positive definite at this point: a "
                "scale may have become infinite or not a number. Give the scales of the block a proper prior."
            ) from error
        if not np.isfinite(state.block).all():
            raise ValueError(
                f"the draw of the block ({', '.join(self._names)}) is not finite. Look at the scales of the priors "
                "and of the observed variables at this point."
            )
        new = {**point, **rows.point_of(state.block)}
        if not whole:
            return new
        if self._moves.learns:
            self._moves.learn(state)
        return self._interweaving.move(self.rng, new, state, weights, corrected)

    def _drawn(self, state: State, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """A draw of the block given auxiliary variables."""
        rows, offset = self._rows, state.e.copy()
        # The predictor less what the block adds to it is its offset.
        subtract_products(rows.indptr, rows.indices, state.data, state.block, offset)
        return self._normal.draw(self.rng, rows.indptr, rows.indices, state.data, w, v - w * offset)

    def _weights(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """``w`` and ``v`` of all rows."""
        rows, w, v = self._rows, np.empty(len(state.e)), np.empty(len(state.e))
        for kind, (first, last), known in zip(rows.kinds, rows.spans, state.parameters, strict=True):
            DRAWS[kind](self.rng, state.e[first:last], w[first:last], v[first:last], *known)
        return w, v

    def _require_same_data(self, point: Point) -> None:
        """Refuse data that were changed after the step was made: its rows would be the old ones."""
        if not self._rows.consistent(point):
            raise ValueError(
                "the data of the model have changed since this Gibbs step was made. Make a new one: "
                "zoo.augmented_step()."
            )
        self._checked = True

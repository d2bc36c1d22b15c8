"""Multinomial logit: one of several alternatives is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import logsumexp

from zoo.data.choices import require_choices
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.weighted import observed

__all__ = ["MultinomialLogit"]

_FAR = 1e30


@dataclass(frozen=True, kw_only=True, repr=False)
class MultinomialLogit(Likelihood):
    r"""Choices: of the alternatives of a choice c, row n is the one that was chosen with probability

    .. math::

        p_n = e^{f_n} / \sum_{m \in c} e^{f_m}

    (McFadden 1974; the conditional logit). Each alternative is a row of the data. ``data.choice`` says which rows
    belong to one choice. The response y is 1 (or True) in the row that was chosen, and 0 (or -1) in the others. What is
    the same for all
    alternatives of a choice cancels out: there is no intercept, and characteristics of persons come in by their
    products with features of alternatives.

    Notes
    -----
    The log likelihood of a choice stands in the row that was chosen, and the others have 0.
    """

    word: ClassVar[str] = "multinomial_logit"
    responses: ClassVar[Literal["real", "labels", "counts", "grades"]] = "labels"
    of_choices: ClassVar[bool] = True
    # The second derivative has entries between rows, which methods of single rows do not know.
    smooth: ClassVar[bool] = False

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """-1 and +1, (N,); raises where rows are no choices."""
        y = super().encode(data)
        require_choices(data, y)
        return y

    def term(self, f: Any, y: Any, weight: Any = None, choice: Any = None, **parameters: Any) -> Any:
        """Add the observed variable ``"y"`` (dims ``obs``); ``choice`` (N,) numbers the choice of each row."""
        if choice is None:
            raise ValueError(
                "MultinomialLogit needs the choice of each row. A hook `observe` of your own has to pass "
                "choice=data.source.choice to `term`."
            )
        return observed(_Law(_Alternatives(choice)), y, weight, f=f)

    def probability(self, f: np.ndarray, choice: Any = None, **parameters: Any) -> np.ndarray:
        """Probability that each row is the one that is chosen, at draws ``f`` (S, n); ``choice`` (n,)."""
        if choice is None:
            raise ValueError("choice is missing. Give the number of the choice that each row belongs to.")
        groups = _Alternatives(choice)
        values = np.concatenate([f, np.full((*f.shape[:-1], 1), -np.inf)], axis=-1)[..., groups.rows]
        return np.asarray(np.exp(f - logsumexp(values, axis=-1)[..., groups.codes]))


class _Alternatives:
    """Rows of each choice as a matrix (C, K), filled up with N, the number of rows; the choice of each row, (N,)."""

    def __init__(self, choice: Any):
        _, self.codes = np.unique(np.asarray(choice), return_inverse=True)
        order = np.argsort(self.codes, kind="stable")
        size = np.bincount(self.codes)
        place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
        self.rows = np.full((len(size), int(size.max())), len(order))
        self.rows[self.codes[order], place] = order
        self.whole = bool(np.all(self.rows < len(order)))

    def values(self, f: Any) -> Any:
        """Function values of the rows of each choice, (C, K), far below all others where a choice has fewer of them."""
        if self.whole:
            return f[self.rows]
        return pt.concatenate([f, pt.full((1,), -_FAR)])[self.rows]


class _Law:
    """The law of y as PyMC makes a variable of it."""

    __name__ = "MultinomialLogit"

    def __init__(self, groups: _Alternatives):
        self.groups = groups

    def _options(self) -> dict[str, Any]:
        groups = self.groups

        def logp(value: Any, f: Any) -> Any:
            total = pt.logsumexp(groups.values(f), axis=1)
            return pt.switch(value > 0.0, f - total[groups.codes], 0.0)

        def dist(f: Any, size: Any) -> Any:
            # The largest of utilities with Gumbel errors is chosen with the probability of the logit.
            utility = f + pm.Gumbel.dist(0.0, 1.0, size=size)
            return pt.switch(utility >= pt.max(groups.values(utility), axis=1)[groups.codes], 1.0, -1.0)

        return {"logp": logp, "dist": dist, "class_name": self.__name__}

    def __call__(self, name: str, f: Any, **arguments: Any) -> Any:
        return pm.CustomDist(name, f, **self._options(), **arguments)

    def dist(self, f: Any, **arguments: Any) -> Any:
        """Unregistered variable."""
        return pm.CustomDist.dist(f, **self._options(), **arguments)

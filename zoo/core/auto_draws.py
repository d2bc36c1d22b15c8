"""Whether chains go on, and for how long: ``fit(draws="auto")``, and fits that were given no number of draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.convergence import Diagnosis, diagnose
from zoo.core.methods import UnsupportedMethodError
from zoo.core.protocols import Fitted, Model
from zoo.core.verdict import verdict_of_diagnosis
from zoo.inference.run.chains import chain_backend
from zoo.inference.run.mixing import LEAST_DRAWS
from zoo.support.checks import one_of, positive, whole_number
from zoo.support.memory import InsufficientMemoryError

__all__ = ["DEFAULT_DRAWS", "FIRST_ROUND", "MOST_BY_DEFAULT", "MOST_DRAWS", "AutoDraws"]

DEFAULT_DRAWS = 1000
"""Draws of each chain where the caller says nothing."""

MOST_BY_DEFAULT = 4000
"""Draws of each chain to which Gibbs samplers then go on where fewer have not converged."""

FIRST_ROUND = 500
"""Draws of each chain before the first look; each round doubles them."""

MOST_DRAWS = 20_000
"""Draws of each chain at most, where the caller does not say."""

LEAST_BULK_ESS = 400
"""Bulk ESS of every entry, whatever the number of chains."""


class AutoDraws:
    """Called after each round of draws, as ``until`` of :func:`zoo.inference.run.chains.run_chains`.

    Parameters
    ----------
    factory : ModelFactory
    first, most : int
        Draws of each chain in the first round, and at most.
    least_ess : float
        Bulk ESS of every entry before the chains may stop.
    max_seconds : float, optional
        Seconds of sampling after which no round ends.

    Attributes
    ----------
    asked : int
        Draws of the round that is made.
    reason : str
        Why the chains stopped; empty where they stopped because they have converged.
    """

    def __init__(
        self, factory: Model, first: int, most: int, least_ess: float, max_seconds: float | None = None
    ):
        self._max_seconds = max_seconds
        self._max_draws, self._least_ess = most, least_ess
        self.asked = min(first, most)
        self.reason = ""
        self._unordered = factory.unordered_dims
        self._dims: Mapping[str, tuple[str, ...]] = {}
        self._found: Diagnosis | None = None

    @classmethod
    def of_arguments(
        cls,
        factory: Model,
        method: str,
        draws: Any,
        chains: Any,
        max_draws: Any,
        max_seconds: Any,
        checkpoint: Any,
    ) -> AutoDraws:
        """The rounds that the arguments of ``fit`` ask for, as its caller gave them.

        Raises
        ------
        UnsupportedMethodError
            The method has no chains that could go on; or there is a checkpoint.
        ValueError
            An argument is wrong.
        """
        if not isinstance(draws, str):
            name = "max_seconds" if max_draws is None else "max_draws"
            raise ValueError(f'{name} is given with draws={draws!r}. It goes with draws="auto" alone.')
        one_of(draws, ("auto",), "draws")
        _require_chains(factory, method)
        if checkpoint is not None:
            raise UnsupportedMethodError(
                'draws="auto" cannot be combined with `checkpoint`, whose folder is laid out for a '
                "number of draws that is known at the start. Give that number, or leave `checkpoint` out."
            )
        if whole_number(chains, "chains", 1) < 2:
            raise ValueError('chains=1 has no R-hat, by which draws="auto" decides. Use two chains or more.')
        if max_seconds is not None:
            positive(max_seconds, "max_seconds")
        most = whole_number(MOST_DRAWS if max_draws is None else max_draws, "max_draws", LEAST_DRAWS)
        return cls(factory, FIRST_ROUND, most, LEAST_BULK_ESS, max_seconds)

    @classmethod
    def by_default(cls, factory: Model, method: str, chains: Any, elsewhere: bool) -> AutoDraws | None:
        """The rounds of a fit that was given no number of draws; None where its chains cannot go on.

        ``elsewhere``: whether the chains are written to a checkpoint, or tasks are dealt to workers.
        """
        _, threads = chain_backend()
        if not factory.method_named(method).continues or elsewhere or not threads:
            return None
        if whole_number(chains, "chains", 1) < 2:
            return None
        return cls(factory, DEFAULT_DRAWS, MOST_BY_DEFAULT, 0.0)

    def begin(self, dims: Mapping[str, tuple[str, ...]], require_memory: Callable[[int], Any]) -> AutoDraws:
        """Start the clock.

        Parameters
        ----------
        dims : mapping
            Dims of the variables by name.
        require_memory : callable
            Called with a number of draws; raises where they do not fit into memory.
        """
        self._dims, self._require_memory = dims, require_memory
        self._start = time.monotonic()
        return self

    def __call__(self, posterior: dict[str, np.ndarray], done: int) -> int | None:
        """How many draws each chain shall have in all, or None where it has enough."""
        if done < self.asked:  # Ctrl-C
            return None
        try:
            self._found = diagnose(self._dataset(posterior), self._unordered)
        except KeyboardInterrupt:
            self.reason = "Ctrl-C stopped the chains while they were looked at."
            return None
        verdict = verdict_of_diagnosis(self._found)
        if verdict.converged and not verdict.ess_bulk < self._least_ess:
            return None
        wanted = min(2 * done, self._max_draws)
        seconds = time.monotonic() - self._start
        if wanted == done:
            self.reason = f"The chains stopped at {self._max_draws:,} draws each."
        elif self._max_seconds is not None and seconds * wanted / done > self._max_seconds:
            self.reason = (
                f"The chains stopped because {wanted:,} draws would take longer than "
                f"max_seconds={self._max_seconds:g}."
            )
        else:
            try:
                self._require_memory(wanted)
            except InsufficientMemoryError as error:
                self.reason = f"The chains stopped because {wanted:,} draws do not fit into memory: {error}"
        if self.reason:
            return None
        self.asked = wanted
        return wanted

    def hand_over(self, fit: Fitted) -> None:
        """Spare the fit a second diagnosis of the draws that were looked at last."""
        if self._found is not None and self._found.draws == fit.posterior.sizes["draw"]:
            fit.hand_over(diagnosis=self._found._replace(groups=()))

    def _dataset(self, posterior: dict[str, np.ndarray]) -> xr.Dataset:
        variables: dict[str, Any] = {}
        for name, array in posterior.items():
            inner = self._dims.get(name, ())
            if len(inner) != array.ndim - 2:
                inner = tuple(f"{name}_{i}" for i in range(array.ndim - 2))
            variables[name] = (("chain", "draw", *inner), array)
        return xr.Dataset(variables)


def _require_chains(factory: Model, method: str) -> None:
    """Raise unless the chains of a method can go on after their last draw."""
    found = factory.method_named(method)
    if found.continues:
        return
    why = (
        "gives no Markov chains: leave `draws` out"
        if not found.has_chains
        else "cannot go on with its chains after their last draw: give a number of draws, and where they are too few, "
        "the warning says how many would do"
    )
    able = [m.name for m in factory.method_table() if m.continues and m.name in factory.methods]
    other = f"; or use method {' or '.join(map(repr, able))}" if able else ""
    raise UnsupportedMethodError(
        f'draws="auto" is not for method {method!r} of {type(factory).__name__}, which {why}{other}.'
    )

"""The law of f at new rows given each posterior draw: by the factory's formulas, by linear algebra, or by its graph."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from zoo.core.linear_laws import linear_laws
from zoo.core.predictive import draws_by_block
from zoo.core.protocols import Fitted
from zoo.core.row_laws import Block, NormalMixture, RowLaws
from zoo.data.multitask import MultiTaskData

__all__ = ["function_law", "given_draws", "new_task_law"]

# Numbers that a factory's formulas may fill at once.
_NUMBERS = 20_000_000


def function_law(fit: Fitted, rows: MultiTaskData, rng: np.random.Generator) -> RowLaws | None:
    """The law of f at prepared rows of known tasks, given each posterior draw; None where the factory does not say it.

    It is what the original hooks imply: of a subclass that overrides one of them, draws by its own graph count.
    """
    factory = fit.factory
    if not _says(factory, "conditional_moments", "predictive_posterior"):
        return None
    sizes = fit.posterior.sizes
    if sizes.get("chain", 1) * sizes.get("draw", 1) * rows.n_rows > _NUMBERS:
        # One row says whether all draws have the same law.
        of_one = factory.conditional_moments(fit, rows.take([0]), deepcopy(rng))
        if of_one is not None and len(of_one[0]) > 1:
            return _MomentLaws(fit, rows, rng, len(of_one[0]))
    found = factory.conditional_moments(fit, rows, rng)
    if found is None:
        return None
    mean, sd = (np.asarray(part, dtype=np.float64) for part in found)
    return NormalMixture(mean, np.broadcast_to(sd, mean.shape))


def new_task_law(fit: Fitted, rows: MultiTaskData) -> tuple[RowLaws, dict[str, np.ndarray]] | None:
    """The same at rows of unseen tasks, with the values (S, 1) of the likelihood's parameters beside each part."""
    factory = fit.factory
    if not _says(factory, "new_task_moments", "new_task", "predictive_posterior"):
        return None
    found = factory.new_task_moments(fit, rows)
    return None if found is None else (NormalMixture(*found[:2]), found[2])


def _says(factory: Any, formula: str, *beside: str) -> bool:
    """Whether a formula of a class counts: no hook that it was derived for is overridden below that class."""
    kind = type(factory)
    owner = next(cls for cls in kind.__mro__ if formula in vars(cls))
    return all(
        inspect.getattr_static(kind, hook, None) is inspect.getattr_static(owner, hook, None)
        for hook in (*factory.hooks, *beside)
    )


def given_draws(
    fit: Fitted, rows: MultiTaskData, posterior: Mapping[str, np.ndarray], rng: np.random.Generator
) -> RowLaws:
    """Functions at prepared rows where it follows from the draws of ``posterior``, or where draws of it have to do."""
    found = linear_laws(fit.factory, rows, posterior)
    if found is not None:
        return found
    return _DrawnLaws(fit, rows, rng, int(np.prod(next(iter(posterior.values())).shape[:2])), posterior)


@dataclass(frozen=True, eq=False)
class _MadeInParts(RowLaws):
    """Laws of rows of a fit that are made some rows at a time."""

    fit: Fitted
    rows: MultiTaskData
    rng: np.random.Generator
    n_draws: int

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """How many rows."""
        return self.rows.n_rows

    @abstractmethod
    def parts(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The first row of a part, and the means and standard deviations (S, b) of its laws."""

    def blocks(self) -> Iterator[Callable[[], Block]]:
        """Blocks of the parts."""
        for start, mean, sd in self.parts():
            for make in NormalMixture(mean, np.broadcast_to(sd, mean.shape)).blocks():
                yield partial(_moved, make, start)


@dataclass(frozen=True, eq=False)
class _MomentLaws(_MadeInParts):
    """By the factory's ``conditional_moments``."""

    def parts(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """What is drawn for these laws is the same for all rows."""
        step = max(1, _NUMBERS // self.n_draws)
        for start in range(0, self.n_rows, step):
            some = self.rows.take(slice(start, start + step))
            yield start, *self.fit.factory.conditional_moments(self.fit, some, deepcopy(self.rng))


@dataclass(frozen=True, eq=False)
class _DrawnLaws(_MadeInParts):
    """Draws of f by the model's own graph; they are made when the blocks are asked for, and anew if asked again."""

    posterior: Mapping[str, np.ndarray]

    def parts(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Points."""
        for part, f, _ in draws_by_block(self.fit.factory, self.rows, self.posterior, self.rng):
            yield part.start, f, np.zeros(())


def _moved(make: Callable[[], Block], start: int) -> Block:
    block = make()
    return block._replace(rows=block.rows + start)

"""Random seeds as users hand them in: numbers, sequences of seeds, generators, one number per chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.support.words import counted

__all__ = ["ChainSeeds", "described", "generator", "integer_seed", "random_number_source", "sequence"]


class ChainSeeds(np.random.SeedSequence):
    """A sequence of seeds whose children are those of given numbers: one number per chain."""

    def spawn(self, n_children: int) -> list[Any]:
        """The sequence of each number."""
        if n_children != len(self.numbers):
            raise ValueError(
                f"random_seed holds {counted(len(self.numbers), 'number')}, and there are "
                f"{counted(n_children, 'chain')}. "
                "Give one number per chain, or a single one for all."
            )
        return [np.random.SeedSequence(number) for number in self.numbers]

    @property
    def numbers(self) -> list[int]:
        """The numbers."""
        return [int(number) for number in np.atleast_1d(np.asarray(self.entropy, dtype=object))]


def random_number_source(random_seed: Any, chains: int | None = None) -> int | np.random.SeedSequence | None:
    """A seed as methods take it; the same for every method.

    Parameters
    ----------
    random_seed : int, SeedSequence, Generator, BitGenerator, RandomState, sequence of int, or None
        A generator is drawn from, so that the next call with it differs; a SeedSequence stays as it is. A sequence
        holds one number per chain.
    chains : int, optional
        How many numbers a sequence must hold.

    Returns
    -------
    int, SeedSequence or None

    Raises
    ------
    TypeError, ValueError
        Names the argument.
    """
    if random_seed is None:
        return None
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool):
        if random_seed < 0:
            raise ValueError(f"random_seed is {random_seed}. Give a whole number of 0 or more.")
        return int(random_seed)
    if isinstance(random_seed, ChainSeeds):
        return random_seed
    if isinstance(random_seed, np.random.SeedSequence):
        # A copy: children are counted, and the same call is to give the same draws.
        return np.random.SeedSequence(
            entropy=random_seed.entropy,
            spawn_key=random_seed.spawn_key,
            pool_size=random_seed.pool_size,
            n_children_spawned=random_seed.n_children_spawned,
        )
    if isinstance(random_seed, np.random.BitGenerator):
        random_seed = np.random.Generator(random_seed)
    if isinstance(random_seed, np.random.Generator):
        return np.random.SeedSequence([int(v) for v in random_seed.integers(2**32, size=4)])
    if isinstance(random_seed, np.random.RandomState):
        return np.random.SeedSequence([int(v) for v in random_seed.randint(2**32, size=4, dtype=np.uint32)])
    if isinstance(random_seed, list | tuple | np.ndarray) and np.ndim(random_seed) == 1:
        return _of_numbers(list(random_seed), chains)
    raise TypeError(
        f"random_seed is {random_seed!r}. Give a whole number, a numpy.random.Generator or SeedSequence, "
        "one number per chain, or None."
    )


def _of_numbers(numbers: list[Any], chains: int | None) -> ChainSeeds:
    for number in numbers:
        if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer) or number < 0:
            raise ValueError(f"random_seed holds {number!r}. Give whole numbers of 0 or more, one per chain.")
    if not numbers or (chains is not None and len(numbers) != chains):
        wanted = "at least one number" if chains is None else f"one number for each of the {chains} chains"
        raise ValueError(
            f"random_seed holds {counted(len(numbers), 'number')}. Give {wanted}, or a single number."
        )
    return ChainSeeds([int(number) for number in numbers])


def generator(random_seed: Any) -> np.random.Generator:
    """A generator of random numbers from any seed; one that is handed in is used as it is."""
    if isinstance(random_seed, np.random.Generator):
        return random_seed
    return np.random.default_rng(random_number_source(random_seed))


def sequence(random_seed: Any) -> np.random.SeedSequence:
    """A sequence of seeds from any seed."""
    source = random_number_source(random_seed)
    return source if isinstance(source, np.random.SeedSequence) else np.random.SeedSequence(source)


def described(random_seed: Any) -> str:
    """A seed as one line of text, for the attributes of a file."""
    if isinstance(random_seed, np.random.Generator | np.random.BitGenerator | np.random.RandomState):
        return type(random_seed).__name__
    if isinstance(random_seed, ChainSeeds):
        return str(random_seed.numbers)
    return " ".join(str(random_seed).split())


def integer_seed(random_seed: Any) -> int | None:
    """A seed for functions that take numbers below 2**32 alone."""
    source = random_number_source(random_seed)
    if isinstance(source, np.random.SeedSequence):
        return int(source.generate_state(1)[0])
    return source

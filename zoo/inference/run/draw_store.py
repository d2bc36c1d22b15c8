"""Where chains put their draws: arrays that are made at the first one and grow where they must."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["Store", "padded"]


class Store:
    """Arrays (chain, draw, ...) made at the first draw, padded with zeros where a later draw is
    larger.

    Chains in threads share one store.

    Parameters
    ----------
    chains, draws : int
        How many there is room for.
    """

    def __init__(self, chains: int, draws: int):
        self._shape = (chains, draws)
        self._lock = threading.Lock()
        self.arrays: dict[str, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def grow(self, draws: int) -> None:
        """Make room for more draws; the chains stand still meanwhile."""
        self._shape = (self._shape[0], draws)
        for name, array in self.arrays.items():
            self.arrays[name] = padded(array, (*self._shape, *array.shape[2:]))

    def put(self, values: dict[str, Any], row: int, draw: int, chain: int) -> None:
        """Put one draw of one chain.

        Raises
        ------
        FloatingPointError
            A value is not finite.
        """
        for name, value in values.items():
            new = np.asarray(value)
            # A sum is quicker than a look at each entry, which decides only where the sum overflows
            # too.
            if not math.isfinite(new.sum()) and not np.isfinite(new).all():
                raise FloatingPointError(
                    f"chain {chain} drew a value of {name} that is not finite, at draw {draw}. "
                    "Check the data for extreme scales: data.standardize() helps."
                )
            with self._lock:
                array = self.arrays.get(name)
                if array is None:
                    array = np.zeros((*self._shape, *new.shape), dtype=np.result_type(new, np.int8))
                    self.arrays[name] = array
                if array.shape[2:] == new.shape:
                    array[row, draw] = new
                    continue
                self.arrays[name] = array = padded(array, (*self._shape, *new.shape))
                place: tuple[Any, ...] = (row, draw, *(slice(n) for n in new.shape))
                array[place] = new

    def put_block(self, values: dict[str, np.ndarray], row: int, first: int) -> None:
        """Put draws (n, ...) of one chain, that were stored before."""
        for name, block in values.items():
            shape = (*self._shape, *block.shape[1:])
            with self._lock:
                array = self.arrays.get(name)
                array = np.zeros(shape, block.dtype) if array is None else padded(array, shape)
                self.arrays[name] = array
                place: tuple[Any, ...] = (
                    row, slice(first, first + len(block)), *(slice(n) for n in block.shape[1:])
                )  # fmt: skip
                array[place] = block


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array with zeros behind its entries, at least of this shape."""
    extra = [(0, max(0, n - m)) for n, m in zip(shape, array.shape, strict=True)]
    return np.pad(array, extra) if any(after for _, after in extra) else array

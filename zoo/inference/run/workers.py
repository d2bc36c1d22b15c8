"""Objects that hold parts of the data on workers, asked again and again: in threads, or on a cluster of Dask.

A worker's object is an actor: it is made once, stays where it is, and its methods are called from here. It keeps no
state that a call changes. So where a worker is lost, its object is made again on another one from what is held here,
and the call is made again: the answer is the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import joblib

__all__ = ["Workers", "n_workers_of", "put_on_workers"]

_log = logging.getLogger("zoo")

_SECONDS_BETWEEN_LOOKS = 2.0
# Times that an object is made again in one call before the call gives up.
_MOST_LOSSES = 5


class Workers(Protocol):
    """Objects on workers."""

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        """What the method of each object returns, in their order."""
        ...


def n_workers_of(executor: Any) -> int:
    """How many workers an executor has.

    Raises
    ------
    TypeError
        It is neither a ThreadPoolExecutor nor a Client of Dask that waits for its results.
    ValueError
        The client has no workers.
    """
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    if not getattr(backend, "supports_sharedmem", False):
        raise ValueError(
            "executor is given inside of joblib.parallel_config, which sends whole chains away. Leave one of them "
            "out."
        )
    if isinstance(executor, ThreadPoolExecutor):
        if executor._shutdown:
            raise ValueError("executor was shut down. Make a new one, and fit inside of its `with` block.")
        # By its name: a thread may run before the pool has put it on its list.
        if threading.current_thread().name.rpartition("_")[0] == executor._thread_name_prefix:
            raise ValueError(
                "the fit runs in a thread of executor, which would wait for itself. Give it another one."
            )
        return executor._max_workers
    if not (hasattr(executor, "nthreads") and hasattr(executor, "submit")):
        raise TypeError(
            f"executor is a {type(executor).__name__}. Give a dask.distributed.Client, or a "
            "concurrent.futures.ThreadPoolExecutor."
        )
    if getattr(executor, "status", "running") != "running":
        raise ValueError(f"executor is a Client that is {executor.status}. Make a new one.")
    if getattr(executor, "asynchronous", False):
        raise TypeError("executor is an asynchronous Client. Give one that waits: Client(address).")
    addresses = _addresses(executor)
    if not addresses:
        raise ValueError("executor has no workers. Start some, or wait for them: client.wait_for_workers(n).")
    return len(addresses)


def put_on_workers(executor: Any, objects: Sequence[Any]) -> Workers:
    """Deal objects to the workers of an executor, one to each."""
    return (_Threads if isinstance(executor, ThreadPoolExecutor) else _Actors)(executor, objects)


def _addresses(client: Any) -> list[str]:
    return sorted(client.nthreads())


class _Threads:
    """Objects in this process, asked side by side."""

    def __init__(self, executor: ThreadPoolExecutor, objects: Sequence[Any]):
        self._executor, self._objects = executor, objects

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        asked = [self._executor.submit(getattr(one, method), *arguments) for one in self._objects]
        return [one.result() for one in asked]


class _Actors:
    """Objects on the workers of a cluster of Dask. Chains in several threads may ask at once."""

    def __init__(self, client: Any, objects: Sequence[Any]):
        self._client, self._objects = client, objects
        self._lock = threading.Lock()
        self._actors: list[Any] = [None] * len(objects)
        self._at = ["" for _ in objects]
        for i, address in zip(range(len(objects)), _addresses(client), strict=False):
            self._make(i, address)

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        actors = list(self._actors)
        asked = [self._ask(actor, method, arguments) for actor in actors]
        return [self._answer(i, actors[i], one, method, arguments) for i, one in enumerate(asked)]

    def _make(self, i: int, address: str) -> None:
        """Make object i on a worker."""
        # Data that go to a worker before they are asked for need not go through the scheduler.
        there = self._client.scatter(self._objects[i], workers=[address], hash=False)
        made = self._client.submit(_itself, there, actor=True, pure=False, workers=[address])
        self._actors[i], self._at[i] = made.result(), address

    @staticmethod
    def _ask(actor: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        """A call that is under way; None where the worker is known to be lost."""
        try:
            return getattr(actor, method)(*arguments)
        except RuntimeError:  # "Worker holding Actor was lost"
            return None

    def _answer(self, i: int, actor: Any, asked: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        """The answer of object i, which is made again for as long as its worker is lost."""
        for _ in range(_MOST_LOSSES):
            while asked is not None:
                try:
                    return asked.result(timeout=_SECONDS_BETWEEN_LOOKS)
                except (TimeoutError, OSError):
                    # It may take its time, or be gone: a call to a worker that is gone need not end.
                    if self._actors[i] is not actor or self._at[i] not in _addresses(self._client):
                        break
                    if asked.done():  # an error of the connection, while the worker is there
                        asked = self._ask(actor, method, arguments)
            actor = self._replaced(i, actor)
            asked = self._ask(actor, method, arguments)
        raise RuntimeError(
            f"part {i} of the tasks was lost {_MOST_LOSSES} times with the worker that had it."
        )

    def _replaced(self, i: int, lost: Any) -> Any:
        """Object i on another worker."""
        with self._lock:
            if self._actors[i] is lost:
                addresses = [a for a in _addresses(self._client) if a != self._at[i]]
                if not addresses:
                    self._client.wait_for_workers(1)
                    addresses = _addresses(self._client)
                burden = {address: self._at.count(address) for address in addresses}
                # The draws are the same, so that this is no warning.
                _log.warning(
                    "The worker %s is gone. Its part of the tasks goes to another one of %d, and the fit goes on.",
                    self._at[i],
                    len(addresses),
                )
                self._make(i, min(addresses, key=lambda address: (burden[address], address)))
            return self._actors[i]


def _itself(value: Any) -> Any:
    return value

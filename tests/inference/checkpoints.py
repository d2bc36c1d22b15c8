"""Fits with a checkpoint, and how they are stopped, for the tests of checkpoints."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from zoo.inference.run import chain_record
from zoo.inference.run.chain_record import ChainRecord
from zoo.inference.run.checkpoint import open_checkpoint

QUICK = dict(draws=40, tune=20, chains=2, random_seed=3, progress=False)


def simulated_rows(labels: bool) -> zoo.MultiTaskData:
    data, _ = zoo.datasets.simulate_matrix_normal(3, 2, 7, random_seed=1)
    return replace(data, y=np.sign(data.y)) if labels else data


@dataclass(frozen=True, kw_only=True)
class OwnMaxMargin(zoo.MaxMargin):
    """A user's subclass that inherits the Gibbs sampler."""

    def coords(self, data):
        return {**super().coords(data), "extra": [0]}


# Every Gibbs kernel, with what it keeps from sweep to sweep: a learned C, binary matrices, noise by task, amplitudes,
# scales.
ENGINES: dict[str, Any] = {
    "MaxMargin, hinge": lambda: zoo.MaxMargin(),
    "MaxMargin, learned C": lambda: zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C="learned")),
    "NonparametricMaxMargin, hinge": lambda: zoo.NonparametricMaxMargin(K_max=2),
    "NonparametricMaxMargin, real": lambda: zoo.NonparametricMaxMargin(
        likelihood="epsilon_insensitive", alpha=2.0
    ),
    "NIWLinear": lambda: zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))),
    "NIWLinear, learned scales": lambda: zoo.NIWLinear(covariance_prior="half_t"),
    "NIWLinear, learned scales, shared": lambda: zoo.NIWLinear(covariance_prior="half_t", shared=("x0",)),
    "NIWLinear, learned scales, student t": lambda: zoo.NIWLinear(
        covariance_prior="half_t", likelihood="student_t"
    ),
    "NIWLinear, learned pi": lambda: zoo.NIWLinear(pi="learned"),
    "NIWGaussianProcess": lambda: zoo.NIWGaussianProcess(),
    "MultiTaskKernelMachine, square": lambda: zoo.MultiTaskKernelMachine(lam="learned"),
    "MultiTaskKernelMachine, hinge": lambda: zoo.MultiTaskKernelMachine(
        likelihood="hinge", amplitude="learned"
    ),
    "own subclass": lambda: OwnMaxMargin(likelihood="epsilon_insensitive"),
}


def fit_engine(engine: str, path: Any = None, **options: Any) -> zoo.Fit:
    factory = ENGINES[engine]()
    return factory.fit(
        simulated_rows(factory.likelihood.labels), "gibbs", checkpoint=path, **{**QUICK, **options}
    )


@functools.cache
def whole_fit(engine: str) -> zoo.Fit:
    """A fit that nothing stopped."""
    return fit_engine(engine)


def assert_same_fit(first: zoo.Fit, second: zoo.Fit) -> None:
    for group in ("posterior", "sample_stats"):
        a, b = first.idata[group].to_dataset(), second.idata[group].to_dataset()
        assert a.identical(b), f"{group} differs"


def save_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after every sweep, in blocks of a few draws, and do not wait for the disk."""
    monkeypatch.setattr(chain_record, "_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(chain_record, "_SHARE_OF_TIME", 0.0)
    monkeypatch.setattr(chain_record, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(chain_record, "_sync", lambda path: None)
    monkeypatch.setattr(chain_record.os, "fsync", lambda file: None)


class Killed(BaseException):
    """Ends a chain where it stands: nothing is saved any more."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """End the run at this step of writing or sampling, counted over all chains."""
    count = [0]

    def counted(function):
        def call(*args, **kwargs):
            count[0] += 1
            if count[0] >= step:
                raise Killed
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(ChainRecord, "due", counted(lambda self, done: True))
    monkeypatch.setattr(ChainRecord, "_write_array", counted(ChainRecord._write_array))
    monkeypatch.setattr(chain_record, "_sync", counted(lambda path: None))
    monkeypatch.setattr(chain_record.os, "fsync", counted(lambda file: None))


# ---------------------------------------------------------------- Ctrl-C


@contextlib.contextmanager
def open_as(path: Path, draws: int, chain: int = 0):
    """The record of a chain of an existing checkpoint."""
    described = json.loads((path / "manifest.json").read_text())["described"]
    described.pop("schema")
    with open_checkpoint(path, described) as opened:
        yield opened.chain(chain, draws)


# ---------------------------------------------------------------- places that cannot be written


def no_space(*args: Any, **kwargs: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

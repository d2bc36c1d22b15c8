"""The text collection of Yu, Tresp & Schwaighofer (2005), and its designs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from zoo import datasets
from zoo.kernels.basis import distinct_rows

__all__ = ["Design", "Problem", "documents", "draw", "linear", "with_positives"]

PARTS = ("ALL", "PARTIALLY LABELED")
_FEWEST_POSITIVES = 2
_TRIES = 10_000
Parameters = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Design:
    """Sizes of a repeat of table 1.

    Parameters
    ----------
    documents : int
        Training documents.
    topics : int
        Tasks.
    labelled : int
        Training documents with a label, for each topic.
    fewest : int
        Documents that a topic must have in the whole set.
    """

    documents: int = 1000
    topics: int = 50
    labelled: int = 300
    fewest: int = 30


@dataclass(frozen=True, eq=False)
class Problem:
    """Documents, some of them labelled, and a kernel.

    Parameters
    ----------
    X : (N, D) csr_matrix
        All documents.
    truth : (N, T) bool
    train : (n,) int
        Documents that may have labels.
    labels : (n, T)
        -1, +1, or NaN where there is no label.
    kernel : (N, n)
        Of all documents with the training documents.
    """

    X: Any
    truth: np.ndarray
    train: np.ndarray
    labels: np.ndarray
    kernel: np.ndarray

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return self.truth.shape[1]

    def known(self) -> list[np.ndarray]:
        """Training documents with a label, for each topic."""
        return [np.flatnonzero(column) for column in ~np.isnan(self.labels).T]

    def parts(self) -> dict[str, np.ndarray]:
        """The paper's two test sets, (N, T) each: all that has no label, and the training documents among it."""
        partially = np.zeros(self.truth.shape, dtype=bool)
        partially[self.train] = np.isnan(self.labels)
        everything = np.ones(self.truth.shape, dtype=bool)
        everything[self.train] = partially[self.train]
        return dict(zip(PARTS, (everything, partially), strict=True))


@lru_cache(maxsize=1)
def documents() -> tuple[Any, np.ndarray]:
    """Documents of the subset, repeated ones once, and their topics (N, 101)."""
    subset = datasets.load_rcv1_subset(1)
    _, position = distinct_rows(subset.X)
    first = np.unique(position, return_index=True)[1]
    return subset.X[first], subset.Y[first] > 0


def draw(design: Design, repeat: int) -> tuple[Problem, np.ndarray]:
    """A repeat of table 1, and the frequent topics that are not among its tasks."""
    X, Y = documents()
    rng = np.random.default_rng([2005, repeat])
    frequent = np.flatnonzero(Y.sum(axis=0) >= design.fewest)
    if len(frequent) < design.topics:
        raise ValueError(
            f"topics is {design.topics}, but {len(frequent)} have {design.fewest} documents. Ask for fewer topics."
        )
    shuffled = rng.permutation(frequent)
    topics, others = np.sort(shuffled[: design.topics]), np.sort(shuffled[design.topics :])
    truth = Y[:, topics]
    train = np.sort(with_positives(truth, design.documents, rng))
    labels = np.full((design.documents, design.topics), np.nan)
    for t in range(design.topics):
        column = truth[train, t]
        rows = with_positives(column[:, None], design.labelled, rng)
        labels[rows, t] = np.where(column[rows], 1.0, -1.0)
    return Problem(X, truth, train, labels, linear(X, X[train])), others


def with_positives(
    truth: np.ndarray, size: int, rng: np.random.Generator, fewest: int = _FEWEST_POSITIVES
) -> np.ndarray:
    """Random rows, drawn again until every column has two positive ones: with fewer nothing can be tuned."""
    for _ in range(_TRIES):
        rows = rng.choice(len(truth), size, replace=False)
        if truth[rows].sum(axis=0).min() >= fewest:
            return rows
    raise ArithmeticError(
        f"{_TRIES:,} draws of {size} documents all left a topic with fewer than {fewest} positive ones. "
        "Ask for more documents, or for topics with more of them."
    )


def linear(X: Any, Y: Any) -> np.ndarray:
    """The base kernel, (n, m), of sparse documents."""
    return np.asarray((X @ Y.T).toarray())

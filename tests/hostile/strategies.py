"""Hypothesis strategies of multi-task data with what goes wrong in real tables.

Numbers come from a generator with a drawn seed: so a case is small, and shrinks by its structure.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

import zoo

# Of one column, of y, of t: units far from 1, and too far for squares in float64.
EXPONENTS = (-300, -160, -100, -20, -8, -3, 3, 6, 8, 12, 20, 100, 160, 300)
NAMES = (
    "ä",
    "ж 1",
    "📈",
    " ",
    "task 0",
    "x0",
    "y",
    "intercept",
    "\n",
    "a/b",
    "../up",
    "nan",
    "None",
    "0",
    "1.0",
)


def _duplicate_column(X, rng):
    X[:, rng.integers(X.shape[1])] = X[:, rng.integers(X.shape[1])]


def _opposite_column(X, rng):
    X[:, rng.integers(X.shape[1])] = -2.0 * X[:, rng.integers(X.shape[1])]


def _collinear_column(X, rng):
    X[:, -1] = X[:, :-1].sum(axis=1)


def _nearly_collinear_column(X, rng):
    X[:, -1] = X[:, :-1].sum(axis=1) + 1e-13 * rng.standard_normal(len(X))


def _constant_column(X, rng):
    X[:, rng.integers(X.shape[1])] = rng.choice([0.1, 1.0, -7.0, 1e6])


def _nearly_constant_column(X, rng):
    X[:, rng.integers(X.shape[1])] = 1.0 + 1e-9 * rng.standard_normal(len(X))


def _zero_column(X, rng):
    X[:, rng.integers(X.shape[1])] = 0.0


def _zero_row(X, rng):
    X[rng.integers(len(X))] = 0.0


def _duplicate_rows(X, rng):
    X[:] = X[rng.integers(max(1, len(X) // 3), size=len(X))]


def _equal_rows(X, rng):
    X[:] = X[0]


def _outlier(X, rng):
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = 1e5


def _bits(X, rng):
    X[:] = X > 0.0


DEFECTS = (
    _duplicate_column,
    _opposite_column,
    _collinear_column,
    _nearly_collinear_column,
    _constant_column,
    _nearly_constant_column,
    _zero_column,
    _zero_row,
    _duplicate_rows,
    _equal_rows,
    _outlier,
    _bits,
)


@st.composite
def numbers(draw, response="real", with_t=False, extreme=True):
    """X, y, task codes, t, names: what a constructor takes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    n_features = draw(st.integers(1, 7))
    n_rows = sum(sizes)
    X = rng.standard_normal((n_rows, n_features))
    for defect in draw(st.lists(st.sampled_from(DEFECTS), max_size=2)):
        defect(X, rng)
    exponents = st.sampled_from(EXPONENTS if extreme else EXPONENTS[4:9])
    for column, exponent in draw(st.lists(st.tuples(st.integers(0, n_features - 1), exponents), max_size=2)):
        with np.errstate(over="ignore"):
            X[:, column] = np.clip(X[:, column] * 10.0**exponent, -1e307, 1e307)
    y = responses(draw, rng, response, n_rows, exponents)
    t = None
    if with_t:
        t = rng.standard_normal((n_rows, draw(st.integers(1, 2))))
        kind = draw(st.sampled_from(["as it is", "equal", "ties", "scaled", "far"]))
        if kind == "equal":
            t[:] = t[0]
        elif kind == "ties":
            t = np.round(t)
        elif kind == "scaled":
            t *= 10.0 ** draw(exponents)
        elif kind == "far":
            t += 1e9
    order = rng.permutation(n_rows) if draw(st.booleans()) else np.arange(n_rows)
    task = np.repeat(np.arange(len(sizes)), sizes)
    names = draw(st.lists(st.sampled_from(NAMES), min_size=len(sizes), max_size=len(sizes), unique=True))
    features = draw(st.lists(st.sampled_from(NAMES), min_size=n_features, max_size=n_features, unique=True))
    return {
        "X": X[order],
        "y": y[order],
        "task": task[order],
        "t": None if t is None else t[order],
        "task_names": names,
        "feature_names": features,
    }


def responses(draw, rng, response, n_rows, exponents):
    """Responses of a kind: real, labels, or counts."""
    if response == "labels":
        y = np.where(rng.random(n_rows) < draw(st.sampled_from([0.5, 0.1, 0.0])), 1.0, -1.0)
        return (y + 1.0) / 2.0 if draw(st.booleans()) else y
    if response == "counts":
        return rng.poisson(draw(st.sampled_from([0.0, 0.5, 5.0, 1e4])), n_rows).astype(float)
    y = rng.standard_normal(n_rows)
    kind = draw(st.sampled_from(["as it is", "constant", "outlier", "scaled", "far"]))
    if kind == "constant":
        y[:] = rng.choice([0.0, 0.1, 1.0, 1e6])
    elif kind == "outlier":
        y[rng.integers(n_rows)] = 1e5
    elif kind == "scaled":
        y = y * 10.0 ** draw(exponents)
    elif kind == "far":
        y = y + 1e6
    return y


@st.composite
def data(draw, response="real", with_t=False, extreme=True):
    """Multi-task data, standardized where that can be; units beyond float64's squares in one case of four."""
    extreme = extreme and draw(st.integers(0, 3)) == 0
    made = zoo.MultiTaskData.from_arrays(**draw(numbers(response, with_t, extreme)))
    if draw(st.booleans()):
        try:
            made = made.standardize(y=None if response == "real" else False)
        except ValueError:  # y is constant
            pass
    if draw(st.booleans()) and "intercept" not in made.feature_names:
        made = made.add_intercept()
    if draw(st.integers(0, 9)) == 0:
        rng = np.random.default_rng(draw(st.integers(0, 9)))
        made = replace(
            made, weight=np.exp(rng.normal(scale=draw(st.sampled_from([1.0, 20.0])), size=made.n_rows))
        )
    return made


@st.composite
def multilabel(draw, response="labels"):
    """Tasks that share their inputs, with missing entries."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_tasks, n_features = (draw(st.integers(1, 6)) for _ in range(3))
    X = rng.standard_normal((n, n_features))
    for defect in draw(st.lists(st.sampled_from(DEFECTS), max_size=2)):
        defect(X, rng)
    Y = np.column_stack([responses(draw, rng, response, n, st.just(3)) for _ in range(n_tasks)])
    Y[rng.random(Y.shape) < draw(st.sampled_from([0.0, 0.5]))] = np.nan
    return X, Y

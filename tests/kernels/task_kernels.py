"""Inputs, tasks and parameters that the tests of covariances on (x, task) share."""

from __future__ import annotations

import numpy as np
import pymc as pm

cov = pm.gp.cov
_RNG = np.random.default_rng(0)
T, D = 4, 2
X = np.column_stack([_RNG.standard_normal((11, D)), _RNG.permutation(np.arange(11) % T)])
TASK = X[:, -1].astype(int)
Q = np.array([[2.0, 0.3], [0.3, 0.5]])
PARENT = [-1, 0, 0, 1, 1, 2, 2]
MAPS = _RNG.standard_normal((T, 3, D))
WIDE_MAPS = _RNG.standard_normal((T, 9, D))
PRECISION = np.eye(T) + 0.2
# Tasks 0 and 1 are neighbours, 2 and 3 are: two components.
PAIRS = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0.4], [0, 0, 0.4, 0]])
CHAIN = np.diag([1.0, 0.3, 0.7], 1) + np.diag([1.0, 0.3, 0.7], -1)
SOFT = _RNG.random((T, 3))


def evaluated(value):
    return value.eval(mode="FAST_COMPILE")

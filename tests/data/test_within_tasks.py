"""Variances and ranges within tasks, against a loop over tasks."""

from __future__ import annotations

import numpy as np

from zoo.data.within_tasks import by_group, range_within_tasks, variance_within_tasks


def test_as_a_loop_over_tasks():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((50, 3)), rng.integers(1, 7, 50)
    task[task == 4] = 5  # 0, 4 and 7 are without rows
    variance, reach = variance_within_tasks(X, task, 8), range_within_tasks(X, task, 8)
    for t in range(8):
        rows = X[task == t]
        np.testing.assert_allclose(variance[t], rows.var(axis=0) if len(rows) else 0.0, rtol=1e-12)
        np.testing.assert_array_equal(reach[t], np.ptp(rows, axis=0) if len(rows) else 0.0)


def test_groups_without_rows():
    empty = np.empty((0, 2)), np.empty(0, dtype=np.int64)
    np.testing.assert_array_equal(by_group(np.maximum, *empty, 3, np.nan), np.full((3, 2), np.nan))

r"""A few weighted rows per task that say what all of its rows say to a linear model with Gaussian noise.

The log likelihood of the rows of a task is :math:`-\sum_n w_n \{\log \sigma + (y_n - x_n'\beta)^2 / 2 \sigma^2\}`,
with weights :math:`w_n` of 1 where there are none. It knows of the rows the sum of the weights W, and of the columns
:math:`z = (x, y)` the weighted mean m and the scatter :math:`A = \sum_n w_n (z_n - m)(z_n - m)'`. So any other rows
with the same W, m and A give the same posterior: "optimal data compression" (Wong, Forsell, Lewis, Mao & Wardrop
2021).

With :math:`A = R'R` of r rows, and an orthogonal (r + 1) x (r + 1) matrix H whose first column is constant, the
:math:`r + 1` rows

.. math:: \tilde z_i = m + \sqrt{\tfrac{r + 1}{W}} \sum_{j=1}^{r} H_{i, j + 1} R_j, \qquad \tilde w_i = \frac{W}{r + 1}

are such ones: their weights add up to W; columns of H but the first have sum 0, so the mean is m; and :math:`\sum_i
\tilde w_i (\tilde z_i - m)(\tilde z_i - m)' = R' H_2' H_2 R = A`. A column that is constant stays so, bit for bit,
which is why an intercept survives. H is the reflection that takes the first unit vector to the constant one.

R comes from QR factorisations of centred rows, and never from a sum of squares, which would lose half of the digits.
Parts of a task, 1 and 2, that come in different batches are merged by the rule of Chan, Golub & LeVeque (1983):

.. math:: A = A_1 + A_2 + \frac{W_1 W_2}{W_1 + W_2} (m_2 - m_1)(m_2 - m_1)', \qquad
          m = m_1 + \frac{W_2}{W_1 + W_2} (m_2 - m_1),

so the factor of A is that of :math:`R_1`, :math:`R_2` and one more row.
"""

from __future__ import annotations

import numpy as np

from zoo.data.within_tasks import by_group

__all__ = ["TaskSummary"]

# Numbers that are factorised at once.
_ENTRIES = 4_000_000


class TaskSummary:
    """What rows say of their tasks, taken up batch by batch in any order.

    Parameters
    ----------
    width : int
        ``K``, the columns of a row: features and response.

    Attributes
    ----------
    n_rows : int
        How many rows have been taken up.
    """

    def __init__(self, width: int):
        self._width = width
        self.n_rows = 0
        self._count = np.zeros(0, dtype=np.int64)
        self._weight = np.zeros(0)
        self._mean = np.zeros((0, width))
        self._factor = np.zeros((0, width, width))

    def add(self, values: np.ndarray, task: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Take up rows.

        Parameters
        ----------
        values : (n, K)
            Features and responses.
        task : (n,) int
            Number of the task of each row; a number that is new makes a task.
        weight : (n,), optional
            Weights of the rows, above 0.
        """
        if not len(task):
            return
        self.n_rows += len(task)
        self._grow(int(task.max()) + 1)
        known, code = np.unique(task, return_inverse=True)
        w = np.ones(len(task)) if weight is None else weight
        order = np.argsort(code, kind="stable")
        values, code, w = values[order], code[order], w[order]
        count = np.bincount(code)
        total = np.bincount(code, w)
        first = values[np.cumsum(count) - count]
        # Around the first row of the task: what is constant within it has a mean without rounding, and no scatter.
        apart = by_group(np.add, w[:, None] * (values - first[code]), code, len(known), 0.0) / total[:, None]
        mean = first + apart
        centred = np.sqrt(w)[:, None] * (values - mean[code])
        self._merge(known, count, total, mean, centred, np.cumsum(count) - count)

    def _grow(self, n_tasks: int) -> None:
        """Make room for as many tasks, by doubling: tasks come in one by one in a long stream of batches."""
        if n_tasks <= len(self._count):
            return
        size = max(n_tasks, min(2 * len(self._count), len(self._count) + 500_000))
        for name in ("_count", "_weight", "_mean", "_factor"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def _merge(
        self,
        known: np.ndarray,
        count: np.ndarray,
        total: np.ndarray,
        mean: np.ndarray,
        centred: np.ndarray,
        starts: np.ndarray,
    ) -> None:
        """Factors of what was there and of the rows of a batch, tasks with equally many rows side by side."""
        K = self._width
        gap = mean - self._mean[known]
        gap[self._count[known] == 0] = 0.0
        old, new = self._weight[known], total
        between = np.sqrt(old * new / (old + new))[:, None] * gap
        for size in np.unique(count):
            equal = np.flatnonzero(count == size)
            step = max(1, _ENTRIES // ((K + 1 + size) * K))
            for start in range(0, len(equal), step):
                some = equal[start : start + step]
                rows = centred[starts[some][:, None] + np.arange(size)]
                stack = np.concatenate([self._factor[known[some]], between[some][:, None], rows], axis=1)
                self._factor[known[some]] = np.linalg.qr(stack, mode="r")
        self._mean[known] = np.where(
            (self._count[known] == 0)[:, None], mean, self._mean[known] + (new / (old + new))[:, None] * gap
        )
        self._count[known] += count
        self._weight[known] += total

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows that stand for all: columns (n, K), task (n,) in order, and weight (n,)."""
        K, n_tasks = self._width, int(np.count_nonzero(self._count))
        count = self._count[:n_tasks]
        size = np.minimum(count, K + 1)
        starts = np.cumsum(size) - size
        values = np.empty((int(size.sum()), K))
        for m in np.unique(size):
            reflection = _reflection(int(m))[:, 1:]
            equal = np.flatnonzero(size == m)
            step = max(1, _ENTRIES // (K * K))
            for start in range(0, len(equal), step):
                some = equal[start : start + step]
                factor = self._factor[some] if m == K + 1 else _of_few_rows(self._factor[some], int(m) - 1)
                scale = np.sqrt(m / self._weight[some])[:, None, None]
                made = self._mean[some][:, None] + scale * (reflection @ factor)
                values[starts[some][:, None] + np.arange(m)] = made
        return values, np.repeat(np.arange(n_tasks), size), np.repeat(self._weight[:n_tasks] / size, size)


def _reflection(m: int) -> np.ndarray:
    """A symmetric orthogonal (m, m) matrix whose first column is constant."""
    v = np.full(m, 1.0 / np.sqrt(m))
    v[0] -= 1.0
    square = v @ v
    return np.eye(m) if square == 0.0 else np.eye(m) - (2.0 / square) * np.outer(v, v)


def _of_few_rows(factor: np.ndarray, rank: int) -> np.ndarray:
    """Factors (n, rank, K) of the same scatter, where it has no larger rank."""
    size = np.linalg.norm(factor, axis=1, keepdims=True)
    size[size == 0.0] = 1.0  # else a small column would be lost beside a large one
    _, values, right = np.linalg.svd(factor / size, full_matrices=False)
    return np.where(factor.any(axis=1, keepdims=True), values[:, :rank, None] * right[:, :rank] * size, 0.0)

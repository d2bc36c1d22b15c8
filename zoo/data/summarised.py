"""Data that are a summary: a few weighted rows in the place of many, made at once or batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from zoo.data.batch_reader import Reader, with_summary
from zoo.data.batches import batches_of
from zoo.data.constructors import Constructed
from zoo.data.gaps import MISSING
from zoo.data.summary import TaskSummary
from zoo.support.checks import one_of

__all__ = ["Summarised"]


@dataclass(frozen=True, eq=False, repr=False)
class Summarised(Constructed):
    """How :class:`zoo.MultiTaskData` makes summaries of rows."""

    def summarise(self) -> Self:
        """Data with at most D + 2 weighted rows per task, which say the same to a linear model with Gaussian noise.

        The posterior of such a model is the same, up to rounding, whatever the method: the rows of each task have the
        same sum of weights, means, variances and covariances of features and response (Wong et al. 2021; see
        :mod:`zoo.data.summary`). Fits take the time and the memory of so few rows. The rows are no observations: what
        looks at single rows, such as :meth:`split` or leave-one-out, refuses them, and so do other models and
        likelihoods. Predictions are made for rows that are handed to ``fit.predict``.

        Raises
        ------
        ValueError
            The data have a task variable ``t``, choices, missing values or sparse features. No such summary holds
            these.
        """
        self._refuse_sparse("a summary of it")
        for there, what in (
            (self.t is not None, "a task variable t"),
            (self.choice is not None, "choices"),
            (self.gaps is not None, "missing values"),
        ):
            if there:
                raise ValueError(f"the data have {what}, and a summary of rows holds none. Use the rows.")
        summary = TaskSummary(self.n_features + 1)
        present, code = np.unique(self.task, return_inverse=True)
        summary.add(np.column_stack([self.X, self.y]), code, self.weight)
        values, task, weight = summary.rows()
        plain = replace(self, grades=())
        return with_summary(plain, values, present[task], weight, self.stands_for or self.n_rows)

    @classmethod
    def from_batches(
        cls,
        batches: Any,
        y: str | None = None,
        task: str | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        like: Any = None,
        missing: str = "refuse",
    ) -> Self:
        """A summary of rows that come batch by batch, so that they need not fit into memory.

        What comes out is what :meth:`summarise` makes of all rows together: weighted rows, at most D + 2 per task, for
        linear models with Gaussian noise. Rows of a task may stand in any batch, in any order. ``standardize`` gives
        the result the means and standard deviations of all rows (where rows have weights, the weighted ones).

        Parameters
        ----------
        batches : path, dataset or iterable of tables
            A Parquet or CSV file, a folder or a pattern of such (pyarrow reads Parquet; tasks in CSV are read as text,
            so that "01" stays what it is); a dataset, reader or table of Arrow; a LazyFrame of polars; a DataFrame of
            dask; a relation of DuckDB; or an iterable of tables, such as ``pandas.read_csv(..., chunksize=100_000)``
            or a generator that changes tables as they come.
        y, task : str
            Columns with the response and the task.
        features : sequence of str, optional
            Columns to use as features, numbers; default: all others of the first batch.
        weight : str, optional
            Column with the weight of each observation.
        like : MultiTaskData, optional
            In the place of ``y``, ``task`` and ``features``: data that :meth:`from_formula`, or :meth:`from_frame` with
            categories, made of a part of the rows. Every batch is coded as they were, so their levels must be all that
            there are.
        missing : {"refuse", "drop"}
            What becomes of rows with a gap in a column that is used: an error names the first one of a batch, or they
            are left out, and a warning counts them.

        Raises
        ------
        ValueError
            Names the batch, counted from 0, and what is wrong with it: a column that it lacks or has beside those of
            the first, a row, a level that ``like`` does not know.
        """
        one_of(missing, [word for word in MISSING if word != "model"], "missing")
        reader = Reader(cls, y, task, features, weight, like, missing)
        with closing(batches_of(batches, reader.task)) as tables:
            for number, batch in enumerate(tables):
                try:
                    reader.take_up(batch)
                except (TypeError, ValueError, KeyError) as error:
                    kind = TypeError if isinstance(error, TypeError) else ValueError
                    raise kind(f"batch {number}: {error}") from error
        return reader.data()

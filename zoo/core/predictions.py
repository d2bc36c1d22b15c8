"""What a fit predicts of new rows. Overloads say to editors and type checkers which kind of table comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import xarray as xr

from zoo.core.breakdown import breakdown_explained, require_finite
from zoo.core.grade_predictions import grade_summaries
from zoo.core.new_levels import with_new_levels
from zoo.core.prediction_tables import prediction_table, require_output
from zoo.core.predictive_law import summaries
from zoo.core.responses import as_in_the_data, drawn_responses, grades_of
from zoo.support.checks import probability

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["Predictions"]


class Predictions:
    """What a fit can say of new rows."""

    @overload
    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
        output: Literal["xarray"] = "xarray",
    ) -> xr.Dataset: ...
    @overload
    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
        *,
        output: Literal["pandas"],
    ) -> pd.DataFrame: ...
    @overload
    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
        *,
        output: Literal["polars"],
    ) -> pl.DataFrame: ...
    @overload
    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
        *,
        output: Literal["arrow"],
    ) -> pa.Table: ...
    # A word that is known at run time only, or output by position: the table may be any of these.
    @overload
    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
        output: str = "xarray",
    ) -> Any: ...
    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
        output: str = "xarray",
    ) -> Any:
        """Posterior predictive summaries of new rows, on the scale of the data that the user handed in.

        Parameters
        ----------
        X : (n, D) array_like, table or MultiTaskData
            Features on the scale before ``standardize``. A table (of pandas, polars, Arrow or another library that
            narwhals knows, of xarray, a structured array, a dict of columns) is read by column names, an array by the
            order of its columns; MultiTaskData brings its tasks, and its scale is known (so pass ``train``, never
            ``train.X``, where it is standardized). None where the fit has no features: t or task then numbers the rows.
        task : str, int or sequence, optional
            Task of the rows: one for all, or one per row. Strings are task names; whole numbers are positions in
            ``fit.data.task_names``, but labels in a column of a table. Left out: the column of a table ``X`` with the
            name that the tasks of the data came from (``fit.data.task_column``); else the data must have one task,
            or the rows are of one new task.
        t : (n, P) array_like or table, optional
            Continuous task variable of the rows; a table is read by column names. Left out: the columns of a
            table ``X`` that have these names. A model that does not use it needs none.
        new_task : bool
            Predict tasks that were not in the data, from the population; names not yet known are new tasks.
        ci_prob : float
            Probability of the central interval.
        random_seed : int, optional
            For the predictive draws behind ``sd`` and the interval.
        output : {"xarray", "pandas", "polars", "arrow"}
            A Dataset, or a table that has the task as its first column. A table of pandas keeps the index of ``X``.

        Returns
        -------
        xarray.Dataset or table
            Dim ``obs``. Real responses: ``mean``, ``sd``, ``lower``, ``upper`` of y, noise included.
            Labels: the same of the decision value f, ``probability`` of the positive class, and ``label``, the
            class by the sign of the posterior mean of f, coded as in the data.
            Grades: the same of y, the numbers that stand for the grades; ``probability`` of each (dims ``obs, grade``;
            in a table one column each); ``label``, the most probable one, by its name where the data have names.

        Raises
        ------
        TypeError
            A table is lazy.
        ImportError
            The library of ``output`` is not installed.
        ValueError
            Names the argument and the row, task or column at fault; or the rows of two arguments have different
            labels (an index of pandas, a coordinate of xarray).
        """
        return _summaries(self, X, task, t, new_task, ci_prob, random_seed, output)

    def predict_draws(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        random_seed: Any = None,
    ) -> xr.Dataset:
        """Predictive draws behind :meth:`predict`: ``f`` and ``y``, dims ``chain, draw, obs``."""
        return _draws(self, X, task, t, new_task, random_seed)

    def with_new_levels(self, X: Any, random_seed: Any = None) -> Any:
        """The fit with an effect of every level of further groups in a table, to predict levels that it has not seen.

        ``fit.with_new_levels(df).predict(df)`` predicts rows of clinics that are new to a fit of ``y ~ x + (1 |
        patient) + (1 | clinic)``. In each draw the effect of a new clinic comes from the law of all clinics. A
        ValueError says where the data have no further groups, or X lacks the column of one.
        """
        return with_new_levels(self, X, random_seed)


def _why_infinite(fit: Any, used: list[Any]) -> str:
    """What the likelihood says of its parameters, in the draws that were used last: new tasks may have their own."""
    likelihood, posterior = fit.factory.likelihood, used[-1]
    known = {name: np.asarray(posterior[name]) for name in likelihood.learned if name in posterior}
    return str(likelihood.why_infinite(**known)) if len(known) == len(likelihood.learned) else ""


def _summaries(
    fit: Any, X: Any, task: Any, t: Any, new_task: bool, ci_prob: float, random_seed: Any, output: str
) -> Any:
    probability(ci_prob, "ci_prob")
    require_output(output)
    used = [fit.posterior]
    with breakdown_explained("the prediction", fit.data, lambda: _why_infinite(fit, used)):
        rows, posterior, rng = fit.rows_to_predict(X, task, t, new_task, random_seed)
        used.append(posterior)
        law = grade_summaries if fit.factory.likelihood.responses == "grades" else summaries
        result = law(fit, rows, posterior, rng, new_task, ci_prob)
        require_finite(result)
    return prediction_table(result, rows, X, ci_prob, output, grades_of(fit))


def _draws(fit: Any, X: Any, task: Any, t: Any, new_task: bool, random_seed: Any) -> xr.Dataset:
    used = [fit.posterior]
    with breakdown_explained("the prediction", fit.data, lambda: _why_infinite(fit, used)):
        rows, posterior, rng = fit.rows_to_predict(X, task, t, new_task, random_seed)
        used.append(posterior)
        f, y = drawn_responses(fit, rows, posterior, rng)
        require_finite({"f": f, "y": y})
    y = as_in_the_data(fit, y)
    chains, draws = next(iter(posterior.values())).shape[:2]
    shape = (chains, draws, rows.n_rows)
    return xr.Dataset(
        {
            "f": (("chain", "draw", "obs"), f.reshape(shape)),
            "y": (("chain", "draw", "obs"), y.reshape(shape)),
        }
    )

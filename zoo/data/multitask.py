"""Multi-task data: ragged tasks in long form, with names.

Notation used everywhere in the package: ``T`` tasks, ``N`` rows in all, ``N_t`` rows of task ``t``,
``D`` features, ``P`` columns of a continuous task variable ``t``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.choices import choice_of_rows
from zoo.data.columns import positions
from zoo.data.folds import folds_of_inputs, folds_of_rows, of_units, units_by_task
from zoo.data.formula_checks import refuse_own_scale
from zoo.data.from_formula import data_from_formula, data_of_design
from zoo.data.further_groups import dense_columns, side_by_side
from zoo.data.out_of_fold import columns_of_mean, described_mean, out_of_fold
from zoo.data.rows import Transform
from zoo.data.standardizing import transform_of
from zoo.data.summarised import Summarised
from zoo.support.checks import (
    names,
    one_of,
    probability,
    whole_number,
)
from zoo.support.frames import as_pandas
from zoo.support.seeds import generator
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["MultiTaskData", "Transform", "with_ones"]


@dataclass(frozen=True, eq=False, repr=False)
class MultiTaskData(Summarised):
    """Rows of many tasks, one below the other.

    Build it with :meth:`from_frame`, :meth:`from_arrays`, :meth:`from_multilabel` or :meth:`from_batches`.

    Parameters
    ----------
    inputs : (n, D) float64
        The distinct feature rows. Multi-label data share one input among many tasks: it is stored once. A
        scipy.sparse.csr_matrix where the features were handed in sparse, which are never made dense here, or where
        a formula has further groups of very many levels.
    row : (N,) int
        Position in ``inputs`` of each observation.
    y : (N,) float64
        Response or label of each observation.
    task : (N,) int
        Task of each observation, ``0 .. T-1``.
    task_names, feature_names : tuple of str
        Names of the ``T`` tasks and ``D`` features.
    t : (N, P) float64, optional
        Continuous task variable (space, time), for varying-coefficient models.
    transform : Transform, optional
        What :meth:`standardize` did; predictions are returned on the user's scale with it.
    weight : (N,) float64, optional
        Weight of each observation in the likelihood, finite and above 0: its log density counts that many times.
    t_names : tuple of P str, optional
        Names of the columns of ``t``; left out: "t0", "t1", ... None where there is no ``t``.
    task_column : str, optional
        Name of the column that the tasks came from: predictions read the tasks of a table there.
    intercept : str, optional
        The feature that :meth:`add_intercept` made: rows to predict need not have it.
    shared_names : tuple of str
        Features whose coefficient is the same in all tasks, for models that have such ones
        (:class:`zoo.NIWLinear` and others with a field ``shared``).
    shared : (N, S) float64, optional
        Of data as a model sees them: those features, which ``inputs`` then lacks. A csr_matrix where very many of
        them are levels of further groups.
    design : FormulaDesign or CategoryDesign, optional
        How :meth:`from_formula`, or :meth:`from_frame` with categories, made the features, so that tables of rows to
        predict are read alike.
    learned_mean : LearnedMean, optional
        How :meth:`add_mean` made a feature, for the same.
    grades : tuple of str
        Names of the grades where y was a column of ordered categories: y then holds 1, 2, ... in their order.
    incomplete : bool
        Whether ``inputs`` may hold NaN, where values are missing and left to the model.
    choice : (N,) int, optional
        Rows with the same number are alternatives of one choice (:class:`zoo.MultinomialLogit`).
    choice_column : str, optional
        Name of the column that they came from: predictions read the choices of a table there.
    stands_for : int
        How many rows these stand for, where they are a summary (:meth:`summarise`, :meth:`from_batches`); else 0.
    units, shared_units : Units, optional
        Of data as a model sees them: the units of its default priors, of ``inputs`` and y, and of ``shared``.
    task_left_out : bool
        Whether nobody said what the tasks are. Models of what tasks have in common refuse such data.
    """

    @classmethod
    def from_formula(
        cls,
        formula: str,
        df: Any,
        t: str | Sequence[str] | None = None,
        weight: str | None = None,
        missing: str = "refuse",
    ) -> MultiTaskData:
        """Data from a table by the formula of a mixed model, ``"y ~ age + time + (1 + time | patient)"``.

        The column behind the bar is the task. Terms before the bar are features of which every task has its own
        coefficient; a term outside the bar alone is one whose coefficient all tasks share (``shared_names``). A
        term that stands in both places differs between tasks around a mean, which models such as
        :class:`zoo.NIWLinear` learn. A further group, ``(1 + time | patient) + (1 | clinic)``, adds an effect for each
        of its levels, whose spread is learned; the first group is the task. Where rows times levels are more than five
        million, the features are a sparse matrix, which :class:`zoo.NIWLinear` takes. Categories become columns, named
        after their levels; ``fit.predict`` reads a table with the columns of ``df``, and codes them as here.

        Parameters
        ----------
        formula : str
            As lme4, bambi and brms read it. Terms may call ``log``, ``exp``, ``sqrt`` and their like,
            and transformations of the library formulae: ``C``, ``scale``, ``center``, ``bs``, ``poly``. A response
            that is transformed (``log(y) ~ ...``) is predicted on that scale.
        df : pandas.DataFrame, or a table of polars, Arrow or another library that narwhals knows
        t : str or sequence of str, optional
            Columns of a continuous task variable.
        weight : str, optional
            Column with the weight of each observation, above 0.
        missing : {"refuse", "drop"}
            What becomes of rows with a gap in a column that is used: an error that names the first one, or a warning
            that counts them.

        Raises
        ------
        ImportError
            The package formulae is not installed.
        ValueError
            The formula cannot be read, has no group, or calls what is unknown; or ``df`` lacks a column
            that it uses, or has a gap.
        """
        data, design = data_from_formula(cls, formula, df, t, weight, missing)
        return replace(data, shared_names=design.shared_names, design=design)

    def like(self, df: Any) -> MultiTaskData:
        """Rows of another table, coded as these were by a formula or by categories, for instance to test a fit on them.

        The same levels make the same columns, and transformations such as ``scale`` take the numbers of these data.
        ``df`` has the response and all that the formula uses. Weights and ``standardize`` are not repeated: what is
        handed to a fit comes on the scale of the table.
        """
        if self.design is None:
            raise ValueError(
                "the data were made neither by from_formula nor of categories. Make others like them with from_frame, "
                "by the same arguments (task, t, choice). A table to predict goes to fit.predict as it is."
            )
        refuse_own_scale(self.design.response_name)
        table = as_pandas(df, "df")
        data = data_of_design(
            type(self), self.design, table, list(self.t_names) if self.t_names else None, None
        )
        choice = None if self.choice is None else choice_of_rows(table, data.task, self)
        same = {"shared_names": self.shared_names, "design": self.design, "choice_column": self.choice_column}
        return replace(data, choice=choice, **same)

    def take(self, rows: Any) -> MultiTaskData:
        """The observations at these positions (integers or a boolean mask); tasks and names stay.

        A mask that is a Series has one value per row in their order: the data keep no index to align it with.
        """
        try:
            index = np.atleast_1d(
                np.arange(self.n_rows)[rows if isinstance(rows, slice) else positions(rows)]
            )
        except IndexError as error:
            raise ValueError(
                f"rows do not fit the {counted(self.n_rows, 'row')} of the data ({error}). Give "
                f"positions, or one bool per row."
            ) from None
        stands_for = self.stands_for
        if self.stands_for and not np.array_equal(
            np.sort(index), np.flatnonzero(np.isin(self.task, self.task[index]))
        ):
            self.require_single_rows("take, but of all rows of some tasks,")
        if self.stands_for and self.weight is not None:
            stands_for = max(1, round(stands_for * self.weight[index].sum() / self.weight.sum()))
        if self.shares_inputs:
            used, row = np.unique(self.row[index], return_inverse=True)
        else:
            used, row = self.row[index], np.arange(len(index))
        return replace(
            self,
            inputs=self.inputs[used],
            row=row,
            y=self.y[index],
            task=self.task[index],
            t=None if self.t is None else self.t[index],
            weight=None if self.weight is None else self.weight[index],
            shared=None if self.shared is None else self.shared[index],
            choice=None if self.choice is None else self.choice[index],
            stands_for=stands_for,
        )

    def split(self, test_size: float = 0.25, random_seed: Any = None) -> tuple[MultiTaskData, MultiTaskData]:
        """Training and test data, the test rows drawn at random inside each task.

        Every task keeps at least one training row. Observations that share an input (multi-label data)
        go to the same side, so no test input is seen in training, and so do the alternatives of one choice.
        """
        probability(test_size, "test_size")
        self.require_single_rows("split")
        self._refuse_learned_mean("split")
        rng = generator(random_seed)
        if self.shares_inputs:
            chosen = rng.permutation(self.n_inputs)[: round(test_size * self.n_inputs)]
            test = np.isin(self.row, chosen)
        else:
            test = np.zeros(self.n_rows, dtype=bool)
            for rows in units_by_task(self):
                n_test = min(round(test_size * len(rows)), len(rows) - 1)
                test[rng.permutation(rows)[: max(n_test, 0)]] = True
            test = of_units(self, test)
        return self.take(~test), self.take(test)

    def folds(self, n: int = 5, random_seed: Any = None) -> list[tuple[MultiTaskData, MultiTaskData]]:
        """Training and held-out data of ``n``-fold cross-validation; every task keeps training rows in every fold.

        The rows of each task are dealt at random, so that the sizes of folds differ by at most one, in all and
        inside a task; a task with fewer rows than ``n`` is held out in as many folds as it has rows. Where
        observations share inputs (multi-label data), the inputs are dealt, so that no held-out input is seen in
        training. A task's only row, or with shared inputs its only input, stays in training always. All else is
        held out exactly once. Alternatives of one choice stay together: choices are dealt, and not rows.

        Parameters
        ----------
        n : int
            Number of folds, 2 or more.
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        list of n pairs (train, held_out)

        Raises
        ------
        ValueError
            ``n`` is no whole number of 2 or more; there are fewer rows (inputs) to hold out than folds; the
            inputs of a task, which is named, cannot be dealt so that it keeps a training row in every fold.
        """
        n = whole_number(n, "n", 2)
        self.require_single_rows("folds")
        self._refuse_learned_mean("folds")
        rng = generator(random_seed)
        fold = folds_of_inputs(self, n, rng)[self.row] if self.shares_inputs else folds_of_rows(self, n, rng)
        return [(self.take(fold != k), self.take(fold == k)) for k in range(n)]

    def _refuse_learned_mean(self, method: str) -> None:
        """Raise where held-out rows would have taught the mean that is a feature of the others."""
        if self.learned_mean is not None:
            raise ValueError(
                f"the feature {self.learned_mean.name!r} was learned from all rows by add_mean, so that {method} would "
                f"hold out rows that it has seen. Call {method} first, and add_mean on the training rows."
            )

    def add_mean(
        self,
        estimator: Any,
        features: Sequence[str] | str | None = None,
        keep: Sequence[str] | str = (),
        folds: int = 5,
        whole_tasks: bool = False,
        levels: bool | None = None,
        random_seed: Any = None,
        name: str = "mean",
    ) -> MultiTaskData:
        """Data with the predictions of an estimator of scikit-learn as a feature, each by a copy that has not seen it.

        A flexible mean finds what is nonlinear and the same in all tasks, and the model what is particular to each:
        levels, slopes, noise. Rows to predict get the feature from a copy that was fitted to all rows.

        Parameters
        ----------
        estimator : regressor or classifier of scikit-learn
            Not fitted, and not changed. Of a classifier the log odds of its second class are the feature. It sees
            features and responses on the scale of the user, and weights where there are such.
        features : str or sequence of str, optional
            Features that it sees; default: all but constants, such as an intercept, and levels of further groups.
        keep : sequence of str or "all"
            Of these, features that stay beside it. By default none: the data then have the mean and what it does not
            see, such as an intercept.
        folds : int
            Rows are dealt to so many folds; as many copies are fitted, and one to all rows. Where tasks share inputs
            (multi-label data), the inputs are dealt, and choices are dealt whole.
        whole_tasks : bool
            Deal whole tasks, for a model that predicts tasks it has not seen; by default the rows of each task.
        levels : bool, optional
            Fit copies to responses less the levels of tasks, which a first round of copies has left: 21 fits of five
            folds in place of 6. Default: so for real responses, and not for labels, choices and a classifier.
        random_seed : int or numpy.random.Generator, optional
            For the deal. Give the estimator a ``random_state`` of its own.
        name : str
            Of the feature.

        Raises
        ------
        TypeError, ValueError
            The estimator is none; the data are standardized already; a name is unknown, or taken.
        """
        self.require_single_rows("add_mean")
        if self.transform is not None:
            raise ValueError("the data are standardized already. Call add_mean first.")
        if self.gaps is not None:
            raise ValueError(
                "features have gaps, which estimators do not take. Fill them in before add_mean."
            )
        if self.learned_mean is not None:
            raise ValueError("the data have a learned mean already. Stack estimators by scikit-learn.")
        (name,) = names([name], "name")
        if name in self.feature_names or name == self.task_column:
            raise ValueError(f"name {name!r} is taken by another column. Choose another name.")
        seen, kept = columns_of_mean(self, features, keep)
        X: Any = self.X
        at = [self.feature_names.index(feature) for feature in seen]
        seen_by_it = X if self.is_sparse and not self.effects else dense_columns(X, at)
        values, fitted = out_of_fold(
            estimator, seen_by_it, self.y, self.task, self.weight, folds, whole_tasks,
            generator(random_seed), self.row if self.shares_inputs else None, self.choice, levels,
        )  # fmt: skip
        stay = [i for i, f in enumerate(self.feature_names) if f in kept or f not in seen]
        own = tuple(self.feature_names[i] for i in stay)
        return replace(
            self,
            inputs=side_by_side(values[:, None], X[:, stay]),
            row=np.arange(self.n_rows),
            feature_names=(name, *own),
            shared_names=tuple(f for f in self.shared_names if f in own),
            learned_mean=described_mean(self, name, seen, fitted, repr(estimator), whole_tasks),
            units=None,
        )

    def select_tasks(self, tasks: Sequence[str]) -> MultiTaskData:
        """The data of these tasks only, in the order given."""
        if not len(tasks):
            raise ValueError("tasks is empty. Name at least one task.")
        tasks = names(tasks, "tasks")
        position = {name: i for i, name in enumerate(self.task_names)}
        for name in tasks:
            if name not in position:
                one_of(name, self.task_names, "tasks")
        order = [position[name] for name in tasks]
        kept = self.take(np.isin(self.task, order))
        code = np.full(self.n_tasks, -1)
        code[order] = np.arange(len(order))
        return replace(kept, task=code[kept.task], task_names=tasks)

    def standardize(self, y: bool | None = None) -> MultiTaskData:
        """Data with features (and a real response) at mean 0 and standard deviation 1.

        Constant columns, an intercept among them, and levels of further groups are left as they are. What a formula
        gives tasks without a level of their own, as ``(0 + time | patient)``, is not centred. ``y=None``
        scales the response unless it holds labels (two values) or ordered categories. Predictions of a fit come back
        on the user's scale. Weights do not count in the means and standard deviations. Sparse features are refused.
        """
        if self.transform is not None:
            raise ValueError("the data are standardized already. Use them as they are.")
        if not self.effects:
            self._refuse_sparse("centred features", ", or scale its columns (without a mean) and y before")
        transform = transform_of(self, y)
        return replace(
            self,
            inputs=transform.apply_x(self.inputs),
            y=transform.apply_y(self.y),
            transform=transform,
            units=None,
        )

    def add_intercept(self, name: str = "intercept") -> MultiTaskData:
        """Data with a last feature that is 1 everywhere; rows to predict get theirs where they lack it."""
        (name,) = names([name], "name")
        if name in self.feature_names or name == self.task_column:
            what = "a feature already" if name in self.feature_names else "the column of the tasks"
            raise ValueError(f"name {name!r} is {what}. Choose another name.")
        transform = self.transform
        if transform is not None:
            transform = replace(
                transform, x_mean=np.append(transform.x_mean, 0.0), x_scale=np.append(transform.x_scale, 1.0)
            )
        return replace(
            self,
            inputs=with_ones(self.inputs),
            feature_names=(*self.feature_names, name),
            transform=transform,
            intercept=name,
            units=None,
        )


def with_ones(inputs: np.ndarray | csr_matrix) -> np.ndarray | csr_matrix:
    """The rows with a last column of ones."""
    return side_by_side(inputs, np.ones((inputs.shape[0], 1)))

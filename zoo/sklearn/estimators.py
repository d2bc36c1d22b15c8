"""Models of many tasks as estimators of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from zoo.core.factory import ModelFactory
from zoo.data.columns import graded
from zoo.sklearn.base import MultiTaskEstimator
from zoo.support.checks import finite_vector
from zoo.support.frames import read_column

__all__ = ["MultiTaskClassifier", "MultiTaskRegressor"]


class MultiTaskRegressor(RegressorMixin, MultiTaskEstimator):
    """A model of many tasks with numbers as responses, real ones or counts.

    Parameters
    ----------
    factory : ModelFactory
        The model, as ``zoo.HierarchicalLinear()``. Its fields are parameters: ``factory__likelihood``, and
        those of its likelihood too: ``factory__likelihood__C``.
    method : str, optional
        One of ``factory.methods``; default: what the factory takes for the data.
    task : str or int, optional
        Column of X that holds the task of each row: its name in a table, or its position. None:
        there is one task. Left out ("argument"), the tasks are the argument ``task`` of ``fit`` and
        ``predict``; without both, a model of what tasks have in common refuses to be fitted.
    t : str, int or list, optional
        Columns of X that hold a continuous task variable.
    standardize : bool
        Whether features and real responses are brought to mean 0 and standard deviation 1 before
        the fit; predictions come back on the scale of y. Weights count in the means.
    fit_intercept : bool or "auto"
        Whether a feature that is 1 everywhere is added. "auto" adds it where the model has one
        coefficient for each feature and no constant of its own.
    draws, tune, chains : int
        As in :meth:`zoo.ModelFactory.fit`.
    options : dict, optional
        Further arguments of :meth:`zoo.ModelFactory.fit`, as ``{"cores": 1}``.
    random_state : int or numpy.random.RandomState, optional
        The same number gives the same draws and predictions.
    progress : bool
        Whether a progress bar is shown.
    new_tasks : {"warn", "predict"}
        Rows of tasks that the fit has not are predicted from the population, where the model has one. "warn" says
        so, as a name may have been misspelt.

    Attributes
    ----------
    fit_ : Fit
        The fit, with posterior and diagnostics.
    tasks_ : (T,) array of str
        Names of the tasks.
    n_features_in_ : int
        Number of columns of X, that of the task included.
    feature_names_in_ : array of str
        Their names, where X is a table.
    """

    def predict(self, X: Any, task: Any = None, return_std: bool = False) -> Any:
        """Posterior predictive mean of each row.

        A task that was not in the fit is predicted from the population, where the model has one.

        Parameters
        ----------
        X : (n, D) array_like or table
        task : (n,) array_like or one label, optional
            Task of each row, where no column of X holds it.
        return_std : bool
            Whether the standard deviation of the response, noise included, is returned too.

        Returns
        -------
        mean : (n,) array
        std : (n,) array
            With ``return_std`` only.

        Raises
        ------
        ValueError
            A task is missing, or new to a model that cannot predict new tasks.
        """
        said = self.summaries(X, task)
        return (said["mean"], said["sd"]) if return_std else said["mean"]

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of the variance of y that predictions explain (R squared) over all rows.

        Parameters
        ----------
        X, y, sample_weight, task
            As in :meth:`fit`.
        """
        return float(r2_score(y, self.predict(X, task=task), sample_weight=sample_weight))

    def encode(self, target: np.ndarray) -> np.ndarray:
        """Responses (n,) as the likelihood reads them."""
        if target.dtype.kind in "OSU":
            try:
                target = target.astype(np.float64)
            except (TypeError, ValueError):
                first = next((v for v in target if isinstance(v, str)), target[0])
                raise ValueError(
                    f"y holds {str(first)!r}, which is no number. Use MultiTaskClassifier for labels, or make numbers "
                    "of y."
                ) from None
        return finite_vector(target, "y", len(target))


class MultiTaskClassifier(ClassifierMixin, MultiTaskEstimator):
    """A model of many tasks with two classes, or with grades in an order.

    Parameters
    ----------
    factory : ModelFactory
        The model, as ``zoo.MaxMargin()`` or
        ``zoo.HierarchicalLinear(likelihood="logistic")``; of grades
        ``zoo.HierarchicalLinear(likelihood=zoo.Ordinal(grades=5))``.
    method, task, t, standardize, fit_intercept, draws, tune, chains, options, random_state, progress, new_tasks
        As in :class:`MultiTaskRegressor`.

    Attributes
    ----------
    classes_ : (2,) or (K,) array
        The classes as they were coded in y, sorted, as scikit-learn expects; of two classes the second is the
        positive one. Of grades, all that the likelihood has: by name where y was a column of ordered
        categories, and then in the order of the alphabet, which need not be theirs.
    grades_ : (K,) array
        Of grades only: the classes in the order of the grades.
    fit_, tasks_, n_features_in_, feature_names_in_
        As in :class:`MultiTaskRegressor`.
    """

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """The most probable class of each row, coded as in y.

        Parameters
        ----------
        X : (n, D) array_like or table
        task : (n,) array_like or one label, optional
            Task of each row, where no column of X holds it.

        Returns
        -------
        (n,) array

        Raises
        ------
        ValueError
            A task is missing, or new to a model that cannot predict new tasks.
        """
        probability = self.predict_proba(X, task)
        return np.asarray(self.classes_[np.argmax(probability, axis=1)])

    def predict_proba(self, X: Any, task: Any = None) -> np.ndarray:
        """Posterior predictive probability of each class.

        Parameters
        ----------
        X, task
            As in :meth:`predict`.

        Returns
        -------
        (n, 2) or (n, K) array
            In the order of ``classes_``.
        """
        positive = self.summaries(X, task)["probability"]
        if positive.ndim == 2:
            return positive[:, np.argsort(self.grades_, kind="stable")]
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of the rows whose class is predicted.

        Parameters
        ----------
        X, y, sample_weight, task
            As in :meth:`fit`.
        """
        return float(accuracy_score(y, self.predict(X, task=task), sample_weight=sample_weight))

    @property
    def _graded(self) -> bool:
        return isinstance(self.factory, ModelFactory) and self.factory.likelihood.responses == "grades"

    def _read_target(self, y: Any) -> np.ndarray:
        """Responses as they came, (n,); ordered categories as 1 to K."""
        if y is None or not self._graded:
            return super()._read_target(y)
        numbers, names = graded(read_column(y, "y").values)
        likelihood = self.factory.likelihood
        values = likelihood.grade_values
        if names and not np.array_equal(values, np.arange(1.0, len(names) + 1.0)):
            counted = isinstance(likelihood.grades, int)
            own = f"{len(values)} grades" if counted else f"the grades {', '.join(f'{v:g}' for v in values)}"
            raise ValueError(
                f"y has {len(names)} ordered categories, and the likelihood {own}. Give "
                f"zoo.Ordinal(grades={len(names)})."
            )
        target = super()._read_target(numbers)
        if not names:
            _refuse_recoded(target, values)
        self.grades_ = np.array(names) if names else values
        self.classes_ = np.sort(self.grades_)
        return target

    def encode(self, target: np.ndarray) -> np.ndarray:
        """Responses (n,) as the likelihood reads them."""
        if self._graded:
            return finite_vector(target, "y", len(target))
        absent = np.flatnonzero(pd.isna(target))
        if len(absent):
            raise ValueError(f"y is missing in row {absent[0]}. Drop the row, or fill it in.")
        check_classification_targets(target)
        classes, codes = np.unique(target, return_inverse=True)
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(target)}, with "
                f"{len(classes)} classes. Fit one class against the rest, as with sklearn.multiclass."
            )
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes[0]}. Two classes are needed.")
        self.classes_ = classes
        return np.where(codes == 1, 1.0, -1.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._graded
        return tags


def _refuse_recoded(target: np.ndarray, values: np.ndarray) -> None:
    """Raise where grades 1 to K come as 0 to K - 1, as scikit-learn codes them for ``cross_val_predict``.

    It takes them in the order of the alphabet, and hands over no names: the order of the grades is lost, so that the
    numbers must not be read as grades.
    """
    K = len(values)
    if target.dtype.kind not in "iu" or not len(target) or target.min() != 0 or target.max() >= K:
        return
    if np.array_equal(values, np.arange(1.0, K + 1.0)):
        numbers = "0 and 1" if K == 2 else f"0 to {K - 1}"
        raise ValueError(
            f"y holds 0, and the grades are 1 to {K}. cross_val_predict(method='predict_proba') of scikit-learn codes "
            "classes as 0, 1, ... in the order of the alphabet, so that the order of named grades is lost. Code y as "
            f"the numbers {numbers} in the order of the grades, and give zoo.Ordinal(grades={tuple(range(K))})."
        )

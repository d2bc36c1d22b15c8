"""Models of many tasks as estimators of scikit-learn, and splitters for data of many tasks."""

try:
    import sklearn  # noqa: F401  (this package has the name too, and imports are absolute)
except ImportError as error:
    raise ImportError(
        "zoo.sklearn needs scikit-learn, which is not installed. Install it with: "
        "pip install 'multitask-zoo[sklearn]'."
    ) from error

from zoo.sklearn.estimators import MultiTaskClassifier, MultiTaskRegressor
from zoo.sklearn.splitters import RowsWithinTasks, WholeTasks

__all__ = ["MultiTaskClassifier", "MultiTaskRegressor", "RowsWithinTasks", "WholeTasks"]

"""Data of many tasks: the container, its columns, its folds, and rows to predict."""

from zoo.data.multitask import MultiTaskData, Transform

__all__ = ["MultiTaskData", "Transform"]

"""What local smoothing is made of: its fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zoo.core.factory import ModelFactory
from zoo.inference.local.windows import KERNELS
from zoo.support.arrays import as_array
from zoo.support.checks import flag, one_of, positive, whole_number

__all__ = ["LocalDescription"]


@dataclass(frozen=True, kw_only=True)
class LocalDescription(ModelFactory):
    """Fields of :class:`zoo.KernelLocalSmoothing`, and what they make of the data. That class infers."""

    bandwidth: float | str = "cv"
    ridge: float | str = "cv"
    window: str = "epanechnikov"
    degree: int = 0
    intercept: bool = True
    instance_kernel: str = "linear"
    n_basis: int = 200
    lengthscale: float | str = "median"
    bandwidth_grid: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
    ridge_grid: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    cv_folds: int = 5
    cv_max_rows: int = 2000
    design_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.likelihood.word not in ("gaussian", "logistic") or self.likelihood.per_task:
            raise ValueError(
                f"likelihood is {self.likelihood!r}, and local fits are derived for gaussian (with one noise) and "
                "logistic. Use VaryingCoefficientGP."
            )
        one_of(self.window, KERNELS, "window")
        one_of(self.degree, (0, 1), "degree")
        one_of(self.instance_kernel, ("linear", "matern"), "instance_kernel")
        words = {"bandwidth": "cv", "ridge": "cv", "lengthscale": "median"}
        for name, word in words.items():
            value = getattr(self, name)
            if isinstance(value, str):
                one_of(value, (word,), name)
            else:
                positive(value, name)
        for name in ("bandwidth_grid", "ridge_grid"):
            values = getattr(self, name)
            if np.ndim(as_array(values, name)) != 1:
                raise ValueError(f"{name} is {values!r}. Give a list of numbers above 0.")
            grid = tuple(values)
            if not grid:
                raise ValueError(f"{name} is empty. Give at least one number above 0.")
            for value in grid:
                positive(value, name)
            object.__setattr__(self, name, tuple(float(v) for v in grid))
        flag(self.intercept, "intercept")
        whole_number(self.n_basis, "n_basis")
        whole_number(self.cv_folds, "cv_folds", 2)
        whole_number(self.cv_max_rows, "cv_max_rows")
        whole_number(self.design_seed, "design_seed", 0)

"""What the varying-coefficient model is compared with (Bussas et al. 2015, section 4): special cases of its kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from zoo.core.context import Context
from zoo.core.fit import Fit
from zoo.core.methods import UnsupportedMethodError
from zoo.data.multitask import MultiTaskData
from zoo.models.varying_coefficient.model import VaryingCoefficientGP
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.support.checks import one_of

__all__ = ["NonisotropicVaryingCoefficients", "PooledGP"]


@dataclass(frozen=True, kw_only=True)
class PooledGP(VaryingCoefficientGP):
    """One Gaussian process for all places and times: of the features, or of the features and t side by side.

    Parameters
    ----------
    inputs : "x" or "xt"
        What the process is a function of. "x": t plays no part, the iid baseline of the paper. "xt": the columns of t
        are further features.
    instance_kernel, instance_lengthscale, likelihood, approximation, ...
        As for :class:`zoo.VaryingCoefficientGP`.
    """

    paper: ClassVar[str] = "bussas2015"
    advice_for_tasks: ClassVar[str] = ""  # it pools the tasks, and a yardstick is to do so

    task_kernel: Any = ()
    inputs: str = "x"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.inputs, ("x", "xt"), "inputs")
        if self.components:
            raise ValueError(
                "task_kernel is given, but nothing varies in PooledGP. Leave it out, or use VaryingCoefficientGP."
            )

    @property
    def needs_features(self) -> bool:  # type: ignore[override]
        """It is a function of the features."""
        return True

    @property
    def needs_t(self) -> bool:  # type: ignore[override]
        """Whether the data must have t."""
        return self.inputs == "xt"

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where t is missing and counts."""
        if isinstance(data, MultiTaskData) and self.inputs == "xt" and data.t is None:
            raise ValueError(
                't is missing, and inputs is "xt". Make the data with t=[...], or use inputs="x".'
            )
        return super().validate(data)

    def design(self, data: MultiTaskData, context: Context | None = None) -> VaryingRows:
        """The rows; with "xt" the columns of t are features too."""
        rows = super().design(data, context)
        if self.inputs == "x" or isinstance(data, VaryingRows):
            return rows
        fitted: Any = None if rows.known is None else _with_t(rows.known)
        return replace(_with_t(rows), known=fitted)

    # With "xt" it does not, and `needs_t` says so.
    design.leaves_t = True  # type: ignore[attr-defined]

    def coefficients(
        self, fit: Fit, t: Any = None, task: Any = None, ci_prob: float = 0.9, random_seed: Any = None
    ) -> xr.Dataset:
        """Raises where t is among the features."""
        if self.inputs == "xt":
            raise UnsupportedMethodError(
                'inputs is "xt": there are no coefficients at t. Use VaryingCoefficientGP.'
            )
        return super().coefficients(fit, t, task, ci_prob, random_seed)


def _with_t(rows: Any) -> VaryingRows:
    names = tuple(f"t {name}" for name in rows.t_names or ())
    return replace(
        rows, inputs=np.column_stack([rows.inputs, rows.times]), feature_names=(*rows.feature_names, *names)
    )


@dataclass(frozen=True, kw_only=True)
class NonisotropicVaryingCoefficients(VaryingCoefficientGP):
    r"""Varying coefficients with a learned covariance between them (Gelfand, Kim, Sirmans & Banerjee 2003), for few
    rows.

    .. math:: w(t) \sim GP(0, a^2 k_T(t, t') \Lambda)

    with :math:`\Lambda` (feature, feature), scaled to trace D, from an inverse-Wishart law in full Bayes (method
    "nuts"), or of maximal evidence (method "exact"). It is :class:`zoo.VaryingCoefficientGP` with
    ``amplitude="covariance"``. Functions at the n rows are sampled, not the n D coefficients of the original, whose
    matrix (n D, n D) is factorised in every step: the posterior is the same.
    """

    paper: ClassVar[str] = "bussas2015"

    amplitude: str | float = "covariance"
    global_coefficients: bool = False

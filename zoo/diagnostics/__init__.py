"""Numbers about fits: scores, leave-one-out estimates, scalars along the chains, variograms; tests of samplers."""

from zoo.diagnostics.calibration import Calibration, sbc
from zoo.diagnostics.grade_scores import cutpoints
from zoo.diagnostics.learning_curve import learning_curve
from zoo.diagnostics.leave_one_out import loo
from zoo.diagnostics.quantities import scalar_quantities
from zoo.diagnostics.rank_bands import band_p_values, rank_band
from zoo.diagnostics.scalars import scalar_summaries
from zoo.diagnostics.scores import (
    ExplainedVariance,
    LabelScores,
    compare,
    explained_variance,
    f1_scores,
    log_loss,
    negative_log_predictive_density,
)
from zoo.diagnostics.sequential import SequentialResult, kernel_test, sequential_test
from zoo.diagnostics.variogram import variogram

__all__ = [
    "Calibration",
    "ExplainedVariance",
    "LabelScores",
    "SequentialResult",
    "band_p_values",
    "compare",
    "cutpoints",
    "explained_variance",
    "f1_scores",
    "kernel_test",
    "learning_curve",
    "log_loss",
    "loo",
    "negative_log_predictive_density",
    "rank_band",
    "sbc",
    "scalar_quantities",
    "scalar_summaries",
    "sequential_test",
    "variogram",
]

"""Numbers about a fit: scores of predictions, leave-one-out estimates, scalars along the chains, variograms."""

from zoo.diagnostics.leave_one_out import loo
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
from zoo.diagnostics.variogram import variogram

__all__ = [
    "ExplainedVariance",
    "LabelScores",
    "compare",
    "explained_variance",
    "f1_scores",
    "log_loss",
    "loo",
    "negative_log_predictive_density",
    "scalar_summaries",
    "variogram",
]

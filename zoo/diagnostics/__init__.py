"""Numbers about a fit: scores of its predictions, scalars to follow along the chains."""

from zoo.diagnostics.scalars import scalar_summaries
from zoo.diagnostics.scores import (
    ExplainedVariance,
    LabelScores,
    compare,
    explained_variance,
    f1_scores,
    log_loss,
)

__all__ = [
    "ExplainedVariance",
    "LabelScores",
    "compare",
    "explained_variance",
    "f1_scores",
    "log_loss",
    "scalar_summaries",
]

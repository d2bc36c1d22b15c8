"""Pictures of a fit.

Each function returns a matplotlib Figure and shows nothing by itself. With ``ax`` it draws into a panel of yours.
Some draw with plotly or bokeh as well, by ``backend=``, and ``interactive_map`` writes a file.
Figures are pyplot's: ``plt.show()`` shows them, and in a notebook a semicolon after the call avoids a second copy.
``grid`` makes the places of a map.
"""

from zoo.plots.calibration import rank_ecdf
from zoo.plots.coefficients import coefficient_curve, coefficient_map
from zoo.plots.correlation import task_correlation
from zoo.plots.forest import coefficient_forest
from zoo.plots.interactive import interactive_map
from zoo.plots.kernel import kernel
from zoo.plots.learning import learning_curve
from zoo.plots.places import grid
from zoo.plots.predictions import predicted_vs_observed
from zoo.plots.predictive_by_task import predictive_by_task
from zoo.plots.relevance import relevance_bars, relevance_map, relevance_path
from zoo.plots.shrinkage import shrinkage
from zoo.plots.task_map import task_map
from zoo.plots.traces import objective_trace, trace_rank
from zoo.plots.variograms import variogram

__all__ = [
    "coefficient_curve",
    "coefficient_forest",
    "coefficient_map",
    "grid",
    "interactive_map",
    "kernel",
    "learning_curve",
    "objective_trace",
    "predicted_vs_observed",
    "predictive_by_task",
    "rank_ecdf",
    "relevance_bars",
    "relevance_map",
    "relevance_path",
    "shrinkage",
    "task_correlation",
    "task_map",
    "trace_rank",
    "variogram",
]

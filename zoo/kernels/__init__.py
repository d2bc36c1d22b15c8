"""Covariance functions beside those of ``pm.gp.cov``, and what is done with any of them as numbers.

``MeanRegularised``, ``TaskPrecision``, ``Clustered``, ``GraphLaplacian``, ``Tree``, ``FeatureMap``, ``ICM`` and
``LMC`` are covariances on (x, task); ``TaskKernel`` is the base of your own. ``kernel_matrix`` and ``kernel_diagonal``
evaluate a covariance at dense or sparse inputs; ``describe`` and ``restore`` turn one into nested tuples and back,
``kernel_parameters`` and ``with_parameters`` list and replace what may be learned; ``TaskGraph`` says which tasks are
related, ``TaskTree`` names the nodes of a hierarchy, ``pca_metric`` estimates a metric of the features; ``Basis``
holds the features that its matrix at the data makes; ``LearnedKernel`` is the kernel that a fit learned, for ``pm.gp``
and for scikit-learn.
"""

from zoo.kernels.basis import MAX_INPUTS, Basis
from zoo.kernels.clusters import Clustered
from zoo.kernels.coregionalisation import ICM, LMC
from zoo.kernels.description import WORDS, describe, from_word, restore
from zoo.kernels.evaluate import kernel_diagonal, kernel_matrix
from zoo.kernels.feature_map import FeatureMap
from zoo.kernels.graph_laplacian import GraphLaplacian
from zoo.kernels.learned import LearnedKernel, LearnedMean
from zoo.kernels.linear_form import LinearForm, linear_form
from zoo.kernels.mean_regularised import MeanRegularised
from zoo.kernels.parameters import Parameter, kernel_parameters, with_parameters
from zoo.kernels.regulariser import Regulariser
from zoo.kernels.task_graph import TaskGraph
from zoo.kernels.task_kernel import TaskKernel
from zoo.kernels.task_metric import pca_metric
from zoo.kernels.task_precision import TaskPrecision
from zoo.kernels.task_tree import TaskTree
from zoo.kernels.tree import Tree

__all__ = [
    "ICM",
    "LMC",
    "MAX_INPUTS",
    "WORDS",
    "Basis",
    "Clustered",
    "FeatureMap",
    "GraphLaplacian",
    "LearnedKernel",
    "LearnedMean",
    "LinearForm",
    "MeanRegularised",
    "Parameter",
    "Regulariser",
    "TaskGraph",
    "TaskKernel",
    "TaskPrecision",
    "TaskTree",
    "Tree",
    "describe",
    "from_word",
    "kernel_diagonal",
    "kernel_matrix",
    "kernel_parameters",
    "linear_form",
    "pca_metric",
    "restore",
    "with_parameters",
]

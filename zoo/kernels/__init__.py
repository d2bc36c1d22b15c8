"""Covariance functions beside those of ``pm.gp.cov``, and what is done with any of them as numbers.

``kernel_matrix`` and ``kernel_diagonal`` evaluate a covariance at dense or sparse inputs; ``describe`` and ``restore``
turn one into nested tuples and back; ``Basis`` holds the features that its matrix at the data makes;
``LearnedKernel`` is the kernel that a fit learned, for ``pm.gp`` and for scikit-learn.
"""

from zoo.kernels.basis import MAX_INPUTS, Basis
from zoo.kernels.description import WORDS, describe, from_word, restore
from zoo.kernels.evaluate import kernel_diagonal, kernel_matrix
from zoo.kernels.learned import LearnedKernel, LearnedMean

__all__ = [
    "MAX_INPUTS",
    "WORDS",
    "Basis",
    "LearnedKernel",
    "LearnedMean",
    "describe",
    "from_word",
    "kernel_diagonal",
    "kernel_matrix",
    "restore",
]

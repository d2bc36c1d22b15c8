"""Mistakes in covariances of tasks and in laws of covariance matrices."""

from __future__ import annotations

from tests.statistical.mutants.mutant import MANY_TASKS, Mutant

_TREES = (
    "tests/kernels/test_tree.py::test_tree_in_closed_form",
    "tests/kernels/test_tree.py::test_tree_is_the_covariance_of_the_hierarchical_model",
)
_DISTRIBUTIONS = ("tests/distributions/test_inverse_wishart.py",)

MUTANTS: tuple[Mutant, ...] = (
    # ---------------------------------------------------------------- kernels
    Mutant(
        "tree_loadings",
        "a step that several tasks share counts for each of them alone",
        "zoo/kernels/tree.py",
        "alone = below[above] == 1",
        "alone = below[above] <= 2",
        (f"{MANY_TASKS}::test_entries_of_many_tasks_are_those_of_the_matrix[tree]",),
    ),
    Mutant(
        "transposed_tree",
        "the tree covariance as bussas2015 prints it, transposed: common descendants for common ancestors",
        "zoo/kernels/tree.py",
        "return (above * self.steps() ** 2) @ above.T",
        "above = self._ancestors.T[self.tasks] * 1.0\n        return (above * self.steps() ** 2) @ above.T",
        _TREES,
    ),
    Mutant(
        "steps_not_squared",
        "standard deviations of a tree's steps for their variances",
        "zoo/kernels/tree.py",
        "return (above * self.steps() ** 2) @ above.T",
        "return (above * self.steps()) @ above.T",
        _TREES,
    ),
    # ---------------------------------------------------------------- distributions
    Mutant(
        "forgotten_jacobian",
        "the factor of an inverse-Wishart matrix has the matrix's density, without the Jacobian",
        "zoo/distributions/inverse_wishart_cholesky.py",
        "return covariance_logp(log_diagonal, whitened, nu, scale_chol) + jacobian",
        "return covariance_logp(log_diagonal, whitened, nu, scale_chol) + 0.0 * jacobian",
        _DISTRIBUTIONS,
    ),
    Mutant(
        "transform_jacobian",
        "the transform of that factor counts its diagonal's powers from zero",
        "zoo/distributions/inverse_wishart_cholesky.py",
        "return pt.sum((pt.arange(p) + 1.0) * of_scale - p * logs, axis=-1)",
        "return pt.sum((pt.arange(p) + 1.0) * of_scale - (p - 1.0) * logs, axis=-1)",
        _DISTRIBUTIONS,
    ),
    Mutant(
        "conditioned_jacobian",
        "NUTS forgets the Jacobian of the white variables given normal responses",
        "zoo/distributions/conditioned_normal.py",
        "return -pt.sum(pt.log(pt.diagonal(inputs[-1])))",
        "return 0.0 * pt.sum(inputs[-1])",
        ("tests/distributions/test_conditioned_normal.py",),
    ),
    Mutant(
        "inverse_wishart_power",
        "power nu + p of the determinant for nu + p + 1",
        "zoo/distributions/bartlett.py",
        "- (nu + p + 1) * pt.sum(log_diagonal, axis=-1)",
        "- (nu + p) * pt.sum(log_diagonal, axis=-1)",
        _DISTRIBUTIONS,
    ),
)

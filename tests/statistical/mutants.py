"""Plant known mistakes in a copy of the package, one at a time, and see whether the tests catch each.

    python -m tests.statistical.mutants [--only WORD]

A mutant is caught when one of its tests fails and none of them failed before. A survivor is a missing test: the
script ends with status 1. Each mutant names the tests that should catch it, so that the whole takes minutes and not
days; the test suite as a whole catches it all the more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]

_ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 900.0


class Mutant(NamedTuple):
    """A mistake: in ``file`` the text ``old``, which stands there once, becomes ``new``; ``tests`` should see it."""

    name: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_KERNELS = "tests/statistical/test_kernels.py"
_LEVELS = ("tests/data/test_out_of_fold.py",)
_MAX_MARGIN = (
    f"{_KERNELS}::test_max_margin[hinge, more tasks than features]",
    f"{_KERNELS}::test_max_margin[hinge, more features than tasks]",
)
_COLLAPSED = ("tests/inference/test_collapsed_covariance.py",)
_COLLAPSED_ROWS = ("tests/inference/test_collapsed_rows.py",)
_ONE_COEFFICIENT = ("tests/models/test_max_margin.py::test_one_coefficient_against_quadrature",)
_NIW = (
    f"{_KERNELS}::test_against_joint_draws[population]",
    f"{_KERNELS}::test_against_joint_draws[population, group moves, noise by task]",
)
_RARE = (
    f"{_KERNELS}::test_against_joint_draws[matrix normal, logistic, rare]",
    f"{_KERNELS}::test_against_joint_draws[population, logistic, rare]",
)
_RARE_UNIT = ("tests/inference/test_likelihood_moves.py",)
_LOOSE_UNIT = ("tests/inference/test_collapsed_population.py",)
_LOOSE = (
    f"{_KERNELS}::test_against_joint_draws[population, loose]",
    f"{_KERNELS}::test_against_joint_draws[population, loose, some sweeps]",
    f"{_KERNELS}::test_against_joint_draws[population, one loose, noise by task]",
    f"{_KERNELS}::test_against_joint_draws[population, groups]",
)


_SHARED = (
    f"{_KERNELS}::test_against_joint_draws[population, shared, learned scale, noise by task, group moves]",
)
_CROSSED = (f"{_KERNELS}::test_against_joint_draws[population, crossed]",)
_SHARD = ("tests/inference/test_shard.py",)
_MANY = ("tests/inference/test_many_shared.py",)
_SHARED_MATRIX_NORMAL = ("tests/inference/test_shared_coefficients.py",)


def _cell(prior: str, likelihood: str) -> tuple[str, ...]:
    """The sequential test of a prior with a likelihood."""
    return (f"{_KERNELS}::test_against_joint_draws[{prior}, {likelihood}]",)


_HALF_T = tuple(
    f"{_KERNELS}::test_against_joint_draws[population, half-t{rest}]"
    for rest in ("", ", noise by task, no group moves", ", all loose", ", groups")
)
_LEARNED_SCALES = ("tests/statistical/test_learned_scales.py",)
_EM = ("tests/inference/test_em.py",)
_BUFFET = ("tests/inference/test_buffet.py",)
_TREES = (
    "tests/kernels/test_task_kernel.py::test_tree_in_closed_form",
    "tests/kernels/test_task_kernel.py::test_tree_is_the_covariance_of_the_hierarchical_model",
)
_DISTRIBUTIONS = ("tests/distributions/test_inverse_wishart.py",)

_PROBIT = ("tests/inference/test_probit.py",)
_ORDINAL = ("tests/inference/test_ordinal.py",)
_JOINT = ("tests/inference/test_joint_moves.py",)
_RESPONSES = ("tests/inference/test_augmented_responses.py",)

_KEPT = ("tests/core/test_keep.py",)
_KNOWN_TASKS = ("tests/inference/test_known_tasks.py",)

_MANY_TASKS = "tests/models/test_kernel_machine_many_tasks.py"

_OWN_MODELS = ("tests/steps/test_likelihood_moves.py::test_moves_and_scales_keep_the_joint_law",)

_SELECTION = "tests/models/test_feature_selection.py"

MUTANTS: tuple[Mutant, ...] = (
    # ---------------------------------------------------------------- blocks of a user's own model
    Mutant(
        "surrogate_taken_as_symmetric",
        "a block that a parabola of the likelihood proposes is taken as if the proposal were symmetric",
        "zoo/steps/likelihood_moves.py",
        "out[component[n]] += gain + change * (0.5 * w[r] * (e[r] + old[r]) - v[r])",
        "out[component[n]] += gain",
        _OWN_MODELS,
    ),
    Mutant(
        "scale_with_surrogate_not_corrected",
        "a scale that is moved with its coefficients under parabolas is taken as if the proposal were symmetric",
        "zoo/steps/interweaving.py",
        "gain -= float(change @ slope - 0.5 * (w * change) @ change)",
        "gain -= 0.0",
        _OWN_MODELS,
    ),
    Mutant(
        "block_given_older_parts",
        "what observed rows add to the law of a part is kept although another part has moved",
        "zoo/steps/likelihood_moves.py",
        "self._alone = sum(part.observed for part in self.parts) == 1",
        "self._alone = True",
        ("tests/steps/test_likelihood_moves.py::test_sums_that_are_kept_are_those_that_would_be_made",),
    ),
    # ---------------------------------------------------------------- features that are selected
    Mutant(
        "copies_alone",
        "copies of a feature are drawn without regard to the other features",
        "zoo/inference/ard/copies.py",
        "return (self.kept + permuted)[:, self.unit]",
        "return rng.permuted(np.broadcast_to(self.kept + self.rest, (size, len(self.rest))), axis=1)[:, self.unit]",
        (
            f"{_SELECTION}::test_copies_go_with_other_features_and_tasks_as_the_feature_does",
            f"{_SELECTION}::test_p_values_are_uniform_under_the_hypothesis[linear]",
        ),
    ),
    Mutant(
        "selection_sees_the_feature",
        "each feature is tested by a mode that was fitted with this feature, and not without it",
        "zoo/models/multi_laplace/selection.py",
        "inputs[:, j] = 0.0",
        "inputs[:, j] *= 1.0",
        (
            f"{_SELECTION}::test_p_values_are_uniform_under_the_hypothesis[linear]",
            f"{_SELECTION}::test_other_fields",
        ),
    ),
    Mutant(
        "score_without_trace",
        "the trace is left out of the gain of evidence by a feature",
        "zoo/inference/ard/feature_scores.py",
        "(np.outer(alpha, alpha) - cho_solve(factor, np.eye(len(alpha))))",
        "np.outer(alpha, alpha)",
        (f"{_SELECTION}::test_scores_are_derivatives_of_the_evidence_by_scipy",),
    ),
    # ---------------------------------------------------------------- kernel machines of many tasks
    Mutant(
        "machine_shared_part",
        "each task that is drawn again has its own draw of the part that all tasks share",
        "zoo/latent/task_weights.py",
        "own @ np.tensordot(self.W[at], v, axes=1)",
        "own @ np.stack([np.tensordot(w, self.draw_shared(rng, size), axes=1) for w in self.W[at]])",
        (f"{_MANY_TASKS}::test_tasks_that_are_drawn_again_have_their_joint_law",),
    ),
    Mutant(
        "machine_common_part",
        "unseen tasks of a fit without coefficients have what all share without its scale",
        "zoo/models/kernel_machine/tasks.py",
        "conditional.W[0, 0] * conditional.R @ v",
        "conditional.R @ v",
        (f"{_MANY_TASKS}::test_unseen_tasks_have_their_joint_law",),
    ),
    Mutant(
        "machine_own_variance",
        "what a task has of its own under kernel (22) forgets the number of tasks",
        "zoo/models/kernel_machine/tasks.py",
        "np.broadcast_to(square * lam * n_tasks, shape)",
        "np.broadcast_to(square * lam, shape)",
        (f"{_MANY_TASKS}::test_unseen_tasks_have_their_joint_law",),
    ),
    Mutant(
        "machine_small_factor",
        "small matrices of the tasks are factorised with a wrong index",
        "zoo/latent/task_weights.py",
        "total -= P[i, k] * P[j, k]",
        "total -= P[i, k] * P[j, j]",
        (f"{_MANY_TASKS}::test_the_law_is_that_of_dense_algebra[False-3]",),
    ),
    Mutant(
        "prior_density_low_rank",
        "the log prior of coefficients forgets what the columns of the covariance of tasks add to its determinant",
        "zoo/core/prior_density.py",
        "half_log_det = pt.sum(pt.log(pt.diagonal(inner))) + 0.5",
        "half_log_det = 0.5",
        (f"{_MANY_TASKS}::test_the_prior_density_needs_no_matrix_of_tasks",),
    ),
    Mutant(
        "tree_loadings",
        "a step that several tasks share counts for each of them alone",
        "zoo/kernels/tree.py",
        "alone = below[above] == 1",
        "alone = below[above] <= 2",
        (f"{_MANY_TASKS}::test_entries_of_many_tasks_are_those_of_the_matrix[tree]",),
    ),
    # ---------------------------------------------------------------- fits that keep less than all draws
    Mutant(
        "known_tasks_noise",
        "the rows of a task count by the inverse of the noise instead of its square",
        "zoo/inference/gibbs/known_tasks.py",
        "precision[b] = 1.0 / (sd * sd)",
        "precision[b] = 1.0 / sd",
        _KNOWN_TASKS,
    ),
    Mutant(
        "known_tasks_mean",
        "the coefficients of a task are drawn as if the mean of the population were zero",
        "zoo/inference/gibbs/known_tasks.py",
        "gap[k, b] -= S[k, j] * mean[j, b]",
        "gap[k, b] -= 0.0",
        _KNOWN_TASKS,
    ),
    Mutant(
        "known_tasks_draws",
        "draws of coefficients have the law of the population around the mean of the task",
        "zoo/inference/gibbs/known_tasks.py",
        "u[j, b] -= F[i, j, b] * u[i, b]",
        "u[j, b] -= 0.0",
        _KNOWN_TASKS,
    ),
    Mutant(
        "known_tasks_shared",
        "coefficients that are drawn again forget what shared coefficients say of the responses",
        "zoo/models/niw/known_tasks.py",
        "linear = linear - _sums_of_shared(",
        "linear = linear - 0.0 * _sums_of_shared(",
        (f"{_KEPT[0]}::test_predictions_are_the_exact_mixture_over_the_population",),
    ),
    Mutant(
        "lean_squares",
        "the sum of squares of a chain is taken around the mean of the draws before, on both sides",
        "zoo/inference/run/lean.py",
        "squares[i] += apart * (value[i] - mean[i])",
        "squares[i] += apart * apart",
        (f"{_KEPT[0]}::test_moments_are_those_of_the_draws",),
    ),
    Mutant(
        "lean_between",
        "the standard deviation of several chains leaves out how their means differ",
        "zoo/inference/run/lean.py",
        "np.sqrt(within + between)",
        "np.sqrt(within + 0.0 * between)",
        (f"{_KEPT[0]}::test_moments_are_those_of_the_draws",),
    ),
    Mutant(
        "lean_checkpoint",
        "a chain that goes on from a checkpoint begins its moments anew",
        "zoo/inference/run/lean.py",
        "                value[...] = new\n",
        "                value[...] = 0.0 * value\n",
        (f"{_KEPT[0]}::test_a_checkpoint_goes_on_with_the_moments",),
    ),
    Mutant(
        "noise_of_other_tasks",
        "a prediction of some tasks takes the noise of the first ones",
        "zoo/core/drawn.py",
        "posterior.isel(task=[position[name] for name in names])",
        "posterior.isel(task=range(len(names)))",
        ("tests/core/test_predictive_law.py::test_some_tasks_are_predicted_as_among_all[em]",),
    ),
    Mutant(
        "task_sums_weight",
        "the linear term of weighted rows has the roots of their weights once",
        "zoo/inference/gibbs/task_sums.py",
        "r[i] += xi * (h * y[n])",
        "r[i] += xi * y[n]",
        ("tests/inference/test_task_sums.py",),
    ),
    Mutant(
        "em_variances_weight",
        "predictive variances after EM do not see the weights of the rows",
        "zoo/inference/em/conditional.py",
        "A = rows.scaled(t, inputs)[0] @ root / noises[t]\n        if not len(A):",
        "A = inputs[rows.of(t)[0]] @ root / noises[t]\n        if not len(A):",
        ("tests/inference/test_em.py::test_a_row_of_weight_two_is_two_rows",),
    ),
    # ---------------------------------------------------------------- augmentations of likelihoods
    Mutant(
        "truncated_normal_shift",
        "truncated normal variables are accepted as if their exponential law had the rate of the bound",
        "zoo/inference/gibbs/augmented_probit.py",
        "gap = (e - 1.0) / rate",
        "gap = e / rate",
        _PROBIT,
    ),
    Mutant(
        "probit_side",
        "the latent variable of a probit label lies on the positive side whatever the label",
        "zoo/inference/gibbs/augmented_probit.py",
        "v[n] = y[n] * normal_excess",
        "v[n] = normal_excess",
        _PROBIT,
    ),
    Mutant(
        "interval_mirror",
        "a normal variable in an interval left of zero is taken for its mirror image",
        "zoo/inference/gibbs/normal_interval.py",
        "return width - _within(",
        "return _within(",
        (*_ORDINAL, *_cell("population", "ordinal")),
    ),
    Mutant(
        "cut_point_prior",
        "a cut point moves without the prior of the grade above it",
        "zoo/inference/gibbs/augmented_ordinal.py",
        "total += _log_density_of_width(above - new, law_above)",
        "total += 0.0",
        (*_ORDINAL, *_cell("population", "ordinal")),
    ),
    Mutant(
        "cut_point_jacobian",
        "the width of a grade has the density of its logarithm",
        "zoo/inference/gibbs/augmented_ordinal.py",
        "return log_law(law, u) - u",
        "return log_law(law, u)",
        (*_ORDINAL, *_cell("population", "ordinal")),
    ),
    Mutant(
        "cut_point_rows",
        "a cut point is drawn from the rows of the grade below it alone",
        "zoo/inference/gibbs/augmented_ordinal.py",
        "for i in range(start, stop):",
        "for i in range(start, middle):",
        (*_ORDINAL, *_cell("population", "ordinal")),
    ),
    Mutant(
        "joint_scale_of_all_tasks",
        "coefficients and cut points grow together with the Jacobian of one direction instead of D",
        "zoo/inference/gibbs/joint_moves.py",
        "[[-nu * D, 0.0, 0.0, -0.5 * np.trace(P)]]",
        "[[-nu, 0.0, 0.0, -0.5 * np.trace(P)]]",
        _JOINT,
    ),
    Mutant(
        "joint_scale_of_a_task",
        "the coefficients of a task grow as if the mean of the population were zero",
        "zoo/inference/gibbs/joint_moves.py",
        "W @ (P @ mu), -0.5",
        "0.0 * W @ (P @ mu), -0.5",
        _JOINT,
    ),
    Mutant(
        "joint_shift_without_the_other_tasks",
        "a task is shifted as if it did not depend on the other tasks",
        "zoo/inference/gibbs/joint_moves.py",
        "-(P[t] @ H @ O @ v), P[t, t]",
        "-(P[t, t] * H[t] @ O @ v), P[t, t]",
        _JOINT,
    ),
    Mutant(
        "joint_scale_without_prior_of_widths",
        "cut points grow with the coefficients without their own prior",
        "zoo/inference/gibbs/augmented_ordinal.py",
        "total += log_law(laws.widths[i], math.log(widths[i, group]) + s)",
        "total += 0.0",
        _JOINT,
    ),
    Mutant(
        "joint_shift_without_second_grade",
        "a shift reads the rows of the lowest grade alone",
        "zoo/inference/gibbs/augmented_ordinal.py",
        "elif y[n] == 2.0:",
        "elif y[n] == -2.0:",
        _JOINT,
    ),
    Mutant(
        "choice_prior_of_factor",
        "the lower factor of a covariance forgets the density of the mean beside it",
        "zoo/inference/gibbs/choice_population.py",
        "total -= (nu + 2.0 + i) * np.log(L[i, i])",
        "total -= (nu + 1.0 + i) * np.log(L[i, i])",
        ("tests/inference/test_choices.py::test_the_prior_of_the_factor_is_that_of_the_covariance",),
    ),
    Mutant(
        "choice_threshold_without_reference",
        "the threshold of a person's coefficients forgets the normal law that they are drawn around",
        "zoo/inference/gibbs/choice_moves.py",
        "            level -= _quadratic(reference, t, W[t])\n",
        "            pass\n",
        ("tests/inference/test_choices.py::test_the_conditional_law_of_a_task_by_importance_sampling",),
    ),
    Mutant(
        "choice_density_left_behind",
        "the densities of people stay as they were when the population moves them",
        "zoo/inference/gibbs/choice_population.py",
        "    density[:] = then\n",
        "",
        ("tests/inference/test_choices.py::test_densities_are_those_of_the_coefficients",),
    ),
    Mutant(
        "choice_without_its_largest",
        "the largest utility is taken out of the exponentials and not put back",
        "zoo/inference/gibbs/choice_likelihood.py",
        "(own - top - np.log(spread))",
        "(own - np.log(spread))",
        ("tests/inference/test_choices.py::test_density_and_derivatives",),
    ),
    Mutant(
        "laplace_shape",
        "the inverse Gaussian variable of Laplace noise is scaled by c instead of its square",
        "zoo/inference/gibbs/augmented_real_responses.py",
        "w[n] *= c * c",
        "w[n] *= c",
        _RESPONSES,
    ),
    Mutant(
        "zero_inflated_information",
        "the expected information of counts takes every zero for a structural one",
        "zoo/likelihoods/zero_inflated.py",
        "structural = pt.sigmoid(log_one - log_rest - log_zero)",
        "structural = 1.0",
        ("tests/likelihoods/test_zero_inflated.py::test_information_is_the_expected_square_of_the_slope",),
    ),
    # ---------------------------------------------------------------- seams
    Mutant(
        "recomputed_named_variables",
        "the built model lets PyMC compute named variables from auxiliary ones drawn from the prior",
        "zoo/core/pymc_models.py",
        "return [*super().basic_RVs, *named]",
        "return [*super().basic_RVs, *named[:0]]",
        ("tests/core/test_pymc_models.py::test_a_copy_of_the_built_model_reads_posteriors_too",),
    ),
    Mutant(
        "prior_scale_without_trace",
        "the prior density of the moved scale forgets that one covariance has a given trace",
        "zoo/core/prior_density.py",
        "n_features * (n_features + 1) / 2.0 - 1.0 -",
        "n_features * (n_features + 1) / 2.0 -",
        ("tests/core/test_pymc_models.py::test_prior_density_by_change_of_variables",),
    ),
    Mutant(
        "weightless_normaliser",
        "the normaliser of the learned C counts rows and not their weights",
        "zoo/likelihoods/epsilon_insensitive.py",
        "rows = sums_by_group(task, weight, len(C))",
        "rows = sums_by_group(task, np.ones(len(f)), len(C))",
        ("tests/core/test_weights.py::test_the_learned_C_of_weighted_rows_is_that_of_repeated_rows",),
    ),
    Mutant(
        "noise_of_proposals",
        "noises proposed for a new task are not weighed by their prior over the proposal",
        "zoo/models/multi_laplace/new_tasks.py",
        "np.log(v) - B * v + np.log(B)",
        "0.0 * v",
        ("tests/models/test_multi_laplace.py::test_condition_draws_the_noise_that_the_labels_tell",),
    ),
    Mutant(
        "mixture_without_spread",
        "the density of a mixture of normal laws without their standard deviations",
        "zoo/core/row_laws.py",
        "parts = -0.5 * z**2 - np.log(block.sd) -",
        "parts = -0.5 * z**2 -",
        ("tests/core/test_predictive_law.py::test_moments_and_density_of_a_mixture",),
    ),
    # ---------------------------------------------------------------- any likelihood under any prior
    Mutant(
        "augmented_sums_by_row",
        "linear terms of an augmented population go without the input",
        "zoo/inference/gibbs/augmented_population.py",
        "linear[block, i, lane] += v[n] * x[i]",
        "linear[block, i, lane] += v[n]",
        _cell("population", "logistic"),
    ),
    Mutant(
        "logistic_at_zero",
        "the Polya-Gamma variables of labels are drawn at f = 0",
        "zoo/inference/gibbs/augmented_discrete_responses.py",
        "w[n] = polya_gamma(rng, weight[n], f[n])",
        "w[n] = polya_gamma(rng, weight[n], 0.0)",
        ("tests/inference/test_augmented_responses.py", *_cell("population", "logistic")),
    ),
    Mutant(
        "counts_without_offset",
        "the linear term of counts forgets the logarithm of the dispersion",
        "zoo/inference/gibbs/augmented_discrete_responses.py",
        "v[n] = 0.5 * weight[n] * (y[n] - d) + w[n] * log_d",
        "v[n] = 0.5 * weight[n] * (y[n] - d)",
        ("tests/inference/test_augmented_responses.py", *_cell("population", "negative binomial")),
    ),
    Mutant(
        "student_t_shape",
        "the gamma variable of a Student-t row has nu for nu + 1",
        "zoo/inference/gibbs/augmented_real_responses.py",
        "rng.standard_gamma(0.5 * weight[n] * (nu + 1.0))",
        "rng.standard_gamma(0.5 * weight[n] * nu)",
        ("tests/inference/test_augmented_responses.py", *_cell("population", "student t")),
    ),
    Mutant(
        "gaussian_shape",
        "the noise of Gaussian rows of a matrix-normal prior counts the rows twice",
        "zoo/inference/gibbs/augmented_real_responses.py",
        "return -size * new - 0.5 * squares * math.exp(-2.0 * new) + log_law(law, new)",
        "return -2.0 * size * new - 0.5 * squares * math.exp(-2.0 * new) + log_law(law, new)",
        ("tests/inference/test_augmented_responses.py", *_cell("matrix normal", "gaussian")),
    ),
    # ---------------------------------------------------------------- li2014
    Mutant(
        "half_cross_term",
        "li2014's printed conditional has a factor 1/2 before the other tasks' coefficients",
        "zoo/inference/gibbs/matrix_normal_sweep.py",
        "draw = r[t] - O @ others\n",
        "draw = r[t] - 0.5 * (O @ others)\n",
        _MAX_MARGIN,
    ),
    Mutant(
        "inverse_of_the_entry",
        "1 / R_tt for the entry (t, t) of the inverse of R in the precision of a task",
        "zoo/inference/gibbs/matrix_normal_sweep.py",
        "factor = np.linalg.cholesky(S[t] + P[t, t] * O)",
        "factor = np.linalg.cholesky(S[t] + O / np.linalg.inv(P)[t, t])",
        _MAX_MARGIN,
    ),
    Mutant(
        "degrees_of_freedom_of_tasks",
        "one degree of freedom too few for the covariance of tasks",
        "zoo/inference/gibbs/matrix_normal_sweep.py",
        "wishart(rng, nu_task + n_features, ",
        "wishart(rng, nu_task + n_features - 1, ",
        _MAX_MARGIN,
    ),
    Mutant(
        "degrees_of_freedom_of_features",
        "one degree of freedom too many for the covariance of features",
        "zoo/inference/gibbs/matrix_normal_sweep.py",
        "wishart(rng, nu_feature + n_tasks, ",
        "wishart(rng, nu_feature + n_tasks + 1, ",
        _MAX_MARGIN,
    ),
    Mutant(
        "bartlett_off_by_one",
        "degrees of freedom of Bartlett's diagonal counted from one",
        "zoo/inference/gibbs/draws.py",
        "rng.chisquare(degrees - i)",
        "rng.chisquare(degrees - i - 1)",
        ("tests/inference/test_draws.py",),
    ),
    Mutant(
        "inverse_gaussian_shape",
        "shape 2 for the shape 1 of the weights' inverse-Gaussian law",
        "zoo/inference/gibbs/draws.py",
        "a = mu[i] * z2[i]",
        "a = 0.5 * mu[i] * z2[i]",
        _ONE_COEFFICIENT,
    ),
    Mutant(
        "hinge_working_response",
        "the hinge's linear term without the margin's part",
        "zoo/likelihoods/hinge.py",
        "v[n] = C * y[n] * (C * margin * w[n] + 1.0)",
        "v[n] = C * y[n] * (C * w[n] * 0.0 + 1.0)",
        _ONE_COEFFICIENT,
    ),
    Mutant(
        "scale_move_without_jacobian",
        "the scale moves of features forget a power of the scale",
        "zoo/inference/gibbs/group_moves.py",
        "a = np.exp(slice_log_scale(rng, -nu, O[d, d], q, q + slope, 0.0))",
        "a = np.exp(slice_log_scale(rng, -nu - 2.0, O[d, d], q, q + slope, 0.0))",
        _MAX_MARGIN,
    ),
    Mutant(
        "collapsed_scale_without_jacobian",
        "the scales with the other covariance integrated out forget the Jacobian",
        "zoo/inference/gibbs/collapsed_covariance.py",
        "linear = -(nu + n_other + 1.0 - nu_other) + (n + 1.0)",
        "linear = -(nu + n_other + 1.0 - nu_other)",
        _COLLAPSED,
    ),
    Mutant(
        "collapsed_power",
        "the integral over the other covariance has the power of its prior, without the coefficients' share",
        "zoo/inference/gibbs/collapsed_covariance.py",
        "power = nu_other + n\n",
        "power = nu_other\n",
        _COLLAPSED,
    ),
    Mutant(
        "collapsed_inverse_not_updated",
        "later directions see the inverse of the covariance as it was before the first move",
        "zoo/inference/gibbs/collapsed_covariance.py",
        "inverse[r, t] -= left * Np[t] + right * Nw[t]",
        "inverse[r, t] -= 0.0 * (left * Np[t] + right * Nw[t])",
        _COLLAPSED,
    ),
    Mutant(
        "collapsed_directions_of_the_covariance",
        "the directions are eigenvectors of the covariance, which the moves change",
        "zoo/inference/gibbs/collapsed_covariance.py",
        "basis = np.ascontiguousarray(np.linalg.eigh(gram)[1])",
        "basis = np.ascontiguousarray(np.linalg.eigh(precision)[1])",
        _COLLAPSED,
    ),
    Mutant(
        "collapsed_order_swapped",
        "the feature covariance moves with that of tasks integrated out, which is not drawn anew after it",
        "zoo/inference/gibbs/matrix_normal_sweep.py",
        "        feature_moves(rng, S, r, ones, H, O, nu_feature)\n"
        "        draw_feature_precision(rng, H, P, O, nu_feature)\n",
        "        feature_moves(rng, S, r, ones, H, O, nu_feature)\n"
        "        draw_feature_precision(rng, H, P, O, nu_feature)\n"
        "    if both:\n"
        "        collapsed_moves(rng, H.T @ H, O, nu_feature, nu_task, n_tasks, n_features)\n",
        _MAX_MARGIN,
    ),
    Mutant(
        "collapsed_rows_power",
        "a task with the covariance of tasks integrated out has the power of the prior, without its own features",
        "zoo/inference/gibbs/collapsed_rows.py",
        "shape = 0.5 * (nu + len(apart))",
        "shape = 0.5 * nu",
        _COLLAPSED_ROWS,
    ),
    Mutant(
        "collapsed_rows_not_left_out",
        "a task is drawn with itself among the other tasks",
        "zoo/inference/gibbs/collapsed_rows.py",
        "return inverse + (c / left) * np.outer(g, g)",
        "return inverse + 0.0 * np.outer(g, g)",
        _COLLAPSED_ROWS,
    ),
    Mutant(
        "collapsed_rows_not_put_in",
        "later tasks see a task at its centre",
        "zoo/inference/gibbs/collapsed_rows.py",
        "inverse = put_in(A, draw - m, c)",
        "inverse = put_in(A, 0.0 * m, c)",
        (f"{_KERNELS}::test_max_margin[hinge, scales, more tasks than features]",),
    ),
    Mutant(
        "collapsed_scale_of_a_task",
        "the scale of a task under the loss forgets the Jacobian",
        "zoo/inference/gibbs/collapsed_rows_loss.py",
        "law[4] = n_features",
        "law[4] = 0.0",
        _COLLAPSED_ROWS,
    ),
    Mutant(
        "ellipse_without_centre",
        "the elliptical slice of a task turns around zero, whatever the other tasks say",
        "zoo/inference/gibbs/collapsed_rows_loss.py",
        "H[t] = m + apart",
        "H[t] = apart",
        _COLLAPSED_ROWS,
    ),
    Mutant(
        "shared_after_collapsed_moves",
        "shared coefficients are drawn with a covariance of tasks that was integrated out before",
        "zoo/inference/gibbs/matrix_normal.py",
        "if self.shared is not None:  # whose draw",
        "if False:  # whose draw",
        _COLLAPSED_ROWS,
    ),
    Mutant(
        "shear_without_prior",
        "the shears of tasks leave out the prior's linear term",
        "zoo/inference/gibbs/group_moves.py",
        "u[s] += P[t, s] + root * rng.standard_normal()",
        "u[s] += root * rng.standard_normal()",
        _MAX_MARGIN,
    ),
    Mutant(
        "buffet_counts_its_own_row",
        "prior odds of a bit with D + 1 rows",
        "zoo/inference/gibbs/buffet.py",
        "s = _draw_bits(rng, M, E, Z[d], v, r, s, others + alpha / K, D - others)",
        "s = _draw_bits(rng, M, E, Z[d], v, r, s, others + alpha / K, D + 1 - others)",
        _BUFFET,
    ),
    Mutant(
        "buffet_rate",
        "rate alpha for the alpha / D of a row's new columns",
        "zoo/inference/gibbs/buffet.py",
        "T, alpha / D)\n",
        "T, alpha)\n",
        _BUFFET,
    ),
    # ---------------------------------------------------------------- yu2005
    Mutant(
        "tau_as_nu",
        "yu2005's tau taken for the degrees of freedom nu of the full-Bayes prior",
        "zoo/models/niw/engines.py",
        '"nu": self.delta + population.inputs.shape[1] - 1.0,',
        '"nu": self.delta + 2.0 * population.inputs.shape[1] + 1.0,',
        _NIW,
    ),
    Mutant(
        "dawid_as_textbook",
        "Dawid's delta taken for the textbook's nu",
        "zoo/models/niw/engines.py",
        '"nu": self.delta + population.inputs.shape[1] - 1.0,',
        '"nu": self.delta + population.inputs.shape[1],',
        _NIW,
    ),
    Mutant(
        "noise_shape",
        "shape of the noise's inverse-gamma law with n for n / 2",
        "zoo/inference/gibbs/population_steps.py",
        "shape += 0.5 * tasks.size[t]",
        "shape += tasks.size[t]",
        _NIW,
    ),
    Mutant(
        "noise_shape_off_by_two",
        "shape of the noise's inverse-gamma law 2 too large",
        "zoo/inference/gibbs/population_steps.py",
        "shape, rate = a, b\n",
        "shape, rate = a + 2.0, b\n",
        _NIW,
    ),
    Mutant(
        "shrunken_mean_scatter",
        "scatter of the mean without its shrinkage pi T / (pi + T)",
        "zoo/inference/gibbs/population_steps.py",
        "weight = pi * n_tasks / (pi + n_tasks)",
        "weight = pi",
        # With pi = 1 and two tasks it is a third of one degree of freedom.
        (f"{_KERNELS}::test_against_joint_draws[population, mean near zero]",),
    ),
    Mutant(
        "loose_scale_without_jacobian",
        "the scale of loose coefficients forgets the Jacobian of the covariance",
        "zoo/inference/gibbs/collapsed_population.py",
        "return -(nu + known + 1.0 + ",
        "return -(nu + known + 1.0 + (m + 1.0) + ",
        _LOOSE_UNIT,
    ),
    Mutant(
        "shared_scale_without_jacobian",
        "the scale of shared coefficients forgets the Jacobian of its logarithm",
        "zoo/inference/gibbs/shared_coefficients.py",
        "return (1.0 - n) * u",
        "return -n * u",
        _SHARED,
    ),
    Mutant(
        "shared_coefficients_given_the_mean",
        "the joint draw of shared coefficients and mean forgets that the coefficients are integrated out",
        "zoo/inference/gibbs/shared_population.py",
        "precision[where[i], where[j]] -= U[d, i] * U[d, j]",
        "precision[where[i], where[j]] -= 0.9 * U[d, i] * U[d, j]",
        _SHARED,
    ),
    Mutant(
        "scale_moves_without_jacobian",
        "a scale that moves with its shared coefficients forgets the Jacobian of its logarithm",
        "zoo/inference/gibbs/shared_population.py",
        "return u + slope * c",
        "return slope * c",
        _SHARED,
    ),
    Mutant(
        "effects_share_a_scale",
        "the levels of a further group have the prior of the features that all tasks share",
        "zoo/inference/gibbs/shared_population.py",
        "1.0 / scales.scale[scales.effect[i]] ** 2",
        "1.0 / scales.scale[0 * scales.effect[i]] ** 2",
        _CROSSED,
    ),
    Mutant(
        "effect_of_another_level",
        "a task hands what it says of its levels to the first ones",
        "zoo/inference/gibbs/shared_population.py",
        "where[D + j] = D + sums.feature[first + j]",
        "where[D + j] = D + j",
        _CROSSED,
    ),
    Mutant(
        "many_shared_without_the_law_of_tasks",
        "the mean is not perturbed by what perturbs the coefficients of tasks",
        "zoo/inference/gibbs/many_shared.py",
        "of_mu[i] -= r[i]",
        "of_mu[i] -= 0.0 * r[i]",
        _MANY,
    ),
    Mutant(
        "many_shared_rows_without_noise",
        "the rows are not perturbed, so that shared coefficients are their mean given the rest",
        "zoo/inference/gibbs/many_shared.py",
        "np.sqrt(k * w[n]) * rng.standard_normal()",
        "0.0 * rng.standard_normal()",
        _MANY,
    ),
    Mutant(
        "level_scale_with_effects",
        "the scale of a further group is drawn as if its effects were no more than their mean given the rows",
        "zoo/inference/gibbs/level_scales.py",
        "- 0.5 * math.log1p(inner)",
        "- 0.4 * math.log1p(inner)",
        ("tests/inference/test_level_scales.py",),
    ),
    Mutant(
        "shard_counts_empty_lanes",
        "what lies behind the last task counts as a task with a draw from the population",
        "zoo/inference/gibbs/shard.py",
        "w[i, b] = mu[i]",
        "w[i, b] = w[i, b]",
        _SHARD,
    ),
    Mutant(
        "shard_scatter_around_the_old_mean",
        "the covariance is drawn with the scatter of the coefficients around the mean of the sweep before",
        "zoo/inference/gibbs/sharded_population.py",
        "scatter - np.outer(apart, apart) / n_tasks",
        "scatter",
        (f"{_SHARD[0]}::test_sweeps_keep_the_joint_law",),
    ),
    Mutant(
        "shard_pulled_the_other_way",
        "the translation of all tasks goes away from what their rows say",
        "zoo/inference/gibbs/sharded_population.py",
        "moved, pi = -pull * precision",
        "moved, pi = pull * precision",
        (f"{_SHARD[0]}::test_what_follows_from_sums_is_what_follows_from_coefficients",),
    ),
    Mutant(
        "summary_forgets_the_means",
        "parts of a task that come in two batches are merged as if their means were the same",
        "zoo/data/summary.py",
        "between = np.sqrt(",
        "between = 0.0 * np.sqrt(",
        ("tests/data/test_summary.py::test_the_rows_of_a_summary_have_the_moments_of_all_rows",),
    ),
    Mutant(
        "levels_by_position",
        "columns of levels are paired with their names by position",
        "zoo/data/further_groups.py",
        "[position[name] for name in order]",
        "list(range(len(order)))",
        ("tests/core/test_new_levels.py::test_new_levels_of_two_effects_stand_in_their_own_columns",),
    ),
    Mutant(
        "shared_move_without_new_task_cov",
        "shared coefficients move with the covariance of tasks integrated out, which stays as it was",
        "zoo/inference/gibbs/shared_coefficients.py",
        "P[:] = wishart(rng, nu + D, prior + H @ O @ H.T)",
        "P[:] = P + 0.0 * wishart(rng, nu + D, prior + H @ O @ H.T)",
        _SHARED_MATRIX_NORMAL,
    ),
    Mutant(
        "shared_move_with_wrong_power",
        "the determinant of the integrated covariance of tasks has the power nu for nu + D",
        "zoo/inference/gibbs/shared_coefficients.py",
        "A.T @ white, nu + H.shape[1], slope",
        "A.T @ white, nu, slope",
        _SHARED_MATRIX_NORMAL,
    ),
    Mutant(
        "shared_offset_left_behind",
        "the sums of a task keep the responses from before the shared coefficients moved",
        "zoo/inference/gibbs/shared_sums.py",
        "subtract_shared(known.starts, known.feature, known.cross, beta, tasks.linear)",
        "subtract_shared(known.starts, known.feature, known.cross, 0.8 * beta, tasks.linear)",
        _SHARED,
    ),
    Mutant(
        "loose_degrees_off_by_one",
        "the law of the loose covariance forgets the mean given the covariance",
        "zoo/inference/gibbs/collapsed_population.py",
        "return -(nu + known + 1.0 + lanes)",
        "return -(nu + known + lanes)",
        _LOOSE_UNIT,
    ),
    Mutant(
        "loose_inverse_not_updated",
        "a move leaves the inverses of the precisions as they were",
        "zoo/inference/gibbs/collapsed_population.py",
        "A[i, j, t] -= c[i, t] * x[j, t] + d[i, t] * z[j, t]",
        "A[i, j, t] -= 0.0 * (c[i, t] * x[j, t] + d[i, t] * z[j, t])",
        _LOOSE_UNIT,
    ),
    Mutant(
        "loose_regression_without_noise",
        "the mean and the regression of loose coefficients are set to their mean, not drawn",
        "zoo/inference/gibbs/collapsed_regression.py",
        "u[i] += rng.standard_normal()",
        "u[i] += 0.0 * rng.standard_normal()",
        _LOOSE,
    ),
    Mutant(
        "loose_moves_see_the_old_covariance",
        "collapsed moves read a covariance that group moves of the same sweep have left behind",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        's["C"][:] = np.linalg.inv(s["P"])  # step 0 reads it',
        "pass",
        ("tests/inference/test_group_moves.py::test_step_0_reads_the_covariance_that_group_moves_leave",),
    ),
    Mutant(
        "noise_of_the_old_covariance",
        "the noise with coefficients integrated out reads a covariance that moves of the same sweep have left behind",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        's["C"][:] = np.linalg.inv(s["P"])  # the noise reads it',
        "pass",
        ("tests/inference/test_group_moves.py::test_the_noise_reads_the_covariance_that_other_moves_leave",),
    ),
    Mutant(
        "noise_counts_rows_of_functions_twice",
        "the noise with coefficients integrated out has a factor for each row beside that of the integral",
        "zoo/inference/gibbs/collapsed_noise.py",
        "0.5 * (tasks.size[t] - r) * s",
        "0.5 * tasks.size[t] * s",
        ("tests/inference/test_collapsed_noise.py",),
    ),
    Mutant(
        "noise_of_unscaled_features",
        "the noise with coefficients integrated out sees features without their learned scales",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        'self._noise_roots if self.scale_sd is None else self._noise_roots.scaled(s["scales"])',
        "self._noise_roots",
        (f"{_KERNELS}::test_against_joint_draws[population, half-t, all loose]",),
    ),
    Mutant(
        "loose_coefficients_stay_stale",
        "a sweep that takes the collapsed moves ends with them, and the loose coefficients stay the old ones",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        "            self._collapsed_moves(rng, s)\n",
        "            self._collapsed_moves(rng, s)\n            return\n",
        (f"{_KERNELS}::test_against_joint_draws[population, loose, some sweeps]",),
    ),
    Mutant(
        "group_moves_without_noise",
        "the shears of a population see the rows of all tasks as if their noise were 1",
        "zoo/inference/gibbs/population_lanes.py",
        "whole.weight[t] = inverse_noise[t // LANES, t % LANES]",
        "whole.weight[t] = 1.0",
        ("tests/inference/test_group_moves.py",),
    ),
    Mutant(
        "loose_residual_of_old_regression",
        "the regression is drawn from the residual at its old value as if that were 0",
        "zoo/inference/gibbs/collapsed_regression.py",
        "    theta[:, :k] = 0.0\n",
        "    theta[:, :k] *= 1.0\n",
        (f"{_KERNELS}::test_against_joint_draws[population, loose]",),
    ),
    Mutant(
        "loose_prior_without_regression",
        "the law of the loose covariance leaves out the prior of mean and regression",
        "zoo/inference/gibbs/collapsed_population.py",
        "psi += np.eye(m) + B @ B.T",
        "psi += np.eye(m)",
        _LOOSE_UNIT,
    ),
    Mutant(
        "scales_degrees_off_by_one",
        "scales given the covariance forget the degree of freedom of their own prior",
        "zoo/inference/gibbs/feature_scales.py",
        "rng.standard_gamma(0.5 * (nu + 1.0))",
        "rng.standard_gamma(0.5 * nu)",
        _HALF_T,
    ),
    Mutant(
        "scales_prior_of_old_sums",
        "scales given whitened coefficients have the prior of scales of 1",
        "zoo/inference/gibbs/feature_scales.py",
        "precision[i, i] += (scales[i] / sd) ** 2",
        "precision[i, i] += (1.0 / sd) ** 2",
        _HALF_T,
    ),
    Mutant(
        "scales_leave_the_mean",
        "coefficients follow the scales, and the population's mean does not",
        "zoo/inference/gibbs/feature_scales.py",
        "        mu[d] /= factor[d]\n",
        "",
        _HALF_T,
    ),
    Mutant(
        "scales_stale_after_collapsed_moves",
        "the regression is drawn given scales of before the moves that integrate them out",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        "nu, pi, T, *tries, ridge)\n        self._draw_scales(rng, s)\n",
        "nu, pi, T, *tries, ridge)\n",
        _LEARNED_SCALES,
    ),
    Mutant(
        "scales_diagonal_without_regression",
        "with scales integrated out, the precision of known coefficients does not follow that of loose ones",
        "zoo/inference/gibbs/collapsed_population.py",
        "values[at] += 2.0 * b * diagonal[1, j] + square * diagonal[2, j]",
        "values[at] += 0.0 * diagonal[1, j]",
        _LOOSE_UNIT,
    ),
    Mutant(
        "scales_seen_where_integrated_out",
        "moves that integrate scales out are tuned in coordinates whitened by the old ones",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        '        self._whiten_by(s, 1.0 / s["scales"])\n',
        "",
        ("tests/inference/test_group_moves.py",),
    ),
    Mutant(
        "scales_without_their_prior",
        "the law that integrates scales out has no prior of theirs",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        'ridge, constant = (s["scales"] / self.scale_sd) ** 2, ',
        'ridge, constant = 0.0 * s["scales"], ',
        _LEARNED_SCALES,
    ),
    Mutant(
        "reflection_always_taken",
        "a reflection is taken whatever the densities",
        "zoo/inference/gibbs/collapsed_regression.py",
        "if rng.standard_exponential() > value + prior - moved - changed:",
        "if rng.standard_exponential() > -np.abs(value + prior - moved - changed):",
        _LOOSE,
    ),
    Mutant(
        "m_step_denominator",
        "M-step of the covariance over tau + T + 1",
        "zoo/inference/em/parts.py",
        "cov /= self.tau + T\n",
        "cov /= self.tau + T + 1\n",
        _EM,
    ),
    Mutant(
        "m_step_without_prior",
        "M-step of the mean over T for pi + T",
        "zoo/inference/em/parts.py",
        "mean = coordinates.sum(axis=1) / (self.pi + T)",
        "mean = coordinates.sum(axis=1) / T",
        _EM,
    ),
    # ---------------------------------------------------------------- rare labels
    Mutant(
        "proposal_ratio_left_out",
        "coefficients proposed at the mode are taken as if the proposal were symmetric",
        "zoo/inference/gibbs/likelihood_moves.py",
        "ratio[g - first] = log_proposal(factor, now[g] - point) - log_proposal(factor, step)",
        "ratio[g - first] = 0.0 * log_proposal(factor, step)",
        _RARE_UNIT,
    ),
    Mutant(
        "translation_without_prior",
        "all tasks move together as if their mean had a flat prior",
        "zoo/inference/gibbs/likelihood_moves.py",
        "prior = Prior(np.zeros((1, len(shared))), np.full(1, scale), Q)",
        "prior = Prior(np.zeros((1, len(shared))), np.full(1, 1e-3 * scale), Q)",
        _RARE,
    ),
    Mutant(
        "mode_from_the_current_coefficients",
        "Newton's method starts at the coefficients of a task that it is to replace",
        "zoo/inference/gibbs/likelihood_moves.py",
        "        self.tasks.point[:] = mu\n",
        "        self.tasks.point[:] = W\n",
        _RARE_UNIT,
    ),
    Mutant(
        "slope_of_the_wrong_sign",
        "the proposal for coefficients moves away from the mode, which leaves the law as it is and no move accepted",
        "zoo/inference/gibbs/augmented_discrete_responses.py",
        "slope[n] = weight[n] * y[n] * (less",
        "slope[n] = -weight[n] * y[n] * (less",
        _RARE_UNIT,
    ),
    Mutant(
        "regression_without_prior_of_the_constant",
        "the regression of a feature on the others has the prior of the mean with weight 1 for pi",
        "zoo/inference/gibbs/likelihood_populations.py",
        "        prior[0] *= pi\n",
        "        prior[0] *= 1.0\n",
        _RARE_UNIT,
    ),
    Mutant(
        "scale_of_a_task_without_degrees",
        "the scale of a task forgets the power of the inverse-Wishart density",
        "zoo/inference/gibbs/likelihood_populations.py",
        "return float(value - nu * u -",
        "return float(value - (nu - 2.0) * u -",
        _RARE_UNIT,
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
    # ---------------------------------------------------------------- evgeniou2005, bussas2015
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
    Mutant(
        "evidence_without_determinant",
        "evidence of related tasks without the volume of the shared weights",
        "zoo/latent/task_weights.py",
        "half_log_det += float(np.log(np.diag(factor)).sum())",
        "half_log_det += 0.0 * float(np.log(np.diag(factor)).sum())",
        ("tests/inference/test_kernel_engines.py",),
    ),
    Mutant(
        "mode_moved_by_expectation",
        "the mode of zero-inflated counts moves by the expected information in the gradient of their evidence",
        "zoo/latent/latent_gaussian.py",
        "if second is not None:",
        "if False:",
        ("tests/latent/test_mode_movement.py",),
    ),
    Mutant(
        "neighbour_weights_slope",
        "variances given neighbours without the movement of the weights in their gradient",
        "zoo/ops/neighbour_weights.py",
        "u = pt.concatenate([-b, one], axis=1)",
        "u = pt.concatenate([0.0 * b, one], axis=1)",
        ("tests/ops/test_neighbours.py",),
    ),
    Mutant(
        "process_noise_of_neighbours",
        "a new row of a process in a PyMC model given its neighbours' responses as if they had no noise",
        "zoo/gp/vecchia.py",
        "noise = pt.concatenate([sigma**2 + pt.zeros(n), own + pt.zeros(len(new))])",
        "noise = pt.concatenate([1e-6 * sigma**2 + pt.zeros(n), own + pt.zeros(len(new))])",
        ("tests/gp/test_vecchia.py::test_predictions_with_all_neighbours_are_exact",),
    ),
    Mutant(
        "process_mean_of_weights",
        "derivatives of the weights of neighbours without the movement of the neighbours' own covariance",
        "zoo/latent/vecchia_weights.py",
        "u[p], h[p] = -b[i, slot[p]], of_b[i, slot[p]]",
        "u[p], h[p] = 0.0, of_b[i, slot[p]]",
        ("tests/latent/test_vecchia_weights.py",),
    ),
    Mutant(
        "vecchia_variance_slope",
        "conditional variance of a row held in the gradient of its determinant",
        "zoo/latent/vecchia.py",
        "g_variance = 0.5 * (white[m] ** 2 - 1.0) / root**2",
        "g_variance = 0.5 * white[m] ** 2 / root**2",
        ("tests/latent/test_vecchia.py",),
    ),
    Mutant(
        "vecchia_known_weights",
        "weights that all rows share taken for known in the gradient",
        "zoo/latent/vecchia_features.py",
        "(error[a] ** 2 + leverage[a] - 1.0)",
        "(error[a] ** 2 - 1.0)",
        ("tests/latent/test_vecchia.py",),
    ),
    Mutant(
        "vecchia_own_neighbour",
        "a row of many among its own neighbours",
        "zoo/latent/vecchia_neighbours.py",
        "before = near < rows[:, None]",
        "before = near <= rows[:, None]",
        ("tests/latent/test_vecchia.py",),
    ),
    Mutant(
        "vecchia_explained_features",
        "features of a new row whole, where its neighbours explain a part",
        "zoo/models/varying_coefficient/vecchia.py",
        "mode.half((features - found[2][block]).T)",
        "mode.half(features.T)",
        ("tests/models/test_varying_vecchia.py",),
    ),
    Mutant(
        "vecchia_mode_held",
        "the mode of labels held in the gradient of their evidence, each latent given its nearest ones",
        "zoo/latent/vecchia_latent.py",
        "    _add_mode(pulls, mode, moved)",
        "    _add_mode(pulls, mode, None)",
        ("tests/latent/test_vecchia_latent.py",),
    ),
    Mutant(
        "vecchia_determinant_of_the_preconditioner",
        "the log determinant by probes without that of their preconditioner",
        "zoo/latent/vecchia_latent.py",
        "return C.log_det + sum(",
        "return sum(",
        ("tests/latent/test_vecchia_latent.py",),
    ),
    Mutant(
        "vecchia_known_latents",
        "functions at new rows as if the mode of the latents were known",
        "zoo/models/varying_coefficient/vecchia_latent.py",
        "variance[at] += np.sum(root**2, axis=1)",
        "variance[at] += 0.0 * np.sum(root**2, axis=1)",
        ("tests/models/test_varying_vecchia_latent.py::test_joint_draws_have_the_moments_of_the_functions",),
    ),
    Mutant(
        "laplace_half_determinant",
        "evidence by Laplace's method with the determinant for its root",
        "zoo/latent/latent_gaussian.py",
        "- 0.5 * K.squared_norm(mode) - 0.5 * solver.log_det",
        "- 0.5 * K.squared_norm(mode) - solver.log_det",
        ("tests/latent/test_bases.py",),
    ),
    Mutant(
        "site_without_its_cavity",
        "precisions of sites by expectation propagation as if the cavities had no variance",
        "zoo/latent/expectation_propagation.py",
        "Sites(copies * tilted.curvature / tilted.share, copies * shift)",
        "Sites(copies * tilted.curvature, copies * shift)",
        ("tests/latent/test_gaussian_sites.py",),
    ),
    Mutant(
        "bound_without_variances",
        "the variational bound without the variances that its sites leave",
        "zoo/latent/variational_bound.py",
        "0.5 * sites.precision @ law.variance",
        "0.0 * sites.precision @ law.variance",
        ("tests/latent/test_gaussian_sites.py",),
    ),
    Mutant(
        "step_inside_of_panels",
        "quadrature of labels whose panels know nothing of the step of the link",
        "zoo/latent/logistic_labels.py",
        "np.clip(edges, low[:, None], high[:, None])",
        "np.clip(edges, low[:, None], low[:, None])",
        ("tests/latent/test_gaussian_sites.py",),
    ),
    Mutant(
        "informative_variance",
        "posterior variance of a row that says much, as if the others said nothing",
        "zoo/latent/latent_gaussian.py",
        "result[strong] = (1.0 - kept[strong] / W[strong]) / W[strong]",
        "result[strong] = 1.0 / (W[strong] + 1.0 / np.diag(self.K)[strong])",
        ("tests/latent/test_bases.py",),
    ),
    Mutant(
        "steps_of_expected_information",
        "Newton's steps by the expected information of Student-t responses for their curvature",
        "zoo/latent/newton.py",
        "density.information if taken < cheap else density.curvature",
        "density.information",
        ("tests/latent/test_bases.py",),
    ),
    Mutant(
        "inducing_mean_cancels",
        "mean at inducing points as a sum of residuals over the noise's variance",
        "zoo/latent/latent_gaussian.py",
        "return np.asarray(cho_solve((mode.solver.factor, True), sums, check_finite=False))",
        "return np.asarray(self.V @ mode.a + 0.0 * sums)",
        ("tests/test_conditioning.py",),
    ),
    Mutant(
        "laplace_left_out",
        "what a response's log density has beyond its quadratic part, counted twice",
        "zoo/latent/function_mode.py",
        "float(np.sum(0.5 * omega * f**2 - nu * f))",
        "float(np.sum(omega * f**2 - nu * f))",
        ("tests/inference/test_kernel_engines.py",),
    ),
    Mutant(
        "levels_that_know_the_fold",
        "levels that a copy of a learned mean is fitted without, from estimators that have seen its fold",
        "zoo/data/out_of_fold.py",
        "residual[K if k is None else k, kept]",
        "residual[K, kept]",
        _LEVELS,
    ),
    Mutant(
        "levels_as_means",
        "levels of tasks as means of their residuals, without any shrinkage",
        "zoo/data/out_of_fold.py",
        "ratio * total * (mean - centre) / (1.0 + ratio * total)",
        "np.where(total > 0.0, mean - centre, 0.0)",
        _LEVELS,
    ),
)


# ---------------------------------------------------------------- running them


def _copy(home: Path) -> Path:
    """The package and its tests, without compiled leftovers of other sources."""
    place = home / "project"
    skipped = shutil.ignore_patterns("*.pyc", ".mypy_cache", ".hypothesis", "_build")
    for name in ("zoo", "tests"):
        shutil.copytree(_ROOT / name, place / name, ignore=skipped, copy_function=shutil.copy2)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(_ROOT / name, place / name)
    return place


def _clear_compiled(place: Path) -> None:
    """Numba looks at the time of a function's own file alone, not at those of its callees."""
    for path in place.glob("zoo/**/*.nb[ic]"):
        path.unlink()


def _fails(place: Path, tests: tuple[str, ...]) -> bool:
    """Whether a test fails; anything else than failed or passed tests is an error of this script."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "", *tests]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return True  # a sampler that no longer ends is caught too
    if done.returncode not in (0, 1):
        raise RuntimeError(
            f"pytest ended with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == 1


def _plant(place: Path, mutant: Mutant) -> None:
    path = place / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise RuntimeError(
            f"{mutant.name}: {mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}."
        )
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def main() -> int:
    """Run the mutants, print a table, return the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="mutants whose name holds this word")
    arguments = parser.parse_args()
    mutants = [m for m in MUTANTS if arguments.only is None or arguments.only in m.name]
    survivors, known = 0, {}
    print("| mutant | what it plants | caught by | seconds |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as home:
        place = _copy(Path(home))
        _clear_compiled(place)
        for mutant in mutants:
            if mutant.tests not in known:
                known[mutant.tests] = _fails(place, mutant.tests)
            if known[mutant.tests]:
                raise RuntimeError(f"{mutant.name}: its tests fail without it too: {' '.join(mutant.tests)}.")
            original = (place / mutant.file).read_text(encoding="utf-8")
            begin = time.monotonic()
            compiled = "njit" in original
            _plant(place, mutant)
            if compiled:
                _clear_compiled(place)
            caught = _fails(place, mutant.tests)
            (place / mutant.file).write_text(original, encoding="utf-8")
            if compiled:
                _clear_compiled(place)
            survivors += not caught
            seen = " ".join(f"`{test.removeprefix('tests/')}`" for test in mutant.tests)
            row = f"| {mutant.name} | {mutant.says} | {seen if caught else '**survives**'}"
            print(f"{row} | {time.monotonic() - begin:.0f} |", flush=True)
    print(f"\n{len(mutants) - survivors} of {len(mutants)} caught.")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())

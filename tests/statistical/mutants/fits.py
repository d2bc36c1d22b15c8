"""Mistakes in what fits select, keep, predict and hand to PyMC."""

from __future__ import annotations

from tests.statistical.mutants.mutant import MANY_TASKS, Mutant

_KEPT = ("tests/core/test_keep.py",)
_KNOWN_TASKS = ("tests/inference/test_known_tasks.py",)
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
    Mutant(
        "rows_perturbed_alike",
        "a draw by conjugate gradients adds noise of variance 1 to every row, whatever its weight",
        "zoo/steps/iterative_normal.py",
        "noisy = np.sqrt(w) * rng.standard_normal(len(w))",
        "noisy = rng.standard_normal(len(w))",
        ("tests/steps/test_block_normal.py::test_without_a_factor_a_draw_solves_the_system_of_noisy_rows",),
    ),
    # ---------------------------------------------------------------- features that are selected
    Mutant(
        "copies_alone",
        "copies of a feature are drawn without regard to the other features",
        "zoo/inference/ard/copies.py",
        "return (self.kept + self.spread * permuted)[:, self.unit]",
        "return rng.permuted(np.broadcast_to(self.kept + self.spread * self.rest, permuted.shape), axis=1)"
        "[:, self.unit]",
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
        (f"{MANY_TASKS}::test_tasks_that_are_drawn_again_have_their_joint_law",),
    ),
    Mutant(
        "machine_common_part",
        "unseen tasks of a fit without coefficients have what all share without its scale",
        "zoo/models/kernel_machine/tasks.py",
        "conditional.W[0, 0] * conditional.R @ v",
        "conditional.R @ v",
        (f"{MANY_TASKS}::test_unseen_tasks_have_their_joint_law",),
    ),
    Mutant(
        "machine_own_variance",
        "what a task has of its own under kernel (22) forgets the number of tasks",
        "zoo/models/kernel_machine/tasks.py",
        "np.broadcast_to(square * lam * n_tasks, shape)",
        "np.broadcast_to(square * lam, shape)",
        (f"{MANY_TASKS}::test_unseen_tasks_have_their_joint_law",),
    ),
    Mutant(
        "machine_small_factor",
        "small matrices of the tasks are factorised with a wrong index",
        "zoo/latent/task_weights.py",
        "total -= P[i, k] * P[j, k]",
        "total -= P[i, k] * P[j, j]",
        (f"{MANY_TASKS}::test_the_law_is_that_of_dense_algebra[False-3]",),
    ),
    Mutant(
        "prior_density_low_rank",
        "the log prior of coefficients forgets what the columns of the covariance of tasks add to its determinant",
        "zoo/core/prior_density.py",
        "half_log_det = pt.sum(pt.log(pt.diagonal(inner))) + 0.5",
        "half_log_det = 0.5",
        (f"{MANY_TASKS}::test_the_prior_density_needs_no_matrix_of_tasks",),
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
    # ---------------------------------------------------------------- seams
    Mutant(
        "recomputed_named_variables",
        "the built model lets PyMC compute named variables from auxiliary ones drawn from the prior",
        "zoo/core/factory_model.py",
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
)

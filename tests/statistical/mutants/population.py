"""Mistakes in the Gibbs sampler and in EM of normal populations of tasks."""

from __future__ import annotations

from tests.statistical.mutants.mutant import KERNELS, Mutant

_NIW = (
    f"{KERNELS}::test_against_joint_draws[population]",
    f"{KERNELS}::test_against_joint_draws[population, group moves, noise by task]",
)
_LOOSE_UNIT = ("tests/inference/test_collapsed_population.py",)
_LOOSE = (
    f"{KERNELS}::test_against_joint_draws[population, loose]",
    f"{KERNELS}::test_against_joint_draws[population, loose, some sweeps]",
    f"{KERNELS}::test_against_joint_draws[population, one loose, noise by task]",
    f"{KERNELS}::test_against_joint_draws[population, groups]",
)
_SHARED = (
    f"{KERNELS}::test_against_joint_draws[population, shared, learned scale, noise by task, group moves]",
)
_CROSSED = (f"{KERNELS}::test_against_joint_draws[population, crossed]",)
_SHARD = ("tests/inference/test_shard.py",)
_MANY = ("tests/inference/test_many_shared.py",)
_SHARED_MATRIX_NORMAL = ("tests/inference/test_shared_coefficients.py",)
_HALF_T = tuple(
    f"{KERNELS}::test_against_joint_draws[population, half-t{rest}]"
    for rest in ("", ", noise by task, no group moves", ", all loose", ", groups")
)
_LEARNED_SCALES = ("tests/statistical/test_learned_scales.py",)
_EM = ("tests/inference/test_em.py",)

MUTANTS: tuple[Mutant, ...] = (
    # ---------------------------------------------------------------- the sweep
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
        (f"{KERNELS}::test_against_joint_draws[population, mean near zero]",),
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
        "noise_of_unscaled_features",
        "the noise with coefficients integrated out sees features without their learned scales",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        'self._noise_roots if self.scale_sd is None else self._noise_roots.scaled(s["scales"])',
        "self._noise_roots",
        (f"{KERNELS}::test_against_joint_draws[population, half-t, all loose]",),
    ),
    Mutant(
        "group_moves_without_noise",
        "the shears of a population see the rows of all tasks as if their noise were 1",
        "zoo/inference/gibbs/population_lanes.py",
        "whole.weight[t] = inverse_noise[t // LANES, t % LANES]",
        "whole.weight[t] = 1.0",
        ("tests/inference/test_group_moves.py",),
    ),
    # ---------------------------------------------------------------- coefficients integrated out
    Mutant(
        "loose_scale_without_jacobian",
        "the scale of loose coefficients forgets the Jacobian of the covariance",
        "zoo/inference/gibbs/collapsed_population.py",
        "return -(nu + known + 1.0 + ",
        "return -(nu + known + 1.0 + (m + 1.0) + ",
        _LOOSE_UNIT,
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
        "noise_counts_rows_of_functions_twice",
        "the noise with coefficients integrated out has a factor for each row beside that of the integral",
        "zoo/inference/gibbs/collapsed_noise.py",
        "0.5 * (tasks.size[t] - r) * s",
        "0.5 * tasks.size[t] * s",
        ("tests/inference/test_collapsed_noise.py",),
    ),
    Mutant(
        "loose_coefficients_stay_stale",
        "a sweep that takes the collapsed moves ends with them, and the loose coefficients stay the old ones",
        "zoo/inference/gibbs/normal_inverse_wishart.py",
        "            self._collapsed_moves(rng, s)\n",
        "            self._collapsed_moves(rng, s)\n            return\n",
        (f"{KERNELS}::test_against_joint_draws[population, loose, some sweeps]",),
    ),
    Mutant(
        "loose_residual_of_old_regression",
        "the regression is drawn from the residual at its old value as if that were 0",
        "zoo/inference/gibbs/collapsed_regression.py",
        "    theta[:, :k] = 0.0\n",
        "    theta[:, :k] *= 1.0\n",
        (f"{KERNELS}::test_against_joint_draws[population, loose]",),
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
        "scales_diagonal_without_regression",
        "with scales integrated out, the precision of known coefficients does not follow that of loose ones",
        "zoo/inference/gibbs/collapsed_population.py",
        "values[at] += 2.0 * b * diagonal[1, j] + square * diagonal[2, j]",
        "values[at] += 0.0 * diagonal[1, j]",
        _LOOSE_UNIT,
    ),
    Mutant(
        "reflection_always_taken",
        "a reflection is taken whatever the densities",
        "zoo/inference/gibbs/collapsed_regression.py",
        "if rng.standard_exponential() > value + prior - moved - changed:",
        "if rng.standard_exponential() > -np.abs(value + prior - moved - changed):",
        _LOOSE,
    ),
    # ---------------------------------------------------------------- shared coefficients
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
    # ---------------------------------------------------------------- many levels, shards
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
    # ---------------------------------------------------------------- learned scales
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
    # ---------------------------------------------------------------- EM
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
)

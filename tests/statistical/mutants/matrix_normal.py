"""Mistakes in the Gibbs sampler of matrix-normal hierarchies."""

from __future__ import annotations

from tests.statistical.mutants.mutant import KERNELS, Mutant

_MAX_MARGIN = (
    f"{KERNELS}::test_max_margin[hinge, more tasks than features]",
    f"{KERNELS}::test_max_margin[hinge, more features than tasks]",
)
_COLLAPSED = ("tests/inference/test_collapsed_covariance.py",)
_COLLAPSED_ROWS = ("tests/inference/test_collapsed_rows.py",)
_ONE_COEFFICIENT = ("tests/models/test_max_margin.py::test_one_coefficient_against_quadrature",)
_BUFFET = ("tests/inference/test_buffet.py",)

MUTANTS: tuple[Mutant, ...] = (
    # ---------------------------------------------------------------- the sweep
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
        "shear_without_prior",
        "the shears of tasks leave out the prior's linear term",
        "zoo/inference/gibbs/group_moves.py",
        "u[s] += P[t, s] + root * rng.standard_normal()",
        "u[s] += root * rng.standard_normal()",
        _MAX_MARGIN,
    ),
    # ---------------------------------------------------------------- one covariance with the other integrated out
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
        (f"{KERNELS}::test_max_margin[hinge, scales, more tasks than features]",),
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
    # ---------------------------------------------------------------- the Indian buffet process
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
)

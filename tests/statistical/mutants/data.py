"""Mistakes in what is made of tables: summaries of rows, levels of groups."""

from __future__ import annotations

from tests.statistical.mutants.mutant import Mutant

_LEVELS = ("tests/data/test_out_of_fold.py",)

MUTANTS: tuple[Mutant, ...] = (
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

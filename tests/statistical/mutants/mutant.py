"""What a planted mistake is, and tests that several rooms name."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A mistake: in ``file`` the text ``old``, which stands there once, becomes ``new``; ``tests`` should see it."""

    name: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


KERNELS = "tests/statistical/test_kernels.py"
MANY_TASKS = "tests/models/test_kernel_machine_many_tasks.py"


def cell(prior: str, likelihood: str) -> tuple[str, ...]:
    """The sequential test of a prior with a likelihood."""
    return (f"{KERNELS}::test_against_joint_draws[{prior}, {likelihood}]",)

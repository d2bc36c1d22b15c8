"""The numerical floor: covariance updates lose no more digits than the condition number of their input takes."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

import zoo
from tests.conditioning import CONDITIONS, UPDATES, spectrum

_EPSILON = np.finfo(np.float64).eps
# Updates that solve with a factor of the covariance itself, or add a unit matrix first, and keep all digits.
_FLAT = (
    "em_step",
    "em_posterior_many_rows",
    "em_posterior_few_rows",
    "kernel_machine_evidence",
    "gp_weights",
    "function_evidence",
    "variational_evidence",
    "inducing_mean",
)
# Digits that grow with the root of the condition number, or not beyond that of the rows plus the prior.
_SLOW = ("niw_population", "kernel_machine_weights")
# Digits that are lost up to some condition only: beyond it the rows of features are passed over again.
_CEILINGS = {"weights_evidence": 1e7, "inducing_evidence": 1e2}
# Twenty seconds of compiling between them.
_DENSITIES = ("inverse_wishart_density", "matrix_normal_density")


def bound(name: str, condition: float) -> float:
    """What the error may be, in units of rounding: 100 times what the theory of backward errors says (Higham 2002)."""
    growth = 1.0 if name in _FLAT else np.sqrt(condition) if name in _SLOW else condition
    growth = min(growth, _CEILINGS.get(name, np.inf))
    return 100.0 * growth * _EPSILON


@pytest.mark.parametrize("name", [name for name in UPDATES if name not in _DENSITIES])
def test_update_loses_what_its_condition_takes(name: str) -> None:
    with mp.workdps(60):
        for condition in CONDITIONS:
            assert UPDATES[name](condition) <= bound(name, condition), f"condition {condition:.0e}"


@pytest.mark.statistical
@pytest.mark.parametrize("name", _DENSITIES)
def test_density_loses_what_its_condition_takes(name: str) -> None:
    with mp.workdps(60):
        for condition in CONDITIONS:
            assert UPDATES[name](condition) <= bound(name, condition), f"condition {condition:.0e}"


def test_a_fit_says_its_jitter() -> None:
    data = zoo.datasets.simulate_matrix_normal(2, 2, 6, loss="epsilon_insensitive", random_seed=1)[0]
    settings: dict[str, Any] = {"draws": 2, "tune": 2, "chains": 1, "random_seed": 1, "progress": False}
    for factory, jitter in ((zoo.NIWGaussianProcess(), 1e-8), (zoo.NIWLinear(), 0.0)):
        assert factory.fit(data, **settings).posterior.attrs["jitter"] == jitter


@pytest.mark.parametrize("condition", CONDITIONS)
def test_spectrum_has_the_condition(condition: float) -> None:
    """What is swept is what the table says: the condition number in 60 digits."""
    with mp.workdps(60):
        values = mp.eigsy(mp.matrix(spectrum(condition).tolist()), eigvals_only=True)
        assert float(values[len(values) - 1] / values[0]) == pytest.approx(condition, rel=0.05)

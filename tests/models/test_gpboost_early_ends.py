"""Where GPBoost's digits are no limit: its search for the mode ends early, and ours does not.

Their iterations end where the objective gains less than a share of itself. The share is 1e-8 since their commit
b6d625a of April 2024, and was 1e-6 before. Their digits are of the day on which they were printed: those for Student's
t of December 2024, all others here of 2021 and 2023.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.gpboost_cases import moments
from tests.gpboost_mode import laplace, laplace_at
from tests.models.test_gpboost_digits import EVIDENCE, PREDICTIONS, assert_printed, fitted, tolerance

_SHARE = {
    name: 1e-8 if name.startswith("Student t") else 1e-6 for name, case in EVIDENCE.items() if case.slack
}
_LAWS = [name for name, law in PREDICTIONS.items() if law.slack]
_MODELS = [EVIDENCE[name].model for name in _SHARE] + [PREDICTIONS[name].model for name in _LAWS]


@pytest.mark.parametrize("model", dict.fromkeys(_MODELS))
def test_ours_ends_at_rounding(model):
    given, fit, found = fitted(model)
    f, negative = laplace(given)
    assert_allclose(found, negative, rtol=0.0, atol=1e-8)
    assert_allclose(moments(fit, given.t, given.X, latent=True)[0], f, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("name", _SHARE)
def test_evidence_where_theirs_ends(name):
    case = EVIDENCE[name]
    given, _, found = fitted(case.model)
    assert_printed(laplace(given, _SHARE[name])[1], case.digits)
    assert abs(float(case.digits) - found) > tolerance(case.digits)  # so that the slack is not for nothing


@pytest.mark.parametrize("name", _LAWS)
def test_predictions_where_theirs_ends(name):
    law = PREDICTIONS[name]
    X = None if law.X is None else np.asarray(law.X)
    mean, variance = laplace_at(fitted(law.model)[0], np.asarray(law.t, dtype=np.float64), X, 1e-6)
    assert_printed(mean, law.mean)
    assert_printed(variance, law.variance)

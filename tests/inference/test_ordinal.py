"""The ordinal likelihood: digits of its probabilities, exact draws, cut points, and an independent estimate.

Null of the statistical tests: draws follow the law that the likelihood says. Distribution functions:
Kolmogorov-Smirnov, p > 1e-7 each, 19 of them. Averages: abs(z) < 5.5, 4e-8 each, 8 of them. Together the false-alarm
rate is below 3e-6.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

import zoo
from zoo.inference.gibbs.augmented_ordinal import (
    OrdinalLaws,
    OrdinalParameters,
    ordinal_draw,
    ordinal_log_density,
    ordinal_slopes,
    ordinal_update,
    rows_at_an_end,
)
from zoo.inference.gibbs.augmented_probit import ProbitParameters, probit_log_density
from zoo.inference.gibbs.normal_interval import excess_within, log_probability_of_interval
from zoo.likelihoods import Gamma, LogNormal
from zoo.likelihoods.derivatives import DifferentiatedResponses
from zoo.ops.normal_interval import log_normal_interval

P = 1e-7
# Around 0, on both sides of it, far out, and narrower than the roundings of a difference.
INTERVALS = [
    (-1.0, 1.0), (-0.3, 0.1), (0.2, 0.9), (2.0, 3.0), (-3.0, 40.0), (-40.0, -39.0), (30.0, 31.0), (200.0, 200.5),
    (0.3, 0.3 + 1e-4), (5.0, 5.0 + 1e-6), (-9.0, -9.0 + 1e-9), (0.0, 9e-3), (0.0, 1.1e-2), (12.0, 12.0009),
]  # fmt: skip


def exact(a: float, b: float) -> tuple[float, float, float]:
    """Logarithm of the probability, and its derivatives in a and in b, to 400 digits."""
    with mp.workdps(400):
        a, b = (-mp.mpf(b), -mp.mpf(a)) if a + b > 0 else (mp.mpf(a), mp.mpf(b))
        p = (mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))) / 2
        return float(mp.log(p)), float(-mp.npdf(a) / p), float(mp.npdf(b) / p)


@pytest.mark.parametrize(("a", "b"), INTERVALS)
def test_the_probability_of_an_interval_has_digits(a, b):
    value, of_lower, of_upper = exact(a, b)
    if a + b > 0.0:  # mirrored
        of_lower, of_upper = -of_upper, -of_lower
    assert log_probability_of_interval(a, b) == pytest.approx(value, rel=2e-12)
    x, y = pt.dscalar(), pt.dscalar()
    graph = log_normal_interval(x, y)
    found = pytensor.function([x, y], [graph, *pytensor.grad(graph, [x, y])], mode="FAST_COMPILE")(a, b)
    assert found[0] == pytest.approx(value, rel=2e-12)
    np.testing.assert_allclose(found[1:], [of_lower, of_upper], rtol=1e-9, atol=1e-290)


def test_intervals_without_an_end_or_inside():
    assert log_probability_of_interval(-math.inf, 1.3) == pytest.approx(log_ndtr(1.3), rel=1e-14)
    assert log_probability_of_interval(1.3, math.inf) == pytest.approx(log_ndtr(-1.3), rel=1e-14)
    assert log_probability_of_interval(1.0, 1.0) == -math.inf
    assert log_probability_of_interval(2.0, 1.0) == -math.inf


@pytest.mark.parametrize(
    ("a", "width"),
    [
        (-0.5, 1.0), (-2.0, 3.0), (-6.0, 9.0), (-9.0, 2.0), (-0.1, 0.05), (0.0, 0.5), (0.3, 0.4), (1.0, 4.0),
        (3.0, 0.2), (3.0, 2.0), (40.0, 0.5), (40.0, 1e-3), (-40.5, 0.5), (1e4, 1.0), (0.2, 2.4),
        (-2.6, 2.4), (-1.0, 2.6),
    ],
)  # fmt: skip
def test_draws_within_an_interval_are_exact(a, width):
    rng = np.random.default_rng(1)
    x = np.array([excess_within(rng, a, width) for _ in range(20_000)])
    assert np.all((x >= 0.0) & (x <= width))
    # Distances from the end nearer to 0, so that the probabilities keep their digits.
    near, distance = (a, x) if a + 0.5 * width > 0.0 else (-(a + width), width - x)
    if near > 1e3:
        below = -np.expm1(-near * distance - 0.5 * distance**2)
    else:
        tail, whole = (
            log_ndtr(-(near + distance)) - log_ndtr(-near),
            log_ndtr(-(near + width)) - log_ndtr(-near),
        )
        below = np.expm1(tail) / np.expm1(whole)
    assert stats.kstest(below, "uniform").pvalue > P


def test_an_interval_of_no_number_gives_none():
    assert math.isnan(excess_within(np.random.default_rng(0), math.nan, 1.0))


# ---------------------------------------------------------------- the density

WIDTHS = np.array([0.7, 0.4, 1.1])
CUTS = np.array([-np.inf, 0.0, *np.cumsum(WIDTHS), np.inf])


def parameters(widths=WIDTHS):
    return {f"width_{k}": width for k, width in enumerate(widths, start=2)}


@pytest.mark.parametrize("f", [-30.0, -1.2, 0.0, 0.4, 2.0, 35.0])
def test_density_is_that_of_an_interval(f):
    grades = np.arange(1.0, 6.0)
    found = zoo.Ordinal().log_density(np.full(5, f), grades, **parameters()).eval()
    expected = [
        log_ndtr(-f),
        *(exact(CUTS[k - 1] - f, CUTS[k] - f)[0] for k in (2, 3, 4)),
        log_ndtr(f - CUTS[4]),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    total = np.empty(1)
    compiled = []
    for grade in grades:
        ordinal_log_density(
            np.array([f]), np.array([grade]), np.ones(1), np.zeros(1, dtype=int), OrdinalParameters(WIDTHS[:, None]),
            total,
        )  # fmt: skip
        compiled.append(total[0])
    np.testing.assert_allclose(compiled, expected, rtol=1e-11)
    probability = zoo.Ordinal().grade_probabilities(np.array([[f]]), **parameters())[:, 0, 0]
    np.testing.assert_allclose(probability, np.exp(expected), rtol=1e-9, atol=1e-300)
    assert zoo.Ordinal().mean(np.array([[f]]), **parameters())[0, 0] == pytest.approx(probability @ grades)


@pytest.mark.parametrize("f", [-30.0, -1.2, 0.0, 0.4, 2.0, 35.0])
def test_slopes_are_derivatives_of_the_log_density(f):
    """By 60 digits; a row of weight 2 has twice the slope and the curvature."""
    expected = []
    with mp.workdps(60):
        for k in range(1, 6):
            lower, upper = (mp.mpf(float(c)) for c in CUTS[k - 1 : k + 1])

            def log_density(x, lower=lower, upper=upper):
                # On the left side of 0, where the distribution function keeps its digits.
                a, b = (lower - x, upper - x) if upper < f else (x - upper, x - lower)
                return mp.log(mp.ncdf(b) - mp.ncdf(a))

            expected.append([2 * float(mp.diff(log_density, f)), -2 * float(mp.diff(log_density, f, 2))])
    grades, slope, curvature = np.arange(1.0, 6.0), np.empty(5), np.empty(5)
    known = (np.full(5, 2.0), np.zeros(5, dtype=int), OrdinalParameters(WIDTHS[:, None]))
    ordinal_slopes(np.full(5, f), grades, *known, slope, curvature)
    np.testing.assert_allclose(np.column_stack([slope, curvature]), expected, rtol=1e-9, atol=1e-12)


def test_moves_without_z_pay_where_most_rows_are_in_an_end_grade():
    weight = np.ones(10)
    for low, high, pays in ((6, 1, True), (1, 6, True), (3, 3, False)):
        y = np.r_[np.full(low, 1.0), np.full(high, 5.0), np.full(10 - low - high, 3.0)]
        assert rows_at_an_end(5, y, weight) == pays
    assert not rows_at_an_end(
        7, np.full(10, 5.0), weight
    )  # the highest grade that was seen is not the highest


@pytest.mark.parametrize("f", [-0.4, 1.3])
@pytest.mark.parametrize("sd", [0.3, 4.0])
def test_probabilities_around_a_normal_function_by_quadrature(f, sd):
    found = zoo.Ordinal().grade_probabilities(np.array([[f]]), np.array([[sd]]), **parameters())[:, 0, 0]
    for k in range(1, 6):
        value = quad(
            lambda z, k=k: (ndtr(CUTS[k] - f - sd * z) - ndtr(CUTS[k - 1] - f - sd * z)) * stats.norm.pdf(z),
            -12,
            12,
            epsabs=1e-12,
            limit=400,
        )[0]
        assert found[k - 1] == pytest.approx(value, abs=1e-9)


def test_two_grades_are_probit():
    f, y = np.array([-3.0, 0.2, 1.0, 9.0]), np.array([1.0, 2.0, 1.0, 2.0])
    sign = np.where(y == 2.0, 1.0, -1.0)
    two = zoo.Ordinal(grades=2)
    assert two.learned == () and two.parameter_names == ()
    np.testing.assert_allclose(
        two.log_density(f, y).eval(), zoo.Probit().log_density(f, sign).eval(), rtol=1e-14
    )
    totals = np.empty(1), np.empty(1)
    beside = np.ones(4), np.zeros(4, dtype=int)
    ordinal_log_density(f, y, *beside, OrdinalParameters(np.empty((0, 1))), totals[0])
    probit_log_density(f, sign, *beside, ProbitParameters(), totals[1])
    assert totals[0][0] == pytest.approx(totals[1][0], rel=1e-13)


def test_responses_for_laplace_are_concave_and_have_right_slopes():
    y, f = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 3.0]), np.array([25.0, -30.0, 0.1, 3.0, -40.0, 0.9])
    responses = DifferentiatedResponses(zoo.Ordinal(), y)
    z = np.log(WIDTHS)
    at = responses.density(f, z)
    assert np.all(at.information > 0.0)
    h = 1e-5
    up, down = responses.density(f + h, z), responses.density(f - h, z)
    np.testing.assert_allclose(at.information, -(up.slope - down.slope) / (2 * h), rtol=1e-5)
    for i, (total, slope, _) in enumerate(responses.parameter_slopes(f, z)):
        shift = h * np.eye(3)[i]
        up, down = responses.density(f, z + shift), responses.density(f, z - shift)
        assert total == pytest.approx((up.value - down.value) / (2 * h), rel=1e-6, abs=1e-6)
        np.testing.assert_allclose(slope, (up.slope - down.slope) / (2 * h), rtol=1e-4, atol=1e-7)


# ---------------------------------------------------------------- the augmentation


def latent_draws(f, y, n, seed):
    """Weights and draws (n,) of the latent variable of a grade y at f."""
    w, v, parameters = np.empty(n), np.empty(n), OrdinalParameters(WIDTHS[:, None])
    known = (np.full(n, f), np.full(n, y), np.ones(n), np.zeros(n, dtype=int), parameters)
    ordinal_draw(np.random.default_rng(seed), *known, w, v)
    return w, v


@pytest.mark.parametrize("y", [1.0, 2.0, 3.0, 4.0, 5.0])
@pytest.mark.parametrize("f", [0.4, -20.0])
def test_the_latent_variable_lies_between_its_cut_points(y, f):
    n = 4000
    w, v = latent_draws(f, y, n, seed=2)
    low, high = CUTS[int(y) - 1], CUTS[int(y)]
    assert np.all(w == 1.0) and np.all((v >= low) & (v <= high))
    if f > 0.0:
        below = (ndtr(v - f) - ndtr(low - f)) / (ndtr(high - f) - ndtr(low - f))
        assert stats.kstest(below, "uniform").pvalue > P


@pytest.mark.parametrize("y", [1.0, 2.0, 4.0, 5.0])
@pytest.mark.parametrize("g", [-1.2, 0.9])
def test_integral_over_the_latent_variable_is_the_likelihood(y, g):
    """E exp(-(g^2 - f^2)/2 + z (g - f)) over z given f is the likelihood at g over that at f."""
    f, n = 0.4, 200_000
    w, v = latent_draws(f, y, n, seed=3)
    ratio = np.exp(-0.5 * w * (g * g - f * f) + v * (g - f))
    k = int(y)
    expected = (ndtr(CUTS[k] - g) - ndtr(CUTS[k - 1] - g)) / (ndtr(CUTS[k] - f) - ndtr(CUTS[k - 1] - f))
    assert abs(ratio.mean() - expected) < 5.5 * ratio.std() / math.sqrt(n)


def test_cut_points_given_f_by_quadrature():
    """Means of both widths of four grades, under their conditional law on a grid."""
    rng = np.random.default_rng(4)
    f = rng.standard_normal(12)
    y = 1.0 + np.sum(f + rng.standard_normal(12) > np.array([[0.0], [0.6], [1.4]]), axis=0)
    law = LogNormal(-0.3, 0.6), Gamma(2.0, 1.5)
    grid = np.linspace(0.004, 8.0, 1000)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    weight = np.exp(law[0].log_density(first) + law[1].log_density(second))
    for fn, yn in zip(f, y, strict=True):
        cuts = [-np.inf, 0.0, first, first + second, np.inf]
        weight *= ndtr(cuts[int(yn)] - fn) - ndtr(cuts[int(yn) - 1] - fn)
    weight /= weight.sum()
    expected = np.array([(weight * first).sum(), (weight * second).sum()])
    state = OrdinalParameters(np.ones((2, 1)))
    laws = OrdinalLaws(np.array([part.numbers() for part in law]))
    draws = np.empty((40_000, 2))
    for i in range(len(draws)):
        ordinal_update(rng, f, y, np.ones(12), np.zeros(12, dtype=int), state, laws)
        draws[i] = state.widths[:, 0]
    # Batch means, since draws follow each other.
    batches = draws.reshape(100, -1, 2).mean(axis=1)
    z = (batches.mean(axis=0) - expected) / (batches.std(axis=0) / 10.0)
    assert np.all(np.abs(z) < 5.5), z


def test_widths_that_are_numbers_stay():
    state = OrdinalParameters(WIDTHS[:, None].copy())
    laws = OrdinalLaws(np.zeros((3, 3)))
    ordinal_update(
        np.random.default_rng(0),
        np.zeros(5),
        np.arange(1.0, 6.0),
        np.ones(5),
        np.zeros(5, dtype=int),
        state,
        laws,
    )
    np.testing.assert_array_equal(state.widths[:, 0], WIDTHS)


def test_cut_points_of_a_task_read_its_rows_alone():
    rng = np.random.default_rng(5)
    n = 400
    task = np.arange(n) % 2
    y = np.where(task == 0, 2.0, np.where(rng.random(n) < 0.5, 1.0, 3.0))
    state = OrdinalParameters(np.ones((1, 2)))
    laws = OrdinalLaws(LogNormal(0.0, 1.0).numbers()[None])
    draws = []
    for _ in range(300):
        ordinal_update(rng, np.full(n, 0.1), y, np.ones(n), task, state, laws)
        draws.append(state.widths[0].copy())
    wide, narrow = np.median(draws[50:], axis=0)
    assert wide > 1.5 and narrow < 0.2

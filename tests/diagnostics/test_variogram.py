"""Empirical variograms: against double loops, against processes whose variogram is known, errors by name."""

import math
import tracemalloc
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from zoo.diagnostics import variogram
from zoo.diagnostics.variogram import _ends

RNG = np.random.default_rng(0)
T = np.round(RNG.uniform(size=(60, 2)), 1) * [1.0, 10.0]  # some places twice
Z = RNG.standard_normal(60)


def _double_loop(z, t, edges, first_closed=True):
    """Matheron, Cressie and Hawkins, and counts, pair by pair."""
    squares, roots, count, distance = (np.zeros(len(edges) - 1) for _ in range(4))
    for i in range(len(z)):
        for j in range(i):
            d = math.dist(t[i], t[j])
            for k in range(len(edges) - 1):
                if edges[k] < d <= edges[k + 1] or (first_closed and k == 0 and d == edges[0]):
                    squares[k] += (z[i] - z[j]) ** 2
                    roots[k] += abs(z[i] - z[j]) ** 0.5
                    count[k] += 1
                    distance[k] += d
    robust = 0.5 * (roots / count) ** 4 / (0.457 + 0.494 / count)
    return squares / (2 * count), robust, count, distance / count


# ---------------------------------------------------------------- against loops


@pytest.mark.parametrize("scale", [1.0, [1.0, 10.0], "sd"])
def test_is_the_double_loop(scale):
    divisor = T.std(axis=0) if isinstance(scale, str) else np.broadcast_to(scale, 2)
    reach = 0.65 if scale != "sd" else 1.6
    result = variogram(Z, T, bins=6, max_distance=reach, scale=scale, permutations=0)
    expected = _double_loop(Z, T / divisor, np.linspace(0.0, reach, 7))
    for name, values in zip(("semivariance", "robust", "pairs", "distance"), expected, strict=True):
        np.testing.assert_allclose(result[name], values, rtol=1e-12)
    assert result.attrs["variance"] == pytest.approx(Z.var(ddof=1))
    assert result.attrs["scale"] == pytest.approx(list(divisor))
    assert result.attrs["sampled"] == 0 and set(result.data_vars) == {"semivariance", "robust", "pairs"}


def test_blocks_change_nothing(monkeypatch):
    whole = variogram(Z, T, random_seed=1)
    # The package has the function under the name of the module.
    monkeypatch.setattr(import_module("zoo.diagnostics.variogram"), "_BLOCK", 7)
    in_blocks = variogram(Z, T, random_seed=1)
    for name in (*whole.data_vars, "distance"):
        np.testing.assert_allclose(in_blocks[name], whole[name], rtol=1e-10)


def test_edges_of_bins():
    edges = [0.15, 0.3, 0.8]
    result = variogram(Z, T, bins=edges, scale=[1.0, 10.0], permutations=0)
    expected = _double_loop(Z, T / [1.0, 10.0], edges, first_closed=False)
    np.testing.assert_allclose(result["semivariance"], expected[0])
    np.testing.assert_array_equal(result["pairs"], expected[2])
    # From 0: pairs at one place count.
    place = variogram([1.0, 3.0, 4.0], [0.0, 0.0, 5.0], bins=[0.0, 1.0, 2.0, 5.0], scale=1.0, permutations=0)
    assert place["pairs"].to_numpy().tolist() == [1, 0, 2]
    np.testing.assert_array_equal(place["semivariance"], [2.0, np.nan, (9.0 + 1.0) / 4.0])
    assert place["distance"].to_numpy().tolist() == [0.0, 1.5, 5.0]


def test_default_reach_is_a_third_of_the_box():
    result = variogram(Z, T, scale=1.0, permutations=0)
    assert result.attrs["max_distance"] == pytest.approx(np.linalg.norm(np.ptp(T, axis=0)) / 3.0)
    assert result.sizes["distance"] == 15


def test_pairs_by_number():
    expected = [(i, j) for i in range(40) for j in range(i)]
    i, j = _ends(np.arange(len(expected)))
    assert list(zip(i, j, strict=True)) == expected
    # Also where the square root is rounded.
    big = np.arange(2_000_000_000, 2_000_000_003)
    for edge in big * (big - 1) // 2:
        i, j = _ends(np.array([edge - 1, edge]))
        assert j[0] == i[0] - 1 and j[1] == 0 and i[1] == i[0] + 1


def test_takes_tables_and_vectors():
    frame = pd.DataFrame(T, columns=["long", "lat"])
    assert variogram(pd.Series(Z), frame, random_seed=1).identical(variogram(Z, T, random_seed=1))
    assert variogram(Z[:, None], T[:, 0], random_seed=1).identical(variogram(Z, T[:, :1], random_seed=1))


# ---------------------------------------------------------------- random pairs


def test_random_pairs_estimate_the_same():
    """Null: same expectation. Within 5 standard errors of the drawn means: false alarm below 1e-5 over ten bins."""
    rng = np.random.default_rng(5)
    t = rng.uniform(size=(500, 2))
    z = np.sin(4.0 * t[:, 0]) + 0.3 * rng.standard_normal(500)
    exact = variogram(z, t, bins=10, permutations=0)
    drawn = variogram(z, t, bins=10, permutations=0, max_pairs=50_000, random_seed=2)
    assert drawn.attrs["sampled"] == 1 and exact.attrs["sampled"] == 0
    for k in range(10):
        edges = np.linspace(0.0, exact.attrs["max_distance"], 11)[k : k + 2]
        d = np.linalg.norm((t[:, None] - t[None]) / exact.attrs["scale"], axis=2)
        i, j = np.nonzero(np.triu((d > edges[0]) & (d <= edges[1]), 1))
        spread = np.std((z[i] - z[j]) ** 2 / 2.0) / np.sqrt(drawn["pairs"].to_numpy()[k])
        assert abs(drawn["semivariance"][k] - exact["semivariance"][k]) < 5.0 * spread
    again = variogram(z, t, bins=10, permutations=0, max_pairs=50_000, random_seed=2)
    assert again.identical(drawn)


def test_many_places_cost_little_memory():
    rng = np.random.default_rng(6)
    t, z = rng.standard_normal((21_613, 2)), rng.standard_normal(21_613)
    tracemalloc.start()
    try:
        variogram(z, t, permutations=19, max_pairs=1_000_000, random_seed=1)
        variogram(z[:6_000], t[:6_000], permutations=0, max_pairs=None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6  # the pairs of all would be 3.7 GB, those of 6,000 are 288 MB


# ---------------------------------------------------------------- known processes


def test_nugget_alone_is_flat():
    """Null: semivariance 4 at every distance.

    With n values, pairs in a bin share values: their mean has a standard error of about 4 sqrt(2/n) at most; within
    6 of these, and of the robust one within 8. False alarm below 1e-6.
    """
    rng = np.random.default_rng(7)
    n = 2_000
    result = variogram(2.0 * rng.standard_normal(n), rng.uniform(size=(n, 2)), permutations=0)
    assert (np.abs(result["semivariance"] - 4.0) < 6.0 * 4.0 * np.sqrt(2.0 / n)).all()
    assert (np.abs(result["robust"] - 4.0) < 8.0 * 4.0 * np.sqrt(2.0 / n)).all()


def test_robust_one_withstands_outliers():
    rng = np.random.default_rng(8)
    z, t = rng.standard_normal(1_000), rng.uniform(size=(1_000, 2))
    z[:10] += 30.0
    result = variogram(z, t, permutations=0)
    assert (result["semivariance"] > 5.0).all()
    assert (result["robust"] < 1.6).all()


def test_brownian_motion_rises_in_a_line():
    """gamma(h) = h / 2 per unit time: mean of 40 paths within 5 standard errors over paths, and p-values small."""
    rng = np.random.default_rng(9)
    t = np.arange(1.0, 301.0)
    curves = []
    for _ in range(40):
        path = rng.standard_normal(300).cumsum()
        result = variogram(path, t, bins=np.arange(0.5, 11.0), scale=1.0, permutations=19, random_seed=rng)
        curves.append(result["semivariance"].to_numpy())
        assert result.attrs["p_value"] == 1 / 20
        assert (result["semivariance"] < result["lower"]).all()
        np.testing.assert_allclose(result["distance"], np.arange(1.0, 11.0))
    error = np.std(curves, axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(np.mean(curves, axis=0) - np.arange(1.0, 11.0) / 2.0) < 5.0 * error).all()


def test_band_has_its_false_alarm_rate():
    """Null: independent values leave the 90% band in a tenth of 400 draws. Bounds of probability 1e-4 each."""
    rng = np.random.default_rng(10)
    outside, small = 0, 0
    for _ in range(400):
        t, z = rng.uniform(size=(60, 2)), rng.exponential(size=60)
        result = variogram(z, t, bins=8, permutations=99, ci_prob=0.9, random_seed=rng)
        gamma = result["semivariance"]
        out = bool(((gamma < result["lower"]) | (gamma > result["upper"])).any())
        outside += out
        small += result.attrs["p_value"] <= 0.1
        if result.attrs["p_value"] > 0.11:
            assert not out
    # Of 99 permutations, mean and standard deviation are those of the permuted alone: a little above a tenth.
    low, high = binom.ppf([1e-4, 1.0 - 1e-4], 400, [0.1, 0.115])
    assert low <= small <= high
    assert low <= outside <= high


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("values", "t", "arguments", "message"),
    [
        (Z[1:], T, {}, r"values has shape \(59,\), and t has 60 rows"),
        (np.r_[np.nan, Z[1:]], T, {}, "values is nan in row 0"),
        (np.ones(60), T, {}, "values are all the same"),
        (Z, np.where(T == T[3, 1], np.inf, T), {}, "t is inf in row 3, column 't1'"),
        (Z, T * [1.0, 0.0], {}, "t column 't1' is constant"),
        (Z, pd.DataFrame({"lat": np.ones(60)}), {}, "t column 'lat' is constant"),
        (Z, np.ones(60), {"scale": 1.0}, "t has one place only"),
        (Z, T, {"scale": "km"}, "scale is 'km'"),
        (Z, T, {"scale": [1.0, 2.0, 3.0]}, "one for each of the 2 columns"),
        (Z, T, {"scale": [1.0, 0.0]}, "Give finite numbers above 0"),
        (Z, T, {"bins": 0}, "bins is 0"),
        (Z, T, {"bins": [0.0, 2.0, 1.0]}, "bins is .* ascending edges"),
        (Z, T, {"bins": [0.0, 1.0], "max_distance": 1.0}, "max_distance is given, and bins has edges"),
        (Z, T, {"max_distance": -1.0}, "max_distance is -1"),
        (Z, np.arange(60.0), {"max_distance": 0.5, "scale": 1.0}, "max_distance is 0.5, and no pair"),
        (Z, T, {"max_pairs": 0}, "max_pairs is 0"),
        (Z, T, {"permutations": -1}, "permutations is -1"),
        (Z, T, {"permutations": 9}, "permutations is 9, and a band of ci_prob 0.95 needs 19 or more"),
        (Z, T, {"ci_prob": 1.0}, "ci_prob is 1"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(values, t, arguments, message):
    with pytest.raises(ValueError, match=message):
        variogram(values, t, **arguments)


def test_scales_go_to_their_columns():
    """A Series in another order than the columns was read by position."""
    rng = np.random.default_rng(1)
    places, values = pd.DataFrame(rng.random((30, 2)), columns=["long", "lat"]), rng.random(30)
    settings = {"bins": 3, "max_distance": 0.5, "permutations": 0}
    wanted = variogram(values, places, scale=[1.0, 2.0], **settings)
    for scale in (pd.Series({"lat": 2.0, "long": 1.0}), {"lat": 2.0, "long": 1.0}, pd.Series([1.0, 2.0])):
        assert variogram(values, places, scale=scale, **settings).identical(wanted)
    with pytest.raises(ValueError, match="scale has the names lat, height"):
        variogram(values, places, scale={"lat": 2.0, "height": 1.0}, **settings)

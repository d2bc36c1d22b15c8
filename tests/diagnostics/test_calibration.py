"""Calibration and the sequential test by themselves: uniform ranks pass, planted faults are found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import binom

import zoo
from zoo.diagnostics import band_p_values, kernel_test, rank_band, sbc, scalar_quantities, sequential_test
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.plots import rank_ecdf


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1], 5)
    return zoo.MultiTaskData.from_arrays(rng.standard_normal((10, 2)), rng.standard_normal(10), task)


@pytest.fixture(scope="module")
def few(data):
    return sbc(zoo.PooledTasks(), data, "exact", replications=4, draws=9, random_seed=1, progress=False)


# ---------------------------------------------------------------- bands


def test_p_values_are_exact():
    """Of two values the number of zeros is binomial, and its two-sided tail is known."""
    ranks = np.zeros((20, 1), dtype=int)
    ranks[:14] = 1
    tails = np.array([2 * min(binom.cdf(k, 20, 0.5), binom.sf(k - 1, 20, 0.5)) for k in range(21)])
    exact = binom.pmf(np.arange(21), 20, 0.5)[tails <= tails[6] * (1 + 1e-9)].sum()
    assert band_p_values(ranks, 2) == pytest.approx([exact])


def test_p_values_of_uniform_ranks():
    """Null: uniform ranks. The share of 4000 p values below 0.05 is 0.05 or less, up to five standard errors."""
    ranks = np.random.default_rng(1).integers(0, 20, (40, 4000))
    p = band_p_values(ranks, 20)
    for level in (0.01, 0.05, 0.5):
        error = np.sqrt(level * (1.0 - level) / 4000)
        assert level - 0.25 * level - 5 * error < np.mean(p <= level) < level + 5 * error


def test_faults_have_small_p_values():
    """Ranks of draws that are too narrow, too wide or shifted."""
    rng = np.random.default_rng(2)
    truth, draws = rng.standard_normal((400, 1)), rng.standard_normal((400, 49))
    faults = [0.75 * draws, 1.4 * draws, draws + 0.3]
    ranks = np.column_stack([(d < truth).sum(axis=1) for d in faults])
    assert np.all(band_p_values(ranks, 50) < 1e-4)
    assert np.all(band_p_values(np.zeros((100, 1), dtype=int), 100) < 1e-12)


def test_band_and_p_value_agree():
    rng = np.random.default_rng(3)
    ranks = np.minimum(rng.integers(0, 10, (60, 300)), rng.integers(0, 13, (60, 300)))
    shares, lower, upper = rank_band(60, 10, 0.95)
    below = (ranks[:, :, None] < (shares * 10).round()).mean(axis=0)
    inside = np.all((below >= lower - 1e-12) & (below <= upper + 1e-12), axis=1)
    p = band_p_values(ranks, 10)
    assert 0.1 < inside.mean() < 0.999
    # The band takes the nearest of the attainable levels.
    assert np.all(p[inside] > 0.045)
    assert np.all(p[~inside] <= 0.05)


# ---------------------------------------------------------------- calibration


def test_result(few):
    assert few.ranks.sizes == {"replication": 4, "quantity": 5}
    assert few.draws == 9
    assert set(few.ranks["quantity"].to_numpy()) == {
        "shrinkage", "noise", "coefficients[x0]", "coefficients[x1]", "log likelihood"
    }  # fmt: skip
    assert few.ranks["rank"].min() >= 0
    assert few.ranks["rank"].max() <= 9
    table = few.summary()
    assert list(table.columns) == ["p", "uniform", "ess"]
    assert few.calibrated == bool(table["uniform"].all())


def test_same_seed_same_ranks_and_a_killed_run_goes_on(few, data, tmp_path):
    settings = {"replications": 4, "draws": 9, "random_seed": 1, "progress": False}
    kept = sbc(zoo.PooledTasks(), data, "exact", folder=tmp_path, **settings)
    assert kept.ranks.equals(few.ranks)
    (tmp_path / "replication-00002.json").unlink()
    again = sbc(zoo.PooledTasks(), data, "exact", folder=tmp_path, **settings)
    assert again.ranks.equals(few.ranks)
    with pytest.raises(ValueError, match="draws"):
        sbc(zoo.PooledTasks(), data, "exact", folder=tmp_path, **{**settings, "draws": 8})
    with pytest.raises(ValueError, match="random_seed"):
        sbc(zoo.PooledTasks(), data, "exact", folder=tmp_path)


def test_failures_are_reported(data):
    class Fails(zoo.PooledTasks):
        def _fit_exact(self, data, y, run):
            if y[0] > 0.0:
                raise ArithmeticError("a planted failure")
            return super()._fit_exact(data, y, run)

    found = sbc(Fails(), data, "exact", replications=8, draws=9, random_seed=1, progress=False)
    assert 0 < len(found.failures) < 8
    assert found.ranks.sizes["replication"] == 8 - len(found.failures)
    assert all("a planted failure" in text for text in found.failures.values())
    assert not found.calibrated
    assert found.summary().attrs["failures"] == len(found.failures)


def test_refusals(data):
    labels = replace(data, y=np.where(data.y > 0, 1.0, -1.0))
    with pytest.raises(ValueError, match="sequential_test"):
        sbc(zoo.MaxMargin(), labels)
    with pytest.raises(ValueError, match="pseudo-likelihood"):
        kernel_test(zoo.MaxMargin(), labels)
    with pytest.raises(ValueError, match="no draw of all variables"):
        sbc(zoo.NIWLinear(), data, "em")
    with pytest.raises(ValueError, match="gibbs, nuts"):
        sbc(zoo.MultiTaskKernelMachine(), data, "exact")
    weighted = zoo.MaxMargin(likelihood="normalised_hinge", class_weight=(1.0, 2.0))
    with pytest.raises(ValueError, match="class_weight"):
        sbc(weighted, labels, "nuts", replications=3, random_seed=1)
    with pytest.raises(zoo.core.methods.UnsupportedMethodError, match="no Markov kernel"):
        zoo.PooledTasks().gibbs_kernel(data, data.y)


def test_exact_methods():
    machine = zoo.MultiTaskKernelMachine
    given = {
        m.name: m.exact
        for m in machine(lam=0.5, amplitude=1.0, likelihood=zoo.Gaussian(noise=1.0)).method_table()
    }
    learned = {m.name: m.exact for m in machine().method_table()}
    assert given == {"exact": True, "gibbs": True, "nuts": True}
    assert learned == {"exact": False, "gibbs": True, "nuts": True}
    assert {m.name: m.exact for m in zoo.NIWLinear().method_table()} == {
        "gibbs": True,
        "em": False,
        "nuts": True,
    }


def test_quantities():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 2, 3))
    draws = xr.Dataset(
        {
            "cov": (("draw", "task", "task_bis"), root @ np.swapaxes(root, 1, 2)),
            "Z": (("draw", "feature", "latent"), rng.integers(0, 2, (6, 2, 5))),
            "large": (("draw", "feature", "point"), rng.standard_normal((6, 2, 50))),
        },
        coords={"task": ["a", "b"]},
    )
    found = scalar_quantities(draws, ("latent",), most=4)
    assert {"log|cov|", "cov[a, a]", "cov[b, a]", "cov[b, b]", "Z Z'[0, 0]", "Z Z'[1, 0]"} <= set(found)
    assert sum(name.startswith("large") for name in found) == 4
    np.testing.assert_allclose(found["log|cov|"], np.linalg.slogdet(draws["cov"])[1])
    np.testing.assert_array_equal(found["Z Z'[1, 0]"], np.sum(draws["Z"][:, 0] * draws["Z"][:, 1], axis=1))


def test_picture(few):
    figure = rank_ecdf(few)
    assert sum(axes.axison for axes in figure.axes) == 5
    assert "4 replications" in figure.get_suptitle()
    one = rank_ecdf(few, ["noise"], columns=1)
    assert [axes.get_title() for axes in one.axes] == ["noise"]
    with pytest.raises(ValueError, match="quantities"):
        rank_ecdf(few, ["other"])
    plt.close("all")


# ---------------------------------------------------------------- the sequential test


def _normal(shift):
    def draw(rng, n):
        return {"x": rng.standard_normal(n) + shift, "y": rng.random(n)}, {
            "x": rng.standard_normal(n), "y": rng.random(n)
        }  # fmt: skip

    return draw


def test_sequential_test_rejects():
    result = sequential_test(_normal(0.4), size=500, random_seed=1)
    assert result.rejected
    assert result.p_values.index[0] == "x"
    assert "rejected at stage" in str(result)
    assert not sequential_test(_normal(0.0), size=500, random_seed=1).rejected


def test_sequential_test_keeps_its_level():
    """Null: one law. With alpha = 0.2 of 100 tests at most 0.2 reject, up to five standard errors; some do."""
    rejected = [
        sequential_test(_normal(0.0), alpha=0.2, size=20, stages=3, random_seed=i).rejected
        for i in range(100)
    ]
    assert 0.0 < np.mean(rejected) < 0.2 + 5 * np.sqrt(0.16 / 100)


def test_sequential_test_checks_its_samples():
    with pytest.raises(ValueError, match="'a' is in one sample"):
        sequential_test(lambda rng, n: ({"a": np.zeros(n)}, {"b": np.zeros(n)}))
    with pytest.raises(ValueError, match="not finite"):
        sequential_test(lambda rng, n: ({"a": np.full(n, np.nan)}, {"a": np.zeros(n)}))


@dataclass(frozen=True, eq=False)
class WrongDegrees(NormalInverseWishartKernel):
    """Draws the covariance of the population with degrees of freedom that are eight too many."""

    def sweep(self, rng, state):
        NormalInverseWishartKernel.sweep(replace(self, nu=self.nu + 8.0), rng, state)


@pytest.mark.statistical
@pytest.mark.parametrize("resimulate", [False, True])
def test_a_wrong_kernel_is_found(data, resimulate):
    factory = zoo.NIWLinear()
    right = factory.gibbs_kernel(factory.design(data), data.y)
    wrong = WrongDegrees(**{name: getattr(right, name) for name in right.__dataclass_fields__})
    result = kernel_test(
        factory, data, sweeps=3, resimulate=resimulate, size=120, kernel=wrong.with_response, random_seed=1
    )
    assert result.rejected, str(result)


class _Changed:
    """A kernel whose record is changed."""

    def __init__(self, kernel, change):
        self.kernel, self.change = kernel, change

    def __getattr__(self, name):
        return getattr(self.kernel, name)

    def record(self, state):
        return self.change({name: np.array(value) for name, value in self.kernel.record(state).items()})


def test_a_kernel_that_is_not_compared_as_a_whole_is_refused(data):
    """What is not finite, and what is not recorded, was left out of the comparison: nothing was rejected."""
    factory = zoo.NIWLinear()
    right = factory.gibbs_kernel(factory.design(data), data.y)
    changes = {
        "'coefficients' not finite": lambda record: {
            **record,
            "coefficients": np.nan * record["coefficients"],
        },
        "no variable 'noise'": lambda record: {k: v for k, v in record.items() if k != "noise"},
    }
    for message, change in changes.items():
        with pytest.raises(ValueError, match=message):
            kernel_test(
                factory, data, sweeps=1, size=3, random_seed=1,
                kernel=lambda y, change=change: _Changed(right.with_response(y), change),
            )  # fmt: skip
    with pytest.raises(ValueError, match="moves is an option"):
        kernel_test(factory, data, size=3, kernel=right.with_response, moves=True)


def test_a_kernel_of_another_model_is_refused(data):
    class OtherPrior(zoo.NIWLinear):
        def priors(self, data):
            return super().priors(data)

    class Potential(zoo.NIWLinear):
        def gibbs_kernel(self, data, y, **options):
            return super().gibbs_kernel(data, y, **options)

        def priors(self, data):
            pm.Potential("more", pm.math.constant(1.0))
            return super().priors(data)

    with pytest.raises(ValueError, match="OtherPrior overrides the hook `priors`"):
        kernel_test(OtherPrior(), data, size=3)
    with pytest.raises(ValueError, match="has a potential"):
        kernel_test(Potential(), data, size=3)
    with pytest.raises(ValueError, match="weight is given"):
        kernel_test(zoo.NIWLinear(), replace(data, weight=np.full(data.n_rows, 2.0)), size=3)


def test_quantities_of_the_prior_alone_are_refused(data):
    """They were left out of the ranks without a word."""

    def quantities(draws):
        noise = draws["noise"].to_numpy()
        return {"noise": noise, **({"mean": noise} if noise.size == 4 else {})}

    with pytest.raises(RuntimeError, match="quantities has 'mean'"):
        sbc(
            zoo.PooledTasks(), data, "exact", replications=4, draws=9, quantities=quantities, random_seed=1,
            progress=False,
        )  # fmt: skip

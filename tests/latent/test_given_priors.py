"""Priors that a user gives to parameters of the likelihood, where hyper-parameters have the largest evidence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytest

import zoo
from zoo.latent.coordinates import Coordinates, Hyper
from zoo.likelihoods import Beta, Gamma, LogNormal
from zoo.likelihoods.pymc_laws import as_law


def rows(counts: bool = False) -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    t, x = rng.uniform(size=(80, 1)), rng.normal(size=(80, 1))
    f = np.sin(3.0 * t[:, 0]) * x[:, 0]
    y = rng.poisson(np.exp(f)).astype(float) if counts else f + 0.1 * rng.normal(size=80)
    return zoo.MultiTaskData.from_arrays(x, y, task=np.arange(80) % 4, t=t)


def test_density_and_slope_of_given_priors() -> None:
    """By differences of the density in free coordinates; priors that nobody gave do not count."""
    coordinates = Coordinates(
        {
            "noise": Hyper(1.0, law=Gamma(2.0, 3.0), given=True),
            "degrees": Hyper(4.0, law=LogNormal(1.0, 0.5)),
            "extra": Hyper(0.3, "unit", law=Beta(2.0, 5.0), given=True),
            "scale": Hyper(1.0, law=as_law(pm.HalfNormal.dist(2.0), "scale"), given=True),
        }
    )
    z = np.array([0.3, 0.2, -1.0, 0.7])
    value, gradient = coordinates.given_prior(z)
    every = coordinates.log_prior(z)
    other = float(LogNormal(1.0, 0.5).log_density(np.exp(0.2)) + 0.2)
    assert np.isclose(value, every - other)
    assert gradient[1] == 0.0
    for i in (0, 2, 3):
        step = np.zeros(4)
        step[i] = 1e-4
        slope = (coordinates.log_prior(z + step) - coordinates.log_prior(z - step)) / 2e-4
        assert np.isclose(gradient[i], slope, rtol=1e-5)


@pytest.mark.parametrize(
    ("factory", "method", "tight", "name"),
    [
        (zoo.VaryingCoefficientGP, "exact", {"noise": LogNormal(np.log(5.0), 0.01)}, "noise"),
        (zoo.VaryingCoefficientGP, "hsgp", {"noise": LogNormal(np.log(5.0), 0.01)}, "noise"),
        (zoo.VaryingCoefficientGP, "vecchia", {"noise": LogNormal(np.log(5.0), 0.01)}, "noise"),
        (zoo.MultiTaskKernelMachine, "exact", {"noise": LogNormal(np.log(5.0), 0.01)}, "noise"),
        pytest.param(
            zoo.MultiTaskKernelMachine,
            "laplace",
            {"dispersion": LogNormal(np.log(0.2), 0.01)},
            "dispersion",
            marks=pytest.mark.scheduled,
        ),
        (zoo.VaryingCoefficientGP, "laplace", {"dispersion": LogNormal(np.log(0.2), 0.01)}, "dispersion"),
    ],
)
def test_a_narrow_prior_decides(factory: Any, method: str, tight: dict[str, Any], name: str) -> None:
    """However far it is from the data: 5 where these say 0.1."""
    counts = name == "dispersion"
    likelihood = zoo.NegativeBinomial(**tight) if counts else zoo.Gaussian(**tight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = factory(likelihood=likelihood).fit(
            rows(counts), method, draws=20, random_seed=1, progress=False
        )
    value = float(fit.posterior[name].mean())
    assert abs(np.log(value / tight[name].typical)) < 0.05


def test_a_wide_prior_changes_next_to_nothing() -> None:
    """The largest evidence stays where it was."""
    free = zoo.VaryingCoefficientGP().fit(rows(), "exact", draws=20, random_seed=1, progress=False)
    wide = zoo.VaryingCoefficientGP(likelihood=zoo.Gaussian(noise=LogNormal(0.0, 50.0))).fit(
        rows(), "exact", draws=20, random_seed=1, progress=False
    )
    ratio = float(wide.posterior["noise"].mean() / free.posterior["noise"].mean())
    assert abs(ratio - 1.0) < 1e-3

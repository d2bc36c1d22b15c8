"""Fields and data of varying-coefficient models that are refused, their descriptions, and subclasses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import zoo
from tests.models.varying import (
    DRAWS,
    FIXED,
    TREE,
    Component,
    Varying,
    labelled,
    log_evidence,
    matern32,
    on_tree,
    places,
    values_of,
)
from zoo.core.methods import UnsupportedMethodError
from zoo.kernels import GraphLaplacian, MeanRegularised, Tree
from zoo.latent.coordinates import Hyper
from zoo.likelihoods import Gaussian, Poisson
from zoo.models.varying_coefficient import methods as varying_fit

# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Varying(task_kernel="matern"), ["task_kernel", "matern32"]),
        (lambda: Varying(task_kernel=3.0), ["task_kernel", "float"]),
        (lambda: Varying(task_kernel=(), global_coefficients=False), ["task_kernel is empty"]),
        (lambda: Varying(task_kernel=MeanRegularised(2, 3, base=pm.gp.cov.Linear(1, c=0.0))), ["task_kernel", "base"]),
        (lambda: Varying(task_kernel=[{"kernel": "matern32", "colour": 1}]), ["task_kernel", "colour"]),
        (lambda: Varying(instance_kernel="cubic"), ["instance_kernel", "linear"]),
        (lambda: Varying(instance_kernel=2), ["instance_kernel", "int"]),
        (lambda: Varying(instance_kernel="matern52", amplitude="per_feature"), ["instance_kernel", "amplitude"]),
        (lambda: Varying(instance_kernel="matern52", amplitude="covariance"), ["amplitude", "linear"]),
        (lambda: Varying(instance_kernel="matern52", task_kernel=Component(features="x0")), ["features", "linear"]),
        (lambda: Varying(instance_lengthscale=-1.0), ["instance_lengthscale", "-1"]),
        (lambda: Varying(instance_lengthscale="all"), ["instance_lengthscale", "shared"]),
        (lambda: Varying(likelihood="gamma"), ["likelihood: 'gamma'", "poisson"]),
        (lambda: Varying(amplitude="big"), ["amplitude", "per_feature"]),
        (lambda: Varying(amplitude=0.0), ["amplitude", "0"]),
        (lambda: Varying(likelihood=Gaussian(noise=-0.1)), ["noise", "-0.1"]),
        (lambda: Varying(likelihood=Gaussian(noise="estimated")), ["noise", "learned"]),
        (lambda: Varying(approximation="sines"), ["approximation", "hsgp"]),
        (lambda: Varying(approximation="vfe", likelihood="poisson"), ["vfe", "fitc"]),
        (lambda: Varying(approximation="hsgp", instance_kernel="matern52"), ["hsgp", "instance_kernel"]),
        (lambda: Varying(approximation="hsgp", amplitude="covariance"), ["hsgp", "covariance"]),
        (lambda: Varying(n_inducing=0), ["n_inducing", "1"]),
        (lambda: Varying(n_inducing=2.5), ["n_inducing", "2.5"]),
        (lambda: Varying(placement="grid"), ["placement", "kmeans"]),
        (lambda: Component(kernel=TREE, columns="long"), ["columns", "tasks"]),
        (lambda: Component(columns=()), ["columns", "empty"]),
        (lambda: Component(columns=("long", "long")), ["columns", "long", "twice"]),
        (lambda: Component(amplitude="huge"), ["amplitude", "shared"]),
        (lambda: Component(lengthscale="fixed"), ["lengthscale", "learned"]),
        (lambda: Component(lengthscale=0.0), ["lengthscale", "0"]),
        (lambda: Component(lengthscale=(1.0, -2.0)), ["lengthscale", "-2"]),
        (lambda: Component(kernel=TREE, lengthscale=1.0), ["lengthscale", "fixed"]),
        (lambda: Component(boundary=1.0), ["boundary", "1.5"]),
        (lambda: Component(n_basis=0), ["n_basis", "0"]),
        (lambda: zoo.PooledGP(task_kernel="matern32"), ["task_kernel", "VaryingCoefficientGP"]),
        (lambda: zoo.PooledGP(inputs="t"), ["inputs", "xt"]),
    ],
)  # fmt: skip
def test_fields_are_checked(make, words):
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def _without_t():
    return replace(places(), t=None)


def _constant_t():
    data = places()
    return replace(data, t=np.column_stack([data.t[:, 0], np.full(30, 3.0)]))


@pytest.mark.parametrize(
    "factory, make, words",
    [
        (Varying(), _without_t, ["t is missing", "t=[...]"]),
        (Varying(), _constant_t, ["t", "constant", "lat"]),
        (Varying(task_kernel=Component(columns="date")), places, ["columns", "date", "long, lat"]),
        (Varying(task_kernel=Component(features="rooms")), places, ["features", "rooms", "x0"]),
        (Varying(intercept=False, task_kernel=Component(features="intercept")), places, ["features", "intercept"]),
        (Varying(task_kernel=Component(lengthscale=(1.0, 2.0, 3.0))), places, ["lengthscale", "3", "2 columns"]),
        (Varying(task_kernel=pm.gp.cov.Matern32(1, ls=1.0)), places, ["task_kernel", "input_dim=1", "2 columns"]),
        (Varying(approximation="hsgp", task_kernel=Component(n_basis=(3, 3, 3))), places, ["n_basis", "3", "2"]),
        (Varying(task_kernel=TREE), lambda: on_tree(tasks="abcd"), []),
        (Varying(task_kernel=TREE), lambda: on_tree(tasks="abcdz"), ["task_names", "z"]),
        (Varying(task_kernel=Tree(parent=[-1, 0, 0])), on_tree, ["task_kernel", "3 tasks", "5"]),
        (Varying(task_kernel=TREE.kernel(tasks=list("abced"))), on_tree, ["task_kernel", "order"]),
        (Varying(task_kernel=GraphLaplacian(None, np.ones((4, 4)) - np.eye(4))), on_tree, ["task_kernel", "4 tasks"]),
        (Varying(likelihood="poisson"), places, ["y", "row 0", "counts"]),
        (Varying(likelihood="negative_binomial"), lambda: replace(places(), y=np.full(30, 0.5)), ["0.5", "row 0"]),
        (Varying(likelihood="poisson"), lambda: labelled(places(), "poisson").standardize(), ["y", "standardize"]),
        (Varying(likelihood="logistic"), places, ["y", "row 0", "labels"]),
        (zoo.PooledGP(inputs="xt"), _without_t, ["t is missing", "xt"]),
    ],
)  # fmt: skip
def test_data_are_checked(factory, make, words):
    data = make()
    if not words:  # a leaf without rows is no fault
        assert np.all(np.isfinite(factory.fit(data, "exact", **DRAWS).coefficients()["mean"]))
        return
    with pytest.raises((ValueError, TypeError)) as error:
        factory.fit(data, **DRAWS)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_t_must_be_numbers():
    data = places()
    t = data.t.copy()
    t[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"t.*row 7.*lat|t.*lat.*row 7"):
        zoo.MultiTaskData.from_arrays(data.X, data.y, t=pd.DataFrame(t, columns=["long", "lat"]))
    with pytest.raises(ValueError, match="t has"):
        zoo.MultiTaskData.from_arrays(data.X, data.y, t=t[:5])
    fit = FIXED.fit(data, "exact", **DRAWS)
    with pytest.raises(ValueError, match="t "):
        fit.predict(data.X[:3])
    with pytest.raises(ValueError, match=r"t has 1 column, and the data of the fit 2: long, lat"):
        fit.coefficients(t[:3, :1])
    with pytest.raises(ValueError, match="row 7"):
        fit.coefficients(t)
    with pytest.raises(ValueError, match="lat"):
        fit.coefficients(pd.DataFrame({"long": [0.1]}))
    frame = pd.DataFrame({"lat": [0.2], "more": [9.0], "long": [0.1]})
    assert_allclose(fit.coefficients(frame)["mean"], fit.coefficients([[0.1, 0.2]])["mean"])


# ---------------------------------------------------------------- subclasses, descriptions


def test_a_subclass_may_change_the_covariance():
    """Overridden `kernel_of` and `hyperparameters` serve every method; an overridden law or function leaves nuts."""

    @dataclass(frozen=True, kw_only=True)
    class Halved(Varying):
        share: float = 0.5

        def __post_init__(self):
            super().__post_init__()
            if not 0.0 < self.share <= 1.0:
                raise ValueError("share")

        def hyperparameters(self, rows):
            return {
                name: hyper for name, hyper in super().hyperparameters(rows).items() if name != "global_scale"
            }

        def values_of(self, learned, rows):
            return {
                "global_scale": pt.constant(self.share, dtype="float64"),
                **super().values_of(learned, rows),
            }

    data = places()
    X = np.column_stack([np.ones(30), (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)])
    t, y = (data.t - data.t.mean(axis=0)) / data.t.std(axis=0), data.y - data.y.mean()
    factory = Halved(share=0.7, likelihood="gaussian")
    assert set(factory.methods) == set(Varying().methods)
    fit = factory.fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert "global_scale" not in v
    K = (v["amplitude"] ** 2 * matern32(t, t, v["lengthscale"]) + 0.49) * (X @ X.T)
    expected = stats.multivariate_normal(cov=K + v["noise"] ** 2 * np.eye(30)).logpdf(y)
    assert log_evidence(fit) == pytest.approx(expected, abs=1e-7)
    assert Halved(likelihood="poisson").likelihood == Poisson()
    assert replace(Halved(likelihood="poisson"), share=0.2).likelihood == Poisson()
    with pytest.raises(ValueError, match="share"):
        Halved(share=2.0)

    class Twice(Varying):
        def latent(self, data, priors):
            return 2.0 * super().latent(data, priors)

    class Noisy(Varying):
        def observe(self, data, f):
            return super().observe(data, f)

    class Kernel(Varying):
        def kernel_of(self, rows):
            kernel = super().kernel_of(rows)
            kernel.with_global = False
            return kernel

    assert set(Twice().methods) == set(Noisy().methods) == {"nuts"}
    assert varying_fit.choose(Twice(), data).method == "nuts"
    with pytest.raises(UnsupportedMethodError, match="latent"):
        Twice().fit(data, "exact", **DRAWS)
    same = Varying(global_coefficients=False).fit(data, "exact", **DRAWS)
    assert log_evidence(Kernel().fit(data, "exact", **DRAWS)) == pytest.approx(log_evidence(same), abs=1e-6)
    # A subclass's hyper-parameter of another start and prior.

    class Started(Varying):
        def hyperparameters(self, rows):
            return {**super().hyperparameters(rows), "noise": Hyper(0.01)}

    one = Started().fit(data, "exact", **DRAWS)
    assert log_evidence(one) == pytest.approx(log_evidence(Varying().fit(data, "exact", **DRAWS)), abs=1e-2)


def test_descriptions():
    graph = GraphLaplacian(None, np.ones((5, 5)) - np.eye(5))
    factories = [
        Varying(),
        Varying(task_kernel=["matern12", "matern52"]),
        Varying(task_kernel=pm.gp.cov.Matern32(2, ls=[1.0, 2.0])),
        Varying(task_kernel=TREE),
        Varying(
            task_kernel=[graph, Component(columns="long", features=["x0"], n_basis=(4,), lengthscale=[0.4])]
        ),
        Varying(instance_kernel=pm.gp.cov.ExpQuad(2, ls=1.0), instance_lengthscale="fixed"),
        Varying(instance_kernel="matern32", instance_lengthscale=0.5),
        zoo.PooledGP(inputs="xt"),
        zoo.NonisotropicVaryingCoefficients(),
    ]
    import json

    for factory in factories:
        spec = json.loads(json.dumps(factory.to_spec()))
        again = type(factory).from_spec(spec)
        assert again == factory
        assert hash(again) == hash(factory)
        assert repr(again) == repr(factory)
        assert replace(factory, likelihood=Gaussian(noise=0.5)) != factory
    assert len(set(factories)) == len(factories)
    fit = Varying().fit(places(), "inducing", n_inducing=7, approximation="vfe", **DRAWS)
    assert (fit.factory.n_inducing, fit.factory.approximation) == (7, "vfe")
    assert replace(fit.factory, n_inducing=1000, approximation="none") == Varying()

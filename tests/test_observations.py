"""An overridden hook `observation` counts in every factory, or is refused by its name."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

import zoo
from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.hinge import Hinge
from zoo.likelihoods.logistic import Logistic
from zoo.likelihoods.poisson import Poisson
from zoo.likelihoods.student_t import StudentT

QUICK = Mode("py", "fast_compile")


def _with(kind, likelihood):
    return type("Other", (kind,), {"observation": property(lambda self: likelihood)})


@pytest.fixture(scope="module")
def real():
    return zoo.datasets.simulate_matrix_normal(3, 2, [7, 9, 8], random_seed=3)[0]


@pytest.mark.parametrize("likelihood", [StudentT(), Logistic(), Poisson(), Gaussian(noise=2.0)])
def test_processes_that_are_integrated_out_refuse_it(real, likelihood):
    labels = zoo.datasets.simulate_matrix_normal(3, 2, [7, 9, 8], loss="hinge", random_seed=3)[0]
    data = labels if likelihood.labels else real
    factory = _with(zoo.MultiLaplaceGP, likelihood)()
    for call in (factory.build, factory.fit):
        with pytest.raises(
            ValueError, match=r"overrides the hook `observation`.*integrates its functions out"
        ):
            call(data)
    assert _with(zoo.MultiLaplaceGP, Gaussian())().build(real)


def test_processes_whose_functions_are_variables_take_it(real):
    class Own(zoo.MultiLaplaceGP):
        @property
        def observation(self):
            return Poisson()

        def latent(self, data, priors):
            return pm.Normal("f", dims="obs")

        def likelihood(self, data, f):
            return self.observation.term(f, data.y)

    counts = zoo.MultiTaskData.from_arrays(real.X, np.floor(np.abs(real.y)), real.task)
    assert type(Own().build(counts)["y"].owner.op).__name__ == "PoissonRV"


@pytest.mark.parametrize("noise", [0.4, "learned"])
def test_a_kernel_machine_with_given_noise_takes_it(real, noise):
    factory = _with(zoo.MultiTaskKernelMachine, StudentT())(noise=noise)
    with pytest.raises(ValueError, match=r"hook `observation`.*'(degrees|noise)'"):
        factory.build(real)

    class Heavy(type(factory)):
        def priors(self, data):
            pm.Gamma("degrees", 2.0, 0.1)
            if noise != "learned":
                pm.Deterministic("noise", pm.math.constant(noise))
            return super().priors(data)

    assert type(Heavy(noise=noise).build(real)["y"].owner.op).__name__ == "StudentTRV"


def test_a_kernel_machine_with_given_noise_is_what_it_was(real):
    model = zoo.MultiTaskKernelMachine(noise=0.4).build(real)
    y = model["y"]
    assert type(y.owner.op).__name__ == "NormalRV"
    assert y.owner.inputs[3].eval().item() == 0.4
    assert "noise" not in model.named_vars


@pytest.mark.parametrize("likelihood", [Hinge(C=0.7), EpsilonInsensitive(C=0.7, epsilon=0.1)])
def test_other_places_of_local_fits_follow_the_override(likelihood):
    """What other places see of the rows is weighed by the override's density, not by that of the original."""
    rng = np.random.default_rng(1)
    X, t = rng.standard_normal((12, 1)), np.repeat([0.0, 0.5, 1.0, 1.5], 3)[:, None]
    y = np.where(np.arange(12) % 2, 1.0, -1.0) if likelihood.labels else rng.standard_normal(12)
    data = zoo.MultiTaskData.from_arrays(X, y, t=t)
    response = "bernoulli_logit" if likelihood.labels else "normal"
    fields = {"bandwidth": 2.0, "lam": 1.0, "intercept": False, "response": response}
    factory = _with(zoo.KernelLocalSmoothing, likelihood)(**fields)
    model = factory.build(data)
    rows = factory.prepare(data)
    pairs, weight = rows.neighbours(2.0, 1000)
    point = model.initial_point()
    w = rng.standard_normal(point["coefficients"].shape)
    point["coefficients"] = w
    found = model.compile_fn(model.replace_rvs_by_values([model["other_places"]])[0], mode=QUICK)(point)
    f = np.sum(pairs.inputs[pairs.row] * w[:, pairs.place].T, axis=1)
    loss = (
        np.maximum(0.0, 1.0 - pairs.y * f)
        if likelihood.labels
        else np.maximum(0.0, np.abs(pairs.y - f) - likelihood.epsilon)
    )
    expected = -2.0 * likelihood.C * np.sum(weight * loss)
    if not likelihood.labels:
        with pm.Model(coords={"obs": np.arange(1)}):
            at_zero = pm.logp(likelihood.term(np.zeros(1), np.zeros(1)), np.zeros(1)).eval().item()
        expected += at_zero * np.sum(weight)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


def test_local_fits_refuse_what_they_cannot_choose_for(real):
    t = np.linspace(0.0, 1.0, real.n_rows)[:, None]
    data = zoo.MultiTaskData.from_arrays(real.X, np.floor(np.abs(real.y)), t=t)
    with pytest.raises(ValueError, match="hook `observation` with Poisson"):
        _with(zoo.KernelLocalSmoothing, Poisson())().build(data)
    with pytest.raises(ValueError, match="hook `observation` with StudentT"):
        _with(zoo.KernelLocalSmoothing, StudentT())().build(data)


def test_a_missing_variable_is_named(real):
    with pytest.raises(ValueError, match=r"hook `observation` of Other.*need a variable 'degrees'"):
        _with(zoo.PooledTasks, StudentT())().build(real)

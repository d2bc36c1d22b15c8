"""A likelihood that a factory was not made with counts, or is refused by its name."""

import numpy as np
import pymc as pm
import pytest

import zoo


@pytest.fixture(scope="module")
def real():
    return zoo.datasets.simulate_matrix_normal(3, 2, [7, 9, 8], random_seed=3)[0]


@pytest.mark.parametrize("word", ["student_t", "logistic", "poisson", zoo.Gaussian(noise=2.0)])
def test_processes_that_are_integrated_out_refuse_it(real, word):
    labels = zoo.datasets.simulate_matrix_normal(3, 2, [7, 9, 8], loss="hinge", random_seed=3)[0]
    factory = zoo.MultiLaplaceGP(likelihood=word)
    data = labels if factory.likelihood.labels else real
    for call in (factory.build, factory.fit):
        with pytest.raises(ValueError, match=r"likelihood is .*integrates its functions out"):
            call(data)


def test_processes_whose_functions_are_variables_take_it(real):
    class Own(zoo.MultiLaplaceGP):
        def latent(self, data, priors):
            return pm.Normal("f", dims="obs")

        def observe(self, data, f):
            return self.likelihood.term(f, data.y)

    counts = zoo.MultiTaskData.from_arrays(real.X, np.floor(np.abs(real.y)), real.task)
    assert type(Own(likelihood="poisson").build(counts)["y"].owner.op).__name__ == "PoissonRV"


@pytest.mark.parametrize("noise", [0.4, "learned", zoo.likelihoods.Gamma(2.0, 3.0)])
def test_a_kernel_machine_learns_what_the_likelihood_says(real, noise):
    factory = zoo.MultiTaskKernelMachine(likelihood=zoo.StudentT(noise=noise))
    model = factory.build(real)
    assert type(model["y"].owner.op).__name__ == "StudentTRV"
    assert type(model["degrees"].owner.op).__name__ == "LogNormalRV"
    assert ("noise" in model.named_vars) == (noise != 0.4)
    if noise not in (0.4, "learned"):
        assert type(model["noise"].owner.op).__name__ == "GammaRV"
    assert list(factory.methods) == ["gibbs", "nuts", "laplace"]


def test_a_kernel_machine_with_given_noise_is_what_it_was(real):
    model = zoo.MultiTaskKernelMachine(likelihood=zoo.Gaussian(noise=0.4)).build(real)
    y = model["y"]
    assert type(y.owner.op).__name__ == "NormalRV"
    assert y.owner.inputs[3].eval().item() == 0.4
    assert "noise" not in model.named_vars


@pytest.mark.parametrize("word", ["poisson", "student_t", zoo.Gaussian(per_task="noise")])
def test_local_fits_refuse_what_they_cannot_choose_for(word):
    with pytest.raises(ValueError, match="local fits are derived for gaussian"):
        zoo.KernelLocalSmoothing(likelihood=word)


def test_a_factory_of_the_users_own_learns_the_parameters_of_any_likelihood(real):
    class Own(zoo.ModelFactory):
        def priors(self, data):
            return {"coefficients": pm.Normal("coefficients", dims=("feature", "task"))}

    names = [v.name for v in Own(likelihood="student_t").build(real).free_RVs]
    assert names == ["coefficients", "noise", "degrees"]
    by_task = Own(likelihood=zoo.StudentT(per_task=("noise", "degrees"))).build(real)
    assert by_task.named_vars_to_dims["noise"] == ("task",)
    assert by_task["y"].owner.inputs[4].eval().shape == (real.n_rows,)


def test_a_post_init_that_forgets_its_parent_is_named(real):
    class Forgetful(zoo.ModelFactory):
        def __post_init__(self):
            pass

    with pytest.raises(TypeError, match=r"Begin it with super\(\).__post_init__"):
        Forgetful().build(real)


def test_a_hook_called_likelihood_is_refused():
    with pytest.raises(TypeError, match="observed variable is called `observe"):

        class Old(zoo.ModelFactory):
            def likelihood(self, data, f):
                return None

"""Fields of kernel machines that are refused or learned, kernels for other data, and subclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytensor
import pytest
from scipy.stats import multivariate_normal

import zoo
from tests.models.kernel_machines import DRAWS, FeatureOne, Machine, aligned_tasks, points_of, simulated_tasks
from zoo.kernels import ICM, FeatureMap, MeanRegularised, TaskKernel, kernel_matrix
from zoo.latent.coordinates import Hyper
from zoo.likelihoods import Gaussian
from zoo.models.kernel_machine.methods import log_evidence
from zoo.models.kernel_machine.sides import space_of

# ---------------------------------------------------------------- subclasses


@dataclass(frozen=True, kw_only=True)
class TwoDials(Machine):
    """A user's kernel with hyper-parameters of its own."""

    weight: float = 2.0

    def hyperparameters(self, data: Any) -> dict[str, Hyper]:
        return {**super().hyperparameters(data), "ratio": Hyper(self.weight)}

    def covariance_function(self, parameters: dict[str, Any], data: Any) -> Any:
        ones = np.ones((data.n_tasks, data.n_tasks))
        return OwnKernel(data.n_features + 1, data.n_tasks, np.eye(data.n_tasks) + parameters["ratio"] * ones)


class OwnKernel(TaskKernel):
    def __init__(self, input_dim, n_tasks, matrix):
        super().__init__(input_dim, n_tasks)
        self.matrix = matrix

    def task_matrix(self):
        return pytensor.tensor.as_tensor(self.matrix)


def test_a_subclass_with_its_own_kernel_keeps_every_method():
    data = simulated_tasks()
    machine = TwoDials(lam=1.0)
    assert list(machine.methods) == list(Machine().methods)
    space = space_of(machine, machine.design(data), data.y)
    gradient = log_evidence(space, space.coordinates.start)[1]
    for i, step in enumerate(1e-5 * np.eye(space.coordinates.size)):
        up, down = (log_evidence(space, space.coordinates.start + s * step)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-4)
    fit = machine.fit(data, "gibbs", **DRAWS)
    assert fit.posterior["ratio"].to_numpy().std() > 0.0
    exact = machine.fit(data, "exact", **DRAWS)
    assert exact.add_rows(data).data.n_rows == 2 * data.n_rows
    assert np.isfinite(
        machine.build(data).compile_logp(mode="FAST_COMPILE")(machine.build(data).initial_point())
    )


def test_a_kernel_of_the_users_own_serves_without_a_description():
    data = simulated_tasks()
    machine = Machine(kernel=FeatureOne(4) * MeanRegularised(4, 4, lam=0.5))
    fit = machine.fit(data, "exact", **DRAWS)
    same = Machine(lam=0.5).fit(data, "exact", **DRAWS)
    assert np.allclose(fit.predict(data)["mean"], same.predict(data)["mean"], atol=1e-5)
    with pytest.raises(TypeError, match="FeatureOne"):
        machine.to_spec()


def test_fields_are_chosen_by_cross_validation():
    data = simulated_tasks("hinge", rows=(20, 20, 20, 20))
    found = zoo.select(
        Machine(likelihood="hinge", amplitude=1.0, lam=0.5), data, {"lam": [0.05, 1.0], "likelihood.C": [0.1, 1.0]},
        method="map", cv=2, n_jobs=1, random_seed=1, progress=False,
    )  # fmt: skip
    assert len(found.scores) == 4
    assert found.best.lam in (0.05, 1.0)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"likelihood": "squared"}, "likelihood"),
        ({"lam": 1.5}, "lam is 1.5"),
        ({"lam": 0.0}, "lam is 0"),
        ({"lam": 0.5, "kernel": MeanRegularised(3, 2)}, "lam is for"),
        ({"lam": "large"}, "lam"),
        ({"amplitude": -1.0}, "amplitude"),
        ({"likelihood": zoo.StudentT(per_task="noise")}, "one noise for all tasks"),
        ({"Q": [[1.0, 2.0], [0.0, 1.0]]}, "Q"),
        ({"Q": 5.0}, "Q is 5.0"),
        ({"kernel": "linear"}, "kernel"),
        ({"kernel": MeanRegularised(3, 2), "Q": np.eye(2)}, "Q is for"),
        ({"kernel": MeanRegularised(3, 2), "learn": ("lamda",)}, "learn"),
        ({"learn": ("lam",)}, "learn"),
    ],
)
def test_bad_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Machine(**fields)


def test_a_kernel_of_another_class_is_refused():
    with pytest.raises(TypeError, match="kernel is a int"):
        Machine(kernel=3)
    with pytest.raises(TypeError, match="learn is 3"):
        Machine(learn=3)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (MeanRegularised(4, 3), "3 tasks.*4"),
        (MeanRegularised(7, 4), "input_dim 7"),
        (MeanRegularised(4, 4, task_names=["a", "b", "c", "d"]), "task 0 of kernel is 'a'"),
        (pm.gp.cov.ExpQuad(6, ls=1.0), "input_dim 6"),
        (MeanRegularised(n_tasks=4, base=pm.gp.cov.ExpQuad(4, ls=1.0)), "input_dim 5, but the data have 3"),
    ],
)
def test_a_kernel_for_other_data_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        Machine(kernel=kernel).build(simulated_tasks())


def test_a_metric_of_other_features_is_refused():
    with pytest.raises(ValueError, match="Q"):
        Machine(Q=np.eye(5)).build(simulated_tasks())


def test_a_metric_with_names_is_refused():
    """It was read by position, whatever features its rows and columns named."""
    Q = pd.DataFrame(np.diag([1.0, 9.0]), ["b", "a"], ["b", "a"])
    for named in (Q, Q.rename(index={"b": 0, "a": 1}), pl.from_pandas(Q)):
        with pytest.raises(ValueError, match=r"Q has names, .*Put it into the order of the features"):
            Machine(Q=named)
    assert Machine(Q=Q.to_numpy()) == Machine(Q=pd.DataFrame(Q.to_numpy()))


def test_aligned_tasks_use_the_columns_of_their_kernel():
    """active_dims: the base is of feature 1 alone, whatever the form."""
    data = aligned_tasks()
    W = np.array([[1.0], [0.5], [-0.3]])
    kernel = ICM(3, W, kappa=0.2, base=pm.gp.cov.ExpQuad(1, ls=0.7), active_dims=[1, 2])
    machine = Machine(kernel=kernel, amplitude=1.0, likelihood=Gaussian(noise=0.5))
    fit = machine.fit(data, "exact", **DRAWS)
    K = kernel_matrix(kernel, points_of(data))
    expected = multivariate_normal(cov=K + 0.25 * np.eye(len(K))).logpdf(data.y)
    assert fit.idata["sample_stats"]["log_evidence"].to_numpy().max() == pytest.approx(expected, abs=1e-8)


def test_random_parameters_are_refused():
    data = simulated_tasks()
    with pm.Model():
        kernel = MeanRegularised(4, 4, lam=pm.Uniform("lam"))
    with pytest.raises(TypeError, match="name it in `learn`"):
        Machine(kernel=kernel).fit(data, "exact", **DRAWS)


@pytest.mark.parametrize(
    ("kernel", "learn"),
    [
        (ICM(4, np.array([[1.0], [0.5], [-0.3], [0.2]]), kappa=0.2), ("W", "kappa")),
        (MeanRegularised(4, 4, base=pm.gp.cov.ExpQuad(3, ls=[1.0, 2.0, 0.5])), ("ls", "lam")),
        (FeatureMap(4, np.random.default_rng(0).normal(size=(4, 2, 3))), ("B",)),
    ],
)
def test_vectors_and_matrices_are_learned(kernel, learn):
    data = simulated_tasks()
    machine = Machine(kernel=kernel, learn=learn)
    assert np.isfinite(
        machine.build(data).compile_logp(mode="FAST_COMPILE")(machine.build(data).initial_point())
    )
    space = space_of(machine, machine.design(data), data.y)
    _, gradient = log_evidence(space, space.coordinates.start)
    for i, step in enumerate(1e-5 * np.eye(space.coordinates.size)):
        up, down = (log_evidence(space, space.coordinates.start + s * step)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-4), i
    fit = machine.fit(data, "exact", **DRAWS)
    assert fit.posterior[learn[0]].shape[2:] == np.shape(
        zoo.kernels.kernel_parameters(machine.kernel)[learn[0]].value
    )
    assert np.all(np.isfinite(fit.predict_draws(data, random_seed=1)["f"]))


def test_a_kernel_of_a_hook_says_nothing_of_new_tasks():
    data = simulated_tasks(T=5, rows=(8, 6, 9, 7, 5))
    old, new = data.select_tasks(data.task_names[:4]), data.select_tasks(data.task_names[4:])
    fit = TwoDials().fit(old, "exact", **DRAWS)
    for call in (lambda: fit.predict(new, new_task=True), lambda: fit.add_task(new)):
        with pytest.raises(ValueError, match=r"kernel says nothing|covariance_function"):
            call()


def test_numbers_of_numpy_are_saved(tmp_path):
    machine = Machine(lam=np.float32(0.5), amplitude=np.int64(1))
    fit = machine.fit(simulated_tasks(), "exact", **DRAWS)
    assert zoo.load(fit.save(tmp_path / "fit.nc")).factory == machine


def test_map_says_that_it_learns_nothing():
    with pytest.raises(ValueError, match="numbers for lam"):
        Machine(likelihood="hinge").fit(simulated_tasks("hinge"), "map", **DRAWS)

"""Machines, kernels and data that the tests of multi-task kernel machines share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor

import zoo
from zoo.datasets import simulate_matrix_normal
from zoo.kernels import GraphLaplacian, MeanRegularised
from zoo.models.kernel_machine.spaces import AlignedSpace, FunctionSpace, WeightSpace

Machine = zoo.MultiTaskKernelMachine
DRAWS = {"draws": 20, "tune": 5, "chains": 1, "random_seed": 1, "progress": False}


def simulated_tasks(loss="epsilon_insensitive", T=4, D=2, seed=8, rows=(8, 6, 9, 7)):
    cov = 0.5 * np.eye(D + 1)
    data = simulate_matrix_normal(
        T, D, list(rows), loss=loss, intercept=True, feature_cov=cov, task_cov=np.eye(T), random_seed=seed
    )[0]
    return in_units(data)


def in_units(data):
    """The data in units of the default priors, without saying so."""
    return replace(data.standardize(), transform=None)


def aligned_tasks(seed=2):
    rng = np.random.default_rng(seed)
    return zoo.MultiTaskData.from_multilabel(rng.normal(size=(9, 2)), rng.normal(size=(9, 3)).cumsum(axis=1))


def points_of(data):
    return np.column_stack([data.X, data.task])


def smooth_kernel(T, D, **parameters):
    return MeanRegularised(D + 1, T, base=pm.gp.cov.Matern52(D, ls=1.5), **parameters)


MACHINES = {
    "mean": (Machine(), simulated_tasks, WeightSpace),
    "metric": (Machine(Q="learned"), simulated_tasks, WeightSpace),
    "graph": (
        Machine(
            kernel=GraphLaplacian(4, np.ones((4, 4)) - np.eye(4), regularisation=0.3),
            learn=("regularisation",),
        ),
        simulated_tasks,
        WeightSpace,
    ),
    "smooth": (
        Machine(kernel=smooth_kernel(4, 3, lam=0.4), learn=("lam", "ls")),
        simulated_tasks,
        FunctionSpace,
    ),
    "aligned": (
        Machine(kernel=smooth_kernel(3, 2, lam=0.4), learn=("lam", "ls")),
        aligned_tasks,
        AlignedSpace,
    ),
}


# ---------------------------------------------------------------- draws


class FeatureOne(pm.gp.cov.Covariance):
    """The constant covariance 1, which makes a product of no special form."""

    def full(self, X, Xs=None):
        return pytensor.tensor.ones((X.shape[0], (X if Xs is None else Xs).shape[0]))

    def diag(self, X):
        return pytensor.tensor.ones(X.shape[0])

"""Every Markov kernel keeps its posterior: exact draws, some sweeps, fresh exact draws (Gandy & Scott 2020).

Null: the kernel leaves the posterior unchanged. Then each case is rejected with probability 1e-5 / 40 at most, all of
the some 30 together with 1e-5, whatever the seed. Pseudo-likelihoods start from draws by rejection (tests/statistical/
exact.py), densities of y from joint draws of the factory's own model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import zoo
from tests.daily import daily
from tests.statistical import exact
from zoo.data.units import Units
from zoo.diagnostics import kernel_test, sequential_test
from zoo.likelihoods import Gamma, InverseGammaOfSquare, LogNormal

pytestmark = pytest.mark.statistical

ALPHA = 1e-5 / 40
SIZE, SWEEPS = 2000, 4
# Of all cases those that run with every change: each compiled kernel, and each kind of move, at least once.
DAILY = {
    "hinge, margin, weights, offsets",
    "population, group moves, noise by task",
    "population, loose",
    "population, half-t, groups",
    "population, half-t, logistic, shared, rare",
    *("functions", "tube, learned C"),
    "population, student t",
    "matrix normal, logistic, rare",
    "population, ordinal by task",
    "population, crossed, many",
    "population, learned pi, half-t, loose, shared",
    "population, shared, learned scale, noise by task, group moves",
    "latent features, shared",
}


def rows(
    n_tasks=2, n_rows=3, n_features=2, labels=True, constant=False, groups=False, seed=0
) -> zoo.MultiTaskData:
    """A few rows of each task; ``groups`` tells every other task apart by the second feature."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.standard_normal((len(task), n_features))
    if constant:
        X[:, 0] = 1.0
    if groups:
        X[:, 1] = task % 2  # 0 and 1, so that reflections are oblique
    y = rng.standard_normal(len(task))
    data = zoo.MultiTaskData.from_arrays(X, np.where(y > 0, 1.0, -1.0) if labels else y, task)
    return replace(data, units=Units.of_size(X.shape[1]))  # priors are written down in absolute numbers


def crossed_rows(many=False, n_tasks=3, n_rows=3):
    """Rows of tasks that meet the levels of a second group, of which each task has two; as for very ``many`` levels."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), n_rows)
    frame = pd.DataFrame({"task": task, "x": rng.standard_normal(len(task)), "y": 0.0})
    frame["clinic"] = np.array(list("abc"))[(task + np.arange(len(task)) % 2) % 3]
    with pytest.MonkeyPatch.context() as patch:
        if many:
            patch.setattr("zoo.data.formula.MOST_DENSE", 0)
        return zoo.MultiTaskData.from_formula("y ~ x + (1 + x | task) + (1 | clinic)", frame)


def _moved(kernel, start, sweeps, rng):
    """Recorded states after some sweeps from each start; one work space serves all."""
    state = kernel.initialise(rng)
    found = []
    for i in range(len(start["coefficients"])):
        kernel.set_values(state, {name: values[i] for name, values in start.items()})
        for _ in range(sweeps):
            kernel.sweep(rng, state)
        found.append(kernel.record(state))
    width = max((draw["Z"].shape[1] for draw in found if "Z" in draw), default=0)
    for draw in found:
        draw.pop("n_latent", None)
        if "Z" in draw:
            draw["Z"] = np.pad(draw["Z"], [(0, 0), (0, width - draw["Z"].shape[1])])
    return {name: np.stack([draw[name] for draw in found]) for name in found[0]}


def _test_pseudo_posterior(factory, data, kernel, prior, offset=0.0, size=SIZE, sweeps=SWEEPS, seed=1):
    loss = exact.loss_of(factory, data, offset)

    def draw(rng, n):
        start, fresh = (exact.with_matrices(exact.accepted(rng, n, prior, loss)) for _ in range(2))
        arguments = (data.X, data.y, data.task, np.broadcast_to(offset, data.n_rows))
        moved = exact.statistics(_moved(kernel, start, sweeps, rng), *arguments)
        other = exact.statistics(exact.recorded(fresh), *arguments)
        return {name: moved[name] for name in other}, other

    return sequential_test(draw, alpha=ALPHA, size=size, random_seed=seed)


# ---------------------------------------------------------------- matrix-normal coefficients

TWO = np.array([[1.0, 0.4], [0.4, 0.7]])
HINGE = {"likelihood": zoo.Hinge(C=0.4)}
TUBE = {"likelihood": zoo.EpsilonInsensitive(C=0.4, epsilon=0.3)}
MAX_MARGIN = {
    "hinge": (HINGE, {}, {}),
    "hinge, no group moves": (HINGE, {}, {"group_moves": False}),
    "hinge, an intercept": (HINGE, {"constant": True}, {}),
    "hinge, margin, weights, offsets": (
        {"likelihood": zoo.Hinge(C=0.4, margin=1.7)},
        {"constant": True},
        {"extra": True},
    ),
    "hinge, scales": (
        {**HINGE, "task_correlation": 0.6, "feature_scale_matrix": TWO, "task_nu": 4.5},
        {},
        {},
    ),
    "hinge, task covariance given": ({**HINGE, "task_cov": TWO}, {}, {}),
    "hinge, feature covariance given": ({**HINGE, "feature_cov": TWO}, {}, {}),
    "hinge, both given": ({**HINGE, "feature_cov": "identity", "task_cov": TWO}, {}, {}),
    "hinge, one task": (HINGE, {"n_tasks": 1, "n_rows": 5}, {}),
    "hinge, more tasks than features": (HINGE, {"n_tasks": 4, "n_rows": 2, "n_features": 1}, {}),
    "hinge, more features than tasks": (HINGE, {"n_features": 3}, {}),
    "hinge, scales, more tasks than features": (
        {**HINGE, "task_correlation": 0.6, "task_nu": 4.5},
        {"n_tasks": 3, "n_rows": 2, "constant": True},
        {},
    ),
    "logistic, rare, weights, offsets": (
        {"likelihood": "logistic"},
        {"constant": True},
        {"extra": True, "likelihood_moves": True},
    ),
    "tube": (TUBE, {}, {}),
    "tube, weights, no group moves": (TUBE, {}, {"group_moves": False, "extra": True}),
    "tube, scales, an intercept": (
        {**TUBE, "task_correlation": 0.5, "feature_nu": 3.5},
        {"constant": True},
        {},
    ),
}


@pytest.mark.parametrize("case", daily(MAX_MARGIN, DAILY))
def test_max_margin(case):
    fields, shape, options = MAX_MARGIN[case]
    factory = zoo.MaxMargin(**fields)
    data = rows(**shape, labels=factory.likelihood.responses == "labels")
    options, offset = dict(options), np.zeros(data.n_rows)
    if options.pop("extra", False):
        data = replace(data, weight=np.linspace(0.3, 2.0, data.n_rows))
        offset = np.linspace(-1.0, 0.8, data.n_rows)
        options["offset"] = offset
    kernel = factory.gibbs_kernel(factory.design(data), data.y, **options)
    feature = exact.covariance_prior(factory, "feature", data.n_features)
    task = exact.covariance_prior(factory, "task", data.n_tasks)

    def prior(rng, n):
        return exact.max_margin_prior(rng, n, data.n_features, data.n_tasks, feature, task)

    result = _test_pseudo_posterior(factory, data, kernel, prior, offset)
    assert not result.rejected, str(result)


def test_population_with_a_rare_label_and_weights():
    factory = zoo.NIWLinear(likelihood="logistic", delta=4.0, scale_matrix=TWO, pi=0.7)
    data = rows(n_tasks=3, n_rows=2, constant=True)
    data = replace(data, weight=np.linspace(0.3, 2.0, data.n_rows), y=np.array([-1.0, -1, 1, -1, -1, -1]))
    kernel = factory.gibbs_kernel(factory.design(data), data.y, likelihood_moves=True)

    def prior(rng, n):
        return exact.population_prior(rng, n, 3, 0.7, 5.0, TWO)

    result = _test_pseudo_posterior(factory, data, kernel, prior)
    assert not result.rejected, str(result)


# ---------------------------------------------------------------- latent features

LATENT = {
    "hinge": (HINGE, {"n_features": 3}, {}),
    "hinge, more tasks than features": (HINGE, {"n_tasks": 3, "n_rows": 2}, {}),
    "hinge, alpha given, no group moves": (
        {**HINGE, "alpha": 1.5},
        {"n_features": 3},
        {"group_moves": False},
    ),
    "hinge, one task": (HINGE, {"n_tasks": 1, "n_rows": 4, "n_features": 3}, {}),
    "tube, task covariance given": ({**TUBE, "task_cov": TWO}, {"n_features": 4, "n_rows": 2}, {}),
}


@pytest.mark.parametrize("case", daily(LATENT, DAILY))
def test_nonparametric_max_margin(case):
    fields, shape, options = LATENT[case]
    factory = zoo.NonparametricMaxMargin(**fields)
    data = rows(**shape, labels=factory.likelihood.labels)
    kernel = factory.gibbs_kernel(factory.design(data), data.y, **options)
    task = exact.covariance_prior(factory, "task", data.n_tasks)

    def prior(rng, n):
        return exact.latent_feature_prior(rng, n, data.n_features, data.n_tasks, factory.alpha, task)

    result = _test_pseudo_posterior(factory, data, kernel, prior)
    assert not result.rejected, str(result)


# ---------------------------------------------------------------- kernel machines


@pytest.mark.scheduled
@pytest.mark.parametrize("fields", [HINGE, TUBE], ids=["hinge", "tube"])
def test_kernel_machine(fields):
    factory = zoo.MultiTaskKernelMachine(**fields)
    data = rows(labels=factory.likelihood.labels)
    kernel = factory.gibbs_kernel(factory.design(data), data.y)

    def prior(rng, n):
        return exact.kernel_machine_prior(rng, n, data.n_features, data.n_tasks)

    result = _test_pseudo_posterior(factory, data, kernel, prior, size=500, sweeps=2)
    assert not result.rejected, str(result)


# ---------------------------------------------------------------- likelihoods that are densities of y

LEARNED_C = {"likelihood": zoo.EpsilonInsensitive(C="learned", epsilon=0.3)}
SHARED = {"shared": ("x1", "x2"), "shared_scale": 1.5}
GROUPS = {"n_tasks": 3, "n_rows": 2, "n_features": 3, "constant": True, "groups": True}
HALF_T = {"covariance_prior": "half_t", "delta": 4.0}
WIDE_LOGISTIC = {"delta": 6.0, "scale_matrix": 1.5, "likelihood": "logistic"}
NOISE_BY_TASK = {"likelihood": zoo.Gaussian(per_task=("noise",))}
_LAW, _BY_TASK = LogNormal(-0.5, 0.4), {"per_task": ("noise",)}
AUGMENTED = {
    "gaussian": zoo.Gaussian(noise=_LAW),
    "gaussian, fixed": zoo.Gaussian(noise=0.6),
    "student t": zoo.StudentT(noise=InverseGammaOfSquare(4.0, 2.0), degrees=Gamma(6.0, 1.5)),
    "student t by task": zoo.StudentT(noise=_LAW, degrees=4.0, **_BY_TASK),
    "laplace": zoo.LaplaceNoise(noise=_LAW),
    "tube": zoo.EpsilonInsensitive(C="learned", epsilon=0.3),
    "logistic": zoo.Logistic(),
    "probit": zoo.Probit(),
    "ordinal": zoo.Ordinal(grades=4, width=LogNormal(-0.3, 0.6)),
    "ordinal by task": zoo.Ordinal(grades=3, width=LogNormal(-0.3, 0.6), per_task="width"),
    "negative binomial": zoo.NegativeBinomial(dispersion=LogNormal(0.7, 0.4)),
}
CLASSES = ("labels", "grades")
DENSITIES = {
    "population": (zoo.NIWLinear, {}, {}, {"group_moves": False}),
    "population, group moves, noise by task": (zoo.NIWLinear, NOISE_BY_TASK, {}, {"group_moves": True}),
    "population, mean near zero": (zoo.NIWLinear, {"pi": 20.0}, {}, {"group_moves": False}),
    "population, one task, scale": (zoo.NIWLinear, {"scale_matrix": TWO, "pi": 0.5, "delta": 4.0}, {"n_tasks": 1}, {}),
    "population, loose": (zoo.NIWLinear, {"pi": 0.6}, {"n_features": 3}, {"loose": 2}),
    "population, loose, some sweeps": (
        zoo.NIWLinear,
        NOISE_BY_TASK,
        {"n_features": 3, "n_rows": 4},
        {"loose": 2, "sweep_shares": (0.5, 0.5)},
    ),
    "population, one loose, noise by task": (zoo.NIWLinear, NOISE_BY_TASK, {"n_rows": 4}, {"loose": 1}),
    "population, all loose": (zoo.NIWLinear, {"pi": 5.0}, {}, {"loose": 2}),
    "population, groups": (
        zoo.NIWLinear,
        {"scale_matrix": TWO, "delta": 4.0},
        {"n_tasks": 3, "n_rows": 2, "constant": True, "groups": True},
        {},
    ),
    # Learned scales: given, integrated out with all coefficients, and with those of features that stand still.
    "population, half-t": (zoo.NIWLinear, {**HALF_T, "scale_matrix": 0.5}, {}, {"loose": 0}),
    "population, half-t, noise by task, no group moves": (
        zoo.NIWLinear,
        {**HALF_T, **NOISE_BY_TASK, "scale_matrix": TWO},
        {"n_rows": 4},
        {"loose": 0, "sweep_shares": (0.0, 0.0)},
    ),
    "population, half-t, all loose": (
        zoo.NIWLinear, {**HALF_T, "pi": 0.6}, {"n_features": 3}, {"loose": 3, "sweep_shares": (0.5, 0.7)}
    ),
    "population, half-t, groups": (
        zoo.NIWLinear, HALF_T, {**GROUPS, "n_features": 4}, {"loose": 2, "sweep_shares": (0.0, 1.0)}
    ),
    "population, half-t, shared": (zoo.NIWLinear, {**HALF_T, **SHARED}, {**GROUPS, "n_features": 4}, {}),
    "population, half-t, logistic, shared, rare": (
        zoo.NIWLinear,
        {**HALF_T, **SHARED, "likelihood": "logistic"},
        {**GROUPS, "n_features": 4},
        {"likelihood_moves": True},
    ),
    "population, half-t, ordinal by task, constant": (
        zoo.NIWLinear,
        {**HALF_T, "likelihood": AUGMENTED["ordinal by task"]},
        {"constant": True, "n_tasks": 3},
        {"likelihood_moves": False},
    ),
    "population, one feature, loose": (zoo.NIWLinear, {}, {"n_features": 1}, {"loose": 1}),
    "functions, loose": (zoo.NIWGaussianProcess, {}, {"empty": True}, {"loose": 2}),
    "functions": (zoo.NIWGaussianProcess, {"base_kernel": "matern32"}, {}, {"group_moves": True}),
    "functions, a task without rows": (zoo.NIWGaussianProcess, {}, {"empty": True}, {"group_moves": False}),
    "tube, learned C": (zoo.MaxMargin, LEARNED_C, {}, {}),
    "tube, learned C, no group moves": (zoo.MaxMargin, LEARNED_C, {}, {"group_moves": False}),
    "latent features, tube, many columns": (zoo.NonparametricMaxMargin, {**TUBE, "K_max": 2000}, {}, {}),
    "kernel machine": (zoo.MultiTaskKernelMachine, {}, {}, {}),
    "kernel machine, tube, learned C": (zoo.MultiTaskKernelMachine, LEARNED_C, {}, {}),
    # Priors of papers with likelihoods of others. Narrow ones keep real y and counts moderate; with labels functions
    # are large, or a wrong law of the auxiliary variables would not show.
    **{
        f"{name}, {word}": (
            kind, {**(wide if likelihood.responses in CLASSES else narrow), "likelihood": likelihood}, {}, {}
        )
        for word, likelihood in AUGMENTED.items()
        for name, kind, narrow, wide in (
            ("matrix normal", zoo.MaxMargin, {"feature_nu": 5.0, "task_nu": 5.0}, {}),
            ("population", zoo.NIWLinear, {"delta": 6.0, "scale_matrix": 0.5}, {"scale_matrix": 9.0}),
        )
    },
    # The moves for rare labels, whatever the labels are.
    "matrix normal, logistic, rare": (
        zoo.MaxMargin,
        {"feature_nu": 5.0, "task_nu": 5.0, "likelihood": "logistic"},
        {"constant": True, "n_tasks": 3},
        {"likelihood_moves": True},
    ),
    "population, logistic, rare": (
        zoo.NIWLinear,
        {"delta": 6.0, "scale_matrix": 1.5, "pi": 0.7, "likelihood": "logistic"},
        {"constant": True, "n_tasks": 3, "n_features": 3},
        {"likelihood_moves": True, "group_moves": True},
    ),
    # Moves of coefficients with cut points along an intercept, and moves without latent variables.
    "population, ordinal, constant": (
        zoo.NIWLinear,
        {"delta": 6.0, "scale_matrix": 1.5, "pi": 0.7, "likelihood": AUGMENTED["ordinal"]},
        {"constant": True, "n_tasks": 3, "n_features": 3},
        {"likelihood_moves": True, "group_moves": True},
    ),
    "population, ordinal by task, constant": (
        zoo.NIWLinear,
        {"delta": 6.0, "scale_matrix": 1.5, "likelihood": AUGMENTED["ordinal by task"]},
        {"constant": True, "n_tasks": 3},
        {"likelihood_moves": False},
    ),
    "matrix normal, ordinal, shared, constant": (
        zoo.MaxMargin,
        {**SHARED, "feature_nu": 5.0, "task_nu": 5.0, "likelihood": AUGMENTED["ordinal"]},
        GROUPS,
        {"likelihood_moves": True},
    ),
    "matrix normal, ordinal by task, constant": (
        zoo.MaxMargin,
        {"feature_nu": 5.0, "task_nu": 5.0, "likelihood": AUGMENTED["ordinal by task"]},
        {"constant": True, "n_tasks": 3},
        {"likelihood_moves": False},
    ),
    # Tasks that meet the levels of a second group, with a learned spread.
    "population, crossed": (zoo.NIWLinear, {"delta": 6.0, "scale_matrix": 0.5}, {"crossed": "few"}, {}),
    "population, logistic, crossed": (zoo.NIWLinear, WIDE_LOGISTIC, {"crossed": "few"}, {"group_moves": True}),
    "population, crossed, many": (zoo.NIWLinear, {"delta": 6.0, "scale_matrix": 0.5}, {"crossed": "many"}, {}),
    "population, noise by task, crossed, many": (
        zoo.NIWLinear,
        {**NOISE_BY_TASK, "delta": 6.0},
        {"crossed": "many"},
        {"group_moves": True},
    ),
    "population, half-t, crossed, many": (zoo.NIWLinear, HALF_T, {"crossed": "many"}, {}),
    "population, logistic, crossed, many": (
        zoo.NIWLinear, WIDE_LOGISTIC, {"crossed": "many"}, {"group_moves": True}
    ),
    "matrix normal, crossed": (
        zoo.MaxMargin,
        {"feature_nu": 5.0, "task_nu": 5.0, "likelihood": AUGMENTED["gaussian"]},
        {"crossed": "few"},
        {},
    ),
    # A learned weight of the prior of the mean, under each kind of move that reads it.
    "population, learned pi": (zoo.NIWLinear, {"pi": "learned"}, {}, {"group_moves": False}),
    "population, learned pi, groups": (
        zoo.NIWLinear,
        {"pi": "learned", "scale_matrix": TWO, "delta": 4.0},
        {"n_tasks": 3, "n_rows": 2, "constant": True, "groups": True},
        {},
    ),
    "population, learned pi, half-t, loose, shared": (
        zoo.NIWLinear, {**HALF_T, **SHARED, "pi": "learned"}, {**GROUPS, "n_features": 4}, {"loose": 1}
    ),
    "population, learned pi, logistic, rare": (
        zoo.NIWLinear,
        {"delta": 6.0, "scale_matrix": 1.5, "pi": "learned", "likelihood": "logistic"},
        {"constant": True, "n_tasks": 3, "n_features": 3},
        {"likelihood_moves": True, "group_moves": True},
    ),
    "population, learned pi, ordinal, constant": (
        zoo.NIWLinear,
        {"delta": 6.0, "scale_matrix": 1.5, "pi": "learned", "likelihood": AUGMENTED["ordinal"]},
        {"constant": True, "n_tasks": 3, "n_features": 3},
        {"likelihood_moves": False},
    ),
    "population, learned pi, crossed, many": (
        zoo.NIWLinear, {"delta": 6.0, "scale_matrix": 0.5, "pi": "learned"}, {"crossed": "many"}, {}
    ),
    "functions, learned pi": (zoo.NIWGaussianProcess, {"pi": "learned"}, {"empty": True}, {"group_moves": True}),
    # Coefficients that all tasks share: of a feature that stands still within tasks, and of one that does not.
    "population, shared": (zoo.NIWLinear, {**SHARED, "pi": 0.6}, GROUPS, {"group_moves": False}),
    "population, shared, learned scale, noise by task, group moves": (
        zoo.NIWLinear,
        {**SHARED, **NOISE_BY_TASK, "shared_scale": "learned"},
        GROUPS,
        {"group_moves": True},
    ),
    "population, shared, loose": (
        zoo.NIWLinear, {**SHARED, "scale_matrix": TWO}, {**GROUPS, "n_features": 4}, {"loose": 1}
    ),
    "population, student t, shared": (
        zoo.NIWLinear,
        {**SHARED, "delta": 6.0, "scale_matrix": 0.5, "likelihood": AUGMENTED["student t"]},
        GROUPS,
        {},
    ),
    "population, logistic, shared, rare": (
        zoo.NIWLinear,
        {**SHARED, "delta": 6.0, "scale_matrix": 1.5, "likelihood": "logistic"},
        {**GROUPS, "n_features": 4},
        {"likelihood_moves": True, "group_moves": True},
    ),
    "functions, shared": (zoo.NIWGaussianProcess, {**SHARED, "base_kernel": "matern32"}, GROUPS, {}),
    "matrix normal, shared": (
        zoo.MaxMargin,
        {**SHARED, "feature_nu": 5.0, "task_nu": 5.0, "likelihood": AUGMENTED["gaussian"]},
        {**GROUPS, "n_features": 4},
        {},
    ),
    "matrix normal, shared, learned scale, scales": (
        zoo.MaxMargin,
        {**SHARED, **LEARNED_C, "shared_scale": "learned", "task_correlation": 0.5, "feature_nu": 5.0, "task_nu": 6.0},
        GROUPS,
        {},
    ),
    "matrix normal, shared, task covariance given": (
        zoo.MaxMargin,
        {**SHARED, "task_cov": np.eye(3) + 0.3, "feature_nu": 5.0, "likelihood": AUGMENTED["gaussian"]},
        {**GROUPS, "n_features": 4},
        {},
    ),
    "matrix normal, logistic, shared, rare": (
        zoo.MaxMargin,
        {**SHARED, "feature_nu": 5.0, "task_nu": 5.0, "likelihood": "logistic"},
        GROUPS,
        {"likelihood_moves": True},
    ),
    "latent features, shared": (
        zoo.NonparametricMaxMargin,
        {**SHARED, "likelihood": "logistic", "K_max": 2000},
        GROUPS,
        {},
    ),
    "latent features, logistic": (zoo.NonparametricMaxMargin, {"likelihood": "logistic", "K_max": 2000}, {}, {}),
    "latent features, ordinal": (
        zoo.NonparametricMaxMargin,
        {"likelihood": AUGMENTED["ordinal"], "K_max": 2000},
        {},
        {},
    ),
    "functions, logistic": (zoo.NIWGaussianProcess, {"likelihood": "logistic", "base_kernel": "matern32"}, {}, {}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:ks_2samp.*Exact calculation unsuccessful")  # of ties
@pytest.mark.parametrize("case", daily(DENSITIES, DAILY))
def test_against_joint_draws(case):
    kind, fields, shape, options = DENSITIES[case]
    shape = dict(shape)
    empty = shape.pop("empty", False)
    crossed = shape.pop("crossed", None)
    data = rows(**shape, labels=False) if crossed is None else crossed_rows(crossed == "many")
    responses = kind(**fields).likelihood.responses
    if responses != "real":
        lower = {"labels": -1.0, "counts": 0.0, "grades": 2.0}[responses]
        y = np.where(np.arange(data.n_rows) % 2, 1.0, lower)
        data = replace(data, y=y)
    if empty:
        data = replace(data, task_names=(*data.task_names, "empty"))
    slow = "latent" in case
    result = kernel_test(
        kind(**fields), data, sweeps=2 if slow else SWEEPS, size=500 if slow else 1000, alpha=ALPHA, random_seed=1,
        **options,
    )  # fmt: skip
    assert not result.rejected, str(result)


SUCCESSIVE = {
    "population": (zoo.NIWLinear, NOISE_BY_TASK),
    "functions": (zoo.NIWGaussianProcess, {"base_kernel": "matern32"}),
    "tube, learned C": (zoo.MaxMargin, LEARNED_C),
}


@pytest.mark.parametrize("case", daily(SUCCESSIVE, DAILY))
def test_successive_conditionals(case):
    """Geweke's simulator: y is drawn anew after each sweep."""
    kind, fields = SUCCESSIVE[case]
    result = kernel_test(
        kind(**fields), rows(labels=False), sweeps=SWEEPS, resimulate=True, size=500, alpha=ALPHA, random_seed=1
    )  # fmt: skip
    assert not result.rejected, str(result)


# ---------------------------------------------------------------- step methods


class Shifted(zoo.MaxMargin):
    """A common shift, which the step holds as an offset."""

    def priors(self, data):
        return {**super().priors(data), "shift": pm.Normal("shift", 0.0, 1.0)}

    def latent(self, data, priors):
        return super().latent(data, priors) + priors["shift"]


def test_matrix_normal_step():
    factory, data = Shifted(**HINGE), replace(rows(), y=np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0]))
    model = factory.build(data)
    step = factory.step(data, model, sweeps=2)
    step.rng = np.random.default_rng(2)
    wishart = {"nu": 3.0, "scale": np.eye(2)}

    def prior(rng, n):
        return {
            **exact.max_margin_prior(rng, n, 2, 2, wishart, wishart),
            "shift": rng.standard_normal(n),
        }

    def loss(draws):
        f = draws["shift"][:, None] + np.einsum("nd,sdn->sn", data.X, draws["coefficients"][:, :, data.task])
        return 2.0 * factory.likelihood.C * np.maximum(0.0, 1.0 - data.y * f).sum(axis=1)

    def scalars(draws):
        found = exact.statistics(draws, data.X, data.y, data.task, np.zeros(data.n_rows))
        shift = draws["shift"]
        return {**found, **{f"shift eta[{i}]": shift * draws["coefficients"][:, i, 0] for i in range(2)}}

    def draw(rng, n):
        start, fresh = (exact.accepted(rng, n, prior, loss) for _ in range(2))
        moved = []
        for i in range(n):
            point = step._point_of({name: values[i] for name, values in start.items()})
            after, _ = step.step({**point, "shift": np.asarray(start["shift"][i])})
            moved.append({**step._block_values(after), "shift": after["shift"]})
        return scalars({name: np.stack([m[name] for m in moved]) for name in fresh}), scalars(fresh)

    result = sequential_test(draw, alpha=ALPHA, size=1000, random_seed=1)
    assert not result.rejected, str(result)


def test_buffet_step():
    """The step sees no y: matrices and coefficients stay under their joint prior."""
    D, T, K, alpha = 3, 2, 5, 1.5
    factory = zoo.NonparametricMaxMargin(**HINGE, alpha=alpha, K_max=K)
    model = factory.build(rows(n_features=D, n_tasks=T))
    step = factory.step(model)
    step.rng = np.random.default_rng(3)
    start = model.initial_point(0)
    names = [step.vars[0].name, step.coefficients]

    def prior(rng, n):
        weights = rng.beta(alpha / K, 1.0, (n, 1, K))
        Z = (rng.random((n, D, K)) < weights).astype(start[names[0]].dtype)
        eye = np.broadcast_to(np.eye(T), (n, T, T))
        W = exact.matrix_normal(rng, np.eye(D) + Z @ np.swapaxes(Z, 1, 2), eye)
        return {"Z": Z, "coefficients": W}

    def scalars(draws):
        nothing = (np.zeros((0, D)), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0))
        found = exact.statistics(draws, *nothing)
        W = draws["coefficients"]
        gram = draws["Z"] @ np.swapaxes(draws["Z"], 1, 2)
        ties = {f"Z and W {i}": np.einsum("st,st->s", W[:, 0], W[:, i]) * gram[:, 0, i] for i in range(1, D)}
        return {**{k: v for k, v in found.items() if np.ptp(v) > 0}, **ties}

    def draw(rng, n):
        before, fresh = prior(rng, n), prior(rng, n)
        after = [
            step.step({**start, names[0]: before["Z"][i], names[1]: before["coefficients"][i]})[0][names[0]]
            for i in range(n)
        ]
        return scalars({"Z": np.stack(after), "coefficients": before["coefficients"]}), scalars(fresh)

    result = sequential_test(draw, alpha=ALPHA, size=SIZE, random_seed=1)
    assert not result.rejected, str(result)

"""One Gaussian process per task: the marginal likelihood and what its mode minimises, against scipy and differences."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

import zoo
from tests.daily import daily
from tests.models.laplace_evidence import WORDS, direct
from zoo.inference.ard.correlation import CompiledCorrelation, Parameters
from zoo.inference.ard.evidence import KERNELS, TaskInputs, evidence, inverse_factor, lower_factor
from zoo.inference.ard.objective import EvidenceObjective, LinearEvidenceObjective, matrix_evidence
from zoo.kernels.ard import ScaledCovariance
from zoo.ops.ard_evidence import ard_evidence

PYTHON = Mode("py", "fast_compile")


@pytest.fixture(scope="module")
def rows():
    """Ragged tasks, one without rows, one of 90 inputs (blocked algebra), with repeated inputs."""
    rng = np.random.default_rng(0)
    task = np.concatenate([rng.integers(0, 3, 40), np.zeros(85, dtype=int)])
    X = rng.standard_normal((len(task), 3))
    X[[5, 9]], task[[5, 9]] = X[3], task[3]
    parameters = Parameters(rng.gamma(1.0, 1.0, (4, 3)), rng.gamma(2.0, 0.3, 4), rng.gamma(2.0, 0.5, 4))
    parameters.kappa[0, 0] = 0.0
    return X, task, rng.standard_normal(len(task)), parameters


# ---------------------------------------------------------------- the marginal likelihood


@pytest.mark.parametrize("n", [1, 5, 31, 32, 33, 64, 65, 130])
def test_blocked_factors(n):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, n + 3))
    A = A @ A.T
    L = A.copy()
    assert lower_factor(L)
    L = np.tril(L)
    np.testing.assert_allclose(L @ L.T, A, rtol=1e-10, atol=1e-10 * A.max())
    np.testing.assert_allclose(inverse_factor(L) @ L, np.eye(n), atol=1e-8)
    A[-1] = A[0]
    A[:, -1] = A[:, 0]
    A[-1, -1] = A[0, 0] - 1.0
    assert n == 1 or not lower_factor(A)


@pytest.mark.parametrize("word", WORDS)
def test_evidence_is_the_density_of_the_rows(word, rows):
    X, task, y, parameters = rows
    inputs = TaskInputs.of(X, task, 4, word == "linear")
    value = evidence(KERNELS[word], *inputs, y, *parameters, 0.7)[0]
    np.testing.assert_allclose(value, direct(word, X, task, y, parameters, 0.7), rtol=1e-11, atol=1e-10)
    assert len(inputs.X) == len(X) - 2  # repeated inputs count as one


@pytest.mark.parametrize("word", WORDS)
def test_gradient_of_the_operation(word, rows):
    X, task, y, parameters = rows
    kept = np.r_[0:40, 40:45] if word != "linear" else np.arange(len(y))
    X, task, y = X[kept], task[kept], y[kept]
    inputs = TaskInputs.of(X, task, 4, word == "linear")
    start = [y, np.maximum(parameters.kappa, 0.05), parameters.noise, parameters.amplitude]
    weights = np.array([1.0, 2.0, -0.5, 3.0])  # each task its own cotangent

    def total(*numbers):
        return (weights * ard_evidence(KERNELS[word], inputs, *numbers, 0.7)).sum()

    pytensor.gradient.verify_grad(total, start, rng=np.random.default_rng(1), mode=PYTHON, eps=1e-6)


@pytest.mark.statistical
def test_compiled_and_python_operation_agree(rows):
    X, task, y, parameters = rows
    inputs = TaskInputs.of(X, task, 4)
    symbols = [pt.dvector("y"), pt.dmatrix("kappa"), pt.dvector("noise"), pt.dvector("amplitude")]
    value = ard_evidence(0, inputs, *symbols, 0.7).sum()
    outputs = [value, *pt.grad(value, symbols)]
    compiled = pytensor.function(symbols, outputs)
    plain = pytensor.function(symbols, outputs, mode=PYTHON)
    for a, b in zip(compiled(y, *parameters), plain(y, *parameters), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_one_factorisation_a_task(rows):
    """Value and gradient of all tasks are one operation, with one factor per task; nothing is factorised beside it."""
    X, task, y, _ = rows
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    model = zoo.MultiLaplaceGP().build(data)
    function = model.compile_fn([model.logp(), model.dlogp()])
    operations = [type(node.op).__name__ for node in function.f.maker.fgraph.toposort()]
    assert operations.count("ARDEvidence") == 1
    assert not {"Cholesky", "SolveTriangular", "MatrixInverse", "Solve"} & set(operations)
    general = zoo.MultiLaplaceGP(kernel=pm.gp.cov.ExpQuad(3, ls=1.0)).build(data)
    value = pytensor.graph.rewriting.utils.rewrite_graph(general.logp(), include=("canonicalize",))
    nodes = pytensor.graph.traversal.applys_between([], [value])
    sizes = {int(n) for n in np.diff(TaskInputs.of(X, task, 3).starts)}
    assert sum("Cholesky" in str(node.op) for node in nodes) == len(sizes)


@pytest.mark.statistical
@pytest.mark.parametrize("word", daily(WORDS, list(WORDS)[:1]))
def test_general_covariances_agree_with_the_compiled(word, rows):
    X, task, y, parameters = rows
    X, task, y = X[:40], task[:40], y[:40]
    of_pymc = zoo.kernels.from_word(word, 3)
    compiled, general = CompiledCorrelation(word), ScaledCovariance(of_pymc)
    kappa = parameters.kappa[0]
    for function in ("slopes", "matrix"):
        arguments = (X, kappa) if function == "slopes" else (X, X[:7], kappa)
        np.testing.assert_allclose(
            getattr(compiled, function)(*arguments), getattr(general, function)(*arguments), atol=3e-5
        )
    np.testing.assert_allclose(compiled.diagonal(X, kappa), general.diagonal(X, kappa), atol=1e-10)
    inputs = TaskInputs.of(X, task, 4, word == "linear")
    for kernel in (compiled, general):
        found = matrix_evidence(kernel, inputs, y, parameters, 0.7)
        for a, b in zip(found, evidence(KERNELS[word], *inputs, y, *parameters, 0.7), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def test_graph_of_general_covariances(rows):
    """The same log density from the operation and from PyTensor's own, at points of the unconstrained space."""
    X, task, y, _ = rows
    data = zoo.MultiTaskData.from_arrays(X[:40], y[:40], task[:40])
    word = zoo.MultiLaplaceGP(kernel="matern32", amplitude="task", mean="linear").build(data)
    general = zoo.MultiLaplaceGP(kernel=pm.gp.cov.Matern32(3, ls=1.0), amplitude="task", mean="linear").build(
        data
    )
    first, second = (m.compile_fn(m.logp(), mode=PYTHON) for m in (word, general))
    rng = np.random.default_rng(2)
    for _ in range(5):
        point = {k: v + 0.3 * rng.standard_normal(np.shape(v)) for k, v in word.initial_point().items()}
        np.testing.assert_allclose(first(point), second(point), rtol=1e-9)


def test_shared_is_the_model_written_by_hand(rows):
    X, task, y, _ = rows
    data = zoo.MultiTaskData.from_arrays(X[:40], y[:40], task[:40])
    factory = zoo.MultiLaplaceGP(
        ard="shared", penalty=2.0, noise_rate=3.0, standardize=False, noise_floor=0.1
    )
    model = factory.build(data)
    with pm.Model(coords=model.coords) as by_hand:
        kappa = pm.Exponential("kappa", 2.0, dims="feature")
        variance = 0.01 + pm.Exponential("_noise_variance", 1.0, dims="task") / 3.0
        for t in range(3):
            own = data.task == t
            K = pm.gp.cov.ExpQuad(3, ls=1.0)(pt.as_tensor(X[:40][own]) * pt.sqrt(kappa))
            pm.MvNormal(f"y{t}", cov=K + 1.0 + variance[t] * np.eye(own.sum()), observed=y[:40][own])
    first, second = (m.compile_fn(m.logp(), mode=PYTHON) for m in (model, by_hand))
    rng = np.random.default_rng(3)
    for _ in range(5):
        point = {k: v + 0.5 * rng.standard_normal(np.shape(v)) for k, v in model.initial_point().items()}
        np.testing.assert_allclose(first(point), second(point), rtol=1e-10)


# ---------------------------------------------------------------- the mode


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("word", WORDS)
def test_objective_derivatives(word, shared, rows):
    X, task, y, parameters = rows
    X, task, y = X[:40], task[:40], y[:40]
    kernel = CompiledCorrelation(word)
    kind = LinearEvidenceObjective if kernel.linear else EvidenceObjective
    objective = kind(
        kernel, TaskInputs.of(X, task, 3, kernel.linear), y, B=0.5, constant=0.7, shared=shared,
        amplitude_rate=None if kernel.linear else 2.0, penalty=None if shared else (np.array([0.0, 1.0, 0.3]), 2.0),
    )  # fmt: skip
    kappa = np.maximum(parameters.kappa[:3], 0.1)
    amplitude = np.ones(3) if kernel.linear else parameters.amplitude[:3]
    given = Parameters(np.tile(kappa[0], (3, 1)) if shared else kappa, parameters.noise[:3], amplitude)
    theta = objective.pack(given)
    for a, b in zip(objective.unpack(theta), given, strict=True):
        np.testing.assert_array_equal(a, b)
    gradient, step = objective.gradient(theta)[1], 1e-6
    numeric, second = np.empty(theta.shape), np.empty((*theta.shape, theta.shape[1]))
    for at in np.ndindex(theta.shape):
        up, down = theta.copy(), theta.copy()
        up[at] += step
        down[at] -= step
        numeric[at] = (objective.value(up) - objective.value(down)).sum() / (2 * step)
        second[at] = ((objective.gradient(up)[1] - objective.gradient(down)[1]) / (2 * step))[at[0]]
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)
    information = objective.curvature(theta)
    assert np.linalg.eigvalsh(information).min() > -1e-10
    if kernel.linear:
        np.testing.assert_allclose(objective.hessian(theta), second, atol=2e-5)


def test_average_information_is_that_of_differences(rows):
    """Of a linear covariance it is the mean of Hessian and Fisher information, by two routes of its own."""
    X, task, y, parameters = rows
    given = Parameters(parameters.kappa, parameters.noise, np.ones(4))
    inputs = TaskInputs.of(X, task, 4, True)
    linear = LinearEvidenceObjective(CompiledCorrelation("linear"), inputs, y, B=0.5, constant=0.7)
    general = EvidenceObjective(ScaledCovariance(pm.gp.cov.Linear(3, c=0.0)), inputs, y, B=0.5, constant=0.7)
    theta = linear.pack(given)
    np.testing.assert_allclose(linear.curvature(theta), general.curvature(theta), rtol=1e-5, atol=1e-5)

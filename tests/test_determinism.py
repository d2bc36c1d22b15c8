"""The same seed gives the same draws, bit for bit, wherever and with whatever beside them the chains run."""

from __future__ import annotations

import multiprocessing as mp
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest

import zoo
from tests.daily import daily
from zoo.inference.run.chains import _Chain, _Plan

OPTIONS = dict(draws=12, tune=6, chains=3, random_seed=11, progress=False)

# Every specialised engine that draws: Markov chains, and exact draws.
GIBBS: dict[str, Any] = {
    "MaxMargin, hinge": lambda: zoo.MaxMargin(),
    "MaxMargin, learned C": lambda: zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C="learned")),
    "NonparametricMaxMargin": lambda: zoo.NonparametricMaxMargin(K_max=2),
    "NIWLinear": lambda: zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))),
    "NIWGaussianProcess": lambda: zoo.NIWGaussianProcess(),
    "MultiTaskKernelMachine, square": lambda: zoo.MultiTaskKernelMachine(lam="learned"),
    "MultiTaskKernelMachine, hinge": lambda: zoo.MultiTaskKernelMachine(
        likelihood="hinge", amplitude="learned"
    ),
}
EXACT: dict[str, Any] = {
    "IndependentTasks": lambda: zoo.IndependentTasks(),
    "PooledTasks": lambda: zoo.PooledTasks(),
    "MultiTaskKernelMachine, exact": lambda: zoo.MultiTaskKernelMachine(),
    "VaryingCoefficientGP": lambda: zoo.VaryingCoefficientGP(),
}
ENGINES = {**GIBBS, **EXACT}


def _fit(engine: str, **options: Any) -> dict[str, np.ndarray]:
    """Draws by name."""
    factory = ENGINES[engine]()
    data, _ = zoo.datasets.simulate_matrix_normal(4, 3, 6, random_seed=1)
    if factory.likelihood.labels:
        data = replace(data, y=np.sign(data.y))
    if factory.needs_t:
        t = np.random.default_rng(2).uniform(size=(data.n_rows, 2))
        data = replace(data, t=t, t_names=("east", "north"))
    method = "gibbs" if engine in GIBBS else "exact"
    posterior = factory.fit(data, method, **OPTIONS, **options).posterior
    return {str(name): posterior[name].to_numpy() for name in posterior.data_vars}


_REFERENCE: dict[str, dict[str, np.ndarray]] = {}


@pytest.fixture
def reference():
    """Draws of an engine, one chain after another; made once."""

    def drawn(engine: str) -> dict[str, np.ndarray]:
        if engine not in _REFERENCE:
            _REFERENCE[engine] = _fit(engine, **({"cores": 1} if engine in GIBBS else {}))
        return _REFERENCE[engine]

    return drawn


def _assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name in first:
        assert np.array_equal(first[name], second[name]), f"{name} differs"


@pytest.mark.parametrize("engine", list(GIBBS))
def test_cores(engine, reference):
    _assert_same(_fit(engine, cores=2), reference(engine))


@pytest.mark.parametrize("engine", list(EXACT))
def test_exact_draws_repeat(engine, reference):
    _assert_same(_fit(engine), reference(engine))
    # Estimates are the same in all chains; what is drawn is not.
    assert any(not np.array_equal(draws[0], draws[1]) for draws in reference(engine).values())


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_joblib_in_one_process(backend, reference):
    for engine in ("MaxMargin, hinge", "NIWLinear"):
        with joblib.parallel_config(backend=backend, n_jobs=2):
            _assert_same(_fit(engine), reference(engine))


def test_two_fits_at_once(reference):
    engines = ["MaxMargin, hinge", "NIWLinear", "MaxMargin, hinge", "NonparametricMaxMargin"]
    with ThreadPoolExecutor(2) as pool:
        for engine, found in zip(engines, pool.map(_fit, engines), strict=True):
            _assert_same(found, reference(engine))


def test_beside_busy_threads(reference):
    stop = threading.Event()

    def multiply() -> None:
        matrix = np.random.default_rng(0).standard_normal((200, 200))
        while not stop.is_set():
            matrix @ matrix

    threads = [threading.Thread(target=multiply) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for engine in ("MaxMargin, hinge", "NIWLinear"):
            _assert_same(_fit(engine), reference(engine))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_arrays_at_any_address():
    """As they come out of the messages between Dask's workers."""
    data, _ = zoo.datasets.simulate_matrix_normal(4, 3, 6, random_seed=1)
    model = zoo.NIWLinear()
    kernel = model.gibbs_kernel(data, model.validate(data))
    bytes_of_inputs = bytearray(kernel.inputs.nbytes + 1)
    moved = np.frombuffer(bytes_of_inputs, np.float64, offset=1).reshape(kernel.inputs.shape)
    moved[...] = kernel.inputs
    assert not moved.flags.aligned

    def draw(kernel: Any) -> dict[str, np.ndarray]:
        plan, seed = _Plan(draws=5, tune=2, thin=1, threads=1), np.random.SeedSequence(1)
        # No event to stop it: as in a process of its own.
        return _Chain(kernel, 0, plan, seed, None, None, None).run(None, None).posterior

    _assert_same(draw(replace(kernel, inputs=moved)), draw(kernel))


# ---------------------------------------------------------------- processes, which start for seconds


@pytest.mark.statistical
@pytest.mark.parametrize("engine", daily(GIBBS, ["MaxMargin, hinge", "NIWLinear"]))
def test_processes_of_joblib(engine, reference):
    # No random error: every bit must agree.
    with joblib.parallel_config(backend="loky", n_jobs=2):
        _assert_same(_fit(engine), reference(engine))


def _child(engines: list[str], answer: Any) -> None:
    answer.send([_fit(engine) for engine in engines])
    answer.close()


# JAX, which another test may have started in this process, warns of every fork; the children do without it.
@pytest.mark.filterwarnings("ignore:os.fork.* was called:RuntimeWarning")
@pytest.mark.statistical
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_child_processes(start, reference):
    if start not in mp.get_all_start_methods():
        pytest.skip(f"{sys.platform} has no {start}")
    # Kernel machines call functions compiled by PyTensor, the other engines what Numba has in its cache.
    engines = [
        "MaxMargin, hinge",
        "NonparametricMaxMargin",
        "NIWLinear",
        "MultiTaskKernelMachine, square",
        "PooledTasks",
    ]
    expected = [reference(engine) for engine in engines]
    context: Any = mp.get_context(start)
    answer, given = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(engines, given))
    with warnings.catch_warnings():
        # Python warns of a fork of a process with threads. Here it is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    given.close()
    assert answer.poll(300.0), "the child has not answered"
    found = answer.recv()
    process.join()
    answer.close()
    for draws, wanted in zip(found, expected, strict=True):
        _assert_same(draws, wanted)


@pytest.mark.statistical
def test_dask(reference, tmp_path):
    import distributed  # takes a second to load

    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        for engine in ("MaxMargin, hinge", "NIWLinear"):
            _assert_same(_fit(engine), reference(engine))
            _assert_same(_fit(engine, checkpoint=tmp_path / f"{engine}.zarr"), reference(engine))
            _assert_same(_fit(engine, checkpoint=tmp_path / f"{engine}.zarr"), reference(engine))

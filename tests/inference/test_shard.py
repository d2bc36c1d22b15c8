"""Tasks that are dealt to workers: their sums against dense algebra, the same draws from any workers, the posterior."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import zoo
from zoo.core.predictive import joint_draws
from zoo.diagnostics import sequential_test
from zoo.inference.gibbs import shard
from zoo.inference.gibbs.population_lanes import to_lanes
from zoo.inference.gibbs.population_steps import LANES, Space, draw_population, translate
from zoo.inference.gibbs.sharded_population import ShardedPopulationKernel, shards_of

RUN = {"draws": 40, "tune": 20, "chains": 2, "random_seed": 1, "progress": False}


def _data(n_tasks, rows=6, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), rows)
    w = rng.standard_normal((n_tasks, n_features))
    X = rng.standard_normal((len(task), n_features))
    return zoo.MultiTaskData.from_arrays(
        X, (X * w[task]).sum(axis=1) + 0.3 * rng.standard_normal(len(task)), task
    )


def _kernel(data, **fields):
    factory = zoo.NIWLinear(**fields)
    return factory.gibbs_kernel(factory.design(data), factory.validate(data), group_moves=False)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(shard, "CHUNK", 2 * LANES)


def _fit(data, executor, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return zoo.NIWLinear().fit(data, executor=executor, **{**RUN, **options})


def _assert_same(one, other):
    for name, values in one.posterior.items():
        np.testing.assert_array_equal(other.posterior[name], values, err_msg=str(name))


def test_sums_of_a_chunk_are_those_of_dense_algebra():
    """The same random numbers, in the order in which lanes take them."""
    data, rng = _data(11), np.random.default_rng(5)
    kernel = _kernel(data)
    mu, root = rng.standard_normal(3), rng.standard_normal((3, 3))
    P, inverse_noise, key = root @ root.T + np.eye(3), 7.0, (3, 4)
    found = shards_of(kernel, 1)[0].sums(key, mu, P, inverse_noise)
    X = kernel.inputs @ kernel._basis[0]
    numbers = np.random.default_rng(np.random.SeedSequence(key, spawn_key=(0,))).standard_normal(
        (2, 3, LANES)
    )
    apart, scatter, pull, squares = np.zeros(3), np.zeros((3, 3)), np.zeros(3), 0.0
    for t in range(11):
        rows = data.task == t
        S, r = X[rows].T @ X[rows], X[rows].T @ kernel.y[rows]
        A = S * inverse_noise + P
        L = np.linalg.cholesky(A)
        w = np.linalg.solve(A, r * inverse_noise + P @ mu) + np.linalg.solve(
            L.T, numbers[t // LANES, :, t % LANES]
        )
        apart += w - mu
        scatter += np.outer(w - mu, w - mu)
        pull += S @ w - r
        squares += np.sum((kernel.y[rows] - X[rows] @ w) ** 2)
    np.testing.assert_allclose(found.apart[0], apart, rtol=1e-10)
    np.testing.assert_allclose(found.scatter[0], scatter, rtol=1e-10)
    np.testing.assert_allclose(found.pull[0], pull, rtol=1e-9)
    assert found.squares[0] == pytest.approx(squares, rel=1e-10)


def test_what_follows_from_sums_is_what_follows_from_coefficients():
    """A sweep given sums over tasks makes of the same random numbers what the steps on all coefficients make."""
    data, rng = _data(30), np.random.default_rng(2)
    kernel = _kernel(data)
    sums, y, noise_of = kernel.sums, kernel.y, (kernel.noise_shape, kernel.noise_rate)
    X = kernel.inputs @ kernel._basis[0]
    w = rng.standard_normal((30, 3))
    S = np.stack([X[data.task == t].T @ X[data.task == t] for t in range(30)])
    pull = sum(S[t] @ w[t] - X[data.task == t].T @ y[data.task == t] for t in range(30))
    squares = np.sum((y - np.sum(X * w[data.task], axis=1)) ** 2)

    def told(method, key, mu, P, inverse_noise):
        apart = w - mu
        return [
            shard.Sums(*(np.asarray(v)[None] for v in (apart.sum(axis=0), apart.T @ apart, pull, squares)))
        ]

    sharded = ShardedPopulationKernel(kernel, told)
    state = sharded.initialise(rng)
    mu, P, C = state["mu"].copy(), state["P"].copy(), state["C"].copy()
    sharded.sweep(np.random.default_rng(9), state)
    again = np.random.default_rng(9)
    again.integers(2**63, size=2)
    precision = again.standard_gamma(noise_of[0] + data.n_rows / 2) / (noise_of[1] + squares / 2)
    W = to_lanes(np.vstack([w, np.zeros((2, 3))]))
    inverse_noise, space = (
        np.zeros((4, LANES)),
        Space(np.zeros((3, 3, LANES)), np.zeros((3, LANES)), np.zeros((3, 3))),
    )
    inverse_noise[:] = precision
    translate(again, sums, space, W, mu, P, inverse_noise, float(kernel.pi))
    draw_population(again, W, 30, mu, P, C, float(kernel.nu), float(kernel.pi))
    for name, value in {"mu": mu, "P": P, "C": C, "inverse_noise": precision}.items():
        np.testing.assert_allclose(state[name], value, rtol=1e-9, err_msg=name)


def test_draws_do_not_depend_on_the_workers(small_chunks, tmp_path):
    data = _data(77)
    fits = [_fit(data, ThreadPoolExecutor(n)) for n in (1, 2, 5)]
    assert [len(shards_of(_kernel(data), n)) for n in (1, 2, 50)] == [1, 2, 5]
    for fit in fits[1:]:
        _assert_same(fits[0], fit)
    saved = _fit(data, ThreadPoolExecutor(2), checkpoint=tmp_path / "run.zarr", keep="population")
    _assert_same(fits[0], saved)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        _assert_same(fits[0], _fit(data, ThreadPoolExecutor(1), draws="auto", max_draws=40))
    assert fits[0].keep == "population"
    assert np.isfinite(fits[0].predict(data.take(data.task == 3))["mean"]).all()


def test_a_checkpoint_of_workers_is_not_one_of_a_single_process(tmp_path):
    data = _data(20)
    _fit(data, ThreadPoolExecutor(1), checkpoint=tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="executor"):
        zoo.NIWLinear().fit(data, **RUN, keep="population", checkpoint=tmp_path / "run.zarr")


@pytest.mark.scheduled  # a cluster of processes, whose messages have a time limit on a busy machine
def test_a_cluster_gives_the_same_draws_also_where_a_worker_is_killed(tmp_path):
    """Null: bit for bit. Two processes; one of them is killed while the chains run."""
    import distributed

    data = _data(3 * shard.CHUNK // 2, rows=4)
    expected = _fit(data, ThreadPoolExecutor(1), draws=800)
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")  # of event loops, and of the worker that is killed
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
        killed.start()
        fit = _fit(data, client, draws=800)
        assert not killed.is_alive()
        _assert_same(expected, fit)


def test_the_posterior_is_that_of_one_process():
    """Null: both samplers draw from the same posterior. 9 z scores beyond 5 have probability 5e-6."""
    data = _data(300)
    one = zoo.NIWLinear().fit(data, draws=1500, tune=200, random_seed=2, progress=False)
    other = _fit(data, ThreadPoolExecutor(2), draws=1500, tune=200, chains=4, random_seed=3)
    for name in ("population_mean", "noise", "feature_cov"):
        parts = []
        for fit in (one, other):
            draws = fit.posterior[name].to_numpy()
            draws = draws.reshape(len(draws), draws.shape[1], -1)
            batches = draws[:, :1500].reshape(-1, 50, draws.shape[2]).mean(axis=1)
            parts.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / len(batches)))
        z = (parts[0][0] - parts[1][0]) / np.sqrt(parts[0][1] + parts[1][1])
        assert np.all(np.abs(z) < 5), (name, z)


@pytest.mark.parametrize("pi", [1.0, "learned"])
def test_sweeps_keep_the_joint_law(pi):
    """Null: parameters and responses keep their joint law. False alarm: 1e-5 / 40, as in tests/statistical."""
    data, factory = _data(5, rows=2, n_features=2), zoo.NIWLinear(pi=pi)
    prepared = factory.design(data)
    names = ("population_mean", "feature_cov", "noise", *(("pi",) if pi == "learned" else ()))

    def statistics(draws):
        mu, C, log_noise, *weight, y = draws
        within = y.reshape(len(y), 5, 2)
        seen = [
            mu,
            C[:, 0],
            C[:, 1, 1:],
            log_noise[:, None],
            np.log(within.var(axis=2).mean(axis=1))[:, None],
            *(np.log(of)[:, None] for of in weight),
        ]
        values = np.column_stack(
            [*seen, mu * within.mean(axis=(1, 2))[:, None], log_noise[:, None] * seen[-1]]
        )
        return {f"statistic {i}": column for i, column in enumerate(values.T)}

    def draw(rng, n):
        parts = []
        for _ in range(2):
            y, truth = joint_draws(factory, data, n, int(rng.integers(2**31)))
            found = [truth[v].to_numpy() for v in names]
            parts.append((found, y))
        (start, y), (fresh, other_y) = parts
        moved = []
        for i in range(n):
            kernel = factory.gibbs_kernel(prepared, y[i], group_moves=False)
            shards = shards_of(kernel, 1)
            sharded = ShardedPopulationKernel(
                kernel, lambda _, *call, s=shards: [one.sums(*call) for one in s]
            )
            state = sharded.initialise(rng)
            sharded.set_values(state, dict(zip(names, (v[i] for v in start), strict=True)))
            for _ in range(3):
                sharded.sweep(rng, state)
            drawn = sharded.record(state)
            moved.append([np.asarray(drawn[name]) for name in names])
        after = [np.stack(column) for column in zip(*moved, strict=True)]
        return (
            statistics([after[0], after[1], np.log(after[2]), *after[3:], y]),
            statistics([fresh[0], fresh[1], np.log(fresh[2]), *fresh[3:], other_y]),
        )

    assert not sequential_test(draw, alpha=1e-5 / 40, size=1000, random_seed=1).rejected


def test_what_workers_cannot_do_is_refused():
    data, pool = _data(9), ThreadPoolExecutor(1)
    with (
        pytest.raises(TypeError, match="executor is a ProcessPoolExecutor"),
        ProcessPoolExecutor(1) as processes,
    ):
        _fit(data, processes)
    with pytest.raises(ValueError, match="keep='draws' is not for a fit with executor"):
        _fit(data, pool, keep="draws")
    with pytest.raises(ValueError, match="group_moves"):
        _fit(data, pool, group_moves=True)
    for factory, reason in (
        (zoo.NIWLinear(likelihood="logistic"), "likelihood"),
        (zoo.NIWLinear(covariance_prior="half_t"), "scales of features"),
        (zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))), "noise of its own"),
        (zoo.MaxMargin(likelihood="gaussian"), "executor is for HierarchicalLinear and NIWLinear"),
    ):
        labels = factory.likelihood.labels
        rows = zoo.MultiTaskData.from_arrays(data.X, np.sign(data.y), data.task) if labels else data
        with pytest.raises(ValueError, match=reason):
            factory.fit(rows, "gibbs", **RUN, executor=pool)


def test_executors_that_cannot_serve_are_refused():
    import joblib

    data = _data(9)
    with ThreadPoolExecutor(1) as pool:
        with joblib.parallel_config(backend="loky"), pytest.raises(ValueError, match="inside of joblib"):
            _fit(data, pool)
        with pytest.raises(ValueError, match="would wait for itself"):
            pool.submit(_fit, data, pool).result()
    with pytest.raises(ValueError, match="was shut down"):
        _fit(data, pool)

"""Kernel machines of many tasks: no array of tasks x tasks, fits without coefficients; against dense algebra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy.stats import multivariate_normal

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.models.kernel_machine import description
from zoo.models.kernel_machine.sides import space_of
from zoo.support.memory import InsufficientMemoryError

Machine = zoo.MultiTaskKernelMachine
RUN = {"chains": 2, "random_seed": 1, "progress": False}
A, LAM, NOISE = 0.7, 0.3, 0.5


def make_data(T=4, D=2, n=9, seed=0, weight=True):
    rng = np.random.default_rng(seed)
    task = np.concatenate([np.repeat(np.arange(T), n), [0, T - 1]])
    X = rng.standard_normal((len(task), D))
    w = 1.0 + 0.5 * rng.standard_normal((T, D))
    y = np.einsum("nd,nd->n", X, w[task]) + 0.5 * rng.standard_normal(len(task))
    h = rng.gamma(3.0, 0.5, len(task)) if weight else None
    # In units of the default priors.
    X, y = (v / np.sqrt(np.average(v**2, axis=0, weights=h)) for v in (X, y))
    return zoo.MultiTaskData.from_arrays(X, y, task, weight=h)


def dense(data, a=A, lam=LAM, noise=NOISE, Q=None, extra=0):
    """Mean (T, D) and covariance (T, D, T, D) of coefficients by the matrix of all rows, with tasks that have none."""
    T, D = data.n_tasks, data.n_features
    S = T + extra
    B = a**2 * ((1.0 - lam) * np.ones((S, S)) + lam * T * np.eye(S))
    C = np.kron(B, np.eye(D) if Q is None else Q)
    Z = np.zeros((data.n_rows, S, D))
    Z[np.arange(data.n_rows), data.task] = data.X
    Z = Z.reshape(data.n_rows, -1)
    h = np.ones(data.n_rows) if data.weight is None else data.weight
    K = Z @ C @ Z.T + np.diag(noise**2 / h)
    gain = np.linalg.solve(K, Z @ C).T
    return (gain @ data.y).reshape(S, D), (C - gain @ Z @ C).reshape(S, D, S, D), K


def law(data, Q="identity"):
    """The engine's law of the coefficients at given hyper-parameters."""
    machine = Machine(lam=LAM, amplitude=A, Q=Q, likelihood=zoo.Gaussian(noise=NOISE))
    space = space_of(machine, machine.design(data), machine.validate(data))
    z = space.coordinates.start
    return space, space.gaussian(space.numbers(z), NOISE**2)


# Of 26 features the matrices of the tasks are factorised by LAPACK, of 3 by loops.
@pytest.mark.parametrize("D", [3, 26])
@pytest.mark.parametrize("metric", [False, True])
def test_the_law_is_that_of_dense_algebra(D, metric):
    data = make_data(D=D, n=12)
    root = np.random.default_rng(1).standard_normal((D, D)) / np.sqrt(D)
    Q = root @ root.T + 0.1 * np.eye(D) if metric else None
    mean, cov, _ = dense(data, Q=Q)
    _, found = law(data, "identity" if Q is None else Q)
    some = np.array([2, 0, 3])
    for tasks, chosen in ((np.arange(4), found), (some, found.select(some))):
        np.testing.assert_allclose(chosen.mean, mean[tasks].T, rtol=1e-8, atol=1e-10)
        own = np.array([cov[t, :, t] for t in tasks])
        np.testing.assert_allclose(chosen.covariance, own, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(chosen.deviations**2, np.diagonal(own, axis1=1, axis2=2).T, rtol=1e-8)
    X, task = np.random.default_rng(2).standard_normal((5, D)), np.array([3, 0, 3, 1, 1])
    m, v = found.predict(X, task)
    np.testing.assert_allclose(m, np.sum(X * mean[task], axis=1), rtol=1e-8)
    wanted = [x @ cov[t, :, t] @ x for x, t in zip(X, task, strict=True)]
    np.testing.assert_allclose(v, wanted, rtol=1e-8)


@pytest.mark.parametrize("D", [3, 26])
def test_the_evidence_is_that_of_dense_algebra(D):
    data = make_data(D=D, n=12, weight=False)
    space, found = law(data)
    wanted = multivariate_normal.logpdf(data.y, cov=dense(data)[2])
    assert space.log_marginal(found, NOISE**2) == pytest.approx(wanted, abs=1e-8)


def near(draws, mean, cov):
    """Draws (n, p) have this mean and covariance: within five standard errors each."""
    n, sd = len(draws), np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5.0 * sd / np.sqrt(n))
    errors = np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 5.0 * errors)


def test_tasks_that_are_drawn_again_have_their_joint_law():
    """Also between tasks: what they share is drawn once for all of them."""
    data, some = make_data(n=3), np.array([3, 1])
    mean, cov, _ = dense(data)
    _, found = law(data)
    draws = found.select(some).draw(np.random.default_rng(4), 40_000).transpose(0, 2, 1)
    near(draws.reshape(len(draws), -1), mean[some].ravel(), cov[some][:, :, some].reshape(4, 4))


def numbers(fit):
    return {name: float(fit.posterior[name][0, 0]) for name in ("lam", "amplitude", "noise")}


@pytest.fixture(scope="module", name="fits")
def fits_of_each_kind():
    data = make_data(T=6)
    return {
        keep: Machine().fit(data, keep=keep, draws=4000, **RUN) for keep in ("draws", "moments", "population")
    }


def test_less_is_kept_and_predictions_are_the_same(fits, tmp_path):
    every = fits["draws"]
    at = numbers(every)
    mean, cov, _ = dense(every.data, at["amplitude"], at["lam"], at["noise"])
    X, names = np.random.default_rng(3).standard_normal((3, 2)), ["task 4", "task 0", "task 4"]
    task = [4, 0, 4]
    for keep, fit in fits.items():
        assert fit.keep == keep and numbers(fit) == at
        found = fit.predict(X, names)
        np.testing.assert_allclose(found["mean"], np.sum(X * mean[task], axis=1), rtol=1e-8)
        variance = [x @ cov[t, :, t] @ x + at["noise"] ** 2 for x, t in zip(X, task, strict=True)]
        np.testing.assert_allclose(found["sd"], np.sqrt(variance), rtol=1e-8)
        f = fit.predict_draws(X, names, random_seed=1)["f"].to_numpy().reshape(-1, 3)
        joint = np.array(
            [
                [x @ cov[t, :, s] @ z for z, s in zip(X, task, strict=True)]
                for x, t in zip(X, task, strict=True)
            ]
        )
        near(f, np.sum(X * mean[task], axis=1), joint)
        again = zoo.load(fit.save(tmp_path / f"{keep}.nc"))
        assert again.keep == keep and again.predict(X, names).equals(found)
    for keep in ("moments", "population"):
        assert set(fits[keep].posterior.data_vars) == {"lam", "amplitude", "noise"}
        model, idata = fits[keep].to_pymc(X, names, random_seed=1)
        assert idata["posterior"]["coefficients"].sizes["task"] == 2 and "y" in model.named_vars
    moments = fits["moments"].idata["moments"]
    np.testing.assert_allclose(moments["coefficients_mean"], mean.T, rtol=1e-8)
    own = np.array([cov[t, :, t] for t in range(6)])
    np.testing.assert_allclose(
        moments["coefficients_sd"] ** 2, np.diagonal(own, axis1=1, axis2=2).T, rtol=1e-8
    )


def test_unseen_tasks_have_their_joint_law(fits):
    """Two unseen tasks, of the dense matrix of tasks with two more that have no rows."""
    X, names = np.array([[1.0, 0.5], [-0.3, 2.0]]), ["new", "newer"]
    for fit in fits.values():
        at = numbers(fit)
        mean, cov, _ = dense(fit.data, at["amplitude"], at["lam"], at["noise"], extra=2)
        joint = np.array([[X[i] @ cov[6 + i, :, 6 + j] @ X[j] for j in range(2)] for i in range(2)])
        f = fit.predict_draws(X, names, new_task=True, random_seed=2)["f"].to_numpy().reshape(-1, 2)
        near(f, np.sum(X * mean[6:], axis=1), joint)


@pytest.mark.parametrize("keep", ["moments", "population"])
def test_rows_and_tasks_are_added_without_draws(fits, keep):
    more = zoo.MultiTaskData.from_arrays(np.eye(2), [1.0, 2.0], ["new", "new"], weight=[1.0, 1.0])
    grown, every = fits[keep].add_task(more), fits["draws"].add_task(more)
    X = np.ones((2, 2))
    assert grown.keep == keep and "coefficients" not in grown.posterior
    for task in ("new", "task 2"):
        assert grown.predict(X, task).equals(every.predict(X, task))
    rows = fits[keep].data.take([0, 1, 2])
    assert (
        fits[keep]
        .add_rows(rows)
        .predict(X, "task 0")
        .equals(fits["draws"].add_rows(rows).predict(X, "task 0"))
    )
    if keep == "moments":
        assert grown.idata["moments"].sizes["task"] == 7


# ---------------------------------------------------------------- covariance of tasks


def test_the_covariance_of_many_tasks_is_not_reported(monkeypatch, tmp_path):
    """Names of variables are the same for all methods, and nothing else changes."""
    data = make_data(T=5, weight=False)
    few = Machine().fit(data, draws=50, **RUN)
    monkeypatch.setattr(description, "MOST_REPORTED", 4)
    many = Machine().fit(data, draws=50, **RUN)
    assert set(few.posterior.data_vars) - set(many.posterior.data_vars) == {"task_cov"}
    for name in many.posterior.data_vars:
        np.testing.assert_array_equal(many.posterior[name], few.posterior[name])
    X = np.ones((1, 2))
    assert many.predict(X, "task 1").equals(few.predict(X, "task 1"))
    of_new = [fit.predict(X, "new", new_task=True, random_seed=1) for fit in (few, many)]
    assert of_new[0].equals(of_new[1])
    assert zoo.load(many.save(tmp_path / "many.nc")).predict(X, "task 1").equals(many.predict(X, "task 1"))
    gibbs = Machine().fit(data, "gibbs", draws=100, tune=50, **RUN)
    assert set(gibbs.posterior.data_vars) == set(many.posterior.data_vars)
    assert gibbs.predict(X, "new", new_task=True, random_seed=1)["mean"].notnull().all()
    assert "task_cov" not in Machine().build(data).named_vars
    added = many.add_task(zoo.MultiTaskData.from_arrays(np.eye(2), [1.0, 2.0], ["new", "new"]))
    assert "task_cov" not in added.posterior


def test_a_covariance_that_only_its_matrix_says_is_reported(monkeypatch):
    monkeypatch.setattr(description, "MOST_REPORTED", 4)
    data = make_data(T=5, weight=False)
    graph = zoo.kernels.TaskGraph.from_edges(
        [("task 0", "task 1"), ("task 1", "task 2"), ("task 3", "task 4")], data.task_names
    )
    kernel = zoo.kernels.GraphLaplacian(3, graph, 0.5)
    fit = Machine(kernel=kernel).fit(data, draws=5, **RUN)
    assert fit.posterior["task_cov"].shape == (2, 5, 5, 5)
    low_rank = zoo.kernels.ICM(3, W=np.ones((5, 1)), kappa=np.ones(5), task_names=data.task_names)
    assert "task_cov" not in Machine(kernel=low_rank).fit(data, draws=5, **RUN).posterior


KERNELS = {
    "ICM": lambda T, names: zoo.kernels.ICM(
        3, W=np.arange(2.0 * T).reshape(T, 2), kappa=np.arange(T), task_names=names
    ),
    "clusters": lambda T, names: zoo.kernels.Clustered(3, list("aabba")[:T], rho=0.3, task_names=names),
    "tree": lambda T, names: zoo.kernels.Tree(
        3, [-1, 0, 0, 1, 1, 1, 2, 2], level_sigma=[0.3, 1.0, 2.0], tasks="leaves", task_names=names
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_entries_of_many_tasks_are_those_of_the_matrix(name, monkeypatch):
    """And no kernel with loadings makes its matrix where the functions are coefficients of many tasks."""
    from zoo.kernels import task_kernel

    data = make_data(T=5, weight=False)
    kernel = KERNELS[name](5, data.task_names)
    X = np.column_stack([data.X, data.task])
    wanted, diagonal = kernel(X, X[::2]).eval(), kernel(X, diag=True).eval()
    known = Machine(kernel=kernel).fit(data, draws=2, **RUN)
    monkeypatch.setattr(task_kernel, "_MANY", 4)
    monkeypatch.setattr(description, "MOST_REPORTED", 4)
    np.testing.assert_allclose(kernel(X, X[::2]).eval(), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel(X, diag=True).eval(), diagonal, rtol=1e-12)

    def refuse(self):
        raise AssertionError("a matrix of tasks x tasks was made")

    monkeypatch.setattr(type(kernel), "task_matrix", refuse)
    monkeypatch.setattr(type(kernel), "matching_loadings", lambda self: self.loadings())
    monkeypatch.setattr(type(kernel), "_matching_entries", lambda self: self.entries)
    fit = Machine(kernel=kernel).fit(data, draws=2, **RUN)
    np.testing.assert_array_equal(fit.posterior["coefficients"], known.posterior["coefficients"])
    assert fit.predict(np.ones((1, 2)), "task 1").equals(known.predict(np.ones((1, 2)), "task 1"))


def test_the_prior_density_needs_no_matrix_of_tasks():
    """Against the normal density of all coefficients."""
    Q = np.array([[1.0, 0.4], [0.4, 0.5]])
    machine = Machine(Q=Q, lam=LAM, amplitude=A)
    data, u = make_data(T=5), np.random.default_rng(5).standard_normal((2, 5))
    found = machine.prior_density(
        "coefficients", machine.design(data), {"coefficients": pt.as_tensor(u)}
    ).eval()
    B = A**2 * ((1.0 - LAM) * np.ones((5, 5)) + LAM * 5 * np.eye(5))
    wanted = multivariate_normal.logpdf(u.T.ravel(), cov=np.kron(B, Q))
    assert found == pytest.approx(wanted, abs=1e-8)


# ---------------------------------------------------------------- refusals


def linear_rows(D):
    return make_data(T=3, D=D, n=1, weight=False)


@dataclass(frozen=True, kw_only=True)
class Doubled(Machine):
    """A subclass whose rows are not those of the user."""

    def design(self, data, context=None):
        return super().design(data, context)


REFUSED = {
    "by gibbs": (Machine(), "gibbs", "method 'gibbs' of MultiTaskKernelMachine keeps what it has drawn"),
    "another kernel": (
        Machine(kernel=zoo.kernels.MeanRegularised(3, 4)), "exact", "has a kernel of its own, which knows all tasks"
    ),
    "nothing is learned": (
        Machine(lam=0.5, amplitude=1.0, likelihood=zoo.Gaussian(noise=1.0)), "exact", "are numbers, so that there are"
    ),
    "a hook": (Doubled(), "exact", "Doubled overrides `design`"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_who_cannot_do_without_draws_says_why(case):
    model, method, why = REFUSED[case]
    for keep in ("moments", "population"):
        with pytest.raises(UnsupportedMethodError, match=rf"keep='{keep}' is not .*{why}.*Use keep='draws'"):
            model.fit(make_data(weight=False), method, keep=keep, draws=5, **RUN)


def test_more_features_than_rows_keep_their_draws():
    with pytest.raises(UnsupportedMethodError, match="fewer rows than features"):
        Machine().fit(linear_rows(9), keep="population", draws=5, **RUN)


def test_what_does_not_fit_is_said_before_sampling(monkeypatch):
    """Draws of 300 tasks x 2 features by 8,000 draws take 38 MB."""
    from zoo.support import memory

    for module in ("zoo.core.keep.available_memory", "zoo.support.memory.available_memory"):
        monkeypatch.setattr(module, lambda: 30_000_000)
    assert memory.available_memory() == 30_000_000
    data = make_data(T=300, n=2, weight=False)
    with pytest.raises(
        InsufficientMemoryError, match=r"keep='draws' for .*'coefficients'.*keep='population'"
    ):
        Machine().fit(data, keep="draws", draws=4000, **RUN)
    with pytest.warns(UserWarning, match=r"all draws of 300 tasks would need .*keep='moments'"):
        fit = Machine().fit(data, draws=4000, **RUN)
    assert fit.keep == "moments"


def test_a_kernel_that_shares_too_much_is_refused(monkeypatch):
    """Of a graph every task is a column: 5 copies of (200 x 2)^2 numbers take 6.4 MB; one column takes next to none."""
    data = make_data(T=200, n=2, weight=False)
    graph = zoo.kernels.TaskGraph.from_edges([("task 0", "task 1")], data.task_names)
    machine = Machine(kernel=zoo.kernels.GraphLaplacian(3, graph, 0.5))
    monkeypatch.setattr("zoo.support.memory.available_memory", lambda: 7_000_000)
    with pytest.raises(
        InsufficientMemoryError, match=r"kernel, which shares 200 columns among 200 tasks, would need 6\.4 MB"
    ):
        machine.fit(data, draws=2, **RUN)
    assert Machine().fit(data, draws=2, **RUN).predict(np.ones((1, 2)), "task 1")["mean"].notnull().all()


# ---------------------------------------------------------------- files


def test_what_all_draws_share_is_in_a_file_once(tmp_path):
    data = make_data(T=30, weight=False)
    fit = Machine().fit(data, draws=200, **RUN)
    path = fit.save(tmp_path / "once.nc")
    coefficients = fit.posterior["coefficients"].nbytes
    assert path.stat().st_size < coefficients + 200_000 < fit.posterior["task_cov"].nbytes / 2
    again = zoo.load(path)
    assert again.posterior.identical(fit.posterior)
    assert again.save(tmp_path / "again.nc").stat().st_size == path.stat().st_size
    # A file from before: a copy for every draw.
    whole = fit.posterior.assign(
        task_cov=fit.posterior["task_cov"].copy(data=np.array(fit.posterior["task_cov"]))
    )
    fit.idata["posterior"].dataset = whole
    large = fit.save(tmp_path / "copies.nc")
    assert large.stat().st_size > whole["task_cov"].nbytes
    assert zoo.load(large).posterior.identical(again.posterior)


@pytest.mark.parametrize("name", ["coefficients", "task_cov"])
def test_a_file_that_lies_of_what_it_holds_is_refused(name, tmp_path):
    import h5py

    path = Machine().fit(make_data(weight=False), draws=5, **RUN).save(tmp_path / "fit.nc")
    with h5py.File(path, "r+") as file:
        attributes = file[f"posterior/{name}"].attrs
        if name == "task_cov":
            del attributes["same_in_all_draws"]
        else:
            attributes["same_in_all_draws"] = 1
    with pytest.raises(ValueError, match=r"damaged, or was changed after fit\.save"):
        zoo.load(path)

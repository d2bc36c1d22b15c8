"""Max-margin model: its engines against each other and against quadrature; fields and errors.

Statistical comparisons: |z| < 5 a quantity with Monte-Carlo errors from the effective sample size. Under the null
one comparison exceeds it with probability 6e-7, the some 40 of a test with less than 3e-5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import zoo
from tests.comparisons import largest_z, max_margin_quantities, mean_and_error
from tests.losses import loss_of
from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
from zoo.likelihoods.hinge import Hinge


def _data(loss: str, n_tasks: int = 3, n_features: int = 2, n_rows: int = 8) -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.standard_normal((len(task), n_features))
    X /= np.sqrt(np.mean(X**2, axis=0))  # in units of the default priors
    f = np.einsum("nd,nd->n", X, rng.standard_normal((n_tasks, n_features))[task])
    if loss == "hinge":
        y = np.where(f + rng.standard_normal(len(f)) > 0, 1, -1)
    else:
        y = f + 0.5 * rng.standard_normal(len(f))
        y /= np.sqrt(np.mean(y**2))
    return zoo.MultiTaskData.from_arrays(X, y, task)


LOSSES = ["hinge", "epsilon_insensitive"]


@pytest.mark.scheduled  # tests/statistical has the same kernels against exact draws
@pytest.mark.parametrize("loss", LOSSES)
def test_gibbs_agrees_with_nuts(loss):
    data, model = _data(loss), zoo.MaxMargin(likelihood=loss_of(loss, 0.8, 0.1))
    gibbs = model.fit(data, "gibbs", draws=5000, tune=500, random_seed=1, progress=False)
    nuts = model.fit(
        data, "nuts", draws=1500, tune=1000, random_seed=2, progress=False, nuts={"target_accept": 0.95}
    )
    z, where = largest_z(max_margin_quantities(gibbs.posterior), max_margin_quantities(nuts.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


@pytest.mark.scheduled
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fields", [{}, {"task_cov": "identity"}, {"feature_cov": "identity"}], ids=str)
def test_group_moves_leave_the_posterior(loss, fields):
    # The paper's own conditionals are the independent answer: they know no moves and no rotation.
    data, model = _data(loss), zoo.MaxMargin(likelihood=loss, **fields)
    moves = model.fit(data, "gibbs", draws=6000, tune=500, random_seed=1, progress=False)
    plain = model.fit(data, "gibbs", draws=12000, tune=500, random_seed=2, progress=False, group_moves=False)
    z, where = largest_z(max_margin_quantities(moves.posterior), max_margin_quantities(plain.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


@pytest.mark.scheduled
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"task_cov": "identity"},
        {"feature_cov": "identity"},
        {"task_cov": np.eye(4) + 0.5},
        {"feature_cov": np.eye(3) + 0.5},
        {"feature_nu": 7.5, "task_nu": 6.0},
        {"feature_scale_matrix": np.eye(3) + 1.0, "task_cov": "identity"},
        {"task_scale_matrix": np.diag([1.0, 2.0, 3.0, 4.0]) + 0.5, "feature_cov": "identity"},
    ],
    ids=[
        "learned",
        "identity task",
        "identity feature",
        "given task",
        "given feature",
        "nu",
        "feature scale",
        "task scale",
    ],
)
def test_gibbs_agrees_with_nuts_in_every_configuration(loss, fields):
    data, model = _data(loss, n_tasks=4, n_features=3, n_rows=12), zoo.MaxMargin(likelihood=loss, **fields)
    gibbs = model.fit(data, "gibbs", draws=10000, tune=500, random_seed=1, progress=False)
    nuts = model.fit(
        data, "nuts", draws=3000, tune=1000, random_seed=2, progress=False, nuts={"target_accept": 0.95}
    )
    z, where = largest_z(max_margin_quantities(gibbs.posterior), max_margin_quantities(nuts.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


@pytest.mark.scheduled
@pytest.mark.parametrize(("n_tasks", "n_features"), [(6, 3), (3, 6)], ids=["T > D", "T < D"])
def test_moves_of_many_tasks_and_of_many_features_leave_the_posterior(n_tasks, n_features):
    # Many tasks are drawn with their covariance integrated out, many features move by shears.
    data = _data("epsilon_insensitive", n_tasks, n_features, n_rows=6)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    moves = model.fit(data, "gibbs", draws=10000, tune=500, random_seed=1, progress=False)
    plain = model.fit(data, "gibbs", draws=60000, tune=2000, random_seed=2, progress=False, group_moves=False)
    z, where = largest_z(max_margin_quantities(moves.posterior), max_margin_quantities(plain.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


def _weighted(data: zoo.MultiTaskData) -> zoo.MultiTaskData:
    weight = np.random.default_rng(5).gamma(4.0, 0.25, data.n_rows)
    return replace(data, weight=weight)


EVERYTHING = {
    "hinge": {"likelihood": zoo.Hinge(C=0.8), "class_weight": {-1: 0.5, 1: 2.0}},
    "epsilon_insensitive": {"likelihood": EpsilonInsensitive(C="learned", epsilon=0.1)},
}


@pytest.mark.scheduled
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_scales_and_learned_C_agree_with_nuts(loss):
    # Everything that changes the density at once: a mistake in any of it moves some quantity.
    data = _weighted(_data(loss))
    scale = np.array([[2.0, 0.6, 0.3], [0.6, 1.0, -0.2], [0.3, -0.2, 0.5]])
    fields = {"task_scale_matrix": scale, "feature_scale_matrix": [[1.5, 0.5], [0.5, 0.7]], "task_nu": 4.5}
    model = zoo.MaxMargin(**{**fields, **EVERYTHING[loss]})
    gibbs = model.fit(data, "gibbs", draws=5000, tune=500, random_seed=1, progress=False)
    nuts = model.fit(
        data, "nuts", draws=700, tune=700, random_seed=2, progress=False, nuts={"target_accept": 0.95}
    )
    z, where = largest_z(max_margin_quantities(gibbs.posterior), max_margin_quantities(nuts.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


@pytest.mark.scheduled
@pytest.mark.parametrize(("n_tasks", "n_features"), [(5, 3), (3, 5)], ids=["T > D", "T < D"])
def test_moves_with_scales_leave_the_posterior(n_tasks, n_features):
    data = _weighted(_data("hinge", n_tasks, n_features, n_rows=6))
    mix = np.random.default_rng(3).standard_normal((2, 6, 6))
    scales = [
        m[:k, :k] @ m[:k, :k].T + 0.3 * np.eye(k) for m, k in zip(mix, (n_tasks, n_features), strict=True)
    ]
    model = zoo.MaxMargin(task_scale_matrix=scales[0], feature_scale_matrix=scales[1])
    moves = model.fit(data, "gibbs", draws=10000, tune=500, random_seed=1, progress=False)
    plain = model.fit(data, "gibbs", draws=60000, tune=2000, random_seed=2, progress=False, group_moves=False)
    z, where = largest_z(max_margin_quantities(moves.posterior), max_margin_quantities(plain.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


@pytest.mark.parametrize("loss", LOSSES)
def test_density_of_the_weighted_model(loss):
    # Rows count weight times, each with its normaliser, and class weights multiply. The hinge has its own over both
    # labels.
    import pymc as pm

    data = _weighted(_data(loss))
    model = zoo.MaxMargin(**{**EVERYTHING[loss], "likelihood": loss_of(loss, "learned", 0.1)})
    rng = np.random.default_rng(0)
    eta, C = rng.standard_normal((2, 3)), 0.7
    flat = _on_coefficients(model, data)
    f = np.einsum("nd,nd->n", data.X, eta.T[data.task])
    point = {"coefficients": eta, "C_log__": np.log(C)}
    value = flat.compile_logp([flat["y"]], sum=False)(point)[0]
    if loss == "hinge":
        weight = data.weight * np.where(data.y > 0, 2.0, 0.5)
        minus_losses = [-2 * C * np.maximum(0, 1 - label * f) for label in (data.y, 1, -1)]
        expected = weight * (minus_losses[0] - np.logaddexp(minus_losses[1], minus_losses[2]))
    else:
        missed = np.maximum(0, np.abs(data.y - f) - 0.1)
        expected = data.weight * (-2 * C * missed - np.log(0.2 + 1 / C))
    assert np.allclose(value, expected, rtol=1e-10)
    assert model.methods.keys() == ({"nuts"} if loss == "hinge" else {"gibbs", "nuts"})
    assert isinstance(flat, pm.Model)


def test_balanced_classes_weigh_the_same_in_each_task():
    data = _data("hinge")
    prepared = zoo.MaxMargin(class_weight="balanced").design(data)
    for rows in data.rows_by_task():
        by_class = [prepared.weight[rows][data.y[rows] == label].sum() for label in (-1, 1)]
        assert by_class[0] == pytest.approx(by_class[1])
        assert sum(by_class) == pytest.approx(len(rows))
    assert zoo.MaxMargin(class_weight={0: 1, 1: 3}) == zoo.MaxMargin(class_weight=(1.0, 3.0))
    # The labels of a Series count, and not their order.
    named = pd.Series({1: 3.0, 0: 1.0})
    assert zoo.MaxMargin(class_weight=named) == zoo.MaxMargin(class_weight=(1.0, 3.0))


def test_weights_of_one_change_nothing_and_weight_two_is_a_row_twice():
    data = _data("hinge")
    options = dict(draws=5, tune=5, chains=1, random_seed=1, progress=False)
    plain = zoo.MaxMargin().fit(data, "gibbs", **options)
    ones = zoo.MaxMargin().fit(replace(data, weight=np.ones(data.n_rows)), "gibbs", **options)
    assert plain.posterior.equals(ones.posterior)
    twice = data.take(np.r_[np.arange(data.n_rows), 0])
    heavy = replace(data, weight=np.r_[2.0, np.ones(data.n_rows - 1)])
    flat = _on_coefficients(zoo.MaxMargin(), twice), _on_coefficients(zoo.MaxMargin(), heavy)
    point = {"coefficients": np.random.default_rng(1).standard_normal((2, 3))}
    assert flat[0].compile_logp()(point) == pytest.approx(flat[1].compile_logp()(point), rel=1e-12)


def test_reported_covariances_are_identified():
    data = _data("hinge")
    fit = zoo.MaxMargin().fit(data, "gibbs", draws=50, tune=50, random_seed=1, progress=False)
    feature, task = fit.posterior["feature_cov"].to_numpy(), fit.posterior["task_cov"].to_numpy()
    assert np.allclose(np.trace(feature, axis1=2, axis2=3), 2.0)
    assert np.all(fit.posterior["covariance_scale"] > 0)
    one = zoo.MaxMargin(task_cov="identity").fit(
        data, "gibbs", draws=5, tune=5, random_seed=1, progress=False
    )
    assert "covariance_scale" not in one.posterior
    assert np.ptp(np.trace(one.posterior["feature_cov"].to_numpy(), axis1=2, axis2=3)) > 0
    assert task.shape == (4, 50, 3, 3)


def test_threads_do_not_change_draws():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 60))
    Y = np.where(X @ rng.standard_normal((60, 5)) > 0, 1.0, -1.0)
    data = zoo.MultiTaskData.from_multilabel(X, Y)
    one, two = (
        zoo.MaxMargin().fit(
            data, "gibbs", draws=3, tune=2, chains=1, random_seed=1, progress=False, threads=threads
        )
        for threads in (1, 2)
    )
    assert one.posterior.equals(two.posterior)


def test_start_from_another_fit():
    data = _data("hinge")
    first = zoo.MaxMargin().fit(data, "gibbs", draws=200, tune=200, chains=2, random_seed=1, progress=False)
    options = dict(draws=1, tune=0, chains=3, random_seed=2, progress=False)
    kernel = zoo.MaxMargin().gibbs_kernel(data, data.y)
    state = kernel.initialise(np.random.default_rng(0))
    last = {name: v.isel(chain=1, draw=-1).to_numpy() for name, v in first.posterior.items()}
    kernel.set_values(state, last)
    record = kernel.record(state)
    for name in ("coefficients", "feature_cov", "task_cov"):
        assert np.allclose(record[name], last[name], rtol=1e-8), name
    assert np.allclose(state["f"], np.einsum("nd,nd->n", data.X, last["coefficients"].T[data.task]))
    # A covariance that is not learned keeps its value.
    fixed = zoo.MaxMargin(task_cov="identity")
    fit = fixed.fit(data, "gibbs", start=first, **options)
    assert fit.posterior.sizes["chain"] == 3
    kernel = fixed.gibbs_kernel(data, data.y)
    state = kernel.initialise(np.random.default_rng(0))
    kernel.set_values(state, last)
    assert state["P"].size == 0  # the identity, of which nothing is held
    with pytest.raises(ValueError, match="start is a fit of other tasks"):
        fixed.fit(data.select_tasks(data.task_names[:2]), "gibbs", start=first, **options)


def test_paper_scaling_is_the_papers_heuristic():
    fit = zoo.MaxMargin().fit(
        _data("hinge"), "gibbs", draws=20, tune=5, random_seed=1, progress=False, paper_scaling=True
    )
    raw = fit.posterior["task_cov"] / fit.posterior["covariance_scale"]
    diagonal = np.diagonal(raw.to_numpy(), axis1=2, axis2=3)
    assert diagonal.min() >= 1 - 1e-9


@pytest.mark.statistical
def test_learned_C_predicts(capsys):
    data = _data("hinge")
    quick = {"nuts_sampler": "pymc", "compile_kwargs": {"mode": "FAST_COMPILE"}, "max_treedepth": 3}
    fit = zoo.MaxMargin(likelihood="normalised_hinge").fit(
        data, draws=20, tune=50, chains=1, random_seed=1, progress=False, nuts=quick
    )
    assert fit.method == "nuts"
    predicted = fit.predict(data, random_seed=1)
    f = fit.predict_draws(data, random_seed=1)["f"].to_numpy().reshape(20, -1)
    C = fit.posterior["C"].to_numpy().reshape(20, 1)
    odds = 2 * C * (np.maximum(0, 1 + f) - np.maximum(0, 1 - f))
    assert np.allclose(predicted["probability"], (1 / (1 + np.exp(-odds))).mean(axis=0))


@pytest.mark.statistical
@pytest.mark.parametrize("loss", LOSSES)
def test_one_coefficient_against_quadrature(loss):
    # One task, one feature: eta ~ N(0, omega rho) with omega, rho ~ IW(2, 1) = inverse gamma(1, 1/2), so the
    # prior of eta is a two-dimensional integral over log scales and the posterior a third one.
    data, model = _data(loss, 1, 1, 10), zoo.MaxMargin(likelihood=loss_of(loss, 0.7, 0.2))
    likelihood = model.likelihood
    eta = np.linspace(-15, 15, 3001)
    u = np.linspace(-8, 30, 381)  # log scale of an inverse gamma(1, 1/2) variable
    weight = np.exp(stats.invgamma(1, scale=0.5).logpdf(np.exp(u)) + u)
    log_variance = np.linspace(-16, 60, 761)
    mass = np.convolve(weight, weight)  # law of log omega + log rho on the even grid
    prior = (mass[:, None] * stats.norm.pdf(eta, scale=np.exp(log_variance / 2)[:, None])).sum(axis=0)
    f = data.X[:, 0][:, None] * eta
    posterior = prior * np.exp(likelihood.minus_loss(f, data.y[:, None]).sum(axis=0))
    posterior /= posterior.sum()
    fit = model.fit(data, "gibbs", draws=10000, tune=200, random_seed=3, progress=False)
    draws = fit.posterior["coefficients"].to_numpy()[:, :, 0, 0]
    for power in (1, 2):
        mean, error = mean_and_error(draws**power)
        exact = (posterior * eta**power).sum()
        assert abs(mean - exact) < 5 * error


@pytest.mark.parametrize(
    "likelihood",
    [Hinge(C=0.7, margin=1.3), EpsilonInsensitive(C=0.7, epsilon=0.3)],
    ids=lambda x: type(x).__name__,
)
def test_augmentation_matches_the_printed_densities(likelihood):
    # Given the drawn augmentation, -w f^2 / 2 + v f must be the paper's log psi(y, augmentation | f) in f.
    rng = np.random.default_rng(1)
    n, C = 200, 0.7
    f = rng.standard_normal(n)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if likelihood.labels else rng.standard_normal(n)
    w, v = np.empty(n), np.empty(n)
    augmentation = likelihood.augmentation({}, 1)
    augmentation.draw(rng, f, y, np.ones(n), np.zeros(n, int), augmentation.parameters, w, v)
    if likelihood.labels:
        lam = C**2 / w

        def log_psi(f):
            return -((C * (1.3 - y * f) + lam) ** 2) / (2 * lam)
    else:
        # w and v determine 1 / lambda and 1 / omega.
        total, difference = w / C**2, (y * w / C**2 - v / C**2) / 0.3
        lam, omega = 2 / (total + difference), 2 / (total - difference)

        def log_psi(f):
            gap = y - f
            return -((lam + C * (gap - 0.3)) ** 2) / (2 * lam) - (omega - C * (gap + 0.3)) ** 2 / (2 * omega)

    other = f + rng.standard_normal(n)
    expected = log_psi(other) - log_psi(f)
    quadratic = -w * (other**2 - f**2) / 2 + v * (other - f)
    assert np.allclose(quadratic, expected, rtol=1e-7, atol=1e-7 * np.abs(w).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_model_density_is_the_papers(loss):
    # build() holds eq (3) / section 5: differences of log density at fixed coefficients are the loss alone.
    import pymc as pm

    data, model = _data(loss), zoo.MaxMargin(likelihood=loss_of(loss, 0.7, 0.2, 1.5))
    fit = model.fit(data, "gibbs", draws=3, tune=5, chains=1, random_seed=1, progress=False)
    tree = pm.compute_log_likelihood(fit.idata.copy(), model=_on_coefficients(model, data), progressbar=False)
    eta = fit.posterior["coefficients"].to_numpy()[0]
    f = np.einsum("nd,sdn->sn", data.X, eta[:, :, data.task])
    slack = 1.5 - data.y * f if loss == "hinge" else np.abs(data.y - f) - 0.2
    assert np.allclose(tree["log_likelihood"]["y"].to_numpy()[0], -2 * 0.7 * np.maximum(0, slack), atol=1e-12)


def _on_coefficients(model, data):
    """The model with ``coefficients`` as a free variable, as the stored posterior has it."""
    import pymc as pm

    class Flat(zoo.MaxMargin):
        def priors(self, data):
            self.add_parameters(data)
            return {"coefficients": pm.Flat("coefficients", dims=("feature", "task"))}

    return Flat(**model.to_spec()["fields"]).build(data)


@pytest.mark.parametrize("correlation", [None, 0.7])
def test_new_task_follows_the_extended_prior(correlation):
    # The joint law of (eta, eta_new) must be that of T + 1 tasks under IW(nu + 1, Psi) (Dawid's delta kept).
    # Null: both samples come from one law; three Kolmogorov-Smirnov tests at 1e-5.
    rng = np.random.default_rng(5)
    T, D, S = 3, 2, 20_000
    omega = stats.invwishart(D + 1, np.eye(D)).rvs(S, random_state=rng)
    Psi = np.eye(T + 1) if correlation is None else 0.3 * np.eye(T + 1) + 0.7
    R = stats.invwishart(T + 2, Psi).rvs(S, random_state=rng)
    white = rng.standard_normal((S, D, T + 1))
    eta = np.linalg.cholesky(omega) @ white @ np.swapaxes(np.linalg.cholesky(R), 1, 2)
    import xarray as xr

    posterior = xr.Dataset(
        {
            "coefficients": (("chain", "draw", "feature", "task"), eta[None, :, :, :T]),
            "feature_cov": (("chain", "draw", "feature", "feature_bis"), omega[None]),
        }
    )
    new = zoo.MaxMargin(task_correlation=correlation).new_task(posterior, ["new"], rng)["coefficients"][
        0, :, :, 0
    ]
    for statistic in (
        lambda e: np.log(np.abs(e[:, 0])),
        lambda e: np.abs(e[:, 0]) / (np.abs(e[:, 0]) + np.abs(eta[:, 0, 0])),
        lambda e: (
            (e * eta[:, :, 0]).sum(1) / np.linalg.norm(e, axis=1) / np.linalg.norm(eta[:, :, 0], axis=1)
        ),
    ):
        half = S // 2  # the two samples share eta, so compare disjoint halves
        p = stats.ks_2samp(statistic(new)[:half], statistic(eta[:, :, T])[half:]).pvalue
        assert p > 1e-5


def test_labels_come_back_as_the_user_codes_them():
    data = _data("hinge")
    zero_one = zoo.MultiTaskData.from_arrays(data.X, data.y > 0, data.task)
    model = zoo.MaxMargin()
    options = dict(draws=20, tune=20, chains=1, random_seed=1, progress=False)
    plain, coded = model.fit(data, "gibbs", **options), model.fit(zero_one, "gibbs", **options)
    assert plain.posterior.equals(coded.posterior)
    first, second = plain.predict(data, random_seed=1), coded.predict(zero_one, random_seed=1)
    assert set(np.unique(first["label"])) <= {-1.0, 1.0}
    assert np.array_equal((first["label"] + 1) / 2, second["label"])
    assert np.array_equal(np.sign(first["mean"]) > 0, second["label"] == 1)


def test_zero_one_labels_are_announced(capsys):
    data = _data("hinge")
    zero_one = zoo.MultiTaskData.from_arrays(data.X, data.y > 0, data.task)
    zoo.MaxMargin().fit(zero_one, "gibbs", draws=2, tune=2, chains=1, progress=True)
    assert "labels 0/1 read as -1/+1" in capsys.readouterr().out


@pytest.mark.statistical
def test_multilabel_data_equal_their_long_form():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((12, 3)), np.where(rng.random((12, 2)) < 0.5, 1.0, -1.0)
    Y[3, 0] = np.nan
    data = zoo.MultiTaskData.from_multilabel(X, Y)
    long = zoo.MultiTaskData.from_arrays(data.X, data.y, data.task)
    model, options = zoo.MaxMargin(), dict(draws=5, tune=5, chains=1, random_seed=1, progress=False)
    a, b = model.fit(data, "gibbs", **options), model.fit(long, "gibbs", **options)
    # The sums over rows are taken in another order: rounding apart, the same chain.
    assert np.allclose(a.posterior["coefficients"], b.posterior["coefficients"], rtol=1e-6, atol=1e-8)
    one, other = model.build(data), model.build(long)
    point = one.initial_point(random_seed=3)
    assert np.isclose(one.compile_logp()(point), other.compile_logp()(point), rtol=1e-12)


BAD_FIELDS = [
    ({"likelihood": "squared"}, "likelihood"),
    ({"feature_cov": "diagonal"}, "feature_cov"),
    ({"feature_cov": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
    ({"task_cov": [[1.0, 0.5], [0.4, 1.0]]}, "not symmetric"),
    ({"task_cov": [[1.0, 0.5]]}, "square"),
    ({"task_nu": [1]}, "task_nu"),
    ({"feature_nu": -2.0}, "feature_nu"),
    ({"task_scale_matrix": [[1.0, 2.0], [2.0, 1.0]]}, "task_scale_matrix is not positive definite"),
    ({"task_scale_matrix": 0.5}, "task_scale_matrix is 0.5. Give a matrix; a number is for task_correlation"),
    ({"task_correlation": 1.0}, "task_correlation is 1.0"),
    ({"task_correlation": [[1.0, 0.5], [0.5, 1.0]]}, "A matrix is for task_scale_matrix"),
    ({"feature_correlation": "wide"}, "feature_correlation is 'wide'"),
    ({"task_correlation": 0.5, "task_scale_matrix": [[1.0]]}, "Give one of them"),
    ({"class_weight": "even"}, "class_weight"),
    ({"class_weight": (1.0, 2.0, 3.0)}, "class_weight"),
    ({"class_weight": {2: 1.0}}, "labels of class_weight"),
    ({"class_weight": (1.0, 0.0)}, "class_weight"),
    ({"class_weight": pd.Series([1.0, 2.0], ["low", "high"])}, "labels of class_weight: 'low' is unknown"),
    ({"class_weight": {-1: 1.0, 0: 2.0}}, "class_weight names the class of 0 twice"),
    (
        {"class_weight": xr.DataArray([5.0, 1.0], dims="label", coords={"label": [1, 0]})},
        "class_weight has names",
    ),
    ({"class_weight": "balanced", "likelihood": "epsilon_insensitive"}, "class_weight is for labels"),
]


@pytest.mark.parametrize(("fields", "message"), BAD_FIELDS, ids=str)
def test_bad_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        zoo.MaxMargin(**fields)


def test_data_that_do_not_fit_the_fields_are_named():
    data = _data("hinge")
    with pytest.raises(ValueError, match="feature_cov is 3 x 3"):
        zoo.MaxMargin(feature_cov=np.eye(3)).build(data)
    with pytest.raises(ValueError, match="task_scale_matrix is 2 x 2"):
        zoo.MaxMargin(task_scale_matrix=np.eye(2)).build(data)
    with pytest.raises(ValueError, match="task_nu is 2"):
        zoo.MaxMargin(task_nu=2.0).build(data)
    real = _data("epsilon_insensitive")
    with pytest.raises(ValueError, match="labels must be -1/\\+1 or 0/1"):
        zoo.MaxMargin().build(real)


def test_labels_of_one_class():
    data = _data("hinge")
    with pytest.raises(ValueError, match="one class in every task"):
        zoo.MaxMargin().build(zoo.MultiTaskData.from_arrays(data.X, np.ones(len(data.y)), data.task))
    y = np.where(data.task == 0, 1.0, data.y)
    with pytest.warns(UserWarning, match="one class in 1 of 3 tasks \\('task 0'\\)"):
        zoo.MaxMargin().build(zoo.MultiTaskData.from_arrays(data.X, y, data.task))


def test_a_given_task_cov_has_no_new_task():
    fit = zoo.MaxMargin(task_cov=np.eye(3)).fit(
        _data("hinge"), "gibbs", draws=2, tune=2, chains=1, random_seed=1, progress=False
    )
    with pytest.raises(ValueError, match="task_cov was given"):
        fit.predict(np.zeros((1, 2)), "new", new_task=True)

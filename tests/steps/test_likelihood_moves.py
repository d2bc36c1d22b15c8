"""Moves of a block under the likelihood itself: densities, the joint law, and what is learned while a chain tunes."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import zoo
from tests.daily import daily
from tests.steps import models, test_gibbs, test_interweaving
from zoo.diagnostics import sequential_test
from zoo.steps import gibbs, interweaving, likelihood_moves, likelihood_parts
from zoo.steps.iterative_normal import IterativeNormal
from zoo.steps.state import State

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link")


# ---------------------------------------------------------------- densities of rows


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", test_gibbs._OBSERVED)
def test_row_densities_are_those_of_the_model(kind):
    """Differences of log densities between two blocks, and slopes as their derivatives."""
    model = test_gibbs._joint(kind)
    model["data"].set_value(np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))
    with model:
        step = zoo.augmented_step()
    logp = model.compile_logp(vars=[model["y"]], sum=False)
    rng, found = np.random.default_rng(1), []
    for _ in range(2):
        point = {**model.initial_point(0), "sd_log__": np.array(0.3)}
        point |= {name: rng.normal(size=np.shape(point[name])) for name in ("mu", "z", "b")}
        state = State(step._rows, point, step._rows.entries(point))
        found.append((state.densities, logp(point)[0]))
    np.testing.assert_allclose(found[1][0] - found[0][0], found[1][1] - found[0][1], rtol=1e-9, atol=1e-12)
    h = 1e-6
    numeric = (state.log_densities(state.e + h) - state.log_densities(state.e - h)) / (2.0 * h)
    np.testing.assert_allclose(state.slopes(), numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.usefixtures("uncompiled")
def test_density_and_slope_of_the_hinge():
    with models.max_margin() as model:
        step = zoo.augmented_step()
        point = model.initial_point(0)
        point |= {"H": np.random.default_rng(0).normal(size=(2, 4))}
        state = State(step._rows, point, step._rows.entries(point))
    y = 2.0 * models.LABELS - 1.0
    f = (models.X * point["H"].T[models.GROUP]).sum(-1)
    np.testing.assert_allclose(state.densities, -2.0 * 0.7 * np.maximum(1.0 - y * f, 0.0), rtol=1e-12)
    np.testing.assert_allclose(state.slopes(), np.where(y * f < 1.0, 1.4 * y, 0.0), rtol=1e-12)


# ---------------------------------------------------------------- which parts


def _parts_of(model):
    with model:
        step = zoo.augmented_step()
    return [(len(p.columns), p.n_components, p.observed) for p in step._moves.parts]


@pytest.mark.usefixtures("uncompiled")
def test_parts_and_their_components(monkeypatch):
    # Coefficients of each group given the population, and then the population.
    assert _parts_of(models.correlated_slopes()) == [(8, 4, True), (2, 1, False)]
    # An intercept joins all.
    assert _parts_of(models.one_line(False)) == [(2, 1, True)]
    assert _parts_of(models.eight_schools()) == []  # normal responses are drawn exactly
    monkeypatch.setattr(likelihood_parts, "LARGEST_COMPONENT", 3)
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        u = pm.Normal("u", 0.0, 1.0, shape=5)
        v = pm.Normal("v", 0.0, 1.0, shape=4)
        f = a + u[np.arange(20) % 5] + v[np.arange(20) % 4] + b * models.X[:20, 0]
        pm.Bernoulli("y", logit_p=f, observed=models.LABELS[:20])
    assert _parts_of(model) == [(5, 5, True), (4, 4, True), (2, 1, True)]


# ---------------------------------------------------------------- the joint law


def _always(step, w=0.2, v=0.05):
    """A step whose every sweep is one under the likelihood, with parabolas that are not those of any data."""
    n = len(step._rows.every) - step._rows.n_prior
    step._moves.set_lines(np.full(n, w), np.full(n, v))
    step._moves.turn = lambda: True
    return step


@pytest.mark.statistical
@pytest.mark.parametrize(
    "kind", daily([k for k in test_gibbs._OBSERVED if k != "normal"], {"bernoulli", "student_t"})
)
def test_moves_keep_the_joint_law(kind, monkeypatch):
    # Null: parameters after three sweeps and y have the law of draws from prior and likelihood. False alarms: 1e-5.
    if kind not in ("bernoulli", "probit"):  # ten numbers at once would seldom be taken
        monkeypatch.setattr(likelihood_parts, "LARGEST_COMPONENT", 8)
    model = test_gibbs._joint(kind)
    with model:
        step = _always(zoo.augmented_step(rng=1))
    pairs = test_gibbs._sample_pairs(model, step, 3)
    result = sequential_test(pairs, alpha=1e-5, size=500, random_seed=2)
    assert not result.rejected, str(result)
    assert step._moves.acceptance[0] > 0.05  # the test is of moves, not of chains that stand


@pytest.mark.statistical
@pytest.mark.parametrize("largest", [50, 3])
def test_moves_and_scales_keep_the_joint_law(largest, monkeypatch):
    """The same with a population above, with scales that are moved, and where parts are moved one by one."""
    monkeypatch.setattr(likelihood_parts, "LARGEST_COMPONENT", largest)
    model = test_interweaving._joint("bernoulli")
    with model:
        step = _always(zoo.augmented_step(rng=1), 0.3, 0.6)
    assert len(step._moves.parts) == (2 if largest == 50 else 3)
    pairs = test_interweaving._sample_pairs(model, step, 5)
    result = sequential_test(pairs, alpha=1e-5, size=1000, random_seed=2)
    assert not result.rejected, str(result)


@pytest.mark.statistical
@pytest.mark.parametrize("moves", [False, True])
def test_draws_by_conjugate_gradients_keep_the_joint_law(moves, monkeypatch):
    """The same where no block has a factor: with auxiliary variables, and with moves under the likelihood."""

    def without_factor(indptr, indices, size):
        return IterativeNormal(size)

    for module in (gibbs, likelihood_parts):
        monkeypatch.setattr(module, "block_normal", without_factor)
    model = test_interweaving._joint("bernoulli")
    with model:
        step = zoo.augmented_step(rng=1)
    if moves:
        step = _always(step, 0.3, 0.6)
    pairs = test_interweaving._sample_pairs(model, step, 5)
    result = sequential_test(pairs, alpha=1e-5, size=1000, random_seed=2)
    assert not result.rejected, str(result)


def _two_kinds():
    """Labels beside normal responses whose noise is another variable's, and a component for each group."""
    group, X = np.arange(8) % 2, np.random.default_rng(3).normal(size=8)
    with pm.Model() as model:
        mu, sd = pm.Normal("mu", 0.3, 0.7), pm.HalfNormal("sd", 1.0)
        u = pm.Normal("u", mu, 0.8, shape=2)
        v = pm.Normal("v", 0.0, 0.7, shape=2)
        pm.Normal("also", u[group] + 0.3, 0.4 + sd, observed=X)
        pm.Bernoulli("y", logit_p=u[group] + v[group] * X, observed=pm.Data("data", np.zeros(8)))
    return model


@pytest.mark.statistical
def test_normal_rows_beside_others_agree_with_sweeps_with_auxiliary_variables():
    """Two long chains of one model: the largest of 10 z scores is above 5 with a probability below 1e-5."""
    model = _two_kinds()
    model["data"].set_value(np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))
    found = []
    for likelihood in (False, True):
        with model:
            step = zoo.augmented_step(rng=1 + likelihood)
        if likelihood:
            _always(step)
        point, rows = {**model.initial_point(0), "sd_log__": np.array(-0.5)}, []
        for _ in range(6_000):
            point, _ = step.step(point)
            x = np.concatenate([np.ravel(point[name]) for name in ("mu", "u", "v")])
            rows.append([*x, *x**2])
        batches = np.array(rows).reshape(60, 100, -1).mean(axis=1)  # means of batches are nearly independent
        found.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / 60))
    (a, va), (b, vb) = found
    assert np.abs((a - b) / np.sqrt(va + vb)).max() < 5.0


def _symmetric(rows, first, n_prior, component, w, v, *rest):
    """The proposal counts as symmetric."""
    _RATIOS(rows, first, n_prior, component, 0.0 * w, 0.0 * v, *rest)


def _one_verdict(rows, first, n_prior, component, *rest):
    """All components are judged by the first ones' rows."""
    _RATIOS(rows, first, n_prior, component, *rest)
    rest[-1][:] = rest[-1][0]


def _symmetric_scale(rng, state, w, slope, change):
    return _TAKEN(rng, state, 0.0 * w, 0.0 * slope, change)


_RATIOS, _TAKEN = likelihood_moves._add_ratios, interweaving._taken


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("module", "name", "value", "largest"),
    [
        (likelihood_moves, "_add_ratios", _symmetric, 50),
        (likelihood_moves, "_add_ratios", _one_verdict, 3),
        (interweaving, "_taken", _symmetric_scale, 50),
    ],
)
def test_planted_mistakes_are_found(module, name, value, largest, monkeypatch):
    monkeypatch.setattr(likelihood_parts, "LARGEST_COMPONENT", largest)
    model = test_interweaving._joint("bernoulli")
    with model:
        step = _always(zoo.augmented_step(rng=1), 0.3, 0.6)
    monkeypatch.setattr(module, name, value)
    pairs = test_interweaving._sample_pairs(model, step, 5)
    result = sequential_test(pairs, alpha=1e-5, size=1000, random_seed=2)
    assert result.rejected, str(result)


def _chain(largest, spoil, monkeypatch):
    monkeypatch.setattr(likelihood_parts, "LARGEST_COMPONENT", largest)
    model = test_interweaving._joint("bernoulli")
    model["data"].set_value(np.arange(9.0) % 2)
    with model:
        step = _always(zoo.augmented_step(rng=1), 1.0, 0.3)
    spoil(step._moves)
    point, found = model.initial_point(0), []
    for _ in range(30):
        point, _ = step.step(point)
        found.append(np.concatenate([np.ravel(x) for x in point.values()]))
    return np.array(found)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("largest", [50, 3])
def test_sums_that_are_kept_are_those_that_would_be_made(largest, monkeypatch):
    """The draws are the same where nothing is kept from sweep to sweep."""

    def keep_nothing(moves):
        moves._base_stays = False

    def keep_too_much(moves):
        moves._alone = True

    kept = _chain(largest, lambda moves: None, monkeypatch)
    np.testing.assert_allclose(kept, _chain(largest, keep_nothing, monkeypatch), rtol=1e-6, atol=1e-9)
    spoilt = _chain(largest, keep_too_much, monkeypatch)
    assert np.allclose(kept, spoilt) == (largest == 50)  # a part alone may keep all


# ---------------------------------------------------------------- what is learned


def _logistic(rows=400, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    y = (rng.random(rows) < 1 / (1 + np.exp(2.0 - X[:, 0]))).astype(int)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 3.0), pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", logit_p=a + X @ b, observed=y)
    return model


def _run(step, model, tune, draws):
    step.setup_chain(np.random.default_rng(5), tune, draws)
    point, lines = model.initial_point(0), []
    for _ in range(tune + draws):
        point, _ = step.step(point)
        lines.append(step._moves._lines)
    return lines


@pytest.mark.usefixtures("uncompiled")
def test_parabolas_are_fitted_while_a_chain_tunes_and_stay():
    model = _logistic()
    with model:
        step = zoo.augmented_step()
    lines = _run(step, model, 200, 100)
    assert lines[0] is None
    assert lines[60] is not None
    assert lines[150] is not lines[60]
    assert all(one is lines[150] for one in lines[150:])
    assert step._moves.acceptance[0] > 0.8
    # The mode of the surrogate's posterior is the mean of the draws, near the maximum of the posterior.
    w, v = lines[-1]
    D = np.column_stack([np.ones(400), np.random.default_rng(1).normal(size=(400, 3))])
    prior = np.diag([1 / 9, 1, 1, 1])
    mean = np.linalg.solve((D.T * w) @ D + prior, D.T @ v)
    b, y = np.zeros(4), model.rvs_to_values[model["y"]].data
    for _ in range(20):  # Newton's method for the maximum of the posterior
        p = 1.0 / (1.0 + np.exp(-D @ b))
        b += np.linalg.solve((D.T * (p * (1 - p))) @ D + prior, D.T @ (y - p) - prior @ b)
    np.testing.assert_allclose(mean, b, atol=0.12)
    assert _run(step, model, 20, 10)[-1] is None  # too short to learn from


@pytest.mark.usefixtures("uncompiled")
def test_a_part_that_is_seldom_accepted_is_left_out(monkeypatch):
    monkeypatch.setattr(likelihood_moves, "LEAST_ACCEPTANCE", 1.01)
    model = _logistic()
    with model:
        step = zoo.augmented_step()
    lines = _run(step, model, 200, 50)
    assert lines[180] is not None
    assert lines[-1] is None
    assert step._moves.on == [False]


@pytest.mark.statistical
def test_rare_labels_no_longer_crawl():
    """Without these moves the intercept has an autocorrelation of about 0.95."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=3000)
    y = (rng.random(3000) < 1 / (1 + np.exp(5.0 - 0.5 * x))).astype(int)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=a + b * pt.as_tensor(x), observed=y)
        step = zoo.augmented_step()
    step.setup_chain(np.random.default_rng(5), 400, 600)
    point, draws = model.initial_point(0), []
    for _ in range(1000):
        point, _ = step.step(point)
        draws.append(float(point["a"]))
    late = np.array(draws[400:])
    assert np.corrcoef(late[1:], late[:-1])[0, 1] < 0.6

"""A row of weight h is the row h times: for every factory, by every method that takes weights."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.gibbs.noise_conditional import NoiseConditional
from zoo.likelihoods.epsilon_insensitive import _log_posterior_of_log_C
from zoo.registry import FACTORIES, get_factory

# Levels differ between tasks here, and no model has them. The data of all models have t.
pytestmark = [
    pytest.mark.filterwarnings("ignore:no feature is constant"),
    pytest.mark.filterwarnings("ignore:t holds 't0', and .* makes nothing of t"),
]

N, T = 18, 3
_rng = np.random.default_rng(5)
X = _rng.standard_normal((N, 2))
PLACE = np.arange(N) % 6 + _rng.uniform(0.0, 0.5, N)
TASK = np.tile(np.arange(T), N // T)
REAL = X @ [1.0, -0.5] + 0.3 * TASK + 0.4 * _rng.standard_normal(N)
COUNTS = _rng.poisson(np.exp(0.3 * X[:, 0] + 0.5)).astype(float)
MIXED = 1.0 + np.arange(N) % 3
SAME = np.full(N, 2.0)

# Fields beside the default ones, with the response that they are for.
_LOCAL = {"bandwidth": 0.8, "ridge": 1.0, "likelihood": zoo.Gaussian(noise=0.5)}
FIELDS = {
    "MaxMargin": [
        ({"likelihood": "normalised_hinge"}, "labels"),
        ({"likelihood": zoo.EpsilonInsensitive(C="learned", epsilon=0.1)}, "real"),
    ],
    "NonparametricMaxMargin": [({"K_max": 3}, "labels")],
    "NIWLinear": [
        ({"likelihood": zoo.Gaussian(per_task=("noise",))}, "real"), ({"likelihood": "logistic"}, "labels"),
        ({"likelihood": "student_t"}, "real"),
    ],
    "MultiTaskKernelMachine": [
        ({"likelihood": zoo.Gaussian(noise=0.5)}, "real"),
        ({"likelihood": "logistic"}, "labels"),
        ({"likelihood": "logistic", "lam": 0.5, "amplitude": 1.0}, "labels"),
        ({"likelihood": "hinge", "lam": 0.5, "amplitude": 1.0}, "labels"),
        ({"likelihood": "epsilon_insensitive"}, "real"),
    ],
    "MultiLaplaceGP": [({"kernel": "linear", "mean": "linear"}, "real"), ({"ard": "pooled"}, "real")],
    "KernelLocalSmoothing": [
        (_LOCAL, "real"), ({**_LOCAL, "degree": 1}, "real"), ({**_LOCAL, "likelihood": "logistic"}, "labels"),
    ],
    "VaryingCoefficientGP": [
        ({"likelihood": "logistic"}, "labels"),
        ({"likelihood": "student_t"}, "real"),
        ({"likelihood": "poisson"}, "counts"),
    ],
    "IndependentTasks": [({"likelihood": "logistic"}, "labels")],
    "PooledTasks": [({"likelihood": "logistic"}, "labels")],
}  # fmt: skip
# Those whose numbers are chosen by folds of rows are compared with these numbers given.
_CHOSEN = ("KernelLocalSmoothing",)
# Those that follow the rows wherever their noise goes.
_SMOOTH = ("VaryingCoefficientGP", "PooledGP", "NonisotropicVaryingCoefficients")
# Default fields that are for labels.
_LABELS = ("MaxMargin", "NonparametricMaxMargin")

CASES = [
    (name, fields, kind)
    for name in FACTORIES
    for fields, kind in [
        *([] if name in _CHOSEN else [({}, "labels" if name in _LABELS else "real")]),
        *FIELDS.get(name, []),
    ]
]
IDS = [f"{name}-{'-'.join(f'{k}={v}' for k, v in fields.items())}" for name, fields, _ in CASES]


def _factory(name, fields):
    return get_factory(name)(**fields)


def _pair(kind, weight):
    """The rows with weights, and with every row so many times, in the same order."""
    y = {"real": REAL, "labels": np.where(REAL > 0, 1.0, -1.0), "counts": COUNTS}[kind]
    repeated = np.repeat(np.arange(N), weight.astype(int))
    return tuple(
        zoo.MultiTaskData.from_arrays(X[rows], y[rows], TASK[rows], t=PLACE[rows], **given)
        for rows, given in ((np.arange(N), {"weight": weight}), (repeated, {}))
    )


@pytest.mark.filterwarnings("ignore:.*sparse.*")
@pytest.mark.parametrize(
    "weight", [pytest.param(SAME, id="same", marks=pytest.mark.scheduled), pytest.param(MIXED, id="mixed")]
)
@pytest.mark.parametrize(("name", "fields", "kind"), CASES, ids=IDS)
def test_the_model_has_the_density_of_repeated_rows(name, fields, kind, weight):
    factory = _factory(name, fields)
    logps, points = [], None
    for data in _pair(kind, weight):
        y = factory.validate(data)
        model = factory.assemble(factory.design(data), y)[0]
        points = _points(model) if points is None else points
        logps.append(_logp_and_gradient(model, points))
    for (value, slope), (expected, other) in zip(*logps, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-8)
        for part, wanted in zip(slope, other, strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-6, atol=1e-6)


def _points(model):
    rng = np.random.default_rng(1)
    start = model.initial_point(random_seed=0)
    continuous = {v.name for v in model.continuous_value_vars}
    return [
        {n: v + 0.3 * rng.standard_normal(np.shape(v)) if n in continuous else v for n, v in start.items()}
        for _ in range(2)
    ]


def _logp_and_gradient(model, points):
    import pytensor
    from pytensor.compile.mode import Mode

    wrt = model.continuous_value_vars
    total = model.logp()
    outputs = [total, *pytensor.grad(total, wrt)]
    # Without rewriting the graph, which takes longer than its few values.
    function = pytensor.function(model.value_vars, outputs, mode=Mode("py", None), on_unused_input="ignore")
    results = [function(*(point[v.name] for v in model.value_vars)) for point in points]
    return [(float(first), rest) for first, *rest in results]


ENGINES = [
    pytest.param(name, fields, kind, method, id=f"{label}-{method.name}")
    for (name, fields, kind), label in zip(CASES, IDS, strict=True)
    for method in _factory(name, fields).method_table()
    if method.weights and method.name != "nuts" and name not in ("MaxMargin", "NonparametricMaxMargin")
]


CHANCE = ("hinge", "epsilon_insensitive", "student_t", "logistic", "negative_binomial")


def _is_chance(name, fields, method):
    """Whether chains of an augmented likelihood, whose draws of auxiliary variables differ by row, are compared."""
    return method.name == "gibbs" and fields.get("likelihood", "gaussian") in CHANCE


@pytest.mark.parametrize(("name", "fields", "kind", "method"), ENGINES)
def test_an_engine_gives_what_it_gives_of_repeated_rows(name, fields, kind, method):
    # With one seed the draws are the same to rounding, as everything that an engine sees of the rows is; searches for
    # a largest evidence stop a little apart, by their tolerance. Rows that repeat exactly take the noise of a smooth
    # function to zero, where searches end anywhere: it is held.
    chance = _is_chance(name, fields, method)
    if name in _SMOOTH and kind == "real":
        word = fields.get("likelihood", "gaussian")
        given = {"gaussian": zoo.Gaussian(noise=0.4), "student_t": zoo.StudentT(noise=0.4, degrees=5.0)}
        fields = {**fields, "likelihood": given.get(word, word)}
    factory = _factory(name, fields)
    if chance or (method.name == "hsgp" and fields.get("likelihood", "gaussian") != "gaussian"):
        pytest.skip("draws depend on the number of rows: the density is compared above")
    if method.name == "map" and fields.get("likelihood") in ("hinge", "epsilon_insensitive"):
        pytest.importorskip("sklearn")
    fits = [
        factory.fit(data, method=method.name, draws=15, tune=5, chains=1, random_seed=3, progress=False)
        for data in _pair(kind, MIXED)
    ]
    searched = not method.exact
    tolerance = 5e-3 if searched else 1e-7
    one, other = (fit.posterior for fit in fits)
    for variable in one:
        if one[variable].shape != other[variable].shape:  # function values at the rows themselves
            continue
        size = max(1.0, float(np.abs(other[variable]).max()))
        np.testing.assert_allclose(
            one[variable].to_numpy(), other[variable].to_numpy(), atol=tolerance * size, err_msg=str(variable)
        )
    if "log_evidence" in fits[0].idata["sample_stats"]:
        ours, theirs = (float(f.idata["sample_stats"]["log_evidence"][0, -1]) for f in fits)
        assert ours == pytest.approx(theirs, abs=1e-4)


def test_the_learned_C_of_weighted_rows_has_its_conditional_by_quadrature():
    # The conditional of the slice sampler against the density of the model: log p(y | f, C) times the weight.
    rng = np.random.default_rng(0)
    loss, h = rng.exponential(size=9), MIXED[:9]
    law = zoo.likelihoods.LogNormal(0.0, 1.0).numbers()

    def expected(s):
        C = np.exp(s)
        return float(h @ (-2.0 * C * loss - np.log(2.0 * 0.2 + 1.0 / C)) - 0.5 * s * s)

    at = np.linspace(-2.0, 2.0, 7)
    ours = np.array([_log_posterior_of_log_C(s, h @ loss, h.sum(), 0.2, law) for s in at])
    theirs = np.array([expected(s) for s in at])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-12)


@pytest.mark.statistical
def test_the_learned_C_of_weighted_rows_is_that_of_repeated_rows():
    # Null: one posterior. Each chain has 500 draws after thinning; the two means differ by more than four of their
    # standard errors once in 16,000 seeds, and a normaliser that counts once halves C, twenty of them away.
    factory = zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C="learned", epsilon=0.1))
    means, errors = [], []
    for data in _pair("real", SAME):
        fit = factory.fit(data, draws=500, tune=300, chains=2, random_seed=1, progress=False, thin=4)
        C = fit.posterior["C"].to_numpy()
        parts = np.array_split(C.ravel(), 20)
        means.append(C.mean())
        errors.append(np.std([p.mean() for p in parts], ddof=1) / np.sqrt(20))
    assert abs(means[0] - means[1]) < 4.0 * np.hypot(*errors)


@pytest.mark.parametrize(("name", "fields", "kind"), CASES, ids=IDS)
def test_no_method_leaves_weights_out(name, fields, kind):
    factory = _factory(name, fields)
    weighted, _ = _pair(kind, MIXED)
    taking = [m.name for m in factory.method_table() if m.weights and m.name in factory.methods]
    assert factory.choose_method(None, weighted) in taking
    for method in factory.method_table():
        if not method.weights:
            with pytest.raises(UnsupportedMethodError, match=r"weight is given.*'nuts'"):
                factory.choose_method(method.name, weighted)


def test_a_hook_that_leaves_weights_out_is_refused():
    class Own(zoo.PooledTasks):
        def observe(self, data, f):
            import pymc as pm

            return pm.Normal("y", f, pm.modelcontext(None)["noise"], observed=data.y, dims="obs")

    weighted, repeated = _pair("real", SAME)
    Own().build(repeated)
    with pytest.raises(ValueError, match="weight is given, but the hook `observe` of Own does not use"):
        Own().build(weighted)


def test_the_log_likelihood_of_a_row_is_weighted_and_its_prediction_is_not():
    weighted, repeated = _pair("real", MIXED)
    one, other = (
        zoo.PooledTasks().fit(d, draws=50, chains=1, random_seed=0, progress=False)
        for d in (weighted, repeated)
    )
    first = np.concatenate([[0], np.cumsum(MIXED.astype(int))[:-1]])
    ours = one.compute_log_likelihood()["log_likelihood"]["y"].to_numpy()
    theirs = other.compute_log_likelihood()["log_likelihood"]["y"].to_numpy()[..., first]
    np.testing.assert_allclose(ours, MIXED * theirs, rtol=1e-9)
    sd = [
        f.predict(X[:4], task=np.zeros(4, int), t=PLACE[:4], random_seed=1)["sd"].to_numpy()
        for f in (one, other)
    ]
    np.testing.assert_allclose(*sd, rtol=1e-9)


def test_weighted_rows_are_not_calibrated():
    from zoo.diagnostics import sbc

    with pytest.raises(ValueError, match="weight is given: a row of weight 2"):
        sbc(zoo.PooledTasks(), _pair("real", SAME)[0], "exact", replications=2, random_seed=0, progress=False)


# ---------------------------------------------------------------- rows and tasks that come later


def _new_task(weight):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((6, 2))
    y = X @ [1.0, -0.5] + 0.4 * rng.standard_normal(6)
    h = np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]) if weight else None
    rows = np.arange(6) if weight else np.repeat(np.arange(6), [1, 2, 3, 1, 2, 3])
    given = {"weight": h} if weight else {}
    return zoo.MultiTaskData.from_arrays(X[rows], y[rows], ["new"] * len(rows), t=X[rows, 0], **given)


@pytest.mark.parametrize("factory", [
    zoo.NIWLinear(), zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))), zoo.NIWGaussianProcess(),
    zoo.MultiLaplaceGP(),
], ids=repr)  # fmt: skip
@pytest.mark.filterwarnings("ignore:task_data has inputs")
@pytest.mark.filterwarnings("ignore:.*Some Pareto.*")
def test_condition_takes_weights(factory):
    method = "map" if isinstance(factory, zoo.MultiLaplaceGP) else "em"
    fit = factory.fit(_pair("real", SAME)[1], method=method, progress=False)
    results = [fit.condition(_new_task(weight), random_seed=2).posterior for weight in (True, False)]
    for name in results[0]:
        if "task" in results[0][name].dims:
            np.testing.assert_allclose(
                results[0][name].sel(task="new"), results[1][name].sel(task="new"), rtol=1e-4, atol=1e-5
            )


def test_added_tasks_and_rows_keep_their_weights():
    factory = zoo.MultiTaskKernelMachine(likelihood=zoo.Gaussian(noise=0.5), amplitude=1.0, lam=0.5)
    fit = factory.fit(
        _pair("real", SAME)[1], method="exact", draws=5, chains=1, random_seed=0, progress=False
    )
    evidences = [
        float(fit.add_task(_new_task(weight), random_seed=0).idata["sample_stats"]["log_evidence"][0, 0])
        for weight in (True, False)
    ]
    assert evidences[0] == pytest.approx(evidences[1], rel=1e-9)
    more, repeated = _pair("real", MIXED)
    grown = [fit.add_rows(rows, random_seed=0) for rows in (more, repeated)]
    evidences = [float(g.idata["sample_stats"]["log_evidence"][0, 0]) for g in grown]
    assert evidences[0] == pytest.approx(evidences[1], rel=1e-9)
    assert grown[0].data.weight.tolist() == [*np.ones(fit.data.n_rows), *MIXED]


# ---------------------------------------------------------------- the noise of a new task


def test_the_noise_of_a_new_task_is_drawn_from_its_posterior():
    # Kolmogorov-Smirnov of 4,000 draws against quadrature: 1.95 / sqrt(4000) is exceeded once in 1,000 seeds.
    rng = np.random.default_rng(2)
    X, h = rng.standard_normal((5, 2)), np.array([1.0, 2.0, 1.0, 3.0, 0.5])
    mean, cov = np.array([0.5, -1.0]), np.array([[1.0, 0.3], [0.3, 0.5]])
    y = X @ mean + 2.0 * rng.standard_normal(5)
    law = NoiseConditional.of(X, y, h, mean, np.linalg.cholesky(cov))

    def density(x, top=0.0):  # of the logarithm of the variance, by the full covariance matrix
        v = np.exp(x)
        K = X @ cov @ X.T + v * np.diag(1.0 / h)
        e = y - X @ mean
        log = -0.5 * (np.linalg.slogdet(K)[1] + e @ np.linalg.solve(K, e))
        log += -0.5 * (h.sum() - 5) * x - 1.0 * x - 0.1 / v
        return np.exp(log - top)

    total = quad(density, -8.0, 14.0, limit=300)[0]
    draws = np.sort(np.log([law.draw(1.0, 0.1, rng) for _ in range(4000)]))
    at = np.quantile(draws, np.linspace(0.02, 0.98, 25))
    ours = np.searchsorted(draws, at) / len(draws)
    theirs = np.array([quad(density, -8.0, a, limit=300)[0] / total for a in at])
    assert np.abs(ours - theirs).max() < 1.95 / np.sqrt(4000)
    grid = np.linspace(-6.0, 6.0, 4001)
    best = grid[np.argmax([density(x) * np.exp(-x) for x in grid])]
    assert np.log(law.mode((1.0, 0.1), 1e-9)) == pytest.approx(best, abs=0.005)


@pytest.mark.parametrize("method", ["gibbs", "em"])
def test_intervals_of_a_conditioned_task_cover_as_those_of_a_refit(method):
    # A new task ten times as noisy as those of the fit. Of 400 new responses 90 % should be covered; 20 labels of it
    # leave its noise known to about 16 %, which makes the coverage of one data set vary by 0.05: below 0.75 or above
    # 0.99 once in 500 seeds. With the noise of an old task 0.1 or less are.
    rng = np.random.default_rng(4)
    X = rng.standard_normal((8 * 15, 2))
    task = np.repeat(np.arange(8), 15)
    w = rng.standard_normal((9, 2))
    y = np.sum(X * w[task], axis=1) + 0.1 * rng.standard_normal(120)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    new = rng.standard_normal((420, 2))
    labels = new @ w[8] + 1.0 * rng.standard_normal(420)
    factory = zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",)))
    fit = factory.fit(data, method=method, draws=200, tune=200, chains=1, random_seed=0, progress=False)
    later = fit.condition(zoo.MultiTaskData.from_arrays(new[:20], labels[:20], ["new"] * 20), random_seed=0)
    table = later.predict(new[20:], task="new", ci_prob=0.9, random_seed=0)
    inside = (labels[20:] > table["lower"]) & (labels[20:] < table["upper"])
    assert 0.75 < float(inside.mean()) < 0.99
    noise = later.posterior["noise"].sel(task="new")
    assert 0.6 < float(noise.mean()) < 1.7


def test_em_without_a_prior_keeps_the_noise_of_few_rows_above_that_of_the_fit():
    fit = zoo.NIWLinear(likelihood=zoo.Gaussian(noise=zoo.likelihoods.Flat(), per_task=("noise",))).fit(
        _pair("real", SAME)[1], method="em", progress=False
    )
    one = zoo.MultiTaskData.from_arrays([[0.1, 0.2]], [0.0], ["new"], t=[0.0])
    noise = fit.condition(one).posterior["noise"]
    assert float(noise.sel(task="new").squeeze()) == pytest.approx(float(noise[..., :3].min()))


def test_weights_are_kept_by_every_factory_when_rows_are_prepared():
    # A factory whose prepared rows lose their weights would leave them out of every engine.
    for name, fields, kind in CASES:
        weighted, _ = _pair(kind, MIXED)
        prepared = _factory(name, fields).design(replace(weighted))
        assert prepared.weight is not None, name

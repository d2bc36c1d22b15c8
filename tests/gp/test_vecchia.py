"""Vecchia processes in PyMC models, against PyMC's exact ones and dense algebra."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.stats import multivariate_normal

import zoo
from tests.daily import daily
from zoo.gp.neighbour_law import neighbours_of
from zoo.gp.stationary_terms import stationary_terms

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 4.0, (24, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=24)
NEW = RNG.uniform(0.0, 4.0, (7, 2))
POINT = {"scale": np.array([0.8, 1.7]), "size": np.array(1.2), "slope": np.array(0.4), "sigma": np.array(0.3)}


@pytest.fixture(autouse=True)
def _without_compilation(request):
    """Graphs run in Python, but in tests with "numba" in their names: operations have compiled tests."""
    mode = "NUMBA" if "numba" in request.node.name else "FAST_COMPILE"
    with pytensor.config.change_flags(mode=mode):
        yield


class Slope(pm.gp.mean.Mean):
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, X):
        return self.slope * pt.as_tensor(X)[:, 0]


WAYS = {
    "graph": lambda: 0.1 * pm.gp.cov.Linear(2, c=0.5),
    "compiled code": lambda: 0.5 * (pm.gp.cov.ExpQuad(2, ls=2.0, active_dims=[1]) + 0.2),
}
"""What is added to a Matern kernel: one that compiled code has not, and one that it has."""


def process(kind, way="graph", **settings):
    """A process with a learned mean, in a model that is open."""
    scale, size = pm.Gamma("scale", 2.0, 1.0, shape=2), pm.HalfNormal("size")
    cov = size**2 * pm.gp.cov.Matern32(2, ls=scale) + WAYS[way]()
    if kind is zoo.gp.Vecchia:
        assert (stationary_terms(cov) is None) == (way == "graph")
    return kind(mean_func=Slope(pm.Normal("slope")), cov_func=cov, **settings)


def observed(kind, y=Y, rows=X, sigma=None, **settings):
    with pm.Model() as model:
        gp = process(kind, **settings)
        noise = pm.HalfNormal("sigma") if sigma is None else sigma
        gp.marginal_likelihood("y", X=rows, y=y, sigma=noise)
    return model, gp


def values_of(model, point=POINT):
    """``POINT`` on the scale on which the model is sampled."""
    found = {}
    for rv in model.free_RVs:
        value, transform = model.rvs_to_values[rv], model.rvs_to_transforms[rv]
        moved = pt.as_tensor(point[rv.name])
        found[value.name] = (
            moved if transform is None else transform.forward(moved, *rv.owner.inputs)
        ).eval()
    return found


def law_of(variable):
    """Base, weights and variance of the rows."""
    return variable.owner.op.dist_params(variable.owner)


def compiled(model, outputs):
    """A function of the values of the model's variables."""
    several = outputs if isinstance(outputs, list) else [outputs]
    found = model.replace_rvs_by_values(several)
    return model.compile_fn(
        found if isinstance(outputs, list) else found[0], inputs=model.value_vars, on_unused_input="ignore"
    )


def covariance(a, b=None, way="graph"):
    scale, size = POINT["scale"], POINT["size"]
    cov = size**2 * pm.gp.cov.Matern32(2, ls=scale) + WAYS[way]()
    return cov(a, b).eval()


def every_row(**more):
    return {"n_neighbours": len(X) - 1, "n_neighbours_predict": len(X), **more}


@pytest.mark.parametrize("way", WAYS)
def test_with_all_neighbours_density_and_gradient_are_exact(way):
    ours, _ = observed(zoo.gp.Vecchia, way=way, **every_row())
    exact = multivariate_normal(
        POINT["slope"] * X[:, 0], covariance(X, way=way) + POINT["sigma"] ** 2 * np.eye(len(X))
    )
    at = values_of(ours)
    assert ours.compile_logp(ours.observed_RVs)(at) == pytest.approx(exact.logpdf(Y), rel=1e-10)
    # PyMC's own class adds 1e-6 to variances: the same is added to ours by the noise.
    theirs, _ = observed(pm.gp.Marginal, way=way)
    near = {**at, "sigma_log__": 0.5 * np.log(POINT["sigma"] ** 2 + 1e-6)}
    np.testing.assert_allclose(
        ours.compile_dlogp(jacobian=False)(near), theirs.compile_dlogp(jacobian=False)(at), rtol=1e-4
    )


@pytest.mark.parametrize("ordering", ["maxmin", "random", "given"])
def test_the_divergence_falls_with_the_number_of_neighbours(ordering):
    """KL(exact, approximation) is half the difference of the log determinants: quadratic forms have the same mean."""
    noise = POINT["sigma"] ** 2 * np.eye(len(X))
    exact = np.linalg.slogdet(covariance(X) + noise)[1]
    found = []
    for m in (1, 3, 6, 12, len(X) - 1):
        model, _ = observed(zoo.gp.Vecchia, n_neighbours=m, ordering=ordering)
        *_, variance = law_of(model["y"])
        logs = compiled(model, pt.log(variance).sum())
        found.append(0.5 * (logs(values_of(model)) - exact))
    assert (np.diff(found) < 1e-10).all() and found[0] > 0.1
    assert found[-1] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("m", [1, 4, 9])
def test_compiled_code_and_graph_agree_with_few_neighbours(m):
    """Density, gradient and predictions; PyMC adds 1e-12 to squared distances, which moves rough kernels by 1e-6."""
    found = []
    for compiled_code in (True, False):
        with pm.Model() as model:
            size, scale = pm.HalfNormal("size"), pm.Gamma("scale", 2.0, 1.0, shape=2)
            sigma, slope = pm.HalfNormal("sigma"), pm.Normal("slope")
            cov = size**2 * pm.gp.cov.Matern52(2, ls=scale) + pm.gp.cov.Exponential(
                2, ls=size, active_dims=[0]
            )
            cov = 0.7 * (cov + pm.gp.cov.Matern12(2, ls=0.5)) + sigma
            gp = zoo.gp.Vecchia(
                m, n_neighbours_predict=6, cov_func=cov, mean_func=Slope(slope), compiled=compiled_code
            )
            gp.marginal_likelihood("y", X, Y, sigma)
            at = values_of(model)
            found.append([model.compile_logp()(at), model.compile_dlogp()(at), *gp.predict(NEW, point=POINT)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_compiled_code_knows_a_kernel_from_what_looks_like_it():
    class Doubled(pm.gp.cov.Matern32):
        def full(self, X, Xs=None):
            return 2.0 * super().full(X, Xs)

    kernel = pm.gp.cov.Matern32(2, ls=1.0)
    assert stationary_terms(2.0 * (kernel + 1.0) * pm.math.exp(0.3)) is not None
    for other in (
        Doubled(2, ls=1.0),
        kernel * kernel,
        kernel * (kernel + 1.0),
        kernel**2,
        kernel * np.ones((24, 24)),
        kernel + pm.gp.cov.WhiteNoise(1.0),
        pm.gp.cov.RatQuad(2, alpha=1.0, ls=1.0),
    ):
        assert stationary_terms(other) is None
    with pytest.raises(ValueError, match="compiled is True, but cov_func is not a sum"):
        _broken(cov_func=kernel * kernel, compiled=True)
    with pytest.raises(ValueError, match="compiled is 'yes'"):
        _broken(compiled="yes")


@pytest.mark.parametrize("mode", daily(["NUMBA", "JAX"], ["JAX"]))
def test_backends_agree(mode):
    if mode == "JAX":
        pytest.importorskip("jax")
    at, found = None, []
    for settings in (
        {"way": "compiled code", "compiled": None if mode == "NUMBA" else False},
        {"way": "compiled code"},
    ):
        model, _ = observed(zoo.gp.Vecchia, n_neighbours=5, **settings)
        at = values_of(model) if at is None else at
        outputs = [model.logp(), *pytensor.grad(model.logp(), model.value_vars)]
        compiled_function = pytensor.function(
            model.value_vars, outputs, mode=mode if not found else "FAST_COMPILE"
        )
        found.append(compiled_function(*[at[v.name] for v in model.value_vars]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


KERNELS = {
    "squared exponential": lambda: pm.gp.cov.ExpQuad(2, ls=[1.0, 2.0]),
    "rational": lambda: pm.gp.cov.RatQuad(2, alpha=0.7, ls=1.3),
    "matern 1/2": lambda: pm.gp.cov.Matern12(2, ls=0.9),
    "matern 5/2": lambda: 2.0 * pm.gp.cov.Matern52(2, ls=0.9, active_dims=[1]),
    "exponential": lambda: pm.gp.cov.Exponential(2, ls=0.9) + 0.3,
    "periodic": lambda: (
        pm.gp.cov.Periodic(2, period=2.0, ls=1.0, active_dims=[0]) * pm.gp.cov.ExpQuad(2, ls=3.0)
    ),
    "cosine": lambda: pm.gp.cov.Cosine(2, ls=2.0, active_dims=[0]) + pm.gp.cov.WhiteNoise(0.2),
    "polynomial": lambda: pm.gp.cov.Polynomial(2, c=1.0, d=2, offset=0.5),
    "warped": lambda: pm.gp.cov.WarpedInput(2, pm.gp.cov.Matern52(2, ls=1.0), lambda x: x**2),
    "power": lambda: pm.gp.cov.ExpQuad(2, ls=1.0) ** 2,
    "scaled": lambda: pm.gp.cov.ScaledCov(2, pm.gp.cov.Matern32(2, ls=1.0), lambda x: x.sum(axis=1), ()),
    "tasks": lambda: (
        pm.gp.cov.Coregion(3, W=np.array([[1.0], [0.5]]), kappa=[0.2, 0.1], active_dims=[2])
        * pm.gp.cov.Matern32(3, ls=1.0, active_dims=[0, 1])
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_any_covariance_of_pymc(name):
    rows, cov, scales = X, KERNELS[name](), None
    if name == "tasks":
        rows, scales = np.column_stack([X, np.arange(len(X)) % 2]), [1.0, 1.0, np.inf]
    with pm.Model() as model:
        gp = zoo.gp.Vecchia(len(X) - 1, cov_func=cov, neighbour_scales=scales)
        gp.marginal_likelihood("y", rows, Y, 0.5)
    exact = multivariate_normal(np.zeros(len(X)), cov(rows).eval() + 0.25 * np.eye(len(X)))
    # PyMC adds 1e-12 to squared distances, which moves the rough kernels by 1e-6; compiled code does not.
    rel = 1e-6 if name in ("matern 1/2", "exponential") else 1e-9
    assert model.compile_logp()({}) == pytest.approx(exact.logpdf(Y), rel=rel)


def test_a_covariance_of_ones_own():
    class Rough(pm.gp.cov.Covariance):
        def full(self, X, Xs=None):
            X, Xs = self._slice(X, Xs)
            Xs = X if Xs is None else Xs
            return pt.exp(-pt.abs(X[:, None, :] - Xs[None, :, :]).sum(axis=-1))

        def diag(self, X):
            return pt.ones(X.shape[0])

    with pm.Model() as model:
        gp = zoo.gp.Vecchia(len(X) - 1, cov_func=Rough(2))
        gp.marginal_likelihood("y", X, Y, 0.5)
        gp.conditional("f", NEW)
    K = np.exp(-np.abs(X[:, None] - X[None]).sum(axis=-1)) + 0.25 * np.eye(len(X))
    found = model.compile_logp(model.observed_RVs)({"f": np.zeros(7)})
    assert found == pytest.approx(multivariate_normal(np.zeros(len(X)), K).logpdf(Y), rel=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pred_noise", [False, True])
def test_predictions_with_all_neighbours_are_exact(pred_noise, way):
    theirs, exact = observed(pm.gp.Marginal, way=way)
    ours, gp = observed(zoo.gp.Vecchia, way=way, **every_row())
    with theirs:
        mean, cov = exact.predict(NEW, point=POINT, pred_noise=pred_noise)
    with ours:
        found, variance = gp.predict(NEW, point=POINT, pred_noise=pred_noise)
        gp.conditional("f", NEW, pred_noise=pred_noise)
    np.testing.assert_allclose(found, mean, atol=1e-4)
    np.testing.assert_allclose(variance, np.diag(cov), atol=1e-4)
    # The joint law of the new rows, at any values of theirs.
    f = mean + np.linalg.cholesky(cov) @ np.random.default_rng(1).normal(size=7)
    own = ours.compile_logp(ours["f"])({**values_of(ours, {**POINT, "f": f}), "f": f})
    jitter = 0.0 if pred_noise else 1e-6
    law = multivariate_normal(mean, cov + jitter * np.eye(7))
    assert own == pytest.approx(law.logpdf(f), rel=2e-3)


def test_a_part_of_a_sum():
    def parts(kind, **settings):
        with pm.Model():
            wide = kind(cov_func=pm.gp.cov.ExpQuad(2, ls=2.0), **settings)
            rough = kind(mean_func=Slope(0.4), cov_func=0.5 * pm.gp.cov.Matern12(2, ls=0.5), **settings)
            total = wide + rough
            total.marginal_likelihood("y", X=X, y=Y, sigma=0.3)
            given = {"X": X, "y": Y, "sigma": 0.3, "gp": total}
            return [p.predict(NEW, point={}, given=given, diag=True) for p in (wide, rough)]

    for ours, exact in zip(parts(zoo.gp.Vecchia, **every_row()), parts(pm.gp.Marginal), strict=True):
        np.testing.assert_allclose(ours[0], exact[0], atol=1e-4)
        np.testing.assert_allclose(ours[1], exact[1], atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_noise_of_each_row_and_neighbours_in_other_units(way):
    sigma = np.random.default_rng(2).uniform(0.1, 1.0, len(X))
    model, _ = observed(
        zoo.gp.Vecchia,
        way=way,
        sigma=sigma,
        n_neighbours=len(X) - 1,
        neighbour_scales=[0.1, 10.0],
        ordering="random",
    )
    law = multivariate_normal(POINT["slope"] * X[:, 0], covariance(X, way=way) + np.diag(sigma**2))
    assert model.compile_logp(model.observed_RVs)(values_of(model)) == pytest.approx(law.logpdf(Y), rel=1e-10)


@pytest.mark.statistical
def test_draws_by_numba_have_the_law_of_the_density():
    """Mean and covariance of 20,000 draws of the responses; 5 sd of Monte-Carlo error, so one false alarm in 1e3."""
    few = slice(0, 6)
    model, _ = observed(zoo.gp.Vecchia, rows=X[few], y=Y[few], n_neighbours=2)
    given = compiled(model, list(law_of(model["y"])))
    base, weights, variance = given(values_of(model))
    sets = np.array(neighbours_of(X[few] / X[few].std(axis=0), 2, "maxmin", np.random.default_rng(0)).before)
    dense = np.zeros((6, 6))
    for i in range(6):
        for j in range(2):
            if sets[i, j] >= 0:
                dense[i, sets[i, j]] = weights[i, j]
    root = np.linalg.inv(np.eye(6) - dense)
    cov, mean = root @ np.diag(variance) @ root.T, root @ base
    y = pm.draw(pm.do(model, POINT)["y"], 20_000, random_seed=1)
    z = (y.mean(axis=0) - mean) / np.sqrt(np.diag(cov) / 20_000)
    assert np.abs(z).max() < 5.0
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / 20_000)
    assert (np.abs(np.cov(y.T) - cov) < 5.0 * error).all()
    np.testing.assert_allclose(mean, POINT["slope"] * X[few, 0], rtol=1e-8)


def test_functions_for_any_likelihood():
    with pm.Model() as centred:
        gp = process(zoo.gp.Vecchia, **every_row())
        f = gp.prior("f", X, reparameterize=False)
        pm.Poisson("y", pt.exp(f), observed=np.arange(len(X)) % 3)
        gp.conditional("g", NEW)
    K = covariance(X) + 1e-6 * np.eye(len(X))
    law = multivariate_normal(POINT["slope"] * X[:, 0], K)
    values = np.linalg.cholesky(K) @ np.random.default_rng(1).normal(size=len(X))
    g = np.zeros(7)
    at = {**values_of(centred, {**POINT, "f": values, "g": g}), "f": values, "g": g}
    assert centred.compile_logp(centred["f"])(at) == pytest.approx(law.logpdf(values), rel=1e-6)
    half = np.linalg.solve(K, covariance(X, NEW))
    mean = POINT["slope"] * NEW[:, 0] + half.T @ (values - law.mean)
    new = multivariate_normal(mean, covariance(NEW) - half.T @ covariance(X, NEW) + 1e-6 * np.eye(7))
    at = {**at, "g": mean}
    assert centred.compile_logp(centred["g"])(at) == pytest.approx(new.logpdf(mean), rel=1e-3)


def test_functions_made_of_normal_numbers_have_the_same_law():
    with pm.Model() as model:
        gp = process(zoo.gp.Vecchia, **every_row())
        f = gp.prior("f", X)
    at = values_of(model, {**POINT, "f_rotated_": np.zeros(len(X))})
    made = compiled(model, f)
    mean = made(at)
    np.testing.assert_allclose(mean, POINT["slope"] * X[:, 0], rtol=1e-7)
    root = np.stack([made({**at, "f_rotated_": row}) - mean for row in np.eye(len(X))], axis=1)
    np.testing.assert_allclose(root @ root.T, covariance(X) + 1e-6 * np.eye(len(X)), atol=1e-7)
    gradient = model.compile_dlogp()(at)
    assert gradient.shape == (4 + len(X),) or np.isfinite(gradient).all()


@pytest.mark.statistical
@pytest.mark.scheduled
def test_a_posterior_by_numba_and_its_predictions():
    coords = {"place": [f"p{i}" for i in range(len(X))], "new": list("abcdefg")}
    with pm.Model(coords=coords) as model:
        rows = pm.Data("rows", X, dims=("place", "column"))
        gp = process(zoo.gp.Vecchia, n_neighbours=5)
        gp.marginal_likelihood(
            "y", rows, pm.Data("responses", Y, dims="place"), pm.HalfNormal("sigma"), dims="place"
        )
        idata = pm.sample(
            draws=50, tune=50, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
        gp.conditional("f", pd.DataFrame(NEW), dims="new")
        again = pm.sample_posterior_predictive(idata, var_names=["f", "y"], random_seed=1, progressbar=False)
    assert again["posterior_predictive"]["f"].dims == ("chain", "draw", "new")
    assert again["posterior_predictive"]["y"].dims == ("chain", "draw", "place")
    assert np.isfinite(again["posterior_predictive"]["f"]).all()
    with model:
        pm.set_data({"rows": X + 1.0})
        with pytest.raises(ValueError, match="X has changed since its neighbours were found"):
            model.compile_logp()(model.initial_point())


@pytest.mark.parametrize("way", [True, False])
def test_rows_that_have_changed_are_refused_without_a_mean(way):
    """No mean reads the rows here, so a stale set of neighbours would give numbers without a word."""
    with pm.Model() as model:
        rows = pm.Data("rows", X)
        gp = zoo.gp.Vecchia(3, cov_func=pm.gp.cov.Matern32(2, ls=0.7), compiled=way)
        gp.marginal_likelihood("y", rows, Y, sigma=0.3)
        gp.conditional("f", NEW)
        latent = zoo.gp.Vecchia(3, cov_func=pm.gp.cov.Matern32(2, ls=0.7), compiled=way)
        latent.prior("g", rows)
        density = model.compile_logp()
        point = model.initial_point()
        assert np.isfinite(density(point))
        pm.set_data({"rows": X + 1.0})
        words = "X has changed since its neighbours were found"
        with pytest.raises(ValueError, match=words):
            density(point)
        with pytest.raises(ValueError, match=words):
            pm.draw(model["g"], random_seed=1)
        with pytest.raises(ValueError, match=words):
            gp.predict(NEW)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ordering", ["maxmin", "random"])
def test_hostile_rows(ordering, way):
    for rows in (
        np.ones((24, 2)),
        np.column_stack([X[:, 0], np.ones(24)]),
        np.vstack([X[:23], [[1e9, 1e9]]]),
    ):
        model, gp = observed(zoo.gp.Vecchia, rows=rows, way=way, n_neighbours=6, ordering=ordering)
        assert np.isfinite(model.compile_logp()(values_of(model)))
        with model:
            mean, variance = gp.predict(NEW, point=POINT)
        assert np.isfinite(mean).all() and (variance > 0.0).all()


def _broken(**fields):
    settings = {"cov_func": pm.gp.cov.ExpQuad(2, ls=1.0), **fields}
    call = {"X": X, "y": Y, "sigma": 0.3} | {k: settings.pop(k) for k in ("X", "y", "sigma") if k in settings}
    with pm.Model():
        gp = zoo.gp.Vecchia(**settings)
        gp.marginal_likelihood("y", **call)
    return gp


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n_neighbours": 0}, "n_neighbours"),
        ({"ordering": "middle"}, "ordering is 'middle'.*maxmin"),
        ({"neighbour_scales": [1.0]}, "neighbour_scales.*each of the 2 columns"),
        ({"neighbour_scales": [1.0, 0.0]}, "positive number"),
        ({"X": X[:, 0]}, r"X has 1 dimension\. Give a table.*X\[:, None\]"),
        ({"X": X[:, :1]}, "X has 1 columns, but cov_func was made for input_dim=2"),
        (
            {"X": np.where(np.arange(48).reshape(24, 2) == 7, np.nan, X)},
            "not a finite number in row 3, column 1",
        ),
        ({"X": [["a", "b"]]}, "X does not consist of numbers"),
        ({"y": Y[:-1]}, r"y has the shape \(23,\), but X has 24 rows"),
        ({"y": Y[:, None]}, r"Give one dimension: y\[:, 0\]"),
        ({"y": np.where(np.arange(24) == 5, np.nan, Y)}, "y is not a finite number in row 5"),
        ({"sigma": np.ones(3)}, r"sigma has the shape \(3,\), but X has 24 rows"),
        ({"sigma": pm.gp.cov.WhiteNoise(0.3)}, "sigma is a covariance"),
    ],
)
def test_bad_input_is_named(fields, words):
    with pytest.raises(ValueError, match=words):
        _broken(**fields)


def test_what_cannot_be_done_is_refused():
    gp = _broken()
    with pm.Model():
        with pytest.raises(ValueError, match=r"diag is False.*conditional"):
            gp.predict(NEW, diag=False)
        with pytest.raises(ValueError, match="given holds 'Xu'"):
            gp.predict(NEW, given={"Xu": X})
        with pytest.raises(ValueError, match="Xnew has 3 columns"):
            gp.predict(np.ones((4, 3)))
        with pytest.raises(ValueError, match="nothing has been observed"):
            zoo.gp.Vecchia(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0)).conditional("f", NEW)
        marginal = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0))
        marginal.marginal_likelihood("exact", X=X, y=Y, sigma=0.3)
        with pytest.raises(ValueError, match="sigma is a covariance"):
            gp.predict(NEW, given={"gp": marginal})
        with pytest.raises(ValueError, match="sigma has one value for each row"):
            _broken(sigma=np.ones(24)).predict(NEW, pred_noise=True)
        latent = zoo.gp.Vecchia(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0))
        latent.prior("f", X)
        with pytest.raises(ValueError, match="prior\\(\\) has no noise"):
            latent.conditional("g", NEW, pred_noise=True)
    with pytest.raises(TypeError, match=r"cov_func is .*Give a covariance function of pm.gp.cov"):
        zoo.gp.Vecchia(cov_func=lambda x: x)
    with pytest.raises(TypeError, match="cannot be added to a Marginal"):
        gp + pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0))
    with pytest.raises(ValueError, match="n_neighbours is 20 in one process and 3"):
        gp + zoo.gp.Vecchia(3, cov_func=pm.gp.cov.ExpQuad(2, ls=1.0))
    with pytest.raises(ValueError, match="neighbour_scales of the two"):
        gp + zoo.gp.Vecchia(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0), neighbour_scales=[1.0, 2.0])


def test_a_covariance_that_cannot_be_repeated_is_refused():
    class Stuck(pm.gp.cov.Covariance):
        def full(self, X, Xs=None):
            raise NotImplementedError("this one takes no symbolic rows")

        diag = full

    with pytest.raises(NotImplementedError, match=r"cov_func is a Stuck.*this one takes no"):
        _broken(cov_func=Stuck(2))

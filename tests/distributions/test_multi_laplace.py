"""Multi-Laplace law, its scale mixture and its proximal step, against quadrature, scipy and optimisers."""

from __future__ import annotations

from functools import cache

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.distribution import support_point
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.transforms import log as univariate_log
from pymc.logprob.utils import ParameterValueError
from scipy import integrate, optimize, stats
from scipy.special import gammaln

from zoo.distributions.multi_laplace import LogVector, MultiLaplace, multi_laplace_mixture, prox_group_norm

FALSE_ALARM = 1e-5


@cache
def log_density(T, positive):
    """Compiled log density and gradient in the rows of a matrix, for one C."""
    value, C = pt.dmatrix(), pt.dscalar()
    logp = pm.logp(MultiLaplace.dist(C, T, positive=positive), value)
    return pytensor.function([value, C], [logp, pt.grad(pt.sum(logp), value)])


def reference(kappa, C, positive):
    """The radius is Gamma(T, rate C) and the direction uniform on the sphere, or on its part in the orthant."""
    T, radius = kappa.shape[-1], np.linalg.norm(kappa, axis=-1)
    sphere = np.log(2) + T / 2 * np.log(np.pi) - gammaln(T / 2) - positive * T * np.log(2)
    return stats.gamma(T, scale=1 / C).logpdf(radius) - (T - 1) * np.log(radius) - sphere


def directions(T, positive):
    """Quadrature nodes and weights on the sphere, or on its part in the orthant."""
    x, w = np.polynomial.legendre.leggauss(16)
    x, w = (x + 1) / 2, w / 2
    if T == 1:
        return (np.array([[1.0]]), np.ones(1)) if positive else (np.array([[1.0], [-1.0]]), np.ones(2))
    turn = np.pi / 2 if positive else 2 * np.pi
    phi, v = turn * x, turn * w
    if T == 2:
        return np.stack([np.cos(phi), np.sin(phi)], axis=1), v
    theta, h = (np.pi / 2 if positive else np.pi) * np.stack([x, w])
    level = np.sin(theta)
    nodes = [np.outer(level, np.cos(phi)), np.outer(level, np.sin(phi)), np.outer(np.cos(theta), np.ones(16))]
    return np.stack([n.ravel() for n in nodes], axis=1), np.outer(h * level, v).ravel()


def radial_grid(T, positive):
    """Points of the whole space and the weights of an integral of ``exp(-radius) * polynomial``."""
    r, w = np.polynomial.laguerre.laggauss(12)
    nodes, v = directions(T, positive)
    points = (r[:, None, None] * nodes).reshape(-1, T)
    return points, np.outer(w * np.exp(r) * r ** (T - 1), v).ravel()


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("T", [1, 2, 3])
@pytest.mark.parametrize("C", [0.3, 2.5])
def test_density_integrates_to_one(T, positive, C):
    points, weights = radial_grid(T, positive)
    mass = weights @ np.exp(log_density(T, positive)(points / C, C)[0]) / C**T
    np.testing.assert_allclose(mass, 1.0, rtol=1e-12)


def test_table_of_moments_by_quadrature():
    points, weights = radial_grid(3, True)
    weights = weights * np.exp(log_density(3, True)(points, 1.0)[0])
    mean = support_point(MultiLaplace.dist(1.0, 3)).eval()
    np.testing.assert_allclose(weights @ points, mean, rtol=1e-9)
    np.testing.assert_allclose(weights @ points**2, np.full(3, 4.0), rtol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("T", [1, 2, 3])
def test_log_density_and_gradient(T, positive):
    kappa = np.random.default_rng(T).normal(size=(20, T)) * np.logspace(-3, 2, 20)[:, None]
    kappa = np.abs(kappa) if positive else kappa
    logp, gradient = log_density(T, positive)(kappa, 1.7)
    np.testing.assert_allclose(logp, reference(kappa, 1.7, positive), rtol=1e-12)
    np.testing.assert_allclose(
        gradient, -1.7 * kappa / np.linalg.norm(kappa, axis=1, keepdims=True), rtol=1e-12
    )


def test_one_task_is_laplace_or_exponential():
    x = np.linspace(-3, 3, 13)[:, None]
    laplace = stats.laplace(scale=1 / 1.7).logpdf(x[:, 0])
    np.testing.assert_allclose(log_density(1, False)(x, 1.7)[0], laplace, rtol=1e-12)
    exponential = stats.expon(scale=1 / 1.7).logpdf(x[:, 0])
    np.testing.assert_allclose(log_density(1, True)(x, 1.7)[0], exponential, rtol=1e-12)


def test_edges_of_the_support():
    at_zero, gradient = log_density(2, False)(np.zeros((1, 2)), 1.0)
    np.testing.assert_allclose(at_zero, np.log(1 / (2 * np.pi)))
    assert np.array_equal(gradient, np.zeros((1, 2)))  # a subgradient, not NaN
    outside = np.array([[1.0, -1e-300], [-1.0, -1.0], [np.inf, 1.0], [np.nan, 1.0]])
    assert np.array_equal(log_density(2, True)(outside, 1.0)[0], np.full(4, -np.inf))
    assert np.isfinite(log_density(2, True)(np.array([[0.0, 1.0]]), 1.0)[0])


def test_batches_sizes_and_precision():
    C, kappa = np.array([0.5, 3.0], dtype=np.float32), np.abs(np.random.default_rng(1).normal(size=(4, 2, 5)))
    rv = MultiLaplace.dist(C, 5, size=(4, 2))
    assert rv.type.dtype == "float64" and rv.type.shape == (4, 2, 5)
    np.testing.assert_allclose(pm.logp(rv, kappa).eval(), reference(kappa, C.astype(float), True), rtol=1e-12)
    np.testing.assert_allclose(
        pm.logp(MultiLaplace.dist(C, 5), kappa[0]).eval(), reference(kappa[0], C, True)
    )
    single = kappa[0].astype(np.float32)
    exact = reference(single.astype(float), C.astype(float), True)
    np.testing.assert_allclose(pm.logp(MultiLaplace.dist(C, 5), single).eval(), exact, rtol=1e-12)
    assert MultiLaplace.dist(C, shape=(2, 5)).type.shape == (2, 5)
    assert MultiLaplace.dist(1.0, shape=5).type.shape == (5,)
    assert support_point(rv).eval().shape == (4, 2, 5)
    assert np.array_equal(support_point(MultiLaplace.dist(C, 5, positive=False)).eval(), np.zeros((2, 5)))


def test_flag_and_length_survive_a_rebuild():
    plus, both = MultiLaplace.dist(1.0, 3), MultiLaplace.dist(1.0, 3, positive=False)
    assert plus.owner.op == MultiLaplace.dist(2.0, 3).owner.op
    assert len({plus.owner.op, both.owner.op, MultiLaplace.dist(1.0, 2).owner.op}) == 3
    assert MultiLaplace.dist(1.0, 1).owner.op != MultiLaplace.dist(1.0, 1, positive=False).owner.op
    for rv in (plus, both):
        for other in (
            change_dist_size(rv, (7,)),
            change_dist_size(MultiLaplace.dist(1.0, 3, rv.owner.op.positive, size=2), 7, expand=True),
            rv.owner.op(rv.owner.inputs[0], np.array([7]), 1.0),
            cloudpickle.loads(cloudpickle.dumps(rv)),
        ):
            assert isinstance(other.owner.op, type(rv.owner.op)) and other.type.shape[-1] == 3
            assert other.owner.op.positive == rv.owner.op.positive


def test_flags_with_one_generator_do_not_merge():
    rng = pytensor.shared(np.random.default_rng(1))
    plus, both = (MultiLaplace.dist(1.0, 3, positive=flag, rng=rng, size=40) for flag in (True, False))
    draws = pytensor.function([], [plus, both])()
    np.testing.assert_allclose(draws[0], np.abs(draws[1]))
    assert (draws[1] < 0).any()


@pytest.mark.compiled
@pytest.mark.parametrize("positive", [True, False])
def test_draws(positive):
    # Null: means, second moments and cross moments of the law, by z-scores with the draws' own error; the radius and
    # (T = 3) the absolute heights of the direction, by Kolmogorov-Smirnov. 40,000 draws for each of two C; false
    # alarm 1e-5 over all comparisons of the two flags (Bonferroni).
    C = np.array([0.5, 3.0])
    draws = pm.draw(MultiLaplace.dist(C, 3, positive=positive), 40_000, random_seed=2)
    level = FALSE_ALARM / (2 * 2 * (9 + 4))
    i, j = np.tril_indices(3)
    for kappa, c in zip(np.swapaxes(draws, 0, 1), C, strict=True):
        mean = 3 * np.exp(gammaln(1.5)) / np.sqrt(np.pi) / c * positive
        cross = np.where(i == j, 4 / c**2, 2 * 4 / (np.pi * c**2) * positive)
        sample = np.hstack([kappa - mean, kappa[:, i] * kappa[:, j] - cross])
        z = sample.mean(axis=0) / sample.std(axis=0) * np.sqrt(len(sample))
        assert np.abs(z).max() < stats.norm.isf(level / 2)
        radius = np.linalg.norm(kappa, axis=1)
        assert stats.kstest(radius, stats.gamma(3, scale=1 / c).cdf).pvalue > level
        for height in np.abs(kappa / radius[:, None]).T:
            assert stats.kstest(height, stats.uniform.cdf).pvalue > level
        assert (kappa > 0).all() == positive


@pytest.mark.compiled
@pytest.mark.parametrize("positive", [True, False])
def test_mixture_draws(positive):
    # Null: radius Gamma(2, rate C), angle uniform, independent. 20,000 draws; Kolmogorov-Smirnov for both, and for
    # the angle where the radius is above its median; false alarm 1e-5 over the three tests and two flags.
    with pm.Model():
        kappa = multi_laplace_mixture("kappa", 1.5, shape=2, positive=positive)
    draws = pm.draw(kappa, 20_000, random_seed=3)
    radius, angle = np.hypot(*draws.T), np.arctan2(*draws.T)
    law = stats.uniform(0, np.pi / 2) if positive else stats.uniform(-np.pi, 2 * np.pi)
    pvalues = [
        stats.kstest(radius, stats.gamma(2, scale=1 / 1.5).cdf).pvalue,
        stats.kstest(angle, law.cdf).pvalue,
        stats.kstest(angle[radius > np.median(radius)], law.cdf).pvalue,
    ]
    assert min(pvalues) > FALSE_ALARM / 6


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("T", [1, 2, 3])
def test_mixture_by_integration_over_the_scale(T, positive):
    C = 1.5
    for kappa in np.array([[0.05, 0.1, 0.02], [0.6, 0.3, 1.2], [2.0, 3.0, 0.1]])[:, :T]:

        def joint(s, kappa=kappa):
            given = stats.norm(0, np.sqrt(s)).pdf(kappa).prod() * 2 ** (T * positive)
            return given * stats.gamma((T + 1) / 2, scale=2 / C**2).pdf(s)

        integral = integrate.quad(joint, 0, np.inf, epsabs=0, epsrel=1e-10, limit=500)[0]
        density = np.exp(log_density(T, positive)(kappa[None], C)[0])
        np.testing.assert_allclose(integral, density[0], rtol=1e-7)


def test_log_transform_by_numerical_differentiation():
    with pm.Model() as model:
        MultiLaplace("kappa", np.array([0.8, 2.0]), 3)
    value = model.rvs_to_values[model["kappa"]]
    assert value.name == "kappa_log__"
    logp = model.compile_fn(
        [model.logp(sum=False)[0], *model.logp(jacobian=False, sum=False)], inputs=[value]
    )
    backward = pytensor.function([value], LogVector().backward(value))
    point, step = np.random.default_rng(1).normal(size=(2, 3)), 1e-6
    jacobian = np.empty((6, 6))
    for k in range(6):
        shift = step * (np.arange(6) == k).reshape(2, 3)
        jacobian[:, k] = (backward(point + shift) - backward(point - shift)).ravel() / (2 * step)
    blocks = [np.linalg.slogdet(jacobian[r : r + 3, r : r + 3])[1] for r in (0, 3)]
    assert np.array_equal(jacobian[:3, 3:], np.zeros((3, 3)))
    plain = reference(backward(point), np.array([0.8, 2.0]), True)
    with_jacobian, without = logp({"kappa_log__": point})
    np.testing.assert_allclose(without, plain, rtol=1e-12)
    np.testing.assert_allclose(with_jacobian, plain + blocks, rtol=1e-8)


def test_transforms():
    with pm.Model() as model:
        signed = MultiLaplace("signed", 1.0, 3, positive=False)
        MultiLaplace("univariate", 1.0, 3, default_transform=univariate_log)
    assert model.rvs_to_transforms[signed] is None
    with pytest.raises(NotImplementedError, match="Univariate transform"):  # the reason for LogVector
        model.logp()


@pytest.mark.statistical
@pytest.mark.compiled
def test_sampling_with_dims():
    with pm.Model(coords={"feature": range(3), "task": ["a", "b"]}) as model:
        C = pm.Gamma("C", 2.0, 1.0)
        MultiLaplace("plain", C, dims=("feature", "task"))
        kappa = multi_laplace_mixture("kappa", C, dims=("feature", "task"))
        pm.Normal("y", kappa, 0.5, observed=np.ones((3, 2)), dims=("feature", "task"))
        result = pm.sample(
            20,
            tune=20,
            chains=1,
            cores=1,
            nuts_sampler="nutpie",
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert {v.name for v in model.free_RVs} == {"C", "plain", "_kappa_scale", "_kappa_normal"}
    posterior = result["posterior"]
    for name in ("plain", "kappa"):
        assert posterior[name].dims == ("chain", "draw", "feature", "task")
        assert (posterior[name].to_numpy() > 0).all()


def test_mixture_with_one_rate_a_group_and_a_wrong_random_rate():
    C = np.array([0.1, 1000.0], dtype=np.float32)
    with pm.Model(coords={"feature": range(2), "task": ["a", "b"]}):
        assert multi_laplace_mixture("all", 1.0, dims="task").type.ndim == 1
        each = multi_laplace_mixture("each", C, dims=("feature", "task"), positive=False)
        wrong = multi_laplace_mixture("wrong", -pm.HalfNormal("C"), dims=("feature", "task"))
    draws, bad = pm.draw([each, wrong], 50, random_seed=1)
    assert draws.dtype == np.float64
    assert np.abs(draws[:, 0]).min() > np.abs(draws[:, 1]).max() * 0.01
    assert np.isnan(bad).all()


def in_model(build):
    with pm.Model(coords={"feature": range(4), "task": ["a", "b"]}):
        return build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MultiLaplace.dist(1.0, 0), r"T is 0\. Give a whole number of 1 or more"),
        (lambda: MultiLaplace.dist(1.0, 2.0), r"T is 2\.0"),
        (lambda: MultiLaplace.dist(1.0, True), "T is True"),
        (lambda: MultiLaplace.dist(1.0), "T is not known"),
        (lambda: MultiLaplace.dist(1.0, shape=(pt.iscalar(),)), "T is not known"),
        (lambda: MultiLaplace.dist(1.0, 3, positive="yes"), r"positive is 'yes'\. Give True or False"),
        (lambda: MultiLaplace.dist(1.0, 3, shape=(4, 2)), r"\(4, 2\).*\(3\)"),
        (lambda: MultiLaplace.dist(np.ones(3), 2, shape=(4, 2)), r"\(4, 2\).*\(3, 2\)"),
        (lambda: MultiLaplace.dist(np.ones(3), 2, size=4), r"\(4, 2\).*\(3, 2\)"),
        (lambda: MultiLaplace.dist(np.ones((5, 3)), 2, shape=(3, 2)), r"\(3, 2\).*\(5, 3, 2\)"),
        (lambda: pm.logp(MultiLaplace.dist(1.0, 3), np.ones(2)), r"\(2\).*\(3\)"),
        (lambda: pm.logp(MultiLaplace.dist(1.0, 3), 1.0), r"\(\).*\(3\)"),
        (lambda: MultiLaplace("k", 1.0, 3, observed=np.ones((4, 2))), r"\(4, 2\).*\(3\)"),
        (lambda: MultiLaplace("k", 1.0, 3, dims=("feature", "task")), r"\(4, 2\).*\(3\)"),
        (lambda: multi_laplace_mixture("k", 1.0), "exactly one of dims, shape"),
        (lambda: multi_laplace_mixture("k", 1.0, dims="task", shape=2), "exactly one of dims, shape"),
        (lambda: multi_laplace_mixture("k", 1.0, shape=(2, 0)), "T is 0"),
        (lambda: multi_laplace_mixture("k", 1.0, shape=2, positive=None), "positive is None"),
        (lambda: multi_laplace_mixture("k", np.ones(3), dims=("feature", "task")), r"\(4, 2\).*\(3, 2\)"),
        (lambda: prox_group_norm(1.0, 1.0), "v is a scalar"),
        (lambda: prox_group_norm([1.0, np.nan], 1.0), "v .* holds NaN"),
        (lambda: prox_group_norm([1.0], -1.0), r"threshold is -1\.0\. Give 0 or more"),
        (lambda: prox_group_norm([1.0], np.nan), "threshold is nan"),
        (lambda: prox_group_norm(np.ones((2, 3)), np.ones(3)), r"\(3,\).*\(2, 3\)"),
        (lambda: prox_group_norm([1.0], 1.0, positive=2), "positive is 2"),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(ValueError, match=message):
        in_model(build)


def test_bad_rate():
    with pytest.raises(TypeError, match="C is 'a'"):
        MultiLaplace.dist("a", 3)
    C = pt.dscalar()
    rv = MultiLaplace.dist(C, 2)
    draw, logp = pytensor.function([C], rv), pytensor.function([C], pm.logp(rv, np.ones(2)))
    with pm.Model():
        mixture = pytensor.function([C], multi_laplace_mixture("kappa", C, shape=2))
    for function in (draw, logp, mixture):
        assert np.isfinite(function(1.0)).all()
        for wrong in (-1.0, 0.0, np.inf, np.nan):
            with pytest.raises(ParameterValueError, match="C > 0, finite"):
                function(wrong)


def objective(x, v, t):
    return 0.5 * np.sum((x - v) ** 2) + t * np.linalg.norm(x)


@pytest.mark.parametrize("positive", [True, False])
def test_prox_is_the_minimiser(positive):
    rng = np.random.default_rng(4)
    for t in (0.3, 1.0, 3.0):
        for v in rng.normal(size=(10, 3)) * 2:
            x = prox_group_norm(v, t, positive)
            bounds = [(0 if positive else None, None)] * 3
            # Started off the kink, where the optimiser's derivatives exist.
            found = optimize.minimize(
                objective, np.abs(v) + 0.1, (v, t), bounds=bounds, method="L-BFGS-B", tol=1e-14
            )
            assert objective(x, v, t) <= found.fun + 1e-12
            np.testing.assert_allclose(x, found.x, atol=2e-3 if not x.any() else 1e-5)


@pytest.mark.parametrize("positive", [True, False])
def test_prox_conditions(positive):
    rng = np.random.default_rng(5)
    v, t = rng.normal(size=(500, 4)), rng.gamma(2.0, size=500)
    x = prox_group_norm(v, t, positive)
    zero = ~x.any(axis=1)
    assert 50 < zero.sum() < 450
    pull = np.maximum(v, 0) if positive else v
    assert np.array_equal(zero, np.linalg.norm(pull, axis=1) <= t)
    x, v, t = x[~zero], v[~zero], t[~zero, None]
    gradient = x - v + t * x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(gradient[x != 0], 0.0, atol=1e-12)
    assert (gradient[x == 0] >= 0).all() and (not positive or (x >= 0).all())


@pytest.mark.parametrize("positive", [True, False])
def test_prox_is_non_expansive(positive):
    a, b = np.random.default_rng(6).normal(size=(2, 2000, 3))
    moved = prox_group_norm(a, 0.7, positive) - prox_group_norm(b, 0.7, positive)
    assert (np.linalg.norm(moved, axis=1) <= np.linalg.norm(a - b, axis=1) * (1 + 1e-12)).all()


def test_prox_shapes_and_extremes():
    v = np.array([[3.0, 4.0], [-1.0, 0.1]], dtype=np.float32)
    expected = np.array([[2.4, 3.2], [0.0, 0.0]])
    np.testing.assert_allclose(prox_group_norm(v, 1.0), expected)
    assert prox_group_norm(v, 1.0).dtype == np.float64
    np.testing.assert_allclose(prox_group_norm(np.stack([v] * 3), np.ones((3, 2))), np.stack([expected] * 3))
    assert np.array_equal(prox_group_norm(v, 0.0, positive=False), v)
    assert not prox_group_norm(v, np.inf).any()
    assert not prox_group_norm(np.zeros((2, 3)), 0.0).any()
    for scale in (1e-200, 1e200):
        np.testing.assert_allclose(prox_group_norm(v.astype(float) * scale, scale), expected * scale)

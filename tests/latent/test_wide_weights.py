"""More features than rows: the cheaper side is taken, and it is the same law."""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from zoo.inference.gibbs.matrix_normal import MatrixNormalKernel
from zoo.inference.gibbs.matrix_normal_span import SpanKernel
from zoo.inference.row_span import row_span
from zoo.latent.task_weights import Loadings, WeightConditional, weight_sums
from zoo.latent.wide_weights import DualConditional, DualRows, SpanConditional
from zoo.likelihoods import Gaussian
from zoo.models.kernel_machine.sides import DualSpace, SpanSpace, space_of
from zoo.models.kernel_machine.spaces import WeightSpace

Machine = zoo.MultiTaskKernelMachine
D, T = 9, 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def _rows(shared: bool, rng: np.random.Generator) -> zoo.MultiTaskData:
    """Fewer inputs than features: six rows of three tasks, or four inputs that three tasks share."""
    X = rng.standard_normal((4 if shared else 6, D))
    if shared:
        return zoo.MultiTaskData.from_multilabel(X, X[:, :1] + rng.standard_normal((4, T)))
    return zoo.MultiTaskData.from_arrays(X=X, y=X[:, 0] + rng.standard_normal(6), task=[0, 0, 1, 1, 1, 2])


def _laws(rng: np.random.Generator, with_root: bool) -> tuple:
    """One law on its three sides."""
    n = 6
    X, task = rng.standard_normal((n, D)), np.array([0, 0, 1, 1, 1, 2])
    omega, nu = rng.gamma(2.0, size=n), rng.standard_normal(n)
    R = rng.standard_normal((D, D)) if with_root else None
    loadings = Loadings(rng.gamma(2.0, size=T), rng.standard_normal((T, 2)), R)
    primal = WeightConditional.of(weight_sums(X, np.arange(n), task, T, omega, nu), loadings)
    dual = DualConditional.of(DualRows.of(X, task, T), loadings, omega, nu)
    span = row_span(X, R)
    inside = weight_sums(span.inputs, np.arange(n), task, T, omega, nu)
    return primal, dual, SpanConditional.of(span, inside, loadings), X, task


@pytest.mark.parametrize("with_root", [False, True])
def test_the_sides_have_one_law(with_root, rng):
    """Evidence, mean, variance at new rows, norm and degrees of freedom are equal."""
    primal, dual, span, _, _ = _laws(rng, with_root)
    new, task = rng.standard_normal((5, D)), np.array([0, 1, 2, 2, 0])
    mean = np.einsum("nd,dn->n", new, primal.mean[:, task])
    variance = np.array([x @ primal.covariance[t] @ x for x, t in zip(new, task, strict=True)])
    for side in (dual, span):
        assert side.log_evidence == pytest.approx(primal.log_evidence, abs=1e-8)
        assert side.half_log_det == pytest.approx(primal.half_log_det, abs=1e-8)
        assert side.norm() == pytest.approx(primal.norm(), rel=1e-8)
        assert side.dof() == pytest.approx(primal.dof(), rel=1e-8)
        np.testing.assert_allclose(side.mean, primal.mean, atol=1e-8)
        found = side.predict(new, task)
        np.testing.assert_allclose(found[0], mean, atol=1e-8)
        np.testing.assert_allclose(found[1], variance, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("with_root", [False, True])
def test_their_derivatives_are_equal(with_root, rng):
    primal, dual, span, _, _ = _laws(rng, with_root)
    wanted = primal.gradient(of_root=True)
    found = dual.gradient(of_root=True)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
    found = span.gradient(of_root=False)
    np.testing.assert_allclose(found.d, wanted.d, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.W, wanted.W, rtol=1e-7, atol=1e-7)
    with pytest.raises(ValueError, match="R is learned"):
        span.gradient()


class _Basis:
    """A generator whose k-th standard normal is 1 and all others 0: a draw is affine in its noise, so that its mean and
    its linear map, and with these its exact law, can be read off one call per noise variable."""

    def __init__(self, k: int):
        self.k, self.seen = k, 0

    def standard_normal(self, size):
        values = np.zeros(int(np.prod(size)))
        if self.seen <= self.k < self.seen + len(values):
            values[self.k - self.seen] = 1.0
        self.seen += len(values)
        return values.reshape(size)


def _exact_moments(side) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all coefficients (T D,), of the draws themselves."""
    nothing = _Basis(-1)
    mean = side.draw(nothing)[0].T.ravel()
    columns = [side.draw(_Basis(k))[0].T.ravel() - mean for k in range(nothing.seen)]
    return mean, np.stack(columns, axis=1) @ np.stack(columns, axis=0)


@pytest.mark.parametrize("with_root", [False, True])
def test_draws_have_the_posterior_of_the_weights(with_root, rng):
    """Not by Monte Carlo: mean and covariance of the draws, of all tasks jointly, are those of the normal posterior."""
    primal, dual, span, X, task = _laws(rng, with_root)
    R = np.eye(D) if primal.R is None else primal.R
    prior = np.kron(np.diag(primal.d) + primal.W @ primal.W.T, R @ R.T)
    design = np.zeros((len(task), T * D))
    for i, t in enumerate(task):
        design[i, t * D : (t + 1) * D] = X[i]
    law = dual.law
    G = np.eye(len(task)) + law.s[:, None] * (design @ prior @ design.T) * law.s
    gain = prior @ design.T * law.s
    cov = prior - gain @ np.linalg.solve(G, gain.T)
    mean = cov @ design.T @ law.nu
    for side in (dual, span, primal):
        found = _exact_moments(side)
        np.testing.assert_allclose(found[0], mean, atol=1e-8 * np.abs(mean).max())
        np.testing.assert_allclose(found[1], cov, atol=1e-8 * np.abs(cov).max())


@pytest.mark.parametrize(
    ("fields", "shared", "kind"),
    [
        ({}, False, DualSpace),
        ({"Q": tuple(map(tuple, np.diag(np.arange(D) / D)))}, False, DualSpace),
        ({"Q": "learned"}, False, DualSpace),
        ({}, True, SpanSpace),
        ({"Q": "learned"}, True, WeightSpace),
    ],
)
def test_the_side_goes_by_shape(fields, shared, kind, rng):
    """Same evidence and derivative as on the side of the weights, whichever side is taken."""
    data = _rows(shared, rng)
    machine = Machine(**fields)
    prepared = machine.design(data)
    space = space_of(machine, prepared, data.y, aligned=True)
    assert type(space) is kind
    weights = WeightSpace(machine, prepared, data.y)
    z = space.coordinates.start + 0.3 * rng.standard_normal(space.coordinates.size)
    from zoo.models.kernel_machine.methods import log_evidence

    value, gradient = log_evidence(space, z)
    wanted, wanted_gradient = log_evidence(weights, z)
    assert value == pytest.approx(wanted, abs=1e-7)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-5, atol=1e-6)
    numbers = space.numbers(z)
    assert space.mean_variance(numbers) == pytest.approx(weights.mean_variance(numbers), rel=1e-8)


def test_narrow_data_stay_with_the_weights(rng):
    X = rng.standard_normal((12, D))
    data = zoo.MultiTaskData.from_arrays(X=X, y=X[:, 0], task=np.repeat(np.arange(3), 4))
    machine = Machine()
    assert type(space_of(machine, machine.design(data), data.y)) is WeightSpace


@pytest.mark.parametrize("shared", [False, True])
def test_a_wide_fit_predicts_as_the_weights_do(shared, rng, monkeypatch):
    """Rows with weights; moments at new rows, and rows added afterwards, by either side of the kernel."""
    data = _rows(shared, rng)
    if not shared:
        data = zoo.MultiTaskData.from_arrays(
            X=data.X, y=data.y, task=data.task, weight=rng.gamma(2.0, size=6)
        )
    new = {"X": rng.standard_normal((4, D)), "task": [data.task_names[i] for i in (0, 1, 2, 0)]}
    machine = Machine(lam=0.3, amplitude=1.2, likelihood=Gaussian(noise=0.5))
    wide = machine.fit(data, method="exact", draws=50, chains=1, random_seed=1, progress=False)
    assert wide.posterior["coefficients"].shape == (1, 50, D, T)
    monkeypatch.setattr("zoo.models.kernel_machine.sides._cheapest_side", lambda space: space)
    weights = machine.fit(data, method="exact", draws=50, chains=1, random_seed=1, progress=False)
    evidence = [float(f.idata["sample_stats"]["log_evidence"].mean()) for f in (wide, weights)]
    assert evidence[0] == pytest.approx(evidence[1], abs=1e-8)
    one, other = (f.predict(**new) for f in (wide, weights))
    for name in one.data_vars:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6, atol=1e-8)
    more = zoo.MultiTaskData.from_arrays(X=new["X"], y=np.ones(4), task=new["task"])
    monkeypatch.undo()
    grown = wide.add_rows(more, random_seed=2).predict(**new)
    monkeypatch.setattr("zoo.models.kernel_machine.sides._cheapest_side", lambda space: space)
    wanted = weights.add_rows(more, random_seed=2).predict(**new)
    for name in grown.data_vars:
        np.testing.assert_allclose(grown[name], wanted[name], rtol=1e-6, atol=1e-8)


def test_the_laplace_approximation_of_one_regression_is_that_of_all_features(rng, monkeypatch):
    """Same scale, and a Gaussian with the same mean and covariance: read off the draws as an affine map of noise."""
    from zoo.latent import weights_mode as laplace

    X, y = rng.standard_normal((6, D)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])

    def moments() -> tuple[float, np.ndarray, np.ndarray]:
        def draw(k: int) -> tuple[np.ndarray, float]:
            source = _Basis(k)
            w, tau = laplace.logistic_regression_draws(X, y, 1, 1.0, source, np.arange(1.0, 7.0))
            sizes.append(source.seen)
            return w[0], tau

        sizes: list[int] = []
        mean, tau = draw(-1)
        map_ = np.stack([draw(k)[0] - mean for k in range(sizes[0])], axis=1)
        return tau, mean, map_ @ map_.T

    span = moments()
    # A row of zeros beside the others makes as many rows as features, and says nothing of the coefficients.
    X, y = np.vstack([X, np.zeros((3, D))]), np.append(y, [1.0, 1.0, 1.0])
    original = laplace.logistic_regression_draws

    def padded(X, y, n, scale, source, weight):
        return original(X, y, n, scale, source, np.append(weight, [1.0, 1.0, 1.0]))

    monkeypatch.setattr(laplace, "logistic_regression_draws", padded)
    full = moments()
    for one, other in zip(span, full, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("feature_cov", ["identity", "matrix"])
def test_max_margin_in_the_span_has_the_posterior_of_all_features(feature_cov, rng):
    """Against the engine of all features: means, products over tasks and features, and the covariance of tasks.

    Null: both chains have one law. 61 z-scores by batch means, the largest of which passes 4.8 with probability 1e-4.
    """
    D, n = 5, 3
    root = rng.standard_normal((D, D))
    model = zoo.MaxMargin(
        feature_cov=feature_cov if feature_cov == "identity" else root @ root.T + np.eye(D),
        likelihood=zoo.EpsilonInsensitive(C=2.0),
    )
    data = zoo.MultiTaskData.from_arrays(X=rng.standard_normal((n, D)), y=[1.5, -1.0, 2.0], task=[0, 0, 1])
    span = model.gibbs_kernel(data, data.y)
    assert isinstance(span, SpanKernel)
    assert span.inputs.shape == (n, n)
    whole = MatrixNormalKernel(**model._kernel_fields(data, data.y), feature_prior=model._prior("feature", D))

    def features(kernel: MatrixNormalKernel, seed: int) -> np.ndarray:
        source = np.random.default_rng(seed)
        state = kernel.initialise(source)
        rows = []
        for i in range(9_000):
            kernel.sweep(source, state)
            if i % 3 == 0 and i > 500:
                draw = kernel.record(state)
                # Bounded functions of heavy-tailed draws, so that their means have a normal law.
                u, R = (
                    np.tanh(draw["coefficients"].ravel() / 2.0),
                    np.tanh(np.log(np.diag(draw["task_cov"])) / 4.0),
                )
                r = draw["task_cov"][0, 1] / np.sqrt(np.prod(np.diag(draw["task_cov"])))
                rows.append(np.concatenate([u, np.outer(u, u)[np.triu_indices(2 * D, 1)], [r], R, u[:3] * r]))
        return np.array(rows)

    moments = []
    for kernel, seed in ((span, 1), (whole, 2)):
        batches = np.stack([part.mean(axis=0) for part in np.array_split(features(kernel, seed), 50)])
        moments.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / 50))
    (a, va), (b, vb) = moments
    assert np.abs((a - b) / np.sqrt(va + vb)).max() < 4.8


def test_max_margin_in_the_span_takes_values_and_snapshots(rng):
    """What is put into a state is what it reports, and it goes on from a snapshot bit for bit."""
    root = rng.standard_normal((D, D))
    model = zoo.MaxMargin(feature_cov=root @ root.T + np.eye(D))
    data = _rows(False, rng)
    y = np.sign(data.y)
    kernel = model.gibbs_kernel(data, y)
    source = np.random.default_rng(1)
    state = kernel.initialise(source)
    values = {"coefficients": rng.standard_normal((D, T)), "task_cov": np.diag([1.0, 2.0, 3.0])}
    kernel.set_values(state, values)
    for name, value in kernel.record(state).items():
        np.testing.assert_allclose(value, values[name], atol=1e-10)
    np.testing.assert_allclose(
        state["f"], np.einsum("nd,dn->n", data.X, values["coefficients"][:, data.task])
    )
    kernel.sweep(source, state)
    saved, after = kernel.snapshot(state), kernel.record(state)
    kernel.sweep(source, state)
    kernel.restore(state, saved)
    for name, value in kernel.record(state).items():
        assert np.array_equal(value, after[name])


def _wide(D: int, factory: zoo.ModelFactory) -> zoo.MultiTaskData:
    X = np.random.default_rng(1).standard_normal((6, D))
    t = np.arange(6.0) if factory.needs_t else None
    return zoo.MultiTaskData.from_arrays(X=X, y=[1.0, -1.0] * 3, task=[0, 0, 1, 1, 2, 2], t=t)


@pytest.mark.parametrize(
    ("factory", "method", "instead"),
    [
        (zoo.NIWLinear(), "gibbs", r'feature_cov.*NIWGaussianProcess\(base_kernel="linear"\)'),
        (zoo.NIWLinear(), "em", r'feature_cov.*NIWGaussianProcess\(base_kernel="linear"\)'),
        (zoo.NIWLinear(), "nuts", r'feature_cov.*NIWGaussianProcess\(base_kernel="linear"\)'),
        (zoo.MaxMargin(), "gibbs", 'feature_cov="learned".*feature_cov="identity"'),
        (zoo.MaxMargin(), "nuts", 'feature_cov="learned".*feature_cov="identity"'),
        (Machine(Q="learned"), "exact", 'Q="learned".*Q="identity"'),
        (zoo.NonisotropicVaryingCoefficients(), "exact", 'amplitude="covariance".*amplitude="shared"'),
        (zoo.KernelLocalSmoothing(), "map", r"every place.*VaryingCoefficientGP\(\)"),
        (zoo.NonparametricMaxMargin(), "gibbs", r'MaxMargin\(feature_cov="identity"\)'),
    ],
)
def test_covariances_of_too_many_features_are_refused(factory, method, instead):
    """With what to use instead; so is the choice of a method, before data are folded a hundred times."""
    with pytest.raises(ValueError, match=f"501 features and 6 distinct inputs.*{instead}"):
        factory.fit(_wide(501, factory), method, draws=1, tune=0, chains=1, progress=False)
    assert factory.choose_method(method, _wide(500, factory)) == method


def test_the_mode_of_too_many_features_is_refused():
    model = zoo.MultiLaplaceGP()
    with pytest.raises(ValueError, match=r"1,001 features.*MultiTaskKernelMachine"):
        model.fit(_wide(1001, model), "map", progress=False)
    with pytest.raises(ValueError, match="1,001 features"):
        model.path(_wide(1001, model))


@pytest.mark.parametrize(
    ("factory", "method"),
    [
        (zoo.NIWGaussianProcess(base_kernel="linear"), "gibbs"),
        (zoo.NIWGaussianProcess(base_kernel="linear"), "em"),
        (zoo.MaxMargin(feature_cov="identity"), "gibbs"),
        (Machine(), "exact"),
        (Machine(), "gibbs"),
        (Machine(likelihood="hinge"), "gibbs"),
        (Machine(likelihood="hinge", lam=0.5, amplitude=1.0), "map"),
        (Machine(likelihood="logistic"), "laplace"),
        (Machine(likelihood="logistic", lam=0.5, amplitude=1.0), "map"),
        (zoo.PooledTasks(likelihood="logistic"), "laplace"),
        (zoo.IndependentTasks(), "exact"),
        (zoo.VaryingCoefficientGP(), "exact"),
    ],
)
def test_what_to_use_instead_takes_them(factory, method):
    data = _wide(2000, factory)
    options = {} if method in ("map", "em") else {"draws": 3, "chains": 1}
    tune = {"tune": 3} if method == "gibbs" else {}
    fit = factory.fit(data, method, random_seed=1, progress=False, **options, **tune)
    t = {"t": data.t} if factory.needs_t else {}
    assert np.isfinite(fit.predict(data.X, task=data.task, **t)["mean"]).all()

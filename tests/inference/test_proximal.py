"""The proximal Newton minimiser against brute force, independent optimisers and the conditions of a minimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from zoo.distributions.multi_laplace import prox_group_norm
from zoo.inference.ard.proximal import minimise
from zoo.inference.ard.proximal_columns import group_prox
from zoo.inference.ard.proximal_conditions import kkt_residual

D, T, RATE, FLOOR = 6, 8, 0.1, 1e-2


class Quadratic:
    """d' H d / 2 - b' d in each block."""

    def __init__(self, seed, B=4, p=5):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(B, p + 2, p))
        self.H, self.b = np.einsum("bki,bkj->bij", root, root), 5.0 * rng.normal(size=(B, p)) + 3.0

    def value(self, theta):
        return 0.5 * np.einsum("bi,bij,bj->b", theta, self.H, theta) - (self.b * theta).sum(axis=1)

    def gradient(self, theta):
        return self.value(theta), np.einsum("bij,bj->bi", self.H, theta) - self.b

    def curvature(self, theta):
        return self.H

    def refresh(self, theta):
        return False


class LinearARD:
    """Negative log marginal likelihoods of linear-ARD Gaussian processes, with an exponential noise prior."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.X = [rng.normal(size=(n, D)) for n in rng.integers(10, 20, T)]
        weights = rng.normal(size=(T, D)) * (np.arange(D) < 3)
        self.y = [x @ w + 0.5 * rng.normal(size=len(x)) for x, w in zip(self.X, weights, strict=True)]

    def _each(self, theta):
        for x, y, row in zip(self.X, self.y, theta, strict=True):
            A = x * row[:D] @ x.T + row[D] * np.eye(len(y))
            V = [np.outer(c, c) for c in x.T] + [np.eye(len(y))]
            inverse = np.linalg.inv(A)
            yield y, A, [inverse @ v for v in V], inverse @ y, V

    def value(self, theta):
        return np.array(
            [
                0.5 * y @ a + 0.5 * np.linalg.slogdet(A)[1] + RATE * s
                for (y, A, _, a, _), s in zip(self._each(theta), theta[:, D], strict=True)
            ]
        )

    def gradient(self, theta):
        rows = [
            [0.5 * np.trace(w) - 0.5 * a @ v @ a for w, v in zip(W, V, strict=True)]
            for *_, W, a, V in self._each(theta)
        ]
        return self.value(theta), np.array(rows) + RATE * (np.arange(D + 1) == D)

    def curvature(self, theta):
        return np.array(
            [[[0.5 * np.sum(v * w.T) for v in W] for w in W] for _, _, W, _, _ in self._each(theta)]
        )

    def refresh(self, theta):
        return False


class WithHessian(LinearARD):
    def hessian(self, theta):
        second = [[[a @ v @ w @ a for w in W] for v in V] for _, _, W, a, V in self._each(theta)]
        return np.array(second) - self.curvature(theta)


class SharedMean(LinearARD):
    """The rows' mean is outside theta."""

    def __init__(self):
        super().__init__(3)
        self.raw, self.mean = [y + 2.0 for y in self.y], 0.0
        self.refresh(None)

    def refresh(self, theta):
        if theta is not None:
            parts = [(A, a.sum()) for _, A, _, a, _ in self._each(theta)]
            shift = sum(s for _, s in parts) / sum(np.linalg.inv(A).sum() for A, _ in parts)
            self.mean += shift
        self.y = [y - self.mean for y in self.raw]
        return True


BOUND = np.append(np.zeros(D), FLOOR)
START = np.full((T, D + 1), 0.5)


def _fit(objective, C, grouped=True, **options):
    return minimise(objective, START, C=C, penalised=D, grouped=grouped, lower=BOUND, **options)


def _task_by_task(objective, theta, C):
    """L-BFGS-B from a nearby start: the likelihood may have several minima."""

    def value(x):
        x = x.reshape(T, D + 1)
        values, gradient = objective.gradient(x)
        return values.sum() + C * x[:, :D].sum(), (gradient + C * (np.arange(D + 1) < D)).ravel()

    near = np.maximum(theta * 1.05, BOUND).ravel()
    bounds = [(low, None) for low in np.tile(BOUND, T)]
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9}
    return minimize(value, near, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def _prox(h, v, C):
    x = np.zeros_like(v)
    group_prox(h * v, h, C, x)
    return x


@pytest.mark.parametrize("seed", range(4))
def test_prox_in_a_diagonal_metric(seed):
    rng = np.random.default_rng(seed)
    h, v = 10.0 ** rng.uniform(-3, 3, 7), rng.normal(size=7)
    edge = np.linalg.norm(np.maximum(h * v, 0.0))
    for C in (0.01 * edge, 0.5 * edge, 0.999 * edge):
        x = _prox(h, v, C)
        assert (x[v <= 0.0] == 0.0).all() and (x[v > 0.0] > 0.0).all()
        slope = h * (x - v) + C * x / np.linalg.norm(x)
        np.testing.assert_allclose(slope[v > 0.0], 0.0, atol=1e-12 * edge)

        def value(z, C=C):
            return 0.5 * h @ (z - v) ** 2 + C * np.linalg.norm(z)

        moved = np.maximum(x + rng.normal(size=(500, 7)) * 10.0 ** rng.uniform(-4, 0, (500, 1)), 0.0)
        assert min(value(z) for z in moved) >= value(x)
    assert (_prox(h, v, edge) == 0.0).all()
    flat = np.full(7, 3.0)
    np.testing.assert_allclose(_prox(flat, v, 1.2), prox_group_norm(v, 0.4), rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("C", [0.0, 5.0, 12.0])
@pytest.mark.parametrize("grouped", [True, False])
def test_convex_quadratic(C, grouped):
    """Against a smooth reformulation: C ||x|| is the least C (s + ||x||^2 / s) / 2."""
    problem, k = Quadratic(0), 3
    B, p = problem.b.shape
    bound = np.append(np.zeros(k), [-np.inf, 0.1])
    end = minimise(problem, np.ones((B, p)), C=C, penalised=k, grouped=grouped, lower=bound)
    assert end.converged

    def value(z):
        x, s = z[: B * p].reshape(B, p), np.sqrt(z[B * p :] ** 2 + 1e-14)
        values, gradient = problem.gradient(x)
        kappa, slope = x[:, :k], np.zeros(k)
        if grouped:
            gradient[:, :k] += C * kappa / s
            penalty = 0.5 * (s + (kappa**2).sum(axis=0) / s).sum()
            slope = 0.5 * C * (1.0 - (kappa**2).sum(axis=0) / s**2) * z[B * p :] / s
        else:
            gradient[:, :k] += C
            penalty = kappa.sum()
        return values.sum() + C * penalty, np.append(gradient, slope)

    limits = [(low, None) for low in np.tile(bound, B)] + [(0.0, None)] * k
    options = {"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    other = minimize(value, np.ones(B * p + k), jac=True, method="L-BFGS-B", bounds=limits, options=options)
    assert end.objective[-1] == pytest.approx(other.fun, abs=1e-5)
    assert end.objective[-1] <= other.fun + 1e-9
    np.testing.assert_allclose(end.theta, other.x[: B * p].reshape(B, p), atol=2e-3)


def test_residual_by_hand():
    theta = np.array([[3.0, 0.0, 0.0, 2.0], [4.0, 0.0, 0.0, 0.5]])
    zero = np.array([[-3.0, -6.0, 1.0, 0.0], [-4.0, 8.0, 0.0, 7.0]])
    lower = np.array([0.0, 0.0, 0.0, 0.5])
    assert kkt_residual(theta, zero, 5.0, 3, True, lower) == pytest.approx(1.0)  # the second column, 6 - 5
    zero[0, 1] = -5.0
    assert kkt_residual(theta, zero, 5.0, 3, True, lower) == pytest.approx(0.0, abs=1e-15)
    for place, entry, expected in [
        ((0, 0), -3.5, 0.5),
        ((1, 3), -2.0, 2.0),
        ((0, 3), 0.25, 0.25),
        ((1, 1), -12.0, 8.0),
    ]:
        gradient = zero.copy()
        gradient[place] = entry
        assert kkt_residual(theta, gradient, 5.0, 3, True, lower) == pytest.approx(expected)
    assert kkt_residual([[1.0, 0.0]], [[-2.0, -3.0]], 2.0, 2, False) == pytest.approx(1.0)
    assert kkt_residual([[1.0, 0.0]], [[-1.5, 3.0]], 2.0, 2, False) == pytest.approx(0.5)
    assert kkt_residual([[1.0, 0.0]], [[0.0, -3.0]], 0.0, 2, True) == pytest.approx(3.0)  # no group without C


def test_residual_of_a_group_with_a_zero_entry():
    assert kkt_residual([[3.0], [0.0]], [[-2.0], [-0.5]], 2.0, 1, True) == pytest.approx(0.5)
    assert kkt_residual([[3.0], [0.0]], [[-2.0], [0.5]], 2.0, 1, True) == 0.0


@pytest.mark.parametrize("kind", [LinearARD, WithHessian])
@pytest.mark.parametrize("C", [1.0, 4.0, 9.0])
@pytest.mark.parametrize("grouped", [True, False])
def test_monotone_to_a_minimum(kind, C, grouped):
    objective, seen = kind(), []
    end = _fit(objective, C, grouped, progress=lambda *args: seen.append(args))
    assert end.converged and end.kkt[-1] <= 1e-7
    assert np.diff(end.objective).max() <= 1e-11 * abs(end.objective[-1])
    assert seen == list(enumerate(end.objective)) and len(end.kkt) == len(seen) <= end.evaluations
    values, gradient = objective.gradient(end.theta)
    kappa = end.theta[:, :D]
    penalty = np.linalg.norm(kappa, axis=0).sum() if grouped else kappa.sum()
    assert end.objective[-1] == pytest.approx(values.sum() + C * penalty)
    assert kkt_residual(end.theta, gradient, C, D, grouped, BOUND) == end.kkt[-1]
    assert (end.theta >= BOUND).all()


def test_groups_of_exact_zeros():
    counts = [(_fit(WithHessian(), C).theta[:, :D] == 0.0).all(axis=0).sum() for C in (0.5, 15.0, 1e4)]
    assert counts[0] <= counts[1] <= counts[2] == D
    for grouped in (True, False):
        assert (_fit(LinearARD(), 1e4, grouped).theta[:, :D] == 0.0).all()


def test_hessian_converges_quadratically():
    residuals = _fit(WithHessian(), 4.0, tol=1e-9).kkt
    assert len(residuals) < 30 and residuals[-1] < 0.05 * residuals[-2]


@pytest.mark.parametrize(("C", "grouped"), [(0.0, True), (0.0, False), (2.0, False)])
def test_separate_tasks(C, grouped):
    objective = WithHessian()
    end = _fit(objective, C, grouped)
    assert end.converged
    other = _task_by_task(objective, end.theta, C)
    assert end.objective[-1] == pytest.approx(other.fun, abs=1e-7)
    np.testing.assert_allclose(end.theta, other.x.reshape(T, D + 1), rtol=1e-3, atol=1e-4)


def test_parameters_outside():
    objective = SharedMean()
    end = _fit(objective, 2.0)
    assert end.converged and np.diff(end.objective).max() <= 1e-11 * abs(end.objective[-1])
    assert abs(sum(a.sum() for _, _, _, a, _ in objective._each(end.theta))) < 1e-6


def test_blocks_that_are_the_same_or_see_nothing():
    """Columns that are equal within a block, and a block without curvature in a column."""
    problem = Quadratic(1)
    problem.H[0, 1], problem.b[0, 1] = problem.H[0, 0], problem.b[0, 0]
    problem.H[0, :, 1] = problem.H[0, :, 0]
    problem.H[1, 2], problem.H[1, :, 2], problem.b[1, 2] = 0.0, 0.0, 0.0
    end = minimise(problem, np.ones((4, 5)), C=2.0, penalised=3, grouped=True, lower=[0, 0, 0, -9, -9])
    assert end.converged and end.theta[1, 2] == 0.0


def test_interrupt_keeps_what_was_reached():
    def stop(iteration, objective):
        if iteration == 3:
            raise KeyboardInterrupt

    end = _fit(LinearARD(), 1.0, progress=stop)
    assert not end.converged and len(end.objective) == 4
    np.testing.assert_array_equal(end.theta, _fit(LinearARD(), 1.0, max_iter=3).theta)


def test_limit_of_steps():
    assert len(_fit(LinearARD(), 1.0, max_iter=2).objective) == 3
    none = _fit(LinearARD(), 1.0, max_iter=0)
    assert not none.converged
    np.testing.assert_array_equal(none.theta, START)


def test_undefined_points_are_refused():
    class Walled(Quadratic):
        def value(self, theta):
            return np.where(theta[:, 0] > 0.7, np.inf, super().value(theta))

    end = minimise(Walled(2), np.full((4, 5), 0.5), C=0.0, penalised=0, grouped=False, lower=0.0)
    assert (end.theta[:, 0] <= 0.7).all() and np.isfinite(end.objective).all()
    assert (np.diff(end.objective) <= 1e-10).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(C=-1.0), "C is -1"),
        (dict(C=np.nan), "C is nan"),
        (dict(penalised=9), "penalised is 9"),
        (dict(lower=np.zeros(3)), "does not broadcast"),
        (dict(lower=0.1), "not zero in the penalised"),
        (dict(start=-START), "below its bound in block 0, column 0"),
        (dict(start=START[0]), "finite matrix"),
        (dict(start=np.full((T, D + 1), np.nan)), "finite matrix"),
    ],
)
def test_errors(change, message):
    options = {"start": START, "C": 1.0, "penalised": D, "grouped": True, "lower": BOUND, **change}
    with pytest.raises(ValueError, match=message):
        minimise(LinearARD(), **options)


def test_errors_of_the_objective():
    problem = Quadratic(0)
    problem.value = lambda theta: np.zeros(7)
    with pytest.raises(ValueError, match="the objective gives shapes"):
        minimise(problem, np.ones((4, 5)), C=1.0, penalised=2, grouped=True)
    del problem.value
    problem.b[2] = np.nan
    with pytest.raises(ValueError, match="not finite at the start, in blocks \\[2\\]"):
        minimise(problem, np.ones((4, 5)), C=1.0, penalised=2, grouped=True)
    with pytest.raises(ValueError, match="gradient has shape"):
        kkt_residual(np.ones((2, 2)), np.ones(2), 1.0, 1, True)

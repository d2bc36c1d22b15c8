"""What the methods of :class:`zoo.VaryingCoefficientGP` do: the choice, maximal evidence, draws, moments, new tasks."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from zoo.data import MultiTaskData
from zoo.factory import Run, UnsupportedMethodError
from zoo.fit import Fit
from zoo.inference.function_conditional import JITTER
from zoo.inference.progress import ClimbProgress
from zoo.models.varying_resolution import warn_of_coarse_basis
from zoo.models.varying_rows import VaryingRows
from zoo.models.varying_spaces import State, inducing_inputs, inputs_of, space_of

if TYPE_CHECKING:
    from zoo.models.varying_coefficient import VaryingCoefficientGP

__all__ = [
    "Choice",
    "PointFit",
    "beyond_the_data",
    "choose",
    "fit_point",
    "from_inducing",
    "latent_moments",
    "new_task",
    "with_new_leaves",
]

# Rows up to which exact algebra takes seconds, and weights up to which that of a basis does.
_FEW_ROWS, _MOST_WEIGHTS = 2000, 6000
# Rows or weights below which threads cost more than they bring.
_SMALL = 500
# Lengthscales, in standard deviations of t, at which the search for the evidence may start.
_LENGTHSCALES = (0.25, 0.7, 2.0)
# Free coordinates further from the start than this are at their bound; lengthscales are held nearer.
_BOUND, _BOUND_OF_LENGTHSCALE = 9.0, 5.0


# ---------------------------------------------------------------- the choice


class Choice(NamedTuple):
    """A method, the prior it takes, and why."""

    method: str
    approximation: str
    reason: str


def choose(factory: VaryingCoefficientGP, data: MultiTaskData) -> Choice:
    """The method that fits the data: by the number of rows, the columns of t and the response."""
    best = next(iter(factory.methods))
    if best == "nuts":
        why = "a hook is overridden" if factory.likelihood.smooth else "the likelihood has corners"
        return Choice(best, factory.approximation, f"{why}, which only nuts knows")
    if factory.approximation != "none":
        own = {"hsgp": "hsgp", "vecchia": "vecchia"}
        method = own.get(factory.approximation, "inducing") if best == "exact" else "laplace"
        return Choice(method, factory.approximation, f"approximation is {factory.approximation!r}")
    rows = factory.prepare(data)
    kernel, n = factory.kernel_of(rows), data.n_rows
    if kernel.basis_is_exact and kernel.n_weights <= _MOST_WEIGHTS:
        return Choice(
            best, "none", f"all components are over tasks, which makes {kernel.n_weights:,} weights"
        )
    if n <= _FEW_ROWS:
        return Choice(best, "none", f"{n:,} rows are few enough for exact algebra")
    near = "vecchia" in factory.methods
    if kernel.has_basis and all(len(part.columns) <= 3 for part in kernel.parts):
        size = kernel.n_weights
        short = ""
        if near:
            from zoo.models.varying_ranges import too_short_for_sines  # which rests on this module

            short = too_short_for_sines(factory, data, rows)
        if short:
            reason = f"{n:,} rows, and ranges so short that {short}; each row is given its nearest ones"
            return Choice("vecchia", "vecchia", reason)
        if size <= _MOST_WEIGHTS:
            reason = f"{n:,} rows, of which sums over {size:,} basis functions take one pass"
            return Choice("hsgp" if best == "exact" else best, "hsgp", reason)
        reason = f"{n:,} rows, and a basis would have {size:,} functions"
    else:
        reason = f"{n:,} rows, and the kernel has no basis"
    if near:
        return Choice("vecchia", "vecchia", f"{reason}; each row is given its nearest ones")
    return Choice("inducing", "fitc", f"{reason}; {factory.n_inducing:,} inducing points")


# ---------------------------------------------------------------- maximal evidence

PointFit = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]
"""Posterior and sample statistics, (chain, draw, ...), and what predictions need."""


def fit_point(
    factory: VaryingCoefficientGP, rows: VaryingRows, y: np.ndarray, run: Run, max_iter: int, tol: float
) -> PointFit:
    """Hyper-parameters of maximal evidence, and independent draws of the functions given them."""
    space = space_of(factory, rows, y)
    with _threads(space):
        z, converged = _maximal_evidence(space, run.progress, max_iter, tol)
        learned = space.values_at(z)
        # Exactly what a loaded fit makes of the values that are recorded.
        space.forget()
        state = space.state(space.coordinates.pack(learned))
        if not state.converged:
            logging.getLogger("zoo").warning(
                "Newton's method did not find the mode of the functions: the posterior is wrong. Responses that are "
                'far out in their noise do this; fit with method "nuts".'
            )
        draws = None
        if space.values_name:
            draws = space.draws(state, np.random.default_rng(run.random_seed), run.chains * run.draws)
    shape = (run.chains, run.draws)
    values = {**{k: np.asarray(v) for k, v in factory.fixed_parameters().items()}, **learned}
    posterior = {name: np.broadcast_to(v, (*shape, *np.shape(v))) for name, v in values.items()}
    if draws is not None:
        posterior[space.values_name] = draws.reshape(*shape, -1)
    if space.values_name == "basis_weights" and space.kernel.basis_is_exact:
        features = space.kernel.task_features(rows)
        posterior["coefficients"] = np.einsum("csp,dtp->csdt", posterior["basis_weights"], features)
    stats = {
        "log_evidence": np.full(shape, state.log_evidence),
        "independent": np.ones(shape, dtype=bool),
        "converged": np.full(shape, converged and state.converged),
    }
    warn_of_coarse_basis(factory, space, learned)
    return posterior, stats, {"state": (space, state)}


def _threads(space: Any) -> Any:
    small = (
        space.rows.n_rows < _SMALL
        if space.values_name != "basis_weights"
        else space.kernel.n_weights < _SMALL
    )
    return threadpool_limits(1) if small else nullcontext()


def _maximal_evidence(space: Any, progress: bool, max_iter: int, tol: float) -> tuple[np.ndarray, bool]:
    """Hyper-parameters of maximal evidence; with many basis functions, from where the lower half of them has it."""
    coordinates = space.coordinates
    if coordinates.size == 0:
        return coordinates.start, True
    low, high = _bounds(space)
    starts = [np.clip(z, low, high) for z in _starts(space)]
    with ClimbProgress(max_iter, progress, "evidence", "negative log evidence") as bar:
        search = _Search(space, bar, max_iter, tol)
        metric = None
        if getattr(space, "coarse", None) is not None:
            first = search.run(starts, low, high, coarse=True)
            # What was learned of the curvature there makes the steps of the second search.
            metric, starts = np.asarray(first.hess_inv.todense()), [np.asarray(first.x)]
        found = search.run(starts, low, high, metric=metric)
    if search.best is None:
        raise np.linalg.LinAlgError("The evidence is not finite anywhere on the way.")
    if progress and not found.success:
        logging.getLogger("zoo").warning(
            "The search for the evidence stopped after max_iter=%d steps, before its end. Give a larger max_iter."
            if found.status == 1
            else "The search for the evidence stopped before its end (max_iter=%d): rounding hides where it climbs. "
            "Learn the noise, or give a larger one.",
            max_iter,
        )
    return np.clip(search.best, low, high), bool(found.success)


class _Search:
    """Climbs of the evidence by L-BFGS."""

    def __init__(self, space: Any, bar: Any, max_iter: int, tol: float):
        self.space, self.bar, self.max_iter, self.tol = space, bar, max_iter, tol
        self.best: np.ndarray | None = None
        self.scale = 1.0 / space.rows.total_weight  # so that the first step is no leap
        self._count = iter(range(1, max_iter + 1))

    def run(
        self,
        starts: list[np.ndarray],
        low: np.ndarray,
        high: np.ndarray,
        coarse: bool = False,
        metric: np.ndarray | None = None,
    ) -> Any:
        """A search from the best start; with ``metric``, an inverse Hessian, in coordinates where it is 1."""
        self._worst, self._value = (0.0, np.zeros(len(low))), np.inf
        options = {"coarse": True} if coarse else {}

        def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
            return self._objective(z, options)

        start = min(starts, key=lambda z: objective(z)[0]) if len(starts) > 1 else starts[0]
        settings: dict[str, Any] = {"maxiter": self.max_iter, "maxcor": 20, "ftol": self.tol, "gtol": 1e-7}
        if metric is None:
            return minimize(
                objective, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)),
                callback=self._report, options=settings,
            )  # fmt: skip
        # A start this near needs no last digits.
        settings["ftol"] = 10.0 * self.tol
        root = np.linalg.cholesky(metric + 1e-12 * np.trace(metric) * np.eye(len(metric)))

        def whitened(u: np.ndarray) -> tuple[float, np.ndarray]:
            z = start + root @ u
            value, gradient = objective(np.clip(z, low, high))
            return value, root.T @ np.where((z >= low) & (z <= high), gradient, 0.0)

        return minimize(
            whitened,
            np.zeros(len(start)),
            jac=True,
            method="L-BFGS-B",
            callback=self._report,
            options=settings,
        )

    def _objective(self, z: np.ndarray, options: dict[str, bool]) -> tuple[float, np.ndarray]:
        try:
            value, gradient = self.space.evidence(z, **options)
        except np.linalg.LinAlgError:
            value = np.nan
        if not np.isfinite(value):
            # So far out that rounding wins: worse than all before, and downhill is back.
            return abs(self._worst[0]) * 10.0 + 1.0, self._worst[1]
        self._worst = (-self.scale * value, -self.scale * gradient)
        if self._worst[0] < self._value:
            self._value, self.best = self._worst[0], z.copy()
        return self._worst

    def _report(self, intermediate_result: Any) -> None:
        self.bar.report(next(self._count, self.max_iter), intermediate_result.fun / self.scale)


def _starts(space: Any) -> list[np.ndarray]:
    """Starts that differ in the lengthscales of components."""
    coordinates = space.coordinates
    positions = [
        coordinates.position(name)
        for name in coordinates.hypers
        if name.endswith("lengthscale") and not name.startswith("instance_")
    ]
    if not positions:
        return [coordinates.start]
    result = []
    for lengthscale in (*space.short_lengthscales, *_LENGTHSCALES):
        z = coordinates.start.copy()
        for position in positions:
            z[position] += np.log(lengthscale / _LENGTHSCALES[1])
        result.append(z)
    return result


def _bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the free coordinates.

    A lengthscale is not shorter than the distance between the zeros of the finest sine: shorter ones are all alike to
    the basis.
    """
    coordinates = space.coordinates
    width = np.full(coordinates.size, _BOUND)
    for name, hyper in coordinates.hypers.items():
        if "lengthscale" in name:
            width[coordinates.position(name)] = _BOUND_OF_LENGTHSCALE
        elif hyper.kind == "covariance":
            width[coordinates.position(name)] = 6.0
    low, high = coordinates.start - width, coordinates.start + width
    for part in space.kernel.parts if space.factory.approximation == "hsgp" else []:
        name = part.name("lengthscale")
        if not part.component.on_tasks and name in coordinates.hypers:
            finest = 2.0 * part.basis.half_width / np.array(part.basis.size)
            position = coordinates.position(name)
            low[position] = np.clip(np.log(finest), low[position], high[position] - 1.0)
    return low, high


# ---------------------------------------------------------------- after the fit


def state_of(fit: Fit) -> tuple[Any, State] | None:
    """The space and what it knows, made again where the fit was loaded; None for draws of hyper-parameters."""
    if "independent" not in fit.idata["sample_stats"]:
        return None
    if "state" not in fit.cache:
        factory: Any = fit.factory
        rows = factory.prepare(fit.population_data)
        space = space_of(factory, rows, factory.validate(fit.population_data))
        z = space.recorded(fit.posterior.isel(chain=0, draw=0))
        fit.cache["state"] = (space, space.state(z))
    found: tuple[Any, State] = fit.cache["state"]
    return found


def latent_moments(fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and standard deviation (n,) of f at prepared rows of known tasks."""
    known = state_of(fit)
    if known is None:
        return None
    space, state = known
    factory: Any = fit.factory
    with _threads(space):
        mean, variance = space.moments(state, rows)
    return mean + factory.offset(rows), np.sqrt(variance)


def from_inducing(factory: VaryingCoefficientGP, rows: VaryingRows, priors: dict[str, Any]) -> Any:
    """Functions at rows given whitened values at the inducing points: their share, and a residual of each row's own.

    At the rows of the fit the residual is a variable of the model ("fitc"), or none ("vfe").
    """
    kernel, white = priors["kernel"], priors["inducing_values"]
    U = pt.constant(inducing_inputs(factory, rows.fitted))
    X = pt.constant(inputs_of(rows))
    Kuu = kernel(U)
    # Triangular also where the matrix is numbers, of which `matrix_root` is symmetric.
    root = pt.linalg.cholesky(Kuu + JITTER * pt.mean(pt.diagonal(Kuu)) * pt.eye(U.shape[0]))
    V = pt.linalg.solve_triangular(root, kernel(X, U).T, lower=True)
    f = pt.dot(white, V)
    if rows.known is None and factory.approximation == "vfe":
        return f
    lost = pt.sqrt(pt.maximum(kernel(X, diag=True) - pt.sum(pt.square(V), axis=0), 0.0))
    if rows.known is None:
        # A row to predict has one of its own, whatever the posterior: PyMC may draw it.
        innovations: set[str] = getattr(pm.modelcontext(None), "innovations", set())
        innovations.add("_residual")
        return f + lost * pm.Normal("_residual", dims="obs")
    return f + lost * pm.Normal.dist(0.0, 1.0, size=rows.n_rows)


def with_new_leaves(kernel: Any, rows: VaryingRows, values: dict[str, Any], f: Any) -> Any:
    """The function at rows of leaves that a tree does not know: each takes steps of its own below the known nodes."""
    if rows.task_names == rows.fitted.task_names:
        return f
    for part in kernel.parts:
        if not part.component.on_tasks:
            continue
        sd = pt.sqrt(part.new_variance(values, rows.task_names))[rows.task]
        shape = (len(rows.task_names), len(part.features))
        steps = part.amplitudes(values) * pm.Normal.dist(0.0, 1.0, size=shape)
        f = f + sd * pt.sum(pt.constant(rows.inputs[:, part.features]) * steps[rows.task], axis=1)
    return f


def beyond_the_data(kernel: Any, rows: VaryingRows, values: dict[str, Any], f: Any) -> Any:
    """The function at new rows, with the variance that sines lose outside the range of the data; independent by row."""
    if rows.known is None:
        return f
    for part in kernel.parts:
        at = np.flatnonzero(part.beyond(rows.times))
        if len(at):
            sd = pt.sqrt(part.lost_variance(values, rows, at))
            f = pt.inc_subtensor(f[at], sd * pm.Normal.dist(0.0, 1.0, size=len(at)))
    return f


def new_task(
    factory: VaryingCoefficientGP, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The posterior, which serves new tasks where nothing varies over tasks, or a tree says where they hang."""
    over_tasks = [component for component in factory.components if component.on_tasks]
    if over_tasks and "basis_weights" not in posterior:
        raise UnsupportedMethodError(
            'new_task=True needs the functions as weights. Use method "hsgp", or a model whose components are all '
            "over tasks."
        )
    for component in over_tasks:
        if not component.is_tree:
            raise UnsupportedMethodError(
                "task_kernel says nothing of a task that it does not know. Use a tree (zoo.kernels.TaskTree), or fit "
                "all tasks together."
            )
    # Only the shape of coefficients is looked at: weights stand for them.
    return {str(name): values.to_numpy() for name, values in posterior.items() if name != "coefficients"}

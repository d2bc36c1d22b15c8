"""What the methods of :class:`zoo.VaryingCoefficientGP` do: the choice, maximal evidence, draws, moments, new tasks."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from threadpoolctl import threadpool_limits

from zoo.core.fit import Fit
from zoo.core.methods import Result, Run, UnsupportedMethodError
from zoo.data.multitask import MultiTaskData
from zoo.latent.function_conditional import JITTER
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.ranges import too_short_for_sines
from zoo.models.varying_coefficient.resolution import warn_of_coarse_basis
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.models.varying_coefficient.search import maximal_evidence
from zoo.models.varying_coefficient.sites import SITES, SiteSpace
from zoo.models.varying_coefficient.space import State, inputs_of
from zoo.models.varying_coefficient.spaces import inducing_inputs, space_of

__all__ = [
    "Choice",
    "choose",
    "fit_point",
    "from_inducing",
    "latent_moments",
    "new_task",
    "require_sites",
    "with_new_leaves",
]

# Rows up to which exact algebra takes seconds, and weights up to which that of a basis does.
_FEW_ROWS, _MOST_WEIGHTS = 2000, 6000
# The same where every draw takes as much algebra as a fit of maximal evidence.
_FEW_ROWS_OF_CHAINS = 200
# Rows or weights below which threads cost more than they bring.
_SMALL = 500


# ---------------------------------------------------------------- the choice


class Choice(NamedTuple):
    """A method, the prior it takes, and why."""

    method: str
    approximation: str
    reason: str


def choose(factory: VaryingDescription, data: MultiTaskData) -> Choice:
    """The method that fits the data: by the number of rows, the columns of t and the response."""
    best = next(iter(factory.methods))
    if best == "nuts":
        why = "a hook is overridden" if factory.likelihood.smooth else "the likelihood has corners"
        return Choice(best, factory.approximation, f"{why}, which only nuts knows")
    if factory.approximation != "none":
        if factory.approximation == "vecchia":
            method = "vecchia"
        elif best == "exact":
            method = "hsgp" if factory.approximation == "hsgp" else "inducing"
        else:
            method = best
        return Choice(method, factory.approximation, f"approximation is {factory.approximation!r}")
    rows = factory.design(data)
    kernel, n = factory.kernel_of(rows), data.n_rows
    if kernel.basis_is_exact and kernel.n_weights <= _MOST_WEIGHTS:
        return Choice(
            best, "none", f"all components are over tasks, which makes {kernel.n_weights:,} weights"
        )
    if n <= (_FEW_ROWS_OF_CHAINS if best == "gibbs" and kernel.has_basis else _FEW_ROWS):
        return Choice(best, "none", f"{n:,} rows are few enough for exact algebra")
    near = "vecchia" in factory.methods
    curved = factory.structure == "curved"  # sums of sines are for coefficients
    if kernel.has_basis and not curved and all(len(part.columns) <= 3 for part in kernel.parts):
        size = kernel.n_weights
        short = ""
        if near:
            short = too_short_for_sines(factory, data)
        if short:
            reason = f"{n:,} rows, and ranges so short that {short}; each row is given its nearest ones"
            return Choice("vecchia", "vecchia", reason)
        if size <= _MOST_WEIGHTS:
            reason = f"{n:,} rows, of which sums over {size:,} basis functions take one pass"
            return Choice("hsgp" if best == "exact" else best, "hsgp", reason)
        reason = f"{n:,} rows, and a basis would have {size:,} functions"
    else:
        reason = f"{n:,} rows, and the kernel has no basis"
    if near and best == "exact":
        return Choice("vecchia", "vecchia", f"{reason}; each row is given its nearest ones")
    if best == "gibbs":
        return Choice(
            "nuts", "fitc", f"{reason}; {factory.n_inducing:,} inducing points, which only nuts knows"
        )
    return Choice("inducing", "fitc", f"{reason}; {factory.n_inducing:,} inducing points")


# ---------------------------------------------------------------- maximal evidence


def require_sites(factory: VaryingDescription, data: MultiTaskData, method: str) -> None:
    """Raise where a method replaces the labels of function values, and the model holds its functions as weights."""
    if method in SITES and factory.kernel_of(factory.design(data)).basis_is_exact:
        raise UnsupportedMethodError(
            f"method {method!r} is for function values, and these functions are held as weights, since every component "
            'is over tasks, or none varies. Use method "laplace" or "nuts".'
        )


def _space(factory: VaryingDescription, rows: VaryingRows, y: np.ndarray, method: str) -> Any:
    return SiteSpace(method, factory, rows, y) if method in SITES else space_of(factory, rows, y)


def fit_point(
    factory: VaryingDescription,
    rows: VaryingRows,
    y: np.ndarray,
    run: Run,
    max_iter: int,
    tol: float,
    method: str = "",
) -> Result:
    """Hyper-parameters of maximal evidence, and independent draws of the functions given them.

    ``method`` is "ep" or "variational" where labels are approximated so.
    """
    space = _space(factory, rows, y, method)
    if not space.values_name and not space.coordinates.size and not factory.fixed_parameters():
        raise UnsupportedMethodError(
            "method 'vecchia' keeps hyper-parameters alone, and each of this model is a number, so the posterior would "
            "hold nothing. Learn one of them, such as the amplitude, or use 'laplace'."
        )
    with _threads(space):
        z, converged = maximal_evidence(space, run.progress, max_iter, tol)
        learned = space.values_at(z)
        # Exactly what a loaded fit makes of the values that are recorded.
        space.forget()
        state = space.state(space.coordinates.pack(learned))
        if not state.converged and not method:  # sites that do not come to rest say so themselves
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
    return Result(posterior, stats, (space, state))


def _threads(space: Any) -> Any:
    small = (
        space.rows.n_rows < _SMALL
        if space.values_name != "basis_weights"
        else space.kernel.n_weights < _SMALL
    )
    return threadpool_limits(1) if small else nullcontext()


# ---------------------------------------------------------------- after the fit


def state_of(fit: Fit) -> tuple[Any, State] | None:
    """The space and what it knows, made of a fit; None for draws of hyper-parameters."""
    if "independent" not in fit.idata["sample_stats"]:
        return None
    factory: Any = fit.factory
    rows = factory.design(fit.population_data)
    space = _space(factory, rows, factory.validate(fit.population_data), fit.method)
    z = space.recorded(fit.posterior.isel(chain=0, draw=0))
    return space, space.state(z)


def latent_moments(fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and standard deviation (n,) of f at prepared rows of known tasks."""
    known: tuple[Any, State] | None = fit.state
    if known is None:
        return None
    space, state = known
    factory: Any = fit.factory
    with _threads(space):
        mean, variance = space.moments(state, rows)
    return mean + factory.offset(rows), np.sqrt(variance)


def from_inducing(factory: VaryingDescription, rows: VaryingRows, priors: dict[str, Any]) -> Any:
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


def new_task(
    factory: VaryingDescription, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
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

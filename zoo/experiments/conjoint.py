"""The methods of table 1 of Evgeniou, Micchelli & Pontil (2005): support vector machines per task, pooled and between.

A machine minimises (16), the sum of the hinge losses plus ``gamma |w|^2``. The matrix of kernel (22) is
``1 - lam + lam T`` on its diagonal, and at ``lam = 1`` the kernel of independent tasks times T. So ``gamma`` is given
in units of T here: the machine of all tasks at ``lam = 1`` is then that of each task alone with the same ``gamma``,
whatever T is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from zoo import datasets
from zoo.data.multitask import MultiTaskData
from zoo.experiments.joint_selection import scores
from zoo.kernels.task_metric import pca_metric
from zoo.latent.support_vectors import support_vector_machine, task_coefficients, task_features
from zoo.latent.task_weights import Loadings
from zoo.models.kernel_machine.model import MultiTaskKernelMachine

__all__ = [
    "GAMMAS",
    "LAMBDAS",
    "METHODS",
    "Choice",
    "along",
    "choose",
    "coefficients",
    "computers",
    "customers",
    "errors",
    "evidence",
    "labels",
    "machine",
    "principal_components",
    "ratings",
    "table_row",
    "validation",
]

# Kernel (22) has an inverse for lam above 0: as near as that, all tasks are one.
ZERO = 1e-6
# The paper's grid. A task's own share is lam T to 1 - lam: at 0.2 with 200 tasks 50 to 1, and little is shared. So a
# grid that looks between 0 and 0.2, too.
LAMBDAS = (ZERO, 0.2, 0.4, 0.6, 0.8)
FINE_LAMBDAS = (ZERO, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8)
# Of the single-task machines, the paper's; of the others the paper says nothing.
SINGLE_GAMMAS = (0.1, 1.0, 10.0)
GAMMAS = (0.03, 0.1, 0.3, 1.0)
METHODS = {
    "one": "One SVM",
    "individual": "Indiv SVM",
    "identity": "Identity",
    "pca": "PCA",
    "learned": "learned Q",
    "square": "learned Q, square loss",
    "true": "true Q",
    "pca-first": "PCA, one iteration",
    "identity-fine": "Identity, fine lambda",
    "individual-validated": "Indiv SVM, gamma validated",
}
_ITERATIONS = 5
# The errors are the same with a tighter tolerance, at several times the cost.
_TOLERANCE, _MAX_ITER = 1e-3, 3000

_PROFILES, _CALIBRATION = 20, 16

# -------------------------------------------------------------------- data


def customers(number: int, n_customers: int = 200) -> tuple[MultiTaskData, xr.Dataset]:
    """A panel of simulated customers, 120 choices each, and the truth."""
    return datasets.simulate_conjoint(n_customers, random_seed=np.random.default_rng([2005, number]))


def computers(number: int, persons: int | None = None) -> tuple[MultiTaskData, MultiTaskData]:
    """Ratings of computers by 190 persons, or the first of them, 16 to learn from and 4 to predict.

    Partition 0 is the survey's own; the others draw the 16 profiles for each person.
    """
    data = datasets.load_lenk_computers()
    place = np.tile(np.arange(_PROFILES), (data.n_tasks, 1))
    if number > 0:
        place = np.random.default_rng([2005, number]).permuted(place, axis=1)
    first = place.ravel() < _CALIBRATION
    train, test = data.take(first), data.take(~first)
    if persons is None:
        return train, test
    names = data.task_names[:persons]
    return train.select_tasks(names), test.select_tasks(names)


def labels(train: MultiTaskData, test: MultiTaskData) -> tuple[MultiTaskData, MultiTaskData]:
    """+1 for a rating above the person's mean training rating, -1 for any other."""
    if test.task_names != train.task_names:
        raise ValueError(
            "test has other task_names than train, or in another order. Take both from the same data."
        )
    mean = np.bincount(train.task, train.y) / np.bincount(train.task)
    return tuple(replace(rows, y=np.where(rows.y > mean[rows.task], 1.0, -1.0)) for rows in (train, test))  # type: ignore[return-value]


def validation(train: MultiTaskData) -> tuple[MultiTaskData, MultiTaskData]:
    """The training rows without the last of each task, and these."""
    last = np.zeros(train.n_rows, dtype=bool)
    last[[rows[-1] for rows in train.rows_by_task()]] = True
    return train.take(~last), train.take(last)


# -------------------------------------------------------------------- machines


def machine(train: MultiTaskData, lam: float, gamma: float, Q: np.ndarray | None = None) -> np.ndarray:
    """Coefficients (D, T) of the support vector machine with kernel (25).

    Those of ``MultiTaskKernelMachine(likelihood=Hinge(C=1 / (4 * gamma * T)), lam=lam, Q=Q, amplitude=1.0)`` by "map",
    without a PyMC model: it would take ten times as long as the small problems here, of which there are thousands.
    """
    if train.weight is not None:
        raise ValueError(
            "weight is given, and this machine takes no weights of rows. Make the data without weight."
        )
    T = train.n_tasks
    # Of one column; at lam = 1 nothing is shared.
    shared = np.full((T, 1), np.sqrt(1.0 - lam)) if lam < 1.0 else np.zeros((T, 0))
    loadings = Loadings(np.full(T, lam * T), shared, None if Q is None else _root(Q))
    found = support_vector_machine(
        task_features(train.X, train.task, loadings),
        np.where(train.y > 0, 1.0, -1.0),
        loss="hinge",
        C=1.0 / (4.0 * gamma * T),
        epsilon=0.0,
        weight=None,
        tol=_TOLERANCE,
        max_iter=_MAX_ITER,
        random_seed=1,
    )
    return task_coefficients(found.weights, train.n_features, loadings)


def _root(Q: np.ndarray) -> np.ndarray:
    """A root R of a positive semi-definite matrix, ``R R' = Q``."""
    values, vectors = np.linalg.eigh(Q)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def one_machine(train: MultiTaskData, gamma: float) -> np.ndarray:
    """Coefficients (D, T) of one support vector machine for the rows of all tasks."""
    pooled = MultiTaskData.from_arrays(train.X, train.y, task=None)
    return np.repeat(machine(pooled, 1.0, gamma), train.n_tasks, axis=1)


def evidence(train: MultiTaskData, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Metric Q of largest marginal likelihood under the square loss of the labels, and that model's coefficients."""
    model = MultiTaskKernelMachine(Q="learned")
    fit = model.fit(train, method="exact", draws=1, chains=1, random_seed=seed, progress=False)
    Q = fit.posterior["feature_cov"].isel(chain=0, draw=0).to_numpy()
    return Q * (len(Q) / np.trace(Q)), coefficients(fit)


def coefficients(fit: Any) -> np.ndarray:
    """Coefficients (D, T) of the mean functions of a linear fit, on the scale of the model."""
    D, T = fit.data.n_features, fit.data.n_tasks
    transform = fit.data.transform
    rows = np.vstack([np.eye(D), np.zeros(D)])
    if transform is not None:
        rows = transform.x_mean + transform.x_scale * rows
    at, task = np.tile(rows, (T, 1)), np.repeat(np.arange(T), D + 1)
    f = fit.predict(at, task=task, random_seed=1)["mean"].to_numpy().reshape(T, D + 1)
    scale = 1.0 if transform is None else transform.y_scale
    return np.asarray((f[:, :D] - f[:, D:]).T / scale)


class Iterated(NamedTuple):
    """What the paper's iteration went through: coefficients after each step, and the metrics that made them."""

    coefficients: list[np.ndarray]
    metrics: list[np.ndarray]


def principal_components(
    train: MultiTaskData, lam: float, gamma: float, steps: int = _ITERATIONS, energy: float = 0.9
) -> Iterated:
    """Machine, principal components of its coefficients as Q, machine, ... (section 4).

    It ends where all eigenvalues of what Q leaves are needed: from there Q keeps its rank.
    """
    W = machine(train, lam, gamma)
    found = Iterated([], [])
    rank = train.n_features
    for _ in range(steps):
        Q = pca_metric(W, energy)
        W = machine(train, lam, gamma, Q)
        found.coefficients.append(W)
        found.metrics.append(Q)
        kept = int(np.linalg.matrix_rank(Q, tol=1e-8))
        if kept == rank:
            break
        rank = kept
    return found


# -------------------------------------------------------------------- choice


def errors(rows: MultiTaskData, W: np.ndarray) -> np.ndarray:
    """Part of each task's rows (T,) that coefficients (D, T) put on the wrong side."""
    f = np.einsum("nd,dn->n", rows.X, W[:, rows.task])
    wrong = (f > 0.0) != (rows.y > 0.0)
    return np.asarray(np.bincount(rows.task, wrong) / np.bincount(rows.task))


class Choice(NamedTuple):
    """Parameters with the fewest errors on the held-out rows."""

    lam: float
    gamma: float
    error: float


def _held_out(rows: MultiTaskData, W: np.ndarray) -> tuple[float, float]:
    """Errors, and the hinge loss, which decides between equals: one row per task makes many."""
    f = np.einsum("nd,dn->n", rows.X, W[:, rows.task])
    y = np.where(rows.y > 0, 1.0, -1.0)
    return float(np.mean((f > 0.0) != (y > 0.0))), float(np.maximum(0.0, 1.0 - y * f).mean())


Grid = dict[tuple[float, float], tuple[float, float]]


def search(
    fit: Callable[[float, float], np.ndarray],
    held_out: MultiTaskData,
    lams: Sequence[float],
    gammas: Sequence[float],
) -> Grid:
    """What ``fit(lam, gamma)`` misses on held-out rows, at every point of the grid."""
    return {(lam, gamma): _held_out(held_out, fit(lam, gamma)) for lam in lams for gamma in gammas}


def choose(grid: Grid, lams: Sequence[float]) -> Choice:
    """The best point of a grid among these lams, the first of equals."""
    points = [point for point in grid if point[0] in lams]
    best = min(points, key=lambda point: grid[point])
    return Choice(*best, grid[best][0])


# -------------------------------------------------------------------- table 1


def table_row(
    train: MultiTaskData,
    test: MultiTaskData,
    true: np.ndarray | None = None,
    gammas: Sequence[float] = GAMMAS,
    seed: int = 1,
) -> dict[str, Any]:
    """Every method on one group of tasks by the paper's protocol: errors by task, and what was chosen.

    Parameters
    ----------
    train, test : MultiTaskData
        Labels; the last training row of each task validates, and then trains.
    true : (D, D) array_like, optional
        The covariance that the tasks were drawn with.
    gammas : sequence of float
        Grid of the machines that validation tunes.
    seed : int
    """
    part, held_out = validation(train)
    result: dict[str, Any] = {}

    def add(method: str, W: np.ndarray, **parameters: float) -> None:
        result[method] = {"errors": errors(test, W).tolist(), "parameters": parameters}

    def tuned(method: str, fit: Callable[..., np.ndarray], grid: Grid, lams: Sequence[float]) -> Choice:
        """``fit(lam, gamma)`` to all training rows, at the best point of the grid."""
        best = choose(grid, lams)
        add(method, fit(best.lam, best.gamma), lam=best.lam, gamma=best.gamma)
        return best

    def machines(rows: MultiTaskData, Q: np.ndarray | None = None) -> Callable[[float, float], np.ndarray]:
        return lambda lam, gamma: machine(rows, lam, gamma, Q)

    pooled = search(lambda _, gamma: one_machine(part, gamma), held_out, (1.0,), gammas)
    tuned("one", lambda _, gamma: one_machine(train, gamma), pooled, (1.0,))
    # By the test rows, as in the paper: "it only gave our competitor an advantage".
    fits = [machine(train, 1.0, gamma) for gamma in SINGLE_GAMMAS]
    best = int(np.argmin([errors(test, W).mean() for W in fits]))
    add("individual", fits[best], gamma=SINGLE_GAMMAS[best])
    grid = search(machines(part), held_out, (*FINE_LAMBDAS, 1.0), gammas)
    tuned("individual-validated", machines(train), grid, (1.0,))
    tuned("identity-fine", machines(train), grid, FINE_LAMBDAS)
    identity = tuned("identity", machines(train), grid, LAMBDAS)

    first = principal_components(train, identity.lam, identity.gamma, 1)
    add("pca-first", first.coefficients[0], rank=int(np.linalg.matrix_rank(first.metrics[0], tol=1e-8)))
    tries = principal_components(part, identity.lam, identity.gamma).coefficients
    steps = 1 + int(np.argmin([errors(held_out, W).mean() for W in tries]))
    found = principal_components(train, identity.lam, identity.gamma, steps)
    rank = int(np.linalg.matrix_rank(found.metrics[-1], tol=1e-8))
    add("pca", found.coefficients[-1], iterations=len(found.metrics), rank=rank)

    metric, W = evidence(train, seed)
    add("square", W)
    # The rows that choose lam and gamma have no part in the Q that they are chosen with.
    before, _ = evidence(part, seed)
    tuned(
        "learned", machines(train, metric), search(machines(part, before), held_out, LAMBDAS, gammas), LAMBDAS
    )
    if true is not None:
        known = np.asarray(true) * (len(true) / np.trace(true))
        tuned(
            "true", machines(train, known), search(machines(part, known), held_out, LAMBDAS, gammas), LAMBDAS
        )
    return result


# -------------------------------------------------------------------- figures 1 and 2


def along(
    groups: Sequence[tuple[MultiTaskData, MultiTaskData]],
    lams: Sequence[float],
    gammas: Sequence[float] = GAMMAS,
    metrics: Sequence[np.ndarray] | None = None,
) -> list[dict[str, float]]:
    """Test error for each lam, in percent over all groups; one gamma for all, by one validation row per task.

    Groups of two tasks have two such rows, and over all groups and lam there are enough to tell one gamma from another.
    """
    parts = [validation(train) for train, _ in groups]
    Qs = [None] * len(groups) if metrics is None else list(metrics)
    held = {}
    for gamma in gammas:
        found = [
            _held_out(rest, machine(part, lam, gamma, Q))
            for lam in lams
            for (part, rest), Q in zip(parts, Qs, strict=True)
        ]
        held[gamma] = tuple(np.mean(found, axis=0))
    best = min(held, key=lambda gamma: held[gamma])
    table = []
    for lam in lams:
        wrong = [
            errors(test, machine(train, lam, best, Q)) for (train, test), Q in zip(groups, Qs, strict=True)
        ]
        table.append({"lam": lam, "gamma": best, "error": 100.0 * float(np.concatenate(wrong).mean())})
    return table


# -------------------------------------------------------------------- ratings


def ratings(train: MultiTaskData, test: MultiTaskData, seed: int) -> dict[str, Mapping[str, Any]]:
    """The square loss on the ratings themselves: RMSE of each person, everything else by marginal likelihood."""
    rows = train.standardize()
    shared: dict[str, Any] = {
        "method": "exact",
        "draws": 1,
        "chains": 1,
        "random_seed": seed,
        "progress": False,
    }
    result: dict[str, Mapping[str, Any]] = {}

    def add(name: str, data: MultiTaskData, at: MultiTaskData, **fields: Any) -> Any:
        fit = MultiTaskKernelMachine(**fields).fit(data, **shared)
        mean = fit.predict(at, random_seed=seed)["mean"].to_numpy()
        square = np.bincount(test.task, (test.y - mean) ** 2) / np.bincount(test.task)
        result[name] = {"rmse": np.sqrt(square).tolist(), "scores": scores(test, mean)}
        return fit

    one, at = (
        MultiTaskData.from_arrays(
            part.X, part.y, np.full(part.n_rows, "everybody"), feature_names=part.feature_names
        )
        for part in (train, test)
    )
    add("one", one.standardize(), at, lam=1.0)
    add("individual", rows, test, lam=1.0)
    identity = add("identity", rows, test)
    add("pca", rows, test, Q=pca_metric(coefficients(identity)))
    add("learned", rows, test, Q="learned")
    return result

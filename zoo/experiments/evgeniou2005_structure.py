"""Tasks whose structure a kernel knows, or gets wrong: a table for eqs (27), (30) and (33), which is not in the paper.

A world draws tasks with a structure. Kernels that are told it, kernels that are told another, and (22) fit them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations_with_replacement
from math import factorial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

from zoo import datasets
from zoo.data.multitask import MultiTaskData
from zoo.experiments import conjoint
from zoo.kernels import Clustered, FeatureMap, GraphLaplacian, MeanRegularised
from zoo.models.kernel_machine.model import MultiTaskKernelMachine
from zoo.support.runner import Job

__all__ = ["POLYNOMIALS", "STRUCTURES", "WORLDS", "structure_jobs", "structure_table", "structure_text"]

_REFERENCE = "(22)"
_NAME = "structure-{}-{:02d}"
# Rows to learn from: of linear tasks, and of those with products of two features, of which there are many.
_T, _D, _LINEAR, _QUADRATIC, _TEST, _NOISE = 20, 5, 10, 15, 50, 1.0
_GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

Kernels = dict[str, tuple[Any, Sequence[str]]]
Base = tuple[int, float] | None


class Tasks(NamedTuple):
    """Rows, the functions at the test rows, what (22) multiplies, and further kernels with what each of them learns."""

    train: MultiTaskData
    test: MultiTaskData
    truth: np.ndarray
    kernels: Kernels
    base: Base = None


# ---------------------------------------------------------------- worlds


def _rows(
    rng: np.random.Generator, f: Callable[[np.ndarray, np.ndarray], np.ndarray], n_train: int
) -> tuple[MultiTaskData, MultiTaskData, np.ndarray]:
    """Training and test rows of tasks with the functions ``f(X, task)``, and their values at the test rows."""
    task = np.repeat(np.arange(_T), n_train + _TEST)
    X = rng.standard_normal((len(task), _D))
    values = f(X, task)
    rows = MultiTaskData.from_arrays(X, values + _NOISE * rng.standard_normal(len(task)), task)
    first = np.arange(len(task)) % (n_train + _TEST) < n_train
    return rows.take(first), rows.take(~first), values[~first]


def _powers(X: np.ndarray, degree: int) -> np.ndarray:
    """The features, or all products of two of them, (n, D^degree)."""
    return X if degree == 1 else np.einsum("nd,ne->nde", X, X).reshape(len(X), -1)


def _dot(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Products of each row's vector or matrix with its vector."""
    return np.asarray(np.einsum("n...d,nd->n...", A, x))


def _near_the_mean(base: Base, n_tasks: int = _T, lam: float = 0.5) -> Any:
    """Kernel (22) on a polynomial of that degree and offset, or on the linear kernel."""
    kernel = None if base is None else pm.gp.cov.Polynomial(_D, c=0.0, d=float(base[0]), offset=base[1])
    return MeanRegularised(_D + 1, n_tasks, lam=lam, base=kernel)


def _told(pair: Iterable[Any], learn: Sequence[str] = (), base: Base = None) -> Kernels:
    """The kernel that is told the truth and the one that is not, alone and added to (22)."""
    kernels = {}
    for name, kernel in zip(("true", "wrong"), pair, strict=True):
        kernels[name] = (kernel, learn)
        kernels[f"{_REFERENCE} + {name}"] = (1.0 * kernel + _near_the_mean(base), ("scale", *learn, "lam"))
    return kernels


def _groups(rng: np.random.Generator) -> Tasks:
    """Linear tasks in four groups."""
    rows, truth = datasets.simulate_groups(4, _T // 4, _D, _LINEAR + _TEST, 0.3, _NOISE, random_seed=rng)
    first = np.arange(rows.n_rows) % (_LINEAR + _TEST) < _LINEAR
    f = _dot(rows.X, truth["coefficients"].to_numpy().T[rows.task])[~first]
    group = np.repeat(np.arange(4), _T // 4)
    pair = (Clustered(_D + 1, clusters) for clusters in (group, rng.permutation(group)))
    return Tasks(rows.take(first), rows.take(~first), f, _told(pair, ("rho",)))


def _chain(rng: np.random.Generator) -> Tasks:
    """Linear tasks in a row; their coefficients move smoothly about a mean, more smoothly than (30) has it."""
    apart = np.abs(np.subtract.outer(np.arange(_T), np.arange(_T)))
    root = np.linalg.cholesky(np.exp(-0.5 * (apart / 4.0) ** 2) + 1e-8 * np.eye(_T))
    W = rng.standard_normal((1, _D)) + root @ rng.standard_normal((_T, _D))
    graph, order = (apart == 1).astype(np.float64), rng.permutation(_T)
    pair = (GraphLaplacian(_D + 1, edges) for edges in (graph, graph[np.ix_(order, order)]))
    rows = _rows(rng, lambda X, task: _dot(X, W[task]), _LINEAR)
    return Tasks(*rows, _told(pair))


def _maps(rng: np.random.Generator, degree: int) -> Tasks:
    """One function of features that each task sees in its own units and directions, and a little of the task's own."""
    turned = np.linalg.qr(rng.standard_normal((_T, _D, _D)))[0]
    B = turned * np.exp(0.5 * rng.standard_normal((_T, 1, _D)))
    w, own = rng.standard_normal(_D**degree), 0.2 * rng.standard_normal((_T, _D**degree))

    def f(X: np.ndarray, task: np.ndarray) -> np.ndarray:
        return (_powers(_dot(B[task], X), degree) @ w + _dot(_powers(X, degree), own[task])) / degree

    rows = _rows(rng, f, _LINEAR if degree == 1 else _QUADRATIC)
    base = None if degree == 1 else (degree, 0.0)
    # The maps of the next task say nothing about a task.
    pair = (FeatureMap(_D + 1, maps, degree=degree) for maps in (B, np.roll(B, 1, axis=0)))
    return Tasks(*rows, _told(pair, base=base), base)


def _products(rng: np.random.Generator, size: float) -> Tasks:
    """Tasks near their mean, with products of two features as large as ``size`` says."""
    W, A = (rng.standard_normal(n) + 0.3 * rng.standard_normal((_T, n)) for n in (_D, _D**2))
    rows = _rows(rng, lambda X, task: _dot(X, W[task]) + size * _dot(_powers(X, 2), A[task]), _QUADRATIC)
    kernels: Kernels = {}
    for r in (2, 3):
        kernels[f"single tasks, degree {r}"] = (_near_the_mean((r, 1.0), lam=1.0), ())
        kernels[f"{_REFERENCE}, degree {r}"] = (_near_the_mean((r, 1.0)), ("lam",))
    return Tasks(*rows, kernels, (1, 1.0))


STRUCTURES: dict[str, tuple[str, Any]] = {
    "groups": ("(27): four groups", _groups),
    "chain": ("(30): a chain", _chain),
    "maps": ("(33): mapped features, r = 1", partial(_maps, degree=1)),
    "squares": ("(33): mapped features, r = 2", partial(_maps, degree=2)),
}
# A number is of choices of the customers.
POLYNOMIALS: dict[str, tuple[str, Any]] = {
    "products": ("tasks with products of features", partial(_products, size=0.5)),
    "no-products": ("tasks without products", partial(_products, size=0.0)),
    "customers20": ("customers, 20 choices, %", 20),
    "customers60": ("customers, 60 choices, %", 60),
}
WORLDS = STRUCTURES | POLYNOMIALS


# ---------------------------------------------------------------- jobs


def _fit(rows: Iterable[MultiTaskData], truth: np.ndarray, kernel: Any, learn: Any = ()) -> dict[str, float]:
    """RMSE from the functions, and the evidence, of which amplitude and noise are learned, too."""
    train, test = rows
    model = MultiTaskKernelMachine(kernel=kernel, learn=tuple(learn))
    fit = model.fit(train, method="exact", draws=1, chains=1, random_seed=1, progress=False)
    apart = fit.predict(test, random_seed=1)["mean"].to_numpy() - truth
    evidence = fit.idata["sample_stats"]["log_evidence"].to_numpy()
    return {"error": float(np.sqrt(np.mean(apart**2))), "evidence": float(evidence.squeeze())}


def _run_tasks(world: str, repeat: int) -> dict[str, Any]:
    """Job: all kernels on one repeat of a world."""
    tasks: Tasks = WORLDS[world][1](np.random.default_rng([2005, list(WORLDS).index(world), repeat]))
    rows, base = tasks[:2], tasks.base
    pooled = (MultiTaskData.from_arrays(part.X, part.y, ["one"] * part.n_rows) for part in rows)
    kernels: Kernels = {"single tasks": (_near_the_mean(base, lam=1.0), ())}
    kernels |= {_REFERENCE: (_near_the_mean(base), ("lam",))} | tasks.kernels
    result = {"one for all": _fit(pooled, tasks.truth, _near_the_mean(base, 1, 1.0))}
    return result | {name: _fit(rows, tasks.truth, *kernel) for name, kernel in kernels.items()}


def _monomials(X: np.ndarray, degree: int) -> np.ndarray:
    """Features whose inner product is ``(x't)^degree``, without those that are 0 in all rows."""
    columns = []
    for factors in combinations_with_replacement(range(X.shape[1]), degree):
        if (column := np.prod(X[:, factors], axis=1)).any():
            repeated = np.prod([factorial(factors.count(d)) for d in set(factors)])
            columns.append(np.sqrt(factorial(degree) / repeated) * column)
    return np.column_stack(columns)


def _run_customers(choices: int, repeat: int, customers: int) -> dict[str, Any]:
    """Job: machines of degree 1 to 3 on a panel of customers, chosen by the last quarter of each one's choices."""
    rows, _ = conjoint.customers(repeat, customers)
    place = np.arange(rows.n_rows) % (rows.n_rows // rows.n_tasks)
    result = {}
    for degree in (1, 2, 3):
        X = _monomials(rows.X, degree)
        # As large as those of degree 1, so that one grid of gamma serves all.
        X *= np.linalg.norm(rows.X) / np.linalg.norm(X)
        data = MultiTaskData.from_arrays(X, rows.y, rows.task)
        train, test = data.take(place < choices), data.take(place >= choices)
        late = place[place < choices] >= 0.75 * choices
        part, held_out = train.take(~late), train.take(late)
        grid = conjoint.search(partial(conjoint.machine, part), held_out, (*conjoint.LAMBDAS, 1.0), _GAMMAS)
        for name, lams in (("single tasks", (1.0,)), (_REFERENCE, conjoint.LAMBDAS)):
            best = conjoint.choose(grid, lams)
            wrong = conjoint.errors(test, conjoint.machine(train, best.lam, best.gamma))
            name += f", degree {degree}" * (degree > 1)
            result[name] = {"error": 100.0 * float(wrong.mean()), "lam": best.lam, "gamma": best.gamma}
    return result


def structure_jobs(repeats: int, customers: int) -> list[Job]:
    """One job per world and repeat; ``customers`` are those of a panel."""
    jobs = []
    for world, (_, made) in WORLDS.items():
        given = {"choices": made, "customers": customers} if isinstance(made, int) else {"world": world}
        run = _run_customers if isinstance(made, int) else _run_tasks
        jobs += [Job(_NAME.format(world, i), run, {**given, "repeat": i}) for i in range(1, repeats + 1)]
    return jobs


# ---------------------------------------------------------------- tables


def structure_table(results: Mapping[str, Mapping[str, Any]], repeats: int) -> pd.DataFrame:
    """One row per world and method: the mean error over repeats, and ``difference``, what it has more than (22).

    ``se`` is the standard error of the difference, paired over repeats; ``evidence`` is the mean of the log evidence
    less that of (22), NaN for the customers.
    """
    rows = []
    for world in WORLDS:
        found = [results[name] for i in range(1, repeats + 1) if (name := _NAME.format(world, i)) in results]
        for method in found[0] if found else ():
            both = ([one[name] for one in found] for name in (method, _REFERENCE))
            own, base = (pd.DataFrame(numbers, columns=["error", "evidence"]) for numbers in both)
            apart, row = own - base, {"world": world, "method": method, "repeats": len(found)}
            row |= {"error": own["error"].mean(), "difference": apart["error"].mean()}
            rows.append(row | {"se": apart["error"].sem(), "evidence": apart["evidence"].mean()})
    return pd.DataFrame(rows).set_index(["world", "method"]) if rows else pd.DataFrame()


def structure_text(table: pd.DataFrame, worlds: Iterable[str], evidence: bool = False) -> pd.DataFrame:
    """A part of the table as it is printed: what methods have more than (22), of errors or of the log evidence."""
    texts: dict[str, dict[str, str]] = {}
    for row in table[table.index.isin(list(worlds), level=0)].reset_index().to_dict("records"):
        title, made = WORLDS[row["world"]]
        digits = 1 if evidence or isinstance(made, int) else 2
        text = f"{row['evidence' if evidence else 'difference']:+z.{digits}f}"
        if not (evidence or np.isnan(row["se"])):
            text += f" ({row['se']:.{digits}f})"
        text = f"{row['error']:.{digits}f}" if row["method"] == _REFERENCE else text
        texts.setdefault(title, {})[row["method"]] = text
    frame = pd.DataFrame(texts).T.fillna("").rename_axis("tasks")
    return frame.drop(columns=[_REFERENCE] if evidence else [], errors="ignore")

"""Kernel machines of many tasks, against the same model without its structure.

    python benchmarks/kernels.py [--school] [--marginal] [--hinge] [--variance] [--aligned]

--school: all 15,362 rows of School, kernel (22) of Evgeniou, Micchelli & Pontil (2005), square loss; lam, amplitude and
noise learned: seconds to fit (4 x 1,000 draws of 139 x 28 coefficients among them) and to predict all rows.
--marginal: beside it one value of the log marginal likelihood of ``pm.gp.Marginal`` with the same kernel on the same
rows. An optimiser needs dozens, with derivatives. 6 GB.
--hinge: the mode of the hinge loss on School (is a score above the median?), against scikit-learn's LinearSVC on the
same augmented features, ready made; same tolerance.
--variance: pooled explained variance of the ten published splits, everything learned from the training rows.
--aligned: 20 tasks with the same 100 inputs, Matern kernel: the eigenvalues of the two factors against all 2,000 rows.
Imports and first calls are left out. Times are of one run each, ratios of the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from scipy.stats import multivariate_normal

import zoo
from zoo.kernels import MeanRegularised, kernel_matrix
from zoo.latent.support_vectors import task_features
from zoo.models.kernel_machine import methods as kernel_machine
from zoo.models.kernel_machine import sides as kernel_sides
from zoo.models.kernel_machine import spaces as kernel_spaces


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The answer and its seconds."""
    started = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - started


def count_evaluations(machine: zoo.MultiTaskKernelMachine, data: zoo.MultiTaskData) -> int:
    """Values of the evidence that the search takes, each with its derivative."""
    space = kernel_sides.space_of(machine, machine.design(data), data.y)
    original, calls = kernel_machine.log_evidence, []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    kernel_machine.log_evidence = counted
    try:
        kernel_machine.maximal_evidence(space, False, 200)
    finally:
        kernel_machine.log_evidence = original
    return len(calls)


def school(marginal: bool) -> None:
    """Fit and predictions of all rows; one evaluation of the dense likelihood."""
    data = zoo.datasets.load_school().standardize()
    machine = zoo.MultiTaskKernelMachine()
    machine.fit(data, "exact", draws=2, chains=1, random_seed=1, progress=False)
    fit, fitting = timed(lambda: machine.fit(data, "exact", random_seed=1, progress=False))
    evaluations = count_evaluations(machine, data)
    _, predicting = timed(lambda: fit.predict(data))
    draw = fit.posterior.isel(chain=0, draw=0)
    numbers = {name: float(draw[name]) for name in ("lam", "amplitude", "noise")}
    found = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
    evidence = float(fit.idata["sample_stats"]["log_evidence"][0, 0])
    print(
        f"School, {data.n_rows:,} rows: fit {fitting:.2f} s, predictions {predicting:.2f} s; {found}; "
        f"log evidence {evidence:.4f}"
    )
    if not marginal:
        return
    X = np.column_stack([data.X, data.task])
    with pm.Model() as model:
        variables = {name: pm.Flat(name) for name in numbers}
        kernel = variables["amplitude"] ** 2 * MeanRegularised(X.shape[1], data.n_tasks, lam=variables["lam"])
        gp = pm.gp.Marginal(cov_func=kernel)
        gp.marginal_likelihood("y", X, data.y, sigma=variables["noise"])
    function, compiling = timed(lambda: model.compile_logp(vars=[model["y"]], sum=True))
    value, once = timed(lambda: float(function(numbers)))
    print(
        f"pm.gp.Marginal: one log density {value:.4f} in {once:.1f} s (compiled in {compiling:.1f} s): "
        f"{once / (fitting + predicting):.0f} times our fit and predictions, whose search took {evaluations} of them "
        f"with derivatives: at least {evaluations * once / (fitting + predicting):,.0f} times"
    )


def hinge() -> None:
    """The mode under the hinge loss against liblinear alone."""
    from sklearn.svm import LinearSVC

    data = zoo.datasets.load_school().standardize()
    labels = zoo.MultiTaskData.from_arrays(
        data.X, np.where(data.y > np.median(data.y), 1.0, -1.0), data.task, task_names=data.task_names
    )
    lam, C = 0.01, 0.05
    machine = zoo.MultiTaskKernelMachine(likelihood=zoo.Hinge(C=C), lam=lam, amplitude=1.0)
    machine.fit(labels, "map", tol=1.0, random_seed=0, progress=False)
    for tol in (1e-3, 1e-5):
        fit, ours = timed(lambda tol=tol: machine.fit(labels, "map", tol=tol, random_seed=0, progress=False))
        space = kernel_sides.space_of(machine, machine.design(labels), machine.validate(labels))
        features = task_features(labels.X, labels.task, space.numbers(space.coordinates.start))
        svm = LinearSVC(C=2 * C, loss="hinge", tol=tol, fit_intercept=False, max_iter=100_000, random_state=0)
        _, theirs = timed(lambda svm=svm, features=features: svm.fit(features, labels.y))
        w = svm.coef_.ravel()
        objective = 2 * C * np.maximum(0, 1 - labels.y * (features @ w)).sum() + 0.5 * w @ w
        mine = fit.idata["sample_stats"]["objective"].item()
        print(
            f"hinge, {labels.n_rows:,} rows, tol {tol:g}: {ours:.2f} s, liblinear alone {theirs:.2f} s, ratio "
            f"{ours / theirs:.2f}; objectives {mine:.6f} and {objective:.6f}"
        )


def variance() -> None:
    """Explained variance of the ten splits."""
    scores: dict[str, list[float]] = {}
    for split in range(1, 11):
        train, test = zoo.datasets.load_school(split=split)
        data = train.standardize()
        machines = {
            "lam learned": zoo.MultiTaskKernelMachine(),
            "lam and Q learned": zoo.MultiTaskKernelMachine(Q="learned"),
        }
        for name, machine in machines.items():
            fit = machine.fit(data, "exact", draws=2, chains=1, random_seed=1, progress=False)
            mean = fit.predict(test)["mean"].to_numpy()
            explained = 1.0 - np.sum((test.y - mean) ** 2) / np.sum((test.y - test.y.mean()) ** 2)
            scores.setdefault(name, []).append(100.0 * explained)
    for name, values in scores.items():
        spread = np.std(values, ddof=1)
        print(
            f"School, explained variance (pooled, %), {name}: {np.mean(values):.2f} (sd over splits {spread:.2f})"
        )


def aligned() -> None:
    """The eigenvalue form against function values at all rows."""
    rng = np.random.default_rng(1)
    n, T = 100, 20
    X = rng.normal(size=(n, 2))
    kernel = MeanRegularised(3, T, lam=0.3, base=pm.gp.cov.Matern52(2, ls=1.0))
    machine = zoo.MultiTaskKernelMachine(kernel=kernel, learn=("lam", "ls"))
    points = np.column_stack([np.tile(X, (T, 1)), np.repeat(np.arange(T), n)])
    K = kernel_matrix(kernel, points)
    y = multivariate_normal(cov=K + 0.3 * np.eye(n * T), allow_singular=True).rvs(random_state=2)
    data = zoo.MultiTaskData.from_multilabel(X, y.reshape(T, n).T)
    rows = machine.design(data)
    found = {}
    for kind in (kernel_spaces.AlignedSpace, kernel_spaces.FunctionSpace):
        space = kind(machine, rows, data.y)
        z = space.coordinates.start
        kernel_machine.log_evidence(space, z)
        (value, gradient), seconds = timed(lambda space=space, z=z: kernel_machine.log_evidence(space, z))
        found[kind.__name__] = (value, np.abs(gradient).max(), seconds)
    (one, _, fast), (two, _, slow) = found.values()
    print(
        f"aligned, {n} inputs x {T} tasks: evidence and derivative {fast * 1e3:.1f} ms, at all rows {slow:.2f} s: "
        f"{slow / fast:.0f} times; values {one:.6f} and {two:.6f}"
    )


def main() -> None:
    """Run what the command line asks for; everything if it asks for nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("school", "marginal", "hinge", "variance", "aligned")
    for name in names:
        parser.add_argument(f"--{name}", action="store_true")
    asked = parser.parse_args()
    everything = not any(getattr(asked, name) for name in names)
    if asked.school or asked.marginal or everything:
        school(asked.marginal or everything)
    for name, call in (("hinge", hinge), ("variance", variance), ("aligned", aligned)):
        if getattr(asked, name) or everything:
            call()


if __name__ == "__main__":
    main()

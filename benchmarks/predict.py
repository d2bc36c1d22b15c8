"""Predictions of many rows: seconds that ``fit.predict`` takes, by factory and likelihood.

    python benchmarks/predict.py [--rows 10000 100000] [--only NIWLinear] [--more]

Every registered factory is fitted by its default method to 30 simulated tasks of 40 rows and 5 features, with a place
t where the factory needs one, and keeps 4 x 1,000 draws. The warm-up is short, since the cost of a prediction does not
depend on it. Then rows of the known tasks and of 100 new tasks are predicted, with intervals. Times are seconds of a
second call, and in brackets those of all processors together, which say more where a machine is shared; ``peak`` is
the most memory that the process held. Every line is a process of its own.
With ``--more`` other likelihoods follow.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

import zoo

TASKS, ROWS, FEATURES, NEW = 30, 40, 5, 100
RUN = {"draws": 1000, "chains": 4, "random_seed": 1, "progress": False}
# Likelihoods beside that of each factory; "" is the default.
LIKELIHOODS = ("", "logistic", "gaussian", "student_t")
MORE = ("epsilon_insensitive", "poisson", "negative_binomial", "ordinal", "probit", "laplace_noise")
OF_LABELS = ("logistic", "probit", "hinge")
OF_COUNTS = ("poisson", "negative_binomial")
WITH_T = ("VaryingCoefficientGP", "NonisotropicVaryingCoefficients", "PooledGP", "KernelLocalSmoothing")


def simulate(word: str, with_t: bool) -> zoo.MultiTaskData:
    """Linear tasks with responses for a likelihood."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), ROWS)
    X = rng.standard_normal((len(task), FEATURES))
    f = np.einsum("nd,nd->n", X, 0.4 * rng.standard_normal((TASKS, FEATURES))[task])
    noisy = f + 0.3 * rng.standard_normal(len(task))
    y = noisy
    if word in OF_LABELS:
        y = np.where(noisy > 0.0, 1.0, -1.0)
    elif word in OF_COUNTS:
        y = rng.poisson(np.exp(0.5 * f)).astype(float)
    elif word == "ordinal":
        y = 1.0 + np.sum(noisy > np.array([[-0.5], [0.5]]), axis=0)
    t = rng.uniform(size=(len(task), 2)) if with_t else None
    return zoo.MultiTaskData.from_arrays(X, y, task, t=t)


def factory_of(name: str, word: str) -> Any:
    """The factory with a likelihood, or None where it has no such field or does not take it."""
    try:
        return getattr(zoo, name)(**({"likelihood": word} if word else {}))
    except (TypeError, ValueError):
        return None


def cases(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names of factories and of likelihoods, each likelihood once."""
    found = []
    for name in zoo.list_models().index:
        own = factory_of(name, "").likelihood.word
        found += [(name, w) for w in words if w != own and factory_of(name, w) is not None]
    return found


def measured(name: str, word: str, sizes: list[int]) -> dict[str, Any]:
    """Seconds of each prediction."""
    factory = factory_of(name, word)
    with_t = name in WITH_T
    data = simulate(factory.likelihood.word, with_t)
    options = {"tune": 200} if factory.default_method(data) in ("gibbs", "nuts") else {}
    fit = factory.fit(data, **RUN, **options)
    found: dict[str, Any] = {"method": fit.method}
    rng = np.random.default_rng(1)
    for size in sizes:
        X = rng.standard_normal((size, FEATURES))
        t = rng.uniform(size=(size, 2)) if with_t else None
        for new in (False, True):
            names = [f"new {i}" for i in range(NEW)] if new else data.task_names
            task = np.asarray(names)[rng.integers(len(names), size=size)].tolist()
            key = f"{size:,} rows{' of new tasks' if new else ''}"
            try:
                fit.predict(
                    X[:200], task[:200], t=None if t is None else t[:200], new_task=new, random_seed=1
                )
                start, used = time.perf_counter(), time.process_time()
                fit.predict(X, task, t=t, new_task=new, random_seed=1)
                spent = time.perf_counter() - start, time.process_time() - used
                found[key] = f"{spent[0]:.2g} ({spent[1]:.2g})"
            except Exception as error:
                found[key] = type(error).__name__
                print(f"{name} {word}: {error}", file=sys.stderr)
    return {**found, "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def line(name: str, word: str, sizes: list[int]) -> dict[str, Any]:
    """The same, in a process of its own; empty where that ends with an error."""
    command = [sys.executable, __file__, "--line", name, word, "--rows", *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return dict(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else {}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of factories")
    parser.add_argument("--words", nargs="*", help="likelihoods")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--line", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.line:
        warnings.simplefilter("ignore")
        print(json.dumps(measured(*arguments.line, arguments.rows)))
        return
    keys = [f"{n:,} rows{of}" for n in arguments.rows for of in ("", " of new tasks")] + ["peak GB"]
    print(f"| factory | likelihood | method | {' | '.join(keys)} |\n|---|---|---|{'---|' * len(keys)}")
    words = tuple(arguments.words or ()) or LIKELIHOODS + (MORE if arguments.more else ())
    for name, word in cases(words):
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        found = line(name, word, arguments.rows)
        cells = [f"{v:.2g}" if isinstance(v := found.get(key, ""), float) else v for key in keys]
        said = word or factory_of(name, "").likelihood.word
        print(f"| {name} | {said} | {found.get('method', '')} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

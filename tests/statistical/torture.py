"""Every sampler on data that are hard on samplers: ``python -m tests.statistical.torture --folder torture``.

A job is a case of ``torture_cases``, a factory with its fields, and a method whose draws claim the
exact posterior. It tells the truth where R-hat and the effective sample sizes of all entries are
within the limits, or where the fit warned. Each job runs in a process of its own, and its result is
kept in the folder, so that the same call goes on after a kill. ``--draws 2000`` doubles draws and warm-up, and takes
a folder of its own. At the end stands a table, and the
exit status is 1 if a job failed, or was out of bounds without a word.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from tests.statistical.torture_cases import CASES, Sample, simulate
from zoo.core.convergence import LARGEST_R_HAT, LEAST_ESS
from zoo.inference.run.mixing import mixing
from zoo.registry import get_factory

__all__ = ["SUBJECTS", "Job", "Subject", "all_jobs", "run_job", "tells_the_truth"]

# What a fit may refuse, with a message: no mistake of the sampler.
_REFUSALS = ("ValueError", "UnsupportedMethodError", "InsufficientMemoryError")
_SHOWN = 20


@dataclass(frozen=True)
class Subject:
    """A factory with fields, the responses that it is for, and how many rows it can take in time."""

    model: str
    fields: dict[str, Any]
    kind: str
    most_rows: int | None = None

    @property
    def factory(self) -> zoo.ModelFactory:
        return get_factory(self.model)(**self.fields)

    @property
    def name(self) -> str:
        return f"{self.model}({', '.join(f'{k}={v}' for k, v in self.fields.items())})"

    def methods(self) -> list[str]:
        """Methods whose draws claim the exact posterior."""
        factory = self.factory
        return [m.name for m in factory.method_table() if m.exact and m.name in factory.methods]


_TUBE = {"likelihood": zoo.EpsilonInsensitive(C=3.0)}
SUBJECTS = (
    Subject("MaxMargin", _TUBE, "real"),
    Subject("MaxMargin", {"likelihood": "hinge"}, "labels"),
    Subject("NonparametricMaxMargin", _TUBE, "real"),
    Subject("NonparametricMaxMargin", {"likelihood": "hinge"}, "labels"),
    Subject("HierarchicalLinear", {}, "real"),
    Subject("HierarchicalLinear", {"likelihood": "logistic"}, "labels"),
    Subject("NIWLinear", {}, "real"),
    Subject("NIWLinear", {"likelihood": "logistic"}, "labels"),
    # A sweep takes O(T n^3) for n rows, and a draw holds n^2 numbers.
    Subject("NIWGaussianProcess", {}, "real", 60),
    Subject("MultiTaskKernelMachine", {}, "real"),
    Subject("MultiTaskKernelMachine", {"likelihood": "hinge"}, "labels"),
    Subject("MultiTaskKernelMachine", {"likelihood": "logistic"}, "labels"),
    Subject("MultiLaplaceGP", {}, "real", 150),
    Subject("MultiLaplaceGP", {"prior": "horseshoe"}, "real", 150),
    Subject("KernelLocalSmoothing", {}, "real", 100),
    Subject("VaryingCoefficientGP", {}, "real", 100),
    Subject("NonisotropicVaryingCoefficients", {}, "real", 60),
    Subject("PooledGP", {}, "real", 100),
    Subject("IndependentTasks", {}, "real"),
    Subject("IndependentTasks", {"likelihood": "logistic"}, "labels"),
    Subject("PooledTasks", {}, "real"),
    Subject("PooledTasks", {"likelihood": "logistic"}, "labels"),
)
# Models that take places, though they can do without.
_AT_PLACES = ("KernelLocalSmoothing", "VaryingCoefficientGP", "NonisotropicVaryingCoefficients", "PooledGP")


@dataclass(frozen=True)
class Job:
    """A case, what is fitted to it, and how."""

    case: str
    subject: Subject
    method: str
    settings: dict[str, Any] = field(
        default_factory=lambda: {"draws": 1000, "tune": 1000, "chains": 4, "random_seed": 1}
    )

    @property
    def name(self) -> str:
        return f"{self.case}-{self.subject.name}-{self.method}"

    @property
    def file(self) -> str:
        """Name of the file that its result is kept in."""
        return f"{re.sub(r'[^A-Za-z0-9.-]+', '_', self.name)}.json"

    @property
    def sample(self) -> Sample:
        s = self.subject
        return simulate(self.case, s.kind, places=s.model in _AT_PLACES, most_rows=s.most_rows)


def all_jobs() -> Iterator[Job]:
    """Every case with every subject of its kind and each of the exact methods."""
    for subject in SUBJECTS:
        for method in subject.methods():
            for case, (_, kinds) in CASES.items():
                if subject.kind in kinds:
                    yield Job(case, subject, method)


# ---------------------------------------------------------------- one job


def run_job(job: Job) -> dict[str, Any]:
    """Fit, and look at the draws and at predictions; what went wrong is a part of the result."""
    sample = job.sample
    factory = job.subject.factory
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            fit = factory.fit(sample.train, job.method, progress=False, **job.settings)
        except Exception as error:  # whatever it is, it belongs into the table
            refused = type(error).__name__ in _REFUSALS
            return {
                "outcome": "refused" if refused else "failed",
                "error": f"{type(error).__name__}: {error}",
            }
        seconds = time.perf_counter() - start
        table = fit.diagnostics()
        truth = true_to_the_data(fit, sample)
        functions = fit.predict_draws(sample.test, random_seed=1)["f"].transpose("obs", "chain", "draw")
    said = [w for w in caught if issubclass(w.category, zoo.ConvergenceWarning)]
    others = {f"{w.category.__name__}: {w.message}"[:300] for w in caught if w not in said}
    least = LEAST_ESS * job.settings["chains"]
    ess = table[["ess_bulk", "ess_tail"]].min(axis=1)
    out = (table["r_hat"] > LARGEST_R_HAT) | (ess < least)
    stats = fit.idata["sample_stats"] if "sample_stats" in fit.idata else {}
    by_variable = table.index[out].str.split("[").str[0].value_counts()
    return {
        "outcome": "fitted",
        "entries": len(table),
        "r_hat": float(table["r_hat"].max()),
        "r_hat_name": str(table["r_hat"].idxmax()),
        "ess": float(ess.min()),
        "ess_name": str(ess.idxmin()),
        "ess_bulk": float(table["ess_bulk"].min()),
        # Of functions at test rows: what coefficients that the data leave open do not change.
        "ess_of_functions": float(mixing(functions.to_numpy()).ess_bulk.min()),
        "out_of_bounds": int(out.sum()),
        "out_by_variable": {str(k): int(v) for k, v in by_variable.items()},
        "divergences": int(stats["diverging"].sum()) if "diverging" in stats else 0,
        "seconds": seconds,
        "warned": bool(said),
        "message": str(said[0].message) if said else "",
        "other_warnings": sorted(others),
        "truth": truth,
        "worst": [
            [str(name), *(round(float(v), 4) for v in row)]
            for name, row in zip(table.index[:_SHOWN], table.to_numpy()[:_SHOWN], strict=True)
        ],
    }


def true_to_the_data(fit: zoo.Fit, sample: Sample) -> dict[str, float]:
    """Cover of 90 % intervals of real responses; the log loss of labels and that of the truth."""
    predicted = fit.predict(sample.test, ci_prob=0.9, random_seed=1)
    y = sample.test.y
    if sample.probability is None:
        inside = (predicted["lower"].to_numpy() <= y) & (y <= predicted["upper"].to_numpy())
        return {"cover": float(inside.mean())}
    given = predicted["probability"].to_numpy()
    return {"log_loss": log_loss(given, y), "log_loss_of_truth": log_loss(sample.probability, y)}


def log_loss(probability: np.ndarray, y: np.ndarray) -> float:
    """Mean of minus the log probability of the labels, -1 and 1."""
    of_label = np.where(y > 0.0, probability, 1.0 - probability)
    return float(-np.log(np.maximum(of_label, 1e-12)).mean())


def tells_the_truth(result: dict[str, Any]) -> bool:
    """Whether a job is within bounds, or the fit warned; refusals and time limits hide nothing."""
    if result["outcome"] != "fitted":
        return result["outcome"] != "failed"
    return result["warned"] or not (result["out_of_bounds"] or result["divergences"])


# ---------------------------------------------------------------- many jobs


def kept_result(job: Job, folder: Path, seconds: float, python: list[str]) -> dict[str, Any]:
    """The result in the folder; where there is none, or one of a lower limit of seconds, a new one."""
    path = folder / job.file
    if path.exists():
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if result["outcome"] != "too slow" or result["seconds"] >= seconds:
            return result
    command = [*python, "--folder", str(folder), "--job", job.name]
    try:
        done = subprocess.run(command, timeout=seconds, capture_output=True, text=True, check=False)
        if path.exists() and done.returncode == 0:
            return json.loads(path.read_text(encoding="utf-8"))
        last = (done.stderr.strip().splitlines() or [""])[-1]
        result = {"outcome": "failed", "error": f"exit status {done.returncode}: {last}"}
    except subprocess.TimeoutExpired:
        result = {"outcome": "too slow", "seconds": seconds}
    _keep(result, path)
    return result


def _keep(result: dict[str, Any], path: Path) -> None:
    """Write a result whole, or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    part.replace(path)


_HEAD = (
    "case", "model", "method", "worst R-hat", "its entry", "smallest ESS", "that of f", "ESS/s", "out of bounds",
    "divergences", "seconds", "warned", "truth",
)  # fmt: skip


def row(job: Job, result: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [job.case, f"`{job.subject.name}`", job.method]
    if result["outcome"] == "fitted":
        truth = result["truth"]
        cells += [
            f"{result['r_hat']:.3f}",
            result["r_hat_name"],
            f"{result['ess']:.0f}",
            f"{result['ess_of_functions']:.0f}",
            f"{result['ess'] / result['seconds']:.3g}",
            f"{result['out_of_bounds']:,} of {result['entries']:,}",
            f"{result['divergences']}",
            f"{result['seconds']:.1f}",
            "yes" if result["warned"] else "no",
            f"cover {truth['cover']:.2f}"
            if "cover" in truth
            else f"log loss {truth['log_loss']:.3f} ({truth['log_loss_of_truth']:.3f})",
        ]
    elif result["outcome"] == "too slow":
        cells.append(f"more than {result['seconds']:.0f} seconds")
    else:
        cells.append(f"{result['outcome']}: {result['error'][:120]}".replace("|", "/"))
    cells += [""] * (len(_HEAD) - len(cells))
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Run what the arguments ask for; 1 if a job failed, or was out of bounds without a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("torture"))
    parser.add_argument("--only", nargs="*", default=[], help="parts of names, one of which a job has")
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of each job")
    parser.add_argument("--draws", type=int, default=1000, help="of each chain, after as many of warm-up")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--job", help="run one job here, without a limit")
    arguments = parser.parse_args()
    length = {"draws": arguments.draws, "tune": arguments.draws}
    jobs = [replace(job, settings={**job.settings, **length}) for job in all_jobs()]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.job:
        [job] = [j for j in jobs if j.name == arguments.job]
        _keep(run_job(job), arguments.folder / job.file)
        return 0
    jobs = [
        job
        for job in jobs
        if (not arguments.only or any(part in job.name for part in arguments.only))
        and (not arguments.methods or job.method in arguments.methods)
    ]
    if arguments.list:
        print("\n".join(job.name for job in jobs))
        return 0
    python = [sys.executable, "-m", "tests.statistical.torture", "--draws", str(arguments.draws)]
    lines, failures = [], []
    for job in jobs:
        result = kept_result(job, arguments.folder, arguments.seconds, python)
        lines.append(row(job, result))
        print(lines[-1], file=sys.stderr, flush=True)
        if not tells_the_truth(result):
            failures.append(job.name)
    print("\n".join([f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|", *lines]))
    if failures:
        print("\nFailed, or out of bounds without a word:", *failures, sep="\n- ")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())

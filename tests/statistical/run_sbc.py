"""Simulation-based calibration at full length: ``python -m tests.statistical.run_sbc --replications 500 --folder out``.

For each factory and exact method a picture and a row of ``table.md``. Replications are kept in the folder, so that the
same call goes on after a kill. ``--only`` takes parts of names, ``--list`` shows them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

from tests.statistical.cases import Case, all_cases
from zoo.diagnostics import Calibration, sbc
from zoo.plots import rank_ecdf


def settings(case: Case) -> dict[str, int]:
    """Of the small data that are calibrated: warm-up enough for these chains, and ranks enough for the bands.

    Step sizes of NUTS take longer to learn; with fewer sweeps between draws ranks of scales crowd at both ends.
    """
    short = {"tune": 500, "thin": 15} if case.method == "nuts" else {"tune": 100}
    return {**short, "draws": 49, **case.options}


def calibrate(case: Case, replications: int, folder: Path, n_jobs: int, seed: int) -> Calibration:
    """One calibration, kept in the folder."""
    return sbc(
        case.factory, case.data, case.method, replications=replications, random_seed=seed, n_jobs=n_jobs,
        folder=folder / case.name, progress=False, **settings(case),
    )  # fmt: skip


def row(case: Case, found: Calibration) -> str:
    """A row of the table."""
    table = found.summary()
    fields = ", ".join(f"{k}={v!r}" for k, v in case.fields.items())
    cells = [
        f"`{case.model}({fields})`" + (f", {case.rows}" if case.rows else ""),
        f"`{case.method}`",
        str(found.ranks.sizes["replication"]),
        str(len(found.failures)),
        str(len(table)),
        f"{table['p'].min():.2g} ({table['p'].idxmin()})".replace("|", "\\|"),
        f"{0.01 / len(table):.2g}",
        "yes" if found.calibrated else "no",
        f"{table['ess'].min():.0f} of {found.draws}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run what the arguments ask for."""
    matplotlib.use("Agg")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--folder", type=Path, default=Path("sbc"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    cases = [c for c in all_cases() if not arguments.only or any(part in c.name for part in arguments.only)]
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        start = time.perf_counter()
        found = calibrate(case, arguments.replications, arguments.folder, arguments.jobs, arguments.seed)
        line = row(case, found)
        print(line, f"{time.perf_counter() - start:.0f} s", flush=True)
        with (arguments.folder / "table.md").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        rank_ecdf(found).savefig(arguments.folder / f"{case.name}.png", dpi=110)


if __name__ == "__main__":
    main()

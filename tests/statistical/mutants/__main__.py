"""Plant known mistakes in a copy of the package, one at a time, and see whether the tests catch each.

    python -m tests.statistical.mutants [--only WORD]

A mutant is caught when one of its tests fails and none of them failed before. A survivor is a missing test: the
script ends with status 1. Each mutant names the tests that should catch it, so that the whole takes minutes and not
days; the test suite as a whole catches it all the more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.statistical.mutants import MUTANTS, Mutant

_ROOT = Path(__file__).resolve().parents[3]
_LIMIT = 900.0


def _copy(home: Path) -> Path:
    """The package and its tests, without compiled leftovers of other sources."""
    place = home / "project"
    skipped = shutil.ignore_patterns("*.pyc", ".mypy_cache", ".hypothesis", "_build")
    for name in ("zoo", "tests"):
        shutil.copytree(_ROOT / name, place / name, ignore=skipped, copy_function=shutil.copy2)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(_ROOT / name, place / name)
    return place


def _clear_compiled(place: Path) -> None:
    """Numba looks at the time of a function's own file alone, not at those of its callees."""
    for path in place.glob("zoo/**/*.nb[ic]"):
        path.unlink()


def _fails(place: Path, tests: tuple[str, ...]) -> bool:
    """Whether a test fails; anything else than failed or passed tests is an error of this script."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "", *tests]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return True  # a sampler that no longer ends is caught too
    if done.returncode not in (0, 1):
        raise RuntimeError(
            f"pytest ended with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == 1


def _plant(place: Path, mutant: Mutant) -> None:
    path = place / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise RuntimeError(
            f"{mutant.name}: {mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}."
        )
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def main() -> int:
    """Run the mutants, print a table, return the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="mutants whose name holds this word")
    arguments = parser.parse_args()
    mutants = [m for m in MUTANTS if arguments.only is None or arguments.only in m.name]
    survivors, known = 0, {}
    print("| mutant | what it plants | caught by | seconds |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as home:
        place = _copy(Path(home))
        _clear_compiled(place)
        for mutant in mutants:
            if mutant.tests not in known:
                known[mutant.tests] = _fails(place, mutant.tests)
            if known[mutant.tests]:
                raise RuntimeError(f"{mutant.name}: its tests fail without it too: {' '.join(mutant.tests)}.")
            original = (place / mutant.file).read_text(encoding="utf-8")
            begin = time.monotonic()
            compiled = "njit" in original
            _plant(place, mutant)
            if compiled:
                _clear_compiled(place)
            caught = _fails(place, mutant.tests)
            (place / mutant.file).write_text(original, encoding="utf-8")
            if compiled:
                _clear_compiled(place)
            survivors += not caught
            seen = " ".join(f"`{test.removeprefix('tests/')}`" for test in mutant.tests)
            row = f"| {mutant.name} | {mutant.says} | {seen if caught else '**survives**'}"
            print(f"{row} | {time.monotonic() - begin:.0f} |", flush=True)
    print(f"\n{len(mutants) - survivors} of {len(mutants)} caught.")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())

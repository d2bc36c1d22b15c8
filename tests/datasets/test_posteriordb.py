"""Reference posteriors in the format of posteriordb."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from zoo.datasets import to_posteriordb


def rows() -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=30)
    return zoo.MultiTaskData.from_arrays(X, y, np.repeat(["a", "b", "c"], 10))


def read(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


WORDS = {"title": "Thirty rows", "added_by": "nobody"}


def test_files_are_those_of_the_database(tmp_path: Path) -> None:
    """Names, places and keys, and the draws of the fit."""
    model, data = zoo.IndependentTasks(), rows()
    written = to_posteriordb(model, data, tmp_path, "thirty_rows", **WORDS)
    assert all(path.exists() for path in written)
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]  # nothing temporary is left
    posterior = json.loads((tmp_path / "posteriors" / "thirty_rows-thirty_rows.json").read_text())
    assert posterior["dimensions"] == {"coefficients": 6, "noise": 3, "shrinkage": 3}
    draws = read(tmp_path / "reference_posteriors" / "draws" / "draws" / "thirty_rows-thirty_rows.json.zip")
    assert len(draws) == 10
    assert set(map(len, draws[0].values())) == {1000}
    assert {"coefficients[2,3]", "noise[1]"} <= set(draws[0])
    fit = model.fit(data, draws=10_000, tune=10_000, chains=10, random_seed=4711, progress=False)
    own = fit.posterior["coefficients"].to_numpy()[4, 9::10, 1, 2]
    np.testing.assert_array_equal(draws[4]["coefficients[2,3]"], own)
    stored = read(tmp_path / "data" / "data" / "thirty_rows.json.zip")
    np.testing.assert_array_equal(stored["X"], data.X)
    assert stored["task"] == [1] * 10 + [2] * 10 + [3] * 10
    spec = json.loads((tmp_path / "models" / "zoo" / "thirty_rows.json").read_text())
    assert zoo.IndependentTasks.from_spec(spec) == model
    info = json.loads(
        (
            tmp_path / "reference_posteriors" / "draws" / "info" / "thirty_rows-thirty_rows.info.json"
        ).read_text()
    )
    assert info["inference"]["method"] == "analytical"
    assert max(info["diagnostics"]["r_hat"]) < 1.01
    with pytest.raises(FileExistsError, match="Choose another name"):
        to_posteriordb(model, data, tmp_path, "thirty_rows", **WORDS)


def test_draws_that_are_no_reference_are_refused(tmp_path: Path) -> None:
    """And nothing is written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        with pytest.raises(ValueError, match=r"no reference draws: .* Give a larger thin"):
            to_posteriordb(zoo.NIWLinear(), rows(), tmp_path, "rows", chains=4, thin=1, **WORDS)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"name": "a/b"}, "letters, digits"), ({"chains": 3}, "chains"), ({"chains": 7}, "cannot be divided")],
)
def test_arguments(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Named in the message."""
    given = {"name": "rows", **WORDS, **change}
    with pytest.raises(ValueError, match=message):
        to_posteriordb(zoo.PooledTasks(), rows(), tmp_path, **given)

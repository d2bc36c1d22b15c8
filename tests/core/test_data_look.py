"""What the data themselves say of chains that do not converge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import zoo
import zoo.core.factory
from tests.core.walks import Walks, fit_and_warnings
from zoo.core.data_look import look_at_data
from zoo.core.fitting import data_look


def _table(**columns):
    import pandas as pd

    frame = pd.DataFrame(columns)
    features = [name for name in frame if name not in ("y", "task")]
    return zoo.MultiTaskData.from_frame(frame, y="y", task="task", features=features)


def _columns(seed=0, tasks=6, size=20):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), size)
    x = rng.standard_normal(len(task))
    return rng, task, {"y": rng.standard_normal(len(task)), "task": [f"t{t}" for t in task], "x": x}


def test_features_that_stand_still_within_tasks():
    rng, task, columns = _columns()
    group = rng.standard_normal(6)[task]
    assert look_at_data(_table(**columns, one=1.0)) == ""
    assert look_at_data(_table(**columns, zero=0.0, one=1.0)) == ""
    text = look_at_data(_table(**columns, one=1.0, group=group, nearly=group**2 + 0.01 * columns["x"]))
    assert "'one', 'group' and 'nearly'" in text and "'x'" not in text
    text = look_at_data(_table(**columns, one=1.0, group=group + 0.5 * rng.standard_normal(len(task))))
    assert text == ""


def test_duplicates():
    rng, task, columns = _columns()
    assert "'x' and 'twice' (equal up to scale)" in look_at_data(
        _table(**columns, twice=3.0 - 2.0 * columns["x"])
    )
    near = columns["x"] + 0.07 * rng.standard_normal(len(task))
    assert "'x' and 'near' (correlation 0.99" in look_at_data(_table(**columns, near=near))
    far = columns["x"] + 0.3 * rng.standard_normal(len(task))
    assert look_at_data(_table(**columns, far=far)) == ""


def test_features_that_depend_on_one_another():
    rng, task, columns = _columns()
    above, below = rng.standard_normal((2, len(task)))
    columns = {**columns, "above": above, "below": below}
    assert look_at_data(_table(**columns, living=above + below + 0.3 * rng.standard_normal(len(task)))) == ""
    text = look_at_data(_table(**columns, living=100.0 * (above + below)))
    assert "Features 'above', 'below' and 'living' are linearly dependent" in text
    assert "'x'" not in text


def test_columns_of_a_category_depend_on_one_another_beside_a_constant():
    rng, task, columns = _columns()
    level = rng.integers(3, size=len(task))
    one_hots = {f"level {k}": (level == k).astype(float) for k in range(3)}
    assert look_at_data(_table(**columns, **one_hots)) == ""
    text = look_at_data(_table(**columns, **one_hots, one=1.0))
    assert "Features 'level 0', 'level 1' and 'level 2' are linearly dependent" in text
    assert "'x'" not in text and "'one'" not in text


def test_two_sets_of_dependent_features_are_told_apart():
    rng, task, columns = _columns()
    a, b, c, d = rng.standard_normal((4, len(task)))
    data = _table(**columns, a=a, b=b, ab=a - 2.0 * b, c=c, d=d, cd=c + 1e3 * d)
    assert "'a', 'b' and 'ab'; and 'c', 'd' and 'cd' are linearly dependent" in look_at_data(data)


def test_dependence_of_more_features_than_rows_is_not_said():
    rng, _, columns = _columns(tasks=3, size=2)
    assert look_at_data(_table(**columns, **{f"z{j}": rng.standard_normal(6) for j in range(6)})) == ""


def test_dependence_that_a_few_rows_of_many_break(monkeypatch):
    rng, task, columns = _columns(size=100)
    monkeypatch.setattr("zoo.core.data_look._ROWS_TO_DEPEND", 50)
    a, b = rng.standard_normal((2, len(task)))
    total = a + b
    assert "are linearly dependent" in look_at_data(_table(**columns, a=a, b=b, total=total))
    total[7] += 1.0
    assert "are linearly dependent" not in look_at_data(_table(**columns, a=a, b=b, total=total))


def test_classes_that_one_feature_separates():
    rng, task, columns = _columns()
    columns["y"] = np.where(rng.standard_normal(len(task)) > 0.0, 1.0, -1.0)
    data = _table(**columns)
    assert look_at_data(data, data.y) == ""
    columns["x"] = np.where(task == 4, columns["y"] + 0.1 * columns["x"], columns["x"])
    data = _table(**columns)
    assert "'t4' by 'x'" in look_at_data(data, data.y)
    assert look_at_data(data) == ""


def test_what_is_not_looked_at():
    sparse = pytest.importorskip("scipy.sparse")
    _, task, columns = _columns()
    X = np.column_stack([columns["x"], columns["x"], np.ones(len(task)), np.ones(len(task))])
    dense = zoo.MultiTaskData.from_arrays(X, columns["y"], task=columns["task"])
    assert look_at_data(dense) != ""
    assert (
        look_at_data(zoo.MultiTaskData.from_arrays(sparse.csr_matrix(X), columns["y"], task=columns["task"]))
        == ""
    )
    assert look_at_data(replace(dense, inputs=dense.inputs[:, :0], feature_names=())) == ""


def test_the_message_is_printed_kept_and_repeated(capsys):
    _, _, columns = _columns()
    data = _table(**columns, twice=2.0 * columns["x"])
    said = "'x' and 'twice'"
    fit, [warning] = fit_and_warnings(data, Walks(fault="stuck"), progress=True)
    assert said in capsys.readouterr().out
    assert said in fit.idata["sample_stats"].attrs["data_look"]
    assert "A likely cause lies in the data" in str(warning.message)
    fit, caught = fit_and_warnings(data, Walks())
    assert not caught and capsys.readouterr().out == ""
    # No coefficient for each task and feature, no message; none of independent draws either.
    for model, options in (
        (zoo.PooledTasks(), {"method": "nuts", "nuts": None}),
        (zoo.IndependentTasks(), {}),
    ):
        options.pop("nuts", None)
        if options.get("method") == "nuts":
            assert data_look(model, data, model.validate(data)) == ""
            continue
        assert "data_look" not in fit_and_warnings(data, model, draws=5)[0].idata["sample_stats"].attrs

"""What data name and a model makes nothing of is refused or warned of: tasks, t, slopes that nothing tells."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo import MultiTaskData

rng = np.random.default_rng(3)
N, SHOPS = 240, 12
SHOP, DAY, X = rng.integers(0, SHOPS, N), rng.uniform(0, 10, N), rng.normal(size=N)
Y = np.sin(DAY) + rng.normal(size=SHOPS)[SHOP] + 0.7 * X + 0.3 * rng.normal(size=N)
TABLE = pd.DataFrame({"y": Y, "x": X, "day": DAY, "shop": [f"s{i}" for i in SHOP]})
FEW = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}


def by_day(task="shop", table=TABLE):
    return MultiTaskData.from_frame(table, y="y", task=task, features=["x"], t="day")


# ---------------------------------------------------------------- tasks that a model ignores


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (zoo.VaryingCoefficientGP(), r"TaskTree.from_frame\(df, \['shop'\]\)"),
        (zoo.VaryingCoefficientGP(structure="chosen"), r"TaskTree.from_frame\(df, \['shop'\]\)"),
        (zoo.NonisotropicVaryingCoefficients(), r"TaskTree.from_frame\(df, \['shop'\]\)"),
        (zoo.KernelLocalSmoothing(), "Use VaryingCoefficientGP, with a component over tasks"),
    ],
)
def test_a_named_task_that_a_model_ignores_is_refused(model, advice):
    said = f"task is 'shop', a column of 12 tasks, and {type(model).__name__} would .* alike.*{advice}.* leave task out"
    with pytest.raises(ValueError, match=said):
        model.fit(by_day(), **FEW)


def test_the_choice_of_structure_refuses_it_too():
    with pytest.raises(ValueError, match="task is 'shop', a column of 12 tasks"):
        zoo.VaryingCoefficientGP().choose_structure(by_day(), progress=False)


@pytest.mark.parametrize("method", ["exact", "hsgp"])
def test_the_advice_serves(method):
    tree = zoo.kernels.TaskTree.from_frame(TABLE, ["shop"])
    levels = zoo.VaryingComponent(kernel=tree, features="intercept")
    fit = zoo.VaryingCoefficientGP(task_kernel=["matern32", levels]).fit(by_day(), method, **FEW)
    assert 0.2 < float(fit.posterior["noise"].mean()) < 0.45  # 0.3 is true, and 1 where shops are ignored


def test_who_pools_on_purpose_may_keep_quiet():
    zoo.PooledGP(inputs="xt").fit(by_day(), "exact", **FEW)
    zoo.PooledTasks().fit(by_day().add_intercept(), **FEW)


def test_one_task_or_a_task_that_t_tells_is_no_loss():
    model = zoo.VaryingCoefficientGP()
    model.fit(by_day(task=None), "exact", **FEW)
    model.fit(by_day(table=TABLE.assign(shop="one")), "exact", **FEW)
    weeks = TABLE.assign(shop=[f"week {int(d // 2)}" for d in DAY])
    model.fit(by_day(table=weeks), "exact", **FEW)
    # One t for each task; in two tasks for each t, whatever the order of the rows, t does not tell them apart.
    places = TABLE.assign(day=SHOP.astype(float))
    model.fit(by_day(table=places), "exact", **FEW)
    shared = TABLE.assign(day=(SHOP // 2).astype(float)).sort_values("shop")
    with pytest.raises(ValueError, match="task is 'shop'"):
        model.fit(by_day(table=shared), "exact", **FEW)


def test_tasks_without_a_column_are_named_in_a_line(capsys):
    data = MultiTaskData.from_arrays(X[:, None], Y, task=SHOP, t=DAY)
    zoo.VaryingCoefficientGP().fit(data, "exact", **{**FEW, "progress": True})
    assert "The data have 12 tasks, of which VaryingCoefficientGP makes nothing." in capsys.readouterr().out


@dataclass(frozen=True, kw_only=True)
class _WithLevels(zoo.VaryingCoefficientGP):
    def latent(self, data, priors):
        return super().latent(data, priors)


def test_hooks_of_a_user_may_use_the_tasks():
    model = _WithLevels()
    assert model.fit(by_day(), draws=2, tune=2, chains=1, nuts={"nuts_sampler": "pymc"}, progress=False)


def test_names_as_t_are_told_where_to_go():
    with pytest.raises(
        ValueError, match=r"t column 'shop' holds names.*Pass the column as task='shop'.*TaskTree"
    ):
        MultiTaskData.from_frame(TABLE, y="y", task=None, features=["x"], t=["day", "shop"])
    with pytest.raises(ValueError, match="t column 'day' holds numbers as text"):
        MultiTaskData.from_frame(TABLE.astype({"day": str}), y="y", task=None, features=["x"], t=["day"])


# ---------------------------------------------------------------- t


def test_t_that_a_model_of_tasks_ignores_is_warned_of():
    data = by_day().add_intercept()
    with pytest.warns(UserWarning, match=r"t holds 'day', and NIWLinear makes nothing of t.*t=None"):
        zoo.NIWLinear().fit(data, "em", progress=False)
    zoo.NIWLinear().fit(replace(data, t=None, t_names=None), "em", progress=False)


# ---------------------------------------------------------------- a task that was forgotten

FLAT = pd.DataFrame({"y": Y, "x": X})


@pytest.mark.parametrize(
    "model",
    [
        zoo.NIWLinear(),
        zoo.NIWGaussianProcess(),
        zoo.MaxMargin(likelihood="gaussian"),
        zoo.MultiLaplaceGP(),
        zoo.MultiTaskKernelMachine(),
    ],
)
def test_a_forgotten_task_is_refused_by_every_model_of_tasks(model):
    for data in (MultiTaskData.from_frame(FLAT, y="y"), MultiTaskData.from_arrays(X[:, None], Y)):
        with pytest.raises(
            ValueError, match=f"task was left out, and {type(model).__name__} learns.*say so by task=None"
        ):
            model.fit(data.standardize().add_intercept().split(0.5, random_seed=1)[0], progress=False)


def test_one_task_that_was_meant_is_fitted(tmp_path):
    told = MultiTaskData.from_frame(FLAT, y="y", task=None)
    named = MultiTaskData.from_arrays(X[:, None], Y, task_names=["all"])
    for data in (told, MultiTaskData.from_arrays(X[:, None], Y, task=None), named):
        fit = zoo.NIWLinear().fit(data.add_intercept(), "em", progress=False)
    fit.save(tmp_path / "fit.nc")
    kept = zoo.load(tmp_path / "fit.nc").data
    assert not kept.task_left_out and zoo.NIWLinear().fit(kept, "em", progress=False)
    # Models of single rows need no tasks.
    zoo.PooledTasks().fit(MultiTaskData.from_frame(FLAT, y="y").add_intercept(), **FEW)


# ---------------------------------------------------------------- slopes that groups do not tell

SCHOOL = np.repeat(np.arange(SHOPS), 20)
SECTOR = np.array(["public", "catholic"])[(SCHOOL % 3 == 0).astype(int)]
PUPILS = pd.DataFrame(
    {"y": Y, "x": X, "size": 1.0 + SCHOOL**2, "sector": SECTOR, "school": [f"s{i}" for i in SCHOOL]}
)


def by_formula(formula, table=PUPILS):
    pytest.importorskip("formulae")
    return MultiTaskData.from_formula(formula, table).standardize()


def test_a_slope_that_is_constant_within_groups_is_named():
    for right, names in (
        ("x + sector + (1 + sector | school)", r"'sector\[public\]' has a slope for each 'school'"),
        ("x + size + (1 + x + size | school)", "'size' has a slope for each 'school'"),
        ("size + sector + (1 + size + sector | school)", r"'size', 'sector\[public\]' have slopes"),
    ):
        with pytest.warns(UserWarning, match=f"{names}.*the sum of their variances.*outside of the bar only"):
            zoo.NIWLinear().fit(by_formula(f"y ~ {right}"), tune=2, **FEW)


def test_it_is_named_where_one_school_in_twenty_varies():
    varied = pd.concat([PUPILS.assign(school=PUPILS["school"] + end) for end in ("", "b")], ignore_index=True)
    varied.loc[0, "size"] = 500.0
    with pytest.warns(UserWarning, match="'size' has a slope"):
        zoo.NIWLinear().fit(by_formula("y ~ size + (1 + size | school)", varied), tune=2, **FEW)


@pytest.mark.parametrize(
    ("formula", "model"),
    [
        ("y ~ x + sector + (1 + x | school)", zoo.NIWLinear()),
        ("y ~ x + size + (0 + x + size | school)", zoo.NIWLinear()),  # no level beside it
        ("y ~ x + size + (1 + size | school)", zoo.PooledTasks()),
        ("y ~ x + size + (1 + size | school)", zoo.NIWLinear(shared="constant within tasks")),
    ],
)
def test_no_word_where_nothing_is_lost(formula, model):
    data = by_formula(formula)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        warnings.simplefilter("ignore", zoo.PriorWarning)
        data = data if model.serves_shared else replace(data, shared_names=())
        model.fit(data, tune=2, **FEW)


def test_characteristics_of_tasks_in_a_table_are_said_in_a_line(capsys):
    data = (
        MultiTaskData.from_frame(PUPILS, y="y", task="school", features=["x", "size"])
        .standardize()
        .add_intercept()
    )
    zoo.NIWLinear().fit(data, draws=2, tune=2, chains=1, random_seed=1)
    assert "constant, or nearly so, within every task" in capsys.readouterr().out

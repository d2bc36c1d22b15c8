"""Tables 2-4 and figures 2-3 of Li, Zhu & Chen (ICML 2014)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from zoo import datasets
from zoo.checks import whole_number
from zoo.data import MultiTaskData
from zoo.diagnostics import compare, explained_variance, f1_scores
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import require_known, require_used
from zoo.experiments.yardsticks import (
    FeatureLearning,
    PooledLinear,
    SeparateLinear,
    Yardstick,
    choose,
    decision,
    require_sklearn,
)
from zoo.factory import ModelFactory
from zoo.fit import Fit
from zoo.likelihoods import EpsilonInsensitive
from zoo.registry import get_factory
from zoo.report import complete, print_frame
from zoo.runner import Job, Outcome, run_jobs
from zoo.selection import select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "LABEL_SETS", "SCHOOL", "TABLES", "Settings", "reproduce"]

TABLES = (2, 3, 4)
FIGURES = (2, 3)
SCHOOL = "School"
# Test inputs over all inputs of the published split; CAL500 has none.
LABEL_SETS = {"emotions": 202 / 593, "CAL500": 1 / 3, "scene": 1196 / 2407, "yeast": 917 / 2417}
_SCHOOL_SPLITS = 10
_EPSILON = 0.001
_ALPHA = 5.0  # given for School only, used everywhere
_FIGURE_SWEEPS = 50
_FIGURE_ALPHAS = (1.0, 2.0, 4.0, 8.0, 16.0)

# ---------------------------------------------------------------- the paper's numbers: mean, standard deviation

_PAPER_TABLE_2 = {
    "LR": {
        "emotions": (54.83, 1.63),
        "CAL500": (32.05, 1.63),
        "scene": (61.65, 1.45),
        "yeast": (61.44, 0.92),
    },
    "MTL-C": {
        "emotions": (63.50, 1.67),
        "CAL500": (33.51, 1.39),
        "scene": (64.98, 0.66),
        "yeast": (61.86, 0.69),
    },
    "MTL-F": {
        "emotions": (64.51, 1.10),
        "CAL500": (34.01, 1.47),
        "scene": (64.23, 0.89),
        "yeast": (62.66, 0.55),
    },
    "BM-MTL (I-Ω, I-R)": {
        "emotions": (64.16, 1.19),
        "CAL500": (34.65, 1.06),
        "scene": (65.85, 0.78),
        "yeast": (63.75, 0.57),
    },
    "BM-MTL (Ω, I-R)": {
        "emotions": (65.22, 1.34),
        "CAL500": (34.91, 1.05),
        "scene": (65.97, 0.70),
        "yeast": (64.20, 0.59),
    },
    "BM-MTL (I-Ω, R)": {
        "emotions": (64.97, 1.37),
        "CAL500": (35.07, 1.22),
        "scene": (66.30, 0.70),
        "yeast": (64.16, 0.53),
    },
    "BM-MTL (Ω, R)": {
        "emotions": (65.67, 1.32),
        "CAL500": (35.54, 1.09),
        "scene": (66.33, 0.70),
        "yeast": (64.36, 0.58),
    },
    "MT-iLSVM": {
        "emotions": (62.27, 2.25),
        "CAL500": (32.20, 1.09),
        "scene": (62.27, 2.46),
        "yeast": (61.81, 0.60),
    },
    "NPBM-MTL (Z, R)": {
        "emotions": (65.53, 1.34),
        "CAL500": (35.67, 0.69),
        "scene": (66.85, 0.55),
        "yeast": (64.21, 0.44),
    },
}
_PAPER_TABLE_3 = {
    "STL": (23.5, 1.9),
    "BMTL": (29.5, 0.4),
    "MTGP": (29.2, 1.6),
    "MTRL": (29.9, 1.8),
    "MT-iLSVM": (31.13, 1.15),
    "BM-MTL (I-Ω, I-R)": (31.12, 1.02),
    "BM-MTL (Ω, I-R)": (31.21, 1.02),
    "BM-MTL (I-Ω, R)": (31.54, 1.04),
    "BM-MTL (Ω, R)": (31.56, 1.09),
    "NPBM-MTL (Z, R)": (31.86, 1.00),
}
_PAPER_TABLE_4 = {
    "emotions": (57.8, 2.0),
    "CAL500": (4.4, 0.5),
    "scene": (48.2, 1.9),
    "yeast": (4.8, 0.8),
    SCHOOL: (14.8, 1.1),
}

# ---------------------------------------------------------------- what is run


class _Model(NamedTuple):
    """A row of a table: a factory with its fields, or a yardstick."""

    label: str
    factory: str | None = None
    fields: Mapping[str, Any] = {}
    yardstick: Yardstick | None = None
    grid: str = "linear_grid"  # the yardstick's grid for labels, a field of Settings
    choices: Mapping[str, Sequence[Any]] = {}  # what is chosen by cross-validation, where it is not C alone


_BAYESIAN = {
    "identity": _Model("BM-MTL (I-Ω, I-R)", "MaxMargin", {"feature_cov": "identity", "task_cov": "identity"}),
    "features": _Model("BM-MTL (Ω, I-R)", "MaxMargin", {"task_cov": "identity"}),
    "tasks": _Model("BM-MTL (I-Ω, R)", "MaxMargin", {"feature_cov": "identity"}),
    "both": _Model("BM-MTL (Ω, R)", "MaxMargin"),
    "nonparametric": _Model("NPBM-MTL (Z, R)", "NonparametricMaxMargin", {"alpha": _ALPHA}),
}
_LABEL_MODELS = {
    **_BAYESIAN,
    "balanced": _Model("BM-MTL (Ω, R), balanced", "MaxMargin", {"class_weight": "balanced"}),
    "weighted": _Model(
        "BM-MTL (Ω, R), class weight chosen",
        "MaxMargin",
        choices={
            "class_weight": [(1.0, w) for w in (1.0, 1.5, 2.5, 4.0)],
            "likelihood.C": (0.03, 0.1, 0.3, 1.0),
        },
    ),
    "lr": _Model("LR", yardstick=SeparateLinear("logistic")),
    "svm": _Model("linear SVM", yardstick=SeparateLinear("squared hinge")),
    "lr-pooled": _Model("LR, pooled", yardstick=PooledLinear("logistic")),
    "svm-pooled": _Model("linear SVM, pooled", yardstick=PooledLinear("squared hinge")),
    "mtl-f": _Model("MTL-F", yardstick=FeatureLearning("logistic"), grid="feature_grid"),
}
_TUBE_LEARNED = EpsilonInsensitive(C="learned", epsilon=_EPSILON)
_SCHOOL_MODELS = {
    **_BAYESIAN,
    "related": _Model("BM-MTL (Ω, R), related tasks", "MaxMargin", {"task_scale": 0.8}),
    "learned": _Model("BM-MTL (Ω, R), C learned", "MaxMargin", {"likelihood": _TUBE_LEARNED}),
    "stl": _Model("STL", yardstick=SeparateLinear("squared")),
    "pooled": _Model("ridge, pooled", yardstick=PooledLinear("squared")),
    "mtl-f": _Model("MTL-F", yardstick=FeatureLearning("squared"), grid="feature_grid"),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long everything runs.

    Parameters
    ----------
    cv : int
        Folds of the cross-validation that chooses C, in the training rows.
    cv_draws, cv_tune : int
        Sweeps of each of its fits, which start from the fit with the C before.
    draws, tune : int
        Of the final fit.
    school_cv_draws, school_draws : int
        The same for School, whose sweeps are cheap and whose scores need more: there the Monte Carlo error of a mean of
        20 draws costs the fixed covariances 16 points of explained variance, and favours the wrong C.
    grid, linear_grid, feature_grid : tuple of float
        Values of C for labels: of the Bayesian models, the linear yardsticks, multi-task feature learning.
    school_grid, school_linear_grid : tuple of float
        The same for School, the second for all its yardsticks.
    """

    cv: int = 3
    cv_draws: int = 25
    cv_tune: int = 10
    draws: int = 200
    tune: int = 50
    school_cv_draws: int = 100
    school_draws: int = 500
    grid: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    linear_grid: tuple[float, ...] = (0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)
    feature_grid: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    school_grid: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0)
    school_linear_grid: tuple[float, ...] = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

    @classmethod
    def quick(cls, cv: int = 3) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            cv=cv,
            cv_draws=10,
            cv_tune=5,
            draws=30,
            tune=15,
            school_cv_draws=20,
            school_draws=100,
            grid=(0.03, 0.3),
            linear_grid=(0.001, 0.01, 0.1),
            feature_grid=(0.03, 0.1, 1.0),
            school_grid=(0.2, 0.5),
            school_linear_grid=(0.01, 0.1, 1.0),
        )


# ---------------------------------------------------------------- data


@lru_cache(maxsize=1)
def _label_data(name: str) -> MultiTaskData:
    loaders: dict[str, Callable[[], MultiTaskData]] = {
        "emotions": datasets.load_emotions,
        "CAL500": datasets.load_cal500,
        "scene": datasets.load_scene,
        "yeast": datasets.load_yeast,
    }
    # Before the split, so that test rows have the column too; standardize leaves it alone.
    return loaders[name]().add_intercept()


def _split(name: str, number: int) -> tuple[MultiTaskData, MultiTaskData]:
    """Standardized training data, and test data on the scale of the files."""
    if name == SCHOOL:
        train, test = datasets.load_school(split=number)
    else:
        train, test = _label_data(name).split(LABEL_SETS[name], random_seed=number)
    return train.standardize(), test


# ---------------------------------------------------------------- jobs


def _score(data: str, split: int, model: str, **settings: Any) -> dict[str, Any]:
    """Job: scores of a model on the test rows of a split, C chosen on the training rows."""
    chosen = Settings(**settings)
    school = data == SCHOOL
    row = (_SCHOOL_MODELS if school else _LABEL_MODELS)[model]
    train, test = _split(data, split)
    folds = train.folds(chosen.cv, random_seed=split)
    if row.yardstick is not None:
        return _score_yardstick(row, train, test, folds, chosen)
    factory = _factory(row, school)
    with _of_rare_labels():
        factory = _with_C(factory, folds, train, chosen, split, row.choices)
        fit = _fit(factory, train, chosen.school_draws if school else chosen.draws, chosen.tune, split)
        result: dict[str, Any] = {"C": factory.likelihood.C}
        if factory.likelihood.learned:
            result["C"] = float(fit.posterior["C"].mean())
        row_scores = compare({"fit": fit}, test, random_seed=split).iloc[0]
    result.update((str(name), float(value)) for name, value in row_scores.items())
    if "n_latent" in fit.posterior:
        result["n_latent"] = float(fit.posterior["n_latent"].mean())
    return result


def _score_yardstick(
    row: _Model,
    train: MultiTaskData,
    test: MultiTaskData,
    folds: list[tuple[MultiTaskData, MultiTaskData]],
    settings: Settings,
) -> dict[str, Any]:
    assert row.yardstick is not None
    labels = len(np.unique(train.y)) == 2
    scores = _label_scores if labels else _real_scores
    first = "micro F1 %" if labels else "explained variance %"
    grid = getattr(settings, row.grid) if labels else settings.school_linear_grid
    C = choose(row.yardstick, folds, grid, lambda rows, f: scores(rows, f)[first])
    return {"C": C, **scores(test, decision(row.yardstick.fit(train, C), train, test))}


def _label_scores(rows: MultiTaskData, f: np.ndarray) -> dict[str, float]:
    scores = f1_scores(rows.y, f > 0.0, rows.task)
    return {
        "accuracy %": 100.0 * scores.accuracy,
        "micro F1 %": 100.0 * float(scores.micro_f1),
        "macro F1 %": 100.0 * scores.macro_f1,
    }


def _real_scores(rows: MultiTaskData, f: np.ndarray) -> dict[str, float]:
    scores = explained_variance(rows.original_y(), f, rows.task)
    return {"explained variance %": 100.0 * scores.pooled, "per task %": 100.0 * scores.per_task}


def _factory(row: _Model, school: bool) -> ModelFactory:
    assert row.factory is not None
    likelihood = {"likelihood": EpsilonInsensitive(epsilon=_EPSILON)} if school else {}
    return get_factory(row.factory)(**{**likelihood, **row.fields})


def _with_C(
    factory: ModelFactory,
    folds: list[tuple[MultiTaskData, MultiTaskData]],
    train: MultiTaskData,
    settings: Settings,
    seed: int,
    choices: Mapping[str, Sequence[Any]] | None = None,
) -> ModelFactory:
    """The factory with C (or ``choices``) chosen by cross-validation, unless C is learned."""
    if factory.likelihood.learned:
        return factory
    labels = factory.likelihood.labels
    grid = settings.grid if labels else settings.school_grid
    return select(
        factory,
        train,
        dict(choices or {"likelihood.C": sorted(grid)}),
        cv=folds,
        method="gibbs",
        draws=settings.cv_draws if labels else settings.school_cv_draws,
        tune=settings.cv_tune,
        random_seed=seed,
        n_jobs=1,
        progress=False,
        cores=1,
    ).best


def _fit(
    factory: ModelFactory, train: MultiTaskData, draws: int, tune: int, seed: int, chains: int = 1
) -> Fit:
    fit = factory.fit(
        train, "gibbs", draws=draws, tune=tune, chains=chains, random_seed=seed, progress=False, cores=1
    )
    complete(fit)
    return fit


@contextmanager
def _of_rare_labels() -> Iterator[None]:
    """Without the warning that a label does not occur in a training set: CAL500 has labels of a few songs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "y has one class in", UserWarning)
        yield


def _burn_in(
    data: str, model: str, chains: int, sweeps: int, alpha: float | None, **settings: Any
) -> dict[str, Any]:
    """Job: test score after each sweep from a dispersed start, of that sweep's draw and of the running mean of f."""
    chosen = Settings(**settings)
    school = data == SCHOOL
    train, test = _split(data, 1)
    factory = _factory(_BAYESIAN[model], school)
    with _of_rare_labels():
        factory = _with_C(factory, train.folds(chosen.cv, random_seed=1), train, chosen, 1)
        if alpha is not None:
            factory = replace(factory, alpha=alpha)  # type: ignore[call-arg]
        fit = _fit(factory, train, draws=sweeps, tune=0, seed=1, chains=chains)
    f = fit.predict_draws(test, random_seed=1)["f"].to_numpy()
    running = np.cumsum(f, axis=1) / np.arange(1, sweeps + 1)[:, None]
    scores, name = (_real_scores, "explained variance %") if school else (_label_scores, "micro F1 %")

    def by_sweep(values: np.ndarray) -> list[list[float]]:
        return [[scores(test, draw)[name] for draw in chain] for chain in values]

    result: dict[str, Any] = {
        "C": factory.likelihood.C,
        "running mean": by_sweep(running),
        "draw": by_sweep(f),
    }
    if "n_latent" in fit.posterior:
        result["n_latent"] = fit.posterior["n_latent"].to_numpy().astype(float).tolist()
    return result


def _table_jobs(sets: Sequence[str], splits: int, school_splits: int, settings: Settings) -> dict[str, Job]:
    """The jobs of tables 2-4 by name; table 4 reads those of the nonparametric model."""
    jobs = {}
    for name in sets:
        models = _SCHOOL_MODELS if name == SCHOOL else _LABEL_MODELS
        for split in range(1, (school_splits if name == SCHOOL else splits) + 1):
            for model in models:
                job = Job(
                    _job_name(name, split, model),
                    _score,
                    {"data": name, "split": split, "model": model, **asdict(settings)},
                )
                jobs[job.name] = job
    return jobs


def _job_name(data: str, split: int, model: str) -> str:
    return f"{data}-split{split:02d}-{model}"


def _figure_jobs(figure: int, chains: int, settings: Settings) -> list[Job]:
    """Figure 2: both models on yeast and School. Figure 3: values of alpha on School."""
    common = {"chains": chains, "sweeps": _FIGURE_SWEEPS, **asdict(settings)}
    if figure == 2:
        return [
            Job(f"figure2-{data}-{model}", _burn_in, {"data": data, "model": model, "alpha": None, **common})
            for data in ("yeast", SCHOOL)
            for model in ("both", "nonparametric")
        ]
    return [
        Job(
            f"figure3-alpha{alpha:02g}",
            _burn_in,
            {"data": SCHOOL, "model": "nonparametric", "alpha": alpha, **common},
        )
        for alpha in _FIGURE_ALPHAS
    ]


# ---------------------------------------------------------------- tables

_LABEL_COLUMNS = {"micro F1 %": "micro F1", "macro F1 %": "macro F1", "accuracy %": "accuracy"}
_SCHOOL_COLUMNS = {"explained variance %": "pooled", "per task %": "per school"}


def score_table(
    data: str,
    models: Mapping[str, _Model],
    paper: Mapping[str, tuple[float, float]],
    columns: Sequence[str],
    results: Mapping[str, Mapping[str, Any]],
    splits: int,
) -> pd.DataFrame:
    """One row a model, the paper's order first: its score in the paper, and ours over the finished splits.

    Parameters
    ----------
    data : str
        Name of the set, as in the jobs' names.
    models : dict of str to _Model
    paper : dict
        Mean and standard deviation by label; rows that are not among ``models`` are shown without ours.
    columns : sequence of str
        Scores in the results.
    results : dict
        Of finished jobs, by name.
    splits : int
    """
    keys = {model.label: key for key, model in models.items()}
    rows = []
    for label in dict.fromkeys([*paper, *keys]):
        mean, sd = paper.get(label, (np.nan, np.nan))
        row: dict[str, Any] = {"set": data, "model": label, "paper %": mean, "paper sd": sd}
        names = [_job_name(data, i, keys[label]) for i in range(1, splits + 1)] if label in keys else []
        finished = pd.DataFrame([results[name] for name in names if name in results])
        for column in columns:
            values = finished.get(column, pd.Series(dtype=float))
            row[column] = values.mean()
            row[column.replace(" %", " sd")] = values.std(ddof=1)
        row["C"] = finished.get("C", pd.Series(dtype=float)).median()
        row["splits"] = len(finished)
        rows.append(row)
    return pd.DataFrame(rows).set_index(["set", "model"])


def latent_table(
    results: Mapping[str, Mapping[str, Any]], sets: Sequence[str], splits: Mapping[str, int]
) -> pd.DataFrame:
    """Table 4: mean number of latent features, the paper's and ours, and the number of features."""
    rows = []
    for name in sets:
        names = [_job_name(name, i, "nonparametric") for i in range(1, splits[name] + 1)]
        values = pd.Series([results[n]["n_latent"] for n in names if n in results], dtype=float)
        mean, sd = _PAPER_TABLE_4[name]
        rows.append(
            {
                "set": name,
                "paper K": mean,
                "paper sd": sd,
                "K": values.mean(),
                "K sd": values.std(ddof=1),
                "splits": len(values),
            }
        )
    return pd.DataFrame(rows).set_index("set")


def _shown(table: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """The table of one set as text: mean (sd)."""
    shown = pd.DataFrame(index=table.index.get_level_values("model"))
    shown["paper"] = _with_sd(table["paper %"], table["paper sd"])
    for column, title in columns.items():
        shown[title] = _with_sd(table[column], table[column.replace(" %", " sd")])
    shown["C"] = ["" if np.isnan(C) else f"{C:.2g}" for C in table["C"]]
    return shown


def _with_sd(mean: pd.Series, sd: pd.Series) -> list[str]:
    """Two digits; nothing where there is no mean."""
    return [
        "" if np.isnan(m) else f"{m:.2f}" if np.isnan(s) else f"{m:.2f} ({s:.2f})"
        for m, s in zip(mean, sd, strict=True)
    ]


# ---------------------------------------------------------------- figures


def curves(data: str, model: str, numbers: Mapping[str, Any]) -> pd.DataFrame:
    """Numbers of a figure's job as a table: set, model, chain, sweep, score of the running mean and of the draw."""
    running = np.array(numbers["running mean"])
    chains, sweeps = running.shape
    frame = pd.DataFrame(
        {
            "set": data,
            "model": model,
            "chain": np.repeat(np.arange(chains), sweeps),
            "sweep": np.tile(np.arange(1, sweeps + 1), chains),
            "running mean": running.ravel(),
            "draw": np.ravel(numbers["draw"]),
        }
    )
    if "n_latent" in numbers:
        frame["n_latent"] = np.ravel(numbers["n_latent"])
    return frame


def _figure2(frame: pd.DataFrame) -> Figure:
    return _panels(
        [
            (frame[frame["set"] == name], "running mean", f"{name}: {score}")
            for name, score in (("yeast", "micro F1 %"), (SCHOOL, "explained variance %"))
            if (frame["set"] == name).any()
        ]
    )


def _figure3(frame: pd.DataFrame) -> Figure:
    return _panels([(frame, "n_latent", "latent features"), (frame, "running mean", "explained variance %")])


def _panels(panels: list[tuple[pd.DataFrame, str, str]]) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.0 * len(panels), 3.6), squeeze=False, layout="constrained"
    )
    for ax, (frame, column, title) in zip(axes[0], panels, strict=True):
        _curves_of_models(ax, frame, column)
        ax.set_title(title, fontsize=10)
        if title.endswith("explained variance %"):
            ax.set_ylim(0.0, 1.1 * frame[column].max())  # the first sweeps lie hundreds below
        ax.set_xlabel("sweeps")
    axes[0, -1].legend(frameon=False, fontsize=8)
    return figure


def _curves_of_models(ax: Axes, frame: pd.DataFrame, column: str) -> None:
    """Mean over chains, and their range."""
    for model, rows in frame.groupby("model", sort=False):
        by_sweep = rows.groupby("sweep")[column]
        mean = by_sweep.mean()
        [line] = ax.plot(mean.index, mean, linewidth=1.2, label=str(model))
        ax.fill_between(
            mean.index, by_sweep.min(), by_sweep.max(), color=line.get_color(), alpha=0.15, linewidth=0
        )
    ax.margins(x=0.01)


# ---------------------------------------------------------------- the whole


@dataclass(frozen=True)
class _Plan:
    """What was asked for."""

    tables: tuple[int, ...]
    figures: tuple[int, ...]
    sets: tuple[str, ...]
    splits: dict[str, int]
    settings: Settings
    chains: int
    stem: str  # of the files

    def sets_of(self, table: int) -> tuple[str, ...]:
        """The sets that a table shows."""
        if table == 4:
            return self.sets
        return tuple(name for name in self.sets if (name == SCHOOL) == (table == 3))

    def jobs(self) -> list[Job]:
        """What has to be run, each job once."""
        school, labels = self.splits[SCHOOL], max(v for k, v in self.splits.items() if k != SCHOOL)
        jobs: dict[str, Job] = {}
        for table in self.tables:
            for name, job in _table_jobs(self.sets_of(table), labels, school, self.settings).items():
                if table != 4 or job.settings["model"] == "nonparametric":
                    jobs[name] = job
        for figure in self.figures:
            jobs.update((job.name, job) for job in _figure_jobs(figure, self.chains, self.settings))
        return list(jobs.values())


def reproduce(
    out: str | Path,
    tables: Sequence[int] = TABLES,
    figures: Sequence[int] = FIGURES,
    sets: Sequence[str] | None = None,
    splits: int | None = None,
    cv: int = 3,
    n_jobs: int = 1,
    quick: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Run what is missing, print our numbers beside the paper's, and write tables and pictures to a folder.

    Parameters
    ----------
    out : path
        Folder for ``li2014-table<n>.csv`` and ``.md``, ``li2014-figure<n>.csv`` and ``.png``, and for the results of
        single jobs, from which a run that was cut off goes on. With ``quick``, names begin ``li2014-quick``.
    tables, figures : sequence of int
        Of 2, 3, 4 and 2, 3.
    sets : sequence of str, optional
        Names of label sets and ``"School"``. Default: all; with ``quick`` emotions and School.
    splits : int, optional
        Random splits of a label set (default 5) and published splits of School (default, and at most, 10).
    cv : int
        Folds of the cross-validation.
    n_jobs : int
        Processes.
    quick : bool
        Two splits, small grids and few draws: a look at whether everything works.
    console : rich.console.Console, optional

    Returns
    -------
    Outcome
    """
    require_sklearn()
    console = console or Console(highlight=False)
    plan = _plan(tables, figures, sets, splits, cv, quick)
    folder = Path(out)
    jobs = plan.jobs()
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(plan.sets)}, of which the tables {plan.tables} show nothing. "
            "Table 2 shows the label sets, table 3 School, table 4 all."
        )
    outcome = run_jobs(jobs, folder / f"{plan.stem}-jobs", n_jobs, plan.stem, console)
    for table in plan.tables:
        _write_table(table, plan, outcome, folder, console)
    for figure in plan.figures:
        _write_figure(figure, outcome, folder / f"{plan.stem}-figure{figure}", console)
    print_failures(outcome, console)
    return outcome


def _plan(
    tables: Sequence[int],
    figures: Sequence[int],
    sets: Sequence[str] | None,
    splits: int | None,
    cv: int,
    quick: bool,
) -> _Plan:
    require_known(table=(tables, TABLES), figure=(figures, FIGURES), sets=(sets, [*LABEL_SETS, SCHOOL]))
    chosen = sets or (["emotions", SCHOOL] if quick else [*LABEL_SETS, SCHOOL])
    require_used("splits", splits, bool(tables), "the tables")
    if splits is not None:
        whole_number(splits, "splits", 1)
    whole_number(cv, "cv", 2)
    labels, school = (splits or (2 if quick else 5)), (splits or (2 if quick else _SCHOOL_SPLITS))
    return _Plan(
        tables=tuple(dict.fromkeys(tables)),
        figures=tuple(dict.fromkeys(figures)),
        sets=tuple(dict.fromkeys(chosen)),
        splits={**dict.fromkeys(LABEL_SETS, labels), SCHOOL: min(school, _SCHOOL_SPLITS)},
        settings=Settings.quick(cv) if quick else Settings(cv=cv),
        chains=1 if quick else 3,
        # Files of their own: a look must not overwrite a run of an hour.
        stem="li2014-quick" if quick else "li2014",
    )


def _write_table(table: int, plan: _Plan, outcome: Outcome, folder: Path, console: Console) -> None:
    if table == 4:
        frame = latent_table(outcome.results, plan.sets, plan.splits)
        text = pd.DataFrame(
            {
                "paper": _with_sd(frame["paper K"], frame["paper sd"]),
                "K": _with_sd(frame["K"], frame["K sd"]),
                "splits": frame["splits"].astype(str),
            },
            index=frame.index,
        )
        _write(folder / f"{plan.stem}-table4", frame, [("", text)], console, "Table 4: latent features")
        return
    school = table == 3
    models, columns = (_SCHOOL_MODELS, _SCHOOL_COLUMNS) if school else (_LABEL_MODELS, _LABEL_COLUMNS)
    frames = []
    for name in plan.sets_of(table):
        paper = (
            _PAPER_TABLE_3 if school else {label: scores[name] for label, scores in _PAPER_TABLE_2.items()}
        )
        frames.append(score_table(name, models, paper, list(columns), outcome.results, plan.splits[name]))
    if frames:
        texts = [(str(frame.index[0][0]), _shown(frame, columns)) for frame in frames]
        title = f"Table {table}: {'explained variance' if school else 'F1'} in %, mean (sd) over splits"
        _write(folder / f"{plan.stem}-table{table}", pd.concat(frames), texts, console, title)


def _write(
    path: Path,
    frame: pd.DataFrame,
    texts: list[tuple[str, pd.DataFrame]],
    console: Console,
    title: str,
) -> None:
    for name, text in texts:
        print_frame(console, text, f"{title}; {name}" if name else title)
    write_table(path, frame, texts, console)


def _write_figure(figure: int, outcome: Outcome, path: Path, console: Console) -> None:
    parts = []
    for name, numbers in outcome.results.items():
        if not name.startswith(f"figure{figure}-"):
            continue
        if figure == 3:
            parts.append(curves(SCHOOL, f"alpha {float(name.partition('alpha')[2]):g}", numbers))
        else:
            data, model = name.split("-")[1:]
            parts.append(curves(data, _BAYESIAN[model].label, numbers))
    if not parts:
        return
    frame = pd.concat(parts, ignore_index=True)
    draw: Callable[[pd.DataFrame], Figure] = _figure2 if figure == 2 else _figure3
    write_figure(path, frame, draw, frame, console)

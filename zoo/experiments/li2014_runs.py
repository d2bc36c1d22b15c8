"""What is run for the tables and figures of Li, Zhu & Chen (2014): models, settings, data, jobs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo import datasets
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics import compare, explained_variance, f1_scores
from zoo.experiments.task_clustering import TaskClustering
from zoo.experiments.task_covariances import TaskProcesses, TaskRelationships
from zoo.experiments.yardsticks import (
    FeatureLearning,
    PooledLinear,
    SeparateLinear,
    Yardstick,
    choose_among,
    decision,
)
from zoo.likelihoods import EpsilonInsensitive
from zoo.registry import get_factory
from zoo.report import complete
from zoo.selection import select
from zoo.support.runner import Job

if TYPE_CHECKING:
    pass
from zoo.experiments.li2014_numbers import SCHOOL

__all__ = [
    "BAYESIAN",
    "LABEL_MODELS",
    "SCHOOL_MODELS",
    "Model",
    "Settings",
    "figure_jobs",
    "job_name",
    "table_jobs",
]

# Test inputs over all inputs of the published split; CAL500 has none.
LABEL_SETS = {"emotions": 202 / 593, "CAL500": 1 / 3, "scene": 1196 / 2407, "yeast": 917 / 2417}
EPSILON = 0.001
ALPHA = 5.0  # given for School only, used everywhere
FIGURE_SWEEPS = 50
FIGURE_ALPHAS = (1.0, 2.0, 4.0, 8.0, 16.0)


class Model(NamedTuple):
    """A row of a table: a factory with its fields, or a yardstick."""

    label: str
    factory: str | None = None
    fields: Mapping[str, Any] = {}
    yardstick: Yardstick | None = None
    grid: str = "linear_grid"  # the yardstick's grid for labels, a field of Settings
    school_grid: str = "school_linear_grid"  # the same for School
    others: tuple[
        Yardstick, ...
    ] = ()  # yardsticks among which, and the first, the cross-validation chooses, too
    choices: Mapping[str, Sequence[Any]] = {}  # what is chosen by cross-validation, where it is not C alone


BAYESIAN = {
    "identity": Model("BM-MTL (I-Ω, I-R)", "MaxMargin", {"feature_cov": "identity", "task_cov": "identity"}),
    "features": Model("BM-MTL (Ω, I-R)", "MaxMargin", {"task_cov": "identity"}),
    "tasks": Model("BM-MTL (I-Ω, R)", "MaxMargin", {"feature_cov": "identity"}),
    "both": Model("BM-MTL (Ω, R)", "MaxMargin"),
    "nonparametric": Model("NPBM-MTL (Z, R)", "NonparametricMaxMargin", {"alpha": ALPHA}),
}
LABEL_MODELS = {
    **BAYESIAN,
    "balanced": Model("BM-MTL (Ω, R), balanced", "MaxMargin", {"class_weight": "balanced"}),
    "weighted": Model(
        "BM-MTL (Ω, R), class weight chosen",
        "MaxMargin",
        choices={
            "class_weight": [(1.0, w) for w in (1.0, 1.5, 2.5, 4.0)],
            "likelihood.C": (0.03, 0.1, 0.3, 1.0),
        },
    ),
    "lr": Model("LR", yardstick=SeparateLinear("logistic")),
    "svm": Model("linear SVM", yardstick=SeparateLinear("squared hinge")),
    "lr-pooled": Model("LR, pooled", yardstick=PooledLinear("logistic")),
    "svm-pooled": Model("linear SVM, pooled", yardstick=PooledLinear("squared hinge")),
    "mtl-f": Model("MTL-F", yardstick=FeatureLearning("logistic"), grid="feature_grid"),
}
_TUBE_LEARNED = EpsilonInsensitive(C="learned", epsilon=EPSILON)
SCHOOL_MODELS = {
    **BAYESIAN,
    # The nearest to MT-iLSVM, which is not run: features that are learned, and tasks that are not related.
    "features-alone": Model(
        "NPBM-MTL (Z, I-R)", "NonparametricMaxMargin", {"alpha": ALPHA, "task_cov": "identity"}
    ),
    "related": Model("BM-MTL (Ω, R), related tasks", "MaxMargin", {"task_correlation": 0.8}),
    "learned": Model("BM-MTL (Ω, R), C learned", "MaxMargin", {"likelihood": _TUBE_LEARNED}),
    "stl": Model("STL", yardstick=SeparateLinear("squared")),
    "pooled": Model("ridge, pooled", yardstick=PooledLinear("squared")),
    "mtl-f": Model("MTL-F", yardstick=FeatureLearning("squared"), grid="feature_grid"),
    "bmtl": Model("BMTL", yardstick=TaskClustering(), school_grid="school_clusters"),
    "mtgp": Model("MTGP", yardstick=TaskProcesses(), school_grid="school_ranks"),
    "mtrl": Model(
        "MTRL",
        yardstick=TaskRelationships(0.1),
        others=tuple(TaskRelationships(rho) for rho in (0.3, 1.0, 3.0, 10.0, 30.0)),
    ),
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
        The same for School, the second for its yardsticks.
    school_clusters, school_ranks : tuple of int
        Numbers of clusters of tasks, and ranks of a covariance of tasks, which are chosen in the place of C.
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
    school_clusters: tuple[int, ...] = (1, 2, 3, 4, 5)
    school_ranks: tuple[int, ...] = (1, 2, 3, 4, 5, 8)

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
            school_clusters=(1, 2),
            school_ranks=(1, 2),
        )


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


def _score(data: str, split: int, model: str, **settings: Any) -> dict[str, Any]:
    """Job: scores of a model on the test rows of a split, C chosen on the training rows."""
    chosen = Settings(**settings)
    school = data == SCHOOL
    row = (SCHOOL_MODELS if school else LABEL_MODELS)[model]
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
    row: Model,
    train: MultiTaskData,
    test: MultiTaskData,
    folds: list[tuple[MultiTaskData, MultiTaskData]],
    settings: Settings,
) -> dict[str, Any]:
    assert row.yardstick is not None
    labels = len(np.unique(train.y)) == 2
    scores = _label_scores if labels else _real_scores
    first = "micro F1 %" if labels else "explained variance %"
    grid = getattr(settings, row.grid if labels else row.school_grid)
    best, C = choose_among([row.yardstick, *row.others], folds, grid, lambda rows, f: scores(rows, f)[first])
    return {"C": C, **scores(test, decision(best.fit(train, C), train, test))}


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


def _factory(row: Model, school: bool) -> ModelFactory:
    assert row.factory is not None
    likelihood = {"likelihood": EpsilonInsensitive(C=1.0, epsilon=EPSILON)} if school else {}
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
    factory = _factory(BAYESIAN[model], school)
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


def table_jobs(sets: Sequence[str], splits: int, school_splits: int, settings: Settings) -> dict[str, Job]:
    """The jobs of tables 2-4 by name; table 4 reads those of the nonparametric model."""
    jobs = {}
    for name in sets:
        models = SCHOOL_MODELS if name == SCHOOL else LABEL_MODELS
        for split in range(1, (school_splits if name == SCHOOL else splits) + 1):
            for model in models:
                job = Job(
                    job_name(name, split, model),
                    _score,
                    {"data": name, "split": split, "model": model, **asdict(settings)},
                )
                jobs[job.name] = job
    return jobs


def job_name(data: str, split: int, model: str) -> str:
    """Name of the job of one split and one model."""
    return f"{data}-split{split:02d}-{model}"


def figure_jobs(figure: int, chains: int, settings: Settings) -> list[Job]:
    """Figure 2: both models on yeast and School. Figure 3: values of alpha on School."""
    common = {"chains": chains, "sweeps": FIGURE_SWEEPS, **asdict(settings)}
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
        for alpha in FIGURE_ALPHAS
    ]

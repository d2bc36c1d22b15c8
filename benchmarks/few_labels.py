"""The max-margin model with few labelled rows in each task, beside logistic models.

    python benchmarks/few_labels.py [--sets rare emotions ...] [--rows 20 40 80 160 300] [--runs 10]

Each run draws that many labelled rows of every task, independently for each, and predicts a test set. The first table
has the area under the ROC curve, averaged over tasks and runs, and the second the mean log loss of the probabilities.

"rare" is simulated: 29 tasks with nine features, of whose labels 5 to 14 % are positive. The multi-label sets
emotions, scene and yeast have their official test rows, and every label is a task. The others are groups from packages
of R; of these half of the rows of each task are test rows, and all others have labels.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import zoo
from zoo.experiments.scoreboard import scores_of
from zoo.experiments.scoreboard_methods import METHODS, Said
from zoo.experiments.scoreboard_sets import SETS, rare_labels

FACTORIES = {
    "hinge, C = 1/4": zoo.MaxMargin(likelihood="hinge"),
    "hinge, C = 1": zoo.MaxMargin(likelihood=zoo.Hinge(C=1.0)),
    "`MaxMargin`, logistic": zoo.MaxMargin(likelihood="logistic"),
    "`NIWLinear`, logistic": zoo.NIWLinear(likelihood="logistic"),
}
YARDSTICKS = {
    "tasks alone": "ridge or logistic, tasks alone",
    "task levels": "ridge or logistic, task levels",
}
GROUPS = ("contraception", "immunised", "aggression")


def load(name: str, run: int) -> tuple[zoo.MultiTaskData, zoo.MultiTaskData]:
    """Rows to draw from and test rows."""
    if name == "rare":  # 300 rows of every task to draw from, and 200 test rows
        return rare_labels(run, n_rows=500, test_size=0.4)
    return SETS[name].load(run if name in GROUPS else 0)


def labelled(data: zoo.MultiTaskData, n_rows: int | None, seed: int) -> zoo.MultiTaskData:
    """As many rows of every task as are asked for, drawn independently for each task; all where none are."""
    if n_rows is None:
        return data
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(data.task == t))[:n_rows] for t in range(data.n_tasks)]
    return data.take(np.sort(np.concatenate(rows)))


def said(method: str, train: zoo.MultiTaskData, test: zoo.MultiTaskData) -> Said:
    """Probabilities of the test rows."""
    if method in YARDSTICKS:
        return METHODS[YARDSTICKS[method]](train, test, True)
    fit = FACTORIES[method].fit(train.standardize(), random_seed=1, progress=False, draws=500, tune=500)
    return Said(fit.predict(test, random_seed=1)["probability"].to_numpy())


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["rare", "emotions", "scene", "yeast", *GROUPS])
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 40, 80, 160, 300])
    parser.add_argument("--runs", type=int, default=10)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of few draws, and of tasks with labels of one kind
    methods = [*FACTORIES, *YARDSTICKS]
    tables: dict[str, list[str]] = {"AUC": [], "score": []}
    for name in asked.sets:
        for n_rows in asked.rows if name not in GROUPS else [None]:
            found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
            for run in range(asked.runs):
                pool, test = load(name, run)
                if n_rows is not None and n_rows > pool.task_sizes.min():
                    break
                train = labelled(pool, n_rows, run)
                for method in methods:
                    found[method].append(scores_of(said(method, train, test), test, labels=True))
            else:
                for score, lines in tables.items():
                    means = [np.mean([one[score] for one in found[method]]) for method in methods]
                    lines.append(
                        f"| {name} | {n_rows or 'all'} | "
                        + " | ".join(f"{mean:.3f}" for mean in means)
                        + " |"
                    )
                    print(score, lines[-1], flush=True)
    for score, lines in tables.items():
        print(f"\n{'Area under the ROC curve' if score == 'AUC' else 'Log loss'}\n")
        print(f"| set | rows of each task | {' | '.join(methods)} |\n|{' --- |' * (2 + len(methods))}")
        print("\n".join(lines))


if __name__ == "__main__":
    main()

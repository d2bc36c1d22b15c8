"""Panels and groups from packages of R, as the collection Rdatasets has them: sets of the scoreboard.

None of them played a part in choosing priors and their defaults. How chains mix on ``cigarettes``, ``exam`` and
``gasoline`` was looked at when the rule was chosen by which the sampler of populations takes its moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from zoo.data.multitask import MultiTaskData
from zoo.datasets.registry import fetch

__all__ = ["PANELS", "Panel", "load_panel"]

# A task with fewer rows has none to train on, or none to test on.
_LEAST_ROWS = 4


class Panel(NamedTuple):
    """Which columns of a file are what.

    ``file`` is a package of R and the name of a table in it, and ``y`` and ``task`` are columns of that table.
    ``numbers`` are columns that become features unchanged. ``classes`` are columns of categories, and each of their
    values but the first becomes a feature that is 1 where a row has that value and 0 elsewhere. ``logs`` are the
    columns of which the logarithm is taken. Where the response is a label, ``positive`` is its value that counts as +1.
    """

    file: str
    about: str
    y: str
    task: str
    numbers: tuple[str, ...]
    classes: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    positive: str | None = None


PANELS: dict[str, Panel] = {
    "products": Panel(
        "plm/Produc", "gross product of 48 states of the USA, 17 years",
        "gsp", "state", ("pcap", "pc", "emp", "unemp", "year"), logs=("gsp", "pcap", "pc", "emp"),
    ),
    "cigarettes": Panel(
        "plm/Cigar", "sales of cigarettes in 46 states of the USA, 30 years",
        "sales", "state", ("price", "pop", "ndi", "cpi", "pimin", "year"),
        logs=("sales", "price", "pop", "ndi", "cpi", "pimin", "year"),
    ),
    "gasoline": Panel(
        "plm/Gasoline", "consumption of gasoline in 18 countries, 19 years",
        "lgaspcar", "country", ("lincomep", "lrpmg", "lcarpcap", "year"),
    ),
    "firms": Panel(
        "plm/EmplUK", "employees of 140 firms, 7 to 9 years",
        "emp", "firm", ("wage", "capital", "output", "year"), logs=("emp", "wage", "capital", "output"),
    ),
    "rice": Panel(
        "plm/RiceFarms", "rice of 171 farms, 6 seasons",
        "goutput", "id", ("size", "seed", "totlabor", "price", "wage"), ("varieties", "region"),
        ("goutput", "size", "seed", "totlabor", "price", "wage"),
    ),
    "exam": Panel(
        "mlmRev/Exam", "exams of 4,059 pupils of 65 schools",
        "normexam", "school", ("standLRT", "schavg"), ("sex", "vr", "intake", "type", "schgend"),
    ),
    "maths": Panel(
        "mlmRev/Hsb82", "mathematics of 7,185 pupils of 160 schools",
        "mAch", "school", ("ses", "meanses"), ("minrty", "sx", "sector"),
    ),
    "sleep": Panel("lme4/sleepstudy", "reaction times of 18 sleepless persons", "Reaction", "Subject", ("Days",)),
    "pigs": Panel("geepack/dietox", "weights of 72 pigs", "Weight", "Pig", ("Time", "Start"), ("Evit", "Cu")),
    "guns": Panel(
        "AER/Guns", "violent crimes in 51 states of the USA, 23 years",
        "violent", "state", ("prisoners", "density", "income", "population", "afam", "cauc", "male", "year"), ("law",),
        ("violent", "prisoners", "density", "income", "population"),
    ),
    "contraception": Panel(
        "mlmRev/Contraception", "use of contraception by 1,934 women of 60 districts",
        "use", "district", ("age",), ("livch", "urban"), positive="Y",
    ),
    "immunised": Panel(
        "mlmRev/guImmun", "immunisation of 2,159 children of 161 communities",
        "immun", "comm", ("pcInd81",), ("kid2p", "mom25p", "ord", "ethn", "momEd", "husEd", "momWork", "rural"),
        positive="Y",
    ),
    "aggression": Panel(
        "lme4/VerbAgg", "answers of 316 persons to 24 questions", "r2", "item", ("Anger",), ("Gender",), positive="Y",
    ),
}  # fmt: skip


def load_panel(name: str) -> MultiTaskData:
    """One of :data:`PANELS` with an intercept; rows with missing values and tasks of fewer than four rows are left out.

    Raises
    ------
    FileNotFoundError
        The file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    """
    panel = PANELS[name]
    columns = [panel.y, panel.task, *panel.numbers, *panel.classes]
    frame = pd.read_csv(fetch(f"rdatasets/{panel.file}.csv"))[columns].dropna()
    for column in panel.logs:
        frame[column] = np.log(frame[column])
    frame = frame[frame.groupby(panel.task)[panel.y].transform("size") >= _LEAST_ROWS]
    features = list(panel.numbers)
    for name in panel.classes:
        values = frame[name].astype(str)
        for value in sorted(values.unique())[1:]:
            features.append(f"{name} {value}")
            frame[features[-1]] = (values == value).astype(np.float64)
    frame[panel.task] = frame[panel.task].astype(str)
    if panel.positive is not None:
        frame[panel.y] = np.where(frame[panel.y] == panel.positive, 1.0, -1.0)
    return MultiTaskData.from_frame(frame, y=panel.y, task=panel.task, features=features).add_intercept()

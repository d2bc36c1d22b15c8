"""Columns of whole numbers that look like names of groups, where they become features because nobody chose any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.warning_types import warn_user
from zoo.support.words import first_names

__all__ = ["numbers_of_groups", "warn_of_group_numbers"]

# What a column is called whose numbers are names: the last word of several, or the only one.
_CODES = frozenset(["id", "ids", "code", "zip", "zipcode", "postcode", "fips"])
_NUMBERS = frozenset(["no", "nr", "number"])
_GROUPS = frozenset(
    [
        *(
            "school",
            "classroom",
            "teacher",
            "student",
            "pupil",
            "store",
            "shop",
            "branch",
            "customer",
            "client",
        ),
        *(
            "household",
            "family",
            "person",
            "respondent",
            "participant",
            "subject",
            "patient",
            "hospital",
            "clinic",
        ),
        *(
            "ward",
            "doctor",
            "firm",
            "company",
            "user",
            "judge",
            "rater",
            "task",
            "site",
            "district",
            "county",
        ),
    ]
)
# Words for times and amounts, whose numbers have an order.
_ORDERED = re.compile(
    r"(^|_)(age|year|month|week|day|hour|minute|date|time|period|wave|n|num|count|rating)(_|$)"
)
# By its name, and by its values: the least numbers of values, and rows for each on average.
_FEWEST, _ROWS_EACH = 3, 2.0
_FEWEST_UNNAMED, _ROWS_EACH_UNNAMED = 8, 4.0
# What levels must explain of the variance of y that a curve of the numbers leaves, corrected for chance; how many
# standard deviations of chance that must be; and how much of all that levels explain.
_EXPLAINED, _BEYOND_CHANCE, _MOST = 0.1, 5.0, 0.5


def warn_of_group_numbers(df: pd.DataFrame, features: Sequence[Any], y: Any, has_task: bool) -> None:
    """Warn of the columns that :func:`numbers_of_groups` finds, and say what to do."""
    found = numbers_of_groups(df, features, y)
    if not found:
        return
    one, first = len(found) == 1, found[0]
    advice = (
        f"Leave {'it' if one else 'them'} out by features=[...], or make categories of {'it' if one else 'them'} "
        f"(df[{first!r}].astype('category')) for a coefficient of each level"
        if has_task
        else f"If its groups are the tasks, pass task={first!r}; else leave it out by features=[...], or make "
        f"categories of it (df[{first!r}].astype('category'))"
    )
    warn_user(
        f"{'column' if one else 'columns'} {first_names(found)} {'holds' if one else 'hold'} whole numbers that look "
        f"like names of groups, and {'is a feature' if one else 'are features'}, as if twice the number were twice as "
        f"much. {advice}. Name {'it' if one else 'them'} in features=[...] to keep the number, without this warning."
    )


def numbers_of_groups(df: pd.DataFrame, features: Sequence[Any], y: Any) -> list[str]:
    """Which of these columns look like names of groups.

    All values of such a column are whole numbers, and each occurs in several rows. Beside that

    - either its name says so: it ends in ``id``, ``code`` or ``zip``, or in ``no``, ``nr`` or ``number`` behind another
      word, or it is a word such as school, store, subject or patient. There are at least three values, and two rows
      for each of them;
    - or its values do: there are at least eight of them, with four rows for each, and y differs between them by far
      more than curves of third degree, of the numbers and of their ranks, explain: by a tenth of the variance that
      these leave, by five standard deviations more than chance, and by no less than these themselves explain. Names
      of times and amounts (age, year, day, count) are left aside.

    So ages, years, numbers of children and points of a scale pass, whether y goes up with them, goes up and down, or
    does neither.
    """
    response = df[y]
    if not pd.api.types.is_numeric_dtype(response.dtype) or response.dtype.kind == "c":
        response = pd.Series(np.zeros(len(df)))
    seen = response.to_numpy(dtype=np.float64, na_value=np.nan)
    return [str(c) for c in features if _holds_names(df[c], str(c), seen)]


def _holds_names(column: pd.Series, name: str, y: np.ndarray) -> bool:
    if column.dtype.kind not in "iuf" or not pd.api.types.is_numeric_dtype(column.dtype):
        return False
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.isfinite(values) & np.isfinite(y)
    values, y = values[known], y[known]
    if not len(values) or np.any(values != np.round(values)):
        return False
    distinct, code = np.unique(values, return_inverse=True)
    each = len(values) / len(distinct)
    word = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).lower().strip("_")
    if _is_name(word):
        return len(distinct) >= _FEWEST and each >= _ROWS_EACH
    if len(distinct) < _FEWEST_UNNAMED or each < _ROWS_EACH_UNNAMED or _ORDERED.search(word):
        return False
    return _levels_beyond_a_curve(code, values, y)


def _is_name(word: str) -> bool:
    parts = word.split("_")
    last = parts[-1]
    return last in _CODES or (len(parts) > 1 and last in _NUMBERS) or word in _GROUPS


def _levels_beyond_a_curve(code: np.ndarray, values: np.ndarray, y: np.ndarray) -> bool:
    """Whether levels explain much of y, and polynomials of the numbers and of their ranks the lesser part of it."""
    curve = np.hstack([_cubic(values), _cubic(code.astype(np.float64))[:, 1:]])
    left = y - curve @ np.linalg.lstsq(curve, y, rcond=None)[0]
    total, sizes = float(left @ left), np.bincount(code)
    if not total > 1e-12 * float(y @ y):
        return False
    beyond, every = (float(np.bincount(code, v) ** 2 @ (1.0 / sizes)) for v in (left, y - y.mean()))
    free, rest = len(sizes) - int(np.linalg.matrix_rank(curve)), len(y) - len(sizes)
    mean_square = (total - beyond) / rest
    share = (beyond - free * mean_square) / total
    ratio = beyond / free / mean_square if mean_square > 0.0 else np.inf
    by_chance = np.sqrt(2.0 / free + 2.0 / rest)
    return share >= _EXPLAINED and ratio - 1.0 >= _BEYOND_CHANCE * by_chance and beyond >= _MOST * every


def _cubic(values: np.ndarray) -> np.ndarray:
    return np.polynomial.legendre.legvander(2.0 * (values - values.min()) / np.ptp(values) - 1.0, 3)

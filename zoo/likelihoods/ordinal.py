"""Ordered probit likelihood: grades, such as ratings from 1 to 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import ndtr

from zoo.data.multitask import MultiTaskData
from zoo.inference.augmentation import Augmentation, JointMoves
from zoo.inference.gibbs.augmented_ordinal import (
    OrdinalLaws,
    OrdinalParameters,
    ordinal_draw,
    ordinal_log_density,
    ordinal_scale,
    ordinal_shift,
    ordinal_slopes,
    ordinal_update,
    rows_at_an_end,
)
from zoo.inference.gibbs.parameter_laws import fixed
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.coding import encode_grades
from zoo.likelihoods.derivatives import log_density
from zoo.likelihoods.laws import Law, LogNormal
from zoo.likelihoods.pymc_laws import as_law, is_distribution
from zoo.ops.normal_interval import FAR, log_normal_interval
from zoo.support.checks import one_of, positive, whole_number
from zoo.support.frames import by_name

__all__ = ["Ordinal"]

_WIDTH_LAW = LogNormal(0.0, 1.0)
# The methods that say what the law of y is: a subclass that changes one has another law.
_OF_THE_LAW = ("log_density", "random", "term")


@dataclass(frozen=True, kw_only=True, repr=False)
class Ordinal(Likelihood):
    r"""Grades in an order, such as ratings: f plus standard normal noise, cut into K intervals by K - 1 cut points.

    With :math:`z = f + e`, :math:`e \sim N(0, 1)`, the grade is 1 for z below the cut point :math:`c_1`, 2 between
    :math:`c_1` and :math:`c_2`, and K above :math:`c_{K-1}`, so that

    .. math:: P(y \le k \mid f) = \Phi(c_k - f), \qquad c_1 = 0, \quad c_k = w_2 + \dots + w_k .

    A shift of all cut points is the same as a constant in f, and a scale the same as one of the noise. So the first cut
    point is 0 and the noise has standard deviation 1, as for :class:`~zoo.Probit`, which this likelihood is for two
    grades. The shift is then the constant of f: a model that has a coefficient for each feature needs a feature of
    ones (``data.add_intercept()``), and ``fit`` warns where there is none. What is learned are the widths
    :math:`w_k` of the grades between the lowest and the highest one, the parameters ``width_2`` to ``width_{K-1}`` of
    the posterior; :func:`zoo.diagnostics.cutpoints` makes cut points of them.

    Method "gibbs" is that of Albert & Chib (1993) with the latent variable integrated out where cut points are drawn
    (Cowles 1996), and takes no weights of rows.

    Parameters
    ----------
    grades : int or sequence of float
        How many grades there are, K: the data then hold 1 to K, or a column of ordered categories. Or the numbers that
        stand for them in the data, in increasing order: ``(0, 1, 2)``.
    width : "learned", Law, float, sequence of K - 2 float, or dict or Series of them by ``"width_2"`` ...
        Widths of the grades between, on the scale of f: learned with the prior LogNormal(0, 1) each, or with a prior of
        your own; or numbers, one for each or one for all, where the cut points are known.
    per_task : sequence of str
        ``("width",)``: every task has cut points of its own, as judges who use a scale differently.

    Raises
    ------
    ValueError
        There are fewer than two grades, or they do not increase; ``width`` does not fit them.
    """

    word: ClassVar[str] = "ordinal"
    sticks_at_ends: ClassVar[bool] = True
    augmented: ClassVar[bool] = True
    augmented_weights: ClassVar[bool] = False
    responses: ClassVar[Literal["real", "labels", "counts", "grades"]] = "grades"

    grades: int | Sequence[float] = 5
    width: Any = "learned"

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if set(_OF_THE_LAW) & set(vars(cls)) and "augmentation" not in vars(cls):
            cls.augmented = False  # it was derived for another density

    def __post_init__(self) -> None:
        object.__setattr__(self, "grades", _checked_grades(self.grades))
        names = tuple(f"width_{k}" for k in range(2, self.n_grades))
        # The names depend on the number of grades, and so they belong to the object and not to the class.
        object.__setattr__(self, "parameter_names", names)
        width = _checked_width(self.width, names)
        object.__setattr__(self, "width", width)
        for i, name in enumerate(names):
            value = _WIDTH_LAW if isinstance(width, str) else width[i] if isinstance(width, tuple) else width
            object.__setattr__(self, name, value)
        given = (self.per_task,) if isinstance(self.per_task, str) else tuple(self.per_task)
        if names and given and all(name.split("_")[0] == "width" for name in given):
            # Also where these are the names for another number of grades, which has been changed.
            object.__setattr__(self, "per_task", names)
        super().__post_init__()

    # ---------------------------------------------------------------- grades

    @property
    def n_grades(self) -> int:
        """K, the number of grades."""
        return self.grades if isinstance(self.grades, int) else len(self.grades)

    @property
    def grade_values(self) -> np.ndarray:
        """Numbers that stand for the grades in the data, (K,)."""
        if isinstance(self.grades, int):
            return np.arange(1.0, self.grades + 1.0)
        return np.array(self.grades)

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Grades as 1 to K, (N,); raises on what is no grade, and warns of grades that no row has."""
        return encode_grades(data, self.grade_values)

    def decode(self, y: np.ndarray) -> np.ndarray:
        """Grades as the data have them, from 1 to K."""
        return np.asarray(self.grade_values[np.asarray(y, dtype=np.int64) - 1])

    # ---------------------------------------------------------------- density

    def _cuts(self, parameters: Mapping[str, Any]) -> list[Any]:
        """Cut points 1 to K - 1, of which the first one is 0."""
        values = self.values_of(parameters)
        cuts: list[Any] = [0.0]
        for name in self.parameter_names:
            cuts.append(cuts[-1] + values[name])
        return cuts

    def log_density(self, f: Any, y: Any, **parameters: Any) -> Any:
        r"""Logarithm of :math:`\Phi(c_y - f) - \Phi(c_{y-1} - f)`, with its digits and finite derivatives."""
        lower, upper = 0.0, 0.0
        for k, name in enumerate(self.parameter_names, start=2):
            width = pt.cast(parameters[name], "float64")
            lower = lower + pt.switch(pt.gt(y, k), width, 0.0)
            upper = upper + pt.switch(pt.ge(y, k), width, 0.0)
        a, b = lower - f, upper - f
        # The lowest grade has no lower end, and the highest one no upper end.
        outer_a, outer_b = (
            pt.switch(pt.eq(y, 1.0), b - FAR, a),
            pt.switch(pt.eq(y, self.n_grades), a + FAR, b),
        )
        return log_normal_interval(outer_a, outer_b)

    def random(self, f: Any, size: Any, **parameters: Any) -> Any:
        """Grades of normal variables around f."""
        z = pm.Normal.dist(f, 1.0, size=size)
        return 1.0 + sum(pt.cast(pt.gt(z, cut), "float64") for cut in self._cuts(parameters))

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation | None:
        """A truncated normal variable per row (Albert & Chib 1993); cut points are drawn without it."""
        if not self.augmented:
            return None
        size = n_tasks if self.per_task else 1
        names = self.parameter_names
        widths, numbers = np.empty((len(names), size)), np.empty((len(names), 3))
        for i, name in enumerate(names):
            widths[i] = laws[name].typical if name in laws else self.fixed[name]
            numbers[i] = laws[name].numbers() if name in laws else fixed()
        return Augmentation(
            ordinal_draw,
            OrdinalParameters(widths),
            self.learned,
            self.per_task,
            OrdinalLaws(numbers),
            ordinal_update if self.learned else None,
            log_density=ordinal_log_density,
            slopes=ordinal_slopes,
            crawls=partial(rows_at_an_end, self.n_grades),
            rows_of={name: ("widths", i) for i, name in enumerate(names)},
            joint=JointMoves(ordinal_scale, ordinal_shift) if self.learned else None,
        )

    # ---------------------------------------------------------------- predictions

    @property
    def normal_noise(self) -> bool:
        """Whether the law of y is the one of this class, and not one of a subclass."""
        return all(getattr(type(self), name) is getattr(Ordinal, name) for name in _OF_THE_LAW)

    def grade_probabilities(self, f: np.ndarray, sd: Any = 0.0, **parameters: Any) -> np.ndarray:
        """Probability (K, S, n) of each grade at draws ``f`` (S, n), or where f is normal around these with ``sd``.

        ``parameters`` holds draws (S, n) or (S, 1) of the widths that are learned. A subclass with a density of its own
        gets the probabilities of that, at f itself.
        """
        if not self.normal_noise:
            rows = {name: np.broadcast_to(value, f.shape).ravel() for name, value in parameters.items()}
            grades = [np.full(f.size, float(k)) for k in range(1, self.n_grades + 1)]
            logs = [log_density(self, pt.as_tensor(f.ravel()), y, rows).eval() for y in grades]
            return np.exp(logs).reshape(self.n_grades, *f.shape)
        root = np.sqrt(1.0 + np.square(sd))
        cuts = [(cut - f) / root for cut in self._cuts(parameters)]
        # Of an interval on the right the probability is the difference of what lies above its ends.
        inner = [np.where(a > 0.0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)) for a, b in pairwise(cuts)]
        return np.stack([ndtr(cuts[0]), *inner, ndtr(-cuts[-1])])

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Expected grade, of the numbers that stand for the grades in the data."""
        return np.asarray(np.tensordot(self.grade_values, self.grade_probabilities(f, **parameters), axes=1))


def _checked_grades(grades: Any) -> int | tuple[float, ...]:
    """The number of grades, or the numbers that stand for them."""
    advice = (
        "Give how many there are, 2 or more, or the numbers that stand for them in the data, as (0, 1, 2)."
    )
    if np.ndim(grades) == 0 and not isinstance(grades, str):
        try:
            return whole_number(grades, "grades", 2)
        except ValueError:
            raise ValueError(f"grades is {grades!r}. {advice}") from None
    try:
        values = tuple(float(value) for value in grades)
    except (TypeError, ValueError):
        values = ()
    if isinstance(grades, str) or len(values) < 2 or not np.all(np.isfinite(values)):
        names = " Names of grades belong to the data: make y a column of ordered categories."
        raise ValueError(f"grades is {grades!r}. {advice}{names}")
    if not np.all(np.diff(values) > 0.0):
        raise ValueError(f"grades is {grades!r}. Give its numbers in increasing order.")
    return values


def _checked_width(width: Any, names: tuple[str, ...]) -> Any:
    """Learned, a law, one number, or a tuple of as many numbers as there are widths."""
    if is_distribution(width) or (
        isinstance(width, Mapping) and "law" in width
    ):  # the latter as a file has it
        return as_law(width, "width")
    width, size = by_name(width, "width", names), len(names)
    if isinstance(width, str):
        one_of(width, ("learned",), "width")
        return width
    if isinstance(width, Law) or np.ndim(width) == 0:
        return width if isinstance(width, Law) else _checked_number(width, "width")
    values = tuple(_checked_number(value, f"width[{i}]") for i, value in enumerate(width))
    if len(values) != size:
        raise ValueError(
            f"width has {len(values)} numbers, and {size + 2} grades have {size} between the lowest and the highest "
            "one. Give one number for each of these, or one for all."
        )
    return values


def _checked_number(value: Any, argument: str) -> float:
    """A number above 0."""
    positive(value, argument)
    return float(value)

r"""Which structure the data ask for: smoothness, one scale or many, a level apart, and which coefficients vary.

Structures are compared by the log evidence of random rows S, at most 2,000 of N, each given its nearest ones (V6): a
sum of what the model says of each row before it sees it, at the :math:`\hat\theta` that makes the sum largest. With k
hyper-parameters such a maximum is too large by k/2 on average, for n = \|S\| rows as for N. So the criterion of Schwarz
(1978) for all rows, :math:`\ell_N(\hat\theta_N) - \tfrac k2 \log N`, is for one part in N/n of the rows about

.. math:: \mathrm{score} = \sum_{i \in S} \log p(y_i \mid y_{c(i)}, \hat\theta)
    - \frac k2 \Big( 1 + \frac nN (\log N - 1) \Big),

which is that criterion where S has all rows. The search takes, again and again, the change that raises the score most,
and then leaves out features whose coefficients need not vary. It is greedy: combinations of changes, each of which
lowers the score, are not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

from zoo.core.fit import Fit
from zoo.core.methods import UnsupportedMethodError
from zoo.data.multitask import MultiTaskData
from zoo.models.varying_coefficient.component import VaryingComponent
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.ranges import Pilot, pilot_fit
from zoo.support.checks import flag

__all__ = ["ChoosesStructure", "Structure"]

# From rough to smooth.
_SMOOTHNESS = ("matern12", "matern32", "matern52")
# Of each pilot fit: how often neighbours are chosen, how many, and steps and tolerance of each search. Fits that end
# sooner differ by more than structures do.
_PILOT: dict[str, Any] = {"passes": 2, "n_neighbours": 20, "steps": 200, "tol": 1e-6}
# By how much a change must raise the score, but for leaving out: less is not worth the time of another step.
_GAIN = 1.0
# A feature whose absence lowers the score by as much is not looked at again.
_NEEDED = 10.0
# A long lengthscale, in standard deviations of t.
_FAR = 2.0


@dataclass(frozen=True)
class Structure:
    """What :meth:`VaryingCoefficientGP.choose_structure` has found.

    Parameters
    ----------
    factory : VaryingCoefficientGP
        The model with the largest score, ready to be fitted.
    table : pandas.DataFrame
        One row for each structure that was tried, in the order of the search: the ``step`` of the search, the
        ``change`` that makes it of the structure before, its ``log_evidence`` for one row, the number of learned
        ``parameters``, its ``score``, and whether it was ``taken``.
    changes : tuple of str
        The changes that were taken, in words. Empty where the model given is the best.
    """

    factory: Any
    table: pd.DataFrame
    changes: tuple[str, ...]

    def __repr__(self) -> str:
        gain = float(self.table.loc[self.table["taken"], "score"].iloc[-1] - self.table["score"].iloc[0])
        if not self.changes:
            return f"Structure: none of {len(self.table) - 1} other structures has a larger score"
        steps = "; ".join(self.changes)
        return (
            f"Structure: {steps}. The score is larger by {gain:.1f} ({len(self.table)} structures compared)"
        )


class _Tried(NamedTuple):
    """A structure with its pilot fit."""

    change: str
    factory: Any
    pilot: Pilot
    n_rows: int

    @property
    def score(self) -> float:
        """Schwarz's criterion of all rows, per row, times the rows of the pilot fit."""
        share = self.pilot.n_rows / self.n_rows
        return self.pilot.value - 0.5 * self.pilot.size * (1.0 + share * (float(np.log(self.n_rows)) - 1.0))


@dataclass(frozen=True, kw_only=True)
class ChoosesStructure(VaryingDescription):
    """The search for a structure, of :class:`zoo.VaryingCoefficientGP`."""

    def choose_structure(self, data: MultiTaskData, curved: bool = False, progress: bool = True) -> Structure:
        """Compare structures of the model on some rows of the data, and return the best.

        The search starts from this model. It changes what the user said in words: the smoothness of each covariance
        ("matern12", "matern32" or "matern52"), whether the coefficients have one scale or one each, whether the
        intercept has a component of its own, and which features vary. Everything else stays: columns, covariances of
        ``pm.gp``, kernels of tasks, numbers that were given, and the likelihood.

        Parameters
        ----------
        data : MultiTaskData
            The rows that the model will be fitted to. Rows that are held out to judge the model must not be among them.
        curved : bool
            Whether functions of the features that are not linear count too (``instance_kernel="matern32"``). Such a
            model has no coefficients.
        progress : bool
            Whether each change that is taken is printed.

        Returns
        -------
        Structure
            ``.factory`` is the model to fit, and ``.table`` says what was compared.

        Raises
        ------
        UnsupportedMethodError
            The pilot fits take each row given its nearest ones, and this model has a part that they do not know.
        ValueError
            The data do not serve the model.

        Examples
        --------
        ::

            found = zoo.VaryingCoefficientGP().choose_structure(data)
            found.table.sort_values("score")
            fit = found.factory.fit(data)
        """
        flag(curved, "curved")
        self._require_pilot(data)
        self.validate(data)
        search = _Search(replace(self, structure="given"), data, curved, progress)
        search.climb()
        search.leave_out()
        return Structure(search.best.factory, pd.DataFrame(search.table), tuple(search.changes))

    def build(self, data: MultiTaskData) -> pm.Model:
        """The PyMC model of these data, as :meth:`ModelFactory.build`; raises where ``fit`` is to choose it."""
        if self.structure != "given":
            raise ValueError(
                f"structure is {self.structure!r}: the data choose the model when it is fitted, so there is none to "
                "build before. Use choose_structure(data).factory.build(data), or fit.factory.build(data) after a fit."
            )
        return super().build(data)

    def fit_chosen(
        self, data: MultiTaskData, arguments: tuple[Any, ...], progress: bool, options: dict[str, Any]
    ) -> Fit:
        """Choose the structure by the rows of the fit, and fit the model that has it."""
        found = self.choose_structure(data, self.structure == "curved", progress)
        result = found.factory.fit(data, *arguments, **options)
        result.idata["posterior"].attrs["structure"] = "; ".join(found.changes) or "as given"
        return result

    def _require_pilot(self, data: MultiTaskData) -> None:
        """Raise where pilot fits would be of another model: as method "vecchia", by which they are made."""
        if self.own_priors:
            raise UnsupportedMethodError(
                "structures are compared by their evidence, and a prior of this model is the user's own, which only "
                "NUTS knows. Choose the structure without it."
            )
        try:
            self.choose_method("vecchia", data)
        except UnsupportedMethodError as error:
            raise UnsupportedMethodError(
                f"structures are compared by pilot fits in which each row is given its nearest ones. {error}"
            ) from None


class _Search:
    """The search, step by step."""

    def __init__(self, factory: Any, data: MultiTaskData, curved: bool, progress: bool):
        self.data, self.curved, self.progress = data, curved, progress
        self.names = factory.prepare(data).feature_names
        self.table: list[dict[str, Any]] = []
        self.changes: list[str] = []
        self.step = 0
        self.best = self._try("as given", factory)
        self.table[0]["taken"] = True
        if not np.isfinite(self.best.score):
            raise np.linalg.LinAlgError("The evidence of the model as given is not finite anywhere.")

    def _try(self, change: str, factory: Any, *starts: dict[str, Any]) -> _Tried:
        found = pilot_fit(factory, self.data, starts, **_PILOT)
        tried = _Tried(change, factory, found, self.data.n_rows)
        self.table.append({
            "step": self.step, "change": change, "log_evidence": tried.pilot.value / tried.pilot.n_rows,
            "parameters": tried.pilot.size, "score": tried.score, "taken": False,
        })  # fmt: skip
        return tried

    def _take_best(self, tried: list[_Tried], gain: float = 0.0) -> bool:
        """Take the best of the structures tried last, if it raises the score by more than ``gain``."""
        best = max(range(len(tried)), key=lambda i: tried[i].score, default=-1)
        if best < 0 or not tried[best].score > self.best.score + gain:
            return False
        self.best = tried[best]
        self.changes.append(self.best.change)
        self.table[len(self.table) - len(tried) + best]["taken"] = True
        if self.progress:
            print(f"structure: {self.best.change} (score {self.best.score:.1f})")
        return True

    def climb(self) -> None:
        """Take the best change as long as one raises the score."""
        going = True
        while going:
            self.step += 1
            going = self._take_best([self._try(*change) for change in self._changes()], _GAIN)

    def leave_out(self) -> None:
        """Leave out what need not vary: features with scales of their own, and components that have one scale."""
        for at in reversed(range(len(self.best.pilot.parts))):
            going, needed = True, set[tuple[str, ...]]()
            while going:
                self.step += 1
                groups = [names for names in self._may_go(at) if names not in needed]
                tried = [self._without(at, names) for names in groups]
                pairs = list(zip(groups, tried, strict=True))
                useless = [names for names, one in pairs if one.score > self.best.score]
                needed |= {names for names, one in pairs if one.score < self.best.score - _NEEDED}
                if 1 < len(useless) and (len(useless) < len(groups) or len(self.best.pilot.parts) > 1):
                    tried.append(self._without(at, tuple(name for names in useless for name in names)))
                going = self._take_best(tried) and at < len(self.best.pilot.parts)

    # ---------------------------------------------------------------- changes

    def _changes(self) -> Iterator[tuple[Any, ...]]:
        """Structures that differ from the best in one thing: words for it, the factory, and where to start."""
        factory, parts, found = self.best.factory, self.best.pilot.parts, self.best.pilot.values
        for at, part in enumerate(parts):
            own = part.component
            for word in _next_to(own.kernel):
                yield f"{_of(part)}covariance {word}", self._with(at, replace(own, kernel=word)), found
            if factory.is_linear and part.amplitude == "shared" and len(part.features) > 1:
                words = f"{_of(part)}a scale for each feature"
                yield words, self._with(at, replace(own, amplitude="per_feature")), found
        if not factory.is_linear:
            for word in _next_to(factory.instance_kernel):
                yield f"covariance of features {word}", replace(factory, instance_kernel=word), found
            return
        if len(self.names) == 1 and factory.has_constant:  # no features but the constant one
            return
        if len(parts) == 1 and factory.has_constant and parts[0].component.features == "all":
            own = parts[0].component
            level = replace(own, features="intercept", amplitude=_number(own.amplitude), name="level")
            both = replace(factory, task_kernel=(level, replace(own, name="slopes")))
            yield "a component for the intercept alone", both, *self._apart(parts[0])
        if self.curved:
            fields: dict[str, Any] = {
                "task_kernel": tuple(replace(p.component, features="all", amplitude=None) for p in parts),
                "amplitude": _number(factory.amplitude) or "shared",
                "instance_kernel": "matern32",
                "instance_lengthscale": "per_feature",
            }
            yield "functions of the features that are not linear", replace(factory, **fields), found

    def _apart(self, part: Any) -> Iterator[dict[str, Any]]:
        """Starts for two components: one has the lengthscales that were found, the other long ones."""
        found = self.best.pilot.values
        lengthscale, amplitude = part.name("lengthscale"), part.name("amplitude")
        rest = {name: value for name, value in found.items() if name not in (lengthscale, amplitude)}
        if amplitude in found:
            rest |= {"level_amplitude": np.ravel(found[amplitude])[0], "slopes_amplitude": found[amplitude]}
        if lengthscale in found:
            near, far = found[lengthscale], np.maximum(found[lengthscale], _FAR)
            yield {**rest, "level_lengthscale": near, "slopes_lengthscale": far}
            yield {**rest, "level_lengthscale": far, "slopes_lengthscale": near}

    def _with(self, at: int, component: VaryingComponent | None) -> Any:
        """The best factory with another component at a place, or without the one there."""
        parts = list(self.best.factory.components)
        parts[at : at + 1] = [] if component is None else [component]
        return replace(self.best.factory, task_kernel=tuple(parts))

    def _may_go(self, at: int) -> list[tuple[str, ...]]:
        """Features whose part in a component may be left out: each that has a scale of its own, or else all at once."""
        part, others = self.best.pilot.parts[at], len(self.best.pilot.parts) > 1
        names = [self.names[i] for i in part.features]
        if part.amplitude == "per_feature":
            return [(name,) for name in names] if len(names) > 1 or others else []
        return [tuple(names)] if part.amplitude == "shared" and others and self.best.factory.is_linear else []

    def _without(self, at: int, names: tuple[str, ...]) -> _Tried:
        """The best structure without the part of some features in a component."""
        part, start = self.best.pilot.parts[at], dict(self.best.pilot.values)
        left = [i for i, feature in enumerate(part.features) if self.names[feature] not in names]
        if not left:
            return self._try(f"{_of(part)}nothing varies", self._with(at, None), start)
        start[part.name("amplitude")] = start[part.name("amplitude")][left]
        fewer = replace(part.component, features=tuple(self.names[part.features[i]] for i in left))
        words = f"{_of(part)}{' and '.join(names)} {'does' if len(names) == 1 else 'do'} not vary"
        return self._try(words, self._with(at, fewer), start)


def _of(part: Any) -> str:
    """Which component a change is of, where there are several."""
    return f"{part.prefix.rstrip('_')}: " if part.prefix else ""


def _next_to(word: Any) -> list[str]:
    """Covariances that are one step rougher or smoother; none of what is no such word."""
    if word not in _SMOOTHNESS:
        return []
    at = _SMOOTHNESS.index(word)
    return list(_SMOOTHNESS[max(at - 1, 0) : at] + _SMOOTHNESS[at + 1 : at + 2])


def _number(amplitude: Any) -> Any:
    """An amplitude that the user gave as a number; None for a word."""
    return None if isinstance(amplitude, str) else amplitude

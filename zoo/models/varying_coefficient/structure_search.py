"""The search for a structure, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.models.varying_coefficient.component import VaryingComponent
from zoo.models.varying_coefficient.held_out import held_out_score
from zoo.models.varying_coefficient.ranges import Pilot, pilot_fit

__all__ = ["StructureSearch"]

# From rough to smooth.
_SMOOTHNESS = ("matern12", "matern32", "matern52")
# Of each pilot fit: how often neighbours are chosen, how many, and steps and tolerance of each search. Fits that end
# sooner differ by more than structures do.
_PILOT: dict[str, Any] = {"passes": 3, "n_neighbours": 20, "steps": 200, "tol": 1e-6}
# By how much a change must raise the score, but for leaving out: less is not worth the time of another step.
_GAIN = 1.0
# A feature whose absence lowers the score by as much is not looked at again.
_NEEDED = 10.0
_CURVED = "functions of the features that are not linear"
# A long lengthscale, in standard deviations of t.
_FAR = 2.0


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


class StructureSearch:
    """The search, step by step.

    Parameters
    ----------
    factory : VaryingCoefficientGP
        Where it starts.
    data : MultiTaskData
    progress : bool
        Whether changes that are taken are printed.
    """

    def __init__(self, factory: Any, data: MultiTaskData, progress: bool):
        self.data, self.progress = data, progress
        self.first = factory
        self.names = factory.design(data).feature_names
        self._only_constant = len(self.names) == 1 and factory.has_constant
        self.table: list[dict[str, Any]] = []
        self.changes: list[str] = []
        self.step = 0
        self.best = self._try("as given", factory)
        self.table[0]["taken"] = True
        if not np.isfinite(self.best.score):
            raise np.linalg.LinAlgError("The evidence of the model as given is not finite anywhere.")

    def _try(self, change: str, factory: Any, *starts: dict[str, Any], near: Pilot | None = None) -> _Tried:
        found = pilot_fit(factory, self.data, starts, **_PILOT, near=near)
        tried = _Tried(change, factory, found, self.data.n_rows)
        self._note(change, tried)
        return tried

    def _note(self, change: str, tried: _Tried) -> None:
        """Add one row, which says what was found of this structure, to the table of the search."""
        self.table.append({
            "step": self.step, "change": change, "log_evidence": tried.pilot.value / tried.pilot.n_rows,
            "parameters": tried.pilot.size, "score": tried.score, "held_out": np.nan, "taken": False,
        })  # fmt: skip

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
            beside = self.best.pilot
            tried = [
                self._try(change, factory, *starts, near=beside if smoothness else None)
                for smoothness, change, factory, *starts in self._changes()
            ]
            going = self._take_best(tried, _GAIN)

    def leave_out(self) -> None:
        """Leave out what need not vary: features with scales of their own, and components that have one scale."""
        self._settle()
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
                    names = tuple(name for names in useless for name in names)
                    tried.append(self._without(at, names))
                going = self._take_best(tried) and at < len(self.best.pilot.parts)

    def try_curved(self) -> None:
        """Search among models whose functions are not linear, and take the best if it predicts held-out rows better."""
        linear, changes = self.best, list(self.changes)
        if not linear.factory.is_linear or self._only_constant:
            return
        self.step += 1
        found, given = linear.factory.components, self.first.components
        tried = [self._try(_CURVED, self._curved(given), linear.pilot.values)]
        if found != given:
            words = f"{_CURVED}, with the components found before"
            tried.append(self._try(words, self._curved(found), linear.pilot.values))
        self.best = max(tried, key=lambda one: one.score)
        self.changes = [self.best.change]
        if np.isfinite(self.best.score):
            self.climb()
            self._compare(linear, changes)
        else:
            self.best, self.changes = linear, changes

    def _curved(self, parts: tuple[VaryingComponent, ...]) -> Any:
        """The model with the smoothness of these components, and functions of all features."""
        return replace(
            self.first,
            task_kernel=tuple(replace(part, features="all", amplitude=None) for part in parts),
            amplitude=_number(self.first.amplitude) or "shared",
            instance_kernel="matern32",
            instance_lengthscale="per_feature",
        )

    def _compare(self, linear: _Tried, changes: list[str]) -> None:
        """Keep the better of the best model and a linear one, by held-out rows."""
        both = (linear, self.best)
        values = held_out_score([one.factory for one in both], self.data, self.first.ordering_seed)
        better = int(values[1] > values[0])
        self.step += 1
        for i, (one, words) in enumerate(zip(both, ("coefficients", _CURVED), strict=True)):
            self._note(f"the best with {words}", one)
            self.table[-1].update(held_out=float(values[i]), taken=i == better)
        if not better:
            self.best, self.changes = linear, changes
        if self.progress:
            print(
                f"structure: {('coefficients', _CURVED)[better]} (mean score of held-out rows "
                f"{values[better]:.4f}, else {values[1 - better]:.4f})"
            )

    def _settle(self) -> None:
        """Climb on from the best fit, so that models which start from it do not win by what it has left undone."""
        best = self.best
        again = pilot_fit(best.factory, self.data, [best.pilot.values], **_PILOT, near=best.pilot)
        if again.value > best.pilot.value:
            self.best = best._replace(pilot=again)

    # ---------------------------------------------------------------- changes

    def _changes(self) -> Iterator[tuple[Any, ...]]:
        """Structures that differ from the best in one thing.

        Whether that is a smoothness, which leaves the hyper-parameters what they are; words for it; the factory; and
        where to start.
        """
        factory, parts, found = self.best.factory, self.best.pilot.parts, self.best.pilot.values
        for at, part in enumerate(parts):
            own = part.component
            for word in _next_to(own.kernel):
                yield True, f"{_of(part)}covariance {word}", self._with(at, replace(own, kernel=word)), found
            if factory.is_linear and part.amplitude == "shared" and len(part.features) > 1:
                words = f"{_of(part)}a scale for each feature"
                yield False, words, self._with(at, replace(own, amplitude="per_feature")), found
        if not factory.is_linear:
            for word in _next_to(factory.instance_kernel):
                yield True, f"covariance of features {word}", replace(factory, instance_kernel=word), found
            if len(parts) == 1 and parts[0].component.amplitude is None:
                own = parts[0].component
                two = replace(factory, task_kernel=(replace(own, name="near"), replace(own, name="far")))
                yield False, "two components, near and far", two, *self._apart(parts[0], "near", "far")
            return
        if self._only_constant:
            return
        if len(parts) == 1 and factory.has_constant and parts[0].component.features == "all":
            own = parts[0].component
            level = replace(own, features="intercept", amplitude=_number(own.amplitude), name="level")
            both = replace(factory, task_kernel=(level, replace(own, name="slopes")))
            yield (
                False,
                "a component for the intercept alone",
                both,
                *self._apart(parts[0], "level", "slopes"),
            )

    def _apart(self, part: Any, one: str, other: str) -> Iterator[dict[str, Any]]:
        """Starts for two components of these names: one has the lengthscales that were found, the other long ones."""
        found = self.best.pilot.values
        lengthscale, amplitude = part.name("lengthscale"), part.name("amplitude")
        rest = {name: value for name, value in found.items() if name not in (lengthscale, amplitude)}
        if amplitude in found:
            rest |= {
                f"{one}_amplitude": np.ravel(found[amplitude])[0],
                f"{other}_amplitude": found[amplitude],
            }
        if lengthscale in found:
            near, far = found[lengthscale], np.maximum(found[lengthscale], _FAR)
            yield {**rest, f"{one}_lengthscale": near, f"{other}_lengthscale": far}
            yield {**rest, f"{one}_lengthscale": far, f"{other}_lengthscale": near}

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
        best = self.best.pilot
        part, start = best.parts[at], dict(best.values)
        left = [i for i, feature in enumerate(part.features) if self.names[feature] not in names]
        if not left:
            return self._try(f"{_of(part)}nothing varies", self._with(at, None), start)
        start[part.name("amplitude")] = start[part.name("amplitude")][left]
        fewer = replace(part.component, features=tuple(self.names[part.features[i]] for i in left))
        words = f"{_of(part)}{' and '.join(names)} {'does' if len(names) == 1 else 'do'} not vary"
        return self._try(words, self._with(at, fewer), start, near=best)


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

"""Pilot fits by the evidence of some rows: which ranges they find, and whether sines would resolve these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.inference.run.progress import ClimbProgress
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.resolution import too_few_sines
from zoo.models.varying_coefficient.search import Search, apart_of, bounds_of, starts_of
from zoo.models.varying_coefficient.spaces import space_of

if TYPE_CHECKING:
    from zoo.data.multitask import MultiTaskData

__all__ = ["Pilot", "pilot_fit", "too_short_for_sines"]

# Neighbours, steps and tolerance of the pilot fit that looks at ranges: its lengthscales need one digit.
_NEIGHBOURS, _STEPS, _TOLERANCE = 15, 60, 1e-4


class Pilot(NamedTuple):
    """A pilot fit.

    ``value`` is the log evidence of its ``n_rows`` rows, minus infinity where none was finite; ``size`` the number of
    hyper-parameters that were learned; ``values`` these by name; ``parts`` the components at the data; ``spread``
    (p, p) what the search has learned of the inverse Hessian, in the order of ``labels`` of its p coordinates; and
    ``conditioned`` what neighbours each row was given.
    """

    value: float
    n_rows: int
    size: int
    values: dict[str, Any]
    parts: list[Any]
    labels: tuple[str, ...] = ()
    spread: np.ndarray | None = None
    conditioned: tuple[Any, dict[str, np.ndarray]] | None = None


def pilot_fit(
    factory: VaryingDescription,
    data: MultiTaskData,
    starts: Sequence[dict[str, Any]] = (),
    passes: int = 1,
    n_neighbours: int = _NEIGHBOURS,
    steps: int = _STEPS,
    tol: float = _TOLERANCE,
    near: Pilot | None = None,
) -> Pilot:
    """Hyper-parameters of maximal evidence of some rows, each given its nearest ones.

    It costs seconds, whatever the number of rows. ``starts`` have values, by name, from which the search may start
    too. In every pass neighbours are chosen anew, at the hyper-parameters that the last one found, and the search goes
    on with the curvature that it has learned.

    ``near`` is the fit of a model that differs in little. Then the search starts from the first of ``starts`` alone,
    with the neighbours of the other one and the curvature that it has learned, and ends in a fifth of the steps. With
    other neighbours the evidence of one model differs by a nat or two, which is more than a structure may do.
    """
    most = min(factory.n_neighbours, n_neighbours, data.n_rows - 2)
    pilot = replace(factory, approximation="vecchia", n_neighbours=max(most, 1))
    space: Any = space_of(pilot, pilot.design(data), pilot.likelihood.encode(data))
    coordinates, (low, high) = space.coordinates, bounds_of(space)
    at_first = {name: hyper.value for name, hyper in coordinates.hypers.items()}
    given = [coordinates.pack({n: _like(s.get(n, v), v) for n, v in at_first.items()}) for s in starts]
    some = getattr(space, "coarse", None)
    if near is not None and near.conditioned is not None:
        space.condition(*near.conditioned)
    labels = _labels_of(space)
    best: np.ndarray | None = coordinates.start
    spread = None if near is None else _spread_of(near, labels)
    if coordinates.size:
        groups = (
            [given[:1]]
            if near is not None
            else [[*starts_of(space), *given], *([z] for z in apart_of(space))]
        )
        groups = [[np.clip(z, low, high) for z in group] for group in groups]
        for i in range(passes if near is None else 1):
            if near is None:
                space.forget()
            with ClimbProgress(steps, False, "evidence", "negative log evidence") as bar:
                search = Search(space, bar, steps, tol)
                if i or near is not None:
                    found = search.run(groups[0], low, high, coarse=some is not None, metric=spread)
                elif some is not None:
                    found = search.run_several(groups, low, high)
                else:
                    found = search.run([z for group in groups for z in group], low, high)
            best = search.best
            if best is None:
                break
            groups, spread = [[best]], found.spread
    n = data.n_rows if some is None else len(some)
    if best is None:
        return Pilot(-np.inf, n, coordinates.size, {}, [], labels)
    # The evidence of some rows is given as that of all; what a score may count on are the rows that were looked at.
    value = space.evidence(best, coarse=some is not None)[0] * n / data.n_rows
    return Pilot(
        value,
        n,
        coordinates.size,
        space.values_at(best),
        list(space.kernel.parts),
        labels,
        spread,
        space.conditioned(),
    )


def _labels_of(space: Any) -> tuple[str, ...]:
    """A name for each coordinate; that of a scale of a feature has the feature, so that other models find it."""
    of_features = {
        part.name("amplitude"): [str(i) for i in part.features]
        for part in space.kernel.parts
        if part.amplitude == "per_feature"
    }
    labels: list[str] = []
    for name in space.coordinates.hypers:
        where = space.coordinates.position(name)
        own = of_features.get(name, [str(i) for i in range(where.stop - where.start)])
        labels += [f"{name} {place}" for place in own]
    return tuple(labels)


def _spread_of(near: Pilot, labels: tuple[str, ...]) -> np.ndarray | None:
    """The inverse Hessian of another fit, in the order of these coordinates, if it has them all."""
    if near.spread is None or not set(labels) <= set(near.labels):
        return None
    at = [near.labels.index(label) for label in labels]
    return near.spread[np.ix_(at, at)]


def _like(value: Any, other: Any) -> np.ndarray:
    """A start in the shape of another: one value is repeated, several are averaged for one; else the other stays."""
    if np.ndim(other) == 0:
        return np.asarray(np.mean(value))
    fits = np.ndim(value) == 0 or np.shape(value) == np.shape(other)
    return np.broadcast_to(value if fits else other, np.shape(other))


def too_short_for_sines(factory: VaryingDescription, data: MultiTaskData) -> str:
    """The column whose range the default number of sines would not resolve, in words; nothing where they would.

    Components whose number of sines the user gave keep it, and are not looked at.
    """
    pilot = pilot_fit(factory, data)
    for part in pilot.parts:
        if part.component.n_basis is None:
            for name, size, enough in too_few_sines(part, pilot.values):
                return f"{enough:,} sines would be needed over {name!r}, and a basis has {size}"
    return ""

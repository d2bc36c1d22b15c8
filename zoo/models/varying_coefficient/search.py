"""The search for hyper-parameters of maximal evidence."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from scipy.optimize import minimize

from zoo.inference.run.progress import ClimbProgress

__all__ = ["Search", "apart_of", "bounds_of", "maximal_evidence", "starts_of"]

# Lengthscales, in standard deviations of t, at which the search for the evidence may start.
_LENGTHSCALES = (0.25, 0.7, 2.0)
# Of several components, those of the others and of one.
_APART = (2.0, 0.1)
# Free coordinates further from the start than this are at their bound; lengthscales are held nearer.
_BOUND, _BOUND_OF_LENGTHSCALE = 9.0, 5.0


def maximal_evidence(space: Any, progress: bool, max_iter: int, tol: float) -> tuple[np.ndarray, bool]:
    """Hyper-parameters of maximal evidence; with many basis functions, from where the lower half of them has it."""
    coordinates = space.coordinates
    if coordinates.size == 0:
        return coordinates.start, True
    low, high = bounds_of(space)
    starts = [np.clip(z, low, high) for z in starts_of(space)]
    with ClimbProgress(max_iter, progress, "evidence", "negative log evidence") as bar:
        search = Search(space, bar, max_iter, tol, space.restraint())
        metric = None
        if getattr(space, "coarse", None) is not None:
            apart = [[np.clip(z, low, high)] for z in apart_of(space)]
            first = search.run_several([starts, *apart], low, high)
            # What was learned of the curvature there makes the steps of the second search.
            metric, starts = first.spread, [np.asarray(first.x)]
        found = search.run(starts, low, high, metric=metric)
    if search.best is None:
        raise np.linalg.LinAlgError("The evidence is not finite anywhere on the way.")
    if progress and not found.success:
        logging.getLogger("zoo").warning(
            "The search for the evidence stopped after max_iter=%d steps, before its end. Give a larger max_iter."
            if found.status == 1
            else "The search for the evidence stopped before its end (max_iter=%d): rounding hides where it climbs. "
            "Learn the noise, or give a larger one.",
            max_iter,
        )
    return np.clip(search.best, low, high), bool(found.success)


class Search:
    """Climbs by L-BFGS of the evidence, times the priors that the user gave, and times a restraint if there is one."""

    def __init__(self, space: Any, bar: Any, max_iter: int, tol: float, restraint: Any = None):
        self.space, self.bar, self.max_iter, self.tol = space, bar, max_iter, tol
        self.restraint = restraint
        self.best: np.ndarray | None = None
        self.scale = 1.0 / space.rows.total_weight  # so that the first step is no leap
        self._count = iter(range(1, max_iter + 1))

    def run(
        self,
        starts: list[np.ndarray],
        low: np.ndarray,
        high: np.ndarray,
        coarse: bool = False,
        metric: np.ndarray | None = None,
    ) -> Any:
        """A search from the best start; with ``metric``, an inverse Hessian, in coordinates where it is 1.

        The result has ``spread``, what the search itself has learned of the inverse Hessian.
        """
        self._worst, self._value = (0.0, np.zeros(len(low))), np.inf
        options = {"coarse": True} if coarse else {}

        def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
            return self._objective(z, options)

        start = starts[0]
        if len(starts) > 1:

            def at(z: np.ndarray) -> float:
                if not self.space.dear_far_away:
                    self.space.start_afresh()
                return objective(z)[0]

            start = min(starts, key=at)
            self.space.start_afresh()
            self._value = np.inf
        settings: dict[str, Any] = {"maxiter": self.max_iter, "maxcor": 20, "ftol": self.tol, "gtol": 1e-7}
        if metric is None:
            found = minimize(
                objective, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)),
                callback=self._report, options=settings,
            )  # fmt: skip
            found.spread = np.asarray(found.hess_inv.todense())
            return found
        # A start this near needs no last digits.
        settings["ftol"] = 10.0 * self.tol
        root = np.linalg.cholesky(metric + 1e-12 * np.trace(metric) * np.eye(len(metric)))
        if self.space.dear_far_away:
            # The first step of L-BFGS has length 1 there, whatever the slope: now that is the step of Newton's method.
            root *= np.clip(np.linalg.norm(root.T @ objective(start)[1]), 1e-8, 1.0)

        def whitened(u: np.ndarray) -> tuple[float, np.ndarray]:
            z = start + root @ u
            value, gradient = objective(np.clip(z, low, high))
            return value, root.T @ np.where((z >= low) & (z <= high), gradient, 0.0)

        found = minimize(
            whitened,
            np.zeros(len(start)),
            jac=True,
            method="L-BFGS-B",
            callback=self._report,
            options=settings,
        )
        found.spread = root @ np.asarray(found.hess_inv.todense()) @ root.T
        return found

    def run_several(self, groups: list[list[np.ndarray]], low: np.ndarray, high: np.ndarray) -> Any:
        """With some of the rows, the best of the searches from the best start of each group.

        Where one component is short and another one long, the evidence has an optimum for each order of the two, and
        the evidence at a start does not say which optimum is higher.
        """
        if len(groups) == 1:
            return self.run(groups[0], low, high, coarse=True)
        found = []
        for starts in groups:
            self.space.start_afresh()
            one = self.run(starts, low, high, coarse=True)
            if self.best is not None:
                self.space.start_afresh()  # each with the neighbours of its own end
                value = self._objective(z := self.best, {"coarse": True})[0]
                found.append((value, z, one))
        if not found:
            return one
        _, self.best, best = min(found, key=lambda part: part[0])
        best.x = self.best
        return best

    def _objective(self, z: np.ndarray, options: dict[str, bool]) -> tuple[float, np.ndarray]:
        try:
            value, gradient = self.space.evidence(z, **options)
            prior, slope = self.space.coordinates.given_prior(z)
            value, gradient = value + prior, gradient + slope
            if self.restraint is not None:
                prior, slope = self.restraint(z)
                value, gradient = value + prior, gradient + slope
        except np.linalg.LinAlgError:
            value = np.nan
        if not np.isfinite(value):
            # So far out that rounding wins: worse than all before, and downhill is back.
            return abs(self._worst[0]) * 10.0 + 1.0, self._worst[1]
        self._worst = (-self.scale * value, -self.scale * gradient)
        if self._worst[0] < self._value:
            self._value, self.best = self._worst[0], z.copy()
        return self._worst

    def _report(self, intermediate_result: Any) -> None:
        self.bar.report(next(self._count, self.max_iter), intermediate_result.fun / self.scale)


def starts_of(space: Any) -> list[np.ndarray]:
    """Starts that differ in the lengthscales of components, which are alike."""
    positions = _positions(space)
    if not positions:
        return [space.coordinates.start]
    return [_moved(space, [word] * len(positions)) for word in (*space.short_lengthscales, *_LENGTHSCALES)]


def apart_of(space: Any) -> list[np.ndarray]:
    """Starts where one of several components is short, and the others are long; none of spaces with one optimum."""
    n = len(_positions(space)) if space.several_optima else 0
    return [_moved(space, [_APART[i == k] for i in range(n)]) for k in range(n)] if n > 1 else []


def _positions(space: Any) -> list[slice]:
    """Where the lengthscales of components stand."""
    return [
        space.coordinates.position(name)
        for name in space.coordinates.hypers
        if name.endswith("lengthscale") and not name.startswith("instance_")
    ]


def _moved(space: Any, lengthscales: list[float]) -> np.ndarray:
    """The start with these lengthscales of components."""
    z = np.array(space.coordinates.start)
    for position, lengthscale in zip(_positions(space), lengthscales, strict=True):
        z[position] += np.log(lengthscale / _LENGTHSCALES[1])
    return z


def bounds_of(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the free coordinates.

    A lengthscale is not shorter than the distance between the zeros of the finest sine: shorter ones are all alike to
    the basis.
    """
    coordinates = space.coordinates
    width = np.full(coordinates.size, _BOUND)
    for name, hyper in coordinates.hypers.items():
        if "lengthscale" in name:
            width[coordinates.position(name)] = _BOUND_OF_LENGTHSCALE
        elif hyper.kind == "covariance":
            width[coordinates.position(name)] = 6.0
    low, high = coordinates.start - width, coordinates.start + width
    for part in space.kernel.parts if space.factory.approximation == "hsgp" else []:
        name = part.name("lengthscale")
        if not part.component.on_tasks and name in coordinates.hypers:
            position = coordinates.position(name)
            low[position] = np.clip(np.log(part.basis.finest), low[position], high[position] - 1.0)
    return low, high

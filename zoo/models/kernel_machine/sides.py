"""On which side a kernel machine works: the weights of the features, the function values, or the span of the inputs.

A linear kernel's coefficients (D, T) can be had at the cost of the features, O(T D^3), of the n distinct rows, O(n^3),
or of the m distinct inputs that the tasks share, O(T m^3). :func:`space_of` goes by these shapes:

- as many distinct inputs as features, or more: :class:`~zoo.models.kernel_machine.spaces.WeightSpace`;
- fewer: :class:`DualSpace` or :class:`SpanSpace`, whichever is cheaper. They are the same law
  (:mod:`zoo.latent.wide_weights`), and its draws are coefficients too.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pytensor.tensor as pt
from threadpoolctl import threadpool_limits

from zoo.inference.row_span import Span, row_span
from zoo.latent.task_weights import Loadings, WeightSums, weight_sums
from zoo.latent.wide_weights import DualConditional, DualRows, SpanConditional, white_rows
from zoo.models.kernel_machine.description import KernelMachineDescription
from zoo.models.kernel_machine.spaces import LARGE, AlignedSpace, FunctionSpace, WeightSpace, is_complete
from zoo.support.memory import require_memory
from zoo.support.words import counted

if TYPE_CHECKING:
    from typing import Any

    from zoo.models.kernel_machine.rows import KernelRows

__all__ = ["DualSpace", "SpanSpace", "space_of"]

# Distinct rows up to which a matrix of their size is made.
_MOST_ROWS = 12_000
# The matrix of what tasks share, its factor, the inverse of it, and what is on the way.
_COPIES = 5


class DualSpace(WeightSpace):
    """Coefficients (D, T) of a linear kernel, by the function values at the distinct rows."""

    @cached_property
    def _rows(self) -> DualRows:
        points, D = self.data.points, self.data.n_features
        return DualRows.of(
            np.ascontiguousarray(points[:, :D]), points[:, D].astype(np.int64), self.data.n_tasks
        )

    @cached_property
    def _given(self) -> tuple[np.ndarray, np.ndarray] | None:
        """``X R`` and its Gram matrix, where R is known beforehand."""
        return None if self.learns_root else white_rows(self._rows.X, self.known_root)

    def threads(self) -> Any:
        """One thread for small matrices: several that wait for each other take longer."""
        return threadpool_limits(1) if len(self.data.points) < LARGE else nullcontext()

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> Any:
        """Sums over the rows of each point."""
        point, n = self.data.point, len(self.data.points)
        return np.bincount(point, omega, n), np.bincount(point, nu, n)

    def condition(self, numbers: Loadings, sums: Any) -> Any:
        """The law of the coefficients."""
        omega, nu = sums
        return DualConditional.of(self._rows, numbers, omega, nu, self._given)

    def gaussian(self, numbers: Loadings, variance: float) -> Any:
        """The law given the responses."""
        omega, nu = self.unit_sums
        return self.condition(numbers, (omega / variance, nu / variance))

    def mean_variance(self, numbers: Loadings) -> float:
        """Prior variance of f, averaged over the rows by their weights."""
        X, _ = self._given or white_rows(self._rows.X, numbers.R)
        B = numbers.d + np.sum(numbers.W**2, axis=1)
        variance = B[self._rows.task] * np.sum(X**2, axis=1)
        return float(np.average(variance[self.data.point], weights=self.data.weight))

    def mean_functions(self, conditional: DualConditional) -> np.ndarray:
        """The mean at the rows."""
        return np.asarray(conditional.functions[self.data.point])

    def predict(self, z: np.ndarray, conditional: Any, rows: KernelRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at rows of known tasks."""
        mean, variance = conditional.predict(rows.X, rows.task)
        return mean, variance


class SpanSpace(WeightSpace):
    """Coefficients (D, T) of a linear kernel with a known Q, by the span of the inputs that the tasks share."""

    @cached_property
    def _span(self) -> Span:
        return row_span(self.data.inputs, self.known_root)

    def threads(self) -> Any:
        """As for weights of as many features as the span has."""
        columns = self.numbers(self.coordinates.start).W.shape[1]
        return threadpool_limits(1) if columns * self._span.inputs.shape[1] < LARGE else nullcontext()

    def sums(self, omega: np.ndarray, nu: np.ndarray) -> WeightSums:
        """Sums over the rows of each task, in the span."""
        data = self.data
        return weight_sums(self._span.inputs, data.row, data.task, data.n_tasks, omega, nu)

    def condition(self, numbers: Loadings, sums: WeightSums) -> Any:
        """The law of the coefficients."""
        return SpanConditional.of(self._span, sums, numbers)

    def gaussian(self, numbers: Loadings, variance: float) -> Any:
        """The law given the responses."""
        return self.condition(numbers, self.unit_sums.scaled(1.0 / variance))

    def mean_variance(self, numbers: Loadings) -> float:
        """Prior variance of f, averaged over the rows by their weights."""
        return super().mean_variance(numbers._replace(R=None))

    def mean_functions(self, conditional: SpanConditional) -> np.ndarray:
        """The mean at the rows."""
        return np.asarray((self._span.inputs @ conditional.inside.mean)[self.data.row, self.data.task])

    def predict(self, z: np.ndarray, conditional: Any, rows: KernelRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at rows of known tasks."""
        mean, variance = conditional.predict(rows.X, rows.task)
        return mean, variance


def space_of(
    factory: KernelMachineDescription,
    data: KernelRows,
    y: np.ndarray,
    aligned: bool = False,
    fast: bool = False,
    joint: bool = True,
) -> Any:
    """The cheapest form that the kernel has on these rows; ``aligned`` where Gaussian noise allows it.

    ``joint`` is whether the law of all coefficients is asked for, whose matrix must have room.
    """
    if factory.is_linear(data):
        space = WeightSpace(factory, data, y, fast)
        if data.n_features > data.n_inputs:
            return _cheapest_side(space)
        if joint:
            _require_room(factory, data)
        return space
    if aligned and factory.is_product(data) and is_complete(data):
        return AlignedSpace(factory, data, y)
    return FunctionSpace(factory, data, y, fast)


def _require_room(factory: KernelMachineDescription, data: KernelRows) -> None:
    """Raise where the matrix of what tasks share, (r D, r D) for r columns, has no room."""
    form = factory.linear_form(factory._kernel_at_start(data), data)
    known = None if form.loadings is None else pt.as_tensor(form.loadings[1]).type.shape[1]
    columns = data.n_tasks if form.loadings is None else known or 0
    require_memory(
        {"what tasks share": _COPIES * (columns * data.n_features) ** 2},
        1,
        f"kernel, which shares {counted(columns, 'column', ',')} among {counted(data.n_tasks, 'task', ',')},",
        "Use a kernel that shares fewer columns (MeanRegularised, Clustered, a tree with fewer inner nodes), or fewer "
        "tasks.",
    )


def _cheapest_side(space: WeightSpace) -> WeightSpace:
    """The same prior on its cheapest side, of rows with fewer distinct inputs than features."""
    data = space.data
    n, m = len(data.points), data.n_inputs
    dual = n <= _MOST_ROWS
    if space.learns_root:  # the span would move with Q
        dual = dual and n < data.n_features
        kind: type[WeightSpace] = DualSpace if dual else WeightSpace
    else:
        kind = DualSpace if dual and float(n) ** 3 < data.n_tasks * float(m) ** 3 else SpanSpace
    side = kind(space.factory, data, space.y + space.y_level, space.fast)
    side.adopt(space)
    return side

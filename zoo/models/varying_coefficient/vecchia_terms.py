"""What Vecchia's approximation makes of the covariance of a varying-coefficient model: which it serves, its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.latent.vecchia_terms import CONSTANT, KINDS, LINEAR, Terms
from zoo.models.varying_coefficient.covariance import VaryingKernel
from zoo.models.varying_coefficient.description import VaryingDescription

if TYPE_CHECKING:
    from zoo.latent.coordinates import Coordinates

__all__ = ["in_two", "terms_of"]


class _Parameters:
    """Logarithms that terms point to: coordinates of the search, or numbers."""

    def __init__(self, coordinates: Coordinates):
        self.coordinates = coordinates
        self.position: list[int] = []
        self.number: list[float] = []

    def add(self, name: str, given: Any = None) -> list[int]:
        """Where the entries of a parameter stand: of one that is learned, or else the numbers given."""
        first = len(self.position)
        if name in self.coordinates.hypers:
            where = self.coordinates.position(name)
            self.position += range(where.start, where.stop)
            self.number += [0.0] * (where.stop - where.start)
        else:
            numbers = np.log(np.atleast_1d(np.asarray(given, dtype=np.float64)))
            self.position += [-1] * len(numbers)
            self.number += numbers.tolist()
        return list(range(first, len(self.position)))


def terms_of(
    factory: VaryingDescription,
    kernel: VaryingKernel,
    coordinates: Coordinates,
    nugget: float | None = None,
) -> tuple[Terms, np.ndarray, np.ndarray]:
    """The covariance as arrays; where in z its parameters stand (-1: nowhere), and the numbers of those that do not.

    ``nugget`` is the standard deviation that takes the place of the noise where the functions are not integrated out.
    """
    found, D = _Parameters(coordinates), kernel.rows.n_features
    kinds, columns, features = [], [0], [0]
    column: list[int] = []
    lengthscale: list[int] = []
    feature: list[int] = []
    amplitude: list[int] = []
    shared: list[bool] = []

    def close(kind: int, own: list[int], scales: list[int]) -> None:
        """End a term over some features."""
        if kernel.instance is not None:
            own = own[:1]  # the features have one correlation, and the term one amplitude
        kinds.append(kind)
        shared.append(len(scales) == 1)
        feature.extend(own)
        amplitude.extend(scales * len(own) if len(scales) == 1 else scales)
        columns.append(len(column))
        features.append(len(feature))

    for part in kernel.parts:
        scales = found.add(
            part.name("amplitude"), part.amplitude if not isinstance(part.amplitude, str) else 1.0
        )
        own = part.name("lengthscale")
        lengths = found.add(own, None if own in coordinates.hypers else part.lengthscale_numbers({}))
        column.extend(part.columns)
        lengthscale.extend(lengths if len(lengths) == len(part.columns) else lengths * len(part.columns))
        close(KINDS[part.component.kernel], part.features, scales)
    if kernel.with_global:
        close(CONSTANT, list(range(D)), found.add("global_scale"))
    instance, inner = LINEAR, []
    if kernel.instance is not None:
        instance = KINDS[kernel.instance.kernel]
        inner = found.add("instance_lengthscale", kernel.instance.lengthscale)
        inner = inner if len(inner) == D else inner * D
    if nugget is None:
        (noise,) = found.add("noise", factory.likelihood.fixed.get("noise"))
    else:
        (noise,) = found.add("nugget", nugget)

    def integers(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    terms = Terms(
        integers(kinds), integers(columns), integers(column), integers(lengthscale), integers(features),
        integers(feature), integers(amplitude), np.array(shared, dtype=np.bool_), instance, integers(inner), noise,
    )  # fmt: skip
    return terms, integers(found.position), np.array(found.number)


def in_two(kernel: VaryingKernel) -> tuple[VaryingKernel, VaryingKernel | None]:
    """A covariance of which neighbours know, and one of weights that all rows share, where there are such.

    Shared are global coefficients, and components whose number of sines is given: a hundred neighbours say nothing of
    what varies slowly.
    """
    if not kernel.is_linear:
        return kernel, None
    fixed = [part for part in kernel.parts if part.component.n_basis is not None and part.has_basis]
    if not fixed and not kernel.with_global:
        return kernel, None
    near = [part for part in kernel.parts if part not in fixed]
    return (
        VaryingKernel(kernel.rows, near, None, with_global=False),
        VaryingKernel(kernel.rows, fixed, None, kernel.with_global),
    )

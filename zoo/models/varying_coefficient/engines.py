"""The inference methods of :class:`zoo.VaryingCoefficientGP`, best first, by its fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zoo.core.methods import Method, Result, Run
from zoo.inference.run.chains import run_chains
from zoo.models.varying_coefficient.methods import fit_point
from zoo.models.varying_coefficient.resolution import warn_of_few_sines
from zoo.models.varying_coefficient.sampled import gibbs_refusal

__all__ = ["methods_of"]

Engine = Callable[..., Result]
_POINT = "hyper-parameters of maximal evidence"


def _point(model: Any, tol: float = 1e-7, sites: str = "") -> Engine:
    """The engine of maximal evidence with a tolerance of its own."""

    def fit(data: Any, y: np.ndarray, run: Run, max_iter: int = 200, tol: float = tol) -> Result:
        return fit_point(model, data, y, run, max_iter, tol, sites)

    return fit


def _by_nuts(model: Any) -> Engine:
    """NUTS under the name of the basis that the model has then."""

    def fit(
        data: Any, y: np.ndarray, run: Run, cores: int | None = None, nuts: dict[str, Any] | None = None
    ) -> Result:
        result: Result = model._fit_nuts(data, y, run, cores, nuts)
        warn_of_few_sines(model, model.kernel_of(data), result.posterior)
        return result

    return fit


def _by_gibbs(model: Any) -> Engine:
    def fit(data: Any, y: np.ndarray, run: Run, cores: int | None = None, thin: int = 1) -> Result:
        kernel = model.gibbs_kernel(data, y)
        posterior, stats = run_chains(kernel, cores=cores, thin=thin, **run._asdict())
        warn_of_few_sines(model, model.kernel_of(data), posterior)
        return Result(posterior, stats)

    return fit


def methods_of(model: Any, cls: type) -> list[Method]:
    """All but NUTS, which serves every model; derived for the hooks of the class ``cls``."""
    found = _of_gaussian(model) if model.is_gaussian else _of_smooth(model) if model.likelihood.smooth else []
    if model.basis_refusal():
        found = [m for m in found if m.name != "hsgp"]
    found = [*(m._replace(weights=True) for m in found), *_gibbs(model)]
    for method in found:
        method.engine.derived_for = cls  # type: ignore[attr-defined]
    return found


def _gibbs(model: Any) -> list[Method]:
    """Last where there is an approximation that takes seconds, and first where there is none."""
    if gibbs_refusal(model) or not (model.is_gaussian or model.augmented):
        return []
    how = "by collapsed Gibbs sampling" if model.is_gaussian else "by augmentation"
    computes = f"draws from the exact posterior, hyper-parameters too, {how}"
    return [
        Method(
            "gibbs", computes, _by_gibbs(model), checkpoints=True, continues=True,
            weights=model.is_gaussian or model.likelihood.augmented_weights,
        )
    ]  # fmt: skip


def _of_gaussian(model: Any) -> list[Method]:
    near = f"approximation: each row given its nearest ones, functions integrated out, given {_POINT}"
    found = [
        Method("exact", f"independent draws from the exact posterior given {_POINT}",
        _point(model), given_estimates=True),
        Method("hsgp", f"approximation: a basis of sines; independent draws given {_POINT}",
        _point(model), law="approximate"),
        Method("inducing", f"approximation: inducing points (FITC or VFE); independent draws given {_POINT}",
        _point(model), law="approximate"),
    ]  # fmt: skip
    if not model.vecchia_refusal():
        found.append(Method("vecchia", near, _point(model, 1e-6), law="approximate"))
    return [m._replace(independent=True) for m in found]


def _of_smooth(model: Any) -> list[Method]:
    """Of the others, where the mode of the functions has a curvature."""
    found = [
        Method("laplace", f"approximation: normal at the mode of the functions, given {_POINT}",
        _point(model), given_estimates=True),
        Method("inducing", "approximation: the same with inducing points (FITC)",
        _point(model), law="approximate"),
        Method("hsgp", "approximation: a basis of sines; draws from its exact posterior by NUTS",
        _by_nuts(model), law="approximate"),
    ]  # fmt: skip
    if not model.vecchia_refusal():
        how = "each row given its nearest ones, functions integrated out by Laplace's method"
        law = f"approximation: {how}, given {_POINT}"
        found.append(Method("vecchia", law, _point(model, 1e-5), law="approximate"))
    if not model.sites_refusal():
        moments = "normal, with the moments that each label gives (expectation propagation)"
        bound = "the normal law with the best variational bound"
        for name, how in (("ep", moments), ("variational", bound)):
            law = f"approximation: {how}, given {_POINT}"
            found.append(Method(name, law, _point(model, sites=name), given_estimates=True))
    return [m._replace(independent=m.name != "hsgp") for m in found]

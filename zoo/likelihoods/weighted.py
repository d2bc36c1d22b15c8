"""The observed variable of a likelihood whose rows may have weights."""

from __future__ import annotations

from typing import Any

import pymc as pm

__all__ = ["observed"]


def observed(law: Any, y: Any, weight: Any, **arguments: Any) -> Any:
    r"""Add the observed variable ``"y"`` (dims ``obs``), whose rows count by their weight.

    A row of weight h has the log density :math:`h \log p(y \mid f)`, that of h rows alike, its normaliser included. Its
    draws follow :math:`p(y \mid f)` itself: what one further response would be.

    Parameters
    ----------
    law : distribution of PyMC
        Class with ``dist``.
    y : (N,) tensor_like
        Coded responses.
    weight : (N,) tensor_like or None
        Weights above 0. None: the variable of the law itself.
    **arguments
        Parameters of the law.
    """
    if weight is None:
        return law("y", **arguments, observed=y, dims="obs")
    names = list(arguments)

    def logp(value: Any, weight: Any, *parameters: Any) -> Any:
        return weight * pm.logp(law.dist(**dict(zip(names, parameters, strict=True))), value)

    def dist(weight: Any, *rest: Any) -> Any:
        *parameters, size = rest
        return law.dist(**dict(zip(names, parameters, strict=True)), size=size)

    return pm.CustomDist(
        "y",
        weight,
        *arguments.values(),
        logp=logp,
        dist=dist,
        observed=y,
        dims="obs",
        class_name=f"Weighted{law.__name__}",
    )

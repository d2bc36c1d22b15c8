"""Inference methods: what a factory lists, what an engine is told and gives back, and which method a fit takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from zoo.core.protocols import Model
from zoo.data.multitask import MultiTaskData
from zoo.inference.run.checkpoint import Checkpoint

__all__ = [
    "Method",
    "MissingCapabilityError",
    "Result",
    "Run",
    "UnsupportedMethodError",
    "as_in",
    "choose",
    "overridden_hooks",
]


class UnsupportedMethodError(ValueError):
    """An inference method that this factory, with these fields or overridden hooks, does not have."""


class MissingCapabilityError(UnsupportedMethodError, AttributeError):
    """Something that fits of other models can do, and those of this one cannot."""


class Method(NamedTuple):
    """An inference method of a factory.

    Parameters
    ----------
    name, computes : str
        Its name, and what it computes, for users.
    engine : callable
        A method of the factory: ``engine(data, y, run, **options)`` gives a :class:`Result`, for prepared data
        and coded y. What it takes beside these are the options of ``fit``.
    law : {"exact", "approximate", "point"}
        Whether it draws from the posterior, from that of an approximate prior of the functions, whose variable
        may be another one of ``representations``, or gives one estimate.
    given_estimates : bool
        Whether the draws are given estimates of other variables, or from a normal law at a mode.
    checkpoints : bool
        Whether it hands ``run.checkpoint`` to :func:`~zoo.inference.run.chains.run_chains` or
        :func:`~zoo.inference.run.nuts.sample_nuts`, which write as they sample.
    weights : bool
        Whether it takes weights of rows.
    independent : bool
        Whether its draws are independent: they have no chains that must converge. All others are diagnosed
        after the fit.
    continues : bool
        Whether it hands ``run.until`` to :func:`~zoo.inference.run.chains.run_chains`, which ``draws="auto"`` needs.
    """

    name: str
    computes: str
    engine: Callable[..., Result]
    law: Literal["exact", "approximate", "point"] = "exact"
    given_estimates: bool = False
    checkpoints: bool = False
    weights: bool = False
    independent: bool = False
    continues: bool = False

    @property
    def exact(self) -> bool:
        """Whether it draws all variables of the model from their posterior, so that it can be asked for calibration."""
        return self.law == "exact" and not self.given_estimates

    @property
    def point(self) -> bool:
        """Whether it gives one estimate, and no draws."""
        return self.law == "point"

    @property
    def has_chains(self) -> bool:
        """Whether its draws are Markov chains, which must converge."""
        return not (self.point or self.independent)

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of what it takes beside data, y and run."""
        parameters = inspect.signature(self.engine).parameters
        return {name: p.default for name, p in parameters.items() if name not in ("data", "y", "run")}


class Run(NamedTuple):
    """What every inference method is told."""

    draws: int
    tune: int
    chains: int
    random_seed: Any
    progress: bool
    checkpoint: Checkpoint | None = None
    until: Callable[[dict[str, np.ndarray], int], int | None] | None = None


class Result(NamedTuple):
    """What an engine gives back.

    Parameters
    ----------
    posterior : mapping or xarray.Dataset
        Draws (chain, draw, ...) of the model's variables, by name; a point is one draw of one chain.
    stats : mapping or xarray.Dataset
        What it says of the draws, (chain, draw).
    state : object, optional
        What predictions need and the engine has made already; ``factory.restore`` makes it of a fit from a file.
    moments : mapping, optional
        Mean and standard deviation of the draws of variables that are not kept, by name.
    """

    posterior: Any
    stats: Any
    state: Any = None
    moments: Any = None


def overridden_hooks(model: Model, engine: Callable[..., Any]) -> list[str]:
    """Hooks that a subclass changed below the class that defines an engine.

    An engine that is no method of a class names that class as its ``derived_for``, or else counts as defined by the
    class that lists it.
    """
    order, owner = type(model).__mro__, getattr(engine, "derived_for", None)
    if (function := getattr(engine, "__func__", None)) is not None:
        owner = next((cls for cls in order if any(v is function for v in vars(cls).values())), None)
    if owner is None:
        owner = next(cls for cls in order if "method_table" in vars(cls))
    return [
        hook
        for hook in model.hooks
        if inspect.getattr_static(type(model), hook) is not inspect.getattr_static(owner, hook)
    ]


def as_in(model: Model, cls: type, names: Iterable[str]) -> bool:
    """Whether a model has these hooks as a class above it has them: no subclass changed one."""
    kind = type(model)
    return all(inspect.getattr_static(kind, name) is inspect.getattr_static(cls, name) for name in names)


def _for_own_priors(model: Model, method: str | None) -> str:
    """The method that takes any prior."""
    if method is None:
        return "nuts"
    names = ", ".join(repr(name) for name, _ in model.own_priors)
    raise UnsupportedMethodError(
        f"own_priors names {names}, and method {method!r} was derived for the priors that {type(model).__name__} has. "
        "Use method='nuts', or leave own_priors out."
    )


def _for_gaps(method: str | None, data: MultiTaskData) -> str:
    """The method that draws missing features with the rest of the model."""
    gaps = data.gaps
    assert gaps is not None
    column = data.feature_names[int(np.argmax(gaps.any(axis=0)))]
    if method not in (None, "nuts"):
        raise UnsupportedMethodError(
            f"feature {column!r} has gaps, which missing='model' left to the model, and method {method!r} does not "
            "draw them. Leave method out, or fill the gaps in."
        )
    return "nuts"


def choose(model: Model, method: str | None, data: MultiTaskData) -> str:
    """The method that a fit takes: the one that was named, or the best one that takes the weights of the rows.

    Raises
    ------
    UnsupportedMethodError
        The model has no such method with these fields, hooks or weights.
    """
    table = model.method_table()
    available: Mapping[str, str] = model.methods
    weighted = model.weight_argument(data)
    taking = [m.name for m in table if m.name in available and m.weights]
    if getattr(data, "gaps", None) is not None:
        return _for_gaps(method, data)
    if model.own_priors and method != "nuts":
        return _for_own_priors(model, method)
    if method is None:
        best = model.default_method(data)
        return next(iter(taking), best) if weighted and best not in taking else best
    found = model.method_named(method)
    if found is None:
        why = model.unserved(method) or f"method {method!r} is unknown to {type(model).__name__}."
        raise UnsupportedMethodError(f"{why} Choose from {', '.join(m.name for m in table)}.")
    if method not in available:
        hooks = ", ".join(f"`{hook}`" for hook in overridden_hooks(model, found.engine))
        raise UnsupportedMethodError(
            f"{type(model).__name__} overrides the hook {hooks}, and method {method!r} was derived for the "
            'original. Use method="nuts".'
        )
    if weighted and method not in taking:
        raise UnsupportedMethodError(
            f"{weighted} is given, and method {method!r} of {type(model).__name__} takes no weights of rows"
            f"{'' if model.likelihood.augmented_weights else f' with {type(model.likelihood).__name__}'}. "
            f"Use method {' or '.join(map(repr, taking))}, or leave {weighted} out."
        )
    return method

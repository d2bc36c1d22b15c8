"""What ``factory.fit`` does: checks the call, runs the engine, makes the fit, and judges its draws."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from zoo.core.auto_draws import DEFAULT_DRAWS, AutoDraws
from zoo.core.breakdown import breakdown_explained, require_finite
from zoo.core.completeness import mark_if_interrupted
from zoo.core.data_look import level_without_constant, look_at_data
from zoo.core.data_use import require_data_used, warn_of_steady_slopes, warn_of_unused_t
from zoo.core.fit import Fit
from zoo.core.keep import choose_keep, keep_with_workers
from zoo.core.manifest import describe_run
from zoo.core.methods import Method, Result, Run, UnsupportedMethodError, overridden_hooks
from zoo.core.protocols import Model
from zoo.core.storage import to_datatree
from zoo.core.verdict import judge
from zoo.data.multitask import MultiTaskData
from zoo.inference.compiled import before_compiling
from zoo.inference.run.chains import seed_sequence
from zoo.inference.run.checkpoint import open_checkpoint
from zoo.likelihoods.coding import label_values
from zoo.support.checks import one_of, whole_number
from zoo.support.other_words import ARGUMENTS_OF_FIT
from zoo.support.seeds import random_number_source
from zoo.support.warning_types import warn_user

__all__ = ["Asked", "run_fit"]

# What constants may explain of y where no feature is constant, before a fit warns.
_LEVELS = 0.1


class Asked(NamedTuple):
    """The arguments of ``factory.fit``, as they were given."""

    method: str | None
    draws: int | str | None
    tune: int
    chains: int
    random_seed: Any
    progress: bool
    checkpoint: Any
    max_draws: int | None
    max_seconds: float | None
    keep: str | None = None


def run_fit(model: Model, data: MultiTaskData, asked: Asked, options: dict[str, Any]) -> Fit:
    """See :meth:`zoo.ModelFactory.fit`."""
    model.require_call(data, asked.method)
    name = model.choose_method(asked.method, data)
    method = model.method_named(name)
    auto = _rounds(model, name, asked, options)
    given: Any = DEFAULT_DRAWS if asked.draws is None else asked.draws
    first = given if auto is None else auto.asked
    for argument, value, least in (("draws", first, 1), ("tune", asked.tune, 0), ("chains", asked.chains, 1)):
        whole_number(value, argument, least)
    if asked.checkpoint is not None and not method.checkpoints:
        raise UnsupportedMethodError(
            f"method {name!r} of {type(model).__name__} writes no checkpoint as it works. "
            "Leave `checkpoint` out, and keep the result with fit.save."
        )
    model.check_method(name)
    if options.get("executor") is not None and "executor" not in method.options:
        raise UnsupportedMethodError(
            "executor is for HierarchicalLinear and NIWLinear with Gaussian noise by method 'gibbs', and this is a "
            f"fit of {type(model).__name__} by {name!r}. Leave it out."
        )
    for option in options:
        one_of(option, list(method.options), f"the options of method {name!r}", ARGUMENTS_OF_FIT)
    y = model.validate(data)
    seed = random_number_source(asked.random_seed, int(asked.chains))
    run = Run(int(first), int(asked.tune), int(asked.chains), seed, asked.progress)
    _say_what_data_are(model, data, asked.progress)
    prepared = model.design(data)
    wanted = asked.keep
    if options.get("executor") is not None:
        wanted = keep_with_workers(model, prepared, method, asked.keep)
    keep = choose_keep(model, prepared, y, method, run, wanted)
    if keep != "draws":
        if wanted is None and asked.checkpoint is not None:
            raise ValueError(
                f"keep is not given, and with the memory that is free now it would be {keep!r}. A run with a "
                f"checkpoint goes on later, perhaps with more memory: say what it keeps, as keep={keep!r}."
            )
        options = {**options, "keep": keep}
    if auto is not None:
        more = partial(choose_keep, model, prepared, y, method, run, keep)
        run = run._replace(until=auto.begin(model.variable_dims(prepared, y), more))
    _warn_of_a_missing_constant(model, data, prepared, y)
    warn_of_steady_slopes(model, data, prepared, y)
    if asked.progress and asked.method is None:
        _say_what_was_overridden(model, name)
    look = data_look(model, prepared, y) if method.has_chains else ""
    if asked.progress and look:
        print(look)
    with (
        _checkpointed(model, asked.checkpoint, data, method, run, options) as run,
        breakdown_explained(f"method {name!r}", prepared),
        before_compiling(_say_compiling) if asked.progress else nullcontext(),
    ):
        result = method.engine(prepared, y, run, **options)
        if not isinstance(result, Result):
            raise TypeError(
                f"the engine of method {name!r} of {type(model).__name__} returned a {type(result).__name__}. "
                "Return zoo.core.methods.Result(posterior, stats)."
            )
        if name != "nuts":  # whose own variables a user may define where they are not finite
            require_finite(result.posterior)
    written = model, data, prepared, y, result.posterior, result.stats, name, seed, keep, result.moments
    try:
        idata = to_datatree(*written)
    except KeyboardInterrupt:  # no draw is lost to Ctrl-C, and this takes a moment
        idata = to_datatree(*written)
    fit: Fit = model.fit_class(factory=model, data=data, idata=idata, method=name)
    mark_if_interrupted(idata, run.draws if auto is None else auto.asked, run.chains, fit.is_point)
    if result.state is not None:
        fit.hand_over(state=result.state)
    with _kept(fit):
        if method.has_chains:
            if auto is not None:
                auto.hand_over(fit)
            judge(fit, look, "" if auto is None else auto.reason)
        model.look_at(fit)
    return fit


@contextmanager
def _kept(fit: Fit) -> Iterator[None]:
    """Ctrl-C ends the look at a fit and not the fit; an error, such as a warning that is made one, brings it along."""
    try:
        try:
            yield
        except KeyboardInterrupt:
            warn_user(
                "Ctrl-C ended the look at the draws, which are all there. fit.diagnostics() looks at them again."
            )
    except Exception as error:
        error.fit = fit  # type: ignore[attr-defined]
        error.add_note("No draw is lost: the fit is the attribute `fit` of this error, sys.last_value.fit.")
        raise


def _say_compiling() -> None:
    said = "compiling, once on this machine: the first fit of a kind takes up to two minutes longer"
    print(said, file=sys.stderr)


def _rounds(model: Model, name: str, asked: Asked, options: dict[str, Any]) -> AutoDraws | None:
    """The rounds in which chains go on after their last draw; None where the number of draws is given."""
    if isinstance(asked.draws, str) or asked.max_draws is not None or asked.max_seconds is not None:
        limits = asked.max_draws, asked.max_seconds
        draws = "auto" if asked.draws is None else asked.draws
        return AutoDraws.of_arguments(model, name, draws, asked.chains, *limits, asked.checkpoint)
    if asked.draws is None:
        elsewhere = asked.checkpoint is not None or options.get("executor") is not None
        return AutoDraws.by_default(model, name, asked.chains, elsewhere)
    return None


def _say_what_data_are(model: Model, data: MultiTaskData, progress: bool) -> None:
    """Refuse or warn of what the data name and the model leaves aside, and print how labels were read."""
    require_data_used(model, data, says=progress)
    warn_of_unused_t(model, data)
    if progress and model.likelihood.labels:
        negative, positive = label_values(data.y)
        if negative == 0.0:
            print(f"labels {negative:g}/{positive:g} read as -1/+1")


def _say_what_was_overridden(model: Model, name: str) -> None:
    """Print why a subclass is fitted by another method than the class that it is made of."""
    best = model.method_table()[0]
    hooks = overridden_hooks(model, best.engine)
    if hooks and best.name != name:
        print(
            f"{type(model).__name__} is fitted by {name!r}: it overrides {', '.join(hooks)}, and {best.name!r} is "
            "derived for the model as it was"
        )


def _warn_of_a_missing_constant(
    model: Model, data: MultiTaskData, prepared: MultiTaskData, y: np.ndarray
) -> None:
    """Warn where functions are 0 if all features are, and the levels of tasks show that they must not be."""
    responses = model.likelihood.responses
    if data.is_sparse or not data.n_features or data.incomplete or data.choice is not None:
        return
    if not getattr(type(model).latent, "is_linear", False):
        return  # a hook of the user's may add a constant of its own
    features = [part for part in (prepared.inputs, prepared.shared) if part is not None]
    if any(np.any((np.ptp(part, axis=0) == 0.0) & (part[0] != 0.0)) for part in features):
        return
    share, wanted = 0.0, {"feature"}
    if responses != "grades":
        if hasattr(model, "intercept") or hasattr(model, "mean"):
            return  # a model with a field for a level leaves that to the user
        rows = prepared.X if prepared.shared is None else np.hstack([prepared.X, prepared.shared])
        seen = np.log(y + 0.5) if responses == "counts" else y
        wanted = {"feature", "task"}
        share = level_without_constant(rows, seen, prepared.task, prepared.n_tasks)
        if share <= _LEVELS:
            return
    if not wanted <= set(model.variable_dims(prepared, y).get("coefficients", ())):
        return  # functions need no constant, or levels of tasks are none of the model's business
    # A model with shared coefficients has them apart, and one that adds a constant has a feature more.
    if len(model.coords(prepared)["feature"]) + len(prepared.shared_names) > data.n_features:
        return
    if responses == "grades":
        said = (
            "no feature is constant, and the first cut point of the grades is 0, so that the lowest grade has "
            "probability 1/2 where all features are 0."
        )
    else:
        said = (
            "no feature is constant, so that every function is 0 where all features are 0, and a constant in each task "
            f"explains {share:.0%} of what regressions without one leave of y."
        )
    warn_user(f"{said} Call data.add_intercept() to add a feature of ones.")


def data_look(model: Model, data: MultiTaskData, y: np.ndarray) -> str:
    """What to say of prepared data before sampling, of a model with a coefficient for each task and feature."""
    said = look_at_data(data, y if model.likelihood.labels else None)
    if not said:
        return ""
    dims = model.variable_dims(data, y).get("coefficients", ())
    return said if set(dims) == {"feature", "task"} else ""


@contextmanager
def _checkpointed(
    model: Model, path: Any, data: MultiTaskData, method: Method, run: Run, options: dict[str, Any]
) -> Iterator[Run]:
    """The run with its checkpoint open, and with the seed that this was started with."""
    if path is None:
        yield run
        return
    described = describe_run(model, data, method, run, options)
    drawn = {"entropy": np.random.SeedSequence().entropy} if run.random_seed is None else {}
    with open_checkpoint(path, described, drawn) as checkpoint:
        seed = seed_sequence(run.random_seed, checkpoint.manifest["drawn"].get("entropy"))
        yield run._replace(random_seed=seed, checkpoint=checkpoint)

"""``fit(keep=...)``: what of the draws is kept, how much memory that takes, and what a fit without them cannot do.

``"draws"`` keeps all draws. ``"population"`` keeps those of the population alone, and the coefficients of tasks are
drawn again where somebody asks for them (:mod:`zoo.inference.gibbs.known_tasks` and
:mod:`zoo.models.kernel_machine.tasks`). ``"moments"`` keeps beside these the mean and standard deviation of every
task's coefficients: of the draws, or of the law itself where it is known in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoo.core.methods import Method, Run, UnsupportedMethodError
from zoo.core.protocols import Fitted, Model
from zoo.data.multitask import MultiTaskData
from zoo.support.checks import one_of
from zoo.support.memory import available_memory, gigabytes, require_bytes, sizes_of_variables
from zoo.support.warning_types import warn_user

__all__ = [
    "KEEP",
    "Numbers",
    "choose_keep",
    "estimate_text",
    "keep_with_workers",
    "needed_bytes",
    "numbers_of_a_draw",
    "require_draws",
]

KEEP = ("draws", "moments", "population")

# A posterior of as many variables, each as large as its dims allow, that is no reason to look closer, in bytes.
_MOST_VARIABLES, _SMALL_POSTERIOR = 10, 2e8
# Share of the free memory up to which all draws are kept where nobody says what to keep: predictions, diagnostics and
# files need some as well.
_COMFORTABLE = 0.5
_BYTES = 8


class Numbers(NamedTuple):
    """How many numbers one draw holds, by variable: those of the tasks, and the others."""

    of_tasks: dict[str, int]
    others: dict[str, int]


def numbers_of_a_draw(model: Model, data: MultiTaskData, y: np.ndarray) -> Numbers:
    """Of prepared data and coded y, for methods that draw."""
    dims = {name: of for name, of in model.variable_dims(data, y).items() if name not in model.extra_dims}
    sizes = sizes_of_variables(dims, model.coords(data), model.representations)
    of_tasks = {name for name in sizes if "task" in dims[name]}
    return Numbers(
        {name: n for name, n in sizes.items() if name in of_tasks},
        {name: n for name, n in sizes.items() if name not in of_tasks},
    )


def choose_keep(
    model: Model,
    data: MultiTaskData,
    y: np.ndarray,
    method: Method,
    run: Run,
    keep: str | None,
    draws: int | None = None,
) -> str:
    """What a fit keeps, "draws" but of many tasks; nothing has been sampled yet.

    Parameters
    ----------
    model, data, y, method, run
        Of the call: prepared data and coded y.
    keep : str, optional
        What the caller named.
    draws : int, optional
        Draws of each chain, where they are not ``run.draws``.

    Raises
    ------
    ValueError
        ``keep`` is unknown.
    UnsupportedMethodError
        The model or the method cannot do without draws.
    InsufficientMemoryError
        What is to be kept does not fit into memory.

    Warns
    -----
    UserWarning
        Nobody said what to keep, and draws of all tasks would fill the memory: other things are kept.
    """
    if keep is not None:
        one_of(keep, KEEP, "keep")
    refusal = model.refuses_keep(method.name, data)
    if not refusal and "keep" not in method.options:
        refusal = f"the engine of method {method.name!r} of {type(model).__name__} has no option `keep`."
    if keep in ("moments", "population") and refusal:
        raise UnsupportedMethodError(f"keep={keep!r} is not for this fit: {refusal} Use keep='draws'.")
    if method.point:
        return "draws"
    n_draws = run.draws if draws is None else draws
    kept = n_draws * run.chains
    coords = model.coords(data)
    longest = max((len(v) for dim, v in coords.items() if dim not in ("obs", "input_row")), default=1)
    if _BYTES * kept * _MOST_VARIABLES * longest**2 < _SMALL_POSTERIOR:
        return keep or "draws"  # no need to look at the variables one by one
    numbers = numbers_of_a_draw(model, data, y)
    if method.given_estimates:
        for parts in numbers:
            for name in model.estimated_once:
                parts.pop(name, None)
    # nutpie holds what it has drawn, auxiliary variables with it, while they are copied to the posterior.
    copies = 2 if method.name == "nuts" else 1
    needs = {word: needed_bytes(word, numbers, copies * kept, run.chains) for word in KEEP}
    asked = f"draws={n_draws} with chains={run.chains} of method {method.name!r}"
    fewer = " ".join(filter(None, [_how_to_keep_less(method, n_draws, needs["draws"]), model.for_many_tasks]))
    if refusal:
        require_bytes(needs["draws"], asked, fewer)
        return "draws"
    sampler = {"the sampler": model.sampler_numbers(method.name, data, run.chains) * _BYTES}
    if keep is not None:
        less = {"draws": "Or give keep='moments' or keep='population'.", "moments": "Or keep='population'."}
        advice = f"{fewer} {less.get(keep, '')}".strip()
        require_bytes({**needs[keep], **sampler}, f"keep={keep!r} for {asked}", advice)
        return keep
    available = available_memory()
    totals = {word: sum(parts.values()) + sampler["the sampler"] for word, parts in needs.items()}
    if totals["draws"] <= _COMFORTABLE * available:
        return "draws"
    chosen = "moments" if totals["moments"] <= _COMFORTABLE * available else "population"
    require_bytes({**needs[chosen], **sampler}, f"keep={chosen!r} for {asked}", fewer)
    beside = "with the mean and standard deviation of each coefficient" if chosen == "moments" else "alone"
    warn_user(
        f"all draws of {data.n_tasks:,} tasks would need {gigabytes(totals['draws'])} of memory, of which "
        f"{gigabytes(available)} are free. So the draws of the population are kept {beside} (keep={chosen!r}, "
        f"{gigabytes(totals[chosen])}), and predictions draw the coefficients of their tasks again. Give keep "
        "to choose yourself."
    )
    return chosen


def _how_to_keep_less(method: Method, n_draws: int, needed: Mapping[str, int]) -> str:
    """What to do where draws do not fit: with ``thin`` fewer of as many sweeps, by numbers that fit."""
    total = sum(needed.values())
    every = int(np.ceil(total / (_COMFORTABLE * available_memory())))
    if "thin" not in method.options or not 1 < every <= n_draws:
        return "Take fewer draws or fewer chains."
    return (
        f"Keep fewer draws of as many sweeps, which needs {gigabytes(total / every)}: draws={n_draws // every}, and a "
        f"thin that is {every} times as large, thin={every} where none is given. Or take fewer chains."
    )


def keep_with_workers(model: Model, data: MultiTaskData, method: Method, keep: str | None) -> str:
    """What a fit keeps whose tasks are drawn by the workers of an executor: the population, and nothing else.

    Raises
    ------
    UnsupportedMethodError
        The caller named something else, or the model cannot do without draws of its tasks.
    """
    if keep not in (None, "population"):
        raise UnsupportedMethodError(
            f"keep={keep!r} is not for a fit with executor=..., whose draws of tasks stay with the workers. Use "
            "keep='population': predictions draw the coefficients of their tasks again."
        )
    if refusal := model.refuses_keep(method.name, data):
        raise UnsupportedMethodError(
            f"executor is not for this fit, which would keep the draws of the population alone: {refusal} Leave "
            "executor out."
        )
    return "population"


def needed_bytes(word: str, numbers: Numbers, kept: int, chains: int) -> dict[str, int]:
    """Bytes by variable that draws of all chains together, ``kept``, take with ``keep=word``."""
    others = {name: _BYTES * kept * n for name, n in numbers.others.items()}
    if word == "draws":
        return {**{name: _BYTES * kept * n for name, n in numbers.of_tasks.items()}, **others}
    if word == "population":
        return others
    # A mean and a sum of squares in each chain, and what they come to.
    moments = {f"moments of {n}": _BYTES * 2 * (chains + 1) * size for n, size in numbers.of_tasks.items()}
    return {**moments, **others}


def require_draws(fit: Fitted, what: str, instead: str = "") -> None:
    """Raise where a fit has not kept the draws of its tasks.

    Parameters
    ----------
    fit : Fit
    what : str
        What needs them, as the subject of a sentence.
    instead : str
        A sentence on what to do beside fitting again.
    """
    if fit.keep != "draws":
        other = f"{instead} " if instead else ""
        raise ValueError(
            f"{what} needs the draws of every task, and this fit has kept less (keep={fit.keep!r}). {other}"
            "Fit again with keep='draws'."
        )


def estimate_text(
    model: Model, data: MultiTaskData, y: np.ndarray, chains: int = 4, draws: int = 1000
) -> str:
    """How much memory the draws of a fit by its first method would take, as a sentence."""
    method: Any = model.method_named(model.default_method(data))
    if method.point:
        return f"method {method.name!r} keeps one estimate"
    numbers = numbers_of_a_draw(model, data, y)
    words = KEEP if not model.refuses_keep(method.name, data) else KEEP[:1]
    sizes: Mapping[str, int] = {
        word: sum(needed_bytes(word, numbers, chains * draws, chains).values()) for word in words
    }
    said = ", ".join(f"keep={word!r} {gigabytes(size)}" for word, size in sizes.items())
    return f"{chains} x {draws:,} draws by method {method.name!r}: {said}; {gigabytes(available_memory())} are free"

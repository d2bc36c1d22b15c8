"""What the diagnosis of a fit comes to: kept in its attributes, said in a warning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.core.convergence import (
    LARGEST_R_HAT,
    LEAST_ESS,
    Diagnosis,
    diagnosis_of,
    is_independent,
)
from zoo.core.protocols import Fitted
from zoo.inference.run.mixing import LEAST_DRAWS, mixing
from zoo.support.warning_types import warn_of_convergence
from zoo.support.words import counted

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["Verdict", "judge", "verdict_of", "verdict_of_diagnosis", "verdict_text"]

_PREFIX = "convergence_"
# How many times the draws an extrapolation may ask for, before more draws count as no cure.
_MOST_TIMES = 50.0
# R-hat and draws from which on its fall is looked at, and how many times as large its excess must
# have been at half the draws.
_TELLING_R_HAT, _TELLING_DRAWS, _LEAST_FALL = 1.05, 200, 1.1


class Verdict(NamedTuple):
    """The worst of all entries.

    Parameters
    ----------
    entries, out_of_bounds : int
        How many entries were looked at, and how many of them miss a limit.
    r_hat, ess_bulk, ess_tail : float
        Largest R-hat, smallest effective sample sizes; NaN where they are not defined.
    r_hat_name, ess_bulk_name, ess_tail_name : str
        The entries that have them.
    stalled : int
        1 where the largest R-hat has not fallen from the first half of the draws to all of them.
    divergences : int
        Divergent transitions after warm-up.
    chains, draws : int
        How many there are.
    """

    entries: int
    out_of_bounds: int
    r_hat: float
    r_hat_name: str
    ess_bulk: float
    ess_bulk_name: str
    ess_tail: float
    ess_tail_name: str
    stalled: int
    divergences: int
    chains: int
    draws: int

    @property
    def ess(self) -> float:
        """The smaller one of bulk and tail ESS."""
        return min(self.ess_bulk, self.ess_tail)

    @property
    def too_few(self) -> bool:
        """Whether there are too few draws to tell."""
        return self.draws < LEAST_DRAWS

    @property
    def converged(self) -> bool:
        """Whether every entry is within the limits and no transition diverged."""
        return not (self.too_few or self.out_of_bounds or self.divergences)

    @property
    def times(self) -> float:
        """How many times the draws would do.

        R-hat - 1 falls about like 1 / draws, and the ESS grows like draws.
        """
        by_r_hat = (self.r_hat - 1.0) / (LARGEST_R_HAT - 1.0)
        by_ess = LEAST_ESS * self.chains / self.ess if self.ess > 0.0 else math.inf
        return float(np.fmax(by_r_hat, by_ess))

    def summary(self) -> str:
        """Worst R-hat and smallest ESS in one line."""
        if self.too_few:
            drawn = "1 draw per chain is" if self.draws == 1 else f"{self.draws} draws per chain are"
            return f"{drawn} too few to judge convergence: R-hat and ESS need {LEAST_DRAWS}"
        if not self.entries:
            return "no variable varies, so that there is nothing to judge convergence by"
        r_hat = (
            "R-hat needs two chains"
            if self.chains == 1
            else f"worst R-hat {_shown(self.r_hat)} ({self.r_hat_name})"
        )
        which, name = (
            ("bulk", self.ess_bulk_name) if self.ess_bulk <= self.ess_tail else ("tail", self.ess_tail_name)
        )
        return f"{r_hat}; smallest ESS {_count(self.ess)} ({which}, {name})"

    def short(self) -> str:
        """The same in a few words, for ``print(fit)``."""
        if self.too_few:
            return "too few draws to judge convergence"
        if not self.entries:
            return ""
        words = [] if self.converged else ["not converged"]
        if self.chains > 1:
            words.append(f"worst R-hat {_shown(self.r_hat)}")
        words.append(f"smallest ESS {_count(self.ess)}")
        if self.divergences:
            words.append(f"{self.divergences:,} divergences")
        return ", ".join(words)


def _shown(r_hat: float) -> str:
    return f"{r_hat:.3f}" if r_hat < 100.0 else "above 100"


def _count(ess: float) -> str:
    return f"{ess:,.0f}" if ess >= 10.0 else f"{ess:.1f}"


def verdict_of_diagnosis(found: Diagnosis, divergences: int = 0) -> Verdict:
    """The worst of all entries of a diagnosis."""

    def worst(values: np.ndarray, sign: float) -> tuple[float, str]:
        if not len(values) or np.isnan(values).all():
            return math.nan, ""
        i = int(np.nanargmax(sign * values))
        return float(values[i]), found.name(i)

    r_hat, bulk, tail = found.mixing
    least = LEAST_ESS * found.chains
    out = (r_hat > LARGEST_R_HAT) | (bulk < least) | (tail < least)
    return Verdict(
        found.size,
        int(out.sum()),
        *worst(r_hat, 1.0),
        *worst(bulk, -1.0),
        *worst(tail, -1.0),
        int(_is_stalled(found)),
        divergences,
        found.chains,
        found.draws,
    )


def _is_stalled(found: Diagnosis) -> bool:
    """Whether the largest R-hat stays where it is: of chains that only need time, half the draws
    have about twice the excess over 1. Small ones tell nothing.
    """
    r_hat = found.mixing.r_hat
    if not len(r_hat) or np.isnan(r_hat).all():
        return False
    i = int(np.nanargmax(r_hat))
    if not r_hat[i] > _TELLING_R_HAT or found.draws < _TELLING_DRAWS:
        return False
    before = mixing(found.values(i)[None, :, : found.draws // 2]).r_hat[0]
    return bool(before - 1.0 < _LEAST_FALL * (r_hat[i] - 1.0))


# -------------------------------------------------------------------- what a fit says


def judge(fit: Fitted, data_look: str = "", stopped: str = "") -> None:
    """Diagnose a fit, write the verdict into the attributes of ``sample_stats``, and warn where it
    falls short.

    Parameters
    ----------
    fit : Fit
        Of a method that gives Markov chains.
    data_look : str
        What was to be said of the data before: the likely cause.
    stopped : str
        Why chains that were to go on until they have converged have not.
    """
    verdict = _computed(fit)
    attrs = {f"{_PREFIX}{name}": value for name, value in verdict._asdict().items()}
    fit.idata["sample_stats"].attrs.update(attrs, **({"data_look": data_look} if data_look else {}))
    if not verdict.converged:
        said = warning_text(fit, verdict, data_look)
        warn_of_convergence(f"{said} {stopped}" if stopped else said)


def _computed(fit: Fitted) -> Verdict:
    return verdict_of_diagnosis(diagnosis_of(fit), _divergences(fit.idata))


def _divergences(idata: xr.DataTree) -> int:
    stats = idata["sample_stats"]
    return int(stats["diverging"].sum()) if "diverging" in stats.data_vars else 0


def verdict_of(fit: Fitted) -> Verdict | None:
    """The verdict of a fit; None of estimates and of independent draws.

    It is computed anew where the file has none.
    """
    if fit.is_point or is_independent(fit):
        return None
    stored = _stored(fit.idata["sample_stats"].attrs) if "sample_stats" in fit.idata else None
    return _computed(fit) if stored is None else stored


def _stored(attrs: Mapping[Any, Any]) -> Verdict | None:
    """The verdict in the attributes of a fit; None where they are not whole."""
    floats = ("r_hat", "ess_bulk", "ess_tail")

    def kind(name: str) -> Any:
        return str if name.endswith("_name") else float if name in floats else int

    try:
        return Verdict(**{name: kind(name)(attrs[f"{_PREFIX}{name}"]) for name in Verdict._fields})
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def short_verdict(fit: Fitted) -> str:
    """What ``print(fit)`` says of convergence; empty where nothing is known without computing."""
    if fit.is_point or "sample_stats" not in fit.idata:
        return ""
    stored = _stored(fit.idata["sample_stats"].attrs)
    return "" if stored is None else stored.short()


def verdict_text(fit: Fitted, brief: bool = False) -> str:
    """What the report and the command line say of convergence; ``brief`` without what to do."""
    if fit.is_point:
        return "An estimate, with no draws: R-hat and ESS do not apply."
    verdict = verdict_of(fit)
    if verdict is None:
        return "The draws are independent: there are no chains that have to converge."
    if not verdict.converged and not brief:
        look = str(fit.idata["sample_stats"].attrs.get("data_look", ""))
        return warning_text(fit, verdict, look)
    missed = (
        f" {verdict.out_of_bounds:,} of {verdict.entries:,} entries miss the limits."
        if verdict.out_of_bounds
        else ""
    )
    diverged = f" {verdict.divergences:,} transitions diverged." if verdict.divergences else ""
    return f"{_capital(verdict.summary())}.{missed}{diverged}"


def warning_text(fit: Fitted, verdict: Verdict, data_look: str = "") -> str:
    """What is wrong, where it is worst, and what to do."""
    who = f"{type(fit.factory).__name__} by {fit.method!r}"
    if verdict.too_few:
        return f"{who}: {verdict.summary()}. Take more draws before you rely on any of them."
    parts = []
    if verdict.out_of_bounds:
        which = (
            f"{verdict.out_of_bounds:,} of {verdict.entries:,} entries of the posterior "
            f"{'has' if verdict.out_of_bounds == 1 else 'have'}"
        )
        short = f"an effective sample size (ESS) below {LEAST_ESS * verdict.chains} ({LEAST_ESS} per chain)"
        if verdict.r_hat > LARGEST_R_HAT:
            parts.append(f"{who} has not converged: {which} R-hat above {LARGEST_R_HAT} or {short}.")
        else:
            parts.append(f"{who} needs more draws: {which} {short}, and R-hat is within its limit.")
        parts.append(f"{_capital(verdict.summary())}.")
        parts.append(_cure(verdict))
    if verdict.divergences:
        total = verdict.chains * verdict.draws
        parts.append(
            f"{verdict.divergences:,} of {total:,} transitions of {who} diverged, so that a part of the posterior may "
            "be left out: raise target_accept, as nuts={'target_accept': 0.95}, or give the scales a narrower prior."
        )
    if data_look:
        parts.append(f"A likely cause lies in the data: {data_look}")
    parts.append("fit.diagnostics() lists the entries, the worst first.")
    return " ".join(parts)


def _cure(verdict: Verdict) -> str:
    others = "a narrower prior of the scales, or leaving out one of two features that say the same"
    if verdict.stalled or verdict.times > _MOST_TIMES:
        reason = (
            "the worst R-hat has not fallen over the second half of the draws"
            if verdict.stalled
            else f"at this rate it would take more than {_MOST_TIMES:.0f} times as many"
        )
        return f"More draws alone {'may' if verdict.stalled else 'will'} not help: {reason}. What may help is {others}."
    wanted = _rounded_up(verdict.draws * max(verdict.times, 1.0))
    return (
        f"About {counted(wanted, 'draw', ',')} per chain would do if they go on like this (draws={wanted}). "
        f"What may help is {others}."
    )


def _rounded_up(number: float) -> int:
    """To two significant digits."""
    unit = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    return int(math.ceil(number / unit - 1e-9) * unit)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"

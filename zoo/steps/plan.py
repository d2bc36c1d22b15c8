"""Which variables of a model a Gaussian block may hold, proved on the graph, and why the others
stay out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pymc as pm

from zoo.steps.affine import NotAffine, linear_part, reads
from zoo.steps.terms import Term, is_normal, observed_term, prior_term

__all__ = ["Plan", "make_plan", "refuse_discrete"]

_INSTEAD = "NUTS on the whole model, pm.sample() without this step, needs none of this."
_SUPPORTED = (
    "normal, Student-t, Laplace and asymmetric Laplace responses, Bernoulli with logit or probit, binomial "
    "with logit, negative binomial, and the hinge and epsilon-insensitive terms of zoo.distributions"
)


class Plan(NamedTuple):
    """A block, its terms, and the reasons.

    Parameters
    ----------
    block : tuple of random variables
    directions : tuple of tensor variables
        One for each of the block: what stands for it in linear parts.
    terms : tuple of Term
        Priors of the block first, then what was observed.
    linear : tuple of tensor variables
        Linear part of the predictor of each term, not finished.
    reasons : dict
        Name of every free variable to its sampler and why, in words.
    """

    block: tuple[Any, ...]
    directions: tuple[Any, ...]
    terms: tuple[Term, ...]
    linear: tuple[Any, ...]
    reasons: dict[str, tuple[str, str]]

    def table(self) -> pd.DataFrame:
        """Variable, sampler and why: one row for each free variable of the model."""
        rows = [(name, sampler, why) for name, (sampler, why) in self.reasons.items()]
        return pd.DataFrame(rows, columns=["variable", "sampler", "why"])


def make_plan(model: pm.Model, vars: Sequence[Any] | None = None) -> Plan:
    """The largest block that can be proved, or exactly ``vars``.

    Raises
    ------
    ValueError
        Where no block is found, where one of ``vars`` cannot be proved, and where free variables
        are discrete.
    """
    refuse_discrete(model)
    chosen = None if vars is None else _chosen(model, vars)
    why: dict[Any, str] = {}
    candidates = []
    for rv in model.free_RVs:
        reason = _unfit_alone(model, rv)
        if reason is None and (chosen is None or rv in chosen):
            candidates.append(rv)
        elif reason is not None:
            why[rv] = reason
            if chosen is not None and rv in chosen:
                raise ValueError(
                    f"{str(rv.name)!r} cannot be drawn in a Gaussian block: {reason}. {_INSTEAD}"
                )
        else:
            why[rv] = "it is not among vars"
    while candidates:
        found = _Search(model, candidates)
        if not found.problems:
            break
        if chosen is not None:
            rv, reason = next(iter(found.problems.items()))
            raise ValueError(f"{str(rv.name)!r} cannot be drawn in a Gaussian block: {reason}. {_INSTEAD}")
        why.update(found.problems)
        candidates = [rv for rv in candidates if rv not in found.problems]
    if not candidates or not any(term.y is not None for term in found.terms):
        raise ValueError(_none_found(model, why))
    return Plan(
        tuple(candidates),
        tuple(found.directions.values()),
        tuple(found.terms),
        tuple(found.linear),
        _reasons(model, found, why),
    )


def _chosen(model: pm.Model, vars: Any) -> list[Any]:
    found = []
    for given in vars if isinstance(vars, list | tuple) else [vars]:
        rv = model.named_vars.get(given) if isinstance(given, str) else model.values_to_rvs.get(given, given)
        if rv not in model.free_RVs:
            raise ValueError(
                f"vars holds {getattr(given, 'name', given)!r}, which is no free variable of the model. "
                f"Those are {', '.join(str(v.name) for v in model.free_RVs)}."
            )
        found.append(rv)
    if not found:
        raise ValueError("vars is empty. Leave it out, or name free variables of the model.")
    return found


def refuse_discrete(model: pm.Model) -> None:
    """Raise where a free variable is discrete."""
    names = [str(v.name) for v in model.free_RVs if v.type.dtype.startswith(("int", "uint", "bool"))]
    if names:
        raise ValueError(
            f"the free variable {names[0]!r} is discrete, and NUTS, which draws what a Gaussian block leaves, needs "
            "derivatives. Marginalise it (pm.Mixture, or marginalize of pymc_extras), or take pm.sample, which has a "
            "step for it."
        )


def _unfit_alone(model: pm.Model, rv: Any) -> str | None:
    """Why a variable is none for a block whatever the rest of the model; None where it may be one."""
    if not is_normal(rv):
        op = rv.owner.op
        law = getattr(op, "_print_name", None) or (type(op).__name__,)
        return f"its law is {law[0]}, not normal"
    if model.rvs_to_transforms[rv] is not None:
        return f"it is transformed by {type(model.rvs_to_transforms[rv]).__name__}"
    return None


class _Search:
    """Terms of one block, and the variables that must leave it with the reason."""

    def __init__(self, model: pm.Model, block: Sequence[Any]):
        self.model, self.block = model, list(block)
        self.directions = {rv: rv.type(f"direction of {rv.name}") for rv in block}
        self.problems: dict[Any, str] = {}
        self.terms: list[Term] = []
        self.linear: list[Any] = []
        for rv in block:
            term = prior_term(rv)
            _, *scales = rv.owner.inputs[2:]
            self._add(term, f"the mean of {str(rv.name)!r}", f"the scale of {str(rv.name)!r}", scales)
        for rv in model.free_RVs:
            if rv not in self.directions:
                said = f"the law of {str(rv.name)!r}, which is not in the block, depends on it"
                self._blame(self._read(rv.owner.inputs), said)
        for potential in model.potentials:
            said = f"the potential {str(potential.name)!r} depends on it, and says nothing of its form"
            self._blame(self._read([potential]), said)
        for rv in model.observed_RVs:
            self._observed(rv)

    def _observed(self, rv: Any) -> None:
        roots = self._read(rv.owner.inputs if rv.owner is not None else [rv])
        if not roots:
            return
        y = self.model.rvs_to_values[rv]
        term = observed_term(rv, y, lambda graph: bool(self._read([graph])))
        name = str(rv.name)
        if term is None:
            law = (getattr(rv.owner.op, "_print_name", None) or (type(rv.owner.op).__name__,))[0]
            self._blame(roots, f"it enters {name!r} ({law}), which has no augmentation in this form")
        else:
            self._add(term, f"the predictor of {name!r}", f"a parameter of {name!r}", term.parameters)

    def _add(self, term: Term, where: str, other: str, parameters: Iterable[Any]) -> None:
        entered = self._read(list(parameters))
        self._blame(entered, f"it enters {other}, which is no place for an affine term")
        if entered:
            return
        try:
            part = linear_part(term.predictor, self.directions, self.model.free_RVs)
        except NotAffine as error:
            self._blame(error.roots, f"{where} is not affine in it: see {error.what}")
            return
        if part is None:  # the law is another one's
            return
        self.terms.append(term)
        self.linear.append(part)

    def _read(self, graphs: Sequence[Any]) -> frozenset[Any]:
        """Which variables of the block graphs read, not by way of other random variables."""
        return reads(list(graphs), self.model.basic_RVs) & frozenset(self.block)

    def _blame(self, roots: Iterable[Any], reason: str) -> None:
        for rv in sorted(roots, key=self.block.index):
            self.problems.setdefault(rv, reason)


def _reasons(model: pm.Model, found: _Search, why: dict[Any, str]) -> dict[str, tuple[str, str]]:
    observed: dict[Any, list[str]] = {rv: [] for rv in found.block}
    for term, part in zip(found.terms, found.linear, strict=True):
        if term.y is not None:
            for rv in reads(part, found.directions.values()):
                own = next(key for key, value in found.directions.items() if value is rv)
                observed[own].append(f"{str(term.rv.name)!r} ({term.law})")
    table = {}
    for rv in model.free_RVs:
        if rv in found.directions:
            law = prior_term(rv).law
            seen = observed[rv]
            said = (
                f", and enters {', '.join(seen)} affinely"
                if seen
                else ", and other laws of the block affinely"
            )
            table[str(rv.name)] = ("augmented Gibbs", f"its law is {law}{said}")
        else:
            table[str(rv.name)] = ("NUTS", why[rv])
    return table


def _none_found(model: pm.Model, why: dict[Any, str]) -> str:
    normal = {rv: reason for rv, reason in why.items() if is_normal(rv)}
    lines = "; ".join(f"{str(rv.name)!r}: {reason}" for rv, reason in (normal or why).items())
    return (
        "no Gaussian block was found that enters observed variables affinely. "
        f"{lines + '. ' if lines else 'The model has no free variables. '}"
        f"What has an augmentation: {_SUPPORTED}. {_INSTEAD}"
    )

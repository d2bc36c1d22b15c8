"""Priors of single variables that a user puts in place of those of a model: ``own_priors={"lengthscale": ...}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pandas as pd
import pymc as pm
from pymc.printing import str_for_dist

from zoo.core.factory_model import FactoryModel
from zoo.core.observed import ObservedByLikelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.pymc_laws import as_law

__all__ = ["OwnPriors", "priors_table"]


@dataclass(frozen=True, kw_only=True)
class OwnPriors(ObservedByLikelihood):
    """The field ``own_priors`` of every model.

    Parameters
    ----------
    own_priors : mapping of str to Law, ``pm.X.dist(...)``, or PreliZ distribution
        Priors in place of those that the model has, by the name of the variable in the posterior;
        :meth:`zoo.ModelFactory.priors_table` lists them. They are continuous laws of one variable; where one has
        several entries these are alike and independent, or the prior's parameters have as many entries. Method "nuts"
        takes all of them, and is the one that is left.
    """

    own_task_priors: ClassVar[tuple[str, ...]] = ()
    """Variables with a value for each task whose prior may be replaced, as `new_task` reads ``own_priors``."""

    own_priors: Any = field(default=(), repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.own_priors
        pairs = isinstance(given, tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in given)
        if not (isinstance(given, Mapping) or pairs) or not all(
            isinstance(name, str) for name in dict(given)
        ):
            raise TypeError(
                f'own_priors is {given!r}. Give a dict by variable, as {{"shrinkage": pm.HalfCauchy.dist(1)}}.'
            )
        laws = []
        for name, value in dict(given).items():
            if name in self.likelihood.parameter_names:
                word = type(self.likelihood).__name__
                raise ValueError(
                    f"own_priors names {name!r}, a parameter of the likelihood. Give its prior there: "
                    f"likelihood=zoo.{word}({name}=...)."
                )
            law = as_law(value, repr(name))
            if not isinstance(law, Law):
                raise TypeError(
                    f"own_priors has {value!r} for {name!r}. Give a distribution, as pm.HalfNormal.dist(1), or a law "
                    "of zoo.likelihoods."
                )
            laws.append((name, law))
        object.__setattr__(self, "own_priors", tuple(laws))

    def own_prior(self, name: str, dims: tuple[str, ...] = ()) -> Any:
        """The variable with the prior of ``own_priors``, for hooks ``priors``; None where it has none.

        A hook needs it only where the variable is otherwise made of others (``pm.Deterministic``). Of variables that
        PyMC draws, as ``pm.HalfNormal("scale")``, the prior is replaced without it.
        """
        model = pm.modelcontext(None)
        if isinstance(model, FactoryModel):
            model.offered.append((name, dims))
        law = dict(self.own_priors).get(name)
        return None if law is None else law.variable(name, dims)


def priors_table(factory: Any, model: FactoryModel) -> pd.DataFrame:
    """What :meth:`zoo.ModelFactory.priors_table` does."""
    rows = []
    own = dict(factory.own_priors)
    for name, dims in model.replaceable():
        if name in factory.likelihood.parameter_names:
            continue
        law = own.get(name)
        if law is None and name in model.named_vars and name not in {v.name for v in model.deterministics}:
            shown = str_for_dist(model.named_vars[name]).split("~", 1)[-1].strip()
        else:
            shown = repr(law) if law is not None else "of other variables"
        rows.append((name, ", ".join(dims), shown, f"own_priors[{name!r}]"))
    likelihood = factory.likelihood
    for name in likelihood.parameter_names:
        value = getattr(likelihood, name)
        shown = f"{value:g}" if isinstance(value, float) else repr(factory.law_of(name))
        where = f"likelihood={type(likelihood).__name__}({name}=...)"
        dims = factory.parameter_dims(name) if name in likelihood.learned else ()
        rows.append((name, ", ".join(dims), shown, where))
    return pd.DataFrame(rows, columns=["variable", "dims", "prior", "set by"]).set_index("variable")

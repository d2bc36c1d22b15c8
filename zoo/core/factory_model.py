"""The model that a factory builds: a ``pm.Model`` that reads posteriors, and that takes priors of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymc as pm

from zoo.core.predictive import hidden_variables
from zoo.likelihoods.laws import Law

__all__ = ["FactoryModel"]


class FactoryModel(pm.Model):
    """The model that ``factory.build`` returns: a ``pm.Model`` that reads posteriors without auxiliary variables.

    Parameters
    ----------
    own_priors : mapping of str to Law
        Priors that replace those which the hooks of a model give to variables of these names.
    own_task_priors : sequence of str
        Those with a value for each task that may be replaced.

    Attributes
    ----------
    innovations : set of str
        Auxiliary variables of single rows, whose law given a posterior is that of the prior.
    offered : list of (str, tuple of str)
        Names and dims of variables whose prior a hook asked for.
    """

    def __init__(
        self,
        *args: Any,
        own_priors: Mapping[str, Law] | None = None,
        own_task_priors: Sequence[str] = (),
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.innovations: set[str] = set()
        self.own_priors = dict(own_priors or {})
        self.own_task_priors = tuple(own_task_priors)
        self.offered: list[tuple[str, tuple[str, ...]]] = []
        self._replaced: set[str] = set()

    def register_rv(self, rv_var: Any, name: str, **kwargs: Any) -> Any:
        """See :meth:`pymc.Model.register_rv`; a variable with an own prior takes that one.

        Raises
        ------
        ValueError
            The own prior has values that the variable cannot have, or is of a variable of single tasks.
        """
        law = self.own_priors.get(name) if kwargs.get("observed") is None else None
        if law is None or name in self._replaced:
            return super().register_rv(rv_var, name, **kwargs)
        dims = tuple(kwargs.get("dims") or ())
        self._require_replaceable(rv_var, name, dims)
        self._replaced.add(name)
        return law.variable(name, dims)

    def _require_replaceable(self, variable: Any, name: str, dims: tuple[str, ...]) -> None:
        """Raise where the prior of a variable cannot be the one that is given."""
        law = self.own_priors[name]
        if "task" in dims and name not in self.own_task_priors:
            raise ValueError(
                f"own_priors names {name!r}, of which every task has its own: the model draws those of new tasks by "
                "the law that it has. Override the hooks `priors` and `new_task` of a subclass."
            )
        if variable.ndim != len(dims):
            raise ValueError(
                f"own_priors names {name!r}, which has no named dims. Override the hook `priors`."
            )
        if not _independent_entries(variable):
            raise ValueError(
                f"own_priors names {name!r}, which is no continuous variable with independent entries. Override the "
                "hook `priors` of a subclass."
            )
        aside = pm.Model(model=None)  # which says what transform the variable would have
        aside.register_rv(variable, name)
        kind = type(aside.rvs_to_transforms[variable]).__name__
        needed = {"NoneType": "", "LogTransform": "above 0"}.get(kind, "between 0 and 1")
        if (needed == "above 0" and not law.positive) or (needed == "between 0 and 1" and not law.unit):
            raise ValueError(
                f"own_priors has {law!r} for {name!r}, whose values are {needed}. Give a prior of such values."
            )

    def require_own_priors_used(self, factory: str, others: Sequence[str]) -> None:
        """Raise where an own prior is of no variable of the model; ``others`` have their prior elsewhere."""
        for name in self.own_priors:
            if name not in self._replaced:
                names = ", ".join(sorted({n for n, _ in self.replaceable()} - {*others}))
                raise ValueError(
                    f"own_priors names {name!r}, which is no variable of {factory} with a prior that can be replaced. "
                    f"These are: {names or 'none'}."
                )

    def replaceable(self) -> list[tuple[str, tuple[str, ...]]]:
        """Names and dims of the variables whose prior can be replaced."""
        found = {name: dims for name, dims in self.offered}
        for variable in self.free_RVs:
            dims = tuple(self.named_vars_to_dims.get(variable.name) or ())
            alone = "task" not in dims or variable.name in self.own_task_priors
            if alone and _independent_entries(variable) and not variable.name.startswith("_"):
                found.setdefault(variable.name, dims)
        return list(found.items())

    @property
    def basic_RVs(self) -> list[Any]:
        """Random variables, and with them the named quantities that a trace may hold in their stead.

        ``pm.sample_posterior_predictive`` takes what is listed here from the trace, where the trace has it, and
        draws or computes it where not. Without the second half it would compute ``coefficients`` from free variables
        which it had drawn from the prior.
        """
        named = [v for v in self.deterministics if not v.name.startswith("_")]
        return [*super().basic_RVs, *named]

    def compile_fn(self, outs: Any, *, inputs: Any = None, **kwargs: Any) -> Any:
        """See :meth:`pymc.Model.compile_fn`.

        Raises
        ------
        ValueError
            A function of draws from a posterior needs an auxiliary variable that these do not hold, as where the fit
            holds its functions in other variables than this model: PyMC would draw it from the prior.
        """
        named = {*self.free_RVs, *self.deterministics}
        held = [variable for variable in inputs or () if variable in named]
        if held:
            hidden = [
                v.name
                for v in hidden_variables(
                    self, list(outs) if isinstance(outs, list | tuple) else [outs], held
                )
                if v.name[0] == "_" and v.name not in self.innovations
            ]
            if hidden:
                raise ValueError(
                    f"the posterior does not hold {hidden[0]!r}, nor what the model makes of it, so it would be drawn "
                    "from the prior. Use fit.model, or fit.factory.build(data), the model that was fitted."
                )
        return super().compile_fn(outs, inputs=inputs, **kwargs)

    def point_logps(self, point: Any = None, round_vals: int = 2, **kwargs: Any) -> dict[str, Any]:
        """Log density of each random variable at a point; see :meth:`pymc.Model.point_logps`."""
        return self._as_plain().point_logps(point=point, round_vals=round_vals, **kwargs)

    def debug(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`pymc.Model.debug`."""
        self._as_plain().debug(*args, **kwargs)

    def copy(self, *args: Any, **kwargs: Any) -> pm.Model:
        """See :meth:`pymc.Model.copy`; the copy reads posteriors as this model does."""
        new = super().copy(*args, **kwargs)
        new.__class__ = FactoryModel
        new.innovations = set(self.innovations)
        new.own_priors, new.own_task_priors = dict(self.own_priors), self.own_task_priors
        new.offered, new._replaced = list(self.offered), set(self._replaced)
        return new

    def _as_plain(self) -> pm.Model:
        """The same model, whose named quantities are no random variables: only those have a density."""
        plain = pm.Model(model=None)
        vars(plain).update(vars(self))
        return plain


def _independent_entries(variable: Any) -> bool:
    """Whether it is a continuous variable whose entries are univariate."""
    return "int" not in variable.dtype and not getattr(variable.owner.op, "ndim_supp", False)

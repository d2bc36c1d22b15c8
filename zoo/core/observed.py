"""The part of a factory that is about its likelihood: field, priors of its parameters, observed variable."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import pymc as pm

from zoo.core.hooks import ModelData
from zoo.core.methods import UnsupportedMethodError
from zoo.data.multitask import MultiTaskData
from zoo.inference.augmentation import Augmentation
from zoo.likelihoods.laws import Beta, Gamma, Law, LogNormal
from zoo.likelihoods.resolve import resolve

__all__ = ["ObservedByLikelihood", "unit_of_y"]


def unit_of_y(data: MultiTaskData) -> float:
    """The unit of the response in which default laws are, of rows as the model sees them; 1 where they do not say."""
    return 1.0 if data.units is None else float(data.units.y_scale)


@dataclass(frozen=True, kw_only=True)
class ObservedByLikelihood:
    """What is observed given f; the base class of :class:`zoo.ModelFactory`.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of the response given f: a word, or an object of :mod:`zoo.likelihoods`. It owns its parameters; where one
        is ``"learned"``, its prior is that of ``likelihood_laws``.
    """

    likelihood: Any = "gaussian"

    likelihood_laws: ClassVar[dict[str, Law]] = {
        "noise": LogNormal(0.0, 1.0),
        # Juarez & Steel (2010): little mass at Cauchy tails, much between heavy and normal ones.
        "degrees": Gamma(2.0, 0.1),
        "dispersion": LogNormal(0.7, 1.0),
        "C": LogNormal(0.0, 1.0),
        "extra_zeros": Beta(1.0, 1.0),
    }
    """Priors of the likelihood's learned parameters, where the user gives none."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if inspect.isfunction(own := vars(cls).get("likelihood")) or isinstance(own, property):
            raise TypeError(
                f"{cls.__name__} defines `likelihood`, which is a field: a word or a likelihood. The hook that adds "
                "the observed variable is called `observe(data, f)`."
            )

    def __post_init__(self) -> None:
        object.__setattr__(self, "likelihood", resolve(self.likelihood))

    def observe(self, data: ModelData, f: Any) -> Any:
        """Add the observed variable ``"y"``."""
        parameters = {name: data.per_row(value) for name, value in self.add_parameters(data).items()}
        if data.weight is not None:
            parameters["weight"] = data.weight
        if self.likelihood.of_choices:
            parameters["choice"] = data.source.choice
        return self.likelihood.of_unit(unit_of_y(data.source)).term(f, data.y, **parameters)

    # Its y has the mean and the class probabilities that the likelihood says: a hook of the user's need not.
    observe.matches_likelihood = True  # type: ignore[attr-defined]

    def add_parameters(self, data: ModelData) -> dict[str, Any]:
        """The learned parameters of the likelihood, by name; those that the model has not yet are added to it.

        A hook ``priors`` calls it where the variables shall stand; otherwise ``observe`` adds them last.
        """
        model = pm.modelcontext(None)
        for name in self.likelihood.learned:
            if name not in model.named_vars:
                self.law_of(name, data.source).variable(name, self.parameter_dims(name))
        return {name: model[name] for name in self.likelihood.learned}

    def law_of(self, name: str, data: MultiTaskData | None = None) -> Law:
        """Prior of a learned parameter of the likelihood: its own, or that of ``likelihood_laws``.

        Laws of ``likelihood_laws`` are in units of the response, and ``data``, the rows as the model sees them, say
        what these are; without ``data`` they are 1. A prior that the likelihood was given stays as it is.
        """
        given = getattr(self.likelihood, name)
        if isinstance(given, Law):
            return given
        if name not in self.likelihood_laws:
            raise ValueError(
                f"{type(self).__name__} has no prior for {name!r} of {type(self.likelihood).__name__}. Give one in its "
                "place, for instance zoo.likelihoods.LogNormal(0, 1), or a number."
            )
        law, power = self.likelihood_laws[name], self.likelihood.in_units_of_y.get(name, 0)
        if data is None or data.units is None or not power:
            return law
        return law.scaled(data.units.y_scale**power)

    @property
    def augmented(self) -> bool:
        """Whether an augmentation makes the likelihood Gaussian, and compiled samplers know its priors."""
        return self.likelihood.augmented and not self._foreign_laws

    @property
    def _foreign_laws(self) -> dict[str, Law]:
        """Priors of parameters of the likelihood that no compiled sampler knows, by name."""
        given = {name: getattr(self.likelihood, name) for name in self.likelihood.learned}
        laws = {n: law if isinstance(law, Law) else self.likelihood_laws.get(n) for n, law in given.items()}
        return {n: law for n, law in laws.items() if law is not None and law.proper and not law.compiled}

    def augmentation(self, data: MultiTaskData, laws: dict[str, Law] | None = None) -> Augmentation:
        """What makes the likelihood Gaussian given auxiliary variables, with the priors of this factory, or others."""
        if laws is None:
            laws = {name: self.law_of(name, data) for name in self.likelihood.learned}
        found = self.likelihood.of_unit(unit_of_y(data)).augmentation(laws, data.n_tasks)
        if found is None:
            raise UnsupportedMethodError(
                f"{type(self.likelihood).__name__} has no augmentation that makes it Gaussian. Use method='nuts'."
            )
        if data.weight is not None and not self.likelihood.augmented_weights:
            raise UnsupportedMethodError(
                f"weight is given, and the augmentation of {type(self.likelihood).__name__} takes no weights of rows. "
                "Use method 'nuts', or make the data without weight."
            )
        return found

    def parameter_dims(self, name: str) -> tuple[str, ...]:
        """Dims of a learned parameter of the likelihood."""
        return ("task",) if name in self.likelihood.per_task else ()

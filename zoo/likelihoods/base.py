"""What every likelihood knows; the seam between a prior on functions and a kind of response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.data.multitask import MultiTaskData
from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.parameter_laws import fixed
from zoo.likelihoods.coding import encode_counts, encode_labels
from zoo.likelihoods.laws import Law
from zoo.likelihoods.pymc_laws import as_law
from zoo.likelihoods.weighted import observed
from zoo.support.checks import one_of, positive, probability

__all__ = ["Likelihood", "code_of"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Likelihood:
    """Law of the response given the latent function value ``f`` of its row.

    A subclass of your own has a class variable ``responses``, a field for each parameter, whose
    names stand in ``parameter_names``, and two methods: :meth:`log_density` and :meth:`random`. It
    then works with NUTS, with Laplace's method where it is smooth, and in predictions and scores.

    Parameters
    ----------
    per_task : sequence of str
        Parameters of which every task has its own value.
    """

    word: ClassVar[str] = ""
    """Its name as a word, for instance ``"student_t"``; left out, it is made of the class name."""

    responses: ClassVar[Literal["real", "labels", "counts", "grades"]] = "real"
    """Whether y holds real numbers, two classes (-1 and +1 inside the models), counts, or grades (1 to K there).

    Likelihoods of grades are :class:`zoo.Ordinal` and its subclasses.
    """

    smooth: ClassVar[bool] = True
    """Whether the log density is twice differentiable in f, which Laplace's method needs."""

    augmented: ClassVar[bool] = False
    """Whether there is an augmentation that makes the likelihood Gaussian in f."""

    augmented_weights: ClassVar[bool] = True
    """Whether that augmentation knows rows of a weight other than 1; else Gibbs samplers refuse weights."""

    sticks_at_ends: ClassVar[bool] = False
    """Whether that augmentation hardly moves the coefficient of a level whose rows all lie at one end of y."""

    weights: ClassVar[bool] = True
    """Whether ``term`` takes a ``weight`` of every row, which multiplies its log likelihood."""

    of_choices: ClassVar[bool] = False
    """Whether rows are alternatives of choices, whose densities hang together (:class:`zoo.MultinomialLogit`)."""

    parameter_names: ClassVar[tuple[str, ...]] = ()
    """Fields that are positive parameters of the density, each a number, ``"learned"``, or a prior."""

    unit_parameters: ClassVar[tuple[str, ...]] = ()
    """Those of them that lie between 0 and 1, as a probability does."""

    in_units_of_y: ClassVar[dict[str, int]] = {}
    """The power of the unit of y that a parameter is in, by name; 1 of a standard deviation, and -1 of a rate."""

    per_task: tuple[str, ...] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.responses == "grades" and not hasattr(cls, "grade_probabilities"):
            raise TypeError(
                f"{cls.__name__} is for grades, and says no probabilities of them. Make it a subclass of zoo.Ordinal, "
                "which has what predictions of grades need."
            )
        if "word" not in vars(cls):
            name = cls.__name__
            cls.word = "".join(
                f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name)
            )

    def __post_init__(self) -> None:
        for name in self.parameter_names:
            value = as_law(getattr(self, name), f"{name} of {type(self).__name__}")
            if isinstance(value, str):
                one_of(value, ("learned",), name)
            elif not isinstance(value, Law):
                if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                    raise TypeError(
                        f"{name} of {type(self).__name__} is {value!r}. Give {self._may_be(name)}."
                    )
                (probability if name in self.unit_parameters else positive)(value, name)
                value = float(value)
            elif not (value.unit if name in self.unit_parameters else value.positive):
                raise ValueError(
                    f"{name} of {type(self).__name__} has the prior {value!r}. Give {self._may_be(name)}."
                )
            object.__setattr__(self, name, value)
        given = (self.per_task,) if isinstance(self.per_task, str) else tuple(self.per_task)
        for name in given:
            if name not in self.learned:
                which = f"It learns {', '.join(self.learned)}." if self.learned else "It learns none."
                raise ValueError(
                    f"per_task names {name!r}, which is no learned parameter of {type(self).__name__}. {which}"
                )
        object.__setattr__(self, "per_task", given)

    def __repr__(self) -> str:
        changed = [
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # ---------------------------------------------------------------- parameters

    def _may_be(self, name: str) -> str:
        """What a parameter may be, for messages."""
        if name in self.unit_parameters:
            return 'a number between 0 and 1, "learned", or a prior there (zoo.likelihoods.Beta, pm.Beta.dist(1, 1))'
        priors = (
            "of zoo.likelihoods (LogNormal, Gamma, InverseGammaOfSquare) or of PyMC (pm.HalfNormal.dist(1))"
        )
        return f'a number above 0, "learned", or a prior of positive numbers, {priors}'

    @property
    def labels(self) -> bool:
        """Whether y holds two classes."""
        return self.responses == "labels"

    @property
    def proper(self) -> bool:
        """Whether the density is one of y, up to a factor without f. Else draws of y have another law than it says."""
        return True

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the parameters that the model learns, in the order of ``parameter_names``."""
        return tuple(name for name in self.parameter_names if not isinstance(getattr(self, name), float))

    @property
    def fixed(self) -> dict[str, float]:
        """Parameters that are numbers, by name."""
        return {n: getattr(self, n) for n in self.parameter_names if isinstance(getattr(self, n), float)}

    def value_of(self, name: str, given: Any) -> Any:
        """A parameter of the density: the number that the field holds, or else the one that is given."""
        field = getattr(self, name)
        if isinstance(field, float):
            return np.float64(field)
        if given is None:
            raise ValueError(f"{name} is learned by the model. Pass its value.")
        return given

    def values_of(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters of the density by name, of which the learned ones are given."""
        return {name: self.value_of(name, parameters.get(name)) for name in self.parameter_names}

    def of_unit(self, unit: float) -> Likelihood:
        """The likelihood with what its fields leave open as a number, for responses of this unit; here as it is."""
        return self

    def divided(self, unit: float) -> Likelihood:
        """The likelihood of ``y / unit``: numbers with a unit, and laws of such, in units of ``unit``.

        Raises
        ------
        TypeError
            A law does not say what it is in other units.
        """
        changes: dict[str, Any] = {}
        for name, power in self.in_units_of_y.items():
            value, factor = getattr(self, name), unit**-power
            if isinstance(value, Law):
                if type(value).scaled is Law.scaled and unit != 1.0:
                    raise TypeError(
                        f"{type(value).__name__} does not say what it is in other units. Override its method "
                        "`scaled(unit)`, or standardize the data."
                    )
                changes[name] = value.scaled(factor)
            elif isinstance(value, float):
                changes[name] = value * factor
        return replace(self, **changes) if unit != 1.0 else self

    # ---------------------------------------------------------------- density

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Checked and coded y, (N,); raises with the first offending row."""
        if self.responses == "labels":
            return encode_labels(data)
        return encode_counts(data) if self.responses == "counts" else data.y

    def decode(self, y: np.ndarray) -> np.ndarray:
        """Responses as the data have them, from coded ones; here they are the same."""
        return y

    def log_density(self, f: Any, y: Any, **parameters: Any) -> Any:
        """Log density of coded y given f, of each row, as a PyTensor graph.

        ``parameters`` holds all of ``parameter_names``, numbers among them. What does not depend on
        f or on a parameter may be left out, but then scores leave it out too.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `log_density(f, y, **parameters)`.")

    def random(self, f: Any, size: Any, **parameters: Any) -> Any:
        """A draw of y given f, as a graph of PyMC's unregistered variables (``pm.Normal.dist``)."""
        raise NotImplementedError(f"{type(self).__name__} must define `random(f, size, **parameters)`.")

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """Add the observed variable ``"y"`` (dims ``obs``) to the PyMC model on the context stack.

        ``parameters`` holds one value for each row, or one for all, for each name in ``learned``. The
        ``weight`` of a row multiplies its log density, as if the row occurred so many times, while
        draws of y are those of weight 1 (:func:`zoo.likelihoods.weighted.observed`).
        """
        values = self.values_of(parameters)
        return observed(_LawOf(self, tuple(values)), y, weight, f=f, **values)

    def information(self, f: Any, **parameters: Any) -> Any:
        """Expected information of f, a PyTensor graph, where minus the second derivative may be negative; else None."""
        return None

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation | None:
        """The augmentation that makes the likelihood Gaussian in f, or None if it has none.

        Parameters
        ----------
        laws : mapping of str to Law
            Priors of the learned parameters.
        n_tasks : int
            How many values a parameter has that every task has of its own.
        """
        return None

    def _augmented(
        self,
        laws: Mapping[str, Law],
        n_tasks: int,
        parameters: Callable[..., Any],
        numbers: Callable[..., Any],
        draw: Callable[..., None],
        update: Callable[..., None],
        log_density: Callable[..., None],
    ) -> Augmentation:
        """The augmentation of a likelihood with parameters.

        ``parameters`` and ``numbers`` make the named tuples that the compiled functions read: values, (1,), or (T,) of
        those that every task has of its own; and their priors, of which a number has none.
        """
        sizes = {name: n_tasks if name in self.per_task else 1 for name in self.parameter_names}
        starts = {name: laws[name].typical if name in laws else getattr(self, name) for name in sizes}
        return Augmentation(
            draw,
            parameters(**{name: np.full(size, starts[name]) for name, size in sizes.items()}),
            self.learned,
            self.per_task,
            numbers(**{name: laws[name].numbers() if name in laws else fixed() for name in sizes}),
            update if self.learned else None,
            log_density=log_density,
        )

    # ---------------------------------------------------------------- predictions

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Probability of the positive class at draws ``f`` (S, n); only for labels.

        ``parameters`` holds draws (S, n) or (S, 1) of the variables in ``learned``.
        """
        if not self.labels:
            raise TypeError(f"{type(self).__name__} is not for labels. It has no class probability.")
        density = self.log_density(pt.as_tensor(f), pt.ones(np.shape(f)), **self.values_of(parameters))
        return np.exp(np.asarray(density.eval()))

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Mean of y at draws ``f`` (S, n), on the scale of the model; here f itself. Not for labels.

        ``parameters`` holds draws (S, n) or (S, 1) of the variables in ``learned``.
        """
        return f

    def normal_sd(self, **parameters: Any) -> np.ndarray | None:
        """Standard deviation of y around f where y is normal given f, on the scale of the model; here None.

        ``parameters`` holds draws (S, n) or (S, 1) of the variables in ``learned``. Predictions and scores
        then have closed forms. A class that overrides ``term`` has to override this too, or it does not count.
        """
        return None

    def why_infinite(self, **parameters: Any) -> str:
        """What to say where draws of y are beyond all floats because of these parameters; here nothing is said.

        ``parameters`` holds draws of the variables in ``learned``.
        """
        return ""

    # ---------------------------------------------------------------- files

    def to_spec(self) -> dict[str, Any]:
        """Word and fields, as JSON-ready data."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            "word": self.word,
            **{name: v.to_spec() if isinstance(v, Law) else v for name, v in values.items()},
        }


class _LawOf:
    """The law of y as PyMC makes a variable of it: by name, or unregistered."""

    def __init__(self, likelihood: Likelihood, names: tuple[str, ...]):
        self.likelihood, self.names = likelihood, names
        self.__name__ = type(likelihood).__name__

    def _options(self) -> dict[str, Any]:
        likelihood, names = self.likelihood, self.names

        def logp(value: Any, f: Any, *parameters: Any) -> Any:
            return likelihood.log_density(f, value, **dict(zip(names, parameters, strict=True)))

        def dist(f: Any, *rest: Any) -> Any:
            *parameters, size = rest
            return likelihood.random(f, size, **dict(zip(names, parameters, strict=True)))

        return {"logp": logp, "dist": dist, "class_name": self.__name__}

    def __call__(self, name: str, f: Any, **arguments: Any) -> Any:
        parameters = [arguments.pop(key) for key in self.names]
        return pm.CustomDist(name, f, *parameters, **self._options(), **arguments)

    def dist(self, f: Any, **arguments: Any) -> Any:
        """Unregistered variable."""
        parameters = [arguments.pop(key) for key in self.names]
        return pm.CustomDist.dist(f, *parameters, **self._options(), **arguments)


def code_of(likelihood: Likelihood) -> str:
    """The likelihood as a user writes it, for messages that advise one."""
    own = type(likelihood).__module__.startswith("zoo.")
    return f"{'zoo.' if own else ''}{likelihood!r}"

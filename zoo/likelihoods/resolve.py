"""Words for likelihoods, and what stands for one in a field, a file or on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from zoo.likelihoods.base import Likelihood
from zoo.support import other_words
from zoo.support.installed import LIKELIHOODS as GROUP
from zoo.support.installed import broken, entries, load_class

__all__ = ["LIKELIHOODS", "likelihood_class", "likelihoods", "resolve"]

LIKELIHOODS = {
    "gaussian": ("zoo.likelihoods.gaussian", "Gaussian"),
    "student_t": ("zoo.likelihoods.student_t", "StudentT"),
    "laplace_noise": ("zoo.likelihoods.laplace_noise", "LaplaceNoise"),
    "hinge": ("zoo.likelihoods.hinge", "Hinge"),
    "normalised_hinge": ("zoo.likelihoods.hinge", "NormalisedHinge"),
    "epsilon_insensitive": ("zoo.likelihoods.epsilon_insensitive", "EpsilonInsensitive"),
    "logistic": ("zoo.likelihoods.logistic", "Logistic"),
    "multinomial_logit": ("zoo.likelihoods.multinomial_logit", "MultinomialLogit"),
    "probit": ("zoo.likelihoods.probit", "Probit"),
    "ordinal": ("zoo.likelihoods.ordinal", "Ordinal"),
    "poisson": ("zoo.likelihoods.poisson", "Poisson"),
    "negative_binomial": ("zoo.likelihoods.negative_binomial", "NegativeBinomial"),
    "zero_inflated_poisson": ("zoo.likelihoods.zero_inflated_poisson", "ZeroInflatedPoisson"),
    "zero_inflated_negative_binomial": (
        "zoo.likelihoods.zero_inflated_negative_binomial",
        "ZeroInflatedNegativeBinomial",
    ),
}
"""Module and class of every word for a likelihood of this package."""


def likelihoods() -> tuple[str, ...]:
    """All words: of this package, then of installed ones (:mod:`zoo.support.installed`), not imported yet."""
    return (*LIKELIHOODS, *sorted(entries(GROUP, LIKELIHOODS)))


def likelihood_class(word: str) -> type[Likelihood]:
    """The class of a word.

    Raises
    ------
    ValueError
        The word is unknown, or the installed package that has it is broken.
    """
    if word in LIKELIHOODS:  # most are: the installed packages need not be looked through
        module, name = LIKELIHOODS[word]
        found: type[Likelihood] = getattr(import_module(module), name)
        return found
    found, entry = load_class(word, GROUP, LIKELIHOODS, Likelihood, "likelihood", other_words.LIKELIHOODS)
    if found.word != word:
        why = f"has the word {found.word!r}, and the entry point must have its word as its name"
        raise broken(entry, why)
    return found


def resolve(value: Any) -> Likelihood:
    """The likelihood that a word, a class, the data of a file, or an object stands for."""
    if isinstance(value, Likelihood):
        return value
    if isinstance(value, str):
        return likelihood_class(value)()
    if isinstance(value, type) and issubclass(value, Likelihood):
        return value()
    if isinstance(value, Mapping) and "word" in value:
        numbers = dict(value)
        return likelihood_class(numbers.pop("word"))(**numbers)
    if callable(value):
        raise TypeError(
            "likelihood is a function. The field `likelihood` takes a word or a likelihood; a hook that adds the "
            "observed variable is called `observe`."
        )
    raise TypeError(
        f"likelihood is {value!r}. Give one of the words {', '.join(likelihoods())}, or an object such as "
        "zoo.Gaussian(noise=0.5)."
    )

"""Words of other libraries for what has another name here, so that an error can name the right one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

__all__ = ["ARGUMENTS_OF_FIT", "FIELDS", "LIKELIHOODS", "also_called", "refuse_other_fields"]

ARGUMENTS_OF_FIT = {
    **dict.fromkeys(("seed", "random_state", "rng", "rng_seed"), "random_seed"),
    **dict.fromkeys(("progressbar", "progress_bar", "verbose"), "progress"),
    **dict.fromkeys(("n_samples", "num_samples", "samples", "iter", "n_draws"), "draws"),
    **dict.fromkeys(("warmup", "num_warmup", "burn_in", "n_tune"), "tune"),
    **dict.fromkeys(("n_chains", "num_chains"), "chains"),
    **dict.fromkeys(("n_jobs", "workers"), "cores"),
    "inference_method": "method",
}
FIELDS = {**dict.fromkeys(("family", "loss", "distribution"), "likelihood")}
LIKELIHOODS = {
    **dict.fromkeys(("bernoulli", "binomial", "logit"), "logistic"),
    **dict.fromkeys(("normal", "identity"), "gaussian"),
    **dict.fromkeys(("t", "student", "studentt"), "student_t"),
    **dict.fromkeys(("laplace", "asymmetriclaplace"), "laplace_noise"),
    **dict.fromkeys(("negativebinomial", "negbinomial", "nbinom"), "negative_binomial"),
    **dict.fromkeys(("cumulative", "sratio", "ordered"), "ordinal"),
    **dict.fromkeys(("categorical", "multinomial", "softmax"), "multinomial_logit"),
    **dict.fromkeys(("svm", "svc"), "hinge"),
    "svr": "epsilon_insensitive",
}


def also_called(word: object, words: Mapping[str, str]) -> str:
    """A sentence with the name that a word of another library has here; empty where none is known."""
    own = words.get(word.lower()) if isinstance(word, str) else None
    return "" if own is None else f" What other libraries call {word!r} is {own!r} here."


def refuse_other_fields(cls: type, given: Iterable[str]) -> None:
    """Raise where a class is made with a keyword that it does not take."""
    _, *own = inspect.signature(cls.__init__).parameters.items()  # type: ignore[misc]
    known = dict(own)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise TypeError(
            f"{cls.__name__} has no field {unknown!r}.{also_called(unknown, FIELDS)} Its fields are {', '.join(known)}."
        )

"""What a call may do with hostile input: a finite answer, or one error that says what is wrong with which argument."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from zoo.support.warning_types import ConvergenceWarning

# Of each property in the second pass; docs/verification.md has a thousand.
CASES = int(os.environ.get("ZOO_HOSTILE_CASES", "25"))
ALLOWED = (ValueError, TypeError, FloatingPointError)  # UnsupportedMethodError is a ValueError
# What a message may be about: arguments, parts of the data, fields, hooks, methods.
_SUBJECTS = re.compile(
    r"\b(X|Y|y|t|df|dataset|tasks?|weight|rows?|column|columns|features?|names?|data|method|methods|kernel|path"
    r"|\w+_(names|size|cov|scale|nu|prior|kernel|task|weight|seed))\b"
)
# Words of LAPACK, NumPy, PyTensor, Numba and Python, which tell a user nothing.
_INTERNAL = (
    "leading minor",
    "did not converge",
    "singular",
    "infs or NaNs",
    "operands could not",
    "inhomogeneous",
    "broadcast",
    "matmul",
    "zero-size",
    "not supported between",
    "object is not",
    "has no attribute",
    "unhashable",
    "out of bounds",
    "LinAlg",
    "numba",
    "pytensor",
    "Initial evaluation",
    "nan or inf",
    "cannot convert",
    "argument must be",
    "got an unexpected",
    "ambiguous",
    "out-of-bound",
)
_SENTENCES = 4


def attempt(call: Callable[[], Any], subjects: tuple[str, ...] = (), seconds: float = 600.0) -> Any:
    """The answer of ``call``, or None where it refused its input as it should.

    Parameters
    ----------
    call : callable
    subjects : tuple of str
        Further words that a message may be about: fields of the factory, options of the method.
    seconds : float
        Longer than that counts as a hang.

    Raises
    ------
    AssertionError
        The error was none of those that users are promised, or its message is not for them; or time ran out.
    """
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        # The package speaks by UserWarning; any other warning is one that it should not have let through.
        warnings.filterwarnings("always", category=UserWarning)
        try:
            answer = call()
        except ALLOWED as error:
            if not isinstance(error, np.linalg.LinAlgError):
                check_message(str(error), subjects)
                answer = None
            else:
                raise AssertionError(f"LinAlgError: {error}") from error
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
    for warning in caught:
        # A few draws have not converged, and what is said of them is about draws and not about the input.
        if not issubclass(warning.category, ConvergenceWarning):
            check_message(str(warning.message), subjects)
    assert time.monotonic() - start < seconds, "the call took too long"
    return answer


def check_message(message: str, subjects: tuple[str, ...] = ()) -> None:
    """Raise ``AssertionError`` unless the message is about an argument, short, and in words of the user."""
    internal = [word for word in _INTERNAL if word.lower() in message.lower()]
    assert not internal, f"speaks of {internal[0]!r}: {message}"
    words = set(re.findall(r"\w+", message))
    assert _SUBJECTS.search(message) or words & set(subjects), f"names no argument: {message}"
    assert re.search(r"[.!?](\s|$)", message), f"is no sentence: {message}"
    assert len(re.findall(r"[.!?:]\s+[A-Z]", message)) < _SENTENCES, f"is too long: {message}"


def require_finite(dataset: Any, what: str) -> None:
    """Raise ``AssertionError`` where a variable of numbers is not finite."""
    for name, values in dataset.data_vars.items():
        array = values.to_numpy()
        if array.dtype.kind in "fc":
            assert np.isfinite(array).all(), f"{what}: {name} is not finite"

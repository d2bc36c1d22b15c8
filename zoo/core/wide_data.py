"""Refusals of data with more features than a method can do with, each naming what to use instead."""

from __future__ import annotations

from zoo.data.multitask import MultiTaskData

__all__ = ["MOST_FEATURES", "MOST_OF_A_MODE", "require_features_of_mode", "require_narrow"]

MOST_FEATURES = 500
"""Features up to which a D x D covariance is learned where they outnumber the inputs. A sweep takes O(T D^3)."""
MOST_OF_A_MODE = 1_000
"""Features up to which the mode of ARD parameters is looked for. A step takes O(T D^3) and T D^2 numbers."""


def require_narrow(data: MultiTaskData, what: str, instead: str) -> None:
    """Raise where features outnumber the distinct inputs and are more than :data:`MOST_FEATURES`.

    Parameters
    ----------
    data : MultiTaskData
    what : str
        What is made of all features, as the subject of "takes time with the cube of their number".
    instead : str
        What to use: the second sentence of the message.

    Raises
    ------
    ValueError
        With the shape of the data, the limit, and ``instead``.
    """
    D, n = data.n_features, data.n_inputs
    if D > MOST_FEATURES and D > n:
        raise ValueError(
            f"the data have {D:,} features and {n:,} distinct inputs, and the time that {what} takes grows with the "
            f"cube of the number of features: more than {MOST_FEATURES} that outnumber the inputs are refused. "
            f"{instead}"
        )


def require_features_of_mode(n_features: int, n_blocks: int) -> None:
    """Raise where the mode of ARD parameters would take hours; see :data:`MOST_OF_A_MODE`."""
    if n_features > MOST_OF_A_MODE:
        gib = n_blocks * n_features**2 * 8.0 / 2.0**30
        raise ValueError(
            f"the data have {n_features:,} features, and the posterior mode of their ARD parameters takes at most "
            f"{MOST_OF_A_MODE:,}: a step needs several matrices of {gib:.2g} GiB, and time with the cube of the number "
            "of features. Leave out features first (those that go least with y in every task), or use "
            "MultiTaskKernelMachine, which weighs all features alike."
        )

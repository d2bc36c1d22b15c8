"""Simulated choices between alternatives, whose truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.support.checks import whole_number
from zoo.support.seeds import generator

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate_choices"]


def simulate_choices(
    n_people: int = 200,
    n_choices: int = 10,
    n_alternatives: int = 4,
    n_attributes: int = 4,
    random_seed: Any = None,
) -> tuple[MultiTaskData, xr.Dataset]:
    r"""People who choose between alternatives by a multinomial logit, each with part-worths of their own.

    Attributes are standard normal. The part-worths of a person are :math:`w_t \sim N(\mu, C)`, with :math:`\mu`
    standard normal, and :math:`C = A A' / (2 n) + 0.3 I`, where A is an (n, n) matrix of standard normal numbers for n
    attributes.

    Parameters
    ----------
    n_people, n_choices, n_alternatives, n_attributes : int
        People, choices of each person, alternatives of each choice (2 or more), and attributes of each alternative.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    data : MultiTaskData
        A row for each alternative: ``y`` is 1 where it was chosen, and ``data.choice`` says which rows belong together.
    truth : xarray.Dataset
        ``coefficients`` (feature, task), ``population_mean`` (feature), ``feature_cov`` (feature, feature_bis).
    """
    import xarray as xr

    for name, value, least in (
        ("n_people", n_people, 1),
        ("n_choices", n_choices, 1),
        ("n_alternatives", n_alternatives, 2),
        ("n_attributes", n_attributes, 1),
    ):
        whole_number(value, name, least)
    rng = generator(random_seed)
    mean = rng.standard_normal(n_attributes)
    root = rng.standard_normal((n_attributes, n_attributes))
    cov = root @ root.T / (2.0 * n_attributes) + 0.3 * np.eye(n_attributes)
    w = rng.multivariate_normal(mean, cov, size=n_people)
    X = rng.standard_normal((n_people, n_choices, n_alternatives, n_attributes))
    utility = np.einsum("tcjd,td->tcj", X, w) + rng.gumbel(size=X.shape[:3])
    chosen = np.arange(n_alternatives) == utility.argmax(axis=2)[..., None]
    rows = n_choices * n_alternatives
    people, attributes = (
        [f"{word} {i}" for i in range(1, n + 1)]
        for word, n in (("person", n_people), ("attribute", n_attributes))
    )
    data = MultiTaskData.from_arrays(
        X.reshape(-1, n_attributes),
        chosen.ravel().astype(np.float64),
        np.repeat(np.arange(n_people), rows),
        task_names=people,
        feature_names=attributes,
        choice=np.repeat(np.arange(n_people * n_choices), n_alternatives),
    )
    truth = xr.Dataset(
        {
            "coefficients": (("feature", "task"), w.T),
            "population_mean": ("feature", mean),
            "feature_cov": (("feature", "feature_bis"), cov),
        },
        coords={"feature": attributes, "task": people, "feature_bis": attributes},
    )
    return data, truth

"""Simulated data, returned with the truth behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.support.checks import covariance, not_negative, one_of, positive, whole_number
from zoo.support.frames import by_name
from zoo.support.seeds import generator
from zoo.support.words import counted

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate_conjoint", "simulate_joint_selection", "simulate_matrix_normal"]


def simulate_conjoint(
    n_customers: int = 200,
    n_choices: int = 120,
    levels: Sequence[int] = (7, 7, 6),
    mean: float = 0.85,
    common: float = 2.0,
    rank: int = 3,
    own: float = 1.1,
    noise: float = 1.0,
    random_seed: Any = None,
) -> tuple[MultiTaskData, xr.Dataset]:
    r"""Simulate customers who buy products or leave them; customers are tasks.

    A product has one level of each attribute, each level equally likely, drawn anew for each customer and choice. It
    is coded by one binary feature per level, so :math:`x^\top u_l` adds up the part-worths of its levels. Customer l
    buys it (y = +1, else -1) with probability :math:`1 / (1 + \exp(-x^\top u_l / \text{noise}))`, and his
    part-worths are

    .. math:: u_l = \mu + F z_l + \text{own} \cdot H e_l, \qquad z_l, e_l \sim N(0, I)

    with H the projection that takes the average away within each attribute: what all levels have in common is no
    preference, and customers buy about every other product. :math:`\mu` and the columns of F are standard normal
    vectors times H, drawn once and scaled: the entries of :math:`\mu` have root mean square ``mean``, those of
    :math:`F z_l` variance :math:`\text{common}^2` on average. The part-worths of the population are normal with
    mean :math:`\mu` and covariance :math:`F F^\top + \text{own}^2 H`: tastes differ mainly in ``rank`` directions.

    Parameters
    ----------
    n_customers : int
        ``T``.
    n_choices : int
        Rows of each customer.
    levels : sequence of int
        Levels of each attribute, 2 or more; their sum is ``D``.
    mean, common, own : float
        Sizes of what all customers share, of the tastes in few directions, and of what is a customer's own; 0 or
        more.
    rank : int
        Columns of F.
    noise : float
        Scale of the logistic choice, above 0: the smaller, the more do choices follow the part-worths.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    data : MultiTaskData
        Rows customer by customer; y is -1 or +1.
    truth : xarray.Dataset
        ``coefficients`` (feature, task), ``mean`` (feature) and ``covariance`` (feature, feature_bis) of the
        population, with names as coordinates. Attributes: ``noise``, and ``smallest_error``, the misclassification
        rate on these products of somebody who knows the part-worths.

    Raises
    ------
    ValueError
        Names the argument.

    Notes
    -----
    Sizes are those of the proprietary choices in Evgeniou, Micchelli & Pontil (2005), and the defaults are such that
    support vector machines err there about as often as in the paper's table 1: one machine for all customers 40%,
    one for each 30% when it learns from 20 choices and 20% from 90. ``smallest_error`` is about 13%.

    References
    ----------
    Evgeniou, T., Micchelli, C. A. and Pontil, M. (2005). Learning multiple tasks with kernel methods. JMLR 6, 615-637.
    """
    import xarray as xr
    from scipy.special import expit

    whole_number(n_customers, "n_customers")
    whole_number(n_choices, "n_choices")
    if np.ndim(levels) != 1 or len(levels) == 0:
        raise ValueError(f"levels is {levels!r}. Give the number of levels of each attribute.")
    sizes = [whole_number(size, "levels", 2) for size in levels]
    for name, value in (("mean", mean), ("common", common), ("own", own)):
        not_negative(value, name)
    whole_number(rank, "rank")
    positive(noise, "noise")
    rng = generator(random_seed)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    dim = int(starts[-1])
    centred = np.eye(dim)
    for begin, end in pairwise(starts):
        centred[begin:end, begin:end] -= 1.0 / (end - begin)
    mu = centred @ rng.standard_normal(dim)
    mu *= mean / np.sqrt(np.mean(mu**2))
    factors = centred @ rng.standard_normal((dim, rank))
    factors *= common / np.sqrt(np.mean(np.sum(factors**2, axis=1)))
    tastes = factors @ rng.standard_normal((rank, n_customers))
    coefficients = mu[:, None] + tastes + own * centred @ rng.standard_normal((dim, n_customers))

    task = np.repeat(np.arange(n_customers), n_choices)
    X = np.zeros((len(task), dim))
    for begin, size in zip(starts[:-1], sizes, strict=True):
        X[np.arange(len(task)), begin + rng.integers(size, size=len(task))] = 1.0
    probability = expit(np.einsum("nd,dn->n", X, coefficients[:, task]) / noise)
    data = MultiTaskData.from_arrays(
        X,
        np.where(rng.uniform(size=len(task)) < probability, 1.0, -1.0),
        task,
        task_names=[f"customer {i}" for i in range(1, n_customers + 1)],
        feature_names=[f"attribute {a}, level {i}" for a, n in enumerate(sizes, 1) for i in range(1, n + 1)],
    )
    features = list(data.feature_names)
    truth = xr.Dataset(
        {
            "coefficients": (("feature", "task"), coefficients),
            "mean": ("feature", mu),
            "covariance": (("feature", "feature_bis"), factors @ factors.T + own**2 * centred),
        },
        coords={"feature": features, "task": list(data.task_names), "feature_bis": features},
        attrs={
            "noise": noise,
            "smallest_error": float(np.minimum(probability, 1.0 - probability).mean()),
        },
    )
    return data, truth


def simulate_joint_selection(
    n_tasks: int = 10,
    n_features: int = 10,
    variances: Sequence[float] = (1.0, 0.5, 0.1, 0.15, 0.1),
    n_per_task: int | Sequence[int] = 25,
    noise: float = 0.04,
    random_seed: Any = None,
) -> tuple[MultiTaskData, xr.Dataset]:
    r"""Simulate linear tasks in which the same few features count (srijith2014 section 5.1).

    Features are uniform on [0, 1], and :math:`y = x^\top w_t + \text{noise} \cdot N(0, 1)`. The coefficients of the
    first features are normal with mean zero and the given variances, independently for each task; the others
    are zero.

    Parameters
    ----------
    n_tasks : int
        ``T``.
    n_features : int
        ``D``.
    variances : sequence of float
        Variances of the coefficients of the features that count, above 0, at most ``D`` of them. Defaults are the
        paper's.
    n_per_task : int or sequence of T int
        Rows of each task. The paper trains on 5 and tests on 20.
    noise : float
        Standard deviation of the noise, 0 or more. The paper's text says variance 0.1, a standard deviation of
        0.32, which its own results rule out: an RMSE of 0.041 and a negative log predictive density of -1.65 both
        imply a standard deviation near 0.04.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    data : MultiTaskData
        Rows task by task.
    truth : xarray.Dataset
        ``coefficients`` (feature, task) and ``relevant`` (feature), with names as coordinates; attribute
        ``noise``.

    Raises
    ------
    ValueError
        Names the argument.

    References
    ----------
    Srijith, P. K. and Shevade, S. (2014). Gaussian process multi-task learning using joint feature selection.
    ECML PKDD.
    """
    import xarray as xr

    whole_number(n_tasks, "n_tasks")
    whole_number(n_features, "n_features")
    sizes = _task_sizes(n_per_task, n_tasks)
    if np.ndim(variances) != 1 or not 1 <= len(variances) <= n_features:
        raise ValueError(f"variances is {variances!r}. Give a sequence of 1 to {n_features} variances.")
    for variance in variances:
        positive(variance, "variances")
    not_negative(noise, "noise")
    rng = generator(random_seed)
    relevant = np.arange(n_features) < len(variances)
    coefficients = np.zeros((n_features, n_tasks))
    sd = np.sqrt(np.array(variances, dtype=float))
    coefficients[relevant] = sd[:, None] * rng.standard_normal((len(sd), n_tasks))

    task = np.repeat(np.arange(n_tasks), sizes)
    X = rng.uniform(size=(len(task), n_features))
    f = np.einsum("nd,dn->n", X, coefficients[:, task])
    y = f + noise * rng.standard_normal(len(task))
    data = MultiTaskData.from_arrays(
        X,
        y,
        task,
        task_names=[f"task {i}" for i in range(n_tasks)],
        feature_names=[f"x{i}" for i in range(n_features)],
    )
    truth = xr.Dataset(
        {"coefficients": (("feature", "task"), coefficients), "relevant": ("feature", relevant)},
        coords={"feature": list(data.feature_names), "task": list(data.task_names)},
        attrs={"noise": noise},
    )
    return data, truth


def simulate_matrix_normal(
    n_tasks: int = 8,
    n_features: int = 5,
    n_per_task: int | Sequence[int] = 30,
    loss: str = "epsilon_insensitive",
    C: float = 1.0,
    epsilon: float = 0.1,
    margin: float = 1.0,
    feature_cov: Any = None,
    task_cov: Any = None,
    intercept: bool = False,
    random_seed: Any = None,
) -> tuple[MultiTaskData, xr.Dataset]:
    r"""Simulate a multi-task model with matrix-normal coefficients.

    Features are standard normal, and :math:`f = x^\top \eta_t` with :math:`\eta \sim
    \mathrm{MN}(0, \text{feature\_cov}, \text{task\_cov})`. The response has the proper law of the loss:

    - ``"epsilon_insensitive"``: density :math:`\propto \exp(-2C \max(0, |y - f| - \epsilon))`;
    - ``"hinge"``: labels -1 and +1 with probabilities :math:`\propto \exp(-2C \max(0, m - y f))`, ``m`` the
      margin.

    Parameters
    ----------
    n_tasks : int
        ``T``.
    n_features : int
        Random features; with ``intercept`` there is one more, and ``D`` counts it.
    n_per_task : int or sequence of T int
        Rows of each task.
    loss : {"epsilon_insensitive", "hinge"}
    C : float
        Weight of the loss, above 0.
    epsilon : float
        Half width of the insensitive tube, 0 or more; for that loss alone.
    margin : float
        Margin of the hinge, above 0; for that loss alone.
    feature_cov, task_cov : (D, D) and (T, T) array_like, optional
        Covariances of the coefficients. Default: inverse-Wishart draws with ``dim + 3`` degrees of freedom
        and the identity as mean.
    intercept : bool
        Append a feature that is 1 everywhere, named ``"intercept"``.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    data : MultiTaskData
        Rows task by task.
    truth : xarray.Dataset
        ``coefficients`` (feature, task), ``feature_cov`` (feature, feature_bis) and ``task_cov``
        (task, task_bis), with names as coordinates; attributes ``loss``, ``C``, ``epsilon``, ``margin``.

    Raises
    ------
    ValueError
        Names the argument.
    """
    # PyMC comes with the likelihoods: imported here, so that loading a data set stays light.
    from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
    from zoo.likelihoods.hinge import Hinge

    whole_number(n_tasks, "n_tasks")
    whole_number(n_features, "n_features")
    sizes = _task_sizes(n_per_task, n_tasks)
    one_of(loss, ["epsilon_insensitive", "hinge"], "loss")
    for name, value, default, other in (
        ("epsilon", epsilon, 0.1, "epsilon_insensitive"), ("margin", margin, 1.0, "hinge")
    ):  # fmt: skip
        if loss != other and value != default:
            raise ValueError(
                f"{name} is {value!r}, and the loss {loss!r} has none. Use loss={other!r}, or leave it out."
            )
    likelihoods: dict[str, Hinge | EpsilonInsensitive] = {
        "hinge": Hinge(C=C, margin=margin),
        "epsilon_insensitive": EpsilonInsensitive(C=C, epsilon=epsilon),
    }
    dim = n_features + bool(intercept)
    rng = generator(random_seed)
    row_cov = _covariance(feature_cov, "feature_cov", dim, rng)
    column_cov = _covariance(task_cov, "task_cov", n_tasks, rng)
    noise = rng.standard_normal((dim, n_tasks))
    coefficients = np.linalg.cholesky(row_cov) @ noise @ np.linalg.cholesky(column_cov).T

    task = np.repeat(np.arange(n_tasks), sizes)
    X = rng.standard_normal((len(task), n_features))
    feature_names = [f"x{i}" for i in range(n_features)]
    if intercept:
        X = np.column_stack([X, np.ones(len(X))])
        feature_names.append("intercept")
    f = np.einsum("nd,dn->n", X, coefficients[:, task])
    y = likelihoods[loss].simulate(f, rng)
    data = MultiTaskData.from_arrays(
        X, y, task, task_names=[f"task {i}" for i in range(n_tasks)], feature_names=feature_names
    )
    truth = _truth(data, coefficients, row_cov, column_cov)
    return data, truth.assign_attrs(loss=loss, C=C, epsilon=epsilon, margin=margin)


def _task_sizes(n_per_task: Any, n_tasks: int) -> np.ndarray:
    if np.ndim(n_per_task) == 0 and not isinstance(n_per_task, Mapping):
        whole_number(n_per_task, "n_per_task")
        return np.full(n_tasks, n_per_task)
    sizes = list(by_name(n_per_task, "n_per_task", [f"task {i}" for i in range(n_tasks)]))
    if len(sizes) != n_tasks:
        raise ValueError(
            f"n_per_task has {counted(len(sizes), 'entry')} for {counted(n_tasks, 'task')}. Give one per task."
        )
    for size in sizes:
        whole_number(size, "n_per_task")
    return np.array(sizes)


def _covariance(given: Any, argument: str, dim: int, rng: np.random.Generator) -> np.ndarray:
    if given is not None:
        return covariance(given, argument, dim)
    from scipy.stats import invwishart

    # The mean is scale / (nu - dim - 1) = scale / 2.
    draw = invwishart.rvs(df=dim + 3, scale=2.0 * np.eye(dim), random_state=rng)
    return np.reshape(draw, (dim, dim))


def _truth(
    data: MultiTaskData, coefficients: np.ndarray, feature_cov: np.ndarray, task_cov: np.ndarray
) -> xr.Dataset:
    import xarray as xr

    features, tasks = list(data.feature_names), list(data.task_names)
    return xr.Dataset(
        {
            "coefficients": (("feature", "task"), coefficients),
            "feature_cov": (("feature", "feature_bis"), feature_cov),
            "task_cov": (("task", "task_bis"), task_cov),
        },
        coords={"feature": features, "task": tasks, "feature_bis": features, "task_bis": tasks},
    )

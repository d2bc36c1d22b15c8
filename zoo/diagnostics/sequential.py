r"""Sequential test of a Markov kernel against exact draws (Gandy & Scott 2020, arXiv:2001.06465).

Let :math:`(\theta_0, y)` be drawn from the joint law of parameters and data, and let :math:`\theta_K` be the state
after K transitions of a kernel for :math:`p(\theta \mid y)` that starts at :math:`\theta_0`. Given y, :math:`\theta_0`
is a draw from the posterior, which the kernel leaves unchanged. So :math:`(\theta_K, y)` has the joint law exactly, for
every K, however slowly the chain mixes, and whether or not it is reversible. Replications are independent. Hence any
scalar of :math:`(\theta_K, y)` has the law of the same scalar of independent joint draws, and the ranks of the
one sample among the other are those of a random permutation: two-sample tests hold exactly. The same is true for one
fixed y, where :math:`\theta_0` is an exact draw from the posterior.

With y drawn anew from :math:`p(y \mid \theta)` after each transition the pairs follow Geweke's (2004)
successive-conditional simulator, from its stationary law on. Here too every pair has the joint law exactly, so that
the test needs no long chain and no estimate of its Monte-Carlo error; but what a kernel does wrong adds up over the
transitions, where a fixed y would hold it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import ks_2samp

from zoo.core.factory import ModelFactory
from zoo.core.predictive import PointwiseLogLikelihood, joint_draws, predictive_draws
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics.quantities import scalar_quantities, varying
from zoo.diagnostics.replication import require_simulated_rows
from zoo.support.checks import whole_number
from zoo.support.seeds import generator

__all__ = ["SequentialResult", "Stage", "kernel_test", "sequential_test"]

Samples = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


class Stage(NamedTuple):
    """A look at the data: replications, adjusted p value, and below which one the test rejects or goes on."""

    size: int
    adjusted_p: float
    reject_below: float
    go_on_below: float


@dataclass(frozen=True)
class SequentialResult:
    """Outcome of :func:`sequential_test`.

    Parameters
    ----------
    rejected : bool
    alpha : float
        Probability of a rejection, at most, if the two samples have one law.
    stages : tuple of Stage
    p_values : pandas.Series
        Of each quantity at the last stage, smallest first, not adjusted.
    """

    rejected: bool
    alpha: float
    stages: tuple[Stage, ...]
    p_values: pd.Series

    def __str__(self) -> str:
        last = self.stages[-1]
        verdict = "rejected" if self.rejected else "not rejected"
        return (
            f"{verdict} at stage {len(self.stages)} with {last.size} replications: p = {last.adjusted_p:.2g} adjusted "
            f"for {len(self.p_values)} quantities, smallest at {self.p_values.index[0]}"
        )


def sequential_test(
    draw: Callable[[np.random.Generator, int], Samples],
    *,
    alpha: float = 1e-5,
    size: int = 1000,
    stages: int = 7,
    growth: float = 2.0,
    random_seed: Any = None,
) -> SequentialResult:
    r"""Whether two samples of many scalars come from one law, with a bound on false rejections over all stages.

    Gandy & Scott (2020), algorithm 3. A stage compares two new samples by a two-sample Kolmogorov-Smirnov test of
    each scalar (exact; conservative where values are tied), and takes the smallest p value times the number of
    scalars. With :math:`\beta = \alpha / k` for k stages and :math:`\gamma = \beta^{1/k}`, stage i rejects where this
    is at most :math:`\beta_i = \beta \gamma^{1 - i}`, goes on where it is at most :math:`\gamma + \beta_i`, and ends
    without rejection above. If the laws are the same, a rejection from stage i on has at most the probability
    :math:`(k - i + 1) \beta_i`, by induction from the last one: so at most :math:`\alpha` in all.

    Parameters
    ----------
    draw : callable ``(rng, n) -> (first, second)``
        Two dicts of n independent values of each scalar, by the same names.
    alpha : float
        Bound on the probability of a false rejection.
    size : int
        Replications of the first stage; ``growth`` times as many in the later ones.
    stages : int
        k.
    growth : float
    random_seed : int, optional

    Returns
    -------
    SequentialResult

    Raises
    ------
    ValueError
        A scalar is in one sample alone, or not a number somewhere.
    """
    stages, n = whole_number(stages, "stages", 1), whole_number(size, "size", 2)
    rng = generator(random_seed)
    beta = alpha / stages
    gamma = beta ** (1.0 / stages)
    looks: list[Stage] = []
    for stage in range(stages):
        p = _p_values(*draw(rng, n))
        adjusted = min(1.0, len(p) * float(p.iloc[0]))
        looks.append(Stage(n, adjusted, beta, gamma + beta))
        rejected = adjusted <= beta
        if rejected or adjusted > gamma + beta:
            break
        beta /= gamma
        n = round(growth * size) if stage == 0 else n
    return SequentialResult(rejected, alpha, tuple(looks), p)


def _p_values(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> pd.Series:
    if set(first) != set(second):
        odd = sorted(set(first) ^ set(second))[0]
        raise ValueError(f"the scalar {odd!r} is in one sample alone. Return the same names in both.")
    for name in first:
        if not (np.isfinite(first[name]).all() and np.isfinite(second[name]).all()):
            raise ValueError(
                f"the scalar {name!r} is not finite at some draw. Leave it out, or take another."
            )
    p = {name: ks_2samp(first[name], second[name], method="exact").pvalue for name in first}
    return pd.Series(p, name="p").sort_values()


def kernel_test(
    factory: ModelFactory,
    data: MultiTaskData,
    *,
    sweeps: int = 5,
    resimulate: bool = False,
    alpha: float = 1e-5,
    size: int = 1000,
    stages: int = 7,
    kernel: Callable[[np.ndarray], Any] | None = None,
    random_seed: Any = None,
    **options: Any,
) -> SequentialResult:
    """Whether the Markov kernel of a factory's Gibbs sampler keeps the posterior: :func:`sequential_test` on it.

    Compared are the entries of all variables and their squares, log determinants of covariances, the log likelihood,
    the products of y with the coefficients, and what joins these and their population: first those of states after
    some sweeps from a joint draw, with its y, then those of fresh joint draws.

    Parameters
    ----------
    factory : ModelFactory
        One whose ``gibbs_kernel`` makes a kernel with ``with_response`` and ``set_values``.
    data : MultiTaskData
        Rows and tasks; y is simulated.
    sweeps : int
        K, transitions from each exact draw.
    resimulate : bool
        Draw y anew after each of them (Geweke 2004).
    alpha, size, stages, random_seed
        As in :func:`sequential_test`.
    kernel : callable ``y -> kernel``, optional
        Another kernel than the factory's, for coded responses.
    **options
        Of the factory's ``gibbs_kernel``: not beside ``kernel``.

    Returns
    -------
    SequentialResult

    Raises
    ------
    ValueError
        The likelihood is no density of y: compare with exact draws given one y, by :func:`sequential_test`. Or the
        rows have weights, the model has a potential, or a subclass overrides a hook that the kernel was derived for;
        or the kernel leaves a variable out, or returns what is not finite.
    """
    if not factory.likelihood.proper:
        raise ValueError(
            f"the likelihood of {type(factory).__name__} is a pseudo-likelihood, no density of y. Hand draws from its "
            "posterior given one y, by rejection from the prior, to zoo.diagnostics.sequential_test."
        )
    if kernel is not None and options:
        raise ValueError(
            f"{next(iter(options))} is an option of the factory's own kernel, and kernel is given in its place. "
            "Put it into the kernel that you hand over, or leave it out."
        )
    joint = _Joint(factory, data)
    require_simulated_rows(factory, data, [joint.placeholder, -joint.placeholder])
    if kernel is None:
        _require_own_kernel(factory)
        base = factory.gibbs_kernel(joint.prepared, joint.placeholder, **options)
        kernel = base.with_response
    step = whole_number(sweeps, "sweeps", 1)

    def draw(rng: np.random.Generator, n: int) -> Samples:
        y, truth = joint.draws(rng, 2 * n)
        now, own = y[:n], truth.isel(draw=slice(None, n))
        if resimulate:
            for _ in range(step):
                own = joint.moved(kernel, now, own, 1, rng)
                now = joint.responses(own, rng)
        else:
            own = joint.moved(kernel, now, own, step, rng)
        _require_whole(own, truth)
        fresh = truth[list(own.data_vars)].isel(draw=slice(n, None))
        first, second = joint.scalars(own, now), joint.scalars(fresh, y[n:])
        shared = [name for name in varying(second) if np.isfinite(first[name]).all()]
        shared = [name for name in shared if np.isfinite(second[name]).all()]
        return {name: first[name] for name in shared}, {name: second[name] for name in shared}

    return sequential_test(draw, alpha=alpha, size=size, stages=stages, random_seed=random_seed)


def _require_own_kernel(factory: ModelFactory) -> None:
    """Raise where a subclass changed a hook below the class that its Gibbs kernel was derived for."""
    cls = type(factory)
    # A class may take over the kernel of its base and say by its own `_fit_gibbs` that it serves its hooks.
    owner = next(base for base in cls.__mro__ if {"gibbs_kernel", "_fit_gibbs"} & set(vars(base)))
    changed = [
        f"`{hook}`"
        for hook in factory.hooks
        if owner is not ModelFactory
        and inspect.getattr_static(cls, hook) is not inspect.getattr_static(owner, hook)
    ]
    if changed:
        raise ValueError(
            f"{cls.__name__} overrides the hook {', '.join(changed)}, and the kernel of {owner.__name__} was derived "
            "for the original. Hand over kernel=..., or override gibbs_kernel."
        )


def _require_whole(states: xr.Dataset, truth: xr.Dataset) -> None:
    """Raise where states of a kernel lack a variable of the model, or hold what is not finite: neither is compared."""
    for name in truth.data_vars:
        if name not in states:
            raise ValueError(f"the kernel's record has no variable {name!r} of the model. Record it.")
        if not np.isfinite(states[name].to_numpy().astype(np.float64)).all():
            raise ValueError(
                f"the kernel made {name!r} not finite in some state. It cannot keep the posterior."
            )


def _sweep(
    kernel: Any, values: dict[str, np.ndarray], sweeps: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Posterior variables after some transitions from these."""
    state = kernel.initialise(rng)
    kernel.set_values(state, values)
    for _ in range(sweeps):
        kernel.sweep(rng, state)
    return {name: np.array(value) for name, value in kernel.record(state).items()}


class _Joint:
    """Joint draws of a factory's model for these rows, and the scalars that are compared."""

    def __init__(self, factory: ModelFactory, data: MultiTaskData):
        # One prior for all draws, whatever the units of their responses.
        self.factory, self.data = factory, factory.with_units(data)
        self.placeholder = np.where(np.arange(data.n_rows) % 2 == 0, -1.0, 1.0)
        self.prepared = factory.design(self.data)
        self._log_likelihood: PointwiseLogLikelihood | None = None

    def draws(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, xr.Dataset]:
        return joint_draws(self.factory, self.data, size, int(rng.integers(2**31)))

    def moved(
        self,
        kernel: Callable[[np.ndarray], Any],
        y: np.ndarray,
        draws: xr.Dataset,
        sweeps: int,
        rng: np.random.Generator,
    ) -> xr.Dataset:
        """Each of the draws after some transitions given its own y."""
        arrays = {str(name): v.to_numpy() for name, v in draws.items()}
        states = [
            _sweep(kernel(y[i]), {name: v[i] for name, v in arrays.items()}, sweeps, rng)
            for i in range(len(y))
        ]
        return xr.Dataset(
            {name: (draws[name].dims, np.stack([state[name] for state in states])) for name in states[0]},
            coords=draws.drop_vars(list(draws.data_vars)).coords,
        )

    def responses(self, draws: xr.Dataset, rng: np.random.Generator) -> np.ndarray:
        """A y for each of the draws, (S, N)."""
        values = {str(name): v.to_numpy()[None] for name, v in draws.items()}
        return predictive_draws(self.factory, self.prepared, values, rng)[1]

    def scalars(self, draws: xr.Dataset, y: np.ndarray) -> dict[str, np.ndarray]:
        found = scalar_quantities(draws, self.factory.unordered_dims)
        squares = {f"square of {k}": v.astype(np.float64) ** 2 for k, v in found.items()}
        result = {**found, **squares, "log likelihood": self._log_likelihoods(draws, y)}
        if "coefficients" in draws and draws["coefficients"].dims[1:] == ("feature", "task"):
            X, task = self.prepared.X, self.prepared.task
            f = np.einsum("nd,sdn->sn", X, draws["coefficients"].to_numpy()[:, :, task])
            result["y'f"] = np.einsum("sn,sn->s", y, f)
            result |= {f"y[{n}] f[{n}]": y[:, n] * f[:, n] for n in range(min(3, len(task)))}
            result |= self._of_population(draws, y)
        return result

    def _of_population(self, draws: xr.Dataset, y: np.ndarray) -> dict[str, np.ndarray]:
        """What joins coefficients, their population and y.

        A sweep that draws coefficients anew from their conditional law hides from each of them alone that it moved
        the population as if the data were others, or that coefficients are those of another population.
        """
        X, task, result = self.prepared.X, self.prepared.task, {}
        apart = draws["coefficients"].to_numpy()
        if "population_mean" in draws:
            mean = draws["population_mean"].to_numpy()
            result["y'X population_mean"] = np.einsum("sn,nd,sd->s", y, X, mean)
            apart = apart - mean[:, :, None]
        if "feature_cov" in draws:
            cov = draws["feature_cov"].to_numpy()
            result["coefficients in units of feature_cov"] = np.log(
                np.einsum("sdt,sdt->s", apart, np.linalg.solve(cov, apart))
            )
            sums = np.stack([y[:, task == t] @ X[task == t] for t in range(apart.shape[2])], axis=1)
            result["y'X feature_cov X'y"] = np.einsum("std,sde,ste->s", sums, cov, sums)
        return result

    def _log_likelihoods(self, draws: xr.Dataset, y: np.ndarray) -> np.ndarray:
        names = [str(name) for name in draws.data_vars]
        if self._log_likelihood is None:
            self._log_likelihood = PointwiseLogLikelihood(
                self.factory, self.prepared, self.placeholder, names
            )
        arrays, result = {name: draws[name].to_numpy() for name in names}, np.empty(len(y))
        for i, response in enumerate(y):
            self._log_likelihood.set_response(response)
            result[i] = self._log_likelihood({name: v[None, i : i + 1] for name, v in arrays.items()}).sum()
        return result

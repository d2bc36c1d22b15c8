r"""Simulation-based calibration (Talts et al. 2018, arXiv:1804.06788; Modrák et al. 2025, arXiv:2211.02383).

Parameters are drawn from the prior and y from its law given them. Then the parameters are one more draw from the
posterior, and among L independent draws of a right sampler their rank is uniform on 0 .. L. Many replications show
whether it is. The log likelihood, which knows y as well, has its rank too: it shows faults that the parameters by
themselves do not, such as a sampler that returns its prior (Modrák et al. 2025).
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo.core.factory import ModelFactory
from zoo.core.methods import Method
from zoo.core.predictive import joint_draws
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics.rank_bands import band_p_values
from zoo.diagnostics.replication import THIN, Quantities, Replication, require_simulated
from zoo.support.checks import whole_number
from zoo.support.runner import Job, run_jobs
from zoo.support.seeds import generator

__all__ = ["Calibration", "sbc"]


@dataclass(frozen=True)
class Calibration:
    """Ranks of the truth among posterior draws.

    Parameters
    ----------
    ranks : xarray.Dataset
        ``rank``, from 0 to the number of draws, and ``ess``, the effective sample size of these draws, with dims
        ``replication, quantity``; finished replications alone. Attribute ``draws``.
    failures : dict of int to str
        Traceback of each replication that failed.
    model, method : str
        What was calibrated.
    """

    ranks: xr.Dataset
    failures: dict[int, str]
    model: str
    method: str

    @property
    def draws(self) -> int:
        """L, posterior draws per replication."""
        return int(self.ranks.attrs["draws"])

    def summary(self, prob: float = 0.99) -> pd.DataFrame:
        """One row per quantity: p value of its ranks, whether they are uniform, median effective sample size.

        The p value is exact for ranks that are independent and uniform: see :func:`zoo.diagnostics.rank_bands`. A
        quantity is ``uniform`` where it is at least (1 - prob) over the number of quantities, so that with
        probability ``prob`` or more (Bonferroni) all of a right sampler's are. A failed replication is in no rank:
        ``failures`` has them, and the attribute ``failures`` of the table their number.
        """
        ranks = self.ranks["rank"].to_numpy()
        p = band_p_values(ranks, self.draws + 1)
        table = pd.DataFrame(
            {
                "p": p,
                "uniform": p >= (1.0 - prob) / len(p),
                "ess": np.median(self.ranks["ess"].to_numpy(), axis=0),
            },
            index=pd.Index(self.ranks["quantity"].to_numpy(), name="quantity"),
        )
        table.attrs["failures"] = len(self.failures)
        return table

    @property
    def calibrated(self) -> bool:
        """Whether no replication failed and every quantity is uniform, at 99% for all of them."""
        return not self.failures and bool(self.summary()["uniform"].all())


def sbc(
    factory: ModelFactory,
    data: MultiTaskData,
    method: str | None = None,
    replications: int = 500,
    draws: int = 99,
    tune: int = 500,
    chains: int = 1,
    thin: int | None = None,
    quantities: Quantities | None = None,
    random_seed: Any = None,
    progress: bool = True,
    n_jobs: int = 1,
    folder: str | Path | None = None,
    **options: Any,
) -> Calibration:
    """Simulation-based calibration of a factory's inference method.

    Method "gibbs" runs the factory's ``gibbs_kernel``, and "nuts" on a model of continuous variables nutpie, each made
    once and given one y after the other; anything else is ``factory.fit``.

    Parameters
    ----------
    factory : ModelFactory
        With a proper prior, not so wide that y overflows.
    data : MultiTaskData
        Features and tasks, without weights; y is simulated. Where a prior looks at y, as that of
        ``VaryingCoefficientGP`` at its mean and spread, it is the one given these y. Few rows show
        the most, and cost least.
    method : str, optional
        One that draws from the exact posterior; default: the factory's first such method.
    replications : int
    draws, tune, chains : int
        Kept draws and warm-up of each chain, number of chains.
    thin : int, optional
        Of so many draws one is kept, towards independent ones. Default: 10 for "gibbs" and "nuts", 1 for methods
        of independent draws. The result has the effective sample sizes: where they are below ``draws``, ranks tend to
        the ends though the sampler be right.
    quantities : callable, optional
        What is ranked: takes a Dataset of draws (dim ``draw``), returns a dict of (S,) arrays. Default:
        :func:`zoo.diagnostics.scalar_quantities`, entries and log determinants. The log likelihood is always there.
    random_seed : int, optional
        Needed with ``folder``.
    progress : bool
    n_jobs : int
        Processes at a time.
    folder : path, optional
        Keeps each replication as it ends: after a kill the same call goes on.
    **options
        Of the method.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        The likelihood is a pseudo-likelihood, the model has a potential, or the rows have weights, so that y
        cannot be simulated; or the method does not draw from the exact posterior. The message names another test.
    """
    whole_number(replications, "replications", 2)
    name = _exact_method(factory, data, method)
    if folder is not None and random_seed is None:
        raise ValueError("folder is given without random_seed. Give a seed, so that a later call can go on.")
    if options.get("keep") not in (None, "draws"):
        raise ValueError(f"keep is {options['keep']!r}, and ranks are of all variables. Leave it out.")
    sequence = np.random.SeedSequence(generator(random_seed).integers(2**32, size=4).tolist())
    first, second = sequence.spawn(2)
    # One prior for all replications, whatever the units of the responses that are drawn.
    data = factory.with_units(data)
    y, truth = joint_draws(factory, data, replications, int(first.generate_state(1)[0]))
    require_simulated(factory, data, y, truth)
    run = Replication(
        factory=factory,
        data=data,
        method=name,
        y=y,
        truth=truth,
        draws=whole_number(draws, "draws", 1),
        tune=whole_number(tune, "tune"),
        chains=whole_number(chains, "chains", 1),
        thin=THIN.get(name, 1) if thin is None else whole_number(thin, "thin", 1),
        seeds=second,
        options=options,
        quantities=quantities,
    )
    settings = run.settings
    jobs = [Job(f"replication-{i:05d}", run, {"number": i, **settings}) for i in range(replications)]
    place = nullcontext(folder) if folder is not None else tempfile.TemporaryDirectory()
    with place as path:
        outcome = run_jobs(jobs, path, n_jobs, title=f"{type(factory).__name__}, {name}", progress=progress)
    failures = {int(k.rsplit("-", 1)[1]): text for k, text in outcome.failures.items()}
    if not outcome.results:
        raise RuntimeError(f"all {replications} replications failed. The first: {failures[min(failures)]}")
    return Calibration(_ranks(outcome.results, run.draws * run.chains), failures, repr(factory), name)


def _ranks(results: dict[str, dict[str, Any]], draws: int) -> xr.Dataset:
    numbers = list(results.values())
    names = list(numbers[0]["rank"])
    dims = ("replication", "quantity")
    return xr.Dataset(
        {
            kind: (dims, np.array([[row[kind][q] for q in names] for row in numbers]))
            for kind in ("rank", "ess")
        },
        coords={"replication": [int(k.rsplit("-", 1)[1]) for k in results], "quantity": names},
        attrs={"draws": draws},
    )


# ---------------------------------------------------------------- what can be calibrated


def _exact_method(factory: ModelFactory, data: MultiTaskData, method: str | None) -> str:
    """The method's name, if draws from the posterior of all variables are what it promises."""
    if not factory.likelihood.proper:
        raise ValueError(
            f"the likelihood of {type(factory).__name__} is a pseudo-likelihood: y has another law than it says, and "
            "ranks would not be uniform. Test the sampler with zoo.diagnostics.sequential_test."
        )
    known: dict[str, Method] = {m.name: m for m in factory.method_table() if m.name in factory.methods}
    if method is None:
        method = next((m.name for m in known.values() if m.exact), None)
    name = factory.choose_method(method, data)
    if not known[name].exact:
        exact = ", ".join(m.name for m in known.values() if m.exact)
        raise ValueError(
            f"method {name!r} of {type(factory).__name__} computes: {known[name].computes}. That is no draw of all "
            f"variables from the posterior. Choose from: {exact}."
        )
    factory.check_method(name)
    return name


# ---------------------------------------------------------------- one replication

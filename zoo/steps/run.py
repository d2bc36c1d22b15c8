"""``zoo.sample``: draws from any PyMC model, by block Gibbs where that pays, else by NUTS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.model.core import ValueGradFunction
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from zoo.core.convergence import diagnose
from zoo.core.verdict import verdict_of_diagnosis
from zoo.steps.affine import reads
from zoo.steps.gibbs import AugmentedGibbs, augmented_step
from zoo.steps.plan import refuse_discrete
from zoo.support.checks import one_of, whole_number
from zoo.support.seeds import integer_seed
from zoo.support.warning_types import warn_of_convergence

__all__ = ["conditional_nuts", "sample"]

_METHODS = ("auto", "gibbs", "nuts")


def sample(
    model: pm.Model | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: Any = None,
    progress: bool = True,
    method: str = "auto",
    vars: Sequence[Any] | None = None,
    target_accept: float = 0.9,
) -> xr.DataTree:
    """Draw from the posterior of any PyMC model.

    Block Gibbs by :func:`zoo.augmented_step` takes the coefficients that it can prove to fit,
    beside NUTS for the other variables. That NUTS evaluates only the terms that its own variables
    enter: where they are the scales of a population, no row of the data is read for a gradient.
    Where the step is not expected to pay, the whole model goes to nutpie's NUTS.

    Parameters
    ----------
    model : pm.Model, optional
        By default that on the context stack.
    draws, tune, chains : int
        As in ``pm.sample``.
    cores : int, optional
        Chains at a time. By default Gibbs runs one after another, and nutpie as it does.
    random_seed : int, optional
    progress : bool
    method : {"auto", "gibbs", "nuts"}
        ``"auto"`` takes Gibbs where :meth:`zoo.steps.AugmentedGibbs.outlook` has nothing against
        it, and where ``vars`` are given.
    vars : sequence of variables or names, optional
        What the block shall hold, as in :func:`zoo.augmented_step`. Not for ``method="nuts"``,
        which has no block.
    target_accept : float
        Of NUTS.

    Returns
    -------
    xarray.DataTree
        As ``pm.sample`` returns it. The attributes of ``sample_stats`` say by which ``method``, and
        why.

    Raises
    ------
    ValueError
        Where ``method="gibbs"`` and no block is found, where ``vars`` cannot be proved to fit or
        ``method="nuts"`` has no use for them, and where a free variable is discrete.

    Warns
    -----
    ConvergenceWarning
        Where R-hat, effective sample sizes or divergences say that the draws do not stand for the
        posterior.
    """
    one_of(method, _METHODS, "method")
    for name, number in (("draws", draws), ("tune", tune), ("chains", chains)):
        whole_number(number, name, 1)
    model = pm.modelcontext(model)
    refuse_discrete(model)
    step, why = _choose(model, method, vars)
    options: dict[str, Any] = dict(
        draws=draws, tune=tune, chains=chains, random_seed=integer_seed(random_seed), progressbar=progress,
        quiet=not progress, compute_convergence_checks=False, model=model,
    )  # fmt: skip
    # A trajectory that diverges overflows in PyMC's sampler; the statistics count it.
    with np.errstate(over="ignore", invalid="ignore"):
        if step is None:
            tree = pm.sample(nuts_sampler="nutpie", target_accept=target_accept, cores=cores, **options)
        else:
            steps = [step, *conditional_nuts(model, step, target_accept)]
            tree = pm.sample(step=steps, cores=cores or 1, mp_ctx="forkserver", **options)
    if step is not None and "lp" in tree["sample_stats"].data_vars:
        # Of the terms alone that NUTS saw: it would be taken for that of the model.
        tree["sample_stats"] = xr.DataTree(tree["sample_stats"].to_dataset().drop_vars("lp"))
    tree["sample_stats"].attrs.update(method="nuts" if step is None else "gibbs", why=why)
    _judge(tree, "nuts" if step is None else "gibbs")
    return tree


def _choose(model: pm.Model, method: str, vars: Any) -> tuple[AugmentedGibbs | None, str]:
    """The step, or None for NUTS; and the reason."""
    if method == "nuts":
        if vars is not None:
            raise ValueError(
                "vars says what the block of Gibbs shall hold, and method='nuts' has no block. Leave vars out, or "
                "take method='gibbs'."
            )
        return None, "method='nuts'"
    try:
        step = augmented_step(model, vars)
    except ValueError as error:
        if method == "gibbs" or vars is not None:
            raise
        return None, str(error)
    if method == "gibbs":
        return step, "method='gibbs'"
    if vars is not None:  # whoever names the block wants one
        return step, "vars names the block"
    against = step.outlook().words()
    return (None, against) if against else (step, "the Gibbs step is expected to draw more in the same time")


def conditional_nuts(model: pm.Model, step: AugmentedGibbs, target_accept: float) -> list[Any]:
    """PyMC's NUTS for what ``step`` leaves, which evaluates the terms alone that these variables
    enter.

    Given the block the other terms are constants, so that the law is the same.

    Returns
    -------
    list
        Of one step method, or empty where nothing is left.
    """
    block = {model.values_to_rvs[value] for value in step.vars}
    rest = [rv for rv in model.free_RVs if rv not in block]
    if not rest:
        return []
    others = set(model.basic_RVs)

    def enters(term: Any) -> bool:
        inputs = term.owner.inputs if term in others and term.owner is not None else [term]
        return term in rest or bool(reads(list(inputs), others) & set(rest))

    terms = [term for term in (*model.basic_RVs, *model.potentials) if enters(term)]
    density = model.logp(vars=terms)
    values = [model.rvs_to_values[rv] for rv in rest]
    start = model.initial_point(0)
    inputs = {v for v in graph_inputs([density]) if not isinstance(v, Constant)}
    known = {v: start[v.name] for v in model.value_vars if v in inputs and v not in values}
    function = ValueGradFunction(
        [density], values, known, model=model, initial_point=start, ravel_inputs=True
    )
    function.set_extra_values(start)
    function.trust_input = True
    nuts = pm.NUTS(
        vars=values, model=model, logp_dlogp_func=function, initial_point=start, target_accept=target_accept
    )
    return [nuts]


def _judge(tree: xr.DataTree, method: str) -> None:
    """Warn where the draws do not stand for the posterior."""
    stats = tree["sample_stats"]
    diverged = int(stats["diverging"].sum()) if "diverging" in stats.data_vars else 0
    verdict = verdict_of_diagnosis(diagnose(tree["posterior"].to_dataset()), diverged)
    if verdict.converged:
        return
    parts = [f"zoo.sample by {method!r}: {verdict.summary()}."]
    if verdict.out_of_bounds:
        parts.append(
            f"{verdict.out_of_bounds:,} of {verdict.entries:,} entries of the posterior miss the limits of R-hat "
            "and effective sample size. Take more draws, or the other method."
        )
    if diverged:
        parts.append(
            f"{diverged:,} transitions diverged: raise target_accept, or write the model without centring."
        )
    warn_of_convergence(" ".join(parts))

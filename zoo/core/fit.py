"""What ``factory.fit`` returns: the posterior, its predictions, and its file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from zoo.core.completeness import shortfall
from zoo.core.context import Context
from zoo.core.convergence import Diagnosis, diagnose, diagnostics_table
from zoo.core.groups import add_log_likelihood, extend
from zoo.core.methods import MissingCapabilityError
from zoo.core.prediction_rows import read_prediction
from zoo.core.predictions import Predictions
from zoo.core.prior_sensitivity import PriorSensitivity
from zoo.core.pymc_models import model_of_fit, to_pymc
from zoo.core.storage import save
from zoo.core.units import InDataUnits
from zoo.core.verdict import short_verdict
from zoo.data.multitask import MultiTaskData
from zoo.support.words import counted

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm

__all__ = ["Fit"]

# What fits of some models can do: which models, and what to do with the others.
CAPABILITIES = {
    "condition": (
        "HierarchicalLinear, NIWLinear, NIWGaussianProcess and MultiLaplaceGP",
        "Others need a new fit of all tasks; or predict the new one with new_task=True.",
    ),
    "add_rows": ("MultiTaskKernelMachine", "Others need a new fit of all rows."),
    "add_task": ("MultiTaskKernelMachine", "Others need a new fit of all tasks."),
    "relevance": ("MultiLaplaceGP", "Others select no features."),
    "select_features": ("MultiLaplaceGP", "Others select no features."),
    "learned_kernel": ("HierarchicalLinear, NIWLinear and NIWGaussianProcess", "Others learn no kernel."),
    "learned_kernel_draws": (
        "HierarchicalLinear, NIWLinear and NIWGaussianProcess",
        "Others learn no kernel.",
    ),
    "coefficients": (
        "VaryingCoefficientGP, NonisotropicVaryingCoefficients, PooledGP and KernelLocalSmoothing",
        "Coefficients of others are in fit.posterior.",
    ),
}


@dataclass(frozen=True, eq=False)
class Fit(Predictions, InDataUnits, PriorSensitivity):
    """A fitted model.

    Parameters
    ----------
    factory : ModelFactory
        The description that was fitted.
    data : MultiTaskData
        The training data.
    idata : xarray.DataTree
        Groups ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data``; ArviZ reads it.
    method : str
        The inference method that made the draws.
    conditioned : tuple of str
        Tasks that :meth:`condition` added: the population was learned without them.
    """

    factory: Any
    data: MultiTaskData
    idata: xr.DataTree
    method: str
    conditioned: tuple[str, ...] = ()

    @property
    def population_data(self) -> MultiTaskData:
        """The data that the population was learned from, without the tasks of :meth:`condition`."""
        if not self.conditioned:
            return self.data
        return self.data.first_tasks(self.data.n_tasks - len(self.conditioned))

    @cached_property
    def context(self) -> Context:
        """What rows to predict are seen from, the data that were fitted, with those whose responses are known."""
        return Context(self.population_data, self.data)

    @property
    def keep(self) -> str:
        """What was kept of the draws, all ("draws") or less than those of the tasks ("moments", "population")."""
        return str(self.idata["posterior"].attrs.get("keep", "draws"))

    @property
    def is_point(self) -> bool:
        """Whether the method gives one estimate, and no draws from a posterior."""
        method = self.factory.method_named(self.method)
        return method is not None and method.point

    @property
    def posterior(self) -> xr.Dataset:
        """The posterior group as a Dataset."""
        return self.idata["posterior"].to_dataset()

    @property
    def model(self) -> pm.Model:
        """The PyMC model of the fitted rows, whose free variables are those of the posterior.

        So ``pm.sample_posterior_predictive(fit.idata, model=fit.model)``, ``pm.compute_log_likelihood`` and
        ``pm.compute_log_prior`` read the fit, whatever the method that made it. Responses are on the model's scale,
        as in ``fit.idata``: standardized where the data are. Rows are changed by ``pm.set_data`` where the model
        follows them, which is refused where it does not; :meth:`to_pymc` makes a model at any rows.

        A new model at every call, so that what one user sets does not reach another.

        Raises
        ------
        ValueError
            The fit is one estimate (methods "em" and "map"): use :meth:`to_pymc`.
        """
        return model_of_fit(self)

    def to_pymc(
        self,
        X: Any = None,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        random_seed: Any = None,
    ) -> tuple[pm.Model, xr.DataTree]:
        """A PyMC model at given rows, and the draws for it.

        ``pm.sample_posterior_predictive(idata, model=model)`` then draws what :meth:`predict_draws` draws, on the
        model's scale.

        Parameters
        ----------
        X, task, t, new_task
            Rows, as in :meth:`predict`. Left out: those of the fit.
        random_seed : int, optional
            For draws that stand for an estimate, or for new tasks.

        Returns
        -------
        model : pymc.Model
        idata : xarray.DataTree
            Its ``posterior`` holds what predictions need: the posterior, draws given an estimate where the method
            gives one, and innovations of functions at new inputs.
        """
        return to_pymc(self, X, task, t, new_task, random_seed)

    def __repr__(self) -> str:
        sizes = self.idata["posterior"].sizes
        own = ", ".join(f"{name} ~ {law!r}" for name, law in self.factory.own_priors)
        said = [
            f"Fit({self.factory!r}{f' with {own}' if own else ''}, method={self.method!r}",
            f"{counted(sizes['chain'], 'chain')} x {counted(sizes['draw'], 'draw')}",
            counted(self.data.n_tasks, "task"),
            "" if self.keep == "draws" else f"keep={self.keep!r}",
            shortfall(self.idata),
            short_verdict(self),
        ]
        return f"{', '.join(part for part in said if part)})"

    # ---------------------------------------------------------------- convergence

    def diagnostics(self, var_names: str | Sequence[str] | None = None) -> pd.DataFrame:
        """R-hat and effective sample sizes of every entry of the posterior, the worst first.

        Entries that are the same at all draws are left out, and so is one half of each symmetric
        matrix. Of a variable whose columns have no order, as Z of
        :class:`zoo.NonparametricMaxMargin`, the entries of ``Z Z'`` are shown.

        Parameters
        ----------
        var_names : str or sequence of str, optional
            Variables to show; default: all.

        Returns
        -------
        pandas.DataFrame
            Indexed by ``variable[coordinates]``: ``r_hat`` (NaN with one chain), ``ess_bulk`` and
            ``ess_tail``, all after Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian
            Analysis 16(2).

        Raises
        ------
        ValueError
            The fit is one estimate, or has fewer than four draws per chain; or a name is unknown.
        """
        return diagnostics_table(self, var_names)

    def rows_to_predict(
        self, X: Any, task: Any, t: Any, new_task: bool, random_seed: Any
    ) -> tuple[MultiTaskData, Mapping[str, np.ndarray], np.random.Generator]:
        """Rows as the model sees them, the draws that predict them, and the generator to go on with."""
        return read_prediction(self, X, task, t, new_task, random_seed)

    @cached_property
    def uses_t(self) -> bool:
        """Whether predictions use the continuous task variable that the data have."""
        return bool(self.factory.uses_t(self))

    @cached_property
    def state(self) -> Any:
        """What predictions need and the posterior does not hold. The engine or ``factory.restore`` makes it once."""
        return self.factory.restore(self)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """R-hat and effective sample sizes of all entries, without the draws, which a copy would take along twice."""
        return diagnose(self.posterior, self.factory.unordered_dims)._replace(groups=())

    def hand_over(self, **made: Any) -> None:
        """Take a ``state`` or a ``diagnosis`` that was made already, instead of making it again."""
        vars(self).update(made)

    # What a model's fits can do beside this is in `core.capabilities`; here is what is said where they cannot.
    def __getattr__(self, name: str) -> Any:
        if name not in CAPABILITIES:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        able, instead = CAPABILITIES[name]
        if name == "condition" and hasattr(self, "add_task"):
            instead = "Use fit.add_task(task_data), in which the new rows count for the old tasks too."
        raise MissingCapabilityError(
            f"{type(self.factory).__name__} fits have no `{name}`. Models that have it: {able}. {instead}"
        )

    def compute_log_likelihood(self) -> xr.DataTree:
        """Add ``log_likelihood`` with ``y`` (chain, draw, obs) to ``idata``, for ``arviz.loo`` and ``arviz.compare``.

        It works for every inference method, from the posterior's variables. Log densities are on the model's scale: of
        standardized responses where the data were standardized. That of a row of weight h is h times the log density
        of its response: the row is h rows alike, and leave-one-out leaves all of them out. For a pseudo-likelihood
        they are pseudo-log-likelihoods (:class:`zoo.distributions.HingePseudoLikelihood`): use
        :func:`zoo.diagnostics.loo` on them. Of choices there is one log density for each, in the row that was chosen.
        """
        self.data.require_single_rows("the log likelihood")
        return add_log_likelihood(self)

    def extend(self, *groups: str, draws: int = 500, random_seed: Any = None) -> xr.DataTree:
        """Add groups to ``idata`` that ArviZ's functions read.

        Parameters
        ----------
        *groups : str
            "log_likelihood" (for ``arviz.loo``), "log_prior" (with it, for ``arviz.psense``), "posterior_predictive"
            (for ``arviz.plot_ppc_dist``), "prior" and "prior_predictive" (for ``arviz.plot_prior_posterior``).
        draws : int
            How many draws from the prior.
        random_seed : int, optional

        Returns
        -------
        xarray.DataTree
            ``idata``. Responses are on the model's scale, as in ``observed_data``.

        Raises
        ------
        ValueError
            A group is unknown.
        NotImplementedError
            The model does not say the prior density of a variable.
        """
        for group in groups:
            if group in ("log_likelihood", "posterior_predictive", "prior_predictive"):
                self.data.require_single_rows(f"extend({group!r})")
        return extend(self, groups, draws, random_seed)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Write the fit to a NetCDF file: posterior, data and description, under a temporary name first.

        Parameters
        ----------
        path : path
        overwrite : bool
            Whether a file that stands there may be replaced.

        Raises
        ------
        FileExistsError
            There is such a file, and ``overwrite`` is False.
        OSError
            The file cannot be written.
        """
        return save(self, path, overwrite)

    def report(
        self, out: str | os.PathLike[str], test: MultiTaskData | None = None, random_seed: Any = 0
    ) -> list[str]:
        """Write ``report.html``, one page that can be sent to somebody, into a folder, with its tables and pictures.

        Parameters
        ----------
        out : path
            Folder. Files of the same names are replaced, others stay; the names of all that is written come back.
        test : MultiTaskData, optional
            Held-out rows, on which the fit is compared with a regression of each task and one of all tasks. Fits of
            counts and of grades have no such yardsticks: they are scored alone.
        random_seed : int, optional
            For these, and for predictive draws.
        """
        # Reports stand above fits and use their pictures: found when one is asked for.
        return import_module("zoo.report").write_report(self, out, test, random_seed=random_seed)

"""What ``factory.fit`` returns: the posterior, its predictions, and its file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from zoo.breakdown import breakdown_explained, require_finite
from zoo.checks import probability
from zoo.completeness import shortfall
from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.new_rows import features_by_name, read_rows
from zoo.predictive_law import summaries
from zoo.seeds import generator
from zoo.storage import save

if TYPE_CHECKING:
    import pandas as pd
    import pymc as pm

    from zoo.factory import ModelFactory

__all__ = ["Fit"]


@dataclass(frozen=True, eq=False)
class Fit:
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
    cache : dict
        What a factory makes of the fit once, for predictions; no part of the file.
    """

    factory: ModelFactory
    data: MultiTaskData
    idata: xr.DataTree
    method: str
    conditioned: tuple[str, ...] = ()
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def population_data(self) -> MultiTaskData:
        """The data that the population was learned from: without the tasks of :meth:`condition`."""
        if not self.conditioned:
            return self.data
        data, n_tasks = self.data, self.data.n_tasks - len(self.conditioned)
        old = data.task < n_tasks
        # Rows of new tasks came last, each with an input of its own; inputs without rows stay.
        return replace(
            data,
            inputs=data.inputs[: data.inputs.shape[0] - int(np.sum(~old))],
            row=data.row[old],
            y=data.y[old],
            task=data.task[old],
            task_names=data.task_names[:n_tasks],
            t=None if data.t is None else data.t[old],
            weight=None if data.weight is None else data.weight[old],
        )

    @property
    def is_point(self) -> bool:
        """Whether the method gives one estimate, and no draws from a posterior."""
        return any(method.point for method in self.factory._methods() if method.name == self.method)

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
        from zoo.fit_model import model_of_fit

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
        from zoo.fit_model import to_pymc

        return to_pymc(self, X, task, t, new_task, random_seed)

    def __repr__(self) -> str:
        from zoo.diagnostics.verdict import short_verdict

        sizes = self.idata["posterior"].sizes
        said = [
            f"Fit({self.factory!r}, method={self.method!r}, {sizes['chain']} chains x {sizes['draw']} draws",
            f"{self.data.n_tasks} tasks",
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
        from zoo.diagnostics.convergence import diagnostics_table

        return diagnostics_table(self, var_names)

    # ---------------------------------------------------------------- prediction

    def predict(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        ci_prob: float = 0.9,
        random_seed: Any = None,
    ) -> xr.Dataset:
        """Posterior predictive summaries of new rows, on the scale of the data that the user handed in.

        Parameters
        ----------
        X : (n, D) array_like, table or MultiTaskData
            Features on the scale before ``standardize``. A table (of pandas, polars, Arrow or another library that
            narwhals knows, of xarray, a structured array, a dict of columns) is read by column names, an array by the
            order of its columns; MultiTaskData brings its tasks, and its scale is known (so pass ``train``, never
            ``train.X``, where it is standardized).
        task : str, int or sequence, optional
            Task of the rows: one for all, or one a row. Strings are task names; whole numbers are positions in
            ``fit.data.task_names``, but labels in a column of a table. Left out: the column of a table ``X`` with the
            name that the tasks of the data came from (``fit.data.task_column``); else the data must have one task,
            or the rows are of one new task.
        t : (n, P) array_like or table, optional
            Continuous task variable of the rows; a table is read by column names. Left out: the columns of a
            table ``X`` that have these names. A model that does not use it needs none.
        new_task : bool
            Predict tasks that were not in the data, from the population; names not yet known are new tasks.
        ci_prob : float
            Probability of the central interval.
        random_seed : int, optional
            For the predictive draws behind ``sd`` and the interval.

        Returns
        -------
        xarray.Dataset
            Dim ``obs``. Real responses: ``mean``, ``sd``, ``lower``, ``upper`` of y, noise included.
            Labels: the same of the decision value f, ``probability`` of the positive class, and ``label``, the
            class by the sign of the posterior mean of f, coded as in the data.

        Raises
        ------
        TypeError
            A table is lazy.
        ValueError
            Names the argument and the row, task or column at fault; or the rows of two arguments have different
            labels (an index of pandas, a coordinate of xarray).
        """
        probability(ci_prob, "ci_prob")
        with breakdown_explained("the prediction", self.data):
            rows, posterior, rng = self._prepare(X, task, t, new_task, random_seed)
            result = summaries(self, rows, posterior, rng, new_task, ci_prob)
            require_finite(result)
        of_row = np.asarray(rows.task_names, dtype=object)[rows.task]
        dataset = xr.Dataset(
            {name: ("obs", values) for name, values in result.items()},
            coords={"obs": np.arange(rows.n_rows), "task": ("obs", of_row)},
        )
        dataset.attrs["ci_prob"] = ci_prob
        return dataset

    def predict_draws(
        self,
        X: Any,
        task: Any = None,
        t: Any = None,
        new_task: bool = False,
        random_seed: Any = None,
    ) -> xr.Dataset:
        """Predictive draws behind :meth:`predict`: ``f`` and ``y``, dims ``chain, draw, obs``."""
        with breakdown_explained("the prediction", self.data):
            rows, posterior, rng = self._prepare(X, task, t, new_task, random_seed)
            f, y = self._draws(rows, posterior, rng)
            require_finite({"f": f, "y": y})
        if self.factory.likelihood.labels:
            y = self._user_labels(y)
        chains, draws = next(iter(posterior.values())).shape[:2]
        shape = (chains, draws, rows.n_rows)
        return xr.Dataset(
            {
                "f": (("chain", "draw", "obs"), f.reshape(shape)),
                "y": (("chain", "draw", "obs"), y.reshape(shape)),
            }
        )

    def _prepare(
        self, X: Any, task: Any, t: Any, new_task: bool, random_seed: Any
    ) -> tuple[MultiTaskData, dict[str, np.ndarray], np.random.Generator]:
        rng = generator(random_seed)
        labels, features, t_values = read_rows(X, task, t, self.data, new_task, self._does_without_t)
        draws = self.factory.predictive_posterior(self, rng)
        posterior = {str(name): values.to_numpy() for name, values in draws.items()}
        known = self.data.task_names
        unknown = sorted(set(labels) - set(known))
        if unknown and not new_task:
            raise ValueError(
                f"task {unknown[0]!r} is not among the {len(known)} tasks of the data. "
                "Check its name, or pass new_task=True to predict it from the population."
            )
        if new_task:
            overlap = sorted(set(labels) & set(known))
            if overlap:
                raise ValueError(
                    f"task {overlap[0]!r} is in the data, but new_task=True asks for new tasks. "
                    "Predict known and new tasks in two calls."
                )
            known = tuple(unknown)
            posterior = self.factory.new_task(draws, list(known), rng)
        position = {name: i for i, name in enumerate(known)}
        n_rows = features.shape[0]
        rows = MultiTaskData(
            inputs=features if self.data.transform is None else self.data.transform.apply_x(features),
            row=np.arange(n_rows),
            y=np.ones(n_rows),
            task=np.array([position[label] for label in labels], dtype=np.int64),
            task_names=known,
            feature_names=self.data.feature_names,
            t=t_values,
            t_names=None if t_values is None else self.data.t_names,
        )
        rows.require_workable_scale(fitted=False)
        return self.factory.prepare(rows, self.population_data, self.data), posterior, rng

    def _does_without_t(self) -> bool:
        """Whether predictions do without the t that the data have."""
        if "uses_t" not in self.cache:
            self.cache["uses_t"] = self.factory.uses_t(self)
        return not self.cache["uses_t"]

    def _draws(
        self,
        rows: MultiTaskData,
        posterior: dict[str, np.ndarray],
        rng: np.random.Generator,
        restore: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws (S, n) of f and y on the user's scale (labels stay -1/+1), or on the model's."""
        from zoo.predictive import predictive_draws

        f, y = predictive_draws(self.factory, rows, posterior, rng)
        if restore and self.data.transform is not None and not self.factory.likelihood.labels:
            f, y = self.data.transform.restore_y(f), self.data.transform.restore_y(y)
        return f, y

    def _draws_at(
        self,
        moments: tuple[np.ndarray, np.ndarray],
        posterior: dict[str, np.ndarray],
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same where f is normal with these moments at each row, and the likelihood's parameters are one point."""
        from zoo.predictive import responses_given

        chains, draws = next(iter(posterior.values())).shape[:2]
        f = moments[0] + moments[1] * rng.standard_normal((chains * draws, len(moments[0])))
        likelihood = self.factory.likelihood
        y = responses_given(likelihood, f, {name: posterior[name][0, 0] for name in likelihood.learned}, rng)
        if self.data.transform is not None and not likelihood.labels:
            f, y = self.data.transform.restore_y(f), self.data.transform.restore_y(y)
        return f, y

    def _class_probability(
        self, rows: MultiTaskData, posterior: dict[str, np.ndarray], f: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Probability of the positive class at each draw and row, (S, n)."""
        if self._likelihood_overridden():
            return y == 1.0
        return self.factory.likelihood.probability(f, **self._parameters(rows, posterior, len(f)))

    def _mean(
        self, rows: MultiTaskData, posterior: dict[str, np.ndarray], f: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Mean of a real response at each row, (n,), from draws (S, n) on the user's scale."""
        if self._likelihood_overridden():
            return y.mean(axis=0)
        likelihood = self.factory.likelihood
        # Where y has mean f, nothing else is looked at. Otherwise y is on its own scale, as counts are.
        if type(likelihood).mean is Likelihood.mean:
            return f.mean(axis=0)
        return likelihood.mean(f, **self._parameters(rows, posterior, len(f))).mean(axis=0)

    def _parameters(
        self, rows: MultiTaskData, posterior: dict[str, np.ndarray], n_draws: int
    ) -> dict[str, np.ndarray]:
        """Draws of the likelihood's parameters, (S, n), or (S, 1) where all rows have the same."""
        parameters = {}
        for name in self.factory.likelihood.learned:
            if name in posterior:  # a field of the model that is a number does not stand there
                draws = posterior[name].reshape(n_draws, -1)
                parameters[name] = draws if draws.shape[1] == 1 else draws[:, rows.task]
        return parameters

    def _likelihood_overridden(self) -> bool:
        # A user's own likelihood term need not have mean f, or the class probability of `likelihood`.
        return not getattr(type(self.factory).observe, "matches_likelihood", False)

    def _user_labels(self, sign: np.ndarray) -> np.ndarray:
        from zoo.likelihoods.coding import label_values

        negative, positive = label_values(self.data.y)
        return np.where(sign > 0.0, positive, negative)

    def compute_log_likelihood(self) -> xr.DataTree:
        """Add the group ``log_likelihood`` to ``idata``, for ``arviz.loo`` and ``arviz.compare``.

        What ``pm.compute_log_likelihood`` does for a model sampled by PyMC; here it works for every
        inference method, from the posterior's variables. Log densities are on the model's scale: of
        standardized responses where the data were standardized. That of a row of weight h is h
        times the log density of its response, as in the model: the row is h rows alike, and leave-
        one-out leaves all of them out. For a pseudo-likelihood they are pseudo-log-likelihoods, see
        :class:`zoo.distributions.HingePseudoLikelihood`, and use :func:`zoo.diagnostics.loo` on
        them.

        Returns
        -------
        xarray.DataTree
            ``idata``, with ``log_likelihood`` holding ``y`` (dims ``chain, draw, obs``).
        """
        posterior = {str(name): values.to_numpy() for name, values in self.posterior.items()}
        y = self.factory.validate(self.data)
        train = self.population_data if self.conditioned else None
        try:
            values = self.factory.pointwise_log_likelihood(
                self.factory.prepare(self.data, train), y, posterior
            )
        except ValueError as error:
            if self.conditioned and "'residual'" in str(error):
                raise ValueError(
                    f"task {self.conditioned[0]!r} came by `condition` with inputs that the fit has not, so its rows "
                    "have no log likelihood given the posterior. Fit all tasks together."
                ) from None
            raise
        sizes = self.posterior.sizes
        coords = {
            "chain": self.posterior["chain"],
            "draw": self.posterior["draw"],
            "obs": np.arange(self.data.n_rows),
        }
        variable = (("chain", "draw", "obs"), values.reshape(sizes["chain"], sizes["draw"], -1))
        self.idata["log_likelihood"] = xr.Dataset({"y": variable}, coords=coords)
        return self.idata

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
        from zoo.groups import extend

        return extend(self, groups, draws, random_seed)

    def coefficients(
        self, t: Any = None, task: Any = None, ci_prob: float = 0.9, random_seed: Any = None
    ) -> xr.Dataset:
        """Coefficients that vary over t, or over tasks, on the user's scale.

        Of :class:`zoo.VaryingCoefficientGP` and its relatives, and of :class:`zoo.KernelLocalSmoothing`.

        Parameters
        ----------
        t : (n, P) array_like or DataFrame, optional
            Places, times: a grid of :func:`zoo.plots.grid`, say. Left out: the distinct ones of the data.
        task : str or sequence of str, optional
            Tasks, where coefficients vary over them: one for all places, or one a place. Left out, where the data have
            no t: all.
        ci_prob : float
            Probability of the central interval.
        random_seed : int, optional
            For fits whose hyper-parameters are draws.

        Returns
        -------
        xarray.Dataset
            ``mean``, ``sd``, ``lower``, ``upper`` (feature, place): what y, or the latent function of another response
            than a real one, gains by one unit of the feature; of "intercept" its value for average features. Along
            ``place`` the columns of t by their names, and ``task``.
        """
        return self.factory.coefficients(self, t, task, ci_prob, random_seed)

    # ---------------------------------------------------------------- new tasks, learned kernel

    def condition(self, task_data: MultiTaskData, random_seed: Any = None) -> Fit:
        """The fit with new tasks of which a few labels are known, without fitting the population again.

        Parameters
        ----------
        task_data : MultiTaskData
            Rows of tasks that are not in the data, with the same features, on the user's scale (or standardized by
            their own ``standardize``, which is undone).
        random_seed : int, optional

        Returns
        -------
        Fit
            Its tasks are the old and the new ones; each draw of a new task's coefficients is from their posterior
            given that draw of the population. The new rows do not change the population.

        Raises
        ------
        UnsupportedMethodError
            The model, or its likelihood, has no such update: fit all tasks together.
        ValueError
            A task is in the data already, or the features differ.
        """
        return self.factory.condition(self, task_data, random_seed)

    def add_rows(self, rows: MultiTaskData, random_seed: Any = None) -> Fit:
        """The fit with more rows of its tasks, without fitting the others again.

        Parameters
        ----------
        rows : MultiTaskData
            On the user's scale (or standardized by their own ``standardize``, which is undone).
        random_seed : int, optional

        Returns
        -------
        Fit
            What a fit to all rows would be, with the hyper-parameters of this one.

        Raises
        ------
        UnsupportedMethodError
            The model or the method has no such update: fit all rows together.
        ValueError
            A task is not in the fit, or the features differ.
        """
        return self.factory.add_rows(self, rows, random_seed)

    def add_task(self, task_data: MultiTaskData, kernel: Any = None, random_seed: Any = None) -> Fit:
        """The fit with new tasks and their rows, without fitting the others again.

        Unlike :meth:`condition`, the new rows count for the old tasks too.

        Parameters
        ----------
        task_data : MultiTaskData
            Rows of tasks that are not in the data, as for :meth:`condition`.
        kernel : pm.gp.cov.Covariance, optional
            The kernel of all tasks, where one for the old tasks was handed to the factory.
        random_seed : int, optional

        Returns
        -------
        Fit
            What a fit to all rows would be, with the hyper-parameters of this one.
        """
        return self.factory.add_task(self, task_data, kernel, random_seed)

    def relevance(self, threshold: float = 0.01, ci_prob: float = 0.9) -> xr.Dataset:
        r"""How much each feature matters, over all tasks, for models with ARD parameters.

        Parameters
        ----------
        threshold : float
            Share of the sum of relevances above which a draw includes a feature.
        ci_prob : float
            Probability of the central interval.

        Returns
        -------
        xarray.Dataset
            Dim ``feature`` (constant features left out): ``relevance``, the norm over tasks of the feature's ARD
            parameters, of features on the scale of the model's kernel (standardized by default), with ``lower`` and
            ``upper``; ``share`` of the sum over features; ``inclusion``, the posterior probability that the share
            exceeds ``threshold`` (of a mode: whether the norm is above 0), and ``selected``, whether that is above
            one half. ``kappa`` (feature, task) on the user's scale, so that :math:`1/\sqrt{\kappa}` is a lengthscale
            in the units of the feature; ``kappa_standardized`` on the kernel's.
        """
        return self.factory.relevance(self, threshold, ci_prob)

    def learned_kernel(self, combine: bool = True) -> Any:
        """The covariance function of tasks that the fit learned, a :class:`zoo.kernels.LearnedKernel`.

        Its inputs are on the model's scale: standardized where the data were.

        Parameters
        ----------
        combine : bool
            Add the base kernel where the data are silent (yu2005 eq 19); without it eq (18).
        """
        return self.factory.learned_kernel(self, combine)

    def learned_kernel_draws(self, X: Any, combine: bool = True) -> xr.DataArray:
        """Posterior draws of the learned covariance function between inputs, whose mean is :meth:`learned_kernel`.

        Parameters
        ----------
        X : (m, D) array_like, table or sparse matrix
            Inputs on the model's scale; a table is read by column names.
        combine : bool
            As in :meth:`learned_kernel`. Of a full-Bayes fit it adds, for each draw, the expectation of what the
            inputs of the fit leave open of the base kernel.

        Returns
        -------
        xarray.DataArray
            Dims ``chain, draw, point, point_bis``.
        """
        return self.factory.learned_kernel_draws(self, features_by_name(X, self.data), combine)

    # ---------------------------------------------------------------- files

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

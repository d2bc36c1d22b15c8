"""What fits of some models can do beside predicting: classes of fits, which a factory names in ``fit_class``."""

from __future__ import annotations

from typing import Any

import xarray as xr

from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.data.new_rows import features_by_name

__all__ = ["AddRows", "CoefficientSurface", "Condition", "LearnedKernel", "Relevance"]


class Condition(Fit):
    """Fits that take up a new task by its rows, the population being as it was learned."""

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


class AddRows(Fit):
    """Fits in closed form, which take up more rows and tasks."""

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


class Relevance(Fit):
    """Fits of models with a parameter of relevance for each feature."""

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
            exceeds ``threshold`` (of a mode: whether the norm is above 0), and ``included``, whether that is above
            one half. A mode includes most features that do not matter: :meth:`select_features` has a rule with a
            known rate of errors. ``kappa`` (feature, task) on the user's scale, so that :math:`1/\sqrt{\kappa}` is a
            lengthscale in the units of the feature; ``kappa_standardized`` on the kernel's.
        """
        return self.factory.relevance(self, threshold, ci_prob)

    def select_features(
        self,
        fdr: float = 0.1,
        copies: int | None = None,
        random_seed: Any = None,
        progress: bool = False,
    ) -> xr.Dataset:
        r"""Features that matter, of which a share of ``fdr`` is false in the mean over data (false discovery rate).

        A feature matters if the response depends on it given the other features. It is compared with copies that go
        with the other features and the tasks as it does, and have nothing to do with the response: how much would the
        evidence gain by each, in a model without the feature? The p-value is the share of copies that promise as much.
        It holds whatever the model and its penalty are, as long as a linear regression on the other features and a
        level of each task describe the feature, with rests alike in all rows. The selection is by the rule of
        Benjamini & Hochberg.

        Parameters
        ----------
        fdr : float
            The share of false features among those that are selected, in the mean.
        copies : int, optional
            Of each feature. Default: 199, or more with many features, so that a single one can be selected.
        random_seed : int, optional
        progress : bool
            Show a bar: the mode is found anew without each feature that is in.

        Returns
        -------
        xarray.Dataset
            Dim ``feature`` (constant features left out): ``statistic``, in standard deviations over the copies;
            ``p_value``; ``q_value``, the smallest ``fdr`` at which the feature is selected; ``selected``.

        Raises
        ------
        UnsupportedMethodError
            The fit is no mode, or a subclass overrides a hook that the test was derived for.
        ValueError
            There are fewer than three rows per feature, or ``fdr`` is no probability.

        References
        ----------
        Candès, E., Fan, Y., Janson, L. and Lv, J. (2018). Panning for gold: 'model-X' knockoffs for high dimensional
        controlled variable selection. JRSS B 80:551-577. The tests are its conditional randomisation tests.
        """
        return self.factory.select_features(self, fdr, copies, random_seed, progress)


class LearnedKernel(Fit):
    """Fits of populations of functions, whose covariance is a kernel."""

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


class CoefficientSurface(Fit):
    """Fits of models with coefficients that vary over t, or over tasks."""

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
            Tasks, where coefficients vary over them: one for all places, or one per place. Left out, where the data
            have no t: all.
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

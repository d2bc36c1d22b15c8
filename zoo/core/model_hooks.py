"""The hooks of a factory, and what they are where nobody overrides them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.traversal import ancestors

from zoo.core.context import Context
from zoo.core.drawn import as_arrays
from zoo.core.factory_model import FactoryModel
from zoo.core.fit import Fit
from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, UnsupportedMethodError
from zoo.core.missing_features import require_in_graph
from zoo.core.own_priors import OwnPriors
from zoo.core.predictive import depends_on, pointwise_log_likelihood
from zoo.data.multitask import MultiTaskData
from zoo.data.standardizing import units_of
from zoo.data.units import Units
from zoo.inference.compiled import ensure_compile_folder
from zoo.likelihoods.gaussian import Gaussian
from zoo.support.other_words import refuse_other_fields

__all__ = ["ModelHooks"]


@dataclass(frozen=True, kw_only=True)
class ModelHooks(OwnPriors):
    """Hooks and properties that a model may set; :class:`zoo.ModelFactory` says what they are for."""

    def __new__(cls, *_: Any, **fields: Any) -> Self:
        """Refuse fields that the class has not, and name those that it has."""
        refuse_other_fields(cls, fields)
        return super().__new__(cls)

    fit_class: ClassVar[type[Fit]] = Fit
    """What :meth:`fit` returns, a :class:`zoo.Fit` with those of :mod:`zoo.core.capabilities` that the model serves."""

    paper: ClassVar[str] = ""
    """Key of the paper the model comes from."""

    constraints: ClassVar[dict[str, str]] = {}
    """Constraint of each derived variable, for the requirements table."""

    extra_dims: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Dims of what a method reports beside the variables of the model."""

    representations: ClassVar[tuple[str, ...]] = ()
    """Variables that hold the functions; a posterior has one of them, by the prior that the method takes."""

    estimated_once: ClassVar[tuple[str, ...]] = ()
    """Variables that methods which are given estimates hold once, whatever the number of draws."""

    unordered_dims: ClassVar[tuple[str, ...]] = ()
    """Dims whose order means nothing, as of the columns of a binary matrix."""

    sparse_inputs: ClassVar[bool] = False
    """Whether the features may be a sparse matrix."""

    shares_tasks: ClassVar[bool] = False
    """Whether it is a model of what tasks have in common. Then ``fit`` refuses data whose task was left out."""

    advice_for_tasks: ClassVar[str] = ""
    """A sentence that says what to do with several tasks, of a model that makes nothing of them; ``fit`` then refuses
    data whose task column was named, and puts its name in the place of ``{column}``. Empty where a model uses tasks, or
    pools them on purpose."""

    for_many_tasks: ClassVar[str] = ""
    """A sentence that says what to use where there are more tasks than its draws have room for."""

    needs_t: ClassVar[bool] = False
    """Whether the data must have a continuous task variable."""

    needs_features: ClassVar[bool] = True
    """Whether the data must have features; not so where a constant one of the model's own serves."""

    jitter: ClassVar[float] = 0.0
    """What is added to the diagonal of covariance matrices that need a factor, as a share of their mean variance; or
    the share of the largest below which eigenvalues count as zero. Each fit says it, in ``posterior.attrs``."""

    allows_empty_tasks: ClassVar[bool] = False
    """Whether a task may be without rows. It is then warned of, and predicted from the population."""

    integrates_functions: ClassVar[bool] = False
    """Whether the model of the fitted rows has its functions integrated out. Then y is no draw around f there."""

    closed_leave_one_out: ClassVar[tuple[str, ...]] = ()
    """Methods by which ``conditional_moments`` at the rows of the fit are those of the posterior given the noise and
    the other hyper-parameters as numbers: leave-one-out densities then have a closed form."""

    prior_order: ClassVar[tuple[str, ...]] = ()
    """Variables whose density :meth:`prior_density` says, each behind those that it depends on."""

    serves_gaps: ClassVar[bool] = True
    """Whether features may be missing. They may not where the model makes numbers of them before anything is drawn."""

    serves_shared: ClassVar[bool] = False
    """Whether data may name features whose coefficient all tasks share (``data.shared_names``)."""

    leaves_out_levels: ClassVar[bool] = False
    """Whether levels of further groups, of which data may hold very many in a sparse matrix, are taken apart."""

    hooks: ClassVar[tuple[str, ...]] = ("priors", "latent", "shared_part", "observe")
    """Hooks that a specialised engine is derived from. A subclass that overrides one keeps NUTS alone."""

    # ---------------------------------------------------------------- hooks

    def uses_t(self, fit: Fit) -> bool:
        """Whether predictions use the continuous task variable of the data, which they then need at new rows.

        The model is assembled on one row, and t is used where f or y depends on it. A hook ``design`` that is not
        known to leave t alone counts as one that uses it (below it, ``design.leaves_t = True`` says that it does), and
        so does a hook that reads it as a number from ``data.source``. Override this where you know better.
        """
        if self.needs_t or not getattr(type(self).design, "leaves_t", False):
            return True
        words = (("priors latent shared_part observe", {"source", "t"}), ("conditional_moments", {"t"}))
        reads = {hook: read for hooks, read in words for hook in hooks.split()}
        for hook, read in reads.items():
            code = getattr(getattr(type(self), hook), "__code__", None)
            if code is None or read <= {*code.co_names, *code.co_consts}:
                return True
        row = self.design(fit.data.take([0]), fit.context)
        model: Any = self
        return depends_on(model, row, "t")

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims of the model."""
        return {
            "task": list(data.task_names),
            "task_bis": list(data.task_names),
            "feature": list(data.feature_names),
            "feature_bis": list(data.feature_names),
            "obs": np.arange(data.n_rows),
            **({} if data.t is None else {"t_column": list(data.t_names or ())}),
            **({} if data.shared is None else {"shared_feature": list(data.shared_names)}),
        }

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Add the prior; return its variables by name."""
        raise NotImplementedError(f"{type(self).__name__} must override the hook `priors`.")

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Function value of every row, here linear in the features with ``priors["coefficients"]``."""
        return data.linear(priors["coefficients"])

    # What `Fit.in_data_units` and predictions ask for: a hook of another kind has not these marks.
    latent.is_linear = True  # type: ignore[attr-defined]
    latent.linear_given_coefficients = True  # type: ignore[attr-defined]

    def shared_part(self, data: ModelData) -> Any:
        """What is added to :meth:`latent` in every row, (N,); None, as here, where it is nothing."""
        return None

    shared_part.is_linear = True  # type: ignore[attr-defined]

    def _gibbs(self, computes: str, engine: Callable[..., Result]) -> Method:
        """A Gibbs sampler, by chains that write checkpoints and can go on."""
        weights = self.likelihood.augmented_weights
        return Method("gibbs", computes, engine, checkpoints=True, continues=True, weights=weights)

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Log prior density of a variable that the model makes of auxiliary ones, as a PyTensor graph.

        :attr:`zoo.Fit.model` needs it for ``pm.compute_log_prior``, and for nothing else. It is the density of the
        named variable, up to a constant, given those before it in ``prior_order``.

        Parameters
        ----------
        name : str
        data : MultiTaskData
            The rows as the model sees them.
        values : dict
            The variables by name: the one that is asked for, and those before it.

        Returns
        -------
        TensorVariable or None
            None where the factory does not say it.
        """
        return None

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Posterior draws of the variables of unseen tasks, (chain, draw, ...) with the new tasks' dim.

        The default serves models without a task dim, which hold for any task.
        """
        by_task = [str(v) for v in posterior.data_vars if "task" in posterior[v].dims]
        if by_task:
            raise UnsupportedMethodError(
                f"{type(self).__name__} does not say what {by_task[0]!r} is for a new task. "
                "Override the hook `new_task`, or predict tasks of the data."
            )
        return as_arrays(posterior)

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """Draws (chain, draw, ...) of the variables that predictions need; here the posterior.

        For methods whose posterior is a point, and for variables that only new rows need.
        """
        return fit.posterior

    def draws_of_tasks(
        self, fit: Fit, names: tuple[str, ...]
    ) -> Callable[[np.random.Generator], xr.Dataset] | None:
        """What draws the variables that predictions of these tasks of the fit need, with these tasks alone.

        None, as here, where predictions are made by :meth:`predictive_posterior`, with all tasks of the fit: the
        place of a task may mean something to the hooks.
        """
        return None

    def refuses_keep(self, method: str, data: MultiTaskData) -> str:
        """Why fits of prepared data by a method cannot do without the draws of their tasks, as a sentence.

        Empty where they can; here only the draws say what the variables of tasks are.
        """
        return f"{type(self).__name__} by {method!r} has no way to draw the variables of a task again."

    def sampler_numbers(self, method: str, data: MultiTaskData, chains: int) -> int:
        """How many numbers a sampler holds beside its draws; 0 where they are not worth an estimate."""
        return 0

    def look_at(self, fit: Fit) -> None:
        """Warn of what a new fit says against the prior of the model; here of nothing."""

    def restore(self, fit: Fit) -> Any:
        """What predictions of a fit from a file need and its posterior does not hold; see :attr:`zoo.Fit.state`."""
        return None

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation of f at prepared rows given each posterior draw, where it is normal then.

        :mod:`zoo.core.predictive_law` makes predictions, intervals and scores of them without sampling functions. It
        leaves them aside where a subclass overrides a hook below the class that says them.

        Parameters
        ----------
        fit : Fit
        rows : MultiTaskData
            Rows of tasks of the fit, on the model's scale.
        rng : numpy.random.Generator
            For what is not integrated out.

        Returns
        -------
        mean, sd : (S, n) array
            One row for each draw of ``fit.posterior``, or one alone where all draws have the same law (S = 1), as
            given hyper-parameters that were estimated. None where f follows from the posterior's variables, or has
            another law: then predictions are made of draws.
        """
        return None

    def new_task_moments(
        self, fit: Fit, rows: MultiTaskData
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]] | None:
        """Mean and standard deviation (S, n) of f at prepared rows of unseen tasks, where it is a mixture of S normals.

        Beside them stand the values (S, 1) of the likelihood's learned parameters in each part. It is the law of which
        :meth:`new_task` draws: predictions then need no draws. None, as here, where these have to do.
        """
        return None

    def latent_moments(self, fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation (n,) of f at prepared rows, where :meth:`conditional_moments` is one normal law.

        None where there are several, or none.
        """
        found = self.conditional_moments(fit, rows, np.random.default_rng(0))
        return (found[0][0], found[1][0]) if found is not None and len(found[0]) == 1 else None

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables of the posterior, by name; here those of the model of prepared data."""
        return {**self.extra_dims, **self.assemble(data, y)[0].named_vars_to_dims}

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log density (S, N) of prepared rows at posterior draws (chain, draw, ...); here by the likelihood term."""
        model: Any = self
        return pointwise_log_likelihood(model, data, y, posterior)

    # ---------------------------------------------------------------- building

    def default_units(self, data: MultiTaskData) -> Units:
        """The units in which default priors are stated, of the data of a fit."""
        # Other likelihoods of real numbers may have f in units of its own, as that of the logarithm of y.
        return units_of(data, self.likelihood.responses == "real" and bool(self.likelihood.in_units_of_y))

    def with_units(self, data: MultiTaskData, context: Context | None = None) -> MultiTaskData:
        """The data with ``units``, in which default priors are stated; as they are where they have them already.

        Data that are simulated again and again, under one prior, are given theirs before the first of these draws.
        """
        if data.units is not None:
            return data
        if context is None:
            return replace(data, units=self.default_units(data))
        return replace(data, units=context.once("units", lambda: self.default_units(context.train)))

    def design(self, data: MultiTaskData, context: Context | None = None) -> MultiTaskData:
        """The data as the model sees them; here as they are, with the units of what was fitted.

        ``data.units`` is the location and scale in which default priors are stated.

        Parameters
        ----------
        data : MultiTaskData
            The data to fit, or other rows.
        context : Context, optional
            Where ``data`` are not those of the fit itself: what was fitted, and which responses predictions may use.
        """
        return self.with_units(data, context)

    # It makes nothing of t: `uses_t` need only look at the other hooks.
    design.leaves_t = True  # type: ignore[attr-defined]

    def assemble(self, data: MultiTaskData, y: np.ndarray) -> tuple[pm.Model, Any]:
        """Call the hooks in a new model; return the model and ``f``. ``y`` is coded already."""
        ensure_compile_folder()
        # With model=None it is no part of a model that is on the context stack.
        own: dict[str, Any] = {"own_priors": dict(self.own_priors), "own_task_priors": self.own_task_priors}
        with FactoryModel(coords=self.coords(data), model=None, **own) as model:
            view = ModelData.in_model(data, y)
            priors = self.priors(view)
            if not isinstance(priors, dict):
                raise TypeError(
                    f"the hook `priors` of {type(self).__name__} must return a dict of variables."
                )
            f = self.latent(view, priors)
            beside = self.shared_part(view)
            f = f if beside is None else f + beside
            self.observe(view, f)
        if "y" not in model.named_vars:
            raise ValueError(
                f"the hook `observe` of {type(self).__name__} added no variable 'y'. "
                'Name the observed variable "y".'
            )
        model.require_own_priors_used(type(self).__name__, self.likelihood.parameter_names)
        self._require_weights_used(model, view)
        require_in_graph(model, type(self).__name__)
        return model, f

    def require_reads_summaries(self) -> None:
        """Raise where the model needs single rows: a summary serves linear functions and Gaussian noise."""
        if type(self.likelihood) is not Gaussian:
            reason = f"the likelihood {type(self.likelihood).__name__} needs each of them"
        elif not getattr(type(self).latent, "is_linear", False):
            reason = "its functions are not linear in the features"
        else:
            hooks = ("design", "shared_part", "observe")
            own = [name for name in hooks if not getattr(type(self), name).__module__.startswith("zoo.")]
            if not own:
                return
            reason = f"nobody knows what its hook `{own[0]}` does with them"
        raise ValueError(
            f"the data are a summary of rows, and {type(self).__name__} cannot do without the rows themselves: "
            f"{reason}. Make the data of the rows, or use a linear model with likelihood='gaussian', such as "
            "HierarchicalLinear."
        )

    def _require_weights_used(self, model: pm.Model, view: ModelData) -> None:
        """Raise where the data have weights and a hook of the user's leaves them out of the likelihood."""
        if view.weight is None or getattr(type(self).observe, "takes_weights", False):
            return
        if view.weight not in set(ancestors([model["y"], *model.potentials])):
            raise ValueError(
                f"weight is given, but the hook `observe` of {type(self).__name__} does not use data.weight. "
                "Multiply the log density of each row by it, or make the data without weight."
            )

"""The contract of every model: a frozen description that builds a PyMC model and fits it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pytensor.graph.traversal import ancestors

from zoo.breakdown import breakdown_explained, require_finite
from zoo.checks import covariance, one_of, whole_number
from zoo.completeness import mark_if_interrupted
from zoo.data import MultiTaskData
from zoo.fit import Fit
from zoo.fit_model import FactoryModel
from zoo.inference.augmentation import Augmentation
from zoo.inference.chains import seed_sequence
from zoo.inference.checkpoint import Checkpoint, open_checkpoint
from zoo.inference.compiled import ensure_compile_folder
from zoo.inference.nuts import sample_nuts
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.coding import label_values
from zoo.likelihoods.laws import Beta, Gamma, Law, LogNormal
from zoo.likelihoods.resolve import resolve
from zoo.manifest import describe_run
from zoo.memory import require_memory, sizes_of_variables
from zoo.model_data import ModelData
from zoo.seeds import integer_seed, random_number_source
from zoo.storage import to_datatree

__all__ = ["Method", "ModelFactory", "Run", "UnsupportedMethodError"]


# A posterior of as many variables, each as large as its dims allow, that is no reason to look closer, in bytes.
_MOST_VARIABLES, _SMALL_POSTERIOR = 10, 2e8


class UnsupportedMethodError(ValueError):
    """An inference method that this factory, with these fields or overridden hooks, does not have."""


class Method(NamedTuple):
    """An inference method: its name, what it computes, whether that is a point instead of draws, whether of
    another prior, and whether given estimates.

    A method that approximates the prior of the functions may hold them in another variable of ``representations``.
    One that ``estimates`` draws given estimates of other variables, or from a normal law at a mode.
    ``checkpoints`` says that it hands ``run.checkpoint`` to :func:`~zoo.inference.chains.run_chains` or
    :func:`~zoo.inference.nuts.sample_nuts`, which write as they sample. ``weights`` says that it takes weights of rows.
    Draws that are ``independent`` have no chains that must converge; all others are diagnosed after
    the fit. ``continues`` says that it hands ``run.until`` to
    :func:`~zoo.inference.chains.run_chains`, which ``draws="auto"`` needs.
    """

    name: str
    computes: str
    point: bool = False
    approximates: bool = False
    estimates: bool = False
    checkpoints: bool = False
    weights: bool = False
    independent: bool = False
    continues: bool = False

    @property
    def exact(self) -> bool:
        """Whether it draws all variables of the model from their posterior: what calibration can be asked of."""
        return not (self.point or self.approximates or self.estimates)


class Run(NamedTuple):
    """What every inference method is told."""

    draws: int
    tune: int
    chains: int
    random_seed: Any
    progress: bool
    checkpoint: Checkpoint | None = None
    until: Callable[[dict[str, np.ndarray], int], int | None] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFactory:
    """An immutable description of a multi-task model.

    Subclass it, or one of its subclasses, to make your own model. Override

    ``coords(data)``
        Names along every dim of the model.
    ``priors(data)``
        Adds the prior to the model; returns its variables by name. Names that start with an underscore are
        auxiliary: they are sampled but left out of the posterior.
    ``latent(data, priors)``
        The function value ``f`` of every row, (N,).
    ``observe(data, f)``
        Adds the observed variable ``"y"``; here by the likelihood.
    ``new_task(posterior, names, rng)``
        Posterior draws for tasks that were not in the data.
    ``prepare(data, train, known)``
        The data as the model sees them, where a field sets the weights of rows or makes features of them.
    ``prior_density(name, data, values)``
        The log prior density of a named variable that is made of auxiliary ones, for PyMC's ``compute_log_prior``.
    ``default_method(data)``
        The method that ``fit`` takes if none is named.

    ``data`` in the hooks is a :class:`~zoo.model_data.ModelData`: the rows as PyMC data, so that the same hook
    serves new rows. A subclass that overrides ``priors``, ``latent`` or ``observe`` keeps ``method="nuts"``; a
    specialised engine is offered only where the hooks are those it was derived from. A subclass with a
    ``__post_init__`` of its own calls that of its parent, which turns words into likelihoods.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of the response given f: a word, or an object of :mod:`zoo.likelihoods`. It owns its parameters; where one
        is ``"learned"``, its prior is that of ``likelihood_laws``.
    """

    likelihood: Any = "gaussian"

    likelihood_laws: ClassVar[dict[str, Law]] = {
        "noise": LogNormal(0.0, 1.0),
        # Juarez & Steel (2010): little mass at Cauchy tails, much between heavy and normal ones.
        "degrees": Gamma(2.0, 0.1),
        "dispersion": LogNormal(0.7, 1.0),
        "C": LogNormal(0.0, 1.0),
        "extra_zeros": Beta(1.0, 1.0),
    }
    """Priors of the likelihood's learned parameters, where the user gives none."""

    paper: ClassVar[str] = ""
    """Key of the paper the model comes from."""

    constraints: ClassVar[dict[str, str]] = {}
    """Constraint of each derived variable, for the requirements table."""

    extra_dims: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Dims of what a method reports beside the variables of the model."""

    representations: ClassVar[tuple[str, ...]] = ()
    """Variables of which a posterior has one: what holds the functions, by the prior that the method takes."""

    unordered_dims: ClassVar[tuple[str, ...]] = ()
    """Dims whose order means nothing, as of the columns of a binary matrix."""

    sparse_inputs: ClassVar[bool] = False
    """Whether the features may be a sparse matrix."""

    shares_tasks: ClassVar[bool] = False
    """Whether it is a model of what tasks have in common: of data with one task ``fit`` warns if nobody named it."""

    needs_t: ClassVar[bool] = False
    """Whether the data must have a continuous task variable."""

    jitter: ClassVar[float] = 0.0
    """What is added to the diagonal of covariance matrices that need a factor, as a share of their mean variance; or
    the share of the largest below which eigenvalues count as zero. Each fit says it, in ``posterior.attrs``."""

    allows_empty_tasks: ClassVar[bool] = False
    """Whether a task may be without rows: it is then warned of, and predicted from the population."""

    integrates_functions: ClassVar[bool] = False
    """Whether the model of the fitted rows has its functions integrated out: y is then no draw around f there."""

    closed_leave_one_out: ClassVar[tuple[str, ...]] = ()
    """Methods by which ``conditional_moments`` at the rows of the fit are those of the posterior given the noise and
    the other hyper-parameters as numbers: leave-one-out densities then have a closed form."""

    prior_order: ClassVar[tuple[str, ...]] = ()
    """Variables whose density :meth:`prior_density` says, each behind those that it depends on."""

    hooks: ClassVar[tuple[str, ...]] = ("priors", "latent", "observe")
    """Hooks that a specialised engine is derived from: a subclass that overrides one keeps NUTS alone."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if inspect.isfunction(own := vars(cls).get("likelihood")) or isinstance(own, property):
            raise TypeError(
                f"{cls.__name__} defines `likelihood`, which is a field: a word or a likelihood. The hook that adds "
                "the observed variable is called `observe(data, f)`."
            )

    def __post_init__(self) -> None:
        object.__setattr__(self, "likelihood", resolve(self.likelihood))

    # ---------------------------------------------------------------- hooks

    def uses_t(self, fit: Fit) -> bool:
        """Whether predictions use the continuous task variable of the data, which they then need at new rows.

        The model is assembled on one row, and t is used where f or y depends on it. A hook ``prepare`` that is not
        known to leave t alone counts as one that uses it (below it, ``prepare.leaves_t = True`` says that it does), and
        so does a hook that reads it as a number from ``data.source``. Override this where you know better.
        """
        from zoo.predictive import depends_on

        if self.needs_t or not getattr(type(self).prepare, "leaves_t", False):
            return True
        words = (("priors latent observe", {"source", "t"}), ("conditional_moments", {"t"}))
        reads = {hook: read for hooks, read in words for hook in hooks.split()}
        for hook, read in reads.items():
            code = getattr(getattr(type(self), hook), "__code__", None)
            if code is None or read <= {*code.co_names, *code.co_consts}:
                return True
        row = self.prepare(fit.data.take([0]), fit.population_data, fit.data)
        return depends_on(self, row, "t")

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims of the model."""
        return {
            "task": list(data.task_names),
            "task_bis": list(data.task_names),
            "feature": list(data.feature_names),
            "feature_bis": list(data.feature_names),
            "obs": np.arange(data.n_rows),
            **({} if data.t is None else {"t_column": list(data.t_names or ())}),
        }

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Add the prior; return its variables by name."""
        raise NotImplementedError(f"{type(self).__name__} must override the hook `priors`.")

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Function value of every row, here linear in the features with ``priors["coefficients"]``."""
        return data.linear(priors["coefficients"])

    def observe(self, data: ModelData, f: Any) -> Any:
        """Add the observed variable ``"y"``."""
        parameters = {name: data.per_row(value) for name, value in self.add_parameters(data).items()}
        if data.weight is not None:
            parameters["weight"] = data.weight
        return self.likelihood.term(f, data.y, **parameters)

    # Its y has the mean and the class probabilities that the likelihood says: a hook of the user's need not.
    observe.matches_likelihood = True  # type: ignore[attr-defined]

    def add_parameters(self, data: ModelData) -> dict[str, Any]:
        """The learned parameters of the likelihood, by name; those that the model has not yet are added to it.

        A hook ``priors`` calls it where the variables shall stand; otherwise ``observe`` adds them last.
        """
        model = pm.modelcontext(None)
        for name in self.likelihood.learned:
            if name not in model.named_vars:
                self.law_of(name).variable(name, self.parameter_dims(name))
        return {name: model[name] for name in self.likelihood.learned}

    def law_of(self, name: str) -> Law:
        """Prior of a learned parameter of the likelihood: its own, or that of ``likelihood_laws``."""
        given = getattr(self.likelihood, name)
        if isinstance(given, Law):
            return given
        if name not in self.likelihood_laws:
            raise ValueError(
                f"{type(self).__name__} has no prior for {name!r} of {type(self.likelihood).__name__}. Give one in its "
                "place, for instance zoo.likelihoods.LogNormal(0, 1), or a number."
            )
        return self.likelihood_laws[name]

    def _gibbs(self, computes: str) -> Method:
        """A Gibbs sampler, by chains that write checkpoints and can go on."""
        weights = self.likelihood.augmented_weights
        return Method("gibbs", computes, checkpoints=True, continues=True, weights=weights)

    def augmentation(self, data: MultiTaskData) -> Augmentation:
        """What makes the likelihood Gaussian given auxiliary variables, with the priors of this factory."""
        laws = {name: self.law_of(name) for name in self.likelihood.learned}
        found = self.likelihood.augmentation(laws, data.n_tasks)
        if found is None:
            raise UnsupportedMethodError(
                f"{type(self.likelihood).__name__} has no augmentation that makes it Gaussian. Use method='nuts'."
            )
        if data.weight is not None and not self.likelihood.augmented_weights:
            raise UnsupportedMethodError(
                f"weight is given, and the augmentation of {type(self.likelihood).__name__} takes no weights of rows. "
                "Use method 'nuts', or make the data without weight."
            )
        return found

    def parameter_dims(self, name: str) -> tuple[str, ...]:
        """Dims of a learned parameter of the likelihood."""
        return ("task",) if name in self.likelihood.per_task else ()

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
        return {str(name): posterior[name].to_numpy() for name in posterior.data_vars}

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """Draws (chain, draw, ...) of the variables that predictions need; here the posterior.

        For methods whose posterior is a point, and for variables that only new rows need.
        """
        return fit.posterior

    def condition(self, fit: Fit, task_data: MultiTaskData, random_seed: Any = None) -> Fit:
        """What :meth:`Fit.condition` does."""
        if type(self).add_task is not ModelFactory.add_task:
            raise UnsupportedMethodError(
                f"{type(self).__name__} has no update by the new task's rows that leaves the old tasks alone. "
                "Use fit.add_task(task_data), in which they count for the old tasks too."
            )
        raise UnsupportedMethodError(
            f"{type(self).__name__} cannot take up a new task without a new fit. "
            "Fit all tasks together, or predict it with new_task=True."
        )

    def coefficients(
        self, fit: Fit, t: Any = None, task: Any = None, ci_prob: float = 0.9, random_seed: Any = None
    ) -> xr.Dataset:
        """What :meth:`Fit.coefficients` does."""
        raise UnsupportedMethodError(
            f"{type(self).__name__} has no coefficients that vary with t. Its own are in fit.posterior; use "
            f"VaryingCoefficientGP."
        )

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation of f at prepared rows given each posterior draw, where it is normal then.

        :mod:`zoo.predictive_law` makes predictions, intervals and scores of them without sampling functions. It
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

    def latent_moments(self, fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation (n,) of f at prepared rows, where :meth:`conditional_moments` is one normal law.

        None where there are several, or none.
        """
        found = self.conditional_moments(fit, rows, np.random.default_rng(0))
        return (found[0][0], found[1][0]) if found is not None and len(found[0]) == 1 else None

    def variable_dims(self, data: MultiTaskData, y: np.ndarray) -> dict[str, tuple[str, ...]]:
        """Dims of the variables of the posterior, by name; here those of the model of prepared data."""
        return {**self.extra_dims, **self.assemble(data, y)[0].named_vars_to_dims}

    def add_rows(self, fit: Fit, rows: MultiTaskData, random_seed: Any = None) -> Fit:
        """What :meth:`Fit.add_rows` does."""
        raise UnsupportedMethodError(
            f"{type(self).__name__} cannot take up new rows without a new fit. Fit all rows together."
        )

    def add_task(
        self, fit: Fit, task_data: MultiTaskData, kernel: Any = None, random_seed: Any = None
    ) -> Fit:
        """What :meth:`Fit.add_task` does."""
        raise UnsupportedMethodError(
            f"{type(self).__name__} cannot take up a new task without a new fit. Fit all tasks together."
        )

    def relevance(self, fit: Fit, threshold: float = 0.01, ci_prob: float = 0.9) -> xr.Dataset:
        """What :meth:`Fit.relevance` does."""
        raise UnsupportedMethodError(f"{type(self).__name__} selects no features. Use MultiLaplaceGP.")

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log density (S, N) of prepared rows at posterior draws (chain, draw, ...); here by the likelihood term."""
        from zoo.predictive import pointwise_log_likelihood

        return pointwise_log_likelihood(self, data, y, posterior)

    def learned_kernel(self, fit: Fit, combine: bool = True) -> Any:
        """What :meth:`Fit.learned_kernel` does."""
        raise UnsupportedMethodError(
            f"{type(self).__name__} learns no kernel. Use NIWGaussianProcess or NIWLinear."
        )

    def learned_kernel_draws(self, fit: Fit, X: Any, combine: bool = True) -> xr.DataArray:
        """What :meth:`Fit.learned_kernel_draws` does."""
        self.learned_kernel(fit, combine)
        raise UnsupportedMethodError(f"{type(self).__name__} has no draws of its kernel.")

    # ---------------------------------------------------------------- building

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Check the data against the fields; return the coded y. Raises ``ValueError`` naming the argument."""
        self._require_fields()
        self._require_data(data)
        data.require_rows_in_every_task(only_warn=self.allows_empty_tasks)
        if data.weight is not None and not self.likelihood.weights:
            raise ValueError(
                f"weight is given, but the likelihood of {type(self).__name__} knows no weights of rows. "
                "Make the data without weight."
            )
        if data.is_sparse and not self.sparse_inputs:
            raise ValueError(
                f"X is a sparse matrix, and {type(self).__name__} needs a dense one. "
                "Make the data from X.toarray(), or use a model of kernels (NIWGaussianProcess)."
            )
        data.require_workable_scale()
        return self.likelihood.encode(data)

    def validate_quietly(self, data: MultiTaskData) -> np.ndarray:
        """Coded y of data that were fitted already: what is worth a warning was said then."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self.validate(data)

    def prepare(
        self, data: MultiTaskData, train: MultiTaskData | None = None, known: MultiTaskData | None = None
    ) -> MultiTaskData:
        """The data as the model sees them; here as they are.

        Parameters
        ----------
        data : MultiTaskData
            The data to fit, or rows to predict.
        train : MultiTaskData, optional
            Where ``data`` are rows to predict: the data that were fitted.
        known : MultiTaskData, optional
            There too: the rows whose responses the predictions may use, those of ``condition`` included.
        """
        return data

    # It makes nothing of t: `uses_t` need only look at the other hooks.
    prepare.leaves_t = True  # type: ignore[attr-defined]

    @staticmethod
    def _require_data(data: Any) -> None:
        if not isinstance(data, MultiTaskData):
            raise TypeError(
                f"data is a {type(data).__name__}. Make it with zoo.MultiTaskData.from_frame or .from_arrays."
            )

    def _require_call(self, data: Any, method: Any) -> None:
        """Raise where a table and its responses stand in place of data and method."""
        self._require_data(data)
        if method is not None and not isinstance(method, str):
            raise TypeError(
                f"method is a {type(method).__name__}. Give one of {', '.join(map(repr, self.methods))}; responses and "
                "tasks are part of the data (zoo.MultiTaskData.from_frame or .from_arrays)."
            )

    def _require_fields(self) -> None:
        """Raise where a subclass annotates a field but is no dataclass: the field would be ignored."""
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(
                f"the `__post_init__` of {type(self).__name__} does not call that of its parent, and the likelihood is "
                f"still {self.likelihood!r}. Begin it with super().__post_init__()."
            )
        known = {f.name for f in fields(self)}
        for cls in type(self).__mro__:
            for name, kind in inspect.get_annotations(cls).items():
                if name not in known and not any(word in str(kind) for word in ("ClassVar", "InitVar")):
                    raise TypeError(
                        f"{cls.__name__} declares the field {name!r} but is no dataclass. "
                        "Decorate it with @dataclass(frozen=True, kw_only=True)."
                    )

    def build(self, data: MultiTaskData) -> pm.Model:
        """The PyMC model of these data. Cheap: nothing is sampled and nothing is changed."""
        y = self.validate(data)
        return self.assemble(self.prepare(data), y)[0]

    def assemble(self, data: MultiTaskData, y: np.ndarray) -> tuple[pm.Model, Any]:
        """Call the hooks in a new model; return the model and ``f``. ``y`` is coded already."""
        ensure_compile_folder()
        # With model=None it is no part of a model that is on the context stack.
        with FactoryModel(coords=self.coords(data), model=None) as model:
            view = ModelData.in_model(data, y)
            priors = self.priors(view)
            if not isinstance(priors, dict):
                raise TypeError(
                    f"the hook `priors` of {type(self).__name__} must return a dict of variables."
                )
            f = self.latent(view, priors)
            self.observe(view, f)
        if "y" not in model.named_vars:
            raise ValueError(
                f"the hook `observe` of {type(self).__name__} added no variable 'y'. "
                'Name the observed variable "y".'
            )
        self._require_weights_used(model, view)
        return model, f

    def _require_weights_used(self, model: pm.Model, view: ModelData) -> None:
        """Raise where the data have weights and a hook of the user's leaves them out of the likelihood."""
        if view.weight is None or getattr(type(self).observe, "takes_weights", False):
            return
        if view.weight not in set(ancestors([model["y"], *model.potentials])):
            raise ValueError(
                f"weight is given, but the hook `observe` of {type(self).__name__} does not use data.weight. "
                "Multiply the log density of each row by it, or make the data without weight."
            )

    def requirements(self, data: MultiTaskData) -> pd.DataFrame:
        """What the model holds: a table of name, kind, shape, dims, constraint and prior."""
        from zoo.requirements import requirements_table

        return requirements_table(self.build(data), self.constraints)

    def simulate(self, data: MultiTaskData, random_seed: Any = None) -> tuple[MultiTaskData, xr.Dataset]:
        """Draw parameters from the prior and a response for the rows of ``data``; return data and truth.

        Only the features and tasks of ``data`` are used. A pseudo-likelihood is drawn from in its normalised
        form.
        """
        from dataclasses import replace

        from zoo.predictive import joint_draws

        y, truth = joint_draws(self, data, 1, integer_seed(random_seed))
        return replace(data, y=y[0]), truth.isel(draw=0)

    # ---------------------------------------------------------------- fitting

    def _methods(self) -> list[Method]:
        """Inference methods of this class with these fields, best first; ``nuts`` serves every model."""
        return [
            Method(
                "nuts",
                "draws from the exact posterior by the no-U-turn sampler (nutpie)",
                checkpoints=True,
                weights=True,
            )
        ]

    @property
    def methods(self) -> dict[str, str]:
        """Inference methods available here, best first, and what each computes."""
        return {m.name: m.computes for m in self._methods() if not self._overridden_hooks(m.name)}

    def _overridden_hooks(self, method: str) -> list[str]:
        """Hooks that a subclass changed below the class that the method's engine was derived for."""
        if method == "nuts":
            return []
        engine = f"_fit_{method}"
        owner = next(cls for cls in type(self).__mro__ if engine in vars(cls))
        return [
            hook
            for hook in self.hooks
            if inspect.getattr_static(type(self), hook) is not inspect.getattr_static(owner, hook)
        ]

    def default_method(self, data: MultiTaskData) -> str:
        """The method that ``fit`` takes for these data if none is named: the first of ``methods``."""
        return next(iter(self.methods))

    def _engine(self, method: str | None, data: MultiTaskData) -> str:
        available = self.methods
        weighted = self._weight_argument(data)
        taking = [m.name for m in self._methods() if m.name in available and m.weights]
        if method is None:
            best = self.default_method(data)
            return next(iter(taking), best) if weighted and best not in taking else best
        known = [m.name for m in self._methods()]
        if method not in known:
            why = self._unserved(method) or f"method {method!r} is unknown to {type(self).__name__}."
            raise UnsupportedMethodError(f"{why} Choose from {', '.join(known)}.")
        if method not in available:
            hooks = ", ".join(f"`{hook}`" for hook in self._overridden_hooks(method))
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook {hooks}, and method {method!r} was derived for the "
                'original. Use method="nuts".'
            )
        if weighted and method not in taking:
            raise UnsupportedMethodError(
                f"{weighted} is given, and method {method!r} of {type(self).__name__} takes no weights of rows"
                f"{'' if self.likelihood.augmented_weights else f' with {type(self.likelihood).__name__}'}. "
                f"Use method {' or '.join(map(repr, taking))}, or leave {weighted} out."
            )
        return method

    def _unserved(self, method: str) -> str:
        """Why a method that others have cannot do with this likelihood; nothing where that is not the reason."""
        likelihood, name = self.likelihood, type(self.likelihood).__name__
        if method == "gibbs" and not likelihood.augmented:
            return f"method 'gibbs' needs an augmentation that makes the likelihood Gaussian, and {name} has none."
        if method == "laplace" and not likelihood.smooth:
            return f"method 'laplace' needs a curvature, and {name} has corners."
        if method in ("em", "exact") and likelihood.word != "gaussian":
            return (
                f"method {method!r} integrates functions out, which needs likelihood='gaussian', not {name}."
            )
        return ""

    def _weight_argument(self, data: MultiTaskData) -> str:
        """The argument that gives the rows weights, or nothing."""
        return "" if getattr(data, "weight", None) is None else "weight"

    def _check_method(self, method: str) -> None:
        """Raise where a method of this factory cannot do with its fields."""

    def fit(
        self,
        data: MultiTaskData,
        method: str | None = None,
        draws: int | str = 1000,
        tune: int = 1000,
        chains: int = 4,
        random_seed: Any = None,
        progress: bool = True,
        checkpoint: Any = None,
        *,
        max_draws: int | None = None,
        max_seconds: float | None = None,
        **method_options: Any,
    ) -> Fit:
        """Infer the posterior.

        Parameters
        ----------
        data : MultiTaskData
        method : str, optional
            One of ``factory.methods``; default ``factory.default_method(data)``.
        draws, tune, chains : int
            Kept draws and warm-up of each chain, number of chains. With ``draws="auto"`` the chains
            of a Gibbs sampler go on, in rounds that double, until ConvergenceWarning has nothing
            to say and every bulk ESS is 400 at least. The draws are, bit for bit, those that the
            same seed gives for the number that was reached.
        random_seed : int, numpy.random.SeedSequence or Generator, or one int per chain, optional
            Same seed, same draws (specialised engines: bit for bit, whatever the number of cores). A generator is
            drawn from, so that a second call with it gives other draws.
        progress : bool
            Show a progress bar.
        checkpoint : path, optional
            A folder, by custom ``"run.zarr"``, that is written to while the chains run: a fit that was killed goes on
            from there when the same call is made again. With specialised engines the draws are then, bit for bit,
            those of a fit that nothing stopped. NUTS keeps finished chains, draws each chain from a seed of its own
            (so not the draws that the same seed gives without a checkpoint), and draws an unfinished chain anew.
            ``cores``, ``threads``, ``progress`` and where the chains run may change from call to call; a call that
            differs in anything else is refused. When the run is finished, the same call reads it. Ctrl-C gives the
            draws so far and leaves a checkpoint that goes on. Methods without Markov chains need none and refuse it.
        max_draws, max_seconds : int, float, optional
            Where ``draws="auto"`` stops: draws of each chain (default 20,000), and seconds of
            sampling. A round that would take longer, or that would not fit into memory, is not
            begun.
        **method_options
            Options of the method, for instance ``cores``; an unknown one raises with the list.

        Returns
        -------
        Fit
            After Ctrl-C with the draws so far: it warns, and ``posterior.attrs``, ``print(fit)`` and the report say so.

        Warns
        -----
        ConvergenceWarning
            An entry of the posterior has R-hat above 1.01, or a bulk or tail ESS below 100 per chain; or
            transitions diverged; or the draws are too few to tell. :meth:`zoo.Fit.diagnostics` has
            the numbers of all entries, and the attributes of ``sample_stats`` the worst ones.

        Raises
        ------
        InsufficientMemoryError
            The draws would not fit into the memory that is free; a ValueError and a MemoryError.
        ValueError
            An argument is wrong; or the checkpoint is damaged, of another run, or no checkpoint at all.
        RuntimeError
            Another process has the checkpoint open.
        OSError
            The checkpoint cannot be written to. What it holds is intact: the same call goes on from there.
        """
        self._require_call(data, method)
        name = self._engine(method, data)
        auto = None
        if isinstance(draws, str) or max_draws is not None or max_seconds is not None:
            from zoo.diagnostics.auto_draws import AutoDraws

            auto = AutoDraws(self, name, draws, chains, max_draws, max_seconds, checkpoint)
        first: Any = draws if auto is None else auto.asked
        for argument, value, least in (("draws", first, 1), ("tune", tune, 0), ("chains", chains, 1)):
            whole_number(value, argument, least)
        if checkpoint is not None and not any(m.checkpoints for m in self._methods() if m.name == name):
            raise UnsupportedMethodError(
                f"method {name!r} of {type(self).__name__} writes no checkpoint as it works. "
                "Leave `checkpoint` out, and keep the result with fit.save."
            )
        self._check_method(name)
        engine = getattr(self, f"_fit_{name}")
        options = [p for p in inspect.signature(engine).parameters if p not in ("data", "y", "run")]
        for option in method_options:
            one_of(option, options, f"the options of method {name!r}")
        y = self.validate(data)
        seed = random_number_source(random_seed, int(chains))
        run = Run(int(first), int(tune), int(chains), seed, progress)
        if self.shares_tasks and data.task_names == ("all",) and data.task_column is None:
            warnings.warn(
                f"the data have one task, because task was not named, and {type(self).__name__} learns what tasks have "
                "in common. Pass task=... to MultiTaskData.from_frame or from_arrays.",
                UserWarning,
                stacklevel=2,
            )
        if progress and self.likelihood.labels:
            negative, positive = label_values(data.y)
            if negative == 0.0:
                print(f"labels {negative:g}/{positive:g} read as -1/+1")
        prepared = self.prepare(data)
        self._require_memory(prepared, y, name, run, "thin" in options)
        if auto is not None:
            more = partial(self._require_memory, prepared, y, name, run, "thin" in options)
            run = run._replace(until=auto.begin(self.variable_dims(prepared, y), more))
        has_chains = not any(m.point or m.independent for m in self._methods() if m.name == name)
        data_look = self._look_at_data(prepared, y) if has_chains else ""
        if progress and data_look:
            print(data_look)
        with (
            self._checkpointed(checkpoint, data, name, run, method_options) as run,
            breakdown_explained(f"method {name!r}", prepared),
        ):
            # A third thing that an engine may return is what predictions need, so that they need not make it again.
            posterior, stats, *made = engine(prepared, y, run, **method_options)
            if name != "nuts":  # whose own variables a user may define where they are not finite
                require_finite(posterior)
        idata = to_datatree(self, data, prepared, y, posterior, stats, name, seed)
        fit = Fit(factory=self, data=data, idata=idata, method=name)
        mark_if_interrupted(idata, run.draws if auto is None else auto.asked, run.chains, fit.is_point)
        for part in made:
            fit.cache.update(part)
        if has_chains:
            from zoo.diagnostics.verdict import judge

            if auto is not None:
                auto.hand_over(fit)
            judge(fit, data_look, "" if auto is None else auto.reason)
        return fit

    def _look_at_data(self, data: MultiTaskData, y: np.ndarray) -> str:
        """What to say of the data before sampling, of a model with a coefficient for each task and feature."""
        from zoo.diagnostics.data_look import look_at_data

        said = look_at_data(data, y if self.likelihood.labels else None)
        if not said:
            return ""
        dims = self.variable_dims(data, y).get("coefficients", ())
        return said if set(dims) == {"feature", "task"} else ""

    def _require_memory(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        method: str,
        run: Run,
        thins: bool,
        draws: int | None = None,
    ) -> None:
        """Raise where the draws that are kept, ``run.draws`` or as many as given, would not fit into memory."""
        run = run if draws is None else run._replace(draws=draws)
        if any(m.point for m in self._methods() if m.name == method):
            return
        coords = self.coords(data)
        kept = run.draws * run.chains
        longest = max((len(v) for dim, v in coords.items() if dim not in ("obs", "input_row")), default=1)
        if 8 * kept * _MOST_VARIABLES * longest**2 < _SMALL_POSTERIOR:
            return  # no need to look at the variables one by one
        sizes = sizes_of_variables(self.variable_dims(data, y), coords, self.representations)
        # nutpie holds what it has drawn, auxiliary variables with it, while they are copied to the posterior.
        copies = 2 if method == "nuts" else 1
        thinner = ", with a larger thin for draws that tell more each," if thins else ""
        require_memory(
            sizes,
            copies * kept,
            f"draws={run.draws} with chains={run.chains} of method {method!r}",
            f"Take fewer draws{thinner} or fewer chains.",
        )

    @contextmanager
    def _checkpointed(
        self, path: Any, data: MultiTaskData, method: str, run: Run, options: dict[str, Any]
    ) -> Iterator[Run]:
        """The run with its checkpoint open, and with the seed that this was started with."""
        if path is None:
            yield run
            return
        described = describe_run(self, data, method, run, getattr(self, f"_fit_{method}"), options)
        drawn = {"entropy": np.random.SeedSequence().entropy} if run.random_seed is None else {}
        with open_checkpoint(path, described, drawn) as checkpoint:
            seed = seed_sequence(run.random_seed, checkpoint.manifest["drawn"].get("entropy"))
            yield run._replace(random_seed=seed, checkpoint=checkpoint)

    def _fit_nuts(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        nuts: dict[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        model, _ = self.assemble(data, y)
        return sample_nuts(model, cores=cores, nuts=nuts, **run._asdict())

    def gibbs_kernel(self, data: MultiTaskData, y: np.ndarray, **options: Any) -> Any:
        """The Markov kernel of method "gibbs" (:mod:`zoo.inference.chains`), for prepared data and coded y."""
        raise UnsupportedMethodError(
            f"{type(self).__name__} has no Markov kernel of its own. Use its methods: {', '.join(self.methods)}."
        )

    # ---------------------------------------------------------------- spec

    def to_spec(self) -> dict[str, Any]:
        """The description as JSON-ready data: class name and fields."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            "factory": type(self).__name__,
            "fields": {**values, "likelihood": self.likelihood.to_spec()},
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> ModelFactory:
        """The factory that :meth:`to_spec` described."""
        known = {f.name for f in fields(cls)}
        for name in spec["fields"]:
            one_of(name, known, f"the fields of {cls.__name__}")
        return cls(**spec["fields"])

    def _freeze_covariance(self, field: str, words: tuple[str, ...]) -> None:
        """Turn a covariance field into one of ``words`` or a tuple of rows, so that specs compare and print."""
        value = getattr(self, field)
        if isinstance(value, str):
            one_of(value, words, field)
            return
        matrix = covariance(value, field)
        object.__setattr__(self, field, tuple(tuple(float(v) for v in row) for row in matrix))

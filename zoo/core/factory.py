"""The contract of every model: a frozen description that builds a PyMC model and fits it."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from zoo.core.fit import Fit
from zoo.core.fitting import Asked, run_fit
from zoo.core.keep import estimate_text
from zoo.core.methods import Method, Result, Run, UnsupportedMethodError, choose, overridden_hooks
from zoo.core.model_hooks import ModelHooks
from zoo.core.own_priors import priors_table
from zoo.core.predictive import joint_draws
from zoo.core.requirements import requirements_table
from zoo.data.choices import require_no_choices
from zoo.data.multitask import MultiTaskData
from zoo.inference.run.nuts import sample_nuts
from zoo.likelihoods.base import Likelihood
from zoo.support.checks import covariance, one_of
from zoo.support.seeds import integer_seed
from zoo.support.warning_types import warn_user
from zoo.support.words import first_names

__all__ = ["ModelFactory"]


@dataclass(frozen=True, kw_only=True)
class ModelFactory(ModelHooks):
    """An immutable description of a multi-task model.

    Subclass it, or one of its subclasses, to make your own model. Override

    ``coords(data)``
        Names along every dim of the model.
    ``priors(data)``
        Adds the prior to the model; returns its variables by name. Names that start with an underscore are
        auxiliary: they are sampled but left out of the posterior.
    ``latent(data, priors)``
        The function value ``f`` of every row, (N,).
    ``shared_part(data)``
        What is added to ``latent`` in every row, (N,); here nothing.
    ``observe(data, f)``
        Adds the observed variable ``"y"``; here by the likelihood.
    ``new_task(posterior, names, rng)``
        Posterior draws for tasks that were not in the data.
    ``design(data, context)``
        The data as the model sees them, where a field sets the weights of rows or makes features of them; ``context``
        says what was fitted, where these are other rows.
    ``prior_density(name, data, values)``
        The log prior density of a named variable that is made of auxiliary ones, for PyMC's ``compute_log_prior``.
    ``default_method(data)``
        The method that ``fit`` takes if none is named.

    ``data`` in the hooks is a :class:`~zoo.core.hooks.ModelData`: the rows as PyMC data, so that the same hook
    serves new rows. A subclass that overrides ``priors``, ``latent`` or ``observe`` keeps ``method="nuts"``; a
    specialised engine is offered only where the hooks are those it was derived from. A subclass with a
    ``__post_init__`` of its own calls that of its parent, which turns words into likelihoods.

    Parameters
    ----------
    likelihood : str or Likelihood
        Law of the response given f: a word, or an object of :mod:`zoo.likelihoods`. It owns its parameters; where one
        is ``"learned"``, its prior is that of ``likelihood_laws``.
    own_priors : mapping of str to distribution
        Priors in place of those that the model has, by variable, as ``{"shrinkage": pm.HalfCauchy.dist(1)}``: laws of
        :mod:`zoo.likelihoods`, ``pm.X.dist(...)``, or distributions of PreliZ. :meth:`priors_table` lists the
        variables. Method "nuts" is the one that takes them.
    """

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Check the data against the fields; return the coded y. Raises ``ValueError`` naming the argument."""
        self._require_fields()
        self.require_data(data)
        if not data.n_features and self.needs_features:
            raise ValueError(
                f"the data have no features, of which {type(self).__name__} makes its functions. Name some in "
                "features (from_frame) or X (from_arrays), or use VaryingCoefficientGP, which has an intercept of its "
                "own."
            )
        if data.shared_names and not self.serves_shared:
            raise ValueError(
                f"the data name features whose coefficient all tasks share ({first_names(data.shared_names)}), and "
                f"{type(self).__name__} has no such coefficients. Use HierarchicalLinear or MaxMargin, or give every "
                "task a coefficient of its own: dataclasses.replace(data, shared_names=())."
            )
        if data.gaps is not None and not self.serves_gaps:
            column = data.feature_names[int(np.argmax(data.gaps.any(axis=0)))]
            raise ValueError(
                f"feature {column!r} has gaps, and {type(self).__name__} makes numbers of the features before anything "
                "is drawn. Use HierarchicalLinear or MaxMargin, or fill the gaps in."
            )
        data.require_rows_in_every_task(only_warn=self.allows_empty_tasks)
        if data.weight is not None and not self.likelihood.weights:
            raise ValueError(
                f"weight is given, but the likelihood of {type(self).__name__} knows no weights of rows. "
                "Make the data without weight."
            )
        if data.is_sparse and data.effects and not self.leaves_out_levels:
            raise ValueError(
                f"the data have {len(data.effects)} levels of further groups in a sparse matrix, and "
                f"{type(self).__name__} needs dense columns. Use HierarchicalLinear, or leave a further group out "
                "of the formula."
            )
        if data.is_sparse and not (self.sparse_inputs or data.effects):
            raise ValueError(
                f"X is a sparse matrix, and {type(self).__name__} needs a dense one. "
                "Make the data from X.toarray(), or use a model of kernels (NIWGaussianProcess)."
            )
        if not self.likelihood.of_choices:
            require_no_choices(data, type(self.likelihood).__name__)
        if data.stands_for:
            self.require_reads_summaries()
        data.require_workable_scale()
        if data.grades and self.likelihood.responses != "grades":
            warn_user(
                f"y holds the grades {' < '.join(data.grades)}, which {type(self.likelihood).__name__} takes for the "
                f"numbers 1 to {len(data.grades)}. Use likelihood=zoo.Ordinal(grades={len(data.grades)})."
            )
        return self.likelihood.encode(data)

    def validate_quietly(self, data: MultiTaskData) -> np.ndarray:
        """Coded y of data that were fitted already: what is worth a warning was said then."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self.validate(data)

    @staticmethod
    def require_data(data: Any) -> None:
        """Raise where the data are no :class:`~zoo.MultiTaskData`."""
        if isinstance(data, str) and "~" in data:
            raise TypeError(
                f"data is the formula {data!r}. Make data of it and of the table first, by "
                "zoo.MultiTaskData.from_formula(formula, df)."
            )
        if not isinstance(data, MultiTaskData):
            raise TypeError(
                f"data is a {type(data).__name__}. Make it with zoo.MultiTaskData.from_frame, .from_formula or "
                ".from_arrays."
            )

    def require_call(self, data: Any, method: Any) -> None:
        """Raise where a table and its responses stand in place of data and method."""
        self.require_data(data)
        if method is not None and not isinstance(method, str):
            raise TypeError(
                f"method is a {type(method).__name__}. Give one of {', '.join(map(repr, self.methods))}; responses and "
                "tasks are part of the data (zoo.MultiTaskData.from_frame, .from_formula or .from_arrays)."
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
        return self.assemble(self.design(data), y)[0]

    def requirements(self, data: MultiTaskData) -> pd.DataFrame:
        """What the model holds: a table of name, kind, shape, dims, constraint, prior, and memory of 4 x 1,000 draws.

        ``table.attrs["memory"]`` says in a sentence how much memory a fit by the default method would keep, for each
        ``keep`` that it may take, and how much is free.
        """
        table = requirements_table(self.build(data), self.constraints)
        y = self.validate_quietly(data)
        table.attrs["memory"] = estimate_text(self, self.design(data), y)
        return table

    def priors_table(self, data: MultiTaskData) -> pd.DataFrame:
        """The priors that can be given as arguments: a table of variable, dims, prior, and what sets it.

        Parameters of the likelihood are set by its fields, and other variables by ``own_priors``. The prior "of other
        variables" is one of a variable that is made of others, as of coefficients with a learned scale.
        """
        y = self.validate(data)
        return priors_table(self, self.assemble(self.design(data), y)[0])

    def simulate(self, data: MultiTaskData, random_seed: Any = None) -> tuple[MultiTaskData, xr.Dataset]:
        """Draw parameters from the prior and a response for the rows of ``data``; return data and truth.

        Only the features and tasks of ``data`` are used. A pseudo-likelihood is drawn from in its normalised
        form.
        """
        y, truth = joint_draws(self, data, 1, integer_seed(random_seed))
        grades = data.grades if self.likelihood.responses == "grades" else ()
        return replace(data, y=self.likelihood.decode(y[0]), grades=grades), truth.isel(draw=0)

    # ---------------------------------------------------------------- fitting

    def method_table(self) -> list[Method]:
        """Inference methods of this class with these fields, best first; ``nuts`` serves every model.

        Override it, with ``*super().method_table()`` at its end, to add an engine of your own.
        """
        computes = "draws from the exact posterior by the no-U-turn sampler (nutpie)"
        return [Method("nuts", computes, self._fit_nuts, checkpoints=True, weights=True)]

    @property
    def methods(self) -> dict[str, str]:
        """Inference methods available here, best first, and what each computes."""
        return {
            m.name: m.computes
            for m in self.method_table()
            if m.name == "nuts" or not (self.own_priors or overridden_hooks(self, m.engine))
        }

    def method_named(self, name: str) -> Method | None:
        """The method of this name, where the class has it with these fields."""
        return next((m for m in self.method_table() if m.name == name), None)

    def default_method(self, data: MultiTaskData) -> str:
        """The method that ``fit`` takes for these data if none is named: the first of ``methods``."""
        return next(iter(self.methods))

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The name of the method that a fit to these data takes; raises where it cannot be ``method``."""
        return choose(self, method, data)

    def unserved(self, method: str) -> str:
        """Why a method that others have cannot do with this likelihood; nothing where that is not the reason."""
        likelihood, name = self.likelihood, type(self.likelihood).__name__
        if method in ("gibbs", "laplace") and likelihood.of_choices:
            return f"method {method!r} of {type(self).__name__} knows no choices, whose rows {name} takes together."
        if method == "gibbs" and likelihood.augmented and not self.augmented:
            parameter, law = next(iter(self._foreign_laws.items()))
            return f"method 'gibbs' has no draws of {parameter!r} with the prior {law!r}, which 'nuts' has."
        if method == "gibbs" and not likelihood.augmented:
            return f"method 'gibbs' needs an augmentation that makes the likelihood Gaussian, and {name} has none."
        if method == "laplace" and not likelihood.smooth:
            return f"method 'laplace' needs a curvature, and {name} has corners."
        if method in ("em", "exact") and likelihood.word != "gaussian":
            return (
                f"method {method!r} integrates functions out, which needs likelihood='gaussian', not {name}."
            )
        return ""

    def weight_argument(self, data: MultiTaskData) -> str:
        """The argument that gives the rows weights, or nothing."""
        return "" if getattr(data, "weight", None) is None else "weight"

    def check_method(self, method: str) -> None:
        """Raise where a method of this factory cannot do with its fields."""

    def fit(
        self,
        data: MultiTaskData,
        method: str | None = None,
        draws: int | str | None = None,
        tune: int = 1000,
        chains: int = 4,
        random_seed: Any = None,
        progress: bool = True,
        checkpoint: Any = None,
        *,
        max_draws: int | None = None,
        max_seconds: float | None = None,
        keep: str | None = None,
        **method_options: Any,
    ) -> Fit:
        """Infer the posterior.

        Parameters
        ----------
        data : MultiTaskData
        method : str, optional
            One of ``factory.methods``; default ``factory.default_method(data)``.
        draws : int or "auto", optional
            Kept draws of each chain. By default 1,000; the chains of a Gibbs sampler that have not
            converged then go on to 2,000, and to 4,000, so that a fit takes at most about four
            times as long. With "auto" they go on, in rounds that double, until ConvergenceWarning
            has nothing to say and every bulk ESS is 400 at least. The draws are, bit for bit,
            those that the same seed gives for the number that was reached.
        tune, chains : int
            Warm-up of each chain, number of chains.
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
        keep : {"draws", "moments", "population"}, optional
            What of the draws is kept. "population" leaves out the coefficients of the tasks, which predictions draw
            again, exactly, for the tasks that they are asked for; "moments" follows their means and standard
            deviations beside it (``fit.idata["moments"]``). :class:`zoo.HierarchicalLinear` and
            :class:`zoo.NIWLinear` with Gaussian noise of one scale, by "gibbs", and
            :class:`zoo.MultiTaskKernelMachine` with its own kernel, by "exact", can leave them out.
            Default: "draws" where they fill less than half of the memory
            that is free, or where nothing else is possible; a warning says where it is something else.
        **method_options
            Options of the method, for instance ``cores``; an unknown one raises with the list. ``executor``, of
            the same two by "gibbs", deals the tasks to threads or to a cluster of Dask.

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
            What is to be kept would not fit into the memory that is free; a ValueError and a MemoryError. It is
            raised before anything is sampled.
        ValueError
            An argument is wrong; or the checkpoint is damaged, of another run, or no checkpoint at all.
        RuntimeError
            Another process has the checkpoint open.
        OSError
            The checkpoint cannot be written to. What it holds is intact: the same call goes on from there.
        """
        asked = Asked(
            method, draws, tune, chains, random_seed, progress, checkpoint, max_draws, max_seconds, keep
        )
        return run_fit(self, data, asked, method_options)

    def _fit_nuts(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        nuts: dict[str, Any] | None = None,
    ) -> Result:
        model, _ = self.assemble(data, y)
        return Result(*sample_nuts(model, cores=cores, nuts=nuts, **run._asdict()))

    def gibbs_kernel(self, data: MultiTaskData, y: np.ndarray, **options: Any) -> Any:
        """The Markov kernel of method "gibbs" (:mod:`zoo.inference.run.chains`), for prepared data and coded y."""
        raise UnsupportedMethodError(
            f"{type(self).__name__} has no Markov kernel of its own. Use its methods: {', '.join(self.methods)}."
        )

    # ---------------------------------------------------------------- spec

    def to_spec(self) -> dict[str, Any]:
        """The description as JSON-ready data: class name and fields."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            "factory": type(self).__name__,
            "fields": {
                **values,
                "likelihood": self.likelihood.to_spec(),
                "own_priors": {name: law.to_spec() for name, law in self.own_priors},
            },
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

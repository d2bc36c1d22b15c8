"""Kernel machines of many tasks (Evgeniou, Micchelli & Pontil 2005)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.core.capabilities import AddRows
from zoo.core.context import Context
from zoo.core.fit import Fit
from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, Run, UnsupportedMethodError
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.inference.run.chains import run_chains
from zoo.latent.coordinates import Coordinates
from zoo.latent.function_conditional import JITTER
from zoo.latent.slice_hyper import KernelGibbs
from zoo.models.kernel_machine import grow, tasks
from zoo.models.kernel_machine import methods as machine
from zoo.models.kernel_machine.description import KernelMachineDescription
from zoo.models.kernel_machine.rows import KernelRows, conditional_function, function_moments, kernel_rows
from zoo.models.kernel_machine.sides import space_of
from zoo.models.kernel_machine.space import matrix_root, weight_graph
from zoo.models.kernel_machine.spaces import WeightSpace
from zoo.support.words import counted

__all__ = ["MultiTaskKernelMachine"]

# Likelihoods of the methods that are derived for few.
_SERVES = {"map": ("hinge", "epsilon_insensitive", "logistic")}


@dataclass(frozen=True, kw_only=True)
class MultiTaskKernelMachine(KernelMachineDescription):
    r"""A kernel machine over all tasks at once, with any kernel on (x, task) and any likelihood.

    .. math::

        f \sim GP(0, a^2 K((x, \ell), (t, q))), \quad p(y \mid f) \propto e^{-L(y, f)}

    so that the posterior mode minimises :math:`\sum_n L(y_n, f(x_n, \ell_n)) + \|f\|_K^2 / (2 a^2)`, which is the
    paper's (11) up to a constant factor. The paper's losses L are :math:`(y - f)^2 / (2 \sigma^2)` ("gaussian", where
    sigma is ``noise``), :math:`2C \max(0, 1 - yf)` ("hinge"), :math:`2C \max(0, |y - f| - \epsilon)`
    ("epsilon_insensitive"), and :math:`\log(1 + e^{-yf})` ("logistic"). Other likelihoods are sampled: by Gibbs
    where they have an augmentation, else by NUTS.

    A kernel that is linear in x is held as ``coefficients`` (feature, task), whatever the number of rows; any other one
    as ``function_values`` (point), the function at the distinct rows. ``task_cov`` (task, task_bis) is the covariance
    of the tasks, ``amplitude`` squared times the task matrix of the kernel; of more than 2,000 tasks it is left out
    where the kernel has it as a diagonal plus few columns, as the word's kernel has. There is no intercept beside the
    features: add a constant one, and standardize real responses.

    Beside the hooks of :class:`zoo.ModelFactory` a subclass may override ``hyperparameters(data)``, what is learned,
    and ``covariance_function(parameters, data)``, the kernel at numbers or tensors of these; both keep every method.

    Parameters
    ----------
    kernel : "mean_regularised" or pm.gp.cov.Covariance
        The word is eq (22), or (25) with ``Q``. A covariance on [x, task], the task's number in the last column: see
        :mod:`zoo.kernels`; sums and products of these and those of ``pm.gp.cov`` too.
    likelihood : str or Likelihood
        Law of y given f: a word, or an object that holds its parameters, as ``zoo.Gaussian(noise=0.5)``.
    lam : float or "learned"
        Of the word's kernel, in (0, 1]: 1 learns each task alone; towards 0, with the amplitude held, all tasks become
        one. A learned amplitude grows with it, and what remains of the prior is that of a task's own part,
        :math:`a^2 \lambda T`: many tasks have small values of lam.
    Q : "identity", "learned" or (D, D) matrix
        Metric of the word's kernel. "learned" by methods "exact" and "nuts".
    learn : sequence of str
        Parameters of a covariance handed in that are learned, by their names
        (``zoo.kernels.kernel_parameters(zoo.kernels.describe(kernel))`` lists them); its own values are where they
        start, and their prior medians.
    amplitude : float or "learned"
        ``a``: the scale of the functions.

    Notes
    -----
    Draws of functions at new rows are joint up to 500 distinct rows per call, and beyond that right for each row alone.
    What is learned has the prior LogNormal(log value, 1) if positive, Uniform(0, 1) if it lies there, and Q an
    inverse-Wishart law, scaled to trace D. Methods "exact" and "laplace" maximise the evidence without these priors.
    :func:`zoo.select` chooses fields by cross-validation, ``lam``, ``Q`` and ``likelihood.C`` among them.

    References
    ----------
    Evgeniou, T., Micchelli, C. and Pontil, M. (2005). Learning multiple tasks with kernel methods. JMLR 6. Eqs (15) and
    (23) corrected: the first lacks its ridge term.
    """

    fit_class: ClassVar[type[Fit]] = AddRows
    paper: ClassVar[str] = "evgeniou2005"
    closed_leave_one_out: ClassVar[tuple[str, ...]] = ("exact",)
    shares_tasks: ClassVar[bool] = True
    serves_gaps: ClassVar[bool] = False
    constraints: ClassVar[dict[str, str]] = {"task_cov": "positive semi-definite"}
    estimated_once: ClassVar[tuple[str, ...]] = ("task_cov", "feature_cov")
    allows_empty_tasks: ClassVar[bool] = True
    jitter: ClassVar[float] = JITTER

    # ---------------------------------------------------------------- hooks

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises where the kernel is for other tasks or features."""
        y = super().validate(data)
        if isinstance(self.Q, tuple) and len(self.Q) != data.n_features:
            raise ValueError(
                f"Q is {len(self.Q)} x {len(self.Q)}, but the data have "
                f"{counted(data.n_features, 'feature')}. Make them equal."
            )
        kernel = self._kernel_at_start(data)
        machine.require_same_tasks(kernel, data)
        machine.require_numbers(kernel, data)
        return y

    def design(self, data: MultiTaskData, context: Context | None = None) -> KernelRows:
        """The rows, with the distinct ones among them where the kernel needs function values there."""
        rows = super().design(data, context)
        if context is None or context.known is None:
            return kernel_rows(rows, None)
        known = context.once("rows", lambda: kernel_rows(self.with_units(context.train, context), None))
        return kernel_rows(rows, known)

    design.leaves_t = True  # type: ignore[attr-defined]

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims; the distinct rows are counted where the kernel needs them."""
        names = super().coords(data)
        if self.is_linear(data):
            return names
        rows = data if isinstance(data, KernelRows) else kernel_rows(data, None)
        fitted = rows if rows.known is None else rows.known
        return {**names, "point": np.arange(len(fitted.points))}

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Hyper-parameters, and coefficients or function values, non-centred."""
        rows: Any = data.source
        fitted = rows if rows.known is None else rows.known
        learned = Coordinates(self.hyperparameters(rows)).random()
        values = {**self.fixed_parameters(), **learned}
        kernel, amplitude = self.covariance_function(values, rows), values["amplitude"]
        if "Q" in learned:
            pm.Deterministic("feature_cov", learned["Q"], dims=("feature", "feature_bis"))
        B = self.reported_task_matrix(kernel, rows)
        if B is not None:
            pm.Deterministic("task_cov", amplitude**2 * B, dims=("task", "task_bis"))
        form = self.linear_form(kernel, rows)
        if form is None:
            root = matrix_root(kernel(pt.constant(fitted.points)))
            white = pm.Normal("_values", dims="point")
            f = pm.Deterministic("function_values", amplitude * pt.dot(root, white), dims="point")
            return {"function_values": f, "kernel": kernel, "amplitude": amplitude}
        d, W, R = weight_graph(form, amplitude)
        white = pm.Normal("_own", dims=("feature", "task")) * pt.sqrt(d)
        shared = pm.Normal("_shared", shape=(rows.n_features, _columns(W)))
        weights = white + pt.dot(shared, W.T)
        coefficients = weights if R is None else pt.dot(R, weights)
        if self.level(rows):
            coefficients = coefficients + self.offset(rows)[:, None]
        return {"coefficients": pm.Deterministic("coefficients", coefficients, dims=("feature", "task"))}

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Density of the coefficients under the word's kernel; other kernels may be singular."""
        return tasks.density_of_coefficients(self, data, values) if name == "coefficients" else None

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Function value of every row; at new rows of other kernels than linear, given those at the rows of the fit."""
        if "coefficients" in priors:
            return data.linear(priors["coefficients"])
        rows: Any = data.source
        if rows.known is None:
            return priors["function_values"][rows.point]
        return conditional_function(rows, priors)

    latent.linear_given_coefficients = True  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- prediction

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """The posterior with ``innovation``: whether draws vary by what function values leave open elsewhere.

        Without coefficients that were not kept: with what all tasks share, for unseen ones.
        """
        draws = machine.with_innovation(fit) if fit.keep == "draws" else tasks.with_common_part(fit, rng)
        return draws.assign_attrs(units=self.units(self.with_units(fit.data, fit.context)))

    def refuses_keep(self, method: str, data: MultiTaskData) -> str:
        """Why the coefficients of tasks cannot be drawn again; empty where they can."""
        return tasks.refusal(self, MultiTaskKernelMachine, method, data)

    def draws_of_tasks(
        self, fit: Fit, names: tuple[str, ...]
    ) -> Callable[[np.random.Generator], xr.Dataset] | None:
        """Draws of these tasks alone where the fit kept none; else None, since other kernels know all tasks."""
        return None if fit.keep == "draws" else partial(tasks.drawn_again, fit, names)

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation of f: (1, n) by "exact" and "laplace", else (S, n) given function values."""
        if fit.method in ("exact", "laplace"):
            mean, sd = grow.moments(fit, rows)
            return mean[None], sd[None]
        if "function_values" not in fit.posterior:
            return None
        assert isinstance(rows, KernelRows)
        return function_moments(fit, rows)

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Coefficients of unseen tasks given those of the others, of the word's kernel alone."""
        return tasks.new_task(self, posterior, names, rng)

    def add_rows(self, fit: Fit, rows: MultiTaskData, random_seed: Any = None) -> Fit:
        """What :meth:`Fit.add_rows` does."""
        return grow.add_rows(fit, rows, random_seed)

    def add_task(
        self, fit: Fit, task_data: MultiTaskData, kernel: Any = None, random_seed: Any = None
    ) -> Fit:
        """What :meth:`Fit.add_task` does."""
        return grow.add_task(fit, task_data, kernel, random_seed)

    def restore(self, fit: Fit) -> Any:
        """The functions of a fit in closed form, made again."""
        return grow.state_of(fit)

    # ---------------------------------------------------------------- engines

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        augmented = self._gibbs("draws from the exact posterior by augmentation", self._fit_gibbs)
        laplace = Method(
            "laplace",
            "approximation: Gaussian at the mode, hyper-parameters of maximal evidence",
            self._fit_laplace,
            given_estimates=True,
            weights=True,
            independent=True,
        )
        best = {
            "gaussian": [
                Method(
                    "exact",
                    "independent draws from the exact posterior given hyper-parameters of maximal evidence",
                    self._fit_exact,
                    given_estimates=self._learns_kernel or "noise" in self.likelihood.learned,
                    weights=True,
                    independent=True,
                ),
                self._gibbs(
                    "draws from the exact posterior, hyper-parameters too, by collapsed Gibbs sampling",
                    self._fit_gibbs,
                ),
            ],
            "hinge": [
                self._gibbs(
                    "draws from the exact posterior by augmentation (inverse Gaussian)", self._fit_gibbs
                ),
                Method(
                    "map",
                    "the posterior mode, a support vector machine, by liblinear",
                    self._fit_map,
                    law="point",
                    weights=True,
                ),
            ],
            "logistic": [
                laplace,
                Method(
                    "map", "the posterior mode by Newton's method", self._fit_map, law="point", weights=True
                ),
                augmented,
            ],
        }
        word = self.likelihood.word
        others = [augmented] if self.augmented else []
        found = best.get("hinge" if word == "epsilon_insensitive" else word, others)
        if self._learns_kernel or self._learns_weight:
            found = [m for m in found if m.name != "map"]
        # Exact draws come first where there is no closed form; the approximation has to be asked for.
        last = [laplace] if self.likelihood.smooth and word not in best else []
        if self.Q == "learned":
            found, last = [m for m in found if m.name == "exact"], []
        return [*found, *super().method_table(), *last]

    @property
    def _learns_weight(self) -> bool:
        """Whether the weight of the loss is learned, which a support vector machine needs as a number."""
        return self.likelihood.word == "epsilon_insensitive" and bool(self.likelihood.learned)

    @property
    def _learns_kernel(self) -> bool:
        own = (
            self.learn
            if not isinstance(self.kernel, str)
            else "learned" in (self.lam, self.Q if isinstance(self.Q, str) else "")
        )
        return bool(own) or self.amplitude == "learned"

    def unserved(self, method: str) -> str:
        """Why a method that others have cannot do with this likelihood."""
        if why := super().unserved(method):
            return why
        word = self.likelihood.word
        if method in _SERVES and word not in _SERVES[method]:
            served = " or ".join(map(repr, _SERVES[method]))
            return f"method {method!r} is for likelihood {served}, and this one is {self.likelihood!r}."
        if method == "map" and self._learns_weight:
            return (
                "method 'map' needs a number for C, such as zoo.EpsilonInsensitive(C=1.0); zoo.select chooses it by "
                "cross-validation."
            )
        if method == "laplace" and word == "gaussian":
            return "method 'laplace' approximates what 'exact' has in closed form for likelihood 'gaussian'."
        return ""

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        if method == "map" and self.likelihood.word in _SERVES["map"] and self._learns_kernel:
            raise UnsupportedMethodError(
                f"{type(self).__name__} learns hyper-parameters, and method 'map' takes them as they are. Give numbers "
                "for lam, amplitude and Q (zoo.select chooses them by cross-validation), or use another method."
            )
        name = super().choose_method(method, data)
        if isinstance(self.Q, str) and self.Q == "learned":
            instead = 'Use Q="identity", or give a matrix for Q (zoo.kernels.pca_metric makes one).'
            require_narrow(data, 'Q="learned"', instead)
        return name

    def _fit_exact(
        self, data: Any, y: np.ndarray, run: Run, max_iter: int = 200, keep: str = "draws"
    ) -> Result:
        space = space_of(self, data, y, aligned=True)
        with space.threads():
            found = machine.maximal_evidence(space, run.progress, max_iter)
            # As a fit from a file finds them: what is reported says the free coordinates up to rounding.
            state = grow.state_at(space, space.coordinates.pack(space.coordinates.unpack(found.z)))
            posterior, stats, moments = machine.exact_draws(space, found, state.conditional, run, keep)
        # Others hold matrices that grow with the square of the rows, which no prediction may ever need.
        return Result(posterior, stats, state if type(space) is WeightSpace else None, moments)

    def _fit_gibbs(
        self, data: Any, y: np.ndarray, run: Run, cores: int | None = None, thin: int = 1
    ) -> Result:
        kernel = self.gibbs_kernel(data, y)
        return Result(*run_chains(kernel, cores=cores, thin=thin, **run._asdict()))

    def gibbs_kernel(self, data: Any, y: np.ndarray, **options: Any) -> KernelGibbs:
        """The Markov kernel of the Gibbs sampler, for prepared data and coded y."""
        space = space_of(self, data, y, fast=True)
        start = space.coordinates.start
        # Compiled here, once: chains in threads would each do it at the same time.
        space.numbers(start)
        space.parameters(start)
        likelihood: Any = self.likelihood
        augmentation = self.augmentation(data) if likelihood.word != "gaussian" else None
        return KernelGibbs(
            prior=space,
            start=start,
            y=space.y,
            weight=np.ones(len(y)) if data.weight is None else data.weight,
            task=data.task,
            augmentation=augmentation,
            own={n: space.coordinates.position(n).start for n in likelihood.learned} if augmentation else {},
            amplitude=space.coordinates.unit_vector("amplitude") if self.amplitude == "learned" else None,
            ridges=space.ridges(),
            **options,
        )

    def _fit_map(
        self, data: Any, y: np.ndarray, run: Run, tol: float = 1e-6, max_iter: int = 100_000
    ) -> Result:
        # A support vector machine has no law of all coefficients.
        space = space_of(self, data, y, joint=self.likelihood.word == "logistic")
        with space.threads():
            return Result(*machine.mode(self, space, run, tol, max_iter))

    def _fit_laplace(self, data: Any, y: np.ndarray, run: Run, max_iter: int = 200) -> Result:
        space = space_of(self, data, y)
        with space.threads():
            found = machine.maximal_laplace_evidence(space, run.progress, max_iter)
            return Result(*machine.laplace_draws(space, found, run))


def _columns(W: Any) -> int:
    """Number of columns of the loadings, which is static for every kernel."""
    return int(W.type.shape[1] if W.type.shape[1] is not None else W.shape[1].eval())

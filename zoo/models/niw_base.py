"""What the normal-inverse-Wishart models of Yu, Tresp & Schwaighofer (2005) share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from zoo.checks import positive
from zoo.data import MultiTaskData
from zoo.distributions.inverse_wishart_cholesky import InverseWishartCholesky
from zoo.factory import Method, ModelFactory, Run, UnsupportedMethodError
from zoo.fit import Fit
from zoo.inference.augmented_population import AugmentedPopulationKernel
from zoo.inference.chains import run_chains
from zoo.inference.em import (
    conditional_covariances,
    conditional_draws,
    conditional_means,
    expectation_maximisation,
)
from zoo.inference.em_conditional import conditional_variances
from zoo.inference.likelihood_moves import moves_pay
from zoo.inference.matrix_normal import CovariancePrior
from zoo.inference.noise_conditional import NoiseConditional
from zoo.inference.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.progress import ClimbProgress
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.laws import Flat, InverseGammaOfSquare, Law
from zoo.model_data import ModelData
from zoo.models.new_tasks import joined, new_rows, of_some_task
from zoo.models.prior_density import coefficients_density, covariance_density
from zoo.seeds import generator
from zoo.storage import to_datatree

__all__ = ["NIWBase", "Population"]

# Draws that stand for the conditional posterior of an EM fit in predictions.
_POINT_DRAWS = 1000
# Mean square of real responses above which they cannot have been standardized.
_LARGE_RESPONSE = 100.0
# EM stops where twenty steps gain less log-likelihood than this, if no tolerance is given.
_MIN_GAIN = 1e-3
# Share of the smallest noise variance of a fit down to which the mode of a new task's is looked for.
_SMALLEST_SHARE = 1e-6
# Rows a task for each of its coefficients, below which group moves pay (benchmarks/niw.py).
_FEW_ROWS = 2
# Numbers in the covariances of all tasks, above which EM leaves them out.
_MOST_COVARIANCES = 2e7


class Population(NamedTuple):
    """The hierarchy in whitened features: those of the rows (n, r), ``half`` (p, r) that leads out, ``back`` (r, p) in.

    ``w_t = half @ v_t`` with ``v_t ~ N(m, V)`` and ``V ~ IW(delta, I)``.
    """

    inputs: np.ndarray
    half: np.ndarray
    back: np.ndarray

    def enter(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (p,) and covariance (p, p) in whitened features."""
        return self.back @ mean, self.back @ cov @ self.back.T


class KnownRows(NamedTuple):
    """Rows of tasks as the model sees them, the population at them, and its features with those of the residual."""

    rows: MultiTaskData
    population: Population
    inputs: np.ndarray


@dataclass(frozen=True, kw_only=True)
class NIWBase(ModelFactory):
    """Fields, hierarchy and engines; see the subclasses."""

    paper: ClassVar[str] = "yu2005"
    shares_tasks: ClassVar[bool] = True
    constraints: ClassVar[dict[str, str]] = {"noise": "> 0"}
    names: ClassVar[tuple[str, str, str]]
    """What coefficients, their mean and their covariance are called."""
    dim: ClassVar[str]
    """The dim of the coefficients."""

    likelihood_laws: ClassVar[dict[str, Law]] = {
        **ModelFactory.likelihood_laws, "noise": InverseGammaOfSquare(1.0, 0.1)
    }  # fmt: skip

    pi: float = 1.0
    delta: float = 3.0
    tau: float | str = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.pi, "pi")
        positive(self.delta, "delta")
        if not isinstance(self.tau, str) or self.tau != "prior":
            if isinstance(self.tau, str):
                raise ValueError(f'tau is {self.tau!r}. Give a number above 0, or "prior".')
            positive(self.tau, "tau")

    @property
    def _conjugate(self) -> bool:
        """Whether y is Gaussian with a noise that EM and the Gibbs sampler of this hierarchy know."""
        return type(self.likelihood) is Gaussian and (
            "noise" in self.likelihood.learned
            and isinstance(self.law_of("noise"), InverseGammaOfSquare | Flat)
        )

    @property
    def noise_prior(self) -> tuple[float, float] | None:
        """Shape and rate of the inverse-gamma prior of the noise variance; None where it has none."""
        law = self.law_of("noise")
        return (law.shape, law.rate) if isinstance(law, InverseGammaOfSquare) else None

    @property
    def noise_by_task(self) -> bool:
        """Whether every task has a noise of its own."""
        return "noise" in self.likelihood.per_task

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; warns of real responses far from the scale that the priors expect."""
        y = super().validate(data)
        if self.likelihood.responses == "real" and np.mean(y**2) > _LARGE_RESPONSE:
            warnings.warn(
                f"y has mean {y.mean():.3g} and standard deviation {y.std():.3g}, and the priors expect values near 1: "
                "the posterior, or the maximum that EM finds, says little of such values. Use data.standardize().",
                UserWarning,
                stacklevel=4,
            )
        return y

    # ---------------------------------------------------------------- hooks

    def population(self, data: MultiTaskData) -> Population:
        """Whitened features of prepared data."""
        raise NotImplementedError(f"{type(self).__name__} must override `population`.")

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Population and coefficients, all non-centred."""
        values, mean, cov = self.names
        half = pt.as_tensor(self.population(data.source).half)
        model = pm.modelcontext(None)
        rank = half.type.shape[1]
        model.add_coords({"basis": range(rank), "basis_bis": range(rank)})
        chol = self._factor(rank)
        white_mean = pm.Normal(f"_{mean}", dims="basis")
        centre = chol @ white_mean / np.sqrt(self.pi)
        white = pm.Normal(f"_{values}", dims=("basis", "task"))
        pm.Deterministic(cov, half @ chol @ chol.T @ half.T, dims=(self.dim, f"{self.dim}_bis"))
        pm.Deterministic(mean, half @ centre, dims=self.dim)
        result = {
            values: pm.Deterministic(values, half @ (centre[:, None] + chol @ white), dims=(self.dim, "task"))
        }
        return {**result, **self.add_parameters(data)}

    @property
    def prior_order(self) -> tuple[str, ...]:  # type: ignore[override]
        """Covariance, mean, coefficients, noise."""
        values, mean, cov = self.names
        return cov, mean, values, "noise"

    def prior_density(self, name: str, data: MultiTaskData, values: dict[str, Any]) -> Any:
        """Densities of the population in whitened features, and of the coefficients given it."""
        if not self._has_inverse_wishart:
            return None
        back = self.population(data).back
        coefficients, mean, cov = self.names
        if name not in self.names:
            return None
        white_cov = back @ values[cov] @ back.T
        if name == cov:
            return covariance_density(white_cov, CovariancePrior(nu=self.delta + len(back) - 1.0))
        white_mean = pt.dot(back, values[mean])[:, None]
        if name == mean:
            return coefficients_density(white_mean, white_cov / self.pi, np.eye(1))
        white = pt.dot(back, values[coefficients])
        return coefficients_density(white, white_cov, np.eye(data.n_tasks), white_mean)

    @property
    def _has_inverse_wishart(self) -> bool:
        """Whether the covariance of the population has this prior."""
        return True

    def _factor(self, rank: int) -> Any:
        """A lower factor of the whitened covariance."""
        return InverseWishartCholesky(
            "_basis_chol", delta=self.delta, scale_chol=np.eye(rank), dims=("basis", "basis_bis")
        )

    def new_task(
        self, posterior: xr.Dataset, names: list[str], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Coefficients of unseen tasks from each draw of the population; their noise as of some task of the data.

        Under the model the noise of a task without rows has its prior, which knows nothing of the tasks of the data: by
        default an inverse-gamma law without a mean, and so intervals of no use. So the noises that were found stand for
        the law of a further one. Where a task has rows, :meth:`Fit.condition` draws its noise given these.
        """
        if type(self).priors is not NIWBase.priors:
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `priors`. Override `new_task` to match it."
            )
        values, mean, cov = self.names
        centre, covariance = posterior[mean].to_numpy(), posterior[cov].to_numpy()
        chains, draws, p = centre.shape
        # Innovations whose mean over the draws is exactly zero: the prediction's mean has less noise.
        z = rng.standard_normal((chains, draws, p, len(names)))
        if draws > 1:
            z -= z.mean(axis=(0, 1))
        result = {values: centre[..., None] + _roots(covariance) @ z}
        for name in self.likelihood.learned:
            array = posterior[name].to_numpy()
            result[name] = of_some_task(array, len(names), rng) if array.ndim == 3 else array
        return result

    # ---------------------------------------------------------------- engines

    def _methods(self) -> list[Method]:
        if not self.likelihood.augmented:
            return super()._methods()
        gibbs = self._gibbs("draws from the exact posterior by a compiled Gibbs sampler")
        if not self._conjugate:
            return [gibbs, *super()._methods()]
        return [
            gibbs,
            Method(
                "em",
                "the paper's penalised maximum likelihood, and the coefficients' posterior given it",
                point=True,
                weights=True,
            ),
            *super()._methods(),
        ]

    def _check_method(self, method: str) -> None:
        for name in self.likelihood.learned:
            if method != "em" and not self.law_of(name).proper:
                raise ValueError(
                    f'{name} has the prior Flat(), which only method="em" can do with; method {method!r} draws from a '
                    f"posterior, which needs a proper prior. Give the likelihood {name}=InverseGammaOfSquare(shape, "
                    "rate)."
                )

    def _fit_gibbs(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        cores: int | None = None,
        thin: int = 1,
        group_moves: bool | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """``group_moves``: moves of the population beyond the plain sweep; default: those that the data call for."""
        kernel = self.gibbs_kernel(data, y, group_moves=group_moves)
        return run_chains(kernel, cores=cores, thin=thin, **run._asdict())

    def gibbs_kernel(
        self, data: MultiTaskData, y: np.ndarray, group_moves: bool | None = None, **options: Any
    ) -> NormalInverseWishartKernel:
        """The Markov kernel of the Gibbs sampler, for prepared data and coded y.

        ``group_moves``: True takes the shears and scales of :mod:`zoo.inference.group_moves`, by default taken where
        tasks have few rows or a label is rare, and False leaves out those, the moves under the likelihood of
        :mod:`zoo.inference.likelihood_moves`, by default taken where a label is rare, and the collapsed moves, by
        default taken where tasks hardly know some of their coefficients. Where the likelihood is not Gaussian, there
        are no collapsed moves.
        """
        population = self.population(data)
        off = group_moves is False
        if off:
            options = {"loose": 0, **options}
        if group_moves is None:
            few = data.n_rows < _FEW_ROWS * data.n_tasks * population.inputs.shape[1]
            group_moves = few or self._crawls(data, y)
        hierarchy: dict[str, Any] = {
            "inputs": population.inputs,
            "row": data.row,
            "y": y,
            "task": data.task,
            "n_tasks": data.n_tasks,
            "pi": self.pi,
            "nu": self.delta + population.inputs.shape[1] - 1.0,
            "half": population.half,
            "names": self.names,
            "group_moves": group_moves,
            "weight": data.weight,
        }
        if not self._conjugate:
            options.pop("loose", None)
            if off:
                options = {"likelihood_moves": False, **options}
            return AugmentedPopulationKernel(**hierarchy, augmentation=self.augmentation(data), **options)
        assert self.noise_prior is not None
        shape, rate = self.noise_prior
        noise: dict[str, Any] = {
            "noise_shape": shape,
            "noise_rate": rate,
            "noise_by_task": self.noise_by_task,
        }
        return NormalInverseWishartKernel(**hierarchy, **noise, **options)

    def _crawls(self, data: MultiTaskData, y: np.ndarray) -> bool:
        """Whether augmentation alone hardly moves, for prepared data and coded y."""
        if self._conjugate:
            return False
        weight = np.ones(len(y)) if data.weight is None else data.weight
        return moves_pay(self.augmentation(data), None, y, weight)

    def _fit_em(
        self,
        data: MultiTaskData,
        y: np.ndarray,
        run: Run,
        max_iter: int = 1000,
        tol: float | None = None,
        accelerate: bool = True,
        noise_floor: float = 0.0,
    ) -> tuple[dict[str, np.ndarray], xr.Dataset]:
        """``tol``: relative change of a step at which to stop; default: as soon as steps gain little.

        ``noise_floor``: smallest noise standard deviation. ``accelerate=False``: the paper's plain iteration.
        """
        population = self.population(data)
        rank = population.inputs.shape[1]
        tau, weight = self.em_prior(rank)
        with ClimbProgress(max_iter, run.progress) as bar:
            found = expectation_maximisation(
                population.inputs,
                data.row,
                data.task,
                y,
                data.n_tasks,
                pi=self.pi,
                tau=tau,
                scale=weight * np.eye(rank),
                noise_prior=self.noise_prior,
                noise_by_task=self.noise_by_task,
                weight=data.weight,
                noise_floor=noise_floor,
                max_iter=max_iter,
                tol=1e-8 if tol is None else tol,
                min_gain=_MIN_GAIN if tol is None else 0.0,
                accelerate=accelerate,
                progress=bar.report,
            )
        half = population.half
        parts = (half @ found.coefficients, half @ found.mean, half @ found.cov @ half.T)
        posterior = {**dict(zip(self.names, parts, strict=True)), "noise": np.asarray(found.noise)}
        if data.n_tasks * len(half) ** 2 <= _MOST_COVARIANCES:
            cov = conditional_covariances(
                population.inputs, data.row, data.task, data.n_tasks, found.cov, found.noise, data.weight
            )
            posterior[f"{self.names[0]}_cov"] = half @ cov @ half.T
        traces = {
            "penalised_log_likelihood": found.penalised_log_likelihood,
            "log_likelihood": found.log_likelihood,
            "accelerated": found.accelerated,
        }
        stats = xr.Dataset(
            {name: (("chain", "iteration"), np.asarray(v)[None]) for name, v in traces.items()}
        )
        stats = stats.assign_coords(chain=[0], iteration=np.arange(stats.sizes["iteration"]))
        stats.attrs.update(
            converged=int(found.converged),
            interrupted=int(found.interrupted),
            maps=int(found.n_maps),
            residual=float(found.residual),
        )
        return {name: value[None, None] for name, value in posterior.items()}, stats

    def em_prior(self, rank: int) -> tuple[float, float]:
        r"""EM's tau and the multiple of the identity that is its scale, for ``rank`` whitened features.

        The M-step (8) is the mode under the textbook :math:`\nu = \tau - r - 2` and scale :math:`\tau C_0`. With
        :math:`\nu = \delta + r - 1`, the prior of full Bayes is :math:`\tau = \delta + 2 r + 1` and scale :math:`C_0`.
        """
        if self.tau == "prior":
            return self.delta + 2.0 * rank + 1.0, 1.0
        return float(self.tau), float(self.tau)

    # ---------------------------------------------------------------- point fits and new tasks

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """The posterior's draws; of an EM fit draws of the coefficients given the population."""
        if fit.method != "em":
            return fit.posterior
        values, _, _ = self.names
        point = fit.posterior.isel(chain=0, draw=0, drop=True)
        known = self._known_rows(fit, fit.data)
        draws = self._draws_given(
            known, fit, {str(k): v.to_numpy() for k, v in point.items()}, _POINT_DRAWS, rng
        )
        draws += point[values].to_numpy() - draws.mean(axis=0)  # their mean is known exactly
        variables = {
            str(name): (
                ("chain", "draw", *v.dims),
                np.broadcast_to(v.to_numpy(), (1, _POINT_DRAWS, *v.shape)),
            )
            for name, v in point.items()
            if name != f"{values}_cov"
        }
        variables[values] = (("chain", "draw", *point[values].dims), draws[None])
        return xr.Dataset(variables, coords=point.coords)

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Of an EM fit the mean and standard deviation (1, n) of f given the population and the known rows."""
        if fit.method != "em":
            return None
        mean, variance = self._em_moments(fit, rows)
        return mean[None], np.sqrt(variance)[None]

    def _em_moments(self, fit: Fit, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of what the population's features say of f."""
        point = {str(n): v.to_numpy()[0, 0] for n, v in fit.posterior.items()}
        whitened = self.population(rows).inputs[rows.row]
        known = self._known_rows(fit, fit.data)
        _, cov = self._enter(known, fit, point, np.random.default_rng(0))
        extra = known.inputs.shape[1] - whitened.shape[1]
        new = np.hstack([whitened, np.zeros((len(whitened), extra))])
        old = known.rows
        variance = conditional_variances(
            known.inputs, old.row, old.task, old.n_tasks, cov, point["noise"], new, rows.task
        )
        coefficients = known.population.back @ point[self.names[0]]
        return np.sum(whitened * coefficients[:, rows.task].T, axis=1), variance

    def _known_rows(self, fit: Fit, data: MultiTaskData) -> KnownRows:
        """Rows of tasks, on the model's scale, for draws of their coefficients given a population."""
        own = data is fit.data and not fit.conditioned
        prepared = self.prepare(data) if own else self.prepare(data, fit.population_data)
        population = self.population(prepared)
        residual = self._residual_features(data, prepared, population.inputs)
        return KnownRows(prepared, population, np.hstack([population.inputs, residual]))

    def _residual_features(
        self, data: MultiTaskData, prepared: MultiTaskData, inputs: np.ndarray
    ) -> np.ndarray:
        """Features (n, k) of what the population's features (n, r) cannot express at new rows; here nothing."""
        return np.empty((len(inputs), 0))

    def _residual_variance(
        self, fit: Fit, mean: np.ndarray, cov: np.ndarray, rng: np.random.Generator
    ) -> float:
        """Variance of their coefficients given the population in whitened features."""
        return 1.0

    def _enter(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of one draw in the features of the rows."""
        mean, cov = known.population.enter(draw[self.names[1]], draw[self.names[2]])
        rank, size = len(mean), known.inputs.shape[1]
        if size == rank:
            return mean, cov
        grown = self._residual_variance(fit, mean, cov, rng) * np.eye(size)
        grown[:rank, :rank] = cov
        return np.append(mean, np.zeros(size - rank)), grown

    def _draws_given(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], size: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (size, p, T) of the coefficients of the tasks given one draw of the population."""
        rows, half = known.rows, known.population.half
        mean, cov = self._enter(known, fit, draw, rng)
        v = conditional_draws(
            known.inputs,
            rows.row,
            rows.task,
            rows.y,
            rows.n_tasks,
            mean,
            cov,
            draw["noise"],
            size,
            rng,
            rows.weight,
        )
        return np.asarray(half @ v[:, : half.shape[1]])

    def _moments_given(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (p, T) and covariances (T, p, p) of the same."""
        rows, half = known.rows, known.population.half
        mean, cov = self._enter(known, fit, draw, rng)
        noise, rank = draw["noise"], half.shape[1]
        means = conditional_means(
            known.inputs, rows.row, rows.task, rows.y, rows.n_tasks, mean, cov, noise, rows.weight
        )
        covariances = conditional_covariances(
            known.inputs, rows.row, rows.task, rows.n_tasks, cov, noise, rows.weight
        )
        return half @ means[:rank], half @ covariances[:, :rank, :rank] @ half.T

    def _noise_given(
        self, known: KnownRows, fit: Fit, draw: dict[str, np.ndarray], least: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Noise (T,) of new tasks given their rows and one draw of the population, coefficients integrated out.

        A draw by the prior of the noise, or, of an EM fit, the value of largest density. Without a prior the noise of
        few rows would be zero: then it is at least that of the quietest task of the fit, ``least`` as a variance.
        """
        rows = known.rows
        mean, cov = self._enter(known, fit, draw, rng)
        root = np.linalg.cholesky(cov)
        result = np.empty(rows.n_tasks)
        for t, at in enumerate(rows.rows_by_task()):
            weight = None if rows.weight is None else rows.weight[at]
            law = NoiseConditional.of(known.inputs[rows.row[at]], rows.y[at], weight, mean, root)
            if fit.method == "em":
                floor = least if self.noise_prior is None else _SMALLEST_SHARE * least
                result[t] = law.mode(self.noise_prior, floor)
            else:
                assert self.noise_prior is not None
                result[t] = law.draw(*self.noise_prior, rng)
        return np.sqrt(result)

    def _kernel_draws(self, draws: np.ndarray) -> xr.DataArray:
        return xr.DataArray(draws, dims=("chain", "draw", "point", "point_bis"), name="kernel")

    def condition(self, fit: Fit, task_data: MultiTaskData, random_seed: Any = None) -> Fit:
        """See :meth:`Fit.condition`; for real responses with Gaussian noise."""
        if hooks := self._overridden_hooks("gibbs"):
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides the hook `{hooks[0]}`, and `condition` was derived for the original. "
                "Fit all tasks together."
            )
        if not self._conjugate:
            raise UnsupportedMethodError(
                f"`condition` integrates coefficients out, which needs Gaussian noise with an inverse-gamma prior, and "
                f"likelihood is {self.likelihood!r}. Fit all tasks together."
            )
        rng = generator(random_seed)
        new = new_rows(fit, task_data)
        together = joined(fit.data, new)
        posterior = fit.posterior
        added = self._values_of_new(fit, new, rng)
        grown = {
            str(name): np.concatenate([v.to_numpy(), added[str(name)]], axis=v.dims.index("task"))
            if name in added
            else v.to_numpy()
            for name, v in posterior.items()
        }
        names = (*fit.conditioned, *new.task_names)
        result = replace(fit, data=together, conditioned=names)
        prepared = self.prepare(together, result.population_data)
        stats = fit.idata["sample_stats"].to_dataset()
        idata = to_datatree(self, together, prepared, prepared.y, grown, stats, fit.method, random_seed)
        return replace(result, idata=idata)

    def _values_of_new(self, fit: Fit, new: MultiTaskData, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The variables of new tasks given their rows, (chain, draw, ...)."""
        values, mean, cov = self.names
        posterior = fit.posterior
        chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
        noise = posterior["noise"].to_numpy()
        result = {}
        known = self._known_rows(fit, new)
        least = float(noise.min()) ** 2
        if self.noise_by_task:
            noise = result["noise"] = np.empty((chains, draws, new.n_tasks))
        if known.inputs.shape[1] > known.population.half.shape[1]:
            warnings.warn(
                "task_data has inputs that the fit has not: what their labels say beyond its inputs is lost in "
                "predictions. Give these inputs to the fit without labels (NaN in Y of from_multilabel) to keep it.",
                UserWarning,
                stacklevel=5,
            )
        parts = {name: posterior[name].to_numpy() for name in (mean, cov)} | {"noise": noise}
        result[values] = np.empty((chains, draws, posterior.sizes[self.dim], new.n_tasks))
        for at in np.ndindex(chains, draws):
            draw = {name: array[at] for name, array in parts.items()}
            if self.noise_by_task:
                draw["noise"] = noise[at] = self._noise_given(known, fit, draw, least, rng)
            if fit.method == "em":
                result[values][at], covariances = self._moments_given(known, fit, draw, rng)
                if f"{values}_cov" in posterior:
                    result[f"{values}_cov"] = covariances[None, None]
            else:
                result[values][at] = self._draws_given(known, fit, draw, 1, rng)[0]
        return result


def _roots(covariance: np.ndarray) -> np.ndarray:
    """Symmetric square roots of covariances (chain, draw, p, p), singular ones too; one where all are the same."""
    if covariance.strides[:2] == (0, 0):
        covariance = covariance[:1, :1]
    d, U = np.linalg.eigh(covariance)
    return np.asarray((U * np.sqrt(np.maximum(d, 0.0))[..., None, :]) @ np.swapaxes(U, -1, -2))

"""Kernel-local smoothing of coefficients that vary with place or time (Fan & Zhang 2008)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.linalg import solve_triangular

from zoo.core.absolute_laws import warn_of_features
from zoo.core.capabilities import CoefficientSurface
from zoo.core.context import Context
from zoo.core.fit import Fit
from zoo.core.hooks import ModelData
from zoo.core.methods import Method, Result, Run, UnsupportedMethodError, overridden_hooks
from zoo.core.predictive import normal_summary
from zoo.core.wide_data import require_narrow
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.derivatives import log_density
from zoo.models.local_smoothing.description import LocalDescription
from zoo.models.local_smoothing.reading import choice_of, coefficients_at, fits_at, local_values
from zoo.models.local_smoothing.rows import Choice, KnownRows, LocalRows, require_places
from zoo.models.varying_coefficient.reading import read_places
from zoo.ops.ard_conditional import ARDConditional
from zoo.support.checks import probability

__all__ = ["KernelLocalSmoothing"]

# Numbers that a PyMC model of all pairs of rows and places, and the draws of method "exact", may hold.
_MOST_IN_PAIRS, _MOST_IN_DRAWS = 50_000_000, 250_000_000


@dataclass(frozen=True, kw_only=True)
class KernelLocalSmoothing(LocalDescription):
    r"""A regression at every place, fitted to the rows nearby: a varying-coefficient model without a joint prior.

    At each place :math:`t_0` the coefficients minimise, with :math:`k_h(d) = k(|d| / h)` and k(0) = 1,

    .. math::

        \sum_n k_h(t_n - t_0) (y_n - x_n' w)^2 + \lambda |w|^2

    or, for labels, :math:`\sum_n k_h(t_n - t_0) \log(1 + e^{-y_n x_n' w}) + \frac{\lambda}{2} |w|^2`. This is the mode
    of a composite local likelihood: ``coefficients`` (feature, place), one column for each distinct t of the data,
    have the prior :math:`N(0, \sigma^2 / \lambda)` (labels: :math:`N(0, 1 / \lambda)`), and each place sees the log
    likelihood of every row, weighted by the kernel. That of a row at its own place is the variable ``y``; those at
    other places are a potential, which prior simulation leaves out. Rows count at many places, so the model is no
    joint law of the data: draws of ``coefficients`` say how far the rows in the window fix them, independently for
    each place. For labels method "map" predicts at the mode alone, and draws of f at new places are those of Laplace's
    approximation there.

    New places are fitted from the rows of the data, as their own places are. Where no row lies within a bandwidth of
    a new place (Gaussian kernel: three bandwidths), the window is widened: its bandwidth becomes that at which the
    nearest max(2 M, 50) rows, of M features, have at least half the weight of a row at the place itself.

    The distance is Euclidean between t with each column at standard deviation 1 over the data. All coefficients are
    penalised, the intercept too: standardize the data first. Tasks play no part beside t.

    Parameters
    ----------
    likelihood : str or Likelihood
        "gaussian" for real responses, "logistic" for labels (-1/+1, 0/1 or bool); others are refused. ``noise``,
        :math:`\sigma`, is for predictive and posterior standard deviations. Where it is "learned", it comes from
        leave-one-out residuals (of ``cv_max_rows`` rows at most).
    bandwidth : float or "cv"
        h, in standard deviations of t.
    ridge : float or "cv"
        :math:`\lambda > 0`, in the posterior ``lam``.
    window : {"epanechnikov", "gaussian"}
        :math:`\max(0, 1 - u^2)` or :math:`e^{-u^2 / 2}`.
    degree : {0, 1}
        0 fits constants in the window, as above. 1 fits linear functions of t (Fan & Zhang's own): each feature comes
        once more for each column of t, multiplied by :math:`(t_n - t_0) / h`, and the coefficients of these,
        ``slopes`` (t_column, feature, place), are penalised alike.
    intercept : bool
        Add a feature that is 1, unless one is constant already.
    instance_kernel : {"linear", "matern"}
        Features are the inputs, or a Nystroem map of a Matern 5/2 kernel on the inputs.
    n_basis : int
        Rows, drawn at random, that the Nystroem map is made of at most.
    lengthscale : float or "median"
        Of the Matern kernel; by default the median distance of (at most 1000) rows.
    bandwidth_grid, ridge_grid : sequence of float
        Among these "cv" chooses the pair of smallest held-out squared error, or log loss for labels.
    cv_folds, cv_max_rows : int
        Folds, and rows that are predicted at most, each from all rows of the other folds.
    design_seed : int
        Of folds and of the rows of the Nystroem map.

    Notes
    -----
    Time grows with the number of places times rows in the window times squared features. The PyMC model itself holds
    each row at each place in whose window it lies: build it, or run NUTS, for small data alone.

    References
    ----------
    Fan, J. and Zhang, W. (2008). Statistical methods with varying coefficient models. Statistics and Its Interface 1.
    The penalty is that of Bussas, M., Sawade, C., Kuehn, N., Scheffer, T. and Landwehr, N. (2017), Varying-coefficient
    models for geospatial transfer learning, Machine Learning 106, section 4, who give no formula for it.
    """

    fit_class: ClassVar[type[Fit]] = CoefficientSurface
    paper: ClassVar[str] = "fan2008"
    constraints: ClassVar[dict[str, str]] = {"bandwidth": "> 0", "lam": "> 0", "noise": "> 0"}
    needs_t: ClassVar[bool] = True
    advice_for_tasks: ClassVar[str] = (
        "Use VaryingCoefficientGP, with a component over tasks beside those over t."
    )
    serves_gaps: ClassVar[bool] = False

    # ---------------------------------------------------------------- hooks

    def validate(self, data: MultiTaskData) -> np.ndarray:
        """Coded y; raises without t, where a column of t is constant, and for responses without local fits."""
        y = super().validate(data)
        require_places(data, type(self).__name__)
        if not data.is_sparse:
            warn_of_features(data.inputs, data.feature_names)
        return y

    def design(self, data: MultiTaskData, context: Context | None = None) -> LocalRows:
        """The rows with their features and places."""
        known = None if context is None else context.known
        if context is None or known is None:
            return LocalRows.of(data, KnownRows(self, data), predicted=False)
        return LocalRows.of(data, context.once("rows", lambda: KnownRows(self, known)), predicted=True)

    def coords(self, data: MultiTaskData) -> dict[str, Any]:
        """Names along the dims; places are counted, in the order of their sorted t."""
        rows = data if isinstance(data, LocalRows) else self.design(data)
        return {**super().coords(rows), "place": np.arange(len(rows.known.places))}

    def priors(self, data: ModelData) -> dict[str, Any]:
        """Independent coefficients at each place, at the bandwidth, penalty and noise that were chosen."""
        rows: Any = data.source
        # Rows to predict get the numbers of the fit from its posterior.
        choice = Choice(1.0, 1.0, 1.0) if rows.predicted else rows.known.choice
        names = ["bandwidth", "lam", *self.likelihood.parameter_names]
        result = {name: pm.Deterministic(name, _constant(getattr(choice, name))) for name in names}
        scale = choice.noise / choice.lam**0.5
        result["coefficients"] = pm.Normal("coefficients", 0.0, scale, dims=("feature", "place"))
        if self.degree:
            result["slopes"] = pm.Normal("slopes", 0.0, scale, dims=("t_column", "feature", "place"))
        return result

    def latent(self, data: ModelData, priors: dict[str, Any]) -> Any:
        """Function value of every row with the coefficients of its place; at a new place those of a local fit."""
        rows: Any = data.source
        elsewhere = rows.place < 0
        place = pt.constant(np.where(elsewhere, 0, rows.place))
        w = priors["coefficients"][:, place]
        if self.degree and np.any(rows.offset):
            offset = pt.constant(rows.offset.T)
            w = w + pt.sum(priors["slopes"][:, :, place] * offset[:, None, :], axis=0)
        f = pt.sum(data.X * w.T, axis=1)
        if not elsewhere.any():
            return f
        return pt.set_subtensor(
            f[np.flatnonzero(elsewhere)], self._at_new_places(rows.take(elsewhere), priors)
        )

    def _at_new_places(self, rows: LocalRows, priors: dict[str, Any]) -> Any:
        """Function values at places that the data do not have, a draw for each row."""
        if overridden_hooks(self, self._fit_map):
            raise UnsupportedMethodError(
                f"{type(self).__name__} overrides a hook, and local fits at new places were derived for the original. "
                "Predict rows at places of the data."
            )

        def moments(bandwidth: Any, lam: Any, noise: Any) -> tuple[np.ndarray, np.ndarray]:
            value, spread = local_values(rows, float(bandwidth), float(lam))
            return value, float(noise) * np.sqrt(spread)

        noise = priors.get("noise", _constant(1.0))
        mean, sd = ARDConditional(moments)(priors["bandwidth"], priors["lam"], noise)
        # No variable of the model: every draw has its own. A mode has no spread: the posterior says 0 there.
        white = pm.Normal.dist(0.0, 1.0, size=rows.n_rows)
        return mean + pm.Deterministic("innovation", _constant(1.0)) * sd * white

    def observe(self, data: ModelData, f: Any) -> Any:
        """The observed variable, and for the rows of the fit what other places see of them."""
        observed = super().observe(data, f)
        rows: Any = data.source
        if rows.predicted:
            return observed
        model = pm.modelcontext(None)
        most = _MOST_IN_PAIRS // rows.n_features
        pairs, weight = rows.neighbours(rows.known.choice.bandwidth, most)
        if not len(weight):
            return observed
        variables = {name: model[name] for name in ("coefficients", "slopes") if name in model.named_vars}
        f = self.latent(ModelData.constant(pairs), variables)
        term = log_density(self.likelihood, f, pairs.y, self.add_parameters(data))
        pm.Potential("other_places", pt.sum(weight * term))
        return observed

    observe.matches_likelihood = True  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- prediction

    def predictive_posterior(self, fit: Fit, rng: np.random.Generator) -> xr.Dataset:
        """The posterior with ``innovation``: whether draws vary at new places."""
        draws = fit.posterior
        shape = (draws.sizes["chain"], draws.sizes["draw"])
        return draws.assign(innovation=(("chain", "draw"), np.full(shape, float(not fit.is_point))))

    def conditional_moments(
        self, fit: Fit, rows: MultiTaskData, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and standard deviation (1, n) of f, of real responses by "map" and "exact", in closed form."""
        if fit.method == "nuts" or self.likelihood.labels:
            return None
        assert isinstance(rows, LocalRows)
        choice = choice_of(fit)
        value, spread = local_values(rows, choice.bandwidth, choice.lam)
        return value[None], choice.noise * np.sqrt(spread)[None]

    def coefficients(
        self, fit: Fit, t: Any = None, task: Any = None, ci_prob: float = 0.9, random_seed: Any = None
    ) -> xr.Dataset:
        """What :meth:`Fit.coefficients` does, in closed form."""
        probability(ci_prob, "ci_prob")
        if task is not None:
            raise ValueError(
                "task is given, but coefficients of local fits vary over t alone. Leave task out."
            )
        places = read_places(fit, t, None)[0]
        assert places is not None
        found = coefficients_at(fit, places)
        table = normal_summary(found.mean, found.sd, ci_prob)
        columns = {name: ("place", places[:, i]) for i, name in enumerate(fit.data.t_names or ())}
        return xr.Dataset(
            {name: (("feature", "place"), values.T) for name, values in table.items()},
            coords={"feature": list(found.feature_names), "place": np.arange(len(places)), **columns},
            attrs={"ci_prob": ci_prob},
        )

    def pointwise_log_likelihood(
        self, data: MultiTaskData, y: np.ndarray, posterior: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Log density (S, N) of each row at its own place."""
        assert isinstance(data, LocalRows)
        # As rows to predict they need neither the neighbours nor the choice of bandwidth again.
        return super().pointwise_log_likelihood(replace(data, predicted=True), y, posterior)

    def restore(self, fit: Fit) -> KnownRows:
        """The rows of the fit, which local fits at other places need."""
        return KnownRows(self, fit.data)

    # ---------------------------------------------------------------- engines

    def choose_method(self, method: str | None, data: MultiTaskData) -> str:
        """The method that a fit takes; raises where the data are too wide for it."""
        name = super().choose_method(method, data)
        require_narrow(data, "a regression at every place", 'Use VaryingCoefficientGP(), by method "exact".')
        return name

    def method_table(self) -> list[Method]:
        """Inference methods with these fields, best first."""
        point = Method(
            "map",
            "the local fits: the mode of the composite likelihood and its prior",
            self._fit_map,
            law="point",
            weights=True,
        )
        if self.likelihood.labels:
            return [point, *super().method_table()]
        exact = Method(
            "exact",
            "independent draws of the coefficients at each place, given noise, in closed form",
            self._fit_exact,
            given_estimates=True,
            weights=True,
            independent=True,
        )
        return [point, exact, *super().method_table()]

    def _fit_map(self, data: Any, y: np.ndarray, run: Run) -> Result:
        known, choice = data.known, data.known.choice
        w = np.empty((len(known.places), data.n_features * (1 + self.degree * data.t.shape[1])))
        for i, (fit,) in enumerate(fits_at(known, known.places, choice)):
            w[i] = fit.mean
        return Result(self._posterior(data, w[None, None]), {"estimate": np.ones((1, 1), dtype=bool)})

    def _fit_exact(self, data: Any, y: np.ndarray, run: Run) -> Result:
        known, choice = data.known, data.known.choice
        size = data.n_features * (1 + self.degree * data.t.shape[1])
        shape = (run.chains, run.draws)
        n_values = run.chains * run.draws * len(known.places) * size
        if n_values > _MOST_IN_DRAWS:
            raise UnsupportedMethodError(
                f'method "exact" would hold {n_values} numbers: draws of {size} coefficients at {len(known.places)} '
                'places. Give fewer draws, or use method "map", whose predictions have the same mean and sd.'
            )
        rng = np.random.default_rng(run.random_seed)
        w = np.empty((*shape, len(known.places), size))
        for i, (fit,) in enumerate(fits_at(known, known.places, choice)):
            white = rng.standard_normal((size, run.chains * run.draws))
            spread = solve_triangular(fit.factor, white, lower=True, trans="T", check_finite=False)
            w[:, :, i] = fit.mean + choice.noise * spread.T.reshape(*shape, size)
        return Result(self._posterior(data, w), {"independent": np.ones(shape, dtype=bool)})

    def _posterior(self, data: LocalRows, w: np.ndarray) -> xr.Dataset:
        """The variables of the model from local coefficients (chain, draw, place, M + slopes)."""
        choice, M, names = data.known.choice, data.n_features, self.coords(data)
        shape = w.shape[:2]
        variables: dict[str, Any] = {
            name: (("chain", "draw"), np.full(shape, getattr(choice, name)))
            for name in ("bandwidth", "lam", *self.likelihood.parameter_names)
        }
        dims = ("chain", "draw", "feature", "place")
        variables["coefficients"] = (dims, np.ascontiguousarray(np.swapaxes(w[..., :M], 2, 3)))
        coords = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
        coords |= {name: names[name] for name in ("feature", "place")}
        if self.degree:
            slopes = w[..., M:].reshape(*w.shape[:3], -1, M)
            variables["slopes"] = (
                ("chain", "draw", "t_column", "feature", "place"),
                np.ascontiguousarray(np.moveaxis(slopes, 2, 4)),
            )
            coords["t_column"] = names["t_column"]
        return xr.Dataset(variables, coords=coords)


# ---------------------------------------------------------------- coefficients at any place


def _constant(value: float) -> Any:
    # PyTensor would hold a number such as 1.0 in single precision.
    return pt.constant(np.float64(value), dtype="float64")

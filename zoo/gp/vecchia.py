r"""Gaussian processes of many rows in a PyMC model, by Vecchia's approximation.

With the rows in an order, and c(i) the m nearest of those before row i,

.. math:: p(y) \approx \prod_i p(y_i \mid y_{c(i)}),

each factor by kriging from m rows (Vecchia 1988; Katzfuss & Guinness 2021). The product is a density itself, that of a
normal law with a sparse precision. With m = N - 1 it is the exact one. Noisy responses are conditioned on as they are,
noise included, so that nothing of the size of all rows is factorised: the cost is N m^3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.cov import BaseCovariance
from pymc.gp.gp import Base
from pymc.gp.mean import Zero
from pymc.gp.util import JITTER_DEFAULT, replace_with_values
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from zoo.gp.given_neighbours import weights_of, weights_of_part
from zoo.gp.neighbour_law import (
    Neighbours,
    less_neighbours,
    made_of,
    nearest_given,
    neighbour_normal,
    neighbours_of,
)
from zoo.gp.rows import responses_of, rows_of, unless_changed
from zoo.latent.vecchia_order import ORDERS
from zoo.support.checks import whole_number

__all__ = ["Vecchia"]

_ORDERINGS = (*ORDERS, "given")


class _Observed(NamedTuple):
    """Rows as they were given and as numbers (N, D), responses (N,), the sd of their noise, and the process of them."""

    X: Any
    rows: np.ndarray
    y: Any
    sigma: Any
    total: Any


class Vecchia(Base):
    """A Gaussian process of thousands of rows, each given its nearest ones; used as the classes of ``pymc.gp``.

    ::

        with pm.Model():
            scale = pm.InverseGamma("scale", 3, 3, shape=2)
            size = pm.HalfNormal("size", 2)
            gp = zoo.gp.Vecchia(cov_func=size**2 * pm.gp.cov.Matern32(2, ls=scale))
            gp.marginal_likelihood("y", X=X, y=y, sigma=pm.HalfNormal("sigma", 1))
            idata = pm.sample()
            gp.conditional("f", Xnew)
            at_new = pm.sample_posterior_predictive(idata, var_names=["f"])

    Parameters
    ----------
    n_neighbours : int
        Rows that each row is conditioned on, m.
    n_neighbours_predict : int
        Rows with responses that each new row is conditioned on.
    neighbour_scales : (D,) array, optional
        Units of the columns of X in which distances of neighbours compare: lengthscales, where you know them. ``inf``
        leaves out a column, such as the one of ``pm.gp.cov.Coregion``. By default the standard deviations of the
        columns. They change which rows are neighbours, and never the covariance.
    ordering : {"maxmin", "random", "given"}
        The order of the rows: each far from all before it (at a cost of N^2), random, or as they stand, which suits
        series in time.
    ordering_seed : int
        Of "random", and of the choice among rows at equal distance.
    compiled : bool, optional
        Whether weights of neighbours come from compiled code, in memory of N m numbers. It knows sums of Matern,
        exponential and squared exponential kernels, each times a scalar, and constants. By default where it serves.
        False makes them a graph of PyTensor's own operations, which holds some 80 N (m + 1)^2 bytes and is what JAX
        needs.
    mean_func : pymc.gp.mean.Mean
    cov_func : pymc.gp.cov.BaseCovariance
        Any one; sums and products too.

    Notes
    -----
    Neighbours are found once, when the model is built. Rows of X may be data of the model (``pm.Data``), as long as
    they do not change afterwards.
    """

    def __init__(
        self,
        n_neighbours: int = 20,
        *,
        n_neighbours_predict: int = 100,
        neighbour_scales: Any = None,
        ordering: str = "maxmin",
        ordering_seed: int = 0,
        compiled: bool | None = None,
        mean_func: Any = None,
        cov_func: BaseCovariance,
    ):
        self.n_neighbours = whole_number(n_neighbours, "n_neighbours", 1)
        self.n_neighbours_predict = whole_number(n_neighbours_predict, "n_neighbours_predict", 1)
        self.ordering_seed = whole_number(ordering_seed, "ordering_seed", 0)
        if ordering not in _ORDERINGS:
            raise ValueError(f"ordering is {ordering!r}. Use one of {', '.join(map(repr, _ORDERINGS))}.")
        self.ordering, self.neighbour_scales = ordering, neighbour_scales
        if not isinstance(cov_func, BaseCovariance):
            raise TypeError(
                f"cov_func is {cov_func!r}. Give a covariance function of pm.gp.cov, or one of a subclass of its "
                "Covariance."
            )
        if compiled not in (None, True, False):
            raise ValueError(f"compiled is {compiled!r}. Use True, False or None.")
        self.compiled = compiled
        super().__init__(mean_func=Zero() if mean_func is None else mean_func, cov_func=cov_func)

    def __add__(self, other: Any) -> Vecchia:
        """The sum of two processes, whose neighbours must be chosen in the same way."""
        if not isinstance(other, Vecchia):
            raise TypeError(f"a Vecchia process cannot be added to a {type(other).__name__}.")
        for name in ("n_neighbours", "n_neighbours_predict", "ordering", "ordering_seed", "compiled"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r} in one process and {getattr(other, name)!r} in the other. "
                    "A sum needs the same."
                )
        own, others = (np.atleast_1d(np.asarray(v.neighbour_scales, dtype=np.float64)) for v in (self, other))
        if not np.array_equal(own, others, equal_nan=True):
            raise ValueError("neighbour_scales of the two processes differ. A sum needs the same.")
        return self._with(self.mean_func + other.mean_func, self.cov_func + other.cov_func)

    def _with(self, mean_func: Any, cov_func: Any) -> Vecchia:
        return type(self)(
            self.n_neighbours,
            n_neighbours_predict=self.n_neighbours_predict,
            neighbour_scales=self.neighbour_scales,
            ordering=self.ordering,
            ordering_seed=self.ordering_seed,
            compiled=self.compiled,
            mean_func=mean_func,
            cov_func=cov_func,
        )

    def _units(self, X: np.ndarray) -> np.ndarray:
        """Units (D,) in which distances of neighbours compare; infinite for columns that do not count."""
        if self.neighbour_scales is None:
            spread = X.std(axis=0)
            return np.where(spread > 0.0, spread, np.inf)
        scales = np.asarray(self.neighbour_scales, dtype=np.float64)
        if scales.shape != (X.shape[1],) or not (scales > 0.0).all():
            raise ValueError(
                f"neighbour_scales is {self.neighbour_scales!r}. Give one positive number for each of the "
                f"{X.shape[1]} columns of X, or inf for a column that does not count."
            )
        return scales

    def _neighbours(self, X: np.ndarray, units: np.ndarray) -> Neighbours:
        rng = np.random.default_rng(self.ordering_seed)
        return neighbours_of(_places(X, units), self.n_neighbours, self.ordering, rng)

    def marginal_likelihood(self, name: str, X: Any, y: Any, sigma: Any, **kwargs: Any) -> Any:
        """The law of responses with normal noise: an observed variable of the model.

        Parameters
        ----------
        name : str
        X : (N, D) array, data frame or ``pm.Data``
        y : (N,) array or ``pm.Data``
        sigma : float, scalar variable or (N,) vector
            Standard deviation of the noise.
        **kwargs
            ``dims`` and others that PyMC's distributions take.

        Raises
        ------
        ValueError
            X is not a table of finite numbers with the columns of ``cov_func``, y has another number of rows or
            missing values, or the noise is a covariance.
        NotImplementedError
            The covariance function is made of operations that cannot be repeated over sets of rows.
        """
        rows = rows_of(X, "X", self.cov_func)
        y = responses_of(y, "y", len(rows))
        sigma = _noise(sigma, len(rows))
        self.X, self.y, self.sigma, self._rows = X, y, sigma, rows
        base, weights, variance, neighbours = self._law(X, rows, sigma**2)
        return neighbour_normal(name, base, weights, variance, neighbours, observed=y, **kwargs)

    def prior(
        self, name: str, X: Any, reparameterize: bool = True, jitter: float = JITTER_DEFAULT, **kwargs: Any
    ) -> Any:
        """The function at the rows as a variable of the model, for any likelihood.

        Each value is given those of the nearest rows before it. What is sampled are the functions themselves: NUTS
        takes minutes for thousands of them.

        Parameters
        ----------
        name : str
        X : (N, D) array, data frame or ``pm.Data``
        reparameterize : bool
            Whether the sampled variable is ``{name}_rotated_``, standard normal, of which the function is made one row
            after the other (no JAX); otherwise it is the function itself. The first suits data that say little of each
            row.
        jitter : float
            Added to the variances, of which rows alike need some.
        **kwargs
            ``dims`` and others that PyMC's distributions take.

        Raises
        ------
        ValueError, NotImplementedError
            As for :meth:`marginal_likelihood`.
        """
        rows = rows_of(X, "X", self.cov_func)
        base, weights, variance, neighbours = self._law(X, rows, pt.constant(float(jitter)))
        if reparameterize:
            white = pm.Normal(f"{name}_rotated_", 0.0, 1.0, size=len(rows))
            f = pm.Deterministic(
                name, made_of(base + pt.sqrt(variance) * white, weights, neighbours), **kwargs
            )
        else:
            f = neighbour_normal(name, base, weights, variance, neighbours, **kwargs)
        self.X, self.y, self.sigma, self._rows = X, f, pt.constant(np.sqrt(float(jitter))), rows
        return f

    def _law(self, X: Any, rows: np.ndarray, noise: Any) -> tuple[Any, Any, Any, Neighbours]:
        """What each row's neighbours say of it, where variances have ``noise`` () or (N,) more."""
        neighbours = self._neighbours(rows, self._units(rows))
        # A mean of zero does not read the rows, so the noise, which every factor has, watches over them.
        noise = unless_changed(noise + pt.zeros(len(rows)), X, rows)
        weights, variance = weights_of(self.cov_func, rows, neighbours.sets, noise, self.compiled)
        mean = self.mean_func(pt.constant(rows))
        return less_neighbours(mean, weights, neighbours), weights, variance, neighbours

    def conditional(
        self,
        name: str,
        Xnew: Any,
        pred_noise: bool = False,
        given: dict[str, Any] | None = None,
        jitter: float = JITTER_DEFAULT,
        **kwargs: Any,
    ) -> Any:
        """The joint law of the process at new rows given the responses: a variable of the model.

        Each new row is given its ``n_neighbours_predict`` nearest rows with responses, and the ``n_neighbours`` nearest
        of the new rows before it, so that draws at many places are one surface.

        Parameters
        ----------
        name : str
        Xnew : (n, D) array or data frame
        pred_noise : bool
            Whether the noise of a response is added.
        given : dict, optional
            ``X``, ``y``, ``sigma`` and ``gp`` of the sum that has responses, where this process is a part of a sum.
        jitter : float
            Added to the variances of new rows, of which two may be alike.
        **kwargs
            ``dims`` and others that PyMC's distributions take.

        Raises
        ------
        ValueError
            Xnew has other columns, nothing has been observed, or every row has a noise of its own and ``pred_noise``
            is set.
        """
        new = rows_of(Xnew, "Xnew", self.cov_func)
        neighbours = self._neighbours(new, self._units(self._given(given).rows))
        own = self._new_noise(pred_noise, given) + jitter
        mean, weights, variance = self._given_responses(new, neighbours, own, given)
        base = less_neighbours(self.mean_func(new), weights, neighbours) + mean
        return neighbour_normal(name, base, weights, variance, neighbours, **kwargs)

    def predict(
        self,
        Xnew: Any,
        point: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
        diag: bool = True,
        pred_noise: bool = False,
        model: pm.Model | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of the process at each new row, at one point of the parameters.

        Parameters
        ----------
        Xnew : (n, D) array or data frame
        point : dict, optional
            Values of the model's variables, as ``pm.find_MAP`` returns them.
        given : dict, optional
            As for :meth:`conditional`.
        diag : bool
            Only True: covariances of many new rows are not formed. Draw from :meth:`conditional` for joint laws.
        pred_noise : bool
        model : pm.Model, optional

        Raises
        ------
        ValueError
            ``diag`` is False; and as for :meth:`conditional`.
        """
        if not diag:
            raise ValueError(
                "diag is False, but covariances of new rows are not formed. Draw from conditional()."
            )
        new = rows_of(Xnew, "Xnew", self.cov_func)
        alone = Neighbours(np.arange(len(new)), np.empty((len(new), 0), dtype=np.int64))
        mean, _, variance = self._given_responses(new, alone, self._new_noise(pred_noise, given), given)
        found = replace_with_values([self.mean_func(new) + mean, variance], replacements=point, model=model)
        return found[0], found[1]

    def _given(self, given: dict[str, Any] | None) -> _Observed:
        """Rows, responses, noise and process of what was observed."""
        given = given or {}
        unknown = sorted(set(given) - {"X", "y", "sigma", "gp"})
        if unknown:
            raise ValueError(f"given holds {unknown[0]!r}. It may have X, y, sigma and gp.")
        total = given.get("gp", self)
        found = [given.get(name, getattr(total, name, None)) for name in ("X", "y", "sigma")]
        if any(v is None for v in found):
            raise ValueError(
                "nothing has been observed: call marginal_likelihood() or prior() first, or give X, y, sigma and gp in "
                "given."
            )
        X, y, sigma = found
        # Rows that the process has read once are remembered: data of the model may have changed since.
        rows = None if "X" in given else getattr(total, "_rows", None)
        if rows is None:
            rows = rows_of(X, "X of given", total.cov_func)
        # Functions of the model that were not observed, or a graph of them, are responses without noise.
        y = y if isinstance(y, Variable) else responses_of(y, "y of given", len(rows))
        return _Observed(X, rows, y, _noise(sigma, len(rows)), total)

    def _new_noise(self, pred_noise: bool, given: dict[str, Any] | None) -> Any:
        if not pred_noise:
            return pt.constant(0.0)
        _, _, y, sigma, _ = self._given(given)
        if isinstance(y, Variable) and not isinstance(y, SharedVariable):
            raise ValueError(
                "pred_noise is True, but prior() has no noise: its function meets a likelihood that you write. Leave "
                "pred_noise out, and use the likelihood at the new rows."
            )
        if sigma.ndim:
            raise ValueError(
                "pred_noise is True, but sigma has one value for each row with a response, and none for new rows. "
                "Leave it out, and add the noise yourself."
            )
        return sigma**2

    def _given_responses(
        self, new: np.ndarray, neighbours: Neighbours, own: Any, given: dict[str, Any] | None
    ) -> tuple[Any, Any, Any]:
        """What responses say of new rows: the part of the mean that is theirs; weights of new rows, and variances."""
        X, rows, y, sigma, total = self._given(given)
        noise_of_rows = unless_changed(sigma**2 + pt.zeros(len(rows)), X, rows)
        rng = np.random.default_rng(self.ordering_seed)
        units = self._units(rows)
        near = nearest_given(_places(rows, units), _places(new, units), self.n_neighbours_predict, rng)
        if total is self:
            n, table = len(rows), np.vstack([rows, new])
            sets = np.hstack([near, np.where(neighbours.sets >= 0, n + neighbours.sets, -1)])
            noise = pt.concatenate([noise_of_rows, own + pt.zeros(len(new))])
            weights, variance = weights_of(self.cov_func, table, sets, noise, self.compiled)
        else:
            weights, variance = weights_of_part(
                self.cov_func, total.cov_func, rows, near, noise_of_rows, new, neighbours.sets, own
            )
        m = near.shape[1]
        rest = pt.as_tensor(y) - total.mean_func(pt.constant(rows))
        return pt.sum(weights[:, :m] * rest[near], axis=-1), weights[:, m:], variance


def _places(X: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The columns in which neighbours are looked for, in their units."""
    return (X / units)[:, np.isfinite(units)]


def _noise(sigma: Any, n: int) -> Any:
    """The standard deviation of the noise as a tensor () or (n,)."""
    if isinstance(sigma, BaseCovariance):
        raise ValueError(
            "sigma is a covariance. Give the standard deviation of the noise: a number, or one for each row."
        )
    sigma = pt.as_tensor(sigma, dtype="float64")
    if sigma.ndim > 1 or (sigma.ndim == 1 and sigma.type.shape[0] not in (None, n)):
        raise ValueError(
            f"sigma has the shape {sigma.type.shape}, but X has {n} rows. Give a number, or one for each row."
        )
    return sigma

r"""The matrix-normal sampler in the span of the inputs, for fewer inputs than features.

The covariance of features is given, :math:`\Omega = L L'`, and that of tasks R is learned or given. In white
coordinates, :math:`\eta = L a` with :math:`a \sim MN(0, I_D, R)`, the rows see :math:`h = V'a` alone, where the columns
of V (D, r) are an orthonormal basis of the span of the rows of XL. Given R, h is :math:`MN(0, I_r, R)` and independent
of :math:`g = (I - V V') a`. So

.. math:: p(h, g, R \mid y) \propto p(y \mid h)\, p(h \mid R)\, p(R)\, p(g \mid R) .

The hierarchy of (h, R) with g integrated out is the same one with r features for D, inputs XLV and the identity for
:math:`\Omega`: the engine samples it as it is, at O(T r^3) for O(T D^3). A draw of g given R, exact and new in every
sweep, makes it a draw of :math:`\eta = L (V h + g)`. This holds since R and :math:`\Omega` are independent a priori and
:math:`\Omega` is known; of a learned one the rows say something outside of their span as well, through R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from zoo.inference.gibbs.matrix_normal import CovariancePrior, MatrixNormalKernel
from zoo.inference.row_span import row_span

__all__ = ["SpanKernel"]


@dataclass(frozen=True, eq=False)
class SpanKernel(MatrixNormalKernel):
    """Markov kernel of the hierarchy; make it with :meth:`of`.

    Parameters
    ----------
    root : (D, D) array or None
        L; None is the identity.
    V : (D, r) array
        The basis of the span, in white features.
    """

    root: np.ndarray | None = None
    V: Any = None

    @classmethod
    def of(cls, inputs: np.ndarray, feature_prior: CovariancePrior, **fields: Any) -> SpanKernel:
        """The kernel of inputs (n, D) with a given covariance of features; ``fields`` as for the base class."""
        given = feature_prior.given
        if given is None:
            raise ValueError("feature_prior is learned. Use MatrixNormalKernel.")
        root = None if np.array_equal(given, np.eye(len(given))) else np.linalg.cholesky(given)
        span = row_span(inputs, root)
        inside = CovariancePrior(nu=0.0, given=np.eye(span.inputs.shape[1]))
        return cls(inputs=span.inputs, feature_prior=inside, root=root, V=span.V, **fields)

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state."""
        state = super().initialise(rng, threads)
        state["outside"] = np.zeros((len(self.V), self.n_tasks))
        self._draw_outside(rng, state)
        return state

    def _draw_outside(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """What no row sees, from its prior given the covariance of tasks."""
        prior = rng.standard_normal(state["outside"].shape)
        if state["P"].size:
            factor = np.linalg.cholesky(state["P"])
            prior = solve_triangular(factor, prior.T, lower=True, trans="T").T
        state["outside"][:] = prior - self.V @ (self.V.T @ prior)

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """A sweep inside of the span, and a new draw of what is outside."""
        super().sweep(rng, state)
        self._draw_outside(rng, state)

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put coefficients (D, T) and what is learned beside them into the state."""
        white = values["coefficients"]
        if self.root is not None:
            white = solve_triangular(self.root, white, lower=True)
        inside = self.V.T @ white
        super().set_values(state, {**values, "coefficients": inside})
        state["outside"][:] = white - self.V @ inside

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """As the base class, with what is outside."""
        return {**super().snapshot(state), "outside": state["outside"].copy()}

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        super().restore(state, snapshot)
        state["outside"][:] = snapshot["outside"]

    def raw(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The draw with the coefficients (D, T) of all features."""
        draw = super().raw(state)
        white = self.V @ draw["coefficients"] + state["outside"]
        return {**draw, "coefficients": white if self.root is None else self.root @ white}

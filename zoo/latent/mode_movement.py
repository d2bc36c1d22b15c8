r"""How a mode moves with hyper-parameters: by the second derivative of the log density, whatever Laplace's W is.

At a mode :math:`K^{-1} \hat f = \nabla \log p(y|\hat f)`, so that a change of K or of the slopes moves it by
:math:`(K^{-1} + H)^{-1}` times that of the gradient, with H minus the second derivative. Where W is the expected
information, as for densities that are not concave, H is another diagonal matrix, of any sign; systems with it are
solved by iterations that those with W precondition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from zoo.inference.responses import Density, Responses

__all__ = ["second_derivative", "solve_near"]

# Of the difference quotient of a slope.
_STEP = 1e-5
_RESIDUAL, _MOST_STEPS = 1e-9, 200


def second_derivative(
    responses: Responses, density: Density, f: np.ndarray, parameters: np.ndarray
) -> np.ndarray | None:
    """Minus the second derivative (n,) of the log density at f; None where that is the information.

    ``density.curvature`` leaves out what is below 0.
    """
    if np.array_equal(density.information, density.curvature):
        return None
    above, below = (responses.density(f + step, parameters).slope for step in (_STEP, -_STEP))
    return np.asarray((below - above) / (2.0 * _STEP))


def solve_near(
    product: Callable[[np.ndarray], np.ndarray], near: Callable[[np.ndarray], np.ndarray], right: np.ndarray
) -> np.ndarray:
    """Solve ``product(x) = right``, where ``near`` solves a system that is much like it."""
    n = len(right)
    found, _ = gmres(
        LinearOperator((n, n), matvec=product, dtype=np.float64),
        right,
        M=LinearOperator((n, n), matvec=near, dtype=np.float64),
        rtol=_RESIDUAL,
        restart=min(n, _MOST_STEPS),
        maxiter=1,
    )
    return np.asarray(found)

r"""Tasks that see the features through maps of their own: evgeniou2005 eqs (10), (33) and (34).

.. math:: K((x, \ell), (t, q)) = (x' B_\ell' B_q\, t)^r \quad\text{or}\quad G(B_\ell x, B_q t)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pymc.gp import cov
from pytensor.graph.basic import Variable

from zoo.kernels.arguments import number_of_tasks, parameter, required, tensor
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.regulariser import MapRegulariser, Regulariser
from zoo.kernels.task_kernel import TaskKernel
from zoo.support.checks import finite_matrix, whole_number

__all__ = ["FeatureMap"]


class FeatureMap(TaskKernel):
    r"""A kernel of :math:`B_\ell x`: linear (10), polynomial (33), or any covariance (lemma 2), as the Gaussian.

    Parameters
    ----------
    input_dim, task_names, active_dims
        As for :class:`~zoo.kernels.task_kernel.TaskKernel`.
    B : (T, p, D) array or tensor
        The maps, one per task.
    degree : int
        r of eq (33).
    kernel : pm.gp.cov.Covariance, optional
        G on the p mapped features, in place of the polynomial.
    n_tasks : int, optional
        T, where ``B`` is a tensor of unknown shape.
    """

    parameters: ClassVar[dict[str, str]] = {"B": "real", "degree": "fixed"}
    covariances: ClassVar[tuple[str, ...]] = ("kernel",)

    def __init__(
        self,
        input_dim: int | None = None,
        B: Any = None,
        degree: int = 1,
        kernel: Any = None,
        *,
        n_tasks: int | None = None,
        task_names: Any = None,
        active_dims: Any = None,
    ):
        self.B = parameter(required(B, "B"), "B", ndim=(3,))
        n_tasks = number_of_tasks(self.B, n_tasks, "B", task_names)
        _, p, D = self.B.type.shape if isinstance(self.B, Variable) else self.B.shape
        input_dim = D + 1 if input_dim is None and D is not None else input_dim
        super().__init__(input_dim, n_tasks, task_names=task_names, active_dims=active_dims)
        self._require_features(D, "B")
        self.degree = whole_number(degree, "degree")
        self.kernel = kernel
        if kernel is None:
            return
        if not isinstance(kernel, cov.BaseCovariance):
            raise TypeError(f"kernel is a {type(kernel).__name__}. Give a covariance of pm.gp.cov.")
        if self.degree != 1:
            raise ValueError("degree is of the polynomial, and kernel takes its place. Give one of the two.")
        needed = getattr(kernel, "input_dim", p)
        if p not in (None, needed):
            raise ValueError(f"kernel has input_dim {needed}, and B maps to {p} features. Make them equal.")

    @classmethod
    def from_domains(cls, dims: Any, maps: Any, **arguments: Any) -> FeatureMap:
        r"""Tasks with features of their own, end of section 5.1: :math:`B_\ell = D_\ell P_\ell`.

        The inputs hold the columns of every task's domain side by side, and the task last; a task reads its own
        columns, whatever the others hold.

        Parameters
        ----------
        dims : sequence of int
            Number of features :math:`d_\ell` of each task.
        maps : sequence of (p, d_l) arrays
            :math:`D_\ell`, each task's map to the features that all share.
        **arguments
            ``degree``, ``kernel``, ``task_names``.
        """
        dims = [whole_number(d, "dims") for d in dims]
        matrices = [finite_matrix(D, f"maps[{i}]", None) for i, D in enumerate(maps)]
        if len(matrices) != len(dims):
            raise ValueError(
                f"maps has {len(matrices)} matrices, and dims {len(dims)} tasks. Give one per task."
            )
        for i, (D, d) in enumerate(zip(matrices, dims, strict=True)):
            if D.shape != (len(matrices[0]), d):
                raise ValueError(f"maps[{i}] has shape {D.shape}. Give {(len(matrices[0]), d)}.")
        B = np.zeros((len(dims), len(matrices[0]), sum(dims)))
        for i, end in enumerate(np.cumsum(dims)):
            B[i, :, end - dims[i] : end] = matrices[i]
        return cls(sum(dims) + 1, B, **arguments)

    def task_matrix(self) -> Any:
        r""":math:`\operatorname{tr}(B_\ell' B_q) / D`: the covariance of linear tasks, averaged over the features."""
        flat = tensor(self.B).reshape((self.n_tasks, -1))
        return flat @ flat.T / tensor(self.B).shape[2]

    def full(self, X: Any, Xs: Any = None) -> Any:
        """Covariance of the rows of ``X`` (and ``Xs``) as a PyTensor variable, (n, m)."""
        z = self._mapped(X)
        s = None if Xs is None else self._mapped(Xs)
        if self.kernel is not None:
            return self.kernel(z, s)
        return (z @ (z if s is None else s).T) ** self.degree

    def diag(self, X: Any) -> Any:
        """Variance of the rows of ``X`` as a PyTensor variable, (n,)."""
        z = self._mapped(X)
        if self.kernel is not None:
            return self.kernel(z, diag=True)
        return pt.sum(z**2, axis=1) ** self.degree

    def _mapped(self, X: Any) -> Any:
        """``B_l x`` of each row, (n, p)."""
        x, task = self.split(X)
        return pt.sum(tensor(self.B)[task] * x[:, None, :], axis=2)

    def regulariser(self) -> Regulariser:
        """``u'Eu``, proposition 1, of the linear kernel (10)."""
        if self.degree != 1 or self.kernel is not None:
            raise TypeError(
                "the kernel is not linear in x, so its functions have no coefficients. Use degree=1."
            )
        B = fixed_number(self.B)
        if B is None:
            raise TypeError("B is random or symbolic, and so has no numbers. Give numbers.")
        return MapRegulariser(B, self.task_names, self.formula())

    def formula(self) -> str:
        """Proposition 1."""
        return "J(u) = u'Eu, E the pseudo-inverse of B'B, B = [B_1 .. B_T] (proposition 1)"

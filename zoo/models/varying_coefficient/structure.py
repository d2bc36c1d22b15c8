r"""Which structure the data ask for: smoothness, one scale or many, a level apart, and which coefficients vary.

Structures are compared by the log evidence of random rows S, at most 2,000 of N, each given its nearest ones (V6): a
sum of what the model says of each row before it sees it, at the :math:`\hat\theta` that makes the sum largest. With k
hyper-parameters such a maximum is too large by k/2 on average, for n = \|S\| rows as for N. So the criterion of Schwarz
(1978) for all rows, :math:`\ell_N(\hat\theta_N) - \tfrac k2 \log N`, is for one part in N/n of the rows about

.. math:: \mathrm{score} = \sum_{i \in S} \log p(y_i \mid y_{c(i)}, \hat\theta)
    - \frac k2 \Big( 1 + \frac nN (\log N - 1) \Big),

which is that criterion where S has all rows. The search takes, again and again, the change that raises the score most,
and then leaves out features whose coefficients need not vary. It is greedy: combinations of changes, each of which
lowers the score, are not found.

Functions of the features that are not linear need many rows before they predict well. The evidence counts what they
cost meanwhile, and says little of what they do with all rows. So such a model is searched for by its score among its
like, and compared with the best one that has coefficients by how well rows are predicted that were held out of the
fits of both (:mod:`zoo.models.varying_coefficient.held_out`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pymc as pm

from zoo.core.data_use import require_data_used
from zoo.core.fit import Fit
from zoo.core.methods import UnsupportedMethodError
from zoo.data.multitask import MultiTaskData
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.structure_search import StructureSearch
from zoo.support.checks import flag

__all__ = ["ChoosesStructure", "Structure"]


@dataclass(frozen=True)
class Structure:
    """What :meth:`VaryingCoefficientGP.choose_structure` has found.

    Parameters
    ----------
    factory : VaryingCoefficientGP
        The best model, ready to be fitted.
    table : pandas.DataFrame
        One row for each structure that was tried, in the order of the search: the ``step`` of the search, the
        ``change`` that makes it of the structure before, its ``log_evidence`` for one row, the number of learned
        ``parameters``, its ``score``, and whether it was ``taken``. With ``curved=True`` the last two rows are the best
        model of each kind, and ``held_out`` is the mean score of rows that were held out of its fit: minus the
        continuous ranked probability score where the noise is normal, else the log density or log probability.
    changes : tuple of str
        The changes that were taken, in words. Empty where the model given is the best.
    """

    factory: Any
    table: pd.DataFrame
    changes: tuple[str, ...]

    def __repr__(self) -> str:
        if not self.changes:
            return f"Structure: none of {len(self.table) - 1} other structures is better"
        steps = "; ".join(self.changes)
        return f"Structure: {steps} ({len(self.table)} structures compared)"


@dataclass(frozen=True, kw_only=True)
class ChoosesStructure(VaryingDescription):
    """The search for a structure, of :class:`zoo.VaryingCoefficientGP`."""

    def choose_structure(self, data: MultiTaskData, curved: bool = False, progress: bool = True) -> Structure:
        """Compare structures of the model on some rows of the data, and return the best.

        The search starts from this model. It changes what the user said in words: the smoothness of each covariance
        ("matern12", "matern32" or "matern52"), whether the coefficients have one scale or one each, whether the
        intercept has a component of its own, and which features vary. Everything else stays: columns, covariances of
        ``pm.gp``, kernels of tasks, numbers that were given, and the likelihood.

        Parameters
        ----------
        data : MultiTaskData
            The rows that the model will be fitted to. Rows that are held out to judge the model must not be among them.
        curved : bool
            Whether functions of the features that are not linear count too (``instance_kernel="matern32"``). Such a
            model has no coefficients, and is taken if it predicts held-out rows better than the best that has them.
        progress : bool
            Whether each change that is taken is printed.

        Returns
        -------
        Structure
            ``.factory`` is the model to fit, and ``.table`` says what was compared.

        Raises
        ------
        UnsupportedMethodError
            The pilot fits take each row given its nearest ones, and this model has a part that they do not know.
        ValueError
            The data do not serve the model.

        Examples
        --------
        ::

            found = zoo.VaryingCoefficientGP().choose_structure(data)
            found.table.sort_values("score")
            fit = found.factory.fit(data)
        """
        flag(curved, "curved")
        self._require_pilot(data)
        self.validate(data)
        require_data_used(self, data)
        search = StructureSearch(replace(self, structure="given"), data, progress)
        search.climb()
        search.leave_out()
        if curved:
            search.try_curved()
        return Structure(search.best.factory, pd.DataFrame(search.table), tuple(search.changes))

    def build(self, data: MultiTaskData) -> pm.Model:
        """The PyMC model of these data, as :meth:`ModelFactory.build`; raises where ``fit`` is to choose it."""
        if self.structure != "given":
            raise ValueError(
                f"structure is {self.structure!r}: the data choose the model when it is fitted, so there is none to "
                "build before. Use choose_structure(data).factory.build(data), or fit.factory.build(data) after a fit."
            )
        return super().build(data)

    def fit_chosen(
        self, data: MultiTaskData, arguments: tuple[Any, ...], progress: bool, options: dict[str, Any]
    ) -> Fit:
        """Choose the structure by the rows of the fit, and fit the model that has it."""
        found = self.choose_structure(data, self.structure == "curved", progress)
        result = found.factory.fit(data, *arguments, **options)
        result.idata["posterior"].attrs["structure"] = "; ".join(found.changes) or "as given"
        return result

    def _require_pilot(self, data: MultiTaskData) -> None:
        """Raise where pilot fits would be of another model: as method "vecchia", by which they are made."""
        if self.own_priors:
            raise UnsupportedMethodError(
                "structures are compared by their evidence, and a prior of this model is the user's own, which only "
                "NUTS knows. Choose the structure without it."
            )
        try:
            self.choose_method("vecchia", data)
        except UnsupportedMethodError as error:
            raise UnsupportedMethodError(
                f"structures are compared by pilot fits in which each row is given its nearest ones. {error}"
            ) from None

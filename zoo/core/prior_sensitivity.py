"""How far a posterior follows its priors, by power scaling (Kallioinen et al. 2024, Statistics and Computing 34)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr
from pymc.stats import compute_log_prior

from zoo.core.methods import UnsupportedMethodError
from zoo.core.pymc_models import model_of_fit
from zoo.support.checks import one_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PriorSensitivity"]

# Variables with such a dim have a law that the others of the model say: they are no priors of a user's choice.
_LOWER = {"task", "obs", "point", "basis", "inducing", "place", "input_row"}


class PriorSensitivity:
    """What a fit can say of its priors."""

    def prior_sensitivity(
        self,
        var_names: str | Sequence[str] | None = None,
        prior_var_names: str | Sequence[str] | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """How much the posterior would change if its priors, or its likelihood, were a little stronger.

        Priors and likelihood are raised to a power near 1, and the draws are weighted by what that changes. A prior
        sensitivity above 0.05 says that the prior decides with the data; with a likelihood sensitivity below it, that
        the data say little.

        Parameters
        ----------
        var_names : str or sequence of str, optional
            Variables to show; default: those whose priors are scaled.
        prior_var_names : str or sequence of str, optional
            Variables whose priors are scaled together. Default: all that are not of single tasks, rows, or places. The
            law of the tasks given their population is part of the model, and scaling it would change what is asked.
        **options
            For :func:`arviz.psense_summary`.

        Returns
        -------
        pandas.DataFrame
            One row for each entry: ``prior``, ``likelihood``, and ``diagnosis``.

        Raises
        ------
        UnsupportedMethodError
            The fit is one estimate.
        ValueError
            A name is unknown, or the model has no such prior.
        NotImplementedError
            The model does not say the density of a prior.
        """
        return _sensitivity(self, var_names, prior_var_names, options)


def _sensitivity(fit: Any, var_names: Any, prior_var_names: Any, options: dict[str, Any]) -> pd.DataFrame:
    from arviz_stats import psense_summary  # slow to import

    if fit.is_point:
        raise UnsupportedMethodError(
            f"method {fit.method!r} gives one estimate, and a sensitivity is one of draws. Use another method."
        )
    model = model_of_fit(fit)
    free = {v.name: set(model.named_vars_to_dims.get(v.name) or ()) for v in model.free_RVs}
    if prior_var_names is None:
        scaled = [name for name, dims in free.items() if not dims & _LOWER]
        if not scaled:
            raise ValueError(
                f"{type(fit.factory).__name__} has no variable that is not of single tasks, rows or places. Name the "
                f"priors to scale in prior_var_names: {', '.join(free)}."
            )
    else:
        scaled = [prior_var_names] if isinstance(prior_var_names, str) else list(prior_var_names)
        for name in scaled:
            one_of(name, free, "prior_var_names")
    if "log_likelihood" not in fit.idata:
        fit.compute_log_likelihood()
    groups = {name: fit.idata[name].to_dataset() for name in ("posterior", "log_likelihood")}
    tree = xr.DataTree.from_dict(groups)
    compute_log_prior(tree, var_names=scaled, model=model, progressbar=False)
    shown = scaled if var_names is None else [var_names] if isinstance(var_names, str) else list(var_names)
    for name in shown:
        one_of(name, fit.posterior, "var_names")
    return psense_summary(tree, var_names=shown, **options)

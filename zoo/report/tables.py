"""Tables of a fit: its posterior in numbers, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.core.completeness import shortfall

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["complete", "summary_table", "units_table", "with_scale", "write_csv"]

# A larger variable (the task covariance of School has 19,321 entries) stands in the table by its scalars alone.
_LARGEST_VARIABLE = 5_000
# A cell of a table that begins with one of these runs as a formula in a spreadsheet.
_FORMULA_SIGNS = ("=", "+", "@", "\t", "\r")


def write_csv(frame: pd.DataFrame, path: Path, index: bool = True) -> None:
    """Write a table; eight significant digits, so that the file does not hang on the last bit.

    Text that a spreadsheet would take for a formula, as a name of a task that begins with "=", gets an apostrophe.
    """
    frame = frame.rename(columns=_harmless, index=_harmless)
    texts = [i for i, kind in enumerate(frame.dtypes) if not pd.api.types.is_numeric_dtype(kind)]
    for i in texts:
        frame.isetitem(i, [_harmless(cell) for cell in frame.iloc[:, i]])
    frame.to_csv(path, index=index, float_format="%.8g", lineterminator="\n")


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in _FORMULA_SIGNS else cell


def complete(fit: Fit) -> None:
    """Raise ``KeyboardInterrupt`` unless the fit has all its draws: Ctrl-C makes ``fit`` return what there is,
    and a command must not pass a part for the whole.
    """
    if shortfall(fit.idata):
        raise KeyboardInterrupt


def summary_table(fit: Fit) -> pd.DataFrame:
    """ArviZ's summary of the scalars that stand for the posterior, then of every variable that is not too large.

    Of a fit without draws the estimates alone.
    """
    if fit.is_point:
        return _estimates_table(fit)
    import arviz as az
    import xarray as xr

    from zoo.diagnostics import scalar_summaries

    posterior = fit.posterior
    scalars = scalar_summaries(posterior)
    added = scalars.drop_vars([name for name in scalars.data_vars if not str(name).startswith("log|")])
    sizes = posterior.sizes["chain"] * posterior.sizes["draw"]
    small = [name for name, values in posterior.items() if values.size // sizes <= _LARGEST_VARIABLE]
    tree = xr.DataTree.from_dict({"posterior": xr.merge([added, posterior[small]], join="outer")})
    # A variable that is the same in every draw has no R-hat: NaN, without a warning.
    with np.errstate(divide="ignore", invalid="ignore"):
        return az.summary(tree, round_to="none").rename_axis("name")


def units_table(fit: Fit) -> pd.DataFrame | None:
    """What all tasks have in common, in the units of the data: means of coefficients, shared ones, and the noise.

    None where the model has no coefficients of the features.
    """
    try:
        units = fit.in_data_units()
    except ValueError:
        return None
    common = [name for name, v in units.items() if not {"task", "feature_bis"} & set(v.dims)]
    rows = {}
    for name in common:
        values = units[name]
        dim = next((str(d) for d in values.dims if d not in ("chain", "draw")), None)
        for label in [None] if dim is None else values[dim].to_numpy():
            draws = (values if dim is None else values.sel({dim: label})).to_numpy().ravel()
            shown = {"mean": draws.mean()}
            if not fit.is_point:
                low, high = np.quantile(draws, [0.05, 0.95])
                shown |= {"sd": draws.std(), "5%": low, "95%": high}
            rows[str(name) if label is None else f"{name}[{label}]"] = shown
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name") if rows else None


def with_scale(summary: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """A summary as it is written: of standardized data each row says so, for its numbers are not the user's units."""
    return summary if fit.data.transform is None else summary.assign(scale="standardized data")


def _estimates_table(fit: Fit) -> pd.DataFrame:
    """The estimates of a fit without draws, of every variable that is not too large."""
    rows = {}
    for name, values in fit.posterior.isel(chain=0, draw=0, drop=True).items():
        if values.size > _LARGEST_VARIABLE:
            continue
        for at in np.ndindex(values.shape):
            labels = [str(values[dim].to_numpy()[i]) for dim, i in zip(values.dims, at, strict=True)]
            rows[f"{name}[{', '.join(labels)}]" if at else str(name)] = float(values.to_numpy()[at])
    return pd.DataFrame({"estimate": rows}).rename_axis("name")

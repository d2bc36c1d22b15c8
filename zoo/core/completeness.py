"""Whether a fit has all its draws: Ctrl-C makes ``fit`` return what there is, and the fit says so from then on."""

from __future__ import annotations

import xarray as xr

from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["mark_if_interrupted", "shortfall"]


def mark_if_interrupted(idata: xr.DataTree, draws: int, chains: int, point: bool) -> None:
    """Write into the attributes how many draws were asked for where there are fewer, and warn.

    An estimate is marked where its search says, in the sample statistics, that it was interrupted.
    """
    sizes = idata["posterior"].sizes
    if point:
        short = bool(idata["sample_stats"].attrs.get("interrupted", 0))
    else:
        short = (sizes["chain"], sizes["draw"]) != (chains, draws)
    if not short:
        return
    for group in ("posterior", "sample_stats"):
        idata[group].attrs.update(interrupted=1, draws_asked=int(draws), chains_asked=int(chains))
    warn_user(
        f"{shortfall(idata)}. The fit holds what there was; fit again, or with checkpoint=, for the rest."
    )


def shortfall(idata: xr.DataTree) -> str:
    """How the fit falls short of what was asked for; empty where it does not."""
    attrs, sizes = idata["sample_stats"].attrs, idata["posterior"].sizes
    if not attrs.get("interrupted", 0):
        return ""
    if (sizes["chain"], sizes["draw"]) == (1, 1):
        return "interrupted before the search for the estimate had come to its end"
    return (
        f"interrupted: {sizes['draw']} of {counted(attrs['draws_asked'], 'draw')}, "
        f"{sizes['chain']} of {counted(attrs['chains_asked'], 'chain')}"
    )

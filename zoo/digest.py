"""A digest of the numbers and names of a tree, by which a file shows that nothing in it was changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import xarray as xr

__all__ = ["tree_digest"]


def tree_digest(tree: xr.DataTree, groups: Iterable[str], texts: Iterable[str]) -> str:
    """Hexadecimal digest of the variables and coordinates of ``groups``, and of ``texts``.

    It depends on names, dims, kinds and values, and on no order of variables; attributes do not count.
    """
    whole = hashlib.blake2b(digest_size=16)
    for text in texts:
        _add(whole, text.encode())
    for group in groups:
        dataset = tree[group].to_dataset()
        for name in sorted(map(str, dataset.variables)):
            variable = dataset.variables[name]
            _add(whole, "/".join((group, name, *map(str, variable.dims))).encode())
            _add(whole, _bytes(variable.to_numpy()))
    return whole.hexdigest()


def _add(whole: hashlib.blake2b, part: bytes) -> None:
    # The length keeps parts apart: else "ab", "c" would be "a", "bc".
    whole.update(len(part).to_bytes(8, "little"))
    whole.update(part)


def _bytes(values: np.ndarray) -> bytes:
    if values.dtype.kind in "biuf":
        number = values.dtype.newbyteorder("<")
        return (
            repr((number.str, values.shape)).encode() + np.ascontiguousarray(values, dtype=number).tobytes()
        )
    return repr((values.shape, [str(v) for v in values.ravel()])).encode()

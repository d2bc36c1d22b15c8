"""Digests of numbers and names, by which a file shows that nothing in it was changed; and of the code of a class."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from types import CodeType
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["add_array", "code_digest", "tree_digest"]


def add_array(total: Any, label: Iterable[str], values: np.ndarray) -> None:
    """Add names, kind, shape and bytes of an array of numbers to a hash of ``hashlib``."""
    number = values.dtype.newbyteorder("<")
    total.update(json.dumps([*label, number.str, values.shape]).encode())
    total.update(np.ascontiguousarray(values, dtype=number).data)


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
            label, values = (group, name, *map(str, variable.dims)), variable.to_numpy()
            if values.dtype.kind in "biuf":
                add_array(whole, label, values)
            else:
                words = [str(value) for value in values.ravel()]
                _add(whole, json.dumps([*label, values.shape, words]).encode())
    return whole.hexdigest()


def code_digest(cls: type) -> str | None:
    """Hexadecimal digest of the methods and properties that classes outside of this package add; None without any.

    It knows a hook that was changed, whatever the name of its class. What the methods call elsewhere does not count.
    """
    own = [base for base in cls.__mro__ if base is not object and base.__module__.partition(".")[0] != "zoo"]
    whole = hashlib.blake2b(digest_size=16)
    for base in own:
        for name, member in sorted(vars(base).items()):
            for part in (member, *(getattr(member, side, None) for side in ("__func__", "fget"))):
                if isinstance(code := getattr(part, "__code__", None), CodeType):
                    _add(whole, f"{base.__qualname__}.{name}: {_described(code)}".encode())
    return whole.hexdigest() if own else None


def _described(constant: Any) -> str:
    """A constant of code as text that is the same in every process."""
    if isinstance(constant, CodeType):
        inner = [_described(value) for value in constant.co_consts]
        return f"{constant.co_code.hex()} {constant.co_names} {constant.co_freevars} {inner}"
    return str(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _add(whole: hashlib.blake2b, part: bytes) -> None:
    # The length keeps parts apart: else "ab", "c" would be "a", "bc".
    whole.update(len(part).to_bytes(8, "little"))
    whole.update(part)

"""Backend of the tests in this folder."""

from __future__ import annotations

import pytensor
import pytest


@pytest.fixture(autouse=True)
def backend(request):
    """Python operations, which need no compilation; the default backend for tests marked ``compiled``.

    ``tests/ops/test_pseudo_likelihoods.py`` compares the numbers of all backends, so that checking them on
    one is enough.
    """
    mode = "Mode" if request.node.get_closest_marker("compiled") else "FAST_COMPILE"
    with pytensor.config.change_flags(mode=mode):
        yield

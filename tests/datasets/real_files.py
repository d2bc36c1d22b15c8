"""The mark of tests that read real data."""

from __future__ import annotations

import os

import pytest

needs_files = pytest.mark.skipif(not os.environ.get("ZOO_DATA"), reason="ZOO_DATA is not set")

"""A test that every factory draws features that are missing, or refuses them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytensor
from pytensor.graph.traversal import ancestors

from zoo.core.missing_features import MISSING

__all__ = ["GapTests"]


class GapTests:
    """A mixin of :class:`zoo.testing.FactoryTestCase`."""

    def test_features_with_gaps_are_drawn_or_refused(self) -> None:
        """A model of features with gaps draws them, or says that it does not."""
        case: Any = self
        data, factory = case.make_data(), case.make_factory()
        if data.is_sparse or data.shares_inputs or not data.n_features:
            return
        inputs = np.array(data.inputs)
        inputs[0, 0] = inputs[-1, -1] = np.nan
        try:
            model = factory.build(replace(data, inputs=inputs, incomplete=True))
        except ValueError as error:
            assert "gaps" in str(error), f"the message does not name the gaps: {error}"
            return
        assert model[MISSING] in set(ancestors([model["y"]])), "y does not follow from the missing features"
        with pytensor.config.change_flags(mode="FAST_COMPILE"):
            densities = model.point_logps()
        assert all(np.isfinite(value) for value in densities.values()), densities

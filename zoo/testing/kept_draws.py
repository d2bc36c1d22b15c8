"""What every factory does with ``fit(keep=...)``: it does without the draws of its tasks, or says why it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.core.factory import ModelFactory
from zoo.core.methods import UnsupportedMethodError
from zoo.data.multitask import MultiTaskData
from zoo.support.warning_types import collected

__all__ = ["KeepTests"]


class KeepTests:
    """Tests that :class:`zoo.testing.FactoryTestCase` inherits."""

    def make_factory(self) -> ModelFactory:
        """The factory to test."""
        raise NotImplementedError

    def make_data(self) -> MultiTaskData:
        """Data that suit it."""
        raise NotImplementedError

    def test_keep(self) -> None:
        """Each method keeps less than all draws, and predicts the same tasks, or it refuses before it samples."""
        factory, data = self.make_factory(), self.make_data()
        run: dict[str, Any] = {"draws": 3, "tune": 2, "chains": 2, "random_seed": 1, "progress": False}
        for method in factory.methods:
            for keep in ("moments", "population"):
                if factory.refuses_keep(method, factory.design(data)):
                    try:
                        factory.fit(data, method, keep=keep, **run)
                    except UnsupportedMethodError as error:
                        assert f"keep={keep!r}" in str(error) and "keep='draws'" in str(error)
                        continue
                    raise AssertionError(f"method {method!r} takes keep={keep!r}, which it refuses in words")
                with collected():  # so few draws have not converged
                    fit, every = (factory.fit(data, method, keep=k, **run) for k in (keep, "draws"))
                assert fit.keep == keep
                left_out = set(every.posterior.data_vars) - set(fit.posterior.data_vars)
                assert left_out == {n for n, v in every.posterior.items() if "task" in v.dims}
                for name in fit.posterior.data_vars:
                    assert fit.posterior[name].equals(every.posterior[name])
                predicted = fit.predict(data, random_seed=1)
                assert predicted.sizes == every.predict(data, random_seed=1).sizes
                assert all(np.isfinite(predicted[name]).all() for name in predicted.data_vars)
                found: Any = factory.method_named(method)
                for name in left_out if keep == "moments" else ():
                    mean = every.posterior[name].mean(("chain", "draw"))
                    gap = np.abs(fit.idata["moments"][f"{name}_mean"] - mean)
                    # Moments of a law in closed form are no means of draws: these come within six standard errors.
                    errors = (
                        6.0 * fit.idata["moments"][f"{name}_sd"] / np.sqrt(6.0) if found.independent else 0.0
                    )
                    assert np.all(gap <= 1e-10 + errors)

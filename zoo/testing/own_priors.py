"""A test that the prior of every variable that a factory lists can be replaced, and is not forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pytensor.graph.traversal import ancestors

from zoo.core.methods import UnsupportedMethodError

__all__ = ["OwnPriorTests"]


class OwnPriorTests:
    """A mixin of :class:`zoo.testing.FactoryTestCase`."""

    def test_own_priors_replace_those_of_the_model(self) -> None:
        """Every variable of ``priors_table`` takes a prior, y follows from it, and specialised engines step back."""
        case: Any = self
        data, factory = case.make_data(), case.make_factory()
        table = factory.priors_table(data)
        names = table.index[table["set by"].str.startswith("own_priors")]
        laws = (pm.Normal.dist(0.5, 3.0), pm.HalfNormal.dist(3.0), pm.Beta.dist(2.0, 3.0))
        for name in names:
            for law in laws:
                changed = replace(factory, own_priors={name: law})
                try:
                    model = changed.build(data)
                except ValueError as error:
                    assert "whose values are" in str(error), f"{name}: {error}"
                    continue
                break
            else:
                raise AssertionError(f"{name} took none of the priors.")
            assert model[name] in model.free_RVs, f"the prior of {name} is that of the model"
            assert type(model[name].owner.op) is type(law.owner.op), f"the prior of {name} is another one"
            # Without it neither the responses nor what else the model learns would hear of the prior.
            heard = set(ancestors([*model.observed_RVs, *model.potentials, *model.deterministics]))
            assert model[name] in heard, f"nothing follows from {name}"
            assert type(factory).from_spec(changed.to_spec()) == changed, "the description loses own_priors"
            assert list(changed.methods) == ["nuts"], (
                f"methods {list(changed.methods)} with a prior of another kind"
            )
            for method in factory.methods:
                if method != "nuts":
                    with pytest.raises(UnsupportedMethodError, match="own_priors"):
                        changed.choose_method(method, data)
        with pytest.raises(ValueError, match="own_priors names 'no_such_variable'"):
            replace(factory, own_priors={"no_such_variable": pm.Normal.dist()}).build(data)

    def test_priors_of_single_tasks_are_refused(self) -> None:
        """Where every task has its own, new tasks would be drawn by the law that was replaced."""
        case: Any = self
        data, factory = case.make_data(), case.make_factory()
        model = factory.build(data)
        for variable in model.free_RVs:
            dims = model.named_vars_to_dims.get(variable.name) or ()
            known = factory.likelihood.parameter_names
            if "task" not in dims or variable.name in (*factory.own_task_priors, *known):
                continue
            with pytest.raises(ValueError, match="own_priors names"):
                replace(factory, own_priors={variable.name: pm.HalfNormal.dist(np.float64(1.0))}).build(data)

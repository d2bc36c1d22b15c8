"""Test cases that your own factories inherit (pytest)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from zoo.data import MultiTaskData
from zoo.datasets import simulate_matrix_normal
from zoo.factory import ModelFactory
from zoo.fit import Fit
from zoo.storage import load

__all__ = ["FactoryTestCase"]


class FactoryTestCase:
    """The contract of a factory.

    Subclass it in a test module as ``TestMyModel`` and say what is tested:

    >>> class TestMyModel(FactoryTestCase):
    ...     def make_factory(self):
    ...         return MyModel()

    ``make_data`` may be overridden where the simulated rows do not suit the model, and ``supports_new_task`` set
    to False where the model has no population to predict a new task from.
    """

    supports_new_task: bool = True

    def make_factory(self) -> ModelFactory:
        """The factory under test."""
        raise NotImplementedError("override make_factory to return the factory under test")

    def make_data(self) -> MultiTaskData:
        """Rows that the factory accepts."""
        labels = self.make_factory().observation.labels
        loss = "hinge" if labels else "epsilon_insensitive"
        # Small coefficients, so that every task has labels of both classes.
        cov = 0.25 * np.eye(3)
        return simulate_matrix_normal(
            3, 2, [7, 9, 8], loss=loss, intercept=True, feature_cov=cov, task_cov=np.eye(3), random_seed=3
        )[0]

    def fit(self, method: str | None = None, seed: int = 1, factory: ModelFactory | None = None) -> Fit:
        """Two draws of two chains."""
        return (factory or self.make_factory()).fit(
            self.make_data(), method, draws=2, tune=3, chains=2, random_seed=seed, progress=False
        )

    # ---------------------------------------------------------------- the description

    def test_spec_round_trip(self) -> None:
        """A description equals its copy from the spec, and prints as the call that makes it."""
        factory = self.make_factory()
        copy = type(factory).from_spec(factory.to_spec())
        assert copy == factory
        assert hash(copy) == hash(factory)
        assert repr(factory).startswith(type(factory).__qualname__ + "(")

    def test_description_is_frozen(self) -> None:
        """Fields cannot be set."""
        factory = self.make_factory()
        for field in factory.to_spec()["fields"]:
            try:
                setattr(factory, field, None)
            except AttributeError:
                continue
            raise AssertionError(f"field {field} was set on a frozen description")

    def test_methods_are_documented(self) -> None:
        """Every method says what it computes."""
        methods = self.make_factory().methods
        assert methods
        assert all(methods.values())

    # ---------------------------------------------------------------- the model

    def test_build_names_everything(self) -> None:
        """The model has a finite log density, an observed ``y`` and dims on all it reports."""
        data = self.make_data()
        before = (data.X.copy(), data.y.copy())
        model = self.make_factory().build(data)
        assert isinstance(model, pm.Model)
        assert "y" in model.named_vars
        assert np.isfinite(model.compile_logp()(model.initial_point()))
        for variable in model.free_RVs + model.deterministics:
            if variable.ndim and not variable.name.startswith("_"):
                assert variable.name in model.named_vars_to_dims, f"{variable.name} has no dims"
        assert np.array_equal(before[0], data.X)
        assert np.array_equal(before[1], data.y)

    def test_requirements(self) -> None:
        """The requirements table lists every variable with its shape."""
        factory, data = self.make_factory(), self.make_data()
        table = factory.requirements(data)
        assert isinstance(table, pd.DataFrame)
        assert set(table.columns) == {"kind", "shape", "dims", "constraint", "prior"}
        model = factory.build(data)
        assert set(table.index) == {v.name for v in model.basic_RVs + model.deterministics}
        assert table.loc["y", "shape"] == (data.n_rows,)

    def test_prior_predictive(self) -> None:
        """The model simulates: finite y of the right kind."""
        factory, data = self.make_factory(), self.make_data()
        with factory.build(data):
            tree = pm.sample_prior_predictive(3, random_seed=1)
        y = tree["prior_predictive"]["y"].to_numpy()
        assert y.shape[-1] == data.n_rows
        assert np.all(np.isfinite(y))
        if factory.observation.labels:
            assert set(np.unique(y)) <= {-1.0, 1.0}

    def test_simulate_returns_truth(self) -> None:
        """``simulate`` returns data and the truth behind them, and the same for the same seed."""
        factory, data = self.make_factory(), self.make_data()
        simulated, truth = factory.simulate(data, random_seed=5)
        again, _ = factory.simulate(data, random_seed=5)
        assert np.array_equal(simulated.y, again.y)
        assert simulated.y.shape == data.y.shape
        assert len(truth.data_vars) > 0

    # ---------------------------------------------------------------- fits

    def test_every_method_gives_the_same_variables(self) -> None:
        """Every method returns the groups and, up to what it approximates, the variables and dims."""
        shapes: dict[str, Any] = {}
        points = {method.name for method in self.make_factory()._methods() if method.point}
        for method in sorted(self.make_factory().methods, key=lambda name: name in points):
            fit = self.fit(method)
            assert fit.method == method
            assert {"posterior", "sample_stats", "observed_data", "constant_data"} <= set(fit.idata.children)
            posterior = fit.posterior
            size = 1 if method in points else 2
            assert posterior.sizes["chain"] == size
            assert posterior.sizes["draw"] == size
            assert all(np.all(np.isfinite(posterior[name])) for name in posterior.data_vars)
            dims = {str(name): (v.dims, v.shape[2:]) for name, v in posterior.data_vars.items()}
            if method in points:  # may add to the variables what a point lacks
                assert {name: dims[name] for name in shapes} == shapes
                continue
            for name, value in dims.items():
                assert shapes.setdefault(name, value) == value
            assert set(shapes) == set(dims)

    def test_same_seed_same_draws(self) -> None:
        """The first method repeats itself bit for bit, and another seed gives other draws (not another estimate)."""
        first, second, other = self.fit(seed=1), self.fit(seed=1), self.fit(seed=2)
        assert first.posterior.equals(second.posterior)
        assert first.is_point or not first.posterior.equals(other.posterior)

    def test_save_and_load(self, tmp_path: Path) -> None:
        """A fit comes back from its file as it was."""
        fit = self.fit()
        path = fit.save(tmp_path / "fit.nc")
        back = load(path, factory=type(fit.factory))
        assert back.factory == fit.factory
        assert back.method == fit.method
        assert back.posterior.equals(fit.posterior)
        assert back.data.task_names == fit.data.task_names
        X, task = fit.data.original_X()[:4], fit.data.task[:4]
        assert back.predict(X, task, random_seed=1).equals(fit.predict(X, task, random_seed=1))
        assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]

    def test_predict_known_tasks(self) -> None:
        """Predictions are finite, by name or by position, and one call is the parts' sum."""
        fit = self.fit()
        X, task = fit.data.original_X(), fit.data.task
        predicted = fit.predict(X, task, random_seed=1)
        by_name = fit.predict(X, [fit.data.task_names[i] for i in task], random_seed=1)
        assert predicted.equals(by_name)
        assert predicted.sizes == {"obs": len(X)}
        assert all(np.all(np.isfinite(predicted[name])) for name in ("mean", "sd", "lower", "upper"))
        draws = fit.predict_draws(X, task, random_seed=1)
        assert draws["f"].dims == ("chain", "draw", "obs")
        if fit.factory.observation.labels:
            assert np.all((predicted["probability"] >= 0) & (predicted["probability"] <= 1))
            assert set(np.unique(predicted["label"])) <= set(np.unique(fit.data.y))

    def test_predict_new_task(self) -> None:
        """A new task is predicted from the population when asked, and refused when not."""
        fit = self.fit()
        X = fit.data.original_X()[:3]
        try:
            fit.predict(X, "a new one")
        except ValueError as error:
            assert "a new one" in str(error)
        else:
            raise AssertionError("an unknown task was predicted without new_task=True")
        if self.supports_new_task:
            predicted = fit.predict(X, "a new one", new_task=True, random_seed=1)
            assert np.all(np.isfinite(predicted["mean"]))
            unnamed = fit.predict(X, new_task=True, random_seed=1)
            assert np.array_equal(predicted["mean"], unnamed["mean"])

    # ---------------------------------------------------------------- subclasses

    def test_subclass_keeps_nuts(self) -> None:
        """Overriding a hook leaves NUTS and drops the engines that were derived for the original."""
        factory = self.make_factory()
        base = type(factory)

        class Scaled(base):  # type: ignore[misc, valid-type]
            def latent(self, data: Any, priors: dict[str, Any]) -> Any:
                return super().latent(data, priors) * 1.0

        class OtherPrior(base):  # type: ignore[misc, valid-type]
            def priors(self, data: Any) -> dict[str, Any]:
                return super().priors(data)

        class OtherLikelihood(base):  # type: ignore[misc, valid-type]
            def likelihood(self, data: Any, f: Any) -> Any:
                return super().likelihood(data, f)

        fields = factory.to_spec()["fields"]
        for subclass in (Scaled, OtherPrior, OtherLikelihood):
            changed = subclass(**fields)
            assert "nuts" in changed.methods
            for method in set(factory.methods) - set(changed.methods):
                try:
                    self.fit(method, factory=changed)
                except ValueError as error:
                    assert "hook" in str(error)
                    assert "nuts" in str(error)
                else:
                    raise AssertionError(f"method {method} accepted a subclass that overrides a hook")
        fit = self.fit("nuts", factory=Scaled(**fields))
        assert np.all(np.isfinite(fit.predict(fit.data.original_X(), fit.data.task)["mean"]))

    def test_subclass_extends_coords(self) -> None:
        """A subclass may add coords and keep every method."""
        factory = self.make_factory()

        class MoreCoords(type(factory)):  # type: ignore[misc]
            def coords(self, data: MultiTaskData) -> dict[str, Any]:
                return {**super().coords(data), "extra": ["a", "b"]}

        changed = MoreCoords(**factory.to_spec()["fields"])
        assert changed.methods == factory.methods
        assert "extra" in changed.build(self.make_data()).coords

    # ---------------------------------------------------------------- bad input

    def test_empty_task_is_named(self) -> None:
        """A task without rows is refused by name, or warned of where the model can do without."""
        data = self.make_data()
        broken = replace(data, task_names=(*data.task_names, "nobody"))
        if self.make_factory().allows_empty_tasks:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.make_factory().build(broken)
            assert any("nobody" in str(w.message) for w in caught)
            return
        try:
            self.make_factory().build(broken)
        except ValueError as error:
            assert "nobody" in str(error)
        else:
            raise AssertionError("a task without rows was accepted")

    def test_unknown_method_and_option(self) -> None:
        """A misspelt method or option raises with the list of the right ones."""
        factory, data = self.make_factory(), self.make_data()
        for arguments in ({"method": "guess"}, {"corse": 2}):
            try:
                factory.fit(data, progress=False, **arguments)
            except ValueError as error:
                assert "nuts" in str(error) or "corse" in str(error)
            else:
                raise AssertionError(f"{arguments} was accepted")

"""Test cases that your own factories and covariance functions inherit (pytest)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.datasets import simulate_matrix_normal
from zoo.registry import load
from zoo.support.quick import QUICK
from zoo.support.warning_types import collected
from zoo.testing.gaps import GapTests
from zoo.testing.kept_draws import KeepTests
from zoo.testing.likelihood_field import LikelihoodTests
from zoo.testing.own_priors import OwnPriorTests
from zoo.testing.row_weights import WeightTests
from zoo.testing.units import UnitTests

__all__ = ["FactoryTestCase"]

# The graphs are small and run once or twice: compiling them costs more than running them slowly.
# NUTS whose few draws need no long trajectories, by the sampler that needs no compilation.
_QUICK_NUTS = {"nuts_sampler": "pymc", "max_treedepth": 3}


@contextmanager
def _quickly(by_nuts: bool) -> Iterator[dict[str, Any]]:
    """Options of a fit in seconds; PyMC's NUTS takes the mode of some of its functions from the flag alone."""
    if not by_nuts:
        yield {}
        return
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield {"nuts": _QUICK_NUTS}


class FactoryTestCase(LikelihoodTests, WeightTests, KeepTests, GapTests, OwnPriorTests, UnitTests):
    """The contract of a factory.

    Subclass it in a test module as ``TestMyModel`` and say what is tested:

    >>> class TestMyModel(FactoryTestCase):
    ...     def make_factory(self):
    ...         return MyModel()

    ``make_data`` may be overridden where the simulated rows do not suit the model (a class with ``needs_t`` gets two
    columns of ``t``), and ``supports_new_task`` set to False where no new task can be predicted.
    """

    supports_new_task: bool = True

    def make_factory(self) -> ModelFactory:
        """The factory under test."""
        raise NotImplementedError("override make_factory to return the factory under test")

    def make_data(self) -> MultiTaskData:
        """Rows that the factory accepts."""
        labels = self.make_factory().likelihood.labels
        loss = "hinge" if labels else "epsilon_insensitive"
        # Small coefficients, so that every task has labels of both classes.
        cov = 0.25 * np.eye(3)
        data = simulate_matrix_normal(
            3, 2, [7, 9, 8], loss=loss, intercept=True, feature_cov=cov, task_cov=np.eye(3), random_seed=3
        )[0]
        likelihood = self.make_factory().likelihood
        if likelihood.responses == "counts":
            data = replace(data, y=np.floor(np.abs(data.y)))
        if likelihood.responses == "grades":
            data = replace(data, y=likelihood.grade_values[np.arange(data.n_rows) % likelihood.n_grades])
        if not getattr(self.make_factory(), "needs_t", False):
            return data
        return replace(data, t=np.random.default_rng(3).standard_normal((data.n_rows, 2)))

    def fit(
        self,
        method: str | None = None,
        seed: int = 1,
        factory: ModelFactory | None = None,
        data: MultiTaskData | None = None,
    ) -> Fit:
        """Two draws of two chains; of NUTS by PyMC's sampler, not compiled."""
        factory, data = factory or self.make_factory(), data or self.make_data()
        by_nuts = (method or factory.default_method(data)) == "nuts"
        # So few draws have not converged, and what a basis can show of so few rows does not matter.
        with _quickly(by_nuts) as options, collected(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_basis is", category=UserWarning)
            return factory.fit(
                data, method, draws=2, tune=3, chains=2, random_seed=seed, progress=False, **options
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
        assert np.isfinite(model.compile_logp(mode=QUICK)(model.initial_point()))
        for variable in model.free_RVs + model.deterministics:
            if variable.ndim and not variable.name.startswith("_"):
                assert variable.name in model.named_vars_to_dims, f"{variable.name} has no dims"
        assert np.array_equal(before[0], data.X)
        assert np.array_equal(before[1], data.y)

    def test_requirements(self) -> None:
        """The requirements table lists every variable with its shape, and says how much memory a fit keeps."""
        factory, data = self.make_factory(), self.make_data()
        table = factory.requirements(data)
        assert isinstance(table, pd.DataFrame)
        assert set(table.columns) == {"kind", "shape", "dims", "constraint", "prior", "memory"}
        assert factory.default_method(data) in table.attrs["memory"]
        model = factory.build(data)
        assert set(table.index) == {v.name for v in model.basic_RVs + model.deterministics}
        assert table.loc["y", "shape"] == (data.n_rows,)

    def test_prior_predictive(self) -> None:
        """The model simulates: finite y of the right kind."""
        factory, data = self.make_factory(), self.make_data()
        with factory.build(data), warnings.catch_warnings():
            # A potential is no part of what is simulated, and PyMC says so.
            warnings.filterwarnings("ignore", message="The effect of Potentials", category=UserWarning)
            tree = pm.sample_prior_predictive(3, random_seed=1, compile_kwargs={"mode": QUICK})
        y = tree["prior_predictive"]["y"].to_numpy()
        assert y.shape[-1] == data.n_rows
        assert np.all(np.isfinite(y))
        if factory.likelihood.labels:
            assert set(np.unique(y)) <= {-1.0, 1.0}
        if factory.likelihood.responses == "grades":
            assert set(np.unique(y)) <= set(np.arange(1.0, factory.likelihood.n_grades + 1.0))

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
        factory = self.make_factory()
        points = {method.name for method in factory.method_table() if method.point}
        approximate = {method.name for method in factory.method_table() if method.law == "approximate"}
        for method in sorted(self.make_factory().methods, key=lambda name: name in points):
            fit = self.fit(method)
            assert fit.method == method
            assert {"posterior", "sample_stats", "observed_data", "constant_data"} <= set(fit.idata.children)
            posterior = fit.posterior
            size = 1 if method in points else 2
            assert posterior.sizes["chain"] == size
            assert posterior.sizes["draw"] == size
            assert all(np.all(np.isfinite(posterior[name])) for name in posterior.data_vars)
            dims = {
                str(name): (v.dims, v.shape[2:])
                for name, v in posterior.data_vars.items()
                if not (approximate and name in factory.representations)
            }
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
        t = _places(fit.data, 4)
        assert back.predict(X, task, t, random_seed=1).equals(fit.predict(X, task, t, random_seed=1))
        assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]

    def test_predict_known_tasks(self) -> None:
        """Predictions are finite, by name or by position, and one call is the parts' sum."""
        fit = self.fit()
        X, task = fit.data.original_X(), fit.data.task
        t = _places(fit.data, len(X))
        predicted = fit.predict(X, task, t, random_seed=1)
        by_name = fit.predict(X, [fit.data.task_names[i] for i in task], t, random_seed=1)
        assert predicted.equals(by_name)
        assert predicted.sizes["obs"] == len(X) and set(predicted.sizes) <= {"obs", "grade"}
        assert all(np.all(np.isfinite(predicted[name])) for name in ("mean", "sd", "lower", "upper"))
        draws = fit.predict_draws(X, task, t, random_seed=1)
        assert draws["f"].dims == ("chain", "draw", "obs")
        if fit.factory.likelihood.responses == "grades":
            np.testing.assert_allclose(predicted["probability"].sum("grade"), 1.0, rtol=1e-12)
        if fit.factory.likelihood.responses in ("labels", "grades"):
            assert np.all((predicted["probability"] >= 0) & (predicted["probability"] <= 1))
            assert set(np.unique(predicted["label"])) <= set(np.unique(fit.data.y))

    def test_tables_are_read_by_name(self) -> None:
        """Columns in any order, of pandas or a dict, give the predictions of the array; t stays with its rows."""
        fit = self.fit()
        X, table = _table(fit)
        t = _places(fit.data, len(X))
        wanted = fit.predict(X, [fit.data.task_names[i] for i in fit.data.task], t, random_seed=1)
        task = pd.Series([fit.data.task_names[i] for i in fit.data.task], index=table.index)
        backwards = table[table.columns[::-1]]
        for given in (backwards, dict(backwards)):
            assert fit.predict(given, task, random_seed=1).equals(wanted)
            assert fit.predict_draws(given, task, random_seed=1).sizes["obs"] == len(X)

    def test_rows_of_other_labels_are_refused(self) -> None:
        """Tasks and t whose index is in another order than that of X are refused: they belong to other rows."""
        fit = self.fit()
        X, table = _table(fit)
        task = pd.Series([fit.data.task_names[i] for i in fit.data.task], index=table.index)
        calls = [lambda: fit.predict(table, task.iloc[::-1], random_seed=1)]
        t = _places(fit.data, len(X))
        if t is not None:
            places = pd.DataFrame(t, columns=list(fit.data.t_names or ()), index=table.index).iloc[::-1]
            calls.append(lambda: fit.predict(table, task, places, random_seed=1))
        for call in calls:
            try:
                call()
            except ValueError as error:
                assert "index" in str(error)
            else:
                raise AssertionError("rows of another index were paired by position")

    def test_predict_new_task(self) -> None:
        """A new task is predicted from the population when asked, and refused when not."""
        fit = self.fit()
        X, t = fit.data.original_X()[:3], _places(fit.data, 3)
        try:
            fit.predict(X, "a new one", t)
        except ValueError as error:
            assert "a new one" in str(error)
        else:
            raise AssertionError("an unknown task was predicted without new_task=True")
        if self.supports_new_task:
            predicted = fit.predict(X, "a new one", t, new_task=True, random_seed=1)
            assert np.all(np.isfinite(predicted["mean"]))
            unnamed = fit.predict(X, t=t, new_task=True, random_seed=1)
            assert np.array_equal(predicted["mean"], unnamed["mean"])

    def test_pymc_reads_the_fit(self) -> None:
        """PyMC's ``sample_posterior_predictive`` finds every free variable among the draws."""
        fit = self.fit()
        model, idata = fit.to_pymc(random_seed=1) if fit.is_point else (fit.model, fit.idata)
        assert {v.name for v in model.free_RVs} <= set(idata["posterior"].data_vars)
        drawn = pm.sample_posterior_predictive(
            idata,
            model=model,
            var_names=["y"],
            random_seed=1,
            progressbar=False,
            compile_kwargs={"mode": QUICK},
        )
        y = drawn["posterior_predictive"]["y"]
        assert y.dims == ("chain", "draw", "obs")
        assert np.all(np.isfinite(y))

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

        class OtherTerm(base):  # type: ignore[misc, valid-type]
            def observe(self, data: Any, f: Any) -> Any:
                return super().observe(data, f)

        fields = factory.to_spec()["fields"]
        for subclass in (Scaled, OtherPrior, OtherTerm):
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
        t = _places(fit.data, fit.data.n_rows)
        assert np.all(np.isfinite(fit.predict(fit.data.original_X(), fit.data.task, t)["mean"]))

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


def _places(data: MultiTaskData, n_rows: int) -> np.ndarray | None:
    """Continuous task variable of the first rows, where there is one."""
    return None if data.t is None else data.t[:n_rows]


def _table(fit: Fit) -> tuple[np.ndarray, pd.DataFrame]:
    """Features of the data as an array, and with t as a table."""
    data = fit.data
    X = data.original_X()
    X = X.toarray() if data.is_sparse else np.asarray(X)  # type: ignore[union-attr]
    table = pd.DataFrame(X, columns=list(data.feature_names))
    if data.t is not None:
        table = table.join(pd.DataFrame(data.t, columns=list(data.t_names or ())))
    return X, table

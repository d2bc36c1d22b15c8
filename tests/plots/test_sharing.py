"""Pictures of what sharing does: what they show, not how they look."""

import dataclasses

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

import zoo
from zoo import plots


def _fit(model, data, method=None):
    return model.fit(data, method, draws=40, tune=40, chains=2, random_seed=1, progress=False)


@pytest.fixture(scope="module")
def simulated():
    return zoo.datasets.simulate_groups(n_groups=2, tasks_per_group=4, n_features=3, random_seed=2)


@pytest.fixture(scope="module")
def fit(simulated):
    data = simulated[0]
    frame = data.to_frame().assign(x2=100.0 * data.X[:, 1], y=10.0 + 5.0 * data.y)
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="task")
    return _fit(zoo.MaxMargin(likelihood="gaussian"), data.add_intercept().standardize())


@pytest.fixture(scope="module")
def clinics():
    """Patients in clinics: an age that stands still within each, and effects of the clinics."""
    pytest.importorskip("formulae")
    rng = np.random.default_rng(4)
    patient, time = np.repeat(np.arange(8), 20), rng.normal(size=160)
    table = pd.DataFrame(
        {"patient": patient, "time": time, "clinic": np.array(list("uvw"))[rng.integers(0, 3, 160)]}
    )
    table["age"] = rng.normal(size=8)[patient]
    table["y"] = table["age"] + (1.0 + 0.3 * rng.normal(size=8)[patient]) * time + 0.3 * rng.normal(size=160)
    return zoo.MultiTaskData.from_formula("y ~ age + time + (1 + time | patient) + (1 | clinic)", table)


@pytest.fixture(autouse=True)
def _leave_nothing_behind():
    yield
    plt.close("all")


def _labels(ticks):
    return [tick.get_text() for tick in ticks]


def _line(axes, label):
    (line,) = [line for line in axes.get_lines() if str(line.get_label()).startswith(label)]
    return np.asarray(line.get_xdata())


class TestShrinkage:
    def test_both_estimates_on_the_users_scale_sorted(self, fit):
        axes = plots.shrinkage(fit, feature="x2").axes[0]
        together = _line(axes, "all tasks together")
        transform = fit.data.transform
        mean = fit.posterior["coefficients"].sel(feature="x2").mean(("chain", "draw"))
        expected = transform.y_scale / transform.x_scale[1] * np.sort(mean.to_numpy())
        assert together == pytest.approx(expected)
        assert len(_line(axes, "task alone")) == 8
        names = [str(name) for name in mean["task"].to_numpy()[np.argsort(mean.to_numpy())]]
        assert _labels(axes.get_yticklabels()) == names
        assert axes.get_xlabel() == "coefficient of 'x2': change of y per unit of 'x2'"

    def test_the_estimate_alone_is_that_of_independent_tasks(self, fit):
        alone = _fit(zoo.IndependentTasks(), fit.data)
        axes = plots.shrinkage(fit, feature="x1", independent=alone, tasks=["B1", "A2"]).axes[0]
        mean = alone.posterior["coefficients"].sel(feature="x1").mean(("chain", "draw"))
        scale = fit.data.transform.y_scale / fit.data.transform.x_scale[0]
        expected = {name: scale * mean.sel(task=name).item() for name in ("A2", "B1")}
        shown = dict(zip(_labels(axes.get_yticklabels()), _line(axes, "task alone"), strict=True))
        assert shown == pytest.approx(expected)

    def test_an_intercept_is_the_response_at_average_features(self, fit):
        axes = plots.shrinkage(fit, feature="intercept").axes[0]
        assert axes.get_xlabel() == "y at average features"
        assert _line(axes, "all tasks together").mean() == pytest.approx(10.0, abs=3.0)

    @pytest.mark.parametrize("feature", ["x2", "intercept"])
    def test_the_estimate_alone_has_the_scale_of_its_own_data(self, simulated, fit, feature):
        """The one of all tasks sees standardized data, and each task alone the user's."""
        data = simulated[0]
        frame = data.to_frame().assign(x2=100.0 * data.X[:, 1], y=10.0 + 5.0 * data.y)
        frame["x3"] += 3.0  # so that the average is not 0
        raw = zoo.MultiTaskData.from_frame(frame, y="y", task="task").add_intercept()
        together, alone = (
            _fit(zoo.MaxMargin(likelihood="gaussian"), raw.standardize()),
            _fit(zoo.IndependentTasks(), raw),
        )
        axes = plots.shrinkage(together, feature, independent=alone).axes[0]
        names = _labels(axes.get_yticklabels())
        mean = (
            alone.posterior["coefficients"]
            .mean(("chain", "draw"))
            .sel(task=names)
            .transpose("task", "feature")
        )
        # An intercept is shown as the response at average features.
        place = raw.X.mean(axis=0) if feature == "intercept" else np.array(raw.feature_names) == feature
        assert _line(axes, "task alone") == pytest.approx(mean.to_numpy() @ place)
        back = plots.shrinkage(alone, feature, independent=together).axes[0]
        names = _labels(back.get_yticklabels())
        place = np.array(raw.feature_names) == feature
        rows = pd.DataFrame(np.tile(1.0 * place, (8, 1)), columns=raw.feature_names)
        at_zero = pd.DataFrame(np.zeros((8, 4)), columns=raw.feature_names).assign(intercept=1.0)
        f = (
            together.predict_draws(rows.assign(intercept=1.0), task=names)["f"]
            .mean(("chain", "draw"))
            .to_numpy()
        )
        f0 = together.predict_draws(at_zero, task=names)["f"].mean(("chain", "draw")).to_numpy()
        expected = f if feature == "intercept" else f - f0
        assert _line(back, "task alone") == pytest.approx(expected)
        if feature == "intercept":
            other = _fit(
                zoo.IndependentTasks(),
                zoo.MultiTaskData.from_frame(frame.assign(x9=1.0 * frame["x1"]), y="y", task="task"),
            )
            with pytest.raises(ValueError, match="feature: 'intercept' is unknown"):
                plots.shrinkage(together, feature, independent=other)
            with pytest.raises(ValueError, match="independent has the feature 'x9', which fit has not"):
                plots.shrinkage(
                    together, feature, independent=_fit(zoo.IndependentTasks(), other.data.add_intercept())
                )

    def test_features_that_tasks_share_are_features_of_each_task_alone(self, clinics):
        fit = _fit(zoo.NIWLinear(), clinics)
        axes = plots.shrinkage(fit, feature="time").axes[0]
        alone = _fit(zoo.IndependentTasks(), dataclasses.replace(clinics, shared_names=()))
        expected = plots.shrinkage(fit, feature="time", independent=alone).axes[0]
        assert _line(axes, "task alone") == pytest.approx(_line(expected, "task alone"), abs=0.2)
        assert len(_line(axes, "task alone")) == 8

    def test_truth_is_drawn_where_it_is_given(self, simulated):
        data, truth = simulated
        fit = _fit(zoo.NIWLinear(), data, "em")
        axes = plots.shrinkage(fit, feature="x1", truth=truth["coefficients"]).axes[0]
        assert np.sort(_line(axes, "truth")) == pytest.approx(
            np.sort(truth["coefficients"].sel(feature="x1").to_numpy())
        )

    def test_labels_of_another_likelihood_need_the_estimates_alone(self, simulated):
        data = simulated[0]
        frame = data.to_frame().assign(y=np.where(data.y > 0.0, 1, -1))
        fit = _fit(zoo.MaxMargin(), zoo.MultiTaskData.from_frame(frame, y="y", task="task"))
        with pytest.raises(ValueError, match=r"independent is not given.*likelihood=zoo.Hinge\(\)\)"):
            plots.shrinkage(fit)

    def test_refusals(self, fit):
        with pytest.raises(ValueError, match="coefficients hold for all tasks"):
            plots.shrinkage(_fit(zoo.PooledTasks(), fit.data))
        with pytest.raises(ValueError, match="feature: 'x9'"):
            plots.shrinkage(fit, feature="x9")

    def test_draws_into_a_panel(self, fit):
        figure, (left, right) = plt.subplots(1, 2, layout="constrained")
        assert plots.shrinkage(fit, ax=left) is figure
        assert left.get_lines() and not right.get_lines()


class TestTaskMap:
    @pytest.mark.parametrize("model", [zoo.MaxMargin(likelihood="gaussian"), zoo.IndependentTasks()])
    def test_groups_are_apart(self, simulated, model):
        axes = plots.task_map(_fit(model, simulated[0].standardize())).axes[0]
        points = np.column_stack(axes.get_lines()[-1].get_data())
        assert points.shape == (8, 2)
        centres = points[:4].mean(axis=0), points[4:].mean(axis=0)
        apart = np.linalg.norm(centres[0] - centres[1])
        assert apart > 2.0 * np.linalg.norm(points[:4] - centres[0], axis=1).mean()
        assert {text.get_text() for text in axes.texts} == set(simulated[0].task_names)

    def test_names_do_not_lie_on_each_other(self, simulated):
        data, _ = zoo.datasets.simulate_groups(n_groups=3, tasks_per_group=46, random_seed=1)
        axes = plots.task_map(_fit(zoo.IndependentTasks(), data)).axes[0]
        axes.figure.draw_without_rendering()
        boxes = [text.get_window_extent().extents for text in axes.texts]
        assert 10 < len(boxes) < 138 and f"{len(boxes)} of them named" in axes.get_title()
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]

    def test_only_the_names_that_are_asked_for(self, fit):
        axes = plots.task_map(fit, names="A1").axes[0]
        assert [text.get_text() for text in axes.texts] == ["A1"]

    def test_refusals(self, fit):
        with pytest.raises(ValueError, match="names: 'Z1'"):
            plots.task_map(fit, names=["Z1"])
        with pytest.raises(ValueError, match="neither 'task_cov' nor coefficients"):
            plots.task_map(_fit(zoo.PooledTasks(), fit.data))
        few = fit.data.select_tasks(["A1", "A2"])
        with pytest.raises(ValueError, match="three or more"):
            plots.task_map(_fit(zoo.IndependentTasks(), few))


class TestColoursOfTheCorrelation:
    def _shown(self, correlation):
        from types import SimpleNamespace

        import xarray as xr

        names = [f"t{i}" for i in range(len(correlation))]
        posterior = xr.Dataset(
            {"task_cov": (("chain", "draw", "task", "task_bis"), np.asarray(correlation)[None, None])},
            coords={"task": names},
        )
        figure = plots.task_correlation(SimpleNamespace(idata={"posterior": posterior}, factory=None))
        return figure.axes[0].get_images()[0]

    def test_between_08_and_09_is_seen(self):
        correlation = np.array([[1.0, 0.8, 0.9], [0.8, 1.0, 0.85], [0.9, 0.85, 1.0]])
        assert self._shown(correlation).get_clim() == pytest.approx((0.8, 0.9))

    def test_both_signs_are_centred_at_zero(self):
        image = self._shown([[1.0, -0.2, 0.5], [-0.2, 1.0, 0.1], [0.5, 0.1, 1.0]])
        assert image.get_clim() == pytest.approx((-0.5, 0.5))

    def test_the_diagonal_has_no_colour(self):
        image = self._shown(np.eye(3) * 0.5 + 0.5)
        assert np.ma.getmaskarray(image.get_array()).diagonal().all()

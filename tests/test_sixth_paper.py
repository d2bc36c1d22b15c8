"""A further paper is one module of a package of its own: nothing of zoo is touched, and the contract holds."""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from tests.other_packages import install
from zoo.registry import get_factory
from zoo.testing import FactoryTestCase

MODULE = '''
    """Tasks whose coefficients share a few directions."""

    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np
    import pymc as pm

    import zoo


    @dataclass(frozen=True, kw_only=True)
    class LowRankTasks(zoo.ModelFactory):
        r"""Linear functions of tasks whose coefficients W = A B' have a low rank.

        The entries of A (feature, latent) and B (task, latent) are normal. Since the trace norm of W is the smallest
        :math:`(|A|^2 + |B|^2) / 2` over all such factors, the mode for many latent dims is the estimate of Argyriou,
        Evgeniou & Pontil (2008), who penalise the trace norm.

        Parameters
        ----------
        rank : int
            How many directions there are at most.
        spread : float
            Prior scale of the standard deviation of B.
        """

        paper: ClassVar[str] = "argyriou2008"
        shares_tasks: ClassVar[bool] = True

        rank: int = 2
        spread: float = 1.0

        def __post_init__(self):
            super().__post_init__()
            if not (isinstance(self.rank, int) and self.rank > 0):
                raise ValueError(f"rank is {self.rank!r}. Give a whole number above 0.")
            if not self.spread > 0:
                raise ValueError(f"spread is {self.spread!r}. Give a number above 0.")

        def coords(self, data):
            return {**super().coords(data), "latent": np.arange(self.rank)}

        def priors(self, data):
            A = pm.Normal("_A", dims=("feature", "latent"))
            B = pm.Normal("_B", dims=("task", "latent"))
            scale = pm.HalfNormal("scale", self.spread)
            # A itself is known up to a rotation only. What new tasks need of it is this covariance.
            pm.Deterministic("feature_cov", scale**2 * A @ A.T, dims=("feature", "feature_bis"))
            return {"coefficients": pm.Deterministic("coefficients", scale * A @ B.T, dims=("feature", "task"))}

        def new_task(self, posterior, names, rng):
            values, vectors = np.linalg.eigh(posterior["feature_cov"].to_numpy())
            root = vectors[..., -self.rank:] * np.sqrt(np.maximum(values[..., -self.rank:], 0.0))[..., None, :]
            b = rng.standard_normal((*values.shape[:2], root.shape[-1], len(names)))
            learned = {name: posterior[name].to_numpy() for name in self.likelihood.learned}
            return {**learned, "coefficients": root @ b}
'''


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        install(
            monkeypatch,
            tmp_path_factory.mktemp("site"),
            "sixth",
            MODULE,
            models={"LowRankTasks": "LowRankTasks"},
        )
        yield


class TestLowRankTasks(FactoryTestCase):
    """The contract, as for the package's own models."""

    def make_factory(self):
        return get_factory("LowRankTasks")()


class TestLowRankLabels(FactoryTestCase):
    """The same class with labels, and of rank 1."""

    def make_factory(self):
        return get_factory("LowRankTasks")(rank=1, likelihood="logistic")

    # The class above has these already: every likelihood is tried there.
    test_every_likelihood_counts = test_a_weight_is_a_number_of_rows = None


def test_it_is_listed():
    listed = zoo.list_models()
    assert listed.loc["LowRankTasks", "paper"] == "argyriou2008"
    assert listed.loc["LowRankTasks", "methods"] == "nuts"


@pytest.mark.statistical
@pytest.mark.scheduled
def test_coefficients_share_directions():
    """Four tasks along one direction: W has rank 1, known and new tasks alike, and follows the truth.

    Null: the posterior is right. Its means lie some 0.02 from the truth, and 0.15 is allowed: the false-alarm rate is
    below 1e-9.
    """
    rng = np.random.default_rng(1)
    X, task = rng.standard_normal((120, 3)), np.arange(120) % 4
    direction, loading = np.array([1.0, -0.5, 0.8]), np.array([1.0, -1.0, 0.5, 1.5])
    y = (X @ direction) * loading[task] + 0.1 * rng.standard_normal(120)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    factory = get_factory("LowRankTasks")(rank=1)
    fit = factory.fit(data, draws=200, tune=300, chains=2, random_seed=1, progress=False)
    W = fit.posterior["coefficients"].to_numpy()
    assert np.linalg.svd(W, compute_uv=False)[..., 1:].max() < 1e-8 * np.abs(W).max()
    np.testing.assert_allclose(W.mean(axis=(0, 1)), np.outer(direction, loading), atol=0.15)
    new = factory.new_task(fit.posterior, ["one", "two"], np.random.default_rng(2))["coefficients"]
    along = direction / np.linalg.norm(direction)
    across = new - along[:, None] * (along @ new)[..., None, :]
    assert np.mean(across**2) < 0.01 * np.mean(new**2)

r"""Gibbs sampling of a normal-inverse-Wishart hierarchy whose tasks are dealt to workers.

Steps 1, 2, 3 and 5 of :mod:`zoo.inference.gibbs.normal_inverse_wishart`, of which step 1 and the sums over tasks are
made by workers (:mod:`zoo.inference.gibbs.shard`), and the rest here. With :math:`d_t = w_t - \mu` of the T tasks,

.. math:: \sigma^2 \sim IG\Big(a + \tfrac12 \sum_t N_t,\; b + \tfrac12 \sum_t (e_t + a_t' S_t a_t)\Big),

the translation by a Gaussian vector of precision :math:`\sum_t S_t / \sigma^2 + \pi P` and linear term :math:`-\sum_t
S_t a_t / \sigma^2 - \pi P \mu`, and then the population given the mean :math:`\bar w = \mu + \tfrac1T \sum_t d_t` and
the scatter :math:`\sum_t d_t d_t' - \tfrac1T \sum_t d_t \sum_t d_t'` of the coefficients. Where the mean has a prior of
its own (:mod:`zoo.inference.gibbs.own_mean`), it is drawn by the translation with the precision K in the place of
:math:`\pi P`, and once more given the coefficients; the covariance is drawn given their scatter around it, and learned
scales of features by (2) of :mod:`zoo.inference.gibbs.feature_scales`. A worker holds no state but
its rows: one that is lost is replaced, and what it was asked is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from zoo.inference.gibbs.feature_scales import draw_scales
from zoo.inference.gibbs.mean_weight import draw_mean_weight, start_mean_weight
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.gibbs.population_steps import draw_covariance, draw_population_given, draw_translation
from zoo.inference.gibbs.shard import Shard, chunks_of
from zoo.inference.gibbs.triangular import draw_by_precision
from zoo.inference.run.kernel import copies, put_back
from zoo.inference.run.workers import Workers
from zoo.inference.weighted_moments import weighted_sd

__all__ = ["ShardedPopulationKernel", "shards_of"]

_CHANGING = ("mu", "P", "C", "inverse_noise", "pi", "scales")


def shards_of(kernel: NormalInverseWishartKernel, n_workers: int) -> list[Shard]:
    """The tasks of a kernel, dealt to at most as many workers."""
    n_chunks = chunks_of(kernel.n_tasks)
    ends = np.linspace(0, n_chunks, min(n_workers, n_chunks) + 1).round().astype(int)
    return [Shard.part(kernel.sums, first, stop) for first, stop in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class ShardedPopulationKernel:
    """Markov kernel of the population, for :func:`zoo.inference.run.chains.run_chains`.

    Parameters
    ----------
    kernel : NormalInverseWishartKernel
        The same hierarchy on one machine: with one noise and no shared coefficients; scales are learned beside a mean
        with a prior of its own alone.
    workers : Workers
        They hold :func:`shards_of` it.
    """

    kernel: NormalInverseWishartKernel
    workers: Workers

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state."""
        k = self.kernel
        D, spread = k.basis.shape[1], np.exp(rng.normal())
        noise = max(float(weighted_sd(k.y, k.weight)) ** 2, 1e-300)
        return {
            "mu": 0.1 * rng.standard_normal(D),
            "P": np.eye(D) / spread,
            "C": np.eye(D) * spread,
            "inverse_noise": np.array(np.exp(rng.normal()) / noise),
            "S": k.sums.S.sum(axis=(0, 3)),
            "pi": start_mean_weight(rng, k.pi),
            "scales": np.ones(D),
        }

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put the posterior variables of the population into the state."""
        back = np.linalg.pinv(self.kernel.basis)
        _, mean, cov = (values.get(name) for name in self.kernel.names)
        state["mu"][:] = back @ (mean - self._offset)
        state["C"][:] = back @ cov @ back.T
        state["P"][:] = np.linalg.inv(state["C"])
        state["inverse_noise"][...] = float(values["noise"]) ** -2.0
        if self.kernel.pi is None:
            state["pi"][...] = values["pi"]

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One scan."""
        k, s = self.kernel, state
        n_tasks = k.n_tasks
        key = tuple(int(number) for number in rng.integers(2**63, size=2))
        parts = self.workers("sums", key, s["mu"], s["P"], float(s["inverse_noise"]))
        # Chunk by chunk, in their order: so the rounding is the same, whoever made them.
        apart, scatter, pull, squares = (np.concatenate(of).sum(axis=0) for of in zip(*parts, strict=True))
        shape = k.noise_shape + 0.5 * float(k.sums.size.sum())
        precision = rng.standard_gamma(shape) / (k.noise_rate + 0.5 * squares)
        s["inverse_noise"][...] = precision
        mean = s["mu"] + apart / n_tasks
        moved, pi = -pull * precision, float(s["pi"])
        within = scatter - np.outer(apart, apart) / n_tasks
        if k.mean_sd is not None:
            self._draw_population(rng, s, s["S"] * precision, mean, moved, within)
            return
        draw_translation(rng, s["S"] * precision + pi * s["P"], moved, s["mu"], s["P"], pi)
        mean += moved
        draw_population_given(rng, mean, within, n_tasks, s["mu"], s["P"], s["C"], float(k.nu), pi)
        draw_mean_weight(rng, k.pi, s)

    def _draw_population(
        self,
        rng: np.random.Generator,
        s: dict[str, Any],
        known: np.ndarray,
        mean: np.ndarray,
        moved: np.ndarray,
        within: np.ndarray,
    ) -> None:
        """Mean, scales and covariance; ``known`` (D, D) and ``moved`` (D,) are what rows say of the translation."""
        k, n_tasks, mu = self.kernel, self.kernel.n_tasks, s["mu"]
        assert k.mean_sd is not None
        own = np.eye(len(mu)) / k.mean_sd**2
        draw_translation(rng, known + own, moved, mu, own, 1.0)
        apart = mean + moved - mu
        if k.scale_sd is not None:
            whitened = s["P"] * np.outer(s["scales"], s["scales"])
            s["scales"] *= draw_scales(rng, whitened, s["scales"], float(k.scale_sd), float(k.nu))
        scatter = np.diag(s["scales"] ** 2) + within + n_tasks * np.outer(apart, apart)
        draw_covariance(rng, scatter, k.nu + n_tasks, s["P"], s["C"])
        linear = s["P"] @ (n_tasks * (mean + moved))
        draw_by_precision(rng, np.linalg.cholesky(n_tasks * s["P"] + own), linear)
        mu[:] = linear

    @property
    def _offset(self) -> Any:
        return 0.0 if self.kernel.offset is None else self.kernel.offset

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Population mean (p,), covariance (p, p), and ``noise`` ()."""
        basis, (_, mean, cov) = self.kernel.basis, self.kernel.names
        return {
            mean: basis @ state["mu"] + self._offset,
            cov: basis @ state["C"] @ basis.T,
            "noise": state["inverse_noise"] ** -0.5,
            **({"pi": state["pi"].copy()} if self.kernel.pi is None else {}),
        }

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: sizes of the mean, of the covariance and of the inverse noise."""
        return {
            "squared_mean": float(state["mu"] @ state["mu"]),
            "trace_feature_cov": float(state["C"].trace()),
            "mean_precision": float(state["inverse_noise"]),
            **({"log_pi": float(np.log(state["pi"]))} if self.kernel.pi is None else {}),
        }

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The population; the rest follows from the data."""
        return copies(state, _CHANGING)

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        put_back(state, snapshot, _CHANGING)

"""Distributions and pseudo-likelihoods against what else there is, as ratios within one run.

    python benchmarks/ops.py [--repeats 30]

Prints a Markdown table: what, milliseconds of ours and of the other, and their ratio (medians of the repeats,
compilation left out). One thread of linear algebra, so that neither side is helped by idle cores.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba import njit
from scipy import stats
from threadpoolctl import threadpool_limits

from zoo.distributions import InverseGaussian, InverseWishart, MatrixNormal
from zoo.inference.gibbs.draws import inverse_gaussians
from zoo.ops import epsilon_insensitive_logp, hinge_logp

ROWS = 10**6


def milliseconds(call: Callable, repeats: int) -> float:
    """Median time of a call, after two that compile and warm up."""
    call(), call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e3 * float(np.median(times))


# What an operation of our own would do: value and gradient in one pass, by hand, with the compiler's freedom to reorder
# sums that PyTensor's own loops have, and without branches.
@njit(nogil=True, fastmath=True)
def _fused_hinge(f, y, C, margin):
    gradient, value = np.empty_like(f), 0.0
    for n in range(len(f)):
        slack = margin - y[n] * f[n]
        inside = np.float64(slack > 0.0)
        value += inside * slack
        gradient[n] = inside * 2.0 * C * y[n]
    return -2.0 * C * value, gradient


@njit(nogil=True, fastmath=True)
def _fused_tube(f, y, C, epsilon):
    gradient, value = np.empty_like(f), 0.0
    for n in range(len(f)):
        gap = y[n] - f[n]
        above, below = np.float64(gap > epsilon), np.float64(-gap > epsilon)
        value += above * (gap - epsilon) - below * (gap + epsilon)
        gradient[n] = 2.0 * C * (above - below)
    return -2.0 * C * value, gradient


def _composed_hinge(f, y, C, margin):
    return -2.0 * C * pt.maximum(0.0, margin - y * f)


def _composed_tube(f, y, C, epsilon):
    return -2.0 * C * pt.maximum(0.0, pt.abs(y - f) - epsilon)


def pseudo_likelihoods(repeats: int) -> list[tuple[str, float, float]]:
    """Value and gradient by the named operation, against the composed graph and a fused loop."""
    rng = np.random.default_rng(1)
    f, y, C = rng.normal(size=ROWS), np.where(rng.random(ROWS) < 0.5, 1.0, -1.0), np.array(1.3)
    rows = []
    for name, logp, composed, loop in (
        ("hinge", hinge_logp, _composed_hinge, _fused_hinge),
        ("epsilon-insensitive", epsilon_insensitive_logp, _composed_tube, _fused_tube),
    ):
        inputs = [pt.dvector("f"), pt.dvector("y"), pt.dscalar("C")]
        functions = []
        for build in (logp, composed):
            total = build(*inputs, 0.9).sum()
            functions.append(pytensor.function(inputs, [total, pt.grad(total, inputs[0])], trust_input=True))
        ours, theirs = (milliseconds(lambda g=g: g(f, y, C), repeats) for g in functions)
        what = f"{name} value + gradient, N = 1e6: named operation"
        rows.append((f"{what} against the composed graph", ours, theirs))
        by_hand = milliseconds(lambda loop=loop: loop(f, y, 1.3, 0.9), repeats)
        rows.append((f"{what} against a fused loop by hand", ours, by_hand))
    return rows


def matrix_normal(repeats: int) -> tuple[str, float, float]:
    """Log density and gradient with respect to the value, given factors."""
    D, T = 28, 139
    rng = np.random.default_rng(2)
    row, column = (np.linalg.cholesky(stats.wishart.rvs(n + 5, np.eye(n), random_state=rng)) for n in (D, T))
    x = pt.matrix("x", shape=(D, T))
    ours = pm.logp(MatrixNormal.dist(row_chol=row, col_chol=column), x)
    v = pt.vector("v", shape=(D * T,))
    theirs = pm.logp(pm.MvNormal.dist(np.zeros(D * T), chol=np.kron(column, row)), v)
    value = rng.normal(size=(D, T))
    functions = [
        pytensor.function([at], [logp, pt.grad(logp, at)], trust_input=True)
        for at, logp in ((x, ours), (v, theirs))
    ]
    first, second = functions[0](value), functions[1](value.T.ravel())
    np.testing.assert_allclose(first[0], second[0], rtol=1e-9)
    return (
        "matrix normal logp + gradient, D = 28, T = 139: ours against MvNormal on the Kronecker factor",
        milliseconds(lambda: functions[0](value), repeats),
        milliseconds(lambda: functions[1](value.T.ravel()), max(3, repeats // 5)),
    )


def inverse_gaussian(repeats: int) -> list[tuple[str, float, float]]:
    """Compiled draws against NumPy's, one mean a row."""
    generator = np.random.default_rng(3)
    rows = []
    for mean in (0.1, 1.0, 100.0):
        means, out = np.full(ROWS, mean), np.empty(ROWS)
        shared = pytensor.shared(np.random.default_rng(4))
        draws = InverseGaussian.dist(pytensor.shared(means), 1.0, rng=shared)
        graph = pytensor.function([], draws, updates={shared: draws.owner.outputs[0]})
        wald = milliseconds(lambda means=means: generator.wald(means, 1.0), repeats)
        sampler = milliseconds(lambda means=means, out=out: inverse_gaussians(generator, means, out), repeats)
        what = f"1e6 inverse-Gaussian draws, mean {mean:g}"
        rows.append((f"{what}: compiled sampler against Generator.wald", sampler, wald))
        rows.append((f"{what}: InverseGaussian against Generator.wald", milliseconds(graph, repeats), wald))
    return rows


def inverse_wishart(repeats: int) -> list[tuple[str, float, float]]:
    """Draws against scipy's, which factorises the scale at each call too."""
    generator = np.random.default_rng(5)
    rows = []
    for p, batch in ((139, ()), (10, (1000,))):
        roots = generator.normal(size=(*batch, p, p + 3))
        scales = roots @ roots.swapaxes(-1, -2)
        shared = pytensor.shared(np.random.default_rng(6))
        draws = InverseWishart.dist(p + 4.0, pytensor.shared(scales, shape=scales.shape), rng=shared)
        graph = pytensor.function([], draws, updates={shared: draws.owner.outputs[0]})

        def scipy_draws(p=p, scales=scales):
            each = scales.reshape(-1, p, p)
            return [stats.invwishart.rvs(p + 4, scale, random_state=generator) for scale in each]

        what = "one draw" if not batch else "a draw for each of 1,000 scales"
        rows.append(
            (
                f"inverse-Wishart, T = {p}, {what}: ours against scipy",
                milliseconds(graph, repeats),
                milliseconds(scipy_draws, repeats if not batch else max(3, repeats // 10)),
            )
        )
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| what | ours ms | other ms | other / ours |\n|---|---|---|---|")
    with threadpool_limits(1):
        for what, ours, other in (
            *pseudo_likelihoods(repeats),
            matrix_normal(repeats),
            *inverse_gaussian(repeats),
            *inverse_wishart(repeats),
        ):
            print(f"| {what} | {ours:.3g} | {other:.3g} | {other / ours:.2g} |", flush=True)


if __name__ == "__main__":
    main()

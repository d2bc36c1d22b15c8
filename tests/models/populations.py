"""Simulated tasks and functions for the tests of normal-inverse-Wishart hierarchies."""

from __future__ import annotations

import numpy as np

import zoo

# |z| above this in one of some 50 means: 3e-4 a test under the null.
Z_LIMIT = 4.5


def tasks_of_a_population(sizes=(4, 6, 5, 3, 7, 5), D=3, noise=0.4, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(task), D))
    X[:, 0] = 1.0
    w = 0.5 * rng.normal(size=(len(sizes), D)) + rng.normal(size=D)
    y = (X * w[task]).sum(axis=1) + noise * rng.normal(size=len(task))
    return zoo.MultiTaskData.from_arrays(X, y, [f"t{i}" for i in task])


def functions_on_shared_inputs(extra=(), T=20, n=15, seed=0):
    """Noisy functions on shared inputs, half of the labels missing; ``extra`` inputs have no labels."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, n)
    Y = np.full((n + len(extra), T), np.nan)
    for t in range(T):
        seen = rng.random(n) < 0.5
        seen[:2] = True
        Y[:n][seen, t] = np.sin(2 * rng.uniform(0.5, 2) * x + rng.normal())[seen] + 0.2 * rng.normal(
            size=seen.sum()
        )
    return zoo.MultiTaskData.from_multilabel(np.append(x, extra)[:, None], Y)

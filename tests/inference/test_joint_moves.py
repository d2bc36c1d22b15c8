"""Moves of coefficients together with cut points: their law along each line, by a joint density written out anew."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

import zoo
from zoo.inference.augmentation import JointMoves
from zoo.inference.gibbs.joint_moves import JointStep
from zoo.inference.gibbs.matrix_normal import CovariancePrior
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.task_rows import Rows
from zoo.likelihoods.laws import Gamma, LogNormal

T, D, NU, PI = 2, 2, 5.0, 0.7
SCALE = np.array([[1.3, 0.2], [0.2, 0.8]])
OFFSET = 0.3
SIZES = np.array([5, 7])
DRAWS, BATCHES = 10_000, 100


def setting(by_task: bool, law, constant: bool, seed: int = 0):
    """Rows, grades and a state; inputs with a feature of ones or without."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((SIZES.sum(), D)) + 0.5
    if constant:
        inputs[:, 0] = 1.0
    offset = OFFSET * np.ones(SIZES.sum())
    rows = Rows.of(inputs, np.arange(SIZES.sum()), np.arange(SIZES.sum()), SIZES, offset)
    y = np.array([1, 2, 2, 3, 4, 3, 1, 2, 4, 4, 2, 1], dtype=float)
    likelihood = zoo.Ordinal(grades=4, width=law, per_task="width" if by_task else ())
    augmentation = likelihood.augmentation({f"width_{k}": law for k in (2, 3)}, T)
    task = np.repeat(np.arange(T), SIZES)
    state = {
        "W": rng.standard_normal((T, D)) * 0.6,
        "mu": rng.standard_normal(D) * 0.4,
        "C": np.array([[0.8, 0.3], [0.3, 0.6]]),
        "R": np.array([[0.9, 0.3], [0.3, 1.2]]),
        "widths": np.array([[0.7, 0.9], [1.1, 0.6]])[:, : T if by_task else 1],
    }
    return rows, y, task, augmentation, state


def log_likelihood(rows, y, task, state, law) -> float:
    """Of the grades, and the prior of the widths."""
    f = rows.offset + np.einsum("nd,nd->n", rows.inputs, state["W"][task])
    widths = state["widths"]
    if np.any(widths <= 0.0):
        return -np.inf
    own = np.broadcast_to(widths, (2, T))
    cuts = np.vstack([np.full(T, -np.inf), np.zeros(T), own[0], own[0] + own[1], np.full(T, np.inf)])
    k = y.astype(int)
    p = ndtr(cuts[k, task] - f) - ndtr(cuts[k - 1, task] - f)
    if not np.all(p > 0.0):  # at the far ends of the grid
        return -np.inf
    return float(np.log(p).sum() + law.log_density(widths).sum())


def population_prior(state, given) -> float:
    """Of a normal-inverse-Wishart hierarchy."""
    C = state["C"]
    total = stats.invwishart(NU, np.eye(D)).logpdf(C)
    total += stats.multivariate_normal(np.zeros(D), C / PI).logpdf(state["mu"])
    return float(total + stats.multivariate_normal(state["mu"], C).logpdf(state["W"]).sum())


def matrix_prior(state, given) -> float:
    """Of a matrix-normal hierarchy; the covariances in ``given`` have no law."""
    total = stats.matrix_normal(np.zeros((T, D)), state["R"], state["C"]).logpdf(state["W"])
    if "C" not in given:
        total += stats.invwishart(NU, np.eye(D)).logpdf(state["C"])
    if "R" not in given:
        total += stats.invwishart(NU + 1.0, SCALE).logpdf(state["R"])
    return float(total)


def moved(state, s, kind: str, grows: tuple[str, ...]) -> tuple[dict, float]:
    """The state at s (1,) for all tasks or (T,) for each, and the log Jacobian; ``grows`` goes with all tasks."""
    new = {name: np.array(value) for name, value in state.items()}
    if kind == "shift":
        new["W"] += s[:, None] * np.array([1.0, 0.0])
        new["widths"][0] += s
        if "mu" in grows:
            new["mu"][0] += s[0]
        return new, 0.0
    new["W"] *= np.exp(s)[:, None]
    new["widths"] *= np.exp(s)
    size = (T if len(s) == 1 else 1) * D + 2
    for name in grows:
        new[name] *= np.exp(s[0] if name == "mu" else 2.0 * s[0])
        size += {"mu": D, "C": D * (D + 1), "R": T * (T + 1)}[name]
    return new, size * float(s.sum())


def still(rng, f, y, weight, starts, first, parameters, laws, *rest):
    """A move that stays: factors of 1, or shifts of 0."""
    rest[-1][:] = 1.0 if len(rest) == 3 else 0.0


CASES = {
    "population": (population_prior, (), ("mu", "C"), False),
    "population, by task": (population_prior, (), (), True),
    "matrix normal": (matrix_prior, (), ("C",), False),
    "matrix normal, features given": (matrix_prior, ("C",), ("R",), False),
    "matrix normal, both given": (matrix_prior, ("C", "R"), (), False),
    "matrix normal, by task": (matrix_prior, (), (), True),
}


def chain(step, parameters, state, rows, task, kind, case) -> np.ndarray:
    """Draws of s (n, G) of one chain of the move alone."""
    prior, given, grows, _ = CASES[case]
    rng, s = np.random.default_rng(1), np.zeros(parameters.widths.shape[1])
    found = np.empty((DRAWS, len(s)))
    for i in range(DRAWS):
        now, _ = moved(state, s, kind, grows)
        P, O = np.linalg.inv(now["R"]), np.linalg.inv(now["C"])
        f = rows.offset + np.einsum("nd,nd->n", rows.inputs, now["W"][task])
        parameters.widths[:] = now["widths"]
        if prior is population_prior:
            step.population(rng, now["W"], now["mu"], O, NU, MeanLaw(PI, np.zeros(len(O))), f)
        else:
            tasks = CovariancePrior(NU + 1.0, SCALE, state["R"] if "R" in given else None)
            features = CovariancePrior(NU, None, state["C"] if "C" in given else None)
            step.matrix_normal(rng, now["W"], P, O, tasks, features, f)
        first, before = parameters.widths[0], state["widths"][0]
        s = first - before if kind == "shift" else np.log(first / before)
        found[i] = s
        if i < 20:  # all that moves is on the line
            there, _ = moved(state, s, kind, grows)
            there["P"], there["O"] = np.linalg.inv(there["R"]), np.linalg.inv(there["C"])
            now |= {"widths": parameters.widths, "P": P, "O": O}
            for name in ("W", "mu", "widths", "P", "O"):
                np.testing.assert_allclose(now[name], there[name], atol=1e-12, err_msg=name)
            np.testing.assert_allclose(f, rows.offset + np.einsum("nd,nd->n", rows.inputs, now["W"][task]))
    return found


@pytest.mark.parametrize("kind", ["scale", "shift"])
@pytest.mark.parametrize("case", CASES)
def test_moves_draw_from_the_joint_density_along_their_line(case, kind):
    """Means and second moments of s against a grid, and by batch means.

    Null: s has the law of the grid. Each of up to 5 numbers is rejected where z, of a t law of 99 degrees of
    freedom, is beyond 5.5 on either side: 3e-7 for each, below 2e-5 in all 12 tests.
    """
    prior, given, grows, by_task = CASES[case]
    law = LogNormal(-0.3, 0.6) if by_task else Gamma(2.0, 1.5)
    rows, y, task, augmentation, state = setting(by_task, law, constant=kind == "shift")
    axis = np.linspace(-3.5, 3.5, 71) if by_task else np.linspace(-4.0, 4.0, 801)
    grid = np.array(list(product(axis, repeat=T if by_task else 1)))
    log_density = np.empty(len(grid))
    for i, s in enumerate(grid):
        there, jacobian = moved(state, s, kind, grows)
        log_density[i] = log_likelihood(rows, y, task, there, law) + jacobian
        if np.isfinite(log_density[i]):
            log_density[i] += prior(there, given)
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    joint = augmentation.joint
    moves = JointMoves(joint.scale, still) if kind == "scale" else JointMoves(still, joint.shift)
    parameters = augmentation.start()
    step = JointStep.of(augmentation._replace(joint=moves), parameters, rows, y, np.ones(len(y)))
    found = chain(step, parameters, state, rows, task, kind, case)

    def moments(s):
        return np.column_stack([s, s * s] + ([s[:, 0] * s[:, 1]] if by_task else []))

    expected = p @ moments(grid)
    batches = moments(found).reshape(BATCHES, -1, len(expected)).mean(axis=1)
    z = (batches.mean(axis=0) - expected) / (batches.std(axis=0, ddof=1) / np.sqrt(BATCHES))
    assert np.all(np.abs(z) < 5.5), z


def test_no_shift_without_a_direction_that_moves_all_rows_alike():
    """And none where widths are given."""
    law = Gamma(2.0, 1.5)
    for constant in (True, False):
        rows, y, _, augmentation, _ = setting(False, law, constant)
        step = JointStep.of(augmentation, augmentation.start(), rows, y, np.ones(len(y)))
        assert (step._direction is not None) == constant
    fixed = zoo.Ordinal(grades=4, width=1.0).augmentation({}, T)
    assert JointStep.of(fixed, fixed.start(), rows, y, np.ones(len(y))) is None

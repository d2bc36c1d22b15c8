"""Topics of news stories as tasks: the data, learners and tuning of Yu, Tresp & Schwaighofer (2005), section 6.2.

A problem is a set of documents, of which some have labels for some topics, and a kernel. A learner makes a machine of
it, which gives decision values for any documents. The yardsticks need scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.stats import rankdata

from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.experiments.topics_data import Parameters, Problem
from zoo.kernels import Basis, LearnedKernel
from zoo.likelihoods import Flat, Gaussian, InverseGammaOfSquare
from zoo.models.niw.gaussian_process import NIWGaussianProcess
from zoo.report import complete

__all__ = [
    "CRITERIA",
    "ZERO_MEAN",
    "KernelRidge",
    "Learner",
    "Machine",
    "MultiTaskGP",
    "RegularisedTasks",
    "SupportVectors",
    "Tuned",
    "best_threshold",
    "scores",
    "tune",
]

CRITERIA = ("AUC", "micro F", "accuracy")
"""What parameters are chosen by, the first for AUC, the second for F-values, the third in the paper ("error rates")."""
ZERO_MEAN = 1e6
"""pi, "a large value"."""

# ---------------------------------------------------------------- documents


# ---------------------------------------------------------------- scores


def scores(truth: np.ndarray, f: np.ndarray, used: np.ndarray, threshold: float = 0.0) -> dict[str, float]:
    """AUC and macro F averaged over topics with a positive document, micro F and accuracy over all entries.

    Parameters
    ----------
    truth : (N, T) bool
    f : (N, T)
        Decision values; above ``threshold`` counts as positive.
    used : (N, T) bool
        Entries that count.
    threshold : float
    """
    guess = (f > threshold) & used
    hit = (guess & truth).sum(axis=0)
    wrong = ((guess != truth) & used).sum(axis=0)
    tested = np.flatnonzero((truth & used).any(axis=0))
    by_topic = 2.0 * hit / np.maximum(2.0 * hit + wrong, 1.0)
    return {
        "AUC": float(np.mean([_auc(truth[used[:, t], t], f[used[:, t], t]) for t in tested])),
        "micro F": float(2.0 * hit.sum() / max(2.0 * hit.sum() + wrong.sum(), 1.0)),
        "macro F": float(by_topic[tested].mean()),
        "accuracy": float(1.0 - wrong.sum() / used.sum()),
    }


def _auc(truth: np.ndarray, f: np.ndarray) -> float:
    """Area under the ROC curve; equal values count half, and 1/2 where all are of one kind."""
    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive * negative:
        return 0.5
    above = rankdata(f)[truth].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))


def best_threshold(truth: np.ndarray, f: np.ndarray, used: np.ndarray) -> float:
    """The threshold, one for all topics, with the largest micro F."""
    order = np.argsort(-f[used], kind="stable")
    value, positive = f[used][order], truth[used][order]
    hit, guessed = np.cumsum(positive), np.arange(1, len(value) + 1)
    F = 2.0 * hit / (guessed + positive.sum())
    F[:-1][value[:-1] == value[1:]] = -1.0  # equal values are on one side
    best = int(F.argmax())
    return float(value[best] if best + 1 == len(value) else (value[best] + value[best + 1]) / 2.0)


# ---------------------------------------------------------------- learners


@dataclass(frozen=True)
class Machine:
    """What a learner made of a problem.

    Parameters
    ----------
    decide : callable
        Decision values (m, T) of the documents (m,).
    facts : dict
        Numbers worth telling.
    learned : callable, optional
        Gives the learned kernel.
    """

    decide: Callable[[np.ndarray], np.ndarray]
    facts: Mapping[str, float] = field(default_factory=dict)
    learned: Callable[[], LearnedKernel] | None = None


class Learner(Protocol):
    """What :func:`tune` tunes."""

    @property
    def fit(self) -> Callable[..., Machine]:
        """Learns from the labels of a problem, by ``fit(problem, **parameters)``."""
        ...


def _expansion(problem: Problem, weights: np.ndarray, offset: np.ndarray | float = 0.0) -> Machine:
    """``f_t(x) = sum_i weights_it kappa(x_i, x) + offset_t``."""
    return Machine(lambda rows: problem.kernel[rows] @ weights + offset)


@dataclass(frozen=True)
class KernelRidge:
    """Ridge regression of -1/+1, a topic at a time.

    Parameters
    ----------
    bias : bool
        With a constant that is not shrunk.
    """

    bias: bool = True

    def fit(self, problem: Problem, penalty: float = 1.0) -> Machine:
        """Minimise the sum of squares plus ``penalty`` times the squared norm."""
        weights, offset = np.zeros(problem.labels.shape), np.zeros(problem.n_topics)
        for t, known in enumerate(problem.known()):
            K = problem.kernel[np.ix_(problem.train[known], known)] + penalty * np.eye(len(known))
            y = problem.labels[known, t]
            u, v = np.linalg.solve(K, np.column_stack([y, np.ones(len(y))])).T
            if self.bias:
                offset[t] = u.sum() / v.sum()
            weights[known, t] = u - offset[t] * v
        return _expansion(problem, weights, offset)


@dataclass(frozen=True)
class SupportVectors:
    """Support vector machine with hinge loss and a bias, a topic at a time."""

    def fit(self, problem: Problem, C: float = 1.0) -> Machine:
        """Minimise ``C`` times the hinge loss plus half the squared norm; of one class a constant."""
        from sklearn.svm import SVC

        weights, offset = np.zeros(problem.labels.shape), np.zeros(problem.n_topics)
        for t, known in enumerate(problem.known()):
            y = problem.labels[known, t]
            if np.ptp(y) == 0.0:
                offset[t] = y[0]
                continue
            K = problem.kernel[np.ix_(problem.train[known], known)]
            model = SVC(C=C, kernel="precomputed").fit(K, y)
            weights[known[model.support_], t] = model.dual_coef_[0]
            offset[t] = model.intercept_[0]
        return _expansion(problem, weights, offset)


@dataclass(frozen=True)
class RegularisedTasks:
    r"""Support vector machines drawn to their mean (Evgeniou & Pontil, KDD 2004).

    The kernel between x of topic s and z of topic t is :math:`(1/\mu + \delta_{st}) (x'z + 1)`: a linear machine in the
    features :math:`[x / \sqrt\mu, x \text{ in the columns of the topic}]`, x with a one for the bias.
    """

    def fit(self, problem: Problem, C: float = 1.0, mu: float = 1.0) -> Machine:
        """Minimise ``C`` times the hinge loss of all topics plus half the squared norm."""
        from scipy.sparse import csr_matrix, hstack
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC

        X, T = problem.X, problem.n_topics
        ones = csr_matrix(np.ones((X.shape[0], 1)))
        X = hstack([X, ones], format="csr")
        D = X.shape[1]
        task, row = np.nonzero(~np.isnan(problem.labels).T)
        rows = X[problem.train[row]]
        columns = rows.indices.astype(np.int64) + D * np.repeat(task, np.diff(rows.indptr))
        own = csr_matrix((rows.data, columns, rows.indptr), shape=(len(row), T * D))
        model = LinearSVC(C=C, loss="hinge", fit_intercept=False, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # at the largest C of a grid
            model.fit(hstack([rows / np.sqrt(mu), own], format="csr"), problem.labels[row, task])
        shared, alone = model.coef_[0, :D], model.coef_[0, D:].reshape(T, D)
        W = (alone + shared / np.sqrt(mu)).T
        return Machine(lambda chosen: np.asarray(X[chosen] @ W))


@dataclass(frozen=True)
class MultiTaskGP:
    """The paper's model with the linear base kernel; labels are responses of -1 and +1.

    Parameters
    ----------
    method : {"em", "gibbs"}
    accelerate : bool
        Extrapolate EM's steps.
    bias : bool
        Take off the mean label of each topic first, and add it to predictions.
    """

    method: str = "em"
    accelerate: bool = True
    bias: bool = False

    def fit(
        self,
        problem: Problem,
        tau: float = 1.0,
        noise_floor: float = 0.0,
        iterations: int = 1000,
        draws: int = 300,
    ) -> Machine:
        """``noise_floor`` is a standard deviation; ``tau`` and ``iterations`` are EM's, ``draws`` those of Gibbs."""
        level = np.nanmean(problem.labels, axis=0) if self.bias else np.zeros(problem.n_topics)
        data = MultiTaskData.from_multilabel(problem.X[problem.train], problem.labels - level)
        em = self.method == "em"
        noise = Flat() if em else InverseGammaOfSquare(1.0, 0.1)
        factory = NIWGaussianProcess(
            base_kernel="linear", pi=ZERO_MEAN, tau=tau, likelihood=Gaussian(noise=noise)
        )
        if em:
            # The last map only measures how far the next step would go.
            options: dict[str, Any] = {"max_iter": int(iterations) + 1, "accelerate": self.accelerate}
            fit = factory.fit(data, "em", noise_floor=noise_floor, progress=False, **options)
        else:
            fit = factory.fit(
                data, "gibbs", draws=int(draws), tune=int(draws) // 2, chains=1, random_seed=1, progress=False, cores=1
            )  # fmt: skip
            complete(fit)
        return replace(
            _expansion(problem, self.weights(factory, fit), level),
            facts=self._facts(fit),
            learned=lambda: fit.learned_kernel(),
        )

    @staticmethod
    def weights(factory: NIWGaussianProcess, fit: Fit) -> np.ndarray:
        """Weights (n, T) of the training documents, eq (17): ``kappa^+`` times the function values."""
        values = (
            fit.posterior["function_values"].mean(("chain", "draw")).transpose("input", "task").to_numpy()
        )
        basis = Basis.of(factory.base_covariance(fit.data.n_features), fit.data.inputs)
        return np.asarray((basis.half_inverse @ (basis.half_inverse.T @ values))[basis.position])

    @staticmethod
    def _facts(fit: Fit) -> dict[str, float]:
        facts = {"noise variance": float((fit.posterior["noise"] ** 2).mean())}
        attributes = fit.idata["sample_stats"].attrs
        return {
            **facts,
            **{name: float(attributes[name]) for name in ("maps", "converged") if name in attributes},
        }


# ---------------------------------------------------------------- tuning


def folds(labels: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Fold in which each label is held out, -1 where there is none; the positive ones of a topic are spread."""
    fold = np.full(labels.shape, -1)
    for t, column in enumerate(labels.T):
        for kind in (-1.0, 1.0):
            rows = rng.permutation(np.flatnonzero(column == kind))
            fold[rows, t] = (np.arange(len(rows)) + rng.integers(n)) % n
    return fold


def held_out(learner: Learner, problem: Problem, parameters: Parameters, fold: np.ndarray) -> np.ndarray:
    """Decision values (n, T) of the labels, each by the machine that did not see it."""
    f = np.zeros(problem.labels.shape)
    for k in range(fold.max() + 1):
        rest = replace(problem, labels=np.where(fold == k, np.nan, problem.labels))
        f[fold == k] = learner.fit(rest, **parameters).decide(problem.train)[fold == k]
    return f


class Tuned(NamedTuple):
    """Parameters by criterion, the threshold that goes with each, and the score of every point of the grid."""

    parameters: dict[str, Parameters]
    thresholds: dict[str, float]
    table: list[dict[str, float]]


def tune(learner: Learner, problem: Problem, grid: Sequence[Parameters], cv: int, seed: int) -> Tuned:
    """The first best parameters, by cross-validation on the labels; all topics share them.

    With ``cv`` 0 nothing is held out, the grid has one point, and there are no thresholds.
    """
    if not cv:
        [parameters] = grid
        return Tuned(dict.fromkeys(CRITERIA, parameters), {}, [])
    truth, known = problem.labels > 0, ~np.isnan(problem.labels)
    fold = folds(problem.labels, cv, np.random.default_rng([seed, cv]))
    values = [held_out(learner, problem, parameters, fold) for parameters in grid]
    table = [scores(truth, f, known) for f in values]
    best = {name: int(np.argmax([row[name] for row in table])) for name in CRITERIA}
    return Tuned(
        {name: grid[i] for name, i in best.items()},
        {name: best_threshold(truth, values[i], known) for name, i in best.items()},
        [{**parameters, **row} for parameters, row in zip(grid, table, strict=True)],
    )

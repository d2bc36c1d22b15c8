"""What specialists use on grouped data, for the scoreboard: mixed models, one regression, and one Gaussian process.

No extra of this package brings statsmodels, GPBoost or GPyTorch. Where one is missing, the scoreboard says what it
leaves out.

All of them see features on the scale of the training rows. Models without a prior on common coefficients do not see
features that others determine, since these coefficients have no estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.experiments.scoreboard_methods import Said, say, tables
from zoo.experiments.yardsticks import independent_columns

__all__ = ["RIVALS", "Rival"]

# An interval of this many standard deviations to each side holds nine of ten draws of a normal law.
_NINE_OF_TEN = 1.6448536269514722
_MOST_TREES = 500
_PATIENCE = 10
_PENALTIES = np.logspace(-2.0, 4.0, 7)
# mu of Evgeniou & Pontil: how freely tasks have coefficients of their own, beside the common ones.
_FREEDOMS = np.logspace(-2.0, 2.0, 5)
_FOLDS = 3
_STEPS_OF_ADAM = 100


class _Tables(NamedTuple):
    """Features (n, D) of both parts, of which none is constant or determined by others, and codes of tasks (n,)."""

    X: np.ndarray
    task: np.ndarray
    X_test: np.ndarray
    of_test: np.ndarray


def _independent(train: MultiTaskData, test: MultiTaskData) -> _Tables:
    X, task, X_test, of_test = tables(train, test)
    kept = [i - 1 for i in independent_columns(_with_constant(X)) if i]
    return _Tables(X[:, kept], task, X_test[:, kept], of_test)


def _with_constant(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def _coded(train: MultiTaskData, labels: bool) -> np.ndarray:
    return (train.y > 0.0).astype(float) if labels else train.y


def _likelihood(labels: bool) -> str:
    return "bernoulli_logit" if labels else "gaussian"


def _normal(mean: np.ndarray, variance: np.ndarray) -> Said:
    half = _NINE_OF_TEN * np.sqrt(variance)
    return Said(mean, mean - half, mean + half)


# ---------------------------------------------------------------- scikit-learn


def _augmented(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    r"""One penalised regression for common and own coefficients (Evgeniou & Pontil, KDD 2004).

    A row x of task t becomes :math:`(x, 0, \dots, \sqrt\mu\, x, \dots, 0)`, with the second x at the place of t, so
    that t has the coefficients :math:`w_0 + \sqrt\mu\, v_t`. The penalty and :math:`\mu` are chosen by
    cross-validation.
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

    X, task, X_test, of_test = tables(train, test)
    kind: Any = StratifiedKFold if labels else KFold
    model: Any = LogisticRegression(max_iter=2000) if labels else Ridge()
    grid = {"C": 1.0 / _PENALTIES} if labels else {"alpha": _PENALTIES}
    found = []
    for freedom in _FREEDOMS:
        search = GridSearchCV(
            model,
            grid,
            scoring="neg_log_loss" if labels else "neg_mean_squared_error",
            cv=kind(_FOLDS, shuffle=True, random_state=0),
        )
        search.fit(_own_columns(X, task, train.n_tasks, freedom), train.y)
        found.append(search)
    best = int(np.argmax([search.best_score_ for search in found]))
    return Said(say(found[best], _own_columns(X_test, of_test, train.n_tasks, _FREEDOMS[best]), labels))


def _own_columns(X: np.ndarray, task: np.ndarray, n_tasks: int, freedom: float) -> Any:
    """The columns of X, and a level and the columns of X of each task times the root of ``freedom``; sparse."""
    from scipy import sparse

    own = _with_constant(X)
    n, width = own.shape
    columns = task[:, None] * width + np.arange(width)
    spread = sparse.csr_array(
        (own.ravel(), columns.ravel(), np.arange(n + 1) * width), shape=(n, n_tasks * width)
    )
    return sparse.hstack([sparse.csr_array(X), np.sqrt(freedom) * spread], format="csr")


# ---------------------------------------------------------------- statsmodels


def _mixed_lm(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Slopes and levels of tasks with a full covariance, by maximal restricted likelihood."""
    import statsmodels.api as sm

    X, task, X_test, of_test = _independent(train, test)
    X, X_test = _with_constant(X), _with_constant(X_test)
    scale = float(train.y.std())
    with warnings.catch_warnings():
        # Most of these fits end where a covariance is singular, and say so; what they predict is scored all the same.
        warnings.simplefilter("ignore")
        fit = sm.MixedLM(train.y / scale, X, groups=task, exog_re=X).fit()
    own = np.array([fit.random_effects[t] for t in range(train.n_tasks)])
    return Said(scale * np.einsum("nd,nd->n", X_test, np.asarray(fit.fe_params) + own[of_test]))


# ---------------------------------------------------------------- GPBoost


def _gpboost_slopes(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Levels and independent slopes of tasks, by maximal likelihood; of labels by Laplace's approximation."""
    import gpboost

    X, task, X_test, of_test = _independent(train, test)
    model = gpboost.GPModel(
        group_data=task,
        group_rand_coef_data=X,
        ind_effect_group_rand_coef=[1] * X.shape[1],
        likelihood=_likelihood(labels),
        num_parallel_threads=1,
    )
    model.fit(y=_coded(train, labels), X=_with_constant(X))
    found = model.predict(
        group_data_pred=of_test,
        group_rand_coef_data_pred=X_test,
        X_pred=_with_constant(X_test),
        predict_var=not labels,
    )
    return Said(np.asarray(found["mu"])) if labels else _normal(found["mu"], found["var"])


def _gpboost_trees(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Boosted trees and levels of tasks; the number of trees is chosen by cross-validation."""
    import gpboost

    X, task, X_test, of_test = tables(train, test)
    y = _coded(train, labels)
    settings = {"verbose": -1, "num_threads": 1, "seed": 0}

    def levels() -> Any:
        return gpboost.GPModel(group_data=task, likelihood=_likelihood(labels), num_parallel_threads=1)

    tried = gpboost.cv(
        params=settings,
        train_set=gpboost.Dataset(X, label=y),
        gp_model=levels(),
        num_boost_round=_MOST_TREES,
        nfold=5,
        early_stopping_rounds=_PATIENCE,
        verbose_eval=False,
        seed=0,
    )
    losses = next(values for name, values in tried.items() if name.endswith("-mean"))
    trees = gpboost.train(
        params=settings,
        train_set=gpboost.Dataset(X, label=y),
        gp_model=levels(),
        num_boost_round=int(np.argmin(losses)) + 1,
    )
    found = trees.predict(data=X_test, group_data_pred=of_test, predict_var=not labels, pred_latent=False)
    mean = np.asarray(found["response_mean"])
    return Said(mean) if labels else _normal(mean, found["response_var"])


# ---------------------------------------------------------------- GPyTorch


def _multitask_gp(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """A Gaussian process whose covariance is a kernel of the features times one of the tasks, exact.

    It is the multi-task regression of GPyTorch's manual, with a lengthscale for each feature: one common factor of the
    tasks and a variance of each, noise that all share, and 100 steps of Adam up the marginal likelihood.
    """
    import gpytorch
    import torch

    X, task, X_test, of_test = tables(train, test)
    moving = np.ptp(X, axis=0) > 0.0
    rows, new = (
        (torch.as_tensor(part[:, moving]), torch.as_tensor(of)[:, None])
        for part, of in ((X, task), (X_test, of_test))
    )
    mean, scale = float(train.y.mean()), float(train.y.std())
    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Process(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(rows, torch.as_tensor((train.y - mean) / scale), noise)
            self.mean = gpytorch.means.ConstantMean()
            self.of_features = gpytorch.kernels.RBFKernel(ard_num_dims=int(moving.sum()))
            self.of_tasks = gpytorch.kernels.IndexKernel(num_tasks=train.n_tasks, rank=1)

        def forward(self, x: Any, of: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean(x), self.of_features(x).mul(self.of_tasks(of))
            )

    noise = gpytorch.likelihoods.GaussianLikelihood()
    with warnings.catch_warnings(), gpytorch.settings.max_cholesky_size(train.n_rows + 1):
        warnings.simplefilter("ignore")  # of its own deprecations
        model = Process().double()
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(noise, model)
        climb = torch.optim.Adam(model.parameters(), lr=0.1)
        model.train()
        for _ in range(_STEPS_OF_ADAM):
            climb.zero_grad()
            loss = -evidence(model(*rows), model.train_targets)
            loss.backward()
            climb.step()
        model.eval(), noise.eval()
        with torch.no_grad():
            found = noise(model(*new))
            return _normal(mean + scale * found.mean.numpy(), scale**2 * found.variance.numpy())


# ---------------------------------------------------------------- PyMC and nutpie


def _hierarchical(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Levels and independent slopes of tasks with the default priors of Bambi, sampled by nutpie."""
    import arviz
    import pymc as pm

    X, task, X_test, of_test = (
        _with_constant(part) if part.ndim == 2 else part for part in tables(train, test)
    )
    moving = np.r_[True, X.std(axis=0)[1:] > 0.0]
    X, X_test = X[:, moving], X_test[:, moving]
    y = _coded(train, labels)
    scale = 1.0 if labels else float(y.std())
    centre = np.zeros(X.shape[1])
    centre[0] = 0.0 if labels else y.mean()
    with pm.Model():
        common = pm.Normal("common", centre, 2.5 * scale, shape=X.shape[1])
        sd = pm.HalfNormal("sd", 2.5 * scale, shape=X.shape[1])
        own = pm.Normal("own", shape=(train.n_tasks, X.shape[1]))
        f = (X * (common + sd * own)[task]).sum(axis=1)
        if labels:
            pm.Bernoulli("y", logit_p=f, observed=y)
        else:
            pm.Normal("y", f, pm.HalfStudentT("noise", nu=4.0, sigma=scale), observed=y)
        found = pm.sample(nuts_sampler="nutpie", cores=1, random_seed=1, progressbar=False)
    r_hat = max(float(values.max()) for values in arviz.rhat(found).to_dataset().values())
    # Draws one after the other: chains together.
    draws = {name: np.concatenate(values.to_numpy()) for name, values in found["posterior"].items()}
    rng, parts = np.random.default_rng(1), []
    for common, sd, own in zip(draws["common"], draws["sd"], draws["own"], strict=True):
        f = np.einsum("nd,nd->n", X_test, (common + sd * own)[of_test])
        parts.append(1.0 / (1.0 + np.exp(-f)) if labels else f)
    mean = np.mean(parts, axis=0)
    if labels:
        return Said(mean, r_hat=r_hat)
    lower, upper = np.quantile(
        parts + draws["noise"][:, None] * rng.normal(size=(len(parts), len(mean))), (0.05, 0.95), axis=0
    )
    return Said(mean, lower, upper, r_hat)


# ---------------------------------------------------------------- all


class Rival(NamedTuple):
    """A method of others.

    Parameters
    ----------
    run : callable
        Training data, test data, and whether responses are labels, to what it says of the test rows.
    package : str
        What must be installed.
    labels : bool
        Whether it is for labels too.
    most_numbers : float
        Numbers in the table of features (rows times features) up to which it ends in minutes.
    most_features : float
    most_rows : float
        Rows up to which it ends in minutes, if its cost is their cube.
    """

    run: Callable[[MultiTaskData, MultiTaskData, bool], Said]
    package: str
    labels: bool = True
    most_numbers: float = np.inf
    most_features: float = np.inf
    most_rows: float = np.inf

    def missing(self) -> str | None:
        """Why it cannot run on this machine, if so."""
        if find_spec(self.package) is None:
            return f"{self.package} is not installed; pip install {self.package}"
        return None

    def refuses(self, train: MultiTaskData, labels: bool) -> str | None:
        """Why it does not run on these data, if so."""
        if labels and not self.labels:
            return "it is for real responses"
        if train.n_features > self.most_features:
            return f"it is slow with more than {self.most_features:.0f} features"
        if train.n_rows > self.most_rows:
            return f"it is slow with more than {self.most_rows:.0f} rows"
        if train.n_rows * train.n_features > self.most_numbers:
            return f"it is slow with more than {self.most_numbers:.0f} numbers in the table of features"
        return None


RIVALS: dict[str, Rival] = {
    "augmented ridge or logistic": Rival(_augmented, "sklearn"),
    "MixedLM, random slopes": Rival(_mixed_lm, "statsmodels", labels=False, most_features=15),
    "GPBoost, random slopes": Rival(_gpboost_slopes, "gpboost"),
    "GPBoost, trees and levels": Rival(_gpboost_trees, "gpboost"),
    "GPyTorch, multi-task GP": Rival(_multitask_gp, "gpytorch", labels=False, most_rows=4000),
    "priors of Bambi, nutpie": Rival(_hierarchical, "nutpie", most_numbers=50_000),
}

"""Choices between alternatives: `NIWLinear(likelihood="multinomial_logit")` against R's bayesm and NUTS, in one run.

    python benchmarks/choices.py [--draws 6000] [--seeds 1 2 3] [--nuts] [--few] [--camera] [--conjoint]

1,000 people choose 12 times among 4 alternatives of 6 attributes, with coefficients ``w_t ~ N(mu, C)``. bayesm's
``rhierMnlRwMixture`` with one component (Debian's r-cran-bayesm) samples the same model, with the same priors of mu and
C, by a random walk for each person (Rossi, Allenby & McCulloch 2005, section 5.3).

Printed for each seed: seconds and worst R-hat of 4 chains of 1,000 draws after 1,000 of warm-up; root mean square and
largest z score of the means of mu, C and the coefficients of 20 people against bayesm, with the Monte Carlo errors of
both sides (near 1 if both are right); smallest effective number of draws of mu and C per second, warm-up
counted, compilation not, one process each; and the share of the true coefficients in their 90 % intervals. With
``--nuts`` also those of the plain PyMC model by nutpie.

``--camera``: 332 people chose 16 times among four cameras and none of them (the data set ``camera`` of bayesm). The
last three choices of each person are held out. Printed: mean log loss and hit rate of them by the hierarchy, by
bayesm, by one logit for all people and by an even guess; worst R-hat, of bayesm between the halves of its draws of mu
and C.

``--few``: 60 people with eight attributes. Printed: worst R-hat by both methods, with the default number of draws.

``--conjoint``: the simulated customers of table 1 of Evgeniou, Micchelli & Pontil (2005), of whom
``zoo reproduce evgeniou2005`` has errors by the paper's methods. Printed: errors in percent of the hierarchical logit
(here of single products, that are liked or not), mean over two panels of 200 customers.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from r_script import run_r
from scipy.optimize import minimize
from scipy.special import logsumexp

import zoo
from zoo.experiments.conjoint import customers

PEOPLE, CHOICES, ALTERNATIVES, ATTRIBUTES = 1000, 12, 4, 6
DELTA, PI = 4.0, 0.1
_WARM_UP, _SHOWN = 1000, 20
_MEAN = np.array([1.0, -1.0, 0.5, 0.0, 0.8, -0.4])

_R = """
suppressMessages(library(bayesm))
d <- commandArgs(TRUE)
n <- as.integer(scan(file.path(d[1], "shape.txt"), quiet = TRUE))
p <- scan(file.path(d[1], "prior.txt"), quiet = TRUE)
rows <- n[2] * n[3]
X <- matrix(readBin(file.path(d[1], "X.bin"), "double", n[1] * rows * n[4]), ncol = n[4], byrow = TRUE)
y <- readBin(file.path(d[1], "y.bin"), "double", n[1] * n[2])
lgt <- lapply(seq_len(n[1]), function(t) list(
  y = y[((t - 1) * n[2] + 1):(t * n[2])], X = X[((t - 1) * rows + 1):(t * rows), , drop = FALSE]))
prior <- list(ncomp = 1, mubar = matrix(0, 1, n[4]), Amu = matrix(p[2]), nu = p[1], V = diag(n[4]))
R <- as.integer(d[2])
set.seed(1)
run <- function() rhierMnlRwMixture(Data = list(p = n[3], lgtdata = lgt), Prior = prior,
                                    Mcmc = list(R = R, keep = 1, nprint = 0))
invisible(capture.output(seconds <- system.time(out <- run())["elapsed"]))
parts <- lapply(out$nmix$compdraw, function(draw) draw[[1]])
root <- lapply(parts, function(part) backsolve(part$rooti, diag(n[4])))
writeBin(unlist(lapply(parts, function(part) part$mu)), file.path(d[1], "mu.bin"))
writeBin(unlist(lapply(root, function(r) crossprod(r))), file.path(d[1], "cov.bin"))
shown <- if (n[5] > 0) seq_len(n[5]) else seq_len(n[1])
writeBin(as.vector(out$betadraw[shown, , ]), file.path(d[1], "beta.bin"))
cat(seconds)
"""
_CAMERA = """
suppressMessages(library(bayesm))
data(camera)
d <- commandArgs(TRUE)
writeBin(as.vector(t(do.call(rbind, lapply(camera, function(one) one$X)))), file.path(d[1], "X.bin"))
writeBin(as.double(unlist(lapply(camera, function(one) one$y))), file.path(d[1], "y.bin"))
write(colnames(camera[[1]]$X), file.path(d[1], "names.txt"))
cat(0)
"""


def as_frame(X: np.ndarray, chosen: np.ndarray, names: list[str]) -> pd.DataFrame:
    """Alternatives as rows, from X (people, choices, alternatives, attributes) and chosen (people, choices)."""
    people, choices, size, _ = X.shape
    frame = pd.DataFrame(X.reshape(-1, X.shape[-1]), columns=names)
    frame["person"] = np.repeat([f"p{i:04d}" for i in range(people)], choices * size)
    frame["question"] = np.tile(np.repeat(np.arange(choices), size), people)
    frame["chosen"] = (np.arange(size) == chosen[..., None]).astype(int).ravel()
    return frame


def simulate(
    seed: int, people: int = PEOPLE, mean: np.ndarray = _MEAN
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Alternatives, which one was chosen, and the coefficients (people, attributes)."""
    rng, D = np.random.default_rng(seed), len(mean)
    root = 0.4 * rng.normal(size=(D, D))
    cov = root @ root.T + 0.3 * np.eye(D)
    w = rng.multivariate_normal(mean, cov, size=people)
    X = rng.normal(size=(people, CHOICES, ALTERNATIVES, D))
    utility = np.einsum("tcjd,td->tcj", X, w) + rng.gumbel(size=X.shape[:3])
    return X, utility.argmax(axis=2), w


def by_bayesm(
    X: np.ndarray, chosen: np.ndarray, draws: int, shown: int
) -> tuple[float, dict[str, np.ndarray]] | None:
    """Seconds, and draws of mu, C, and the coefficients of the first people (0: of all); None without R."""
    if shutil.which("Rscript") is None:
        return None
    people, choices, size, D = X.shape
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        X.tofile(place / "X.bin")
        (chosen + 1.0).tofile(place / "y.bin")
        (place / "shape.txt").write_text(f"{people} {choices} {size} {D} {shown}\n")
        (place / "prior.txt").write_text(f"{DELTA + D - 1} {PI}")
        seconds = run_r(_R, place, draws)
        if seconds is None:
            return None
        mu = np.fromfile(place / "mu.bin").reshape(draws, D)
        cov = np.fromfile(place / "cov.bin").reshape(draws, D, D)
        beta = np.fromfile(place / "beta.bin").reshape(draws, D, -1).swapaxes(1, 2)
    return seconds, {"mu": mu, "C": cov, "coefficients": beta}


def by_zoo(frame: pd.DataFrame, method: str, **options: Any) -> tuple[float, zoo.Fit]:
    """Seconds without compilation, and the fit."""
    data = zoo.MultiTaskData.from_frame(frame, y="chosen", task="person", choice="question")
    model = zoo.NIWLinear(likelihood="multinomial_logit", pi=PI, delta=DELTA, scale_matrix=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "gibbs":  # nutpie's compilation is taken off below
            model.fit(data, method, draws=4, tune=4, chains=2, progress=False, random_seed=1)
        started = time.perf_counter()
        fit = model.fit(data, method, progress=False, random_seed=1, **options)
    return time.perf_counter() - started, fit


def draws_of(fit: zoo.Fit) -> dict[str, np.ndarray]:
    """Draws (chain * draw, ...) of mu, C, and the coefficients of some people."""
    posterior = fit.posterior.stack(sample=("chain", "draw")).transpose("sample", ...)
    return {
        "mu": posterior["population_mean"].to_numpy(),
        "C": posterior["feature_cov"].to_numpy(),
        "coefficients": posterior["coefficients"].to_numpy()[:, :, :_SHOWN].swapaxes(1, 2),
    }


def moments(values: np.ndarray, chains: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Means, Monte Carlo errors, and the smallest effective number of draws, of (draw, ...) values."""
    flat = values.reshape(chains, len(values) // chains, -1)
    ess = [
        float(array_stats.ess(v, chain_axis=0, draw_axis=1, method="bulk")) for v in np.moveaxis(flat, 2, 0)
    ]
    pooled = flat.reshape(-1, flat.shape[2])
    return pooled.mean(axis=0), pooled.std(axis=0) / np.sqrt(ess), min(ess)


def simulated(seed: int, draws: int, nuts: bool) -> None:
    """Print one line."""
    X, chosen, w = simulate(seed)
    frame = as_frame(X, chosen, [f"a{i}" for i in range(ATTRIBUTES)])
    seconds, fit = by_zoo(frame, "gibbs")
    low, high = fit.posterior["coefficients"].quantile([0.05, 0.95], ("chain", "draw")).to_numpy()
    cover = float(np.mean((low <= w.T) & (w.T <= high)))
    worst = fit.diagnostics()["r_hat"].max()
    line = f"seed {seed}: {seconds:.0f} s, R-hat {worst:.4f}, cover of coefficients {cover:.3f}"
    # One process, as bayesm has one.
    alone, again = by_zoo(frame, "gibbs", chains=2, draws=draws // 2, cores=1)
    ours = {name: moments(values, 2) for name, values in draws_of(again).items()}
    ess = min(ours["mu"][2], ours["C"][2])
    line += f"; ESS/s {ess / alone:,.1f}"
    reference = by_bayesm(X, chosen, draws, _SHOWN)
    if reference is not None:
        there = {name: moments(values[_WARM_UP:], 1) for name, values in reference[1].items()}
        for name, (mean, error, _) in ours.items():
            z = (mean - there[name][0]) / np.hypot(error, there[name][1])
            line += f"; {name}: rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}"
        line += f"; bayesm ESS/s {min(there['mu'][2], there['C'][2]) / reference[0]:,.1f}"
    if nuts:
        seconds, other = by_zoo(frame, "nuts", chains=2, draws=1000, cores=1)
        found = {name: moments(values, 2) for name, values in draws_of(other).items()}
        line += f"; nutpie ESS/s {min(found['mu'][2], found['C'][2]) / seconds:,.1f} (with compilation)"
    print(line, flush=True)


def camera(draws: int) -> None:
    """Print the scores of the choices that are held out."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if run_r(_CAMERA, place, 0) is None:
            return
        names = (place / "names.txt").read_text().split()
        X = np.fromfile(place / "X.bin").reshape(332, 16, 5, len(names))
        chosen = np.fromfile(place / "y.bin").reshape(332, 16).astype(int) - 1
    train, test = (X[:, :13], chosen[:, :13]), (X[:, 13:], chosen[:, 13:])
    frame, held_out = as_frame(*train, names), as_frame(*test, names)
    seconds, fit = by_zoo(frame, "gibbs")
    data = zoo.MultiTaskData.from_frame(held_out, y="chosen", task="person", choice="question")
    scores = zoo.diagnostics.compare({"NIWLinear": fit}, data)
    print(f"NIWLinear in {seconds:.0f} s, R-hat {fit.diagnostics()['r_hat'].max():.4f}")
    reference = by_bayesm(*train, draws, 0)
    if reference is not None:
        beta = reference[1]["coefficients"][_WARM_UP :: max(1, draws // 2000)]
        f = np.einsum("tcjd,std->stcj", test[0], beta)
        p = np.mean(np.exp(f - logsumexp(f, axis=-1, keepdims=True)), axis=0)
        scores.loc["bayesm"] = scored(p, test[1])
        half = (draws - _WARM_UP) // 2
        halves = [reference[1][name][-2 * half :].reshape(2, half, -1) for name in ("mu", "C")]
        worst = max(
            float(array_stats.rhat(v, chain_axis=0, draw_axis=1))
            for v in np.moveaxis(np.concatenate(halves, axis=2), 2, 0)
        )
        print(f"bayesm in {reference[0]:.0f} s, R-hat between the halves of its draws {worst:.4f}")
    pooled = minimize(lambda b: -np.sum(np.log(taken(logit(train[0], b), train[1]))), np.zeros(len(names)))
    scores.loc["one logit for all"] = scored(logit(test[0], pooled.x), test[1])
    scores.loc["even guess"] = [np.log(5.0), 20.0]
    print(scores.round(3))


def few() -> None:
    """Print R-hat of few people with many attributes."""
    mean = np.array([1.0, -1.0, 0.5, 0.0, 0.8, -0.4, 0.3, -0.7])
    X, chosen, _ = simulate(1, 60, mean)
    frame = as_frame(X, chosen, [f"a{i}" for i in range(len(mean))])
    for method in ("gibbs", "nuts"):
        seconds, fit = by_zoo(frame, method)
        print(
            f"60 people, {method}: {seconds:.0f} s, R-hat {fit.diagnostics()['r_hat'].max():.4f}", flush=True
        )


def conjoint() -> None:
    """Print the errors by the number of answers that each customer has given."""
    for size in (20, 30, 60, 90):
        errors = []
        for panel in (0, 1):
            rows, _ = customers(panel)
            place = np.concatenate([np.arange(len(at)) for at in rows.rows_by_task()])
            train, test = rows.take(place < size), rows.take(place >= size)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = zoo.NIWLinear(likelihood="logistic").fit(train, random_seed=1, progress=False)
            label = fit.predict(test, random_seed=1)["label"].to_numpy()
            errors.append(100.0 * np.mean(label != test.y))
        print(f"{size} answers: {np.mean(errors):.1f} % wrong", flush=True)


def logit(X: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Probabilities (people, choices, alternatives) for one vector of coefficients."""
    f = X @ b
    return np.exp(f - logsumexp(f, axis=-1, keepdims=True))


def taken(p: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Probability of what was chosen."""
    return np.take_along_axis(p, chosen[..., None], axis=-1)[..., 0]


def scored(p: np.ndarray, chosen: np.ndarray) -> list[float]:
    """Mean log loss, and hit rate in percent."""
    return [float(-np.log(taken(p, chosen)).mean()), 100.0 * float(np.mean(p.argmax(axis=-1) == chosen))]


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=6000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--nuts", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--camera", action="store_true")
    parser.add_argument("--conjoint", action="store_true")
    given = parser.parse_args()
    for seed in given.seeds:
        simulated(seed, given.draws, given.nuts)
    if given.few:
        few()
    if given.camera:
        camera(given.draws)
    if given.conjoint:
        conjoint()


if __name__ == "__main__":
    main()

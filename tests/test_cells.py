"""Which method serves which prior with which likelihood; those by augmentation agree with NUTS."""

import numpy as np
import pymc as pm
import pytest

import zoo
from tests.comparisons import largest_z
from zoo.likelihoods import Gamma, InverseGammaOfSquare, LogNormal
from zoo.likelihoods.resolve import LIKELIHOODS, resolve

_AUGMENTED = (
    "gaussian",
    "student_t",
    "laplace_noise",
    "hinge",
    "epsilon_insensitive",
    "logistic",
    "probit",
    "ordinal",
    "negative_binomial",
)
_GIBBS = {word: ["gibbs", "nuts"] if word in _AUGMENTED else ["nuts"] for word in LIKELIHOODS}
_SMOOTH = [word for word in LIKELIHOODS if resolve(word).smooth]
_LATENT = ["laplace", "inducing", "hsgp", "nuts"]
_POPULATION = {**_GIBBS, "gaussian": ["gibbs", "em", "nuts"], "multinomial_logit": ["gibbs", "nuts"]}
METHODS = {
    "MaxMargin": _GIBBS,
    "NonparametricMaxMargin": _GIBBS,
    "NIWLinear": _POPULATION,
    "NIWGaussianProcess": {**_POPULATION, "multinomial_logit": ["nuts"]},
    "MultiTaskKernelMachine": {
        **{word: [*_GIBBS[word], "laplace"] if word in _SMOOTH else _GIBBS[word] for word in LIKELIHOODS},
        "gaussian": ["exact", "gibbs", "nuts"],
        "logistic": ["laplace", "gibbs", "nuts"],
    },
    "VaryingCoefficientGP": {
        **{word: [*_LATENT[:3], "vecchia", *_GIBBS[word]] for word in LIKELIHOODS},
        "gaussian": ["exact", "hsgp", "inducing", "vecchia", "gibbs", "nuts"],
        "logistic": [*_LATENT[:3], "vecchia", "ep", "variational", "gibbs", "nuts"],
        **{
            key: _GIBBS[key]
            for key in (
                "laplace_noise",
                "hinge",
                "normalised_hinge",
                "epsilon_insensitive",
                "multinomial_logit",
            )
        },
    },
    "IndependentTasks": {
        **{key: ["nuts"] for key in LIKELIHOODS},
        "gaussian": ["exact", "nuts"],
        "logistic": ["laplace", "nuts"],
    },
}
# Factories that are derived for some likelihoods alone, and a part of what they say of others.
REFUSED = {
    "MultiLaplaceGP": (("gaussian",), "integrates its functions out"),
    "KernelLocalSmoothing": (("gaussian", "logistic"), "local fits are derived for gaussian"),
}

rng = np.random.default_rng(0)
T, N, D = 5, 14, 2
TASK = np.repeat(np.arange(T), N)
X = np.column_stack([np.ones(T * N), rng.standard_normal(T * N)])
F = np.einsum("nd,nd->n", X, 0.5 + 0.5 * rng.standard_normal((T, D))[TASK])
Y = {
    "real": F + 0.4 * rng.standard_t(4.0, T * N),
    "labels": np.where(F + 1.5 * rng.logistic(size=T * N) > 0.5, 1.0, -1.0),
    "counts": rng.poisson(np.exp(0.5 * F)).astype(float),
}
Y["grades"] = 1.0 + np.sum(F + rng.standard_normal(T * N) > np.array([[0.0], [0.4], [0.9], [1.5]]), axis=0)


def data_for(likelihood, weight=None):
    if resolve(likelihood).of_choices:
        n = np.arange(len(X))
        return zoo.MultiTaskData.from_arrays(X[:, 1:], n % 2, TASK, weight=weight, choice=n // 2)
    return zoo.MultiTaskData.from_arrays(X, Y[resolve(likelihood).responses], TASK, weight=weight)


@pytest.mark.parametrize("word", LIKELIHOODS)
@pytest.mark.parametrize("model", METHODS)
def test_methods(model, word):
    assert list(getattr(zoo, model)(likelihood=word).methods) == METHODS[model][word]


@pytest.mark.parametrize("word", LIKELIHOODS)
@pytest.mark.parametrize("model", REFUSED)
def test_refusals(model, word):
    served, message = REFUSED[model]
    make = lambda: getattr(zoo, model)(likelihood=word).validate(data_for(word))  # noqa: E731
    if word in served:
        if model == "MultiLaplaceGP":
            make()
        return
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("model", "word", "method", "message"),
    [
        ("NIWLinear", "poisson", "gibbs", "needs an augmentation .*Poisson has none. Choose from nuts"),
        ("MaxMargin", "normalised_hinge", "gibbs", "needs an augmentation .*NormalisedHinge has none"),
        (
            "NIWLinear",
            "logistic",
            "em",
            "which needs likelihood='gaussian', not Logistic. Choose from gibbs, nuts",
        ),
        ("MultiTaskKernelMachine", "hinge", "laplace", "Hinge has corners. Choose from gibbs, nuts"),
        ("VaryingCoefficientGP", "hinge", "laplace", "Hinge has corners. Choose from gibbs, nuts"),
        ("MaxMargin", "multinomial_logit", "gibbs", "of MaxMargin knows no choices.*Choose from nuts"),
        ("VaryingCoefficientGP", "multinomial_logit", "laplace", "knows no choices.*Choose from nuts"),
        ("MultiTaskKernelMachine", "student_t", "exact", "integrates functions out"),
    ],
)
def test_a_method_that_cannot_serve_a_likelihood_says_why(model, word, method, message):
    with pytest.raises(ValueError, match=message):
        getattr(zoo, model)(likelihood=word).fit(data_for(word), method)


CELLS = [
    (model, word)
    for model in (
        "MaxMargin",
        "NonparametricMaxMargin",
        "NIWLinear",
        "NIWGaussianProcess",
        "MultiTaskKernelMachine",
    )
    for word in _AUGMENTED
]


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
@pytest.mark.parametrize(("model", "word"), CELLS)
def test_a_cell_predicts_known_and_new_rows(model, word):
    """Draws have the names and dims of the model, the same seed gives the same, and intervals are in order."""
    factory, data = getattr(zoo, model)(likelihood=word), data_for(word)
    options = {"draws": 10, "tune": 10, "chains": 2, "random_seed": 1, "progress": False}
    fit, again = (factory.fit(data, "gibbs", **options) for _ in range(2))
    for name, values in fit.posterior.items():
        np.testing.assert_array_equal(values, again.posterior[name])
    dims = factory.variable_dims(factory.design(data), factory.validate(data))
    for name in factory.likelihood.learned:
        assert fit.posterior[name].dims == ("chain", "draw", *dims.get(name, ()))
    predicted = fit.predict(X[:4], task=TASK[:4], random_seed=1)
    if "lower" in predicted:
        assert (predicted["lower"] <= predicted["upper"]).all()
    assert all(np.isfinite(v).all() for v in predicted.values())
    if model in ("MaxMargin", "NIWLinear"):
        unseen = fit.predict(X[:4], task=["new"] * 4, new_task=True, random_seed=1)
        assert all(np.isfinite(v).all() for v in unseen.values())


@pytest.mark.parametrize(
    "model", ["MaxMargin", "NonparametricMaxMargin", "NIWLinear", "MultiTaskKernelMachine"]
)
def test_weights_leave_probit_to_nuts(model):
    """A row of weight 1.7 has no truncated normal variable: Gibbs refuses weights, and is not the default."""
    factory, data = getattr(zoo, model)(likelihood="probit"), data_for("probit")
    assert factory.choose_method(None, data) == "gibbs"
    weighted = data_for("probit", weight=np.linspace(0.5, 2.0, T * N))
    assert factory.choose_method(None, weighted) == "nuts"
    with pytest.raises(
        ValueError, match=r"weight is given, and method 'gibbs' of .* takes no weights.*Probit.*'nuts'"
    ):
        factory.fit(weighted, "gibbs")
    with pytest.raises(ValueError, match="the augmentation of Probit takes no weights"):
        factory.gibbs_kernel(factory.design(weighted), np.where(weighted.y > 0, 1.0, -1.0))
    if model in ("MaxMargin", "NonparametricMaxMargin"):
        balanced = getattr(zoo, model)(likelihood="probit", class_weight="balanced")
        assert balanced.choose_method(None, data) == "nuts"
        with pytest.raises(ValueError, match=r"class_weight is given, .* or leave class_weight out"):
            balanced.fit(data, "gibbs")


def test_a_parameter_of_every_task():
    likelihood = zoo.StudentT(per_task=("noise", "degrees"))
    for model in (zoo.MaxMargin, zoo.NIWLinear):
        fit = model(likelihood=likelihood).fit(
            data_for(likelihood), draws=10, tune=10, chains=1, random_seed=1, progress=False
        )
        assert fit.method == "gibbs"
        assert fit.posterior["noise"].dims == fit.posterior["degrees"].dims == ("chain", "draw", "task")
        assert float(fit.posterior["noise"].std("task").max()) > 0.0


@pytest.mark.parametrize("model", ["MaxMargin", "MultiTaskKernelMachine", "NIWLinear"])
def test_pymc_reads_the_prior_of_a_parameter_that_is_made_of_another_one(model):
    """The noise is the root of an inverse-gamma variable, which the posterior does not hold."""
    law = InverseGammaOfSquare(2.0, 0.5)
    likelihood = zoo.StudentT(noise=law, degrees=4.0)
    fit = getattr(zoo, model)(likelihood=likelihood).fit(
        data_for(likelihood), "gibbs", draws=6, tune=6, chains=1, random_seed=1, progress=False
    )
    found = pm.stats.compute_log_prior(
        fit.idata.copy(), model=fit.model, var_names=["noise"], progressbar=False
    )
    ours = found["log_prior"]["noise"].to_numpy().ravel()
    expected = law.log_density(fit.posterior["noise"].to_numpy().ravel())
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=0.0, atol=1e-10)


def quantities(posterior):
    """Scalars (chain, draw) of a fit: logarithms of the scales, and coefficients with their squares."""
    found = {}
    for name in ("noise", "degrees", "dispersion", "C", "amplitude", "lam", "width_2", "width_3", "width_4"):
        if name in posterior:
            found[f"log {name}"] = np.log(posterior[name].to_numpy())
    for name in ("feature_cov", "task_cov"):
        if name in posterior:
            found[f"log det {name}"] = np.linalg.slogdet(posterior[name].to_numpy())[1]
    w = posterior["coefficients"].to_numpy()
    for t in (0, T - 1):
        for d in range(D):
            found[f"coefficient {d} of task {t}"] = w[:, :, d, t]
    found["size"] = np.log((w**2).sum(axis=(2, 3)))
    return {name: v for name, v in found.items() if v.ndim == 2}


_AGREE = {
    "logistic": "logistic",
    "probit": "probit",
    "ordinal": zoo.Ordinal(grades=5, width=LogNormal(-0.5, 0.7)),
    "student_t": zoo.StudentT(noise=InverseGammaOfSquare(2.0, 0.5), degrees=Gamma(4.0, 0.5)),
    "laplace_noise": zoo.LaplaceNoise(noise=LogNormal(-0.5, 0.7)),
    "negative_binomial": zoo.NegativeBinomial(dispersion=LogNormal(0.7, 0.7)),
    "gaussian": zoo.Gaussian(noise=LogNormal(-0.5, 0.7)),
    "tube": zoo.EpsilonInsensitive(C=2.0, epsilon=0.1),
    "hinge": zoo.Hinge(C=0.7),
}


@pytest.mark.scheduled
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
@pytest.mark.parametrize("word", _AGREE)
@pytest.mark.parametrize("model", ["MaxMargin", "NIWLinear", "MultiTaskKernelMachine"])
def test_gibbs_agrees_with_nuts(model, word):
    """Two engines, on weighted rows where both can: the largest |z| of some 20 quantities is below 5.

    The false-alarm rate is about 1e-5.
    """
    fields = {"MaxMargin": {}, "NIWLinear": {"delta": 5.0}, "MultiTaskKernelMachine": {"lam": 0.5}}[model]
    factory = getattr(zoo, model)(likelihood=_AGREE[word], **fields)
    weight = np.linspace(0.5, 2.0, T * N) if factory.likelihood.augmented_weights else None
    data = data_for(_AGREE[word], weight)
    shared = {"chains": 2, "progress": False}
    gibbs = factory.fit(data, "gibbs", draws=6000, tune=1000, random_seed=1, **shared)
    nuts = factory.fit(
        data, "nuts", draws=2000, tune=1500, random_seed=2, nuts={"target_accept": 0.95}, **shared
    )
    z, where = largest_z(quantities(gibbs.posterior), quantities(nuts.posterior))
    assert z < 5.0, f"{where} differs by {z:.1f} Monte-Carlo errors"

"""Likelihoods: what y may be, its density given f, its parameters and their priors, its predictions."""

from __future__ import annotations

from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.hinge import Hinge, NormalisedHinge
from zoo.likelihoods.laplace_noise import LaplaceNoise
from zoo.likelihoods.laws import Beta, Flat, Gamma, InverseGammaOfSquare, Law, LogNormal
from zoo.likelihoods.logistic import Logistic
from zoo.likelihoods.multinomial_logit import MultinomialLogit
from zoo.likelihoods.negative_binomial import NegativeBinomial
from zoo.likelihoods.ordinal import Ordinal
from zoo.likelihoods.poisson import Poisson
from zoo.likelihoods.probit import Probit
from zoo.likelihoods.resolve import resolve
from zoo.likelihoods.student_t import StudentT
from zoo.likelihoods.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from zoo.likelihoods.zero_inflated_poisson import ZeroInflatedPoisson

__all__ = [
    "Beta",
    "EpsilonInsensitive",
    "Flat",
    "Gamma",
    "Gaussian",
    "Hinge",
    "InverseGammaOfSquare",
    "LaplaceNoise",
    "Law",
    "Likelihood",
    "LogNormal",
    "Logistic",
    "MultinomialLogit",
    "NegativeBinomial",
    "NormalisedHinge",
    "Ordinal",
    "Poisson",
    "Probit",
    "StudentT",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "resolve",
]

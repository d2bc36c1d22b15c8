"""Descriptions of covariances: there and back through JSON, equal for equal kernels."""

from __future__ import annotations

import json

import numpy as np
import pymc as pm
import pytensor
import pytest

from zoo.kernels import WORDS, describe, from_word, kernel_matrix, restore

cov = pm.gp.cov
X = np.random.default_rng(0).standard_normal((4, 2))

KERNELS = {
    "Constant": lambda: cov.Constant(2.5),
    "WhiteNoise": lambda: cov.WhiteNoise(0.3),
    "ExpQuad": lambda: cov.ExpQuad(2, ls=0.1),
    "ExpQuad_vector": lambda: cov.ExpQuad(2, ls_inv=[0.3, 0.7]),
    "RatQuad": lambda: cov.RatQuad(2, alpha=0.7, ls=1.1),
    "Matern52": lambda: cov.Matern52(2, ls=1.1, active_dims=[1]),
    "Matern32": lambda: cov.Matern32(2, ls=1.1),
    "Matern12": lambda: cov.Matern12(2, ls=1.1),
    "Exponential": lambda: cov.Exponential(2, ls=1.1),
    "Cosine": lambda: cov.Cosine(2, ls=1.1),
    "Periodic": lambda: cov.Periodic(2, period=3.0, ls=1.1),
    "Linear": lambda: cov.Linear(2, c=[0.2, 0.4]),
    "Polynomial": lambda: cov.Polynomial(2, c=0.1, d=2, offset=0.5),
    "sum": lambda: cov.Linear(2, c=0) + cov.ExpQuad(2, ls=1.0, active_dims=[0]) + 2 + cov.WhiteNoise(0.1),
    "product": lambda: 0.3 * cov.Linear(2, c=0.0) * (cov.Matern52(2, ls=1.0) + cov.Constant(1.0)),
    "numpy_number": lambda: np.float64(2.0) * cov.Linear(2, c=0.0),
    "power": lambda: (cov.Linear(2, c=0.0) + 1.0) ** 3 * 0.2,
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_there_and_back_through_json(name):
    kernel = KERNELS[name]()
    description = describe(kernel)
    hash(description)
    again = restore(json.loads(json.dumps(description)))
    assert describe(again) == description == describe(KERNELS[name]())
    assert np.array_equal(kernel_matrix(again, X), kernel_matrix(kernel, X))
    if isinstance(kernel, cov.Covariance):
        assert again.input_dim == kernel.input_dim
        assert np.array_equal(again.active_dims, kernel.active_dims)


def test_equal_kernels_have_equal_descriptions():
    same = describe(cov.ExpQuad(2, ls=2))
    assert describe(cov.ExpQuad(2, ls=np.array([2.0]), active_dims=[0, 1])) == same
    assert describe(cov.ExpQuad(2, ls_inv=0.5)) == same == ("ExpQuad", ("input_dim", 2), ("ls", 2.0))
    assert describe(cov.ExpQuad(2, ls=2.1)) != same
    assert describe(cov.ExpQuad(2, ls=2, active_dims=[0])) != same
    assert describe(cov.ExpQuad(3, ls=2)) != same


@pytest.mark.parametrize("word", WORDS)
def test_words(word):
    kernel = from_word(word, 2)
    expected = {
        "linear": cov.Linear(2, c=0.0),
        "squared_exponential": cov.ExpQuad(2, ls=1.0),
        "matern52": cov.Matern52(2, ls=1.0),
        "matern32": cov.Matern32(2, ls=1.0),
    }[word]
    assert describe(kernel) == describe(expected)
    assert np.array_equal(kernel_matrix(kernel, X), kernel_matrix(expected, X))


def test_unknown_word():
    with pytest.raises(ValueError, match=r"base_kernel: 'rbf' is unknown\. Choose from 'linear'"):
        from_word("rbf", 2)


class _Own(cov.ExpQuad):
    pass


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda: cov.ExpQuad(2, ls=pm.HalfNormal.dist()), "holds ExpQuad, whose ls is random or symbolic"),
        (lambda: cov.ExpQuad(2, ls=pytensor.shared(1.0)), "whose ls is random or symbolic"),
        (lambda: cov.Linear(2, c=0.0) * pm.HalfNormal.dist(), "holds Prod, whose factor is random"),
        (lambda: cov.Linear(2, c=0.0) ** pm.Poisson.dist(1.0), "holds Exponentiated, whose power is random"),
        (lambda: cov.Linear(2, c=0.0) + _Own(2, ls=1.0), "holds _Own, which has no description"),
        (lambda: cov.Linear(2, c=0.0) * np.eye(4), "factor has 2 dimensions"),
        (lambda: cov.Linear(2, c=0.0) * np.ones(4), "with an array"),
        (lambda: cov.Coregion(1, B=np.eye(2)), "holds Coregion, which has no description"),
        (lambda: "linear", "holds str"),
    ],
)
def test_what_has_no_description(kernel, message):
    with pytest.raises(TypeError, match=message) as caught:
        describe(kernel())
    assert "`base_covariance(input_dim)`" in str(caught.value)


@pytest.mark.parametrize(
    "description",
    [
        ("Kron", 1),
        ("ExpQuad", ("input_dim", 2), ("lengthscale", 1.0)),
        ("ExpQuad", ("ls", 1.0)),
        (),
        3,
        ("Add",),
    ],
)
def test_damaged_descriptions_are_refused(description):
    with pytest.raises(ValueError, match="describes no covariance"):
        restore(description)

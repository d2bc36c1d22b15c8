"""Words of other libraries are answered with the word of this one, and errors of other libraries with a sentence."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.core.convergence import LARGEST_R_HAT
from zoo.support import other_words

RNG = np.random.default_rng(8)
FRAME = pd.DataFrame(
    {
        "y": RNG.normal(size=40),
        "x": RNG.normal(size=40),
        "g": np.repeat(list("abcd"), 10),
        "c": np.tile(["u", "v"], 20),
        "k": np.tile([1, 2, 3, 4], 10),
        "lists": [[1]] * 40,
    }
)


def make(formula):
    return zoo.MultiTaskData.from_formula(formula, FRAME)


def test_every_word_is_answered_with_one_that_there_is():
    fit = inspect.signature(zoo.NIWLinear.fit).parameters
    options = {option for method in zoo.NIWLinear().method_table() for option in method.options}
    assert set(other_words.ARGUMENTS_OF_FIT.values()) <= {*fit, *options}
    assert set(other_words.FIELDS.values()) <= set(inspect.signature(zoo.NIWLinear).parameters)
    for word, own in other_words.LIKELIHOODS.items():
        assert zoo.NIWLinear(likelihood=own).likelihood.word == own
        with pytest.raises(ValueError, match=f"libraries call '{word}' is '{own}' here"):
            zoo.NIWLinear(likelihood=word)


@pytest.mark.parametrize(
    ("word", "own"), [("seed", "random_seed"), ("progressbar", "progress"), ("n_jobs", "cores")]
)
def test_arguments_of_fit(word, own):
    with pytest.raises(
        ValueError, match=f"'{word}' is unknown. What other libraries call '{word}' is '{own}' here"
    ):
        zoo.NIWLinear().fit(make("y ~ x + (1 | g)"), **{word: 1})


def test_fields():
    with pytest.raises(
        TypeError, match=r"HierarchicalLinear has no field 'family'.*'likelihood' here. Its fields are"
    ):
        zoo.HierarchicalLinear(family="poisson")
    with pytest.raises(TypeError, match=r"PooledTasks has no field 'priors'\. Its fields are"):
        zoo.PooledTasks(priors={})


def test_a_subclass_may_take_what_it_likes():
    class Own(zoo.PooledTasks):
        def __init__(self, family="none"):
            super().__init__()
            object.__setattr__(self, "family", family)

    assert Own(family="some").family == "some"


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ 2*x + (1 | g)", r"holds the number 2 as a term\. Arithmetic stands inside I\(\)"),
        ("y ~ x + 2 + (1 | g)", r"holds the number 2 as a term"),
        ("y ~ scale(x, center=False) + (1 | g)", r"cannot be evaluated: .*'center'"),
        ("y ~ C(c, 3) + (1 | g)", r"cannot be evaluated: .*contrast"),
        ("y ~ bs(x) + (1 | g)", r"cannot be evaluated: .*'df' or 'knots'"),
        ("y ~ lists + (1 | g)", r"column 'lists' of the formula .* neither numbers nor text"),
        ("p(k, k) ~ x + (1 | g)", r"counts successes among trials\. .*weight="),
    ],
)
def test_formulas_that_other_libraries_refuse(formula, message):
    with pytest.raises(ValueError, match=message):
        make(formula)


def test_a_missing_label_of_text_is_named():
    from zoo.sklearn import MultiTaskClassifier

    model = MultiTaskClassifier(zoo.HierarchicalLinear(likelihood="logistic"), task="g")
    with pytest.raises(ValueError, match="y is missing in row 3"):
        model.fit(FRAME[["x", "g"]], FRAME["c"].where(FRAME.index != 3))


def test_a_fit_that_lacks_draws_alone_says_so():
    """Two chains of 30 draws: R-hat within its limit is rare, so the verdict is made by hand."""
    with pytest.warns(zoo.ConvergenceWarning):
        fit = zoo.NIWLinear().fit(make("y ~ x + (1 | g)"), draws=30, chains=2, random_seed=1, progress=False)
    from zoo.core.verdict import verdict_of, warning_text

    verdict = verdict_of(fit)
    few = warning_text(fit, verdict._replace(r_hat=LARGEST_R_HAT, divergences=0))
    assert "needs more draws" in few and "ESS" in few and "has not converged" not in few
    assert "has not converged" in warning_text(fit, verdict._replace(r_hat=1.2))

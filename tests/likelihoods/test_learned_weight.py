"""The slice-sampling update of a learned weight of the epsilon-insensitive loss, where its slice cannot be found."""

import numpy as np
import pytest

from zoo.inference.gibbs.parameter_laws import log_normal
from zoo.likelihoods.epsilon_insensitive import _slice_of_log_C


@pytest.mark.parametrize(
    ("loss", "rows"),
    [(np.nan, 5.0), (np.inf, 5.0), (1e300, 1e300), (1.0, 1e300), (0.0, 1e-300), (1e300, 5.0)],
)
def test_it_ends_whatever_the_loss(loss, rows):
    """Weights of 1e300 gave a slice narrower than rounding, and a loss that is no number none: the chain hung."""
    rng = np.random.default_rng(1)
    s = 0.3
    for _ in range(5):
        s = _slice_of_log_C(rng, s, loss, rows, 0.1, log_normal(0.0, 1.0))
        assert np.isfinite(s)


def test_it_draws_the_posterior():
    """Null: 4,000 thinned draws have the mean and sd of quadrature; z within 4.5, once in 70,000 seeds for both."""
    loss, rows, epsilon = 6.0, 20.0, 0.1
    law = log_normal(0.0, 1.0)
    grid = np.linspace(-3.0, 4.0, 4001)
    density = (
        rows * (grid - np.log1p(2.0 * np.exp(grid) * epsilon)) - 2.0 * np.exp(grid) * loss - 0.5 * grid**2
    )
    p = np.exp(density - density.max())
    p /= p.sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    rng, s, draws = np.random.default_rng(2), 0.0, []
    for _ in range(4000):
        for _ in range(3):
            s = _slice_of_log_C(rng, s, loss, rows, epsilon, law)
        draws.append(s)
    assert abs(np.mean(draws) - mean) < 4.5 * 1.1 * sd / np.sqrt(4000)
    assert abs(np.std(draws) - sd) < 4.5 * 1.2 * sd / np.sqrt(2 * 4000)

"""What tests of fits share."""

import pytest

import zoo


@pytest.fixture(scope="module", params=["dense", "sparse"])
def layout(request):
    """Columns of levels as they are for few levels, and as they are for very many."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sparse":
            patch.setattr("zoo.data.formula.MOST_DENSE", 0)
        yield request.param


@pytest.fixture(scope="module")
def rows():
    """Four simulated tasks of two features, six rows each."""
    return zoo.datasets.simulate_matrix_normal(4, 2, 6, random_seed=1)[0]

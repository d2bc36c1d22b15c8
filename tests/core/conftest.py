"""What tests of fits share."""

import pytest


@pytest.fixture(scope="module", params=["dense", "sparse"])
def layout(request):
    """Columns of levels as they are for few levels, and as they are for very many."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sparse":
            patch.setattr("zoo.data.formula.MOST_DENSE", 0)
        yield request.param

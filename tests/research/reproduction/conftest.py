"""What a test of an experiment is told while it runs."""

import pytest


@pytest.fixture(scope="module")
def shares():
    """The shares of its work that the module's run reported, first to last."""
    return []

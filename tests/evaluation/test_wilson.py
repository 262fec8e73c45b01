import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evaluation.metrics.reliability import wilson_interval


@given(st.integers(1, 500), st.data())
def test_as_scipy_has_it(n, data):
    positives = data.draw(st.integers(0, n))

    lower, upper = wilson_interval(np.array([positives / n]), np.array([float(n)]), 0.95)

    expected = binomtest(positives, n).proportion_ci(0.95, method="wilson")
    assert (lower[0], upper[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("confidence", [0.0, 1.0, np.nan])
def test_a_confidence_lies_between_0_and_1(confidence):
    with pytest.raises(ValueError, match=r"confidence = .*: must be between 0 and 1"):
        wilson_interval(np.array([0.5]), np.array([1.0]), confidence)

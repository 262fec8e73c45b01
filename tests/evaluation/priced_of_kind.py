"""Hypothesis strategies for predictions with bids: few distinct values, so that ties abound."""

import numpy as np
from hypothesis import strategies as st

PROBABILITIES = st.one_of(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), st.floats(1e-6, 1.0))
BIDS = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 100.0]), st.integers(1, 5000).map(lambda k: k / 64)
)
WHOLE, FRACTIONAL = st.integers(0, 4).map(float), st.floats(0.01, 2.0)


@st.composite
def priced(draw, min_size=1, max_size=20, weights=WHOLE):
    """Probabilities, outcomes 0 or 1, bids and weights; (n,) arrays."""
    n = draw(st.integers(min_size, max_size))

    def column(values):
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), float)

    return column(PROBABILITIES), column(st.integers(0, 1)), column(BIDS), column(weights)

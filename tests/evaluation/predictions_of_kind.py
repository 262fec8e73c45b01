"""Hypothesis strategies for predictions: few distinct scores, so that ties abound."""

import numpy as np
from hypothesis import strategies as st

SCORES = st.one_of(
    st.sampled_from([0.0, 0.001, 0.1, 0.25, 0.5, 1.0]),
    st.floats(0.0, 1.0, allow_subnormal=False).filter(lambda p: p == 0.0 or p > 1e-6),
)


@st.composite
def predictions(draw, min_size=1, max_size=40):
    """Probabilities, outcomes 0 or 1, and whole-number weights; (n,) arrays."""
    n = draw(st.integers(min_size, max_size))
    p = np.array(draw(st.lists(SCORES, min_size=n, max_size=n)), float)
    y = np.array(draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n)), float)
    weights = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), int)
    return p, y, weights

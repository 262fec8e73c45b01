"""Small logs for the backtest: any at all, and regular ones."""

import numpy as np
from hypothesis import strategies as st

from evaluation import EventTable


@st.composite
def tables(draw, min_size=1):
    """Small logs with silent hours, campaigns that come and go, and many equal scores."""
    impressions = draw(
        st.lists(
            st.tuples(
                st.integers(-2, 4),
                st.sampled_from("abc"),
                st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.4, 0.7, 1.0]),
                st.integers(0, 1),
            ),
            min_size=min_size,
            max_size=60,
        )
    )
    # The two last ones see to it that some hour has a whole window before it.
    impressions += [(-3, "a", 0.1, 1), (5, "b", 0.2, 0)]
    hours, campaigns, scores, outcomes = zip(*impressions, strict=True)
    return EventTable.from_columns(np.multiply(hours, 3600.0), campaigns, scores, outcomes)


def campaigns_at(hours, names=("a", "b"), each=40):
    """A log of these hours in which every campaign shows `each` impressions an hour."""
    rng = np.random.default_rng(1)
    times = np.repeat(np.multiply(hours, 3600.0), each * len(names))
    scores = rng.uniform(0.05, 0.5, len(times))
    outcomes = rng.random(len(times)) < scores * 0.7
    return EventTable.from_columns(
        times, np.tile(np.repeat(names, each), len(hours)), scores, outcomes
    )

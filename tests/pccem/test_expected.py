"""Expected conversions against Bayes' rule by simulation, and at the edges."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import expected_conversions

shares = st.floats(0, 1)


@pytest.mark.parametrize(("p", "share"), [(0.05, 0.3), (0.4, 0.6), (0.9, 0.9), (0.7, 0.1)])
def test_posterior_is_the_rate_among_clicks_that_wait(p, share):
    """Clicks that convert with p, of which a share has come: how many of the rest still will."""
    random = np.random.default_rng(11)
    converts = random.random(400_000) < p
    seen = converts & (random.random(400_000) < share)
    waiting = ~seen

    found = expected_conversions([p], [False], [share])[0]

    rate = converts[waiting].mean()
    error = np.sqrt(rate * (1 - rate) / np.count_nonzero(waiting))
    assert found == pytest.approx(rate, abs=4 * error)


def test_posterior_keeps_the_total_of_right_probabilities():
    """Seen ones at 1 and the others at their posterior sum to what p promised, in the mean."""
    p, share = np.array([0.02, 0.3, 0.8]), np.array([0.2, 0.5, 0.9])

    still = expected_conversions(p, np.zeros(3, bool), share)

    assert p * share + (1 - p * share) * still == pytest.approx(p)


@given(shares, shares, st.booleans())
def test_posterior_stays_between_nothing_and_p(p, share, seen):
    found = expected_conversions([p], [seen], [share])[0]

    assert found == 1 if seen else 0 <= found <= p + 1e-15


@given(shares, shares)
def test_paper_is_p(p, share):
    for seen in (True, False):
        assert expected_conversions([p], [seen], [share], mode="paper").tolist() == [p]


@pytest.mark.parametrize(
    ("p", "share", "expected"),
    [(1, 1, 0), (1, 0.5, 1), (1, 1 - 1e-16, 1), (0, 1, 0), (0, 0, 0), (0.3, 1, 0), (0.3, 0, 0.3)],
)
def test_edges(p, share, expected):
    """Sure to convert, out of time, and nothing came: it did not convert."""
    assert expected_conversions([p], [False], [share]).tolist() == [expected]


def test_what_comes_back_is_no_view():
    p = np.array([0.5])

    expected_conversions(p, [False], mode="paper")[0] = 0.9

    assert p.tolist() == [0.5]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"p": [1.5]}, r"p\[0\] = 1.5: every value must be in \[0, 1\]"),
        ({"p": [np.nan]}, r"p\[0\] = nan"),
        ({"seen_share": [-0.1]}, r"seen_share\[0\] = -0.1"),
        ({"seen_share": None}, "seen_share = None: mode 'posterior' needs it"),
        ({"converted": [1]}, "converted must be booleans, not int64"),
        ({"converted": [[True]]}, "converted must have one dimension, not 2"),
        ({"converted": [True, False]}, "p has 1, converted has 2"),
        ({"seen_share": [0.1, 0.2]}, "p has 1, seen_share has 2"),
        ({"mode": "oracle"}, "mode = 'oracle': must be 'posterior' or 'paper'"),
    ],
)
def test_what_is_refused(bad, message):
    good: dict[str, Any] = {"p": [0.5], "converted": [True], "seen_share": [0.5]}
    with pytest.raises(ValueError, match=message):
        expected_conversions(**good | bad)

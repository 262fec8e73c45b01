"""Odds factors: the sums they reach, and where they stop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from pccem.conversion_drift import odds_factors, scale_odds

ONE = np.zeros(3, np.int32)


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=20), st.floats(0.05, 20.0))
def test_same_as_bisection(p, ratio):
    """Where the sum is reached by the square of the ratio; else the square."""
    scores = np.array(p)

    def excess(log: float) -> float:
        return float(scale_odds(scores, np.exp(np.full(len(p), log))).sum() - ratio * scores.sum())

    found = odds_factors(scores, np.array([ratio]), np.zeros(len(p), np.int32))

    end = 2 * np.log(ratio)
    if excess(end) * end <= 0:
        assert np.log(found[0]) == pytest.approx(end, abs=1e-6)
    else:
        low, high = sorted((end / 2, end))
        assert np.log(found[0]) == pytest.approx(
            brentq(excess, low - 1e-9, high, xtol=1e-13), abs=1e-6
        )


@pytest.mark.parametrize(
    ("p", "ratio", "log"),
    [
        ([0.0, 0.0, 0.0], 2.0, 0.69314718),
        ([1.0, 1.0, 1.0], 2.0, np.log(4.0)),
        ([1.0, 1.0, 1.0], 0.5, np.log(0.25)),
        ([0.5, 0.5, 0.5], 2.0, np.log(4.0)),
        ([0.5, 0.5, 0.5], 1.5, np.log(2.25)),
        ([0.5, 0.5, 0.5], 1.0, 0.0),
        ([0.4, 0.4, 0.4], 1.25, np.log(1.5)),
        ([0.4, 0.4, 0.4], 0.25, np.log(1 / 6)),
        ([1e-12, 1e-12, 1e-12], 1e300, 10.0),
        ([1e-12, 1e-12, 1e-12], 1e-300, -10.0),
        ([1e-12, 1e-12, 1e-12], 3.0, np.log(3.0)),
    ],
)
def test_edges(p, ratio, log):
    found = odds_factors(np.array(p), np.array([ratio]), ONE)

    assert np.log(found) == pytest.approx([log], abs=1e-6)


def test_each_campaign_has_its_own_factor():
    """One that cannot reach its sum does not hold up the others; one without clicks is left."""
    random = np.random.default_rng(4)
    p = np.concatenate([random.beta(1, 3, 500), np.full(5, 0.9), random.beta(1, 20, 500)])
    rows = np.repeat(np.array([0, 1, 3], np.int32), [500, 5, 500])
    ratios = np.array([0.8, 3.0, 5.0, 1.4])

    factors = odds_factors(p, ratios, rows)

    sums = np.bincount(rows, scale_odds(p, factors[rows]))
    promised = ratios * np.bincount(rows, p)
    assert sums[[0, 3]] == pytest.approx(promised[[0, 3]], rel=1e-9)
    assert factors[1] == pytest.approx(9.0)
    assert factors[2] == pytest.approx(5.0)


def test_a_search_cut_short_still_goes_the_right_way(monkeypatch):
    """One step from the ratio: nearer to the factor, inside the bracket."""
    monkeypatch.setattr("pccem.conversion_drift._ODDS_STEPS", 1)

    found = odds_factors(np.array([0.2, 0.3, 0.4]), np.array([1.5]), ONE)

    assert 1.5 < found[0] < 2.25

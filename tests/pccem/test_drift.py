"""Drift: ratios that are known are found, and probabilities follow them inside [0, 1]."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, logit

from pccem import corrected, drift_ratios


def test_known_ratios_are_found():
    """Clicks of every age; conversions come at ratio * p, a share of them by now."""
    random = np.random.default_rng(5)
    n, ratios = 200_000, np.array([0.5, 0.8, 1.0, 1.3, 2.0])
    rows = random.integers(0, 5, n)
    p, share = random.beta(2, 30, n), random.random(n)
    seen = random.random(n) < np.minimum(ratios[rows] * p, 1) * share

    found = drift_ratios(p, seen, share, rows, 5)

    assert found == pytest.approx(ratios, rel=0.08)


def test_sums_are_those_of_a_loop():
    """The same as one click per campaign that stands for the campaign's sums."""
    p, share = np.array([0.5, 0.25, 0.5, 1.0]), np.array([1.0, 0.5, 0.5, 0.25])
    rows, seen = np.array([0, 2, 2, 2]), np.array([True, False, True, False])

    whole = drift_ratios(p, seen, share, rows, 4)
    lumped = drift_ratios([0.5, 0.625], [True, True], [1.0, 1.0], [0, 2], 4)

    assert whole == pytest.approx(lumped, rel=1e-12)
    assert whole[1] == whole[3]


def test_without_clicks_nothing_has_drifted():
    none: Any = np.zeros(0)

    assert drift_ratios(none, none.astype(bool), none, none.astype(int), 2) == pytest.approx([1, 1])


def test_a_shift_in_log_odds_is_undone():
    """Probabilities of every size: the factor of the odds is found, not merely the ratio of the
    sums."""
    random = np.random.default_rng(6)
    p = random.beta(0.5, 4.0, 300_000)
    truth = expit(logit(np.clip(p, 1e-12, 1 - 1e-12)) + 0.6)
    seen = random.random(len(p)) < truth * 0.4
    rows = np.zeros(len(p), int)

    ratios = drift_ratios(p, seen, np.full(len(p), 0.4), rows, 1)
    found = corrected(p, ratios, rows)

    assert np.abs(found - truth).max() < 0.01
    plain = ratios[0] * p / (1 - p + ratios[0] * p)
    assert np.abs(plain - truth).max() > 0.03


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1)), st.floats(1e-6, 1e6))
def test_stays_in_the_unit_interval_and_in_order(p, ratio):
    found = corrected(p, [ratio], np.zeros(len(p), int))

    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found[np.argsort(p)]) >= 0).all()
    assert (found[p == 0] == 0).all()
    assert (found[p == 1] == 1).all()


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0.01, 0.3)), st.floats(0.2, 1.6))
def test_the_sum_is_multiplied_by_the_ratio(p, ratio):
    found = corrected(p, [ratio], np.zeros(len(p), int))

    assert found.sum() == pytest.approx(ratio * p.sum(), rel=1e-9)


def test_no_clicks_to_correct():
    assert corrected([], [1.5], []).shape == (0,)
    assert corrected([], [], []).shape == (0,)


RATIOS = partial(drift_ratios, n_campaigns=2), {
    "p": [0.5], "converted": [True], "seen_share": [0.5], "rows": [0]
}  # fmt: skip
CORRECTIONS = corrected, {"p": [0.5], "ratios": [1.0], "rows": [0]}


@pytest.mark.parametrize(
    ("of", "bad", "message"),
    [
        (RATIOS, {"p": [2.0]}, r"p\[0\] = 2.0"),
        (RATIOS, {"converted": [0.0]}, "converted must be booleans, not float64"),
        (RATIOS, {"seen_share": [1.5]}, r"seen_share\[0\] = 1.5"),
        (RATIOS, {"rows": [2]}, r"rows\[0\] = 2: every value must be in \[0, 2\)"),
        (RATIOS, {"rows": [0.0]}, "rows must be integers, not float64"),
        (RATIOS, {"rows": [0, 1]}, "rows has 2"),
        (
            CORRECTIONS,
            {"ratios": [0.0]},
            r"ratios\[0\] = 0.0: every value must be finite and above",
        ),
        (CORRECTIONS, {"ratios": [np.nan]}, r"ratios\[0\] = nan"),
        (CORRECTIONS, {"rows": [1]}, r"rows\[0\] = 1"),
        (CORRECTIONS, {"rows": [0, 0]}, "p has 1, rows has 2"),
        (CORRECTIONS, {"p": [-1.0]}, r"p\[0\] = -1.0"),
    ],
)
def test_bad_columns_are_refused(of, bad, message):
    function, good = of

    with pytest.raises(ValueError, match=message):
        function(**good | bad)

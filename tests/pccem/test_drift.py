"""Drift: ratios that are known are found, by shrinkage and odds factors that slow ways confirm, and
probabilities follow them inside [0, 1]."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import nbinom

from pccem import corrected, drift_ratios
from pccem.arrays import Floats
from pccem.conversion_drift import SPREADS, odds_factors, scale_odds, shrunk_ratios


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


pairs = st.lists(
    st.tuples(st.integers(0, 500), st.one_of(st.just(0.0), st.floats(0.01, 500.0))),
    min_size=1,
    max_size=8,
)


def slowly(seen: Floats, expected: Floats) -> Floats:
    """One spread after the other, m by bisection, the likelihood by scipy's negative binomial."""
    known = expected > 0
    answers, evidence = [], []
    for spread in SPREADS:
        k = spread**-2

        def slope(m: float, k: float = k) -> float:
            return 10 * (1 - m) + sum(
                k * (s - m * e) / (k + m * e)
                for s, e in zip(seen[known], expected[known], strict=True)
            )

        m = brentq(slope, 1e-9, 1e7, xtol=1e-14, rtol=1e-14)
        means = m * expected[known]
        likelihood = nbinom.logpmf(seen[known], k, k / (k + means)).sum()
        evidence.append(likelihood + 10 * (np.log(m) - m) - np.log(spread / 0.2) ** 2 / 2)
        counted = np.where(known, seen, 0)
        answers.append(m * (k + counted) / (k + m * expected))
    weights = np.exp(np.array(evidence) - max(evidence))
    return weights @ np.array(answers) / weights.sum()


@given(pairs)
@example([(0, 0.0), (358, 0.25), (500, 0.25)])
@example([(500, 0.01)] * 7 + [(0, 500.0)])
def test_same_as_the_slow_way(pairs):
    seen, expected = np.array(pairs, np.float64).T

    found = shrunk_ratios(seen, expected)

    # Each m has 14 digits on either side. The log-likelihoods do not: scipy's takes m e / (k + m e)
    # from 1 - p, off by 1e-16 k / (m e) of itself, times a count: below 1e-8 where k matters.
    assert found == pytest.approx(slowly(seen, expected), rel=1e-8)
    assert (found > 0).all()


def drawn(spread: float, mean: float, expected: Floats, seed: int) -> tuple[Floats, Floats]:
    """True ratios, and counts seen."""
    random = np.random.default_rng(seed)
    ratios = random.gamma(spread**-2, mean * spread**2, len(expected))
    return ratios, random.poisson(ratios * expected).astype(np.float64)


@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0])
def test_closer_to_the_truth_than_either_extreme(spread):
    """In mean squared error, weighted by expected counts: no worse than the campaigns' own ratios,
    than the ratio of all, and within 15 % of the answer that knows mean and spread."""
    expected = np.random.default_rng(0).lognormal(2.0, 1.5, 400)
    ratios, seen = drawn(spread, 1.3, expected, 1)

    found = shrunk_ratios(seen, expected)

    def error(answer: Floats) -> float:
        return float(expected @ (answer - ratios) ** 2)

    k = spread**-2
    best = error(1.3 * (k + seen) / (k + 1.3 * expected))
    assert error(found) < 1.15 * best
    assert error(found) < error(seen / expected)
    assert error(found) < error(np.full(400, seen.sum() / expected.sum()))


@pytest.mark.parametrize(("share", "at_most"), [(0.07, 0.4), (0.2, 0.9), (0.5, 1.05)])
def test_shares_that_are_off_are_not_taken_for_rates(share, at_most):
    """Six campaigns of 200 clicks, each with delays of its own: in mean squared error, beside the
    same where the shares are taken for known."""
    random, rows = np.random.default_rng(8), np.repeat(np.arange(6), 200)
    p, errors = np.full(1200, 0.25), np.zeros(2)
    for _ in range(50):
        truth = random.gamma(25.0, 1 / 25, 6)
        shares = np.clip(share + 0.05 * random.normal(size=6), 0.0, 1.0)
        seen = random.random(1200) < (0.25 * truth * shares)[rows]
        for place, error in enumerate((0.0, 0.05)):
            found = drift_ratios(p, seen, np.full(1200, share), rows, 6, share_error=error)
            errors[place] += ((found - truth) ** 2).mean()

    assert errors[1] < at_most * errors[0]


def test_no_data_at_all_is_1():
    assert shrunk_ratios(np.zeros(3), np.zeros(3)).tolist() == pytest.approx([1, 1, 1])
    assert shrunk_ratios(np.zeros(0), np.zeros(0)).shape == (0,)


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

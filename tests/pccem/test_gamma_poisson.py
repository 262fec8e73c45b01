"""Gamma-Poisson ratios against a slow integration, and on campaigns whose ratios are known."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import nbinom

from pccem.arrays import Floats
from pccem.conversion_drift import SPREADS, shrunk_ratios

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


def test_much_data_speaks_for_itself():
    ratios = np.array([0.5, 1.0, 1.7, 3.0])
    expected = np.full(4, 50_000.0)

    assert shrunk_ratios(ratios * expected, expected) == pytest.approx(ratios, rel=0.001)


def test_a_sparse_campaign_leans_on_the_others():
    """Seven campaigns at 1.5; the eighth should have seen half a conversion and saw three."""
    expected = np.array([400.0] * 7 + [0.5])
    seen = np.array([600.0] * 7 + [3.0])

    found = shrunk_ratios(seen, expected)

    assert found[:7] == pytest.approx([1.5] * 7, abs=0.02)
    assert found[7] == pytest.approx(1.5, abs=0.1)


def test_nothing_expected_has_the_ratio_of_all():
    """Even where something was seen against all expectation."""
    expected = np.array([400.0] * 7 + [0.0, 0.0])
    seen = np.array([600.0] * 7 + [0.0, 3.0])

    found = shrunk_ratios(seen, expected)

    assert found[7:] == pytest.approx([1.48, 1.48], abs=0.02)
    assert found[7] == pytest.approx(found[8], rel=1e-12)


def test_no_data_at_all_is_1():
    assert shrunk_ratios(np.zeros(3), np.zeros(3)).tolist() == pytest.approx([1, 1, 1])
    assert shrunk_ratios(np.zeros(0), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("seen", "expected", "low", "high"),
    [(0, 1, 0.75, 0.99), (0, 100, 0.0, 0.15), (15, 10, 1.1, 1.4), (3_000, 1_000, 2.9, 3.0)],
)
def test_one_campaign(seen, expected, low, high):
    """Little data stays near 1, much leaves it."""
    found = shrunk_ratios(np.array([float(seen)]), np.array([expected]))[0]

    assert low < found < high

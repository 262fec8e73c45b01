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


def test_no_data_at_all_is_1():
    assert shrunk_ratios(np.zeros(3), np.zeros(3)).tolist() == pytest.approx([1, 1, 1])
    assert shrunk_ratios(np.zeros(0), np.zeros(0)).shape == (0,)

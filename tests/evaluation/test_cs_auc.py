"""csAUC: against all pairs, the paper's table 3, and what it does not depend on."""

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import CsAuc, cs_auc, cs_auc_parts
from evaluation.metrics.cs_auc import cs_auc_of
from tests.evaluation.cs_auc_oracle import cs_auc_oracle
from tests.evaluation.priced_of_kind import FRACTIONAL, priced

TIES = pytest.mark.parametrize("ties", ["definition", "half", "worst"])

BIDS, CLICKS = [100.0, 4.0, 3.0, 2.0, 999.0], [1, 1, 1, 1, 0]
SEQUENCES = ["DCBAE", "ABCDE", "ACBDE", "ABDCE", "BCDEA", "ABECD"]


def by_sequence(*columns):
    return list(zip(SEQUENCES, *columns, strict=True))


def same(expected, actual):
    return actual == pytest.approx(expected, rel=1e-11, abs=1e-12, nan_ok=True)


def ranks(scores):
    """The same order in whole numbers."""
    return np.unique(scores, return_inverse=True)[1].astype(float)


def of_sequence(sequence, revenue, ties="definition"):
    """csAUC of the table's samples A to E, ordered from top to bottom."""
    scores = np.array([-sequence.index(name) for name in "ABCDE"], float)
    return cs_auc_of(scores - scores.min(), np.array(revenue), np.ones(5), ties).value


@pytest.mark.parametrize(
    ("sequence", "of_420", "printed"),
    by_sequence(
        [125, 420, 419, 419, 29, 415], ["0.2976", "1", "0.9976", "0.9976", "0.069", "0.988"]
    ),
)
@TIES
def test_table_3_of_paper_002(sequence, of_420, printed, ties):
    """Exact fractions of 420, which round to what is printed; no ties, so no rule matters."""
    scores = np.array([6.0 - sequence.index(name) for name in "ABCDE"])
    p = scores / np.array(BIDS) / 8

    assert cs_auc(p, CLICKS, BIDS, ties=ties) == pytest.approx(of_420 / 420, rel=1e-15)
    assert of_sequence(sequence, [100.0, 4.0, 3.0, 2.0, 0.0], ties) == of_420 / 420
    assert round(of_420 / 420, len(printed.partition(".")[2])) == float(printed)


@given(
    priced(max_size=14) | priced(max_size=14, weights=FRACTIONAL),
    st.sampled_from(["definition", "half", "worst"]),
)
def test_equals_brute_force(samples, ties):
    """All pairs one by one: ties, bids of 0, whole weights and some that do not add up exactly."""
    p, y, bids, weights = samples

    parts = cs_auc_parts(p, y, bids, ties=ties, sample_weight=weights)

    expected = cs_auc_oracle(p, y, bids, weights, ties)
    assert same(expected, (parts.value, parts.worst, parts.tied_share))
    assert same(expected[0], cs_auc(p, y, bids, ties=ties, sample_weight=weights))


@TIES
@pytest.mark.parametrize("digits", [1, 17], ids=["ties", "distinct"])
def test_equals_brute_force_on_many_levels(ties, digits):
    """A hundred clicks of which nearly each has its own bid."""
    rng = np.random.default_rng(5)
    p, y = np.round(rng.random(200), digits), rng.integers(0, 2, 200)
    bids = np.round(rng.lognormal(0, 1, 200), digits)

    parts = cs_auc_parts(p, y, bids, ties=ties)

    expected = cs_auc_oracle(p, y, bids, np.ones(200), ties)
    assert same(expected, (parts.value, parts.worst, parts.tied_share))


@TIES
@given(samples=priced())
def test_only_the_order_of_scores_counts(ties, samples):
    """Any strictly increasing map of p * bid leaves every bit."""
    p, y, bids, weights = samples
    columns = y * bids, weights, ties

    mapped = cs_auc_of(ranks(p * bids), *columns)

    assert repr(mapped) == repr(cs_auc_of(p * bids, *columns))


@TIES
@given(samples=priced(), factor=st.sampled_from([2.0**-300, 0.25, 1024.0, 2.0**900]))
def test_currency_is_of_no_effect(ties, samples, factor):
    """A common factor on all bids."""
    p, y, bids, weights = samples

    scaled = cs_auc_parts(p, y, bids * factor, ties=ties, sample_weight=weights)

    assert repr(scaled) == repr(cs_auc_parts(p, y, bids, ties=ties, sample_weight=weights))


@TIES
@given(samples=priced(), random=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(ties, samples, random):
    """Ties are settled by rule, never by position."""
    columns = samples
    order = list(range(len(columns[0])))
    random.shuffle(order)
    p, y, bids, weights = (column[order] for column in columns)

    shuffled = cs_auc_parts(p, y, bids, ties=ties, sample_weight=weights)

    plain = cs_auc_parts(*columns[:3], ties=ties, sample_weight=columns[3])
    assert repr(shuffled) == repr(plain)


@given(priced())
def test_the_best_and_the_worst_order(samples):
    """Scores as revenue make 1, the reverse `worst`; normalised 1 and 0."""
    _, y, bids, weights = samples
    revenue = y * bids

    best = cs_auc_of(ranks(revenue), revenue, weights, "worst")
    worst = cs_auc_of(ranks(-revenue), revenue, weights, "worst")

    if not isnan(best.value):
        assert (best.value, best.tied_share) == (1.0, 0.0)
        assert worst.value == worst.worst == best.worst
        assert (best.normalized, worst.normalized) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("ties", "normalized"), [("definition", 1.0), ("half", 0.5), ("worst", 0.0)]
)
def test_probabilities_of_0_are_one_tie(ties, normalized):
    """1 under the published rule, a random order under "half": the tied share tells."""
    rng = np.random.default_rng(2)
    y, bids = rng.integers(0, 2, 100), rng.lognormal(0, 1, 100)

    parts = cs_auc_parts(np.zeros(100), y, bids, ties=ties)

    assert parts.tied_share == pytest.approx(1.0)
    assert parts.normalized == pytest.approx(normalized, abs=1e-12)
    assert cs_auc(np.zeros(100), y, bids, ties=ties, normalized=True) == parts.normalized
    assert parts.value == pytest.approx(parts.worst + normalized * (1 - parts.worst))


@pytest.mark.parametrize(
    ("p", "y", "bids"),
    [
        ([], [], []),
        ([0.1, 0.2], [0, 0], [1, 2]),
        ([0.1, 0.2], [1, 1], [2, 2]),
        ([0.1, 0.2], [1, 0], [0, 0]),
        ([0.1, 0.2], [1, 0], [0, 5]),
        ([0.3], [1], [2]),
    ],
    ids=["nothing", "no clicks", "one level", "no bids", "a click without bid", "no pair"],
)
def test_no_pair_that_could_pay_is_undefined(p, y, bids):
    """nan, with its parts."""
    parts = cs_auc_parts(p, y, bids)

    assert all(map(isnan, (parts.value, parts.worst, parts.tied_share, parts.normalized)))
    assert isnan(cs_auc(p, y, bids, normalized=True))


@pytest.mark.parametrize("weights", [[0.1, 0.2, 0.3], [1 / 3, 1e-9, 1e9], [0.7, 0.0, 0.0]])
def test_one_level_is_undefined_whatever_the_weights(weights):
    """No remainder of a sum of fractions makes a pair of it."""
    assert isnan(cs_auc([0.1, 0.2, 0.3], [1, 1, 1], [2, 2, 2], sample_weight=weights))


def test_bids_that_part_in_the_last_digit_only():
    """Next to nothing is at stake: where 1 - worst rounds to 0, nothing is normalised."""
    parts = cs_auc_parts([0.1, 0.9], [1, 1], [1.0, np.nextafter(1.0, 2.0)])

    assert parts.value == pytest.approx(1.0)
    assert isnan(CsAuc(1.0, 1.0, 0.0).normalized)


@pytest.mark.parametrize(
    ("p", "y", "bids", "options", "message"),
    [
        ([0.5, 0.5], [1, 0.5], [1, 1], {}, r"outcomes\[1\] = 0.5: every value must be 0 or 1"),
        ([0.5, 0.5], [1, 0], [1, -2], {}, r"bids\[1\] = -2.0: every value must be finite and at l"),
        ([0.5, 0.5], [1, 0], [nan, 1], {}, r"bids\[0\] = nan"),
        ([0.5, 0.5], [1, 0], [np.inf, 1], {}, r"bids\[0\] = inf"),
        ([0.5, 0.5], [1, 0], [1], {}, "equal lengths: probabilities has 2, bids has 1"),
        ([0.5, 0.5], [1, 0], ["a", "b"], {}, "bids must be numbers"),
        (
            [0.5],
            [1],
            [1],
            {"ties": "best"},
            "ties = 'best': must be one of definition, half, worst",
        ),
    ],
)
def test_bad_input_is_named(p, y, bids, options, message):
    """ValueError with column, row, value and rule."""
    for metric in (cs_auc, cs_auc_parts):
        with pytest.raises(ValueError, match=message):
            metric(p, y, bids, **options)

"""csAUC of buckets: the corrected Algorithm 1, and when it is the exact value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import bucketed_cs_auc, cs_auc, cs_auc_parts
from tests.evaluation.cs_auc_oracle import algorithm_1
from tests.evaluation.priced_of_kind import priced

COUNTS = st.sampled_from([1, 2, 3, 7, 20])


def min_max_bucket(values, count):
    """Min-Max times the number of buckets; all in bucket 0 when there is no range."""
    low, high = values.min(), values.max()
    if low == high:
        return np.zeros(len(values), int)
    return np.floor((values - low) / (high - low) * count).astype(int)


def grid_of(p, y, bids, weights, bid_buckets, score_buckets):
    """Counts by (level, score bucket), negatives in level 0, and the value of each level."""
    held = weights > 0
    p, y, bids, weights = p[held], y[held].astype(int), bids[held], weights[held]
    level = np.zeros(len(p), int)
    level[y == 1] = 1 + min_max_bucket(bids[y == 1], bid_buckets) if y.any() else 0
    grid = np.zeros((bid_buckets + 2, score_buckets + 1))
    np.add.at(grid, (level, min_max_bucket(p * bids, score_buckets)), weights)
    value = np.zeros(bid_buckets + 2)
    for v in set(level[y == 1]):
        value[v] = np.average(bids[level == v], weights=weights[level == v])
    return grid, value


@given(priced(), COUNTS, COUNTS)
def test_equals_the_corrected_algorithm_1(samples, bid_buckets, score_buckets):
    """The paper's sums over a grid of levels and buckets, each level paying its mean bid."""
    p, y, bids, weights = samples
    counts = {"bid_buckets": bid_buckets, "score_buckets": score_buckets}

    value = bucketed_cs_auc(p, y, bids, cut="min_max", sample_weight=weights, **counts)

    held = weights.sum() > 0
    expected = algorithm_1(*grid_of(p, y, bids, weights, **counts)) if held else np.nan
    assert value == pytest.approx(expected, rel=1e-11, nan_ok=True)


@given(priced(), st.sampled_from(["definition", "half", "worst"]))
def test_equals_the_exact_value_where_no_bucket_merges(samples, ties):
    """As many buckets as values: nothing is rounded."""
    p, y, bids, weights = samples

    value = bucketed_cs_auc(
        p, y, bids, bid_buckets=20, score_buckets=20, ties=ties, sample_weight=weights
    )

    expected = cs_auc(p, y, bids, ties=ties, sample_weight=weights)
    assert value == pytest.approx(expected, rel=1e-11, nan_ok=True)


def lognormal(n=20_000):
    rng = np.random.default_rng(7)
    p = np.minimum(rng.lognormal(-4, 1, n), 1.0)
    bids = rng.lognormal(0, 1.2, n)
    return p, (rng.random(n) < 4 * p).astype(float), bids


def test_ties_half_is_the_default():
    """The published rule pays every merged pair in full."""
    columns = lognormal(2000)

    assert bucketed_cs_auc(*columns, score_buckets=3) == bucketed_cs_auc(
        *columns, score_buckets=3, ties="half"
    )
    assert bucketed_cs_auc(*columns, score_buckets=1, ties="definition") == 1.0


def test_quantiles_stand_an_outlier_that_min_max_does_not():
    """One huge score leaves min_max next to no buckets for the others."""
    p, y, bids = lognormal()
    p, y, bids = np.append(p, 1.0), np.append(y, 0.0), np.append(bids, 1e7)
    exact = cs_auc(p, y, bids, ties="half")

    def off(cut, ties="half"):
        return bucketed_cs_auc(p, y, bids, score_buckets=1000, cut=cut, ties=ties) - exact

    assert abs(off("quantile")) < 1e-3
    assert abs(off("min_max")) > 0.1
    assert off("min_max", "definition") > 0.1


def test_equal_scores_are_one_bucket():
    """Min-Max would divide by 0: a random order, as under "half" without buckets."""
    p, y, bids = [0.5, 0.25, 0.5], [1, 1, 0], [1.0, 2.0, 1.0]

    value = bucketed_cs_auc(p, y, bids, cut="min_max")

    parts = cs_auc_parts(p, y, bids)
    assert parts.tied_share == 1.0
    assert value == pytest.approx((1 + parts.worst) / 2)


def test_equal_bids_are_one_level():
    """And the level pays that bid."""
    assert bucketed_cs_auc([0.9, 0.1, 0.5], [1, 1, 0], [3.0] * 3, cut="min_max") == 0.5


@given(priced(min_size=4), COUNTS, st.randoms(use_true_random=False))
def test_quantiles_are_of_weight_and_know_no_order(samples, count, random):
    """Repeated rows, shuffled, fall into the buckets of the weighted."""
    p, y, bids, weights = samples
    counts = {"bid_buckets": count, "score_buckets": count}
    rows = list(np.repeat(np.arange(len(p)), weights.astype(int)))
    random.shuffle(rows)

    repeated = bucketed_cs_auc(p[rows], y[rows], bids[rows], **counts)

    weighted = bucketed_cs_auc(p, y, bids, sample_weight=weights, **counts)
    assert weighted == pytest.approx(repeated, rel=1e-11, nan_ok=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut": "log"}, "cut = 'log': must be one of quantile, min_max"),
        ({"ties": "best"}, "ties = 'best'"),
        ({"bid_buckets": 0}, "bid_buckets = 0: must be whole and at least 1"),
        ({"score_buckets": 2.5}, "score_buckets = 2.5: must be whole and at least 1"),
    ],
)
def test_an_option_that_is_none_is_refused(options, message):
    """ValueError with its name, value and rule."""
    with pytest.raises(ValueError, match=message):
        bucketed_cs_auc([0.1], [1], [1], **options)

"""gcsAUC: the csAUC of each group, averaged, and what is left out of it."""

from fractions import Fraction
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cs_auc, gcs_auc, grouped_cs_auc
from evaluation.metrics.cs_auc_pairs import RevenuePairs
from tests.evaluation.cs_auc_oracle import pair_sums
from tests.evaluation.priced_of_kind import FRACTIONAL, priced

RULES = st.sampled_from(["definition", "half", "worst"])
SIZES = {
    "samples": lambda p, y, bids, w: w.sum(),
    "clicks": lambda p, y, bids, w: (w * y).sum(),
    "pairs": lambda p, y, bids, w: float(pair_sums(p, y, bids, w, "half").best),
    "equal": lambda p, y, bids, w: 1.0,
}


def together(parts, random):
    """The rows of all parts, shuffled, and the part that each is of."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    groups = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    order = list(range(len(groups)))
    random.shuffle(order)
    return [column[order] for column in columns], groups[order]


@given(
    st.lists(priced(max_size=9), min_size=1, max_size=5),
    st.sampled_from(sorted(SIZES)),
    RULES,
    st.randoms(use_true_random=False),
)
def test_equals_a_loop_over_groups(parts, weights, ties, random):
    """All groups at once, rows shuffled = one csAUC after the other, averaged."""
    (p, y, bids, w), groups = together(parts, random)
    loop = {g: cs_auc(*part[:3], ties=ties, sample_weight=part[3]) for g, part in enumerate(parts)}
    kept = {g: value for g, value in loop.items() if not isnan(value)}
    sizes = [SIZES[weights](*parts[g]) for g in kept]
    options = {"weights": weights, "ties": ties, "sample_weight": w}

    result = grouped_cs_auc(p, y, bids, groups, **options)

    expected = np.average(list(kept.values()), weights=sizes) if kept else np.nan
    assert result.per_group == pytest.approx(kept, rel=1e-12)
    assert result.groups_kept == len(kept)
    assert result.value == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert gcs_auc(p, y, bids, groups, **options) == pytest.approx(result.value, nan_ok=True)


@given(
    st.lists(priced(max_size=7, weights=FRACTIONAL), min_size=2, max_size=4),
    RULES,
    st.randoms(use_true_random=False),
)
def test_pairs_make_it_the_ratio_of_sums(parts, ties, random):
    """Revenue of all groups' pairs over the best of all, by brute force; fractional weights."""
    (p, y, bids, w), groups = together(parts, random)
    sums = [pair_sums(*part, ties) for part in parts]
    revenue, best = (sum((getattr(s, of) for s in sums), Fraction()) for of in ("revenue", "best"))

    value = gcs_auc(p, y, bids, groups, weights="pairs", ties=ties, sample_weight=w)

    expected = float(revenue / best) if best else np.nan
    assert value == pytest.approx(expected, rel=1e-11, nan_ok=True)


def test_what_is_left_out_is_told():
    """Groups in which no pair could pay, their share of the samples and of the bids."""
    groups = ["kept", "kept", "no click", "one level", "one level"]

    result = grouped_cs_auc([0.1] * 5, [1, 0, 0, 1, 1], [4.0, 1, 3, 1, 1], groups)

    assert result.per_group == {"kept": 1.0}
    assert (result.value, result.groups_kept) == (1.0, 1)
    assert (result.share_left_out, result.bids_left_out) == (0.6, 0.5)


def test_what_is_nothing_beside_the_bids_of_other_groups_is_undefined():
    revenue, groups = np.array([1e-200, 0.0, 1e200, 0.0]), np.array([0, 0, 1, 1])
    pairs = RevenuePairs(np.arange(4.0), revenue, np.ones(4), groups, 2)

    assert [isnan(part) for part in (*pairs.worst, *pairs.tied_share)] == [True, False] * 2


def test_nothing_left_is_undefined():
    """nan, never .5."""
    result = grouped_cs_auc([0.1, 0.2], [0, 1], [1, 1], ["a", "b"])
    nothing = grouped_cs_auc([], [], [], [])

    assert isnan(result.value)
    assert (result.groups_kept, result.share_left_out, result.bids_left_out) == (0, 1.0, 1.0)
    assert isnan(nothing.value)
    assert isnan(nothing.share_left_out)
    assert isnan(nothing.bids_left_out)
    assert isnan(grouped_cs_auc([0.1, 0.2], [0, 1], [0, 0], ["a", "b"]).bids_left_out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "bids"}, "weights = 'bids': must be one of samples, clicks, pairs, equal"),
        ({"ties": "best"}, "ties = 'best'"),
    ],
)
def test_an_option_that_is_none_is_refused(options, message):
    """ValueError with its name, value and rule."""
    with pytest.raises(ValueError, match=message):
        gcs_auc([0.1], [1], [1], ["a"], **options)


def test_ten_thousand_groups_equal_a_loop():
    """A wide axis of groups, with ties inside them."""
    rng = np.random.default_rng(8)
    n = 60_000
    p, bids = np.round(rng.random(n), 1), np.round(rng.lognormal(0, 1, n), 1)
    y, groups = (rng.random(n) < 0.4).astype(float), rng.integers(0, 10_000, n)

    per_group = grouped_cs_auc(p, y, bids, groups, ties="half").per_group

    for g in range(0, 10_000, 97):
        rows = groups == g
        alone = cs_auc(p[rows], y[rows], bids[rows], ties="half")
        assert per_group.get(g, np.nan) == pytest.approx(alone, rel=1e-12, nan_ok=True)

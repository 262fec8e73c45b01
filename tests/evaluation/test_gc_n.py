"""GC-N: Cal-N of each campaign, averaged, and what is left out of it."""

from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cal_n, gc_n, grouped_cal_n
from tests.evaluation.predictions_of_kind import predictions


def same(expected, actual):
    return actual == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@given(predictions(), st.integers(1, 5), st.sampled_from(["inf", "skip", "merge", "smooth"]))
def test_one_campaign_is_cal_n(samples, n, empty):
    """GC-N of a single campaign = its Cal-N."""
    p, y, weights = samples
    options = {"empty": empty, "sample_weight": weights}

    value = gc_n(p, y, ["a"] * len(p), n, min_positives=0, **options)

    assert same(cal_n(p, y, n, **options), value)


@given(
    st.lists(predictions(), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from(["samples", "positives"]),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_equals_a_loop_over_campaigns(parts, n, weights, min_positives, random):
    """All campaigns at once, rows shuffled = one Cal-N after the other, averaged."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    names = np.repeat([f"c{i}" for i in range(len(parts))], [len(part[0]) for part in parts])
    order = list(range(len(names)))
    random.shuffle(order)
    p, y, w = (column[order] for column in columns)
    size = {"samples": lambda y, w: w.sum(), "positives": lambda y, w: (y * w).sum()}[weights]
    values, sizes, left_out = [], [], 0.0
    for part_p, part_y, part_w in parts:
        value = cal_n(part_p, part_y, n, empty="merge", sample_weight=part_w)
        if isnan(value) or (part_y * part_w).sum() < min_positives:
            left_out += part_w.sum()
        elif size(part_y, part_w) > 0:
            values.append(value)
            sizes.append(size(part_y, part_w))
    expected = np.dot(values, np.divide(sizes, sum(sizes))) if values else np.nan

    result = grouped_cal_n(
        p, y, names[order], n, min_positives=min_positives, weights=weights, sample_weight=w
    )

    assert same(expected, result.value)
    assert same(left_out / w.sum() if w.sum() else np.nan, result.share_left_out)


def test_thin_campaigns_are_left_out_and_told():
    """Fewer than 5 N positives: not in the mean, but in the share left out."""
    result = grouped_cal_n(
        [0.5, 0.5, 0.5], [0.4, 0.4, 0.0], ["big", "thin", "none"], 2, sample_weight=[60, 20, 20]
    )

    assert result.per_campaign == {"big": pytest.approx(0.25)}
    assert (result.campaigns_kept, result.share_left_out) == (1, 0.4)
    assert result.value == pytest.approx(0.25)


def test_no_campaign_left_is_undefined():
    """nan, never 0."""
    assert isnan(gc_n([0.5], [1], ["a"]))
    empty = grouped_cal_n([], [], [])
    assert isnan(empty.value)
    assert isnan(empty.share_left_out)


def test_strict_rule_makes_gc_n_infinite_only_when_asked():
    """The default pools a bin without positives; "inf" shows it."""
    columns = ([0.1, 0.2, 0.5], [0.3, 0.0, 0.5], ["a", "a", "a"])

    assert gc_n(*columns, 3, sample_weight=[100] * 3, empty="inf") == inf
    assert gc_n(*columns, 3, sample_weight=[100] * 3) == 0.0


def test_given_weights():
    """A number for each campaign; a missing one is an error, an infinite Cal-N at 0 no matter."""
    columns = ([0.2, 0.5, 0.0], [0.1, 0.1, 0.5], ["a", "b", "c"], 1)
    options = {"min_positives": 0, "sample_weight": [10, 10, 10]}

    assert gc_n(*columns, weights={"a": 1, "b": 3, "c": 0}, **options) == pytest.approx(3.25)
    with pytest.raises(ValueError, match="campaign 'c' has none"):
        gc_n(*columns, weights={"a": 1, "b": 3}, **options)
    with pytest.raises(ValueError, match=r"weights\[0\] = -1.0"):
        gc_n(*columns, weights={"a": -1, "b": 3, "c": 1}, **options)
    with pytest.raises(ValueError, match="must be samples, positives or a mapping"):
        gc_n(*columns, weights="bids", **options)

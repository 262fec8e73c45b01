"""GAUC: the AUC of each group, averaged, and what is left out of it."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import auc, gauc, grouped_auc, grouped_cal_n
from tests.evaluation.predictions_of_kind import predictions

SIZES = {
    "samples": lambda y, w: w.sum(),
    "positives": lambda y, w: (w * y).sum(),
    "equal": lambda y, w: 1.0,
}


@given(
    st.lists(predictions(max_size=12), min_size=1, max_size=5),
    st.sampled_from(sorted(SIZES)),
    st.randoms(use_true_random=False),
)
def test_equals_a_loop_over_groups(parts, weights, random):
    """All groups at once, rows shuffled = one AUC after the other, averaged; to the last bit."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    groups = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    order = list(range(len(groups)))
    random.shuffle(order)
    p, y, w = (column[order] for column in columns)
    loop = {g: auc(*part[:2], sample_weight=part[2]) for g, part in enumerate(parts)}
    kept = {g: value for g, value in loop.items() if not isnan(value)}
    sizes = [SIZES[weights](*parts[g][1:]) for g in kept]

    result = grouped_auc(p, y, groups[order], weights=weights, sample_weight=w)

    expected = np.average(list(kept.values()), weights=sizes) if kept else np.nan
    left_out = sum(part[2].sum() for g, part in enumerate(parts) if g not in kept)
    assert result.per_group == kept
    assert result.groups_kept == len(kept)
    assert result.value == pytest.approx(expected, nan_ok=True)
    total = w.sum()
    assert result.share_left_out == pytest.approx(
        left_out / total if total else np.nan, nan_ok=True
    )
    assert gauc(p, y, groups[order], weights=weights, sample_weight=w) == pytest.approx(
        expected, nan_ok=True
    )


def test_another_weight_is_refused():
    """Named, with those there are."""
    with pytest.raises(ValueError, match="weights = 'bids': must be one of samples, positives, eq"):
        gauc([0.1], [0], ["a"], weights="bids")


def test_nothing_left_is_undefined():
    """nan, never .5."""
    result = grouped_auc([0.1, 0.2], [0, 1], ["a", "b"])

    assert isnan(result.value)
    assert (result.groups_kept, result.share_left_out, result.per_group) == (0, 1.0, {})
    assert isnan(grouped_auc([], [], []).share_left_out)


@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e200])
def test_a_small_group_keeps_its_digits_beside_a_giant(scale):
    """Its AUC is what it is alone, however heavy the others are."""
    rng = np.random.default_rng(6)
    p, y, groups = rng.random(400), rng.integers(0, 2, 400), np.arange(400) % 2
    weights = rng.uniform(0, 1, 400) * np.where(groups == 1, scale, 1.0)

    per_group = grouped_auc(p, y, groups, sample_weight=weights).per_group

    for g in (0, 1):
        alone = auc(p[groups == g], y[groups == g], sample_weight=weights[groups == g])
        assert per_group[g] == pytest.approx(alone, rel=1e-12)


def test_ten_thousand_groups_equal_a_loop():
    """A wide axis of groups, most of them small."""
    rng = np.random.default_rng(8)
    p, groups = np.round(rng.random(60_000), 2), rng.integers(0, 10_000, 60_000)
    y = (rng.random(60_000) < 0.3).astype(float)

    per_group = grouped_auc(p, y, groups).per_group

    for g in range(0, 10_000, 97):
        alone = auc(p[groups == g], y[groups == g])
        assert np.array_equal(per_group.get(g, np.nan), alone, equal_nan=True)


@given(predictions(), st.randoms(use_true_random=False))
def test_fractions_count_as_parts_of_both_classes(samples, random):
    """One group is AUC, also with fractional outcomes."""
    p, _, weights = samples
    y = np.array([random.random() for _ in p])

    value = gauc(p, y, ["a"] * len(p), sample_weight=weights)

    assert value == pytest.approx(auc(p, y, sample_weight=weights), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    "groups",
    [
        [None, None, None, 1.0, 1.0],
        [float("nan"), float("nan"), float("nan"), 1.0, 1.0],
        np.array([np.nan, np.nan, np.nan, 1.0, 1.0]),
        np.array([np.nan, None, float("nan"), 1.0, 1.0], object),
    ],
)
def test_rows_without_a_group_are_one_group(groups):
    """NaN is unequal to itself, and may be one object or several."""
    p, y = [0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 0, 0, 1]

    assert grouped_auc(p, y, groups).per_group == {None: 0.5, 1.0: 1.0}
    per_campaign = grouped_cal_n(p, y, groups, n=1, min_positives=1).per_campaign
    assert per_campaign == pytest.approx({None: 2 / 3, 1.0: 1 / 9})

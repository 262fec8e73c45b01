"""What a run found: merging, ratios and their intervals."""

from dataclasses import replace

import numpy as np
import pytest

from research.leaderboard import Results, prequential
from tests.research.leaderboard.tiny import TINY, Fixed, log_of


def one(seed: int, *methods: Fixed) -> Results:
    options = {"first_scored": 20, "scored_hours": 8, "seed": seed}
    return prequential(TINY, methods, **options)


@pytest.fixture(scope="module")
def found() -> Results:
    """Two methods, one of them a fifth too high, over two seeds."""
    parts = [one(seed, Fixed(), Fixed("more", factor=1.2)) for seed in (0, 1)]
    return Results.merge(parts)


def test_merging_means_over_all_impressions(found):
    parts = [one(seed, Fixed(), Fixed("more", factor=1.2)) for seed in (0, 1)]
    weights = [part.impressions for part in parts]

    assert found.impressions == sum(weights)
    assert found.positives == sum(part.positives for part in parts)
    assert found.excess("more") == pytest.approx(
        np.average([part.excess("more") for part in parts], weights=weights)
    )
    assert len(found.curve("more")) == 8


def test_who_is_unavailable_for_one_seed_is_so_for_all():
    here = one(0, Fixed(), Fixed("more"))
    left = Results(("fixed",), one(1, Fixed()).by_seed, {}, {"more": "had to go"})

    merged = Results.merge([here, left])

    assert merged.methods == ("fixed",)
    assert merged.unavailable == {"more": "had to go"}
    with pytest.raises(ValueError, match="at least one"):
        Results.merge([])


def test_differences_and_ratios_come_with_intervals(found):
    difference = found.compare("more", "fixed")
    ratio = found.compare("more", "fixed", ratio=True)

    assert difference.value == pytest.approx(found.excess("more") - found.excess("fixed"))
    assert ratio.value == pytest.approx(found.excess("more") / found.excess("fixed"))
    for each in (difference, ratio):
        assert each.lower <= each.value <= each.upper
        assert each.lower < each.upper
    assert (difference.sign > 0) == (ratio.lower > 1.0)


def test_an_interval_is_that_of_blocks_drawn_again(found):
    """Both sides see the same draw of whole campaign-days."""
    names = ("more", "fixed")
    a, b = (np.concatenate([r.sums[n].excess for r in found.by_seed]) for n in names)
    counts = np.concatenate([r.counts for r in found.by_seed])
    rng = np.random.default_rng(5)
    rows = rng.integers(len(counts), size=(4_000, len(counts)))
    drawn = (a[rows].sum(1) - b[rows].sum(1)) / counts[rows].sum(1)

    found_error = found.compare("more", "fixed", draws=4_000).standard_error

    assert found_error == pytest.approx(drawn.std(), rel=0.1)


def test_a_method_does_not_differ_from_itself(found):
    difference, ratio = (found.compare("more", "more", ratio=ratio) for ratio in (False, True))

    assert (difference.lower, difference.value, difference.upper) == (0.0, 0.0, 0.0)
    assert (ratio.lower, ratio.value, ratio.upper) == (1.0, 1.0, 1.0)
    assert found.compare_log_loss("more", "more").value == 0.0


def test_errors_are_compared_over_campaigns(found):
    compared = found.compare_errors("more", "fixed")
    ratio = found.compare_errors("more", "fixed", ratio=True)

    assert compared.value == pytest.approx(found.gc_3_true("more") - found.gc_3_true("fixed"))
    assert ratio.value == pytest.approx(found.gc_3_true("more") / found.gc_3_true("fixed"))


def test_without_truth_log_loss_and_observed_errors_are_compared():
    table, _ = log_of(TINY, 28)
    options = {"first_scored": 20, "scored_hours": 8}
    found = prequential(table, [Fixed(), Fixed("more", factor=1.2)], **options)

    loss = found.log_loss("more") - found.log_loss("fixed")
    assert found.compare("more", "fixed").value == pytest.approx(loss)
    error = found.gc_3("more") - found.gc_3("fixed")
    assert found.compare_errors("more", "fixed").value == pytest.approx(error)
    assert found.curve("more") != found.curve("fixed")


def test_without_campaigns_of_enough_positives_there_is_no_gc_3():
    platform = replace(TINY, impressions_per_hour=30.0)
    found = prequential(platform, [Fixed()], first_scored=20, scored_hours=1)

    assert np.isnan(found.gc_3("fixed"))
    assert np.isnan(found.gc_3_true("fixed"))
    assert np.isnan(found.compare_errors("fixed", "fixed").value)

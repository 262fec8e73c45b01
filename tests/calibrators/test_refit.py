"""The refit: which level serves a campaign, why, and by which map."""

import numpy as np
import pytest

from calibrators import (
    CALIBRATORS,
    Atlas,
    BinsTable,
    CalibrationMap,
    SmoothedIsotonic,
    Sufficiency,
    refit,
)
from calibrators.methods.refit import BegunRefit, refit_campaigns

ENOUGH = Sufficiency(min_samples=100, min_positives=10)
SIR = SmoothedIsotonic(50)


def window(**campaigns: tuple[int, int]) -> BinsTable:
    """Campaigns by name with (impressions, clicks), at scores between .05 and .15."""
    names = sorted(campaigns)
    sizes = [campaigns[name][0] for name in names]
    scores = np.concatenate([np.linspace(0.05, 0.15, size) for size in sizes])
    clicks = [
        np.arange(size) >= size - campaigns[name][1]
        for name, size in zip(names, sizes, strict=True)
    ]
    rows = np.repeat(np.arange(len(names)), sizes)
    ones = np.ones(len(rows))
    return BinsTable.from_columns(names, rows, scores, ones, np.concatenate(clicks) * ones)


def one_cell(score: float, count: float, positives: float) -> BinsTable:
    columns = np.array([[score], [count], [positives]])
    return BinsTable.from_columns(["a"], np.array([0]), *columns)


def test_levels_and_reasons():
    """Exactly enough is enough; too few samples is said before too few positives."""
    table = window(rich=(500, 50), just=(100, 10), small=(99, 60), rare=(500, 9), tiny=(3, 0))

    done = refit(table, SIR, ENOUGH)

    assert done.atlas.campaigns == ("just", "rich")
    assert done.skipped == {"small": "few_samples", "rare": "few_positives", "tiny": "few_samples"}
    assert done.atlas.level("rich") == "campaign"
    assert done.atlas.level("small") == done.atlas.level("unseen") == "target"


def test_the_target_leans_on_its_ratio_and_each_campaign_on_the_target():
    table = window(a=(500, 50), b=(300, 20), c=(40, 4))
    total = table.total()
    ratio = CalibrationMap.proportional(total.total_positives / total.total_score)

    atlas = refit(table, SIR, ENOUGH).atlas

    target_map = SIR.fit_bins(total, ratio)
    assert atlas.target_map == atlas.map_of("c") == target_map
    for campaign in ("a", "b"):
        assert atlas.map_of(campaign) == SIR.fit_bins(table.bins(campaign), target_map)
        assert atlas.map_of(campaign) != SIR.fit_bins(table.bins(campaign))


def test_a_target_with_too_little_leaves_the_identity():
    done = refit(window(a=(50, 5), b=(60, 3)), SIR, ENOUGH)

    assert done.atlas.target_map is None
    assert done.atlas.level("a") == "identity"
    assert done.skipped == {"a": "few_samples", "b": "few_samples"}
    assert done.atlas.at("a", 0.123) == 0.123


def test_an_empty_window():
    done = refit(BinsTable.empty(), SIR, ENOUGH)

    assert done.skipped == {}
    assert done.atlas.to_bytes() == Atlas.empty().to_bytes()


def test_the_least_sufficiency_still_needs_a_sample():
    """Clicks alone, whose impressions were never recorded, cannot be fitted."""
    clicks = one_cell(0.5, 0.0, 5.0)

    assert refit(clicks, SIR, Sufficiency(0, 0)).skipped == {"a": "few_samples"}
    assert refit(window(a=(1, 0)), SIR, Sufficiency(0, 0)).skipped == {}


def test_unmatched_clicks_do_not_count_as_positives():
    table = BinsTable.merge([one_cell(0.1, 200.0, 5.0), one_cell(0.9, 0.0, 50.0)])

    assert refit(table, SIR, ENOUGH).skipped == {"a": "few_positives"}


def test_scores_of_0_have_no_ratio():
    """Positives at score 0 only: there is no proportion to lean on, and no division by 0."""
    done = refit(one_cell(0.0, 200.0, 20.0), SIR, ENOUGH)

    # One pool of all samples; the target leans on 0, the campaign on the target.
    target = (20 + 5 * 0) / 205
    assert done.atlas.at("unseen", 0.0) == pytest.approx(target)
    assert done.atlas.at("a", 0.0) == pytest.approx((20 + 5 * target) / 205)


def test_a_refit_calibrates_its_own_window():
    """Predicted over actual of the whole window comes out near 1, whatever it was."""
    scores = np.tile(np.linspace(0.05, 0.15, 9000), 2)
    rows = np.repeat([0, 1], 9000)
    rates = scores * np.array([3.0, 0.5])[rows]
    table = BinsTable.from_columns(["a", "b"], rows, scores, np.ones(18_000), rates)

    judged = refit(table, SmoothedIsotonic(1000), ENOUGH).atlas.calibrated(table)

    for campaign in ("a", "b"):
        bins = judged.bins(campaign)
        assert bins.total_score / bins.total_positives == pytest.approx(1, abs=0.1)


def test_a_refit_of_some_campaigns_leaves_the_others_and_the_target_alone():
    """A named campaign with too little in the window loses its map; one without any is named."""
    before = refit(window(a=(500, 50), b=(300, 30), c=(400, 80), d=(300, 60)), SIR, ENOUGH).atlas
    later = window(a=(600, 240), b=(20, 2), c=(900, 9), e=(700, 70))

    done = refit_campaigns(before, later, ["a", "b", "d", "e"], SIR, ENOUGH)

    assert done.skipped == {"b": "few_samples", "d": "few_samples"}
    assert done.atlas.campaigns == ("a", "c", "e")
    assert done.atlas.target_map == before.target_map
    assert done.atlas.map_of("c") == before.map_of("c")
    for campaign in ("a", "e"):
        fitted = SIR.fit_bins(later.bins(campaign), before.target_map)
        assert done.atlas.map_of(campaign) == fitted


def test_a_refit_of_no_campaign_changes_nothing():
    before = refit(window(a=(500, 50)), SIR, ENOUGH).atlas

    done = refit_campaigns(before, BinsTable.empty(), [], SIR, ENOUGH)

    assert done.atlas.to_bytes() == before.to_bytes()
    assert done.skipped == {}


@pytest.mark.parametrize("name", sorted(CALIBRATORS))
def test_blocks_of_a_window_give_the_atlas_of_the_window(name):
    """The worker refits shard after shard; nobody can tell from the maps."""
    table = window(f=(500, 50), a=(300, 20), c=(40, 4), e=(900, 9), b=(200, 30), d=(150, 15))
    blocks = [table.select(["f", "b", "c"]), BinsTable.empty(), table.select(["a", "e", "d"])]
    calibrator = CALIBRATORS[name]()

    begun = BegunRefit(calibrator, ENOUGH)
    for block in blocks:
        begun.add(block)
    found = begun.finish()

    whole = refit(table, calibrator, ENOUGH)
    maps = {name: calibrator.fit_bins(table.bins(name), whole.atlas.target_map) for name in "abdf"}
    assert found.atlas.to_bytes() == Atlas.build(maps, whole.atlas.target_map).to_bytes()
    assert found.atlas.to_bytes() == whole.atlas.to_bytes()
    assert found.skipped == whole.skipped == {"c": "few_samples", "e": "few_positives"}

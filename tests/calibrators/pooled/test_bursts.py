"""Bursts of bots: what raises some campaigns at once, for hours, is not learnt from."""

import numpy as np
import pytest

from calibrators.pooled.change_points import likelihood_ratio_prefilter
from calibrators.pooled.levels import block_weights, levels_of_blocks
from calibrators.pooled.outliers import CampaignHours, burst_hours
from calibrators.samples import Floats

HOURS, CAMPAIGNS = 48, 60
AGES = np.arange(HOURS)[::-1] + 0.5
NEWEST = slice(-3, None)


def block(factors: Floats, seed: int = 0, positives: float = 20.0) -> CampaignHours:
    """Campaigns with so many positives an hour, times these factors, (c, h)."""
    expected = np.full((CAMPAIGNS, HOURS), positives)
    observed = np.random.default_rng(seed).poisson(expected * factors).astype(np.float64)
    return CampaignHours.of(expected, observed)


def raised(campaigns: slice, hours: slice, factor: float = 4.0) -> Floats:
    """Factors of 1 but for these campaigns in these hours."""
    factors = np.ones((CAMPAIGNS, HOURS))
    factors[campaigns, hours] = factor
    return factors


@pytest.mark.parametrize("hours", [NEWEST, slice(20, 23), slice(40, 41)])
def test_a_burst_in_some_campaigns_weighs_nothing(hours):
    """All of its hours, and no other."""
    found = burst_hours([block(raised(slice(0, 6), hours))])[0]

    assert (found == (raised(slice(0, 6), hours) > 1)).all()


@pytest.mark.parametrize(("positives", "factor"), [(60.0, 2.0), (8.0, 3.0)], ids=["twice", "few"])
@pytest.mark.parametrize("seed", range(5))
def test_what_no_campaign_shows_alone_all_show_together(positives, factor, seed):
    """Nine in ten of the hours of bots are found, and next to no other."""
    factors = raised(slice(0, 6), NEWEST, factor)
    found = burst_hours([block(factors, seed, positives)])[0]

    assert found[factors > 1].mean() > 0.9
    assert found[factors == 1].mean() < 0.002


@pytest.mark.parametrize(("campaigns", "positives"), [(15, 10.0), (27, 20.0)])
def test_many_that_are_raised_do_not_hide_themselves(campaigns, positives):
    """A quarter of the campaigns, by 2.5, lift the mean of all by a third, and nearly half of them
    by two thirds: against that they would hardly be raised."""
    factors = raised(slice(0, campaigns), NEWEST, 2.5)
    found = [burst_hours([block(factors, seed, positives)])[0] for seed in range(5)]

    assert np.mean([each[factors > 1].mean() for each in found]) > 0.9
    assert np.mean([each[factors == 1].mean() for each in found]) < 0.002


def test_a_burst_in_a_fifth_of_campaigns_with_few_clicks_is_no_market():
    """One and a half an hour each: all together are higher by two fifths meanwhile."""
    factors = raised(slice(0, 12), NEWEST, 3.0)
    found = [burst_hours([block(factors, seed, 1.5)])[0] for seed in range(20)]

    assert np.mean([each[factors > 1].mean() for each in found]) > 0.5
    assert np.mean([each[factors == 1].mean() for each in found]) < 0.002


def test_next_to_all_that_a_burst_hits_is_found_where_clicks_are_few():
    """Of a third of the campaigns with four an hour, by what they show in all of its hours."""
    factors = raised(slice(0, 20), NEWEST, 3.0)
    found = [burst_hours([block(factors, seed, 4.0)])[0] for seed in range(20)]

    assert np.mean([each[factors > 1].mean() for each in found]) > 0.9
    assert np.mean([each[factors == 1].mean() for each in found]) < 0.002


def test_a_campaign_that_shows_little_itself_weighs_nothing_either():
    """Nineteen clicks in place of eight, for an hour, are less than any test of one takes."""
    observed = np.full((CAMPAIGNS, HOURS), 8.0)
    observed[:8, -1] = 19.0
    seen = CampaignHours.of(np.full(observed.shape, 8.0), observed)
    found = next(iter(block_weights([seen], AGES)))

    assert not likelihood_ratio_prefilter(seen.expected, observed).any()
    assert found.set_aside.tolist() == [True] * 8 + [False] * 52
    assert (found.weights == np.where(observed > 8.0, 0.0, 1.0)).all()


def test_a_morning_of_campaigns_with_the_same_cycle_is_no_burst():
    """Of ten of sixty, higher by 2.2 at its top than at its bottom."""
    factors = np.ones((CAMPAIGNS, HOURS))
    factors[:10] = np.exp(0.4 * np.sin(2 * np.pi * np.arange(HOURS) / 24))
    for seed in range(100):
        assert not burst_hours([block(factors, seed, 60.0)])[0].any()


def test_a_rise_that_stays_hides_no_burst_after_it():
    factors = raised(slice(0, 6), slice(36, None)) * raised(slice(10, 16), NEWEST)
    found = burst_hours([block(factors)])[0]

    assert found[10:16, NEWEST].all()
    assert not found[:6].any()


@pytest.mark.parametrize(("lasts", "believed"), [(48, True), (3, False)])
def test_where_rises_have_stayed_the_next_is_believed(lasts, believed):
    """What began earlier on the two days tells; with nothing to go by it is held for bots."""
    factors = raised(slice(50, 56), NEWEST)
    for campaigns, first in ((slice(0, 6), 26), (slice(10, 16), 36)):
        factors *= raised(campaigns, slice(first, first + lasts))

    assert burst_hours([block(factors)])[0][50:56, NEWEST].any() != believed


@pytest.mark.parametrize(
    ("campaigns", "hours"),
    [
        (slice(0, 2), NEWEST),
        (slice(0, CAMPAIGNS), NEWEST),
        (slice(0, 40), NEWEST),
        (slice(0, 6), slice(-6, None)),
        (slice(0, 0), NEWEST),
    ],
    ids=["two alone", "a market", "most", "for longer", "none"],
)
def test_what_else_rises_is_no_burst(campaigns, hours):
    assert not burst_hours([block(raised(campaigns, hours))])[0].any()


def test_falls_are_no_bursts():
    assert not burst_hours([block(raised(slice(0, 6), NEWEST, 0.2))])[0].any()


@pytest.mark.parametrize(("clicked", "bots"), [(1.0, True), (3.0, False)], ids=["none", "as ever"])
def test_impressions_without_clicks_in_some_campaigns_weigh_nothing(clicked, bots):
    """Three times as many in ten of sixty, which have four clicks an hour; a market clicks them."""
    more = raised(slice(0, 10), NEWEST, 3.0)
    for seed in range(5):
        positives = np.where(more > 1, 4.0 * clicked, 4.0)
        observed = np.random.default_rng(seed).poisson(positives).astype(np.float64)
        found = burst_hours([CampaignHours.of(4.0 * more, observed)])[0]
        assert (found[more > 1].mean() > 0.8) == bots
        assert found[more == 1].mean() < 0.002


def test_levels_after_a_burst_are_those_before():
    """Of the campaigns that it raised, in the first clean hour."""
    burst = levels_of_blocks([block(raised(slice(0, 6), NEWEST))], AGES, 0)

    assert np.abs(burst.shifts).max() < 0.1


@pytest.mark.parametrize(
    ("factors", "set_aside"),
    [
        (raised(slice(0, 6), NEWEST), [*range(6)]),
        (raised(slice(0, 6), slice(-4, -1)), []),
        (raised(slice(0, 1), NEWEST, 20.0), []),
        (raised(slice(0, CAMPAIGNS), NEWEST, 0.0), [*range(CAMPAIGNS)]),
    ],
    ids=["bots", "bots before", "an outlier", "an outage"],
)
def test_the_newest_hour_is_set_aside_of_bots_and_outages(factors, set_aside):
    """Not of an outlier: clean hours after a day of an attack are such."""
    found = levels_of_blocks([block(factors)], AGES, 0).set_aside

    assert np.flatnonzero(found).tolist() == set_aside


def test_blocks_give_what_all_at_once_give():
    whole = block(raised(slice(27, 33), NEWEST))
    halves = [
        CampaignHours.of(whole.expected[part], whole.observed[part])
        for part in (slice(0, 30), slice(30, None))
    ]
    once = next(iter(block_weights([whole], AGES)))
    parts = [found.weights for found in block_weights(halves, AGES)]

    assert np.array_equal(np.vstack(parts), once.weights)
    assert (once.weights[27:33, NEWEST] == 0).all()


def test_no_hours_and_no_campaigns_have_no_bursts():
    for shape in ((0, 5), (3, 0), (0, 0), (2, 1)):
        empty = CampaignHours.of(np.zeros(shape), np.zeros(shape))
        assert not burst_hours([empty])[0].any()

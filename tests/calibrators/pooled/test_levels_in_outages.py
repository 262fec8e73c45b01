"""Tracking outages are told from real falls, and count nothing."""

from math import log

import numpy as np
import pytest

from calibrators.pooled.change_points import hour_weights
from calibrators.pooled.levels import levels_of_blocks
from calibrators.pooled.outliers import CampaignHours, PlatformHours, outage_hours
from tests.calibrators.pooled.fit_levels import fit_levels

HOURS = 48
AGES = np.arange(HOURS)[::-1] + 0.5


def platform(seed, campaigns=100, positives=200.0, course=None):
    """Zipf campaigns with a day's cycle and ordinary drift, `positives` an hour together."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, campaigns + 1)
    day = 1 + 0.5 * np.sin(2 * np.pi * np.arange(HOURS) / 24)
    expected = positives * (shares / shares.sum())[:, None] * day
    drift = 0.2 * np.sin(2 * np.pi * (np.arange(HOURS) / 24 + 0.3))
    drift = drift + np.cumsum(rng.normal(0, 0.05, expected.shape), axis=1)
    rate = expected * np.exp(drift) * (1.0 if course is None else course)
    return expected, rng.poisson(rate).astype(float)


def out_of(expected, observed):
    """The hours of an outage."""
    return outage_hours(PlatformHours.of([CampaignHours.of(expected, observed)]))


def broken(first, behind, left=0.0):
    """A course of 1 but for the hours of an outage."""
    return np.where((np.arange(HOURS) >= first) & (np.arange(HOURS) < behind), left, 1.0)


@pytest.mark.parametrize("positives", [3.0, 30.0, 300.0, 30_000.0])
def test_ordinary_hours_are_no_outage(positives):
    """No false alarm in 40 platforms of two days: at most one in 640 hours, with 95 % certainty."""
    assert not any(out_of(*platform(seed, positives=positives)).any() for seed in range(40))


@pytest.mark.parametrize("left", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("positives", [60.0, 600.0])
def test_an_outage_is_seen_in_its_first_hour_and_freezes_the_levels(left, positives):
    expected, observed = platform(1, positives=positives, course=broken(47, 48, left))
    assert out_of(expected, observed)[-1]
    found = fit_levels(expected, observed, AGES)
    before = fit_levels(expected[:, :-1], observed[:, :-1], AGES[:-1] - 1)
    assert found.frozen
    assert found.target_shift == pytest.approx(before.target_shift, abs=0.01)
    assert found.shifts == pytest.approx(before.shifts, abs=0.1)


@pytest.mark.parametrize("length", [2, 6, 12])
def test_time_stands_still_in_an_outage(length):
    """The levels stay as they were, however long it lasts: they do not fade."""
    first = HOURS - length
    expected, observed = platform(2, course=broken(first, HOURS))
    found = fit_levels(expected, observed, AGES)
    before = fit_levels(expected[:, :first], observed[:, :first], AGES[:first] - length)
    assert found.frozen
    assert found.target_shift == pytest.approx(before.target_shift, abs=0.01)


def test_an_outage_that_has_ended_leaves_no_trace():
    expected, observed = platform(3, course=broken(38, 44))
    whole = platform(3)[1]
    found, clean = fit_levels(expected, observed, AGES), fit_levels(expected, whole, AGES)
    assert not found.frozen
    assert out_of(expected, observed).tolist() == (broken(38, 44) == 0).tolist()
    assert found.target_shift == pytest.approx(clean.target_shift, abs=0.1)
    assert np.median(np.abs(found.shifts - clean.shifts)) < 0.15
    assert np.abs(found.shifts - clean.shifts).max() < 0.65


def test_an_outage_weighs_nothing_and_is_no_jump():
    expected, observed = platform(4, positives=2000.0, course=broken(40, 46))
    found = hour_weights(expected, observed, AGES)
    assert found.outage.tolist() == (broken(40, 46) == 0).tolist()
    assert not found.weights[:, found.outage].any()
    assert found.jumped.mean() < 0.05


def test_outage_hours_may_come_from_outside():
    """Where campaigns come in blocks, one block alone cannot tell."""
    expected, observed = platform(4, campaigns=2)
    given = broken(40, 46) == 0
    found = hour_weights(expected, observed, AGES, outage=given)
    assert found.outage.tolist() == given.tolist()
    assert not found.weights[:, given].any()


@pytest.mark.parametrize("left", [0.5, 0.7])
def test_a_real_fall_is_followed(left):
    """All campaigns fall by a half, or three in ten: that is the market."""
    course = np.where(np.arange(HOURS) >= 44, left, 1.0)
    expected, observed = platform(5, course=course)
    found = fit_levels(expected, observed, AGES)
    before = fit_levels(expected[:, :44], observed[:, :44], AGES[:44] - 4)
    assert not found.frozen
    assert found.target_shift - before.target_shift == pytest.approx(log(left), abs=0.25)


def test_a_fall_to_two_fifths_is_seldom_an_outage_by_chance():
    """Of 60 clicks, two fifths are often less than a third: one fall in six was not followed."""
    expected = np.full((40, HOURS), 1.5)
    rates = expected * broken(47, 48, 0.4)
    seen = [np.random.default_rng(seed).poisson(rates).astype(float) for seed in range(60)]

    assert sum(bool(out_of(expected, observed)[-1]) for observed in seen) <= 4


def test_scores_that_rise_are_no_outage():
    """The impressions have as many positives as before: another model scores them, whose curve the
    positives of two hours do not know yet."""
    expected, observed = platform(5, positives=600.0)
    risen = expected * np.where(np.arange(HOURS) < HOURS - 2, 1.0, 7.0)
    block = CampaignHours.of(risen, observed, steady=expected)
    gone = CampaignHours.of(risen, observed * broken(HOURS - 2, HOURS), steady=expected)

    assert out_of(risen, observed)[-2:].all()
    assert not outage_hours(PlatformHours.of([block])).any()
    assert outage_hours(PlatformHours.of([gone]))[-2:].all()
    assert levels_of_blocks([block], AGES, 0).target_shift < -0.5


def test_large_campaigns_alone_make_no_outage():
    """The three largest fall to nothing: a third of all positives, three campaigns of a hundred."""
    expected, observed = platform(6)
    observed[:3, 45:] = 0.0
    assert not out_of(expected, observed).any()
    assert not fit_levels(expected, observed, AGES).frozen


def test_an_attack_on_a_few_hides_no_outage():
    expected, observed = platform(7, positives=1000.0, course=broken(47, 48))
    observed[5:8, 47] = 1e5
    assert out_of(expected, observed)[47]


def test_one_campaign_makes_no_outage():
    """There is nothing to tell a broken tracker from an empty one; `hour_weights` bounds it."""
    expected, observed = np.full((1, HOURS), 50.0), np.full((1, HOURS), 50.0)
    observed[0, 44:] = 0.0
    assert not out_of(expected, observed).any()


def test_what_has_lasted_half_of_the_hours_is_believed():
    expected, observed = platform(8, course=np.where(np.arange(HOURS) >= 20, 0.2, 1.0))
    found = fit_levels(expected, observed, AGES)
    assert not found.frozen
    assert found.target_shift == pytest.approx(-log(3), abs=1e-9)


def test_few_positives_are_judged_over_several_hours():
    """Nine positives an hour: one hour without is chance, four are not."""
    one, four = (platform(9, positives=16.0, course=broken(n, HOURS)) for n in (47, 44))
    assert not out_of(*one).any()
    assert out_of(*four)[44:].all()


def test_thin_hours_do_not_end_an_outage():
    """The running hour has had no positives yet, and expects few."""
    expected, observed = platform(10, course=broken(44, 48))
    expected[:, -1] *= 0.05
    assert out_of(expected, observed)[44:].all()


def test_blocks_are_summed():
    expected, observed = platform(11, course=broken(46, 48))
    whole = CampaignHours.of(expected, observed)
    parts = [
        CampaignHours(*(column[some] for column in whole)) for some in (slice(7), slice(7, 100))
    ]
    assert PlatformHours.of(parts).expected == pytest.approx(PlatformHours.of([whole]).expected)

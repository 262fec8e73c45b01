"""Fields on a synthetic platform: codes, effects of a known size, reproducible hours."""

import numpy as np
import pytest
from scipy.special import logit

from evaluation.simulation.ad_platform import Platform
from research.leaderboard.fields.platform import FIELD_REGIMES, FIRST_SCORED, FieldPlatform

BASE = Platform(campaigns=30, impressions_per_hour=4_000, seed=2)


def world(name, seed=1):
    return FieldPlatform(BASE, FIELD_REGIMES[name], seed)


@pytest.mark.parametrize("name", FIELD_REGIMES)
def test_the_truth_is_the_platforms_and_the_effects(name):
    """Nothing but the fields' effects moves the truth, and codes point at values."""
    platform, plain = world(name), BASE.hour(5)
    hour = platform.hour(5)
    there = platform.births[plain.events.rows] <= 5

    assert np.array_equal(hour.events.scores, plain.events.scores[there])
    moved = logit(hour.truth) - logit(plain.truth[there])
    np.testing.assert_allclose(moved, platform.effects_of(hour.fields), atol=1e-9)
    for field, codes in hour.fields.items():
        assert codes.min() >= 0
        assert codes.max() < len(platform.values[field])
    again = world(name).hour(5)
    assert np.array_equal(hour.events.outcomes, again.events.outcomes)


def test_effects_have_the_size_that_the_regime_says():
    """Under the traffic's mix: mean 0, standard deviation .2, of pairs .1."""
    platform = world("interacting")
    hours = [platform.hour(hour) for hour in range(8)]
    effects = [platform.effects["device"][hour.fields["device"]] for hour in hours]
    pairs = platform.pairs["device", "placement"]
    codes = [(hour.fields["device"], hour.fields["placement"]) for hour in hours]

    assert np.concatenate(effects).mean() == pytest.approx(0.0, abs=0.02)
    assert np.concatenate(effects).std() == pytest.approx(0.2, abs=0.02)
    assert np.concatenate([pairs[both] for both in codes]).std() == pytest.approx(0.1, abs=0.01)


def test_clicks_follow_the_truth_of_each_value():
    """Outcomes are drawn from the truth that the fields moved: every value's sum is near it."""
    platform = world("dominating")
    hours = [platform.hour(hour) for hour in range(24)]
    truth, clicks = (
        np.sum([np.bincount(hour.fields["placement"], of(hour), 8) for hour in hours], axis=0)
        for of in (lambda hour: hour.truth, lambda hour: hour.events.outcomes)
    )

    assert (np.abs(clicks - truth) < 4.0 * np.sqrt(truth)).all()


def test_the_mix_changes_hourly_only_where_it_should():
    """Shares of a device in two hours differ by more than chance in "mix", not elsewhere."""

    def moved(name):
        first, second = (
            np.bincount(world(name).hour(hour).fields["device"], minlength=4) for hour in (5, 6)
        )
        return np.abs(first / first.sum() - second / second.sum()).max()

    assert moved("mix") > 0.05
    assert moved("independent") < 0.03


def test_advertisers_have_campaigns_that_are_born_in_the_scored_hours():
    """A campaign has one advertiser; the born ones have no impression before their hour."""
    platform = world("advertisers")
    born = np.flatnonzero(platform.births)
    before, after = platform.hour(FIRST_SCORED - 1), platform.hour(FIRST_SCORED + 10)
    pairs = set(zip(after.campaigns.tolist(), after.fields["advertiser"].tolist(), strict=True))

    assert len(born) >= 4
    assert not np.isin(before.campaigns, born).any()
    assert np.isin(born, after.campaigns).all()
    assert len(pairs) == len(set(after.campaigns.tolist()))


def test_a_blind_hour_tells_neither_outcomes_nor_the_truth():
    """What a method is given to predict."""
    hour = world("none").hour(3)
    blind = hour.blind()

    assert hour.events.outcomes.any()
    assert not blind.events.outcomes.any()
    assert np.isnan(blind.truth).all()
    assert np.array_equal(blind.events.scores, hour.events.scores)

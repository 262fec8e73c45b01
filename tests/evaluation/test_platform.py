"""The synthetic platform: reproducible traffic whose true probabilities are known; and what the
platform of clicks shares with it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit

from evaluation import ClickPlatform, EventTable, Platform, log_loss, pcoc

BOTH = pytest.mark.parametrize("kind", [Platform, ClickPlatform])
COLUMNS = ("times", "rows", "scores", "outcomes")


def same_hour(a, b):
    return np.array_equal(a.truth, b.truth) and all(
        np.array_equal(getattr(a.events, name), getattr(b.events, name)) for name in COLUMNS
    )


def sizes(platform, first, behind):
    """Impressions of each campaign in the hours [first, behind)."""
    rows = platform.hours(first, behind).events.rows
    return np.bincount(rows, minlength=platform.campaigns)


def test_another_seed_or_hour_is_another_draw():
    """Neither seeds nor hours share their chance."""
    hour = Platform(seed=3).hour(7)

    assert not same_hour(hour, Platform(seed=4).hour(7))
    assert not same_hour(hour, Platform(seed=3).hour(8))


def test_any_hour_is_reproducible_on_its_own():
    """An hour depends on (seed, hour) alone: not on what was drawn before it, nor in what order."""
    one_after_the_other, backwards = Platform(seed=1), Platform(seed=1)
    forward = [one_after_the_other.hour(hour) for hour in range(5)]
    back = [backwards.hour(hour) for hour in reversed(range(5))][::-1]

    assert all(same_hour(a, b) for a, b in zip(forward, back, strict=True))
    assert same_hour(forward[3], Platform(seed=1).hour(3))


def test_hours_are_one_after_the_other():
    """A stretch of hours is its hours put together."""
    platform = Platform(campaigns=3, impressions_per_hour=200, seed=2)
    parts = [platform.hour(hour) for hour in range(4, 7)]

    together = platform.hours(4, 7)

    assert np.array_equal(together.truth, np.concatenate([part.truth for part in parts]))
    joined = EventTable.concatenate([part.events for part in parts])
    assert all(
        np.array_equal(getattr(together.events, name), getattr(joined, name)) for name in COLUMNS
    )
    assert len(platform.hours(4, 4).events) == len(platform.hours(4, 4).truth) == 0


def test_impressions_lie_in_their_hour_and_are_ordered():
    """Hour h begins h hours after the start."""
    platform = Platform(impressions_per_hour=2_000, start=7_200.0)

    events = platform.hour(5).events

    assert set(events.hours.tolist()) == {7}
    assert np.all(np.diff(events.times) >= 0)


@BOTH
def test_names_sort_by_number(kind):
    """Padded, so that the order of text is that of traffic."""
    names = kind(campaigns=120).names

    assert (names[0], names[-1], len(set(names))) == ("campaign-001", "campaign-120", 120)
    assert list(names) == sorted(names)


def test_the_truth_is_calibrated():
    """Outcomes come at their true probability: in all, per campaign and per level of truth, the
    gap is chance (standard scores; 5 is one in two million)."""
    hours = Platform(campaigns=8, impressions_per_hour=20_000, ctr=0.1, seed=5).hours(48, 60)
    events, truth = hours.events, hours.truth
    levels = np.digitize(truth, np.quantile(truth, np.linspace(0.05, 0.95, 19)))

    for groups in (np.zeros(len(truth), int), events.rows, levels):
        surplus = np.bincount(groups, events.outcomes - truth)
        score = surplus / np.sqrt(np.bincount(groups, truth * (1 - truth)))
        assert np.abs(score).max() < 5
    assert set(np.unique(events.outcomes)) == {0.0, 1.0}


def test_scores_are_wrong_in_each_campaigns_own_way():
    """Some promise far too much, some far too little; the truth is the better prediction."""
    hour = Platform(campaigns=20, impressions_per_hour=200_000, ctr=0.1, seed=6).hour(0)
    events = hour.events
    ratios = np.array(
        [
            pcoc(events.scores[events.rows == c], hour.truth[events.rows == c])
            for c in range(20)
            if np.any(events.rows == c)
        ]
    )

    assert ratios.min() < 0.8
    assert ratios.max() > 1.25
    assert log_loss(hour.truth, events.outcomes) < log_loss(events.scores, events.outcomes)


@pytest.mark.parametrize("hour", [0, 30])
def test_the_ranking_inside_a_campaign_is_right(hour):
    """Truth increases with the score, so a monotone calibration map can be exact."""
    drawn = Platform(campaigns=10, impressions_per_hour=5_000, seed=8, drift=3.0).hour(hour)

    for campaign in range(10):
        own = drawn.events.rows == campaign
        order = np.argsort(drawn.events.scores[own])
        assert np.all(np.diff(drawn.truth[own][order]) >= 0)


def test_traffic_follows_zipfs_law():
    """Campaign k has 1 / k of the first one's traffic, within chance (5 standard errors)."""
    platform = Platform(campaigns=12, impressions_per_hour=20_000, seed=9)

    counts = sizes(platform, 48, 52)

    expected = counts.sum() / np.arange(1, 13) / (1 / np.arange(1, 13)).sum()
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_traffic_is_what_was_asked_for_over_a_day():
    """The daily cycle moves impressions between hours: its mean is the parameter."""
    platform = Platform(campaigns=4, impressions_per_hour=1_000, seed=10)

    by_hour = [len(platform.hour(hour).events) for hour in range(48, 72)]

    assert np.sum(by_hour) == pytest.approx(24_000, abs=5 * np.sqrt(24_000))
    assert max(by_hour) / min(by_hour) == pytest.approx(1.4 / 0.6, rel=0.2)


def test_click_rates_lie_around_the_one_asked_for():
    """The typical campaign clicks at `ctr`, within a third; half of all within a factor of two."""
    drawn = Platform(campaigns=200, impressions_per_hour=100_000, ctr=0.03, seed=11).hour(48)
    rates = np.bincount(drawn.events.rows, drawn.truth) / np.bincount(drawn.events.rows)

    low, median, high = np.quantile(rates, [0.25, 0.5, 0.75])

    assert 0.02 < median < 0.04
    assert 0.015 < low < high < 0.06


def test_some_campaigns_start_late():
    """About 15 % of them, up to two days after the first, which always runs."""
    platform = Platform(campaigns=100, impressions_per_hour=100_000, seed=12)
    before, during, after = (sizes(platform, hour, hour + 1) > 0 for hour in (0, 24, 48))

    assert 5 <= np.count_nonzero(~before) <= 25
    assert before[0]
    assert np.all(before <= during)
    assert np.count_nonzero(before) < np.count_nonzero(during) < 100
    assert after.all()


def test_the_first_campaign_is_there_from_the_start():
    """The one with the most traffic is never late: hour 0 is never empty."""
    for seed in range(30):
        assert sizes(Platform(campaigns=1, impressions_per_hour=1_000, seed=seed), 0, 1)[0] > 0


def test_without_drift_nothing_changes():
    """The score that was worth p at hour 0 is worth p in every hour."""
    assert moved(Platform(campaigns=3, seed=13, drift=0.0), 37) < 1e-3


def test_drift_moves_the_truth_of_a_score():
    """More of it moves more."""
    slow, fast = (moved(Platform(campaigns=3, seed=13, drift=drift), 37) for drift in (0.5, 2.0))

    assert 0.02 < slow < fast


def test_drift_starts_at_hour_0():
    """The first hour is the same whatever the drift."""
    assert same_hour(Platform(seed=14, drift=0.0).hour(0), Platform(seed=14, drift=5.0).hour(0))


def moved(platform, hour):
    """How far the truth of a score has moved since hour 0, in relation, mean over impressions."""
    then, now = platform.hour(0), platform.hour(hour)
    moves = []
    for campaign in range(platform.campaigns):
        before, after = (drawn.events.rows == campaign for drawn in (then, now))
        if before.sum() < 100:
            continue  # It has not started yet.
        order = np.argsort(then.events.scores[before])
        known, scores = then.events.scores[before][order], now.events.scores[after]
        inside = (scores > known[5]) & (scores < known[-5])
        expected = np.interp(scores[inside], known, then.truth[before][order])
        moves.append(np.abs(now.truth[after][inside] / expected - 1))
    return np.concatenate(moves).mean()


@pytest.mark.parametrize(
    ("kind", "traffic", "rate"),
    [(Platform, "impressions_per_hour", "ctr"), (ClickPlatform, "clicks_per_hour", "cvr")],
)
@pytest.mark.parametrize(
    ("parameter", "value", "rule"),
    [
        ("campaigns", 0, "at least 1"),
        ("traffic", 0, "above 0"),
        ("traffic", np.inf, "above 0, finite"),
        ("rate", 0.0, "between 0 and 1"),
        ("rate", 1.0, "between 0 and 1"),
        ("rate", np.nan, "between 0 and 1"),
        ("seed", -1, "at least 0"),
        ("drift", -0.1, "at least 0"),
        ("drift", np.inf, "at least 0, finite"),
        ("start", 5.0, "a whole hour"),
    ],
)
def test_bad_parameters_are_named(kind, traffic, rate, parameter, value, rule):
    """ValueError with parameter, value and rule."""
    name = {"traffic": traffic, "rate": rate}.get(parameter, parameter)
    with pytest.raises(ValueError, match=f"{name} = {value}: must be {rule}"):
        kind(**{name: value})


@BOTH
def test_there_is_no_hour_before_the_first(kind):
    """A negative hour is an error, not the end of the log."""
    with pytest.raises(ValueError, match="hour = -1: must be at least 0"):
        kind().hour(-1)


def test_a_quiet_hour_is_an_empty_table():
    """Hardly any traffic makes hours of none."""
    drawn = Platform(campaigns=2, impressions_per_hour=1e-9).hour(0)

    assert (len(drawn.events), len(drawn.truth)) == (0, 0)


def test_fields_change_what_is_clicked_and_nothing_else():
    """Scores, campaigns and moments are those without fields; effects have the mean 0 in all the
    traffic, and more than chance differs between values."""
    plain = Platform(campaigns=5, impressions_per_hour=40_000, ctr=0.1, seed=2)
    with_fields = replace(plain, fields=("device", "seller"))
    before, after = plain.hour(60), with_fields.hour(60)

    assert same_hour(after, with_fields.hour(60))
    for name in ("times", "rows", "scores"):
        assert np.array_equal(getattr(before.events, name), getattr(after.events, name))
    assert after.events.fields.keys() == {"device", "seller"}
    odds = logit(after.truth) - logit(before.truth)
    assert np.mean(odds) == pytest.approx(0.0, abs=0.05)
    assert np.std(odds) == pytest.approx(0.3 * np.sqrt(2), rel=0.2)
    device = after.events.fields["device"]
    seller = after.events.fields["seller"]
    assert len(device.names) == 6
    assert len(np.unique(odds.round(9))) == len(set(zip(device.codes, seller.codes, strict=True)))


def test_a_field_has_one_name():
    with pytest.raises(ValueError, match=r"fields = .*names, each once"):
        Platform(fields=("device", "device"))

"""The synthetic platform of clicks: reproducible, and wrong in the ways it says it is."""

import numpy as np
import pytest

from evaluation import ClickPlatform, auc, pcoc
from evaluation.simulation.click_platform import ATTRIBUTION_SECONDS, POST_CLICK_SECONDS
from pccem import Categorical

HOUR = 3600.0
BEHAVIOURS = ("session_seconds", "page_views", "add_to_cart", "favorites", "purchases")


def same(a, b):
    """Whether two hours agree to the last bit."""
    one, two = a.stream.clicks, b.stream.clicks
    pairs = [
        (a.truth, b.truth),
        (a.stream.delay, b.stream.delay),
        (one.clicked_at, two.clicked_at),
        (one.rows, two.rows),
        (one.scores, two.scores),
        *((column(one, name), column(two, name)) for name in one.features.columns),
    ]
    return all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def column(clicks, name):
    """A feature's numbers, or its codes."""
    values = clicks.features.columns[name]
    return values.codes.astype(float) if isinstance(values, Categorical) else values


@pytest.fixture(scope="module")
def crowd():
    """A hundred campaigns, 400,000 clicks."""
    return ClickPlatform(campaigns=100, clicks_per_hour=200_000, seed=5).hours(0, 2)


def test_an_hour_depends_on_its_seed_and_number_alone():
    """Not on what was drawn before it, nor in what order."""
    forwards, backwards = ClickPlatform(seed=3), ClickPlatform(seed=3)
    one = [forwards.hour(hour) for hour in range(3)]
    other = [backwards.hour(hour) for hour in reversed(range(3))][::-1]

    assert all(same(a, b) for a, b in zip(one, other, strict=True))
    assert not same(one[0], ClickPlatform(seed=4).hour(0))
    assert len(one[0].stream) != len(one[1].stream)


def test_hours_are_one_after_the_other():
    """A stretch of hours is its hours put together."""
    platform = ClickPlatform(campaigns=3, clicks_per_hour=200, seed=2)
    parts = [platform.hour(hour) for hour in range(4, 7)]

    together = platform.hours(4, 7)

    assert np.array_equal(together.truth, np.concatenate([part.truth for part in parts]))
    assert len(together.stream) == sum(len(part.stream) for part in parts)
    assert len(platform.hours(4, 4).stream) == len(platform.hours(4, 4).truth) == 0


def test_conversions_come_at_their_true_probability(crowd):
    """In all, and per campaign; the gap is chance (5 standard errors)."""
    outcomes, truth = crowd.stream.outcomes(ATTRIBUTION_SECONDS), crowd.truth

    for groups in (np.zeros(len(truth), int), crowd.stream.clicks.rows):
        surplus = np.bincount(groups, outcomes - truth)
        assert np.abs(surplus / np.sqrt(np.bincount(groups, truth * (1 - truth)))).max() < 5


def test_delays_are_those_of_the_paper(crowd):
    """8 % within the hour, 17 % after 100 hours, all inside 7 days (figure 3), within a point."""
    delay = crowd.stream.delay[~np.isnan(crowd.stream.delay)]

    assert np.mean(delay < HOUR) == pytest.approx(0.08, abs=0.01)
    assert np.mean(delay > 100 * HOUR) == pytest.approx(0.17, abs=0.01)
    assert 0 < delay.min() < delay.max() < ATTRIBUTION_SECONDS


def test_scores_promise_several_times_too_much(crowd):
    """About five in odds, twice as much in some campaigns as in others."""
    clicks, truth = crowd.stream.clicks, crowd.truth
    ratios = [pcoc(clicks.scores[clicks.rows == c], truth[clicks.rows == c]) for c in range(100)]

    assert 3.5 < np.median(ratios) < 5.5
    assert np.quantile(ratios, 0.9) > 1.7 * np.quantile(ratios, 0.1)


def test_behaviours_tell_more_than_the_score(crowd):
    """Each of the five lies higher where a click converts later; the truth knows most."""
    stream = crowd.stream
    later = (stream.delay >= POST_CLICK_SECONDS).astype(float)

    by_score = auc(stream.clicks.scores, later)
    for name in BEHAVIOURS:
        values = stream.clicks.features.columns[f"behaviour.{name}"]
        assert auc(np.nan_to_num(values) / np.nanmax(values), later) > 0.5
    assert 0.6 < by_score < auc(crowd.truth, later) - 0.1


def test_a_purchase_within_the_hour_shows(crowd):
    """Whoever has converted by then has one; hardly anybody else does."""
    stream = crowd.stream
    purchases = stream.clicks.features.columns["behaviour.purchases"]
    converted = stream.delay < POST_CLICK_SECONDS

    assert np.all(purchases[converted] >= 1)
    assert 0.001 < np.mean(purchases[~converted] >= 1) < 0.02


def test_what_did_not_happen_is_missing(crowd):
    """No behaviour is 0; a tenth of the users cannot be followed at all."""
    columns = crowd.stream.clicks.features.columns

    for name in BEHAVIOURS:
        assert np.nanmin(columns[f"behaviour.{name}"]) > 0
    assert np.mean(np.isnan(columns["behaviour.page_views"])) == pytest.approx(0.1, abs=0.005)
    assert np.nanmax(columns["behaviour.session_seconds"]) <= POST_CLICK_SECONDS


def test_features_are_numbers_and_names():
    """Known before the click; a fifth of the past is not."""
    columns = ClickPlatform(clicks_per_hour=20_000).hour(0).stream.clicks.features.columns

    assert isinstance(columns["feature.device"], Categorical)
    assert set(columns["feature.device"].categories) == {"desktop", "phone", "tablet"}
    assert np.mean(np.isnan(columns["feature.past_purchases"])) == pytest.approx(0.2, abs=0.02)
    assert columns["feature.price"].min() > 0


def drift_of(hour, drift):
    """Log of the conversions that the same scores are worth, against hour 0, by campaign."""
    platform = ClickPlatform(campaigns=4, clicks_per_hour=100_000, cvr=0.1, seed=6, drift=drift)
    now, then = platform.hour(hour), platform.hour(0)
    worth = [
        np.bincount(drawn.stream.clicks.rows, drawn.truth)
        / np.bincount(drawn.stream.clicks.rows, drawn.stream.clicks.scores)
        for drawn in (now, then)
    ]
    return np.log(worth[0] / worth[1])


def test_without_drift_nothing_changes():
    """A score that was worth p at hour 0 is worth p a week later, within chance."""
    assert np.abs(drift_of(170, 0.0)).max() < 0.03


def test_drift_moves_each_campaign_in_its_own_way():
    """More of it moves more."""
    slow, fast = drift_of(170, 0.5), drift_of(170, 1.5)

    assert 0.05 < np.abs(slow).max() < np.abs(fast).max()
    assert np.ptp(fast) > 0.2
    assert np.array_equal(drift_of(0, 3.0), np.zeros(4))


def test_traffic_follows_zipfs_law_and_the_day():
    """Campaign k has 1 / k of the first one's clicks; the mean over a day is the parameter."""
    platform = ClickPlatform(campaigns=5, clicks_per_hour=2_000, seed=9)
    by_hour = [len(platform.hour(hour).stream) for hour in range(24)]
    counts = np.bincount(platform.hours(0, 24).stream.clicks.rows)

    expected = 48_000 / np.arange(1, 6) / (1 / np.arange(1, 6)).sum()
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
    assert max(by_hour) / min(by_hour) == pytest.approx(1.4 / 0.6, rel=0.15)


def test_a_quiet_hour_is_an_empty_stream():
    """Hardly any traffic makes hours of none."""
    assert len(ClickPlatform(campaigns=2, clicks_per_hour=1e-9).hour(0).stream) == 0

"""The platform of late conversions: the published one but for its departures."""

import numpy as np
import pytest

from evaluation import ClickPlatform
from research.late_conversions import LateConversions, LatePlatform

DAY, HOURS = 86_400.0, 48


def delays(late: LateConversions) -> tuple[np.ndarray, np.ndarray]:
    """Moments and delays of the conversions of two days."""
    stream = LatePlatform(clicks_per_hour=2_000, cvr=0.3, seed=1, late=late).hours(0, HOURS).stream
    converted = ~np.isnan(stream.delay)
    return stream.clicks.clicked_at[converted], stream.delay[converted]


def test_without_departures_it_is_the_platform():
    late, plain = (
        platform(clicks_per_hour=200, seed=5).hours(0, 6)
        for platform in (LatePlatform, ClickPlatform)
    )

    assert late.truth.tobytes() == plain.truth.tobytes()
    assert late.stream.delay.tobytes() == plain.stream.delay.tobytes()


def test_from_the_turn_on_conversions_come_sooner_and_more_often():
    clicked, found = delays(LateConversions(turn=24, pace=3.0, rise=2.0))

    after = clicked >= ClickPlatform().start + DAY
    assert np.median(found[~after]) / np.median(found[after]) == pytest.approx(3.0, rel=0.05)
    assert np.count_nonzero(after) > 1.3 * np.count_nonzero(~after)


def test_a_share_waits_for_saturday_and_another_never_counts():
    clicked, found = delays(LateConversions(saturdays=0.6))
    _, counted = delays(LateConversions(beyond=0.4))

    on_saturday = ((clicked + found) // DAY - 2) % 7 == 0
    assert 0.6 < on_saturday.mean() < 0.75
    assert len(counted) == pytest.approx(0.6 * len(delays(LateConversions())[1]), rel=0.02)


def test_what_is_untold_has_neither_features_nor_behaviours():
    told, half, none = (
        LatePlatform(clicks_per_hour=500, seed=3, untold=share).hours(0, 2).stream.clicks.features
        for share in (0.0, 0.5, 1.0)
    )

    price = "feature.price"
    known = ~np.isnan(np.asarray(half.columns[price]))
    assert known.mean() == pytest.approx(0.5, abs=0.1)
    assert (half.columns[price][known] == told.columns[price][known]).all()
    assert np.isnan(np.asarray(none.columns[price])).all()
    assert (none.columns["feature.device"].codes == -1).all()


def test_cancellations_come_before_the_stay():
    platform = LatePlatform(clicks_per_hour=500, cvr=0.3, seed=2, late=LateConversions(leads=True))
    stream = platform.hours(0, 6).stream

    leads = np.asarray(stream.clicks.features.columns["feature.lead_days"])
    converted = ~np.isnan(stream.delay)
    assert (stream.delay[converted] <= DAY * leads[converted]).all()
    assert np.median(leads[converted]) > np.median(leads)

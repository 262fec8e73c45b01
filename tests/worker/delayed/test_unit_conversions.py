"""What the clicks of each bucket of units brought: counted day by day, each conversion once."""

from dataclasses import replace

import numpy as np
import pytest

from app.click_log.rows import ClosedClick
from app.storage.bins import BinsStore
from app.storage.blocks import StoredConversion
from app.storage.statistics.breakdowns import OF_CLICKS
from app.worker.relabelling import KnownClicks, UnitConversions
from calibrators.bins.codecs import from_fixed
from tests.worker.delayed.click_world import DAY, MIDNIGHT, TARGET, LoggedStream
from tests.worker.delayed.test_refits import World

HOUR = 3600.0
FIRST = int(MIDNIGHT // DAY)


@pytest.fixture
def days(redis_client):
    return BinsStore(redis_client, 3600).unit_days


def click(name, at, bucket=None, score=0.25):
    return ClosedClick(name, "shoes", at, {TARGET: score}, {}, {}, {}, bucket=bucket)


def convert(log, name, at, value=1.0):
    log.write_conversions([StoredConversion(name, TARGET, at, value)])


def count(log, days, settings, as_of, cached=None, recent=None):
    UnitConversions(log, cached, TARGET, as_of, settings, days).count(recent)
    return {
        day - FIRST: dict(zip(OF_CLICKS, from_fixed(sums), strict=True))
        for day, sums in days.read(TARGET).items()
    }


def row(found, day, bucket):
    return [float(found[day][name][bucket]) for name in OF_CLICKS]


def test_each_conversion_counts_once_for_its_click(log, days, settings):
    """However often a day is counted, and a click or a conversion is written."""
    clicks = [click("a", MIDNIGHT + 5, 7), click("b", MIDNIGHT + 9, 7), click("c", MIDNIGHT, 4095)]
    log.write_clicks([*clicks, click("nobody", MIDNIGHT + 7)])
    log.write_clicks(clicks[:1])
    convert(log, "a", MIDNIGHT + 50, 3.0)
    repeated = [StoredConversion("a", TARGET, MIDNIGHT + 50, 3.0)]
    log.write_conversions([*repeated, StoredConversion("a", TARGET, MIDNIGHT + 60, 2.0)])
    convert(log, "c", MIDNIGHT + DAY + 3, 100.0)
    convert(log, "nobody", MIDNIGHT + 8)

    for hours in (2, 2, 26, 27, 28):
        found = count(log, days, settings, MIDNIGHT + hours * HOUR)

    assert row(found, 0, 7) == [2.0, 1.0, 1.0, 5.0]
    assert row(found, 0, 4095) == [1.0, 0.0, 0.0, 0.0], "behind its window"
    assert found[0]["clicks"].sum() == 3.0


def test_a_conversion_that_comes_later_is_counted_then(log, days, settings):
    """Also that of a day that is over, finalised or not, and never one that is not known yet."""
    log.write_clicks([click("a", MIDNIGHT + 20 * HOUR, 7)])
    convert(log, "a", MIDNIGHT + 30 * HOUR, 4.0)

    early = row(count(log, days, settings, MIDNIGHT + 23 * HOUR), 0, 7)
    for hours in (31, 32):  # the day before takes its turn first
        late = row(count(log, days, settings, MIDNIGHT + hours * HOUR), 0, 7)
    log.finalise({TARGET: DAY}, MIDNIGHT + 3 * DAY)
    final = row(count(log, days, settings, MIDNIGHT + 3 * DAY), 0, 7)

    assert early == [1.0, 0.0, 0.0, 0.0]
    assert late == final == [1.0, 1.0, 1.0, 4.0]


def test_who_looks_back_changes_nothing(log, days, settings):
    log.write_clicks([click("a", MIDNIGHT + HOUR, 7)])
    convert(log, "a", MIDNIGHT + 5 * HOUR)
    known = row(count(log, days, settings, MIDNIGHT + 8 * HOUR), 0, 7)

    assert row(count(log, days, settings, MIDNIGHT + 3 * HOUR), 0, 7) == known


def test_no_click_with_a_unit_stores_nothing(log, days, settings):
    log.write_clicks([click("a", MIDNIGHT + HOUR)])

    assert count(log, days, settings, MIDNIGHT + 8 * HOUR) == {}


@pytest.mark.slow
def test_every_open_day_gets_its_turn_until_it_is_final(log, days, settings):
    settings = settings.model_copy(update={"attribution_hours": {TARGET: 72}})
    log.write_clicks([click(f"{day}", MIDNIGHT + day * DAY + HOUR, 7) for day in range(5)])
    for hour in range(5 * 24 + 2):
        counted = count(log, days, settings, MIDNIGHT + hour * HOUR)
        open_days = days.counted(TARGET)
        today = int(hour - 1) // 24
        for day in range(max(today - 3, 0), today):
            late = hour - (open_days[FIRST + day] - FIRST * 24)
            assert late <= 6, "the four open days take turns"
    assert sorted(counted) == list(range(-4, 6)) or all(counted[day] for day in range(5))
    assert days.counted(TARGET)[FIRST] - FIRST * 24 >= 24 + 72


class WithUnits(LoggedStream):
    """Of five buckets in turn; a conversion is worth 2."""

    def _closed(self, place, served):
        return replace(super()._closed(place, served), bucket=place % 5)

    def _conversion(self, place):
        return replace(super()._conversion(place), value=2.0)


@pytest.mark.slow
def test_expected_conversions_count_beside_those_that_came(
    redis_client, lease, log, stream, settings, days
):
    """By a refit: the labels that the maps learn from, worth what others are on average."""
    WithUnits(log, stream).write(MIDNIGHT, MIDNIGHT + 4 * DAY)
    world, as_of = World(settings, redis_client, lease), MIDNIGHT + 4 * DAY
    world.train(as_of)
    cached = world.delayed.cache.newest(TARGET, DAY, as_of)
    span = (MIDNIGHT + 3 * DAY, as_of - HOUR)
    labels = KnownClicks(log, cached, TARGET, as_of, settings).relabelled(span).labels

    world.refit(as_of)
    sums = from_fixed(days.read(TARGET)[FIRST + 3])

    assert sums[1, :5].sum() == pytest.approx(labels.sum())
    assert np.count_nonzero(sums[0]) == 5
    assert 0 < sums[2].sum() < sums[1].sum()
    assert sums[3].sum() == pytest.approx(2.0 * sums[1].sum())

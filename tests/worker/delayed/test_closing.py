"""Closing on real Redis and a real click log: exactly once, whatever dies in between."""

import math
from threading import Event

import pytest

from app.click_log.folder import ClickLogUnavailable
from app.click_log.log import ClickLog
from app.storage.batch import EventBatch
from app.storage.blocks import StoredConversion
from app.storage.clicks import OpenClick, OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.keys import SHARDS, shard_of
from app.storage.versions import Versions
from app.worker import delayed_targets
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import ClickCloser, served
from app.worker.loop import Worker
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import FieldGroups, GroupMaps
from tests.click_log.rows import clicks_in, conversions_in
from tests.storage.interrupted_redis import Died, InterruptedRedis, die
from tests.worker.conftest import Clock
from tests.worker.delayed.click_world import MIDNIGHT, TARGET

HOUR = 3600.0
NOW = MIDNIGHT + 2 * HOUR
AT_ANY_STEP = pytest.mark.parametrize(
    ("step", "moment"),
    [
        (step, moment)
        for step in ("begin_close", "finish_close", "read_conversions", "drop_conversions")
        for moment in ("before", "after")
    ],
)
"""Of closing and handing over."""


@pytest.fixture
def closing_on(settings):
    """Closing through a client."""

    def make(client):
        versions = Versions(client, settings.versions_kept)
        clicks, conversions = OpenClicks(client), ConversionLog(client)
        return ClickCloser(settings, clicks, conversions, versions, AtlasCache(versions))

    return make


@pytest.fixture
def closing(closing_on, redis_client):
    return closing_on(redis_client)


@pytest.fixture
def post(append):
    """Clicks at these seconds after midnight, their first page view, and a conversion each."""

    def add(*seconds, campaign="big"):
        batch = EventBatch()
        for second in seconds:
            at, name = MIDNIGHT + second, f"click-{second}"
            click = OpenClick(name, campaign, at, {TARGET: 0.2}, {"age": 30.0, "device": "app"})
            batch.add_click(len(batch), click, opens=True)
            batch.add_behaviour(len(batch), name, "page_views", at + 60, 2.0)
            batch.add_behaviour(len(batch), name, "page_views", at + 90, 3.0)
            batch.add_conversion(len(batch), StoredConversion(name, TARGET, at + 1000, 9.5))
        append(batch)

    return add


def logged_clicks(log):
    return clicks_in(log, TARGET, MIDNIGHT - HOUR, MIDNIGHT + 24 * HOUR)


def logged_conversions(log):
    return conversions_in(log, TARGET, MIDNIGHT - HOUR, MIDNIGHT + 24 * HOUR)


def test_what_is_due_moves_into_the_click_log(closing, post, log):
    post(10, 20, 3700)

    closed = closing.run(log, MIDNIGHT + 2 * HOUR, NOW)

    logged = logged_clicks(log)
    columns = logged.clicks.features.columns
    assert closed == 2
    assert logged.click_ids.to_pylist() == ["click-10", "click-20"]
    assert logged.clicks.clicked_at.tolist() == [MIDNIGHT + 10, MIDNIGHT + 20]
    assert columns["behaviour.page_views"].tolist() == [5.0, 5.0]
    assert columns["feature.age"].tolist() == [30.0, 30.0]
    assert columns["feature.device"].values() == ["app", "app"]
    assert closing.clicks.counts()["open"] == 1
    assert closing.clicks.counts()["closed"] == 2
    assert not closing.conversions.pending()
    conversions = logged_conversions(log)
    assert sorted(conversions.converted_at - MIDNIGHT) == [1010, 1020, 4700]


def test_a_click_is_due_when_its_post_click_window_is_over(closing, post, log):
    post(10)

    assert closing.run(log, MIDNIGHT + HOUR + 9.999, NOW) == 0
    assert closing.run(log, MIDNIGHT + HOUR + 10, NOW) == 1


@AT_ANY_STEP
def test_a_worker_that_dies_leaves_every_click_and_conversion_once(
    closing_on, redis_url, redis_client, post, log, step, moment
):
    post(10, 20)
    dying = closing_on(InterruptedRedis(redis_url, step, **{moment: die}))
    with pytest.raises(Died):
        dying.run(log, NOW, NOW)
    post(15)

    closing_on(redis_client).run(log, NOW, NOW)
    log.compact(NOW + HOUR)

    clicks, known = log.known(
        TARGET, MIDNIGHT, MIDNIGHT + HOUR, window=24 * HOUR, as_of=MIDNIGHT + 5 * HOUR
    )
    assert clicks.click_ids.to_pylist() == ["click-10", "click-15", "click-20"]
    assert clicks.clicks.features.columns["behaviour.page_views"].tolist() == [5.0] * 3
    assert known.delay.tolist() == [1000.0] * 3
    assert len(logged_conversions(log)) == 3
    counts = closing_on(redis_client).clicks.counts()
    assert (counts["open"], counts["closed"]) == (0, 3)


@AT_ANY_STEP
def test_what_two_workers_close_at_once_is_closed_once(
    closing_on, redis_url, redis_client, post, log, step, moment
):
    """One does all of it while the other is at some step."""
    post(10, 20)
    other = closing_on(redis_client)
    slow = closing_on(
        InterruptedRedis(redis_url, step, **{moment: lambda: other.run(log, NOW, NOW)})
    )

    slow.run(log, NOW, NOW)

    assert logged_clicks(log).click_ids.to_pylist() == ["click-10", "click-20"]
    assert len(logged_conversions(log)) == 2
    counts = other.clicks.counts()
    assert (counts["open"], counts["closed"]) == (0, 2)


def test_each_closes_the_clicks_of_its_shards(closing, post, log):
    seconds = range(10, 42)
    post(*seconds)
    own, others = range(0, SHARDS, 2), range(1, SHARDS, 2)
    expected = {f"click-{at}" for at in seconds if shard_of(f"click-{at}") in own}
    assert 0 < len(expected) < len(seconds)

    closed = closing.run(log, NOW, NOW, own)

    assert closed == len(expected)
    assert {*logged_clicks(log).click_ids.to_pylist()} == expected
    assert len(logged_conversions(log)) == len(expected)
    assert closing.run(log, NOW, NOW, others) == len(seconds) - closed
    assert len(logged_conversions(log)) == len(seconds)


def test_who_waits_for_the_lease_closes_its_share(
    settings, redis_client, post, log, tmp_path, caplog, monkeypatch
):
    """In the click log that the lease's holder has chosen, a part at a time, so that it sees when
    the lease is free; with another log the holder closes all."""
    clock, wanted = Clock(NOW), Event()
    wanted.set()
    elsewhere = settings.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    workers = [
        Worker(each, redis_client, clock, name)
        for name, each in (("holder", settings), ("standby", settings), ("other", elsewhere))
    ]
    holder, standby, other = workers
    assert holder._lease.acquire()

    def closed(worker, turn):
        before = len(logged_clicks(log))
        post(*range(100 * turn, 100 * turn + 32))
        clock.seconds += 1
        if worker is holder:
            worker._fold_now_and_then()
        else:
            worker._wait_and_work(wanted)
        return len(logged_clicks(log)) - before

    assert closed(standby, 1) == 0
    assert closed(holder, 2) == 64
    assert closed(other, 3) == 0
    half = closed(standby, 4)
    assert 0 < half < 64
    assert closed(holder, 5) >= 64 - half
    holder._leave_to_others()
    clock.seconds += 1
    standby._wait_and_work(wanted)

    assert len(logged_clicks(log)) == len(logged_conversions(log)) == 5 * 32
    monkeypatch.setattr(delayed_targets, "CLICKS_AT_ONCE", 8)
    assert closed(standby, 6) == 8
    assert closed(standby, 7) == 8
    assert "stays open" not in caplog.text


def test_handing_over_ends_however_fast_conversions_come(closing_on, redis_url, post, log):
    """What comes meanwhile is left to the next: jobs and refits wait for this one."""
    post(10)
    busy = closing_on(InterruptedRedis(redis_url, "drop_conversions", before=lambda: post(11)))

    handed_over = [(busy.run(log, NOW, NOW), len(logged_conversions(log)))[1] for _ in range(2)]

    assert handed_over == [1, 2]


@pytest.mark.parametrize("write", ["write_clicks", "write_conversions"])
def test_what_cannot_be_written_stays_in_redis(closing, post, log, monkeypatch, write):
    def fail(rows):
        raise ClickLogUnavailable("the disk is full")

    post(10, 20)
    with monkeypatch.context() as full:
        full.setattr(log, write, fail)
        with pytest.raises(ClickLogUnavailable):
            closing.run(log, NOW, NOW)

    closing.run(log, NOW, NOW)

    assert len(logged_clicks(log)) == 2
    assert len(logged_conversions(log)) == 2
    assert closing.clicks.counts()["closed"] == 2


def test_probabilities_are_of_what_served_the_hour(closing, post, log, lease):
    """Not of what came into force between the click and its closing."""
    for hour, factor in ((0, 0.5), (1, 0.25)):
        atlas = Atlas.build({"big": CalibrationMap.proportional(factor)})
        packed = {TARGET: atlas.to_bytes()}
        closing.versions.publish(lease.token, MIDNIGHT + hour * HOUR, NOW, packed, {})
    post(-10, 10, 3610)

    closing.run(log, NOW + HOUR, NOW)

    assert logged_clicks(log).probabilities.tolist() == [0.2, 0.1, 0.05]


def test_of_forgotten_versions_no_probability_is_told(closing, settings):
    click = OpenClick("a", "big", MIDNIGHT, {TARGET: 0.2})

    assert served([click], None) == [{}]


def test_each_target_has_its_own_probability(closing):
    atlases = {TARGET: Atlas.build({"big": CalibrationMap.proportional(0.5)})}
    clicks = [
        OpenClick("a", "big", MIDNIGHT, {TARGET: 0.2, "install": 0.3}),
        OpenClick("b", "big", MIDNIGHT, {"install": 0.4}),
        OpenClick("c", "other", MIDNIGHT, {TARGET: 0.2}),
    ]
    in_force = type("InForce", (), {"atlases": atlases})

    assert served(clicks, in_force) == [
        {TARGET: 0.1, "install": 0.3},
        {"install": 0.4},
        {TARGET: 0.2},
    ]


def test_the_fields_of_a_click_change_its_probability_as_they_did_when_it_was_served():
    """The group that its advertiser names, and the effect of its device."""
    group = MapColumns.of_maps([CalibrationMap.proportional(0.25)])
    groups = GroupMaps(FieldGroups("advertiser"), ("acme",), group)
    maps = {"big": CalibrationMap.proportional(0.5)}
    devices = EffectTable.of({"": 0.0, "ios": math.log(2.0)}, {})
    atlas = Atlas.build(maps, groups=groups).with_effects(FieldEffects({"device": devices}, {}, {}))
    said = [{}, {"device": "ios"}, {"device": "ios", "advertiser": "acme"}]
    clicks = [
        OpenClick("a", campaign, MIDNIGHT, {TARGET: 0.4}, fields=fields)
        for campaign in ("big", "new")
        for fields in said
    ]

    found = served(clicks, type("InForce", (), {"atlases": {TARGET: atlas}}))

    doubled = [2 * p / (1 + p) for p in (0.2, 0.4, 0.1)]
    expected = [0.2, doubled[0], doubled[0], 0.4, doubled[1], doubled[2]]
    assert [one[TARGET] for one in found] == pytest.approx(expected)


def test_behaviours_without_a_click_are_forgotten_in_time(closing, append, log):
    batch = EventBatch()
    batch.add_behaviour(0, "nobody", "page_views", MIDNIGHT, 1.0)
    append(batch)
    waiting = closing.clicks.counts()["waiting"]

    closing.run(log, NOW, 4e9)

    counts = closing.clicks.counts()
    assert (waiting, counts["waiting"], counts["orphans"]) == (1, 0, 1)


def test_closing_in_batches_closes_all(closing, post, log, monkeypatch):
    monkeypatch.setattr("app.worker.delayed_targets.CLICKS_AT_ONCE", 2)
    post(*range(10, 80, 10))

    assert closing.run(log, NOW, NOW) == 7
    assert len(logged_clicks(log)) == 7


def test_nothing_due_makes_no_folder(closing, settings):
    assert closing.run(ClickLog.open(settings.click_log), NOW, NOW) == 0
    assert list(settings.data_dir.iterdir()) == []


def test_a_block_of_conversions_that_cannot_be_read_is_put_aside(closing, post, log, redis_client):
    """The others are handed over."""
    post(10)
    (key,) = redis_client.keys("sirocco:{*}:conversions:*")
    redis_client.lset(key, 0, b"damaged")

    closing.run(log, NOW, NOW)

    assert len(logged_conversions(log)) == 0
    assert not closing.conversions.pending()

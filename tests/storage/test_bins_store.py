"""Bins by target and hour: what the worker reads and writes."""

from collections.abc import Iterator

import numpy as np
import pytest

from app.storage import bins
from app.storage.batch import EventBatch
from app.storage.bins import TABLES_AT_ONCE, BinsStore
from app.storage.keys import SHARDS, TargetHour, hours, set_aside, shard_of
from calibrators import BinsTable
from tests.storage.conftest import HOUR
from tests.storage.contents import damaged_blocks
from tests.storage.shards import by_shard

CAMPAIGN = "campaign-0"
PLACE = TargetHour(shard_of(CAMPAIGN), "click", HOUR)


def table(seed: int = 1, campaigns: int = 40) -> BinsTable:
    rng = np.random.default_rng(seed)
    names = [f"campaign-{number}" for number in range(campaigns)]
    rows = rng.integers(0, campaigns, 500)
    return BinsTable.from_columns(names, rows, rng.random(500), np.ones(500), rng.random(500))


def events(hour: int, target: str = "click", campaigns: int = 20) -> EventBatch:
    batch = EventBatch()
    for number in range(campaigns):
        batch.add(target, hour, f"campaign-{number}", 0.5, 1.0, 0.0)
    return batch


def test_an_empty_store_has_empty_bins(store):
    assert store.hour("click", HOUR) == BinsTable.empty()
    assert store.window("click", HOUR, HOUR) == BinsTable.empty()
    assert store.window("click", HOUR, HOUR + 5, calibrated=True) == BinsTable.empty()
    assert (store.hours("click"), store.fold(), damaged_blocks(store)) == ([], 0, 0)


def test_a_window_is_the_sum_of_its_hours_without_the_last(append, store):
    for hour in range(HOUR, HOUR + 4):
        append(events(hour))
    store.fold()

    window = store.window("click", HOUR + 1, HOUR + 3)

    assert window == BinsTable.merge([store.hour("click", HOUR + 1), store.hour("click", HOUR + 2)])
    assert window.total().total_count == 40


def test_a_window_of_more_hours_than_are_read_at_once_is_whole(append, store):
    for hour in range(HOUR, HOUR + 2 * TABLES_AT_ONCE + 1):
        append(events(hour, campaigns=2))
    store.fold()

    window = store.window("click", HOUR - 5, HOUR + 3 * TABLES_AT_ONCE)

    assert window.total().total_count == 2 * (2 * TABLES_AT_ONCE + 1)


def test_targets_do_not_mix(append, store):
    append(events(HOUR, "click"))
    append(events(HOUR + 1, "click:late"))
    store.fold()

    assert (store.hours("click"), store.hours("click:late")) == ([HOUR], [HOUR + 1])
    assert store.hour("click:late", HOUR) == BinsTable.empty()


def test_hours_hold_what_is_folded_and_what_is_not(append, store):
    append(events(HOUR + 7))
    store.fold()
    append(events(HOUR))

    assert store.hours("click") == [HOUR, HOUR + 7]


def test_hours_that_expired_are_not_named_and_the_next_fold_forgets_them(
    append, store, redis_client
):
    append(events(HOUR))
    store.fold()
    for shard in range(SHARDS):
        redis_client.zadd(hours(shard), {PLACE._replace(shard=shard).member: 1.0}, xx=True)

    assert store.hours("click") == []

    append(events(HOUR + 1))
    store.fold()
    assert redis_client.zrange(hours(PLACE.shard), 0, -1) == [
        PLACE._replace(hour=HOUR + 1).member.encode()
    ]


@pytest.mark.parametrize("damaged", [b"", b"SBTB", b"JUNK" * 20, table(campaigns=1).to_bytes()[1:]])
def test_damaged_bins_are_set_aside_and_named_never_a_smaller_sum_in_silence(
    damaged, append, store, redis_client
):
    append(events(HOUR))
    store.fold()
    redis_client.hset(PLACE.bins, "table", damaged)

    store.window("click", HOUR - 1, HOUR + 1)

    about = {"shard": PLACE.shard, "target": "click", "hour": HOUR}
    assert store.damage.emptied() == [{"kind": "bins", **about}]
    assert redis_client.hget(set_aside(PLACE.bins), "table") == damaged


def test_damaged_judged_bins_are_set_aside_and_their_hour_is_evaluated_anew(store, redis_client):
    store.write_calibrated("click", HOUR, by_shard(table()))
    redis_client.set(PLACE.calibrated, b"damaged")

    store.window("click", HOUR, HOUR + 1, calibrated=True)

    assert store.damage.emptied()[0]["kind"] == "calibrated-bins"
    assert redis_client.get(set_aside(PLACE.calibrated)) == b"damaged"
    assert store.calibrated_hours("click", HOUR, HOUR + 1) == set()


@pytest.mark.parametrize("calibrated", [False, True])
def test_bins_under_another_key_are_damaged(calibrated, append, store, redis_client):
    append(events(HOUR))
    store.fold()
    store.write_calibrated("click", HOUR, by_shard(table()))
    other = PLACE._replace(hour=HOUR + 1)
    name = "calibrated" if calibrated else "bins"
    redis_client.rename(getattr(PLACE, name), getattr(other, name))

    store.window("click", HOUR + 1, HOUR + 2, calibrated=calibrated)

    assert [found["hour"] for found in store.damage.emptied()] == [HOUR + 1]


def test_an_hour_that_is_judged_again_replaces_the_older_bins_of_every_campaign(store):
    store.write_calibrated("click", HOUR, by_shard(table(campaigns=40)))
    store.write_calibrated("click", HOUR, by_shard(table(campaigns=2)))

    assert store.window("click", HOUR, HOUR + 1, calibrated=True) == table(campaigns=2)


def test_an_hour_without_events_is_judged_too(store):
    """It must not be judged again and again."""
    store.write_calibrated("click", HOUR + 1, by_shard(BinsTable.empty()))
    store.write_calibrated("click", HOUR + 3, by_shard(table()))

    assert store.calibrated_hours("click", HOUR, HOUR + 3) == {HOUR + 1}
    assert store.calibrated_hours("click", HOUR, HOUR + 4) == {HOUR + 1, HOUR + 3}
    assert store.calibrated_hours("view", HOUR, HOUR + 4) == set()


def test_an_hour_whose_judging_was_cut_short_is_not_judged(store, monkeypatch):
    """The tables of its shards are written a few at a time."""

    def until_the_worker_dies() -> Iterator[BinsTable]:
        yield from by_shard(table(campaigns=40))[:-1]
        raise KeyboardInterrupt

    monkeypatch.setattr(bins, "_WRITE_BYTES", 1)
    with pytest.raises(KeyboardInterrupt):
        store.write_calibrated("click", HOUR, until_the_worker_dies())

    assert len(store.window("click", HOUR, HOUR + 1, calibrated=True)) > 0
    assert store.calibrated_hours("click", HOUR, HOUR + 1) == set()


@pytest.mark.parametrize("at_once", ["one by one", "many at once"])
def test_a_judged_window_is_the_sum_of_its_hours(store, monkeypatch, at_once):
    if at_once == "one by one":
        monkeypatch.setattr(bins, "_REPLY_BYTES", 1)
        monkeypatch.setattr(bins, "_WRITE_BYTES", 1)
    for seed in range(9):
        store.write_calibrated("click", HOUR + seed, by_shard(table(seed)))

    for first, behind in ((-1, 9), (1, 3)):
        window = store.window("click", HOUR + first, HOUR + behind, calibrated=True)
        assert window == BinsTable.merge(map(table, range(max(first, 0), behind)))


def test_judged_bins_are_not_what_is_learnt_from(append, store, impressions):
    append(impressions(10))
    store.fold()
    before = store.hour("click", HOUR)

    store.write_calibrated("click", HOUR, by_shard(table()))

    assert store.hour("click", HOUR) == before
    assert store.hours("click") == [HOUR]


def test_judged_bins_live_as_long_as_is_said_for_them(redis_client):
    """They are read over the window only, which may be shorter than what is learnt from."""
    for seconds, expected in ((None, 5000), (700, 700)):
        judged = BinsStore(redis_client, 5000, calibrated_seconds=seconds)
        judged.write_calibrated("click", HOUR, by_shard(table()))
        assert expected - 60 < redis_client.ttl(PLACE.calibrated) <= expected

"""Folding: every event ends in the bins exactly once, whoever dies or races."""

import logging
from threading import Barrier, Thread

import numpy as np
import pytest

from app.storage.bins import BinsStore
from app.storage.blocks import Block
from app.storage.keys import SHARDS, TargetHour, logs, set_aside, shard_of
from app.storage.redis.client import open_redis
from app.storage.statistics import folding
from calibrators import BinsTable
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.contents import damaged_blocks
from tests.storage.interrupted_redis import Died, InterruptedRedis, Moment, die
from tests.storage.packing import encoded, marked

CAMPAIGN = "campaign-0"
LOG = TargetHour(shard_of(CAMPAIGN), "click", HOUR)
ONE = np.ones(1)
BLOCK = encoded(Block((CAMPAIGN,), np.zeros(1, np.uint32), ONE / 4, ONE, ONE), LOG.checksum)


pytestmark = pytest.mark.usefixtures("one_log")


def counted(store: BinsStore) -> float:
    return store.hour("click", HOUR).total().total_count


def interrupted(url: str, step: str, **moments: Moment) -> BinsStore:
    return BinsStore(InterruptedRedis(url, step, **moments), TTL_SECONDS)


def test_a_fold_moves_every_row_into_the_bins_and_says_how_many(
    append, store, redis_client, impressions
):
    append(impressions(120))
    append(impressions(80))

    assert (store.fold(), store.fold()) == (200, 0)

    assert counted(store) == 200
    assert not redis_client.keys("*:log:*")
    assert not any(redis_client.exists(logs(shard)) for shard in range(SHARDS))


def test_a_fold_ends_however_fast_events_come(append, redis_url, impressions):
    """What comes meanwhile is left to the next: jobs and refits wait for this one."""
    busy = interrupted(redis_url, "finish_batch", before=lambda: append(impressions(30)))
    for _ in range(3):
        append(impressions(20))

    assert (busy.fold(), busy.fold()) == (60, 30)


def test_blocks_that_are_read_apart_keep_their_campaigns(store, redis_client):
    """One with a mark behind it, one with a long name: neither is read with the others."""
    names = [CAMPAIGN, "marked", "long" * 64]
    for name, marks in zip(names, (b"", b"\0", b""), strict=True):
        block = encoded(Block((name,), np.zeros(1, np.uint32), ONE / 4, ONE, ONE), LOG.checksum)
        redis_client.rpush(LOG.log, marked(block, marks))
    redis_client.sadd(logs(LOG.shard), LOG.member)

    assert store.fold() == 3
    found = {name: bins.total_count for name, bins in store.hour("click", HOUR)}
    assert found == dict.fromkeys(names, 1.0)


def test_folds_of_any_size_give_the_same_bytes(append, redis_client, impressions):
    """A long log is folded in steps of bounded memory."""
    one_page, whole = BinsStore(redis_client, TTL_SECONDS, fold_bytes=1), set()
    for store in (BinsStore(redis_client, TTL_SECONDS), one_page):
        redis_client.flushall()
        for _ in range(70):
            append(impressions(20))
        assert store.fold() == 1400
        whole.add(store.hour("click", HOUR).to_bytes())

    assert len(whole) == 1
    assert int(redis_client.hget(LOG.bins, "folds") or 0) == 3


def test_a_batch_has_no_more_blocks_than_its_bytes_allow(append, redis_client, impressions):
    append(impressions(50))
    block = max(len(each) for each in redis_client.lrange(LOG.log, 0, -1))
    for _ in range(127):
        append(impressions(50))

    assert BinsStore(redis_client, TTL_SECONDS, fold_bytes=40 * block).fold() == 6400

    assert redis_client.hget(LOG.bins, "folds") == b"2"


def test_a_damaged_block_of_a_later_batch_is_set_aside(
    append, store, redis_client, impressions, monkeypatch
):
    for _ in range(40):
        append(impressions(20))
    redis_client.rpush(LOG.log, b"junk")
    monkeypatch.setattr(folding, "PAGE_BYTES", 1)

    assert store.fold() == 800

    assert redis_client.lrange(f"sirocco:{{{LOG.shard:02d}}}:damaged", 0, -1) == [b"junk"]


def test_a_fold_that_read_before_another_fold_committed_must_not_double(
    append, store, redis_url, impressions
):
    """The number of the batch decides. The log alone would not: it is as long again as it was."""

    def another_folds_and_more_arrives() -> None:
        assert store.fold() == 50
        append(impressions(60))

    append(impressions(50))
    late = interrupted(redis_url, "commit_fold", before=another_folds_and_more_arrives)

    assert (late.fold(), late.fold()) == (0, 60)
    assert counted(store) == 110


def test_a_log_that_expired_under_the_fold_does_not_take_new_blocks_with_it(
    store, redis_client, redis_url
):
    """Were the log trimmed by what the fold saw, the block that came since would be lost."""
    redis_client.rpush(LOG.log, BLOCK, BLOCK, BLOCK)
    redis_client.sadd(logs(LOG.shard), LOG.member)

    def expire_and_begin_anew() -> None:
        redis_client.delete(LOG.log)
        redis_client.rpush(LOG.log, BLOCK)

    late = interrupted(redis_url, "commit_fold", before=expire_and_begin_anew)

    assert (late.fold(), late.fold()) == (3, 1)
    assert counted(store) == 4


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["read_batch", "commit_fold", "finish_batch"])
def test_a_folder_that_dies_around_a_step_neither_loses_nor_doubles(
    step, moment, append, store, redis_url, impressions
):
    append(impressions(500))
    with pytest.raises(Died):
        interrupted(redis_url, step, **{moment: die}).fold()
    # What comes now is no part of the batch that some tables have already.
    append(impressions(70))

    store.fold()

    assert counted(store) == 570


def test_a_folder_that_others_have_overtaken_by_far_adds_nothing(
    append, store, redis_url, impressions
):
    """Its batch is older than the last that the tables have."""

    def others_fold_two_batches() -> None:
        assert store.fold() == 50
        append(impressions(60))
        assert store.fold() == 60

    append(impressions(50))
    late = interrupted(redis_url, "commit_fold", before=others_fold_two_batches)

    assert late.fold() == 0
    assert counted(store) == 110


@pytest.mark.parametrize("moment", ["before", "after"])
def test_numbers_of_batches_grow_though_a_mark_is_lost_or_damaged(
    moment, append, store, redis_client, impressions
):
    append(impressions(50))
    store.fold()
    if moment == "before":
        redis_client.delete(LOG.folding)
    else:
        redis_client.setrange(LOG.folding, 0, "9")
    append(impressions(60))

    assert store.fold() == 60

    assert counted(store) == 110
    assert damaged_blocks(store) == (moment == "after")


def test_damaged_numbers_of_a_table_are_set_aside_and_said(
    append, store, redis_client, impressions
):
    append(impressions(50))
    store.fold()
    redis_client.hset(LOG.bins, "from", b"\xff" * 140)
    append(impressions(50))

    assert store.fold() == 50

    assert counted(store) == 100
    assert [found["field"] for found in store.damage.emptied()] == ["b'from'"]


def test_a_folder_that_dies_in_the_middle_of_a_log_leaves_the_rest_to_the_next(
    append, store, redis_url, impressions
):
    """The log stays in its shard's set for as long as it holds blocks."""
    for _ in range(70):
        append(impressions(1))
    dying = InterruptedRedis(redis_url, "commit_fold", after=die)
    with pytest.raises(Died):
        BinsStore(dying, TTL_SECONDS, fold_bytes=1).fold()
    assert 0 < counted(store) < 70

    store.fold()

    assert counted(store) == 70


def test_folders_at_work_at_once_share_the_events_without_loss(
    append, store, redis_url, impressions
):
    for _ in range(20):
        append(impressions(50))
    folded: list[int] = []
    together = Barrier(4)

    def fold() -> None:
        with open_redis(redis_url, timeout_seconds=10.0) as client:
            together.wait()
            folded.append(BinsStore(client, TTL_SECONDS, fold_bytes=1).fold())

    threads = [Thread(target=fold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(folded) == 1000
    assert counted(store) == 1000


@pytest.mark.parametrize("garbage", [b"", b"SBLK", b"JUNK" * 40, BLOCK[:-1]])
def test_a_damaged_block_is_set_aside_and_the_others_are_folded(
    garbage, append, store, redis_client, impressions, caplog
):
    """It must not stop its log for ever, and whoever repairs it needs its bytes."""
    append(impressions(50))
    redis_client.lpush(LOG.log, garbage)
    append(impressions(50))

    with caplog.at_level(logging.ERROR):
        assert store.fold() == 100

    assert counted(store) == 100
    assert damaged_blocks(store) == 1
    assert redis_client.lrange(f"sirocco:{{{LOG.shard:02d}}}:damaged", 0, -1) == [garbage]
    assert f"block of {LOG.log} set aside" in caplog.text


def test_a_log_of_damaged_blocks_only_is_emptied(store, redis_client):
    redis_client.rpush(LOG.log, b"one", b"two")
    redis_client.sadd(logs(LOG.shard), LOG.member)

    assert (store.fold(), damaged_blocks(store)) == (0, 2)

    assert not redis_client.exists(LOG.log)
    assert store.hour("click", HOUR) == BinsTable.empty()


def test_a_fold_sets_damaged_bins_aside_and_says_so(append, store, redis_client, impressions):
    """To fold into an empty table would lose what the damaged one held, in silence."""
    append(impressions(50))
    redis_client.hset(LOG.bins, mapping={"table": b"damaged", "folds": "3"})

    assert store.fold() == 50

    assert redis_client.hget(set_aside(LOG.bins), "table") == b"damaged"
    assert [found["kind"] for found in store.damage.emptied()] == ["bins"]
    assert store.hour("click", HOUR).total().total_count == 50

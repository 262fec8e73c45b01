"""A refit reads the hours that it needs, and the report's window is judged on the way."""

from functools import cache

import numpy as np
import pytest

from app.storage.bins import BinsStore
from app.storage.keys import SHARDS, TargetHour, shard_of
from app.worker.monitoring import RawWindow, TargetScorecards, TopCampaigns
from app.worker.refit import ReadBlocks, StoredHistory
from calibrators import BinsTable
from calibrators.bins.table import History
from evaluation.metrics.calibration import BinnedScorecard

FIRST, BEHIND = 1000, 1006
NAMES = [f"campaign-{number:02}" for number in range(40)]


def hour_table(hour: int, events: int) -> BinsTable:
    rng = np.random.default_rng(hour)
    rows, scores = rng.integers(0, 40 - hour % 3, events), rng.beta(1.0, 20.0, events)
    clicks = (rng.random(events) < scores).astype(float)
    return BinsTable.from_columns(NAMES, rows, scores, np.ones(events), clicks)


@cache
def stored(events: int) -> list[tuple[str, bytes]]:
    """Key and bytes of the bins of each shard and hour."""
    found = []
    for hour in range(FIRST, BEHIND):
        table = hour_table(hour, events)
        for shard in range(SHARDS):
            here = table.select(name for name in NAMES if shard_of(name) == shard)
            place = TargetHour(shard, "click", hour)
            found.append((place.bins, here.to_bytes(place.checksum)))
    return found


@pytest.fixture(params=[500, 200_000], ids=["sparse", "dense"])
def store(redis_client, request) -> BinsStore:
    """Hours of events, few of which share a cell, or enough to sum them in place."""
    for key, table in stored(request.param):
        redis_client.hset(key, "table", table)
    return BinsStore(redis_client, 3600)


def history_of(store: BinsStore, window: RawWindow) -> StoredHistory:
    return StoredHistory(float(BEHIND), ReadBlocks(store.history("click", FIRST, BEHIND), window))


def told(found: TargetScorecards | None):
    return None if found is None else (found.raw.row(), found.top.entries)


def read_for_itself(store: BinsStore, window: RawWindow):
    """The oracle: another reading of the same hours."""
    quality, top = BinnedScorecard(), TopCampaigns(window.count)
    for table in store.window_blocks("click", window.hours.start, window.hours.stop):
        quality.add(table)
        top.add(table)
    return quality.row(), top.entries


@pytest.mark.parametrize(
    "spans", [[range(1002, 1006)], [range(1002, 1006), range(1001, 1005)], [range(990, 1002)]]
)
def test_its_sums_are_those_of_any_history(store, spans):
    history = history_of(store, RawWindow.none())
    listed = History(history.as_of, list(history.blocks))

    for ours, theirs in zip(
        zip(*history.sums(*spans), strict=True), zip(*listed.sums(*spans), strict=True), strict=True
    ):
        assert BinsTable.merge(ours) == BinsTable.merge(theirs)


def test_hours_that_are_not_asked_for_are_not_read(store, redis_client):
    history = history_of(store, RawWindow.none())
    for shard in range(SHARDS):
        redis_client.hset(TargetHour(shard, "click", FIRST).bins, "table", b"damaged")

    newest = BinsTable.merge(history.windows(BEHIND - 1, BEHIND))
    summed = BinsTable.merge(table for (table,) in history.sums(range(BEHIND - 1, BEHIND)))

    assert newest == summed == store.hour("click", BEHIND - 1)


@pytest.mark.parametrize("place", [0, 1])
def test_a_window_that_is_summed_is_judged_on_the_way(store, place):
    spans = [range(1002, 1006), range(1001, 1005)]
    window = RawWindow(spans[place], 5)

    for _ in history_of(store, window).sums(*spans):
        assert window.found is None

    assert told(window.found) == read_for_itself(store, window)


def test_a_window_whose_hours_go_by_is_judged_on_the_way(store):
    window = RawWindow(range(1002, 1005), 5)
    history = history_of(store, window)

    for _ in history.blocks:
        assert window.found is None

    assert told(window.found) == read_for_itself(store, window)


def test_it_is_judged_once_and_only_as_a_whole(store):
    window = RawWindow(range(1002, 1006), 5)
    history = history_of(store, window)
    list(history.sums(range(1003, 1006)))
    next(iter(history.blocks))
    assert window.found is None

    list(history.blocks)
    found = window.found
    list(history.blocks)
    list(history.sums(window.hours))

    assert window.found is found

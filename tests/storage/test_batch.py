"""What one request gathers before it is stored."""

from collections import Counter
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.batch import Cell, EventBatch
from app.storage.blocks import LARGEST_WEIGHT
from app.storage.clicks import OpenClick
from app.storage.event_columns import ANY_SHARD, LONGEST_ID
from app.storage.keys import TargetHour, shard_of
from tests.storage.packing import unpacked

HOUR = 500_000


def rows_of(batch: EventBatch) -> int:
    return sum(len(unpacked(entry.block)) for entry in batch.entries())


def test_events_of_one_log_share_a_block():
    batch = EventBatch()
    for score in (0.1, 0.2, 0.1):
        batch.add("click", HOUR, "a", score, 1.0, 0.0)

    (entry,) = batch.entries()

    assert entry.log == TargetHour(ANY_SHARD, "click", HOUR)
    block = unpacked(entry.block)
    assert block.campaigns == ("a",)
    assert block.rows.tolist() == [0, 0, 0]
    assert block.scores.tolist() == [0.1, 0.2, 0.1]
    assert not entry.ids


def test_events_with_and_without_ids_are_kept_apart():
    """Either every row of a block has an id or none has: the script marks rows by their ids."""
    batch = EventBatch()
    batch.add("click", HOUR, "a", 0.1, 1.0, 0.0)
    batch.add("click", HOUR, "a", 0.2, 1.0, 0.0, "e1")
    batch.add("click", HOUR, "a", 0.3, 1.0, 0.0, "e2")

    entries = list(batch.entries())

    assert [(len(entry.ids), len(unpacked(entry.block))) for entry in entries] == [(0, 1), (2, 2)]
    assert [entry.log.shard for entry in entries] == [ANY_SHARD, shard_of("a")]


def test_an_id_that_repeats_within_the_request_counts_once():
    batch = EventBatch()
    for _ in range(3):
        batch.add("click", HOUR, "a", 0.1, 1.0, 0.0, "e1")

    assert (len(batch), batch.repeats, rows_of(batch)) == (3, 2, 1)


@pytest.mark.parametrize(
    ("target", "hour", "outcome"),
    [("view", HOUR, (1.0, 0.0)), ("click", HOUR + 1, (1.0, 0.0)), ("click", HOUR, (0.0, 1.0))],
    ids=["target", "hour", "click of the impression"],
)
def test_an_id_counts_once_per_target_hour_and_kind(target, hour, outcome):
    batch = EventBatch()
    batch.add("click", HOUR, "a", 0.1, 1.0, 0.0, "e1")
    batch.add(target, hour, "a", 0.1, *outcome, "e1")

    assert (batch.repeats, rows_of(batch)) == (0, 2)


def test_long_ids_are_told_apart_though_only_their_digest_is_stored():
    batch = EventBatch()
    long = "x" * (LONGEST_ID + 1)
    for event_id in ("x" * LONGEST_ID, long, long + "y", long):
        batch.add("click", HOUR, "a", 0.1, 1.0, 0.0, event_id)

    (entry,) = batch.entries()

    assert (batch.repeats, len(entry.ids)) == (1, 3)
    assert all(len(stored) <= 1 + LONGEST_ID for stored in entry.ids)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ((1.7, 1.0, 0.0), r"score = 1\.7: a score must be in \[0, 1\]"),
        ((-0.1, 1.0, 0.0), r"score = -0\.1"),
        ((nan, 1.0, 0.0), "score = nan"),
        ((0.5, -1.0, 0.0), r"count = -1\.0.*both must be in \[0, 1000000\]"),
        ((0.5, nan, 0.0), "count = nan"),
        ((0.5, 1.0, -1.0), r"positive = -1\.0"),
        ((0.5, 1.0, nan), "positive = nan"),
        ((0.5, LARGEST_WEIGHT * 2, 0.0), "count = 2000000"),
        ((0.5, 1.0, LARGEST_WEIGHT * 2), "positive = 2000000"),
    ],
)
def test_a_value_out_of_range_is_refused_and_not_gathered(values, rule):
    batch = EventBatch()

    with pytest.raises(ValueError, match=rule):
        batch.add("click", HOUR, "a", *values)

    assert len(batch) == 0
    assert list(batch.entries()) == []


def test_the_rows_of_clicks_come_last_with_the_numbers_of_their_events():
    """Whatever their cells are; a click that counts in no bins still has its number."""
    batch = EventBatch()
    cell, own = Cell("click", HOUR, 0.5), shard_of("a")
    same = next(str(number) for number in range(99) if shard_of(str(number)) == own)
    other = next(str(number) for number in range(99) if shard_of(str(number)) != own)
    batch.add_click(0, OpenClick("1", "a", 5.0), opens=True)
    batch.add_click(1, OpenClick(other, "b", 5.0), opens=False, cell=cell)
    batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, "e1")
    batch.add_click(2, OpenClick(same, "a", 5.0), opens=False, cell=cell)

    places = {entry.log.shard: entry for entry in batch.entries()}

    entry = places[shard_of("a")]
    assert list(entry.numbers) == [2]
    block = unpacked(entry.block)
    assert (block.campaigns, block.rows.tolist()) == (("a",), [0, 0])
    assert block.scores.tolist() == [0.25, 0.5]
    assert block.counts.tolist() == [1.0, 0.0]
    assert block.positives.tolist() == [0.0, 1.0]
    assert list(places[shard_of(other)].numbers) == [1]
    assert (len(batch), len(batch.click_events)) == (4, 3)


@pytest.mark.parametrize("score", [-0.1, 1.5, nan])
def test_a_click_of_an_impossible_score_is_not_gathered(score):
    batch = EventBatch()

    with pytest.raises(ValueError, match="a score must be in"):
        batch.add_click(0, OpenClick("1", "a", 5.0), opens=True, cell=Cell("click", HOUR, score))

    assert len(batch) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["click", "a:b"]),
            st.integers(HOUR, HOUR + 1),
            st.text(max_size=3),
            st.sampled_from([0.0, 1.0]),
            st.none() | st.sampled_from(["1", "2", "é" * 40]),
        ),
        max_size=30,
    )
)
def test_every_event_but_repeats_lands_in_a_log_and_those_with_ids_in_that_of_their_campaign(
    events,
):
    batch = EventBatch()
    expected: Counter[tuple[TargetHour, str]] = Counter()
    seen = set()
    for target, hour, campaign, count, event_id in events:
        batch.add(target, hour, campaign, 0.5, count, 0.0, event_id)
        shard = ANY_SHARD if event_id is None else shard_of(campaign)
        log = TargetHour(shard, target, hour)
        identity = (log, event_id, count)
        expected[log, campaign] += event_id is None or identity not in seen
        seen.add(identity)

    stored: Counter[tuple[TargetHour, str]] = Counter()
    for entry in batch.entries():
        block = unpacked(entry.block)
        for row in block.rows.tolist():
            stored[entry.log, block.campaigns[row]] += 1

    assert stored == +expected
    assert batch.repeats == len(batch) - stored.total()

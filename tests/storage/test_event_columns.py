"""Events as columns: the same as one by one, and refused as a whole."""

from dataclasses import replace
from math import nan
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.batch import _FEW, Cell, EventBatch
from app.storage.blocks import LARGEST_WEIGHT, NO_TERMS, TERMS, Terms
from app.storage.clicks import OpenClick
from app.storage.event_columns import LONGEST_ID, EventColumns, pack_ids
from app.storage.event_columns import columns_of as fields_of
from app.storage.event_log import Appended
from app.storage.keys import SHARDS, shard_of, shards_of
from tests.storage.conftest import HOUR
from tests.storage.gathered import rows_by_log

Event = tuple[str, int, float, float, str]

campaigns = st.sampled_from(["a", "b", "größe", "日本", "campaign 5"])
ids = st.sampled_from(["1", "2", "3", "é" * 40, "x" * 65, "x" * 66])
events = st.lists(
    st.tuples(campaigns, st.integers(HOUR, HOUR + 2), st.floats(0, 1), st.floats(0, 1), ids),
    max_size=30,
)


def columns_of(events: list[Event], *, with_ids: bool) -> EventColumns:
    # Names that no event has, as where campaigns are interned ids.
    names = sorted({event[0] for event in events} | {"c", "d", "e"})
    return EventColumns(
        names,
        np.array([names.index(event[0]) for event in events], np.intp),
        np.array([event[1] for event in events], np.int64),
        np.array([event[2] for event in events]),
        np.array([event[3] for event in events]),
        [event[4] for event in events] if with_ids else None,
    )


def said(event: Event) -> tuple[Terms | None, dict[str, str]]:
    """Terms, which some have, and fields."""
    campaign, hour, score, *_ = event
    terms = Terms(arm=hour % 2, bid=score) if hour > HOUR else None
    return terms, {"device": campaign, "hour": str(hour)}


@pytest.mark.parametrize("few", [0, _FEW])
@given(events, st.booleans(), st.booleans(), st.lists(campaigns, max_size=4))
def test_columns_are_the_same_as_their_events_one_by_one(few, events, with_ids, with_more, clicked):
    """Of those that share an id the first counts; clicks of the same logs stay with their rows."""
    fast, slow, columns = EventBatch(), EventBatch(), columns_of(events, with_ids=with_ids)
    more = [said(event) for event in events] if with_more else [(None, None)] * len(events)
    if with_more and events:
        terms = np.array([one or NO_TERMS for one, _ in more], TERMS)
        columns = replace(columns, terms=terms, fields=fields_of([each for _, each in more]))
    with patch("app.storage.batch._FEW", few):
        fast.add_columns("click", columns)
    for event, (terms_of_one, fields) in zip(events, more, strict=True):
        campaign, hour, score, positive, event_id = event
        known = event_id if with_ids else None
        slow.add("click", hour, campaign, score, 1.0, positive, known, terms_of_one, fields)
    for batch in (fast, slow):
        for place, campaign in enumerate(clicked):
            click = OpenClick(str(place), campaign, 5.0)
            batch.add_click(place, click, opens=False, cell=Cell("click", HOUR, 0.5))

    assert rows_by_log(fast) == rows_by_log(slow)
    assert (len(fast), fast.repeats) == (len(slow), slow.repeats)
    assert len(list(fast.entries())) == len(list(slow.entries()))


def test_columns_and_single_events_with_ids_may_share_a_log(append, store):
    """Then the store finds the repeats; nothing counts twice."""
    batch = EventBatch()
    for number in range(3):
        batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, f"e{number}")
    same = [("a", HOUR, 0.25, 0.0, f"e{number}") for number in range(1, 6)]
    batch.add_columns("click", columns_of(same, with_ids=True))
    batch.add_click(0, OpenClick("c", "a", 5.0), opens=False, cell=Cell("click", HOUR, 0.25))

    assert append(batch) == Appended(7, 2)

    assert store.fold() == 7
    total = store.hour("click", HOUR).total()
    assert (total.total_count, total.total_positives) == (6, 1)


@pytest.mark.parametrize(
    ("name", "score", "positive"),
    [
        *(("score", impossible, 0.0) for impossible in (-0.1, 1.5, nan)),
        *(("positive", 0.5, impossible) for impossible in (-1.0, nan, 2 * LARGEST_WEIGHT)),
    ],
)
def test_columns_with_an_impossible_value_are_not_gathered(name, score, positive):
    batch = EventBatch()

    with pytest.raises(ValueError, match=f"a {name} must be in"):
        batch.add_columns("click", columns_of([("a", HOUR, score, positive, "1")], with_ids=False))

    assert (len(batch), list(batch.entries())) == (0, [])


@given(st.lists(st.text(max_size=3)))
def test_the_shards_of_names_are_those_of_each_name(names):
    assert shards_of(names).tolist() == [shard_of(name) for name in names]
    assert set(shards_of(names).tolist()) <= set(range(SHARDS))


def test_the_script_reads_ids_of_every_length(redis_client):
    """The bytes of a digest are no text: Redis must take them for what they are."""
    given = [bytes([255 - size]) * size for size in range(1, LONGEST_ID + 2)]

    assert redis_client.eval("return cmsgpack.unpack(ARGV[1])", 0, pack_ids(given)) == given
    assert redis_client.eval("return cmsgpack.unpack(ARGV[1])", 0, pack_ids([])) == []

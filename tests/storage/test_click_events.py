"""Clicks, behaviours and conversions: stored once, or refused as a whole by what is known."""

import pytest

from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks, Refusal, StoreRefusal
from app.storage.conversions import ConversionLog
from app.storage.errors import IdempotencyConflict
from app.storage.event_log import Appended
from tests.storage.clicks import (
    AT,
    CELL,
    RULES,
    append_by,
    behaviour,
    click,
    conversion,
    did,
    feature_kinds,
    of,
    refused,
)
from tests.storage.conftest import HOUR
from tests.storage.contents import contents


@pytest.fixture
def append(redis_url):
    """Appends a batch of the events given, by the rules of these tests."""

    def run(*events, key=(), rules=RULES, **more) -> Appended:
        return append_by(redis_url, rules, of(*events, **more), *key)

    return run


@pytest.fixture
def conversions(redis_client):
    """Reads all conversions that are pending, and leaves them."""
    log = ConversionLog(redis_client)
    return lambda: [one for place in log.pending() for one in log.read(place)[1]]


def opened(clicks: OpenClicks):
    """The one open click, closed."""
    (found,) = clicks.begin_close(1e10, 10)
    return found


def test_a_click_gathers_its_behaviours(append, clicks, redis_client):
    sent = click(features={"age": 3.0, "os": "é"})

    assert append(sent) == Appended(1, 0)
    assert append(did(AT + 5), did(AT + 1, name="carts", value=2.5)) == Appended(2, 0)

    behaviours = [behaviour(AT + 1, "carts", 2.5), behaviour(AT + 5)]
    assert opened(clicks) == click(features={"age": 3.0, "os": "é"}, behaviours=behaviours)
    assert feature_kinds(redis_client) == {"age": "n", "os": "s"}


def test_whatever_is_sent_again_is_a_duplicate_and_changes_nothing(append, redis_client):
    events = [click(), did(AT + 5), did(AT + 6, "other"), conversion(AT + 7, value=2.5)]
    assert append(*events, cell=CELL) == Appended(4, 0)
    stored = contents(redis_client)

    assert append(*events, cell=CELL) == Appended(0, 4)
    assert append(*events, *events, cell=CELL) == Appended(0, 8)

    assert contents(redis_client) == stored


def test_repeats_of_one_request_count_once(append, clicks, conversions):
    events = [click(), did(AT + 5), did(AT + 5, value=9.0), conversion(AT + 7), conversion(AT + 7)]

    assert append(*events, click()) == Appended(3, 3)

    assert opened(clicks).behaviours == [behaviour(AT + 5)]
    assert conversions() == [conversion(AT + 7)]


def test_a_click_counts_once_in_the_bins_too(append, redis_client):
    """In its cell, whatever it is besides; the cell of a repeat does not matter."""
    store = BinsStore(redis_client, 3600)
    assert append(click(), click("2"), click(), cell=CELL) == Appended(2, 1)
    assert append(click(), click("3"), cell=CELL._replace(hour=HOUR + 1)) == Appended(1, 1)

    assert store.fold() == 3
    bins = store.window("click", HOUR, HOUR + 2).bins("a")
    assert (bins.counts.sum(), bins.positives.sum() / 1e9) == (0, 3)


def test_a_click_of_immediate_targets_alone_gathers_nothing(append, clicks, redis_client):
    assert append(click(), cell=CELL, opens=False) == Appended(1, 0)
    assert append(click(), cell=CELL, opens=False) == Appended(0, 1)

    assert append(did(AT + 5)) == refused(Refusal.IMMEDIATE)
    assert append(conversion(AT + 5)) == Appended(1, 0)
    assert clicks.counts()["open"] == 0
    assert feature_kinds(redis_client) == {}
    assert not list(redis_client.scan_iter("*:click:*"))


def test_an_id_belongs_to_the_campaign_of_its_first_click(append, clicks, redis_client):
    """Also within one request, and after the click was closed; nothing counts in bins either."""
    answer = append(click(), click(campaign="b"), cell=CELL)
    assert answer == Appended(1, 0, (StoreRefusal(1, Refusal.REUSED, ""),))

    assert append(click(campaign="b"), cell=CELL) == refused(Refusal.REUSED)
    assert append(click(campaign="b", at=AT + 7200)) == refused(Refusal.REUSED)
    clicks.finish_close(clicks.begin_close(1e10, 10))
    assert append(click(campaign="b", at=AT + 30)) == refused(Refusal.REUSED)
    assert append(click(at=AT + 30)) == Appended(0, 1)

    assert BinsStore(redis_client, 3600).fold() == 1


def test_the_same_id_in_another_hour_is_a_duplicate_while_its_click_is_open(append):
    append(click())

    assert append(click(at=AT + 7200)) == Appended(0, 1)


@pytest.mark.parametrize("event", [did(AT - 1), conversion(AT - 1)])
def test_what_precedes_its_click_is_refused(event, append, redis_client):
    append(click())
    stored = contents(redis_client)

    assert append(event) == refused(Refusal.EARLY, repr(AT))
    assert append(event, click()) == Appended(0, 1, (StoreRefusal(0, Refusal.EARLY, repr(AT)),))
    assert contents(redis_client) == stored


def test_within_a_request_the_click_is_known_wherever_it_stands(append, conversions):
    answer = append(conversion(AT - 1), did(AT - 1), click(), conversion(AT))

    assert answer.accepted == 2
    assert {(event.place, event.reason) for event in answer.refused} == {
        (0, Refusal.EARLY),
        (1, Refusal.EARLY),
    }
    assert conversions() == [conversion(AT)]


def test_the_post_click_window_ends_before_its_last_second(append, clicks):
    append(click())

    assert append(did(AT + 599.75), did(AT)) == Appended(2, 0)
    assert append(did(AT + 600)) == refused(Refusal.AFTERWARDS, repr(AT))
    assert len(opened(clicks).behaviours) == 2


def test_untimely_behaviours_that_waited_are_dropped_and_counted(append, clicks):
    """The same click, whether its behaviours come before or after it."""
    append(did(AT - 1), did(AT - 2), did(AT), did(AT + 600))

    assert append(click()) == Appended(1, 0)

    counts = clicks.counts()
    assert (counts["early_behaviours"], counts["late_behaviours"]) == (2, 1)
    assert opened(clicks).behaviours == [behaviour(AT)]


def test_a_click_that_is_closing_or_closed_gathers_nothing_more(append, clicks, redis_client):
    append(click(), did(AT + 5))
    closing = clicks.begin_close(1e10, 10)

    assert append(did(AT + 6)) == refused(Refusal.CLOSED, repr(AT))
    assert append(did(AT + 5)) == Appended(0, 1)
    clicks.finish_close(closing)
    stored = contents(redis_client)
    both = (StoreRefusal(0, Refusal.CLOSED, ""), StoreRefusal(1, Refusal.CLOSED, ""))
    assert append(did(AT + 6), did(AT + 3000), click()) == Appended(0, 1, both)
    assert contents(redis_client) == stored


def test_conversions_are_taken_after_the_click_was_closed(append, clicks, conversions):
    append(click())
    clicks.finish_close(clicks.begin_close(1e10, 10))

    assert append(conversion(AT + 90_000)) == Appended(1, 0)
    assert conversions() == [conversion(AT + 90_000)]


def test_conversions_of_many_targets_and_hours_are_kept_apart(append, conversions):
    sent = [
        conversion(AT + 7200 * place, str(place % 5), target, value)
        for place in range(20)
        for target, value in (("conversion", None), ("install", float(place)))
    ]

    assert append(*sent) == Appended(40, 0)

    def order(one):
        return one.target, one.occurred_at, one.click_id

    assert sorted(conversions(), key=order) == sorted(sent, key=order)


def test_of_known_and_new_conversions_the_new_are_stored(append, conversions):
    append(conversion(AT), conversion(AT + 2))

    assert append(conversion(AT), conversion(AT + 1), conversion(AT + 2)) == Appended(1, 2)
    assert sorted(one.occurred_at for one in conversions()) == [AT, AT + 1, AT + 2]


KEY = ("key", "print")


def test_a_retry_is_told_again_what_was_refused(append, redis_client):
    events = [click(), did(AT - 1), did(AT + 5), click(campaign="b")]
    refusals = (StoreRefusal(3, Refusal.REUSED, ""), StoreRefusal(1, Refusal.EARLY, repr(AT)))
    assert append(*events, key=KEY) == Appended(2, 0, refusals)
    stored = contents(redis_client)

    assert append(*events, key=KEY) == Appended(0, 2, refusals)
    with pytest.raises(IdempotencyConflict):
        append(*events, key=("key", "other"))

    assert contents(redis_client) == stored


def test_of_a_retry_only_what_is_still_in_it_is_told(append):
    """An event may have become too old in the meantime: its place is told by another."""
    append(click(), did(AT - 1), key=KEY)

    assert append(click(), key=KEY) == Appended(0, 1)


def test_what_nobody_fetches_expires(append, redis_client):
    """Clicks after their own life, what was seen of them after that of bins; conversions never."""
    append(click(), did(AT, "2"), conversion(AT))
    lives = {key.decode(): redis_client.ttl(key) for key in redis_client.scan_iter()}

    def life(part):
        return [ttl for key, ttl in lives.items() if f":{part}:" in key]

    assert life("click") == pytest.approx([RULES.life_seconds] * 2, abs=105)
    assert life("conversions") == [-1]
    assert life("clicked") + life("converted") == pytest.approx([3600] * 2, abs=5)

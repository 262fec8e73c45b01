"""The limits of what clicks carry and of what waits for them."""

import pytest

from app.storage.clicks import MOST_BEHAVIOURS, Refusal, StoreRefusal
from app.storage.event_log import Appended
from tests.storage.clicks import AT, CELL, RULES, append_by, click, did, feature_kinds, of, refused
from tests.storage.contents import contents


@pytest.fixture
def append(redis_url):
    """Appends the events given, by the rules of these tests."""
    return lambda *events, **more: append_by(redis_url, RULES, of(*events, **more))


def test_a_feature_keeps_its_kind(append, clicks, redis_client):
    append(click(features={"age": 3.0}))
    stored = contents(redis_client)

    answer = append(click("2", features={"os": "x", "age": "3"}), cell=CELL)

    assert answer == refused(Refusal.CHANGED_FEATURE, "age")
    assert contents(redis_client) == stored, "nothing of the click, nor its new feature"
    assert append(click("2", features={"os": "x", "age": 4.0})) == Appended(1, 0)


def test_of_two_kinds_in_one_request_the_first_stays(append, redis_client):
    answer = append(click(features={"age": "x"}), click("2", features={"age": 3.0}))

    assert answer == Appended(1, 0, (StoreRefusal(1, Refusal.CHANGED_FEATURE, "age"),))
    assert feature_kinds(redis_client) == {"age": "s"}


def test_the_names_of_features_are_bounded_over_all_clicks(append, redis_client):
    assert append(click(features={"a": 1.0, "b": 1.0})) == Appended(1, 0)

    answer = append(click("2", features={"c": 1.0, "d": 1.0}), click("3", features={"c": 1.0}))

    assert answer == Appended(1, 0, (StoreRefusal(0, Refusal.MANY_FEATURES, "d"),))
    assert append(click("4", features={"d": 1.0})) == refused(Refusal.MANY_FEATURES, "d")
    assert sorted(feature_kinds(redis_client)) == ["a", "b", "c"]


def test_the_names_of_one_request_are_bounded_together(append, redis_client):
    answer = append(click(features={"a": 1.0, "b": 1.0}), click("2", features={"c": 1.0, "d": 1.0}))

    assert answer == Appended(1, 0, (StoreRefusal(1, Refusal.MANY_FEATURES, "d"),))
    assert sorted(feature_kinds(redis_client)) == ["a", "b"]


def test_as_many_clicks_are_waited_for_as_may_be(append, clicks):
    assert append(did(AT, "1"), did(AT, "2"), did(AT + 1, "2")) == Appended(3, 0)

    assert append(did(AT, "3"), did(AT + 1, "1")) == Appended(
        1, 0, (StoreRefusal(0, Refusal.FULL, ""),)
    )
    assert append(click("3"), did(AT, "3"), click("1")) == Appended(3, 0)
    assert append(did(AT, "4"), did(AT, "5")) == Appended(
        1, 0, (StoreRefusal(1, Refusal.FULL, ""),)
    )
    assert clicks.counts()["waiting"] == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_click_has_at_most_so_many_behaviours(known, append, clicks):
    append(*[click()] * known)
    at_most = [did(AT + number / 8) for number in range(MOST_BEHAVIOURS)]

    assert append(*at_most) == Appended(MOST_BEHAVIOURS, 0)

    assert append(did(AT + 500)) == refused(Refusal.MANY_BEHAVIOURS)
    assert append(at_most[7]) == Appended(0, 1)
    append(click())
    assert len(clicks.begin_close(1e10, 10)[0].behaviours) == MOST_BEHAVIOURS

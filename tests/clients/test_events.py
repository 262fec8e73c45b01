"""Each method of a buffer makes an event that the service's own schema accepts."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sirocco_client import BadInput
from sirocco_client.events import EventMethods

from app.events.schema import Behaviour, Click, Conversion, Event, Impression, TargetOutcome

probabilities = st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
first, last = datetime(2000, 1, 1), datetime(2099, 12, 31)
moments = st.floats(1e9, 4e9) | st.datetimes(first, last, timezones=st.just(UTC))
amounts = st.floats(0, 1e300)
prices = st.floats(0, 1e6)


class Kept(EventMethods):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def put(self, line: bytes) -> bool:
        self.lines.append(line)
        return True

    @property
    def only(self) -> Any:
        (line,) = self.lines
        return msgspec.json.decode(line, type=Event)


def seconds(at: float | datetime) -> float:
    return at.timestamp() if isinstance(at, datetime) else at


@given(texts, probabilities, moments, st.none() | texts, st.none() | prices)
def test_impressions(campaign, score, at, name, bid):
    """With or without what is optional."""
    kept = Kept()
    assert kept.impression(campaign, {"click": score}, occurred_at=at, id=name, bid=bid)

    expected = Impression(campaign, seconds(at), {"click": score}, id=name, bid=bid)
    assert kept.only == expected


@given(texts, texts, probabilities, moments, st.none() | st.dictionaries(texts, texts | amounts))
def test_clicks(click_id, campaign, score, at, features):
    """Features are numbers and strings."""
    kept = Kept()
    scores = {"conversion": score}
    kept.click(click_id, campaign, scores, impression_at=at, occurred_at=at, features=features)

    when = seconds(at)
    assert kept.only == Click(click_id, campaign, when, when, scores, features)


@given(texts, texts, amounts, moments)
def test_behaviours(click_id, name, value, at):
    """Numbers of at least 0."""
    kept = Kept()
    kept.behaviour(click_id, name, value, occurred_at=at)

    assert kept.only == Behaviour(click_id, seconds(at), name, value)


@given(texts, st.none() | texts, moments, st.none() | amounts)
def test_conversions(click_id, target, at, value):
    """Target and value may be left out."""
    kept = Kept()
    kept.conversion(click_id, target=target, occurred_at=at, value=value)

    assert kept.only == Conversion(click_id, seconds(at), target, value)


@given(texts, texts, probabilities, probabilities, moments)
def test_outcomes(campaign, target, score, outcome, at):
    """Expectations too."""
    kept = Kept()
    kept.outcome(campaign, target, score, outcome, occurred_at=at)

    assert kept.only == TargetOutcome(campaign, target, seconds(at), outcome, score)


def test_an_outcome_of_a_product_has_a_score_of_each_factor():
    kept, scores = Kept(), {"click": 0.5, "view": 0.25}
    kept.outcome("a", "seen", scores, 1.0, occurred_at=1e9)

    assert kept.only == TargetOutcome("a", "seen", 1e9, 1.0, scores=scores)
    with pytest.raises(BadInput, match=r"scores.view = 2: must be"):
        kept.outcome("a", "seen", {"view": 2}, 1.0)


def test_unit_arm_and_money_travel_with_what_counts():
    terms: Any = {"unit": "u", "arm": "raw", "bid": 2.0, "cost": 1.5, "value": 1e6}
    kept, scores = Kept(), {"click": 0.5}
    kept.impression("a", scores, **terms)
    kept.click("1", "a", scores, impression_at=1e9, **terms)
    kept.outcome("a", "click", 0.5, 1.0, **terms)
    for line in kept.lines:
        event: Any = msgspec.json.decode(line, type=Event)
        assert {name: getattr(event, name) for name in terms} == terms
    for bad in ({"unit": ""}, {"unit": "ü" * 129}, {"arm": "b"}, {"cost": 1e6 + 1}):
        with pytest.raises(BadInput):
            kept.impression("a", scores, **bad)
    with pytest.raises(TypeError, match="'bdi' is nothing"):
        kept.impression("a", scores, bdi=1.0)


def test_without_a_time_it_is_now():
    """By the clock of this machine."""
    kept, before = Kept(), datetime.now(UTC).timestamp()
    kept.conversion("c")

    assert before <= kept.only.occurred_at <= datetime.now(UTC).timestamp()


def test_times_of_other_zones_and_numbers_of_numpy_are_welcome():
    """They mean the same."""
    at = datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    kept = Kept()
    kept.outcome("a", "click", np.float32(0.5), np.int64(1), occurred_at=at)

    assert kept.only == TargetOutcome("a", "click", 1772366400.0, 1.0, 0.5)


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("outcome", ("a", "click", 1.7, 1), "score = 1.7: must be a number in [0, 1]"),
        ("outcome", ("a", "click", math.nan, 1), "score = nan: must be a number in [0, 1]"),
        ("outcome", ("a", "click", "0.5", 1), "score = '0.5': must be a number in [0, 1]"),
        ("outcome", ("a", "click", None, 1), "score: must be a number in [0, 1]"),
        ("outcome", ("a", "click", 0.5, True), "outcome = True: must be a number in [0, 1]"),
        ("outcome", ("", "click", 0.5, 1), "campaign = '': must be a string that is not empty"),
        ("outcome", (7, "click", 0.5, 1), "campaign = 7: must be a string that is not empty"),
        ("outcome", ("\ud800", "click", 0.5, 1), "outcome: must be text that UTF-8 can hold"),
        ("impression", ("a", {"click": -1}), "scores.click = -1: must be a number in [0, 1]"),
        ("behaviour", ("c", "views", -1), "value = -1: must be a finite number of at least 0"),
        ("behaviour", ("c", "v", math.inf), "value = inf: must be a finite number of at least 0"),
    ],
)
def test_what_the_service_would_refuse_is_told_at_once(method, arguments, said):
    """Field, value and rule; nothing is taken."""
    kept = Kept()
    with pytest.raises(BadInput) as bad:
        getattr(kept, method)(*arguments)

    assert str(bad.value) == said
    assert kept.lines == []


def test_ids_and_targets_that_are_no_text_are_told_at_once():
    """The service refuses each such event, long after it was taken."""
    for bad in (81, ""):
        with pytest.raises(BadInput, match=f"id = {bad!r}: must be a string that is not empty"):
            Kept().impression("a", {"click": 0.5}, id=bad)
        with pytest.raises(BadInput, match=f"target = {bad!r}: must be a string that is not empty"):
            Kept().conversion("c", target=bad)


@pytest.mark.parametrize(
    "at", [datetime(2026, 3, 1), math.nan, math.inf, "now", True, 1772366400000, 0]
)
def test_times_that_are_none_are_refused(at):
    """A naive datetime could mean any zone; milliseconds are none of our years."""
    with pytest.raises(BadInput, match="occurred_at"):
        Kept().conversion("c", occurred_at=at)


@pytest.mark.parametrize("value", [math.nan, math.inf, None, [1]])
def test_features_are_numbers_or_strings(value):
    """And finite."""
    with pytest.raises(BadInput, match=r"features\.x"):
        Kept().click("c", "a", {"click": 0.5}, impression_at=1e9, features={"x": value})

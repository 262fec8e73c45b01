"""What `POST /v1/events` refuses: each event by its index, field, value and rule."""

import json
import time

import pytest

from tests.api.events import behaviour, click, conversion, impression, lines, outcome
from tests.api.problems import broken_rule, problem

PATH = "/v1/events"
NOW = time.time()
SCORE_RULE = "must be a number in [0, 1]"
TIME_RULE = "must be a time: RFC 3339 with a time zone, or epoch seconds"
TYPE_RULE = "must be impression, click, behaviour, conversion or outcome"
FEATURES_RULE = "must be an object of names, and numbers or strings"
YEAR_RULE = "must be in the years 2000 to 2099"
MONEY_RULE = "must be a finite number of at least 0; of an event with a score at most 1000000"
PRICE_RULE = "must be a number from 0 to 1000000"
NOT_IMMEDIATE = "outcomes are taken for the immediate targets: click"
NOT_DELAYED = "conversions are taken for the delayed targets: conversion"
BEHAVIOURS = (
    "unknown behaviour; known are session_seconds, page_views, add_to_cart, favorites, purchases"
)
TARGETS = "unknown target; known are click, conversion"
NO_CELL = "scores.click: is required: it says which cell to count in"
FEATURE_RULE = "must be a number or a string"
NAME_RULE = "the name of a feature must have 1 to 64 characters"


def without(event, field):
    return {name: value for name, value in event.items() if name != field}


def refused(refusing, body):
    """The error of the one event of a refused request."""
    content = problem(refusing.http.post(PATH, content=body), 422, "broken-events")
    (rejected,) = content["rejected"]
    assert rejected["index"] == 0
    assert content["detail"] == f"none of the 1 events is valid; the first: {rejected['error']}"
    return rejected["error"]


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "view", "click_id": "1"}, f'type = "view": {TYPE_RULE}'),
        ({"type": "x - at `$.foo"}, f'type = "x - at `$.foo": {TYPE_RULE}'),
        ({"type": 7}, f"type = 7: {TYPE_RULE}"),
        ({"campaign": "a"}, "type: is required"),
        (without(impression(NOW), "campaign"), "campaign: is required"),
        (without(impression(NOW), "scores"), "scores: is required"),
        (without(click(NOW, "1"), "click_id"), "click_id: is required"),
        (without(click(NOW, "1"), "impression_at"), "impression_at: is required"),
        (without(outcome(NOW), "outcome"), "outcome: is required"),
        (impression(NOW, campaign=7), "campaign = 7: must be a string"),
        (impression(NOW, campaign=""), 'campaign = "": must have 1 to 256 bytes of UTF-8'),
        (impression(NOW, id=7), "id = 7: must be a string"),
        (impression(NOW, id=""), 'id = "": must have 1 to 256 characters'),
        (impression(NOW, score=1.7), f"scores.click = 1.7: {SCORE_RULE}"),
        (impression(NOW, score="0.5"), f'scores.click = "0.5": {SCORE_RULE}'),
        (impression(NOW, score=True), f"scores.click = true: {SCORE_RULE}"),
        (impression(NOW, score=float("nan")), f"scores.click = NaN: {SCORE_RULE}"),
        (impression(NOW, score=float("inf")), f"scores.click = Infinity: {SCORE_RULE}"),
        (impression(NOW, score=10**400), f"scores.click = {'1' + '0' * 60}...: {SCORE_RULE}"),
        (impression(NOW, score=10**30), f"scores.click = 1e+30: {SCORE_RULE}"),
        (impression(NOW, scores={"view": 0.5}), f"scores.view: {TARGETS}"),
        (impression(NOW, scores={"click": 0.5, "view": 0.5}), f"scores.view: {TARGETS}"),
        (impression(NOW, scores={"conversion": 0.5}), NO_CELL),
        (impression(NOW, scores={}), NO_CELL),
        (impression(NOW, scores=0.5), "scores = 0.5: must be an object of target names and scores"),
        (impression(NOW, bid=-1), f"bid = -1: {PRICE_RULE}"),
        (impression(NOW, cost=float("inf")), f"cost = Infinity: {PRICE_RULE}"),
        (impression(NOW, bid=1000001), f"bid = 1000001: {PRICE_RULE}"),
        (impression(NOW, value=1000001), f"value = 1000001: {MONEY_RULE}"),
        (impression(NOW, unit=""), 'unit = "": must have 1 to 256 bytes of UTF-8'),
        (impression(NOW, arm="blue"), 'arm = "blue": must be champion, challenger or raw'),
        (impression(NOW, speed=9), "speed: unknown field"),
        (click(NOW, "1", features={"a": 1, "b": [2]}), f"features.b = [2]: {FEATURE_RULE}"),
        (click(NOW, "1", features=7), f"features = 7: {FEATURES_RULE}"),
        (click(NOW, "1", features={"a": float("inf")}), f"features.a = Infinity: {FEATURE_RULE}"),
        (click(NOW, "1", features={"a" * 65: 1}), f'features = "{"a" * 60}...: {NAME_RULE}'),
        (click(NOW, "1", scores={}), NO_CELL),
        (without(behaviour(NOW, "1"), "value"), "value: is required"),
        (without(behaviour(NOW, "1"), "name"), "name: is required"),
        (without(behaviour(NOW, "1"), "click_id"), "click_id: is required"),
        (behaviour(NOW, ""), 'click_id = "": must have 1 to 256 characters'),
        (behaviour(NOW, "1", name="speed"), f'name = "speed": {BEHAVIOURS}'),
        (behaviour(NOW, "1", name=7), "name = 7: must be a string"),
        (behaviour(NOW, "1", value=-1), f"value = -1: {MONEY_RULE}"),
        (behaviour(NOW, "1", value=float("nan")), f"value = NaN: {MONEY_RULE}"),
        (behaviour(NOW, "1", value=float("inf")), f"value = Infinity: {MONEY_RULE}"),
        (behaviour(NOW, "1", value="3"), f'value = "3": {MONEY_RULE}'),
        (behaviour(NOW, "1", value=True), f"value = true: {MONEY_RULE}"),
        (conversion(NOW, "1", value=-0.5), f"value = -0.5: {MONEY_RULE}"),
        (conversion(NOW, "1", value=10**400), f"value = {'1' + '0' * 60}...: {MONEY_RULE}"),
        (conversion(NOW, "1", target="click"), f'target = "click": {NOT_DELAYED}'),
        (conversion(NOW, "1", target="view"), f'target = "view": {NOT_DELAYED}'),
        (conversion(NOW, "1", campaign="a"), "campaign: unknown field"),
        (without(conversion(NOW, "1"), "occurred_at"), "occurred_at: is required"),
        (outcome(NOW, outcome=2), f"outcome = 2: {SCORE_RULE}"),
        (outcome(NOW, score=-0.1), f"score = -0.1: {SCORE_RULE}"),
        (outcome(NOW, target="conversion"), f'target = "conversion": {NOT_IMMEDIATE}'),
        (outcome(NOW, target="view"), f'target = "view": {NOT_IMMEDIATE}'),
        ("impression", 'event = "impression": expected object, got string'),
        (None, "event = null: expected object, got null"),
    ],
)
def test_every_broken_rule_is_named(refusing, event, error, as_lines):
    body = lines(event) if as_lines else json.dumps([event])

    assert refused(refusing, body) == error


@pytest.mark.parametrize("field", ["occurred_at", "impression_at"])
@pytest.mark.parametrize(
    ("at", "rule", "shown"),
    [
        ("9999-12-31T23:59:59Z", YEAR_RULE, '"9999-12-31T23:59:59+00:00"'),
        ("9999-12-31T23:59:59-12:00", YEAR_RULE, '"9999-12-31T23:59:59-12:00"'),
        ("0001-01-01T00:00:00+12:00", YEAR_RULE, '"0001-01-01T00:00:00+12:00"'),
        ("1999-12-31T23:59:59Z", YEAR_RULE, '"1999-12-31T23:59:59+00:00"'),
        (253402300799, YEAR_RULE, "253402300799.0"),
        (4102444800, YEAR_RULE, "4102444800.0"),
        (1_767_225_600_123.25, YEAR_RULE, "1767225600123.25"),
        (-1, YEAR_RULE, "-1.0"),
        (1e300, YEAR_RULE, "1e+300"),
        ("2026-01-01T00:00:00", TIME_RULE, '"2026-01-01T00:00:00"'),
        ("2026-13-01T00:00:00Z", TIME_RULE, '"2026-13-01T00:00:00Z"'),
        ("yesterday", TIME_RULE, '"yesterday"'),
        ("1767225600", TIME_RULE, '"1767225600"'),
        (True, TIME_RULE, "true"),
        (None, TIME_RULE, "null"),
        (float("nan"), TIME_RULE, "NaN"),
        (10**400, TIME_RULE, "1" + "0" * 60 + "..."),
    ],
)
def test_times_must_be_times_of_this_century(refusing, field, at, rule, shown):
    event = click(NOW, "1", **{field: at})

    assert refused(refusing, json.dumps([event])) == f"{field} = {shown}: {rule}"


@pytest.mark.parametrize("field", ["campaign", "id", "type", "target"])
def test_a_text_of_10_kilobytes_is_refused_and_not_echoed(refusing, field):
    event = outcome(NOW) if field == "target" else impression(NOW)

    error = refused(refusing, json.dumps([{**event, field: "x" * 10_000}]))

    assert error.startswith(f'{field} = "{"x" * 60}...: ')
    assert len(error) < 200


def test_names_that_look_like_the_decoders_messages_are_only_names(refusing):
    field, target = "x - at `$.scores[5]", "click - at `$[...]"

    assert (
        refused(refusing, json.dumps([impression(NOW, **{field: 1})])) == f"{field}: unknown field"
    )
    assert refused(refusing, json.dumps([impression(NOW, scores={target: 2})])) == (
        f"scores.{target} = 2: {SCORE_RULE}"
    )


@pytest.mark.parametrize("body", [b"", b"[]", b" \n ", b"[ ]"])
def test_a_request_has_at_least_one_event(refusing, body):
    broken_rule(refusing.http.post(PATH, content=body), "events", "must be at least one", None)


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize("event", [outcome(NOW), 7])
def test_a_request_has_at_most_max_events(refusing, event, as_lines):
    """Good or broken: the bound comes first."""
    events = [event] * 50_001
    body = lines(*events) if as_lines else json.dumps(events)

    content = problem(refusing.http.post(PATH, content=body), 413, "too-many-events")

    assert content["limit"] == 50_000
    assert content["detail"] == "events = over 50000: one request takes at most 50000"


@pytest.mark.parametrize(("key", "shown"), [("", '""'), ("k" * 256, '"' + "k" * 60 + "...")])
def test_an_idempotency_key_has_1_to_255_characters(refusing, key, shown):
    answer = refusing.http.post(PATH, json=[impression(NOW)], headers={"Idempotency-Key": key})

    broken_rule(answer, "Idempotency-Key", "must have 1 to 255 characters", shown)


def test_a_request_has_one_idempotency_key(refusing):
    """Which of two makes a retry safe, nobody could say."""
    keys = [("Idempotency-Key", key) for key in ("a", "b")]
    answer = refusing.http.post(PATH, json=[impression(NOW)], headers=keys)

    broken_rule(answer, "Idempotency-Key", "must be one key, not several", None)


def test_a_request_of_broken_events_names_each_of_them(refusing):
    answer = refusing.http.post(PATH, json=[1, "two", outcome(NOW, score=3)])

    content = problem(answer, 422, "broken-events")

    assert [rejected["index"] for rejected in content["rejected"]] == [0, 1, 2]
    assert content["detail"].startswith("none of the 3 events is valid; the first: event = 1: ")

"""What `/docs` says of the hot bodies and what the routes take are the same."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app.api.application import create_app
from app.api.hot_path import JSON, NDJSON
from app.api.scoring.requests import CalibrateRequest
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.events.schema import Event
from app.settings import Settings

HOT = ("/v1/calibrate", "/v1/events")
DOCUMENT = create_app(Settings(), "unix:///nowhere").framework.openapi()

GOOD_EVENTS = [
    {"type": "impression", "campaign": "a", "occurred_at": 1767225600, "scores": {"click": 0.01}},
    {"type": "impression", "campaign": "a", "occurred_at": 1.5, "scores": {}, "id": None, "bid": 2},
    {
        "type": "click",
        "click_id": "1",
        "campaign": "a",
        "occurred_at": 2,
        "impression_at": 1,
        "scores": {"click": 1, "conversion": 0.5},
        "features": {"age": 3, "place": "top"},
    },
    {"type": "behaviour", "click_id": "1", "occurred_at": 3, "name": "page_views", "value": 2},
    {"type": "conversion", "click_id": "1", "occurred_at": "2026-01-01T00:00:00Z"},
    {"type": "conversion", "click_id": "1", "occurred_at": 4, "target": "sale", "value": 9.5},
    {
        "type": "outcome",
        "campaign": "a",
        "target": "click",
        "occurred_at": 1,
        "score": 0.2,
        "outcome": 1,
    },
]
GOOD_REQUESTS = [
    {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 1]},
    {"target": "click", "campaign": "a", "scores": [0]},
    {"rows": [{"target": "click", "campaign": "a", "score": 0.5}]},
    {},
]
WRONG = st.sampled_from([None, True, -1, 1.5, "x", [], {}, ["a"], {"a": 2}, [0.5, 2]])


def schema_of(path: str, media_type: str) -> dict[str, Any]:
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    found: dict[str, Any] = content[media_type]["schema"]
    return found


def takes(kind: Any, value: Any) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=kind)
    except msgspec.ValidationError:
        return False
    return True


def conforms(schema: dict[str, Any], value: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


@st.composite
def changed(draw: st.DrawFn, values: list[dict[str, Any]]) -> dict[str, Any]:
    """One of the values with a field replaced, left out or added."""
    value = dict(draw(st.sampled_from(values)))
    field = draw(st.sampled_from([*value, "stranger"]))
    if draw(st.booleans()):
        value.pop(field, None)
    else:
        value[field] = draw(WRONG)
    return value


def test_every_documented_body_is_a_schema_without_references():
    """What they would lead to is not in the document."""
    operations = [one for path in DOCUMENT["paths"].values() for one in path.values()]
    bodies = [one["requestBody"]["content"] for one in operations if "requestBody" in one]

    assert len(bodies) > 10
    for content in bodies:
        Draft202012Validator.check_schema(content[JSON]["schema"])
        assert "$ref" not in str(content)
    of_path = {
        path: DOCUMENT["paths"][path]["post"]["requestBody"]["content"].keys() for path in HOT
    }
    assert of_path == {HOT[0]: {JSON, COLUMNS}, HOT[1]: {JSON, NDJSON, COLUMNS}}


@pytest.mark.parametrize("path", HOT)
def test_the_documented_example_conforms_and_is_taken(shared_service, path):
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"][JSON]

    assert conforms(content["schema"], content["example"])
    assert shared_service.http.post(path, json=content["example"]).status_code == 200


@pytest.mark.parametrize("event", GOOD_EVENTS, ids=lambda event: event["type"])
def test_good_events_conform_and_are_taken(event):
    assert takes(Event, event)
    assert conforms(schema_of("/v1/events", NDJSON), event)
    assert conforms(schema_of("/v1/events", JSON), [event])


@pytest.mark.parametrize("request_body", GOOD_REQUESTS)
def test_good_requests_conform_and_are_taken(request_body):
    assert takes(CalibrateRequest, request_body)
    assert conforms(schema_of("/v1/calibrate", JSON), request_body)


@given(event=changed(GOOD_EVENTS))
def test_an_event_conforms_if_and_only_if_it_is_taken(event):
    if event.get("occurred_at") != "x" and event.get("impression_at") != "x":
        # The form of a time is a `format`, which a validator need not look at.
        assert conforms(schema_of("/v1/events", NDJSON), event) == takes(Event, event)


@given(request_body=changed(GOOD_REQUESTS))
def test_a_request_conforms_if_and_only_if_it_is_taken(request_body):
    schema = schema_of("/v1/calibrate", JSON)

    assert conforms(schema, request_body) == takes(CalibrateRequest, request_body)

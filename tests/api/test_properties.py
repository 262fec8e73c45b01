"""For every body that anyone may send: no fault of ours, and every answer is right."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.admin import RetrainRequest
from app.api.scoring.requests import CalibrateRequest, Row
from app.events.schema import Click, Impression, TargetOutcome
from tests.api.problems import LONGEST_ANSWER, MEDIA_TYPE

# One service for all examples of a test: none of them leaves anything behind that others see.
MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SCORES = st.floats(0, 1) | st.sampled_from([0, 1, 0.2, 5e-324, 1 - 2**-53])
NAMES = st.sampled_from(["shoes", "hats", "unseen"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64
)
TARGETS = st.sampled_from(["click", "conversion"])

# Words of the contract, so that many bodies are nearly right.
KINDS = (CalibrateRequest, Row, Impression, Click, TargetOutcome, RetrainRequest)
FIELDS = sorted({field for kind in KINDS for field in kind.__struct_fields__})
WORDS = st.sampled_from([*FIELDS, "type", "impression", "click", "outcome", "behaviour"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | WORDS
    | st.text()
    | st.sampled_from(["2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", " - at `$.rows[0]", "`"])
)
BODIES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=5)
    ),
    max_leaves=12,
)
PATHS = st.sampled_from(["/v1/calibrate", "/v1/events", "/v1/admin/retrain"])


def check_no_fault(answer):
    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.json()["detail"]


@MANY
@given(path=PATHS, body=BODIES, bare=st.booleans())
def test_no_json_is_a_fault_of_ours(shared_service, path, body, bare):
    """NaN, Infinity, huge integers and half surrogates included."""
    wrapped = body if bare else [body]

    check_no_fault(shared_service.http.post(path, content=json.dumps(wrapped)))


@MANY
@given(path=PATHS, body=st.binary(max_size=200))
def test_no_bytes_are_a_fault_of_ours(shared_service, path, body):
    answer = shared_service.http.post(path, content=body)

    check_no_fault(answer)
    assert len(answer.content) <= 2 * LONGEST_ANSWER + 200 * len(body.splitlines())


EVENT_FIELDS = {
    "type": st.sampled_from(["impression", "click", "outcome"]),
    "campaign": NAMES | LEAVES,
    "occurred_at": st.floats(0, 2e9) | LEAVES,
    "impression_at": st.floats(0, 2e9) | LEAVES,
    "scores": st.dictionaries(TARGETS | st.text(), SCORES | LEAVES, max_size=2),
    "click_id": st.text() | LEAVES,
    "target": TARGETS | LEAVES,
    "score": SCORES | LEAVES,
    "outcome": SCORES | LEAVES,
}


@MANY
@given(events=st.lists(st.fixed_dictionaries({}, optional=EVENT_FIELDS), min_size=1, max_size=5))
def test_every_event_is_accepted_or_rejected_by_its_index(shared_service, events):
    answer = shared_service.http.post("/v1/events", content=json.dumps(events))

    check_no_fault(answer)
    if answer.status_code == 400:
        return
    content = answer.json()
    indices = [rejected["index"] for rejected in content["rejected"]]
    taken = content.get("accepted", 0) + content.get("duplicates", 0)
    assert indices == sorted(set(indices))
    assert taken + len(indices) == len(events)
    assert all(rejected["error"] for rejected in content["rejected"])

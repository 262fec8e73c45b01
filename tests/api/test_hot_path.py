"""The hot path and the plain one agree on every request, to the last bit and in every error."""

import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api.plain_path import plain_answer
from tests.api.problems import problem

PATH = "/v1/calibrate"
# One service for all examples of a test: none of them leaves anything behind that others see.
MANY = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SCORES = st.floats(0, 1) | st.sampled_from([0, 1, 0.2, 5e-324, 1 - 2**-53, -0.0])
NAMES = st.sampled_from(["shoes", "hats", "unseen"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20
)
TARGETS = st.sampled_from(["click", "conversion"])
BAD_SCORES = st.sampled_from(
    [1.5, -1e-9, float("nan"), float("inf"), True, "0.5", None, [], 10**400]
)
BAD_NAMES = st.sampled_from(["", "x" * 257, "é" * 129, 7, None])
BAD_TARGETS = st.sampled_from(["clicks", "", 0])
# 80 is beyond the number of scores that are looked up one by one.
LENGTHS = st.integers(0, 5) | st.integers(0, 80)


def mostly(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 40).flatmap(lambda number: good if number else bad)


def lists(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return LENGTHS.flatmap(lambda length: st.lists(items, min_size=length, max_size=length))


@st.composite
def column_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Columns, nearly always right; sometimes a column is missing, or a stranger beside them."""
    scores = draw(lists(mostly(SCORES, BAD_SCORES)))
    names = st.lists(mostly(NAMES, BAD_NAMES), min_size=len(scores), max_size=len(scores))
    columns = {"target": draw(mostly(TARGETS, BAD_TARGETS)), "scores": scores}
    columns |= draw(
        st.fixed_dictionaries({"campaigns": mostly(names, lists(NAMES))})
        | st.fixed_dictionaries({"campaign": mostly(NAMES, BAD_NAMES)})
    )
    left_out = draw(mostly(st.just(""), st.sampled_from(sorted(columns))))
    strangers = draw(
        mostly(st.just({}), st.sampled_from([{"campaign": "a"}, {"rows": []}, {"x": 1}]))
    )
    return {name: value for name, value in columns.items() if name != left_out} | strangers


ROWS = st.fixed_dictionaries(
    {
        "target": mostly(TARGETS, BAD_TARGETS),
        "campaign": mostly(NAMES, BAD_NAMES),
        "score": mostly(SCORES, BAD_SCORES),
    }
)
BEHIND = st.sampled_from([b"", b" " * 1024])
"""The names of a body of 1 KiB and more are left in JSON."""
REQUESTS = column_requests() | st.fixed_dictionaries({"rows": lists(ROWS)})


def check_equal(service, body: bytes) -> None:
    """The service's answer is the plain one."""
    atlases = service.app.state.resources.refresher.current.atlases
    expected = plain_answer(body, atlases, service.settings)

    answer = service.http.post(PATH, content=body)

    if isinstance(expected, list):
        assert answer.json()["probabilities"] == expected
        assert [p.hex() for p in answer.json()["probabilities"]] == [p.hex() for p in expected]
    elif expected == {"body"}:
        problem(answer, 400, "malformed-json")
    else:
        assert problem(answer, 422, "broken-rule")["field"] in expected


@MANY
@given(request=REQUESTS, is_ascii=st.booleans(), behind=BEHIND)
@example(request={"target": "click", "campaign": "hats", "scores": []}, is_ascii=True, behind=b"")
@example(request={"target": "clicks", "campaigns": [], "scores": [0]}, is_ascii=True, behind=b"")
@example(request={"rows": []}, is_ascii=True, behind=b"")
@example(request={}, is_ascii=True, behind=b"")
def test_every_request_is_answered_as_the_plain_path_answers_it(
    service, version, request, is_ascii, behind
):
    check_equal(service, json.dumps(request, ensure_ascii=is_ascii).encode() + behind)


@MANY
@given(
    request=REQUESTS,
    place=st.integers(0, 400),
    byte=st.binary(min_size=1, max_size=1),
    behind=BEHIND,
)
def test_a_request_with_one_wrong_byte_is_too(service, version, request, place, byte, behind):
    """Broken JSON, broken UTF-8, other names and numbers."""
    body = json.dumps(request).encode()
    place %= len(body)

    check_equal(service, body[:place] + byte + body[place + 1 :] + behind)

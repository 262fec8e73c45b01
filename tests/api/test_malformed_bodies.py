"""Bodies that are no JSON at all: a small 400 on every route that reads one."""

import pytest

from tests.api.problems import problem

ROUTES = ["/v1/calibrate", "/v1/events", "/v1/admin/retrain"]
DEEP = 100_000


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * DEEP, "nested too deeply"),
        (b"[" * DEEP + b"]" * DEEP, "nested too deeply"),
        (b"[" + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"]", "nested too deeply"),
        (b"[" * 300 + b"]" * 300, "nested too deeply"),
        (b'["\xff"]', "not UTF-8: invalid start byte at byte 2"),
        (b'["\xed\xa0\x80"]', "not UTF-8"),
        (b'["\\ud800"]', "half a surrogate"),
        (b'[{"\\udfff": 1}]', "half a surrogate"),
        (b"[1,]", "not JSON"),
        (b"[1", "not JSON"),
        (b"[] []", "not JSON: Extra data at character 3"),
        (b"[\x00]", "not JSON"),
        (b"[01]", "not JSON"),
        (b"['a']", "not JSON"),
    ],
)
def test_what_is_no_json_is_a_small_problem(refusing, path, body, reason):
    answer = refusing.http.post(path, content=body)

    assert reason in problem(answer, 400, "malformed-json")["detail"]


@pytest.mark.parametrize("path", ["/v1/calibrate", "/v1/admin/retrain"])
def test_an_object_nested_too_deeply_is_a_small_problem(refusing, path):
    body = b'{"a":' * DEEP + b"1" + b"}" * DEEP

    answer = refusing.http.post(path, content=body)

    assert "nested too deeply" in problem(answer, 400, "malformed-json")["detail"]


def test_an_empty_body_asks_nothing(refusing):
    answer = refusing.http.post("/v1/calibrate", content=b"")

    assert "not JSON" in problem(answer, 400, "malformed-json")["detail"]

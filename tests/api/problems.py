"""What every refusal looks like."""

from typing import Any

import httpx

from app.api.contract import PROBLEM

MEDIA_TYPE = "application/problem+json"
LONGEST_ANSWER = 1024


def problem(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    """The problem in the answer, which must be small, complete and of that kind."""
    assert answer.headers["content-type"] == MEDIA_TYPE, answer.text[:LONGEST_ANSWER]
    content: dict[str, Any] = answer.json()
    assert (answer.status_code, content["type"]) == (status, f"urn:sirocco:problem:{slug}"), content
    assert content["status"] == status
    assert content["title"]
    assert content["detail"]
    assert content.keys() <= PROBLEM["properties"].keys()
    assert len(answer.content) <= LONGEST_ANSWER
    return content


def broken_rule(answer: httpx.Response, field: str, rule: str, value: str | None) -> None:
    """The answer is a 422 that names exactly this field, a rule with these words, and the value."""
    content = problem(answer, 422, "broken-rule")
    assert content["field"] == field
    assert rule in content["rule"]
    assert content["value"] == value
    assert content["detail"].startswith(field if value is None else f"{field} = {value}: ")

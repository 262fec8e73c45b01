"""The OpenAPI document is true, and so is the page that shows it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.access.key_store import KeyStore
from app.access.keys import Scope
from app.api.application import create_app
from app.api.contract import ANSWERS, declared
from app.api.problems import NAMESPACE
from app.settings import Settings
from tests.api.problems import problem

DOCUMENT = create_app(Settings(), "unix:///nowhere").framework.openapi()
DOCS = Path(__file__).parents[2] / "docs" / "http.md"
# Rules that a schema has no words for, such as which targets there are, are 422 too.
CONFIGURATION = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 422, 429, "5xx"]
"""
METHODS = frozenset({"PATCH", "GET", "POST", "PUT", "OPTIONS", "DELETE"})
CASES = 10_000
EXAMPLES = 225


def declared_problems() -> dict[str, set[int]]:
    """The statuses of each type of problem in the document."""
    found: dict[str, set[int]] = {}
    for _, _, operation in declared(DOCUMENT):
        for code, answer in operation["responses"].items():
            schema = answer["content"].get("application/problem+json") if "content" in answer else 0
            types = schema["schema"]["allOf"][1]["properties"]["type"]["enum"] if schema else []
            for name in types:
                found.setdefault(name.removeprefix(NAMESPACE), set()).add(int(code))
    return found


def test_every_route_says_what_it_answers():
    routes = {(method, path) for method, path, _ in declared(DOCUMENT)}

    assert routes == set(ANSWERS)
    assert "HTTPValidationError" not in DOCUMENT["components"]["schemas"]


def test_problems_are_those_of_the_documentation():
    """But for that of the methods that no operation has."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", DOCS.read_text(encoding="utf-8"), re.M)
    named = {name: {int(code)} for name, code in rows if int(code) >= 400}

    assert {**declared_problems(), "method-not-allowed": {405}} == named


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/calibrate", "POST"),
        ("/v1/events", "POST"),
        ("/v1/admin/overrides/click/a", "DELETE, PUT"),
        ("/v1/campaigns", "GET"),
        ("/healthz", "GET"),
        ("/docs", "GET"),
    ],
)
def test_another_method_is_told_those_that_there_are(refusing, path, allowed):
    """Also on the hot routes, which the framework knows nothing of."""
    for method in METHODS.difference(allowed.split(", ")):
        answer = refusing.http.request(method, path)

        problem(answer, 405, "method-not-allowed")
        assert answer.headers["Allow"] == allowed


@pytest.mark.parametrize(
    ("method", "path"), [pair[:2] for pair in declared(DOCUMENT) if pair[1].startswith("/v1/")]
)
def test_a_parameter_that_a_route_does_not_know_is_refused(refusing, method, path):
    """Such as one that is misspelt: it would be as if it had not been given."""
    answer = refusing.http.request(method, re.sub("{[^}]*}", "a", path), params={"limitt": "5"})

    content = problem(answer, 422, "broken-rule")
    assert (content["field"], content["value"]) == ("limitt", None)
    assert content["rule"].startswith("unknown parameter; ")
    assert "422" in DOCUMENT["paths"][path][method]["responses"]


@pytest.mark.parametrize("query", ["explain=true&explain=false", "explain=true&explain=true"])
def test_a_parameter_stands_once(refusing, query):
    """Either could be meant."""
    content = problem(refusing.http.post(f"/v1/calibrate?{query}"), 422, "broken-rule")

    assert (content["field"], content["value"]) == ("explain", None)
    assert content["rule"] == "must stand once"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/", "/page/page.js"])
def test_probes_scrapers_and_browsers_may_add_parameters(shared_service, path):
    assert shared_service.http.get(path, params={"x": "5"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/maps/click/%ff", "/v1/campaigns/a%C3", "/v1/campaigns?search=%ED%A0%80"]
)
def test_an_address_is_utf_8(refusing, path):
    """It would be read as another campaign, of U+FFFD."""
    content = problem(refusing.http.get(path), 422, "broken-rule")

    assert (content["field"], content["rule"]) == ("path", "must be UTF-8, percent-encoded")


def test_a_slash_too_many_is_no_redirect(shared_service):
    """It would lead to whatever the caller's Host says."""
    assert shared_service.http.get("/healthz/").status_code == 404


def test_the_page_asks_nobody_else(shared_service):
    answer = shared_service.http.get("/docs")

    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "<script" not in answer.text
    assert re.findall(r"(?:src|href)=\"?([^#\"> ]+)", answer.text) == ["/openapi.json"]
    assert all(f"<code>{path}</code>" in answer.text for path in DOCUMENT["paths"])
    named = set(re.findall(r'href="#(\w+)"', answer.text))
    assert named <= set(re.findall(r'id="(\w+)"', answer.text))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_schemathesis_finds_nothing(service, tmp_path):
    """All its checks, in more than ten thousand requests that are drawn from the document, with a
    key that may do all."""
    _, token = KeyStore(service.store).make(frozenset(Scope))
    service.know_keys()
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run"]
    command += ["--header", f"Authorization: Bearer {token}", "--checks", "all"]
    command += ["--max-examples", str(EXAMPLES), "--seed", "1", "--continue-on-failure"]
    # Nobody comes back for what it would keep, and to find that took half of its time.
    command += ["--generation-database", "none", "--no-color", f"{service.url}/openapi.json"]

    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert found.returncode == 0, found.stdout
    cases = re.search(r"(\d+) generated", found.stdout)
    assert cases is not None, found.stdout
    assert int(cases[1]) >= CASES, found.stdout

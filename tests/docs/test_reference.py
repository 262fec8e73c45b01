"""What the pages list must be what there is: settings, endpoints, problem types, metrics."""

import ast
import re
from collections.abc import Iterator

import msgspec
import pytest
from fastapi import FastAPI
from prometheus_client import generate_latest

from app.api.application import create_app
from app.datasets.clicks import MOST_DAYS
from app.events.schema import Behaviour, Click, Conversion, Event
from app.settings import Settings, variable_of
from tests.docs.pages import ROOT, code_blocks, table_below, text_of
from tests.docs.settings_table import rows

# Of statuses that the framework raises itself.
_SLUGS_OF_STATUSES = {"not-found", "method-not-allowed"}


@pytest.fixture(scope="module")
def application() -> FastAPI:
    """An application that connects to nothing before it is started."""
    return create_app(Settings(), "unix:///nowhere").framework


def test_every_setting_is_in_the_table():
    """A failure shows the row to paste into docs/configuration.md."""
    header = "| variable | default | allowed | meaning |"
    lines = text_of("docs/configuration.md").splitlines()
    start = lines.index(header) + 2

    assert lines[start : lines.index("", start)] == rows()


def test_every_setting_has_its_symptom():
    """docs/tuning.md names all that there are, and no other."""
    named = set(re.findall(r"SIROCCO_[A-Z_]+", text_of("docs/tuning.md")))

    assert named == {variable_of(name) for name in Settings.model_fields}


def test_every_endpoint_is_in_the_table(application):
    """The table, and the routes of the application, by method and path."""
    table = table_below(text_of("docs/http.md"), "| endpoint | what it does | answers |")
    documented = {cells[0].strip("`") for cells in table}

    declared = {
        f"{method.upper()} {path}"
        for path, methods in application.openapi()["paths"].items()
        for method in methods
    }

    assert documented == declared | {"GET /", "GET /docs", "GET /openapi.json"}


def test_every_problem_type_is_in_the_table():
    """The slugs of the table, and those that the API's code raises."""
    table = table_below(text_of("docs/http.md"), "| type | status | when |")

    raised = {
        slug for path in (ROOT / "app/api").rglob("*.py") for slug in _slugs(path.read_text())
    }

    assert {cells[0].strip("`") for cells in table} == raised | _SLUGS_OF_STATUSES


def _slugs(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Problem", "_worded"):
            slug = node.args[1]
            if isinstance(slug, ast.Constant):
                yield slug.value


def test_every_metric_is_in_the_table(application):
    """Names and types of the table, and those that a scrape says."""
    table = table_below(text_of("docs/operations.md"), "| metric | type | labels | meaning |")

    scraped = generate_latest(application.state.resources.metrics.registry).decode()

    lines = (line.split() for line in scraped.splitlines() if line.startswith("# TYPE sirocco_"))
    assert {(cells[0].strip("`"), cells[1]) for cells in table} == {
        (name, kind) for _, _, name, kind in lines
    }


def test_every_event_shown_is_an_event():
    """Whoever copies an example from docs/http.md sends a valid event."""
    shown = [block for block in code_blocks(text_of("docs/http.md"), "json") if '"type"' in block]
    events = [block for block in shown if "urn:sirocco:problem" not in block]

    kinds = {type(msgspec.json.decode(event, type=Event)) for event in events}

    assert len(kinds) == len(events) == 5


def test_the_delayed_page_has_the_longest_delay_of_a_click_log():
    shown = " ".join(text_of("docs/delayed-conversions.md").split())
    assert f"more than {MOST_DAYS:,} days after its click is refused" in shown


def test_every_event_of_the_delayed_page_is_an_event():
    """Clicks, behaviours and conversions of docs/delayed-conversions.md can be sent as shown."""
    shown = code_blocks(text_of("docs/delayed-conversions.md"), "json")

    events = [msgspec.json.decode(block, type=Event) for block in shown]

    assert {type(event) for event in events} == {Click, Behaviour, Conversion}

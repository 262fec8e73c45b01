"""Logs that carry fields: read, cut into hours, and sent with events and with scores."""

from pathlib import Path
from typing import Any

import pytest

from app.cli.serving.client import ServiceClient
from app.cli.serving.playback import Playback, impressions_and_clicks, outcomes
from app.cli.serving.replay import ClickMessages
from app.datasets.clicks import ClickColumns, read_click_log
from app.datasets.impressions import LogColumns, read_log
from app.errors import CommandError
from app.settings import Settings
from evaluation import EventTable
from tests.api.conftest import new_redis
from tests.api.running_service import serving

FIELDS = ("device", "site")
ROWS = """time,campaign,score,outcome,device,site
2026-01-01T00:10:00Z,a,0.1,0,ios,7
2026-01-01T01:10:00Z,b,0.2,1,,7
2026-01-01T01:20:00Z,a,0.3,0,android,
"""
SAID: list[dict[str, str]] = [{"device": "ios", "site": "7"}, {"site": "7"}, {"device": "android"}]


def log_of(folder: Path, text: str) -> Path:
    path = folder / "log.csv"
    path.write_text(text)
    return path


def said(messages: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [message.get("fields", {}) for message in messages]


def test_fields_of_a_log_go_with_its_events_and_its_scores(tmp_path):
    """Those that are not known are left out: the service takes no empty ones."""
    events = read_log(log_of(tmp_path, ROWS), LogColumns(fields=FIELDS))
    again = EventTable.concatenate(
        [events.select(events.hours == hour) for hour in (events.hours.min(),)]
    )

    settings = Settings(port=0, fields=FIELDS)
    with (
        new_redis() as server,
        serving(settings, server.url) as service,
        ServiceClient(service.url) as client,
    ):
        playback = Playback(client, "click", outcomes, batch=2)
        assert playback.calibrate(events).tolist() == [0.1, 0.2, 0.3]

    assert said(outcomes(events, "click")) == SAID
    assert said(impressions_and_clicks(events, "click")) == [*SAID, SAID[1]]
    assert said(outcomes(again, "click")) == SAID[:1]


def test_a_log_without_fields_says_nothing_of_them(tmp_path):
    events = read_log(log_of(tmp_path, ROWS), LogColumns())

    assert events.fields is None
    assert not any("fields" in message for message in outcomes(events, "click"))


@pytest.mark.parametrize(
    ("text", "fields", "rule"),
    [
        (ROWS, ("colour",), r"no column 'colour': name the fields column with --fields"),
        (ROWS.replace("ios", "x" * 257), FIELDS, r"row 1.*has 256 bytes at most"),
    ],
)
def test_what_is_no_field_is_named(tmp_path, text, fields, rule):
    with pytest.raises(CommandError, match=rule):
        read_log(log_of(tmp_path, text), LogColumns(fields=fields))


def test_fields_of_a_click_log_are_in_the_order_of_its_clicks(tmp_path):
    lines = ROWS.replace("outcome", "converted_at").replace(",0,", ",,").replace(",1,", ",,")
    head, *rows = lines.splitlines()
    path = log_of(tmp_path, "\n".join([head, *reversed(rows)]) + "\n")
    file = read_click_log(path, ClickColumns(fields=FIELDS))
    first = file.stream.clicks.clicked_at[0]
    messages = ClickMessages(file.stream, "conversion", file.fields)
    clicks = [*messages.between(first, first + 7200)]

    assert said(clicks) == SAID


def test_versions_of_the_model_are_read_and_sent_with_events(tmp_path):
    log = log_of(tmp_path, ROWS)
    events = read_log(log, LogColumns(model_version="device"))

    assert events.campaigns == ("a\x1eandroid", "a\x1eios", "b")
    assert events.without_versions().campaigns == ("a", "b")
    sent = [(m["campaign"], m.get("model_version")) for m in outcomes(events, "click")]
    assert sent == [("a", "ios"), ("b", None), ("a", "android")]


def test_a_version_that_cannot_be_is_named_with_its_row(tmp_path):
    log = log_of(tmp_path, ROWS.replace("android", "x" * 65))
    with pytest.raises(CommandError, match=r"row 3.*device.*must have 1 to 64 bytes"):
        read_log(log, LogColumns(model_version="device"))

"""A log for machines: every line that a whole service writes is JSON, and none shows too much."""

import logging
import os
import re
import signal
import subprocess
import sys

import httpx
import orjson
import pytest

from app.log_lines import FIELDS, JsonLines, TextLines
from tests.command_line.conftest import SECONDS
from tests.command_line.test_up import children, post_outcomes, up, wait_until
from tests.loopback import LOOPBACK

KEY = "a-bootstrap-key-of-the-test-0123456789"
HEADERS = {"authorization": f"Bearer {KEY}", "x-request-id": "deploy-7"}
TRACE = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-00"}
SCORE = 0.123456789012
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_every_line_of_a_service_with_traffic_is_json(started, environment, redis_url, tmp_path):
    environment |= {
        "SIROCCO_LOG_FORMAT": "json",
        "SIROCCO_REDIS_URL": redis_url,
        "SIROCCO_DELAYED_TARGETS": "",
    }
    process, url = up(started, tmp_path / "data")
    score = {"target": "click", "campaign": "a", "scores": [SCORE]}
    post_outcomes(url)
    with httpx.Client(base_url=url, headers=HEADERS | TRACE, **LOOPBACK) as http:
        assert http.post("/v1/calibrate", json=score).status_code == 200
        http.post("/v1/calibrate", content=b"no JSON")
        job = http.post("/v1/admin/retrain").json()["id"]
        wait_until(
            lambda: http.get(f"/v1/admin/jobs/{job}").json()["status"] == "done", "no refit ended"
        )
    kill_the_worker(process)
    process.send_signal(signal.SIGTERM)
    written = process.communicate(timeout=SECONDS)[1]

    lines = [orjson.loads(line) for line in written.splitlines()]
    wanted = {"time", "level", "logger", "message"}
    assert all(wanted <= line.keys() <= wanted | {*FIELDS, "exception"} for line in lines)
    assert all(TIME.fullmatch(line["time"]) for line in lines)
    assert any("it starts again" in line["message"] for line in lines)
    # The worker may have refitted before by itself.
    published = [line for line in lines if line["message"].startswith("published")]
    assert [line["seconds"] > 0 for line in published if line.get("job") == job] == [True]
    asked = next(line for line in lines if line.get("request_id"))
    assert (asked["request_id"], asked["trace_id"]) == ("deploy-7", "ab" * 16)
    assert str(SCORE) not in written
    assert KEY not in written


def kill_the_worker(process) -> None:
    """The parent says so, and starts another."""
    worker = children(process)["worker"]
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: children(process).get("worker") not in (None, worker), "it stays away")


LOGGED = """
import logging, sys
from app.log_lines import log_to_stderr
from app.settings import Settings
log_to_stderr(Settings(log_level=sys.argv[1]))
for name in ("app.worker", "a library"):
    for level in ("debug", "info", "warning", "error"):
        logging.getLogger(name).log(getattr(logging, level.upper()), f"{name}: {level}")
"""


@pytest.mark.parametrize(("level", "ours", "of_libraries"), [("debug", 4, 2), ("error", 1, 1)])
def test_what_is_below_the_level_is_not_logged(level, ours, of_libraries):
    """Of libraries never what is below a warning: it may show more than is for a log."""
    command = [sys.executable, "-c", LOGGED, level]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    assert (said.count("app.worker: "), said.count("a library: ")) == (2 * ours, 2 * of_libraries)


def test_a_line_of_text_says_which_zone_its_time_is_of_and_stays_one():
    record = logging.makeLogRecord({"created": 86_400.0, "msecs": 5.0, "msg": "a\n\x1b[31mb"})
    shown = TextLines("%(asctime)s %(message)s").format(record)

    assert shown == r"1970-01-02 00:00:00.005Z a\x0a\x1b[31mb"


def test_a_name_that_is_no_utf_8_is_logged_all_the_same():
    name = os.fsdecode(b"/data/\xff")
    record = logging.LogRecord("app", logging.INFO, "", 0, "left out %s", (name,), None)

    assert orjson.loads(JsonLines().format(record))["message"] == r"left out /data/\udcff"

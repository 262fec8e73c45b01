"""`sirocco demo`: the first thing people run."""

import re
import signal
import socket
import sys

import httpx
import orjson
import pytest

from app.cli.serving.demo import wanted_port_or_another
from app.cli.serving.settings import free_port, is_free
from tests.command_line.conftest import SECONDS
from tests.loopback import LOOPBACK

SMALL = ("--campaigns", "3", "--hours", "4", "--window", "2h", "--impressions", "1000")
START = "2026-03-02T12:00:00Z"


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels give it to others")
def test_a_free_port_goes_to_nobody_else_before_somebody_listens():
    port = free_port("127.0.0.1")

    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    assert is_free("127.0.0.1", port)


@pytest.mark.slow
def test_the_demo_compares_and_stays_until_ctrl_c(tmp_path, started, environment):
    port = free_port("127.0.0.1")
    environment["SIROCCO_PORT"] = str(port)
    process = started("demo", *SMALL, "--start", START, "--stay", "--json")
    assert process.stderr is not None
    said = ""
    while "/v1/campaigns" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line

    addresses = re.findall(r"http://127\.0\.0\.1:\d+/\S*", said)
    answers = [httpx.get(address, **LOOPBACK) for address in addresses]
    process.send_signal(signal.SIGINT)
    printed, last_words = process.communicate(timeout=SECONDS)

    assert [answer.status_code for answer in answers] == [200, 200, 200, 200]
    assert {answer.url.port for answer in answers} == {port}
    paths = [answer.url.path for answer in answers]
    assert paths == ["/", "/docs", "/metrics", "/v1/campaigns"]
    assert "sirocco_pcoc" in answers[2].text
    rows = orjson.loads(printed)["rows"]
    assert list(rows) == ["raw", "pooled", "truth"]
    assert rows["raw"]["n"] == rows["truth"]["n"] > 0
    assert rows["truth"]["log_loss"] < rows["raw"]["log_loss"]
    assert (tmp_path / "reliability.png").exists()
    assert last_words == "the demo has ended\n"
    assert process.returncode == 0


def test_a_demo_that_is_cut_short_has_not_succeeded(called, monkeypatch):
    """Ctrl-C before the table is printed is no end that a script may take for one."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.serving.demo.private_service", interrupted)

    assert called("demo", *SMALL, "--no-picture").returncode == 130


def test_a_demo_shorter_than_its_window_is_refused(refused):
    assert "give more than 6" in refused("demo", "--hours", "6")


TURN = "2027-01-01T00:30:00Z"
# Of 26 hours those of a day are evaluated.
DAY = pytest.param("2026-11-23T10:30:00Z", ("--hours", "26"), marks=pytest.mark.slow)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("start", "longer"), [(TURN, ()), DAY])
def test_it_runs_whenever_it_starts(answered, start, longer):
    """At every hour of a day and at the turn of a year, which is one of a month: its traffic, and
    so each map, is another one at another hour."""
    rows = answered("demo", *SMALL, *longer, "--start", start, "--no-picture")["rows"]

    assert rows["pooled"]["n"] == rows["truth"]["n"] > 0
    assert rows["truth"]["log_loss"] < rows["raw"]["log_loss"]


def test_a_port_that_is_taken_is_said(monkeypatch, capsys):
    monkeypatch.setattr("app.cli.serving.demo.is_free", lambda host, port: False)

    port = wanted_port_or_another(8081)

    assert port != 8081
    assert capsys.readouterr().err == f"port 8081 is taken: the service listens on {port}\n"

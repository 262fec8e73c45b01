"""The rules of supervision, on a process of the test's own."""

import os
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from app.cli.serving.processes import Child, Supervision
from app.cli.serving.whole_service import _await_ready
from app.errors import BAD_INPUT, FAILED, CommandError


@dataclass
class Ending:
    """A process that ends at once, each time with the next code; None is for ever."""

    codes: list[int | None]
    name: str = "test"
    last_output: str = ""
    events: list[str] = field(default_factory=list)
    exit_code: int | None = None

    def start(self) -> None:
        self.events.append(f"start {self.name}")
        self.exit_code = self.codes.pop(0)

    def stop(self) -> None:
        self.events.append(f"stop {self.name}")


def test_processes_are_stopped_in_reverse_order():
    events: list[str] = []
    with Supervision() as supervision:
        supervision.add(Ending([None], "first", events=events))
        supervision.add(Ending([None], "second", events=events))

    assert events == ["start first", "start second", "stop second", "stop first"]


def test_a_process_that_does_not_start_takes_the_others_down():
    first, second = Ending([None], "first"), Ending([], "second")

    def run_both() -> None:
        with Supervision() as supervision:
            supervision.add(first)
            supervision.add(second)

    with pytest.raises(IndexError):
        run_both()
    assert first.events == ["start first", "stop first"]


def test_pauses_double_while_a_process_keeps_dying(capsys):
    """Also where it comes to be refused: what was refused later may be allowed again."""
    with Supervision() as supervision:
        process = supervision.add(Ending([1, BAD_INPUT, None]))
        while process.codes:
            supervision.look()

    assert process.events == [*["start test"] * 3, "stop test"]
    assert capsys.readouterr().err.splitlines() == [
        "the test process ended with code 1; it starts again in 0.5 s",
        "the test process ended with code 2; it starts again in 1 s",
    ]


@pytest.mark.parametrize("begins", [True, False])
def test_a_process_that_is_refused_at_the_start_ends_all(begins):
    with Supervision() as supervision:
        supervision.add(Ending([BAD_INPUT]))
        with pytest.raises(CommandError, match="the test process ended with code 2") as ended:
            supervision.begin(lambda: False) if begins else supervision.watch()

    assert ended.value.exit_code == BAD_INPUT


def test_a_process_that_is_killed_at_the_start_is_started_again():
    with Supervision() as supervision:
        process = supervision.add(Ending([-9, 1, None]))
        supervision.begin(lambda: process.exit_code is None)

    assert process.events == [*["start test"] * 3, "stop test"]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "expected"), [(1, FAILED), (BAD_INPUT, BAD_INPUT)])
def test_a_process_that_ends_at_the_start_is_quoted(code, expected):
    with Supervision() as supervision:
        supervision.add(Ending([None]))
        supervision.check()
        supervision.add(Ending([code], last_output="no room"))
        with pytest.raises(CommandError, match=r":\nno room$") as ended:
            supervision.check()

    assert ended.value.exit_code == expected


def test_a_process_that_was_replaced_is_not_started_again():
    """Nor stopped: whoever replaced it does that; its successor is looked after instead."""
    with Supervision() as supervision:
        old = supervision.add(Ending([1], "old"))
        new = Ending([BAD_INPUT], "new")
        new.start()

        supervision.replace(old, new)
        with pytest.raises(CommandError, match="the new process ended with code 2"):
            supervision.look()

    assert (old.events, new.events) == (["start old"], ["start new", "stop new"])


@pytest.mark.parametrize("nice", [False, True])
def test_a_child_that_nice_has_a_lower_priority_than_we_have(nice):
    child = Child("help", ("--help",), {}, nice=nice)
    child.start()
    try:
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert child.process_id is not None
        found = os.getpriority(os.PRIO_PROCESS, child.process_id)
        assert (found > ours) is (nice and ours < 19)
    finally:
        child.stop()


class ComesUp(BaseHTTPRequestHandler):
    """Not ready for the first so many times that it is asked."""

    left = 0

    def do_GET(self) -> None:
        self.send_response(503 if type(self).left > 0 else 200)
        type(self).left -= 1
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_service_that_takes_long_is_waited_for(monkeypatch, capsys):
    """On a slow machine, with all processes running; to end would not make it ready sooner."""
    monkeypatch.setattr("app.cli.serving.whole_service._TELL_SECONDS", 0.25)
    monkeypatch.setattr(ComesUp, "left", 8)
    with HTTPServer(("127.0.0.1", 0), ComesUp) as server, Supervision() as supervision:
        Thread(target=server.serve_forever, daemon=True).start()
        supervision.add(Ending([None]))
        url = f"http://127.0.0.1:{server.server_port}"

        _await_ready(url, supervision)
        server.shutdown()

    assert ComesUp.left < 0
    assert f"{url} is not ready after" in capsys.readouterr().err

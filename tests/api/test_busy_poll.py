"""Looking for requests without a sleep, for some time after each."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread

import httpx
import pytest

from app.api.server.busy_poll import BusyPoll, Polled
from app.api.server.server import server_of
from app.settings import Settings
from calibrators import Atlas
from tests.api.running_service import eventually, serving

SECONDS = 2.0
QUESTION = {"target": "click", "campaign": "a", "scores": [0.25]}


@dataclass
class Loop:
    """What an event loop would call next, and its clock."""

    now: float = 100.0
    answered: float = 7.0
    polled: Polled = field(default_factory=Polled)
    next: list[Callable[[], None]] = field(default_factory=list)

    def call_soon(self, what: Callable[[], None]) -> None:
        self.next.append(what)

    def turn(self) -> None:
        """Once around."""
        now, self.next = self.next, []
        for each in now:
            each()

    @property
    def sleeps(self) -> bool:
        return not self.next


def polling(loop: Loop, seconds: float = SECONDS) -> BusyPoll:
    return BusyPoll(seconds, lambda: loop.answered, loop.polled, lambda: loop.now, loop.call_soon)


def test_a_loop_without_requests_sleeps() -> None:
    """Requests of before its start are none that came."""
    loop = Loop()
    polling(loop).look()
    assert loop.sleeps


def test_a_request_keeps_the_loop_awake_for_its_time() -> None:
    """And not longer."""
    loop = Loop()
    poll = polling(loop)

    loop.answered += 0.1
    poll.look()
    loop.now += SECONDS - 0.01
    loop.turn()
    assert not loop.sleeps

    loop.now += 0.01
    loop.turn()
    assert loop.sleeps


def test_every_request_begins_the_time_anew() -> None:
    """Under steady traffic the loop never sleeps."""
    loop = Loop()
    poll = polling(loop)
    for _ in range(5):
        loop.answered += 0.1
        loop.now += SECONDS - 0.01
        poll.look()
        loop.turn()
        assert not loop.sleeps


def test_looks_while_awake_change_nothing() -> None:
    """One call is enough to keep a loop awake; more would crowd out the requests."""
    loop = Loop()
    poll = polling(loop)
    loop.answered += 0.1
    for _ in range(3):
        poll.look()
        loop.turn()
    assert len(loop.next) == 1


def test_it_begins_again_after_a_pause() -> None:
    """With the first look after the next request."""
    loop = Loop()
    poll = polling(loop)
    loop.answered += 0.1
    poll.look()
    loop.now += SECONDS
    loop.turn()
    poll.look()
    assert loop.sleeps

    loop.answered += 0.1
    poll.look()
    assert not loop.sleeps


def test_with_no_time_at_all_the_loop_always_sleeps() -> None:
    """The default."""
    loop = Loop()
    poll = polling(loop, 0.0)
    loop.answered += 0.1
    poll.look()
    assert loop.sleeps


def test_turns_that_find_nothing_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """By how short they are: whatever there is to do takes longer than to see that there is not."""
    used = iter([5.0, 5.0, 5.000004, 5.000010, 5.00006])
    monkeypatch.setattr("app.api.server.busy_poll.thread_time", lambda: next(used))
    loop = Loop()
    poll = polling(loop)

    loop.answered += 0.1
    poll.look()
    for _ in range(3):
        loop.turn()

    assert loop.polled.seconds == pytest.approx(0.000010, rel=1e-6)


def busy_settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"busy_poll_seconds": 60.0})


def test_a_server_stays_awake_after_a_request(settings: Settings, redis_url: str) -> None:
    """Its thread works on with nothing to answer, and ends when it is told to."""
    server = server_of(busy_settings(settings), redis_url)
    thread = Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        clock = time.pthread_getcpuclockid(thread.ident or 0)
        port = server.servers[0].sockets[0].getsockname()[1]
        assert httpx.post(f"http://127.0.0.1:{port}/v1/calibrate", json=QUESTION).is_success
        begun = time.clock_gettime(clock)
        eventually(lambda: time.clock_gettime(clock) > begun + 0.5)
    finally:
        server.should_exit = True
        thread.join()


def test_a_version_is_taken_up_while_the_server_stays_awake(
    settings: Settings, redis_url: str, atlas: Atlas
) -> None:
    """The thread that reads it has its turn."""
    with serving(busy_settings(settings), redis_url) as service:
        assert service.http.post("/v1/calibrate", json=QUESTION).json()["version"] == "none"
        version = service.publish({"click": atlas})
        answer = service.http.post("/v1/calibrate", json=QUESTION).json()
    assert answer["version"] == version

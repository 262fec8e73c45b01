"""The pace of long work beside the requests."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time

import pytest

from app.api.snapshot import Pace, seconds_of_others
from tests.api.running_service import eventually

PIECE = 0.001


@dataclass
class Core:
    """A core of which others need a share, and get it whenever we sleep; nothing piles up."""

    share: float
    now: float = 0.0
    others: float = 0.0
    slept: float = 0.0
    most: float = 0.0

    def seconds_of_others(self) -> float:
        return self.others

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        self.most = max(self.most, seconds)
        self.others += self.share * seconds

    def work(self) -> None:
        """A piece of ours, during which their work waits."""
        self.now += PIECE
        self.others += self.share * PIECE


def share_of_work(core: Core, pieces: int = 300) -> float:
    """What share of the time goes to our own work."""
    pace = Pace(core.seconds_of_others, core.sleep, core.clock)
    for _ in range(pieces):
        core.work()
        pace()
    return pieces * PIECE / (pieces * PIECE + core.slept)


@pytest.mark.parametrize("share", [0.4, 0.5, 0.75])
def test_work_takes_what_the_others_leave(share):
    """Of a core that is not all in use, long work gets the rest."""
    assert share_of_work(Core(share)) == pytest.approx(1 - share, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_work_does_not_wait_for_the_little_that_others_do(share):
    """A process with few requests takes up a new version at once."""
    core = Core(share)
    assert share_of_work(core) == 1.0
    assert core.slept == 0.0


def test_work_goes_on_where_all_of_the_core_is_needed():
    """A pause has a bound: a version is taken up under any load."""
    core = Core(1.0)
    assert share_of_work(core) > 0.04
    assert core.most <= 20 * PIECE


def test_only_other_threads_count():
    """What a thread works itself is no reason for it to wait."""

    def counted(work: Callable[[], None]) -> float:
        before = seconds_of_others()
        work()
        return seconds_of_others() - before

    def in_a_thread() -> None:
        thread = threading.Thread(target=_spin)
        thread.start()
        thread.join()

    # Threads of other tests' services may work meanwhile.
    eventually(lambda: counted(_spin) < 0.04)
    assert counted(in_a_thread) >= 0.04


def _spin() -> None:
    end = thread_time() + 0.05
    while thread_time() < end:
        pass

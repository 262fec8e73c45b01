"""Plays in processes, and methods that fail: named with the reason, never dropped in silence."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from app.errors import CommandError
from calibrators.bins.table import History
from calibrators.samples import Floats, Integers
from evaluation import Platform
from research.leaderboard import METHODS, MethodUnavailable, Predictor, prequential
from research.leaderboard.tasks import (
    HourDone,
    TaskResult,
    TimedMethod,
    WindowOptions,
    finished,
    made,
    run_tasks,
)

EMPTY = History(0.0, ())


@dataclass(frozen=True)
class Dying:
    """A task whose process ends without a word."""

    label: str = "mixed, seed 0"
    hours: int = 1

    def run(self, hour_done: HourDone, /) -> TaskResult:
        os._exit(7)


@dataclass
class Failing:
    """A method that fails when `when` comes."""

    when: str
    error: Exception
    name: str = "failing"
    note: str = ""
    refits: list[float] = field(default_factory=list)

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        self.refits.append(history.as_of)
        if self.when == "fitting":
            raise self.error
        return self._serve

    def _serve(self, rows: Integers, scores: Floats) -> Floats:
        raise self.error


@dataclass
class Serving:
    """A method that serves one value."""

    value: float
    name: str = "serving"
    note: str = ""

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        return lambda rows, scores: np.full(len(scores), self.value)


def test_a_process_that_dies_is_an_error_of_one_sentence():
    """And not a wait without end."""
    with pytest.raises(CommandError, match="mixed, seed 0: its process ended with 7") as raised:
        run_tasks([Dying(), Dying()], 2, shown=False)

    assert raised.value.exit_code == 1


@pytest.mark.parametrize("when", ["fitting", "serving"])
def test_a_method_that_fails_is_absent_with_the_reason(when):
    platform = Platform(campaigns=2, impressions_per_hour=200, ctr=0.1, seed=1)
    failing = Failing(when, ValueError("no\nluck"))
    timed = [TimedMethod(failing), TimedMethod(METHODS["identity"]())]

    found = finished(prequential(platform, timed, first_scored=2, scored_hours=2), timed)

    assert found.results.methods == ("identity",)
    assert found.results.unavailable == {"failing": "it failed: ValueError: no luck"}
    assert len(failing.refits) == 1


def test_what_a_method_says_of_its_absence_is_kept():
    timed = TimedMethod(Failing("fitting", MethodUnavailable("no environment")))

    for _ in range(2):
        with pytest.raises(MethodUnavailable, match=r"^no environment$"):
            timed.refit(EMPTY, ())


@pytest.mark.parametrize("served", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_a_failure(served):
    timed = TimedMethod(Serving(served))

    timed.refit(EMPTY, ("a",))(np.zeros(1, np.int64), np.array([0.25]))

    assert timed.failure == f"it served {served:g}, which is no probability"


@dataclass
class Busy:
    """A method that works in this process, or has a child that does."""

    work: Callable[[], None]
    name: str = "busy"
    note: str = ""

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        self.work()
        return lambda rows, scores: scores


def test_the_cpu_of_refits_is_ours_and_that_of_a_child_at_work():
    """A tenth of a second each, by the child's own clock."""
    code = (
        "import sys, time\nfor line in sys.stdin:\n"
        "  end = time.process_time() + 0.1\n  while time.process_time() < end: pass\n"
        "  print(flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        pipes = child.stdin, child.stdout

        def ask() -> None:
            pipes[0].write(b"\n")
            pipes[0].flush()
            pipes[1].readline()

        ask()
        timed = TimedMethod(Busy(ask))
        timed.refit(EMPTY, ())
        child.stdin.close()

    assert timed.seconds >= 0.08


def test_a_log_sets_the_window_of_those_that_fit_campaign_by_campaign():
    """The others keep windows of their own."""
    window = WindowOptions(6, 200)

    sir, published, pooled = (made(name, window) for name in ("sir", "sir_published", "pooled"))

    assert sir.method.hours == published.method.hours == 6  # type: ignore[attr-defined]
    assert sir.method.calibrator.bin_size == 200  # type: ignore[attr-defined]
    assert published.method.bin_size == 200  # type: ignore[attr-defined]
    assert pooled.method.hours == 48  # type: ignore[attr-defined]
    assert [each.name for each in (sir, published, pooled)] == ["sir", "sir_published", "pooled"]

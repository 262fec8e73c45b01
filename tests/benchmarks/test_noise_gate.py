"""Rounds that count: those between two undisturbed moments."""

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from benchmarks.http.servers import CORE
from benchmarks.noise_gate import FEWEST_ROUNDS, LEARN_SECONDS, NoiseGate, piece_seconds

FAST, SLOW = 1.0, 2.0
ROUND_SECONDS = 10.0


@pytest.fixture(autouse=True)
def _nothing_measured(monkeypatch) -> None:
    """This process knows nothing of the core."""
    monkeypatch.setattr(NoiseGate, "_least", float("inf"))


class Core:
    """A core whose pieces of work cost what they are told to, and the time that passes."""

    def __init__(self, *costs: float) -> None:
        self.now = 0.0
        self.rounds = 0
        self._is_known = False
        # The fast one comes first, where its speed is learned.
        self._costs: Iterator[float] = chain([FAST], costs, repeat(SLOW))

    def gate(self, patience_seconds: float) -> NoiseGate:
        gate = NoiseGate(patience_seconds, lambda: next(self._costs), lambda: self.now, self._sleep)
        self._is_known = True
        return gate

    def measure(self) -> int:
        self.now += ROUND_SECONDS
        self.rounds += 1
        return self.rounds

    def _sleep(self, seconds: float) -> None:
        self.now += seconds if self._is_known else LEARN_SECONDS


def test_a_round_between_two_undisturbed_moments_counts():
    core = Core(FAST, 1.2 * FAST)

    assert core.gate(100.0).round(core.measure) == 1


def test_a_round_that_ends_on_a_slowed_core_is_repeated():
    core = Core(FAST, SLOW, FAST, SLOW, FAST, FAST)

    assert core.gate(100.0).round(core.measure) == 3


def test_no_round_begins_on_a_slowed_core():
    core = Core(SLOW, SLOW, SLOW, FAST, FAST)
    gate, before = core.gate(100.0), core.now

    assert gate.round(core.measure) == 1
    assert core.now - before == pytest.approx(ROUND_SECONDS, abs=0.1)


def test_who_is_out_of_patience_takes_rounds_as_they_come(capsys):
    core = Core(FAST, SLOW, FAST, SLOW)
    gate = core.gate(20.0)

    assert gate.round(core.measure) == 3
    assert capsys.readouterr().err.count("the core is disturbed too often") == 1
    assert gate.round(core.measure) == 4
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("undisturbed", "expected"), [(1, 6), (FEWEST_ROUNDS - 1, 6), (FEWEST_ROUNDS, 4), (6, 6)]
)
def test_disturbed_turns_are_taken_where_there_are_too_few_others(undisturbed, expected):
    """The one in which patience comes to an end is taken in any case."""
    core = Core(*[FAST] * (2 * undisturbed))
    gate = core.gate(LEARN_SECONDS + ROUND_SECONDS / 2)

    assert [gate.round(core.measure) for _ in gate.turns(6)] == list(range(1, expected + 1))


def test_without_patience_no_work_is_done_but_the_rounds():
    def piece() -> float:
        raise AssertionError("it looks")

    assert NoiseGate(0.0, piece).round(lambda: "taken") == "taken"


def test_a_faster_piece_than_ever_says_what_undisturbed_is_from_then_on():
    core = Core(FAST, FAST / 2, FAST, FAST / 2, FAST / 2)
    gate = core.gate(100.0)

    assert gate.round(core.measure) == 1
    assert gate.round(core.measure) == 2


@pytest.mark.parametrize("core", [None, CORE])
def test_the_piece_costs_time(core):
    assert 0.0 < piece_seconds(core) < 1.0

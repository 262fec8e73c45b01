"""A gate against noise: rounds count in which the core was about as fast as it can be.

Other guests of a virtual machine's host share its cores, and slow them down by half for
milliseconds to minutes, which no clock of the system shows. A fixed piece of arithmetic does.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from time import perf_counter, sleep, thread_time
from typing import ClassVar, Final, TypeVar

from benchmarks.machine import on_core
from benchmarks.parts import say

Taken = TypeVar("Taken")

SLOWED: Final = 1.25
"""A piece that takes so many times as long as it can says that the core is slowed."""
LEARN_SECONDS: Final = 3.0
FEWEST_ROUNDS: Final = 3
_LOOK_SECONDS: Final = 0.005
_LOOPS: Final = 10_000


def piece_seconds(core: int | None = None) -> float:
    """CPU seconds of the piece, on a core or wherever this thread runs."""
    with nullcontext() if core is None else on_core(core):
        before = thread_time()
        total = 0
        for number in range(_LOOPS):
            total += number
        return thread_time() - before


class NoiseGate:
    """Repeats rounds until one was undisturbed, for `patience_seconds` of looking, waiting and
    repeating in all; then it takes them as they come.

    `piece()` is CPU seconds of work that is always the same, on the core that is measured.
    """

    # Of all pieces that this process has measured.
    _least: ClassVar[float] = float("inf")

    def __init__(
        self,
        patience_seconds: float,
        piece: Callable[[], float] = piece_seconds,
        clock: Callable[[], float] = perf_counter,
        sleep: Callable[[float], None] = sleep,
    ) -> None:
        self._left = patience_seconds
        self._is_worn_out = False
        self._piece = piece
        self._clock = clock
        self._sleep = sleep
        if NoiseGate._least == float("inf"):
            self._learn(min(LEARN_SECONDS, patience_seconds / 4))

    def turns(self, most: int) -> Iterator[int]:
        """Numbers of turns, each of a round of every way: `most`, but those after the end of its
        patience only where there were fewer than `FEWEST_ROUNDS` before."""
        undisturbed = 0
        for turn in range(most):
            if not self._is_worn_out:
                undisturbed = turn
            elif undisturbed >= FEWEST_ROUNDS:
                return
            yield turn

    def round(self, measure: Callable[[], Taken]) -> Taken:
        """What `measure` gave between two undisturbed moments."""
        while self._left > 0:
            began = self._clock()
            if self._is_undisturbed():
                taken = measure()
                if self._is_undisturbed():
                    return taken
            else:
                self._sleep(_LOOK_SECONDS)
            self._spend(self._clock() - began)
        return measure()

    def _spend(self, seconds: float) -> None:
        self._left -= seconds
        if self._left <= 0:
            self._is_worn_out = True
            say("the core is disturbed too often: from here on, rounds count as they come")

    def _learn(self, seconds: float) -> None:
        """What a piece takes at its fastest."""
        end = self._clock() + seconds
        while self._clock() < end:
            self._is_undisturbed()
            self._sleep(_LOOK_SECONDS)
        self._left -= seconds

    def _is_undisturbed(self) -> bool:
        seconds = self._piece()
        NoiseGate._least = min(NoiseGate._least, seconds)
        return seconds <= SLOWED * NoiseGate._least

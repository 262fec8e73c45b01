"""CPU time of several ways to do the same, a round of each in turn, so that a busy moment hits all.

CPU time of this process: unlike wall time, it is the same while others use the machine, apart
from the caches. `stage_seconds` splits the wall time of one run by the methods that it calls.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from time import perf_counter, process_time
from types import ModuleType
from typing import Any
from unittest.mock import patch

from benchmarks.figures import Figure
from benchmarks.noise_gate import FEWEST_ROUNDS, NoiseGate

Way = Callable[[], object]
Stages = Mapping[str, tuple[type | ModuleType, str]]

ROUND_SECONDS = 0.02
BUDGET_SECONDS = 4.0
MOST_ROUNDS = 25


def interleaved(
    ways: Mapping[str, Way], budget_seconds: float = BUDGET_SECONDS
) -> dict[str, Figure]:
    """CPU seconds of one call of each way; each has about `budget_seconds`, 3 rounds at least, and
    as much again for repeating those during which the core was slowed."""
    once = {name: _warm_seconds(way) for name, way in ways.items()}
    loops = {name: max(1, round(ROUND_SECONDS / seconds)) for name, seconds in once.items()}
    rounds = {name: _rounds(once[name] * loops[name], budget_seconds) for name in ways}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    gate = NoiseGate(budget_seconds * len(ways))
    for turn in gate.turns(max(rounds.values())):
        for name in (name for name in ways if turn < rounds[name]):
            taken[name].append(gate.round(partial(_seconds, ways[name], loops[name])))
    return {name: Figure.of(seconds) for name, seconds in taken.items()}


def _warm_seconds(way: Way) -> float:
    way()
    return max(_seconds(way, 1), 1e-7)


def _rounds(seconds: float, budget_seconds: float) -> int:
    return min(max(int(budget_seconds / seconds), FEWEST_ROUNDS), MOST_ROUNDS)


def _seconds(way: Way, loops: int) -> float:
    started = process_time()
    for _ in range(loops):
        way()
    return (process_time() - started) / loops


@contextmanager
def stage_seconds(stages: Stages) -> Iterator[dict[str, float]]:
    """Wall seconds inside each stage's (class or module, name), summed while the block runs."""
    seconds = dict.fromkeys(stages, 0.0)
    with ExitStack() as opened:
        for stage, (owner, name) in stages.items():
            timed = _timed(getattr(owner, name), seconds, stage)
            opened.enter_context(patch.object(owner, name, timed))
        yield seconds


def _timed(method: Callable[..., Any], seconds: dict[str, float], stage: str) -> Callable[..., Any]:
    @wraps(method)
    def timed(*arguments: Any, **named: Any) -> Any:
        started = perf_counter()
        try:
            return method(*arguments, **named)
        finally:
            seconds[stage] += perf_counter() - started

    return timed

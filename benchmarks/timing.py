"""Times several ways to do the same, a round of each in turn, so that a busy moment hits all.

CPU time of this process: unlike wall time, it is the same while others use the machine, apart
from the caches.
"""

from collections.abc import Callable, Mapping
from functools import partial
from time import process_time

from benchmarks.calm import FEWEST_ROUNDS, Calm
from benchmarks.figures import Figure

Way = Callable[[], object]

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
    calm = Calm(budget_seconds * len(ways))
    for turn in calm.turns(max(rounds.values())):
        for name in (name for name in ways if turn < rounds[name]):
            taken[name].append(calm.round(partial(_seconds, ways[name], loops[name])))
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

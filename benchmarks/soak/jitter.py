"""How steady a core is: what one and the same piece of work costs, and when nothing runs at all.

Other machines of the same host share its processors. What they take of the caches and arithmetic is
no waiting time that a clock of the system would show: the same work costs more. What they take of
the processor itself, the host need not tell either: a loop that only looks at the clock finds gaps.
"""

from collections.abc import Mapping
from time import monotonic, perf_counter, sleep, thread_time

import numpy as np

from benchmarks.core.traffic import campaign_names
from calibrators.samples import Floats

SEED = 5
NAMES = 10_000
_PAUSE_SECONDS = 0.001
_GAP_SECONDS = 1e-5
# Linux stops what always comes first after 0.95 of each second.
_SPELL_SECONDS, _REST_SECONDS = 0.4, 0.1


def work_seconds(seconds: float) -> Floats:
    """CPU seconds of each repetition, (n,): a look-up of 10,000 names in random order."""
    order = np.random.default_rng(SEED).permutation(NAMES)
    names = campaign_names(NAMES)
    rows = {name: row for row, name in enumerate(names)}
    names = [names[place] for place in order.tolist()]
    taken, end = [], monotonic() + seconds
    while monotonic() < end:
        taken.append(_taken(rows, names))
        sleep(_PAUSE_SECONDS)
    return np.array(taken)


def _taken(rows: Mapping[str, int], names: list[str]) -> float:
    before = thread_time()
    for name in names:
        rows[name]
    return thread_time() - before


def stall_seconds(seconds: float, moments: int = 1_000_000) -> Floats:
    """How long a request would wait, (moments,), that comes at any moment to a processor which does
    nothing but look for it: 0 but where the processor stood still for over 10 microseconds.
    """
    gaps, awake, end = [], 0.0, monotonic() + seconds
    while monotonic() < end:
        spell, found = _gaps(_SPELL_SECONDS)
        gaps += [(awake + begun, awake + ended) for begun, ended in found]
        awake += spell
        sleep(_REST_SECONDS)
    return waits(np.array(gaps).reshape(-1, 2), np.linspace(0.0, awake, moments, endpoint=False))


def waits(gaps: Floats, moments: Floats) -> Floats:
    """Seconds from each moment, (m,), to the end of the gap that it falls into, (n, 2), in order
    and apart; 0 outside them."""
    if not len(gaps):
        return np.zeros(len(moments))
    gap = np.searchsorted(gaps[:, 1], moments, side="right").clip(max=len(gaps) - 1)
    left = gaps[gap, 1] - moments
    return np.where((moments >= gaps[gap, 0]) & (left > 0), left, 0.0)


def _gaps(seconds: float) -> tuple[float, list[tuple[float, float]]]:
    """How long a loop ran, and from when until when it did not get round."""
    gaps, begun = [], perf_counter()
    before, end = begun, begun + seconds
    while before < end:
        now = perf_counter()
        if now - before > _GAP_SECONDS:
            gaps.append((before - begun, now - begun))
        before = now
    return before - begun, gaps

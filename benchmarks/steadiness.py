"""How steady a core is: the CPU time of one and the same piece of work, again and again.

Other machines of the same host share its processors' caches and arithmetic. What they take away is
no waiting time that a clock of the system would show: the same work costs more.
"""

from collections.abc import Mapping
from time import monotonic, sleep, thread_time

import numpy as np

from benchmarks.maps import campaign_names
from calibrators.samples import Floats

SEED = 5
NAMES = 10_000
_PAUSE_SECONDS = 0.001


def work_seconds(seconds: float) -> Floats:
    """CPU seconds of each repetition, (n,): a look-up of 10,000 names in random order."""
    order = np.random.default_rng(SEED).permutation(NAMES)
    names = campaign_names(NAMES)
    rows = {name: row for row, name in enumerate(names)}
    asked = [names[place] for place in order.tolist()]
    taken, end = [], monotonic() + seconds
    while monotonic() < end:
        taken.append(_taken(rows, asked))
        sleep(_PAUSE_SECONDS)
    return np.array(taken)


def _taken(rows: Mapping[str, int], asked: list[str]) -> float:
    before = thread_time()
    for name in asked:
        rows[name]
    return thread_time() - before

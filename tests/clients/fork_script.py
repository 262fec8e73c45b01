"""Run by test_processes.py: forks with work in flight, and says what came of it in the child.

python fork_script.py URL
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

from sirocco_client import AsyncSirocco, Buffering, EdgeCalibrator, Sirocco

SECONDS = 60.0


def in_child(act: Callable[[], bool]) -> bool:
    """Whether it was true in a forked child."""
    child = os.fork()
    if child == 0:
        os._exit(0 if act() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main() -> None:
    """Prints a line for each thing that works in a child."""
    url = sys.argv[1]
    sirocco = Sirocco(url, timeout=SECONDS)
    shared = AsyncSirocco(url, timeout=SECONDS)
    shared_events = shared.events()
    edge = EdgeCalibrator(url, "click", refresh_seconds=0.01)
    events = sirocco.events(Buffering(linger_seconds=3600.0))
    assert edge.wait(SECONDS)
    expected = sirocco.calibrate("click", "hats", [0.5]).probabilities[0]
    at = time.time()
    events.outcome("parent", "click", 0.5, 1, occurred_at=at)
    # Another thread may hold any lock at the moment of the fork.
    busy = threading.Thread(target=lambda: [sirocco.calibrate("click", "a", [0.5])], daemon=True)
    busy.start()

    def calibrates() -> bool:
        return bool(sirocco.calibrate("click", "hats", [0.5]).probabilities[0] == expected)

    def refreshes() -> bool:
        before = edge.counts.confirmed
        deadline = time.monotonic() + SECONDS
        while edge.counts.confirmed == before and time.monotonic() < deadline:
            time.sleep(0.001)
        return edge.counts.confirmed > before and edge.at("hats", 0.5) == expected

    def sends() -> bool:
        empty = events.counts.waiting == 0
        events.outcome("child", "click", 0.5, 1, occurred_at=at)
        return empty and events.close(SECONDS) == [] and events.counts.accepted == 1

    async def by_asyncio() -> bool:
        answer = await shared.calibrate("click", "hats", [0.5])
        shared_events.outcome("child", "click", 0.5, 1, occurred_at=at)
        unsent = await shared_events.close(SECONDS)
        return bool(answer.probabilities[0] == expected) and not unsent

    def works_in_a_loop() -> bool:
        return asyncio.run(by_asyncio())

    for act in (calibrates, refreshes, sends, works_in_a_loop):
        sys.stdout.write(f"{act.__name__} {in_child(act)}\n")
    busy.join()
    edge.close()
    assert edge.at("hats", 0.5) == expected
    # What waits in the parent is sent by the parent, when the process ends.


if __name__ == "__main__":
    main()

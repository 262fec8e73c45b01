"""Workers that refit together in one process: each is a thread, and tells the others by a list."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from calibrators.peers import Part, Peers

Found = TypeVar("Found")
SECONDS = 120.0


class ThreadPeers(Peers):
    """One of several; they share the barrier and the list of what each has told."""

    def __init__(self, place: int, barrier: Barrier, told: list[list[Part]]) -> None:
        self.place, self.count = place, barrier.parties
        self._barrier, self._told = barrier, told

    def gather(self, parts: Iterable[Part], to_first: bool = False) -> Iterable[Part]:
        """See `Peers`; what was told is taken before anyone tells the next."""
        self._told[self.place] = list(parts)
        self._barrier.wait()
        found = [part for told in self._told for part in told]
        self._barrier.wait()
        return [] if to_first and not self.is_first else found


def run_together(count: int, step: Callable[[Peers], Found]) -> Sequence[Found]:
    """What each of so many workers comes to; the first error of one ends all."""
    barrier, errors = Barrier(count, timeout=SECONDS), list[BaseException]()
    told: list[list[Part]] = [[] for _ in range(count)]

    def run(place: int) -> Found:
        try:
            return step(ThreadPeers(place, barrier, told))
        except BaseException as error:
            errors.append(error)
            barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run, place) for place in range(count)]
    if errors:
        raise errors[0]
    return [future.result() for future in futures]

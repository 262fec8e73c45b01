"""Memory of `sirocco serve` as one version follows the other, and where the allocator has it.

Versions of 10,000 campaigns, whose sizes differ by 2 %, follow each other as refits bring them, but
every second. Each line tells the resident megabytes of the process, and how many of them are in the
heaps that glibc gives to threads: a version is read by a thread.

    python -m benchmarks.soak.versions [--versions 40]
    MALLOC_MMAP_THRESHOLD_=33554432 python -m benchmarks.soak.versions

The second has glibc do what it does by itself once a large block was freed.
"""

import sys
import time
from argparse import ArgumentParser
from pathlib import Path

import numpy as np

from benchmarks.core.traffic import random_atlas
from benchmarks.http.refresh import Publishing
from benchmarks.http.servers import seconds_until_served, service
from benchmarks.store import private_store

CAMPAIGNS, SIZES, SEED = 10_000, 3, 5
PAUSE_SECONDS = 1.0
_HEAP_BYTES = 64 << 20
"""Heaps of threads begin at multiples of it."""


def measure(versions: int) -> None:
    """Print a line for each version."""
    spread = np.random.default_rng(SEED).integers(-CAMPAIGNS // 50, CAMPAIGNS // 50, SIZES)
    packed = [random_atlas(CAMPAIGNS + int(more), at).to_bytes() for at, more in enumerate(spread)]
    with private_store() as store:
        publishing = Publishing.of(store, packed)
        publishing.publish()
        with service(store.url) as started:
            for number in range(versions):
                seconds_until_served(publishing.publish(), [started.http])
                time.sleep(PAUSE_SECONDS)
                resident, heaps = megabytes(started.process_id)
                sys.stdout.write(
                    f"{number + 1:4d}  {resident:6.1f} MB  {heaps:5.1f} MB of threads\n"
                )
                sys.stdout.flush()


def megabytes(process_id: int) -> tuple[float, float]:
    """Resident megabytes of a process, and those of them in the heaps of its threads."""
    resident, heaps, in_heap = 0, 0, False
    for line in Path(f"/proc/{process_id}/smaps").read_text().splitlines():
        head, *rest = line.split()
        if not head.endswith(":"):
            begin = int(head.partition("-")[0], 16)
            in_heap = begin % _HEAP_BYTES == 0 and len(rest) < 5
        elif head == "Rss:":
            resident += int(rest[0])
            heaps += int(rest[0]) * in_heap
    return resident / 1024, heaps / 1024


def main() -> None:
    """Measure as the command line says."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--versions", type=int, default=40)
    measure(parser.parse_args().versions)


if __name__ == "__main__":
    main()

"""The machine a benchmark runs on: what it is, CPU time and memory, cores and priorities, and how
much of it others used meanwhile.
"""

import ctypes
import gc
import os
import platform
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import clock_gettime, perf_counter

PACKAGES = (
    "numpy",
    "lightgbm",
    "pyarrow",
    "scikit-learn",
    "fastapi",
    "pydantic",
    "uvicorn",
    "uvloop",
    "msgspec",
    "orjson",
    "redis",
    "hiredis",
)
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of Linux: nanoseconds, all threads, also those that ended


def machine() -> str:
    """Processor, cores and Python of this machine. A virtual one often has no more of a name than
    its maker's: the family tells generations apart."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    about = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    model, family = about.get("model name", platform.machine()), about.get("cpu family")
    kind = f"{model} (family {family})" if family else model
    return f"{kind}, {os.cpu_count()} cores, Python {platform.python_version()}"


def versions() -> dict[str, str]:
    """Versions of the packages that the figures depend on."""
    return {name: version(name) for name in PACKAGES}


def cpu_seconds(process_id: int) -> float:
    """CPU time that a running process has used."""
    return clock_gettime((~process_id << 3) | _PROCESS_CLOCK)


def tree_cpu_seconds(process_id: int) -> float:
    """CPU time that a running process, its children and theirs have used; not of ended ones."""
    return sum(map(_cpu_seconds_if_alive, process_tree(process_id)))


def _cpu_seconds_if_alive(process_id: int) -> float:
    with suppress(OSError):
        return cpu_seconds(process_id)
    return 0.0


def process_tree(process_id: int) -> set[int]:
    """A process, its children, theirs, and so on."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while we look.
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, new = {process_id}, {process_id}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on one core, where there are several."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core % (os.cpu_count() or 1)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@dataclass(slots=True)
class Usage:
    """What happened on the machine inside `watched()`; filled when it ends."""

    seconds: float = 0.0
    other_cores: float = 0.0
    """Mean number of cores that processes other than ours kept busy."""


@contextmanager
def watched() -> Iterator[Usage]:
    """Watch the whole machine; processes of ours must have ended inside."""
    usage = Usage()
    started, busy, own = perf_counter(), _busy_seconds(), _own_seconds()
    yield usage
    usage.seconds = perf_counter() - started
    others = (_busy_seconds() - busy) - (_own_seconds() - own)
    usage.other_cores = max(0.0, others / usage.seconds)


def _busy_seconds() -> float:
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = fields[3] + fields[4]
    guest = sum(fields[8:10])  # counted in user time already
    return (sum(fields) - idle - guest) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def release_free_memory() -> None:
    """Give back what the allocator keeps for later, which would hide a peak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def reset_peak() -> None:
    """Forget the peak of this process's memory."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Most memory that this process held since `reset_peak`."""
    return _status_bytes("VmHWM")


def resident_bytes() -> int:
    """Memory that this process holds."""
    return _status_bytes("VmRSS")


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


@contextmanager
def first_in_line(*process_ids: int) -> Iterator[bool]:
    """Of these, the main threads run before all else on their core: the first before the second,
    and so on. Gives whether the system permits it; then they are as before when it ends.
    """
    raised: list[int] = []
    with suppress(PermissionError):
        for priority, process_id in enumerate(reversed(process_ids), start=1):
            place = os.sched_param(priority)
            os.sched_setscheduler(process_id, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, place)
            raised.append(process_id)
    try:
        yield len(raised) == len(process_ids)
    finally:
        for process_id in raised:
            os.sched_setscheduler(process_id, os.SCHED_OTHER, os.sched_param(0))

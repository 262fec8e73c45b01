"""Refits of all campaigns from 24 h of bins in memory: the pooled method beside SIR and beta.

Traffic is Zipf-like over the campaigns, 100 impressions an hour each on average. The bins are
packed, and unpacked in blocks of 1,024 campaigns at most, as the worker reads them. `cold` is the
first refit, with the maps for the guard; `warm` is the one of an hour later, from the cold one's
memory. `grown` is what the refit's peak adds to the memory of the process, which holds the packed
bins already; those pages of its files count that are in memory. SIR and beta fit campaign by
campaign, those with 100 impressions and 10 positives, and are left out for 48 h of bins. Seconds
are CPU time, of one core. `--large` adds 100,000 campaigns, which takes a quarter of an hour and
4 GB of memory.

    python -m benchmarks pooled [--large] [--json] [--write]
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import process_time

from app.storage.bins import hour_blocks
from app.storage.keys import SHARDS
from benchmarks.core.traffic import FIRST_HOUR, WINDOW, Platform
from benchmarks.figures import Cell, Table
from benchmarks.machine import peak_bytes, release_free_memory, reset_peak, resident_bytes
from benchmarks.parts import Part
from calibrators import Fitted, History, HourTables, make_method
from calibrators.bins.packed_table import PackedTable
from calibrators.samples import use_files


@dataclass(frozen=True)
class Sizes:
    """How much to measure: campaigns with 24 h of bins, and with 48 h."""

    campaigns: tuple[int, ...] = (100, 1_000, 10_000)
    two_days: tuple[int, ...] = ()


USUAL = Sizes(two_days=(10_000,))
LARGE = Sizes((*Sizes().campaigns, 100_000), two_days=(10_000, 100_000))


class PackedBlocks:
    """The bins of some hours, packed shard by shard."""

    def __init__(self, platform: Platform, hours: range) -> None:
        self._shards: list[dict[int, PackedTable]] = [{} for _ in range(SHARDS)]
        for hour in hours:
            for shard, table in zip(self._shards, platform.tables(hour), strict=True):
                shard[hour] = PackedTable.from_bytes(table.to_bytes())

    def __iter__(self) -> Iterator[HourTables]:
        for shard in self._shards:
            yield from hour_blocks(shard)


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each number of campaigns."""
    use_files()
    sizes = sizes or USUAL
    rows: Table = {f"{count:,} campaigns": _row(count) for count in sizes.campaigns}
    return rows | {f"{count:,} campaigns, 48 h": _pooled(count, 48)[0] for count in sizes.two_days}


def _row(campaigns: int) -> dict[str, Cell]:
    row, history = _pooled(campaigns, WINDOW)
    for name in ("sir", "beta"):
        method = make_method(name, hours=WINDOW)
        _, row[f"{name} s"], row[f"{name}, grown MB"] = _taken(lambda: method.refit(history))  # noqa: B023
    return row


def _pooled(campaigns: int, hours: int) -> tuple[dict[str, Cell], History]:
    """Its figures, and the history that the cold refit saw."""
    behind = FIRST_HOUR + hours
    blocks = PackedBlocks(Platform(campaigns), range(FIRST_HOUR, behind + 1))
    first, second = (History(float(end), blocks) for end in (behind, behind + 1))
    pooled = make_method("pooled")
    cold, seconds, grown = _taken(lambda: pooled.refit(first, trial=True))
    _, warm, _ = _taken(lambda: pooled.refit(second, memory=cold.memory, trial=True))
    return {
        "pooled, cold s": seconds,
        "pooled, warm s": warm,
        "pooled, cold, grown MB": grown,
    }, first


def _taken(refit: Callable[[], Fitted]) -> tuple[Fitted, float, float]:
    """What a refit gave, its seconds of CPU, and the megabytes by which its peak grew."""
    release_free_memory()
    reset_peak()
    resident, began = resident_bytes(), process_time()
    fitted = refit()
    return fitted, process_time() - began, (peak_bytes() - resident) / 1e6


PART = Part("pooled", "Refit of all campaigns at once", __doc__, measure, lambda: measure(LARGE))

"""Refits of all campaigns from 24 h of bins in memory: the pooled method beside SIR and beta.

Traffic is Zipf-like over the campaigns, 100 impressions an hour each on average, in 16 blocks.
`cold` is the first refit, with the maps for the guard; `warm` is the one of an hour later, from
the cold one's memory. `grown` is what the refit's peak adds to the memory of the process, which
holds the bins already. SIR and beta fit campaign by campaign, those with 100 impressions and 10
positives. Seconds are CPU time, of one core.

    python -m benchmarks.pooled [--json] [--write]
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

from app.storage.keys import SHARDS
from benchmarks.figures import Cell, Table
from benchmarks.machine import peak_bytes, release_free_memory, reset_peak, resident_bytes
from benchmarks.parts import Part, main
from benchmarks.traffic import FIRST_HOUR, WINDOW, Platform
from calibrators import BinsTable, Fitted, History, HourTables, make_method


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: tuple[int, ...] = (100, 1_000, 10_000)


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each number of campaigns."""
    return {f"{count:,} campaigns": _row(count) for count in (sizes or Sizes()).campaigns}


def _row(campaigns: int) -> dict[str, Cell]:
    blocks = _blocks(Platform(campaigns))
    first, second = (History(FIRST_HOUR + WINDOW + hour, blocks) for hour in (0.0, 1.0))
    pooled = make_method("pooled")
    cold, seconds, grown = _taken(lambda: pooled.refit(first, trial=True))
    _, warm, _ = _taken(lambda: pooled.refit(second, memory=cold.memory, trial=True))
    row: dict[str, Cell] = {
        "pooled, cold s": seconds,
        "pooled, warm s": warm,
        "pooled, cold, grown MB": grown,
    }
    for name in ("sir", "beta"):
        method = make_method(name, hours=WINDOW)
        _, row[f"{name} s"], row[f"{name}, grown MB"] = _taken(lambda: method.refit(first))  # noqa: B023
    return row


def _blocks(platform: Platform) -> list[HourTables]:
    """25 hours of bins, shard by shard."""
    blocks: list[dict[int, BinsTable]] = [{} for _ in range(SHARDS)]
    for hour in range(FIRST_HOUR, FIRST_HOUR + WINDOW + 1):
        for block, table in zip(blocks, platform.tables(hour), strict=True):
            block[hour] = table
    return [*blocks]


def _taken(refit: Callable[[], Fitted]) -> tuple[Fitted, float, float]:
    """What a refit gave, its seconds of CPU, and the megabytes by which its peak grew."""
    release_free_memory()
    reset_peak()
    resident, began = resident_bytes(), process_time()
    fitted = refit()
    return fitted, process_time() - began, (peak_bytes() - resident) / 1e6


PART = Part("pooled", "Refit of all campaigns at once", __doc__, measure)

if __name__ == "__main__":
    main(PART)

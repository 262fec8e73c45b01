"""How large a service must be for so much traffic: cores, memory and disk, from measured costs.

Each cost is a cell of docs/benchmarks/, which `python -m benchmarks PART` measures; a test holds
them to it. Between the sizes that were measured the logarithms are interpolated.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from app.settings import Settings

SHARDS: Final = 16
MACHINE: Final = "AMD EPYC, 2 cores, Python 3.11"
DATES: Final = "2026-11-22 to 2026-11-30"


class Cost(NamedTuple):
    """What `python -m benchmarks PART` measured by size; `{}` stands for the size in the names of
    row and column. A total `grows` beyond the sizes that were measured, a cost a piece does not."""

    part: str
    row: str
    column: str
    by_size: Mapping[int, float]
    grows: bool = False

    def at(self, size: float) -> float:
        """The cost at that size."""
        sizes, values = zip(*self.by_size.items(), strict=True)
        found = float(np.exp(np.interp(math.log(max(size, 1)), np.log(sizes), np.log(values))))
        return found * max(1.0, size / sizes[-1]) if self.grows else found


CALIBRATE_US: Final = Cost(
    "calibrate", "sirocco, columns", "batch of {}",
    {1: 20.1, 10: 20.8, 100: 33.8, 1_000: 150}, grows=True,
)  # fmt: skip
"""API's CPU for a request of so many scores."""
_EVENTS = "over HTTP: sirocco, ids and clicks, batch of {}"
EVENT_US: Final = Cost(
    "ingest", _EVENTS, "server us", {1: 80.1, 10: 17.3, 100: 7.02, 1_000: 3.63, 10_000: 3.09}
)
"""API's CPU for one event, by the events of its request."""
EVENT_REDIS_US: Final = Cost(
    "ingest", _EVENTS, "Redis us", {1: 28.4, 10: 8.15, 100: 4.27, 1_000: 2.0, 10_000: 1.46}
)
"""Redis' CPU for one event."""
_REFIT = "{} campaigns, pooled"
REFIT_SECONDS: Final = Cost(
    "refit", "CPU s", _REFIT, {100: 0.542, 1_000: 1.54, 10_000: 9.54, 100_000: 107}, grows=True
)
"""Of one target, so many campaigns of 100 impressions an hour."""
REFIT_MB: Final = Cost(
    "refit", "peak MB", _REFIT, {100: 245, 1_000: 278, 10_000: 519, 100_000: 1_484}, grows=True
)
"""The worker's memory at the peak of it."""
API_MB: Final = Cost("soak", "whole run", "server MB", {10_000: 160})
"""An API process that serves so many maps, with all that it holds for requests; a fifth above what
was measured, as it held 222 on a machine whose stalls had requests wait for 200 ms."""
MAP_BYTES: Final = Cost(
    "refresh", "{} maps", "bytes a map in a process", {10_000: 3_083, 100_000: 2_767}
)
"""One version; a process holds two."""
VERSION_BYTES: Final = Cost(
    "refresh", "{} maps", "bytes a map in Redis", {10_000: 955, 100_000: 877}
)
"""A map of one version kept."""
BINS_BYTES: Final = Cost(
    "grid", "128 cells an octave", "bytes_{}", {100: 728, 1_000: 3_598, 10_000: 6_423}
)
"""Of a campaign's hour with so many impressions."""
_FEW_BYTES, _CELL_BYTES = 60, 7.3
"""Of a campaign's hour with few impressions, each in a cell of its own: the line through those of
`python -m benchmarks memory`, which lies above them where there are fewer than twenty."""
OPEN_CLICK_BYTES: Final = Cost(
    "click_log", "Redis bytes per open click", "{} clicks", {100_000: 664, 1_000_000: 706}
)
CLICK_ID_BYTES: Final = Cost(
    "click_log", "Redis bytes per click, once closed", "{} clicks",
    {100_000: 75.4, 1_000_000: 109},
)  # fmt: skip
CLICK_DISK_BYTES: Final = Cost(
    "click_log", "disk bytes per closed click", "{} clicks", {100_000: 48.1, 1_000_000: 47.2}
)
LABELS_MB: Final = Cost(
    "click_log", "refit grown MB", "{} clicks", {100_000: 48.9, 1_000_000: 459}, grows=True
)
"""What a delayed target's refit adds to the worker's memory, by clicks in the window."""
LABELS_SECONDS: Final = Cost(
    "click_log", "refit CPU s", "{} clicks", {100_000: 0.291, 1_000_000: 2.39}, grows=True
)

EVENT_BYTES: Final = Cost("memory", "event", "bytes", {1: 30})
"""Of an event that no worker has folded yet."""
ID_BYTES: Final = Cost("memory", "id", "bytes", {1: 11})
IDEMPOTENCY_KEY_BYTES: Final = Cost("memory", "key", "bytes", {1: 213})
CONVERSION_DISK_BYTES: Final = Cost("memory", "conversion", "bytes", {1: 32})
REDIS_BYTES: Final = 2_000_000
"""A server without data, which takes a megabyte when it is empty, and its scripts."""

BUSY: Final = 0.5
"""How busy a core may be: the other half is for peaks, and for latency."""
MEMORY_ROOM: Final = 1.3
"""Over what was measured: fragments, and in Redis pages that change while it writes its file."""
DISK_ROOM: Final = 3.0
"""Redis' disk over its data: the file doubles before it is rewritten, the new one beside it."""
OUTAGE_HOURS: Final = 2
"""Without a worker, its events wait in Redis."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Campaigns with traffic in one window, and what comes a second: events, scores to calibrate,
    clicks of delayed targets; a request holds `batch` events or scores, and each declared field has
    `field_values` that are most of the traffic."""

    campaigns: int
    events: float
    scores: float
    delayed_clicks: float = 0.0
    batch: int = 100
    field_values: int = 10


@dataclass(frozen=True, slots=True)
class Need:
    """Whole cores, and bytes of memory and disk; 0 where there is no such need."""

    cores: int
    memory: int
    disk: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """What each part needs, by its name; seconds of CPU of an hourly refit; what will not do."""

    needs: Mapping[str, Need]
    refit_seconds: float
    warnings: tuple[str, ...]


def capacity(traffic: Traffic, settings: Settings) -> Capacity:
    """What the service needs for the traffic with these settings, on cores like `MACHINE`."""
    targets = len(settings.targets)
    delayed = len(settings.delayed_targets) if traffic.delayed_clicks else 0
    maps = traffic.campaigns * (targets + delayed)
    window_clicks = traffic.delayed_clicks * 3600 * settings.window_hours
    refit = targets * REFIT_SECONDS.at(traffic.campaigns)
    refit += delayed * LABELS_SECONDS.at(window_clicks)
    redis_load = traffic.events * EVENT_REDIS_US.at(traffic.batch) / 1e6
    stored = _redis_bytes(traffic, settings, maps)
    scores = traffic.scores / traffic.batch * CALIBRATE_US.at(traffic.batch)
    api = math.ceil((scores + traffic.events * EVENT_US.at(traffic.batch)) / 1e6 / BUSY)
    clicks = traffic.delayed_clicks * 86_400 * settings.click_log_days
    # As if every click converted.
    click_log = clicks * (CLICK_DISK_BYTES.at(clicks) + CONVERSION_DISK_BYTES.by_size[1])
    needs = {
        "API": _need(api, api * _api_bytes(maps), 2 * maps * VERSION_BYTES.at(maps)),
        "worker": _need(1, _worker_bytes(traffic, settings, window_clicks, delayed), 0),
        "Redis": _need(1, stored, DISK_ROOM * stored),
        "click log": _need(0, 0, click_log),
    }
    return Capacity(needs, refit, tuple(_warnings(settings, redis_load, refit)))


def _need(cores: int, memory: float, disk: float) -> Need:
    return Need(cores, round(MEMORY_ROOM * memory), round(disk))


def _api_bytes(maps: int) -> float:
    """Of one process: two versions, above what one without maps takes."""
    ((measured, megabytes),) = API_MB.by_size.items()
    without = megabytes * 1e6 - 2 * measured * MAP_BYTES.at(measured)
    return without + 2 * maps * MAP_BYTES.at(maps)


def _worker_bytes(traffic: Traffic, settings: Settings, clicks: float, delayed: int) -> float:
    """One target is refitted at a time; a training reads as much as a refit of as many clicks."""
    trained = min(
        settings.training_clicks, traffic.delayed_clicks * 86_400 * settings.training_days
    )
    grown = LABELS_MB.at(max(clicks, trained)) if delayed else 0.0
    return 1e6 * (REFIT_MB.at(traffic.campaigns) + grown)


def _redis_bytes(traffic: Traffic, settings: Settings, maps: int) -> float:
    """What the data take."""
    hourly = 3600 * traffic.events
    places = traffic.campaigns * len(settings.targets)
    bins = _row_bytes(hourly / places)
    hours = (settings.ttl_seconds + settings.event_ttl_seconds) / 3600
    clicks = 3600 * traffic.delayed_clicks
    open_clicks = clicks * settings.post_click_minutes / 60
    return (
        REDIS_BYTES
        + places * hours * bins
        + settings.ttl_seconds / 3600 * _field_bytes(traffic, settings)
        + hourly * (settings.window_hours + 1) * ID_BYTES.by_size[1]
        + hourly * OUTAGE_HOURS * EVENT_BYTES.by_size[1]
        + hourly / traffic.batch * settings.idempotency_hours * IDEMPOTENCY_KEY_BYTES.by_size[1]
        + maps * settings.versions_kept * VERSION_BYTES.at(maps)
        + open_clicks * OPEN_CLICK_BYTES.at(open_clicks)
        + clicks * settings.event_ttl_seconds / 3600 * CLICK_ID_BYTES.at(clicks)
    )


def _row_bytes(impressions: float) -> float:
    return min(BINS_BYTES.at(impressions), _FEW_BYTES + _CELL_BYTES * impressions)


def _field_bytes(traffic: Traffic, settings: Settings) -> float:
    """Of an hour's sums by field: in each shard a row a value and a pair of values, and one a
    campaign and value."""
    values, targets = traffic.field_values, len(settings.targets)
    rows = (
        *[SHARDS * values, traffic.campaigns * values] * len(settings.fields),
        *[SHARDS * values**2] * len(settings.field_pairs),
    )
    hourly = 3600 * traffic.events / targets
    return targets * sum(each * _row_bytes(hourly / each) for each in rows)


def _warnings(settings: Settings, redis_load: float, refit: float) -> list[str]:
    found = []
    if redis_load > BUSY:
        found.append(
            f"Redis works in one thread, which would be {redis_load:.0%} busy: send larger batches,"
            " or split the campaigns over several services."
        )
    if refit > 60 * settings.refit_minutes * BUSY:
        found.append(
            f"A refit takes {refit:,.0f} s of CPU and comes every {settings.refit_minutes} minutes:"
            " split the campaigns over several services, or refit less often."
        )
    return found

"""From the record of a soak to its rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Cell, Table
from benchmarks.soak.open_loop import Kind, Load, Record
from benchmarks.store import Stop
from calibrators.samples import Floats

AFTER_REFIT_SECONDS = 1.0
"""How long after its refit a version may still be on its way into the API's memory."""
AFTER_STEAL_SECONDS = 1.0
"""How long after the host gave the core back requests may still wait in line."""
WINDOW_SECONDS = 10.0
_MINUTE = 60.0
_MS = 1e3
_PERCENTILES = {"p50 ms": 50.0, "p90 ms": 90.0, "p99 ms": 99.0, "p99.9 ms": 99.9}
_EVENTS = "events"


@dataclass(frozen=True)
class Run:
    """What was seen beside the requests; `notes` are the sampler's.

    `busy` and `echo_busy` are the cores of server and echo in their turns, which are half of the
    minutes each, `most_busy` those of the server while it was saturated.
    """

    minutes: float
    saturating: float
    busy: float
    echo_busy: float
    notes: Sequence[Mapping[str, Any]]
    most_busy: float = 1.0
    wrong: int = 0
    versions: int = 0
    stops: Sequence[Stop] = ()

    def moments(self, kind: str) -> list[float]:
        """When the sampler noted something of that kind."""
        return [note["at"] for note in self.notes if note["kind"] == kind]

    def refit_errors(self) -> list[str]:
        """What failed refits said."""
        return [note["error"] for note in self.notes if note["kind"] == "done" and note["error"]]

    def refits(self) -> list[tuple[float, float]]:
        """From when until when each refit may have been felt."""
        ends = [at + AFTER_REFIT_SECONDS for at in self.moments("done")]
        asked = self.moments("asked")
        return list(zip(asked, [*ends, np.inf][: len(asked)], strict=True))

    def stolen(self) -> tuple[float, list[tuple[float, float]]]:
        """What the host took of the server's core, in seconds, and from when until when it, or what
        had to wait for it, may have been felt."""
        seen = [(note["at"], note["seconds"]) for note in self.notes if note["kind"] == "stolen"]
        spans = [
            (at, until + AFTER_STEAL_SECONDS)
            for (at, before), (until, after) in pairwise(seen)
            if after > before
        ]
        return (seen[-1][1] - seen[0][1] if seen else 0.0), spans

    def memory(self) -> tuple[Floats, Floats]:
        """Moments (n,), and MB (n, 2) of server and worker."""
        notes = [note for note in self.notes if note["kind"] == "memory"]
        at = np.array([note["at"] for note in notes])
        return at, np.array([note["bytes"] for note in notes]).reshape(len(notes), 2) / 1e6

    def filters(self) -> Floats:
        """MB of filters of ids at the same moments, (n,)."""
        notes = [note for note in self.notes if note["kind"] == "filters"]
        seen = np.array([(note["at"], note["bytes"] / 1e6) for note in notes] or [(0.0, 0.0)])
        found: Floats = np.interp(self.memory()[0], *seen.T)
        return found


def rows_of(run: Run, load: Load, kinds: Sequence[Kind], echo: Load) -> Table:
    """The whole, each kind, all calibrations, each minute with the echo's beside."""
    rows: Table = {"whole run": _whole(run, load)}
    for kind, record in zip(kinds, load.records, strict=True):
        rows[kind.name] = _kind_row(run, [record])
    calibrations = [
        record
        for kind, record in zip(kinds, load.records, strict=True)
        if not kind.name.startswith(_EVENTS)
    ]
    rows["all calibrations"] = _kind_row(run, calibrations)
    return rows | _minutes(run, calibrations, echo.records)


def echo_row(run: Run, echo: Load) -> dict[str, Cell]:
    """The same of a server that only sends back."""
    return {
        **_kind_row(run, echo.records),
        "errors": echo.errors,
        "no free connection": echo.waited,
    }


def work_row(seconds: Floats) -> dict[str, Cell]:
    """CPU time of a piece of work that is always the same, (n,)."""
    return {**_tail(seconds)}


def stall_row(seconds: Floats) -> dict[str, Cell]:
    """Waits for a processor with nothing else to do, (n,)."""
    return {**_percentiles(seconds)}


def stops_row(stops: Sequence[Stop]) -> dict[str, Cell]:
    """How often the store stood still, how long at most, and how often for its disk."""
    return {
        "stops": len(stops),
        "longest ms": max((stop.seconds for stop in stops), default=0.0) * _MS,
        "stops of the disk": sum(stop.event.startswith("aof") for stop in stops),
    }


def _tail(latencies: Floats) -> dict[str, float]:
    row = _percentiles(latencies)
    row["p99.9 / p50"] = row["p99.9 ms"] / row["p50 ms"] if row["p50 ms"] else 0.0
    return row


def _whole(run: Run, load: Load) -> dict[str, Cell]:
    requests = sum(len(record.latencies) for record in load.records)
    _, memory = run.memory()
    return {
        "minutes": run.minutes,
        "saturating requests/s": run.saturating,
        "requests/s": requests / (run.minutes * _MINUTE / 2),
        "requests": requests,
        "errors": load.errors + len(run.refit_errors()),
        "errors, saturated": load.saturated_errors,
        "wrong answers": run.wrong,
        "refits": len(run.moments("done")),
        "versions": run.versions,
        "server cores": run.busy,
        "server cores, saturated": run.most_busy,
        "echo cores": run.echo_busy,
        "server MB": float(memory[-1, 0]),
        "worker MB": float(memory[-1, 1]),
        "server MB grown, %": _growth(memory[:, 0]),
        "server MB grown but for filters of ids, %": _growth(memory[:, 0] - run.filters()),
        "worker MB grown, %": _growth(memory[:, 1]),
        "stolen by the host, s": run.stolen()[0],
        "load late, p99 ms": _p99(load.lateness),
        "load slow to read, p99 ms": _p99(load.read_lateness),
        "no free connection": load.waited,
    }


def _p99(seconds: Sequence[float]) -> float:
    return float(np.percentile(seconds, 99)) * _MS if len(seconds) else 0.0


def _growth(memory: Floats) -> float:
    """How far the mean of the last quarter is above that of the second."""
    quarter = max(1, len(memory) // 4)
    before, after = memory[quarter : 2 * quarter], memory[-quarter:]
    return float(after.mean() / (before if len(before) else memory).mean() - 1) * 100


def _kind_row(run: Run, records: Sequence[Record]) -> dict[str, Cell]:
    scheduled, latencies = _joined(records)
    row = _tail(latencies)
    row["requests"] = len(latencies)
    kept = latencies[~_inside(scheduled, run.stolen()[1])]
    row["p99.9 but in seconds stolen, ms"] = _percentiles(kept)["p99.9 ms"]
    refitting = _inside(scheduled, run.refits())
    inside, outside = latencies[refitting], latencies[~refitting]
    if len(inside) and len(outside):
        row["p99 in refits, ms"] = float(np.percentile(inside, 99)) * _MS
        row["p99 otherwise, ms"] = float(np.percentile(outside, 99)) * _MS
        row["refits move p99, %"] = (row["p99 in refits, ms"] / row["p99 otherwise, ms"] - 1) * 100
    return {**row}


def _minutes(run: Run, records: Sequence[Record], echo: Sequence[Record]) -> Table:
    scheduled, latencies = _joined(records)
    echoed_at, echoed = _joined(echo)
    at, memory = run.memory()
    start = at[0]
    rows: Table = {}
    for minute in range(int(np.ceil(run.minutes))):
        span = (start + minute * _MINUTE, start + (minute + 1) * _MINUTE)
        chosen = _within(scheduled, span)
        seen = memory[_within(at, span)]
        if chosen.any() and len(seen):
            rows[f"minute {minute + 1}"] = {
                **_percentiles(latencies[chosen]),
                "worst 10 s, p99 ms": _worst(scheduled[chosen], latencies[chosen]),
                "echo, p99.9 ms": _percentiles(echoed[_within(echoed_at, span)])["p99.9 ms"],
                "server MB": float(seen[:, 0].mean()),
                "worker MB": float(seen[:, 1].mean()),
            }
    return rows


def _worst(scheduled: Floats, latencies: Floats) -> float:
    windows = ((scheduled - scheduled.min()) // WINDOW_SECONDS).astype(int)
    found = [np.percentile(latencies[windows == window], 99) for window in np.unique(windows)]
    return float(max(found)) * _MS


def _percentiles(latencies: Floats) -> dict[str, float]:
    if not len(latencies):
        return dict.fromkeys(_PERCENTILES, 0.0)
    found = np.percentile(latencies, list(_PERCENTILES.values())) * _MS
    return dict(zip(_PERCENTILES, found.tolist(), strict=True))


def _joined(records: Sequence[Record]) -> tuple[Floats, Floats]:
    return (
        np.concatenate([np.array(record.scheduled) for record in records]),
        np.concatenate([np.array(record.latencies) for record in records]),
    )


def _inside(scheduled: Floats, spans: Iterable[tuple[float, float]]) -> NDArray[np.bool_]:
    found = np.zeros(len(scheduled), np.bool_)
    for span in spans:
        found |= _within(scheduled, span)
    return found


def _within(moments: Floats, span: tuple[float, float]) -> NDArray[np.bool_]:
    return (moments >= span[0]) & (moments < span[1])

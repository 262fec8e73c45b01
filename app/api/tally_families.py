"""The families of what API processes count, from the sum of their rows."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from app.api.slots import (
    BUCKETS,
    CODES,
    COLLECTED,
    OTHER,
    SECONDS,
    SUM,
    Pairs,
    Slots,
)

Total = NDArray[np.float64]

_BOUNDS: Final[list[str]] = [
    floatToGoString(bound)  # type: ignore[no-untyped-call]
    for bound in (*SECONDS, float("inf"))
]
_GARBAGE: Final = dict(
    zip(
        COLLECTED,
        (
            ("objects_collected", "Objects collected during gc"),
            ("objects_uncollectable", "Uncollectable objects found during GC"),
            ("collections", "Number of times this generation was collected"),
        ),
        strict=True,
    )
)


def families(slots: Slots, total: Total) -> Iterator[Metric]:
    """All of them; a series that has counted nothing is left out."""
    yield from _garbage(slots, total)
    yield _requests(slots, total)
    yield _seconds(slots, total)
    yield _pairs(
        "sirocco_scores",
        "Scores calibrated, by the level of map that served them.",
        ["target", "level"],
        slots.scores,
        total,
    )
    yield _pairs(
        "sirocco_events",
        "Events received: accepted (stored, now or before), invalid, late, future or full.",
        ["type", "result"],
        slots.events,
        total,
    )
    yield CounterMetricFamily(
        "sirocco_duplicate_events",
        "Accepted events that were stored already.",
        float(total[slots.duplicates]),
    )
    yield CounterMetricFamily(
        "sirocco_refused_versions",
        "Published versions that could not be read.",
        float(total[slots.refused_versions]),
    )
    yield _closed(slots, total)


def _requests(slots: Slots, total: Total) -> Metric:
    family = CounterMetricFamily("sirocco_requests", "Requests answered.", labels=["route", "code"])
    codes = [*map(str, CODES), OTHER]
    for route, block in slots.routes.items():
        for code, number in zip(codes, _block(total, block).sum(axis=1).tolist(), strict=True):
            if number:
                family.add_metric([route, code], number)
    return family


def _seconds(slots: Slots, total: Total) -> Metric:
    family = HistogramMetricFamily(
        "sirocco_request_seconds",
        "Time from a request's head to the end of its answer.",
        labels=["route"],
    )
    for route, block in slots.routes.items():
        counts = _block(total, block).sum(axis=0).cumsum().tolist()
        if counts[-1]:
            buckets = list(zip(_BOUNDS, counts, strict=True))
            family.add_metric([route], buckets, float(total[block + SUM]))
    return family


def _block(total: Total, first: int) -> Total:
    """Requests of a route, a row for each code, a column for each duration."""
    return total[first : first + SUM].reshape(-1, BUCKETS)


def _pairs(name: str, text: str, labels: list[str], places: Pairs, total: Total) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, place in places.items():
        if number := total[place]:
            family.add_metric(values, float(number))
    return family


def _closed(slots: Slots, total: Total) -> Metric:
    family = CounterMetricFamily(
        "sirocco_connections_closed", "Connections closed on the caller.", labels=["reason"]
    )
    for reason, place in slots.closed.items():
        family.add_metric([reason], float(total[place]))
    return family


def _garbage(slots: Slots, total: Total) -> Iterator[Metric]:
    for kind, (name, text) in _GARBAGE.items():
        family = CounterMetricFamily(f"python_gc_{name}", text, labels=["generation"])
        for (of, generation), place in slots.garbage.items():
            if of == kind:
                family.add_metric([generation], float(total[place]))
        yield family

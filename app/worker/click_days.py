"""Expected conversions by click day, kept until it is known what was observed.

A day's record is of the refit that had most of the day in its window: it says which clicks it
counted, by their time, and what their labels added up to when they were used.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.settings import SECONDS_PER_DAY

SHOWN = 7
"""Days whose expected and observed conversions are told."""

Span = tuple[float, float]
"""Clicks of [first, behind), epoch seconds."""
DayRecord = Mapping[str, Any]


def labelled_days(
    clicked_at: NDArray[np.float64], labels: NDArray[np.float64], span: Span, as_of: float
) -> Iterator[DayRecord]:
    """One record for each day (UTC) of which the span holds clicks."""
    for first, behind in _days(span):
        chosen = (clicked_at >= first) & (clicked_at < behind)
        if chosen.any():
            yield {
                "first": first,
                "behind": behind,
                "as_of": as_of,
                "clicks": int(np.count_nonzero(chosen)),
                "expected": float(labels[chosen].sum()),
            }


def merged_days(
    before: Iterable[DayRecord], new: Iterable[DayRecord], since: float
) -> list[DayRecord]:
    """The records of the days that end after a moment, oldest first: of each day the one with most
    of the day, and of such the first that was used."""
    days: dict[int, DayRecord] = {}
    for record in (*before, *new):
        held = days.setdefault(_day(record["first"]), record)
        if _seconds(record) > _seconds(held):
            days[_day(record["first"])] = record
    return [record for _, record in sorted(days.items()) if record["behind"] > since]


def observed_days(
    records: Iterable[DayRecord],
    clicked_at: NDArray[np.float64],
    converted: NDArray[np.bool_],
    span: Span,
    weight: float = 1.0,
) -> list[DayRecord]:
    """The records inside a span of mature clicks, with what was observed of theirs in the end.

    Each click given stands for `weight` of them.
    """
    found: list[DayRecord] = []
    for record in records:
        if span[0] <= record["first"] and record["behind"] <= span[1]:
            chosen = (clicked_at >= record["first"]) & (clicked_at < record["behind"])
            observed = weight * float(np.count_nonzero(converted[chosen]))
            found.append({**record, "observed": observed})
    return found


def _days(span: Span) -> Iterator[Span]:
    first, behind = span
    for day in range(_day(first), _day(behind) + 1):
        clipped = max(first, day * SECONDS_PER_DAY), min(behind, (day + 1) * SECONDS_PER_DAY)
        if clipped[0] < clipped[1]:
            yield clipped


def _day(moment: float) -> int:
    return floor(moment / SECONDS_PER_DAY)


def _seconds(record: DayRecord) -> float:
    return float(record["behind"] - record["first"])

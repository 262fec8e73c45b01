"""A request of events in binary columns."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.columns.campaigns import (
    Ids,
    check_indices,
    read_campaigns,
    read_ends,
    read_target,
    split_texts,
)
from app.columns.header import (
    CLICKS,
    EVENT_IDS,
    IMPRESSIONS,
    INTERNED,
    OUTCOMES,
    Header,
    read_header,
)
from app.columns.sections import F8, Sections
from app.strict_json import BrokenRule

Floats = NDArray[np.float64]

_KINDS: Final = (IMPRESSIONS, CLICKS, OUTCOMES)
_CLICK: Final = "click"


class EventsRequest(NamedTuple):
    """n events of one kind and target; every column has shape (n,), but `numbers` may be (1,).

    `numbers` are indices of `names`, or interned ids. Scores, outcomes and times may be any floats:
    each event is judged by itself. Clicks alone have `impression_at`, outcomes alone `outcomes`.
    """

    header: Header
    target: str
    names: list[str]
    numbers: Ids
    scores: Floats
    occurred_at: Floats
    impression_at: Floats | None
    outcomes: Floats | None
    ids: list[str] | None


def read_events(body: bytes, most: int) -> EventsRequest:
    """The request of at most `most` events.

    Raises UnknownColumnsVersion, TooManyRows, and BrokenRule for a body that is not whole.
    """
    header = read_header(body, _KINDS)
    _check_rows(header.rows, most)
    sections = Sections(body)
    target = read_target(sections, header)
    if header.kind != OUTCOMES and target != _CLICK:
        raise BrokenRule("target", f"must be {_CLICK} for impressions and clicks", target)
    names, numbers = read_campaigns(sections, header)
    scores = sections.column("scores", F8, header.rows)
    occurred_at = sections.column("occurred_at", F8, header.rows)
    clicks, outcomes = header.kind == CLICKS, header.kind == OUTCOMES
    impression_at = sections.column("impression_at", F8, header.rows) if clicks else None
    came_true = sections.column("outcomes", F8, header.rows) if outcomes else None
    ids = _read_ids(sections, header.rows) if header.flags & EVENT_IDS else None
    sections.end()
    if not header.flags & INTERNED:
        check_indices(numbers, len(names))
    return EventsRequest(
        header, target, names, numbers, scores, occurred_at, impression_at, came_true, ids
    )


class TooManyRows(ValueError):
    """The body announces more events than one request may have."""


def _check_rows(rows: int, most: int) -> None:
    if not rows:
        raise BrokenRule("events", "must be at least one")
    if rows > most:
        raise TooManyRows(f"events = {rows}: one request takes at most {most}")


def _read_ids(sections: Sections, rows: int) -> list[str]:
    ends = read_ends(sections, "ids", rows)
    return split_texts(ends, sections.text("ids", ends[-1]), "ids")

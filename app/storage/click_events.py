"""Events of one request that name a click: clicks, behaviours and conversions.

append.lua takes them as one MessagePack map of the rules and of three arrays, an array an event:

    clicks        place, shard, click id, hour, mark, time, fields and values of the open click
    behaviours    place, shard, click id, hour, time, field, value
    conversions   place, shard, click id, time, key of the stored ones, what is stored of it

A place is the event's index in its request. Times and values are text: Lua would round them.
"""

from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from app.storage import keys
from app.storage.conversion_block import Conversion, encode_conversions
from app.storage.keys import ConversionHour, shard_of
from app.storage.open_click import OpenClick, behaviour_field, click_fields

MOST_BEHAVIOURS: Final = 256
"""Behaviours that one click may gather."""

_HOUR_SECONDS: Final = 3600
_KNOWN_RULES: Final = 16
_ENCODER: Final = msgspec.msgpack.Encoder()


class Refusal(IntEnum):
    """Why the store refused an event: what it knew of the click spoke against it."""

    REUSED = 2
    """The click id belongs to a click of another campaign."""
    CHANGED_FEATURE = 3
    """The feature was a number before and is a string now, or the other way round."""
    MANY_FEATURES = 4
    """As many names of features as there may be are known already."""
    CLOSED = 5
    """The click is closed, or is being closed."""
    EARLY = 6
    """The event is before its click."""
    FULL = 7
    """Behaviours wait for as many clicks as they may already."""
    MANY_BEHAVIOURS = 8
    """The click has as many behaviours as it may already."""
    AFTERWARDS = 9
    """The behaviour is after the post-click window of its click."""
    IMMEDIATE = 10
    """The click has no score of a delayed target, so it gathers nothing."""


class Refused(NamedTuple):
    """One event that the store refused; `detail` is the feature's name or the click's time."""

    place: int
    reason: Refusal
    detail: str


@dataclass(frozen=True, slots=True)
class ClickRules:
    """What the store checks of clicks and behaviours; times are in seconds.

    Clicks and conversions that nobody fetches are kept for `life_seconds`.
    """

    post_click_seconds: float = 3600.0
    max_features: int = 64
    max_waiting: int = 100_000
    waiting_seconds: float = 24 * 3600.0
    life_seconds: int = 9 * 24 * 3600


class ConversionEntry(NamedTuple):
    """One block of conversions on its way to its log; numbers are those of its events."""

    log: ConversionHour
    numbers: "array[int]"
    block: bytes


class ClickEvents:
    """Gathers them; an event's number is its place among clicks, then behaviours, conversions."""

    __slots__ = ("_behaviours", "_clicks", "_conversions", "_logs")

    def __init__(self) -> None:
        self._clicks: list[tuple[int, int, str, int, str, str, list[str]]] = []
        self._behaviours: list[tuple[int, int, str, int, str, str, str]] = []
        self._conversions: list[tuple[int, int, str, str, str, str]] = []
        self._logs: dict[ConversionHour, list[tuple[int, Conversion]]] = {}

    def __len__(self) -> int:
        return len(self._clicks) + len(self._behaviours) + len(self._conversions)

    def add_click(self, place: int, click: OpenClick, opens: bool) -> int:
        """Add a click, which gathers behaviours if it `opens`; returns its number."""
        at = repr(click.clicked_at)
        hour = int(click.clicked_at // _HOUR_SECONDS)
        fields = click_fields(click.campaign, at, click.scores, click.features) if opens else []
        mark = ("d" if opens else "i") + click.campaign
        shard = shard_of(click.click_id)
        self._clicks.append((place, shard, click.click_id, hour, mark, at, fields))
        return len(self._clicks) - 1

    def add_behaviour(
        self, place: int, click_id: str, name: str, occurred_at: float, value: float
    ) -> None:
        """Add what was done after a click."""
        at, hour = repr(occurred_at), int(occurred_at // _HOUR_SECONDS)
        field = behaviour_field(name, at)
        row = (place, shard_of(click_id), click_id, hour, at, field, repr(value))
        self._behaviours.append(row)

    def add_conversion(self, place: int, conversion: Conversion) -> None:
        """Add a conversion; one of the same click, target and time is a duplicate."""
        at, shard = repr(conversion.occurred_at), shard_of(conversion.click_id)
        hour = int(conversion.occurred_at // _HOUR_SECONDS)
        log = ConversionHour(shard, conversion.target, hour)
        self._logs.setdefault(log, []).append((len(self._conversions), conversion))
        member = f"{at}:{conversion.click_id}"
        row = (place, shard, conversion.click_id, at, log.converted, member)
        self._conversions.append(row)

    def packed(self, rules: ClickRules, remembered_hours: int) -> bytes:
        """The bytes that append.lua takes; ids of clicks are looked for in the hours remembered."""
        return _ENCODER.encode(
            {
                "rules": _packed_rules(rules, remembered_hours),
                "clicks": self._clicks,
                "behaviours": self._behaviours,
                "conversions": self._conversions,
            }
        )

    def conversion_entries(self) -> Iterator[ConversionEntry]:
        """A block per log."""
        first = len(self._clicks) + len(self._behaviours)
        for log, rows in self._logs.items():
            numbers = array("L", (first + number for number, _ in rows))
            yield ConversionEntry(log, numbers, encode_conversions([row for _, row in rows]))

    def places(self) -> set[int]:
        """The places of all of them."""
        gathered = (self._clicks, self._behaviours, self._conversions)
        return {row[0] for rows in gathered for row in rows}


@lru_cache(_KNOWN_RULES)
def _packed_rules(rules: ClickRules, remembered_hours: int) -> msgspec.Raw:
    return msgspec.Raw(
        _ENCODER.encode({**asdict(rules), **_NAMES, "remembered_hours": remembered_hours})
    )


_NAMES: Final = {
    "click": keys.CLICK,
    "clicked": keys.CLICKED,
    "open": keys.OPEN_CLICKS,
    "waiting": keys.WAITING,
    "shards": keys.SHARDS,
    "features": keys.FEATURES,
    "counters": keys.CLICK_COUNTERS,
    "most_behaviours": MOST_BEHAVIOURS,
}

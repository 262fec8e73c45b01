"""Open clicks: they gather behaviours for a while, then the worker closes them, exactly once.

An open click is a hash in Redis:

    campaign            the campaign
    at                  when it was clicked
    open                1 until the worker begins to close it
    p:<target>          a score
    n:<feature>         a feature that is a number
    s:<feature>         a feature that is a string
    f:<field>           the value of a field
    t:bucket            the bucket of its unit
    sum                 CRC-32 of the id and of all these but `open`, in hexadecimal digits
    b:<at>:<name>       value of a behaviour of that time, sealed

all as text, numbers as Python's `repr`, which reads back exactly. Short fields and values keep the
hash in its compact form. Behaviours that wait for their click are a hash of `b:` fields alone.
Clicks of version 1 have no `sum`, and bare values of behaviours.

Events of one request that name a click go to append.lua as one MessagePack map of the rules and of
three arrays, an array an event:

    clicks        place, shard, click id, hour, mark, time, fields and values of the open click
    behaviours    place, shard, click id, hour, time, field, value
    conversions   place, shard, click id, time, key of the stored ones, what is stored of it

A place is the event's index in its request. Times and values are text: Lua would round them.

To close is three steps: `begin_close` marks what is due and hands it out, the caller writes it
down, `finish_close` removes it. From its mark on a click changes no more, so a step that is
repeated after a death, or that two workers take at once, hands out, writes and removes the same. A
full store lets all three pass, for they free memory.
"""

import logging
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import lru_cache
from hashlib import sha1
from itertools import chain
from math import ceil
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
import redis

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.blocks import StoredConversion, encode_conversions
from app.storage.integrity.damage import Damage, Damaged
from app.storage.keys import TargetHour, seal, shard_of, unseal
from app.storage.redis.client import as_text, lua, reaching_the_store
from calibrators.arms import BUCKETS

_KEPT: Final = {"p", "n", "s", "f", "t"}
_FORMER_VALUE: Final = re.compile(r"-?[0-9.]+(e[-+]?[0-9]+)?|-?inf|nan")


@dataclass(frozen=True, slots=True)
class OpenClick:
    """A click with all that is known of it; times are epoch seconds.

    Behaviours are (name, occurred_at, value), in the order of their times, then names; `bucket` is
    that of its unit.
    """

    click_id: str
    campaign: str
    clicked_at: float
    scores: dict[str, float] = field(default_factory=dict)
    features: dict[str, float | str] = field(default_factory=dict)
    behaviours: list[tuple[str, float, float]] = field(default_factory=list)
    fields: Mapping[str, str] = field(default_factory=dict)
    bucket: int | None = None


def click_fields(click: OpenClick, at: str) -> list[str]:
    """Fields and values of a click that was just received."""
    fields = {"campaign": click.campaign, "at": at}
    for target, score in click.scores.items():
        fields[f"p:{target}"] = repr(score)
    for name, value in click.features.items():
        # How Redis tells numbers, `n`, from strings, `s`.
        kind, text = ("s", value) if isinstance(value, str) else ("n", repr(value))
        fields[f"{kind}:{name}"] = text
    fields |= {f"f:{name}": value for name, value in click.fields.items()}
    if click.bucket is not None:
        fields["t:bucket"] = str(click.bucket)
    fields |= {"sum": _sum(click.click_id, fields), "open": "1"}
    return [text for pair in fields.items() for text in pair]


def _sum(click_id: str, fields: Mapping[str, str]) -> str:
    text = "\0".join(chain.from_iterable(sorted(fields.items())))
    return f"{crc32(text.encode(), crc32(click_id.encode())):08x}"


def behaviour_field(name: str, at: str) -> str:
    """The field that makes a repeat of the behaviour a duplicate."""
    return f"b:{at}:{name}"


def click_of(click_id: str, flat: Sequence[bytes]) -> OpenClick:
    """The click whose fields and values these are; ValueError if they are none."""
    pairs = [(k.decode(), v.decode()) for k, v in zip(flat[::2], flat[1::2], strict=True)]
    own = dict(pair for pair in pairs if not pair[0].startswith("b:"))
    plain = {name for name in own if name[1:2] != ":"}
    if plain - {"sum", "open"} != {"campaign", "at"} or {k[0] for k in own.keys() - plain} - _KEPT:
        raise ValueError(f"campaign, at, p:, n:, s:, f: and t: are known, there are {sorted(own)}")
    own.pop("open", None)
    if "sum" in own and own.pop("sum") != _sum(click_id, own):
        raise ValueError("its sum is wrong")
    marked = [(k[0], k[2:], v) for k, v in own.items() if k not in plain]
    return OpenClick(
        click_id,
        own["campaign"],
        float(own["at"]),
        {name: float(value) for name, value in _sorted(marked, "p")},
        {name: float(value) for name, value in _sorted(marked, "n")} | dict(_sorted(marked, "s")),
        _behaviours(click_id, [pair for pair in pairs if pair[0].startswith("b:")]),
        dict(_sorted(marked, "f")),
        _bucket(own.get("t:bucket")),
    )


def _bucket(text: str | None) -> int | None:
    if text is None:
        return None
    bucket = int(text)
    if not 0 <= bucket < BUCKETS:
        raise ValueError(f"t:bucket = {text}: must be in [0, {BUCKETS})")
    return bucket


def _sorted(marked: Iterable[tuple[str, str, str]], mark: str) -> list[tuple[str, str]]:
    return sorted((name, value) for kind, name, value in marked if kind == mark)


def _behaviours(click_id: str, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, float, float]]:
    found = []
    for place, sealed in pairs:
        _, at, name = place.split(":", 2)
        value = unseal(sealed, click_id + place, _FORMER_VALUE)
        found.append((name, float(at), float(value)))
    return sorted(found, key=lambda behaviour: (behaviour[1], behaviour[0]))


def open_name(click_id: str) -> str:
    """How the sorted sets of clicks name it, as click_names.lua does."""
    return f"2:{sha1(click_id.encode(), usedforsecurity=False).hexdigest()[:8]}:{click_id}"


CLICKS_AT_ONCE = 1000
"""Clicks that one script reads: a longer one would keep requests waiting."""

_COUNTERS = ("closed", "damaged", "expired", "orphans", "early_behaviours", "late_behaviours")

_log = logging.getLogger(__name__)


class OpenClicks:
    """What the worker closes, expires and counts."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._damage = Damage(client)
        self._begin_close = client.register_script(lua("begin_close"))
        self._set_aside_click = client.register_script(lua("set_aside_click"))
        self._finish_close = client.register_script(lua("finish_close"))
        self._expire_waiting = client.register_script(lua("expire_waiting"))

    @reaching_the_store()
    def begin_close(
        self, before: float, limit: int, shards: Iterable[int] = range(keys.SHARDS)
    ) -> list[OpenClick]:
        """At most `limit` clicks of these shards that are due at `before` (epoch seconds) or
        earlier.

        From now on no behaviour is added to them. Asked again, it hands out the same clicks until
        `finish_close`. A click that cannot be read is set aside, logged and counted as damaged.
        """
        clicks: dict[str, OpenClick] = {}
        for shard in shards:
            for click in self._due(shard, before, limit - len(clicks)):
                clicks[click.click_id] = click
        return list(clicks.values())

    def _due(self, shard: int, before: float, limit: int) -> Iterator[OpenClick]:
        names = [keys.open_clicks(shard), keys.click_counters(shard)]
        handed_out = 0
        while handed_out < limit:
            page = min(limit - handed_out, CLICKS_AT_ONCE)
            arguments = (keys.click(shard, ""), repr(before), handed_out, page)
            found, damaged = self._begin_close(keys=names, args=arguments)
            self._keep_names(shard, damaged)
            yield from self._readable(found)
            handed_out += len(found)
            if len(found) + len(damaged) < page:
                return

    def _readable(self, found: list[tuple[bytes, list[bytes]]]) -> Iterator[OpenClick]:
        for click_id, flat in found:
            if not flat:
                _log.error("open click %r expired before it was closed", click_id)
                continue
            try:
                yield click_of(as_text(click_id), flat)
            except ValueError as error:
                _log.error("open click %r set aside: %s", click_id, error)
                self._set_aside(click_id)

    def _keep_names(self, shard: int, names: Iterable[bytes]) -> None:
        for name in names:
            self._damage.keep(Damaged.NAME, shard, name)

    def _set_aside(self, click_id: bytes) -> None:
        shard = keys.shard_of(as_text(click_id))
        names = [keys.open_clicks(shard), keys.click_counters(shard)]
        self._set_aside_click(keys=names, args=[click_id])
        self._damage.count(Damaged.CLICK)

    @reaching_the_store()
    def finish_close(self, clicks: Sequence[OpenClick]) -> int:
        """Remove closed clicks; returns how many of them were still there.

        The counter `closed` counts each once.
        """
        by_shard: dict[int, list[str]] = {}
        for click in clicks:
            by_shard.setdefault(keys.shard_of(click.click_id), []).append(click.click_id)
        removed = 0
        for shard, ids in by_shard.items():
            names = [keys.click_counters(shard), keys.open_clicks(shard)]
            names += [keys.click(shard, click_id) for click_id in ids]
            removed += int(self._finish_close(keys=names, args=ids))
        return removed

    @reaching_the_store()
    def expire_waiting(self, now: float, shards: Iterable[int] = range(keys.SHARDS)) -> int:
        """Forget behaviours whose click never came; returns how many, counted once as orphans."""
        orphans = 0
        for shard in shards:
            names = [keys.waiting(shard), keys.click_counters(shard)]
            arguments = (keys.click(shard, ""), repr(now), CLICKS_AT_ONCE)
            expired = CLICKS_AT_ONCE
            while expired == CLICKS_AT_ONCE:
                expired, behaviours, damaged = self._expire_waiting(keys=names, args=arguments)
                self._keep_names(shard, damaged)
                orphans += behaviours
        return orphans

    @reaching_the_store()
    def closed_into(self) -> str | None:
        """The id of the click log that clicks are closed into, if they are yet; ValueError where it
        is damaged."""
        found = self._client.get(keys.CLICK_LOG)
        return None if found is None else unseal(found, keys.CLICK_LOG)

    @reaching_the_store()
    def close_into(self, log: str, *, instead: bool = False) -> None:
        """Clicks are closed into the click log of this id, if into none so far, or instead."""
        self._client.set(keys.CLICK_LOG, seal(log, keys.CLICK_LOG), nx=not instead)

    @reaching_the_store()
    def counts(self) -> dict[str, int]:
        """Clicks `open` and `waiting` (for which behaviours wait) now, and counters since ever.

        `closed`, `damaged` and `expired` count clicks; `orphans` behaviours whose click never
        came; `early_behaviours` and `late_behaviours` those that waited for a click and turned out
        to be before it or after its post-click window.
        """
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zcard(keys.open_clicks(shard))
            pipeline.zcard(keys.waiting(shard))
            pipeline.hgetall(keys.click_counters(shard))
        pipeline.hgetall(keys.FORMER_CLICK_COUNTERS)
        *found, former = pipeline.execute()
        counters = Counter(dict.fromkeys(_COUNTERS, 0))
        for counted in (*found[2::3], former):
            readable = {as_text(name): text for name, text in counted.items() if text.isdigit()}
            counters.update({name: int(text) for name, text in readable.items()})
        return {"open": sum(found[::3]), "waiting": sum(found[1::3]), **counters}


MOST_BEHAVIOURS: Final = 256
"""Behaviours that one click may gather."""

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


class StoreRefusal(NamedTuple):
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

    log: TargetHour
    numbers: "array[int]"
    block: bytes


class ClickEvents:
    """Gathers them; an event's number is its place among clicks, then behaviours, conversions."""

    __slots__ = ("_behaviours", "_clicks", "_conversions", "_logs")

    def __init__(self) -> None:
        self._clicks: list[tuple[int, int, str, int, str, str, list[str]]] = []
        self._behaviours: list[tuple[int, int, str, int, str, str, str]] = []
        self._conversions: list[tuple[int, int, str, str, str, str]] = []
        self._logs: dict[TargetHour, list[tuple[int, StoredConversion]]] = {}

    def __len__(self) -> int:
        return len(self._clicks) + len(self._behaviours) + len(self._conversions)

    def add_click(self, place: int, click: OpenClick, opens: bool) -> int:
        """Add a click, which gathers behaviours if it `opens`; returns its number."""
        at = repr(click.clicked_at)
        hour = int(click.clicked_at // SECONDS_PER_HOUR)
        fields = click_fields(click, at) if opens else []
        mark = ("d" if opens else "i") + click.campaign
        shard = shard_of(click.click_id)
        self._clicks.append((place, shard, click.click_id, hour, mark, at, fields))
        return len(self._clicks) - 1

    def add_behaviour(
        self, place: int, click_id: str, name: str, occurred_at: float, value: float
    ) -> None:
        """Add what was done after a click."""
        at, hour = repr(occurred_at), int(occurred_at // SECONDS_PER_HOUR)
        field = behaviour_field(name, at)
        sealed = seal(repr(value), click_id + field)
        row = (place, shard_of(click_id), click_id, hour, at, field, sealed)
        self._behaviours.append(row)

    def add_conversion(self, place: int, conversion: StoredConversion) -> None:
        """Add a conversion; one of the same click, target and time is a duplicate."""
        at, shard = repr(conversion.occurred_at), shard_of(conversion.click_id)
        hour = int(conversion.occurred_at // SECONDS_PER_HOUR)
        log = TargetHour(shard, conversion.target, hour)
        self._logs.setdefault(log, []).append((len(self._conversions), conversion))
        member = f"{at}:{conversion.click_id}"
        row = (place, shard, conversion.click_id, at, log.converted, member)
        self._conversions.append(row)

    def by_shard(self) -> dict[int, tuple["ClickEvents", dict[int, int]]]:
        """Those of each shard, and by the number of each what it is among them."""
        parts: dict[int, tuple[ClickEvents, dict[int, int]]] = {}
        number = 0
        for name in ("_clicks", "_behaviours", "_conversions"):
            for row in getattr(self, name):
                part, numbers = parts.setdefault(row[1], (ClickEvents(), {}))
                numbers[number] = len(part)
                getattr(part, name).append(row)
                number += 1
        first = len(self._clicks) + len(self._behaviours)
        for log, rows in self._logs.items():
            part, numbers = parts[log.shard]
            behind = len(part._clicks) + len(part._behaviours)
            part._logs[log] = [(numbers[first + at] - behind, one) for at, one in rows]
        return parts

    def packed(self, rules: ClickRules, remembered_hours: int, *, alone: bool = False) -> bytes:
        """The bytes that append.lua takes; ids of clicks are looked for in the hours remembered.
        Those of one shard `alone` are told nothing of others."""
        return _ENCODER.encode(
            {
                "rules": _packed_rules(rules, remembered_hours, alone),
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
            block = encode_conversions([row for _, row in rows], log.checksum)
            yield ConversionEntry(log, numbers, block)

    def places(self) -> set[int]:
        """The places of all of them."""
        gathered = (self._clicks, self._behaviours, self._conversions)
        return {row[0] for rows in gathered for row in rows}


@lru_cache(_KNOWN_RULES)
def _packed_rules(rules: ClickRules, remembered_hours: int, alone: bool) -> msgspec.Raw:
    names = {**asdict(rules), **_NAMES, "remembered_hours": remembered_hours, "alone": alone}
    if alone:
        names |= {
            "features": keys.SHARD_FEATURES,
            "max_waiting": ceil(rules.max_waiting / keys.SHARDS),
        }
    return msgspec.Raw(_ENCODER.encode(names))


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

"""Events of one target as columns, cut into blocks, one per log, over all of them at once.

Ids go to append.lua as one argument, a MessagePack array of their hashes: an argument an id would
cost client, protocol and script more than the checking of the ids itself.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.storage.blocks import (
    LARGEST_WEIGHT,
    NUMBER_BYTES,
    TERMS,
    VALUE_BYTES,
    PackedRows,
    TermColumns,
    check_terms,
    pack_short_names,
    without_none,
)
from app.storage.keys import SHARDS, TargetHour, shard_of_campaign, shards_of
from calibrators.fields.columns import FIELD_HEAD, NARROW, WIDE, FieldColumns, chosen, encoded
from calibrators.fields.sums import OTHER, FieldColumn
from calibrators.samples import Floats, Integers

LONGEST_ID: Final = 64
"""Bytes of an event id that names itself; a longer id is named by its digest."""
ID_BYTES: Final = 8
"""Of a name Redis keeps a hash of so many bytes."""

_ARRAY: Final = struct.Struct(">BI")
_ARRAY_32: Final = 0xDD
_SHORT_STRING, _STRING_8, _SHORT = 0xA0, 0xD9, 32
_HASH: Final = bytes((_SHORT_STRING | ID_BYTES,))
_HEADS: Final = tuple(
    bytes((_SHORT_STRING | size,)) if size < _SHORT else bytes((_STRING_8, size))
    for size in range(LONGEST_ID + 2)
)


def stored_id(event_id: str, count: float) -> bytes:
    """At most 1 + LONGEST_ID bytes; a count of 0, that of a click, tells it from an impression."""
    return _stored(b"c" if count == 0 else b"i", event_id.encode())


def stored_ids(event_ids: Iterable[str]) -> list[bytes]:
    """`stored_id` of events that count."""
    names = [event_id.encode() for event_id in event_ids]
    if max(map(len, names), default=0) <= LONGEST_ID:
        return [b"i" + name for name in names]
    return [_stored(b"i", name) for name in names]


def hash_ids(stored: Sequence[bytes]) -> list[bytes]:
    """What Redis keeps of each: ID_BYTES bytes."""
    return [blake2b(name, digest_size=ID_BYTES).digest() for name in stored]


def pack_hashes(hashes: Sequence[bytes]) -> bytes:
    """The argument of append.lua: what it looks for, and stores."""
    if not hashes:
        return _ARRAY.pack(_ARRAY_32, 0)
    return _ARRAY.pack(_ARRAY_32, len(hashes)) + _HASH + _HASH.join(hashes)


def pack_ids(stored: Sequence[bytes]) -> bytes:
    """The same of the names themselves: as they were stored before there were hashes."""
    array = _ARRAY.pack(_ARRAY_32, len(stored))
    return array + b"".join([_HEADS[len(name)] + name for name in stored])


def _stored(kind: bytes, name: bytes) -> bytes:
    if len(name) <= LONGEST_ID:
        return kind + name
    return kind.upper() + blake2b(name, digest_size=LONGEST_ID // 2).digest()


_ONE: Final = struct.pack("<d", 1.0)
ANY_SHARD: Final = -1
"""Of an entry that may stand in the log of any shard."""


class LogEntry(NamedTuple):
    """One block on its way to its log.

    No row has an id and there are no numbers, or the first rows have ids, and each of the others
    is the click event of its number: it counts if that is stored.
    """

    log: TargetHour
    ids: Sequence[bytes]
    block: PackedRows
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class EventColumns:
    """n events of one target, each of which counts 1.

    rows[i] is the index into `campaigns`, m distinct names, of event i; hours[i] is floor(epoch
    seconds / 3600); positives[i] what it adds to the positives. Either every event has an id or
    none has.
    """

    campaigns: Sequence[str]
    rows: NDArray[np.intp]
    hours: Integers
    scores: Floats
    positives: Floats
    ids: Sequence[str] | None = None
    terms: TermColumns | None = None
    fields: FieldColumns | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def check(self) -> None:
        """ValueError on a score outside [0, 1] or a positive outside [0, LARGEST_WEIGHT], and on
        terms that cannot be."""
        # A comparison with NaN is false: it must not be what lets a value pass.
        scores, positives = self.scores, self.positives
        if not (scores.min(initial=0.0) >= 0.0 and scores.max(initial=0.0) <= 1.0):
            raise ValueError("a score must be in [0, 1]")
        if not (positives.min(initial=0.0) >= 0.0 and positives.max(initial=0.0) <= LARGEST_WEIGHT):
            raise ValueError(f"a positive must be in [0, {LARGEST_WEIGHT:.0f}]")
        if self.terms is not None:
            check_terms(self.terms)

    def without_repeats(self) -> "EventColumns":
        """The first events of those that share an id within one log."""
        if self.ids is None or len(set(self.ids)) == len(self.ids):
            return self
        first: dict[tuple[int, str], int] = {}
        for place, known in enumerate(zip(self._logs().tolist(), self.ids, strict=True)):
            first.setdefault(known, place)
        kept = np.fromiter(first.values(), np.intp, len(first))
        return replace(
            self,
            rows=self.rows[kept],
            hours=self.hours[kept],
            scores=self.scores[kept],
            positives=self.positives[kept],
            ids=[self.ids[place] for place in kept.tolist()],
            terms=None if self.terms is None else self.terms[kept],
            fields=None if self.fields is None else chosen(self.fields, kept),
        )

    def entries(self, target: str) -> Iterator[LogEntry]:
        """A block per log; rows come in the order of their campaigns."""
        if not len(self):
            return
        logs = self._logs()
        pairs = logs * len(self.campaigns) + self.rows
        order = np.argsort(pairs, kind="stable")
        begins = _starts(pairs[order])
        firsts = _starts(logs[order[begins]])
        yield from self._cut(target, order, begins, firsts)

    def _cut(
        self, target: str, order: Integers, begins: Integers, firsts: Integers
    ) -> Iterator[LogEntry]:
        """order (n,) sorts by log and campaign; begins: where each campaign of a log starts in it;
        firsts: which of those is the first of its log.
        """
        names = [self.campaigns[row] for row in self.rows[order[begins]].tolist()]
        ids = None if self.ids is None else stored_ids([self.ids[at] for at in order.tolist()])
        hours = self.hours[order[begins[firsts]]].tolist()
        numbers = _numbers(len(order), begins, firsts)
        scores, positives = _packed(self.scores[order]), _packed(self.positives[order])
        terms = b"" if self.terms is None else self.terms[order].tobytes()
        fields = FieldPacker(chosen(self.fields, order)) if self.fields else None
        campaigns_at = pairwise([*firsts.tolist(), len(begins)])
        rows_at = pairwise([*begins[firsts].tolist(), len(order)])
        for hour, (one, other), (start, stop) in zip(hours, campaigns_at, rows_at, strict=True):
            some = names[one:other]
            values = slice(start * VALUE_BYTES, stop * VALUE_BYTES)
            block = PackedRows(
                some,
                numbers[start * NUMBER_BYTES : stop * NUMBER_BYTES],
                scores[values],
                _ONE * (stop - start),
                positives[values],
                without_none(terms[start * TERMS.itemsize : stop * TERMS.itemsize]),
                b"" if fields is None else fields.packed(slice(start, stop)),
            )
            log = TargetHour(ANY_SHARD if ids is None else shard_of_campaign(some[0]), target, hour)
            yield LogEntry(log, ids[start:stop] if ids else (), block, ())

    def _logs(self) -> Integers:
        """Numbers (n,) of the logs of the events, by hour and, of events with ids, by shard."""
        hours: Integers = self.hours - self.hours.min(initial=0)
        return hours if self.ids is None else hours * SHARDS + self._shards()

    def _shards(self) -> Integers:
        """Shards (n,) of the events' campaigns; there may be many more names than events."""
        if len(self.campaigns) <= len(self):
            return shards_of(self.campaigns)[self.rows]
        return shards_of([self.campaigns[row] for row in self.rows.tolist()])


def _starts(values: Integers) -> Integers:
    """Where in values (n,), n > 0, each run of equal ones begins."""
    differs = np.empty(len(values), np.bool_)
    differs[0] = True
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    starts: Integers = differs.nonzero()[0]
    return starts


def _numbers(length: int, begins: Integers, firsts: Integers) -> bytes:
    """Of each of `length` rows, in order, the number of its campaign within its log."""
    steps = np.zeros(length, "<i4")
    steps[begins] = 1
    steps[begins[firsts[1:]]] = 1 - np.diff(firsts)
    steps[0] = 0
    return np.cumsum(steps, dtype="<i4").tobytes()


def _packed(values: Floats) -> bytes:
    return values.astype("<f8", copy=False).tobytes()


_MOST_OF_NARROW: Final = 1 << 16
FieldValues = Mapping[str, str]
"""What one event says, by field."""

_NOTHING: Final[FieldValues] = {}


def columns_of(events: Sequence[FieldValues | None]) -> dict[str, FieldColumn]:
    """The columns of n events, of every field that any of them names."""
    given = [event or _NOTHING for event in events]
    names = sorted(set().union(*given))
    return {name: encoded([event.get(name, OTHER) for event in given]) for name in names}


class FieldPacker:
    """The bytes of the fields of runs of n events: of the events of one log after the other."""

    def __init__(self, columns: FieldColumns) -> None:
        self._columns = columns
        self._heads = {name: _head(name, column.names) for name, column in columns.items()}

    def packed(self, events: slice) -> bytes:
        """Those of consecutive events."""
        parts = [bytes((len(self._columns),))]
        for name, (values, codes) in self._columns.items():
            head, some = self._heads[name], codes[events]
            if len(values) > len(some):
                # What other logs need is not written into each; numpy costs more for so few.
                listed = some.tolist()
                places = dict(zip(dict.fromkeys(listed), count(), strict=False))
                head = _head(name, [values[code] for code in places])
                some = np.array([places[code] for code in listed], f"<u{_width(len(places))}")
            else:
                some = some.astype(f"<u{_width(len(values))}")
            parts += (head, some.tobytes())
        return b"".join(parts)


def pack_fields(columns: FieldColumns) -> bytes:
    """The bytes of all of them; nothing of no fields."""
    return FieldPacker(columns).packed(slice(None)) if columns else b""


def _head(name: str, values: Sequence[str]) -> bytes:
    names, encoded = pack_short_names(values), name.encode()
    head = FIELD_HEAD.pack(len(encoded), _width(len(values)), len(values), len(names))
    return head + encoded + names


def _width(values: int) -> int:
    return NARROW if values <= _MOST_OF_NARROW else WIDE

"""What one request stores, gathered event by event into blocks, one per log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import compress, repeat
from typing import Final, NamedTuple

import numpy as np

from app.storage.blocks import (
    LARGEST_WEIGHT,
    NO_TERMS,
    NUMBER_BYTES,
    PackedRows,
    StoredConversion,
    Terms,
    joined_terms,
    packed_terms,
)
from app.storage.clicks import ClickEvents, OpenClick
from app.storage.event_columns import (
    ANY_SHARD,
    EventColumns,
    FieldValues,
    LogEntry,
    columns_of,
    pack_fields,
    stored_id,
)
from app.storage.keys import TargetHour, shard_of, shard_of_campaign
from calibrators.bins.model_versions import named
from calibrators.fields.columns import end_to_end, unpack_fields

_FEW: Final = 32
"""Up to so many events in columns are sooner added one by one, and can be joined."""

Row = tuple[str, float, float, float]
"""Campaign, score, count, and what it adds to the positives."""


class Cell(NamedTuple):
    """Where, on what terms, with what fields and by which version of the model a click is a
    positive; hour is floor(epoch seconds / 3600)."""

    target: str
    hour: int
    score: float
    terms: Terms | None = None
    fields: FieldValues | None = None
    model_version: str | None = None


class EventBatch:
    """Events of one request.

    An event with an id counts once within its target, hour and campaign's shard, one without an id
    each time that it is added. An impression and the click that followed it may share an id: the
    click's count of 0 tells them apart. Of events that name a click the store itself says whether
    they count; a place is an event's index in its request, to tell which of them it refused.
    """

    __slots__ = ("_columns", "_entries", "_repeats", "_size", "click_events")

    def __init__(self) -> None:
        self.click_events: ClickEvents | None = None
        self._columns: dict[tuple[int, str, int, bool], _Columns] = {}
        self._entries: list[LogEntry] = []
        self._repeats = 0
        self._size = 0

    def __len__(self) -> int:
        """Number of events, those that repeat an id of the batch included."""
        return self._size + (0 if self.click_events is None else len(self.click_events))

    @property
    def repeats(self) -> int:
        """Number of events that repeat an id of this very batch."""
        return self._repeats

    def add(
        self,
        target: str,
        hour: int,
        campaign: str,
        score: float,
        count: float,
        positive: float,
        event_id: str | None = None,
        terms: Terms | None = None,
        fields: FieldValues | None = None,
    ) -> None:
        """Add one event of one target; hour is floor(epoch seconds / 3600).

        An impression counts 1 and adds no positive, its click counts 0 and adds 1, an outcome
        counts 1 and adds its value. Raises ValueError on a score outside [0, 1], and on a count or
        a positive outside [0, LARGEST_WEIGHT].
        """
        in_range = 0.0 <= score <= 1.0
        if not (in_range and 0.0 <= count <= LARGEST_WEIGHT and 0.0 <= positive <= LARGEST_WEIGHT):
            raise ValueError(_complaint(score, count, positive))
        self._size += 1
        # Without an id it may stand in the log of any shard.
        shard = ANY_SHARD if event_id is None else shard_of_campaign(campaign)
        key = (shard, target, hour, event_id is None)
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = _Columns()
        if event_id is not None and not columns.is_new(stored_id(event_id, count)):
            self._repeats += 1
            return
        if terms is not None:
            columns.terms[len(columns.rows)] = terms
        if fields:
            columns.fields[len(columns.rows)] = fields
        columns.rows.append((campaign, score, count, positive))

    def add_rows(self, target: str, hours: Sequence[int], rows: Sequence[Row]) -> None:
        """Add events of one target that have neither ids nor terms nor fields; the same as `add` of
        each. Raises ValueError on a score outside [0, 1]."""
        for _, score, count, positive in rows:
            if not 0.0 <= score <= 1.0:
                raise ValueError(_complaint(score, count, positive))
        self._size += len(rows)
        for hour in dict.fromkeys(hours):
            columns = self._columns.setdefault((ANY_SHARD, target, hour, True), _Columns())
            one = hours.count(hour) == len(rows)
            columns.rows += rows if one else compress(rows, map(hour.__eq__, hours))

    def add_columns(self, target: str, columns: EventColumns) -> None:
        """Add events of one target all at once; the same as `add` of each, but faster for many.

        Ids of many that were added before are only found again by the store. Raises ValueError on a
        score or a positive out of range.
        """
        columns.check()
        if len(columns) <= _FEW:
            self._add_each(target, columns)
            return
        kept = columns.without_repeats()
        self._size += len(columns)
        self._repeats += len(columns) - len(kept)
        self._entries += kept.entries(target)

    def _add_each(self, target: str, columns: EventColumns) -> None:
        hours, scores = columns.hours.tolist(), columns.scores.tolist()
        campaigns = [columns.campaigns[row] for row in columns.rows.tolist()]
        more = (columns.ids or repeat(None), _terms_of(columns), _fields_of(columns))
        given = zip(hours, campaigns, scores, columns.positives.tolist(), *more, strict=False)
        for hour, campaign, score, positive, event_id, terms, fields in given:
            self.add(target, hour, campaign, score, 1.0, positive, event_id, terms, fields)

    def add_derived(self, target: str, columns: EventColumns) -> None:
        """Add what follows from events of the batch, of a `keys.product`: these rows count neither
        as events nor as duplicates. Raises as `add_columns`."""
        columns.check()
        self._entries += columns.without_repeats().entries(target)

    def add_click(
        self, place: int, click: OpenClick, *, opens: bool, cell: Cell | None = None
    ) -> None:
        """Add a click: a positive of its `cell`, and an open click if it `opens`.

        Its id counts once, whatever its cell. Raises ValueError on a cell's score outside [0, 1].
        """
        if cell is not None and not 0.0 <= cell.score <= 1.0:
            raise ValueError(_complaint(cell.score, 0.0, 1.0))
        number = self._of_clicks().add_click(place, click, opens)
        if cell is not None:
            key = (shard_of(click.click_id), cell.target, cell.hour, False)
            columns = self._columns.setdefault(key, _Columns())
            if cell.terms is not None:
                columns.click_terms[len(columns.numbers)] = cell.terms
            if cell.fields:
                columns.click_fields[len(columns.numbers)] = cell.fields
            campaign = named(click.campaign, cell.model_version)
            columns.append_click(campaign, cell.score, number)

    def add_behaviour(
        self, place: int, click_id: str, name: str, occurred_at: float, value: float
    ) -> None:
        """Add what was done after a click; the same at the same time is a duplicate."""
        self._of_clicks().add_behaviour(place, click_id, name, occurred_at, value)

    def add_conversion(self, place: int, conversion: StoredConversion) -> None:
        """Add a conversion; one of the same click, target and time is a duplicate."""
        self._of_clicks().add_conversion(place, conversion)

    @property
    def may_be_joined(self) -> bool:
        """Whether it consists of events that were added one by one and name no click."""
        return self.click_events is None and not self._entries

    def shares_ids(self, other: "EventBatch") -> bool:
        """Whether any id stands in both, within one log."""
        return not all(
            columns.ids.keys().isdisjoint(self._columns[key].ids)
            for key, columns in other._columns.items()
            if key in self._columns
        )

    def join(self, other: "EventBatch") -> None:
        """Add the events of another; both may be joined, and share no ids."""
        self._size += other._size
        self._repeats += other._repeats
        for key, columns in other._columns.items():
            self._columns.setdefault(key, _Columns()).join(columns)

    def ids_among(self, logs: Mapping[TargetHour, Set[bytes]]) -> int:
        """How many of these stored ids, by log, are of our events."""
        return sum(
            len(self._columns[*log, False].ids.keys() & ids)
            for log, ids in logs.items()
            if (*log, False) in self._columns
        )

    def _of_clicks(self) -> ClickEvents:
        if self.click_events is None:
            self.click_events = ClickEvents()
        return self.click_events

    def entries(self, any_shard: int = ANY_SHARD) -> Iterator[LogEntry]:
        """A block per log, but one more where only some of its events have ids, and for columns.
        What may stand in any shard is in the one that is given."""
        for entry in self._all_entries():
            log = entry.log
            anywhere = log.shard == ANY_SHARD
            yield entry._replace(log=log._replace(shard=any_shard)) if anywhere else entry

    def _all_entries(self) -> Iterator[LogEntry]:
        left = dict(self._columns)
        for entry in self._entries:
            log = entry.log
            clicks = left.get((log.shard, log.target, log.hour, False)) if entry.ids else None
            if clicks is None or clicks.ids:
                yield entry
            else:
                del left[log.shard, log.target, log.hour, False]
                yield clicks.behind(entry)
        for (shard, target, hour, _), columns in left.items():
            log = TargetHour(shard, target, hour)
            yield LogEntry(log, list(columns.ids), columns.block(), columns.numbers)


class _Columns:
    """Rows of one block while they are gathered; those of clicks come last."""

    __slots__ = (
        "click_fields",
        "click_rows",
        "click_terms",
        "fields",
        "ids",
        "numbers",
        "rows",
        "terms",
    )

    def __init__(self) -> None:
        self.ids: dict[bytes, None] = {}
        self.rows: list[Row] = []
        self.click_rows: list[Row] = []
        self.numbers: list[int] = []
        self.terms: dict[int, Terms] = {}
        self.click_terms: dict[int, Terms] = {}
        self.fields: dict[int, FieldValues] = {}
        self.click_fields: dict[int, FieldValues] = {}

    def is_new(self, stored_id: bytes) -> bool:
        before = len(self.ids)
        self.ids[stored_id] = None
        return len(self.ids) > before

    def join(self, other: "_Columns") -> None:
        """Rows without clicks behind ours."""
        first = len(self.rows)
        self.rows += other.rows
        self.ids |= other.ids
        if other.terms:
            self.terms |= {first + row: terms for row, terms in other.terms.items()}
        if other.fields:
            self.fields |= {first + row: fields for row, fields in other.fields.items()}

    def append_click(self, campaign: str, score: float, number: int) -> None:
        self.click_rows.append((campaign, score, 0.0, 1.0))
        self.numbers.append(number)

    def block(self) -> PackedRows:
        campaigns, scores, counts, positives = zip(*self.rows, *self.click_rows, strict=True)
        places = {name: place for place, name in enumerate(dict.fromkeys(campaigns))}
        return PackedRows(
            tuple(places),
            _numbers([*map(places.__getitem__, campaigns)]),
            _values(scores),
            _values(counts),
            _values(positives),
            # Most events have none: not a call for them.
            self._packed_terms() if self.terms or self.click_terms else b"",
            self._packed_fields() if self.fields or self.click_fields else b"",
        )

    def _packed_terms(self) -> bytes:
        own = (len(self.rows), packed_terms(len(self.rows), self.terms))
        return joined_terms(own, self._click_terms())

    def _click_terms(self) -> tuple[int, bytes]:
        return len(self.numbers), packed_terms(len(self.numbers), self.click_terms)

    def _packed_fields(self) -> bytes:
        own = [self.fields.get(row) for row in range(len(self.rows))]
        return pack_fields(columns_of([*own, *self._click_fields()]))

    def _click_fields(self) -> list[FieldValues | None]:
        return [self.click_fields.get(number) for number in range(len(self.numbers))]

    def behind(self, entry: LogEntry) -> LogEntry:
        """The entry, all rows of which have ids, with our clicks behind them."""
        names, rows, scores, counts, positives, terms, fields = entry.block
        places = {name: place for place, name in enumerate(names)}
        campaigns, *values = zip(*self.click_rows, strict=True)
        numbers = [places.setdefault(name, len(places)) for name in campaigns]
        before = len(rows) // NUMBER_BYTES
        behind = [_values(column) for column in values]
        joined = PackedRows(
            tuple(places),
            rows + _numbers(numbers),
            scores + behind[0],
            counts + behind[1],
            positives + behind[2],
            joined_terms((before, terms), self._click_terms()),
            self._fields_behind(fields, before) if fields or self.click_fields else b"",
        )
        return LogEntry(entry.log, entry.ids, joined, self.numbers)

    def _fields_behind(self, packed: bytes, length: int) -> bytes:
        before = unpack_fields(packed, length) if packed else {}
        clicks = columns_of(self._click_fields())
        return pack_fields(end_to_end([(length, before), (len(self.numbers), clicks)]))


def _terms_of(columns: EventColumns) -> Iterable[Terms | None]:
    if columns.terms is None:
        return repeat(None)
    each = (Terms(*terms) for terms in columns.terms.tolist())
    return [None if terms == NO_TERMS else terms for terms in each]


def _fields_of(columns: EventColumns) -> Iterable[FieldValues | None]:
    if not columns.fields:
        return repeat(None)
    values = [[names[code] for code in codes.tolist()] for names, codes in columns.fields.values()]
    return [dict(zip(columns.fields, event, strict=True)) for event in zip(*values, strict=True)]


def _numbers(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def _values(values: Sequence[float]) -> bytes:
    return np.array(values, "<f8").tobytes()


def _complaint(score: float, count: float, positive: float) -> str:
    if not 0.0 <= score <= 1.0:
        return f"score = {score}: a score must be in [0, 1]"
    return f"count = {count}, positive = {positive}: both must be in [0, {LARGEST_WEIGHT:.0f}]"

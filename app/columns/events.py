"""Events in binary columns: the request, and how its events are admitted: all at once what is in
order, the rest one by one.

What the checks of whole columns doubt goes the way of the same events in JSON, which finds the
error of each; so both bodies store the same and refuse the same.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.columns.campaigns import (
    Ids,
    check_indices,
    read_campaigns,
    read_ends,
    read_fields,
    read_target,
    split_texts,
)
from app.columns.layout import (
    CLICKS,
    EVENT_IDS,
    F8,
    FIELDS,
    IMPRESSIONS,
    INTERNED,
    MONEY,
    OUTCOMES,
    U1,
    U8,
    UNITS,
    Header,
    Sections,
    read_header,
)
from app.events.admission import CLICK, LONGEST_ID, Admission
from app.events.reading import Parsed
from app.events.rejections import EventRejection, OpenTimes
from app.events.schema import (
    RULES,
    Click,
    Event,
    Impression,
    TargetOutcome,
    TooManyEvents,
    are_field_values,
)
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.blocks import LARGEST_WEIGHT, NO_TERMS, TERMS, TermColumns
from app.storage.blocks import MONEY as PRICES
from app.storage.event_columns import EventColumns
from app.strict_json import InvalidNumber, ValidationError, convert
from calibrators.arms import ARMS, UnitNumbers, buckets_of
from calibrators.bins.model_versions import SEPARATOR, is_version, parted
from calibrators.fields.columns import FieldColumns, by_event
from calibrators.fields.columns import chosen as chosen_of
from calibrators.fields.sums import OTHER, FieldColumn
from calibrators.samples import Floats

_KINDS: Final = (IMPRESSIONS, CLICKS, OUTCOMES)
_CLICK: Final = "click"


class EventsRequest(NamedTuple):
    """n events of one kind and target; every column has shape (n,), but `numbers` may be (1,).

    `numbers` are indices of `names`, or interned ids. Scores, outcomes, times, arms and money may
    be any numbers: each event is checked by itself. Clicks alone have `impression_at`, outcomes
    alone `outcomes`. `units` are their numbers, 0 for none; `money` is by its name, nan where it is
    not given.
    """

    header: Header
    target: str
    names: Sequence[str]
    numbers: Ids
    scores: Floats
    occurred_at: Floats
    impression_at: Floats | None
    outcomes: Floats | None
    ids: list[str] | None
    fields: FieldColumns | None = None
    units: UnitNumbers | None = None
    arms: NDArray[np.uint8] | None = None
    money: Mapping[str, Floats] = MappingProxyType({})


def read_events(body: bytes, most: int) -> EventsRequest:
    """The request of at most `most` events.

    Raises UnknownColumnsVersion, TooManyEvents, and ValidationError for a body that is not whole.
    """
    header = read_header(body, _KINDS)
    _check_rows(header.rows, most)
    sections = Sections(body)
    target = read_target(sections, header)
    if header.kind != OUTCOMES and target != _CLICK:
        raise ValidationError("target", f"must be {_CLICK} for impressions and clicks", target)
    names, numbers = read_campaigns(sections, header)
    scores = sections.column("scores", F8, header.rows)
    occurred_at = sections.column("occurred_at", F8, header.rows)
    clicks, outcomes = header.kind == CLICKS, header.kind == OUTCOMES
    impression_at = sections.column("impression_at", F8, header.rows) if clicks else None
    came_true = sections.column("outcomes", F8, header.rows) if outcomes else None
    ids = _read_ids(sections, header.rows) if header.flags & EVENT_IDS else None
    units = arms = None
    if header.flags & UNITS:
        units, arms = (sections.column(n, t, header.rows) for n, t in (("units", U8), ("arms", U1)))
    priced = PRICES if header.flags & MONEY else ()
    money = {name: sections.column(name, F8, header.rows) for name in priced}
    fields = read_fields(sections, header.rows) if header.flags & FIELDS else None
    sections.end()
    if not header.flags & INTERNED:
        check_indices(numbers, len(names))
    columns = (scores, occurred_at, impression_at, came_true, ids, fields, units, arms, money)
    return EventsRequest(header, target, names, numbers, *columns)


def _check_rows(rows: int, most: int) -> None:
    if not rows:
        raise ValidationError("events", "must be at least one")
    if rows > most:
        raise TooManyEvents(rows, most)


def _read_ids(sections: Sections, rows: int) -> list[str]:
    ends = read_ends(sections, "ids", rows)
    return split_texts(ends, sections.text("ids", ends[-1]), "ids")


Mask = NDArray[np.bool_]

_SLICE: Final = 64
"""Events that are checked one by one without a turn for others: a millisecond or so."""

_NO_NAME: Final = "must be the id of one; 0 and empty names stand for any without a map of its own"


class _Kind(NamedTuple):
    """What the events of a kind of body are in JSON."""

    event: type[Impression | Click | TargetOutcome]
    tag: str
    id_field: str = ""


_KIND_NAMES: Final = {
    IMPRESSIONS: _Kind(Impression, "impression", "id"),
    CLICKS: _Kind(Click, "click", "click_id"),
    OUTCOMES: _Kind(TargetOutcome, "outcome"),
}


class EventAdmission:
    """Admits the events of one request, whose campaigns are the names at `places`, (n,)."""

    def __init__(
        self,
        request: EventsRequest,
        names: Sequence[str],
        places: NDArray[np.intp],
        settings: Settings,
        times: OpenTimes,
    ) -> None:
        self.admission = Admission(settings, times)
        self._request = request
        self._kind = _KIND_NAMES[request.header.kind]
        self._names = names
        self._places = places
        self._settings = settings
        self._times = times

    def admit_all(self) -> Iterator[None]:
        """Adds every event that counts to the batch, a slice a step; the rejections get others."""
        of_type = self._of_type()
        in_order = self._in_order(of_type)
        hours = self._times.hours(self._request.occurred_at[in_order])
        if hours is None:
            in_order[:] = False
        elif in_order.any():
            self._add(in_order, hours)
        self.admission.admitted[self._kind.tag] += int(in_order.sum())
        doubted = np.flatnonzero(~in_order)
        for start in range(0, len(doubted), _SLICE):
            yield from self._admit_each(doubted[start : start + _SLICE], of_type)
            yield

    def _of_type(self) -> Mask:
        """Which events have only numbers that the schema takes, (n,)."""
        request = self._request
        of_type: Mask = _within(request.scores, 0.0, 1.0) & np.isfinite(request.occurred_at)
        if request.impression_at is not None:
            of_type &= np.isfinite(request.impression_at)
        if request.outcomes is not None:
            of_type &= _within(request.outcomes, 0.0, 1.0)
        if request.arms is not None:
            of_type &= (request.arms < len(ARMS)) | (request.arms == NO_TERMS.arm)
        for prices in request.money.values():
            of_type &= _within(prices, 0.0, LARGEST_WEIGHT) | np.isnan(prices)
        return of_type

    def _in_order(self, of_type: Mask) -> Mask:
        """Which events surely count, (n,); none of a kind that is not added as columns."""
        request = self._request
        if request.header.kind == CLICKS or request.target not in self._settings.targets:
            return np.zeros(len(self._places), np.bool_)
        longest = self._settings.max_campaign_bytes
        fits = [
            len(name.encode()) <= longest
            and name[:1] not in ("", SEPARATOR)
            and all(map(is_version, name.split(SEPARATOR, 1)[1:]))
            for name in self._names
        ]
        named: Mask = np.array(fits, np.bool_)
        earliest = self._times.first_hour * SECONDS_PER_HOUR
        in_order: Mask = of_type & named[self._places]
        in_order &= _within(request.occurred_at, earliest, self._times.latest)
        if request.ids is not None:
            sizes = np.fromiter(map(len, request.ids), np.int64, len(request.ids))
            in_order &= (sizes > 0) & (sizes <= LONGEST_ID)
        for name, column in (request.fields or {}).items():
            in_order &= self._fits(name, column)
        return in_order

    def _fits(self, name: str, column: FieldColumn) -> Mask:
        """Which events' values of a field may be, (n,)."""
        declared = name in self._settings.fields
        fits = [value == OTHER or (declared and are_field_values((value,))) for value in column[0]]
        mask: Mask = np.array(fits, np.bool_)[column.codes]
        return mask

    def _add(self, chosen: Mask, hours: NDArray[np.int64]) -> None:
        request = self._request
        places, scores = self._places[chosen], request.scores[chosen]
        positives = np.zeros(len(scores))
        if request.outcomes is not None:
            positives = request.outcomes[chosen]
        ids = None
        if request.ids is not None:
            ids = [request.ids[place] for place in np.flatnonzero(chosen).tolist()]
        # Of a field that is not declared these say nothing: so it is not said.
        declared = {
            name: column
            for name, column in (request.fields or {}).items()
            if name in self._settings.fields
        }
        fields = chosen_of(declared, chosen)
        terms = self._terms(chosen)
        columns = EventColumns(
            self._names, places, hours, scores, positives, ids, terms, fields or None
        )
        self.admission.batch.add_columns(request.target, columns)

    def _terms(self, chosen: Mask) -> TermColumns | None:
        request = self._request
        if request.units is None and not request.money:
            return None
        terms = np.full(np.count_nonzero(chosen), np.array(NO_TERMS, TERMS))
        if request.units is not None and request.arms is not None:
            units = request.units[chosen]
            terms["arm"] = request.arms[chosen]
            terms["bucket"] = np.where(units > 0, buckets_of(units), NO_TERMS.bucket)
        for name, prices in request.money.items():
            terms[name] = np.nan_to_num(prices[chosen])
        return terms

    def _admit_each(self, places: NDArray[np.intp], of_type: Mask) -> Iterator[None]:
        kept, events = [], []
        rejections, tag = self.admission.rejections, self._kind.tag
        indices = places.tolist()
        fields = zip(indices, of_type[places].tolist(), self._fields(places, indices), strict=True)
        for index, is_of_type, values in fields:
            if not (is_of_type or rejections.wants(index)):
                rejections.count(tag)
                continue
            try:
                events.append(self._event(values, is_of_type))
                kept.append(index)
            except ValidationError as error:
                rejections.add(EventRejection(index, str(error), tag))
        return self.admission.admit_all(Parsed(kept, events))

    def _event(self, values: dict[str, Any], is_of_type: bool) -> Event:
        if not values["campaign"] and self._request.header.flags & INTERNED:
            raise ValidationError("campaign", _NO_NAME)
        if not is_of_type:
            # Raises: the schema knows the error, but of a unit only the name.
            named = {**values, "unit": None} if "unit" in values else values
            convert({"type": self._kind.tag, **named}, Event, RULES, whole="event")
        return self._kind.event(**values)

    def _fields(self, places: NDArray[np.intp], indices: list[int]) -> Iterator[dict[str, Any]]:
        """The fields of the events at these places, as JSON would bring them."""
        request = self._request
        scores = _numbers(request.scores[places])
        named = [parted(self._names[place]) for place in self._places[places].tolist()]
        columns: dict[str, Iterable[Any]] = {
            "campaign": [campaign for campaign, _ in named],
            "model_version": [version for _, version in named],
            "occurred_at": _numbers(request.occurred_at[places]),
        }
        if request.outcomes is not None:
            columns["target"] = repeat(request.target, len(indices))
            columns |= {"score": scores, "outcome": _numbers(request.outcomes[places])}
        else:
            columns["scores"] = [{CLICK: score} for score in scores]
        if request.impression_at is not None:
            columns["impression_at"] = _numbers(request.impression_at[places])
        if request.ids is not None:
            columns[self._kind.id_field] = [request.ids[index] for index in indices]
        if request.units is not None and request.arms is not None:
            columns["unit"] = [unit or None for unit in request.units[places].tolist()]
            columns["arm"] = [_arm(number) for number in request.arms[places].tolist()]
        for name, prices in request.money.items():
            some, missing = _numbers(prices[places]), np.isnan(prices[places]).tolist()
            columns[name] = [None if no else one for one, no in zip(some, missing, strict=True)]
        if request.fields:
            columns["fields"] = by_event(chosen_of(request.fields, places), len(indices))
        rows = zip(*columns.values(), strict=True)
        return (dict(zip(columns, row, strict=True)) for row in rows)


def _arm(number: int) -> str | None:
    """The arm of a number; of one that none has, what no event may say."""
    if number == NO_TERMS.arm:
        return None
    return ARMS[number] if number < len(ARMS) else str(number)


def _within(values: Floats, least: float, most: float) -> Mask:
    return (values >= least) & (values <= most)


def _numbers(values: Floats) -> list[float | InvalidNumber]:
    """The values as JSON would bring them, which has no number for what is not finite."""
    return [
        one if math.isfinite(one) else InvalidNumber(json.dumps(one)) for one in values.tolist()
    ]

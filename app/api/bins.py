"""`POST /v1/admin/bins`: bins that somebody else has summed, added to the history exactly once."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from app.api.authorization import ADMIN_PATH, By, Caller
from app.api.hot_path import JSON, NDJSON, media_type, read_body, request_body
from app.api.resources import Given, Resources
from app.events.rejections import END_SECOND
from app.events.schema import check_campaign, check_fields
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.statistics.loaded_bins import HourLoad, LoadedBins, LoadName
from app.strict_json import ValidationError, decode
from calibrators.bins.codecs import LIMIT
from calibrators.fields.bin_rows import SUMS, BinRows
from calibrators.fields.columns import encoded
from calibrators.maps.atlas import Atlas

router = APIRouter(prefix=ADMIN_PATH, tags=["admin"])

_RESULTS: Final = ("loaded", "duplicates", "too_old")
Rows = TypeVar("Rows")
_Name = Annotated[str, Query(min_length=1, max_length=256)]
_Sum = Annotated[int, Meta(ge=0, description="In billionths: floor(x * 1e9 + 0.5).")]
_Hour = Annotated[int, Meta(description="Hours since 1970.")]


class BinRow(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Count, score sum and positives of a cell of scores."""

    hour: _Hour
    target: str
    campaign: str
    cell: int
    count: _Sum
    score_sum: _Sum
    positives: _Sum
    fields: Annotated[dict[str, str], Meta(description="Values of declared fields.")] | None = None


class BinsLoaded(Struct):
    """Hours of targets whose bins were added, were there already, or are too old to be kept."""

    loaded: int
    duplicates: int
    too_old: int
    rows: int


_ROW: Final = msgspec.json.Decoder(BinRow)
_ROWS: Final = msgspec.json.Decoder(list[BinRow])
_WHOLE: Final = "must be a whole number"
_RULES: Final = {
    "hour": f"{_WHOLE}: floor(epoch seconds / 3600)",
    "target": "must be a string",
    "campaign": "must be a string",
    "fields": "must be an object of strings",
    "fields{}": "must be a string",
    **dict.fromkeys(("cell", "count", "score_sum", "positives"), f"{_WHOLE} from 0 up"),
}
_WHOLE_BODY: Final = "body"
_LAST_HOUR: Final = int(END_SECOND // SECONDS_PER_HOUR) - 1
"""No event is younger: by the clock of events, a later hour would stop all refits."""
_EXAMPLE: Final = {
    "hour": 490896,
    "target": "click",
    "campaign": "a",
    "cell": 2213,
    "count": 3_000_000_000,
    "score_sum": 30_200_000,
    "positives": 1_000_000_000,
}


@router.post("/bins", openapi_extra=request_body({JSON: list[BinRow], NDJSON: BinRow}, [_EXAMPLE]))
async def load_bins(
    request: Request, given: Given, by: By, source: _Name, partition: _Name
) -> dict[str, Any]:
    """Add bins to the history of targets, each hour of a source and partition once.

    An hour that is there already is a duplicate; other bins of the same hour, source and
    partition are refused, and what came before them in the request stays. Hours that no
    refit looks at any more are left out.
    """
    headers = dict(request.scope["headers"])
    body = await read_body(headers, request.receive, given, (NDJSON, JSON))
    lines = media_type(headers.get(b"content-type", b"")) == NDJSON
    async with given.large_bodies:
        loads, rows = await run_in_threadpool(_read, body, lines, given, by.caller)
    name, counts = LoadName(source, partition), Counter(dict.fromkeys(_RESULTS, 0))

    def load() -> None:
        store = LoadedBins(
            given.client, given.settings.ttl_seconds, DeclaredFields.of(given.settings)
        )
        for each, places in loads:
            counts[_result(store, name, each, places, given.settings)] += 1

    about = {"source": source, "partition": partition, "rows": rows, "hours": len(loads)}
    targets = ", ".join(sorted({each.target for each, _ in loads}))
    await by.changes("load-bins", load, target=targets or "none", after=about)
    return {**counts, "rows": rows}


def _result(
    store: LoadedBins, name: LoadName, load: HourLoad, places: Sequence[int], settings: Settings
) -> str:
    kept_hours = max(settings.window_hours, settings.history_hours)
    if settings.clock == "wall" and load.hour < _this_hour() - kept_hours:
        return "too_old"
    try:
        return "loaded" if store.add(name, load) else "duplicates"
    except OverflowError as error:
        row, column = _largest(load.rows)
        value = int(load.rows.sums[column, row])
        field = f"rows[{places[row]}].{SUMS[column]}"
        raise ValidationError(field, str(error), value) from None


def _largest(rows: BinRows) -> tuple[int, int]:
    """Of the bin with the largest sum the row that has most of it, and which sum that is."""
    keys = np.stack((rows.campaigns.codes, rows.cells))
    _, bins = np.unique(keys, axis=1, return_inverse=True)
    totals = np.array([np.bincount(bins, each) for each in rows.sums])
    column, largest = np.unravel_index(totals.argmax(), totals.shape)
    return int(np.where(bins == largest, rows.sums[column], -1).argmax()), int(column)


def _this_hour() -> int:
    return int(time.time() // SECONDS_PER_HOUR)


def _read(
    body: bytes, lines: bool, given: Resources, caller: Caller
) -> tuple[list[tuple[HourLoad, list[int]]], int]:
    """The bins by target and hour with the places of their rows, and how many rows; raises
    MalformedJson, ValidationError or a 404 Problem."""
    rows = _decoded(body, lines)
    _check_names(rows, given.settings, caller)
    places: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[row.target, row.hour].append(place)
    atlases = given.refresher.current.atlases
    found = []
    for (target, hour), some in sorted(places.items()):
        load = HourLoad(target, hour, _bins([rows[place] for place in some], some))
        found.append((_predicted(load, atlases.get(target)), some))
    return found, len(rows)


def _decoded(body: bytes, lines: bool) -> list[BinRow]:
    if not lines:
        return _named("rows", lambda: decode(body, _ROWS, _RULES))
    try:
        return _ROW.decode_lines(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        listed = [line for line in body.split(b"\n") if line.strip()]
        return [
            _named(f"rows[{place}].", partial(decode, line, _ROW, _RULES))
            for place, line in enumerate(listed)
        ]


def _named(where: str, read: Callable[[], Rows]) -> Rows:
    """What is read; errors say where in the request."""
    try:
        return read()
    except ValidationError as error:
        field = error.field if error.field != _WHOLE_BODY else ""
        named = ValidationError(f"{where}{field}".rstrip("."), error.rule)
        named.value = error.value
        raise named from None


def _check_names(rows: Sequence[BinRow], settings: Settings, caller: Caller) -> None:
    """Of each distinct name the first row that has it is told."""
    targets = settings.targets
    latest = _this_hour() if settings.clock == "wall" else _LAST_HOUR
    for target, place in _first([row.target for row in rows]):
        if target not in targets:
            rule = f"must be a target that is not delayed: {', '.join(targets)}"
            raise ValidationError(f"rows[{place}].target", rule, target)
    for campaign, place in _first([row.campaign for row in rows]):
        check_campaign(f"rows[{place}].campaign", campaign, settings.max_campaign_bytes)
        caller.check_sees(f"rows[{place}].campaign", campaign)
    for hour, place in _first([row.hour for row in rows]):
        if not 0 <= hour <= latest:
            rule = "must be hours since 1970, and not in the future"
            raise ValidationError(f"rows[{place}].hour", rule, hour)
    for place, row in enumerate(rows):
        if row.fields:
            check_fields(row.fields, settings.fields, f"rows[{place}].fields")


def _first(values: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    places: dict[Any, int] = {}
    for place, value in enumerate(values):
        places.setdefault(value, place)
    yield from places.items()


def _bins(rows: Sequence[BinRow], places: Sequence[int]) -> BinRows:
    """The rows of one target and hour, which stand at these places of the request."""
    names = sorted({name for row in rows for name in row.fields or ()})
    for place, row in zip(places, rows, strict=True):
        for name in ("cell", "count", "score_sum", "positives"):
            if (value := getattr(row, name)) > LIMIT:
                raise ValidationError(f"rows[{place}].{name}", f"{_WHOLE} up to 9.2e18", value)
    found = BinRows(
        encoded([row.campaign for row in rows]),
        {name: encoded([(row.fields or {}).get(name, "") for row in rows]) for name in names},
        np.array([row.cell for row in rows], np.int64),
        np.array([(row.count, row.score_sum, row.positives) for row in rows], np.int64).T,
    )
    for broken in found.broken():
        if broken.rows.any():
            first = int(broken.rows.argmax())
            value = getattr(rows[first], broken.column)
            raise ValidationError(f"rows[{places[first]}].{broken.column}", broken.rule, value)
    return found


def _predicted(load: HourLoad, atlas: Atlas | None) -> HourLoad:
    """By the maps in force, if there are any, as a fold would sum the events by field."""
    if atlas is None:
        return load
    predicted = atlas.by_maps(*load.rows.campaigns, load.rows.means(), load.rows.fields)
    return replace(load, predicted=predicted)

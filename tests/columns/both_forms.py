"""The same events as a body in binary columns says them, and as JSON does."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from calibrators.arms import unit_number
from tests.columns.bodies import (
    ARM_NAMES,
    CLICKS,
    EVENT_IDS,
    FIELDS,
    IMPRESSIONS,
    ONE_CAMPAIGN,
    OUTCOMES,
    body,
    field_sections,
    numbers,
    term_sections,
    texts,
)

KINDS = {"impression": IMPRESSIONS, "click": CLICKS, "outcome": OUTCOMES}


class Row(NamedTuple):
    """An event of any kind; `other` is when a click's impression was, or what came true."""

    campaign: str
    score: float
    occurred_at: float
    other: float
    event_id: str = "1"
    unit: str | None = None
    arm: int = 255
    bid: float | None = None
    cost: float | None = None
    value: float | None = None
    device: str = ""
    placement: str = ""


class Form(NamedTuple):
    """What is said of all events of a request."""

    kind: str
    ids: bool = True
    units: bool = True
    money: bool = True
    target: str = "click"
    one_campaign: bool = False
    fields: bool = False


def in_columns(form: Form, rows: Sequence[Row]) -> bytes:
    """As a body; with one campaign all have that of the first."""
    names, scores, times, others, ids, units, arms, *money, devices, places = zip(
        *rows, strict=True
    )
    flags, behind = term_sections(
        [0 if unit is None else unit_number(unit) for unit in units] if form.units else None,
        arms,
        [[math.nan if price is None else price for price in one] for one in money if form.money],
    )
    columns = (scores, times) if form.kind == "impression" else (scores, times, others)
    sections = b"".join(numbers("d", column) for column in columns)
    if form.kind == "click" or (form.kind == "impression" and form.ids):
        sections, flags = sections + texts(ids), flags | EVENT_IDS
    if form.one_campaign:
        names, flags = names[:1], flags | ONE_CAMPAIGN
    if form.fields:
        behind += field_sections({"device": devices, "placement": places})
        flags |= FIELDS
    named = {"campaigns": names, "target": form.target, "flags": flags}
    return body(KINDS[form.kind], len(rows), sections + behind, **named)


def in_json(form: Form, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """As objects; what is wrong in a row is wrong there, too."""
    first = rows[0].campaign
    return [_said(form, row._replace(campaign=first) if form.one_campaign else row) for row in rows]


def _said(form: Form, row: Row) -> dict[str, Any]:
    said = {"type": form.kind, "campaign": row.campaign, "occurred_at": row.occurred_at}
    if form.kind == "outcome":
        said |= {"target": form.target, "score": row.score, "outcome": row.other}
    else:
        said["scores"] = {"click": row.score}
    if form.kind == "click":
        said |= {"click_id": row.event_id, "impression_at": row.other}
    elif form.kind == "impression" and form.ids:
        said["id"] = row.event_id
    arms = {255: None, **dict(enumerate(ARM_NAMES))}
    terms = {"unit": row.unit, "arm": arms.get(row.arm, str(row.arm))} if form.units else {}
    if form.money:
        terms |= {"bid": row.bid, "cost": row.cost, "value": row.value}
    if form.fields:
        fields = {"device": row.device, "placement": row.placement}
        said["fields"] = {name: value for name, value in fields.items() if value}
    return said | {name: one for name, one in terms.items() if one is not None}


def each_wrong(good: Row, **wrong: Sequence[Any]) -> list[Row]:
    """The good row, and rows with each wrong value of each column."""
    changed = [{name: value} for name, values in wrong.items() for value in values]
    return [good, *(good._replace(**change) for change in changed)]

"""`GET /v1/fields`: the effects of fields in force, and predicted and observed positives of the
values with the most evidence; from memory alone.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from fastapi import APIRouter
from msgspec import Struct

from app.api.metrics.reports import pcoc_of
from app.api.resources import Given
from calibrators import Atlas
from calibrators.fields.effects import EffectTable
from calibrators.fields.sums import PAIR, row_ends

router = APIRouter(prefix="/v1/fields", tags=["operation"])

_INTERVAL: Final = 1.6448536269514722
"""Standard deviations that 90 % of a normal variable lie within."""
_NO_TABLE: Final = EffectTable.of({}, {})


class FieldValue(Struct):
    """A value of a field, or the two of a pair: its effect in log-odds, where 90 % of what it may
    be lie, and predicted and observed positives of the newest hours; null where unknown."""

    values: list[str]
    effect: float | None
    sd: float | None
    lower: float | None
    upper: float | None
    expected: float
    positives: float
    pcoc: float | None


class FieldTerm(Struct):
    """A field or a pair: how many values have effects and had events, and those with the most
    evidence; Field-RCE of a field, and what chance alone makes of it. Of what a value's effect
    would be alone `share` is served, which is not 1 where fields agree."""

    effects: int
    seen: int
    share: float
    rce: float | None
    floor: float | None
    top: list[FieldValue]


class FieldsOfTarget(Struct):
    """By field and pair, and the segment that is off most; `hours` is how many it is of."""

    hours: int
    terms: dict[str, FieldTerm]
    mce: dict[str, Any] | None


class FieldList(Struct):
    """By target, in the version that serves."""

    version: str
    fields: list[str]
    targets: dict[str, FieldsOfTarget]


@router.get("")
async def list_fields(given: Given) -> dict[str, Any]:
    """Of each target and field, and of each pair, the 100 values with the most evidence (expected
    positives): effect, standard deviation and interval, predicted and observed positives."""
    snapshot = given.refresher.current
    reports = {target: snapshot.report_of(target) for target in snapshot.atlases}
    return {
        "version": snapshot.version,
        "fields": list(given.settings.fields),
        "targets": {
            target: _of_target(atlas, reports[target])
            for target, atlas in snapshot.atlases.items()
            if atlas.effects is not None or reports[target].get("fields")
        },
    }


def _of_target(atlas: Atlas, refit: Mapping[str, Any]) -> dict[str, Any]:
    tables = {} if atlas.effects is None else {**atlas.effects.tables[0], **atlas.effects.tables[1]}
    report, notes = refit.get("fields") or {}, (refit.get("method") or {}).get("fields", {})
    top = report.get("top", {})
    terms = {
        name: {
            "effects": int((tables.get(name, _NO_TABLE).odds_ratios != 1.0).sum()),
            "seen": top.get(name, {}).get("values", 0),
            "share": notes.get(name, {}).get("share", 1.0),
            "rce": report.get("rce", {}).get(name, {}).get("value"),
            "floor": report.get("rce", {}).get(name, {}).get("floor"),
            "top": list(_rows(name, tables.get(name, _NO_TABLE), top.get(name, {}))),
        }
        for name in dict.fromkeys((*tables, *top))
    }
    return {"hours": report.get("hours", 0), "terms": terms, "mce": report.get("mce")}


def _rows(name: str, table: EffectTable, top: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    place_of = {row: place for place, row in enumerate(table.names)}
    effects = np.log(table.odds_ratios).tolist()
    # Values without an effect of their own are other; two without one have none.
    other = None if PAIR in name else place_of.get("")
    for row in top.get("rows", []):
        place = place_of.get(row["value"], other)
        known = {} if place is None else _effect(effects[place], float(table.deviations[place]))
        yield {
            "values": list(row_ends(row["value"])) if PAIR in name else [row["value"]],
            **dict.fromkeys(("effect", "sd", "lower", "upper")),
            **known,
            "expected": row["expected"],
            "positives": row["positives"],
            "pcoc": pcoc_of(row),
        }


def _effect(effect: float, sd: float) -> dict[str, float | None]:
    ends = (effect - _INTERVAL * sd, effect + _INTERVAL * sd)
    lower, upper = ends if math.isfinite(sd) else (None, None)
    return {"effect": effect, "sd": sd, "lower": lower, "upper": upper}

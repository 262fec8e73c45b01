"""`GET /v1/reliability/{target}/{campaign}`: what one campaign's calibration looks like: predicted
against observed rates before and after, hour by hour, and its map against the one before.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, Query
from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from app.api.authorization import By
from app.api.maps import known_target
from app.api.resources import Given, Resources
from app.api.snapshot import Pace, Snapshot, seconds_of_others
from app.events.schema import check_campaign
from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.bins import campaigns_between
from app.storage.errors import CorruptVersion, UnknownVersion
from calibrators import Atlas, Bins, CalibrationMap
from calibrators.bins.model_versions import SEPARATOR


class ReliabilityPoint(Struct):
    """The mean of a bin, and the 95 % interval of its observed rate."""

    predicted: float
    observed: float
    lower: float
    upper: float
    n: float


class CalibrationError(Struct):
    """Cal-N of the campaign (its part in GC-N), and what it would be on average were the
    probabilities right; null where it has too few positives for N bins."""

    raw: float | None
    calibrated: float | None
    floor: float | None


class EvaluatedHour(Struct):
    """Impressions and positives of an hour that began `at`, and what was predicted of them."""

    at: float
    n: float
    positives: float
    raw: float
    calibrated: float


class MapPoints(Struct):
    """The map of a version."""

    version: str
    level: str
    knots: list[float]
    values: list[float]


class Reliability(Struct):
    """A campaign before and after calibration, and its map."""

    target: str
    campaign: str
    raw: list[ReliabilityPoint]
    calibrated: list[ReliabilityPoint]
    cal_n: dict[str, CalibrationError]
    hours: list[EvaluatedHour]
    map: MapPoints
    map_before: MapPoints | None


router = APIRouter(prefix="/v1", tags=["campaigns"])

Hours = Annotated[int, Query(ge=1, le=168, description="So many of the newest hours.")]
Before = Annotated[
    str | None, Query(description="A version that is kept, whose map to give beside the present.")
]

_POINTS: Final = 10
_CAL_N: Final = (1, 3, 5)
_DRAWS: Final = 200
"""Of outcomes, for the floor: as many as leave its third digit to chance."""
_HOURS_AT_ONCE: Final = 4
"""Tables of a whole shard are in memory for so many hours at a time."""


@router.get("/reliability/{target}/{campaign:path}")
async def show_reliability(
    given: Given, by: By, target: str, campaign: str, hours: Hours = 48, before: Before = None
) -> dict[str, Any]:
    """Reliability diagrams of the scores (`raw`) and of the probabilities that served them
    (`calibrated`) over the newest evaluated hours, which are listed; and the map. A delayed target
    has no hours: its outcomes become final later."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    by.caller.check_sees("campaign", campaign)
    known_target(given, target)
    snapshot = given.refresher.current
    # One at a time: each reads as much as a shard has of many campaigns.
    async with given.large_reads:
        found = await run_in_threadpool(_evaluated, given, snapshot, target, campaign, hours)
        older = await run_in_threadpool(_older_map, given, before, target, campaign)
    return {
        "target": target,
        "campaign": campaign,
        **found,
        "map": {"version": snapshot.version, **_points(snapshot.atlases[target], campaign)},
        "map_before": older,
    }


def _evaluated(
    given: Resources, snapshot: Snapshot, target: str, campaign: str, hours: int
) -> dict[str, Any]:
    until = int(snapshot.report_of(target).get("judged_until") or 0) // SECONDS_PER_HOUR
    span = range(max(0, until - hours), until)
    raw = dict(_bins(given, target, campaign, span, calibrated=False))
    calibrated = dict(_bins(given, target, campaign, span, calibrated=True))
    both = sorted(raw.keys() & calibrated.keys())
    return {
        "raw": _diagram(raw, both),
        "calibrated": _diagram(calibrated, both),
        "cal_n": _cal_n(raw, calibrated, both) if both else {},
        "hours": [_hour(hour, raw[hour], calibrated[hour]) for hour in both],
    }


def _hour(hour: int, raw: Bins, calibrated: Bins) -> dict[str, float]:
    """Of what came after the hour was evaluated, as much is predicted as of what had come."""
    n, evaluated = raw.total_count, calibrated.total_count
    return {
        "at": hour * SECONDS_PER_HOUR,
        "n": n,
        "positives": raw.total_positives,
        "raw": raw.total_score,
        "calibrated": calibrated.total_score * (n / evaluated if evaluated else 1.0),
    }


def _bins(
    given: Resources, target: str, campaign: str, span: range, *, calibrated: bool
) -> Iterator[tuple[int, Bins]]:
    """The campaign's bins of the hours in which it had any."""
    shard = keys.shard_of_campaign(campaign)
    for first in range(span.start, span.stop, _HOURS_AT_ONCE):
        some = range(first, min(first + _HOURS_AT_ONCE, span.stop))
        tables = given.bins.hour_tables(shard, target, some, calibrated=calibrated)
        for hour, table in tables.items():
            # All versions of the model: calibrated bins do not tell them apart either.
            near = campaigns_between(table, campaign, campaign + chr(ord(SEPARATOR) + 1))
            found = near.without_versions().bins(campaign)
            if found.total_count > 0.0:
                yield hour, found


def _diagram(bins: Mapping[int, Bins], hours: list[int]) -> list[dict[str, float]]:
    if not hours:
        return []
    # A serving process loads what only the page needs when it is first asked for.
    from evaluation.metrics.reliability import reliability_diagram

    scores, rates, weights = Bins.merge([bins[hour] for hour in hours]).samples()
    found = reliability_diagram(scores, rates, _POINTS, sample_weight=weights)
    columns = {
        "predicted": found.probabilities,
        "observed": found.rates,
        "lower": found.lower,
        "upper": found.upper,
        "n": found.weights,
    }
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _cal_n(
    raw: Mapping[int, Bins], calibrated: Mapping[int, Bins], hours: list[int]
) -> dict[str, dict[str, float | None]]:
    """Of all hours together, by number of bins."""
    from evaluation.metrics.gc_n import CampaignRuns, GroupCalibration
    from evaluation.metrics.predictions import Predictions

    sides = [Bins.merge([bins[hour] for hour in hours]).samples() for bins in (raw, calibrated)]
    runs = [
        CampaignRuns.of_rows(Predictions.check(*side), ("",), np.zeros(len(side[0]), np.int64))
        for side in sides
    ]
    found = {}
    for n in _CAL_N:
        before, after = (
            GroupCalibration(one.runs, one.run_positives, n, np.random.default_rng(n), draws=_DRAWS)
            for one in runs
        )
        columns = {"raw": before.values, "calibrated": after.values, "floor": after.floors}
        found[str(n)] = {
            name: None if np.isnan(values[0]) else float(values[0])
            for name, values in columns.items()
        }
    return found


def _older_map(
    given: Resources, version: str | None, target: str, campaign: str
) -> dict[str, Any] | None:
    """None without a version, and where it is gone or damaged: there is nothing to compare with."""
    if version is None:
        return None
    try:
        packed = given.versions.load(version, pause=Pace(seconds_of_others)).atlases.get(target)
    except (CorruptVersion, UnknownVersion):
        return None
    atlas = Atlas.empty() if packed is None else Atlas.from_bytes(packed)
    return {"version": version, **_points(atlas, campaign)}


def _points(atlas: Atlas, campaign: str) -> dict[str, Any]:
    found: CalibrationMap = atlas.map_of(campaign)
    return {
        "level": atlas.level(campaign),
        "knots": found.knots.tolist(),
        "values": found.values.tolist(),
    }

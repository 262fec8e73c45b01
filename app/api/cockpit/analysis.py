"""`GET /v1/experiments/{target}/analysis`: what an experiment has earned so far, and how far off
each arm's predictions were.

The sums of units' buckets by day say the first (`evaluation.ab_test.experiment`). The breakdowns of
the arms' raw scores say the second: every hour is predicted with the maps of the version that was
in force when it began, so no map is asked about events that it was fitted to.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response
from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from app.api.hot_path import JSON
from app.api.maps import known_target
from app.api.problems import not_found
from app.api.resources import Given, Resources
from app.api.snapshot import Pace, seconds_of_others
from app.settings import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.storage.errors import CorruptVersion, UnknownVersion
from app.storage.experiments import CHALLENGER_OF, Experiment, experiments_of
from app.storage.statistics.breakdowns import DAYS_KEPT
from app.strict_json import show
from calibrators import Atlas
from calibrators.arms import ARMS, BUCKETS, CHALLENGER, CHAMPION, RAW, Split
from calibrators.bins.codecs import from_fixed
from calibrators.samples import Floats, Integers

if TYPE_CHECKING:
    from evaluation.ab_test.experiment import BucketDays, ExperimentAnalysis


class ExperimentAnswer(Struct):
    """The analysis after so many days since units last changed their arms; null before the first
    whole one."""

    target: str
    since: float
    first_day: str
    days: int
    days_before: int
    analysis: dict[str, Any] | None
    delayed: dict[str, Any]


MOST_VERSIONS: Final = 24
"""So many of the newest versions are asked what they predicted: a day of hourly refits."""


router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


@router.get("/{target}/analysis")
async def analyse_experiment(
    given: Given,
    target: str,
    days: Annotated[int, Query(ge=1, le=DAYS_KEPT, description="The newest days it reads.")] = (
        DAYS_KEPT
    ),
) -> Response:
    """RPM, CTR and ROI of each arm, lifts over the champion with intervals that may be looked at
    every day, the sample ratio, and predicted over actual; `delayed` has CVR, value of a click and
    ROI by delayed target. An undefined number is null."""
    experiment = experiments_of(given.refresher.current.report).get(known_target(given, target))
    if experiment is None:
        raise not_found(f"target = {show(target)}: has no experiment")

    def answer() -> dict[str, Any]:
        read = given.bins.unit_days.read
        clicks = {name: read(name) for name in given.settings.delayed_targets}
        now, as_of = time.time(), given.refresher.current.as_of
        if given.settings.clock == "event" and as_of is not None:
            now = as_of
        return analysis_answer(given, read(target), target, experiment, days, now, clicks)

    async with given.large_reads:
        return Response(orjson.dumps(await run_in_threadpool(answer)), media_type=JSON)


def analysis_answer(
    given: Resources,
    daily: Mapping[int, Integers],
    target: str,
    experiment: Experiment,
    days: int,
    now: float,
    clicks: Mapping[str, Mapping[int, Integers]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The answer of the route; runs in a thread, for a second or so. `daily` has the sums of
    buckets by day since 1970, (4, 4096) in fixed point, of which the newest `days` are taken;
    `clicks` the same of delayed targets, by their names.

    `analysis` is null until the first whole day after the experiment began (UTC) has traffic in
    both the champion and another arm.
    """
    # A serving process loads what only an analysis needs when the first is asked for.
    from evaluation.ab_test.experiment import BucketDays

    since = float(experiment.get("split_at", experiment["since"]))
    until = min(now, float(experiment.get("aborted_at", math.inf)))
    begins, today = math.ceil(since / SECONDS_PER_DAY), int(now // SECONDS_PER_DAY)
    taken = [day for day in sorted(daily) if today - days < day <= today]
    numbers = np.array(taken, np.int64)
    sums = np.zeros((len(taken), BUCKETS, 4))
    for place, day in enumerate(taken):
        sums[place] = from_fixed(daily[day]).T
    # The day on which it began belongs to neither side, nor do those on which it was aborted and
    # after.
    behind = today + 1 if until == now else int(until // SECONDS_PER_DAY)
    during = (numbers >= begins) & (numbers < behind)
    # Days of an earlier split are none: its arms had done to units what is asked about now.
    before = numbers < int(experiment["since"] // SECONDS_PER_DAY)
    split = Split(experiment["salt"], experiment["shares"])
    looks = BucketDays(numbers[during], sums[during])
    about = {
        "target": target,
        "since": since,
        "first_day": _date(max(begins, today + 1 - days)),
        "days": int(during.sum()),
        "days_before": int(before.sum()),
        "analysis": None,
        "delayed": {},
    }
    arms = split.arms.astype(np.int64)
    if not _is_test(arms, looks):
        return about
    sides = predictions_of_arms(given, target, since, until)
    delayed = {}
    for name, counted in clicks.items():
        of_clicks, arrived = _of_clicks(numbers, sums, counted)
        then = BucketDays(looks.days, of_clicks[during])
        if _is_test(arms, then):
            seen = arrived[during].sum(axis=0)
            delayed[name] = _conversions(arms, then, of_clicks[before].sum(axis=0), seen)
    analysis = analysed(arms, looks, sums[before].sum(axis=0), sides)
    return {**about, "analysis": analysis, "delayed": delayed}


def _of_clicks(
    days: Integers, sums: Floats, counted: Mapping[int, Integers]
) -> tuple[Floats, Floats]:
    """Of each day and bucket: clicks, conversions, cost of the impressions and value of the
    conversions, (d, buckets, 4), and the conversions that have arrived, (d, buckets)."""
    found, arrived = sums * [0.0, 0.0, 1.0, 0.0], np.zeros(sums.shape[:2])
    for place, day in enumerate(days.tolist()):
        if day in counted:
            found[place, :, 0], found[place, :, 1], arrived[place], found[place, :, 3] = from_fixed(
                counted[day]
            )
    return found, arrived


def _conversions(
    arms: Integers, during: "BucketDays", before: Floats, arrived: Floats
) -> dict[str, Any]:
    """The analysis of one delayed target as JSON."""
    from evaluation.ab_test.experiment import RATIOS_OF_CLICKS, experiment_analysis

    ratios = {
        name: each
        for name, each in RATIOS_OF_CLICKS.items()
        if during.sums[..., each].any((0, 1)).all()
    }
    found = experiment_analysis(arms, during, before, ratios=ratios)
    sides = {
        arm: {
            "clicks": each.impressions,
            "conversions": each.clicks,
            "arrived": float(arrived[arms == ARMS.index(str(arm))].sum()),
            "cost": each.cost,
            "value": each.value,
            "metrics": {name: asdict(metric) for name, metric in each.metrics.items()},
        }
        for arm, each in found.latest.arms.items()
    }
    return {"arms": sides, "lifts": {arm: _lifts(found, str(arm)) for arm in found.latest.lifts}}


def _is_test(arms: Integers, looks: "BucketDays") -> bool:
    """Whether both the champion and another arm had trials."""
    return all(looks.sums[:, chosen, 0].any() for chosen in (arms == 0, arms != 0))


def analysed(
    arms: Integers, during: "BucketDays", before: Floats, sides: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    """The analysis as JSON. `sides` are the outcomes that were predicted and that came, by arm."""
    from evaluation.ab_test.experiment import experiment_analysis, predicted_over_actual

    found = experiment_analysis(arms, during, before)
    latest, check = found.latest, found.latest.sample_ratio
    ratios = {
        arm: {
            "predicted": predicted,
            "actual": actual,
            **asdict(predicted_over_actual(predicted, actual, found.clumping[arm])),
        }
        for arm, (predicted, actual) in sides.items()
        if arm in latest.arms
    }
    return {
        "confidence": 0.95,
        "control": CHAMPION,
        "arms": {arm: asdict(each) for arm, each in latest.arms.items()},
        "lifts": {arm: _lifts(found, str(arm)) for arm in latest.lifts},
        "sample_ratio": {**asdict(check), "mismatch": check.mismatch},
        "predicted_over_actual": ratios,
    }


def _lifts(found: "ExperimentAnalysis", arm: str) -> dict[str, Any]:
    return {
        metric: {
            **asdict(looks[-1]),
            "conclusion": found.latest.conclusion(arm, metric),
            "variance_left": found.variance[arm][metric],
            "by_day": [
                {"day": _date(day), **asdict(look)}
                for day, look in zip(found.days, looks, strict=True)
            ],
        }
        for metric, looks in found.lifts[arm].items()
    }


def predictions_of_arms(
    given: Resources, target: str, since: float, now: float
) -> dict[str, tuple[float, float]]:
    """Outcomes predicted and outcomes that came, by arm, in the hours of the newest versions."""
    sides = {arm: np.zeros(2) for arm in ARMS}
    began = "as_of" if given.settings.clock == "event" else "published_at"
    for version, hours in hours_of_versions(given.versions.history(), since, now, began):
        try:
            packed = given.versions.load(version, pause=Pace(seconds_of_others)).atlases
        except (CorruptVersion, UnknownVersion):
            continue
        for arm, name in ((CHAMPION, target), (CHALLENGER, CHALLENGER_OF(target)), (RAW, "")):
            maps = Atlas.from_bytes(packed[name]) if name in packed else Atlas.empty()
            for table in given.bins.breakdown(target, arm, hours.start, hours.stop):
                sides[arm] += [side.sum() for side in maps.calibrated(table).outcomes()]
    return {arm: (float(side[0]), float(side[1])) for arm, side in sides.items()}


def hours_of_versions(
    history: Sequence[Mapping[str, Any]], since: float, now: float, began: str = "published_at"
) -> Iterator[tuple[str, range]]:
    """Which hours began while each version was in force, newest first, none before `since`; `began`
    is the entry that says from when on it was, by the clock of events `as_of`."""
    behind = int(now // SECONDS_PER_HOUR) + 1
    for entry in history[:MOST_VERSIONS]:
        first = math.ceil(max(entry[began], since) / SECONDS_PER_HOUR)
        if first < behind:
            yield entry["version"], range(first, behind)
        behind = min(behind, first)


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC):%Y-%m-%d}"

"""Intervals and quantiles of calibrated probabilities, for requests that ask for them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from app.api.scoring.arms import CalibratedScores, ColumnsOfArm, TargetScores
from app.api.scoring.requests import CalibrateRequest
from app.settings import Settings
from app.strict_json import ValidationError
from calibrators.arms import CHALLENGER, RAW
from calibrators.samples import Floats


class WantedColumns(NamedTuple):
    """Columns of quantiles of an answer in JSON, their levels, and the field that asks for the
    first."""

    names: tuple[str, ...]
    levels: tuple[float, ...]
    field: str


_POOLED: Final = "pooled"
_HIGHEST: Final = 1.0 - 2.0**-53
"""The level below 1 that is nearest to it."""


def columns_wanted(request: CalibrateRequest, settings: Settings) -> WantedColumns:
    """The columns of quantiles in the answer; raises ValidationError for products."""
    wanted = _wanted(request.interval, request.quantile)
    if settings.products:
        rows = () if request.rows is UNSET else request.rows
        for target in {request.target, *(row.target for row in rows)}.intersection(
            settings.products
        ):
            rule = f"{target} is a product; only its factors have intervals"
            raise ValidationError(wanted.field, rule)
    return wanted


@lru_cache(1024)
def _wanted(interval: float | UnsetType, quantile: float | UnsetType) -> WantedColumns:
    levels: dict[str, float] = {}
    if interval is not UNSET:
        beyond = (1.0 - interval) / 2.0
        levels |= {"lower": beyond, "upper": min(1.0 - beyond, _HIGHEST)}
    if quantile is not UNSET:
        levels["quantiles"] = quantile
    field = "quantile" if interval is UNSET else "interval"
    return WantedColumns(tuple(levels), tuple(levels.values()), field)


def quantiles(
    given: Sequence[TargetScores | ColumnsOfArm],
    parts: Sequence[CalibratedScores],
    levels: Sequence[float],
    settings: Settings,
    field: str = "quantiles",
) -> list[Floats]:
    """A column, (n,), for each level, in the order of the request. A score that is served raw has
    no width, and one by maps on trial that have none. Raises ValidationError, which names the
    field, where other maps have no intervals."""
    if not levels:
        return []
    for part in parts:
        if part.atlas.spreads is None and not _may_lack(part):
            raise ValidationError(field, _why_not(part.target, settings))
    if len(parts) == 1:
        return _of_part(parts[0], levels)
    found = np.empty((len(levels), sum(len(part.rows) for part in parts)))
    for one, part in zip(given, parts, strict=True):
        found[:, one.places] = _of_part(part, levels)
    return list(found)


def _may_lack(part: CalibratedScores) -> bool:
    """An experiment, or a rollback to the identity, must not turn answers into errors."""
    atlas = part.atlas
    return part.arm in (RAW, CHALLENGER) or not (len(atlas) or atlas.target_map is not None)


def _of_part(part: CalibratedScores, levels: Sequence[float]) -> list[Floats]:
    probabilities = np.asarray(part.probabilities, np.float64)
    if part.arm == RAW or part.atlas.spreads is None:
        return [probabilities] * len(levels)
    rows, scores = np.asarray(part.rows), np.asarray(part.scores, np.float64)
    return part.atlas.quantiles(rows, scores, probabilities, levels, part.campaigns, part.fields)


def _why_not(target: str, settings: Settings) -> str:
    calibrator = settings.calibrator_of(target)
    if calibrator == _POOLED:
        return f"the maps of target {target} have no intervals: a refit by pooled makes them"
    return f"the maps of target {target} have no intervals: its calibrator is {calibrator}"

"""Intervals and quantiles of calibrated probabilities, for requests that ask for them."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import UNSET

from app.api.scoring.arms import CalibratedScores, ColumnsOfArm, TargetScores
from app.api.scoring.requests import CalibrateRequest
from app.settings import Settings
from app.strict_json import ValidationError
from calibrators.arms import CHALLENGER, RAW
from calibrators.samples import Floats

LOWER, UPPER, QUANTILE = "lower", "upper", "quantiles"
"""Columns of an answer in JSON."""

_POOLED: Final = "pooled"
_HIGHEST: Final = 1.0 - 2.0**-53
"""The level below 1 that is nearest to it."""


def columns_wanted(request: CalibrateRequest, settings: Settings) -> Mapping[str, float]:
    """By name the level of each column of quantiles in the answer; raises ValidationError for
    products."""
    levels: dict[str, float] = {}
    if request.interval is not UNSET:
        beyond = (1.0 - request.interval) / 2.0
        levels |= {LOWER: beyond, UPPER: min(1.0 - beyond, _HIGHEST)}
    if request.quantile is not UNSET:
        levels[QUANTILE] = request.quantile
    if levels and settings.products:
        rows = () if request.rows is UNSET else request.rows
        for target in {request.target, *(row.target for row in rows)}.intersection(
            settings.products
        ):
            rule = f"{target} is a product; only its factors have intervals"
            raise ValidationError(_field(levels), rule)
    return levels


def _field(levels: Mapping[str, float]) -> str:
    return "interval" if LOWER in levels else "quantile"


def quantile_columns(
    given: Sequence[TargetScores],
    parts: Sequence[CalibratedScores],
    levels: Mapping[str, float],
    settings: Settings,
) -> dict[str, Floats]:
    """The columns of these levels by name; raises ValidationError as `quantiles`."""
    found = quantiles(given, parts, tuple(levels.values()), settings, _field(levels))
    return dict(zip(levels, found, strict=True))


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

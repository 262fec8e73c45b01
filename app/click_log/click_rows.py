"""Closed clicks as the columns of a table."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import pyarrow as pa

from app.click_log.closed_click import ClosedClick
from app.click_log.columns import (
    BEHAVIOUR,
    CAMPAIGN,
    CLICK_COLUMNS,
    CLICK_ID,
    CLICKED_AT,
    FEATURE,
    NUMBER,
    PROBABILITY,
    SCORE,
    TEXT,
)

Values = Mapping[str, float | str]


def click_rows(clicks: Sequence[ClosedClick]) -> Any:
    """One row per click in reading order; the order they came in changes nothing."""
    ordered = sorted(clicks, key=lambda click: (click.clicked_at, click.click_id, click.campaign))
    columns = {
        CLICK_ID: [click.click_id for click in ordered],
        CAMPAIGN: [click.campaign for click in ordered],
        CLICKED_AT: [click.clicked_at for click in ordered],
    }
    arrays = {name: pa.array(column, CLICK_COLUMNS[name]) for name, column in columns.items()}
    arrays |= _columns(SCORE, [click.scores for click in ordered])
    arrays |= _columns(PROBABILITY, [click.probabilities for click in ordered])
    arrays |= _columns(FEATURE, [click.features for click in ordered])
    arrays |= _columns(BEHAVIOUR, [click.behaviours for click in ordered])
    return pa.table(arrays)


def _columns(prefix: str, rows: Sequence[Values]) -> dict[str, Any]:
    names = sorted({name for row in rows for name in row})
    return {prefix + name: _column([row.get(name) for row in rows]) for name in names}


def _column(values: Sequence[float | str | None]) -> Any:
    """Of the type of its first value; a value of the other type is missing, as nan is."""
    text = next(isinstance(value, str) for value in values if value is not None)
    kept = [value if isinstance(value, str) == text else None for value in values]
    if text:
        return pa.array(kept, TEXT)
    return pa.array([value if _is_known(value) else None for value in kept], NUMBER)


def _is_known(value: Any) -> bool:
    return value is not None and not isnan(value)

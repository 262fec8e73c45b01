"""Clicks and conversions for the tests of the click log, and what a log makes of them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.log import ClickLog
from app.click_log.reading import Sample, read_clicks, read_conversions
from app.click_log.rows import ClosedClick
from app.storage.blocks import StoredConversion
from pccem import Categorical

HOUR = 500_000
START = HOUR * 3600.0
DAY = 86400.0
WINDOW = 7 * DAY
TARGET = "conversion"


def click(name: str, seconds: float = 0.0, **changes: Any) -> ClosedClick:
    """A click so many seconds after START."""
    usual = ClosedClick(
        click_id=name,
        campaign="shoes",
        clicked_at=START + seconds,
        scores={TARGET: 0.25},
        features={"device": "app"},
        behaviours={"page_views": 3.0},
        probabilities={TARGET: 0.5},
    )
    return replace(usual, **changes)


def conversion(name: str, seconds: float, target: str = TARGET) -> StoredConversion:
    """A conversion of a click so many seconds after START."""
    return StoredConversion(click_id=name, target=target, occurred_at=START + seconds, value=1.0)


def clicks_in(
    log: ClickLog, target: str, first: float, behind: float, size: int | None = None, seed: int = 0
) -> LoggedClicks:
    """The clicks with a score for the target and clicked_at in [first, behind), or a sample."""
    return read_clicks(log._hours, target, first, behind, Sample(size, seed))


def conversions_in(log: ClickLog, target: str, first: float, behind: float) -> LoggedConversions:
    """The target's conversions with occurred_at in [first, behind)."""
    return read_conversions(log._hours, target, first, behind, Sample())


def read_all(log: ClickLog, target: str = TARGET, hours: int = 48) -> LoggedClicks:
    """All clicks of some hours from START on."""
    return clicks_in(log, target, START, START + hours * 3600.0)


def part_rows(log: ClickLog, dataset: str) -> list[int]:
    """How many rows each part of a dataset has, hour by hour; a row that stands twice is two."""
    return [part.rows for parts in log._store.list(dataset).values() for part in parts]


def known_delays(
    log: ClickLog, hours: int = 48, as_of: float = START + 30 * DAY, window: float = WINDOW
) -> dict[str, float | None]:
    """Click id -> the delay of its first conversion, None without one."""
    clicks, known = log.known(TARGET, START, START + hours * 3600.0, as_of, window)
    delays = (None if np.isnan(delay) else delay for delay in known.delay.tolist())
    return dict(zip(clicks.click_ids.to_pylist(), delays, strict=True))


def contents(logged: LoggedClicks) -> list[dict[str, Any]]:
    """One dictionary per click, missing values left out."""
    clicks = logged.clicks
    columns: dict[str, Iterable[Any]] = {
        "click_id": logged.click_ids.to_pylist(),
        "campaign": [clicks.campaigns[row] for row in clicks.rows],
        "clicked_at": (clicks.clicked_at - START).tolist(),
        "score": clicks.scores.tolist(),
        "probability": logged.probabilities.tolist(),
    }
    for name, column in clicks.features.columns.items():
        columns[name] = column.values() if isinstance(column, Categorical) else column.tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{name: row[name] for name in row if _is_there(row[name])} for row in rows]


def _is_there(value: Any) -> bool:
    return value is not None and value == value

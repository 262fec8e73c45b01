"""Impressions of one request as columns, checked all at once.

The checks are those of `Admission`, and only say whether everything is in order. Where something
is not, the events are admitted one by one, which finds the words and saves those that count.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.events.campaign_names import are_campaigns
from app.events.open_times import OpenTimes
from app.events.schema import Impression, Time
from app.settings import Settings
from app.storage.event_columns import EventColumns

CLICK: Final = "click"
LONGEST_ID: Final = 256
FEW: Final = 64
"""Up to about so many events are admitted sooner one by one."""


def columns_of(
    impressions: Sequence[Impression], settings: Settings, times: OpenTimes
) -> list[EventColumns] | None:
    """Those with ids, and those without; None unless every one of them counts."""
    if CLICK not in settings.targets:
        return None
    columns = [_columns(some, settings, times) for some in _by_ids(impressions)]
    found = [some for some in columns if some is not None]
    return found if len(found) == len(columns) else None


def _by_ids(impressions: Sequence[Impression]) -> Iterator[Sequence[Impression]]:
    """All with ids or all without, so far as there are any."""
    missing = [impression.id for impression in impressions].count(None)
    if not missing or missing == len(impressions):
        yield impressions
    else:
        yield [impression for impression in impressions if impression.id is not None]
        yield [impression for impression in impressions if impression.id is None]


def _columns(
    impressions: Sequence[Impression], settings: Settings, times: OpenTimes
) -> EventColumns | None:
    hours = times.hours(_seconds([impression.occurred_at for impression in impressions]))
    scores = _scores([impression.scores for impression in impressions], settings)
    campaigns = [impression.campaign for impression in impressions]
    rows = {name: row for row, name in enumerate(dict.fromkeys(campaigns))}
    ids = [impression.id for impression in impressions if impression.id is not None]
    if hours is None or scores is None or not are_campaigns(rows, settings.max_campaign_bytes):
        return None
    if ids and not 0 < min(map(len, ids)) <= max(map(len, ids)) <= LONGEST_ID:
        return None
    number = len(impressions)
    places = np.fromiter(map(rows.__getitem__, campaigns), np.intp, number)
    return EventColumns(list(rows), places, hours, scores, np.zeros(number), ids or None)


def _seconds(times: Sequence[Time]) -> NDArray[np.float64]:
    try:
        return np.fromiter(times, np.float64, len(times))
    except TypeError:
        seconds = (time if isinstance(time, float) else time.timestamp() for time in times)
        return np.fromiter(seconds, np.float64, len(times))


def _scores(scores: Sequence[dict[str, float]], settings: Settings) -> NDArray[np.float64] | None:
    """Those for `click`; None if one has none, or one for an unknown target."""
    if not set().union(*scores) <= set(settings.known_targets):
        return None
    try:
        return np.fromiter([score[CLICK] for score in scores], np.float64, len(scores))
    except KeyError:
        return None

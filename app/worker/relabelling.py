"""Relabelling: what the clicks of the recent window count as, with everything known by a moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.click_log import ClickLog, LoggedClicks
from app.settings import Settings
from app.worker.click_days import Span
from app.worker.hours import SECONDS
from app.worker.judging import quality, top_campaigns
from app.worker.label_source import LabelSource, label_source
from app.worker.model_shelf import ShelvedModel
from calibrators import BinsTable
from calibrators.history import HourTables
from pccem import Attribution, conversions_due, label

Floats = NDArray[np.float64]
Report = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Relabelled:
    """Clicks of a span whose post-click window is over, and what each counts, (n,)."""

    span: Span
    clicks: LoggedClicks
    attribution: Attribution
    shelved: ShelvedModel
    source: LabelSource
    labels: Floats

    @property
    def raw(self) -> BinsTable:
        """All of them by their scores: what a refit learns from."""
        return self._table(self.clicks.clicks.scores, np.ones(len(self.labels), np.bool_))

    def by_hour(self, newest: int) -> HourTables:
        """The same by hour, counted back from the end of the span: its last hour is `newest`."""
        clicks = self.clicks.clicks
        hours = newest + 1 + np.floor((clicks.clicked_at - self.span[1]) / SECONDS).astype(np.int64)
        return {int(hour): self._table(clicks.scores, hours == hour) for hour in np.unique(hours)}

    def report(self, settings: Settings) -> Report:
        """Quality of raw scores and of the probabilities that were in force, against the labels."""
        newest = self.clicks.clicks.clicked_at >= self.span[1] - SECONDS
        raw, calibrated = self.raw, self._calibrated(np.ones(len(newest), np.bool_))
        return {
            "hour": {
                "raw": quality(self._table(self.clicks.clicks.scores, newest)),
                "calibrated": quality(self._calibrated(newest)),
            },
            "window": {"raw": quality(raw), "calibrated": quality(calibrated)},
            "top": top_campaigns(raw, calibrated, settings.top_campaigns),
            "labels": self._labels(),
        }

    def _labels(self) -> Mapping[str, Any]:
        """What was seen, and what was expected in the end and by now."""
        seen = int(np.count_nonzero(self.attribution.converted))
        due = self._due()
        return {
            "clicks": len(self.labels),
            "seen": seen,
            "expected": float(self.labels.sum()),
            "due": due,
            "ratio": seen / due if due else None,
            "mode": self.source.rules.mode,
        }

    def _due(self) -> float | None:
        """Conversions that the uncorrected probabilities let expect by now."""
        delays = self.shelved.delays
        if delays is None:
            return None
        clicks, known, source = self.clicks.clicks, self.attribution, self.source
        return conversions_due(
            source.probabilities, known, delays, clicks.rows, clicks.campaigns, source.rules
        )

    def _calibrated(self, chosen: NDArray[np.bool_]) -> BinsTable:
        """Those of which it is known what served them."""
        probabilities = self.clicks.probabilities
        return self._table(probabilities, chosen & ~np.isnan(probabilities))

    def _table(self, values: Floats, chosen: NDArray[np.bool_]) -> BinsTable:
        clicks = self.clicks.clicks
        rows = clicks.rows[chosen].astype(np.int64)
        counts = np.ones(len(rows))
        return BinsTable.from_columns(
            clicks.campaigns, rows, values[chosen], counts, self.labels[chosen]
        )


def spans(settings: Settings, as_of: float, hours: int) -> list[Span]:
    """So many hours of clicks whose post-click window is over, newest first: a window of them,
    then, since more are never in memory at once, again a window or less."""
    behind = as_of - settings.post_click_seconds
    starts = range(0, hours, settings.window_hours)
    ends = (min(start + settings.window_hours, hours) for start in starts)
    return [
        (behind - end * SECONDS, behind - start * SECONDS)
        for start, end in zip(starts, ends, strict=True)
    ]


def relabelled(
    log: ClickLog,
    shelved: ShelvedModel | None,
    target: str,
    as_of: float,
    settings: Settings,
    span: Span | None = None,
) -> Relabelled | None:
    """A span's clicks of a delayed target as of a moment, those of the newest window unless said;
    None while labels have no source.

    None, too, without clicks: an hour of silence, or a folder that is not mounted, must not put the
    identity in the place of the maps in force.
    """
    if shelved is None or (shelved.model is None and shelved.delays is None):
        return None
    chosen = span or spans(settings, as_of, settings.window_hours)[0]
    window = settings.attribution_seconds(target)
    logged, known = log.known(target, *chosen, window=window, as_of=as_of)
    clicks = logged.clicks
    source = label_source(shelved, clicks, settings)
    if source.source == "none" or not len(clicks):
        return None
    p, rules = source.probabilities, source.rules
    labels = label(p, known, shelved.delays, clicks.rows, clicks.campaigns, rules)
    return Relabelled(chosen, logged, known, shelved, source, labels)

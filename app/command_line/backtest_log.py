"""The backtest of one log, without a service."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import evaluation
from app.command_line.backtest_methods import Methods
from app.command_line.backtested import Backtested
from app.command_line.errors import CommandError
from app.command_line.event_batches import MOST_ROWS, read_events
from app.command_line.judged import Judged
from app.command_line.judged_hours import RAW, after, first_judged_hour
from app.command_line.log_files import LogColumns
from app.command_line.percent_bar import percent_bar
from app.command_line.progress import progress
from app.command_line.tables import Rows
from app.settings import Settings
from calibrators import Sufficiency
from evaluation import EventTable
from evaluation.significance import Significance, significance

_FIRST_CHOICE = "sir"


@dataclass(frozen=True, slots=True)
class LogBacktest:
    """How a log is backtested and its calibrators are compared.

    Attributes
    ----------
    settings : of the service whose refits are repeated.
    calibrators : by name.
    raw_samples : whether maps are fitted on every single row.
    against : what the calibrators are compared with, besides the raw scores; None chooses.
    draws : of campaign-days; 0 for no intervals.
    seed : of the draws.
    quiet : whether no progress is shown.
    """

    settings: Settings
    calibrators: Methods
    raw_samples: bool
    against: str | None
    draws: int
    seed: int
    quiet: bool

    def run(self, log: Path, columns: LogColumns) -> Backtested:
        """Read, judge hour by hour, compare."""
        events = read_events(log, columns, quiet=self.quiet, most_rows=MOST_ROWS)
        notes = _notes(events)
        if notes and self.raw_samples:
            raise CommandError(f"--raw-samples: the {notes[0].removeprefix('The ')}")
        judged, cards = self._judge(events)
        # The hours of the first window are needed no more.
        del events
        against = self._against(cards)
        found = None
        if self.draws:
            found = self._compare(judged, cards, against)
        return Backtested(
            log.name, after(self.settings.window_hours), judged, cards, found, against,
            notes,
        )  # fmt: skip

    def _judge(self, events: EventTable) -> tuple[Judged, Rows]:
        settings = self.settings
        first = first_judged_hour(events, settings.window_hours)
        total = len(np.unique(events.hours[events.hours >= first]))
        with progress("fitting and judging", total, "hours", shown=not self.quiet) as advance:
            found = evaluation.backtest(
                events,
                self.calibrators,
                window_hours=settings.window_hours,
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                raw_samples=self.raw_samples,
                progress=lambda done, of: advance(""),
            )
        return Judged(events.select(found.rows), found.probabilities), found.scorecards

    def _against(self, cards: Rows) -> str:
        if self.against is not None:
            return self.against
        if _FIRST_CHOICE in self.calibrators:
            return _FIRST_CHOICE
        return min(self.calibrators, key=lambda name: cards[name]["log_loss"])

    def _compare(self, judged: Judged, cards: Rows, against: str) -> Significance:
        pairs = [(name, RAW) for name in self.calibrators]
        pairs += [(name, against) for name in self.calibrators if against not in (name, RAW)]
        with percent_bar("drawing campaign-days", shown=not self.quiet) as reached:
            return significance(
                judged.events,
                judged.predictions,
                cards,
                pairs,
                draws=self.draws,
                seed=self.seed,
                progress=lambda done, of: reached(done / of),
            )


def _notes(events: EventTable) -> list[str]:
    if events.weights is None:
        return []
    return [
        f"The log has {events.counts.sum():,.0f} rows, more than {MOST_ROWS:,}: rows of one hour,"
        " campaign and cell of scores (0.8 % wide) were taken together and judged at their mean"
        " score."
    ]

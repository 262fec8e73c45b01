"""From batches of a file to batches that are measured."""

import numpy as np

from app.command_line.errors import CommandError
from app.command_line.evaluate_columns import PresentColumns
from app.command_line.hour_numbers import HourNumbers
from app.command_line.log_batches import RawBatch
from app.command_line.log_column import LogColumn
from app.command_line.log_files import (
    BID_RULE,
    CAMPAIGN_RULE,
    LARGEST_BID,
    OUTCOME_RULE,
    SCORE_RULE,
)
from app.command_line.log_times import epoch_seconds
from app.command_line.slice_names import SliceNames
from evaluation.compact import OVERALL, LogBatch, LogCuts
from evaluation.compact.slice_order import LEFT_OUT, SliceCodes

HOURS, MAINLINE = "hours", "mainline"
MOST_VALUES, MOST_GROUPS = 100_000, 1_000_000
_LISTED = 12


class BatchReader:
    """Checks the values of one log and numbers its slices, batch after batch."""

    def __init__(self, file: str, present: PresentColumns) -> None:
        self._file, self.present = file, present
        self.hours = HourNumbers()
        self._placements = SliceNames(MOST_VALUES)
        self._values = {name: self._empty_names(name) for name in _sliced(present)}

    @property
    def cuts(self) -> list[str]:
        """The cuts of every batch."""
        cuts = [OVERALL, *map(column_cut, self._values)]
        if self.present.time is not None:
            cuts.append(HOURS)
        return [*cuts, MAINLINE] if self.present.columns.placement is not None else cuts

    def batch(self, raw: RawBatch) -> LogBatch:
        """The values of some rows; a `CommandError` names file, row, column, value and rule."""
        log = self.present.columns.log
        bids = None
        if self.present.bid is not None:
            bids = self._column(raw, self.present.bid).within(0, LARGEST_BID, BID_RULE)
        # Adding 0 makes -0 a 0.
        scores = self._column(raw, log.score).within(0, 1, SCORE_RULE) + 0.0
        outcomes = self._column(raw, log.outcome).truths().within(0, 1, OUTCOME_RULE)
        return LogBatch(scores, outcomes, bids, self._slices(raw))

    def names(self, column: str) -> list[str]:
        """The values of a column that the log is cut by, as they are numbered."""
        return self._values[column].names

    def sizes(self) -> LogCuts:
        """The cuts with as many slices as have come up."""
        sizes = {OVERALL: 1}
        sizes |= {column_cut(name): len(found.names) for name, found in self._values.items()}
        if self.present.time is not None:
            sizes[HOURS] = len(self.hours.hours)
        if self.present.columns.placement is not None:
            self._check_mainline()
            sizes[MAINLINE] = 1
        return LogCuts(
            sizes,
            campaigns=_cut_or_none(self.present.campaign),
            groups=_cut_or_none(self.present.group),
            mainline=MAINLINE if MAINLINE in sizes else None,
        )

    def _slices(self, raw: RawBatch) -> dict[str, SliceCodes | None]:
        slices: dict[str, SliceCodes | None] = {OVERALL: None}
        for name, found in self._values.items():
            slices[column_cut(name)] = found.codes(self._column(raw, name))
        if self.present.time is not None:
            slices[HOURS] = self.hours.codes(epoch_seconds(self._column(raw, self.present.time)))
        if self.present.columns.placement is not None:
            slices[MAINLINE] = self._mainline(self._column(raw, self.present.columns.placement))
        return slices

    def _mainline(self, placements: LogColumn) -> SliceCodes:
        codes = self._placements.codes(placements)
        names = self._placements.names
        wanted = self.present.columns.mainline
        number = names.index(wanted) if wanted in names else LEFT_OUT - 1
        return np.where(codes == number, 0, LEFT_OUT).astype(np.int32)

    def _check_mainline(self) -> None:
        names, asked = self._placements.names, self.present.columns
        if asked.mainline not in names:
            shown = ", ".join(sorted(names)[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
            raise CommandError(
                f"{self._file}: no row has {asked.placement} = {asked.mainline!r}, so there is no"
                f" mainline. {asked.placement} is one of: {shown}"
            )

    def _column(self, raw: RawBatch, name: str) -> LogColumn:
        return LogColumn(self._file, name, raw.columns[name], first=raw.first)

    def _empty_names(self, name: str) -> SliceNames:
        if name == self.present.campaign:
            return SliceNames(MOST_GROUPS, refused=CAMPAIGN_RULE)
        if name in self.present.columns.by:
            return SliceNames(MOST_VALUES)
        # Who has no group competes with no one.
        return SliceNames(MOST_GROUPS, skip_empty=True)


def column_cut(column: str) -> str:
    """The cut by the values of a column."""
    return f"column {column}"


def _cut_or_none(column: str | None) -> str | None:
    return None if column is None else column_cut(column)


def _sliced(present: PresentColumns) -> list[str]:
    names = (present.campaign, *present.columns.by, present.group)
    return [*dict.fromkeys(name for name in names if name is not None)]

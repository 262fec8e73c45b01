"""The log that `sirocco evaluate` reads: which columns it may lack, and its hours and slices,
numbered as they come up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.datasets.impressions import BID_RULE, CAMPAIGN_RULE, LARGEST_BID, LogColumns
from app.datasets.tables import LogColumn, LogRows, in_one, require_columns
from app.errors import CommandError
from evaluation.backtest.event_table import SECONDS_PER_HOUR
from evaluation.streaming.log import OVERALL, Groupings
from evaluation.streaming.rows import LEFT_OUT, LogBatch, SliceCodes

_DEFAULTS = LogColumns()


@dataclass(frozen=True, slots=True)
class EvaluateColumns:
    """The columns by what they hold.

    log : score and outcome, which must be there; campaign, time and bid, which a log may lack
        unless the user has named them.
    by : further columns to cut the log by.
    group : what GAUC and gcsAUC average over; None is the campaign.
    placement, mainline : the column and its value whose rows are the mainline.
    fields : columns whose values, and pairs of values, are looked at for errors.
    """

    log: LogColumns
    by: Sequence[str] = ()
    group: str | None = None
    placement: str | None = None
    mainline: str | None = None
    fields: Sequence[str] = ()

    def present(self, file: str, names: Sequence[str]) -> "PresentColumns":
        """What a file with columns `names` has of them; a `CommandError` when one is missing."""
        found = {what: name for what, name in self._optional.items() if name in names}
        require_columns(file, names, {**self._needed, **found}, by=self.by, fields=self.fields)
        return PresentColumns(self, found.get("campaign"), found.get("time"), found.get("bid"))

    @property
    def words(self) -> list[str]:
        """The columns whose values are names."""
        words = (self.log.campaign, *self.by, self.group, self.placement, *self.fields)
        return [*dict.fromkeys(name for name in words if name is not None)]

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types of the columns of text files."""
        return {**dict.fromkeys(self.words, pa.string()), **self.log.types}

    @property
    def _optional(self) -> dict[str, str]:
        return {"campaign": self.log.campaign, "time": self.log.time, "bid": self.log.bid}

    @property
    def _needed(self) -> dict[str, str]:
        needed = {"score": self.log.score, **self.log.counted}
        named = {"group": self.group, "placement": self.placement}
        for what, name in self._optional.items():
            named[what] = name if name != getattr(_DEFAULTS, what) else None
        return needed | {what: name for what, name in named.items() if name is not None}


@dataclass(frozen=True, slots=True)
class PresentColumns:
    """The columns that a log has; None for what it lacks."""

    columns: EvaluateColumns
    campaign: str | None
    time: str | None
    bid: str | None

    @property
    def chosen(self) -> list[str]:
        """The columns to read."""
        wanted = self.columns
        names = (
            wanted.log.score, *wanted.log.counted.values(), self.campaign, self.time, self.bid,
            *wanted.by, wanted.group, wanted.placement, *wanted.fields,
        )  # fmt: skip
        return [*dict.fromkeys(name for name in names if name is not None)]

    @property
    def group(self) -> str | None:
        """What GAUC and gcsAUC average over."""
        return self.columns.group or self.campaign

    def notes(self, file: str) -> list[str]:
        """What the log lacks and what that leaves out."""
        missing = {
            "campaign": (self.campaign, "nothing by campaign, no GC-N"),
            "time": (self.time, "nothing by hour"),
            "bid": (self.bid, "no ROPR, no csAUC"),
        }
        return [
            f"{file} has no column {getattr(self.columns.log, what)!r}: {lost}."
            for what, (name, lost) in missing.items()
            if name is None
        ]


class HourNumbers:
    """The distinct hours so far; number i is the epoch hour `hours[i]`."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    @property
    def hours(self) -> list[int]:
        """Hours since 1970 by number."""
        return list(self._numbers)

    def codes(self, times: NDArray[np.float64]) -> SliceCodes:
        """The hour of every time, (n,), epoch seconds between two that are a century apart."""
        hours = (times / SECONDS_PER_HOUR).astype(np.int64)
        first = int(hours.min(initial=0 if not len(hours) else hours[0]))
        hours -= first
        held = np.flatnonzero(np.bincount(hours))
        table = np.zeros(int(hours.max(initial=0)) + 1, np.int32)
        table[held] = [
            self._numbers.setdefault(first + hour, len(self._numbers)) for hour in held.tolist()
        ]
        return table[hours]


NAMELESS = "(none)"
"""The slice of rows whose value is empty."""


class SliceNames:
    """The distinct values of one column so far; number i is the slice `names[i]`.

    More than `most` of them are a `CommandError`. Rows with an empty value are a slice of their
    own; with `skip_empty` they are in none, and `refused` is the rule that they break.
    """

    def __init__(self, most: int, *, skip_empty: bool = False, refused: str = "") -> None:
        self._most, self._skip_empty, self._refused = most, skip_empty, refused
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The values by number."""
        return list(self._numbers)

    def codes(self, column: LogColumn) -> SliceCodes:
        """The slice of every row, (n,); -1 for none."""
        values, indices = _encoded(column)
        # A dictionary may hold values that no row has.
        held = np.flatnonzero(np.bincount(indices, minlength=len(values)))
        if self._refused and any(not values[place] for place in held.tolist()):
            empty = [place for place, value in enumerate(values) if not value]
            column.refuse_where(np.isin(indices, empty), self._refused)
        numbers = np.full(len(values), LEFT_OUT, np.int32)
        numbers[held] = [self._number(values[place]) for place in held.tolist()]
        if len(self._numbers) > self._most:
            raise _too_many(column, self._most)
        return numbers[indices]

    def _number(self, value: str) -> int:
        if not value and self._skip_empty:
            return LEFT_OUT
        return self._numbers.setdefault(value or NAMELESS, len(self._numbers))


def _encoded(column: LogColumn) -> tuple[list[str], NDArray[np.int64]]:
    """The values that a batch may hold, the last of which stands for null, and which each row has,
    (n,)."""
    try:
        encoded = in_one(column.values).dictionary_encode()
        values = pc.cast(encoded.dictionary, pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        kind = column.values.type
        raise CommandError(
            f"{column.file}: column {column.name!r} holds {kind}; slices are named by text, numbers"
            " or truth values"
        ) from error
    indices = np.asarray(pc.fill_null(pc.cast(encoded.indices, pa.int64()), len(values)))
    return [*(value or "" for value in values), ""], indices


def _too_many(column: LogColumn, most: int) -> CommandError:
    hint = ": cut them into ranges first" if pa.types.is_floating(column.values.type) else ""
    return CommandError(
        f"{column.file}: column {column.name!r} has more than {most:,} values, too many to compare"
        f"{hint}"
    )


HOURS, MAINLINE = "hours", "mainline"
MOST_VALUES, MOST_GROUPS = 100_000, 1_000_000
_LISTED = 12


class BatchReader:
    """Checks the values of one log and numbers its slices, batch after batch."""

    def __init__(self, file: str, present: PresentColumns) -> None:
        self._file, self.present = file, present
        self.hours = HourNumbers()
        self._placements = SliceNames(MOST_VALUES)
        sliced = dict.fromkeys((present.campaign, *present.columns.by, present.group))
        self._values = {name: self._empty_names(name) for name in sliced if name is not None}
        self._fields = {name: SliceNames(MOST_GROUPS) for name in present.columns.fields}

    @property
    def cuts(self) -> list[str]:
        """The cuts of every batch."""
        cuts = [OVERALL, *map(column_cut, self._values)]
        if self.present.time is not None:
            cuts.append(HOURS)
        return [*cuts, MAINLINE] if self.present.columns.placement is not None else cuts

    def batch(self, rows: LogRows) -> LogBatch | None:
        """The values of the rows that count; a `CommandError` names file, row, column, value and
        rule."""
        log = self.present.columns.log
        rows, weights = log.weighted(rows)
        if not len(rows):
            return None
        bids = None
        if self.present.bid is not None:
            bids = rows.column(self.present.bid).within(0, LARGEST_BID, BID_RULE)
        # Adding 0 makes -0 a 0.
        scores = rows.column(log.score).scores() + 0.0
        outcomes = log.outcomes(rows, weights)
        slices = self._slices(rows)
        fields = {name: found.codes(rows.column(name)) for name, found in self._fields.items()}
        return LogBatch(scores, outcomes, bids, slices, weights, fields)

    def field_values(self, field: str) -> list[str]:
        """The values of a field so far, as they are numbered."""
        return self._fields[field].names

    def names(self, column: str) -> list[str]:
        """The values of a column that the log is cut by, as they are numbered."""
        return self._values[column].names

    def sizes(self) -> Groupings:
        """The cuts with as many slices as have come up."""
        sizes = {OVERALL: 1}
        sizes |= {column_cut(name): len(found.names) for name, found in self._values.items()}
        if self.present.time is not None:
            sizes[HOURS] = len(self.hours.hours)
        if self.present.columns.placement is not None:
            self._check_mainline()
            sizes[MAINLINE] = 1
        return Groupings(
            sizes,
            campaigns=_cut_or_none(self.present.campaign),
            groups=_cut_or_none(self.present.group),
            mainline=MAINLINE if MAINLINE in sizes else None,
        )

    def _slices(self, rows: LogRows) -> dict[str, SliceCodes | None]:
        # Names and hours are numbered when no row is refused any more.
        times = None if self.present.time is None else rows.column(self.present.time).times()
        slices: dict[str, SliceCodes | None] = {OVERALL: None}
        for name, found in self._values.items():
            slices[column_cut(name)] = found.codes(rows.column(name))
        if times is not None:
            slices[HOURS] = self.hours.codes(times)
        if self.present.columns.placement is not None:
            slices[MAINLINE] = self._mainline(rows.column(self.present.columns.placement))
        return slices

    def _mainline(self, placements: LogColumn) -> SliceCodes:
        codes = self._placements.codes(placements)
        names = self._placements.names
        wanted = self.present.columns.mainline
        number = names.index(wanted) if wanted in names else LEFT_OUT - 1
        return np.where(codes == number, 0, LEFT_OUT).astype(np.int32)

    def _check_mainline(self) -> None:
        names, wanted = self._placements.names, self.present.columns
        if wanted.mainline not in names:
            shown = ", ".join(sorted(names)[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
            raise CommandError(
                f"{self._file}: no row has {wanted.placement} = {wanted.mainline!r}, so there is no"
                f" mainline. {wanted.placement} is one of: {shown}"
            )

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

"""One of two logs that are compared, read batch by batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.id_hashes import Hashes, hash_ids
from app.command_line.judged import Floats
from app.command_line.log_batches import LogFile, RawBatch
from app.command_line.log_column import LogColumn
from app.command_line.log_files import (
    BID_RULE,
    CAMPAIGN_RULE,
    LARGEST_BID,
    OUTCOME_RULE,
    SCORE_RULE,
    LogColumns,
    require_columns,
)
from app.command_line.log_times import epoch_seconds
from app.command_line.table_files import no_rows

ID_RULE = "an id must not be empty"
Chosen = NDArray[np.int64] | slice


@dataclass(frozen=True, slots=True)
class Campaigns:
    """Distinct names, and for every row, (n,), which of them it has."""

    names: tuple[str, ...]
    rows: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class SideBatch:
    """Rows of one log: scores, and what else the log has of each, (n,); None where it has not.

    `first` rows of the file come before them, and `done` is the share of it that has been read.
    """

    file: str
    first: int
    done: float
    scores: Floats
    campaigns: Campaigns | None
    times: Floats | None
    outcomes: Floats | None
    bids: Floats | None
    ids: Hashes | None

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, chosen: Chosen) -> "SideBatch":
        """Some of the rows; a slice of them begins where it begins."""
        skipped = chosen.start or 0 if isinstance(chosen, slice) else 0
        campaigns = self.campaigns
        return SideBatch(
            self.file,
            self.first + skipped,
            self.done,
            self.scores[chosen],
            None if campaigns is None else Campaigns(campaigns.names, campaigns.rows[chosen]),
            None if self.times is None else self.times[chosen],
            None if self.outcomes is None else self.outcomes[chosen],
            None if self.bids is None else self.bids[chosen],
            None if self.ids is None else self.ids[chosen],
        )

    @classmethod
    def joined(cls, parts: Sequence["SideBatch"]) -> Self:
        """The parts of one log, one after the other."""

        def column(name: str) -> Any:
            found = [getattr(part, name) for part in parts]
            return None if found[0] is None else np.concatenate(found)

        plain = (column(name) for name in ("times", "outcomes", "bids", "ids"))
        return cls(
            parts[0].file, 0, parts[-1].done, column("scores"),
            _joined([part.campaigns for part in parts]), *plain,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SideFile:
    """A log that is compared, and its columns; `side` is what its score option ends in."""

    path: Path
    columns: LogColumns
    side: str
    id: str | None = None

    def batches(self) -> Iterator[SideBatch]:
        """All rows in order; a `CommandError` names file, row, column, value and rule."""
        file = LogFile(self.path, self._choose, self.columns.types, (self.columns.campaign,))
        empty = True
        for batch in file.batches():
            empty = False
            yield self._batch(batch)
        if empty:
            raise no_rows(self.path)

    def _choose(self, names: Sequence[str]) -> list[str]:
        required = {f"score-{self.side}": self.columns.score}
        if self.id is not None:
            required["id"] = self.id
        require_columns(self.path, names, required)
        columns = self.columns
        others = (columns.campaign, columns.time, columns.outcome, columns.bid)
        present = {name: name for name in others if name in names}
        require_columns(self.path, names, present)
        return [*dict.fromkeys([*required.values(), *present])]

    def _batch(self, batch: RawBatch) -> SideBatch:
        columns = self.columns
        read = _Reader(self.path.name, batch.first, _chunked(batch.columns))
        return SideBatch(
            self.path.name,
            batch.first,
            batch.done,
            read.numbers(columns.score, 1.0, SCORE_RULE),
            read.campaigns(columns.campaign),
            read.times(columns.time),
            read.optional(columns.outcome, 1.0, OUTCOME_RULE),
            read.optional(columns.bid, LARGEST_BID, BID_RULE),
            None if self.id is None else read.ids(self.id),
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Columns of a batch as arrays; None for a column that is not there."""

    file: str
    first: int
    columns: Mapping[str, Any]

    def numbers(self, name: str, high: float, rule: str) -> Floats:
        return self._column(name).within(0, high, rule)

    def optional(self, name: str, high: float, rule: str) -> Floats | None:
        return self.numbers(name, high, rule) if name in self.columns else None

    def times(self, name: str) -> Floats | None:
        return epoch_seconds(self._column(name)) if name in self.columns else None

    def campaigns(self, name: str) -> Campaigns | None:
        if name not in self.columns:
            return None
        return Campaigns(*self._column(name).categories(CAMPAIGN_RULE))

    def ids(self, name: str) -> Hashes:
        column = self._column(name).plain()
        column.require_all(ID_RULE)
        return hash_ids(pc.cast(column.values, pa.large_string()))

    def _column(self, name: str) -> LogColumn:
        return LogColumn(self.file, name, self.columns[name], first=self.first)


def _chunked(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: pa.chunked_array([column]) for name, column in columns.items()}


def _joined(parts: Sequence[Campaigns | None]) -> Campaigns | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    names = tuple(sorted(set().union(*(part.names for part in known))))
    rank = {name: row for row, name in enumerate(names)}
    rows = [np.array([rank[n] for n in part.names], np.int32)[part.rows] for part in known]
    return Campaigns(names, np.concatenate(rows))

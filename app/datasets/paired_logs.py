"""Two logs of the same impressions, read batch by batch: row beside row, or joined by an id."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.rows import Hashes, hash_ids
from app.datasets.impressions import BID_RULE, CAMPAIGN_RULE, LARGEST_BID, OUTCOME_RULE, LogColumns
from app.datasets.options import Reading
from app.datasets.parts import Where, name_of, shown
from app.datasets.reading import LogReader
from app.datasets.tables import LogColumn, LogRows, require_columns
from app.errors import CommandError
from calibrators.samples import Floats
from evaluation import EventTable

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
        found = self.campaigns
        campaigns = None if found is None else Campaigns(found.names, found.rows[chosen])
        columns: tuple[Any, ...] = (self.times, self.outcomes, self.bids, self.ids)
        others = (None if column is None else column[chosen] for column in columns)
        scores = self.scores[chosen]
        return SideBatch(self.file, self.first + skipped, self.done, scores, campaigns, *others)

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

    path: Where
    columns: LogColumns
    side: str
    id: str | None = None
    reading: Reading = field(default_factory=Reading)

    def batches(self) -> Iterator[SideBatch]:
        """All rows in order; a `CommandError` names file, row, column, value and rule."""
        words, types = (self.columns.campaign,), self.columns.types
        if self.id is not None:
            types = {**types, self.id: pa.string()}
        reader = LogReader(self.path, self._choose, types, words, self.reading)
        for batch, _ in reader.parsed(self._batch):
            yield batch

    def _choose(self, file: str, names: Sequence[str]) -> list[str]:
        required = {f"score-{self.side}": self.columns.score}
        if self.id is not None:
            required["id"] = self.id
        require_columns(file, names, required)
        columns = self.columns
        others = (columns.campaign, columns.time, columns.outcome, columns.bid)
        present = {name: name for name in others if name in names}
        require_columns(file, names, present)
        return [*dict.fromkeys([*required.values(), *present])]

    def _batch(self, rows: LogRows) -> SideBatch:
        columns = self.columns
        named, timed, judged, priced = (
            name in rows.columns
            for name in (columns.campaign, columns.time, columns.outcome, columns.bid)
        )
        return SideBatch(
            name_of(self.path),
            rows.first,
            rows.done,
            rows.column(columns.score).scores(),
            Campaigns(*rows.column(columns.campaign).categories(CAMPAIGN_RULE)) if named else None,
            rows.column(columns.time).times() if timed else None,
            rows.column(columns.outcome).truths().within(0, 1, OUTCOME_RULE) if judged else None,
            rows.column(columns.bid).within(0, LARGEST_BID, BID_RULE) if priced else None,
            None if self.id is None else _hashed(rows.column(self.id).plain()),
        )


def _hashed(ids: LogColumn) -> Hashes:
    ids.require_all(ID_RULE)
    return hash_ids(pa.chunked_array([pc.cast(ids.as_written(), pa.large_string())]))


def _joined(parts: Sequence[Campaigns | None]) -> Campaigns | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    names = tuple(sorted(set().union(*(part.names for part in known))))
    rank = {name: row for row, name in enumerate(names)}
    rows = [np.array([rank[n] for n in part.names], np.int32)[part.rows] for part in known]
    return Campaigns(names, np.concatenate(rows))


MILLISECOND: Final = 1e-3
"""Times that are no further apart are one: files differ in what they round them to."""

Column = TypeVar("Column", Floats, Campaigns)

_HINT: Final = {
    False: "both must hold the same impressions in the same order, or name an id to join them by"
    " with --id",
    True: "rows of one id must be the same impression",
}


@dataclass(frozen=True, slots=True, eq=False)
class PairedBatch:
    """Impressions with A's scores, and B's scores of them, (n,); `done` is the share read."""

    events: EventTable
    scores_b: Floats
    done: float


def agreed(a: SideBatch, b: SideBatch) -> PairedBatch:
    """The rows of both, (n,) each, as one.

    What only one log has is taken from it. A `CommandError` names the first row that differs in
    what both have, or a column that neither has.
    """
    _agree_on_campaigns(a, b)
    _agree(a, b, "time", (a.times, b.times), MILLISECOND, _moment)
    _agree(a, b, "outcome", (a.outcomes, b.outcomes), 0.0, "{:g}".format)
    _agree(a, b, "bid", (a.bids, b.bids), 0.0, "{:g}".format)
    campaigns = _either(a, b, "campaign", a.campaigns, b.campaigns)
    events = EventTable(
        _either(a, b, "time", a.times, b.times),
        campaigns.names,
        campaigns.rows,
        a.scores,
        _either(a, b, "outcome", a.outcomes, b.outcomes),
        a.bids if a.bids is not None else b.bids,
    )
    return PairedBatch(events, b.scores, 0.5 * (a.done + b.done))


def _either(
    a: SideBatch, b: SideBatch, what: str, ours: Column | None, theirs: Column | None
) -> Column:
    found = ours if ours is not None else theirs
    if found is None:
        raise CommandError(
            f"neither {a.file} nor {b.file} has a column of the {what}: name it with --{what}"
        )
    return found


def _agree_on_campaigns(a: SideBatch, b: SideBatch) -> None:
    ours, theirs = a.campaigns, b.campaigns
    if ours is None or theirs is None:
        return
    index = {name: row for row, name in enumerate(ours.names)}
    places = np.array([index.get(name, -1) for name in theirs.names], np.int32)
    differs = places[theirs.rows] != ours.rows
    if differs.any():
        row = int(np.argmax(differs))
        found = (repr(side.names[side.rows[row]]) for side in (ours, theirs))
        raise _unlike(a, b, "campaign", row, *found)


def _agree(
    a: SideBatch,
    b: SideBatch,
    what: str,
    columns: tuple[Floats | None, Floats | None],
    most: float,
    shown: Callable[[float], str],
) -> None:
    ours, theirs = columns
    if ours is None or theirs is None:
        return
    differs = np.abs(ours - theirs) > most
    if differs.any():
        row = int(np.argmax(differs))
        raise _unlike(a, b, what, row, *(shown(float(column[row])) for column in (ours, theirs)))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _unlike(
    a: SideBatch, b: SideBatch, what: str, row: int, ours: str, theirs: str
) -> CommandError:
    joined = a.ids is not None
    place = "a row" if joined else f"row {a.first + row + 1}"
    return CommandError(
        f"{place}: the {what} is {ours} in {a.file} and {theirs} in {b.file}; {_HINT[joined]}"
    )


def joined_batches(a: SideFile, b: SideFile) -> Iterator[PairedBatch]:
    """The rows of A in order, each with the row of B that has its id; B is held in memory.

    A `CommandError` says how many ids stand twice in a log, or in one log only.
    """
    held = SideBatch.joined([*b.batches()])
    ids = _ids(held)
    order = np.argsort(ids)
    ordered = ids[order]
    _check_distinct(b, int((ordered[1:] == ordered[:-1]).sum()))
    found = np.zeros(len(ordered), bool)
    missing = twice = 0
    unlike: CommandError | None = None
    for batch in a.batches():
        places = np.minimum(np.searchsorted(ordered, _ids(batch)), len(ordered) - 1)
        known = ordered[places] == _ids(batch)
        matched = places[known]
        twice += len(matched) - int((~found[np.unique(matched)]).sum())
        found[matched] = True
        missing += int((~known).sum())
        if known.any() and unlike is None:
            try:
                yield agreed(batch.part(np.flatnonzero(known)), held.part(order[matched]))
            except CommandError as error:
                # Ids that stand twice explain it better.
                unlike = error
    _check_distinct(a, twice)
    _check_matched(a.path, b.path, missing, int((~found).sum()))
    if unlike is not None:
        raise unlike


def _ids(batch: SideBatch) -> Hashes:
    return np.empty(0, np.uint64) if batch.ids is None else batch.ids


def _check_distinct(file: SideFile, twice: int) -> None:
    if twice:
        raise CommandError(
            f"{shown(file.path)}: {twice:,} {'rows have' if twice > 1 else 'row has'} an id that"
            f" stands in a row before; column {file.id!r} must hold every id once"
        )


def _check_matched(a: Where, b: Where, only_a: int, only_b: int) -> None:
    if only_a or only_b:
        raise CommandError(
            f"{only_a:,} ids of {shown(a)} are not in {shown(b)}, {only_b:,} of {shown(b)} are not"
            f" in {shown(a)}: both must hold the same impressions"
        )


def paired_batches(a: SideFile, b: SideFile) -> Iterator[PairedBatch]:
    """The rows of both logs in step, as they stand.

    A `CommandError` names the first row that differs, or how many rows each log has.
    """
    rest_a, rest_b = a.batches(), b.batches()
    ours, theirs = next(rest_a, None), next(rest_b, None)
    paired = 0
    while ours is not None and theirs is not None:
        size = min(len(ours), len(theirs))
        yield agreed(ours.part(slice(0, size)), theirs.part(slice(0, size)))
        paired += size
        ours, theirs = _behind(ours, size, rest_a), _behind(theirs, size, rest_b)
    if ours is not None or theirs is not None:
        rows_a, rows_b = paired + _left(ours, rest_a), paired + _left(theirs, rest_b)
        raise CommandError(
            f"{shown(a.path)} has {rows_a:,} rows, {shown(b.path)} has {rows_b:,}: both must hold"
            " the same impressions in the same order, or name an id to join them by with --id"
        )


def _behind(batch: SideBatch, size: int, rest: Iterator[SideBatch]) -> SideBatch | None:
    """What is left of a batch, or the next one."""
    return batch.part(slice(size, None)) if size < len(batch) else next(rest, None)


def _left(batch: SideBatch | None, rest: Iterator[SideBatch]) -> int:
    return 0 if batch is None else len(batch) + sum(map(len, rest))

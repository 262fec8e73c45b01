"""Logs of auctions in files, read and synthetic: a row for each candidate of each page."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from app.datasets.tables import LogColumn, is_text, read_table, require_once
from app.errors import FAILED, CommandError
from calibrators.samples import Floats
from evaluation.auction import BadRow, DrawnSearchLog, SearchLog, SearchPlatform, SlotLayout

CANDIDATE: Final = "candidate"
_EMPTY: Final = "every candidate has a page, a query and an ad: their names or numbers"
_NOT_SHOWN: Final = "0 or 1; it may be empty where the ad was not shown"


@dataclass(frozen=True, slots=True)
class AuctionColumns:
    """Which column of the log holds what; `candidate` None is read where the log has one."""

    page: str = "page"
    query: str = "query"
    ad: str = "ad"
    position: str = "position"
    clicked: str = "clicked"
    bid: str = "bid"
    score: str = "score"
    candidate: str | None = None

    @property
    def required(self) -> dict[str, str]:
        """What -> the column that must be there."""
        return {what: name for what, name in asdict(self).items() if name is not None}

    def choose(self, file: str, names: Sequence[str]) -> list[str]:
        """The columns to read from a file with columns `names`, or a `CommandError`."""
        self._require(file, names)
        chosen = [*self.required.values()]
        if self.candidate is None and names.count(CANDIDATE) == 1:
            chosen.append(CANDIDATE)
        return [*dict.fromkeys(chosen)]

    def types(self) -> dict[str, Any]:
        """Arrow types of the columns in text files."""
        texts, numbers = (self.page, self.query, self.ad), (self.position, self.clicked, self.bid)
        scores = (self.score, self.candidate or CANDIDATE)
        return {
            **dict.fromkeys((*numbers, *scores), pa.float64()),
            **dict.fromkeys(texts, pa.string()),
        }

    def _require(self, file: str, names: Sequence[str]) -> None:
        missing = {what: name for what, name in self.required.items() if name not in names}
        if missing:
            listed = ", ".join(repr(name) for name in missing.values())
            options = ", ".join(f"--{what}" for what in missing)
            raise CommandError(
                f"{file} has no column {listed}: name what it has with {options}. A log of auctions"
                " has a row for each candidate of each page, shown or not (sirocco auction --help)."
                f" It has: {', '.join(names)}"
            )
        for name in self.required.values():
            require_once(file, names, name)


def codes(column: LogColumn) -> NDArray[np.int32]:
    """Every value's place among the distinct ones in the order of their names, (n,)."""
    column.require_all(_EMPTY)
    values = column.plain().values
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        column.refuse(int(np.argmax(np.asarray(pc.is_nan(values)))), "nan", _EMPTY)
    try:
        encoded = values.combine_chunks().dictionary_encode()
        names = pc.cast(encoded.dictionary, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CommandError(
            f"{column.file}: column {column.name!r} holds {values.type}; {_EMPTY}"
        ) from error
    order = np.asarray(pc.sort_indices(names))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order))
    rows: NDArray[np.int32] = ranks[np.asarray(encoded.indices)]
    if names[int(order[0])].as_py() == "":
        column.refuse(int(np.argmin(rows)), "", _EMPTY)
    return rows


def positions(column: LogColumn, mainline: int, sidebar: int) -> NDArray[np.int32]:
    """The slot of every row, (n,); 0 where it was not shown."""
    last = mainline + sidebar
    rule = (
        f"a position is a whole number from 1 to {last} (--mainline {mainline}, --sidebar"
        f" {sidebar}), empty or 0 where the ad was not shown"
    )
    numbers = _with_zeros(column).within(0, last, rule)
    broken = numbers % 1 != 0.0
    if broken.any():
        row = int(np.argmax(broken))
        column.refuse(row, column.values[row].as_py(), rule)
    return numbers.astype(np.int32)


def clicks(column: LogColumn, shown: NDArray[np.bool_]) -> NDArray[np.float64]:
    """0 or 1 for every row, (n,)."""
    missing = np.asarray(pc.is_null(_with_nulls(column))) & shown
    if missing.any():
        column.refuse(int(np.argmax(missing)), "", _NOT_SHOWN)
    numbers = _with_zeros(column.truths()).within(0, 1, _NOT_SHOWN)
    between = numbers % 1 != 0.0
    if between.any():
        row = int(np.argmax(between))
        column.refuse(row, column.values[row].as_py(), _NOT_SHOWN)
    return numbers


def _with_zeros(column: LogColumn) -> LogColumn:
    """The column with 0 in place of every empty value."""
    values = _with_nulls(column)
    zero = pa.scalar("0") if is_text(values.type) else pa.scalar(0)
    return replace(column, values=pc.fill_null(values, pc.cast(zero, values.type)))


def _with_nulls(column: LogColumn) -> Any:
    """The column's values, with null in place of empty text."""
    values = column.plain().values
    if pa.types.is_null(values.type):
        return pc.cast(values, pa.float64())
    if not is_text(values.type):
        return values
    nothing = pc.equal(values, pa.scalar("", values.type))
    return pc.if_else(nothing, pa.scalar(None, values.type), values)


_SCORE = "a score must be a number in [0, 1]"
_BID = "a bid is a number from 0 up"


@dataclass(frozen=True, slots=True, eq=False)
class AuctionLog:
    """A log, and the scores of its rows by model, (n,) each in the order of the file.

    The first model is the one in force.
    """

    log: SearchLog
    models: dict[str, Floats]


def read_auction_log(path: Path, columns: AuctionColumns, layout: SlotLayout) -> AuctionLog:
    """The candidates of a log, rows in any order; a `CommandError` names file, row, column, value
    and rule."""
    read = _read(path, columns, layout)
    # The table is gone, but its memory would stay with Arrow, and the auctions need it.
    pa.default_memory_pool().release_unused()
    return read


def _read(path: Path, columns: AuctionColumns, layout: SlotLayout) -> AuctionLog:
    def choose(names: Sequence[str]) -> list[str]:
        return columns.choose(path.name, names)

    table = read_table(path, choose, columns.types())

    def column(name: str) -> LogColumn:
        return LogColumn(path.name, name, table.column(name))

    candidate = columns.candidate or CANDIDATE
    names = {"baseline": columns.score}
    if candidate in table.column_names:
        names["candidate"] = candidate
    models = {model: column(name).within(0, 1, _SCORE) for model, name in names.items()}
    return AuctionLog(_log(column, columns, layout), models)


def _log(
    column: Callable[[str], LogColumn], columns: AuctionColumns, layout: SlotLayout
) -> SearchLog:
    position = positions(column(columns.position), layout.mainline, layout.sidebar)
    bids = column(columns.bid).within(0, np.inf, _BID)
    if np.isinf(bids).any():
        column(columns.bid).refuse(int(np.argmax(np.isinf(bids))), float("inf"), _BID)
    arrays: dict[str, Any] = {
        "pages": codes(column(columns.page)),
        "queries": codes(column(columns.query)),
        "ads": codes(column(columns.ad)),
        "positions": position,
        "clicks": clicks(column(columns.clicked), position > 0),
        "bids": bids,
    }
    try:
        return SearchLog.of(**arrays, layout=layout)
    except BadRow as bad:
        named = {
            "queries": columns.query,
            "ads": columns.ad,
            "positions": columns.position,
            "clicks": columns.clicked,
        }
        broken = column(named[bad.column])
        broken.refuse(bad.row, broken.values[bad.row].as_py(), bad.rule)


PAGES_PER_QUERY = 100
DEMO_CANDIDATE = "sharper_head"
_BASELINE = "baseline"
_WRITERS = {".parquet": pyarrow.parquet.write_table, ".csv": pyarrow.csv.write_csv}


def drawn_log(pages: int, seed: int) -> DrawnSearchLog:
    """Pages of the synthetic search engine, a query for every hundred."""
    return SearchPlatform(max(pages // PAGES_PER_QUERY, 1), pages=pages, seed=seed).draw()


def demo_models(drawn: DrawnSearchLog) -> AuctionLog:
    """The log as `sirocco auction` would read it."""
    models = {"baseline": drawn.scores, "candidate": drawn.models[DEMO_CANDIDATE]}
    return AuctionLog(drawn.log, models)


def check_writable(path: Path) -> None:
    """A `CommandError` when no log can be written at `path`."""
    if path.suffix.lower() not in _WRITERS:
        raise CommandError(f"{path}: --write makes a {' or a '.join(_WRITERS)}")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")


def write_log(drawn: DrawnSearchLog, path: Path) -> int:
    """Save the log under the default names of columns; returns the number of rows."""
    log = drawn.log
    others = {name: scores for name, scores in drawn.models.items() if name != _BASELINE}
    table = pa.table(
        {
            "page": log.pages,
            "query": log.queries,
            "ad": log.ads,
            "position": pa.array(log.positions, mask=log.positions == 0),
            "clicked": log.clicks.astype(np.int8),
            "bid": log.bids,
            "score": drawn.scores,
            "candidate": others.pop(DEMO_CANDIDATE),
            **others,
        }
    )
    try:
        _WRITERS[path.suffix.lower()](table, path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error
    return int(table.num_rows)

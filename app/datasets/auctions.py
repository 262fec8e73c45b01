"""Logs of auctions in files, read and synthetic: a row for each candidate of each page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from app.datasets.impressions import BID_RULE, LARGEST_BID
from app.datasets.options import Reading
from app.datasets.parts import Where
from app.datasets.reading import LogReader
from app.datasets.tables import BadRows, LogColumn, LogRows, require_once
from app.errors import FAILED, CommandError
from app.whole_files import check_new, whole_file
from calibrators.samples import Floats
from evaluation.auction.gsp import SlotLayout
from evaluation.auction.identifiers import BadRow
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import DrawnSearchLog, SearchPlatform

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


def positions(column: LogColumn, mainline: int, sidebar: int) -> NDArray[np.int32]:
    """The slot of every row, (n,); 0 where it was not shown."""
    last = mainline + sidebar
    rule = (
        f"a position is a whole number from 1 to {last} (--mainline {mainline}, --sidebar"
        f" {sidebar}), empty or 0 where the ad was not shown"
    )
    numbers = column.where_known(lambda known: known.whole(0, last, rule), 0.0, nan=False)
    return numbers.astype(np.int32)


def clicks(column: LogColumn, shown: NDArray[np.bool_]) -> NDArray[np.float64]:
    """0 or 1 for every row, (n,)."""
    column.refuse_where(column.plain().missing(nan=False) & shown, _NOT_SHOWN)
    return column.where_known(lambda k: k.truths().whole(0, 1, _NOT_SHOWN), 0.0, nan=False)


@dataclass(frozen=True, slots=True, eq=False)
class AuctionLog:
    """A log, and the scores of its rows by model, (n,) each in the order of the file.

    The first model is the one in force.
    """

    log: SearchLog
    models: dict[str, Floats]


def read_auction_log(
    where: Where, columns: AuctionColumns, layout: SlotLayout, reading: Reading | None = None
) -> AuctionLog:
    """The candidates of a log, rows in any order; a `CommandError` names file, row, column, value
    and rule."""

    def parse(rows: LogRows) -> AuctionLog:
        candidate = columns.candidate or CANDIDATE
        names = {"baseline": columns.score}
        if candidate in rows.columns:
            names["candidate"] = candidate
        models = {model: rows.column(name).scores() for model, name in names.items()}
        return AuctionLog(_log(rows, columns, layout), models)

    reader = LogReader(where, columns.choose, columns.types(), (), reading or Reading())
    read = reader.whole(parse)
    # The table is gone, but its memory would stay with Arrow, and the auctions need it.
    pa.default_memory_pool().release_unused()
    return read


def _log(rows: LogRows, columns: AuctionColumns, layout: SlotLayout) -> SearchLog:
    position = positions(rows.column(columns.position), layout.mainline, layout.sidebar)
    arrays: dict[str, Any] = {
        "pages": rows.column(columns.page).codes(_EMPTY)[1],
        "queries": rows.column(columns.query).codes(_EMPTY)[1],
        "ads": rows.column(columns.ad).codes(_EMPTY)[1],
        "positions": position,
        "clicks": clicks(rows.column(columns.clicked), position > 0),
        "bids": rows.column(columns.bid).within(0, LARGEST_BID, BID_RULE),
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
        try:
            rows.column(named[bad.column]).refuse(bad.row, bad.rule)
        except BadRows as error:
            # A page is wrong, not a row: leaving the row out would not mend it.
            raise CommandError(str(error)) from bad


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


def check_writable(path: Path, *, force: bool) -> None:
    """A `CommandError` when no log can be written at `path`, or one is there and not to go."""
    if path.suffix.lower() not in _WRITERS:
        raise CommandError(f"{path}: --write makes a {' or a '.join(_WRITERS)}")
    check_new(path, "--write", force=force)


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
    with whole_file(path, FAILED) as unfinished:
        _WRITERS[path.suffix.lower()](table, unfinished)
    return int(table.num_rows)

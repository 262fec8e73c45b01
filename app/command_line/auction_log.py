"""Logs of auctions in files: a row for each candidate of each page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from app.command_line.auction_columns import (
    CANDIDATE,
    AuctionColumns,
    clicks,
    codes,
    positions,
)
from app.command_line.log_column import LogColumn
from app.command_line.table_files import read_table
from calibrators.samples import Floats
from evaluation.auction import BadRow, SearchLog, SlotLayout

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
        told = column(named[bad.column])
        told.refuse(bad.row, told.values[bad.row].as_py(), bad.rule)

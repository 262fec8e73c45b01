"""A log as one table of events, however long it is: beyond a budget, rows are taken together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from app.command_line.log_batches import LogFile
from app.command_line.log_files import LogColumns, events_of
from app.command_line.percent_bar import percent_bar
from app.command_line.table_files import no_rows
from evaluation import EventTable
from evaluation.event_cells import EventCells

MOST_ROWS: Final = 10_000_000
"""Rows that are held one by one."""


def event_batches(path: Path, columns: LogColumns) -> Iterator[tuple[EventTable, float]]:
    """The events of a log in order, and the share of the file that has been read.

    A `CommandError` names file, row, column, value and rule, or a file without rows.
    """
    file = LogFile(path, columns.chooser(path), columns.types, words=(columns.campaign,))
    empty = True
    for batch in file.batches():
        empty = False
        yield events_of(path.name, pa.table(dict(batch.columns)), columns, batch.first), batch.done
    if empty:
        raise no_rows(path)


def read_events(
    path: Path, columns: LogColumns, *, quiet: bool, most_rows: int = MOST_ROWS
) -> EventTable:
    """All events of a log; of one with more than `most_rows` rows, its cells.

    See `EventCells`: each of its rows then stands for several events.
    """
    held: list[EventTable] = []
    cells: EventCells | None = None
    rows = 0
    with percent_bar(f"reading {path.name}", shown=not quiet) as reached:
        for events, done in event_batches(path, columns):
            rows += len(events)
            held.append(events)
            if cells is None and rows > most_rows:
                cells = EventCells()
            if cells is not None:
                _move(held, cells)
            reached(done)
    return EventTable.concatenate(held) if cells is None else cells.table()


def _move(held: list[EventTable], cells: EventCells) -> None:
    held.reverse()
    while held:
        cells.add(held.pop())

"""The times of a log file: timestamps, RFC 3339 text or seconds since 1970."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.command_line.durations import EARLIEST, LATEST, epoch_seconds_of, out_of_range
from app.command_line.errors import CommandError
from app.command_line.log_column import LogColumn, is_text

_RULE = "a time is a timestamp, RFC 3339 text (without a zone: UTC) or seconds since 1970"


def epoch_seconds(column: LogColumn) -> NDArray[np.float64]:
    """Seconds since 1970, (n,), from the year 2000 to 2100."""
    column = column.plain()
    column.require_all(_RULE)
    times = _reader(column.values.type)(column)
    outside = ~((times >= EARLIEST) & (times < LATEST))
    if outside.any():
        row = int(np.argmax(outside))
        column.refuse(row, column.values[row].as_py(), out_of_range(float(times[row])))
    return times


def _reader(kind: Any) -> Callable[[LogColumn], NDArray[np.float64]]:
    if pa.types.is_temporal(kind):
        return _from_timestamps
    return _from_text if is_text(kind) else _from_numbers


def _from_numbers(column: LogColumn) -> NDArray[np.float64]:
    return column.numbers(_RULE)


def _from_timestamps(column: LogColumn) -> NDArray[np.float64]:
    try:
        return _seconds(pc.cast(column.values, pa.timestamp("us"), safe=False))
    except pa.ArrowNotImplementedError as error:
        raise CommandError(
            f"{column.file}: column {column.name!r} holds {column.values.type}; {_RULE}"
        ) from error


def _from_text(column: LogColumn) -> NDArray[np.float64]:
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return _seconds(pc.cast(column.values, kind))
        except pa.ArrowInvalid:
            continue
    try:
        return np.asarray(pc.cast(column.values, pa.float64()))
    except pa.ArrowInvalid:
        # Of several forms, or with blanks around.
        return np.array([_one(column, row) for row in range(len(column.values))])


def _one(column: LogColumn, row: int) -> float:
    text = column.values[row].as_py().strip()
    try:
        return epoch_seconds_of(text)
    except ValueError:
        column.refuse(row, text, _RULE)


def _seconds(timestamps: Any) -> NDArray[np.float64]:
    seconds: NDArray[np.float64] = np.asarray(pc.cast(timestamps, pa.int64())) / 1e6
    return seconds

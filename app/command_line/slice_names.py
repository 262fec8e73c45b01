"""Slices of a log by the values of a column, numbered as they come up."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.command_line.errors import CommandError
from app.command_line.log_column import LogColumn
from evaluation.compact.slice_order import LEFT_OUT

NAMELESS = "(none)"
"""The slice of rows whose value is empty."""

Codes = NDArray[np.int32]


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

    def codes(self, column: LogColumn) -> Codes:
        """The slice of every row, (n,); -1 for none."""
        values, indices = _encoded(column)
        # A dictionary may hold values that no row has.
        held = np.flatnonzero(np.bincount(indices, minlength=len(values)))
        if self._refused and any(not values[place] for place in held.tolist()):
            empty = [place for place, value in enumerate(values) if not value]
            column.refuse(int(np.argmax(np.isin(indices, empty))), "", self._refused)
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
        encoded = column.values.dictionary_encode()
        values = pc.cast(encoded.dictionary, pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        kind = column.values.type
        raise CommandError(
            f"{column.file}: column {column.name!r} holds {kind}; slices are told by text, numbers"
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

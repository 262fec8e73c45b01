"""One column of a log file, turned into numbers; every error names file, row, column and value."""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.command_line.errors import CommandError

_SHOWN = 64


@dataclass(frozen=True, slots=True)
class LogColumn:
    """The values of column `name` of the log `file`, as Arrow read them.

    `places` are the rows they stand in, (n,); None where they follow one another from row `first`.
    """

    file: str
    name: str
    values: Any
    places: NDArray[np.int64] | None = None
    first: int = 0

    def refuse(self, row: int, value: object, rule: str) -> NoReturn:
        """Raise the error of one row (counted from 0 here, from 1 for the reader)."""
        shown = repr(value) if isinstance(value, str) else str(value)
        if len(shown) > _SHOWN:
            shown = f"{shown[: _SHOWN - 1]}…"
        place = self.first + row if self.places is None else int(self.places[row])
        raise CommandError(f"{self.file}, row {place + 1}: {self.name} = {shown}; {rule}")

    def require_all(self, rule: str) -> None:
        """Refuse the first empty value."""
        if self.values.null_count:
            self.refuse(_first(pc.is_null(self.values, nan_is_null=False)), "", rule)

    def known(self) -> "LogColumn":
        """The values that are neither empty nor nan."""
        known = pc.invert(pc.is_null(self.values, nan_is_null=True))
        places = self.first + np.flatnonzero(np.asarray(known))
        return LogColumn(self.file, self.name, self.values.filter(known), places)

    def plain(self) -> "LogColumn":
        """The same values, each of them written out where the file has a dictionary."""
        if not pa.types.is_dictionary(self.values.type):
            return self
        return replace(self, values=pc.cast(self.values, self.values.type.value_type))

    def truths(self) -> "LogColumn":
        """The same values with the texts true and false as 1 and 0."""
        column = self.plain()
        if not is_text(column.values.type):
            return column
        words = pc.utf8_lower(pc.utf8_trim_whitespace(column.values))
        numbers = pc.if_else(pc.equal(words, "false"), "0", column.values)
        return replace(column, values=pc.if_else(pc.equal(words, "true"), "1", numbers))

    def numbers(self, rule: str) -> NDArray[np.float64]:
        """Every value as float64, (n,); `rule` says what the column must hold."""
        self.require_all(rule)
        try:
            return np.asarray(pc.cast(self.values, pa.float64()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return np.array([self._number(row, rule) for row in range(len(self.values))])

    def within(self, low: float, high: float, rule: str) -> NDArray[np.float64]:
        """Every value as float64 in [low, high], (n,); NaN is refused too."""
        numbers = self.numbers(rule)
        outside = ~((numbers >= low) & (numbers <= high))
        if outside.any():
            row = int(np.argmax(outside))
            self.refuse(row, self.values[row].as_py(), rule)
        return numbers

    def categories(self, rule: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The distinct values as sorted names (c,) and, for every row (n,), which one it holds."""
        self.require_all(rule)
        encoded = pc.cast(self.values, pa.string()).combine_chunks().dictionary_encode()
        found = encoded.dictionary.to_pylist()
        names = sorted(found)
        ranks = {name: rank for rank, name in enumerate(names)}
        rows = np.array([ranks[name] for name in found], dtype=np.int32)[
            np.asarray(encoded.indices)
        ]
        if "" in ranks:
            self.refuse(int(np.argmin(rows)), "", rule)
        return tuple(names), rows

    def _number(self, row: int, rule: str) -> float:
        value = self.values[row].as_py()
        try:
            return float(value)
        except (TypeError, ValueError):
            self.refuse(row, value, rule)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _first(mask: Any) -> int:
    return int(np.argmax(np.asarray(mask)))

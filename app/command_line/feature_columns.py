"""Features of clicks from the columns of a log: numbers, sums of columns, or text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.command_line.errors import CommandError
from app.command_line.log_column import LogColumn
from pccem import Categorical, Column

_RULE = "a number is finite, or empty where it is missing"


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """A feature called `name`: one column of the log, or the sum of several."""

    name: str
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, option: str, text: str, names: Sequence[str], file: str) -> Self:
        """What `NAME` or `NAME=COLUMN+COLUMN` means in a file with columns `names`.

        A column whose own name holds `=` or `+` is found first.
        """
        name, equals, listed = text.partition("=")
        if text in names or not equals:
            name, columns = text, [text]
        else:
            columns = [listed] if listed in names else listed.split("+")
        unknown = [column for column in columns if column not in names]
        if unknown or not name:
            raise CommandError(
                f"--{option} {text!r}: {file} has no column {[*unknown, ''][0]!r}."
                f" It has: {', '.join(names)}"
            )
        return cls(name, tuple(columns))

    def read(self, file: str, table: Any) -> Column:
        """The feature's value in every row, (n,)."""
        columns = [LogColumn(file, name, table.column(name)) for name in self.columns]
        if len(columns) == 1 and _is_text(columns[0]):
            return _categories(columns[0])
        total: NDArray[np.float64] = np.sum([_numbers(column) for column in columns], axis=0)
        return total


def distinct(option: str, features: Sequence[FeatureColumn]) -> list[FeatureColumn]:
    """The features; a `CommandError` when two have one name."""
    names = [feature.name for feature in features]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"--{option} {name!r} is given {names.count(name)} times")
    return [*features]


def _is_text(column: LogColumn) -> bool:
    kind = column.values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _categories(column: LogColumn) -> Categorical:
    texts = pc.cast(column.values, pa.string()).combine_chunks()
    known = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    encoded = known.dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1)
    return Categorical(np.asarray(codes, np.int32), tuple(encoded.dictionary.to_pylist()))


def _numbers(column: LogColumn) -> NDArray[np.float64]:
    kind = column.values.type
    if _is_text(column) or not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        raise CommandError(f"{column.file}: column {column.name!r} holds {kind}, not numbers")
    numbers = np.asarray(pc.fill_null(pc.cast(column.values, pa.float64()), np.nan))
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        column.refuse(row, numbers[row], _RULE)
    return numbers

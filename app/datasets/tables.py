"""Rows of a log and their columns as numbers, names and times; every error names file, row, column,
value and rule.
"""

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.datasets.formats import is_text
from app.datasets.options import (
    EARLIEST,
    LATEST,
    Reading,
    epoch_seconds_of,
    number_of,
    out_of_range,
)
from app.errors import CommandError
from calibrators.fields.columns import LONGEST_VALUE
from calibrators.fields.sums import OTHER, SEPARATOR, FieldColumn

_SCORE_RULE = "a score must be a number in [0, 1]"
_PERCENT_RULE = "with --percent a score must be a number in [0, 100]"
_TIME_RULE = "a time is a timestamp, RFC 3339 text (without a zone: UTC) or seconds since 1970"
_FIELD_RULE = f"the value of a field has {LONGEST_VALUE} bytes at most, and no U+001F"
_TEXT_RULE = "a text is UTF-8"
_SHOWN, _EXAMPLES = 64, 3
_EXACT = 2.0**53
_EXACT_RULE = "floats do not tell whole numbers from 2^53 on apart: write a text, or int64"

Numbers = NDArray[np.int64]


class BadRows(CommandError):
    """Rows that break a rule.

    numbers : which, (k,), in the log.
    why : the column and what is wrong in it.
    examples : the first of them, as a user is told of them.
    """

    def __init__(self, numbers: Numbers, why: str, rule: str, examples: Sequence[str]) -> None:
        super().__init__(f"{examples[0]}; {rule}")
        self.numbers, self.why, self.examples = numbers, why, examples


class PartRows:
    """Of which part every row of a log is; rows are counted from 0 here, from 1 for users."""

    def __init__(self, name: str = "") -> None:
        self._names: list[str] = []
        self._starts: list[int] = []
        # Of a log all of whose lines may be left out.
        self._left_out = array("q")
        self._earlier: list[int] = []
        if name:
            self.begin(name, 0)

    def begin(self, name: str, row: int) -> None:
        """The part `name` begins with this row."""
        self._starts.append(row)
        self._names.append(name)
        self._earlier.append(len(self._left_out))

    def leave_out(self, before: int) -> None:
        """A line of the last part behind `before` rows of it is none of the log; users count it."""
        self._left_out.append(self._starts[-1] + before)

    def name(self, row: int) -> str:
        """The part of a row."""
        return self._names[bisect_right(self._starts, row) - 1]

    def place(self, row: int) -> str:
        """What a user is told of a row."""
        part = bisect_right(self._starts, row) - 1
        left_out = bisect_right(self._left_out, row, self._earlier[part]) - self._earlier[part]
        return f"{self._names[part]}, row {row - self._starts[part] + 1 + left_out}"


@dataclass(frozen=True, slots=True)
class LogRows:
    """Some rows of a log.

    parts : of which part they are.
    columns : the chosen columns as Arrow read them, by name.
    first : rows of the log before them; `numbers` are theirs where they are not all that follow.
    done : share of the log that has been read, from 0 to 1.
    reading : how their values are to be read.
    """

    parts: PartRows
    columns: Mapping[str, Any]
    first: int = 0
    done: float = 1.0
    reading: Reading = field(default_factory=Reading)
    numbers: Numbers | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def file(self) -> str:
        """The part of the first row."""
        return self.parts.name(self.first)

    def row_numbers(self) -> Numbers:
        """Which rows of the log they are, (n,)."""
        if self.numbers is not None:
            return self.numbers
        return np.arange(self.first, self.first + len(self), dtype=np.int64)

    def column(self, name: str) -> "LogColumn":
        """The values of one column."""
        return LogColumn(self, name, self.columns[name])

    def in_utf8(self) -> "LogRows":
        """The same rows; texts that are no UTF-8 are refused."""
        return replace(self, columns={name: self.column(name).in_utf8() for name in self.columns})

    def only(self, kept: NDArray[np.bool_]) -> "LogRows":
        """The rows of a mask, (n,)."""
        if kept.all():
            return self
        mask = pa.array(kept)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return replace(self, columns=columns, numbers=self.row_numbers()[kept])

    def without(self, numbers: Numbers) -> "LogRows":
        """All but these rows of the log."""
        return self.only(~np.isin(self.row_numbers(), numbers))


def require_columns(
    file: str, names: Sequence[str], required: Mapping[str, str], **listed: Sequence[str]
) -> None:
    """A `CommandError` unless a file with columns `names` has each that is required once.

    `required` is what -> column, where --what is the option that names it; of an option that may
    name several columns, `listed` has all of them.
    """
    several = ((what, name) for what, columns in listed.items() for name in columns)
    for what, name in (*required.items(), *several):
        if name not in names:
            raise CommandError(
                f"{file} has no column {name!r}: name the {what.replace('_', ' ')} column with"
                f" --{what.replace('_', '-')}."
                f" It has: {', '.join(names)}"
            )
        require_once(file, names, name)


def require_once(file: str, names: Sequence[str], name: str) -> None:
    """A `CommandError` where a file has several columns of a name."""
    if names.count(name) > 1:
        raise CommandError(f"{file} has {names.count(name)} columns named {name!r}")


@dataclass(frozen=True, slots=True)
class LogColumn:
    """The values of column `name` of some rows, as Arrow read them.

    `positions` are the rows they stand in, (n,); None where every row has one.
    """

    rows: LogRows
    name: str
    values: Any
    positions: Numbers | None = None

    @property
    def file(self) -> str:
        """The part of the first row."""
        return self.rows.file

    def refuse(self, row: int, rule: str) -> NoReturn:
        """Raise the error of one row (counted from 0)."""
        self.refuse_where(np.arange(len(self.values)) == row, rule)
        raise AssertionError(row)

    def refuse_where(self, broken: NDArray[np.bool_], rule: str) -> None:
        """Raise the error of the rows of a mask, (n,), if there are any."""
        if not broken.any():
            return
        rows = np.flatnonzero(broken)
        numbers = self.rows.row_numbers()
        numbers = (numbers if self.positions is None else numbers[self.positions])[rows]
        empty = self.values[int(rows[0])].as_py() in (None, "")
        why = f"{self.name} is empty" if empty else f"{self.name} is wrong: {rule}"
        told = zip(rows[:_EXAMPLES].tolist(), numbers[:_EXAMPLES].tolist(), strict=True)
        examples = [
            f"{self.rows.parts.place(number)}: {self.name} = {self._shown(row)}"
            for row, number in told
        ]
        raise BadRows(numbers, why, rule, examples)

    def in_utf8(self) -> Any:
        """The values; written out where a dictionary has texts that are none, and no row has."""
        try:
            self.values.validate(full=True)
        except pa.ArrowInvalid:
            values = self.plain().values
            found = replace(self, values=pc.cast(values, pa.large_binary()))
            texts = [text or b"" for text in found.values.to_pylist()]
            broken = [text.decode(errors="ignore").encode() != text for text in texts]
            found.refuse_where(np.array(broken), _TEXT_RULE)
            return values
        return self.values

    def require_all(self, rule: str) -> None:
        """Refuse empty values, and truth values, which Arrow casts to 1 and 0."""
        truths = pa.types.is_boolean(self.values.type)
        self.refuse_where(np.full(len(self.values), truths), rule)
        if self.values.null_count or is_text(self.values.type):
            self.refuse_where(self.missing(nan=False), rule)

    def field(self) -> FieldColumn:
        """Every value as a text, (n,); an empty one is other."""
        column = self.plain()
        known = ~column.missing()
        if not known.any():
            return FieldColumn.missing(len(known))
        codes = np.zeros(len(known), np.int64)
        some = replace(
            column, values=column.values.filter(pa.array(known)), positions=np.flatnonzero(known)
        )
        names, codes[known] = some.categories(_FIELD_RULE)
        wrong = [len(name.encode()) > LONGEST_VALUE or SEPARATOR in name for name in names]
        some.refuse_where(np.array(wrong, np.bool_)[codes[known]], _FIELD_RULE)
        codes[known] += 1
        return FieldColumn((OTHER, *names), codes)

    def where_known(
        self,
        read: Callable[["LogColumn"], NDArray[np.float64]],
        otherwise: float,
        *,
        nan: bool = True,
    ) -> NDArray[np.float64]:
        """What `read` makes of the values that are not empty, nor nan if so wanted, (n,)."""
        column = self.plain()
        known = ~column.missing(nan=nan)
        numbers = np.full(len(known), otherwise)
        if known.any():
            values = column.values.filter(pa.array(known))
            numbers[known] = read(replace(column, values=values, positions=np.flatnonzero(known)))
        return numbers

    def missing(self, *, nan: bool = True) -> NDArray[np.bool_]:
        """Which values are empty, or nan, (n,)."""
        missing = np.asarray(pc.is_null(self.values, nan_is_null=nan))
        if is_text(self.values.type):
            missing = missing | np.asarray(pc.fill_null(pc.equal(self.values, ""), True))
        return missing

    def as_written(self) -> Any:
        """The values, whole numbers if all are: a tool that misses an id makes floats of all."""
        values = self.plain().values
        if not pa.types.is_floating(values.type):
            return values
        if not pc.all(pc.equal(pc.floor(values), values)).as_py():
            return values
        self.refuse_where(np.asarray(pc.greater_equal(pc.abs(values), _EXACT)), _EXACT_RULE)
        return pc.cast(values, pa.int64())

    def plain(self) -> "LogColumn":
        """The same values, each of them written out where the file has a dictionary."""
        if not pa.types.is_dictionary(self.values.type):
            return self
        return replace(self, values=pc.cast(self.values, self.values.type.value_type))

    def truths(self) -> "LogColumn":
        """The same values with true and false, texts too, as 1 and 0."""
        column = self.plain()
        if pa.types.is_boolean(column.values.type):
            return replace(column, values=pc.cast(column.values, pa.int8()))
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
            return self._each(number_of, rule)

    def integers(self, rule: str) -> NDArray[np.int64]:
        """Every value as a whole number, (n,), of which no float rounds any."""
        column = self.plain()
        column.require_all(rule)
        try:
            return np.asarray(pc.cast(column.values, pa.int64()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column._each(_whole_number, rule, np.int64)

    def within(self, low: float, high: float, rule: str) -> NDArray[np.float64]:
        """Every value as float64 in [low, high], (n,); NaN is refused too."""
        numbers = self.numbers(rule)
        self.refuse_where(~((numbers >= low) & (numbers <= high)), rule)
        return numbers

    def whole(self, low: float, high: float, rule: str) -> NDArray[np.float64]:
        """Every value as a whole number in [low, high], (n,)."""
        numbers = self.within(low, high, rule)
        self.refuse_where(numbers % 1 != 0.0, rule)
        return numbers

    def scores(self) -> NDArray[np.float64]:
        """Every value as a probability, (n,)."""
        if self.rows.reading.percent:
            return self.within(0, 100, _PERCENT_RULE) / 100
        numbers = self.numbers(_SCORE_RULE)
        broken = ~((numbers >= 0) & (numbers <= 1))
        first = numbers[np.argmax(broken)] if broken.any() else 0.0
        hint = "; --percent reads 0 to 100" if 1 < first <= 100 else ""
        self.refuse_where(broken, f"{_SCORE_RULE}{hint}")
        return numbers

    def categories(self, rule: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The distinct values as sorted names (c,) and, for every row (n,), which one it holds."""
        names, rows = self.codes(rule)
        return tuple(names.to_pylist()), rows

    def codes(self, rule: str) -> tuple[Any, NDArray[np.int32]]:
        """The same with the names in an Arrow array, of millions too."""
        self.refuse_where(np.asarray(pc.is_null(self.values, nan_is_null=True)), rule)
        try:
            encoded = in_one(self.as_written()).dictionary_encode()
            names = pc.cast(encoded.dictionary, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            kind = self.values.type
            raise CommandError(f"{self.file}: column {self.name!r} holds {kind}; {rule}") from error
        order = np.asarray(pc.sort_indices(names))
        ranks = np.empty(len(order), np.int32)
        ranks[order] = np.arange(len(order))
        rows: NDArray[np.int32] = ranks[np.asarray(encoded.indices)]
        names = names.take(order)
        if len(names) and names[0].as_py() == "":
            self.refuse_where(rows == 0, rule)
        return names, rows

    def times(self) -> NDArray[np.float64]:
        """Every value as seconds since 1970, (n,), from the year 2000 to 2100."""
        column = self.plain()
        column.require_all(_TIME_RULE)
        times = column._seconds()
        outside = ~((times >= EARLIEST) & (times < LATEST))
        if outside.any():
            unit = self.rows.reading.time_unit
            column.refuse_where(outside, out_of_range(float(times[np.argmax(outside)]), unit))
        return times

    def _seconds(self) -> NDArray[np.float64]:
        kind = self.values.type
        if pa.types.is_date(kind) or (is_text(kind) and self._has_dates()):
            self.rows.reading.skipped.dates.add(self.name)
        if pa.types.is_temporal(kind):
            return self._from_timestamps()
        if is_text(kind):
            return self._from_text()
        return self.numbers(_TIME_RULE) / self.rows.reading.per_second

    def _has_dates(self) -> bool:
        as_long = pc.equal(pc.binary_length(self.values), len("2026-11-30"))
        return bool(pc.any(pc.and_(as_long, pc.match_substring(self.values, "-"))).as_py())

    def _from_timestamps(self) -> NDArray[np.float64]:
        zone = getattr(self.values.type, "tz", None)
        try:
            moments = pc.cast(self.values, pa.timestamp("us", zone), safe=False)
        except pa.ArrowNotImplementedError as error:
            raise CommandError(
                f"{self.file}: column {self.name!r} holds {self.values.type}; {_TIME_RULE}"
            ) from error
        return self._of_moments(moments)

    def _from_text(self) -> NDArray[np.float64]:
        for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
            try:
                # A cast reads all values before it fails, 2 microseconds each; the first one tells.
                pc.cast(self.values[:1], kind)
                return self._of_moments(pc.cast(self.values, kind))
            except pa.ArrowInvalid:
                continue
        reading = self.rows.reading
        try:
            return np.asarray(pc.cast(self.values, pa.float64())) / reading.per_second
        except pa.ArrowInvalid:
            # Of several forms, or with blanks around.
            read = partial(epoch_seconds_of, zone=reading.zone, per_second=reading.per_second)
            return self._each(read, _TIME_RULE)

    def _of_moments(self, moments: Any) -> NDArray[np.float64]:
        zone = self.rows.reading.time_zone
        if moments.type.tz is None and zone is not None:
            # Of an hour that a clock shows twice it is the first, of one that it skips the end.
            moments = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
        seconds: NDArray[np.float64] = np.asarray(pc.cast(moments, pa.int64())) / 1e6
        return seconds

    def _each(self, read: Any, rule: str, kind: type[Any] = np.float64) -> NDArray[Any]:
        """What `read` makes of the values one by one; values it cannot read are refused."""
        numbers = np.zeros(len(self.values), kind)
        broken = np.zeros(len(self.values), bool)
        for row, value in enumerate(self.values.to_pylist()):
            try:
                numbers[row] = read(value)
            except (TypeError, ValueError, OverflowError):
                broken[row] = True
        self.refuse_where(broken, rule)
        return numbers

    def _shown(self, row: int) -> str:
        value = self.values[row].as_py()
        if value is None:
            return "''"
        shown = repr(value) if isinstance(value, str) else str(value)
        if isinstance(value, bool | list | dict):
            shown = json.dumps(value, default=str)
        return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


def _whole_number(value: Any) -> int:
    number = number_of(value)
    if not isinstance(value, str) and number != int(value):
        raise ValueError(value)
    return int(value)


def in_one(values: Any) -> Any:
    """An Arrow column as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values

"""Logs of clicks with behaviours, features (numbers, sums of columns, text) and conversions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.datasets.formats import is_text
from app.datasets.options import Reading
from app.datasets.parts import Where, name_of
from app.datasets.reading import LogReader
from app.datasets.tables import LogColumn, LogRows, in_one, require_columns
from app.errors import CommandError
from calibrators.samples import Floats
from evaluation import BehaviourStudy, QuantileRates, behaviour_study, quantile_rates
from pccem import Categorical, Column, Features

_NUMBER_RULE = "a number is finite, or empty where it is missing"


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

    def read(self, rows: LogRows) -> Column:
        """The feature's value in every row, (n,)."""
        columns = [rows.column(name) for name in self.columns]
        if len(columns) == 1 and _is_text(columns[0]):
            return _categories(columns[0])
        total: NDArray[np.float64] = np.sum([_numbers(column) for column in columns], axis=0)
        return total


def parsed(
    option: str, texts: Sequence[str], names: Sequence[str], file: str
) -> list[FeatureColumn]:
    """What the texts of an option mean, as above; a `CommandError` when two have one name."""
    features = [FeatureColumn.parse(option, text, names, file) for text in texts]
    for name, times in Counter(feature.name for feature in features).items():
        if times > 1:
            raise CommandError(f"--{option} {name!r} is given {times} times")
    return features


def _is_text(column: LogColumn) -> bool:
    kind = column.values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return is_text(kind)


def _categories(column: LogColumn) -> Categorical:
    texts = in_one(pc.cast(column.values, pa.string()))
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
    # Not safe: a whole number above 2^53, such as a hash, is the nearest double, as in an event.
    values = pc.cast(column.values, pa.float64(), safe=False)
    numbers = np.asarray(pc.fill_null(values, np.nan))
    column.refuse_where(np.isinf(numbers), _NUMBER_RULE)
    return numbers


_CONVERSION_RULE = "a conversion is 0 or 1"
# With fewer clicks the threads of a fit wait for each other longer than they work.
_WORTH_THREADS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class BehaviourLog:
    """The clicks of a log: `behaviours` were known only after the click, `features` before it.

    `conversions`, and every column, have shape (n,).
    """

    file: str
    conversions: Floats
    behaviours: Mapping[str, Column]
    features: Mapping[str, Column]

    @property
    def numeric(self) -> list[str]:
        """The behaviours that are numbers."""
        columns = self.behaviours.items()
        return [name for name, column in columns if not isinstance(column, Categorical)]

    def rates(self, names: Sequence[str]) -> dict[str, QuantileRates]:
        """Conversion rates by quintile of the behaviours `names`."""
        found: dict[str, QuantileRates] = {}
        for name in names:
            column = self.behaviours.get(name)
            if column is None or isinstance(column, Categorical):
                listed = ", ".join(self.numeric)
                raise CommandError(f"--quintiles {name!r}: give a behaviour of numbers: {listed}")
            found[name] = quantile_rates(column, self.conversions)
        return found

    def study(self, folds: int, seed: int) -> BehaviourStudy:
        """The post-click model with the behaviours and without them, cross-validated."""
        measured = {f"behaviour.{name}": column for name, column in self.behaviours.items()}
        known = {f"feature.{name}": column for name, column in self.features.items()}
        n = len(self.conversions)
        columns = Features({**measured, **known}, n)
        threads = 1 if n < _WORTH_THREADS else 0
        try:
            return behaviour_study(
                columns, self.conversions, [*measured], folds=folds, seed=seed, num_threads=threads
            )
        except ValueError as error:
            raise CommandError(f"{self.file}: {error}") from error


def read_behaviour_log(
    where: Where,
    conversion: str,
    behaviours: Sequence[str],
    features: Sequence[str],
    reading: Reading | None = None,
) -> BehaviourLog:
    """The log; `conversion` is a column, the others are `NAME` or `NAME=COLUMN+COLUMN`.

    A `CommandError` names the file, and option or row, column, value and rule.
    """

    def choose(file: str, names: Sequence[str]) -> list[str]:
        require_columns(file, names, {"conversion": conversion})
        chosen = [
            *parsed("behaviour", behaviours, names, file),
            *parsed("feature", features, names, file),
        ]
        return [*dict.fromkeys((conversion, *(name for one in chosen for name in one.columns)))]

    def parse(rows: LogRows) -> BehaviourLog:
        names = [*rows.columns]
        measured = parsed("behaviour", behaviours, names, rows.file)
        known = parsed("feature", features, names, rows.file)
        return BehaviourLog(
            name_of(where),
            rows.column(conversion).truths().whole(0, 1, _CONVERSION_RULE),
            {column.name: column.read(rows) for column in measured},
            {column.name: column.read(rows) for column in known},
        )

    return LogReader(where, choose, {}, (), reading or Reading()).whole(parse)

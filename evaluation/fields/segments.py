"""Values of fields, and the segments of rows that they and their combinations make.

A field is a column of names, such as device or placement. A segment is all rows, or those of one
value of a field, or those of one value of each of several fields.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, check_equal_lengths
from evaluation.metrics.predictions import Mask, encode_campaigns

MISSING: Final = "(none)"
"""The value of rows that have none: None, NaN or an empty text."""
OTHER: Final = "other"
"""All values together that are not kept apart."""

FieldValues = Sequence[Hashable] | NDArray[Any]
Family = tuple[str, ...]
"""The fields whose values name a segment; none name all rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueColumn:
    """A field of n rows: the names of its distinct values, and the number of each row's, (n,)."""

    names: Sequence[str]
    numbers: NDArray[np.integer[Any]]

    @classmethod
    def of(cls, values: "FieldValues | ValueColumn") -> "ValueColumn":
        """The field of any hashable values, (n,); integers in an array are the fastest."""
        if isinstance(values, ValueColumn):
            return values
        keys, codes = encode_campaigns(values)
        named = [MISSING if key in (None, "") else str(key) for key in keys]
        place = {name: number for number, name in enumerate(dict.fromkeys(named))}
        return cls(tuple(place), np.array([place[name] for name in named], np.int64)[codes])

    @property
    def counts(self) -> Integers:
        """Rows of each value, (names,)."""
        return np.bincount(self.numbers, minlength=len(self.names))


def check_fields(
    fields: Mapping[str, FieldValues | ValueColumn], rows: NDArray[Any]
) -> dict[str, ValueColumn]:
    """The fields as columns; ValueError unless each has a value for each row."""
    columns = {name: ValueColumn.of(values) for name, values in fields.items()}
    for name, column in columns.items():
        check_equal_lengths(**{"probabilities": rows, f"field {name}": column.numbers})
    return columns


class KeptValues:
    """Which values of a field are kept apart, at most `most` with `OTHER`, whose code is 0.

    If there are more, those with the most rows are kept, of equally many the first by name. Values
    that come up later are kept while there is room.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"most = {most}: a field has at least 1 value")
        self._most = most
        self._kept: list[int] = []
        self._codes = np.zeros(0, np.int64)

    @classmethod
    def of(cls, names: Sequence[str], counts: Integers, most: int) -> Self:
        """The values of a field that are kept by their rows, (names,)."""
        kept = cls(most)
        held = np.flatnonzero(counts).tolist()
        if len(held) > most or OTHER in names:
            held = [number for number in held if names[number] != OTHER]
            held = sorted(held, key=lambda number: (-counts[number], names[number]))[: most - 1]
        kept._codes = np.where(counts > 0, 0, -1)
        kept._keep(held)
        return kept

    @property
    def size(self) -> int:
        """Codes so far, `OTHER` among them."""
        return len(self._kept) + 1

    def codes(self, numbers: NDArray[np.integer[Any]]) -> Integers:
        """The code of each row's value, (n,)."""
        most = int(numbers.max(initial=-1)) + 1
        if most > len(self._codes):
            self._codes = np.append(self._codes, np.full(2 * most - len(self._codes), -1))
        found: Integers = self._codes[numbers]
        if (found < 0).any():
            new = np.unique(numbers[found < 0])
            room = max(0, self._most - self.size)
            self._codes[new] = 0
            self._keep(new[:room].tolist())
            found = self._codes[numbers]
        return found

    def names(self, names: Sequence[str]) -> list[str]:
        """The name of each code, from those of all values."""
        return [OTHER, *(names[number] for number in self._kept)]

    def _keep(self, numbers: Sequence[int]) -> None:
        self._codes[list(numbers)] = self.size + np.arange(len(numbers))
        self._kept.extend(numbers)


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """Which segments there are.

    depth : of how many fields a segment names the value at most: 1 for fields, 2 for pairs too.
    values : of a field that are kept apart, `OTHER` among them.
    values_of_pairs : the same where segments are of several fields.
    samples, variance : a segment with fewer rows is left out, or whose positives vary by less.
    """

    depth: int = 2
    values: int = 10_000
    values_of_pairs: int = 100
    samples: int = 10
    variance: float = 0.0

    def families(self, fields: Sequence[str]) -> Iterator[Family]:
        """All combinations of so many fields, none first."""
        for depth in range(self.depth + 1):
            yield from combinations(fields, depth)

    def hold(self, samples: Floats, variance: Floats, spreads: Floats) -> Mask:
        """Which segments count, by rows and variance, or because certain ones are wrong, (k,)."""
        certain = (variance == 0.0) & (spreads > 0.0)
        held: Mask = (samples >= max(self.samples, 1)) & (certain | (variance >= self.variance))
        return held

    def kept(self, family: Family) -> int:
        """How many values of a field are kept apart in the segments of a family."""
        return self.values if len(family) == 1 else min(self.values, self.values_of_pairs)


class FieldCodes:
    """The values that are kept of each field, for segments of one field and of several."""

    def __init__(self, limits: SegmentLimits, columns: Mapping[str, ValueColumn]) -> None:
        self.limits = limits
        self._kept = {
            (name, most): KeptValues.of(column.names, column.counts, most)
            for name, column in columns.items()
            for most in {limits.kept((name,)), limits.kept((name, name))}
        }
        self.families = tuple(limits.families(tuple(columns)))

    def shape(self, family: Family) -> tuple[int, ...]:
        """How many values each field of a family has."""
        return tuple(kept.size for kept in self._of(family))

    def codes(
        self, family: Family, numbers: Mapping[str, NDArray[np.integer[Any]]], rows: int
    ) -> Integers:
        """The segment of each of n rows, (n,), counted through the family's shape, by the numbers
        of the rows' values, (n,) of each field."""
        found = [
            kept.codes(numbers[name]) for name, kept in zip(family, self._of(family), strict=True)
        ]
        codes = np.zeros(rows, np.int64) if not found else found[0]
        for size, more in zip(self.shape(family)[1:], found[1:], strict=True):
            codes = codes * size + more
        return codes

    def values(self, field: str, names: Mapping[str, Sequence[str]]) -> list[str]:
        """The value of each segment of a field by itself."""
        return self._of((field,))[0].names(names[field])

    def named(
        self, family: Family, names: Mapping[str, Sequence[str]], segment: int
    ) -> dict[str, str]:
        """The value of each field of a family in one of its segments."""
        places = np.unravel_index(segment, self.shape(family)) if family else ()
        return {
            name: kept.names(names[name])[int(place)]
            for name, kept, place in zip(family, self._of(family), places, strict=True)
        }

    def _of(self, family: Family) -> list[KeptValues]:
        return [self._kept[name, self.limits.kept(family)] for name in family]

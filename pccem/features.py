"""Feature columns of clicks, numbers and categories, and the columns a model was trained on."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

import numpy as np

from pccem.arrays import Floats, Index, Rows, check_no_infinity, check_rows

Kind = Literal["numeric", "categorical"]


@dataclass(frozen=True, slots=True, eq=False)
class Categorical:
    """A column of strings: codes (n,) into distinct categories, -1 where missing.

    What counts is a value's name: the order of the categories, and those that no row uses, mean
    nothing.

    Raises ValueError on a code outside [-1, number of categories), or a category that stands twice.

    >>> Categorical.of(["app", None, "web", "app"]).values()
    ['app', None, 'web', 'app']
    """

    codes: Rows
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", check_rows("codes", self.codes, -1, len(self.categories)))
        object.__setattr__(self, "categories", tuple(self.categories))
        if len(set(self.categories)) < len(self.categories):
            twice = Counter(self.categories).most_common(1)[0][0]
            raise ValueError(f"category {twice!r} stands twice: categories must be distinct")

    @classmethod
    def of(cls, values: Iterable[str | None]) -> Self:
        """The column of these values, None where missing; categories in order of appearance."""
        code_of: dict[str, int] = {}
        codes = [-1 if v is None else code_of.setdefault(v, len(code_of)) for v in values]
        return cls(np.array(codes, np.int32), tuple(code_of))

    def __len__(self) -> int:
        return len(self.codes)

    def select(self, index: Index) -> "Categorical":
        """The rows that a mask, (n,), indices or a slice choose."""
        return Categorical(self.codes[index], self.categories)

    def codes_among(self, categories: Sequence[str]) -> Rows:
        """Each value's code, (n,), among other categories; -1 for one that is not there."""
        code_of = {category: code for code, category in enumerate(categories)}
        codes = [code_of.get(category, -1) for category in self.categories]
        # Behind the last one stands the code of a missing value, which is where -1 points.
        table: Rows = np.array([*codes, -1], np.int32)
        return table[self.codes]

    def values(self) -> list[str | None]:
        """The values by name, None where missing."""
        names = (*self.categories, None)
        return [names[code] for code in self.codes.tolist()]


Column = Floats | Categorical


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Named columns of n rows each; numbers (float64, nan where missing) or `Categorical`.

    columns : name to column, each of length n. Numbers are finite or nan.
    n : number of rows; needed because there may be no columns at all.

    Raises ValueError on a column of another length, of anything but numbers or categories, or with
    an infinity.

    >>> features = Features({"behaviour.cart": np.array([1.0, np.nan])}, 2)
    >>> len(features), features.kinds
    (2, {'behaviour.cart': 'numeric'})
    """

    columns: Mapping[str, Column]
    n: int

    def __post_init__(self) -> None:
        checked = {name: _checked(name, column) for name, column in self.columns.items()}
        for name, column in checked.items():
            if len(column) != self.n:
                raise ValueError(f"feature {name} has {len(column)} rows, must have {self.n}")
        object.__setattr__(self, "columns", checked)

    def __len__(self) -> int:
        return self.n

    @property
    def kinds(self) -> dict[str, Kind]:
        """Each column's kind, in the order of the columns."""
        return {name: kind_of(column) for name, column in self.columns.items()}

    def select(self, index: Index) -> "Features":
        """The rows that a mask, (n,), indices or a slice choose, in that order."""
        chosen = {
            name: column.select(index) if isinstance(column, Categorical) else column[index]
            for name, column in self.columns.items()
        }
        return Features(chosen, len(np.broadcast_to(np.int8(0), self.n)[index]))

    def without(self, names: Collection[str]) -> "Features":
        """The other columns; names that are not there are no error."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return Features(kept, self.n)

    @classmethod
    def concatenate(cls, parts: Iterable["Features"]) -> Self:
        """The rows of all parts, one after the other.

        The columns are the union; a part that lacks one has missing values there. Raises
        ValueError for a name that is numeric in one part and categorical in another.
        """
        listed = list(parts)
        kinds = _common_kinds(listed)
        columns = {
            name: (_joined_numbers if kind == NUMERIC else _joined_categories)(name, listed)
            for name, kind in kinds.items()
        }
        return cls(columns, sum(map(len, listed)))


NUMERIC: Final = "numeric"
CATEGORICAL: Final = "categorical"


def kind_of(column: Column) -> Kind:
    """The column's kind."""
    return CATEGORICAL if isinstance(column, Categorical) else NUMERIC


def _checked(name: str, column: Column) -> Column:
    if isinstance(column, Categorical):
        return column
    return check_no_infinity(f"feature {name}", column)


def _common_kinds(parts: Sequence[Features]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for name, kind in (pair for part in parts for pair in part.kinds.items()):
        if kinds.setdefault(name, kind) != kind:
            raise ValueError(f"feature {name} is {kinds[name]} in one part and {kind} in another")
    return kinds


def _joined_numbers(name: str, parts: Sequence[Features]) -> Floats:
    columns = (part.columns.get(name, np.full(len(part), np.nan)) for part in parts)
    return np.concatenate([column for column in columns if not isinstance(column, Categorical)])


def _joined_categories(name: str, parts: Sequence[Features]) -> Categorical:
    missing = (Categorical(np.full(len(part), -1, np.int32), ()) for part in parts)
    columns = (part.columns.get(name, none) for part, none in zip(parts, missing, strict=True))
    held = [column for column in columns if isinstance(column, Categorical)]
    union = tuple(dict.fromkeys(c for column in held for c in column.categories))
    return Categorical(np.concatenate([column.codes_among(union) for column in held]), union)


MOST_CATEGORIES = 255


class FeatureMismatch(ValueError):
    """Features that differ from those a model was trained on; the message says in what."""

    def __init__(self, missing: list[str], unexpected: list[str], changed: list[str]) -> None:
        """From what is missing, what was not there, and what has another kind now."""
        parts = (("missing", missing), ("unexpected", unexpected), ("changed", changed))
        listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        super().__init__(f"features differ from those the model was trained on: {listed}")
        self.missing, self.unexpected, self.changed = missing, unexpected, changed


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """One column: its name and, if it is categorical, the categories it knows, sorted."""

    name: str
    categories: tuple[str, ...] | None

    @property
    def kind(self) -> Kind:
        """Numeric or categorical."""
        return NUMERIC if self.categories is None else CATEGORICAL


@dataclass(frozen=True, slots=True)
class ModelColumns:
    """The columns by name, so that the order in which features come means nothing."""

    columns: tuple[ModelColumn, ...]

    @classmethod
    def of(cls, features: Features, index: Index = slice(None)) -> Self:
        """The columns of these features; categories are the 255 most frequent of the rows chosen.

        Equally frequent ones are taken in the order of their names.
        """
        return cls(
            tuple(
                ModelColumn(name, _frequent(column, index))
                for name, column in sorted(features.columns.items())
            )
        )

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """Each column's kind."""
        return {column.name: column.kind for column in self.columns}

    @property
    def categorical(self) -> list[int]:
        """Places of the categorical columns."""
        return [place for place, column in enumerate(self.columns) if column.kind == CATEGORICAL]

    def check(self, features: Features) -> None:
        """Raises FeatureMismatch unless the features have these names and kinds, in any order."""
        mine, theirs = self.kinds, features.kinds
        missing = sorted(mine.keys() - theirs.keys())
        unexpected = sorted(theirs.keys() - mine.keys())
        changed = [
            f"{name} (was {mine[name]}, is {theirs[name]})"
            for name in sorted(mine.keys() & theirs.keys())
            if mine[name] != theirs[name]
        ]
        if missing or unexpected or changed:
            raise FeatureMismatch(missing, unexpected, changed)

    def matrix(self, features: Features, index: Index = slice(None)) -> Floats:
        """The rows chosen as (m, columns) numbers: categories by code, nan where missing.

        The features are checked before. Row-major, because a tree walks along one row.
        """
        rows = len(np.broadcast_to(np.int8(0), len(features))[index])
        matrix = np.empty((rows, len(self.columns)))
        for place, column in enumerate(self.columns):
            matrix[:, place] = _numbers(column, features.columns[column.name], index)
        # Turns -0.0 into 0.0, so that equal values have equal bytes.
        matrix += 0.0
        return matrix


def _numbers(column: ModelColumn, values: Column, index: Index) -> Floats:
    if not isinstance(values, Categorical):
        return values[index]
    codes = values.select(index).codes_among(column.categories or ()).astype(np.float64)
    codes[codes < 0] = np.nan
    return codes


def _frequent(column: Column, index: Index) -> tuple[str, ...] | None:
    if not isinstance(column, Categorical):
        return None
    codes = column.codes[index]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.categories)).tolist()
    ranked = sorted(
        zip(counts, column.categories, strict=True), key=lambda pair: (-pair[0], pair[1])
    )
    return tuple(sorted(name for count, name in ranked[:MOST_CATEGORIES] if count))

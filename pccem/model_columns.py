"""The columns that a model was trained on: their names, kinds and categories."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pccem.arrays import Floats, Index
from pccem.features import CATEGORICAL, NUMERIC, Categorical, Column, Features, Kind

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
    ranked = sorted(zip(counts, column.categories, strict=True), key=_by_frequency)
    return tuple(sorted(name for count, name in ranked[:MOST_CATEGORIES] if count))


def _by_frequency(counted: tuple[int, str]) -> tuple[int, str]:
    return -counted[0], counted[1]

"""Fields of events as columns: which of them are chosen, and one behind the other."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrators.fields.sums import FieldColumn

LONGEST_VALUE: Final = 256
"""Bytes of a value."""

FieldColumns = Mapping[str, FieldColumn]
"""By name; of a field that is not there every event's value is other."""


def chosen(columns: FieldColumns, kept: NDArray[Any]) -> dict[str, FieldColumn]:
    """The columns of the events that a mask or an array of places chooses."""
    return {name: FieldColumn(names, codes[kept]) for name, (names, codes) in columns.items()}


def end_to_end(parts: Sequence[tuple[int, FieldColumns]]) -> dict[str, FieldColumn]:
    """The columns of so many events each, one part behind the other."""
    names = sorted(set().union(*(columns for _, columns in parts)))
    return {name: _joined([_of(columns, name, n) for n, columns in parts]) for name in names}


def _of(columns: FieldColumns, name: str, length: int) -> FieldColumn:
    return columns[name] if name in columns else FieldColumn.missing(length)


def _joined(parts: Sequence[FieldColumn]) -> FieldColumn:
    places: dict[str, int] = {}
    for part in parts:
        for value in part.names:
            places.setdefault(value, len(places))
    rows = [np.array([places[value] for value in part.names], np.int64) for part in parts]
    pairs = zip(parts, rows, strict=True)
    return FieldColumn(tuple(places), np.concatenate([row[part.codes] for part, row in pairs]))


def said(columns: FieldColumns, length: int) -> list[dict[str, str]]:
    """What each of so many events says, by field; nothing of what is other."""
    found: list[dict[str, str]] = [{} for _ in range(length)]
    for name, (names, codes) in columns.items():
        for event, code in zip(found, codes.tolist(), strict=True):
            if names[code]:
                event[name] = names[code]
    return found

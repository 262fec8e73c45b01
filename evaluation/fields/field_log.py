"""The field metrics of a log of any length, in bounded memory.

The first rows stay as they came; a log of no more is measured as `multicalibration` does. Then each
segment becomes a row of cells: equally many of the first rows fall into each cell of probability,
over all segments, so that what is in a cell is the error of a stretch of probabilities. Sums by
value are exact at any length.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, sum_at
from evaluation.fields.field_errors import FieldErrors, FieldSums
from evaluation.fields.multicalibration import (
    Multicalibration,
    SegmentSums,
    SortedRows,
    cell_spreads,
    worst_of,
)
from evaluation.fields.segments import Family, FieldCodes, SegmentLimits, ValueColumn
from evaluation.metrics.predictions import Predictions

Numbers = Mapping[str, NDArray[np.integer[Any]]]

CELLS: Final = 4096
"""Cells of a segment, where there are few segments."""
_MOST_CELLS: Final = 1 << 25
"""Cells of all segments together: 268 MB."""
_SUMS: Final = 4


@dataclass(frozen=True, slots=True)
class FieldMetrics:
    """What is measured of the fields of a log.

    sums : of each field, over all its values, most rows first.
    errors : of each field.
    multicalibration : of all segments.
    exact : whether every row stood by itself, or rows of one cell of probability together.
    """

    sums: Mapping[str, FieldSums]
    errors: Mapping[str, FieldErrors]
    multicalibration: Multicalibration
    exact: bool

    @property
    def mf_rce(self) -> float:
        """Mean of Field-RCE over the fields."""
        return sum(found.field_rce for found in self.errors.values()) / len(self.errors)

    @property
    def mf_rce_floor(self) -> float:
        """What it would be in the mean if the probabilities were right."""
        return sum(found.field_rce_floor for found in self.errors.values()) / len(self.errors)


Names = Callable[[str], Sequence[str]]


class FieldLog:
    """The fields of a log after some of its batches; at least one field.

    `names` gives the values of a field that have come up so far, by number. `rows` stay as they
    came, at most; `limits` say which segments there are, and how many values are kept apart.
    """

    def __init__(
        self,
        fields: Sequence[str],
        names: Names,
        limits: SegmentLimits | None = None,
        rows: int = 2_000_000,
    ) -> None:
        self._fields, self._names = fields, names
        self._limits, self._rows = limits or SegmentLimits(), rows
        self._pieces: list[tuple[Predictions, Numbers]] = []
        self._held = 0
        self._cells: FieldCells | None = None

    def add(self, predictions: Predictions, numbers: Numbers) -> None:
        """Take in one more batch of n checked rows, each of a weight above 0, and the number of
        each row's value, (n,), of each field."""
        if self._cells is not None:
            self._cells.add(predictions, numbers)
            return
        self._pieces.append((predictions, numbers))
        self._held += len(predictions.probabilities)
        if self._held > self._rows:
            rows, numbers = self._joined()
            self._cells = FieldCells(self._codes(numbers), rows.probabilities)
            self._cells.add(rows, numbers)
            self._pieces = []

    def measured(self, seed: int = 0) -> FieldMetrics:
        """The metrics of all rows, at least one; the seed draws the positives of floors."""
        if self._cells is None:
            rows, numbers = self._joined()
            codes = self._codes(numbers)
            families = SortedRows(rows).families(codes, numbers)
        else:
            codes, families = self._cells.codes, self._cells.families()
        names = {field: self._names(field) for field in self._fields}
        sums = {
            field: _field_sums(families[(field,)], codes.values(field, names))
            for field in self._fields
        }
        return FieldMetrics(
            sums,
            {field: FieldErrors.of(found, seed) for field, found in sums.items()},
            worst_of(families, codes, names),
            self._cells is None,
        )

    def _codes(self, numbers: Numbers) -> FieldCodes:
        columns = {field: ValueColumn(self._names(field), numbers[field]) for field in self._fields}
        return FieldCodes(self._limits, columns)

    def _joined(self) -> tuple[Predictions, Numbers]:
        parts = [(part.probabilities, part.outcomes, part.weights) for part, _ in self._pieces]
        rows = Predictions(*map(np.concatenate, zip(*parts, strict=True)))
        return rows, {
            field: np.concatenate([numbers[field] for _, numbers in self._pieces])
            for field in self._fields
        }


def _field_sums(sums: SegmentSums, names: Sequence[str]) -> FieldSums:
    """The sums of one field, values with the most rows first; those of no row are left out."""
    order = np.argsort(-sums.samples, kind="stable")[: np.count_nonzero(sums.samples)]
    columns = (sums.expected, sums.positives, sums.variance, sums.weights)
    return FieldSums([names[i] for i in order.tolist()], *(column[order] for column in columns))


class FieldCells:
    """Cells of probability of all segments; as there come to be more segments, cells are joined
    two by two, so that no more than `most` are kept.

    The cells are equally full over the probabilities that are given, (n,).
    """

    def __init__(self, codes: FieldCodes, probabilities: Floats, most: int = _MOST_CELLS) -> None:
        self.codes, self._most, self._joined = codes, most, 0
        self._edges = np.quantile(probabilities, np.arange(1, CELLS) / CELLS)
        self._differences = {family: np.zeros((0, CELLS)) for family in codes.families}
        self._sums = {family: np.zeros((0, _SUMS)) for family in codes.families}

    def add(self, predictions: Predictions, numbers: Numbers) -> None:
        """Add the rows of a batch, as `FieldLog.add` takes it."""
        cells = np.searchsorted(self._edges, predictions.probabilities, side="right")
        p, weights = predictions.probabilities, predictions.weights
        expected, positives = predictions.expected, predictions.positives
        terms = (weights, expected, positives, expected * (1.0 - p))
        segments = {family: self.codes.codes(family, numbers, len(p)) for family in self._sums}
        self._make_room()
        for family, places in segments.items():
            sums = self._sums[family].reshape(-1, _SUMS)
            for column, term in enumerate(terms):
                sums[:, column] += sum_at(places, term, len(sums))
            flat = self._differences[family].reshape(-1)
            kept = CELLS >> self._joined
            np.add.at(flat, places * kept + (cells >> self._joined), positives - expected)

    def families(self) -> dict[Family, SegmentSums]:
        """The sums of the segments of each family."""
        found = {}
        for family, sums in self._sums.items():
            weights, expected, positives, variance = sums.reshape(-1, _SUMS).T
            spreads = cell_spreads(self._differences[family].reshape(-1, CELLS >> self._joined))
            found[family] = SegmentSums(weights, weights, expected, positives, variance, spreads)
        return found

    def _make_room(self) -> None:
        shapes = {family: self.codes.shape(family) for family in self._sums}
        segments = sum(map(prod, shapes.values()))
        while segments * (CELLS >> self._joined) > self._most and CELLS >> self._joined > 1:
            self._joined += 1
            held = self._differences.items()
            self._differences = {name: t[..., ::2] + t[..., 1::2] for name, t in held}
        for family, shape in shapes.items():
            cells = CELLS >> self._joined
            self._sums[family] = _grown(self._sums[family], (*shape, _SUMS))
            self._differences[family] = _grown(self._differences[family], (*shape, cells))


def _grown(table: Floats, shape: tuple[int, ...]) -> Floats:
    """The table with zeros behind it on each axis."""
    if table.shape == shape:
        return table
    grown = np.zeros(shape)
    if table.size:
        grown[tuple(map(slice, table.shape))] = table
    return grown

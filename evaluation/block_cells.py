"""Rows of one prediction, compacted to blocks and cells of score: what ranking metrics draw on."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from scipy.sparse import csr_array

from calibrators.grid import GRID
from calibrators.samples import Floats, Integers
from evaluation.blocks import Blocks
from evaluation.predictions import Predictions
from evaluation.sums import sum_at

MOST_EXACT: Final = 20_000
"""Up to so many rows every distinct probability is a cell of its own, and every draw exact."""

_MOST_NUMBERS = 400_000


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Sums of k cells in d draws, (k, d) each, cells in the order of their probability."""

    weights: Floats
    positives: Floats
    expected: Floats


@dataclass(frozen=True, eq=False)
class BlockCells:
    """Sums over the rows of each (cell, block) that has any, (k,) each, sorted so.

    Probabilities of a cell lie within 1 % of each other (within 1 % of their distance from 1, in
    the upper half), so taking them as tied changes a metric of many rows by less than one row does.
    """

    cells: Integers
    blocks: Integers
    block_count: int
    weights: Floats
    positives: Floats
    expected: Floats

    @classmethod
    def of(cls, predictions: Predictions, blocks: Blocks) -> Self:
        """The sums of n rows."""
        keys = _cells(predictions.probabilities) * max(blocks.count, 1) + blocks.codes
        distinct, places = np.unique(keys, return_inverse=True)
        columns = (predictions.weights, predictions.positives, predictions.expected)
        cells, owners = np.divmod(distinct, max(blocks.count, 1))
        sums = (sum_at(places, column, len(distinct)) for column in columns)
        return cls(cells, owners, blocks.count, *sums)

    @cached_property
    def probabilities(self) -> Floats:
        """Mean probability of each of the k' distinct cells, (k',), ascending."""
        starts = _starts(self.cells)
        weights = np.add.reduceat(self.weights, starts)
        return np.add.reduceat(self.expected, starts) / weights

    @cached_property
    def pooled(self) -> "CellMatrix":
        """The cells of all blocks together."""
        return CellMatrix.of(self, self.cells)

    def within(self, owners: Integers) -> "CellMatrix":
        """The cells of each owner, one owner after the other; owners, (blocks,), of each block."""
        owner = owners[self.blocks]
        width = int(self.cells.max(initial=0)) + 1
        return CellMatrix.of(self, owner * width + self.cells)


@dataclass(frozen=True, eq=False)
class CellMatrix:
    """Rows of cells, and what each block adds to them: sparse (rows, blocks) matrices.

    `keys`, (rows,), are the distinct keys that the rows stand for, ascending.
    """

    keys: Integers
    weights: Any
    positives: Any
    expected: Any

    @classmethod
    def of(cls, cells: BlockCells, keys: Integers) -> Self:
        """The matrices with a row for each distinct key, (k,), of the sums."""
        order = np.argsort(keys, kind="stable")
        starts = _starts(keys[order])
        bounds = np.append(starts, len(keys))
        shape = (len(starts), cells.block_count)

        def matrix(values: Floats) -> Any:
            return csr_array((values[order], cells.blocks[order], bounds), shape=shape)

        columns = (cells.weights, cells.positives, cells.expected)
        return cls(keys[order][starts], *map(matrix, columns))

    @property
    def at_once(self) -> int:
        """Draws that may be worked out together in little memory."""
        return max(1, _MOST_NUMBERS // max(len(self.keys), 1))

    def drawn(self, multiplicities: Floats) -> CellSums:
        """The sums of every draw, from how often each block was drawn, (d, blocks)."""
        times = multiplicities.T
        return CellSums(self.weights @ times, self.positives @ times, self.expected @ times)


def _cells(p: Floats) -> Integers:
    """A whole number for each probability, (n,), that rises with it."""
    if len(p) <= MOST_EXACT:
        return np.unique(p, return_inverse=True)[1]
    # The grid is fine near 0 only; the upper half is its mirror image.
    upper = p > 0.5
    cells = GRID.cells_of(np.where(upper, 1.0 - p, p))
    return np.where(upper, 2 * GRID.size - cells, cells)


def _starts(ordered: Integers) -> Integers:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])

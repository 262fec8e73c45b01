"""Rows of one prediction, compacted to blocks and cells of score: what ranking metrics draw on."""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from scipy.sparse import csr_array

from calibrators.bins.grid import GRID
from calibrators.samples import Floats, Integers, sum_at
from evaluation.bootstrap.blocks import Blocks
from evaluation.metrics.predictions import Predictions

MOST_EXACT: Final = 20_000
"""Up to so many rows every distinct probability is a cell of its own, and every draw exact."""

MOST_CELLS: Final = 300_000
"""Cells of all owners together, beyond which neighbours are taken together."""

CELL_SPAN: Final = 1 << 15
"""Cells are numbered below it; keys of cells within owners are owner * CELL_SPAN + cell."""

_MOST_HALVINGS = 5
_MOST_NUMBERS = 400_000


@dataclass(frozen=True, eq=False)
class BlockCells:
    """Sums over the rows of each (cell, block) that has any, (k,) each, sorted so.

    Probabilities of a cell lie within 1 % of each other (within 1 % of their distance from 1, in
    the upper half), so taking them as tied changes a metric of many rows by less than one row does.
    `exact` is True where every distinct probability has a cell of its own.
    """

    cells: Integers
    blocks: Integers
    block_count: int
    exact: bool
    weights: Floats
    positives: Floats
    expected: Floats

    @classmethod
    def of(cls, predictions: Predictions, blocks: Blocks) -> Self:
        """The sums of n rows."""
        columns = (predictions.weights, predictions.positives, predictions.expected)
        cells, exact = _cells(predictions.probabilities), len(predictions.weights) <= MOST_EXACT
        return cls._summed(cells, blocks.codes, blocks.count, columns, exact=exact)

    @classmethod
    def _summed(
        cls,
        cells: Integers,
        blocks: Integers,
        block_count: int,
        columns: tuple[Floats, ...],
        *,
        exact: bool,
    ) -> Self:
        keys, places = np.unique(cells * max(block_count, 1) + blocks, return_inverse=True)
        distinct, owners = np.divmod(keys, max(block_count, 1))
        sums = (sum_at(places, column, len(keys)) for column in columns)
        return cls(distinct, owners, block_count, exact, *sums)

    @property
    def halved(self) -> "BlockCells":
        """The same with two neighbouring cells as one."""
        columns = (self.weights, self.positives, self.expected)
        return BlockCells._summed(
            self.cells >> 1, self.blocks, self.block_count, columns, exact=False
        )

    @property
    def probabilities(self) -> Floats:
        """Mean probability of each of the k' distinct cells, (k',), ascending."""
        starts = _starts(self.cells)
        weights = np.add.reduceat(self.weights, starts)
        return np.add.reduceat(self.expected, starts) / weights

    def pooled(self) -> "CellMatrix":
        """The cells of all blocks together, without expected sums."""
        nothing = np.zeros(len(self.cells))
        return CellMatrix.of(replace(self, expected=nothing), self.cells)

    def within(self, owners: Integers, most_rows: int = MOST_CELLS) -> "CellMatrix":
        """The cells of each owner, one owner after the other; owners, (blocks,), of each block.

        Where that would make more than `most_rows`, up to 32 neighbouring cells are one.
        """
        cells, halvings = self, 0
        keys = cells._keys_of(owners)
        while halvings < _MOST_HALVINGS and len(_starts(np.sort(keys))) > most_rows:
            cells, halvings = cells.halved, halvings + 1
            keys = cells._keys_of(owners)
        return CellMatrix.of(cells, keys)

    def _keys_of(self, owners: Integers) -> Integers:
        return owners[self.blocks] * CELL_SPAN + self.cells


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
            # Each has bounds of its own, because zeros are taken out in place; and most cells of
            # most blocks have no positive.
            found = csr_array((values[order], cells.blocks[order], bounds.copy()), shape=shape)
            found.eliminate_zeros()
            return found

        columns = (cells.weights, cells.positives, cells.expected)
        return cls(keys[order][starts], *map(matrix, columns))

    @property
    def at_once(self) -> int:
        """Draws that may be worked out together in little memory."""
        return max(1, _MOST_NUMBERS // max(len(self.keys), 1))

    def drawn(self, multiplicities: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights, positives and expected positives in every draw, (rows, d) each, from how often
        each block was drawn, (d, blocks)."""
        times = multiplicities.T
        return self.weights @ times, self.positives @ times, self.expected @ times


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

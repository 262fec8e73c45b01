"""The block bootstrap: rows that share their error are drawn as a whole, with replacement."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from calibrators.bins.bins import GRID
from calibrators.samples import Floats, Integers, check_equal_lengths, sum_at
from evaluation.metrics.calibration import sample_losses
from evaluation.metrics.predictions import (
    Campaigns,
    GroupSums,
    Mask,
    Predictions,
    encode_campaigns,
    quotients,
)

LEAST_BLOCKS: Final = 10
"""With fewer blocks no interval can be trusted: the draws repeat the same few numbers."""

HOURS_PER_DAY = 24


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Which block each of n rows is in.

    codes : (n,) block of each row, 0 to `count` - 1; whatever the order of the rows, a block has
        the same number.
    count : blocks in all.
    unit : what a block is, in the plural, such as "campaign-days".
    """

    codes: Integers
    count: int
    unit: str = "blocks"

    @classmethod
    def of(cls, keys: Campaigns, unit: str = "blocks") -> Self:
        """The blocks named by any hashable keys, (n,), numbered in the order of their text.

        >>> Blocks.of(["b", "a", "b"]).codes
        array([1, 0, 1])
        """
        found, codes = encode_campaigns(keys)
        rank = np.empty(len(found), np.int64)
        rank[sorted(range(len(found)), key=lambda code: str(found[code]))] = np.arange(len(found))
        return cls(rank[codes], len(found), unit)

    @classmethod
    def of_campaigns(cls, campaigns: NDArray[np.integer], hours: Integers) -> Self:
        """Campaign-days, or campaign-hours where there are fewer than `LEAST_BLOCKS` of them.

        campaigns, (n,), are small whole numbers, hours, (n,), count from the epoch, so days are
        those of UTC. Rows of one campaign and day share what a model has wrong about both. Hours
        of one day share it too: their intervals are too narrow rather than too wide.

        >>> Blocks.of_campaigns(np.array([0, 0, 1]), np.array([23, 24, 24])).unit
        'campaign-hours'
        """
        check_equal_lengths(campaigns=campaigns, hours=hours)
        days = cls._of_spans(campaigns, hours // HOURS_PER_DAY, "campaign-days")
        return days if days.enough else cls._of_spans(campaigns, hours, "campaign-hours")

    @classmethod
    def _of_spans(cls, campaigns: NDArray[np.integer], spans: Integers, unit: str) -> Self:
        if not len(spans):
            return cls(np.empty(0, np.int64), 0, unit)
        first = spans.min()
        width = int(spans.max() - first) + 1
        keys = campaigns.astype(np.int64) * width + (spans - first)
        distinct, codes = np.unique(keys, return_inverse=True)
        return cls(codes, len(distinct), unit)

    def part(self, held: Mask) -> "Blocks":
        """The blocks of some of the rows, chosen by a mask, (n,); without those of no row."""
        distinct, codes = np.unique(self.codes[held], return_inverse=True)
        return Blocks(codes, len(distinct), self.unit)

    @property
    def enough(self) -> bool:
        """Whether there are enough blocks for an interval to mean something."""
        return self.count >= LEAST_BLOCKS

    def effective(self, weights: Floats) -> float:
        """The `effective_number` of the blocks, from the rows' weights, (n,)."""
        return effective_number(sum_at(self.codes, weights, self.count))


def effective_number(weights: Floats) -> float:
    """How many blocks of one size vary as blocks of these weights, (blocks,), do.

    The error of a block is in proportion to its weight, and so (sum w^2)^2 / sum w^4 are the
    degrees of freedom of its square: one block with nearly all rows counts as little more than 1.

    >>> effective_number(np.array([3.0, 3.0, 0.0])), round(effective_number(np.ones(7)))
    (2.0, 7)
    """
    shares = weights / weights.max(initial=np.finfo(np.float64).tiny)
    fourth = float((shares**4).sum())
    return float((shares**2).sum()) ** 2 / fourth if fourth > 0.0 else 0.0


Progress = Callable[[int, int], None]
Name = TypeVar("Name", bound=Hashable)

_MOST_AT_ONCE = 32
_MOST_NUMBERS = 2_000_000

Resampled = Callable[[Floats], Floats]
"""A metric of one prediction, ready to be worked out again for any weights of the blocks: its value
in every draw, (d,), from how often each block was drawn, (d, blocks). Ones give the metric of the
rows as they are."""


def multiplicities(blocks: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each block is drawn when as many are drawn as there are, (d, blocks) at a time.

    All draws of a seed, end to end, are the same however they are divided.
    """
    rng = np.random.default_rng(seed)
    at_once = min(_MOST_AT_ONCE, max(1, _MOST_NUMBERS // max(blocks, 1)))
    for first in range(0, draws, at_once):
        yield np.stack([_draw(rng, blocks) for _ in range(min(at_once, draws - first))])


def _draw(rng: np.random.Generator, blocks: int) -> Floats:
    drawn = rng.integers(blocks, size=blocks)
    return np.bincount(drawn, minlength=blocks).astype(np.float64)


def resample(
    metrics: Mapping[Name, Resampled],
    blocks: int,
    *,
    draws: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[Name, Floats]:
    """Every metric in every draw, (draws,) each; all of them see the same draws.

    `blocks` is how many blocks the rows of all of them are in, `progress` is called with (draws
    done, draws in all). ValueError unless `draws` is at least 1.
    """
    if not (draws >= 1 and draws == int(draws)):
        raise ValueError(f"draws = {draws}: must be whole and at least 1")
    if not blocks:
        return {name: np.full(draws, np.nan) for name in metrics}
    drawn: dict[Name, list[Floats]] = {name: [] for name in metrics}
    done = 0
    for times in multiplicities(blocks, draws, seed):
        for name, metric in metrics.items():
            drawn[name].append(metric(times))
        done += len(times)
        if progress is not None:
            progress(done, draws)
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def observed(metric: Resampled, blocks: int) -> float:
    """The metric of the rows as they are: each block once; nan without blocks."""
    return float("nan") if not blocks else float(metric(np.ones((1, blocks)))[0])


def centred(drawn: Floats, value: float) -> Floats:
    """The draws, (draws,), moved so that their mean is the value of the rows as they are.

    For errors that grow when rows are repeated, as GC-N does: its draws vary around more than the
    log has. Undefined and infinite draws stay, and then so do the others.
    """
    held = drawn[~np.isnan(drawn)]
    if not len(held) or not np.isfinite(held).all():
        return drawn
    moved: Floats = drawn + (value - held.mean())
    return moved


class BlockSums(GroupSums):
    """Sums over the rows of every block; a draw of blocks is their sum by how often each came."""

    __slots__ = ()

    @classmethod
    def of(cls, predictions: Predictions, blocks: Blocks) -> Self:
        """The sums of n rows."""
        weights, p = predictions.weights, predictions.probabilities
        rows = (
            weights,
            predictions.positives,
            predictions.expected,
            sample_losses(p, predictions.positives, weights),
            weights * (predictions.outcomes - p) ** 2,
        )
        return cls(*(sum_at(blocks.codes, row, blocks.count) for row in rows))

    @property
    def columns(self) -> tuple[Floats, ...]:
        """All sums, in the order of the attributes."""
        return self.weights, self.positives, self.expected, self.log_losses, self.squares

    def drawn(self, multiplicities: Floats) -> "BlockSums":
        """The sums of every draw, (d,) each, from how often each block was drawn, (d, blocks)."""
        return BlockSums(*(multiplicities @ column for column in self.columns))

    def metric(self, name: str) -> Resampled:
        """The metric of this name; ValueError unless it is one of `METRICS`."""
        if name not in METRICS:
            raise ValueError(f"metric = {name!r}: must be auc, {', '.join(METRICS)} or a function")
        of_sums = METRICS[name]
        return lambda multiplicities: of_sums(self.drawn(multiplicities))


def _rig(sums: BlockSums) -> Floats:
    rate = quotients(sums.positives, sums.weights)
    # Not `click_entropy`, from which it differs in the last digit: recorded results hold to it.
    entropy = -(xlogy(rate, rate) + xlogy(1.0 - rate, 1.0 - rate))
    return sums.rig(entropy.astype(np.float64, copy=False))


METRICS: Final[Mapping[str, Callable[[BlockSums], Floats]]] = {
    "cal_1": lambda sums: sums.cal_1,
    "log_loss": lambda sums: sums.log_loss,
    "mse": lambda sums: sums.mse,
    "pcoc": lambda sums: sums.pcoc,
    "rig": _rig,
}
"""Metrics by name."""


MOST_EXACT: Final = 20_000
"""Up to so many rows every distinct probability is a cell of its own, and every draw exact."""

MOST_CELLS: Final = 300_000
"""Cells of all owners together, beyond which neighbours are taken together."""

CELL_SPAN: Final = 1 << 15
"""Cells are numbered below it; keys of cells within owners are owner * CELL_SPAN + cell."""

_MOST_HALVINGS = 5
_MOST_CELLS = 400_000


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
        return CellMatrix(replace(self, expected=nothing), self.cells)

    def within(self, owners: Integers, most_rows: int = MOST_CELLS) -> "CellMatrix":
        """The cells of each owner, one owner after the other; owners, (blocks,), of each block.

        Where that would make more than `most_rows`, up to 32 neighbouring cells are one.
        """
        cells, halvings = self, 0
        keys = cells._keys_of(owners)
        while halvings < _MOST_HALVINGS and len(_starts(np.sort(keys))) > most_rows:
            cells, halvings = cells.halved, halvings + 1
            keys = cells._keys_of(owners)
        return CellMatrix(cells, keys)

    def _keys_of(self, owners: Integers) -> Integers:
        return owners[self.blocks] * CELL_SPAN + self.cells


class CellMatrix:
    """Rows of cells, and what each block adds to them: sparse (rows, blocks) matrices.

    `keys`, (rows,), are the distinct keys that the rows stand for, ascending.
    """

    def __init__(self, cells: BlockCells, keys: Integers) -> None:
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

        self.keys = keys[order][starts]
        self.weights, self.positives = matrix(cells.weights), matrix(cells.positives)
        self.expected = matrix(cells.expected)

    @property
    def at_once(self) -> int:
        """Draws that may be worked out together in little memory."""
        return max(1, _MOST_CELLS // max(len(self.keys), 1))

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

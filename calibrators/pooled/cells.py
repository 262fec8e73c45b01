"""The bins of a block of campaigns, by coarse cell of the score's log-odds and by hour.

`Cells` is what a window holds, `CellHours` the same packed hour by hour, `CampaignBlock` a block
during a fit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import prod
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import GRID
from calibrators.bins.codecs import SCALE, ByteColumn, from_fixed
from calibrators.bins.table import BinsTable, HourTables
from calibrators.pooled.spline import Coordinates, Knots
from calibrators.samples import IN_MEMORY, Floats, Integers, Scratch, expit, sum_at


class Entries(NamedTuple):
    """Of one cell in one hour each, hour by hour, the oldest first.

    places, hours : the cell, and the hour of the window, counted from 0, (e,).
    counts, positives : samples, and positives of these, (e,).
    """

    places: Integers
    hours: Integers
    counts: Floats
    positives: Floats


_NO_ENTRIES = Entries(*np.zeros((2, 0), np.int64), *np.zeros((2, 0)))


@dataclass(frozen=True, slots=True, eq=False)
class PackedEntries:
    """Entries in about two bytes each instead of 32: most cells hold few samples in an hour, most
    of them no positive, and most steps from a cell to the next that holds any are short.

    lengths : entries of each hour of the window, (h,).
    steps : from the place of each entry's cell to that of the next.
    clicked : a bit for each entry, whether it has positives; `positives` are of those that have.
    """

    lengths: Integers
    steps: ByteColumn[np.int64]
    counts: ByteColumn[np.float64]
    clicked: NDArray[np.uint8]
    positives: ByteColumn[np.float64]

    @classmethod
    def of(cls, entries: Entries, hours: int) -> Self:
        """Packs the entries of a window of so many hours."""
        clicked = entries.positives != 0
        return cls(
            np.bincount(entries.hours, minlength=hours),
            ByteColumn.of(np.diff(entries.places, prepend=0)),
            ByteColumn.of(entries.counts),
            np.packbits(clicked),
            ByteColumn.of(entries.positives[clicked]),
        )

    @classmethod
    def renumbered(cls, parts: Sequence[Self], places: Integers) -> Self:
        """The entries of all parts, one at least, one after the other; cell k is places[k] now."""
        steps, before = [], 0
        for part in parts:
            found = places[part.places]
            steps.append(ByteColumn.of(np.diff(found, prepend=before)))
            before = found[-1] if len(found) else before
        return cls(
            np.sum([part.lengths for part in parts], axis=0),
            ByteColumn.joined(steps),
            ByteColumn.joined([part.counts for part in parts]),
            np.packbits(np.concatenate([part.has_positives for part in parts])),
            ByteColumn.joined([part.positives for part in parts]),
        )

    def unpacked(self) -> Entries:
        """The same entries again, not to be changed."""
        few = len(self.counts.bytes) <= _FEW_ENTRIES
        return _remembered(self) if few else _unpacked(self)

    @property
    def places(self) -> Integers:
        """See `Entries`."""
        return np.cumsum(self.steps.values())

    @property
    def has_positives(self) -> NDArray[np.bool_]:
        """Of each entry, (e,)."""
        return np.unpackbits(self.clicked, count=len(self.counts.bytes)).view(bool)


def _unpacked(packed: PackedEntries) -> Entries:
    counts = packed.counts.values()
    positives = np.zeros(len(counts))
    positives[packed.has_positives] = packed.positives.values()
    hours = np.repeat(np.arange(len(packed.lengths)), packed.lengths)
    return Entries(packed.places, hours, counts, positives)


_FEW_ENTRIES = 1 << 19
"""Unpacked, 16 MB: a small platform, whose refit asks for them five times."""

_remembered = lru_cache(maxsize=1)(_unpacked)
forget_entries = _remembered.cache_clear


@dataclass(frozen=True, slots=True, eq=False)
class CellHours:
    """What m cells of c campaigns hold in each hour of a window, unpacked while it is summed.

    sizes : cells of each campaign, (c,); the first campaign's come first.
    entries : one for each cell and hour that hold samples.
    """

    sizes: Integers
    entries: PackedEntries

    @property
    def shape(self) -> tuple[int, int]:
        """Campaigns and hours, c and h."""
        return len(self.sizes), len(self.entries.lengths)

    @property
    def rows(self) -> Integers:
        """The campaign of each cell, ascending, (m,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def weighted(self, weights: Floats) -> tuple[Floats, Floats]:
        """Samples and positives of each cell, (m,), with weights by campaign and hour, (c, h)."""
        held, size = self.entries.unpacked(), int(self.sizes.sum())
        factor = weights.reshape(-1).take(self._keys(held))
        counts = sum_at(held.places, held.counts * factor, size)
        return counts, sum_at(held.places, held.positives * factor, size)

    def outcomes(self, probabilities: Floats) -> Iterator[Floats]:
        """By campaign and hour, (c, h) each: samples, positives expected by the probabilities of
        the cells, (m,), and positives that were seen."""
        held = self.entries.unpacked()
        expected = held.counts * probabilities[held.places]
        return self._by_hour(held, (held.counts, expected, held.positives))

    def sums(self, values: Sequence[Floats]) -> Iterator[Floats]:
        """Samples by campaign and hour, (c, h), then the sums over these of each of the values of
        the cells, (m,)."""
        held = self.entries.unpacked()
        amounts = (held.counts * value[held.places] for value in values)
        return self._by_hour(held, chain([held.counts], amounts))

    def _by_hour(self, held: Entries, amounts: Iterable[Floats]) -> Iterator[Floats]:
        keys, size = self._keys(held), prod(self.shape)
        return (sum_at(keys, each, size).reshape(self.shape) for each in amounts)

    def _keys(self, held: Entries) -> Integers:
        """Where the campaign and hour of each entry stand in a table (c, h), (e,)."""
        found: Integers = (self.rows * self.shape[1]).take(held.places)
        found += held.hours
        return found


FARTHEST = 17.5
"""Log-odds beyond which a score counts as this far out: those of 2e-8, less than the grid tells
from 0."""

CELL_WIDTH = 0.0875
"""Log-odds of a coarse cell."""

CELLS = int(2 * FARTHEST / CELL_WIDTH) + 1
"""Coarse cells from one end to the other."""


def log_odds(scores: Floats) -> Floats:
    """Of each score, at most `FARTHEST` away from 0."""
    with np.errstate(divide="ignore"):
        found: Floats = np.log(scores) - np.log1p(-scores)
    return np.clip(found, -FARTHEST, FARTHEST)


@lru_cache
def coarse_cells() -> Integers:
    """The coarse cell of each cell of the grid, ascending, (GRID.size,)."""
    return coarse_at(middles())


@lru_cache
def middles() -> Floats:
    """The log-odds of the middle of each cell of the grid."""
    lower, upper = GRID.edges(np.arange(GRID.size))
    return log_odds((lower + upper) / 2)


def coarse_at(values: Floats) -> Integers:
    """The coarse cells of log-odds, of any shape."""
    return np.asarray(((values + FARTHEST) / CELL_WIDTH).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What there is to know of a block of campaigns before a fit.

    campaigns : those with a sample in the window, ascending, (c,).
    hours : what their cells hold hour by hour.
    samples, scores, log_odds : of each cell that holds samples of the window, how many these are,
        their mean score and its log-odds, (m,).
    grid : samples and positives of all campaigns in each cell of the grid, and `mix_sums`,
        (4, GRID.size).
    """

    campaigns: tuple[str, ...]
    hours: CellHours
    samples: Floats
    scores: Floats
    log_odds: Floats
    grid: Floats

    @classmethod
    def of(cls, tables: HourTables, first: int, length: int) -> Self:
        """The cells of the hours from `first` on.

        As in `BinsTable.samples`, cells without a count are left out, and a cell and hour counts
        at most as many positives as samples.
        """
        inside = [(hour - first, tables[hour]) for hour in sorted(tables)]
        inside = [(hour, table) for hour, table in inside if 0 <= hour < length]
        names = sorted({name for _, table in inside for name in table.campaigns})
        numbers = {name: number for number, name in enumerate(names)}
        # One hour after the other: what is made of one for a moment is many times what is kept.
        parts = ((hour, *_entries(table, numbers)) for hour, table in inside)
        grid = np.zeros((2, GRID.size))
        for _, table in inside:
            grid += [sum_at(table.cells, from_fixed(table.sums[row]), GRID.size) for row in (0, 2)]
        grid = np.vstack((grid, _mix_of_tables([table for _, table in inside], numbers)))
        return cls._grouped(names, parts, length, grid)

    @classmethod
    def _grouped(
        cls,
        names: Sequence[str],
        parts: Iterable[tuple[Integers | int, Integers, Floats]],
        length: int,
        grid: Floats,
    ) -> Self:
        """From parts of the entries: the hours, keys of campaign and coarse cell, (e,), and sums,
        (3, e)."""
        totals = np.zeros((2, len(names) * CELLS))
        packed = [PackedEntries.of(_NO_ENTRIES, length)]
        for hours, keys, sums in parts:
            for total, each in zip(totals, sums, strict=False):
                np.add.at(total, keys, each)
            at = np.broadcast_to(hours, keys.shape)
            packed.append(PackedEntries.of(Entries(keys, at, sums[0], sums[2]), length))
        held = totals[0] > 0
        entries = PackedEntries.renumbered(packed, np.cumsum(held) - 1)
        counts, scores = totals[:, held]
        scores = np.minimum(scores / counts, 1.0)
        present, sizes = np.unique(np.flatnonzero(held) // CELLS, return_counts=True)
        campaigns = tuple(names[place] for place in present.tolist())
        return cls(campaigns, CellHours(sizes, entries), counts, scores, log_odds(scores), grid)

    def moved(self, places: Floats, chosen: Integers) -> "Cells":
        """What each hour holds, at other scores: at those of row `chosen[h]` of `places`, log-odds
        of each cell, (r, m); counts and positives stay."""
        held, rows = self.hours.entries.unpacked(), self.hours.rows
        at = places[chosen[held.hours], held.places]
        keys = rows[held.places] * CELLS + coarse_at(at)
        scores = expit(at)
        sums = np.stack((held.counts, held.counts * scores, held.positives))
        fine = GRID.cells_of(scores)
        grid = np.stack([sum_at(fine, sums[row], GRID.size) for row in (0, 2)])
        owned = sum_at(rows[held.places] * GRID.size + fine, held.counts, len(self) * GRID.size)
        grid = np.vstack((grid, mix_sums(owned.reshape(len(self), GRID.size))))
        return Cells._grouped(self.campaigns, [(held.hours, keys, sums)], self.hours.shape[1], grid)

    def __len__(self) -> int:
        return len(self.campaigns)

    def score_sums(self) -> Floats:
        """Samples and the sum of their scores in each coarse cell, (2, CELLS)."""
        places = coarse_at(self.log_odds)
        return np.stack([sum_at(places, each, CELLS) for each in (self.samples, self.predicted)])

    @property
    def predicted(self) -> Floats:
        """The positives that the scores of each cell predict, (m,)."""
        return self.samples * self.scores


def mix_sums(samples: Floats) -> Floats:
    """From the samples of each campaign in each cell of the grid, (c, GRID.size), the sums over
    campaigns of the squares of those in the cell, and in its coarse cell, (2, GRID.size)."""
    coarse = coarse_cells()
    starts = np.flatnonzero(np.diff(coarse, prepend=-1))
    whole = np.add.reduceat(samples, starts, axis=1)
    squares = np.einsum("ci,ci->i", whole, whole)
    sizes = np.diff(starts, append=len(coarse))
    return np.stack((np.einsum("ci,ci->i", samples, samples), np.repeat(squares, sizes)))


_AT_ONCE = 1024
"""Campaigns whose samples in all cells of the grid are held, 25 MB."""


def _mix_of_tables(tables: Sequence[BinsTable], numbers: dict[str, int]) -> Floats:
    found = np.zeros((2, GRID.size))
    for first in range(0, len(numbers), _AT_ONCE):
        samples = np.zeros((min(_AT_ONCE, len(numbers) - first), GRID.size))
        for table in tables:
            own = np.array([numbers[name] for name in table.campaigns], np.int64) - first
            inside = (own >= 0) & (own < len(samples))
            some = table if inside.all() else table.chosen(inside)
            places = np.repeat(own[inside] * GRID.size, np.diff(some.offsets)) + some.cells
            samples.reshape(-1)[places] += some.sums[0]
        samples /= SCALE
        found += mix_sums(samples)
    return found


def _entries(table: BinsTable, numbers: dict[str, int]) -> tuple[Integers, Floats]:
    """Keys of campaign and coarse cell, ascending in each campaign, and their sums (3, e)."""
    firsts = np.array([numbers[name] for name in table.campaigns], np.int64) * CELLS
    keys = np.repeat(firsts, np.diff(table.offsets)) + coarse_cells()[table.cells]
    sums, held = from_fixed(table.sums), table.counts > 0
    if not held.all():
        keys, sums = keys[held], sums[:, held]
    np.minimum(sums[2], sums[0], out=sums[2])
    if not len(keys):
        return keys, sums
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(sums, starts, axis=1)


class CampaignBlock:
    """Campaigns with their weighted cells and the coordinates of their deviations, (c, k).

    What every Newton step reads is kept, 36 bytes a cell; what the hours hold is packed.

    campaigns : their names, (c,).
    hours : what their cells hold hour by hour.
    groups : the group of each campaign, (c,), -1 for none.
    log_odds : of the mean score of each cell, (m,).
    offsets : from the centre of all traffic to that of each campaign's own, by the positives that
        scores predict, in log-odds, (c,).
    values : coordinates of the deviations, (c, k).
    trust : in each campaign's level, (c,), see `Precisions`.
    memberships : how likely each campaign is of each group, (c, g), where groups are families that
        nobody named; else None.
    """

    values: Floats

    def __init__(
        self,
        cells: Cells,
        coordinates: Coordinates,
        groups: Integers,
        values: Floats,
        weights: Floats,
        scratch: Scratch = IN_MEMORY,
    ) -> None:
        """With what their hours weigh, (c, h)."""
        self._stored = scratch.stored
        self.campaigns: tuple[str, ...] = cells.campaigns
        self.hours: CellHours = cells.hours
        self.log_odds: Floats = cells.log_odds
        self.groups, self.values = groups, values
        self.memberships: Floats | None = None
        self._coordinates = coordinates
        self._knots: Knots = coordinates.knots
        rows = cells.hours.rows
        before, after = self._knots.places(cells.log_odds)
        self._after = self._stored(after)
        self._key = self._stored((rows * self._knots.count + before).astype(np.int32))
        self.offsets = self._centres(rows, cells.predicted) - coordinates.centre
        self._stepped = self.log_odds
        # As the grid's cells are grouped: by a cell's middle, which may lie in another than a mean.
        self.coarse = self._stored(coarse_cells()[GRID.cells_of(cells.scores)].astype(np.int16))
        self.trust: Floats = np.ones(len(cells))
        self.weigh(weights)

    def __len__(self) -> int:
        return len(self.campaigns)

    def weigh(self, weights: Floats) -> None:
        """Count each campaign's hours with these weights, (c, h), from now on."""
        self._counts, self._positives = map(self._stored, self.hours.weighted(weights))

    def _centres(self, rows: Integers, predicted: Floats) -> Floats:
        weights = predicted + np.finfo(float).tiny
        total = sum_at(rows, weights, len(self))
        centres = sum_at(rows, weights * self.log_odds, len(self)) / total
        positions = self._knots.positions
        return np.clip(centres, positions[0], positions[-1])

    def probabilities(self, curves: Floats, more: Floats | float = 0.0) -> Floats:
        """Of each cell, (m,), with the log odds ratio of each campaign at the knots, (c, k), and
        `more` log-odds of each cell, (m,)."""
        return expit(self._stepped + self.at_cells(curves) + more)

    def rates(self, probabilities: Floats) -> Floats:
        """The mean probability of each campaign's expected positives, (c,), from that of each
        cell, (m,)."""
        expected, rows = self._counts * probabilities, self.hours.rows
        total = sum_at(rows, expected, len(self)) + np.finfo(float).tiny
        return sum_at(rows, expected * probabilities, len(self)) / total

    def add_steps(self, steps: Floats | None) -> None:
        """What steps add to the log-odds in each coarse cell, (CELLS,), from now on; None without
        steps."""
        stepped = self.log_odds if steps is None else self.log_odds + steps[self.coarse]
        self._stepped = self._stored(stepped)

    def at_cells(self, curves: Floats) -> Floats:
        """The curves, (c, k), at each cell, (m,)."""
        flat = curves.reshape(-1)
        before, after = flat[self._key], flat[self._key + 1]
        return np.asarray(before + self._after * (after - before))

    def linearised(self, curves: Floats) -> tuple[Floats, Floats]:
        """Gradient, (c, k), and information, (c, k, k), of the binomial likelihood in the
        coordinates, when these are the log odds ratios."""
        p = self.probabilities(curves)
        residuals = self._positives - self._counts * p
        weights = self._counts * p * (1 - p)
        gradients = self.on_knots(residuals) @ self._coordinates.basis
        diagonal, beside = self._tridiagonal(weights)
        return gradients, self._coordinates.matrices(diagonal, beside)

    def by_coarse_cell(self, curves: Floats, target: Floats) -> Floats:
        """Positives, those that the curves expect, the information about the log-odds, and what
        is expected times the squared distance of the campaign's curve from the target's, (k,), in
        each coarse cell, of all campaigns together, (4, CELLS)."""
        p = self.probabilities(curves)
        expected = self._counts * p
        distances = self.at_cells(curves - target) ** 2
        amounts = self._positives, expected, expected * (1 - p), expected * distances
        return np.stack([sum_at(self.coarse, each, CELLS) for each in amounts])

    def misses(self, curves: Floats, variances: Floats) -> Floats:
        """Of cells with traffic, how far the positives are from curves with these variances at the
        knots, (c, k) each, in log-odds; the variance of chance in that, and of the curve, 0 as it
        has followed the cell: (3, m)."""
        p = self.probabilities(curves)
        held = self._counts * p * (1 - p) > 1.0
        information = (self._counts * p * (1 - p))[held]
        missed = (self._positives - self._counts * p)[held] / information
        followed = np.minimum(information * self.at_cells(variances)[held], 0.9)
        return np.stack((missed, (1 - followed) / information, np.zeros(len(missed))))

    def scatter(self) -> tuple[float, float]:
        """The predicted positives times their squared distance from the centre of the campaign's
        traffic, in log-odds, and the predicted positives."""
        weights = self._counts * expit(self.log_odds)
        centres = (self.offsets + self._coordinates.centre)[self.hours.rows]
        return float(weights @ (self.log_odds - centres) ** 2), float(weights.sum())

    def information(self, curves: Floats) -> Floats:
        """Of the binomial likelihood about the log odds near each knot, (c, k)."""
        p = self.probabilities(curves)
        return self.on_knots(self._counts * p * (1 - p))

    def on_knots(self, amounts: Floats) -> Floats:
        """Amounts at the cells, (m,), shared between the knots around each, (c, k)."""
        behind = amounts * self._after
        return self._with_next(self._before(amounts - behind), self._before(behind))

    def _tridiagonal(self, weights: Floats) -> tuple[Floats, Floats]:
        mixed = weights * (1 - self._after) * self._after
        beside = self._before(mixed)
        diagonal = self.on_knots(weights) - self._with_next(beside, beside)
        return diagonal, beside.reshape(-1, self._knots.count)[:, :-1]

    def _before(self, amounts: Floats) -> Floats:
        """Sums at the knot before each cell, (c * k,)."""
        return sum_at(self._key, amounts, len(self) * self._knots.count)

    def _with_next(self, before: Floats, behind: Floats) -> Floats:
        """Sums at the knots before cells and those for the next knots, (c * k,), in all (c, k)."""
        both = before.copy()
        # The last knot of a campaign is before no cell.
        both[1:] += behind[:-1]
        return both.reshape(-1, self._knots.count)

    def curvature_pull(self, curves: Floats, covariances: Floats) -> Floats:
        """Half the third derivative of the likelihood against these covariances, (c, k, k), as a
        gradient in the coordinates, (c, k)."""
        own, beside = self._coordinates.variances(covariances)
        at, key = self._after, self._key
        pairs = np.pad(beside, ((0, 0), (0, 1))).reshape(-1)[key]
        flat = own.reshape(-1)
        spread = (1 - at) ** 2 * flat[key] + 2 * at * (1 - at) * pairs + at**2 * flat[key + 1]
        p = self.probabilities(curves)
        third = self._counts * p * (1 - p) * (1 - 2 * p)
        return self.on_knots(-0.5 * third * spread) @ self._coordinates.basis

"""Which grid? The error that each resolution adds to SIR's maps, against changing n to 990.

Campaigns of log-normal scores with distorted click rates are fitted on raw samples with bins of
1000 and of 990 (the yardstick), and from the cells of grids of growing resolution, split in
proportion at exactly 1000. Distances are relative, at the campaign's own scores; GC-5 is that of
fresh samples.

    python -m benchmarks grid [--json]
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.figures import Table
from benchmarks.parts import Part
from calibrators import CalibrationMap, SmoothedIsotonic
from calibrators.bins.bins import Grid
from calibrators.bins.codecs import from_fixed, pack_column, sum_by_key, to_fixed
from calibrators.methods.equal_frequency import bins_of_cells
from calibrators.samples import Floats, Integers
from evaluation import gc_n

CAMPAIGNS = 240
CAMPAIGNS_IN_A_GROUP = 8
WINDOW_SAMPLES = (5_000, 200_000)
HOUR_SAMPLES = (100, 1_000, 10_000)
OCTAVES = 24
BITS = range(2, 9)
SIR = SmoothedIsotonic(bin_size=1000)


@dataclass(frozen=True)
class Campaign:
    """A window's samples, and as many fresh ones to judge by."""

    scores: Floats
    outcomes: Floats
    fresh_scores: Floats
    fresh_outcomes: Floats


@dataclass(frozen=True)
class Cells:
    """The samples of a campaign in a grid's cells."""

    grid: Grid
    cells: Integers
    sums: Integers

    @classmethod
    def of(cls, grid: Grid, scores: Floats, outcomes: Floats) -> "Cells":
        """The fixed-point sums by cell."""
        fixed = np.stack([to_fixed(c) for c in (np.ones_like(scores), scores, outcomes)])
        return cls(grid, *sum_by_key(grid.cells_of(scores), fixed))

    def fit(self) -> CalibrationMap:
        """SIR's map from these cells."""
        counts, score_sums, positives = self.sums
        samples = (score_sums / counts, positives / counts, from_fixed(counts))
        offsets = np.array([0, len(self.cells)])
        found = bins_of_cells(self.grid, self.cells, samples, offsets, SIR.bin_size)
        return SIR.interpolate(found.bins, None)

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return sum(len(pack_column(column)) for column in (self.cells, *self.sums))


def campaigns(count: int, rng: np.random.Generator) -> Iterator[Campaign]:
    """Windows at click rates of about 0.5 to 8 %, scores shifted, sloped and noisy in log-odds."""
    for _ in range(count):
        level, spread = rng.uniform(-5.0, -2.5), rng.uniform(0.4, 1.2)
        shift, slope = rng.normal(0.0, 0.4), rng.uniform(0.6, 1.2)
        size = int(np.exp(rng.uniform(*np.log(WINDOW_SAMPLES))))
        log_odds = rng.normal(level, spread, 2 * size)
        truth = 1 / (1 + np.exp(-(shift + level + slope * (log_odds - level))))
        scores = 1 / (1 + np.exp(-log_odds))
        outcomes = (rng.random(2 * size) < truth).astype(np.float64)
        yield Campaign(scores[:size], outcomes[:size], scores[size:], outcomes[size:])


Maps = Sequence[CalibrationMap]


def distances(maps: Maps, exact: Maps, seen: Sequence[Campaign]) -> Floats:
    """Relative distance of the maps at every score of every campaign."""
    return np.concatenate(
        [
            np.abs(ours(c.scores[raw > 0]) / raw[raw > 0] - 1)
            for ours, map_, c in zip(maps, exact, seen, strict=True)
            for raw in [map_(c.scores)]
        ]
    )


def gc_5(maps: Maps, seen: Sequence[Campaign]) -> Floats:
    """GC-5 of the maps on fresh samples, of each group of campaigns."""
    return np.array(
        [
            gc_5_of_group(
                maps[at : at + CAMPAIGNS_IN_A_GROUP], seen[at : at + CAMPAIGNS_IN_A_GROUP]
            )
            for at in range(0, len(seen), CAMPAIGNS_IN_A_GROUP)
        ]
    )


def gc_5_of_group(maps: Maps, seen: Sequence[Campaign]) -> float:
    """GC-5 of the maps of a few campaigns on their fresh samples."""
    rows = np.repeat(np.arange(len(seen)), [len(c.fresh_scores) for c in seen])
    probabilities = np.concatenate([m(c.fresh_scores) for m, c in zip(maps, seen, strict=True)])
    return gc_n(probabilities, np.concatenate([c.fresh_outcomes for c in seen]), rows, 5)


def measure(count: int = CAMPAIGNS, resolutions: Iterable[int] = BITS) -> Table:
    """One row for the yardstick and one for each resolution."""
    seen = list(campaigns(count, np.random.default_rng(7)))
    exact = [SIR.fit(c.scores, c.outcomes) for c in seen]
    yardstick = [SmoothedIsotonic(990).fit(c.scores, c.outcomes) for c in seen]
    base = gc_5(exact, seen)
    rows: Table = {"raw samples, n = 990": errors(yardstick, exact, seen, base)}
    for bits in resolutions:
        grid = Grid(OCTAVES, bits)
        cells = [Cells.of(grid, c.scores, c.outcomes) for c in seen]
        started = perf_counter()
        maps = [c.fit() for c in cells]
        seconds = (perf_counter() - started) / len(cells)
        rows[f"{2**bits} cells an octave"] = {
            **errors(maps, exact, seen, base),
            "window_cells": float(np.mean([len(c.cells) for c in cells])),
            "fit_us": seconds * 1e6,
            **hour_bytes(grid, seen),
        }
    return rows


def errors(maps: Maps, exact: Maps, seen: Sequence[Campaign], base: Floats) -> dict[str, float]:
    """How far the maps are from the exact ones."""
    apart = distances(maps, exact, seen)
    gc_5_apart = np.abs(gc_5(maps, seen) / base - 1)
    return {
        "map_median_pct": 100 * float(np.median(apart)),
        "map_p99_pct": 100 * float(np.percentile(apart, 99)),
        "gc_5_mean_pct": 100 * float(np.mean(gc_5_apart)),
        "gc_5_median_pct": 100 * float(np.median(gc_5_apart)),
        "gc_5_p99_pct": 100 * float(np.percentile(gc_5_apart, 99)),
    }


def hour_bytes(grid: Grid, seen: Sequence[Campaign]) -> dict[str, float]:
    """Mean bytes of a campaign-hour by its impressions."""
    return {
        f"bytes_{size}": float(
            np.mean([Cells.of(grid, c.scores[:size], c.outcomes[:size]).size for c in seen])
        )
        for size in HOUR_SAMPLES
    }


PART = Part("grid", "Grid resolution", __doc__, measure)

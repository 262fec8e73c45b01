"""Whether another model scores: shifts of the scores that most campaigns make at the same hour.

No outcome is looked at. Scores are compared within each campaign, so that traffic which moves from
some campaigns to others is no shift; and what counts is the shift of the median campaign, so that
no minority of them is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.pooled.cells import Cells, log_odds
from calibrators.samples import Floats, Integers, sum_at

REFERENCE_HOURS = 3
"""Hours before, with which an hour is compared: few, so that a daily cycle is no shift."""

LEAST = 0.1
"""Shifts that are smaller do not matter: log-odds; of the spread, relative to it."""

SURE = 6.5
"""Standard errors of the median campaign's shift. docs/model-pushes.md derives the false alarms."""

UNUSUAL = 4.0
"""Times the robust standard deviation of the hourly shifts of the window."""

_FEWEST_UNITS = 8.0
_UNIT = 20.0
"""Impressions from which on a campaign is compared by itself; smaller ones are taken together."""

_TO_DEVIATION = 1.4826
"""From the median of the absolute values to the standard deviation, of normal numbers."""

_USUAL_SHIFT, _USUAL_HOURS = 0.05, 4
"""What shifts are taken to be, as if so many hours had shown it, before there are any."""

_LEAST_VARIANCE = 0.01
_FARTHEST = 4.0


class ScoreSums(NamedTuple):
    """ScoreSums over the impressions of c campaigns, (c,) or by hour (c, h).

    counts : how many there are.
    offsets : of their log-odds from the campaign's centre.
    distances : of the sizes of these.
    """

    counts: Floats
    offsets: Floats
    distances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHours:
    """Where the scores of c campaigns lie in each of h hours.

    campaigns : their names.
    centres : mean log-odds of each, (c,).
    variances : of offset and distance of one impression, (2, c).
    spreads : mean distance, (c,).
    sums : by hour, (c, h) each.
    """

    campaigns: tuple[str, ...]
    centres: Floats
    variances: Floats
    spreads: Floats
    sums: ScoreSums

    @classmethod
    def of(cls, blocks: Sequence[Cells]) -> Self:
        """Of the cells of all blocks, one at least."""
        parts = [_of_block(block) for block in blocks]
        sums = ScoreSums(
            *(np.vstack(each) for each in zip(*(part.sums for part in parts), strict=True))
        )
        return cls(
            tuple(name for block in blocks for name in block.campaigns),
            np.concatenate([part.centres for part in parts]),
            np.hstack([part.variances for part in parts]),
            np.concatenate([part.spreads for part in parts]),
            sums,
        )

    def pushes(self) -> list[int]:
        """The hours, counted from the first of the window, in which the scores of most campaigns
        moved against the hours before: ascending, the first hour never."""
        shifts = self._mean_shifts()
        found: list[int] = []
        for hour in np.flatnonzero(shifts.suspicious).tolist():
            first = max([hour - REFERENCE_HOURS, 0, *found[-1:]])
            before = self.between(first, hour)
            if self.shift(self.between(hour, hour + 1), before).is_push(shifts.usual):
                found.append(hour)
        return found

    def offsets(self, rows: Integers, scores: Floats) -> Floats:
        """Log-odds of scores from the centres of their campaigns, (n,)."""
        return _offsets(log_odds(scores), self.centres[rows])

    def between(self, first: int, behind: int) -> ScoreSums:
        """The sums over the hours of first <= hour < behind, (c,) each."""
        return ScoreSums(*(each[:, first:behind].sum(axis=1) for each in self.sums))

    @property
    def usual(self) -> Floats:
        """What is usual from hour to hour, for `Shift.is_push`."""
        return self._mean_shifts().usual

    def shift(self, now: ScoreSums, before: ScoreSums) -> "Shift":
        """That of the median campaign."""
        return Shift.of(now, before, self.variances, self.spreads)

    def _mean_shifts(self) -> "_MeanShifts":
        behind = [np.cumsum(np.pad(each, ((0, 0), (1, 0))), axis=1) for each in self.sums]
        places = np.arange(1, behind[0].shape[1] - 1)
        firsts = np.maximum(places - REFERENCE_HOURS, 0)
        before = ScoreSums(*(each[:, places] - each[:, firsts] for each in behind))
        now = ScoreSums(*(each[:, 1:] for each in self.sums))
        return _MeanShifts.of(now, before, self.variances, self.spreads)


def _offsets(values: Floats, centres: Floats) -> Floats:
    return np.clip(values - centres, -_FARTHEST, _FARTHEST)


def _of_block(block: Cells) -> ScoreHours:
    rows, size = block.hours.rows, len(block)
    counts = np.maximum(sum_at(rows, block.samples, size), 1e-300)
    centres = sum_at(rows, block.samples * block.log_odds, size) / counts
    offsets = _offsets(block.log_odds, centres[rows])
    distances = np.abs(offsets)
    spreads = sum_at(rows, block.samples * distances, size) / counts
    squares = sum_at(rows, block.samples * offsets**2, size) / counts
    variances = np.stack((squares, squares - spreads**2))
    sums = ScoreSums(*block.hours.sums((offsets, distances)))
    return ScoreHours(block.campaigns, centres, variances, spreads, sums)


def _noise(now: Floats, before: Floats, variances: Floats) -> Floats:
    """Variance of the difference of two means."""
    return (variances + _LEAST_VARIANCE) * (1 / now + 1 / before)


class _MeanShifts(NamedTuple):
    """Whether each hour but the first may be a push, by the campaigns' mean shifts: (h,); and the
    usual size of these, of offset and spread, (2,)."""

    suspicious: NDArray[np.bool_]
    usual: Floats

    @classmethod
    def of(cls, now: ScoreSums, before: ScoreSums, variances: Floats, spreads: Floats) -> Self:
        held = (now.counts > 0) & (before.counts > 0)
        counts = np.where(held, now.counts, 1.0), np.where(held, before.counts, 1.0)
        scales = (np.ones(len(spreads)), np.maximum(spreads, LEAST))
        means, moved = [], np.zeros(held.shape[1], dtype=bool)
        for new, old, variance, scale in zip(now[1:], before[1:], variances, scales, strict=True):
            noise = _noise(*counts, (variance / scale**2)[:, None])
            weights = held / (noise + LEAST**2)
            total = np.maximum(weights.sum(axis=0), 1e-300)
            shifts = (new / counts[0] - old / counts[1]) / scale[:, None]
            mean = (weights * shifts).sum(axis=0) / total
            means.append(mean)
            error = np.sqrt((weights**2 * noise).sum(axis=0)) / total
            excess = (weights * (shifts**2 - noise)).sum(axis=0) / total
            moved |= (np.abs(mean) > np.maximum(LEAST / 2, 0.5 * SURE * error)) | (
                excess > LEAST**2
            )
        taken = held.any(axis=0)
        usual = [_usual(mean[taken]) for mean in means]
        return cls(np.concatenate(([False], moved & taken)), np.array(usual))


def _usual(shifts: Floats) -> float:
    known = np.concatenate((np.abs(shifts), np.full(_USUAL_HOURS, _USUAL_SHIFT)))
    return _TO_DEVIATION * float(np.median(known))


class Shift(NamedTuple):
    """How the median campaign's scores have moved, and the standard error of each.

    moved, errors : mean log-odds, and mean distance from the centre, relative to it, (2,).
    scatter, scatter_error : how far campaigns moved by themselves, beside that, as a variance in
        log-odds.
    units : how many campaigns there were, or groups of small ones.
    """

    moved: Floats
    errors: Floats
    scatter: float
    scatter_error: float
    units: float

    @classmethod
    def of(cls, now: ScoreSums, before: ScoreSums, variances: Floats, spreads: Floats) -> Self:
        """From the sums of c campaigns, now and before, what varies in one impression's offset and
        distance, (2, c), and the usual distances, (c,)."""
        held = np.flatnonzero((now.counts > 0) & (before.counts > 0))
        if not len(held):
            return cls(np.zeros(2), np.full(2, np.inf), 0.0, np.inf, 0.0)
        counts, old = now.counts[held], before.counts[held]
        units, size = _units(counts)
        share = counts / sum_at(units, counts, size)[units]
        found, scatter, effective = [], (0.0, np.inf), 0.0
        scales = (np.ones(len(held)), np.maximum(spreads[held], LEAST))
        for place, scale in enumerate(scales):
            new_sums, old_sums = now[place + 1][held], before[place + 1][held]
            shifts = sum_at(units, share * (new_sums / counts - old_sums / old) / scale, size)
            each = _noise(counts, old, variances[place][held] / scale**2)
            noise = sum_at(units, share**2 * each, size)
            median = _Median.of(shifts, noise)
            found.append((median.value, median.error))
            if not place:
                scatter, effective = median.scatter(shifts, noise), median.units
        moved, errors = np.array(found).T
        return cls(moved, errors, *scatter, effective)

    def is_push(self, usual: Floats) -> bool:
        """Whether it is sure, large enough to matter, and not what happens from hour to hour;
        `usual`: standard deviations of the hourly shifts of offset and distance, (2,)."""
        if self.units < _FEWEST_UNITS:
            return False
        limits = np.maximum(np.maximum(SURE * self.errors, UNUSUAL * usual), LEAST)
        own = max(SURE * self.scatter_error, (UNUSUAL * float(usual[0])) ** 2, LEAST**2)
        return bool((np.abs(self.moved) > limits).any() or self.scatter > own)


def _units(counts: Floats) -> tuple[Integers, int]:
    """The unit of each campaign, (c,): itself, or several small ones in turn, and how many units
    there are."""
    small = counts < _UNIT
    joined = (np.cumsum(counts * small) // _UNIT).astype(np.int64)
    of_small = int(joined[-1]) + 1
    alone = of_small + np.cumsum(~small) - 1
    _, units = np.unique(np.where(small, joined, alone), return_inverse=True)
    return units.astype(np.int64), int(units.max()) + 1


class _Median(NamedTuple):
    """The weighted median of shifts, its standard error, and how many shifts it stands on."""

    value: float
    error: float
    units: float

    @classmethod
    def of(cls, shifts: Floats, noise: Floats) -> Self:
        weights = 1 / (noise + LEAST**2)
        value = _weighted_median(shifts, weights)
        # What campaigns move by themselves is noise of the median, too.
        ratio = _weighted_median(np.abs(shifts - value) / np.sqrt(noise), weights)
        wider = max(1.0, _TO_DEVIATION * ratio)
        total = weights.sum()
        error = np.sqrt(np.pi / 2 * (weights**2 * noise).sum()) / total * wider
        return cls(value, float(error), float(total**2 / (weights**2).sum()))

    def scatter(self, shifts: Floats, noise: Floats) -> tuple[float, float]:
        """The variance that the median unit's distance from the median has too much, and its
        standard error: that of the median of absolute normal numbers, with a half more."""
        weights = 1 / (noise + LEAST**2)
        ratio = _TO_DEVIATION * _weighted_median(
            np.abs(shifts - self.value) / np.sqrt(noise), weights
        )
        usual = _weighted_median(noise, weights)
        return (ratio**2 - 1) * usual, 2 * 1.75 * usual / np.sqrt(self.units)


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(reached, reached[-1] / 2))]])

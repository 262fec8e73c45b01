"""Whether another model scores: shifts of the scores that most campaigns make at the same hour.

No outcome is looked at. Scores are compared within each campaign, so that traffic which moves from
some campaigns to others is no shift; and what counts is the shift of the median campaign, so that
no minority of them is one. An hour is compared with the level of the hours before it, and with the
straight line through them, from which a daily cycle hardly departs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from calibrators.peers import ALONE, Peers
from calibrators.pooled.cells import Cells
from calibrators.samples import Floats, Integers, scratch_of, sum_at

REFERENCE_HOURS = 3
"""Hours before, with which an hour is compared: few, so that a daily cycle is a small shift."""

LEAST = 0.1
"""Shifts that are smaller do not matter: log-odds; of the spread, relative to it."""

SURE = 6.5
"""Standard errors of the median campaign's shift. docs/model-pushes.md derives the false alarms."""

UNUSUAL = 4.0
"""Times the robust standard deviation of the hourly shifts of the window."""

_CHANCE = 2.0
"""Standard errors by which a line may show less of a shift than there is."""

_FEWEST_UNITS = 8.0
_UNIT = 20.0
"""Impressions from which on a campaign is compared by itself; smaller ones are taken together."""

_TO_DEVIATION = 1.4826
"""From the median of the absolute values to the standard deviation, of normal numbers."""

_USUAL_SHIFT, _USUAL_HOURS = 0.05, 4
"""What shifts are taken to be, as if so many hours had shown it, before there are any."""

_SCATTER_ERROR = 2 * 1.75
"""Of a variance by the median, relative to it, times the root of the number of campaigns: that of
the median of absolute normal numbers, with a half more."""

_LEAST_VARIANCE = 0.01
_AT_ONCE = 128
"""Campaigns whose hours are all compared together: of each these take 10 kB."""

_FARTHEST = 4.0


class ScoreSums(NamedTuple):
    """Sums over the impressions of c campaigns, (c,) or by hour (c, h).

    counts : how many there are.
    offsets : of their log-odds from the campaign's centre.
    distances : of the sizes of these.
    """

    counts: Floats
    offsets: Floats
    distances: Floats


@dataclass(frozen=True, eq=False)
class ScoreHours:
    """Where the scores of c campaigns lie in each of h hours.

    campaigns : their names.
    centres : mean log-odds of each, (c,).
    variances : of offset and distance of one impression, (2, c).
    spreads : mean distance, (c,).
    sums : by hour, (c, h) each.
    sizes : campaigns of each block; some of one are summed up by themselves.
    peers : the workers that have the other campaigns.
    """

    campaigns: tuple[str, ...]
    centres: Floats
    variances: Floats
    spreads: Floats
    sums: ScoreSums
    sizes: tuple[int, ...]
    peers: Peers = ALONE

    @classmethod
    def of(cls, blocks: Sequence[Cells], peers: Peers = ALONE, joined: bool = True) -> Self:
        """Of the cells of all blocks, one at least, which are summed up joined or one by one."""
        scratch = scratch_of(blocks)
        parts = scratch.kept(_of_block(block) for block in blocks)
        sizes = [len(block) for block in blocks]
        each = zip(*(part.sums for part in parts), strict=True)
        sums = ScoreSums(*map(scratch.joined, each))
        return cls(
            tuple(name for block in blocks for name in block.campaigns),
            np.concatenate([part.centres for part in parts]),
            np.hstack([part.variances for part in parts]),
            np.concatenate([part.spreads for part in parts]),
            sums,
            (sum(sizes),) if joined else tuple(sizes),
            peers,
        )

    def pushes_and_usual(self) -> tuple[list[int], Floats]:
        """The hours, counted from the first of the window, in which the scores of most campaigns
        moved against the hours before: ascending, the first hour never; and what is usual from hour
        to hour, for `Shifts.is_push`, (2, 3)."""
        suspicious, usual = self._mean_shifts()
        found: list[int] = []
        for hour in suspicious:
            if self.shifts_of(hour, max(found, default=0)).is_push(usual):
                found.append(hour)
        return found, usual

    def offsets(self, rows: Integers, values: Floats) -> Floats:
        """Of log-odds from the centres of their campaigns, (n,)."""
        return _offsets(values, self.centres[rows])

    def between(self, first: int, behind: int) -> ScoreSums:
        """The sums of the hours of first <= hour < behind, (c, behind - first) each."""
        return ScoreSums(*(each[:, first:behind] for each in self.sums))

    def whole(self) -> "ScoreHours":
        """That of all workers' campaigns, for the first of them, without the sums: what is not
        needed any more is large."""
        names = tuple(self.peers.names(self.campaigns))
        own = self.centres, self.variances.T, self.spreads
        centres, variances, spreads = self.peers.joined(*own, to_first=True)
        nothing = ScoreSums(*np.empty((3, 0, 0)))
        return ScoreHours(names, centres, variances.T, spreads, nothing, ())

    def shifts_of(self, hour: int, first: int) -> "Shifts":
        """Those of an hour against hours before it, of which `first` may be the earliest."""
        return self.shifts(*self._around(hour, first))

    def shifts(self, now: ScoreSums, before: ScoreSums, ago: int) -> "Shifts":
        """Those of the median campaign from the sums of hours before, (c, k) each, of which the
        first is so many hours ago, to those of now, (c,)."""
        own = self._compared(now, before, ago)
        return Shifts(*(Shift.of(each.joined(self.peers)) for each in own))

    def _mean_shifts(self) -> tuple[list[int], Floats]:
        """The hours that may be pushes by the campaigns' mean shifts, and what is usual of level
        and line, (2, 3): the sizes of these, of offset and spread, and their scatter."""
        suspicious, sizes = [], np.full((2, self.sums.counts.shape[1], 3), np.nan)
        for hour, sums in enumerate(self.peers.sum(each._mean_sums() for each in self._blocks), 1):
            level, line = map(_MeanShift.of, sums)
            sizes[:, hour] = level.sizes, line.sizes
            if level.is_suspicious:
                suspicious.append(hour)
        return suspicious, np.array([[_usual(size) for size in kind.T] for kind in sizes])

    def _mean_sums(self) -> Floats:
        """What the mean shifts of each hour but the first follow from, of level and line,
        (h - 1, 2, 4, 2): see `_MeanShift`."""
        size, hours = len(self.spreads), self.sums.counts.shape[1] - 1
        # All hours at once, as if each had campaigns of its own: numpy is called once for all.
        now = ScoreSums(*(each[:, 1:].T.reshape(-1) for each in self.sums))
        before = ScoreSums(*map(_hours_before, self.sums))
        every = replace(
            self, variances=np.tile(self.variances, hours), spreads=np.tile(self.spreads, hours)
        )
        compared = every._compared(now, before, REFERENCE_HOURS)
        return np.stack([each.sums(each.places // size, hours) for each in compared], axis=1)

    @property
    def _blocks(self) -> Iterator["ScoreHours"]:
        ends = np.cumsum(self.sizes).tolist()
        for size, end in zip(self.sizes, ends, strict=True):
            for first in range(end - size, max(end, end - size + 1), _AT_ONCE):
                yield self._part(slice(first, min(first + _AT_ONCE, end)))

    def _part(self, rows: slice) -> "ScoreHours":
        return replace(
            self,
            campaigns=self.campaigns[rows],
            centres=self.centres[rows],
            variances=self.variances[:, rows],
            spreads=self.spreads[rows],
            sums=ScoreSums(*(each[rows] for each in self.sums)),
        )

    def _around(self, hour: int, first: int) -> tuple[ScoreSums, ScoreSums, int]:
        first = max(hour - REFERENCE_HOURS, first)
        now = ScoreSums(*(each[:, hour] for each in self.sums))
        return now, self.between(first, hour), hour - first

    def _compared(self, now: ScoreSums, before: ScoreSums, ago: int) -> Iterator["_Compared"]:
        for reference in _references(before, ago):
            yield _Compared.of(now, reference, self.variances, self.spreads)


def _offsets(values: Floats, centres: Floats) -> Floats:
    return np.clip(values - centres, -_FARTHEST, _FARTHEST)


def _hours_before(sums: Floats) -> Floats:
    """Of sums by campaign and hour, (c, h), those of the `REFERENCE_HOURS` before each hour but the
    first, hour by hour, ((h - 1) c, k), 0 where there are none."""
    padded = np.pad(sums, ((0, 0), (REFERENCE_HOURS, 0)))
    windows = sliding_window_view(padded, REFERENCE_HOURS, axis=1)[:, 1:-1]
    return windows.transpose(1, 0, 2).reshape(-1, REFERENCE_HOURS)


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
    return ScoreHours(block.campaigns, centres, variances, spreads, sums, (size,))


class _Reference(NamedTuple):
    """What the scores of c campaigns are compared with: mean offset and distance, (2, c), and the
    variance of these in variances of one impression, (c,), infinite where nothing is known."""

    means: Floats
    variance: Floats


def _references(before: ScoreSums, ago: int) -> tuple[_Reference, _Reference]:
    """The level of hours before, (c, k), of which the first is so many hours ago, and where the
    straight line through them is now: weighted least squares, campaign by campaign."""
    counts, sums = before.counts, np.stack((before.offsets, before.distances))
    hours = np.arange(counts.shape[1]) - float(ago)
    total = counts.sum(axis=1)
    safe = np.where(total > 0, total, 1.0)
    middle = counts @ hours / safe
    centred = hours - middle[:, None]
    width = (counts * centred**2).sum(axis=1)
    bent = width > 0
    wide = np.where(bent, width, 1.0)
    means, slopes = sums.sum(axis=2) / safe, (sums * centred).sum(axis=2) / wide
    level = np.where(total > 0, 1 / safe, np.inf)
    line = np.where(bent, level + middle**2 / wide, np.inf)
    return _Reference(means, level), _Reference(means - slopes * middle, line)


class _Compared(NamedTuple):
    """Of the c campaigns that can be compared: their places among all, and their impressions, (c,);
    the shifts of their mean offsets, and of their mean distances relative to these, and the
    variance of both, (2, c)."""

    places: Integers
    counts: Floats
    shifts: Floats
    noise: Floats

    @classmethod
    def of(cls, now: ScoreSums, reference: _Reference, variances: Floats, spreads: Floats) -> Self:
        held = np.flatnonzero((now.counts > 0) & np.isfinite(reference.variance))
        counts = now.counts[held]
        scales = np.stack((np.ones(len(held)), np.maximum(spreads[held], LEAST)))
        means = np.stack((now.offsets, now.distances))[:, held] / counts
        noise = (variances[:, held] / scales**2 + _LEAST_VARIANCE) * (
            1 / counts + reference.variance[held]
        )
        return cls(held, counts, (means - reference.means[:, held]) / scales, noise)

    def joined(self, peers: Peers) -> "_Compared":
        """Those of all workers."""
        own = self.places, self.counts, self.shifts.T, self.noise.T
        places, counts, shifts, noise = peers.joined(*own)
        return _Compared(places, counts, shifts.T, noise.T)

    def sums(self, hours: Integers, size: int) -> Floats:
        """Over the campaigns of each of so many hours, of offset and distance: weights, weighted
        shifts, the variance of their sum by chance, and what they vary more than by chance,
        (size, 4, 2)."""
        weights = 1 / (self.noise + LEAST**2)
        amounts = (
            weights,
            weights * self.shifts,
            weights**2 * self.noise,
            weights * (self.shifts**2 - self.noise),
        )
        found = [[sum_at(hours, each, size) for each in amount] for amount in amounts]
        return np.moveaxis(np.array(found), 2, 0)

    def of_units(self) -> tuple[Floats, Floats]:
        """Shifts and variances of campaigns that are large enough and of groups of small ones."""
        units, size = _units(self.counts)
        share = self.counts / sum_at(units, self.counts, size)[units]
        shifts = [sum_at(units, share * each, size) for each in self.shifts]
        noise = [sum_at(units, share**2 * each, size) for each in self.noise]
        return np.stack(shifts), np.stack(noise)


class _MeanShift(NamedTuple):
    """The campaigns' mean shifts of offset and spread, their errors, (2,) each, and by how much the
    offsets' vary more than by chance. Without campaigns all are NaN."""

    means: Floats
    errors: Floats
    scatter: float

    @classmethod
    def of(cls, sums: Floats) -> Self:
        """From `_Compared.sums` of all campaigns."""
        total, shifts, noise, excess = sums
        if not total.any():
            return cls(np.full(2, np.nan), np.full(2, np.nan), np.nan)
        return cls(shifts / total, np.sqrt(noise) / total, float(excess[0] / total[0]))

    @property
    def is_suspicious(self) -> bool:
        """Whether the median campaign may have moved so far that it is a push."""
        moved = np.abs(self.means) > np.maximum(LEAST / 2, 0.5 * SURE * self.errors)
        return bool(moved.any() or self.scatter > LEAST**2)

    @property
    def sizes(self) -> Floats:
        """Of the shifts, and of what campaigns move by themselves, as deviations, (3,)."""
        return np.append(np.abs(self.means), np.sqrt(max(self.scatter, 0.0)))


def _usual(sizes: Floats) -> float:
    """Standard deviation of numbers of these sizes, some of them NaN."""
    known = np.concatenate((sizes[~np.isnan(sizes)], np.full(_USUAL_HOURS, _USUAL_SHIFT)))
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
    def of(cls, compared: _Compared) -> Self:
        """From the shifts of campaigns."""
        if not len(compared.counts):
            return cls(np.zeros(2), np.full(2, np.inf), 0.0, np.inf, 0.0)
        shifts, noise = compared.of_units()
        offset, distance = map(_Median.of, shifts, noise)
        return cls(
            np.array([offset.value, distance.value]),
            np.array([offset.error, distance.error]),
            offset.scatter,
            offset.scatter_error,
            offset.units,
        )

    def exceeds(self, usual: Floats) -> bool:
        """Whether it is sure, large enough to matter, and not what happens from hour to hour;
        `usual`: standard deviations of the hourly shifts of offset and distance, and of what
        campaigns move by themselves, (3,)."""
        if self.units < _FEWEST_UNITS:
            return False
        limits = np.maximum(np.maximum(SURE * self.errors, UNUSUAL * usual[:2]), LEAST)
        error = self.scatter_error + _SCATTER_ERROR * usual[2] ** 2 / np.sqrt(self.units)
        own = max(usual[2] ** 2 + SURE * error, (UNUSUAL * usual[0]) ** 2, LEAST**2)
        return bool((np.abs(self.moved) > limits).any() or self.scatter > own)


class Shifts(NamedTuple):
    """Those of an hour against the level of the hours before it, and against the line through
    them."""

    level: Shift
    line: Shift

    def is_push(self, usual: Floats) -> bool:
        """Whether one of them is no usual one, (2, 3), and the other does not contradict."""
        return self._of_level().exceeds(usual[0]) or self._of_line().exceeds(usual[1])

    def _of_level(self) -> Shift:
        """As far as the line may show it too: what goes on as it went before is no push."""
        level, line = self
        # A line needs two hours, which a few campaigns alone may have.
        chance = _CHANCE if line.units > level.units / 2 else np.inf
        allowed = np.sign(level.moved) * line.moved + chance * line.errors
        scatter = line.scatter + chance * line.scatter_error
        return level._replace(
            moved=np.maximum(np.minimum(np.abs(level.moved), allowed), 0.0),
            scatter=min(level.scatter, scatter),
        )

    def _of_line(self) -> Shift:
        """As far as the level shows it too: the step of an hour ago bends a line that then leads
        past the scores."""
        level, line = self
        sizes = np.minimum(np.abs(level.moved), np.abs(line.moved))
        return line._replace(
            moved=sizes * (np.sign(level.moved) == np.sign(line.moved)),
            scatter=min(level.scatter, line.scatter),
        )


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
    """The weighted median of shifts, its standard error, the variance that the median unit's
    distance from it has too much, the standard error of that, and how many shifts it stands on."""

    value: float
    error: float
    scatter: float
    scatter_error: float
    units: float

    @classmethod
    def of(cls, shifts: Floats, noise: Floats) -> Self:
        weights = 1 / (noise + LEAST**2)
        value, usual = _weighted_median(shifts, weights), _weighted_median(noise, weights)
        ratio = _TO_DEVIATION * _weighted_median(np.abs(shifts - value) / np.sqrt(noise), weights)
        total = weights.sum()
        units = float(total**2 / (weights**2).sum())
        # What campaigns move by themselves is noise of the median, too.
        error = np.sqrt(np.pi / 2 * (weights**2 * noise).sum()) / total * max(1.0, ratio)
        own = (ratio**2 - 1) * usual, _SCATTER_ERROR * usual / np.sqrt(units)
        return cls(value, float(error), *own, units)


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(reached, reached[-1] / 2))]])

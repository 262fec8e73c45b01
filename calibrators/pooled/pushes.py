"""Model pushes: the hours from which on another model scores are found from the scores alone, and
the history before them is carried over to the new scores, quantile by quantile. See
docs/model-pushes.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from math import ceil
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import GRID
from calibrators.bins.codecs import from_fixed
from calibrators.bins.table import BinsTable, History
from calibrators.maps.atlas import Atlas
from calibrators.peers import NotDivided
from calibrators.pooled.cells import CELLS, FARTHEST, Cells, coarse_at, coarse_cells, log_odds
from calibrators.pooled.change_points import negative_binomial
from calibrators.pooled.score_shifts import REFERENCE_HOURS, UNUSUAL, ScoreHours, ScoreSums
from calibrators.pooled.spline import AS_THEY_ARE, Stretches
from calibrators.samples import Floats, Integers, expit, scratch_of, sum_at

_SHARES: Floats = 1 / (1 + np.exp(-np.linspace(-6.5, 6.5, 27)))
"""Of the impressions, below the knots of a transport."""

_FEWEST_BEYOND = 8.0
"""Impressions beyond the outermost knots."""

_FLATTEST, _STEEPEST, _LEVEL = 0.4, 2.5, 0.02
"""Slopes of a transport beyond its knots, and up to which it is level there."""

_EDGE = 1e-3
"""Share of all impressions in which a quantile passes from a frequent score to the next."""

_NOWHERE: Floats = np.array([-1.0, 1.0])
"""Knots of the identity."""

_LEAST_STEP = 1e-3
_ROUNDS = 5
_HALF_LIFE = 12.0
"""Hours before a push in which what tells its old scores loses half its weight."""


@dataclass(frozen=True, slots=True, eq=False)
class Transport:
    """A map of log-odds that never falls, straight between its knots and beyond them, and what each
    campaign adds: (k,) and (c,). It is level where many new scores are one; a campaign whose
    impressions all have one, as where a model fails, has its `only` log-odds, (c,), NaN for others.

    Source: quantile matching, or optimal transport on the line (Villani, Topics in Optimal
    Transportation, 2003, 2.2); the campaigns' levels are normal, by empirical Bayes.
    """

    before: Floats
    after: Floats
    levels: Floats
    only: Floats

    @classmethod
    def of(
        cls,
        rows: Integers,
        values: Floats,
        old: Floats,
        new: Floats,
        size: int,
        latest: Floats | None = None,
    ) -> Self:
        """From the cells of `size` campaigns: the campaign of each, its log-odds, and impressions
        before and after, (m,) each. The identity where no campaign has both.

        latest : the log-odds after, (m,), for a map that is level where many of them are one; None
            where they are the same, for a map that passes from each to the next evenly.
        """
        edge = 1.0 if latest is None else _EDGE
        latest = values if latest is None else latest
        counts = np.stack([sum_at(rows, each, size) for each in (old, new)])
        held = np.asarray((counts > 0).all(axis=0))
        if not held.any():
            return cls(_NOWHERE, _NOWHERE, np.zeros(size), np.full(size, np.nan))
        safe = np.where(held, counts, 1.0)
        both = held * safe[0] * safe[1] / (safe[0] + safe[1])
        # Each campaign counts as much before as after, so that no mix of campaigns is a shift.
        weights = [
            each * (both / count)[rows] for each, count in zip((old, new), safe, strict=True)
        ]
        shares = _shares(float(safe[1][held].sum()))
        before = _quantiles(values, weights[0], shares, edge)
        moments = _Moments.of(rows, latest, new * held[rows], safe[1])
        only = np.where(_have_one(rows, new, counts[1]), moments.means, np.nan)
        found = cls(before, before, np.zeros(size), only)
        for _ in range(_ROUNDS):
            after = _quantiles(latest - found.levels[rows], weights[1], shares, edge)
            found = cls(_rising(before), after, found.levels, only)
            moved = sum_at(rows, old * found.common(values), size) / safe[0]
            residuals = np.where(held, moments.means - moved, 0.0)
            noise = moments.variances * (1 / safe[0] + 1 / safe[1])
            found = cls(found.before, after, _shrunk(residuals, noise, held), only)
        return found

    def common(self, values: Floats) -> Floats:
        """Log-odds, (m,), as the new model has those of a campaign that is like all others."""
        low, high = self._slopes
        inside = np.interp(values, self.before, self.after)
        below = np.minimum(values - self.before[0], 0.0) * low
        above = np.maximum(values - self.before[-1], 0.0) * high
        return np.asarray(inside + below + above)

    def __call__(self, values: Floats, rows: Integers) -> Floats:
        """Log-odds of these campaigns, (m,), -1 being any other, as the new model has them."""
        levels, only = np.append(self.levels, 0.0)[rows], np.append(self.only, np.nan)[rows]
        moved = np.clip(self.common(values) + levels, -FARTHEST, FARTHEST)
        return np.where(np.isnan(only), moved, only)

    def rising(self) -> "Transport":
        """One that has an inverse: what is level rises by the least step around its middle."""
        return replace(self, after=_rising(self.after), only=np.full(len(self.levels), np.nan))

    @property
    def _slopes(self) -> tuple[float, float]:
        """Below and above the knots: those of the outer quarters of the knots, none where these
        are of one score."""
        steps = max(len(self.before) // 4, 1)
        low = (self.after[steps] - self.after[0]) / (self.before[steps] - self.before[0])
        ends = self.after[-1] - self.after[-1 - steps], self.before[-1] - self.before[-1 - steps]
        slopes = np.array([low, ends[0] / ends[1]])
        low, high = (slopes > _LEVEL) * slopes.clip(_FLATTEST, _STEEPEST)
        return float(low), float(high)


_FEWEST_OF_ONE = 20.0
"""Impressions of one score that are no chance."""


def _have_one(rows: Integers, counts: Floats, totals: Floats) -> NDArray[np.bool_]:
    """Whether nearly all impressions of each campaign are in one of its cells, (c,)."""
    most = np.zeros(len(totals))
    np.maximum.at(most, rows, counts)
    return np.asarray((totals >= _FEWEST_OF_ONE) & (most >= 0.99 * totals))


class _Moments(NamedTuple):
    means: Floats
    variances: Floats

    @classmethod
    def of(cls, rows: Integers, values: Floats, counts: Floats, totals: Floats) -> Self:
        means = sum_at(rows, counts * values, len(totals)) / totals
        squares = sum_at(rows, counts * (values - means[rows]) ** 2, len(totals))
        # What few impressions show too little of is made good by all.
        usual = squares.sum() / max(float(counts.sum()), 1.0)
        return cls(means, (squares + 10 * usual) / (totals + 10))


def _shares(impressions: float) -> Floats:
    least = min(_FEWEST_BEYOND / impressions, 0.25)
    outer = np.minimum(_SHARES, 1 - _SHARES) < least
    return np.asarray(_SHARES[~outer])


def _quantiles(values: Floats, weights: Floats, shares: Floats, edge: float) -> Floats:
    # Impressions of one score, but for the last digits, have all ranks between their edges.
    ascending, places = np.unique(np.round(values, 6), return_inverse=True)
    weight = sum_at(places, weights, len(ascending))
    held, total = weight > 0, weight.sum()
    ends = np.cumsum(weight)
    edges = np.minimum(weight / 2, edge * total)
    ranks = np.stack((ends - weight + edges, ends - edges), axis=1)[held].reshape(-1)
    return np.asarray(np.interp(shares * total, ranks, np.repeat(ascending[held], 2)))


def _rising(values: Floats) -> Floats:
    """Values, (n,), made to rise by the least step at least, from the middle one outwards: those
    that tie stay around what they are."""
    middle = len(values) // 2
    steps = _LEAST_STEP * (np.arange(len(values)) - middle)
    even = values - steps
    above = np.maximum.accumulate(even[middle:])
    below = np.minimum.accumulate(even[middle::-1])[::-1]
    return np.asarray(np.concatenate((below[:-1], above)) + steps)


def _shrunk(residuals: Floats, noise: Floats, held: NDArray[np.bool_]) -> Floats:
    """The residuals as far as they are more than noise."""
    variance = 0.1
    for _ in range(20):
        weights = held / (noise + variance) ** 2
        excess = (weights * (residuals**2 - noise)).sum() / weights.sum()
        variance = max(float(excess), 1e-6)
    return np.asarray(residuals * variance / (variance + noise))


@dataclass(frozen=True)
class Transports:
    """From the hours before pushes to the newest hours, by which the old ones are moved.

    campaigns : their names, whose levels the transports have in this order.
    first : the first hour of the window, since 1970.
    pushes : the hours from which on another model scored, ascending, one at least, since 1970.
    steps : for each push, how what was scored before it and after the one before it, is moved.
    frequent : see `frequent_scores`.
    """

    campaigns: tuple[str, ...]
    first: int
    pushes: tuple[int, ...]
    steps: tuple[Transport, ...]
    frequent: Floats

    @classmethod
    def of(
        cls, blocks: Sequence[Cells], history: History, first: int, pushes: Sequence[int]
    ) -> Self:
        """From the cells of a window of the history; pushes counted from its first hour."""
        names = tuple(name for block in blocks for name in block.campaigns)
        sizes = np.cumsum([0, *(len(block) for block in blocks)])
        rows = np.concatenate(
            [block.hours.rows + size for block, size in zip(blocks, sizes, strict=False)]
        )
        values = np.concatenate([block.log_odds for block in blocks])
        length = blocks[0].hours.shape[1]
        new = _counts(blocks, 1.0 * (np.arange(length) >= pushes[-1]))
        frequent = frequent_scores(history, first + pushes[-1])
        latest = _snapped(values, frequent)
        steps = []
        for begun, ended in pairwise([0, *pushes]):
            since = ended - np.arange(length)
            weights = np.exp2(-since / _HALF_LIFE) * ((since > 0) & (since <= ended - begun))
            old = _counts(blocks, weights)
            # As many as they were, for what chance does in them.
            old *= _counts(blocks, 1.0 * (weights > 0)).sum() / max(float(old.sum()), 1e-300)
            steps.append(Transport.of(rows, values, old, new, len(names), latest))
        return cls(names, first, tuple(first + push for push in pushes), tuple(steps), frequent)

    def moved(self, blocks: Sequence[Cells]) -> Iterator[Cells]:
        """The same cells, what they held before the newest push being where it is scored now."""
        behind = 0
        for block in blocks:
            rows = block.hours.rows + behind
            moved = [step(block.log_odds, rows) for step in self.steps]
            places = _snapped(np.stack([*moved, block.log_odds]), self.frequent)
            hours = np.arange(block.hours.shape[1]) + self.first
            yield block.moved(places, np.searchsorted(self.pushes, hours, side="right"))
            behind += len(block)

    def atlas(self, atlas: Atlas, newest: int, stretches: Stretches) -> Atlas:
        """An atlas on the scale of the newest scores, that was fitted to scores up to the hour
        `newest`: the same probabilities for the same quantiles."""
        number = int(np.searchsorted(self.pushes, newest, side="right"))
        if number == len(self.steps):
            return atlas
        # Knots of one score would be the first of them.
        step = self.steps[number].rising()
        names = names_of_rows(atlas)
        of_row = np.array([self._rows.get(name, -1) for name in names], np.int64)

        def moved(rows: Integers, at: Floats) -> Floats:
            stretch = stretches.at(names, rows)
            return expit(stretch.back(step(stretch(log_odds(at)), of_row[rows])))

        return atlas.at_scores(moved)

    @cached_property
    def _rows(self) -> dict[str | None, int]:
        return {name: row for row, name in enumerate(self.campaigns)}


def names_of_rows(atlas: Atlas) -> list[str | None]:
    """The campaign of each map, None of those that several share."""
    return [None, *atlas.campaigns, *[None] * (len(atlas.columns()) - 1 - len(atlas))]


_MOST, _OFTEN = 0.5, 0.005


def frequent_scores(history: History, first: int) -> Floats:
    """Of each coarse cell in which, from an hour on, one cell of the grid has most impressions,
    and these are many: the log-odds of its score, (CELLS,), NaN for other cells.

    What a model that fails gives everybody, say. The mean of a coarse cell is that of all hours;
    this is where history and newest hours have to meet exactly.
    """
    sums = np.zeros((2, GRID.size))
    blocks = history.between(first, history.newest + 1)
    for table in chain.from_iterable(block.values() for block in blocks):
        sums += [sum_at(table.cells, from_fixed(table.sums[row]), GRID.size) for row in (0, 1)]
    counts, coarse = sums[0], coarse_cells()
    whole = sum_at(coarse, counts, CELLS)[coarse]
    often = (counts >= _MOST * whole) & (counts > _OFTEN * counts.sum())
    found = np.full(CELLS, np.nan)
    scores = log_odds(np.minimum(sums[1, often] / counts[often], 1.0))
    found[coarse_at(scores)] = found[coarse[often]] = scores
    return found


def _snapped(values: Floats, frequent: Floats) -> Floats:
    """Log-odds, of any shape, those near a frequent score as this."""
    near = frequent[coarse_at(values)]
    return np.where(np.isnan(near), values, near)


def _counts(blocks: Sequence[Cells], weights: NDArray[np.floating[Any]]) -> Floats:
    """Samples of all cells, hours having these weights, (h,)."""
    parts = [
        block.hours.weighted(np.broadcast_to(weights, block.hours.shape))[0] for block in blocks
    ]
    return np.concatenate(parts)


_COMPARED = 6
"""Hours before and after a shift whose outcomes are compared."""

_DRIFT = 0.01
"""Variance of a rate over some hours, relative to its square, whatever the scores do."""

_PRIOR = 10.0
"""Positives by which a campaign's rate is drawn to that of all."""

_CONTRADICTED = 0.5
"""Nats by which outcomes must speak for other traffic, not another model."""

_LIKE_BEFORE = 1.25
"""A shift is nothing new up to so many times one that was other traffic."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Impressions, positives that their scores predict, and positives, by campaign and hour,
    (c, h): they tell another model from other traffic.

    Another model scores the same impressions: their rate of positives stays. Other users, such as
    those of the morning, come with other scores and as much other a rate.
    """

    counts: Floats
    predicted: Floats
    positives: Floats

    @classmethod
    def of(cls, blocks: Sequence[Cells]) -> Self:
        """Of all blocks."""
        parts = [block.hours.outcomes(block.scores) for block in blocks]
        return cls(*map(np.vstack, zip(*parts, strict=True)))

    def follow_scores(self, hour: int, first: int, behind: int) -> bool:
        """Whether what came from an hour on, between first and behind, is other traffic."""
        before = slice(max(first, hour - _COMPARED), hour)
        after = slice(hour, min(behind, hour + _COMPARED))
        tables = (self.counts, self.predicted, self.positives)
        n, e, y = (table[:, before].sum(axis=1) for table in tables)
        shown, scored, seen = (table[:, after].sum(axis=1) for table in tables)
        held = (e > 0) & (shown > 0)
        everyone = (y.sum() + _PRIOR) / (e.sum() + _PRIOR)
        ratios = (y + _PRIOR * everyone) / (e + _PRIOR)
        stays = float((ratios * e * shown)[held] @ (1 / n[held]))
        follows = float(ratios[held] @ scored[held])
        found = np.array([follows, stays])
        size = np.full(2, 1 / _DRIFT)
        logs = negative_binomial(np.full(2, seen[held].sum()), found, size, size)
        return bool(logs[0] - logs[1] > _CONTRADICTED)


_GROWTH = 2.0
"""A running hour is looked at again when it has so many times the impressions of the last fit."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreScale:
    """What a refit found of the scale of its scores, and what tells whether it still holds.

    transports : how what is older is moved to the scale of the newest scores; None without a push.
    newest : the newest hour that the refit saw, since 1970.
    running : impressions of that hour, had it not ended; otherwise 0.
    stretches : of all log-odds in the others.
    """

    transports: Transports | None
    newest: int
    running: float
    _hours: ScoreHours
    _before: ScoreSums
    _since: int
    _usual: Floats
    _rows: dict[str, int]
    stretches: Stretches = AS_THEY_ARE

    @classmethod
    def of(cls, blocks: Sequence[Cells], history: History, hours: int, joined: bool = True) -> Self:
        """Of the cells of the last hours of a history, in blocks; see `ScoreHours.of`. Raises
        `NotDivided` where another model may score and several workers have the blocks."""
        first, peers = history.newest + 1 - hours, history.peers
        found = ScoreHours.of(blocks, peers, joined)
        pushes, usual = _believed(found, blocks)
        ended = ceil(history.as_of) == history.as_of
        behind = hours if ended or (pushes and pushes[-1] == hours - 1) else hours - 1
        since = max([behind - REFERENCE_HOURS, 0, *pushes[-1:]])
        whole = found.whole()
        return cls(
            Transports.of(blocks, history, first, pushes) if pushes else None,
            history.newest,
            0.0 if ended else float(peers.joined(found.sums.counts[:, -1])[0].sum()),
            whole,
            ScoreSums(*peers.joined(*found.between(since, behind), to_first=True)),
            first + since,
            usual,
            {name: row for row, name in enumerate(whole.campaigns)},
        )

    @property
    def pushes(self) -> tuple[int, ...]:
        """The hours from which on another model scored, ascending, since 1970."""
        return () if self.transports is None else self.transports.pushes

    def carried_over(self, blocks: Sequence[Cells]) -> Sequence[Cells]:
        """The same blocks on the newest scale; as they are where there was no push."""
        if self.transports is None:
            return blocks
        return scratch_of(blocks).kept(self.transports.moved(blocks))

    def on_scale(self, atlas: Atlas | None, as_of: float) -> Atlas | None:
        """Maps that were fitted as of a moment, in hours since 1970, on the newest scale."""
        if atlas is None or self.transports is None:
            return atlas
        return self.transports.atlas(atlas, ceil(as_of) - 1, self.stretches)

    def changed(self, hour: int, running: BinsTable) -> bool:
        """Whether to fit again before the hour is over, given its bins up to now: because another
        model scores, or because much more is known of one that came in this hour."""
        count = float(running.totals()[0].sum())
        if hour == self.newest and count < _GROWTH * self.running:
            return False
        if self.pushes and self.pushes[-1] == hour:
            return count > 0
        shifts = self._hours.shifts(self._sums(running), self._before, hour - self._since)
        return shifts.is_push(self._usual)

    def _sums(self, table: BinsTable) -> ScoreSums:
        scores, _, weights, places = table.samples()
        names = [self._rows.get(name, -1) for name in table.campaigns]
        rows = np.array(names, np.int64)[places]
        known = rows >= 0
        rows, weights, size = rows[known], weights[known], len(self._rows)
        stretch = self.stretches.at(table.campaigns, places[known])
        offsets = self._hours.offsets(rows, stretch(log_odds(scores[known])))
        values = (weights, weights * offsets, weights * np.abs(offsets))
        return ScoreSums(*(sum_at(rows, value, size) for value in values))


def _believed(found: ScoreHours, blocks: Sequence[Cells]) -> tuple[list[int], Floats]:
    """The hours of pushes that outcomes do not contradict, ascending, and what shifts are usual,
    those among them that were other traffic."""
    shifted, usual = found.pushes_and_usual()
    kept: list[int] = []
    if not shifted:
        return kept, usual
    if found.peers.count > 1:
        raise NotDivided("another model may score")
    outcomes = Outcomes.of(blocks)
    for hour, behind in pairwise([*shifted, outcomes.counts.shape[1]]):
        shifts = found.shifts_of(hour, max(kept, default=0))
        if not shifts.is_push(usual):
            continue
        if outcomes.follow_scores(hour, max(kept, default=0), behind):
            like = np.stack([np.append(np.abs(each.moved), 0.0) for each in shifts])
            usual = np.maximum(usual, _LIKE_BEFORE * like / UNUSUAL)
        else:
            kept.append(hour)
    return kept, usual

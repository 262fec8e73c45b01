"""Model pushes: the hours from which on another model scores are found from the scores alone, and
the history before them is carried over to the new scores. See docs/model-pushes.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Self

import numpy as np

from calibrators.bins.history import History
from calibrators.bins.table import BinsTable
from calibrators.maps.atlas import Atlas
from calibrators.pooled.cells import Cells
from calibrators.pooled.change_points import negative_binomial
from calibrators.pooled.quantile_matching import Transports
from calibrators.pooled.score_shifts import REFERENCE_HOURS, UNUSUAL, ScoreHours, ScoreSums
from calibrators.samples import Floats, sum_at

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
        hours = [block.hours for block in blocks]
        return cls(
            np.vstack([each.expected(np.ones(each.sizes.sum())) for each in hours]),
            np.vstack(
                [each.expected(block.scores) for each, block in zip(hours, blocks, strict=True)]
            ),
            np.vstack([each.observed() for each in hours]),
        )

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
    """

    transports: Transports | None
    newest: int
    running: float
    _hours: ScoreHours
    _before: ScoreSums
    _usual: Floats
    _rows: dict[str, int]

    @classmethod
    def of(cls, blocks: tuple[Cells, ...], history: History, hours: int) -> Self:
        """Of the cells of the last hours of a history, in blocks."""
        first = history.newest + 1 - hours
        found = ScoreHours.of(blocks)
        pushes, usual = _believed(found, blocks)
        ended = ceil(history.as_of) == history.as_of
        behind = hours if ended or (pushes and pushes[-1] == hours - 1) else hours - 1
        since = max([behind - REFERENCE_HOURS, 0, *pushes[-1:]])
        return cls(
            Transports.of(blocks, first, pushes) if pushes else None,
            history.newest,
            0.0 if ended else float(found.sums.counts[:, -1].sum()),
            # What is not needed any more is large.
            replace(found, sums=ScoreSums(*(np.empty((0, 0)) for _ in range(3)))),
            found.between(since, behind),
            usual,
            {name: row for row, name in enumerate(found.campaigns)},
        )

    @property
    def pushes(self) -> tuple[int, ...]:
        """The hours from which on another model scored, ascending, since 1970."""
        return () if self.transports is None else self.transports.pushes

    def carried_over(self, blocks: tuple[Cells, ...]) -> tuple[Cells, ...]:
        """The same blocks on the newest scale; as they are where there was no push."""
        return blocks if self.transports is None else self.transports.moved(blocks)

    def on_scale(self, atlas: Atlas | None, as_of: float) -> Atlas | None:
        """Maps that were fitted as of a moment, in hours since 1970, on the newest scale."""
        if atlas is None or self.transports is None:
            return atlas
        return self.transports.atlas(atlas, ceil(as_of) - 1)

    def changed(self, hour: int, running: BinsTable) -> bool:
        """Whether to fit again before the hour is over, given its bins up to now: because another
        model scores, or because much more is known of one that came in this hour."""
        count = float(running.totals()[0].sum())
        if hour == self.newest and count < _GROWTH * self.running:
            return False
        if self.pushes and self.pushes[-1] == hour:
            return count > 0
        shift = self._hours.shift(self._sums(running), self._before)
        return shift.is_push(self._usual)

    def _sums(self, table: BinsTable) -> ScoreSums:
        scores, _, weights, places = table.samples()
        names = [self._rows.get(name, -1) for name in table.campaigns]
        rows = np.array(names, np.int64)[places]
        known = rows >= 0
        rows, weights, size = rows[known], weights[known], len(self._rows)
        offsets = self._hours.offsets(rows, scores[known])
        values = (weights, weights * offsets, weights * np.abs(offsets))
        return ScoreSums(*(sum_at(rows, value, size) for value in values))


def _believed(found: ScoreHours, blocks: Sequence[Cells]) -> tuple[list[int], Floats]:
    """The hours of pushes that outcomes do not contradict, ascending, and what shifts are usual,
    those among them that were other traffic."""
    shifted, usual = found.pushes(), found.usual
    kept: list[int] = []
    if not shifted:
        return kept, usual
    outcomes = Outcomes.of(blocks)
    for hour, behind in pairwise([*shifted, outcomes.counts.shape[1]]):
        first = max([hour - REFERENCE_HOURS, 0, *kept[-1:]])
        shift = found.shift(found.between(hour, hour + 1), found.between(first, hour))
        if not shift.is_push(usual):
            continue
        if outcomes.follow_scores(hour, max(kept, default=0), behind):
            usual = np.maximum(usual, _LIKE_BEFORE * np.abs(shift.moved) / UNUSUAL)
        else:
            kept.append(hour)
    return kept, usual

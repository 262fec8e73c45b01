"""Model pushes: the hours from which on another model scores are found from the scores alone, and
the history before them is carried over to the new scores. See docs/model-pushes.md.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Self

import numpy as np

from calibrators.bins.history import History
from calibrators.bins.table import BinsTable
from calibrators.maps.atlas import Atlas
from calibrators.pooled.cells import Cells
from calibrators.pooled.quantile_matching import Transports
from calibrators.pooled.score_shifts import REFERENCE_HOURS, ScoreHours, ScoreSums
from calibrators.samples import Floats, sum_at

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
        pushes = found.pushes()
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
            found.usual,
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

"""The hour that maps are judged by."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from calibrators.bins import Bins, cell_means
from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.guard.evidence import Evidence, log_odds_of
from calibrators.samples import Floats


@dataclass(frozen=True, eq=False)
class NewestHour:
    """Its bins in blocks, no campaign in two of them, and the evidence of each block; what several
    comparisons ask for is worked out once."""

    tables: tuple[BinsTable, ...]
    evidence: tuple[Evidence, ...]
    _known: dict[CalibrationMap, list[Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Iterable[BinsTable]) -> Self:
        """Of the blocks' tables."""
        listed = tuple(tables)
        return cls(listed, tuple(map(Evidence.of_table, listed)))

    @cached_property
    def campaigns(self) -> tuple[str, ...]:
        """Those of all blocks, in their order."""
        return tuple(name for table in self.tables for name in table.campaigns)

    @cached_property
    def total(self) -> Bins:
        """The bins of all campaigns together."""
        return Bins.merge(table.total() for table in self.tables)

    def log_likelihoods(self, forecaster: CalibrationMap) -> list[Floats]:
        """Of the outcomes of each block's campaigns, (c,), by one map for all of them."""
        if forecaster not in self._known:
            self._known[forecaster] = [
                each.log_likelihood(log_odds_of(forecaster(each.scores))) for each in self.evidence
            ]
        return self._known[forecaster]

    def gains(self, better: CalibrationMap, worse: CalibrationMap) -> Floats:
        """How much the outcomes of each campaign, (c,), speak for one map against another, in
        nats."""
        ours, theirs = map(self.log_likelihoods, (better, worse))
        return np.concatenate([np.empty(0), *map(np.subtract, ours, theirs)])

    def without(self, campaigns: Iterable[str]) -> Evidence:
        """Of all campaigns but these, as if they were one."""
        cells, sums = self.total.cells, self.total.sums.copy()
        for table in self.tables:
            for campaign in campaigns:
                bins = table.bins(campaign)
                sums[:, np.searchsorted(cells, bins.cells)] -= bins.sums
        scores, outcomes, weights = cell_means(cells, sums)
        return Evidence(scores, outcomes, weights, np.zeros(len(scores), np.int64), 1)

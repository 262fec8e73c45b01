"""The refit: from the bins of a window to the maps of all campaigns, by service and backtest."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import compress
from math import ceil
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import Bins
from calibrators.bins.table import BinsTable, History
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import CalibrationMap, MapColumns
from calibrators.methods.calibrator import BegunFits, Calibrator
from calibrators.peers import ALONE, Peers
from calibrators.samples import Floats

Reason = Literal["few_samples", "few_positives"]


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """How much a campaign (or the target) needs in the window to get a map of its own."""

    min_samples: float = 100
    min_positives: float = 10

    def missing(self, samples: float, positives: float) -> Reason | None:
        """What there is too little of, if anything."""
        if samples < self.min_samples or samples <= 0:
            return "few_samples"
        return "few_positives" if positives < self.min_positives else None

    def enough(self, samples: Floats, positives: Floats) -> NDArray[np.bool_]:
        """Of which of many nothing is missing, shape (c,)."""
        few_samples = (samples < self.min_samples) | (samples <= 0)
        return ~few_samples & ~(positives < self.min_positives)


class ScaleOfScores(Protocol):
    """What a method knows of the scale of the scores, which another model changes."""

    @property
    def pushes(self) -> Sequence[int]:
        """The hours from which on another model scored, ascending, since 1970."""

    def on_scale(self, atlas: Atlas | None, as_of: float) -> Atlas | None:
        """Maps that were fitted as of a moment, in hours since 1970, on the newest scale."""

    def changed(self, hour: int, running: BinsTable) -> bool:
        """Whether to fit again before the hour is over, given its bins up to now."""


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What a refit gives.

    atlas : the maps to publish.
    trial : the same, as they would be if the newest hour of the history were not known: what the
        guard tests on that hour. None where it was not asked for.
    skipped : the campaigns of the window that got no map of their own, with the reason: the
        target's map serves them, or the identity where the target itself has too little.
    memory : what the next refit of the same method may start from; it changes no result beyond the
        method's tolerance.
    notes : numbers for the report, as JSON has them.
    scale : that of the newest scores, of methods that look whether another model scores.
    set_aside : campaigns from whose newest hour, one of bots or of an outage, no map has learnt.
    """

    atlas: Atlas
    trial: Atlas | None = None
    skipped: Mapping[str, Reason] = field(default_factory=dict)
    memory: object = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    scale: ScaleOfScores | None = None
    set_aside: Set[str] = frozenset()


class BegunRefit:
    """`refit` of a window that comes in blocks, none with a campaign of another's: of each only
    what the maps need is kept, and one need be in memory at a time."""

    def __init__(self, calibrator: Calibrator, sufficiency: Sufficiency) -> None:
        self._calibrator, self._sufficiency = calibrator, sufficiency
        self._names: list[str] = []
        self._begun: list[BegunFits] = []
        self._totals: list[Bins] = []
        self._skipped: dict[str, Reason] = {}

    def add(self, block: BinsTable) -> None:
        """Take in a block."""
        self._totals.append(block.total())
        totals = block.totals()
        enough = self._sufficiency.enough(*totals)
        if not enough.all():
            lacking = (column[~enough].tolist() for column in totals)
            names = compress(block.campaigns, (~enough).tolist())
            for name, *has in zip(names, *lacking, strict=True):
                reason = self._sufficiency.missing(*has)
                if reason is not None:
                    self._skipped[name] = reason
            block = block.chosen(enough)
        self._names.extend(block.campaigns)
        self._begun.append(self._calibrator.begin_table(block))

    def finish(self, peers: Peers = ALONE) -> Fitted:
        """The maps, which lean on that of all campaigns together; of several workers the first has
        the maps of all, the others their own."""
        own = Bins.merge(self._totals)
        total = Bins.merge(Bins.of_sums(*part) for part in peers.gather([(own.cells, own.sums)]))
        target_map = _target_map(total, self._calibrator, self._sufficiency)
        return self.finish_below(target_map, peers)

    def finish_below(self, target_map: CalibrationMap | None, peers: Peers = ALONE) -> Fitted:
        """The maps, which lean on this one."""
        own = MapColumns.end_to_end([finish(target_map) for finish in self._begun])
        of_all = peers.joined(own.lengths, own.knots, own.values, to_first=True)
        first = MapColumns.of_maps([target_map or CalibrationMap.identity()])
        columns = MapColumns.end_to_end([first, MapColumns(*of_all)])
        atlas = Atlas.of_columns(peers.names(self._names), columns, target_map is not None)
        reasons = peers.names([*self._skipped.values()])
        skipped = zip(peers.names([*self._skipped]), cast(list[Reason], reasons), strict=True)
        return Fitted(atlas, skipped=dict(skipped))


def refit(window: BinsTable, calibrator: Calibrator, sufficiency: Sufficiency) -> Fitted:
    """Fit the target's map on all campaigns together, then each campaign's, leaning on it.

    Source: the hourly update of Deng et al., section 5.1; the levels are ours.
    """
    begun = BegunRefit(calibrator, sufficiency)
    begun.add(window)
    return begun.finish()


def refit_campaigns(
    in_force: Atlas,
    window: BinsTable,
    campaigns: Iterable[str],
    calibrator: Calibrator,
    sufficiency: Sufficiency,
) -> Fitted:
    """Fit these campaigns only; every other map, and the target's, stays as it is in force.

    A named campaign that has too little in the window loses its map.
    """
    named = set(campaigns)
    chosen = window.select(named)
    begun = BegunRefit(calibrator, sufficiency)
    begun.add(chosen)
    fitted = begun.finish_below(in_force.target_map)
    absent: dict[str, Reason] = dict.fromkeys(named.difference(chosen.campaigns), "few_samples")
    maps = {name: fitted.atlas.map_of(name) for name in fitted.atlas.campaigns}
    return Fitted(in_force.with_own(maps, named), skipped=absent | dict(fitted.skipped))


def _target_map(
    total: Bins, calibrator: Calibrator, sufficiency: Sufficiency
) -> CalibrationMap | None:
    if sufficiency.missing(total.total_count, total.total_positives):
        return None
    ratio = total.total_positives / total.total_score if total.total_score > 0 else 1.0
    return calibrator.fit_bins(total, CalibrationMap.proportional(ratio))


class Method(Protocol):
    """Fits the maps of a target from its history; holds its settings only."""

    @property
    def name(self) -> str:
        """As settings and reports name it."""

    @property
    def hours(self) -> int:
        """How many hours before the moment it looks at."""

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """The maps as of the history's moment; `memory` is that of an earlier refit, or None."""


@dataclass(frozen=True, slots=True)
class PerCampaign:
    """The sum over a window, `refit` of it.

    Source: the hourly update of Deng et al., section 5.1.

    Parameters: calibrator; sufficiency, what a campaign needs for a map of its own; hours of the
    window.
    """

    calibrator: Calibrator
    sufficiency: Sufficiency = field(default_factory=Sufficiency)
    hours: int = 24

    @property
    def name(self) -> str:
        """The calibrator's."""
        return self.calibrator.name

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """See `Method`; the trial is the refit of an hour before."""
        behind = ceil(history.as_of)
        ends = (behind, behind - 1) if trial else (behind,)
        windows = [BegunRefit(self.calibrator, self.sufficiency) for _ in ends]
        for tables in history.sums(*(range(end - self.hours, end) for end in ends)):
            for window, table in zip(windows, tables, strict=True):
                window.add(table)
        fitted, *before = (window.finish(history.peers) for window in windows)
        return Fitted(fitted.atlas, before[0].atlas if before else None, fitted.skipped)

"""The refit: from the bins of a window to the maps of all campaigns.

The service's worker and the offline backtest both call this one function.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from calibrators.atlas import Atlas
from calibrators.bins import Bins
from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator

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


@dataclass(frozen=True, slots=True)
class Refit:
    """A new atlas, and the campaigns of the window that got no map of their own, with the reason:
    the target's map serves them, or the identity where the target itself has too little."""

    atlas: Atlas
    skipped: Mapping[str, Reason]


def refit(window: BinsTable, calibrator: Calibrator, sufficiency: Sufficiency) -> Refit:
    """Fit the target's map on all campaigns together, then each campaign's, leaning on it.

    Source: the hourly update of Deng et al., section 5.1; the levels are ours.
    """
    target_map = _target_map(window.total(), calibrator, sufficiency)
    maps, skipped = _campaign_maps(window, target_map, calibrator, sufficiency)
    return Refit(Atlas.build(maps, target_map), skipped)


def refit_campaigns(
    in_force: Atlas,
    window: BinsTable,
    campaigns: Iterable[str],
    calibrator: Calibrator,
    sufficiency: Sufficiency,
) -> Refit:
    """Fit these campaigns only; every other map, and the target's, stays as it is in force.

    A named campaign that has too little in the window loses its map.
    """
    named = set(campaigns)
    chosen = window.select(named)
    maps, skipped = _campaign_maps(chosen, in_force.target_map, calibrator, sufficiency)
    for campaign in named.difference(chosen.campaigns):
        skipped[campaign] = "few_samples"
    kept = {name: in_force.map_of(name) for name in in_force.campaigns if name not in named}
    return Refit(Atlas.build(kept | maps, in_force.target_map), skipped)


def _campaign_maps(
    window: BinsTable,
    target_map: CalibrationMap | None,
    calibrator: Calibrator,
    sufficiency: Sufficiency,
) -> tuple[dict[str, CalibrationMap], dict[str, Reason]]:
    maps: dict[str, CalibrationMap] = {}
    skipped: dict[str, Reason] = {}
    totals = zip(window, *window.totals(), strict=True)
    for (campaign, bins), samples, positives in totals:
        reason = sufficiency.missing(samples, positives)
        if reason is None:
            maps[campaign] = calibrator.fit_bins(bins, target_map)
        else:
            skipped[campaign] = reason
    return maps, skipped


def _target_map(
    total: Bins, calibrator: Calibrator, sufficiency: Sufficiency
) -> CalibrationMap | None:
    if sufficiency.missing(total.total_count, total.total_positives):
        return None
    ratio = total.total_positives / total.total_score if total.total_score > 0 else 1.0
    return calibrator.fit_bins(total, CalibrationMap.proportional(ratio))

"""The refit: from the bins of a window to the maps of all campaigns.

The service's worker and the offline backtest both call this one function.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from calibrators.atlas import Atlas
from calibrators.bins import Bins
from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.campaign_rows import CampaignRows
from calibrators.map_blocks import MapBlocks
from calibrators.map_columns import MapColumns
from calibrators.sufficiency import Reason, Sufficiency


@dataclass(frozen=True, slots=True)
class Refit:
    """A new atlas, and the campaigns of the window that got no map of their own, with the reason:
    the target's map serves them, or the identity where the target itself has too little."""

    atlas: Atlas
    skipped: Mapping[str, Reason]


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Maps of campaigns in the order of their names, and those that got none."""

    campaigns: tuple[str, ...]
    maps: MapColumns
    skipped: dict[str, Reason]


def refit(window: BinsTable, calibrator: Calibrator, sufficiency: Sufficiency) -> Refit:
    """Fit the target's map on all campaigns together, then each campaign's, leaning on it.

    Source: the hourly update of Deng et al., section 5.1; the levels are ours.
    """
    return refit_blocks([window], window.total(), calibrator, sufficiency)


def refit_blocks(
    blocks: Iterable[BinsTable], total: Bins, calibrator: Calibrator, sufficiency: Sufficiency
) -> Refit:
    """`refit` of a window that comes in blocks, none with a campaign of another's: only one of
    them needs to be in memory at a time. `total` are the bins of all campaigns together."""
    target_map = _target_map(total, calibrator, sufficiency)
    fitted = _fitted(blocks, target_map, calibrator, sufficiency)
    first = MapColumns.of_maps([target_map or CalibrationMap.identity()])
    columns = MapColumns.end_to_end([first, fitted.maps])
    blocks_of_maps = MapBlocks(columns.lengths, columns.knots, columns.values)
    atlas = Atlas(CampaignRows(fitted.campaigns), blocks_of_maps, target_map is not None)
    return Refit(atlas, fitted.skipped)


def refit_campaigns(
    in_force: Atlas,
    blocks: Iterable[BinsTable],
    campaigns: Iterable[str],
    calibrator: Calibrator,
    sufficiency: Sufficiency,
) -> Refit:
    """Fit these campaigns only; every other map, and the target's, stays as it is in force.

    The window comes in blocks as in `refit_blocks`.

    A named campaign that has too little in the window loses its map.
    """
    named = set(campaigns)
    chosen = BinsTable.merge(block.select(named) for block in blocks)
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


def _fitted(
    blocks: Iterable[BinsTable],
    target_map: CalibrationMap | None,
    calibrator: Calibrator,
    sufficiency: Sufficiency,
) -> _Fitted:
    names: list[str] = []
    maps: list[MapColumns] = []
    skipped: dict[str, Reason] = {}
    for block in blocks:
        enough = sufficiency.enough(*block.totals())
        skipped |= _reasons(block, ~enough, sufficiency)
        chosen = block if enough.all() else block.chosen(enough)
        names.extend(chosen.campaigns)
        maps.append(calibrator.fit_table(chosen, target_map))
    order = sorted(range(len(names)), key=names.__getitem__)
    in_order = MapColumns.end_to_end(maps).taken(np.array(order, np.int64))
    return _Fitted(tuple(names[place] for place in order), in_order, skipped)


def _reasons(
    block: BinsTable, without: NDArray[np.bool_], sufficiency: Sufficiency
) -> dict[str, Reason]:
    totals = (column[without].tolist() for column in block.totals())
    names = compress(block.campaigns, without.tolist())
    found = ((name, sufficiency.missing(*has)) for name, *has in zip(names, *totals, strict=True))
    return {name: reason for name, reason in found if reason is not None}


def _target_map(
    total: Bins, calibrator: Calibrator, sufficiency: Sufficiency
) -> CalibrationMap | None:
    if sufficiency.missing(total.total_count, total.total_positives):
        return None
    ratio = total.total_positives / total.total_score if total.total_score > 0 else 1.0
    return calibrator.fit_bins(total, CalibrationMap.proportional(ratio))

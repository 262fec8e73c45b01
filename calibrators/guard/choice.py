"""The maps of all campaigns after the verdicts, and the atlas they make."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.atlas import Atlas
from calibrators.calibration_map import CalibrationMap
from calibrators.campaign_rows import CampaignRows
from calibrators.guard.bounding import Moved
from calibrators.guard.felt import felt_by
from calibrators.guard.map_rows import columns_of
from calibrators.guard.newest_hour import NewestHour
from calibrators.guard.verdict import Verdict
from calibrators.map_blocks import MapBlocks
from calibrators.map_columns import MapColumns
from calibrators.samples import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """For each campaign that has a map or had one, in order of names: the map chosen, whether it
    is its own or the parent's, (c,), and the row of the atlas in force that served it, (c,)."""

    campaigns: tuple[str, ...]
    maps: MapColumns
    own: NDArray[np.bool_]
    served: Integers

    @classmethod
    def of(
        cls,
        candidate: Atlas,
        in_force: Atlas,
        refused: Mapping[str, Verdict],
        parent: CalibrationMap,
    ) -> Self:
        """By the verdicts: candidate, map in force or parent's."""
        campaigns = tuple(sorted({*candidate.campaigns, *in_force.campaigns}))
        served = in_force.rows(campaigns)
        kept = _marked(campaigns, refused, "kept")
        offered = np.where(_marked(campaigns, refused, "parent"), 0, candidate.rows(campaigns))
        rows = np.where(kept, served, offered)
        own = rows > 0
        places = np.where(own, rows + np.where(kept, len(candidate) + 1, 0), 0)
        # In place of the candidate's row 0 stands the parent that goes out.
        ours = columns_of(candidate).taken(np.arange(1, len(candidate) + 1))
        sources = (MapColumns.of_maps([parent]), ours, columns_of(in_force))
        return cls(campaigns, MapColumns.end_to_end(sources).taken(places), own, served)

    def felt(self, hour: NewestHour, moved: Moved) -> set[str]:
        """Of the campaigns whose maps were moved, those to which that makes a difference."""
        names = [self.campaigns[place] for place in moved.numbers.tolist()]
        return felt_by(hour, names, self.maps.taken(moved.numbers), moved.maps)

    def atlas(self, moved: Moved, target_map: CalibrationMap | None) -> Atlas:
        """The atlas of the chosen maps, those that had to be moved in place of what they were."""
        places = np.arange(len(self.campaigns))
        places[moved.numbers] = len(places) + np.arange(len(moved.numbers))
        held = self.own.copy()
        held[moved.numbers] = True
        both = MapColumns.end_to_end((self.maps, moved.maps))
        first = MapColumns.of_maps([target_map or CalibrationMap.identity()])
        columns = MapColumns.end_to_end((first, both.taken(places[held])))
        blocks = MapBlocks(columns.lengths, columns.knots, columns.values)
        names = tuple(compress(self.campaigns, held.tolist()))
        return Atlas(CampaignRows(names), blocks, target_map is not None)


def _marked(
    campaigns: tuple[str, ...], refused: Mapping[str, Verdict], verdict: Verdict
) -> NDArray[np.bool_]:
    return np.array([refused.get(name) == verdict for name in campaigns], dtype=bool)

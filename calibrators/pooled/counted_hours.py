"""Which hours count in the levels."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.pooled.campaign_hours import CampaignHours, complete_hours
from calibrators.pooled.outages import SaidByHour, outage_hours
from calibrators.samples import Floats


class CountedHours(NamedTuple):
    """The hours that count.

    Attributes
    ----------
    places : of all hours, those up to the last that counts.
    counted : (h,), of these, those that are no outage.
    ages : (h,), as of the end of the last of them: in an outage, time stands still.
    frozen : whether the hours after them are an outage.
    """

    places: slice
    counted: NDArray[np.bool_]
    ages: Floats
    frozen: bool

    @classmethod
    def of(cls, blocks: Iterable[CampaignHours], ages: Floats) -> "CountedHours":
        """Leaves out what is incomplete, and tracking outages."""
        complete = complete_hours(ages)
        out = outage_hours(SaidByHour.of(blocks, len(ages)))[complete]
        behind = int(np.flatnonzero(~out)[-1]) + 1 if not out.all() else 0
        kept = ages[:behind]
        frozen = behind < len(out)
        stood_still = kept[-1:].sum() - 0.5 if frozen else 0.0
        return cls(slice(0, behind), ~out[:behind], kept - stood_still, frozen)

    def of_block(self, block: CampaignHours) -> CampaignHours:
        """A block in these hours, those of an outage without weight."""
        chosen = block.chosen(self.places)
        return chosen._replace(weights=chosen.weights * self.counted)

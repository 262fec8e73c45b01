"""The levels of campaigns from plain tables."""

import numpy as np

from calibrators.pooled.change_points import hour_weights
from calibrators.pooled.levels import CountedHours, LevelHierarchy, Levels
from calibrators.pooled.outliers import CampaignHours
from calibrators.samples import Floats


def fit_levels(
    expected: Floats,
    observed: Floats,
    ages: Floats,
    *,
    weights: Floats | None = None,
    begun: Floats | None = None,
    **own: object,
) -> Levels:
    """Those of one block; without weights, those of `hour_weights`."""
    found = hour_weights(expected, observed, ages)
    if weights is None:
        weights, begun = found.weights, found.begun
    block = CampaignHours.of(expected, observed, **own)  # type: ignore[arg-type]
    block = block._replace(weights=weights, begun=block.begun if begun is None else begun)
    count = int(block.groups.max(initial=-1)) + 1
    hours = CountedHours.of(found.outage, np.asarray(ages))
    return LevelHierarchy.of([block], hours, count).levels([block])

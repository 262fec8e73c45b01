"""What is known of logged clicks at a moment: the join with their conversions."""

import numpy as np

from app.click_log.logged_clicks import LoggedClicks
from app.click_log.logged_conversions import LoggedConversions
from pccem import Attribution, attribute


def attributed(
    clicks: LoggedClicks, conversions: LoggedConversions, *, window: float, as_of: float
) -> Attribution:
    """One entry per click, from these conversions and those in the clicks' own rows.

    Conversions of clicks that were not read are left out: `orphans` is 0, see `Strays`.
    """
    known = conversions.with_others(clicks.settled)
    rows = known.rows_among(clicks.click_ids)
    met = rows >= 0
    return attribute(
        np.arange(len(clicks)),
        clicks.clicks.clicked_at,
        rows[met].astype(np.int64),
        known.converted_at[met],
        window=window,
        as_of=as_of,
    )

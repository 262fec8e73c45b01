"""Conversions that count for no click: orphans, early and late ones."""

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from app.click_log.columns import CLICK_ID, CLICKED_AT, SCORE
from app.click_log.partitions import CLICKS, partitions_between
from app.click_log.reading import read_conversions
from app.click_log.sampling import Sample
from app.click_log.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Strays:
    """Of so many conversions: those without a click, before their click, and behind its window."""

    conversions: int
    orphans: int
    early: int
    late: int


def count_strays(
    shelf: Shelf, target: str, first: float, behind: float, *, window: float, reach: float
) -> Strays:
    """Judge the target's conversions with occurred_at in [first, behind).

    Clicks are looked for from `reach` seconds before the first of them. A click without a score
    for the target is none. One hour of clicks at a time is in memory.
    """
    conversions = read_conversions(shelf, target, first, behind, Sample())
    delays = np.full(len(conversions), np.nan)
    wanted = {CLICK_ID, CLICKED_AT, SCORE + target}
    listing = shelf.list_days(partitions_between(CLICKS, first - reach, behind))
    for parts in reversed(listing.values()):
        for table in shelf.read(parts, wanted.__contains__).tables:
            if SCORE + target not in table.schema.names:
                continue
            scored = table.filter(pc.is_valid(table[SCORE + target]))
            rows = conversions.rows_among(scored[CLICK_ID])
            met = rows >= 0
            delays[met] = conversions.converted_at[met] - scored[CLICKED_AT].to_numpy()[rows[met]]
    return Strays(
        conversions=len(conversions),
        orphans=int(np.isnan(delays).sum()),
        early=int((delays < 0.0).sum()),
        late=int((delays >= window).sum()),
    )
